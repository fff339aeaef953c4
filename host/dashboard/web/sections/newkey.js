// API keys that are made in this browser: the fields that ask for one, and the dialog that shows its private half, once.

import { waits } from "../api.js";
import { h } from "../dom.js";
import { session } from "../session.js";
import { makeOpenKey } from "../stamp.js";
import { button, copyable, download, facts, field } from "../ui.js";
import { saveFirst } from "./savefirst.js";

const curves = [["API_KEY_CURVE_P256", "P-256"], ["API_KEY_CURVE_SECP256K1", "secp256k1"], ["API_KEY_CURVE_ED25519", "Ed25519"]];

export const keyFields = () => {
  const pasted = [
    field({ name: "publicKey", label: "Public key", hint: "In hex; P-256 and secp256k1 in compressed form.", spellcheck: "false", optional: false }),
    field({ name: "curveType", label: "Curve", kind: "select", value: "API_KEY_CURVE_P256", options: curves }),
  ];
  for (const node of pasted) node.hidden = true;
  return [field({ name: "make", label: "Key pair", kind: "select", value: "make", options: [["make", "Create in this browser"], ["paste", "I have the public key"]], onchange: chosen }), ...pasted];
};

function chosen({ target }) {
  const pasted = target.value === "paste";
  const { publicKey, curveType } = target.form.elements;
  for (const input of [publicKey, curveType]) input.closest(".field").hidden = !pasted;
  publicKey.required = pasted;
}

// keyOf gives the parameters of the key in a form, and the pair if it was created here.
export async function keyOf({ make, publicKey, curveType }, apiKeyName, rest = {}) {
  const pair = make === "make" ? await makeOpenKey() : null;
  return { pair, apiKeys: [{ apiKeyName, publicKey: pair?.publicKey ?? publicKey.toLowerCase(), curveType: pair ? "API_KEY_CURVE_P256" : curveType, ...rest }] };
}

// showCredentials offers a key that was created here for a user as a credentials file, once. activity is the one that makes the key known.
export const showCredentials = ({ userId, userName }, pair, activity) => showNewKey({
  userName, pair, organizationId: session().organizationId,
  intro: [
    h("p", null, userId === session().userId ? "Download this file now; it cannot be shown again. You sign in with it."
      : `Download this file now and pass it to ${userName}; it cannot be shown again. They sign in with it.`),
    waits(activity) && h("div", { class: "state waiting" }, h("p", { class: "strong" }, "This key does not work yet"),
      h("p", null, "Others must approve first. ", userId ? "" : `${userName} is no user until then. `, "The request stands under Activities.")),
  ],
});

// showNewKey is a dialog that shows a new key. It does not close unasked before the key was downloaded or copied; then is called with whether it
// was. The file has the members that the sign-in and cloister-host request read.
export function showNewKey({ userName, organizationId, pair: { publicKey, privateKey }, intro, lost = "You would have to delete this API key and make another one.", then = () => {} }) {
  const text = JSON.stringify({ apiUrl: location.origin, organizationId, publicKey, privateKey }, null, 2);
  const name = `credentials-${userName.replace(/[^\p{L}\p{N}._-]+/gu, "-")}.json`;
  const save = (markSaved) => button("Download credentials", { class: "button primary", onclick: () => { download(name, text); markSaved(); } });
  saveFirst({
    heading: `API key of ${userName}`,
    content: (markSaved) => [intro, h("p", null, save(markSaved)),
      facts([["Public key", copyable(publicKey, "public key")], ["Private key", copyable(privateKey, "private key", { copied: markSaved })], ["Credentials (JSON)", copyable(text, "credentials as JSON", { copied: markSaved })]])],
    hint: "Download or copy the key first.",
    question: { heading: "The private key is lost if you close now.", text: `Nobody can show it again. ${lost}`, back: "Back to the key", close: "Close and lose the key" },
    focus: (node) => node.querySelector(".intro .primary"), then,
  });
}
