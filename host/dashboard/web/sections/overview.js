// Overview: how many activities wait for the user, the organization and its features.

import { query, submit } from "../api.js";
import { fill, h } from "../dom.js";
import { limitedToRoot } from "../may.js";
import { session } from "../session.js";
import { badge, choices, confirm, copyable, dialog, done, empty, facts, field, load, panel, table, title, words } from "../ui.js";
import { waitingForMe } from "../waiting.js";
import { activityTable } from "./activities.js";
import { plural, proxyUser } from "./directory.js";

// The features that can be turned on, in the order of the list: name, title, description, and of a value its label and an example.
const features = [
  ["FEATURE_NAME_OTP_EMAIL_AUTH", "E-mail sign-in codes", "Users sign in with a code that is e-mailed to them. The auth proxy has its own switch, under Auth."],
  ["FEATURE_NAME_SMS_AUTH", "SMS sign-in codes", "Users sign in with a code that is sent to their phone. The auth proxy has its own switch, under Auth."],
  ["FEATURE_NAME_EMAIL_AUTH", "E-mail sign-in keys", "Users sign in with a session key that is e-mailed to them, encrypted."],
  ["FEATURE_NAME_EMAIL_RECOVERY", "E-mail recovery", "Users who lost their credentials regain access by e-mail."],
  ["FEATURE_NAME_ROOT_USER_EMAIL_RECOVERY", "E-mail recovery of root users", "Members of the root quorum regain access by e-mail, too."],
  ["FEATURE_NAME_WEBAUTHN_ORIGINS", "Passkey origins", "Passkeys are accepted from these origins only.", "Origins, separated by commas", "https://app.example.com"],
  ["FEATURE_NAME_WEBHOOK", "Webhook (old version)", "Every activity is sent to this URL.", "URL (https)", "https://hooks.example.com/cloister"],
  ["FEATURE_NAME_AUTH_PROXY", "Auth proxy", "Turned on and off under Auth."],
];

const switched = (act, type, parameters, message, again) => async () => {
  done(await submit(act, type, parameters), message);
  again();
};

function change([name, text, , label, example], value, again) {
  dialog({
    heading: text,
    fields: [field({ name: "value", label, value, required: true, placeholder: example })],
    action: "Save",
    run: async (all) => {
      done(await submit("set_organization_feature", "SET_ORGANIZATION_FEATURE", { name, value: all.value }), `Saved: ${text}.`);
      again();
    },
  });
}

function featureRow(feature, on, limits, again) {
  const [name, text, what, label] = feature;
  const value = on.get(name);
  const remove = () => confirm(`Turn off ${text}?`, what, "Turn off", switched("remove_organization_feature", "REMOVE_ORGANIZATION_FEATURE", { name }, `Turned off: ${text}.`, again));
  const add = label ? () => change(feature, value ?? "", again)
    : () => dialog({ heading: `Turn on ${text}?`, intro: what, action: "Turn on", run: switched("set_organization_feature", "SET_ORGANIZATION_FEATURE", { name, value: "" }, `Turned on: ${text}.`, again) });
  const is = on.has(name);
  const act = (verb, onclick) => limits.button(verb, { class: "button small", "aria-label": `${verb}: ${text}`, onclick });
  return [
    h("div", null, h("p", { class: "strong" }, text), h("p", { class: "note" }, what), value && h("p", null, h("code", { class: "wrap" }, value))),
    badge(is ? "On" : "Off", is ? "good" : "neutral"),
    name === "FEATURE_NAME_AUTH_PROXY" ? h("a", { class: "button small", href: "#/auth" }, "Open")
      : h("div", { class: "row" }, is && label && act("Change", add), is ? act("Turn off", remove) : act("Turn on", add)),
  ];
}

