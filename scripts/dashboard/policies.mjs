// Policies are made with care: tasks, the form, the check before a policy is in force, undo, what is refused, the list in words, the
// language page, and changes that are not saved. In an organization of its own with three people, a team, a wallet and a token.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch, open, picture, sound, signIn as enter } from "./browser.mjs";
import { Client } from "./client.mjs";
import { controls } from "./controls.mjs";
import { apiUrl, base, organizationId, root, scratch } from "./setting.mjs";
import { makeOpenKey } from "./stamp.mjs";

const html = `<b>Pay "&amp;" go</b>`;
const recipient = "0x2222222222222222222222222222222222222222";
const transfer = [{ type: "function", name: "transfer", stateMutability: "nonpayable", inputs: [{ name: "to", type: "address" }, { name: "value", type: "uint256" }], outputs: [{ name: "", type: "bool" }] }];
let browser, page, complaints, alice, bob, walletId, tagId;

const calm = () => { assert.deepEqual(complaints, []); };
const { heading, button, click, toast, dialog, settled, go } = controls(() => page);
const link = (name, at = page) => at.getByRole("link", { name, exact: true });
const undo = (text) => page.locator(".toast", { hasText: text }).getByRole("button", { name: "Undo", exact: true }).click();
const box = (name, at = page) => at.getByLabel(name, { exact: true });
const policiesNow = async () => (await root.query("list_policies")).policies;
const named = async (name) => (await policiesNow()).find((p) => p.policyName === name);
const does = (at = page) => at.getByRole("region", { name: "What this policy does" });
const card = (name) => page.locator("article", { has: page.getByRole("heading", { name, exact: true }) });
const focused = () => page.evaluate(() => document.activeElement.name || document.activeElement.innerText?.trim() || document.activeElement.tagName);
const make = async (policy) => (await root.submit("create_policy", "CREATE_POLICY_V3", { effect: "EFFECT_ALLOW", condition: "", consensus: "", notes: "", ...policy })).result.createPolicyResult.policyId;
const removeAll = async () => {
  const policyIds = (await policiesNow()).map((p) => p.policyId);
  if (policyIds.length) await root.submit("delete_policies", "DELETE_POLICIES", { policyIds });
};

async function newUser(userName) {
  const { publicKey, privateKey } = await makeOpenKey();
  const made = await root.submit("create_users", "CREATE_USERS_V4", { users: [{ userName, apiKeys: [{ apiKeyName: "key", publicKey, curveType: "API_KEY_CURVE_P256" }], authenticators: [], oauthProviders: [], userTags: [] }] });
  const file = join(scratch, `policies-${userName}.json`);
  writeFileSync(file, JSON.stringify({ apiUrl, organizationId, publicKey, privateKey }));
  return { userId: made.result.createUsersResult.userIds[0], file, publicKey, privateKey, client: new Client({ apiUrl, organizationId, publicKey, privateKey }) };
}

async function signIn(at, file) {
  await enter(at, base, file);
  await heading("Latest activities", at);
}

// discard leaves a form that was changed.
async function discard(at = page) {
  await at.evaluate(() => { location.hash = "#/policies"; });
  await click("Leave", dialog(at));
  await heading("Policies", at);
}

// write fills in the form of a new policy and checks it.
async function write(values, at = page) {
  await go("policies/new?task=own", "New policy", at);
  await fillIn(values, at);
  await click("Check", at);
}

async function fillIn({ name, effect, condition, consensus, time, notes }, at = page) {
  if (name !== undefined) await box("Name", at).fill(name);
  if (effect) await box("Effect", at).selectOption(effect);
  for (const [label, text] of [["Condition", condition], ["Consensus", consensus], ["Time", time], ["Notes", notes]]) {
    if (text !== undefined) await at.getByLabel(label).first().fill(text);
  }
}

before(async () => {
  [alice, bob] = [await newUser("Alice"), await newUser("Bob")];
  await newUser("Carol");
  tagId = (await root.submit("create_user_tag", "CREATE_USER_TAG", { userTagName: "Operators", userIds: [alice.userId, bob.userId] })).result.createUserTagResult.userTagId;
  ({ walletId } = (await root.submit("create_wallet", "CREATE_WALLET", { walletName: "Treasury", accounts: [{ curve: "CURVE_SECP256K1", pathFormat: "PATH_FORMAT_BIP32", path: "m/44'/60'/0'/0/0", addressFormat: "ADDRESS_FORMAT_ETHEREUM" }] })).result.createWalletResult);
  await root.submit("create_smart_contract_interface", "CREATE_SMART_CONTRACT_INTERFACE", { label: "USDC", smartContractAddress: "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48", type: "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM", smartContractInterface: JSON.stringify(transfer) });
  browser = await launch();
  ({ page, complaints } = await open(browser));
  // Messages stay until they are used, however slow the machine is; how long they stay is a test of its own.
  await page.addInitScript(() => {
    const { setTimeout } = window;
    window.setTimeout = (act, ms, ...rest) => setTimeout(act, ms >= 7000 ? ms * 1000 : ms, ...rest);
  });
  await signIn(page, process.env.CLOISTER_CREDENTIALS);
});
after(() => browser?.close());

