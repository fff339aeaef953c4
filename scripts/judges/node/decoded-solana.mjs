// Solana: what approvers are shown of transactions, held against @solana/web3.js, @solana/spl-token and @sqds/multisig.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as spl from "@solana/spl-token";
import * as web3 from "@solana/web3.js";
import * as multisig from "@sqds/multisig";
import { account } from "./setting.mjs";
import { View, amount, bytes, judged, seconds, sha256, transaction } from "./view.mjs";

// The programs that are built in, by the names that they have there.
const programs = {
  "11111111111111111111111111111111": "System Program", TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA: "Token Program",
  TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb: "Token-2022", ComputeBudget111111111111111111111111111111: "Compute Budget",
  MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr: "Memo", ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL: "Associated Token Account",
  Stake11111111111111111111111111111111111111: "Stake Program", SQDS4ep65T869zMMBKyuUq6aD6EgTu8psMjkvj52pCf: "Squads Multisig v4",
};
const memo = new web3.PublicKey("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr");
const sol = (lamports) => amount(lamports, "lamport", "SOL", 9);
const { StakeProgram, StakeInstruction, SystemProgram, SystemInstruction, ComputeBudgetProgram, ComputeBudgetInstruction, PublicKey } = web3;

const others = Array.from({ length: 3 }, (_, i) => new PublicKey(bytes(sha256(`program ${i}`))));

const messageOf = (random, payerKey, instructions) => new web3.TransactionMessage({ payerKey, recentBlockhash: new PublicKey(random.bytes(32)).toBase58(), instructions });

// Tables on the chain that hold some of the accounts.
const tablesOf = (random, accounts) => random.times(random.below(3), () => new web3.AddressLookupTableAccount({
  key: new PublicKey(random.bytes(32)), state: { addresses: [...random.times(random.below(200), () => new PublicKey(random.bytes(32))), ...accounts.filter(() => random.is(50))], deactivationSlot: 0n, lastExtendedSlot: 0, lastExtendedSlotStartIndex: 0 },
}));

// An instruction of Squads. What a multisig is to run is of any kind, and of its vault.
function squadsInstruction(random, self, pool) {
  const p = pool;
  const make = multisig.instructions;
  const [multisigPda, vaultIndex] = [p(), random.below(256)];
  const [transactionIndex, ephemeralSigners] = [random.number(64), random.below(256)];
  const maybe = (value) => (random.is(50) ? value() : null);
  const text = () => maybe(() => random.text().slice(0, 300)) ?? undefined;
  const [memo, threshold, timeLock, amount] = [text(), random.below(65536), Number(random.number(32)), random.number(64)];
  const keys = (n) => random.times(random.below(n), p);
  const member = () => ({ key: p(), permissions: { mask: random.one([0, 1, 2, 3, 7, 255]) } });
  const stored = () => {
    const [vault] = multisig.getVaultPda({ multisigPda, index: vaultIndex });
    const within = () => (random.is(20) ? vault : p());
    const instructions = random.times(random.below(4), () => solanaInstruction(random, vault, within, new Set()));
    const accounts = [...instructions.flatMap((i) => i.keys.map((k) => k.pubkey)), ...random.is(20) ? instructions.map((i) => i.programId) : []];
    return { transactionMessage: messageOf(random, vault, instructions), addressLookupTableAccounts: tablesOf(random, accounts) };
  };
  const limit = () => ({ createKey: p(), vaultIndex, mint: random.one([PublicKey.default, p()]), amount, period: random.below(4), members: keys(3), destinations: keys(3) });
  const common = { multisigPda, configAuthority: self, rentPayer: self, memo };
  const action = () => random.one([
    () => ({ __kind: "AddMember", newMember: member() }), () => ({ __kind: "RemoveMember", oldMember: p() }), () => ({ __kind: "ChangeThreshold", newThreshold: threshold }),
    () => ({ __kind: "SetTimeLock", newTimeLock: timeLock }), () => ({ __kind: "AddSpendingLimit", ...limit() }), () => ({ __kind: "RemoveSpendingLimit", spendingLimit: p() }),
    () => ({ __kind: "SetRentCollector", newRentCollector: maybe(p) }),
  ])();
  const create = () => make.vaultTransactionCreate({ multisigPda, transactionIndex, creator: self, rentPayer: p(), vaultIndex, ephemeralSigners, memo, ...stored() });
  const proposal = { multisigPda, transactionIndex, member: self, memo };
  return random.one([
    create, create, create, create, create,
    () => make.batchAddTransaction({ multisigPda, member: self, vaultIndex, batchIndex: transactionIndex, transactionIndex: threshold, ephemeralSigners, ...stored() }),
    () => make.batchCreate({ multisigPda, creator: self, batchIndex: transactionIndex, vaultIndex, memo }),
    () => make.multisigCreateV2({ treasury: p(), creator: self, multisigPda, configAuthority: maybe(p), threshold, members: random.times(random.below(4), member), timeLock, createKey: p(), rentCollector: maybe(p), memo }),
    () => make.configTransactionCreate({ multisigPda, transactionIndex, creator: self, actions: random.times(random.below(4), action), memo }),
    () => make.multisigAddSpendingLimit({ ...common, ...limit(), spendingLimit: p() }),
    () => make.multisigRemoveSpendingLimit({ ...common, spendingLimit: p(), rentCollector: p() }),
    () => make.multisigAddMember({ ...common, newMember: member() }),
    () => make.multisigRemoveMember({ ...common, oldMember: p() }),
    () => make.multisigChangeThreshold({ ...common, newThreshold: threshold }),
    () => make.multisigSetTimeLock({ ...common, timeLock }),
    () => make.multisigSetConfigAuthority({ ...common, newConfigAuthority: p() }),
    () => make.multisigSetRentCollector({ ...common, newRentCollector: maybe(p) }),
    () => make.proposalCreate({ multisigPda, creator: self, transactionIndex, isDraft: random.is(50) }),
    () => make.proposalApprove(proposal), () => make.proposalReject(proposal), () => make.proposalCancel(proposal), () => make.proposalActivate(proposal),
    () => multisig.generated.createVaultTransactionExecuteInstruction({ multisig: multisigPda, proposal: p(), transaction: p(), member: self }),
    () => multisig.generated.createTransactionBufferCloseInstruction({ multisig: multisigPda, transactionBuffer: p(), creator: self }),
  ])();
}

