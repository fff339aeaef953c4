// The server SDK of an earlier generation, which sends older versions of the same activities.
import assert from "node:assert/strict";
import { test } from "node:test";
import { generateP256KeyPair } from "@turnkey/crypto";
import { Turnkey } from "sdk-server-spec";
import { judge } from "./judge.mjs";
import { accounts, payloads, settings } from "./setting.mjs";

const root = new Turnkey(settings()).apiClient();
const credential = (pair) => ({ apiKeyName: "key", publicKey: pair.publicKey, curveType: "API_KEY_CURVE_P256" });

test("version 3 of create_users", async () => {
  const answer = await root.createUsers({
    users: [{ userName: "Earlier", apiKeys: [credential(generateP256KeyPair())], authenticators: [], oauthProviders: [], userTags: [] }],
  });
  assert.equal(answer.activity.type, "ACTIVITY_TYPE_CREATE_USERS_V3");
  assert.equal((await root.getUser({ userId: answer.userIds[0] })).user.userName, "Earlier");
});

test("version 7 of create_sub_organization, and signing in it", async () => {
  const pair = generateP256KeyPair();
  const answer = await root.createSubOrganization({
    subOrganizationName: "Earlier below",
    rootUsers: [{ userName: "Owner", apiKeys: [credential(pair)], authenticators: [], oauthProviders: [] }],
    rootQuorumThreshold: 1,
    wallet: { walletName: "Owner's", accounts },
  });
  assert.equal(answer.activity.type, "ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V7");
  const owner = new Turnkey(settings({
    apiPublicKey: pair.publicKey, apiPrivateKey: pair.privateKey, defaultOrganizationId: answer.subOrganizationId,
  })).apiClient();
  const { accounts: made } = await owner.getWalletAccounts({ walletId: answer.wallet.walletId });
  for (const account of made) {
    for (const request of payloads(account.curve)) {
      judge(account.curve, account.publicKey, request, await owner.signRawPayload({ signWith: account.address, ...request }));
    }
  }
});
