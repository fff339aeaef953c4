// A waiting activity as approvers decide about it: the decoded view, what the policies ask for, who has voted, and the vote, which
// commits to what was drawn.

import { query, submit, waits } from "../api.js";
import { digestOf, drawn, headline } from "../decoded.js";
import { fill, h } from "../dom.js";
import { evidenceOf } from "../evidence.js";
import { quorumPicture } from "../quorum.js";
import { session } from "../session.js";
import { button, dialog, download, field, panel, table, toast, when } from "../ui.js";
import { ofAnotherView } from "../votes.js";
import { ownNames, rejectedByMe, waitingForMe } from "../waiting.js";
import { evaluations, isAboutOthers } from "./evaluations.js";
import { approvalsInWords, nameIds, organizationOf } from "./plainpolicies.js";
import { lineInWords } from "./policywords.js";

// The activities of which the view changed between looking and voting.
const changed = new Set();

// What the reader came from, if the last vote led here.
let cameBy = null;

// loadDecision fetches what a decision about an activity needs. said are the evaluations, null if the reader may not see them.
export async function loadDecision(activity, said) {
  const { decoded, decodedDigest } = activity;
  const [digest, own, asks] = await Promise.all([decoded ? digestOf(decoded) : null, ownNames(), demands(said ?? [], activity)]);
  return { decoded, digest, genuine: decoded !== undefined && digest === decodedDigest, own, asks, said, title: decoded?.title };
}

const waiting = "OUTCOME_REQUIRES_CONSENSUS";
const refusedBy = (error) => console.debug(error) ?? null;

// demands are the root quorum, and of each policy that waits for approvals its consensus. What cannot be read is left out.
async function demands(said, activity) {
  const ids = [...new Set(said.filter((e) => e.outcome === waiting && e.policyId).map((e) => e.policyId))].slice(0, 10);
  const [configs, ...policies] = await Promise.all([
    query("get_organization_configs").catch(refusedBy), ...ids.map((policyId) => query("get_policy", { policyId }).catch(refusedBy)),
  ]);
  const quorum = configs?.configs?.quorum;
  return { quorum, members: quorum ? await membersOf(quorum, activity) : [], policies: policies.filter(Boolean).map(({ policy }) => policy) };
}

const votedOf = (activity, vote) => (vote.selection !== "VOTE_SELECTION_APPROVED" ? "rejected" : ofAnotherView(activity, vote) ? undefined : "approved");

const votesOf = (activity) => new Map(activity.votes.map((v) => [v.userId, { name: v.user?.userName, voted: votedOf(activity, v) }]));

// membersOf are the members of the root quorum with their names and votes. Of those who have not voted ten are asked for.
async function membersOf({ userIds }, activity) {
  const votes = votesOf(activity);
  const names = new Map((await Promise.all(userIds.filter((id) => !votes.get(id)?.name).slice(0, 10).map((userId) => query("get_user", { userId }).catch(refusedBy)))).filter(Boolean).map(({ user }) => [user.userId, user.userName]));
  return userIds.map((id) => ({ ...votes.get(id), name: votes.get(id)?.name ?? names.get(id) ?? id }));
}

// counts is what a policy wants if it only counts approvals.
const counts = /^\s*approvers\.count\(\)\s*>=\s*([1-9]\d?)\s*$/;

// approvalsOf draws how many approvals a policy wants, if it only counts them, with those who have voted.
function approvalsOf({ consensus }, activity) {
  const [, threshold] = counts.exec(consensus ?? "") ?? [];
  if (!threshold) return null;
  const voted = [...votesOf(activity).values()].filter((v) => v.voted).map((v) => ({ ...v, name: v.name ?? "A deleted user" }));
  const open = Math.max(0, Number(threshold) - voted.filter((v) => v.voted === "approved").length);
  return quorumPicture({ threshold, members: [...voted, ...Array.from({ length: open }, () => ({ name: "Somebody else" }))], anybody: true });
}

