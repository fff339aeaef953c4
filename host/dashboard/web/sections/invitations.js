// Invitations: people become users with a credential that nobody but them has had. The server sends no mail: the link is sent, and the
// reply to it is brought here, by whoever invites.

import { query, submit, waits } from "../api.js";
import { fill, h } from "../dom.js";
import { codeOf, linkBox, linkTo, mailTo, originOf, replyOf, tokenOf } from "../reply.js";
import { session } from "../session.js";
import { sortable } from "../tables.js";
import { badge, button, choices, confirm, copy, copyable, dialog, done, empty, facts, field, form, load, loadOne, milliseconds, panel, show, time, title, when } from "../ui.js";
import { directoryOf, tagList } from "./directory.js";

const path = "#/users/invitations";
const back = { href: "#/users", text: "Users" };
const lifetime = 24 * 60 * 60 * 1000; // as the enclave has it

const accessTypes = [["ACCESS_TYPE_ALL", "Web and API"], ["ACCESS_TYPE_WEB", "Web"], ["ACCESS_TYPE_API", "API"]];

const ends = (i) => milliseconds(i.createdAt) + lifetime;

// stateOf is what became of an invitation. Who came with an API key was made a user beside it, and the invitation withdrawn.
function stateOf(i, users) {
  if (i.status === "INVITATION_STATUS_ACCEPTED") return "joined";
  if (i.status === "INVITATION_STATUS_CREATED") return ends(i) > Date.now() ? "open" : "expired";
  return users.some((u) => u.userName === i.receiverUserName && u.userEmail === i.receiverEmail && milliseconds(u.createdAt) >= milliseconds(i.createdAt)) ? "joined" : "deleted";
}

const stateBadge = { open: ["Open", "wait"], expired: ["Expired"], joined: ["Joined", "good"], deleted: ["Deleted"] };

async function fetchAll() {
  const { organizationData } = await query("get_organization");
  const { users, invitations } = organizationData;
  return { users, directory: await directoryOf(organizationData), invitations: invitations.map((i) => ({ ...i, state: stateOf(i, users) })) };
}

function showLink({ invitationId, receiverUserName: userName, receiverEmail, createdAt }) {
  const { organizationId, organizationName } = session();
  const link = linkTo({ organizationId, organizationName, invitationId, userName });
  const expires = createdAt ? milliseconds(createdAt) + lifetime : Date.now() + lifetime;
  const body = `Open this link on the device with which you will sign in to ${organizationName}:\n\n${link}\n\nThen send me the reply that the page gives you.\n`;
  show(`Invitation of ${userName}`, [
    h("ol", { class: "steps" },
      h("li", null, `Send this link to ${userName}. The server does not send it.`),
      h("li", null, "They make a passkey or a key on the page that it opens, and send you a reply."),
      h("li", null, "Open the reply, or choose “Enter reply” here, and let them in.")),
    linkBox(link, "Link"),
    h("p", null, "It can be used until ", time(expires, { both: true }), "."),
    h("div", { class: "row" }, button("Copy the link", { class: "button primary", autofocus: true, onclick: () => copy(link, "the link") }), h("a", { class: "button", href: mailTo(receiverEmail, `Invitation to ${organizationName}`, body) }, "Write an e-mail"))]);
}

function create({ directory }, again) {
  dialog({
    heading: "Invite somebody",
    intro: "They make their own passkey or API key. You never see its private half.",
    fields: [
      field({ name: "receiverUserName", label: "Name", required: true }),
      field({ name: "receiverUserEmail", label: "E-mail", kind: "email", required: true, hint: "It becomes the user’s address. No mail is sent to it now." }),
      directory.tags.length > 0 && choices({ name: "receiverUserTags", legend: "Tags", options: directory.tags.map((t) => [t.tagId, t.tagName]) }),
      field({ name: "accessType", label: "Access", kind: "select", value: "ACCESS_TYPE_ALL", options: accessTypes, hint: "Noted in the invitation. Policies decide what the user may do." }),
    ],
    action: "Create invitation",
    run: async ({ receiverUserTags = [], ...all }) => {
      const activity = await submit("create_invitations", "CREATE_INVITATIONS", { invitations: [{ ...all, receiverUserTags, senderUserId: session().userId }] });
      done(activity, `${all.receiverUserName} is invited.`);
      again();
      const [invitationId] = activity.result?.createInvitationsResult?.invitationIds ?? [];
      if (invitationId) queueMicrotask(() => showLink({ invitationId, receiverUserName: all.receiverUserName, receiverEmail: all.receiverUserEmail }));
    },
  });
}

function enterReply({ invitationId, receiverUserName }) {
  dialog({
    heading: `Reply of ${receiverUserName}`,
    fields: [field({ name: "reply", label: "Reply", kind: "textarea", class: "code", required: true, hint: "The link that they sent you." })],
    action: "Continue",
    run: async ({ reply }) => {
      const token = tokenOf(reply);
      if (!token) throw new Error("This is no reply to an invitation. It is a link with “reply=” in it.");
      location.hash = `${path}/${invitationId}?${new URLSearchParams({ reply: token })}`;
    },
  });
}

const remove = ({ invitationId, receiverUserName }, again) => confirm(`Delete the invitation of ${receiverUserName}?`, "The link and a reply to it are then of no use.", "Delete", async () => {
  done(await submit("delete_invitation", "DELETE_INVITATION", { invitationId }), "The invitation was deleted.");
  again();
});

