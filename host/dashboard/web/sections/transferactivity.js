// What the page of an activity offers of imports and exports: to open an export that had to be approved, or to go on with an import.

import { resultOf, waits } from "../api.js";
import { h } from "../dom.js";
import { bareType } from "../refusals.js";
import { session } from "../session.js";
import { exportKeyFor, verifyExport } from "../transfers.js";
import { button, dialog, milliseconds, panel } from "../ui.js";
import { saveBundle } from "./exported.js";
import { openAndShow } from "./exportkey.js";
import { importDialogs } from "./importkey.js";
import { signerPart } from "./signerkey.js";

const exports = { EXPORT_WALLET: "the words", EXPORT_WALLET_ACCOUNT: "the private key", EXPORT_PRIVATE_KEY: "the private key" };
const targetLife = 86400_000; // milliseconds for which a target of an import is good

const intentOf = (activity) => Object.values(activity.intent ?? {})[0] ?? {};

// loadTransfer finds what there is to offer for an activity of this organization: null if it is of another kind.
export async function loadTransfer(activity) {
  const type = bareType(activity.type);
  if (activity.organizationId !== session().organizationId) return null;
  if (type in exports) return { what: exports[type], made: await exportKeyFor(intentOf(activity).targetPublicKey) };
  return type in importDialogs && intentOf(activity).userId === session().userId ? { dialog: importDialogs[type] } : null;
}

// asking shows a dialog that asks for the signer's key and does something with it.
function asking(heading, intro, act) {
  const signerKey = signerPart();
  dialog({ heading, intro, fields: [signerKey.node], action: heading, run: async (all) => act(await signerKey.agreed(all)) });
}

function exported(activity, { what, made }, again) {
  if (waits(activity)) {
    return panel("Export", h("p", null, made ? `Once this is approved, come back to this page in this browser to see ${what}: only it can open the export.` : "Only the requester can open the export, in the browser that the request was made in."));
  }
  if (activity.status !== "ACTIVITY_STATUS_COMPLETED") return null;
  const { exportBundle } = resultOf(activity);
  const save = button("Download encrypted file", { onclick: () => asking("Download", "It is verified first: the enclave must have signed it for this organization.", async (signer) => {
    await verifyExport(exportBundle, signer);
    saveBundle(exportBundle, activity.id);
  }) });
  if (!made) {
    return panel("Export", [h("p", null, "This browser does not have the key that opens this export: it was made in another one or for somebody else's key, or it was opened already."), h("div", { class: "row" }, save)]);
  }
  return panel("Export", [
    h("p", null, `This browser has the key that opens it, once. Whoever sees ${what} of ${made.name} can spend everything there.`),
    h("div", { class: "row" }, button("Open the export", { class: "button primary", onclick: () => asking("Open the export", "It is decrypted in this browser.", (signer) => openAndShow(exportBundle, signer, made, again)) }), save),
  ]);
}

function imported(activity, { dialog: importDialog }) {
  if (waits(activity)) return panel("Import", h("p", null, "Once this is approved, come back to this page to continue the import."));
  if (activity.status !== "ACTIVITY_STATUS_COMPLETED") return null;
  if (milliseconds(activity.updatedAt) + targetLife < Date.now()) return panel("Import", h("p", null, "This was good for one import within 24 hours, which are over."));
  const { importBundle } = resultOf(activity);
  return panel("Import", [
    h("p", null, "This is good for one import, within 24 hours and until the enclave starts again. If it was used already, the server says so."),
    h("div", null, button("Continue the import", { class: "button primary", onclick: () => importDialog({ bundle: importBundle, then: () => { location.hash = "#/activities"; } }) })),
  ]);
}

export const transferPanel = (activity, transfer, again) => transfer && (transfer.dialog ? imported(activity, transfer) : exported(activity, transfer, again));
