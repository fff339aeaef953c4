// Sign-up and log-in by an identity token of the simulator's identity provider.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { identityToken, someone, whoAmI, world } from "./setting.mjs";

let w;
before(async () => (w = await world()));
after(() => w?.close());

// signIn goes through the provider's page with a fresh key; a nonce of another key may be asked for instead.
async function signIn(device, email, nonce) {
  const publicKey = await device.page.evaluate(() => client.createApiKeyPair());
  nonce ??= await device.page.evaluate((k) => nonceOf(k), publicKey);
  const oidcToken = await identityToken(device.page, { clientId: "wallet", redirect: new URL(device.page.url()).origin + "/", nonce, email });
  return device.page.evaluate((p) => client.completeOauth(p), { oidcToken, publicKey, providerName: "simulator" });
}

test("sign-up, then log-in on another device", async () => {
  const email = someone();
  const device = await w.device();
  assert.equal((await signIn(device, email)).action, "SIGNUP");
  const me = await whoAmI(device.page);
  await device.close();

  const other = await w.device();
  assert.equal((await signIn(other, email)).action, "LOGIN");
  assert.deepEqual(await whoAmI(other.page), me);
  await assert.rejects(signIn(other, email, "0".repeat(64)), "a token that is bound to another key");
  await other.close();
});