const signTreasury = () => `activity.kind == 'SIGN_TRANSACTION' && wallet.id == '${walletId}'`;
const byAlice = () => `approvers.any(user, user.id == '${alice.userId}')`;

test("a new policy begins with a task, or with an empty form", async () => {
  await go("policies", "Policies");
  await link("Create the first policy").click();
  await heading("New policy");
  assert.equal(await focused(), "New policy");
  assert.equal(await page.locator(".tasks a").count(), 9);
  await picture(page, "policy-tasks");
  await page.getByRole("link", { name: "Write it yourself" }).click();
  await box("Name").waitFor();
  assert.deepEqual(await page.locator("main form [name]").evaluateAll((all) => all.map((i) => i.name)), ["policyName", "effect", "condition", "consensus", "time", "notes"]);
  // The examples in the fields are policies that the check has nothing to say about.
  const examples = await page.locator("main form textarea[placeholder]:not([placeholder=''])").evaluateAll((all) => Object.fromEntries(all.map((i) => [i.name, i.placeholder])));
  assert.deepEqual(Object.keys(examples), ["condition", "consensus", "time"]);
  await fillIn({ name: "Examples", ...examples });
  await click("Check");
  await heading("What this policy does");
  assert.equal(await does().locator(".warning").count(), 0);
  await discard();
  calm();
});

test("a policy is checked, shown in words, and put in force by a second press", async () => {
  await write({ name: html, condition: `${signTreasury()} &&`, consensus: byAlice() });
  const condition = page.getByLabel("Condition").first();
  await page.locator(".field", { has: condition }).locator(".error:not(:empty)").waitFor();
  assert.equal(await condition.getAttribute("aria-invalid"), "true");
  assert.equal(await focused(), "condition");
  assert.equal(await does().count(), 0);
  await picture(page, "policy-problem");

  await condition.fill(signTreasury());
  await click("Check");
  await heading("What this policy does");
  assert.equal(await focused(), "What this policy does");
  await does().getByText("Alice approves").first().waitFor();
  assert.equal(await does().locator(".warning").count(), 0);
  await does().getByText(html).waitFor();
  await picture(page, "policy-check");
  await page.keyboard.press("Enter"); // on the heading: nothing
  await click("Back to editing");
  assert.equal(await focused(), "policyName");
  await fillIn({ notes: "Payments <i>only</i>." });
  assert.equal(await does().count(), 0);
  assert.deepEqual(await policiesNow(), []);

  await click("Check");
  await click("Put in force", does());
  await heading("Policies");
  await toast(`Policy “${html}” is in force.`);
  await card(html).getByText("Alice approves").first().waitFor();
  const { policyId, createdAt, updatedAt, ...made } = await named(html);
  assert.deepEqual(made, { policyName: html, effect: "EFFECT_ALLOW", condition: signTreasury(), consensus: byAlice(), notes: "Payments <i>only</i>." });
  // The expressions are there to be opened.
  assert.equal(await card(html).getByText(alice.userId).isVisible(), false);
  await card(html).getByText("Expressions", { exact: true }).click();
  await card(html).locator("code", { hasText: byAlice() }).waitFor();
  await picture(page, "policies-words");
  calm();
});

