// Sign-up and log-in by passkey.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { credentials, whoAmI, world } from "./setting.mjs";

let w;
before(async () => (w = await world()));
after(() => w?.close());

test("sign-up, log-out, log-in", async () => {
  const device = await w.device();
  const signedUp = await device.page.evaluate(() => client.signUpWithPasskey({ passkeyDisplayName: "first" }));
  assert.ok(signedUp.sessionToken && signedUp.credentialId);
  const me = await whoAmI(device.page);
  assert.notEqual(me.organizationId, credentials.organizationId, "a sub-organization of one's own");

  await device.page.evaluate(() => client.logout());
  await device.reopen();
  const loggedIn = await device.page.evaluate(() => client.loginWithPasskey());
  assert.ok(loggedIn.sessionToken && loggedIn.sessionToken !== signedUp.sessionToken);
  assert.deepEqual(await whoAmI(device.page), me);
  await device.close();
});

test("somebody else's device knows no passkey", async () => {
  const device = await w.device();
  await assert.rejects(device.page.evaluate(() => client.loginWithPasskey()));
  await device.close();
});
