// Encryption of imports and decryption of exports, in a worker that ends with the answer, so that no secret stays in its memory; and the keys
// that exports are encrypted to, which no script can read out.

import { database } from "./database.js";
import { session } from "./session.js";
import { fromHex, toHex } from "./stamp.js";
import { startWorker } from "./worker.js";

// What the reasons of package transfer mean for the reader.
const refusals = {
  signer: "This was signed by another key than the one that this browser trusts. The server, or somebody between, may have replaced it. Nothing was decrypted, and no secret was sent.",
  signature: "This was changed after the enclave signed it. The server, or somebody between, may have replaced it. Nothing was decrypted, and no secret was sent.",
  organization: "The enclave made this for another organization. Nothing was decrypted, and no secret was sent.",
  user: "The enclave made this for another user. Nothing was decrypted, and no secret was sent.",
  key: "This is not encrypted to the key of this browser. The server, or somebody between, may have replaced it.",
};

// asking lets several questions be asked of one worker, which ends then.
async function asking(act) {
  const worker = startWorker();
  const ask = (bundle) => new Promise((done, failed) => {
    worker.onerror = () => failed(new Error("The encryption could not start in this browser."));
    worker.onmessage = ({ data: { answer, error } }) => {
      if (error !== undefined || answer.error) failed(new Error(`This browser or server cannot encrypt for imports and exports: ${error ?? answer.error} Build the host with make build.`));
      else if (answer.refused) failed(Object.assign(new Error(refusals[answer.refused] ?? answer.why), { refused: answer.refused }));
      else done(answer);
    };
    worker.postMessage({ bundle });
  });
  try {
    return await act(ask);
  } finally {
    worker.terminate();
  }
}

// checkSecret rejects with what is wrong with typed-in words or a private key.
export const checkSecret = (secret) => asking((ask) => ask({ check: secret }));

// sealSecret encrypts a secret of the reader to the target of an import.
export const sealSecret = (bundle, signer, secret) => asking(async (ask) =>
  (await ask({ seal: { bundle, signer, organization: session().organizationId, user: session().userId, secret } })).bundle);

const about = (bundle, signer) => ({ bundle, signer, organization: session().organizationId });

// verifyExport rejects if an export was not made by the enclave for this organization.
export const verifyExport = (bundle, signer) => asking((ask) => ask({ encapsulated: about(bundle, signer) }));

// openExport decrypts an export with a key that makeExportKey made, and gives the secret, and the passphrase if there is one.
export const openExport = (bundle, signer, { key, publicKey, form }) => asking(async (ask) => {
  const { encapsulatedKey } = await ask({ encapsulated: about(bundle, signer) });
  const other = await crypto.subtle.importKey("raw", fromHex(encapsulatedKey), exchange, false, []);
  const shared = toHex(await crypto.subtle.deriveBits({ name: "ECDH", public: other }, key, 256));
  return ask({ open: { ...about(bundle, signer), publicKey, shared, form } });
});

// ---- Keys of exports

const exchange = { name: "ECDH", namedCurve: "P-256" };
const stored = database("cloister.exports", "keys");
const inMemory = new Map(); // in a browser that keeps nothing
const longest = 90 * 86400_000; // milliseconds after which a key is forgotten that was not used

// makeExportKey makes the key for one export and keeps it under its public half until the export was opened: it may have to be approved first.
// kept tells whether it outlives this page.
export async function makeExportKey(form, name) {
  const pair = await crypto.subtle.generateKey(exchange, false, ["deriveBits"]);
  const made = { key: pair.privateKey, publicKey: toHex(await crypto.subtle.exportKey("raw", pair.publicKey)), form, name, at: Date.now() };
  const kept = await stored("readwrite", (store) => {
    const cursor = store.openCursor();
    cursor.onsuccess = () => {
      const { result } = cursor;
      if (!result) return;
      if (result.value.at < Date.now() - longest) result.delete();
      result.continue();
    };
    return store.put(made, made.publicKey);
  }).then(() => true, (error) => console.debug(error) ?? false);
  if (!kept) inMemory.set(made.publicKey, made);
  return { ...made, kept };
}

// exportKeyFor finds the key of an export by its public half, null if this browser does not have it.
export async function exportKeyFor(publicKey) {
  return inMemory.get(publicKey) ?? await stored("readonly", (store) => store.get(publicKey)).catch((error) => console.debug(error)) ?? null;
}

export async function forgetExportKey(publicKey) {
  inMemory.delete(publicKey);
  await stored("readwrite", (store) => store.delete(publicKey)).catch((error) => console.debug(error));
}
