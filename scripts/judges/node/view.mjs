// What node/decoded.mjs needs whatever the network is: nasty random values, organizations in which signatures wait for a second
// approval, and the view that an approver should get, put together from what a network's library reads.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { apiKey, http, rootPublicKey, server } from "./setting.mjs";
import { loadVerifier } from "./verify.mjs";

// What approvers make on machines of their own.
const { decode } = await loadVerifier(process.env.VERIFIER_URL);

export const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");
export const bytes = (hex) => Buffer.from(hex.replace(/^0x/, ""), "hex");
const seed = process.env.DECODED_SEED ?? "cloister";
const count = Number(process.env.DECODED_COUNT ?? 500);
console.log(`DECODED_SEED=${seed} DECODED_COUNT=${count}`);

// Random values that are the same in every run with one seed. Cloister's own keys are new in every run.
export class Random {
  constructor(name) {
    Object.assign(this, { name, block: 0, left: Buffer.alloc(0) });
  }
  bytes(n) {
    while (this.left.length < n) {
      this.left = Buffer.concat([this.left, createHash("sha512").update(`${this.name} ${this.block++}`).digest()]);
    }
    const taken = this.left.subarray(0, n);
    this.left = this.left.subarray(n);
    return Buffer.from(taken);
  }
  below = (n) => this.bytes(6).readUIntBE(0, 6) % n;
  between = (from, to) => from + this.below(to - from + 1);
  one = (list) => list[this.below(list.length)];
  is = (percent) => this.below(100) < percent;
  times = (n, make) => Array.from({ length: n }, (_, i) => make(i));
  hex = (n) => "0x" + this.bytes(n).toString("hex");
  // A number of so many bits, at its bounds as often as not.
  number(bits) {
    const end = 1n << BigInt(bits);
    const wide = BigInt(this.hex(Math.ceil(bits / 8))) % end;
    const short = wide >> BigInt(this.below(bits));
    return this.one([0n, 1n, end - 1n, end >> 1n, (end >> 1n) - 1n, wide, short, short, short]);
  }
  // Bytes of any length, most of them few, some more than a view shows.
  data = () => this.bytes(this.one([0, 1, 3, 4, 31, 32, 33, 36, 68, this.below(300), 256, 257, this.below(2000)]));
  text() {
    const pieces = ["", "a", "Pay ", "Grüße", "世界", "кот", "pаypal", "\\u{41}", "\"", "'", "\t", "\u202e", "\u200b", "\u{1f600}", "\ufe0f", "\u{e0041}", "x1", "ὀ", "\u00a0", "\u0301", "<b>", "\u180b", "\u{e0fff}", "\u3164", "\0", "0x00", "{}", "\u{10ffff}", "a".repeat(1025)];
    return this.times(this.below(5), () => this.one(pieces)).join("");
  }
}

// An organization with two users in its root quorum, both of whom must approve: what the first asks for waits.
async function organization(name, accounts) {
  const user = (userName, publicKey) => ({
    userName, apiKeys: [{ apiKeyName: userName, publicKey, curveType: "API_KEY_CURVE_P256" }], authenticators: [], oauthProviders: [],
  });
  const { subOrganizationId, wallet } = await server.createSubOrganization({
    subOrganizationName: `Decoded ${name}`,
    rootQuorumThreshold: 2,
    rootUsers: [user("Asks", rootPublicKey), user("Approves", apiKey().publicKey)],
    wallet: { walletName: name, accounts },
  });
  const listed = await server.getWalletAccounts({ organizationId: subOrganizationId, walletId: wallet.walletId, paginationOptions: { limit: "100" } });
  return { organizationId: subOrganizationId, accounts: listed.accounts, records: [JSON.stringify(listed)] };
}

