// Billing: the plan and what it allows, gas that the organization pays for its own, and accounts at on-ramp providers.

import { query, submit } from "../api.js";
import { fill, h } from "../dom.js";
import { badge, button, confirm, copyable, dialog, done, empty, facts, field, load, panel, table, time, title, when, words } from "../ui.js";

const none = "no limit";

function plan(again, { plan: p, period, usage, limits, paymentMethod, paymentEmail }) {
  const change = () => dialog({
    heading: "Change the plan",
    intro: "The operator of this server says which plans there are. The change is in force at once.",
    fields: [field({ name: "productId", label: "Id of the plan", required: true, value: p.id })],
    action: "Change plan",
    run: async ({ productId }) => {
      done(await submit("activate_billing_tier", "ACTIVATE_BILLING_TIER", { productId }), "The plan was changed.");
      again();
    },
  });
  const mail = () => dialog({
    heading: "Address for invoices",
    fields: [field({ name: "paymentEmail", label: "Email", kind: "email", required: true, value: paymentEmail })],
    action: "Save",
    run: async (all) => {
      done(await submit("update_payment_method", "UPDATE_PAYMENT_METHOD", all), "Saved.");
      again();
    },
  });
  const detach = () => confirm("Delete the payment method?", "It is detached at the payment processor. A plan that needs one keeps it.", "Delete", async () => {
    done(await submit("delete_payment_method", "DELETE_PAYMENT_METHOD", { paymentMethodId: paymentMethod.id }), "The payment method was deleted.");
    again();
  });
  return [
    panel("Plan", facts([
      ["Plan", h("span", null, p.name, " ", h("code", null, p.id))],
      ["Period", h("span", null, time(Number(period.start)), " to ", time(Number(period.end)))],
      ["Signatures", usage ? `${usage.signatures} of ${limits.signaturesPerMonth ?? none}` : "not counted: this server has no plans"],
      usage && Number(usage.leased) > 0 && ["Of these, given to sub-organizations", usage.leased],
      ["Requests per second", limits.requestsPerSecond ?? none],
      ["Sub-organizations", limits.subOrganizations ?? none],
      ["Sponsored transactions", limits.sponsorship ? "allowed" : "not in this plan"],
    ]), { actions: [usage && button("Change plan", { onclick: change })] }),
    panel("Payment", facts([
      ["Method", paymentMethod ? `card ending in ${paymentMethod.lastFour}, ${paymentMethod.cardHolderName}` : "none"],
      ["Invoices to", paymentEmail ?? "–"],
    ]), { actions: [usage && button("Address for invoices", { onclick: mail }), paymentMethod && button("Delete payment method", { onclick: detach })], note: "Cards are attached through the API, by the payment processor's own library: this page never sees one." }),
  ];
}

function gas(again, { usage, station }) {
  const configure = () => dialog({
    heading: "Sponsored gas",
    intro: "The organization pays for transactions that its users and sub-organizations ask to be sponsored, within a rolling window.",
    fields: [
      field({ name: "orgWindowLimitUsd", label: "Limit of all together, US dollars", required: true, value: usage?.windowLimitUsd, inputmode: "decimal" }),
      field({ name: "subOrgWindowLimitUsd", label: "Limit of each sub-organization, US dollars", required: true, inputmode: "decimal" }),
      field({ name: "windowDurationMinutes", label: "Window, minutes", kind: "number", required: true, value: usage?.windowDurationMinutes ?? 1440, min: 1, max: 43200 }),
      field({ name: "enabled", label: "Sponsor transactions", kind: "checkbox", value: true, hint: "If off, requests for sponsored transactions are refused." }),
      field({ name: "rentPrefundEnabled", label: "Pay for new accounts on Solana", kind: "checkbox", value: station?.rentPrefundEnabled, hint: "Signers are given what accounts that their transactions make must hold. Who closes such an account later keeps it." }),
    ],
    action: "Save",
    run: async ({ rentPrefundEnabled, ...all }) => {
      done(await submit("upsert_gas_usage_config", "UPSERT_GAS_USAGE_CONFIG", { ...all, solanaConfig: { rentPrefundEnabled } }), "Saved.");
      again();
    },
  });
  return panel("Sponsored gas", usage
    ? facts([
      ["Used", `${usage.usageUsd} of ${usage.windowLimitUsd} US dollars in ${usage.windowDurationMinutes} minutes`],
      ["Paying account", copyable(station.sponsor, "the paying account")],
      ["Paying account on Solana", station.solanaSponsor ? copyable(station.solanaSponsor, "the paying account on Solana") : "made when the limits are set again"],
      ["Gas station", copyable(station.station, "the gas station")],
      ["Delegate", copyable(station.delegate, "the delegate")],
    ])
    : empty("No transactions are sponsored yet."),
  { actions: [button("Set limits", { onclick: configure })], note: usage && "Fund the paying account on each chain that it is to pay on. Its key never leaves the enclave." });
}

function ramps(again, all) {
  const remove = (c) => confirm(`Delete the account at ${words(c.onrampProvider, "FIAT_ON_RAMP_PROVIDER_")}?`, "Users can no longer open its pages.", "Delete", async () => {
    done(await submit("delete_fiat_on_ramp_credential", "DELETE_FIAT_ON_RAMP_CREDENTIAL", { fiatOnrampCredentialId: c.fiatOnrampCredentialId }), "The account was deleted.");
    again();
  });
  return panel("On-ramps", all.length === 0 ? empty("There is no account at an on-ramp provider. Their keys are added through the API, encrypted.")
    : table("On-ramps", ["Provider", "Mode", "Public key", "Added", ""], all.map((c) => [
      words(c.onrampProvider, "FIAT_ON_RAMP_PROVIDER_"), badge(c.sandboxMode ? "Sandbox" : "Live", c.sandboxMode ? "wait" : "good"), h("code", { class: "wrap" }, c.publishableApiKey), when(c.createdAt),
      button("Delete", { class: "button small", "aria-label": `Delete ${words(c.onrampProvider, "FIAT_ON_RAMP_PROVIDER_")} ${c.sandboxMode ? "sandbox" : "live"}`, onclick: () => remove(c) })])));
}

// sponsored is the state of sponsored gas; nothing is set up while a precondition fails.
async function sponsored() {
  try {
    const [usage, station] = await Promise.all([query("get_gas_usage"), query("get_gas_station")]);
    return { usage, station };
  } catch (error) {
    if (error.code === 9) return {};
    throw error;
  }
}

export function billing(main) {
  const places = [h("div"), h("div"), h("div")];
  fill(main, title("Billing", { intro: "The organization's plan, the gas that it pays for its users, and its accounts at on-ramp providers." }), places);
  const part = (place, what, fetch, draw) => {
    const again = load(place, what, fetch, (got) => draw(() => again(), got));
  };
  part(places[0], "the plan", () => query("get_billing"), plan);
  part(places[1], "sponsored gas", sponsored, gas);
  part(places[2], "on-ramps", async () => (await query("list_fiat_on_ramp_credentials")).fiatOnRampCredentials, ramps);
}
