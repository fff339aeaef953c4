// The server SDK of today against the simulator: everything of the interface that it can make is made, signed and judged.
import assert from "node:assert/strict";
import { test } from "node:test";
import { computeActivityFingerprint, generateP256KeyPair } from "@turnkey/crypto";
import { Turnkey } from "@turnkey/sdk-server";
import { address, judge, signedBytes } from "./judge.mjs";
import { accounts, credentials, payloads, proofsHold, refused, remember, send, settings } from "./setting.mjs";
import { bytesToHex } from "@noble/hashes/utils";

const root = new Turnkey(settings()).apiClient();
const keyOf = (pair) => ({ apiPublicKey: pair.publicKey, apiPrivateKey: pair.privateKey });
const newKey = (name, pair) => ({ apiKeyName: name, publicKey: pair.publicKey, curveType: "API_KEY_CURVE_P256" });
const state = {};
let walletId;
let made; // the accounts as listed, with their public keys
let userId;

test("whoami and the organization", async () => {
  const who = await root.getWhoami();
  assert.equal(who.organizationId, credentials.organizationId);
  assert.equal(who.userId, credentials.rootUserId);
  const { configs } = await root.getOrganizationConfigs({ organizationId: credentials.organizationId });
  assert.equal(configs.quorum.threshold, 1);
  assert.deepEqual(configs.quorum.userIds, [credentials.rootUserId]);
  const { user } = await root.getUser({ userId: who.userId });
  const lasting = user.apiKeys.filter((k) => !k.expirationSeconds); // the others are of sessions
  assert.deepEqual(lasting.map((k) => k.credential.publicKey), [credentials.rootApiKey.publicKey]);
});

test("a wallet with accounts on three curves, with proofs of its addresses", async () => {
  const answer = await root.createWallet({ walletName: "First", accounts, mnemonicLength: 24, generateAppProofs: true });
  assert.equal(answer.activity.status, "ACTIVITY_STATUS_COMPLETED");
  assert.equal(answer.addresses.length, accounts.length);
  walletId = answer.walletId;

  made = (await root.getWalletAccounts({ walletId })).accounts;
  assert.deepEqual(made.map((a) => a.address), answer.addresses);
  for (const [i, a] of made.entries()) {
    assert.deepEqual([a.curve, a.addressFormat, a.path], [accounts[i].curve, accounts[i].addressFormat, accounts[i].path]);
    assert.equal(address(a.addressFormat, a.curve, a.publicKey), a.address);
    const one = await root.getWalletAccount({ walletId, address: a.address });
    assert.equal(one.account.walletAccountId, a.walletAccountId);
  }

  const claims = await proofsHold(root, answer.activity, answer.activity.appProofs, "-address", made[0].address);
  const stated = claims.map((c) => c.addressDerivationProof?.address).filter(Boolean);
  assert.deepEqual([...stated].sort(), made.map((a) => a.address).sort());

  const listed = await root.getAppProofs({ activityId: answer.activity.id });
  assert.deepEqual(listed.appProofs, answer.activity.appProofs);
  const latest = await root.getLatestBootProof({ appName: "cloister" });
  assert.equal(latest.bootProof.ephemeralPublicKeyHex, listed.appProofs[0].publicKey);
  Object.assign(state, { walletId, accounts: made, walletActivity: answer.activity });
});

test("more accounts, kept and not kept", async () => {
  const more = [{ ...accounts[0], path: "m/44'/60'/7'/0/0" }];
  const kept = await root.createWalletAccounts({ walletId, accounts: more });
  const again = await root.createWalletAccounts({ walletId, accounts: [{ ...accounts[0], path: "m/44'/60'/8'/0/0" }], persist: false });
  const listed = (await root.getWalletAccounts({ walletId, paginationOptions: { limit: "100" } })).accounts.map((a) => a.address);
  assert.ok(listed.includes(kept.addresses[0]));
  assert.ok(!listed.includes(again.addresses[0]));
  await refused(5, again.addresses[0], () =>
    root.signRawPayload({ signWith: again.addresses[0], ...payloads("CURVE_SECP256K1")[0] }));
});

