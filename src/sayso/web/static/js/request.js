import { ask, base, find, findAll, isNarrow, titleOf } from "./dom.js";
import { setClock, tick } from "./clock.js";
import { markOpen, neighbour, openId, showCount } from "./list.js";
import { toast } from "./toast.js";

const AHEAD_MS = 15000;
const AHEAD_AFTER_MS = 1000;
const GRACE_MS = 350;

/** Neighbours, fetched before they are asked for. @type {Map<string, {at: number, html: Promise<string>}>} */
const fetched = new Map();
let shownAt = performance.now();
let opening = 0;

/** Whether somebody has had the time to see what a key would act on. */
export function isSeen() {
  return performance.now() - shownAt > GRACE_MS;
}

/** Count the time to see it anew: it has just become visible. */
export function seeAnew() {
  shownAt = performance.now();
}

/** @param {string} id @param {boolean} [edit] */
export function urlOf(id, edit = false) {
  const params = new URLSearchParams(location.search);
  params.delete("edit");
  params.delete("said");
  const query = [params.toString(), edit ? "edit" : ""].filter(Boolean).join("&");
  return `${base}/r/${id}${query ? `?${query}` : ""}`;
}

/** Forget what was fetched of a request: it has changed. @param {string} id */
export function forget(id) {
  fetched.delete(id);
}

/** @param {string} id @param {boolean} edit */
async function load(id, edit) {
  const known = edit ? undefined : fetched.get(id);
  fetched.delete(id);
  if (known && performance.now() - known.at < AHEAD_MS) {
    const html = await known.html;
    if (html) return html;
  }
  const answer = await ask(urlOf(id, edit), "request").catch(() => null);
  const html = answer ? await answer.text() : "";
  if (answer?.ok) return html;
  toast(answer ? titleOf(answer.status, html) : "There is no connection.");
  return "";
}

/** Fetch what J and K would open. */
function fetchAhead() {
  for (const id of [neighbour(1), neighbour(-1)]) {
    const known = id && fetched.get(id);
    if (!id || id === openId() || (known && performance.now() - known.at < AHEAD_MS)) continue;
    const html = ask(urlOf(id), "request").then((answer) => (answer.ok ? answer.text() : ""));
    fetched.set(id, { at: performance.now(), html: html.catch(() => "") });
  }
}

/** Put a request into the page. @param {string} html */
export function show(html) {
  find("#request").innerHTML = html;
  document.body.toggleAttribute("data-open", Boolean(openId()));
  seeAnew();
  dress();
  setClock(find("#request article")?.dataset.now);
  const title = find("#request .title")?.textContent;
  const rest = document.title.split(" · ").slice(-2).join(" · ");
  document.title = title ? `${title} · ${rest}` : rest;
  markOpen();
  showCount();
  tick();
}

/** Do to a request that was just loaded what only a script can. */
export function dress() {
  for (const button of findAll("[data-copy-text]")) button.hidden = !navigator.clipboard;
  if (find("#reason")?.value) find("#reasonbox").classList.add("open");
}

/**
 * Open a request.
 * @param {string} id
 * @param {{push?: boolean, edit?: boolean, focus?: boolean, stay?: boolean}} [how]
 */
export async function open(id, { push = true, edit = false, focus = false, stay = false } = {}) {
  const mine = ++opening;
  const html = await load(id, edit);
  // Somebody who presses J quickly wants the last one only.
  if (!html || mine !== opening) return;
  if (push) history.pushState({}, "", urlOf(id, edit));
  show(html);
  if (!stay) find("#request").scrollTo(0, 0);
  if (edit && !stay) find(".fields input, .fields textarea, .fields select")?.focus();
  else if (focus || (isNarrow() && !stay)) find("#request .title")?.focus({ preventScroll: true });
  fetchAhead();
}

/** Go back to the list, with nothing open. */
export function close({ push = true } = {}) {
  opening++;
  const params = new URLSearchParams(location.search);
  params.delete("edit");
  if (push) history.pushState({}, "", `${base}/${params.size ? `?${params}` : ""}`);
  find("#request").replaceChildren();
  document.body.removeAttribute("data-open");
  markOpen();
  showCount();
}

