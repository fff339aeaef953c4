// Changes that are not saved: leaving the page that has them asks first.

import { fill, h } from "./dom.js";
import { confirm, values } from "./ui.js";

// The forms of the page in view, each with a function that tells whether something in it was changed.
const watched = new Set();

const changed = () => {
  for (const one of watched) if (!one.node.isConnected) watched.delete(one);
  return [...watched].some((one) => one.changed());
};

// unsaved watches a form while it is in the page. It gives back a function that takes the form's values as saved.
export function unsaved(node, read = () => JSON.stringify(values(node))) {
  let saved = read();
  watched.add({ node, changed: () => read() !== saved });
  return () => { saved = read(); };
}

// unsavedMarked is unsaved for one of several forms on a page: it says beside the form's button that something is not saved.
export function unsavedMarked(node) {
  const read = () => JSON.stringify(values(node));
  const mark = h("p", { class: "note", role: "status" });
  node.querySelector(".end").append(mark);
  let start = read();
  const show = () => fill(mark, read() !== start && "Not saved yet");
  node.addEventListener("input", show);
  const saved = unsaved(node, read);
  return () => {
    saved();
    start = read();
    show();
  };
}

// beforeLeaving lets leave happen if nothing would be lost or the reader does not mind.
export function beforeLeaving(leave) {
  if (!changed()) return leave();
  return confirm("Leave without saving?", "What you changed on this page is not saved and would be lost.", "Leave", async () => {
    watched.clear();
    setTimeout(leave); // when the question is closed
  }, "Stay");
}

// Entries of the browser's history are numbered, so that the page can be gone back to from wherever the way led.
let at = 0;
let returning = false;
let question; // that is open, if any

// guarded draws what the address names whenever it changes, after asking.
export function guarded(draw) {
  at = history.state?.at ?? 0;
  history.replaceState({ at }, "");
  window.addEventListener("hashchange", () => {
    if (returning) {
      returning = false;
      return;
    }
    const to = history.state?.at ?? at + 1;
    history.replaceState({ at: to }, "");
    if (to === at || !changed()) {
      at = to;
      draw();
      return;
    }
    const steps = to - at;
    returning = true;
    history.go(-steps);
    question?.close();
    question = beforeLeaving(() => history.go(steps));
  });
  window.addEventListener("beforeunload", (event) => {
    if (changed()) event.preventDefault();
  });
}
