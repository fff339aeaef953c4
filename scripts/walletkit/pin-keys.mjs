#!/usr/bin/env node
// Makes installed copies of @turnkey/crypto believe the keys of one Cloister deployment instead of those compiled in: usage below.
//
// keys.json is what `cloister-verify keys -json` writes, or a simulator's credentials.json. It is the client's only defence
// against a host that lies while a key is imported: take it from cloister-verify, never from a server unverified.
//
// A copy of a version that is not known here is left as it is, and named: it refuses what Cloister signs. If one copy of a
// known version is not as it was published, nothing is written at all. Exit status 0 done, 1 refused, 2 called wrongly. Needs
// Node 18 and nothing else.
import { createHash, ECDH } from "node:crypto";
import { existsSync, lstatSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";

const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

// dist/constants.js, .mjs and .d.ts as they were published. A version that is not here is added when its three files have
// been read.
const published = [
  { versions: ["2.7.0"], files: ["d404a2f000d6cf2b401988c7cc14a9680f8374eef7b1cf14a4b593d5f53e2e2b",
    "3bff2309e24b9e9494537853b9d497e8e03351fcb1bcb9c88dad0ed3e840c63d", "0d144b6e00f8614b613d9b7309f54542b19f72965ad61044c0735482bfae2035"] },
  { versions: ["2.8.11", "2.8.13", "2.8.14"], files: ["8319e05ae00043ed8b0ded02f0747a4a25ae359e950f69247a803d991132bb59",
    "b343e240fd67e28b5cb0805a9973aaec5d78331c6c3813e459799e353c76ddd0", "7cf8a38771d1f868c8fed69dd53ccf12b36f6126ff941c5ba92aad97ecabcfb6"] },
  { versions: ["2.9.0", "2.10.1", "2.11.2", "2.11.3", "2.12.0", "2.12.1", "2.13.0", "2.13.2"], files: ["ae017f9dedcaf77c8d04e293778c5a54a4c61ecc29155d13cf39fe915b50d30c",
    "2ec4f7098dbf55de0c70715500ea2e5b25e445552b5e2174d6f167e3316a751c", "ff01fdd9d49a2b9dc7f9be0344f2bd65c063e0bdee4f8c03d479e318149c09a2"] },
];
const files = ["dist/constants.js", "dist/constants.mjs", "dist/constants.d.ts"];

const awsRoot = "641A0321A3E244EFE456463195D606317ED7CDCC3C1756E09893F3C68F79BB5B";

// The constants by the members of keys.json. Older versions lack the last, and the root.
const constants = {
  PRODUCTION_SIGNER_SIGN_PUBLIC_KEY: "signer",
  PRODUCTION_NOTARIZER_SIGN_PUBLIC_KEY: "session",
  PRODUCTION_TLS_FETCHER_ENCRYPT_PUBLIC_KEY: "fetcherEncrypt",
  PRODUCTION_ON_RAMP_CREDENTIALS_ENCRYPTION_PUBLIC_KEY: "onRamp",
  PRODUCTION_TLS_FETCHER_SIGN_PUBLIC_KEY: "otp",
};
const optional = ["PRODUCTION_TLS_FETCHER_SIGN_PUBLIC_KEY", "AWS_ROOT_CERT_PEM", "AWS_ROOT_CERT_SHA256"];

const usage = `Makes installed copies of @turnkey/crypto believe the keys of your Cloister deployment instead of those compiled in.

usage:
  pin-keys.mjs --keys FILE [DIR ...]                             rewrite every copy below the DIRs (default: here)
  pin-keys.mjs --check --keys FILE [--leave VERSION] [DIR ...]   fail unless every copy has these keys, except of VERSION
  pin-keys.mjs --restore [DIR ...]                               put back what was published

FILE is what "cloister-verify keys -json" wrote, or the simulator's credentials.json.
Exit status: 0 done, 1 refused, 2 called wrongly.
`;

class Refused extends Error {}

// A key in the text that clients compare: lower-case hex of a point that is on the curve.
function point(name, text, bytes) {
  const form = bytes === 65 ? /^04[0-9a-f]{128}$/ : /^0[23][0-9a-f]{64}$/;
  if (typeof text !== "string" || !form.test(text)) throw new Refused(`keys: ${name} is not ${bytes} bytes of lower-case hex`);
  try {
    ECDH.convertKey(text, "prime256v1", "hex", "hex", "compressed");
  } catch {
    throw new Refused(`keys: ${name} is not a point of P-256`);
  }
  return text;
}

// What each constant is to hold. The root is pinned where it is not the one that is compiled in: under a simulator.
function wanted(path) {
  let given;
  try {
    given = JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    throw new Refused(`${path}: ${error.message}`);
  }
  const keys = given?.keys;
  if (typeof keys !== "object" || keys === null) throw new Refused(`${path}: holds no keys; is it what cloister-verify keys -json wrote?`);
  const want = new Map();
  for (const [constant, member] of Object.entries(constants)) {
    want.set(constant, point(member, keys[member], member === "onRamp" ? 33 : 65));
  }
  if (new Set(want.values()).size !== want.size) throw new Refused(`${path}: one key in two roles`);
  const pem = given.attestationRootPem?.trim();
  const body = /^-----BEGIN CERTIFICATE-----\n([A-Za-z0-9+/=\n]+)\n-----END CERTIFICATE-----$/.exec(pem ?? "");
  if (!body) throw new Refused(`${path}: attestationRootPem is missing or not one certificate`);
  const root = sha256(Buffer.from(body[1], "base64")).toUpperCase();
  if (given.attestationRootSha256 !== undefined && given.attestationRootSha256 !== root) throw new Refused(`${path}: attestationRootSha256 is of another certificate`);
  if (root !== awsRoot) want.set("AWS_ROOT_CERT_PEM", pem).set("AWS_ROOT_CERT_SHA256", root);
  return want;
}

// Every installed copy below a folder, nested ones too. Links are not followed: what they point to is installed elsewhere
// below (a store of pnpm), or is somebody else's.
function copies(dir, found = []) {
  let entries;
  try {
    entries = readdirSync(dir, { withFileTypes: true });
  } catch (error) {
    throw new Refused(`${dir}: ${error.message}`);
  }
  for (const entry of entries) {
    if (!entry.isDirectory() || entry.name === ".git") continue;
    const path = join(dir, entry.name);
    if (entry.name === "crypto" && dir.endsWith(join("node_modules", "@turnkey")) && existsSync(join(path, "package.json"))) found.push(path);
    copies(path, found);
  }
  return found;
}

const literal = (name) => new RegExp(`(\\bconst ${name} = )("[^"\\n]*"|\`[^\`]*\`)(?=;)`, "g");

// The line at the end of a rewritten file: what stood there, so that nothing else is needed to put it back.
const mark = "\n// rewritten by Cloister's pin-keys.mjs, which restores it; before: ";

function split(text) {
  const at = text.lastIndexOf(mark);
  if (at < 0) return { text, before: null };
  try {
    return { text: text.slice(0, at), before: JSON.parse(text.slice(at + mark.length)) };
  } catch {
    return { text, before: null };
  }
}

function replaced(path, text, values) {
  const before = {};
  for (const [name, value] of Object.entries(values)) {
    const found = [...text.matchAll(literal(name))];
    if (found.length !== 1) throw new Refused(`${path}: ${name} is there ${found.length} times`);
    before[name] = found[0][2];
    text = text.replace(literal(name), (_, head) => head + value);
  }
  return { text, before };
}

// A file as it was published, whatever it is now.
function original(path, hash) {
  const { text, before } = split(readFileSync(path, "utf8"));
  const was = before ? replaced(path, text, before).text : text;
  if (sha256(was) !== hash) throw new Refused(`${path}: not as it was published: changed by somebody else. Nothing was written`);
  return was;
}

// The files of one copy as they are to be, none of them where its version is not known. want is null to restore.
function planned(copy, want) {
  const plan = [];
  const { version } = JSON.parse(readFileSync(join(copy, "package.json"), "utf8"));
  const known = published.find(({ versions }) => versions.includes(version));
  if (!known) return { copy, version, left: true, plan };
  for (const [i, name] of files.entries()) {
    const path = join(copy, name);
    if (!existsSync(path)) throw new Refused(`${copy}: version ${version} has no ${name}`);
    const was = original(path, known.files[i]);
    let now = was;
    if (want) {
      const values = Object.fromEntries([...want].filter(([constant]) => !optional.includes(constant) || was.includes(constant)).map(([constant, value]) => [constant, JSON.stringify(value)]));
      const { text, before } = replaced(path, was, values);
      now = text + mark + JSON.stringify(before) + "\n";
    }
    plan.push({ path, now, changed: readFileSync(path, "utf8") !== now });
  }
  elsewhere(copy, version, known);
  return { copy, version, left: false, plan };
}

// No other file of the copy may hold the keys: it would go on believing them.
function elsewhere(copy, version, known) {
  const signer = literal("PRODUCTION_SIGNER_SIGN_PUBLIC_KEY").exec(original(join(copy, files[0]), known.files[0]))[2].slice(1, -1);
  for (const name of readdirSync(join(copy, "dist"), { recursive: true })) {
    const path = join("dist", name.toString());
    if (!/\.[cm]?js$/.test(path) || path.includes("__tests__") || files.includes(path) || statSync(join(copy, path)).isDirectory()) continue;
    if (readFileSync(join(copy, path), "utf8").includes(signer)) throw new Refused(`${copy}: version ${version} holds the signer's key in ${path} too`);
  }
}

// A new file in the old one's place: the old may be linked to a store that other projects use.
function write(path, text) {
  const temporary = `${path}.cloister-${process.pid}`;
  writeFileSync(temporary, text, { mode: lstatSync(path).mode });
  renameSync(temporary, path);
}

function main() {
  let options, dirs;
  try {
    ({ values: options, positionals: dirs } = parseArgs({
      allowPositionals: true,
      options: { keys: { type: "string" }, check: { type: "boolean" }, restore: { type: "boolean" }, leave: { type: "string", multiple: true }, help: { type: "boolean", short: "h" } },
    }));
    if (options.help) {
      console.log(usage);
      return 0;
    }
    if (Boolean(options.restore) === Boolean(options.keys) || (options.restore && options.check)) throw new Error("give --keys FILE, or --restore");
    if (options.leave && !options.check) throw new Error("--leave is for --check");
  } catch (error) {
    console.error(`pin-keys: ${error.message} (pin-keys.mjs --help tells how)`);
    return 2;
  }
  const want = options.restore ? null : wanted(options.keys);
  const found = [...new Set((dirs.length ? dirs : ["."]).flatMap((dir) => copies(resolve(dir))))];
  if (found.length === 0) throw new Refused("no installed copy of @turnkey/crypto found");
  const plans = found.map((copy) => planned(copy, want));
  const left = plans.filter((p) => p.left);
  for (const { copy, version } of left) console.error(`left as it is, a version that this tool does not know: ${version} ${copy}`);
  if (left.length === plans.length) throw new Refused("no installed copy of @turnkey/crypto is of a version that this tool knows");
  const stale = plans.filter(({ plan }) => plan.some((file) => file.changed));
  if (options.check) {
    for (const { copy } of stale) console.error(`not pinned: ${copy}`);
    return stale.length || left.some(({ version }) => !options.leave?.includes(version)) ? 1 : 0;
  }
  for (const { plan } of stale) for (const file of plan.filter((f) => f.changed)) write(file.path, file.now);
  for (const { copy, version } of plans.filter((p) => !p.left)) console.log(`${options.restore ? "as published" : "pinned"}: ${version} ${copy}`);
  if (want?.has("AWS_ROOT_CERT_SHA256")) console.log("the attestation root is a simulator's: these copies believe no real enclave");
  return 0;
}

try {
  process.exitCode = main();
} catch (error) {
  if (!(error instanceof Refused)) throw error;
  console.error(`pin-keys: ${error.message}`);
  process.exitCode = 1;
}
