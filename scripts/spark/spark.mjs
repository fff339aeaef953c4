// Cloister is the user; Spark's software (npm @buildonspark/spark-sdk) aggregates, opens and proves. The operators' shares of
// FROST, which that package does not make, are made here and count when its aggregateFrost takes them.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { decodeSparkAddress, getSparkFrost, getTransferPackageSigningPayload } from "@buildonspark/spark-sdk";
import { ClaimLeafKeyTweaks, SecretShare, SendLeafKeyTweaks } from "@buildonspark/spark-sdk/proto/spark";
import { schnorr, secp256k1 } from "@noble/curves/secp256k1";
import { ApiKeyStamper } from "@turnkey/api-key-stamper";

const credentials = JSON.parse(readFileSync(process.env.CLOISTER_CREDENTIALS, "utf8"));
const { organizationId } = credentials;
const stamper = new ApiKeyStamper({ apiPublicKey: credentials.rootApiKey.publicKey, apiPrivateKey: credentials.rootApiKey.privateKey });

async function post(path, body) {
  const stamp = await stamper.stamp(body);
  const answer = await fetch(`${credentials.apiUrl}/public/v1/${path}`, {
    method: "POST",
    headers: { [stamp.stampHeaderName]: stamp.stampHeaderValue, "content-type": "application/json" },
    body,
  });
  return answer.json();
}

let clock = Date.now();
const bodyOf = (op, parameters) =>
  JSON.stringify({ type: `ACTIVITY_TYPE_${op.toUpperCase()}`, timestampMs: String(clock++), organizationId, parameters });

async function submitted(op, body) {
  const { activity, message } = await post(`submit/${op}`, body);
  assert.equal(activity?.status, "ACTIVITY_STATUS_COMPLETED", message ?? JSON.stringify(activity?.failure));
  return Object.values(activity.result)[0];
}

const submit = (op, parameters) => submitted(op, bodyOf(op, parameters));

async function refused(op, parameters, words, code = 3) {
  const answer = await post(`submit/${op}`, bodyOf(op, parameters));
  const error = answer.activity ? answer.activity.failure : answer;
  assert.equal(error?.code, code, JSON.stringify(answer));
  assert.match(error.message, words);
}

const frost = getSparkFrost();
const n = secp256k1.CURVE.n;
const Point = secp256k1.Point;
const hex = (bytes) => Buffer.from(bytes).toString("hex");
const bytes = (text) => Buffer.from(text, "hex");
const mod = (number) => ((number % n) + n) % n;
const numberOf = (text) => BigInt(`0x${hex(text)}`);
const scalar = (number) => bytes(mod(number).toString(16).padStart(64, "0"));
const draw = () => mod(numberOf(randomBytes(40)));
const times = (number) => Point.BASE.multiply(mod(number));
const compressed = (point) => Buffer.from(point.toBytes(true));
const publicOf = (number) => compressed(times(number));
const x = (point) => scalar32(point.toAffine().x);
const scalar32 = (number) => bytes(number.toString(16).padStart(64, "0"));
const isOdd = (point) => point.toAffine().y % 2n === 1n;
const sha256 = (...parts) => createHash("sha256").update(Buffer.concat(parts.map((p) => Buffer.from(p)))).digest();
const tagged = (tag, ...parts) => sha256(sha256(tag), sha256(tag), ...parts);

// A wallet with the identity key of Spark's account, and the public keys of others of it.
async function account(walletName) {
  const made = (path, addressFormat) => ({ curve: "CURVE_SECP256K1", pathFormat: "PATH_FORMAT_BIP32", path, addressFormat: `ADDRESS_FORMAT_${addressFormat}` });
  const { walletId, addresses } = await submit("create_wallet", { walletName, accounts: [made("m/8797555'/0'/0'", "SPARK_REGTEST")] });
  const identity = decodeSparkAddress(addresses[0], "REGTEST").identityPublicKey;
  const at = async (path) =>
    (await submit("create_wallet_accounts", { walletId, persist: false, accounts: [made(`m/8797555'/0'/${path}`, "COMPRESSED")] })).addresses[0];
  const leaf = (id) => at(`1'/${sha256(id).readUInt32BE(0) % 2 ** 31}'`);
  return { address: addresses[0], identity, leaf, deposit: () => at("2'"), staticDeposit: (index) => at(`3'/${index}'`) };
}

