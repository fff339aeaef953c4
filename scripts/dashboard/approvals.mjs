// What approvers see and do: every kind of activity that waits, asked for by one person and approved by another in the browser after
// he has seen it; what a dishonest server or requester would try; and the drawing of all cases that the enclave decodes.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createECDH, createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch, open, picture, sound, signIn as enter } from "./browser.mjs";
import { account, apiKey, approve, drawings, look, newUser, sealed } from "./approver.mjs";
import { controls } from "./controls.mjs";
import { base, organizationId, root, rootUserId, scratch } from "./setting.mjs";
import { makeOpenKey } from "./stamp.mjs";

const { cases, context: known, example } = JSON.parse(readFileSync("enclave/internal/decoded/testdata/cases.json", "utf8"));
const hex = (bytes) => Buffer.from(bytes).toString("hex");
const unhex = (text) => Buffer.from(text, "hex");
const sha256 = (bytes) => createHash("sha256").update(bytes).digest();

// ---- Keys of the cases become keys of this organization: what they sign has to be theirs.

const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const base58 = (text) => {
  let n = 0n;
  for (const c of text) n = n * 58n + BigInt(alphabet.indexOf(c));
  return unhex("00".repeat(/^1*/.exec(text)[0].length) + n.toString(16).padStart(n.toString(16).length + 1 & ~1, "0"));
};
const tron20 = (address) => hex(base58(address).subarray(1, 21));
const hash160 = (publicKey) => createHash("ripemd160").update(sha256(unhex(publicKey))).digest("hex");
const txid = (transaction) => hex(sha256(sha256(transaction)));

// adapted is the payload of a case for a key of this organization.
function adapted({ signWith, publicKey, unsignedTransaction: transaction, type }, account) {
  const swap = (text, a, b) => text.replaceAll(a, b);
  let bytes = swap(transaction, publicKey, account.publicKey);
  if (type === "TRANSACTION_TYPE_TRON") bytes = swap(bytes, tron20(signWith), tron20(account.address));
  if (type === "TRANSACTION_TYPE_BITCOIN") {
    // The earlier transactions, which pay this key, get other ids.
    const earlier = [...transaction.matchAll(/0100([0-9a-f]{2})(?=0[12]000000)/g)].map((m) => transaction.slice(m.index + 6, m.index + 6 + 2 * parseInt(m[1], 16)));
    bytes = swap(bytes, hash160(publicKey), hash160(account.publicKey));
    for (const t of earlier) bytes = swap(bytes, txid(unhex(t)), txid(unhex(swap(t, hash160(publicKey), hash160(account.publicKey)))));
  }
  return bytes;
}

// rlp writes texts of hexadecimal digits and lists of them.
const rlp = (item) => {
  const body = Array.isArray(item) ? Buffer.concat(item.map(rlp)) : unhex(item);
  const offset = Array.isArray(item) ? 0xc0 : 0x80;
  if (!Array.isArray(item) && body.length === 1 && body[0] < 0x80) return body;
  const size = body.length < 56 ? Buffer.alloc(0) : unhex(body.length.toString(16).padStart(body.length < 256 ? 2 : 4, "0"));
  return Buffer.concat([Buffer.from([size.length ? offset + 55 + size.length : offset + body.length]), size, body]);
};
const number = (n) => (n === 0n ? "" : n.toString(16).padStart(n.toString(16).length + 1 & ~1, "0"));
// Half an ether on Sepolia, at most 0.0018 ether of fees.
const sepolia = (nonce, to = "44".repeat(20), value = 500000000000000000n) => hex(Buffer.concat([Buffer.from([2]), rlp([number(11155111n), number(BigInt(nonce)), number(1000000000n), number(85714285714n), number(21000n), to, number(value), "", []])]));
const tempo = hex(Buffer.concat([Buffer.from([0x76]), rlp([number(42431n), number(1000000n), number(20000000000n), number(200000n), [["fe".repeat(20), "", "deadbeef"], ["20c0" + "00".repeat(17) + "01", "", `a9059cbb${"00".repeat(12)}${"fe".repeat(20)}${number(2500000n).padStart(64, "0")}`]], [], "", number(3n), "", "", "", "", []])]));

// ---- The organization: two people who decide together, and one who may ask for wallets.

let browser, page, complaints, accounts, bundle, walletId, cyd, imitation, savings;
// An address with the ends of one of the address book, for which somebody has a label.
const labelled = `0xd167${"00".repeat(16)}8fb5`;
const bea = {};
const by = (format) => accounts.find((a) => a.addressFormat === `ADDRESS_FORMAT_${format}`);
before(async () => {
  browser = await launch();
  ({ page, complaints } = await open(browser));
  Object.assign(bea, await newUser("Bea"));
  cyd = await newUser("Cyd");
  const made = await root.submit("create_wallet", "CREATE_WALLET", { walletName: "Treasury", accounts: [
    account("SECP256K1", "m/44'/60'/0'/0/0", "ETHEREUM"), account("ED25519", "m/44'/501'/0'/0'", "SOLANA"), account("SECP256K1", "m/84'/0'/0'/0/0", "BITCOIN_MAINNET_P2WPKH"), account("SECP256K1", "m/44'/195'/0'/0/0", "TRON")] });
  ({ walletId } = made.result.createWalletResult);
  ({ accounts } = await root.query("list_wallet_accounts", { walletId, paginationOptions: { limit: "10" } }));
  await root.submit("set_organization_feature", "SET_ORGANIZATION_FEATURE", { name: "FEATURE_NAME_ADDRESS_BOOK", value: JSON.stringify(known.addressBook.map(({ name, address }) => ({ name, address }))) });
  // Names that imitate the address book: of a contract and of a wallet.
  await root.submit("create_smart_contract_interface", "CREATE_SMART_CONTRACT_INTERFACE", { label: "Exchange dep0sit", smartContractAddress: labelled, type: "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM", smartContractInterface: "[]" });
  imitation = (await root.submit("create_wallet", "CREATE_WALLET", { walletName: "Exchange deposit (address book)", accounts: [account("SECP256K1", "m/44'/60'/0'/0/0", "ETHEREUM")] })).result.createWalletResult.addresses[0];
  bundle = JSON.parse((await root.submit("init_import_wallet", "INIT_IMPORT_WALLET", { userId: rootUserId })).result.initImportWalletResult.importBundle);
  await root.submit("create_policy", "CREATE_POLICY_V3", { policyName: "Wallets of Cyd", effect: "EFFECT_ALLOW", condition: "activity.resource == 'WALLET' && activity.action == 'CREATE'", consensus: `approvers.any(user, user.id == '${bea.userId}') && approvers.count() >= 2`, notes: "" });
  await root.submit("update_root_quorum", "UPDATE_ROOT_QUORUM", { threshold: 2, userIds: [rootUserId, bea.userId] });
  await signIn(page, bea.file);
});
after(() => browser.close());

