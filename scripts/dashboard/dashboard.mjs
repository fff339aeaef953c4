// Every flow of the dashboard, in the order in which an operator comes by them. One organization, two people.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { authenticator, choose, launch, open, picture, signIn as enter, sound } from "./browser.mjs";
import { Client } from "./client.mjs";
import { controls } from "./controls.mjs";
import { apiUrl, base, credentials, organizationId, root, rootUserId, scratch } from "./setting.mjs";
import { makeOpenKey } from "./stamp.mjs";

let browser, page, context, complaints, home;
before(async () => {
  home = (await root.query("whoami")).organizationName;
  browser = await launch();
  ({ page, context, complaints } = await open(browser));
});
after(() => browser.close());

const { heading, click, toast, dialog } = controls(() => page);
const go = async (hash, name, at = page) => {
  await at.goto(`${base}#/${hash}`);
  await heading(name, at);
  await at.waitForFunction(() => !document.querySelector("[aria-busy]")); // of several parts, each is waited for
};
// answered answers a query by itself; taken does an activity, once, and gives what was asked.
const answered = (operation, json) => page.route(`**/query/${operation}`, (route) => route.fulfill({ json }));
const taken = (operation) => new Promise((ok) => page.route(`**/submit/${operation}`, async (route) => {
  ok(JSON.parse(route.request().postData()));
  await route.fulfill({ json: { activity: { id: "1", status: "ACTIVITY_STATUS_COMPLETED", result: {} } } });
}, { times: 1 }));
const calm = () => { assert.deepEqual(complaints, []); };

// downloaded is the file that an action makes the browser save.
async function downloaded(act) {
  const [file] = await Promise.all([page.waitForEvent("download"), act()]);
  return { name: file.suggestedFilename(), text: readFileSync(await file.path(), "utf8") };
}

const signIn = (at, file, remember = false) => enter(at, base, file, { remember });

test("signing in refuses what is no key, and says why", async () => {
  await page.goto(base);
  await heading("Cloister");
  await picture(page, "sign-in-passkey");
  await page.getByText("API key", { exact: true }).click();
  const junk = join(scratch, "junk.json");
  writeFileSync(junk, `{"rootApiKey": 1}`);
  await page.setInputFiles("input[type=file]", junk);
  await page.getByText("This is not a credentials file").waitFor();
  const wrong = join(scratch, "wrong.json");
  for (const [key, message] of [
    [{ ...credentials.rootApiKey, privateKey: "11".repeat(32) }, "Public and private key do not belong together."],
    [{ publicKey: `02${"00".repeat(31)}01`, privateKey: "22".repeat(32) }, "The public key is not a point of the curve P-256."],
    [await makeOpenKey(), "This key does not belong to that organization. Check the organization id."],
  ]) {
    writeFileSync(wrong, JSON.stringify({ organizationId, rootApiKey: key }));
    await choose(page, wrong);
    await click("Sign in with the key");
    await page.locator("form :is(.alert, .error)", { hasText: message }).waitFor();
  }
  await picture(page, "sign-in-key");
  // What was refused is no longer shown once the form is another.
  const form = page.locator("form", { has: page.getByLabel("Credentials file") });
  await form.getByLabel("Organization id").fill("my organization");
  assert.equal(await form.locator("[role=alert]").textContent(), "");
  await click("Sign in with the key");
  await form.locator(".field .error", { hasText: "An organization id has 36 letters and digits" }).waitFor();
  assert.equal(await form.locator("[role=alert]").textContent(), "");
  await form.getByLabel("Organization id").fill("00000000-0000-4000-8000-000000000000");
  await click("Sign in with the key");
  await form.locator(".field .error", { hasText: "There is no organization with this id." }).waitFor();
  // The address of the server alone leads here.
  await page.goto(apiUrl);
  await page.waitForURL(base);
  calm();
});

test("an API key is kept only when asked, and cannot be read out", async () => {
  const kept = () => page.evaluate(() => new Promise((done) => {
    const request = indexedDB.open("cloister", 1);
    request.onsuccess = () => {
      const get = request.result.transaction("session").objectStore("session").get("current");
      get.onsuccess = async () => {
        const it = get.result;
        const out = it && (await Promise.all(["pkcs8", "jwk", "raw"].map((f) => crypto.subtle.exportKey(f, it.key).then(() => f, () => null))));
        request.result.close();
        done(it ? { extractable: it.key.extractable, out: out.filter(Boolean), usages: it.key.usages, text: JSON.stringify(it) } : null);
      };
    };
  }));
  await signIn(page, process.env.CLOISTER_CREDENTIALS);
  await heading(home);
  await page.reload();
  await heading("Cloister");
  await signIn(page, process.env.CLOISTER_CREDENTIALS, true);
  await heading(home);
  const it = await kept();
  assert.deepEqual({ ...it, text: "" }, { extractable: false, out: [], usages: ["sign"], text: "" });
  assert(!it.text.includes(credentials.rootApiKey.privateKey));
  const elsewhere = await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }) + document.documentElement.outerHTML);
  assert(!elsewhere.includes(credentials.rootApiKey.privateKey));
  await page.reload();
  await heading(home);
  await click("Sign out");
  await heading("Cloister");
  assert.equal(await kept(), null);
  await signIn(page, process.env.CLOISTER_CREDENTIALS, true);
  await heading("Latest activities");
  await picture(page, "overview-new");
  calm();
});

test("lists say when they are empty, loading, or cannot be had", async () => {
  await go("wallets", "Wallets");
  await page.getByText("There is no wallet yet.").waitFor();
  await go("policies", "Policies");
  await page.getByText("There is no policy").waitFor();
  await picture(page, "policies-empty");
  // A slow server: the request is held until the page has said so.
  let release;
  const held = new Promise((done) => { release = done; });
  await page.route("**/list_users", async (route) => { await held; await route.continue(); });
  await page.goto(`${base}#/users`);
  await page.getByText("Loading users…").waitFor();
  await picture(page, "users-loading");
  release();
  await page.getByRole("link", { name: "Root user" }).waitFor();
  await page.unroute("**/list_users");
  // No server at all.
  await context.setOffline(true);
  await page.evaluate(() => { location.hash = "#/wallets"; });
  await page.getByRole("alert").filter({ hasText: "The server cannot be reached." }).waitFor();
  await picture(page, "wallets-error");
  await context.setOffline(false);
  await click("Try again");
  await page.getByText("There is no wallet yet.").waitFor();
  // What is not there.
  await page.goto(`${base}#/users/00000000-0000-4000-8000-000000000000`);
  await page.getByRole("alert").filter({ hasText: "not found" }).waitFor();
  await heading("User");
  await picture(page, "user-absent");
  await go("nothing", "Page not found");
  calm();
});

