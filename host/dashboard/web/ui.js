// The pieces that every section is built of.

import { fill, h, icon, unique } from "./dom.js";
import { sentence, waits } from "./api.js";

export { milliseconds, time, when } from "./times.js";
export { words } from "./words.js";

// toast says something once; screen readers read it when they are done. link is what can be done about it: a text with the address of a
// page, or with run, which is done on a press and then says how it went. A message with something to press stays longer, and while it is
// pointed at or has the focus, which F8 gives it.
export function toast(message, link) {
  const note = h("p", { class: "toast" }, h("span", null, message), link && [" ", link.run ? undo(link, () => away(note)) : h("a", { href: link.href }, link.text)]);
  const all = document.getElementById("toasts");
  for (const old of all.children) if (old.textContent === note.textContent) old.remove();
  const plain = [...all.children].find((old) => !old.querySelector("button"));
  if (all.childElementCount > 2 || (plain && all.childElementCount > 1)) (plain ?? all.firstElementChild).remove();
  all.append(note);
  const later = (ms) => setTimeout(() => (note.matches(":hover, :focus-within") ? later(2000) : away(note)), ms);
  later(link?.run ? 12_000 : 7000);
}

// undo is the button of a message.
function undo({ text, run }, close) {
  const pressed = async ({ target }) => {
    if (target.hasAttribute("aria-disabled")) return;
    target.setAttribute("aria-disabled", "true");
    try {
      await run();
    } catch (error) {
      toast(error.message);
    }
    close();
  };
  return h("button", { type: "button", "aria-keyshortcuts": "F8", title: `${text} (F8 goes here)`, onclick: pressed }, text);
}

// away removes a message. If it had the focus, the page's heading gets it.
function away(note) {
  const held = note.contains(document.activeElement);
  note.remove();
  if (held) document.querySelector("main h1")?.focus({ preventScroll: true });
}

document.addEventListener("keydown", (event) => {
  const last = [...document.querySelectorAll("#toasts button")].at(-1);
  if (event.key !== "F8" || !last) return;
  event.preventDefault();
  last.focus();
});

// done shows the outcome of an activity, and what can be done about it.
export function done(activity, message, link) {
  if (waits(activity)) toast("Others must approve this first.", { href: `#/activities/${activity.id}`, text: "See the activity" });
  else toast(message, link);
}

const shortened = (text) => (text.length > 20 ? `${text.slice(0, 8)}…${text.slice(-6)}` : text);

// copy puts a value into the clipboard, and says so. It gives back whether that worked.
export async function copy(value, what) {
  try {
    await navigator.clipboard.writeText(value);
  } catch {
    toast("The browser refused to copy. Select the text instead.");
    return false;
  }
  toast(`Copied ${what}.`);
  return true;
}

// copyable shows a value and copies all of it; copied is called then.
export function copyable(value, what, { whole = false, copied } = {}) {
  const button = h("button", { type: "button", class: "copy", "aria-label": `Copy ${what}`, title: `Copy ${what}` }, icon("copy"));
  button.addEventListener("click", async () => {
    if (!(await copy(value, what))) return;
    fill(button, icon("check"));
    setTimeout(() => fill(button, icon("copy")), 1500);
    copied?.();
  });
  return h("span", { class: whole ? "copyable" : "copyable short" }, h("code", { title: value }, whole ? value : shortened(value)), button);
}

// download saves a text, or a list of its parts, as a file.
export function download(name, content, type = "application/json") {
  const href = URL.createObjectURL(new Blob([content].flat(), { type }));
  h("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10_000); // some browsers read it only after the click
}

// badge is a word with a colour: good, bad, wait or plain.
export const badge = (text, tone = "neutral") => h("span", { class: `badge ${tone}` }, text);

export const button = (text, properties = {}) => h("button", { type: "button", class: "button", ...properties }, text);

// title is the head of a section: the heading that takes the focus, a sentence, and what can be done.
export function title(text, { intro, actions = [], back } = {}) {
  return h("header", { class: "title" },
    back && h("a", { class: "back", href: back.href }, icon("back"), back.text),
    h("div", { class: "bar" }, h("h1", { tabindex: "-1" }, text), h("div", { class: "actions" }, actions)),
    intro && h("p", { class: "intro" }, intro));
}

// panel is a part of a section with a heading.
export function panel(heading, content, { actions = [], note } = {}) {
  const id = unique("panel");
  return h("section", { class: "panel", "aria-labelledby": id },
    h("div", { class: "bar" }, h("h2", { id }, heading), h("div", { class: "actions" }, actions)), note && h("p", { class: "note" }, note), content);
}

// facts are names and values.
export const facts = (rows) =>
  h("dl", { class: "facts" }, rows.filter(Boolean).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));

