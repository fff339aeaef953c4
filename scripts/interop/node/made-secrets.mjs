// Secrets with the unmodified @turnkey/crypto, its override parameter naming this deployment's signer: in, out to whom policies
// say, and what nobody gets.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiKeyStamper } from "@turnkey/api-key-stamper";
import { decryptSecretBundle, encryptSecretToBundle, generateP256KeyPair } from "@turnkey/crypto";
import { TurnkeyClient } from "@turnkey/http";
import { Turnkey } from "@turnkey/sdk-server";
import { credentials, refused, remember, settings } from "./setting.mjs";

const { organizationId } = credentials;
const encryptionSuite = "TRANSPORT_ENCRYPTION_SUITE_ENCLAVE_ENCRYPT_V1";
const signer = { dangerouslyOverrideSignerPublicKey: credentials.keys.signer };
const state = { secrets: [] };

// client is the server SDK's, with the one call that only the HTTP client has.
function client(pair, over = {}) {
  const set = settings({ apiPublicKey: pair.publicKey, apiPrivateKey: pair.privateKey, ...over });
  const api = new Turnkey(set).apiClient();
  const http = new TurnkeyClient({ baseUrl: set.apiBaseUrl }, new ApiKeyStamper(set));
  api.initImportSecrets = async (parameters) => {
    const { activity } = await http.initImportSecrets({
      type: "ACTIVITY_TYPE_INIT_IMPORT_SECRETS", timestampMs: String(Date.now()), organizationId: set.defaultOrganizationId, parameters,
    });
    return activity.result.initImportSecretsResult;
  };
  return Object.assign(api, { http });
}

const root = client(credentials.rootApiKey);

// encrypted is each text as the SDK encrypts it to a target of its own.
async function encrypted(plaintexts, who = root, of = organizationId) {
  const { enclaveTargetMessages } = await who.initImportSecrets({ encryptionSuite, numSecrets: plaintexts.length });
  assert.equal(enclaveTargetMessages.length, plaintexts.length);
  return Promise.all(plaintexts.map(async (plaintext, i) => ({
    ...(await encryptSecretToBundle({ plaintext, ingressTargetBundle: enclaveTargetMessages[i], organizationId: of, ...signer })), encryptionSuite,
  })));
}

const properties = (of) => Object.entries(of).map(([key, value]) => ({ key, value }));

async function imported(plaintext, more, who, of) {
  const [secret] = await encrypted([plaintext], who, of);
  return (await (who ?? root).importSecrets({ secrets: [{ ...secret, ...more }] })).secretIds[0];
}

// exported asks for secrets, each to a fresh key, and opens them as the SDK does.
async function exported(ids, who = root, of = organizationId) {
  const pairs = ids.map(() => generateP256KeyPair());
  const { secretPayloads } = await who.exportSecrets({
    secrets: ids.map((secretId, i) => ({ secretId, targetPublicKey: pairs[i].publicKeyUncompressed, encryptionSuite })),
  });
  return Promise.all(secretPayloads.map((secretPayload, i) =>
    decryptSecretBundle({ secretPayload, embeddedPrivateKey: pairs[i].privateKey, organizationId: of, ...signer })));
}

const owned = async (name, tags = []) => {
  const pair = generateP256KeyPair();
  const { userIds } = await root.createUsers({
    users: [{ userName: name, apiKeys: [{ apiKeyName: "key", publicKey: pair.publicKey, curveType: "API_KEY_CURVE_P256" }], authenticators: [], oauthProviders: [], userTags: tags }],
  });
  return { userId: userIds[0], api: client(pair) };
};

test("a batch comes in and goes out in the order of the request", async () => {
  const plain = ["s3cret ✓", "x", "line\nline\u0000", "🔐".repeat(16 << 10)];
  const secrets = (await encrypted(plain)).map((s, i) => ({ ...s, name: `Batch ${i}`, staticProperties: properties({ env: i % 2 ? "dev" : "prod", number: String(i) }) }));
  const { secretIds } = await root.importSecrets({ secrets: [secrets[2], secrets[0], secrets[3], secrets[1]] });
  assert.deepEqual(await exported(secretIds), [plain[2], plain[0], plain[3], plain[1]]);
  assert.deepEqual(await exported([secretIds[3], secretIds[3], secretIds[0]]), [plain[1], plain[1], plain[2]]);
  const { secrets: listed } = await root.listSecrets({ paginationOptions: { limit: "100" } });
  const mine = listed.filter((s) => secretIds.includes(s.secretId));
  assert.deepEqual(mine.map((s) => s.secretId).reverse(), secretIds); // newest first
  mine.reverse();
  assert.deepEqual(mine[1].staticProperties, properties({ env: "prod", number: "0" }));
  assert.equal(mine[1].name, "Batch 0");
  assert.ok(Math.abs(Number(mine[1].createdAtUnixMs) - Date.now()) < 3_600_000);
  assert.ok(!JSON.stringify(listed).includes("s3cret"));
  for (const [i, secretId] of secretIds.entries()) state.secrets.push({ secretId, text: plain[[2, 0, 3, 1][i]] });
  const [first, second] = [(await root.listSecrets({ paginationOptions: { limit: "1" } })).secrets[0].secretId, listed[1].secretId];
  assert.equal(first, listed[0].secretId);
  assert.deepEqual((await root.listSecrets({ paginationOptions: { limit: "1", after: first } })).secrets.map((s) => s.secretId), [second]);
});