test("what makes, changes or deletes a policy can be undone", async () => {
  // Made.
  await page.keyboard.press("F8");
  assert.equal(await focused(), "Undo");
  await page.keyboard.press("Enter");
  await toast(`Policy “${html}” was deleted again.`);
  await page.getByText("There is no policy yet").waitFor();
  assert.equal(await focused(), "Policies");
  assert.deepEqual(await policiesNow(), []);

  // Changed.
  await make({ policyName: "Sign", condition: signTreasury(), consensus: byAlice() });
  const policyId = (await named("Sign")).policyId;
  await go(`policies/${policyId}/edit`, "Edit Sign");
  await click("Check");
  await page.getByRole("alert").filter({ hasText: "Nothing was changed." }).waitFor();
  await fillIn({ name: "Sign together", consensus: `${byAlice()} && approvers.count() >= 2`, time: "CronSpan('0 9 * * 1-5', '8h', 'Europe/Paris')" });
  await click("Check");
  await heading("Until now");
  await heading("From now on");
  await does().locator("ins").first().waitFor();
  await does().locator("dt", { hasText: "Name" }).waitFor();
  await picture(page, "policy-change");
  await click("Put in force", does());
  await toast(`Policy “Sign together” was changed.`);
  assert.equal((await named("Sign together")).time, "CronSpan('0 9 * * 1-5', '8h', 'Europe/Paris')");
  await undo(`Policy “Sign together” was changed.`);
  await toast(`Policy “Sign” is as it was before.`);
  await heading("Sign");
  const { updatedAt, createdAt, ...now } = await named("Sign");
  assert.deepEqual({ ...now, time: now.time ?? "" }, { policyId, policyName: "Sign", effect: "EFFECT_ALLOW", condition: signTreasury(), consensus: byAlice(), time: "", notes: "" });

  // Changed by somebody else since.
  await go(`policies/${policyId}/edit`, "Edit Sign");
  await fillIn({ notes: "First" });
  await click("Check");
  await click("Put in force", does());
  await toast(`Policy “Sign” was changed.`);
  await root.submit("update_policy", "UPDATE_POLICY_V2", { policyId, policyNotes: "Second" });
  await undo(`Policy “Sign” was changed.`);
  await toast("has been changed since. Nothing was undone.");
  assert.equal((await named("Sign")).notes, "Second");

  // Deleted.
  await go("policies", "Policies");
  await click("Delete Sign");
  await click("Delete", dialog());
  await toast(`Policy “Sign” was deleted.`);
  await page.getByText("There is no policy yet").waitFor();
  await undo(`Policy “Sign” was deleted.`);
  await toast(`Policy “Sign” is in force again, with a new id.`);
  await heading("Sign");
  assert.equal((await named("Sign")).consensus, byAlice());

  // Nothing to undo where it is no longer there.
  await write({ name: "Short-lived", condition: signTreasury(), consensus: byAlice() });
  await click("Put in force", does());
  await toast(`Policy “Short-lived” is in force.`);
  await root.submit("delete_policy", "DELETE_POLICY", { policyId: (await named("Short-lived")).policyId });
  await undo(`Policy “Short-lived” is in force.`);
  await toast("not found");
  calm();
});

test("a message with Undo stays long enough, and while it is pointed at or has the focus", async () => {
  const mine = await open(browser);
  await signIn(mine.page, process.env.CLOISTER_CREDENTIALS);
  await mine.page.clock.install({ time: Date.now() - 5000 });
  await write({ name: "Patience", condition: signTreasury(), consensus: byAlice() }, mine.page);
  await mine.page.clock.pauseAt(Date.now());
  await click("Put in force", does(mine.page));
  const note = mine.page.locator(".toast", { hasText: "Patience" });
  await note.waitFor();
  await mine.page.clock.runFor(10_000);
  assert.equal(await note.count(), 1);
  await note.hover();
  await mine.page.clock.runFor(60_000);
  assert.equal(await note.count(), 1);
  await mine.page.keyboard.press("F8");
  await mine.page.mouse.move(5, 5);
  await mine.page.clock.runFor(60_000);
  assert.equal(await note.count(), 1);
  await mine.page.getByRole("heading", { name: "Policies", exact: true }).focus();
  await mine.page.clock.runFor(10_000);
  assert.equal(await note.count(), 0);
  assert.deepEqual(mine.complaints, []);
  await mine.context.close();
  await removeAll();
});

