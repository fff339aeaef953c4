// Webhooks, in an organization of its own: a receiver on this machine that refuses, fails and takes events, what the page says of each,
// and what another organization may not do.
import assert from "node:assert/strict";
import { createPublicKey, verify } from "node:crypto";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch, open, picture, signIn, sound } from "./browser.mjs";
import { Client } from "./client.mjs";
import { controls } from "./controls.mjs";
import { apiUrl, base, organizationId, root, scratch } from "./setting.mjs";
import { makeOpenKey } from "./stamp.mjs";

let browser, page, complaints, keys, child;

// A receiver answers with its status, and keeps the events that it took. Each must be signed by a key that the server publishes.
const receiver = { status: 200, events: [] };
const server = createServer((request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    const body = Buffer.concat(chunks);
    const head = (name) => request.headers[`x-turnkey-${name}`];
    const event = { id: head("event-id"), organization: head("organization-id"), valid: isSigned(head, body), activity: JSON.parse(body), status: receiver.status };
    receiver.events.push(event);
    response.writeHead(receiver.status).end();
  });
});

function isSigned(head, body) {
  const key = keys.find((k) => k.kid === head("signature-key-id"));
  const said = [head("signature-version"), head("signature-algorithm"), head("signature-key-id"), head("timestamp"), head("event-id"), ""].join(".");
  return Boolean(key) && Math.abs(Date.now() - Number(head("timestamp"))) < 60_000
    && verify(null, Buffer.concat([Buffer.from(said), body]), createPublicKey({ key, format: "jwk" }), Buffer.from(head("signature"), "hex"));
}

const taken = () => receiver.events.filter((e) => e.status === 200);

before(async () => {
  ({ keys } = await (await fetch(`${apiUrl}/public/v1/discovery/webhooks/jwks`)).json());
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const pair = await makeOpenKey();
  const { result } = await root.submit("create_sub_organization", "CREATE_SUB_ORGANIZATION_V8", {
    subOrganizationName: "Customer", rootQuorumThreshold: 1,
    rootUsers: [{ userName: "Carol", apiKeys: [{ apiKeyName: "key", publicKey: pair.publicKey, curveType: "API_KEY_CURVE_P256" }], authenticators: [], oauthProviders: [] }],
  });
  child = new Client({ apiUrl, organizationId: result.createSubOrganizationResultV8.subOrganizationId, ...pair });
  browser = await launch();
  ({ page, complaints } = await open(browser));
  await signIn(page, base, process.env.CLOISTER_CREDENTIALS);
  await page.locator("main h1").first().waitFor();
});
after(async () => {
  await browser?.close();
  server.closeAllConnections();
  server.close();
});

const calm = () => { assert.deepEqual(complaints, []); };
const { click, dialog, settled } = controls(() => page);
const heading = (name) => page.getByRole("heading", { name, level: 1, exact: true }).waitFor();
const toast = (text) => page.locator("#toasts").getByText(text).waitFor();
const rows = () => page.getByRole("table", { name: "Deliveries" }).locator("tbody tr");
const address = () => `http://127.0.0.1:${server.address().port}/hook`;
const tag = (by, name) => by.submit("create_user_tag", "CREATE_USER_TAG", { userTagName: name, userIds: [] });
const listed = async (name) => (await root.query("list_webhook_endpoints")).webhookEndpoints.find((e) => e.name === name);
const deliveries = async (endpointId, more = {}) => (await root.query("list_webhook_deliveries", { endpointId, paginationOptions: { limit: "50" }, ...more })).deliveries;

// ended waits until no delivery to an endpoint waits for its first attempt, and this many have a status.
async function ended(endpointId, status, count) {
  for (;;) {
    const all = await deliveries(endpointId);
    if (all.every((d) => d.attempts > 0) && all.filter((d) => d.status === `DELIVERY_STATUS_${status}`).length >= count) return all;
    await new Promise((passed) => setTimeout(passed, 50));
  }
}

async function create(name, url) {
  const { result } = await root.submit("create_webhook_endpoint", "CREATE_WEBHOOK_ENDPOINT", { name, url, subscriptions: [{ eventType: "ACTIVITY_UPDATES" }] });
  return result.createWebhookEndpointResult.endpointId;
}

async function go(endpointId, name) {
  await page.goto(`${base}#/webhooks/${endpointId}`);
  await heading(name);
  await settled();
}

async function refresh() {
  await click("Refresh");
  await page.waitForFunction(() => !document.querySelector("main [aria-busy]"));
}

