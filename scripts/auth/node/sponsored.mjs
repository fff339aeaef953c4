// A transaction of somebody without coins: the page's own sub-organization sends it and the organization above pays, by the web
// client's calls and by the screens of the React kit. viem reads what the chain has.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { createPublicClient, createWalletClient, http, parseEther } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { sepolia } from "viem/chains";
import { query, submit, world } from "./setting.mjs";

const chain = { chain: sepolia, transport: http(process.env.GETH_URL) };
const caip2 = `eip155:${sepolia.id}`;
const delegate = "0x2a31ef110e4cdb9c332aa1d8633510214299c48b";
const station = "0x1cbbd58e521e1133f09e2ba207e3e75c4db404d5";
const nowhere = "0x00000000000000000000000000000000000a1157";
const node = createPublicClient(chain);
let sponsor;

// sent checks a sponsored transaction: the organization's account pays, the user's account executes.
async function sent(hash, account, executions) {
  const transaction = await node.getTransaction({ hash });
  assert.deepEqual([transaction.from, transaction.to, transaction.value].map((v) => v.toString().toLowerCase()), [sponsor, station, "0"]);
  assert.equal((await node.getTransactionReceipt({ hash })).status, "success");
  assert.equal(await node.getCode({ address: account }), `0xef0100${delegate.slice(2)}`);
  assert.equal(await node.getBalance({ address: account }), 0n);
  assert.equal(query("get_nonces", { address: account, caip2, gasStationNonce: true, organizationId: await executions.organization }).gasStationNonce, String(executions.count));
}

before(async () => {
  submit("upsert_gas_usage_config", { orgWindowLimitUsd: "100", subOrgWindowLimitUsd: "10", windowDurationMinutes: "60" });
  const gas = query("get_gas_station");
  assert.deepEqual([gas.delegate, gas.station].map((a) => a.toLowerCase()), [delegate, station]);
  sponsor = gas.sponsor.toLowerCase();
  const rich = createWalletClient({ ...chain, account: privateKeyToAccount(process.env.GETH_KEY) });
  await node.waitForTransactionReceipt({ hash: await rich.sendTransaction({ to: sponsor, value: parseEther("1") }) });
});

test("the web client sends without coins, and the window's end is told", async () => {
  const w = await world();
  const device = await w.device();
  try {
    await device.page.evaluate(() => client.signUpWithPasskey({ passkeyDisplayName: "poor" }));
    const { organizationId, address } = await device.page.evaluate(async () => {
      await client.createWallet({ walletName: "Mine", accounts: ["ADDRESS_FORMAT_ETHEREUM"] });
      return { organizationId: (await client.getSession()).organizationId, address: (await client.fetchWallets())[0].accounts[0].address };
    });
    const send = (more) =>
      device.page.evaluate(
        async ([transaction]) => {
          const sendTransactionStatusId = await client.ethSendTransaction({ transaction }).catch((e) => {
            throw new Error(`refused: ${e.cause}`);
          });
          return client.pollTransactionStatus({ sendTransactionStatusId });
        },
        [{ from: address, to: nowhere, caip2, data: "0x1234", sponsor: true, ...more }],
      );
    for (const count of [1, 2]) {
      const { eth } = await send({});
      await sent(eth.txHash, address, { organization: organizationId, count });
    }
    const usage = await device.page.evaluate(async () => client.httpClient.getGasUsage({ organizationId: (await client.getSession()).organizationId }));
    assert.equal(usage.windowLimitUsd, "10");
    assert.ok(Number(usage.usageUsd) > 0 && Number(usage.usageUsd) < 10, usage.usageUsd);
    submit("upsert_gas_usage_config", { orgWindowLimitUsd: "100", subOrgWindowLimitUsd: usage.usageUsd, windowDurationMinutes: "60" });
    await assert.rejects(send({}), /refused: .*subOrgWindowLimitUsd/);
    submit("upsert_gas_usage_config", { orgWindowLimitUsd: "100", subOrgWindowLimitUsd: "10", windowDurationMinutes: "60" });
    await assert.rejects(send({ sponsor: false, value: "1" }), /insufficient funds/); // nobody pays for this one
  } finally {
    await device.close();
    await w.close();
  }
});

test("the React kit sends, and shows the end of it", async () => {
  const w = await world({ page: "kit" });
  const { page, close } = await w.device();
  try {
    await page.waitForFunction(() => globalThis.kit?.clientState === "ready");
    await page.evaluate(() => kit.signUpWithPasskey({ passkeyDisplayName: "kit" }));
    await page.waitForFunction(() => kit.authState === "authenticated");
    const { organizationId, address } = await page.evaluate(async () => {
      await kit.createWallet({ walletName: "Mine", accounts: ["ADDRESS_FORMAT_ETHEREUM"] });
      const account = (await kit.fetchWallets()).flatMap((w) => w.accounts).find((a) => a.addressFormat === "ADDRESS_FORMAT_ETHEREUM");
      return { organizationId: (await kit.getSession()).organizationId, address: account.address };
    });
    const done = page.evaluate((transaction) => kit.handleSendTransaction({ transaction }), { from: address, to: nowhere, caip2, data: "0x5678", sponsor: true });
    await page.getByText("Transaction Sent!").waitFor({ timeout: 60_000 });
    const link = await page.getByText("View on Explorer").getAttribute("href");
    await done;
    await sent(link.split("/tx/")[1], address, { organization: organizationId, count: 1 });
  } finally {
    await close();
    await w.close();
  }
});