test("features are turned on and off; the server's refusal stands beside the field", async () => {
  await go("settings", "Features");
  await click("Turn on: E-mail sign-in codes");
  await click("Turn on", dialog());
  await toast("Turned on: E-mail sign-in codes.");
  await click("Turn off: E-mail sign-in codes");
  await click("Turn off", dialog());
  await toast("Turned off: E-mail sign-in codes.");
  await click("Turn on: Passkey origins");
  await dialog().getByLabel("Origins").fill("https://app..example.com");
  await click("Save", dialog());
  await dialog().locator(".field .error", { hasText: /invalid origins/i }).waitFor();
  assert.equal(await dialog().locator(".alert").textContent(), ""); // said once
  assert.equal(await dialog().getByLabel("Origins").getAttribute("aria-invalid"), "true");
  await dialog().getByLabel("Origins").fill(new URL(base).origin);
  await click("Save", dialog());
  await toast("Saved: Passkey origins.");
  const { configs } = await root.query("get_organization_configs");
  assert.deepEqual(configs.features, [{ name: "FEATURE_NAME_WEBAUTHN_ORIGINS", value: new URL(base).origin }]);
  calm();
});

let ada; // a user with a key that was made in the browser
test("users are made, given keys, and deleted", async () => {
  await go("users", "Users");
  await click("New user");
  await dialog().getByLabel("Name").fill("Ada");
  await dialog().getByLabel("E-mail").fill("ada@example.com");
  await picture(page, "user-new");
  await click("Create user", dialog());
  await heading("API key of Ada");
  const [publicKey, privateKey, copied] = await dialog().locator("code").evaluateAll((all) => all.map((c) => c.title));
  ada = { organizationId, publicKey, privateKey };
  await dialog().getByText("Download this file now and pass it to Ada; it cannot be shown again. They sign in with it.").waitFor();
  await picture(page, "user-key");
  const file = await downloaded(() => page.keyboard.press("Enter")); // the download has the focus
  assert.equal(file.name, "credentials-Ada.json");
  assert.deepEqual(JSON.parse(file.text), { apiUrl, organizationId, publicKey, privateKey });
  assert.equal(file.text, copied);
  writeFileSync(join(scratch, "ada.json"), file.text);
  const { stdout } = await promisify(execFile)("bin/cloister-host", ["request", "-credentials", join(scratch, "ada.json"), "/public/v1/query/whoami", "{}"]);
  assert.equal(JSON.parse(stdout).username, "Ada");
  await click("Done", dialog());
  const client = new Client({ apiUrl, organizationId, publicKey, privateKey });
  ada.userId = (await client.query("whoami")).userId;
  ada.client = client;

  await click("New user");
  await dialog().getByLabel("Name").fill("Ada");
  await click("Create user", dialog());
  await dialog().locator(".field .error", { hasText: "There is a user with this name already." }).waitFor();
  await dialog().getByLabel("Name").fill("Bob");
  await dialog().getByLabel("Key pair").selectOption("paste");
  await dialog().getByLabel("Public key").fill("02ff");
  await click("Create user", dialog());
  await dialog().locator(".field .error", { hasText: /key/ }).waitFor();
  await dialog().getByLabel("Public key").fill((await makeOpenKey()).publicKey);
  await click("Create user", dialog());
  await toast("User Bob was created.");
  await page.getByRole("link", { name: "Bob" }).click();
  await heading("Bob");
  await click("Add API key");
  await dialog().getByLabel("Name").fill("laptop");
  await dialog().getByLabel("Key pair").selectOption("paste");
  await dialog().getByLabel("Public key").fill((await makeOpenKey()).publicKey);
  await dialog().getByLabel("Expires after (days)").fill("30");
  await click("Add key", dialog());
  await toast("The API key was added.");
  await page.getByRole("cell", { name: "laptop", exact: true }).waitFor();
  await picture(page, "user");
  await click("Delete the API key laptop");
  await click("Delete", dialog());
  await page.getByRole("cell", { name: "laptop", exact: true }).waitFor({ state: "detached" });
  await click("Delete user");
  await picture(page, "user-delete");
  await page.keyboard.press("Escape");
  await dialog().waitFor({ state: "detached" });
  await click("Delete user");
  await click("Delete user", dialog());
  await heading("Users");
  await toast("User Bob was deleted.");
  await page.getByRole("link", { name: "Bob" }).waitFor({ state: "detached" });
  await picture(page, "users");
  calm();
});

test("a passkey is added, signs in with one touch, and its session ends at signing out", async () => {
  const { cdp, authenticatorId } = await authenticator(page);
  await go(`users/${rootUserId}`, "Root user");
  await cdp.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified: false });
  await cdp.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified: true });
  await click("Add a passkey");
  await dialog().getByLabel("Name").fill("Laptop");
  await click("Add passkey", dialog());
  await toast("The passkey was added.");
  await page.getByRole("cell", { name: "Laptop", exact: true }).waitFor();
  await picture(page, "user-me");
  await click("Sign out");
  await heading("Cloister");
  await page.locator(".organization", { hasText: organizationId }).getByText(home).waitFor();

  const stamps = [];
  page.on("request", (r) => { if (r.url().includes("/public/v1/")) stamps.push(...Object.keys(r.headers()).filter((n) => n.startsWith("x-stamp"))); });
  await page.getByLabel("Stay signed in when this page is closed").check();
  await click("Sign in with a passkey");
  await heading(home);
  await page.getByText("Signed in with a passkey").waitFor();
  await page.reload();
  await heading(home);
  assert.equal(stamps.filter((s) => s === "x-stamp-webauthn").length, 1);
  assert(stamps.filter((s) => s === "x-stamp").length >= 5);

  const keys = async () => (await root.query("get_api_keys", { userId: rootUserId })).apiKeys;
  assert.equal((await keys()).length, 2);
  await click("Sign out");
  await heading("Cloister");
  assert.equal((await keys()).length, 1);

  await page.goto(`${base}#/signin?organization=00000000-0000-4000-8000-000000000000`);
  await click("Sign in with a passkey");
  await page.getByRole("alert").filter({ hasText: "There is no organization with this id." }).waitFor();
  await page.goto(`${base}#/signin?organization=${organizationId}`);
  await page.locator(".organization", { hasText: organizationId }).waitFor();

  // Nobody touches it, and then the wrong one is touched.
  await cdp.send("WebAuthn.clearCredentials", { authenticatorId });
  await click("Sign in with a passkey");
  await page.getByRole("alert").filter({ hasText: "The passkey was not used" }).waitFor();
  await signIn(page, process.env.CLOISTER_CREDENTIALS, true);
  await go(`users/${rootUserId}`, "Root user");
  await click("Delete the passkey Laptop");
  await click("Delete", dialog());
  await page.getByText("No passkeys.").waitFor();
  calm();
});

