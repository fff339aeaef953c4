// Charts as SVG: stacked bars, ranges, and rows with their shares. Each says the same in words: a sentence, the value of what is pointed
// at or has the focus, and a table. Series differ by their pattern too, not by colour alone.

import { fill, h, unique } from "./dom.js";
import { table } from "./ui.js";

const height = 168;
const top = 8;
const base = 144; // where the bars stand
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const counted = new Intl.NumberFormat();

// roundUp is the next number up that an axis can end at.
function roundUp(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 4, 6, 8, 10].map((n) => n * power).find((n) => n >= most);
}

const percent = (part) => `${Number((part * 100).toFixed(3))}%`;
const above = (value, scale) => Number(((value / scale) * (base - top)).toFixed(2)); // pixels above the base

// patternsOf makes the fills of the series of one chart: plain, striped, dotted, and a frame around nothing.
function patternsOf(series) {
  const id = unique("pattern");
  const drawing = [
    (i) => h("rect", { width: 6, height: 6, class: `tone-${i}` }),
    (i) => [h("rect", { width: 6, height: 6, class: `tone-${i} weak` }), h("rect", { width: 3, height: 6, class: `tone-${i}` })],
    (i) => [h("rect", { width: 6, height: 6, class: `tone-${i} weak` }), h("circle", { cx: 3, cy: 3, r: 1.8, class: `tone-${i}` })],
    (i) => [h("rect", { width: 6, height: 6, class: `tone-${i} weak` }), h("rect", { width: 6, height: 1.5, class: `tone-${i}` })],
  ];
  return {
    defs: () => h("defs", null, series.map((s, i) => h("pattern", { id: `${id}-${i}`, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: (s.pattern ?? i) === 1 ? "rotate(45)" : null }, drawing[s.pattern ?? i](s.tone ?? i)))),
    fill: (i) => `url(#${id}-${i})`,
  };
}

// axis is the scale beside the bars: lines with their values.
function axis(scale, text) {
  const marks = [scale, ...(Number.isInteger(scale / 2) || text ? [scale / 2] : []), 0];
  const y = (value) => base - above(value, scale);
  return {
    lines: marks.map((v) => h("line", { x1: "0", x2: "100%", y1: y(v), y2: y(v), class: v === 0 ? "axis" : "grid" })),
    labels: h("svg", { width: 44, height, "aria-hidden": "true" }, marks.map((v) => h("text", { x: 38, y: y(v) + 4, "text-anchor": "end" }, text ? text(v) : compact.format(v)))),
  };
}

// ticks are the names under the columns: not more than fit, and half of them on a phone.
function ticks(columns) {
  const every = Math.ceil(columns.length / 7);
  const last = columns.length - 1;
  return columns.map((c, i) => {
    if ((last - i) % every) return null;
    const place = (last - i) / every;
    const anchor = i === last && columns.length > 13 ? "end" : i === 0 && columns.length > 13 ? "start" : "middle";
    const x = anchor === "end" ? 1 : anchor === "start" ? 0 : (i + .5) / columns.length;
    return h("text", { x: percent(x), y: height - 6, "text-anchor": anchor, class: place % 2 ? "minor" : null }, c.tick);
  });
}

// plot draws columns over an axis. draw gives the shapes of one of them. One column has the tab stop; arrow keys go to the others.
function plot({ label, columns, summary, scale, text, defs, draw }) {
  const { lines, labels } = axis(scale, text);
  const said = h("p", { class: "chart-said", "aria-hidden": "true" }, summary);
  const nodes = columns.map((c, i) => h("svg:a", {
    class: "column", href: c.href, role: c.href ? null : "img", "aria-label": c.label, tabindex: i === columns.length - 1 ? "0" : "-1",
    onpointerenter: () => fill(said, c.label), onfocus: () => fill(said, c.label),
  }, h("rect", { class: "hit", x: percent(i / columns.length), width: percent(1 / columns.length), y: 0, height: base }), draw(c, i)));
  const svg = h("svg", {
    width: "100%", height, role: "group", "aria-label": `${label}. The arrow keys go from one to the next.`,
    onpointerleave: () => fill(said, summary), onfocusout: () => fill(said, summary),
    onkeydown: (event) => {
      const from = nodes.indexOf(document.activeElement);
      const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: nodes.length - 1 }[event.key];
      if (to === undefined || from < 0) return;
      event.preventDefault();
      if (!nodes[to]) return;
      nodes[from].setAttribute("tabindex", "-1");
      nodes[to].setAttribute("tabindex", "0");
      nodes[to].focus();
    },
  }, defs, lines, nodes, h("g", { "aria-hidden": "true" }, ticks(columns)));
  return [said, h("div", { class: "plot" }, labels, svg)];
}