// follow opens the link that a row begins with. A click on something else in the row, on selected text or with a key pressed does not.
function follow(event) {
  const { target, button, ctrlKey, metaKey, shiftKey, altKey } = event;
  if (event.defaultPrevented || button !== 0 || ctrlKey || metaKey || shiftKey || altKey) return;
  if (target.closest("a, button, input, select, textarea, label, summary") || String(getSelection())) return;
  target.closest("tr")?.querySelector("td:first-child > a.strong, td:first-child > div > a.strong")?.click();
}

// table has rows of cells; on a phone each row is a card with the names of the columns in it.
export function table(caption, columns, rows) {
  return h("table", null, h("caption", { class: "hidden" }, caption),
    h("thead", null, h("tr", null, columns.map((c) => h("th", { scope: "col" }, c || h("span", { class: "hidden" }, "Actions"))))),
    h("tbody", { onclick: follow }, rows.map((cells) => h("tr", null, cells.map((cell, i) => h("td", { "data-label": columns[i] || null, class: columns[i] ? null : "last" }, Array.isArray(cell) ? h("div", null, cell) : cell))))));
}

// empty says that a list has no items, and offers an action.
export const empty = (text, action) => h("div", { class: "state empty" }, h("p", null, text), action);

// unavailable says that the server does not have an operation.
const unavailable = (what) =>
  h("div", { class: "state" }, h("p", { class: "strong" }, "Not available on this server"), h("p", null, `This server does not offer ${what} yet.`));

// seeRefused leads from the message about a refused request to its activity.
const seeRefused = ({ activityId }) => activityId && h("p", null, h("a", { href: `#/activities/${activityId}` }, "See the request, and why it was refused"));

// problem shows an error.
export function problem(error, again) {
  console.debug(error);
  return h("div", { class: "state bad", role: "alert" },
    h("p", { class: "strong" }, error.message), seeRefused(error),
    error.request && h("p", { class: "note" }, "Request ", h("code", null, error.request)),
    again && button("Try again", { onclick: again }));
}

// load fills a place with what is fetched: first that it is under way, then the drawing, or what went wrong. It gives back
// a function that does it again.
export function load(place, what, fetch, draw) {
  let turn = 0;
  const run = async () => {
    const mine = ++turn;
    place.setAttribute("aria-busy", "true");
    if (!place.firstChild || place.dataset.state !== "drawn") {
      fill(place, h("div", { class: "state loading" }, h("p", { role: "status" }, `Loading ${what}…`), h("div", { class: "bones", "aria-hidden": "true" }, h("i"), h("i"), h("i"))));
    }
    try {
      const got = await fetch();
      if (mine !== turn) return;
      const main = place.closest("main");
      const held = place.contains(document.activeElement);
      fill(place, draw(got));
      if (held) main?.querySelector("h1")?.focus({ preventScroll: true }); // what had it is gone
      place.dataset.state = "drawn";
    } catch (error) {
      if (mine !== turn) return;
      place.dataset.state = "failed";
      fill(place, error.unavailable ? unavailable(what) : problem(error, run));
    }
    place.removeAttribute("aria-busy");
  };
  run();
  return run;
}

// loadOne fills a whole section with one thing. What is drawn begins with its title; until then heading stands there.
export function loadOne(main, what, heading, back, fetch, draw) {
  let head = title(heading, { back });
  const place = h("div");
  fill(main, head, place);
  const again = load(place, what, fetch, (got) => {
    const [next, ...rest] = draw(got, again);
    const held = head.contains(document.activeElement);
    head.replaceWith(next);
    head = next;
    if (held) head.querySelector("h1").focus({ preventScroll: true });
    return rest;
  });
}