test("a page without a host name says where passkeys work", async () => {
  const other = await open(browser);
  await other.page.goto(`${apiUrl.replace("localhost", "127.0.0.1")}/dashboard/`);
  await other.page.getByText("Passkey", { exact: true }).click();
  await other.page.getByText("Passkeys need a host name").waitFor();
  assert.equal(await other.page.getByRole("link", { name: base }).getAttribute("href"), base);
  assert.deepEqual(other.complaints, []);
  await other.context.close();
});

test("wallets are made with chosen chains; addresses are copied; long lists come by pages", async () => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await go("wallets", "Wallets");
  await click("Create the first wallet");
  await dialog().getByLabel("Name").fill("Treasury");
  for (const name of await dialog().getByRole("checkbox").all()) await name.uncheck();
  await click("Create wallet", dialog());
  await dialog().getByRole("alert").filter({ hasText: "Choose at least one account." }).waitFor();
  for (const name of await dialog().getByRole("checkbox").all()) await name.check();
  await dialog().getByLabel("Words").selectOption("24");
  await picture(page, "wallet-new");
  await click("Create wallet", dialog());
  await heading("Treasury");
  await page.locator("tbody tr").nth(13).waitFor();
  await picture(page, "wallet");
  const walletId = page.url().split("/").at(-1);
  const { accounts } = await root.query("list_wallet_accounts", { walletId, paginationOptions: { limit: "100" } });
  assert.equal(accounts.length, 14);
  const ethereum = accounts.find((a) => a.addressFormat === "ADDRESS_FORMAT_ETHEREUM");
  await click("Copy address of Ethereum");
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), ethereum.address);

  // Without a node it is said that there is none. Balances are said to be the node's word; only networks with a node can be chosen.
  await click("Balances of Ethereum m/44'/60'/0'/0/0");
  await dialog().getByText("This server has no node for Ethereum or another network of this address").waitFor();
  await picture(page, "wallet-no-node");
  await click("Done", dialog());
  await page.reload();
  await heading("Treasury");
  await page.route("**/list_supported_assets", (route) => (route.request().postDataJSON().caip2 === "eip155:8453" ? route.fulfill({ json: { assets: [] } }) : route.continue()));
  await click("Balances of Ethereum m/44'/60'/0'/0/0");
  await dialog().getByLabel("Network").waitFor();
  assert.deepEqual(await dialog().getByLabel("Network").locator("option").allInnerTexts(), ["Base"]);
  await page.route("**/get_wallet_address_balances", (route) => {
    assert.deepEqual([route.request().postDataJSON().address, route.request().postDataJSON().caip2], [ethereum.address, "eip155:8453"]);
    return route.fulfill({ json: { balances: [{ caip19: "eip155:8453/slip44:60", symbol: "ETH", name: "<b>Ether</b>", decimals: 18, balance: "1500000000000000000", display: { crypto: "1.5" } }] } });
  });
  await dialog().getByLabel("Network").selectOption("Base");
  await click("Show balances", dialog());
  await page.getByText("As reported by your node for Base, unverified.").waitFor();
  await page.getByRole("cell", { name: "1.5" }).waitFor();
  await page.getByText("<b>Ether</b>").waitFor();
  await picture(page, "wallet-balances");
  await click("Done");
  await page.unroute("**/get_wallet_address_balances");

  await click("Add accounts");
  await dialog().getByLabel("Solana").check();
  await dialog().getByLabel("Number").fill("7");
  await click("Add accounts", dialog());
  await page.getByRole("cell", { name: "m/44'/501'/7'/0'", exact: true }).waitFor();
  await root.submit("create_wallet_accounts", "CREATE_WALLET_ACCOUNTS", {
    walletId, accounts: Array.from({ length: 45 }, (_, i) => ({ curve: "CURVE_SECP256K1", pathFormat: "PATH_FORMAT_BIP32", path: `m/44'/60'/1'/0/${i}`, addressFormat: "ADDRESS_FORMAT_ETHEREUM" })),
  });
  await page.reload();
  await heading("Treasury");
  await click("Show more");
  await page.locator("tbody tr").nth(59).waitFor();
  assert.equal(await page.locator("tbody tr").count(), 60);
  assert.equal(new Set(await page.locator("tbody tr code[title]").evaluateAll((all) => all.map((c) => c.title))).size, 60);
  await go("wallets", "Wallets");
  await picture(page, "wallets");
  calm();
});

test("secrets are listed with their properties, by pages", async () => {
  await go("secrets", "Secrets");
  await page.getByText("There is no secret yet.").waitFor();
  // The answers are made here: encrypting a secret takes a client's library.
  const all = Array.from({ length: 51 }, (_, i) => ({
    secretId: `019${String(i).padStart(5, "0")}-0000-7000-8000-000000000000`, ...(i % 2 === 0 && { name: `Secret ${i}` }), createdAtUnixMs: "1700000000000",
    staticProperties: i === 0 ? [{ key: "env", value: "<b>prod</b>" }] : [],
  }));
  await page.route("**/list_secrets", async (route) => {
    const { limit, after } = JSON.parse(route.request().postData()).paginationOptions;
    const from = all.findIndex((s) => s.secretId === after) + 1;
    await route.fulfill({ json: { secrets: all.slice(from, from + Number(limit)) } });
  });
  await page.reload();
  await page.getByText("env = <b>prod</b>").waitFor();
  await picture(page, "secrets");
  await click("Show more");
  await page.getByText("Secret 50").waitFor();
  assert.equal(await page.locator("tbody tr").count(), 51);
  assert.equal(await page.getByRole("button", { name: "Show more" }).count(), 0);
  const deleted = taken("delete_secrets");
  await click("Delete Secret 0");
  await dialog().getByText("cannot be brought back").waitFor();
  await click("Delete", dialog());
  await toast("The secret was deleted.");
  assert.deepEqual((await deleted).parameters, { secretIds: [all[0].secretId] });
  await page.unroute("**/list_secrets");
  calm();
});

