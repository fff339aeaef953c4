// Import and export with the unmodified @turnkey/crypto, its override parameter naming this deployment's signer: round
// trips of mnemonics of every length and of keys on every curve, and what must be refused on the way.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ed25519 } from "@noble/curves/ed25519";
import { p256 } from "@noble/curves/nist";
import { secp256k1 } from "@noble/curves/secp256k1";
import { bytesToHex, hexToBytes } from "@noble/hashes/utils";
import { decryptExportBundle, encryptPrivateKeyToBundle, encryptWalletToBundle, generateP256KeyPair } from "@turnkey/crypto";
import { Turnkey } from "@turnkey/sdk-server";
import bs58 from "bs58";
import { address, judge } from "./judge.mjs";
import { accounts, credentials, payloads, proofsHold, refused, remember, settings } from "./setting.mjs";

const root = new Turnkey(settings()).apiClient();
const { organizationId, rootUserId: userId } = credentials;
const signer = { dangerouslyOverrideSignerPublicKey: credentials.keys.signer };
const state = { wallets: [], keys: [] };

// Known mnemonics of the English list; those of other lengths are made here.
const mnemonics = [
  "legal winner thank year wave sausage worth useful legal winner thank yellow",
  "gravity machine north sort system female filter attitude volume fold club stay feature office ecology stable narrow fog",
  "legal winner thank year wave sausage worth useful legal winner thank year wave sausage worth useful legal will",
  "letter advice cage absurd amount doctor acoustic avoid letter advice cage absurd amount doctor acoustic avoid letter advice cage absurd amount doctor acoustic bless",
];

const client = (pair, over = {}) =>
  new Turnkey(settings({ apiPublicKey: pair.publicKey, apiPrivateKey: pair.privateKey, ...over })).apiClient();

async function walletBundle(mnemonic, over = {}) {
  const { importBundle } = await root.initImportWallet({ userId });
  return encryptWalletToBundle({ mnemonic, importBundle, userId, organizationId, ...signer, ...over });
}

async function importWallet(walletName, mnemonic, accounts = []) {
  return root.importWallet({ userId, walletName, encryptedBundle: await walletBundle(mnemonic), accounts });
}

async function keyBundle(privateKey, keyFormat) {
  const { importBundle } = await root.initImportPrivateKey({ userId });
  return encryptPrivateKeyToBundle({ privateKey, keyFormat, importBundle, userId, organizationId, ...signer });
}

// exported runs an export to a fresh key and opens it as the SDK does.
async function exported(call, params, options) {
  const pair = generateP256KeyPair();
  const { exportBundle } = await root[call]({ ...params, targetPublicKey: pair.publicKeyUncompressed });
  return decryptExportBundle({ exportBundle, embeddedKey: pair.privateKey, organizationId, ...signer, ...options });
}

// publicKey is the public key of a private one, as the interface writes an account's.
function publicKey(curve, privateKey) {
  if (curve === "CURVE_ED25519") return bytesToHex(ed25519.getPublicKey(privateKey));
  return bytesToHex({ CURVE_SECP256K1: secp256k1, CURVE_P256: p256 }[curve].getPublicKey(privateKey, true));
}

test("wallets that were made here go out, come in elsewhere and go out again the same", async () => {
  for (const length of [12, 15, 18, 21, 24]) {
    const made = await root.createWallet({ walletName: `Made ${length}`, mnemonicLength: length, accounts });
    const mnemonic = await exported("exportWallet", { walletId: made.walletId }, { returnMnemonic: true });
    assert.equal(mnemonic.split(" ").length, length);
    const { wallet } = await root.getWallet({ walletId: made.walletId });
    assert.deepEqual([wallet.exported, wallet.imported], [true, false]);
    // What was exported goes without asking, and only then can the same addresses be there again.
    await refused(3, "has this address", async () => importWallet(`Too early ${length}`, mnemonic, accounts));
    await root.deleteWallets({ walletIds: [made.walletId] });
    const back = await importWallet(`Back ${length}`, mnemonic, accounts);
    assert.deepEqual(back.addresses, made.addresses);
    assert.equal(await exported("exportWallet", { walletId: back.walletId, language: "MNEMONIC_LANGUAGE_ENGLISH" }, { returnMnemonic: true }), mnemonic);
    state.wallets.push({ walletId: back.walletId, addresses: back.addresses, length });
  }
});

