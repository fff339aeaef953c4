// A waiting activity as approvers decide about it: the decoded view, what the policies ask for, who has voted, and the vote, which
// commits to what was drawn.

import { query, submit, waits } from "../api.js";
import { digestOf, drawn } from "../decoded.js";
import { fill, h } from "../dom.js";
import { evidenceOf } from "../evidence.js";
import { quorumPicture } from "../quorum.js";
import { button, dialog, download, field, panel, table, toast, when } from "../ui.js";
import { ownNames, waitingForMe } from "../waiting.js";
import { evaluations } from "./evaluations.js";

// The activities of which the view changed between looking and voting.
const changed = new Set();

// loadDecision fetches what a decision about an activity needs.
export async function loadDecision(activity, said) {
  const { decoded, decodedDigest } = activity;
  const [digest, own, asks] = await Promise.all([decoded ? digestOf(decoded) : null, ownNames(), demands(said, activity)]);
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

const votesOf = ({ votes }) => new Map(votes.map((v) => [v.userId, { name: v.user?.userName, voted: v.selection === "VOTE_SELECTION_APPROVED" ? "approved" : "rejected" }]));

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
  const voted = [...votesOf(activity).values()].map((v) => ({ ...v, name: v.name ?? "A deleted user" }));
  const open = Math.max(0, Number(threshold) - voted.filter((v) => v.voted === "approved").length);
  return quorumPicture({ threshold, members: [...voted, ...Array.from({ length: open }, () => ({ name: "Somebody else" }))], anybody: true });
}

function demandPanel({ quorum, members, policies }, said, activity) {
  const named = said.filter((e) => e.policyId || e.policyName);
  return panel("What the policies ask for", h("div", { class: "items" },
    named.length === 0 ? h("p", null, "Nothing is known here about policies that speak of this. The root quorum can decide it.")
      : !named.some((e) => e.outcome === waiting) && h("p", null, "No policy would allow this if more people approved it. The root quorum has to decide."),
    quorum && h("div", null, h("p", null, "Whatever the policies say, the root quorum can approve it:"), quorumPicture({ threshold: quorum.threshold, members, voting: true })),
    policies.length > 0 && table("Policies that wait for approvals", ["Policy", "Approves when"], policies.map((p) => [p.policyName, [h("code", { class: "wrap" }, p.consensus || "always"), approvalsOf(p, activity)]])),
    named.length > 0 && evaluations(named)));
}

// showDecision is the view of a waiting activity, with votes between what is drawn and what can be done.
export function showDecision(activity, decision, votes, again) {
  const { decoded, genuine, own, asks, said } = decision;
  const isNew = changed.delete(activity.id);
  const end = h("p", { class: "note end-of-view" }, "This is the end of what would be signed or changed.");
  return h("div", null,
    h("p", { class: "note" }, `Requested by ${activity.votes[0]?.user?.userName ?? "somebody"}, `, when(activity.createdAt), "."),
    isNew && h("div", { class: "state bad", role: "alert" }, h("p", { class: "strong" }, "This is shown differently now"),
      h("p", null, "A name or an interface has changed since you looked at it. Your approval was not counted. Look at all of it again.")),
    decoded !== undefined && !genuine && h("div", { class: "state bad", role: "alert" }, h("p", { class: "strong" }, "What the server shows is not what it says it shows"),
      h("p", null, "The digest of this view differs from the one that came with it. Something between the enclave and this page has changed it. It cannot be approved here.")),
    decoded === undefined && h("div", { class: "state bad", role: "note" }, h("p", { class: "strong" }, "There is nothing to look at"),
      h("p", null, "The server does not show what this activity would do, so it cannot be approved here. It can be rejected.")),
    decoded !== undefined && [drawn(decoded, own), saving(activity), end],
    demandPanel(asks, said, activity), votes, votePanel(activity, decision, end, again));
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

function votePanel(activity, { decoded, digest, genuine }, end, again) {
  if (!activity.canApprove && !activity.canReject) return panel("Your vote", h("p", { class: "note" }, "You have voted, or your vote would not count."));
  const dangers = [...new Map((decoded?.warnings ?? []).filter((w) => w.severity === "DANGER").map((w) => [w.code, w.text]))];
  const ticks = dangers.map(([code, text]) => h("input", { type: "checkbox", name: code, onchange: () => renew() }));
  const alert = h("div", { class: "alert", role: "alert", tabindex: "-1" });
  const why = h("p", { class: "note", role: "status" });
  let atEnd = false;
  let busy = false;
  const approve = button("Approve", { class: "button primary", disabled: true, onclick: async () => {
    if (busy || approve.disabled) return;
    busy = true;
    renew();
    fill(alert);
    try {
      await cast(activity, "approve", { fingerprint: activity.fingerprint, decodedDigest: digest }, again);
    } catch (error) {
      if (error.errorCode === "DECODED_DIGEST_DIFFERS") {
        changed.add(activity.id);
        again();
        window.scrollTo(0, 0);
        return;
      }
      console.debug(error);
      fill(alert, h("p", { class: "strong" }, error.message));
      alert.focus();
    }
    busy = false;
    renew();
  } });
  function renew() {
    const open = ticks.filter((t) => !t.checked).length;
    approve.disabled = busy || !atEnd || open > 0;
    const text = !atEnd ? "Read to the end of the view before you approve." : open > 0 ? `Confirm each danger first: ${open} to go.` : "";
    if (why.textContent !== text) fill(why, text);
  }
  const may = activity.canApprove && genuine;
  if (may) {
    new IntersectionObserver((entries, observer) => {
      if (!entries.some((e) => e.isIntersecting)) return;
      observer.disconnect();
      atEnd = true;
      renew();
    }).observe(end);
    renew();
  }
  return panel("Your vote", h("div", { class: "items" },
    !activity.canApprove && h("p", { class: "note" }, "You have approved this, or your approval would not count."),
    may && ticks.length > 0 && h("fieldset", { class: "choices" }, h("legend", null, "I have understood:"), ticks.map((tick, i) => h("label", { class: "choice" }, tick, h("span", null, dangers[i][1], " ", h("code", { class: "note" }, dangers[i][0]))))),
    may && why, alert,
    h("div", { class: "row" }, may && approve, activity.canReject && button("Reject", { onclick: () => reject(activity, again) }))));
}

function reject(activity, again) {
  dialog({
    heading: "Reject this?", intro: "It will not happen. The reason is kept in your vote, and others see it.", danger: true, action: "Reject",
    fields: [field({ name: "reason", label: "Reason", kind: "textarea", maxlength: 500 })],
    run: ({ reason }) => cast(activity, "reject", { fingerprint: activity.fingerprint, ...(reason.trim() && { reason: reason.trim() }) }, again),
  });
}

// cast votes and goes on to the next activity that waits, or shows what became of this one.
async function cast(activity, verb, parameters, again) {
  const target = await submit(`${verb}_activity`, `${verb.toUpperCase()}_ACTIVITY`, parameters);
  toast(waits(target) ? "Your vote is counted. It takes more of them." : verb === "approve" ? "Approved." : "Rejected.", { href: `#/activities/${activity.id}`, text: "See the activity" });
  const next = await waitingForMe().then((all) => all.waiting.find((a) => a.id !== activity.id)).catch(refusedBy);
  if (next) location.hash = `#/approvals/${next.id}`;
  else again();
}
