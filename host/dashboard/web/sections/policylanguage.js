// The language of policies: how a decision is made, and all that an expression can read.

import { ask } from "../advice.js";
import { fill, h } from "../dom.js";
import { highlighted } from "../editor.js";
import { badge, load, panel, table, title } from "../ui.js";

const back = { href: "#/policies", text: "Policies" };

const decision = [
  "In a session with a scope, the scope must allow the request; this binds the root quorum too.",
  "Some activities must be about the user who sends them, such as an import of that user's wallet; otherwise they are denied.",
  "If enough members of the root quorum approve, the request is allowed, and no policy is evaluated.",
  "Otherwise every policy is evaluated by itself: if one that denies applies, the request is denied; if none does and one that allows applies, it is allowed; if one that allows only lacks approvals, the request waits.",
  "If no policy decides, users may still manage their own credentials and sessions.",
  "Everything else is denied.",
];

const clauseRows = [
  ["Condition", "Which requests the policy is about. It reads everything but approvers and time.", "activity.kind == 'SIGN_TRANSACTION' && wallet.label == 'Treasury'"],
  ["Consensus", "Who must approve. It reads approvers and credentials.", "approvers.count() >= 2"],
  ["Time", "When the policy is in force. It reads time.now.", "CronSpan('0 9 * * 1-5', '8h', 'Europe/Paris')"],
];

const code = (text) => h("code", { class: "wrap" }, text);
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

// Parts of the answer, each with its columns and what is searched.
const parts = [
  { name: "Fields", one: "field", all: (l) => l.fields, columns: ["Field", "Type", "Clause", "What it is"],
    cells: (f) => [code(f.path), code(f.type), capital(f.clause), [f.optional && [badge("may be missing"), " "], f.note]], texts: (f) => [f.path, f.type, f.clause, f.note] },
  { name: "Methods", one: "method", all: (l) => l.methods, columns: ["Method", "Written", "What it means"], cells: (m) => [code(m.name), code(m.form), m.note], texts: (m) => [m.name, m.form, m.note] },
  { name: "Kinds of activity", one: "kind", all: (l) => l.kinds, columns: ["activity.kind", "activity.resource", "activity.action"],
    cells: (k) => [code(k.name), k.rootQuorum ? "Only the root quorum decides" : code(k.resource), k.rootQuorum ? "–" : code(k.action)], texts: (k) => [k.name, k.resource, k.action] },
];

// reference is all tables, with a box that searches them.
function reference(language, start) {
  const box = h("input", { type: "search", value: start, placeholder: "eth.tx", autocomplete: "off", spellcheck: "false" });
  const count = h("p", { class: "note", role: "status" });
  const place = h("div");
  const draw = () => {
    const sought = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = parts.map((part) => part.all(language).filter((item) => {
      const text = part.texts(item).join(" ").toLowerCase();
      return sought.every((word) => text.includes(word));
    }));
    fill(count, `${found.map((rows, i) => `${rows.length} ${parts[i].one}${rows.length === 1 ? "" : "s"}`).join(", ")}.`);
    fill(place, parts.map((part, i) => found[i].length > 0 && panel(part.name, table(part.name, part.columns, found[i].map(part.cells)))));
  };
  box.addEventListener("input", draw);
  draw();
  return [h("div", { class: "filters" }, h("label", { class: "grow" }, "Search fields, methods and kinds", box), count), place];
}

export function language(main, search) {
  const place = h("div");
  fill(main, title("The language of policies", { back, intro: "A policy allows or denies. It applies when all its clauses are true; a clause that is left out is true." }),
    panel("How a decision is made", [h("ol", { class: "numbered" }, decision.map((text) => h("li", null, text))),
      h("p", { class: "note" }, "A policy that reads a field which the request lacks is an error: it neither allows nor denies. Both sides of && and || are always evaluated.")]),
    panel("Clauses", table("Clauses", ["Clause", "What it says", "Example"], clauseRows.map(([name, text, example]) => [h("span", { class: "strong nowrap" }, name), text, h("code", { class: "wrap" }, highlighted(example))])),
      { note: "Operators: ! == != < > <= >= in && ||. Text stands between single quotes. Numbers are whole, and there is no arithmetic: write amounts in the chain's smallest unit." }),
    place);
  load(place, "the fields", () => ask({ ask: "language" }), (got) => reference(got, search.get("q") ?? ""));
}
