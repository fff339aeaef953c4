// The page itself, without a proxy: the client starts, the authenticator makes passkeys, keys are kept, the inbox and the
// identity provider answer.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { identityToken, someone, world } from "./setting.mjs";

let w;
before(async () => (w = await world({ proxy: false })));
after(() => w?.close());

test("a passkey is made in the page", async () => {
  const device = await w.device();
  const passkey = await device.page.evaluate(() => client.createPasskey({ name: "first" }));
  assert.ok(passkey.attestation.attestationObject && passkey.encodedChallenge);
  assert.equal((await device.passkeys()).length, 1);
  await device.close();
});

test("an identity token is bound to a key of the page", async () => {
  const device = await w.device();
  const email = someone();
  const nonce = await device.page.evaluate(async () => nonceOf(await client.createApiKeyPair()));
  assert.match(nonce, /^[0-9a-f]{64}$/);
  const token = await identityToken(device.page, { clientId: "wallet", redirect: new URL(device.page.url()).origin + "/", nonce, email });
  const claims = JSON.parse(Buffer.from(token.split(".")[1], "base64url"));
  assert.deepEqual([claims.nonce, claims.aud, claims.email, claims.email_verified], [nonce, "wallet", email, true]);
  await device.close();
});
