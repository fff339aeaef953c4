// The theme: light, dark, or the same as the system.

import { fill, h, icon } from "./dom.js";

const key = "cloister.theme";
const order = ["system", "light", "dark"];

const chosen = () => (order.includes(localStorage.getItem(key)) ? localStorage.getItem(key) : "system");

// useTheme puts the choice on the page.
export function useTheme() {
  document.documentElement.dataset.theme = chosen();
}

// themeButton goes from one to the next and says which it is.
export function themeButton() {
  const node = h("button", { type: "button", class: "plain" });
  const tell = () => fill(node, icon("theme"), h("span", { class: "hidden" }, "Theme: "), { system: "Same as system", light: "Light", dark: "Dark" }[chosen()]);
  node.addEventListener("click", () => {
    localStorage.setItem(key, order[(order.indexOf(chosen()) + 1) % order.length]);
    useTheme();
    tell();
  });
  tell();
  return node;
}
