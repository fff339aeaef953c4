// Sub-organizations: the list, a search, and one of them as far as its parent may read it.

import { query } from "../api.js";
import { fill, h } from "../dom.js";
import { exportButton, moment } from "../export.js";
import { featureText } from "../kinds.js";
import { accountPages, subOrganizationPages } from "../pages.js";
import { quorumPicture } from "../quorum.js";
import { isRefused } from "../refusals.js";
import { session } from "../session.js";
import { sortable } from "../tables.js";
import { button, copyable, empty, facts, load, loadOne, milliseconds, panel, problem, table, title, when } from "../ui.js";
import { activityList, failed, initiator, loadOver, lookedAt, statusBadge, typeText } from "./activities.js";
import { effectBadge, policyText } from "./policywords.js";
import { loadRefusal, showRefusal } from "./refusal.js";
import { trends } from "./trends.js";
import { userTable } from "./users.js";
import { formatOf } from "./wallets.js";

const page = 25;
const path = "#/suborganizations";

// The searches: a type of the interface's filter and what it is called. An address and a user's name are looked up through the
// server's index, the rest in the parent's own records.
const searches = [
  ["NAME", "Name"], ["EMAIL", "E-mail of a user"], ["PHONE_NUMBER", "Phone of a user"], ["USERNAME", "Name of a user"], ["WALLET_ACCOUNT_ADDRESS", "Address"],
  ["PUBLIC_KEY", "Public key of an API key"], ["CREDENTIAL_ID", "Id of a passkey"], ["VERIFIED_EMAIL", "Verified e-mail"], ["VERIFIED_PHONE_NUMBER", "Verified phone"],
];

// foundBy yields pages of the sub-organizations that have a value, of all without one.
export function foundBy(filterType, filterValue, more) {
  const verified = filterType?.startsWith("VERIFIED_");
  const parameters = filterType && filterValue ? { filterType: filterType.replace("VERIFIED_", ""), filterValue: filterType.includes("PHONE") ? filterValue.replace(/[\s().-]/g, "") : filterValue } : {};
  return subOrganizationPages(parameters, more, verified ? "list_verified_suborgs" : "list_suborgs");
}

// recordOf is the parent's record of a sub-organization, found by its neighbour in the list, or null if it is none of this organization.
export async function recordOf(organizationId) {
  const ask = async (paginationOptions) => (await query("list_suborgs", { includeDetails: true, paginationOptions: { limit: "1", ...paginationOptions } })).organizations;
  try {
    const [before] = await ask({ before: organizationId });
    const [record] = await ask(before ? { after: before.organizationId } : {});
    return record?.organizationId === organizationId ? record : null;
  } catch (error) {
    if (error.fields?.length) return null; // the cursor is unknown
    throw error;
  }
}

export const subOrganizationColumns = [
  { name: "Name", cell: (o) => h("a", { class: "strong", href: `${path}/${o.organizationId}` }, o.organizationName), key: (o) => o.organizationName },
  { name: "Created", cell: (o) => when(o.createdAt), key: (o) => milliseconds(o.createdAt) },
  { name: "Id", cell: (o) => copyable(o.organizationId, `id of ${o.organizationName}`) },
];

function searchForm(by, q) {
  const node = h("form", { class: "filters", role: "search", "aria-label": "Sub-organizations", onsubmit: (event) => {
    event.preventDefault();
    const value = node.elements.q.value.trim();
    location.hash = value ? `${path}?${new URLSearchParams({ by: node.elements.by.value, q: value })}` : path;
  } },
  h("label", null, "Search by", h("select", { name: "by" }, searches.map(([value, text]) => h("option", { value, selected: value === by }, text)))),
  h("label", { class: "grow" }, "The whole value", h("input", { name: "q", value: q ?? "", autocomplete: "off", autocapitalize: "off", spellcheck: "false" })),
  h("button", { type: "submit", class: "button" }, "Search"),
  q && h("a", { class: "button quiet", href: path }, "Clear"));
  return node;
}

