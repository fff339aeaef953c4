// An approver: somebody who looks at what waits in a browser and approves it, and what it takes to see that the drawing says everything.
import { createCipheriv, createECDH, createHmac } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "./client.mjs";
import { apiUrl, base, organizationId, root, scratch } from "./setting.mjs";
import { makeOpenKey } from "./stamp.mjs";

const hex = (bytes) => Buffer.from(bytes).toString("hex");

export const account = (curve, path, format) => ({ curve: `CURVE_${curve}`, pathFormat: "PATH_FORMAT_BIP32", path, addressFormat: `ADDRESS_FORMAT_${format}` });
export const apiKey = (apiKeyName, publicKey) => ({ apiKeyName, publicKey, curveType: "API_KEY_CURVE_P256" });

// newUser is a user with a key, and the file that signs in with it.
export async function newUser(userName) {
  const pair = await makeOpenKey();
  const made = await root.submit("create_users", "CREATE_USERS_V3", { users: [{ userName, apiKeys: [apiKey("key", pair.publicKey)], authenticators: [], oauthProviders: [], userTags: [] }] });
  writeFileSync(join(scratch, `${userName}.json`), JSON.stringify({ organizationId, ...pair }));
  return { userId: Object.values(made.result)[0].userIds[0], file: join(scratch, `${userName}.json`), client: new Client({ apiUrl, organizationId, ...pair }) };
}

// sealed encrypts a text as clients do for an import: HPKE (RFC 9180) in base mode with P-256, HKDF-SHA256, AES-256-GCM.
export function sealed(target, text) {
  const hmac = (key, ...data) => createHmac("sha256", key).update(Buffer.concat(data.map((d) => Buffer.from(d)))).digest();
  const suite = (name) => ({
    extract: (salt, label, ikm) => hmac(salt, "HPKE-v1", name, label, ikm),
    expand: (prk, label, info, length) => hmac(prk, [0, length], "HPKE-v1", name, label, info, [1]).subarray(0, length),
  });
  const sender = createECDH("prime256v1");
  const enc = sender.generateKeys();
  const kem = suite(Buffer.from([0x4b, 0x45, 0x4d, 0, 0x10]));
  const shared = kem.expand(kem.extract("", "eae_prk", sender.computeSecret(target)), "shared_secret", Buffer.concat([enc, target]), 32);
  const all = suite(Buffer.from([0x48, 0x50, 0x4b, 0x45, 0, 0x10, 0, 1, 0, 2]));
  const context = Buffer.concat([[0], all.extract("", "psk_id_hash", ""), all.extract("", "info_hash", "turnkey_hpke")].map((b) => Buffer.from(b)));
  const secret = all.extract(shared, "secret", "");
  const cipher = createCipheriv("aes-256-gcm", all.expand(secret, "key", context, 32), all.expand(secret, "base_nonce", context, 12));
  cipher.setAAD(Buffer.concat([enc, target]));
  return JSON.stringify({ encappedPublic: hex(enc), ciphertext: hex(Buffer.concat([cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()])) });
}

// look shows what waits.
export async function look(id, at) {
  await at.goto(`${base}#/approvals/${id}`);
  await at.locator(`.facts code[title="${id}"] >> visible=true`).first().waitFor();
  await at.locator("[aria-busy]").waitFor({ state: "detached" });
}

// approve does what an approver has to: sees the end, confirms each danger, and presses.
export async function approve(at) {
  await at.locator(".end-of-view").scrollIntoViewIfNeeded();
  for (const tick of await at.locator("fieldset.choices input").all()) await tick.check();
  await at.getByRole("button", { name: "Approve", exact: true }).click();
  await at.locator(".toast", { hasText: /Approved|recorded/ }).first().waitFor();
}

