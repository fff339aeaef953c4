// Ethereum and what its contracts are called by elsewhere: random transactions and calls, and the view of them as ethers reads
// them, or viem where ethers 6.13 does not.
import assert from "node:assert/strict";
import { secp256k1 } from "@noble/curves/secp256k1";
import * as ethers from "ethers";
import * as viem from "viem";
import * as chains from "viem/chains";
import { recoverAuthorizationAddress } from "viem/utils";
import { account } from "./setting.mjs";
import { View, amount, bytes, seconds } from "./view.mjs";

const zero = ethers.ZeroAddress;
const dead = "0x000000000000000000000000000000000000dEaD";
const permit2 = "0x000000000022D473030F116dDEE9F6B43aC78BA3";
const multiSendCallOnly = "0x9641d764fc13c8B624c04430C7356C1C7C8102e2";
const multiSend = "0x38869bf66a61cF6bDB996A6aE40D5853Fd43B526";
const multicall3 = "0xcA11bde05977b3631167028862bE2a173976CA11";
const seaport = "0x0000000000000068F116a894984e2DB1123eB395";

// Contracts at one address on every chain.
const contracts = {
  [permit2]: "Permit2", [multiSendCallOnly]: "Safe: MultiSendCallOnly 1.4.1", [multiSend]: "Safe: MultiSend 1.4.1", [multicall3]: "Multicall3",
  [seaport]: "Seaport 1.6",
};

// Chains that the enclave names, by viem's own list, and above how many tenths of a coin a fee is high.
const chainList = Object.values(chains);
const known = { 1: 1, 10: 1, 56: 1, 100: 100, 137: 100, 143: 100, 324: 1, 8453: 1, 42161: 1, 42220: 100, 43114: 10, 59144: 1, 534352: 1, 11155111: 1, 84532: 1 };
const otherwise = { 100: { symbol: "xDAI" }, 59144: { name: "Linea" } };
function networkOf(id) {
  if (!known[id]) return { unit: (value) => amount(value, "wei") };
  const { name, nativeCurrency } = chainList.find((chain) => chain.id === Number(id));
  const symbol = otherwise[id]?.symbol ?? nativeCurrency.symbol;
  return { name: otherwise[id]?.name ?? name, symbol, unit: (value) => amount(value, "wei", symbol, nativeCurrency.decimals), high: BigInt(known[id]) * 10n ** 17n };
}

const ethereum = [account("ETHEREUM", "m/44'/60'/0'/0/0"), account("ETHEREUM", "m/44'/60'/0'/0/1")];
const ethereumView = (kind, accounts) => {
  const view = new View(kind, accounts.map((a) => a.address), contracts);
  view.nobody = [zero];
  return view;
};

// An address that has to do with nobody, or with the accounts, or one that looks like the first of them.
function ethereumAddress(random, [own, second]) {
  const like = own.address.slice(0, 6) + random.bytes(16).toString("hex") + own.address.slice(-4);
  return ethers.getAddress(random.one([random.hex(20), random.hex(20), random.hex(20), random.hex(20), own.address, second.address, like.toLowerCase(), zero, dead, ...Object.keys(contracts)]));
}

const chainId = (random) => random.one([1n, 1n, 1n, ...Object.keys(known).map(BigInt), 5n, 31337n, 1n << 32n, (1n << 53n) - 1n, (1n << 63n) - 37n]);
const u64 = (random) => random.number(64);

const accessList = (random, address) =>
  random.times(random.one([0, 0, 1, 2, 5]), () => ({ address: address(), storageKeys: random.times(random.below(4), () => random.hex(32)) }));

const authorization = (random, address) => {
  const tuple = { chainId: random.one([0n, 1n, random.number(64) >> 11n]), address: address(), nonce: random.number(64) >> 11n };
  const signature = secp256k1.sign(bytes(authorizationHash(tuple)).subarray(0), secp256k1.utils.normPrivateKeyToScalar(random.bytes(32)));
  let { r, s, recovery } = signature;
  if (random.is(20)) [r, s] = [random.number(256), random.number(256)]; // nobody's, as good as always
  if (random.is(10)) [s, recovery] = [secp256k1.CURVE.n - signature.s, 1 - recovery]; // EIP-7702 takes the low s alone
  return { ...tuple, yParity: recovery, r, s };
};
const number = (n) => (BigInt(n) === 0n ? "0x" : ethers.toBeHex(n));
const authorizationBytes = ({ chainId, address, nonce }) => ethers.concat(["0x05", ethers.encodeRlp([number(chainId), address, number(nonce)])]);
const authorizationHash = (authorization) => ethers.keccak256(authorizationBytes(authorization));

