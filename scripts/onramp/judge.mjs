// MoonPay's own package judges the pages that the enclave signs; Coinbase is a stand-in of the published form, in which jose
// verifies each request's token. Both are asked through the unmodified server SDK.
import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { MoonPay } from "@moonpay/moonpay-node";
import { encryptOnRampSecret } from "@turnkey/crypto";
import { Turnkey } from "@turnkey/sdk-server";
import * as jose from "jose";

const credentials = JSON.parse(readFileSync(process.env.CLOISTER_CREDENTIALS, "utf8"));
const { publicKey, privateKey } = credentials.rootApiKey;
const client = (defaultOrganizationId) =>
  new Turnkey({
    apiBaseUrl: credentials.apiUrl,
    defaultOrganizationId,
    apiPublicKey: publicKey,
    apiPrivateKey: privateKey,
    activityPoller: { intervalMs: 100, numRetries: 20 },
  }).apiClient();
const parent = client(credentials.organizationId);
const moonPay = "FIAT_ON_RAMP_PROVIDER_MOONPAY";
const coinbase = "FIAT_ON_RAMP_PROVIDER_COINBASE";
const network = (n) => `FIAT_ON_RAMP_BLOCKCHAIN_NETWORK_${n}`;
const currency = (c) => `FIAT_ON_RAMP_CRYPTO_CURRENCY_${c}`;
const seal = (text) => encryptOnRampSecret(text, credentials.keys.onRamp);

const formats = {
  BITCOIN: ["ADDRESS_FORMAT_BITCOIN_MAINNET_P2WPKH", "m/84'/0'/0'/0/0", "CURVE_SECP256K1"],
  ETHEREUM: ["ADDRESS_FORMAT_ETHEREUM", "m/44'/60'/0'/0/0", "CURVE_SECP256K1"],
  SOLANA: ["ADDRESS_FORMAT_SOLANA", "m/44'/501'/0'/0'", "CURVE_ED25519"],
};
let child, buyer;
const addresses = {};
const servers = [];

// listen serves at a port of the simulator's configuration.
async function listen(port, answer) {
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (part) => (body += part));
    request.on("end", async () => {
      const [status, said] = await answer(request, body);
      response.writeHead(status, { "Content-Type": "application/json" });
      response.end(JSON.stringify(said));
    });
  });
  await new Promise((ready) => server.listen(Number(port), "127.0.0.1", ready));
  servers.push(server);
}

before(async () => {
  const accounts = Object.values(formats).map(([addressFormat, path, curve]) => ({ addressFormat, path, curve, pathFormat: "PATH_FORMAT_BIP32" }));
  const made = await parent.createSubOrganization({
    subOrganizationName: "Buyer",
    rootQuorumThreshold: 1,
    rootUsers: [
      { userName: "Buyer", apiKeys: [{ apiKeyName: "Key", publicKey, curveType: "API_KEY_CURVE_P256" }], authenticators: [], oauthProviders: [] },
    ],
    wallet: { walletName: "Wallet", accounts },
  });
  buyer = made.subOrganizationId;
  child = client(buyer);
  Object.keys(formats).forEach((name, i) => (addresses[name] = made.wallet.addresses[i]));
  addresses.BASE = addresses.ETHEREUM;
});

after(() => servers.forEach((s) => s.close()));

const sold = [
  ["BITCOIN", "BTC", "btc"],
  ["ETHEREUM", "ETH", "eth"],
  ["BASE", "ETH", "eth_base"],
  ["SOLANA", "SOL", "sol"],
  ["ETHEREUM", "USDC", "usdc"],
  ["BASE", "USDC", "usdc_base"],
  ["SOLANA", "USDC", "usdc_sol"],
];

test("MoonPay's package believes every page, and none that was changed", async () => {
  const secret = "sk_live_of_this_run";
  const judge = new MoonPay(secret);
  await parent.createFiatOnRampCredential({ onrampProvider: moonPay, publishableApiKey: "pk_live", encryptedSecretApiKey: seal(secret) });
  for (const [n, c, code] of sold) {
    const { onRampUrl, onRampTransactionId } = await child.initFiatOnRamp({
      onrampProvider: moonPay,
      walletAddress: addresses[n],
      network: network(n),
      cryptoCurrencyCode: currency(c),
      fiatCurrencyCode: "FIAT_ON_RAMP_CURRENCY_EUR",
      fiatCurrencyAmount: "25.50",
      paymentMethod: "FIAT_ON_RAMP_PAYMENT_METHOD_SEPA_BANK_TRANSFER",
    });
    assert.equal(judge.url.isSignatureValid(onRampUrl), true, onRampUrl);
    const page = new URL(onRampUrl);
    assert.equal(page.origin, "https://buy.moonpay.com");
    assert.deepEqual(
      ["walletAddress", "currencyCode", "apiKey", "externalTransactionId"].map((k) => page.searchParams.get(k)),
      [addresses[n], code, "pk_live", onRampTransactionId],
    );
    page.searchParams.set("walletAddress", "0x000000000000000000000000000000000000bEEF");
    assert.equal(judge.url.isSignatureValid(page.toString()), false);
    assert.equal(new MoonPay("sk_live_of_another").url.isSignatureValid(onRampUrl), false);
  }
  const brought = `https://buy.moonpay.com?apiKey=pk_live&currencyCode=eth&walletAddress=${addresses.ETHEREUM}&colorCode=%237d01ff&email=a%40example.org`;
  const buy = { onrampProvider: moonPay, walletAddress: addresses.ETHEREUM, network: network("ETHEREUM"), cryptoCurrencyCode: currency("ETH") };
  const { onRampUrlSignature } = await child.initFiatOnRamp({ ...buy, urlForSignature: brought });
  assert.equal(onRampUrlSignature, judge.url.generateSignature(brought));
  for (const refused of [
    brought.replace(addresses.ETHEREUM, "0x000000000000000000000000000000000000bEEF"),
    `${brought}&refundWalletAddress=0x000000000000000000000000000000000000bEEF`,
    brought.replace("pk_live", "pk_other"),
    brought.replace("buy.moonpay.com", "buy.moonpay.example"),
  ]) {
    await assert.rejects(child.initFiatOnRamp({ ...buy, urlForSignature: refused }), /urlForSignature|invalid|must|has an address/);
  }
});