// drawings draws documents in a page and tells what is wrong with the drawings.
export const drawings = (page, documents) => page.evaluate(async (all) => {
  const { drawn, headline, digestOf } = await import(document.querySelector("script[src$='main.js']").src.replace("main.js", "decoded.js"));
  const sources = { BYTES: "from the bytes themselves", BUILTIN: "built in", ORGANIZATION: "your organization's", OPERATOR_LIST: "the operator's list", REQUESTER: "the requester wrote it", HOST: "server will say it" };
  const weights = { DANGER: "Danger", WARN: "Warning", INFO: "Note" };
  const labelSources = { ORGANIZATION: "in the address book", INTERFACE: "the label of an interface" };
  const yes = { keyOutside: "Others may have its key", own: "Yours", proven: "Proven by the bytes", claimsOwn: "Says that it is yours", root: "In the root quorum", unlimited: "Unlimited", emailVerified: "E-mail proven", phoneVerified: "Phone number proven" };
  const faults = [];
  const place = document.body.appendChild(document.createElement("div"));
  const leaves = function* (value, key, holder) {
    if (Array.isArray(value)) for (const item of value) yield* leaves(item, key, holder);
    else if (value !== null && typeof value === "object") for (const [k, v] of Object.entries(value)) yield* leaves(v, k, value);
    else yield [key, value, holder];
  };
  const letters = (text) => text.toLowerCase().replace(/[^a-z0-9]/g, "");
  // A short text has to be a word of its own: it is in many others.
  const count = (text, what) => (/^\w{1,7}$/.test(what) ? text.split(/\W+/).filter((word) => word === what) : text.split(what).slice(1)).length;
  for (const [id, doc] of Object.entries(all)) {
    const node = drawn(doc);
    place.replaceChildren(node);
    node.querySelector(".headline").remove(); // it says things again
    const texts = [];
    for (const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT); walker.nextNode();) texts.push(walker.currentNode.data);
    const text = texts.join("\n");
    const wanted = new Map();
    for (const [key, leaf, holder] of leaves(doc)) {
      let want = leaf === null ? "none" : String(leaf);
      if (key === "labelSource" && labelSources[leaf] || leaf === "INTERFACE") want = labelSources[leaf];
      else if (key === "source" || key.endsWith("Source")) want = sources[leaf];
      else if (key === "severity") want = weights[leaf] ?? leaf;
      else if (key === "at" && holder.code) {
        if (![...node.querySelectorAll(".place")].some((b) => b.title === leaf)) faults.push(`${id}: no way to ${leaf}`);
        continue;
      } else if (typeof leaf === "boolean") {
        const name = key === "value" ? holder.name : yes[key] ?? key;
        const row = [...node.querySelectorAll("dl > div, tbody tr")].some((r) => letters(r.querySelector("dt, td").textContent).startsWith(letters(name)) && /Yes|No/.test(r.querySelector("dd, td:last-child").textContent));
        if (!row && !(key === "unlimited" && text.includes("Unlimited"))) faults.push(`${id}: ${key} is ${leaf}, and no row says so`);
        continue;
      }
      wanted.set(want, (wanted.get(want) ?? 0) + 1);
    }
    for (const [want, times] of wanted) if (want && count(text, want) < times) faults.push(`${id}: "${want}" is drawn ${count(text, want)} times instead of ${times}`);
    for (const b of node.querySelectorAll(".place")) {
      document.activeElement.blur();
      b.click();
      if (!node.contains(document.activeElement) || document.activeElement === b) faults.push(`${id}: ${b.title} leads nowhere`);
      const marks = document.activeElement.textContent;
      if (!/Danger|Warning|Note/.test(marks) && b.title !== "parts") faults.push(`${id}: ${b.title} has no mark`);
    }
    const said = headline(doc);
    const [slip] = /.{0,40}(\b(undefined|null|NaN)\b|\[object).{0,40}/.exec(said + text) ?? [];
    if (slip) faults.push(`${id}: ${slip}`);
    if (said.length < 8 || said.length > 700) faults.push(`${id}: the sentence is ${said}`);
    if (await digestOf(doc) === "") faults.push(`${id}: no digest`);
  }
  // Other forms than these: each leaf becomes something else, and nothing of it may become an element.
  const others = [null, 5, true, [], {}, [[{}]], { address: { label: {} } }, `<img src="x"><script>1</script>`];
  let tried = 0;
  for (const doc of Object.values(all)) {
    const paths = [];
    const walk = (value, at) => {
      if (at.length) paths.push(at);
      if (value !== null && typeof value === "object") for (const [k, v] of Object.entries(value)) walk(v, [...at, k]);
    };
    walk(doc, []);
    for (const [i, path] of paths.entries().filter(([n]) => (n + tried) % 3 === 0)) {
      const changed = structuredClone(doc);
      const holder = path.slice(0, -1).reduce((at, k) => at[k], changed);
      holder[path.at(-1)] = others[(i + tried) % others.length];
      tried++;
      try {
        const node = drawn(changed);
        if (node.querySelector("img, script") || typeof headline(changed) !== "string") faults.push(`${path.join(".")} became an element`);
      } catch (error) {
        faults.push(`${path.join(".")} as ${JSON.stringify(holder[path.at(-1)])}: ${error.stack.slice(0, 300)}`);
      }
    }
  }
  place.remove();
  return { faults: faults.slice(0, 40), tried, said: Object.fromEntries(Object.entries(all).map(([id, doc]) => [id, headline(doc)])) };
}, documents);
