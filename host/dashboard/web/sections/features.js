// Features of an organization: what is on, what each changes for whom, and the dialogs that turn them on and off.

import { submit } from "../api.js";
import { fill, h } from "../dom.js";
import { featureText } from "../kinds.js";
import { limitedToRoot } from "../may.js";
import { requireOrigins } from "../origins.js";
import { badge, dialog, done, field, panel, table } from "../ui.js";
import { unsaved } from "../unsaved.js";
import { proxyFeature } from "./directory.js";

// originsOf reads one origin a line; the server knows the form of those of Android apps. It throws with the lines at fault.
function originsOf(text) {
  const lines = text.split("\n").map((line) => line.trim());
  requireOrigins("value", lines.map((line) => (line.startsWith("android:apk-key-hash:") ? "" : line)), { passkeys: true });
  return lines.filter(Boolean).join(",");
}

const mailbox = "Whoever reads the mailbox of a user can then sign in as that user.";

// The features that can be turned on, by group. on and off say what turning it on or off makes less safe. method is the sign-in method of
// the auth proxy that does the same for people who sign in through web pages.
const groups = [
  ["Sign-in", [
    { name: "FEATURE_NAME_OTP_EMAIL_AUTH", what: "Users sign in with a code that is e-mailed to them.", on: mailbox, method: "email" },
    { name: "FEATURE_NAME_SMS_AUTH", what: "Users sign in with a code that is sent to their phone.", on: "Whoever reads the text messages of a user can then sign in as that user. Phone numbers are taken over more often than mailboxes.", method: "sms" },
    { name: "FEATURE_NAME_EMAIL_AUTH", what: "Users sign in with a session key that is e-mailed to them, encrypted for the page that asked for it.", on: mailbox },
    {
      name: "FEATURE_NAME_WEBAUTHN_ORIGINS", what: "Users can make and use passkeys only on pages at these origins. Off: on every page of a passkey's domain.",
      off: "Passkeys then work on every page of their domain, also on hosts below it that somebody else runs.",
      value: { label: "Origins", kind: "lines", class: "code", placeholder: "https://app.example.com", hint: "One per line: https://, the host, and the port if it is not 443. Include the origin of every page that your users sign in on.", read: originsOf, show: (value) => value.split(",").map((o) => o.trim()), warn: withoutThisPage },
    },
    { name: proxyFeature, what: "Your own web pages sign people up and in. It is turned on and off under Auth.", href: "#/auth" },
  ]],
  ["Recovery", [
    { name: "FEATURE_NAME_EMAIL_RECOVERY", what: "Users who lost their credentials add a new passkey after a mail to their address.", on: "Whoever reads the mailbox of a user can then add a passkey of their own and act as that user." },
    { name: "FEATURE_NAME_ROOT_USER_EMAIL_RECOVERY", what: "Members of the root quorum can recover by e-mail as well. E-mail recovery must be on, too.", on: "Whoever reads the mailbox of a member of the root quorum can then act as that member. The root quorum can do anything." },
  ]],
  ["Approvals", [
    { name: "FEATURE_NAME_ADDRESS_BOOK", what: "Approvers see the names that your organization gives to addresses, and are warned of addresses that look like one of them.", href: "#/addressbook" },
    { name: "FEATURE_NAME_DECODED_VOTES", what: "An approval counts only if it names what the approver was shown. This dashboard does that; other clients must send decodedDigest.", off: "Approvals then count without a proof that the approver and the enclave saw the same request." },
    {
      name: "FEATURE_NAME_APPROVAL_MAILS", what: "Users who can approve an activity get a mail that describes it when it begins to wait.",
      value: { label: "Dashboard URL", kind: "url", optional: true, placeholder: "https://cloister.example.com/dashboard/", hint: "Where the link in the mail leads. Empty: the mail has no link.", read: (text) => text, show: (value) => [value] },
    },
  ]],
  ["Log", [
    { name: "FEATURE_NAME_STRICT_LOG", what: "Replies to your users wait until witnesses have signed the log, so that nothing you were told can be lost. They take longer. Without witnesses it changes nothing.", off: "After a crash on a host that lies, the last things that you were told may then be missing." },
  ]],
  ["Webhooks", [
    {
      name: "FEATURE_NAME_WEBHOOK", what: "Every activity is sent to this URL. The section Webhooks has more choices.", on: "Whoever runs the server at this URL reads every activity of this organization.",
      value: { label: "URL", kind: "url", placeholder: "https://hooks.example.com/cloister", hint: "Must be https, at a public address.", read: (text) => text, show: (value) => [value] },
    },
  ]],
];

