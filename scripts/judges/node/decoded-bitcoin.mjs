// Bitcoin and Dogecoin: what approvers are shown of PSBTs, held against bitcoinjs-lib.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as ecc from "@bitcoinerlab/secp256k1";
import * as bitcoin from "bitcoinjs-lib";
import { bitcoinNetworks, bitcoinOutput } from "./derive.mjs";
import { account } from "./setting.mjs";
import { View, amount, bytes, judged, sha256, transaction } from "./view.mjs";

const { Psbt, Transaction } = bitcoin;
console.warn = () => {}; // about addresses of versions to come
const kinds = ["P2PKH", "P2SH", "P2WPKH", "P2WSH", "P2TR"];
const coin = 10n ** 8n;
const networks = {
  MAINNET: { network: bitcoinNetworks.MAINNET, name: "Bitcoin", unit: "sat", symbol: "BTC", most: 21_000_000n * coin },
  TESTNET: { network: bitcoinNetworks.TESTNET, name: "Bitcoin testnet", unit: "sat", symbol: "tBTC", most: 21_000_000n * coin },
  REGTEST: { network: bitcoinNetworks.REGTEST, name: "Bitcoin regtest", unit: "sat", symbol: "tBTC", most: 21_000_000n * coin },
  DOGE: { network: { ...bitcoin.networks.bitcoin, pubKeyHash: 0x1e, scriptHash: 0x16, bech32: "none" }, name: "Dogecoin", unit: "koinu", symbol: "DOGE", most: 10_000_000_000n * coin },
};

// Two accounts of each kind on each network, and what each is.
const wanted = [0, 1].flatMap((n) => [
  ...["MAINNET", "TESTNET", "REGTEST"].flatMap((net, i) => kinds.map((kind, k) => [net, kind, account(`BITCOIN_${net}_${kind}`, `m/${[44, 49, 84, 48, 86][k]}'/${i}'/${n}'/0/0`)])),
  ["DOGE", "P2PKH", account("DOGE_MAINNET", `m/44'/3'/${n}'/0/0`)],
]);
const ownersOf = (accounts) => accounts.map((a, i) => {
  const [net, kind] = wanted[i];
  const pubkey = ecc.pointCompress(bytes(a.publicKey), true);
  const output = bitcoinOutput(kind, pubkey, networks[net].network);
  assert.equal(output.address, a.address);
  return { net, kind, pubkey, output, address: a.address };
});

// Keys of nobody here. They are few, as the library takes its time to make one.
const points = Array.from({ length: 32 }, (_, i) => ecc.pointFromScalar(bytes(sha256(`key ${i}`)), true));
const point = (random) => random.one(points).slice(1);
const concat = (...parts) => Buffer.concat(parts.map((part) => Buffer.from(part)));
const { compile } = bitcoin.script;
const OPS = bitcoin.opcodes;

// A script of any type, of nobody here.
function strangeScript(random, net) {
  const p2pkh = () => concat([0x76, 0xa9, 20], random.bytes(20), [0x88, 0xac]);
  const p2sh = () => concat([0xa9, 20], random.bytes(20), [0x87]);
  const push = () => random.bytes(random.one([0, 2, 20, 75, 76, 80, 200, 255, 256, 300]));
  const others = [
    p2pkh, p2sh,
    () => compile([OPS.OP_RETURN, push()]),
    () => compile([OPS.OP_RETURN, Buffer.from(random.text().slice(0, 400))]),
    () => compile([OPS.OP_RETURN, push(), push(), push()]),
    () => compile([OPS.OP_RETURN, OPS.OP_13, push()]),
    () => concat([OPS.OP_RETURN], random.one([[], [0x4c], [0x4c, 5, 1], [0x4d, 1], [0x4b, 1, 2]])), // cut short
    () => compile([concat([2], point(random)), OPS.OP_CHECKSIG]),
    () => compile([OPS.OP_1, concat([2], point(random)), concat([3], point(random)), OPS.OP_2, OPS.OP_CHECKMULTISIG]),
    () => random.bytes(random.below(40)),
    () => Buffer.alloc(0),
  ];
  const witnesses = [
    () => concat([0, 20], random.bytes(20)),
    () => concat([0, 32], random.bytes(32)),
    () => concat([0x51, 32], point(random)),
    () => concat([0x51, 2], [0x4e, 0x73]), // pay to anchor
    () => {
      const program = random.bytes(random.between(2, 40));
      return concat([random.between(0x52, 0x60), program.length], program);
    },
    () => concat([0, 21], random.bytes(21)),
  ];
  return random.one(net === "DOGE" ? others : [...others, ...witnesses, ...witnesses])();
}

