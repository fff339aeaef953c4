// Lists saved as files: CSV (RFC 4180) and JSON.

import { fill, h } from "./dom.js";
import { session } from "./session.js";
import { button, dialog, download, field, milliseconds, toast } from "./ui.js";

// A file has at most this many rows, so that the browser can hold it.
const most = 100_000;

// moment is a timestamp of the interface as other programs read it.
export const moment = (timestamp) => (timestamp ? new Date(milliseconds(timestamp)).toISOString() : "");

// cell is a value in CSV. A spreadsheet would take what begins like a formula for one; an apostrophe makes it text.
function cell(value) {
  const plain = value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
  const harmless = /^[=+\-@\t\r]/.test(plain) ? `'${plain}` : plain;
  return /[",\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
}

const line = (values) => `${values.map(cell).join(",")}\r\n`;

// Spreadsheets know UTF-8 by this mark.
const mark = "\ufeff";

const formats = {
  csv: {
    type: "text/csv",
    write: ({ columns, lines = (row) => [row] }, rows) => [mark, line(columns.map(([name]) => name)), ...rows.flatMap(lines).map((one) => line(columns.map(([, value]) => value(one))))],
  },
  json: {
    type: "application/json",
    write: ({ what }, rows, complete) => [`{"organizationId":${JSON.stringify(session().organizationId)},"exportedAt":${JSON.stringify(new Date().toISOString())},"complete":${complete},${JSON.stringify(what)}:[\n`,
      ...rows.map((row, i) => `${i ? ",\n" : ""}${JSON.stringify(row)}`), "\n]}\n"],
  },
};

const number = new Intl.NumberFormat();

// exportButton saves a list. what names it, and pages yields its rows a page at a time until it is aborted. JSON has the rows as the
// interface answers them. In CSV, lines makes the lines of a row, if they are several, and columns are the names and values of a line.
export const exportButton = (list) => button("Export list", { onclick: () => start(list) });

function start(list) {
  const stop = new AbortController();
  const progress = h("p", { role: "status" });
  const node = dialog({
    heading: `Export ${list.title ?? list.what}`,
    intro: list.intro,
    fields: [field({ name: "format", label: "Format", kind: "select", value: "csv", options: [["csv", "CSV, for spreadsheets"], ["json", "JSON, with all fields"]] }), progress],
    action: "Export",
    run: ({ format }) => save(list, format, progress, stop.signal),
  });
  node.addEventListener("close", () => stop.abort(new Error("cancelled")));
}

async function save(list, format, progress, signal) {
  const rows = [];
  const seen = new Set();
  let problem = null;
  try {
    for await (const page of list.pages(signal, (text) => fill(progress, text))) {
      signal.throwIfAborted();
      // What changes meanwhile may come twice.
      for (const row of page) {
        const id = list.id(row);
        if (seen.has(id)) continue;
        seen.add(id);
        rows.push(row);
      }
      if (rows.length > most) {
        rows.length = most;
        problem = `The list is longer than ${number.format(most)} rows. Choose a shorter range of dates.`;
        break;
      }
      fill(progress, `${number.format(rows.length)} so far…`);
    }
  } catch (error) {
    if (signal.aborted) return;
    if (rows.length === 0) throw error;
    problem = error.message;
  }
  if (signal.aborted) return;
  fill(progress);
  const { type, write } = formats[format];
  const day = new Date().toISOString().slice(0, 10);
  download(`${list.what}-${day}${problem ? "-incomplete" : ""}.${format}`, write(list, rows, !problem), type);
  if (problem) throw new Error(`The file is incomplete: it has the first ${rows.length === 1 ? "row" : `${number.format(rows.length)} rows`}. ${problem}`);
  toast(`Exported ${number.format(rows.length)} ${rows.length === 1 ? "row" : "rows"}.`);
}
