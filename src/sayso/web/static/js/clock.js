import { findAll } from "./dom.js";

const SOON_S = 20 * 60;

/** How far the server's clock is ahead of this one's, in seconds. */
let ahead = 0;

/** @param {string | undefined} now what the server's clock said in what was just loaded */
export function setClock(now) {
  if (now) ahead = Number(now) - Date.now() / 1000;
}

/** Say how long there is, as `words.time_left` does. @param {number} seconds */
function timeLeft(seconds) {
  const left = Math.max(0, Math.floor(seconds));
  const two = (/** @type {number} */ number) => String(Math.floor(number)).padStart(2, "0");
  if (left >= 2 * 86400) return `${Math.floor(left / 86400)} days`;
  if (left >= 3600) return `${Math.floor(left / 3600)} h ${two((left % 3600) / 60)} min`;
  if (left >= 600) return `${Math.floor(left / 60)} min`;
  return `${Math.floor(left / 60)}:${two(left % 60)}`;
}

/** Draw all clocks. No request is drawn anew for it: somebody may be typing. */
export function tick() {
  const now = Date.now() / 1000 + ahead;
  for (const time of findAll("time[data-due]")) {
    const left = Number(time.dataset.due) - now;
    const text = timeLeft(left);
    if (time.textContent !== text) time.textContent = text;
    time.classList.toggle("soon", left < SOON_S);
    if (left <= 0 && !time.dataset.over) {
      time.dataset.over = "yes";
      time.dispatchEvent(new CustomEvent("timeup", { bubbles: true }));
    }
  }
  for (const time of findAll("time[data-left]")) {
    time.dataset.ends ??= String(Date.now() + Number(time.dataset.left) * 1000);
    const left = Number(time.dataset.ends) - Date.now();
    time.textContent = `${Math.max(0, Math.round(left / 1000))} s`;
    if (left <= 0) time.closest("[data-undo]")?.remove();
  }
}

export function startClock() {
  setInterval(tick, 1000);
  tick();
}
