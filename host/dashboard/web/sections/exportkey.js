// The dialog that exports a wallet's words or a private key: encrypted in the enclave to a key of this browser, or to somebody else's.

import { query, resultOf, submit, waits } from "../api.js";
import { h } from "../dom.js";
import { allowedByPolicies } from "../may.js";
import { forgetExportKey, makeExportKey, openExport, verifyExport } from "../transfers.js";
import { dialog, done, field, toast } from "../ui.js";
import { showBundle, showSecret } from "./exported.js";
import { signerPart } from "./signerkey.js";

// formOf is how people write a private key who use addresses of these formats.
export function formOf(addressFormats) {
  if (addressFormats.includes("ADDRESS_FORMAT_ETHEREUM")) return "ethereum";
  return addressFormats.includes("ADDRESS_FORMAT_SOLANA") ? "solana" : "hex";
}

// Any point of the curve stands for a key that is made later.
const sampleKey = "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c2964fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5";

// mayExport asks whether policies would let the reader export. Whether those allow it that name the target key is only known once there is one.
export async function mayExport(type, parameters) {
  if (await allowedByPolicies(type, { ...parameters, targetPublicKey: sampleKey })) return true;
  return query("list_policies").then(({ policies }) => policies.some((p) => p.condition?.includes("target_public_key")), () => false);
}

const otherKey = () => h("details", { class: "fold" }, h("summary", null, "Encrypt to somebody else's key instead"),
  h("div", { class: "items" }, field({ name: "targetPublicKey", label: "Target public key", class: "code", spellcheck: "false", hint: "P-256, in hex: 130 digits, or 66 in compressed form. This browser cannot open the export then; you get it as a file." })));

// openAndShow decrypts a completed export of this browser and shows it. The key is forgotten once it was decrypted: it is for one export.
export async function openAndShow(bundle, signer, made, then) {
  const opened = await openExport(bundle, signer, made);
  await forgetExportKey(made.publicKey);
  queueMicrotask(() => showSecret(opened, made, then)); // when the dialog before it is closed
}

// exportDialog exports something: heading, what an export means for it, the activity with its parameters, the form in which it is shown, and
// its name. again is called once it is exported.
export function exportDialog({ heading, meaning, type, parameters, form, name, again }) {
  const signerKey = signerPart();
  dialog({
    heading, intro: h("div", { class: "unread" }, meaning.map((text, i) => h("p", { class: i ? null : "strong" }, text))),
    fields: [signerKey.node, otherKey()],
    action: "Export", danger: true,
    run: async (all) => {
      const signer = await signerKey.agreed(all);
      const theirs = all.targetPublicKey.replace(/^0x/i, "").toLowerCase();
      const made = theirs ? null : await makeExportKey(form, name);
      const activity = await submit(type.toLowerCase(), type, { ...parameters, targetPublicKey: theirs || made.publicKey });
      if (waits(activity)) {
        if (made && !made.kept) toast("This browser keeps nothing: leave this page open until the export is approved.");
        return done(activity);
      }
      again();
      const { exportBundle } = resultOf(activity);
      try {
        if (made) return await openAndShow(exportBundle, signer, made);
        await verifyExport(exportBundle, signer);
      } catch (error) {
        throw error.refused ? new Error(`${error.message} The enclave has made the export: once the server answers truly, open it on the page of its activity.`) : error;
      }
      queueMicrotask(() => showBundle(exportBundle, name));
    },
  });
}