test("policies are made, refused with the reason in place, edited, tried and deleted", async () => {
  const text = (label) => page.getByLabel(label).first();
  const does = page.getByRole("region", { name: "What this policy does" });
  const newPolicy = async () => {
    await go("policies", "Policies");
    await page.getByRole("link", { name: "New policy" }).click();
    await page.getByRole("link", { name: "Write it yourself" }).click();
  };
  await newPolicy();
  await text("Name").fill("Two for wallets");
  await text("Condition").fill("activity.resource == 'WALLET' &&");
  await click("Check");
  await page.locator(".field .error", { hasText: "Unexpected end" }).waitFor();
  assert(await text("Condition").evaluate((n) => n === document.activeElement));
  await text("Condition").fill("activity.resource == 'WALLET' && activity.action == 'CREATE'");
  await text("Consensus").fill("approvers.count() >= 2");
  await text("Notes").fill("Wallets need a second pair of eyes.");
  await click("Check");
  await does.locator(".warning", { hasText: "enough of the root quorum, which decides without any policy" }).waitFor();
  await picture(page, "policy-warned");
  await click("Put in force");
  await toast(`Policy “Two for wallets” is in force.`);
  await page.getByRole("link", { name: "Edit Two for wallets" }).click();
  await heading("Edit Two for wallets");
  await text("Consensus").fill(`approvers.any(user, user.id == '${ada.userId}') && approvers.count() >= 2`);
  await click("Check");
  await does.locator(".warning", { hasText: "enough of the root quorum" }).waitFor();
  await click("Put in force");
  await toast(`Policy “Two for wallets” was changed.`);
  await page.getByText("Ada approves").first().waitFor();
  await page.getByText("Expressions", { exact: true }).click();
  await page.locator("code", { hasText: `user.id == '${ada.userId}'` }).waitFor();

  await newPolicy();
  await text("Name").fill("No exports");
  await text("Effect").selectOption("EFFECT_DENY");
  await text("Condition").fill("activity.action == 'EXPORT'");
  await click("Check");
  await click("Put in force");
  await heading("No exports");
  await picture(page, "policies");

  await page.getByRole("link", { name: "Test a request" }).click();
  await heading("Test a request");
  await page.getByText("The same as JSON").click();
  await page.getByLabel("Parameters (JSON)").fill("{");
  await click("Evaluate");
  await page.locator(".field .error", { hasText: "The parameters are not valid JSON" }).waitFor();
  await page.getByLabel("Parameters (JSON)").fill(`{"walletName":"Trial","accounts":[]}`);
  await click("Evaluate");
  await page.getByText("Allowed because you are in the root quorum; policies were not evaluated.").waitFor();
  await picture(page, "policies-try");

  await go("policies", "Policies");
  await click("Delete No exports");
  await click("Delete", dialog());
  await toast(`Policy “No exports” was deleted.`);
  assert.deepEqual((await root.query("list_policies")).policies.map((p) => [p.policyName, p.effect]), [["Two for wallets", "EFFECT_ALLOW"]]);
  calm();
});

test("what waits for approval is approved and rejected, by people who see what they approve", async () => {
  const theirs = await open(browser);
  await signIn(theirs.page, join(scratch, "ada.json"));
  await heading(home, theirs.page);
  for (const name of ["Good", "Bad"]) {
    await go("wallets", "Wallets", theirs.page);
    await click("New wallet", theirs.page);
    await dialog(theirs.page).getByLabel("Name").fill(name);
    await click("Create wallet", dialog(theirs.page));
    await toast("Others must approve this first.", theirs.page);
  }
  // A user of no power sees who may.
  await go("users", "Users", theirs.page);
  await theirs.page.getByText("New user: only the root quorum can do this, and users whom a policy allows to.").waitFor();
  await theirs.page.getByRole("button", { name: "New user", exact: true }).click({ force: true });
  assert.equal(await dialog(theirs.page).count(), 0);
  // What policies would decide is told to them as it is.
  await go("policies/try", "Test a request", theirs.page);
  await click("Evaluate", theirs.page);
  await theirs.page.getByText("The request would wait until others approve it, as “Two for wallets” asks for.").waitFor();
  await theirs.page.getByRole("cell", { name: "Two for wallets" }).waitFor();
  await theirs.page.locator("select[name=type]").selectOption({ label: "Change the root quorum" });
  await theirs.page.getByLabel("Parameters (JSON)").fill(JSON.stringify({ threshold: 1, userIds: [ada.userId] }));
  await click("Evaluate", theirs.page);
  await theirs.page.getByText("Refused because only the root quorum can do this").waitFor();
  assert.deepEqual(theirs.complaints, []);
  await theirs.context.close();

  await go("overview", "Latest activities");
  await picture(page, "overview");
  await page.getByRole("link", { name: "2 requests to approve", exact: true }).click();
  await page.getByRole("link", { name: "Create wallet: “Good”" }).click();
  await heading("Create wallet");
  await page.locator(".headline", { hasText: "Create wallet: “Good”" }).waitFor();
  await page.getByText("The request as it was sent").click();
  await page.locator("pre", { hasText: `"walletName": "Good"` }).waitFor();
  await picture(page, "activity-waiting");
  await page.locator(".end-of-view").scrollIntoViewIfNeeded();
  await click("Approve");
  // The next that waits comes by itself, and says what was approved.
  await page.locator(".headline", { hasText: "Create wallet: “Bad”" }).waitFor();
  await page.getByText("Approved: Create wallet: “Good”. See it. Next: 1 of 1.").getByRole("link", { name: "See it" }).click();
  await page.getByText("Completed").first().waitFor();
  await heading("Result");
  await picture(page, "activity");

  await go("activities?status=CONSENSUS_NEEDED", "Activities");
  await page.getByRole("link", { name: "Create wallet" }).click();
  await page.locator(".headline", { hasText: "Create wallet: “Bad”" }).waitFor();
  await click("Reject");
  await click("Reject", dialog());
  await toast(/^Rejected: /);
  await page.locator("dd", { hasText: "Rejected" }).waitFor();
  const { wallets } = await root.query("list_wallets");
  assert.deepEqual(wallets.map((w) => w.walletName).sort(), ["Good", "Treasury"]);
  calm();
});

test("typed data: what its types do not name is shown as not signed", async () => {
  const { wallets } = await root.query("list_wallets");
  const { accounts } = await root.query("list_wallet_accounts", { walletId: wallets.find((w) => w.walletName === "Treasury").walletId, paginationOptions: { limit: "100" } });
  const ethereum = accounts.find((a) => a.addressFormat === "ADDRESS_FORMAT_ETHEREUM");
  const order = { types: { Order: [{ name: "legs", type: "Leg[]" }], Leg: [{ name: "size", type: "uint256" }] }, primaryType: "Order", domain: { name: "Exchange" },
    message: { legs: [{ size: "1" }, { size: "2", note: "nobody signs this" }], signatureChainId: "0xa4b1" }, app: "Exchange" };
  const sign = (payload) => root.submit("sign_raw_payload", "SIGN_RAW_PAYLOAD_V2", { signWith: ethereum.address, payload: JSON.stringify(payload), encoding: "PAYLOAD_ENCODING_EIP712", hashFunction: "HASH_FUNCTION_NO_OP" });
  await go(`activities/${(await sign(order)).id}`, "Sign typed data");
  const note = page.getByRole("note").filter({ hasText: "Not signed" });
  await note.waitFor();
  assert.deepEqual(await note.locator("li").allInnerTexts(), ["app", "message.legs.1.note", "message.signatureChainId"]);
  await picture(page, "activity-unsigned");
  order.message = { legs: [] };
  delete order.app;
  await go(`activities/${(await sign(order)).id}`, "Sign typed data");
  await page.getByRole("heading", { name: "Result", exact: true }).waitFor();
  assert.equal(await note.count(), 0);
  calm();
});

