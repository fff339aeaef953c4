// What a policy does in words, its expressions, and the warnings about it.

import { h } from "../dom.js";
import { highlighted } from "../editor.js";
import { badge, words } from "../ui.js";

// effects are what a policy can do, as choices of a form.
export const effects = [["EFFECT_ALLOW", "Allow"], ["EFFECT_DENY", "Deny"]];

export const effectBadge = (policy) => badge(words(policy.effect, "EFFECT_"), policy.effect === "EFFECT_DENY" ? "bad" : "good");

export const clauses = { condition: "Condition", consensus: "Consensus", time: "Time" };

const expression = (name, content) => h("div", { class: "expression" }, h("span", { class: "note" }, name), h("pre", null, h("code", null, content)));

// expressions shows the clauses of a policy as they are written.
export const expressions = (policy) => Object.entries(clauses).filter(([clause]) => policy[clause]).map(([clause, name]) => expression(name, highlighted(policy[clause])));

export const openNote = "No condition, consensus or time: it applies to every request of every user.";

// policyText shows what a policy says where nothing puts it in words.
export const policyText = (policy) => {
  const written = expressions(policy);
  return [policy.notes && h("p", null, policy.notes), written.length ? written : h("p", { class: "note" }, openNote)];
};

// Who, what and when are asked in this order.
const questions = [["who", "Who"], ["what", "What"], ["when", "When"]];

// textsOf lists the texts of a line and of those below it.
const textsOf = (line) => (line ? [line.text, ...(line.lines ?? []).flatMap(textsOf)] : []);

// line draws a line and those below it. Others are texts: a line that is not among them is marked as that.
function line({ text, lines }, mark, others) {
  const shown = others && !others.has(text) ? h(mark, null, h("span", { class: "hidden" }, mark === "ins" ? "New: " : "No longer: "), text) : text;
  return [h("span", null, shown), lines?.length > 0 && h("ul", { class: "said-lines" }, lines.map((l) => h("li", null, line(l, mark, others))))];
}

// inWords draws a policy in words. Beside those of another version, what is only in one is marked: ins in the new one, del in the old one.
// brief leaves out what the sentence says already.
export function inWords(all, { other, mark = "ins", brief = false } = {}) {
  const said = ({ text, lines }) => brief && !lines?.length && (text === "always" || all.sentence.includes(text));
  const rows = questions.filter(([key]) => all[key] && !said(all[key])).map(([key, name]) =>
    h("div", null, h("dt", null, name), h("dd", null, line(all[key], mark, other && new Set(textsOf(other[key]))))));
  return [h("p", { class: "policy-sentence" }, all.sentence), rows.length > 0 && h("dl", { class: "facts" }, rows)];
}

// lineInWords draws one line of words and those below it.
export const lineInWords = (one) => line(one);

// whatInWords is what a policy is about, without who and when.
export const whatInWords = ({ what }) => line(what);

// place says where in a policy a warning points, with what stands there.
function place(policy, { clause, from }) {
  const text = clause && (policy[clause] ?? "").slice(from).split("\n")[0];
  return clause && ["In the ", clauses[clause].toLowerCase(), text && [", at ", h("code", { class: "wrap" }, text.length > 60 ? `${text.slice(0, 60)}…` : text)], ": "];
}

// warningList lists warnings with their places.
export const warningList = (policy, warnings) => h("ul", { class: "warnings" }, warnings.map((w) =>
  h("li", { class: "warning wait" }, h("p", null, place(policy, w), w.message))));