const calm = () => { assert.deepEqual(complaints, []); };
const { heading, button, toast, dialog } = controls(() => page);
const settled = (at) => at.locator("[aria-busy]").waitFor({ state: "detached" });
const activity = async (id, by = root) => (await by.query("get_activity", { activityId: id })).activity;

async function signIn(at, file) {
  await enter(at, base, file);
  await heading("Latest activities", at);
}

async function go(hash, name, at = page) {
  await at.goto(`${base}#/${hash}`);
  await heading(name, at);
  await settled(at);
}

let nonce = 0;
const sign = (type, unsignedTransaction, signWith) => root.submit("sign_transaction", "SIGN_TRANSACTION_V2", { signWith, unsignedTransaction, type: `TRANSACTION_TYPE_${type}` });
const send = (to, value) => sign("ETHEREUM", sepolia(nonce++, to, value), by("ETHEREUM").address);
const raw = (payload, encoding, hashFunction) => root.submit("sign_raw_payload", "SIGN_RAW_PAYLOAD_V2", { signWith: by("ETHEREUM").address, payload, encoding: `PAYLOAD_ENCODING_${encoding}`, hashFunction: `HASH_FUNCTION_${hashFunction}` });
const discard = (ids) => Promise.all(ids.map(async (id) => root.submit("reject_activity", "REJECT_ACTIVITY", { fingerprint: (await activity(id)).fingerprint })));

const formats = { ETHEREUM: "ETHEREUM", TEMPO: "ETHEREUM", SOLANA: "SOLANA", TRON: "TRON", BITCOIN: "BITCOIN_MAINNET_P2WPKH" };
const of = (id) => cases.find((c) => c.id === id).input;
const request = (input) => {
  if (input.payload) return raw(input.payload, input.encoding.replace("PAYLOAD_ENCODING_", ""), input.hashFunction.replace("HASH_FUNCTION_", ""));
  const type = input.type.replace("TRANSACTION_TYPE_", "");
  return sign(type, adapted(input, by(formats[type])), by(formats[type]).address);
};

// ---- The drawing

test("every case that the enclave decodes is drawn with every member, whatever becomes of its form", async (t) => {
  const ids = [];
  t.after(() => discard(ids));
  const documents = { example: example.decoded };
  for (const c of cases) {
    if (!c.input.unsignedTransaction && !c.input.payload) continue;
    let asked;
    try {
      asked = await request(c.input);
    } catch (error) {
      assert(c.expect.outcome === "REFUSED" || c.id === "btc-h01", `${c.id}: ${error.message}`);
      continue;
    }
    ids.push(asked.id);
    const { decoded, decodedDigest } = await activity(asked.id, bea.client);
    documents[c.id] = decoded;
    assert.equal(hex(sha256(`cloister decoded 1\n${JSON.stringify(decoded)}`)), decodedDigest);
  }
  assert(ids.length > 38, `${ids.length} cases`);
  // One whose number and fees the server says later, in the form that eth_send_transaction has: this simulator has no node to send by.
  documents.open = structuredClone(documents["eth-01"]);
  Object.assign(documents.open, { fixed: false });
  Object.assign(documents.open.parts[0], { signs: [], nonce: { source: "HOST" }, gasLimit: { source: "HOST", most: "30000000" }, maxFee: { source: "HOST", most: "100000000000000000" } });
  const { faults, tried, said } = await drawings(page, documents);
  assert.deepEqual(faults, []);
  assert(tried > 1000, `${tried} forms`);
  const deposit = "0xd1671C723014D3C03E3694A88Ce3F03750248FB5 (in the address book as “Exchange deposit”)";
  const me = by("ETHEREUM").address;
  assert.equal(said["eth-01"], `Send 1.5 ETH to ${deposit} on Ethereum, at most 0.00042 ETH of fees; from ${me}`);
  assert.equal(said.example, "Allow 0x35cDF80606C5e1eFfE6Cb81d969f03f0c04deCC9 to take all USDC on Ethereum, at most 0.003 ETH of fees; from 0x5AF86b9c401983F0Ce23d27047fDDFA6c967965d");
  assert.match(said["sol-03"], /^Propose what a multisig is to do: 2 calls: \(1\) Propose to a multisig with the vault ByCnaiQ3CLp1VCPm8znMkRagDUdRdrC4De52WFG6oNHY: Send 1\.25 SOL to 8AFrWqy5b9H82bdcDBdVYi9fTsCjXzZdzBsgWi4wzqU4 \(in the address book as “Exchange, Solana”\) and Send 75500000 units of a token to .*; \(2\) Call ProposalCreate of SQDS4ep65T869zMMBKyuUq6aD6EgTu8psMjkvj52pCf \(built in as “Squads Multisig v4”\)/);
  assert.match(said["sol-h09"], /Give control \(AccountOwner\) of .*, Call FSnZrfYxKGKTqVeoPdCeSWWTANXg73aHHcrwgmggkqqc with something that cannot be read and 1 more on Solana/);
  assert.match(said["btc-01"], /^Send 0\.3 BTC to bc1qs4ajhmq8r2yh5as52ls7dsdpjm6kdpzz8u4m4a \(in the address book as “Exchange, Bitcoin”\) on Bitcoin, for a fee of 0\.0001 BTC; from bc1q/);
  assert.match(said["eth-h12"], /to 0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48, and send 3 ETH along on Ethereum/);
  assert.match(said["eth-07"], /with something that cannot be read, and send 5 wei along on chain 424242/);
  assert.match(said.open, /^Send 1\.5 ETH to .*, for a fee that the server will say, at most 100000000000000000 of the smallest unit; from/);
  assert.match(said["msg-h03"], /^Sign bytes: 32 bytes that cannot be read/);

  // All of them wait for her, oldest first, by pages.
  await go("approvals", "Approvals");
  assert.equal(await page.locator("tbody tr").count(), 10);
  await page.locator("tbody tr").first().getByText(`Send 1.5 ETH to ${deposit} on Ethereum, at most 0.00042 ETH of fees; from ${me} (your wallet “Treasury”)`).waitFor();
  assert.deepEqual(await page.locator("tbody a").evaluateAll((all) => all.map((a) => a.href.split("/").at(-1))), ids.slice(0, 10));
  await page.getByRole("link", { name: `Approvals , ${ids.length} requests to approve` }).waitFor();
  await picture(page, "approvals");
  await button("Show more").click();
  await page.locator("tbody tr").nth(19).waitFor();
  assert.equal(new Set(await page.locator("tbody tr").allInnerTexts()).size, 20, "two lines are alike");
  await go("overview", "Latest activities");
  await page.getByRole("link", { name: `${ids.length} requests to approve`, exact: true }).click();
  await heading("Approvals");
  for (const id of ["eth-h07", "eth-h09", "eth-h16", "typed-h05", "sol-h02", "sol-03", "sol-h08", "sol-h09", "tron-h01", "btc-h02", "msg-h04"]) {
    await look(ids[Object.keys(documents).indexOf(id) - 1], page);
    await picture(page, `approval-${id}`);
  }
  await discard(ids.splice(0));
  await go("approvals", "Approvals");
  await page.getByText("No request waits for your approval.").waitFor();
  await picture(page, "approvals-empty");
  calm();
});

