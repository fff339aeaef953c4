// Activities: the list of requests, and one of them with its votes.

import { query, sentence, waits } from "../api.js";
import { digestOf, drawn } from "../decoded.js";
import { fill, h } from "../dom.js";
import { exportButton, moment } from "../export.js";
import { filterText, groups, kindText, statusText, typesOf } from "../kinds.js";
import { activityPages } from "../pages.js";
import { isRefused } from "../refusals.js";
import { sortable, sorted } from "../tables.js";
import { types, versionsOf } from "../types.js";
import { badge, button, copyable, empty, facts, load, loadOne, milliseconds, panel, problem, table, title, when } from "../ui.js";
import { unsigned } from "../typed.js";
import { evaluations } from "./evaluations.js";
import { loadDecision, showDecision } from "./decision.js";
import { sentenceList } from "./directory.js";
import { loadRefusal, showRefusal } from "./refusal.js";
import { loadTransfer, transferPanel } from "./transferactivity.js";
import { intentTable, namesIn } from "./intent.js";
import { bodyOf, ofAnotherView, reasonOf } from "../votes.js";
import { ownNames, rejectedByMe, summaryOf } from "../waiting.js";

const page = 25;
const typePrefix = "ACTIVITY_TYPE_";
const statusPrefix = "ACTIVITY_STATUS_";

const tones = { COMPLETED: "good", FAILED: "bad", REFUSED: "bad", REJECTED: "bad", CONSENSUS_NEEDED: "wait", AUTHENTICATORS_NEEDED: "wait" };

// shortStatus is an activity's status without the prefix. REFUSED stands for those that failed because nobody allowed them.
const shortStatus = (activity) => (isRefused(activity) ? "REFUSED" : activity.status.replace(statusPrefix, ""));

export function statusBadge(activity) {
  const short = shortStatus(activity);
  const status = badge(statusText(short), tones[short] ?? "neutral");
  return waits(activity) && rejectedByMe(activity) ? h("span", { class: "row" }, status, badge("You rejected this")) : status;
}

export const typeText = kindText; // the name of its type, in any version

// The first vote is the requester's.
export const initiator = (activity) => activity.votes[0]?.user?.userName ?? "–";

// headlines are what activities do, in a sentence, once that is fetched: one after the other.
const headlines = new WeakMap();
let last = Promise.resolve();

// activityLink is an activity's name. One that can be decoded says what it does: lists tell the title, and the sentence is asked for.
export function activityLink(a, href) {
  const link = h("a", { class: "strong wrap", href }, headlines.get(a) ?? a.decodedSummary?.title ?? typeText(a.type));
  if ((waits(a) || a.decodedSummary) && !headlines.has(a)) {
    last = last.then(async () => {
      const summary = link.isConnected && !headlines.has(a) && await summaryOf(a);
      if (summary) headlines.set(a, summary.headline);
      if (headlines.has(a)) fill(link, headlines.get(a));
    }).catch((error) => console.debug(error));
  }
  return link;
}

// activityColumns are those of a list of activities. href makes the link to one of them.
const activityColumns = (href) => [
  { name: "Activity", cell: (a) => activityLink(a, href(a)), key: (a) => typeText(a.type) },
  { name: "Status", cell: statusBadge, key: shortStatus },
  { name: "By", cell: initiator, key: initiator },
  { name: "Created", cell: (a) => when(a.createdAt), key: (a) => milliseconds(a.createdAt) },
  { name: "Last change", cell: (a) => when(a.updatedAt), key: (a) => milliseconds(a.updatedAt) },
  { name: "Id", cell: (a) => copyable(a.id, "activity id") },
];

// activityTable is a row for each.
export const activityTable = (caption, all) => {
  const columns = activityColumns((a) => `#/activities/${a.id}`);
  return table(caption, columns.map((c) => c.name), all.map((a) => columns.map((c) => c.cell(a))));
};

const statuses = ["CONSENSUS_NEEDED", "AUTHENTICATORS_NEEDED", "COMPLETED", "REFUSED", "FAILED", "REJECTED", "UNSUCCESSFUL", "PENDING"];

// The server has one status for these two.
const bothFailed = ["REFUSED", "FAILED"];

// servedStatuses are the server's statuses of a status that a filter names.
const servedStatuses = (status) => (status === "UNSUCCESSFUL" ? ["FAILED", "REJECTED"] : [bothFailed.includes(status) ? "FAILED" : status]);
const filterNames = ["status", "type", "by", "from", "to"];

