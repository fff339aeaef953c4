// What somebody is shown whom nobody allowed: the reason, the policy that decided or came closest, and which buttons only the root
// quorum may press. One organization, its root user and a bot whom policies allow little.
import assert from "node:assert/strict";
import { createECDH } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, afterEach, before, test } from "node:test";
import { newUser } from "./approver.mjs";
import { launch, open, picture, sound, signIn as enter } from "./browser.mjs";
import { Client } from "./client.mjs";
import { controls } from "./controls.mjs";
import { apiUrl, base, organizationId, root, rootUserId, scratch } from "./setting.mjs";
import { makeOpenKey } from "./stamp.mjs";

const twos = `0x${"22".repeat(20)}`, threes = `0x${"33".repeat(20)}`;
let browser, page, complaints, theirs, bot, bea, account;

const apiKey = (publicKey) => ({ apiKeyName: "key", publicKey, curveType: "API_KEY_CURVE_P256" });

before(async () => {
  browser = await launch();
  ({ page, complaints } = await open(browser));
  bot = await newUser("Bot");
  bea = await newUser("Bea");
  const made = await root.submit("create_wallet", "CREATE_WALLET", { walletName: "Treasury", accounts: [{ curve: "CURVE_SECP256K1", pathFormat: "PATH_FORMAT_BIP32", path: "m/44'/60'/0'/0/0", addressFormat: "ADDRESS_FORMAT_ETHEREUM" }] });
  [account] = made.result.createWalletResult.addresses;
  await signIn(page, process.env.CLOISTER_CREDENTIALS);
  theirs = await open(browser);
  await signIn(theirs.page, bot.file);
});
after(() => browser.close());

const calm = () => { assert.deepEqual([complaints, theirs.complaints], [[], []]); };
const { heading, button, toast, dialog, settled, go } = controls(() => page);

async function signIn(at, file) {
  await enter(at, base, file);
  await heading("Latest activities", at);
}

const envelope = (type, parameters) => ({ type: `ACTIVITY_TYPE_${type}`, timestampMs: String(Date.now()), parameters });

// refused asks for something that nobody allows, and gives the activity's id.
async function refused(operation, type, parameters, by = bot.client) {
  const got = await by.send(`/public/v1/submit/${operation}`, envelope(type, parameters));
  assert.equal(got.status, 403, JSON.stringify(got));
  return got.details.find((d) => d.activityId).activityId;
}

// A twentieth of an ether on Sepolia.
const payment = (to) => ({ signWith: account, type: "TRANSACTION_TYPE_ETHEREUM", unsignedTransaction: `02f283aa36a780843b9aca008504a817c80082520894${to.slice(2)}87b1a2bc2ec5000080c0` });
const refusedPayment = (to = threes) => refused("sign_transaction", "SIGN_TRANSACTION_V2", payment(to));

const policies = [];
async function policy(policyName, { effect = "ALLOW", condition = "", consensus = "", time }) {
  const made = await root.submit("create_policy", "CREATE_POLICY_V3", { policyName, effect: `EFFECT_${effect}`, condition, consensus, notes: "", ...(time && { time }) });
  const { policyId } = made.result.createPolicyResult;
  policies.push(policyId);
  return policyId;
}
const drop = async () => { for (const policyId of policies.splice(0)) await root.submit("delete_policy", "DELETE_POLICY", { policyId }); };

afterEach(drop); // what a test that failed has left

// change has the browser see another answer to a query.
const change = (operation, act) => page.route(`**/query/${operation}`, async (route) => {
  const response = await route.fetch();
  const json = await response.json();
  act(json);
  await route.fulfill({ response, json });
});

const verdict = (at = page) => at.locator(".verdict");
const said = async (at = page) => {
  await verdict(at).locator("[aria-busy]").waitFor({ state: "detached" });
  return (await verdict(at).innerText()).replace(/\s+/g, " ").trim();
};
const written = "As the policy is written"; // what the expressions are folded under
const look = async (id, name = "Send ETH", at = page) => {
  await go(`activities/${id}`, name, at);
  await verdict(at).waitFor();
};
const why = "Why, and what would allow just this";