// ---- What is approved

// approved has an activity approved in the browser, and gives it back once it is done.
async function approved(asked, name, words) {
  assert.equal(asked.status, "ACTIVITY_STATUS_CONSENSUS_NEEDED");
  const { decoded } = await activity(asked.id, bea.client);
  assert.deepEqual((await drawings(page, { [name]: decoded })).faults, []);
  await look(asked.id, page);
  for (const text of words) await page.locator(".headline").filter({ hasText: text }).waitFor();
  await picture(page, `approval-${name}`);
  await approve(page);
  await page.locator("dd", { hasText: "Completed" }).waitFor();
  // What was signed is still there to be looked at, and that it is what was approved. What was changed is told as a table.
  await page.getByText("The request as it was sent", { exact: true }).waitFor();
  if (decoded.kind === "ORGANIZATION_CHANGE") await page.getByRole("region", { name: "Request" }).locator("dl").first().waitFor();
  else {
    await page.getByText("Decoded today: names may have changed since. This is exactly what Bea approved.").waitFor();
    for (const text of words) await page.locator(".headline").filter({ hasText: text }).waitFor();
    await heading(/^What was signed$|^Payload 1 of/);
  }
  if (["ethereum-2", "permit", "quorum"].includes(name)) await picture(page, `approved-${name}`);
  const done = await activity(asked.id);
  assert.equal(done.status, "ACTIVITY_STATUS_COMPLETED");
  // The vote names what was drawn.
  const vote = done.votes.find((v) => v.userId === bea.userId);
  assert.match(JSON.parse(vote.message).parameters.decodedDigest, /^[0-9a-f]{64}$/);
  calm();
  return Object.values(done.result)[0];
}

const transactions = {
  "ethereum-0": ["eth-01", ["Send 1.5 ETH to 0xd1671C723014D3C03E3694A88Ce3F03750248FB5 (in the address book as “Exchange deposit”)", "(your wallet “Treasury”)"]],
  "ethereum-1": ["eth-02", ["Send 1 POL", "on Polygon"]],
  "ethereum-3": ["eth-04", ["“Known vault”", "0.001424288 ETH"]],
  "ethereum-4": ["eth-h15", ["Let code at 0xf71CD129F55681393E55401eD9681B6E3142f905 act as"]],
  "ethereum-approval": ["eth-h01", ["Allow 0x35cDF80606C5e1eFfE6Cb81d969f03f0c04deCC9 to take all"]],
  solana: ["sol-01", ["Send 1.25 SOL", "on Solana", "(your wallet “Treasury”)"]],
  bitcoin: ["btc-01", ["Send 0.3 BTC", "(your wallet “Treasury”)"]],
  tron: ["tron-h02", ["on Tron", "1500 TRX"]],
};

test("a transaction of every type is approved by somebody who was shown it in words", async () => {
  const plain = await approved(await send(), "ethereum-2", ["Send 0.5 ETH to 0x4444444444444444444444444444444444444444 on Sepolia, at most 0.00179", `of fees; from ${by("ETHEREUM").address} (your wallet “Treasury”)`]);
  assert(plain.signedTransaction.startsWith("02"));
  for (const [name, [id, words]] of Object.entries(transactions)) assert((await approved(await request(of(id)), name, words)).signedTransaction.length > 100, name);
  assert((await approved(await sign("TEMPO", tempo, by("ETHEREUM").address), "tempo", ["2 calls: (1) Call", "on Tempo"])).signedTransaction.startsWith("76"));
});

test("typed data, messages and bytes are approved by somebody who was shown what they are, or that nobody can tell", async () => {
  for (const [name, id, words] of [["typed", "typed-01", ["Sign typed data, Mail for “Ether Mail”"]], ["permit", "typed-02", ["(in the address book as “Known router”)", "the signature alone is enough"]], ["message", "msg-01", ["Sign in to a site: “app.example.com”"]], ["digest", "msg-h03", ["32 bytes that cannot be read"]], ["text", "typed-h07", ["Sign typed data"]]]) {
    const { r, s, v } = await approved(await request(of(id)), name, words);
    assert.equal((r + s).length, 128);
    assert.match(v, /^0[01]$/);
  }
  const several = await root.submit("sign_raw_payloads", "SIGN_RAW_PAYLOADS", { signWith: by("ETHEREUM").address, payloads: [of("msg-01").payload, of("msg-h03").payload], encoding: "PAYLOAD_ENCODING_HEXADECIMAL", hashFunction: "HASH_FUNCTION_KECCAK256" });
  assert.equal((await approved(several, "several", ["Sign several payloads, 2 in all: sign in to a site: “app.example.com”, as", "and sign bytes: 32 bytes that cannot be read"])).signatures.length, 2);
});

