// Webhooks: URLs that events are sent to, and what became of each event.

import { query, resultOf, submit, waits } from "../api.js";
import { fill, h, unique } from "../dom.js";
import { allowedByPolicies, limitedActions } from "../may.js";
import { session } from "../session.js";
import { badge, button, choices, confirm, copyable, dialog, done, empty, facts, field, load, loadOne, milliseconds, panel, problem, show, table, title, toast, when, words } from "../ui.js";
import { typeText } from "./activities.js";
import { plural } from "./directory.js";

const back = { href: "#/webhooks", text: "Webhooks" };
const page = 25;
const mostAtOnce = 40; // deliveries that one activity sends again

// The events that this server sends; the other events of the interface are not implemented.
const events = [["ACTIVITY_UPDATES", "Changes of activities"]];

const onlyOnSimulators = "A simulator that was started with -webhook-loopback also takes http://127.0.0.1:PORT.";

const urlField = (value) => field({ name: "url", label: "URL", kind: "url", required: true, value, placeholder: "https://hooks.example.com/cloister", hint: `Must be https, at a public address. Redirects are not followed. ${onlyOnSimulators}` });

// wayOut adds to the refusal of an address that is not https how one can be taken nevertheless.
async function wayOut(asked) {
  try {
    return await asked;
  } catch (error) {
    const fault = error.fields?.find((f) => f.description.includes("must be https"));
    if (fault) {
      fault.description += `. ${onlyOnSimulators}`;
      error.message = fault.description;
    }
    throw error;
  }
}

const update = (endpointId, changed) => wayOut(submit("update_webhook_endpoint", "UPDATE_WEBHOOK_ENDPOINT", { endpointId, ...changed }));

const endpointsOf = async () => (await query("list_webhook_endpoints")).webhookEndpoints;

const deliveriesTo = (endpointId, { limit = page, after, failedOnly = false } = {}) =>
  query("list_webhook_deliveries", { endpointId, ...(failedOnly && { failedOnly }), paginationOptions: { limit: String(limit), ...(after && { after }) } });

const is = (delivery, status) => delivery.status === `DELIVERY_STATUS_${status}`;

// isOver tells whether a delivery is not tried any more although the event has not arrived.
const isOver = (d) => is(d, "FAILED") || is(d, "EXPIRED");

// isFailing tells whether a delivery has failed so far.
const isFailing = (d) => is(d, "FAILED") || (is(d, "WAITING") && d.attempts > 0);

// What the host says of a failed attempt, in words.
const errorWords = {
  "no such host": "There is no server of this name.",
  "no public address": "The address is not public, so this server does not send there.",
  "connection refused": "No program listens at this address and port.",
  "no answer: the connection was not made or broke": "The connection could not be made, or it broke.",
  "a certificate that is not trusted": "The certificate of your server is not trusted.",
  "nobody receives it any more": "The webhook was paused when it was due.",
  "its time has passed": "The event is more than 30 days old.",
};
const statusWords = { 401: "Unauthorized", 403: "Forbidden", 404: "Not found", 405: "Method not allowed", 408: "Request timeout", 410: "Gone", 413: "Too large", 429: "Too many requests", 500: "Internal error", 502: "Bad gateway", 503: "Unavailable", 504: "Gateway timeout" };

function errorText(said) {
  if (!said) return "";
  const status = said.match(/^HTTP status (\d+)$/)?.[1];
  if (status) return `Your server answered ${status}${statusWords[status] ? ` (${statusWords[status]})` : ""}.`;
  return errorWords[said] ?? `${said.charAt(0).toUpperCase()}${said.slice(1)}.`;
}

const statusBadge = (d) => {
  if (is(d, "DELIVERED")) return badge("Delivered", "good");
  if (is(d, "FAILED")) return badge("Failed", "bad");
  if (is(d, "EXPIRED")) return badge("Dropped");
  return d.attempts > 0 ? badge("Will be retried", "wait") : badge("Waiting");
};

const statusText = (d) => {
  const tries = plural(d.attempts, "attempt", "attempts");
  if (is(d, "DELIVERED")) return d.attempts > 1 ? [`After ${tries}.`] : [];
  if (is(d, "WAITING") && d.attempts === 0) return ["Not tried yet."];
  if (is(d, "WAITING")) return [errorText(d.lastError), ` ${tries} so far. `, milliseconds(d.nextAttemptAt) > Date.now() ? ["The next attempt is ", when(d.nextAttemptAt), "."] : "The next attempt is due."];
  return [errorText(d.lastError), is(d, "FAILED") && ` Given up after ${tries}.`];
};

