// New policies by task: what is often wanted, with a few fields, from which the expressions are made.

import { query } from "../api.js";
import { fill, h } from "../dom.js";
import { choices, empty, field, form, loadOne, panel, title } from "../ui.js";
import { unsaved } from "../unsaved.js";
import { entriesOf } from "./addressbook.js";
import { networks } from "./wallets.js";

const back = { href: "#/policies", text: "Policies" };
const newPolicy = { href: "#/policies/new", text: "Tasks" };

// wrong refuses the value of a field.
const wrong = (name, description) => Object.assign(new Error(description), { fields: [{ field: name, description }] });

// ---- Values

const most = 2n ** 127n - 1n; // of the numbers that policies compare

// units is an amount in the smallest unit, of which there are 10 to the power of decimals: exactly, or refused.
export function units(name, text, decimals) {
  const [, whole, , part = ""] = /^(\d+)(\.(\d+))?$/.exec(text) ?? [];
  if (whole === undefined) throw wrong(name, "Write a number such as 0.1, with a point and without anything else.");
  if (part.length > decimals) throw wrong(name, `At most ${decimals} decimals: smaller amounts do not exist.`);
  const amount = BigInt(whole + part.padEnd(decimals, "0"));
  if (amount > most) throw wrong(name, "Policies cannot compare numbers as large as this.");
  return amount;
}

export const isAddress = (text) => /^0x[0-9a-fA-F]{40}$/.test(text);

function addresses(name, list) {
  const bad = list.find((text) => !isAddress(text));
  if (bad) throw wrong(name, `“${bad}” is no Ethereum address: 0x and 40 hexadecimal digits.`);
  return [...new Set(list)];
}

const minutes = (text) => Number(text.slice(0, 2)) * 60 + Number(text.slice(3, 5));

// openFor is how long it is from one time of a day to another one, as policies write it. To the same time it is a day.
function openFor(from, until) {
  const length = (minutes(until) - minutes(from) + 1440) % 1440 || 1440;
  return [length >= 60 && `${Math.floor(length / 60)}h`, length % 60 > 0 && `${length % 60}m`].filter(Boolean).join("");
}

// ---- Expressions

const quoted = (text) => `'${text}'`;
const among = (what, list) => (list.length === 1 ? `${what} == ${quoted(list[0])}` : `${what} in [${list.map(quoted).join(", ")}]`);
const both = (...parts) => parts.join("\n&& ");

// approves is a consensus: one user, or anybody with a tag.
const approves = (who) => {
  const [kind, id] = who.split(" ");
  return `approvers.any(user, ${kind === "tag" ? `user.tags.contains(${quoted(id)})` : `user.id == ${quoted(id)}`})`;
};

const paying = ["SIGN_TRANSACTION", "ETH_SEND_TRANSACTION"];
const signing = ["SIGN_TRANSACTION", "ETH_SEND_TRANSACTION", "SOL_SEND_TRANSACTION"];

// ---- Fields. Those of which the name is in given have that value.

const userTags = (o) => o.tags.filter((t) => t.tagType === "TAG_TYPE_USER");

// whoever lists users, those of the root quorum last because it decides without policies, and tags.
function whoever(o) {
  const root = new Set(o.rootQuorum.userIds);
  const users = o.users.map((u) => [`user ${u.userId}`, root.has(u.userId) ? `${u.userName} (in the root quorum)` : u.userName, root.has(u.userId)]);
  return [...users.filter(([, , member]) => !member), ...userTags(o).map((t) => [`tag ${t.tagId}`, `Everyone with the tag ${t.tagName}`]), ...users.filter(([, , member]) => member)];
}

const nameOf = (options, value) => options.find(([v]) => v === value)?.[1];
const pick = (name, label, options, given, hint) => field({ name, label, kind: "select", options, value: given[name] ?? options[0]?.[0], hint });
const walletsOf = (o) => o.wallets.map((w) => [w.walletId, w.walletName]);
const who = (o, given) => pick("who", "Who", whoever(o), given);
const wallet = (o, given) => pick("wallet", "Wallet", walletsOf(o), given);

