// What approvers are shown of a waiting activity: a document that the enclave decodes from the bytes that would be signed, drawn so
// that every member of it can be read. enclave/APPROVALS.md describes documents. Members and kinds that are not known here are drawn
// as they are, under their names.

import { h, unique } from "./dom.js";
import { toHex } from "./stamp.js";
import { badge, button, copyable, panel, table } from "./ui.js";

// digestOf is what a vote names when it commits to a document: the SHA-256 of a line and of the document's text.
export async function digestOf(document) {
  const bytes = new TextEncoder().encode(`cloister decoded 1\n${JSON.stringify(document)}`);
  return toHex(await crypto.subtle.digest("SHA-256", bytes));
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const has = (object, ...names) => names.every((name) => Object.hasOwn(object, name));
const isText = (value) => typeof value === "string";
const scalar = (value) => (value === true ? "Yes" : value === false ? "No" : value === null || value === "" ? "none" : String(value));

// ---- Words

const sources = {
  BYTES: "from the bytes themselves", BUILTIN: "built in", ORGANIZATION: "your organization's", OPERATOR_LIST: "from the operator's list",
  REQUESTER: "the requester wrote it", HOST: "the server will say it", INTERFACE: "the label of an interface, which proves nothing",
};
const sourceText = (source) => sources[source] ?? `from ${scalar(source)}`;

// labelSources say where the label of an address is from.
const labelSources = { BUILTIN: "built in", OPERATOR_LIST: "on the operator's list", ORGANIZATION: "in the address book" };

const reasons = {
  DIGEST: "It is a hash, and nobody can tell what it is the hash of.", ENCRYPTED: "It is encrypted for somebody else.",
  UNKNOWN_FUNCTION: "No interface that is known here has this function.", UNKNOWN_PROGRAM: "This program is not known here.",
  UNKNOWN_INSTRUCTION: "This instruction of the program is not known here.", DOES_NOT_DECODE: "It is nothing that can be decoded.",
  DELEGATECALL: "Code of somebody else does with it what it likes.", CODE: "It is code, which is not read.",
  TOO_DEEP: "There are more layers than are read.", TOO_MUCH: "There is more than is shown.",
};

const labels = {
  by: "Signed by", signs: "What is signed", input: "Bytes that were read", encodeType: "Types in full", domainHash: "Hash of the domain", messageHash: "Hash of the message",
  calldataDigest: "Hash of the call's data", maxFee: "Maximum fee", tokenFee: "Fee in the token", feePayer: "Who pays the fee", value: "Value", sha256: "SHA-256", hex: "Bytes (hexadecimal)",
  mayBeSigned: "May be signed along", txid: "Transaction id", vout: "Output number", own: "Yours", proven: "Proven by the bytes", claimsOwn: "Says that it is yours", chainId: "Chain id", uri: "Address (URI)",
  unsigned: "Not signed: members that no signature covers", of: "The transaction", is: "Which is a", most: "At most", until: "Valid until", args: "Arguments", at: "At",
  intent: "The request, member by member", accountOwner: "Owner of the account", toOwner: "Owner of the receiving account", gives: "You give", gets: "You get", getsOthers: "Others get",
  lines: "Text", id: "Id", path: "Path", nonceKey: "Nonce key", root: "In the root quorum", selector: "Function selector", source: "Where it is from", undelegates: "Takes back",
  labelBy: "Who gave it this label", keyOutside: "Others may have its key", atLeast: "There is more that only the chain knows",
  means: "What it comes to", newEmail: "The new e-mail address", newPhone: "The new phone number", readBy: "Policies that read it", readByMore: "More policies that read it", waysIn: "Ways to act as this user", emailVerified: "E-mail proven", email: "E-mail",
  phone: "Phone number", phoneVerified: "Phone number proven", behind: "Policies that no longer apply there", anyOf: "Any of these", required: "What is required", removedMore: "More that lose it",
  tagsDeleted: "Tags that are deleted", ifAddressUnknown: "If the address is unknown", url: "URL", usdOfAll: "USD for all together", usdOfEachSubOrganization: "USD for each sub-organization",
  expires: "Expires", expiresAfterSeconds: "Expires after (seconds)", record: "Record", storageKeys: "Storage slots", organizationId: "Organization id", activityId: "Activity id",
};

// label is the name of a member as people read it.
const label = (key) => labels[key] ?? key.replace(/([a-z0-9])([A-Z])/g, "$1 $2").replace(/^./, (c) => c.toUpperCase()).replace(/ [A-Z](?=[a-z])/g, (c) => c.toLowerCase());

// Values that the program has a name for, in words; the name stands beside them.
const words = { EFFECT_ALLOW: "Allow", EFFECT_DENY: "Deny", API_KEY: "API key", PASSKEY: "Passkey", IDENTITY: "Identity at a provider", SPONSOR: "A sponsor", OTHER: "Somebody else",
  AUTHENTICATION_TYPE_PASSKEY: "Passkey", AUTHENTICATION_TYPE_API_KEY: "API key", AUTHENTICATION_TYPE_SESSION: "Session", AUTHENTICATION_TYPE_EMAIL_OTP: "Code by e-mail", AUTHENTICATION_TYPE_SMS_OTP: "Code by text message", AUTHENTICATION_TYPE_OAUTH: "Identity at a provider" };

const weights = { DANGER: ["Danger", "bad"], WARN: ["Warning", "wait"], INFO: ["Note", "neutral"], NONE: ["No warnings", "neutral"] };
const weight = (severity) => weights[severity] ?? [scalar(severity), "wait"];

// severityBadge says how much a document warns of.
export const severityBadge = (severity) => badge(...weight(severity));

// ---- The sentence

// quoted marks where a text from outside begins and ends. It cannot hold these signs: documents write them as \u{201C}.
const quoted = (text) => `“${text}”`;

const networks = { BITCOIN_TRANSACTION: "Bitcoin", SOLANA_TRANSACTION: "Solana", TRON_TRANSACTION: "Tron" };

function networkOf(part, kind) {
  const { name, chainId = part.domain?.chainId ?? part.chainId } = part.network ?? {};
  const text = name ?? networks[kind];
  if (isText(text)) return ` on ${text}`;
  if (chainId === "any") return " on every chain";
  return isText(chainId) ? ` on chain ${chainId}` : "";
}

// amountText is an amount, and of which token if nobody knows its symbol: the one that a call is of.
function amountText(amount, token) {
  if (!isObject(amount)) return null;
  const { value, text, symbol, unit, unlimited, id } = amount;
  const of = partyText(amount.token ?? token);
  if (unlimited) return symbol ? `all ${symbol}` : of ? `all tokens of ${of}` : "all tokens";
  if (!has(amount, "value") && !text) return null;
  const scaled = isText(text);
  if (isText(id)) return `${value === "1" ? "" : `${value} of `}number ${id} of the token ${of ?? "that is named"}`;
  const name = symbol ?? (unit ? (scaled ? "of the chain's coin" : unit) : of ? `${scaled ? "" : "units "}of the token ${of}` : "units of a token");
  return `${scaled ? text : value} ${name}`;
}

// calledText is what an address is called, and by whom in words of this program: a name may say anything of itself. Empty if nothing
// is known. The organization's own words go before a label that somebody gave a contract with an interface.
function calledText({ label, labelSource, labelBy, keyOutside }, mine) {
  const outside = keyOutside === true ? ", whose key others may have" : "";
  if (isText(label) && Object.hasOwn(labelSources, labelSource)) return `${labelSources[labelSource]} as ${quoted(label)}${outside}`;
  if (isText(mine)) return `your wallet ${quoted(mine)}${outside}`;
  if (outside) return `your account${outside}`;
  if (!isText(label)) return "";
  if (labelSource !== "INTERFACE") return `called ${quoted(label)}, ${sourceText(labelSource)}`;
  return `labelled ${quoted(label)} by ${isText(labelBy?.name) ? quoted(labelBy.name) : isText(labelBy?.userId) ? `the user ${labelBy.userId}` : "somebody"}`;
}

// partyText is an address with what it is called.
function partyText(at, own) {
  const address = isText(at) ? at : at?.address;
  if (!isText(address)) return isText(at?.table) ? `account ${at.index} of the table ${at.table}` : null;
  const called = calledText(at, own?.get(address.toLowerCase()));
  return called ? `${address} (${called})` : address;
}

const howMuch = (amount, token) => amountText(amount, token) ?? "an unknown amount";
const whom = (at, own) => partyText(at, own) ?? "an unknown address";
const limit = (amount, token) => `${amount?.unlimited ? "" : "up to "}${howMuch(amount, token)}`;
const argument = (call, name) => call.args?.find?.((a) => a?.name === name);

function feeText({ maxFee, fee, feePayer }) {
  if (feePayer === "SPONSOR") return ", and a sponsor pays the fee";
  if (isObject(fee)) return `, for a fee of ${howMuch(fee)}`;
  if (!isObject(maxFee)) return "";
  if (maxFee.source === "HOST") return `, for a fee that the server will say${maxFee.most ? `, at most ${maxFee.most} of the smallest unit` : ""}`;
  return `, at most ${howMuch(maxFee)} of fees`;
}

const list = (all, most = 3) => [...all.slice(0, most), ...(all.length > most ? [`${all.length - most} more`] : [])].join(", ").replace(/, ([^,]*)$/, all.length > 1 ? " and $1" : ", $1");

const calling = (call) => (argument(call, "data") ? ", and call it with data" : "");

// collectibles says how many tokens of a collection are sent, or if there are several numbers how many kinds.
function collectibles(call) {
  const kinds = argument(call, "ids")?.items;
  if (Array.isArray(kinds)) {
    const n = new Set(kinds.map((k) => k.value).filter(isText)).size;
    return `${kinds.some((k) => isObject(k.unreadable)) ? "more than " : ""}${n} kind${n === 1 ? "" : "s"} of tokens`;
  }
  const count = argument(call, "value")?.value;
  return !isText(count) || count === "1" ? "a token" : `${count} tokens`;
}

// The calls that a sentence can say whole, by what they mean.
const sayings = {
  ERC20_TRANSFER: (c, own) => `Send ${howMuch(c.amount, c.to)} to ${whom(argument(c, "to"), own)}${calling(c)}`,
  ERC20_TRANSFER_FROM: (c, own) => `Move ${howMuch(c.amount, c.to)} from ${whom(argument(c, "from"), own)} to ${whom(argument(c, "to"), own)}`,
  ERC20_APPROVE: (c, own) => `Allow ${whom(argument(c, "spender"), own)} to take ${limit(c.amount, c.to)}${calling(c)}`,
  PERMIT2_APPROVE: (c, own) => sayings.ERC20_APPROVE(c, own),
  NFT_TRANSFER: (c, own) => `Send ${collectibles(c)} of ${whom(c.to, own)} to ${whom(argument(c, "to"), own)}${calling(c)}`,
  APPROVAL_FOR_ALL: (c, own) => `${argument(c, "approved")?.value === false ? "No longer allow" : "Allow"} ${whom(argument(c, "operator"), own)} to take every token of ${whom(c.to, own)}`,
};

// callText says what one call does, and of one that proposes others what these would do.
function callText(call, own, isProposed = false) {
  if (Object.hasOwn(sayings, call.meaning ?? "")) return sayings[call.meaning](call, own);
  const to = partyText(call.to ?? call.program, own);
  const coins = isText(call.value?.value) && call.value.value !== "0" ? `, with ${howMuch(call.value)}` : "";
  const receiver = call.toOwner ?? call.to;
  const standard = call.functionSource === "BUILTIN";
  if (standard && isObject(call.amount) && isObject(receiver) && /^Transfer/.test(call.function ?? "")) return `Send ${howMuch(call.amount, call.mint)} to ${whom(receiver, own)}`;
  if (standard && isObject(call.amount) && call.delegate) return `Allow ${whom(call.delegate, own)} to take ${limit(call.amount, call.mint)}`;
  if (standard && call.function === "CloseAccount" && call.to) return `Close the token account ${whom(call.account, own)} and send all SOL that it holds to ${whom(call.to, own)}`;
  if (standard && call.function === "Withdraw" && isObject(call.amount) && call.to) return `Withdraw ${howMuch(call.amount)} from ${whom(call.from, own)} to ${whom(call.to, own)}`;
  if (standard && call.newAuthority) return `Give control (${call.authorityType ?? call.function}) of ${partyText(call.account, own) ?? "an account"} to ${whom(call.newAuthority, own)}`;
  const proposed = standard && !isProposed && isObject(call.program) && Array.isArray(call.calls) ? call.calls.filter(isObject) : [];
  if (proposed.length > 0) return `Propose to a multisig${isObject(call.vault) ? ` with the vault ${whom(call.vault, own)}` : ""}: ${list(proposed.map((c) => callText(c, own, true)))}`;
  if (isText(call.function)) return `Call ${call.function}${to ? ` of ${to}` : ""}${isObject(call.unreadable) ? " with something that cannot be read" : ""}${coins}`;
  if (call.kind === "CREATE") return "Create a contract";
  return `Call ${to ?? "code"} with something that cannot be read${coins}`;
}

// Instructions of Solana that only go along with others.
const along = new Set(["SetComputeUnitLimit", "SetComputeUnitPrice", "SetLoadedAccountsDataSizeLimit", "RequestHeapFrame", "Memo", "AdvanceNonceAccount"]);

// titled puts the title before a call that a sentence cannot say.
const titled = (text, title) => (text.startsWith("Call ") && !/^(Call|Send) /.test(title) ? `${title}: c${text.slice(1)}` : text);

// deed says what a transaction does, without its fee.
function deed(part, kind, title, own) {
  const on = networkOf(part, kind);
  if (Array.isArray(part.outputs)) {
    const others = part.outputs.filter((o) => o?.own === false && (o.value?.value !== "0" || o.address));
    return others.length ? `Send ${list(others.map((o) => `${howMuch(o.value)} to ${partyText(o, own) ?? o.kind ?? "a script"}`))}${on}` : `${title}${on}`;
  }
  const authorizations = Array.isArray(part.authorizations) ? part.authorizations : [];
  const lends = authorizations.length > 0 && `Let ${list(authorizations.map((a) => `code at ${whom(a?.address, own)} act as ${a?.authority ?? "an account"}`))}`;
  const calls = (Array.isArray(part.calls) ? part.calls : []).filter((c) => isObject(c) && !(c.functionSource === "BUILTIN" && along.has(c.function)));
  const value = isText(part.value?.value) && part.value.value !== "0" ? howMuch(part.value) : "";
  const to = partyText(part.to ?? part.receiver, own);
  const says = () => {
    if (calls.length === 1) return `${titled(callText(calls[0], own), title)}${value && `, and send ${value} along`}`;
    if (calls.length > 1) return `${title}: ${calls.length} calls${value && ` and ${value}`}: ${calls.slice(0, 3).map((c, i) => `(${i + 1}) ${callText(c, own)}`).join("; ")}${calls.length > 3 ? `; and ${calls.length - 3} more` : ""}`;
    if (isObject(part.code)) return `Create a contract${value && `, and send it ${value}`}`;
    if (/^Send/.test(title) && to && isObject(part.value)) return `Send ${howMuch(part.value)} to ${to}`;
    return `${title}${value && `, ${value}`}${to ? `: ${to}` : ""}`;
  };
  const may = isObject(part.authorization) ? `, and perhaps let code at ${whom(part.authorization.address, own)} act as the account` : "";
  if (!lends) return `${says()}${may}${on}`;
  return `${lends}${calls.length || value ? `, and: ${calls.length ? says() : `Send ${value} to ${to}`}` : ""}${on}`;
}

const isId = (text) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text);