test("what changes who may do what is approved by somebody who was shown the difference", async () => {
  const policy = { policyName: "Pay <b>all</b>", effect: "EFFECT_ALLOW", condition: "activity.action == 'SIGN'", consensus: "", notes: "for\u202eever" };
  const { policyId } = await approved(await root.submit("create_policy", "CREATE_POLICY_V3", policy), "policy-create", ["Create policy: “Pay <b>all</b>”, which allows when “activity.action == 'SIGN'”"]);
  await approved(await root.submit("update_policy", "UPDATE_POLICY_V2", { policyId, policyEffect: "EFFECT_DENY", policyCondition: "activity.action == 'EXPORT'" }), "policy-update", ["Update policy: “Pay <b>all</b>”; changes: effect and condition"]);
  assert.deepEqual((({ effect, condition }) => [effect, condition])((await root.query("get_policy", { policyId })).policy), ["EFFECT_DENY", "activity.action == 'EXPORT'"]);
  const { exportBundle } = await (async () => {
    // The policy forbids exports to all but the root quorum, which decides here.
    const target = createECDH("prime256v1");
    return approved(await root.submit("export_wallet", "EXPORT_WALLET", { walletId, targetPublicKey: hex(target.generateKeys()) }), "export", ["Export wallet: “Treasury” to whoever holds the key 04"]);
  })();
  assert(exportBundle.includes("dataSignature"));
  await approved(await root.submit("delete_policy", "DELETE_POLICY", { policyId }), "policy-delete", ["Delete policy: “Pay <b>all</b>”"]);
  const target = unhex(JSON.parse(unhex(bundle.data)).targetPublic);
  const words = "legal winner thank year wave sausage worth useful legal winner thank yellow";
  const imported = await approved(await root.submit("import_wallet", "IMPORT_WALLET", { userId: rootUserId, walletName: "Old savings", encryptedBundle: sealed(target, words), accounts: [account("SECP256K1", "m/44'/60'/0'/0/0", "ETHEREUM")] }), "import", ["Import wallet: “Old savings” for “Root user”"]);
  assert.match(imported.addresses[0], /^0x/);
  [savings] = imported.addresses;
  const { userIds } = await approved(await root.submit("create_users", "CREATE_USERS_V3", { users: [{ userName: "Eve", userEmail: "eve@example.com", apiKeys: [apiKey("laptop", (await makeOpenKey()).publicKey)], authenticators: [], oauthProviders: [], userTags: [] }] }), "user-create", ["“Eve”"]);
  await approved(await root.submit("create_api_keys", "CREATE_API_KEYS_V2", { userId: bea.userId, apiKeys: [apiKey("backup", (await makeOpenKey()).publicKey)] }), "key-create", ["Create API keys: “backup” for “Bea”"]);
  await approved(await root.submit("delete_users", "DELETE_USERS", { userIds }), "user-delete", ["Delete users: “Eve”"]);
  await approved(await root.submit("update_root_quorum", "UPDATE_ROOT_QUORUM", { threshold: 2, userIds: [rootUserId, bea.userId, cyd.userId] }), "quorum", ["Update root quorum: from 2 of 2 members to 2 of 3 members; added: “Cyd”"]);
  assert.equal((await root.query("get_organization_configs")).configs.quorum.userIds.length, 3);
  const back = await root.submit("update_root_quorum", "UPDATE_ROOT_QUORUM", { threshold: 2, userIds: [rootUserId, bea.userId] });
  await approved(back, "quorum-back", ["removed: “Cyd”"]);
});

test("a sentence says whose word a name is, and which account may be somebody else's as well", async () => {
  const ids = [];
  for (const [name, address, said, codes] of [
    ["book", "0xd1671C723014D3C03E3694A88Ce3F03750248FB5", "(in the address book as “Exchange deposit”) on Sepolia", []],
    ["label", labelled, "(labelled “Exchange dep0sit” by “Root user”) on Sepolia", ["LOOKALIKE", "LABEL_CLASH", "ADDRESS_NEW"]],
    ["wallet", imitation, "(your wallet “Exchange deposit (address book)”) on Sepolia", []],
    ["imported", savings, "(your wallet “Old savings”, whose key others may have) on Sepolia", ["OWN_KEY_OUTSIDE"]],
  ]) {
    const asked = await send(address.slice(2).toLowerCase());
    ids.push(asked.id);
    const { decoded } = await activity(asked.id, bea.client);
    assert.deepEqual(decoded.warnings.map((w) => w.code), codes, name);
    assert.deepEqual((await drawings(page, { [name]: decoded })).faults, []);
    await look(asked.id, page);
    await page.locator(".headline").filter({ hasText: `Send 0.5 ETH to 0x` }).filter({ hasText: said }).waitFor();
    await picture(page, `approval-name-${name}`);
    // What is saved has all that names are taken from.
    const [file] = await Promise.all([page.waitForEvent("download"), button("Save to check it elsewhere").click()]);
    const saved = join(scratch, `named-${name}.json`);
    await file.saveAs(saved);
    const { status, stderr } = spawnSync("bin/cloister-verify", ["decode", saved], { encoding: "utf8" });
    assert.equal(status, 0, stderr);
  }
  await discard(ids);
  calm();
});

