// A refused activity: the reason in a sentence, the policy that decided or came closest, what to do next, and the other policies.

import { query } from "../api.js";
import { fill, h, unique } from "../dom.js";
import { bareType, denialOf, deniers, isProse, ownTypes, reasonOf, rootQuorumTypes, wantsOf } from "../refusals.js";
import { grown, when } from "../ui.js";
import { errorText, evaluations as evaluationTable, isAboutOthers, policyName, valueText } from "./evaluations.js";
import { meaningOf, organizationOf } from "./plainpolicies.js";

const orNull = (asked) => asked.catch((error) => console.debug(error) ?? null);
const secondsOf = (timestamp) => Number(timestamp.seconds);
const ids = /\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g;

// loadRefusal fetches what the page of a refused activity tells. said are the evaluations of get_policy_evaluations, which name the
// policies that still exist; null if they were refused. of names a sub-organization, if the activity is of one.
export async function loadRefusal(activity, said, of = {}) {
  const { evaluations } = denialOf(activity.failure);
  if (evaluations.length === 0) return { ...await withoutPolicies(activity, said, of), others: [] };
  // Without expressions the enclave has not sorted them.
  const sorted = evaluations.some((e) => e.expression);
  const first = sorted ? evaluations[0] : null;
  const main = deniers(evaluations)[0] ?? (sorted ? evaluations.find((e) => !isAboutOthers(e)) ?? null : null);
  const names = main?.clause === "consensus" ? [...new Set([main.expression ?? "", ...(main.values ?? []).map((v) => v.value)].join(" ").match(ids))].slice(0, 4) : [];
  const present = new Set((said ?? []).filter((e) => e.policyName).map((e) => e.policyId));
  const [policy, ...users] = await Promise.all([
    main && (!said || of.organizationId || present.has(main.policyId)) && orNull(query("get_policy", { ...of, policyId: main.policyId })), ...names.map((userId) => orNull(query("get_user", { ...of, userId }))),
  ]);
  return {
    reason: reasonOf(activity.type, denialOf(activity.failure)), main, policy: policy ? policy.policy : null, of, mayAllow: true,
    users: users.filter(Boolean).map(({ user }) => user), others: evaluations.filter((e) => e !== main), skipped: main !== first,
    text: sorted && !main ? "No policy is about requests of this kind." : undefined,
    exists: (e) => !of.organizationId && (present.has(e.policyId) || Boolean(policy) && policy.policy.policyId === e.policyId),
  };
}

// withoutPolicies finds out why an activity was refused although no policy is named.
async function withoutPolicies(activity, said, of) {
  const [first] = activity.votes;
  const type = bareType(activity.type);
  if (rootQuorumTypes.has(type)) return { reason: "Refused: only the root quorum can do this.", rootQuorum: !of.organizationId };
  const { userId } = Object.values(activity.intent)[0] ?? {};
  if (ownTypes.has(type) && userId && userId !== first?.userId) return { reason: "Refused: users can do this only for themselves." };
  const hidden = { reason: "Refused", text: "You may not see which policy decided." };
  const [policies, requester] = await Promise.all([orNull(query("list_policies", of)), first && orNull(query("get_user", { ...of, userId: first.userId }))]);
  if (!said || !policies || !requester) return hidden; // such as a user of the parent, whose policies decided
  const earlier = policies.policies.filter((p) => secondsOf(p.createdAt) < secondsOf(activity.createdAt));
  if (earlier.length > 0) return { reason: "Refused: the session that sent this may not do it.", text: "No policy was evaluated." };
  return { reason: reasonOf(activity.type, denialOf(activity.failure)), text: "There was no policy. Only the root quorum can do what no policy allows.", mayAllow: !of.organizationId, of };
}

const isDenier = (e) => deniers([e]).length > 0;

// nameOf is the name of the policy that decided or came closest, for a sentence.
const nameOf = ({ main, exists }) => policyName({ ...main, policyName: main.policyName && `“${main.policyName}”` }, exists(main));

// headline is the reason. A single policy that denied is a link in it.
const headline = (refusal) => (refusal.main && isDenier(refusal.main) && !refusal.others.some(isDenier) ? ["Refused by the policy ", nameOf(refusal), "."] : refusal.reason);

const valuesOf = (main) => main.values ?? [];

const wanted = (main, wants) => {
  const expression = h("code", { class: "wrap" }, main.expression);
  if (wants === undefined) return ["depends on ", expression];
  return wants ? ["wants ", expression] : ["wants that ", expression, " does not hold"];
};

// began is the beginning of a sentence about the policy that decided or came closest, up to what it wants.
function began({ main, policy, others }, name, time) {
  const wants = wantsOf(main, policy, time);
  if (isDenier(main)) return [others.some(isDenier) ? [name, " denies this"] : "It denies this", main.expression && [" because of ", h("code", { class: "wrap" }, main.expression)]];
  const closest = ["The policy ", name, others.length > 0 && " comes closest. It"];
  if (main.outcome === "OUTCOME_ERROR") return [closest, " cannot be evaluated", valuesOf(main).length > 0 && ": ", valuesOf(main).map((v) => [errorText(v), " (", h("code", { class: "wrap" }, v.expression), ")"])];
  if (main.outcome === "OUTCOME_REQUIRES_CONSENSUS") return [closest, " needs more approvals"];
  if (!main.expression) return [closest, " does not apply"];
  if (main.clause === "consensus") return [closest, " is for other users: it ", wanted(main, wants)];
  if (main.clause === "time") return [closest, " was not in force: it ", wanted(main, wants)];
  return [closest, " ", wanted(main, wants)];
}

