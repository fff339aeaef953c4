// A passkey in software, with node's own cryptography: it registers and stamps as a browser's would.
import { createHash, createPrivateKey, generateKeyPairSync, randomBytes, sign } from "node:crypto";

const rpId = "localhost";
const origin = "http://localhost:3000";
const text = (bytes) => Buffer.from(bytes).toString("base64url");
const sha256 = (bytes) => createHash("sha256").update(bytes).digest();

// CBOR, as much of it as a registration has. Maps are lists of pairs, in the order in which they are written.
function head(major, n) {
  if (n < 24) return Buffer.from([(major << 5) | n]);
  if (n < 256) return Buffer.from([(major << 5) | 24, n]);
  return Buffer.from([(major << 5) | 25, n >> 8, n & 255]);
}

function cbor(value) {
  if (typeof value === "number") return value < 0 ? head(1, -1 - value) : head(0, value);
  if (typeof value === "string") return Buffer.concat([head(3, Buffer.byteLength(value)), Buffer.from(value)]);
  if (Buffer.isBuffer(value)) return Buffer.concat([head(2, value.length), value]);
  return Buffer.concat([head(5, value.length), ...value.flat().map(cbor)]);
}

const clientData = (type, challenge) => Buffer.from(JSON.stringify({ type, challenge: text(challenge), origin, crossOrigin: false }));

export class Passkey {
  // Without a memory of an earlier one, a new one is made.
  constructor(kept) {
    this.key = kept ? createPrivateKey({ key: kept.key, format: "jwk" }) : generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
    this.credentialId = kept ? Buffer.from(kept.credentialId, "base64url") : randomBytes(32);
  }

  keep() {
    return { key: this.key.export({ format: "jwk" }), credentialId: text(this.credentialId) };
  }

  // Authenticator data: user present and verified, and at a registration the passkey itself.
  data(attested) {
    const { x, y } = this.key.export({ format: "jwk" });
    const cose = cbor([[1, 2], [3, -7], [-1, 1], [-2, Buffer.from(x, "base64url")], [-3, Buffer.from(y, "base64url")]]);
    const length = Buffer.from([this.credentialId.length >> 8, this.credentialId.length & 255]);
    const parts = [sha256(rpId), Buffer.from([attested ? 0x45 : 0x05, 0, 0, 0, 0])];
    if (attested) parts.push(Buffer.alloc(16), length, this.credentialId, cose);
    return Buffer.concat(parts);
  }

  // An element of `authenticators`.
  register(authenticatorName) {
    const challenge = randomBytes(32);
    const attestationObject = cbor([["fmt", "none"], ["attStmt", []], ["authData", this.data(true)]]);
    return {
      authenticatorName,
      challenge: text(challenge),
      attestation: {
        credentialId: text(this.credentialId),
        clientDataJson: text(clientData("webauthn.create", challenge)),
        attestationObject: text(attestationObject),
        transports: ["AUTHENTICATOR_TRANSPORT_INTERNAL", "AUTHENTICATOR_TRANSPORT_HYBRID"],
      },
    };
  }

  // What the SDK's clients ask of a stamper.
  async stamp(body) {
    const client = clientData("webauthn.get", Buffer.from(sha256(body).toString("hex")));
    const data = this.data(false);
    const signature = sign("sha256", Buffer.concat([data, sha256(client)]), this.key);
    return {
      stampHeaderName: "X-Stamp-WebAuthn",
      stampHeaderValue: JSON.stringify({
        authenticatorData: text(data), clientDataJson: text(client), credentialId: text(this.credentialId), signature: text(signature),
      }),
    };
  }
}
