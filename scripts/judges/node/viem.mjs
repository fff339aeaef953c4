// geth, in developer mode under the chain id of a public test network, is sent what Cloister signs through @turnkey/viem:
// every type of transaction, authorizations, messages and typed data.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { createAccount, createAccountWithAddress } from "@turnkey/viem";
import {
  concatHex, fromRlp, getAddress, hashMessage, hashTypedData, hexToBytes, keccak256, parseGwei, parseTransaction,
  recoverTransactionAddress, serializeTransaction, stringToHex, toBlobSidecars, toBlobs, toHex, toRlp, verifyMessage, verifyTypedData,
} from "viem";
import { recoverAuthorizationAddress } from "viem/utils";
import { account, addressElsewhere, bothClients, organizationId, privateKey, refused, server, wallet } from "./setting.mjs";
import { broadcast, chain, commitments, fund, geth, mined, onChain, recoverer, recovererInput, walletOf, word } from "./chain-eth.mjs";

const friend = getAddress("0x" + "fe".repeat(20));
let addresses; // two accounts of a wallet
let key; // a private key in no wallet
let contract; // the recoverer, deployed by the first account
let kzg;

const adapter = (client, signWith) => createAccount({ client, organizationId, signWith });
const first = () => adapter(server, addresses[0]).then(walletOf);
const second = () => adapter(server, addresses[1]).then(walletOf);

before(async () => {
  addresses = (await wallet("viem", [account("ETHEREUM", "m/44'/60'/0'/0/0"), account("ETHEREUM", "m/44'/60'/0'/0/1")])).map((a) => a.address);
  key = await privateKey("viem", "CURVE_SECP256K1", "ETHEREUM");
  await fund(...addresses, key.address);
  kzg = commitments();
});

// sent: the transaction went through geth and is what was asked for.
async function sent(from, hash, type, value) {
  await mined(hash);
  const seen = await geth.getTransaction({ hash });
  assert.equal(seen.type, type);
  assert.equal(seen.from, from.toLowerCase());
  if (value !== undefined) assert.equal(seen.value, value);
  return seen;
}

test("a contract is created, and is there", async () => {
  const client = await first();
  const receipt = await mined(await client.sendTransaction({ data: recoverer }));
  contract = getAddress(receipt.contractAddress);
  assert.equal(await geth.getCode({ address: contract }), "0x" + recoverer.slice(20));
});

test("a contract of the greatest size", async () => {
  const client = await first();
  const data = concatHex([recoverer, "0x" + "00".repeat(49152 - recoverer.length / 2 + 1)]);
  assert.ok((await mined(await client.sendTransaction({ data }))).contractAddress);
});

for (const [name, client] of bothClients) {
  test(`${name}: legacy, EIP-2930 and EIP-1559 transfers`, async () => {
    const sender = walletOf(await adapter(client, addresses[0]));
    const had = await geth.getBalance({ address: friend });
    const gasPrice = parseGwei("3");
    const accessList = [{ address: contract, storageKeys: [word(friend), "0x" + "00".repeat(32)] }];
    await sent(addresses[0], await sender.sendTransaction({ type: "legacy", to: friend, value: 1n, gasPrice }), "legacy", 1n);
    await sent(addresses[0], await sender.sendTransaction({ type: "eip2930", to: friend, value: 2n, gasPrice, accessList }), "eip2930", 2n);
    await sent(addresses[0], await sender.sendTransaction({ type: "eip1559", to: friend, value: 3n }), "eip1559", 3n);
    await sent(addresses[0], await sender.sendTransaction({ type: "eip1559", to: friend, value: 4n, accessList }), "eip1559", 4n);
    assert.equal((await geth.getBalance({ address: friend })) - had, 10n);
  });

  test(`${name}: a private key in no wallet, named by its id`, async () => {
    const signer = await adapter(client, key.privateKeyId);
    assert.equal(signer.address, key.address);
    await sent(key.address, await walletOf(signer).sendTransaction({ to: friend, value: 1n }), "eip1559", 1n);
  });

  test(`${name}: messages and digests, judged by viem and on chain`, async () => {
    for (const signWith of [addresses[0], addresses[1], key.privateKeyId]) {
      const signer = await adapter(client, signWith);
      for (const message of ["hello", "Grüße 世界 🔐", "", { raw: "0xdeadbeef" }, { raw: hexToBytes("0x" + "ab".repeat(300)) }]) {
        const signature = await signer.signMessage({ message });
        assert.ok(await verifyMessage({ address: signer.address, message, signature }));
        assert.ok(!(await verifyMessage({ address: signer.address, message: "another", signature })));
        await onChain(contract, hashMessage(message), signature, signer.address);
      }
      const hash = keccak256("0x01");
      await onChain(contract, hash, await signer.sign({ hash }), signer.address);
    }
  });

  test(`${name}: typed data, judged by viem and on chain`, async () => {
    const signer = await adapter(client, addresses[0]);
    for (const data of typedData) {
      for (const signature of [await signer.signTypedData(data), await walletOf(signer).signTypedData(data)]) {
        assert.ok(await verifyTypedData({ address: signer.address, ...data, signature }));
        assert.ok(!(await verifyTypedData({ address: signer.address, ...data, domain: { ...data.domain, name: "Other" }, signature })));
        await onChain(contract, hashTypedData(data), signature, signer.address);
      }
    }
  });
}

