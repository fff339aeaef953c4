// The page that verifies proofs, with the real verifier in WebAssembly against the proofs of the simulator.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch, open, picture, sound } from "./browser.mjs";
import { Client } from "./client.mjs";

const simulator = process.env.CLOISTER_SIM_CREDENTIALS;
const secrets = JSON.parse(readFileSync(simulator));
const apiUrl = process.env.CLOISTER_URL;
const base = `${apiUrl}/dashboard/`;
const root = new Client({ apiUrl, organizationId: secrets.organizationId, ...secrets.rootApiKey });
const scratch = new URL(".", import.meta.url).pathname;

let browser, page, complaints;
const requests = [];
before(async () => {
  browser = await launch();
  ({ page, complaints } = await open(browser));
  page.on("request", (r) => requests.push(r.url()));
});
after(() => browser.close());

const calm = () => { assert.deepEqual(complaints, []); };
const label = (name) => page.getByLabel(name, { exact: false }).first();
const verify = async (word) => {
  const before = requests.length;
  await page.getByRole("button", { name: "Verify on this machine" }).click();
  await page.locator(".verdict h2", { hasText: word }).waitFor();
  assert.deepEqual(requests.slice(before), [], "something left the page");
};
const check = (name, how) => page.locator(".checks li", { hasText: name }).locator(".badge", { hasText: how }).first().waitFor();
const ready = () => page.getByRole("button", { name: "Verify on this machine" }).waitFor();

test("the page needs nobody to be signed in, and shows which verifier it runs", async () => {
  await page.goto(base);
  await page.getByRole("link", { name: "Verify a proof" }).click();
  await page.getByRole("heading", { name: "Verify a proof" }).waitFor();
  await ready();
  const code = Buffer.from(await (await fetch(await page.evaluate(() => performance.getEntriesByType("resource").find((e) => e.name.endsWith("/verifier.wasm")).name))).arrayBuffer());
  await page.getByText(createHash("sha256").update(code).digest("hex")).waitFor();
  await page.getByText("Computed in this browser from the verifier that was loaded.").waitFor();
  await page.getByText("A dishonest server can serve a page that always says Verified.").waitFor();
  await picture(page, "verify");
  calm();
});

