// The dialogs that import a wallet or a private key: what is typed in is checked and encrypted in this browser, to a key of the enclave's.

import { resultOf, submit, waits } from "../api.js";
import { accountOf, chains } from "../chains.js";
import { fill, h } from "../dom.js";
import { session } from "../session.js";
import { checkSecret, sealSecret } from "../transfers.js";
import { choices, dialog, done, field } from "../ui.js";
import { signerPart } from "./signerkey.js";

const area = (more) => field({ kind: "textarea", class: "code", autocomplete: "off", autocapitalize: "off", autocorrect: "off", required: true, ...more });

// inPlace says at a field what is wrong with the secret in it.
const inPlace = (name) => (error) => {
  if (error.refused === "secret") error.fields = [{ field: name, description: error.message }];
  throw error;
};

// importDialog asks for a secret and imports it. kind says what is different between wallets and private keys; bundle is a target that was
// got before, if any.
function importDialog(kind, { bundle, then }) {
  const signerKey = signerPart();
  const node = dialog({
    heading: kind.heading, intro: kind.intro, fields: [...kind.fields(), signerKey.node], action: kind.heading,
    run: async (all, { elements }) => {
      const secret = kind.secret(elements); // as it was typed: a passphrase may begin with a space
      const parameters = kind.parameters(all);
      await checkSecret(secret).catch(inPlace(kind.field)); // before a target is asked for
      const signer = await signerKey.agreed(all);
      let importBundle = bundle;
      if (!importBundle) {
        const target = await submit(kind.init.toLowerCase(), kind.init, { userId: session().userId });
        if (waits(target)) return done(target);
        ({ importBundle } = resultOf(target));
      }
      const encryptedBundle = await sealSecret(importBundle, signer, secret).catch(inPlace(kind.field));
      const activity = await submit(kind.type.toLowerCase(), kind.type, { userId: session().userId, ...parameters, encryptedBundle });
      done(activity, kind.message(parameters));
      then(activity);
    },
  });
  node.addEventListener("close", () => { for (const input of node.querySelectorAll("input, textarea")) input.value = ""; });
}

// countedWords is a field for words, which counts them while they are typed.
function countedWords() {
  const count = h("p", { class: "consequences note", role: "status" });
  const words = area({ name: "mnemonic", label: "Words", rows: 3, hint: "12, 15, 18, 21 or 24 words of the English list of BIP-39, with spaces between them.",
    oninput: ({ target }) => fill(count, target.value.trim() && `${target.value.trim().split(/\s+/).length} words`) });
  return [words, count];
}

export const importWallet = (options) => importDialog({
  heading: "Import wallet", init: "INIT_IMPORT_WALLET", type: "IMPORT_WALLET", field: "mnemonic",
  intro: "The words are encrypted in this browser and leave it for the enclave only.",
  fields: () => [
    field({ name: "walletName", label: "Name", required: true }),
    ...countedWords(),
    field({ name: "passphrase", label: "Passphrase", kind: "password", autocomplete: "off", hint: "Only if the wallet was made with one, beside its words." }),
    choices({ name: "chains", legend: "Accounts", hint: "The first account of each chain. You can add more at any time.", options: chains.map(([id, text]) => [id, text]), value: ["ethereum", "solana"] }),
  ],
  secret: ({ mnemonic, passphrase }) => ({ mnemonic: mnemonic.value, passphrase: passphrase.value }),
  parameters: ({ walletName, chains: chosen }) => ({ walletName, accounts: chosen.map((id) => accountOf(id)) }),
  message: ({ walletName }) => `Wallet ${walletName} was imported.`,
}, options);

const curves = [["CURVE_SECP256K1", "secp256k1"], ["CURVE_ED25519", "Ed25519"], ["CURVE_P256", "P-256"]];
const first = { CURVE_SECP256K1: ["ADDRESS_FORMAT_ETHEREUM"], CURVE_ED25519: ["ADDRESS_FORMAT_SOLANA"] };
const bare = [["ADDRESS_FORMAT_COMPRESSED", "Public key, compressed"], ["ADDRESS_FORMAT_UNCOMPRESSED", "Public key, uncompressed"]];

// formatsOf are the address formats of a curve, each once.
const formatsOf = (curve) => [...new Map(chains.filter(([, , c]) => c === curve).map(([, text, , , format]) => [`ADDRESS_FORMAT_${format}`, text])), ...(curve === "CURVE_ED25519" ? bare.slice(0, 1) : bare)];

// curveFields ask for a curve and the formats of the key's addresses, which depend on it.
export function curveFields() {
  const place = h("div");
  const offer = (curve) => fill(place, choices({ name: "addressFormats", legend: "Addresses", hint: "A key has one address in each format. They cannot be changed later.", options: formatsOf(curve), value: first[curve] ?? [] }));
  offer("CURVE_SECP256K1");
  return [field({ name: "curve", label: "Curve", kind: "select", value: "CURVE_SECP256K1", options: curves, hint: "secp256k1 for Ethereum, Bitcoin and Tron; Ed25519 for Solana.", onchange: ({ target }) => offer(target.value), wide: false }), place];
}

export const importPrivateKey = (options) => importDialog({
  heading: "Import private key", init: "INIT_IMPORT_PRIVATE_KEY", type: "IMPORT_PRIVATE_KEY", field: "privateKey",
  intro: "The key is encrypted in this browser and leaves it for the enclave only.",
  fields: () => [
    field({ name: "privateKeyName", label: "Name", required: true }),
    ...curveFields(),
    area({ name: "privateKey", label: "Private key", rows: 2, hint: "64 hexadecimal digits, with or without 0x. One of Solana can be base58, as its wallets show it." }),
  ],
  secret: ({ privateKey, curve }) => ({ privateKey: privateKey.value, curve: curve.value }),
  parameters: ({ privateKeyName, curve, addressFormats }) => ({ privateKeyName, curve, addressFormats }),
  message: ({ privateKeyName }) => `Private key ${privateKeyName} was imported.`,
}, options);

// importDialogs are those of the activities that ask for a target.
export const importDialogs = { INIT_IMPORT_WALLET: importWallet, INIT_IMPORT_PRIVATE_KEY: importPrivateKey };