// One instruction of any kind. pool answers accounts, which come again and again.
function solanaInstruction(random, self, pool, budgets) {
  if (random.is(20)) return squadsInstruction(random, self, pool);
  const p = pool;
  const token = random.one([spl.TOKEN_PROGRAM_ID, spl.TOKEN_2022_PROGRAM_ID]);
  const [u64, u53, decimals] = [random.number(64), Number(random.number(53)), random.below(256)];
  const seed = random.one(["", "seed", "Grüße", "x".repeat(32), "\u202e"]);
  const owner = () => (random.is(70) ? self : p());
  const ata = () => (random.is(30) ? spl.getAssociatedTokenAddressSync(mint, self, true, token) : p());
  const mint = p();
  const nobody = random.is(20) ? null : p();
  const signers = random.is(10) ? [p(), p()] : [];
  const lockup = () => new web3.Lockup(random.one([0, Number(random.number(40))]), random.one([0, Number(random.number(40))]), p());
  const stakeAuthorizationType = { index: random.below(2) };
  const custodianPubkey = random.is(30) ? p() : undefined;
  const budget = (name, make) => (budgets.has(name) ? null : (budgets.add(name), make()));
  return random.one([
    () => SystemProgram.transfer({ fromPubkey: owner(), toPubkey: p(), lamports: u64 }),
    () => SystemProgram.transfer({ fromPubkey: self, toPubkey: p(), lamports: u64 >> 20n }),
    () => SystemProgram.transfer({ fromPubkey: p(), basePubkey: owner(), toPubkey: p(), lamports: u64, seed, programId: p() }),
    () => SystemProgram.createAccount({ fromPubkey: owner(), newAccountPubkey: p(), lamports: u53, space: u53, programId: p() }),
    () => SystemProgram.createAccountWithSeed({ fromPubkey: owner(), newAccountPubkey: p(), basePubkey: owner(), seed, lamports: u53, space: u53, programId: p() }),
    () => SystemProgram.assign({ accountPubkey: owner(), programId: p() }),
    () => SystemProgram.assign({ accountPubkey: p(), basePubkey: owner(), seed, programId: p() }),
    () => SystemProgram.allocate({ accountPubkey: owner(), space: u53 }),
    () => SystemProgram.allocate({ accountPubkey: p(), basePubkey: owner(), seed, space: u53, programId: p() }),
    () => SystemProgram.nonceInitialize({ noncePubkey: p(), authorizedPubkey: p() }),
    () => SystemProgram.nonceAdvance({ noncePubkey: p(), authorizedPubkey: owner() }),
    () => SystemProgram.nonceWithdraw({ noncePubkey: p(), authorizedPubkey: owner(), toPubkey: p(), lamports: u53 }),
    () => SystemProgram.nonceAuthorize({ noncePubkey: p(), authorizedPubkey: owner(), newAuthorizedPubkey: p() }),
    () => spl.createTransferInstruction(p(), p(), owner(), u64, signers, token),
    () => spl.createTransferCheckedInstruction(p(), mint, ata(), owner(), u64, decimals, signers, token),
    () => spl.createTransferCheckedInstruction(p(), mint, ata(), owner(), u64, decimals, signers, token),
    () => spl.createTransferCheckedWithFeeInstruction(p(), mint, ata(), owner(), u64, decimals, random.number(64), signers, spl.TOKEN_2022_PROGRAM_ID),
    () => spl.createApproveInstruction(p(), p(), owner(), u64, signers, token),
    () => spl.createApproveCheckedInstruction(p(), mint, p(), owner(), u64, decimals, signers, token),
    () => spl.createRevokeInstruction(p(), owner(), signers, token),
    () => spl.createSetAuthorityInstruction(p(), owner(), random.below(token === spl.TOKEN_PROGRAM_ID ? 4 : 16), nobody, signers, token),
    () => spl.createMintToInstruction(mint, ata(), owner(), u64, signers, token),
    () => spl.createMintToCheckedInstruction(mint, ata(), owner(), u64, decimals, signers, token),
    () => spl.createBurnInstruction(p(), mint, owner(), u64, signers, token),
    () => spl.createBurnCheckedInstruction(p(), mint, owner(), u64, decimals, signers, token),
    () => spl.createCloseAccountInstruction(p(), p(), owner(), signers, token),
    () => spl.createFreezeAccountInstruction(p(), mint, owner(), signers, token),
    () => spl.createThawAccountInstruction(p(), mint, owner(), signers, token),
    () => spl.createSyncNativeInstruction(p(), token),
    () => spl.createInitializeMint2Instruction(mint, decimals, p(), nobody, token),
    () => spl.createInitializeAccount3Instruction(p(), mint, p(), token),
    () => spl.createReallocateInstruction(p(), p(), [spl.ExtensionType.MemoTransfer], owner(), signers, spl.TOKEN_2022_PROGRAM_ID),
    () => spl.createAssociatedTokenAccountInstruction(p(), p(), p(), mint, token),
    () => spl.createAssociatedTokenAccountIdempotentInstruction(p(), p(), p(), mint, token),
    () => StakeProgram.initialize({ stakePubkey: p(), authorized: new web3.Authorized(p(), p()), lockup: lockup() }),
    () => StakeProgram.authorize({ stakePubkey: p(), authorizedPubkey: owner(), newAuthorizedPubkey: p(), stakeAuthorizationType, custodianPubkey }).instructions[0],
    () => StakeProgram.authorizeWithSeed({ stakePubkey: p(), authorityBase: owner(), authoritySeed: seed, authorityOwner: p(), newAuthorizedPubkey: p(), stakeAuthorizationType, custodianPubkey }).instructions[0],
    () => StakeProgram.delegate({ stakePubkey: p(), authorizedPubkey: owner(), votePubkey: p() }).instructions[0],
    () => StakeProgram.splitInstruction({ stakePubkey: p(), authorizedPubkey: owner(), splitStakePubkey: p(), lamports: u53 }),
    () => StakeProgram.merge({ stakePubkey: p(), sourceStakePubKey: p(), authorizedPubkey: owner() }).instructions[0],
    () => StakeProgram.withdraw({ stakePubkey: p(), authorizedPubkey: owner(), toPubkey: p(), lamports: u53, custodianPubkey }).instructions[0],
    () => StakeProgram.deactivate({ stakePubkey: p(), authorizedPubkey: owner() }).instructions[0],
    () => new web3.TransactionInstruction({ programId: memo, keys: random.is(50) ? [{ pubkey: owner(), isSigner: true, isWritable: false }] : [], data: random.is(80) ? Buffer.from(random.text().slice(0, 300)) : random.bytes(20) }),
    () => new web3.TransactionInstruction({
      programId: random.one(others), data: random.bytes(random.one([0, 1, 8, 255, 256, 257, 400])),
      keys: random.times(random.below(6), () => ({ pubkey: p(), isSigner: random.is(20), isWritable: random.is(50) })),
    }),
    () => budget("limit", () => ComputeBudgetProgram.setComputeUnitLimit({ units: Number(random.number(32)) })),
    () => budget("price", () => ComputeBudgetProgram.setComputeUnitPrice({ microLamports: u64 })),
    () => budget("heap", () => ComputeBudgetProgram.requestHeapFrame({ bytes: Number(random.number(32)) })),
  ])();
}

