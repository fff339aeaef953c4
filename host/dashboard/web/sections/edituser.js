// The dialog that edits a user: name, e-mail, phone and tags. It sends what was changed and nothing else.

import { query, submit, waits } from "../api.js";
import { fill, h } from "../dom.js";
import { choices, dialog, done, field, toast } from "../ui.js";
import { isRoot, proxyFeature } from "./directory.js";

const contacts = {
  userEmail: {
    what: "address", by: "by e-mail", isSame: (a, b) => a.toLowerCase() === b.toLowerCase(),
    enabled: (directory, userId) => ["OTP_EMAIL_AUTH", "EMAIL_AUTH", "EMAIL_RECOVERY"].some((n) => directory.features.has(`FEATURE_NAME_${n}`)) || directory.features.has(proxyFeature) || isRoot(directory, userId) && directory.features.has("FEATURE_NAME_ROOT_USER_EMAIL_RECOVERY"),
  },
  userPhoneNumber: { what: "number", by: "by a text message", isSame: (a, b) => a === b, enabled: (directory) => directory.features.has("FEATURE_NAME_SMS_AUTH") || directory.features.has(proxyFeature) },
};

// consequences says what follows from giving a user another contact, in sentences.
function consequences(name, user, value, directory, others) {
  const { what, by, isSame, enabled } = contacts[name];
  const old = user[name] ?? "";
  if (value === old) return [];
  const signsIn = enabled(directory, user.userId);
  if (!value) return signsIn ? [`${user.userName} can no longer sign in or recover access ${by}.`] : [];
  const all = signsIn
    ? [`Sign-in codes and links go to the new ${what} from now on: whoever reads it can sign in as ${user.userName}.`, old && `The old ${what} no longer works.`, `The new one is unverified until a code from it was entered.`]
    : [`Nobody can sign in ${by} now. If you turn that on later, whoever reads this ${what} can sign in as ${user.userName}.`];
  const holders = others.filter((u) => u.userId !== user.userId && u[name] && isSame(u[name], value)).map((u) => u.userName);
  if (holders.length) all.push(`${holders.join(", ")} ${holders.length === 1 ? "has" : "have"} this ${what}, too. While several users have it, none of them can sign in ${by}.`);
  return all.filter(Boolean);
}

const withoutSpaces = (phone) => phone.replace(/[\s().-]/g, "");
const sameTags = (a, b) => a.length === b.length && a.every((t) => b.includes(t));

// requestsFor lists the activities that make a user what a form says: one for all that gets a value, and one for each value that is removed,
// as update_user leaves alone what is empty. saved is what the user has once it is done.
function requestsFor(user, { userName, userEmail, userPhoneNumber, userTags }) {
  const { userId } = user;
  const request = (type, content, saved = content) => ({ type, parameters: { userId, ...content }, saved });
  const set = {};
  const out = [];
  if (userName !== user.userName) set.userName = userName;
  for (const [name, value, type] of [["userEmail", userEmail, "UPDATE_USER_EMAIL"], ["userPhoneNumber", userPhoneNumber, "UPDATE_USER_PHONE_NUMBER"]]) {
    if (value === (user[name] ?? "")) continue;
    if (value) set[name] = value;
    else out.push(request(type, { [name]: "" }));
  }
  if (!sameTags(userTags, user.userTags)) {
    if (userTags.length) set.userTagIds = userTags;
    else user.userTags.forEach((userTagId, i, all) => out.push({ type: "UPDATE_USER_TAG", parameters: { userTagId, addUserIds: [], removeUserIds: [userId] }, saved: { userTags: all.slice(i + 1) } }));
  }
  const single = { userName: "UPDATE_USER_NAME", userEmail: "UPDATE_USER_EMAIL", userPhoneNumber: "UPDATE_USER_PHONE_NUMBER" };
  const names = Object.keys(set);
  if (names.length) out.unshift(request((names.length === 1 && single[names[0]]) || "UPDATE_USER", set, { ...set, userTags: set.userTagIds ?? user.userTags }));
  return out;
}

export function editUser(user, directory, again) {
  const others = query("list_users").then((got) => got.users, () => []); // advice: without it the rest is told
  const notes = { userEmail: h("div", { class: "consequences note", role: "status" }), userPhoneNumber: h("div", { class: "consequences note", role: "status" }) };
  let turn = 0;
  const showConsequences = async ({ target: { name, value } }) => {
    const mine = ++turn;
    const clean = name === "userPhoneNumber" ? withoutSpaces(value) : value.trim();
    const all = await others;
    if (mine === turn) fill(notes[name], consequences(name, user, clean, directory, all).map((text) => h("p", null, text)));
  };
  // What was saved before another request was refused is not asked for again.
  const left = { ...user };
  dialog({
    heading: `Edit ${user.userName}`,
    fields: [
      field({ name: "userName", label: "Name", required: true, value: user.userName }),
      field({ name: "userEmail", label: "E-mail", kind: "email", value: user.userEmail, oninput: showConsequences }), notes.userEmail,
      field({ name: "userPhoneNumber", label: "Phone", kind: "tel", value: user.userPhoneNumber, hint: "With the country code: +41 44 668 18 00.", oninput: showConsequences }), notes.userPhoneNumber,
      directory.tags.length ? choices({ name: "userTags", legend: "Tags", value: user.userTags, options: directory.tags.map((t) => [t.tagId, t.tagName]) })
        : h("p", { class: "note" }, "There are no tags to give yet. ", h("a", { href: "#/users/tags" }, "Create tags")),
    ],
    action: "Save",
    run: async (form) => {
      const all = { ...form, userPhoneNumber: withoutSpaces(form.userPhoneNumber), userTags: form.userTags ?? user.userTags };
      const requests = requestsFor(left, all);
      if (requests.length === 0) return toast("No changes to save.");
      let outcome;
      for (const { type, parameters, saved } of requests) {
        const activity = await submit(type.toLowerCase(), type, parameters);
        if (!outcome || waits(activity)) outcome = activity;
        Object.assign(left, saved);
        again();
      }
      done(outcome, "Saved.");
    },
  });
}
