// The settings of an organization: its name, root quorum, features, session profiles, IP allowlists and its end, in an organization of
// its own that is deleted last.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import http from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch, open, picture, signIn as enter } from "./browser.mjs";
import { Client } from "./client.mjs";
import { controls } from "./controls.mjs";
import { apiUrl, base, organizationId, root, rootUserId, scratch } from "./setting.mjs";
import { makeOpenKey, stampWithKey } from "./stamp.mjs";

const hostile = `<img src=x onerror="alert(1)"> & Söhne`;
let browser, page, complaints, ada;
let sent = []; // the activities that the page has asked for

before(async () => {
  const pair = await makeOpenKey();
  const { result } = await root.submit("create_users", "CREATE_USERS_V4", { users: [{ userName: "Ada", userEmail: "ada@example.com", apiKeys: [{ apiKeyName: "key", publicKey: pair.publicKey, curveType: "API_KEY_CURVE_P256" }], authenticators: [], oauthProviders: [], userTags: [] }] });
  const file = join(scratch, "settings-ada.json");
  writeFileSync(file, JSON.stringify({ organizationId, ...pair }));
  ada = { userId: Object.values(result)[0].userIds[0], pair, file };
  browser = await launch();
  ({ page, complaints } = await open(browser));
  page.on("request", (r) => { if (r.method() === "POST" && r.url().includes("/submit/")) { const { type, parameters } = r.postDataJSON(); sent.push([type.replace("ACTIVITY_TYPE_", ""), parameters]); } });
  await enter(page, base, process.env.CLOISTER_CREDENTIALS);
  await heading("Latest activities");
});
after(() => browser?.close());

const calm = (of = complaints) => { assert.deepEqual(of, []); };
const { heading, button, click, toast, dialog, gone, settled, go } = controls(() => page);
const part = (name, at = page) => at.getByRole("region", { name, exact: true });
const faulty = (text, place = page) => place.locator(".field .error", { hasText: text }).waitFor();
const row = (name) => page.getByRole("row").filter({ has: page.locator("p.strong").getByText(name, { exact: true }) });
// asked gives what the page has asked for while something was done.
async function asked(act) {
  sent = [];
  await act();
  return sent;
}

// from sends a request from another address of this machine. It gives the status and the answer.
async function from(address, path, content) {
  const { publicKey, key } = root;
  const body = JSON.stringify({ organizationId, ...content });
  const headers = { "Content-Type": "application/json", ...(await stampWithKey(await key, publicKey, body)) };
  return new Promise((done, failed) => {
    const request = http.request({ host: "127.0.0.1", port: new URL(apiUrl).port, localAddress: address, path, method: "POST", headers }, (answer) => {
      let text = "";
      answer.on("data", (part) => { text += part; });
      answer.on("end", () => done({ status: answer.statusCode, ...JSON.parse(text) }));
    });
    request.on("error", failed);
    request.end(body);
  });
}
const whoami = (address) => from(address, "/public/v1/query/whoami", {});

// ---- The name

