// Charts, pictures of quorums, times and names, in an organization of its own: two members of the root quorum of whom both must agree, a
// wallet with an account of every address format, signatures, refusals, and a sub-organization.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, open, picture, sound, signIn as enter } from "./browser.mjs";
import { Client } from "./client.mjs";
import { apiUrl, base, organizationId, root, rootUserId } from "./setting.mjs";
import { makeOpenKey } from "./stamp.mjs";

let browser, page, complaints, home, bob, wallet, sub, waiting;

const bitcoin = ["MAINNET", "TESTNET", "SIGNET", "REGTEST"].flatMap((n) => ["P2PKH", "P2SH", "P2WPKH", "P2WSH", "P2TR"].map((k) => `BITCOIN_${n}_${k}`));
const secp = ["UNCOMPRESSED", "COMPRESSED", "ETHEREUM", "COSMOS", "TRON", "SEI", "XRP", "DOGE_MAINNET", "DOGE_TESTNET", ...bitcoin, "SPARK_MAINNET", "SPARK_REGTEST"];
const ed = ["SOLANA", "SUI", "APTOS", "XLM", "TON_V3R2", "TON_V4R2", "TON_V5R1"];
const accountOf = (curve, path) => (format, i) => ({ curve, pathFormat: "PATH_FORMAT_BIP32", path: path.replace("N", i), addressFormat: `ADDRESS_FORMAT_${format}` });
const every = [...secp.map(accountOf("CURVE_SECP256K1", "m/44'/60'/0'/0/N")), ...ed.map(accountOf("CURVE_ED25519", "m/44'/501'/N'/0'"))];
const apiKey = (publicKey) => ({ apiKeyName: "key", publicKey, curveType: "API_KEY_CURVE_P256" });
const message = (payload) => ({ signWith: wallet.addresses[2], payload, encoding: "PAYLOAD_ENCODING_TEXT_UTF8", hashFunction: "HASH_FUNCTION_KECCAK256" });

before(async () => {
  home = (await root.query("whoami")).organizationName;
  const { publicKey, privateKey } = await makeOpenKey();
  const made = await root.submit("create_users", "CREATE_USERS_V4", { users: [{ userName: "Bob", userEmail: "bob@example.com", apiKeys: [apiKey(publicKey)], authenticators: [], oauthProviders: [], userTags: [] }] });
  bob = { id: made.result.createUsersResult.userIds[0], client: new Client({ apiUrl, organizationId, publicKey, privateKey }) };
  wallet = (await root.submit("create_wallet", "CREATE_WALLET", { walletName: "Everything", accounts: every })).result.createWalletResult;
  await root.submit("create_wallet", "CREATE_WALLET", { walletName: "More", accounts: [0, 1, 2].map((i) => accountOf("CURVE_SECP256K1", "m/44'/60'/1'/0/N")("ETHEREUM", i)) });
  for (const text of ["one", "two", "three"]) await root.submit("sign_raw_payload", "SIGN_RAW_PAYLOAD_V2", message(text));
  const refused = await bob.client.send("/public/v1/submit/sign_raw_payload", { type: "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", timestampMs: String(Date.now()), parameters: message("no") });
  assert.notEqual(refused.status, 200);
  const theirs = await makeOpenKey();
  sub = (await root.submit("create_sub_organization", "CREATE_SUB_ORGANIZATION_V8", { subOrganizationName: "Customer", rootQuorumThreshold: 1, disableEmailRecovery: true, rootUsers: [{ userName: "Carol", apiKeys: [apiKey(theirs.publicKey)], authenticators: [], oauthProviders: [] }] })).result.createSubOrganizationResultV8.subOrganizationId;
  await root.submit("update_root_quorum", "UPDATE_ROOT_QUORUM", { threshold: 2, userIds: [rootUserId, bob.id] });
  waiting = await root.submit("create_policy", "CREATE_POLICY_V3", { policyName: "Signs", effect: "EFFECT_ALLOW", condition: "true", consensus: "true", notes: "" });
  assert.equal(waiting.status, "ACTIVITY_STATUS_CONSENSUS_NEEDED");
  await bob.client.submit("create_wallet", "CREATE_WALLET", { walletName: "Rainy days", accounts: [] });
  browser = await launch();
  ({ page, complaints } = await open(browser));
  await enter(page, base, process.env.CLOISTER_CREDENTIALS);
  await heading(home);
});

after(() => browser?.close());

