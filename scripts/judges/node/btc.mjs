// btcd mines what Cloister signs: every kind of script that one key can spend, by PSBTs that bitcoinjs-lib makes, finalises
// and checks, alone and mixed, beside inputs of others; and by digests signed raw.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import * as ecc from "@bitcoinerlab/secp256k1";
import * as bitcoin from "bitcoinjs-lib";
import { bitcoinOutput, derived } from "./derive.mjs";
import { account, addressElsewhere, asked, privateKey, refused, signBytes, signTransaction, wallet } from "./setting.mjs";

const { Psbt, Transaction } = bitcoin;
const network = bitcoin.networks.regtest;
const kinds = ["P2PKH", "P2SH", "P2WPKH", "P2WSH", "P2TR"];
const coin = 100_000n; // satoshis of every output here
const fee = 5_000n;

// The miner's key, the number one, is ours to sign with here: its address is what btcd was started with.
const minerKey = Buffer.from("01".padStart(64, "0"), "hex");
const miner = { publicKey: ecc.pointFromScalar(minerKey, true), sign: (hash) => ecc.sign(hash, minerKey) };
const minerScript = bitcoin.payments.p2wpkh({ pubkey: miner.publicKey, network }).output;

const authorization = "Basic " + Buffer.from(`${process.env.BTCD_USER}:${process.env.BTCD_PASSWORD}`).toString("base64");
const btcd = (method, ...params) => asked(process.env.BTCD_URL, method, params, { authorization });

const owned = {}; // account by kind
let doge;
let key; // a private key in no wallet
const coins = []; // unspent: {owner, kind, tx, vout}

const bytes = (hex) => Uint8Array.from(Buffer.from(hex, "hex"));
const pubkey = (owner) => ecc.pointCompress(bytes(owner.publicKey), true);

// mined: btcd takes the transaction by the rules of relaying, and the next block has it.
async function mined(transaction) {
  const id = await btcd("sendrawtransaction", transaction.toHex(), true);
  assert.equal(id, transaction.getId());
  const [hash] = await btcd("generate", 1);
  const block = await btcd("getblock", hash, 1);
  assert.ok(block.tx.includes(id), "in the block");
}

before(async () => {
  const accounts = await wallet("bitcoin", [
    ...kinds.map((kind, i) => account(`BITCOIN_REGTEST_${kind}`, `m/${[44, 49, 84, 48, 86][i]}'/1'/0'/0/0`)),
    account("DOGE_TESTNET", "m/44'/1'/9'/0/0"),
  ]);
  kinds.forEach((kind, i) => (owned[kind] = { kind, ...accounts[i] }));
  doge = { kind: "P2PKH", ...accounts[5] };
  key = { kind: "P2WPKH", ...(await privateKey("bitcoin", "CURVE_SECP256K1", "BITCOIN_REGTEST_P2WPKH")) };
  const owners = [...Object.values(owned), doge, key];
  for (const owner of owners) {
    if (owner === doge) assert.equal(owner.address, derived("DOGE_TESTNET", owner.curve, owner.publicKey));
    owner.output = bitcoinOutput(owner.kind, pubkey(owner), network);
    if (owner !== doge) assert.equal(owner.address, owner.output.address);
  }
  await fund(owners);
});

// fund: from the first block's reward, sixteen coins to every owner and to the miner, in one transaction.
async function fund(owners) {
  const [first] = await btcd("generate", 101);
  const { tx } = await btcd("getblock", first, 1);
  const reward = Transaction.fromHex(await btcd("getrawtransaction", tx[0], 0));
  const psbt = new Psbt({ network }).addInput({ hash: tx[0], index: 0, witnessUtxo: reward.outs[0] });
  const to = [...owners.map((owner) => ({ owner, script: owner.output.output })), { script: minerScript }];
  for (let i = 0; i < 16; i++) {
    for (const { script } of to) psbt.addOutput({ script, value: coin });
  }
  const made = psbt.signInput(0, miner).finalizeAllInputs().extractTransaction(true);
  await mined(made);
  for (let vout = 0; vout < made.outs.length; vout++) coins.push({ owner: to[vout % to.length].owner, tx: made, vout });
}

// take: an unspent coin of the owner, or the miner's.
function take(owner) {
  const at = coins.findIndex((c) => c.owner === owner);
  assert.ok(at >= 0, "money left");
  return coins.splice(at, 1)[0];
}

