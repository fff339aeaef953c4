// Everyday work on users, in an organization of its own: editing, tags, the root quorum, keys that are shown once, invitations from the
// link to the first sign-in, MFA policies, and what is refused.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { authenticator, launch, open, picture, sound, signIn as enter } from "./browser.mjs";
import { Client } from "./client.mjs";
import { controls } from "./controls.mjs";
import { apiUrl, base, organizationId, root, rootUserId, scratch } from "./setting.mjs";
import { makeOpenKey } from "./stamp.mjs";

const run = promisify(execFile);
const hostile = `<img src=x onerror="alert(1)"> & Söhne`;
let browser, page, context, complaints, home, ada, bob;
let sent = []; // the activities that the page has asked for

const apiKey = (publicKey) => ({ apiKeyName: "key", publicKey, curveType: "API_KEY_CURVE_P256" });

async function newUser(userName, more = {}) {
  const pair = await makeOpenKey();
  const { result } = await root.submit("create_users", "CREATE_USERS_V4", { users: [{ userName, apiKeys: [apiKey(pair.publicKey)], authenticators: [], oauthProviders: [], userTags: [], ...more }] });
  const file = join(scratch, `${userName.replace(/\W/g, "")}-${pair.publicKey.slice(-8)}.json`);
  writeFileSync(file, JSON.stringify({ organizationId, ...pair }));
  return { userId: Object.values(result)[0].userIds[0], file, pair, client: new Client({ apiUrl, organizationId, ...pair }) };
}

before(async () => {
  home = (await root.query("whoami")).organizationName;
  ada = await newUser("Ada");
  bob = await newUser("Bob", { userEmail: "bob@example.com" });
  browser = await launch();
  ({ page, context, complaints } = await open(browser, { acceptDownloads: true }));
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  page.on("request", (r) => { if (r.method() === "POST" && r.url().includes("/submit/")) { const { type, parameters } = r.postDataJSON(); sent.push([type.replace("ACTIVITY_TYPE_", ""), parameters]); } });
  await signIn(page, process.env.CLOISTER_CREDENTIALS);
});
after(() => browser?.close());

const calm = (of = complaints) => { assert.deepEqual(of, []); };
const { heading, button, click, toast, dialog, gone, settled, go } = controls(() => page);
// labelled is a field by its label, which may say that it is optional.
const labelled = (label, at = page) => dialog(at).getByLabel(new RegExp(`^${label}( ?optional)?$`));
const focused = (at = page) => at.evaluate(() => document.activeElement.getAttribute("aria-label") || document.activeElement.innerText || document.activeElement.name);
const user = async (userId) => (await root.query("get_user", { userId })).user;
// asked gives what the page has asked for while something was done.
async function asked(act) {
  sent = [];
  await act();
  return sent;
}

async function signIn(at, file) {
  await enter(at, base, file);
  await heading("Latest activities", at);
}

// ---- Editing

// edit opens the dialog on a user's page, fills it and saves.
async function edit(values, act = () => click("Save", dialog())) {
  await click("Edit");
  for (const [label, value] of Object.entries(values)) await labelled(label).fill(value);
  await act();
}

test("an edit sends what was changed, and nothing else", async () => {
  const one = root.submit("create_user_tag", "CREATE_USER_TAG", { userTagName: "Traders", userIds: [] });
  const { userTagId } = (await one).result.createUserTagResult;
  const { userId } = ada;
  await go(`users/${userId}`, "Ada");
  assert.deepEqual(await asked(async () => { await edit({}); await toast("No changes to save."); await gone(); }), []);
  for (const [values, request, saved] of [
    [{ Name: hostile }, ["UPDATE_USER_NAME", { userId, userName: hostile }], { userName: hostile }],
    [{ "E-mail": "ada@example.com" }, ["UPDATE_USER_EMAIL", { userId, userEmail: "ada@example.com" }], { userEmail: "ada@example.com" }],
    [{ Phone: "+41 44 668 18 00" }, ["UPDATE_USER_PHONE_NUMBER", { userId, userPhoneNumber: "+41446681800" }], { userPhoneNumber: "+41446681800" }],
    [{ Name: "Ada", Phone: "+41446681801" }, ["UPDATE_USER", { userId, userName: "Ada", userPhoneNumber: "+41446681801" }], { userName: "Ada", userPhoneNumber: "+41446681801" }],
    [{ "E-mail": "" }, ["UPDATE_USER_EMAIL", { userId, userEmail: "" }], { userEmail: undefined }],
    [{ Phone: "" }, ["UPDATE_USER_PHONE_NUMBER", { userId, userPhoneNumber: "" }], { userPhoneNumber: undefined }],
  ]) {
    assert.deepEqual(await asked(async () => { await edit(values); await toast("Saved."); await gone(); await settled(); }), [request]);
    const now = await user(userId);
    for (const [name, value] of Object.entries(saved)) assert.equal(now[name], value);
    if (values.Name) await heading(values.Name);
  }
  assert.equal(await page.locator("main img").count(), 0);
  const tick = () => asked(async () => {
    await edit({}, async () => { await dialog().getByLabel("Traders").click(); await click("Save", dialog()); });
    await gone();
    await settled();
  });
  assert.deepEqual(await tick(), [["UPDATE_USER", { userId, userTagIds: [userTagId] }]]);
  await page.locator(".badge.tag", { hasText: "Traders" }).waitFor();
  assert.deepEqual(await tick(), [["UPDATE_USER_TAG", { userTagId, addUserIds: [], removeUserIds: [userId] }]]);
  assert.deepEqual((await user(userId)).userTags, []);
  calm();
});

