// The SDKs, unmodified, over a fetch that insists on signed replies. The server SDK takes the global one, as all do in
// browsers; @turnkey/http takes it from cross-fetch in Node, which is given ours before the SDK is loaded.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { ReplyError, signedFetch } from "./signed-replies.mjs";
import { credentials, settings } from "./setting.mjs";
import { loadVerifier } from "./verify.mjs";

const plain = globalThis.fetch;
let between = plain; // a hand on the way
const asked = [];

// trust believes a live key whose boot proof cloister-verify believes, under measurements and manifest of the credentials file.
async function trust(liveKey) {
  asked.push(liveKey);
  const proof = await (await plain(`${credentials.apiUrl}/public/v1/discovery/boot_proof/${liveKey}`)).text();
  const words = execFileSync(process.env.CLOISTER_VERIFY, ["-credentials", process.env.CLOISTER_CREDENTIALS, "-boot-proof", "-"], { input: proof, encoding: "utf8" });
  assert.match(words, /^VERIFIED: 1 boot proof/m);
  return JSON.parse(proof).bootProof.ephemeralPublicKeyHex === liveKey;
}

const origins = [credentials.apiUrl, credentials.authProxyUrl];
const insisting = signedFetch({ origins, trust, fetch: (...args) => between(...args) });
globalThis.fetch = insisting;
createRequire(import.meta.url)("cross-fetch").fetch = insisting;
const { Turnkey } = await import("@turnkey/sdk-server");
const { TurnkeyClient } = await import("@turnkey/http");
const { ApiKeyStamper } = await import("@turnkey/api-key-stamper");
const root = new Turnkey(settings()).apiClient();
const older = new TurnkeyClient({ baseUrl: credentials.apiUrl }, new ApiKeyStamper({ apiPublicKey: credentials.rootApiKey.publicKey, apiPrivateKey: credentials.rootApiKey.privateKey }));
const whoami = {
  "sdk-server": () => root.getWhoami(),
  http: () => older.getWhoami({ organizationId: credentials.organizationId }),
};

test("submits, queries and refusals come signed", async () => {
  let seen = 0;
  between = async (...args) => {
    const reply = await plain(...args);
    assert.match(reply.headers.get("x-cloister-reply-signature"), /^[0-9a-f]{128}$/);
    seen++;
    return reply;
  };
  assert.equal((await root.getWhoami()).userId, credentials.rootUserId);
  const { userTagId } = await root.createUserTag({ userTagName: `Signed ${Date.now()}`, userIds: [] });
  assert.ok((await root.listUserTags()).userTags.some((t) => t.tagId === userTagId));
  await assert.rejects(root.getWallet({ walletId: "00000000-0000-4000-8000-000000000000" }), (e) => e.name === "TurnkeyRequestError");
  assert.equal(seen, 4, "the SDK went another way");
  assert.equal((await whoami.http()).userId, credentials.rootUserId);
  assert.equal(seen, 5, "the SDK went another way");
  assert.equal(asked.length, 1);
});

for (const [sdk, ask] of Object.entries(whoami)) test(`what a host makes of a reply ${sdk} never sees`, async () => {
  const altered = (change) => async (...args) => {
    const reply = await plain(...args);
    const { status = reply.status, headers = reply.headers, body = await reply.text() } = await change(reply);
    return new Response(body, { status, headers });
  };
  const without = (headers) => { const h = new Headers(headers); h.delete("x-cloister-reply-signature"); return h; };
  const whole = (e, code) => { for (let at = e; at; at = at.cause) if (at instanceof ReplyError) return at.code === code; return false; };
  let old;
  for (const [what, code, way] of [
    ["altered", "FORGED", altered(async (r) => ({ body: (await r.text()).replace(credentials.rootUserId, "00000000-0000-4000-8000-000000000000") }))],
    ["kept", null, altered(async (r) => { old = { status: r.status, headers: new Headers(r.headers), body: await r.text() }; return old; })],
    ["old", "FORGED", altered(async () => old)],
    ["unsigned", "UNSIGNED", altered(async (r) => ({ headers: without(r.headers) }))],
    ["another path", "FORGED", (url, init) => plain(url.replace("whoami", "list_users"), init)],
  ]) {
    between = way;
    if (code) await assert.rejects(ask(), (e) => whole(e, code), what);
    else await ask();
  }
});

test("the verifier in WebAssembly says whom to trust", async () => {
  const verify = await loadVerifier(pathToFileURL(`${process.env.CLOISTER_VERIFIER}/`));
  assert.throws(() => verify({ texts: ["{}"], body: undefined }), TypeError);
  const judge = (pcrs, manifest = credentials.manifestSha256) => async (liveKey) => {
    const proof = await (await plain(`${credentials.apiUrl}/public/v1/discovery/boot_proof/${liveKey}`)).text();
    const report = verify({ texts: [proof], expected: JSON.stringify(pcrs), manifest, simulatorRoot: credentials.attestationRootPem, nowMs: Date.now() });
    return report.verified && report.facts.some((f) => f.name === "Live key" && f.value === liveKey);
  };
  const ask = (...pins) => signedFetch({ origins, trust: judge(...pins), fetch: plain })(`${credentials.apiUrl}/public/v1/query/whoami`, { method: "POST", body: "{}" });
  assert.equal((await ask(credentials.pcrs)).status, 401); // nobody stamped it, and that is what the enclave says
  for (const pins of [[{ ...credentials.pcrs, 1: "ab".repeat(48) }], [credentials.pcrs, "ab".repeat(32)], [credentials.pcrs, ""]]) // the last: anybody's deployment of the image
    await assert.rejects(ask(...pins), (e) => e instanceof ReplyError && e.code === "UNTRUSTED");
});