const suite = "FROST-secp256k1-SHA256-TR-v1";

function hashToScalar(name, ...message) {
  const domain = Buffer.concat([Buffer.from(suite + name), Buffer.from([suite.length + name.length])]);
  const zero = sha256(Buffer.alloc(64), ...message, [0, 48, 0], domain);
  const first = sha256(zero, [1], domain);
  const second = sha256(zero.map((b, i) => b ^ first[i]), [2], domain);
  return mod(numberOf(Buffer.concat([first, second.subarray(0, 16)])));
}

const user = scalar(hashToScalar("id", "user"));

// A group of operators, of whom `threshold` are as good as all: what it signs with, and its shares of one signing.
function operators(count, threshold, userKey) {
  const coefficients = Array.from({ length: threshold }, draw);
  const all = Array.from({ length: count }, (_, i) => {
    const id = BigInt(i + 1);
    return { id, key: coefficients.reduceRight((sum, c) => mod(sum * id + c), 0n) };
  });
  const signing = all.slice(count - threshold); // those who sign
  const verifyingKey = compressed(times(coefficients[0]).add(Point.fromHex(userKey)));
  return {
    verifyingKey,
    round() {
      const nonces = signing.map((o) => ({ ...o, d: draw(), e: draw() }));
      const commitments = nonces.map((o) => ({ id: hex(scalar(o.id)), hiding: hex(publicOf(o.d)), binding: hex(publicOf(o.e)) }));
      const shares = (message, adaptor, own) => {
        const everyone = [...commitments, { id: hex(user), ...own }].sort((a, b) => (a.id < b.id ? -1 : 1));
        let key = Point.fromHex(hex(verifyingKey));
        const internal = isOdd(key);
        if (internal) key = key.negate();
        const tweak = numberOf(tagged("TapTweak", x(key)));
        const tweaked = key.add(times(tweak));
        const output = isOdd(tweaked);
        const prefix = [[2], x(tweaked), sha256(`${suite}msg`, message), sha256(`${suite}com`, ...everyone.flatMap((c) => [bytes(c.id), bytes(c.hiding), bytes(c.binding)]))];
        const factor = (id) => hashToScalar("rho", ...prefix, bytes(id));
        let nonce = adaptor ? Point.fromHex(adaptor) : Point.ZERO;
        for (const c of everyone) nonce = nonce.add(Point.fromHex(c.hiding)).add(Point.fromHex(c.binding).multiply(factor(c.id)));
        const challenge = mod(numberOf(tagged("BIP0340/challenge", x(nonce), x(tweaked), message)));
        const of = {};
        for (const o of nonces) {
          let lambda = 1n;
          for (const other of nonces) if (other.id !== o.id) lambda = mod(lambda * other.id * inverse(other.id - o.id));
          const part = (internal === output ? o.key : -o.key) + (output ? -tweak : tweak);
          const both = o.d + o.e * factor(hex(scalar(o.id)));
          of[hex(scalar(o.id))] = scalar((isOdd(nonce) ? -both : both) + lambda * challenge * mod(part));
        }
        return { of, outputKey: x(tweaked) };
      };
      return { commitments, shares, publicKeys: Object.fromEntries(nonces.map((o) => [hex(scalar(o.id)), publicOf(o.key)])) };
    },
  };
}

const inverse = (number) => {
  let result = 1n;
  for (let power = n - 2n, base = mod(number); power > 0n; power >>= 1n, base = mod(base * base)) if (power & 1n) result = mod(result * base);
  return result;
};

const point = (c) => ({ hiding: bytes(c.hiding), binding: bytes(c.binding) });

