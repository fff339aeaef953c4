// The public interface: requests that are stamped here, and what their answers mean.

import { denialOf, reasonOf } from "./refusals.js";
import { session, stamped } from "./session.js";

// Refused is an answer that is no success.
export class Refused extends Error {
  constructor(message, { code = 0, errorCode = "", status = 0, details = [], request = "" } = {}) {
    super(message);
    Object.assign(this, { code, errorCode, status, details, request });
  }

  // activityId is the activity that nobody allowed, if the error is about one.
  get activityId() {
    return denialOf(this)?.activityId;
  }

  // unavailable: the server does not have this operation.
  get unavailable() {
    return this.code === 12;
  }

  // expired: the key, or the session that it belongs to, is over.
  get expired() {
    return this.errorCode === "API_KEY_EXPIRED";
  }

  // unknownOrganization: there has never been an organization with the id.
  get unknownOrganization() {
    return this.errorCode === "ORGANIZATION_NOT_FOUND";
  }

  // unknownCredential: the organization has no such key or passkey, or is deleted.
  get unknownCredential() {
    return this.errorCode === "PUBLIC_KEY_NOT_FOUND" || this.errorCode === "CREDENTIAL_NOT_FOUND";
  }

  // fields are the members of the request that are at fault.
  get fields() {
    return this.details.flatMap((d) => d.fieldViolations ?? []);
  }
}

// messageOf is a failure's message for readers of the interface: the reason, if policies or the root quorum refused.
function messageOf(type, failure, otherwise) {
  const denial = denialOf(failure);
  return denial ? reasonOf(type, denial) : sentence(failure?.message ?? otherwise);
}

// taken is what the server says of a name that something of the kind has already.
const taken = /^(\w[\w ]*?) label must be unique$/i;

// sentence is a server's message for readers: without the prefixes of the wire, with a capital letter unless it begins with a
// field's name.
export const sentence = (message) => message.replace(/^(rpc error: code = \w+ desc = |UNIMPLEMENTED: |invalid policy \w+: |Expression cannot be parsed: )+/i, "").replace(taken, (_, what) => `There is ${/^([aeio]|mfa)/i.test(what) ? "an" : "a"} ${what.toLowerCase().replace("mfa", "MFA")} with this name already.`).replace(/^[a-z](?=[a-z]*[ :,])/, (first) => first.toUpperCase());

const away = "The server cannot be reached.";
// signedOut is called when the server no longer knows the key.
let signedOut = () => {};
export const onSignedOut = (f) => { signedOut = f; };

// signOut ends the session in this page and says why.
export const signOut = (told) => signedOut({ told });

async function once(path, body, stamp) {
  const headers = { "Content-Type": "application/json", ...(await stamp(body)) };
  let answer;
  try {
    answer = await fetch(path, { method: "POST", headers, body, cache: "no-store", credentials: "omit", redirect: "error" });
  } catch {
    throw new Refused(away, { code: 14, status: 503 });
  }
  const request = answer.headers.get("X-Request-Id") ?? "";
  let content;
  try {
    content = await answer.json();
  } catch {
    throw new Refused(`The server sent an unreadable answer (HTTP ${answer.status}).`, { code: 13, status: answer.status, request });
  }
  if (answer.ok) return content;
  const refused = new Refused(messageOf(JSON.parse(body).type ?? "", content, `The server answered HTTP ${answer.status}.`), { code: content.code, errorCode: content.turnkeyErrorCode, status: answer.status, details: content.details ?? [], request });
  // Another organization may not know the key without its being invalid here.
  if (refused.code === 16 && session()?.userId && JSON.parse(body).organizationId === session().organizationId) signedOut(refused);
  throw refused;
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// send repeats the very same body when nobody can tell whether it arrived: the enclave knows it again.
async function send(path, content, stamp = stamped) {
  const body = JSON.stringify(content);
  for (let tries = 1; ; tries++) {
    try {
      return await once(path, body, stamp);
    } catch (error) {
      const unsure = error instanceof Refused && (error.status === 503 || error.status === 504);
      if (!unsure || tries === 3 || stamp !== stamped) throw error;
      await pause(400 * tries);
    }
  }
}

// query reads, in this organization unless the parameters name another.
export const query = (operation, parameters = {}) =>
  send(`/public/v1/query/${operation}`, { organizationId: session().organizationId, ...parameters });

// whoami asks who the key is of.
export const whoami = () => query("whoami");

const unfinished = new Set(["ACTIVITY_STATUS_CREATED", "ACTIVITY_STATUS_PENDING"]);

// submit asks for an activity of a type and gives it back once it has an outcome: completed, or waiting for others. What
// failed or was rejected is thrown.
export async function submit(operation, type, parameters) {
  const envelope = { type: `ACTIVITY_TYPE_${type}`, timestampMs: String(Date.now()), organizationId: session().organizationId, parameters };
  let { activity } = await send(`/public/v1/submit/${operation}`, envelope);
  for (let tries = 0; unfinished.has(activity.status) && tries < 20; tries++) {
    await pause(500);
    ({ activity } = await query("get_activity", { activityId: activity.id }));
  }
  if (activity.status === "ACTIVITY_STATUS_FAILED") throw new Refused(messageOf(type, activity.failure, "The activity failed."), activity.failure ?? {});
  if (activity.status === "ACTIVITY_STATUS_REJECTED" && operation !== "reject_activity") throw new Refused("The activity was rejected.");
  return activity;
}

// login is a stamp_login of an organization by a stamper that is not signed in.
export async function login(organizationId, parameters, stamp) {
  const envelope = { type: "ACTIVITY_TYPE_STAMP_LOGIN", timestampMs: String(Date.now()), organizationId, parameters };
  const { activity } = await send("/public/v1/submit/stamp_login", envelope, stamp);
  if (activity.status !== "ACTIVITY_STATUS_COMPLETED") throw new Refused(messageOf("STAMP_LOGIN", activity.failure, "Signing in needs the approval of other users."));
}

// waits tells whether others must approve an activity first.
export const waits = (activity) => activity.status === "ACTIVITY_STATUS_CONSENSUS_NEEDED" || activity.status === "ACTIVITY_STATUS_AUTHENTICATORS_NEEDED";

// resultOf is the one member of an activity's result.
export const resultOf = (activity) => Object.values(activity.result ?? {})[0] ?? {};
