// Tags of private keys.

import { query } from "../api.js";
import { h } from "../dom.js";
import { plural } from "./directory.js";
import { tagsOf } from "./tags.js";

async function fetch() {
  const [{ privateKeyTags }, { privateKeys }, { policies }] = await Promise.all(["list_private_key_tags", "list_private_keys", "list_policies"].map((name) => query(name)));
  return { holders: privateKeys, policies, tags: privateKeyTags.map((t) => ({ ...t, holders: privateKeys.filter((k) => k.privateKeyTags.includes(t.tagId)) })) };
}

export const keyTags = tagsOf({
  prefix: "privateKey", type: "PRIVATE_KEY_TAG", one: "key", fetch,
  title: "Tags of private keys", intro: "A tag names a group of private keys. Policies can ask for it.", none: "There are no tags of private keys yet.", back: { href: "#/privatekeys", text: "Private keys" },
  legend: "Private keys that have it", option: (k) => [k.privateKeyId, k.privateKeyName], column: "Private keys",
  name: (t) => h("span", { class: "strong wrap" }, t.tagName),
  holders: (t) => (t.holders.length === 0 ? "–" : h("span", null, t.holders.map((k, i) => [i > 0 && ", ", h("a", { href: `#/privatekeys/${k.privateKeyId}` }, k.privateKeyName)]))),
  lost: ({ holders }) => h("p", null, holders.length ? `${plural(holders.length, "key has", "keys have")} it.` : "No private key has it."),
});
