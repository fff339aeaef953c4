// Who may do what, with the server SDK of today: organizations with root users that hold API keys and passkeys, policies that
// want several approvers, denials, the root quorum and changes to it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { generateP256KeyPair } from "@turnkey/crypto";
import { Turnkey, TurnkeyApiClient } from "@turnkey/sdk-server";
import { judge } from "./judge.mjs";
import { Passkey } from "./passkey.mjs";
import { accounts, credentials, payloads, refused, remember, send, settings } from "./setting.mjs";

// Activities that wait for votes are not polled for long.
const activityPoller = { intervalMs: 1, numRetries: 1 };
const root = new Turnkey(settings()).apiClient();
const newKey = (pair) => ({ apiKeyName: "key", publicKey: pair.publicKey, curveType: "API_KEY_CURVE_P256" });
const person = (userName, pair, authenticators = []) => ({ userName, apiKeys: pair ? [newKey(pair)] : [], authenticators, oauthProviders: [] });
const { COMPLETED, CONSENSUS_NEEDED, FAILED, REJECTED } = Object.fromEntries(
  ["COMPLETED", "CONSENSUS_NEEDED", "FAILED", "REJECTED"].map((s) => [s, `ACTIVITY_STATUS_${s}`]));
const signing = "activity.resource == 'PRIVATE_KEY' && activity.action == 'SIGN'";

function clientOf(organizationId, who) {
  if (who instanceof Passkey) {
    return new TurnkeyApiClient({ stamper: who, apiBaseUrl: credentials.apiUrl, organizationId, activityPoller });
  }
  return new Turnkey(settings({
    apiPublicKey: who.publicKey, apiPrivateKey: who.privateKey, defaultOrganizationId: organizationId, activityPoller,
  })).apiClient();
}

// An organization of three root users, of whom one is enough: two with API keys and one with a passkey alone. Three more
// users, and a wallet.
const pairs = Object.fromEntries(["owner", "second", "alice", "bob", "carol"].map((n) => [n, generateP256KeyPair()]));
const third = new Passkey();
let organizationId, owner, second, thirdClient, alice, bob, carol, ids, account;

test("an organization of three root users", async () => {
  const made = await root.createSubOrganization({
    subOrganizationName: "Voters", rootQuorumThreshold: 1,
    rootUsers: [person("owner", pairs.owner), person("second", pairs.second), person("third", null, [third.register("passkey")])],
    wallet: { walletName: "Shared", accounts },
  });
  organizationId = made.subOrganizationId;
  [owner, second, alice, bob, carol] = Object.values(pairs).map((pair) => clientOf(organizationId, pair));
  thirdClient = clientOf(organizationId, third);
  assert.equal((await thirdClient.getWhoami()).userId, made.rootUserIds[2]);
  const { userIds } = await owner.createUsers({ users: ["alice", "bob", "carol"].map((n) => ({ ...person(n, pairs[n]), userTags: [] })) });
  ids = Object.fromEntries(["owner", "second", "third", "alice", "bob", "carol"].map((n, i) => [n, [...made.rootUserIds, ...userIds][i]]));
  account = (await owner.getWalletAccounts({ walletId: made.wallet.walletId })).accounts[0];
});

const request = payloads("CURVE_SECP256K1")[0];
const sign = (client, over = {}) => client.signRawPayload({ signWith: account.address, ...request, ...over });

// The detail of a refusal by the policy engine.
async function denied(words, call) {
  let details;
  await assert.rejects(call, (error) => {
    assert.equal(error.code, 7, String(error));
    details = error.details.find((d) => d["@type"] === "type.googleapis.com/errors.v1.PolicyEnginePermissionError");
    assert.ok(details?.message.startsWith(words), JSON.stringify(error.details));
    // What clients of other languages look for, who show no details.
    const explicit = details.message.startsWith("The following policies denied this action: ");
    const said = error.message.split(" (Details:")[0];
    assert.equal(said, `Turnkey error 7: request not authorized: ${explicit ? "policy engine denied request explicitly" : "No policies evaluated to outcome: Allow"}`);
    return true;
  });
  return details.policyEvaluations;
}

test("without a policy a user signs nothing", async () => {
  await denied("No policies evaluated to outcome: Allow", () => sign(alice));
});

let allowing;

