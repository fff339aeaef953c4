// Writes vectors.json, by the cryptography of Node alone: node vectors.mjs > vectors.json
import crypto from "node:crypto";

const hex = (b) => Buffer.from(b).toString("hex");
const sha256 = (...b) => crypto.createHash("sha256").update(Buffer.concat(b.map((x) => Buffer.from(x)))).digest();
const fixed = (label, n) => Buffer.concat([0, 1, 2, 3, 4, 5].map((i) => sha256(label, [i]))).subarray(0, n);

// Members sorted by name, no blanks, integers as strings.
function canonical(v) {
  if (Array.isArray(v)) return "[" + v.map(canonical).join(",") + "]";
  if (typeof v === "object") return "{" + Object.keys(v).sort().map((k) => JSON.stringify(k) + ":" + canonical(v[k])).join(",") + "}";
  if (typeof v === "number") return JSON.stringify(String(v));
  return JSON.stringify(v);
}

function pair(seed) {
  const half = (salt) => {
    const scalar = Buffer.from(crypto.hkdfSync("sha512", seed, salt, "", 32));
    const ecdh = crypto.createECDH("prime256v1");
    ecdh.setPrivateKey(scalar);
    const point = ecdh.getPublicKey();
    const b64 = (b) => b.toString("base64url");
    const jwk = { kty: "EC", crv: "P-256", d: b64(scalar), x: b64(point.subarray(1, 33)), y: b64(point.subarray(33)) };
    return { ecdh, point, scalar, key: crypto.createPrivateKey({ key: jwk, format: "jwk" }) };
  };
  const encryption = half("qos_p256_encrypt"), signing = half("qos_p256_sign");
  return { seed, encryption, signing, public: Buffer.concat([encryption.point, signing.point]) };
}

const sign = (p, message) => crypto.sign("sha256", message, { key: p.signing.key, dsaEncoding: "ieee-p1363" });

function seal(to, plain) {
  const sender = crypto.createECDH("prime256v1");
  sender.setPrivateKey(fixed("sender", 32));
  const own = sender.getPublicKey(), shared = sender.computeSecret(to);
  const key = crypto.createHmac("sha512", Buffer.concat([own, to, shared])).update("qos_encryption_hmac_message").digest().subarray(0, 32);
  const nonce = fixed("nonce", 12);
  const gcm = crypto.createCipheriv("aes-256-gcm", key, nonce);
  gcm.setAAD(Buffer.concat([own, Buffer.from([65]), to, Buffer.from([65])]));
  const text = Buffer.concat([gcm.update(plain), gcm.final(), gcm.getAuthTag()]);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(text.length);
  return Buffer.concat([nonce, own, length, text]);
}

// Shamir's scheme over GF(2^8) by tables of logarithms to the base 3.
const exp = [], log = [];
for (let i = 0, x = 1; i < 255; i++) { exp[i] = x; log[x] = i; x ^= (x << 1) ^ (x & 0x80 ? 0x11b : 0); x &= 0xff; }
const times = (a, b) => (a && b ? exp[(log[a] + log[b]) % 255] : 0);
function split(secret, threshold, n) {
  const coefficients = Array.from({ length: threshold - 1 }, (_, i) => fixed("coefficient " + i, secret.length));
  return Array.from({ length: n }, (_, i) => Buffer.from([i + 1, ...secret.map((s, at) => {
    let y = 0;
    for (let c = threshold - 2; c >= 0; c--) y = times(y ^ coefficients[c][at], i + 1);
    return y ^ s;
  })]));
}

const quorum = pair(fixed("quorum", 32));
const operators = ["Ada", "Bea", "Çelik"].map((alias) => ({ alias, ...pair(fixed("operator " + alias, 32)) }));
const members = operators.map((o) => ({ alias: o.alias, pubKey: hex(o.public) }));
const manifest = {
  version: "v2",
  namespace: { name: "prod/tvc/0f4c0a3e-5d0e-4a53-9d5f-6a7f2b0e4c11", nonce: 1790000000, quorumKey: hex(quorum.public) },
  pivot: {
    hash: hex(sha256("program")), restart: "Always", debugMode: false, args: ["--limit", "10 € & <more>", "\"quoted\" \\"],
    bridgeConfig: [{ type: "server", port: 3000, host: "0.0.0.0" }, { type: "server", port: 3001, host: "127.0.0.1" }],
  },
  manifestSet: { threshold: 2, members },
  shareSet: { threshold: 2, members },
  enclave: { pcr0: hex(fixed("pcr0", 48)), pcr1: hex(fixed("pcr1", 48)), pcr2: hex(fixed("pcr2", 48)), pcr3: hex(Buffer.alloc(48)), awsRootCertificate: hex(fixed("root", 100)), qosCommit: "0123abcd" },
};
const text = canonical(manifest), hash = sha256(text);
const approvals = operators.slice(0, 2).map((o) => ({ member: { alias: o.alias, pubKey: hex(o.public) }, signature: hex(sign(o, hash)) }));
const shares = split([...quorum.seed], 2, 3).map(Buffer.from);
console.log(JSON.stringify({
  quorumSeed: hex(quorum.seed), quorumKey: hex(quorum.public),
  manifest: text, manifestHash: hex(hash),
  envelope: canonical({ manifest, manifestSetApprovals: approvals, shareSetApprovals: [] }),
  approvals: approvals.map((a) => a.signature),
  shares: shares.map(hex),
  boxSeed: hex(operators[0].seed), box: hex(seal(operators[0].encryption.point, shares[0])),
}, null, 1));
