// IP allowlists: the addresses from which users may send requests. The organization has one, and a key may have one of its own.

import { query, submit } from "../api.js";
import { fill, h } from "../dom.js";
import { limitedByPolicies } from "../may.js";
import { covers, linesOf, rangeOf } from "../networks.js";
import { session } from "../session.js";
import { badge, button, confirm, copyable, done, empty, facts, field, form, loadOne, panel, table, time, title } from "../ui.js";
import { unsaved } from "../unsaved.js";

const path = "#/settings/ip";
const back = { href: "#/settings", text: "Settings" };

export const listOf = async (publicKey) => (await query("get_ip_allowlist", publicKey ? { publicKey } : {})).allowlist;

// exists: the server answers a list without rules where there is none.
const exists = (list) => list.onEvaluationError !== undefined;

const stateOf = (list) => (list.enabled ? badge("Enforced", "good") : badge(exists(list) ? "Not enforced" : "None"));

const ranges = (list) => (list.rules.length === 0 ? empty("No address ranges.")
  : table("Address ranges", ["Range", "Label", "Added"], list.rules.map((r) => [h("code", { class: "wrap" }, r.cidr), r.label || "–", time(Number(r.createdAt))])));

// whatIsChecked tells what a list does, and whose word an address is.
const whatIsChecked = () => panel("What is checked", h("ul", { class: "said-lines" },
  h("li", null, "While the list is enforced, every request of your users must come from an address in it: what they read, ask for and approve, and their sign-ins. That holds for the root quorum, too, and for what your users read in sub-organizations."),
  h("li", null, "It does not hold for users of sub-organizations, and not for people who sign in through the auth proxy."),
  h("li", null, "A key with ranges of its own is checked against those alone. Keys have theirs on the page of their user."),
  h("li", null, "The enclave compares the address that the host tells it, and has no proof of it. The list stops somebody who has stolen a key. It does not stop the operator of the host, who could tell any address."),
  h("li", null, "The host takes the address of the connection, or, if its operator has set ", h("code", { class: "flag" }, "-trust-forwarded"), ", the one that the proxy before it reports. If that setting is wrong, everybody seems to come from one address.")));

export const ipPanel = ({ list, ipLimits }) => panel("IP allowlist", [
  facts([["Status", stateOf(list)], exists(list) && ["If an address is unknown", list.onEvaluationError === "ALLOW" ? "The request is let through" : "The request is refused"]]),
  exists(list) && ranges(list),
], {
  note: "The addresses from which your users may send requests.",
  actions: [ipLimits.why, h("a", { class: "button quiet small", href: path }, "What is checked"), ipLimits.button(exists(list) ? "Edit the list" : "Make a list", { class: "button small", onclick: () => { location.hash = path; } })],
});

// ---- Whether the reader would lock himself out

// inForce gives the ranges that requests with a key must come from, null if they may come from anywhere.
const inForce = (list, own) => (!list.enabled ? null : (own.rules.length ? own : list).rules.map((r) => rangeOf(r.cidr)));

// mayLockOut tells whether the reader may be refused after a change. His address is in the ranges that hold until then, as the server
// answers him, so that he is safe if all of those are covered. Nothing else is known: no reply tells him his address.
function mayLockOut(before, after) {
  const now = inForce(before.list, before.own);
  const then = inForce(after.list, after.own);
  if (then === null) return false;
  const isStricter = before.list.onEvaluationError === "ALLOW" && after.list.onEvaluationError !== "ALLOW";
  return now === null || isStricter || now.some((b) => !then.some((a) => covers(a, b)));
}

const isLoopback = () => /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$|\.localhost$/.test(location.hostname);

// lockOut warns the reader. It says that nobody can be sure, and what would follow.
function lockOut(then, choice) {
  const told = (strong, text) => h("div", { class: "unread" }, h("p", { class: "strong" }, strong), h("p", null, text), choice);
  if (then.length === 0) return told("Everybody would be locked out", "The list is enforced and has no ranges. Every request is refused then, those of the root quorum and of this page included, except with keys that have ranges of their own. Nobody else can undo it.");
  return told("You may lock yourself out", `The server does not tell this page your address, so the page cannot check that it is in the list. If it is not, everything that you send from now on is refused, also from this page. Only somebody whose address is in the list can change it then. Check your address before you save.${isLoopback() ? " You have opened this page on your own machine, so your address is probably 127.0.0.1 or ::1." : ""}`);
}

// ---- The page

const text = (list) => list.rules.map((r) => [r.cidr, r.label].filter(Boolean).join(" ")).join("\n");

const atRules = (description) => Object.assign(new Error(description), { fields: [{ field: "rules", description }] });

// byLine has the server's refusal name the line that it is about.
function byLine(error, lines) {
  const [fault] = error.fields ?? [];
  const place = /^rules\.(\d+)\./.exec(fault?.field ?? "");
  return place ? atRules(`Line ${lines[Number(place[1])].number}: ${fault.field.endsWith(".label") ? "the label " : ""}${fault.description}.`) : error;
}

// rulesOf reads the lines of the form. It throws with all lines at fault.
function rulesOf(lines) {
  const faults = lines.filter((l) => l.fault).map((l) => `Line ${l.number}: ${l.fault}`);
  if (faults.length) throw atRules(faults.join("\n"));
  return lines.map((l) => l.rule);
}

