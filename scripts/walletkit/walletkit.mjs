// pin-keys.mjs on real, unmodified packages against the simulator: what their users see before and after. Started by
// test.sh, which says where everything is.
import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const { CLOISTER_BIN: bin, CLOISTER_MODULES: modules } = process.env;
const work = mkdtempSync(join(tmpdir(), "walletkit-"));
const project = join(work, "project");
const data = join(work, "data");
const tool = join(here, "pin-keys.mjs");
let simulator, keysFile;

const freePort = () =>
  new Promise((done) => {
    const s = createServer().listen(0, "127.0.0.1", () => {
      const { port } = s.address();
      s.close(() => done(port));
    });
  });

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// The packages are linked, as pnpm links them: the tool must not write through to the store.
function install(to) {
  mkdirSync(to);
  const [from, into] = [join(modules, "node_modules"), join(to, "node_modules")];
  if (spawnSync("cp", ["-al", from, into]).status === 0) return;
  rmSync(into, { recursive: true, force: true }); // on another file system
  execFileSync("cp", ["-a", from, into]);
}

const copies = ["node_modules/@turnkey/crypto", "node_modules/@turnkey/sdk-server/node_modules/@turnkey/crypto",
  "node_modules/@turnkey/wallet-stamper/node_modules/@turnkey/crypto", "node_modules/sdk-server-spec/node_modules/@turnkey/crypto"];
const constantsOf = (root) => Object.fromEntries(copies.flatMap((copy) => ["js", "mjs", "d.ts"].map((end) => {
  const path = join(copy, "dist", `constants.${end}`);
  return [path, readFileSync(join(root, path), "utf8")];
})));

const pin = (...args) => spawnSync(process.execPath, [tool, ...args], { encoding: "utf8" });
const flow = (run) => JSON.parse(execFileSync(process.execPath, ["flow.mjs", run], {
  cwd: project, encoding: "utf8", env: { ...process.env, CLOISTER_CREDENTIALS: join(data, "credentials.json") },
}));

before(async () => {
  const [api, proxy] = [await freePort(), await freePort()];
  simulator = spawn(join(bin, "cloister-sim"), [], {
    stdio: "ignore",
    env: { ...process.env, CLOISTER_DATA_DIR: data, CLOISTER_STORE: "", CLOISTER_API_ADDR: `127.0.0.1:${api}`, CLOISTER_AUTH_PROXY_ADDR: `127.0.0.1:${proxy}` },
  });
  for (let i = 0; ; i++) {
    assert.ok(i < 600 && simulator.exitCode === null, "the simulator did not come up");
    if (existsSync(join(data, "credentials.json")) && (await fetch(`http://127.0.0.1:${api}/readyz`).catch(() => ({}))).status === 200) break;
    await sleep(100);
  }
  // As the README tells it: the document, checked, then the file that is pinned.
  const answer = await fetch(`http://127.0.0.1:${api}/public/v1/discovery/keys`);
  assert.equal(answer.status, 200);
  assert.match(answer.headers.get("cache-control"), /max-age=\d+/);
  writeFileSync(join(work, "document.json"), await answer.text());
  keysFile = join(work, "keys.json");
  writeFileSync(keysFile, execFileSync(join(bin, "cloister-verify"), ["keys", "-json", "-document", join(work, "document.json"), "-credentials", join(data, "credentials.json")]));
  install(project);
  cpSync(join(here, "flow.mjs"), join(project, "flow.mjs"));
  writeFileSync(join(project, "package.json"), `{"private":true,"type":"module"}`);
});

after(async () => {
  if (simulator?.exitCode === null) {
    const ended = new Promise((done) => simulator.once("exit", done));
    simulator.kill("SIGTERM");
    await Promise.race([ended, sleep(10_000)]);
    simulator.kill("SIGKILL");
  }
  rmSync(work, { recursive: true, force: true });
});

test("packages as published refuse this server", () => {
  const results = flow("before");
  for (const [step, result] of Object.entries(results)) {
    assert.match(result, step.startsWith("a proof") ? /root|issuer|chain|certificate/i : /expected signer key .* does not match signer key from bundle/, step);
  }
  assert.equal(Object.keys(results).length, 6);
});