test("known mnemonics, with and without a passphrase, with proofs of their addresses", async () => {
  for (const [i, mnemonic] of mnemonics.entries()) {
    const text = i % 2 ? `${mnemonic}\nphrase ${i}` : mnemonic;
    const answer = await root.importWallet({
      userId, walletName: `Known ${i}`, encryptedBundle: await walletBundle(text), accounts, generateAppProofs: true,
    });
    const listed = (await root.getWalletAccounts({ walletId: answer.walletId })).accounts;
    assert.deepEqual(listed.map((a) => a.address), answer.addresses);
    for (const a of listed) assert.equal(address(a.addressFormat, a.curve, a.publicKey), a.address);
    const claims = await proofsHold(root, answer.activity, answer.activity.appProofs, "-address", answer.addresses[0]);
    assert.equal(claims.filter((c) => c.addressDerivationProof).length, accounts.length);
    const { wallet } = await root.getWallet({ walletId: answer.walletId });
    assert.deepEqual([wallet.exported, wallet.imported], [false, true]);
    await refused(3, "has not been exported", () => root.deleteWallets({ walletIds: [answer.walletId] }));
    assert.equal(await exported("exportWallet", { walletId: answer.walletId }, { returnMnemonic: true }), text);
    for (const a of listed) {
      const request = payloads(a.curve)[0];
      judge(a.curve, a.publicKey, request, await root.signRawPayload({ signWith: a.address, ...request }));
    }
    if (i === 0) {
      // The first of this mnemonic everywhere.
      assert.equal(answer.addresses[0], "0x58A57ed9d8d624cBD12e2C467D34787555bB1b25");
    }
  }
});

test("accounts go out as private keys of their public keys", async () => {
  const { walletId, addresses } = state.wallets[0];
  const listed = (await root.getWalletAccounts({ walletId })).accounts;
  for (const account of listed) {
    const hex = await exported("exportWalletAccount", { address: account.address }, { keyFormat: "HEXADECIMAL" });
    assert.equal(publicKey(account.curve, hex), account.publicKey);
    if (account.curve === "CURVE_ED25519") {
      const text = await exported("exportWalletAccount", { address: account.address }, { keyFormat: "SOLANA" });
      assert.equal(bytesToHex(bs58.decode(text)), hex + account.publicKey);
    }
  }
  assert.equal(listed.length, addresses.length);
});

test("private keys of every curve and format, in and out", async () => {
  const seed = "52f913cee3bfe896a486b0b7476dda86152e483d41a9f126bed8ef6f81bd4d";
  const keys = [
    ["CURVE_SECP256K1", `${seed}01`, "HEXADECIMAL", ["ADDRESS_FORMAT_ETHEREUM", "ADDRESS_FORMAT_COMPRESSED"]],
    ["CURVE_SECP256K1", `0x${seed}02`, "HEXADECIMAL", ["ADDRESS_FORMAT_UNCOMPRESSED"]],
    ["CURVE_P256", `${seed}03`, "HEXADECIMAL", ["ADDRESS_FORMAT_COMPRESSED"]],
    ["CURVE_ED25519", `${seed}04`, "HEXADECIMAL", ["ADDRESS_FORMAT_SOLANA"]],
    ["CURVE_ED25519", bs58.encode(hexToBytes(`${seed}05` + bytesToHex(ed25519.getPublicKey(`${seed}05`)))), "SOLANA", ["ADDRESS_FORMAT_SOLANA"]],
  ];
  for (const [i, [curve, text, keyFormat, addressFormats]] of keys.entries()) {
    const hex = keyFormat === "SOLANA" ? bytesToHex(bs58.decode(text).subarray(0, 32)) : text.replace(/^0x/, "");
    const made = await root.importPrivateKey({
      userId, privateKeyName: `Known ${i}`, encryptedBundle: await keyBundle(text, keyFormat), curve, addressFormats,
    });
    assert.deepEqual(made.addresses.map((a) => [a.format, a.address]), addressFormats.map((f) => [f, address(f, curve, publicKey(curve, hex))]));
    const { privateKey } = await root.getPrivateKey({ privateKeyId: made.privateKeyId });
    assert.deepEqual([privateKey.imported, privateKey.exported], [true, false]);
    const request = payloads(curve)[0];
    judge(curve, privateKey.publicKey, request, await root.signRawPayload({ signWith: made.privateKeyId, ...request }));
    assert.equal(await exported("exportPrivateKey", { privateKeyId: made.privateKeyId }, { keyFormat: "HEXADECIMAL" }), hex);
    if (keyFormat === "SOLANA") {
      assert.equal(await exported("exportPrivateKey", { privateKeyId: made.privateKeyId }, { keyFormat }), text);
    }
    assert.equal((await root.getPrivateKey({ privateKeyId: made.privateKeyId })).privateKey.exported, true);
    state.keys.push({ privateKeyId: made.privateKeyId, hex });
  }
  // Keys that were made here go out as well.
  const { privateKeys } = await root.createPrivateKeys({
    privateKeys: ["CURVE_SECP256K1", "CURVE_P256", "CURVE_ED25519"].map((curve) => ({ privateKeyName: `out ${curve}`, curve, addressFormats: [], privateKeyTags: [] })),
  });
  for (const { privateKeyId } of privateKeys) {
    const { privateKey } = await root.getPrivateKey({ privateKeyId });
    const hex = await exported("exportPrivateKey", { privateKeyId }, { keyFormat: "HEXADECIMAL" });
    const shortened = privateKey.publicKey.length === 130 ? { CURVE_SECP256K1: secp256k1, CURVE_P256: p256 }[privateKey.curve].ProjectivePoint.fromHex(privateKey.publicKey).toHex(true) : privateKey.publicKey;
    assert.equal(publicKey(privateKey.curve, hex), shortened);
  }
});

