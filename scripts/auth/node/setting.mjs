// What every flow needs: the simulator and its proxy, a browser with a passkey in it, a page with the web client, the mail
// server, the inbox and the identity providers.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { chromium } from "playwright-core";

export const credentials = JSON.parse(readFileSync(process.env.CLOISTER_CREDENTIALS, "utf8"));

// An address and a number that nobody had before.
let people = 0;
export const someone = () => `person-${process.pid}-${++people}@example.com`;
export const somebodysPhone = () => `+1555${String(process.pid % 100000).padStart(5, "0")}${String(++people).padStart(2, "0")}`;

// ask sends a request of the root user.
const ask = (...line) => JSON.parse(execFileSync(process.env.CLOISTER_HOST, ["request", "-credentials", process.env.CLOISTER_CREDENTIALS, ...line], { encoding: "utf8" }));

// submit sends one activity of the root user.
export const submit = (name, parameters) =>
  Object.values(ask("-submit", `ACTIVITY_TYPE_${name.toUpperCase()}`, `/public/v1/submit/${name}`, JSON.stringify(parameters)).activity.result)[0];

// query asks as the root user.
export const query = (name, parameters = {}) => ask(`/public/v1/query/${name}`, JSON.stringify(parameters));

// openProxy lets an origin call the auth proxy, which is on from the first start, and answers its configuration's id.
export function openProxy(origin, changes = {}) {
  return submit("update_auth_proxy_config", { allowedOrigins: [origin], sessionExpirationSeconds: 900, ...changes }).configId;
}

// serve serves a page that test.sh has bundled; browsers allow passkeys on localhost without TLS.
async function serve(name) {
  const file = (name) => readFileSync(join(process.env.CLOISTER_PAGE, name));
  const server = createServer((request, answer) => {
    const script = request.url === "/wallet.js";
    answer.setHeader("Content-Type", script ? "text/javascript" : "text/html");
    answer.end(script ? file(`${name}.js`) : file("index.html"));
  });
  await new Promise((ok) => server.listen(0, "127.0.0.1", ok));
  return { origin: `http://localhost:${server.address().port}`, close: () => server.close() };
}

// world starts page and browser; its close ends both. Without proxy: false there is a proxy. The page is one of those in
// page/, as the web client is by itself or in the React kit.
export async function world({ proxy = true, page = "wallet" } = {}) {
  const site = await serve(page);
  let config, browser;
  try {
    config = {
      apiBaseUrl: credentials.apiUrl,
      authProxyUrl: credentials.authProxyUrl,
      authProxyConfigId: proxy ? openProxy(site.origin) : undefined,
      organizationId: credentials.organizationId,
      passkeyConfig: { rpId: "localhost" }, // without it the client has no passkeys
      walletConfig: { features: { auth: true }, chains: { ethereum: { native: true } } }, // likewise, no wallets
    };
    browser = await chromium.launch({ executablePath: process.env.CLOISTER_CHROMIUM, args: ["--no-sandbox"] });
  } catch (e) {
    site.close(); // or the test would wait for it
    throw e;
  }
  return {
    config,
    // device is a browser of its own: nothing stored, one authenticator that agrees to everything, and a wallet as an
    // extension when it is given a key for one.
    async device({ walletKey } = {}) {
      const context = await browser.newContext({ ignoreHTTPSErrors: true }); // it is the enclave whose trust is tried
      if (walletKey) {
        await context.addInitScript({ path: join(process.env.CLOISTER_PAGE, "extension.js") });
        await context.addInitScript((key) => installWallet(key), walletKey);
      }
      const page = await context.newPage();
      const tools = await context.newCDPSession(page);
      await tools.send("WebAuthn.enable");
      const { authenticatorId } = await tools.send("WebAuthn.addVirtualAuthenticator", {
        options: { protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true },
      });
      const open = async () => {
        await page.goto(site.origin);
        await page.waitForSelector("html[data-ready]", { state: "attached" });
        await page.evaluate((config) => begin(config), config);
      };
      await open();
      return {
        page,
        reopen: open,
        give: (credential) => tools.send("WebAuthn.addCredential", { authenticatorId, credential }),
        passkeys: async () => (await tools.send("WebAuthn.getCredentials", { authenticatorId })).credentials,
        close: () => context.close(),
      };
    },
    async close() {
      await browser.close();
      site.close();
    },
  };
}

// message waits for the newest message to somebody that is not among those seen: a mail at the mail server, a text message
// in the inbox.
export async function message(to, seen = []) {
  const deadline = Date.now() + 300_000;
  while (Date.now() < deadline) {
    const found = (to.startsWith("+") ? await texts(to) : mails(to)).find((m) => !seen.includes(m.id));
    if (found) return found;
    await new Promise((ok) => setTimeout(ok, 100));
  }
  assert.fail(`no message to ${to} arrived`);
}

const texts = async (to) => (await (await fetch(`${credentials.inboxUrl}/messages?to=${encodeURIComponent(to)}`)).json()).messages;

// mails are read from what the server has printed, a line for each after that with its ports. It takes mail over TLS from
// those who know its password only, so whatever stands there came that way.
function mails(to) {
  const lines = readFileSync(process.env.CLOISTER_MAILS, "utf8").split("\n").slice(1, -1);
  return lines.map((line, id) => ({ id, ...JSON.parse(line) })).filter((m) => m.to.includes(to)).map(({ id, door, user, content }) => {
    assert.deepEqual([door, user], ["tls", "user"]);
    const text = content.split("Content-Type: text/plain")[1].split("\r\n\r\n").slice(1).join("\r\n\r\n").split("\r\n--=_")[0];
    return { id, code: text.replace(/=\r\n/g, "").match(/^ {4}([0-9A-HJKMNP-TV-Z]{6,9})\s*$/m)[1] };
  }).reverse();
}

// whoAmI asks the public interface with the session that the page holds.
export const whoAmI = (page) => page.evaluate(async () => client.httpClient.getWhoami({ organizationId: (await client.getSession()).organizationId }));

// identityToken signs somebody in at the identity provider's page, as a wallet kit's popup does, and answers the token
// that comes back.
export async function identityToken(page, { clientId, redirect, nonce, email }) {
  const popup = await page.context().newPage();
  const asked = new URLSearchParams({ client_id: clientId, redirect_uri: redirect, response_type: "id_token", scope: "openid email profile", nonce, state: "flow=popup" });
  await popup.goto(`${credentials.identityProviderUrl}/authorize?${asked}`);
  await popup.getByLabel("E-mail address").fill(email);
  await popup.getByRole("button", { name: "Sign in" }).click();
  await popup.waitForURL(/#/);
  const answer = new URLSearchParams(new URL(popup.url()).hash.slice(1));
  await popup.close();
  assert.equal(answer.get("state"), "flow=popup");
  return answer.get("id_token");
}
