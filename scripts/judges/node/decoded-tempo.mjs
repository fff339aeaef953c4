// Tempo: what approvers are shown of transactions, held against viem/tempo.
import { test } from "node:test";
import * as viem from "viem";
import { Transaction } from "viem/tempo";
import { accessList, callData, ethereum, ethereumAddress, ethereumView, showCall } from "./view-ethereum.mjs";
import { amount, bytes, judged, seconds, transaction } from "./view.mjs";

const { z_TxEnvelopeTempo: TxEnvelopeTempo } = Transaction;
const networks = { 4217: "Tempo", 42431: "Tempo Testnet" };
const dollars = (value) => amount(value, "attodollar", "USD", 18);

function tempoTransaction(random, accounts) {
  const address = () => ethereumAddress(random, accounts);
  const maxFeePerGas = random.number(random.one([256, 40, 40]));
  const [validAfter, validBefore] = [Number(random.number(40)) || 1, 2 ** 40 + random.below(2 ** 32)];
  const feePayer = random.is(20);
  return Transaction.serialize({
    type: "tempo", chainId: random.one([4217, 42431, 1, 31337]), nonce: Number(random.number(32)), nonceKey: random.is(50) ? random.number(256) : undefined,
    gas: random.one([random.number(64), 21000n, random.number(24)]), maxFeePerGas, maxPriorityFeePerGas: random.one([0n, maxFeePerGas]),
    calls: random.times(random.is(3) ? 80 : random.between(1, 4), () => ({
      ...(random.is(90) && { to: address() }), data: random.is(20) ? undefined : random.is(60) ? callData(random, accounts, 2) : viem.toHex(random.data()),
      value: random.is(20) ? random.number(256) : undefined,
    })),
    accessList: accessList(random, address), ...(random.is(30) && { validBefore }), ...(random.is(30) && { validAfter }),
    ...(feePayer ? { feePayer } : random.is(40) && { feeToken: address() }),
  });
}

function tempoShown(accounts, raw) {
  const view = ethereumView("TEMPO_TRANSACTION", accounts);
  const tx = TxEnvelopeTempo.deserialize(raw);
  view.signed("RLP", bytes(raw), "ECDSA_SECP256K1", [TxEnvelopeTempo.getSignPayload(TxEnvelopeTempo.from(tx))], accounts[0].address);
  const name = networks[tx.chainId];
  if (!name) view.warn("CHAIN_UNKNOWN", "parts.0.network");
  const fee = (tx.maxFeePerGas ?? 0n) * (tx.gas ?? 0n);
  if (fee > 10n ** 19n) view.warn("FEE_HIGH", "parts.0.maxFee");
  const sponsored = "feePayerSignature" in tx;
  if (sponsored) view.warn("OTHER_PARTIES", "parts.0.feePayer");
  Object.assign(view.part, {
    network: { chainId: String(tx.chainId), ...(name && { name, nameSource: "BUILTIN" }) }, from: { address: accounts[0].address }, nonce: String(tx.nonce ?? 0n),
    nonceKey: String(tx.nonceKey ?? 0n), gasLimit: String(tx.gas ?? 0n), maxFee: dollars(fee),
    ...(tx.feeToken && { feeToken: { address: viem.getAddress(tx.feeToken) } }), ...(sponsored && { feePayer: "OTHER" }),
    ...(tx.validAfter && { validAfter: seconds(BigInt(tx.validAfter)) }), ...(tx.validBefore && { validBefore: seconds(BigInt(tx.validBefore)) }),
    ...(tx.accessList?.length && { accessList: tx.accessList.map((e) => ({ address: viem.getAddress(e.address), storageKeys: String(e.storageKeys.length) })) }),
    calls: [],
  });
  for (const [i, call] of tx.calls.entries()) {
    const data = bytes(call.data ?? "0x");
    if (call.to && call.to !== "0x") {
      showCall(view, (value) => amount(value, "wei"), view.part.calls, "parts.0.calls", { to: viem.getAddress(call.to), value: call.value ?? 0n, data }, 1);
      continue;
    }
    view.part.calls.push({ kind: "CREATE", code: view.piece(data) });
    view.warn("CONTRACT_CREATION", `parts.0.calls.${i}`);
    if (data.length > 256) view.warn("CUT", `parts.0.calls.${i}.code`);
    view.partial();
  }
  return view;
}

test("viem/tempo: transactions of several calls", () =>
  judged("tempo", ethereum, async (random, accounts) => {
    const raw = await tempoTransaction(random, accounts);
    return [transaction("TEMPO", accounts[0].address, bytes(raw)), tempoShown(accounts, raw)];
  }));