test("without any policy: the reason, and no empty table", async () => {
  const id = await refusedPayment();
  for (const at of [page, theirs.page]) {
    await look(id, "Send ETH", at);
    assert.equal(await said(at), `Refused: no policy allows this. There was no policy. Only the root quorum can do what no policy allows. ${why}`);
    assert.equal(await at.getByRole("link", { name: why }).getAttribute("href"), `#/policies/try?activityId=${id}`);
    await at.locator("dd .badge", { hasText: /^Refused$/ }).waitFor();
    assert.equal(await at.getByRole("table", { name: "Policies" }).count(), 0);
    assert.equal(await at.getByText("Failed", { exact: true }).count(), 0);
    // Who asked has not approved anything: he has asked. Readers hear that it counts.
    const vote = at.getByRole("table", { name: "Votes" }).locator("td", { hasText: "Requested" });
    assert.equal(await vote.locator(".badge").innerText(), "Requested");
    assert.equal((await vote.textContent()).replace(/\s+/g, " "), "Requested and approved");
    assert.equal(await at.getByRole("cell", { name: "Approved", exact: true }).count(), 0);
  }
  await picture(page, "refusal-no-policy");
  calm();
});

test("a policy that nearly allows is named, with what it wants and what the request has", async () => {
  const policyId = await policy("bot", { condition: `activity.kind == 'SIGN_TRANSACTION' && eth.tx.to == '${twos}'`, consensus: `approvers.any(user, user.id == '${bot.userId}')` });
  const id = await refusedPayment();
  await look(id);
  assert.equal(await said(), `Refused: no policy allows this. The policy “bot” allows this only if the recipient is ${twos}; in this request the recipient is ${threes}. ${written} ${why}`);
  await heading("Refused: no policy allows this.");
  await page.getByText(written).click();
  await page.getByText(`The policy “bot” wants eth.tx.to == '${twos}'; in this request eth.tx.to is '${threes}'.`).waitFor();
  assert.equal(await page.locator("summary", { hasText: "other polic" }).count(), 0);
  await picture(page, "refusal-nearly");
  await verdict().getByRole("link", { name: "“bot”" }).first().click();
  await heading("bot");
  assert(page.url().endsWith(`#/policies/${policyId}`));
  // What the policy wants comes true.
  await bot.client.submit("sign_transaction", "SIGN_TRANSACTION_V2", payment(twos));

  // A policy that was changed since may want something else by now, and so does a deleted one.
  await root.submit("update_policy", "UPDATE_POLICY_V2", { policyId, policyName: "bot 2" });
  await change("get_policy", (json) => { json.policy.updatedAt.seconds = String(Number(json.policy.updatedAt.seconds) + 60); });
  await page.reload();
  await look(id);
  assert.equal(await said(), `Refused: no policy allows this. The policy “bot” depends on whether the recipient is ${twos}; in this request the recipient is ${threes}. ${written} The policy has changed since. ${why}`);
  await page.unroute("**/query/get_policy");
  // Nor is the expression looked for in another text.
  await root.submit("update_policy", "UPDATE_POLICY_V2", { policyId, policyCondition: `activity.kind != 'SIGN_TRANSACTION'` });
  await page.reload();
  await look(id);
  assert.match(await said(), /The policy “bot” depends on whether the recipient is/);
  await drop();
  await page.reload();
  await look(id);
  assert.equal(await said(), `Refused: no policy allows this. The policy “bot” depends on whether the recipient is ${twos}; in this request the recipient is ${threes}. ${written} The policy has been deleted since. ${why}`);
  assert.equal(await verdict().getByRole("link").count(), 1);
  calm();
});

