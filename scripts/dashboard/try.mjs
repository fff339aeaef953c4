// From a refusal to a policy: how a request would be decided, by any user, with a policy that is not saved, and what would allow
// just that. One administrator in the browser, and an agent that is refused.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, open, picture, signIn } from "./browser.mjs";
import { Client } from "./client.mjs";
import { apiUrl, base, organizationId, root, rootUserId } from "./setting.mjs";
import { makeOpenKey } from "./stamp.mjs";

let browser, page, complaints, address, agent, refused;
const recipient = "4444444444444444444444444444444444444444";

// A transfer on Sepolia: 0.01 ETH unless another value of seven bytes is given.
const transfer = (nonce, to = recipient, value = "2386f26fc10000") => `02f283aa36a7${nonce}8459682f00850165a0bc0082520894${to}87${value}80c0`;
const signing = (unsignedTransaction) => ({ signWith: address, unsignedTransaction, type: "TRANSACTION_TYPE_ETHEREUM" });
const sign = (client, unsigned) => client.send("/public/v1/submit/sign_transaction", { type: "ACTIVITY_TYPE_SIGN_TRANSACTION_V2", timestampMs: String(Date.now()), parameters: signing(unsigned) });

before(async () => {
  browser = await launch();
  ({ page, complaints } = await open(browser));
  page.setDefaultTimeout(30_000);
  const pair = await makeOpenKey();
  const made = await root.submit("create_users", "CREATE_USERS_V3", { users: [{ userName: "Payout <b>bot</b>", apiKeys: [{ apiKeyName: "key", publicKey: pair.publicKey, curveType: "API_KEY_CURVE_P256" }], authenticators: [], oauthProviders: [], userTags: [] }] });
  agent = { userId: Object.values(made.result)[0].userIds[0], client: new Client({ apiUrl, organizationId, ...pair }) };
  const wallet = await root.submit("create_wallet", "CREATE_WALLET", { walletName: "Treasury", accounts: [{ curve: "CURVE_SECP256K1", pathFormat: "PATH_FORMAT_BIP32", path: "m/44'/60'/0'/0/0", addressFormat: "ADDRESS_FORMAT_ETHEREUM" }] });
  [address] = wallet.result.createWalletResult.addresses;
  assert.equal((await sign(agent.client, transfer("80"))).status, 403);
  [refused] = (await root.query("list_activities", { filterByType: ["ACTIVITY_TYPE_SIGN_TRANSACTION_V2"] })).activities;
  await signIn(page, base, process.env.CLOISTER_CREDENTIALS);
  await page.getByRole("navigation", { name: "Sections" }).waitFor();
});
after(() => browser.close());

const settled = () => page.waitForFunction(() => !document.querySelector("[aria-busy]"));
const outcome = page => page.getByRole("region", { name: "Outcome" });
const advised = page => page.getByRole("region", { name: "What would allow just this" });

async function openTest(search = "") {
  await page.goto(`${base}#/overview`);
  await page.goto(`${base}#/policies/try${search}`);
  await page.getByRole("heading", { name: "Test a request" }).waitFor();
  await page.getByLabel("Submitted by").waitFor();
  await settled();
}

async function evaluate() {
  await page.getByRole("button", { name: "Evaluate" }).click();
  await settled();
}

const choose = (who) => page.getByLabel("Submitted by").selectOption(who);

test("a request is tried as any user, not only as oneself", async () => {
  await openTest();
  assert.equal(await page.getByLabel("Submitted by").inputValue(), rootUserId);
  await evaluate();
  await outcome(page).getByText("Allowed because you are in the root quorum; policies were not evaluated.").waitFor();
  assert.equal(await advised(page).count(), 0);
  await choose(agent.userId);
  await evaluate();
  await outcome(page).getByText("Refused because there is no policy.").waitFor();
  await advised(page).getByText("activity.kind == 'CREATE_WALLET'").waitFor();
  await picture(page, "try-another-user");
});

