// Signed replies for JavaScript: a fetch that insists. WebCrypto and fetch are all it needs: Node 20 and browsers.
// The format is in ../README.md, "Signed replies".
//
//     import { signedFetch } from "./signed-replies.mjs";
//     globalThis.fetch = signedFetch({ origins: ["https://api.example.com"], trust: liveKeyHex });
//
// A reply of these origins is given back only if a trusted live key signed it as the answer to the very request that was sent:
// method, path, credential headers and body. Anything else rejects with a ReplyError. Requests to other origins pass untouched.

const domain = "cloister signed reply 1";
const maxReply = 64 << 20;
const decoding = { signature: /^[0-9a-f]{128}$/, liveKey: /^[0-9a-f]{260}$/, deployment: /^[0-9a-f]{64}$/, time: /^[1-9][0-9]{0,15}$/ };
const documents = new Map([
  ["/public/v1/discovery/keys", "discovery_keys"], ["/public/v1/discovery/webhooks/jwks", "webhook_jwks"],
  ["/.well-known/openid-configuration", "discovery_openid"], ["/.well-known/jwks.json", "discovery_openid_keys"],
]);
const doors = [["/public/v1/submit/", "submit"], ["/public/v1/query/", "query"], ["/boot/v1/", "boot"], ["/v1/", "proxy"]];
const stamps = ["x-stamp", "x-stamp-webauthn", "x-stamp-attested", "x-session"];
const credentials = new Map([["submit", stamps], ["query", stamps], ["boot", stamps], ["proxy", ["x-auth-proxy-config-id", "x-captcha-token"]]]);

// A ReplyError says why a reply was not given back. Code is UNSIGNED (nobody signed it: the host's own 503, say; what became
// of the request is not known), UNTRUSTED (of a key or deployment that is not trusted), FORGED (it does not answer this
// request), or UNSUPPORTED (the request is none whose reply anybody would sign; it was not sent).
export class ReplyError extends Error {
  constructor(code, message, status) {
    super(message);
    this.name = "ReplyError";
    this.code = code;
    if (status !== undefined) this.status = status;
  }
}

// route gives door and operation of a request, as a signed reply names them; null for what is no operation of the interface.
export function route(method, path) {
  if (method === "GET") return documents.has(path) ? { door: "boot", operation: documents.get(path) } : null;
  if (method !== "POST") return null;
  for (const [prefix, door] of doors) {
    if (!path.startsWith(prefix)) continue;
    const operation = path.slice(prefix.length);
    return /^[a-z0-9_]{1,128}$/.test(operation) ? { door, operation } : null;
  }
  return null;
}

const hex = (bytes) => Array.from(new Uint8Array(bytes), (b) => b.toString(16).padStart(2, "0")).join("");
const unhex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const sha256 = async (bytes) => hex(await crypto.subtle.digest("SHA-256", bytes));
const encode = (text) => new TextEncoder().encode(text);

// hashCredentials hashes the credential headers of a request at a door. values gives a header by its lower-case name, null or
// undefined where the request does not carry it.
export async function hashCredentials(door, values) {
  let lines = "";
  for (const name of credentials.get(door) ?? []) {
    const value = values(name);
    if (value === null || value === undefined) continue;
    if (!/^[\x20-\x7e]*$/.test(value)) throw new ReplyError("UNSUPPORTED", `header ${name} is not printable ASCII`);
    lines += `${name}: ${value}\n`;
  }
  return sha256(encode(lines));
}

// replyText is the text that a live key signs: see ../README.md. Hashes are 64 digits of lower-case hex.
export function replyText(s) {
  return `${domain}\ndeployment: ${s.deployment}\nlive-key: ${s.liveKey}\ndoor: ${s.door}\noperation: ${s.operation}\n` +
    `credentials-sha256: ${s.credentials}\nrequest-sha256: ${s.request}\nnonce: ${s.nonce}\nstatus: ${s.status}\n` +
    `reply-sha256: ${s.reply}\ntime-ms: ${s.time}\n`;
}

// verifyReply tells whether the signature, 128 digits of hex, is that of the live key in s over what s says. It does not tell
// whose key that is.
export async function verifyReply(s, signature) {
  if (!decoding.signature.test(signature) || !decoding.liveKey.test(s.liveKey)) return false;
  let key;
  try {
    key = await crypto.subtle.importKey("raw", unhex(s.liveKey.slice(130)), { name: "ECDSA", namedCurve: "P-256" }, false, ["verify"]);
  } catch {
    return false; // no point of the curve
  }
  return crypto.subtle.verify({ name: "ECDSA", hash: "SHA-256" }, key, unhex(signature), encode(replyText(s)));
}

