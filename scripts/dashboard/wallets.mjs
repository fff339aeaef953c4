// Wallets and private keys: renamed, deleted, imported and exported in the browser, judged by the published package (@turnkey/crypto) and by
// ethers; exports and imports that others must approve; and what a lying server would answer.
import assert from "node:assert/strict";
import { createECDH, createPrivateKey, createPublicKey, sign } from "node:crypto";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { decryptExportBundle, encryptWalletToBundle, generateP256KeyPair } from "@turnkey/crypto";
import { HDNodeWallet, computeAddress, decodeBase58, encodeBase58 } from "ethers";
import { newUser } from "./approver.mjs";
import { launch, open, picture, signIn as enter, sound } from "./browser.mjs";
import { controls } from "./controls.mjs";
import { base, organizationId, root, rootUserId } from "./setting.mjs";

const { signer } = JSON.parse(readFileSync(process.env.CLOISTER_SIM_CREDENTIALS)).keys; // the whole simulator's
// From the test vectors of BIP-39, and a private key with its forms in both chains.
const words = "legal winner thank year wave sausage worth useful legal winner thank yellow";
const other = "letter advice cage absurd amount doctor acoustic avoid letter advice cage above";
const seed = "52f913cee3bfe896a486b0b7476dda86152e483d41a9f126bed8ef6f81bd4da9";
const evm = "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318";
const path = "m/44'/60'/0'/0/0";

const hex = (bytes) => Buffer.from(bytes).toString("hex");
const unhex = (text) => Buffer.from(text.replace(/^0x/, ""), "hex");
const base58 = (bytes) => encodeBase58(`0x${hex(bytes)}`);
// ed25519 gives the public key of a seed.
const ed25519 = (text) => createPublicKey(createPrivateKey({ key: Buffer.concat([unhex("302e020100300506032b657004220420"), unhex(text)]), format: "der", type: "pkcs8" })).export({ format: "der", type: "spki" }).subarray(12);
const solanaKey = base58(Buffer.concat([unhex(seed), ed25519(seed)]));
const solanaAddress = base58(ed25519(seed));

let browser, page, context, complaints, cyd, dan;
const ethereum = { curve: "CURVE_SECP256K1", pathFormat: "PATH_FORMAT_BIP32", path, addressFormat: "ADDRESS_FORMAT_ETHEREUM" };
const solana = { curve: "CURVE_ED25519", pathFormat: "PATH_FORMAT_BIP32", path: "m/44'/501'/0'/0'", addressFormat: "ADDRESS_FORMAT_SOLANA" };

const newWallet = async (walletName, accounts = [ethereum, solana]) => (await root.submit("create_wallet", "CREATE_WALLET", { walletName, accounts })).result.createWalletResult;
const newKey = async (privateKeyName, curve, format) => (await root.submit("create_private_keys", "CREATE_PRIVATE_KEYS_V2", { privateKeys: [{ privateKeyName, curve, privateKeyTags: [], addressFormats: [format] }] })).result.createPrivateKeysResultV2.privateKeys[0];
const walletNamed = async (name) => (await root.query("list_wallets")).wallets.find((w) => w.walletName === name);
const keyNamed = async (name) => (await root.query("list_private_keys")).privateKeys.find((k) => k.privateKeyName === name);
const accountsOf = async (walletId) => (await root.query("list_wallet_accounts", { walletId, paginationOptions: { limit: "100" } })).accounts;

before(async () => {
  [cyd, dan] = [await newUser("Cyd"), await newUser("Dan")];
  await root.submit("create_policy", "CREATE_POLICY_V3", { policyName: "Two for keys", effect: "EFFECT_ALLOW", condition: "activity.action == 'EXPORT' || activity.action == 'IMPORT'", consensus: `approvers.any(user, user.id == '${rootUserId}') && approvers.any(user, user.id == '${cyd.userId}')`, notes: "" });
  browser = await launch();
  ({ page, context, complaints } = await open(browser, { acceptDownloads: true }));
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await enter(page, base, process.env.CLOISTER_CREDENTIALS);
  await page.getByRole("link", { name: "Wallets", exact: true }).waitFor();
});
after(() => browser?.close());

const calm = () => { assert.deepEqual(complaints, []); };
const { heading, click, dialog, settled, go } = controls(() => page);
const closed = (at = page) => dialog(at).waitFor({ state: "detached" });
const toast = (text, at = page) => at.locator(".toast", { hasText: text }).waitFor();
const told = (text, at = page) => dialog(at).getByText(text).first().waitFor();
const downloaded = async (act, at = page) => {
  const [file] = await Promise.all([at.waitForEvent("download"), act()]);
  return { name: file.suggestedFilename(), text: readFileSync(await file.path(), "utf8") };
};
const clipboard = (at = page) => at.evaluate(() => navigator.clipboard.readText());

