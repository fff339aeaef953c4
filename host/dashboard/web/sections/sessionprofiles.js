// Session profiles: what a session may ask for, and for how long. A sign-in names one by its id.

import { query, resultOf, submit, waits } from "../api.js";
import { fill, h } from "../dom.js";
import { expressionField, highlighted, showProblems } from "../editor.js";
import { copyable, done, empty, facts, field, form, loadOne, panel, table, title, when } from "../ui.js";
import { unsaved } from "../unsaved.js";
import { answered, otherWarnings } from "./policychanges.js";
import { languageLink } from "./policyform.js";
import { whatInWords } from "./policywords.js";

const path = "#/settings/profiles";
const back = { href: "#/settings", text: "Settings" };

const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

// duration writes seconds in the largest units that fit.
function duration(seconds) {
  const [name, length] = units.find(([, l]) => seconds % l === 0);
  const n = seconds / length;
  return `${n} ${name}${n === 1 ? "" : "s"}`;
}

const life = ({ expirationSeconds }) => (expirationSeconds ? `At most ${duration(Number(expirationSeconds))}` : "As the sign-in asks, 15 minutes otherwise");

const code = (scope) => h("pre", null, h("code", null, highlighted(scope)));

export const profilesPanel = ({ profiles, profileLimits }) => panel("Session profiles",
  profiles.length === 0 ? empty("There is no session profile. A session without one may do all that its user may.")
    : table("Session profiles", ["Name", "Length", "Scope", "Id"], profiles.map((p) => [
      h("a", { class: "strong", href: `${path}/${p.sessionProfileId}` }, p.sessionProfileName), life(p), code(p.scope), copyable(p.sessionProfileId, `id of ${p.sessionProfileName}`)])), {
    note: "A profile limits what a session may ask for. Use one for programs and pages that need a part of what their user may do.",
    actions: [profileLimits.why, profileLimits.button("New session profile", { class: "button small", onclick: () => { location.hash = `${path}/new`; } })],
  });

// checked asks the policy engine about a scope, which is written like the condition of a policy. Null: this browser cannot check it.
async function checked(scope) {
  const result = await answered({ ask: "check", policy: { policyName: "scope", effect: "EFFECT_ALLOW", condition: scope, consensus: "", time: "" } });
  return result && { ...result, warnings: otherWarnings(result.warnings).filter((w) => w.clause === "condition") };
}

// meaning says what a session with a profile may do. found is what the engine says about the scope.
const meaning = (found) => h("div", { class: "does" },
  found?.words ? [h("p", null, "A session with this profile may ask for:"), h("p", { class: "policy-sentence" }, whatInWords(found.words))]
    : h("p", null, "A session with this profile may ask for what its scope says."),
  h("ul", { class: "said-lines" },
    h("li", null, "It gets no new rights: policies and the root quorum decide as they do for its user."),
    h("li", null, "It reads everything that its user may read."),
    h("li", null, "Sign-ins that it asks for start sessions of the same profile."),
    h("li", null, "Whatever the scope says, it gives no existing user a key, a passkey, an identity, a contact or a recovery.")));

// ---- A new one

function create(main) {
  let asked;
  const organization = () => (asked ??= query("get_organization").then((got) => got.organizationData));
  const place = h("div");
  const scope = expressionField({ name: "scope", label: "Scope", clause: "condition", required: true, rows: 4, organization, hint: "Which requests the session may send, in the language of a policy's condition. true: all." });
  scope.querySelector("textarea").placeholder = "activity.action == 'SIGN' && wallet.label == 'Treasury'";
  const node = form({
    fields: [
      field({ name: "sessionProfileName", label: "Name", required: true }), scope,
      field({ name: "expirationSeconds", label: "Longest session (seconds)", kind: "number", min: 1, max: 2592000, step: 1, wide: false, hint: "1 to 2,592,000, which is 30 days. Empty: as long as the sign-in asks for." }),
      field({ name: "notes", label: "Notes", kind: "textarea", rows: 2, spellcheck: "true" }),
      place,
    ],
    action: "Create session profile", cancel: h("a", { class: "button quiet", href: back.href }, "Cancel"),
    run: async ({ sessionProfileName, scope: text, expirationSeconds, notes }) => {
      const found = await checked(text);
      showProblems(node, found?.problems ?? [], found?.warnings ?? []);
      if (found?.problems.length) return;
      const activity = await submit("create_session_profile", "CREATE_SESSION_PROFILE", { sessionProfileName, scope: text, ...(expirationSeconds && { expirationSeconds }), ...(notes && { notes }) });
      saved();
      done(activity, `Session profile ${sessionProfileName} was created.`);
      location.hash = waits(activity) ? back.href : `${path}/${resultOf(activity).sessionProfileId}`;
    },
  });
  // What the scope means is told while it is written.
  let soon;
  let turn = 0;
  node.addEventListener("input", ({ target }) => {
    if (target.name !== "scope") return;
    clearTimeout(soon);
    const mine = ++turn;
    soon = setTimeout(async () => {
      const found = target.value.trim() ? await checked(target.value) : null;
      if (mine === turn) fill(place, found && !found.problems.length && meaning(found));
    }, 400);
  });
  const saved = unsaved(node);
  fill(main, title("New session profile", { back, intro: "A profile cannot be changed later.", actions: [languageLink()] }), h("section", { class: "panel", "aria-label": "Session profile" }, node));
}

// ---- One

const one = (main, sessionProfileId) => loadOne(main, "the session profile", "Session profile", back, async () => {
  const { sessionProfile } = await query("get_session_profile", { sessionProfileId });
  return { profile: sessionProfile, found: await checked(sessionProfile.scope) };
}, ({ profile, found }) => [
  title(profile.sessionProfileName, { back, intro: profile.notes }),
  panel("About", facts([
    ["Session profile id", copyable(profile.sessionProfileId, "session profile id", { whole: true })],
    ["Length", life(profile)], ["Created", when(profile.createdAt)], ["Scope", code(profile.scope)],
  ])),
  panel("What a session may do", meaning(found)),
  panel("How to use it", [
    h("p", null, "A sign-in names the profile. A sign-in that names none starts a session without limits, unless the session that asks for it has a profile."),
    facts([
      ["In a sign-in", h("div", null, h("p", { class: "note" }, "In the parameters of STAMP_LOGIN, OTP_LOGIN and OAUTH_LOGIN."), copyable(`"sessionProfileId": "${profile.sessionProfileId}"`, "the parameter of a sign-in", { whole: true }))],
      ["In a policy", h("div", null, h("p", { class: "note" }, "In the condition of a policy about sign-ins."), copyable(`activity.params.session_profile_id == '${profile.sessionProfileId}'`, "the condition of a policy", { whole: true }))],
    ]),
  ]),
]);

export function sessionProfile(main, id) {
  if (id === "new") create(main);
  else one(main, id);
}
