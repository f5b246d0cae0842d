import { find } from "./dom.js";

const TOAST_MS = 6000;

/** @type {{act: () => void, toast: HTMLElement} | null} */
let offered = null;

/**
 * Say something for a moment. With `undo`, offer to take it back for as long as that works.
 * @param {string} text
 * @param {{undo?: () => void, undoSeconds?: number}} [more]
 */
export function toast(text, { undo, undoSeconds = 0 } = {}) {
  const made = document.createElement("div");
  made.className = "toast";
  made.append(Object.assign(document.createElement("span"), { textContent: text }));
  if (undo && undoSeconds > 0) {
    const button = Object.assign(document.createElement("button"), { textContent: "Undo (Z)", type: "button" });
    const act = () => {
      withdraw(made);
      undo();
    };
    button.addEventListener("click", act);
    made.append(button);
    offered = { act, toast: made };
    setTimeout(() => withdraw(made), undoSeconds * 1000);
  } else {
    setTimeout(() => made.remove(), TOAST_MS);
  }
  find("#toasts").append(made);
}

/** Take back what was decided last, if that is still offered. */
export function undoLast() {
  offered?.act();
}

/** @param {HTMLElement} made */
function withdraw(made) {
  made.remove();
  if (offered?.toast === made) offered = null;
}
