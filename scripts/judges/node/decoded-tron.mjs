// Tron: what approvers are shown of the contracts that are read, held against tronweb's own protocol buffers.
import { test } from "node:test";
import { getAddress } from "ethers";
import { TronWeb } from "tronweb";
import { callData, ethereumAddress, ethereumView, showCall } from "./view-ethereum.mjs";
import { account } from "./setting.mjs";
import { amount, bytes, judged, sha256, transaction } from "./view.mjs";

const tronWeb = new TronWeb({ fullHost: "http://127.0.0.1:1" }); // nobody is there, nobody is asked
const builder = tronWeb.transactionBuilder;
const trx = (sun) => amount(sun, "sun", "TRX", 6);
const base58 = (address) => TronWeb.address.fromHex(address.replace(/^0x/, "41"));
const resources = ["BANDWIDTH", "ENERGY", "TRON_POWER"];

// Amounts, of which tronweb counts 53 bits.
const sun = (random) => Number(random.number(53)) || 1;

async function tronTransaction(random, accounts) {
  const others = accounts.map((a) => ({ address: "0x" + TronWeb.address.toHex(a.address).slice(2) }));
  const raw = () => ethereumAddress(random, others);
  const stranger = () => base58("0x" + random.bytes(20).toString("hex"));
  const owner = random.is(85) ? accounts[0].address : random.one([accounts[1].address, stranger()]);
  const to = () => {
    const made = base58(raw());
    return made === owner ? stranger() : made;
  };
  const blockHeader = {
    ref_block_bytes: random.bytes(2).toString("hex"), ref_block_hash: random.bytes(8).toString("hex"), timestamp: random.one([1, 1_893_456_000_000]),
    expiration: random.one([1, 1_893_456_060_000, 1_893_456_060_120, 1_893_456_060_001, 253_402_300_800_000, Number.MAX_SAFE_INTEGER]),
  };
  const options = { blockHeader, ...(random.is(20) && { permissionId: random.between(1, 9) }) };
  const permission = (type, name, id) => ({
    type, permission_name: name, threshold: 1, keys: random.times(random.between(1, 5), () => ({ address: TronWeb.address.toHex(random.is(30) ? owner : to()), weight: random.one([1, 2, 1e9]) })),
    ...(id !== undefined && { id, operations: random.bytes(32).toString("hex") }),
  });
  const names = () => random.one(["owner", "active", "энергия", "x".repeat(32), "a\u202eb"]);
  const made = await random.one([
    () => builder.sendTrx(to(), sun(random), owner, options),
    async () => {
      const input = random.is(85) ? callData(random, others, 2).slice(2) : "";
      const callOptions = {
        ...options, txLocal: true, feeLimit: Number(random.one([1n, 1_000_000_000n, 1_000_000_001n, 15_000_000_000n])), callValue: random.is(40) ? sun(random) : 0,
        ...(random.is(20) && { tokenValue: sun(random), tokenId: random.between(1_000_001, 2_000_000) }), input,
      };
      return (await builder.triggerSmartContract(to(), "", callOptions, [], owner)).transaction;
    },
    async () => {
      const parameters = [{ type: "address", value: to() }, { type: "uint256", value: String(random.number(256)) }];
      const name = random.one(["transfer(address,uint256)", "approve(address,uint256)", "burnFrom2(address,uint256)"]);
      return (await builder.triggerSmartContract(to(), name, { ...options, txLocal: true, feeLimit: 30_000_000, callValue: 0 }, parameters, owner)).transaction;
    },
    () => builder.freezeBalanceV2(sun(random), random.one(resources.slice(0, 2)), owner, options),
    () => builder.unfreezeBalanceV2(sun(random), random.one(resources.slice(0, 2)), owner, options),
    () => builder.delegateResource(Math.max(sun(random), 1_000_000), to(), random.one(resources.slice(0, 2)), owner, random.is(50), random.one([0, 100, 864_000]), options),
    () => builder.undelegateResource(Math.max(sun(random), 1_000_000), to(), random.one(resources.slice(0, 2)), owner, options),
    () => builder.updateAccountPermissions(owner, permission(0, names()), random.is(30) ? permission(1, names()) : null, random.times(random.between(1, 4), (i) => permission(2, names(), i + 2)), options),
  ])();
  if (!random.is(20)) return made;
  const note = random.is(70) ? Buffer.from(random.text() || "note") : random.bytes(random.between(1, 300));
  return builder.addUpdateData(made, note.toString("hex"), "hex", { txLocal: true });
}

const titles = {
  TransferContract: "Send TRX", AccountPermissionUpdateContract: "Change who controls the account", FreezeBalanceV2Contract: "Stake TRX",
  UnfreezeBalanceV2Contract: "Take staked TRX back", DelegateResourceContract: "Lend resources to another account", UnDelegateResourceContract: "Take lent resources back",
};

