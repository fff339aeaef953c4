// Policies: who may do what.

import { query } from "../api.js";
import { fill, h } from "../dom.js";
import { exportButton, moment } from "../export.js";
import { allowedByPolicies, limitedActions } from "../may.js";
import { sorted } from "../tables.js";
import { badge, button, confirm, copyable, empty, grown, load, loadOne, milliseconds, title, when } from "../ui.js";
import { allowsEverything, answered, otherWarnings, remove, shownBy } from "./policychanges.js";
import { edit, languageLink, write } from "./policyform.js";
import { language } from "./policylanguage.js";
import { chooseTask, fillTask } from "./policytasks.js";
import { effectBadge, expressions, inWords, policyText, warningList } from "./policywords.js";
import { tryPolicy } from "./trypolicy.js";

const back = { href: "#/policies", text: "Policies" };

// described puts what a policy does in words in the place of its expressions, which can still be opened, and shows the warnings.
function described(policy, { words, warnings }) {
  const others = otherWarnings(warnings);
  const exact = expressions(policy);
  return [
    policy.notes && h("p", null, policy.notes),
    inWords(words, { brief: true }),
    others.length > 0 && h("details", null, h("summary", null, badge(others.length === 1 ? "1 warning" : `${others.length} warnings`, "wait")), warningList(policy, others)),
    exact.length > 0 && h("details", null, h("summary", null, "Expressions"), exact),
  ];
}

// mayChange asks whether the reader may edit and delete policies, by the first of them. A policy that names one of them, or a parameter of the
// request, may allow it for others: then the request itself will tell.
async function mayChange(policies) {
  if (policies.length === 0) return limitedActions({});
  const [{ policyId, policyName, notes }] = policies;
  const special = policies.some((p) => /activity\.params|policy\.(id|label)/.test(p.condition) || policies.some((other) => p.condition.includes(other.policyId)));
  const may = async (type, parameters) => special || allowedByPolicies(type, parameters);
  return limitedActions({ edit: ["Edit", may("UPDATE_POLICY_V2", { policyId, policyName, policyNotes: notes })], remove: ["Delete", may("DELETE_POLICY", { policyId })] });
}

const editLink = ({ policyId, policyName }, { edit }) => {
  const named = { class: "button small", "aria-label": `Edit ${policyName}` };
  return edit === button ? h("a", { ...named, href: `#/policies/${policyId}/edit` }, "Edit") : edit("Edit", named);
};

// card is a policy. found is what the engine said of it, if it has.
function card(policy, found, limits, again, deleted = again) {
  const { policyName } = policy;
  const ask = () => confirm(`Delete the policy ${policyName}?`, "Requests are then decided by the other policies alone.", "Delete", async () => {
    if (await remove(policy)) deleted();
  });
  const open = allowsEverything(policy, found);
  return h("article", { class: "card" },
    h("div", { class: "bar" }, h("div", { class: "row" }, effectBadge(policy), open && badge("Allows everything", "bad"), h("h2", null, policyName)),
      h("div", { class: "actions" }, editLink(policy, limits), limits.remove("Delete", { class: "button small", "aria-label": `Delete ${policyName}`, onclick: ask }))),
    h("div", { class: "does" }, found ? described(policy, found) : policyText(policy)),
    h("p", { class: "note row" }, copyable(policy.policyId, `id of ${policyName}`), "Last changed ", when(policy.updatedAt)));
}

// describer draws cards, and draws them again once the engine has put them in words. Only policies that are drawn are asked about.
function describer(limits, again, deleted) {
  const found = new Map();
  const ask = async (policies, nodes) => {
    const asked = policies.filter((p) => !found.has(p.policyId));
    if (asked.length === 0) return;
    const got = (await answered({ ask: "describe", policyIds: asked.map((p) => p.policyId) }))?.policies ?? {};
    for (const p of asked) if (got[p.policyId]) found.set(p.policyId, got[p.policyId]);
    policies.forEach((p, i) => {
      if (!got[p.policyId] || !nodes[i].isConnected) return;
      const fresh = card(p, found.get(p.policyId), limits, again, deleted);
      for (const part of [".row", ".does"]) nodes[i].querySelector(part).replaceWith(fresh.querySelector(part)); // the buttons keep the focus
    });
  };
  return (policies) => {
    const nodes = policies.map((p) => card(p, found.get(p.policyId), limits, again, deleted));
    ask(policies, nodes).catch((error) => console.debug(error)); // the expressions are there
    return nodes;
  };
}

const orders = {
  created: ["Oldest first", (p) => milliseconds(p.createdAt)], newest: ["Newest first", (p) => milliseconds(p.createdAt), true],
  changed: ["Changed last", (p) => milliseconds(p.updatedAt), true], name: ["Name", (p) => p.policyName], effect: ["Effect", (p) => p.effect],
};

// cards shows policies in an order that can be chosen.
function cards(all, limits, again) {
  const place = h("div");
  const drawn = describer(limits, again);
  const draw = (order) => fill(place, grown(sorted(all, ...orders[order].slice(1)), (some) => h("div", { class: "cards" }, drawn(some))));
  draw("created");
  return [limits.why, h("div", { class: "filters" }, h("label", null, "Order", h("select", { onchange: ({ target }) => draw(target.value) }, Object.entries(orders).map(([value, [text]]) => h("option", { value }, text))))), place];
}

const policyExport = () => exportButton({
  what: "policies", id: (p) => p.policyId, pages: async function* () { yield (await query("list_policies")).policies; },
  columns: [
    ...["policyId", "policyName", "effect", "condition", "consensus", "time", "notes"].map((name) => [name, (p) => p[name]]),
    ["createdAt", (p) => moment(p.createdAt)], ["updatedAt", (p) => moment(p.updatedAt)],
  ],
});

function list(main) {
  const place = h("div");
  fill(main, title("Policies", {
    intro: "Policies decide what users may do without the root quorum. A policy that denies overrides all that allow.",
    actions: [policyExport(), languageLink(), h("a", { class: "button", href: "#/policies/try" }, "Test a request"), h("a", { class: "button primary", href: "#/policies/new" }, "New policy")],
  }), place);
  const again = load(place, "policies", async () => {
    const { policies: all } = await query("list_policies");
    return { all, limits: await mayChange(all) };
  }, ({ all, limits }) =>
    all.length === 0 ? empty("There is no policy yet: only the root quorum can sign, create or change anything.", h("a", { class: "button", href: "#/policies/new" }, "Create the first policy"))
      : cards(all, limits, again));
  shownBy(place, () => again());
}

const one = (main, policyId) => loadOne(main, "the policy", "Policy", back, async () => {
  const { policy } = await query("get_policy", { policyId });
  return { policy, limits: await mayChange([policy]) };
},
  ({ policy, limits }, again) => {
    const nodes = describer(limits, again, () => { location.hash = back.href; })([policy]);
    shownBy(nodes[0], again);
    return [title("Policy", { back }), limits.why, ...nodes];
  });

// made shows the way to a new policy: a task, its fields, then the check; or the form.
function made(main, search) {
  const [task, draft] = [search.get("task"), search.get("draft")];
  if (draft !== null || task === "own") write(main, draft, search.has("check"));
  else if (task) fillTask(main, task, search);
  else chooseTask(main);
}

export function policies(main, [sub, next], search) {
  if (sub === "try") tryPolicy(main, search);
  else if (sub === "language") language(main, search);
  else if (sub === "new") made(main, search);
  else if (sub && next === "edit") edit(main, sub);
  else if (sub) one(main, sub);
  else list(main);
}