test("the organization is renamed, and its new name stands everywhere", async () => {
  await go("overview", "Latest activities");
  await page.locator(".rootquorum").getByText("One member, who decides alone.").waitFor();
  await page.locator(".rootquorum").getByRole("link", { name: "Settings" }).click();
  await heading("Settings");
  await settled();
  await picture(page, "settings");
  const { organizationName: old } = await root.query("whoami");
  await click("Rename");
  assert.equal(await dialog().getByLabel("Name").inputValue(), old);
  assert.deepEqual(await asked(async () => {
    await click("Rename", dialog());
    await dialog().getByRole("alert").filter({ hasText: "This is its name already." }).waitFor();
  }), []);
  await dialog().getByLabel("Name").fill("x".repeat(300));
  await click("Rename", dialog());
  await faulty(/./, dialog());
  await dialog().getByLabel("Name").fill(hostile);
  // Who leaves with a change that is not saved is asked.
  await page.evaluate(() => { location.hash = "#/users"; });
  await heading("Leave without saving?");
  await click("Stay", dialog());
  assert.equal(await dialog().getByLabel("Name").inputValue(), hostile);
  await picture(page, "settings-rename");
  await click("Rename", dialog());
  await toast("is called");
  await gone();
  await settled();
  assert.equal(await page.locator(".brand").innerText(), hostile);
  assert.equal(await page.title(), `Settings – ${hostile} – Cloister`);
  assert.equal((await root.query("whoami")).organizationName, hostile);
  await page.reload();
  await heading("Settings");
  assert.equal(await page.locator(".brand").innerText(), hostile);
  assert.equal(await page.locator("main img").count(), 0);
  await go("overview", hostile);
  // Somebody else renames it.
  await root.submit("update_organization_name", "UPDATE_ORGANIZATION_NAME", { organizationName: "Acme" });
  await page.reload();
  await heading("Acme");
  assert.equal(await page.locator(".brand").innerText(), "Acme");
  calm();
});

// ---- Features