// asked: what get_activity has of an activity that waits, after the digest and the text were held against one another.
async function asked({ organizationId, records }, [submit, parameters, type]) {
  const { activity } = await http[submit]({ type: `ACTIVITY_TYPE_${type}`, timestampMs: String(Date.now()), organizationId, parameters });
  assert.equal(activity.status, "ACTIVITY_STATUS_CONSENSUS_NEEDED");
  const { url, body, stamp } = await http.stampGetActivity({ organizationId, activityId: activity.id });
  const answer = await (await fetch(url, { method: "POST", body, headers: { [stamp.stampHeaderName]: stamp.stampHeaderValue } })).text();
  const { decoded, decodedDigest, fingerprint } = JSON.parse(answer).activity;
  assert.ok(decoded, "it is decoded");
  const text = JSON.stringify(decoded);
  assert.ok(answer.includes(`"decoded":${text},"decodedDigest":"${decodedDigest}"`), "JSON.stringify gives the bytes back");
  assert.match(text, /^[\x20-\x7e]*$/);
  assert.ok(text.length <= 64 << 10);
  assert.equal(decodedDigest, sha256("cloister decoded 1\n" + text));
  const outside = decode({ activity: answer, records });
  assert.deepEqual([outside.digest, outside.shown, outside.differences], [decodedDigest, true, []], "the same is decoded outside of the enclave");
  assert.deepEqual(
    [decoded.format, decoded.organizationId, decoded.activityId, decoded.type, decoded.fingerprint, decoded.fixed],
    ["cloister.decoded/1", organizationId, activity.id, `ACTIVITY_TYPE_${type}`, fingerprint, true],
  );
  return decoded;
}

// One organization has at most a thousand activities that wait.
const perOrganization = 900;

// judged: as many random payloads of a kind as are wanted. make(random, accounts) answers [what to ask for, the view]; the
// view is what the network's library reads.
export async function judged(name, accounts, make) {
  const random = new Random(`${seed} ${name}`);
  const differences = [];
  for (let done = 0; done < count; done += perOrganization) {
    const home = await organization(name, accounts);
    const numbers = Array.from({ length: Math.min(perOrganization, count - done) }, (_, i) => done + i);
    const one = async (i, ask, view) => {
      try {
        view.hold(await asked(home, ask));
      } catch (error) {
        differences.push(`number ${i}: ${error.message}\n${JSON.stringify(ask[1]).slice(0, 6000)}`);
      }
    };
    const running = new Set();
    for (const i of numbers) {
      const [ask, view] = await make(random, home.accounts);
      const task = one(i, ask, view).finally(() => running.delete(task));
      running.add(task);
      if (running.size >= 8) await Promise.race(running);
    }
    await Promise.all(running);
  }
  const shown = Number(process.env.DECODED_SHOWN ?? 3);
  assert.equal(differences.length, 0, `${differences.length} of ${count} differ\n${differences.slice(0, shown).join("\n\n")}`);
}

export const transaction = (type, signWith, unsigned) => [
  "signTransaction", { signWith, type: `TRANSACTION_TYPE_${type}`, unsignedTransaction: Buffer.from(unsigned).toString("hex") }, "SIGN_TRANSACTION_V2",
];
export const payload = (signWith, text, encoding, hash) => [
  "signRawPayload", { signWith, payload: text, encoding: `PAYLOAD_ENCODING_${encoding}`, hashFunction: `HASH_FUNCTION_${hash}` }, "SIGN_RAW_PAYLOAD_V2",
];

const weights = {
  DANGER: "BLIND LIMIT TEXT_BIDI LOOKALIKE CHAIN_ANY APPROVAL_UNLIMITED APPROVAL_ALL CONTROL_CHANGE UPGRADE DELEGATECALL DELEGATION PERMIT DOMAIN_FALSE ORDER_GIVEAWAY MESSAGE_IS_TRANSACTION DURABLE_NONCE CHANGE_FALSE",
  WARN: "UNREAD CUT TEXT_HIDDEN TEXT_SCRIPTS ADDRESS_BURN TOKEN_UNKNOWN CHAIN_UNKNOWN FEE_HIGH VALUE_ALONG APPROVAL CONTRACT_CREATION SAFE_REFUND ENCODING_ODD TRAILING_DATA NO_EXPIRY DOMAIN_OPEN SIGN_IN_OTHER LOOKUP_ACCOUNTS TOKEN_RULES WHOLE_BALANCE",
  INFO: "ADDRESS_NEW OTHER_PARTIES",
};
const weightOf = (code) => Object.keys(weights).find((weight) => weights[weight].split(" ").includes(code));
const degrees = ["FULL", "PARTIAL", "NONE"];

