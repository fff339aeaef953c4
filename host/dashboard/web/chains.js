// Accounts by chain: the path that wallets of that chain use, with the number of the account in the place of N.

const secp = "CURVE_SECP256K1";
const ed = "CURVE_ED25519";

export const chains = [
  ["ethereum", "Ethereum and other EVM chains", secp, "m/44'/60'/0'/0/N", "ETHEREUM"],
  ["solana", "Solana", ed, "m/44'/501'/N'/0'", "SOLANA"],
  ["bitcoin", "Bitcoin, SegWit", secp, "m/84'/0'/0'/0/N", "BITCOIN_MAINNET_P2WPKH"],
  ["taproot", "Bitcoin, Taproot", secp, "m/86'/0'/0'/0/N", "BITCOIN_MAINNET_P2TR"],
  ["testnet", "Bitcoin testnet", secp, "m/84'/1'/0'/0/N", "BITCOIN_TESTNET_P2WPKH"],
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
