// The root quorum: who is in it, and the dialog that changes it.

import { submit } from "../api.js";
import { fill, h } from "../dom.js";
import { limitedToRoot } from "../may.js";
import { quorumPicture } from "../quorum.js";
import { choices, clear, dialog, done, facts, field, panel } from "../ui.js";
import { unsaved } from "../unsaved.js";
import { plural } from "./directory.js";

// members lists links to the members. Beyond the first ones it only counts.
export function members({ users, rootQuorum }, most = rootQuorum.userIds.length) {
  const names = new Map(users.map((u) => [u.userId, u.userName]));
  const shown = rootQuorum.userIds.slice(0, most).map((id, i) => [i > 0 && ", ", h("a", { href: `#/users/${id}` }, names.get(id) ?? id)]);
  const left = rootQuorum.userIds.length - most;
  return [shown, left > 0 && ` and ${plural(left, "other")}`];
}

// membersOf is what a picture of the root quorum is drawn of.
export function membersOf({ users, rootQuorum }) {
  const names = new Map(users.map((u) => [u.userId, u.userName]));
  return { threshold: rootQuorum.threshold, members: rootQuorum.userIds.map((id) => ({ name: names.get(id) ?? id })) };
}

// changeQuorum takes the id of the auth proxy's service user, which is nobody who could agree to anything.
function changeQuorum(organization, proxy, again) {
  const options = organization.users.map((u) => [u.userId, u.userId === proxy ? `${u.userName}: not a person, but the auth proxy` : u.userName]);
  const warning = h("div", { role: "alert" });
  const warn = () => fill(warning, [...node.querySelectorAll("input:checked")].some((i) => i.value === proxy) && h("div", { class: "unread" }, h("p", { class: "strong" }, "The auth proxy would be a member"),
    h("p", null, "What web pages send through it would count as the wish of a member, whatever the policies say. It can approve nothing itself, and cannot be turned off while it is a member.")));
  const node = dialog({
    heading: "Change the root quorum",
    intro: "The root quorum can do anything, whatever the policies say. Members who reach the threshold can remove the others.",
    fields: [
      choices({ name: "userIds", legend: "Members", value: organization.rootQuorum.userIds, options }), warning,
      field({ name: "threshold", label: "Members who must agree (threshold)", kind: "number", min: 1, step: 1, required: true, value: organization.rootQuorum.threshold, wide: false }),
    ],
    action: "Change", danger: true,
    run: async ({ userIds, threshold }) => {
      if (userIds.length === 0) throw new Error("Choose at least one member.");
      if (Number(threshold) > userIds.length) {
        const text = `At most ${userIds.length}: the quorum has ${plural(userIds.length, "member")}.`;
        throw Object.assign(new Error(text), { fields: [{ field: "threshold", description: text }] });
      }
      done(await submit("update_root_quorum", "UPDATE_ROOT_QUORUM", { threshold: Number(threshold), userIds }), "The root quorum was changed.");
      again();
    },
  });
  unsaved(node.querySelector("form"));
  node.addEventListener("change", ({ target }) => {
    warn();
    if (target.type === "checkbox") clear(node.querySelector("[name=threshold]")); // it was about fewer members
  });
  warn();
}

export function quorumPanel({ organization, proxy }, again) {
  const limits = limitedToRoot(organization.rootQuorum);
  return panel("Root quorum", facts([
    ["Must agree", quorumPicture(membersOf(organization))],
    ["Members", h("span", null, members(organization))],
  ]), {
    note: "The root quorum can do anything, whatever the policies say. Some things only it can do, such as turning features on.",
    actions: [limits.why, limits.button("Change quorum", { class: "button small", onclick: () => changeQuorum(organization, proxy?.userId, again) })],
  });
}
