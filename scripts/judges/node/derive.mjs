// The address that each network's own library gives to a public key. None of this is Cloister's code.
import { Ed25519PublicKey as AptosPublicKey, AuthenticationKey } from "@aptos-labs/ts-sdk";
import { rawSecp256k1PubkeyToRawAddress } from "@cosmjs/amino";
import { toBech32 } from "@cosmjs/encoding";
import { Ed25519PublicKey as SuiPublicKey } from "@mysten/sui/keypairs/ed25519";
import { p256 } from "@noble/curves/nist";
import { secp256k1 } from "@noble/curves/secp256k1";
import { bytesToHex, hexToBytes } from "@noble/hashes/utils";
import { bech32m } from "@scure/base";
import { PublicKey as SolanaPublicKey } from "@solana/web3.js";
import { StrKey } from "@stellar/stellar-sdk";
import { WalletContractV3R2, WalletContractV4, WalletContractV5R1 } from "@ton/ton";
import * as bitcoin from "bitcoinjs-lib";
import * as ecc from "@bitcoinerlab/secp256k1";
import { computeAddress } from "ethers";
import { utils as tron } from "tronweb";
import { deriveAddress } from "xrpl";

bitcoin.initEccLib(ecc);

// Dogecoin's parameters; the library knows only Bitcoin's own.
const doge = (pubKeyHash) => ({ ...bitcoin.networks.bitcoin, pubKeyHash });

export const bitcoinNetworks = {
  MAINNET: bitcoin.networks.bitcoin,
  TESTNET: bitcoin.networks.testnet,
  SIGNET: bitcoin.networks.testnet, // the same prefixes
  REGTEST: bitcoin.networks.regtest,
};

// The output of one key in each kind of script. P2SH is the nested P2WPKH of BIP-49, P2WSH the script of one key, P2TR the
// key path of BIP-86.
export function bitcoinOutput(kind, pubkey, network) {
  const { p2pkh, p2sh, p2wpkh, p2wsh, p2tr, p2pk } = bitcoin.payments;
  switch (kind) {
    case "P2PKH":
      return p2pkh({ pubkey, network });
    case "P2SH":
      return p2sh({ redeem: p2wpkh({ pubkey, network }), network });
    case "P2WPKH":
      return p2wpkh({ pubkey, network });
    case "P2WSH":
      return p2wsh({ redeem: p2pk({ pubkey, network }), network });
    case "P2TR":
      return p2tr({ internalPubkey: pubkey.slice(1), network });
  }
  throw new Error(`no such script: ${kind}`);
}

// The text form of TON is the one that wallets show: for people, of the main network, not bounceable.
const ton = (contract) => contract.address.toString({ urlSafe: true, bounceable: false, testOnly: false });

// Spark's own SDK is as large as all else here together. This is what its encodeSparkAddress gave, key by key, when it was
// asked for those of the derivation vectors: bech32m of a protobuf message whose first field is the key.
const spark = (prefix, key) => bech32m.encode(prefix, bech32m.toWords(Uint8Array.of(0x0a, key.length, ...key)), false);

const formats = {
  UNCOMPRESSED: (key) => bytesToHex(secp256k1.ProjectivePoint.fromHex(key).toRawBytes(false)),
  COMPRESSED: (key) => bytesToHex(key),
  ETHEREUM: (key) => computeAddress("0x" + bytesToHex(key)),
  TRON: (key) => tron.crypto.getBase58CheckAddress(tron.crypto.computeAddress([...secp256k1.ProjectivePoint.fromHex(key).toRawBytes(false)])),
  COSMOS: (key) => toBech32("cosmos", rawSecp256k1PubkeyToRawAddress(key)),
  SEI: (key) => toBech32("sei", rawSecp256k1PubkeyToRawAddress(key)),
  XRP: (key) => deriveAddress(bytesToHex(key).toUpperCase()),
  SOLANA: (key) => new SolanaPublicKey(key).toBase58(),
  SUI: (key) => new SuiPublicKey(key).toSuiAddress(),
  APTOS: (key) => AuthenticationKey.fromPublicKey({ publicKey: new AptosPublicKey(key) }).derivedAddress().toStringLong(),
  XLM: (key) => StrKey.encodeEd25519PublicKey(Buffer.from(key)),
  TON_V3R2: (key) => ton(WalletContractV3R2.create({ workchain: 0, publicKey: Buffer.from(key) })),
  TON_V4R2: (key) => ton(WalletContractV4.create({ workchain: 0, publicKey: Buffer.from(key) })),
  TON_V5R1: (key) => ton(WalletContractV5R1.create({ workchain: 0, publicKey: Buffer.from(key) })),
  DOGE_MAINNET: (key) => bitcoin.payments.p2pkh({ pubkey: key, network: doge(0x1e) }).address,
  DOGE_TESTNET: (key) => bitcoin.payments.p2pkh({ pubkey: key, network: doge(0x71) }).address,
  SPARK_MAINNET: (key) => spark("spark", key),
  SPARK_REGTEST: (key) => spark("sparkrt", key),
};

// The address of a public key (hex, compressed or not) in a format, named without its prefix.
export function derived(format, curve, publicKey) {
  let key = hexToBytes(publicKey);
  if (curve === "CURVE_P256") {
    return p256.ProjectivePoint.fromHex(key).toHex(format === "COMPRESSED");
  }
  if (curve === "CURVE_SECP256K1") {
    key = secp256k1.ProjectivePoint.fromHex(key).toRawBytes(true);
  }
  const [coin, network, kind] = format.split("_");
  if (coin === "BITCOIN") {
    return bitcoinOutput(kind, key, bitcoinNetworks[network]).address;
  }
  return formats[format](key);
}
