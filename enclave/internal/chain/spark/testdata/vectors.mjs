// Writes vectors.json: see README.md.
import { getSparkFrost, getTransferPackageSigningPayload, getClaimPackageSigningPayload, DefaultSparkSigner } from "@buildonspark/spark-sdk";
import { SendLeafKeyTweaks, ClaimLeafKeyTweaks, SecretShare } from "@buildonspark/spark-sdk/proto/spark";
import { secp256k1, schnorr } from "@noble/curves/secp256k1";
import { sha256 } from "@noble/hashes/sha2";
import { writeFileSync } from "node:fs";
const frost = getSparkFrost();
const n = secp256k1.CURVE.n, G = secp256k1.Point.BASE;
const hex = b => Buffer.from(b).toString("hex");
const num = b => BigInt("0x" + hex(b));
const b32 = v => Buffer.from((((v % n) + n) % n).toString(16).padStart(64, "0"), "hex");
let counter = 0;
const draw = () => { const d = sha256(Buffer.from("spark vector " + counter++)); return num(d) % n; };
const inv = a => { let [r0, r1, s0, s1] = [n, ((a % n) + n) % n, 0n, 1n]; while (r1) { const q = r0 / r1; [r0, r1] = [r1, r0 - q * r1]; [s0, s1] = [s1, s0 - q * s1]; } return ((s0 % n) + n) % n; };
const pt = v => G.multiply(((v % n) + n) % n);
const cat = (...a) => Buffer.concat(a.map(x => Buffer.from(x)));
const tagged = (t, ...p) => { const h = sha256(Buffer.from(t)); return sha256(cat(h, h, ...p)); };
const ctx = "FROST-secp256k1-SHA256-TR-v1";
function xmd(dst, msg) {
  const d = cat(Buffer.from(dst), [dst.length]);
  const b0 = sha256(cat(Buffer.alloc(64), msg, [0, 48, 0], d));
  const b1 = sha256(cat(b0, [1], d));
  const b2 = sha256(cat(b0.map((x, i) => x ^ b1[i]), [2], d));
  return num(cat(b1, b2.slice(0, 16))) % n;
}
const userID = b32(xmd(ctx + "id", Buffer.from("user")));
const compressed = p => Buffer.from(p.toBytes(true));
// Operators' shares, so that there is something to aggregate.
function operators(c) {
  const P = secp256k1.Point.fromHex(c.verifyingKey);
  const all = [...c.operators.map(o => ({ id: o.id, hiding: o.hiding, binding: o.binding })), { id: hex(userID), hiding: c.hiding, binding: c.binding }].sort((a, b) => a.id < b.id ? -1 : 1);
  const flip1 = P.toAffine().y % 2n === 1n; const even = flip1 ? P.negate() : P;
  const t = num(tagged("TapTweak", compressed(even).subarray(1))) % n;
  let Q = even.add(pt(t)); const flip2 = Q.toAffine().y % 2n === 1n; if (flip2) Q = Q.negate();
  const enc = cat(...all.flatMap(x => [Buffer.from(x.id, "hex"), Buffer.from(x.hiding, "hex"), Buffer.from(x.binding, "hex")]));
  const m = Buffer.from(c.message, "hex");
  const prefix = cat(compressed(Q), sha256(cat(Buffer.from(ctx + "msg"), m)), sha256(cat(Buffer.from(ctx + "com"), enc)));
  let R = secp256k1.Point.ZERO; const rho = {};
  for (const x of all) { rho[x.id] = xmd(ctx + "rho", cat(prefix, Buffer.from(x.id, "hex"))); R = R.add(secp256k1.Point.fromHex(x.hiding)).add(secp256k1.Point.fromHex(x.binding).multiply(rho[x.id])); }
  if (c.adaptor) R = R.add(secp256k1.Point.fromHex(c.adaptor));
  const odd = R.toAffine().y % 2n === 1n;
  const ch = num(tagged("BIP0340/challenge", b32x(R), b32x(Q), m)) % n;
  return c.operators.map((o, i) => {
    let lambda = 1n; for (const [j, q] of c.operators.entries()) if (j !== i) lambda = lambda * BigInt("0x" + q.id) % n * inv(BigInt("0x" + q.id) - BigInt("0x" + o.id)) % n;
    let k = BigInt("0x" + o.secret);
    let nonces = BigInt("0x" + o.d) + BigInt("0x" + o.e) * rho[o.id]; if (odd) nonces = -nonces;
    // key part: sign(flip1^flip2) * share + sign(flip2) * tweak, of which the share of a Shamir constant is the constant
    const part = (flip1 !== flip2 ? -k : k) + (flip2 ? -t : t);
    return hex(b32(nonces + lambda * ch % n * (((part % n) + n) % n)));
  });
}
const b32x = p => Buffer.from(p.toAffine().x.toString(16).padStart(64, "0"), "hex");
const out = { origin: "npm @buildonspark/spark-sdk 0.8.8, wasm: signFrost, aggregateFrost, encryptEcies, splitSecretWithProofs; operators' shares made with @noble/curves and accepted by aggregateFrost", user: hex(userID), frost: [], ecies: [], shares: [], hashes: [] };
for (let i = 0; i < 16; i++) {
  const count = 1 + i % 5, threshold = 1 + (i % count);
  const coeffs = Array.from({ length: threshold }, draw);
  const ids = Array.from({ length: count }, (_, j) => i % 3 ? BigInt(j + 1) : draw());
  const f = x => coeffs.reduceRight((a, c) => (a * x + c) % n, 0n);
  const key = draw(), d = draw(), e = draw(), adaptor = i % 2 ? draw() : 0n;
  const P = pt(coeffs[0]).add(pt(key));
  const ops = ids.map(id => { const od = draw(), oe = draw(); return { id: hex(b32(id)), secret: hex(b32(f(id))), d: hex(b32(od)), e: hex(b32(oe)), hiding: hex(compressed(pt(od))), binding: hex(compressed(pt(oe))) }; });
  const c = { key: hex(b32(key)), d: hex(b32(d)), e: hex(b32(e)), hiding: hex(compressed(pt(d))), binding: hex(compressed(pt(e))), message: hex(b32(draw())), verifyingKey: hex(compressed(P)), adaptor: adaptor ? hex(compressed(pt(adaptor))) : "", operators: ops };
  const commitments = Object.fromEntries(ops.map(o => [o.id, { hiding: Buffer.from(o.hiding, "hex"), binding: Buffer.from(o.binding, "hex") }]));
  const self = { hiding: Buffer.from(c.hiding, "hex"), binding: Buffer.from(c.binding, "hex") };
  const pub = compressed(pt(key)), vk = Buffer.from(c.verifyingKey, "hex"), msg = Buffer.from(c.message, "hex"), ad = adaptor ? Buffer.from(c.adaptor, "hex") : undefined;
  const share = await frost.signFrost({ message: msg, keyPackage: { secretKey: b32(key), publicKey: pub, verifyingKey: vk }, nonce: { hiding: b32(d), binding: b32(e) }, selfCommitment: self, statechainCommitments: commitments, adaptorPubKey: ad });
  c.share = hex(share);
  const made = operators(c);
  const agg = await frost.aggregateFrost({ message: msg, statechainSignatures: Object.fromEntries(ops.map((o, j) => [o.id, Buffer.from(made[j], "hex")])), statechainPublicKeys: Object.fromEntries(ops.map(o => [o.id, compressed(pt(BigInt("0x" + o.secret)))])), verifyingKey: vk, statechainCommitments: commitments, selfCommitment: self, selfPublicKey: pub, selfSignature: share, adaptorPubKey: ad });
  c.aggregate = hex(agg);
  for (const o of ops) { delete o.secret; delete o.d; delete o.e; }
  out.frost.push(c);
}
for (const size of [0, 1, 32, 100, 5000]) {
  const key = draw(); const plain = Buffer.alloc(size, size);
  out.ecies.push({ key: hex(b32(key)), plain: size > 100 ? undefined : hex(plain), size, sealed: hex(await frost.encryptEcies(plain, compressed(pt(key)))) });
}
for (const [t, m] of [[2, 2], [2, 3], [3, 5], [5, 5]]) {
  const secret = draw();
  out.shares.push({ secret: hex(b32(secret)), threshold: t, shares: (await frost.splitSecretWithProofs(b32(secret), t, m)).map(s => ({ index: s.index, share: hex(s.share), proofs: s.proofs.map(hex) })) });
}
out.ecies = out.ecies.filter(e => e.size < 5000);
const pack = { "zz": Buffer.from("0102", "hex"), "a": Buffer.from("03", "hex"), "\u00e9": Buffer.alloc(300, 7) };
const id = "01912f5c-7a3e-7c1d-8f00-0123456789ab";
out.hashes = { transferId: id, packages: Object.fromEntries(Object.entries(pack).map(([k, v]) => [k, hex(v)])), transfer: hex(getTransferPackageSigningPayload(id, { keyTweakPackage: pack })), claim: hex(getClaimPackageSigningPayload(id, pack)) };
const tweak = { leafId: "leaf", secretShareTweak: { secretShare: Buffer.alloc(32, 9), proofs: [Buffer.alloc(33, 2), Buffer.alloc(33, 3)] }, pubkeySharesTweak: { b: Buffer.alloc(33, 4), a: Buffer.alloc(33, 5) } };
const whole = { ...tweak, secretCipher: Buffer.alloc(129, 6), signature: Buffer.alloc(64, 7), refundSignature: Buffer.alloc(64, 8), directRefundSignature: Buffer.alloc(0), directFromCpfpRefundSignature: Buffer.alloc(64, 10) };
out.packages = { send: hex(SendLeafKeyTweaks.encode({ leavesToSend: [whole, { ...whole, leafId: "m".repeat(200) }] }).finish()), claim: hex(ClaimLeafKeyTweaks.encode({ leavesToReceive: [tweak] }).finish()), share: hex(SecretShare.encode(tweak.secretShareTweak).finish()) };
const phrase = "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about";
out.keys = { mnemonic: phrase, accounts: [] };
for (const account of [0, 7]) {
  const signer = new DefaultSparkSigner(); await signer.createSparkWalletFromSeed(await signer.mnemonicToSeed(phrase), account);
  const leaves = {}; for (const l of ["leaf", id]) leaves[l] = hex(await signer.getPublicKeyFromDerivation({ type: "leaf", path: l }));
  out.keys.accounts.push({ account, identity: hex(await signer.getIdentityPublicKey()), deposit: hex(await signer.getPublicKeyFromDerivation({ type: "deposit" })), statics: [hex(await signer.getPublicKeyFromDerivation({ type: "static_deposit", path: 0 })), hex(await signer.getPublicKeyFromDerivation({ type: "static_deposit", path: 5 }))], leaves });
}
writeFileSync("vectors.json", JSON.stringify(out, null, "\t") + "\n");
console.log(out.frost.length, "of frost");