test("a webhook that is made and works says when it last delivered", async () => {
  await page.goto(`${base}#/webhooks`);
  await click("Create the first webhook");
  await dialog().getByLabel("Name").fill("Books");
  await dialog().getByLabel("URL").fill("http://hooks.example.com/hook");
  await click("Create webhook", dialog());
  await dialog().locator(".field .error", { hasText: "must be https" }).filter({ hasText: "-webhook-loopback also takes http://127.0.0.1:PORT" }).waitFor();
  await picture(page, "webhook-not-https");
  await dialog().getByLabel("URL").fill(address());
  await click("Create webhook", dialog());
  await toast("Webhook Books was created.");
  const { endpointId } = await listed("Books");
  await ended(endpointId, "DELIVERED", 1);
  await page.reload();
  await page.getByText("Last delivered").waitFor();
  await page.locator(".badge", { hasText: "Delivering" }).waitFor();
  await page.getByRole("link", { name: "Books", exact: true }).click();
  await heading("Books");
  await settled();
  assert.equal(await rows().count(), 1);
  await rows().getByText("Delivered", { exact: true }).waitFor();
  calm();
});

test("a test event is a signed event, and the dialog says what became of it", async () => {
  const { endpointId } = await listed("Books");
  await go(endpointId, "Books");
  const before = receiver.events.length;
  await click("Send a test event");
  await dialog().getByText("an activity that changes nothing").waitFor();
  await dialog().getByText("All active webhooks of this organization").waitFor();
  await picture(page, "webhook-test");
  await click("Send test event", dialog());
  await dialog().getByText("Delivered", { exact: true }).waitFor();
  const [event] = receiver.events.slice(before);
  assert(event.valid);
  assert.equal(event.activity.type, "ACTIVITY_TYPE_UPDATE_WEBHOOK_ENDPOINT");
  await dialog().getByText(event.id).waitFor();
  await picture(page, "webhook-test-delivered");
  await click("Done", dialog());
  await rows().filter({ hasText: "Change a webhook" }).first().waitFor();
  assert.deepEqual((await listed("Books")).url, address());
  // A receiver that fails: the dialog tells of the attempt and goes on looking.
  receiver.status = 500;
  await click("Send a test event");
  await click("Send test event", dialog());
  await dialog().getByText("Will be retried").waitFor();
  await dialog().getByText("Your server answered 500 (Internal error).").waitFor();
  receiver.status = 200;
  await dialog().getByText("Delivered", { exact: true }).waitFor();
  await dialog().getByText(/After \d+ attempts\./).waitFor();
  await page.keyboard.press("Escape");
  await dialog().waitFor({ state: "detached" });
  await settled();
  calm();
});

test("failures are said in words, and what failed is sent again with the same event id", async () => {
  const { endpointId } = await listed("Books");
  receiver.status = 410;
  await tag(root, "One");
  await tag(root, "Two");
  await tag(child, "Below");
  await ended(endpointId, "FAILED", 3);
  await page.goto(`${base}#/webhooks`);
  const row = page.getByRole("table", { name: "Webhooks" }).locator("tbody tr");
  await row.getByText("Failing").waitFor();
  await row.getByText("Your server answered 410 (Gone).").waitFor();
  await row.getByText("3 failed").waitFor();
  await picture(page, "webhooks-failing");
  await go(endpointId, "Books");
  await page.getByRole("combobox").selectOption({ label: "Not delivered" });
  await page.waitForFunction(() => document.querySelectorAll("table tbody tr").length === 3);
  assert.equal(await rows().getByText("Your server answered 410 (Gone). Given up after 1 attempt.").count(), 3);
  await rows().filter({ hasText: "in a sub-organization" }).first().waitFor();
  await page.getByText("What the statuses mean").click();
  await page.getByText("Attempts go on for three days").waitFor();
  await picture(page, "webhook-failed");
  const failed = await deliveries(endpointId, { failedOnly: true });
  receiver.status = 200;
  const before = taken().length;
  await page.getByRole("button", { name: "Send again: Create a tag for users" }).first().click();
  await toast("1 event is sent again.");
  const [first] = failed;
  for (let again; !again;) {
    again = taken().slice(before).find((e) => e.id === first.eventId);
    if (!again) await new Promise((passed) => setTimeout(passed, 50));
    else assert(again.valid && again.activity.id === first.activityId && again.organization === first.organizationId);
  }
  await ended(endpointId, "DELIVERED", 1);
  await refresh();
  await page.getByRole("combobox").selectOption({ label: "All" });
  await rows().filter({ hasText: "sent again" }).getByText("Delivered", { exact: true }).waitFor();
  await rows().getByText("Was sent again").waitFor();
  await click("Send all 2 failed events again");
  await toast("2 events are sent again.");
  const wanted = new Set(failed.map((d) => d.eventId));
  while (![...wanted].every((id) => taken().some((e) => e.id === id))) await new Promise((passed) => setTimeout(passed, 50));
  assert(receiver.events.every((e) => e.valid));
  await refresh();
  await page.waitForFunction(() => [...document.querySelectorAll("tbody .note")].filter((n) => n.textContent === "Was sent again").length === 3);
  await picture(page, "webhook-sent-again");
  await rows().filter({ hasText: "Send webhook events again" }).first().getByRole("link").click();
  await page.getByText("Send webhook events again").first().waitFor();
  await sound(page, "activity of sending again");
  calm();
});