// EIP712Domain stands among the types, as it must when an adapter is asked without a wallet client.
const domainTypes = [
  { name: "name", type: "string" }, { name: "version", type: "string" }, { name: "chainId", type: "uint256" },
  { name: "verifyingContract", type: "address" },
];
const domain = { name: "Ether Mail", version: "1", chainId: chain.id, verifyingContract: "0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC" };
const typedData = [
  {
    domain,
    types: {
      EIP712Domain: domainTypes,
      Person: [{ name: "name", type: "string" }, { name: "wallet", type: "address" }],
      Mail: [{ name: "from", type: "Person" }, { name: "to", type: "Person" }, { name: "contents", type: "string" }],
    },
    primaryType: "Mail",
    message: {
      from: { name: "Cow", wallet: "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826" },
      to: { name: "Bob", wallet: "0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB" },
      contents: "Hello, Bob! Grüße 世界",
    },
  },
  {
    // Every kind of member: both signs at both widths, fixed and dynamic bytes, lists of lists, lists of structs, empty ones.
    domain,
    types: {
      EIP712Domain: domainTypes,
      Leaf: [{ name: "id", type: "uint8" }, { name: "tag", type: "bytes4" }],
      Tree: [
        { name: "least", type: "int256" }, { name: "small", type: "int8" }, { name: "most", type: "uint256" },
        { name: "flag", type: "bool" }, { name: "word", type: "bytes32" }, { name: "blob", type: "bytes" },
        { name: "grid", type: "uint16[2][]" }, { name: "leaves", type: "Leaf[]" }, { name: "pair", type: "Leaf[2]" },
        { name: "none", type: "string[]" }, { name: "who", type: "address[]" },
      ],
    },
    primaryType: "Tree",
    message: {
      least: -(2n ** 255n), small: -128, most: 2n ** 256n - 1n, flag: true, word: "0x" + "5a".repeat(32), blob: "0x0102030405",
      grid: [[1, 2], [3, 65535]], leaves: [{ id: 1, tag: "0xdeadbeef" }], pair: [{ id: 2, tag: "0x00000000" }, { id: 255, tag: "0xffffffff" }],
      none: [], who: [friend, "0x" + "00".repeat(20)],
    },
  },
  {
    // A domain of other members: only a salt and a name.
    domain: { name: "", salt: "0x" + "07".repeat(32) },
    types: {
      EIP712Domain: [{ name: "name", type: "string" }, { name: "salt", type: "bytes32" }],
      Note: [{ name: "text", type: "string" }],
    },
    primaryType: "Note",
    message: { text: "" },
  },
  {
    // Members that no type names, as exchanges send them: the adapter passes them on, and nobody hashes them.
    domain: { ...domain, salt: "0x" + "07".repeat(32), colour: "red" },
    types: {
      EIP712Domain: domainTypes.slice(0, 3),
      Leg: [{ name: "size", type: "uint256" }],
      Order: [{ name: "legs", type: "Leg[]" }, { name: "to", type: "address" }],
    },
    primaryType: "Order",
    message: {
      signatureChainId: "0xa4b1", type: "order", legs: [{ size: 1n, note: { to: "me" } }, { size: 2n }], to: friend, To: "0x00", nonce: null, more: [[], {}],
    },
  },
];