test("a policy that allows everything takes a tick and a second press", async () => {
  await go("policies/new?task=own", "New policy");
  await box("Name").fill("Open");
  await page.keyboard.press("Enter");
  await heading("What this policy does");
  await page.keyboard.press("Enter");
  await does().getByRole("alert").filter({ hasText: "This policy lets every user do everything, including signing any transaction." }).waitFor();
  assert.equal(await focused(), "What this policy does");
  await picture(page, "policy-everything");
  await click("Put in force", does());
  assert.equal(await box("I want every user to be able to do everything").evaluate((n) => n.validity.valueMissing), true);
  assert.equal(await does().locator("form[aria-busy]").count(), 0);
  assert.deepEqual(await policiesNow(), []);
  await box("I want every user to be able to do everything").check();
  await click("Put in force", does());
  await toast(`Policy “Open” is in force.`);
  await card("Open").getByText("Allows everything", { exact: true }).waitFor();
  await card("Open").getByText("2 warnings", { exact: true }).click();
  await card("Open").getByText("This policy allows signing with every key").waitFor();
  await picture(page, "policies-everything");

  // However it is written.
  await write({ name: "Open too", condition: "true", consensus: "approvers.count() >= 1" });
  await box("I want every user to be able to do everything").waitFor();
  await discard();
  // What denies everything says so.
  await write({ name: "Shut", effect: "EFFECT_DENY" });
  await does().getByRole("alert").filter({ hasText: "This policy denies every user everything that policies decide." }).waitFor();
  assert.equal(await does().getByRole("checkbox").count(), 0);
  await discard();

  // An edit that opens a policy is one too.
  await removeAll();
  const policyId = await make({ policyName: "Narrow", condition: signTreasury(), consensus: byAlice() });
  await go(`policies/${policyId}/edit`, "Edit Narrow");
  await fillIn({ condition: " ", consensus: "" });
  await click("Check");
  await box("I want every user to be able to do everything").waitFor();
  await click("Back to editing");
  // And so is an undo that brings such a policy back.
  await root.submit("update_policy", "UPDATE_POLICY_V2", { policyId, policyCondition: "", policyConsensus: "" });
  await discard();
  await click("Delete Narrow");
  await click("Delete", dialog());
  await undo(`Policy “Narrow” was deleted.`);
  await dialog().getByText("This policy lets every user do everything").waitFor();
  assert(await button("Cancel", dialog()).evaluate((n) => n === document.activeElement));
  await page.keyboard.press("Enter");
  assert.deepEqual(await policiesNow(), []);
  calm();
});

test("a text that has changed since the check is not put in force", async () => {
  await write({ name: "Swapped", condition: signTreasury(), consensus: byAlice() });
  await heading("What this policy does");
  await page.evaluate(() => { document.querySelector("[name=consensus]").value = ""; });
  await click("Put in force", does());
  await page.getByRole("alert").filter({ hasText: "The text has changed since the check." }).waitFor();
  assert.equal(await does().count(), 0);
  assert.deepEqual(await policiesNow(), []);
  await click("Check");
  await heading("What this policy does");
  assert.equal(await does().getByText("Alice approves").count(), 0);
  await click("Back to editing");
  await discard();
  calm();
});

test("the server's refusal stands in the field, with the caret at its place", async () => {
  // What the check does not look at.
  await write({ name: "x".repeat(256), condition: signTreasury(), consensus: byAlice() });
  await click("Put in force", does());
  await page.locator(".field .error", { hasText: "must be 1 to 255 characters" }).waitFor();
  assert.equal(await focused(), "policyName");
  assert.equal(await does().count(), 0);
  assert.equal(await page.locator("main form .alert").textContent(), ""); // said once
  await discard();

  // A browser without the engine: the server checks.
  const bare = await open(browser);
  await bare.context.route("**/verifier.wasm", (route) => route.abort());
  await signIn(bare.page, process.env.CLOISTER_CREDENTIALS);
  const text = "wallet.label == 'Trésor 💰' && eth.tx.valu < 5";
  await write({ name: "Unchecked", condition: text, consensus: byAlice() }, bare.page);
  await does(bare.page).getByText("This browser cannot check the policy").waitFor();
  await does(bare.page).locator("code", { hasText: text }).waitFor();
  await picture(bare.page, "policy-unchecked");
  await click("Put in force", does(bare.page));
  const condition = bare.page.getByLabel("Condition").first();
  await bare.page.locator(".field", { has: condition }).locator(".error", { hasText: "ield does not exist: valu" }).waitFor();
  assert.deepEqual(await condition.evaluate((n) => [document.activeElement === n, n.selectionStart, n.getAttribute("aria-invalid")]), [true, text.indexOf("valu"), "true"]);
  assert.equal(await bare.page.locator("main form .alert").textContent(), "");
  await picture(bare.page, "policy-refused");
  await condition.fill("");
  await fillIn({ consensus: "" }, bare.page);
  await click("Check", bare.page);
  // Without the engine too, a policy that allows everything takes a tick.
  await box("I want every user to be able to do everything", bare.page).waitFor();
  await click("Back to editing", bare.page);
  await fillIn({ condition: text.replace("valu ", "value "), consensus: byAlice() }, bare.page);
  await click("Check", bare.page);
  await click("Put in force", does(bare.page));
  await toast(`Policy “Unchecked” is in force.`, bare.page);
  // The list is as it is written.
  await bare.page.locator("article code", { hasText: "eth.tx.value < 5" }).waitFor();
  await sound(bare.page, "policies without the engine");
  // An edit is refused in its fields too.
  await link("Edit Unchecked", bare.page).click();
  await heading("Edit Unchecked", bare.page);
  await fillIn({ consensus: "approvers.count() >= two" }, bare.page);
  await click("Check", bare.page);
  await click("Put in force", does(bare.page));
  const consensus = bare.page.getByLabel("Consensus").first();
  await bare.page.locator(".field", { has: consensus }).locator(".error:not(:empty)").waitFor();
  assert.deepEqual(await consensus.evaluate((n) => [document.activeElement === n, n.selectionStart]), [true, "approvers.count() >= ".length]);
  await discard(bare.page);
  await go("policies/language", "The language of policies", bare.page);
  await bare.page.getByRole("alert").waitFor();
  await heading("How a decision is made", bare.page);
  assert.deepEqual(bare.complaints.filter((c) => !c.includes("verifier.wasm")), []);
  await bare.context.close();
  await removeAll();
  calm();
});