// untold looks for a secret where it must not be: in an attribute, the address, what the browser keeps; and, once it is closed, in the page.
const untold = async (secret, gone, at = page) => assert.deepEqual(await at.evaluate(async ({ secret, gone }) => {
  const found = [];
  const has = (text) => typeof text === "string" && secret.some((s) => text.includes(s));
  for (const node of document.querySelectorAll("*")) for (const a of node.attributes) if (has(a.value)) found.push(`${node.tagName} ${a.name}`);
  if (has(location.href) || has(document.title)) found.push("address or title");
  if (has(JSON.stringify({ ...localStorage, ...sessionStorage, state: history.state }))) found.push("storage");
  if (gone && (has(document.documentElement.textContent) || [...document.querySelectorAll("input, textarea")].some((i) => has(i.value)))) found.push("page");
  return found;
}, { secret, gone }), []);

// kept are the keys of exports that this browser keeps: their public halves, and whether a script could read the private ones out.
const kept = (at = page) => at.evaluate(() => new Promise((done, failed) => {
  const request = indexedDB.open("cloister.exports");
  request.onerror = () => failed(request.error);
  request.onupgradeneeded = () => request.transaction.abort();
  request.onsuccess = () => {
    const all = request.result.transaction("keys").objectStore("keys").getAll();
    all.onsuccess = () => { request.result.close(); done(all.result.map((k) => [k.publicKey, k.key.extractable])); };
  };
}));

const exported = (exportBundle, { privateKey }, options) => decryptExportBundle({ exportBundle, embeddedKey: privateKey, organizationId, dangerouslyOverrideSignerPublicKey: signer, returnMnemonic: false, ...options });

// exportedBy is what the package opens of an export that the interface makes for its key.
async function exportedBy(operation, type, parameters, options) {
  const pair = generateP256KeyPair();
  const { result } = await root.submit(operation, type, { ...parameters, targetPublicKey: pair.publicKeyUncompressed });
  return exported(Object.values(result)[0].exportBundle, pair, options);
}

test("the signer's key is shown at the first use and remembered", async () => {
  await newWallet("First");
  await go("wallets", "Wallets");
  const { walletId } = await walletNamed("First");
  const all = await accountsOf(walletId);
  const cell = page.getByRole("row").filter({ hasText: "First" }).locator("[data-label=Addresses]");
  await cell.locator(`code[title="${all[0].address}"]`).waitFor();
  assert.equal(await cell.getByText("and ").count(), all.length > 1 ? 1 : 0);
  await click("Import wallet");
  await told("This browser sees this key for the first time");
  assert.equal(await dialog().locator("code[title]").first().getAttribute("title"), signer);
  await told("A server that serves this page could serve another page: for large values, import and export from a machine of yours with the SDK.");
  // Its buttons are in view from the beginning.
  const { y, height } = await dialog().getByRole("button", { name: "Import wallet", exact: true }).boundingBox();
  assert(y + height < 860, `${y + height}`);
  await picture(page, "wallet-import");
  assert.equal(await page.evaluate(() => localStorage.getItem("cloister.signer")), null); // only once it is used
  await click("Cancel", dialog());
  calm();
});

async function fillImport(name, text, at = page) {
  await dialog(at).getByLabel("Name").fill(name);
  await dialog(at).getByLabel("Words").fill(text);
}

test("a wallet is imported: its addresses are those that ethers derives", async () => {
  await go("wallets", "Wallets");
  await click("Import wallet");
  const button = dialog().getByRole("button", { name: "Import wallet", exact: true });
  const asked = [];
  page.on("request", (r) => r.url().includes("/submit/") && asked.push([r.url().split("/").at(-1), r.postData()]));
  // Wrong words are refused in place, before anything is sent, and without a part of them.
  for (const [text, why] of [
    ["legal winner thank", "A wallet has 12, 15, 18, 21 or 24 words, not 3."],
    [words.replace("sausage", "sausages"), "Word 6 is not in the English list of BIP-39. Check its spelling."],
    [words.replace("yellow", "legal"), "These words do not belong together: their checksum is wrong."],
  ]) {
    await fillImport("Imported", text);
    await button.click();
    await told(why);
    assert.equal(await dialog().getByLabel("Words").getAttribute("aria-invalid"), "true");
  }
  await told("12 words");
  await picture(page, "wallet-import-wrong");
  assert.deepEqual(asked, []);
  await fillImport("Imported", `  ${words.toUpperCase().replaceAll(" ", "\n ")} `);
  await button.click();
  await heading("Imported");
  await settled();
  assert.deepEqual(asked.map(([name]) => name), ["init_import_wallet", "import_wallet"]);
  for (const [, body] of asked) assert(!/legal|winner/i.test(body), body);
  await untold(["winner", "WINNER"], true);
  const [eth, sol] = await accountsOf((await walletNamed("Imported")).walletId);
  assert.equal(eth.address, HDNodeWallet.fromPhrase(words, "", path).address);
  await page.getByText(eth.address, { exact: true }).waitFor();
  await page.getByText(sol.address, { exact: true }).waitFor();
  await page.getByText("Imported", { exact: true }).nth(1).waitFor();
  assert.equal(await page.evaluate(() => localStorage.getItem("cloister.signer")), signer);
  calm();
});

