// What each policy made of a request: a badge, and the values from which the clause decided.

import { h } from "../dom.js";
import { isProse } from "../refusals.js";
import { badge, table, words } from "../ui.js";

const verdicts = {
  OUTCOME_ALLOW: ["Allows", "good"], OUTCOME_DENY_EXPLICIT: ["Denies", "bad"], OUTCOME_DENY_IMPLICIT: ["Does not apply", "neutral"],
  OUTCOME_REQUIRES_CONSENSUS: ["Needs more approvals", "wait"], OUTCOME_REQUIRES_AUTHENTICATORS: ["Needs credentials", "wait"],
  OUTCOME_TIME_INACTIVE: ["Not in force now", "neutral"], OUTCOME_ERROR: ["Cannot be evaluated", "wait"], OUTCOME_REJECTED: ["Rejected", "bad"],
};

// isAboutOthers tells whether a policy is not about requests of this kind: its condition names other kinds, or reads what such a
// request does not have.
export function isAboutOthers({ outcome, clause, values = [] }) {
  if (values.length === 0) return false;
  if (outcome === "OUTCOME_ERROR") return values.every((v) => v.value.startsWith(missing));
  return clause === "condition" && outcome === "OUTCOME_DENY_IMPLICIT" && values.every((v) => /^activity\.(type|kind|resource|action)$/.test(v.expression));
}

export function verdictBadge(evaluation) {
  const { outcome, clause } = evaluation;
  if (isAboutOthers(evaluation)) return badge("Is not about this");
  if (outcome === "OUTCOME_DENY_IMPLICIT" && clause === "consensus") return badge("For other users");
  return badge(...verdicts[outcome] ?? [words(outcome, "OUTCOME_")]);
}

// policyName is a policy's name. It is a link where the policy exists.
export const policyName = ({ policyId, policyName: name }, exists) => {
  const text = name ? h("bdi", null, name) : h("code", null, policyId ?? "–");
  return exists ? h("a", { class: "strong wrap", href: `#/policies/${policyId}` }, text) : h("span", { class: "wrap" }, text);
};

const code = (text) => h("code", { class: "wrap" }, text);

// valueText says what an expression came to in a request.
export const valueText = ({ expression, value }) => [code(expression), " ", isProse(value) ? value : ["is ", code(value)]];

const missing = "MissingField: ";

// errorText says why an expression could not be evaluated.
export const errorText = ({ value }) => (value.startsWith(missing) ? value.slice(missing.length) : value);

const because = ({ outcome, expression, values = [] }) => [
  expression && outcome !== "OUTCOME_ERROR" && h("p", { class: "note" }, "Looks at ", code(expression), "."),
  values.map((v) => h("p", { class: "note" }, outcome === "OUTCOME_ERROR" ? [code(v.expression), ": ", errorText(v)] : valueText(v))),
];

// evaluations is a table of policies and their outcomes. A name that came with an evaluation is of a policy that exists, unless exists
// says otherwise.
export const evaluations = (all, exists = (e) => Boolean(e.policyId && e.policyName)) =>
  table("Policies", ["Policy", "Outcome", "In this request"], all.map((e) => [policyName(e, exists(e)), verdictBadge(e), because(e)]));