// swatch is a piece of a series, for the legend.
const swatch = (...shapes) => h("svg", { width: 14, height: 14, "aria-hidden": "true", class: "swatch" }, shapes);

const legend = (rows) => h("ul", { class: "legend" }, rows.map((row) => h("li", null, row)));

const asTable = (label, columns, rows) => h("details", null, h("summary", null, "Show as a table"), table(label, columns, rows));

const nameCell = (c) => (c.href ? h("a", { class: "strong", href: c.href }, c.name) : c.name);

// barChart shows how many there were in each period, by series: a name each, and the tone and pattern if not those of its place. unit writes a number of them; column is what the periods are.
export function barChart({ label, summary, column, series, bars, unit }) {
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  const patterns = patternsOf(series);
  const columns = bars.map((b) => {
    const parts = series.map((s, i) => b.values[i] > 0 && `${s.name}: ${counted.format(b.values[i])}`).filter(Boolean);
    return { ...b, label: `${b.name}: ${unit(sum(b.values))}${series.length > 1 && parts.length ? ` (${parts.join(", ")})` : ""}` };
  });
  const width = columns.length > 7 ? .72 : .5;
  const scale = roundUp(Math.max(1, ...bars.map((b) => sum(b.values))));
  const draw = ({ values }, i) => {
    let y = base;
    return values.map((value, s) => {
      const tall = value > 0 && Math.max(2, above(value, scale));
      y -= tall;
      return tall && h("rect", { x: percent((i + (1 - width) / 2) / bars.length), width: percent(width / bars.length), y, height: Math.max(1, tall - (y + tall < base ? 1 : 0)), fill: patterns.fill(s) });
    });
  };
  return h("figure", { class: "chart", "aria-label": label },
    h("figcaption", { class: "hidden" }, summary),
    legend(series.map((s, i) => [swatch(h("rect", { width: 14, height: 14, rx: 2, fill: patterns.fill(i) })), `${s.name} `, h("b", null, counted.format(sum(bars.map((b) => b.values[i]))))])),
    plot({ label, columns, summary, scale, defs: patterns.defs(), draw }),
    asTable(label, [column, ...series.map((s) => s.name), ...(series.length > 1 ? ["All"] : [])],
      columns.map((c) => [nameCell(c), ...c.values.map((v) => counted.format(v)), ...(series.length > 1 ? [counted.format(sum(c.values))] : [])]).reverse()));
}

// rangeChart shows a low and a high value of each period, and how many it is of. A period may have none. unit writes a value.
export function rangeChart({ label, summary, column, low, high, count, ranges, unit }) {
  const columns = ranges.map((r) => ({ ...r, label: r.count ? `${r.name}: ${low} ${unit(r.low)}, ${high} ${unit(r.high)}, ${count(r.count)}` : `${r.name}: ${count(0)}` }));
  const scale = roundUp(Math.max(1, ...ranges.map((r) => r.high ?? 0)));
  const draw = (r, i) => {
    if (!r.count) return null;
    const [x, width] = [percent((i + .2) / ranges.length), percent(.6 / ranges.length)];
    const [from, to] = [base - above(r.low, scale), base - above(r.high, scale)];
    return [h("rect", { x, width, y: to, height: Math.max(1, from - to), class: "tone-2 weak" }), h("rect", { x, width, y: to - 1, height: 2, class: "tone-2" }), h("rect", { x, width, y: from - 2, height: 4, class: "tone-0" })];
  };
  const filled = columns.filter((c) => c.count);
  return h("figure", { class: "chart", "aria-label": label },
    h("figcaption", { class: "hidden" }, summary),
    legend([[swatch(h("rect", { y: 5, width: 14, height: 4, class: "tone-0" })), low], [swatch(h("rect", { y: 2, width: 14, height: 12, class: "tone-2 weak" }), h("rect", { y: 1, width: 14, height: 2, class: "tone-2" })), high]]),
    plot({ label, columns, summary, scale, text: unit, draw }),
    asTable(label, [column, low, high, "Requests"], filled.map((c) => [c.name, unit(c.low), unit(c.high), counted.format(c.count)]).reverse()));
}

// shareRows shows numbers as rows, each with a bar as long as its share of the largest. rows are names with a number.
export const shareRows = (label, rows) => {
  const most = Math.max(1, ...rows.map(([, n]) => n));
  return h("ul", { class: "shares", "aria-label": label }, rows.map(([name, n]) => h("li", null, h("span", null, name),
    h("svg", { width: "100%", height: 12, "aria-hidden": "true" }, h("rect", { width: percent(n / most), height: 12, rx: 2, class: "tone-0" })), h("b", null, counted.format(n)))));
};
