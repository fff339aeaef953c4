// What most flows do on a page: wait for a heading, press a button, go to a section.
import { base } from "./setting.mjs";

// controls are for the page that current gives; each takes another one, too.
export function controls(current) {
  const heading = (name, at = current()) => at.getByRole("heading", { name, exact: true }).first().waitFor();
  const button = (name, at = current()) => at.getByRole("button", { name, exact: true });
  const click = (name, at) => button(name, at).click();
  const toast = (text, at = current()) => at.locator(".toast", { hasText: text }).first().waitFor();
  const dialog = (at = current()) => at.getByRole("dialog");
  const gone = (at) => dialog(at).waitFor({ state: "detached" });
  const settled = (at = current()) => at.waitForFunction(() => !document.querySelector("[aria-busy]")); // of several parts, each is waited for
  const go = async (hash, name, at = current()) => {
    await at.goto(`${base}#/${hash}`);
    await heading(name, at);
    await settled(at);
  };
  return { heading, button, click, toast, dialog, gone, settled, go };
}
