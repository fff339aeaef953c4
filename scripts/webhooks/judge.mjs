// The published verifier on every webhook that came: node judge.mjs DIR, with the webhooks and the key set that the command
// of this folder has written. Each is verified as of when it came; once changed, none of them is believed.
import assert from "node:assert/strict";
import { createReadStream, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { verifyTurnkeyWebhookSignature } from "@turnkey/crypto";

const dir = process.argv[2];
const verificationKeys = JSON.parse(readFileSync(join(dir, "jwks.json"), "utf8")).keys.map((k) => {
  assert.equal(k.kty + k.crv + k.alg + k.use, "OKPEd25519EdDSAsig");
  return { keyId: k.kid, publicKey: Buffer.from(k.x, "base64url").toString("hex"), algorithm: k.turnkey_signature_algorithm };
});
const maxTimestampAgeMs = 60_000;
const receivers = new Map();
let n = 0;
for await (const line of createInterface({ input: createReadStream(join(dir, "webhooks.jsonl")) })) {
  const { receiver, receivedMs, headers, body } = JSON.parse(line);
  const ask = { headers, body: Buffer.from(body), verificationKeys, maxTimestampAgeMs, nowMs: receivedMs };
  const got = verifyTurnkeyWebhookSignature(ask);
  assert.equal(got.ok, true, JSON.stringify(got));
  assert.equal(got.eventId, headers["X-Turnkey-Event-Id"]);
  const activity = JSON.parse(body);
  assert.equal(headers["X-Turnkey-Organization-Id"], activity.organizationId);
  assert.ok(activity.id && activity.type && activity.status && activity.votes.length > 0 && activity.fingerprint);
  if (n++ % 100 === 0) {
    assert.equal(verifyTurnkeyWebhookSignature({ ...ask, body: Buffer.from(body + " ") }).reason, "invalid_signature");
    assert.equal(verifyTurnkeyWebhookSignature({ ...ask, nowMs: receivedMs + 120_000 }).reason, "stale_timestamp");
    assert.equal(verifyTurnkeyWebhookSignature({ ...ask, headers: { ...headers, "X-Turnkey-Event-Id": "another" } }).reason, "invalid_signature");
  }
  if (!receivers.has(receiver)) receivers.set(receiver, new Set());
  receivers.get(receiver).add(got.eventId);
}
let events = 0;
for (const ids of receivers.values()) events += ids.size;
console.log(`ok  ${n} webhooks of ${events} events at ${receivers.size} receivers, each believed by the published verifier`);