test("what a client refuses: another signer or organization", async () => {
  const { enclaveTargetMessages: [ingressTargetBundle] } = await root.initImportSecrets({ encryptionSuite, numSecrets: 1 });
  const good = { plaintext: "x", ingressTargetBundle, organizationId };
  await assert.rejects(encryptSecretToBundle(good), /expected signer key/);
  await assert.rejects(encryptSecretToBundle({ ...good, ...signer, organizationId: credentials.rootUserId }), /organization id does not match/);
  const pair = generateP256KeyPair();
  const { secretPayloads: [secretPayload] } = await root.exportSecrets({
    secrets: [{ secretId: state.secrets[0].secretId, targetPublicKey: pair.publicKey, encryptionSuite }],
  });
  const open = { secretPayload, embeddedPrivateKey: pair.privateKey, organizationId };
  await assert.rejects(decryptSecretBundle(open), /expected signer key/);
  await assert.rejects(decryptSecretBundle({ ...open, ...signer, organizationId: credentials.rootUserId }), /organization id does not match/);
  await assert.rejects(decryptSecretBundle({ ...open, ...signer, embeddedPrivateKey: generateP256KeyPair().privateKey }));
  assert.equal(await decryptSecretBundle({ ...open, ...signer }), state.secrets[0].text);
});

test("a target is for one secret, whatever comes of it, and of one organization", async () => {
  const gone = "not an import target of this organization";
  const [once] = await encrypted(["once"]);
  await root.importSecrets({ secrets: [once] });
  await refused(3, gone, () => root.importSecrets({ secrets: [once] }));
  const [a, b] = await encrypted(["a", "b"]);
  await refused(3, "not encrypted to the import target named", () => root.importSecrets({ secrets: [a, { ...b, secretPayload: a.secretPayload }] }));
  await refused(3, gone, () => root.importSecrets({ secrets: [a] }));
  await refused(3, gone, () => root.importSecrets({ secrets: [b] }));
  const [named] = await encrypted(["named"]);
  await refused(3, "must be unique", () => root.importSecrets({ secrets: [{ ...named, name: "Batch 0" }] }));
  await root.importSecrets({ secrets: [{ ...named, name: "Free" }] }); // a name that was taken spent nothing

  const owner = generateP256KeyPair();
  const { subOrganizationId } = await root.createSubOrganization({
    subOrganizationName: "With secrets", rootQuorumThreshold: 1,
    rootUsers: [{ userName: "Owner", apiKeys: [{ apiKeyName: "key", publicKey: owner.publicKey, curveType: "API_KEY_CURVE_P256" }], authenticators: [], oauthProviders: [] }],
  });
  const below = client(owner, { defaultOrganizationId: subOrganizationId });
  const [theirs] = await encrypted(["theirs"], below, subOrganizationId);
  await refused(3, gone, () => root.importSecrets({ secrets: [theirs] }));
  const secretId = (await below.importSecrets({ secrets: [theirs] })).secretIds[0];
  assert.deepEqual(await exported([secretId], below, subOrganizationId), ["theirs"]);
  // The parent reads that it is there, and gets nothing of it.
  assert.deepEqual((await root.listSecrets({ organizationId: subOrganizationId })).secrets.map((s) => s.secretId), [secretId]);
  const out = { secrets: [{ secretId, targetPublicKey: generateP256KeyPair().publicKey, encryptionSuite }] };
  await refused(3, "", () => root.exportSecrets({ ...out, organizationId: subOrganizationId }));
  await refused(5, "secret not found", () => root.exportSecrets(out));
  await refused(5, "secret not found", () => below.exportSecrets({ secrets: [{ ...out.secrets[0], secretId: state.secrets[0].secretId }] }));
});

test("deleted secrets are gone, and their names are free", async () => {
  const ids = [await imported("gone", { name: "Rotated" }), await imported("gone too", {})];
  const remove = (secretIds) => root.http.deleteSecrets({ type: "ACTIVITY_TYPE_DELETE_SECRETS", timestampMs: String(Date.now()), organizationId, parameters: { secretIds } });
  await assert.rejects(remove([ids[0], ids[0]]), /secretIds/);
  const { activity } = await remove([ids[1], ids[0]]);
  assert.deepEqual(activity.result.deleteSecretsResult.secretIds, [ids[1], ids[0]]);
  await refused(5, "secret not found", () => exported([ids[0]]));
  assert.deepEqual(await exported([await imported("new", { name: "Rotated" })]), ["new"]);
});