const most = { text: 1024, data: 256, calls: 64, depth: 8, places: 8 };

// The letters of one alphabet; what is written together in one language is one.
const alphabets = ["Latin", "Cyrillic", "Greek", "Arabic", "Hebrew", "Armenian", "Georgian", "Thai"].map((name) => new RegExp(`\\p{Script=${name}}`, "u"));
alphabets.push(/[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Bopomofo}]/u);

// A view in the making: the part, what it warns of and how much of it can be read.
export class View {
  constructor(kind, own, builtin = {}) {
    Object.assign(this, { kind, own, builtin, part: {}, warnings: new Map(), degree: 0, calls: 0, limited: false });
  }

  warn(code, at) {
    this.warnings.set(code, (this.warnings.get(code) ?? new Set()).add(at));
    if (code === "CUT" || code === "UNREAD" || code === "TRAILING_DATA") this.partial();
  }

  partial() {
    this.degree = Math.max(this.degree, 1);
  }

  // What is signed and by whom; the digest is hexadecimal without 0x.
  signed(encoding, input, scheme, digests, by) {
    this.part.input = { encoding, length: String(input.length), sha256: sha256(input) };
    this.part.signs = digests.map((digest) => ({ scheme, digest: digest.replace(/^0x/, ""), by }));
  }

  address(address) {
    const label = this.builtin[address];
    return { address, ...(label && { label, labelSource: "BUILTIN" }) };
  }

  // Somebody who receives something or gets a right, and whom nobody here knows.
  party(address, at) {
    if (this.isOwn(address) || this.builtin[address] || this.nobody?.includes(address)) return;
    this.warn("ADDRESS_NEW", at);
    const ends = (text) => {
      const digits = text.replace(/^(0x|(bc|tb|bcrt)1[qp])/, "");
      return (/^(0x|(bc|tb|bcrt)1)/.test(text) ? digits.toLowerCase() : digits).replace(/^(.{4}).*(.{4})$/, "$1$2");
    };
    if (ends(address) === ends(this.own[0])) this.warn("LOOKALIKE", at);
  }

  // How the network writes the address that Ethereum writes so.
  written = (address) => address;

  isOwn = (address) => this.own.includes(address);

  letters(text, at, breaks = "") {
    let [turned, hidden] = [false, false];
    for (const letter of text) {
      if (/\p{Bidi_Control}/u.test(letter)) turned = true;
      else if (!breaks.includes(letter) && letter !== "\ufe0f" && /[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\u2028\u2029]/u.test(letter)) hidden = true;
    }
    const mixed = text.split(/[\0-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f]|\p{White_Space}/u).some(
      (word) => alphabets.filter((alphabet) => [...word].some((letter) => /\p{L}/u.test(letter) && alphabet.test(letter))).length > 1,
    );
    if (turned) this.warn("TEXT_BIDI", at);
    if (hidden) this.warn("TEXT_HIDDEN", at);
    if (mixed) this.warn("TEXT_SCRIPTS", at);
  }

  text(text, at) {
    this.letters(text, at);
    if ([...text].length <= most.text) return escaped(text);
    this.warn("CUT", at);
    return { text: escaped([...text].slice(0, most.text).join("")), length: String([...text].length), sha256: sha256(text) };
  }

  // The lines of a text as members.
  lines(key, text, at) {
    this.letters(text, `${at}.${key}`, "\r\n");
    const shown = [...text].slice(0, most.text).join("");
    const lines = { [key]: shown.split("\n").map((line) => escaped(line.replace(/\r$/, ""))) };
    if (shown === text) return lines;
    this.warn("CUT", `${at}.${key}`);
    return { ...lines, length: String([...text].length), sha256: sha256(text) };
  }

  piece = (data) => ({ hex: "0x" + data.subarray(0, most.data).toString("hex"), length: String(data.length), sha256: sha256(data) });