// The input of a coin with what a PSBT has to say of its kind: the whole transaction before it, which proves the amount, and
// its output; the scripts inside; the key of a taproot output when asked for.
function input(unspent, { internalKey = true, whole = true, output = true } = {}) {
  const { owner, tx, vout } = unspent;
  const fields = { hash: tx.getId(), index: vout, ...(whole && { nonWitnessUtxo: tx.toBuffer() }) };
  if (output && owner?.kind !== "P2PKH") fields.witnessUtxo = tx.outs[vout];
  switch (owner?.kind) {
    case "P2SH":
      return { ...fields, redeemScript: owner.output.redeem.output };
    case "P2WSH":
      return { ...fields, witnessScript: owner.output.redeem.output };
    case "P2TR":
      return { ...fields, ...(internalKey && { tapInternalKey: pubkey(owner).slice(1) }) };
  }
  return fields;
}

// payment: a PSBT of these coins, paid back to the miner. The signatures of taproot prove all amounts by themselves.
function payment(unspent, options) {
  const psbt = new Psbt({ network });
  const whole = unspent.some((c) => c.owner?.kind !== "P2TR");
  for (const c of unspent) psbt.addInput(input(c, { whole, ...options }));
  return psbt.addOutput({ script: minerScript, value: BigInt(unspent.length) * coin - fee });
}

const signedBy = async (owner, psbt, signWith = owner.address) =>
  Psbt.fromHex(await signTransaction("BITCOIN", signWith, psbt.toHex()), { network });

const verifies = (pubkey, hash, signature) =>
  pubkey.length === 32 ? ecc.verifySchnorr(hash, pubkey, signature) : ecc.verify(hash, pubkey, signature, true);

// checked: each input has one signature and no more than it came with, which bitcoinjs finds right.
function checked(psbt, inputs) {
  for (const i of inputs) {
    const { tapKeySig, partialSig, finalScriptSig, finalScriptWitness } = psbt.data.inputs[i];
    assert.equal(finalScriptSig ?? finalScriptWitness, undefined, "not finalised");
    if (tapKeySig) {
      assert.equal(tapKeySig.length, 64);
      assert.equal(partialSig, undefined);
      if (psbt.data.inputs[i].tapInternalKey === undefined) continue; // bitcoinjs cannot check without it; btcd does
    } else {
      assert.equal(partialSig.length, 1);
      assert.equal(partialSig[0].signature.at(-1), Transaction.SIGHASH_ALL);
    }
    assert.ok(psbt.validateSignaturesOfInput(i, verifies), `input ${i}`);
  }
}

// finalised and extracted. The library knows every kind but the bare key in a witness script, whose witness is the
// signature and the script.
function extracted(psbt) {
  for (let i = 0; i < psbt.inputCount; i++) {
    const { witnessScript, tapKeySig } = psbt.data.inputs[i];
    if (witnessScript) {
      psbt.finalizeInput(i, (at, { partialSig, witnessScript }) => ({
        finalScriptWitness: witness([partialSig[0].signature, witnessScript]),
      }));
    } else if (tapKeySig) {
      psbt.data.updateInput(i, { finalScriptWitness: witness([tapKeySig]) });
      psbt.data.clearFinalizedInput(i);
    } else {
      psbt.finalizeInput(i);
    }
  }
  return psbt.extractTransaction();
}

// A witness as a PSBT holds it; every part here is shorter than 253 bytes.
const witness = (parts) => Uint8Array.from([parts.length, ...parts.flatMap((part) => [part.length, ...part])]);

const unsigned = (psbt, i) => assert.ok(!psbt.data.inputs[i].partialSig && !psbt.data.inputs[i].tapKeySig, `input ${i}`);

for (const kind of kinds) {
  test(`${kind}: one coin, then three in one transaction`, async () => {
    const owner = owned[kind];
    for (const n of [1, 3]) {
      const psbt = await signedBy(owner, payment(Array.from({ length: n }, () => take(owner))));
      checked(psbt, [...Array(n).keys()]);
      await mined(extracted(psbt));
    }
  });
}

test("P2TR without the internal key, which its address gives away to whoever owns it", async () => {
  const psbt = await signedBy(owned.P2TR, payment([take(owned.P2TR)], { internalKey: false }));
  checked(psbt, [0]);
  await mined(extracted(psbt));
});