// A transaction as ethers writes it; those of type 4 as viem does, since ethers 6.13 has no such type.
function ethereumTransaction(random, accounts, type, to, data, value = random.number(256)) {
  const address = () => ethereumAddress(random, accounts);
  const maxFeePerGas = random.one([random.number(256), random.number(40), random.number(40)]);
  const gasLimit = random.one([u64(random), 21000n, random.number(24)]);
  const maxPriorityFeePerGas = random.one([0n, maxFeePerGas, maxFeePerGas >> 1n]);
  // Both libraries count with 53 bits there.
  const nonce = Number(random.one([0n, 1n, (1n << 53n) - 1n, random.number(32)]));
  if (type === 4) {
    const lists = { accessList: accessList(random, address), authorizationList: random.times(random.between(1, 4), () => authorization(random, address)) };
    const body = [number(chainId(random) % (1n << 53n) || 1n), number(nonce), number(maxPriorityFeePerGas), number(maxFeePerGas), number(gasLimit), to, number(value), data,
      lists.accessList.map((entry) => [entry.address, entry.storageKeys]),
      lists.authorizationList.map((a) => [number(a.chainId), a.address, number(a.nonce), number(a.yParity), number(a.r), number(a.s)])];
    return ethers.concat(["0x04", ethers.encodeRlp(body)]);
  }
  const fields = { type, chainId: type === 0 && random.is(30) ? 0n : chainId(random), nonce, gasLimit, to, data, value };
  if (type < 2) fields.gasPrice = maxFeePerGas;
  else Object.assign(fields, { maxFeePerGas, maxPriorityFeePerGas });
  if (type > 0) fields.accessList = accessList(random, address);
  if (type === 3) {
    fields.maxFeePerBlobGas = random.number(80);
    fields.blobVersionedHashes = random.times(random.between(1, 7), () => "0x01" + random.hex(31).slice(2));
  }
  return ethers.Transaction.from(fields).unsignedSerialized;
}

const shownTypes = ["LEGACY", "EIP2930", "EIP1559", "EIP4844", "EIP7702"];

// What a library reads of a transaction: ethers, or viem of type 4.
function readEthereum(raw) {
  if (!raw.startsWith("0x04")) return ethers.Transaction.from(raw);
  const tx = viem.parseTransaction(raw);
  return {
    type: 4, unsignedHash: viem.keccak256(raw), chainId: BigInt(tx.chainId), to: viem.getAddress(tx.to), nonce: tx.nonce ?? 0, value: tx.value ?? 0n,
    gasLimit: tx.gas ?? 0n, maxFeePerGas: tx.maxFeePerGas ?? 0n, data: tx.data ?? "0x", accessList: tx.accessList ?? [], authorizationList: tx.authorizationList,
  };
}