test("signatures of every curve, encoding and hash function, one by one and together", async () => {
  let judged = 0;
  for (const account of made) {
    const groups = new Map();
    for (const request of payloads(account.curve)) {
      const signature = await root.signRawPayload({ signWith: account.address, ...request });
      judge(account.curve, account.publicKey, request, signature);
      judged++;
      const group = `${request.encoding} ${request.hashFunction}`;
      groups.set(group, [...(groups.get(group) ?? []), request]);
    }
    for (const requests of groups.values()) {
      const { encoding, hashFunction } = requests[0];
      const { signatures } = await root.signRawPayloads({
        signWith: account.address, encoding, hashFunction, payloads: requests.map((r) => r.payload),
      });
      assert.equal(signatures.length, requests.length);
      requests.forEach((request, i) => judge(account.curve, account.publicKey, request, signatures[i]));
      judged += signatures.length;
    }
  }
  console.log(`${judged} signatures judged`);
});

test("a signature with its proof", async () => {
  const request = payloads("CURVE_SECP256K1")[0];
  const { activity, ...signature } = await root.signRawPayload({
    signWith: made[0].address, ...request, generateAppProofs: true,
  });
  judge(made[0].curve, made[0].publicKey, request, signature);
  const digest = bytesToHex(signedBytes(request));
  const claims = await proofsHold(root, activity, activity.appProofs, "-type", "APP_PROOF_TYPE_SIGNATURE", "-digest", digest);
  const { signatureProof } = claims.find((c) => c.type === "APP_PROOF_TYPE_SIGNATURE");
  assert.equal(signatureProof.activityId, activity.id);
  assert.equal(signatureProof.fingerprint, activity.fingerprint);
  assert.deepEqual(signatureProof.digests, [digest]);
  assert.ok(claims.some((c) => c.policyOutcomeProof?.outcome === "OUTCOME_ALLOW"));
  state.signed = { activity, request };
});

test("private keys of three curves sign by id and by address", async () => {
  const wanted = [
    ["CURVE_SECP256K1", ["ADDRESS_FORMAT_ETHEREUM", "ADDRESS_FORMAT_COMPRESSED"]],
    ["CURVE_P256", ["ADDRESS_FORMAT_COMPRESSED"]],
    ["CURVE_ED25519", ["ADDRESS_FORMAT_SOLANA"]],
  ];
  const { privateKeys } = await root.createPrivateKeys({
    privateKeys: wanted.map(([curve, addressFormats]) => ({
      privateKeyName: `key of ${curve}`, curve, addressFormats, privateKeyTags: [],
    })),
  });
  for (const [i, [curve, formats]] of wanted.entries()) {
    const { privateKey } = await root.getPrivateKey({ privateKeyId: privateKeys[i].privateKeyId });
    assert.equal(privateKey.curve, curve);
    assert.deepEqual(privateKeys[i].addresses.map((a) => a.format), formats);
    for (const a of privateKeys[i].addresses) {
      assert.equal(address(a.format, curve, privateKey.publicKey), a.address);
    }
    for (const signWith of [privateKeys[i].privateKeyId, ...privateKeys[i].addresses.map((a) => a.address)]) {
      const request = payloads(curve)[0];
      judge(curve, privateKey.publicKey, request, await root.signRawPayload({ signWith, ...request }));
    }
  }
  const listed = (await root.getPrivateKeys()).privateKeys.map((k) => k.privateKeyId);
  assert.ok(privateKeys.every((k) => listed.includes(k.privateKeyId)));
  state.privateKeyIds = privateKeys.map((k) => k.privateKeyId);
});