// grown shows a list's first rows, and more on request.
export function grown(all, draw, step = 50) {
  const place = h("div", { class: "grown" });
  const show = (count) => {
    const more = all.length > count && button(`Show more (${all.length - count})`, { class: "button quiet", onclick: () => show(count + step) });
    fill(place, draw(all.slice(0, count)), more);
  };
  show(step);
  return place;
}

// paged shows a page, and the next one below it on request. after fetches what follows the last that is shown.
export function paged(first, size, after, draw, failed) {
  const all = [...first];
  const place = h("div", { class: "grown" });
  const show = (full) => {
    const next = full && button("Show more", { class: "button quiet", onclick: async () => {
      next.disabled = true;
      try {
        const got = await after(all.at(-1));
        all.push(...got);
        show(got.length === size);
      } catch (error) {
        next.disabled = false;
        failed(error);
      }
    } });
    fill(place, draw(all), next);
  };
  show(first.length === size);
  return place;
}

// field is a labelled input. Kinds: text, password, email, tel, url, number, textarea, select, checkbox, lines (one value a line). What is
// not required is said to be optional, unless optional is false.
export function field({ name, label, hint, kind = "text", options = [], value, wide = true, optional = true, ...rest }) {
  const id = unique(name);
  const described = [hint && `${id}-hint`, `${id}-error`].filter(Boolean).join(" ");
  const shared = { id, name, "aria-describedby": described, ...rest };
  let input;
  if (kind === "select") input = h("select", { ...shared, value }, options.map(([v, t]) => h("option", { value: v, selected: v === value }, t)));
  else if (kind === "textarea" || kind === "lines") input = h("textarea", { rows: 3, spellcheck: "false", ...shared, value: kind === "lines" ? (value ?? []).join("\n") : value ?? "" });
  else if (kind === "checkbox") input = h("input", { ...shared, type: "checkbox", checked: Boolean(value) });
  else input = h("input", { autocomplete: "off", ...shared, type: kind, value: value ?? "" });
  input.dataset.kind = kind;
  const caption = h("label", { for: id }, label, rest.required || !optional || kind === "checkbox" || kind === "select" ? null : h("span", { class: "optional" }, "optional"));
  const help = hint && h("p", { class: "hint", id: `${id}-hint` }, hint);
  const error = h("p", { class: "error", id: `${id}-error` });
  return h("div", { class: `field ${kind}${wide ? "" : " narrow"}` }, kind === "checkbox" ? [input, h("div", null, caption, help)] : [caption, input, help], error);
}

// choices is a group of checkboxes under one name.
export function choices({ name, legend, hint, options, value = [] }) {
  return h("fieldset", { class: "choices", "data-choices": name }, h("legend", null, legend), hint && h("p", { class: "hint" }, hint),
    h("div", { class: "grid" }, options.map(([v, text]) => h("label", { class: "choice" }, h("input", { type: "checkbox", value: v, checked: value.includes(v) }), h("span", null, text)))));
}

// values reads a form.
export function values(form) {
  const all = {};
  for (const input of form.querySelectorAll("[name]")) {
    const kind = input.dataset.kind;
    if (kind === "checkbox") all[input.name] = input.checked;
    else if (kind === "lines") all[input.name] = input.value.split("\n").map((s) => s.trim()).filter(Boolean);
    else all[input.name] = kind === "textarea" ? input.value : input.value.trim();
  }
  for (const group of form.querySelectorAll("[data-choices]")) {
    all[group.dataset.choices] = [...group.querySelectorAll("input:checked")].map((i) => i.value);
  }
  return all;
}

// lineOf says which line of a field of lines an error is about. Empty lines are not sent, so the server's count leaves them out.
function lineOf(input, path) {
  const number = /\.(\d+)$/.exec(path)?.[1];
  if (number === undefined || input.dataset.kind !== "lines") return "";
  const lines = input.value.split("\n").flatMap((line, i) => (line.trim() ? [i + 1] : []));
  return lines[number] ? `Line ${lines[number]}: ` : "";
}