test("activities are filtered by address and by choice, and come by pages", async () => {
  for (let i = 0; i < 12; i++) {
    await root.submit("set_organization_feature", "SET_ORGANIZATION_FEATURE", { name: "FEATURE_NAME_SMS_AUTH", value: "" });
    await root.submit("remove_organization_feature", "REMOVE_ORGANIZATION_FEATURE", { name: "FEATURE_NAME_SMS_AUTH" });
  }
  await go("activities", "Activities");
  assert.equal(await page.locator("tbody tr").count(), 25);
  await click("Show older");
  await page.locator("tbody tr").nth(30).waitFor();
  const ids = await page.locator("tbody tr code[title]").evaluateAll((all) => all.map((c) => c.title));
  assert.equal(new Set(ids).size, ids.length);
  await picture(page, "activities");
  await page.getByLabel("All statuses").selectOption("REJECTED");
  await page.waitForURL(/status=REJECTED/);
  await page.getByRole("link", { name: "Create a wallet" }).waitFor();
  assert.equal(await page.locator("tbody tr").count(), 1);
  await page.getByLabel("All types").selectOption("CREATE_USERS");
  await page.getByText("No activity matches.").waitFor();
  await page.getByRole("link", { name: "Clear" }).click();
  await page.locator("tbody tr").nth(20).waitFor();
  await page.goBack();
  await page.getByText("No activity matches.").waitFor();
  calm();
});

test("the root quorum is changed", async () => {
  await go("settings", "Root quorum");
  await click("Change quorum");
  await dialog().getByLabel("Ada").check();
  await dialog().getByLabel("Members who must agree").fill("3");
  await click("Change", dialog());
  await dialog().locator(".field .error", { hasText: /quorum/ }).waitFor();
  await dialog().getByLabel("Members who must agree").fill("1");
  await picture(page, "quorum");
  await click("Change", dialog());
  await toast("The root quorum was changed.");
  await page.getByText("1 of 2 must agree.").waitFor();
  await root.submit("update_root_quorum", "UPDATE_ROOT_QUORUM", { threshold: 1, userIds: [rootUserId] });
  calm();
});

test("everything can be reached and done by keyboard", async () => {
  await go("policies", "Policies");
  const active = () => page.evaluate(() => document.activeElement.innerText?.trim() || document.activeElement.getAttribute("aria-label") || document.activeElement.tagName);
  const tab = async (n = 1) => { for (let i = 0; i < n; i++) await page.keyboard.press("Tab"); return active(); };
  assert.equal(await active(), "Policies"); // the heading
  assert.equal(await tab(), "Export list");
  assert.equal(await tab(), "The language");
  assert.equal(await tab(), "Test a request");
  assert.equal(await tab(), "New policy");
  // A policy is made up to the press that puts it in force, and given up there.
  await page.keyboard.press("Enter");
  await heading("New policy");
  assert.equal(await active(), "New policy");
  await tab(9);
  assert((await active()).startsWith("Write it yourself"));
  await page.keyboard.press("Enter");
  await heading("New policy");
  await page.locator("[name=policyName]").waitFor();
  const name = () => page.evaluate(() => document.activeElement.name);
  assert.equal(await tab(), "The language");
  await tab();
  assert.equal(await name(), "policyName");
  await page.keyboard.type("By keyboard");
  await tab(3);
  assert.equal(await name(), "consensus");
  await page.keyboard.insertText("approvers.count() >= 2");
  await tab(2);
  assert.equal(await name(), "notes");
  await tab(2);
  assert.equal(await active(), "Check");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.activeElement.innerText === "What this policy does");
  await page.keyboard.press("Enter"); // does nothing: the press that puts it in force is a step away
  while ((await tab()) !== "Back to editing") assert.notEqual(await active(), "Put in force");
  assert.equal(await tab(), "Put in force");
  await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("Enter");
  assert.equal(await name(), "policyName");
  await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("Shift+Tab");
  assert.equal(await active(), "Tasks");
  await page.keyboard.press("Enter");
  await dialog().waitFor();
  assert.equal(await active(), "Stay");
  await page.keyboard.press("Tab");
  assert.equal(await active(), "Leave");
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: "Write it yourself" }).waitFor();
  assert.equal((await root.query("list_policies")).policies.length, 1);

  await go("users", "Users");
  while ((await tab()) !== "New user") assert.notEqual(await active(), "BODY");
  await page.keyboard.press("Enter");
  await dialog().waitFor();
  assert.equal(await name(), "userName");
  // The focus stays in the dialog, all the way round.
  for (let i = 0; i < 14; i++) {
    await tab();
    assert(await page.evaluate(() => document.activeElement === document.body || document.activeElement.closest("dialog") !== null), "the focus left the dialog");
  }
  await page.keyboard.press("Escape");
  assert.equal(await active(), "New user");

  // Backwards from the heading: the whole frame, up to the link that skips it.
  await go("policies", "Policies");
  await page.reload();
  await heading("Policies");
  assert.equal(await active(), "Policies");
  const order = [];
  while (order[0] !== "Skip to content" && order.length < 25) {
    await page.keyboard.press("Shift+Tab");
    order.unshift((await active()).replace(/\s+/g, " "));
  }
  assert.deepEqual(order, ["Skip to content", home, "Find", "Overview", "Approvals", "Activities", "Users", "Sub-organizations", "Wallets", "Private keys", "Address book", "Secrets", "Policies", "Webhooks", "Auth", "Programs", "Billing", "Settings", "Verify (opens a new tab)", "Theme: Same as system", "Sign out"]);
  assert.equal(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), "solid");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  assert.equal(new URL(page.url()).hash, "#/policies");
  // What was done leaves the focus in the page, not before it.
  await go("settings", "Features");
  await page.getByRole("button", { name: "Turn on: SMS sign-in codes" }).press("Enter");
  await dialog().getByRole("button", { name: "Turn on", exact: true }).press("Enter");
  await page.getByRole("button", { name: "Turn off: SMS sign-in codes" }).waitFor();
  await page.waitForFunction(() => document.activeElement.matches("h1"));
  await root.submit("remove_organization_feature", "REMOVE_ORGANIZATION_FEATURE", { name: "FEATURE_NAME_SMS_AUTH" });
  await go("policies", "Policies");
  // The menu of a phone.
  await page.setViewportSize({ width: 390, height: 844 });
  await page.getByRole("button", { name: "Menu" }).focus();
  await page.keyboard.press("Enter");
  assert.equal(await page.getByRole("button", { name: "Menu" }).getAttribute("aria-expanded"), "true");
  await picture(page, "menu");
  await page.setViewportSize({ width: 390, height: 844 });
  await page.keyboard.press("Escape");
  assert.equal(await page.getByRole("link", { name: "Users", exact: true }).isVisible(), false);
  await page.getByRole("button", { name: "Menu" }).press("Enter");
  await page.getByRole("link", { name: "Users", exact: true }).press("Enter");
  await heading("Users");
  assert.equal(await active(), "Users");
  await page.setViewportSize({ width: 1280, height: 860 });
  calm();
});

