// Secrets by whoever has signed up: in and out in the page. The kit has no screens for them; its client has the calls but for
// init_import_secrets, which goes by what it sends all others with.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { credentials, world } from "./setting.mjs";

let w;

before(async () => {
  w = await world({ page: "kit" });
});
after(() => w?.close());

async function signedUp() {
  const device = await w.device();
  await device.page.waitForFunction(() => globalThis.kit?.clientState === "ready");
  await device.page.evaluate(() => kit.signUpWithPasskey({ passkeyDisplayName: "secrets" }));
  await device.page.waitForFunction(() => kit.authState === "authenticated");
  return device;
}

const encryptionSuite = "TRANSPORT_ENCRYPTION_SUITE_ENCLAVE_ENCRYPT_V1";

test("a secret comes in and goes out to a key of the page, and to nobody else's organization", async () => {
  const [one, other] = [await signedUp(), await signedUp()];
  const dangerouslyOverrideSignerPublicKey = credentials.keys.signer;
  const imported = await one.page.evaluate(async ([encryptionSuite, dangerouslyOverrideSignerPublicKey]) => {
    const { organizationId } = await kit.getSession();
    const { enclaveTargetMessages } = await kit.httpClient.activity("/public/v1/submit/init_import_secrets", {
      type: "ACTIVITY_TYPE_INIT_IMPORT_SECRETS", timestampMs: String(Date.now()), organizationId, parameters: { encryptionSuite, numSecrets: 1 },
    }, "initImportSecretsResult");
    const secret = await bundles.encryptSecretToBundle({ plaintext: "s3cret \u2713", ingressTargetBundle: enclaveTargetMessages[0], organizationId, dangerouslyOverrideSignerPublicKey });
    return kit.httpClient.importSecrets({ secrets: [{ ...secret, encryptionSuite, name: "first", staticProperties: [{ key: "env", value: "prod" }] }] });
  }, [encryptionSuite, dangerouslyOverrideSignerPublicKey]);
  const [secretId] = imported.secretIds;
  const { secrets } = await one.page.evaluate(() => kit.httpClient.listSecrets({}));
  assert.deepEqual(secrets.map(({ createdAtUnixMs, ...s }) => s), [{ secretId, name: "first", staticProperties: [{ key: "env", value: "prod" }] }]);

  const exported = ({ page }) => page.evaluate(async ([encryptionSuite, dangerouslyOverrideSignerPublicKey, secretId]) => {
    const { organizationId } = await kit.getSession();
    const pair = bundles.generateP256KeyPair();
    const { secretPayloads } = await kit.httpClient.exportSecrets({ secrets: [{ secretId, targetPublicKey: pair.publicKeyUncompressed, encryptionSuite }] });
    return bundles.decryptSecretBundle({ secretPayload: secretPayloads[0], embeddedPrivateKey: pair.privateKey, organizationId, dangerouslyOverrideSignerPublicKey });
  }, [encryptionSuite, dangerouslyOverrideSignerPublicKey, secretId]);
  assert.equal(await exported(one), "s3cret ✓");
  await assert.rejects(exported(other), /secret not found/i);
  assert.deepEqual((await other.page.evaluate(() => kit.httpClient.listSecrets({}))).secrets, []);
  await Promise.all([one.close(), other.close()]);
});
