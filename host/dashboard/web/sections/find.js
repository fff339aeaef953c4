// Find: one box for an address, an id, a fingerprint, an e-mail address, a phone number or a name, over all that the caller may read.

import { query } from "../api.js";
import { fill, h } from "../dom.js";
import { accountPages, activityPages } from "../pages.js";
import { sortable } from "../tables.js";
import { button, copyable, grown, panel, problem, table, title, when } from "../ui.js";
import { typeText } from "./activities.js";
import { foundBy, recordOf, subOrganizationColumns } from "./suborganizations.js";
import { formatOf } from "./wallets.js";

// findBox is the box in the frame.
export const findBox = (q) => h("form", { class: "find", role: "search", "aria-label": "Everything", onsubmit: (event) => {
  event.preventDefault();
  const text = event.target.elements.q.value.trim();
  if (text) location.hash = `#/find?${new URLSearchParams({ q: text })}`;
} }, h("input", { type: "search", name: "q", "aria-label": "Find", "aria-keyshortcuts": "/", placeholder: "Find  /", value: q, autocomplete: "off", autocapitalize: "off", spellcheck: "false" }));

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

// recognized tells what a text can be. Addresses have many forms, and none has a space or an @.
function recognized(text) {
  const id = uuid.test(text);
  const word = /^[\w:+/=-]{20,140}$/.test(text) && !id;
  const fingerprint = /^sha256:[0-9a-f]{64}$/i.test(text);
  const ends = Boolean(endsOf(text));
  return {
    id, fingerprint, ends,
    part: ends || /^[\w:+/=-]{5,19}$/.test(text) && /\d/.test(text) || /^0x[0-9a-f]{18,39}$/i.test(text), // of an address, which has digits
    bareHash: /^[0-9a-f]{64}$/i.test(text),
    address: word && !fingerprint && !/^0x[0-9a-f]{18,39}$/i.test(text),
    publicKey: /^(0x)?([0-9a-f]{64}|0[23][0-9a-f]{64}|04[0-9a-f]{128})$/i.test(text),
    mail: /^[^\s@]+@[^\s@]+$/.test(text),
    phone: /^\+?[\d\s().-]{6,22}$/.test(text) && /\d{6}/.test(text.replace(/\D/g, "")),
  };
}

const digits = (text) => text.replace(/[\s().-]/g, "");

// ends are the first and last characters of a value that a page has shortened, such as 1b2defc9…364015.
function endsOf(text) {
  const [, from, to] = /^([\w:+/=-]{3,})(?:…|\.\.\.)([\w:+/=-]{3,})$/.exec(text) ?? [];
  return from && { from: from.toLowerCase(), to: to.toLowerCase() };
}

const isBetween = (ends, value) => value.startsWith(ends.from) && value.endsWith(ends.to);

// matches gives the name of the first value that has the text, as a whole or in part.
function matches(text, values) {
  const wanted = text.toLowerCase();
  const ends = endsOf(text);
  if (ends) return values.find(([, value]) => value && isBetween(ends, String(value).toLowerCase()))?.[0];
  const found = values.find(([, value]) => value && (String(value).toLowerCase().includes(wanted) || /^\+?\d{6,}$/.test(digits(text)) && digits(String(value)).includes(digits(text))));
  return found?.[0];
}

