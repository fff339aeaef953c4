// Whether the flows have taken a picture of every page, and so looked at it in both themes, wide and narrow, with axe-core.
//
//   node pages.mjs MAIN.JS     MAIN.JS has the names of the sections
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";

// sections are the pages that an object of main.js names.
const text = readFileSync(process.argv[2], "utf8");
const sections = (name) => [...text.match(new RegExp(`const ${name} = \\{([^;]*)\\};`))[1].matchAll(/(\w+): \[/g)].map(([, page]) => `#/${page}`);
// below are the pages below a section. … is an id or an address.
const below = ["activities/…", "approvals/…", "users/…", "users/tags", "users/invitations", "users/invitations/…", "suborganizations/…", "suborganizations/…/activities/…", "wallets/…", "wallets/…/…", "privatekeys/…", "privatekeys/tags",
  "policies/new", "policies/language", "policies/try", "policies/…", "policies/…/edit", "webhooks/…", "programs/…", "programs/…/…", "settings/ip", "settings/ip/…", "settings/profiles/new", "settings/profiles/…"].map((page) => `#/${page}`);

const pictured = new Set(readFileSync(join(process.env.CLOISTER_SCREENSHOTS, "pages.txt"), "utf8").split("\n")
  .map((page) => page.replace(/[?].*/, "").split("/").map((part) => (part.length > 24 ? "…" : part)).join("/")));
const named = [...sections("sections"), ...sections("pages")];
assert.ok(named.length > 10, named.join());
assert.deepEqual([...named, ...below, "#/signin", "#/invitation", "/dashboard/verify"].filter((page) => !pictured.has(page)), [], "pages without a picture");