test("a wallet with a passphrase is imported and exported with it", async () => {
  await go("wallets", "Wallets");
  await click("Import wallet");
  await fillImport("With a passphrase", words);
  await dialog().getByLabel("Passphrase").fill(" TREZOR and more ");
  await dialog().locator("form").evaluate((f) => f.requestSubmit());
  await heading("With a passphrase");
  const { walletId } = await walletNamed("With a passphrase");
  const [eth] = await accountsOf(walletId);
  assert.equal(eth.address, HDNodeWallet.fromPhrase(words, " TREZOR and more ", path).address);
  await click("Export words");
  await click("Export", dialog());
  await heading("Words of With a passphrase");
  await dialog().getByRole("button", { name: "I have written them down", exact: true }).click({ force: true }); // they were never shown
  assert.equal(await dialog().getByRole("button", { name: "Done", exact: true }).getAttribute("aria-disabled"), "true");
  await click("Show", dialog());
  await told("TREZOR and more");
  await click("I have written them down", dialog());
  await click("Done", dialog());
  await closed();
  await untold(["TREZOR"], true);
  calm();
});

test("words are exported, hidden first, saved, and wiped; the package opens the same", async () => {
  const { walletId, addresses } = await newWallet("Treasury");
  await go(`wallets/${walletId}`, "Treasury");
  await click("Export words");
  await told("Whoever has the words of this wallet can spend everything in it");
  await dialog().locator("summary", { hasText: "The enclave's signer key" }).click();
  await told("As before, the enclave signs by:");
  await picture(page, "wallet-export");
  await click("Export", dialog());
  await heading("Words of Treasury");
  await settled();
  const secret = await exportedBy("export_wallet", "EXPORT_WALLET", { walletId }, { returnMnemonic: true });
  await untold([secret], true);
  assert.equal(await dialog().locator(".words").count(), 0);
  await picture(page, "wallet-exported-hidden");
  // It does not close before it was saved: Escape and Enter ask.
  await page.keyboard.press("Escape");
  await told("You have not saved the words.");
  await page.keyboard.press("Escape");
  await dialog().getByText("You have not saved the words.").waitFor({ state: "hidden" });
  await dialog().getByRole("button", { name: "Done" }).focus();
  await page.keyboard.press("Enter");
  await told("You have not saved the words.");
  await page.evaluate(() => { location.hash = "#/overview"; });
  await heading(await page.locator(".brand span:last-child").innerText());
  await heading("Words of Treasury");
  await click("Back to the words", dialog());
  await click("Show", dialog());
  assert.equal((await dialog().locator(".words li").allInnerTexts()).map((t) => t.replace(/^\d+/, "").trim()).join(" "), secret);
  assert.equal(HDNodeWallet.fromPhrase(secret, "", path).address, addresses[0]);
  await untold(secret.match(/\w+ \w+/g), false); // no two words that follow each other
  await picture(page, "wallet-exported");
  await click("Hide", dialog());
  assert.equal(await dialog().locator(".words").count(), 0);
  await click("Copy the words", dialog());
  assert.equal(await clipboard(), secret);
  const file = await downloaded(() => click("Download the words", dialog()));
  assert.deepEqual(file, { name: "words-Treasury.txt", text: `${secret}\n` });
  await click("Done", dialog());
  await closed();
  await untold([secret], true);
  assert.deepEqual(await kept(), []);
  await go(`wallets/${walletId}`, "Treasury");
  await page.getByText("Exported", { exact: true }).waitFor();
  assert.equal((await root.query("get_wallet", { walletId })).wallet.exported, true);
  calm();
});

test("closing without saving asks, and can be done", async () => {
  const { walletId } = await newWallet("Given up");
  await go(`wallets/${walletId}`, "Given up");
  await click("Export words");
  await click("Export", dialog());
  await heading("Words of Given up");
  await click("Close", dialog());
  await click("Close without saving", dialog());
  await closed();
  assert.deepEqual(await kept(), []);
  calm();
});

test("an export for somebody else's key is a file that the package opens", async () => {
  const { walletId } = await newWallet("For somebody else");
  const pair = generateP256KeyPair();
  await go(`wallets/${walletId}`, "For somebody else");
  await click("Export words");
  await dialog().getByText("Encrypt to somebody else's key instead").click();
  await dialog().getByLabel("Target public key").fill("04zz");
  await click("Export", dialog());
  await dialog().locator("[name=targetPublicKey][aria-invalid]").waitFor();
  await dialog().getByLabel("Target public key").fill(pair.publicKeyUncompressed);
  await picture(page, "wallet-export-other");
  await click("Export", dialog());
  await heading("Encrypted export of For somebody else");
  await picture(page, "wallet-exported-other");
  const file = await downloaded(() => click("Download the export", dialog()));
  assert.equal(file.name, "export-For-somebody-else.json");
  assert.equal(await exported(file.text, pair, { returnMnemonic: true }), await exportedBy("export_wallet", "EXPORT_WALLET", { walletId }, { returnMnemonic: true }));
  await click("Done", dialog());
  await closed();
  calm();
});