// approvesWhen says which approvals a policy asks for: the expression at first, and words with the expression folded once there are any.
function approvesWhen(policy, activity) {
  const expression = h("code", { class: "wrap" }, policy.consensus || "always");
  const place = h("div", { "data-policy": policy.policyId }, expression);
  return { place, put: (words) => words && fill(place, lineInWords(words), policy.consensus && h("details", { class: "fold" }, h("summary", null, "Expression"), expression)), picture: approvalsOf(policy, activity) };
}

// policyTables are the policies that wait for approvals, and what each policy made of the request.
function policyTables(policies, named, activity) {
  const rows = policies.map((p) => ({ policy: p, ...approvesWhen(p, activity) }));
  const node = h("div", { "aria-busy": "true" }, rows.length > 0 && table("Policies that wait for approvals", ["Policy", "Approves when"], rows.map(({ policy, place, picture }) => [policy.policyName, [place, picture]])), evaluations(named));
  const said = async () => {
    const organization = await organizationOf();
    const words = await approvalsInWords(policies.map((p) => p.policyId), organization);
    for (const { policy, put } of rows) put(words.get(policy.policyId));
    nameIds(node, organization);
  };
  said()
    .catch((error) => console.debug(error)) // the expressions are there
    .finally(() => node.removeAttribute("aria-busy"));
  return node;
}

// canStillPass tells whether enough members of the root quorum are left who have not rejected.
const canStillPass = ({ threshold }, members) => members.filter((m) => m.voted !== "rejected").length >= Number(threshold);

function demandPanel({ quorum, members, policies }, said, activity) {
  const named = (said ?? []).filter((e) => e.policyId || e.policyName);
  const others = named.filter(isAboutOthers);
  return panel("What the policies ask for", h("div", { class: "items" },
    said === null ? h("p", null, "You may not see which policies decide this.")
      : named.length === others.length ? h("p", null, "No policy is about this. The root quorum decides it.")
        : !named.some((e) => e.outcome === waiting) && h("p", null, "No policy would allow this if more people approved it. The root quorum decides it."),
    quorum && h("div", null, h("p", null, canStillPass(quorum, members) ? "Whatever the policies say, the root quorum can approve it:" : "The root quorum cannot approve it any more, as too many of its members have rejected it:"), quorumPicture({ threshold: quorum.threshold, members, voting: true })),
    named.length > 0 && policyTables(policies, named, activity)));
}

// saidBefore tells what the last vote did, which led here. It is put in later, so that screen readers say it.
function saidBefore({ text, from, left }) {
  const node = h("div", { class: "state waiting", role: "status" });
  setTimeout(() => fill(node, h("p", null, text, " ", h("a", { href: `#/activities/${from}` }, "See it"), ". ", h("span", { class: "strong" }, `Next: 1 of ${left}.`))), 50);
  return node;
}

// showDecision is the view of a waiting activity, with votes between what is drawn and what can be done.
export function showDecision(activity, decision, votes, again) {
  const { decoded, genuine, own, asks, said } = decision;
  const isNew = changed.delete(activity.id);
  const end = h("p", { class: "note end-of-view" }, "This is the end of what would be signed or changed.");
  const view = decoded !== undefined && drawn(decoded, own);
  const before = cameBy?.id === activity.id ? cameBy : null;
  cameBy = null;
  return h("div", null,
    before && saidBefore(before),
    h("p", { class: "note" }, `Requested by ${activity.votes[0]?.user?.userName ?? "somebody"}, `, when(activity.createdAt), "."),
    isNew && h("div", { class: "state bad", role: "alert" }, h("p", { class: "strong" }, "This is shown differently now"),
      h("p", null, "A name or an interface has changed since you looked at it. Your approval was not counted. Look at all of it again.")),
    decoded !== undefined && !genuine && h("div", { class: "state bad", role: "alert" }, h("p", { class: "strong" }, "What the server shows is not what it says it shows"),
      h("p", null, "The digest of this view differs from the one that came with it. Something between the enclave and this page has changed it. It cannot be approved here.")),
    decoded === undefined && h("div", { class: "state bad", role: "note" }, h("p", { class: "strong" }, "There is nothing to look at"),
      h("p", null, "The server does not show what this activity would do, so it cannot be approved here. It can be rejected.")),
    decoded !== undefined && [view, saving(activity), end],
    demandPanel(asks, said, activity), votes, votePanel(activity, decision, view, end, again));
}

