// Auth: the auth proxy, through which web pages sign their users up and in.

import { query, submit } from "../api.js";
import { fill, h } from "../dom.js";
import { mailPreview, textPreview } from "../preview.js";
import { session } from "../session.js";
import { badge, button, choices, confirm, copyable, dialog, done, facts, field, form, load, panel, title, toast } from "../ui.js";

const feature = "FEATURE_NAME_AUTH_PROXY";

const methods = [["email", "E-mail code"], ["sms", "SMS code"], ["passkey", "Passkey"], ["wallet", "Wallet"], ["social", "Social providers"]];
const providers = [["google", "Google"], ["facebook", "Facebook"], ["apple", "Apple"], ["x", "X"], ["discord", "Discord"]];

// save makes a form of one panel. Fields that were not touched are not sent; pick makes parameters of the form's values.
// Fresh brings config up to date: the other panels may hold what is not saved yet and stay as they are.
function save(config, fields, pick, fresh) {
  return form({
    fields, action: "Save",
    run: async (all) => {
      const changed = Object.fromEntries(Object.entries(pick(all)).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(config[name])));
      if (Object.keys(changed).length) {
        done(await submit("update_auth_proxy_config", "UPDATE_AUTH_PROXY_CONFIG", changed), "Saved.");
        await fresh();
      } else toast("Nothing was changed.");
    },
  });
}

const seconds = (name, label, value, max, hint) => field({ name, label, kind: "number", min: 1, max, step: 1, required: true, value, hint, wide: false });

const access = (config, fresh) => panel("Who may call", save(config, [
  field({ name: "allowedOrigins", label: "Allowed origins", kind: "lines", class: "code", value: config.allowedOrigins, required: true, hint: "One a line, exactly as browsers send them: https://app.example.com. A single * allows any page." }),
  choices({ name: "allowedAuthMethods", legend: "Ways to sign in", options: methods, value: config.allowedAuthMethods }),
], (all) => all, fresh));

const passcodes = (config, fresh) => panel("Passcodes", save(config, [
  h("div", { class: "columns" },
    seconds("otpExpirationSeconds", "Good for, seconds", config.otpExpirationSeconds, 600, "At most 600."),
    field({ name: "otpLength", label: "Length", kind: "number", min: 6, max: 9, step: 1, required: true, value: config.otpLength, hint: "6 to 9.", wide: false }),
    field({ name: "otpAlphanumeric", label: "Letters", kind: "select", value: String(config.otpAlphanumeric), options: [["true", "Letters and digits"], ["false", "Digits only"]], wide: false })),
], (all) => ({ otpExpirationSeconds: Number(all.otpExpirationSeconds), otpLength: Number(all.otpLength), otpAlphanumeric: all.otpAlphanumeric === "true" }), fresh));

const sessions = (config, fresh) => panel("Sessions", save(config, [
  h("div", { class: "columns" },
    seconds("sessionExpirationSeconds", "Session, seconds", config.sessionExpirationSeconds, null, "How long somebody stays signed in."),
    seconds("verificationTokenExpirationSeconds", "Verification token, seconds", config.verificationTokenExpirationSeconds, 86400, "From the code to the end of the sign-up.")),
  field({ name: "verificationTokenRequiredForGetAccountPii", label: "Look-ups need a verified address", kind: "checkbox", value: config.verificationTokenRequiredForGetAccountPii, hint: "Nobody finds out by asking whether an e-mail address or phone number has an account." }),
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
    field({ name: "sendFromEmailAddress", label: "From", kind: "email", value: config.sendFromEmailAddress, hint: "Of a domain that this server may send for; otherwise the server's own is used." }),
    field({ name: "sendFromEmailSenderName", label: "Sender's name", value: config.sendFromEmailSenderName }),
    field({ name: "replyToEmailAddress", label: "Reply to", kind: "email", value: config.replyToEmailAddress }),
    field({ name: "appName", label: "Application name", value: appName }),
    field({ name: "logoUrl", label: "Logo", kind: "url", value: logoUrl, hint: "https, PNG, at most 340 by 124 pixels." }),
    field({ name: "magicLinkTemplate", label: "Link", value: magicLinkTemplate, hint: "With one %s, where the code goes.", placeholder: "https://app.example.com/login?code=%s" }),
    field({ name: "templateVariables", label: "Template variables, JSON", kind: "textarea", class: "code", rows: 2, value: templateVariables }),
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
    field({ name: "template", label: "Template", kind: "textarea", class: "code", value: template(), placeholder: "{{ .OtpCode }} is your code for Example.", hint: "With {{ .OtpCode }}, where the code goes. Empty: the server's own words." }),
  ], (all) => (all.template === template() ? {} : { smsCustomizationParams: { template: all.template } }), fresh);
  return panel("SMS", alive(node, "text message", textPreview, () => ({ ...fallback(config), appName: config.emailCustomizationParams?.appName }), fresh));
}

function social(config, fresh) {
  const kit = () => config.walletKitSettings ?? {};
  const ids = () => kit().oauthClientIds ?? {};
  return panel("Social sign-in", save(config, [
    choices({ name: "enabled", legend: "Providers", options: providers, value: kit().enabledSocialProviders }),
    h("div", { class: "columns" }, providers.map(([name, label]) => field({ name, label: `${label} client id`, value: ids()[name], spellcheck: "false" }))),
    field({ name: "oauthRedirectUrl", label: "Redirect URL", kind: "url", value: kit().oauthRedirectUrl, hint: "Where providers send people back to." }),
    field({ name: "socialLinkingClientIds", label: "Client ids for linking", kind: "lines", class: "code", value: config.socialLinkingClientIds, hint: "One a line. A Google identity of these finds the account with the same verified e-mail address." }),
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

function enabled({ configId, config }, again) {
  const off = () => confirm("Turn off the auth proxy?", "Web pages can sign nobody up or in any more. Its user, its key, its policy and these settings are gone.", "Turn off", async () => {
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
    panel("Auth proxy", facts([["State", badge("On", "good")], ["Config id", copyable(configId, "config id", { whole: true })]]), { actions: [button("Turn off", { class: "button small", onclick: off })], note: "Web pages name the config id in every call." }),
    access(config, fresh), passcodes(config, fresh), sessions(config, fresh), mail(config, fresh), text(config, fresh), social(config, fresh),
  ];
}

function disabled(again) {
  const on = () => dialog({
    heading: "Turn on the auth proxy?",
    intro: "This makes a user with a key that never leaves the enclave, and a policy that lets it sign people up and in and nothing else.",
    action: "Turn on",
    run: async () => {
      done(await submit("enable_auth_proxy", "ENABLE_AUTH_PROXY", {}), "The auth proxy is on.");
      again();
    },
  });
  return h("div", { class: "state empty" }, h("p", { class: "strong" }, "The auth proxy is off"),
    h("p", null, "Turn it on to let your own web pages sign users up and in by e-mail, SMS, passkey or social providers."), button("Turn on", { class: "button primary", onclick: on }));
}

export function auth(main) {
  const place = h("div");
  fill(main, title("Auth", { intro: "How people sign up and in on your web pages." }), place);
  const again = load(place, "the auth proxy", async () => {
    const { configs } = await query("get_organization_configs");
    const configId = configs.features.find((f) => f.name === feature)?.value;
    if (!configId) return null;
    return { configId, config: await read() };
  }, (got) => (got ? enabled(got, again) : disabled(again)));
}
