// The Solana virtual machine is given what Cloister signs through @turnkey/solana. It checks every signature and executes.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { ed25519 } from "@noble/curves/ed25519";
import {
  AddressLookupTableAccount, AddressLookupTableProgram, Keypair, LAMPORTS_PER_SOL, PublicKey, SystemProgram, Transaction,
  TransactionInstruction, TransactionMessage, VersionedTransaction,
} from "@solana/web3.js";
import {
  AccountLayout, MINT_SIZE, TOKEN_PROGRAM_ID, createAssociatedTokenAccountInstruction, createInitializeMint2Instruction,
  createMintToInstruction, createTransferCheckedInstruction, createTransferInstruction, getAssociatedTokenAddressSync,
} from "@solana/spl-token";
import { TurnkeySigner } from "@turnkey/solana";
import { FailedTransactionMetadata, LiteSVM, TransactionMetadata } from "litesvm";
import { account, addressElsewhere, bothClients, organizationId, refused, server, signTransaction, wallet } from "./setting.mjs";

const svm = new LiteSVM();
const adapter = new TurnkeySigner({ client: server, organizationId });
const memo = new PublicKey("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr");
let alice;
let bob;
let mint;

before(async () => {
  const accounts = await wallet("solana", [account("SOLANA", "m/44'/501'/0'/0'"), account("SOLANA", "m/44'/501'/1'/0'")]);
  [alice, bob] = accounts.map((a) => new PublicKey(a.address));
  for (const owner of [alice, bob]) svm.airdrop(owner, BigInt(10 * LAMPORTS_PER_SOL));
});

// executed: the machine took the transaction and ran it without an error.
function executed(transaction) {
  const outcome = svm.sendTransaction(transaction);
  assert.ok(outcome instanceof TransactionMetadata, outcome instanceof FailedTransactionMetadata ? outcome.err().toString() : "");
  return outcome;
}

const pay = (from, to, lamports) => SystemProgram.transfer({ fromPubkey: from, toPubkey: to, lamports });

function legacy(feePayer, ...instructions) {
  const transaction = new Transaction({ feePayer, recentBlockhash: svm.latestBlockhash() });
  return transaction.add(...instructions);
}

const v0 = (payerKey, instructions, tables = []) =>
  new VersionedTransaction(new TransactionMessage({ payerKey, recentBlockhash: svm.latestBlockhash(), instructions }).compileToV0Message(tables));

test("the machine refuses what is not signed right", async () => {
  const signed = await adapter.signTransaction(v0(alice, [pay(alice, bob, 1)]), alice.toBase58());
  signed.signatures[0][5] ^= 1;
  assert.ok(svm.sendTransaction(signed) instanceof FailedTransactionMetadata);
});

for (const [name, client] of bothClients) {
  const signer = new TurnkeySigner({ client, organizationId });

  test(`${name}: legacy and v0 transfers, whole transactions and signatures alone`, async () => {
    const to = Keypair.generate().publicKey;
    executed(await signer.signTransaction(legacy(alice, pay(alice, to, 1_000_000)), alice.toBase58()));
    executed(await signer.signTransaction(v0(alice, [pay(alice, to, 2_000_000)]), alice.toBase58()));
    for (const transaction of [legacy(alice, pay(alice, to, 3_000_000)), v0(alice, [pay(alice, to, 4_000_000)])]) {
      await signer.addSignature(transaction, alice.toBase58());
      executed(transaction);
    }
    const several = [5, 6, 7].map((n) => (n % 2 ? legacy : (payer, i) => v0(payer, [i]))(alice, pay(alice, to, n * 1_000_000)));
    for (const transaction of await signer.signAllTransactions(several, alice.toBase58())) executed(transaction);
    assert.equal(svm.getBalance(to), 28_000_000n);
  });

  test(`${name}: a message`, async () => {
    for (const message of [Buffer.of(0), Buffer.from("hello, Grüße"), Buffer.alloc(3000, 7)]) {
      assert.ok(ed25519.verify(await signer.signMessage(message, bob.toBase58()), message, bob.toBytes()));
    }
  });
}

test("two signers of ours and one of another: each fills its own slot and keeps the others'", async () => {
  const stranger = Keypair.generate();
  svm.airdrop(stranger.publicKey, BigInt(LAMPORTS_PER_SOL));
  const to = Keypair.generate().publicKey;
  const instructions = [pay(bob, to, 1_000_000), pay(stranger.publicKey, to, 2_000_000), pay(alice, to, 4_000_000)];
  const whole = v0(alice, instructions);
  whole.sign([stranger]);
  const first = await adapter.signTransaction(whole, bob.toBase58());
  assert.ok(svm.sendTransaction(first) instanceof FailedTransactionMetadata, "not complete yet");
  executed(await adapter.signTransaction(first, alice.toBase58()));

  const older = legacy(alice, ...instructions, pay(alice, to, 8_000_000));
  older.partialSign(stranger);
  executed(await adapter.signTransaction(await adapter.signTransaction(older, alice.toBase58()), bob.toBase58()));
  assert.equal(svm.getBalance(to), 22_000_000n);
});