test("what follows from another address is said before it is saved", async () => {
  await go(`users/${ada.userId}`, "Ada");
  await click("Edit");
  const mail = labelled("E-mail");
  await mail.fill("ada@example.com");
  await dialog().getByText("Nobody can sign in by e-mail now.").waitFor();
  await mail.fill("");
  await dialog().getByText("Nobody can sign in by e-mail now.").waitFor({ state: "detached" });
  await page.keyboard.press("Escape");
  await gone();
  await root.submit("set_organization_feature", "SET_ORGANIZATION_FEATURE", { name: "FEATURE_NAME_OTP_EMAIL_AUTH", value: "" });
  await root.submit("update_user_email", "UPDATE_USER_EMAIL", { userId: ada.userId, userEmail: "ada@example.com" });
  await go("users", "Users");
  await page.getByRole("link", { name: "Ada" }).click();
  await heading("Ada");
  await settled();
  await click("Edit");
  await mail.fill("BOB@example.com");
  await dialog().getByText("whoever reads it can sign in as Ada").waitFor();
  await dialog().getByText("The old address no longer works.").waitFor();
  await dialog().getByText("The new one is unverified").waitFor();
  await dialog().getByText("Bob has this address, too. While several users have it, none of them can sign in by e-mail.").waitFor();
  await picture(page, "user-edit");
  await mail.fill("");
  await dialog().getByText("Ada can no longer sign in or recover access by e-mail.").waitFor();
  await mail.fill("ada@example.com");
  await dialog().getByText("Ada can no longer").waitFor({ state: "detached" });
  await page.keyboard.press("Escape");
  await gone();
  assert.equal((await user(ada.userId)).userEmail, "ada@example.com");
  calm();
});

test("an edit that is refused says why, and what was saved before is not asked for again", async () => {
  await go(`users/${ada.userId}`, "Ada");
  await edit({ Name: "Bob" });
  await dialog().locator(".field .error", { hasText: "There is a user with this name already." }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.name), "userName");
  await labelled("Name").fill("Ada");
  await labelled("Phone").fill("12");
  await click("Save", dialog());
  await dialog().locator(".field .error", { hasText: "phone" }).waitFor();
  await picture(page, "user-edit-refused");
  // Two requests, of which the second is refused once.
  await page.route("**/update_user_email", (route) => route.fulfill({ status: 503, json: { code: 14, message: "not now" } }));
  const first = await asked(async () => {
    await labelled("Phone").fill("");
    await labelled("Name").fill("Ada Two");
    await labelled("E-mail").fill("");
    await click("Save", dialog());
    await dialog().getByRole("alert").filter({ hasText: "Not now" }).waitFor();
  });
  assert.equal(first.filter(([type]) => type === "UPDATE_USER_NAME").length, 1);
  await page.unroute("**/update_user_email");
  assert.deepEqual(await asked(async () => { await click("Save", dialog()); await toast("Saved."); await gone(); }), [["UPDATE_USER_EMAIL", { userId: ada.userId, userEmail: "" }]]);
  await heading("Ada Two");
  await root.submit("update_user_name", "UPDATE_USER_NAME", { userId: ada.userId, userName: "Ada" });
  calm();
});

// ---- Tags