// healthOf says how an endpoint does, from its latest deliveries and those that failed.
async function healthOf(endpoint) {
  const [latest, failed] = await Promise.all([deliveriesTo(endpoint.endpointId), deliveriesTo(endpoint.endpointId, { failedOnly: true })]);
  const delivered = latest.deliveries.filter((d) => is(d, "DELIVERED"));
  const last = delivered.reduce((newest, d) => Math.max(newest, milliseconds(d.createdAt)), 0);
  const arrived = new Set(delivered.map((d) => d.eventId));
  const failing = failed.deliveries.filter((d) => isFailing(d) && !arrived.has(d.eventId));
  const since = failing.filter((d) => milliseconds(d.createdAt) >= last).sort((a, b) => milliseconds(a.createdAt) - milliseconds(b.createdAt));
  const waiting = new Set([...latest.deliveries, ...failed.deliveries].filter((d) => is(d, "WAITING")).map((d) => d.deliveryId)).size;
  const more = (n, all) => `${n}${all.next ? " or more" : ""}`;
  const notes = [];
  if (waiting > 0) notes.push(`${more(waiting, latest)} waiting`);
  const given = failing.filter((d) => is(d, "FAILED")).length;
  if (given > 0) notes.push(`${more(given, failed)} failed`);
  const ended = delivered[0]?.endedAt;
  const lastText = ended && ["Last delivered ", when(ended), "."];
  if (since.length > 0) {
    return [badge("Failing", "bad"), h("p", null, "First failed ", when(since[0].createdAt), `: ${errorText(since.at(-1).lastError)}`), h("p", { class: "note" }, notes.join(", "), ". ", lastText)];
  }
  if (!ended) return waiting > 0 ? [badge("Waiting"), h("p", { class: "note" }, `${notes.join(", ")}.`)] : [h("p", { class: "note" }, "Nothing was sent yet.")];
  return [given > 0 ? badge("Delivering, some failed", "wait") : badge("Delivering", "good"), h("p", { class: "note" }, lastText, notes.length > 0 && ` ${notes.join(", ")}.`)];
}

// health is a place that says how an endpoint does once that is known.
function health(endpoint) {
  const place = h("div", { "aria-busy": "true" }, h("p", { class: "note" }, "Looking…"));
  healthOf(endpoint).then((parts) => fill(place, parts), (error) => {
    console.debug(error);
    fill(place, h("p", { class: "note" }, error.unavailable ? "Not told by this server." : `Not known: ${error.message}`));
  }).then(() => place.removeAttribute("aria-busy"));
  return place;
}

function create(again) {
  dialog({
    heading: "New webhook",
    fields: [field({ name: "name", label: "Name", required: true }), urlField(), choices({ name: "events", legend: "Events", options: events, value: ["ACTIVITY_UPDATES"] })],
    action: "Create webhook",
    run: async ({ name, url, events: chosen }) => {
      if (chosen.length === 0) throw new Error("Choose at least one event.");
      done(await wayOut(submit("create_webhook_endpoint", "CREATE_WEBHOOK_ENDPOINT", { name, url, subscriptions: chosen.map((eventType) => ({ eventType })) })), `Webhook ${name} was created.`);
      again();
    },
  });
}

function edit(endpoint, again) {
  dialog({
    heading: `Edit ${endpoint.name}`,
    fields: [field({ name: "name", label: "Name", required: true, value: endpoint.name }), urlField(endpoint.url), field({ name: "isActive", label: "Active", kind: "checkbox", value: endpoint.isActive, hint: "If off, nothing is sent, and what waits is dropped." })],
    action: "Save",
    run: async (all) => {
      const changed = Object.fromEntries(Object.entries(all).filter(([name, value]) => value !== endpoint[name]));
      if (Object.keys(changed).length === 0) return;
      done(await update(endpoint.endpointId, changed), "Saved.");
      again();
    },
  });
}

function pause(endpoint, again) {
  confirm(`Pause ${endpoint.name}?`, "Nothing is sent to it until you resume it. It misses the events of that time. Those that wait now are dropped; once it is active again you can send them again, for seven days.", "Pause", async () => {
    done(await update(endpoint.endpointId, { isActive: false }), "The webhook is paused.");
    again();
  });
}

