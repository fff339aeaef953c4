// Transactions on Solana that another account pays for: the unmodified client sends them, and the virtual machine stands in the place
// of a node. What accounts hold afterwards is what the machine says.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import {
  AddressLookupTableAccount, AddressLookupTableProgram, ComputeBudgetProgram, Keypair, LAMPORTS_PER_SOL, PublicKey, SystemProgram, Transaction, TransactionMessage, VersionedTransaction,
} from "@solana/web3.js";
import {
  AccountLayout, MINT_SIZE, TOKEN_PROGRAM_ID, createAssociatedTokenAccountIdempotentInstruction, createAssociatedTokenAccountInstruction, createInitializeMint2Instruction,
  createMintToInstruction, createTransferCheckedInstruction, getAssociatedTokenAddressSync,
} from "@solana/spl-token";
import { base58 } from "@scure/base";
import { FailedTransactionMetadata, LiteSVM, TransactionMetadata } from "litesvm";
import { account, http, organizationId, refused, server, wallet } from "./setting.mjs";

const svm = new LiteSVM();
const statuses = new Map(); // of what was sent, by signature
const rich = Keypair.generate();
let node, carol, dave, sponsor, mint, last;

// What a node is asked by the host.
const methods = {
  getGenesisHash: () => "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG",
  getLatestBlockhash: () => {
    svm.expireBlockhash(); // the same transaction again is another one
    return { value: { blockhash: svm.latestBlockhash() } };
  },
  getRecentPrioritizationFees: (keys) => [{ slot: 1, prioritizationFee: keys.length > 0 ? 1000 : 0 }],
  getMultipleAccounts: (keys) => ({ value: keys.map((k) => (balance(new PublicKey(k)) > 0n ? { lamports: 1 } : null)) }),
  getSignatureStatuses: (names) => ({ value: names.map((name) => statuses.get(name) ?? null) }),
  sendTransaction: (text) => {
    const transaction = VersionedTransaction.deserialize(Buffer.from(text, "base64"));
    const name = base58.encode(transaction.signatures[0]);
    if (!statuses.has(name)) {
      const outcome = svm.sendTransaction(transaction);
      if (outcome instanceof FailedTransactionMetadata) throw { code: -32002, message: `Transaction simulation failed: ${outcome.err()}` };
      assert.ok(outcome instanceof TransactionMetadata);
      last = transaction;
      statuses.set(name, { slot: 1, confirmationStatus: "finalized", err: null });
    }
    return name;
  },
};

before(async () => {
  node = createServer(async (request, response) => {
    let text = "";
    for await (const piece of request) text += piece;
    const { id, method, params = [] } = JSON.parse(text);
    const reply = { jsonrpc: "2.0", id };
    try {
      reply.result = methods[method](...params);
    } catch (error) {
      reply.error = error.code ? error : { code: -32601, message: `${method}: ${error}` };
    }
    response.end(JSON.stringify(reply));
  });
  await new Promise((done) => node.listen(Number(process.env.SOLANA_NODE_PORT), "127.0.0.1", done));
  const accounts = await wallet("sponsored", [account("SOLANA", "m/44'/501'/0'/0'"), account("SOLANA", "m/44'/501'/1'/0'")]);
  [carol, dave] = accounts.map((a) => new PublicKey(a.address));
  await limits();
  sponsor = new PublicKey((await http.request("/public/v1/query/get_gas_station", { organizationId })).solanaSponsor);
  for (const who of [rich.publicKey, sponsor]) svm.airdrop(who, BigInt(10 * LAMPORTS_PER_SOL));

  const made = Keypair.generate();
  mint = made.publicKey;
  const lamports = Number(svm.minimumBalanceForRentExemption(BigInt(MINT_SIZE)));
  byRich([made],
    SystemProgram.createAccount({ fromPubkey: rich.publicKey, newAccountPubkey: mint, lamports, space: MINT_SIZE, programId: TOKEN_PROGRAM_ID }),
    createInitializeMint2Instruction(mint, 6, rich.publicKey, null),
    createAssociatedTokenAccountInstruction(rich.publicKey, tokens(carol), carol, mint),
    createMintToInstruction(mint, tokens(carol), rich.publicKey, 1_000_000n));
});

after(() => node.close());

const tokens = (owner) => getAssociatedTokenAddressSync(mint, owner);
const balance = (of) => svm.getBalance(of) ?? 0n;
const limits = (more) =>
  http.request("/public/v1/submit/upsert_gas_usage_config", {
    type: "ACTIVITY_TYPE_UPSERT_GAS_USAGE_CONFIG",
    timestampMs: String(Date.now()),
    organizationId,
    parameters: { orgWindowLimitUsd: "1000", subOrgWindowLimitUsd: "0", windowDurationMinutes: "60", ...more },
  });