test("what gives somebody a way in, or changes what policies say of him, is shown by names and with its danger", async () => {
  const make = (op, type, params) => root.submit(op, type, params);
  const { userTagId } = await approved(await make("create_user_tag", "CREATE_USER_TAG", { userTagName: "Treasurers", userIds: [] }), "tag-create", ["Create user tag: “Treasurers”"]);
  const policy = { policyName: "Treasurers pay", effect: "EFFECT_ALLOW", condition: `wallet.id == '${walletId}' && activity.kind == 'SIGN_TRANSACTION'`, consensus: `approvers.any(user, user.tags.contains('${userTagId}'))`, notes: "" };
  const narrow = await make("create_policy", "CREATE_POLICY_V3", policy);
  assert.deepEqual((await activity(narrow.id, bea.client)).decoded.warnings, []);
  const { policyId } = await approved(narrow, "policy-narrow", ["Create policy: “Treasurers pay”"]);
  const broad = await make("create_policy", "CREATE_POLICY_V3", { ...policy, policyName: "Cyd alone", condition: "", consensus: `approvers.any(user, user.id == '${cyd.userId}')` });
  await look(broad.id, page);
  await page.getByText("This policy allows very much").first().waitFor();
  await discard([broad.id]);

  const tagged = await make("update_user_tag", "UPDATE_USER_TAG", { userTagId, addUserIds: [cyd.userId], removeUserIds: [] });
  assert.deepEqual((await activity(tagged.id, bea.client)).decoded.warnings.map((w) => w.code), ["CONTROL_CHANGE"]);
  await look(tagged.id, page);
  await page.getByRole("term").filter({ hasText: "Policies that read it" }).waitFor();
  await page.getByText("Treasurers pay").first().waitFor();
  await approved(tagged, "tag-update", ["Update user tag: “Treasurers”; added: “Cyd”"]);

  await approved(await make("set_organization_feature", "SET_ORGANIZATION_FEATURE", { name: "FEATURE_NAME_OTP_EMAIL_AUTH", value: "" }), "feature-set", ["Set organization feature: “FEATURE_NAME_OTP_EMAIL_AUTH”; changes: on"]);
  const mail = await make("update_user_email", "UPDATE_USER_EMAIL", { userId: bea.userId, userEmail: "bea@example.com" });
  assert.deepEqual((await activity(mail.id, bea.client)).decoded.warnings.map((w) => [w.code, w.severity]), [["CREDENTIAL_ADDED", "DANGER"]]);
  await look(mail.id, page);
  await page.getByText("Whoever has the new one can act as this user.").waitFor();
  await approved(mail, "user-email", ["Update user e-mail: “bea@example.com” for “Bea”; changes: e-mail"]);
  await approved(await make("remove_organization_feature", "REMOVE_ORGANIZATION_FEATURE", { name: "FEATURE_NAME_OTP_EMAIL_AUTH" }), "feature-remove", ["Remove organization feature: “FEATURE_NAME_OTP_EMAIL_AUTH”; changes: on"]);

  const target = createECDH("prime256v1");
  await approved(await make("create_read_write_session", "CREATE_READ_WRITE_SESSION_V2", { userId: cyd.userId, targetPublicKey: hex(target.generateKeys()) }), "session", ["Start a session by a new key for “Cyd” to whoever holds the key 04"]);
  const { endpointId } = await approved(await make("create_webhook_endpoint", "CREATE_WEBHOOK_ENDPOINT", { url: "https://hooks.example.com/all", name: "Audit" }), "webhook-create", ["Create webhook endpoint: “Audit”"]);
  await approved(await make("delete_webhook_endpoint", "DELETE_WEBHOOK_ENDPOINT", { endpointId }), "webhook-delete", ["Delete webhook endpoint: “Audit”"]);
  await approved(await make("delete_user_tags", "DELETE_USER_TAGS", { userTagIds: [userTagId] }), "tags-delete", ["Delete user tags: “Treasurers”; removed: “Cyd”"]);
  await approved(await make("delete_policy", "DELETE_POLICY", { policyId }), "policy-gone", ["Delete policy: “Treasurers pay”"]);
});

test("what a policy asks for is told, and after a vote comes the next that waits", async () => {
  const make = (walletName) => cyd.client.submit("create_wallet", "CREATE_WALLET", { walletName, accounts: [] });
  const [first, second] = [await make("Petty cash"), await make("Rainy days")];
  await look(first.id, page);
  const asks = page.getByRole("region", { name: "What the policies ask for" });
  await asks.getByText("Bea approves").waitFor();
  await asks.getByText("at least 2 users approve").waitFor();
  await asks.getByText("Expression", { exact: true }).click();
  await asks.getByText(`approvers.any(user, user.id == '${bea.userId}') && approvers.count() >= 2`).first().waitFor();
  await asks.getByText("2 of 2 must agree. Nobody has agreed yet.").waitFor();
  await picture(page, "approval-policy");
  await approve(page);
  await page.locator(".headline", { hasText: "Create wallet: “Rainy days”" }).waitFor();
  assert(page.url().endsWith(`#/approvals/${second.id}`));
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "H1");
  assert(await button("Approve").isVisible());
  await page.getByText("Approved: Create wallet: “Petty cash”. See it. Next: 1 of 1.").waitFor();
  await picture(page, "approval-next");
  await page.getByRole("status").getByRole("link", { name: "See it" }).click();
  await page.locator("dd", { hasText: "Completed" }).waitFor();

  // Rejected with a reason, which who asked can read.
  await look(second.id, page);
  await button("Reject").click();
  await dialog().getByText("The request ends only if it cannot get enough approvals any more").waitFor();
  await dialog().getByText("With your rejection, the root quorum cannot approve it any more. A policy may still allow it.").waitFor();
  await dialog().getByLabel("Reason").fill("Which days?\n<b>No</b>");
  await picture(page, "approval-reject");
  await button("Reject", dialog()).click();
  await toast("Rejected: Create wallet: “Rainy days”. The request has ended.");
  const theirs = await open(browser);
  await signIn(theirs.page, cyd.file);
  await go(`activities/${second.id}`, "Create a wallet", theirs.page);
  await theirs.page.getByRole("cell", { name: "Which days? <b>No</b>" }).waitFor();
  const table = theirs.page.getByRole("region", { name: "Request" });
  assert.deepEqual((await table.locator("dl > div").allInnerTexts()).map((row) => row.split("\n")), [["Wallet name", "Rainy days"], ["Accounts", "none"]]);
  await picture(theirs.page, "activity-rejected");
  assert.deepEqual(theirs.complaints, []);
  await theirs.context.close();
  calm();
});

