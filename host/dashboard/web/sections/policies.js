// Policies: who may do what.

import { advice } from "../advice.js";
import { query, resultOf, submit, waits } from "../api.js";
import { fill, h } from "../dom.js";
import { exportButton, moment } from "../export.js";
import { session } from "../session.js";
import { sorted } from "../tables.js";
import { badge, button, confirm, copyable, dialog, done, empty, field, form, grown, load, loadOne, milliseconds, panel, show, title, when, words } from "../ui.js";
import { evaluations } from "./evaluations.js";

const effects = [["EFFECT_ALLOW", "Allow"], ["EFFECT_DENY", "Deny"]];

const fields = (policy = {}) => {
  const hint = { condition: "Which requests the policy applies to. Empty: all.", consensus: "Who must approve. Empty: only the user who sends the request.", time: "When the policy applies, as an expression over time.now. Empty: always." };
  return [
    field({ name: "policyName", label: "Name", required: true, value: policy.policyName }),
    field({ name: "effect", label: "Effect", kind: "select", value: policy.effect ?? "EFFECT_ALLOW", options: effects, wide: false }),
    field({ name: "condition", label: "Condition", kind: "textarea", class: "code", value: policy.condition, hint: hint.condition, placeholder: "activity.type == 'ACTIVITY_TYPE_SIGN_TRANSACTION_V2' && eth.tx.value < 1000000000000000000" }),
    field({ name: "consensus", label: "Consensus", kind: "textarea", class: "code", value: policy.consensus, hint: hint.consensus, placeholder: "approvers.count() >= 2" }),
    field({ name: "time", label: "Time", kind: "textarea", class: "code", rows: 2, value: policy.time, hint: hint.time }),
    field({ name: "notes", label: "Notes", kind: "textarea", rows: 2, value: policy.notes, spellcheck: "true" }),
  ];
};

function saved(activity, message, again) {
  done(activity, message);
  again();
  if (!waits(activity)) warn(resultOf(activity).policyId).catch(() => {}); // advice: nothing is lost without it
}

// warn shows the warnings about a policy.
async function warn(policyId) {
  const { organizationData } = await query("get_organization");
  const warnings = (await advice(organizationData)).filter((w) => w.policyId === policyId);
  if (warnings.length) show("Saved, with a warning", h("ul", { class: "plainlist" }, warnings.map((w) => h("li", null, w.message))));
}

function create(again) {
  dialog({
    heading: "New policy", fields: fields(), action: "Create policy",
    run: async ({ time, ...all }) => saved(await submit("create_policy", "CREATE_POLICY_V3", { ...all, ...(time && { time }) }), `Policy "${all.policyName}" is in force.`, again),
  });
}

function edit(policy, again) {
  dialog({
    heading: `Edit ${policy.policyName}`, fields: fields(policy), action: "Save",
    run: async (all) => {
      const changed = { policyId: policy.policyId };
      const take = (name, as) => { if (all[name] !== (policy[name] ?? "")) changed[as] = all[name]; };
      for (const [name, as] of [["policyName", "policyName"], ["effect", "policyEffect"], ["condition", "policyCondition"], ["consensus", "policyConsensus"], ["time", "time"], ["notes", "policyNotes"]]) take(name, as);
      if (Object.keys(changed).length === 1) return;
      saved(await submit("update_policy", "UPDATE_POLICY_V2", changed), "Saved.", again);
    },
  });
}

const expression = (name, text) => text && h("div", { class: "expression" }, h("span", { class: "note" }, name), h("pre", null, h("code", null, text)));

// policyText shows what a policy says.
export const policyText = (policy) => [
  policy.notes && h("p", null, policy.notes),
  expression("Condition", policy.condition), expression("Consensus", policy.consensus), expression("Time", policy.time),
  !policy.condition && !policy.consensus && !policy.time && h("p", { class: "note" }, "No condition, consensus or time: it applies to every request of every user."),
];

export const effectBadge = (policy) => badge(words(policy.effect, "EFFECT_"), policy.effect === "EFFECT_DENY" ? "bad" : "good");

function card(policy, again, deleted = again) {
  const { policyName } = policy;
  const remove = () => confirm(`Delete the policy ${policyName}?`, "Requests are then decided by the other policies alone.", "Delete", async () => {
    done(await submit("delete_policy", "DELETE_POLICY", { policyId: policy.policyId }), `Policy "${policyName}" was deleted.`);
    deleted();
  });
  return h("article", { class: "card" },
    h("div", { class: "bar" }, h("div", { class: "row" }, effectBadge(policy), h("h2", null, policyName)),
      h("div", { class: "actions" }, button("Edit", { class: "button small", "aria-label": `Edit ${policyName}`, onclick: () => edit(policy, again) }), button("Delete", { class: "button small", "aria-label": `Delete ${policyName}`, onclick: remove }))),
    policyText(policy),
    h("p", { class: "note row" }, copyable(policy.policyId, `id of ${policyName}`), "Last changed ", when(policy.updatedAt)));
}

const orders = {
  created: ["Oldest first", (p) => milliseconds(p.createdAt)], newest: ["Newest first", (p) => milliseconds(p.createdAt), true],
  changed: ["Changed last", (p) => milliseconds(p.updatedAt), true], name: ["Name", (p) => p.policyName], effect: ["Effect", (p) => p.effect],
};