test("what a policy does not want is not shown as what it wants", async () => {
  for (const [condition, text] of [
    [`!(eth.tx.to in ['${threes}'])`, `allows this only if the recipient is not ${threes}; in this request the recipient is ${threes}. ${written}`],
    [`eth.tx.value < 1000 && !(eth.tx.to == '${threes}')`, `allows this only if the amount is less than 0.000000000000001 ETH; in this request the amount is 0.05 ETH. ${written}`],
    [`!(eth.tx.to == '(!' || eth.tx.to == '${threes}')`, `allows this only if the recipient is not ${threes}; in this request the recipient is ${threes}. ${written}`],
    [`!(!(eth.tx.to == '${twos}'))`, `allows this only if the recipient is ${twos}; in this request the recipient is ${threes}. ${written}`],
    [`eth.tx.chain_id != 11155111 || eth.tx.value < 7`, `allows this only if the chain is not 11155111 (Sepolia) or the amount is less than 0.000000000000000007 ETH; in this request the chain is 11155111 (Sepolia) and the amount is 0.05 ETH. ${written}`],
    [`!(eth.tx.chain_id == 11155111 && eth.tx.nonce == 0)`, "wants that eth.tx.chain_id == 11155111 && eth.tx.nonce == 0 does not hold. In this request eth.tx.chain_id is 11155111. In this request eth.tx.nonce is 0."],
    [`wallet.label == 'Ä' && !(eth.tx.to in ['${threes}'])`, `allows this only if the wallet's name is "Ä"; in this request the wallet's name is "Treasury". ${written}`],
    [`wallet.label != 'Ä' && !(eth.tx.to in ['${threes}'])`, `allows this only if the recipient is not ${threes}; in this request the recipient is ${threes}. ${written}`],
      ]) {
    await policy("bot", { condition });
    await look(await refusedPayment());
    assert.equal(await said(), `Refused: no policy allows this. The policy “bot” ${text} ${why}`, condition);
    await drop();
  }
  calm();
});

test("a policy that denies is named, and what it costs to go past it", async () => {
  await policy("Everything of Bot", { condition: `eth.tx.value > 0`, consensus: `approvers.any(user, user.id == '${bot.userId}')` });
  const policyId = await policy("No threes", { effect: "DENY", condition: `eth.tx.to == '${threes}'` });
  const id = await refusedPayment();
  await look(id);
  assert.equal(await said(), `Refused by the policy “No threes”. It denies this because the recipient is ${threes}. ${written} `
    + `A policy that denies overrides all that allow. Only the root quorum can do this in spite of it. ${why}`);
  assert.equal(await verdict().getByRole("link", { name: "“No threes”" }).getAttribute("href"), `#/policies/${policyId}`);
  await page.getByText("1 other policy", { exact: true }).click();
  const others = page.getByRole("table", { name: "Policies" });
  assert.deepEqual(await others.locator("td:nth-child(1), td:nth-child(2)").allInnerTexts(), ["Everything of Bot", "Allows"]);
  await picture(page, "refusal-denied");

  // Two that deny, one of them whatever is asked for.
  await policy("Nothing", { effect: "DENY" });
  await look(await refusedPayment());
  assert.match(await said(), /^Refused by the policy “(No threes|Nothing)” and another one\. “\1” denies this[ .]/);
  await page.getByText("2 other policies", { exact: true }).click();
  assert.deepEqual((await others.locator(".badge").allInnerTexts()).sort(), ["Allows", "Denies"]);
  await drop();

  // Policies that deny something else are no closer to allowing than others.
  await policy("No twos", { effect: "DENY", condition: `eth.tx.to == '${twos}'` });
  await look(await refusedPayment());
  assert.equal(await said(), `Refused: no policy allows this. The policies only deny. There is none that allows anything. ${why}`);
  await drop();
  calm();
});

test("policies for other users, outside of their time, and about something else", async () => {
  await policy("Payments of Bea", { condition: `eth.tx.to == '${threes}'`, consensus: `approvers.any(user, user.id == '${bea.userId}')` });
  await look(await refusedPayment());
  assert.equal(await said(), `Refused: no policy allows this. The policy “Payments of Bea” is for other users: it allows this only if Bea approves; in this request Bot approves. ${written} ${why}`);
  await picture(page, "refusal-others");
  await drop();

  await policy("Until 2020", { condition: `eth.tx.to == '${threes}'`, time: "time.now < Timestamp('2020-01-01T00:00:00Z')" });
  await look(await refusedPayment());
  assert.match(await said(), /^Refused: no policy allows this\. The policy “Until 2020” was not in force: it is in force before 2020-01-01T00:00:00Z; this request came .*\. As the policy is written Why/);
  await drop();

  await policy("Wallets", { condition: "activity.resource == 'WALLET'" });
  await policy("Users", { condition: "activity.resource == 'USER'" });
  await look(await refusedPayment());
  assert.equal(await said(), `Refused: no policy allows this. No policy is about requests of this kind. ${why}`);
  await page.getByText("2 policies", { exact: true }).click();
  assert.deepEqual(await page.getByRole("table", { name: "Policies" }).locator(".badge").allInnerTexts(), ["Is not about this", "Is not about this"]);
  await picture(page, "refusal-none-about-this");
  // One that could only deny is no closer, and that there is none that allows is not said.
  await policy("No twos", { effect: "DENY", condition: `eth.tx.to == '${twos}'` });
  await look(await refusedPayment());
  assert.equal(await said(), `Refused: no policy allows this. No policy that allows is about requests of this kind. ${why}`);
  await drop();
  calm();
});