const listExport = (by, q) => exportButton({
  what: "suborganizations", title: "sub-organizations", intro: q ? "The sub-organizations that the search finds." : "All sub-organizations, the oldest first.", id: (o) => o.organizationId,
  pages: (signal) => foundBy(by, q, { signal }),
  columns: [["organizationId", (o) => o.organizationId], ["organizationName", (o) => o.organizationName], ["createdAt", (o) => moment(o.createdAt)]],
});

const counted = new Intl.NumberFormat();

// pagedTable shows rows a page at a time. source yields the pages; none is what stands in the place of no rows.
function pagedTable(place, what, caption, columns, source, none, order) {
  const next = async () => (await source.next()).value ?? [];
  load(place, what, next, (first) => {
    if (first.length === 0) return none;
    const shown = sortable(caption, columns, first, { order });
    const end = h("div", { class: "grown" });
    const offer = (full) => fill(end, full && button("Show more", { class: "button quiet", onclick: more }));
    async function more({ target }) {
      target.disabled = true;
      try {
        const got = await next();
        shown.add(got);
        offer(got.length === page);
      } catch (error) {
        fill(end, problem(error));
      }
    }
    offer(first.length === page);
    return [shown.node, end];
  });
}

function list(main, search) {
  const by = search.get("by") ?? "NAME";
  const q = search.get("q");
  const place = h("div");
  const total = h("p", { class: "note", role: "status" });
  fill(main, title("Sub-organizations", {
    intro: "Organizations of your own users, each with users, wallets and policies of its own. You can read all of it, and sign and change nothing.",
    actions: [listExport(by, q)],
  }), searchForm(by, q), total, place);
  const none = q ? empty("No sub-organization has exactly this. The search compares whole values, and names letter by letter.")
    : empty("There are no sub-organizations yet. They are made through the API, or by the auth proxy when people sign up. A sub-organization has none itself.");
  pagedTable(place, "sub-organizations", "Sub-organizations", subOrganizationColumns, foundBy(by, q, { size: page }), none, { name: "Created", descending: false });
  query("list_suborgs", { includeDetails: true, paginationOptions: { limit: "1" } }).then(({ total: all }) => fill(total, `${counted.format(Number(all))} in all.`), () => {}); // the list tells what is wrong
}

const accountColumns = [
  { name: "Wallet", cell: (a) => h("span", { class: "strong" }, a.walletDetails.walletName), key: (a) => a.walletDetails.walletName },
  { name: "Chain", cell: formatOf, key: formatOf },
  { name: "Address", cell: (a) => copyable(a.address, `address of ${formatOf(a)}`, { whole: true }), key: (a) => a.address },
  { name: "Path", cell: (a) => h("code", { class: "path" }, a.path), key: (a) => a.path },
];

// accountList shows the addresses of a sub-organization.
function accountList(organizationId) {
  const place = h("div");
  pagedTable(place, "addresses", "Addresses", accountColumns, accountPages({ organizationId, includeWalletDetails: true }, { size: page }), empty("No wallet has an address."));
  return place;
}

const back = { href: path, text: "Sub-organizations" };

// readable turns the refusal of an organization that is not one's own into what it means.
async function readable(act) {
  try {
    return await act();
  } catch (error) {
    if (error.unknownCredential) throw new Error("You cannot read this organization: it is no sub-organization of yours, or was deleted.", { cause: error });
    if (error.unknownOrganization) throw new Error("There is no organization with this id.", { cause: error });
    throw error;
  }
}

