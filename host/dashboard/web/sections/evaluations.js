// The outcome of each policy that was evaluated for an activity, and the clause that decided it.

import { h } from "../dom.js";
import { badge, table, words } from "../ui.js";

const tone = (outcome) => (/DENY|ERROR|REJECT/.test(outcome) ? "bad" : /ALLOW/.test(outcome) ? "good" : "wait");

const because = ({ clause, values = [] }) => [
  clause && h("p", null, words(clause)),
  values.map((v) => h("p", { class: "note" }, h("code", { class: "wrap" }, `${v.expression} = ${v.value}`))),
];

// evaluations is a table of policies and their outcomes.
export const evaluations = (all) =>
  table("Policies", ["Policy", "Outcome", "Reason"], all.map((e) => [e.policyName || h("code", null, e.policyId ?? "–"), badge(words(e.outcome, "OUTCOME_"), tone(e.outcome)), because(e)]));