test("users, their names and their API keys", async () => {
  const pair = generateP256KeyPair();
  const { userIds } = await root.createUsers({
    users: [{ userName: "Second", apiKeys: [newKey("first key", pair)], authenticators: [], oauthProviders: [], userTags: [] }],
  });
  userId = userIds[0];
  await root.updateUserName({ userId, userName: "Renamed" });
  const { user } = await root.getUser({ userId });
  assert.equal(user.userName, "Renamed");
  const users = (await root.getUsers()).users.map((u) => u.userId);
  assert.ok(users.includes(userId) && users.includes(credentials.rootUserId));

  const second = new Turnkey(settings(keyOf(pair))).apiClient();
  assert.equal((await second.getWhoami()).userId, userId);
  // No policy speaks for this user: reading is allowed, signing is not.
  assert.equal((await second.getWallet({ walletId })).wallet.walletId, walletId);
  await refused(7, "", () => second.signRawPayload({ signWith: made[0].address, ...payloads("CURVE_SECP256K1")[0] }));

  const extra = generateP256KeyPair();
  const { apiKeyIds } = await root.createApiKeys({ userId, apiKeys: [newKey("second key", extra)] });
  const third = new Turnkey(settings(keyOf(extra))).apiClient();
  assert.equal((await third.getWhoami()).userId, userId);
  assert.equal((await root.getApiKey({ apiKeyId: apiKeyIds[0] })).apiKey.credential.publicKey, extra.publicKey);
  assert.equal((await root.getApiKeys({ userId })).apiKeys.length, 2);
  await root.deleteApiKeys({ userId, apiKeyIds });
  await refused(16, "", () => third.getWhoami());
  assert.equal((await root.getApiKeys({ userId })).apiKeys.length, 1);
  state.user = { userId, key: keyOf(pair) };
});

test("a sub-organization of its own root user, with a wallet", async () => {
  const pair = generateP256KeyPair();
  const created = await root.createSubOrganization({
    subOrganizationName: "Below",
    rootUsers: [{ userName: "Owner", apiKeys: [newKey("owner", pair)], authenticators: [], oauthProviders: [] }],
    rootQuorumThreshold: 1,
    wallet: { walletName: "Owner's", accounts },
  });
  const { subOrganizationId, wallet } = created;
  assert.equal(wallet.addresses.length, accounts.length);
  const owner = new Turnkey(settings({ ...keyOf(pair), defaultOrganizationId: subOrganizationId })).apiClient();
  assert.equal((await owner.getWhoami()).organizationId, subOrganizationId);
  const request = payloads("CURVE_SECP256K1")[1];
  const [first] = (await owner.getWalletAccounts({ walletId: wallet.walletId })).accounts;
  judge(first.curve, first.publicKey, request, await owner.signRawPayload({ signWith: first.address, ...request }));

  // The parent reads what is below it and writes none of it.
  assert.equal((await root.getWallets({ organizationId: subOrganizationId })).wallets.length, 1);
  await refused(3, "", () =>
    root.signRawPayload({ organizationId: subOrganizationId, signWith: first.address, ...request }));
  // The child reads nothing above it.
  await refused(16, "", () => owner.getWallets({ organizationId: credentials.organizationId }));
  state.below = { organizationId: subOrganizationId, key: keyOf(pair), account: first };
});

test("wallets are renamed and deleted", async () => {
  const { walletId: other } = await root.createWallet({ walletName: "Passing", accounts: [accounts[0]] });
  await root.updateWallet({ walletId: other, walletName: "Gone soon" });
  assert.equal((await root.getWallet({ walletId: other })).wallet.walletName, "Gone soon");
  await refused(3, "", () => root.deleteWallets({ walletIds: [other] }));
  await root.deleteWallets({ walletIds: [other], deleteWithoutExport: true });
  assert.ok(!(await root.getWallets()).wallets.some((w) => w.walletId === other));
  await refused(5, other, () => root.getWallet({ walletId: other }));
});

