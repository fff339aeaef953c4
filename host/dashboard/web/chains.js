// Chains: the names that people have for them, and the path that wallets of each use, with the number of the account in the place of N.

import { words } from "./words.js";

const secp = "CURVE_SECP256K1";
const ed = "CURVE_ED25519";

export const chains = [
  ["ethereum", "Ethereum", secp, "m/44'/60'/0'/0/N", "ETHEREUM"],
  ["solana", "Solana", ed, "m/44'/501'/N'/0'", "SOLANA"],
  ["bitcoin", "Bitcoin (SegWit)", secp, "m/84'/0'/0'/0/N", "BITCOIN_MAINNET_P2WPKH"],
  ["taproot", "Bitcoin (Taproot)", secp, "m/86'/0'/0'/0/N", "BITCOIN_MAINNET_P2TR"],
  ["testnet", "Bitcoin testnet (SegWit)", secp, "m/84'/1'/0'/0/N", "BITCOIN_TESTNET_P2WPKH"],
  ["tron", "Tron", secp, "m/44'/195'/0'/0/N", "TRON"],
  ["cosmos", "Cosmos", secp, "m/44'/118'/0'/0/N", "COSMOS"],
  ["sui", "Sui", ed, "m/44'/784'/N'/0'/0'", "SUI"],
  ["aptos", "Aptos", ed, "m/44'/637'/N'/0'/0'", "APTOS"],
  ["doge", "Dogecoin", secp, "m/44'/3'/0'/0/N", "DOGE_MAINNET"],
  ["stellar", "Stellar", ed, "m/44'/148'/N'", "XLM"],
  ["xrp", "XRP Ledger", secp, "m/44'/144'/0'/0/N", "XRP"],
  ["ton", "TON", ed, "m/44'/607'/N'", "TON_V4R2"],
  ["sei", "Sei", secp, "m/44'/118'/0'/0/N", "SEI"],
];

// accountOf gives the interface's parameters of an account.
export function accountOf(id, number = 0) {
  const [, , curve, path, format] = chains.find(([known]) => known === id);
  return { curve, pathFormat: "PATH_FORMAT_BIP32", path: path.replace("N", number), addressFormat: `ADDRESS_FORMAT_${format}` };
}

// The chains of address formats, each with what tells its formats apart. A format of keys alone is of no chain.
const formats = {
  UNCOMPRESSED: ["Public key", "uncompressed"], COMPRESSED: ["Public key", "compressed"],
  ETHEREUM: ["Ethereum"], SOLANA: ["Solana"], COSMOS: ["Cosmos"], TRON: ["Tron"], SUI: ["Sui"], APTOS: ["Aptos"], SEI: ["Sei"], XLM: ["Stellar"], XRP: ["XRP Ledger"],
  DOGE_MAINNET: ["Dogecoin"], DOGE_TESTNET: ["Dogecoin testnet"], TON_V3R2: ["TON", "wallet v3r2"], TON_V4R2: ["TON", "wallet v4r2"], TON_V5R1: ["TON", "wallet v5r1"],
  SPARK_MAINNET: ["Spark"], SPARK_REGTEST: ["Spark regtest"],
};
const bitcoinKinds = { P2PKH: "legacy", P2SH: "nested SegWit", P2WPKH: "SegWit", P2WSH: "SegWit script", P2TR: "Taproot" };
const bitcoinNetworks = { MAINNET: "Bitcoin", TESTNET: "Bitcoin testnet", SIGNET: "Bitcoin signet", REGTEST: "Bitcoin regtest" };

// formatParts are the chain of an address format and what tells it apart, if there is anything.
function formatParts(addressFormat) {
  const bare = addressFormat.replace("ADDRESS_FORMAT_", "");
  const [, network, kind] = /^BITCOIN_([A-Z]+)_([A-Z0-9]+)$/.exec(bare) ?? [];
  if (Object.hasOwn(bitcoinNetworks, network ?? "") && Object.hasOwn(bitcoinKinds, kind)) return [bitcoinNetworks[network], bitcoinKinds[kind]];
  return Object.hasOwn(formats, bare) ? formats[bare] : [words(bare)];
}

// chainName is the chain of an address format.
export const chainName = (addressFormat) => formatParts(addressFormat)[0];

// formatName is an address format: its chain, and what tells it apart.
export const formatName = (addressFormat) => {
  const [chain, kind] = formatParts(addressFormat);
  return kind ? `${chain} (${kind})` : chain;
};