test("accounts are renamed, exported in the form of their chain, and deleted", async () => {
  const { walletId, addresses: [eth, sol] } = await newWallet("Accounts");
  await go(`wallets/${walletId}`, "Accounts");
  await page.getByRole("link", { name: /^Ethereum/ }).click();
  await page.getByRole("button", { name: "Export private key" }).waitFor();
  await settled();
  await click("Rename");
  await dialog().getByLabel("Name").fill("Hot <b>wallet</b>");
  await click("Save", dialog());
  await heading("Hot <b>wallet</b>");
  await picture(page, "account");
  for (const [address, name, options, proves] of [
    [eth, "Hot <b>wallet</b>", {}, (key) => computeAddress(key) === eth],
    [sol, sol, { keyFormat: "SOLANA" }, (key) => base58(ed25519(decodeBase58(key).toString(16).padStart(128, "0").slice(0, 64))) === sol],
  ]) {
    const theirs = await exportedBy("export_wallet_account", "EXPORT_WALLET_ACCOUNT", { address }, options);
    await page.goto(`${base}#/wallets/${walletId}/${address}`);
    await page.getByText(address, { exact: true }).first().waitFor();
    await settled();
    await click("Export private key");
    await click("Export", dialog());
    await heading(`Private key of ${name}`);
    await click("Show", dialog());
    const key = await dialog().locator(".secret code").innerText();
    assert.equal(key, address === eth ? `0x${theirs}` : theirs);
    assert(proves(key));
    await untold([key], false);
    await picture(page, `account-exported-${address === eth ? "ethereum" : "solana"}`);
    await click("Copy the private key", dialog());
    assert.equal(await clipboard(), key);
    await click("Done", dialog());
    await closed();
    await untold([key], true);
  }
  await click("Delete");
  await click("Delete", dialog());
  await heading("Accounts");
  await settled();
  assert.deepEqual((await accountsOf(walletId)).map((a) => [a.address, a.name]), [[eth, "Hot <b>wallet</b>"]]);
  calm();
});

test("a wallet is renamed, and deleted after its name was typed if nobody has its words", async () => {
  const { walletId } = await newWallet("Old name");
  await newWallet("Taken");
  await go(`wallets/${walletId}`, "Old name");
  await click("Rename");
  await dialog().getByLabel("Name").fill("Taken");
  await click("Save", dialog());
  await dialog().locator("[name=walletName][aria-invalid]").waitFor();
  await dialog().getByLabel("Name").fill("New name");
  await click("Save", dialog());
  await heading("New name");
  await settled();
  await click("Delete");
  await told("It was never exported: nobody has its words, and what is at its addresses is lost for ever.");
  await picture(page, "wallet-delete");
  await dialog().getByLabel("Name").fill("new name");
  await click("Delete", dialog());
  await told("This is not the name. Nothing was deleted.");
  assert(await walletNamed("New name"));
  await dialog().getByLabel("Name").fill("New name");
  await click("Delete", dialog());
  await heading("Wallets");
  assert.equal(await walletNamed("New name"), undefined);
  // Of an exported one, no name is asked for.
  await page.getByRole("link", { name: "Given up", exact: true }).click();
  await heading("Given up");
  await settled();
  await click("Delete");
  await told("Only somebody with its words can still reach what is at its addresses.");
  assert.equal(await dialog().locator("input").count(), 0);
  await click("Delete", dialog());
  await heading("Wallets");
  assert.equal(await walletNamed("Given up"), undefined);
  calm();
});

test("private keys are imported in both chains' forms, the second by keyboard alone", async () => {
  await go("privatekeys", "Private keys");
  await page.getByText("There is no private key yet.").waitFor();
  await picture(page, "privatekeys-empty");
  await click("Import private key");
  await dialog().getByLabel("Name").fill("Ethereum key");
  const button = dialog().getByRole("button", { name: "Import private key", exact: true });
  for (const [text, why] of [[evm.slice(0, -1), "A private key is 64 hexadecimal digits"], [solanaKey, "A private key is 64 hexadecimal digits"], [`0x${"f".repeat(64)}`, "it is zero or too large"]]) {
    await dialog().getByRole("textbox", { name: "Private key", exact: true }).fill(text);
    await button.click();
    await told(why);
  }
  await picture(page, "privatekey-import");
  await dialog().getByRole("textbox", { name: "Private key", exact: true }).fill(evm);
  await button.click();
  await heading("Ethereum key");
  await untold([evm.slice(2)], true);
  await page.getByText(computeAddress(evm), { exact: true }).waitFor();

  await go("privatekeys", "Private keys");
  const active = () => page.evaluate(() => [document.activeElement.textContent, document.activeElement.name, document.activeElement.value]);
  const tabTo = async (is) => {
    for (let i = 0; i < 80; i++) {
      await page.keyboard.press("Tab");
      const [text, name, value] = await active();
      if (is(text, name, value)) return;
    }
    assert.fail("the keyboard does not lead there");
  };
  await page.getByRole("button", { name: "Import private key" }).waitFor();
  await tabTo((text) => text === "Import private key");
  await page.keyboard.press("Enter");
  await dialog().waitFor();
  assert.equal((await active())[1], "privateKeyName");
  await page.keyboard.type("Solana key");
  await tabTo((text, name) => name === "curve");
  await page.keyboard.press("ArrowDown"); // Ed25519
  assert.equal((await active())[2], "CURVE_ED25519");
  await tabTo((text, name) => name === "privateKey");
  await page.keyboard.insertText(solanaKey);
  await tabTo((text) => text === "Import private key");
  await page.keyboard.press("Enter");
  await heading("Solana key");
  await settled();
  await page.getByText(solanaAddress, { exact: true }).waitFor();
  // It is exported by keyboard as well.
  await tabTo((text) => text === "Export private key");
  await page.keyboard.press("Enter");
  await dialog().waitFor();
  assert.equal((await active())[0], "Cancel"); // Enter by mistake exports nothing
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await heading("Private key of Solana key");
  assert.equal((await active())[0], "Show");
  await page.keyboard.press("Enter");
  assert.equal(await dialog().locator(".secret code").innerText(), solanaKey);
  await tabTo((text) => text === "Copy");
  await page.keyboard.press("Enter");
  await toast("Copied the private key.");
  assert.equal(await clipboard(), solanaKey);
  await tabTo((text) => text === "Done");
  await page.keyboard.press("Enter");
  await closed();
  assert.equal(await exportedBy("export_private_key", "EXPORT_PRIVATE_KEY", { privateKeyId: (await keyNamed("Solana key")).privateKeyId }, { keyFormat: "SOLANA" }), solanaKey);
  calm();
});