function draw({ organization, record }) {
  const { organizationId, name, users, wallets, policies, privateKeys, rootQuorum, features } = organization;
  const names = new Map(users.map((u) => [u.userId, u.userName]));
  const activities = h("div");
  activityList(activities, { organizationId }, (a) => `${path}/${organizationId}/activities/${a.id}`);
  return [
    title(name, { back, intro: `You see ${name} as its parent does. A parent may read everything but keys and secrets, which nobody can read, and may sign, approve and change nothing: only the users of ${name} can. Through the API, a parent can also start their sign-ins.` }),
    panel("About", facts([
      ["Organization id", copyable(organizationId, "organization id", { whole: true })],
      record && ["Created", when(record.createdAt)],
      ["Root quorum", h("span", null, quorumPicture({ threshold: rootQuorum.threshold, members: rootQuorum.userIds.map((id) => ({ name: names.get(id) ?? id })) }), rootQuorum.userIds.map((id) => names.get(id) ?? id).join(", "))],
      features.length > 0 && ["Features", features.map((f) => featureText(f.name)).join(", ")],
    ])),
    panel("Users", userTable(users)),
    panel("Wallets", wallets.length ? accountList(organizationId) : empty("No wallets."), { note: wallets.length > 0 && `${wallets.length} ${wallets.length === 1 ? "wallet" : "wallets"}: ${wallets.slice(0, 20).map((w) => w.walletName).join(", ")}${wallets.length > 20 ? " and others" : ""}.` }),
    privateKeys.length > 0 && panel("Private keys", table("Private keys", ["Name", "Addresses", "Id"], privateKeys.map((k) => [
      h("span", { class: "strong" }, k.privateKeyName), k.addresses.map((a) => h("p", null, copyable(a.address, "address", { whole: true }))), copyable(k.privateKeyId, `id of ${k.privateKeyName}`)]))),
    panel("Policies", policies.length ? policies.map((p) => h("article", { class: "expression" }, h("div", { class: "row" }, effectBadge(p), h("h3", null, p.policyName)), policyText(p))) : empty("No policies: only the root quorum can sign or change anything.")),
    trends({ organizationId }),
    panel("Activities", activities),
  ];
}

const one = (main, organizationId) => loadOne(main, "the sub-organization", "Sub-organization", back, async () => {
  const [{ organizationData }, record] = await Promise.all([readable(() => query("get_organization", { organizationId })), recordOf(organizationId)]);
  return { organization: organizationData, record };
}, draw);

const json = (content) => h("pre", { class: "json", tabindex: "0" }, h("code", null, JSON.stringify(Object.values(content)[0], null, 2)));

// activity shows one activity of a sub-organization.
const activity = (main, organizationId, activityId) => loadOne(main, "the activity", "Activity", { href: `${path}/${organizationId}`, text: "Sub-organization" },
  async () => {
    const { activity: a } = await readable(() => query("get_activity", { organizationId, activityId, includeDecoded: true }));
    return { a, over: await loadOver(a, { organizationId }), refusal: isRefused(a) ? await loadRefusal(a, [], { organizationId }) : null };
  }, ({ a, over, refusal }) => [
    title(over.decoded?.title ?? typeText(a.type), { back: { href: `${path}/${organizationId}`, text: "Sub-organization" }, intro: "Only the users of the sub-organization can approve or reject it." }),
    refusal ? showRefusal(a, refusal) : a.failure && failed(a),
    panel("About", facts([
      ["Status", statusBadge(a)], ["Requested by", initiator(a)], ["Created", when(a.createdAt, { both: true })], ["Last change", when(a.updatedAt, { both: true })],
      ["Activity id", copyable(a.id, "activity id", { whole: true })], ["Type", h("code", { class: "wrap" }, a.type)], ["Fingerprint", copyable(a.fingerprint, "fingerprint")],
    ])),
    lookedAt(a, over),
    a.result && Object.keys(a.result).length > 0 && panel("Result", json(a.result)),
  ]);

export function subOrganizations(main, [organizationId, part, id], search) {
  if (part === "activities" && id) activity(main, organizationId, id);
  else if (organizationId === session().organizationId) location.replace("#/overview"); // no sub-organization
  else if (organizationId) one(main, organizationId);
  else list(main, search);
}