// What is searched in this organization: name, the fetching, the values of a thing with what they are called, its link, its name and id.
const kinds = [
  {
    name: "Users", fetch: async () => (await query("list_users")).users, id: (u) => u.userId, label: (u) => u.userName, href: (u) => `#/users/${u.userId}`,
    values: (u) => [["Name", u.userName], ["E-mail", u.userEmail], ["Phone", u.userPhoneNumber], ["Id", u.userId], ...u.userTags.map((t) => ["Tag", t]),
      ...u.apiKeys.flatMap((k) => [["Public key", k.credential.publicKey], ["Name of an API key", k.apiKeyName], ["Id of an API key", k.apiKeyId]]),
      ...u.authenticators.flatMap((a) => [["Name of a passkey", a.authenticatorName], ["Id of a passkey", a.credentialId], ["Id of a passkey", a.authenticatorId]]),
      ...u.oauthProviders.flatMap((o) => [["Social identity", o.subject], ["Id of a social identity", o.providerId]])],
  },
  { name: "Wallets", fetch: async () => (await query("list_wallets")).wallets, id: (w) => w.walletId, label: (w) => w.walletName, href: (w) => `#/wallets/${w.walletId}`, values: (w) => [["Name", w.walletName], ["Id", w.walletId]] },
  {
    name: "Private keys", fetch: async () => (await query("list_private_keys")).privateKeys, id: (k) => k.privateKeyId, label: (k) => k.privateKeyName, href: (k) => `#/privatekeys/${k.privateKeyId}`,
    values: (k) => [["Name", k.privateKeyName], ["Id", k.privateKeyId], ["Public key", k.publicKey], ...k.privateKeyTags.map((t) => ["Tag", t]), ...k.addresses.map((a) => ["Address", a.address])],
  },
  {
    name: "Policies", fetch: async () => (await query("list_policies")).policies, id: (p) => p.policyId, label: (p) => p.policyName, href: (p) => `#/policies/${p.policyId}`,
    values: (p) => [["Name", p.policyName], ["Id", p.policyId], ["Notes", p.notes], ["Condition", p.condition], ["Consensus", p.consensus]],
  },
  {
    name: "Tags", fetch: async () => [...(await query("list_user_tags")).userTags, ...(await query("list_private_key_tags")).privateKeyTags], id: (t) => t.tagId, label: (t) => t.tagName, href: (t) => `#/find?q=${t.tagId}`, // who and what has the tag
    values: (t) => [["Name", t.tagName], ["Id", t.tagId]],
  },
];

const resultTable = (kind, found) => grown(found, (some) => table(kind.name, ["Name", "Found in", "Id"], some.map(({ one, where }) => [
  h("a", { class: "strong", href: kind.href(one) }, kind.label(one)), where, copyable(kind.id(one), `id of ${kind.label(one)}`)])));

async function findKind(kind, text) {
  const all = await kind.fetch();
  const found = all.map((one) => ({ one, where: matches(text, kind.values(one)) })).filter(({ where }) => where);
  return { count: found.length, content: found.length > 0 && resultTable(kind, found) };
}

const accountTable = (accounts) => grown(accounts, (some) => table("Accounts", ["Wallet", "Chain", "Address", "Path"], some.map((a) => [
  h("a", { class: "strong", href: `#/wallets/${a.walletId}` }, a.walletDetails.walletName), formatOf(a), copyable(a.address, "address", { whole: true }), h("code", null, a.path)])));

// accountWithId is a wallet's account, found by its neighbour in the list.
async function accountWithId(walletAccountId) {
  const ask = async (more) => (await query("list_wallet_accounts", { includeWalletDetails: true, paginationOptions: { limit: "1", ...more } })).accounts;
  try {
    const [before] = await ask({ before: walletAccountId });
    return await ask(before ? { after: before.walletAccountId } : {});
  } catch (error) {
    if (error.fields?.length) return []; // the cursor is unknown
    throw error;
  }
}

const mostAccounts = 1000; // that are compared with a part of an address

// accountsWithPart are accounts whose address has a part of text in it, or begins and ends with two.
async function accountsWithPart(text) {
  const wanted = text.toLowerCase();
  const ends = endsOf(text);
  const accounts = [];
  let read = 0;
  for await (const page of accountPages({ includeWalletDetails: true })) {
    accounts.push(...page.filter(({ address }) => (ends ? isBetween(ends, address.toLowerCase()) : address.toLowerCase().includes(wanted))));
    read += page.length;
    if (read >= mostAccounts) return { accounts, left: true };
  }
  return { accounts, left: false };
}