async function ethereumShown(accounts, raw) {
  const view = ethereumView("ETHEREUM_TRANSACTION", accounts);
  const tx = readEthereum(raw);
  const from = accounts[0].address;
  const { name, symbol, unit, high } = networkOf(tx.chainId);
  view.signed("RLP", bytes(raw), "ECDSA_SECP256K1", [tx.unsignedHash], from);
  const network = { chainId: tx.chainId ? String(tx.chainId) : "any", ...(name && { name, nameSource: "BUILTIN" }) };
  if (!tx.chainId) view.warn("CHAIN_ANY", "parts.0.network");
  else if (!name) view.warn("CHAIN_UNKNOWN", "parts.0.network");
  const coin = tx.chainId ? unit : (value) => amount(value, "wei", "", 18);
  let fee = tx.gasLimit * (tx.maxFeePerGas ?? tx.gasPrice);
  if (tx.type === 3) fee += tx.maxFeePerBlobGas * BigInt(tx.blobVersionedHashes.length) * 131072n;
  if (high && fee > high) view.warn("FEE_HIGH", "parts.0.maxFee");
  Object.assign(view.part, {
    type: shownTypes[tx.type], network, from: { address: from }, to: tx.to ? view.address(tx.to) : "", nonce: String(tx.nonce), value: coin(tx.value),
    gasLimit: String(tx.gasLimit), maxFee: coin(fee),
    ...(tx.type === 3 && { maxFeePerBlobGas: String(tx.maxFeePerBlobGas), blobs: tx.blobVersionedHashes }),
  });
  if (tx.accessList?.length) {
    view.part.accessList = tx.accessList.map((entry) => ({ address: ethers.getAddress(entry.address), storageKeys: String(entry.storageKeys.length) }));
  }
  if (tx.type === 4) {
    view.title = "Let code act as an account";
    view.part.authorizations = [];
    for (const [i, a] of tx.authorizationList.entries()) {
      const at = `parts.0.authorizations.${i}`;
      const shown = { ...delegation(view, at, { ...a, chainId: BigInt(a.chainId) }), nonce: String(a.nonce) };
      let authority;
      try {
        assert.ok(BigInt(a.s) <= secp256k1.CURVE.n / 2n);
        authority = await recoverAuthorizationAddress({ authorization: { ...a, nonce: Number(a.nonce) } });
      } catch {
        view.part.authorizations.push({ ...shown, valid: false });
        continue;
      }
      const own = view.isOwn(authority);
      if (!own) view.warn("OTHER_PARTIES", at);
      view.part.authorizations.push({ ...shown, authority, own });
    }
  }
  const data = bytes(tx.data);
  if (!tx.to) {
    view.part.code = view.piece(data);
    view.warn("CONTRACT_CREATION", "parts.0");
    if (data.length > 256) view.warn("CUT", "parts.0.code");
    view.partial();
    view.title ??= "Create a contract";
  } else if (data.length) {
    view.part.calls = [];
    showCall(view, coin, view.part.calls, "parts.0.calls", { to: tx.to, value: tx.value, data }, 1);
  } else {
    view.party(tx.to, "parts.0.to");
    if (tx.value && [zero, dead].includes(tx.to)) view.warn("ADDRESS_BURN", "parts.0.to");
    view.title ??= symbol ? `Send ${symbol}` : "Send coins";
  }
  return view;
}

function delegation(view, at, { address, chainId }) {
  address = ethers.getAddress(address);
  if (address !== zero) {
    view.party(address, `${at}.address`);
    view.warn("DELEGATION", `${at}.address`);
  }
  if (!chainId) view.warn("CHAIN_ANY", `${at}.chainId`);
  return { address: view.address(address), chainId: chainId ? String(chainId) : "any" };
}