const columns = ({ directory }, again) => [
  { name: "Name", cell: (i) => h("span", { class: "strong" }, i.receiverUserName), key: (i) => i.receiverUserName },
  { name: "E-mail", cell: (i) => i.receiverEmail, key: (i) => i.receiverEmail },
  { name: "Tags", cell: (i) => tagList(i.receiverUserTags, directory.tagNames) },
  { name: "Status", cell: (i) => badge(...stateBadge[i.state]), key: (i) => i.state },
  { name: "Created", cell: (i) => when(i.createdAt), key: (i) => milliseconds(i.createdAt) },
  { name: "", cell: (i) => i.state === "open" && h("div", { class: "row" },
    button("Link", { class: "button small", "aria-label": `Link of ${i.receiverUserName}`, onclick: () => showLink(i) }),
    button("Enter reply", { class: "button small", "aria-label": `Enter reply of ${i.receiverUserName}`, onclick: () => enterReply(i) }),
    button("Delete", { class: "button small", "aria-label": `Delete the invitation of ${i.receiverUserName}`, onclick: () => remove(i, again) })) },
];

function list(main) {
  const place = h("div");
  let again;
  let all = { directory: { tags: [] } };
  const invite = () => create(all, again);
  fill(main, title("Invitations", { back, intro: "Colleagues come in with a passkey or key of their own. An invitation is open for 24 hours.", actions: [button("Invite somebody", { class: "button primary", onclick: invite })] }), place);
  again = load(place, "invitations", async () => { all = await fetchAll(); return all; }, ({ invitations: some }) =>
    (some.length === 0 ? empty("Nobody is invited.", button("Invite the first", { onclick: invite })) : sortable("Invitations", columns(all, again), some, { order: { name: "Created", descending: true } }).node));
}

// ---- The reply

const closed = { expired: "It has expired. Invite them again.", deleted: "It was deleted.", joined: "They are a user already." };

async function acceptReply(invitation, { authenticator, apiKey }) {
  const { invitationId, receiverUserName: userName, receiverEmail, receiverUserTags } = invitation;
  if (authenticator) return submit("accept_invitation", "ACCEPT_INVITATION_V2", { invitationId, userId: invitationId, authenticator });
  // An invitation is accepted with a passkey only: who has an API key is made a user beside it.
  const activity = await submit("create_users", "CREATE_USERS_V4", { users: [{
    userName, userEmail: receiverEmail, userTags: receiverUserTags, authenticators: [], oauthProviders: [],
    apiKeys: [{ apiKeyName: "API key", publicKey: apiKey.publicKey, curveType: "API_KEY_CURVE_P256" }] }] });
  if (!waits(activity)) await submit("delete_invitation", "DELETE_INVITATION", { invitationId }).catch((error) => console.debug(error)); // it expires
  return activity;
}

function answerOf({ authenticator, apiKey }) {
  if (apiKey) return [["Signs in with", "An API key"], ["Public key", copyable(apiKey.publicKey, "public key")]];
  const origin = originOf(authenticator);
  return [["Signs in with", `The passkey “${authenticator.authenticatorName}”`], ["Made at", [origin || "–", origin !== location.origin && h("p", { class: "error" }, `It does not work here, at ${location.origin}.`)]]];
}

// drawReply shows a reply with its code, and lets the person in once the code was compared.
function drawReply({ invitation, reply, code, directory, users }) {
  const { receiverUserName: name } = invitation;
  const sender = users.find((u) => u.userId === invitation.senderUserId)?.userName ?? invitation.senderUserId;
  const head = title(`Let ${name} in`, { back: { href: path, text: "Invitations" } });
  const about = facts([["Name", name], ["E-mail", invitation.receiverEmail], ["Tags", tagList(invitation.receiverUserTags, directory.tagNames)], ["Invited by", sender], ...answerOf(reply), ["Code", h("code", { class: "replycode" }, code)]]);
  if (invitation.state !== "open") return [head, panel("Reply", [about, h("p", { class: "strong" }, `This invitation is no longer open. ${closed[invitation.state]}`)])];
  return [head, panel("Reply", [about, form({
    fields: [
      h("p", null, `Whoever got hold of the link can have answered. Ask ${name} for the code on their page, by phone or in person, before you go on.`),
      field({ name: "compared", label: `${name} has told me the same code`, kind: "checkbox", required: true }),
    ],
    action: `Let ${name} in`,
    run: async () => {
      const activity = await acceptReply(invitation, reply);
      done(activity, `${name} was added and can sign in.`);
      location.hash = waits(activity) ? path : "#/users";
    },
  })])];
}

const one = (main, invitationId, token) => loadOne(main, "the reply", "Reply", { href: path, text: "Invitations" }, async () => {
  let reply;
  try {
    reply = replyOf(token);
  } catch (error) {
    throw new Error("This is no reply to an invitation, or a part of it is missing. Ask for the whole link.", { cause: error });
  }
  if (reply.organizationId !== session().organizationId) throw new Error(`This reply is for another organization than yours: ${reply.organizationId}.`);
  if (reply.invitationId !== invitationId) throw new Error("This reply is to another invitation.");
  const { invitations: all, ...rest } = await fetchAll();
  const invitation = all.find((i) => i.invitationId === invitationId);
  if (!invitation) throw new Error("There is no such invitation. It may have made room for others since.");
  return { invitation, reply, code: await codeOf(reply), ...rest };
}, drawReply);

export function invitations(main, invitationId, search) {
  if (invitationId) one(main, invitationId, search.get("reply") ?? "");
  else list(main);
}
