// Signing in without typing an organization's id, in an organization of its own: passkeys that name it, passkeys that do not, links, and
// what is refused. Then what asks before unsaved changes are lost, and the words of refusals.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { authenticator, launch, open, picture, signIn as enter } from "./browser.mjs";
import { controls } from "./controls.mjs";
import { apiUrl, base, organizationId, root, rootUserId } from "./setting.mjs";
import { makeOpenKey } from "./stamp.mjs";

const other = JSON.parse(readFileSync(process.env.CLOISTER_SIM_CREDENTIALS)).organizationId; // exists, and does not know our passkeys
const nobody = "00000000-0000-4000-8000-000000000000";
let browser, page, context, complaints, home, cdp, authenticatorId;

before(async () => {
  home = (await root.query("whoami")).organizationName;
  browser = await launch();
  ({ page, context, complaints } = await open(browser));
  await page.addInitScript(() => { // how often a passkey was asked for, and whether for a certain one
    window.touches = [];
    if (!navigator.credentials) return; // a page of its own without a name
    const get = navigator.credentials.get.bind(navigator.credentials);
    navigator.credentials.get = (options) => {
      window.touches.push(options.publicKey.allowCredentials.length);
      return get(options);
    };
  });
  ({ cdp, authenticatorId } = await authenticator(page));
});
after(() => browser?.close());

const calm = () => { assert.deepEqual(complaints, []); };
const { heading, button, click, toast, dialog, settled, go } = controls(() => page);
const signInWithPasskey = () => click("Sign in with a passkey");
const signOut = async () => {
  await click("Sign out");
  await heading("Cloister");
};
const touches = () => page.evaluate(() => window.touches.splice(0));
const shown = page => page.locator(".where .organization");
const twice = () => page.getByText("You will be asked twice this time").waitFor();
const idField = () => page.locator(".where").getByLabel("Organization id");
const inside = async () => {
  await heading(home);
  await page.getByText("Signed in with a passkey").waitFor();
  await settled();
};
const remembered = () => page.evaluate(() => JSON.parse(localStorage.getItem("cloister.passkeys") ?? "[]"));

// forgotten has the browser forget all that the dashboard keeps in it.
async function forgotten() {
  await page.evaluate(() => {
    localStorage.clear();
    return new Promise((done) => { const request = indexedDB.deleteDatabase("cloister"); request.onsuccess = request.onerror = request.onblocked = () => done(); });
  });
  await page.goto("about:blank");
  await page.goto(base);
  await heading("Cloister");
}

// withHandle gives the passkey another user handle. Its counter goes on: the enclave refuses one that went back.
async function withHandle(userHandle) {
  const [credential] = await passkeys();
  await cdp.send("WebAuthn.clearCredentials", { authenticatorId });
  await cdp.send("WebAuthn.addCredential", { authenticatorId, credential: { ...credential, userHandle } });
}
const passkeys = async () => (await cdp.send("WebAuthn.getCredentials", { authenticatorId })).credentials;
const handleOf = (...ids) => Buffer.concat([Buffer.from("cloister1"), ...ids.map((id) => Buffer.from(id.replaceAll("-", ""), "hex"))]);

let made; // the passkey that the dashboard made
test("a passkey that was made here names its organization: no id is asked, twice touched the first time and once from then on", async () => {
  await enter(page, base, process.env.CLOISTER_CREDENTIALS);
  await heading(home);
  await settled();
  await go(`users/${rootUserId}`, "Root user");
  await click("Add a passkey");
  await click("Add passkey", dialog());
  await toast("The passkey was added.");
  [made] = await passkeys();
  assert.equal(made.isResidentCredential, true);
  assert.deepEqual(Buffer.from(made.userHandle, "base64"), handleOf(organizationId, rootUserId));
  assert.ok(Buffer.from(made.userHandle, "base64").length <= 64);

  await forgotten();
  await twice();
  assert.equal(await page.locator("form").first().locator("[name=organizationId]").count(), 0);
  await picture(page, "signin-first");
  await touches();
  await signInWithPasskey();
  await inside();
  assert.deepEqual(await touches(), [0, 1]); // any, then that one
  assert.deepEqual(await remembered(), []); // the handle says it

  await signOut();
  await shown(page).getByText(home).waitFor();
  await shown(page).getByText(organizationId).waitFor();
  await picture(page, "signin-remembered");
  await signInWithPasskey();
  await inside();
  assert.deepEqual(await touches(), [0]);
  await signOut();
  await click("Another organization");
  await twice();
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Sign in with a passkey");
  await signInWithPasskey();
  await inside();
  assert.deepEqual(await touches(), [0, 1]);
  await signOut();
  calm();
});