// receivers ask for addresses, of which those in the address book need only a tick.
function receivers(o, given, { required = false, hint = "One per line." }) {
  const book = entriesOf(o.features).filter((e) => isAddress(e.address));
  return [
    book.length > 0 && choices({ name: "book", legend: "From your address book", options: book.map((e) => [e.address, e.name]), value: given.book }),
    field({ name: "to", label: book.length ? "Other addresses" : "To these addresses", kind: "lines", class: "code", required: required && book.length === 0, value: given.to, hint }),
    book.length === 0 && h("p", { class: "note" }, "Addresses that you pay often can have names: ", h("a", { href: "#/addressbook" }, "Address book"), "."),
  ];
}

// receiversIn are the addresses that were ticked and those that were written.
function receiversIn({ book = [], to }, required = true) {
  if (required && book.length + to.length === 0) throw wrong("to", "Tick or write at least one address.");
  return addresses("to", [...book, ...to]);
}

const chains = networks.ADDRESS_FORMAT_ETHEREUM.map(([caip2, name]) => [caip2.replace("eip155:", ""), name]).filter(([, name]) => !name.startsWith("Tempo"));
const withEther = chains.filter(([, name]) => /Ethereum|Base|Optimism|Arbitrum/.test(name));

const zones = () => [...new Set([Intl.DateTimeFormat().resolvedOptions().timeZone, "UTC", ...Intl.supportedValuesOf("timeZone")])].filter(Boolean);
const days = [["1-5", "Monday to Friday"], ["*", "Every day"], ["1-6", "Monday to Saturday"]];

const messages = "messages";
const signs = [["transactions", "Transactions"], [messages, "Messages (EIP-191), no transactions"]];

const allow = (policyName, condition, consensus) => ({ policyName, effect: "EFFECT_ALLOW", condition, consensus });
const deny = (policyName, condition, notes, time = "") => ({ policyName, effect: "EFFECT_DENY", condition, time, notes });
const whose = (o, all) => nameOf(whoever(o), all.who).replace(" (in the root quorum)", "");

// transferOf is the ERC-20 function transfer(address, uint256) in an uploaded interface, with the names of its arguments, or null.
function transferOf({ smartContractInterface }) {
  try {
    const all = JSON.parse(smartContractInterface);
    const inputs = all.find((f) => f.type === "function" && f.name === "transfer" && f.inputs.map((i) => i.type).join() === "address,uint256")?.inputs.map((i) => i.name);
    return inputs?.every((name) => /^\w+$/.test(name)) ? { to: inputs[0], amount: inputs[1] } : null;
  } catch {
    return null; // of another kind, or of another form
  }
}

const tokensOf = (o) => o.interfaces.filter((i) => i.type === "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM" && transferOf(i));