test("leaving a form that was changed asks, wherever the way leads", async () => {
  await go("policies", "Policies");
  await go("wallets", "Wallets");
  await link("Policies").click();
  await heading("Policies");
  await link("New policy").click();
  await page.getByRole("link", { name: "Write it yourself" }).click();
  await box("Name").fill("Half");
  const here = () => page.evaluate(() => location.hash);
  const stay = async () => {
    await dialog().getByText("What you changed on this page is not saved and would be lost.").waitFor();
    assert(await button("Stay", dialog()).evaluate((n) => n === document.activeElement));
    await page.waitForFunction(() => location.hash === "#/policies/new?task=own");
    await click("Stay", dialog());
    assert.equal(await box("Name").inputValue(), "Half");
    assert.equal(await here(), "#/policies/new?task=own");
  };
  // A link, the browser's Back over one page and over three, the box that finds, Cancel, signing out.
  await link("Users").click();
  await stay();
  await page.goBack();
  await stay();
  await page.evaluate(() => history.go(-3));
  await stay();
  await page.getByRole("searchbox", { name: "Find" }).fill("x");
  await page.keyboard.press("Enter");
  await stay();
  await link("Cancel").click();
  await picture(page, "unsaved");
  await stay();
  await click("Sign out");
  await stay();
  await page.keyboard.press("Escape");
  // Closing the tab: the browser asks.
  const asked = page.waitForEvent("dialog");
  await page.evaluate(() => { setTimeout(() => location.reload()); });
  const question = await asked;
  assert.equal(question.type(), "beforeunload");
  await question.dismiss();
  assert.equal(await box("Name").inputValue(), "Half");
  // The check is no way out either.
  await fillIn({ condition: signTreasury(), consensus: byAlice() });
  await click("Check");
  await heading("What this policy does");
  await link("Users").click();
  await click("Stay", dialog());
  await does().waitFor();
  // Who does not mind goes where the way led, and Back leads back.
  await link("Users").click();
  await click("Leave", dialog());
  await heading("Users");
  await page.goBack();
  await heading("New policy");
  assert.equal(await box("Name").inputValue(), "");
  await page.goBack();
  await page.getByRole("link", { name: "Write it yourself" }).waitFor();
  await page.goForward();
  await box("Name").fill("Half");
  await page.goBack();
  await click("Leave", dialog());
  await page.getByRole("link", { name: "Write it yourself" }).waitFor();
  // What is as it was, or saved, may be left.
  await page.goForward();
  await box("Name").fill("Half");
  await box("Name").fill("");
  await link("Users").click();
  await heading("Users");
  assert.equal(await dialog().count(), 0);
  calm();
});

test("a draft in the address fills in the form, and has to be checked like any other", async () => {
  const draft = { policyName: html, effect: "EFFECT_DENY", condition: "activity.action == 'EXPORT'", notes: "why?", time: 7, more: "x", policyId: "x" };
  await go(`policies/new?draft=${encodeURIComponent(JSON.stringify(draft))}`, "New policy");
  await page.getByText("The fields were filled in for you.").waitFor();
  assert.deepEqual(await page.locator("main form [name]").evaluateAll((all) => all.map((i) => i.value)), [html, "EFFECT_DENY", "activity.action == 'EXPORT'", "", "", "why?"]);
  await click("Check");
  await heading("What this policy does");
  assert.deepEqual(await policiesNow(), []);
  for (const bad of ["{", "null", "[", "%22x%22"]) {
    await go("policies", "Policies");
    await go(`policies/new?draft=${bad}`, "New policy");
    await page.getByText("The draft in the address of this page cannot be read.").waitFor();
    assert.equal(await box("Name").inputValue(), "");
  }
  calm();
});

