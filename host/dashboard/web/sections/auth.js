// Auth: settings of the auth proxy, by which web pages sign their users up and in.

import { query, submit, waits } from "../api.js";
import { fill, h } from "../dom.js";
import { limitedByPolicies } from "../may.js";
import { requireOrigins } from "../origins.js";
import { mailPreview, textPreview } from "../preview.js";
import { session } from "../session.js";
import { badge, choices, confirm, copyable, dialog, done, facts, field, form, load, panel, title, toast } from "../ui.js";
import { unsavedMarked } from "../unsaved.js";

const feature = "FEATURE_NAME_AUTH_PROXY";

const methods = [["email", "E-mail sign-in codes"], ["sms", "SMS sign-in codes"], ["passkey", "Passkey"], ["wallet", "Wallet"], ["social", "Social providers"]];
const providers = [["google", "Google"], ["facebook", "Facebook"], ["apple", "Apple"], ["x", "X"], ["discord", "Discord"]];

// save makes a form of one panel. Fields that were not touched are not sent; pick makes parameters of the form's values.
// Fresh brings config up to date: the other panels may hold what is not saved yet and stay as they are. check throws if the form is wrong.
function save(config, fields, pick, fresh, check = () => {}) {
  const node = form({
    fields, action: "Save",
    run: async (all) => {
      check(node);
      const changed = Object.fromEntries(Object.entries(pick(all)).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(config[name])));
      if (Object.keys(changed).length) {
        done(await submit("update_auth_proxy_config", "UPDATE_AUTH_PROXY_CONFIG", changed), "Saved.");
        await fresh();
      } else toast("No changes to save.");
      saved();
    },
  });
  const saved = unsavedMarked(node);
  return node;
}

const seconds = (name, label, value, max, hint) => field({ name, label, kind: "number", min: 1, max, step: 1, required: true, value, hint, wide: false });

const access = (config, fresh) => panel("Allowed callers", save(config, [
  field({ name: "allowedOrigins", label: "Allowed origins", kind: "lines", class: "code", value: config.allowedOrigins, required: true, hint: "One per line: scheme, host and port, such as https://app.example.com or http://localhost:3000. A single * allows every page." }),
  choices({ name: "allowedAuthMethods", legend: "Sign-in methods", options: methods, value: config.allowedAuthMethods }),
], (all) => all, fresh, (node) => requireOrigins("allowedOrigins", node.elements.allowedOrigins.value.split("\n"), { any: true })));

const passcodes = (config, fresh) => panel("Sign-in codes", save(config, [
  h("div", { class: "columns" },
    seconds("otpExpirationSeconds", "Valid for (seconds)", config.otpExpirationSeconds, 600, "At most 600."),
    field({ name: "otpLength", label: "Length", kind: "number", min: 6, max: 9, step: 1, required: true, value: config.otpLength, hint: "6 to 9.", wide: false }),
    field({ name: "otpAlphanumeric", label: "Characters", kind: "select", value: String(config.otpAlphanumeric), options: [["true", "Letters and digits"], ["false", "Digits only"]], wide: false })),
], (all) => ({ otpExpirationSeconds: Number(all.otpExpirationSeconds), otpLength: Number(all.otpLength), otpAlphanumeric: all.otpAlphanumeric === "true" }), fresh));

const sessions = (config, fresh) => panel("Sessions", save(config, [
  h("div", { class: "columns" },
    seconds("sessionExpirationSeconds", "Session length (seconds)", config.sessionExpirationSeconds, null, "How long a user stays signed in."),
    seconds("verificationTokenExpirationSeconds", "Verification token valid for (seconds)", config.verificationTokenExpirationSeconds, 86400, "Time from entering the code to the end of the sign-up.")),
  field({ name: "verificationTokenRequiredForGetAccountPii", label: "Account look-ups need a verification token", kind: "checkbox", value: config.verificationTokenRequiredForGetAccountPii, hint: "Without it, anybody can find out whether an e-mail address or phone number has an account." }),
], (all) => ({
  sessionExpirationSeconds: Number(all.sessionExpirationSeconds), verificationTokenExpirationSeconds: Number(all.verificationTokenExpirationSeconds),
  verificationTokenRequiredForGetAccountPii: all.verificationTokenRequiredForGetAccountPii,
}), fresh));