test("what a client refuses: another signer, organization or user", async () => {
  const { importBundle } = await root.initImportWallet({ userId });
  const good = { mnemonic: mnemonics[0], importBundle, userId, organizationId };
  await assert.rejects(encryptWalletToBundle(good), /expected signer key/);
  await assert.rejects(encryptWalletToBundle({ ...good, ...signer, userId: organizationId }), /user id does not match/);
  await assert.rejects(encryptWalletToBundle({ ...good, ...signer, organizationId: userId }), /organization id does not match/);
  await assert.rejects(encryptWalletToBundle({ ...good, dangerouslyOverrideSignerPublicKey: credentials.keys.session }), /expected signer key/);
  const pair = generateP256KeyPair();
  const { exportBundle } = await root.exportWallet({ walletId: state.wallets[0].walletId, targetPublicKey: pair.publicKeyUncompressed });
  const open = { exportBundle, embeddedKey: pair.privateKey, organizationId, returnMnemonic: true };
  await assert.rejects(decryptExportBundle(open), /expected signer key/);
  await assert.rejects(decryptExportBundle({ ...open, ...signer, organizationId: userId }), /organization id does not match/);
  await assert.rejects(decryptExportBundle({ ...open, ...signer, embeddedKey: generateP256KeyPair().privateKey }));
  assert.match(await decryptExportBundle({ ...open, ...signer }), /^[a-z]+( [a-z]+)+$/);
});

