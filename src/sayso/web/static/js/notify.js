// Notifications of the browser's own, for whoever has asked for them: once for each request that
// begins to need them, and never with a word of what is in it.
import { base, find, findAll } from "./dom.js";
import { happenings } from "./live.js";

const WANTED = "sayso-notify";
/** @type {Set<string>} */
const known = new Set();

function isWanted() {
  return localStorage[WANTED] === "on" && Notification.permission === "granted";
}

/** @param {string} id */
function notify(id) {
  // Every tab of the browser hears of it: of the same tag, one is shown.
  const shown = new Notification("A request needs you", { body: "Sayso", tag: id });
  shown.onclick = () => {
    window.focus();
    location.assign(`${base}/r/${id}`);
  };
}

/** Let a box in the settings switch them on and off. */
function startSwitch() {
  const box = find("[data-notify-switch]");
  if (!box) return;
  box.checked = isWanted();
  box.addEventListener("change", async () => {
    const granted = box.checked && (await Notification.requestPermission()) === "granted";
    localStorage[WANTED] = granted ? "on" : "off";
    box.checked = granted;
  });
}

export function startNotify() {
  if (!("Notification" in window)) {
    const box = find("[data-notify-switch]");
    if (box) box.closest("[data-script]").hidden = true;
    return;
  }
  startSwitch();
  for (const row of findAll(".row[data-id]")) known.add(row.dataset.id);
  happenings.addEventListener("hold", (event) => {
    const { id, status } = /** @type {CustomEvent} */ (event).detail;
    const isNew = status === "open" && !known.has(id);
    known.add(id);
    if (isNew && isWanted() && document.visibilityState !== "visible") notify(id);
  });
}
