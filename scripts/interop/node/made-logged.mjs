// The SDKs, unmodified, over a fetch that asks for the logged proof of every submit: they take the reply as they take any, and
// the same reply, as it came, convinces cloister-verify.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { credentials, settings } from "./setting.mjs";

const plain = globalThis.fetch;
const replies = []; // of submits, with their bodies
const asking = async (url, init) => {
  if (!String(url).includes("/public/v1/submit/")) return plain(url, init);
  const reply = await plain(url, { ...init, headers: { ...init.headers, "X-Cloister-Log-Proof": "wait" } });
  replies.push({ body: init.body, status: reply.status, text: await reply.clone().text() });
  return reply;
};
globalThis.fetch = asking;
createRequire(import.meta.url)("cross-fetch").fetch = asking;
const { Turnkey } = await import("@turnkey/sdk-server");
const { TurnkeyClient } = await import("@turnkey/http");
const { ApiKeyStamper } = await import("@turnkey/api-key-stamper");
const root = new Turnkey(settings()).apiClient();
const older = new TurnkeyClient({ baseUrl: credentials.apiUrl }, new ApiKeyStamper({ apiPublicKey: credentials.rootApiKey.publicKey, apiPrivateKey: credentials.rootApiKey.privateKey }));

async function holds({ body, text }) {
  const { logKey } = JSON.parse(text);
  const boot = await (await plain(`${credentials.apiUrl}/public/v1/discovery/boot_proof/${logKey.publicKey}`)).text();
  const dir = mkdtempSync(join(tmpdir(), "logged-"));
  try {
    const [reply, proof, request] = Object.entries({ reply: text, boot, body }).map(([name, content]) => (writeFileSync(join(dir, name), content), join(dir, name)));
    return execFileSync(process.env.CLOISTER_VERIFY, ["log", "-credentials", process.env.CLOISTER_CREDENTIALS, "-boot-proof", proof, "-log-proof", reply, "-body", request],
      { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  } finally {
    rmSync(dir, { recursive: true });
  }
}

for (const [sdk, make] of Object.entries({
  "sdk-server": async (userTagName) => (await root.createUserTag({ userTagName, userIds: [] })).userTagId,
  http: async (userTagName) => (await older.createUserTag({ type: "ACTIVITY_TYPE_CREATE_USER_TAG", timestampMs: String(Date.now()), organizationId: credentials.organizationId,
    parameters: { userTagName, userIds: [] } })).activity.result.createUserTagResult.userTagId,
})) test(`${sdk} takes a reply with its logged proof, and cloister-verify too`, async () => {
  replies.length = 0;
  const id = await make(`Logged by ${sdk} ${Date.now()}`);
  assert.ok((await root.listUserTags()).userTags.some((t) => t.tagId === id));
  assert.equal(replies.length, 1, "the SDK went another way");
  assert.match(await holds(replies[0]), /^VERIFIED: bounded, first generation$/m);
  const other = JSON.parse(replies[0].text);
  other.activity.id = "00000000-0000-4000-8000-000000000000";
  await assert.rejects(holds({ ...replies[0], text: JSON.stringify(other) }), /REFUSED: the log proof does not fit what the reply tells/);
});

test("a refusal is an error of the SDK's, as ever", async () => {
  await assert.rejects(root.signRawPayload({ signWith: "0x0000000000000000000000000000000000000000", payload: "68656c6c6f", encoding: "PAYLOAD_ENCODING_HEXADECIMAL", hashFunction: "HASH_FUNCTION_SHA256" }),
    (e) => e.name === "TurnkeyRequestError");
});
