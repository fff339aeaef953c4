// A text field for expressions of the policy language, with colours, suggestions at the caret, and problems marked where they are.
// The engine that suggests is the worker's; here only the words of the language are known.

import { ask } from "./advice.js";
import { sentence } from "./api.js";
import { fill, h } from "./dom.js";
import { field } from "./ui.js";

const keywords = new Set(["true", "false", "in"]);
const methods = new Set(["any", "all", "filter", "count", "contains"]);
const functions = new Set(["Timestamp", "CronSpan"]);

// A string that does not end is a string to the end. With the flag u, a letter of two code units is one.
const token = /(?<string>'[^']*'?)|(?<number>\d+)|(?<name>[A-Za-z_]\w*)|(?<operator>\|\||&&|[=!<>]=|\.\.|[<>!,()[\]-])|[^]/gu;

function kindOf({ string, number, name, operator }, behindDot) {
  if (string || number || operator) return string ? "string" : number ? "number" : "operator";
  if (!name) return "";
  if (keywords.has(name) && !behindDot) return "keyword";
  return (behindDot ? methods : functions).has(name) ? "function" : "path";
}

// pieces cuts a text where its colour or a mark changes. A mark is {from, to, kind}.
function pieces(text, marks = []) {
  const edges = marks.flatMap(({ from, to }) => [from, to]).sort((a, b) => a - b);
  const all = [];
  let behindDot = false;
  for (const { 0: word, index, groups } of text.matchAll(token)) {
    const kind = kindOf(groups, behindDot);
    if (word.trim()) behindDot = word === ".";
    const cuts = [index, ...edges.filter((e) => e > index && e < index + word.length), index + word.length];
    cuts.slice(1).forEach((end, i) => {
      const covering = marks.filter(({ from, to }) => from <= cuts[i] && cuts[i] < to).map((m) => m.kind);
      const classes = [...(kind ? [`syntax-${kind}`] : []), ...new Set(covering)].join(" ");
      const piece = text.slice(cuts[i], end);
      if (all.length && all.at(-1).classes === classes) all.at(-1).text += piece;
      else all.push({ classes, text: piece });
    });
  }
  return all;
}

const drawn = ({ classes, text }) => (classes ? h("span", { class: classes }, text) : text);

// Letters that show nothing, or that turn the text around them: a reader would see another expression than the one that decides.
const unseen = /((?![\n\r\t ])[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}])/u;
const escaped = (letter) => `\\u{${letter.codePointAt(0).toString(16).toUpperCase()}}`;

const visible = (text) => text.split(unseen).map((part, i) => (i % 2 ? escaped(part) : part)).join("");

// highlighted is an expression for reading, as coloured nodes. Letters that cannot be seen are written as \u{200B}.
export const highlighted = (text) => pieces(text).flatMap((piece) => piece.text.split(unseen).map((part, i) =>
  drawn(i % 2 ? { classes: "syntax-unseen", text: escaped(part) } : { ...piece, text: part })));

// oddQuotes of what stands before a place tells that the place is inside a string.
const oddQuotes = (text) => text.split("'").length % 2 === 0;

// suggestible tells whether suggestions belong to what stands before the caret: a name, a dot or the content of a string.
const suggestible = (before) => oddQuotes(before) || /(^|\W)[A-Za-z_]\w*$|\.$/.test(before);

// marked is where a problem is underlined. One without a length underlines a letter: the next, or at the end of a line the last.
function marked(text, from, to) {
  if (to > from) return { from, to };
  if (/^\S/.test(text.slice(from))) return { from, to: from + String.fromCodePoint(text.codePointAt(from)).length };
  const before = text.slice(0, from).trimEnd();
  return { from: Math.max(before.length - 1, 0), to: before.length };
}