test("a touch that fails leaves one to do", async () => {
  await forgotten();
  // The second touch is refused once, as browsers do that want a press for each.
  await page.evaluate(() => {
    const get = navigator.credentials.get;
    let calls = 0;
    navigator.credentials.get = (options) => (++calls === 2 ? Promise.reject(new DOMException("no", "NotAllowedError")) : get(options));
  });
  await touches();
  await signInWithPasskey();
  await page.getByRole("alert").filter({ hasText: "The passkey was not used" }).waitFor();
  await shown(page).getByText(organizationId).waitFor();
  await signInWithPasskey();
  await inside();
  assert.deepEqual(await touches(), [0, 1]);
  await signOut();
  calm();
});

test("a user handle that lies leads to a refusal, and the organization is asked", async () => {
  await withHandle(handleOf(other, rootUserId).toString("base64"));
  await forgotten();
  await signInWithPasskey();
  await page.getByText("The organization that this passkey names does not know it.").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.name), "organizationId");
  await picture(page, "signin-unknown-to-organization");
  await idField().fill(organizationId);
  await touches();
  await signInWithPasskey();
  await inside();
  assert.deepEqual(await touches(), [1]);
  await signOut();
  // It names an organization that does not exist.
  await withHandle(handleOf(nobody, rootUserId).toString("base64"));
  await forgotten();
  await signInWithPasskey();
  await page.getByText("The organization that this passkey names does not know it.").waitFor();
  await click("Another passkey");
  await twice();
  // Where an organization is remembered it does not matter what the handle says.
  await page.evaluate((id) => localStorage.setItem("cloister.organization", id), organizationId);
  await page.reload();
  await touches();
  await signInWithPasskey();
  await inside();
  assert.deepEqual(await touches(), [0]);
  await signOut();
  calm();
});

test("for a passkey of another application the id is asked once, and remembered for that passkey", async () => {
  for (const handle of [Buffer.from(rootUserId.replaceAll("-", ""), "hex"), Buffer.from("somebody"), Buffer.concat([handleOf(organizationId, rootUserId), Buffer.from("x")]), Buffer.from("Cloister1" + "x".repeat(32))]) {
    await withHandle(handle.toString("base64"));
    await forgotten();
    await touches();
    await signInWithPasskey();
    await page.getByText("This passkey was made by another application, and does not name its organization.").waitFor();
    assert.deepEqual(await touches(), [0]);
  }
  await picture(page, "signin-id");
  for (const [typed, why] of [
    ["My company", "This looks like a name."],
    [organizationId.slice(0, 30), "36 letters and digits with hyphens between them, such as 9e470e3d-372f-4cce-a5fb-10ad610335df. A part of it may be missing."],
    [nobody, "There is no organization with this id."],
    [other, "This passkey does not belong to that organization. Check the organization id."],
  ]) {
    await idField().fill(typed);
    await signInWithPasskey();
    await page.locator(".where .error", { hasText: why }).waitFor();
    assert.equal(await page.locator("form").first().locator("[role=alert]").textContent(), "");
  }
  await picture(page, "signin-id-refused");
  assert.deepEqual(await remembered(), []);
  await idField().fill(` ${organizationId.toUpperCase()} `);
  assert.equal(await page.locator(".where .error").textContent(), ""); // what was refused is no longer shown
  await touches();
  await signInWithPasskey();
  await inside();
  assert.deepEqual(await touches(), [1]);
  assert.deepEqual((await remembered()).map(([, id]) => id), [organizationId]);
  await signOut();
  await click("Another organization"); // without the memory of the organization, that of the passkey is enough
  await touches();
  await signInWithPasskey();
  await inside();
  assert.deepEqual(await touches(), [0, 1]);
  await signOut();
  // What is kept is bounded, and junk in its place is nothing.
  await page.evaluate(() => localStorage.setItem("cloister.passkeys", JSON.stringify(Array.from({ length: 50 }, (_, i) => [`${i}`, "x"]))));
  await signInWithPasskey();
  await inside();
  assert.equal((await remembered()).length, 20);
  assert.equal((await remembered())[0][1], organizationId);
  await signOut();
  for (const junk of ["{", "7", `{"a":1}`, `[1, null, ["a"]]`]) {
    await page.evaluate((text) => { localStorage.clear(); localStorage.setItem("cloister.passkeys", text); }, junk);
    await page.reload();
    await signInWithPasskey();
    await page.getByText("This passkey was made by another application").waitFor();
  }
  await withHandle(made.userHandle);
  calm();
});