// A lookup table of these addresses, made and filled by our own transactions.
async function lookupTable(addresses) {
  // A table is made of a recent slot, which must be in the record of slots, and can be used from the next one on.
  const recentSlot = svm.getClock().slot + 1n;
  svm.warpToSlot(recentSlot + 1n);
  const recorded = svm.getSlotHashes().slice(0, 1); // the class has no constructor
  recorded[0].slot = recentSlot;
  svm.setSlotHashes(recorded);
  const [create, key] = AddressLookupTableProgram.createLookupTable({ authority: alice, payer: alice, recentSlot });
  const extend = AddressLookupTableProgram.extendLookupTable({ lookupTable: key, authority: alice, payer: alice, addresses });
  executed(await adapter.signTransaction(v0(alice, [create, extend]), alice.toBase58()));
  svm.warpToSlot(recentSlot + 2n);
  return new AddressLookupTableAccount({ key, state: AddressLookupTableAccount.deserialize(svm.getAccount(key).data) });
}

test("v0 with addresses from two lookup tables", async () => {
  const many = Array.from({ length: 20 }, () => Keypair.generate().publicKey);
  const tables = [await lookupTable(many.slice(0, 10)), await lookupTable(many.slice(10))];
  const transaction = v0(alice, many.map((to, i) => pay(alice, to, 1_000_000 + i)), tables);
  assert.equal(transaction.message.addressTableLookups.length, 2);
  const bytes = transaction.serialize().length;
  executed(await adapter.signTransaction(transaction, alice.toBase58()));
  many.forEach((to, i) => assert.equal(svm.getBalance(to), BigInt(1_000_000 + i)));
  assert.ok(bytes < 1232);
});

test("SPL tokens: a mint that signs for itself, accounts, minted, transferred twice", async () => {
  const made = Keypair.generate();
  mint = made.publicKey;
  const rent = Number(svm.minimumBalanceForRentExemption(BigInt(MINT_SIZE)));
  const create = legacy(
    alice,
    SystemProgram.createAccount({ fromPubkey: alice, newAccountPubkey: mint, lamports: rent, space: MINT_SIZE, programId: TOKEN_PROGRAM_ID }),
    createInitializeMint2Instruction(mint, 6, alice, null),
  );
  create.partialSign(made);
  executed(await adapter.signTransaction(create, alice.toBase58()));

  const [from, to] = [alice, bob].map((owner) => getAssociatedTokenAddressSync(mint, owner));
  executed(
    await adapter.signTransaction(
      v0(alice, [
        createAssociatedTokenAccountInstruction(alice, from, alice, mint),
        createAssociatedTokenAccountInstruction(alice, to, bob, mint),
        createMintToInstruction(mint, from, alice, 1_000_000n),
      ]),
      alice.toBase58(),
    ),
  );
  executed(
    await adapter.signTransaction(
      legacy(alice, createTransferCheckedInstruction(from, mint, to, alice, 250_000n, 6), createTransferInstruction(from, to, alice, 50_000n)),
      alice.toBase58(),
    ),
  );
  const amounts = [from, to].map((at) => AccountLayout.decode(svm.getAccount(at).data).amount);
  assert.deepEqual(amounts, [700_000n, 300_000n]);
});

test("an instruction of a program that the reader does not know", async () => {
  const note = new TransactionInstruction({ programId: memo, keys: [{ pubkey: bob, isSigner: true, isWritable: false }], data: Buffer.from("note") });
  executed(await adapter.signTransaction(legacy(bob, note), bob.toBase58()));
});

test("refused: bytes that are no unsigned transaction, whole and canonical", async () => {
  const wire = Buffer.from(v0(alice, [pay(alice, bob, 1)]).serialize());
  const old = legacy(alice, pay(alice, bob, 1)).serialize({ requireAllSignatures: false, verifySignatures: false });
  const at = (bytes, index, value) => Buffer.concat([bytes.subarray(0, index), Buffer.from([value]), bytes.subarray(index + 1)]);
  const cases = {
    "a byte behind it": Buffer.concat([wire, Buffer.alloc(1)]),
    "a byte behind a legacy one": Buffer.concat([old, Buffer.alloc(1)]),
    "cut short": wire.subarray(0, -1),
    "a version that nobody knows": at(wire, 65, 0x81),
    "more signatures than slots": Buffer.concat([Buffer.from([2]), wire.subarray(1, 65), Buffer.alloc(64), wire.subarray(65)]),
    "no signature slot": Buffer.concat([Buffer.from([0]), wire.subarray(65)]),
    "a count longer than it need be": Buffer.concat([Buffer.from([0x81, 0x00]), wire.subarray(1)]),
    "the message alone": wire.subarray(65),
    "nothing": Buffer.alloc(0),
  };
  for (const [what, bytes] of Object.entries(cases)) {
    await refused(/unsignedTransaction/i, () => adapter.signTransaction({ serialize: () => bytes }, alice.toBase58())).catch((error) => {
      throw new Error(`${what}: ${error.message}`);
    });
  }
});

test("refused: who is no signer of it, a key of another chain, of another organization, of nobody", async () => {
  const [ether] = await wallet("solana refused", [account("ETHEREUM", "m/44'/60'/0'/0/0")]);
  const hex = Buffer.from(v0(alice, [pay(alice, bob, 1)]).serialize()).toString("hex");
  await refused(/signer/, () => adapter.signTransaction(v0(alice, [pay(alice, bob, 1)]), bob.toBase58()));
  await refused(/needs an ed25519 key/, () => signTransaction("SOLANA", ether.address, hex));
  await refused(/(wallet account|private key) not found/, () => signTransaction("SOLANA", Keypair.generate().publicKey.toBase58(), hex), 5);
  const elsewhere = await addressElsewhere("SOLANA", "m/44'/501'/0'/0'");
  const theirs = new PublicKey(elsewhere);
  await refused(/(wallet account|private key) not found/, () => adapter.signTransaction(v0(theirs, [pay(theirs, bob, 1)]), elsewhere), 5);
});
