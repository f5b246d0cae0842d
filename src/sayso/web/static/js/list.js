import { ask, base, find, findAll } from "./dom.js";
import { setClock, tick } from "./clock.js";

const GONE_MS = 1200;

/** @returns {HTMLElement[]} */
export function rows() {
  return findAll("#rows .row");
}

/** The id of the request that is open. @returns {string | undefined} */
export function openId() {
  return find("#request article")?.dataset.id;
}

/** @param {string} id @returns {HTMLElement | undefined} */
export function rowOf(id) {
  return rows().find((row) => row.dataset.id === id);
}

/** The request so many places after the open one; the first if none is. @param {number} step */
export function neighbour(step) {
  const there = rows().filter((row) => !row.classList.contains("gone"));
  const at = there.findIndex((row) => row.dataset.id === openId());
  return (at < 0 ? there[0] : there[at + step])?.dataset.id;
}

/** Mark the row of the request that is open. */
export function markOpen() {
  for (const row of rows()) {
    const isOpen = row.dataset.id === openId();
    row.toggleAttribute("data-selected", isOpen);
    const link = find("a", row);
    if (isOpen) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
    if (isOpen) row.scrollIntoView({ block: "nearest" });
  }
}

/** Say how many wait, wherever that is said. */
export function showCount() {
  const count = find("#rows")?.dataset.count ?? "";
  const badge = find("#count");
  if (badge) {
    badge.textContent = count;
    badge.hidden = !count;
  }
  const plain = document.title.replace(/\(\d+\+?\) /, "");
  document.title = count ? plain.replace("Inbox", `(${count}) Inbox`) : plain;
}

/** Show how many are selected. */
export function showPicked() {
  const picked = findAll(".pick:checked").length;
  for (const place of findAll(".picked")) place.textContent = picked ? ` ${picked}` : "";
}

/** Where the list is that is shown now, whichever request is open. */
function listUrl() {
  const params = new URLSearchParams(location.search);
  params.delete("edit");
  params.delete("said");
  return `${base}/?${params}`;
}

/** Whether somebody types in the list itself. */
function isTyping() {
  const reason = find(".bulkreason input");
  return Boolean(reason && (reason === document.activeElement || reason.value));
}

let waiting = 0;

/** Load the list again, soon: much may have happened at once. */
export function refreshSoon(after = 150) {
  clearTimeout(waiting);
  waiting = setTimeout(refresh, after);
}

/** Load the list again; what is selected and where the focus is stay so. */
export async function refresh() {
  const list = find("#list");
  if (!list) return;
  if (isTyping()) return refreshSoon(3000);
  const answer = await ask(listUrl(), "list").catch(() => null);
  if (!answer?.ok || isTyping()) return;
  const html = await answer.text();
  const picked = new Set(findAll(".pick:checked").map((pick) => pick.value));
  const focused = document.activeElement?.closest(".row")?.getAttribute("data-id");
  const onPick = document.activeElement?.matches(".pick");
  const top = list.scrollTop;
  list.innerHTML = html;
  for (const pick of findAll(".pick")) pick.checked = picked.has(pick.value);
  list.scrollTop = top;
  setClock(find("#rows")?.dataset.now);
  markOpen();
  showPicked();
  showCount();
  tick();
  const row = focused && rowOf(focused);
  if (row) find(onPick ? ".pick" : "a", row)?.focus({ preventScroll: true });
}

/** Say on its row what became of a request, and let it go. @param {string} id @param {string} said */
export function leave(id, said) {
  const row = rowOf(id);
  if (row && said) {
    row.classList.add("gone");
    find(".kind", row).textContent = said;
    const pick = find("input.pick", row);
    if (pick) pick.checked = false;
  }
  showPicked();
  refreshSoon(row && said ? GONE_MS : 150);
}