const heading = (name) => page.getByRole("heading", { level: 1, name, exact: true }).waitFor();
const panelOf = (name) => page.locator(".panel").filter({ has: page.getByRole("heading", { name, exact: true }) });
const idle = () => page.waitForFunction(() => !document.querySelector("[aria-busy]"));

async function go(path, name) {
  await page.goto(`${base}#/${path}`);
  await heading(name);
  await idle();
}

function calm() {
  assert.deepEqual(complaints.splice(0), []);
}

const chart = (name) => page.locator("section", { has: page.getByRole("heading", { level: 3, name, exact: true }) }).last();
const hour = 3_600_000;

// charted answers the query of the charts with what a test makes of the times that were asked for.
async function charted(answer, act) {
  const asked = [];
  await page.route("**/get_activity_counts", (route) => {
    const request = route.request().postDataJSON();
    asked.push(request);
    const times = request.timesMs;
    const periods = times.slice(1).map((untilMs, i) => ({ fromMs: times[i], untilMs, counts: [] }));
    const response = [];
    answer(periods, response);
    return route.fulfill({ json: { periods, response } });
  });
  await act(asked);
  await page.unroute("**/get_activity_counts");
}

const count = (type, number, status = "COMPLETED") => ({ activityType: `ACTIVITY_TYPE_${type}`, activityStatus: `ACTIVITY_STATUS_${status}`, count: String(number) });

// busy fills periods with numbers of every kind, and the hours but one with answering times.
function busy(periods, response) {
  periods.forEach((p, i) => {
    if (i % 6 === 5) return;
    p.counts.push(count("SIGN_TRANSACTION_V2", (i * 7) % 23), count("SIGN_RAW_PAYLOAD_V2", (i * 3) % 11), count("SIGN_RAW_PAYLOAD", 1), count("SPARK_SIGN_FROST", i % 4), count("STAMP_LOGIN", (i * 5) % 9), count("OTP_LOGIN_V2", i % 3),
      count("OAUTH_LOGIN", i % 2), count("CREATE_READ_WRITE_SESSION_V2", i % 2), count("SIGN_TRANSACTION_V2", i % 5, "FAILED"), count("CREATE_POLICY_V3", i % 2, "REJECTED"), count("CREATE_WALLET", 1234), count("SIGN_TRANSACTION_V2", 7, "CONSENSUS_NEEDED"));
  });
  const now = Math.floor(Date.now() / hour) * hour;
  for (let i = 0; i < 24; i++) if (i !== 3) response.push({ fromMs: String(now - i * hour), count: String(1 + i * 40), medianMs: String(3 + (i % 5)), p95Ms: `${12.25 + i * 2}` });
}

test("charts show a month, by days of the reader", () => charted(busy, async (asked) => {
  await go("overview", home);
  await page.getByText("Nobody verifies the counts").waitFor();
  const times = asked[0].timesMs.map(Number);
  assert.equal(times.length, 31);
  const midnights = await page.evaluate((all) => all.map((t) => { const d = new Date(t); return d.getHours() + d.getMinutes() + d.getSeconds() + d.getMilliseconds(); }), times);
  assert.deepEqual([...new Set(midnights)], [0]);
  assert(times.at(-1) > Date.now() && times.at(-2) <= Date.now());
  await picture(page, "look-overview");
  assert.match(await chart("Signatures").locator(".chart-said").innerText(), /^\d+ signatures in the last 30 days$/);
  // What waits is no signature, and the versions of a type are one.
  const rows = page.getByRole("table", { name: "Signatures" }).locator("tbody tr");
  await chart("Signatures").getByText("Show as a table").click();
  assert.equal(await rows.count(), 30);
  assert.deepEqual(await rows.nth(27).locator("td").allInnerTexts().then((all) => all.slice(1)), ["14", "7", "2", "23"]);
  await chart("Signatures").getByText("Show as a table").click();
  calm();
}));

