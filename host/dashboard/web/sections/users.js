// Users and their credentials.

import { query, resultOf, submit, waits } from "../api.js";
import { fill, h, icon } from "../dom.js";
import { exportButton, moment } from "../export.js";
import { session } from "../session.js";
import { makeOpenKey, makePasskey, passkeysHere } from "../stamp.js";
import { sortable } from "../tables.js";
import { badge, button, confirm, copyable, dialog, done, download, empty, facts, field, load, loadOne, milliseconds, panel, show, table, title, when, words } from "../ui.js";

const curves = [["API_KEY_CURVE_P256", "P-256"], ["API_KEY_CURVE_SECP256K1", "secp256k1"], ["API_KEY_CURVE_ED25519", "Ed25519"]];

const methods = (user) => {
  const count = (n, one, many = `${one}s`) => n > 0 && badge(`${n} ${n === 1 ? one : many}`);
  const all = [count(user.apiKeys.length, "API key"), count(user.authenticators.length, "passkey"), count(user.oauthProviders.length, "social identity", "social identities")].filter(Boolean);
  return all.length ? h("span", { class: "row" }, all) : badge("None", "wait");
};

// showCredentials offers a key that was created here as a credentials file, once.
function showCredentials({ userId, userName }, { publicKey, privateKey }) {
  const text = JSON.stringify({ apiUrl: location.origin, organizationId: session().organizationId, publicKey, privateKey }, null, 2);
  const name = `credentials-${userName.replace(/[^\p{L}\p{N}._-]+/gu, "-")}.json`;
  show(`API key of ${userName}`, [
    h("p", null, userId === session().userId ? "Download this file now; it cannot be shown again. You sign in with it."
      : `Download this file now and pass it to ${userName}; it cannot be shown again. They sign in with it.`),
    h("p", null, button("Download credentials", { class: "button primary", autofocus: true, onclick: () => download(name, text) })),
    facts([["Public key", copyable(publicKey, "public key")], ["Private key", copyable(privateKey, "private key")], ["Credentials (JSON)", copyable(text, "credentials as JSON")]])]);
}

const keyFields = () => [
  field({ name: "make", label: "Key pair", kind: "select", value: "make", options: [["make", "Create in this browser"], ["paste", "I have the public key"]], onchange: chosen }),
  field({ name: "publicKey", label: "Public key", hint: "In hex; P-256 and secp256k1 in compressed form.", spellcheck: "false", disabled: true }),
  field({ name: "curveType", label: "Curve", kind: "select", value: "API_KEY_CURVE_P256", options: curves, disabled: true }),
];

function chosen({ target }) {
  const pasted = target.value === "paste";
  const { publicKey, curveType } = target.form.elements;
  publicKey.disabled = curveType.disabled = !pasted;
  publicKey.required = pasted;
}

// keyOf gives the parameters of the key in a form, and the pair if it was created here.
async function keyOf({ make, publicKey, curveType }, apiKeyName, rest = {}) {
  const pair = make === "make" ? await makeOpenKey() : null;
  return { pair, apiKeys: [{ apiKeyName, publicKey: pair?.publicKey ?? publicKey.toLowerCase(), curveType: pair ? "API_KEY_CURVE_P256" : curveType, ...rest }] };
}

function createUser(again) {
  dialog({
    heading: "New user",
    intro: "The user can sign in with this API key. Policies decide what else the user may do.",
    fields: [
      field({ name: "userName", label: "Name", required: true }),
      field({ name: "userEmail", label: "E-mail", kind: "email" }),
      field({ name: "userPhoneNumber", label: "Phone", kind: "tel", hint: "With the country code: +41 44 668 18 00." }),
      ...keyFields(),
    ],
    action: "Create user",
    run: async (all) => {
      const { apiKeys, pair } = await keyOf(all, "API key");
      const user = { userName: all.userName, apiKeys, authenticators: [], oauthProviders: [], userTags: [] };
      if (all.userEmail) user.userEmail = all.userEmail;
      if (all.userPhoneNumber) user.userPhoneNumber = all.userPhoneNumber.replaceAll(" ", "");
      done(await submit("create_users", "CREATE_USERS_V4", { users: [user] }), `User ${all.userName} was created.`);
      again();
      if (pair) queueMicrotask(() => showCredentials(all, pair));
    },
  });
}

