// Where the simulator is, what its accounts are called, and the checks that more than one file makes.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { verifyAppProofSignature } from "@turnkey/crypto";

export const credentials = JSON.parse(readFileSync(process.env.CLOISTER_CREDENTIALS, "utf8"));

// The settings of a client of either SDK; a key other than the root user's may be given.
export function settings(over = {}) {
  return {
    apiBaseUrl: credentials.apiUrl,
    apiPublicKey: credentials.rootApiKey.publicKey,
    apiPrivateKey: credentials.rootApiKey.privateKey,
    defaultOrganizationId: credentials.organizationId,
    activityPoller: { intervalMs: 100, numRetries: 20 },
    ...over,
  };
}

const statePath = (name) => join(process.env.CLOISTER_STATE, `${name}.json`);
export const remember = (name, state) => writeFileSync(statePath(name), JSON.stringify(state, null, 2));
export const recall = (name) => JSON.parse(readFileSync(statePath(name), "utf8"));

const at = (curve, addressFormat, path) => ({ curve, addressFormat, path, pathFormat: "PATH_FORMAT_BIP32" });

// Every curve in every address format that is judged.
export const accounts = [
  at("CURVE_SECP256K1", "ADDRESS_FORMAT_ETHEREUM", "m/44'/60'/0'/0/0"),
  at("CURVE_SECP256K1", "ADDRESS_FORMAT_COMPRESSED", "m/44'/60'/0'/0/1"),
  at("CURVE_SECP256K1", "ADDRESS_FORMAT_UNCOMPRESSED", "m/44'/60'/0'/0/2"),
  at("CURVE_P256", "ADDRESS_FORMAT_COMPRESSED", "m/44'/60'/0'/0/3"),
  at("CURVE_P256", "ADDRESS_FORMAT_UNCOMPRESSED", "m/44'/60'/0'/0/4"),
  at("CURVE_ED25519", "ADDRESS_FORMAT_SOLANA", "m/44'/501'/0'/0'"),
  at("CURVE_ED25519", "ADDRESS_FORMAT_COMPRESSED", "m/44'/501'/1'/0'"),
];

const hex = "PAYLOAD_ENCODING_HEXADECIMAL";
const text = "PAYLOAD_ENCODING_TEXT_UTF8";
const digest = "69a8c6c42a121ce2042f3c69192ba2bf127def7c6d6094920db6fe74edd5abfc";

// Every encoding under every hash function that a curve allows.
export function payloads(curve) {
  const messages = [
    { encoding: hex, payload: "68656c6c6f" },
    { encoding: hex, payload: "0x68656c6c6f20776f726c64" },
    { encoding: text, payload: "hello, Грüße 世界 🔐" },
  ];
  if (curve === "CURVE_ED25519") {
    return messages.map((m) => ({ ...m, hashFunction: "HASH_FUNCTION_NOT_APPLICABLE" }));
  }
  return [
    ...messages.map((m) => ({ ...m, hashFunction: "HASH_FUNCTION_SHA256" })),
    ...messages.map((m) => ({ ...m, hashFunction: "HASH_FUNCTION_KECCAK256" })),
    { encoding: hex, payload: digest, hashFunction: "HASH_FUNCTION_NO_OP" },
    { encoding: hex, payload: "0x" + digest, hashFunction: "HASH_FUNCTION_NO_OP" },
    { encoding: text, payload: "exactly thirty-two bytes of text", hashFunction: "HASH_FUNCTION_NO_OP" },
  ];
}

// refused: the call ends in the SDK's own error with this code, and with this text in its message.
export async function refused(code, words, call) {
  await assert.rejects(call, (error) => {
    assert.equal(error.name, "TurnkeyRequestError", String(error));
    assert.equal(error.code, code, String(error));
    assert.ok(error.message.includes(words), `${error.message} should say ${words}`);
    return true;
  });
}

// Sends the exact bytes of a request that the SDK stamped; the answer is {status, body}.
export async function send({ body, stamp, url }) {
  const answer = await fetch(url, {
    method: "POST",
    headers: { [stamp.stampHeaderName]: stamp.stampHeaderValue, "Content-Type": "application/json" },
    body,
  });
  assert.equal(answer.headers.get("content-type"), "application/json");
  return { status: answer.status, body: await answer.json() };
}

// cloisterVerify runs our own command on an answer, its boot proof and what the caller expects of them. It throws with the
// command's words when that refuses.
export function cloisterVerify(reply, bootProof, ...expectations) {
  const dir = mkdtempSync(join(tmpdir(), "proof-"));
  try {
    writeFileSync(join(dir, "reply.json"), JSON.stringify(reply));
    writeFileSync(join(dir, "boot.json"), JSON.stringify(bootProof));
    return execFileSync(
      process.env.CLOISTER_VERIFY,
      ["-credentials", process.env.CLOISTER_CREDENTIALS, "-reply", join(dir, "reply.json"),
        "-boot-proof", join(dir, "boot.json"), ...expectations],
      { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] },
    );
  } finally {
    rmSync(dir, { recursive: true });
  }
}

// proofsHold judges the app proofs of an activity: each by the SDK's own check of its signature, and all of them with their
// boot proof by cloister-verify. (The SDK's full check has the cloud's root compiled in, so no simulator passes it.)
export async function proofsHold(client, activity, appProofs, ...expectations) {
  assert.ok(appProofs.length > 0, "an app proof");
  for (const proof of appProofs) {
    verifyAppProofSignature(proof);
    assert.throws(() => verifyAppProofSignature({ ...proof, proofPayload: proof.proofPayload + " " }));
  }
  const boot = await client.getBootProof({
    organizationId: activity.organizationId,
    ephemeralKey: appProofs[0].publicKey,
  });
  assert.equal(boot.bootProof.ephemeralPublicKeyHex, appProofs[0].publicKey);
  const reply = { activity: { ...activity, appProofs } };
  assert.match(cloisterVerify(reply, boot, ...expectations), /^VERIFIED:/m);
  assert.throws(() => cloisterVerify(reply, boot, "-fingerprint", "sha256:" + "00".repeat(32)), /REFUSED/);
  return appProofs.map((proof) => JSON.parse(proof.proofPayload));
}