// alive draws a preview of a form, anew at every input and when the settings are others. Base is what the form does not hold.
function alive(node, name, draw, base, fresh) {
  const place = h("div");
  const redraw = () => {
    const all = Object.fromEntries([...node.querySelectorAll("[name]")].map((i) => [i.name, i.value]));
    fill(place, draw({ ...base(), ...all }));
  };
  let soon;
  node.addEventListener("input", () => {
    clearTimeout(soon);
    soon = setTimeout(redraw, 150); // a frame flickers when it is filled at every key
  });
  redraw();
  fresh.listeners.push(redraw);
  return h("div", { class: "withpreview" }, node, h("aside", { class: "preview", "aria-label": `Preview of the ${name}` }, place));
}

const fallback = (config) => ({ organizationName: session().organizationName, otpLength: config.otpLength, otpAlphanumeric: config.otpAlphanumeric, otpExpirationSeconds: config.otpExpirationSeconds });

function mail(config, fresh) {
  const words = () => config.emailCustomizationParams ?? {};
  const { appName, logoUrl, magicLinkTemplate, templateVariables } = words();
  const node = save(config, [
    field({ name: "sendFromEmailAddress", label: "From address", kind: "email", value: config.sendFromEmailAddress, hint: "In a domain that this server may send from; otherwise the server's own address is used." }),
    field({ name: "sendFromEmailSenderName", label: "Sender name", value: config.sendFromEmailSenderName }),
    field({ name: "replyToEmailAddress", label: "Reply-to address", kind: "email", value: config.replyToEmailAddress }),
    field({ name: "appName", label: "Application name", value: appName }),
    field({ name: "logoUrl", label: "Logo URL", kind: "url", value: logoUrl, hint: "An https URL of a PNG, at most 340 by 124 pixels." }),
    field({ name: "magicLinkTemplate", label: "Sign-in link", value: magicLinkTemplate, hint: "Must contain %s once, which is replaced by the code.", placeholder: "https://app.example.com/login?code=%s" }),
    field({ name: "templateVariables", label: "Template variables (JSON)", kind: "textarea", class: "code", rows: 2, value: templateVariables }),
  ], (all) => {
    const others = (held) => ([name, value]) => value !== (held[name] ?? "");
    const inMail = new Set(["appName", "logoUrl", "magicLinkTemplate", "templateVariables"]);
    const changed = Object.fromEntries(Object.entries(all).filter(([name]) => inMail.has(name)).filter(others(words())));
    const set = Object.fromEntries(Object.entries(all).filter(([name]) => !inMail.has(name)).filter(others(config)));
    return Object.keys(changed).length ? { ...set, emailCustomizationParams: changed } : set;
  }, fresh);
  return panel("E-mail", alive(node, "mail", mailPreview, () => fallback(config), fresh));
}

function text(config, fresh) {
  const template = () => config.smsCustomizationParams?.template ?? "";
  const node = save(config, [
    field({ name: "template", label: "Template", kind: "textarea", class: "code", value: template(), placeholder: "{{ .OtpCode }} is your code for Example.", hint: "Must contain {{ .OtpCode }}, which is replaced by the code. Empty: the server's default text." }),
  ], (all) => (all.template === template() ? {} : { smsCustomizationParams: { template: all.template } }), fresh);
  return panel("SMS", alive(node, "text message", textPreview, () => ({ ...fallback(config), appName: config.emailCustomizationParams?.appName }), fresh));
}

function social(config, fresh) {
  const kit = () => config.walletKitSettings ?? {};
  const ids = () => kit().oauthClientIds ?? {};
  return panel("Social sign-in", save(config, [
    choices({ name: "enabled", legend: "Providers", options: providers, value: kit().enabledSocialProviders }),
    h("div", { class: "columns" }, providers.map(([name, label]) => field({ name, label: `${label} client id`, value: ids()[name], spellcheck: "false" }))),
    field({ name: "oauthRedirectUrl", label: "Redirect URL", kind: "url", value: kit().oauthRedirectUrl, hint: "The page that providers send users back to after the sign-in." }),
    field({ name: "socialLinkingClientIds", label: "Client ids for linking", kind: "lines", class: "code", value: config.socialLinkingClientIds, hint: "One per line. A Google sign-in with one of these client ids opens the account that has the same verified e-mail address." }),
  ], (all) => {
    const clients = Object.fromEntries(providers.map(([name]) => [name, all[name]]).filter(([name, id]) => id !== (ids()[name] ?? "")));
    const settings = {};
    if (JSON.stringify([...all.enabled].sort()) !== JSON.stringify([...(kit().enabledSocialProviders ?? [])].sort())) settings.enabledSocialProviders = all.enabled;
    if (Object.keys(clients).length) settings.oauthClientIds = clients;
    if (all.oauthRedirectUrl !== (kit().oauthRedirectUrl ?? "")) settings.oauthRedirectUrl = all.oauthRedirectUrl;
    const changed = Object.keys(settings).length ? { walletKitSettings: settings } : {};
    return { ...changed, socialLinkingClientIds: all.socialLinkingClientIds };
  }, fresh));
}