test("tags are made, given, taken, filtered by, renamed and deleted; a policy that names one is told", async () => {
  await go("users/tags", "Tags of users");
  await click("New tag");
  await labelled("Name").fill("Traders");
  await click("Create tag", dialog());
  await dialog().locator(".field .error", { hasText: "with this name already." }).waitFor();
  await labelled("Name").fill(hostile);
  await dialog().getByLabel("Ada").check();
  await dialog().getByLabel("Bob").check();
  await click("Create tag", dialog());
  await toast(`Tag ${hostile} was created.`);
  const { userTags } = await root.query("list_user_tags");
  const { tagId } = userTags.find((t) => t.tagName === hostile);
  const { result } = await root.submit("create_policy", "CREATE_POLICY_V3", { policyName: "Two <b>traders</b>", effect: "EFFECT_ALLOW", condition: "activity.action == 'SIGN'", consensus: `approvers.filter(user, user.tags.contains('${tagId}')).count() >= 2`, notes: "" });
  await page.reload();
  await heading("Tags of users");
  const row = page.getByRole("row").filter({ hasText: hostile });
  await row.getByRole("link", { name: "Two <b>traders</b>" }).waitFor();
  assert.equal((await row.getByRole("cell").nth(1).innerText()).trim(), "2");
  await picture(page, "user-tags");

  await row.getByRole("link", { name: hostile }).click();
  await heading("Users");
  await page.getByText("2 of 3 users.").waitFor();
  assert.equal(await page.locator("tbody tr").count(), 2);
  assert.equal(await page.getByRole("link", { name: "Root user" }).count(), 0);
  await page.getByLabel("Tag").focus();
  await page.getByLabel("Tag").selectOption("Without a tag");
  await page.getByRole("link", { name: "Root user" }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "SELECT");
  await page.reload();
  await page.getByText("1 of 3 users.").waitFor();
  await page.getByLabel("Tag").selectOption("Traders");
  await page.getByText("No user has this tag.").waitFor();
  await page.getByLabel("Tag").selectOption("All");
  await page.locator("tbody tr").nth(2).waitFor();
  await picture(page, "users-tagged");
  await sound(page, "users");

  await go("users/tags", "Tags of users");
  assert.deepEqual(await asked(async () => {
    await click(`Edit ${hostile}`);
    await labelled("Name").fill("Ops");
    await dialog().getByLabel("Bob").uncheck();
    await dialog().getByLabel("Root user").check();
    await picture(page, "user-tag-edit");
    await click("Save", dialog());
    await gone();
    await settled();
  }), [["UPDATE_USER_TAG", { userTagId: tagId, newUserTagName: "Ops", addUserIds: [rootUserId], removeUserIds: [bob.userId] }]]);
  await click("Edit Ops");
  await click("Save", dialog());
  await toast("No changes to save.");
  await gone();

  await click("Delete Ops");
  await dialog().getByText("1 policy names this tag").waitFor();
  await dialog().getByText("2 users have it: Root user and Ada.").waitFor();
  await dialog().getByText("may stop allowing").waitFor();
  assert.equal(await focused(), "Cancel");
  await picture(page, "user-tag-delete");
  await dialog().getByRole("link", { name: "Two <b>traders</b>" }).click();
  await page.waitForURL(`**/#/policies/${result.createPolicyResult.policyId}`);
  await gone();
  await go("users/tags", "Tags of users");
  await click("Delete Traders");
  await dialog().getByText("No policy names it.").waitFor();
  await click("Delete tag", dialog());
  await toast("Tag Traders was deleted.");
  await click("Delete Ops");
  await click("Delete tag", dialog());
  await page.getByText("There are no tags yet.").waitFor();
  assert.deepEqual((await user(ada.userId)).userTags, []);
  await root.submit("delete_policy", "DELETE_POLICY", { policyId: result.createPolicyResult.policyId });
  calm();
});

// ---- The root quorum

test("who is in the root quorum is marked, and the quorum cannot be changed into nonsense", async () => {
  await go("users", "Users");
  const rootRow = page.getByRole("row").filter({ hasText: "Root user" });
  await rootRow.getByText("Root quorum", { exact: true }).waitFor();
  assert.equal(await page.getByText("Root quorum", { exact: true }).count(), 1);
  await go(`users/${rootUserId}`, "Root user");
  await page.getByText("Member. Alone, this user can do anything, whatever the policies say.").waitFor();
  await go(`users/${bob.userId}`, "Bob");
  assert.equal(await page.getByText("Root quorum").count(), 0);

  await root.submit("enable_auth_proxy", "ENABLE_AUTH_PROXY", {});
  await go("users", "Users");
  await page.getByRole("row").filter({ hasText: "Auth proxy" }).locator(".badge", { hasText: "Not a person" }).waitFor();
  await page.getByRole("link", { name: "Auth proxy", exact: true }).waitFor();
  await picture(page, "users-proxy");
  await go("settings", "Features");
  await click("Change quorum");
  await dialog().getByLabel("not a person, but the auth proxy").waitFor();
  assert.equal(await dialog().getByText("The auth proxy would be a member").count(), 0);
  await dialog().getByLabel("not a person, but the auth proxy").check();
  await dialog().getByText("The auth proxy would be a member").waitFor();
  await picture(page, "quorum-proxy");
  await dialog().getByLabel("not a person, but the auth proxy").uncheck();
  await dialog().getByText("The auth proxy would be a member").waitFor({ state: "detached" });
  await dialog().getByLabel("Bob").check();
  const threshold = dialog().getByLabel("Members who must agree");
  await threshold.fill("3");
  assert.deepEqual(await asked(async () => {
    await click("Change", dialog());
    await dialog().locator(".field .error", { hasText: "At most 2: the quorum has 2 members." }).waitFor();
    assert.equal(await threshold.getAttribute("aria-invalid"), "true");
    await picture(page, "quorum-threshold");
    await dialog().getByLabel("Bob").uncheck();
    assert.equal(await dialog().locator(".field .error", { hasText: "At most 2" }).count(), 0, "said of other members");
    await dialog().getByLabel("Root user").uncheck();
    await threshold.fill("1");
    await click("Change", dialog());
    await dialog().getByRole("alert").filter({ hasText: "Choose at least one member." }).waitFor();
  }), []);
  await dialog().getByLabel("Root user").check();
  await dialog().getByLabel("Bob").check();
  await click("Change", dialog());
  await toast("The root quorum was changed.");
  await go(`users/${bob.userId}`, "Bob");
  await page.getByText("Member. Alone, this user can do anything").waitFor();
  await root.submit("update_root_quorum", "UPDATE_ROOT_QUORUM", { threshold: 1, userIds: [rootUserId] });
  await root.submit("disable_auth_proxy", "DISABLE_AUTH_PROXY", {});
  calm();
});