// A warning begins somewhere and has no end: the field, string or sign there is underlined.
const wordAt = (text, from) => marked(text, from, from + (/^([\w.]+|'[^']*'?)/.exec(text.slice(from))?.[0].length ?? 0));

// overlay shows the text of a textarea in colours, in a pre under it whose lines are the same. The textarea's own text is transparent.
function overlay(input) {
  const view = h("pre", { "aria-hidden": "true" });

  function fit() {
    view.style.width = `${input.clientWidth}px`; // without a scroll bar
    view.style.height = `${input.clientHeight}px`;
    view.scrollTop = input.scrollTop;
  }

  function draw(marks) {
    fill(view, pieces(input.value, marks).map(drawn), "\u200b"); // so that an empty last line has a height
    fit();
  }

  // rectOf is where a letter is drawn.
  function rectOf(at) {
    const walker = document.createTreeWalker(view, NodeFilter.SHOW_TEXT);
    let left = Math.min(at, input.value.length);
    while (walker.nextNode() && left >= walker.currentNode.length) left -= walker.currentNode.length;
    const range = document.createRange();
    range.setStart(walker.currentNode, left);
    range.setEnd(walker.currentNode, left + 1);
    return [...range.getClientRects()].at(-1) ?? view.getBoundingClientRect();
  }

  new ResizeObserver(fit).observe(input);
  input.addEventListener("scroll", () => { view.scrollTop = input.scrollTop; });
  return { view, draw, rectOf };
}

// The open list of suggestions goes with its field. move puts it where the field is now.
let move = null;
const moved = ({ target }) => { if (!target.classList?.contains("suggestions")) move?.(); };
addEventListener("scroll", moved, { capture: true, passive: true });
for (const viewport of [window, window.visualViewport]) viewport?.addEventListener("resize", moved);

// suggestions makes a combobox of a textarea, and gives back its list. complete asks the engine. Where it rejects there is no engine, and the
// textarea is a plain one until it has the focus again.
function suggestions(input, label, rectOf, complete) {
  const list = h("ul", { class: "suggestions", role: "listbox", id: `${input.id}-suggestions`, "aria-label": `Suggestions for ${label}`, popover: "manual", hidden: true });
  let question = null; // the text and the caret's place that suggestions are wanted for
  let busy = false;
  let answered = false; // there is an engine
  let accepting = false;
  let shown = null; // from, to and options of the list, the text that they are for, and the number of the active option

  function combobox(on) {
    const attributes = { role: "combobox", "aria-autocomplete": "list", "aria-controls": list.id, "aria-expanded": "false" };
    for (const [name, value] of Object.entries(attributes)) {
      if (on) input.setAttribute(name, value);
      else input.removeAttribute(name);
    }
  }

  function missing(error) {
    console.debug(error);
    answered = false;
    close();
    combobox(false);
  }

  // suggest asks one question after the other. An answer to an earlier text is late, and dropped.
  async function suggest() {
    if (!input.hasAttribute("role")) return;
    question = { text: input.value, at: input.selectionStart };
    if (busy) return;
    busy = true;
    for (let asked = null; question && question !== asked;) {
      asked = question;
      const answer = await complete(asked).catch(missing);
      const { value, selectionStart, selectionEnd } = input;
      const same = question === asked && value === asked.text && selectionStart === asked.at && selectionEnd === asked.at;
      if (answer && same && document.activeElement === input) show({ from: answer.from, to: answer.to, text: asked.text, options: answer.options ?? [] });
    }
    busy = false;
  }

  function show(next) {
    const typed = next.text.slice(next.from, next.to);
    if (next.options.length === 0 || next.options.length === 1 && next.options[0].text === typed) return hide();
    const chosen = shown?.active && shown.options[shown.active].text; // by an arrow key
    shown = next;
    const part = (name, text) => text && [h("span", { class: name }, visible(text)), " "];
    fill(list, shown.options.map((option, i) => h("li", { role: "option", id: `${list.id}-${i}`, "aria-selected": "false" },
      part("name", option.label), part("detail", option.detail), part("note", option.note))));
    if (list.hidden) {
      list.hidden = false;
      list.showPopover?.(); // above everything, a dialog too
    }
    input.setAttribute("aria-expanded", "true");
    move = place;
    place();
    choose(Math.max(shown.options.findIndex((o) => o.text === chosen), 0));
  }

  function choose(i) {
    list.children[shown.active]?.setAttribute("aria-selected", "false");
    shown.active = (i + shown.options.length) % shown.options.length;
    const option = list.children[shown.active];
    option.setAttribute("aria-selected", "true");
    input.setAttribute("aria-activedescendant", option.id);
    list.scrollTop = Math.min(option.offsetTop, Math.max(list.scrollTop, option.offsetTop + option.offsetHeight - list.clientHeight));
  }

  function hide() {
    if (!shown) return;
    shown = move = null;
    if (list.isConnected) list.hidePopover?.();
    list.hidden = true;
    fill(list);
    input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-expanded", "false");
  }

  function close() {
    question = null;
    hide();
  }

  // place puts the list under the word that is typed, or above it where there is more room.
  function place() {
    const margin = 8;
    const { offsetLeft = 0, offsetTop = 0, width = innerWidth, height = innerHeight } = window.visualViewport ?? {}; // less than the window where a keyboard covers it
    const frame = input.getBoundingClientRect();
    const { left, top, bottom } = rectOf(shown.from);
    const [over, under] = [Math.max(top, frame.top), Math.min(bottom, frame.bottom)];
    const [roomOver, roomUnder] = [over - offsetTop - 2 * margin, offsetTop + height - under - 2 * margin];
    const { scrollTop } = list;
    list.style.maxHeight = "";
    const above = list.offsetHeight > roomUnder && roomOver > roomUnder;
    list.style.maxHeight = `${Math.min(list.offsetHeight, Math.max(above ? roomOver : roomUnder, 0))}px`;
    list.style.top = `${above ? over - margin / 2 - list.offsetHeight : under + margin / 2}px`;
    list.style.left = `${Math.max(offsetLeft + margin, Math.min(left, offsetLeft + width - margin - list.offsetWidth))}px`;
    list.scrollTop = scrollTop;
  }

  // narrow keeps the options that hold what is typed now, until the engine has answered.
  function narrow() {
    const { from, text, options } = shown;
    const at = input.selectionStart;
    const to = shown.to + input.value.length - text.length;
    if (at < from || to < at || input.value.slice(0, from) !== text.slice(0, from)) return hide();
    const typed = input.value.slice(from, at).toLowerCase();
    const found = (f) => options.filter((o) => [o.text, o.label].some((t) => f(t.toLowerCase())));
    show({ from, to, text: input.value, options: [...new Set([...found((t) => t.startsWith(typed)), ...found((t) => t.includes(typed))])] });
  }

  // accept replaces what is typed by an option, and ends its string. insertText is in no standard any more, but no other insertion can be
  // undone: after setRangeText the browser knows nothing to undo.
  function accept(i) {
    const { from, to, text, options } = shown;
    close();
    if (input.value !== text) return; // a script set it
    const replacement = oddQuotes(text.slice(0, from)) && !oddQuotes(text.slice(to)) ? `${options[i].text}'` : options[i].text;
    accepting = true;
    input.setSelectionRange(from, to);
    if (!document.execCommand("insertText", false, replacement)) {
      input.setRangeText(replacement, from, to, "end");
      input.dispatchEvent(new Event("input", { bubbles: true }));
    }
    accepting = false;
    if (replacement.endsWith("'") && oddQuotes(input.value.slice(0, input.selectionStart))) suggest(); // it began a string
  }

  input.addEventListener("input", ({ inputType }) => {
    const typed = inputType === "insertText" || inputType === "insertCompositionText";
    question = null;
    if (accepting || !(typed || shown) || !suggestible(input.value.slice(0, input.selectionStart))) return hide();
    if (shown) narrow();
    suggest();
  });

  const keys = {
    ArrowDown: () => choose(shown.active + 1), ArrowUp: () => choose(shown.active - 1), Escape: close,
    Enter: () => accept(shown.active), Tab: () => accept(shown.active),
  };
  input.addEventListener("keydown", (event) => {
    const { key, ctrlKey, altKey, metaKey, shiftKey, isComposing } = event;
    if (isComposing) return;
    if (key === " " && ctrlKey && !altKey && !metaKey) {
      event.preventDefault();
      suggest();
    } else if (shown && keys[key] && !ctrlKey && !altKey && !metaKey && !shiftKey) {
      event.preventDefault();
      event.stopPropagation(); // Escape closes no dialog around the field
      keys[key]();
    } else if (["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"].includes(key)) close(); // the caret leaves
  });

  input.addEventListener("focus", () => {
    // Starts the engine before the first letter is typed.
    if (!answered) ask({ ask: "language" }).then(() => { answered = true; if (!shown) combobox(true); }, missing);
  });
  input.addEventListener("blur", close);
  input.addEventListener("pointerdown", close);
  list.addEventListener("mousedown", (event) => event.preventDefault()); // the focus stays in the field
  list.addEventListener("click", ({ target }) => {
    const option = target.closest("[role=option]");
    if (option) accept([...list.children].indexOf(option));
  });
  combobox(true);
  return list;
}

const fields = new WeakMap(); // what showProblems does to a textarea

// expressionField is a field of a form as field of ui.js makes it. organization gives a promise of organizationData.
export function expressionField({ clause, organization, ...rest }) {
  const node = field({ ...rest, kind: "textarea", class: "code", "data-clause": clause, autocapitalize: "off", autocorrect: "off" });
  const input = node.querySelector("textarea");
  const error = node.querySelector(".error");
  const cautions = h("div", { class: "cautions", id: `${input.id}-cautions` });
  const { view, draw, rectOf } = overlay(input);
  const named = () => organization().catch(() => ({})); // without it there are fields to suggest, and no names
  const complete = async (question) => ask({ ask: "complete", organization: await named(), clause, ...question });
  const box = h("div", { class: "editor" }, view);
  input.style.minHeight = `calc(${input.rows}lh + .8rem + 2px)`; // it grows with the text

  function mark(problems, warnings) {
    const text = input.value;
    if (problems.length) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
    fill(error, problems.map((p) => sentence(p.message)).join(" "));
    fill(cautions, warnings.map((w) => h("p", null, `Warning: ${w.message}`)));
    draw([...problems.map(({ from, to }) => ({ ...marked(text, from, to), kind: "problem" })), ...warnings.map(({ from }) => ({ ...wordAt(text, from), kind: "caution" }))]);
  }

  function goTo(at) {
    input.focus();
    input.setSelectionRange(at, at);
    const [letter, frame] = [rectOf(at), view.getBoundingClientRect()];
    if (letter.top < frame.top || letter.bottom > frame.bottom) input.scrollTop += letter.top - frame.top - input.clientHeight / 3;
  }

  // A script that sets the value sends no event; what is seen is what is sent all the same.
  const { get, set } = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value");
  Object.defineProperty(input, "value", { configurable: true, get, set(text) { set.call(this, text); mark([], []); } });
  input.addEventListener("input", () => mark([], []));
  input.replaceWith(box);
  box.append(input, suggestions(input, rest.label, rectOf, complete));
  node.append(cautions);
  input.setAttribute("aria-describedby", `${input.getAttribute("aria-describedby")} ${cautions.id}`);
  fields.set(input, { mark, goTo });
  draw([]);
  return node;
}

// showProblems marks what a check found in the fields of a form, and clears what an earlier one found. The caret goes to the first problem,
// unless focus is false: for a check while somebody types. What concerns no clause is the caller's to show.
export function showProblems(form, problems, warnings = [], { focus = true } = {}) {
  let first = null;
  for (const input of form.querySelectorAll("textarea[data-clause]")) {
    const [wrong, doubtful] = [problems, warnings].map((found) => found.filter((f) => f.clause === input.dataset.clause));
    const { mark, goTo } = fields.get(input);
    mark(wrong, doubtful);
    if (wrong.length) first ??= () => goTo(wrong[0].from);
  }
  if (focus) first?.();
}

const chars = (text, bytes) => new TextDecoder().decode(new TextEncoder().encode(text).slice(0, bytes)).length;

// showFaults marks what the server has against expressions, at the places that it names. Each fault has the clause as its field. It
// gives back false, and marks nothing, if one of them names no place in an expression.
export function showFaults(form, faults) {
  const placed = faults.map(({ field: clause, description }) => {
    const [, why, position] = /^(?:invalid policy \w+: )?(?:Expression cannot be \w+: )?(.*) at position (\d+)$/.exec(description) ?? [];
    const input = form.querySelector(`textarea[data-clause="${CSS.escape(clause)}"]`);
    if (!input || !position) return null;
    const text = input.value;
    const from = chars(text, Number(position));
    return { clause, from, to: from + (/^\w+|^./u.exec(text.slice(from))?.[0].length ?? 0), message: `${why[0].toUpperCase()}${why.slice(1)}.` };
  });
  if (placed.length === 0 || !placed.every(Boolean)) return false;
  showProblems(form, placed);
  return true;
}
