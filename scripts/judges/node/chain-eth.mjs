// What the two Ethereum files share: geth in developer mode, accounts with money, and a contract that judges signatures.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { createPublicClient, createWalletClient, encodeAbiParameters, http, parseEther, parseSignature, publicActions } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { sepolia } from "viem/chains";

export const rpcUrl = process.env.GETH_URL;
export const chain = { ...sepolia, rpcUrls: { default: { http: [rpcUrl] } } };
const transport = http(rpcUrl);
export const geth = createPublicClient({ chain, transport, pollingInterval: 50 });

// A wallet client of viem for an account of any make.
export const walletOf = (account) => createWalletClient({ account, chain, transport, pollingInterval: 50 }).extend(publicActions);

const rich = walletOf(privateKeyToAccount(process.env.GETH_FUNDED_KEY));

// The commitments to blobs, with the trusted setup of the main network. Made once in each file: it takes seconds. The package
// is the compiled part of @crate-crypto/node-eth-kzg alone, whose other platforms cannot all be fetched.
export function commitments() {
  const { DasContextJs } = createRequire(import.meta.url)("@crate-crypto/node-eth-kzg-linux-x64-gnu");
  return DasContextJs.create({ usePrecomp: false });
}

// Ten ether to each, one after the other: the test files run one at a time, so the nonces are the node's.
export async function fund(...addresses) {
  for (const to of addresses) {
    await mined(await rich.sendTransaction({ to, value: parseEther("10") }));
  }
}

// The receipt of a transaction that geth took and executed. A geth that has just started refuses the question until it has indexed
// what there is; each attempt waits some time before it gives up.
export async function mined(hash) {
  let receipt;
  while (!receipt) {
    receipt = await geth.waitForTransactionReceipt({ hash, timeout: 300_000 }).catch((error) => {
      if (!/transaction indexing is in progress/.test(error.message)) throw error;
    });
  }
  assert.equal(receipt.status, "success");
  return receipt;
}

// A raw transaction that the client sends itself.
export const broadcast = async (raw) => mined(await geth.sendRawTransaction({ serializedTransaction: raw }));

// A contract without functions: it takes (hash, v, r, s), each a word, asks the chain's own ecrecover, keeps what it says in
// its first storage word and returns it. The first line copies the rest into place.
export const recoverer =
  "0x" +
  "601780" + "6009" + "5f39" + "5ff3" + // return the 23 bytes that follow
  "365f5f37" + // the call's input, to memory
  "60205f" + "60805f" + "60015afa50" + // staticcall(gas, 1, 0, 128, 0, 32)
  "5f51" + "5f55" + // sstore(0, mload(0))
  "60205ff3"; // return(0, 32)

export function recovererInput(hash, signature) {
  const { r, s, yParity } = parseSignature(signature);
  return encodeAbiParameters(
    [{ type: "bytes32" }, { type: "uint256" }, { type: "bytes32" }, { type: "bytes32" }],
    [hash, BigInt(27 + yParity), r, s],
  );
}

export const word = (address) => "0x" + address.slice(2).toLowerCase().padStart(64, "0");

// onChain: the contract at this address, asked on chain, says that the signer of the hash is this address.
export async function onChain(contract, hash, signature, address) {
  const { data } = await geth.call({ to: contract, data: recovererInput(hash, signature) });
  assert.equal(data, word(address));
}
