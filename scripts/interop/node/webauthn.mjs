// @simplewebauthn/server judges passkeys: registrations and assertions, good and altered, that a test of
// enclave/internal/webauthn wrote to a file with the enclave's verdicts. Both must say the same, except where a case says why
// others may say otherwise.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { verifyAuthenticationResponse, verifyRegistrationResponse } from "@simplewebauthn/server";

const cases = JSON.parse(readFileSync(process.env.CLOISTER_WEBAUTHN_CASES, "utf8"));
const bytes = (text) => new Uint8Array(Buffer.from(text, "base64url"));

// judge answers whether the library accepts, and why not.
async function judge(c) {
  const response = { id: c.credentialId, rawId: c.credentialId, type: "public-key", clientExtensionResults: {} };
  const expected = { expectedChallenge: c.challenge, expectedOrigin: c.origins, expectedRPID: c.rpId, requireUserVerification: false };
  try {
    if (c.kind === "registration") {
      response.response = { clientDataJSON: c.clientDataJson, attestationObject: c.attestationObject };
      const { verified } = await verifyRegistrationResponse({ response, ...expected, supportedAlgorithmIDs: [-7, -8, -257] });
      return { accepted: verified, why: "not verified" };
    }
    if (c.credentialId !== c.knownId) return { accepted: false, why: "another credential" };
    response.response = { clientDataJSON: c.clientDataJson, authenticatorData: c.authenticatorData, signature: c.signature };
    const credential = { id: c.knownId, publicKey: bytes(c.publicKey), counter: c.counter };
    const { verified } = await verifyAuthenticationResponse({ response, ...expected, credential });
    return { accepted: verified, why: "not verified" };
  } catch (e) {
    return { accepted: false, why: e.message };
  }
}

test("passkeys are judged alike", async () => {
  const count = { taken: 0, refused: 0, apart: 0 };
  const wrong = [];
  for (const c of cases) {
    const { accepted, why } = await judge(c);
    if (accepted === c.accepted) count[accepted ? "taken" : "refused"]++;
    else if (c.apart && !(c.accepted && c.apart.startsWith("stricter: "))) count.apart++;
    else wrong.push(`${c.kind}, ${c.name}: the enclave says ${c.accepted ? "yes" : c.why}, the library ${accepted ? "yes" : why}`);
  }
  console.log(`@simplewebauthn/server: ${count.taken} accepted and ${count.refused} refused by both, ${count.apart} apart for a reason`);
  assert.deepEqual(wrong, []);
  assert.ok(count.taken > 0 && count.refused > 0);
});
