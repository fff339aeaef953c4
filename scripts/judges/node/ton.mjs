// The TON virtual machine runs the real code of the wallet contracts, which check what Cloister signs before they pay.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { SendMode, beginCell, internal, toNano } from "@ton/core";
import { Blockchain } from "@ton/sandbox";
import { WalletContractV3R2, WalletContractV4, WalletContractV5R1 } from "@ton/ton";
import { derived } from "./derive.mjs";
import { account, addressElsewhere, privateKey, refused, signBytes, wallet } from "./setting.mjs";

const contracts = { TON_V3R2: WalletContractV3R2, TON_V4R2: WalletContractV4, TON_V5R1: WalletContractV5R1 };
const chain = await Blockchain.create();
const friend = (await chain.treasury("friend")).address;
let accounts;

before(async () => {
  accounts = await wallet("ton", Object.keys(contracts).map((format, i) => account(format, `m/44'/607'/${i}'`)));
});

const balance = async (address) => (await chain.getContract(address)).balance;

// The contract of a key, opened in the machine with money at its address, which is the one that Cloister derived.
async function opened(format, { publicKey, address }) {
  const contract = contracts[format].create({ workchain: 0, publicKey: Buffer.from(publicKey, "hex") });
  assert.equal(contract.address.toString({ bounceable: false }), address);
  const bank = await chain.treasury("bank");
  await bank.send({ to: contract.address, value: toNano("10"), bounce: false });
  return chain.openContract(contract);
}

const signer = (signWith) => async (message) => {
  const { r, s, v } = await signBytes(signWith, message.hash(), "NOT_APPLICABLE");
  assert.equal(v, "00");
  return Buffer.from(r + s, "hex");
};

const transfer = (open, signer, messages) =>
  open.getSeqno().then((seqno) => open.createTransfer({ seqno, signer, messages, sendMode: SendMode.PAY_GAS_SEPARATELY }));

for (const [i, format] of Object.keys(contracts).entries()) {
  test(`${format}: deployed by its first transfer, then two payments at once`, async () => {
    const own = accounts[i];
    assert.equal(own.address, derived(format, own.curve, own.publicKey));
    const open = await opened(format, own);
    const had = await balance(friend);
    const pay = (value, text) =>
      internal({ to: friend, value: toNano(value), bounce: false, body: beginCell().storeUint(0, 32).storeStringTail(text).endCell() });
    await open.send(await transfer(open, signer(own.address), [pay("1", "one")]));
    assert.equal(await open.getSeqno(), 1);
    await open.send(await transfer(open, signer(own.address), [pay("2", "two"), pay("3", "three")]));
    assert.equal(await open.getSeqno(), 2);
    const came = (await balance(friend)) - had;
    assert.ok(came > toNano("5.9") && came <= toNano("6"), `${came}`);
  });

  test(`${format}: a private key in no wallet; another's signature is not taken`, async () => {
    const own = await privateKey(`ton ${format}`, "CURVE_ED25519", format);
    const open = await opened(format, own);
    const pay = internal({ to: friend, value: toNano("1"), bounce: false });
    await open.send(await transfer(open, signer(own.privateKeyId), [pay]));
    assert.equal(await open.getSeqno(), 1);
    const forged = await transfer(open, signer(accounts[i].address), [pay]);
    await assert.rejects(() => open.send(forged));
    assert.equal(await open.getSeqno(), 1);
  });
}

test("refused: a hash function on this curve, the address of another organization", async () => {
  const hash = Buffer.alloc(32, 1);
  for (const hashFunction of ["NO_OP", "SHA256", "KECCAK256"]) {
    await refused(/invalid hash function/, () => signBytes(accounts[0].address, hash, hashFunction));
  }
  const elsewhere = await addressElsewhere("TON_V4R2", "m/44'/607'/0'");
  await refused(/(wallet account|private key) not found/, () => signBytes(elsewhere, hash, "NOT_APPLICABLE"), 5);
});
