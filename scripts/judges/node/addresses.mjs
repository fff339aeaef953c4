// Every address format of the interface: what Cloister derived is what the network's own library derives from the public key.
import assert from "node:assert/strict";
import { test } from "node:test";
import { derived } from "./derive.mjs";
import { account, privateKey, wallet } from "./setting.mjs";

const single = [
  ["UNCOMPRESSED", "m/0'/0"], ["COMPRESSED", "m/0'/0"], ["ETHEREUM", "m/44'/60'/0'/0/0"], ["TRON", "m/44'/195'/0'"],
  ["COSMOS", "m/44'/118'/0'/0/0"], ["SEI", "m/44'/118'/0'/0'/0'"], ["XRP", "m/44'/144'/0'/0'/0'"],
  ["SOLANA", "m/44'/501'/0'/0'"], ["SUI", "m/44'/784'/0'/0'/0'"], ["APTOS", "m/44'/637'/0'/0'/0'"], ["XLM", "m/44'/148'/0'"],
  ["TON_V3R2", "m/44'/607'/0'/0'/0'"], ["TON_V4R2", "m/44'/607'/0'/0'/0'"], ["TON_V5R1", "m/44'/607'/0'/0'/0'"],
  ["DOGE_MAINNET", "m/44'/3'/0'/0/0"], ["DOGE_TESTNET", "m/44'/1'/0'/0/0"],
  ["SPARK_MAINNET", "m/8797555'/0'/0'"], ["SPARK_REGTEST", "m/8797555'/0'/0'"],
];
const bitcoin = ["MAINNET", "TESTNET", "SIGNET", "REGTEST"].flatMap((network) =>
  [["P2PKH", 44], ["P2SH", 49], ["P2WPKH", 84], ["P2WSH", 48], ["P2TR", 86]].map(([kind, purpose]) => [
    `BITCOIN_${network}_${kind}`,
    `m/${purpose}'/${network === "MAINNET" ? 0 : 1}'/0'/0/0`,
  ]),
);
const formats = [...single, ...bitcoin];
const others = [
  account("COMPRESSED", "m/0'/0", "CURVE_P256"), account("UNCOMPRESSED", "m/0'/0", "CURVE_P256"),
  account("COMPRESSED", "m/0'/0'", "CURVE_ED25519"),
];

test(`${formats.length} formats in a wallet, and the other curves of two`, async () => {
  const accounts = await wallet("Formats", [...formats.map(([format, path]) => account(format, path)), ...others]);
  assert.equal(accounts.length, 41);
  for (const { addressFormat, address, curve, publicKey } of accounts) {
    const format = addressFormat.replace("ADDRESS_FORMAT_", "");
    const expected = curve === "CURVE_ED25519" && format === "COMPRESSED" ? publicKey : derived(format, curve, publicKey);
    assert.equal(address, expected, addressFormat);
  }
});

for (const curve of ["CURVE_SECP256K1", "CURVE_ED25519"]) {
  test(`private keys on ${curve}, with every address at once`, async () => {
    const names = formats.map(([format]) => format).filter((format) => account(format).curve === curve);
    const key = await privateKey(`Formats ${curve}`, curve, ...names);
    assert.deepEqual(key.addresses.map((a) => a.format), names.map((f) => `ADDRESS_FORMAT_${f}`));
    for (const { format, address } of key.addresses) {
      assert.equal(address, derived(format.replace("ADDRESS_FORMAT_", ""), curve, key.publicKey), format);
    }
  });
}
