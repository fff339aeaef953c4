// The page on which a policy is written, checked, and put in force by a second press.

import { query } from "../api.js";
import { fill, h, unique } from "../dom.js";
import { expressionField, showFaults, showProblems } from "../editor.js";
import { badge, button, facts, field, form, loadOne, panel, tell, title, values } from "../ui.js";
import { unsaved } from "../unsaved.js";
import { allowsEverything, answered, change, create, deniesEverything, differing, openText, otherWarnings, shutText } from "./policychanges.js";
import { clauses, effectBadge, effects, expressions, inWords, openNote, warningList } from "./policywords.js";

const back = { href: "#/policies", text: "Policies" };
export const languageLink = (name = "The language") => h("a", { class: "button", href: "#/policies/language" }, name);

const blank = { policyName: "", effect: "EFFECT_ALLOW", condition: "", consensus: "", time: "", notes: "" };

// What the fields of the expressions say, with examples against which the check has nothing to say.
const about = {
  condition: ["Which requests the policy applies to. Empty: all.", "activity.kind == 'SIGN_TRANSACTION' && wallet.label == 'Treasury' && eth.tx.value < 1000000000000000000", 5],
  consensus: ["Who must approve. Empty: only the user who sends the request.", "approvers.count() >= 2", 3],
  time: ["When the policy applies. Empty: always.", "CronSpan('0 9 * * 1-5', '8h', 'Europe/Paris')", 2],
};

// organizationData is asked for once a page.
function organizationData() {
  let asked;
  return () => (asked ??= query("get_organization").then((got) => got.organizationData));
}

function expression(clause, policy, organization) {
  const [hint, example, rows] = about[clause];
  const node = expressionField({ name: clause, label: clauses[clause], clause, value: policy[clause] ?? "", hint, rows, organization });
  node.querySelector("textarea").placeholder = example;
  return node;
}

function fields(policy) {
  const organization = organizationData();
  return [
    field({ name: "policyName", label: "Name", required: true, value: policy.policyName }),
    field({ name: "effect", label: "Effect", kind: "select", value: policy.effect, options: effects, wide: false, hint: "A policy that denies overrides all that allow." }),
    ...Object.keys(about).map((clause) => expression(clause, policy, organization)),
    field({ name: "notes", label: "Notes", kind: "textarea", rows: 2, value: policy.notes, spellcheck: "true" }),
  ];
}

// written is the policy that a form says. An expression of spaces is none.
const written = (node) => Object.fromEntries(Object.entries(values(node)).filter(([name]) => name in blank).map(([name, text]) => [name, name in clauses && !text.trim() ? "" : text]));

// check asks the policy engine about a policy beside the others. Null: this browser cannot check it.
async function check(policy, before) {
  const { notes, ...asked } = policy;
  const result = await answered({ ask: "check", policy: { ...asked, ...(before && { policyId: before.policyId }) } });
  if (!result || !before || result.problems.length) return result;
  const then = await answered({ ask: "describe", policyIds: [before.policyId] });
  return { ...result, before: then?.policies[before.policyId]?.words };
}

// ---- What the policy does

// named lists what an edit changes beside the words.
const named = (before, after) => {
  const changed = differing(before, after);
  const row = (name, text, show) => changed.includes(name) && [text, h("span", { class: "row" }, h("del", null, show(before)), "→", h("ins", null, show(after)))];
  return [row("policyName", "Name", (p) => p.policyName), row("effect", "Effect", effectBadge), row("notes", "Notes", (p) => p.notes || "none")];
};

function comparison(old, now) {
  const same = JSON.stringify(old) === JSON.stringify(now);
  return [
    same && h("p", null, "In words nothing changes: the expressions are written in another way, or only the name or the notes are others."),
    same ? inWords(now) : h("div", { class: "columns" },
      h("section", { class: "version" }, h("h3", null, "Until now"), inWords(old, { other: now, mark: "del" })),
      h("section", { class: "version" }, h("h3", null, "From now on"), inWords(now, { other: old, mark: "ins" }))),
  ];
}

// saying is what the check found: the policy in words, and the warnings.
function saying(policy, result, before) {
  const exact = expressions(policy);
  if (!result) return [h("p", { class: "state waiting" }, "This browser cannot check the policy or put it in words. The server checks the expressions when you put the policy in force."), exact.length ? exact : h("p", { class: "note" }, openNote)];
  const { words, before: old } = result;
  const warnings = otherWarnings(result.warnings);
  return [
    before && old ? comparison(old, words) : inWords(words),
    warnings.length > 0 && [h("h3", null, warnings.length === 1 ? "1 warning" : `${warnings.length} warnings`), warningList(policy, warnings)],
    h("details", null, h("summary", null, "Expressions"), exact.length ? exact : h("p", { class: "note" }, openNote)),
  ];
}

