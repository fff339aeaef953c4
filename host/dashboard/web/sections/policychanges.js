// Making, changing and deleting policies. Each can be undone from the message that says it was done.

import { ask } from "../advice.js";
import { query, resultOf, submit, waits } from "../api.js";
import { confirm, done, toast } from "../ui.js";

export const openText = "This policy lets every user do everything, including signing any transaction.";

// answered asks the policy engine about the organization as it is now: what it answers, or null where there is no engine.
export async function answered(question) {
  const { organizationData } = await query("get_organization");
  try {
    const answer = await ask({ ...question, organization: organizationData });
    if (answer.error) throw new Error(answer.error);
    return answer;
  } catch (error) {
    console.debug(error);
    return null;
  }
}

export const shutText = "This policy denies every user everything that policies decide. Only the root quorum could still act.";

const openCode = "ALLOWS_EVERYTHING";

// allowsEverything tells whether a policy lets everybody do everything, by what the engine found. Without it only the plainest form is known.
export const allowsEverything = (policy, found) =>
  (policy.effect === "EFFECT_ALLOW" && !policy.condition && !policy.consensus) || Boolean(found?.words?.everything) || Boolean(found?.warnings?.some((w) => w.code === openCode));

// deniesEverything tells whether it forbids everybody everything.
export const deniesEverything = (policy) => policy.effect === "EFFECT_DENY" && !policy.condition && !policy.consensus;

// otherWarnings are those that say something else than that.
export const otherWarnings = (warnings) => warnings.filter((w) => w.code !== openCode);

// The page that shows policies, which is read again when one was changed from a message.
let shown = { place: null, again: null };
export const shownBy = (place, again) => { shown = { place, again }; };
const refresh = () => shown.place?.isConnected && shown.again();

async function undone(activity, message) {
  done(activity, message);
  refresh();
}

// putBack does what brings an earlier policy back. If that one allows everything, it asks first.
async function putBack(policy, act) {
  const { policyName, effect, condition, consensus, time } = policy;
  const checked = effect === "EFFECT_ALLOW" && (await answered({ ask: "check", policy: { policyName, effect, condition, consensus, time: time ?? "" } }));
  if (allowsEverything(policy, checked)) confirm(`Put ${policyName} in force again?`, openText, "Put in force", act);
  else await act();
}

// create puts a policy in force. It gives back the activity.
export async function create({ policyName, effect, condition, consensus, time, notes }, { message = `Policy “${policyName}” is in force.`, undo = true } = {}) {
  const activity = await submit("create_policy", "CREATE_POLICY_V3", { policyName, effect, condition, consensus, notes, ...(time && { time }) });
  const { policyId } = resultOf(activity);
  done(activity, message, undo && { text: "Undo", run: async () => undone(await submit("delete_policy", "DELETE_POLICY", { policyId }), `Policy “${policyName}” was deleted again.`) });
  return activity;
}

// The fields of a policy, with their names in an update.
const updated = { policyName: "policyName", effect: "policyEffect", condition: "policyCondition", consensus: "policyConsensus", time: "time", notes: "policyNotes" };

// differing lists the fields in which two versions of a policy differ.
export const differing = (a, b) => Object.keys(updated).filter((name) => (a[name] ?? "") !== (b[name] ?? ""));

const update = (policyId, policy, names) => submit("update_policy", "UPDATE_POLICY_V2", { policyId, ...Object.fromEntries(names.map((name) => [updated[name], policy[name] ?? ""])) });

// change puts other values of a policy in force.
export async function change(before, after) {
  const names = differing(before, after);
  const { policyId } = before;
  done(await update(policyId, after, names), `Policy “${after.policyName}” was changed.`, { text: "Undo", run: async () => {
    const { policy } = await query("get_policy", { policyId });
    if (differing(policy, after).length) toast(`Policy “${policy.policyName}” has been changed since. Nothing was undone.`);
    else await putBack(before, async () => undone(await update(policyId, before, names), `Policy “${before.policyName}” is as it was before.`));
  } });
}

// remove deletes a policy.
export async function remove(policy) {
  const { policyName } = policy;
  const activity = await submit("delete_policy", "DELETE_POLICY", { policyId: policy.policyId });
  done(activity, `Policy “${policyName}” was deleted.`, { text: "Undo", run: () => putBack(policy, async () => {
    await create(policy, { message: `Policy “${policyName}” is in force again, with a new id.`, undo: false });
    refresh();
  }) });
  return !waits(activity);
}