// nameIn is what an object is called, or what it holds.
const nameIn = (o) => (isText(o?.name) ? o.name : o?.name?.text ?? o?.user?.name ?? o?.tag?.name ?? o?.privateKey?.name ?? o?.secret?.name ?? (isText(o?.label) ? o.label : o?.address ?? o?.clientId?.text ?? o?.clientId ?? o?.publishableApiKey));

// subjects are the names that an organization's change is about.
function subjects(part) {
  const lists = ["users", "policies", "wallets", "privateKeys", "accounts", "secrets", "tagsDeleted"].flatMap((key) => (Array.isArray(part[key]) ? part[key] : [])).map(nameIn);
  const credentials = (Array.isArray(part.credentials) ? part.credentials : []).map(nameIn);
  const single = [isText(part.account) ? { address: part.account } : part.account, part.before, part.wallet, part.privateKey, part.interface, part.tag, part.policy, part.webhookEndpoint, part.invitation, part.credential, part.app, part.organization];
  const found = [...credentials, ...lists, ...single.map(nameIn), nameIn({ ...part, user: null, tag: null, privateKey: null, secret: null })].filter((name) => isText(name) && name !== "");
  if (found.length) return [...new Set(found)];
  const texts = (Array.isArray(part.intent) ? part.intent : []).filter((m) => isText(m?.value) && m.value && !isId(m.value));
  const names = texts.filter((m) => /name|label|url|email|phone|contact|publishable/i.test(m.name));
  const said = isObject(part.before) || isText(part.means) || isObject(part.user); // by more than the request
  return (names.length || said ? names : texts.filter((m) => !/^[A-Z0-9_]+$/.test(m.value))).map((m) => m.value);
}