const hint = "One per line, such as 192.0.2.0/24 or 2001:db8::/48, with a label behind it if you like. At most 10 of IPv4, each /20 or narrower, and 10 of IPv6, each /48 or narrower.";

// editor is the form of a list. publicKey is empty for the organization's. mine is the list of the reader's own key.
function editor({ publicKey, list, own, mine }, again) {
  const edited = publicKey ? own : list;
  const warning = h("div", { role: "alert" });
  const isMine = publicKey === session().publicKey;
  const save = async (parameters, lines) => {
    try {
      done(await submit("set_ip_allowlist", "SET_IP_ALLOWLIST", parameters), "The IP allowlist was saved.");
    } catch (error) {
      throw byLine(error, lines);
    }
    saved();
    fill(warning);
    again();
  };
  const node = form({
    fields: [
      !publicKey && field({ name: "enabled", label: "Enforce the list", kind: "checkbox", value: list.enabled, hint: "Off: the list is kept and nothing is refused." }),
      field({ name: "rules", label: "Address ranges", kind: "textarea", class: "code", rows: 6, value: text(edited), hint }),
      !publicKey && field({ name: "onEvaluationError", label: "If an address is unknown", kind: "select", value: list.onEvaluationError ?? "DENY", options: [["DENY", "Refuse the request"], ["ALLOW", "Let the request through"]], wide: false }),
      warning,
    ],
    action: "Save",
    run: async (all) => {
      const lines = linesOf(all.rules);
      const rules = rulesOf(lines);
      if (publicKey && rules.length === 0) throw atRules("A key's list needs a range. Without one, remove the list.");
      const parameters = publicKey ? { publicKey, rules } : { enabled: all.enabled, rules, onEvaluationError: all.onEvaluationError };
      const after = publicKey ? { list, own: isMine ? { rules } : mine } : { list: parameters, own: mine };
      if (!mayLockOut({ list, own: mine }, after)) return save(parameters, lines);
      const anyway = button("Save anyway", { class: "button danger small", onclick: async () => {
        if (anyway.hasAttribute("aria-disabled")) return;
        anyway.setAttribute("aria-disabled", "true");
        try {
          await save(parameters, lines);
        } catch (error) {
          fill(warning, h("p", { class: "strong" }, error.message));
        }
      } });
      const stay = button("Back to the list", { class: "button small", onclick: () => { fill(warning); node.elements.rules.focus(); } });
      fill(warning, lockOut(inForce(after.list, after.own), h("div", { class: "row" }, stay, anyway)));
      stay.focus(); // a second press of Save by mistake saves nothing
    },
  });
  node.addEventListener("input", () => fill(warning));
  const saved = unsaved(node);
  return node;
}

function remove({ publicKey, list, mine }, again) {
  const after = { list, own: { rules: [] } };
  const isRisky = publicKey === session().publicKey && mayLockOut({ list, own: mine }, after);
  confirm("Remove this IP allowlist?", publicKey ? [h("p", null, "The organization's list, if it is enforced, then holds for this key."), isRisky && lockOut(inForce(after.list, after.own))]
    : "Requests of your users are then taken from any address. Keys keep their own ranges, which have no effect without this list.", "Remove", async () => {
    done(await submit("remove_ip_allowlist", "REMOVE_IP_ALLOWLIST", publicKey ? { publicKey } : {}), "The IP allowlist was removed.");
    again();
  });
}

// keyNote says when the list of a key has an effect.
const keyNote = (list) => (list.enabled ? "The organization's list is enforced. For this key, these ranges take its place."
  : "These ranges have no effect now: they are checked only while the organization's list is enforced.");

// ipAllowlist is the page of the organization's list, or with a public key of that key's.
export const ipAllowlist = (main, publicKey = "") => loadOne(main, "the IP allowlist", "IP allowlist", back, async () => {
  const [list, own, mine, limits, removal] = await Promise.all([
    listOf(), publicKey ? listOf(publicKey) : null, listOf(session().publicKey),
    limitedByPolicies("SET_IP_ALLOWLIST", { rules: [], ...(publicKey && { publicKey }) }), limitedByPolicies("REMOVE_IP_ALLOWLIST", publicKey ? { publicKey } : {}),
  ]);
  return { publicKey, list, own, mine, limits, removal };
}, (got, again) => {
  const edited = publicKey ? got.own : got.list;
  return [
    title(publicKey ? "IP allowlist of a key" : "IP allowlist", {
      back, intro: publicKey ? keyNote(got.list) : "The addresses from which your users may send requests.",
      actions: exists(edited) ? [got.removal.why, got.removal.button("Remove the list", { onclick: () => remove(got, again) })] : [],
    }),
    panel("List", [
      facts([publicKey ? ["Public key", copyable(publicKey, "public key", { whole: true })] : ["Status", stateOf(got.list)]]),
      got.limits.why,
      got.limits.why ? [ranges(edited), h("div", { class: "end" }, got.limits.button("Save", { class: "button primary" }))] : editor(got, again),
    ], { actions: publicKey ? [h("a", { class: "button small", href: path }, "The organization's list")] : [] }),
    whatIsChecked(),
  ];
});
