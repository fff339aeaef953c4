// After every process was killed with -9 and started again: what waited for votes still waits, and the votes that are missing
// complete it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Turnkey, TurnkeyApiClient } from "@turnkey/sdk-server";
import { judge } from "./judge.mjs";
import { Passkey } from "./passkey.mjs";
import { credentials, recall, refused, settings } from "./setting.mjs";

const { organizationId, pairs, third, ids, account, request, activity } = recall("votes");
const clientOf = (pair) => new Turnkey(settings({
  apiPublicKey: pair.publicKey, apiPrivateKey: pair.privateKey, defaultOrganizationId: organizationId, activityPoller: { intervalMs: 1, numRetries: 1 },
})).apiClient();

test("a passkey is let in, and the root quorum is as it was changed", async () => {
  const client = new TurnkeyApiClient({ stamper: new Passkey(third), apiBaseUrl: credentials.apiUrl, organizationId });
  assert.equal((await client.getWhoami()).userId, ids.third);
  const { quorum } = (await client.getOrganizationConfigs({ organizationId })).configs;
  assert.deepEqual([quorum.threshold, quorum.userIds], [2, [ids.owner, ids.third]]);
});

test("what waited for a vote gets it", async () => {
  const bob = clientOf(pairs.bob);
  const waiting = (await bob.getActivity({ activityId: activity.id })).activity;
  assert.deepEqual([waiting.status, waiting.votes.length, waiting.canApprove], ["ACTIVITY_STATUS_CONSENSUS_NEEDED", 1, true]);
  await refused(7, "", () => clientOf(pairs.carol).approveActivity({ fingerprint: activity.fingerprint }));
  const done = (await bob.approveActivity({ fingerprint: activity.fingerprint })).activity;
  assert.deepEqual([done.id, done.status], [activity.id, "ACTIVITY_STATUS_COMPLETED"]);
  judge(account.curve, account.publicKey, request, done.result.signRawPayloadResult);
});