/** What somebody has typed or chosen in the request, and not sent. @returns {string[]} */
export function typed() {
  return findAll("#decision textarea, #decision input:not([type=hidden]), #decision select, .more input:not([type=hidden])")
    .filter((one) => {
      if (one.type === "checkbox" || one.type === "radio") return one.checked !== one.defaultChecked;
      if (one.tagName !== "SELECT") return one.value !== one.defaultValue;
      const option = [...one.options].find((each) => each.defaultSelected) ?? one.options[0];
      return one.value !== option?.value;
    })
    .map((one) => one.value);
}

/**
 * Something has happened to the request that is open. If nobody types in it, it is shown as it is
 * now; what somebody has typed is left alone, and they are told.
 * @param {string} said
 * @param {boolean} over whether it cannot be decided any more
 */
export function changed(said, over) {
  const id = openId();
  if (!id) return;
  if (!typed().length && !document.activeElement?.closest("#decision, .more")) {
    void open(id, { push: false, edit: location.search.includes("edit") && !over, stay: true });
    return;
  }
  const banner = find("#banner");
  banner.replaceChildren(document.createTextNode(`${said} What you have typed is kept here. `));
  const look = Object.assign(document.createElement("button"), { type: "button", className: "button compact", textContent: "Show what stands" });
  look.addEventListener("click", () => open(id, { push: false }));
  const copy = Object.assign(document.createElement("button"), { type: "button", className: "button compact", textContent: "Copy what I typed" });
  copy.addEventListener("click", () => copyText(typed().join("\n")));
  banner.append(copy, look);
  banner.hidden = false;
  if (over) for (const button of findAll("#decision button")) button.disabled = true;
}

/** Look whether the request that is open is still as it is shown here. */
export async function checkOpen() {
  const id = openId();
  const answer = id ? await ask(urlOf(id), "request").catch(() => null) : null;
  const html = answer?.ok ? await answer.text() : "";
  // It may have been closed, or another one opened, while this was on its way.
  if (!html || id !== openId()) return;
  const page = new DOMParser().parseFromString(html, "text/html");
  const there = find("article", page)?.dataset;
  const here = find("#request article").dataset;
  if (there?.status !== here.status || there?.seen !== here.seen) {
    const verdict = find("#verdict > p", page)?.textContent;
    changed(verdict ? `${verdict}.` : "This request has changed.", there?.status !== "open");
  }
}

/** @param {string} text */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied.");
  } catch {
    toast("This browser does not let a page copy.");
  }
}

export function startRequest() {
  dress();
  // Not before what is looked at has come, and not for whoever only looks at the list.
  if (openId()) setTimeout(fetchAhead, AHEAD_AFTER_MS);
  setClock(find("#request article, #rows")?.dataset.now);
  document.addEventListener("visibilitychange", seeAnew);
  document.addEventListener("timeup", (event) => {
    const time = /** @type {HTMLElement} */ (event.target);
    // Whoever keeps time on the server needs a moment to say so.
    if (time.closest("#request")) setTimeout(() => changed("The time for this request is over.", true), 1500);
  });
  document.addEventListener("input", (event) => {
    const control = /** @type {HTMLInputElement} */ (event.target);
    const field = control.closest(".field");
    const was = field && find(".was", field);
    if (!was || control.dataset.was === undefined) return;
    const isOther = control.value !== control.dataset.was.replaceAll("\r\n", "\n");
    field.classList.toggle("changed", isOther);
    was.hidden = !isOther;
  });
  document.addEventListener("click", (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
    if (target.closest("[data-copy]")) {
      event.preventDefault();
      void copyText(target.closest("a")?.href ?? location.href);
    } else if (target.closest("[data-copy-text]")) {
      void copyText(findAll(".kept pre").map((one) => one.textContent).join("\n"));
    }
    const link = target.closest(".row > a, #edit, .back");
    if (!(link instanceof HTMLAnchorElement)) return;
    event.preventDefault();
    const to = new URL(link.href);
    const id = to.pathname.slice(base.length).match(/^\/r\/([^/]+)$/)?.[1];
    if (id) void open(decodeURIComponent(id), { edit: to.searchParams.has("edit"), focus: true });
    else close();
  });
  addEventListener("popstate", () => {
    const id = location.pathname.slice(base.length).match(/^\/r\/([^/]+)$/)?.[1];
    if (id) void open(decodeURIComponent(id), { push: false, edit: new URLSearchParams(location.search).has("edit") });
    else close({ push: false });
  });
}