test("shares are aggregated, with and without adaptor", async () => {
  const spark = await account("Signs");
  const keys = [
    [{ identity: {} }, spark.identity],
    [{ signingLeaf: { leafId: "leaf" } }, await spark.leaf("leaf")],
    [{ deposit: {} }, await spark.deposit()],
    [{ staticDeposit: { index: 0 } }, await spark.staticDeposit(0)],
    [{ staticDeposit: { index: 5 } }, await spark.staticDeposit(5)],
  ];
  const asked = [];
  for (let round = 0; round < 4; round++)
    for (const [derivation, userKey] of keys) {
      const group = operators(1 + round, 1 + (round >> 1), userKey);
      const adaptor = asked.length % 2 ? draw() : 0n;
      asked.push({ derivation, userKey, group, adaptor, message: randomBytes(32), ...group.round() });
    }
  const { signatures } = await submit("spark_sign_frost", {
    signWith: spark.address,
    signatures: asked.map((a) => ({
      derivation: a.derivation,
      message: hex(a.message),
      verifyingKey: hex(a.group.verifyingKey),
      operatorCommitments: a.commitments,
      ...(a.adaptor && { adaptorPublicKey: hex(publicOf(a.adaptor)) }),
    })),
  });
  assert.equal(signatures.length, asked.length);
  const nonces = new Set();
  for (const [i, a] of asked.entries()) {
    const { signatureShare, hiding, binding } = signatures[i];
    nonces.add(hiding).add(binding);
    const adaptorPubKey = a.adaptor ? publicOf(a.adaptor) : undefined;
    const { of, outputKey } = a.shares(a.message, adaptorPubKey && hex(adaptorPubKey), { hiding, binding });
    const whole = {
      message: a.message,
      statechainSignatures: of,
      statechainPublicKeys: a.publicKeys,
      verifyingKey: a.group.verifyingKey,
      statechainCommitments: Object.fromEntries(a.commitments.map((c) => [c.id, point(c)])),
      selfCommitment: point({ hiding, binding }),
      selfPublicKey: bytes(a.userKey),
      adaptorPubKey,
    };
    const signed = async (share) => {
      let signature = await frost.aggregateFrost({ ...whole, selfSignature: share });
      if (a.adaptor) {
        assert.ok(!schnorr.verify(signature, a.message, outputKey), "a signature before the adaptor's secret is told");
        signature = frost.applyAdaptorToSignature(outputKey, a.message, signature, scalar(a.adaptor));
      }
      assert.ok(schnorr.verify(signature, a.message, outputKey));
    };
    await signed(bytes(signatureShare));
    await assert.rejects(() => signed(scalar(numberOf(bytes(signatureShare)) + 1n))); // the judge can say no
  }
  assert.equal(nonces.size, 2 * asked.length);
});

const recipients = (keys) => keys.map((key, i) => ({ operatorId: hex(scalar(BigInt(i + 1))), encryptionPublicKey: hex(publicOf(key)) }));

// The secret that the operators' shares make, each proven and any two as good as any other two.
async function recovered(shares, threshold) {
  for (const [i, s] of shares.entries()) {
    await frost.validateShare(s.secretShare, i + 1, threshold, s.proofs);
    await assert.rejects(async () => frost.validateShare(s.secretShare, i + 2, threshold, s.proofs));
  }
  const all = shares.map((s, i) => ({ threshold, index: i + 1, share: s.secretShare }));
  const first = await frost.recoverSecret(all.slice(0, threshold));
  assert.deepEqual(await frost.recoverSecret(all.slice(-threshold)), first);
  return Buffer.from(first);
}

async function opened(packages, keys) {
  assert.deepEqual(packages.map((p) => p.operatorId), recipients(keys).map((r) => r.operatorId));
  const plain = [];
  for (const [i, p] of packages.entries()) {
    plain.push(await frost.decryptEcies(bytes(p.encryptedPackage), scalar(keys[i])));
    await assert.rejects(async () => frost.decryptEcies(bytes(p.encryptedPackage), scalar(keys[i] + 1n)));
  }
  return plain;
}

const transferId = "01912f5c-7a3e-7c1d-8f00-0123456789ab";
const text = (s) => Buffer.from(s);