function byRich(signers, ...instructions) {
  const transaction = new Transaction({ feePayer: rich.publicKey, recentBlockhash: svm.latestBlockhash() }).add(...instructions);
  transaction.sign(rich, ...signers);
  const outcome = svm.sendTransaction(transaction);
  assert.ok(outcome instanceof TransactionMetadata, outcome instanceof FailedTransactionMetadata ? outcome.err().toString() : "");
}

const none = "11111111111111111111111111111111";
const hex = (bytes) => Buffer.from(bytes).toString("hex");
const legacy = (payer, ...instructions) =>
  hex(new Transaction({ feePayer: payer, recentBlockhash: none }).add(...instructions).serialize({ requireAllSignatures: false }));
const v0 = (payerKey, tables, ...instructions) =>
  hex(new VersionedTransaction(new TransactionMessage({ payerKey, recentBlockhash: none, instructions }).compileToV0Message(tables)).serialize());

const send = (unsignedTransaction, ...signers) =>
  server.solSendTransaction({ unsignedTransaction, signWiths: signers.map((s) => s.toBase58()), caip2: "solana:devnet", sponsor: true });

// paid sends a transaction, and answers what the sponsor has paid for it, in lamports, which must be what is counted but for the
// computation, for which this machine takes nothing. In the simulator's configuration a lamport is a millionth of a dollar.
async function paid(unsignedTransaction, ...signers) {
  const [before, counted] = [balance(sponsor), await used()];
  const { sendTransactionStatusId } = await send(unsignedTransaction, ...signers);
  const status = await ended(sendTransactionStatusId);
  assert.equal(status.txStatus, "INCLUDED", JSON.stringify(status));
  assert.ok(statuses.has(status.solana.signature));
  const lamports = before - balance(sponsor);
  assert.equal((await used()) - counted, lamports + computation(last));
  return lamports;
}

// computation is what a network takes at most beside signatures, in lamports: two prices, or units after a price, there are never.
function computation({ message }) {
  let [units, price] = [Math.min(message.compiledInstructions.length * 200_000, 1_400_000), 0n];
  for (const { programIdIndex, data } of message.compiledInstructions) {
    if (!message.staticAccountKeys[programIdIndex].equals(ComputeBudgetProgram.programId)) continue;
    if (data[0] === 2) units = Buffer.from(data).readUInt32LE(1);
    if (data[0] === 3) price = Buffer.from(data).readBigUInt64LE(1);
  }
  return (BigInt(units) * price + 999_999n) / 1_000_000n;
}

async function ended(sendTransactionStatusId) {
  for (;;) {
    const status = await server.getSendTransactionStatus({ sendTransactionStatusId });
    if (status.txStatus === "INCLUDED" || status.txStatus === "FAILED" || status.txError) return status;
    await new Promise((done) => setTimeout(done, 50));
  }
}

const used = async () => BigInt(Math.round(Number((await server.getGasUsage({})).usageUsd) * 1e6));

test("somebody without coins sends tokens", async () => {
  byRich([], createAssociatedTokenAccountInstruction(rich.publicKey, tokens(rich.publicKey), rich.publicKey, mint));
  const transfer = (n) => createTransferCheckedInstruction(tokens(carol), mint, tokens(rich.publicKey), carol, n, 6);
  assert.equal(await paid(legacy(carol, transfer(1n)), carol), 10_000n);
  assert.equal(computation(last), 400n); // at the price that others pay
  assert.equal(await paid(v0(carol, [], transfer(2n), transfer(3n)), carol), 10_000n);
  assert.equal(computation(last), 600n);
  assert.equal(AccountLayout.decode(svm.getAccount(tokens(rich.publicKey)).data).amount, 6n);
  assert.equal(balance(carol), 0n);
});

test("the client's own price and units stay", async () => {
  await paid(legacy(carol, ComputeBudgetProgram.setComputeUnitLimit({ units: 50_000 }), ComputeBudgetProgram.setComputeUnitPrice({ microLamports: 2_000_000 }),
    createTransferCheckedInstruction(tokens(carol), mint, tokens(rich.publicKey), carol, 1n, 6)), carol);
  assert.equal(computation(last), 100_000n);
});