test("of many policies the one that matters comes first, the others below", async () => {
  const hostile = `<img src=x onerror="document.title='!'"> “](#/policies/try)`;
  const bots = `approvers.any(user, user.id == '${bot.userId}')`;
  await policy(hostile, { condition: "activity.resource == 'USER'" });
  for (let i = 0; i < 6; i++) await policy(`Wallets ${i}`, { condition: "activity.resource == 'WALLET'", consensus: bots });
  await policy("For Bea", { consensus: `approvers.any(user, user.id == '${bea.userId}')` });
  await policy("Over", { consensus: bots, time: "time.now < Timestamp('2020-01-01T00:00:00Z')" });
  await policy("Solana", { condition: "solana.tx.instructions.count() == 1" });
  await policy("No exports", { effect: "DENY", condition: "activity.action == 'EXPORT'" });
  const policyId = await policy("<b>bot</b>", { condition: `eth.tx.to == '${twos}'`, consensus: bots });
  const id = await refusedPayment();
  await look(id);
  assert.equal(await said(), `Refused: no policy allows this. The policy “<b>bot</b>” comes closest. It allows this only if the recipient is ${twos}; in this request the recipient is ${threes}. ${written} ${why}`);
  assert.equal(await verdict().getByRole("link", { name: "“<b>bot</b>”" }).getAttribute("href"), `#/policies/${policyId}`);
  const others = page.getByRole("table", { name: "Policies" });
  assert(!(await others.isVisible()));
  await page.getByText("11 other policies", { exact: true }).focus();
  await page.keyboard.press("Enter");
  await others.waitFor();
  const rows = (await others.locator("tbody tr").all());
  const badges = Object.fromEntries(await Promise.all(rows.map(async (r) => [await r.locator("td").first().innerText(), await r.locator(".badge").innerText()])));
  assert.deepEqual(badges, {
    "For Bea": "For other users", Solana: "Is not about this", Over: "Not in force now", "No exports": "Is not about this", [hostile]: "Is not about this",
    ...Object.fromEntries(Array.from({ length: 6 }, (_, i) => [`Wallets ${i}`, "Is not about this"])),
  });
  assert.equal(await others.locator(".badge.bad").count(), 0, "what does not apply is nothing bad");
  // The order is the enclave's: those that came nearest to allowing first.
  const { activity } = await root.query("get_activity", { activityId: id });
  const order = activity.failure.details.find((d) => d.policyEvaluations).policyEvaluations.map((e) => e.policyName);
  assert.deepEqual([order[0], ...await others.locator("td:first-child").allInnerTexts()], ["<b>bot</b>", ...order.slice(1)]);
  assert.equal(await page.locator("main img, main b").count(), 0);
  await picture(page, "refusal-many");
  await others.getByRole("link", { name: hostile }).click();
  await heading(hostile);
  await drop();
  calm();
});

