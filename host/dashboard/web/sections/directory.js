// What the pages about users share: names of tags, the members of the root quorum, and the user of the auth proxy.

import { query } from "../api.js";
import { h } from "../dom.js";
import { badge } from "../ui.js";

export const proxyFeature = "FEATURE_NAME_AUTH_PROXY";

// proxyUser is the id of the auth proxy's service user, null without a proxy.
export async function proxyUser(features) {
  if (!features.some((f) => f.name === proxyFeature)) return null;
  return query("get_auth_proxy_config").then((got) => got.authProxyConfig.userId, (error) => console.debug(error) ?? null);
}

// directoryOf makes the directory of an organization from what get_organization answers: tags of users, the root quorum, the features, and
// the auth proxy's user.
export async function directoryOf({ tags, rootQuorum, features }) {
  const own = tags.filter((t) => t.tagType === "TAG_TYPE_USER");
  return { tags: own, tagNames: new Map(own.map((t) => [t.tagId, t.tagName])), rootQuorum, features: new Set(features.map((f) => f.name)), proxy: await proxyUser(features) };
}

// loadDirectory fetches that of this organization.
export async function loadDirectory() {
  const [{ userTags }, { configs }] = await Promise.all([query("list_user_tags"), query("get_organization_configs")]);
  return directoryOf({ tags: userTags, rootQuorum: configs.quorum, features: configs.features });
}

export const isRoot = ({ rootQuorum }, userId) => rootQuorum.userIds.includes(userId);

// userLabel is a user's name. That of the auth proxy's user ends with an id, which tells it from no other.
export const userLabel = ({ proxy }, { userId, userName }) => (userId === proxy ? userName.replace(/ [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, "") : userName);

// roleBadges mark members of the root quorum and the auth proxy's user.
export const roleBadges = (directory, userId) => [isRoot(directory, userId) && badge("Root quorum", "root"), directory.proxy === userId && badge("Not a person")].filter(Boolean);

// tagList shows tags by their names.
export const tagList = (ids, tagNames) => (ids.length === 0 ? "–"
  : h("ul", { class: "row tags" }, ids.map((id) => h("li", null, badge(tagNames.get(id) ?? id, "tag")))));

// sentenceList writes several names as a part of a sentence.
export const sentenceList = (names, last = "and") => (names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} ${last} ${names.at(-1)}`);

export const plural = (n, one, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;
