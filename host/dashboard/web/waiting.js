// What waits for whoever is signed in: which activities, how many, and a notification of the browser when there is another one.

import { query } from "./api.js";
import { fill, h } from "./dom.js";
import { activityPages } from "./pages.js";
import { session } from "./session.js";
import { headline } from "./decoded.js";

const mostPages = 10;

// rejectedByMe tells whether the user has rejected an activity. Such a user cannot approve it any more, though others can.
export const rejectedByMe = ({ votes }) => votes.some((v) => v.userId === session()?.userId && v.selection === "VOTE_SELECTION_REJECTED");

// waitingForMe lists what the user can approve, oldest first, and what the user has rejected and others can still approve. more tells
// that there may be others, which were not looked at.
export async function waitingForMe() {
  const all = [];
  const rejected = [];
  let left = mostPages;
  for await (const activities of activityPages({ filterByStatus: ["ACTIVITY_STATUS_CONSENSUS_NEEDED", "ACTIVITY_STATUS_AUTHENTICATORS_NEEDED"] })) {
    rejected.push(...activities.filter(rejectedByMe));
    all.push(...activities.filter((a) => a.canApprove && !rejectedByMe(a)));
    if (--left === 0) break;
  }
  told(all.length);
  return { waiting: all.reverse(), rejected: rejected.reverse(), more: left === 0 };
}

// requestsText says how many requests wait for the user's approval.
export const requestsText = (n, more) => `${n}${more ? " or more" : ""} ${n === 1 ? "request" : "requests"} to approve`;

// summaryOf says in a line what an activity of a list does. Lists do not tell it, so each is asked for.
export async function summaryOf({ id, organizationId }, own) {
  const { decoded } = (await query("get_activity", { organizationId, activityId: id, includeDecoded: true })).activity;
  return decoded ? { title: decoded.title, headline: headline(decoded, own), severity: decoded.severity } : null;
}

// inTurn does something for each of a list, a few at a time, and gives back what came of it; null is what failed.
export async function inTurn(all, act, atOnce = 3) {
  const out = all.map(() => null);
  let next = 0;
  const worker = async () => {
    for (let i; (i = next++) < all.length;) out[i] = await act(all[i]).catch((error) => console.debug(error) ?? null);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return out;
}

// escaped writes letters that could turn or hide a part of a sentence as documents do.
const escaped = (text) => text.replace(/[^\x20-\x5b\x5d-\x7e\p{Script=Latin}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16).toUpperCase()}}`);

// ownNames are the names of wallets by the addresses of their accounts in small letters, of the first hundred accounts.
export async function ownNames() {
  try {
    const { accounts } = await query("list_wallet_accounts", { includeWalletDetails: true, paginationOptions: { limit: "100" } });
    return new Map(accounts.filter((a) => a.walletDetails?.walletName).map((a) => [a.address.toLowerCase(), escaped(a.walletDetails.walletName)]));
  } catch (error) {
    console.debug(error); // who may not read them sees addresses
    return new Map();
  }
}

// ---- The number in the menu

let number = 0;
let asked = 0;
let whose = null;

const me = () => session() && `${session().organizationId} ${session().userId}`;

function told(n) {
  [number, asked, whose] = [n, Date.now(), me()];
  for (const place of document.querySelectorAll("[data-waiting]")) fillNumber(place);
}

const fillNumber = (place) => fill(place, number > 0 && [
  h("span", { class: "badge wait", "aria-hidden": "true" }, String(number)), h("span", { class: "hidden" }, `, ${requestsText(number)}`)]);

// waitingNumber is a place that shows how many wait. It asks again unless it did a moment ago.
export function waitingNumber() {
  const place = h("span", { "data-waiting": "" });
  if (whose !== me()) number = 0;
  if (whose !== me() || Date.now() - asked > 5000) {
    [asked, whose] = [Date.now(), me()];
    waitingForMe().catch((error) => console.debug(error));
  }
  fillNumber(place);
  return place;
}

// ---- Notifications

const wish = "cloister.notify";
const every = 30_000;
let timer = null;
let seen = null; // the ids that were there, and for whom

// cannotNotify says what stands against notifications: nothing, or a sentence.
export function cannotNotify() {
  if (!("Notification" in window)) return "This browser cannot show notifications.";
  if (Notification.permission === "denied") return "This browser does not allow notifications from this site. You can change that in its settings for the site.";
  return "";
}

export const notifies = () => localStorage.getItem(wish) === "on" && !cannotNotify() && Notification.permission === "granted";

async function look() {
  if (!session()) return;
  const user = me();
  const { waiting } = await waitingForMe();
  const before = seen?.user === user ? seen.ids : null;
  seen = { user, ids: new Set(waiting.map((a) => a.id)) };
  if (!before) return;
  for (const activity of waiting.filter((a) => !before.has(a.id)).slice(0, 5)) {
    const summary = await summaryOf(activity);
    // No amounts and no addresses: a locked screen may show it.
    const note = new Notification(summary?.title ?? "An activity waits for you", { body: `Asked by ${activity.votes[0]?.user?.userName ?? "somebody"}. It waits for you.`, tag: activity.id });
    note.onclick = () => {
      window.focus();
      location.hash = `#/approvals/${activity.id}`;
      note.close();
    };
  }
}

// watch looks every half minute, while the page is open and it was asked for.
export function watch() {
  clearInterval(timer);
  timer = null;
  seen = null;
  if (!notifies()) return;
  const again = () => look().catch((error) => console.debug(error));
  timer = setInterval(again, every);
  again();
}

// switchNotifications turns them on or off. The browser asks only here.
export async function switchNotifications(on) {
  if (on && !cannotNotify() && Notification.permission !== "granted") await Notification.requestPermission();
  localStorage.setItem(wish, on ? "on" : "off");
  watch();
}
