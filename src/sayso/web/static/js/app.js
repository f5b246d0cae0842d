// What the pages do beyond links and forms. Everything works without this file.
import { find } from "./dom.js";
import { startClock } from "./clock.js";
import { decidedHere, startDecide } from "./decide.js";
import { startKeys } from "./keys.js";
import { leave, openId, refreshSoon, showCount } from "./list.js";
import { happenings, startLive } from "./live.js";
import { startNotify } from "./notify.js";
import { changed, checkOpen, forget, startRequest } from "./request.js";
import { startTheme } from "./theme.js";
import { toast } from "./toast.js";

document.documentElement.classList.add("scripted");
startTheme();
startKeys();
startNotify();

if (find("#list")) {
  startRequest();
  startDecide();
  showCount();
  happenings.addEventListener("list", (event) => {
    refreshSoon();
    // What was told while nobody listened is about this one, perhaps.
    if (/** @type {CustomEvent} */ (event).detail) void checkOpen();
  });
  happenings.addEventListener("hold", (event) => {
    const { id, status, said } = /** @type {CustomEvent} */ (event).detail;
    forget(id);
    if (status === "open") refreshSoon();
    else leave(id, decidedHere.has(id) ? "" : said);
    if (id !== openId() || decidedHere.has(id)) return;
    if (status !== "open" && said) toast(said);
    changed(said || "This request has changed.", status !== "open");
  });
}

// After all that listens to them.
startClock();
startLive();