const plain = (v) => (isText(v) ? v : isText(v?.text) ? v.text : JSON.stringify(v) ?? "");

// changedMembers are the names of what would be another than before.
const changedMembers = (before, after) => Object.keys(after).filter((name) => !name.endsWith("Source") && plain(before[name]) !== plain(after[name]));

// Members that a sentence can say as they were and as they would be.
const short = new Set(["name", "email", "phone", "url", "clientId", "senderName"]);

// changeOf says which member would be another, and what it would become if that is short.
function changeOf(name, before, after) {
  const [was, is] = [plain(before[name]), plain(after[name])];
  const what = label(name).replace(/^[A-Z](?![A-Z])/, (letter) => letter.toLowerCase());
  return short.has(name) && was.length + is.length <= 120 ? `${what}${was && ` from ${quoted(was)}`} to ${is ? quoted(is) : "none"}` : what;
}

function changeText(part, title) {
  const { before, after } = part;
  if (isText(before?.threshold) && isText(after?.threshold)) {
    const of = (q) => `${q.threshold} of ${q.members?.length ?? "?"} members`;
    const names = (all) => (Array.isArray(all) ? all : []).map((u) => u?.name ?? u?.userId).filter(isText).map(quoted);
    const [more, less] = [names(part.added), names(part.removed)];
    return `${title}: from ${of(before)} to ${of(after)}${more.length ? `; added: ${list(more)}` : ""}${less.length ? `; removed: ${list(less)}` : ""}`;
  }
  const about = subjects(part);
  const does = { EFFECT_ALLOW: "allows", EFFECT_DENY: "forbids" }[part.effect];
  const rule = does ? `, which ${does} ${part.condition ? `when ${quoted(plain(part.condition))}` : "everything"}` : "";
  const changes = isObject(before) && isObject(after) ? changedMembers(before, after).map((name) => changeOf(name, before, after)) : [];
  const holder = isText(part.user?.name) && !about.includes(part.user.name) ? ` for ${quoted(part.user.name)}` : "";
  const names = (key) => (Array.isArray(part[key]) ? part[key] : Array.isArray(part[key]?.tags) ? part[key].tags : []).map(nameIn).filter(isText).map(quoted);
  const sides = ["added", "removed"].map((key) => (names(key).length ? `; ${key}: ${list(names(key))}` : "")).join("");
  const to = isText(part.targetPublicKey?.value) ? ` to whoever holds the key ${part.targetPublicKey.value}` : "";
  return `${title}${about.length ? `: ${list(about.map(quoted))}` : ""}${holder}${to}${rule}${changes.length ? `; changes: ${list(changes, 8)}` : ""}${sides}`;
}

