// Settings: what an organization is called, who is in its root quorum, its features, session profiles and IP allowlist, and its deletion.

import { query, signOut, submit, waits } from "../api.js";
import { fill, h } from "../dom.js";
import { limitedByPolicies, limitedToRoot } from "../may.js";
import { session, takeOrganizationName } from "../session.js";
import { signInLink } from "../signin.js";
import { copyable, dialog, done, facts, field, load, panel, title } from "../ui.js";
import { unsaved } from "../unsaved.js";
import { plural, proxyFeature } from "./directory.js";
import { featuresPanel } from "./features.js";
import { ipAllowlist, ipPanel, listOf } from "./ipallowlist.js";
import { quorumPanel } from "./quorum.js";
import { profilesPanel, sessionProfile } from "./sessionprofiles.js";

function rename({ name }, again) {
  const node = dialog({
    heading: "Rename the organization",
    intro: "The name stands in this dashboard, in invitations and in mails to your users.",
    fields: [field({ name: "organizationName", label: "Name", required: true, value: name })],
    action: "Rename",
    run: async ({ organizationName }) => {
      if (organizationName === name) throw new Error("This is its name already.");
      const activity = await submit("update_organization_name", "UPDATE_ORGANIZATION_NAME", { organizationName });
      if (!waits(activity)) await takeOrganizationName(organizationName);
      done(activity, `The organization is called ${organizationName} now.`);
      again();
    },
  });
  unsaved(node.querySelector("form"));
}

function about({ organization }, again) {
  const limits = limitedToRoot(organization.rootQuorum);
  return panel("Organization", facts([
    ["Name", organization.name],
    ["Organization id", copyable(organization.organizationId, "organization id", { whole: true })],
    ["Sign-in link", [copyable(signInLink(organization.organizationId), "sign-in link", { whole: true }), h("p", { class: "note" }, "For your colleagues: it opens the sign-in of this organization. It holds no secret.")]],
  ]), { actions: [limits.why, limits.button("Rename", { class: "button small", onclick: () => rename(organization, again) })] });
}

function askToDelete({ organizationId, name }) {
  const node = dialog({
    heading: `Delete ${name}?`,
    intro: [h("p", null, "Its users can no longer sign in, and nothing in it can be signed, read or changed any more. Its wallets and keys are deleted: only what was exported remains. Nobody can undo this.")],
    fields: [field({ name: "typed", label: "Name of the organization", required: true, hint: `Type ${name} to confirm.`, autocapitalize: "off", spellcheck: "false" })],
    action: "Delete the organization", danger: true,
    run: async ({ typed }) => {
      if (typed !== name) {
        const text = "This is not the name of the organization.";
        throw Object.assign(new Error(text), { fields: [{ field: "typed", description: text }] });
      }
      const activity = await submit("delete_organization", "DELETE_ORGANIZATION", { organizationId });
      if (waits(activity)) done(activity);
      else signOut(`${name} was deleted.`);
    },
  });
  unsaved(node.querySelector("form"));
}

// deletion says what must be done before. The server checks it.
function deletion({ organization, subOrganizations, deletionLimits }) {
  const secrets = [[organization.wallets, "wallet"], [organization.privateKeys, "private key"]].map(([all, what]) => [all.filter((one) => !one.exported).length, what]).filter(([n]) => n > 0);
  return panel("Delete the organization", [
    h("p", { class: "note" }, "It must have no sub-organizations, and each wallet, private key and secret must have been exported or deleted."),
    (subOrganizations > 0 || secrets.length > 0) && h("p", null, `In the way now: ${[subOrganizations > 0 && plural(subOrganizations, "sub-organization"), ...secrets.map(([n, what]) => `${plural(n, what)} that ${n === 1 ? "was" : "were"} not exported`)].filter(Boolean).join(", ")}.`),
    deletionLimits.why,
    h("div", null, deletionLimits.button("Delete the organization", { class: "button danger small", onclick: () => askToDelete(organization) })),
  ]);
}

async function loadSettings() {
  const { organizationId } = session();
  const [{ organizationData: organization }, { sessionProfiles: profiles }, list, { total }, profileLimits, ipLimits, deletionLimits] = await Promise.all([
    query("get_organization"), query("get_session_profiles"), listOf(), query("list_suborgs", { includeDetails: true, paginationOptions: { limit: "1" } }),
    limitedByPolicies("CREATE_SESSION_PROFILE", { sessionProfileName: "New", scope: "true" }), limitedByPolicies("SET_IP_ALLOWLIST", { rules: [] }), limitedByPolicies("DELETE_ORGANIZATION", { organizationId }),
  ]);
  await takeOrganizationName(organization.name);
  const hasProxy = organization.features.some((f) => f.name === proxyFeature);
  const proxy = hasProxy ? await query("get_auth_proxy_config").then((got) => got.authProxyConfig, (error) => console.debug(error) ?? null) : null;
  return { organization, profiles, list, subOrganizations: Number(total), profileLimits, ipLimits, deletionLimits, proxy };
}

function all(main) {
  const place = h("div");
  fill(main, title("Settings", { intro: "The organization itself: its name, its root quorum, and what its users may use." }), place);
  const again = load(place, "the settings", loadSettings, (got) =>
    [about(got, again), quorumPanel(got, again), featuresPanel(got, again), profilesPanel(got), ipPanel(got), deletion(got)]);
}

export function settings(main, [part, id]) {
  if (part === "profiles" && id) sessionProfile(main, id);
  else if (part === "ip") ipAllowlist(main, id);
  else all(main);
}