function solanaTransaction(random, accounts) {
  const [self, second] = accounts.map((a) => new PublicKey(a.address));
  const strangers = random.times(8, () => new PublicKey(random.bytes(32)));
  const pool = () => random.one([...strangers, ...strangers, self, second, like(random, self), spl.TOKEN_PROGRAM_ID]);
  const budgets = new Set();
  const instructions = random.times(random.one([1, 1, 2, 3, 6]), () => solanaInstruction(random, self, pool, budgets)).filter(Boolean);
  if (random.is(15)) instructions.unshift(SystemProgram.nonceAdvance({ noncePubkey: pool(), authorizedPubkey: random.one([self, second, pool()]) }));
  const payer = random.is(80) ? self : random.one(strangers);
  if (payer !== self || instructions.length === 0) instructions.push(SystemProgram.transfer({ fromPubkey: self, toPubkey: pool(), lamports: random.number(40) }));
  const recentBlockhash = new PublicKey(random.bytes(32)).toBase58();
  if (random.is(40)) {
    return new web3.Transaction({ feePayer: payer, recentBlockhash }).add(...instructions).serialize({ requireAllSignatures: false, verifySignatures: false });
  }
  return new web3.VersionedTransaction(new web3.TransactionMessage({ payerKey: payer, recentBlockhash, instructions }).compileToV0Message(tablesOf(random, strangers))).serialize();
}