test("the common requests have fields, which write the JSON", async () => {
  await openTest();
  const type = page.locator("select[name=type]");
  const parameters = page.locator("[name=parameters]");
  const json = async () => JSON.parse(await parameters.inputValue());
  assert.equal(await parameters.isVisible(), false);
  await type.selectOption({ label: "Sign a transaction" });
  await choose(agent.userId);
  await page.getByRole("button", { name: "Evaluate" }).click();
  await page.locator(".field .error", { hasText: "Write an Ethereum address" }).waitFor();
  await page.getByLabel("To", { exact: true }).fill(`0x${recipient}`);
  assert.deepEqual(await json(), { signWith: address, type: "TRANSACTION_TYPE_ETHEREUM", unsignedTransaction: `02f283aa36a78084773594008506fc23ac0082520894${recipient}872386f26fc1000080c0` });
  await page.getByLabel("Network").selectOption("Ethereum");
  await page.getByLabel("Amount").fill("1.5");
  assert.equal((await json()).unsignedTransaction, `02f0018084773594008506fc23ac0082520894${recipient}8814d1120d7b16000080c0`);
  await evaluate();
  await outcome(page).getByText("Refused because there is no policy.").waitFor();
  await advised(page).getByText("1.5 ETH").first().waitFor(); // the enclave reads what was written
  await picture(page, "try-form");
  await page.getByLabel("Amount").fill("1,5");
  assert.equal(await parameters.inputValue(), "");
  await page.getByRole("button", { name: "Evaluate" }).click();
  await page.locator(".field .error", { hasText: "Write a number" }).waitFor();
  for (const [label, field, value, member] of [["Sign a message", "Message", "A <b>word</b>", (p) => p.payload], ["Create a wallet", "Name", "Vault", (p) => p.walletName],
    ["Create users", "Name", "Eve", (p) => p.users[0].userName], ["Create a policy", "Name", "More", (p) => p.policyName]]) {
    await type.selectOption({ label });
    await page.getByLabel(field, { exact: true }).fill(value);
    assert.equal(member(await json()), value);
    await choose(rootUserId);
    await evaluate();
    assert.deepEqual(await page.locator("form .alert p, .field .error:not(:empty)").allInnerTexts(), [], label);
    await outcome(page).getByText("Allowed because you are in the root quorum").waitFor();
  }
});

test("types are a list, and what the reader wrote stays", async () => {
  await openTest();
  const type = page.locator("select[name=type]");
  const parameters = page.locator("[name=parameters]");
  await type.selectOption({ label: "Export a wallet" });
  assert.match((await parameters.inputValue()), /targetPublicKey/);
  await choose(agent.userId);
  await evaluate();
  await outcome(page).getByText("Refused because there is no policy.").waitFor();
  await parameters.fill("{\"mine\": 1}");
  await type.selectOption({ label: "Create a wallet" });
  assert.equal(await parameters.inputValue(), "{\"mine\": 1}");
  await parameters.fill("{ not JSON");
  await page.getByRole("button", { name: "Evaluate" }).click();
  await page.locator(".field .error", { hasText: "The parameters are not valid JSON: " }).waitFor();
  assert.equal(await page.locator("form .alert p").count(), 0, "said twice");
  assert.equal(await page.evaluate(() => document.activeElement.name), "parameters");
  await page.getByLabel("Name", { exact: true }).fill("Vault");
  assert.equal(JSON.parse(await parameters.inputValue()).walletName, "Vault");
  await type.selectOption({ label: "Delete wallets" });
  assert.deepEqual(Object.keys(JSON.parse(await parameters.inputValue())), ["walletIds"]);
  const labels = await type.locator("option").allTextContents();
  assert.ok(labels.length > 80 && labels.includes("Sign a message") && !labels.includes("Approve an activity"), `${labels.length} types`);
});

test("what policies cannot tell from more dangerous requests is not suggested", async () => {
  await openTest();
  await choose(agent.userId);
  await page.locator("select[name=type]").selectOption({ label: "Sign a message" });
  await evaluate();
  await advised(page).getByText("Policies cannot tell this request from more dangerous ones").waitFor();
  await page.locator("select[name=type]").selectOption({ label: "Change the root quorum" });
  await page.getByLabel("Parameters (JSON)").fill(JSON.stringify({ threshold: 1, userIds: [agent.userId] }));
  await evaluate();
  await outcome(page).getByText("Refused because only the root quorum can do this.").waitFor();
  await advised(page).getByText("No policy can allow this. Members of the root quorum can.").waitFor();
});