test("every feature that the enclave serves is there, and is turned on and off with words", async () => {
  const sources = ["organization/features.go", "user/authenticators.go", "user/verification.go"].map((f) => readFileSync(`enclave/internal/activity/${f}`, "utf8"))
    .concat(["organization.go", "webhooks.go"].map((f) => readFileSync(`enclave/internal/org/${f}`, "utf8")));
  const served = new Set(sources.join("").match(/FEATURE_NAME_[A-Z_]+/g));
  for (const name of /futures = .*?\{(.*?)\}/.exec(sources[0])[1].match(/FEATURE_NAME_[A-Z_]+/g).concat("FEATURE_NAME_SIGNING_FROZEN", "FEATURE_NAME_AUTH_PROXY")) served.delete(name);
  const shown = readFileSync("host/dashboard/web/sections/features.js", "utf8").match(/name: "FEATURE_NAME_[A-Z_]+/g).map((t) => t.slice(7));
  assert.deepEqual(shown.sort(), [...served].sort());

  await go("settings", "Features");
  assert.deepEqual(await part("Features").locator("h3").allInnerTexts(), ["Sign-in", "Recovery", "Approvals", "Log", "Webhooks"]);
  for (const [title, name, onWarns, offWarns] of [
    ["E-mail sign-in codes", "OTP_EMAIL_AUTH", "mailbox", ""], ["E-mail recovery of root users", "ROOT_USER_EMAIL_RECOVERY", "The root quorum can do anything.", ""],
    ["Approvals name what was shown", "DECODED_VOTES", "", "without a proof"], ["Strict log", "STRICT_LOG", "", "host that lies"],
  ]) {
    const warned = async (text) => {
      if (text) await dialog().locator(".unread", { hasText: text }).waitFor();
      else assert.equal(await dialog().locator(".unread").count(), 0, title);
    };
    await click(`Turn on: ${title}`);
    await warned(onWarns);
    if (name === "ROOT_USER_EMAIL_RECOVERY") await picture(page, "settings-feature-weakens");
    await click("Cancel", dialog());
    await gone();
    assert.deepEqual(await asked(async () => {
      await click(`Turn on: ${title}`);
      await click("Turn on", dialog());
      await button(`Turn off: ${title}`).waitFor();
    }), [["SET_ORGANIZATION_FEATURE", { name: `FEATURE_NAME_${name}`, value: "" }]]);
    await click(`Turn off: ${title}`);
    await warned(offWarns);
    await click("Turn off", dialog());
    await button(`Turn on: ${title}`).waitFor();
  }
  assert.deepEqual((await root.query("get_organization_configs")).configs.features, []);
  calm();
});

test("a feature with a value says which entry is at fault, and why", async () => {
  await go("settings", "Features");
  await click("Turn on: Passkey origins");
  const origins = dialog().getByLabel("Origins");
  const saves = async (text) => { await origins.fill(text); await click("Save", dialog()); };
  assert.deepEqual(await asked(async () => {
    for (const [line, why] of [
      ["https://app.example.com/login", "Leave out “/login”: https://app.example.com"], ["https://app.example.com/", "Leave out the slash at the end: https://app.example.com"], ["http://app.example.com", "Only localhost may have http://"],
      ["app.example.com", "The scheme is missing. Write https://app.example.com"], ["https://*.example.com", "An origin has no wildcard."], ["https://192.0.2.7", "Passkeys do not work on addresses"], ["https://app.example.com:0", "“0” is no port"],
    ]) {
      await saves(`https://good.example.com\n\n${line}`);
      await faulty(`Line 3, “${line}”: `, dialog());
      await faulty(why, dialog());
      assert.equal(await origins.getAttribute("aria-invalid"), "true");
    }
    await saves("app\nhttps://good.example.com\nhttps://app.example.com/x");
    await faulty("Line 1, “app”: ", dialog());
    await faulty("Line 3, “https://app.example.com/x”: ", dialog());
    await dialog().getByText("Passkeys would not work on this page").waitFor();
    await picture(page, "settings-origins-wrong");
  }), []);
  await origins.fill(`https://app.example.com\n${new URL(base).origin}`);
  await dialog().getByText("Passkeys would not work on this page").waitFor({ state: "detached" });
  assert.deepEqual(await asked(async () => { await click("Save", dialog()); await toast("Saved: Passkey origins."); }),
    [["SET_ORGANIZATION_FEATURE", { name: "FEATURE_NAME_WEBAUTHN_ORIGINS", value: `https://app.example.com,${new URL(base).origin}` }]]);
  await root.submit("set_organization_feature", "SET_ORGANIZATION_FEATURE", { name: "FEATURE_NAME_WEBAUTHN_ORIGINS", value: "https://app.example.com/" });
  await root.submit("remove_organization_feature", "REMOVE_ORGANIZATION_FEATURE", { name: "FEATURE_NAME_WEBAUTHN_ORIGINS" });

  await go("settings", "Features");
  await click("Turn on: Mails to approvers");
  await dialog().getByLabel("Dashboard URL").fill("https://cloister.example.com/dashboard/#top");
  await click("Save", dialog());
  await faulty("without user and fragment", dialog());
  await dialog().getByLabel("Dashboard URL").fill("");
  await click("Save", dialog());
  await toast("Saved: Mails to approvers.");
  await gone();
  await settled();
  await click("Change: Mails to approvers");
  await dialog().getByLabel("Dashboard URL").fill("https://cloister.example.com/dashboard/");
  await click("Save", dialog());
  await part("Features").locator("code", { hasText: "https://cloister.example.com/dashboard/" }).waitFor();
  await click("Turn off: Mails to approvers");
  await click("Turn off", dialog());
  await button("Turn on: Mails to approvers").waitFor();
  calm();
});

test("where the auth proxy has a switch of its own, both are shown", async () => {
  await go("settings", "Features");
  assert.equal(await page.getByText("for people who sign in through your web pages").count(), 0);
  await root.submit("enable_auth_proxy", "ENABLE_AUTH_PROXY", {});
  await root.submit("update_auth_proxy_config", "UPDATE_AUTH_PROXY_CONFIG", { allowedAuthMethods: ["email", "passkey"] });
  await page.reload();
  await heading("Features");
  await row("E-mail sign-in codes").getByText("Off here. On for people who sign in through your web pages (Auth).").waitFor();
  await row("SMS sign-in codes").getByText("Off here, and off for people who sign in through your web pages (Auth).").waitFor();
  assert.equal(await page.getByText("for people who sign in").count(), 2);
  await settled();
  await picture(page, "settings-both-switches");
  await click("Turn on: E-mail sign-in codes");
  await click("Turn on", dialog());
  await row("E-mail sign-in codes").getByText("On here, and on for people who sign in through your web pages (Auth).").waitFor();
  await root.submit("update_auth_proxy_config", "UPDATE_AUTH_PROXY_CONFIG", { allowedAuthMethods: ["passkey"] });
  await page.reload();
  await row("E-mail sign-in codes").getByText("On here. Off for people who sign in through your web pages (Auth).").waitFor();
  await row("E-mail sign-in codes").getByRole("link", { name: "Auth" }).click();
  await heading("Auth");
  // A reader who cannot read the proxy's settings sees the switch here alone.
  await page.route("**/query/get_auth_proxy_config", (route) => route.fulfill({ status: 403, json: { code: 7, message: "request not authorized" } }));
  await go("settings", "Features");
  assert.equal(await page.getByText("for people who sign in").count(), 0);
  await page.unroute("**/query/get_auth_proxy_config");
  await root.submit("disable_auth_proxy", "DISABLE_AUTH_PROXY", {});
  await root.submit("remove_organization_feature", "REMOVE_ORGANIZATION_FEATURE", { name: "FEATURE_NAME_OTP_EMAIL_AUTH" });
  calm();
});

// ---- The address book

const book = async () => JSON.parse((await root.query("get_organization_configs")).configs.features.find((f) => f.name === "FEATURE_NAME_ADDRESS_BOOK")?.value ?? "[]");

test("addresses get names, one by one or from lines, and none twice", async () => {
  const payroll = "0x52908400098527886E0F7030069857D2E4169EE7";
  const desk = "9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM";
  await go("settings", "Features");
  await page.getByRole("link", { name: "Open: Address book" }).click();
  await heading("Address book");
  await page.getByText("There is no address in it yet.").waitFor();
  await click("Add an address");
  await dialog().getByLabel("Name").fill("Payroll");
  await dialog().getByLabel("Address").fill("not an address");
  await click("Add address", dialog());
  assert.deepEqual(await book(), [], "the browser refuses it"); // by the field's pattern
  await dialog().getByLabel("Address").fill(payroll);
  await picture(page, "address-book-add");
  await click("Add address", dialog());
  await toast("Payroll was added.");
  await gone();
  await settled();
  assert.deepEqual(await book(), [{ name: "Payroll", address: payroll }]);

  await click("Add an address");
  await dialog().getByLabel("Name").fill("payroll");
  await dialog().getByLabel("Address").fill(desk);
  await click("Add address", dialog());
  await faulty("There is an address with this name already: payroll.", dialog());
  await dialog().getByLabel("Name").fill("Desk");
  await dialog().getByLabel("Address").fill(payroll.toLowerCase());
  await click("Add address", dialog());
  await faulty("This address is in the address book already, as Payroll.", dialog());
  await click("Cancel", dialog());
  await gone();

  await click("Add several");
  await dialog().getByLabel("Names and addresses").fill(`Trading desk, ${desk}\nno address here!`);
  await click("Add addresses", dialog());
  await faulty("Line 2 is not a name, a comma and an address: no address here!", dialog());
  await dialog().getByLabel("Names and addresses").fill(`Trading desk, ${desk}\n${hostile}, TJRabPrwbZy45sbavfcjinPJC18kjpRTv8`);
  await click("Add addresses", dialog());
  await toast("2 addresses were added.");
  await gone();
  await settled();
  await page.getByRole("row").filter({ hasText: "Trading desk" }).getByText(desk).waitFor();
  assert.equal(await page.locator("main img").count(), 0);
  await picture(page, "address-book");

  // What somebody else has changed meanwhile stays.
  await root.submit("set_organization_feature", "SET_ORGANIZATION_FEATURE", { name: "FEATURE_NAME_ADDRESS_BOOK", value: JSON.stringify([...(await book()), { name: "Bank", address: "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq" }]) });
  await click("Edit Trading desk");
  await dialog().getByLabel("Name").fill("Desk");
  await click("Save", dialog());
  await toast("Saved.");
  await gone();
  await settled();
  assert.deepEqual((await book()).map((e) => e.name).sort(), [hostile, "Bank", "Desk", "Payroll"].sort());
  await click("Remove Bank");
  await click("Remove", dialog());
  await toast("Bank was removed.");
  await gone();
  assert.equal((await book()).length, 3);
  calm();
});

// ---- Session profiles

test("a session profile is made, and limits a session", async () => {
  await go("settings", "Session profiles");
  await part("Session profiles").getByText("There is no session profile.").waitFor();
  await click("New session profile");
  await heading("New session profile");
  const scope = page.locator("[name=scope]");
  await page.getByLabel("Name").fill("Tags only");
  await scope.fill("activity.kind == 'CREATE_USER_TAG' &&");
  assert.deepEqual(await asked(async () => { await click("Create session profile"); await page.locator(".field .error", { hasText: /./ }).first().waitFor(); }), []);
  await page.goto(`${base}#/users`);
  await heading("Leave without saving?");
  await click("Stay", dialog());
  await gone();
  await scope.fill("activity.kind == 'CREATE_USER_TAG'");
  await page.getByText("It gets no new rights").waitFor(); // told while it is written
  await page.getByLabel("Longest session (seconds)").fill("3600");
  await page.getByLabel("Notes").fill("For the <b>importer</b>");
  await picture(page, "settings-profile-new");
  assert.deepEqual(await asked(async () => { await click("Create session profile"); await heading("Tags only"); }),
    [["CREATE_SESSION_PROFILE", { sessionProfileName: "Tags only", scope: "activity.kind == 'CREATE_USER_TAG'", expirationSeconds: "3600", notes: "For the <b>importer</b>" }]]);
  await settled();
  const [profile] = (await root.query("get_session_profiles")).sessionProfiles;
  const id = profile.sessionProfileId;
  await page.getByText(id, { exact: true }).waitFor();
  await page.getByText("At most 1 hour").waitFor();
  await page.getByText(`activity.params.session_profile_id == '${id}'`).waitFor();
  await page.getByText("It reads everything that its user may read.").waitFor();
  await picture(page, "settings-profile");

  // A session of the profile does what the scope says and nothing else, whoever its user is.
  const pair = await makeOpenKey();
  const { result } = await root.submit("stamp_login", "STAMP_LOGIN", { publicKey: pair.publicKey, sessionProfileId: id });
  const token = JSON.parse(Buffer.from(Object.values(result)[0].session.split(".")[1], "base64url"));
  assert.equal(token.session_profile_id, id);
  const theirs = new Client({ apiUrl, organizationId, ...pair });
  assert.equal((await theirs.query("whoami")).userId, rootUserId);
  await theirs.submit("create_user_tag", "CREATE_USER_TAG", { userTagName: "From a session", userIds: [] });
  await assert.rejects(theirs.submit("update_organization_name", "UPDATE_ORGANIZATION_NAME", { organizationName: "Stolen" }), /update_organization_name: /);
  assert.equal((await root.query("whoami")).organizationName, "Acme");

  // Another of the same name, and a length beyond 30 days.
  await go("settings/profiles/new", "New session profile");
  await page.getByLabel("Name").fill("Tags only");
  await scope.fill("true");
  await page.getByText("A session with this profile may ask for:").waitFor();
  await click("Create session profile");
  await faulty("There is a session profile with this name already.");
  await page.getByLabel("Name").fill("Endless");
  await page.getByLabel("Longest session (seconds)").fill("2592001");
  assert.deepEqual(await asked(() => click("Create session profile")), []); // the browser says why
  await page.getByRole("link", { name: "Cancel" }).click();
  await click("Leave", dialog());
  await heading("Session profiles");
  await part("Session profiles").getByRole("link", { name: "Tags only" }).waitFor();
  await settled();
  await page.goto(`${base}#/settings/profiles/00000000-0000-4000-8000-000000000000`);
  await page.getByRole("alert").filter({ hasText: "not found" }).waitFor();
  calm();
});

// ---- IP allowlists

const rules = () => page.getByLabel("Address ranges");

test("wrong lines of an IP allowlist are named where they stand, and nothing is sent", async () => {
  await go("settings", "IP allowlist");
  await part("IP allowlist").getByText("None", { exact: true }).waitFor();
  await click("Make a list");
  await page.getByText("It does not stop the operator of the host").waitFor();
  const many = (n, form) => Array.from({ length: n }, (_, i) => form(i)).join("\n");
  assert.deepEqual(await asked(async () => {
    for (const [text, line, why] of [
      ["10.0.0.0/24 Office\n\n10.0.0/24", 3, "“10.0.0/24” is no address or address range"], ["010.0.0.1/24", 1, "is no address"], ["10.0.0.0/33", 1, "is no address"], ["192.0.2.0/24\nexample.org/24", 2, "is no address"], ["fe80::1%eth0/64", 1, "is no address"],
      ["2001:db8::1::/64", 1, "is no address"], ["10.0.0.0/19", 1, "too wide. The number after the slash must be at least 20"], ["0.0.0.0/0", 1, "too wide"], ["::ffff:10.0.0.0/115", 1, "at least 20"], ["2001:db8::/47", 1, "at least 48"], ["::/0", 1, "at least 48"],
      [many(11, (i) => `10.0.${i}.0/24`), 11, "at most 10 ranges of IPv4"], [`10.0.0.0/24\n${many(11, (i) => `2001:db8:${i}::/48`)}`, 12, "at most 10 ranges of IPv6"],
    ]) {
      await rules().fill(text);
      await click("Save");
      await faulty(`Line ${line}: `);
      await faulty(why);
      assert.equal(await rules().getAttribute("aria-invalid"), "true");
    }
  }), []);
  // The server's own refusal names the line, too.
  await rules().fill(`10.0.0.0/24\n\n10.0.1.0/24 ${"x".repeat(256)}`);
  await click("Save");
  await faulty("Line 3: the label must be at most 255 characters");
  await picture(page, "settings-ip-wrong");
  assert.equal((await root.query("get_ip_allowlist")).allowlist.onEvaluationError, undefined);
  await page.goto(`${base}#/users`);
  await heading("Leave without saving?");
  await click("Leave", dialog());
  await heading("Users");
  calm();
});

test("an IP allowlist is set in two presses, refuses other addresses, is narrowed and removed", async () => {
  await go("settings/ip", "IP allowlist");
  // Kept and not enforced: nothing to lose.
  await rules().fill("127.0.0.1 This machine\n2001:db8::1/64\n127.0.0.1/32 again");
  assert.deepEqual(await asked(async () => { await click("Save"); await toast("The IP allowlist was saved."); }),
    [["SET_IP_ALLOWLIST", { enabled: false, onEvaluationError: "DENY", rules: [{ cidr: "127.0.0.1/32", label: "This machine" }, { cidr: "2001:db8::1/64" }, { cidr: "127.0.0.1/32", label: "again" }] }]]);
  await settled();
  assert.equal(await rules().inputValue(), "127.0.0.1/32 This machine\n2001:db8::/64");
  assert.equal((await whoami("127.0.0.2")).status, 200);
  // Enforced: the page cannot know the address of the reader.
  await page.getByLabel("Enforce the list").check();
  const warning = page.getByRole("alert").filter({ hasText: "You may lock yourself out" });
  assert.deepEqual(await asked(async () => {
    await click("Save");
    await warning.waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.innerText), "Back to the list");
    await picture(page, "settings-ip-warning");
    await click("Save"); // the same press again sends nothing
    await warning.waitFor();
    await click("Back to the list");
    await warning.waitFor({ state: "detached" });
    await click("Save");
    await rules().press("End");
    await rules().pressSequentially(" ");
    await warning.waitFor({ state: "detached" }); // another list, another question
  }), []);
  assert.equal((await root.query("get_ip_allowlist")).allowlist.enabled, false);
  await click("Save");
  await click("Save anyway");
  await toast("The IP allowlist was saved.");
  await page.getByText("Enforced", { exact: true }).waitFor();
  await settled();
  const refused = await whoami("127.0.0.2");
  assert.deepEqual([refused.status, refused.message], [403, "request not authorized: address 127.0.0.2 is not on the IP allowlist"]);
  assert.equal((await whoami("127.0.0.1")).status, 200);
  // More addresses need no question: what let the reader in stays. Fewer do.
  await rules().fill("127.0.0.0/24\n2001:db8::/64");
  await click("Save");
  await toast("The IP allowlist was saved.");
  await settled();
  assert.equal((await whoami("127.0.0.2")).status, 200);
  assert.deepEqual(await asked(async () => { await rules().fill("127.0.0.0/25\n2001:db8::/64"); await click("Save"); await warning.waitFor(); await rules().fill(""); await click("Save"); await page.getByText("Everybody would be locked out").waitFor(); }), []);
  await picture(page, "settings-ip-nobody");
  await page.reload();
  await settled();
  // Who locks himself out reads why, and somebody within the list ends it.
  await rules().fill("127.0.0.2");
  await click("Save");
  await click("Save anyway");
  await page.getByRole("alert").filter({ hasText: "address 127.0.0.1 is not on the IP allowlist" }).waitFor();
  const off = await from("127.0.0.2", "/public/v1/submit/set_ip_allowlist", { type: "ACTIVITY_TYPE_SET_IP_ALLOWLIST", timestampMs: String(Date.now()), parameters: { enabled: true, rules: [{ cidr: "127.0.0.1/32" }], onEvaluationError: "DENY" } });
  assert.equal(off.status, 200);
  await click("Try again");
  await rules().waitFor();

  // A key with ranges of its own is checked against those.
  await go(`users/${ada.userId}`, "Ada");
  await page.getByRole("link", { name: "IP list of the API key key" }).click();
  await heading("IP allowlist of a key");
  await page.getByText("For this key, these ranges take its place.").waitFor();
  await click("Save");
  await faulty("A key's list needs a range.");
  await rules().fill("127.0.0.3 Elsewhere");
  assert.deepEqual(await asked(async () => { await click("Save"); await toast("The IP allowlist was saved."); }), [["SET_IP_ALLOWLIST", { publicKey: ada.pair.publicKey, rules: [{ cidr: "127.0.0.3/32", label: "Elsewhere" }] }]]);
  await settled();
  await picture(page, "settings-ip-key");
  await assert.rejects(new Client({ apiUrl, organizationId, ...ada.pair }).query("whoami"), /address 127.0.0.1 is not on the IP allowlist/);
  await click("Remove the list");
  await click("Remove", dialog());
  await toast("The IP allowlist was removed.");
  await settled();
  assert.equal((await new Client({ apiUrl, organizationId, ...ada.pair }).query("whoami")).username, "Ada");
  // That of the reader's own key asks before it shuts him out.
  await go(`settings/ip/${root.publicKey}`, "IP allowlist of a key");
  await rules().fill("127.0.0.3");
  assert.deepEqual(await asked(async () => { await click("Save"); await warning.waitFor(); }), []);
  // Nor does the end of such ranges pass without a word.
  await root.submit("set_ip_allowlist", "SET_IP_ALLOWLIST", { publicKey: root.publicKey, rules: [{ cidr: "127.0.0.0/28" }] });
  await page.goto(`${base}#/users`);
  await click("Leave", dialog());
  await heading("Users");
  await go(`settings/ip/${root.publicKey}`, "IP allowlist of a key");
  await click("Remove the list");
  await dialog().getByText("You may lock yourself out").waitFor();
  await click("Cancel", dialog());
  await root.submit("remove_ip_allowlist", "REMOVE_IP_ALLOWLIST", { publicKey: root.publicKey });
  await page.goto(`${base}#/settings/ip`);
  await heading("IP allowlist");
  await settled();
  await click("Remove the list");
  await click("Remove", dialog());
  await toast("The IP allowlist was removed.");
  await settled();
  await page.getByText("None", { exact: true }).waitFor();
  assert.equal((await whoami("127.0.0.2")).status, 200);
  calm();
});