test("two signers, and accounts from a table", async () => {
  const many = Array.from({ length: 12 }, () => Keypair.generate().publicKey);
  const recentSlot = svm.getClock().slot + 1n;
  svm.warpToSlot(recentSlot + 1n);
  const recorded = svm.getSlotHashes().slice(0, 1); // the class has no constructor
  recorded[0].slot = recentSlot;
  svm.setSlotHashes(recorded);
  const [create, key] = AddressLookupTableProgram.createLookupTable({ authority: rich.publicKey, payer: rich.publicKey, recentSlot });
  byRich([], create, AddressLookupTableProgram.extendLookupTable({ lookupTable: key, authority: rich.publicKey, payer: rich.publicKey, addresses: many }));
  svm.warpToSlot(recentSlot + 2n);
  const table = new AddressLookupTableAccount({ key, state: AddressLookupTableAccount.deserialize(svm.getAccount(key).data) });
  for (const who of [carol, dave]) svm.airdrop(who, BigInt(LAMPORTS_PER_SOL));
  const pay = (from, i) => SystemProgram.transfer({ fromPubkey: from, toPubkey: many[i], lamports: 1_000_000 + i });
  const transaction = v0(carol, [table], ...many.map((_, i) => pay(i % 2 ? carol : dave, i)));
  assert.equal(await paid(transaction, dave, carol), 15_000n);
  many.forEach((to, i) => assert.equal(balance(to), BigInt(1_000_000 + i)));
  assert.equal(balance(carol) + balance(dave), BigInt(2 * LAMPORTS_PER_SOL - 12_000_066)); // no fee
  // Away with what is left.
  await paid(legacy(carol, ...[carol, dave].map((from) => SystemProgram.transfer({ fromPubkey: from, toPubkey: rich.publicKey, lamports: balance(from) }))), carol, dave);
});

test("rent of new accounts, once it is allowed and once for each", async () => {
  const [erin, frank] = [Keypair.generate().publicKey, Keypair.generate().publicKey];
  const rent = svm.minimumBalanceForRentExemption(165n);
  const forErin = () => legacy(carol, createAssociatedTokenAccountIdempotentInstruction(carol, tokens(erin), erin, mint));
  const { sendTransactionStatusId } = await send(forErin(), carol);
  assert.match((await ended(sendTransactionStatusId)).txError, /simulation failed/);
  await limits({ solanaConfig: { rentPrefundEnabled: true } });
  const fee = await paid(legacy(carol, createTransferCheckedInstruction(tokens(carol), mint, tokens(rich.publicKey), carol, 1n, 6)), carol);
  const first = await paid(forErin(), carol);
  assert.equal(first, rent + fee);
  assert.equal(balance(tokens(erin)), rent);
  assert.equal(balance(carol), 0n);
  assert.equal(await paid(forErin(), carol), fee); // it is there already
  // Two accounts of one signer in one transaction, one of them named twice, and one that signs itself.
  const several = legacy(carol, createAssociatedTokenAccountInstruction(carol, tokens(frank), frank, mint), createAssociatedTokenAccountIdempotentInstruction(carol, tokens(frank), frank, mint),
    SystemProgram.createAccount({ fromPubkey: carol, newAccountPubkey: dave, lamports: Number(rent), space: 165, programId: TOKEN_PROGRAM_ID }));
  const both = await paid(several, carol, dave);
  assert.equal(both, 2n * rent + 15_000n);
  assert.equal(balance(dave), rent);
  assert.equal(balance(carol), 0n);
  await limits({ solanaConfig: { rentPrefundEnabled: false } });
});

test("nobody else's coins than the fee are the sponsor's to pay", async () => {
  const steal = (from) => SystemProgram.transfer({ fromPubkey: from, toPubkey: rich.publicKey, lamports: 1 });
  const before = balance(sponsor);
  const readable = createTransferCheckedInstruction(tokens(carol), mint, tokens(rich.publicKey), carol, 1n, 6);
  readable.keys.push({ pubkey: sponsor, isSigner: false, isWritable: false });
  await refused(/is one of its own accounts/, () => send(legacy(carol, readable), carol), 3);
  await refused(/every required signer/, () => send(legacy(carol, steal(sponsor)), carol), 3);
  await refused(/not found/, () => send(legacy(carol, steal(sponsor)), carol, sponsor), 5);
  await refused(/not found/, () => server.signRawPayload({ signWith: sponsor.toBase58(), payload: "00", encoding: "PAYLOAD_ENCODING_HEXADECIMAL", hashFunction: "HASH_FUNCTION_NOT_APPLICABLE" }), 5);
  await limits({ orgWindowLimitUsd: "0" });
  await refused(/orgWindowLimitUsd of 0 USD/, () => send(legacy(carol, steal(carol)), carol), 8);
  await limits({ enabled: false });
  await refused(/not enabled/, () => send(legacy(carol, steal(carol)), carol), 9);
  assert.equal(balance(sponsor), before);
});
