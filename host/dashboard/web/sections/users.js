// Users: the list. One user, tags and invitations have pages of their own below it.

import { query, submit } from "../api.js";
import { fill, h } from "../dom.js";
import { exportButton, moment } from "../export.js";
import { allowedByPolicies, limitedActions } from "../may.js";
import { sortable } from "../tables.js";
import { badge, choices, copyable, dialog, done, empty, field, load, milliseconds, title, when } from "../ui.js";
import { invitations } from "./invitations.js";
import { keyFields, keyOf, showCredentials } from "./newkey.js";
import { newUser } from "./samples.js";
import { loadDirectory, plural, roleBadges, tagList, userLabel } from "./directory.js";
import { user } from "./user.js";
import { userTags } from "./usertags.js";

const path = "#/users";

const methods = (u) => {
  const count = (n, one, many) => n > 0 && badge(plural(n, one, many));
  const keys = u.apiKeys.filter((k) => k.credential.type !== "CREDENTIAL_TYPE_LOGIN"); // those are sessions, which end by themselves
  const all = [count(keys.length, "API key"), count(u.authenticators.length, "passkey"), count(u.oauthProviders.length, "social identity", "social identities")].filter(Boolean);
  return all.length ? h("span", { class: "row" }, all) : badge("None", "wait");
};

function createUser(directory, again) {
  dialog({
    heading: "New user",
    intro: [
      h("p", null, "For a program, or for somebody who has given you a public key. The user can sign in with this API key. Policies decide what else the user may do."),
      h("p", null, "For a colleague, better: ", h("a", { href: `${path}/invitations` }, "invite them"), ". They make their own passkey or key, and nobody else ever has it."),
    ],
    fields: [
      field({ name: "userName", label: "Name", required: true }),
      field({ name: "userEmail", label: "E-mail", kind: "email" }),
      field({ name: "userPhoneNumber", label: "Phone", kind: "tel", hint: "With the country code: +41 44 668 18 00." }),
      directory.tags.length > 0 && choices({ name: "userTags", legend: "Tags", options: directory.tags.map((t) => [t.tagId, t.tagName]) }),
      ...keyFields(),
    ],
    action: "Create user",
    run: async (all) => {
      const { apiKeys, pair } = await keyOf(all, "API key");
      const made = { userName: all.userName, apiKeys, authenticators: [], oauthProviders: [], userTags: all.userTags ?? [] };
      if (all.userEmail) made.userEmail = all.userEmail;
      if (all.userPhoneNumber) made.userPhoneNumber = all.userPhoneNumber.replaceAll(" ", "");
      const activity = await submit("create_users", "CREATE_USERS_V4", { users: [made] });
      done(activity, `User ${all.userName} was created.`);
      again();
      if (pair) queueMicrotask(() => showCredentials(all, pair, activity));
    },
  });
}

// nameCell is a user's name and roleBadges, without an element around them: the name leads to the user wherever the row is clicked.
function nameCell(u, href, directory) {
  const cell = document.createDocumentFragment();
  const name = directory ? userLabel(directory, u) : u.userName;
  cell.append(href ? h("a", { class: "strong", href: href(u) }, name) : h("span", { class: "strong" }, name));
  for (const one of directory ? roleBadges(directory, u.userId) : []) cell.append(" ", one);
  return cell;
}

// userTable is a sortable table of users. href makes the link to one, if there is a page of it; directory may be left out.
export const userTable = (all, href, directory) => sortable("Users", [
  { name: "Name", cell: (u) => nameCell(u, href, directory), key: (u) => u.userName },
  { name: "E-mail", cell: (u) => (u.userEmail ? h("span", { class: "address" }, u.userEmail) : "–"), key: (u) => u.userEmail },
  directory && { name: "Tags", cell: (u) => tagList(u.userTags, directory.tagNames), key: (u) => u.userTags.map((t) => directory.tagNames.get(t) ?? t).join(" ") },
  { name: "Signs in with", cell: methods },
  { name: "Created", cell: (u) => when(u.createdAt), key: (u) => milliseconds(u.createdAt) },
  { name: "Id", cell: (u) => copyable(u.userId, `id of ${u.userName}`) },
].filter(Boolean), all).node;

const userExport = () => exportButton({
  what: "users", id: (u) => u.userId, pages: async function* () { yield (await query("list_users")).users; },
  columns: [
    ["userId", (u) => u.userId], ["userName", (u) => u.userName], ["userEmail", (u) => u.userEmail], ["userPhoneNumber", (u) => u.userPhoneNumber],
    ["userTags", (u) => u.userTags], ["apiKeys", (u) => u.apiKeys.map((k) => ({ name: k.apiKeyName, ...k.credential }))],
    ["authenticators", (u) => u.authenticators.map((a) => ({ name: a.authenticatorName, credentialId: a.credentialId }))], ["oauthProviders", (u) => u.oauthProviders],
    ["createdAt", (u) => moment(u.createdAt)], ["updatedAt", (u) => moment(u.updatedAt)],
  ],
});

const untagged = "none";

// filtered shows the users who have a tag, which the address names.
function filtered(all, directory, search) {
  const place = h("div");
  const total = h("p", { class: "note", role: "status" });
  const draw = (tag) => {
    const some = all.filter((u) => !tag || (tag === untagged ? u.userTags.length === 0 : u.userTags.includes(tag)));
    fill(total, tag && `${some.length} of ${plural(all.length, "user")}.`);
    fill(place, some.length ? userTable(some, (u) => `${path}/${u.userId}`, directory) : empty("No user has this tag."));
  };
  const chosen = ({ target: { value } }) => {
    if (value) search.set("tag", value);
    else search.delete("tag");
    history.replaceState(history.state, "", value ? `${path}?${search}` : path);
    draw(value);
  };
  const wanted = search.get("tag") ?? "";
  draw(wanted);
  const options = [["", "All"], ...directory.tags.map((t) => [t.tagId, t.tagName]), [untagged, "Without a tag"]];
  return [directory.tags.length > 0 && h("div", { class: "filters" }, h("label", null, "Tag", h("select", { onchange: chosen }, options.map(([value, text]) => h("option", { value, selected: value === wanted }, text)))), total), place];
}

function list(main, search) {
  const place = h("div");
  const [add, refused] = [h("div", { class: "row" }), h("div")];
  let again;
  let directory = { tags: [] };
  fill(main, title("Users", {
    intro: "People and programs that can sign in or send requests.",
    actions: [userExport(), h("a", { class: "button", href: `${path}/tags` }, "Tags"), h("a", { class: "button", href: `${path}/invitations` }, "Invitations"), add],
  }), refused, place);
  limitedActions({ make: ["New user", allowedByPolicies("CREATE_USERS_V4", { users: [newUser("Name")] })] }).then((limits) => {
    fill(add, limits.make("New user", { class: "button primary", onclick: () => createUser(directory, again) }));
    fill(refused, limits.why);
  });
  again = load(place, "users", async () => {
    const [{ users: all }, others] = await Promise.all([query("list_users"), loadDirectory()]);
    directory = others;
    return all;
  }, (all) => (all.length === 0 ? empty("There are no users.") : filtered(all, directory, search)));
}

export function users(main, [part, id], search) {
  if (part === "tags") userTags(main);
  else if (part === "invitations") invitations(main, id, search);
  else if (part) user(main, part);
  else list(main, search);
}
