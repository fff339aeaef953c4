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

// limitedByPolicies is for what policies decide: it asks how they would decide about the reader's request now.
export async function limitedByPolicies(type, parameters = {}) {
  const may = await query("evaluate_policies", { activity: { type: `ACTIVITY_TYPE_${type}`, parameters } })
    .then(({ status }) => status !== "ACTIVITY_STATUS_FAILED", (error) => console.debug(error) ?? true); // the request itself will tell
  return limited(may, "Only the root quorum can do this, and users whom a policy allows to.");
}