test("every kind with the whole transaction before it and nothing else of its output", async () => {
  for (const kind of kinds) {
    const psbt = await signedBy(owned[kind], payment([take(owned[kind])], { whole: true, output: false }));
    checked(psbt, [0]);
    await mined(extracted(psbt));
  }
});

test("a private key in no wallet, named by its address and by its id", async () => {
  for (const signWith of [key.address, key.privateKeyId]) {
    await mined(extracted(await signedBy(key, payment([take(key)]), signWith)));
  }
});

test("every kind in one transaction, each signed by its own address and leaving the others alone", async () => {
  let psbt = payment(kinds.map((kind) => take(owned[kind])));
  for (const [i, kind] of kinds.entries()) {
    psbt = await signedBy(owned[kind], psbt);
    checked(psbt, [...Array(i + 1).keys()]);
    for (let later = i + 1; later < kinds.length; later++) unsigned(psbt, later);
  }
  await mined(extracted(psbt));
});

test("inputs of another, signed before and after; outputs of every kind", async () => {
  const psbt = payment([take(), take(owned.P2TR), take(), take(owned.P2WSH)]);
  for (const kind of kinds) psbt.addOutput({ script: owned[kind].output.output, value: 1_000n });
  psbt.addOutput({ script: bitcoin.payments.embed({ data: [Buffer.from("note")] }).output, value: 0n });
  // The miner's output pays for those.
  psbt.data.globalMap.unsignedTx.tx.outs[0].value -= 5_000n;
  psbt.signInput(0, miner);
  const before = Buffer.from(psbt.data.inputs[0].partialSig[0].signature);
  let signed = await signedBy(owned.P2WSH, await signedBy(owned.P2TR, psbt));
  assert.deepEqual(Buffer.from(signed.data.inputs[0].partialSig[0].signature), before);
  unsigned(signed, 2);
  signed.signInput(2, miner);
  checked(signed, [0, 1, 2, 3]);
  await mined(extracted(signed));
});

test("the kind of signature named, when it is the one that is made", async () => {
  const all = payment([take(owned.P2WPKH), take(owned.P2PKH)]);
  all.updateInput(0, { sighashType: Transaction.SIGHASH_ALL }).updateInput(1, { sighashType: Transaction.SIGHASH_ALL });
  await mined(extracted(await signedBy(owned.P2PKH, await signedBy(owned.P2WPKH, all))));
  const usual = payment([take(owned.P2TR)]);
  usual.data.inputs[0].sighashType = Transaction.SIGHASH_DEFAULT; // which is 0, and updateInput does not take it
  await mined(extracted(await signedBy(owned.P2TR, usual)));
});

test("an older version, a lock and a sequence that makes it count", async () => {
  const psbt = payment([take(owned.P2PKH), take(owned.P2TR), take(owned.P2WSH)]).setVersion(1).setLocktime(100);
  for (let i = 0; i < 3; i++) psbt.setInputSequence(i, 0xfffffffd);
  let signed = psbt;
  for (const kind of ["P2PKH", "P2TR", "P2WSH"]) signed = await signedBy(owned[kind], signed);
  const made = extracted(signed);
  assert.deepEqual([made.version, made.locktime, made.ins[1].sequence], [1, 100, 0xfffffffd]);
  await mined(made);
});

test("fields that mean nothing to the signer come back as they went", async () => {
  const psbt = payment([take(owned.P2WPKH)]);
  const unknown = { key: Buffer.from("fc0463616665", "hex"), value: Buffer.from("kept") };
  psbt.addUnknownKeyValToGlobal(unknown).addUnknownKeyValToInput(0, unknown).addUnknownKeyValToOutput(0, unknown);
  psbt.updateInput(0, { bip32Derivation: [{ masterFingerprint: Buffer.alloc(4, 1), path: "m/84'/1'/0'/0/0", pubkey: pubkey(owned.P2WPKH) }] });
  const signed = await signedBy(owned.P2WPKH, psbt);
  for (const map of [signed.data.globalMap, signed.data.inputs[0], signed.data.outputs[0]]) {
    assert.deepEqual(map.unknownKeyVals?.map((kv) => Buffer.from(kv.value).toString()), ["kept"]);
  }
  assert.equal(signed.data.inputs[0].bip32Derivation[0].path, "m/84'/1'/0'/0/0");
  await mined(extracted(signed));
});