const read = async () => (await query("get_auth_proxy_config")).authProxyConfig;

function enabled({ configId, config, limits }, again) {
  const off = () => confirm("Turn off the auth proxy?", "Web pages can no longer sign users up or in. The auth proxy's user, its key, its policy and these settings are deleted.", "Turn off", async () => {
    done(await submit("disable_auth_proxy", "DISABLE_AUTH_PROXY", {}), "The auth proxy is off.");
    again();
  });
  const fresh = async () => {
    const now = await read();
    for (const name of Object.keys(config)) delete config[name];
    Object.assign(config, now);
    for (const tell of fresh.listeners) tell();
  };
  fresh.listeners = [];
  return [
    panel("Auth proxy", facts([["Status", badge("On", "good")], ["Config id", copyable(configId, "config id", { whole: true })]]), { actions: [limits.why, limits.button("Turn off", { class: "button small", onclick: off })], note: "Your web pages send the config id with every call." }),
    access(config, fresh), passcodes(config, fresh), sessions(config, fresh), mail(config, fresh), text(config, fresh), social(config, fresh),
  ];
}

// turnOn asks for the origins too: without any, the server lets every page call the auth proxy.
function turnOn(again) {
  const warning = h("div", { role: "status" });
  const origins = field({ name: "allowedOrigins", label: "Allowed origins", kind: "lines", class: "code", placeholder: "https://app.example.com", hint: "The web pages that may call it, one per line: scheme, host and port.", oninput: ({ target }) => warn(target.value) });
  const warn = (text) => fill(warning, !text.trim() && h("div", { class: "unread" }, h("p", { class: "strong" }, "Without an origin, every web page may call it"), h("p", null, "Any page could then sign people up and in here. You can name your pages later, under Allowed callers.")));
  warn("");
  dialog({
    heading: "Turn on the auth proxy?",
    intro: "This creates a user whose key never leaves the enclave, and a policy that lets this user sign people up and in, and do nothing else.",
    fields: [origins, warning],
    action: "Turn on",
    run: async ({ allowedOrigins }, node) => {
      requireOrigins("allowedOrigins", node.elements.allowedOrigins.value.split("\n"), { any: true });
      const activity = await submit("enable_auth_proxy", "ENABLE_AUTH_PROXY", {});
      if (allowedOrigins.length === 0 || waits(activity)) {
        done(activity, "The auth proxy is on.");
        if (allowedOrigins.length > 0) toast("The origins are not set: name them once the auth proxy is on.");
      } else {
        try {
          done(await submit("update_auth_proxy_config", "UPDATE_AUTH_PROXY_CONFIG", { allowedOrigins }), "The auth proxy is on.");
        } catch (error) {
          toast(`The auth proxy is on, but every page may call it: its origins were not set. ${error.message}`);
        }
      }
      again();
    },
  });
}

function disabled({ limits }, again) {
  const on = () => turnOn(again);
  return h("div", { class: "state empty" }, h("p", { class: "strong" }, "The auth proxy is off"),
    h("p", null, "Turn it on so that your own web pages can sign users up and in by e-mail, SMS, passkey, wallet or social providers."), limits.button("Turn on", { class: "button primary", onclick: on }), limits.why);
}

export function auth(main) {
  const place = h("div");
  fill(main, title("Auth", { intro: "How users sign up and sign in on your web pages." }), place);
  const again = load(place, "the auth proxy", async () => {
    const { configs } = await query("get_organization_configs");
    const configId = configs.features.find((f) => f.name === feature)?.value;
    if (!configId) return { limits: await limitedByPolicies("ENABLE_AUTH_PROXY") };
    const [config, limits] = await Promise.all([read(), limitedByPolicies("DISABLE_AUTH_PROXY")]);
    return { configId, config, limits };
  }, (got) => (got.configId ? enabled(got, again) : disabled(got, again)));
}