test("a rejection that does not end a request says so, and the request waits for its rejecter no more", async () => {
  const policy = await root.submit("create_policy", "CREATE_POLICY_V3", { policyName: "Tags by two", effect: "EFFECT_ALLOW", condition: "activity.kind == 'CREATE_USER_TAG'", consensus: "approvers.count() >= 2", notes: "" });
  await bea.client.submit("approve_activity", "APPROVE_ACTIVITY", { fingerprint: policy.fingerprint });
  const asked = await cyd.client.submit("create_user_tag", "CREATE_USER_TAG", { userTagName: "Clerks", userIds: [cyd.userId] });
  await look(asked.id, page);
  const asks = page.getByRole("region", { name: "What the policies ask for" });
  await asks.getByText("at least 2 users approve").waitFor();
  // A policy about wallets is not about this.
  const verdicts = asks.getByRole("table", { name: "Policies", exact: true });
  await verdicts.getByRole("row", { name: /Wallets of Cyd.*Is not about this/ }).waitFor();
  await button("Reject").click();
  await dialog().getByText("The request ends only if it cannot get enough approvals any more, or if whoever asked withdraws it. Until then others can still approve it.").waitFor();
  await button("Reject", dialog()).click();
  await toast("Your rejection is recorded: Create user tag: “Clerks”; added: “Cyd”. It has not ended, and others can still approve it.");
  assert.equal((await activity(asked.id)).status, "ACTIVITY_STATUS_CONSENSUS_NEEDED");
  // The page keeps the policy, and offers no vote that would not count.
  await page.getByText("You rejected this. It has not ended: others can still approve it, and you cannot any more.").waitFor();
  await asks.getByText("at least 2 users approve").waitFor();
  await asks.getByText("The root quorum cannot approve it any more, as too many of its members have rejected it:").waitFor();
  assert.deepEqual([await button("Approve").count(), await button("Reject").count()], [0, 0]);
  await picture(page, "approval-rejected");
  await go("approvals", "Approvals");
  await page.getByText("No request waits for your approval.").waitFor();
  await page.getByRole("table", { name: "You rejected these" }).getByRole("link", { name: /Create user tag/ }).waitFor();
  assert.equal(await page.locator("nav [data-waiting]").innerText(), "");
  await picture(page, "approvals-rejected");
  await go("activities", "Activities");
  await page.locator("tbody tr", { hasText: "You rejected this" }).first().waitFor();
  // Who asked withdraws it at once.
  const theirs = await open(browser);
  await signIn(theirs.page, cyd.file);
  await look(asked.id, theirs.page);
  await button("Reject", theirs.page).click();
  await dialog(theirs.page).getByText("You asked for this: your rejection withdraws it, and it ends at once.").waitFor();
  await theirs.page.keyboard.press("Escape");
  // And others approve what one has rejected.
  const done = await root.submit("approve_activity", "APPROVE_ACTIVITY", { fingerprint: asked.fingerprint });
  assert.equal(done.status, "ACTIVITY_STATUS_COMPLETED");
  assert.deepEqual(theirs.complaints, []);
  await theirs.context.close();
  // Names stand for ids in what is over.
  await go(`activities/${asked.id}`, "Create a tag for users");
  await page.getByRole("region", { name: "Request" }).locator("dl > div", { hasText: "Users" }).getByText("Cyd").waitFor();
  await picture(page, "activity-over");
  calm();
});

test("lists say what was signed, and a page of what is over shows it", async () => {
  const asked = await send("99".repeat(20), 700000000000000000n);
  const before = await bea.client.query("get_activity", { activityId: asked.id });
  await bea.client.submit("reject_activity", "REJECT_ACTIVITY", { fingerprint: asked.fingerprint });
  assert(!("decoded" in (await bea.client.query("get_activity", { activityId: asked.id })).activity));
  await go("activities", "Activities");
  await page.getByRole("link", { name: /^Send 0\.7 ETH to 0x9999999999999999999999999999999999999999 on Sepolia/ }).first().click();
  await heading("Send ETH");
  await page.locator(".headline", { hasText: "Send 0.7 ETH to 0x9999999999999999999999999999999999999999 on Sepolia" }).waitFor();
  await page.getByText("Decoded today: names may have changed since.", { exact: true }).waitFor();
  await heading("What was to be signed");
  await settled(page);
  assert.deepEqual((await bea.client.query("get_activity", { activityId: asked.id, includeDecoded: true })).activity.decoded, before.activity.decoded);
  await picture(page, "activity-over-transaction");
  calm();
});

// ---- What must not work

