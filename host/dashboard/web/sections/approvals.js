// Approvals: what waits for the user, oldest first, each with what it does in a sentence.

import { severityBadge } from "../decoded.js";
import { fill, h } from "../dom.js";
import { copyable, empty, load, paged, panel, problem, table, title, toast, when } from "../ui.js";
import { cannotNotify, inTurn, notifies, ownNames, summaryOf, switchNotifications, waitingForMe } from "../waiting.js";
import { activityLink, initiator, one, typeText } from "./activities.js";

const page = 10;

const votesText = (activity) => {
  const approved = activity.votes.filter((v) => v.selection === "VOTE_SELECTION_APPROVED").length;
  const rejected = activity.votes.length - approved;
  return `${approved} approved${rejected ? `, ${rejected} rejected` : ""}`;
};

// rejectedTable lists what the reader has rejected, and others can still approve.
const rejectedTable = (all) => all.length > 0 && panel("You rejected these", table("You rejected these", ["Activity", "Requested by", "Votes"], all.map((a) => [
  activityLink(a, `#/approvals/${a.id}`), [h("p", null, initiator(a)), h("p", { class: "note" }, when(a.createdAt))], h("span", { class: "nowrap" }, votesText(a))])), { note: "They do not wait for you any more. Others can still approve them." });

const row = ([activity, summary]) => [
  [h("a", { class: "strong wrap", href: `#/approvals/${activity.id}` }, summary?.headline ?? `${typeText(activity.type)}, which cannot be shown`),
    h("p", { class: "note" }, copyable(activity.id, "activity id"))],
  severityBadge(summary?.severity ?? "Unknown"),
  [h("p", null, initiator(activity)), h("p", { class: "note" }, when(activity.createdAt))],
  h("span", { class: "nowrap" }, votesText(activity))];

function list(main) {
  const place = h("div");
  fill(main, title("Approvals", { intro: "Requests that wait for your approval, oldest first." }), place, notificationSwitch());
  load(place, "what waits for you", async () => {
    const { waiting, rejected, more } = await waitingForMe();
    const own = waiting.length ? await ownNames() : new Map();
    const told = async (all) => (await inTurn(all, (a) => summaryOf(a, own))).map((summary, i) => [all[i], summary]);
    return { waiting, rejected, more, told, first: await told(waiting.slice(0, page)) };
  }, ({ waiting, rejected, more, told, first }) => {
    if (waiting.length === 0) return [empty("No request waits for your approval."), rejectedTable(rejected)];
    let shown = first.length;
    return [
      paged(first, page, async () => {
        const next = await told(waiting.slice(shown, shown + page));
        shown += next.length;
        return next;
      }, (all) => table("Requests to approve", ["What it does", "Warnings", "Requested by", "Votes"], all.map(row)), (error) => toast(error.message)),
      more && h("p", { class: "note" }, "There may be more, which were not looked at."),
      rejectedTable(rejected),
    ];
  });
}

// notificationSwitch asks the browser for its permission only when it is pressed.
function notificationSwitch() {
  const said = h("p", { class: "note", role: "status" }, cannotNotify());
  const box = h("input", { type: "checkbox", role: "switch", checked: notifies(), disabled: cannotNotify() !== "", onchange: async () => {
    await switchNotifications(box.checked).catch((error) => fill(said, problem(error)));
    const on = notifies();
    fill(said, cannotNotify() || (box.checked && !on ? "The browser was not allowed to show notifications." : on ? "You are notified while this page is open." : ""));
    box.checked = on;
    box.disabled = cannotNotify() !== "";
  } });
  return h("div", { class: "notify" }, h("label", { class: "choice" }, box, h("span", null, "Notify me when something waits for me")), said);
}

export const approvals = (main, [id]) => (id ? one(main, id, { href: "#/approvals", text: "Approvals" }) : list(main));
