// tronweb makes the transactions, from a block header given by hand, and judges what Cloister signs: it recovers the signer of
// each, and of messages and typed data.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { TronWeb, Trx, utils } from "tronweb";
import { derived } from "./derive.mjs";
import { account, addressElsewhere, refused, signBytes, signTransaction, wallet } from "./setting.mjs";

const tronWeb = new TronWeb({ fullHost: "http://127.0.0.1:1" }); // nobody is there, nobody is asked
const builder = tronWeb.transactionBuilder;
const blockHeader = { ref_block_bytes: "1a2b", ref_block_hash: "0102030405060708", expiration: 1_893_456_060_000, timestamp: 1_893_456_000_000 };
const friend = TronWeb.address.fromHex("41" + "fe".repeat(20));
const contract = TronWeb.address.fromHex("41" + "c0".repeat(20));
let owner;

before(async () => {
  const [made] = await wallet("tron", [account("TRON", "m/44'/195'/0'")]);
  assert.equal(made.address, derived("TRON", made.curve, made.publicKey));
  owner = made.address;
});

const permission = (type, name, id) => ({
  type, permission_name: name, threshold: 1, keys: [{ address: TronWeb.address.toHex(friend), weight: 1 }],
  ...(id !== undefined && { id, operations: "7fff1fc0033e0000000000000000000000000000000000000000000000000000" }),
});

// Every contract that is read.
const transactions = {
  "TRX to another": () => builder.sendTrx(friend, 1_000_000, owner, { blockHeader }),
  "under a permission": () => builder.sendTrx(friend, 2 ** 40, owner, { blockHeader, permissionId: 2 }),
  "a token's transfer": async () => {
    const parameters = [{ type: "address", value: friend }, { type: "uint256", value: "123456789012345678901234567890" }];
    const options = { blockHeader, txLocal: true, feeLimit: 30_000_000, callValue: 0 };
    return (await builder.triggerSmartContract(contract, "transfer(address,uint256)", options, parameters, owner)).transaction;
  },
  "a call with TRX and a token": async () => {
    const options = { blockHeader, txLocal: true, feeLimit: 1_000_000, callValue: 5, tokenValue: 6, tokenId: 1000001 };
    return (await builder.triggerSmartContract(contract, "deposit()", options, [], owner)).transaction;
  },
  "energy frozen": () => builder.freezeBalanceV2(1_000_000, "ENERGY", owner, { blockHeader }),
  "bandwidth unfrozen": () => builder.unfreezeBalanceV2(1_000_000, "BANDWIDTH", owner, { blockHeader }),
  "energy lent": () => builder.delegateResource(1_000_000, friend, "ENERGY", owner, true, 100, { blockHeader }),
  "energy taken back": () => builder.undelegateResource(1_000_000, friend, "ENERGY", owner, { blockHeader }),
  "permissions changed": () =>
    builder.updateAccountPermissions(owner, permission(0, "owner"), null, [permission(2, "active0", 2)], { blockHeader }),
  "a note attached": async () => {
    const transaction = await builder.sendTrx(friend, 1, owner, { blockHeader });
    return builder.addUpdateData(transaction, "note, Grüße", "utf8", { txLocal: true });
  },
};

for (const [name, made] of Object.entries(transactions)) {
  test(`TRANSACTION_TYPE_TRON: ${name}`, async () => {
    const transaction = await made();
    const signed = await signTransaction("TRON", owner, transaction.raw_data_hex);
    // The whole message, as a node takes it: tronweb's own protobuf reads it back.
    const message = globalThis.TronWebProto.Transaction.deserializeBinary(Buffer.from(signed, "hex"));
    assert.equal(Buffer.from(message.getRawData().serializeBinary()).toString("hex"), transaction.raw_data_hex);
    assert.equal(message.getSignatureList().length, 1);
    assert.equal(Buffer.from(message.serializeBinary()).toString("hex"), signed);
    const signature = [Buffer.from(message.getSignatureList_asU8()[0]).toString("hex")];
    assert.equal(signature[0].length, 130);
    assert.equal(Trx.ecRecover({ ...transaction, signature }), owner);
    const other = await builder.sendTrx(friend, 77, owner, { blockHeader });
    assert.notEqual(Trx.ecRecover({ ...other, signature }), owner);
  });
}