// changeQuorum takes the id of the auth proxy's service user, which is nobody who could agree to anything.
async function changeQuorum(organization, again) {
  const proxy = await proxyUser(organization.features);
  const options = organization.users.map((u) => [u.userId, u.userId === proxy ? `${u.userName}: not a person, but the auth proxy` : u.userName]);
  const warning = h("div", { role: "alert" });
  const warn = () => fill(warning, [...node.querySelectorAll("input:checked")].some((i) => i.value === proxy) && h("div", { class: "unread" }, h("p", { class: "strong" }, "The auth proxy would be a member"),
    h("p", null, "What web pages send through it would count as the wish of a member, whatever the policies say. It can approve nothing itself, and cannot be turned off while it is a member.")));
  const node = dialog({
    heading: "Change the root quorum",
    intro: "The root quorum can do anything, whatever the policies say. Members who reach the threshold can remove the others.",
    fields: [
      choices({ name: "userIds", legend: "Members", value: organization.rootQuorum.userIds, options }), warning,
      field({ name: "threshold", label: "Members who must agree (threshold)", kind: "number", min: 1, step: 1, required: true, value: organization.rootQuorum.threshold, wide: false }),
    ],
    action: "Change", danger: true,
    run: async ({ userIds, threshold }) => {
      if (userIds.length === 0) throw new Error("Choose at least one member.");
      if (Number(threshold) > userIds.length) {
        const text = `At most ${userIds.length}: the quorum has ${plural(userIds.length, "member")}.`;
        throw Object.assign(new Error(text), { fields: [{ field: "threshold", description: text }] });
      }
      done(await submit("update_root_quorum", "UPDATE_ROOT_QUORUM", { threshold: Number(threshold), userIds }), "The root quorum was changed.");
      again();
    },
  });
  node.addEventListener("change", warn);
  warn();
}

function draw({ organization, waiting, more, recent, subOrganizations }, again) {
  const { users, wallets, policies, rootQuorum } = organization;
  const names = new Map(users.map((u) => [u.userId, u.userName]));
  const on = new Map(organization.features.map((f) => [f.name, f.value ?? ""]));
  const count = (n, one, many, href) => h("a", { class: "count", href }, h("b", null, n), ` ${n === 1 ? one : many}`);
  const quorum = limitedToRoot(rootQuorum);
  const switches = limitedToRoot(rootQuorum, "Only the root quorum can turn features on and off.");
  const others = [...on.keys()].filter((n) => !features.some(([known]) => known === n)).map((n) => [n, words(n, "FEATURE_NAME_"), ""]);
  return [
    waiting.length > 0 && h("p", { class: "state waiting" }, h("a", { class: "strong", href: "#/approvals" }, `${waiting.length}${more ? " or more" : ""} ${waiting.length === 1 ? "waits" : "wait"} for you`)),
    h("div", { class: "counts" }, count(users.length, "user", "users", "#/users"), count(wallets.length, "wallet", "wallets", "#/wallets"), count(policies.length, "policy", "policies", "#/policies"),
      count(subOrganizations, "sub-organization", "sub-organizations", "#/suborganizations")),
    panel("Organization", facts([
      ["Name", organization.name],
      ["Organization id", copyable(organization.organizationId, "organization id", { whole: true })],
      ["Root quorum", h("span", null, `${rootQuorum.threshold} of ${rootQuorum.userIds.length}: `, rootQuorum.userIds.map((id, i) => [i > 0 && ", ", h("a", { href: `#/users/${id}` }, names.get(id) ?? id)]))],
    ]), { actions: [quorum.why, quorum.button("Change quorum", { class: "button small", onclick: () => changeQuorum(organization, again) })] }),
    panel("Features", [switches.why, table("Features", ["Feature", "Status", ""], [...features, ...others].map((f) => featureRow(f, on, switches, again)))]),
    panel("Latest activities", recent.length ? activityTable("Latest activities", recent) : empty("No activities yet."), { actions: [h("a", { class: "button small", href: "#/activities" }, "All")] }),
  ];
}

export function overview(main) {
  const place = h("div");
  fill(main, title(session().organizationName, { intro: `Signed in as ${session().userName}.` }), place);
  const again = load(place, "the organization", async () => {
    const [{ organizationData }, { waiting, more }, recent, { total }] = await Promise.all([
      query("get_organization"),
      waitingForMe(),
      query("list_activities", { paginationOptions: { limit: "5" } }),
      query("list_suborgs", { includeDetails: true, paginationOptions: { limit: "1" } }),
    ]);
    return { organization: organizationData, waiting, more, recent: recent.activities, subOrganizations: Number(total) };
  }, (got) => draw(got, again));
}