  // Data, whole if they are short; of those that are shown elsewhere too the beginning will do.
  data(data, at, elsewhere = false) {
    if (data.length <= most.data) return "0x" + data.toString("hex");
    if (!elsewhere) this.warn("CUT", at);
    return this.piece(data);
  }

  unreadable(reason, data, at) {
    if (["TOO_MUCH", "TOO_DEEP"].includes(reason)) this.limit();
    else this.warn("UNREAD", at);
    return { unreadable: { reason, ...this.piece(data) } };
  }

  // Nobody can tell what is signed.
  blind(at) {
    this.warn("BLIND", at);
    this.degree = 2;
  }

  limit() {
    this.limited = true;
    this.partial();
  }

  // A call is counted: why it is not read.
  called(depth) {
    this.calls++;
    return depth > most.depth ? "TOO_DEEP" : this.calls > most.calls ? "TOO_MUCH" : "";
  }

  // hold compares what is shown. Under a limit there may be less, and never anything else.
  hold({ kind, readable, severity, warnings, parts, title }) {
    const limited = warnings.some((w) => w.code === "LIMIT");
    const part = JSON.parse(JSON.stringify(this.part));
    assert.equal(kind, this.kind);
    assert.equal(parts.length, 1);
    if (limited) within(parts[0], part, "parts.0");
    else assert.deepEqual(parts[0], part);
    if (this.title) assert.equal(title, this.title);
    assert.ok(!this.limited || limited, "a limit");
    assert.equal(readable, degrees[Math.max(this.degree, limited ? 1 : 0)]);
    const order = ["DANGER", "WARN", "INFO", "NONE"];
    assert.deepEqual(warnings.map((w) => w.severity), warnings.map((w) => w.severity).sort((a, b) => order.indexOf(a) - order.indexOf(b)));
    assert.equal(severity, warnings[0]?.severity ?? "NONE");
    for (const w of warnings) assert.equal(w.severity, weightOf(w.code), w.code);
    const shown = warnings.filter((w) => w.code !== "LIMIT").map((w) => [w.code, limited ? [] : [...w.at].sort(), limited ? 0 : w.at.length + Number(w.more ?? 0)]);
    const expected = [...this.warnings].map(([code, at]) => [code, limited ? [] : [...at].slice(0, most.places).sort(), limited ? 0 : at.size]);
    // Of what is beyond a limit a part is not read at all, and cannot be warned of.
    if (limited) for (const [code] of shown) assert.ok(this.warnings.has(code), code);
    else assert.deepEqual(Object.fromEntries(shown.map((w) => [w[0], w])), Object.fromEntries(expected.map((w) => [w[0], w])));
  }
}

// within: all that is shown is expected, and what is left out says so.
function within(shown, expected, at) {
  if (shown?.unreadable?.reason === "TOO_MUCH") return;
  if (typeof shown !== "object") return assert.deepEqual(shown, expected, at);
  for (const key of Object.keys(shown)) {
    if (shown[key]?.unreadable?.reason !== "TOO_MUCH") assert.ok(expected?.[key] !== undefined, `${at}.${key} is shown`);
    within(shown[key], expected?.[key], `${at}.${key}`);
  }
}

export const escaped = (text) =>
  [...text].map((c) => (c === "\\" ? "\\\\" : /[\x20-\x7e]/.test(c) ? c : `\\u{${c.codePointAt(0).toString(16).toUpperCase()}}`)).join("");

// An amount of coins: the number, and if there is any the scaled text with the coin's name.
export function amount(value, unit, symbol, decimals) {
  const shown = { value: String(value), ...(unit && { unit }) };
  if (BigInt(value) === 0n || decimals === undefined) return shown;
  const digits = String(value).replace("-", "").padStart(decimals + 1, "0");
  const text = (value < 0 ? "-" : "") + `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`.replace(/\.?0+$/, "");
  return { ...shown, text, ...(symbol && { symbol, symbolSource: "BUILTIN" }) };
}

// A time in seconds since 1970.
export const seconds = (value) => ({
  value: String(value), unit: "s", ...(value <= 253402300799n && { text: new Date(Number(value) * 1000).toISOString().replace(".000Z", "Z") }),
});