// ---- Keys

async function newKey(name) {
  await click("New user");
  await labelled("Name").fill(name);
  await click("Create user", dialog());
  await heading(`API key of ${name}`);
  await page.waitForFunction(() => document.querySelectorAll("dialog").length === 1);
}

test("a session is no API key that somebody made", async () => {
  const { publicKey } = await makeOpenKey();
  await ada.client.submit("stamp_login", "STAMP_LOGIN", { publicKey, expirationSeconds: "900" });
  assert.equal((await user(ada.userId)).apiKeys.length, 2);
  await go("users", "Users");
  await page.getByRole("row").filter({ hasText: "Ada" }).getByText("1 API key", { exact: true }).waitFor();
  await go(`users/${ada.userId}`, "Ada");
  await page.getByRole("cell", { name: "Session", exact: true }).first().waitFor();
});

test("a new key is not lost by a slip of the finger", async () => {
  await go("users", "Users");
  await click("New user");
  await dialog().getByRole("link", { name: "invite them" }).waitFor();
  assert.equal(await dialog().getByLabel("Public key").isVisible(), false);
  await dialog().getByLabel("Key pair").selectOption("paste");
  assert(await dialog().getByLabel("Public key").isVisible() && await dialog().getByLabel("Curve").isVisible());
  await dialog().getByLabel("Key pair").selectOption("make");
  await picture(page, "user-new");
  await page.keyboard.press("Escape");
  await gone();
  await newKey("Cleo");
  assert.equal(await focused(), "Download credentials");
  const question = dialog().getByRole("alert").filter({ hasText: "The private key is lost if you close now." });
  for (const ask of [() => page.keyboard.press("Escape"), () => button("Done", dialog()).press("Enter"), () => click("Close", dialog()), () => page.goBack()]) {
    await ask();
    await question.waitFor();
    assert.equal(await focused(), "Back to the key");
    await page.keyboard.press("Enter");
    await question.waitFor({ state: "hidden" });
    assert.equal(await focused(), "Download credentials");
  }
  // Escape twice goes there and back, and never out.
  for (let i = 0; i < 6; i++) await page.keyboard.press("Escape");
  assert(await dialog().isVisible());
  assert(await question.isHidden());
  // Closing the tab is asked about as well.
  const unload = page.waitForEvent("dialog");
  await page.evaluate(() => { setTimeout(() => location.reload()); });
  const asking = await unload;
  assert.equal(asking.type(), "beforeunload");
  await asking.dismiss();
  await dialog().waitFor();
  await page.keyboard.press("Escape");
  await question.waitFor();
  await picture(page, "key-lost");
  await click("Close and lose the key", dialog());
  await gone();

  await page.goto(`${base}#/users`);
  await heading("Users");
  await newKey("Dora");
  const [, privateKey] = await dialog().locator("code").evaluateAll((all) => all.map((c) => c.title));
  await click("Copy public key", dialog());
  assert.equal(await button("Done", dialog()).getAttribute("aria-disabled"), "true"); // that is not the secret
  await click("Copy private key", dialog());
  await page.waitForFunction(() => !document.querySelector("dialog .end [aria-disabled]"));
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), privateKey);
  await page.keyboard.press("Escape");
  await gone();
  calm();
});

