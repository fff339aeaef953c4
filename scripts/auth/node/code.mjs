// Sign-up and log-in by a code in a mail and in a text message, read from the inbox.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { message, somebodysPhone, someone, whoAmI, world } from "./setting.mjs";

let w;
before(async () => (w = await world()));
after(() => w?.close());

const askFor = (page, otpType, contact) => page.evaluate((p) => client.initOtp(p), { otpType, contact });
const complete = (page, p) => page.evaluate((p) => client.completeOtp(p), p);

// A code that is wrong in its last character only.
const wrong = (code) => code.slice(0, -1) + (code.endsWith("7") ? "8" : "7");

for (const [otpType, contact] of [["OTP_TYPE_EMAIL", someone()], ["OTP_TYPE_SMS", somebodysPhone()]]) {
  test(`${otpType}: sign-up, then log-in on another device`, async () => {
    const device = await w.device();
    const otpId = await askFor(device.page, otpType, contact);
    const first = await message(contact);
    await assert.rejects(complete(device.page, { otpId, otpCode: wrong(first.code), contact, otpType }), "a wrong code");
    const signedUp = await complete(device.page, { otpId, otpCode: first.code, contact, otpType });
    assert.equal(signedUp.action, "SIGNUP");
    const me = await whoAmI(device.page);
    await assert.rejects(complete(device.page, { otpId, otpCode: first.code, contact, otpType }), "a used code");
    await device.close();

    const other = await w.device();
    const again = await askFor(other.page, otpType, contact);
    const second = await message(contact, [first.id]);
    const loggedIn = await complete(other.page, { otpId: again, otpCode: second.code, contact, otpType });
    assert.equal(loggedIn.action, "LOGIN");
    assert.deepEqual(await whoAmI(other.page), me);
    await other.close();
  });
}
