// Testing a request: how it would be decided now, by any user, with a policy that is not saved, and what would allow just that.

import { ask } from "../advice.js";
import { query } from "../api.js";
import { fill, h } from "../dom.js";
import { expressionField } from "../editor.js";
import { session } from "../session.js";
import { types, versionsOf } from "../types.js";
import { badge, button, field, form, load, panel, title, values, when, words } from "../ui.js";
import { initiator, typeText } from "./activities.js";
import { evaluations } from "./evaluations.js";
import { effectBadge, effects, expressions, inWords } from "./policywords.js";
import { samples } from "./samples.js";
import { formFor } from "./tryforms.js";

const back = { href: "#/policies", text: "Policies" };
const noPolicy = "00000000-0000-0000-0000-000000000000"; // the id of a draft

const outcomes = {
  ACTIVITY_STATUS_COMPLETED: ["Allowed", "good"], ACTIVITY_STATUS_CONSENSUS_NEEDED: ["Needs approval", "wait"],
  ACTIVITY_STATUS_AUTHENTICATORS_NEEDED: ["Needs credentials", "wait"], ACTIVITY_STATUS_FAILED: ["Refused", "bad"],
};

const named = (all, outcome) => all.filter((e) => e.outcome === outcome).map((e) => `“${e.policyName || "the policy without a name"}”`);

// reason says in a sentence which rule decided.
function reason({ status, basis, policyEvaluations }, who, { threshold, userIds }, userId) {
  const allowed = status === "ACTIVITY_STATUS_COMPLETED";
  const you = who === "you";
  const [allows] = named(policyEvaluations, "OUTCOME_ALLOW");
  const [denies] = named(policyEvaluations, "OUTCOME_DENY_EXPLICIT");
  if (allowed && basis === "BASIS_ROOT_QUORUM") return `Allowed because ${you ? "you are" : `${who} is`} in the root quorum; policies were not evaluated.`;
  if (allowed && basis === "BASIS_SELF_SERVICE") return "Allowed because users may do this to their own account.";
  if (allowed) return `Allowed by the policy ${allows}.`;
  if (basis === "BASIS_MFA_POLICY") return `The request would wait until ${you ? "you approve" : `${who} approves`} it with another credential. Policies are evaluated then.`;
  if (status === "ACTIVITY_STATUS_CONSENSUS_NEEDED") {
    const root = userIds.includes(userId) && `${threshold} members of the root quorum approve it`;
    const waits = named(policyEvaluations, "OUTCOME_REQUIRES_CONSENSUS");
    const others = waits.length > 0 && !denies && `others approve it, as ${waits.join(" or ")} asks for`;
    return `The request would wait until ${[others, root].filter(Boolean).join(", or ") || "other users approve it"}.`;
  }
  if (basis === "BASIS_ROOT_QUORUM") return "Refused because only the root quorum can do this.";
  if (basis === "BASIS_ABOUT_ANOTHER_USER") return "Refused because users can do this only for themselves.";
  if (basis === "BASIS_STEPS") return "Refused because the policies take too many steps to evaluate.";
  if (denies) return `Refused by the policy ${denies}.`;
  return policyEvaluations.length === 0 ? "Refused because there is no policy." : "Refused because no policy allows it.";
}

// unsuggested says why there is no policy that would allow just a request.
function unsuggested({ basis, policyEvaluations }) {
  const denies = policyEvaluations.find((e) => e.outcome === "OUTCOME_DENY_EXPLICIT");
  if (denies) return ["A policy that allows cannot override one that denies. Change ", denies.policyId === noPolicy ? "your draft" : h("a", { href: `#/policies/${denies.policyId}` }, denies.policyName), ", or let the root quorum approve the request."];
  if (basis === "BASIS_ROOT_QUORUM") return "No policy can allow this. Members of the root quorum can.";
  if (basis === "BASIS_ABOUT_ANOTHER_USER") return "No policy can allow this. The user can do it for himself.";
  return "Policies cannot tell this request from more dangerous ones, so there is no policy that allows just this. Let the root quorum approve the request, or write a policy that allows more.";
}