function typedText(part, title, own) {
  const where = part.domain?.name ? ` for ${quoted(scalar(part.domain.name))}` : "";
  const spender = part.message?.find?.((m) => m?.name === "spender");
  const amounts = part.amount ? [part.amount] : Array.isArray(part.amounts) ? part.amounts : [];
  const until = isText(part.until?.text) ? `, until ${part.until.text}` : "";
  if (/^Allow/.test(title) && spender && amounts.length) return `Allow ${whom(spender, own)} to take ${list(amounts.map((a) => limit(a, part.domain?.verifyingContract)))}${networkOf(part)}${until}; the signature alone is enough`;
  if (Array.isArray(part.gives)) return `${title}: give ${list(part.gives.map((a) => howMuch(a)))}, get ${part.gets?.length ? list(part.gets.map((a) => howMuch(a))) : "nothing"}${networkOf(part)}`;
  if (Array.isArray(part.calls) && isObject(part.calls[0])) return `${title}${networkOf(part)}: ${callText(part.calls[0], own)}`;
  return `${title}${part.primaryType ? `, ${part.primaryType}` : ""}${where}${networkOf(part)}`;
}

function partText(part, kind, title, own) {
  if (isObject(part.of)) {
    const unread = isObject(part.of.unreadable);
    const named = isText(part.of.contract) && (unread || !/^Transfer/.test(part.of.contract));
    return `${title}: ${partText(part.of, part.is, named ? part.of.contract : unread ? "something" : "Send", own)}`;
  }
  if (isObject(part.unreadable) && !part.calls) return `${title}${part.unreadable.length ? `: ${part.unreadable.length} bytes` : ""} that cannot be read`;
  if (kind === "ORGANIZATION_CHANGE") return changeText(part, title);
  if (isText(part.primaryType)) return typedText(part, title, own);
  if (isText(part.signIn?.domain)) return `${title}: ${quoted(part.signIn.domain)}, as ${whom(part.signIn.address, own)}`;
  if (Array.isArray(part.lines)) return `${title}: ${quoted(part.lines.filter(Boolean).slice(0, 2).join(" / "))}`;
  if (part.authority && part.address) return `Let code at ${whom(part.address, own)} act as ${whom(part.authority, own)}${networkOf(part)}`;
  const from = partyText(part.from ?? part.owner ?? part.signs?.[0]?.by, own);
  return `${deed(part, kind, title, own)}${feeText(part)}${from ? `; from ${from}` : ""}`;
}