// An address with the ends of another.
function like(random, address) {
  const [text, letters] = [address.toBase58(), "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"];
  const made = text.slice(0, 4) + random.times(text.length - 8, () => random.one(letters)).join("") + text.slice(-4);
  return new PublicKey(made);
}

const camel = (text) => text.toLowerCase().replace(/(^|_)(.)/g, (all, line, letter) => letter.toUpperCase());

function solanaShown(accounts, wire) {
  const view = new View("SOLANA_TRANSACTION", accounts.map((a) => a.address), programs);
  const { message } = web3.VersionedTransaction.deserialize(wire);
  const { header, staticAccountKeys: keys, compiledInstructions } = message;
  view.signed("SOLANA_WIRE", wire, "EDDSA_ED25519", [sha256(message.serialize())], accounts[0].address);
  const signers = keys.slice(0, header.numRequiredSignatures).map((k) => k.toBase58());
  if (signers.some((signer) => !view.isOwn(signer))) view.warn("OTHER_PARTIES", "parts.0.signers");
  Object.assign(view.part, {
    version: String(message.version), feePayer: { address: signers[0] }, signers, recentBlockhash: message.recentBlockhash,
    instructions: String(compiledInstructions.length),
  });
  let { calls, spent, units, price } = callsShown(view, message, "parts.0", [new PublicKey(view.own[0])]);
  view.part.calls = calls;
  if (units > 1_400_000n) units = 1_400_000n;
  const fee = 5000n * BigInt(signers.length) + (units * price + 999_999n) / 1_000_000n;
  if (fee > 100_000_000n) view.warn("FEE_HIGH", "parts.0.maxFee");
  if (view.isOwn(signers[0])) spent += fee;
  const empties = [...(view.warnings.get("WHOLE_BALANCE") ?? [])].some((at) => at.split(".calls.").length === 2); // not what is to run later
  Object.assign(view.part, { maxFee: sol(fee), spent: { ...sol(spent), ...(empties && { atLeast: true }) } });
  return view;
}

