// Tags of private keys: the list, and which keys have them. Policies name tags by their ids.

import { query, submit } from "../api.js";
import { fill, h } from "../dom.js";
import { sortable } from "../tables.js";
import { button, choices, confirm, copyable, dialog, done, empty, field, load, milliseconds, title, toast, when } from "../ui.js";
import { plural } from "./directory.js";
import { effectOnPolicies, policiesWith, policyLinks } from "./usertags.js";

const back = { href: "#/privatekeys", text: "Private keys" };

const keyChoices = (keys, value = []) => choices({ name: "privateKeyIds", legend: "Private keys that have it", value, options: keys.map((k) => [k.privateKeyId, k.privateKeyName]) });

function create({ keys }, again) {
  dialog({
    heading: "New tag",
    intro: "Policies can ask for a tag instead of naming each key.",
    fields: [field({ name: "privateKeyTagName", label: "Name", required: true }), keyChoices(keys)],
    action: "Create tag",
    run: async ({ privateKeyTagName, privateKeyIds }) => {
      done(await submit("create_private_key_tag", "CREATE_PRIVATE_KEY_TAG", { privateKeyTagName, privateKeyIds }), `Tag ${privateKeyTagName} was created.`);
      again();
    },
  });
}

function edit({ tagId, tagName, holders }, { keys }, again) {
  const had = holders.map((k) => k.privateKeyId);
  dialog({
    heading: `Edit ${tagName}`,
    fields: [field({ name: "newPrivateKeyTagName", label: "Name", required: true, value: tagName, hint: "Policies name the tag by its id and go on to mean it." }), keyChoices(keys, had)],
    action: "Save",
    run: async ({ newPrivateKeyTagName, privateKeyIds }) => {
      const parameters = { privateKeyTagId: tagId, addPrivateKeyIds: privateKeyIds.filter((id) => !had.includes(id)), removePrivateKeyIds: had.filter((id) => !privateKeyIds.includes(id)) };
      if (newPrivateKeyTagName !== tagName) parameters.newPrivateKeyTagName = newPrivateKeyTagName;
      else if (parameters.addPrivateKeyIds.length + parameters.removePrivateKeyIds.length === 0) return toast("No changes to save.");
      done(await submit("update_private_key_tag", "UPDATE_PRIVATE_KEY_TAG", parameters), "Saved.");
      again();
    },
  });
}

function remove({ tagId, tagName, holders, policies }, again) {
  confirm(`Delete the tag ${tagName}?`, [
    h("p", null, holders.length ? `${plural(holders.length, "key has", "keys have")} it.` : "No private key has it."),
    effectOnPolicies(policies, "key"),
    h("p", null, "This cannot be undone: a new tag of the same name has another id."),
  ], "Delete tag", async () => {
    done(await submit("delete_private_key_tags", "DELETE_PRIVATE_KEY_TAGS", { privateKeyTagIds: [tagId] }), `Tag ${tagName} was deleted.`);
    again();
  });
}

const columns = (all, again) => [
  { name: "Name", cell: (t) => h("span", { class: "strong wrap" }, t.tagName), key: (t) => t.tagName },
  { name: "Private keys", cell: (t) => (t.holders.length === 0 ? "–" : h("span", null, t.holders.map((k, i) => [i > 0 && ", ", h("a", { href: `#/privatekeys/${k.privateKeyId}` }, k.privateKeyName)]))), key: (t) => t.holders.length },
  { name: "Named by", cell: (t) => (t.policies.length ? h("span", null, policyLinks(t.policies)) : "–"), key: (t) => t.policies.length },
  { name: "Created", cell: (t) => when(t.createdAt), key: (t) => milliseconds(t.createdAt) },
  { name: "Id", cell: (t) => copyable(t.tagId, `id of ${t.tagName}`) },
  { name: "", cell: (t) => h("div", { class: "row" },
    button("Edit", { class: "button small", "aria-label": `Edit ${t.tagName}`, onclick: () => edit(t, all, again) }),
    button("Delete", { class: "button small", "aria-label": `Delete ${t.tagName}`, onclick: () => remove(t, again) })) },
];

async function fetchTags() {
  const [{ privateKeyTags }, { privateKeys: keys }, { policies }] = await Promise.all(["list_private_key_tags", "list_private_keys", "list_policies"].map((name) => query(name)));
  return { keys, tags: privateKeyTags.map((t) => ({ ...t, holders: keys.filter((k) => k.privateKeyTags.includes(t.tagId)), policies: policiesWith(t.tagId, policies) })) };
}

export function keyTags(main) {
  const place = h("div");
  let again;
  let all = { keys: [] };
  const make = () => create(all, again);
  fill(main, title("Tags of private keys", { back, intro: "A tag names a group of private keys. Policies can ask for it.", actions: [button("New tag", { class: "button primary", onclick: make })] }), place);
  again = load(place, "tags", async () => { all = await fetchTags(); return all; }, ({ tags }) =>
    (tags.length === 0 ? empty("There are no tags of private keys yet.", button("Create the first tag", { onclick: make })) : sortable("Tags of private keys", columns(all, again), tags).node));
}