test("the keyboard walks over the bars, and a bar leads to its activities", () => charted(busy, async () => {
  await go("overview", home);
  const bars = chart("Signatures").locator(".column");
  assert.equal(await bars.evaluateAll((all) => all.filter((b) => b.tabIndex === 0).length), 1);
  await bars.last().focus();
  for (const key of ["Home", "ArrowRight", "ArrowRight", "ArrowLeft", "End", "ArrowRight", "ArrowLeft"]) await page.keyboard.press(key);
  assert.equal(await bars.evaluateAll((all) => all.indexOf(document.activeElement)), 28);
  const label = await bars.nth(28).getAttribute("aria-label");
  assert.match(label, /^[A-Z][a-z]+day,? \d+ [A-Z][a-z]+: \d+ signatures \(Transactions: /);
  assert.equal(await chart("Signatures").locator(".chart-said").innerText(), label);
  await picture(page, "look-bar", chart("Signatures"));
  await bars.nth(28).focus();
  await page.keyboard.press("Enter");
  await heading("Activities");
  const search = new URLSearchParams(new URL(page.url()).hash.split("?")[1]);
  assert.deepEqual([search.get("type"), search.get("status"), search.get("from") === search.get("to")], ["SIGNATURES", "COMPLETED", true]);
  assert.equal(await page.getByLabel("All types").evaluate((s) => s.selectedOptions[0].text), "All signatures");
  await page.goBack();
  await idle();
  // A bar of nothing leads nowhere.
  assert.equal(await bars.nth(5).getAttribute("href"), null);
  assert.match(await bars.nth(5).getAttribute("aria-label"), /: no signatures$/);
  await bars.nth(10).hover();
  assert.match(await chart("Signatures").locator(".chart-said").innerText(), /: \d+ signatures/);
  await page.getByRole("heading", { level: 1 }).hover();
  assert.match(await chart("Signatures").locator(".chart-said").innerText(), /in the last 30 days$/);
  calm();
}));

test("hours, weeks, and nothing at all", async () => {
  await charted(busy, async (asked) => {
    await go("overview", home);
    for (const [label, periods, name] of [["Last 24 hours", 24, "hours"], ["Last 7 days", 7, "week"], ["Last 90 days", 13, "quarter"]]) {
      await page.getByLabel("Time", { exact: true }).selectOption({ label });
      await page.waitForFunction(([n]) => document.querySelectorAll(".chart")[0]?.querySelectorAll(".column").length === n, [periods]);
      await idle();
      assert.equal(asked.at(-1).timesMs.length, periods + 1);
      await picture(page, `look-${name}`, panelOf("Over time"));
    }
    // It is kept while the page is open.
    await go("users", "Users");
    await go("overview", home);
    assert.equal(await page.getByLabel("Time", { exact: true }).inputValue(), "quarter");
    await page.getByLabel("Time", { exact: true }).selectOption("hours");
    await page.waitForFunction(() => document.querySelectorAll(".chart")[0]?.querySelectorAll(".column").length === 24);
    const href = await chart("Refused and failed").locator(".column[href]").last().getAttribute("href");
    await go(href.replace("#/", ""), "Activities");
    assert.match(await page.getByLabel("Changed from").inputValue(), /T\d\d:00/);
    assert.equal(await page.getByLabel("All statuses").inputValue(), "UNSUCCESSFUL");
    await sound(page, "activities of an hour");
  });
  await charted(() => {}, async () => {
    await go("overview", home);
    for (const text of ["Nothing was signed in the last 24 hours.", "Nothing was refused, failed or rejected in the last 24 hours.", "There was no sign-in in the last 24 hours.", "There were no requests in the last 24 hours"]) await page.getByText(text).waitFor();
    await picture(page, "look-empty", panelOf("Over time"));
  });
  calm();
});

test("a day on which the clocks change is one day", async () => {
  const theirs = await open(browser);
  await theirs.page.clock.install({ time: new Date("2026-10-30T11:00:00Z") }); // they changed on the 25th
  const asked = [];
  await theirs.page.route("**/get_activity_counts", (route) => {
    asked.push(route.request().postDataJSON().timesMs.map(Number));
    return route.fulfill({ status: 501, json: { code: 12, message: "UNIMPLEMENTED: get_activity_counts" } });
  });
  await enter(theirs.page, base, process.env.CLOISTER_CREDENTIALS);
  await theirs.page.getByText("This server does not offer the charts yet.").waitFor();
  const hours = asked[0].slice(1).map((t, i) => (t - asked[0][i]) / hour);
  assert.equal(hours.filter((n) => n === 25).length, 1);
  assert.equal(hours.filter((n) => n === 24).length, 29);
  await theirs.context.close();
});

test("a failure of the charts leaves the rest of the page", async () => {
  await go("users", "Users");
  await page.route("**/get_activity_counts", (route) => route.fulfill({ status: 500, json: { code: 13, message: "internal error" } }));
  await go("overview", home);
  await panelOf("Over time").getByRole("alert").filter({ hasText: "Internal error" }).waitFor();
  await panelOf("Latest activities").getByRole("link").first().waitFor();
  await page.unroute("**/get_activity_counts");
  calm();
});

test("the server counts what happened", async () => {
  await go("users", "Users");
  await go("overview", home);
  await page.getByLabel("Time", { exact: true }).selectOption("week");
  await page.getByText("3 signatures in the last 7 days").first().waitFor();
  await chart("Refused and failed").getByText("1 activity in the last 7 days").first().waitFor();
  assert.match(await chart("Response times, last 24 hours").locator(".chart-said").innerText(), /95 of 100 requests were answered within [\d.]+\sm?s/);
  await chart("Signatures").locator(".column").last().click();
  await heading("Activities");
  await idle();
  assert.equal(await page.locator("tbody tr").count(), 3);
  await go("overview", home);
  await chart("Refused and failed").locator(".column").last().click();
  await heading("Activities");
  await idle();
  assert.deepEqual(await page.locator("tbody tr td:nth-child(2)").allInnerTexts(), ["Refused"]);
  await go(`suborganizations/${sub}`, "Customer");
  await page.getByText("Nothing was signed in the last 7 days.").waitFor();
  assert.equal(await panelOf("Over time").locator(".column[href]").count(), 0);
  await picture(page, "look-suborganization");
  calm();
});

test("a quorum is a picture, with words for readers of screens", async () => {
  await go("overview", home);
  await page.getByRole("img", { name: "2 of 2 must agree. Members: Root user, Bob." }).waitFor();
  await go(`suborganizations/${sub}`, "Customer");
  await page.getByRole("img", { name: "One member, who decides alone. Members: Carol." }).waitFor();
  await page.goto(`${base}#/activities/${waiting.id}`);
  await page.getByRole("img", { name: /^2 of 2 must agree\. 1 has agreed: 1 more needed\. Agreed: Root user\. Not yet: Bob\.$/ }).waitFor();
  assert.deepEqual(await page.locator(".member").evaluateAll((all) => all.map((m) => m.getAttribute("class"))), ["member approved", "member open"]);
  await picture(page, "look-decision");
  calm();
});

test("accounts are counted by chain", async () => {
  await go("wallets", "Wallets");
  const rows = await panelOf("Accounts by chain").locator("li").evaluateAll((all) => all.map((li) => [li.querySelector("span").textContent, li.querySelector("b").textContent]));
  assert.deepEqual(rows.slice(0, 4).map(([name]) => name).sort(), ["Bitcoin", "Bitcoin regtest", "Bitcoin signet", "Bitcoin testnet"]);
  assert.deepEqual(Object.fromEntries(rows).Ethereum, "4");
  assert.equal(Object.fromEntries(rows).TON, "3");
  await picture(page, "look-wallets");
  // Of many accounts only the first are read.
  let pages = 0;
  await page.route("**/list_wallet_accounts", async (route) => {
    if (!route.request().postDataJSON().walletId) pages++;
    await route.fulfill({ json: { accounts: Array.from({ length: 100 }, (_, i) => ({ walletAccountId: `${pages}-${i}`, addressFormat: "ADDRESS_FORMAT_ETHEREUM", address: `0x${"12".repeat(20)}` })) } });
  });
  await page.reload();
  await page.getByText("Of the first 500 accounts.").waitFor();
  assert.equal(pages, 7); // one of them is for the addresses in the list
  await page.unroute("**/list_wallet_accounts");
  calm();
});

test("chains and kinds are called what people call them", async () => {
  await go(`wallets/${wallet.walletId}`, "Everything");
  const names = await page.getByRole("table", { name: "Accounts" }).locator("tbody td:first-child .strong").allInnerTexts();
  assert.equal(new Set(names).size, every.length);
  for (const name of names) assert(!/ADDRESS|_|and its kind|EVM|[A-Z0-9]{6}/.test(name), name);
  for (const name of ["Ethereum", "Bitcoin (SegWit)", "Bitcoin testnet (Taproot)", "Stellar", "TON (wallet v4r2)", "Public key (compressed)"]) assert(names.includes(name), name);
  await go("activities", "Activities");
  const types = await page.getByLabel("All types").locator("option").allInnerTexts();
  assert.deepEqual(types.slice(0, 3), ["All types", "All signatures", "All sign-ins"]);
  for (const name of ["Sign a transaction", "Export a wallet", "Sign in with a passkey or key", "Send a code", "Check a code"]) assert(types.includes(name), name);
  assert.deepEqual(await page.getByLabel("All statuses").locator("option").allInnerTexts(), ["All statuses", "Needs approval", "Needs credentials", "Completed", "Refused", "Failed", "Rejected", "Refused, failed or rejected", "In progress"]);
  assert.deepEqual(await page.locator("tbody tr td:first-child a").evaluateAll((all) => [...new Set(all.map((a) => getComputedStyle(a).textDecorationLine))]), ["underline"]);
  await picture(page, "look-activities");
  calm();
});

test("times are relative, and exact for who points at them or comes by with the keyboard", async () => {
  await go("activities", "Activities");
  const first = page.locator("tbody tr").first().locator("time").first();
  assert.match(await first.innerText(), /^(just now|\d+ minutes? ago)/);
  assert.match(await first.getAttribute("title"), /\d{1,2} [A-Z][a-z]+ 20\d\d, \d\d:\d\d:\d\d/);
  assert.match(await first.locator(".hidden").evaluate((n) => n.textContent), /^ \(\d/);
  const shown = () => first.evaluate((n) => getComputedStyle(n, "::after").content);
  assert.equal(await shown(), "none");
  await page.locator("tbody tr").first().locator("a").first().focus();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Shift+Tab");
  assert.match(await shown(), /20\d\d/);
  await picture(page, "look-times");
  // One timer moves all of them on, over midnight and into a date.
  const theirs = await open(browser);
  const at = Number(waiting.updatedAt.seconds) * 1000;
  await theirs.page.clock.install({ time: at + 90_000 });
  await enter(theirs.page, base, process.env.CLOISTER_CREDENTIALS);
  await theirs.page.goto(`${base}#/activities?type=CREATE_POLICY`);
  const near = theirs.page.locator("tbody tr").first().locator("time [data-at]").first();
  await near.waitFor();
  const lateNextDay = await theirs.page.evaluate((ms) => { const d = new Date(ms); return new Date(d.getFullYear(), d.getMonth(), d.getDate() + 1, 23, 59).getTime(); }, at);
  for (const [time, text] of [[at + 5 * 60_000, "5 minutes ago"], [at + 3 * hour, "3 hours ago"], [lateNextDay, "yesterday"], [lateNextDay + 240 * hour, "11 days ago"], [lateNextDay + 960 * hour, /^\d{1,2} [A-Z][a-z]+ 20\d\d$/]]) {
    await theirs.page.clock.setSystemTime(time);
    await theirs.page.clock.runFor(16_000);
    assert.match(await near.textContent(), typeof text === "string" ? new RegExp(`^${text}$`) : text);
  }
  await theirs.context.close();
  // Where it matters both are there.
  await page.goto(`${base}#/activities/${waiting.id}`);
  await page.locator("time.both").first().waitFor();
  assert.match(await page.locator("time.both").first().innerText(), /^\d.*\d\d:\d\d:\d\d \((just now|.* ago)\)$/);
  calm();
});

test("what expires says in how long", async () => {
  const { publicKey } = await makeOpenKey();
  await bob.client.submit("create_api_keys", "CREATE_API_KEYS_V2", { userId: bob.id, apiKeys: [{ ...apiKey(publicKey), apiKeyName: "short", expirationSeconds: "7200" }] });
  await go(`users/${bob.id}`, "Bob");
  await page.getByRole("table", { name: "API keys" }).getByText("in 2 hours").waitFor();
  calm();
});

test("rows are opened by a click, from every list", async () => {
  for (const [path, name, to] of [["users", "Users", /#\/users\//], ["wallets", "Wallets", /#\/wallets\//], ["activities", "Activities", /#\/activities\//], ["suborganizations", "Sub-organizations", /#\/suborganizations\//], ["approvals", "Approvals", /#\/approvals\//]]) {
    await go(path, name);
    const row = page.locator("main table tbody tr").first();
    const [id] = await row.locator(".copyable.short code").evaluateAll((all) => all.map((c) => c.getClientRects().length));
    assert.equal(id ?? 1, 1, `${path}: the id is on one line`);
    await row.locator("td").nth(1).click({ position: { x: 3, y: 3 } });
    await page.waitForURL(to);
  }
  await page.getByText("The root quorum can approve it").or(page.getByText("root quorum can approve it")).first().waitFor();
  calm();
});