// partTitle is what one of several payloads is.
const partTitle = (p) => (p.signIn ? "Sign in to a site" : p.primaryType ? "Sign typed data" : p.of ? `Sign ${p.is === "EIP7702_AUTHORIZATION" ? "an authorization" : "a transaction"} as bytes` : p.lines ? "Sign a text" : "Sign bytes");

// headline is a document in one sentence. own has names of the organization's accounts by their addresses in small letters.
export function headline(document, own = new Map()) {
  const title = isText(document?.title) && document.title ? document.title : "Something that is not named";
  try {
    const parts = document.parts.filter(isObject);
    if (parts.length === 1) return partText(parts[0], document.kind, title, own);
    return parts.length ? `${title}, ${parts.length} in all: ${list(parts.map((p) => partText(p, document.kind, partTitle(p), own).replace(/^./, (c) => c.toLowerCase())))}` : title;
  } catch (error) {
    console.debug(error); // a form of document that is not known here
    return title;
  }
}

// ---- The tree

// A Drawing knows which places are warned of, and which element shows each.
class Drawing {
  constructor(document, own) {
    this.own = own;
    this.places = new Map();
    this.warned = new Map();
    for (const w of Array.isArray(document.warnings) ? document.warnings : []) {
      for (const at of Array.isArray(w?.at) ? w.at : []) this.warned.set(at, [...(this.warned.get(at) ?? []), w]);
    }
  }

  // marks are the warnings about the places that an element shows.
  marks(paths) {
    return [...new Set(paths.flatMap((path) => this.warned.get(path) ?? []))].map((w) => h("p", { class: `place-mark ${weight(w.severity)[1]}` }, h("span", { class: "strong" }, `${weight(w.severity)[0]}: `), scalar(w.text)));
  }

  // warnedWithin tells whether a warning is about a place inside of one of these.
  warnedWithin(paths) {
    return [...this.warned.keys()].some((at) => paths.some((path) => scalar(at).startsWith(`${path}.`)));
  }

  // show notes that an element is what paths lead to.
  show(paths, node) {
    for (const path of paths) if (!this.places.has(path)) this.places.set(path, node);
    if (paths.some((path) => this.warned.has(path))) {
      node.setAttribute("tabindex", "-1");
      node.classList.add("warned");
    }
    return node;
  }

  // find is the element at a path, or else the one around it.
  find(path) {
    for (let at = path; at; at = at.includes(".") ? at.slice(0, at.lastIndexOf(".")) : "") if (this.places.has(at)) return this.places.get(at);
    return null;
  }
}

// Long words are addresses, hashes and data: whole, to be copied.
const isData = (text) => /^[^\s]{24,}$/.test(text) && /^[\w:.+/=-]+$/.test(text);

function text(value, what) {
  const shown = scalar(value);
  if (isText(value) && isData(value)) return copyable(value, what.toLowerCase(), { whole: true });
  if (Object.hasOwn(words, value ?? "")) return h("span", null, words[value], " ", h("code", { class: "note" }, value));
  return h("span", { class: isText(value) && value !== "" ? "wrap said" : "note" }, shown);
}

const note = (source) => h("span", { class: "note" }, ` (${sourceText(source)})`);

// Members that say something about the bytes stand last.
const late = new Set(["input", "signs", "encodeType", "domainHash", "messageHash", "calldataDigest", "selector", "version", "recentBlockhash", "txid", "intent"]);

// Members that only say of which bytes the rest was read, and what of them is signed, are folded unless a warning is about them.
const folded = new Set(["input", "signs"]);

