// Balances, assets, history and e-mail events through the unmodified server SDK. The node is a stand-in that knows one account and
// takes what is sent; scripts/sending/test.sh holds the same against geth.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { keccak_256 } from "@noble/hashes/sha3";
import { Turnkey } from "@turnkey/sdk-server";
import { refused, settings } from "./setting.mjs";

const caip2 = "eip155:11155111";
const hash = `0x${"b1".repeat(32)}`;
const root = new Turnkey(settings()).apiClient();
const mined = new Map(); // receipts by hash
let node;

const block = { number: "0x9", hash, timestamp: "0x68000000" };
const answers = {
  eth_chainId: () => "0xaa36a7",
  eth_getBalance: () => "0xde0b6b3a7640000",
  eth_getTransactionCount: () => `0x${mined.size.toString(16)}`,
  eth_getBlockByNumber: () => ({ ...block, number: "0x8" }),
  eth_getBlockByHash: () => block,
  eth_getTransactionReceipt: ([name]) => mined.get(name) ?? null,
  eth_sendRawTransaction: ([raw]) => {
    const transactionHash = `0x${Buffer.from(keccak_256(Buffer.from(raw.slice(2), "hex"))).toString("hex")}`;
    mined.set(transactionHash, { transactionHash, status: "0x1", blockNumber: block.number, blockHash: hash, gasUsed: "0x5208", effectiveGasPrice: "0x2" });
    return transactionHash;
  },
};

before(async () => {
  node = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const { id, method, params } = JSON.parse(Buffer.concat(chunks));
    response.end(JSON.stringify({ jsonrpc: "2.0", id, ...(answers[method] ? { result: answers[method](params) } : { error: { code: -32601, message: method } }) }));
  });
  await new Promise((ready) => node.listen(Number(process.env.CLOISTER_NODE_PORT), "127.0.0.1", ready));
});
after(() => node.close());

const account = { curve: "CURVE_SECP256K1", pathFormat: "PATH_FORMAT_BIP32", path: "m/44'/60'/0'/0/0", addressFormat: "ADDRESS_FORMAT_ETHEREUM" };
const coin = { caip19: `${caip2}/slip44:60`, symbol: "ETH", name: "Ether", decimals: 18 };

test("balances, assets and the history of what was sent", async () => {
  const { addresses: [address] } = await root.createWallet({ walletName: "Read", accounts: [account] });
  assert.deepEqual((await root.getWalletAddressBalances({ address, caip2 })).balances, [{ ...coin, balance: "1000000000000000000", display: { crypto: "1" } }]);
  assert.deepEqual((await root.listSupportedAssets({ caip2 })).assets, [{ ...coin, stable: false }]);
  const to = "0x000000000000000000000000000000000000dEaD";
  const { sendTransactionStatusId } = await root.ethSendTransaction({
    from: address, caip2, calls: [{ to, value: "7" }], gasLimit: "21000", maxFeePerGas: "2", maxPriorityFeePerGas: "1",
  });
  for (let status; status !== "INCLUDED"; await new Promise((ok) => setTimeout(ok, 100))) {
    ({ txStatus: status } = await root.getSendTransactionStatus({ sendTransactionStatusId }));
    assert.notEqual(status, "FAILED");
  }
  const { transactions, pageInfo } = await root.listEthTransactionHistory({ address, caip2, paginationOptions: { limit: "5" } });
  const { activity } = await root.getActivity({ activityId: sendTransactionStatusId });
  const { submittedAt, ...turnkey } = transactions[0].turnkey;
  assert.deepEqual({ ...transactions[0], turnkey }, {
    transactionHash: [...mined.keys()][0], block: { number: "9", hash, timestamp: "2025-04-16T19:07:44Z" }, status: "CONFIRMED", origin: "TURNKEY", from: address, to,
    fee: { amount: "42000", caip19: coin.caip19 }, transfers: [{ direction: "OUT", asset: coin, amount: "7", counterparty: to, display: { crypto: "0.000000000000000007" } }],
    turnkey: { sponsored: false, activityFingerprint: activity.fingerprint },
  });
  assert(Math.abs(new Date(submittedAt) - Date.now()) < 3_600_000);
  assert.equal(transactions.length, 1);
  assert.deepEqual(pageInfo, { hasNextPage: false, hasPreviousPage: false, startCursor: sendTransactionStatusId, endCursor: sendTransactionStatusId });
  await refused(5, "wallet account not found", root.getWalletAddressBalances({ address: to, caip2 }));
  await refused(9, "no node of eip155:1 is configured", root.getWalletAddressBalances({ address, caip2: "eip155:1" }));
});

test("what became of a mail", async () => {
  const email = `read-${process.pid}@example.com`;
  await root.setOrganizationFeature({ name: "FEATURE_NAME_OTP_EMAIL_AUTH", value: "" });
  await root.initOtp({ otpType: "OTP_TYPE_EMAIL", contact: email, appName: "Reading" });
  await root.removeOrganizationFeature({ name: "FEATURE_NAME_OTP_EMAIL_AUTH" });
  let all = [];
  while (all.length < 2) {
    await new Promise((ok) => setTimeout(ok, 100));
    ({ emailEvents: all } = await root.listEmailEvents({ email }));
  }
  assert.deepEqual(all.map((e) => e.eventType), ["Delivery", "Send"]);
  assert.equal(all[0].messageId, all[1].messageId);
  assert.equal(all[0].toAddress, email);
  assert.match(all[0].details.deliverySmtpResponse, /^250 /);
  assert.deepEqual((await root.listEmailEvents({ email, eventType: "Send", paginationOptions: { limit: "1" } })).emailEvents, [all[1]]);
  assert.deepEqual((await root.listEmailEvents({ email, paginationOptions: { after: all[0].id } })).emailEvents, [all[1]]);
});