test("one file works in the sign-in and in the commands", async () => {
  await go("users", "Users");
  await newKey("Eve");
  const [download] = await Promise.all([page.waitForEvent("download"), page.keyboard.press("Enter")]);
  const file = join(scratch, "credentials-eve.json");
  await download.saveAs(file);
  await picture(page, "key-kept");
  await click("Copy credentials as JSON", dialog());
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  assert.equal(copied, readFileSync(file, "utf8"));
  await click("Done", dialog());
  await gone();
  const { stdout } = await run("bin/cloister-host", ["request", "-credentials", file, "/public/v1/query/whoami", "{}"]);
  const { userId } = JSON.parse(stdout);
  assert.equal((await user(userId)).userName, "Eve");
  // What to expect of the enclave is in the simulator's file, the key in this one. It exits with 1 at any alert.
  const monitor = ["monitor", "-url", apiUrl, "-organization", organizationId, "-key-file", file, "-state", join(scratch, "state"), "-credentials", process.env.CLOISTER_SIM_CREDENTIALS, "-once"];
  const monitored = (await run("bin/cloister-verify", monitor)).stdout.trim().split("\n").map((line) => JSON.parse(line));
  assert(monitored.some((e) => e.event === "log" && e.text === "first generation"));
  assert(monitored.some((e) => e.event === "entry" && e.mode === "bounded"));
  const wrong = await run("bin/cloister-verify", ["-credentials", file, "-boot-proof", file]).catch((error) => error);
  assert.match(wrong.stderr, /not a user's key/);
  const theirs = await open(browser);
  await signIn(theirs.page, file);
  await theirs.page.getByText("Signed in as Eve.").waitFor();
  calm(theirs.complaints);
  await theirs.context.close();
  for (const { userId: id, userName } of (await root.query("list_users")).users) if (["Cleo", "Dora", "Eve"].includes(userName)) await root.submit("delete_users", "DELETE_USERS", { userIds: [id] });
  calm();
});

test("checking a proof does not sign anybody out", async () => {
  const theirs = await open(browser);
  await theirs.page.goto(base);
  await theirs.page.getByText("API key", { exact: true }).click();
  await theirs.page.setInputFiles("input[type=file]", bob.file);
  await theirs.page.waitForFunction((key) => document.querySelector("[name=privateKey]").value === key, bob.pair.privateKey);
  await click("Sign in with the key", theirs.page);
  await heading("Latest activities", theirs.page);
  const [other] = await Promise.all([theirs.context.waitForEvent("page"), theirs.page.getByRole("link", { name: "Verify (opens a new tab)" }).click()]);
  await heading("Verify a proof", other);
  assert.equal(await other.evaluate(() => window.opener), null);
  await other.close();
  await go("users", "Users", theirs.page);
  await theirs.page.getByRole("link", { name: "Ada" }).waitFor();
  calm(theirs.complaints);
  await theirs.context.close();
});

// ---- Invitations

// invited creates an invitation and gives its link.
async function invited(name, email) {
  await click("Invite somebody");
  await labelled("Name").fill(name);
  await labelled("E-mail").fill(email);
  if (await dialog().getByLabel("Crew").count()) await dialog().getByLabel("Crew").check();
  await click("Create invitation", dialog());
  await heading(`Invitation of ${name}`);
  await page.waitForFunction(() => document.querySelectorAll("dialog").length === 1);
  return dialog().getByLabel("Link").inputValue();
}
const replyAt = async (at) => ({ link: await at.getByLabel("Reply").inputValue(), code: await at.locator(".replycode").innerText() });

let tag;
test("an invited person comes in with a passkey that nobody else has had", async () => {
  tag = (await root.submit("create_user_tag", "CREATE_USER_TAG", { userTagName: "Crew", userIds: [] })).result.createUserTagResult.userTagId;
  await go("users/invitations", "Invitations");
  await page.getByText("Nobody is invited.").waitFor();
  await click("Invite somebody");
  await labelled("Name").fill("Ada");
  await labelled("E-mail").fill("fay@example.com");
  await picture(page, "invitation-new");
  await click("Create invitation", dialog());
  await dialog().locator(".field .error", { hasText: "with this name already." }).waitFor();
  await page.keyboard.press("Escape");
  await gone();
  const link = await invited("Fay", "fay@example.com");
  assert.equal(await focused(), "Copy the link");
  await page.keyboard.press("Enter");
  await toast("Copied the link.");
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), link);
  const mail = new URL(await dialog().getByRole("link", { name: "Write an e-mail" }).getAttribute("href"));
  assert.equal(mail.protocol, "mailto:");
  assert.equal(decodeURIComponent(mail.pathname), "fay@example.com");
  assert(mail.searchParams.get("body").includes(link));
  await picture(page, "invitation-link");
  await click("Done", dialog());
  await page.getByText("Open", { exact: true }).waitFor();
  await picture(page, "invitations");

  const theirs = await open(browser);
  await authenticator(theirs.page);
  const asks = [];
  theirs.page.on("request", (r) => { if (!r.url().startsWith(`${apiUrl}/dashboard/`)) asks.push(r.url()); });
  await theirs.page.goto(link);
  await heading(`Join ${home}`, theirs.page);
  await theirs.page.getByText("You were invited as Fay.").waitFor();
  await picture(theirs.page, "invited");
  await theirs.page.getByLabel("Name of the passkey").fill("Phone");
  await click("Create passkey", theirs.page);
  await heading("One step is left", theirs.page);
  assert.equal(await focused(theirs.page), "One step is left");
  const { link: reply, code } = await replyAt(theirs.page);
  assert.match(code, /^([0-9a-f]{4} ){4}[0-9a-f]{4}$/);
  await picture(theirs.page, "invited-replied");
  assert.deepEqual(asks, []); // the server learns nothing

  await click("Enter reply of Fay");
  await dialog().getByLabel("Reply").fill("no reply");
  await click("Continue", dialog());
  await dialog().getByRole("alert").filter({ hasText: "This is no reply" }).waitFor();
  await dialog().getByLabel("Reply").fill(`Hello,\n${reply}\nFay`);
  await click("Continue", dialog());
  await heading("Let Fay in");
  await settled();
  assert.equal(await page.locator(".replycode").innerText(), code);
  await page.getByText("The passkey “Phone”").waitFor();
  await page.getByText(new URL(base).origin, { exact: true }).waitFor();
  await picture(page, "invitation-reply");
  const { activities: before } = await root.query("list_activities", { filterByType: ["ACTIVITY_TYPE_ACCEPT_INVITATION_V2"] });
  await click("Let Fay in"); // without a tick nothing is sent
  assert.equal((await root.query("list_activities", { filterByType: ["ACTIVITY_TYPE_ACCEPT_INVITATION_V2"] })).activities.length, before.length);
  await page.getByLabel("Fay has told me the same code").check();
  await click("Let Fay in");
  await toast("Fay was added and can sign in.");
  await heading("Users");
  await page.getByRole("row").filter({ hasText: "Fay" }).locator(".badge.tag", { hasText: "Crew" }).waitFor();

  await click("Go to the sign-in", theirs.page);
  await heading("Cloister", theirs.page);
  await theirs.page.locator(".organization", { hasText: organizationId }).getByText(home).waitFor();
  await click("Sign in with a passkey", theirs.page);
  await heading("Latest activities", theirs.page);
  await theirs.page.getByText("Signed in as Fay.").waitFor();
  calm(theirs.complaints);
  await theirs.context.close();

  await go("users/invitations", "Invitations");
  await page.getByText("Joined", { exact: true }).waitFor();
  assert.equal(await page.getByRole("button", { name: /Fay/ }).count(), 0);
  await page.goto(reply);
  await page.getByText("This invitation is no longer open. They are a user already.").waitFor();
  calm();
});

