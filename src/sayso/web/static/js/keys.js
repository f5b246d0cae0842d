import { base, find, findAll } from "./dom.js";
import { neighbour, openId, rowOf, showPicked } from "./list.js";
import { isSeen, open } from "./request.js";
import { decideSelected } from "./decide.js";
import { undoLast } from "./toast.js";

const SWITCH = "sayso-keys";
const GO_MS = 1000;
/** @type {Record<string, string>} */
const PLACES = { i: "/", r: "/runs", d: "/decided", a: "/audit", u: "/rules", c: "/chat", s: "/settings" };

let goAt = -Infinity;

function isOn() {
  return localStorage.getItem(SWITCH) !== "off";
}

/** Press a button of the open request, if somebody has had the time to see it. @param {string} selector */
function press(selector) {
  if (isSeen()) find(selector)?.click();
}

/** @param {number} step */
function move(step) {
  const id = neighbour(step);
  if (id && id !== openId()) void open(id);
}

function pick() {
  const row = rowOf(openId() ?? "");
  const box = row && find("input.pick", row);
  if (!box) return;
  box.checked = !box.checked;
  showPicked();
}

/** @param {number} number */
function choose(number) {
  const box = findAll(".choice input")[number - 1];
  if (!box || !isSeen()) return;
  box.checked = box.type === "radio" || !box.checked;
  box.focus();
}

function enter() {
  if (openId()) find("#request .title")?.focus();
  else move(0);
}

/** @type {Record<string, (event: KeyboardEvent) => void>} */
const ACTIONS = {
  j: () => move(1),
  k: () => move(-1),
  enter,
  a: (event) => (event.shiftKey ? isSeen() && void decideSelected("approve") : press("#approve")),
  r: () => press("#reject"),
  e: () => press("#edit"),
  x: pick,
  z: undoLast,
  "/": () => find("#q")?.focus(),
  "?": () => find("#keys")?.showModal(),
};

/** @param {EventTarget | null} target */
function isField(target) {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || target.matches("textarea, select, input:not([type=checkbox], [type=radio])");
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (!isOn() || event.metaKey || event.ctrlKey || event.altKey || event.isComposing) return;
  if (isField(event.target) || find("dialog[open]")) return;
  const key = event.key.toLowerCase();
  const goes = performance.now() - goAt < GO_MS;
  goAt = -Infinity;
  if (goes && PLACES[key]) {
    event.preventDefault();
    // What is not shown to somebody is no place for their keys, either.
    find(`.top a[href="${base}${PLACES[key]}"]`)?.click();
    return;
  }
  if (key === "g") {
    goAt = performance.now();
    return;
  }
  // Enter on a link or a button is that link's or button's.
  if (key === "enter" && event.target !== document.body) return;
  const act = ACTIONS[key];
  if (act || /^[1-9]$/.test(key)) {
    event.preventDefault();
    // A key that is held down moves, and decides nothing.
    if (event.repeat && key !== "j" && key !== "k") return;
    if (act) act(event);
    else choose(Number(key));
  }
}

export function startKeys() {
  document.addEventListener("keydown", onKey);
  for (const label of findAll("[data-script]")) label.hidden = false;
  for (const box of findAll("[data-keys-switch]")) {
    box.checked = isOn();
    box.addEventListener("change", () => localStorage.setItem(SWITCH, box.checked ? "on" : "off"));
  }
  const help = find("#help");
  if (help && find("#keys")) {
    help.hidden = false;
    help.addEventListener("click", () => find("#keys").showModal());
  }
}