// The calls of a message, which stand in a place, with what they move and pay. Whose token accounts are known are owners.
function callsShown(view, message, around, owners, depth = 1) {
  const { staticAccountKeys: keys, compiledInstructions } = message;
  // What tables on the chain hold has the hash of its place for an address here.
  const places = new Map();
  const all = [...keys];
  for (const list of ["writableIndexes", "readonlyIndexes"]) {
    for (const l of message.addressTableLookups ?? []) {
      for (const index of l[list]) {
        const key = new PublicKey(bytes(sha256(`${l.accountKey} ${index}`)));
        places.set(key.toBase58(), { table: l.accountKey.toBase58(), index: String(index) });
        all.push(key);
      }
    }
  }
  const at = (key) => places.get(key.toBase58()) ?? view.address(key.toBase58());
  const party = (key, place) => places.has(key.toBase58()) || view.party(key.toBase58(), place);
  const own = (key) => view.isOwn(key.toBase58());
  const calls = [];
  let spent = 0n;
  let [units, price] = [200_000n * BigInt(compiledInstructions.length), 0n];
  for (const [i, compiled] of compiledInstructions.entries()) {
    const path = `${around}.calls.${i}`;
    const programId = all[compiled.programIdIndex];
    const indexes = [...compiled.accountKeyIndexes];
    const instruction = new web3.TransactionInstruction({
      programId, data: Buffer.from(compiled.data),
      keys: indexes.map((k) => ({ pubkey: all[k], isSigner: message.isAccountSigner(k), isWritable: message.isAccountWritable(k) })),
    });
    const shown = { program: at(programId) };
    calls.push(shown);
    if ([compiled.programIdIndex, ...indexes].some((k) => k >= keys.length)) view.warn("LOOKUP_ACCOUNTS", path);
    const named = (name) => Object.assign(shown, { function: name, functionSource: "BUILTIN" });
    const list = () => instruction.keys.map(({ pubkey, isSigner, isWritable }) => ({ ...at(pubkey), ...(isSigner && { signer: true }), ...(isWritable && { writable: true }) }));
    // What leaves by the word of an own account counts, whatever account it lies in.
    const leaves = (to, lamports) => {
      if (!own(to) && instruction.keys.some(({ pubkey }) => own(pubkey))) spent += lamports;
    };
    const moves = (from, to, lamports) => {
      Object.assign(shown, { from: at(from), to: at(to), amount: sol(lamports) });
      party(to, `${path}.to`);
      leaves(to, lamports);
    };
    const hands = (authorityType, to) => {
      Object.assign(shown, { newAuthority: view.address(to.toBase58()), authorityType });
      view.party(to.toBase58(), `${path}.newAuthority`);
      view.warn("CONTROL_CHANGE", path);
    };
    const address = (key) => ({ address: key.toBase58() });
    const value = (n) => ({ value: String(n) });
    switch (programs[programId.toBase58()]) {
      case "System Program": {
        const type = SystemInstruction.decodeInstructionType(instruction);
        const names = { Create: "CreateAccount", CreateWithSeed: "CreateAccountWithSeed" };
        named(names[type] ?? type);
        switch (type) {
          case "Transfer": {
            const d = SystemInstruction.decodeTransfer(instruction);
            moves(d.fromPubkey, d.toPubkey, d.lamports);
            break;
          }
          case "TransferWithSeed": {
            const d = SystemInstruction.decodeTransferWithSeed(instruction);
            moves(d.fromPubkey, d.toPubkey, d.lamports);
            shown.args = [{ seed: view.text(d.seed, `${path}.args.0.seed`) }, address(d.programId)];
            break;
          }
          case "Create": {
            const d = SystemInstruction.decodeCreateAccount(instruction);
            moves(d.fromPubkey, d.newAccountPubkey, BigInt(d.lamports));
            shown.args = [value(d.space), address(d.programId)];
            break;
          }
          case "CreateWithSeed": {
            const d = SystemInstruction.decodeCreateWithSeed(instruction);
            moves(d.fromPubkey, d.newAccountPubkey, BigInt(d.lamports));
            shown.args = [address(d.basePubkey), { seed: view.text(d.seed, `${path}.args.1.seed`) }, value(d.space), address(d.programId)];
            break;
          }
          case "Assign": {
            const d = SystemInstruction.decodeAssign(instruction);
            Object.assign(shown, { account: at(d.accountPubkey), args: [address(d.programId)] });
            hands("OWNER_PROGRAM", d.programId);
            break;
          }
          case "AssignWithSeed": {
            const d = SystemInstruction.decodeAssignWithSeed(instruction);
            Object.assign(shown, { account: at(d.accountPubkey), args: [address(d.basePubkey), { seed: view.text(d.seed, `${path}.args.1.seed`) }, address(d.programId)] });
            hands("OWNER_PROGRAM", d.programId);
            break;
          }
          case "Allocate": {
            const d = SystemInstruction.decodeAllocate(instruction);
            Object.assign(shown, { account: at(d.accountPubkey), args: [value(d.space)] });
            break;
          }
          case "AllocateWithSeed": {
            const d = SystemInstruction.decodeAllocateWithSeed(instruction);
            Object.assign(shown, { account: at(d.accountPubkey), args: [address(d.basePubkey), { seed: view.text(d.seed, `${path}.args.1.seed`) }, value(d.space), address(d.programId)] });
            break;
          }
          case "InitializeNonceAccount": {
            const d = SystemInstruction.decodeNonceInitialize(instruction);
            Object.assign(shown, { account: at(d.noncePubkey), args: [address(d.authorizedPubkey)] });
            break;
          }
          case "AdvanceNonceAccount": {
            const d = SystemInstruction.decodeNonceAdvance(instruction);
            Object.assign(shown, { account: at(d.noncePubkey), args: [] });
            if (i === 0 && depth === 1) {
              const text = (key) => (places.has(key.toBase58()) ? "ADDRESS_TABLE_LOOKUP" : key.toBase58());
              view.part.nonce = { account: text(d.noncePubkey), authority: text(d.authorizedPubkey), value: message.recentBlockhash };
              view.warn("DURABLE_NONCE", "parts.0.nonce");
            }
            break;
          }
          case "WithdrawNonceAccount": {
            const d = SystemInstruction.decodeNonceWithdraw(instruction);
            moves(d.noncePubkey, d.toPubkey, BigInt(d.lamports));
            break;
          }
          case "AuthorizeNonceAccount": {
            const d = SystemInstruction.decodeNonceAuthorize(instruction);
            Object.assign(shown, { account: at(d.noncePubkey), args: [address(d.newAuthorizedPubkey)] });
            hands("NONCE", d.newAuthorizedPubkey);
            break;
          }
          default:
            assert.fail(type);
        }
        break;
      }
      case "Token Program":
      case "Token-2022":
        tokenShown(view, instruction, shown, path, { at, party, named, list, own, places, owners });
        break;
      case "Squads Multisig v4":
        squadsShown(view, instruction, shown, path, { named, list, places, owners, depth });
        break;
      case "Stake Program": {
        const type = StakeInstruction.decodeInstructionType(instruction);
        const d = StakeInstruction[`decode${type}`](instruction);
        named(type);
        const right = (object, member, key, place = path) => {
          object[member] = view.address(key.toBase58());
          view.party(key.toBase58(), `${place}.${member}`);
        };
        if (d.authorizedPubkey) shown.authority = at(d.authorizedPubkey);
        if (d.custodianPubkey) shown.custodian = at(d.custodianPubkey);
        if (d.newAuthorizedPubkey) {
          right(shown, "newAuthority", d.newAuthorizedPubkey);
          Object.assign(shown, { authorityType: ["STAKER", "WITHDRAWER"][d.stakeAuthorizationType.index] });
          view.warn("CONTROL_CHANGE", path);
        }
        const moving = { Split: [d.stakePubkey, d.splitStakePubkey], Withdraw: [d.stakePubkey, d.toPubkey], Merge: [d.sourceStakePubKey, d.stakePubkey] }[type];
        if (moving) {
          Object.assign(shown, { from: at(moving[0]), to: at(moving[1]), ...(d.lamports !== undefined && { amount: sol(BigInt(d.lamports)) }) });
          party(moving[1], `${path}.to`);
          if (type === "Withdraw") leaves(d.toPubkey, BigInt(d.lamports));
        } else {
          shown.account = at(d.stakePubkey);
        }
        if (type === "AuthorizeWithSeed") {
          Object.assign(shown, { authority: at(d.authorityBase), seed: view.text(d.authoritySeed, `${path}.seed`), authorityOwner: d.authorityOwner.toBase58() });
        }
        if (type === "Delegate") {
          shown.vote = at(d.votePubkey);
          party(d.votePubkey, `${path}.vote`);
        }
        if (type === "Initialize") {
          right(shown, "staker", d.authorized.staker);
          right(shown, "withdrawer", d.authorized.withdrawer);
          const { unixTimestamp, epoch, custodian } = d.lockup;
          if (unixTimestamp || epoch) {
            shown.lockup = { until: seconds(BigInt(unixTimestamp)), epoch: String(epoch) };
            right(shown.lockup, "custodian", custodian, `${path}.lockup`);
          }
        }
        break;
      }
      case "Associated Token Account":
        named(instruction.data.length ? "CreateIdempotent" : "Create");
        [shown.payer, shown.account, shown.owner, shown.mint] = instruction.keys.map((k) => at(k.pubkey));
        break;
      case "Compute Budget": {
        const type = ComputeBudgetInstruction.decodeInstructionType(instruction);
        named(type);
        const { units: n, microLamports, bytes } = ComputeBudgetInstruction[`decode${type}`](instruction);
        if (n !== undefined) units = BigInt(n);
        if (microLamports !== undefined) price = BigInt(microLamports);
        shown.value = String(n ?? microLamports ?? bytes);
        break;
      }
      case "Memo": {
        named("Memo");
        const text = instruction.data.toString();
        Object.assign(shown, Buffer.from(text).equals(instruction.data) ? view.lines("lines", text, path) : { data: view.data(instruction.data, `${path}.data`) });
        break;
      }
      default:
        party(programId, `${path}.program`);
        Object.assign(shown, { accounts: list() }, view.unreadable("UNKNOWN_PROGRAM", instruction.data, path));
    }
  }
  return { calls, spent, units, price };
}