// What is filled in for each task, and what comes of it: the effect, and texts that the expressions have.
const checksummed = "0x113E6DEbD9c0e655fE2E59E2F494bbE27a906C1f";
const samples = () => ({
  sign: [{ Who: alice.userId, Wallet: "Treasury" }, "ALLOW", [`wallet.id == '${walletId}'`, `user.id == '${alice.userId}'`]],
  pay: [{ Who: tagId, Wallet: "Treasury", "To these addresses": `${recipient}\n${checksummed}`, "At most (ETH)": "0.100000000000000001", Network: "Base" }, "ALLOW",
    ["eth.tx.value <= 100000000000000001", `eth.tx.to in ['${recipient}', '${checksummed}']`, "eth.tx.chain_id == 8453", "eth.tx.data == '0x'", `user.tags.contains('${tagId}')`]],
  token: [{ Who: bob.userId, Wallet: "Treasury", Token: "USDC", Network: "Ethereum", "At most (tokens)": "250.5", "Decimals of the token": "6", "To these addresses": checksummed }, "ALLOW",
    ["eth.tx.to == '0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48'", "eth.tx.contract_call_args['value'] <= 250500000", `eth.tx.contract_call_args['to'] == '${checksummed.toLowerCase()}'`]],
  two: [{ Tag: "Operators", "How many must approve": "2", Wallet: "Treasury" }, "ALLOW", [`approvers.filter(user, user.tags.contains('${tagId}')).count() >= 2`]],
  block: [{ Addresses: recipient, Why: "Stolen funds" }, "DENY", [`eth.tx.to == '${recipient}'`]],
  hours: [{ Days: "Monday to Friday", From: "08:30", Until: "17:45", "Time zone": "Europe/Zurich" }, "DENY", ["!CronSpan('30 8 * * 1-5', '9h15m', 'Europe/Zurich')", "activity.action == 'SIGN'"]],
  wallets: [{ Who: alice.userId, "What they create": "Wallets only" }, "ALLOW", ["activity.kind == 'CREATE_WALLET'"]],
  exports: [{ "What stays": "Wallets and private keys", Why: "Nothing leaves." }, "DENY", ["activity.kind in ['EXPORT_WALLET', 'EXPORT_WALLET_ACCOUNT', 'EXPORT_PRIVATE_KEY']"]],
});

// choose fills in the fields of a task.
async function choose(values) {
  for (const [label, value] of Object.entries(values)) {
    const input = page.locator("main form").getByLabel(label).first();
    if (await input.evaluate((n) => n.tagName === "SELECT")) await input.selectOption(await input.evaluate((n, v) => [...n.options].find((o) => o.label === v || o.value.endsWith(v)).value, value));
    else await input.fill(value);
  }
}

test("every task makes a policy that compiles and that nothing is to be said against", async () => {
  await go("policies/new", "New policy");
  const names = await page.locator(".tasks a").evaluateAll((all) => all.map((a) => new URLSearchParams(a.hash.split("?")[1]).get("task")));
  const all = samples();
  assert.deepEqual(names, [...Object.keys(all), "own"]);
  for (const [name, [values, effect, texts]] of Object.entries(all)) {
    await go("policies/new", "New policy");
    await page.locator(`.tasks a[href="#/policies/new?task=${name}"]`).click();
    await settled();
    await choose(values);
    if (name === "pay" || name === "hours") await picture(page, `policy-task-${name}`);
    await click("Continue");
    await heading("New policy");
    const written = await page.locator("main form [name]").evaluateAll((inputs) => Object.fromEntries(inputs.map((i) => [i.name, i.value])));
    assert.equal(written.effect, `EFFECT_${effect}`, name);
    for (const text of texts) assert([written.condition, written.consensus, written.time].some((t) => t.includes(text)), `${name}: ${text} in ${JSON.stringify(written)}`);
    await heading("What this policy does"); // at once, with the expressions behind a fold
    assert.equal(await page.getByLabel("Condition").first().isVisible(), false, name);
    assert.deepEqual(await does().locator(".warning").allInnerTexts(), [], name);
    await click("Put in force", does());
    await heading("Policies");
    await heading(written.policyName);
    await page.locator(".toast", { hasText: written.policyName.slice(0, 30) }).waitFor();
  }
  assert.deepEqual((await policiesNow()).length, Object.keys(all).length);
  await page.waitForFunction((n) => document.querySelectorAll("article .policy-sentence").length === n, Object.keys(all).length);
  await picture(page, "policies-tasks");
  // Beside each other they are without warnings too.
  assert.equal(await page.locator("article .badge.wait").count(), 0);
  await removeAll();
  calm();
});

