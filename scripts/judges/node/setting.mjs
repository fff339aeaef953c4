// Where the simulator and the engines are, the clients of both generations, and what every file here makes and checks.
import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { readFileSync } from "node:fs";
import { ApiKeyStamper } from "@turnkey/api-key-stamper";
import { TurnkeyClient } from "@turnkey/http";
import { Turnkey } from "@turnkey/sdk-server";

const credentials = JSON.parse(readFileSync(process.env.CLOISTER_CREDENTIALS, "utf8"));
export const organizationId = credentials.organizationId;
export const rootPublicKey = credentials.rootApiKey.publicKey;

// The two clients that every adapter takes. They ask for the same things in different words.
function clients(organizationId, key) {
  const keys = { apiPublicKey: key.publicKey, apiPrivateKey: key.privateKey };
  return {
    server: new Turnkey({
      apiBaseUrl: credentials.apiUrl,
      defaultOrganizationId: organizationId,
      activityPoller: { intervalMs: 100, numRetries: 20 },
      ...keys,
    }).apiClient(),
    http: new TurnkeyClient({ baseUrl: credentials.apiUrl }, new ApiKeyStamper(keys)),
  };
}

export const { server, http } = clients(organizationId, credentials.rootApiKey);
export const bothClients = Object.entries({ "server SDK": server, "http client": http });

const curves = { SOLANA: 1, SUI: 1, APTOS: 1, XLM: 1, TON_V3R2: 1, TON_V4R2: 1, TON_V5R1: 1 };

// account: what create_wallet wants to know of one address. The format is named without its prefix.
export const account = (format, path, curve) => ({
  curve: curve ?? (format in curves ? "CURVE_ED25519" : "CURVE_SECP256K1"),
  pathFormat: "PATH_FORMAT_BIP32",
  path,
  addressFormat: `ADDRESS_FORMAT_${format}`,
});

// A wallet with these accounts, in their order, as the interface lists them: {address, publicKey, addressFormat, …}.
export async function wallet(walletName, accounts) {
  const { walletId, addresses } = await server.createWallet({ walletName, accounts });
  const listed = (await server.getWalletAccounts({ walletId, paginationOptions: { limit: "100" } })).accounts;
  assert.deepEqual(listed.map((a) => a.address), addresses);
  assert.deepEqual(listed.map((a) => a.path), accounts.map((a) => a.path));
  return listed;
}

// A private key that is in no wallet: {privateKeyId, publicKey, address}; the address is that of the first format.
export async function privateKey(privateKeyName, curve, ...formats) {
  const { privateKeys } = await server.createPrivateKeys({
    privateKeys: [
      { privateKeyName, curve, addressFormats: formats.map((f) => `ADDRESS_FORMAT_${f}`), privateKeyTags: [] },
    ],
  });
  const { privateKey } = await server.getPrivateKey({ privateKeyId: privateKeys[0].privateKeyId });
  return { ...privateKey, address: privateKey.addresses.find((a) => a.format === `ADDRESS_FORMAT_${formats[0]}`).address };
}

// The address of another organization: this one's child has a wallet of its own, which its parent may not sign with.
export async function addressElsewhere(format, path) {
  const { rootUserIds, subOrganizationId, wallet } = await server.createSubOrganization({
    subOrganizationName: `Elsewhere ${format}`,
    rootQuorumThreshold: 1,
    rootUsers: [
      {
        userName: "Owner",
        apiKeys: [{ apiKeyName: "Key", publicKey: rootPublicKey, curveType: "API_KEY_CURVE_P256" }],
        authenticators: [],
        oauthProviders: [],
      },
    ],
    wallet: { walletName: "Elsewhere", accounts: [account(format, path)] },
  });
  assert.equal(rootUserIds.length, 1);
  assert.ok(subOrganizationId);
  return wallet.addresses[0];
}

// sign_transaction, as a client without an adapter asks for it.
export async function signTransaction(type, signWith, unsignedTransaction) {
  const { activity, signedTransaction } = await server.signTransaction({
    signWith,
    unsignedTransaction,
    type: `TRANSACTION_TYPE_${type}`,
  });
  assert.equal(activity.status, "ACTIVITY_STATUS_COMPLETED");
  assert.match(signedTransaction, /^[0-9a-f]+$/);
  return signedTransaction;
}

// sign_raw_payload of bytes: {r, s, v} in hex. The function that hashes them is named without its prefix.
export async function signBytes(signWith, bytes, hashFunction) {
  const { r, s, v } = await server.signRawPayload({
    signWith,
    payload: Buffer.from(bytes).toString("hex"),
    encoding: "PAYLOAD_ENCODING_HEXADECIMAL",
    hashFunction: `HASH_FUNCTION_${hashFunction}`,
  });
  assert.match(r, /^[0-9a-f]{64}$/);
  assert.match(s, /^[0-9a-f]{64}$/);
  assert.match(v, /^0[01]$/);
  return { r, s, v };
}

// A new key for stamps.
export function apiKey() {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const { d } = privateKey.export({ format: "jwk" });
  const { x, y } = publicKey.export({ format: "jwk" });
  const hex = (part) => Buffer.from(part, "base64url").toString("hex");
  return { publicKey: (Buffer.from(y, "base64url").at(-1) % 2 ? "03" : "02") + hex(x), privateKey: hex(d) };
}

// A user who is not in the root quorum, who may do what this condition says, and a client of the server SDK with his key.
export async function clerk(userName, condition) {
  const key = apiKey();
  const { userIds } = await server.createUsers({
    users: [{ userName, apiKeys: [{ apiKeyName: userName, publicKey: key.publicKey, curveType: "API_KEY_CURVE_P256" }], authenticators: [], oauthProviders: [], userTags: [] }],
  });
  await server.createPolicy({
    policyName: userName,
    effect: "EFFECT_ALLOW",
    consensus: `approvers.any(user, user.id == '${userIds[0]}')`,
    condition,
    notes: "",
  });
  return clients(organizationId, key).server;
}

// refused: the call fails with one of the server's own errors, which has this code and whose words are these. Adapters wrap
// the error each in its own, so the text is searched for both.
export async function refused(words, call, code = 3) {
  await assert.rejects(call, (error) => {
    const text = String(error.message);
    assert.match(text, new RegExp(`Turnkey error ${code}:`), text);
    assert.match(text, words);
    return true;
  });
}

// asked: JSON-RPC, the way that engines speak it. An error of the engine is an error here, in its words.
export async function asked(url, method, params, headers = {}) {
  const answer = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ jsonrpc: "1.0", id: 1, method, params }),
  });
  const { result, error } = await answer.json();
  if (error) throw new Error(`${method}: ${error.message}`);
  return result;
}