// lead draws what an object is in the first place, and says which of its members that took.
function lead(o, key, d) {
  const what = label(key);
  if (has(o, "hex", "length", "sha256")) {
    return [["hex", "length", "sha256"], [copyable(scalar(o.hex), "the bytes", { whole: true }),
      h("p", { class: "note" }, `${scalar(o.length)} bytes in all, with the SHA-256 `, h("code", null, scalar(o.sha256)))]];
  }
  if (has(o, "text", "length", "sha256")) {
    return [["text", "length", "sha256"], [h("pre", null, scalar(o.text)), h("p", { class: "note" }, `This is the beginning of ${scalar(o.length)} characters with the SHA-256 `, h("code", null, scalar(o.sha256)))]];
  }
  if (isText(o.address)) {
    const named = isText(o.label);
    const mine = d.own.get(o.address.toLowerCase());
    const known = Object.hasOwn(labelSources, o.labelSource ?? "");
    return [["address", ...(named ? ["label", "labelSource"] : [])], [
      named && h("p", null, h("span", { class: known ? "strong wrap" : "wrap" }, known ? o.label : quoted(o.label)), o.labelSource && h("span", { class: "note" }, ` (${labelSources[o.labelSource] ?? sourceText(o.labelSource)})`)),
      mine && !(named && known) && h("p", null, h("span", { class: "strong wrap" }, mine), h("span", { class: "note" }, " (your wallet, as it is named now)")),
      copyable(o.address, "address", { whole: true })]];
  }
  if (isText(o.value) && (key === "amount" || ["unit", "symbol", "unlimited", "decimals", "text"].some((name) => has(o, name)))) {
    const all = o.unlimited === true;
    const scaled = all ? "Unlimited: everything, now and later" : isText(o.text) ? o.text : null;
    const used = ["value", "unit", ...(all ? ["unlimited"] : ["text"]), ...(isText(o.symbol) ? ["symbol", "symbolSource"] : []), ...(has(o, "decimals") ? ["decimals", "decimalsSource"] : [])];
    const raw = [h("code", { class: "wrap" }, o.value), ` ${o.unit ?? "in the smallest unit"}`];
    return [used, [
      h("p", null, scaled ? h("span", { class: "strong" }, scaled) : raw, isText(o.symbol) && [` ${o.symbol}`, o.symbolSource && note(o.symbolSource)]),
      (scaled || has(o, "decimals")) && h("p", { class: "note" }, scaled && raw, has(o, "decimals") && [scaled && ", ", `${scalar(o.decimals)} decimals`, o.decimalsSource && note(o.decimalsSource)])]];
  }
  if (o.source === "HOST") {
    return [["source", "most"], [h("p", null, "The server will say it when this is approved", has(o, "most") ? [", at most ", h("code", { class: "wrap" }, scalar(o.most))] : ".")]];
  }
  for (const name of ["text", "value"]) {
    if (has(o, name, "source") && !isObject(o[name])) return [[name, "source"], [text(o[name], what), note(o.source)]];
  }
  return [[], []];
}

// around are paths of an object with those of the members that it is drawn by.
const around = (paths, o, key, d) => [...paths, ...(isObject(o) ? paths.flatMap((path) => lead(o, key, d)[0].map((name) => `${path}.${name}`)) : [])];

const maxDepth = 60;

// inside draws an object: what it is, and every other member under its name.
function inside(o, path, key, d, depth, taken = []) {
  const [used, first] = lead(o, key, d);
  const done = new Set([...used, ...taken]);
  const both = isObject(o.before) && isObject(o.after) && !done.has("before");
  if (both) {
    done.add("before").add("after");
    first.push(difference(o, path, d, depth));
  }
  if (isText(o.means) && !done.has("means")) {
    done.add("means");
    first.unshift(h("p", { class: "strong wrap" }, o.means)); // the program's own sentence
  }
  const names = Object.keys(o).filter((name) => !done.has(name) && !(name.endsWith("Source") && has(o, name.slice(0, -6)) && !done.has(name.slice(0, -6))));
  names.sort((a, b) => late.has(a) - late.has(b));
  const rows = names.map((name) => row(name, o[name], `${path}.${name}`, d, depth, o[`${name}Source`]));
  return [first.flat(Infinity).filter(Boolean).length > 0 && h("div", { class: "lead" }, first), rows.length > 0 && h("dl", { class: "facts" }, rows)];
}

// difference shows what was and what would be, member by member.
function difference(o, path, d, depth) {
  const names = [...new Set([...Object.keys(o.before), ...Object.keys(o.after)])].filter((name) => !(name.endsWith("Source") && (has(o.before, name.slice(0, -6)) || has(o.after, name.slice(0, -6)))));
  const cell = (side, name) => {
    if (!has(o[side], name)) return h("span", { class: "note" }, "–");
    const paths = [`${path}.${side}.${name}`];
    return d.show(paths, h("div", null, value(o[side][name], paths[0], name, d, depth + 1), o[side][`${name}Source`] && note(o[side][`${name}Source`]), d.marks(paths)));
  };
  const changes = changedMembers(o.before, o.after);
  const rows = names.map((name) => [h("span", { class: "strong nowrap" }, label(name)), changes.includes(name) ? badge("Changes", "wait") : badge("Stays"), cell("before", name), cell("after", name)]);
  const node = h("div", { class: "difference" }, d.marks([`${path}.before`, `${path}.after`]), table("Before and after", ["Member", "Change", "Before", "After"], rows));
  return d.show([`${path}.before`, `${path}.after`], node);
}

