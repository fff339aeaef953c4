// The key by which the enclave signs imports and exports: what this browser trusts, and the part of a dialog that shows it.

import { fill, h } from "../dom.js";
import { copyable, field } from "../ui.js";

const known = "cloister.signer"; // in the storage of this server's address

const remembered = () => localStorage.getItem(known);

const wellFormed = /^04[0-9a-f]{128}$/;

// fetchSigner asks the server for the key. It proves nothing about it.
async function fetchSigner() {
  let signer;
  try {
    const answer = await fetch("/public/v1/discovery/keys", { cache: "no-store", credentials: "omit", redirect: "error" });
    ({ signer } = (await answer.json()).keys);
  } catch {
    throw new Error("The server did not say by which key its enclave signs.");
  }
  if (!wellFormed.test(signer)) throw new Error("What the server says to be its enclave's signer is no key.");
  return signer;
}

const verifyLink = () => h("a", { href: "verify", target: "_blank", rel: "noopener" }, "the Verify page", h("span", { class: "hidden" }, " (opens a new tab)"));

const compare = (subject) => h("p", { class: "note" }, `Compare ${subject} with what the operator published, or verify the keys document on `, verifyLink(),
  ". A server that serves this page could serve another page: for large values, import and export from a machine of yours with the SDK.");

const fault = (message, name) => Object.assign(new Error(message), { fields: [{ field: name, description: message }] });

// signerPart is the part of a dialog about the signer's key. agreed gives the key that the reader trusts, by the dialog's values, or throws why
// there is none.
export function signerPart() {
  const place = h("div", { class: "items" }, h("p", { class: "note", role: "status" }, "Asking for the enclave's signer key…"));
  const summary = h("summary", null, "The enclave's signer key");
  const node = h("details", { class: "fold" }, summary, place);
  const asked = fetchSigner();
  const changed = (signer) => remembered() !== null && remembered() !== signer;
  const accept = () => field({ name: "newSigner", kind: "checkbox", label: "I have verified the new key. Trust it from now on.", wide: true });
  asked.then((signer) => {
    const other = changed(signer);
    node.open ||= other || remembered() === null;
    fill(place,
      other && h("div", { class: "unread", role: "alert" }, h("p", { class: "strong" }, "The signer key is another one than before"),
        h("p", null, "Somebody may be trying to read your keys. Or the operator has set up the enclave anew, and can tell you the new key. Verify it on ", verifyLink(), " before you go on.")),
      h("p", null, other ? "The server now names: " : remembered() ? "As before, the enclave signs by: " : "This browser sees this key for the first time and remembers it: ", copyable(signer, "signer key")),
      other && h("p", null, "This browser trusts: ", copyable(remembered(), "trusted signer key")),
      compare(other ? "the new key" : "the key"),
      field({ name: "expectedSigner", label: "Expected key", class: "code", spellcheck: "false", hint: "If you have the key from the operator, paste it here." }),
      other && accept());
  }, (error) => {
    node.open = true;
    fill(place, h("p", { class: "error", role: "alert" }, error.message));
  });
  return {
    node,
    async agreed({ expectedSigner = "", newSigner = false }) {
      const signer = await asked;
      const expected = expectedSigner.trim().toLowerCase();
      if (expected && expected !== signer) {
        node.open = true;
        throw fault("This is not the key that the server names. Do not go on: ask the operator.", "expectedSigner");
      }
      if (changed(signer) && !expected && !newSigner) {
        node.open = true;
        throw fault("The signer key has changed. Verify the new one, and then paste it above or confirm here that you did.", "newSigner");
      }
      localStorage.setItem(known, signer);
      return signer;
    },
  };
}
