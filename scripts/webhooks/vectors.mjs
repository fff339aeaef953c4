// The outcomes of the vectors are those of the published verifier: node vectors.mjs FILE.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { verifyTurnkeyWebhookSignature } from "@turnkey/crypto";

const { vectors } = JSON.parse(readFileSync(process.argv[2], "utf8"));
for (const v of vectors) {
  const got = verifyTurnkeyWebhookSignature({
    headers: v.headers, body: v.body, verificationKeys: v.verification_keys, maxTimestampAgeMs: v.max_timestamp_age_ms, nowMs: v.now_ms,
  });
  assert.deepEqual(got, v.result, v.name);
}
console.log(`ok  ${vectors.length} vectors`);
