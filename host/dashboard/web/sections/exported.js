// An exported secret, shown once it was decrypted in this browser: hidden at first, and gone from the page when the dialog closes.

import { fill, h, unique } from "../dom.js";
import { button, copy, download } from "../ui.js";
import { saveFirst } from "./savefirst.js";

const fileName = (kind, name) => `${kind}-${name.replace(/[^\p{L}\p{N}._-]+/gu, "-")}`;

const numbered = (words) => h("ol", { class: "words" }, words.split(" ").map((word) => h("li", null, h("code", null, word))));

// showSecret shows the words of a wallet, or a private key. No part of it is put into an attribute.
export function showSecret({ secret, passphrase }, { form, name }, then) {
  const isMnemonic = form === "mnemonic";
  const what = isMnemonic ? "words" : "private key";
  const text = passphrase ? `${secret}\n${passphrase}` : secret;
  const place = h("div", { id: unique("secret"), class: "secret" });
  let shown = false;
  const hidden = () => h("p", { class: "note" }, "Hidden. Look around before you show it.");
  const drawn = () => (isMnemonic ? [numbered(secret), passphrase && h("p", null, "Passphrase: ", h("code", { class: "wrap" }, passphrase))] : h("p", null, h("code", { class: "wrap" }, secret)));
  let saved; // what saveFirst gives
  const written = button(isMnemonic ? "I have written them down" : "I have written it down", { "aria-disabled": "true", "aria-describedby": place.id, onclick: () => written.hasAttribute("aria-disabled") || saved() });
  const toggle = button("Show", { class: "button primary", "aria-expanded": "false", "aria-controls": place.id, onclick: () => {
    shown = !shown;
    for (const name of ["aria-disabled", "aria-describedby"]) written.removeAttribute(name); // nobody writes down what was never shown
    fill(place, shown ? drawn() : hidden());
    fill(toggle, shown ? "Hide" : "Show");
    toggle.setAttribute("aria-expanded", String(shown));
  } });
  fill(place, hidden());
  saveFirst({
    heading: isMnemonic ? `Words of ${name}` : `Private key of ${name}`,
    content: (markSaved) => {
      saved = markSaved;
      return [
      h("p", null, isMnemonic ? "Whoever has these words can spend everything in this wallet, now and later. The policies of this organization do not hold there."
        : "Whoever has this key can spend everything at its addresses, now and later. The policies of this organization do not hold there."),
      passphrase && h("p", null, "The wallet was imported with a passphrase. Without it, the words give other keys."),
      place,
      h("div", { class: "row" }, toggle,
        button("Copy", { "aria-label": `Copy the ${what}`, onclick: async () => { if (await copy(text, `the ${what}`)) markSaved(); } }),
        button("Download", { "aria-label": `Download the ${what}`, onclick: () => { download(`${fileName(isMnemonic ? "words" : "key", name)}.txt`, `${text}\n`, "text/plain"); markSaved(); } }),
        written),
      h("p", { class: "note" }, "Other programs can read the clipboard and your downloads. Remove it from there when it is in its place."),
      ];
    },
    hint: `Copy, download or write down the ${what} first.`,
    question: { heading: `You have not saved the ${what}.`, text: "It is wiped from this page when you close, and the key that opens this export is gone: you would have to export again.", back: `Back to the ${what}`, close: "Close without saving" },
    focus: () => toggle, then,
  });
}

// showBundle offers an export that is encrypted to somebody else's key.
export function showBundle(bundle, name, then) {
  saveFirst({
    heading: `Encrypted export of ${name}`,
    content: (markSaved) => [
      h("p", null, "Only the holder of the private half of the key that you named can open it. It was verified: the enclave signed it for this organization."),
      h("div", { class: "row" }, button("Download the export", { class: "button primary", onclick: () => { saveBundle(bundle, name); markSaved(); } }),
        button("Copy", { "aria-label": "Copy the export", onclick: async () => { if (await copy(bundle, "the export")) markSaved(); } })),
      h("p", { class: "note" }, "The SDK's decryptExportBundle opens it, and so does package bundle of Cloister, with the signer key and the organization's id."),
    ],
    hint: "Download or copy it first.",
    question: { heading: "You have not saved the export.", text: "Its activity keeps it: you find it there again.", back: "Back to the export", close: "Close without saving" },
    focus: (node) => node.querySelector(".intro .primary"), then,
  });
}

export const saveBundle = (bundle, name) => download(`${fileName("export", name)}.json`, bundle);