test("digests signed raw: BIP-340 under the taproot address, ECDSA under the others, and a Dogecoin address", async () => {
  const spend = (c) => {
    const tx = new Transaction();
    tx.version = 2;
    tx.addInput(Uint8Array.from(c.tx.getHash()), c.vout);
    tx.addOutput(minerScript, coin - fee);
    return tx;
  };
  const c = take(owned.P2TR);
  const taproot = spend(c);
  const digest = taproot.hashForWitnessV1(0, [c.tx.outs[c.vout].script], [coin], Transaction.SIGHASH_DEFAULT);
  const { r, s, v } = await signBytes(owned.P2TR.address, digest, "NO_OP");
  assert.equal(v, "00");
  assert.ok(ecc.verifySchnorr(digest, owned.P2TR.output.pubkey, bytes(r + s)));
  taproot.setWitness(0, [bytes(r + s)]);
  await mined(taproot);

  for (const owner of [owned.P2PKH, doge]) {
    const c = take(owner);
    const tx = spend(c);
    const digest = tx.hashForSignature(0, c.tx.outs[c.vout].script, Transaction.SIGHASH_ALL);
    const { r, s } = await signBytes(owner.address, digest, "NO_OP");
    const signature = bitcoin.script.signature.encode(bytes(r + s), Transaction.SIGHASH_ALL);
    tx.setInputScript(0, bitcoin.payments.p2pkh({ pubkey: pubkey(owner), signature }).input);
    await mined(tx);
  }
});

test("two PSBTs of which each lies about the other's amount: not signed, and of no use where taproot signs", async () => {
  const lie = 10_000n;
  const lying = (pair, liar, options) => {
    const psbt = new Psbt({ network });
    for (const [i, c] of pair.entries()) {
      const fields = input(c, i === liar ? { whole: false, ...options } : { whole: c.owner.kind !== "P2TR" });
      if (i === liar) fields.witnessUtxo = { script: c.tx.outs[c.vout].script, value: lie };
      psbt.addInput(fields);
    }
    return psbt.addOutput({ script: minerScript, value: coin });
  };
  for (const kind of ["P2SH", "P2WPKH", "P2WSH"]) {
    const pair = [0, 1].map((n) => coins.filter((c) => c.owner === owned[kind])[n]);
    for (const liar of [0, 1]) {
      const sign = (options) => () => signTransaction("BITCOIN", owned[kind].address, lying(pair, liar, options).toHex());
      await refused(new RegExp(`input ${liar}: its amount is not proven: add its non_witness_utxo`), sign());
      await refused(new RegExp(`input ${liar}: witness_utxo and non_witness_utxo differ`), sign({ whole: true }));
    }
  }
  const pair = [take(owned.P2TR), take(owned.P2TR)];
  const first = await signedBy(owned.P2TR, lying(pair, 1));
  const second = await signedBy(owned.P2TR, lying(pair, 0));
  const both = Psbt.fromHex(first.toHex(), { network });
  both.data.inputs[1].tapKeySig = second.data.inputs[1].tapKeySig;
  const made = extracted(both);
  await assert.rejects(() => btcd("sendrawtransaction", made.toHex(), true), /sendrawtransaction/);
});

test("refused by btcd: a signature over another transaction", async () => {
  const tx = extracted(await signedBy(owned.P2WPKH, payment([take(owned.P2WPKH)])));
  tx.outs[0].value -= 1n;
  await assert.rejects(() => btcd("sendrawtransaction", tx.toHex(), true), /sendrawtransaction/);
});