// userTable is a sortable table of users. href makes the link to one, if there is a page of it.
export const userTable = (all, href) => sortable("Users", [
  { name: "Name", cell: (u) => (href ? h("a", { class: "strong", href: href(u) }, u.userName) : h("span", { class: "strong" }, u.userName)), key: (u) => u.userName },
  { name: "E-mail", cell: (u) => u.userEmail || "–", key: (u) => u.userEmail },
  { name: "Signs in with", cell: methods },
  { name: "Created", cell: (u) => when(u.createdAt), key: (u) => milliseconds(u.createdAt) },
  { name: "Id", cell: (u) => copyable(u.userId, `id of ${u.userName}`) },
], all).node;

const userExport = () => exportButton({
  what: "users", id: (u) => u.userId, pages: async function* () { yield (await query("list_users")).users; },
  columns: [
    ["userId", (u) => u.userId], ["userName", (u) => u.userName], ["userEmail", (u) => u.userEmail], ["userPhoneNumber", (u) => u.userPhoneNumber],
    ["userTags", (u) => u.userTags], ["apiKeys", (u) => u.apiKeys.map((k) => ({ name: k.apiKeyName, ...k.credential }))],
    ["authenticators", (u) => u.authenticators.map((a) => ({ name: a.authenticatorName, credentialId: a.credentialId }))], ["oauthProviders", (u) => u.oauthProviders],
    ["createdAt", (u) => moment(u.createdAt)], ["updatedAt", (u) => moment(u.updatedAt)],
  ],
});

function list(main) {
  const place = h("div");
  let again;
  fill(main, title("Users", { intro: "People and programs that can sign in or send requests.", actions: [userExport(), button("New user", { class: "button primary", onclick: () => createUser(again) })] }), place);
  again = load(place, "users", async () => (await query("list_users")).users, (all) =>
    all.length === 0 ? empty("There are no users.") : userTable(all, (u) => `#/users/${u.userId}`));
}

function addKey(user, again) {
  dialog({
    heading: `New API key for ${user.userName}`,
    fields: [
      field({ name: "apiKeyName", label: "Name", required: true }),
      ...keyFields(),
      field({ name: "days", label: "Expires after (days)", kind: "number", min: 1, step: 1, hint: "Empty: never.", wide: false }),
    ],
    action: "Add key",
    run: async (all) => {
      const { apiKeys, pair } = await keyOf(all, all.apiKeyName, all.days ? { expirationSeconds: String(Number(all.days) * 86400) } : {});
      done(await submit("create_api_keys", "CREATE_API_KEYS_V2", { userId: user.userId, apiKeys }), "The API key was added.");
      again();
      if (pair) queueMicrotask(() => showCredentials(user, pair));
    },
  });
}

function addPasskey(user, again) {
  dialog({
    heading: "Add a passkey",
    intro: `Your browser will ask you to confirm with your device or security key. The passkey works on ${location.hostname} only.`,
    fields: [field({ name: "authenticatorName", label: "Name", required: true, value: "Passkey", hint: "To tell it from your other passkeys." })],
    action: "Add passkey",
    run: async ({ authenticatorName }) => {
      const made = await makePasskey({ authenticatorName, userId: user.userId, userName: user.userName, organizationName: session().organizationName, known: user.authenticators.map((a) => a.credentialId) });
      done(await submit("create_authenticators", "CREATE_AUTHENTICATORS_V2", { userId: user.userId, authenticators: [made] }), "The passkey was added. You can sign in with it now.");
      again();
    },
  });
}

const remover = (heading, operation, type, parameters, message, again) => () =>
  confirm(heading, "This cannot be undone.", "Delete", async () => { done(await submit(operation, type, parameters), message); again(); });

const kinds = { CREDENTIAL_TYPE_API_KEY_P256: "P-256", CREDENTIAL_TYPE_API_KEY_SECP256K1: "secp256k1", CREDENTIAL_TYPE_API_KEY_ED25519: "Ed25519", CREDENTIAL_TYPE_LOGIN: "Session" };

