import { find } from "./dom.js";

const YEAR_S = 31536000;

/** Let a button switch between light and dark; the server draws the next page so, too. */
export function startTheme() {
  const button = find("#theme");
  if (!button) return;
  button.hidden = false;
  button.addEventListener("click", () => {
    const root = document.documentElement;
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    const next = (root.dataset.theme || system) === "dark" ? "light" : "dark";
    root.dataset.theme = next;
    document.cookie = `sayso_theme=${next}; path=/; max-age=${YEAR_S}; samesite=lax`;
  });
}