test("pinned packages accept it, in every nested copy", async () => {
  const published = constantsOf(project);
  const first = pin("--keys", keysFile, project);
  assert.equal(first.status, 0, first.stderr);
  assert.equal(first.stdout.match(/^pinned: /gm).length, copies.length);
  for (const [step, result] of Object.entries(flow("after"))) assert.equal(result, "ok", step);
  const { keys, attestationRootPem, attestationRootSha256 } = JSON.parse(readFileSync(keysFile, "utf8"));
  for (const copy of copies) {
    const crypto = await import(pathToFileURL(join(project, copy, "dist/constants.mjs")));
    assert.equal(crypto.PRODUCTION_SIGNER_SIGN_PUBLIC_KEY, keys.signer);
    assert.equal(crypto.PRODUCTION_NOTARIZER_SIGN_PUBLIC_KEY, keys.session);
    assert.equal(crypto.PRODUCTION_TLS_FETCHER_ENCRYPT_PUBLIC_KEY, keys.fetcherEncrypt);
    assert.equal(crypto.PRODUCTION_ON_RAMP_CREDENTIALS_ENCRYPTION_PUBLIC_KEY, keys.onRamp);
    assert.ok([undefined, keys.otp].includes(crypto.PRODUCTION_TLS_FETCHER_SIGN_PUBLIC_KEY));
    assert.deepEqual([crypto.AWS_ROOT_CERT_PEM, crypto.AWS_ROOT_CERT_SHA256], [attestationRootPem, attestationRootSha256]);
  }
  const pinned = constantsOf(project);
  assert.equal(pin("--keys", keysFile, project).status, 0);
  assert.deepEqual(constantsOf(project), pinned, "once is enough");
  assert.equal(pin("--check", "--keys", keysFile, project).status, 0);
  assert.deepEqual(constantsOf(modules), published, "the store that the packages are linked from is untouched");

  // Other keys replace these; --restore puts back what was published, to the byte.
  const others = { ...JSON.parse(readFileSync(keysFile, "utf8")) };
  [others.keys.session, others.keys.otp] = [others.keys.otp, others.keys.session];
  writeFileSync(join(work, "others.json"), JSON.stringify(others));
  assert.equal(pin("--check", "--keys", join(work, "others.json"), project).status, 1);
  assert.equal(pin("--keys", join(work, "others.json"), project).status, 0);
  assert.notDeepEqual(constantsOf(project), pinned);
  assert.equal(pin("--restore", project).status, 0);
  assert.deepEqual(constantsOf(project), published);
  assert.equal(pin("--restore", project).status, 0);
  assert.equal(pin("--check", "--keys", keysFile, project).status, 1);
});

