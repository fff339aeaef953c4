// How long each page of the dashboard takes until it can be used, in a large organization. It fills one with 10,000 sub-organizations,
// 1,000 policies, users and wallets, and as many activities as it gets done, up to 100,000, and prints the times; a page that takes more
// than a second fails. Filling takes some minutes, so that it is no part of the usual run:
//
//   scripts/dashboard/test.sh scale [SECONDS]     makes activities for that long at most (240 if left out)
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { launch, open } from "./browser.mjs";
import { Client } from "./client.mjs";
import { makeOpenKey } from "./stamp.mjs";

const { organizationId, rootApiKey } = JSON.parse(readFileSync(process.env.CLOISTER_CREDENTIALS));
const apiUrl = process.env.CLOISTER_URL;
const base = `${apiUrl}/dashboard/`;
const root = new Client({ apiUrl, organizationId, ...rootApiKey });
const seconds = Number(process.argv[2] ?? 240);

// many does a number of things, 24 at a time, until all are done or the time is over. It gives back how many.
async function many(what, count, act, until = Infinity) {
  const began = Date.now();
  let next = 0;
  await Promise.all(Array.from({ length: 24 }, async () => {
    while (next < count && Date.now() < until) await act(next++);
  }));
  console.log(`${next} ${what} in ${((Date.now() - began) / 1000).toFixed(0)} s`);
  return next;
}

const apiKey = async () => ({ apiKeyName: "key", publicKey: (await makeOpenKey()).publicKey, curveType: "API_KEY_CURVE_P256" });
const ethereum = { curve: "CURVE_SECP256K1", pathFormat: "PATH_FORMAT_BIP32", path: "m/44'/60'/0'/0/0", addressFormat: "ADDRESS_FORMAT_ETHEREUM" };

let middle; // a sub-organization and an activity from the middle
const subs = await many("sub-organizations", 10_000, async (i) => {
  const made = await root.submit("create_sub_organization", "CREATE_SUB_ORGANIZATION_V8", { subOrganizationName: `Customer ${i}`, rootQuorumThreshold: 1,
    ...(i === 5000 && { wallet: { walletName: "Savings", accounts: [ethereum] } }), rootUsers: [{ userName: `User ${i}`, userEmail: `user${i}@example.com`, apiKeys: [await apiKey()], authenticators: [], oauthProviders: [] }] });
  if (i === 5000) middle = { sub: made.result.createSubOrganizationResultV8.subOrganizationId, activity: made };
});
await many("users, by tens", 95, async (i) => root.submit("create_users", "CREATE_USERS_V4", { users: await Promise.all(Array.from({ length: 10 }, async (_, n) => (
  { userName: `Person ${i}-${n}`, userEmail: `person${i}-${n}@example.com`, apiKeys: [await apiKey()], authenticators: [], oauthProviders: [], userTags: [] }))) }));
await many("wallets", 999, (i) => root.submit("create_wallet", "CREATE_WALLET", { walletName: `Wallet ${i}`, accounts: [ethereum] }));
const { policies } = await root.query("list_policies");
await many("policies, by 37 at a time", Math.floor((1000 - policies.length) / 37), (i) => root.submit("create_policies", "CREATE_POLICIES", { policies: Array.from({ length: 37 }, (_, n) => (
  { policyName: `Policy ${i}-${n}`, effect: "EFFECT_ALLOW", condition: `activity.type == 'ACTIVITY_TYPE_SIGN_TRANSACTION_V2' && eth.tx.value < ${i}${n}000000000000000000 && wallet.id == '${organizationId}'`, consensus: "approvers.count() >= 2", notes: `The ${n}th of ${i}` })) }));
const { wallets } = await root.query("list_wallets");
const webhook = (await root.submit("create_webhook_endpoint", "CREATE_WEBHOOK_ENDPOINT", { name: "Books", url: "https://hooks.example.com/", subscriptions: [{ eventType: "ACTIVITY_UPDATES" }] })).result.createWebhookEndpointResult.endpointId;
const privateKey = (await root.submit("create_private_keys", "CREATE_PRIVATE_KEYS_V2", { privateKeys: Array.from({ length: 100 }, (_, n) => ({ privateKeyName: `Key ${n}`, curve: "CURVE_SECP256K1", addressFormats: ["ADDRESS_FORMAT_ETHEREUM"], privateKeyTags: [] })) })).result.createPrivateKeysResultV2.privateKeys[0].privateKeyId;
const { accounts: [account] } = await root.query("list_wallet_accounts", { walletId: wallets[500].walletId, paginationOptions: { limit: "1" } });
// What waits for approvals: transactions of somebody who may ask for them.
const pair = await makeOpenKey();
const { userIds: [clerkId] } = (await root.submit("create_users", "CREATE_USERS_V4", { users: [{ userName: "Clerk", apiKeys: [{ apiKeyName: "key", publicKey: pair.publicKey, curveType: "API_KEY_CURVE_P256" }], authenticators: [], oauthProviders: [], userTags: [] }] })).result.createUsersResult;
await root.submit("update_policy", "UPDATE_POLICY_V2", { policyId: policies[0]?.policyId ?? (await root.query("list_policies")).policies[0].policyId, policyName: "Two sign", policyEffect: "EFFECT_ALLOW", policyCondition: "activity.action == 'SIGN'", policyConsensus: "approvers.count() >= 2" });
const clerk = new Client({ apiUrl, organizationId, ...pair });
let waiting;
await many("transactions that wait", 60, async (i) => {
  waiting = await clerk.submit("sign_transaction", "SIGN_TRANSACTION_V2", { signWith: account.address, type: "TRANSACTION_TYPE_ETHEREUM", unsignedTransaction: `02f483aa36a782${(0x8080 + i).toString(16)}843b9aca0084773594008252089${"4".repeat(41)}8806f05b59d3b2000080c0` });
});
const signatures = await many("signatures", 100_000 - subs - 1200, (i) => root.submit("sign_raw_payload", "SIGN_RAW_PAYLOAD_V2", { signWith: account.address, payload: i.toString(16).padStart(64, "0"), encoding: "PAYLOAD_ENCODING_HEXADECIMAL", hashFunction: "HASH_FUNCTION_NO_OP" }), Date.now() + seconds * 1000);
console.log(`activities: about ${subs + signatures + 1120}; policies: ${(await root.query("list_policies")).policies.length}`);

