// Sign-up and log-in by identity tokens of oidc-provider, a certified OpenID provider: authorization code with PKCE through
// its pages, over TLS under a private root that the enclave was given.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { after, before, test } from "node:test";
import { whoAmI, world } from "./setting.mjs";

const issuer = process.env.CLOISTER_OPENID_ISSUER;
const back = "https://app.example/back"; // where its clients may have people sent; the browser answers for it

let w;
before(async () => (w = await world()));
after(() => w?.close());

// signIn goes through the provider's pages as a popup does and exchanges the code as an application's server does.
async function signIn(device, clientId, person) {
  const publicKey = await device.page.evaluate(() => client.createApiKeyPair());
  const nonce = await device.page.evaluate((k) => nonceOf(k), publicKey);
  const verifier = randomBytes(32).toString("base64url");
  const popup = await device.page.context().newPage();
  await popup.route(`${back}*`, (route) => route.fulfill({ body: "done" }));
  await popup.goto(`${issuer}/auth?${new URLSearchParams({
    client_id: clientId, redirect_uri: back, response_type: "code", scope: "openid", state: "of the page", nonce,
    code_challenge: createHash("sha256").update(verifier).digest("base64url"), code_challenge_method: "S256",
  })}`);
  await popup.locator("input[name=login]").fill(person);
  await popup.locator("input[name=password]").fill("any");
  await popup.locator("button[type=submit]").click();
  await popup.locator("input[name=prompt][value=consent]").waitFor({ state: "attached" });
  await popup.locator("button[type=submit]").click();
  await popup.waitForURL(`${back}*`);
  const answer = new URL(popup.url()).searchParams;
  assert.equal(answer.get("state"), "of the page");
  await popup.close();
  const exchange = await fetch(`${issuer}/token`, { method: "POST", body: new URLSearchParams({
    grant_type: "authorization_code", client_id: clientId, code: answer.get("code"), redirect_uri: back, code_verifier: verifier }) });
  const { id_token: oidcToken } = await exchange.json();
  return { oidcToken, publicKey, providerName: "certified" };
}

const complete = (device, p) => device.page.evaluate((p) => client.completeOauth(p), p);

for (const clientId of ["rs256", "es256"]) {
  test(`${clientId}: sign-up, then log-in on another device`, async () => {
    const person = `person-${process.pid}`;
    const device = await w.device();
    assert.equal((await complete(device, await signIn(device, clientId, person))).action, "SIGNUP");
    const me = await whoAmI(device.page);
    await device.close();

    const other = await w.device();
    const signedIn = await signIn(other, clientId, person);
    const [header, claims, signature] = signedIn.oidcToken.split(".");
    const forged = [header, claims, Buffer.from(Buffer.from(signature, "base64url").reverse()).toString("base64url")].join(".");
    await assert.rejects(complete(other, { ...signedIn, oidcToken: forged }), "another signature");
    assert.equal((await complete(other, signedIn)).action, "LOGIN");
    assert.deepEqual(await whoAmI(other.page), me);
    await other.close();
  });
}
