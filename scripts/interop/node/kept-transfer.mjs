// After the kill: what was imported is there and goes out the same; a target that was left over has expired.
import assert from "node:assert/strict";
import { test } from "node:test";
import { decryptExportBundle, generateP256KeyPair } from "@turnkey/crypto";
import { Turnkey } from "@turnkey/sdk-server";
import { credentials, recall, refused, settings } from "./setting.mjs";

const root = new Turnkey(settings()).apiClient();
const { organizationId, rootUserId: userId } = credentials;
const state = recall("transfer");

test("imported wallets and keys go out again", async () => {
  const open = (exportBundle, pair, options) =>
    decryptExportBundle({ exportBundle, embeddedKey: pair.privateKey, organizationId, dangerouslyOverrideSignerPublicKey: credentials.keys.signer, ...options });
  for (const { walletId, addresses, length } of state.wallets) {
    const listed = (await root.getWalletAccounts({ walletId })).accounts.map((a) => a.address);
    assert.deepEqual(listed, addresses);
    const pair = generateP256KeyPair();
    const { exportBundle } = await root.exportWallet({ walletId, targetPublicKey: pair.publicKeyUncompressed });
    assert.equal((await open(exportBundle, pair, { returnMnemonic: true })).split(" ").length, length);
  }
  for (const { privateKeyId, hex } of state.keys) {
    const pair = generateP256KeyPair();
    const { exportBundle } = await root.exportPrivateKey({ privateKeyId, targetPublicKey: pair.publicKeyUncompressed });
    assert.equal(await open(exportBundle, pair, { keyFormat: "HEXADECIMAL" }), hex);
  }
});

test("a target of the run before has expired", async () => {
  await refused(3, "import target has expired", () =>
    root.importWallet({ userId, walletName: "Never", encryptedBundle: state.leftOver, accounts: [] }));
});