function keyTable(user, again) {
  if (user.apiKeys.length === 0) return empty("No API keys.");
  return table("API keys", ["Name", "Type", "Public key", "Expires", ""], user.apiKeys.map((k) => [
    h("span", null, h("span", { class: "strong" }, k.apiKeyName), k.credential.publicKey === session().publicKey && [" ", badge("this browser")]),
    kinds[k.credential.type] ?? words(k.credential.type, /CREDENTIAL_TYPE_(API_KEY_)?/),
    copyable(k.credential.publicKey, "public key"),
    k.expirationSeconds ? when({ seconds: Number(k.createdAt.seconds) + Number(k.expirationSeconds) }) : "Never",
    button("Delete", { class: "button small", "aria-label": `Delete the API key ${k.apiKeyName}`, onclick: remover(`Delete the API key ${k.apiKeyName}?`, "delete_api_keys", "DELETE_API_KEYS", { userId: user.userId, apiKeyIds: [k.apiKeyId] }, "The API key was deleted.", again) }),
  ]));
}

const transports = { INTERNAL: "Built into the device", HYBRID: "Phone or tablet", USB: "USB", NFC: "NFC", BLE: "Bluetooth" };

function passkeyTable(user, again) {
  if (user.authenticators.length === 0) return empty(user.userId === session().userId ? "No passkeys." : "No passkeys. Only the user can add one, after signing in.");
  return table("Passkeys", ["Name", "Type", "Added", ""], user.authenticators.map((a) => [
    h("span", { class: "strong" }, a.authenticatorName),
    a.transports.map((t) => transports[t.replace("AUTHENTICATOR_TRANSPORT_", "")] ?? words(t, "AUTHENTICATOR_TRANSPORT_")).join(", ") || "–", when(a.createdAt),
    button("Delete", { class: "button small", "aria-label": `Delete the passkey ${a.authenticatorName}`, onclick: remover(`Delete the passkey ${a.authenticatorName}?`, "delete_authenticators", "DELETE_AUTHENTICATORS", { userId: user.userId, authenticatorIds: [a.authenticatorId] }, "The passkey was deleted.", again) }),
  ]));
}

async function deleteUser(user) {
  const activity = await submit("delete_users", "DELETE_USERS", { userIds: [user.userId] });
  done(activity, `User ${user.userName} was deleted.`);
  if (!waits(activity) && resultOf(activity)) location.hash = "#/users";
}

function draw(user, again) {
  const mine = user.userId === session().userId;
  return [
    title(user.userName, {
      back, intro: mine && "This is you.",
      actions: [!mine && button("Delete user", { onclick: () => confirm(`Delete ${user.userName}?`, "The user and all their credentials are deleted for good. Their activities stay on record.", "Delete user", () => deleteUser(user)) })],
    }),
    panel("About", facts([
      ["User id", copyable(user.userId, "user id", { whole: true })], ["E-mail", user.userEmail || "–"], ["Phone", user.userPhoneNumber || "–"], ["Created", when(user.createdAt)]])),
    panel("API keys", keyTable(user, again), { actions: [button("Add API key", { class: "button small", onclick: () => addKey(user, again) })] }),
    panel("Passkeys", passkeyTable(user, again), {
      actions: [mine && passkeysHere() && h("button", { type: "button", class: "button small", onclick: () => addPasskey(user, again) }, icon("passkey"), "Add a passkey")],
      note: mine && !passkeysHere() && "A passkey can be added only where this page is opened by a host name and over HTTPS, or on localhost.",
    }),
    user.oauthProviders.length > 0 && panel("Social identities", table("Social identities", ["Provider", "Issuer", "Subject"], user.oauthProviders.map((o) => [o.providerName, o.issuer, h("code", { class: "wrap" }, o.subject)]))),
  ];
}

const back = { href: "#/users", text: "Users" };
const one = (main, userId) => loadOne(main, "the user", "User", back, async () => (await query("get_user", { userId })).user, draw);

export const users = (main, [userId]) => (userId ? one(main, userId) : list(main));
