// Fields for the parameters of the requests that are tested most, in the place of JSON.

import { accountOf, chains } from "../chains.js";
import { choices, field } from "../ui.js";
import { fromHex, toHex } from "../stamp.js";
import { effects } from "./policywords.js";
import { isAddress, units } from "./policytasks.js";
import { newUser } from "./samples.js";
import { formatOf, networks } from "./wallets.js";

const wrong = (name, description) => Object.assign(new Error(description), { fields: [{ field: name, description }] });

// ---- An unsigned transaction of Ethereum (EIP-1559)

// bytesOf is a number as RLP has it, without zeros in front.
function bytesOf(number) {
  const hex = number.toString(16);
  return number === 0n ? new Uint8Array() : fromHex(hex.length % 2 ? `0${hex}` : hex);
}

const joined = (parts) => Uint8Array.from(parts.flatMap((p) => [...p]));

// header stands before what has so many bytes. base is 0x80 for a text and 0xc0 for a list.
const header = (base, length) => (length < 56 ? Uint8Array.of(base + length) : joined([[base + 55 + bytesOf(BigInt(length)).length], bytesOf(BigInt(length))]));

// rlp encodes bytes, numbers and lists of them.
function rlp(value) {
  if (Array.isArray(value)) {
    const inner = joined(value.map(rlp));
    return joined([header(0xc0, inner.length), inner]);
  }
  const bytes = typeof value === "bigint" ? bytesOf(value) : value;
  return bytes.length === 1 && bytes[0] < 0x80 ? bytes : joined([header(0x80, bytes.length), bytes]);
}

const gwei = 10n ** 9n;

// transfer is a payment of ether with usual fees.
const transfer = (chainId, to, wei) => `02${toHex(rlp([chainId, 0n, 2n * gwei, 30n * gwei, 21000n, fromHex(to.slice(2)), wei, new Uint8Array(), []]))}`;

// ---- The forms

const isEthereum = (a) => a.addressFormat === "ADDRESS_FORMAT_ETHEREUM";
const ether = networks.ADDRESS_FORMAT_ETHEREUM.filter(([, name]) => !name.startsWith("Tempo"));

function accountField(accounts) {
  const options = accounts.map((a) => [a.address, `${a.walletDetails?.walletName ?? formatOf(a)}: ${a.address.length > 20 ? `${a.address.slice(0, 8)}…${a.address.slice(-6)}` : a.address}${isEthereum(a) ? "" : ` (${formatOf(a)})`}`]);
  return field({ name: "signWith", label: "Account", kind: "select", options, value: options[0][0] });
}

// Each form has its fields, and makes parameters of their values. needs tells whether the organization has what it takes.
const forms = {
  SIGN_TRANSACTION: {
    needs: ({ accounts }) => accounts.some(isEthereum),
    fields: ({ accounts }) => [
      accountField(accounts.filter(isEthereum)),
      field({ name: "network", label: "Network", kind: "select", options: ether, value: "eip155:11155111" }),
      field({ name: "to", label: "To", class: "code", optional: false, placeholder: "0x", spellcheck: "false", autocapitalize: "off" }),
      field({ name: "amount", label: "Amount", optional: false, inputmode: "decimal", value: "0.01", wide: false, hint: "In the network's own coin, such as ether." }),
    ],
    make: ({ signWith, network, to, amount }) => {
      if (!isAddress(to)) throw wrong("to", "Write an Ethereum address: 0x and 40 hexadecimal digits.");
      return { signWith, type: "TRANSACTION_TYPE_ETHEREUM", unsignedTransaction: transfer(BigInt(network.replace("eip155:", "")), to, units("amount", amount, 18)) };
    },
  },
  SIGN_RAW_PAYLOAD: {
    needs: ({ accounts }) => accounts.length > 0,
    fields: ({ accounts }) => [accountField(accounts), field({ name: "payload", label: "Message", kind: "textarea", optional: false, value: "Hello", rows: 2 })],
    make: ({ signWith, payload }, { accounts }) => {
      if (!payload) throw wrong("payload", "Write a message.");
      const hashed = accounts.find((a) => a.address === signWith)?.curve !== "CURVE_ED25519";
      return { signWith, payload, encoding: "PAYLOAD_ENCODING_TEXT_UTF8", hashFunction: hashed ? "HASH_FUNCTION_KECCAK256" : "HASH_FUNCTION_NOT_APPLICABLE" };
    },
  },
  CREATE_WALLET: {
    fields: () => [
      field({ name: "walletName", label: "Name", optional: false, value: "Trial" }),
      choices({ name: "chains", legend: "Accounts", options: chains.map(([id, text]) => [id, text]), value: ["ethereum"] }),
    ],
    make: ({ walletName, chains: chosen }) => ({ walletName, accounts: chosen.map((id) => accountOf(id)) }),
  },
  CREATE_USERS: {
    fields: ({ tags }) => [
      field({ name: "userName", label: "Name", optional: false, value: "Trial" }),
      tags.length > 0 && choices({ name: "userTags", legend: "Tags", options: tags.map((t) => [t.tagId, t.tagName]) }),
    ],
    make: ({ userName, userTags = [] }) => ({ users: [newUser(userName, userTags)] }),
  },
  CREATE_POLICY: {
    fields: ({ userId }) => [
      field({ name: "policyName", label: "Name", optional: false, value: "Trial" }),
      field({ name: "newEffect", label: "What it does", kind: "select", options: effects, value: "EFFECT_ALLOW", wide: false }),
      field({ name: "newCondition", label: "Its condition", kind: "textarea", class: "code", rows: 2, value: "activity.kind == 'CREATE_WALLET'" }),
      field({ name: "newConsensus", label: "Its consensus", kind: "textarea", class: "code", rows: 2, value: `approvers.any(user, user.id == '${userId}')` }),
    ],
    make: ({ policyName, newEffect, newCondition, newConsensus }) => ({ policyName, effect: newEffect, condition: newCondition, consensus: newConsensus, notes: "" }),
  },
};

// formFor gives the fields of a type of request and what makes its parameters; null where only JSON says them. has is what there is: accounts,
// tags of users, and the reader's id.
export function formFor(type, has) {
  const form = forms[type];
  if (!form || form.needs && !form.needs(has)) return null;
  return { fields: form.fields(has), make: (values) => form.make(values, has) };
}