function filters(wanted, go) {
  const changed = () => go(new URLSearchParams(filterNames.map((name) => [name, node.elements[name].value.trim()]).filter(([, value]) => value)));
  const choice = (name, label, all, text) => h("select", { "aria-label": label, name },
    h("option", { value: "" }, label), all.map((v) => h("option", { value: v, selected: v === wanted[name] }, text(v))));
  const known = [...(!wanted.type || types.includes(wanted.type) || Object.hasOwn(groups, wanted.type) ? [] : [wanted.type]), ...types];
  const day = (name, label) => h("label", null, label, h("input", { type: wanted[name]?.includes("T") ? "datetime-local" : "date", name, value: wanted[name] ?? "" }));
  const node = h("form", { class: "filters", role: "group", "aria-label": "Filters", onchange: ({ target }) => target.matches("select") && changed(), onsubmit: (event) => { event.preventDefault(); changed(); } },
    choice("status", "All statuses", statuses, statusText),
    choice("type", "All types", [...Object.keys(groups), ...sorted(known, typeText)], filterText),
    h("label", { class: "grow" }, "User (name or id)", h("input", { name: "by", value: wanted.by ?? "", autocomplete: "off", spellcheck: "false" })),
    day("from", "Changed from"), day("to", "Changed until"),
    h("button", { type: "submit", class: "button" }, "Filter"),
    Object.keys(wanted).length > 0 && h("a", { class: "button quiet", href: "#/activities" }, "Clear"));
  return node;
}

// startOf is the first millisecond of a day, or of one some days later, where the reader is. Of a day with a time, it is that moment.
const startOf = (day, later = 0) => {
  if (day.includes("T")) return new Date(day).getTime();
  const [year, month, date] = day.split("-").map(Number);
  return new Date(year, month - 1, date + later).getTime();
};

// requestedBy tells whether an activity is of the user that a filter names.
const requestedBy = (by) => (activity) => activity.votes[0]?.userId === by.toLowerCase() || initiator(activity).toLowerCase().includes(by.toLowerCase());

// matching yields activities page by page, with those that a filter wants and how many were read. The server filters by status, type and the
// end of the dates; the beginning ends the reading, as those that changed last come first.
async function* matching({ status, type, by, from, to, organizationId, includeDecoded }, more) {
  const users = by ? requestedBy(by) : () => true;
  const mine = (a) => users(a) && (!bothFailed.includes(status) || shortStatus(a) === status);
  const start = from ? startOf(from) : 0;
  const parameters = {
    ...(organizationId && { organizationId }), ...(includeDecoded && { includeDecoded }), ...(status && { filterByStatus: servedStatuses(status).map((s) => statusPrefix + s) }), ...(type && { filterByType: typesOf(type).flatMap(versionsOf).map((t) => typePrefix + t) }),
    ...(to && { untilMs: String(startOf(to, 1) - 1) }),
  };
  for await (const all of activityPages(parameters, more)) {
    const late = all.filter((a) => milliseconds(a.updatedAt) >= start);
    yield { rows: late.filter(mine), read: all.length, back: all.at(-1).updatedAt };
    if (late.length < all.length) return;
  }
}

const enough = 1000; // activities that are read at once if the server does not filter them all

// chosenHere tells whether this page chooses among the activities that the server filters.
const chosenHere = ({ by, status }) => Boolean(by) || bothFailed.includes(status);

// activityList shows activities a page at a time.
export function activityList(place, wanted, href = (a) => `#/activities/${a.id}`) {
  const source = matching({ ...wanted, includeDecoded: true }, { size: chosenHere(wanted) ? 100 : page });
  // next reads until there is something to show, a thousand were read or there are no more.
  const next = async () => {
    const got = { rows: [], read: 0, full: false };
    while (got.rows.length < page && got.read < enough) {
      const { value, done } = await source.next();
      if (done) return got;
      got.rows.push(...value.rows);
      got.read += value.read;
      got.back = value.back;
    }
    return { ...got, full: true };
  };
  const filtered = filterNames.some((name) => wanted[name]);
  load(place, "activities", next, (first) => {
    if (first.rows.length === 0 && !first.full) return empty(filtered ? "No activity matches." : "No activities yet.");
    const list = sortable("Activities", activityColumns(href), first.rows, { order: { name: "Last change", descending: true } });
    const end = h("div", { class: "grown" });
    let read = first.read;
    const offer = ({ full, back }) => fill(end,
      chosenHere(wanted) && h("p", { class: "note", role: "status" }, `${read} activities were read`, full && [", back to ", when(back, { both: true })], "."),
      full && button(chosenHere(wanted) ? "Read older ones" : "Show older", { class: "button quiet", onclick: older }));
    async function older({ target }) {
      target.disabled = true;
      try {
        const got = await next();
        read += got.read;
        list.add(got.rows);
        offer(got);
      } catch (error) {
        fill(end, problem(error));
      }
    }
    offer(first);
    return [list.node, end];
  });
}