test("the theme follows the system until somebody chooses", async () => {
  await page.emulateMedia({ colorScheme: "light" });
  await go("users", "Users");
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const light = await ground();
  await page.emulateMedia({ colorScheme: "dark" });
  const dark = await ground();
  assert.notEqual(light, dark);
  await page.getByRole("button", { name: "Theme: Same as system" }).click();
  assert.equal(await ground(), light);
  await page.getByRole("button", { name: "Theme: Light" }).click();
  await page.emulateMedia({ colorScheme: "light" });
  await page.reload();
  await heading("Users");
  assert.equal(await ground(), dark);
  await page.getByRole("button", { name: "Theme: Dark" }).click();
  assert.equal(await ground(), light);
  calm();
});

test("whoever is no longer known is signed out and told so", async () => {
  const theirs = await open(browser);
  await signIn(theirs.page, join(scratch, "ada.json"), true);
  await heading("Latest activities", theirs.page);
  const [{ apiKeyId }] = (await root.query("get_api_keys", { userId: ada.userId })).apiKeys;
  await root.submit("delete_api_keys", "DELETE_API_KEYS", { userId: ada.userId, apiKeyIds: [apiKeyId] });
  await theirs.page.evaluate(() => { location.hash = "#/users"; });
  await toast("This key is no longer valid", theirs.page);
  await heading("Cloister", theirs.page);
  await theirs.page.reload();
  await heading("Cloister", theirs.page);
  assert.deepEqual(theirs.complaints, []);
  await theirs.context.close();
});

test("the auth proxy is turned on, set up with previews, and turned off", async () => {
  await go("auth", "Auth");
  await page.getByText("The auth proxy is off").waitFor();
  await picture(page, "auth-off");
  await click("Turn on");
  await dialog().getByText("Without an origin, every web page may call it").waitFor();
  await dialog().getByLabel("Allowed origins").fill("https://app.example.com/");
  assert.equal(await dialog().getByText("every web page").count(), 0);
  await click("Turn on", dialog());
  await dialog().locator(".field .error", { hasText: "Leave out the slash" }).waitFor();
  await picture(page, "auth-turn-on");
  await dialog().getByLabel("Allowed origins").fill("https://app.example.com");
  await click("Turn on", dialog());
  await toast("The auth proxy is on.");
  await heading("Sign-in codes");
  assert.deepEqual((await root.query("get_auth_proxy_config")).authProxyConfig.allowedOrigins, ["https://app.example.com"]);
  const config = async () => (await root.query("get_auth_proxy_config")).authProxyConfig;
  const { configId } = await config();
  await page.locator("code", { hasText: configId }).waitFor();
  const part = (name) => page.getByRole("region", { name, exact: true });
  const save = async (at) => {
    const answered = page.waitForResponse("**/update_auth_proxy_config");
    await click("Save", at);
    await answered;
    await at.locator("form[aria-busy]").waitFor({ state: "detached" });
  };

  const who = part("Allowed callers");
  await who.getByLabel("Allowed origins").fill("https://app.example.com\nhttps://app.example.com/path");
  await click("Save", who);
  await who.locator(".field .error", { hasText: "Line 2, “https://app.example.com/path”: An origin has no path." }).waitFor();
  await who.getByLabel("Allowed origins").fill("https://app.example.com\nhttp://localhost:3000");
  await who.getByLabel("Wallet").uncheck();
  await save(who);
  await toast("Saved.");
  // What is not saved yet in another panel stays.
  await part("Sessions").getByLabel("Session length (seconds)").fill("3600");
  await part("Sign-in codes").getByLabel("Length").fill("6");
  await part("Sign-in codes").getByLabel("Characters").selectOption("false");
  await save(part("Sign-in codes"));
  await part("SMS").getByText(/is [0-9]{6}$/).waitFor();
  await part("Sessions").getByLabel("Account look-ups need").check();
  await save(part("Sessions"));
  await page.locator("[aria-busy]").waitFor({ state: "detached" });

  const mail = part("E-mail");
  await mail.getByLabel("Application name").fill("Kiosk <b>&</b> Co");
  await mail.getByLabel("Logo").fill("https://app.example.com/logo.png");
  await mail.getByLabel("Sender name").fill("Kiosk");
  await mail.getByLabel("Sign-in link").fill("https://app.example.com/in?code=%s");
  await mail.getByText("Sign in to Kiosk <b>&</b> Co").waitFor();
  const frame = mail.frameLocator("iframe");
  await frame.getByText("Your code for Kiosk <b>&</b> Co is").waitFor();
  await frame.getByText("704519", { exact: true }).waitFor();
  await picture(page, "auth-mail", mail);
  await picture(page, "auth-preview", mail.locator("iframe")); // a frame is not painted where it lies beyond the viewport
  await save(mail);
  await toast("Saved.");
  await page.locator("[aria-busy]").waitFor({ state: "detached" });
  const sms = part("SMS");
  await sms.getByLabel("Template").fill("Your number.");
  await sms.getByText("The code is missing").waitFor();
  await save(sms);
  await sms.locator(".field .error", { hasText: "OtpCode" }).waitFor();
  await sms.getByLabel("Template").fill("{{ .OtpCode }} opens {{ .AppName }}");
  await sms.getByText("704519 opens Kiosk <b>&</b> Co").waitFor();
  await save(sms);
  await page.locator("[aria-busy]").waitFor({ state: "detached" });
  const social = part("Social sign-in");
  await social.getByLabel("Google", { exact: true }).check();
  await social.getByLabel("Google client id").fill("1234.apps.example.com");
  await social.getByLabel("Redirect URL").fill("https://app.example.com/back");
  await social.getByLabel("Client ids for linking").fill("1234.apps.example.com");
  await save(social);
  await page.locator("[aria-busy]").waitFor({ state: "detached" });
  await picture(page, "auth");

  const now = await config();
  assert.deepEqual({
    origins: now.allowedOrigins, methods: now.allowedAuthMethods, length: now.otpLength, letters: now.otpAlphanumeric, session: now.sessionExpirationSeconds,
    token: now.verificationTokenRequiredForGetAccountPii, sender: now.sendFromEmailSenderName, mail: now.emailCustomizationParams, sms: now.smsCustomizationParams,
    kit: now.walletKitSettings, linking: now.socialLinkingClientIds,
  }, {
    origins: ["https://app.example.com", "http://localhost:3000"], methods: ["email", "sms", "passkey", "social"], length: 6, letters: false, session: 3600,
    token: true, sender: "Kiosk", mail: { appName: "Kiosk <b>&</b> Co", logoUrl: "https://app.example.com/logo.png", magicLinkTemplate: "https://app.example.com/in?code=%s" },
    sms: { template: "{{ .OtpCode }} opens {{ .AppName }}" },
    kit: { enabledSocialProviders: ["google"], oauthClientIds: { google: "1234.apps.example.com" }, oauthRedirectUrl: "https://app.example.com/back" }, linking: ["1234.apps.example.com"],
  });
  await click("Turn off");
  await click("Turn off", dialog());
  await toast("The auth proxy is off.");
  await page.getByText("The auth proxy is off").first().waitFor();
  calm();
});

