// geth is sent what Cloister signs through @turnkey/ethers; messages and typed data are judged by ethers and on chain.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { TurnkeySigner } from "@turnkey/ethers";
import {
  Contract, ContractFactory, JsonRpcProvider, Signature, Transaction, TypedDataEncoder, decodeRlp, encodeRlp, getBytes, hashMessage,
  hexlify, parseUnits, sha256, verifyMessage, verifyTypedData,
} from "ethers";
import { account, addressElsewhere, bothClients, organizationId, privateKey, refused, server, wallet } from "./setting.mjs";
import { chain, commitments, fund, onChain, recoverer, recovererInput, rpcUrl, word } from "./chain-eth.mjs";

const friend = "0x" + "ed".repeat(20);
const provider = new JsonRpcProvider(rpcUrl, chain.id, { staticNetwork: true, cacheTimeout: -1, polling: true, pollingInterval: 50 });
let address;
let key;
let contract;

const adapter = (client, signWith) => new TurnkeySigner({ client, organizationId, signWith }, provider);

before(async () => {
  [{ address }] = await wallet("ethers", [account("ETHEREUM", "m/44'/60'/0'/0/0")]);
  key = await privateKey("ethers", "CURVE_SECP256K1", "ETHEREUM");
  await fund(address, key.address);
});

after(() => provider.destroy());

// sent: geth took it and executed it, as the type that was asked for, from the account.
async function sent(response, type, from) {
  const receipt = await response.wait(1, 300_000);
  assert.equal(receipt.status, 1);
  assert.equal(receipt.type, type);
  assert.equal(receipt.from, from);
  return receipt;
}

test("a contract is created, and called by its interface", async () => {
  const signer = adapter(server, address);
  const factory = new ContractFactory([], recoverer, signer);
  const made = await factory.deploy();
  await sent(made.deploymentTransaction(), 2, address);
  contract = await made.getAddress();
  const digest = sha256("0x01");
  const signature = Signature.from(await signer.signMessage(getBytes(digest)));
  const data = recovererInput(hashMessage(getBytes(digest)), signature.serialized);
  await sent(await signer.sendTransaction({ to: contract, data }), 2, address);
  assert.equal(await provider.getStorage(contract, 0), word(address));
  // By an ABI: the selector and the arguments are ethers' own. The contract ignores what it does not know.
  const token = new Contract(contract, ["function transfer(address to, uint256 amount) returns (bool)"], signer);
  await sent(await token.transfer(friend, 5n), 2, address);
});

for (const [name, client] of bothClients) {
  test(`${name}: legacy, EIP-2930 and EIP-1559 transfers`, async () => {
    const signer = adapter(client, address);
    const gasPrice = parseUnits("3", "gwei");
    const had = await provider.getBalance(friend);
    await sent(await signer.sendTransaction({ type: 0, to: friend, value: 1n, gasPrice }), 0, address);
    await sent(await signer.sendTransaction({ type: 1, to: friend, value: 2n, gasPrice, accessList: [[contract, [word(friend)]]] }), 1, address);
    await sent(await signer.sendTransaction({ type: 2, to: friend, value: 3n }), 2, address);
    await sent(await signer.sendTransaction({ to: friend, value: 4n, from: address, accessList: [[contract, []]] }), 2, address);
    assert.equal((await provider.getBalance(friend)) - had, 10n);
  });

  test(`${name}: a private key in no wallet, named by its id`, async () => {
    const signer = adapter(client, key.privateKeyId);
    assert.equal(await signer.getAddress(), key.address);
    await sent(await signer.sendTransaction({ to: friend, value: 1n }), 2, key.address);
  });

  test(`${name}: messages, judged by ethers and on chain`, async () => {
    for (const signWith of [address, key.privateKeyId]) {
      const signer = adapter(client, signWith);
      const own = await signer.getAddress();
      for (const message of ["hello", "", "Grüße 世界 🔐", getBytes("0x" + "00ff".repeat(200))]) {
        const signature = await signer.signMessage(message);
        assert.equal(verifyMessage(message, signature), own);
        await onChain(contract, hashMessage(message), signature, own);
      }
    }
  });

  test(`${name}: typed data, judged by ethers and on chain`, async () => {
    const signer = adapter(client, address);
    for (const [domain, types, value] of typedData) {
      const signature = await signer.signTypedData(domain, types, value);
      assert.equal(verifyTypedData(domain, types, value, signature), address);
      await onChain(contract, TypedDataEncoder.hash(domain, types, value), signature, address);
    }
  });
}