test("who may not see the policies learns that he was refused, and not by which", async () => {
  await policy("bot", { condition: `eth.tx.to == '${twos}'` });
  const id = await refusedPayment();
  const hide = (json) => { for (const d of json.activity.failure?.details ?? []) if (d.policyEvaluations) d.policyEvaluations = []; };
  const refuse = (operation) => page.route(`**/query/${operation}`, (route) => route.fulfill({ status: 403, json: { code: 7, message: "request not authorized", details: [], turnkeyErrorCode: "FORBIDDEN" } }));
  const unseen = async (text) => {
    await page.reload();
    await look(id);
    assert.equal(await said(), text);
    assert.equal(await page.getByRole("table", { name: "Policies" }).count(), 0);
    assert.equal(await page.locator("summary", { hasText: /polic/ }).count(), 0);
    await page.locator("dd .badge", { hasText: /^Refused$/ }).waitFor();
  };
  await change("get_activity", hide);
  await refuse("get_policy_evaluations");
  await unseen("Refused You may not see which policy decided.");
  await picture(page, "refusal-unseen");
  await page.unroute("**/query/get_policy_evaluations");
  await refuse("list_policies");
  await unseen("Refused You may not see which policy decided.");
  await page.unroute("**/query/list_policies");
  // With no policy named although there were some, the session was not allowed.
  await change("list_policies", (json) => { json.policies[0].createdAt.seconds = "1"; });
  await unseen("Refused: the session that sent this may not do it. No policy was evaluated.");
  await page.unroute("**/query/list_policies");
  await page.unroute("**/query/get_activity");
  // The evaluations alone may be refused.
  await refuse("get_policy_evaluations");
  await page.reload();
  await look(id);
  assert.match(await said(), /The policy “bot” allows this only if/);
  await page.unroute("**/query/get_policy_evaluations");
  await drop();

  // A user of the parent is refused in a sub-organization by policies that its own users may not read.
  const owner = await makeOpenKey();
  const made = await root.submit("create_sub_organization", "CREATE_SUB_ORGANIZATION_V8", { subOrganizationName: "Customer", rootQuorumThreshold: 1,
    rootUsers: [{ userName: "Carol", userEmail: "carol@example.com", apiKeys: [apiKey(owner.publicKey)], authenticators: [], oauthProviders: [] }] });
  const { subOrganizationId } = made.result.createSubOrganizationResultV8;
  await policy("Parent's", { condition: "activity.resource == 'WALLET'" });
  const inside = new Client({ apiUrl, organizationId: subOrganizationId, ...owner });
  const got = await bot.client.send("/public/v1/submit/email_auth", { ...envelope("EMAIL_AUTH_V3", { email: "carol@example.com", targetPublicKey: createECDH("prime256v1").generateKeys("hex"), emailCustomization: { appName: "Shop" } }), organizationId: subOrganizationId });
  assert.equal(got.status, 403);
  const [asked] = (await inside.query("list_activities")).activities;
  const carol = await open(browser);
  const file = join(scratch, "Carol.json");
  writeFileSync(file, JSON.stringify({ organizationId: subOrganizationId, ...owner }));
  await signIn(carol.page, file);
  await look(asked.id, "Send a sign-in key by e-mail", carol.page);
  assert.equal(await said(carol.page), "Refused You may not see which policy decided.");
  assert(!(await carol.page.locator("main").innerText()).includes("activity.resource"));
  assert.deepEqual(carol.complaints, []);

  // The parent sees why what happened inside was refused, and may change nothing there.
  await inside.submit("create_users", "CREATE_USERS_V3", { users: [{ userName: "Dan", apiKeys: [apiKey((await makeOpenKey()).publicKey)], authenticators: [], oauthProviders: [], userTags: [] }] });
  const dans = await makeOpenKey();
  await inside.submit("create_users", "CREATE_USERS_V3", { users: [{ userName: "Dora", apiKeys: [apiKey(dans.publicKey)], authenticators: [], oauthProviders: [], userTags: [] }] });
  await inside.submit("create_policy", "CREATE_POLICY_V3", { policyName: "Inside", effect: "EFFECT_ALLOW", condition: "wallet.label == 'Savings'", consensus: "", notes: "" });
  const id2 = await refused("create_wallet", "CREATE_WALLET", { walletName: "Other", accounts: [] }, new Client({ apiUrl, organizationId: subOrganizationId, ...dans }));
  await look(`${id2}`, "Create a wallet", carol.page);
  const ours = await said(carol.page);
  await go(`suborganizations/${subOrganizationId}/activities/${id2}`, "Create a wallet");
  assert.equal(await said(), ours.replace(` ${why}`, ""));
  assert.equal(await verdict().getByRole("link").count(), 0);
  await page.locator("dd .badge", { hasText: /^Refused$/ }).waitFor();
  await sound(page, "refused in a sub-organization");
  await go(`suborganizations/${subOrganizationId}`, "Customer");
  await page.getByRole("cell", { name: "Refused", exact: true }).first().waitFor();
  await carol.context.close();
  await drop();
  calm();
});