test("a task offers the address book, and refuses what it cannot say exactly", async () => {
  await root.submit("set_organization_feature", "SET_ORGANIZATION_FEATURE", { name: "FEATURE_NAME_ADDRESS_BOOK", value: JSON.stringify([{ name: "Desk <b>1</b>", address: checksummed }, { name: "Solana", address: "9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM" }]) });
  await go("policies/new?task=pay", "Let them pay ether up to an amount, to known addresses");
  assert.equal(await page.getByLabel("Solana").count(), 0);
  await choose({ "At most (ETH)": "0.5" });
  await click("Continue");
  await page.locator(".field .error", { hasText: "Tick or write at least one address." }).waitFor();
  await page.getByLabel("Desk <b>1</b>").check();
  await picture(page, "policy-task-book");
  await click("Continue");
  await does().getByText(checksummed).first().waitFor();
  await click("Back to editing");
  assert((await page.getByLabel("Condition").first().inputValue()).includes(`eth.tx.to == '${checksummed}'`));
  await page.goBack();
  await heading("Let them pay ether up to an amount, to known addresses");
  await settled();
  assert(await page.getByLabel("Desk <b>1</b>").isChecked());
  await root.submit("remove_organization_feature", "REMOVE_ORGANIZATION_FEATURE", { name: "FEATURE_NAME_ADDRESS_BOOK" });
  await go("policies/new", "New policy");
  await go("policies/new?task=pay", "Let them pay ether up to an amount, to known addresses");
  await choose({ Wallet: "Treasury", "To these addresses": recipient });
  for (const [amount, why] of [["0.1234567890123456789", "At most 18 decimals"], ["1e18", "Write a number"], ["0,1", "Write a number"], ["-1", "Write a number"], [".5", "Write a number"], ["999999999999999999999", "cannot compare numbers as large"]]) {
    await choose({ "At most (ETH)": amount });
    await click("Continue");
    await page.locator(".field .error", { hasText: why }).waitFor();
    assert.equal(await focused(), "amount");
  }
  await choose({ "At most (ETH)": "0.5", "To these addresses": `${recipient}\n0x12` });
  await click("Continue");
  await page.locator(".field .error", { hasText: "“0x12” is no Ethereum address" }).waitFor();
  await choose({ "To these addresses": recipient, Network: "Base Sepolia" });
  await click("Continue");
  await heading("New policy");
  assert((await page.getByLabel("Condition").first().inputValue()).includes("eth.tx.chain_id == 84532"));
  await page.goBack();
  await heading("Let them pay ether up to an amount, to known addresses");
  await settled();
  assert.deepEqual(await page.locator("main form [name]").evaluateAll((all) => all.slice(2).map((i) => i.value)), [recipient, "0.5", "84532"]);
  // An address with a letter of the wrong case is what the check warns of.
  await choose({ "To these addresses": checksummed.replace("E6D", "e6D") });
  await click("Continue");
  await does().locator(".warning", { hasText: "In the condition, at" }).waitFor();
  await picture(page, "policy-warning");
  // What a task needs and is not there.
  await page.route("**/list_smart_contract_interfaces", (route) => route.fulfill({ json: { smartContractInterfaces: [] } }));
  await go("policies/new?task=token", "Let them send a token up to an amount (ERC-20)");
  await page.getByText("without it a policy cannot read the amount of a token").waitFor();
  await page.unroute("**/list_smart_contract_interfaces");
  await page.route("**/get_organization", async (route) => {
    const answer = await (await route.fetch()).json();
    answer.organizationData.tags = [];
    await route.fulfill({ json: answer });
  });
  await go("policies", "Policies");
  await page.goto(`${base}#/policies/new?task=two`);
  await link("Create a tag").click();
  await heading("Tags of users");
  await page.unrouteAll({ behavior: "wait" }); // an answer may be on its way
  await go("policies/new?task=unknown", "New policy");
  assert.equal(await page.locator(".tasks a").count(), 9);
  calm();
});

test("the language is a page that is searched", async () => {
  await go("policies", "Policies");
  await link("The language").click();
  await heading("The language of policies");
  await heading("Fields");
  assert.equal(await page.locator("ol.numbered li").count(), 6);
  const rows = (name) => page.getByRole("region", { name, exact: true }).locator("tbody tr");
  assert(await rows("Fields").count() > 200);
  const search = page.getByRole("searchbox", { name: "Search fields, methods and kinds" });
  await search.fill("eth.tx wei");
  await page.getByRole("cell", { name: "eth.tx.value", exact: true }).waitFor();
  assert((await rows("Fields").allInnerTexts()).every((t) => t.includes("eth.tx") && t.includes("wei")));
  await picture(page, "policy-language");
  await search.fill("SIGN_TRANSACTION");
  await rows("Kinds of activity").first().waitFor();
  await search.fill("filter");
  await rows("Methods").first().waitFor();
  await search.fill("<b>");
  await page.getByRole("status").filter({ hasText: "0 fields, 0 methods, 0 kinds." }).waitFor();
  await go("policies/new?task=own", "New policy");
  await link("The language").click();
  await heading("The language of policies");
  calm();
});

