// What policies said about an activity, and which clause decided.

import { h } from "../dom.js";
import { badge, table, words } from "../ui.js";

const tone = (outcome) => (/DENY|ERROR|REJECT/.test(outcome) ? "bad" : /ALLOW/.test(outcome) ? "good" : "wait");

const because = ({ clause, values = [] }) => [
  clause && h("p", null, words(clause)),
  values.map((v) => h("p", { class: "note" }, h("code", { class: "wrap" }, `${v.expression} = ${v.value}`))),
];

// evaluations is a table of policies, or a sentence when none was asked.
export const evaluations = (all) =>
  all.length === 0 ? h("p", { class: "note" }, "No policy was asked: the root quorum or the rules of the activity decided.")
    : table("Policies", ["Policy", "Outcome", "Because of"], all.map((e) => [e.policyName || h("code", null, e.policyId ?? "–"), badge(words(e.outcome, "OUTCOME_"), tone(e.outcome)), because(e)]));