// saving offers what it takes to check the view elsewhere: the page comes from the server that may be lying.
function saving(activity) {
  const save = button("Save to check it elsewhere", { class: "button small", onclick: async () => {
    save.disabled = true;
    try {
      download(`approval-${activity.id}.json`, JSON.stringify(await evidenceOf(activity)));
    } catch (error) {
      toast(error.message);
    }
    save.disabled = false;
  } });
  return h("p", { class: "note" }, "This page comes from the server. On a machine of your own, ", h("code", null, "cloister-verify decode FILE"), " makes the same view from the bytes and compares it, as does the page ",
    h("a", { href: "verify", target: "_blank", rel: "noopener" }, "Verify"), ". ", save);
}

// unreadPart is the first part of a view that has not been on the screen, as seen tells. A press leads there.
const unreadPart = (view, end, seen) => [...view.querySelectorAll(".headline, .panel, .facts > div, .warnings > li"), end].find((node) => !seen.has(node) && node.checkVisibility());

// approvedByMe tells whether the reader has approved an activity, or asked for it.
const approvedByMe = (activity) => votesOf(activity).get(session().userId)?.voted === "approved";

function votePanel(activity, decision, view, end, again) {
  const { decoded, digest, genuine, own } = decision;
  if (rejectedByMe(activity)) return panel("Your vote", h("p", null, "You rejected this. It has not ended: others can still approve it, and you cannot any more."));
  const old = activity.votes.some((v) => v.userId === session().userId && ofAnotherView(activity, v));
  const canApprove = activity.canApprove || old; // the enclave takes an approval of another view for one that was given
  if (!canApprove && !activity.canReject) return panel("Your vote", h("p", { class: "note" }, approvedByMe(activity) ? "You have approved this." : "Your vote would not count: no policy asks for it, and you are not in the root quorum."));
  const dangers = [...new Map((decoded?.warnings ?? []).filter((w) => w.severity === "DANGER").map((w) => [w.code, w.text]))];
  const ticks = dangers.map(([code, text]) => h("input", { type: "checkbox", name: code, onchange: () => renew() }));
  const alert = h("div", { class: "alert", role: "alert", tabindex: "-1" });
  const why = h("p", { class: "note", role: "status" });
  const seen = new Set();
  const onward = button("Read to the end of the view before you approve.", { class: "linked", onclick: () => {
    const next = unreadPart(view, end, seen) ?? end;
    if (!next.hasAttribute("tabindex")) next.setAttribute("tabindex", "-1");
    next.scrollIntoView({ block: "center" });
    next.focus({ preventScroll: true });
  } });
  let atEnd = false;
  let busy = false;
  const approve = button("Approve", { class: "button primary", disabled: true, onclick: async () => {
    if (busy || approve.disabled) return;
    busy = true;
    renew();
    fill(alert);
    try {
      await cast(activity, "approve", { fingerprint: activity.fingerprint, decodedDigest: digest }, brief(headline(decoded, own)), again);
    } catch (error) {
      if (error.errorCode === "DECODED_DIGEST_DIFFERS") {
        changed.add(activity.id);
        again();
        window.scrollTo(0, 0);
        return;
      }
      console.debug(error);
      if (error.details?.some((d) => d.activityId === activity.id)) return again(); // it was approved, and is over: it failed
      fill(alert, h("p", { class: "strong" }, error.message));
      alert.focus();
    }
    busy = false;
    renew();
  } });
  function renew() {
    const open = ticks.filter((t) => !t.checked).length;
    approve.disabled = busy || !atEnd || open > 0;
    const text = open > 0 ? `Confirm each danger first: ${open} to go.` : "";
    if (!atEnd) { if (!onward.isConnected) fill(why, onward); }
    else if (why.textContent !== text) fill(why, text);
  }
  const may = canApprove && genuine;
  if (may) {
    const observer = new IntersectionObserver((entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        seen.add(target);
        observer.unobserve(target);
      }
      if (!seen.has(end)) return;
      observer.disconnect();
      atEnd = true;
      renew();
    });
    for (const node of [...view.querySelectorAll(".headline, .panel, .facts > div, .warnings > li"), end]) observer.observe(node);
    renew();
  }
  return panel("Your vote", h("div", { class: "items" },
    old && h("p", { class: "note" }, "You approved this when it was shown differently. Look at it again: your approval does not count until you give it again."),
    !canApprove && h("p", { class: "note" }, approvedByMe(activity) ? "You have approved this. You can still reject it." : "Your approval would not count. You can reject it."),
    may && ticks.length > 0 && h("fieldset", { class: "choices" }, h("legend", null, "I have understood:"), ticks.map((tick, i) => h("label", { class: "choice" }, tick, h("span", null, dangers[i][1])))),
    may && why, alert,
    h("div", { class: "row" }, may && approve, activity.canReject && button("Reject", { onclick: () => reject(activity, decision, again) }))));
}

