// Tags of users.

import { query } from "../api.js";
import { h } from "../dom.js";
import { directoryOf, plural, sentenceList } from "./directory.js";
import { tagsOf } from "./tags.js";

async function fetch() {
  const { organizationData } = await query("get_organization");
  const { users, policies, invitations } = organizationData;
  const { tags } = await directoryOf(organizationData);
  return {
    holders: users, policies, tags: tags.map((t) => ({
      ...t, holders: users.filter((u) => u.userTags.includes(t.tagId)),
      invited: invitations.filter((i) => i.status === "INVITATION_STATUS_CREATED" && i.receiverUserTags.includes(t.tagId)).length,
    })),
  };
}

export const userTags = tagsOf({
  prefix: "user", type: "USER_TAG", one: "user", fetch,
  title: "Tags of users", intro: "A tag names a group of users. Policies can ask for it.", none: "There are no tags yet.", back: { href: "#/users", text: "Users" },
  legend: "Users who have it", option: (u) => [u.userId, u.userName], column: "Users",
  name: (t) => h("a", { class: "strong wrap", href: `#/users?${new URLSearchParams({ tag: t.tagId })}` }, t.tagName),
  holders: (t) => String(t.holders.length),
  lost: ({ holders, invited }) => [
    h("p", null, holders.length ? `${plural(holders.length, "user has", "users have")} it: ${sentenceList(holders.slice(0, 10).map((u) => u.userName).concat(holders.length > 10 ? "others" : []))}.` : "No user has it."),
    invited > 0 && h("p", null, `${plural(invited, "invitation gives", "invitations give")} it and will not any more.`),
  ],
});