test("a leaf is given away, and taken over by another account", async () => {
  const sender = await account("Sender");
  const receiver = await account("Receiver");
  const keys = [draw(), draw(), draw()];
  const leaves = ["leaf-1", "leaf-2"].map((leafId) => ({
    leafId,
    oldLeafDerivation: { signingLeaf: { leafId } },
    newLeafDerivation: { signingLeaf: { leafId: `new-${leafId}` } },
    refundSignature: hex(randomBytes(64)),
    directFromCpfpRefundSignature: hex(randomBytes(64)),
  }));
  const group = { threshold: 2, operatorRecipients: recipients(keys) };
  const own = draw(); // one leaf's receiver is this script, which can open the new key
  const prepare = (to) => submit("spark_prepare_transfer", { signWith: sender.address, transfer: { transferId, leaves, ...group, receiverPublicKey: to } });

  const check = async (sent) => {
    const views = (await opened(sent.operatorPackages, keys)).map((p) => SendLeafKeyTweaks.decode(p).leavesToSend);
    const keyTweakPackage = Object.fromEntries(sent.operatorPackages.map((p) => [p.operatorId, bytes(p.encryptedPackage)]));
    const payload = getTransferPackageSigningPayload(transferId, { keyTweakPackage });
    assert.ok(secp256k1.verify(secp256k1.Signature.fromDER(sent.transferUserSignature), payload, sender.identity));
    for (const [j, leaf] of leaves.entries()) {
      for (const [i, view] of views.entries()) {
        assert.equal(view[j].leafId, leaf.leafId);
        assert.equal(hex(view[j].refundSignature), leaf.refundSignature);
        assert.equal(view[j].directRefundSignature.length, 0);
        assert.equal(hex(view[j].directFromCpfpRefundSignature), leaf.directFromCpfpRefundSignature);
        assert.deepEqual(view[j].secretCipher, views[0][j].secretCipher);
        const operator = recipients(keys)[i].operatorId;
        assert.equal(hex(view[j].pubkeySharesTweak[operator]), hex(publicOf(numberOf(view[j].secretShareTweak.secretShare))));
        assert.equal(Object.keys(view[j].pubkeySharesTweak).length, keys.length);
      }
      const { secretCipher, signature } = views[0][j];
      assert.ok(secp256k1.verify(signature, sha256(text(leaf.leafId), text(transferId), secretCipher), sender.identity));
      const tweak = await recovered(views.map((v) => v[j].secretShareTweak), 2);
      const next = sent.newLeafPublicKeys[j];
      assert.equal(next.leafId, `new-${leaf.leafId}`);
      assert.equal(next.publicKey, await sender.leaf(next.leafId));
      assert.equal(hex(compressed(times(numberOf(tweak)).add(Point.fromHex(next.publicKey)))), await sender.leaf(leaf.leafId));
    }
    return views[0];
  };
  const toScript = await prepare(hex(publicOf(own)));
  for (const [j, leaf] of (await check(toScript)).entries())
    assert.equal(hex(publicOf(numberOf(await frost.decryptEcies(leaf.secretCipher, scalar(own))))), toScript.newLeafPublicKeys[j].publicKey);

  const sent = await prepare(receiver.identity);
  const given = (await check(sent)).map((l) => ({ leafId: l.leafId, ciphertext: hex(l.secretCipher), senderSignature: hex(l.signature) }));
  const claim = { leaves: given, ...group, transferId, senderIdentityPublicKey: sender.identity };
  const taken = await submit("spark_claim_transfer", { signWith: receiver.address, claim });
  const views = (await opened(taken.operatorPackages, keys)).map((p) => ClaimLeafKeyTweaks.decode(p).leavesToReceive);
  for (const [j, leaf] of leaves.entries()) {
    const tweak = await recovered(views.map((v) => v[j].secretShareTweak), 2);
    assert.deepEqual(taken.newLeafPublicKeys[j], { leafId: leaf.leafId, publicKey: await receiver.leaf(leaf.leafId) });
    assert.equal(hex(compressed(times(numberOf(tweak)).add(Point.fromHex(taken.newLeafPublicKeys[j].publicKey)))), sent.newLeafPublicKeys[j].publicKey);
  }

  // A sender whose software is Spark's.
  const key = draw();
  const secret = draw();
  const cipher = await frost.encryptEcies(scalar(secret), bytes(receiver.identity));
  const signed = secp256k1.sign(sha256(text("leaf-3"), text(transferId), cipher), scalar(key));
  const theirs = { leafId: "leaf-3", ciphertext: hex(cipher), senderSignature: hex(signed.toCompactRawBytes()) };
  const other = { ...claim, leaves: [theirs], senderIdentityPublicKey: hex(publicOf(key)) };
  const again = await submit("spark_claim_transfer", { signWith: receiver.address, claim: other });
  const shares = (await opened(again.operatorPackages, keys)).map((p) => ClaimLeafKeyTweaks.decode(p).leavesToReceive[0].secretShareTweak);
  const tweak = numberOf(await recovered(shares, 2));
  assert.equal(hex(publicOf(secret - tweak)), await receiver.leaf("leaf-3"));

  const notTheirs = { ...other, leaves: [given[0], theirs] };
  await refused("spark_claim_transfer", { signWith: receiver.address, claim: notTheirs }, /is not senderIdentityPublicKey's/);
  await refused("spark_claim_transfer", { signWith: sender.address, claim: other }, /does not hold a key for this account/);
  await refused("spark_claim_transfer", { signWith: receiver.address, claim: { ...claim, threshold: 4 } }, /2 to the number of operatorRecipients/);
  const doubled = [group.operatorRecipients[0], { ...group.operatorRecipients[1], encryptionPublicKey: group.operatorRecipients[0].encryptionPublicKey }];
  const transfer = { transferId, leaves, ...group, receiverPublicKey: receiver.identity };
  await refused("spark_prepare_transfer", { signWith: sender.address, transfer: { ...transfer, operatorRecipients: doubled } }, /named twice/);
  const same = [{ ...leaves[0], newLeafDerivation: leaves[0].oldLeafDerivation }];
  await refused("spark_prepare_transfer", { signWith: sender.address, transfer: { ...transfer, leaves: same } }, /a key that no other leaf has/);
});

test("a preimage is shared among the operators", async () => {
  const spark = await account("Is paid");
  const keys = [draw(), draw(), draw(), draw(), draw()];
  const lightningReceive = { threshold: 3, operatorRecipients: recipients(keys) };
  const body = bodyOf("spark_prepare_lightning_receive", { signWith: spark.address, lightningReceive });
  const made = await submitted("spark_prepare_lightning_receive", body);
  const shares = (await opened(made.operatorPackages, keys)).map((p) => SecretShare.decode(p));
  assert.equal(hex(sha256(await recovered(shares, 3))), made.paymentHash);
  assert.deepEqual(await submitted("spark_prepare_lightning_receive", body), made); // the same request once more is the same activity
  await refused("spark_prepare_lightning_receive", { signWith: spark.address, lightningReceive: { ...lightningReceive, threshold: 1 } }, /2 to the number/);
});

test("what must be refused", async () => {
  const spark = await account("Refuses");
  const { commitments } = operators(1, 1, spark.identity).round();
  const good = { derivation: { identity: {} }, message: hex(randomBytes(32)), verifyingKey: hex(publicOf(draw())), operatorCommitments: commitments };
  const body = bodyOf("spark_sign_frost", { signWith: spark.address, signatures: [good] });
  const once = await submitted("spark_sign_frost", body);
  assert.deepEqual(await submitted("spark_sign_frost", body), once); // no second share, under whatever nonce
  const sign = (change, words) => refused("spark_sign_frost", { signWith: spark.address, signatures: [good, { ...good, ...change }] }, words);
  await sign({ derivation: { htlcPreimage: {} } }, /signs nothing/);
  await sign({ derivation: { identity: {}, deposit: {} } }, /exactly one/);
  await sign({ verifyingKey: spark.identity }, /no operator would have to sign/);
  await sign({ verifyingKey: "00".repeat(33) }, /compressed public key/);
  await sign({ operatorCommitments: [{ ...commitments[0], id: "00".repeat(32) }] }, /a number from 1/);
  await sign({ operatorCommitments: [{ ...commitments[0], id: hex(user) }] }, /the id of the user/);
  await sign({ operatorCommitments: [commitments[0], commitments[0]] }, /the same id/);
  const addresses = (await submit("create_wallet", { walletName: "Elsewhere", accounts: [{ curve: "CURVE_SECP256K1", pathFormat: "PATH_FORMAT_BIP32", path: "m/44'/60'/0'/0/0", addressFormat: "ADDRESS_FORMAT_ETHEREUM" }] })).addresses;
  await refused("spark_sign_frost", { signWith: addresses[0], signatures: [good] }, /m\/8797555'\/n'\/0'/);
});
