// What the pages do beyond links and forms. Everything works without this file.
import { find } from "./dom.js";
import { startClock } from "./clock.js";
import { decidedHere, startDecide } from "./decide.js";
import { startKeys } from "./keys.js";
import { leave, openId, refreshSoon, showCount } from "./list.js";
import { happenings, startLive } from "./live.js";
import { changed, forget, startRequest } from "./request.js";
import { startTheme } from "./theme.js";
import { toast } from "./toast.js";

document.documentElement.classList.add("scripted");
startTheme();
startKeys();
startClock();
startLive();

if (find("#list")) {
  startRequest();
  startDecide();
  showCount();
  happenings.addEventListener("list", () => refreshSoon());
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
