// Webhooks: URLs that events are sent to.

import { query, submit } from "../api.js";
import { fill, h } from "../dom.js";
import { badge, button, choices, confirm, copyable, dialog, done, empty, field, load, table, title, words } from "../ui.js";

// The events that this server sends; the other events of the interface are not implemented.
const events = [["ACTIVITY_UPDATES", "Changes of activities"]];

const urlField = (value) => field({ name: "url", label: "URL", kind: "url", required: true, value, placeholder: "https://hooks.example.com/cloister", hint: "Must be https, at a public address. Redirects are not followed. A simulator that was started with -webhook-loopback also takes http://127.0.0.1:PORT." });

function create(again) {
  dialog({
    heading: "New webhook",
    fields: [field({ name: "name", label: "Name", required: true }), urlField(), choices({ name: "events", legend: "Events", options: events, value: ["ACTIVITY_UPDATES"] })],
    action: "Create webhook",
    run: async ({ name, url, events: chosen }) => {
      if (chosen.length === 0) throw new Error("Choose at least one event.");
      done(await submit("create_webhook_endpoint", "CREATE_WEBHOOK_ENDPOINT", { name, url, subscriptions: chosen.map((eventType) => ({ eventType })) }), `Webhook ${name} was created.`);
      again();
    },
  });
}

function edit(endpoint, again) {
  dialog({
    heading: `Edit ${endpoint.name}`,
    fields: [field({ name: "name", label: "Name", required: true, value: endpoint.name }), urlField(endpoint.url), field({ name: "isActive", label: "Active", kind: "checkbox", value: endpoint.isActive, hint: "If off, nothing is sent." })],
    action: "Save",
    run: async (all) => {
      const changed = Object.fromEntries(Object.entries(all).filter(([name, value]) => value !== endpoint[name]));
      if (Object.keys(changed).length === 0) return;
      done(await submit("update_webhook_endpoint", "UPDATE_WEBHOOK_ENDPOINT", { endpointId: endpoint.endpointId, ...changed }), "Saved.");
      again();
    },
  });
}

function row(endpoint, again) {
  const remove = () => confirm(`Delete the webhook ${endpoint.name}?`, "Nothing more is sent to it.", "Delete", async () => {
    done(await submit("delete_webhook_endpoint", "DELETE_WEBHOOK_ENDPOINT", { endpointId: endpoint.endpointId }), "The webhook was deleted.");
    again();
  });
  return [
    h("div", null, h("p", { class: "strong" }, endpoint.name), h("p", null, h("code", { class: "wrap" }, endpoint.url))),
    (endpoint.subscriptions ?? []).map((s) => h("p", null, events.find(([e]) => e === s.eventType)?.[1] ?? words(s.eventType))),
    badge(endpoint.isActive ? "Active" : "Paused", endpoint.isActive ? "good" : "wait"),
    copyable(endpoint.endpointId, `id of ${endpoint.name}`),
    h("div", { class: "row" }, button("Edit", { class: "button small", "aria-label": `Edit ${endpoint.name}`, onclick: () => edit(endpoint, again) }), button("Delete", { class: "button small", "aria-label": `Delete ${endpoint.name}`, onclick: remove })),
  ];
}

export function webhooks(main) {
  const place = h("div");
  let again;
  const make = () => create(again);
  const add = button("New webhook", { class: "button primary", onclick: make, hidden: true });
  fill(main, title("Webhooks", { intro: "URLs that receive a message whenever an activity changes. Every message is signed.", actions: [add] }), place);
  again = load(place, "webhooks", async () => (await query("list_webhook_endpoints")).webhookEndpoints, (all) => {
    add.hidden = false;
    return all.length === 0 ? empty("There is no webhook yet.", button("Create the first webhook", { onclick: make }))
      : table("Webhooks", ["Webhook", "Events", "Status", "Id", ""], all.map((e) => row(e, again)));
  });
}
