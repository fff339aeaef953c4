// The page for somebody who was invited and is no user yet: he makes a passkey or an API key in his browser, and sends the public half back.

import { fill, h, icon } from "./dom.js";
import { codeOf, linkBox, mailTo, replyLink } from "./reply.js";
import { rememberOrganization } from "./session.js";
import { makeOpenKey, makePasskey, passkeysHere } from "./stamp.js";
import { themeButton } from "./theme.js";
import { userHandle } from "./userhandle.js";
import { button, copy, facts, field, form } from "./ui.js";
import { showNewKey } from "./sections/newkey.js";

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

// invitation draws into a place what the parameters of a link ask for.
export function invitation(app, search) {
  const [organizationId, invitationId, userName, organizationName] = ["organization", "invitation", "name", "to"].map((name) => search.get(name) ?? "");
  const complete = uuid.test(organizationId) && uuid.test(invitationId) && userName && organizationName;
  const place = h("div", { class: "invited" });
  fill(app, h("main", { id: "main", class: "signin", tabindex: "-1" },
    h("div", { class: "brand" }, h("span", { class: "mark", "aria-hidden": "true" }), h("h1", { tabindex: "-1" }, complete ? `Join ${organizationName}` : "Invitation")),
    place, h("div", { class: "row" }, h("a", { class: "plain", href: complete ? `#/signin?organization=${organizationId}` : "#/overview" }, "Sign in"), themeButton())));
  app.querySelector("h1").focus({ preventScroll: true });
  if (complete) showChoices(place, { organizationId, invitationId, userName, organizationName });
  else fill(place, h("div", { class: "state bad", role: "alert" }, h("p", { class: "strong" }, "This link is incomplete."), h("p", null, "Ask whoever invited you for the whole link.")));
}

function showChoices(place, invited) {
  const { organizationId, invitationId, userName, organizationName } = invited;
  const passkeys = passkeysHere();
  const reply = (credential) => showReply(place, invited, { organizationId, invitationId, ...credential });
  const byPasskey = () => form({
    fields: [
      h("p", null, `For ${location.hostname}, on this device or on a security key. Your browser will ask you to confirm.`),
      field({ name: "authenticatorName", label: "Name of the passkey", required: true, value: "Passkey", hint: "To tell it from others." }),
    ],
    action: "Create passkey",
    run: async ({ authenticatorName }) => {
      // A random id in place of a user's: with that of a user, a link could have the device replace that user's passkey.
      const handle = userHandle(organizationId, crypto.randomUUID());
      reply({ authenticator: await makePasskey({ authenticatorName, handle, userName, organizationName, known: [] }) });
    },
  });
  const byKey = () => form({
    fields: [h("p", null, "A file with a private key, for scripts, or if you cannot use a passkey. Whoever has the file can act as you.")],
    action: "Create API key",
    run: async () => {
      const pair = await makeOpenKey();
      showNewKey({
        userName, organizationId, pair, intro: h("p", null, "Download this file now; it cannot be shown again. You sign in with it once you were let in."), lost: "You would make another key.",
        then: (saved) => { if (saved) reply({ apiKey: { publicKey: pair.publicKey } }); },
      });
    },
  });
  fill(place,
    h("p", { class: "intro" }, "You were invited as ", h("strong", null, userName), ". Choose how you will sign in. The secret half is made in this browser and sent to nobody."),
    passkeys ? h("details", { name: "way", open: true, class: "way" }, h("summary", null, icon("passkey"), "Passkey"), byPasskey())
      : h("p", { class: "note" }, "Passkeys need a host name and HTTPS, or localhost, and this page was opened without."),
    h("details", { name: "way", open: !passkeys, class: "way" }, h("summary", null, icon("auth"), "API key"), byKey()));
}

async function showReply(place, { organizationId, organizationName, userName }, reply) {
  const link = replyLink(reply);
  const code = await codeOf(reply);
  rememberOrganization(organizationId, organizationName);
  const heading = h("h2", { tabindex: "-1" }, "One step is left");
  fill(place, h("section", { class: "panel" }, heading,
    h("p", null, "Send your reply to the person who invited you. It holds no secret."),
    linkBox(link, "Reply"),
    h("div", { class: "row" }, button("Copy the reply", { class: "button primary", onclick: () => copy(link, "the reply") }), h("a", { class: "button", href: mailTo("", `Reply to the invitation to ${organizationName}`, `${userName} replies to the invitation:\n\n${link}\n`) }, "Write an e-mail")),
    facts([["Code", h("code", { class: "replycode" }, code)]]),
    h("p", null, "They will ask you for the code, by phone or in person, to be sure that the reply is yours. Keep this page open until then."),
    h("p", null, "Once they have let you in, sign in here."), h("div", { class: "row" }, button("Go to the sign-in", { onclick: () => { location.hash = `#/signin?organization=${organizationId}`; } }))));
  heading.focus();
}
