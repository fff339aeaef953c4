// One client that passes no key of its own, as wallet kits are: it imports a wallet and a private key, exports both, and
// checks a proof to the end. Copied into a project and run by walletkit.mjs before and after its packages were pinned.
// Writes {step: "ok" or the error's text} as JSON.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import * as esm from "@turnkey/crypto";
import { Turnkey } from "@turnkey/sdk-server";

const cjs = createRequire(import.meta.url)("@turnkey/crypto");
const credentials = JSON.parse(readFileSync(process.env.CLOISTER_CREDENTIALS, "utf8"));
const { organizationId, rootUserId: userId } = credentials;
const client = new Turnkey({
  apiBaseUrl: credentials.apiUrl,
  apiPublicKey: credentials.rootApiKey.publicKey,
  apiPrivateKey: credentials.rootApiKey.privateKey,
  defaultOrganizationId: organizationId,
  activityPoller: { intervalMs: 100, numRetries: 20 },
}).apiClient();

const words = "legal winner thank year wave sausage worth useful legal winner thank yellow";
const results = {};
const step = async (name, run) => {
  try {
    await run();
    results[name] = "ok";
  } catch (error) {
    results[name] = String(error);
  }
};
const same = (got, want) => {
  if (got !== want) throw new Error(`got ${got}, want ${want}`);
};

// The wallets of one run must not be in the way of the next one's.
const name = `Imported ${process.argv[2]}`;
let { importBundle } = await client.initImportWallet({ userId });
await step("import of a wallet, ESM", async () => {
  const encryptedBundle = await esm.encryptWalletToBundle({ mnemonic: words, importBundle, userId, organizationId });
  await client.importWallet({ userId, walletName: name, encryptedBundle, accounts: [] });
});
({ importBundle } = await client.initImportPrivateKey({ userId }));
await step("import of a private key, CommonJS", async () => {
  const encryptedBundle = await cjs.encryptPrivateKeyToBundle({ privateKey: "11".repeat(32), keyFormat: "HEXADECIMAL", importBundle, userId, organizationId });
  await client.importPrivateKey({ userId, privateKeyName: name, encryptedBundle, curve: "CURVE_P256", addressFormats: [] });
});

const { walletId } = await client.createWallet({ walletName: `Made ${process.argv[2]}`, accounts: [], mnemonicLength: 24 });
for (const [kind, crypto] of [["ESM", esm], ["CommonJS", cjs]]) {
  const pair = crypto.generateP256KeyPair();
  const { exportBundle } = await client.exportWallet({ walletId, targetPublicKey: pair.publicKeyUncompressed });
  await step(`export of a wallet, ${kind}`, async () => {
    const mnemonic = await crypto.decryptExportBundle({ exportBundle, embeddedKey: pair.privateKey, organizationId, returnMnemonic: true });
    same(mnemonic.split(" ").length, 24);
  });
}

const { activity } = await client.createWallet({
  walletName: `Proven ${process.argv[2]}`, generateAppProofs: true,
  accounts: [{ curve: "CURVE_SECP256K1", pathFormat: "PATH_FORMAT_BIP32", path: "m/44'/60'/0'/0/0", addressFormat: "ADDRESS_FORMAT_ETHEREUM" }],
});
const [appProof] = activity.appProofs;
const { bootProof } = await client.getBootProof({ organizationId, ephemeralKey: appProof.publicKey });
await step("a proof to the end, ESM", () => esm.verify(appProof, bootProof));
await step("a proof to the end, CommonJS", () => cjs.verify(appProof, bootProof));
console.log(JSON.stringify(results));