async function resume(endpoint, again) {
  try {
    done(await update(endpoint.endpointId, { isActive: true }), "The webhook is active again.");
    again();
  } catch (error) {
    toast(error.message);
  }
}

function remove(endpoint, then) {
  confirm(`Delete the webhook ${endpoint.name}?`, "Nothing more is sent to it, and what was sent is not listed any more.", "Delete", async () => {
    done(await submit("delete_webhook_endpoint", "DELETE_WEBHOOK_ENDPOINT", { endpointId: endpoint.endpointId }), "The webhook was deleted.");
    then();
  });
}

const pauses = [500, 500, 1000, 1000, 2000, 3000, 5000, 8000, 12_000, 20_000, 30_000, 60_000];

// follow shows in a dialog what becomes of an activity's event, as long as it is open.
async function follow(endpoint, activity, again) {
  const place = h("div", { role: "status" }, h("p", null, "Waiting for the first attempt…"));
  const node = show(`Test event to ${endpoint.name}`, place);
  node.addEventListener("close", again);
  for (const ms of pauses) {
    await new Promise((passed) => setTimeout(passed, ms));
    if (!node.isConnected) return;
    try {
      const { deliveries } = await deliveriesTo(endpoint.endpointId);
      const d = deliveries.find((x) => x.activityId === activity.id && !x.resendOf);
      if (!d) continue;
      fill(place, h("p", null, statusBadge(d)), h("p", null, statusText(d)), h("p", { class: "note" }, "Event ", h("code", { class: "wrap" }, d.eventId)));
      if (!is(d, "WAITING")) return;
    } catch (error) {
      fill(place, problem(error));
    }
  }
  place.append(h("p", { class: "note" }, "This dialog does not look any more. The page of the webhook lists what becomes of the event."));
}

function sendTest(endpoint, again) {
  dialog({
    heading: `Send a test event to ${endpoint.name}?`,
    intro: [h("p", null, "This submits an activity that changes nothing: the webhook is given the name that it already has. Like every activity it is recorded and makes an event, which is signed and sent."),
      h("p", null, "All active webhooks of this organization and of its parent receive it, not only this one.")],
    action: "Send test event",
    run: async () => {
      const newest = (await endpointsOf()).find((e) => e.endpointId === endpoint.endpointId);
      if (!newest) throw new Error("The webhook was deleted.");
      if (!newest.isActive) throw new Error("This webhook is paused, so nothing is sent to it. Resume it first.");
      const activity = await update(newest.endpointId, { name: newest.name });
      if (waits(activity)) done(activity);
      setTimeout(() => follow(newest, activity, again)); // once this dialog is closed
    },
  });
}

// sendAgain submits deliveries of an endpoint once more: of each event one.
async function sendAgain(endpoint, deliveries, again) {
  const ids = [...new Map(deliveries.map((d) => [d.eventId, d.deliveryId])).values()];
  const chunk = ids.slice(0, mostAtOnce);
  const activity = await submit("resend_webhook_deliveries", "RESEND_WEBHOOK_DELIVERIES", { endpointId: endpoint.endpointId, deliveryIds: chunk });
  const sent = resultOf(activity)?.deliveryIds?.length ?? chunk.length;
  done(activity, `${plural(sent, "event is", "events are")} sent again${ids.length > chunk.length ? `, the first of ${ids.length}. Press the button again for more.` : "."}`);
  again();
}

const legend = (endpoint) => h("details", { class: "below" }, h("summary", null, "What the statuses mean"), h("dl", { class: "facts" }, [
  ["Delivered", "Your server answered with a status from 200 to 299."],
  ["Waiting", "The event is on its way, or waits for an earlier event of the same activity."],
  ["Will be retried", "Your server answered 408, 425, 429 or 5xx, did not answer within 10 seconds, or was not reached. Attempts go on for three days, with growing pauses; up to 18 attempts in all."],
  ["Failed", "The event was not delivered in three days, or your server answered with another status, such as a redirect or 404. It is not tried any more unless you send it again. That works for 30 days after the event."],
  ["Dropped", endpoint.isActive ? "The webhook was paused when the event was due, or the event is more than 30 days old." : "The webhook is paused, or the event is more than 30 days old."],
].map(([name, text]) => h("div", null, h("dt", null, name), h("dd", null, text)))));

