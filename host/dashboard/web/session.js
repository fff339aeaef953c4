// Who is signed in: an organization, and a key that signs but cannot be read out. In memory, or in this browser's database
// when the user asked for that.

import { database } from "./database.js";
import { importKey, makeKey, stampWithKey } from "./stamp.js";

let current = null;

export const session = () => current;

// stamped gives the header for a body of the one who is signed in.
export const stamped = (body) => stampWithKey(current.key, current.publicKey, body);

const stored = database("cloister", "session");

const organizationKey = "cloister.organization";
const nameKey = "cloister.organizationName";

// lastOrganization is where somebody signed in before: its id and name, each empty if it is not known.
export const lastOrganization = () => ({ id: localStorage.getItem(organizationKey) ?? "", name: localStorage.getItem(nameKey) ?? "" });

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
export function rememberOrganization(organizationId, name) {
  localStorage.setItem(organizationKey, organizationId);
  localStorage.setItem(nameKey, name);
}

const passkeysKey = "cloister.passkeys";
const mostPasskeys = 20;

// learnedPasskeys are pairs of a passkey's credential id and its organization's id, the latest first: for passkeys that do not name it.
function learnedPasskeys() {
  try {
    const all = JSON.parse(localStorage.getItem(passkeysKey) ?? "[]");
    return all.filter(([credentialId, organizationId]) => typeof credentialId === "string" && typeof organizationId === "string");
  } catch {
    return []; // not ours
  }
}

// organizationOfPasskey is what this browser has learned of a passkey.
export const organizationOfPasskey = (credentialId) => learnedPasskeys().find(([id]) => id === credentialId)?.[1] ?? null;

export function rememberPasskey(credentialId, organizationId) {
  const others = learnedPasskeys().filter(([id]) => id !== credentialId);
  localStorage.setItem(passkeysKey, JSON.stringify([[credentialId, organizationId], ...others].slice(0, mostPasskeys)));
}

async function keep(remember) {
  rememberOrganization(current.organizationId, current.organizationName);
  if (remember) await stored("readwrite", (store) => store.put(current, "current"));
}

// renamed is called when the organization has another name.
let renamed = () => {};
export const onRenamed = (f) => { renamed = f; };

// takeOrganizationName takes up the name that the organization has now, for this page and for later ones.
export async function takeOrganizationName(name) {
  if (!current || current.organizationName === name) return;
  current.organizationName = name;
  renamed();
  try {
    const kept = await stored("readonly", (store) => store.get("current"));
    if (kept?.publicKey === current.publicKey) await stored("readwrite", (store) => store.put(current, "current"));
  } catch {
    // a browser that keeps nothing
  }
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

// signInWithPasskey has login ask for one touch: the passkey lets in a key of this browser, which signs from then on until it expires.
export async function signInWithPasskey({ organizationId, seconds, remember }, login, ask) {
  const { key, publicKey } = await makeKey();
  await login({ publicKey, expirationSeconds: String(seconds) });
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