function tronShown(accounts, raw) {
  const view = ethereumView("TRON_TRANSACTION", accounts);
  Object.assign(view, { own: accounts.map((a) => a.address), builtin: {}, nobody: [], written: base58 });
  const proto = globalThis.TronWebProto;
  const data = proto.Transaction.raw.deserializeBinary(raw);
  const [head] = data.getContractList();
  const type = Object.entries(proto.Transaction.Contract.ContractType).find(([, n]) => n === head.getType())[0].toUpperCase();
  const name = [...Object.keys(titles), "TriggerSmartContract"].find((title) => title.toUpperCase() === type);
  const contract = proto[name].deserializeBinary(head.getParameter().getValue_asU8());
  const hex = (b64) => "41" + Buffer.from(b64).toString("hex").slice(2);
  const address = (octets) => TronWeb.address.fromHex(hex(octets));
  view.signed("PROTOBUF", raw, "ECDSA_SECP256K1", [sha256(raw)], accounts[0].address);
  const owner = address(contract.getOwnerAddress_asU8());
  if (!view.isOwn(owner)) view.warn("OTHER_PARTIES", "parts.0.owner");
  const to = contract.getToAddress_asU8?.();
  const receiver = contract.getReceiverAddress_asU8?.();
  const moved = contract.getAmount?.() ?? contract.getFrozenBalance?.() ?? contract.getUnfreezeBalance?.() ?? contract.getBalance?.() ?? (contract.getCallValue?.() || undefined);
  const limit = data.getFeeLimit();
  const expiration = data.getExpiration();
  // tronweb has a coin's burnt accounts nowhere: that of no key is the one of zeros.
  const nobody = base58("0x" + "00".repeat(20));
  view.nobody = name === "TriggerSmartContract" ? [nobody] : [];
  Object.assign(view.part, {
    contract: name, owner: { address: owner }, ...(head.getPermissionId() && { permissionId: String(head.getPermissionId()) }),
    ...(to && { to: { address: address(to) } }), ...(receiver && { receiver: { address: address(receiver) } }), ...(moved !== undefined && { value: trx(moved) }),
    ...(contract.getResource && { resource: resources[contract.getResource()] }),
    ...(contract.getLock && { lock: contract.getLock(), lockPeriod: String(contract.getLockPeriod()) }),
    ...(contract.getCallTokenValue?.() && { tokenValue: { value: String(contract.getCallTokenValue()), tokenId: String(contract.getTokenId()) } }),
    ...(limit && { maxFee: trx(limit) }),
    expiration: {
      value: String(expiration), unit: "ms",
      ...(expiration < 253_402_300_800_000 && { text: new Date(expiration).toISOString().replace(/\.?0*Z$/, "Z") }),
    },
  });
  if (to) view.party(address(to), "parts.0.to");
  if (receiver) view.party(address(receiver), "parts.0.receiver");
  if (view.part.tokenValue) view.warn("TOKEN_UNKNOWN", "parts.0.tokenValue");
  if (limit > 1e9) view.warn("FEE_HIGH", "parts.0.maxFee");
  const note = Buffer.from(data.getData_asU8());
  if (note.length) {
    const text = note.toString();
    Object.assign(view.part, Buffer.from(text).equals(note) ? view.lines("memo", text, "parts.0") : { memo: view.data(note, "parts.0.memo") });
  }
  if (name === "AccountPermissionUpdateContract") {
    view.warn("CONTROL_CHANGE", "parts.0");
    const permission = (p, at) => ({
      ...(p.getPermissionName() && { name: view.text(p.getPermissionName(), `${at}.name`) }), threshold: String(p.getThreshold()),
      ...(p.getOperations_asU8().length && { operations: "0x" + Buffer.from(p.getOperations_asU8()).toString("hex") }),
      keys: p.getKeysList().map((key, i) => {
        view.party(address(key.getAddress_asU8()), `${at}.keys.${i}`);
        return { address: address(key.getAddress_asU8()), weight: String(key.getWeight()) };
      }),
    });
    const at = "parts.0.permissions";
    const [first, witness, actives] = [contract.getOwner(), contract.getWitness(), contract.getActivesList()];
    view.part.permissions = {
      ...(first && { owner: permission(first, `${at}.owner`) }), ...(witness && { witness: permission(witness, `${at}.witness`) }),
      ...(actives.length && { actives: actives.map((p, i) => permission(p, `${at}.actives.${i}`)) }),
    };
  }
  if (name === "TriggerSmartContract") {
    const called = "0x" + hex(contract.getContractAddress_asU8()).slice(2);
    view.part.calls = [];
    showCall(view, trx, view.part.calls, "parts.0.calls", { to: getAddress(called), value: BigInt(contract.getCallValue()), data: Buffer.from(contract.getData_asU8()) }, 1);
  } else {
    view.title = titles[name];
  }
  return view;
}

test("tronweb: every contract that is read", () =>
  judged("tron", [account("TRON", "m/44'/195'/0'/0/0"), account("TRON", "m/44'/195'/1'/0/0")], async (random, accounts) => {
    const { raw_data_hex } = await tronTransaction(random, accounts);
    return [transaction("TRON", accounts[0].address, bytes(raw_data_hex)), tronShown(accounts, bytes(raw_data_hex))];
  }));