test("what failed for another reason stays failed, and the list tells both apart", async () => {
  const got = await root.send("/public/v1/submit/create_wallet", envelope("CREATE_WALLET", { walletName: "Treasury", accounts: [] }));
  const failed = got.details.find((d) => d.activityId).activityId;
  await go(`activities/${failed}`, "Create a wallet");
  await page.locator("dd .badge", { hasText: /^Failed$/ }).waitFor();
  await page.locator(".state.bad", { hasText: "There is a wallet with this name already." }).waitFor();
  assert.equal(await verdict().count(), 0);
  await page.goto(base);
  await heading("Latest activities");
  await page.getByRole("table", { name: "Latest activities" }).getByText("Failed", { exact: true }).waitFor();

  const badges = async () => [...new Set(await page.locator("tbody .badge").allInnerTexts())];
  await go("activities", "Activities");
  await page.getByLabel("All statuses").selectOption("Refused");
  await page.waitForURL(/status=REFUSED/);
  await settled(page);
  assert.deepEqual(await badges(), ["Refused"]);
  await page.getByText(/activities were read/).waitFor();
  await picture(page, "activities-refused");
  await page.getByLabel("All statuses").selectOption("Failed");
  await page.waitForURL(/status=FAILED/);
  await settled(page);
  assert.deepEqual(await badges(), ["Failed"]);
  assert.equal(await page.locator("tbody tr").count(), 1);
  // With another filter, and with none.
  await go("activities?status=REFUSED&type=CREATE_WALLET", "Activities");
  assert.equal(await page.locator("tbody tr").count(), 0);
  await go("activities", "Activities");
  assert((await badges()).includes("Refused"));
  calm();
});

test("a form tells the reason first, and leads to the refused request", async () => {
  const at = theirs.page;
  await policy("Small payments", { condition: "eth.tx.value < 5" });
  await go("wallets", "Wallets", at);
  await at.getByText("Import wallet and New wallet: only the root quorum can do this, and users whom a policy allows to.").waitFor();
  assert.equal(await button("New wallet", at).getAttribute("aria-disabled"), "true");
  // Where it is not known before, the request itself is refused.
  await at.route("**/evaluate_policies", (route) => route.fulfill({ status: 501, json: { code: 12, message: "not here" } }));
  await at.reload();
  await button("New wallet", at).click();
  await dialog(at).getByLabel("Name").fill("Loot");
  await button("Create wallet", dialog(at)).click();
  const alert = dialog(at).getByRole("alert").filter({ hasText: "Refused" });
  await alert.waitFor();
  assert.equal((await alert.innerText()).replace(/\s+/g, " "), "Refused: no policy allows this. See the request, and why it was refused");
  await picture(at, "refusal-form");
  await alert.getByRole("link").click();
  await verdict(at).waitFor();
  assert.equal(await dialog(at).count(), 0);
  assert.equal(await said(at), `Refused: no policy allows this. No policy is about requests of this kind. ${why}`);
  await policy("No <i>wallets</i>", { effect: "DENY", condition: "activity.resource == 'WALLET'" });
  await go("wallets", "Wallets", at);
  await button("New wallet", at).click();
  await dialog(at).getByLabel("Name").fill("Loot");
  await button("Create wallet", dialog(at)).click();
  await dialog(at).getByRole("alert").filter({ hasText: "Refused by the policy “No <i>wallets</i>”." }).waitFor();
  await at.keyboard.press("Escape");
  await at.unroute("**/evaluate_policies");
  // A field at fault is told as before.
  await go("wallets", "Wallets");
  await button("New wallet").click();
  await dialog().getByLabel("Name").fill("Treasury");
  await button("Create wallet", dialog()).click();
  await dialog().locator(".error", { hasText: "There is a wallet with this name already." }).waitFor();
  assert.equal(await dialog().getByRole("link").count(), 0);
  await page.keyboard.press("Escape");
  await drop();
  calm();
});

