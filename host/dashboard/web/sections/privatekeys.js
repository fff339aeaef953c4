// Private keys that belong to no wallet: the list, and the page of one.

import { query, resultOf, submit, waits } from "../api.js";
import { fill, h } from "../dom.js";
import { exportButton, moment } from "../export.js";
import { allowedByPolicies, limitedActions } from "../may.js";
import { session } from "../session.js";
import { sortable } from "../tables.js";
import { button, choices, confirm, copyable, dialog, done, empty, facts, field, load, loadOne, milliseconds, panel, table, title, toast, when } from "../ui.js";
import { deleteDialog } from "./changes.js";
import { tagList } from "./directory.js";
import { exportDialog, formOf, mayExport } from "./exportkey.js";
import { curveFields, importPrivateKey } from "./importkey.js";
import { keyTags } from "./keytags.js";
import { flags, formatOf } from "./wallets.js";

const formatText = (address) => formatOf({ addressFormat: address.format });
const curveText = { CURVE_SECP256K1: "secp256k1", CURVE_ED25519: "Ed25519", CURVE_P256: "P-256" };

const tagChoices = (tags, value = []) => (tags.length ? choices({ name: "privateKeyTags", legend: "Tags", value, options: tags.map((t) => [t.tagId, t.tagName]) })
  : h("p", { class: "note" }, "There are no tags of private keys yet. ", h("a", { href: "#/privatekeys/tags" }, "Create tags")));

// opened shows a new key, or the list again while others must approve it.
const opened = (again) => (activity) => {
  if (waits(activity)) return again();
  const result = resultOf(activity);
  location.hash = `#/privatekeys/${result.privateKeyId ?? result.privateKeys[0].privateKeyId}`;
};

function create(tags, again) {
  dialog({
    heading: "New private key",
    intro: "It is created in the enclave. A wallet has words from which all its keys follow; a private key stands alone.",
    fields: [field({ name: "privateKeyName", label: "Name", required: true }), ...curveFields(), tagChoices(tags)],
    action: "Create private key",
    run: async ({ privateKeyName, curve, addressFormats, privateKeyTags = [] }) => {
      const activity = await submit("create_private_keys", "CREATE_PRIVATE_KEYS_V2", { privateKeys: [{ privateKeyName, curve, addressFormats, privateKeyTags }] });
      done(activity, `Private key ${privateKeyName} was created.`);
      opened(again)(activity);
    },
  });
}

const addressList = (key) => (key.addresses.length === 0 ? "–"
  : h("ul", { class: "plainlist" }, key.addresses.map((a) => h("li", null, h("span", { class: "note" }, `${formatText(a)} `), copyable(a.address, `address of ${key.privateKeyName}, ${formatText(a)}`)))));

const namesOf = (tags) => new Map(tags.map((t) => [t.tagId, t.tagName]));

const keyTable = (all, tagNames) => sortable("Private keys", [
  { name: "Name", cell: (k) => h("a", { class: "strong wrap", href: `#/privatekeys/${k.privateKeyId}` }, k.privateKeyName), key: (k) => k.privateKeyName },
  { name: "Addresses", cell: addressList, key: (k) => k.addresses[0]?.address ?? "" },
  { name: "Tags", cell: (k) => tagList(k.privateKeyTags, tagNames), key: (k) => k.privateKeyTags.map((t) => tagNames.get(t)).join() },
  { name: "Origin", cell: flags, key: (k) => `${k.imported} ${k.exported}` },
  { name: "Created", cell: (k) => when(k.createdAt), key: (k) => milliseconds(k.createdAt) },
], all).node;

const keyExport = () => exportButton({
  what: "privatekeys", title: "private keys", intro: "Names, addresses and public keys. No private key is in the file. In CSV, each address has a line.", id: (k) => k.privateKeyId,
  pages: async function* () { yield (await query("list_private_keys")).privateKeys; },
  lines: ({ addresses, ...key }) => (addresses.length ? addresses.map((address) => ({ key, address })) : [{ key, address: {} }]),
  columns: [
    ...["privateKeyId", "privateKeyName", "curve", "publicKey", "imported", "exported", "privateKeyTags"].map((name) => [name, ({ key }) => key[name]]),
    ["createdAt", ({ key }) => moment(key.createdAt)], ["addressFormat", ({ address }) => address.format], ["address", ({ address }) => address.address],
  ],
});

const fetchTags = async () => (await query("list_private_key_tags")).privateKeyTags;

function list(main) {
  const place = h("div");
  const [buttons, refused] = [h("div", { class: "row" }), h("div")];
  let again;
  let tags = [];
  const make = () => create(tags, again);
  const bring = () => importPrivateKey({ then: opened(again) });
  fill(main, title("Private keys", { intro: "Keys that stand alone. They never leave the enclave unencrypted.", actions: [h("a", { class: "button quiet", href: "#/privatekeys/tags" }, "Tags"), keyExport(), buttons] }), refused, place);
  limitedActions({
    bring: ["Import private key", allowedByPolicies("INIT_IMPORT_PRIVATE_KEY", { userId: session().userId })],
    make: ["New private key", allowedByPolicies("CREATE_PRIVATE_KEYS_V2", { privateKeys: [{ privateKeyName: "Key", curve: "CURVE_SECP256K1", addressFormats: [], privateKeyTags: [] }] })],
  }).then((limits) => {
    fill(buttons, limits.bring("Import private key", { onclick: bring }), limits.make("New private key", { class: "button primary", onclick: make }));
    fill(refused, limits.why);
  });
  again = load(place, "private keys", async () => {
    const [{ privateKeys }, got] = await Promise.all([query("list_private_keys"), fetchTags()]);
    tags = got;
    return privateKeys;
  }, (all) => (all.length === 0 ? empty("There is no private key yet. Most people use wallets instead: all accounts of a wallet follow from its words.") : keyTable(all, namesOf(tags))));
}