test("how a purchase stands is what MoonPay says, asked at most every two seconds", async () => {
  const buy = { onrampProvider: moonPay, walletAddress: addresses.SOLANA, network: network("SOLANA"), cryptoCurrencyCode: currency("SOL") };
  const { onRampTransactionId: id } = await child.initFiatOnRamp(buy);
  let status = "pending";
  let asked = 0;
  await listen(process.env.MOONPAY_PORT, async (request) => {
    asked++;
    if (request.url !== `/v1/transactions/ext/${id}?apiKey=pk_live`) return [404, { message: "Not found" }];
    return [200, [{ id: "1", status, externalTransactionId: id, walletAddress: addresses.SOLANA, baseCurrencyAmount: 25.5 }]];
  });
  const refresh = (c) => c.getOnRampTransactionStatus({ transactionId: id, refresh: true });
  assert.equal((await refresh(child)).transactionStatus, "PENDING");
  status = "completed";
  const began = Date.now();
  for (;;) {
    const { transactionStatus } = await refresh(child);
    if (transactionStatus === "COMPLETED") break;
    assert.equal(transactionStatus, "PENDING");
    await new Promise((ready) => setTimeout(ready, 100));
  }
  assert.ok(asked <= 2 + (Date.now() - began) / 2000, `asked ${asked} times`);
  const { transactionStatus } = await parent.getOnRampTransactionStatus({ organizationId: buyer, transactionId: id });
  assert.equal(transactionStatus, "COMPLETED");
});

test("jose believes the tokens that Coinbase gets, of either kind of key", async () => {
  let key, keyId;
  const tokens = new Set();
  await listen(process.env.COINBASE_PORT, async (request, body) => {
    try {
      const token = request.headers.authorization.replace(/^Bearer /, "");
      const { payload, protectedHeader } = await jose.jwtVerify(token, key, { issuer: "cdp", subject: keyId, algorithms: ["ES256", "EdDSA"] });
      assert.equal(protectedHeader.kid, keyId);
      assert.equal(payload.uri, `${request.method} ${request.headers.host}${request.url}`);
      assert.ok(payload.exp - payload.nbf <= 120);
      assert.ok(!tokens.has(token));
      tokens.add(token);
    } catch (error) {
      return [401, { message: String(error) }];
    }
    if (request.method === "POST" && request.url === "/onramp/v1/token") {
      const ask = JSON.parse(body);
      assert.deepEqual(Object.keys(ask).sort(), ["addresses", "assets", "clientIp"]);
      return [200, { token: `${ask.addresses[0].address}/${ask.addresses[0].blockchains}/${ask.assets}`, channel_id: "" }];
    }
    return [200, { transactions: [{ status: "ONRAMP_TRANSACTION_STATUS_SUCCESS" }], next_page_key: "", total_count: "1" }];
  });
  const ec = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const ed = generateKeyPairSync("ed25519");
  const jwk = ed.privateKey.export({ format: "jwk" });
  const raw = Buffer.concat([Buffer.from(jwk.d, "base64url"), Buffer.from(jwk.x, "base64url")]).toString("base64");
  for (const [kind, pair, text] of [
    ["ES256", ec, ec.privateKey.export({ type: "sec1", format: "pem" })],
    ["EdDSA", ed, raw],
  ]) {
    [key, keyId] = [pair.publicKey, `organizations/o/apiKeys/${kind}`];
    const { fiatOnRampCredentialId } = await parent.createFiatOnRampCredential({
      onrampProvider: coinbase,
      projectId: "project",
      publishableApiKey: keyId,
      encryptedSecretApiKey: seal("unused"),
      encryptedPrivateApiKey: seal(text),
    });
    for (const [n, c] of sold) {
      const { onRampUrl, onRampTransactionId } = await child.initFiatOnRamp({
        onrampProvider: coinbase,
        walletAddress: addresses[n],
        network: network(n),
        cryptoCurrencyCode: currency(c),
        countryCode: "US",
        countrySubdivisionCode: "NY",
      });
      const page = new URL(onRampUrl);
      assert.equal(page.searchParams.get("sessionToken"), `${addresses[n]}/${n.toLowerCase()}/${c}`);
      assert.equal(page.searchParams.get("partnerUserRef"), onRampTransactionId);
      const { transactionStatus } = await child.getOnRampTransactionStatus({ transactionId: onRampTransactionId, refresh: true });
      assert.equal(transactionStatus, "COMPLETED");
    }
    await parent.deleteFiatOnRampCredential({ fiatOnrampCredentialId: fiatOnRampCredentialId });
  }
  assert.equal(tokens.size, 4 * sold.length);
});
