// Sessions: used, refreshed, expired, invalidated. What is refused is refused by the server: the page still holds the key.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { credentials, message, someone, whoAmI, world } from "./setting.mjs";

let w;
before(async () => (w = await world()));
after(() => w?.close());

// refused asks with the page's session and answers the status and the code of the server's reply.
async function refused(device) {
  const answer = device.page.waitForResponse((r) => r.url().endsWith("/public/v1/query/whoami") && r.request().method() === "POST");
  const [got] = await Promise.all([answer, assert.rejects(whoAmI(device.page))]);
  return [got.status(), (await got.json()).turnkeyErrorCode];
}

async function logIn(device, contact, seen, more = {}) {
  const otpType = "OTP_TYPE_EMAIL";
  const otpId = await device.page.evaluate((p) => client.initOtp(p), { otpType, contact });
  const { id, code: otpCode } = await message(contact, seen);
  seen.push(id);
  return device.page.evaluate((p) => client.completeOtp(p), { otpId, otpCode, contact, otpType, ...more });
}

test("a session makes a wallet and signs, and its token is the notary's", async () => {
  const device = await w.device();
  await logIn(device, someone(), []);
  const [address, signed] = await device.page.evaluate(async () => {
    await client.createWallet({ walletName: "Mine", accounts: ["ADDRESS_FORMAT_ETHEREUM"] });
    const [account] = (await client.fetchWallets())[0].accounts;
    return [account.address, await client.signMessage({ walletAccount: account, message: "hello" })];
  });
  assert.match(address, /^0x[0-9a-fA-F]{40}$/);
  assert.match(signed.r, /^[0-9a-f]{64}$/);
  const genuine = (key) => device.page.evaluate(async (key) => codes.verifySessionJwtSignature((await client.getSession()).token, key), key);
  assert.equal(await genuine(credentials.keys.session), true);
  assert.equal(await genuine(credentials.keys.otp), false);
  await device.close();
});

test("a refreshed session goes on", async () => {
  const device = await w.device();
  await logIn(device, someone(), []);
  const me = await whoAmI(device.page);
  const [before, after] = await device.page.evaluate(async () => {
    const { publicKey } = await client.getSession();
    await client.refreshSession();
    return [publicKey, (await client.getSession()).publicKey];
  });
  assert.notEqual(before, after);
  assert.deepEqual(await whoAmI(device.page), me);
  await device.close();
});

test("an expired session is refused", async () => {
  const device = await w.device();
  await device.page.evaluate(() => client.signUpWithPasskey({ passkeyDisplayName: "first" }));
  await whoAmI(device.page); // and the client has put its keys in order
  await device.page.evaluate(() => client.loginWithPasskey({ expirationSeconds: "3" }));
  await whoAmI(device.page);
  await new Promise((ok) => setTimeout(ok, 4000));
  assert.deepEqual(await refused(device), [401, "API_KEY_EXPIRED"]);
  await device.close();
});

test("invalidateExisting ends the sessions of other devices", async () => {
  const contact = someone(), seen = [];
  const [first, second] = [await w.device(), await w.device()];
  await logIn(first, contact, seen);
  const me = await whoAmI(first.page);
  await logIn(second, contact, seen);
  assert.deepEqual(await whoAmI(first.page), me, "a log-in elsewhere leaves a session alone");
  await logIn(second, contact, seen, { invalidateExisting: true });
  assert.deepEqual(await refused(first), [401, "PUBLIC_KEY_NOT_FOUND"]);
  assert.deepEqual(await whoAmI(second.page), me);
  await Promise.all([first.close(), second.close()]);
});