// tell shows an error beside the fields at fault, and at the form's end what no field says.
export function tell(form, error) {
  const snake = (s) => s.replace(/_([a-z])/g, (_, c) => c.toUpperCase());
  let first = null;
  let said = false; // beside a field
  for (const fault of error.fields ?? []) {
    const names = fault.field.split(/[.[\]]+/).map(snake).reverse();
    const input = names.map((n) => form.querySelector(`[name="${CSS.escape(n)}"]`)).find(Boolean);
    if (!input) continue;
    input.setAttribute("aria-invalid", "true");
    document.getElementById(`${input.id}-error`).textContent = `${lineOf(input, fault.field)}${sentence(fault.description)}`;
    said ||= error.message.toLowerCase().endsWith(sentence(fault.description).toLowerCase());
    first ??= input;
  }
  const place = form.querySelector(".alert");
  fill(place, [!said && h("p", { class: "strong" }, error.unavailable ? `Not available on this server: ${error.message}` : error.message), seeRefused(error)]);
  (first ?? place).focus();
}

// clear removes an earlier error from a field.
export function clear(input) {
  input.removeAttribute("aria-invalid");
  const error = document.getElementById(`${input.id}-error`);
  if (error) error.textContent = "";
}

// form runs an action with its values and shows its progress and its error, until the form is changed or sent again. An error that has
// the member shown was shown by the action.
export function form({ fields, action, run, cancel, danger = false, enabled = true }) {
  const alert = h("div", { class: "alert", role: "alert", tabindex: "-1" });
  const go = h("button", { type: "submit", class: `button ${danger ? "danger" : "primary"}`, disabled: !enabled }, action);
  const node = h("form", { novalidate: false, onsubmit: submitted }, fields, alert, h("div", { class: "end" }, cancel, go));
  node.addEventListener("input", ({ target }) => {
    clear(target);
    fill(alert);
  });
  let busy = false;
  async function submitted(event) {
    event.preventDefault();
    if (busy) return;
    busy = true;
    for (const input of node.querySelectorAll("[name]")) clear(input);
    fill(alert);
    go.setAttribute("aria-disabled", "true");
    node.setAttribute("aria-busy", "true");
    try {
      await run(values(node), node);
    } catch (error) {
      console.debug(error);
      if (!error.shown) tell(node, error.name === "NotAllowedError" ? new Error("The passkey was not used: you cancelled, it took too long, or there is no passkey for this site.") : error);
    } finally {
      busy = false;
      go.removeAttribute("aria-disabled");
      node.removeAttribute("aria-busy");
    }
  }
  return node;
}

// dialog shows a form above the page. It closes when run is through, when cancelled, and by Escape; the focus goes
// back to where it was. Run gets the values and may throw.
export function dialog({ heading, intro, fields = [], action, run, danger = false, cancelText = "Cancel" }) {
  const id = unique("dialog");
  const from = document.activeElement;
  const node = h("dialog", { "aria-labelledby": id });
  const close = () => node.close();
  const cancel = cancelText && button(cancelText, { class: "button quiet", onclick: close });
  fill(node, h("div", { class: "bar" }, h("h2", { id }, heading), h("button", { type: "button", class: "plain", "aria-label": "Close", onclick: close }, icon("close"))),
    intro && h("div", { class: "intro" }, intro),
    form({ fields, action, danger, cancel, run: async (all, f) => { await run(all, f); close(); } }));
  node.addEventListener("close", () => { node.remove(); if (from?.isConnected) from.focus(); });
  document.body.append(node);
  node.showModal();
  const first = node.querySelector("[autofocus], form input, form select, form textarea");
  (danger ? cancel : first ?? node.querySelector("[type=submit]")).focus();
  return node;
}

// confirm asks before something that cannot be taken back.
export const confirm = (heading, intro, action, run, cancelText) => dialog({ heading, intro, action, run, danger: true, cancelText });

// show is a dialog that only tells.
export const show = (heading, content) => dialog({ heading, intro: content, action: "Done", run: async () => {}, cancelText: null });