// Each task has what must be there, its fields, and the policy that they make.
const tasks = [
  {
    name: "sign", title: "Let a user, or all with a tag, sign with a wallet", about: "They sign alone, with every account of the wallet, and on every chain.", needs: ["wallets"],
    fields: (o, given) => [who(o, given), wallet(o, given), pick("what", "What they sign", signs, given)],
    make: (all, o) => allow(`${whose(o, all)}: sign with ${nameOf(walletsOf(o), all.wallet)}`,
      both(all.what === messages ? "activity.kind == 'SIGN_RAW_PAYLOAD'" : among("activity.kind", signing), `wallet.id == ${quoted(all.wallet)}`, ...(all.what === messages ? ["activity.params.payload_kind == 'MESSAGE'"] : [])), approves(all.who)),
  },
  {
    name: "pay", title: "Let them pay ether up to an amount, to known addresses", about: "For each payment; there is no limit on how many. Calls of contracts are not allowed, and fees are not limited.", needs: ["wallets"],
    fields: (o, given) => [h("div", { class: "columns" }, who(o, given), wallet(o, given)),
      receivers(o, given, { required: true }),
      h("div", { class: "columns" }, field({ name: "amount", label: "At most (ETH)", required: true, inputmode: "decimal", value: given.amount, placeholder: "0.1" }), pick("network", "Network", withEther, given))],
    make: (all, o) => {
      const wei = units("amount", all.amount, 18);
      return allow(`${whose(o, all)}: up to ${all.amount} ETH`, both(among("activity.kind", paying), `wallet.id == ${quoted(all.wallet)}`, `eth.tx.chain_id == ${all.network}`, among("eth.tx.to", receiversIn(all)), `eth.tx.value <= ${wei}`, "eth.tx.data == '0x'"), approves(all.who));
    },
  },
  {
    name: "token", title: "Let them send a token up to an amount (ERC-20)", about: "For each transfer; there is no limit on how many.", needs: ["wallets", "tokens"],
    fields: (o, given) => [h("div", { class: "columns" }, who(o, given), wallet(o, given)),
      h("div", { class: "columns" }, pick("token", "Token", tokensOf(o).map((i) => [i.smartContractInterfaceId, i.label]), given, "Tokens whose interface (ABI) is uploaded: without it a policy cannot read amounts."), pick("network", "Network", chains, given)),
      h("div", { class: "columns" }, field({ name: "amount", label: "At most (tokens)", required: true, inputmode: "decimal", value: given.amount, placeholder: "100" }),
        field({ name: "decimals", label: "Decimals of the token", kind: "number", min: 0, max: 36, step: 1, required: true, value: given.decimals, hint: "6 for USDC and USDT on most chains, 18 for most others." })),
      receivers(o, given, { hint: "One per line. None at all: to anybody." })],
    make: (all, o) => {
      const token = tokensOf(o).find((i) => i.smartContractInterfaceId === all.token);
      const { to, amount } = transferOf(token);
      const limit = units("amount", all.amount, Number(all.decimals));
      const receiving = receiversIn(all, false).map((a) => a.toLowerCase());
      return allow(`${whose(o, all)}: up to ${all.amount} ${token.label}`, both(among("activity.kind", paying), `wallet.id == ${quoted(all.wallet)}`, `eth.tx.chain_id == ${all.network}`, `eth.tx.to == ${quoted(token.smartContractAddress)}`,
        "eth.tx.function_signature == '0xa9059cbb'", `eth.tx.contract_call_args['${amount}'] <= ${limit}`, ...(receiving.length ? [among(`eth.tx.contract_call_args['${to}']`, receiving)] : [])), approves(all.who));
    },
  },
  {
    name: "two", title: "Let users with a tag sign with a wallet when enough of them approve", about: "A transaction waits until that many users with the tag have approved it. Who asks for it counts, with the tag.", needs: ["wallets", "tags"],
    fields: (o, given) => [pick("tag", "Tag", userTags(o).map((t) => [t.tagId, t.tagName]), given), field({ name: "count", label: "How many must approve", kind: "number", min: 2, step: 1, required: true, value: given.count ?? 2, wide: false }), wallet(o, given)],
    make: (all, o) => allow(`${all.count} of ${nameOf(userTags(o).map((t) => [t.tagId, t.tagName]), all.tag)}: sign with ${nameOf(walletsOf(o), all.wallet)}`,
      both(among("activity.kind", signing), `wallet.id == ${quoted(all.wallet)}`), `approvers.filter(user, user.tags.contains(${quoted(all.tag)})).count() >= ${all.count}`),
  },
  {
    name: "block", title: "Block an address", about: "Nobody but the root quorum can send ether to it or call it, on any EVM chain. A token can still be sent there: then the token's contract is what is called. And whoever may sign raw payloads can sign anything.",
    fields: (o, given) => [field({ name: "to", label: "Addresses", kind: "lines", class: "code", required: true, value: given.to, hint: "One per line." }), field({ name: "why", label: "Why", value: given.why })],
    make: (all) => {
      const list = addresses("to", all.to);
      return deny(`Blocked: ${list.length === 1 ? list[0] : `${list.length} addresses`}`, both(among("activity.kind", paying), among("eth.tx.to", list)), all.why);
    },
  },
  {
    name: "hours", title: "Sign in working hours only", about: "Outside of these hours nobody but the root quorum can sign, whatever other policies allow.",
    fields: (o, given) => [pick("days", "Days", days, given),
      h("div", { class: "columns" }, field({ name: "from", label: "From", kind: "time", required: true, value: given.from ?? "09:00" }), field({ name: "until", label: "Until", kind: "time", required: true, value: given.until ?? "17:00", hint: "An earlier time is one of the next day." })),
      pick("zone", "Time zone", zones().map((z) => [z, z]), given)],
    make: (all) => deny(`No signing outside ${all.from} to ${all.until}`, "activity.action == 'SIGN'", "",
      `!CronSpan('${minutes(all.from) % 60} ${Math.floor(minutes(all.from) / 60)} * * ${all.days}', '${openFor(all.from, all.until)}', '${all.zone}')`),
  },
  {
    name: "wallets", title: "Let a user, or all with a tag, create wallets", about: "To create one is not to sign with it: that takes another policy.",
    fields: (o, given) => [who(o, given), pick("what", "What they create", [["both", "Wallets, and accounts in all wallets"], ["wallets", "Wallets only"]], given)],
    make: (all, o) => allow(`${whose(o, all)}: create wallets`, among("activity.kind", all.what === "both" ? ["CREATE_WALLET", "CREATE_WALLET_ACCOUNTS"] : ["CREATE_WALLET"]), approves(all.who)),
  },
  {
    name: "exports", title: "Forbid exports", about: "Nobody but the root quorum can get keys out, whatever other policies allow.",
    fields: (o, given) => [pick("what", "What stays", [["keys", "Wallets and private keys"], ["all", "Wallets, private keys and secrets"]], given), field({ name: "why", label: "Why", value: given.why })],
    make: (all) => deny(all.what === "keys" ? "No exports of keys" : "No exports", all.what === "keys" ? among("activity.kind", ["EXPORT_WALLET", "EXPORT_WALLET_ACCOUNT", "EXPORT_PRIVATE_KEY"]) : "activity.action == 'EXPORT'", all.why),
  },
];