test("a sign-in link opens the sign-in of an organization", async () => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await enter(page, base, process.env.CLOISTER_CREDENTIALS);
  await heading(home);
  await page.goto(`${base}#/settings`);
  await heading("Settings");
  await settled();
  await click("Copy sign-in link");
  const link = await page.evaluate(() => navigator.clipboard.readText());
  assert.equal(link, `${base}#/signin?organization=${organizationId}`);
  await picture(page, "signin-link", page.locator(".panel").first());
  // Who is signed in already is led to the overview; a link of another organization is told from it.
  await page.goto(link);
  await heading(home);
  assert.equal(await page.locator(".notice").count(), 0);
  await page.goto(`${base}#/signin?organization=${other}`);
  await page.locator(".notice", { hasText: "This link is for another organization" }).waitFor();
  await page.goto(`${base}#/approvals?organization=${other}`);
  await heading("Approvals");
  await page.locator(".notice", { hasText: "This link is for another organization" }).waitFor();
  await settled();
  await signOut();

  await forgotten();
  await page.goto(link);
  await shown(page).getByText(organizationId).waitFor();
  await picture(page, "signin-linked");
  await touches();
  await signInWithPasskey();
  await inside();
  assert.deepEqual(await touches(), [0]);
  assert.equal(new URL(page.url()).hash, "#/overview");
  await signOut();
  // A link in a mail leads to its page.
  await forgotten();
  await page.goto(`${base}#/approvals?organization=${organizationId}`);
  await signInWithPasskey();
  await heading("Approvals");
  await settled();
  await signOut();
  // A link that lies, to an organization that there is and to one that there is not, and one that is none.
  await page.goto(`${base}#/signin?organization=${other}`);
  await shown(page).getByText(other).waitFor();
  assert.equal(await shown(page).getByText(home).count(), 0); // not under our name
  await signInWithPasskey();
  await page.getByRole("alert").filter({ hasText: "This passkey is for another organization. Choose “Another organization”" }).waitFor();
  await picture(page, "signin-wrong-link");
  await page.goto(`${base}#/signin?organization=${nobody}`);
  await shown(page).getByText(nobody).waitFor();
  await signInWithPasskey();
  await page.getByRole("alert").filter({ hasText: "There is no organization with this id." }).waitFor();
  await click("Another organization");
  assert.equal(await page.locator("form").first().locator("[role=alert]").textContent(), "");
  await signInWithPasskey();
  await inside();
  await signOut();
  for (const junk of ["My+company", "%3Cb%3E", ""]) {
    await page.goto(`${base}#/signin?organization=${junk}`);
    await shown(page).getByText(organizationId).waitFor(); // where one was last
  }
  calm();
});

test("the server's own words are not shown", async () => {
  for (const [status, body, words] of [
    [400, { code: 3, message: "rpc error: code = InvalidArgument desc = malformed stamp publicKey=02ab" }, "The server refused this passkey."],
    [429, { code: 8, message: "too many requests; try again in 485ms" }, "There were too many attempts. Try again in a minute."],
    [503, { code: 14, message: "not known to be stored: send the same request again" }, "The server cannot be reached, or cannot sign anybody in at the moment."],
    [401, { code: 16, message: "could not find public key organizationId=1", turnkeyErrorCode: "PUBLIC_KEY_NOT_FOUND" }, "This passkey does not belong to this organization."],
  ]) {
    await page.route("**/submit/stamp_login", (route) => route.fulfill({ status, json: body }));
    await signInWithPasskey();
    const alert = page.locator("form").first().getByRole("alert").filter({ hasText: words });
    await alert.waitFor();
    assert.doesNotMatch(await alert.innerText(), /rpc|publicKey|organizationId|485|stored/);
    await page.unroute("**/submit/stamp_login");
  }
  calm();
});