// written tells of the policy that decided or came closest by its expressions: what it wants, and a line for each value in the request.
function written(refusal, time) {
  const { main, users } = refusal;
  const had = main.outcome === "OUTCOME_ERROR" ? [] : valuesOf(main);
  const one = had.length === 1;
  const line = (v) => ["in this request ", valueText(v)];
  return [
    h("p", null, began(refusal, nameOf(refusal), time), one && ["; ", line(had[0])], "."),
    !one && had.length > 0 && h("ul", { class: "plainlist" }, had.map((v) => h("li", null, "In this request ", valueText(v), "."))),
    users.map((u) => h("p", { class: "note" }, h("code", null, u.userId), " is ", h("bdi", null, u.userName), ".")),
  ];
}

// alone makes an expression about one of the approvers, such as user.id == 'x', one that a policy could have.
const alone = (expression, values) => {
  const name = /^([a-z_]\w*)\./.exec(values[0]?.expression ?? expression)?.[1];
  return name && !["approvers", "credentials"].includes(name) ? `approvers.any(${name}, ${expression})` : expression;
};

// inWords says the same in words; null if the engine has none for all of it.
async function inWords(refusal, activity) {
  const { main, policy, others, of } = refusal;
  const { clause, expression } = main;
  if (!expression || expression.endsWith("…") || !["OUTCOME_DENY_IMPLICIT", "OUTCOME_DENY_EXPLICIT", "OUTCOME_TIME_INACTIVE"].includes(main.outcome)) return null;
  const organization = await organizationOf(of.organizationId ? of : {});
  const wants = wantsOf(main, policy, secondsOf(activity.createdAt));
  const values = valuesOf(main);
  const whole = clause === "consensus" ? (text) => alone(text, values) : (text) => text;
  const means = (text) => meaningOf(whole(text), clause, organization);
  const meaning = await means(wants === false ? `!(${expression})` : expression);
  if (!meaning) return null;
  const name = nameOf(refusal);
  if (isDenier(main)) return h("p", null, others.some(isDenier) ? [name, " denies this"] : "It denies this", wants === undefined ? [", looking at whether "] : " because ", meaning, ".");
  const had = clause === "time" ? [] : await Promise.all(values.map((v) => (isProse(v.value) ? null : means(`${v.expression} == ${v.value}`))));
  if (had.includes(null)) return null;
  const begins = ["The policy ", name, others.length > 0 && " comes closest. It"];
  const here = had.length > 0 && ["; in this request ", had.join(" and ")];
  if (clause === "time") return h("p", null, begins, " was not in force: it is in force ", meaning, "; this request came ", when(activity.createdAt, { both: true }), ".");
  if (clause === "consensus") return h("p", null, begins, " is for other users: it ", wants === undefined ? "depends on whether " : "allows this only if ", meaning, here, ".");
  return h("p", null, begins, wants === undefined ? " depends on whether " : " allows this only if ", meaning, here, ".");
}

// sentences tell of the policy that decided or came closest: by its expressions, and in words as soon as there are any.
function sentences(refusal, activity) {
  const { main, policy, exists } = refusal;
  const time = secondsOf(activity.createdAt);
  const changed = policy && secondsOf(policy.updatedAt) > time;
  // The enclave puts policies that could only deny behind those that could allow.
  if (policy?.effect === "EFFECT_DENY" && !changed && !isDenier(main)) {
    return h("p", null, refusal.skipped ? "No policy that allows is about requests of this kind." : "The policies only deny. There is none that allows anything.");
  }
  const exact = written(refusal, time);
  const place = h("div", { class: "items", "aria-busy": "true" }, exact);
  inWords(refusal, activity).then((said) => said && fill(place, said, h("details", { class: "fold" }, h("summary", null, "As the policy is written"), exact)))
    .catch((error) => console.debug(error)) // the expressions are there
    .finally(() => place.removeAttribute("aria-busy"));
  return [
    place,
    changed && h("p", { class: "note" }, "The policy has changed since."),
    !exists(main) && !refusal.of.organizationId && h("p", { class: "note" }, "The policy has been deleted since."),
    isDenier(main) && h("p", null, "A policy that denies overrides all that allow. Only the root quorum can do this in spite of it."),
  ];
}

// showRefusal is the head of a refused activity's page.
export function showRefusal(activity, refusal) {
  const { text, main, others, exists, mayAllow, rootQuorum, of } = refusal;
  const id = unique("refused");
  return [
    h("section", { class: "panel verdict bad", "aria-labelledby": id }, h("h2", { id }, headline(refusal)), text && h("p", null, text), main && sentences(refusal, activity),
      rootQuorum && h("p", null, "Ask a member of the root quorum to do it. ", h("a", { href: "#/settings" }, "See who is in the root quorum"), "."),
      mayAllow && !of.organizationId && h("p", null, h("a", { class: "strong", href: `#/policies/try?activityId=${activity.id}` }, "Why, and what would allow just this"))),
    others.length > 0 && h("details", { class: "panel" }, h("summary", null, main ? `${others.length} other ${others.length === 1 ? "policy" : "policies"}` : `${others.length} ${others.length === 1 ? "policy" : "policies"}`),
      grown(others, (some) => evaluationTable(some, exists))),
  ];
}