test("webhooks are made, changed and deleted", async () => {
  await go("webhooks", "Webhooks");
  await click("Create the first webhook");
  await dialog().getByLabel("Name").fill("Books");
  await dialog().getByText("Must be https").waitFor();
  await dialog().getByText("-webhook-loopback").waitFor();
  await dialog().getByLabel("URL").fill("http://hooks.example.com/hook");
  await click("Create webhook", dialog());
  await dialog().locator(".field .error", { hasText: "must be https, without user and fragment. A simulator that was started with -webhook-loopback" }).waitFor();
  await dialog().getByLabel("URL").fill("https://10.0.0.1/hook");
  await click("Create webhook", dialog());
  await dialog().locator(".field .error", { hasText: "not public" }).waitFor();
  await picture(page, "webhook-new");
  await dialog().getByLabel("URL").fill("https://hooks.example.com/cloister");
  // Every event that is offered is one that the server takes; an operation that it does not have is told as that.
  for (const event of await dialog().getByRole("checkbox").all()) await event.check();
  assert.deepEqual(await dialog().getByRole("checkbox").evaluateAll((all) => all.map((c) => c.value)), ["ACTIVITY_UPDATES"]);
  await page.route("**/create_webhook_endpoint", (route) => route.fulfill({ status: 501, json: { code: 12, message: "UNIMPLEMENTED: create_webhook_endpoint" } }));
  await click("Create webhook", dialog());
  await dialog().getByRole("alert").filter({ hasText: "Not available on this server: create_webhook_endpoint" }).waitFor();
  await page.unroute("**/create_webhook_endpoint");
  await click("Create webhook", dialog());
  await toast("Webhook Books was created.");
  await click("Edit Books");
  await dialog().getByLabel("Name").fill("Ledger");
  await dialog().getByLabel("Active").uncheck();
  await click("Save", dialog());
  await page.getByText("Paused").waitFor();
  await picture(page, "webhooks");
  const { webhookEndpoints } = await root.query("list_webhook_endpoints");
  assert.deepEqual(webhookEndpoints.map((e) => [e.name, e.url, e.isActive, e.subscriptions.map((s) => s.eventType)]), [["Ledger", "https://hooks.example.com/cloister", false, ["ACTIVITY_UPDATES"]]]);
  await click("Delete Ledger");
  await click("Delete", dialog());
  await page.getByText("There is no webhook yet.").waitFor();
  calm();
});

test("billing: plan, sponsored gas and on-ramps", async () => {
  await go("billing", "Billing");
  await page.getByText("not counted: this server has no plans").waitFor();
  await page.getByText("There is no account at an on-ramp provider.").waitFor();
  await page.getByText("No transactions are sponsored yet.").waitFor();
  await click("Set limits");
  await dialog().getByLabel("Limit of all together").fill("-1");
  await dialog().getByLabel("Limit of each").fill("2.5");
  await click("Save", dialog());
  await dialog().locator(".field .error:not(:empty)").waitFor();
  await dialog().getByLabel("Limit of all together").fill("100");
  await dialog().getByLabel("Pay for new accounts on Solana").check();
  await click("Save", dialog());
  await toast("Saved.");
  await page.getByText("0 of 100 US dollars in 1440 minutes").waitFor();
  assert.deepEqual(await root.query("get_gas_usage").then(({ windowDurationMinutes, windowLimitUsd }) => [windowDurationMinutes, windowLimitUsd]), [1440, "100"]);
  assert.equal((await root.query("get_gas_station")).rentPrefundEnabled, true);
  await picture(page, "billing");

  // With plans, a payment method and an account at a provider, which this simulator does not have.
  const created = { seconds: "1700000000", nanos: "0" };
  await answered("get_billing", { plan: { id: "pro", name: "Pro <b>", needsPaymentMethod: true, price: {} }, period: { start: "1764547200000", end: "1767225600000" }, usage: { signatures: "40", leased: "3" },
    limits: { sponsorship: true, signaturesPerMonth: "100", requestsPerSecond: "20" }, paymentEmail: "pay@example.com", paymentMethod: { id: "pm_1", lastFour: "4242", cardHolderName: "A. Person" } });
  await answered("list_fiat_on_ramp_credentials", { fiatOnRampCredentials: [{ fiatOnrampCredentialId: "00000000-0000-4000-8000-000000000001", onrampProvider: "FIAT_ON_RAMP_PROVIDER_MOONPAY", publishableApiKey: "pk_1", sandboxMode: true, createdAt: created }] });
  await page.reload();
  await page.getByText("40 of 100", { exact: true }).waitFor();
  await page.getByText("card ending in 4242, A. Person").waitFor();
  await picture(page, "billing-plan");
  await click("Change plan");
  await dialog().getByLabel("Id of the plan").fill("gold");
  await click("Change plan", dialog());
  await dialog().locator(".alert p").waitFor(); // there is no such plan
  const tier = taken("activate_billing_tier");
  await click("Change plan", dialog());
  await toast("The plan was changed.");
  assert.deepEqual((await tier).parameters, { productId: "gold" });
  for (const [action, operation, type, parameters] of [
    ["Address for invoices", "update_payment_method", "UPDATE_PAYMENT_METHOD", { paymentEmail: "books@example.com" }],
    ["Delete payment method", "delete_payment_method", "DELETE_PAYMENT_METHOD", { paymentMethodId: "pm_1" }],
    ["Delete MoonPay sandbox", "delete_fiat_on_ramp_credential", "DELETE_FIAT_ON_RAMP_CREDENTIAL", { fiatOnrampCredentialId: "00000000-0000-4000-8000-000000000001" }],
  ]) {
    const asked = taken(operation);
    await click(action);
    if (parameters.paymentEmail) await dialog().getByLabel("Email").fill(parameters.paymentEmail);
    await click(parameters.paymentEmail ? "Save" : "Delete", dialog());
    const got = await asked;
    assert.deepEqual([got.type, got.parameters], [`ACTIVITY_TYPE_${type}`, parameters]);
    await dialog().waitFor({ state: "detached" });
    await page.locator("[aria-busy]").waitFor({ state: "detached" });
  }
  await page.unroute("**/query/get_billing");
  await page.unroute("**/query/list_fiat_on_ramp_credentials");
  calm();
});

