// Sign-up and log-in by an Ethereum wallet: an extension of the browser signs the requests.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, test } from "node:test";
import { privateKeyToAccount } from "viem/accounts";
import { credentials, whoAmI, world } from "./setting.mjs";

let w;
before(async () => (w = await world()));
after(() => w?.close());

const walletKey = () => `0x${randomBytes(32).toString("hex")}`;
const use = (device, name) => device.page.evaluate(async (name) => {
  const [walletProvider] = await client.fetchWalletProviders();
  return client[name]({ walletProvider });
}, name);

test("sign-up, then log-in on another device", async () => {
  const key = walletKey();
  const device = await w.device({ walletKey: key });
  await assert.rejects(use(device, "loginWithWallet"), "a wallet that nobody has signed up with");
  const signedUp = await use(device, "signUpWithWallet");
  assert.equal(signedUp.address, privateKeyToAccount(key).address.toLowerCase());
  const me = await whoAmI(device.page);
  assert.notEqual(me.organizationId, credentials.organizationId);
  await device.close();

  const other = await w.device({ walletKey: key });
  await use(other, "loginWithWallet");
  assert.deepEqual(await whoAmI(other.page), me);
  await other.close();
});

test("whichever of the two it is", async () => {
  const key = walletKey();
  for (const action of ["SIGNUP", "LOGIN"]) {
    const device = await w.device({ walletKey: key });
    assert.equal((await use(device, "loginOrSignupWithWallet")).action, action);
    assert.equal((await whoAmI(device.page)).organizationId, (await device.page.evaluate(() => client.getSession())).organizationId);
    await device.close();
  }
});

test("another wallet is somebody else", async () => {
  const seen = new Set();
  for (let i = 0; i < 2; i++) {
    const device = await w.device({ walletKey: walletKey() });
    await use(device, "loginOrSignupWithWallet");
    seen.add((await whoAmI(device.page)).organizationId);
    await device.close();
  }
  assert.equal(seen.size, 2);
});