async function findAccounts(text, is) {
  if (is.part) {
    const { accounts, left } = await accountsWithPart(text);
    return { count: accounts.length, content: (accounts.length > 0 || left) && [accounts.length > 0 && accountTable(accounts), left && h("p", { class: "note" }, `The first ${mostAccounts} accounts were compared. Write the whole address to search all of them.`)] };
  }
  const accounts = is.id ? await accountWithId(text.toLowerCase()) : (await query("list_wallet_accounts", { address: text, includeWalletDetails: true })).accounts;
  return {
    count: accounts.length,
    content: accounts.length > 0 && accountTable(accounts),
  };
}

// The filters by which a sub-organization may be found by a text.
const filtersFor = (is) => [
  ...(is.mail ? ["EMAIL"] : []), ...(is.phone ? ["PHONE_NUMBER"] : []), ...(is.publicKey ? ["PUBLIC_KEY"] : []), ...(is.address ? ["WALLET_ACCOUNT_ADDRESS", "CREDENTIAL_ID"] : []),
  ...(is.id || is.fingerprint ? [] : ["NAME", "USERNAME"]),
];

async function findSubOrganizations(text, is) {
  const found = new Map();
  let more = false;
  const take = async (filter) => {
    const { value = [] } = await foundBy(filter, filter === "PUBLIC_KEY" ? text.replace(/^0x/i, "") : text, { size: 50 }).next();
    more ||= value.length === 50;
    for (const o of value) found.set(o.organizationId, o);
  };
  if (is.id) {
    const record = await recordOf(text.toLowerCase());
    if (record) found.set(record.organizationId, record);
  }
  await Promise.all(filtersFor(is).map(take));
  const all = [...found.values()];
  return {
    count: all.length,
    content: all.length > 0 && [sortable("Sub-organizations", subOrganizationColumns, all).node, more && h("p", { class: "note" }, "There may be more. ", h("a", { href: "#/suborganizations" }, "Search sub-organizations"), " to see all of them.")],
  };
}

// openActivity opens an activity at once if the reader is still here, and shows a link to it.
function openActivity(activity, here) {
  const href = `#/activities/${activity.id}`;
  if (here()) location.replace(href);
  return { count: 1, content: h("p", null, h("a", { href }, typeText(activity.type))) };
}

async function findActivity(text, here) {
  try {
    return openActivity((await query("get_activity", { activityId: text.toLowerCase() })).activity, here);
  } catch (error) {
    if (error.code === 5) return { count: 0 };
    throw error;
  }
}

const mostIds = 500; // of activities that are compared with a shortened one

// findShortened compares the ids and fingerprints of the latest activities with one that a page has shortened.
async function findShortened(text) {
  const ends = endsOf(text);
  const found = [];
  let read = 0;
  for await (const page of activityPages({})) {
    found.push(...page.filter((a) => isBetween(ends, a.id) || isBetween(ends, a.fingerprint)));
    read += page.length;
    if (read >= mostIds) break;
  }
  return { count: found.length, content: found.length > 0 && h("ul", { class: "plainlist" }, found.map((a) => h("li", null, h("a", { class: "strong", href: `#/activities/${a.id}` }, typeText(a.type)), " ", copyable(a.id, "activity id"), " ", when(a.createdAt)))) };
}

// A stretch of activities that are compared with a fingerprint before the reader is asked whether to go on.
const stretch = 1000;

