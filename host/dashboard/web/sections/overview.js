// Overview: what waits for the user, how much there is of each thing, the root quorum in a line, what happened last, and charts.

import { query } from "../api.js";
import { fill, h } from "../dom.js";
import { quorumPicture } from "../quorum.js";
import { session, takeOrganizationName } from "../session.js";
import { empty, load, panel, title } from "../ui.js";
import { requestsText, waitingForMe } from "../waiting.js";
import { activityTable } from "./activities.js";
import { members, membersOf } from "./quorum.js";
import { trends } from "./trends.js";

// Names of members that the line about the root quorum has.
const mostNames = 5;

function draw({ organization, waiting, more, recent, subOrganizations }) {
  const { users, wallets, policies, rootQuorum } = organization;
  const count = (n, one, many, href) => h("a", { class: "count", href }, h("b", null, n), ` ${n === 1 ? one : many}`);
  return [
    waiting.length > 0 && h("p", { class: "state waiting" }, h("a", { class: "strong", href: "#/approvals" }, requestsText(waiting.length, more))),
    h("div", { class: "counts" }, count(users.length, "user", "users", "#/users"), count(wallets.length, "wallet", "wallets", "#/wallets"), count(policies.length, "policy", "policies", "#/policies"),
      count(subOrganizations, "sub-organization", "sub-organizations", "#/suborganizations")),
    h("div", { class: "rootquorum" }, h("span", { class: "note" }, "Root quorum"), quorumPicture(membersOf(organization)), h("span", { class: "note" }, members(organization, mostNames)), h("a", { class: "note", href: "#/settings" }, "Settings")),
    panel("Latest activities", recent.length ? activityTable("Latest activities", recent) : empty("No activities yet."), { actions: [h("a", { class: "button small", href: "#/activities" }, "All")] }),
    trends(),
  ];
}

export function overview(main) {
  const place = h("div");
  const head = title(session().organizationName, { intro: `Signed in as ${session().userName}.` });
  fill(main, head, place);
  load(place, "the organization", async () => {
    const [{ organizationData }, { waiting, more }, recent, { total }] = await Promise.all([
      query("get_organization"),
      waitingForMe(),
      query("list_activities", { includeDecoded: true, paginationOptions: { limit: "5" } }),
      query("list_suborgs", { includeDetails: true, paginationOptions: { limit: "1" } }),
    ]);
    await takeOrganizationName(organizationData.name);
    fill(head.querySelector("h1"), organizationData.name);
    return { organization: organizationData, waiting, more, recent: recent.activities, subOrganizations: Number(total) };
  }, draw);
}