test("typed data whose types do not name the domain: signed as the adapter sends it, with none", async () => {
  const signer = await adapter(server, addresses[0]);
  const { EIP712Domain, ...types } = typedData[0].types;
  const signature = await signer.signTypedData({ ...typedData[0], types });
  const empty = { ...typedData[0], domain: {}, types: { EIP712Domain: [], ...types } };
  assert.ok(await verifyTypedData({ address: signer.address, ...empty, signature }));
  await onChain(contract, hashTypedData(empty), signature, signer.address);
});

test("a contract is called, and executes what the transaction says", async () => {
  const hash = keccak256(stringToHex("called"));
  const signature = await (await adapter(server, addresses[1])).sign({ hash });
  await mined(await (await first()).sendTransaction({ to: contract, data: recovererInput(hash, signature) }));
  assert.equal(await geth.getStorageAt({ address: contract, slot: "0x0" }), word(addresses[1]));
});

test("a legacy transaction without a chain id, from before EIP-155", async () => {
  const signer = await adapter(server, addresses[0]);
  const nonce = await geth.getTransactionCount({ address: addresses[0] });
  const raw = await signer.signTransaction({ type: "legacy", to: friend, value: 7n, gas: 21000n, gasPrice: parseGwei("3"), nonce });
  const { v } = parseTransaction(raw);
  assert.ok(v === 27n || v === 28n, `v is ${v}`);
  assert.equal((await broadcast(raw)).from, addresses[0].toLowerCase());
});

test("numbers and lists at their edges, in every type: read back as asked for, and signed by the account", async () => {
  const signer = await adapter(server, addresses[0]);
  const most = 2n ** 256n - 1n;
  const list = [{ address: friend, storageKeys: [word(friend), word(friend)] }, { address: friend, storageKeys: [] }];
  const fees = { maxFeePerGas: most, maxPriorityFeePerGas: most };
  const authorization = await signer.signAuthorization({ contractAddress: friend, chainId: 0, nonce: 0 });
  const types = {
    legacy: [{ gasPrice: 0n }, { gasPrice: most }, { gasPrice: 1n, chainId: undefined }],
    eip2930: [{ gasPrice: most, accessList: list }, { gasPrice: 0n, accessList: [] }],
    eip1559: [{ ...fees }, { maxFeePerGas: 0n, maxPriorityFeePerGas: 0n, accessList: list }],
    eip4844: [{ ...fees, maxFeePerBlobGas: most, blobVersionedHashes: Array(6).fill("0x01" + "ab".repeat(31)), to: friend }],
    eip7702: [{ ...fees, authorizationList: [authorization, authorization], to: friend, accessList: list }],
  };
  const edges = [
    { to: friend, value: 0n, nonce: 0, gas: 0n, chainId: 1 },
    { to: friend, value: most, nonce: 127, gas: 2n ** 64n - 1n, chainId: Number.MAX_SAFE_INTEGER, data: "0x00" },
    { to: null, value: 1n, nonce: 128, gas: 255n, chainId: 127, data: "0x7f" },
    { to: friend, value: 256n, nonce: 2 ** 32, gas: 256n, chainId: 128, data: "0x" + "80".repeat(55) },
    { to: "0x" + "00".repeat(20), value: 128n, nonce: Number.MAX_SAFE_INTEGER, gas: 128n, chainId: 65535, data: "0x" + "ff".repeat(56) },
    { to: friend, value: 2n ** 64n, nonce: 1, gas: 1n, chainId: 110, data: "0x" + "00".repeat(70000) },
  ];
  for (const [type, variants] of Object.entries(types)) {
    for (const edge of edges) {
      for (const variant of variants) {
        const asked = { type, ...edge, ...variant };
        const raw = await signer.signTransaction(asked);
        assert.equal(await recoverTransactionAddress({ serializedTransaction: raw }), addresses[0]);
        const { r, s, v, yParity, ...read } = parseTransaction(raw);
        assert.equal(serializeTransaction(read), serializeTransaction(asked));
      }
    }
  }
});

// blobTransaction: what viem makes of a blob and our account, up to the signature.
async function blobTransaction(text) {
  const sidecars = toBlobSidecars({ data: stringToHex(text), kzg, to: "hex" });
  const sender = await first();
  const prepared = await sender.prepareTransactionRequest({
    type: "eip4844", to: friend, value: 1n, maxFeePerBlobGas: parseGwei("30"), blobs: sidecars.map((s) => s.blob), kzg,
  });
  return { sender, sidecars, prepared };
}

