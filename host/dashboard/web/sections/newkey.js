// API keys that are made in this browser: the fields that ask for one, and the dialog that shows its private half, once.

import { fill, h, icon, unique } from "../dom.js";
import { session } from "../session.js";
import { makeOpenKey } from "../stamp.js";
import { button, copyable, download, facts, field } from "../ui.js";

const curves = [["API_KEY_CURVE_P256", "P-256"], ["API_KEY_CURVE_SECP256K1", "secp256k1"], ["API_KEY_CURVE_ED25519", "Ed25519"]];

export const keyFields = () => [
  field({ name: "make", label: "Key pair", kind: "select", value: "make", options: [["make", "Create in this browser"], ["paste", "I have the public key"]], onchange: chosen }),
  field({ name: "publicKey", label: "Public key", hint: "In hex; P-256 and secp256k1 in compressed form.", spellcheck: "false", disabled: true }),
  field({ name: "curveType", label: "Curve", kind: "select", value: "API_KEY_CURVE_P256", options: curves, disabled: true }),
];

function chosen({ target }) {
  const pasted = target.value === "paste";
  const { publicKey, curveType } = target.form.elements;
  publicKey.disabled = curveType.disabled = !pasted;
  publicKey.required = pasted;
}

// keyOf gives the parameters of the key in a form, and the pair if it was created here.
export async function keyOf({ make, publicKey, curveType }, apiKeyName, rest = {}) {
  const pair = make === "make" ? await makeOpenKey() : null;
  return { pair, apiKeys: [{ apiKeyName, publicKey: pair?.publicKey ?? publicKey.toLowerCase(), curveType: pair ? "API_KEY_CURVE_P256" : curveType, ...rest }] };
}

// showCredentials offers a key that was created here for a user as a credentials file, once.
export const showCredentials = ({ userId, userName }, pair) => showNewKey({
  userName, pair, organizationId: session().organizationId,
  intro: userId === session().userId ? "Download this file now; it cannot be shown again. You sign in with it."
    : `Download this file now and pass it to ${userName}; it cannot be shown again. They sign in with it.`,
});

// showNewKey is a dialog that shows a new key. It does not close unasked before the key was downloaded or copied; then is called with whether it
// was. The file has the members that the sign-in and cloister-host request read.
export function showNewKey({ userName, organizationId, pair: { publicKey, privateKey }, intro, lost = "You would have to delete this API key and make another one.", then = () => {} }) {
  const text = JSON.stringify({ apiUrl: location.origin, organizationId, publicKey, privateKey }, null, 2);
  const name = `credentials-${userName.replace(/[^\p{L}\p{N}._-]+/gu, "-")}.json`;
  const [id, why] = [unique("dialog"), unique("why")];
  const from = document.activeElement;
  let saved = false;
  let givenUp = false;

  const finish = button("Done", { class: "button primary", "aria-disabled": "true", "aria-describedby": why, onclick: requestClose });
  const question = h("div", { class: "unread", role: "alert", hidden: true });
  const hint = h("p", { class: "note", id: why }, "Download or copy the key first.");
  const markSaved = () => {
    saved = true;
    finish.removeAttribute("aria-disabled");
    hint.hidden = true;
    hideQuestion();
  };
  const hideQuestion = () => { fill(question).hidden = true; };

  // requestClose closes, or asks first. The second time it takes the question back.
  function requestClose() {
    if (saved) return node.close();
    if (!question.hidden) {
      hideQuestion();
      return save.focus();
    }
    const back = button("Back to the key", { class: "button small", onclick: () => { hideQuestion(); save.focus(); } });
    fill(question, h("p", { class: "strong" }, "The private key is lost if you close now."), h("p", null, `Nobody can show it again. ${lost}`),
      h("div", { class: "row" }, back, button("Close and lose the key", { class: "button danger small", onclick: () => { givenUp = true; node.close(); } }))).hidden = false;
    back.focus();
  }

  const save = button("Download credentials", { class: "button primary", onclick: () => { download(name, text); markSaved(); } });
  const node = h("dialog", { "aria-labelledby": id },
    h("div", { class: "bar" }, h("h2", { id }, `API key of ${userName}`), h("button", { type: "button", class: "plain", "aria-label": "Close", onclick: requestClose }, icon("close"))),
    h("div", { class: "intro" }, h("p", null, intro), h("p", null, save),
      facts([["Public key", copyable(publicKey, "public key")], ["Private key", copyable(privateKey, "private key", { copied: markSaved })], ["Credentials (JSON)", copyable(text, "credentials as JSON", { copied: markSaved })]])),
    question, h("div", { class: "end" }, hint, finish));

  const unload = (event) => { if (!saved) event.preventDefault(); };
  window.addEventListener("beforeunload", unload);
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault(); // the browser would close it, at the second press whatever the page says
    requestClose();
  });
  node.addEventListener("cancel", (event) => {
    event.preventDefault();
    requestClose();
  });
  node.addEventListener("close", () => {
    if (!saved && !givenUp) { // the page behind it was left
      node.showModal();
      hideQuestion();
      return requestClose();
    }
    window.removeEventListener("beforeunload", unload);
    node.remove();
    (from?.isConnected ? from : document.querySelector("main h1"))?.focus({ preventScroll: true });
    then(saved);
  });
  document.body.append(node);
  node.showModal();
  save.focus();
}
