// Activities: the list of requests, and one of them with its votes.

import { query, submit, waits } from "../api.js";
import { fill, h } from "../dom.js";
import { badge, button, confirm, copyable, dialog, empty, facts, load, loadOne, panel, problem, table, title, toast, when, words } from "../ui.js";
import { unsigned } from "../typed.js";
import { evaluations } from "./evaluations.js";

const page = 25;
const typePrefix = "ACTIVITY_TYPE_";
const statusPrefix = "ACTIVITY_STATUS_";

const tones = { COMPLETED: "good", FAILED: "bad", REJECTED: "bad", CONSENSUS_NEEDED: "wait", AUTHENTICATORS_NEEDED: "wait" };
const statusText = { CONSENSUS_NEEDED: "Needs approval", AUTHENTICATORS_NEEDED: "Needs credentials" };

export function statusBadge(status) {
  const short = status.replace(statusPrefix, "");
  return badge(statusText[short] ?? words(short), tones[short] ?? "neutral");
}

const typeText = (type) => words(type.replace(/_V\d+$/, ""), typePrefix);

// The first vote is the requester's.
const initiator = (activity) => activity.votes[0]?.user?.userName ?? "–";

// activityTable is a row for each.
export const activityTable = (caption, all) => table(caption, ["Activity", "Status", "By", "When", "Id"], all.map((a) => [
  h("a", { class: "strong", href: `#/activities/${a.id}` }, typeText(a.type)), statusBadge(a.status), initiator(a), when(a.createdAt), copyable(a.id, "activity id")]));

const statuses = ["CONSENSUS_NEEDED", "AUTHENTICATORS_NEEDED", "COMPLETED", "FAILED", "REJECTED", "PENDING"];
const types = [
  "CREATE_WALLET", "CREATE_WALLET_ACCOUNTS", "SIGN_TRANSACTION_V2", "SIGN_RAW_PAYLOAD_V2", "SIGN_RAW_PAYLOADS", "ETH_SEND_TRANSACTION_V2", "SOL_SEND_TRANSACTION_V2",
  "SPARK_SIGN_FROST", "SPARK_PREPARE_TRANSFER", "SPARK_CLAIM_TRANSFER", "SPARK_PREPARE_LIGHTNING_RECEIVE",
  "CREATE_USERS_V4", "UPDATE_USER", "DELETE_USERS", "CREATE_API_KEYS_V2", "DELETE_API_KEYS", "CREATE_AUTHENTICATORS_V2", "DELETE_AUTHENTICATORS",
  "CREATE_POLICY_V3", "CREATE_POLICIES", "UPDATE_POLICY_V2", "DELETE_POLICY", "APPROVE_ACTIVITY", "REJECT_ACTIVITY", "UPDATE_ROOT_QUORUM",
  "SET_ORGANIZATION_FEATURE", "REMOVE_ORGANIZATION_FEATURE", "CREATE_SUB_ORGANIZATION_V8", "STAMP_LOGIN", "EXPORT_WALLET", "IMPORT_WALLET", "EXPORT_PRIVATE_KEY", "IMPORT_SECRETS", "EXPORT_SECRETS",
  "CREATE_WEBHOOK_ENDPOINT", "UPDATE_WEBHOOK_ENDPOINT", "DELETE_WEBHOOK_ENDPOINT", "ENABLE_AUTH_PROXY", "DISABLE_AUTH_PROXY", "UPDATE_AUTH_PROXY_CONFIG",
];

function filters(status, type) {
  const go = () => {
    const search = new URLSearchParams();
    if (byStatus.value) search.set("status", byStatus.value);
    if (byType.value) search.set("type", byType.value);
    location.hash = `#/activities${search.size ? `?${search}` : ""}`;
  };
  const choice = (name, label, value, all, text) => h("select", { "aria-label": label, name, onchange: go },
    h("option", { value: "" }, label), all.map((v) => h("option", { value: v, selected: v === value }, text(v))));
  const known = type && !types.includes(type) ? [type, ...types] : types;
  const byStatus = choice("status", "All statuses", status, statuses, (s) => statusText[s] ?? words(s));
  const byType = choice("type", "All types", type, known, typeText);
  return h("div", { class: "filters", role: "group", "aria-label": "Filters" }, byStatus, byType, (status || type) && h("a", { class: "button quiet", href: "#/activities" }, "Clear"));
}