// The functions that are looked for: what ethers takes for an interface, what they mean, who gets something by them, and what
// else. An amount is moved, or allowed in a type of so many bits.
const standards = Object.fromEntries(
  [
    ["transfer(address to,uint256 value)", "ERC20_TRANSFER", ["to"], { moves: "value", alone: true, burns: true }],
    ["approve(address spender,uint256 value)", "ERC20_APPROVE", ["spender"], { allows: "value", bits: 256, alone: true, number: true }],
    ["transferFrom(address from,address to,uint256 value)", "ERC20_TRANSFER_FROM", ["to"], { moves: "value", alone: true, burns: true }],
    ["increaseAllowance(address spender,uint256 addedValue)", "ERC20_APPROVE", ["spender"], { allows: "addedValue", bits: 256, alone: true }],
    ["decreaseAllowance(address spender,uint256 subtractedValue)", "ERC20_DECREASE", ["spender"], { moves: "subtractedValue", alone: true }],
    ["permit(address owner,address spender,uint256 value,uint256 deadline,uint8 v,bytes32 r,bytes32 s)", "ERC20_PERMIT", ["spender"], { allows: "value", bits: 256, alone: true }],
    // No list has these as wrapped coins, so they mean nothing.
    ["deposit()", "", [], { collectible: true, alone: true }],
    ["withdraw(uint256 value)", "", [], { collectible: true, alone: true }],
    ["safeTransferFrom(address from,address to,uint256 tokenId)", "NFT_TRANSFER", ["to"], { collectible: true, alone: true }],
    ["safeTransferFrom(address from,address to,uint256 tokenId,bytes data)", "NFT_TRANSFER", ["to"], { collectible: true, alone: true }],
    ["safeTransferFrom(address from,address to,uint256 id,uint256 value,bytes data)", "NFT_TRANSFER", ["to"], { collectible: true, alone: true }],
    ["safeBatchTransferFrom(address from,address to,uint256[] ids,uint256[] values,bytes data)", "NFT_TRANSFER", ["to"], { collectible: true, alone: true }],
    ["setApprovalForAll(address operator,bool approved)", "APPROVAL_FOR_ALL", ["operator"], { all: true, alone: true }],
    ["approve(address token,address spender,uint160 amount,uint48 expiration)", "PERMIT2_APPROVE", ["spender"], { allows: "amount", bits: 160, until: "expiration" }],
    ["transferFrom(address from,address to,uint160 amount,address token)", "PERMIT2_TRANSFER", ["to"], { moves: "amount" }],
    ["permit(address owner,((address token,uint160 amount,uint48 expiration,uint48 nonce) details,address spender,uint256 sigDeadline) permitSingle,bytes signature)", "PERMIT2_PERMIT", [], { permits: "permitSingle" }],
    ["permit(address owner,((address token,uint160 amount,uint48 expiration,uint48 nonce)[] details,address spender,uint256 sigDeadline) permitBatch,bytes signature)", "PERMIT2_PERMIT", [], { permits: "permitBatch" }],
    ["transferOwnership(address newOwner)", "CONTROL", ["newOwner"], { control: true }],
    ["grantRole(bytes32 role,address account)", "CONTROL", ["account"], { control: true }],
    ["upgradeToAndCall(address newImplementation,bytes data)", "PROXY_UPGRADE", ["newImplementation"], { upgrade: true }],
    ["execTransaction(address to,uint256 value,bytes data,uint8 operation,uint256 safeTxGas,uint256 baseGas,uint256 gasPrice,address gasToken,address refundReceiver,bytes signatures)", "SAFE_EXEC", ["to", "refundReceiver"], { safe: true }],
    ["execTransactionFromModule(address to,uint256 value,bytes data,uint8 operation)", "SAFE_MODULE_EXEC", ["to"], { safe: true }],
    ["approveHash(bytes32 hashToApprove)", "SAFE_APPROVE_HASH", [], { blind: "hashToApprove" }],
    ["addOwnerWithThreshold(address owner,uint256 threshold)", "CONTROL", ["owner"], { control: true }],
    ["swapOwner(address prevOwner,address oldOwner,address newOwner)", "CONTROL", ["newOwner"], { control: true }],
    ["changeThreshold(uint256 threshold)", "CONTROL", [], { control: true }],
    ["multiSend(bytes transactions)", "SAFE_MULTI_SEND", [], { packed: true }],
    ["multicall(bytes[] data)", "MULTICALL", [], { carries: "data" }],
    ["aggregate3((address target,bool allowFailure,bytes callData)[] calls)", "CALLS", [], { carries: "calls" }],
  ].map(([text, meaning, parties, what = {}]) => {
    const fragment = ethers.FunctionFragment.from(`function ${text}`);
    return [fragment.selector, { fragment, meaning, parties, what }];
  }),
);

// What each may do at worst, where nobody can read the arguments.
const dangers = {
  ERC20_APPROVE: "APPROVAL_UNLIMITED", ERC20_PERMIT: "APPROVAL_UNLIMITED", PERMIT2_APPROVE: "APPROVAL_UNLIMITED", PERMIT2_PERMIT: "APPROVAL_UNLIMITED", APPROVAL_FOR_ALL: "APPROVAL_ALL",
  CONTROL: "CONTROL_CHANGE", PROXY_UPGRADE: "UPGRADE", SAFE_EXEC: "DELEGATECALL", SAFE_MODULE_EXEC: "DELEGATECALL", SAFE_MULTI_SEND: "DELEGATECALL",
};

// The words in place of some arguments: a type each, none for an offset. Tuples without parts that move stand in place.
const moves = (type) => /^(bytes|string)$/.test(type.type) || (type.isArray() && (type.arrayLength < 0 || moves(type.arrayChildren))) || (type.isTuple() && type.components.some(moves));
const inPlace = (types) => types.flatMap((type) => (moves(type) ? [null] : type.isTuple() ? inPlace(type.components) : [type]));