// What instructions of Squads do that approvers must know.
const squadsDoes = {
  CONTROL_CHANGE: /^(Multisig|ConfigTransactionCreate$)/, BLIND: /^(ProposalApprove|(Config|Vault)TransactionExecute|BatchExecuteTransaction)$/,
};

function squadsShown(view, instruction, shown, path, { named, list, places, owners, depth }) {
  const { data } = instruction;
  const written = Object.entries(multisig.generated).find(([name, value]) => name.endsWith("InstructionDiscriminator") && data.subarray(0, 8).equals(Buffer.from(value)))[0].replace(/InstructionDiscriminator$/, "");
  const name = written.replace(/^./, (c) => c.toUpperCase());
  shown.accounts = list();
  if (name === "TransactionBufferClose") return void Object.assign(shown, view.unreadable("UNKNOWN_INSTRUCTION", data, path));
  named(name);
  for (const [code, names] of Object.entries(squadsDoes)) if (names.test(name)) view.warn(code, path);
  const [{ args }] = multisig.generated[`${written}Struct`].deserialize(data);
  if (!args) return;
  const read = args.transactionMessage && depth === 1;
  const address = (key) => view.address(key.toBase58());
  const member = (key, at) => (view.party(key.toBase58(), at), address(key));
  const optional = (key, at) => (key ? member(key, at) : { absent: true });
  const number = (n) => ({ value: String(n) });
  const duration = (n) => ({ ...number(n), unit: "s" });
  const fields = (values, at) => Object.entries(values).filter(([name]) => name !== "__kind").map(([name, value]) => ({ name, ...field(name, value, values, `${at}.${name}`) }));
  const everybody = (list, at) => ({ items: list.map((m, i) => (m.permissions ? { members: fields(m, `${at}.items.${i}.members`) } : member(m, `${at}.items.${i}`))) });
  const field = (name, value, { mint }, at) => ({
    memo: () => (value === null ? { absent: true } : { value: view.text(value, `${at}.value`) }),
    key: () => member(value, at),
    permissions: () => ({ value: [...Object.entries(multisig.types.Permission).filter(([, bit]) => value.mask & bit).map(([may]) => may.toUpperCase()), ...(value.mask > 7 ? [value.mask & ~7] : value.mask ? [] : [0])].join(", ") }),
    newMember: () => ({ members: fields(value, `${at}.members`) }),
    oldMember: () => address(value), createKey: () => address(value), spendingLimit: () => address(value),
    configAuthority: () => optional(value, at), rentCollector: () => optional(value, at), newRentCollector: () => optional(value, at),
    members: () => everybody(value, at),
    destinations: () => (value.length ? everybody(value, at) : { value: "ANY" }),
    mint: () => ({ address: value.toBase58() }),
    amount: () => {
      if (mint.equals(PublicKey.default)) return sol(BigInt(value));
      view.warn("TOKEN_UNKNOWN", at);
      return number(value);
    },
    period: () => ({ value: multisig.generated.Period[value] }),
    timeLock: () => duration(value), newTimeLock: () => duration(value),
    draft: () => ({ value }),
    actions: () => ({ items: value.map((action, i) => ({ members: [{ name: action.__kind, members: fields(action, `${at}.items.${i}.members.${action.__kind}.members`) }] })) }),
    transactionMessage: () => (read ? { value: view.data(Buffer.from(value), at, true) } : view.unreadable("TOO_DEEP", Buffer.from(value), at)),
  }[name] ?? (() => number(value)))();
  shown.args = fields(args, `${path}.args`);
  if (!read) return;
  const [stored] = multisig.types.transactionMessageBeet.deserialize(Buffer.from(args.transactionMessage));
  const { numSigners, numWritableSigners, numWritableNonSigners, accountKeys } = stored;
  const message = new web3.MessageV0({
    header: { numRequiredSignatures: numSigners, numReadonlySignedAccounts: numSigners - numWritableSigners, numReadonlyUnsignedAccounts: accountKeys.length - numSigners - numWritableNonSigners },
    staticAccountKeys: accountKeys, recentBlockhash: PublicKey.default.toBase58(), addressTableLookups: stored.addressTableLookups,
    compiledInstructions: stored.instructions.map((i) => ({ programIdIndex: i.programIdIndex, accountKeyIndexes: i.accountIndexes, data: Uint8Array.from(i.data) })),
  });
  const known = [...owners];
  const { pubkey: multisigPda } = instruction.keys[0];
  if (args.vaultIndex !== undefined && !places.has(multisigPda.toBase58())) {
    const [vault] = multisig.getVaultPda({ multisigPda, index: args.vaultIndex });
    Object.assign(shown, { vault: { address: vault.toBase58() }, vaultSource: "BUILTIN" });
    known.push(vault);
  }
  shown.calls = callsShown(view, message, path, known, depth + 1).calls;
}

