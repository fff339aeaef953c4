// Who is led where: credentials that are added later, and those that somebody else has added to himself.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, test } from "node:test";
import { privateKeyToAccount } from "viem/accounts";
import { identityToken, someone, whoAmI, world } from "./setting.mjs";

let w;
before(async () => (w = await world()));
after(() => w?.close());

const walletKey = () => `0x${randomBytes(32).toString("hex")}`;
const compressed = (key) => {
  const point = privateKeyToAccount(key).publicKey.slice(4); // without 0x04
  return (parseInt(point.at(-1), 16) % 2 ? "03" : "02") + point.slice(0, 64);
};
const byWallet = (device, name) => device.page.evaluate(async (name) => {
  const [walletProvider] = await client.fetchWalletProviders();
  return client[name]({ walletProvider });
}, name);

// tokenFor goes through the provider's page for an identity token whose nonce is of a fresh key.
async function tokenFor(device, email) {
  const publicKey = await device.page.evaluate(() => client.createApiKeyPair());
  const nonce = await device.page.evaluate((k) => nonceOf(k), publicKey);
  const oidcToken = await identityToken(device.page, { clientId: "wallet", redirect: new URL(device.page.url()).origin + "/", nonce, email });
  return { oidcToken, publicKey, providerName: "simulator" };
}
const byIdentity = async (device, email) => device.page.evaluate((p) => client.completeOauth(p), await tokenFor(device, email));

test("a passkey that is added later logs in elsewhere", async () => {
  const device = await w.device({ walletKey: walletKey() });
  await byWallet(device, "signUpWithWallet");
  const me = await whoAmI(device.page);
  await device.page.evaluate(() => client.addPasskey({ name: "second", displayName: "second" }));
  const added = await device.passkeys();
  assert.equal(added.length, 1);
  await device.close();

  const other = await w.device();
  await other.give(added[0]);
  await other.page.evaluate(() => client.loginWithPasskey());
  assert.deepEqual(await whoAmI(other.page), me);
  await other.close();
});

test("an identity that is linked logs in elsewhere", async () => {
  const email = someone();
  const device = await w.device();
  await device.page.evaluate(() => client.signUpWithPasskey({ passkeyDisplayName: "first" }));
  const me = await whoAmI(device.page);
  const { oidcToken, providerName } = await tokenFor(device, email);
  await device.page.evaluate((p) => client.addOauthProvider(p), { oidcToken, providerName });
  await device.close();

  const other = await w.device();
  assert.equal((await byIdentity(other, email)).action, "LOGIN");
  assert.deepEqual(await whoAmI(other.page), me);
  await other.close();
});

test("a wallet that somebody else has added to himself still signs its owner up", async () => {
  const key = walletKey();
  const thief = await w.device();
  await thief.page.evaluate(() => client.signUpWithPasskey({ passkeyDisplayName: "thief" }));
  const theirs = await whoAmI(thief.page);
  await thief.page.evaluate(
    ({ organizationId, userId, publicKey }) =>
      client.httpClient.createApiKeys({ organizationId, userId, apiKeys: [{ apiKeyName: "another's", publicKey, curveType: "API_KEY_CURVE_SECP256K1" }] }),
    { ...theirs, publicKey: compressed(key) },
  );
  await thief.close();

  const device = await w.device({ walletKey: key });
  await assert.rejects(byWallet(device, "loginWithWallet"), "nobody is led to the thief");
  assert.equal((await byWallet(device, "loginOrSignupWithWallet")).action, "SIGNUP");
  const me = await whoAmI(device.page);
  assert.notEqual(me.organizationId, theirs.organizationId);
  await device.close();

  const again = await w.device({ walletKey: key });
  await byWallet(again, "loginWithWallet");
  assert.deepEqual(await whoAmI(again.page), me);
  await again.close();
});

test("a wallet that is added by the application logs in once it has stamped in its organization", async () => {
  const key = walletKey();
  const device = await w.device({ walletKey: key });
  await device.page.evaluate(() => client.signUpWithPasskey({ passkeyDisplayName: "first" }));
  const me = await whoAmI(device.page);
  await device.page.evaluate(
    ({ organizationId, userId, publicKey }) =>
      client.httpClient.createApiKeys({ organizationId, userId, apiKeys: [{ apiKeyName: "wallet", publicKey, curveType: "API_KEY_CURVE_SECP256K1" }] }),
    { ...me, publicKey: compressed(key) },
  );
  await device.page.evaluate(async ({ organizationId }) => {
    const publicKey = await client.createApiKeyPair();
    const [walletProvider] = await client.fetchWalletProviders();
    client.walletManager.stamper.setProvider(walletProvider.interfaceType, walletProvider);
    await client.httpClient.stampLogin({ organizationId, publicKey }, "wallet");
  }, me);
  await device.close();

  const other = await w.device({ walletKey: key });
  await byWallet(other, "loginWithWallet");
  assert.deepEqual(await whoAmI(other.page), me);
  await other.close();
});
