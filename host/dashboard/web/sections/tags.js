// Tags of users or of private keys: the list, and who has them. Policies name tags by their ids.

import { submit } from "../api.js";
import { fill, h } from "../dom.js";
import { sortable } from "../tables.js";
import { button, choices, confirm, copyable, dialog, done, empty, field, load, milliseconds, title, toast, when } from "../ui.js";
import { plural } from "./directory.js";

const policiesWith = (tagId, policies) => policies.filter((p) => [p.condition, p.consensus, p.time].some((text) => text?.toLowerCase().includes(tagId)));

const policyLinks = (policies) => policies.map((p, i) => [i > 0 && ", ", h("a", { href: `#/policies/${p.policyId}` }, p.policyName)]);

// capital begins a member's name after a verb: userIds is UserIds in addUserIds.
const capital = (name) => name.charAt(0).toUpperCase() + name.slice(1);

const holderChoices = ({ prefix, legend, option }, all, value = []) => choices({ name: `${prefix}Ids`, legend, value, options: all.map(option) });

// act submits what is done to tags of a kind.
const act = ({ type }, verb, parameters) => {
  const name = `${verb}_${type}${verb === "DELETE" ? "S" : ""}`;
  return submit(name.toLowerCase(), name, parameters);
};

function create(kind, { holders }, again) {
  const { prefix, one } = kind;
  dialog({
    heading: "New tag",
    intro: `Policies can ask for a tag instead of naming each ${one}.`,
    fields: [field({ name: `${prefix}TagName`, label: "Name", required: true }), holderChoices(kind, holders)],
    action: "Create tag",
    run: async (all) => {
      done(await act(kind, "CREATE", all), `Tag ${all[`${prefix}TagName`]} was created.`);
      again();
    },
  });
}

function edit(kind, { tagId, tagName, holders: having }, { holders }, again) {
  const { prefix, option } = kind;
  const had = having.map((holder) => option(holder)[0]);
  const newName = `new${capital(prefix)}TagName`;
  dialog({
    heading: `Edit ${tagName}`,
    fields: [field({ name: newName, label: "Name", required: true, value: tagName, hint: "Policies name the tag by its id and go on to mean it." }), holderChoices(kind, holders, had)],
    action: "Save",
    run: async (all) => {
      const ids = all[`${prefix}Ids`];
      const added = ids.filter((id) => !had.includes(id));
      const removed = had.filter((id) => !ids.includes(id));
      const parameters = { [`${prefix}TagId`]: tagId, [`add${capital(prefix)}Ids`]: added, [`remove${capital(prefix)}Ids`]: removed };
      if (all[newName] !== tagName) parameters[newName] = all[newName];
      else if (added.length + removed.length === 0) return toast("No changes to save.");
      done(await act(kind, "UPDATE", parameters), "Saved.");
      again();
    },
  });
}

// effectOnPolicies says what deleting a tag does to the policies that name it: no such user or key matches them any more.
function effectOnPolicies(policies, one) {
  if (policies.length === 0) return h("p", null, "No policy names it.");
  const them = policies.length === 1 ? "it" : "them";
  return h("div", { class: "unread" },
    h("p", { class: "strong" }, `${plural(policies.length, "policy names", "policies name")} this tag`), h("p", null, policyLinks(policies)),
    h("p", null, `No ${one} will match ${them} by this tag any more: a policy that allows may stop allowing, and one that denies may stop denying. Change ${them} first.`));
}

function remove(kind, tag, again) {
  confirm(`Delete the tag ${tag.tagName}?`, [
    kind.lost(tag),
    effectOnPolicies(tag.policies, kind.one),
    h("p", null, "This cannot be undone: a new tag of the same name has another id."),
  ], "Delete tag", async () => {
    done(await act(kind, "DELETE", { [`${kind.prefix}TagIds`]: [tag.tagId] }), `Tag ${tag.tagName} was deleted.`);
    again();
  });
}

const columns = (kind, all, again) => [
  { name: "Name", cell: kind.name, key: (t) => t.tagName },
  { name: kind.column, cell: kind.holders, key: (t) => t.holders.length },
  { name: "In policies", cell: (t) => (t.policies.length ? h("span", null, policyLinks(t.policies)) : "–"), key: (t) => t.policies.length },
  { name: "Created", cell: (t) => when(t.createdAt), key: (t) => milliseconds(t.createdAt) },
  { name: "Id", cell: (t) => copyable(t.tagId, `id of ${t.tagName}`) },
  { name: "", cell: (t) => h("div", { class: "row" },
    button("Edit", { class: "button small", "aria-label": `Edit ${t.tagName}`, onclick: () => edit(kind, t, all, again) }),
    button("Delete", { class: "button small", "aria-label": `Delete ${t.tagName}`, onclick: () => remove(kind, t, again) })) },
];

// tagsOf makes the section of tags of a kind. fetch gives all who may have tags as holders, the tags, each with those who have it, and the policies.
// The rest of a kind is what it is called: prefix in members of activities, type in their names, one and the other texts on the page; option
// gives the id and name of a holder, name and holders cells of a tag, lost what is lost with a tag.
export const tagsOf = (kind) => (main) => {
  const place = h("div");
  let again;
  let all = { holders: [] };
  const make = () => create(kind, all, again);
  fill(main, title(kind.title, { back: kind.back, intro: kind.intro, actions: [button("New tag", { class: "button primary", onclick: make })] }), place);
  again = load(place, "tags", async () => {
    const { holders, tags, policies } = await kind.fetch();
    all = { holders, tags: tags.map((t) => ({ ...t, policies: policiesWith(t.tagId, policies) })) };
    return all;
  }, ({ tags }) => (tags.length === 0 ? empty(kind.none, button("Create the first tag", { onclick: make })) : sortable(kind.title, columns(kind, all, again), tags).node));
};
