// After every process was killed with -9 and started again: what was answered before is there, reads the same and signs.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Turnkey } from "@turnkey/sdk-server";
import { address, judge } from "./judge.mjs";
import { accounts, credentials, payloads, proofsHold, recall, refused, send, settings } from "./setting.mjs";

const root = new Turnkey(settings()).apiClient();
const state = recall("today");

test("wallets, accounts, keys and users are there", async () => {
  assert.equal((await root.getWhoami()).userId, credentials.rootUserId);
  assert.equal((await root.getWallet({ walletId: state.walletId })).wallet.walletName, "First");
  const listed = (await root.getWalletAccounts({ walletId: state.walletId, paginationOptions: { limit: "100" } })).accounts;
  assert.deepEqual(listed.slice(0, state.accounts.length), state.accounts);
  const keys = (await root.getPrivateKeys()).privateKeys.map((k) => k.privateKeyId);
  assert.deepEqual(state.privateKeyIds.filter((id) => !keys.includes(id)), []);
  assert.equal((await root.getUser({ userId: state.user.userId })).user.userName, "Renamed");
});

test("every activity that was listed is listed, and one reads as it was answered", async () => {
  const all = [];
  for (let before; ; ) {
    const page = (await root.getActivities({ paginationOptions: { limit: "100", ...(before && { before }) } })).activities;
    all.push(...page.map((a) => a.id));
    if (page.length < 100) break;
    before = page.at(-1).id;
  }
  assert.deepEqual(state.activityIds.filter((id) => !all.includes(id)), []);
  const { activity } = await root.getActivity({ activityId: state.signed.activity.id });
  // The voter is shown as the user is now, with the API keys that came since.
  const withoutUser = (a) => ({ ...a, votes: a.votes.map(({ user, ...vote }) => vote) });
  assert.deepEqual(withoutUser(activity), withoutUser(state.signed.activity));
});

test("bytes sent before the kill are the same activity after it", async () => {
  const answer = await send(state.once.request);
  assert.equal(answer.status, 200);
  assert.equal(answer.body.activity.id, state.once.activityId);
  assert.equal((await root.getWallets()).wallets.filter((w) => w.walletName === "Once").length, 1);
});

test("every account signs again, also below", async () => {
  for (const account of state.accounts) {
    const request = payloads(account.curve)[0];
    judge(account.curve, account.publicKey, request, await root.signRawPayload({ signWith: account.address, ...request }));
  }
  const { organizationId, key, account } = state.below;
  const owner = new Turnkey(settings({ ...key, defaultOrganizationId: organizationId })).apiClient();
  const request = payloads(account.curve)[2];
  judge(account.curve, account.publicKey, request, await owner.signRawPayload({ signWith: account.address, ...request }));
});

test("proofs of the boot before still hold, and new ones name a new key", async () => {
  const { appProofs } = await root.getAppProofs({ activityId: state.signed.activity.id });
  assert.deepEqual(appProofs, state.signed.activity.appProofs);
  await proofsHold(root, state.signed.activity, appProofs);
  const { activity } = await root.createWallet({ walletName: "Second boot", accounts: [accounts[0]], generateAppProofs: true });
  await proofsHold(root, activity, activity.appProofs);
  assert.notEqual(activity.appProofs[0].publicKey, appProofs[0].publicKey);
});

test("what was refused is refused", async () => {
  const second = new Turnkey(settings(state.user.key)).apiClient();
  assert.equal((await second.getWhoami()).userId, state.user.userId);
  await refused(7, "", () => second.signRawPayload({ signWith: state.accounts[0].address, ...payloads("CURVE_SECP256K1")[0] }));
});