const activityExport = (wanted) => exportButton({
  what: "activities", id: (a) => a.id, intro: "The activities that the filters select, those that changed last first, with each request and its result.",
  pages: async function* (signal) { for await (const { rows } of matching(wanted, { signal })) yield rows; },
  columns: [
    ["id", (a) => a.id], ["type", (a) => a.type], ["status", (a) => a.status], ["shownAs", (a) => statusText(shortStatus(a))], ["createdAt", (a) => moment(a.createdAt)], ["updatedAt", (a) => moment(a.updatedAt)],
    ["requestedBy", (a) => a.votes[0]?.user?.userName], ["requestedById", (a) => a.votes[0]?.userId], ["fingerprint", (a) => a.fingerprint],
    ["approvals", (a) => a.votes.filter((v) => v.selection === "VOTE_SELECTION_APPROVED").length], ["rejections", (a) => a.votes.filter((v) => v.selection === "VOTE_SELECTION_REJECTED").length],
    ["failure", (a) => a.failure?.message], ["intent", (a) => a.intent], ["result", (a) => a.result], ["organizationId", (a) => a.organizationId],
  ],
});

function list(main, search) {
  const wanted = Object.fromEntries(filterNames.map((name) => [name, search.get(name)]).filter(([, value]) => value));
  if (wanted.type) wanted.type = wanted.type.replace(/_V\d+$/, "");
  const place = h("div");
  const go = (to) => { location.hash = `#/activities${to.size ? `?${to}` : ""}`; };
  fill(main, title("Activities", { intro: "Every request to sign or to change something. Those that changed last come first.", actions: [activityExport(wanted)] }), filters(wanted, go), place);
  activityList(place, wanted);
}

// json shows what was asked for or came of it. Long texts wrap.
const json = (content) => h("pre", { class: "json", tabindex: "0" }, h("code", null, JSON.stringify(content, null, 2)));

const inner = (one) => Object.values(one ?? {})[0];

// asked shows what was asked for, and says what of it no signature will cover.
const asked = (intent) => [json(inner(intent)), unsignedNote(intent)];

function unsignedNote(intent) {
  const left = unsigned(inner(intent));
  return left.length > 0 && h("div", { class: "state bad", role: "note" },
    h("p", { class: "strong" }, "Not signed"),
    h("p", null, "The types of the typed data do not name these members. They are in the text of the request and in no hash:"),
    h("ul", null, left.map((path) => h("li", null, h("code", { class: "wrap" }, path)))));
}

const schemes = { API_P256: "API key, P-256", API_SECP256K1: "API key, secp256k1", API_SECP256K1_EIP191: "Ethereum key", API_ED25519: "API key, Ed25519", WEBAUTHN: "Passkey" };

// credentialText names what a vote was signed with. The key of a session looks like any other, so the user's keys tell.
function credentialText({ scheme, publicKey, user }) {
  const key = user?.apiKeys?.find((k) => k.credential.publicKey === publicKey);
  return key?.credential.type === "CREDENTIAL_TYPE_LOGIN" ? "Session" : schemes[scheme.replace("SIGNATURE_SCHEME_TK_", "")] ?? scheme;
}

// voteBadge says what somebody did. The first vote is the request itself, which counts as the requester's approval. The vote of a
// deleted requester is gone.
function voteBadge(vote, first, old) {
  if (vote.selection !== "VOTE_SELECTION_APPROVED") return badge("Rejected", "bad");
  if (old) return badge("Approved another view", "wait");
  return first && bodyOf(vote)?.type !== "ACTIVITY_TYPE_APPROVE_ACTIVITY" ? h("span", null, badge("Requested"), h("span", { class: "hidden" }, " and approved")) : badge("Approved", "good");
}

const voteTable = (activity) => table("Votes", ["User", "Vote", "When", "Credential", "Reason"], activity.votes.map((v, i) => [
  h("a", { class: "strong", href: `#/users/${v.userId}` }, v.user?.userName ?? v.userId),
  voteBadge(v, i === 0, ofAnotherView(activity, v)), when(v.createdAt, { both: true }), credentialText(v), h("span", { class: "wrap" }, reasonOf(v) ?? "–")]));

const about = (activity) => panel("About", facts([
  ["Status", statusBadge(activity)], ["Requested by", initiator(activity)], ["Created", when(activity.createdAt, { both: true })], ["Last change", when(activity.updatedAt, { both: true })],
  ["Activity id", copyable(activity.id, "activity id", { whole: true })], ["Type", h("code", { class: "wrap" }, activity.type)], ["Fingerprint", copyable(activity.fingerprint, "fingerprint")],
  activity.appProofs?.length && ["App proofs", String(activity.appProofs.length)],
]));

