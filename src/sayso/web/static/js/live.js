// One stream a browser, not a tab: HTTP/1.1 allows six connections, and the seventh tab would hang.
// The tab that holds the lock listens, and tells the others; when it closes, another one gets it.
import { base, find } from "./dom.js";

const NAME = `sayso-live${base}`;
const AGAIN_MS = 10000;
const WORDS = { on: "live", lost: "reconnecting", off: "connecting" };

/** What happens, for every tab: `hold` and `list`. */
export const happenings = new EventTarget();
/** @type {keyof typeof WORDS} */
let state = "off";
/** @type {BroadcastChannel | null} */
let channel = null;

/** @param {{type: string, data: any}} message */
function hear({ type, data }) {
  if (type === "hello") {
    if (state === "on") channel?.postMessage({ type: "state", data: "on" });
  } else if (type === "state") {
    setState(data);
  } else {
    happenings.dispatchEvent(new CustomEvent(type, { detail: data }));
  }
}

/** @param {keyof typeof WORDS} to */
function setState(to) {
  state = to;
  const sign = find("#live");
  sign.hidden = false;
  sign.dataset.state = to;
  find("span", sign).textContent = WORDS[to];
}

/** @param {string} type @param {any} data */
function tell(type, data) {
  hear({ type, data });
  channel?.postMessage({ type, data });
}

/** Listen, until the stream is closed. @param {() => void} [again] what to do when it is refused */
function listen(again = listen) {
  const source = new EventSource(`${base}/live`);
  source.onopen = () => tell("state", "on");
  source.onerror = () => {
    tell("state", "lost");
    // A refusal is final to a browser, and need not be: the server may have been full.
    if (source.readyState === EventSource.CLOSED) setTimeout(again, AGAIN_MS);
  };
  for (const type of ["hold", "list"]) {
    source.addEventListener(type, (event) => tell(type, JSON.parse(event.data || "null")));
  }
  return source;
}

/** Without locks, as where a page is not secure, each tab listens while it is visible. */
function listenWhileVisible() {
  /** @type {EventSource | null} */
  let source = null;
  const look = () => {
    if (document.visibilityState === "visible") source ??= listen(renew);
    else {
      source?.close();
      source = null;
      setState("lost");
    }
  };
  // Whatever it was: one at a time, and none for a tab that nobody sees.
  const renew = () => {
    source?.close();
    source = null;
    look();
  };
  document.addEventListener("visibilitychange", look);
  look();
}

export function startLive() {
  if (!find("#live")) return;
  setState("off");
  if (!navigator.locks) return listenWhileVisible();
  channel = new BroadcastChannel(NAME);
  channel.onmessage = (event) => hear(event.data);
  channel.postMessage({ type: "hello", data: null });
  void navigator.locks.request(NAME, () => {
    listen();
    return new Promise(() => {});
  });
}
