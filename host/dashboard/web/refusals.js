// Refusals by policies, as the enclave tells them: which policies there were, and why they did not allow a request.

// rootQuorumTypes are the activity types that only the root quorum can allow. Policies cannot. refusals.mjs holds the list against
// the enclave's sources.
export const rootQuorumTypes = new Set(["CREATE_ORGANIZATION", "EXPORT_HISTORY", "REMOVE_ORGANIZATION_FEATURE", "SET_ORGANIZATION_FEATURE", "UPDATE_ALLOWED_ORIGINS", "UPDATE_ORGANIZATION_NAME", "UPDATE_ROOT_QUORUM"]);

// ownTypes are the activity types that a user can only do for himself, whoever he is.
export const ownTypes = new Set(["IMPORT_PRIVATE_KEY", "IMPORT_WALLET", "INIT_IMPORT_PRIVATE_KEY", "INIT_IMPORT_WALLET", "RECOVER_USER"]);

// bareType is a type without its prefix and its version.
export const bareType = (type) => type.replace("ACTIVITY_TYPE_", "").replace(/_V\d+$/, "");

export const onlyRootQuorum = "Only the root quorum can do this.";

// denialOf reads an activity's failure, or the error answer to a request: it gives null unless policies or the root quorum denied it.
// The evaluations come in the enclave's order: those that deny, then those that came nearest to allowing. They are empty if no policy
// was evaluated, or if the reader may not know them.
export function denialOf(failure) {
  const details = failure?.details ?? [];
  if (!details.some((d) => d.turnkeyErrorCode === "REQUEST_NOT_AUTHORIZED")) return null;
  return {
    evaluations: details.find((d) => Array.isArray(d.policyEvaluations))?.policyEvaluations ?? [],
    activityId: details.find((d) => d["@type"]?.endsWith(".RefusedActivity"))?.activityId,
    explicit: failure.message.includes("denied request explicitly"),
  };
}

// isRefused tells whether an activity failed because nobody allowed it, and not while it was executed.
export const isRefused = (activity) => activity.status === "ACTIVITY_STATUS_FAILED" && denialOf(activity.failure) !== null;

export const deniers = (evaluations) => evaluations.filter((e) => e.outcome === "OUTCOME_DENY_EXPLICIT");

export const quoted = (e) => (e.policyName ? `“${e.policyName}”` : e.policyId ?? "");

// reasonOf is a refusal in a sentence.
export function reasonOf(type, { evaluations, explicit }) {
  if (rootQuorumTypes.has(bareType(type))) return onlyRootQuorum;
  const [first, ...others] = deniers(evaluations);
  if (first) return others.length === 0 ? `Refused by the policy ${quoted(first)}.` : `Refused by the policy ${quoted(first)} and ${others.length === 1 ? "another one" : `${others.length} others`}.`;
  return explicit ? "Refused: a policy denies this." : "Refused: no policy allows this.";
}

// The words of the policy language that end what a ! before them is about, or begin something of their own.
const marks = /'[^']*'|!=|!|[([\])]|&&|\|\||[=<>]=?|,|\bin\b/g;

// isNegated tells whether what begins at a place of an expression stands behind an odd number of !, such as x == 1 in !(x == 1).
function isNegated(text, at) {
  const open = [false]; // whether each of the parentheses around the place is negated so far
  for (const [mark] of text.slice(0, at).matchAll(marks)) {
    if (mark === "!") open[open.length - 1] = !open.at(-1);
    else if (mark === "(" || mark === "[") open.push(false);
    else if (mark === ")" || mark === "]") open.pop();
    else if (!mark.startsWith("'")) open[open.length - 1] = false;
  }
  return open.filter(Boolean).length % 2 === 1;
}

// wantsOf tells whether a policy wants the expression that decided to hold: true, false, or undefined if that cannot be known, as the
// policy is gone or was changed after the time in seconds. The enclave names the expression without a ! before it.
export function wantsOf({ clause, position, expression, values = [] }, policy, time) {
  if (!expression || !policy || Number(policy.updatedAt.seconds) > time || values.some((v) => isProse(v.value))) return undefined;
  const bytes = new TextEncoder().encode(policy[clause] ?? "");
  const text = new TextDecoder().decode(bytes);
  const at = new TextDecoder().decode(bytes.slice(0, position)).length;
  return text.startsWith(expression.replace(/…$/, ""), at) ? !isNegated(text, at) : undefined;
}

// isProse tells whether what stands for a value is a sentence about the expression and not its value.
export const isProse = (value) => value.startsWith("is not empty, ");