test("programs: apps, deployments, and what operators with keys here do", async () => {
  await go("programs", "Programs");
  await page.getByText("There is no program yet.").waitFor();
  const hosted = await root.submit("create_tvc_operator", "CREATE_TVC_OPERATOR", { walletName: "Operators", path: "m/5527107'/0'/0'", operatorName: "Hosted" }).then((a) => a.result.createTvcOperatorResult);
  const other = await root.submit("create_tvc_operator", "CREATE_TVC_OPERATOR", { walletName: "Others", path: "m/5527107'/0'/0'", operatorName: "Other <b>" }).then((a) => a.result.createTvcOperatorResult);
  const key = await root.submit("create_tvc_quorum_key", "CREATE_TVC_QUORUM_KEY", { threshold: 2, operatorEncryptKeys: [hosted.encryptPublicKey, other.encryptPublicKey] }).then((a) => a.result.createTvcQuorumKeyResult);
  const set = { name: "Both", threshold: 2, newOperators: [], existingOperatorIds: [hosted.operatorId, other.operatorId] };
  const { appId } = await root.submit("create_tvc_app", "CREATE_TVC_APP", { name: "Co-signer", quorumPublicKey: key.quorumPublicKey, manifestSetParams: set, shareSetParams: set }).then((a) => a.result.createTvcAppResult);
  await page.reload();
  await page.getByText("Hosted, Other <b>").first().waitFor();
  await picture(page, "programs");
  await page.getByRole("link", { name: "Co-signer" }).click();
  await heading("Co-signer");
  await page.getByText("There is no deployment yet.").waitFor();

  // A deployment as the server has it once an image is at a registry and a machine runs it, which this simulator does not have.
  const { tvcApp } = await root.query("get_tvc_app", { tvcAppId: appId });
  const at = { seconds: "1700000000", nanos: "0" };
  const deployment = (more) => ({ id: "00000000-0000-4000-8000-00000000000a", appId, manifestSet: tvcApp.manifestSet, shareSet: tvcApp.shareSet, qosVersion: "cloister-1", delete: false, debugMode: false, createdAt: at, updatedAt: at,
    manifest: { id: "m", manifest: Buffer.from(`{"version":"v2","pivot":{"args":["<i>"]}}`).toString("base64") }, manifestApprovals: [{ id: "1", operator: tvcApp.manifestSet.operators[0], createdAt: at }],
    pivotContainer: { containerUrl: "registry.example.com/cosigner@sha256:00", path: "/cosigner", args: ["-limit", "100"], healthCheckType: "TVC_HEALTH_CHECK_TYPE_HTTP", healthCheckPort: 3000, publicIngressPort: 3000 }, ...more });
  const as = async (more, deployments = []) => {
    await page.unroute("**/query/list_tvc_app_deployments");
    await page.unroute("**/query/get_app_status");
    await answered("list_tvc_app_deployments", { tvcDeployments: [deployment(more)] });
    await answered("get_app_status", { appStatus: { appId, deployments, targetedDeploymentId: "" } });
    await page.reload();
    await page.locator("[aria-busy]").waitFor({ state: "detached" });
  };
  await as({});
  await page.getByText("1 of 2 approvals").waitFor();
  await picture(page, "program");
  const running = { deploymentId: deployment().id, readyReplicas: 0, desiredReplicas: 3, provisioningState: "PROVISIONING_STATE_AWAITING_PROVISION" };
  await page.getByRole("link", { name: "registry.example.com" }).click();
  await heading("Deployment");
  await as({}, [running]);
  await page.getByText("Waits for shares").waitFor();
  await page.getByText('"<i>"').waitFor();
  await picture(page, "deployment");
  await answered("get_tvc_deployment_provisioning_details", { attestationDocument: "AAAA", manifestEnvelope: "e30=", provisioningState: running.provisioningState });
  const given = taken("re_encrypt_tvc_quorum_key_share");
  await click("Give share of Hosted");
  await toast("The share of Hosted was given.");
  assert.deepEqual((await given).parameters, { attestationDocB64: "AAAA", manifestB64: "e30=", deploymentId: deployment().id, appQuorumKey: key.quorumPublicKey, operatorEncryptKey: hosted.encryptPublicKey, operatorSignKey: hosted.signPublicKey });
  await click("Give share of Other <b>"); // the server says that there is no such deployment
  await toast("not found");
  await as({}, [{ ...running, readyReplicas: 3, provisioningState: "PROVISIONING_STATE_PROVISIONED" }]);
  await page.getByText("3 of 3 running").waitFor();
  const live = taken("set_tvc_app_live_deployment");
  await click("Make live");
  await toast("It is the live deployment now.");
  assert.deepEqual((await live).parameters, { deploymentId: deployment().id });
  const gone = taken("delete_tvc_deployment");
  await click("Delete");
  await click("Delete", dialog());
  await gone;
  await as({ delete: true });
  const back = taken("restore_tvc_deployment");
  await click("Restore");
  await toast("The deployment was restored.");
  await back;
  for (const operation of ["list_tvc_app_deployments", "get_app_status", "get_tvc_deployment_provisioning_details"]) await page.unroute(`**/query/${operation}`);
  await go(`programs/${appId}`, "Co-signer");
  await click("Delete");
  await click("Delete", dialog());
  await page.getByText("There is no program yet.").waitFor();
  calm();
});
