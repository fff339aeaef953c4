// Stamps: what proves to the enclave who sent exactly these bytes.

const text = new TextEncoder();

export const toHex = (bytes) => Array.from(new Uint8Array(bytes), (b) => b.toString(16).padStart(2, "0")).join("");

export const fromHex = (s) => Uint8Array.from(s.match(/../g) ?? [], (b) => parseInt(b, 16));

export const base64url = (bytes) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes))).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");

// The field and the constant b of P-256, for public keys only.
const p = 0xffffffff00000001000000000000000000000000ffffffffffffffffffffffffn;
const b = 0x5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604bn;

function power(base, exponent) {
  let result = 1n;
  for (let e = exponent, square = base % p; e > 0n; e >>= 1n, square = (square * square) % p) {
    if (e & 1n) result = (result * square) % p;
  }
  return result;
}

// point gives the coordinates of a compressed public key, as a JWK has them. It throws when there is no such point.
function point(compressed) {
  const x = BigInt("0x" + compressed.slice(2));
  const square = (((x * x) % p) * x + (p - 3n) * x + b) % p;
  let y = power(square, (p + 1n) / 4n);
  if (x >= p || (y * y) % p !== square) throw new Error("The public key is not a point of the curve P-256.");
  if ((y & 1n) !== (BigInt("0x" + compressed.slice(0, 2)) & 1n)) y = p - y;
  return { x: compressed.slice(2), y: y.toString(16).padStart(64, "0") };
}

const curve = { name: "ECDSA", namedCurve: "P-256" };
const algorithm = { name: "ECDSA", hash: "SHA-256" };

// importKey takes an API key as hexadecimal text and gives a key that signs and cannot be read out again.
export async function importKey(publicKey, privateKey) {
  if (!/^0[23][0-9a-f]{64}$/.test(publicKey)) throw new Error("The public key must be 66 hexadecimal digits, a compressed P-256 key.");
  if (!/^[0-9a-f]{64}$/.test(privateKey)) throw new Error("The private key must be 64 hexadecimal digits.");
  const { x, y } = point(publicKey);
  const open = { kty: "EC", crv: "P-256", x: base64url(fromHex(x)), y: base64url(fromHex(y)) };
  const wrong = new Error("Public and private key do not belong together.");
  const probe = text.encode("cloister");
  try {
    const key = await crypto.subtle.importKey("jwk", { ...open, d: base64url(fromHex(privateKey)) }, curve, false, ["sign"]);
    const verifier = await crypto.subtle.importKey("jwk", open, curve, false, ["verify"]);
    if (await crypto.subtle.verify(algorithm, verifier, await crypto.subtle.sign(algorithm, key, probe), probe)) return key;
  } catch {
    throw wrong;
  }
  throw wrong;
}

// compress gives the public half of a pair as the interface writes it.
async function compress(publicKey) {
  const raw = new Uint8Array(await crypto.subtle.exportKey("raw", publicKey));
  return toHex([2 + (raw[64] & 1), ...raw.slice(1, 33)]);
}

// makeKey makes a pair whose private half cannot be read out.
export async function makeKey() {
  const pair = await crypto.subtle.generateKey(curve, false, ["sign"]);
  return { key: pair.privateKey, publicKey: await compress(pair.publicKey) };
}