test("nothing is approved by accident: not by Enter, not before the end was seen, not without a tick for each danger", async () => {
  const asked = await request(of("sol-h02")); // longer than any screen
  await go("approvals", "Approvals");
  await page.locator("tbody a").focus();
  for (let i = 0; i < 6; i++) await page.keyboard.press("Enter");
  await page.locator(".headline").waitFor();
  for (let i = 0; i < 6; i++) await page.keyboard.press("Enter");
  await page.keyboard.press("Space");
  assert(!(await page.evaluate(() => document.activeElement.matches("button"))));
  assert.equal((await activity(asked.id)).status, "ACTIVITY_STATUS_CONSENSUS_NEEDED");
  await look(asked.id, page);
  await page.evaluate(() => window.scrollTo(0, 0));
  await page.reload();
  await page.locator(".headline").waitFor();
  assert(await button("Approve").isDisabled());
  await page.getByText("Read to the end of the view before you approve.").waitFor();
  // By keyboard: the end comes into view, then the ticks, then the button.
  const danger = page.getByText("Confirm each danger first: 1 to go.");
  // Who jumps past the end has not read it. The sentence leads to what was not on the screen.
  await page.evaluate(() => window.scrollTo(0, document.documentElement.scrollHeight));
  await button("Read to the end of the view before you approve.").click();
  assert(await page.evaluate(() => document.activeElement.closest(".decoded") !== null), "the press leads out of the view");
  assert(await button("Approve").isDisabled());
  await page.evaluate(() => window.scrollTo(0, 0));
  for (let i = 0; i < 100 && !(await danger.isVisible()); i++) { // the page may still grow
    await page.keyboard.press("End");
    await page.evaluate(() => new Promise((drawn) => { requestAnimationFrame(() => requestAnimationFrame(drawn)); }));
  }
  await danger.waitFor();
  assert(await button("Approve").isDisabled());
  const active = () => page.evaluate(() => document.activeElement.name || document.activeElement.innerText);
  for (let i = 0; i < 300 && (await active()) !== "CONTROL_CHANGE"; i++) await page.keyboard.press("Tab");
  await page.keyboard.press("Space");
  assert(await button("Approve").isEnabled());
  await page.keyboard.press("Tab");
  assert.equal(await active(), "Approve");
  await page.keyboard.press("Enter");
  await toast(/^Approved: /);
  await page.locator("dd", { hasText: "Completed" }).waitFor();

  // In the dialog that rejects, Enter gives up.
  const other = await send("55".repeat(20));
  await look(other.id, page);
  await button("Reject").press("Enter");
  await dialog().waitFor();
  await page.keyboard.press("Enter");
  await dialog().waitFor({ state: "detached" });
  assert.equal((await activity(other.id)).status, "ACTIVITY_STATUS_CONSENSUS_NEEDED");
  await discard([other.id]);
  calm();
});

test("a view that somebody changed on the way cannot be approved, and one that the enclave does not share is not", async () => {
  const asked = await send("66".repeat(20), 700000000000000000n);
  const changing = (change) => page.route("**/query/get_activity", async (route) => {
    const answer = await route.fetch();
    const json = await answer.json();
    if (json.activity.id === asked.id && json.activity.decoded) change(json.activity);
    await route.fulfill({ response: answer, json });
  });
  await changing((a) => { a.decoded.parts[0].to.address = `0x${"44".repeat(20)}`; });
  await look(asked.id, page);
  await page.getByRole("alert").filter({ hasText: "What the server shows is not what it says it shows" }).waitFor();
  assert.equal(await button("Approve").count(), 0);
  await picture(page, "approval-tampered");
  await page.unroute("**/query/get_activity");

  // With a digest that fits, the page cannot tell: the enclave does.
  await changing((a) => {
    a.decoded.parts[0].to.address = `0x${"44".repeat(20)}`;
    a.decodedDigest = hex(sha256(`cloister decoded 1\n${JSON.stringify(a.decoded)}`));
  });
  await page.reload();
  await page.locator(".headline", { hasText: "0x4444444444444444444444444444444444444444" }).waitFor();
  await page.locator(".end-of-view").scrollIntoViewIfNeeded();
  const refused = page.waitForResponse("**/submit/approve_activity");
  await button("Approve").click();
  assert.equal((await (await refused).json()).turnkeyErrorCode, "DECODED_DIGEST_DIFFERS");
  await page.getByRole("alert").filter({ hasText: "This is shown differently now" }).waitFor();
  await sound(page, "shown differently");
  await page.unroute("**/query/get_activity");
  assert.equal((await activity(asked.id)).votes.length, 1);

  // Nothing to look at: nothing to approve.
  await changing((a) => { delete a.decoded; });
  await page.reload();
  await page.getByText("There is nothing to look at").waitFor();
  assert.equal(await button("Approve").count(), 0);
  await page.unroute("**/query/get_activity");
  await page.reload();
  await page.locator(".headline", { hasText: "0x6666666666666666666666666666666666666666" }).waitFor();
  await discard([asked.id]);
  calm();
});

test("what is saved is decoded again elsewhere, and a view that says something else is found", async () => {
  const asked = await send("88".repeat(20), 800000000000000000n);
  await look(asked.id, page);
  const [file] = await Promise.all([page.waitForEvent("download"), button("Save to check it elsewhere").click()]);
  const honest = join(scratch, "honest.json");
  await file.saveAs(honest);
  const saved = JSON.parse(readFileSync(honest, "utf8"));
  const reply = JSON.parse(saved.activity);
  reply.activity.decoded.parts[0].to.address = `0x${"44".repeat(20)}`;
  reply.activity.decodedDigest = hex(sha256(Buffer.from(`cloister decoded 1\n${JSON.stringify(reply.activity.decoded)}`)));
  const lying = join(scratch, "lying.json");
  writeFileSync(lying, JSON.stringify({ ...saved, activity: JSON.stringify(reply) }));
  const run = (name) => spawnSync("bin/cloister-verify", ["decode", name], { encoding: "utf8" });
  const [good, bad] = [run(honest), run(lying)];
  assert.equal(good.status, 0, good.stderr);
  assert.match(good.stdout, /The reply shows the same/);
  assert.equal(bad.status, 1, bad.stdout);
  assert.match(bad.stderr, /decoded\.parts\.0\.to\.address, decodedDigest/);

  const verifying = await open(browser);
  await verifying.page.goto(`${base}verify`);
  const decode = async (name, heading) => {
    await verifying.page.getByLabel("File from an approval").setInputFiles(name);
    await verifying.page.waitForFunction((text) => document.querySelector("[name=activity]").value.includes(text), asked.id);
    await button("Decode on this machine", verifying.page).click();
    await verifying.page.locator("#view .verdict h2", { hasText: heading }).waitFor();
  };
  await decode(honest, "The activity is shown as its bytes say");
  await verifying.page.locator("#view .headline", { hasText: `0x${"88".repeat(20)}` }).waitFor();
  await picture(verifying.page, "verify-decoded");
  await decode(lying, "The activity is shown otherwise than its bytes say");
  await verifying.page.locator("#view code", { hasText: "decoded.parts.0.to.address" }).waitFor();
  await verifying.page.locator("#view .headline", { hasText: `0x${"88".repeat(20)}` }).waitFor();
  await picture(verifying.page, "verify-decoded-otherwise");
  await verifying.page.getByLabel("Accounts and interfaces").fill("no JSON");
  await button("Decode on this machine", verifying.page).click();
  await verifying.page.getByText("The accounts and interfaces are not JSON.").first().waitFor();
  assert.deepEqual(verifying.complaints, []);
  await verifying.context.close();
  await discard([asked.id]);
  calm();
});