test("an invited person comes in with an API key that is made in the browser", async () => {
  await go("users/invitations", "Invitations");
  const link = await invited(hostile, "gus@example.com");
  await click("Done", dialog());
  const theirs = await open(browser, { acceptDownloads: true });
  const at = theirs.page;
  await at.goto(link.replace("localhost", "127.0.0.1")); // where there are no passkeys
  await at.getByText("Passkeys need a host name and HTTPS").waitFor();
  await at.getByText(`You were invited as ${hostile}.`).waitFor();
  assert.equal(await at.locator("main img").count(), 0);
  await picture(at, "invited-no-passkeys");
  await at.goto(link);
  await at.getByText("API key", { exact: true }).click();
  await click("Create API key", at);
  await heading(`API key of ${hostile}`, at);
  await at.keyboard.press("Escape");
  await click("Close and lose the key", at);
  await gone(at);
  assert.equal(await at.getByText("One step is left").count(), 0);
  await click("Create API key", at);
  const [download] = await Promise.all([at.waitForEvent("download"), click("Download credentials", at)]);
  const file = join(scratch, "credentials-gus.json");
  await download.saveAs(file);
  await click("Done", at);
  await heading("One step is left", at);
  const { link: reply, code } = await replyAt(at);
  assert(!Buffer.from(new URL(reply).hash.split("reply=")[1], "base64url").toString().includes(JSON.parse(readFileSync(file)).privateKey));
  const types = (await asked(async () => {
    await page.goto(reply);
    await heading(`Let ${hostile} in`);
    await settled();
    assert.equal(await page.locator(".replycode").innerText(), code);
    await page.getByRole("checkbox").check();
    await click(`Let ${hostile} in`);
    await toast("was added and can sign in.");
    await heading("Users");
  })).map(([type]) => type);
  assert.deepEqual(types, ["CREATE_USERS_V4", "DELETE_INVITATION"]);
  assert.equal(await page.locator("main img").count(), 0);
  await signIn(at, file);
  await at.getByText(`Signed in as ${hostile}.`).waitFor();
  calm(theirs.complaints);
  await theirs.context.close();
  await go("users/invitations", "Invitations");
  assert.equal(await page.getByText("Joined", { exact: true }).count(), 2);
  calm();
});

test("links and replies that are not whole, not for here, too late or of somebody else are told as that", async () => {
  await go("users/invitations", "Invitations");
  const link = await invited("Hal", "hal@example.com");
  await click("Done", dialog());
  const id = new URLSearchParams(link.split("?")[1]).get("invitation");
  const theirs = await open(browser);
  await authenticator(theirs.page);
  await theirs.page.goto(link.slice(0, link.indexOf("&name")));
  await theirs.page.getByText("This link is incomplete.").waitFor();
  await picture(theirs.page, "invited-incomplete");
  await theirs.page.goto(link);
  await click("Create passkey", theirs.page);
  await heading("One step is left", theirs.page);
  const { link: reply } = await replyAt(theirs.page);
  const token = reply.split("reply=")[1];
  const content = JSON.parse(Buffer.from(token, "base64url"));
  const made = (change) => { const copy = structuredClone(content); change(copy); return Buffer.from(JSON.stringify(copy)).toString("base64url"); };
  for (const [part, text] of [
    [`${id}?reply=${token.slice(0, 60)}`, "This is no reply to an invitation, or a part of it is missing."],
    [`${id}?reply=`, "This is no reply to an invitation"],
    [id, "This is no reply to an invitation"],
    [`${id}?reply=${made((r) => { delete r.authenticator; })}`, "This is no reply to an invitation"],
    [`${id}?reply=${made((r) => { r.organizationId = "00000000-0000-4000-8000-000000000000"; })}`, "This reply is for another organization than yours"],
    [`${rootUserId}?reply=${token}`, "This reply is to another invitation."],
    [`${rootUserId}?reply=${made((r) => { r.invitationId = rootUserId; })}`, "There is no such invitation."],
  ]) {
    await page.goto(`${base}#/users/invitations/${part}`);
    await page.getByRole("alert").filter({ hasText: text }).waitFor();
  }
  // A passkey that somebody has exchanged on the way has another code; one of another address says so, and the enclave refuses what does not fit.
  const code = await theirs.page.locator(".replycode").innerText();
  await page.goto(`${base}#/users/invitations/${id}?reply=${made((r) => { r.authenticator.challenge = "b3RoZXI"; })}`);
  await heading("Let Hal in");
  await settled();
  assert.notEqual(await page.locator(".replycode").innerText(), code);
  await page.getByRole("checkbox").check();
  await click("Let Hal in");
  await page.getByRole("alert").filter({ hasText: /challenge/i }).waitFor();
  await picture(page, "invitation-reply-refused");
  const elsewhere = (r) => { r.authenticator.attestation.clientDataJson = Buffer.from(JSON.stringify({ type: "webauthn.create", challenge: "", origin: "https://evil.example" })).toString("base64url"); };
  await page.goto(`${base}#/users/invitations/${id}?reply=${made(elsewhere)}`);
  await page.getByText(`It does not work here, at ${new URL(base).origin}.`).waitFor();
  // Too late, by the clock of the page's answer.
  await page.route("**/query/get_organization", async (route) => {
    const answer = await route.fetch();
    const json = await answer.json();
    for (const i of json.organizationData.invitations) i.createdAt.seconds = String(Number(i.createdAt.seconds) - 86401);
    await route.fulfill({ response: answer, json });
  });
  await page.goto(reply);
  await page.getByText("This invitation is no longer open. It has expired. Invite them again.").waitFor();
  await go("users/invitations", "Invitations");
  await page.getByText("Expired", { exact: true }).waitFor();
  await page.unroute("**/query/get_organization");
  await page.reload();
  await click("Delete the invitation of Hal");
  await click("Delete", dialog());
  await toast("The invitation was deleted.");
  await page.getByText("Deleted", { exact: true }).waitFor();
  await page.goto(reply);
  await page.getByText("This invitation is no longer open. It was deleted.").waitFor();
  calm(theirs.complaints);
  await theirs.context.close();
  calm();
});

