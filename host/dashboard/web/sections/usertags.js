// Tags of users: the list, and who has them. Policies name tags by their ids.

import { query, submit } from "../api.js";
import { fill, h } from "../dom.js";
import { sortable } from "../tables.js";
import { button, choices, confirm, copyable, dialog, done, empty, field, load, milliseconds, title, toast, when } from "../ui.js";
import { directoryOf, plural, sentenceList } from "./directory.js";

const back = { href: "#/users", text: "Users" };

export const policiesWith = (tagId, policies) => policies.filter((p) => [p.condition, p.consensus, p.time].some((text) => text?.toLowerCase().includes(tagId)));

export const policyLinks = (policies) => policies.map((p, i) => [i > 0 && ", ", h("a", { href: `#/policies/${p.policyId}` }, p.policyName)]);

const userChoices = (users, value = []) => choices({ name: "userIds", legend: "Users who have it", value, options: users.map((u) => [u.userId, u.userName]) });

function create({ users }, again) {
  dialog({
    heading: "New tag",
    intro: "Policies can ask for a tag instead of naming each user.",
    fields: [field({ name: "userTagName", label: "Name", required: true }), userChoices(users)],
    action: "Create tag",
    run: async ({ userTagName, userIds }) => {
      done(await submit("create_user_tag", "CREATE_USER_TAG", { userTagName, userIds }), `Tag ${userTagName} was created.`);
      again();
    },
  });
}

function edit({ tagId, tagName, holders }, { users }, again) {
  const had = holders.map((u) => u.userId);
  dialog({
    heading: `Edit ${tagName}`,
    fields: [field({ name: "newUserTagName", label: "Name", required: true, value: tagName, hint: "Policies name the tag by its id and go on to mean it." }), userChoices(users, had)],
    action: "Save",
    run: async ({ newUserTagName, userIds }) => {
      const parameters = { userTagId: tagId, addUserIds: userIds.filter((id) => !had.includes(id)), removeUserIds: had.filter((id) => !userIds.includes(id)) };
      if (newUserTagName !== tagName) parameters.newUserTagName = newUserTagName;
      else if (parameters.addUserIds.length + parameters.removeUserIds.length === 0) return toast("No changes to save.");
      done(await submit("update_user_tag", "UPDATE_USER_TAG", parameters), "Saved.");
      again();
    },
  });
}

// effectOnPolicies says what deleting a tag does to the policies that name it: no such user or key matches them any more.
export function effectOnPolicies(policies, holder) {
  if (policies.length === 0) return h("p", null, "No policy names it.");
  const them = policies.length === 1 ? "it" : "them";
  return h("div", { class: "unread" },
    h("p", { class: "strong" }, `${plural(policies.length, "policy names", "policies name")} this tag`), h("p", null, policyLinks(policies)),
    h("p", null, `No ${holder} will match ${them} by this tag any more: a policy that allows may stop allowing, and one that denies may stop denying. Change ${them} first.`));
}

function remove({ tagId, tagName, holders, policies, invited }, again) {
  confirm(`Delete the tag ${tagName}?`, [
    h("p", null, holders.length ? `${plural(holders.length, "user has", "users have")} it: ${sentenceList(holders.slice(0, 10).map((u) => u.userName).concat(holders.length > 10 ? "others" : []))}.` : "No user has it."),
    invited > 0 && h("p", null, `${plural(invited, "invitation gives", "invitations give")} it and will not any more.`),
    effectOnPolicies(policies, "user"),
    h("p", null, "This cannot be undone: a new tag of the same name has another id."),
  ], "Delete tag", async () => {
    done(await submit("delete_user_tags", "DELETE_USER_TAGS", { userTagIds: [tagId] }), `Tag ${tagName} was deleted.`);
    again();
  });
}

const columns = (all, again) => [
  { name: "Name", cell: (t) => h("a", { class: "strong wrap", href: `#/users?${new URLSearchParams({ tag: t.tagId })}` }, t.tagName), key: (t) => t.tagName },
  { name: "Users", cell: (t) => String(t.holders.length), key: (t) => t.holders.length },
  { name: "Named by", cell: (t) => (t.policies.length ? h("span", null, policyLinks(t.policies)) : "–"), key: (t) => t.policies.length },
  { name: "Created", cell: (t) => when(t.createdAt), key: (t) => milliseconds(t.createdAt) },
  { name: "Id", cell: (t) => copyable(t.tagId, `id of ${t.tagName}`) },
  { name: "", cell: (t) => h("div", { class: "row" },
    button("Edit", { class: "button small", "aria-label": `Edit ${t.tagName}`, onclick: () => edit(t, all, again) }),
    button("Delete", { class: "button small", "aria-label": `Delete ${t.tagName}`, onclick: () => remove(t, again) })) },
];

async function fetchTags() {
  const { organizationData } = await query("get_organization");
  const { users, policies, invitations } = organizationData;
  const { tags } = await directoryOf(organizationData);
  return {
    users, tags: tags.map((t) => ({
      ...t, holders: users.filter((u) => u.userTags.includes(t.tagId)), policies: policiesWith(t.tagId, policies),
      invited: invitations.filter((i) => i.status === "INVITATION_STATUS_CREATED" && i.receiverUserTags.includes(t.tagId)).length,
    })),
  };
}

export function userTags(main) {
  const place = h("div");
  let again;
  let all = { users: [] };
  const make = () => create(all, again);
  fill(main, title("Tags of users", { back, intro: "A tag names a group of users. Policies can ask for it.", actions: [button("New tag", { class: "button primary", onclick: make })] }), place);
  again = load(place, "tags", async () => { all = await fetchTags(); return all; }, ({ tags }) =>
    (tags.length === 0 ? empty("There are no tags yet.", button("Create the first tag", { onclick: make })) : sortable("Tags of users", columns(all, again), tags).node));
}