test("which policies apply now, and what TVC has", async () => {
  const policy = async (time) => (await root.createPolicy({ policyName: `At ${time}`, effect: "EFFECT_DENY", condition: "activity.resource == 'NOTHING'", time, notes: "" })).policyId;
  const [past, now] = [await policy("time.now < Timestamp('2026-01-01T00:00:00Z')"), await policy("time.now > Timestamp('2026-01-01T00:00:00Z')")];
  const { statuses, evaluatedAtMs } = await root.http.getActivePolicies({ organizationId });
  const active = Object.fromEntries(statuses.map((s) => [s.policyId, s.active]));
  assert.deepEqual([active[past], active[now], Math.abs(Number(evaluatedAtMs) - Date.now()) < 3_600_000], [false, true, true]);
  for (const policyId of [past, now]) await root.deletePolicy({ policyId });
  assert.deepEqual((await root.http.getTvcOperators({ organizationId })).tvcOperators, []);
  assert.deepEqual((await root.http.getTvcQuorumKeys({ organizationId })).tvcQuorumKeys, []);
});

test("policies say who gets which, and to which key; a batch is as allowed as its least allowed secret", async () => {
  const prod = await imported("prod", { staticProperties: properties({ env: "prod" }) });
  const dev = await imported("dev", { staticProperties: properties({ env: "dev" }) });
  const none = await imported("none", {});
  const reader = await owned("Reader of dev");
  const to = generateP256KeyPair();
  await refused(7, "", () => exported([dev], reader.api));
  const mine = `approvers.any(u, u.id == '${reader.userId}')`;
  await root.createPolicy({ policyName: "dev to Reader", effect: "EFFECT_ALLOW", condition: "activity.resource == 'SECRET' && activity.action == 'EXPORT' && secret.static_properties['env'] == 'dev'", consensus: mine, notes: "" });
  assert.deepEqual(await exported([dev, dev], reader.api), ["dev", "dev"]);
  for (const batch of [[prod], [none], [dev, prod], [prod, dev], [dev, none, dev]]) await refused(7, "", () => exported(batch, reader.api));
  await root.createPolicy({ policyName: "prod to one key", effect: "EFFECT_ALLOW", condition: `activity.kind == 'EXPORT_SECRETS' && secret.static_properties['env'] == 'prod' && activity.params.target_public_key == '${to.publicKey}'`, consensus: mine, notes: "" });
  await refused(7, "", () => exported([prod], reader.api));
  const ask = (targets) => reader.api.exportSecrets({ secrets: targets.map(([secretId, targetPublicKey]) => ({ secretId, targetPublicKey, encryptionSuite })) });
  const { secretPayloads } = await ask([[dev, generateP256KeyPair().publicKey], [prod, to.publicKey]]);
  assert.equal(await decryptSecretBundle({ secretPayload: secretPayloads[1], embeddedPrivateKey: to.privateKey, organizationId, ...signer }), "prod");
  await refused(7, "", () => ask([[dev, to.publicKey], [prod, generateP256KeyPair().publicKeyUncompressed]]));
  const long = await ask([[prod, to.publicKeyUncompressed]]); // the same key
  assert.equal(await decryptSecretBundle({ secretPayload: long.secretPayloads[0], embeddedPrivateKey: to.privateKey, organizationId, ...signer }), "prod");
  await refused(5, "secret not found", () => ask([[credentials.rootUserId, to.publicKey]]));

  // Who may import what is for policies as well.
  const writer = await owned("Writer of dev");
  const { enclaveTargetMessages: [ingressTargetBundle] } = await root.initImportSecrets({ encryptionSuite, numSecrets: 1 });
  await refused(7, "", () => writer.api.initImportSecrets({ encryptionSuite, numSecrets: 1 }));
  const secret = { ...(await encryptSecretToBundle({ plaintext: "written", ingressTargetBundle, organizationId, ...signer })), encryptionSuite };
  await root.createPolicy({ policyName: "dev by Writer", effect: "EFFECT_ALLOW", condition: "activity.kind == 'IMPORT_SECRETS' && secret.static_properties['env'] == 'dev'", consensus: `approvers.any(u, u.id == '${writer.userId}')`, notes: "" });
  await refused(7, "", () => writer.api.importSecrets({ secrets: [{ ...secret, staticProperties: properties({ env: "prod" }) }] }));
  await refused(7, "", () => writer.api.importSecrets({ secrets: [secret] }));
  const { secretIds } = await writer.api.importSecrets({ secrets: [{ ...secret, staticProperties: properties({ env: "dev" }) }] });
  assert.deepEqual(await exported(secretIds, reader.api), ["written"]);
  await refused(7, "", () => exported(secretIds, writer.api));
});

test("targets that are left over end with this run of the enclave", async () => {
  [state.leftOver] = await encrypted(["left over"]);
  remember("secrets", state);
});