test("EIP-4844: the body is signed, the client attaches the blob with its cell proofs", async () => {
  const { sender, sidecars, prepared } = await blobTransaction("blob by hand");
  const { sidecars: dropped, blobs, kzg: unused, ...body } = prepared;
  const signed = await sender.account.signTransaction(body);
  const items = fromRlp("0x" + signed.slice(4));
  assert.equal(items.length, 14, "a body alone");
  const proofs = sidecars.flatMap(({ blob }) => kzg.computeCellsAndKzgProofs(hexToBytes(blob)).proofs.map((p) => toHex(p)));
  const wrapped = concatHex([
    "0x03",
    toRlp([items, "0x01", sidecars.map((s) => s.blob), sidecars.map((s) => s.commitment), proofs]),
  ]);
  const receipt = await broadcast(wrapped);
  assert.equal(receipt.type, "eip4844");
  assert.equal(receipt.from, addresses[0].toLowerCase());
  assert.equal(receipt.blobGasUsed, 131072n);
});

test("EIP-4844: viem sends the blob itself, with the proofs of before", async () => {
  const { sender } = await blobTransaction("blob by viem");
  const blobs = toBlobs({ data: stringToHex("blob by viem"), to: "hex" });
  const hash = await sender.sendTransaction({ type: "eip4844", to: friend, value: 2n, maxFeePerBlobGas: parseGwei("30"), blobs, kzg });
  const seen = await sent(addresses[0], hash, "eip4844", 2n);
  assert.equal(seen.blobVersionedHashes.length, 1);
});

test("EIP-7702: an account delegates to a contract, which then acts under its address", async () => {
  const [self, sponsor] = [await first(), await second()];
  const hash = keccak256(stringToHex("delegated"));
  const signature = await self.account.sign({ hash });
  const data = recovererInput(hash, signature);
  const delegation = concatHex(["0xef0100", contract]).toLowerCase();

  // Sent by another: the authority's nonce is its own.
  const authorization = await self.signAuthorization({ contractAddress: contract });
  assert.equal(await recoverAuthorizationAddress({ authorization }), addresses[0]);
  await sent(addresses[1], await sponsor.sendTransaction({ to: addresses[0], data, authorizationList: [authorization] }), "eip7702");
  assert.equal(await geth.getCode({ address: addresses[0] }), delegation);
  assert.equal(await geth.getStorageAt({ address: addresses[0], slot: "0x0" }), word(addresses[0]));

  // Sent by itself, for any chain, and back to nothing: then one of two that takes effect.
  const revoked = await self.signAuthorization({ contractAddress: "0x" + "00".repeat(20), chainId: 0, executor: "self" });
  assert.equal(revoked.chainId, 0);
  await sent(addresses[0], await self.sendTransaction({ to: addresses[0], authorizationList: [revoked] }), "eip7702");
  assert.equal(await geth.getCode({ address: addresses[0] }), undefined);
  const two = [await self.signAuthorization({ contractAddress: contract }), await sponsor.signAuthorization({ contractAddress: contract, executor: "self" })];
  await sent(addresses[1], await sponsor.sendTransaction({ to: friend, value: 5n, authorizationList: two }), "eip7702", 5n);
  for (const address of addresses) assert.equal(await geth.getCode({ address }), delegation);
});

test("an authorization in both forms that viem asks for", async () => {
  const signer = await adapter(server, addresses[0]);
  for (const request of [{ chainId: 1, nonce: 0 }, { chainId: 0, nonce: 127 }, { chainId: chain.id, nonce: 2 ** 31 }]) {
    const authorization = await signer.signAuthorization({ contractAddress: contract, ...request });
    assert.equal(await recoverAuthorizationAddress({ authorization }), addresses[0]);
    const signature = await signer.signAuthorization({ contractAddress: contract, ...request, to: "hex" });
    assert.equal(await recoverAuthorizationAddress({ authorization: { address: contract, ...request }, signature }), addresses[0]);
  }
});

const plain = { type: "eip1559", chainId: chain.id, to: friend, value: 1n, gas: 21000n, nonce: 1, maxFeePerGas: 2n, maxPriorityFeePerGas: 1n };
const through = (signer, serializer) => signer.signTransaction(plain, { serializer });

