// Policies: who may do what.

import { advice } from "../advice.js";
import { query, resultOf, submit, waits } from "../api.js";
import { fill, h } from "../dom.js";
import { badge, button, confirm, copyable, dialog, done, empty, field, form, grown, load, panel, show, title, when, words } from "../ui.js";
import { evaluations } from "./evaluations.js";

const effects = [["EFFECT_ALLOW", "Allow"], ["EFFECT_DENY", "Deny"]];

const fields = (policy = {}) => {
  const hint = { condition: "What the activity must be about. Empty: anything.", consensus: "Who must approve. Empty: whoever asks is enough.", time: "When it applies, reading time.now. Empty: always." };
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

// warn shows what is likely wrong with a policy.
async function warn(policyId) {
  const { organizationData } = await query("get_organization");
  const warnings = (await advice(organizationData)).filter((w) => w.policyId === policyId);
  if (warnings.length) show("Saved, with a warning", h("ul", { class: "plainlist" }, warnings.map((w) => h("li", null, w.message))));
}

function create(again) {
  dialog({
    heading: "New policy", fields: fields(), action: "Create policy",
    run: async ({ time, ...all }) => saved(await submit("create_policy", "CREATE_POLICY_V3", { ...all, ...(time && { time }) }), `The policy ${all.policyName} holds.`, again),
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

function card(policy, again) {
  const { policyName } = policy;
  const remove = () => confirm(`Delete the policy ${policyName}?`, "What it allowed or denied is decided without it from then on.", "Delete", async () => {
    done(await submit("delete_policy", "DELETE_POLICY", { policyId: policy.policyId }), "The policy is deleted.");
    again();
  });
  return h("article", { class: "card" },
    h("div", { class: "bar" }, h("div", { class: "row" }, badge(words(policy.effect, "EFFECT_"), policy.effect === "EFFECT_DENY" ? "bad" : "good"), h("h2", null, policyName)),
      h("div", { class: "actions" }, button("Edit", { class: "button small", "aria-label": `Edit ${policyName}`, onclick: () => edit(policy, again) }), button("Delete", { class: "button small", "aria-label": `Delete ${policyName}`, onclick: remove }))),
    policy.notes && h("p", null, policy.notes),
    expression("Condition", policy.condition), expression("Consensus", policy.consensus), expression("Time", policy.time),
    !policy.condition && !policy.consensus && !policy.time && h("p", { class: "note" }, "No expression: it always applies."),
    h("p", { class: "note row" }, copyable(policy.policyId, `id of ${policyName}`), "changed ", when(policy.updatedAt)));
}

function list(main) {
  const place = h("div");
  let again;
  const make = () => create(again);
  fill(main, title("Policies", {
    intro: "What users may do besides the root quorum. One policy that denies outweighs all that allow.",
    actions: [h("a", { class: "button", href: "#/policies/try" }, "Try"), button("New policy", { class: "button primary", onclick: make })],
  }), place);
  again = load(place, "policies", async () => (await query("list_policies")).policies, (all) =>
    all.length === 0 ? empty("There is no policy: only the root quorum can do anything.", button("Make the first one", { onclick: make }))
      : grown(all, (some) => h("div", { class: "cards" }, some.map((p) => card(p, again)))));
}

const sample = JSON.stringify({ walletName: "Trial", accounts: [{ curve: "CURVE_SECP256K1", pathFormat: "PATH_FORMAT_BIP32", path: "m/44'/60'/0'/0/0", addressFormat: "ADDRESS_FORMAT_ETHEREUM" }] }, null, 2);

const meaning = {
  ACTIVITY_STATUS_COMPLETED: ["It would be done.", "good"],
  ACTIVITY_STATUS_CONSENSUS_NEEDED: ["It would wait for others.", "wait"],
  ACTIVITY_STATUS_AUTHENTICATORS_NEEDED: ["It would wait for another of your credentials.", "wait"],
  ACTIVITY_STATUS_FAILED: ["It would be refused.", "bad"],
};

// attempt asks what would be decided if you asked for something now. Nothing is done.
function attempt(main) {
  const outcome = h("div", { "aria-live": "polite" });
  fill(main,
    title("Try the policies", { back: { href: "#/policies", text: "Policies" }, intro: "What would be decided if you asked for this now. Nothing is done." }),
    panel("Activity", form({
      fields: [
        field({ name: "type", label: "Type", required: true, value: "ACTIVITY_TYPE_CREATE_WALLET", class: "code" }),
        field({ name: "parameters", label: "Parameters, JSON", kind: "textarea", class: "code", rows: 8, required: true, value: sample }),
      ],
      action: "Ask",
      run: async ({ type, parameters }) => {
        fill(outcome);
        let content;
        try {
          content = JSON.parse(parameters);
        } catch (error) {
          throw new Error(`The parameters are no JSON: ${error.message}`);
        }
        const got = await query("evaluate_policies", { activity: { type, parameters: content } });
        const [text, tone] = meaning[got.status] ?? [got.status, "neutral"];
        fill(outcome, panel("Outcome", [h("p", null, badge(words(got.outcome, "OUTCOME_"), tone), " ", text), evaluations(got.policyEvaluations)]));
      },
    })), outcome);
}

export const policies = (main, [sub]) => (sub === "try" ? attempt(main) : list(main));
