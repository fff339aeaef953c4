// One user: who it is, credentials, and MFA policies.

import { query, resultOf, submit, waits } from "../api.js";
import { h, icon } from "../dom.js";
import { session } from "../session.js";
import { makePasskey, passkeysHere } from "../stamp.js";
import { userHandle } from "../userhandle.js";
import { badge, button, confirm, copyable, dialog, done, empty, facts, field, loadOne, panel, table, title, when, words } from "../ui.js";
import { editUser } from "./edituser.js";
import { mfaPanel } from "./mfa.js";
import { keyFields, keyOf, showCredentials } from "./newkey.js";
import { isRoot, loadDirectory, roleBadges, tagList, userLabel } from "./directory.js";

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
      const activity = await submit("create_api_keys", "CREATE_API_KEYS_V2", { userId: user.userId, apiKeys });
      done(activity, "The API key was added.");
      again();
      if (pair) queueMicrotask(() => showCredentials(user, pair, activity));
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
      const { organizationId, organizationName } = session();
      const made = await makePasskey({ authenticatorName, handle: userHandle(organizationId, user.userId), userName: user.userName, organizationName, known: user.authenticators.map((a) => a.credentialId) });
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
    h("div", { class: "row" },
      k.credential.type !== "CREDENTIAL_TYPE_LOGIN" && h("a", { class: "button quiet small", href: `#/settings/ip/${k.credential.publicKey}`, "aria-label": `IP list of the API key ${k.apiKeyName}` }, "IP list"),
      button("Delete", { class: "button small", "aria-label": `Delete the API key ${k.apiKeyName}`, onclick: remover(`Delete the API key ${k.apiKeyName}?`, "delete_api_keys", "DELETE_API_KEYS", { userId: user.userId, apiKeyIds: [k.apiKeyId] }, "The API key was deleted.", again) })),
  ]));
}

const transports = { INTERNAL: "Built into the device", HYBRID: "Phone or tablet", USB: "USB", NFC: "NFC", BLE: "Bluetooth" };

const noPasskeys = (mine) => (mine ? empty("No passkeys.")
  : empty("No passkeys. Only the user can add one, after signing in.", h("p", null, "A new colleague makes a passkey before the first sign-in if you ", h("a", { href: "#/users/invitations" }, "invite them"), ".")));

function passkeyTable(user, again) {
  if (user.authenticators.length === 0) return noPasskeys(user.userId === session().userId);
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

// membership says what it means to be in the root quorum.
const membership = ({ threshold, userIds }) =>
  `Member. ${Number(threshold) === 1 ? "Alone, this user" : `${threshold} of its ${userIds.length} members together`} can do anything, whatever the policies say.`;

function draw({ user, directory }, again) {
  const mine = user.userId === session().userId;
  return [
    title(userLabel(directory, user), {
      back, intro: [mine && "This is you. ", ...roleBadges(directory, user.userId).flatMap((b) => [b, " "]), directory.proxy === user.userId && "Requests of the auth proxy come from this user. It is deleted when the auth proxy is turned off."].filter(Boolean),
      actions: [
        !mine && button("Delete user", { onclick: () => confirm(`Delete ${user.userName}?`, "The user and all their credentials are deleted for good. Their activities stay on record.", "Delete user", () => deleteUser(user)) }),
        button("Edit", { class: "button primary", onclick: () => editUser(user, directory, again) }),
      ],
    }),
    panel("About", facts([
      ["User id", copyable(user.userId, "user id", { whole: true })], ["E-mail", user.userEmail || "–"], ["Phone", user.userPhoneNumber || "–"], ["Tags", tagList(user.userTags, directory.tagNames)],
      isRoot(directory, user.userId) && ["Root quorum", membership(directory.rootQuorum)], ["Created", when(user.createdAt)]])),
    panel("API keys", keyTable(user, again), { actions: [button("Add API key", { class: "button small", onclick: () => addKey(user, again) })] }),
    panel("Passkeys", passkeyTable(user, again), {
      actions: [mine && passkeysHere() && h("button", { type: "button", class: "button small", onclick: () => addPasskey(user, again) }, icon("passkey"), "Add a passkey")],
      note: mine && !passkeysHere() && "A passkey can be added only where this page is opened by a host name and over HTTPS, or on localhost.",
    }),
    user.oauthProviders.length > 0 && panel("Social identities", table("Social identities", ["Provider", "Issuer", "Subject"], user.oauthProviders.map((o) => [o.providerName, o.issuer, h("code", { class: "wrap" }, o.subject)]))),
    mfaPanel(user, again),
  ];
}

const back = { href: "#/users", text: "Users" };

export const user = (main, userId) => loadOne(main, "the user", "User", back, async () => {
  const [{ user: found }, directory] = await Promise.all([query("get_user", { userId }), loadDirectory()]);
  return { user: found, directory };
}, draw);
