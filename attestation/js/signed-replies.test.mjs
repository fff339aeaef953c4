// node --test attestation/js/
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { ReplyError, hashCredentials, replyText, route, signedFetch, verifyReply } from "./signed-replies.mjs";

const vectors = JSON.parse(readFileSync(new URL("../testdata/signed_reply.json", import.meta.url)));
const digest = async (text) => Buffer.from(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))).toString("hex");

async function statement(v) {
  const to = route(v.method, v.path);
  const given = Object.fromEntries(Object.entries(v.credentials ?? {}).map(([name, value]) => [name.toLowerCase(), value]));
  return { ...to, nonce: v.nonce, status: v.status, credentials: await hashCredentials(to.door, (name) => given[name]), request: await digest(v.request),
    reply: await digest(v.reply), deployment: v.headers["X-Cloister-Deployment"], liveKey: v.headers["X-Cloister-Live-Key"], time: v.headers["X-Cloister-Reply-Time"] };
}

test("the stored replies are read as Go reads them, and nothing beside them", async () => {
  assert.equal(vectors.length, 3);
  for (const v of vectors) {
    const s = await statement(v), signature = v.headers["X-Cloister-Reply-Signature"];
    assert.equal(replyText(s), v.text);
    assert.equal(await verifyReply(s, signature), true);
    for (const name of Object.keys(s)) {
      assert.equal(await verifyReply({ ...s, [name]: typeof s[name] === "number" ? s[name] + 1 : `${s[name]}1` }, signature), false, name);
    }
    for (let i = 0; i < signature.length; i += 7) {
      const flipped = signature.slice(0, i) + (signature[i] === "0" ? "1" : "0") + signature.slice(i + 1);
      assert.equal(await verifyReply(s, flipped), false, `digit ${i}`);
    }
    for (const bad of ["", signature.toUpperCase(), signature.slice(2), `${signature}00`, "0".repeat(128)]) assert.equal(await verifyReply(s, bad), false);
    assert.equal(await verifyReply({ ...s, liveKey: `${"04"}${"11".repeat(64)}`.repeat(2) }, signature), false, "off the curve");
  }
});

test("routes", () => {
  assert.deepEqual(route("POST", "/public/v1/submit/create_wallet"), { door: "submit", operation: "create_wallet" });
  assert.deepEqual(route("POST", "/v1/signup"), { door: "proxy", operation: "signup" });
  for (const [method, path] of [["GET", "/public/v1/query/whoami"], ["HEAD", "/public/v1/discovery/keys"], ["POST", "/public/v1/query/"], ["POST", "/public/v1/query/a/b"], ["POST", "/public/v1/query/A"], ["POST", "//v1/x"], ["GET", "/"]])
    assert.equal(route(method, path), null, path);
});

// A host with a live key of its own, and what it does to its replies.
let server, base, keys, liveKey, alter = (reply) => reply, last;
const sent = [];
before(async () => {
  keys = await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, ["sign"]);
  const raw = Buffer.from(await crypto.subtle.exportKey("raw", keys.publicKey)).toString("hex");
  liveKey = raw + raw;
  server = createServer(async (req, res) => {
    const parts = [];
    for await (const part of req) parts.push(part);
    const request = Buffer.concat(parts).toString();
    sent.push({ url: req.url, headers: req.headers, request });
    const to = route(req.method, req.url) ?? { door: "query", operation: "none" };
    const body = JSON.stringify({ echo: request });
    const s = { ...to, nonce: req.headers["x-cloister-sign-reply"] ?? "", status: 200, credentials: await hashCredentials(to.door, (name) => req.headers[name]),
      request: await digest(request), reply: await digest(body), deployment: "ab".repeat(32), liveKey, time: String(Date.now()) };
    const signature = await crypto.subtle.sign({ name: "ECDSA", hash: "SHA-256" }, keys.privateKey, new TextEncoder().encode(replyText(s)));
    const reply = { status: 200, body, headers: { "X-Cloister-Reply-Signature": Buffer.from(signature).toString("hex"), "X-Cloister-Reply-Time": s.time, "X-Cloister-Live-Key": liveKey, "X-Cloister-Deployment": s.deployment } };
    const out = alter(structuredClone(reply));
    last = reply;
    res.writeHead(out.status, out.headers).end(out.body);
  });
  await new Promise((up) => server.listen(0, "127.0.0.1", up));
  base = `http://127.0.0.1:${server.address().port}`;
});
after(() => server.close());

const ask = (fetch, path = "/public/v1/query/whoami", body = "{}") => fetch(base + path, { method: "POST", headers: { "X-Stamp": "stamp", "Content-Type": "application/json" }, body });
const refused = (promise, code) => assert.rejects(promise, (e) => e instanceof ReplyError && e.code === code);