// ---- MFA policies

test("MFA policies are made, read in words, changed and deleted", async () => {
  await go(`users/${bob.userId}`, "Bob");
  const part = page.getByRole("region", { name: "MFA policies" });
  await part.getByText("No MFA policies: one credential is enough").waitFor();
  await page.getByText("No passkeys. Only the user can add one, after signing in.").waitFor();
  await page.getByRole("link", { name: "invite them" }).waitFor();
  await click("New MFA policy");
  await labelled("Name").fill("Signing <b>twice</b>");
  await dialog().locator("textarea[name=condition]").fill("activity.action ==");
  await click("Create MFA policy", dialog());
  await dialog().getByRole("alert").filter({ hasText: "Choose at least one credential." }).waitFor();
  await dialog().getByLabel("A passkey").check();
  await click("Create MFA policy", dialog());
  await dialog().locator(".field .error", { hasText: /^Unexpected end/ }).waitFor();
  assert.equal(await dialog().locator(".alert").textContent(), "");
  assert.equal(await page.evaluate(() => document.activeElement.name), "condition");
  await dialog().locator("textarea[name=condition]").fill("activity.action == 'SIGN'");
  await click("Create MFA policy", dialog());
  await dialog().getByRole("alert").filter({ hasText: "no credential that passes" }).waitFor(); // Bob has no passkey
  await picture(page, "mfa-refused");
  await dialog().getByLabel("A passkey").uncheck();
  await dialog().getByLabel("The API key “key”").check();
  await click("Require another credential", dialog());
  assert.equal(await page.evaluate(() => document.activeElement.closest("fieldset").dataset.choices), "step1");
  const second = dialog().getByRole("group", { name: "Credential 2: one of" });
  await second.getByLabel("A passkey").check();
  await click("Create MFA policy", dialog());
  await dialog().getByRole("alert").filter({ hasText: "Credential 2: The user has no credential that passes this step" }).waitFor();
  await second.getByLabel("A passkey").uncheck();
  await second.getByLabel("A code by e-mail").check();
  await second.getByLabel("A social identity").check();
  await picture(page, "mfa-new");
  const keyId = (await user(bob.userId)).apiKeys[0].apiKeyId;
  const steps = [{ any: [{ type: "AUTHENTICATION_TYPE_API_KEY", id: keyId }] }, { any: [{ type: "AUTHENTICATION_TYPE_EMAIL_OTP" }, { type: "AUTHENTICATION_TYPE_OAUTH" }] }];
  assert.deepEqual(await asked(async () => { await click("Create MFA policy", dialog()); await gone(); await settled(); }), [["CREATE_MFA_POLICY", {
    userId: bob.userId, mfaPolicyName: "Signing <b>twice</b>", condition: "activity.action == 'SIGN'", order: 1, notes: "", requiredAuthenticationMethods: steps }]]);
  await part.getByText("Asks for 2 different credentials:").waitFor();
  assert.deepEqual(await part.locator("ol li").allInnerTexts(), ["the API key “key”", "a code by e-mail or a social identity"]);
  await picture(page, "user-mfa");

  const [{ mfaPolicyId }] = (await user(bob.userId)).mfaPolicies;
  await click("Edit Signing <b>twice</b>");
  await click("Save", dialog());
  await toast("No changes to save.");
  await gone();
  assert.deepEqual(await asked(async () => {
    await click("Edit Signing <b>twice</b>");
    await click("Remove credential 2", dialog());
    await dialog().getByLabel("Notes").fill("Why");
    await click("Save", dialog());
    await gone();
    await settled();
  }), [["UPDATE_MFA_POLICY", { userId: bob.userId, mfaPolicyId, notes: "Why", requiredAuthenticationMethods: [steps[0]] }]]);
  await part.getByText("Asks for the API key “key”.").waitFor();
  // Another of the same name or order.
  await click("New MFA policy");
  assert.equal(await dialog().getByLabel("Order").inputValue(), "2");
  await labelled("Name").fill("Other");
  await dialog().locator("textarea[name=condition]").fill("true");
  await dialog().getByLabel("An API key").check();
  await dialog().getByLabel("Order").fill("1");
  await click("Create MFA policy", dialog());
  await dialog().locator(".field .error", { hasText: "must be unique" }).waitFor();
  await page.keyboard.press("Escape");
  await gone();
  await click("Delete Signing <b>twice</b>");
  await click("Delete", dialog());
  await part.getByText("No MFA policies").waitFor();
  calm();
});