test("who is not in the root quorum sees which buttons only the root quorum may press", async () => {
  const at = theirs.page;
  const only = "Only the root quorum can do this.";
  // limits are the buttons' names, whether they can be pressed, and the sentence that stands beside them.
  const limits = (on) => on.evaluate(() => [...document.querySelectorAll("main .button[aria-disabled]")].map((b) => [b.getAttribute("aria-label") ?? b.innerText, document.getElementById(b.getAttribute("aria-describedby"))?.innerText]));
  await go("settings", "Features", at);
  const theirLimits = await limits(at);
  const orPolicy = "Only the root quorum can do this, and users whom a policy allows to.";
  const features = ["E-mail sign-in codes", "SMS sign-in codes", "E-mail sign-in keys", "Passkey origins", "E-mail recovery", "E-mail recovery of root users", "Approvals name what was shown", "Mails to approvers", "Strict log", "Webhook (old version)"];
  assert.deepEqual(theirLimits, [["Rename", only], ["Change quorum", only], ...features.map((name) => [`Turn on: ${name}`, "Only the root quorum can turn features on and off."]),
    ["New session profile", orPolicy], ["Make a list", orPolicy], ["Delete the organization", orPolicy]]);
  for (const name of ["Change quorum", "Turn on: Passkey origins"]) {
    await button(name, at).focus(); // it can be reached, and is told
    await at.keyboard.press("Enter");
    await button(name, at).click({ force: true });
    assert.equal(await dialog(at).count(), 0);
  }
  await picture(at, "limits-settings");
  await go("settings", "Features");
  assert.deepEqual(await limits(page), []);
  assert.equal(await page.getByText("Only the root quorum").count(), 0);

  // The auth proxy is turned on by whom policies allow to.
  await go("auth", "Auth", at);
  assert.deepEqual(await limits(at), [["Turn on", orPolicy]]);
  await button("Turn on", at).click({ force: true });
  assert.equal(await dialog(at).count(), 0);
  await picture(at, "limits-auth");
  await policy("Proxy", { condition: "activity.resource == 'AUTH_PROXY' && activity.action == 'CREATE'" });
  await at.reload();
  await go("auth", "Auth", at);
  assert.deepEqual(await limits(at), []);
  await button("Turn on", at).click();
  await button("Turn on", dialog(at)).click();
  await toast("The auth proxy is on.", at);
  await button("Turn off", at).waitFor();
  assert.deepEqual(await limits(at), [["Turn off", orPolicy]]);
  await sound(at, "turn off the auth proxy");
  await go("auth", "Auth");
  assert.deepEqual(await limits(page), []);
  await button("Turn off").click();
  await button("Turn off", dialog()).click();
  await toast("The auth proxy is off.");
  await drop();
  calm();
});

test("a member of a root quorum of several may ask, and waits; who has left it is told why it does not work any more", async () => {
  const at = theirs.page;
  await root.submit("update_root_quorum", "UPDATE_ROOT_QUORUM", { threshold: 2, userIds: [rootUserId, bot.userId] });
  await at.reload();
  await go("settings", "Features", at);
  assert.equal(await at.locator("main [aria-disabled]").count(), 0);
  await button("Turn on: E-mail recovery", at).click();
  await button("Turn on", dialog(at)).click();
  await toast("Others must approve this first.", at);
  // It waits: the page of the decision is as it was, with who asked as the one who asked.
  const [waiting] = (await root.query("list_activities", { filterByStatus: ["ACTIVITY_STATUS_CONSENSUS_NEEDED"] })).activities;
  await at.goto(`${base}#/activities/${waiting.id}`);
  await at.locator(".end-of-view").waitFor();
  assert.equal(await verdict(at).count(), 0);
  await at.locator("dd .badge", { hasText: "Needs approval" }).waitFor();
  await at.getByRole("table", { name: "Votes" }).locator(".badge", { hasText: "Requested" }).waitFor();
  await root.submit("reject_activity", "REJECT_ACTIVITY", { fingerprint: waiting.fingerprint });
  await at.reload();
  await at.locator("dd .badge", { hasText: "Rejected" }).waitFor();
  assert.equal(await verdict(at).count(), 0, "rejected is not refused");
  assert.deepEqual(await at.getByRole("table", { name: "Votes" }).locator(".badge").allInnerTexts(), ["Requested", "Rejected"]);

  // The page still offers the button while somebody takes the bot out of the quorum.
  await go("settings", "Features", at);
  await button("Turn on: E-mail recovery", at).click();
  const leave = await bot.client.submit("update_root_quorum", "UPDATE_ROOT_QUORUM", { threshold: 1, userIds: [rootUserId] });
  await root.submit("approve_activity", "APPROVE_ACTIVITY", { fingerprint: leave.fingerprint });
  await button("Turn on", dialog(at)).click();
  const alert = dialog(at).getByRole("alert").filter({ hasText: "Only the root quorum can do this." });
  await alert.waitFor();
  await alert.getByRole("link").click();
  await verdict(at).waitFor();
  assert.equal(await said(at), "Refused: only the root quorum can do this. Ask a member of the root quorum to do it. See who is in the root quorum.");
  await picture(at, "refusal-root-quorum");
  await verdict(at).getByRole("link", { name: "See who is in the root quorum" }).click();
  await heading("Features", at);
  assert((await at.locator("main [aria-disabled]").count()) > 0);
  calm();
});