test("an honest host", async () => {
  const asked = [];
  const fetch = signedFetch({ origins: [`${base}/`], trust: async (key) => { asked.push(key); return key === liveKey; } });
  for (const body of ["{}", `{"ä":"→"}`]) {
    const reply = await ask(fetch, "/public/v1/submit/x", body);
    assert.equal(reply.status, 200);
    assert.equal(reply.url, `${base}/public/v1/submit/x`);
    assert.deepEqual(await reply.json(), { echo: body });
  }
  assert.deepEqual(asked, [liveKey]);
  assert.equal((await fetch(new Request(`${base}/v1/signup`, { method: "POST", body: "x", headers: { "X-Auth-Proxy-Config-ID": "c" } }))).status, 200);
  assert.equal((await fetch(`${base}/public/v1/discovery/keys`)).status, 200);
  const nonces = sent.map((r) => r.headers["x-cloister-sign-reply"]);
  assert.equal(new Set(nonces).size, nonces.length);
});

test("whatever a host makes of a reply is refused", async () => {
  const fetch = () => signedFetch({ origins: [base], trust: liveKey });
  await ask(fetch());
  const old = last;
  await ask(fetch(), "/public/v1/query/other");
  const other = last;
  const names = Object.keys(old.headers);
  const drop = (name) => (r) => { delete r.headers[name]; return r; };
  for (const [what, change, code] of [
    ["body altered", (r) => ({ ...r, body: r.body.replace("echo", "ecHo") }), "FORGED"],
    ["body cut", (r) => ({ ...r, body: r.body.slice(1) }), "FORGED"],
    ["body gone", (r) => ({ ...r, body: "" }), "FORGED"],
    ["status altered", (r) => ({ ...r, status: 201 }), "FORGED"],
    ["old reply", () => old, "FORGED"],
    ["another request's", () => other, "FORGED"],
    ["unsigned", drop(names[0]), "UNSIGNED"],
    ["bare 503", () => ({ status: 503, headers: {}, body: "{}" }), "UNSIGNED"],
    ...names.slice(1).map((name) => [`without ${name}`, drop(name), "FORGED"]),
    ["another deployment", (r) => ({ ...r, headers: { ...r.headers, "X-Cloister-Deployment": "cd".repeat(32) } }), "FORGED"],
    ["another time", (r) => ({ ...r, headers: { ...r.headers, "X-Cloister-Reply-Time": "1" } }), "FORGED"],
    ["another live key", (r) => ({ ...r, headers: { ...r.headers, "X-Cloister-Live-Key": vectors[0].headers["X-Cloister-Live-Key"] } }), "FORGED"],
  ]) {
    alter = change;
    await assert.rejects(ask(fetch()), (e) => e instanceof ReplyError && e.code === code, what);
  }
  alter = () => ({ status: 302, headers: { Location: "/public/v1/query/other" }, body: "" });
  await assert.rejects(ask(fetch()), "a redirect");
  alter = (r) => r;
  assert.equal((await ask(fetch())).status, 200);
});

test("keys, deployments and requests that are not trusted", async () => {
  for (const trust of [vectors[0].headers["X-Cloister-Live-Key"], async () => false, async () => "yes", async () => undefined]) await refused(ask(signedFetch({ origins: [base], trust })), "UNTRUSTED");
  await assert.rejects(ask(signedFetch({ origins: [base], trust: async () => { throw new Error("no proof"); } })), /no proof/);
  await refused(ask(signedFetch({ origins: [base], trust: liveKey, deployment: "cd".repeat(32) })), "UNTRUSTED");
  assert.equal((await ask(signedFetch({ origins: [base], trust: [liveKey], deployment: "ab".repeat(32) }))).status, 200);
  const count = sent.length;
  for (const path of ["/healthz", "/public/v1/query/A", "/"]) await refused(ask(signedFetch({ origins: [base], trust: liveKey }), path), "UNSUPPORTED");
  assert.equal(sent.length, count, "they were sent");
  for (const bad of [{ origins: [], trust: liveKey }, { origins: [base], trust: "04" }, { origins: [base] }, { origins: [base], trust: liveKey, deployment: "x" },
    { origins: [base], trust: liveKey, deploymnet: "ab".repeat(32) }, { origins: [base], trust: liveKey, deployment: undefined }]) assert.throws(() => signedFetch(bad), TypeError);
});

test("other origins are left alone", async () => {
  const fetch = signedFetch({ origins: ["https://api.example.com"], trust: liveKey });
  alter = (r) => ({ ...r, headers: {}, status: 404 });
  const reply = await ask(fetch, "/anything");
  assert.equal(reply.status, 404);
  assert.equal(sent.at(-1).headers["x-cloister-sign-reply"], undefined);
  alter = (r) => r;
});