// ---- Who may not

test("who may not gets the reason, and nothing changes", async () => {
  const theirs = await open(browser);
  const at = theirs.page;
  await signIn(at, ada.file);
  const refused = async (act, place = dialog(at)) => {
    await act();
    await place.getByRole("alert").filter({ hasText: /^Refused|root quorum/ }).first().waitFor();
    await at.keyboard.press("Escape");
    await gone(at);
  };
  await go(`users/${ada.userId}`, "Ada", at);
  await refused(async () => { await click("Edit", at); await labelled("Name", at).fill("Queen"); await click("Save", dialog(at)); });
  await go(`users/${bob.userId}`, "Bob", at);
  await refused(async () => {
    await click("New MFA policy", at);
    await labelled("Name", at).fill("M");
    await dialog(at).locator("textarea[name=condition]").fill("true");
    await labelled("An API key", at).check();
    await click("Create MFA policy", dialog(at));
  });
  await go("users/tags", "Tags of users", at);
  await refused(async () => { await click("Delete Crew", at); await click("Delete tag", dialog(at)); });
  await go("users/invitations", "Invitations", at);
  await refused(async () => { await click("Invite somebody", at); await labelled("Name", at).fill("Ivy"); await labelled("E-mail", at).fill("ivy@example.com"); await click("Create invitation", dialog(at)); });
  assert.equal((await user(ada.userId)).userName, "Ada");
  assert.deepEqual((await user(bob.userId)).mfaPolicies, []);
  assert((await root.query("list_user_tags")).userTags.some((t) => t.tagId === tag));
  calm(theirs.complaints);
  await theirs.context.close();
});

test("a quorum of two: what waits for others is told, and an invited person is let in once they agree", async () => {
  await root.submit("update_root_quorum", "UPDATE_ROOT_QUORUM", { threshold: 2, userIds: [rootUserId, bob.userId] });
  const agree = async () => {
    const [activity] = (await root.query("list_activities", { filterByStatus: ["ACTIVITY_STATUS_CONSENSUS_NEEDED"], paginationOptions: { limit: "1" } })).activities;
    await bob.client.submit("approve_activity", "APPROVE_ACTIVITY", { fingerprint: activity.fingerprint });
  };
  await go(`users/${ada.userId}`, "Ada");
  await edit({ Name: "Augusta", "E-mail": "" });
  await toast("Others must approve this first.");
  await gone();
  assert.equal((await user(ada.userId)).userName, "Ada");
  await agree();
  // A key of a user who is none yet says so.
  await go("users", "Users");
  await newKey("Dora");
  await dialog().getByText("This key does not work yet").waitFor();
  await dialog().getByText("Dora is no user until then.").waitFor();
  await picture(page, "user-new-waits");
  await click("Copy private key", dialog());
  await click("Done", dialog());
  await gone();
  assert.equal(await page.getByRole("link", { name: "Dora" }).count(), 0);
  await agree();
  await page.reload();
  await page.getByRole("link", { name: "Dora" }).waitFor();
  await go("users/invitations", "Invitations");
  await click("Invite somebody");
  await labelled("Name").fill("Jo");
  await labelled("E-mail").fill("jo@example.com");
  await click("Create invitation", dialog());
  await toast("Others must approve this first.");
  await gone();
  assert.equal(await page.getByText("jo@example.com").count(), 0);
  await agree();
  await page.reload();
  await click("Link of Jo");
  const link = await dialog().getByLabel("Link").inputValue();
  await click("Done", dialog());
  const theirs = await open(browser);
  await authenticator(theirs.page);
  await theirs.page.goto(link);
  await click("Create passkey", theirs.page);
  await heading("One step is left", theirs.page);
  await page.goto((await replyAt(theirs.page)).link);
  await heading("Let Jo in");
  await settled();
  await page.getByRole("checkbox").check();
  await click("Let Jo in");
  await toast("Others must approve this first.");
  await heading("Invitations");
  await agree();
  await page.reload();
  await page.getByRole("row").filter({ hasText: "jo@example.com" }).getByText("Joined", { exact: true }).waitFor();
  calm(theirs.complaints);
  await theirs.context.close();
  calm();
});
