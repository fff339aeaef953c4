// Policies in plain words, where a page speaks of a request and not of the policies: what a policy asks for, and what one expression
// means. Package editor finds the words in this browser; where it has none, readers see the expressions.

import { ask } from "../advice.js";
import { query } from "../api.js";
import { h } from "../dom.js";

// What the words of editors have for who writes expressions: names of fields and kinds, and amounts in the smallest unit.
const exact = / \((?:activity\.[^()]*|[a-z_]+(?:\.[a-z_]+|\[[^\]()]*\])+(?: is(?: not)? 0x)?|[A-Z][A-Z0-9_]{6,}|-?\d+ (?:wei|lamports|satoshi|sun))\)/g;

// plain leaves those out. What stands between quotes is somebody's name for something, and stays.
const plain = (text) => text.split(/("[^"]*")/).map((part, i) => (i % 2 ? part : part.replace(exact, ""))).join("");

// plainLine is a line of words and those below it, in plain words.
export const plainLine = ({ text, lines }) => ({ text: plain(text), lines: lines?.map(plainLine) });

// organizationOf is what the engine needs to know names; null where it cannot be read.
export const organizationOf = (of = {}) => query("get_organization", of).then(({ organizationData }) => organizationData, (error) => console.debug(error) ?? null);

// namesOf are the names of an organization's things by their ids.
export const namesOf = (o) => (o ? new Map([...o.users.map((u) => [u.userId, u.userName]), ...o.wallets.map((w) => [w.walletId, w.walletName]), ...o.privateKeys.map((k) => [k.privateKeyId, k.privateKeyName]),
  ...o.policies.map((p) => [p.policyId, p.policyName]), ...o.tags.map((t) => [t.tagId, t.tagName]), [o.organizationId, o.name]]) : new Map());

const ids = /\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g;

// nameIds puts names behind expressions and values that have ids.
export function nameIds(node, organization) {
  const names = namesOf(organization);
  for (const code of node.querySelectorAll("code")) {
    const known = [...new Set(code.textContent.match(ids))].filter((id) => names.has(id));
    if (known.length === 1 && code.textContent.replaceAll("'", "") === known[0]) code.after(" (", h("bdi", null, names.get(known[0])), ")");
    else if (known.length > 0) code.after(h("span", { class: "note" }, known.map((id) => [" ", h("code", null, `${id.slice(0, 8)}…`), " is ", h("bdi", null, names.get(id)), "."])));
  }
}

// asked asks the engine; null is no answer.
const asked = (question) => ask(question).catch((error) => console.debug(error) ?? null);

// approvalsInWords are lines about who must approve, by the ids of policies.
export async function approvalsInWords(policyIds, organization) {
  if (!organization || policyIds.length === 0) return new Map();
  const policies = (await asked({ ask: "describe", organization, policyIds }))?.policies ?? {};
  return new Map(Object.entries(policies).map(([id, { words }]) => [id, plainLine(words.who)]));
}

// The sentence about a policy that allows everybody what one expression says: what the expression means stands in the middle.
const about = {
  condition: /^Allows everything that policies decide, where (.*), by every user, alone\.$/s,
  consensus: /^Allows everything that policies decide, if (.*)\.$/s,
  time: /^Allows every user to do everything, alone, (.*)\.$/s,
};
const hidden = /^(under a condition|under \d+ conditions|approvals meet a condition|approvals meet \d+ conditions|at times that meet.*)$/;

// meaningOf says what an expression of a clause means; null if there are no words for it, or too many for a sentence.
export async function meaningOf(expression, clause, organization) {
  if (!organization) return null;
  const policy = { policyName: "One expression", effect: "EFFECT_ALLOW", condition: "", consensus: "", time: "", [clause]: expression };
  const words = (await asked({ ask: "check", organization, policy }))?.words;
  const meaning = words && about[clause].exec(words.sentence)?.[1];
  return meaning && !hidden.test(meaning) ? plain(meaning) : null;
}
