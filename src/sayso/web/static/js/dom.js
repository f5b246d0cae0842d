// Small things that every other module needs.

/** Where the application is mounted. */
export const base = document.body.dataset.base ?? "";

/**
 * @param {string} selector
 * @param {ParentNode} [root]
 * @returns {any}
 */
export function find(selector, root = document) {
  return root.querySelector(selector);
}

/**
 * @param {string} selector
 * @param {ParentNode} [root]
 * @returns {any[]}
 */
export function findAll(selector, root = document) {
  return [...root.querySelectorAll(selector)];
}

/**
 * Ask the server for a part of a page, or send it a form.
 * @param {string} url
 * @param {string} part
 * @param {RequestInit} [init]
 */
export function ask(url, part, init = {}) {
  return fetch(url, { ...init, headers: { "x-part": part }, credentials: "same-origin" });
}

/**
 * Send a form, or what is like one, and give what came of it. Nothing is ever sent again later:
 * whoever decides must know whether it was.
 * @param {string} url
 * @param {FormData} data
 * @returns {Promise<{status: number, told: any, html: string}>}
 */
export async function post(url, data) {
  if (!data.has("csrf")) data.set("csrf", document.body.dataset.csrf ?? "");
  // As a form without a script would be sent, and not in parts.
  const body = new URLSearchParams(/** @type {any} */ (data));
  try {
    const answer = await ask(url, "request", { method: "POST", body });
    const isJson = (answer.headers.get("content-type") ?? "").includes("json");
    const text = await answer.text();
    return { status: answer.status, told: isJson ? JSON.parse(text) : null, html: isJson ? "" : text };
  } catch {
    return { status: 0, told: null, html: "" };
  }
}

/**
 * Say in one line what a page that could not be shown says.
 * @param {number} status
 * @param {string} html
 */
export function titleOf(status, html) {
  // It may have been sent, and carried out, all the same: what is sent again counts once.
  if (!status) return "No answer: there is no connection. Whether it counts is not known; send it again.";
  const page = new DOMParser().parseFromString(html, "text/html");
  return page.querySelector("h1")?.textContent ?? "This did not work.";
}

/** Tell whether one thing is shown at a time. */
export function isNarrow() {
  return matchMedia("(max-width: 820px)").matches;
}