function psbtOf(random, owners, signer) {
  const { network, most } = networks[signer.net];
  const psbt = new Psbt({ network, maximumFeeRate: 1e9 }).setVersion(random.one([1, 2, 2, 3])).setLocktime(Number(random.one([0n, 0n, 1n, 499_999_999n, 500_000_000n, random.number(32)])));
  const ours = owners.filter((o) => o.net === signer.net);
  const spenders = random.times(random.one([0, 0, 1, 2, 5]), () => random.one([signer, random.one(ours), null]));
  spenders.splice(random.below(spenders.length + 1), 0, signer);
  let total = 0n;
  for (const owner of spenders) {
    const previous = new Transaction();
    previous.version = 2;
    previous.addInput(random.bytes(32), random.below(5));
    const vout = random.below(3);
    const value = random.one([0n, 1n, 546n, random.number(40), (most - total) / 2n]);
    const spendable = total + value > most ? 0n : value;
    total += spendable;
    const script = owner ? owner.output.output : strangeScript(random, signer.net);
    for (let i = 0; i < 3; i++) previous.addOutput(i === vout ? script : random.bytes(22), i === vout ? spendable : random.number(40));
    const proven = signer.kind !== "P2TR" || random.is(50);
    const isProgram = script.length >= 4 && (script[0] === 0 || (script[0] > 0x50 && script[0] <= 0x60)) && script[1] === script.length - 2;
    const nested = script.length === 23 && script[0] === 0xa9 && script[22] === 0x87;
    const witness = signer.net !== "DOGE" && (isProgram || nested) && random.is(60);
    psbt.addInput({
      hash: previous.getId(), index: vout, sequence: Number(random.one([0xffffffffn, 0xfffffffdn, 0n, random.number(32)])),
      ...((proven || !witness) && { nonWitnessUtxo: previous.toBuffer() }), ...(witness && { witnessUtxo: { script, value: spendable } }),
      ...(owner?.kind === "P2SH" && { redeemScript: owner.output.redeem.output }), ...(owner?.kind === "P2WSH" && { witnessScript: owner.output.redeem.output }),
      ...(owner?.kind === "P2TR" && random.is(50) && { tapInternalKey: owner.pubkey.slice(1) }),
    });
  }
  const outputs = random.is(2) ? 600 : random.one([1, 1, 2, 3, 8]);
  let left = random.one([total, total - total / 50n, total / 2n]);
  for (let i = 0; i < outputs; i++) {
    const value = i === outputs - 1 ? left : random.one([0n, 1n, left / 2n, 330n]) % (left + 1n);
    left -= value;
    const owner = random.is(30) ? random.one([signer, random.one(ours)]) : null;
    const script = owner ? owner.output.output : strangeScript(random, signer.net);
    psbt.addOutput({ script, value: random.is(90) ? value : 0n });
    const derivation = { masterFingerprint: random.bytes(4), path: "m/84'/0'/0'/1/0", pubkey: random.one(points) };
    if (!random.is(15)) continue;
    if (script.length !== 34 || script[0] !== 0x51) psbt.updateOutput(i, { bip32Derivation: [derivation] });
    else psbt.updateOutput(i, random.is(50) ? { tapInternalKey: point(random) } : { tapBip32Derivation: [{ ...derivation, pubkey: point(random), leafHashes: [] }] });
  }
  return psbt;
}

function addressOf(script, network) {
  try {
    return bitcoin.address.fromOutputScript(script, network);
  } catch {
    const [version, program] = bitcoin.script.decompile(script) ?? [];
    const isProgram = version > 0x50 && version <= 0x60 && script.length === program?.length + 2 && program.length >= 2 && program.length <= 40;
    return isProgram && network.bech32 !== "none" ? bitcoin.address.toBech32(program, version - 0x50, network.bech32) : undefined;
  }
}

const same = (a, b) => Buffer.from(a).equals(Buffer.from(b));

// The outputs that are spent, as the library has them.
function spentBy(psbt) {
  return psbt.data.inputs.map((input, i) => {
    if (input.witnessUtxo) return input.witnessUtxo;
    const out = Transaction.fromBuffer(input.nonWitnessUtxo).outs[psbt.txInputs[i].index];
    return { script: out.script, value: out.value };
  });
}