test("what waits for approvals names the policies that ask for them", async () => {
  await policy("Two of us", { condition: `eth.tx.to == '${threes}'`, consensus: `approvers.any(user, user.id == '${bot.userId}') && approvers.count() >= 2` });
  await policy("Wallets", { condition: "activity.resource == 'WALLET'" });
  await policy("For Bea alone", { condition: `eth.tx.to == '${threes}'`, consensus: `approvers.all(user, user.id == '${bea.userId}')` });
  const activity = await bot.client.submit("sign_transaction", "SIGN_TRANSACTION_V2", payment(threes));
  assert.equal(activity.status, "ACTIVITY_STATUS_CONSENSUS_NEEDED");
  await page.goto(`${base}#/approvals/${activity.id}`);
  const asks = page.getByRole("region", { name: "What the policies ask for" });
  await asks.waitFor();
  const rows = await asks.getByRole("table", { name: "Policies", exact: true }).locator("tbody tr").evaluateAll((all) => all.map((r) => [r.cells[0].innerText, r.cells[1].innerText]));
  assert.deepEqual(Object.fromEntries(rows), { "Two of us": "Needs more approvals", Wallets: "Is not about this", "For Bea alone": "For other users" });
  await asks.getByRole("link", { name: "Two of us" }).waitFor();
  await picture(page, "refusal-waits");
  await root.submit("reject_activity", "REJECT_ACTIVITY", { fingerprint: activity.fingerprint });
  await drop();

  // Who has approved has not requested, also where the vote of the one who requested is gone.
  await policy("Three of us", { condition: `eth.tx.to == '${threes}'`, consensus: "approvers.count() >= 3" });
  const dan = await newUser("Dan");
  const asked = await dan.client.submit("sign_transaction", "SIGN_TRANSACTION_V2", payment(threes));
  await bea.client.submit("approve_activity", "APPROVE_ACTIVITY", { fingerprint: asked.fingerprint });
  const votes = page.getByRole("table", { name: "Votes" }).locator("tbody tr");
  const shown = async () => (await votes.evaluateAll((all) => all.map((r) => `${r.cells[0].innerText} ${r.querySelector(".badge").innerText}`)));
  await page.goto(`${base}#/activities/${asked.id}`);
  await votes.nth(1).waitFor();
  assert.deepEqual(await shown(), ["Dan Requested", "Bea Approved"]);
  await root.submit("delete_users", "DELETE_USERS", { userIds: [dan.userId] });
  await page.reload();
  await votes.first().waitFor();
  assert.deepEqual(await shown(), ["Bea Approved"]);
  await root.submit("reject_activity", "REJECT_ACTIVITY", { fingerprint: asked.fingerprint });
  await drop();
  calm();
});

test("what users can do only for themselves is told so", async () => {
  const id = await refused("init_import_wallet", "INIT_IMPORT_WALLET", { userId: bea.userId });
  await look(id, "Begin to import a wallet");
  assert.equal(await said(), "Refused: users can do this only for themselves.");
  calm();
});

test("the lists of what only the root quorum and only the user himself can do are the enclave's", async () => {
  const folder = "enclave/internal/activity";
  const sources = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(".go") && !name.endsWith("_test.go")).map((name) => readFileSync(join(folder, name), "utf8"));
  const kinds = sources.join("\n").split(/\bName: (?=")/).slice(1);
  const names = (member) => kinds.filter((kind) => kind.includes(member)).map((kind) => /^"([A-Z0-9_]+)"/.exec(kind)[1]).sort();
  const lists = await page.evaluate(async () => {
    const { rootQuorumTypes, ownTypes } = await import(document.querySelector("script[src$='main.js']").src.replace("main.js", "refusals.js"));
    return [[...rootQuorumTypes].sort(), [...ownTypes].sort()];
  });
  assert.deepEqual(lists, [names("RootQuorum: true"), names("OnlySelf: ")]);
});