// cards shows policies in an order that can be chosen.
function cards(all, again) {
  const place = h("div");
  const draw = (order) => fill(place, grown(sorted(all, ...orders[order].slice(1)), (some) => h("div", { class: "cards" }, some.map((p) => card(p, again)))));
  draw("created");
  return [h("div", { class: "filters" }, h("label", null, "Order", h("select", { onchange: ({ target }) => draw(target.value) }, Object.entries(orders).map(([value, [text]]) => h("option", { value }, text))))), place];
}

const policyExport = () => exportButton({
  what: "policies", id: (p) => p.policyId, pages: async function* () { yield (await query("list_policies")).policies; },
  columns: [
    ...["policyId", "policyName", "effect", "condition", "consensus", "time", "notes"].map((name) => [name, (p) => p[name]]),
    ["createdAt", (p) => moment(p.createdAt)], ["updatedAt", (p) => moment(p.updatedAt)],
  ],
});

function list(main) {
  const place = h("div");
  let again;
  const make = () => create(again);
  fill(main, title("Policies", {
    intro: "Policies decide what users may do without the root quorum. A policy that denies overrides all that allow.",
    actions: [policyExport(), h("a", { class: "button", href: "#/policies/try" }, "Test a request"), button("New policy", { class: "button primary", onclick: make })],
  }), place);
  again = load(place, "policies", async () => (await query("list_policies")).policies, (all) =>
    all.length === 0 ? empty("There is no policy yet: only the root quorum can sign, create or change anything.", button("Create the first policy", { onclick: make }))
      : cards(all, again));
}

const sample = JSON.stringify({ walletName: "Trial", accounts: [{ curve: "CURVE_SECP256K1", pathFormat: "PATH_FORMAT_BIP32", path: "m/44'/60'/0'/0/0", addressFormat: "ADDRESS_FORMAT_ETHEREUM" }] }, null, 2);

const meaning = {
  ACTIVITY_STATUS_COMPLETED: ["Allowed", "The request would be executed.", "good"],
  ACTIVITY_STATUS_CONSENSUS_NEEDED: ["Needs approval", "The request would wait until other users approve it.", "wait"],
  ACTIVITY_STATUS_AUTHENTICATORS_NEEDED: ["Needs credentials", "The request would wait until you approve it with another of your credentials.", "wait"],
  ACTIVITY_STATUS_FAILED: ["Refused", "The request would be refused.", "bad"],
};

// unevaluated says why a request would have this status although no policy was evaluated.
async function unevaluated(status) {
  if (status === "ACTIVITY_STATUS_AUTHENTICATORS_NEEDED") return "Policies are evaluated once you have approved.";
  const { threshold, userIds } = (await query("get_organization")).organizationData.rootQuorum;
  const member = userIds.includes(session().userId);
  if (status === "ACTIVITY_STATUS_COMPLETED" && member && Number(threshold) === 1) return "Allowed because you are in the root quorum; policies were not evaluated.";
  if (status === "ACTIVITY_STATUS_COMPLETED") return "Allowed because users may do this to their own account; policies were not evaluated.";
  if (member) return `The root quorum decides this, and ${threshold} of its members must agree; policies were not evaluated.`;
  return "Refused because only the root quorum can do this, or because there is no policy; policies were not evaluated.";
}

// testPage shows how a request of the user would be decided now. Nothing is executed.
function testPage(main) {
  const outcome = h("div", { "aria-live": "polite" });
  fill(main,
    title("Test a request", { back, intro: "How the policies would decide if you sent this request now. Nothing is executed." }),
    panel("Request", form({
      fields: [
        field({ name: "type", label: "Activity type", required: true, value: "ACTIVITY_TYPE_CREATE_WALLET", class: "code" }),
        field({ name: "parameters", label: "Parameters (JSON)", kind: "textarea", class: "code", rows: 8, required: true, value: sample }),
      ],
      action: "Evaluate",
      run: async ({ type, parameters }) => {
        fill(outcome);
        let content;
        try {
          content = JSON.parse(parameters);
        } catch (error) {
          throw new Error(`The parameters are not valid JSON: ${error.message}`);
        }
        const got = await query("evaluate_policies", { activity: { type, parameters: content } });
        const [short, text, tone] = meaning[got.status] ?? [words(got.outcome, "OUTCOME_"), got.status, "neutral"];
        const reasons = got.policyEvaluations.length ? evaluations(got.policyEvaluations) : h("p", { class: "note" }, await unevaluated(got.status));
        fill(outcome, panel("Outcome", [h("p", null, badge(short, tone), " ", text), reasons]));
      },
    })), outcome);
}

const back = { href: "#/policies", text: "Policies" };

const one = (main, policyId) => loadOne(main, "the policy", "Policy", back, async () => (await query("get_policy", { policyId })).policy,
  (policy, again) => [title("Policy", { back }), card(policy, again, () => { location.hash = back.href; })]);

export const policies = (main, [sub]) => (sub === "try" ? testPage(main) : sub ? one(main, sub) : list(main));