// findFingerprint compares the fingerprints of activities: first of those that wait for approval, then of all, the latest first. The
// server has no index of them.
async function findFingerprint(text, here) {
  const wanted = `sha256:${text.replace(/^sha256:/i, "").toLowerCase()}`;
  // among reads a stretch of activities: it gives the one with the fingerprint, or else how far back it came, if there are more.
  const among = async (source) => {
    let back = null;
    for (let read = 0; read < stretch;) {
      const { value, done } = await source.next();
      if (done) return {};
      const hit = value.find((a) => a.fingerprint === wanted);
      if (hit) return { hit };
      read += value.length;
      back = value.at(-1).updatedAt;
    }
    return { back };
  };
  const waiting = await among(activityPages({ filterByStatus: ["ACTIVITY_STATUS_CONSENSUS_NEEDED"] }));
  if (waiting.hit) return openActivity(waiting.hit, here);
  const all = activityPages({});
  const place = h("div");
  const onward = async () => {
    const { hit, back } = await among(all);
    if (hit) return openActivity(hit, here);
    fill(place, back ? [h("p", null, "No activity back to ", when(back, { both: true }), " has this fingerprint."), button("Read older ones", { onclick: older })] : h("p", null, "No activity has this fingerprint."));
    return { count: 0, content: back && place };
  };
  async function older({ target }) {
    target.disabled = true;
    try {
      const { count, content } = await onward();
      if (count > 0) fill(place, content);
    } catch (error) {
      fill(place, problem(error));
    }
  }
  return onward();
}

// searchesFor are the searches for a text: what they are called, and what finds.
function searchesFor(text, is, here) {
  const exact = is.fingerprint;
  return [
    is.id && ["Activities", () => findActivity(text, here)],
    (is.fingerprint || is.bareHash) && ["Activities", () => findFingerprint(text, here)],
    is.ends && ["Activities", () => findShortened(text)],
    (is.address || is.id || is.part) && ["Accounts", () => findAccounts(text, is)],
    ...(exact ? [] : kinds.map((kind) => [kind.name, () => findKind(kind, text)])),
    !exact && !is.ends && ["Sub-organizations", () => findSubOrganizations(text, is)],
  ].filter(Boolean);
}

// notSearched says what a search leaves out.
const notSearched = (is) => [
  is.ends && `activities before the latest ${mostIds}`,
  !is.id && !is.fingerprint && !is.bareHash && !is.ends && "activities, which are found by id or fingerprint, and by user, type and date under Activities",
  !is.fingerprint && !is.address && !is.id && "names of accounts",
  !is.fingerprint && !is.address && !is.id && !is.part && "accounts, which are found by an address, or by a part of one with at least 5 characters",
  !is.fingerprint && "parts of names and values in sub-organizations, which are found by whole ones",
  !is.fingerprint && "secrets, webhooks and programs",
].filter(Boolean);

export function find(main, rest, search) {
  const text = (search.get("q") ?? "").trim();
  const is = recognized(text);
  const status = h("p", { role: "status", class: "note" });
  const results = h("div");
  const tips = h("p", { class: "intro" }, "Type an address or a part of one, an id, a fingerprint, an e-mail address, a phone number or a name into the box. The key / leads there.");
  fill(main, title("Find", { intro: text && ["Results for ", h("strong", { class: "wrap" }, text), "."] }), text ? status : tips, results);
  if (!text) return;
  const all = searchesFor(text, is, () => main.isConnected);
  let open = all.length;
  let count = 0;
  const tell = () => fill(status, open > 0 ? "Searching…" : count === 0 ? "Nothing was found." : `${count} found.`);
  tell();
  const asked = all.map(async ([name, run]) => {
    const place = h("div");
    results.append(place);
    try {
      const got = await run();
      count += got.count;
      if (got.content) fill(place, panel(name, got.content));
    } catch (error) {
      fill(place, panel(name, problem(error)));
    }
    open--;
    tell();
  });
  Promise.all(asked).then(() => {
    const left = notSearched(is);
    results.append(h("p", { class: "note" }, `Searched: ${[...new Set(all.map(([name]) => name.toLowerCase()))].join(", ")}.`, left.length > 0 && ` Not searched: ${left.join("; ")}.`));
  });
}
