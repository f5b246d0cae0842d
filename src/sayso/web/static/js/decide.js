import { base, find, findAll, isNarrow, post, titleOf } from "./dom.js";
import { leave, neighbour, openId, refreshSoon, showPicked } from "./list.js";
import { close, forget, isSeen, open, show } from "./request.js";
import { toast } from "./toast.js";

const ARMED_MS = 4000;
const PROBLEMS_SHOWN = 5;

/** What this tab has decided itself, so that it is not told to itself as news. @type {Set<string>} */
export const decidedHere = new Set();

/** @param {string} id */
export async function undo(id) {
  const { status, told, html } = await post(`${base}/r/${id}/undo`, new FormData());
  forget(id);
  toast(told?.problem ?? told?.said ?? titleOf(status, html));
  decidedHere.delete(id);
  refreshSoon();
  if (status === 200) await open(id, { push: id !== openId() });
}

/** Go on to the next request; on a phone, back to the list. */
async function advance() {
  const next = neighbour(1) ?? neighbour(-1);
  if (isNarrow() || !next || next === openId()) close();
  else await open(next);
}

/** Have a button say that it must be pressed once more. @param {HTMLElement} button */
function arm(button) {
  const label = find("span", button);
  const before = label.textContent;
  label.textContent = button.dataset.armed;
  button.classList.add("armed");
  button.dataset.since = String(performance.now());
  setTimeout(() => {
    label.textContent = before;
    button.classList.remove("armed");
    delete button.dataset.since;
  }, ARMED_MS);
}

/** Whether a button was armed long enough ago for a second press to be one. @param {HTMLElement} button */
function isArmed(button) {
  return performance.now() - Number(button.dataset.since ?? Infinity) > 350;
}

/**
 * Send a decision, or first ask for what it lacks.
 * @param {HTMLFormElement} form
 * @param {HTMLButtonElement} button
 */
async function decide(form, button) {
  const reason = find("#reasonbox");
  const isNo = button.value === "reject" || button.value === "fail";
  if (isNo && reason && !reason.classList.contains("open")) {
    reason.classList.add("open");
    find("#reason").focus();
    return;
  }
  const data = new FormData(form, button);
  const isYes = button.value === "approve" || button.value === "always";
  if (isYes && form.hasAttribute("data-two-steps") && !data.has("confirm")) {
    if (button.dataset.since === undefined) return arm(button);
    if (!isArmed(button)) return;
    data.set("confirm", "yes");
  }
  await send(form, data);
}

/** @param {HTMLFormElement} form @param {FormData} data */
async function send(form, data) {
  if (form.dataset.sending) return;
  form.dataset.sending = "yes";
  const id = openId() ?? "";
  decidedHere.add(id);
  const { status, told, html } = await post(form.action, data);
  delete form.dataset.sending;
  forget(id);
  if (status === 200 && told) {
    toast(told.said, { undo: () => undo(id), undoSeconds: told.undo_s });
    if (told.open) {
      // It goes on: what others say of it is news.
      decidedHere.delete(id);
      await open(id, { push: false });
    } else await advance();
    leave(id, told.open ? "" : told.said);
    return;
  }
  decidedHere.delete(id);
  // What is no request says only what went wrong, and what was typed stays.
  if (html.includes("<article ")) {
    show(html);
    const place = find("#request [aria-invalid]") ?? find("#request [role=alert], #approve.armed");
    if (place?.matches("p")) place.tabIndex = -1;
    place?.focus();
    place?.scrollIntoView({ block: "center" });
    refreshSoon();
  } else {
    toast(told?.problem ?? titleOf(status, html));
  }
}

/** Decide what is selected, each for itself. @param {string} say */
export async function decideSelected(say) {
  const form = find("#bulk");
  if (!form || !find(".pick:checked", form)) return;
  const data = new FormData(form);
  data.set("say", say);
  const ids = findAll(".pick:checked", form).map((pick) => pick.closest(".row").dataset.id);
  for (const id of ids) decidedHere.add(id);
  find(".bulkreason input").value = "";
  const { status, told, html } = await post(form.action, data);
  if (!Array.isArray(told)) return toast(titleOf(status, html));
  const done = told.filter((one) => !one.problem);
  for (const one of told) {
    forget(one.id);
    if (one.problem) decidedHere.delete(one.id);
    else leave(one.id, one.said);
  }
  const undone = told.filter((one) => one.problem);
  for (const one of undone.slice(0, PROBLEMS_SHOWN)) toast(`${one.title}: ${one.problem}`);
  const verb = say === "approve" ? "approved" : "rejected";
  const text = `${done.length} of ${told.length} ${verb}.`;
  const undoSeconds = Math.min(...done.map((one) => one.undo_s), 60);
  toast(text, { undo: () => undoSeveral(done.map((one) => one.id)), undoSeconds: done.length ? undoSeconds : 0 });
  showPicked();
  refreshSoon(1200);
  if (done.some((one) => one.id === openId())) await advance();
}

/** @param {string[]} ids */
async function undoSeveral(ids) {
  const answers = await Promise.all(ids.map((id) => post(`${base}/r/${id}/undo`, new FormData())));
  for (const id of ids) decidedHere.delete(id);
  const back = answers.filter((one) => one.status === 200).length;
  toast(`${back} of ${ids.length} taken back.`);
  refreshSoon();
}

export function startDecide() {
  document.addEventListener("submit", (event) => {
    const form = /** @type {HTMLFormElement} */ (event.target);
    const button = /** @type {HTMLButtonElement} */ (event.submitter);
    // Some buttons lead elsewhere, as to a provider that somebody signs in at.
    if (button?.hasAttribute("formaction")) return;
    if (form.id === "decision" && button) {
      event.preventDefault();
      // A press that was meant for what stood there before is nobody's decision.
      if (isSeen()) void decide(form, button);
    } else if (form.id === "bulk" && button) {
      event.preventDefault();
      void decideSelected(button.value);
    } else if (form.matches("[data-away]")) {
      event.preventDefault();
      void send(form, new FormData(form));
    } else if (form.matches("[data-undo]")) {
      event.preventDefault();
      void undo(openId() ?? "");
    }
  });
  document.addEventListener("change", (event) => {
    if (/** @type {HTMLElement} */ (event.target).matches(".pick")) showPicked();
  });
  document.addEventListener("keydown", (event) => {
    // In a field of several lines, as everywhere.
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    const target = /** @type {HTMLElement} */ (event.target);
    if (target.id === "reason") find("#reject")?.click();
    else if (target.closest(".answer")) find("#answerit")?.click();
  });
}
