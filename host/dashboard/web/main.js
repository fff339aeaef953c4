// The frame around the sections: signing in, the way from one to the other, the theme.

import { onSignedOut, query, submit } from "./api.js";
import { fill, h, icon } from "./dom.js";
import { invitation } from "./invitation.js";
import { forget, onRenamed, restore, session } from "./session.js";
import { signIn } from "./signin.js";
import { themeButton, useTheme } from "./theme.js";
import { title, toast } from "./ui.js";
import { beforeLeaving, guarded } from "./unsaved.js";
import { waitingNumber, watch } from "./waiting.js";
import { activities } from "./sections/activities.js";
import { addressBook } from "./sections/addressbook.js";
import { approvals } from "./sections/approvals.js";
import { auth } from "./sections/auth.js";
import { billing } from "./sections/billing.js";
import { overview } from "./sections/overview.js";
import { policies } from "./sections/policies.js";
import { privateKeys } from "./sections/privatekeys.js";
import { programs } from "./sections/programs.js";
import { find, findBox } from "./sections/find.js";
import { secrets } from "./sections/secrets.js";
import { settings } from "./sections/settings.js";
import { subOrganizations } from "./sections/suborganizations.js";
import { users } from "./sections/users.js";
import { wallets } from "./sections/wallet.js";
import { webhooks } from "./sections/webhooks.js";

// A section draws into a place; rest is what stands behind its name in the address, search its parameters.
const sections = {
  overview: ["Overview", overview],
  approvals: ["Approvals", approvals],
  activities: ["Activities", activities],
  users: ["Users", users],
  suborganizations: ["Sub-organizations", subOrganizations],
  wallets: ["Wallets", wallets],
  privatekeys: ["Private keys", privateKeys],
  addressbook: ["Address book", addressBook],
  secrets: ["Secrets", secrets],
  policies: ["Policies", policies],
  webhooks: ["Webhooks", webhooks],
  auth: ["Auth", auth],
  programs: ["Programs", programs],
  billing: ["Billing", billing],
  settings: ["Settings", settings],
};

// newTab says where a link leads: a key that is not remembered is only in this page.
const newTab = () => h("span", { class: "hidden" }, " (opens a new tab)");

// pages are sections that the menu does not list.
const pages = { find: ["Find", find] };

const app = document.getElementById("app");

function place() {
  const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/").map(decodeURIComponent);
  return { name: name || "overview", rest, search: new URLSearchParams(search) };
}

async function signOut() {
  const { kind, publicKey, userId } = session();
  if (kind === "passkey") {
    // The key of this browser is of no use to anybody any more. If the server does not agree, it expires.
    try {
      const { apiKeys } = await query("get_api_keys", { userId });
      const mine = apiKeys.filter((k) => k.credential.publicKey === publicKey).map((k) => k.apiKeyId);
      if (mine.length) await submit("delete_api_keys", "DELETE_API_KEYS", { userId, apiKeyIds: mine });
    } catch (error) {
      console.debug(error);
    }
  }
  await forget();
  history.replaceState(history.state, "", location.pathname); // whoever comes next begins at the beginning
  draw();
}

function frame(current) {
  const { organizationName, userName, kind } = session();
  const links = Object.entries(sections).map(([name, [text]]) =>
    h("li", null, h("a", { href: `#/${name}`, "aria-current": name === current ? "page" : null }, icon(name), text, name === "approvals" && waitingNumber())));
  const menu = h("button", { type: "button", class: "plain menu", "aria-expanded": "false", "aria-controls": "side", "aria-label": "Menu" }, icon("menu"));
  const side = h("div", { id: "side" },
    findBox(current === "find" ? place().search.get("q") ?? "" : ""),
    h("nav", { "aria-label": "Sections" }, h("ul", null, links, h("li", null, h("a", { href: "verify#tab", target: "_blank", rel: "noopener" }, icon("verify"), "Verify", newTab())))),
    h("div", { class: "who" },
      h("p", null, h("span", { class: "strong" }, userName), h("span", { class: "note" }, kind === "passkey" ? "Signed in with a passkey" : "Signed in with an API key")),
      h("div", { class: "row" }, themeButton(), h("button", { type: "button", class: "plain", onclick: () => beforeLeaving(signOut) }, icon("out"), "Sign out"))));
  menu.addEventListener("click", () => menu.setAttribute("aria-expanded", String(document.body.classList.toggle("open"))));
  return [
    h("header", { class: "top" }, h("a", { class: "brand", href: "#/overview" }, h("span", { class: "mark", "aria-hidden": "true" }), h("span", null, organizationName)), menu),
    side,
    h("main", { id: "main", tabindex: "-1" }),
  ];
}

// entered opens the dashboard after signing in, with a notice if another organization was opened than the one that was named.
function entered(notice) {
  if (notice?.href) history.replaceState(history.state, "", notice.href);
  else if (place().name === "signin") history.replaceState(history.state, "", "#/overview");
  draw();
  if (notice) document.getElementById("main").prepend(h("p", { class: "notice", role: "status" }, notice.text));
}

// titled names the browser's tab after a section.
const titled = (text) => { document.title = `${text} – ${session().organizationName} – Cloister`; };

// draw shows what the address names. The heading takes the focus, so that keyboards and readers begin there.
function draw() {
  document.body.classList.remove("open");
  for (const dialog of document.querySelectorAll("dialog")) dialog.close();
  const { name, rest, search } = place();
  document.body.classList.toggle("alone", !session() || name === "invitation");
  if (name === "invitation") { // for people who are no users yet
    document.title = "Invitation – Cloister";
    invitation(app, search);
    return;
  }
  if (!session()) {
    document.title = "Sign in – Cloister";
    fill(app, signIn(entered, search.get("organization")));
    return;
  }
  if (name === "signin") { // already done
    history.replaceState(history.state, "", `#/overview?${search}`);
    draw();
    return;
  }
  fill(app, frame(name));
  const main = document.getElementById("main");
  const [text, section] = sections[name] ?? pages[name] ?? ["Not found", (p) => fill(p, title("Page not found"), h("p", null, h("a", { href: "#/overview" }, "Go to the overview")))];
  titled(text);
  section(main, rest, search);
  const meant = search.get("organization");
  if (meant && meant !== session().organizationId) main.prepend(h("p", { class: "notice", role: "status" }, "This link is for another organization than the one that you are signed in to. To open it there, sign out and follow the link again."));
  window.scrollTo(0, 0);
  main.querySelector("h1")?.focus({ preventScroll: true });
}

onSignedOut(async (refused) => {
  await forget();
  draw();
  toast(refused.told ?? (refused.expired ? "Your session has expired. Sign in again." : "This key is no longer valid. Sign in again."));
});

onRenamed(() => {
  fill(document.querySelector(".brand span:last-child"), session().organizationName);
  titled((sections[place().name] ?? pages[place().name])?.[0] ?? "Not found");
});

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address is the section's
  document.getElementById("main")?.focus();
});
guarded(draw);
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, select, textarea, [contenteditable], dialog");
  const box = document.querySelector(".find input");
  if (event.key === "/" && box && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    const menu = document.querySelector(".menu");
    if (!box.checkVisibility()) menu.click(); // on a phone
    box.focus();
    box.select();
  }
  if (event.key === "Escape" && document.body.classList.contains("open")) {
    document.body.classList.remove("open");
    const menu = document.querySelector(".menu");
    menu.setAttribute("aria-expanded", "false");
    menu.focus();
  }
});

useTheme();
await restore();
draw();
watch();