test("an address at which nobody listens is shown as failing, and waits", async () => {
  const gone = createServer();
  await new Promise((listening) => gone.listen(0, "127.0.0.1", listening));
  const { port } = gone.address();
  await new Promise((closed) => gone.close(closed));
  const endpointId = await create("Nowhere", `http://127.0.0.1:${port}/`);
  await ended(endpointId, "WAITING", 1);
  await page.goto(`${base}#/webhooks`);
  const row = page.getByRole("table", { name: "Webhooks" }).locator("tbody tr", { hasText: "Nowhere" });
  await row.getByText("Failing").waitFor();
  await row.getByText("No program listens at this address and port.").waitFor();
  await row.getByText("1 waiting").waitFor();
  await row.getByRole("link", { name: "Nowhere" }).click();
  await heading("Nowhere");
  await rows().getByText("Will be retried").waitFor();
  await rows().getByText("so far. The next attempt is").waitFor();
  await click("Delete");
  await click("Delete", dialog());
  await toast("The webhook was deleted.");
  await heading("Webhooks");
  await page.goto(`${base}#/webhooks/${endpointId}`);
  await page.getByText("There is no webhook with this id.").waitFor();
  // How to check a message is said where webhooks are listed.
  await page.goto(`${base}#/webhooks`);
  const href = await page.getByRole("region", { name: "How to check a message" }).getByRole("link").getAttribute("href");
  assert.deepEqual((await (await fetch(apiUrl + href)).json()).keys, keys);
  await picture(page, "webhooks-check");
  calm();
});

test("a paused webhook refuses a test with words, and sends nothing again", async () => {
  const { endpointId } = await listed("Books");
  receiver.status = 404;
  await tag(root, "Three");
  await ended(endpointId, "FAILED", 4);
  await go(endpointId, "Books");
  await click("Pause");
  await dialog().getByText("It misses the events of that time.").waitFor();
  await click("Pause", dialog());
  await toast("The webhook is paused.");
  await page.locator(".facts .badge", { hasText: "Paused" }).waitFor();
  await settled();
  assert.equal(await page.getByRole("button", { name: /^Send (again|all)/ }).count(), 0);
  const before = receiver.events.length;
  await click("Send a test event");
  await click("Send test event", dialog());
  await dialog().getByRole("alert").filter({ hasText: "This webhook is paused, so nothing is sent to it. Resume it first." }).waitFor();
  await picture(page, "webhook-paused");
  await click("Cancel", dialog());
  const failed = (await deliveries(endpointId, { failedOnly: true })).find((d) => d.lastError === "HTTP status 404");
  const resend = (by, parameters) => by.send("/public/v1/submit/resend_webhook_deliveries", { type: "ACTIVITY_TYPE_RESEND_WEBHOOK_DELIVERIES", timestampMs: String(Date.now()), parameters });
  const refused = await resend(root, { endpointId, deliveryIds: [failed.deliveryId] });
  assert.equal(refused.status, 400);
  assert.match(refused.message, /paused/);
  assert.equal(receiver.events.length, before);
  // Another organization can neither list nor send again.
  for (const by of [child, root]) {
    const theirs = by === child ? endpointId : organizationId;
    const got = await by.send("/public/v1/query/list_webhook_deliveries", { endpointId: theirs });
    assert.equal(got.status, 404, got.message);
    const again = await resend(by, { endpointId: theirs, deliveryIds: [failed.deliveryId] });
    assert.equal(again.status, 404, again.message);
  }
  // Who may not change webhooks is told, and presses nothing.
  const pair = await makeOpenKey();
  await root.submit("create_users", "CREATE_USERS_V4", { users: [{ userName: "Reader", apiKeys: [{ apiKeyName: "key", publicKey: pair.publicKey, curveType: "API_KEY_CURVE_P256" }], authenticators: [], oauthProviders: [], userTags: [] }] });
  const file = join(scratch, "reader.json");
  writeFileSync(file, JSON.stringify({ organizationId, ...pair }));
  const reader = await open(browser);
  await signIn(reader.page, base, file);
  await reader.page.getByRole("link", { name: "Webhooks", exact: true }).click();
  await reader.page.getByText("Edit, Delete and New webhook: only the root quorum can do this, and users whom a policy allows to.").waitFor();
  for (const name of ["Edit Books", "Delete Books", "New webhook"]) await reader.page.getByRole("button", { name, exact: true }).click({ force: true });
  assert.equal(await reader.page.getByRole("dialog").count(), 0);
  await picture(reader.page, "webhooks-limits");
  assert.deepEqual(reader.complaints, []);
  await reader.context.close();
  receiver.status = 200;
  await click("Resume");
  await toast("The webhook is active again.");
  await page.getByRole("button", { name: "Send again: Create a tag for users" }).first().click();
  await toast("1 event is sent again.");
  while (!taken().some((e) => e.id === failed.eventId)) await new Promise((passed) => setTimeout(passed, 50));
  calm();
});
