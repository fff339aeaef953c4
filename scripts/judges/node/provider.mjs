// geth is sent what Cloister signs through @turnkey/eip-1193-provider, as a wallet in a browser is asked.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { createEIP1193Provider } from "@turnkey/eip-1193-provider";
import { hashMessage, keccak256, numberToHex, parseGwei, recoverAddress, recoverTypedDataAddress } from "viem";
import { account, addressElsewhere, http, organizationId, refused, wallet } from "./setting.mjs";
import { chain, fund, geth, mined, rpcUrl } from "./chain-eth.mjs";

process.env.NODE_ENV = "test"; // else the provider takes nodes at https only
const friend = "0x" + "ab".repeat(20);
let provider;
let address;

before(async () => {
  const [made] = await wallet("provider", [account("ETHEREUM", "m/44'/60'/0'/0/0")]);
  const { walletId } = made;
  provider = await createEIP1193Provider({
    walletId, organizationId, turnkeyClient: http, chains: [{ chainId: numberToHex(chain.id), chainName: "geth", rpcUrls: [rpcUrl] }],
  });
  [address] = await provider.request({ method: "eth_requestAccounts" });
  assert.equal(address, made.address);
  await fund(address);
});

const transaction = async (over) => ({
  from: address, to: friend, value: "0x1", gas: numberToHex(30000), chainId: numberToHex(chain.id),
  nonce: numberToHex(await geth.getTransactionCount({ address })), ...over,
});

test("EIP-1559 and EIP-2930 transactions, sent by the provider", async () => {
  const fees = { maxFeePerGas: numberToHex(parseGwei("3")), maxPriorityFeePerGas: numberToHex(parseGwei("1")) };
  const older = { type: "0x1", gasPrice: numberToHex(parseGwei("3")), accessList: [{ address: friend, storageKeys: [] }] };
  for (const [over, type] of [[{ type: "0x2", ...fees }, "eip1559"], [older, "eip2930"]]) {
    const hash = await provider.request({ method: "eth_sendTransaction", params: [await transaction(over)] });
    const receipt = await mined(hash);
    assert.deepEqual([receipt.type, receipt.from], [type, address.toLowerCase()]);
  }
});

test("digests and typed data", async () => {
  const hash = hashMessage("hello");
  for (const [method, params] of [["personal_sign", [hash, address]], ["eth_sign", [address, keccak256("0x01")]]]) {
    const signature = await provider.request({ method, params });
    assert.equal(await recoverAddress({ hash: params.find((p) => p !== address), signature }), address);
  }
  const data = {
    domain: { name: "Provider", chainId: chain.id },
    types: { EIP712Domain: [{ name: "name", type: "string" }, { name: "chainId", type: "uint256" }], Note: [{ name: "text", type: "string" }] },
    primaryType: "Note",
    message: { text: "hello" },
  };
  const signature = await provider.request({ method: "eth_signTypedData_v4", params: [address, data] });
  assert.equal(await recoverTypedDataAddress({ ...data, signature }), address);
});

test("refused: the address of another organization", async () => {
  const from = await addressElsewhere("ETHEREUM", "m/44'/60'/0'/0/0");
  const params = [await transaction({ from, type: "0x2" })];
  await refused(/wallet account not found/, () => provider.request({ method: "eth_signTransaction", params }), 5);
});