test("a name that comes while somebody looks has him look again", async () => {
  const asked = await send("77".repeat(20));
  await look(asked.id, page);
  const named = await root.submit("create_smart_contract_interface", "CREATE_SMART_CONTRACT_INTERFACE", { label: "New <i>name</i>", smartContractAddress: `0x${"77".repeat(20)}`, type: "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM", smartContractInterface: "[]" });
  await bea.client.submit("approve_activity", "APPROVE_ACTIVITY", { fingerprint: named.fingerprint });
  await page.locator(".end-of-view").scrollIntoViewIfNeeded();
  await button("Approve").click();
  await page.getByRole("alert").filter({ hasText: "This is shown differently now" }).waitFor();
  await page.locator(".headline", { hasText: "(labelled “New <i>name</i>” by “Root user”)" }).waitFor();
  assert.equal(await page.locator(".decoded i, .decoded b").count(), 0);
  await picture(page, "approval-again");
  await approve(page);
  await page.locator("dd", { hasText: "Completed" }).waitFor();
  calm();
});

test("an approval of another view does not count, says so, and can be given again", async () => {
  const named = async (label, address) => {
    const asked = await root.submit("create_smart_contract_interface", "CREATE_SMART_CONTRACT_INTERFACE", { label, smartContractAddress: `0x${address}`, type: "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM", smartContractInterface: "[]" });
    await bea.client.submit("approve_activity", "APPROVE_ACTIVITY", { fingerprint: asked.fingerprint });
  };
  const policy = await root.submit("create_policy", "CREATE_POLICY_V3", { policyName: "Three for 0.77", effect: "EFFECT_ALLOW", condition: "eth.tx.value == 770000000000000000", consensus: "approvers.count() >= 3", notes: "" });
  await bea.client.submit("approve_activity", "APPROVE_ACTIVITY", { fingerprint: policy.fingerprint });
  const to = "78".repeat(20);
  const asked = await cyd.client.submit("sign_transaction", "SIGN_TRANSACTION_V2", { signWith: by("ETHEREUM").address, unsignedTransaction: sepolia(nonce++, to, 770000000000000000n), type: "TRANSACTION_TYPE_ETHEREUM" });
  await look(asked.id, page);
  await approve(page);
  const votes = page.getByRole("table", { name: "Votes" });
  await page.getByText("You have approved this. You can still reject it.").waitFor();
  assert.equal(await votes.getByText("Approved", { exact: true }).count(), 1);

  await named("Late name", to);
  await page.reload();
  await votes.getByText("Approved another view", { exact: true }).waitFor();
  assert.equal(await votes.getByText("Approved", { exact: true }).count(), 0);
  await page.getByText("Who approved another view was shown this differently.").waitFor();
  await page.getByRole("region", { name: "What the policies ask for" }).getByText("3 users must agree. 1 has agreed: 2 more needed.").waitFor();
  await page.getByText("You approved this when it was shown differently. Look at it again: your approval does not count until you give it again.").waitFor();
  await settled(page);
  await sound(page, "an approval of another view");
  await picture(page, "approval-another-view");
  await approve(page);
  await page.getByText("You have approved this. You can still reject it.").waitFor();
  assert.equal(await votes.getByText("Approved another view", { exact: true }).count(), 0);
  assert.equal((await root.submit("approve_activity", "APPROVE_ACTIVITY", { fingerprint: asked.fingerprint })).status, "ACTIVITY_STATUS_COMPLETED");
  calm();
});

// ---- Notifications

test("a notification comes when it was asked for and something waits", async () => {
  const denied = await open(browser);
  await denied.page.addInitScript(() => Object.defineProperty(Notification, "permission", { get: () => "denied" }));
  await signIn(denied.page, bea.file);
  await go("approvals", "Approvals", denied.page);
  await denied.page.getByText("This browser does not allow notifications from this site.").waitFor();
  assert(await denied.page.getByLabel("Notify me when something waits for me").isDisabled());
  await denied.context.close();

  const theirs = await open(browser);
  await theirs.page.addInitScript(() => {
    window.asked = 0;
    window.notes = [];
    let permission = "default";
    window.Notification = class {
      static get permission() { return permission; }
      static async requestPermission() { window.asked++; return permission = "granted"; }
      constructor(title, { body }) { window.notes.push([title, body, this]); }
      close() {}
    };
  });
  await theirs.page.clock.install();
  await signIn(theirs.page, bea.file);
  await go("approvals", "Approvals", theirs.page);
  assert.equal(await theirs.page.evaluate(() => window.asked), 0);
  const asked = theirs.page.waitForResponse("**/query/list_activities");
  await theirs.page.getByLabel("Notify me when something waits for me").check();
  await theirs.page.getByText("You are notified while this page is open.").waitFor();
  assert.equal(await theirs.page.evaluate(() => window.asked), 1);
  await asked;
  const waiting = await send("88".repeat(20));
  await theirs.page.clock.runFor(31_000);
  await theirs.page.waitForFunction(() => window.notes.length === 1);
  assert.deepEqual(await theirs.page.evaluate(() => window.notes[0].slice(0, 2)), ["Send ETH", "Asked by Root user. It waits for you."]);
  await theirs.page.evaluate(() => window.notes[0][2].onclick());
  await theirs.page.locator(".headline").waitFor();
  assert(theirs.page.url().endsWith(waiting.id));
  await theirs.page.getByRole("link", { name: "Approvals" }).first().click();
  await theirs.page.getByLabel("Notify me when something waits for me").uncheck();
  const requests = [];
  theirs.page.on("request", (r) => requests.push(r.url()));
  await theirs.page.clock.runFor(65_000);
  assert.deepEqual(requests, []);
  assert.deepEqual(theirs.complaints, []);
  await theirs.context.close();
  await discard([waiting.id]);
});
