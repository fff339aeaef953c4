// @cosmjs verifies what Cloister signs through @turnkey/cosmjs, on Cosmos and on Sei.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { encodeSecp256k1Pubkey, rawSecp256k1PubkeyToRawAddress } from "@cosmjs/amino";
import { Secp256k1, Secp256k1Signature, sha256 } from "@cosmjs/crypto";
import { fromBase64, toBech32 } from "@cosmjs/encoding";
import { Registry, encodePubkey, makeAuthInfoBytes, makeSignBytes, makeSignDoc } from "@cosmjs/proto-signing";
import { defaultRegistryTypes } from "@cosmjs/stargate";
import { TurnkeyDirectWallet } from "@turnkey/cosmjs";
import { derived } from "./derive.mjs";
import { account, addressElsewhere, bothClients, http, organizationId, privateKey, refused, server, signBytes, wallet } from "./setting.mjs";

const registry = new Registry(defaultRegistryTypes);
const chains = { COSMOS: ["cosmos", "cosmoshub-4", "uatom"], SEI: ["sei", "pacific-1", "usei"] };
const keys = {};

before(async () => {
  for (const format of Object.keys(chains)) keys[format] = await privateKey(format, "CURVE_SECP256K1", format);
});

// A payment, as a wallet signs it directly.
function document(format, address, compressed, sequence = 3) {
  const [prefix, chainId, denom] = chains[format];
  const to = toBech32(prefix, rawSecp256k1PubkeyToRawAddress(compressed));
  const body = registry.encodeTxBody({
    messages: [{ typeUrl: "/cosmos.bank.v1beta1.MsgSend", value: { fromAddress: address, toAddress: to, amount: [{ denom, amount: "1000" }] } }],
    memo: "note",
  });
  const auth = makeAuthInfoBytes([{ pubkey: encodePubkey(encodeSecp256k1Pubkey(compressed)), sequence }], [{ denom, amount: "500" }], 200000);
  return makeSignDoc(body, auth, chainId, 7);
}

// A document that is signed through the adapter. One signature in 128 begins r or s with a zero, with which the adapter
// hands it on and @cosmjs/crypto does not take it: then the next document is tried, as a user would.
async function signed(direct, format, address, compressed) {
  for (let sequence = 3; ; sequence++) {
    try {
      return await direct.signDirect(address, document(format, address, compressed, sequence));
    } catch (error) {
      if (sequence === 9 || !/must be encoded as unpadded big endian/.test(error.message)) throw error;
    }
  }
}

const right = (digest, signature, publicKey) => Secp256k1.verifySignature(Secp256k1Signature.fromFixedLength(signature), digest, publicKey);

for (const format of Object.keys(chains)) {
  test(`${format}: the adapter's address is ours, and the chain's rule takes its signature`, async () => {
    const [prefix] = chains[format];
    const { privateKeyId, address } = keys[format];
    const direct = await TurnkeyDirectWallet.init({ config: { client: server, organizationId, signWith: privateKeyId }, prefix });
    const [own] = await direct.getAccounts();
    assert.equal(own.address, address);
    assert.equal(address, derived(format, "CURVE_SECP256K1", keys[format].publicKey));
    const { signed: doc, signature } = await signed(direct, format, own.address, own.pubkey);
    const digest = sha256(makeSignBytes(doc));
    assert.deepEqual(fromBase64(signature.pub_key.value), own.pubkey);
    assert.ok(await right(digest, fromBase64(signature.signature), own.pubkey));
    assert.ok(!(await right(sha256(digest), fromBase64(signature.signature), own.pubkey)));
  });

  test(`${format}: an address in a wallet, signed raw under SHA-256`, async () => {
    const [own] = await wallet(format, [account(format, "m/44'/118'/0'/0/0")]);
    assert.equal(own.address, derived(format, own.curve, own.publicKey));
    const compressed = Secp256k1.compressPubkey(Buffer.from(own.publicKey, "hex"));
    const message = makeSignBytes(document(format, own.address, compressed));
    const { r, s } = await signBytes(own.address, message, "SHA256");
    assert.ok(await right(sha256(message), Buffer.from(r + s, "hex"), compressed));
  });
}

for (const [name, client] of bothClients) {
  test(`${name}: an account named by its uncompressed public key`, async () => {
    const [own] = await wallet(`cosmos ${name}`, [account("UNCOMPRESSED", "m/44'/118'/0'/0/1")]);
    const direct = TurnkeyDirectWallet.initWithPublicKey({ config: { client, organizationId, signWith: own.address } });
    const [{ address, pubkey }] = await direct.getAccounts();
    const { signed: doc, signature } = await signed(direct, "COSMOS", address, pubkey);
    const once = sha256(makeSignBytes(doc));
    // With the http client the adapter hashes and then asks the server to hash again: applied to the letter.
    assert.ok(await right(client === http ? sha256(once) : once, fromBase64(signature.signature), pubkey));
  });
}

test("refused: the address of another organization, through the adapter", async () => {
  const elsewhere = await addressElsewhere("UNCOMPRESSED", "m/44'/118'/0'/0/0");
  const direct = TurnkeyDirectWallet.initWithPublicKey({ config: { client: server, organizationId, signWith: elsewhere } });
  const [{ address, pubkey }] = await direct.getAccounts();
  await refused(/(wallet account|private key) not found/, () => direct.signDirect(address, document("COSMOS", address, pubkey)), 5);
});