test("private keys are listed, sorted, made, found, exported, disabled and deleted", async () => {
  await go("privatekeys", "Private keys");
  await click("New private key");
  await dialog().getByLabel("Name").fill("Another <i>key</i>");
  await dialog().getByLabel("Curve").selectOption("Ed25519");
  assert.equal(await dialog().getByLabel("Ethereum").count(), 0);
  await dialog().getByLabel("Curve").selectOption("P-256");
  await dialog().getByLabel("Public key, compressed").check();
  await picture(page, "privatekey-new");
  await click("Create private key", dialog());
  await heading("Another <i>key</i>");
  await go("privatekeys", "Private keys");
  const names = async () => (await page.locator("tbody tr td:first-child").allInnerTexts()).map((t) => t.trim());
  assert.deepEqual(await names(), ["Ethereum key", "Solana key", "Another <i>key</i>"]);
  await click("Name");
  assert.deepEqual(await names(), ["Another <i>key</i>", "Ethereum key", "Solana key"]);
  await picture(page, "privatekeys");
  // Find leads to its page.
  await page.keyboard.press("/");
  await page.keyboard.insertText(computeAddress(evm));
  await page.keyboard.press("Enter");
  await page.getByText(/^\s*Searched:/).waitFor();
  await page.getByRole("link", { name: "Ethereum key" }).click();
  await heading("Ethereum key");
  await settled();
  await picture(page, "privatekey");
  await click("Export private key");
  await click("Export", dialog());
  await heading("Private key of Ethereum key");
  await click("Show", dialog());
  assert.equal(await dialog().locator(".secret code").innerText(), evm);
  assert.deepEqual(await downloaded(() => click("Download the private key", dialog())), { name: "key-Ethereum-key.txt", text: `${evm}\n` });
  await click("Done", dialog());
  await closed();
  await page.getByText("Exported", { exact: true }).waitFor();
  await click("Disable");
  await told("It can never sign or be exported again.");
  await click("Disable", dialog());
  await toast("Ethereum key is disabled.");
  await settled();
  await click("Export private key");
  await click("Export", dialog());
  await dialog().getByRole("alert").filter({ hasText: "Private key is disabled" }).waitFor();
  await click("Cancel", dialog());
  await click("Delete");
  await click("Delete", dialog());
  await heading("Private keys");
  assert.equal(await keyNamed("Ethereum key"), undefined);
  await page.getByRole("link", { name: "Another <i>key</i>" }).click();
  await heading("Another <i>key</i>");
  await settled();
  await click("Delete");
  await dialog().getByLabel("Name").fill("Another");
  await click("Delete", dialog());
  await told("This is not the name. Nothing was deleted.");
  await dialog().getByLabel("Name").fill("Another <i>key</i>");
  await click("Delete", dialog());
  await heading("Private keys");
  assert.equal(await keyNamed("Another <i>key</i>"), undefined);
  calm();
});

test("tags of private keys are made, given, renamed and deleted", async () => {
  const one = await newKey("Tagged", "CURVE_SECP256K1", "ADDRESS_FORMAT_ETHEREUM");
  await go("privatekeys/tags", "Tags of private keys");
  await click("Create the first tag");
  await dialog().getByLabel("Name").fill("Hot");
  await dialog().getByLabel("Tagged").check();
  await click("Create tag", dialog());
  await toast("Tag Hot was created.");
  await settled();
  const [{ tagId }] = (await root.query("list_private_key_tags")).privateKeyTags;
  await root.submit("create_policy", "CREATE_POLICY_V3", { policyName: "By tag", effect: "EFFECT_DENY", condition: `private_key.tags.contains('${tagId}')`, consensus: "", notes: "" });
  await page.reload();
  await heading("Tags of private keys");
  await page.getByRole("link", { name: "By tag" }).waitFor();
  await picture(page, "privatekey-tags");
  await click("Edit Hot");
  await dialog().getByLabel("Name").fill("Warm");
  await click("Save", dialog());
  await page.getByText("Warm", { exact: true }).waitFor();
  await page.getByRole("link", { name: "Tagged" }).click();
  await heading("Tagged");
  await settled();
  await click("Edit tags");
  await dialog().getByLabel("Warm").uncheck();
  await click("Save", dialog());
  await toast("Saved.");
  await settled();
  assert.deepEqual((await keyNamed("Tagged")).privateKeyTags, []);
  await click("Edit tags");
  await dialog().getByLabel("Warm").check();
  await click("Save", dialog());
  await page.locator("dd .tags").getByText("Warm").waitFor();
  await go("privatekeys/tags", "Tags of private keys");
  await click("Delete Warm");
  await told("1 policy names this tag");
  await told("No key will match it by this tag any more");
  await click("Delete tag", dialog());
  await page.getByText("There are no tags of private keys yet.").waitFor();
  assert.deepEqual((await keyNamed("Tagged")).privateKeyTags, []);
  await root.submit("delete_private_keys", "DELETE_PRIVATE_KEYS", { privateKeyIds: [one.privateKeyId], deleteWithoutExport: true });
  calm();
});

