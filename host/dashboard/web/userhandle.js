// User handles of passkeys: the bytes that an authenticator keeps beside a passkey and gives out with every signature. Those that this
// dashboard makes name the organization, so that nobody has to type its id to sign in. A handle proves nothing: it only says which
// organization to ask, and the enclave then verifies the signature. Whoever can change it can lead to a refusal, and nowhere else.

import { fromHex, toHex } from "./stamp.js";

// A handle is this mark, which is 9 bytes, then 16 bytes of the organization's id, and 16 bytes that no other passkey of the organization
// has: the user's id, or random ones for somebody who is no user yet.
const mark = [...new TextEncoder().encode("cloister1")];

const idBytes = (uuid) => fromHex(uuid.replaceAll("-", ""));

export const userHandle = (organizationId, userId) => Uint8Array.from([...mark, ...idBytes(organizationId), ...idBytes(userId)]);

// organizationIn reads the organization's id from a handle. It gives null for a handle that was made elsewhere.
export function organizationIn(handle) {
  const bytes = new Uint8Array(handle ?? []);
  if (bytes.length !== mark.length + 32 || mark.some((b, i) => bytes[i] !== b)) return null;
  return toHex(bytes.slice(mark.length, mark.length + 16)).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