test("refused: PSBTs that hide their amounts, carry the wrong ones or are not what they seem", async () => {
  const owner = owned.P2WPKH;
  const made = (kind, change) => {
    const fields = input(coins.find((c) => c.owner === owned[kind]));
    change(fields);
    const psbt = new Psbt({ network }).addInput(fields).addOutput({ script: minerScript, value: coin - fee });
    return () => signTransaction("BITCOIN", owned[kind].address, psbt.toHex());
  };
  const otherTx = new Transaction();
  otherTx.addInput(Buffer.alloc(32, 9), 0);
  otherTx.addOutput(owned.P2PKH.output.output, 1n);
  const hex = payment([coins.find((c) => c.owner === owner)]).toHex();
  const raw = (psbtHex) => () => signTransaction("BITCOIN", owner.address, psbtHex);
  const cases = {
    "P2TR without its output": made("P2TR", (i) => {
      delete i.witnessUtxo;
      delete i.nonWitnessUtxo;
    }),
    ...Object.fromEntries(["P2PKH", "P2SH", "P2WPKH", "P2WSH"].map((kind) =>
      [`${kind} without the transaction before`, made(kind, (i) => delete i.nonWitnessUtxo)])),
    "P2PKH with an output alone": made("P2PKH", (i) => {
      delete i.nonWitnessUtxo;
      i.witnessUtxo = { script: owned.P2PKH.output.output, value: coin };
    }),
    "P2PKH with another transaction": made("P2PKH", (i) => (i.nonWitnessUtxo = otherTx.toBuffer())),
    "P2SH without its inner script": made("P2SH", (i) => delete i.redeemScript),
    "P2SH with another inner script": made("P2SH", (i) => (i.redeemScript = owned.P2WPKH.output.output)),
    "P2WSH without its inner script": made("P2WSH", (i) => delete i.witnessScript),
    "P2WSH with another inner script": made("P2WSH", (i) => (i.witnessScript = owned.P2PKH.output.output)),
    "P2TR with a script tree": made("P2TR", (i) => (i.tapMerkleRoot = Buffer.alloc(32, 1))),
    "P2TR with another internal key": made("P2TR", (i) => (i.tapInternalKey = miner.publicKey.slice(1))),
    "a signature of less than all": made("P2WPKH", (i) => (i.sighashType = Transaction.SIGHASH_SINGLE)),
    "a signature of none": made("P2TR", (i) => (i.sighashType = Transaction.SIGHASH_NONE)),
    "anyone can pay": made("P2PKH", (i) => (i.sighashType = Transaction.SIGHASH_ALL | Transaction.SIGHASH_ANYONECANPAY)),
    "a byte behind it": raw(hex + "00"),
    "cut short": raw(hex.slice(0, -2)),
    "a PSBT of version 2": raw(
      Psbt.fromHex(hex).addUnknownKeyValToGlobal({ key: Buffer.of(0xfb), value: Buffer.of(2, 0, 0, 0) }).toHex(),
    ),
    "another magic": raw("00" + hex.slice(2)),
    "a bare transaction": raw(Psbt.fromHex(hex).data.getTransaction().toString("hex")),
    "base64": raw(Buffer.from(hex, "hex").toString("base64")),
    "nothing": raw(""),
  };
  for (const [what, call] of Object.entries(cases)) {
    await refused(/unsignedTransaction/i, call).catch((error) => {
      throw new Error(`${what}: ${error.message}`);
    });
  }
});

test("refused: the key of no input, a key of another chain, of another organization, of nobody", async () => {
  const hex = payment([coins.find((c) => c.owner === owned.P2WPKH)]).toHex();
  const [ether, solana] = await wallet("bitcoin refused", [
    account("ETHEREUM", "m/44'/60'/0'/0/0"), account("SOLANA", "m/44'/501'/0'/0'"),
  ]);
  await refused(/no input belongs to the signing key/, () => signTransaction("BITCOIN", owned.P2TR.address, hex));
  await refused(/owns no input/, () => signTransaction("BITCOIN", ether.address, hex));
  await refused(/a key on CURVE_ED25519 cannot sign it/, () => signTransaction("BITCOIN", solana.address, hex));
  const elsewhere = await addressElsewhere("BITCOIN_REGTEST_P2WPKH", "m/84'/1'/0'/0/0");
  await refused(/(wallet account|private key) not found/, () => signTransaction("BITCOIN", elsewhere, hex), 5);
  await refused(/(wallet account|private key) not found/, () => signTransaction("BITCOIN", "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080", hex), 5);
});

test("all that is left, in one transaction", async () => {
  const left = coins.filter((c) => kinds.some((kind) => c.owner === owned[kind]));
  assert.ok(left.length > 15, `${left.length} coins`);
  let psbt = payment(left);
  for (const kind of kinds) psbt = await signedBy(owned[kind], psbt);
  checked(psbt, left.keys());
  await mined(extracted(psbt));
});