// ---- Auth

const part = (name) => page.getByRole("region", { name, exact: true });

test("what is not saved on the page Auth is marked, and not lost unasked", async () => {
  await enter(page, base, process.env.CLOISTER_CREDENTIALS);
  await heading(home);
  await go("auth", "Auth");
  await click("Turn on");
  await click("Turn on", dialog());
  await heading("Sign-in codes");
  await settled();
  const codes = part("Sign-in codes");
  const unsaved = page.getByText("Not saved yet", { exact: true });
  assert.equal(await unsaved.count(), 0);
  await codes.getByLabel("Length").fill("7");
  await codes.getByText("Not saved yet").waitFor();
  await part("Sessions").getByLabel("Session length (seconds)").fill("1800");
  assert.equal(await unsaved.count(), 2);
  await picture(page, "auth-unsaved");
  // One is saved, the other is not.
  await click("Save", codes);
  await toast("Saved.");
  await settled();
  assert.equal(await unsaved.count(), 1);
  await page.getByRole("link", { name: "Users", exact: true }).click();
  await dialog().getByText("Leave without saving?").waitFor();
  await click("Stay", dialog());
  await heading("Auth");
  assert.equal(await part("Sessions").getByLabel("Session length (seconds)").inputValue(), "1800");
  await click("Sign out");
  await dialog().getByText("Leave without saving?").waitFor();
  await click("Stay", dialog());
  await part("Sessions").getByLabel("Session length (seconds)").fill(String((await root.query("get_auth_proxy_config")).authProxyConfig.sessionExpirationSeconds));
  assert.equal(await unsaved.count(), 0);
  await page.getByRole("link", { name: "Users", exact: true }).click();
  await heading("Users");
  await go("auth", "Auth");
  await part("SMS").getByLabel("Template").fill("x");
  await page.getByRole("link", { name: "Users", exact: true }).click();
  await click("Leave", dialog());
  await heading("Users");
  calm();
});

test("of several origins the refusal says which line is wrong, and how to write it", async () => {
  await go("auth", "Auth");
  const who = part("Allowed callers");
  const origins = who.getByLabel("Allowed origins");
  const error = () => who.locator(".field .error").first().innerText();
  for (const [lines, words] of [
    [["https://ok.example.com", "https://app.example.com/"], "Line 2, “https://app.example.com/”: Leave out the slash at the end: https://app.example.com"],
    [["https://ok.example.com", "", "https://app.example.com/in"], "Line 3, “https://app.example.com/in”: An origin has no path. Leave out “/in”: https://app.example.com"],
    [["https://*.example.com"], "Line 1, “https://*.example.com”: An origin has no wildcard. Write each host on a line of its own."],
    [["app.example.com/in"], "Line 1, “app.example.com/in”: The scheme is missing. Write https://app.example.com, or http:// for localhost."],
    [["https://App.example.com"], "Line 1, “https://App.example.com”: Write it in lower case: https://app.example.com"],
    [["https://app.example.com:443"], "Line 1, “https://app.example.com:443”: Leave out :443, which browsers do not write: https://app.example.com"],
    [["http://localhost:80"], "Line 1, “http://localhost:80”: Leave out :80, which browsers do not write: http://localhost"],
    [["https://me@app.example.com"], "Line 1, “https://me@app.example.com”: An origin has no user name."],
    [["https://a.example.com, https://b.example.com"], "Line 1, “https://a.example.com, https://b.example.com”: Write each origin on a line of its own."],
    [["https://a.example.com", "*"], "Line 2, “*”: * allows every page, so it must stand alone."],
    [["https://a.example.com", "https://b.example.com", "https://a.example.com"], "Line 3, “https://a.example.com”: This is line 1 again."],
    [["https://"], "Line 1, “https://”: The host is missing, such as app.example.com."],
    [["https://a.example.com:x"], "Line 1, “https://a.example.com:x”: This is not an origin. Write it as browsers do, such as https://app.example.com or http://localhost:3000."],
    [["https://a.example.com/", "https://b.example.com/x"], "Line 1, “https://a.example.com/”: Leave out the slash at the end: https://a.example.com\nLine 2, “https://b.example.com/x”: An origin has no path. Leave out “/x”: https://b.example.com"],
  ]) {
    await origins.fill(lines.join("\n"));
    await click("Save", who);
    assert.equal(await error(), words);
    assert.equal(await who.locator(".alert").textContent(), ""); // once
  }
  await picture(page, "auth-origins", who);
  // What the server alone refuses names its line too.
  await page.route("**/update_auth_proxy_config", (route) => route.fulfill({ status: 400, json: { code: 3, message: "invalid origin: x", details: [{ "@type": "type.googleapis.com/google.rpc.BadRequest", fieldViolations: [{ field: "allowedOrigins.1", description: "invalid origin: x" }] }] } }));
  await origins.fill("https://a.example.com\n\nhttps://b.example.com");
  await click("Save", who);
  await who.locator(".field .error", { hasText: "Line 3: Invalid origin: x" }).waitFor();
  await page.unroute("**/update_auth_proxy_config");
  for (const good of ["https://a.example.com\nhttp://localhost:3000\nhttps://b.example.com:8443\n\ncapacitor://localhost", "*"]) {
    await origins.fill(good);
    await click("Save", who);
    await toast("Saved.");
    await settled();
    assert.deepEqual((await root.query("get_auth_proxy_config")).authProxyConfig.allowedOrigins, good.split("\n").filter(Boolean));
  }
  calm();
});

