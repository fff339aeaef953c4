// viem/tempo makes transactions of Tempo and judges what Cloister signs through @turnkey/viem. There is no node to ask.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { createAccount, createAccountWithAddress } from "@turnkey/viem";
import { concatHex, fromRlp, keccak256, recoverAddress, toRlp } from "viem";
import { Transaction } from "viem/tempo";
import { account, addressElsewhere, bothClients, organizationId, privateKey, refused, server, signTransaction, wallet } from "./setting.mjs";

const { z_SignatureEnvelope: SignatureEnvelope, z_TxEnvelopeTempo: TxEnvelopeTempo } = Transaction;
const friend = "0x" + "fe".repeat(20);
const token = "0x20c0000000000000000000000000000000000001";
let address;
let key;

before(async () => {
  [{ address }] = await wallet("tempo", [account("ETHEREUM", "m/44'/60'/0'/0/0")]);
  key = await privateKey("tempo", "CURVE_SECP256K1", "ETHEREUM");
});

const base = { type: "tempo", chainId: 42431, nonce: 3, gas: 200_000n, maxFeePerGas: 20_000_000_000n, maxPriorityFeePerGas: 1_000_000n };
const call = { to: friend, data: "0xdeadbeef" };
const transactions = {
  "one call": { calls: [call] },
  "several calls, one to make a contract": { calls: [{ data: "0x6000" }, call, { to: token, data: "0xa9059cbb" + "00".repeat(64) }, { to: friend }] },
  "a token for the fee": { calls: [call], feeToken: token },
  "a nonce of its own lane": { calls: [call], nonceKey: 2n ** 200n + 7n, nonce: 0 },
  "a time in which it holds": { calls: [call], validAfter: 1_893_456_000, validBefore: 1_893_456_060 },
  "an access list": { calls: [call], accessList: [{ address: token, storageKeys: ["0x" + "01".repeat(32)] }] },
  "an amount in a call, which is for the nodes to refuse": { calls: [{ ...call, value: 5n }] },
  "somebody else pays": { calls: [call], feePayer: true },
};

for (const [clientName, client] of bothClients) {
  for (const [name, fields] of Object.entries(transactions)) {
    test(`${clientName}: ${name}`, async () => {
      for (const signWith of [address, key.privateKeyId]) {
        const signer = await createAccount({ client, organizationId, signWith });
        const unsigned = await Transaction.serialize({ ...base, ...fields });
        const raw = await signer.signTransaction({ ...base, ...fields }, { serializer: Transaction.serialize });
        const { signature, from, ...read } = TxEnvelopeTempo.deserialize(raw);
        assert.equal(signature.type, "secp256k1");
        // Read back, it is what was asked for, and the signature is over what was asked for.
        assert.deepEqual(read, TxEnvelopeTempo.deserialize(unsigned));
        assert.equal(TxEnvelopeTempo.getSignPayload(TxEnvelopeTempo.from(read)), keccak256(unsigned));
        assert.equal(from, signer.address.toLowerCase());
        assert.equal(SignatureEnvelope.extractAddress({ payload: keccak256(unsigned), signature }).toLowerCase(), signer.address.toLowerCase());
        const parts = fromRlp("0x" + raw.slice(4)).at(-1);
        assert.equal(await recoverAddress({ hash: keccak256(unsigned), signature: parts }), signer.address);
        assert.equal(Transaction.deserialize(raw).chainId, base.chainId);
      }
    });
  }
}

test("refused: what is not canonical, or cannot be meant", async () => {
  const signer = await createAccount({ client: server, organizationId, signWith: address });
  const ask = (bytes) => () => signer.signTransaction({ ...base }, { serializer: () => bytes });
  const raw = await Transaction.serialize({ ...base, calls: [call] });
  const items = fromRlp("0x" + raw.slice(4));
  const of = (list) => concatHex(["0x76", toRlp(list)]);
  const cases = {
    "a byte behind it": concatHex([raw, "0x00"]),
    "cut short": raw.slice(0, -2),
    "an item less": of(items.slice(0, -1)),
    "signed already": of([...items, "0x" + "11".repeat(65)]),
    "a number with a leading zero": of(items.map((item, i) => (i === 3 ? "0x00ff" : item))),
    "no calls": of(items.map((item, i) => (i === 4 ? [] : item))),
    "over before it begins": of(items.map((item, i) => (i === 8 ? "0x70dc0000" : i === 9 ? "0x70dc003c" : item))),
  };
  for (const [what, bytes] of Object.entries(cases)) {
    await refused(/unsignedTransaction/i, ask(bytes)).catch((error) => {
      throw new Error(`${what}: ${error.message}`);
    });
  }
});

test("refused: a key of another chain, of another organization; the wrong type for the bytes", async () => {
  const raw = await Transaction.serialize({ ...base, calls: [call] });
  const [solana] = await wallet("tempo refused", [account("SOLANA", "m/44'/501'/0'/0'")]);
  const at = (signWith) => createAccountWithAddress({ client: server, organizationId, signWith, ethereumAddress: address });
  const ask = (signWith) => at(signWith).signTransaction({ ...base, calls: [call] }, { serializer: Transaction.serialize });
  await refused(/only an Ethereum address or the id of a secp256k1 key/, () => ask(solana.address));
  await refused(/(wallet account|private key) not found/, async () => ask(await addressElsewhere("ETHEREUM", "m/44'/60'/0'/0/0")), 5);
  await refused(/unsignedTransaction/i, () => signTransaction("ETHEREUM", address, raw.slice(2)));
});
