// MFA policies of a user: which credentials the user must approve with, for which requests.

import { query, submit } from "../api.js";
import { fill, h } from "../dom.js";
import { expressionField, showFaults } from "../editor.js";
import { button, choices, confirm, dialog, done, empty, field, panel, toast } from "../ui.js";
import { sentenceList } from "./directory.js";

const prefix = "AUTHENTICATION_TYPE_";
const methods = { PASSKEY: "a passkey", API_KEY: "an API key", EMAIL_OTP: "a code by e-mail", SMS_OTP: "a code by text message", OAUTH: "a social identity", SESSION: "a session" };

const mostSteps = 10;

// A method is written as its type, or as type and credential with a colon between them.
const valueOf = ({ type, id }) => type.replace(prefix, "") + (id ? `:${id}` : "");

function methodOf(value) {
  const [type, id] = value.split(":");
  return { type: prefix + type, ...(id && { id }) };
}

// ownMethods are a user's credentials as methods.
const ownMethods = (user) => [
  ...user.authenticators.map((a) => [`PASSKEY:${a.authenticatorId}`, `the passkey “${a.authenticatorName}”`]),
  ...user.apiKeys.filter((k) => k.credential.type !== "CREDENTIAL_TYPE_LOGIN").map((k) => [`API_KEY:${k.apiKeyId}`, `the API key “${k.apiKeyName}”`]),
  ...user.oauthProviders.map((o) => [`OAUTH:${o.providerId}`, `the identity at ${o.providerName}`]),
];

function wordsOf(method, user) {
  const value = valueOf(method);
  if (!method.id) return methods[value] ?? value;
  return new Map(ownMethods(user)).get(value) ?? (method.type === `${prefix}SESSION` ? `a session of the profile ${method.id}` : `${methods[method.type.replace(prefix, "")]} that is gone (${method.id})`);
}

// requirements says what a policy requires.
function requirements({ requiredAuthenticationMethods: steps }, user) {
  const each = steps.map((s) => sentenceList(s.any.map((m) => wordsOf(m, user)), "or"));
  return each.length === 1 ? h("p", null, `Asks for ${each[0]}.`)
    : [h("p", null, `Asks for ${each.length} different credentials:`), h("ol", { class: "steps" }, each.map((text) => h("li", null, text)))];
}

// withStepNumber has a refusal say which of several credentials it is about.
async function withStepNumber(count, act) {
  try {
    return await act();
  } catch (error) {
    const step = error.fields?.map((f) => /^requiredAuthenticationMethods\.(\d+)/.exec(f.field)).find(Boolean)?.[1];
    throw step && count > 1 ? new Error(`Credential ${Number(step) + 1}: ${error.message}`, { cause: error }) : error;
  }
}

const upper = (text) => text.charAt(0).toUpperCase() + text.slice(1);

// stepFields are the groups of choices, one for each step, with buttons to add and remove one.
function stepFields(user, steps) {
  const place = h("div", { class: "stepfields" });
  const kept = steps.flatMap((s) => s.any).map((m) => [valueOf(m), wordsOf(m, user)]);
  const options = [...new Map([...Object.entries(methods), ...ownMethods(user), ...kept])].map(([value, text]) => [value, upper(text)]);
  const more = button("Require another credential", { class: "button small", onclick: () => { read().length < mostSteps && draw([...read(), []], read().length); } });
  const read = () => [...place.querySelectorAll("fieldset")].map((f) => [...f.querySelectorAll("input:checked")].map((i) => i.value));
  const draw = (all, focus) => {
    fill(place, all.map((value, i) => h("div", { class: "stepfield" },
      choices({ name: `step${i}`, legend: all.length === 1 ? "The user must approve with one of" : `Credential ${i + 1}: one of`, options, value }),
      all.length > 1 && button(`Remove credential ${i + 1}`, { class: "button quiet small", onclick: () => draw(read().filter((_, j) => j !== i), 0) }))), more);
    more.hidden = all.length >= mostSteps;
    if (focus !== undefined) place.querySelectorAll("fieldset")[focus].querySelector("input").focus();
  };
  draw(steps.map((s) => s.any.map(valueOf)));
  return { place, read };
}