// ethers drops what no type names before it asks, so the request is made by hand.
test("typed data with members that no type names: signed as ethers hashes it", async () => {
  const [domain, types, value] = typedData[0];
  const payload = (primaryType, types, domain, message) => JSON.stringify({ primaryType, types, domain, message });
  const more = { ...value, value: String(value.value), nonces: ["0", "1", "3"], signatureChainId: "0xa4b1", Owner: "0x00", deep: [{ owner: null }] };
  assert.equal(TypedDataEncoder.hash(domain, types, more), TypedDataEncoder.hash(domain, types, value));
  const { r, s, v } = await server.signRawPayload({
    signWith: address, payload: payload("Permit", types, domain, more), encoding: "PAYLOAD_ENCODING_EIP712", hashFunction: "HASH_FUNCTION_NO_OP",
  });
  const signature = Signature.from({ r: "0x" + r, s: "0x" + s, v: 27 + Number(v) }).serialized;
  assert.equal(verifyTypedData(domain, types, more, signature), address);
  await onChain(contract, TypedDataEncoder.hash(domain, types, value), signature, address);
});

// ethers writes a chain id as hex, numbers as text and never names EIP712Domain.
const typedData = [
  [
    { name: "Permit", version: "2", chainId: chain.id, verifyingContract: "0x" + "c0".repeat(20) },
    {
      Permit: [
        { name: "owner", type: "address" }, { name: "value", type: "uint256" }, { name: "nonces", type: "uint256[]" },
        { name: "deadline", type: "int64" },
      ],
    },
    { owner: friend, value: 2n ** 255n, nonces: [0, 1n, "3"], deadline: -1 },
  ],
  [
    { name: "All", version: "1", chainId: 2n ** 64n, verifyingContract: "0x" + "c0".repeat(20), salt: "0x" + "5a".repeat(32) },
    {
      Outer: [{ name: "inner", type: "Inner[][2]" }, { name: "data", type: "bytes" }],
      Inner: [{ name: "flag", type: "bool" }, { name: "id", type: "bytes3" }],
    },
    { inner: [[{ flag: true, id: "0x010203" }], []], data: "0x" },
  ],
  [{ chainId: 1 }, { Note: [{ name: "text", type: "string" }] }, { text: "the domain is a chain alone" }],
  [{}, { Note: [{ name: "text", type: "string" }] }, { text: "no domain" }],
];

test("a legacy transaction without a chain id, from before EIP-155", async () => {
  const signer = adapter(server, address);
  const nonce = await provider.getTransactionCount(address);
  const raw = await signer.signTransaction({ type: 0, to: friend, value: 1n, gasLimit: 21000n, gasPrice: parseUnits("3", "gwei"), nonce });
  assert.equal(Transaction.from(raw).chainId, 0n);
  await sent(await provider.broadcastTransaction(raw), 0, address);
});

test("EIP-4844: the body is signed, the client attaches the blob", async () => {
  const kzg = commitments();
  const blob = new Uint8Array(131072).fill(7, 1, 31);
  const commitment = kzg.blobToKzgCommitment(blob);
  const { proofs } = kzg.computeCellsAndKzgProofs(blob);
  const signer = adapter(server, address);
  const raw = await signer.signTransaction({
    type: 3, chainId: chain.id, nonce: await provider.getTransactionCount(address), to: friend, value: 1n, gasLimit: 21000n,
    maxFeePerGas: parseUnits("30", "gwei"), maxPriorityFeePerGas: parseUnits("1", "gwei"), maxFeePerBlobGas: parseUnits("30", "gwei"),
    blobVersionedHashes: ["0x01" + sha256(commitment).slice(4)],
  });
  const body = decodeRlp("0x" + raw.slice(4));
  const wrapped = "0x03" + encodeRlp([body, "0x01", [hexlify(blob)], [hexlify(commitment)], proofs.map((p) => hexlify(p))]).slice(2);
  const hash = await provider.send("eth_sendRawTransaction", [wrapped]);
  const receipt = await provider.waitForTransaction(hash, 1, 300_000);
  assert.deepEqual([receipt.status, receipt.type, receipt.from, receipt.blobGasUsed], [1, 3, address, 131072n]);
});

test("refused: a key of another chain, of another organization, of nobody", async () => {
  const plain = () => ({ type: 2, chainId: chain.id, to: friend, gasLimit: 21000n, nonce: 1, maxFeePerGas: 2n, maxPriorityFeePerGas: 1n });
  const [solana] = await wallet("ethers refused", [account("SOLANA", "m/44'/501'/0'/0'")]);
  await refused(/only an Ethereum address or the id of a secp256k1 key/, () => adapter(server, solana.address).signTransaction(plain()));
  const elsewhere = await addressElsewhere("ETHEREUM", "m/44'/60'/0'/0/0");
  await refused(/(wallet account|private key) not found/, () => adapter(server, elsewhere).signTransaction(plain()), 5);
  await refused(/(wallet account|private key) not found/, () => adapter(server, friend).signMessage("hello"), 5);
});