// A name in an entry is the payload's own; a member that is called so in a record has a source.
const isEntry = (item) => isObject(item) && isText(item.name) && !has(item, "nameSource") && ["type", "value", "members", "items", "address", "absent", "unreadable"].some((name) => has(item, name));

function items(all, path, key, d, depth) {
  if (all.length === 0) return h("span", { class: "note" }, "none");
  if (key === "lines" && all.every(isText)) return h("ol", { class: "lines" }, all.map((line) => h("li", null, h("code", { class: "wrap" }, line))));
  const entries = all.map((item, i) => {
    const at = [`${path}.${i}`];
    if (isEntry(item)) {
      at.push(`${path}.${item.name}`);
      const only = onlyMember(item);
      const paths = only ? [...at, `${at[0]}.${only}`, `${at[1]}.${only}`] : around(at, item, key, d);
      return d.show(paths, h("div", null,
        h("dt", null, h("code", { class: "wrap" }, item.name), has(item, "type") && [" ", h("span", { class: "note" }, scalar(item.type))]),
        h("dd", null, d.marks(paths), only ? value(item[only], `${at[1]}.${only}`, only, d, depth + 1) : inside(item, at[1], "value", d, depth + 1, ["name", "type"]))));
    }
    const name = all.length > 1 || key === "calls" ? `${singular(key)} ${i + 1}` : singular(key);
    const paths = around(at, item, key, d);
    if (!isObject(item)) return d.show(at, h("div", null, h("dt", null, name), h("dd", null, d.marks(at), value(item, at[0], key, d, depth + 1))));
    if (Object.keys(item).length === 1 && has(item, "value")) {
      paths.push(`${at[0]}.value`);
      return d.show(paths, h("div", null, h("dt", null, name), h("dd", null, d.marks(paths), value(item.value, `${at[0]}.value`, key, d, depth + 1))));
    }
    const only = Object.keys(item).length === 1 && Array.isArray(item.members) && `${at[0]}.members`;
    return d.show(paths, h("div", { class: "item" },
      h("p", { class: "strong" }, name, key === "calls" && h("span", { class: "wrap" }, `: ${safely(() => callText(item, d.own))}`)), d.marks(paths),
      only ? items(item.members, only, "members", d, depth + 1) : inside(item, at[0], key, d, depth + 1)));
  });
  return h("div", { class: "items" }, groups(entries));
}

// groups puts rows that follow each other into one list of names and values.
function groups(entries) {
  const out = [];
  for (const node of entries) {
    if (node.classList.contains("item")) out.push(node);
    else if (out.at(-1)?.tagName === "DL") out.at(-1).append(node);
    else out.push(h("dl", { class: "facts" }, node));
  }
  return out;
}

// onlyMember is what an entry has beside its name and type, if it is one thing.
function onlyMember(item) {
  const rest = Object.keys(item).filter((name) => name !== "name" && name !== "type");
  return rest.length === 1 && ["value", "members", "items"].includes(rest[0]) ? rest[0] : null;
}

function safely(say) {
  try {
    return say();
  } catch {
    return "not known here";
  }
}

const singulars = { addresses: "Address", policies: "Policy", accessList: "Address", inputs: "Input", signs: "Signature", gives: "You give", gets: "You get", getsOthers: "Others get",
  readBy: "Policy", behind: "Policy", required: "Step", anyOf: "Factor", tagsDeleted: "Tag", properties: "Property", methods: "Way to log in" };
const singular = (key) => singulars[key] ?? label(key.replace(/s$/, ""));

function value(v, path, key, d, depth) {
  if (depth > maxDepth) return h("pre", null, JSON.stringify(v));
  if (Array.isArray(v)) return items(v, path, key, d, depth);
  if (isObject(v)) return inside(v, path, key, d, depth);
  if (isText(v) && (key === "source" || key.endsWith("Source"))) return h("span", null, sourceText(v));
  return text(v, label(key));
}

// unread is what stands for bytes that cannot be read.
function unread(o, path, d, depth) {
  const { reason, ...rest } = isObject(o) ? o : { reason: o };
  return h("div", { class: "unread" }, h("p", { class: "strong" }, "This cannot be read"),
    h("p", null, reasons[reason] ?? "Nobody here can tell why.", " ", h("code", null, scalar(reason))), inside(rest, path, "unreadable", d, depth));
}

// row is one member of an object.
function row(key, v, path, d, depth, source) {
  const paths = around([path], v, key, d);
  const content = key === "unreadable" ? unread(v, path, d, depth + 1) : value(v, path, key, d, depth + 1);
  const nested = key === "unreadable" || Array.isArray(v) && v.length > 0 || isObject(v) && (isObject(v.before) || Object.values(v).filter((x) => x !== null && typeof x === "object").length > 0 || Object.keys(v).length > 8);
  if (folded.has(key) && (isObject(v) || Array.isArray(v))) {
    return d.show(paths, h("div", { class: "wide" }, h("dt", { class: "hidden" }, label(key)), h("dd", null, d.marks(paths), h("details", { class: "fold", open: d.warnedWithin(paths) }, h("summary", null, label(key)), content))));
  }
  const name = key === "by" && path.startsWith("sources.") ? "Put there by" : label(key);
  return d.show(paths, h("div", { class: nested ? "wide" : null }, h("dt", null, name), h("dd", null, d.marks(paths), content, source && note(source))));
}

