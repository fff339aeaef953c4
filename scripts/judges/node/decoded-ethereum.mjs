// Ethereum: what approvers are shown of transactions, calls, typed data, authorizations and messages, held against ethers, and
// against viem where ethers 6.13 does not read it.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as ethers from "ethers";
import { createSiweMessage, parseSiweMessage } from "viem/siwe";
import { abiValue, authorizationBytes, authorizationHash, callData, chainId, delegation, ethereum, ethereumAddress, ethereumShown, ethereumTransaction, ethereumView, networkOf, permit2, seaport, showCall, unlimited, until } from "./view-ethereum.mjs";
import { amount, bytes, judged, payload, transaction } from "./view.mjs";

test("ethers: transactions of all types", () =>
  judged("ethereum", ethereum, async (random, accounts) => {
    const type = random.one([0, 0, 1, 2, 2, 3, 4]);
    const to = type < 3 && random.is(10) ? null : ethereumAddress(random, accounts);
    const raw = ethereumTransaction(random, accounts, type, to, random.is(40) ? "0x" : ethers.hexlify(random.data()));
    return [transaction("ETHEREUM", accounts[0].address, bytes(raw)), await ethereumShown(accounts, raw)];
  }));

test("ethers: calls of standard functions, in one another, and of others", () =>
  judged("calls", ethereum, async (random, accounts) => {
    const raw = ethereumTransaction(random, accounts, 2, ethereumAddress(random, accounts), callData(random, accounts), random.one([0n, random.number(64)]));
    return [transaction("ETHEREUM", accounts[0].address, bytes(raw)), await ethereumShown(accounts, raw)];
  }));

// Typed data of random types, or of the standards that have a meaning.
const permitDetails = [["address", "token"], ["uint160", "amount"], ["uint48", "expiration"], ["uint48", "nonce"]];
const tokenPermissions = [["address", "token"], ["uint256", "amount"]];
const typedStandards = {
  ERC2612_PERMIT: ["Permit", { Permit: [["address", "owner"], ["address", "spender"], ["uint256", "value"], ["uint256", "nonce"], ["uint256", "deadline"]] }],
  DAI_PERMIT: ["Permit", { Permit: [["address", "holder"], ["address", "spender"], ["uint256", "nonce"], ["uint256", "expiry"], ["bool", "allowed"]] }],
  ERC3009_TRANSFER: ["TransferWithAuthorization", { TransferWithAuthorization: [["address", "from"], ["address", "to"], ["uint256", "value"], ["uint256", "validAfter"], ["uint256", "validBefore"], ["bytes32", "nonce"]] }],
  PERMIT2_SINGLE: ["PermitSingle", { PermitSingle: [["PermitDetails", "details"], ["address", "spender"], ["uint256", "sigDeadline"]], PermitDetails: permitDetails }],
  PERMIT2_BATCH: ["PermitBatch", { PermitBatch: [["PermitDetails[]", "details"], ["address", "spender"], ["uint256", "sigDeadline"]], PermitDetails: permitDetails }],
  PERMIT2_TRANSFER: ["PermitTransferFrom", { PermitTransferFrom: [["TokenPermissions", "permitted"], ["address", "spender"], ["uint256", "nonce"], ["uint256", "deadline"]], TokenPermissions: tokenPermissions }],
  SAFE_MESSAGE: ["SafeMessage", { SafeMessage: [["bytes", "message"]] }],
  SAFE_TX: ["SafeTx", { SafeTx: [["address", "to"], ["uint256", "value"], ["bytes", "data"], ["uint8", "operation"], ["uint256", "safeTxGas"], ["uint256", "baseGas"], ["uint256", "gasPrice"], ["address", "gasToken"], ["address", "refundReceiver"], ["uint256", "nonce"]] }],
};
const listed = (types) => Object.fromEntries(Object.entries(types).map(([name, members]) => [name, members.map(([type, name]) => ({ type, name }))]));

function randomTypes(random) {
  const types = {};
  const struct = (depth) => {
    const name = `${random.one(["Mail", "Person", "a", "_x", "Z9", "$"].slice(0, depth ? 5 : 6))}${Object.keys(types).length || ""}`;
    types[name] = [];
    for (let i = random.one([0, 1, 2, 3, 6]); i > 0; i--) {
      const [size, width] = [8 * random.between(1, 32), random.between(1, 32)];
      const atoms = ["address", "bool", "string", "bytes", `bytes${width}`, `uint${size}`, `int${size}`, "uint256"];
      const base = depth < 3 && random.is(25) && name !== "$" ? struct(depth + 1) : random.one(atoms);
      const lists = random.is(30) ? random.one(["[]", "[2]", "[][]", "[1][]", "[][3]"]) : "";
      types[name].push({ name: `${random.one(["to", "from", "value", "_", "data", "$x"])}${i}`, type: base + lists });
    }
    return name;
  };
  return [struct(0), types];
}

