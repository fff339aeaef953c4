// A dialog about something that is shown once. It does not close unasked before that was saved.

import { fill, h, icon, unique } from "../dom.js";
import { button } from "../ui.js";

// saveFirst shows it. content makes what is in the dialog, given a function that takes it as saved; hint says what to do before closing. Closing
// before that asks a question with a heading, a text, and what its buttons say: back and close. then is called with whether it was saved. The
// element that focus finds has the focus.
export function saveFirst({ heading, content, hint: advice, question: { heading: asked, text, back: backText, close: closeText }, focus, then = () => {} }) {
  const [id, why] = [unique("dialog"), unique("why")];
  const from = document.activeElement;
  let saved = false;
  let givenUp = false;

  const finish = button("Done", { class: "button primary", "aria-disabled": "true", "aria-describedby": why, onclick: requestClose });
  const question = h("div", { class: "unread", role: "alert", hidden: true });
  const hint = h("p", { class: "note", id: why }, advice);
  const markSaved = () => {
    saved = true;
    finish.removeAttribute("aria-disabled");
    hint.hidden = true;
    hideQuestion();
  };
  const hideQuestion = () => { fill(question).hidden = true; };
  const first = () => focus(node).focus();

  // close wipes first: the browser tells of the closing only later.
  const close = () => { fill(inside); node.close(); };

  // requestClose closes, or asks first. The second time it takes the question back.
  function requestClose() {
    if (saved) return close();
    if (!question.hidden) {
      hideQuestion();
      return first();
    }
    const back = button(backText, { class: "button small", onclick: () => { hideQuestion(); first(); } });
    fill(question, h("p", { class: "strong" }, asked), h("p", null, text),
      h("div", { class: "row" }, back, button(closeText, { class: "button danger small", onclick: () => { givenUp = true; close(); } }))).hidden = false;
    back.focus();
  }

  const inside = h("div", { class: "intro" }, content(markSaved));
  const node = h("dialog", { "aria-labelledby": id },
    h("div", { class: "bar" }, h("h2", { id }, heading), h("button", { type: "button", class: "plain", "aria-label": "Close", onclick: requestClose }, icon("close"))),
    inside, question, h("div", { class: "end" }, hint, finish));

  const unload = (event) => { if (!saved) event.preventDefault(); };
  window.addEventListener("beforeunload", unload);
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault(); // the browser would close it, at the second press whatever the page says
    requestClose();
  });
  node.addEventListener("cancel", (event) => {
    event.preventDefault();
    requestClose();
  });
  node.addEventListener("close", () => {
    if (!saved && !givenUp) { // the page behind it was left
      node.showModal();
      hideQuestion();
      return requestClose();
    }
    window.removeEventListener("beforeunload", unload);
    fill(inside);
    node.remove();
    (from?.isConnected ? from : document.querySelector("main h1"))?.focus({ preventScroll: true });
    then(saved);
  });
  document.body.append(node);
  node.showModal();
  first();
}
