// Who is signed in: an organization, and a key that signs but cannot be read out. In memory, or in this browser's database
// when the user asked for that.

import { importKey, makeKey, stampWithKey, stampWithPasskey } from "./stamp.js";

let current = null;

export const session = () => current;

// stamped gives the header for a body of the one who is signed in.
export const stamped = (body) => stampWithKey(current.key, current.publicKey, body);

function opened() {
  return new Promise((done, failed) => {
    const request = indexedDB.open("cloister", 1);
    request.onupgradeneeded = () => request.result.createObjectStore("session");
    request.onsuccess = () => done(request.result);
    request.onerror = () => failed(request.error);
  });
}

async function stored(mode, act) {
  const db = await opened();
  try {
    return await new Promise((done, failed) => {
      const transaction = db.transaction("session", mode);
      const request = act(transaction.objectStore("session"));
      transaction.oncomplete = () => done(request.result);
      transaction.onerror = transaction.onabort = () => failed(transaction.error);
    });
  } finally {
    db.close();
  }
}

const organizationKey = "cloister.organization";

// lastOrganization is where somebody signed in before.
export const lastOrganization = () => localStorage.getItem(organizationKey) ?? "";

// restore takes up what an earlier page kept.
export async function restore() {
  try {
    current = (await stored("readonly", (store) => store.get("current"))) ?? null;
    if (current?.until && current.until < Date.now()) await forget();
  } catch {
    current = null; // a browser that keeps nothing
  }
  return current;
}

// rememberOrganization has the sign-in name an organization.
export const rememberOrganization = (organizationId) => localStorage.setItem(organizationKey, organizationId);

async function keep(remember) {
  rememberOrganization(current.organizationId);
  if (remember) await stored("readwrite", (store) => store.put(current, "current"));
}

// forget drops the key. What the server knows of it is the caller's to end.
export async function forget() {
  current = null;
  try {
    await stored("readwrite", (store) => store.delete("current"));
  } catch {
    // nothing was kept
  }
}

// signInWithKey takes up an API key once ask has shown that the server knows it.
export async function signInWithKey({ organizationId, publicKey, privateKey, remember }, ask) {
  const key = await importKey(publicKey, privateKey);
  current = { kind: "key", organizationId, publicKey, key };
  await taken(ask, remember);
}

// signInWithPasskey touches once: the passkey lets in a key of this browser, which signs from then on until it expires.
export async function signInWithPasskey({ organizationId, seconds, remember }, login, ask) {
  const { key, publicKey } = await makeKey();
  await login({ publicKey, expirationSeconds: String(seconds) }, stampWithPasskey);
  current = { kind: "passkey", organizationId, publicKey, key, until: Date.now() + seconds * 1000 };
  await taken(ask, remember);
}

async function taken(ask, remember) {
  try {
    const who = await ask();
    // A passkey or key may be of a sub-organization of the one that was named, or of its parent.
    Object.assign(current, { organizationId: who.organizationId, organizationName: who.organizationName, userId: who.userId, userName: who.username });
    await keep(remember);
  } catch (error) {
    current = null;
    throw error;
  }
}