// An amount of tokens with the decimals that the bytes say.
function tokenAmount(value, decimals, { all = false, from = true } = {}) {
  const digits = String(value).padStart(decimals + 1, "0");
  const text = (decimals ? `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`.replace(/\.?0+$/, "") : digits) || "0";
  return {
    value: String(value), ...(all && { unlimited: true }), ...(decimals !== undefined && !all && { text }),
    ...(decimals !== undefined && from && { decimals: String(decimals), decimalsSource: "BYTES" }),
  };
}

function tokenShown(view, instruction, shown, path, { at, party, named, list, own, places, owners }) {
  const { programId, data } = instruction;
  const name = spl.TokenInstruction[data[0]];
  const is2022 = programId.equals(spl.TOKEN_2022_PROGRAM_ID);
  if (name === "TransferFeeExtension") {
    const d = spl.decodeTransferCheckedWithFeeInstruction(instruction, programId);
    named("TransferCheckedWithFee");
    moved({ ...d.keys, owner: d.keys.authority }, d.data);
    shown.tokenFee = tokenAmount(d.data.fee, d.data.decimals, { from: false });
    return;
  }
  function quantity({ amount: n, decimals }, allowed) {
    const all = allowed && n >= 1n << 63n;
    shown.amount = tokenAmount(n, decimals, { all });
    view.warn("TOKEN_UNKNOWN", path);
    if (all) view.warn("APPROVAL_UNLIMITED", `${path}.amount`);
    else if (allowed && n) view.warn("APPROVAL", `${path}.amount`);
  }
  function common(keys, data, allowed) {
    if (keys.mint && !places.has(keys.mint.pubkey.toBase58())) shown.mint = { address: keys.mint.pubkey.toBase58() };
    quantity(data, allowed);
    if (is2022) view.warn("TOKEN_RULES", path);
    const { pubkey } = keys.owner;
    if (!places.has(pubkey.toBase58()) && !own(pubkey)) shown.owner = pubkey.toBase58();
  }
  function moved(keys, data) {
    Object.assign(shown, { from: at(keys.source.pubkey), to: at(keys.destination.pubkey) });
    const known = keys.mint && !places.has(keys.mint.pubkey.toBase58()) && owners.find((owner) => spl.getAssociatedTokenAddressSync(keys.mint.pubkey, owner, true, programId).equals(keys.destination.pubkey));
    if (known) Object.assign(shown, { toOwner: { address: known.toBase58() }, toOwnerSource: "BUILTIN" });
    else party(keys.destination.pubkey, `${path}.to`);
    common(keys, data);
  }
  if (name === "Reallocate") {
    Object.assign(shown, { accounts: list() }, view.unreadable("UNKNOWN_INSTRUCTION", data, path));
    return;
  }
  named(name);
  const d = spl[`decode${name}Instruction`]?.(instruction, programId);
  switch (name) {
    case "Transfer":
    case "TransferChecked":
      return moved(d.keys, d.data);
    case "Approve":
    case "ApproveChecked":
      Object.assign(shown, { account: at((d.keys.account ?? d.keys.source).pubkey), delegate: at(d.keys.delegate.pubkey) });
      party(d.keys.delegate.pubkey, `${path}.delegate`);
      return common(d.keys, d.data, true);
    case "Burn":
    case "BurnChecked":
      shown.account = at(d.keys.account.pubkey);
      return common(d.keys, d.data);
    case "CloseAccount":
      Object.assign(shown, { account: at(d.keys.account.pubkey), to: at(d.keys.destination.pubkey) });
      if (!own(d.keys.destination.pubkey)) view.warn("WHOLE_BALANCE", `${path}.to`);
      return party(d.keys.destination.pubkey, `${path}.to`);
    case "SetAuthority": {
      const snake = spl.AuthorityType[d.data.authorityType].replace("AmountConfig", "Amount").replace(/(?!^)([A-Z])/g, "_$1").toUpperCase();
      const to = d.data.newAuthority?.toBase58();
      Object.assign(shown, { account: at(d.keys.account.pubkey), authorityType: d.data.authorityType < 4 ? camel(snake) : snake, newAuthority: to ? view.address(to) : "" });
      if (to) view.party(to, `${path}.newAuthority`);
      return view.warn("CONTROL_CHANGE", path);
    }
    case "MintTo":
    case "MintToChecked":
      quantity(d.data);
      party((d.keys.destination).pubkey, `${path}.accounts`);
      break;
    case "FreezeAccount":
    case "ThawAccount":
      break;
    default:
      if (data.length > 1) shown.data = view.data(data.subarray(1), `${path}.data`);
  }
  shown.accounts = list();
}

test("@solana/web3.js: transactions of every program that is built in, and of others", () =>
  judged("solana", [account("SOLANA", "m/44'/501'/0'/0'"), account("SOLANA", "m/44'/501'/1'/0'")], (random, accounts) => {
    let wire;
    do {
      try {
        wire = solanaTransaction(random, accounts);
      } catch {} // longer than a packet, or with too many accounts
    } while (!wire || wire.length > 1232);
    return [transaction("SOLANA", accounts[0].address, wire), solanaShown(accounts, wire)];
  }));