test("refused: what is not the canonical unsigned transaction of its type", async () => {
  const signer = await adapter(server, addresses[0]);
  const raw = serializeTransaction(plain);
  const items = fromRlp("0x" + raw.slice(4));
  const retyped = (type, list) => concatHex([type, toRlp(list)]);
  const replaced = (at, value) => retyped("0x02", items.map((item, i) => (i === at ? value : item)));
  const cases = {
    "a byte behind it": concatHex([raw, "0x00"]),
    "cut short": raw.slice(0, -2),
    "signed already": serializeTransaction(plain, { r: "0x01", s: "0x01", yParity: 0 }),
    "an item more": retyped("0x02", [...items, "0x"]),
    "an item less": retyped("0x02", items.slice(0, -1)),
    "a number with a leading zero": replaced(1, "0x0001"),
    "a nonce of nine bytes": replaced(1, "0x01" + "00".repeat(8)),
    "an address of 19 bytes": replaced(5, "0x" + "fe".repeat(19)),
    "an access list that is none": replaced(8, "0x01"),
    "a type that nobody knows": retyped("0x05", items),
    "nothing": "0x",
  };
  for (const [what, bytes] of Object.entries(cases)) {
    await refused(/unsignedTransaction/i, () => through(signer, () => bytes)).catch((error) => {
      throw new Error(`${what}: ${error.message}`);
    });
  }
  const { sidecars, prepared } = await blobTransaction("wrapped");
  const { kzg: unused, ...request } = prepared;
  await refused(/unsignedTransaction/i, () => through(signer, () => serializeTransaction({ ...request, sidecars })));
});

test("refused: a key of another chain, of another organization, of nobody", async () => {
  const [solana] = await wallet("viem refused", [account("SOLANA", "m/44'/501'/0'/0'")]);
  const at = (signWith) => createAccountWithAddress({ client: server, organizationId, signWith, ethereumAddress: addresses[0] });
  await refused(/only an Ethereum address or the id of a secp256k1 key/, () => at(solana.address).signTransaction(plain));
  const elsewhere = await addressElsewhere("ETHEREUM", "m/44'/60'/0'/0/0");
  await refused(/(wallet account|private key) not found/, () => at(elsewhere).signTransaction(plain), 5);
  await refused(/(wallet account|private key) not found/, () => at(friend).signTransaction(plain), 5);
  await refused(/(wallet account|private key) not found/, () => at(elsewhere).signMessage({ message: "hello" }), 5);
});

test("refused: typed data that its types do not explain, and authorizations that are none", async () => {
  const send = (payload, encoding = "EIP712") => () =>
    server.signRawPayload({
      signWith: addresses[0],
      payload: JSON.stringify(payload),
      encoding: `PAYLOAD_ENCODING_${encoding}`,
      hashFunction: "HASH_FUNCTION_NO_OP",
    });
  const ordinary = { ...typedData[0], domain: { ...domain } };
  const types = (over) => ({ ...ordinary, types: { ...ordinary.types, ...over } });
  const message = (over) => ({ ...ordinary, message: { ...ordinary.message, ...over } });
  const one = await send(ordinary)();
  const beside = await send({ ...ordinary, extra: 1 })(); // viem hashes it so too
  assert.deepEqual([beside.r, beside.s], [one.r, one.s]);
  for (const bad of [
    { ...ordinary, primaryType: "Letter" },
    types({ Mail: [{ name: "contents", type: "text" }] }),
    message({ contents: 5 }),
    message({ contents: undefined, Contents: "in another case" }),
    message({ from: undefined }),
    message({ to: { name: "Bob", wallet: "0x1234" } }),
    { ...ordinary, message: { ...ordinary.message, to: [ordinary.message.to] } },
  ]) {
    await refused(/payload/i, send(bad)).catch((error) => {
      throw new Error(`${JSON.stringify(bad)}: ${error.message}`);
    });
  }
  await send({ address: contract, chainId: 1, nonce: 0 }, "EIP7702_AUTHORIZATION")();
  for (const bad of [
    { address: contract, chainId: 1 },
    { address: contract, chainId: -1, nonce: 0 },
    { address: "0x1234", chainId: 1, nonce: 0 },
    { address: contract, chainId: 1, nonce: 0, extra: 0 },
    { address: contract, chainId: 1, nonce: 1.5 },
    { address: contract, chainId: 1, nonce: 2 ** 64 },
  ]) {
    await refused(/payload/i, send(bad, "EIP7702_AUTHORIZATION")).catch((error) => {
      throw new Error(`${JSON.stringify(bad)}: ${error.message}`);
    });
  }
});