// times is when a delivery was made, and when it ended if that was much later.
const times = (d) => h("div", null, when(d.createdAt), d.endedAt && milliseconds(d.endedAt) - milliseconds(d.createdAt) > 60_000 && h("p", { class: "note" }, "Ended ", when(d.endedAt)));

// eventLink leads to the activity of an event. One of a sub-organization is that one's.
function eventLink(d) {
  const here = d.organizationId === session().organizationId;
  return [h("a", { class: "strong", href: here ? `#/activities/${d.activityId}` : `#/suborganizations/${d.organizationId}` }, typeText(d.activityType)),
    h("p", { class: "note" }, words(d.activityStatus, "ACTIVITY_STATUS_"), !here && ", in a sub-organization", d.resendOf && ", sent again")];
}

// deliveryRows is the table of deliveries, and the button for all of them that can be sent again.
function deliveryRows(endpoint, all, again) {
  const repeated = new Set(all.filter((d) => d.resendOf && !isOver(d)).map((d) => d.eventId));
  const canRepeat = (d) => endpoint.isActive && isOver(d) && !repeated.has(d.eventId);
  const press = (which) => async ({ target }) => {
    if (target.hasAttribute("aria-disabled")) return;
    target.setAttribute("aria-disabled", "true");
    try {
      await sendAgain(endpoint, which, again);
    } catch (error) {
      console.debug(error);
      toast(error.message);
      target.removeAttribute("aria-disabled");
    }
  };
  const over = all.filter(canRepeat);
  const events = new Set(over.map((d) => d.eventId)).size;
  return {
    every: events > 1 && button(`Send all ${events} failed events again`, { class: "button small", onclick: press(over) }),
    list: table("Deliveries", ["Event", "Status", "Made", "Event id", ""], all.map((d) => [
      h("div", null, eventLink(d)), h("div", null, statusBadge(d), h("p", { class: "note" }, statusText(d))), times(d), copyable(d.eventId, "event id"),
      canRepeat(d) ? button("Send again", { class: "button small", "aria-label": `Send again: ${typeText(d.activityType)}`, onclick: press([d]) }) : isOver(d) && repeated.has(d.eventId) ? h("span", { class: "note" }, "Was sent again") : "",
    ])),
  };
}

// deliveryPanel lists what was sent to an endpoint, by pages. What is left out of a page, since no entry proves it, makes a page shorter.
function deliveryPanel(endpoint, renew, shows) {
  const place = h("div");
  const id = unique("show");
  const only = h("select", { id }, [["", "All"], ["failed", "Not delivered"]].map(([value, text]) => h("option", { value, selected: value === shows.only }, text)));
  const above = h("div", { class: "row" });
  const failedOnly = () => shows.only === "failed";
  const again = load(place, "deliveries", () => deliveriesTo(endpoint.endpointId, { failedOnly: failedOnly() }), ({ deliveries, next }) => {
    const all = [...deliveries];
    const grown = h("div", { class: "grown" });
    const draw = (after) => {
      const more = after && button("Show more", { class: "button quiet", onclick: async () => {
        more.disabled = true;
        try {
          const got = await deliveriesTo(endpoint.endpointId, { failedOnly: failedOnly(), after });
          const shown = new Set(all.map((d) => d.deliveryId));
          all.push(...got.deliveries.filter((d) => !shown.has(d.deliveryId)));
          draw(got.next);
        } catch (error) {
          more.disabled = false;
          toast(error.message);
        }
      } });
      const { every, list } = all.length > 0 ? deliveryRows(endpoint, all, renew) : { list: empty(failedOnly() ? "Nothing has failed." : "Nothing was sent yet.") };
      fill(above, every);
      fill(grown, list, more);
    };
    draw(next);
    return grown;
  });
  only.addEventListener("change", () => {
    shows.only = only.value;
    again();
  });
  return panel("Deliveries", [h("div", { class: "filters" }, h("label", { for: id }, "Show", only), above), place, legend(endpoint)], {
    note: "What is due or ended last comes first. The server that sends the events says what became of them; nothing proves that. Failed events are listed for a month, others for seven days.",
    actions: [button("Refresh", { class: "button small", onclick: renew })],
  });
}

