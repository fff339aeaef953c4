// The request of an activity as a table: its members under names that people read, with names of the organization for ids.

import { h } from "../dom.js";
import { copyable, milliseconds, words } from "../ui.js";
import { namesOf, organizationOf } from "./plainpolicies.js";

const ids = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

// idsIn are the ids of things that a request names.
function idsIn(value, found = new Set()) {
  if (typeof value === "string" && ids.test(value)) found.add(value);
  else if (value !== null && typeof value === "object") for (const member of Object.values(value)) idsIn(member, found);
  return found;
}

// namesIn are the names that the organization has today for ids in a request. What was deleted has none.
export async function namesIn(intent, of = {}) {
  return idsIn(intent).size === 0 ? new Map() : namesOf(await organizationOf(of));
}

// memberText is the name of a member as people read it: userIds is "Users", policyName "Policy name".
const memberText = (key) => words(key.replace(/(?<=[a-z])Ids?$/, (end) => (end === "Ids" ? "s" : "")).replace(/([a-z0-9])([A-Z])/g, "$1_$2")).replace(/ys$/, "ies");

// Names of the interface that are values, such as EFFECT_ALLOW.
const prefixes = /^(EFFECT|CURVE|PATH_FORMAT|ADDRESS_FORMAT|HASH_FUNCTION|PAYLOAD_ENCODING|TRANSACTION_TYPE|API_KEY_CURVE|FEATURE_NAME)_/;

function leaf(key, value, names) {
  if (value === true || value === false) return value ? "Yes" : "No";
  if (value === null || value === undefined || value === "") return h("span", { class: "note" }, "none");
  const text = String(value);
  if (names.has(text)) return h("span", null, h("bdi", { class: "strong wrap" }, names.get(text)), " ", copyable(text, "id"));
  if (/Ms$/.test(key) && /^\d{13}$/.test(text)) return new Date(milliseconds({ seconds: Number(text) / 1000 })).toLocaleString();
  if (prefixes.test(text)) return h("span", { class: "wrap" }, words(text.replace(prefixes, "")));
  if (/^\S{24,}$/.test(text)) return copyable(text, memberText(key).toLowerCase(), { whole: text.length <= 130 });
  return h("span", { class: "wrap said" }, text);
}

const most = 100; // entries of a list that are drawn

function content(key, value, names, depth) {
  if (depth > 20) return h("code", { class: "wrap" }, JSON.stringify(value));
  if (Array.isArray(value)) {
    if (value.length === 0) return h("span", { class: "note" }, "none");
    return h("ul", { class: "plainlist" }, value.slice(0, most).map((one) => h("li", null, content(key, one, names, depth + 1))), value.length > most && h("li", { class: "note" }, `${value.length - most} more`));
  }
  if (value !== null && typeof value === "object") return rows(value, names, depth + 1);
  return leaf(key, value, names);
}

const rows = (object, names, depth) => h("dl", { class: "facts" }, Object.entries(object).map(([key, value]) => {
  const nested = value !== null && typeof value === "object" && Object.values(value).some((v) => v !== null && typeof v === "object");
  return h("div", { class: nested ? "wide" : null }, h("dt", null, memberText(key)), h("dd", null, content(key, value, names, depth)));
}));

// intentTable draws a request.
export const intentTable = (intent, names) => (intent && Object.keys(intent).length > 0 ? rows(intent, names, 0) : h("p", { class: "note" }, "The request has no members."));