// makeOpenKey makes a pair to hand to somebody, as hexadecimal text.
export async function makeOpenKey() {
  const pair = await crypto.subtle.generateKey(curve, true, ["sign"]);
  const { d } = await crypto.subtle.exportKey("jwk", pair.privateKey);
  const bytes = Uint8Array.from(atob(d.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  return { publicKey: await compress(pair.publicKey), privateKey: toHex(bytes) };
}

// der writes a signature of 64 bytes as two integers.
function der(raw) {
  const integer = (half) => {
    let from = 0;
    while (from < 31 && half[from] === 0) from++;
    const digits = [...half.subarray(from)];
    if (digits[0] & 0x80) digits.unshift(0);
    return [2, digits.length, ...digits];
  };
  const both = [...integer(raw.subarray(0, 32)), ...integer(raw.subarray(32))];
  return [0x30, both.length, ...both];
}

// stampWithKey gives the header for a body.
export async function stampWithKey(key, publicKey, body) {
  const raw = new Uint8Array(await crypto.subtle.sign(algorithm, key, text.encode(body)));
  const stamp = { publicKey, scheme: "SIGNATURE_SCHEME_TK_API_P256", signature: toHex(der(raw)) };
  return { "X-Stamp": base64url(text.encode(JSON.stringify(stamp))) };
}

// touch has a passkey of this site sign a challenge: the one with the credential id, or without an id any that the user chooses.
async function touch(challenge, credentialId) {
  const { rawId, response } = await navigator.credentials.get({
    publicKey: {
      challenge, rpId: location.hostname, userVerification: "preferred", timeout: 120000,
      allowCredentials: credentialId ? [{ type: "public-key", id: fromBase64url(credentialId) }] : [],
    },
  });
  return { credentialId: base64url(rawId), handle: response.userHandle, response };
}

// findPasskey asks for a touch only to learn which passkey the user chooses. What is signed is random and sent nowhere.
export async function findPasskey() {
  const { credentialId, handle } = await touch(crypto.getRandomValues(new Uint8Array(32)));
  return { credentialId, handle };
}

// passkeyStamper makes headers with a passkey, for each body with a touch; used is told which passkey it was. The challenge is the hash's
// hexadecimal text.
export const passkeyStamper = (chosen, used) => async (body) => {
  const hash = toHex(await crypto.subtle.digest("SHA-256", text.encode(body)));
  const { credentialId, handle, response } = await touch(text.encode(hash), chosen);
  used({ credentialId, handle });
  return {
    "X-Stamp-WebAuthn": JSON.stringify({
      credentialId,
      authenticatorData: base64url(response.authenticatorData),
      clientDataJson: base64url(response.clientDataJSON),
      signature: base64url(response.signature),
    }),
  };
};

const transports = { ble: "BLE", internal: "INTERNAL", nfc: "NFC", usb: "USB", hybrid: "HYBRID", "smart-card": "USB" };

// makePasskey makes one for a user, with a user handle of userhandle.js, and gives the interface's authenticator parameters.
export async function makePasskey({ authenticatorName, handle, userName, organizationName, known }) {
  const challenge = crypto.getRandomValues(new Uint8Array(32));
  const made = await navigator.credentials.create({
    publicKey: {
      challenge,
      rp: { id: location.hostname, name: organizationName },
      user: { id: handle, name: userName, displayName: userName },
      pubKeyCredParams: [{ type: "public-key", alg: -7 }, { type: "public-key", alg: -257 }],
      // It must be found by itself when somebody signs in.
      authenticatorSelection: { residentKey: "required", requireResidentKey: true, userVerification: "preferred" },
      excludeCredentials: known.map((id) => ({ type: "public-key", id: fromBase64url(id) })),
      attestation: "none",
      timeout: 120000,
    },
  });
  const named = (made.response.getTransports?.() ?? []).filter((t) => transports[t]).map((t) => `AUTHENTICATOR_TRANSPORT_${transports[t]}`);
  return {
    authenticatorName,
    challenge: base64url(challenge),
    attestation: {
      credentialId: base64url(made.rawId),
      clientDataJson: base64url(made.response.clientDataJSON),
      attestationObject: base64url(made.response.attestationObject),
      transports: [...new Set(named)],
    },
  };
}

function fromBase64url(s) {
  return Uint8Array.from(atob(s.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
}

// passkeysHere tells whether this address can have passkeys: they need a name, and TLS unless it is localhost.
export const passkeysHere = () =>
  window.isSecureContext && "credentials" in navigator && "PublicKeyCredential" in window && !/^[0-9.]+$|:/.test(location.hostname);