// suggestion shows the narrowest policy that would allow a request, in words and as it is written.
function suggestion(policy, organization, test) {
  const said = h("div");
  ask({ ask: "check", organization, policy }).then((answer) => answer.words && fill(said, inWords(answer.words))).catch((error) => console.debug(error));
  return [
    h("div", { class: "row" }, effectBadge(policy), h("span", { class: "strong" }, policy.policyName)), said, expressions(policy),
    h("p", { class: "note" }, "It allows the same request again, up to the same amounts and fees."),
    h("div", { class: "row" }, h("a", { class: "button primary", href: `#/policies/new?draft=${encodeURIComponent(JSON.stringify(policy))}` }, "Make this policy"), button("Test with this policy", { onclick: test })),
  ];
}

// content reads parameters that are written as JSON.
function content(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    const why = `The parameters are not valid JSON: ${error.message}.`;
    throw Object.assign(new Error(why), { fields: [{ field: "parameters", description: why }] });
  }
}

const bareType = (type) => type.replace("ACTIVITY_TYPE_", "").replace(/_V\d+$/, "");

// submittedBefore names the activity that is tested.
const submittedBefore = (activity) => [h("p", null, "The request: ", h("a", { class: "strong", href: `#/activities/${activity.id}` }, typeText(activity.type)), ", submitted by ", initiator(activity), " ", when(activity.createdAt), ". ",
  h("a", { href: "#/policies/try" }, "Test another request"))];

// requestFields ask for a type and its parameters: fields where there is a form for the type, and JSON, which the fields write, behind a
// fold. What the reader writes into the JSON stays until a field above it is changed. read gives the parameters.
function requestFields(has) {
  const known = samples({ address: has.accounts[0]?.address, walletId: has.walletId, userId: has.userId });
  const newest = (type) => `ACTIVITY_TYPE_${versionsOf(type).at(-1)}`;
  const all = types.filter((t) => !/^(APPROVE|REJECT)_ACTIVITY$/.test(t)).map((t) => [newest(t), typeText(newest(t))]).sort((a, b) => a[1].localeCompare(b[1]));
  const place = h("div", { class: "items" });
  const json = field({ name: "parameters", label: "Parameters (JSON)", kind: "textarea", class: "code", rows: 8, optional: false });
  const area = json.querySelector("textarea");
  const summary = h("summary");
  const fold = h("details", { class: "fold" }, summary, json);
  let form = null; // of the chosen type, if it has one
  let byHand = false;
  const write = (parameters) => { area.value = JSON.stringify(parameters, null, 2); };
  const made = () => form.make(values(place));
  // follow writes what the fields say, as far as they can be read.
  function follow() {
    byHand = false;
    try {
      write(made());
    } catch {
      area.value = ""; // why is said when it is evaluated
    }
  }
  function choose(type) {
    form = formFor(bareType(type), has);
    fill(place, form?.fields);
    fill(summary, form ? "The same as JSON" : "Parameters");
    fold.open = !form || byHand;
    if (byHand) return; // what the reader wrote stays
    if (form) follow();
    else write(known[bareType(type)] ?? {});
  }
  area.addEventListener("input", () => { byHand = true; });
  place.addEventListener("input", follow);
  const first = newest("CREATE_WALLET");
  choose(first);
  return {
    fields: [field({ name: "type", label: "Request", kind: "select", value: first, options: all, onchange: ({ target }) => choose(target.value) }), place, fold],
    read() {
      if (form && !byHand) return made();
      fold.open = true; // what is wrong is said there
      return content(area.value);
    },
  };
}

// draftFields are those of a policy that is not saved.
function draftFields(organization) {
  const saved = organization.policies.map((p) => [p.policyId, p.policyName]);
  const expression = (clause, label) => expressionField({ name: clause, label, clause, rows: clause === "time" ? 2 : 3, organization: async () => organization });
  const replaced = ({ target }) => {
    const policy = organization.policies.find((p) => p.policyId === target.value);
    if (policy) write(target.form, policy);
  };
  return h("details", { class: "draft" }, h("summary", null, "With a policy that is not saved"),
    field({ name: "useDraft", label: "Evaluate this policy too", kind: "checkbox", hint: "Only for this test. Nothing is saved." }),
    field({ name: "policyId", label: "Place", kind: "select", options: [["", "A new policy, beside the others"], ...saved.map(([id, name]) => [id, `In place of ${name}`])], onchange: replaced }),
    field({ name: "effect", label: "Effect", kind: "select", value: "EFFECT_ALLOW", options: effects, wide: false }),
    expression("condition", "Condition"), expression("consensus", "Consensus"), expression("time", "Time"));
}

