// Networks whose transactions are signed as bytes: each one's own library makes a transaction, and says that the signature is
// its signer's.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import {
  AccountAddress, AccountAuthenticatorEd25519, ChainId, Ed25519PublicKey, Ed25519Signature, EntryFunction, RawTransaction,
  SignedTransaction, TransactionAuthenticatorEd25519, TransactionPayloadEntryFunction, U64, generateSigningMessageForTransaction,
  generateUserTransactionHash, SimpleTransaction,
} from "@aptos-labs/ts-sdk";
import { messageWithIntent, toSerializedSignature } from "@mysten/sui/cryptography";
import { Ed25519PublicKey as SuiPublicKey } from "@mysten/sui/keypairs/ed25519";
import { Transaction as SuiTransaction } from "@mysten/sui/transactions";
import { verifyPersonalMessageSignature, verifyTransactionSignature } from "@mysten/sui/verify";
import { schnorr, secp256k1 } from "@noble/curves/secp256k1";
import { blake2b } from "@noble/hashes/blake2";
import { sha256, sha512 } from "@noble/hashes/sha2";
import { Account, Asset, BASE_FEE, Keypair, Memo, Networks, Operation, TransactionBuilder } from "@stellar/stellar-sdk";
import { encode, encodeForSigning, verifySignature } from "xrpl";
import { derived } from "./derive.mjs";
import { account, addressElsewhere, privateKey, refused, signBytes, wallet } from "./setting.mjs";

const paths = {
  SUI: "m/44'/784'/0'/0'/0'", APTOS: "m/44'/637'/0'/0'/0'", XLM: "m/44'/148'/0'", XRP: "m/44'/144'/0'/0/0",
  SPARK_MAINNET: "m/8797555'/0'/0'", SPARK_REGTEST: "m/8797555'/1'/0'",
};
const signers = {}; // by format, one in a wallet and one private key: {address, publicKey, signWith}

before(async () => {
  const accounts = await wallet("others", Object.entries(paths).map(([format, path]) => account(format, path)));
  for (const [i, format] of Object.keys(paths).entries()) {
    const inWallet = accounts[i];
    const alone = await privateKey(`others ${format}`, inWallet.curve, format);
    signers[format] = [{ ...inWallet, signWith: inWallet.address }, { ...alone, signWith: alone.address }];
    for (const { address, publicKey } of signers[format]) assert.equal(address, derived(format, inWallet.curve, publicKey));
  }
});

const bytes = (hex) => Uint8Array.from(Buffer.from(hex, "hex"));

// The signature of these bytes on ed25519, as 64 bytes.
const edwards = async (signWith, message) => {
  const { r, s, v } = await signBytes(signWith, message, "NOT_APPLICABLE");
  assert.equal(v, "00");
  return bytes(r + s);
};

test("Sui: a transaction and a personal message, by @mysten/sui", async () => {
  for (const { address, publicKey, signWith } of signers.SUI) {
    const transaction = new SuiTransaction();
    transaction.setSender(address);
    transaction.setGasPrice(1000);
    transaction.setGasBudget(2_000_000);
    const object = { objectId: "0x" + "0a".repeat(32), version: "1", digest: "11111111111111111111111111111111" };
    transaction.setGasPayment([object]);
    const [coin] = transaction.splitCoins(transaction.gas, [1_000_000]);
    transaction.transferObjects([coin], "0x" + "fe".repeat(32));
    const data = await transaction.build();
    const key = new SuiPublicKey(bytes(publicKey));
    const signed = async (scope, message) => {
      const digest = blake2b(messageWithIntent(scope, message), { dkLen: 32 });
      return toSerializedSignature({ signature: await edwards(signWith, digest), signatureScheme: "ED25519", publicKey: key });
    };
    const signature = await signed("TransactionData", data);
    assert.equal((await verifyTransactionSignature(data, signature, { address })).toSuiAddress(), address);
    await assert.rejects(() => verifyPersonalMessageSignature(data, signature, { address }));
    const message = new TextEncoder().encode("hello, Sui");
    const wrapped = Uint8Array.of(message.length, ...message); // a vector of bytes
    await verifyPersonalMessageSignature(message, await signed("PersonalMessage", wrapped), { address });
  }
});