test("two approvers", async () => {
  const consensus = `approvers.any(u, u.id == '${ids.alice}') && approvers.any(u, u.id == '${ids.bob}')`;
  const made = await owner.createPolicy({ policyName: "Alice and Bob sign", effect: "EFFECT_ALLOW", consensus, condition: signing, notes: "" });
  allowing = made.policyId;
  await refused(3, "unique", () =>
    owner.createPolicy({ policyName: "Alice and Bob sign", effect: "EFFECT_ALLOW", consensus: "true", condition: "true", notes: "" }));
  await refused(3, "invalid policy condition", () =>
    owner.createPolicy({ policyName: "Wrong", effect: "EFFECT_ALLOW", condition: "activity.kindness == 'SIGN'", notes: "" }));

  const stamped = await alice.stampSignRawPayload({ signWith: account.address, ...request });
  const first = (await send(stamped)).body.activity;
  assert.equal(first.status, CONSENSUS_NEEDED);
  assert.deepEqual([first.canApprove, first.canReject, first.votes.length], [false, true, 1]);
  const { fingerprint } = first;
  await refused(7, "", () => carol.approveActivity({ fingerprint }));
  assert.equal((await alice.approveActivity({ fingerprint })).activity.status, CONSENSUS_NEEDED);
  const seen = (await bob.getActivity({ activityId: first.id })).activity;
  assert.deepEqual([seen.canApprove, seen.canReject], [true, true]);

  const { activity } = await bob.approveActivity({ fingerprint });
  assert.deepEqual([activity.id, activity.status], [first.id, COMPLETED]);
  judge(account.curve, account.publicKey, request, activity.result.signRawPayloadResult);
  assert.deepEqual(activity.votes.map((v) => [v.userId, v.selection]),
    [[ids.alice, "VOTE_SELECTION_APPROVED"], [ids.bob, "VOTE_SELECTION_APPROVED"]]);
  assert.equal(JSON.parse(activity.votes[1].message).parameters.fingerprint, fingerprint);

  // The same bytes again, also from Bob: the same activity with the same signature.
  for (const client of [alice, bob]) {
    const again = await send({ ...stamped, stamp: await client.stamper.stamp(stamped.body) });
    assert.deepEqual([again.status, again.body.activity.id], [200, first.id]);
    assert.deepEqual(again.body.activity.result, activity.result);
    assert.equal(again.body.activity.votes.length, 2);
  }
  await refused(9, "", () => bob.approveActivity({ fingerprint }));
  await refused(5, "No activity found with fingerprint", () => bob.approveActivity({ fingerprint: "sha256:" + "00".repeat(32) }));
});

test("who sends the same request approves it", async () => {
  const stamped = await alice.stampSignRawPayload({ signWith: account.address, ...request });
  const by = async (client) => (await send({ ...stamped, stamp: await client.stamper.stamp(stamped.body) })).body.activity;
  const first = (await send(stamped)).body.activity;
  assert.deepEqual([first.status, (await by(alice)).votes.length, (await by(carol)).votes.length], [CONSENSUS_NEEDED, 1, 1]);
  const done = await by(bob);
  assert.deepEqual([done.id, done.status], [first.id, COMPLETED]);
  assert.deepEqual(done.votes.map((v) => [v.userId, v.message]), [[ids.alice, stamped.body], [ids.bob, stamped.body]]);
  judge(account.curve, account.publicKey, request, done.result.signRawPayloadResult);
});

test("one who is needed rejects, a root user overrides, the initiator takes back", async () => {
  const first = (await sign(alice)).activity;
  assert.equal((await bob.rejectActivity({ fingerprint: first.fingerprint })).activity.status, CONSENSUS_NEEDED);
  assert.equal((await bob.approveActivity({ fingerprint: first.fingerprint })).activity.status, CONSENSUS_NEEDED);
  const overridden = (await owner.approveActivity({ fingerprint: first.fingerprint })).activity;
  assert.equal(overridden.status, COMPLETED);
  judge(account.curve, account.publicKey, request, overridden.result.signRawPayloadResult);

  const { fingerprint } = (await sign(alice)).activity;
  assert.equal((await alice.rejectActivity({ fingerprint })).activity.status, REJECTED);
  await refused(9, "", () => bob.approveActivity({ fingerprint }));
});

test("deny beats allow", async () => {
  const { policyId } = await owner.createPolicy({
    policyName: "No text", effect: "EFFECT_DENY", condition: "activity.params.encoding == 'PAYLOAD_ENCODING_TEXT_UTF8'", notes: "",
  });
  const stamped = await alice.stampSignRawPayload({ signWith: account.address, payload: "text", encoding: "PAYLOAD_ENCODING_TEXT_UTF8",
    hashFunction: "HASH_FUNCTION_SHA256" });
  const [first, again] = [await send(stamped), await send(stamped)];
  assert.equal(first.status, 403);
  assert.deepEqual(again, first);
  const evaluations = await denied("The following policies denied this action: " + policyId, () =>
    sign(alice, { payload: "other text", encoding: "PAYLOAD_ENCODING_TEXT_UTF8" }));
  assert.ok(evaluations.some((e) => e.policyId === policyId && e.outcome === "OUTCOME_DENY_EXPLICIT"));
  const failed = (await owner.getActivities({ filterByStatus: [FAILED], paginationOptions: { limit: "100" } })).activities;
  assert.equal(failed.filter((a) => a.intent.signRawPayloadIntentV2?.payload === "text").length, 1);
  assert.equal((await sign(alice)).activity.status, CONSENSUS_NEEDED);
  await sign(owner, { payload: "text", encoding: "PAYLOAD_ENCODING_TEXT_UTF8" }); // the root quorum asks no policy
  await owner.deletePolicy({ policyId });
  assert.deepEqual((await owner.getPolicies()).policies.map((p) => p.policyId), [allowing]);
});