// ---- Forms

test("a refusal is said once, beside the field, in words", async () => {
  const once = async (at, words) => {
    await at.locator(".error", { hasText: words }).waitFor();
    assert.equal(await at.locator(".alert").first().textContent(), "");
    assert.match(await at.locator(".error:not(:empty)").innerText(), /^[A-Z“]/);
  };
  await go("users", "Users");
  const { publicKey } = await makeOpenKey();
  const { users } = await root.query("list_users");
  await root.submit("create_users", "CREATE_USERS_V4", { users: [{ userName: "Ada", apiKeys: [{ apiKeyName: "key", publicKey, curveType: "API_KEY_CURVE_P256" }], authenticators: [], oauthProviders: [], userTags: [] }] });
  await go(`users/${users[0].userId}`, users[0].userName);
  await click("Edit");
  await dialog().getByLabel("Name").first().fill("Ada");
  await click("Save", dialog());
  await once(dialog(), /unique|exists|another|already/i);
  await picture(page, "form-refused");
  await page.keyboard.press("Escape");

  await go("webhooks", "Webhooks");
  await click("Create the first webhook");
  await dialog().getByLabel("Name").fill("Books");
  await dialog().getByLabel("URL").fill("http://hooks.example.com/x");
  await click("Create webhook", dialog());
  await once(dialog(), "https");
  await page.keyboard.press("Escape");

  await go(`users/${users[0].userId}`, users[0].userName);
  await click("New MFA policy");
  await dialog().getByLabel("Name").first().fill("Twice");
  await dialog().locator("textarea[name=condition]").fill("activity.action = 'SIGN'");
  await dialog().locator("[data-choices=step0] input").first().check();
  await click("Create MFA policy", dialog());
  await once(dialog(), /unexpected|=/i);
  assert.doesNotMatch(await dialog().locator(".error:not(:empty)").innerText(), /policy condition|Expression cannot|position/);
  assert.equal(await page.evaluate(() => [document.activeElement.name, document.activeElement.selectionStart].join()), `condition,${"activity.action ".length}`);
  await picture(page, "mfa-condition");
  await page.keyboard.press("Escape");
  calm();
});

test("the forms of policy tasks ask before they are left", async () => {
  await go("policies/new?task=hours", "Sign in working hours only");
  await page.getByLabel("From").fill("10:00");
  await page.getByRole("link", { name: "Users", exact: true }).click();
  await dialog().getByText("Leave without saving?").waitFor();
  await click("Stay", dialog());
  assert.equal(await page.getByLabel("From").inputValue(), "10:00");
  await click("Continue"); // this is no loss
  await heading("New policy");
  await page.goBack();
  await dialog().waitFor({ state: "detached" });
  calm();
});