test("an export that another must approve is opened later, in the browser that asked", async () => {
  const { walletId } = await newWallet("Shared");
  const theirs = await open(browser, { acceptDownloads: true });
  await enter(theirs.page, base, cyd.file);
  await theirs.page.getByRole("link", { name: "Wallets", exact: true }).waitFor();
  await go(`wallets/${walletId}`, "Shared", theirs.page);
  await click("Export words", theirs.page);
  await click("Export", dialog(theirs.page));
  await theirs.page.getByRole("link", { name: "See the activity" }).click();
  await theirs.page.getByText("Once this is approved, come back to this page in this browser to see the words").waitFor();
  const [[publicKey, extractable], ...more] = await kept(theirs.page);
  assert.deepEqual([extractable, more], [false, []]);
  await picture(theirs.page, "export-waits");
  const activityId = theirs.page.url().split("/").at(-1);
  const { activity } = await root.query("get_activity", { activityId });
  assert.equal(Object.values(activity.intent)[0].targetPublicKey, publicKey);
  await go(`activities/${activityId}`, await page.locator("h1").innerText().then(() => "Export wallet"));
  await page.getByText("Only the requester can open the export").waitFor();
  await root.submit("approve_activity", "APPROVE_ACTIVITY", { fingerprint: activity.fingerprint });
  // The one who approved cannot open it, and can save it.
  await page.reload();
  await page.getByText("This browser does not have the key that opens this export").waitFor();
  await click("Download encrypted file");
  const file = await downloaded(() => click("Download", dialog()));
  assert.equal(file.name, `export-${activityId}.json`);
  await closed();
  await theirs.page.reload();
  await theirs.page.getByText("This browser has the key that opens it, once.").waitFor();
  await picture(theirs.page, "export-approved");
  await click("Open the export", theirs.page);
  await click("Open the export", dialog(theirs.page));
  await heading("Words of Shared", theirs.page);
  await click("Show", dialog(theirs.page));
  const shown = (await dialog(theirs.page).locator(".words li").allInnerTexts()).map((t) => t.replace(/^\d+/, "").trim()).join(" ");
  assert.equal(shown, await exportedBy("export_wallet", "EXPORT_WALLET", { walletId }, { returnMnemonic: true }));
  await click("I have written them down", dialog(theirs.page));
  await click("Done", dialog(theirs.page));
  await theirs.page.getByText("This browser does not have the key that opens this export").waitFor();
  assert.deepEqual(await kept(theirs.page), []);
  assert.deepEqual(theirs.complaints, []);
  await theirs.context.close();
  calm();
});

test("an import that another must approve is continued later", async () => {
  const theirs = await open(browser);
  await enter(theirs.page, base, cyd.file);
  await theirs.page.getByRole("link", { name: "Wallets", exact: true }).waitFor();
  await go("wallets", "Wallets", theirs.page);
  await click("Import wallet", theirs.page);
  await fillImport("Of Cyd", other, theirs.page);
  await dialog(theirs.page).locator("form").evaluate((f) => f.requestSubmit());
  await theirs.page.getByRole("link", { name: "See the activity" }).click();
  await theirs.page.getByText("Once this is approved, come back to this page to continue the import.").waitFor();
  await untold(["letter advice"], true, theirs.page);
  const approve = async () => {
    const [{ fingerprint }] = (await root.query("list_activities", { filterByStatus: ["ACTIVITY_STATUS_CONSENSUS_NEEDED"], paginationOptions: { limit: "10" } })).activities;
    await root.submit("approve_activity", "APPROVE_ACTIVITY", { fingerprint });
  };
  await approve();
  await theirs.page.reload();
  await theirs.page.getByText("This is good for one import, within 24 hours").waitFor();
  await picture(theirs.page, "import-approved");
  await click("Continue the import", theirs.page);
  await fillImport("Of Cyd", other, theirs.page);
  await dialog(theirs.page).locator("form").evaluate((f) => f.requestSubmit());
  await toast("Others must approve this first.", theirs.page);
  await heading("Activities", theirs.page);
  await approve();
  const [eth] = await accountsOf((await walletNamed("Of Cyd")).walletId);
  assert.equal(eth.address, HDNodeWallet.fromPhrase(other, "", path).address);
  assert.deepEqual(theirs.complaints, []);
  await theirs.context.close();
});