test("nothing weak is believed by default", async () => {
  await page.getByRole("button", { name: "Fetch from this server" }).click();
  await page.locator(".toast", { hasText: "Fetched" }).waitFor();
  await verify("Refused");
  await check("Security module", "Refused"); // no simulator was named
  await page.getByText("Simulator", { exact: true }).click();
  await label("Root certificate").fill(secrets.attestationRootPem);
  await page.getByText("With nothing to compare, only this is proven").waitFor();
  await verify("Genuine, but not compared");
  await check("Boot proof as a whole", "Not compared"); // and no image
  await page.getByText("You compared it with nothing: any deployment of any image would pass.").waitFor();
  await page.locator(".verdict.wait .badge.simulator", { hasText: "Simulator" }).waitFor();
  await page.getByText("Whoever runs it can read its keys.").waitFor();
  assert.equal(await page.locator("#result .verdict.good, #result .verdict.simulator").count(), 0);
  assert(!(await page.locator("#result").innerText()).includes("What the"), "what an unknown program says is told");
  await picture(page, "verify-not-compared");
  await label("Expected measurements").fill(JSON.stringify(secrets.pcrs));
  await page.getByText("This names a program. Any deployment of it would pass.").waitFor();
  await verify("Genuine, but not compared");
  await page.getByText("any deployment of this image would pass").waitFor(); // the image, and nobody's deployment of it
  // What is false besides is refused, whatever it is compared with.
  await label("Expected measurements").fill("");
  const boot = await label("Boot proof").inputValue();
  await label("Boot proof").fill(boot.replace(/"qosManifestB64": "(....)/, '"qosManifestB64": "AAAA'));
  await verify("Refused");
  assert.equal(await page.locator("#result .badge.simulator").count(), 0);
  await picture(page, "verify-refused");
  await label("Boot proof").fill(boot);
  calm();
});

test("a simulator's boot proof holds under its credentials file, whose key stays out of the page", async () => {
  await page.setInputFiles("input[type=file]", simulator);
  await page.waitForFunction((sum) => document.querySelector("[name=manifest]").value === sum, secrets.manifestSha256);
  await page.getByText("This names a program and a deployment.").waitFor();
  await verify("Verified: a simulator’s proof");
  await page.locator(".verdict.simulator .badge.simulator").waitFor();
  assert.equal(await page.locator(".verdict.good").count(), 0);
  await page.getByRole("heading", { name: "What the simulator runs" }).waitFor();
  for (const name of ["Security module", "No debug image", "Image", "Manifest", "Boot proof as a whole", "Keys"]) await check(name, "Passed");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Verified: a simulator’s proof");
  const all = await page.evaluate(() => document.documentElement.outerHTML + [...document.querySelectorAll("input, textarea")].map((n) => n.value).join());
  assert(all.includes(secrets.manifestSha256) && !all.includes(secrets.rootApiKey.privateKey));
  await picture(page, "verify-boot");
  calm();
});

test("a real enclave's proof is told apart from a simulator's", async () => {
  // No real enclave is at hand: the page is given the verifier's report of one.
  await page.evaluate(() => {
    window.ours = globalThis.cloisterVerify;
    globalThis.cloisterVerify = (question) => JSON.stringify({ ...JSON.parse(window.ours(question)), simulator: false });
  });
  await verify("Verified");
  await page.locator(".verdict.good").getByRole("heading", { name: "Verified", exact: true }).waitFor();
  await page.getByRole("heading", { name: "What the enclave runs" }).waitFor();
  assert.equal(await page.locator("#result .badge.simulator").count(), 0);
  await page.evaluate(() => { globalThis.cloisterVerify = window.ours; });
  calm();
});

test("app proofs hold for the request that was sent, and for no other", async () => {
  const accounts = [{ curve: "CURVE_SECP256K1", pathFormat: "PATH_FORMAT_BIP32", path: "m/44'/60'/0'/0/0", addressFormat: "ADDRESS_FORMAT_ETHEREUM" }];
  const content = { type: "ACTIVITY_TYPE_CREATE_WALLET", timestampMs: String(Date.now()), parameters: { walletName: "Proven", accounts }, generateAppProofs: true };
  const reply = await root.send("/public/v1/submit/create_wallet", content);
  assert.equal(reply.status, 200, reply.message);
  const body = JSON.stringify({ organizationId: secrets.organizationId, ...content });
  const address = reply.activity.result.createWalletResult.addresses[0];
  const text = JSON.stringify({ activity: reply.activity });
  await label("App proofs").fill(text);
  await label("Your request").fill(body);
  await verify("Verified");
  await page.getByText(address).first().waitFor();
  await picture(page, "verify-proofs");
  await label("Your request").fill(body.replace("Proven", "Forged"));
  await verify("Refused");
  await check("App proofs", "Refused");
  await label("Your request").fill(body);
  await label("App proofs").fill(text.replaceAll(address, `0x${"11".repeat(20)}`));
  await verify("Refused");
  await page.getByText("signature is wrong").first().waitFor();
  assert(!(await page.locator("#result").innerText()).includes("What the enclave runs"), "a refused proof is told as true");
  await label("App proofs").fill("{}");
  await verify("Refused");
  await check("Form", "Refused");
  calm();
});

test("a log proof holds, and whoever was recovered from a backup says so", async () => {
  const stored = (name) => readFileSync(`attestation/verify/testdata/${name}`, "utf8"); // as the command is tested with
  const logs = await open(browser);
  await logs.page.addInitScript(() => { Date.now = () => Date.parse("2026-05-01T13:00:00Z"); });
  await logs.page.goto(`${base}verify`);
  const fill = (name, text) => logs.page.getByLabel(name).first().fill(text);
  const verifies = async (word) => {
    await logs.page.getByRole("button", { name: "Verify on this machine" }).click();
    await logs.page.locator(".verdict h2", { hasText: word }).waitFor();
  };
  for (const [name, word] of [["log", "Verified"], ["log-moved", "Verified"], ["log-recovered", "Verified, in a log that was recovered from a backup"]]) {
    await logs.page.reload();
    await logs.page.setInputFiles("input[type=file]", { name: "credentials.json", mimeType: "application/json", buffer: Buffer.from(stored(`${name}-credentials.json`)) });
    await logs.page.waitForFunction(() => document.querySelector("[name=manifest]").value);
    await fill("Boot proof", stored(`${name}-boot.json`));
    await fill("Log proof", stored(`${name}-proof.json`));
    await fill("Your request", stored("log-body.json"));
    await verifies(word);
    await picture(logs.page, `verify-${name}`);
  }
  await logs.page.getByText("3 batch(es) that witnesses had seen are lost").waitFor();
  await fill("Your request", "another");
  await verifies("Refused");
  assert.deepEqual(logs.complaints, []);
  await logs.context.close();
});

test("by keyboard alone", async () => {
  await page.goto(`${base}verify`);
  await ready();
  const at = () => page.evaluate(() => document.activeElement.innerText || document.activeElement.name);
  const reach = async (name) => { for (let i = 0; i < 30 && !(await at()).startsWith(name); i++) await page.keyboard.press("Tab"); assert((await at()).startsWith(name), `${name} is out of reach`); };
  await reach("boot");
  await page.keyboard.insertText("{}");
  await reach("Simulator");
  await page.keyboard.press("Enter");
  await reach("simulatorRoot");
  await reach("Verify on this machine");
  await page.keyboard.press("Enter");
  await page.locator(".verdict h2", { hasText: "Refused" }).waitFor();
  assert.equal(await at(), "Refused");
  calm();
});

test("files that are none, and a server that is away", async () => {
  await page.getByText("Simulator", { exact: true }).click();
  await page.getByText("Simulator", { exact: true }).click();
  const junk = join(scratch, "no-credentials.json");
  writeFileSync(junk, `{"pcrs":{}}`);
  await page.setInputFiles("input[type=file]", junk);
  await page.getByText("This is not a simulator's credentials file").waitFor();
  await page.route("**/discovery/keys", (route) => route.abort());
  await page.getByRole("button", { name: "Fetch from this server" }).click();
  await page.locator(".toast", { hasText: "did not return its boot proof" }).waitFor();
  await page.unroute("**/discovery/keys");
  calm();
});

test("in a tab of its own it does not lead to the sign-in", async () => {
  const other = await open(browser);
  await other.page.goto(`${base}verify`);
  await other.page.getByRole("link", { name: "Dashboard", exact: true }).waitFor();
  await other.page.goto("about:blank");
  await other.page.goto(`${base}verify#tab`);
  await other.page.getByText("You are still signed in, in the tab of the dashboard.").waitFor();
  assert.equal(await other.page.getByRole("link", { name: "Dashboard", exact: true }).count(), 0);
  assert.equal(await other.page.getByRole("link", { name: "Cloister", exact: true }).count(), 0);
  await sound(other.page, "verify in a tab");
  assert.deepEqual(other.complaints, []);
  await other.context.close();
});

test("another verifier than promised shows, and so does none", async () => {
  const other = await open(browser);
  // One that does the same and is not the same: with a section more that means nothing.
  await other.page.route("**/verifier.wasm", async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ status: 200, contentType: "application/wasm", body: Buffer.concat([await answer.body(), Buffer.from([0, 2, 1, 0x61])]) });
  });
  await other.page.goto(`${base}verify`);
  await other.page.getByText("This is not the verifier that the host says it was built with.").waitFor();
  await other.page.unroute("**/verifier.wasm");
  await other.page.route("**/verifier.wasm", (route) => route.fulfill({ status: 404, body: "" }));
  await other.page.reload();
  await other.page.getByRole("alert").filter({ hasText: "did not return the verifier" }).waitFor();
  await sound(other.page, "verifier away");
  await other.page.unroute("**/verifier.wasm");
  // As the host answers that was built without.
  await other.page.route("**/dashboard/verify", async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, body: (await answer.text()).replace(/data-verifier="[0-9a-f]+"/, `data-verifier=""`) });
  });
  await other.page.reload();
  await other.page.getByText("This server was built without the verifier").waitFor();
  await picture(other.page, "verify-absent");
  assert.deepEqual(other.complaints, []);
  await other.context.close();
});