// ---- The whole

const byName = new Set(["args", "message", "members", "intent"]);

// placeText names a path for readers. Names that the payload brings along stay as they are.
function placeText(path) {
  const steps = path.split(".");
  const words = [];
  for (let i = 0; i < steps.length; i++) {
    const step = steps[i];
    if (/^\d+$/.test(steps[i + 1] ?? "")) {
      if (step !== "parts") words.push(`${singular(step).toLowerCase()} ${Number(steps[i + 1]) + 1}`);
      else if (steps[i + 1] !== "0") words.push(`payload ${Number(steps[i + 1]) + 1}`);
      i++;
    } else if (byName.has(step) && i + 1 < steps.length) words.push(steps[++i]);
    else if (step !== "parts" && !(step === "value" && i > 0)) words.push(label(step).toLowerCase());
  }
  return words.length === 1 && words[0] === label("to").toLowerCase() ? "the receiver" : words.join(", ") || "the whole request";
}

function lookAt(node) {
  for (let fold = node?.closest("details:not([open])"); fold; fold = fold.parentElement.closest("details:not([open])")) fold.open = true;
  if (!node?.hasAttribute("tabindex")) node?.setAttribute("tabindex", "-1");
  node?.scrollIntoView({ block: "center" });
  node?.focus({ preventScroll: true });
}

function warningItem(w, d) {
  const at = Array.isArray(w.at) ? w.at : [];
  return h("li", { class: `warning ${weight(w.severity)[1]}` },
    h("p", null, badge(...weight(w.severity)), " ", h("span", { class: "strong" }, scalar(w.text))),
    h("div", { class: "row" }, at.map((path) => button(`Show ${placeText(scalar(path))}`, { class: "button small place", title: scalar(path), onclick: () => lookAt(d.find(scalar(path))) })),
      w.more && h("span", { class: "note" }, `and ${scalar(w.more)} more places`)),
    Object.entries(w).filter(([key]) => !["code", "severity", "text", "at", "more"].includes(key)).map(([key, v]) => h("p", null, `${label(key)}: `, text(isText(v) ? v : JSON.stringify(v), label(key)))));
}

const order = ["DANGER", "WARN", "INFO"];
const rank = (w) => (order.includes(w?.severity) ? order.indexOf(w.severity) : -1);

// codesOf are the warnings under the names that the document has for them.
const codesOf = (warnings) => warnings.length > 0 && h("div", { class: "wide" }, h("dt", null, "Warnings by their names"),
  h("dd", null, h("ul", { class: "plainlist" }, warnings.map((w) => h("li", null, h("code", { class: "wrap" }, scalar(w.code)))))));

// drawn shows a document: what would be signed or changed, then, folded, what a digest commits to besides. asked is what the parts of a
// document that is looked at later are called.
export function drawn(document, own = new Map(), { asked } = {}) {
  const d = new Drawing(document, own);
  const warnings = (Array.isArray(document.warnings) ? document.warnings : []).filter(isObject).sort((a, b) => rank(a) - rank(b));
  const parts = Array.isArray(document.parts) ? document.parts : [document.parts];
  const known = new Set(["title", "warnings", "parts", "sources"]);
  const blind = document.readable === "NONE";
  const panels = parts.map((part, i) => {
    const path = `parts.${i}`;
    const heading = parts.length > 1 ? `Payload ${i + 1} of ${parts.length}` : asked ?? (document.kind === "ORGANIZATION_CHANGE" ? "What would change" : "What would be signed");
    return d.show([path], panel(heading, h("div", { class: "items" }, d.marks([path]), isObject(part) ? inside(part, path, "part", d, 0) : value(part, path, "part", d, 0))));
  });
  d.places.set("parts", panels[0]);
  return h("div", { class: "decoded" },
    h("p", { class: "headline", id: unique("headline") }, headline(document, own)),
    blind && h("div", { class: "state bad", role: "note" }, h("p", { class: "strong" }, asked ? "This cannot be read" : "This cannot be read: approving signs blindly"), h("p", null, "Nobody can tell what is signed.", !asked && " Approve only if you know from elsewhere what it is.")),
    document.readable === "PARTIAL" && h("div", { class: "state bad", role: "note" }, h("p", { class: "strong" }, "A part of this cannot be read, or is shown in part only")),
    document.readable !== "FULL" && !blind && document.readable !== "PARTIAL" && h("div", { class: "state bad", role: "note" }, h("p", { class: "strong" }, "It is not known how much of this can be read")),
    warnings.length > 0 ? panel("Warnings", h("ul", { class: "warnings" }, warnings.map((w) => warningItem(w, d)))) : h("p", { class: "note nowarnings" }, "There are no warnings."),
    panels,
    Array.isArray(document.sources) && panel("Where names and numbers are from", items(document.sources, "sources", "sources", d, 0)),
    h("details", { class: "panel" }, h("summary", null, "The document"),
      h("dl", { class: "facts" }, Object.keys(document).filter((key) => !known.has(key) || key === "title").map((key) => row(key, document[key], key, d, 0)), codesOf(warnings))));
}