// whatRejectingDoes says what a rejection of this reader does. The enclave ends a request if who asked rejects it, or if nothing could
// allow it any more.
function whatRejectingDoes(activity, { quorum, members }) {
  if (activity.votes[0]?.userId === session().userId) return "You asked for this: your rejection withdraws it, and it ends at once.";
  const all = [h("p", null, "Your rejection is recorded, and you cannot approve this any more. The request ends only if it cannot get enough approvals any more, or if whoever asked withdraws it. Until then others can still approve it.")];
  if (quorum?.userIds.includes(session().userId)) {
    const needed = quorum.userIds.length - Number(quorum.threshold) + 1;
    const others = members.filter((m) => m.voted === "rejected").length;
    all.push(h("p", null, others + 1 >= needed ? "With your rejection, the root quorum cannot approve it any more. A policy may still allow it."
      : `The root quorum can approve it until ${needed} of its ${quorum.userIds.length} members have rejected it${others > 0 ? `: so far ${others} ${others === 1 ? "has" : "have"}` : ""}.`));
  }
  return all;
}

function reject(activity, { decoded, own, asks }, again) {
  dialog({
    heading: "Reject this?", intro: [whatRejectingDoes(activity, asks), h("p", null, "The reason is kept in your vote, and others see it.")], danger: true, action: "Reject",
    fields: [field({ name: "reason", label: "Reason", kind: "textarea", maxlength: 500 })],
    run: ({ reason }) => cast(activity, "reject", { fingerprint: activity.fingerprint, ...(reason.trim() && { reason: reason.trim() }) }, decoded ? brief(headline(decoded, own)) : "the request", again),
  });
}

// brief is a sentence about a request as a message has it: without fees and sender, with shortened addresses.
function brief(sentence) {
  const short = sentence.replace(/(, at most [^,;]+ of fees|, for a fee |, and a sponsor pays|; from ).*$/s, "").replace(/\b(0x[0-9a-fA-F]{4}|[1-9A-HJ-NP-Za-z]{6})[0-9A-Za-z]{16,}([0-9A-Za-z]{4})\b/g, "$1…$2");
  return short.length > 120 ? `${short.slice(0, 119)}…` : short;
}

// became says what became of a request by a vote.
function became(verb, target, what) {
  if (verb === "approve") return waits(target) ? `Your approval is recorded: ${what}. Others must approve it too.` : `Approved: ${what}.`;
  return waits(target) ? `Your rejection is recorded: ${what}. It has not ended, and others can still approve it.` : `Rejected: ${what}. The request has ended.`;
}

// cast votes and goes on to the next activity that waits, or shows what became of this one.
async function cast(activity, verb, parameters, what, again) {
  const target = await submit(`${verb}_activity`, `${verb.toUpperCase()}_ACTIVITY`, parameters);
  const text = became(verb, target, what);
  const left = await waitingForMe().then((all) => all.waiting.filter((a) => a.id !== activity.id)).catch(refusedBy) ?? [];
  if (left.length === 0) {
    toast(text, { href: `#/activities/${activity.id}`, text: "See the activity" });
    again();
    return;
  }
  cameBy = { id: left[0].id, from: activity.id, text, left: left.length };
  location.hash = `#/approvals/${left[0].id}`;
}
