// A purchase at an on-ramp: the page's own sub-organization asks for it, with the credential of the organization above. Once by the
// web client's calls, once by the screens of the React kit.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { encryptOnRampSecret } from "@turnkey/crypto";
import { credentials, submit, world } from "./setting.mjs";

const onrampProvider = "FIAT_ON_RAMP_PROVIDER_MOONPAY";
const purchases = new Map(); // what the provider says of each: nothing, then that it waits, then that it is done
let w, provider;

before(async () => {
  provider = createServer((request, answer) => {
    const id = request.url.match(/^\/v1\/transactions\/ext\/([0-9a-f-]{36})\?apiKey=pk_(?:live|test)$/)?.[1];
    const status = purchases.get(id)?.shift();
    answer.writeHead(status ? 200 : 404, { "Content-Type": "application/json" });
    answer.end(JSON.stringify(status ? [{ id: "1", status, externalTransactionId: id }] : { message: "Not found" }));
  });
  await new Promise((ready) => provider.listen(Number(process.env.CLOISTER_MOONPAY_PORT), "127.0.0.1", ready));
  for (const mode of ["live", "test"]) {
    submit("create_fiat_on_ramp_credential", {
      onrampProvider,
      publishableApiKey: `pk_${mode}`,
      encryptedSecretApiKey: encryptOnRampSecret(`sk_${mode}`, credentials.keys.onRamp),
      sandboxMode: mode === "test",
    });
  }
  w = await world();
});
after(async () => {
  await w?.close();
  provider?.close();
});

test("a page for one's own address, and how the purchase stands", async () => {
  const device = await w.device();
  const ask = (walletAddress) =>
    device.page.evaluate(
      async ([onrampProvider, walletAddress]) => {
        const { organizationId } = await client.getSession();
        return client.httpClient.initFiatOnRamp({
          organizationId,
          onrampProvider,
          walletAddress,
          network: "FIAT_ON_RAMP_BLOCKCHAIN_NETWORK_BASE",
          cryptoCurrencyCode: "FIAT_ON_RAMP_CRYPTO_CURRENCY_USDC",
        });
      },
      [onrampProvider, walletAddress],
    );
  await device.page.evaluate(() => client.signUpWithPasskey({ passkeyDisplayName: "first" }));
  const address = await device.page.evaluate(async () => {
    await client.createWallet({ walletName: "Mine", accounts: ["ADDRESS_FORMAT_ETHEREUM"] });
    return (await client.fetchWallets())[0].accounts[0].address;
  });
  const { onRampUrl, onRampTransactionId } = await ask(address);
  const [before, signature] = onRampUrl.split("&signature=");
  const page = new URL(onRampUrl);
  assert.equal(page.searchParams.get("walletAddress"), address);
  assert.equal(decodeURIComponent(signature), createHmac("sha256", "sk_live").update(new URL(before).search).digest("base64"));

  // As the published kit waits: every three seconds, until it has ended.
  purchases.set(onRampTransactionId, [undefined, "waitingPayment", "pending", "completed"]);
  const seen = [];
  for (let status; status !== "COMPLETED"; await new Promise((ok) => setTimeout(ok, 3000))) {
    ({ transactionStatus: status } = await device.page.evaluate(async (transactionId) => {
      const { organizationId } = await client.getSession();
      return client.httpClient.getOnRampTransactionStatus({ organizationId, transactionId, refresh: true });
    }, onRampTransactionId));
    seen.push(status);
  }
  assert.deepEqual(seen, ["CREATED", "PENDING", "PENDING", "COMPLETED"]);

  // Another's address is refused, on another device too.
  const other = await w.device();
  await other.page.evaluate(() => client.signUpWithPasskey({ passkeyDisplayName: "second" }));
  await assert.rejects(ask("0x000000000000000000000000000000000000bEEF"), /not an address of the organization/);
  await assert.rejects(
    other.page.evaluate(async (transactionId) => {
      const { organizationId } = await client.getSession();
      return client.httpClient.getOnRampTransactionStatus({ organizationId, transactionId, refresh: true });
    }, onRampTransactionId),
    /not found/,
  );
  await Promise.all([device.close(), other.close()]);
});

// The kit opens the provider's page in a window of its own and asks every three seconds how the purchase stands. The window's page is
// made up here: nothing goes out of this machine.
test("the React kit buys, in its own window, to the end", async () => {
  const kitchen = await world({ page: "kit" });
  const { page, close } = await kitchen.device();
  try {
    await page.context().route("https://buy-sandbox.moonpay.com/**", (route) => route.fulfill({ contentType: "text/html", body: "<title>a provider</title>" }));
    await page.waitForFunction(() => globalThis.kit?.clientState === "ready");
    await page.evaluate(() => kit.signUpWithPasskey({ passkeyDisplayName: "kit" }));
    await page.waitForFunction(() => kit.authState === "authenticated");
    const account = await page.evaluate(async () => {
      await kit.createWallet({ walletName: "Mine", accounts: ["ADDRESS_FORMAT_ETHEREUM"] });
      return (await kit.fetchWallets()).flatMap((w) => w.accounts).find((a) => a.addressFormat === "ADDRESS_FORMAT_ETHEREUM");
    });
    const opened = page.context().waitForEvent("page");
    const done = page.evaluate((walletAccount) => kit.handleOnRamp({ walletAccount, fiatCurrencyAmount: "50", fiatCurrencyCode: "FIAT_ON_RAMP_CURRENCY_USD" }), account);
    const shop = await opened;
    await shop.waitForURL("https://buy-sandbox.moonpay.com/**");
    const asked = new URL(shop.url());
    const [signed, signature] = shop.url().split("&signature=");
    assert.equal(decodeURIComponent(signature), createHmac("sha256", "sk_test").update(new URL(signed).search).digest("base64"));
    assert.deepEqual(["walletAddress", "apiKey", "currencyCode", "baseCurrencyAmount"].map((k) => asked.searchParams.get(k)), [account.address, "pk_test", "eth", "50"]);
    purchases.set(asked.searchParams.get("externalTransactionId"), ["waitingPayment", "pending", "completed"]);
    await page.getByText("On Ramp Transaction Complete!").waitFor({ timeout: 300_000 });
    await done;
    assert.deepEqual([purchases.get(asked.searchParams.get("externalTransactionId")), shop.isClosed()], [[], true]);
  } finally {
    await close();
    await kitchen.close();
  }
});