// limitsOf asks what the reader may do to webhooks, by one of them if there is one.
const limitsOf = (endpoint) => limitedActions({
  ...(endpoint && { edit: ["Edit", allowedByPolicies("UPDATE_WEBHOOK_ENDPOINT", { endpointId: endpoint.endpointId, name: endpoint.name })], remove: ["Delete", allowedByPolicies("DELETE_WEBHOOK_ENDPOINT", { endpointId: endpoint.endpointId })] }),
  make: ["New webhook", allowedByPolicies("CREATE_WEBHOOK_ENDPOINT", { name: "Name", url: "https://hooks.example.com", subscriptions: [{ eventType: "ACTIVITY_UPDATES" }] })],
});

const keysAt = "/public/v1/discovery/webhooks/jwks";

// howToCheck says how a receiver knows that a message is genuine.
const howToCheck = () => panel("How to check a message", [
  h("p", null, "Every message is signed by the enclave. Your server should check the signature before it believes what a message says."),
  facts([
    ["Public keys", h("a", { href: keysAt, target: "_blank", rel: "noopener" }, h("code", { class: "wrap" }, `${location.origin}${keysAt}`), h("span", { class: "hidden" }, " (opens a new tab)"))],
    ["In Go", [h("code", { class: "wrap" }, "attestation.VerifyWebhook"), " checks a message with these keys."]],
  ]),
  h("p", { class: "note" }, "The keys at this address come from the server. If you do not trust it, compare them with the key in ", h("code", { class: "wrap" }, "/public/v1/discovery/keys"), ", which comes with a proof."),
]);

function one(main, endpointId) {
  const shows = { only: "" }; // what was chosen, when the page is drawn again
  loadOne(main, "webhook", "Webhook", back, async () => {
    const endpoint = (await endpointsOf()).find((e) => e.endpointId === endpointId);
    if (!endpoint) throw new Error("There is no webhook with this id.");
    return { endpoint, limits: await limitsOf(endpoint) };
  }, ({ endpoint, limits }, again) => [
    title(endpoint.name, { back, actions: [
      limits.edit("Send a test event", { class: "button primary", onclick: () => sendTest(endpoint, again) }),
      limits.edit("Edit", { onclick: () => edit(endpoint, again) }),
      endpoint.isActive ? limits.edit("Pause", { onclick: () => pause(endpoint, again) }) : limits.edit("Resume", { onclick: () => resume(endpoint, again) }),
      limits.remove("Delete", { onclick: () => remove(endpoint, () => { location.hash = back.href; }) }),
    ] }),
    limits.why,
    panel("About", facts([
      ["URL", h("code", { class: "wrap" }, endpoint.url)],
      ["Status", badge(endpoint.isActive ? "Active" : "Paused", endpoint.isActive ? "good" : "wait")],
      ["Deliveries", health(endpoint)],
      ["Events", (endpoint.subscriptions ?? []).map((s) => h("p", null, events.find(([e]) => e === s.eventType)?.[1] ?? words(s.eventType)))],
      ["Id", copyable(endpoint.endpointId, `id of ${endpoint.name}`)],
    ])),
    deliveryPanel(endpoint, again, shows),
  ]);
}

const row = (endpoint, limits, again) => [
  h("a", { class: "strong wrap", href: `#/webhooks/${endpoint.endpointId}` }, endpoint.name),
  h("code", { class: "wrap" }, endpoint.url),
  badge(endpoint.isActive ? "Active" : "Paused", endpoint.isActive ? "good" : "wait"),
  health(endpoint),
  h("div", { class: "row" }, limits.edit("Edit", { class: "button small", "aria-label": `Edit ${endpoint.name}`, onclick: () => edit(endpoint, again) }),
    limits.remove("Delete", { class: "button small", "aria-label": `Delete ${endpoint.name}`, onclick: () => remove(endpoint, again) })),
];

export function webhooks(main, [endpointId]) {
  if (endpointId) return one(main, endpointId);
  const place = h("div");
  let again;
  const make = () => create(again);
  const add = h("div", { class: "row" });
  fill(main, title("Webhooks", { intro: "URLs that receive a message whenever an activity changes. Every message is signed.", actions: [add] }), place);
  again = load(place, "webhooks", async () => {
    const all = await endpointsOf();
    return { all, limits: await limitsOf(all[0]) };
  }, ({ all, limits }) => {
    fill(add, limits.make("New webhook", { class: "button primary", onclick: make }));
    return [limits.why, all.length === 0 ? empty("There is no webhook yet.", limits.make("Create the first webhook", { onclick: make }))
      : table("Webhooks", ["Webhook", "URL", "Status", "Deliveries", ""], all.map((e) => row(e, limits, again))), h("div", { class: "below" }, howToCheck())];
  });
}
