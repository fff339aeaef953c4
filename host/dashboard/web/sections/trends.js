// Trends: signatures, refusals, sign-ins and answering times over a stretch of time, as charts.

import { query } from "../api.js";
import { barChart, rangeChart } from "../charts.js";
import { h } from "../dom.js";
import { groups } from "../kinds.js";
import { bareType } from "../refusals.js";
import { empty, load, panel } from "../ui.js";

const hourMs = 3_600_000;

const day = new Intl.DateTimeFormat("en-GB", { weekday: "long", day: "numeric", month: "long" });
const shortDay = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

// dayOf and momentOf are a date as filters write it, without and with the time.
const two = (n) => String(n).padStart(2, "0");
const dayOf = (date) => `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
const momentOf = (date) => `${dayOf(date)}T${two(date.getHours())}:${two(date.getMinutes())}`;

// midnight is the beginning of today or of a day before, where the reader is: days with a change of the clocks are shorter or longer.
const midnight = (now, before) => new Date(now.getFullYear(), now.getMonth(), now.getDate() - before);

// byDays are the times between periods of some days each, of which the last ends with today.
const byDays = (periods, length) => (now) => Array.from({ length: periods + 1 }, (_, i) => midnight(now, (periods - i) * length - 1));

// byHours are those of the last 24 hours, by the hours of the clock.
function byHours(now) {
  const end = new Date(now).setMinutes(60, 0, 0);
  return Array.from({ length: 25 }, (_, i) => new Date(end - (24 - i) * hourMs));
}

const dayBefore = (date) => new Date(date.getFullYear(), date.getMonth(), date.getDate() - 1);
const hourly = { column: "Hour", name: (from, until) => `${day.format(from)}, ${clock.format(from)} to ${clock.format(until)}`, tick: (from) => clock.format(from), range: (from, until) => ({ from: momentOf(from), to: momentOf(until) }) };
const daily = { column: "Day", name: (from) => day.format(from), tick: (from) => shortDay.format(from), range: (from) => ({ from: dayOf(from), to: dayOf(from) }) };
const weekly = { column: "Days", name: (from, until) => `${shortDay.format(from)} to ${shortDay.format(dayBefore(until))}`, tick: (from) => shortDay.format(from), range: (from, until) => ({ from: dayOf(from), to: dayOf(dayBefore(until)) }) };

const spans = {
  hours: ["24 hours", byHours, hourly], week: ["7 days", byDays(7, 1), daily], month: ["30 days", byDays(30, 1), daily], quarter: ["90 days", byDays(13, 7), weekly],
};

let chosen = "month"; // as long as the page is open

const plural = (one, many) => (n) => `${n === 1 ? "1" : n || "no"} ${n === 1 ? one : many}`;
const completed = ({ activityStatus }) => activityStatus === "ACTIVITY_STATUS_COMPLETED";

// partsOf are the series of a group of kinds: how many were completed of each part.
const partsOf = (group) => groups[group][1].map(([name, types]) => ({ name, counts: (c) => completed(c) && types.includes(bareType(c.activityType)) }));

const charts = [
  { label: "Signatures", none: "Nothing was signed", unit: plural("signature", "signatures"), filter: { type: "SIGNATURES", status: "COMPLETED" }, series: partsOf("SIGNATURES") },
  { label: "Refused and failed", none: "Nothing was refused, failed or rejected", unit: plural("activity", "activities"), filter: { status: "UNSUCCESSFUL" }, series: [
    { name: "Refused or failed", tone: 4, counts: ({ activityStatus }) => activityStatus === "ACTIVITY_STATUS_FAILED" },
    { name: "Rejected by approvers", tone: 1, counts: ({ activityStatus }) => activityStatus === "ACTIVITY_STATUS_REJECTED" },
  ] },
  { label: "Sign-ins", none: "There was no sign-in", unit: plural("sign-in", "sign-ins"), filter: { type: "LOG_INS", status: "COMPLETED" }, series: partsOf("LOG_INS") },
];

// counted draws one chart of counts. Its bars lead to the list of activities, if there is one for the reader.
function counted({ label, none, unit, filter, series }, periods, [span, , words], href) {
  const bars = periods.map(({ fromMs, untilMs, counts }) => {
    const [from, until] = [new Date(Number(fromMs)), new Date(Number(untilMs))];
    const values = series.map((s) => counts.filter(s.counts).reduce((sum, c) => sum + Number(c.count), 0));
    const some = values.some((v) => v > 0);
    return { name: words.name(from, until), tick: words.tick(from), values, href: some && href ? href({ ...words.range(from, until), ...filter }) : null };
  });
  const total = bars.flatMap((b) => b.values).reduce((a, b) => a + b, 0);
  const busy = series.map((s, i) => ({ tone: i, pattern: i, ...s })).filter((_, i) => bars.some((b) => b.values[i] > 0));
  const content = total === 0 ? empty(`${none} in the last ${span}.`) : barChart({
    label, column: words.column, unit, summary: `${unit(total)} in the last ${span}`, series: busy,
    bars: bars.map((b) => ({ ...b, values: b.values.filter((_, i) => busy.some((s) => s.name === series[i].name)) })),
  });
  return h("section", null, h("h3", null, label), content);
}

const milliseconds = (n) => (n >= 1000 ? `${Number((n / 1000).toFixed(1))}\u00a0s` : `${Number(n.toFixed(n < 10 ? 1 : 0))}\u00a0ms`);

// answering draws the answering times of the last 24 hours. The enclave counts hours of the universal time.
function answering(response, now) {
  const byHour = new Map(response.map((r) => [Number(r.fromMs), r]));
  const last = Math.max(Math.floor(now / hourMs) * hourMs, ...byHour.keys());
  const ranges = Array.from({ length: 24 }, (_, i) => {
    const from = last - (23 - i) * hourMs;
    const r = byHour.get(from);
    return { name: `${clock.format(from)} to ${clock.format(from + hourMs)}`, tick: clock.format(from), count: Number(r?.count ?? 0), ...(r && { low: Number(r.medianMs), high: Number(r.p95Ms) }) };
  });
  const total = ranges.reduce((sum, r) => sum + r.count, 0);
  const slowest = Math.max(...ranges.map((r) => r.high ?? 0));
  return h("section", null, h("h3", null, "Response times, last 24 hours"), total === 0 ? empty("There were no requests in the last 24 hours, or the enclave has started since.") : rangeChart({
    label: "Response times", column: "Hour", low: "Median", high: "95 of 100 within", count: plural("request", "requests"), unit: milliseconds, ranges,
    summary: `In the slowest hour, 95 of 100 requests were answered within ${milliseconds(slowest)}`,
  }));
}

// trends is a panel that loads by itself. organizationId names a sub-organization, whose bars lead nowhere as its page has no filters,
// and whose response times are its own users' to know.
export function trends({ organizationId } = {}) {
  const place = h("div", { class: "trends-place" });
  const href = organizationId ? null : (filter) => `#/activities?${new URLSearchParams(filter)}`;
  const show = load(place, "the charts", async () => {
    const now = new Date();
    const span = spans[chosen];
    const timesMs = span[1](now).map((date) => String(date.getTime()));
    return { span, now: now.getTime(), ...await query("get_activity_counts", { ...(organizationId && { organizationId }), timesMs }) };
  }, ({ span, now, periods, response }) => [
    h("div", { class: "trends" }, charts.map((chart) => counted(chart, periods, span, href)), !organizationId && answering(response, now)),
    h("p", { class: "note" }, "The server counts these from its records, by each activity’s last change. Nobody verifies the counts.", !organizationId && " The enclave measures response times, since it started."),
  ]);
  const choice = h("select", { "aria-label": "Time", onchange: ({ target }) => { chosen = target.value; show(); } },
    Object.entries(spans).map(([value, [text]]) => h("option", { value, selected: value === chosen }, `Last ${text}`)));
  return panel("Over time", place, { actions: [choice] });
}