function typedValue(random, accounts, types, type) {
  const list = /^(.*)\[(\d*)\]$/.exec(type);
  if (list) return random.times(list[2] === "" ? random.below(4) : Number(list[2]), () => typedValue(random, accounts, types, list[1]));
  if (types[type]) return Object.fromEntries(types[type].map((m) => [m.name, typedValue(random, accounts, types, m.type)]));
  const value = abiValue(random, accounts, ethers.ParamType.from(type));
  if (typeof value !== "bigint") return value;
  return random.one([String(value), value >= 0n ? `0x${value.toString(16)}` : String(value)]);
}

function typedData(random, accounts) {
  let [primaryType, types, domain] = [...randomTypes(random), {}];
  const standard = random.is(50) && random.one(Object.keys(typedStandards));
  if (standard) [primaryType, types] = [typedStandards[standard][0], listed(typedStandards[standard][1])];
  const message = typedValue(random, accounts, types, primaryType);
  if (standard === "SAFE_MESSAGE" && random.is(70)) {
    message.message = ethers.hexlify(random.one([Buffer.from(random.text()), Buffer.from("I agree\n\tto it\r\n"), random.bytes(32), Buffer.concat([bytes("0x1901"), random.bytes(64)]), Buffer.from("\x19\x01" + "a".repeat(64))]));
  }
  if (standard === "SAFE_TX") {
    if (random.is(60)) message.data = callData(random, accounts, 2);
    message.operation = random.one(["0", "0", "1"]);
    if (random.is(50)) message.gasPrice = "0";
  }
  if (random.is(85)) domain.name = random.one(["Token", "Permit2", "Perm\u0456t2", "Seaport", random.text()]);
  if (random.is(50)) domain.version = random.one(["1", "", random.text()]);
  if (random.is(85)) domain.chainId = String(random.is(80) ? chainId(random) : random.number(256));
  if (standard || random.is(80)) domain.verifyingContract = random.is(30) && /^PERMIT2/.test(standard) ? permit2 : ethereumAddress(random, accounts);
  if (random.is(20)) domain.salt = random.hex(32);
  const types712 = ["name", "version", "chainId", "verifyingContract", "salt"].filter((key) => key in domain)
    .map((name) => ({ name, type: { chainId: "uint256", verifyingContract: "address", salt: "bytes32" }[name] ?? "string" }));
  const beside = random.is(5) ? { notSigned: 1 } : {};
  return JSON.stringify({ types: { EIP712Domain: types712, ...types }, primaryType, domain, message: { ...message, ...beside } });
}