// write puts a policy into the fields of a draft, and uses it.
function write(node, policy) {
  const { useDraft, policyId, effect } = node.elements;
  useDraft.checked = true;
  policyId.value = policy.policyId ?? "";
  effect.value = policy.effect;
  for (const name of ["condition", "consensus", "time"]) {
    const area = node.elements[name];
    area.value = policy[name] ?? "";
    area.dispatchEvent(new Event("input", { bubbles: true })); // its highlighting follows
  }
  node.querySelector("details.draft").open = true;
}

function draw({ organizationData: organization, activity, accounts }) {
  const outcome = h("div", { "aria-live": "polite" });
  const { rootQuorum, users, wallets } = organization;
  const asked = activity?.votes[0]?.userId;
  const about = (u) => [u.userId === session().userId && "you", u.userId === asked && "who submitted it", rootQuorum.userIds.includes(u.userId) && "root quorum"].filter(Boolean).join(", ");
  const request = activity ? { fields: submittedBefore(activity) }
    : requestFields({ accounts, walletId: wallets?.[0]?.walletId, userId: session().userId, tags: organization.tags.filter((t) => t.tagType === "TAG_TYPE_USER") });
  const people = users.map((u) => [u.userId, about(u) ? `${u.userName} (${about(u)})` : u.userName]);
  const node = form({
    fields: [
      field({ name: "userId", label: "Submitted by", kind: "select", value: users.some((u) => u.userId === asked) ? asked : session().userId, options: people, hint: "Another user counts with all credentials that the user has, without MFA policies." }),
      ...request.fields, draftFields(organization),
    ],
    action: "Evaluate",
    run: async ({ userId, type, useDraft, policyId, effect, condition, consensus, time }) => {
      fill(outcome);
      const policy = useDraft && { ...(policyId && { policyId }), policyName: "Your draft", effect, condition, consensus, time };
      const asked = activity ? { activityId: activity.id } : { activity: { type, parameters: request.read() } };
      const got = await query("evaluate_policies", { ...asked, userId, includeSuggestion: true, ...(policy && { policy }) });
      const name = users.find((u) => u.userId === userId)?.userName ?? "the user";
      const [short, tone] = outcomes[got.status] ?? [words(got.outcome, "OUTCOME_"), "neutral"];
      const all = [...got.policyEvaluations].sort((a, b) => (b.outcome === "OUTCOME_ALLOW") - (a.outcome === "OUTCOME_ALLOW"));
      const kind = typeText(activity?.type ?? type);
      const draft = got.suggestion && { policyName: `${kind} by ${name}`, time: "", ...got.suggestion };
      fill(outcome,
        panel("Outcome", [h("p", null, badge(short, tone), " ", reason(got, userId === session().userId ? "you" : name, rootQuorum, userId)),
          all.length > 0 && evaluations(all, (e) => Boolean(e.policyId && e.policyId !== noPolicy && e.policyName))]),
        got.status !== "ACTIVITY_STATUS_COMPLETED" && panel("What would allow just this", draft ? suggestion(draft, organization, () => {
          write(node, draft);
          node.requestSubmit();
        }) : h("p", null, unsuggested(got))));
    },
  });
  if (activity) queueMicrotask(() => node.requestSubmit()); // what is asked about is known
  return [panel("Request", node), outcome];
}

// tryPolicy shows how a request would be decided now. Nothing is executed.
export function tryPolicy(main, search) {
  const activityId = search?.get("activityId");
  const place = h("div");
  fill(main, title("Test a request", { back, intro: "How a request would be decided if a user submitted it now, and what would allow just that. Nothing is executed." }), place);
  load(place, "the organization", async () => {
    const [{ organizationData }, { activity }, { accounts }] = await Promise.all([query("get_organization"), activityId ? query("get_activity", { activityId }) : {},
      query("list_wallet_accounts", { includeWalletDetails: true, paginationOptions: { limit: "100" } }).catch(() => ({ accounts: [] }))]);
    return { organizationData, activity, accounts };
  }, draw);
}
