// After the kill: secrets are there and go out the same; a target that was left over has expired.
import assert from "node:assert/strict";
import { test } from "node:test";
import { decryptSecretBundle, generateP256KeyPair } from "@turnkey/crypto";
import { Turnkey } from "@turnkey/sdk-server";
import { credentials, recall, refused, settings } from "./setting.mjs";

const root = new Turnkey(settings()).apiClient();
const { organizationId } = credentials;
const encryptionSuite = "TRANSPORT_ENCRYPTION_SUITE_ENCLAVE_ENCRYPT_V1";
const state = recall("secrets");

test("secrets go out again", async () => {
  for (const { secretId, text } of state.secrets) {
    const pair = generateP256KeyPair();
    const { secretPayloads: [secretPayload] } = await root.exportSecrets({ secrets: [{ secretId, targetPublicKey: pair.publicKeyUncompressed, encryptionSuite }] });
    assert.equal(await decryptSecretBundle({ secretPayload, embeddedPrivateKey: pair.privateKey, organizationId, dangerouslyOverrideSignerPublicKey: credentials.keys.signer }), text);
  }
});

test("a target of the run before has expired", async () => {
  await refused(3, "not an import target of this organization that is still good", () => root.importSecrets({ secrets: [state.leftOver] }));
});