test("the same bytes again are the same activity, and other bytes another", async () => {
  const request = await root.stampCreateWallet({ walletName: "Once", accounts: [accounts[0]], timestampMs: String(Date.now()) });
  const [first, ...rest] = await Promise.all([1, 2, 3, 4].map(() => send(request)));
  assert.equal(first.status, 200);
  assert.equal(first.body.activity.fingerprint, computeActivityFingerprint(request.body));
  for (const answer of rest) assert.deepEqual(answer.body, first.body);
  assert.equal((await root.getWallets()).wallets.filter((w) => w.walletName === "Once").length, 1);
  await refused(3, "unique", () => root.createWallet({ walletName: "Once", accounts: [accounts[0]] }));
  state.once = { request, activityId: first.body.activity.id };
});

test("activities are found, filtered and paged", async () => {
  const { activity } = await root.getActivity({ activityId: state.signed.activity.id });
  assert.deepEqual(activity, state.signed.activity);
  const [vote] = activity.votes;
  assert.equal(vote.userId, credentials.rootUserId);
  assert.equal(computeActivityFingerprint(vote.message), activity.fingerprint);

  const all = [];
  for (let before; ; ) {
    const page = (await root.getActivities({ paginationOptions: { limit: "7", ...(before && { before }) } })).activities;
    all.push(...page.map((a) => a.id));
    if (page.length < 7) break;
    before = page.at(-1).id;
  }
  assert.equal(new Set(all).size, all.length);
  assert.ok(all.indexOf(state.once.activityId) < all.indexOf(state.walletActivity.id), "newest first");
  const wallets = (await root.getActivities({
    filterByType: ["ACTIVITY_TYPE_CREATE_WALLET"], filterByStatus: ["ACTIVITY_STATUS_COMPLETED"], paginationOptions: { limit: "100" },
  })).activities;
  assert.ok(wallets.some((a) => a.id === state.walletActivity.id));
  assert.ok(wallets.every((a) => a.type === "ACTIVITY_TYPE_CREATE_WALLET" && a.status === "ACTIVITY_STATUS_COMPLETED"));
  state.activityIds = all;
});

test("what is refused, and how", async () => {
  const [secp, p256, ed] = ["CURVE_SECP256K1", "CURVE_P256", "CURVE_ED25519"].map((c) => made.find((a) => a.curve === c));
  const hex = { encoding: "PAYLOAD_ENCODING_HEXADECIMAL" };
  const sign = (signWith, over) => () =>
    root.signRawPayload({ signWith, ...hex, payload: "00", hashFunction: "HASH_FUNCTION_SHA256", ...over });
  await refused(5, "", sign("0x0000000000000000000000000000000000000001"));
  await refused(5, "", sign("5c5d7e14-0d2d-4a0a-9d5e-2f9c2a3a8a11"));
  await refused(3, "", sign(secp.address, { payload: "0" }));
  await refused(3, "", sign(secp.address, { payload: "zz" }));
  for (const account of [secp, p256]) {
    await refused(3, "", sign(account.address, { hashFunction: "HASH_FUNCTION_NOT_APPLICABLE" }));
    await refused(3, "expected a 32-bytes-long digest", sign(account.address, { payload: "ab".repeat(31), hashFunction: "HASH_FUNCTION_NO_OP" }));
  }
  await refused(3, "", sign(ed.address));
  await refused(3, "", sign(secp.address, { surprise: true }));
  await refused(3, "", sign(secp.address, { timestampMs: String(Date.now() - 2 * 3600_000) }));

  await refused(16, "", () => new Turnkey(settings(keyOf(generateP256KeyPair()))).apiClient().getWhoami());

  const moved = await root.stampGetWhoami({});
  const unserved = await send({ ...moved, url: moved.url.replace("whoami", "get_swap_status") });
  assert.deepEqual([unserved.status, unserved.body.code], [501, 12]);
  const altered = await send({ ...moved, body: moved.body.replace("{", "{ ") });
  assert.equal(altered.status, 401);
  assert.equal(altered.body.code, 16);
});

test("all of it is remembered for the second half", () => {
  assert.ok(state.activityIds.length > 50);
  remember("today", state);
});
