// Tables whose rows are sorted by a click on a column's name.

import { fill, h } from "./dom.js";
import { button, table } from "./ui.js";

const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : collator.compare(String(a ?? ""), String(b ?? "")));

// sorted gives rows in the order of a key, descending if so wished.
export function sorted(rows, key, descending) {
  const sign = descending ? -1 : 1;
  return [...rows].sort((a, b) => sign * compare(key(a), key(b)));
}

// sortable is a table of rows. A column has a name, a cell to draw of a row, and a key to sort by; one without a key cannot be sorted.
// order names the column by which the rows come, and whether the largest is first. The first rows are drawn, and more on request;
// all are sorted. add appends rows.
export function sortable(caption, columns, rows, { order, step = 50 } = {}) {
  const place = h("div", { class: "grown" });
  const all = [...rows];
  let by = order ?? {};
  let count = step;
  const sort = (column) => {
    by = { name: column.name, descending: by.name === column.name && !by.descending };
    draw();
    [...place.querySelectorAll(".sort")].find((b) => b.textContent === column.name).focus();
  };
  const head = (column, th) => {
    if (by.name === column.name) th.setAttribute("aria-sort", by.descending ? "descending" : "ascending");
    fill(th, h("button", { type: "button", class: "sort", onclick: () => sort(column) }, column.name));
  };
  function draw() {
    const column = columns.find((c) => c.name === by.name);
    const shown = (column ? sorted(all, column.key, by.descending) : all).slice(0, count);
    const made = table(caption, columns.map((c) => c.name), shown.map((row) => columns.map((c) => c.cell(row))));
    made.classList.add("sortable");
    made.querySelectorAll("th").forEach((th, i) => columns[i].key && head(columns[i], th));
    const more = all.length > count && button(`Show more (${all.length - count})`, { class: "button quiet", onclick: () => { count += step; draw(); } });
    fill(place, made, more);
  }
  draw();
  return {
    node: place,
    add(more) {
      all.push(...more);
      count = Math.max(count, all.length);
      draw();
    },
  };
}