// ---- Who may not

test("who may not sees the buttons with the reason, and the lists without a form", async () => {
  await root.submit("set_ip_allowlist", "SET_IP_ALLOWLIST", { rules: [{ cidr: "192.0.2.0/24", label: "Office" }] });
  const theirs = await open(browser);
  const at = theirs.page;
  await enter(at, base, ada.file);
  await heading("Latest activities", at);
  await go("settings", "Settings", at);
  const why = { Rename: "Only the root quorum can do this.", "Change quorum": "Only the root quorum can do this.", "Turn on: Strict log": "Only the root quorum can turn features on and off." };
  for (const name of ["New session profile", "Edit the list", "Delete the organization"]) why[name] = "Only the root quorum can do this, and users whom a policy allows to.";
  for (const [name, text] of Object.entries(why)) {
    const id = await button(name, at).getAttribute("aria-describedby");
    assert.deepEqual([await button(name, at).getAttribute("aria-disabled"), await at.locator(`#${id}`).innerText()], ["true", text], name);
    await button(name, at).click({ force: true });
    assert.equal(await dialog(at).count(), 0);
  }
  await picture(at, "settings-limits");
  await go("settings/ip", "IP allowlist", at);
  await at.getByRole("cell", { name: "Office" }).waitFor();
  assert.equal(await at.locator("main form").count(), 0);
  assert.equal(await button("Save", at).getAttribute("aria-disabled"), "true");
  assert.equal(await button("Remove the list", at).getAttribute("aria-disabled"), "true");
  await picture(at, "settings-ip-limits");
  calm(theirs.complaints);
  await theirs.context.close();
  await root.submit("remove_ip_allowlist", "REMOVE_IP_ALLOWLIST", {});
  calm();
});