test("what is refused: content, and targets that are spent, of another kind, user or organization", async () => {
  const importIt = (encryptedBundle, over = {}) => () =>
    root.importWallet({ userId, walletName: "Never", encryptedBundle, accounts: [], ...over });
  const good = mnemonics[0].split(" ");
  for (const mnemonic of [
    [...good.slice(0, 11), "year"].join(" "), good.slice(0, 11).join(" "), [...good, "yellow"].join(" "), mnemonics[0].toUpperCase(), ` ${mnemonics[0]}`,
    mnemonics[0].replace("wave", "waive"), "あいこくしん ".repeat(11) + "あおぞら", `${mnemonics[0]}\nGrüße`, "x",
  ]) {
    const bundle = await walletBundle(mnemonic);
    await refused(3, "invalid mnemonic", importIt(bundle));
    await refused(3, "not encrypted to an import target", importIt(bundle)); // spent, though nothing was imported
  }
  const spent = await walletBundle(mnemonics[0]);
  const { walletId } = await root.importWallet({ userId, walletName: "Once only", encryptedBundle: spent, accounts: [] });
  await refused(3, "not encrypted to an import target", importIt(spent));
  await root.deleteWallets({ walletIds: [walletId], deleteWithoutExport: true });

  const key = await keyBundle(`${"22".repeat(32)}`, "HEXADECIMAL");
  await refused(3, "not encrypted to an import target", importIt(key));
  const importKey = (encryptedBundle, over = {}) => () =>
    root.importPrivateKey({ userId, privateKeyName: "Never", encryptedBundle, curve: "CURVE_SECP256K1", addressFormats: [], ...over });
  await refused(3, "not encrypted to an import target", importKey(await walletBundle(mnemonics[0])));
  for (const hex of ["00".repeat(32), "ff".repeat(32), "11".repeat(31), "11".repeat(33)]) {
    await refused(3, "invalid private key", importKey(await keyBundle(hex, "HEXADECIMAL")));
  }
  await refused(3, "invalid bundle", importIt("{}"));
  await refused(3, "", importIt(""));
  await refused(3, "invalid bundle", importIt(spent.replace("encappedPublic", "encapped")));

  // Another user's bundle: neither the user's own request nor the root user's in the other's name.
  const pair = generateP256KeyPair();
  const { userIds } = await root.createUsers({
    users: [{ userName: "Importer", apiKeys: [{ apiKeyName: "key", publicKey: pair.publicKey, curveType: "API_KEY_CURVE_P256" }], authenticators: [], oauthProviders: [], userTags: [] }],
  });
  const other = client(pair);
  await refused(7, "", () => root.initImportWallet({ userId: userIds[0] }));
  await refused(7, "", () => other.initImportWallet({ userId: userIds[0] })); // no policy lets this user
  await root.createPolicy({ policyName: "Importers", effect: "EFFECT_ALLOW", condition: "activity.action == 'IMPORT'", consensus: `approvers.any(u, u.id == '${userIds[0]}')`, notes: "" });
  const { importBundle } = await other.initImportWallet({ userId: userIds[0] });
  const theirs = await encryptWalletToBundle({ mnemonic: mnemonics[3], importBundle, userId: userIds[0], organizationId, ...signer });
  await refused(3, "not encrypted to an import target", importIt(theirs));
  await refused(7, "", importIt(theirs, { userId: userIds[0] }));
  await refused(7, "", () => other.importWallet({ userId, walletName: "Never", encryptedBundle: spent, accounts: [] }));
  const made = await other.importWallet({ userId: userIds[0], walletName: "Theirs", encryptedBundle: theirs, accounts: [] });
  await refused(7, "", () => other.exportWallet({ walletId: made.walletId, targetPublicKey: generateP256KeyPair().publicKeyUncompressed }));

  // Another organization's.
  const owner = generateP256KeyPair();
  const { subOrganizationId, rootUserIds } = await root.createSubOrganization({
    subOrganizationName: "Elsewhere", rootQuorumThreshold: 1,
    rootUsers: [{ userName: "Owner", apiKeys: [{ apiKeyName: "key", publicKey: owner.publicKey, curveType: "API_KEY_CURVE_P256" }], authenticators: [], oauthProviders: [] }],
  });
  const below = client(owner, { defaultOrganizationId: subOrganizationId });
  const there = await below.initImportWallet({ userId: rootUserIds[0] });
  await refused(3, "not encrypted to an import target", importIt(await encryptWalletToBundle({
    mnemonic: mnemonics[0], importBundle: there.importBundle, userId: rootUserIds[0], organizationId: subOrganizationId, ...signer,
  })));
  await refused(3, "", () => root.initImportWallet({ organizationId: subOrganizationId, userId: rootUserIds[0] }));
});

test("what is refused of exports: keys that are none, and what is not there", async () => {
  const { walletId } = state.wallets[0];
  const good = generateP256KeyPair().publicKeyUncompressed;
  for (const targetPublicKey of ["", "zz", good.slice(2), `04${"11".repeat(64)}`, "00".repeat(65), good + good, `0x${good}`, secp256k1.ProjectivePoint.BASE.toHex(true)]) {
    await refused(3, "", () => root.exportWallet({ walletId, targetPublicKey }));
  }
  await refused(3, "in English", () => root.exportWallet({ walletId, targetPublicKey: good, language: "MNEMONIC_LANGUAGE_SPANISH" }));
  await refused(5, "not found", () => root.exportWallet({ walletId: userId, targetPublicKey: good }));
  await refused(5, "not found", () => root.exportWalletAccount({ address: "0x0000000000000000000000000000000000000001", targetPublicKey: good }));
  await refused(5, "not found", () => root.exportPrivateKey({ privateKeyId: walletId, targetPublicKey: good }));
  // A compressed target is as good.
  const pair = generateP256KeyPair();
  const { exportBundle } = await root.exportWallet({ walletId, targetPublicKey: pair.publicKey });
  assert.match(await decryptExportBundle({ exportBundle, embeddedKey: pair.privateKey, organizationId, returnMnemonic: true, ...signer }), / /);
});

test("targets that are left over end with this run of the enclave", async () => {
  state.leftOver = await walletBundle(mnemonics[0]);
  remember("transfer", state);
});