const browser = await launch();
const { page, complaints } = await open(browser);
const file = join(mkdtempSync(join(tmpdir(), "scale-")), "credentials.json");
writeFileSync(file, JSON.stringify({ organizationId, ...rootApiKey }));
await page.goto(base);
await page.getByText("API key", { exact: true }).click();
await page.setInputFiles("input[type=file]", file);
await page.waitForFunction(() => document.querySelector("[name=privateKey]").value);
await page.getByLabel("Remember the key").check();
await page.getByRole("button", { name: "Sign in with the key" }).click();
await page.getByRole("heading", { name: "Latest activities" }).waitFor();

// shown is how many milliseconds an address takes until the page says that nothing is under way, and how many rows it has then.
const shown = (hash) => page.evaluate((to) => new Promise((done) => {
  const began = performance.now();
  location.hash = to;
  const look = () => {
    const ready = document.querySelector("main h1") && !document.querySelector("main [aria-busy]") && !document.querySelector("main > .note[role=status]")?.textContent.includes("Searching");
    if (ready && performance.now() - began > 30) done({ ms: performance.now() - began, rows: document.querySelectorAll("main tbody tr, main .card").length });
    else requestAnimationFrame(look);
  };
  addEventListener("hashchange", () => requestAnimationFrame(look), { once: true });
}), hash);

for (const hash of ["#/overview", "#/activities"]) {
  await shown(hash);
  const began = Date.now();
  await page.reload();
  await page.waitForFunction(() => document.querySelector("main table") && !document.querySelector("main [aria-busy]"));
  console.log(`${String(Date.now() - began).padStart(6)} ms  ${hash}, loaded anew`);
}
const today = new Date().toISOString().slice(0, 10);
const slow = [];
for (const hash of ["#/overview", "#/activities", "#/activities?type=CREATE_SUB_ORGANIZATION", `#/activities?to=${today}`, "#/activities?by=Root", "#/activities?by=nobody", `#/activities/${middle.activity.id}`, "#/users", "#/suborganizations",
  "#/suborganizations?by=NAME&q=Customer+5000", "#/suborganizations?by=EMAIL&q=user5000%40example.com", "#/suborganizations?by=USERNAME&q=User+5000", `#/suborganizations/${middle.sub}`, "#/wallets", `#/wallets/${wallets[500].walletId}`,
  `#/wallets/${wallets[500].walletId}/${account.address}`, "#/privatekeys", `#/privatekeys/${privateKey}`,
  "#/approvals", `#/approvals/${waiting.id}`, `#/users/${clerkId}`, "#/users/tags", "#/users/invitations", "#/secrets", "#/policies", "#/policies/new", "#/policies/language", "#/policies/try", "#/webhooks", `#/webhooks/${webhook}`,
  "#/auth", "#/programs", "#/billing", "#/settings", "#/settings/ip", "#/addressbook", "#/find?q=Customer+5000", `#/find?q=${account.address}`, `#/find?q=${middle.sub}`, "#/find?q=nobody%40example.com", `#/find?q=sha256:${"0".repeat(64)}`]) {
  const times = [];
  let rows;
  for (let i = 0; i < 5; i++) {
    await shown("#/nothing");
    const got = await shown(hash);
    times.push(got.ms);
    ({ rows } = got);
  }
  times.sort((a, b) => a - b);
  console.log(`${String(Math.round(times[2])).padStart(6)} ms, at most ${String(Math.round(times[4])).padStart(6)} ms, ${String(rows).padStart(3)} rows  ${hash}`);
  if (times[2] > 1000) slow.push(hash);
}
for (const [hash, name] of [["#/suborganizations", "sub-organizations"], ["#/activities", "activities"]]) {
  await shown(hash);
  const began = Date.now();
  await page.getByRole("button", { name: "Export list", exact: true }).click();
  const [saved] = await Promise.all([page.waitForEvent("download", { timeout: 1_200_000 }), page.getByRole("dialog").getByRole("button", { name: "Export", exact: true }).click()]);
  console.log(`${((Date.now() - began) / 1000).toFixed(1)} s to export ${name}: ${(readFileSync(await saved.path()).length / 1e6).toFixed(1)} MB, ${saved.suggestedFilename()}`);
}
await browser.close();
assert.deepEqual(complaints, []);
assert.deepEqual(slow, [], "pages that take more than a second");
