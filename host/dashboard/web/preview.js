// Previews of the e-mail and the text message to users, from the values of a form. The text is the enclave's. The mail goes into a frame that
// has no origin and runs no script; everything in it is escaped text.

import { h } from "./dom.js";

const style = new URL("./preview.css", import.meta.url).pathname;
const policy = window.trustedTypes?.createPolicy("preview", { createHTML: (s) => s }) ?? { createHTML: (s) => s };

const escaped = (text) => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

// A code as the settings would make it; nobody's.
const sample = ({ otpLength, otpAlphanumeric }) => (otpAlphanumeric ? "7QK4M9XTC" : "704519263").slice(0, otpLength);

function life(seconds) {
  const [n, unit] = seconds % 60 === 0 ? [seconds / 60, "minute"] : [seconds, "second"];
  return `The code is good for ${n} ${unit}${n === 1 ? "" : "s"}. If you did not ask for it, ignore this mail.`;
}

export function mailPreview(all) {
  const app = all.appName || all.organizationName;
  const code = sample(all);
  const link = all.magicLinkTemplate?.includes("%s") ? `<p><span class="link">Continue</span></p>` : "";
  // The picture is not fetched: nobody else need learn that it is being looked at.
  const logo = all.logoUrl ? `<p class="logo">${escaped(all.logoUrl)}</p>` : "";
  const frame = h("iframe", { sandbox: "", title: "Preview of the e-mail", referrerpolicy: "no-referrer" });
  frame.srcdoc = policy.createHTML(`<!doctype html><html lang="en"><meta charset="utf-8"><title>Preview</title><link rel="stylesheet" href="${style}">
    <body>${logo}<p>Your code for ${escaped(app)} is</p><p class="code">${code}</p>${link}<p class="end">${life(all.otpExpirationSeconds)}</p>`);
  return [
    h("dl", { class: "envelope" },
      h("div", null, h("dt", null, "From"), h("dd", null, all.sendFromEmailSenderName || "Notifications", all.sendFromEmailAddress && ` <${all.sendFromEmailAddress}>`)),
      all.replyToEmailAddress && h("div", null, h("dt", null, "Reply to"), h("dd", null, all.replyToEmailAddress)),
      h("div", null, h("dt", null, "Subject"), h("dd", null, `Sign in to ${app}`))),
    frame,
    all.logoUrl && h("p", { class: "note" }, "The logo is not fetched for the preview."),
  ];
}

export function textPreview(all) {
  const app = all.appName || all.organizationName;
  const code = sample(all);
  if (!all.template) return h("p", { class: "bubble" }, `Your code for ${app} is ${code}`);
  const known = { OtpCode: code, AppName: app };
  let unknown = null;
  const message = all.template.replace(/\{\{([^}]*)\}\}/g, (action, inside) => {
    const name = inside.trim().match(/^\.(\w+)$/)?.[1];
    if (name in known) return known[name];
    unknown ??= action;
    return action;
  });
  const warning = unknown ? `${unknown} is not a variable of text messages.` : !message.includes(code) && "The code is missing: {{ .OtpCode }}";
  return [h("p", { class: "bubble" }, message), warning && h("p", { class: "error" }, warning)];
}
