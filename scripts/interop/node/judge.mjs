// Judges signatures and addresses with @noble/curves and @noble/hashes: none of Cloister's code and none of the SDK's.
import assert from "node:assert/strict";
import { ed25519 } from "@noble/curves/ed25519";
import { p256 } from "@noble/curves/nist";
import { secp256k1 } from "@noble/curves/secp256k1";
import { sha256 } from "@noble/hashes/sha2";
import { keccak_256 } from "@noble/hashes/sha3";
import { bytesToHex, hexToBytes, utf8ToBytes } from "@noble/hashes/utils";
import bs58 from "bs58";

const ecdsa = { CURVE_SECP256K1: secp256k1, CURVE_P256: p256 };

const hashes = {
  HASH_FUNCTION_NO_OP: (bytes) => bytes,
  HASH_FUNCTION_NOT_APPLICABLE: (bytes) => bytes,
  HASH_FUNCTION_SHA256: sha256,
  HASH_FUNCTION_KECCAK256: keccak_256,
};

// What is signed: the payload's bytes under its hash function.
export function signedBytes({ payload, encoding, hashFunction }) {
  const bytes =
    encoding === "PAYLOAD_ENCODING_TEXT_UTF8"
      ? utf8ToBytes(payload)
      : hexToBytes(payload.replace(/^0x/, ""));
  return hashes[hashFunction](bytes);
}

// Throws unless {r, s, v} is the signature of the request under the public key (hex), in the form that clients rely on:
// 64 digits each, low s, and a v of two digits from which the key can be recovered.
export function judge(curve, publicKey, request, { r, s, v }) {
  assert.match(r, /^[0-9a-f]{64}$/);
  assert.match(s, /^[0-9a-f]{64}$/);
  const signed = signedBytes(request);
  if (curve === "CURVE_ED25519") {
    assert.equal(v, "00");
    assert.ok(ed25519.verify(r + s, signed, publicKey), "ed25519 signature");
    return;
  }
  assert.match(v, /^0[01]$/);
  const library = ecdsa[curve];
  assert.ok(library.verify(r + s, signed, publicKey, { lowS: true }), `${curve} signature with low s`);
  const recovered = library.Signature.fromCompact(r + s)
    .addRecoveryBit(parseInt(v, 16))
    .recoverPublicKey(signed);
  assert.equal(recovered.toHex(true), library.ProjectivePoint.fromHex(publicKey).toHex(true), "key recovered with v");
  // The judge must be able to say no.
  const other = Uint8Array.from(signed);
  other[0] ^= 1;
  assert.ok(!library.verify(r + s, other, publicKey), "another digest is refused");
}

// The address of a public key (hex, any form) in the given format.
export function address(format, curve, publicKey) {
  if (curve === "CURVE_ED25519") {
    const key = hexToBytes(publicKey);
    assert.equal(key.length, 32);
    return format === "ADDRESS_FORMAT_SOLANA" ? bs58.encode(key) : publicKey;
  }
  const point = ecdsa[curve].ProjectivePoint.fromHex(publicKey);
  switch (format) {
    case "ADDRESS_FORMAT_COMPRESSED":
      return point.toHex(true);
    case "ADDRESS_FORMAT_UNCOMPRESSED":
      return point.toHex(false);
    case "ADDRESS_FORMAT_ETHEREUM":
      return checksummed(bytesToHex(keccak_256(point.toRawBytes(false).slice(1)).slice(12)));
  }
  throw new Error(`no judge for ${format}`);
}

// EIP-55: a letter is a capital where the hash of the lower-case text has a digit of 8 or more.
function checksummed(hex) {
  const digits = bytesToHex(keccak_256(utf8ToBytes(hex)));
  return "0x" + [...hex].map((c, i) => (parseInt(digits[i], 16) >= 8 ? c.toUpperCase() : c)).join("");
}
