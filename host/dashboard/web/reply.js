// Invitations as links. The link to the invited person names the invitation; what that person answers, the reply, has the public half of
// a new credential and no secret. Both are the part of an address that browsers send to nobody.

import { h } from "./dom.js";
import { base64url, toHex } from "./stamp.js";

const text = new TextEncoder();

const here = () => `${location.origin}${location.pathname}`;

// linkTo is the address that is sent to an invited person.
export const linkTo = ({ organizationId, organizationName, invitationId, userName }) =>
  `${here()}#/invitation?${new URLSearchParams({ organization: organizationId, invitation: invitationId, name: userName, to: organizationName })}`;

// replyLink is the address that the invited person sends back.
export const replyLink = (reply) => `${here()}#/users/invitations/${reply.invitationId}?reply=${base64url(text.encode(JSON.stringify(reply)))}`;

// tokenOf finds a reply in what was pasted: the whole address, or the part behind reply=. It gives null if there is none.
export const tokenOf = (pasted) => /(?:reply=|^)([\w-]{40,})(?:$|[&\s])/.exec(pasted.trim())?.[1] ?? null;

// replyOf reads a reply. It throws if it is none. The server checks what is in it.
export function replyOf(token) {
  const bytes = Uint8Array.from(atob(token.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  const reply = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  const { organizationId, invitationId, authenticator, apiKey } = reply;
  const texts = [organizationId, invitationId, ...(authenticator ? [authenticator.authenticatorName, authenticator.challenge, authenticator.attestation?.clientDataJson] : [apiKey?.publicKey])];
  if (texts.some((t) => typeof t !== "string") || Boolean(authenticator) === Boolean(apiKey)) throw new Error("This is no reply to an invitation.");
  return reply;
}

// codeOf is what both sides compare by another way than the one that the reply took: 80 bits of a hash over all of the reply.
export async function codeOf(reply) {
  const hash = await crypto.subtle.digest("SHA-256", text.encode(`cloister invitation reply 1\n${JSON.stringify(reply)}`));
  return toHex(hash).slice(0, 20).replace(/(....)(?=.)/g, "$1 ");
}

// originOf is the address at which a passkey was made, as the browser noted it.
export function originOf({ attestation }) {
  try {
    return String(JSON.parse(atob(attestation.clientDataJson.replaceAll("-", "+").replaceAll("_", "/"))).origin);
  } catch {
    return "";
  }
}

export const mailTo = (address, subject, body) => `mailto:${encodeURIComponent(address)}?subject=${encodeURIComponent(subject)}&body=${encodeURIComponent(body)}`;

// linkBox shows a whole link, to be selected where the clipboard cannot be used.
export const linkBox = (link, label) => h("textarea", { class: "code", readonly: true, rows: 3, "aria-label": label, spellcheck: "false", value: link, onfocus: ({ target }) => target.select() });