// step shows what a policy does, and the press that puts it in force. The heading has the focus, not the press.
function step(policy, result, { before, edit, run }) {
  const id = unique("does");
  const open = allowsEverything(policy, result);
  return h("section", { class: "panel", "aria-labelledby": id },
    h("div", { class: "row" }, h("h2", { id, tabindex: "-1" }, "What this policy does"), effectBadge(policy), open && badge("Allows everything", "bad")),
    h("p", { class: "strong wrap" }, policy.policyName),
    (open || deniesEverything(policy)) && h("p", { class: "alert strong", role: "alert" }, open ? openText : shutText),
    h("div", { class: "does" }, before && facts(named(before, policy)), saying(policy, result, before)),
    form({
      fields: open ? [field({ name: "sure", label: "I want every user to be able to do everything", kind: "checkbox", required: true })] : [],
      action: "Put in force", danger: open, cancel: button("Back to editing", { onclick: edit }), run,
    }));
}

// ---- The server's refusal

// refused shows in the fields what the server has against the policy, at the place that it names.
function refused(node, error) {
  const names = { policyCondition: "condition", policyConsensus: "consensus", policyEffect: "effect", policyNotes: "notes" };
  const faults = error.fields.map(({ field: name, description }) => ({ field: names[name] ?? name, description }));
  if (!showFaults(node, faults)) tell(node, Object.assign(new Error(error.message), { fields: faults, unavailable: error.unavailable }));
}

// ---- The page

// page is the form, and the check in its place. before is the policy that is edited. checked begins with the check: the form comes only if
// there is something against the policy, or to go back to.
function page(start, before, notice, checked = false) {
  const place = h("div");
  const read = () => JSON.stringify(written(node));
  const edit = () => {
    fill(place);
    whole.hidden = false;
    node.elements.policyName.focus();
  };
  const put = (policy) => async () => {
    if (read() !== JSON.stringify(policy)) {
      edit();
      tell(node, new Error("The text has changed since the check. Check it again."));
      return;
    }
    try {
      await (before ? change(before, policy) : create(policy));
    } catch (error) {
      if (!error.fields?.length) throw error;
      edit();
      refused(node, error);
      return;
    }
    saved();
    location.hash = back.href;
  };
  const node = form({
    fields: fields(start), action: "Check", cancel: h("a", { class: "button quiet", href: back.href }, "Cancel"),
    run: async () => {
      const policy = written(node);
      if (before && differing(before, policy).length === 0) throw new Error("Nothing was changed.");
      const result = await check(policy, before).finally(() => whole.hidden && edit());
      showProblems(node, result?.problems ?? [], result?.warnings ?? []);
      if (result?.problems.length) return;
      const shown = step(policy, result, { before, edit, run: put(policy) });
      whole.hidden = true;
      fill(place, shown);
      shown.querySelector("h2").focus();
    },
  });
  const whole = h("section", { class: "panel", "aria-label": "Policy" }, notice && h("p", { class: "note" }, notice), node);
  const saved = unsaved(node, read);
  if (checked) {
    whole.hidden = true;
    fill(place, h("p", { class: "note", role: "status" }, "Checking the policy…"));
    queueMicrotask(() => node.requestSubmit());
  }
  return [whole, place];
}

// draft is the policy that an address carries, null without one. What is no text in it stays empty.
function draft(text) {
  let given;
  try {
    given = JSON.parse(text);
  } catch {
    return null;
  }
  if (given === null || typeof given !== "object") return null;
  const taken = Object.fromEntries(Object.entries(blank).map(([name, empty]) => [name, typeof given[name] === "string" ? given[name] : empty]));
  return { ...taken, effect: effects.some(([effect]) => effect === taken.effect) ? taken.effect : blank.effect };
}

// write is the form of a new policy, with the draft of the address in it, if there is one, which is checked at once if that is wished.
export function write(main, text, checked = false) {
  const given = text && draft(text);
  fill(main, title("New policy", { back: { href: "#/policies/new", text: "Tasks" }, actions: [languageLink()] }),
    page(given || blank, null, text && (given ? "The fields were filled in for you. Read them, and change what you like." : "The draft in the address of this page cannot be read."), checked && Boolean(given?.policyName)));
}

// edit is the form of a policy that there is.
export const edit = (main, policyId) => loadOne(main, "the policy", "Edit policy", back, async () => (await query("get_policy", { policyId })).policy,
  (policy) => [title(`Edit ${policy.policyName}`, { back, actions: [languageLink()] }), ...page({ ...blank, ...policy, time: policy.time ?? "" }, policy)]);