// masked is what contracts of older compilers read of arguments: of each word in place the bytes that its type uses, and zeros where
// the data of a function end whose arguments all stand in place.
function masked(types, rest) {
  const words = inPlace(types);
  const read = Buffer.concat([rest, Buffer.alloc(words.includes(null) ? 0 : Math.max(0, 32 * words.length - rest.length))]);
  for (const [i, type] of words.entries()) {
    const word = read.subarray(32 * i, 32 * i + 32);
    if (!type || word.length < 32) continue;
    const [, base, size] = /^(\D+)(\d*)$/.exec(type.type);
    if (base === "bool") word.fill(0, 0, 31)[31] = Number(rest.subarray(32 * i, 32 * i + 32).some((b) => b));
    else if (base === "bytes") word.fill(0, Number(size));
    else word.fill(0, 0, 32 - (base === "address" ? 20 : Number(size) / 8));
  }
  return read;
}

// Everything that carries calls in its arguments, which are then shown beside them.
const carriers = { SAFE_EXEC: ["data"], SAFE_MODULE_EXEC: ["data"], SAFE_MULTI_SEND: ["transactions"], PROXY_UPGRADE: ["data"], MULTICALL: ["data"], CALLS: ["calls"] };

const codec = ethers.AbiCoder.defaultAbiCoder();
const unlimited = (value, bits) => value >= 1n << BigInt(bits === 256 ? 127 : bits - 1) || value === (1n << 96n) - 1n;

// A value of an ABI type.
function abiValue(random, accounts, type) {
  if (type.isArray()) return random.times(type.arrayLength < 0 ? random.below(4) : type.arrayLength, () => abiValue(random, accounts, type.arrayChildren));
  if (type.isTuple()) return type.components.map((part) => abiValue(random, accounts, part));
  const [, base, size] = /^(\D+)(\d*)$/.exec(type.type);
  switch (base) {
    case "address":
      return ethereumAddress(random, accounts);
    case "bool":
      return random.is(50);
    case "string":
      return random.text();
    case "bytes":
      return size ? random.hex(Number(size)) : ethers.hexlify(random.data());
    case "int":
      return BigInt.asIntN(Number(size), random.number(Number(size)));
  }
  return random.number(Number(size));
}

