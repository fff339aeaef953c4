// Signing in: with a passkey, or with an API key from a file.

import { login, query, Refused, whoami } from "./api.js";
import { fill, h, icon } from "./dom.js";
import { lastOrganization, organizationOfPasskey, rememberPasskey, session, signInWithKey, signInWithPasskey } from "./session.js";
import { findPasskey, passkeysHere, passkeyStamper } from "./stamp.js";
import { themeButton } from "./theme.js";
import { button, field, form } from "./ui.js";
import { organizationIn } from "./userhandle.js";

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

const whereIdIs = "It is in your credentials file, and under Settings for anybody who is signed in.";

const organizationField = (value) => field({ name: "organizationId", label: "Organization id", value, required: true, autocapitalize: "off", spellcheck: "false", hint: whereIdIs });

// signInLink is the address at which people sign in to an organization.
export const signInLink = (organizationId) => `${location.origin}${location.pathname}#/signin?organization=${organizationId}`;

// wrongId is an error beside the field of the organization's id.
const wrongId = (description, cause) => Object.assign(new Error(description, { cause }), { fields: [{ field: "organizationId", description }] });

// checkId refuses what is no id, such as a name.
function checkId(text) {
  if (!uuid.test(text)) throw wrongId(`An organization id has 36 letters and digits with hyphens between them, such as 9e470e3d-372f-4cce-a5fb-10ad610335df. ${/^[0-9a-f-]+$/i.test(text) ? "A part of it may be missing" : "This looks like a name"}.`);
  return text.toLowerCase();
}

// noticeFor says which organization was opened if it is not the one that was named: a key of the parent opens the parent, and
// shows what a parent may read of the sub-organization; a key of a sub-organization opens that.
async function noticeFor(named) {
  const { organizationId, organizationName } = session();
  if (organizationId === named) return null;
  try {
    const { organizationData } = await query("get_organization", { organizationId: named });
    return { href: `#/suborganizations/${named}`,
      text: `This key belongs to ${organizationName}, the parent of ${organizationData.name}. You are signed in to ${organizationName}; below is what a parent may read of ${organizationData.name}.` };
  } catch (error) {
    if (!error.unknownCredential) return { text: `This key belongs to ${organizationName}. You are signed in to ${organizationName}.` };
    return { text: `This key belongs to ${organizationName}, a sub-organization of the one that you named. You are signed in to ${organizationName}.` };
  }
}

// explained is the server's refusal in words that say what to do. The server's own are for programs.
function explained(error, credential) {
  if (error.unknownCredential) return wrongId(`This ${credential} does not belong to that organization. Check the organization id.`, error);
  if (error.unknownOrganization) return wrongId("There is no organization with this id.", error);
  if (error.expired) return new Error(`This ${credential} has expired.`, { cause: error });
  if (!(error instanceof Refused) || error.status === 0 || error.activityId) return error; // said here
  if (error.status === 429) return new Error("There were too many attempts. Try again in a minute.", { cause: error });
  if (error.status >= 500) return new Error("The server cannot be reached, or cannot sign anybody in at the moment. Try again in a minute.", { cause: error });
  return new Error(`The server refused this ${credential}.`, { cause: error });
}

async function explainRefusal(credential, act) {
  try {
    await act();
  } catch (error) {
    throw explained(error, credential);
  }
}