// signedFetch makes a fetch that insists.
//
//   origins     the origins of the public interface and the auth proxy; at least one
//   trust       the live key whose replies are taken, 260 digits of hex; several of them; or an async function that is given
//               one and says true after verifying its boot proof, with cloister-verify or the WebAssembly verifier. It is
//               asked once for each key that it said true to.
//   deployment  the only deployment whose replies are taken, 64 digits of hex. Without it the first one is held on to.
//   fetch       the fetch to wrap
//
// Another name than these, and one that is given as undefined, is a TypeError: a pin that is misspelt would bind nothing.
export function signedFetch(options) {
  for (const [name, value] of Object.entries(options)) {
    if (!["origins", "trust", "deployment", "fetch"].includes(name)) throw new TypeError(`signedFetch: unknown option ${name}`);
    if (value === undefined) throw new TypeError(`signedFetch: ${name} is undefined`);
  }
  const { origins, trust, deployment, fetch = globalThis.fetch } = options;
  const listed = new Set(origins.map((o) => new URL(o).origin));
  if (listed.size === 0) throw new TypeError("signedFetch: origins is empty");
  if (deployment !== undefined && !decoding.deployment.test(deployment)) throw new TypeError("signedFetch: deployment is not 64 digits of hex");
  const asks = typeof trust === "function" ? trust : null;
  const trusted = new Set(asks ? [] : [trust].flat());
  for (const key of trusted) if (!decoding.liveKey.test(key)) throw new TypeError("signedFetch: trust is no live key");
  let pinned = deployment;

  return async function fetchSigned(input, init) {
    const request = new Request(input, init);
    const url = new URL(request.url);
    if (!listed.has(url.origin)) return fetch(input, init);
    const to = route(request.method, url.pathname);
    if (!to) throw new ReplyError("UNSUPPORTED", "not an operation of the interface, so nobody would sign the reply");
    const body = request.method === "GET" ? undefined : new Uint8Array(await request.arrayBuffer());
    const headers = new Headers(request.headers);
    const nonce = hex(crypto.getRandomValues(new Uint8Array(16)));
    headers.set("X-Cloister-Sign-Reply", nonce);
    const sent = { ...to, nonce, credentials: await hashCredentials(to.door, (name) => headers.get(name)), request: await sha256(body ?? new Uint8Array()) };
    // Nobody signs a redirect, and no cache holds the answer to a new nonce.
    const reply = await fetch(request.url, { method: request.method, headers, body, signal: request.signal, credentials: request.credentials, mode: request.mode === "navigate" ? undefined : request.mode, redirect: "error", cache: "no-store" });
    const bytes = new Uint8Array(await reply.arrayBuffer());
    if (bytes.length > maxReply) throw new ReplyError("FORGED", "reply is too long", reply.status);

    const told = (name) => reply.headers.get(`X-Cloister-${name}`);
    const signature = told("Reply-Signature");
    if (signature === null) throw new ReplyError("UNSIGNED", `reply with status ${reply.status} carries no signature`, reply.status);
    const s = { ...sent, deployment: told("Deployment") ?? "", liveKey: told("Live-Key") ?? "", time: told("Reply-Time") ?? "", status: reply.status, reply: await sha256(bytes) };
    if (!decoding.deployment.test(s.deployment) || !decoding.time.test(s.time) || !Number.isSafeInteger(Number(s.time)))
      throw new ReplyError("FORGED", "headers of the signature do not have their form", reply.status);
    if (!(await verifyReply(s, signature))) throw new ReplyError("FORGED", "signature is wrong", reply.status);
    if (!trusted.has(s.liveKey)) {
      if (!asks || (await asks(s.liveKey)) !== true) throw new ReplyError("UNTRUSTED", "signed by a live key that is not trusted", reply.status);
      trusted.add(s.liveKey);
    }
    pinned ??= s.deployment;
    if (s.deployment !== pinned) throw new ReplyError("UNTRUSTED", "reply of another deployment", reply.status);

    const proven = new Response([204, 205, 304].includes(reply.status) ? null : bytes, { status: reply.status, statusText: reply.statusText, headers: reply.headers });
    Object.defineProperty(proven, "url", { value: request.url });
    return proven;
  };
}
