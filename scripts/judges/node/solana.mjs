// The Solana virtual machine is given what Cloister signs through @turnkey/solana. It checks every signature and executes.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { ed25519 } from "@noble/curves/ed25519";
import {
  AddressLookupTableAccount, AddressLookupTableProgram, Keypair, LAMPORTS_PER_SOL, NONCE_ACCOUNT_LENGTH, PublicKey, SystemProgram, Transaction,
  TransactionInstruction, TransactionMessage, VersionedTransaction,
} from "@solana/web3.js";
import {
  AccountLayout, AuthorityType, MINT_SIZE, TOKEN_PROGRAM_ID, createApproveCheckedInstruction, createApproveInstruction,
  createAssociatedTokenAccountInstruction, createBurnInstruction, createCloseAccountInstruction, createInitializeMint2Instruction,
  createMintToInstruction, createSetAuthorityInstruction, createTransferCheckedInstruction, createTransferInstruction, getAssociatedTokenAddressSync,
} from "@solana/spl-token";
import { TurnkeySigner } from "@turnkey/solana";
import { FailedTransactionMetadata, LiteSVM, TransactionMetadata } from "litesvm";
import { account, addressElsewhere, bothClients, clerk, organizationId, refused, server, signTransaction, wallet } from "./setting.mjs";

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

// only: the clerk may make the payment alone. With what is beside it he is refused, though the machine, asked by the root user,
// executes both; gone tells what is lost by it then.
async function only(asked, payment, beside, gone) {
  executed(await asked.signTransaction(legacy(alice, payment), alice.toBase58()));
  for (const [what, { instructions, signers = [] }] of Object.entries(beside)) {
    const both = () => legacy(alice, payment, ...instructions);
    await refused(/No policies evaluated to outcome: Allow/, () => asked.signTransaction(both(), alice.toBase58()), 7).catch((error) => {
      throw new Error(`${what}: ${error.message}`);
    });
    svm.expireBlockhash();
    const was = gone();
    const transaction = both();
    if (signers.length > 0) transaction.partialSign(...signers);
    executed(await adapter.signTransaction(transaction, alice.toBase58()));
    assert.notDeepEqual(gone(), was, `${what} took nothing`);
  }
}

test("lamports that leave without a Transfer are seen by a policy that lets a clerk make one transfer to a supplier", async () => {
  const supplier = Keypair.generate().publicKey;
  const client = await clerk("Clerk of lamports", `solana.tx.program_keys.all(p, p == '${SystemProgram.programId}') && solana.tx.transfers.count() == 1`
    + ` && solana.tx.transfers.all(t, t.to == '${supplier}' && t.amount <= 1000000)`);
  const asked = new TurnkeySigner({ client, organizationId });
  svm.airdrop(alice, BigInt(100 * LAMPORTS_PER_SOL));
  const sol = LAMPORTS_PER_SOL;
  const system = SystemProgram.programId;
  const [fresh, assigned, nonce] = Array.from({ length: 3 }, () => Keypair.generate());
  const seeded = (seed, programId = system) => PublicKey.createWithSeed(alice, seed, programId);
  const [paid, from] = await Promise.all(["paid", "from"].map((seed) => seeded(seed)));
  svm.airdrop(from, BigInt(3 * sol));
  svm.airdrop(assigned.publicKey, BigInt(3 * sol));
  const create = SystemProgram.createNonceAccount({ fromPubkey: alice, noncePubkey: nonce.publicKey, authorizedPubkey: alice, lamports: 3 * sol });
  const made = legacy(alice, ...create.instructions);
  made.partialSign(nonce);
  executed(await adapter.signTransaction(made, alice.toBase58()));
  const mallory = Keypair.generate().publicKey;
  const balances = () => [alice, from, nonce.publicKey].map((at) => svm.getBalance(at) ?? 0n).map((n) => n / BigInt(sol / 2));
  assert.equal(svm.getAccount(nonce.publicKey).data.length, NONCE_ACCOUNT_LENGTH);
  await refused(/No policies/, () => asked.signTransaction(legacy(alice, pay(alice, supplier, 1_000_001)), alice.toBase58()), 7);
  await only(asked, pay(alice, supplier, 1_000_000), {
    CreateAccount: {
      instructions: [SystemProgram.createAccount({ fromPubkey: alice, newAccountPubkey: fresh.publicKey, lamports: 2 * sol, space: 0, programId: system })],
      signers: [fresh],
    },
    CreateAccountWithSeed: {
      instructions: [SystemProgram.createAccountWithSeed({
        fromPubkey: alice, basePubkey: alice, newAccountPubkey: paid, seed: "paid", lamports: 2 * sol, space: 0, programId: system,
      })],
    },
    TransferWithSeed: {
      instructions: [SystemProgram.transfer({ fromPubkey: from, basePubkey: alice, toPubkey: mallory, lamports: 2 * sol, seed: "from", programId: system })],
    },
    WithdrawNonceAccount: {
      instructions: [SystemProgram.nonceWithdraw({ noncePubkey: nonce.publicKey, authorizedPubkey: alice, toPubkey: mallory, lamports: sol })],
    },
  }, balances);
  const owners = () => [svm.getAccount(assigned.publicKey).owner.toBase58(), Buffer.from(svm.getAccount(nonce.publicKey).data).toString("hex")];
  await only(asked, pay(alice, supplier, 999_999), {
    Assign: {
      instructions: [SystemProgram.assign({ accountPubkey: assigned.publicKey, programId: memo })],
      signers: [assigned],
    },
    AuthorizeNonceAccount: {
      instructions: [SystemProgram.nonceAuthorize({ noncePubkey: nonce.publicKey, authorizedPubkey: alice, newAuthorizedPubkey: mallory })],
    },
  }, owners);
  assert.equal(svm.getBalance(supplier), 5_000_000n + 3n * 999_999n);
});

