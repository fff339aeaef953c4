// Times as people say them, such as "3 minutes ago", with the exact time beside or behind them. They go on while the page is open.

import { h } from "./dom.js";

const minute = 60;
const hour = 60 * minute;
const day = 24 * hour;
const month = 30; // days

const distance = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const dates = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

// milliseconds of the interface's timestamp.
export const milliseconds = (timestamp) => Number(timestamp.seconds) * 1000;

// exactly is a moment to the second, in the reader's own zone.
export const exactly = (ms) => clock.format(ms);

// midnights counts the midnights between two moments where the reader is. A day of 23 or 25 hours is one.
const midnights = (ms, now) => Math.round((new Date(ms).setHours(0, 0, 0, 0) - new Date(now).setHours(0, 0, 0, 0)) / (day * 1000));

// relatively says how far a moment is from now, or its date if that is more than a month.
export function relatively(ms, now = Date.now()) {
  const seconds = (ms - now) / 1000;
  const away = Math.abs(seconds);
  if (away < minute) return seconds > 0 ? "now" : "just now";
  const count = (length) => Math.sign(seconds) * Math.round(away / length);
  if (Math.abs(count(minute)) < 60) return distance.format(count(minute), "minute");
  if (Math.abs(count(hour)) < 24) return distance.format(count(hour), "hour");
  const days = midnights(ms, now);
  return Math.abs(days) > month ? dates.format(ms) : distance.format(days, "day");
}

// time is a moment, which says how far it is from now. The exact time is there for the pointer, for a row that has the focus and for
// readers of screens. both shows the exact time to everybody, for where it matters.
export function time(ms, { both = false } = {}) {
  const exact = exactly(ms);
  const near = h("span", { "data-at": String(ms) }, relatively(ms));
  const properties = { datetime: new Date(ms).toISOString() };
  if (both) return h("time", { ...properties, class: "both" }, exact, " ", h("span", { class: "note" }, "(", near, ")"));
  return h("time", { ...properties, title: exact, "data-exact": exact }, near, h("span", { class: "hidden" }, ` (${exact})`));
}

// when is a timestamp of the interface as a time.
export const when = (timestamp, options) => (timestamp ? time(milliseconds(timestamp), options) : "–");

// refresh brings the times of the page up to date. Those in a message that readers of screens are told are left alone.
function refresh() {
  if (document.hidden) return;
  const now = Date.now();
  for (const near of document.querySelectorAll("time [data-at]")) {
    const text = relatively(Number(near.dataset.at), now);
    if (near.textContent !== text && !near.closest("[role=status], [role=alert]")) near.textContent = text;
  }
}

setInterval(refresh, 15_000);
document.addEventListener("visibilitychange", refresh);