test("buttons that policies deny say so", async () => {
  const { walletId } = await walletNamed("First");
  const theirs = await open(browser);
  await enter(theirs.page, base, dan.file);
  await theirs.page.getByRole("link", { name: "Wallets", exact: true }).waitFor();
  await go(`wallets/${walletId}`, "First", theirs.page);
  await theirs.page.getByText("Delete, Rename, Export words and Add accounts: only the root quorum can do this, and users whom a policy allows to.").waitFor();
  for (const name of ["Export words", "Rename", "Delete", "Add accounts"]) {
    const button = theirs.page.getByRole("button", { name, exact: true });
    assert.equal(await button.getAttribute("aria-disabled"), "true", name);
    assert(await button.evaluate((b) => document.getElementById(b.getAttribute("aria-describedby")).textContent.includes("root quorum")));
  }
  await sound(theirs.page, "a wallet of somebody who may nothing");
  await picture(theirs.page, "wallet-denied");
  await theirs.page.getByRole("button", { name: "Rename", exact: true }).click({ force: true });
  assert.equal(await dialog(theirs.page).count(), 0);
  await theirs.context.close();
});

// ---- A lying server

const mallory = createECDH("prime256v1");
mallory.generateKeys();
const malloryKey = () => createPrivateKey({ key: { kty: "EC", crv: "P-256", d: mallory.getPrivateKey("base64url"), x: mallory.getPublicKey().subarray(1, 33).toString("base64url"), y: mallory.getPublicKey().subarray(33).toString("base64url") }, format: "jwk" });

// signedBy is a message as the enclave makes it, of another signer.
function signedBy(inner, named = hex(mallory.getPublicKey())) {
  const bytes = Buffer.from(JSON.stringify(inner));
  return JSON.stringify({ version: "v1.0.0", data: hex(bytes), dataSignature: hex(sign("sha256", bytes, malloryKey())), enclaveQuorumPublic: named });
}
const innerOf = (bundle) => JSON.parse(unhex(JSON.parse(bundle).data));

// lying has the server change the bundle in its answer to an operation while something is done.
async function lying(operation, change, act) {
  const at = `**/public/v1/submit/${operation}`;
  await page.route(at, async (route) => {
    const answer = await route.fetch();
    const json = await answer.json();
    const result = Object.values(json.activity.result)[0];
    const name = "exportBundle" in result ? "exportBundle" : "importBundle";
    result[name] = await change(result[name]);
    await route.fulfill({ response: answer, json });
  });
  await act();
  await page.unroute(at);
}

test("an export that a lying server changed is refused in words, and opens later", async () => {
  const { walletId } = await newWallet("Lied about");
  const genuine = JSON.parse(JSON.stringify(await root.submit("export_wallet", "EXPORT_WALLET", { walletId, targetPublicKey: hex(mallory.getPublicKey()) }))).result.exportWalletResult.exportBundle;
  for (const [change, why] of [
    [(b) => signedBy(innerOf(b)), "This was signed by another key than the one that this browser trusts."],
    [(b) => signedBy(innerOf(b), signer), "This was changed after the enclave signed it."],
    [(b) => { const m = JSON.parse(b); return JSON.stringify({ ...m, data: hex(JSON.stringify({ ...innerOf(b), encappedPublic: hex(mallory.getPublicKey()) })) }); }, "This was changed after the enclave signed it."],
    [() => genuine, "This is not encrypted to the key of this browser."], // the enclave's, for the target key of another
    [() => "{}", "JSON"],
  ]) {
    await go(`wallets/${walletId}`, "Lied about");
    await click("Export words");
    await lying("export_wallet", change, async () => {
      await click("Export", dialog());
      await dialog().getByRole("alert").filter({ hasText: why }).waitFor();
    });
    if (change.length && why.startsWith("This was signed")) await picture(page, "export-lied");
    await click("Cancel", dialog());
  }
  // The enclave's own answer is still there for the key that this browser kept.
  const [{ id }] = (await root.query("list_activities", { filterByType: ["ACTIVITY_TYPE_EXPORT_WALLET"], paginationOptions: { limit: "1" } })).activities;
  await go(`activities/${id}`, "Export a wallet");
  await click("Open the export");
  await click("Open the export", dialog());
  await heading("Words of Lied about");
  await click("Show", dialog());
  await click("I have written them down", dialog());
  await click("Done", dialog());
  await closed();
  calm();
});