test("a draft is tried before it is saved, beside the others and in the place of one", async () => {
  await root.submit("create_policy", "CREATE_POLICY_V3", { policyName: "No wallets <i>today</i>", effect: "EFFECT_DENY", condition: "activity.kind == 'CREATE_WALLET'", consensus: "", notes: "" });
  await openTest();
  await choose(agent.userId);
  await page.getByText("With a policy that is not saved").click();
  await page.locator("textarea[name=condition]").fill("activity.kind == 'CREATE_WALLET'");
  await evaluate(); // it is not used yet
  await outcome(page).getByText("Refused by the policy “No wallets <i>today</i>”.").waitFor();
  assert.equal(await outcome(page).getByText("Your draft").count(), 0);
  await advised(page).getByRole("link", { name: "No wallets <i>today</i>" }).waitFor();
  await page.getByLabel("Evaluate this policy too").check();
  await evaluate();
  await outcome(page).getByText("Refused by the policy “No wallets <i>today</i>”.").waitFor();
  await outcome(page).getByText("Your draft").waitFor();
  await page.getByLabel("Place").selectOption({ label: "In place of No wallets <i>today</i>" });
  assert.equal(await page.getByLabel("Effect").inputValue(), "EFFECT_DENY");
  await page.getByLabel("Effect").selectOption("EFFECT_ALLOW");
  await evaluate();
  await outcome(page).getByText("Allowed by the policy “Your draft”.").waitFor();
  await picture(page, "try-draft");
  await page.locator("textarea[name=condition]").fill("activity.kindd == 'CREATE_WALLET'");
  await page.getByRole("button", { name: "Evaluate" }).click();
  await page.waitForFunction(() => document.activeElement.name === "condition" && document.activeElement.getAttribute("aria-invalid") === "true");
  const { policies } = await root.query("list_policies");
  assert.deepEqual(policies.map((p) => [p.policyName, p.effect]), [["No wallets <i>today</i>", "EFFECT_DENY"]], "a test has saved something");
});

test("from a refusal to a policy that allows just that", async () => {
  await page.goto(`${base}#/activities/${refused.id}`);
  await page.getByRole("link", { name: "what would allow just this" }).click();
  await page.getByRole("heading", { name: "Test a request" }).waitFor();
  await page.getByLabel("Submitted by").waitFor();
  assert.equal(await page.getByLabel("Submitted by").inputValue(), agent.userId);
  assert.equal(await page.getByLabel("Parameters (JSON)").count(), 0);
  await outcome(page).getByText("Refused because no policy allows it.").waitFor();
  await advised(page).getByText(`0x${recipient}`).first().waitFor();
  await advised(page).getByText("0.01 ETH").first().waitFor();
  await picture(page, "try-suggestion");
  await page.getByRole("button", { name: "Test with this policy" }).click();
  await outcome(page).getByText("Allowed by the policy “Your draft”.").waitFor();
  await page.getByRole("link", { name: "Make this policy" }).count().then((n) => assert.equal(n, 0, "nothing is refused any more"));
  await page.getByLabel("Evaluate this policy too").uncheck();
  await evaluate();
  await page.getByRole("link", { name: "Make this policy" }).click();
  await page.getByRole("heading", { name: "New policy" }).waitFor();
  assert.match(await page.locator("textarea[name=condition]").inputValue(), new RegExp(`eth\\.tx\\.to == '0x${recipient}'`));
  await page.getByRole("button", { name: "Check", exact: true }).click();
  await page.getByRole("heading", { name: "What this policy does" }).waitFor();
  await picture(page, "try-checked");
  await page.getByRole("button", { name: "Put in force" }).click();
  await page.locator(".toast").first().waitFor();
  assert.equal((await sign(agent.client, transfer("01"))).status, 200);
  assert.equal((await sign(agent.client, transfer("02", "55".repeat(20)))).status, 403);
  assert.equal((await sign(agent.client, transfer("03", recipient, "2386f26fc10001"))).status, 403);
  assert.equal((await sign(agent.client, transfer("04", recipient, "1386f26fc10000"))).status, 200);
  assert.deepEqual(complaints, []);
});