test("signed raw: the same bytes under SHA-256, r and s and v put together", async () => {
  const transaction = await builder.sendTrx(friend, 1_000_000, owner, { blockHeader });
  const { r, s, v } = await signBytes(owner, Buffer.from(transaction.raw_data_hex, "hex"), "SHA256");
  assert.equal(Trx.ecRecover({ ...transaction, signature: [r + s + v] }), owner);
  const digest = await signBytes(owner, Buffer.from(transaction.txID, "hex"), "NO_OP");
  assert.equal(Trx.ecRecover({ ...transaction, signature: [digest.r + digest.s + digest.v] }), owner);
});

test("messages and typed data", async () => {
  for (const message of ["hello", "Grüße 世界", ""]) {
    const body = Buffer.from(message);
    const prefixed = Buffer.concat([Buffer.from(`\x19TRON Signed Message:\n${body.length}`), body]);
    const { r, s, v } = await signBytes(owner, prefixed, "KECCAK256");
    assert.equal(await tronWeb.trx.verifyMessageV2(message, `0x${r}${s}${v === "00" ? "1b" : "1c"}`), owner);
  }
  const domain = { name: "Tron", version: "1", chainId: "0x2b6653dc", verifyingContract: contract };
  const types = { Order: [{ name: "to", type: "address" }, { name: "amount", type: "uint256" }] };
  const value = { to: friend, amount: "5" };
  const digest = utils._TypedDataEncoder.hash(domain, types, value);
  const { r, s, v } = await signBytes(owner, Buffer.from(digest.slice(2), "hex"), "NO_OP");
  assert.ok(Trx.verifyTypedData(domain, types, value, `0x${r}${s}${v === "00" ? "1b" : "1c"}`, owner));
});

test("refused: contracts that are not read, and bytes that are not canonical", async () => {
  const good = (await builder.sendTrx(friend, 1_000_000, owner, { blockHeader })).raw_data_hex;
  const unread = {
    "a vote": await builder.vote({ [friend]: 5 }, owner, { blockHeader }),
    "a token of the old kind": await builder.sendToken(friend, 5, "1000001", owner, { blockHeader }),
    "a withdrawal": await builder.withdrawExpireUnfreeze(owner, { blockHeader }),
    "a new account": await builder.createAccount(friend, owner, { blockHeader }),
  };
  const cases = {
    ...Object.fromEntries(Object.entries(unread).map(([name, { raw_data_hex }]) => [name, raw_data_hex])),
    "a byte behind it": good + "00",
    "a field that nobody knows": good + "f87f01",
    "cut short": good.slice(0, -2),
    "no contract": "0a021a2b22080102030405060708",
    "twice": good + good,
    "nothing": "",
  };
  for (const [what, hex] of Object.entries(cases)) {
    await refused(/unsignedTransaction/i, () => signTransaction("TRON", owner, hex)).catch((error) => {
      throw new Error(`${what}: ${error.message}`);
    });
  }
});

test("refused: a key of another chain, of another organization", async () => {
  const { raw_data_hex } = await builder.sendTrx(friend, 1_000_000, owner, { blockHeader });
  const [solana] = await wallet("tron refused", [account("SOLANA", "m/44'/501'/0'/0'")]);
  await refused(/secp256k1/, () => signTransaction("TRON", solana.address, raw_data_hex));
  const elsewhere = await addressElsewhere("TRON", "m/44'/195'/0'");
  await refused(/(wallet account|private key) not found/, () => signTransaction("TRON", elsewhere, raw_data_hex), 5);
});
