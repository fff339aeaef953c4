// Sessions with the server SDK of today: log-ins by a stamp, their tokens judged by the SDKs, keys of sessions that the enclave
// makes and encrypts, and reading without a stamp.
import assert from "node:assert/strict";
import { test } from "node:test";
import { decryptCredentialBundle, generateP256KeyPair, getPublicKey, verifySessionJwtSignature } from "@turnkey/crypto";
import { Turnkey } from "@turnkey/sdk-server";
import { credentials, refused, settings } from "./setting.mjs";

const root = new Turnkey(settings()).apiClient();
const clientOf = (apiPublicKey, apiPrivateKey) => new Turnkey(settings({ apiPublicKey, apiPrivateKey })).apiClient();
const verified = (session) => verifySessionJwtSignature(session, credentials.keys.session);

// The claims of a token, which the web clients read as plain base64 and want whole.
function claimsOf(session) {
  const claims = JSON.parse(atob(session.split(".")[1]));
  for (const name of ["exp", "public_key", "session_type", "user_id", "organization_id"]) assert.ok(claims[name], name);
  return claims;
}

const login = async (client, over = {}) => {
  const pair = generateP256KeyPair();
  const { session } = await client.stampLogin({ publicKey: pair.publicKey, ...over });
  return { pair, session, client: clientOf(pair.publicKey, pair.privateKey) };
};

// A query in a session, as the legacy browser client sends it.
async function reads(session, op, body = {}) {
  const answer = await fetch(`${credentials.apiUrl}/public/v1/query/${op}`, {
    method: "POST",
    headers: { "X-Session": session, "Content-Type": "application/json" },
    body: JSON.stringify({ organizationId: credentials.organizationId, ...body }),
  });
  return { status: answer.status, body: await answer.json() };
}

test("a log-in, its token judged, and its key at work", async () => {
  const one = await login(root, { expirationSeconds: "600" });
  assert.equal(await verified(one.session), true);
  const [header, payload, signature] = one.session.split(".");
  assert.equal(await verified([header, payload.slice(0, -2) + "AA", signature].join(".")), false);
  assert.equal(await verifySessionJwtSignature(one.session, credentials.keys.signer), false);
  assert.equal(await verifySessionJwtSignature(one.session), false); // the key that is built in
  const told = claimsOf(one.session);
  assert.deepEqual(
    [told.organization_id, told.user_id, told.public_key, told.session_type],
    [credentials.organizationId, credentials.rootUserId, one.pair.publicKey, "SESSION_TYPE_READ_WRITE"]);
  const left = told.exp - Date.now() / 1000;
  assert.ok(left > 570 && left < 630, String(left));
  assert.equal((await one.client.getWhoami()).userId, credentials.rootUserId);
  const { user } = await one.client.getUser({ userId: credentials.rootUserId });
  const key = user.apiKeys.find((k) => k.credential.publicKey === one.pair.publicKey);
  assert.equal(key.credential.type, "CREDENTIAL_TYPE_LOGIN");
  assert.equal(key.expirationSeconds, "600");
  assert.ok((await one.client.createUserTag({ userTagName: "By session", userIds: [] })).userTagId);

  const two = await login(one.client, { invalidateExisting: true });
  assert.equal((await two.client.getWhoami()).userId, credentials.rootUserId);
  await refused(16, "could not find public key in organization or its parent organization", () => one.client.getWhoami());
});

test("a profile, whose scope binds the root user too", async () => {
  const scope = "activity.resource == 'WALLET' && activity.type != '?>~é'";
  const { sessionProfileId } = await root.createSessionProfile({ sessionProfileName: "Wallets", scope, expirationSeconds: "120" });
  const one = await login(root, { sessionProfileId, expirationSeconds: "600" });
  assert.equal(await verified(one.session), true);
  assert.doesNotMatch(one.session.split(".")[1], /[-_]/);
  const told = claimsOf(one.session);
  assert.deepEqual([told.session_type, told.session_profile_id, told.scope], ["Wallets", sessionProfileId, scope]);
  assert.ok(told.exp - Date.now() / 1000 < 150, String(told.exp));
  assert.ok((await one.client.createWallet({ walletName: "In scope", accounts: [] })).walletId);
  await refused(7, "request not authorized", () => one.client.createUserTag({ userTagName: "Out of scope", userIds: [] }));
  await refused(7, "request not authorized", () => login(one.client));
});

test("a read-write session's key, encrypted to the client", async () => {
  const target = generateP256KeyPair();
  const answer = await root.createReadWriteSession({ targetPublicKey: target.publicKeyUncompressed, apiKeyName: "Legacy" });
  assert.equal(answer.userId, credentials.rootUserId);
  assert.equal(answer.organizationId, credentials.organizationId);
  const privateKey = decryptCredentialBundle(answer.credentialBundle, target.privateKey);
  const publicKey = Buffer.from(getPublicKey(Buffer.from(privateKey, "hex"), true)).toString("hex");
  const client = clientOf(publicKey, privateKey);
  assert.equal((await client.getWhoami()).userId, credentials.rootUserId);
  const { apiKey } = await client.getApiKey({ apiKeyId: answer.apiKeyId });
  assert.deepEqual([apiKey.apiKeyName, apiKey.expirationSeconds], ["Legacy", "900"]);
  assert.throws(() => decryptCredentialBundle(answer.credentialBundle, generateP256KeyPair().privateKey));
});

test("a read-only session reads, and does nothing else", async () => {
  const answer = await root.createReadOnlySession({});
  assert.equal(answer.userId, credentials.rootUserId);
  assert.equal(await verified(answer.session), true);
  const left = Number(answer.sessionExpiry) - Date.now() / 1000;
  assert.ok(left > 3500 && left < 3700, answer.sessionExpiry);
  const who = await reads(answer.session, "whoami");
  assert.deepEqual([who.status, who.body.userId], [200, credentials.rootUserId]);
  assert.equal((await reads(answer.session, "list_users")).status, 200);
  const altered = answer.session.slice(0, -4) + (answer.session.endsWith("AAAA") ? "BBBB" : "AAAA");
  assert.equal((await reads(altered, "whoami")).status, 401);
  const submit = await fetch(`${credentials.apiUrl}/public/v1/submit/create_user_tag`, {
    method: "POST",
    headers: { "X-Session": answer.session },
    body: JSON.stringify({
      type: "ACTIVITY_TYPE_CREATE_USER_TAG", timestampMs: String(Date.now()), organizationId: credentials.organizationId,
      parameters: { userTagName: "No", userIds: [] },
    }),
  });
  assert.equal(submit.status, 401);
  const { session } = await login(root);
  assert.equal((await reads(session, "whoami")).status, 401);
});

test("a key of a new sub-organization logs in naming the parent", async () => {
  const pair = generateP256KeyPair();
  const { subOrganizationId } = await root.createSubOrganization({
    subOrganizationName: "Signed up", rootQuorumThreshold: 1,
    rootUsers: [{
      userName: "Root", authenticators: [], oauthProviders: [],
      apiKeys: [{ apiKeyName: "at sign-up", publicKey: pair.publicKey, curveType: "API_KEY_CURVE_P256", expirationSeconds: "60" }],
    }],
  });
  const { session } = await login(clientOf(pair.publicKey, pair.privateKey));
  assert.equal(claimsOf(session).organization_id, subOrganizationId);
});