test("what is not known or not whole is refused, and nothing is written", () => {
  const other = join(work, "other");
  install(other);
  const published = constantsOf(other);
  const target = join(other, copies[2], "dist/constants.mjs");
  const change = (path, text) => {
    const was = readFileSync(path, "utf8");
    rmSync(path); // it is linked
    writeFileSync(path, text(was));
    return () => {
      rmSync(path);
      writeFileSync(path, was);
    };
  };
  const cases = {
    "a file that somebody changed": [target, (s) => s.replace("const AES_KEY_INFO", "const OTHER_INFO"), /not as it was published/],
    "a version whose files are another's": [join(other, copies[2], "package.json"), (s) => s.replace(/"version": "[^"]*"/, '"version": "2.7.0"'), /not as it was published/],
    "another key compiled in": [target, (s) => s.replace("04cf288f", "04cf288e"), /not as it was published/],
    "a constant twice": [target, (s) => s + '\nconst PRODUCTION_SIGNER_SIGN_PUBLIC_KEY = "04";', /not as it was published/],
    "a mark that is made up": [target, (s) => s + "\n// rewritten by Cloister's pin-keys.mjs, which restores it; before: {}\n", null],
    "keys in another file": [join(other, copies[2], "dist/turnkey.js"), (s) => s + "// 04cf288fe433cc4e1aa0ce1632feac4ea26bf2f5a09dcfe5a42c398e06898710330f0572882f4dbdf0f5304b8fc8703acd69adca9a4bbf7f5d00d20a5e364b2569", /holds the signer's key in/],
  };
  for (const [name, [path, text, says]] of Object.entries(cases)) {
    const undo = change(path, text);
    const before = constantsOf(other);
    const { status, stderr } = pin("--keys", keysFile, other);
    if (says) {
      assert.equal(status, 1, name);
      assert.match(stderr, says, name);
      assert.deepEqual(constantsOf(other), before, name);
    } else {
      assert.equal(status, 0, `${name}: ${stderr}`); // what it stands on is as published
      assert.equal(pin("--restore", other).status, 0);
    }
    undo();
    assert.deepEqual(constantsOf(other), published, name);
  }
  rmSync(join(other, copies[1], "dist/constants.mjs"));
  assert.match(pin("--keys", keysFile, other).stderr, /has no dist\/constants.mjs/);

  // Copies of a version that is not in the table: a tree with one is pinned but for it.
  const old = join(work, "old");
  install(old);
  const version = join(old, copies[3], "package.json");
  change(version, (s) => s.replace(/"version": "[^"]*"/, '"version": "2.6.0"'));
  const untouched = constantsOf(old);
  const done = pin("--keys", keysFile, old);
  assert.equal(done.status, 0, done.stderr);
  assert.equal(done.stderr, `left as it is, a version that this tool does not know: 2.6.0 ${join(old, copies[3])}\n`);
  assert.equal(done.stdout.match(/^pinned: /gm).length, copies.length - 1);
  for (const [path, text] of Object.entries(constantsOf(old))) assert.equal(text === untouched[path], path.startsWith(copies[3]), path);
  assert.equal(pin("--check", "--keys", keysFile, old).status, 1);
  assert.equal(pin("--check", "--keys", keysFile, "--leave", "2.5.0", old).status, 1);
  assert.equal(pin("--check", "--keys", keysFile, "--leave", "2.6.0", old).status, 0);
  assert.equal(pin("--restore", old).status, 0);
  assert.deepEqual(constantsOf(old), untouched);
  assert.match(pin("--keys", keysFile, join(old, copies[3], "..", "..", "..")).stderr, /no installed copy of @turnkey\/crypto is of a version/);

  const good = JSON.parse(readFileSync(keysFile, "utf8"));
  const fresh = join(work, "fresh");
  install(fresh);
  const bad = {
    "no JSON": "x", "no keys": "{}", "null": "null",
    "upper case": { ...good, keys: { ...good.keys, signer: good.keys.signer.toUpperCase() } },
    "compressed signer": { ...good, keys: { ...good.keys, signer: good.keys.onRamp } },
    "pair of 130 bytes": { ...good, keys: { ...good.keys, signer: good.keys.signerPair } },
    "off the curve": { ...good, keys: { ...good.keys, otp: "04" + "11".repeat(64) } },
    "one key twice": { ...good, keys: { ...good.keys, otp: good.keys.signer } },
    "no session key": { ...good, keys: { ...good.keys, session: undefined } },
    "code for a key": { ...good, keys: { ...good.keys, session: `";process.exit();"` } },
    "no root": { ...good, attestationRootPem: undefined }, "code for a root": { ...good, attestationRootPem: "`+process.exit()+`" },
    "root of another hash": { ...good, attestationRootSha256: "00".repeat(32) },
  };
  for (const [name, keys] of Object.entries(bad)) {
    const file = join(work, "bad.json");
    writeFileSync(file, typeof keys === "string" ? keys : JSON.stringify(keys));
    assert.equal(pin("--keys", file, fresh).status, 1, name);
  }
  assert.deepEqual(constantsOf(fresh), published);
  const empty = join(work, "empty");
  mkdirSync(empty);
  symlinkSync(join(fresh, "node_modules"), join(empty, "node_modules")); // somebody else's
  assert.equal(pin("--keys", keysFile, empty).status, 1);
  assert.equal(pin("--keys", keysFile, join(work, "nowhere")).status, 1);
  for (const args of [[], ["--restore", "--keys", keysFile], ["--restore", "--check"], ["--unknown"], ["--keys", keysFile, "--leave", "2.6.0"]]) assert.equal(pin(...args).status, 2, args.join(" "));
  assert.ok(!readdirSync(join(fresh, copies[0], "dist")).some((name) => name.includes("cloister")), "no temporary file is left");
});