function typedShown(accounts, text) {
  const view = ethereumView("EIP712", accounts);
  const { types: { EIP712Domain, ...types }, primaryType, domain, message } = JSON.parse(text);
  const encoder = ethers.TypedDataEncoder.from(types);
  assert.equal(encoder.primaryType, primaryType);
  view.signed("JSON", Buffer.from(text), "ECDSA_SECP256K1", [ethers.TypedDataEncoder.hash(domain, types, message)], accounts[0].address);
  const shownDomain = Object.fromEntries(EIP712Domain.map(({ name, type }) => {
    const value = domain[name];
    if (type === "address") return [name, view.address(value)];
    return [name, type === "string" ? view.text(value, `parts.0.domain.${name}`) : type === "uint256" ? String(BigInt(value)) : value];
  }));
  const { verifyingContract } = domain;
  if (verifyingContract) view.party(verifyingContract, "parts.0.domain.verifyingContract");
  const id = domain.chainId === undefined ? 0n : BigInt(domain.chainId);
  const { name: network, unit } = networkOf(id < 1n << 64n ? id : 0n);
  if (domain.chainId !== undefined && !network) view.warn("CHAIN_UNKNOWN", "parts.0.domain.chainId");
  if (domain.chainId === undefined || !verifyingContract) view.warn("DOMAIN_OPEN", "parts.0.domain");
  if (domain.name?.replace("\u0456", "i") === "Permit2" && verifyingContract !== permit2) view.warn("DOMAIN_FALSE", "parts.0.domain.name");
  if (domain.name === "Seaport" && verifyingContract !== seaport) view.warn("DOMAIN_FALSE", "parts.0.domain.name");
  const [meaning] = Object.entries(typedStandards).find(([, [name, standard]]) => name === primaryType && JSON.stringify(listed(standard)) === JSON.stringify(types)) ?? [];
  const members = (type, value, path) => types[type].map(({ name, type }) => ({ name, type, ...typed(type, value[name], `${path}.${name}`) }));
  const typed = (type, value, at) => {
    const list = /^(.*)\[\d*\]$/.exec(type);
    if (list) return { items: value.map((item, i) => typed(list[1], item, `${at}.items.${i}`)) };
    if (types[type]) return { members: members(type, value, `${at}.members`) };
    if (type === "address") return view.address(ethers.getAddress(value));
    if (type === "bool") return { value };
    if (type === "string") return { value: view.text(value, `${at}.value`) };
    if (type.startsWith("bytes")) return { value: view.data(bytes(value), `${at}.value`, meaning === "SAFE_TX") };
    return { value: String(BigInt(value)) };
  };
  Object.assign(view.part, {
    primaryType, encodeType: view.text(encoder.encodeType(primaryType), "parts.0.encodeType"), domain: shownDomain,
    domainHash: ethers.TypedDataEncoder.hashDomain(domain), messageHash: encoder.hash(message),
    message: members(primaryType, message, "parts.0.message"),
    ...("notSigned" in message && { unsigned: [{ name: `${primaryType}.notSigned` }] }),
  });
  const n = (name) => BigInt(message[name]);
  const allows = (at, value, bits) => {
    view.warn("TOKEN_UNKNOWN", at);
    if (bits && unlimited(value, bits)) view.warn("APPROVAL_UNLIMITED", at);
    return { value: String(value), ...(bits && unlimited(value, bits) && { unlimited: true }) };
  };
  const amounts = (list, bits) => list.map(({ token, amount, expiration }, i) => ({
    token, ...allows(`parts.0.amounts.${i}`, BigInt(amount), bits), ...(expiration !== undefined && { until: until(view, `parts.0.amounts.${i}`, BigInt(expiration)) }),
  }));
  if (meaning && !/^SAFE/.test(meaning)) {
    const to = meaning === "ERC3009_TRANSFER" ? "to" : "spender";
    view.warn("PERMIT", "parts.0");
    view.party(message[to], `parts.0.message.${to}`);
  }
  if (!/^PERMIT2/.test(meaning) || verifyingContract === permit2) view.part.meaning = meaning;
  switch (meaning) {
    case "ERC2612_PERMIT":
      return Object.assign(view.part, { amount: allows("parts.0.amount", n("value"), 256), until: until(view, "parts.0", n("deadline")) }), view;
    case "DAI_PERMIT":
      view.warn("TOKEN_UNKNOWN", "parts.0");
      if (message.allowed) view.warn("APPROVAL_UNLIMITED", "parts.0.message.allowed");
      return Object.assign(view.part, { until: until(view, "parts.0", n("expiry"), true) }), view;
    case "ERC3009_TRANSFER":
      return Object.assign(view.part, { amount: allows("parts.0.amount", n("value")), until: until(view, "parts.0", n("validBefore")) }), view;
    case "PERMIT2_SINGLE":
    case "PERMIT2_BATCH":
      if (view.part.meaning) view.part.amounts = amounts([message.details].flat(), 160);
      break;
    case "PERMIT2_TRANSFER":
      if (view.part.meaning) view.part.amounts = amounts([message.permitted], 256);
      view.part.until = until(view, "parts.0", n("deadline"));
      break;
    case "SAFE_MESSAGE": {
      const signed = bytes(message.message);
      const readable = signed.toString();
      const isHash = signed.length === 32 || (signed.length === 66 && signed[0] === 0x19 && signed[1] === 1);
      if (!isHash && signed.length && Buffer.from(readable).equals(signed) && !/(?![\t\r\n])\p{Cc}/u.test(readable)) {
        Object.assign(view.part, view.lines("lines", readable, "parts.0"));
        break;
      }
      view.blind("parts.0");
      if (!isHash) view.warn("UNREAD", "parts.0");
      Object.assign(view.part, { unreadable: { reason: isHash ? "DIGEST" : "DOES_NOT_DECODE", ...view.piece(signed) } });
      break;
    }
    case "SAFE_TX": {
      if (n("gasPrice")) {
        view.warn("SAFE_REFUND", "parts.0");
        view.party(message.refundReceiver, "parts.0.message.refundReceiver");
      }
      view.part.calls = [];
      const call = { to: message.to, value: n("value"), data: bytes(message.data), foreign: n("operation") > 0n };
      showCall(view, id && id < 1n << 64n ? unit : (value) => amount(value, "wei", "", 18), view.part.calls, "parts.0.calls", call, 2);
    }
  }
  return view;
}

test("ethers: typed data of random types and of standards", () =>
  judged("typed data", ethereum, async (random, accounts) => {
    const text = typedData(random, accounts);
    return [payload(accounts[0].address, text, "EIP712", "NO_OP"), typedShown(accounts, text)];
  }));