// The data of a call: of a standard function, which may carry others, of one that nobody knows, or nothing.
function callData(random, accounts, depth = 1) {
  const inner = () => ({ to: ethereumAddress(random, accounts), value: random.one([0n, random.number(256)]), data: depth > 3 || random.is(30) ? "0x" : callData(random, accounts, depth + 1) });
  if (random.is(8)) return ethers.hexlify(random.data());
  const { fragment, what } = random.one(Object.values(standards));
  const values = fragment.inputs.map((type) => abiValue(random, accounts, type));
  if (what.safe) {
    const call = inner();
    [values[0], values[1], values[2], values[3]] = [call.to, call.value, call.data, random.one([0n, 0n, 0n, 1n, 1n, 255n])];
    if (random.is(40)) [values[0], values[2]] = [random.one([multiSendCallOnly, multiSend]), packedCalls(random, inner)];
    if (values.length > 4 && random.is(70)) values[6] = 0n;
  }
  if (what.packed) values[0] = packed(random, inner);
  if (what.carries === "data") values[0] = random.times(random.below(4), () => inner().data);
  if (what.carries === "calls") values[0] = random.times(random.below(4), () => [inner().to, random.is(50), inner().data]);
  if (what.upgrade) values[1] = random.one(["0x", inner().data]);
  const data = fragment.selector + codec.encode(fragment.inputs, values).slice(2);
  const moving = fragment.inputs.findIndex((input) => /^(bytes|string)$/.test(input.type));
  if (random.is(10) && moving >= 0 && !fragment.inputs.some((input, i) => i !== moving && /[[(]|^(bytes|string)$/.test(input.type))) {
    // A word that nothing points at, before the data that begin a word later.
    const words = data.slice(10).match(/.{64}/g);
    words[moving] = ethers.toBeHex(32 * (fragment.inputs.length + 1), 32).slice(2);
    words.splice(fragment.inputs.length, 0, random.hex(32).slice(2));
    return fragment.selector + words.join("");
  }
  const words = [...inPlace(fragment.inputs).entries()].filter(([, type]) => type);
  if (random.is(10) && words.length) {
    // A bit of a word that may be one that its type does not use.
    const odd = bytes(data);
    odd[4 + 32 * random.one(words)[0] + random.below(32)] ^= 1 << random.below(8);
    return ethers.hexlify(odd) + (random.is(20) ? random.hex(random.between(1, 40)).slice(2) : "");
  }
  if (random.is(4)) return data + random.hex(random.between(1, 300)).slice(2);
  if (random.is(4) && values.length) return data.slice(0, -64);
  return data;
}

function packed(random, inner) {
  const calls = random.times(random.one([0, 1, 2, 3, 4]), inner);
  const data = calls.map(({ to, value, data }) =>
    ethers.solidityPacked(["uint8", "address", "uint256", "uint256", "bytes"], [random.one([0, 0, 0, 1]), to, value, ethers.dataLength(data), data]));
  return ethers.concat([...data, ...(random.is(5) ? [random.hex(random.between(1, 60))] : [])]);
}
const packedCalls = (random, inner) => ethers.FunctionFragment.from("function multiSend(bytes transactions)").selector + codec.encode(["bytes"], [packed(random, inner)]).slice(2);

// showCall adds what ethers reads of a call.
function showCall(view, coin, list, path, call, depth) {
  const at = `${path}.${list.length}`;
  const { to, data, foreign } = call;
  const shown = { kind: foreign ? "DELEGATECALL" : "CALL", to: view.address(view.written(to)) };
  list.push(shown);
  const party = (account, place) => view.party(view.written(account), place);
  const lost = (account) => account === zero || view.written(account) === dead;
  party(to, `${at}.to`);
  if (depth > 1 && call.value) {
    shown.value = coin(call.value);
    if (lost(to)) view.warn("ADDRESS_BURN", `${at}.to`);
  }
  const why = view.called(depth);
  if (why) return Object.assign(shown, view.unreadable(why, data, at));
  if (foreign && view.written(to) !== multiSendCallOnly) {
    if (!call.upgrade) view.warn("DELEGATECALL", at);
    if (view.written(to) !== multiSend) return Object.assign(shown, view.unreadable("DELEGATECALL", data, at));
  }
  if (!data.length) return;
  const calldataDigest = ethers.keccak256(ethers.concat([ethers.toBeHex(data.length, 32), data]));
  const selector = "0x" + data.subarray(0, 4).toString("hex");
  const standard = data.length >= 4 && standards[selector];
  if (!standard) {
    return Object.assign(shown, data.length >= 4 && { selector }, { calldataDigest }, view.unreadable("UNKNOWN_FUNCTION", data, at));
  }
  const { fragment, meaning, parties, what } = standard;
  const rest = data.subarray(4);
  Object.assign(shown, { selector, function: fragment.format("sighash"), functionSource: "BUILTIN" });
  const read = masked(fragment.inputs, rest);
  let values;
  try {
    values = codec.decode(fragment.inputs, read).toArray(true);
  } catch {
    view.blind(at);
    if (dangers[meaning]) view.warn(dangers[meaning], at);
    return Object.assign(shown, { calldataDigest }, view.unreadable("DOES_NOT_DECODE", data, at));
  }
  Object.assign(shown, meaning && { meaning }, { calldataDigest });
  const named = (name) => values[fragment.inputs.findIndex((input) => input.name === name)];
  shown.args = fragment.inputs.map((input, i) => argument(view, `${at}.args`, input, values[i], i, carriers[meaning]?.includes(input.name)));
  const again = bytes(codec.encode(fragment.inputs, values));
  if (!again.equals(rest)) {
    const odd = !again.equals(rest.subarray(0, again.length));
    if (odd) view.warn("ENCODING_ODD", at);
    if (!read.equals(rest)) view.partial();
    if (rest.length > again.length && !(odd && fragment.inputs.some(moves))) {
      shown.trailing = view.piece(rest.subarray(again.length));
      view.warn("TRAILING_DATA", at);
    }
  }
  for (const name of parties) party(named(name), `${at}.args.${name}`);
  const token = () => view.warn("TOKEN_UNKNOWN", what.collectible ? at : `${at}.amount`);
  const allowed = (place, value, bits) => {
    if (unlimited(value, bits)) view.warn("APPROVAL_UNLIMITED", place);
    else if (value || (what.number && named("spender") !== zero)) view.warn("APPROVAL", place);
    return { value: String(value), ...(unlimited(value, bits) && { unlimited: true }) };
  };
  if (what.moves) [shown.amount] = [{ value: String(named(what.moves)) }, token()];
  if (what.allows) [shown.amount] = [allowed(`${at}.amount`, named(what.allows), what.bits), token()];
  if (what.burns && (lost(named("to")) || named("to") === to)) view.warn("ADDRESS_BURN", `${at}.args.to`);
  if (what.collectible) token();
  if (what.all && named("approved")) view.warn("APPROVAL_ALL", at);
  if (what.alone && call.value) view.warn("VALUE_ALONG", at);
  if (what.control) view.warn("CONTROL_CHANGE", at);
  if (what.upgrade) view.warn("UPGRADE", at);
  if (what.blind) view.warn("BLIND", `${at}.args.${what.blind}`);
  if (what.until) shown.until = until(view, at, named(what.until));
  if (what.permits) {
    const [details, spender] = named(what.permits);
    party(spender, `${at}.args.spender`);
    shown.amounts = (what.permits === "permitBatch" ? details : [details]).map(([token, value, expiration], i) => {
      view.warn("TOKEN_UNKNOWN", `${at}.amounts.${i}`);
      return { token: view.written(token), ...allowed(`${at}.amounts.${i}`, value, 160), until: until(view, `${at}.amounts.${i}`, expiration) };
    });
  }
  const calls = [];
  if (what.safe) {
    if (named("gasPrice")) view.warn("SAFE_REFUND", at);
    calls.push({ to: named("to"), value: named("value"), data: bytes(named("data")), foreign: named("operation") > 0n });
  }
  if (what.upgrade && named("data") !== "0x") calls.push({ to: named("newImplementation"), data: bytes(named("data")), foreign: true, upgrade: true });
  if (what.packed) {
    let left = bytes(named("transactions"));
    while (left.length) {
      const size = left.length < 85 ? -1n : BigInt("0x" + left.subarray(53, 85).toString("hex"));
      if (size < 0n || size > left.length - 85) {
        shown.transactions = { trailing: view.piece(left) };
        view.warn("TRAILING_DATA", `${at}.transactions`);
        break;
      }
      const end = 85 + Number(size);
      calls.push({ foreign: left[0] > 0, to: ethers.getAddress("0x" + left.subarray(1, 21).toString("hex")), value: BigInt("0x" + left.subarray(21, 53).toString("hex")), data: left.subarray(85, end) });
      left = left.subarray(end);
    }
  }
  if (what.carries === "data") calls.push(...named("data").map((data) => ({ to, data: bytes(data) })));
  if (what.carries === "calls") calls.push(...named("calls").map(([to, , data]) => ({ to, data: bytes(data) })));
  if (!calls.length) return;
  shown.calls = [];
  for (const inner of calls) showCall(view, coin, shown.calls, `${at}.calls`, inner, depth + 1);
}

const month = 30n * 24n * 3600n;
function until(view, at, end, zeroIsNever = false) {
  const now = BigInt(Math.floor(Date.now() / 1000));
  if (end > now + month || (zeroIsNever && end === 0n)) view.warn("NO_EXPIRY", at);
  return seconds(end);
}

// argument is a value with its type, named and in its place.
function argument(view, path, type, value, i, elsewhere) {
  const at = `${path}.${type.name || i}`;
  const shown = { ...(type.name && { name: type.name }), type: type.format("sighash") };
  return { ...shown, ...abiShown(view, at, type, value, elsewhere) };
}
function abiShown(view, at, type, value, elsewhere) {
  if (type.isArray()) {
    return { items: value.map((item, i) => ({ type: type.arrayChildren.format("sighash"), ...abiShown(view, `${at}.items.${i}`, type.arrayChildren, item, elsewhere) })) };
  }
  if (type.isTuple()) return { members: type.components.map((part, i) => argument(view, `${at}.members`, part, value[i], i, elsewhere)) };
  if (type.type === "address") return view.address(view.written(value));
  if (type.type === "bool") return { value };
  if (type.type === "string") return { value: view.text(value, `${at}.value`) };
  if (type.type.startsWith("bytes")) return { value: view.data(bytes(value), `${at}.value`, elsewhere) };
  return { value: String(value) };
}

export { abiValue, accessList, authorizationBytes, authorizationHash, callData, chainId, delegation, ethereum, ethereumAddress, ethereumShown, ethereumTransaction, ethereumView, networkOf, permit2, seaport, showCall, unlimited, until, zero };