// chooseTask offers the tasks.
export function chooseTask(main) {
  const way = (href, text, about) => h("li", null, h("a", { class: "task", href }, h("span", { class: "strong" }, text), h("span", { class: "note" }, about)));
  fill(main, title("New policy", { back, intro: "What should the policy do? You see it in words before it is in force, and can change its expressions." }),
    h("ul", { class: "tasks" }, tasks.map((t) => way(`#/policies/new?task=${t.name}`, t.title, t.about)), way("#/policies/new?task=own", "Write it yourself", "An empty form, with suggestions while you write.")));
}

const missing = {
  wallets: (o) => o.wallets.length === 0 && empty("There is no wallet yet.", h("a", { class: "button", href: "#/wallets" }, "Wallets")),
  tags: (o) => userTags(o).length === 0 && empty("There is no tag of users yet. A tag names a group of users.", h("a", { class: "button", href: "#/users/tags" }, "Create a tag")),
  tokens: (o) => tokensOf(o).length === 0 && empty("No interface (ABI) with transfer(address,uint256) is uploaded: without it a policy cannot read the amount of a token. Interfaces are uploaded by CREATE_SMART_CONTRACT_INTERFACE of the interface."),
};

// givenIn is what was filled in before the form was left.
function givenIn(search) {
  try {
    return Object(JSON.parse(search.get("with")));
  } catch {
    return {};
  }
}

// fillTask shows the fields of a task, and leads to the check of the policy that they make.
export function fillTask(main, name, search) {
  const task = tasks.find((t) => t.name === name);
  if (!task) {
    chooseTask(main);
    return;
  }
  loadOne(main, "the organization", task.title, newPolicy, async () => {
    const [{ organizationData }, interfaces] = await Promise.all([query("get_organization"), task.needs?.includes("tokens") ? query("list_smart_contract_interfaces") : null]);
    return { ...organizationData, interfaces: interfaces?.smartContractInterfaces ?? [] };
  }, (o) => {
    const lacks = task.needs?.map((need) => missing[need](o)).find(Boolean);
    const run = async (all) => {
      const policy = task.make(all, o);
      saved();
      history.replaceState(history.state, "", `#/policies/new?${new URLSearchParams({ task: name, with: JSON.stringify(all) })}`); // to come back to
      location.hash = `#/policies/new?draft=${encodeURIComponent(JSON.stringify({ ...policy, policyName: policy.policyName.slice(0, 255) }))}&check=1`;
    };
    const head = title(task.title, { back: newPolicy, intro: task.about });
    if (lacks) return [head, lacks];
    const node = form({ fields: task.fields(o, givenIn(search)), action: "Continue", cancel: h("a", { class: "button quiet", href: newPolicy.href }, "Back"), run });
    const saved = unsaved(node);
    return [head, panel("Your choices", node)];
  });
}