function list(main, search) {
  const status = search.get("status");
  const type = search.get("type");
  const fetchBefore = async (before) => (await query("list_activities", {
    ...(status && { filterByStatus: [statusPrefix + status] }), ...(type && { filterByType: [typePrefix + type] }),
    paginationOptions: { limit: String(page), ...(before && { before }) },
  })).activities;
  const place = h("div");
  fill(main, title("Activities", { intro: "Every request to sign or to change something, newest first." }), filters(status, type), place);
  load(place, "activities", () => fetchBefore(), (first) => {
    if (first.length === 0) return empty(status || type ? "No activity matches." : "No activities yet.");
    const all = [...first];
    const grownList = h("div", { class: "grown" });
    const draw = (full) => {
      const more = full && button("Show older", { class: "button quiet", onclick: older });
      fill(grownList, activityTable("Activities", all), more);
    };
    async function older({ target }) {
      target.disabled = true;
      try {
        const got = await fetchBefore(all.at(-1).id);
        all.push(...got);
        draw(got.length === page);
      } catch (error) {
        grownList.append(problem(error, () => draw(true)));
      }
    }
    draw(first.length === page);
    return grownList;
  });
}

// json shows what was asked for or came of it. Long texts wrap.
const json = (content) => h("pre", { class: "json", tabindex: "0" }, h("code", null, JSON.stringify(content, null, 2)));

const inner = (one) => Object.values(one ?? {})[0];

// asked shows what was asked for, and says what of it no signature will cover.
function asked(intent) {
  const left = unsigned(inner(intent));
  return [
    json(inner(intent)),
    left.length > 0 && h("div", { class: "state bad", role: "note" },
      h("p", { class: "strong" }, "Not signed"),
      h("p", null, "The types of the typed data do not name these members. They are in the text above and in no hash:"),
      h("ul", null, left.map((path) => h("li", null, h("code", { class: "wrap" }, path))))),
  ];
}

function vote(activity, verb, again) {
  const approve = verb === "approve";
  const run = async () => {
    const target = await submit(`${verb}_activity`, `${verb.toUpperCase()}_ACTIVITY`, { fingerprint: activity.fingerprint });
    toast(waits(target) ? "Your vote is counted. It takes more of them." : approve ? "Approved." : "Rejected.");
    again();
  };
  const what = [h("p", null, `${typeText(activity.type)}, requested by ${initiator(activity)}.`), asked(activity.intent)];
  if (approve) dialog({ heading: "Approve this?", intro: what, action: "Approve", run });
  else confirm("Reject this?", what, "Reject", run);
}

const credentials = { API_P256: "API key, P-256", API_SECP256K1: "API key, secp256k1", API_SECP256K1_EIP191: "Ethereum key", API_ED25519: "API key, Ed25519", WEBAUTHN: "Passkey" };

const voteTable = (votes) => table("Votes", ["User", "Vote", "When", "Credential"], votes.map((v) => [
  h("a", { href: `#/users/${v.userId}` }, v.user?.userName ?? v.userId),
  badge(v.selection === "VOTE_SELECTION_APPROVED" ? "Approved" : "Rejected", v.selection === "VOTE_SELECTION_APPROVED" ? "good" : "bad"), when(v.createdAt),
  credentials[v.scheme.replace("SIGNATURE_SCHEME_TK_", "")] ?? v.scheme]));

const back = { href: "#/activities", text: "Activities" };

function draw({ activity, said }, again) {
  const open = activity.status === `${statusPrefix}CONSENSUS_NEEDED`;
  return [
    title(typeText(activity.type), {
      back,
      actions: [open && activity.canReject && button("Reject", { onclick: () => vote(activity, "reject", again) }), open && activity.canApprove && button("Approve", { class: "button primary", onclick: () => vote(activity, "approve", again) })],
    }),
    activity.failure && h("div", { class: "state bad" }, h("p", { class: "strong" }, activity.failure.message)),
    open && !activity.canApprove && h("p", { class: "note" }, "You have voted, or your vote would not count."),
    panel("About", facts([
      ["Status", statusBadge(activity.status)], ["Requested by", initiator(activity)], ["Created", when(activity.createdAt)], ["Updated", when(activity.updatedAt)],
      ["Activity id", copyable(activity.id, "activity id", { whole: true })], ["Type", h("code", { class: "wrap" }, activity.type)], ["Fingerprint", copyable(activity.fingerprint, "fingerprint")],
      activity.appProofs?.length && ["App proofs", String(activity.appProofs.length)],
    ])),
    panel("Request", asked(activity.intent)),
    inner(activity.result) && panel("Result", json(inner(activity.result))),
    panel("Votes", activity.votes.length ? voteTable(activity.votes) : empty("No votes.")),
    said.length > 0 && panel("Policy evaluations", evaluations(said)),
  ];
}

const one = (main, activityId) => loadOne(main, "the activity", "Activity", back, async () => {
  const [{ activity }, { policyEvaluations }] = await Promise.all([query("get_activity", { activityId }), query("get_policy_evaluations", { activityId })]);
  return { activity, said: policyEvaluations.at(-1)?.policyEvaluations ?? [] };
}, draw);

export const activities = (main, [id], search) => (id ? one(main, id) : list(main, search));