function bitcoinShown(raw, owners, signer) {
  const { network, name, unit, symbol } = networks[signer.net];
  const view = new View("BITCOIN_TRANSACTION", [signer.address, ...owners.map((o) => o.address)]);
  const psbt = Psbt.fromBuffer(raw, { network });
  const tx = Transaction.fromBuffer(psbt.data.globalMap.unsignedTx.toBuffer());
  const spent = spentBy(psbt);
  const digests = tx.ins.flatMap((_, i) => {
    if (!same(spent[i].script, signer.output.output)) return [];
    const payToHash = bitcoin.payments.p2pkh({ pubkey: signer.pubkey, network }).output;
    const hash = {
      P2PKH: () => tx.hashForSignature(i, spent[i].script, Transaction.SIGHASH_ALL),
      P2SH: () => tx.hashForWitnessV0(i, payToHash, spent[i].value, Transaction.SIGHASH_ALL),
      P2WPKH: () => tx.hashForWitnessV0(i, payToHash, spent[i].value, Transaction.SIGHASH_ALL),
      P2WSH: () => tx.hashForWitnessV0(i, signer.output.redeem.output, spent[i].value, Transaction.SIGHASH_ALL),
      P2TR: () => tx.hashForWitnessV1(i, spent.map((s) => s.script), spent.map((s) => s.value), Transaction.SIGHASH_DEFAULT),
    }[signer.kind]();
    return [Buffer.from(hash).toString("hex")];
  });
  view.signed("PSBT", raw, signer.kind === "P2TR" ? "BIP340_TAPROOT" : "ECDSA_SECP256K1", digests, signer.address);
  const money = (value) => amount(value, unit, symbol, 8);
  let leaves = 0n;
  const inputs = tx.ins.map(({ hash, index }, i) => {
    const address = addressOf(spent[i].script, network);
    const own = address !== undefined && view.isOwn(address);
    if (own) leaves += spent[i].value;
    else view.warn("OTHER_PARTIES", `parts.0.inputs.${i}`);
    return { txid: Buffer.from(hash).reverse().toString("hex"), vout: String(index), value: money(spent[i].value), ...(address && { address }), own };
  });
  const outputs = tx.outs.map(({ script, value }, i) => {
    const at = `parts.0.outputs.${i}`;
    const address = addressOf(script, network);
    const own = address !== undefined && view.isOwn(address);
    const shown = { value: money(value), own };
    if (own) leaves -= value;
    if (address) {
      shown.address = address;
      view.party(address, at);
    } else if (script[0] === OPS.OP_RETURN) {
      shown.kind = "OP_RETURN";
      if (value) view.warn("ADDRESS_BURN", at);
      const chunks = bitcoin.script.decompile(script.slice(1));
      if (chunks?.every((chunk) => chunk === 0 || typeof chunk !== "number")) {
        const data = Buffer.concat(chunks.map((chunk) => (chunk === 0 ? Buffer.alloc(0) : Buffer.from(chunk))));
        shown.data = { hex: view.data(data, `${at}.data.hex`) };
        const text = data.toString();
        if (data.length && Buffer.from(text).equals(data)) shown.data.text = view.text(text, `${at}.data.text`);
      } else {
        shown.script = view.piece(Buffer.from(script));
        if (script.length > 256) view.warn("CUT", `${at}.script`);
      }
    } else {
      Object.assign(shown, view.unreadable("CODE", Buffer.from(script), at));
    }
    const { bip32Derivation, tapBip32Derivation, tapInternalKey } = psbt.data.outputs[i];
    if ((bip32Derivation ?? tapBip32Derivation ?? tapInternalKey) && !own) {
      shown.claimsOwn = true;
      view.warn("CHANGE_FALSE", at);
    }
    return shown;
  });
  const paid = tx.outs.reduce((sum, out) => sum + out.value, 0n);
  const fee = spent.reduce((sum, s) => sum + s.value, 0n) - paid;
  if (fee * 10n > paid) view.warn("FEE_HIGH", "parts.0.fee");
  const segregated = spent.every(({ script }) => script.length >= 4 && script.length <= 42 && (script[0] === 0 || (script[0] > 0x50 && script[0] <= 0x60)) && script[1] === script.length - 2);
  Object.assign(view.part, {
    network: { name, nameSource: "BUILTIN" }, version: String(tx.version), ...(segregated && { txid: tx.getId() }), inputs, outputs,
    spent: money(leaves), fee: { ...money(fee), proven: true },
    ...(tx.locktime && { locktime: { value: String(tx.locktime), unit: tx.locktime < 500_000_000 ? "block" : "s" } }),
  });
  view.title = `Send ${symbol}`;
  return view;
}

test("bitcoinjs-lib: PSBTs of every kind of input and output", () => {
  const known = new Map();
  return judged("bitcoin", wanted.map((w) => w[2]), (random, accounts) => {
    if (!known.has(accounts)) known.set(accounts, ownersOf(accounts));
    const owners = known.get(accounts);
    const signer = random.one(owners);
    const raw = psbtOf(random, owners, signer).toBuffer();
    return [transaction("BITCOIN", signer.address, raw), bitcoinShown(Buffer.from(raw), owners, signer)];
  });
});