test("of many policies those that are shown are described", async () => {
  const policies = (from, count) => Array.from({ length: count }, (_, n) => ({ policyName: `Policy ${String(from + n).padStart(2, "0")}`, effect: "EFFECT_ALLOW", condition: signTreasury(), consensus: byAlice(), notes: "" }));
  await root.submit("create_policies", "CREATE_POLICIES", { policies: policies(0, 30) });
  await root.submit("create_policies", "CREATE_POLICIES", { policies: policies(30, 30) });
  const mine = await open(browser);
  await mine.page.addInitScript(() => {
    window.described = [];
    const { postMessage } = Worker.prototype;
    Worker.prototype.postMessage = function (message) {
      const ids = message?.question?.policyIds;
      if (ids) window.described.push(ids.length);
      return postMessage.apply(this, arguments);
    };
  });
  await signIn(mine.page, process.env.CLOISTER_CREDENTIALS);
  await go("policies", "Policies", mine.page);
  const all = (n) => mine.page.waitForFunction((count) => document.querySelectorAll("article .policy-sentence").length === count, n);
  await all(50);
  assert.deepEqual(await mine.page.evaluate(() => window.described), [50]);
  await click("Show more (10)", mine.page);
  await all(60);
  assert.deepEqual(await mine.page.evaluate(() => window.described), [50, 10]);
  await mine.page.getByLabel("Order").selectOption("name");
  await all(50);
  assert.deepEqual(await mine.page.evaluate(() => window.described), [50, 10]);
  assert.deepEqual(mine.complaints, []);
  await mine.context.close();
  await removeAll();
  calm();
});

test("what others must approve first is said, and there is nothing to undo yet", async () => {
  const policyId = await make({ policyName: "Policies of Alice", condition: "activity.resource == 'POLICY'", consensus: `${byAlice()} && approvers.any(user, user.id == '${bob.userId}')` });
  const theirs = await open(browser);
  await signIn(theirs.page, alice.file);
  await write({ name: "Asked for", condition: signTreasury(), consensus: byAlice() }, theirs.page);
  await click("Put in force", does(theirs.page));
  await toast("Others must approve this first.", theirs.page);
  await heading("Policies", theirs.page);
  assert.equal(await button("Undo", theirs.page).count(), 0);
  await click("Delete Policies of Alice", theirs.page);
  await click("Delete", dialog(theirs.page));
  await toast("Others must approve this first.", theirs.page);
  await heading("Policies of Alice", theirs.page);
  await theirs.page.goto(`${base}#/policies/${policyId}/edit`);
  await heading("Edit Policies of Alice", theirs.page);
  await fillIn({ notes: "New" }, theirs.page);
  await click("Check", theirs.page);
  await does(theirs.page).getByText("In words nothing changes").waitFor();
  await click("Put in force", does(theirs.page));
  await toast("Others must approve this first.", theirs.page);
  assert.equal(await button("Undo", theirs.page).count(), 0);
  assert.deepEqual((await policiesNow()).map((p) => [p.policyName, p.notes]), [["Policies of Alice", ""]]);
  // Who may not is told, and the check stays.
  const carol = await open(browser);
  await signIn(carol.page, join(scratch, "policies-Carol.json"));
  await write({ name: "Mine", condition: signTreasury(), consensus: byAlice() }, carol.page);
  await click("Put in force", does(carol.page));
  await does(carol.page).getByRole("alert").filter({ hasText: /not authorized|denied|No polic/i }).waitFor();
  await carol.page.goto(`${base}#/policies`);
  await click("Leave", dialog(carol.page));
  await heading("Policies", carol.page);
  await carol.page.getByText("Edit and Delete: only the root quorum can do this, and users whom a policy allows to.").waitFor();
  for (const name of ["Edit Policies of Alice", "Delete Policies of Alice"]) await button(name, carol.page).click({ force: true });
  assert.equal(await dialog(carol.page).count(), 0);
  await heading("Policies", carol.page);
  await picture(carol.page, "policies-limits");
  await carol.context.close();
  assert.deepEqual(theirs.complaints, []);
  await theirs.context.close();
  await removeAll();
  calm();
});
