// Buttons that not everybody may press: they stay where they are, and a sentence beside them says who may.

import { query } from "./api.js";
import { h, unique } from "./dom.js";
import { onlyRootQuorum } from "./refusals.js";
import { session } from "./session.js";
import { button } from "./ui.js";

// limited gives a maker of buttons and the sentence why they cannot be pressed, false if they can. They keep the focus, so that
// keyboards and readers come by the sentence.
export function limited(may, why = onlyRootQuorum) {
  const id = unique("why");
  return {
    why: !may && h("p", { class: "note", id }, why),
    button: (text, { onclick, ...properties }) => button(text, may ? { ...properties, onclick } : { ...properties, "aria-disabled": "true", "aria-describedby": id }),
  };
}

// limitedToRoot is for what only the root quorum can do. A member may always ask, also where others must agree.
export const limitedToRoot = (rootQuorum, why) => limited(rootQuorum.userIds.includes(session().userId), why);

// allowedByPolicies asks how policies would decide about the reader's request now: false if they would refuse it.
export const allowedByPolicies = (type, parameters = {}) => query("evaluate_policies", { activity: { type: `ACTIVITY_TYPE_${type}`, parameters } })
  .then(({ status }) => status !== "ACTIVITY_STATUS_FAILED", (error) => console.debug(error) ?? true); // the request itself will tell

const allowed = "the root quorum can do this, and users whom a policy allows to";

// limitedByPolicies is for what policies decide.
export const limitedByPolicies = async (type, parameters) => limited(await allowedByPolicies(type, parameters), `Only ${allowed}.`);

const listed = new Intl.ListFormat("en-GB");

// limitedActions is for several such buttons: of each, what it does and whether the reader may. It gives a maker for each, and one sentence about
// all that cannot be pressed.
export async function limitedActions(actions) {
  const all = await Promise.all(Object.entries(actions).map(async ([name, [what, may]]) => [name, what, await may]));
  const denied = all.filter(([, , may]) => !may).map(([, what]) => what);
  const { button: makeDenied, why } = limited(denied.length === 0, `${listed.format(denied)}: only ${allowed}.`);
  if (why) why.classList.add("limits");
  return { why, ...Object.fromEntries(all.map(([name, , may]) => [name, may ? button : makeDenied])) };
}