// withoutThisPage warns that passkeys would stop working where the reader is.
function withoutThisPage(text) {
  const origins = text.split("\n").map((l) => l.trim().replace(/\/$/, "").toLowerCase()).filter(Boolean);
  return origins.length > 0 && !origins.includes(location.origin) && h("div", { class: "unread" }, h("p", { class: "strong" }, "Passkeys would not work on this page"),
    h("p", null, `The origin of this page, ${location.origin}, is not in the list. Nobody could sign in to the dashboard here with a passkey.`));
}

const caution = (text) => text && h("div", { class: "unread" }, h("p", { class: "strong" }, "This makes your organization less safe"), h("p", null, text));

const set = (name, value) => submit("set_organization_feature", "SET_ORGANIZATION_FEATURE", { name, value });

function turnOn({ name, title, what, on }, again) {
  dialog({
    heading: `Turn on ${title}?`, intro: what, fields: [caution(on)], action: "Turn on", danger: Boolean(on),
    run: async () => {
      done(await set(name, ""), `Turned on: ${title}.`);
      again();
    },
  });
}

function turnOff({ name, title, what, off }, again) {
  dialog({
    heading: `Turn off ${title}?`, intro: what, fields: [caution(off)], action: "Turn off", danger: true,
    run: async () => {
      done(await submit("remove_organization_feature", "REMOVE_ORGANIZATION_FEATURE", { name }), `Turned off: ${title}.`);
      again();
    },
  });
}

// change asks for the value of a feature and sets it.
function change({ name, title, what, on, value: { label, kind, optional, read, show, warn, ...rest } }, old, again) {
  const warning = h("div", { role: "alert" });
  const node = dialog({
    heading: title, intro: what,
    fields: [field({ name: "value", label, kind, required: !optional, value: kind === "lines" ? show(old ?? "") : old, ...rest }), warning, old === undefined && caution(on)],
    action: "Save",
    run: async (_, form) => {
      const value = read(form.elements.value.value.trim());
      await set(name, value).then((activity) => done(activity, `Saved: ${title}.`));
      again();
    },
  });
  const input = node.querySelector("[name=value]");
  if (warn) input.addEventListener("input", () => fill(warning, warn(input.value)));
  unsaved(node.querySelector("form"));
}

// elsewhere says how the auth proxy's own switch for the same thing stands.
function elsewhere({ method }, is, proxy) {
  if (!method || !proxy) return null;
  const there = proxy.allowedAuthMethods.includes(method);
  const link = h("a", { href: "#/auth" }, "Auth");
  const text = is === there ? `${is ? "On" : "Off"} here, and ${is ? "on" : "off"} for people who sign in through your web pages (` : `${is ? "On" : "Off"} here. ${there ? "On" : "Off"} for people who sign in through your web pages (`;
  return h("p", { class: "note" }, text, link, ").", !is && " While the auth proxy is on, a sign-in through the API takes these codes as well.");
}

function row(feature, on, proxy, limits, again) {
  const { name, title, what, value, href } = feature;
  const is = on.has(name);
  const held = on.get(name);
  const act = (verb, onclick) => limits.button(verb, { class: "button small", "aria-label": `${verb}: ${title}`, onclick });
  const add = () => (value ? change(feature, held, again) : turnOn(feature, again));
  return [
    h("div", null, h("p", { class: "strong" }, title), h("p", { class: "note" }, what), elsewhere(feature, is, proxy),
      is && value && held && value.show(held).map((line) => h("p", null, h("code", { class: "wrap" }, line)))),
    badge(is ? "On" : "Off", is ? "good" : "neutral"),
    href ? h("a", { class: "button small", href, "aria-label": `Open: ${title}` }, "Open")
      : h("div", { class: "row" }, is && value && act("Change", add), is ? act("Turn off", () => turnOff(feature, again)) : act("Turn on", add)),
  ];
}

// featuresPanel shows all features. proxy is the auth proxy's configuration, null without one, or for a reader who may not read it.
export function featuresPanel({ organization, proxy }, again) {
  const on = new Map(organization.features.map((f) => [f.name, f.value ?? ""]));
  const limits = limitedToRoot(organization.rootQuorum, "Only the root quorum can turn features on and off.");
  const known = new Set(groups.flatMap(([, all]) => all.map((f) => f.name)));
  const others = [...on.keys()].filter((name) => !known.has(name)).map((name) => ({ name, what: "This page does not know what it does." }));
  const node = panel("Features", [limits.why, [...groups, ...(others.length ? [["Others", others]] : [])].map(([group, all]) =>
    [h("h3", null, group), table(group, ["Feature", "Status", ""], all.map((f) => row({ ...f, title: featureText(f.name) }, on, proxy, limits, again)))])]);
  node.classList.add("features");
  return node;
}