// byPasskey is the form of the first way. Which organization the passkey is for is known from a link or from the last time here; otherwise
// a first touch tells it, by the passkey's user handle or by what this browser has learned of the passkey. Only for a passkey of
// which neither tells it the id is asked.
function byPasskey(inside, known) {
  if (!passkeysHere()) {
    const port = location.port ? `:${location.port}` : "";
    const better = `http://localhost${port}${location.pathname}`;
    return h("div", { class: "state" },
      h("p", null, "Passkeys need a host name and HTTPS, or localhost. ", /^127\./.test(location.hostname) && ["Open this page as ", h("a", { href: better }, better), "."]));
  }
  const where = h("div", { class: "where" });
  let passkey = null; // that was touched
  let organizationId; // null: not known yet

  // know draws what is known of the organization.
  function know({ id, name }) {
    organizationId = id || null;
    if (id) {
      fill(where, h("div", { class: "organization" }, h("span", { class: "note" }, "Organization"), name && h("span", { class: "strong wrap" }, name), h("code", { class: "wrap" }, id)),
        button("Another organization", { class: "button small", onclick: () => { forgetOrganization(); where.closest("form").querySelector("[type=submit]").focus(); } }));
    } else {
      fill(where, h("p", { class: "note" }, "You will be asked twice this time: the first touch tells which organization your passkey is for, the second one signs you in. After that, once is enough in this browser."));
    }
  }

  function forgetOrganization() {
    passkey = null;
    know({});
    where.dispatchEvent(new Event("input", { bubbles: true })); // an error was about the other one
  }

  // askId asks for the organization of the passkey that was touched.
  function askId(why) {
    organizationId = null;
    fill(where, h("p", { class: "note", role: "status" }, why, " Enter the organization’s id. This browser remembers it for this passkey."), organizationField(""),
      button("Another passkey", { class: "button small", onclick: forgetOrganization }));
    where.querySelector("input").focus();
  }

  // choose finds the organization of the passkey that the user touches. It gives back whether it is known.
  async function choose() {
    passkey = await findPasskey();
    const id = organizationIn(passkey.handle) ?? organizationOfPasskey(passkey.credentialId);
    if (!id) {
      askId("This passkey was made by another application, and does not name its organization.");
      return false;
    }
    know({ id }); // if the second touch fails, one is left
    return true;
  }

  async function enter({ organizationId: typed, seconds, remember }) {
    const asked = typed !== undefined;
    if (asked) organizationId = checkId(typed);
    else if (!organizationId && !(await choose())) return;
    const named = organizationId;
    const chosen = passkey;
    const stamp = passkeyStamper(chosen?.credentialId, (used) => { passkey = used; });
    try {
      await signInWithPasskey({ organizationId: named, seconds: Number(seconds), remember }, (parameters) => login(named, parameters, stamp), whoami);
    } catch (error) {
      if (!chosen) refusedHere(error, named);
      else if (!asked && (error.unknownCredential || error.unknownOrganization)) askId("The organization that this passkey names does not know it. It may have been deleted there.");
      else throw explained(error, "passkey");
      return;
    }
    if (organizationIn(passkey.handle) !== session().organizationId) rememberPasskey(passkey.credentialId, session().organizationId);
    inside(await noticeFor(named));
  }

  // refusedHere says whose passkey it is if the organization that was shown does not know it.
  function refusedHere(error, named) {
    const used = passkey;
    passkey = null; // another one may be
    if (!error.unknownCredential || !used) throw explained(error, "passkey");
    const other = organizationIn(used.handle) ?? organizationOfPasskey(used.credentialId);
    throw new Error(other && other !== named ? "This passkey is for another organization. Choose “Another organization”, or another passkey." : "This passkey does not belong to this organization.", { cause: error });
  }

  know(known);
  return form({
    fields: [
      where,
      field({ name: "seconds", label: "Stay signed in for", kind: "select", value: "3600", options: [["900", "15 minutes"], ["3600", "1 hour"], ["28800", "8 hours"]] }),
      field({ name: "remember", label: "Stay signed in when this page is closed", kind: "checkbox", hint: "The session key stays in this browser, where no script can read it." }),
    ],
    action: "Sign in with a passkey",
    run: enter,
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

function byKey(inside, known) {
  return form({
    fields: [
      field({ name: "file", label: "Credentials file", kind: "file", accept: "application/json,.json", onchange: fromFile, hint: "credentials.json, or the credentials-NAME.json that you were given. It is read in this browser and sent nowhere." }),
      organizationField(known.id),
      field({ name: "publicKey", label: "Public key", required: true, spellcheck: "false", autocapitalize: "off" }),
      field({ name: "privateKey", label: "Private key", kind: "password", required: true }),
      field({ name: "remember", label: "Remember the key in this browser", kind: "checkbox", hint: "It stays until you sign out. No script can read it, but anybody who uses this browser can sign with it. If off, it is forgotten when you close or reload this page." }),
    ],
    action: "Sign in with the key",
    run: async (all, node) => {
      const organizationId = checkId(all.organizationId);
      const trimmed = { ...all, organizationId, publicKey: all.publicKey.toLowerCase(), privateKey: all.privateKey.toLowerCase() };
      await explainRefusal("key", () => signInWithKey(trimmed, whoami));
      const notice = await noticeFor(organizationId);
      node.reset();
      inside(notice);
    },
  });
}

// signIn is the page of a user who is not signed in. It calls inside after signing in. linked is the organization's id in the address.
export function signIn(inside, linked) {
  const passkeys = passkeysHere();
  const last = lastOrganization();
  const known = uuid.test(linked ?? "") && linked.toLowerCase() !== last.id ? { id: linked.toLowerCase(), name: "" } : last;
  return h("main", { id: "main", class: "signin", tabindex: "-1" },
    h("div", { class: "brand" }, h("span", { class: "mark", "aria-hidden": "true" }), h("h1", null, "Cloister")),
    h("p", { class: "intro" }, "Every request is signed in this browser. The server never sees your private key."),
    h("details", { name: "way", open: passkeys, class: "way" }, h("summary", null, icon("passkey"), "Passkey"), byPasskey(inside, known)),
    h("details", { name: "way", open: !passkeys, class: "way" }, h("summary", null, icon("auth"), "API key"), byKey(inside, known)),
    h("div", { class: "row" }, h("a", { class: "plain", href: "verify" }, icon("verify"), "Verify a proof"), themeButton()));
}