// ---- One key

const back = { href: "#/privatekeys", text: "Private keys" };

const exportOne = (key, again) => exportDialog({
  heading: `Export ${key.privateKeyName}`, type: "EXPORT_PRIVATE_KEY", parameters: { privateKeyId: key.privateKeyId }, form: formOf(key.addresses.map((a) => a.format)), name: key.privateKeyName, again,
  meaning: ["Whoever has this key can spend everything at its addresses", "The policies of this organization do not hold there. The key is marked Exported for ever."],
});

const remove = (key) => deleteDialog({
  what: `the private key ${key.privateKeyName}`, name: key.privateKeyName, exported: key.exported, type: "DELETE_PRIVATE_KEYS", parameters: { privateKeyIds: [key.privateKeyId] },
  lost: key.exported || key.imported ? "The key is deleted here. Only somebody who has it elsewhere can still reach what is at its addresses."
    : "The key is deleted. It was never exported: nobody else has it, and what is at its addresses is lost for ever.",
  then: (activity) => { if (!waits(activity)) location.hash = back.href; },
});

const disable = (key, again) => confirm(`Disable ${key.privateKeyName}?`,
  [h("p", null, "It can never sign or be exported again. This cannot be undone, and the server's list does not show it."), h("p", null, "Only somebody with the exported key can then reach what is at its addresses.")],
  "Disable", async () => {
    done(await submit("disable_private_key", "DISABLE_PRIVATE_KEY", { privateKeyId: key.privateKeyId }), `${key.privateKeyName} is disabled.`);
    again();
  });

// editTags sends an activity for each tag that changes: the interface has no other way.
const editTags = (key, tags, again) => dialog({
  heading: `Tags of ${key.privateKeyName}`, fields: [tagChoices(tags, key.privateKeyTags)], action: "Save",
  run: async ({ privateKeyTags = key.privateKeyTags }) => {
    const changed = tags.filter((t) => privateKeyTags.includes(t.tagId) !== key.privateKeyTags.includes(t.tagId));
    if (changed.length === 0) return toast("No changes to save.");
    let outcome;
    for (const { tagId } of changed) {
      const [add, drop] = privateKeyTags.includes(tagId) ? [[key.privateKeyId], []] : [[], [key.privateKeyId]];
      const activity = await submit("update_private_key_tag", "UPDATE_PRIVATE_KEY_TAG", { privateKeyTagId: tagId, addPrivateKeyIds: add, removePrivateKeyIds: drop });
      if (!outcome || waits(activity)) outcome = activity;
      again();
    }
    done(outcome, "Saved.");
  },
});

const draw = ({ key, tags, limits }, again) => [
  title(key.privateKeyName, { back, actions: [
    limits.remove("Delete", { onclick: () => remove(key) }), limits.disable("Disable", { onclick: () => disable(key, again) }),
    limits.words("Export private key", { onclick: () => exportOne(key, again) })] }),
  limits.why,
  panel("Addresses", key.addresses.length ? table("Addresses", ["Chain", "Address"], key.addresses.map((a) => [h("span", { class: "strong" }, formatText(a)), copyable(a.address, `address of ${formatText(a)}`, { whole: true })])) : empty("This key has no addresses.")),
  panel("About", facts([
    ["Key id", copyable(key.privateKeyId, "private key id", { whole: true })], ["Public key", copyable(key.publicKey, "public key", { whole: true })], ["Curve", curveText[key.curve] ?? key.curve],
    ["Tags", tagList(key.privateKeyTags, namesOf(tags))], ["Origin", flags(key)], ["Created", when(key.createdAt)],
  ]), { actions: [button("Edit tags", { class: "button small", onclick: () => editTags(key, tags, again) })] }),
];

const one = (main, privateKeyId) => loadOne(main, "the private key", "Private key", back, async () => {
  const [{ privateKey: key }, tags, limits] = await Promise.all([query("get_private_key", { privateKeyId }), fetchTags(), limitedActions({
    remove: ["Delete", allowedByPolicies("DELETE_PRIVATE_KEYS", { privateKeyIds: [privateKeyId] })], disable: ["Disable", allowedByPolicies("DISABLE_PRIVATE_KEY", { privateKeyId })],
    words: ["Export private key", mayExport("EXPORT_PRIVATE_KEY", { privateKeyId })] })]);
  return { key, tags, limits };
}, draw);

export const privateKeys = (main, [id]) => (id === "tags" ? keyTags(main) : id ? one(main, id) : list(main));
