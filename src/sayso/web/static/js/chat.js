// The chat page: what is new appears by itself. What somebody types in is never touched.
import { ask, post, titleOf } from "./dom.js";
import { toast } from "./toast.js";

const talk = document.querySelector("#talk");
const AGAIN_MS = 10000;
let stale = false;
let over = false;
let again = 0;
let source = null;

/** Put the conversation as it is now in place of what is shown. */
async function refresh() {
  if (talk.contains(document.activeElement) && document.activeElement !== talk) {
    stale = true; // Somebody is about to decide: not under their hands.
    return;
  }
  stale = false;
  const answer = await ask(location.pathname, "talk").catch(() => null);
  if (!answer?.ok) return;
  talk.innerHTML = await answer.text();
  showEnd();
}

function showEnd() {
  talk.lastElementChild?.lastElementChild?.scrollIntoView({ block: "nearest" });
}

/** Show what the model says before its turn is over. */
function hear({ text, at }) {
  const said = document.querySelector("#saying");
  if (!said) return;
  if (at === 0) said.textContent = "";
  said.textContent += text;
  showEnd();
}

/** Listen while somebody looks: a browser has six connections to a server, for all its tabs. */
function listen() {
  clearTimeout(again);
  const turns = talk.querySelector(".turns");
  if (over || source || !turns || document.visibilityState !== "visible") return;
  source = new EventSource(`${talk.dataset.events}?after=${turns.dataset.seq}`);
  let waiting = 0;
  source.addEventListener("changed", () => {
    clearTimeout(waiting);
    waiting = setTimeout(refresh, 60); // One commit brings several entries.
  });
  source.addEventListener("delta", (event) => hear(JSON.parse(event.data)));
  source.addEventListener("over", () => {
    over = true;
    hush();
    refresh();
  });
  source.addEventListener("error", () => {
    // A refusal is final to a browser, and need not be: the server may have been full.
    if (source?.readyState !== EventSource.CLOSED) return;
    hush();
    again = setTimeout(listen, AGAIN_MS);
  });
}

function hush() {
  source?.close();
  source = null;
}

document.addEventListener("visibilitychange", () => {
  if (document.visibilityState !== "visible") return hush();
  if (!over) refresh();
  listen();
});
talk.addEventListener("focusout", () => stale && setTimeout(refresh, 0));
document.querySelector("#composer")?.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.target.value.trim()) {
    event.preventDefault();
    event.currentTarget.requestSubmit();
  }
});

/** Decide in the conversation; what cannot be decided here is shown on its own page. */
async function decideHere(form, button) {
  const { status, told } = await post(form.action, new FormData(form, button));
  button?.blur();
  if (told?.problem) toast(told.problem);
  if (told) refresh();
  else if (status) location.assign(form.action.replace(/\/[a-z]+$/, ""));
  else toast(titleOf(status, ""));
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (talk.contains(form)) {
    event.preventDefault();
    decideHere(form, event.submitter);
    return;
  }
  // A second click sends nothing; what is sent twice all the same is done once.
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "yes";
});
listen();
showEnd();
