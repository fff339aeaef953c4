// Solana: what approvers are shown of transactions, held against @solana/web3.js and @solana/spl-token.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as spl from "@solana/spl-token";
import * as web3 from "@solana/web3.js";
import { account } from "./setting.mjs";
import { View, amount, bytes, judged, seconds, sha256, transaction } from "./view.mjs";

// The programs that are built in, by the names that they have there.
const programs = {
  "11111111111111111111111111111111": "System Program", TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA: "Token Program",
  TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb: "Token-2022", ComputeBudget111111111111111111111111111111: "Compute Budget",
  MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr: "Memo", ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL: "Associated Token Account",
  Stake11111111111111111111111111111111111111: "Stake Program",
};
const memo = new web3.PublicKey("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr");
const sol = (lamports) => amount(lamports, "lamport", "SOL", 9);
const { StakeProgram, StakeInstruction, SystemProgram, SystemInstruction, ComputeBudgetProgram, ComputeBudgetInstruction, PublicKey } = web3;

const others = Array.from({ length: 3 }, (_, i) => new PublicKey(bytes(sha256(`program ${i}`))));

// One instruction of any kind. pool answers accounts, which come again and again.
function solanaInstruction(random, self, pool, budgets) {
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
  const tables = random.times(random.below(3), () => new web3.AddressLookupTableAccount({
    key: new PublicKey(random.bytes(32)), state: { addresses: [...random.times(random.below(200), () => new PublicKey(random.bytes(32))), ...strangers.filter(() => random.is(50))], deactivationSlot: 0n, lastExtendedSlot: 0, lastExtendedSlotStartIndex: 0 },
  }));
  return new web3.VersionedTransaction(new web3.TransactionMessage({ payerKey: payer, recentBlockhash, instructions }).compileToV0Message(tables)).serialize();
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
  Object.assign(view.part, {
    version: String(message.version), feePayer: { address: signers[0] }, signers, recentBlockhash: message.recentBlockhash,
    instructions: String(compiledInstructions.length), calls: [],
  });
  let spent = 0n;
  let [units, price] = [200_000n * BigInt(compiledInstructions.length), 0n];
  for (const [i, compiled] of compiledInstructions.entries()) {
    const path = `parts.0.calls.${i}`;
    const programId = keys[compiled.programIdIndex];
    const indexes = [...compiled.accountKeyIndexes];
    const instruction = new web3.TransactionInstruction({
      programId, data: Buffer.from(compiled.data),
      keys: indexes.map((k) => ({ pubkey: all[k], isSigner: message.isAccountSigner(k), isWritable: message.isAccountWritable(k) })),
    });
    const shown = { program: view.address(programId.toBase58()) };
    view.part.calls.push(shown);
    if (indexes.some((k) => k >= keys.length)) view.warn("LOOKUP_ACCOUNTS", path);
    const named = (name) => Object.assign(shown, { function: name, functionSource: "BUILTIN" });
    const list = () => instruction.keys.map(({ pubkey, isSigner, isWritable }) => ({ ...at(pubkey), ...(isSigner && { signer: true }), ...(isWritable && { writable: true }) }));
    const moves = (from, to, lamports) => {
      Object.assign(shown, { from: at(from), to: at(to), amount: sol(lamports) });
      party(to, `${path}.to`);
      if (own(from) && !own(to)) spent += lamports;
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
            if (i === 0) {
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
        tokenShown(view, instruction, shown, path, { at, party, named, list, own, places });
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
        view.party(programId.toBase58(), `${path}.program`);
        Object.assign(shown, { accounts: list() }, view.unreadable("UNKNOWN_PROGRAM", instruction.data, path));
    }
  }
  if (units > 1_400_000n) units = 1_400_000n;
  const fee = 5000n * BigInt(signers.length) + (units * price + 999_999n) / 1_000_000n;
  if (fee > 100_000_000n) view.warn("FEE_HIGH", "parts.0.maxFee");
  if (view.isOwn(signers[0])) spent += fee;
  Object.assign(view.part, { maxFee: sol(fee), spent: sol(spent) });
  return view;
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

function tokenShown(view, instruction, shown, path, { at, party, named, list, own, places }) {
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
    const self = new PublicKey(view.own[0]);
    const known = keys.mint && !places.has(keys.mint.pubkey.toBase58()) && spl.getAssociatedTokenAddressSync(keys.mint.pubkey, self, true, programId).equals(keys.destination.pubkey);
    if (known) Object.assign(shown, { toOwner: { address: self.toBase58() }, toOwnerSource: "BUILTIN" });
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
