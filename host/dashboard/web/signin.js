// Signing in: with a passkey, or with an API key from a file.

import { login, query, whoami } from "./api.js";
import { h, icon } from "./dom.js";
import { lastOrganization, session, signInWithKey, signInWithPasskey } from "./session.js";
import { passkeysHere } from "./stamp.js";
import { themeButton } from "./theme.js";
import { field, form } from "./ui.js";

const uuid = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}";

const organization = () =>
  field({ name: "organizationId", label: "Organization id", value: lastOrganization(), required: true, pattern: uuid, title: "36 characters, such as 9e470e3d-372f-4cce-a5fb-10ad610335df", autocapitalize: "off", spellcheck: "false", hint: "In your credentials file, on the overview of anybody who is signed in, and in the answer when the organization was made." });

// noticeFor says which organization was opened if it is not the one that was named: a key of the parent opens the parent, and
// shows what a parent may read of the sub-organization; a key of a sub-organization opens that.
async function noticeFor(named) {
  const { organizationId, organizationName } = session();
  if (organizationId === named.toLowerCase()) return null;
  try {
    const { organizationData } = await query("get_organization", { organizationId: named });
    return { href: `#/suborganizations/${named.toLowerCase()}`,
      text: `This key belongs to ${organizationName}, the parent of ${organizationData.name}. You are signed in to ${organizationName}; below is what a parent may read of ${organizationData.name}.` };
  } catch (error) {
    if (!error.unknownCredential) return { text: `This key belongs to ${organizationName}. You are signed in to ${organizationName}.` };
    return { text: `This key belongs to ${organizationName}, a sub-organization of the one that you named. You are signed in to ${organizationName}.` };
  }
}

// explainRefusal replaces the server's error about an unknown or expired credential, or an unknown organization, by what to do about it.
async function explainRefusal(credential, act) {
  try {
    await act();
  } catch (error) {
    if (error.unknownCredential) throw new Error(`This ${credential} does not belong to that organization. Check the organization id.`, { cause: error });
    if (error.unknownOrganization) throw new Error("There is no organization with this id.", { cause: error });
    if (error.expired) throw new Error(`This ${credential} has expired.`, { cause: error });
    throw error;
  }
}

function byPasskey(inside) {
  if (!passkeysHere()) {
    const port = location.port ? `:${location.port}` : "";
    const better = `http://localhost${port}${location.pathname}`;
    return h("div", { class: "state" },
      h("p", null, "Passkeys need a host name and HTTPS, or localhost. ", /^127\./.test(location.hostname) && ["Open this page as ", h("a", { href: better }, better), "."]));
  }
  return form({
    fields: [
      organization(),
      field({ name: "seconds", label: "Stay signed in for", kind: "select", value: "3600", options: [["900", "15 minutes"], ["3600", "1 hour"], ["28800", "8 hours"]] }),
      field({ name: "remember", label: "Stay signed in when this page is closed", kind: "checkbox", hint: "The session key stays in this browser, where no script can read it." }),
    ],
    action: "Sign in with a passkey",
    run: async ({ organizationId, seconds, remember }) => {
      await explainRefusal("passkey", () => signInWithPasskey({ organizationId, seconds: Number(seconds), remember }, (parameters, stamp) => login(organizationId, parameters, stamp), whoami));
      inside(await noticeFor(organizationId));
    },
  });
}

// fromFile fills the form from a credentials file.
async function fromFile(event) {
  const file = event.target.files[0];
  if (!file) return;
  const all = event.target.closest("form").elements;
  const error = document.getElementById(`${event.target.id}-error`);
  error.textContent = "";
  try {
    if (file.size > 1 << 20) throw new Error();
    const { organizationId, rootApiKey, publicKey, privateKey } = JSON.parse(await file.text());
    const key = rootApiKey ?? { publicKey, privateKey };
    if (!key.publicKey || !key.privateKey) throw new Error();
    all.publicKey.value = key.publicKey;
    all.privateKey.value = key.privateKey;
    if (organizationId) all.organizationId.value = organizationId;
  } catch {
    error.textContent = "This is not a credentials file. It must be JSON with organizationId and either publicKey and privateKey, or rootApiKey.";
  } finally {
    event.target.value = ""; // the same file may be chosen again
  }
}

function byKey(inside) {
  return form({
    fields: [
      field({ name: "file", label: "Credentials file", kind: "file", accept: "application/json,.json", onchange: fromFile, hint: "credentials.json, or the credentials-NAME.json that you were given. It is read in this browser and sent nowhere." }),
      organization(),
      field({ name: "publicKey", label: "Public key", required: true, spellcheck: "false", autocapitalize: "off" }),
      field({ name: "privateKey", label: "Private key", kind: "password", required: true }),
      field({ name: "remember", label: "Remember the key in this browser", kind: "checkbox", hint: "It stays until you sign out. No script can read it, but anybody who uses this browser can sign with it. If off, it is forgotten when you close or reload this page." }),
    ],
    action: "Sign in with the key",
    run: async (all, node) => {
      const trimmed = { ...all, publicKey: all.publicKey.toLowerCase(), privateKey: all.privateKey.toLowerCase() };
      await explainRefusal("key", () => signInWithKey(trimmed, whoami));
      const notice = await noticeFor(all.organizationId);
      node.reset();
      inside(notice);
    },
  });
}

// signIn is the page of a user who is not signed in. It calls inside after signing in.
export function signIn(inside) {
  const passkeys = passkeysHere();
  return h("main", { id: "main", class: "signin", tabindex: "-1" },
    h("div", { class: "brand" }, h("span", { class: "mark", "aria-hidden": "true" }), h("h1", null, "Cloister")),
    h("p", { class: "intro" }, "Every request is signed in this browser. The server never sees your private key."),
    h("details", { name: "way", open: passkeys, class: "way" }, h("summary", null, icon("passkey"), "Passkey"), byPasskey(inside)),
    h("details", { name: "way", open: !passkeys, class: "way" }, h("summary", null, icon("auth"), "API key"), byKey(inside)),
    h("div", { class: "row" }, h("a", { class: "plain", href: "verify" }, icon("verify"), "Verify a proof"), themeButton()));
}