test("two of three change the root quorum", async () => {
  const all = [ids.owner, ids.second, ids.third];
  await refused(3, "", () => owner.updateRootQuorum({ threshold: 0, userIds: all }));
  await refused(3, "", () => owner.updateRootQuorum({ threshold: 4, userIds: all }));
  await refused(3, "", () => owner.updateRootQuorum({ threshold: 1, userIds: [] }));
  assert.equal((await owner.updateRootQuorum({ threshold: 2, userIds: all })).activity.status, COMPLETED);
  await denied("", () => alice.updateRootQuorum({ threshold: 1, userIds: [ids.alice] }));

  const { activity } = await owner.updateRootQuorum({ threshold: 2, userIds: [ids.owner, ids.third] });
  assert.equal(activity.status, CONSENSUS_NEEDED);
  await refused(7, "", () => alice.approveActivity({ fingerprint: activity.fingerprint }));
  assert.equal((await second.rejectActivity({ fingerprint: activity.fingerprint })).activity.status, CONSENSUS_NEEDED);
  assert.equal((await thirdClient.approveActivity({ fingerprint: activity.fingerprint })).activity.status, COMPLETED);
  const { quorum } = (await owner.getOrganizationConfigs({ organizationId })).configs;
  assert.deepEqual([quorum.threshold, quorum.userIds], [2, [ids.owner, ids.third]]);

  // A member below the threshold waits for the other, whose no ends it; one who was a member is none any more.
  const waiting = (await owner.updateUserName({ userId: ids.alice, userName: "Alice" })).activity;
  assert.equal(waiting.status, CONSENSUS_NEEDED);
  assert.equal((await thirdClient.rejectActivity({ fingerprint: waiting.fingerprint })).activity.status, REJECTED);
  await denied("", () => sign(second));
});

test("who is in the root quorum cannot be removed, nor can the last user", async () => {
  const pair = generateP256KeyPair();
  const made = await root.createSubOrganization({ subOrganizationName: "One", rootQuorumThreshold: 1, rootUsers: [person("only", pair)] });
  const only = clientOf(made.subOrganizationId, pair);
  await refused(3, "", () => only.deleteUsers({ userIds: made.rootUserIds }));
  const key = (await only.getApiKeys({ userId: made.rootUserIds[0] })).apiKeys[0].apiKeyId;
  await refused(3, "", () => only.deleteApiKeys({ userId: made.rootUserIds[0], apiKeyIds: [key] }));
  await refused(3, "", () => only.updateRootQuorum({ threshold: 1, userIds: [ids.owner] }));
  assert.equal((await only.getWhoami()).userId, made.rootUserIds[0]);

  // With the other member's vote it is carried out, and fails.
  const { activity } = await owner.deleteUsers({ userIds: [ids.third] });
  assert.equal(activity.status, CONSENSUS_NEEDED);
  const voted = (await thirdClient.approveActivity({ fingerprint: activity.fingerprint })).activity;
  assert.equal(voted.status, FAILED);
  assert.equal(voted.failure.code, 3);
});

test("sub-organizations of every version, with root users of API keys and passkeys", async () => {
  const wallet = { walletName: "First", accounts: [accounts[0]] };
  const old = (pair) => ({ apiKeyName: "key", publicKey: pair.publicKey });
  for (let version = 1; version <= 8; version++) {
    const [pair, passkey] = [generateP256KeyPair(), new Passkey()];
    const authenticators = [passkey.register("passkey")];
    const user = { userName: "owner", apiKeys: [version < 6 ? old(pair) : newKey(pair)], authenticators };
    if (version >= 5) user.oauthProviders = [];
    const name = `Version ${version}`;
    let parameters = { subOrganizationName: name, rootUsers: [user], rootQuorumThreshold: 1 };
    if (version === 1) parameters = { name, rootAuthenticator: authenticators[0] };
    if (version === 3) parameters.privateKeys = [];
    if (version >= 4) parameters.wallet = wallet;
    const suffix = version === 1 ? "" : `_V${version}`;
    const { activity } = await root.request("/public/v1/submit/create_sub_organization", {
      type: `ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION${suffix}`, timestampMs: String(Date.now()), organizationId: credentials.organizationId, parameters,
    });
    assert.equal(activity.status, COMPLETED);
    const [result] = Object.values(activity.result);
    const id = result.subOrganizationId;
    const clients = [clientOf(id, passkey), ...(version === 1 ? [] : [clientOf(id, pair)])];
    for (const client of clients) {
      const who = await client.getWhoami();
      assert.deepEqual([who.organizationId, who.organizationName], [id, name]);
      assert.equal(who.userId, (await client.getUsers()).users[0].userId);
    }
    assert.equal((await clients[0].getWallets()).wallets.length, version >= 4 ? 1 : 0);
    await refused(16, "", () => clientOf(id, new Passkey()).getWhoami());
  }
});

test("what waits for votes is remembered for the second half", async () => {
  const stamped = await alice.stampSignRawPayload({ signWith: account.address, ...request });
  const { activity } = (await send(stamped)).body;
  assert.equal(activity.status, CONSENSUS_NEEDED);
  remember("votes", { organizationId, pairs, third: third.keep(), ids, account, request, activity });
});