test("Aptos: a transfer, by @aptos-labs/ts-sdk", async () => {
  for (const { address, publicKey, signWith } of signers.APTOS) {
    const entry = EntryFunction.build("0x1::aptos_account", "transfer", [], [AccountAddress.from("0x" + "fe".repeat(32)), new U64(1_000_000)]);
    const raw = new RawTransaction(
      AccountAddress.from(address), 3n, new TransactionPayloadEntryFunction(entry), 2000n, 100n, 1_893_456_000n, new ChainId(1),
    );
    const transaction = new SimpleTransaction(raw);
    const key = new Ed25519PublicKey(bytes(publicKey));
    const message = generateSigningMessageForTransaction(transaction);
    const signature = new Ed25519Signature(await edwards(signWith, message));
    assert.ok(key.verifySignature({ message, signature }));
    assert.ok(!key.verifySignature({ message: message.slice(1), signature }));
    const authenticator = new AccountAuthenticatorEd25519(key, signature);
    assert.match(generateUserTransactionHash({ transaction, senderAuthenticator: authenticator }), /^0x[0-9a-f]{64}$/);
    const whole = new SignedTransaction(raw, new TransactionAuthenticatorEd25519(key, signature)).bcsToBytes();
    assert.ok(whole.length > message.length - 32 + 64);
  }
});

test("Stellar: a payment and a change of trust, by stellar-sdk", async () => {
  for (const { address, signWith } of signers.XLM) {
    const transaction = new TransactionBuilder(new Account(address, "41"), { fee: BASE_FEE, networkPassphrase: Networks.PUBLIC })
      .addOperation(Operation.payment({ destination: Keypair.random().publicKey(), asset: Asset.native(), amount: "12.5" }))
      .addOperation(Operation.changeTrust({ asset: new Asset("USD", Keypair.random().publicKey()) }))
      .addMemo(Memo.text("note"))
      .setTimeout(300)
      .build();
    const signature = Buffer.from(await edwards(signWith, transaction.hash()));
    transaction.addSignature(address, signature.toString("base64")); // throws unless it is right
    assert.equal(transaction.signatures.length, 1);
    signature[0] ^= 1;
    assert.throws(() => transaction.addSignature(address, signature.toString("base64")));
  }
});

test("XRP: a payment, by xrpl", async () => {
  for (const { address, publicKey, signWith } of signers.XRP) {
    const payment = {
      TransactionType: "Payment", Account: address, Destination: "rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh", Amount: "1000000", Fee: "12",
      Sequence: 5, LastLedgerSequence: 100, SigningPubKey: secp256k1.ProjectivePoint.fromHex(publicKey).toHex(true).toUpperCase(),
    };
    const digest = sha512(bytes(encodeForSigning(payment))).slice(0, 32);
    const { r, s } = await signBytes(signWith, digest, "NO_OP");
    const TxnSignature = secp256k1.Signature.fromCompact(r + s).toDERHex().toUpperCase();
    assert.ok(verifySignature(encode({ ...payment, TxnSignature })));
    assert.ok(!verifySignature(encode({ ...payment, Amount: "1000001", TxnSignature })));
  }
});

test("Spark: BIP-340 with the identity key itself, by @noble/curves", async () => {
  for (const format of ["SPARK_MAINNET", "SPARK_REGTEST"]) {
    for (const { publicKey, signWith } of signers[format]) {
      const digest = sha256(new TextEncoder().encode("spark"));
      const point = secp256k1.ProjectivePoint.fromHex(publicKey).toRawBytes(true);
      for (const [message, hashFunction] of [[digest, "NO_OP"], [new TextEncoder().encode("spark"), "SHA256"]]) {
        const { r, s, v } = await signBytes(signWith, message, hashFunction);
        assert.equal(v, "00");
        assert.ok(schnorr.verify(r + s, digest, point.slice(1)));
        assert.ok(!schnorr.verify(r + s, sha256(digest), point.slice(1)));
      }
    }
  }
});

test("refused: what is no digest, a hash function of another curve, another organization", async () => {
  await refused(/expected a 32-bytes-long digest/, () => signBytes(signers.XRP[0].signWith, Buffer.alloc(31), "NO_OP"));
  await refused(/expected a 32-bytes-long digest/, () => signBytes(signers.SPARK_MAINNET[0].signWith, Buffer.alloc(33), "NO_OP"));
  await refused(/invalid hash function/, () => signBytes(signers.XRP[0].signWith, Buffer.alloc(32), "NOT_APPLICABLE"));
  await refused(/invalid hash function/, () => signBytes(signers.SUI[0].signWith, Buffer.alloc(32), "NO_OP"));
  for (const format of ["SUI", "XRP"]) {
    const elsewhere = await addressElsewhere(format, paths[format]);
    await refused(/(wallet account|private key) not found/, () => signBytes(elsewhere, Buffer.alloc(32), format === "SUI" ? "NOT_APPLICABLE" : "NO_OP"), 5);
  }
});