// ---- The end

test("the organization is deleted by typing its name, once nothing is in the way", async () => {
  const { result } = await root.submit("create_wallet", "CREATE_WALLET", { walletName: "Last", accounts: [], mnemonicLength: 12 });
  const { walletId } = Object.values(result)[0];
  await go("settings", "Settings");
  await page.getByText("In the way now: 1 wallet that was not exported.").waitFor();
  await click("Delete the organization");
  const typed = dialog().getByLabel("Name of the organization");
  assert.deepEqual(await asked(async () => {
    await typed.fill("acme");
    await click("Delete the organization", dialog());
    await faulty("This is not the name of the organization.", dialog());
    await picture(page, "settings-delete");
  }), []);
  await typed.fill("Acme");
  await click("Delete the organization", dialog());
  await dialog().getByRole("alert").filter({ hasText: "export" }).waitFor();
  await page.keyboard.press("Escape");
  await gone();
  await root.submit("delete_wallets", "DELETE_WALLETS", { walletIds: [walletId], deleteWithoutExport: true });
  await page.reload();
  await heading("Settings");
  await settled();
  assert.equal(await page.getByText("In the way now").count(), 0);
  await click("Delete the organization");
  await typed.fill("Acme");
  assert.deepEqual(await asked(async () => { await click("Delete the organization", dialog()); await toast("Acme was deleted."); }), [["DELETE_ORGANIZATION", { organizationId }]]);
  await heading("Cloister");
  await assert.rejects(root.query("whoami"));
  await page.reload();
  await heading("Cloister");
  calm();
});