test("a target of an import that a lying server changed gets nothing", async () => {
  let sent = 0;
  page.on("request", (r) => { sent += r.url().endsWith("/submit/import_wallet"); });
  for (const [change, why] of [
    [(b) => signedBy({ ...innerOf(b), targetPublic: hex(mallory.getPublicKey()) }), "This was signed by another key than the one that this browser trusts."],
    [(b) => JSON.stringify({ ...JSON.parse(b), data: hex(JSON.stringify({ ...innerOf(b), targetPublic: hex(mallory.getPublicKey()) })) }), "This was changed after the enclave signed it."],
    [async () => (await cyd.client.submit("init_import_wallet", "INIT_IMPORT_WALLET", { userId: cyd.userId }).then(async ({ id, fingerprint }) => { // the enclave's, for another user
      await root.submit("approve_activity", "APPROVE_ACTIVITY", { fingerprint });
      return (await root.query("get_activity", { activityId: id })).activity;
    })).result.initImportWalletResult.importBundle, "The enclave made this for another user."],
  ]) {
    await go("wallets", "Wallets");
    await click("Import wallet");
    await fillImport("Never", other);
    await lying("init_import_wallet", change, async () => {
      await dialog().locator("form").evaluate((f) => f.requestSubmit());
      await dialog().getByRole("alert").filter({ hasText: why }).waitFor();
    });
    await click("Cancel", dialog());
  }
  assert.equal(sent, 0);
  assert.equal(await walletNamed("Never"), undefined);
  calm();
});

test("another signer's key than before is refused until the reader accepts it", async () => {
  await page.route("**/discovery/keys", async (route) => {
    const answer = await route.fetch();
    const json = await answer.json();
    json.keys.signer = hex(mallory.getPublicKey());
    await route.fulfill({ response: answer, json });
  });
  const asked = [];
  page.on("request", (r) => r.url().includes("/submit/") && asked.push(r.url()));
  const { walletId } = await walletNamed("First");
  await go(`wallets/${walletId}`, "First");
  await click("Export words");
  await told("The signer key is another one than before");
  assert.equal(await dialog().getByRole("link", { name: /the Verify page/ }).first().getAttribute("href"), "verify");
  await picture(page, "signer-changed");
  await click("Export", dialog());
  await told("The signer key has changed. Verify the new one, and then paste it above or confirm here that you did.");
  await dialog().getByLabel("Expected key").fill(signer);
  await click("Export", dialog());
  await told("This is not the key that the server names. Do not go on: ask the operator.");
  assert.deepEqual(asked, []);
  assert.equal(await page.evaluate(() => localStorage.getItem("cloister.signer")), signer);
  // Accepting it is deliberate. Then the enclave's own signature is another's.
  await dialog().getByLabel("Expected key").fill("");
  await dialog().getByLabel("I have verified the new key. Trust it from now on.").check();
  await click("Export", dialog());
  await dialog().getByRole("alert").filter({ hasText: "This was signed by another key than the one that this browser trusts." }).waitFor();
  await page.unroute("**/discovery/keys");
  await go("overview", await page.locator(".brand span:last-child").innerText());
  await go(`wallets/${walletId}`, "First");
  await click("Export words");
  await told("The signer key is another one than before");
  await dialog().getByLabel("Expected key").fill(signer.toUpperCase());
  await click("Export", dialog());
  await heading("Words of First");
  await click("Show", dialog());
  await click("I have written them down", dialog());
  await click("Done", dialog());
  assert.equal(await page.evaluate(() => localStorage.getItem("cloister.signer")), signer);
  await page.route("**/discovery/keys", (route) => route.fulfill({ status: 503, body: "" }));
  await click("Export words");
  await told("The server did not say by which key its enclave signs.");
  await click("Cancel", dialog());
  await page.unroute("**/discovery/keys");
  calm();
});

test("without the verifier, import and export say what is missing", async () => {
  const bare = await open(browser);
  await bare.context.route("**/verifier.wasm", (route) => route.abort());
  await enter(bare.page, base, process.env.CLOISTER_CREDENTIALS);
  await bare.page.getByRole("link", { name: "Wallets", exact: true }).waitFor();
  await go("wallets", "Wallets", bare.page);
  await click("Import wallet", bare.page);
  await fillImport("Never", other, bare.page);
  await dialog(bare.page).locator("form").evaluate((f) => f.requestSubmit());
  await dialog(bare.page).getByRole("alert").filter({ hasText: "This browser or server cannot encrypt for imports and exports" }).waitFor();
  await bare.context.close();
  assert.equal(await walletNamed("Never"), undefined);
});

test("what the package encrypts and what this page encrypts are one format", async () => {
  const { importBundle } = (await root.submit("init_import_wallet", "INIT_IMPORT_WALLET", { userId: rootUserId })).result.initImportWalletResult;
  const encryptedBundle = await encryptWalletToBundle({ mnemonic: "zoo zoo zoo zoo zoo zoo zoo zoo zoo zoo zoo wrong", importBundle, userId: rootUserId, organizationId, dangerouslyOverrideSignerPublicKey: signer });
  const made = await root.submit("import_wallet", "IMPORT_WALLET", { userId: rootUserId, walletName: "By the package", encryptedBundle, accounts: [ethereum] });
  const { walletId } = Object.values(made.result)[0];
  await go(`wallets/${walletId}`, "By the package");
  await click("Export words");
  await click("Export", dialog());
  await heading("Words of By the package");
  await click("Show", dialog());
  assert.equal(await dialog().locator(".words li").count(), 12);
  await click("Copy the words", dialog());
  assert.equal(await clipboard(), "zoo zoo zoo zoo zoo zoo zoo zoo zoo zoo zoo wrong");
  await click("Done", dialog());
  calm();
});