function editor(user, policy, again) {
  const taken = user.mfaPolicies.map((p) => p.order);
  const old = policy ?? { mfaPolicyName: "", condition: "", order: Math.max(0, ...taken) + 1, notes: "", requiredAuthenticationMethods: [{ any: [] }] };
  const steps = stepFields(user, old.requiredAuthenticationMethods);
  let asked;
  const organization = () => (asked ??= query("get_organization").then((got) => got.organizationData));
  dialog({
    heading: policy ? `Edit ${policy.mfaPolicyName}` : `New MFA policy for ${user.userName}`,
    intro: `Where the condition holds, an approval by ${user.userName} counts only once it was given with all of these credentials. That is so for requests of ${user.userName} as well.`,
    fields: [
      field({ name: "mfaPolicyName", label: "Name", required: true, value: old.mfaPolicyName }),
      expressionField({ name: "condition", label: "Condition", clause: "condition", required: true, value: old.condition, placeholder: "activity.action == 'SIGN'", hint: "Which requests it is about, in the language of policies. true: all.", organization }),
      steps.place,
      h("p", { class: "note" }, "This dashboard approves with the key that is signed in. After signing in with a passkey that is a session, which does not count as the passkey. All other credentials have to be given through the API."),
      field({ name: "order", label: "Order", kind: "number", min: 0, step: 1, required: true, wide: false, value: String(old.order), hint: "Of several MFA policies, the first whose condition holds counts." }),
      field({ name: "notes", label: "Notes", kind: "textarea", rows: 2, value: old.notes, spellcheck: "true" }),
    ],
    action: policy ? "Save" : "Create MFA policy",
    run: async ({ mfaPolicyName, condition, order, notes }, node) => {
      const chosen = steps.read();
      const bare = chosen.findIndex((s) => s.length === 0);
      if (bare >= 0) throw new Error(chosen.length === 1 ? "Choose at least one credential." : `Choose at least one for credential ${bare + 1}, or remove it.`);
      const all = { mfaPolicyName, condition, order: Number(order), notes, requiredAuthenticationMethods: chosen.map((s) => ({ any: s.map(methodOf) })) };
      const send = (operation, content) => withStepNumber(chosen.length, () => submit(operation, operation.toUpperCase(), { userId: user.userId, ...content })).catch((error) => {
        throw Object.assign(error, { shown: showFaults(node, error.fields ?? []) });
      });
      if (!policy) done(await send("create_mfa_policy", all), `MFA policy ${mfaPolicyName} is in force.`);
      else {
        const changed = Object.entries(all).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(old[name] ?? ""));
        if (changed.length === 0) return toast("No changes to save.");
        done(await send("update_mfa_policy", { mfaPolicyId: policy.mfaPolicyId, ...Object.fromEntries(changed) }), "Saved.");
      }
      again();
    },
  });
}

const card = (user, policy, again) => {
  const { mfaPolicyId, mfaPolicyName } = policy;
  const remove = () => confirm(`Delete the MFA policy ${mfaPolicyName}?`, `Approvals by ${user.userName} then need no more than one credential, unless another MFA policy asks for it.`, "Delete", async () => {
    done(await submit("delete_mfa_policy", "DELETE_MFA_POLICY", { userId: user.userId, mfaPolicyId }), `MFA policy ${mfaPolicyName} was deleted.`);
    again();
  });
  return h("article", { class: "item" },
    h("div", { class: "bar" }, h("h3", null, `${policy.order}. ${mfaPolicyName}`),
      h("div", { class: "actions" }, button("Edit", { class: "button small", "aria-label": `Edit ${mfaPolicyName}`, onclick: () => editor(user, policy, again) }), button("Delete", { class: "button small", "aria-label": `Delete ${mfaPolicyName}`, onclick: remove }))),
    policy.notes && h("p", null, policy.notes),
    requirements(policy, user),
    h("div", { class: "expression" }, h("span", { class: "note" }, "For requests where"), h("pre", null, h("code", null, policy.condition))));
};

export const mfaPanel = (user, again) => panel("MFA policies",
  user.mfaPolicies.length ? h("div", { class: "items" }, user.mfaPolicies.map((p) => card(user, p, again))) : empty("No MFA policies: one credential is enough for an approval."),
  { actions: [button("New MFA policy", { class: "button small", onclick: () => editor(user, null, again) })] });