test("ethers: authorizations of EIP-7702", () =>
  judged("authorizations", ethereum, async (random, accounts) => {
    const nonce = random.number(64) % ((1n << 64n) - 1n);
    const as = (n) => random.one([String(n), `0x${n.toString(16)}`]);
    const text = JSON.stringify({ address: ethereumAddress(random, accounts), chainId: as(random.one([0n, 1n, random.number(256)])), nonce: as(nonce) });
    const read = JSON.parse(text);
    const asBytes = random.is(40) && authorizationBytes(read);
    const view = ethereumView(asBytes ? "RAW_PAYLOAD" : "EIP7702_AUTHORIZATION", accounts);
    view.signed(asBytes ? "BYTES" : "JSON", asBytes ? bytes(asBytes) : Buffer.from(text), "ECDSA_SECP256K1", [authorizationHash(read)], accounts[0].address);
    const at = asBytes ? "parts.0.of" : "parts.0";
    const shown = { ...delegation(view, at, { ...read, chainId: BigInt(read.chainId) }), nonce: String(BigInt(read.nonce)), authority: accounts[0].address };
    if (asBytes) {
      view.warn("MESSAGE_IS_TRANSACTION", "parts.0");
      view.title = "Sign an authorization as bytes";
      Object.assign(view.part, { is: "EIP7702_AUTHORIZATION", of: { input: { ...view.part.input, encoding: "RLP" }, ...shown } });
      return [payload(accounts[0].address, asBytes, "HEXADECIMAL", "KECCAK256"), view];
    }
    Object.assign(view.part, shown);
    return [payload(accounts[0].address, text, "EIP7702_AUTHORIZATION", "NO_OP"), view];
  }));

// A message that signs in as viem writes it, by chance with a line changed, so that it is a message like any other.
function signInMessage(random, accounts) {
  const written = createSiweMessage({
    domain: random.one(["example.com", "example.com:8080", "localhost:1"]), address: ethers.getAddress(random.is(70) ? accounts[0].address : random.hex(20)),
    uri: "https://example.com/path?a=1#b", version: "1", chainId: random.one([1, 137, 31337]), nonce: random.hex(8).slice(2),
    issuedAt: new Date(1.7e12 + random.below(1e9)),
    ...(random.is(50) && { statement: random.one(["I accept.", "Zurück", "", " "]) || undefined }), ...(random.is(30) && { scheme: "https" }),
    ...(random.is(50) && { expirationTime: new Date(1.8e12) }), ...(random.is(30) && { notBefore: new Date(1.7e12) }), ...(random.is(30) && { requestId: "r-1" }),
    ...(random.is(30) && { resources: ["https://example.com/a", "ipfs://b"] }),
  });
  return random.is(80) ? written : written.replace(random.one(["Version: 1", "Chain ID: ", "URI: ", "Nonce: ", "account:\n"]), random.one(["", "Version: 2", "X"]));
}

test("ethers: messages of EIP-191, some of which sign in", () =>
  judged("messages", ethereum, async (random, accounts) => {
    const message = random.is(30) ? Buffer.from(signInMessage(random, accounts)) : random.is(20) ? random.data() : random.is(4) ? Buffer.from("a word, 32 letters, no hash: oops".slice(0, 32)) : Buffer.from(random.times(random.below(6), () => random.text()).join(random.one(["\n", "\r\n", " "])));
    const preimage = Buffer.concat([Buffer.from(`\x19Ethereum Signed Message:\n${message.length}`), message]);
    const view = ethereumView("ETHEREUM_MESSAGE", accounts);
    view.signed("BYTES", preimage, "ECDSA_SECP256K1", [ethers.hashMessage(message)], accounts[0].address);
    const text = message.toString();
    view.title = "Sign a message";
    const isText = Buffer.from(text).equals(message);
    if (message.length === 32 || !isText) {
      Object.assign(view.part, { unreadable: { reason: message.length === 32 ? "DIGEST" : "DOES_NOT_DECODE", ...view.piece(message) } });
      if (message.length !== 32) view.warn("UNREAD", "parts.0");
      view.blind("parts.0");
    }
    if (isText) Object.assign(view.part, view.lines("lines", text, "parts.0"));
    const s = parseSiweMessage(text);
    if (s.domain && s.address && s.version === "1" && s.uri && s.nonce && s.issuedAt && s.chainId && createSiweMessage(s) === text) {
      const signIn = { ...s, chainId: String(s.chainId), address: s.address };
      for (const key of ["issuedAt", "expirationTime", "notBefore"]) if (s[key]) signIn[key] = s[key].toISOString();
      if (s.statement) signIn.statement = view.text(s.statement, "parts.0.signIn.statement");
      if (s.resources) signIn.resources = s.resources.map((uri) => ({ uri }));
      Object.assign(view.part, { meaning: "SIGN_IN", signIn });
      view.title = "Sign in to a site";
      if (s.address !== accounts[0].address) view.warn("SIGN_IN_OTHER", "parts.0.signIn.address");
    }
    return [payload(accounts[0].address, preimage.toString("hex"), "HEXADECIMAL", "KECCAK256"), view];
  }));