test("tokens given away without a transfer are seen by a policy that lets a clerk make one transfer to a supplier", async () => {
  const [from, to] = [alice, bob].map((owner) => getAssociatedTokenAddressSync(mint, owner));
  const client = await clerk("Clerk of tokens", `solana.tx.program_keys.all(p, p == '${TOKEN_PROGRAM_ID}') && solana.tx.spl_transfers.count() == 1`
    + ` && solana.tx.spl_transfers.all(t, t.to == '${to}' && t.amount <= 1000)`);
  const asked = new TurnkeySigner({ client, organizationId });
  const mallory = Keypair.generate().publicKey;
  // Accounts of alice's that hold nothing, each under a mint of its own.
  const idle = [];
  for (let i = 0; i < 2; i++) {
    const other = Keypair.generate();
    const at = getAssociatedTokenAddressSync(other.publicKey, alice);
    const make = legacy(
      alice,
      SystemProgram.createAccount({
        fromPubkey: alice, newAccountPubkey: other.publicKey, lamports: Number(svm.minimumBalanceForRentExemption(BigInt(MINT_SIZE))), space: MINT_SIZE, programId: TOKEN_PROGRAM_ID,
      }),
      createInitializeMint2Instruction(other.publicKey, 6, alice, null),
      createAssociatedTokenAccountInstruction(alice, at, alice, other.publicKey),
    );
    make.partialSign(other);
    executed(await adapter.signTransaction(make, alice.toBase58()));
    idle.push({ at, mint: other.publicKey });
  }
  const state = () => [from, mint, ...idle.flatMap((i) => [i.at, i.mint])].map((at) => {
    const held = svm.getAccount(at);
    const data = Buffer.from(held?.data ?? []);
    if (held && at.equals(from)) data.fill(0, 64, 72); // the payment itself takes from it
    return data.toString("hex");
  });
  const amount = () => AccountLayout.decode(svm.getAccount(from).data).amount;
  const payment = () => createTransferInstruction(from, to, alice, 1_000n);
  await refused(/No policies/, () => asked.signTransaction(legacy(alice, createTransferInstruction(from, to, alice, 1_001n)), alice.toBase58()), 7);
  await only(asked, payment(), {
    Approve: { instructions: [createApproveInstruction(from, mallory, alice, 2n ** 63n)] },
    ApproveChecked: { instructions: [createApproveCheckedInstruction(from, mint, mallory, alice, 2n ** 62n, 6)] },
    "SetAuthority of an account": { instructions: [createSetAuthorityInstruction(idle[0].at, alice, AuthorityType.AccountOwner, mallory)] },
    "SetAuthority of a mint": { instructions: [createSetAuthorityInstruction(idle[0].mint, alice, AuthorityType.MintTokens, mallory)] },
    CloseAccount: { instructions: [createCloseAccountInstruction(idle[1].at, mallory, alice)] },
    MintTo: { instructions: [createMintToInstruction(mint, to, alice, 7n)] },
  }, state);
  await only(asked, payment(), { Burn: { instructions: [createBurnInstruction(from, mint, alice, 5_000n)] } }, () => amount() / 5_000n);
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