const votes = (activity) => panel("Votes", activity.votes.length ? voteTable(activity) : empty("No votes."),
  { note: activity.votes.some((v) => ofAnotherView(activity, v)) && "Who approved another view was shown this differently. That approval does not count until it is given again." });

// loadOver fetches what the page of an activity that is over shows of its request: the view of what was signed or sent, as it is decoded
// today, or else names for ids.
export async function loadOver(activity, of) {
  const { decoded } = activity;
  if (!decoded) return { names: await namesIn(inner(activity.intent), of) };
  const [digest, own] = await Promise.all([digestOf(decoded), of ? new Map() : ownNames()]);
  const sawIt = activity.votes.filter((v) => bodyOf(v)?.parameters?.decodedDigest === digest).map((v) => v.user?.userName ?? v.userId);
  return { decoded, own, sawIt, genuine: digest === activity.decodedDigest };
}

// lookedAt shows what was asked for: in words if it signed or sent something, and as a table otherwise.
export function lookedAt(activity, { decoded, own, sawIt, genuine, names }) {
  const sent = [unsignedNote(activity.intent), h("details", { class: "panel" }, h("summary", null, "The request as it was sent"), json(inner(activity.intent)))];
  if (!decoded) return [panel("Request", intentTable(inner(activity.intent), names), { note: names.size > 0 && "Names are those of today." }), sent];
  if (decoded.kind === "UNKNOWN_SIGNER") {
    return [h("div", { class: "state", role: "note" }, h("p", { class: "strong" }, "This cannot be decoded any more"), h("p", null, "The key that was to sign is not in the organization.")), sent];
  }
  const done = activity.status === "ACTIVITY_STATUS_COMPLETED";
  return [
    !genuine && h("div", { class: "state bad", role: "alert" }, h("p", { class: "strong" }, "What the server shows is not what it says it shows"), h("p", null, "The digest of this view differs from the one that came with it.")),
    h("p", { class: "note" }, "Decoded today: names may have changed since.", sawIt.length > 0 && ` This is exactly what ${sentenceList(sawIt)} approved.`),
    drawn(decoded, own, { asked: done ? "What was signed" : "What was to be signed" }), sent,
  ];
}

function draw({ activity, said, decision, over, refusal, transfer }, back, again) {
  const named = said.filter((e) => e.policyId || e.policyName);
  if (decision) {
    return [title(decision.title ?? typeText(activity.type), { back }), showDecision(activity, decision, votes(activity), again), transferPanel(activity, transfer, again), about(activity),
      h("details", { class: "panel" }, h("summary", null, "The request as it was sent"), asked(activity.intent))];
  }
  return [
    title(over.decoded?.kind === "UNKNOWN_SIGNER" ? typeText(activity.type) : over.decoded?.title ?? typeText(activity.type), { back }),
    h("p", { class: "row became" }, statusBadge(activity), h("span", { class: "note" }, `Requested by ${initiator(activity)}, `, when(activity.createdAt), ".")),
    refusal ? showRefusal(activity, refusal) : activity.failure && failed(activity),
    transferPanel(activity, transfer, again),
    lookedAt(activity, over),
    about(activity),
    inner(activity.result) && panel("Result", json(inner(activity.result))),
    votes(activity),
    !refusal && named.length > 0 && panel("Policies", evaluations(named)),
  ];
}

// failed says why an activity failed that was allowed.
export const failed = ({ failure }) => h("div", { class: "state bad" }, h("p", { class: "strong" }, sentence(failure.message)));

// evaluationsOf are the newest evaluations of an activity that name policies, as a rejection evaluates none; null if the reader may not
// see them.
async function evaluationsOf(activityId) {
  try {
    const all = (await query("get_policy_evaluations", { activityId })).policyEvaluations.map((e) => e.policyEvaluations ?? []);
    return all.findLast((some) => some.some((e) => e.policyId)) ?? all.at(-1) ?? [];
  } catch (error) {
    if (error.code === 7) return null;
    throw error;
  }
}

// one shows an activity: while it waits, what approvers have to know and their vote, later what came of it.
export const one = (main, activityId, back) => loadOne(main, "the activity", "Activity", back, async () => {
  const [{ activity }, told] = await Promise.all([query("get_activity", { activityId, includeDecoded: true }), evaluationsOf(activityId)]);
  const said = told ?? [];
  return {
    activity, said, decision: waits(activity) ? await loadDecision(activity, told) : null, over: waits(activity) ? null : await loadOver(activity),
    refusal: isRefused(activity) ? await loadRefusal(activity, told) : null, transfer: await loadTransfer(activity),
  };
}, (got, again) => draw(got, back, again));

export const activities = (main, [id], search) => (id ? one(main, id, { href: "#/activities", text: "Activities" }) : list(main, search));
