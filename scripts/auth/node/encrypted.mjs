// Sign-up and log-in by a code that only the enclave can read: the crypto package checks and encrypts with its own functions,
// which are handed this deployment's keys.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { credentials, message, somebodysPhone, someone, whoAmI, world } from "./setting.mjs";

const { otp, session, signer } = credentials.keys;
let w;
before(async () => (w = await world()));
after(() => w?.close());

// begin asks for a code. Only the page has the code's encryption target; the code itself comes to the person.
async function begin(device, otpType, contact, seen) {
  const { otpId, otpEncryptionTargetBundle } = await device.page.evaluate((p) => codes.ask("otp_init_v2", p), { otpType, contact });
  const { id, code } = await message(contact, seen);
  seen.push(id);
  return { otpId, bundle: otpEncryptionTargetBundle, code };
}

// verify makes a key in the page and has a token bound to it, which it checks. The key stays in the page.
const verify = (device, attempt) => device.page.evaluate(async ({ otpId, bundle, code, otp }) => {
  globalThis.bound = await codes.newKey();
  const encryptedOtpBundle = await codes.encryptOtpCodeToBundle(code, bundle, bound.publicKey, otp);
  const { verificationToken } = await codes.ask("otp_verify_v2", { otpId, encryptedOtpBundle });
  const claims = await codes.verifyOtpVerificationToken(verificationToken, otp);
  return { verificationToken, claims, key: bound.publicKey };
}, { otp, ...attempt });

const signUp = (device, { verificationToken, claims }, contact) => device.page.evaluate(async ({ verificationToken, tokenId, fields, signed }) => codes.ask("signup_v2", {
  ...fields, verificationToken, apiKeys: [], authenticators: [], oauthProviders: [],
  clientSignature: await bound.signs({ signupV2: signed, tokenId, type: "USAGE_TYPE_SIGNUP" }),
}), {
  verificationToken, tokenId: claims.id,
  ...(contact.startsWith("+") ? { fields: { userPhoneNumber: contact }, signed: { phoneNumber: contact } } : { fields: { userEmail: contact }, signed: { email: contact } }),
});

// logIn asks for a session of a key that the web client keeps. another is a key to ask for in its place.
const logIn = (device, { verificationToken, claims }, another) => device.page.evaluate(async ({ verificationToken, tokenId, another, notary }) => {
  const publicKey = await client.createApiKeyPair();
  const clientSignature = await bound.signs({ login: { publicKey }, tokenId, type: "USAGE_TYPE_LOGIN" });
  const got = await codes.ask("otp_login_v2", { verificationToken, publicKey: another ?? publicKey, clientSignature });
  if (!(await codes.verifySessionJwtSignature(got.session, notary))) throw new Error("not a session of this deployment");
  await client.storeSession({ sessionToken: got.session, sessionKey: "default" });
  await client.setActiveSession({ sessionKey: "default" });
}, { verificationToken, tokenId: claims.id, another, notary: session });

for (const [otpType, contact] of [["OTP_TYPE_EMAIL", someone()], ["OTP_TYPE_SMS", somebodysPhone()]]) {
  test(`${otpType}: sign-up, then log-in on another device`, async () => {
    const seen = [];
    const device = await w.device();
    const first = await begin(device, otpType, contact, seen);
    const token = await verify(device, first);
    assert.equal(token.claims.publicKey ?? token.claims.public_key, token.key);
    assert.equal(token.claims.contact, contact);
    const made = await signUp(device, token, contact);
    await logIn(device, token);
    const me = await whoAmI(device.page);
    assert.deepEqual([me.organizationId, me.userId], [made.organizationId, made.userId]);
    await assert.rejects(verify(device, first), /Invalid OTP code/, "a used code");
    await device.close();

    const other = await w.device();
    const again = await verify(other, await begin(other, otpType, contact, seen));
    const thief = await other.page.evaluate(async () => (await codes.newKey()).publicKey);
    await assert.rejects(logIn(other, again, thief), /another publicKey/, "a key that the client has not signed");
    await logIn(other, again);
    assert.deepEqual(await whoAmI(other.page), me);
    await other.close();
  });
}

test("without this deployment's keys nothing is believed", async () => {
  const device = await w.device();
  const attempt = await begin(device, "OTP_TYPE_EMAIL", someone(), []);
  for (const key of [undefined, signer]) {
    await assert.rejects(verify(device, { ...attempt, otp: key }));
  }
  const { verificationToken } = await verify(device, attempt);
  for (const key of [undefined, signer]) {
    await assert.rejects(device.page.evaluate(({ token, key }) => codes.verifyOtpVerificationToken(token, key), { token: verificationToken, key }));
  }
  await device.close();
});

test("a code for one passcode is none for another", async () => {
  const device = await w.device();
  const contact = someone(), seen = [];
  const first = await begin(device, "OTP_TYPE_EMAIL", contact, seen);
  const second = await begin(device, "OTP_TYPE_EMAIL", contact, seen);
  await assert.rejects(verify(device, { ...first, otpId: second.otpId }), /Invalid OTP code|otp_verify_v2: 400/);
  await device.close();
});
