// Encrypted codes: what version 2 of the web client does, with the crypto package's own functions and the keys of this
// deployment handed to them. The web client of version 1 has no such calls and version 2 takes no keys.
import { encryptOtpCodeToBundle, verifyOtpVerificationToken, verifySessionJwtSignature } from "@turnkey/crypto";

const hex = (bytes) => [...new Uint8Array(bytes)].map((b) => b.toString(16).padStart(2, "0")).join("");

// ask calls the auth proxy, as a page does.
const ask = async (operation, body) => {
  const { authProxyUrl, authProxyConfigId } = client.config;
  const answer = await fetch(`${authProxyUrl}/v1/${operation}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Auth-Proxy-Config-Id": authProxyConfigId },
    body: JSON.stringify(body),
  });
  const got = await answer.json();
  if (!answer.ok) throw new Error(`${operation}: ${answer.status} ${got.message}`);
  return got;
};

// newKey is one that a verification token can be bound to.
const newKey = async () => {
  const { privateKey, publicKey } = await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, false, ["sign"]);
  const point = hex(await crypto.subtle.exportKey("raw", publicKey));
  const compressed = (parseInt(point.slice(-1), 16) % 2 ? "03" : "02") + point.slice(2, 66);
  const signs = async (what) => {
    const message = JSON.stringify(what);
    const signature = hex(await crypto.subtle.sign({ name: "ECDSA", hash: "SHA-256" }, privateKey, new TextEncoder().encode(message)));
    return { publicKey: compressed, scheme: "CLIENT_SIGNATURE_SCHEME_API_P256", message, signature };
  };
  return { publicKey: compressed, signs };
};

globalThis.codes = { ask, newKey, encryptOtpCodeToBundle, verifyOtpVerificationToken, verifySessionJwtSignature };
