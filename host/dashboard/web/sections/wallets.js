// Wallets, their accounts and addresses.

import { query, resultOf, submit, waits } from "../api.js";
import { accountOf, chains } from "../chains.js";
import { fill, h } from "../dom.js";
import { badge, button, choices, copyable, dialog, done, empty, facts, field, grown, load, loadOne, panel, table, title, when, words } from "../ui.js";

const page = 50;
const chainChoices = (value) => choices({ name: "chains", legend: "Accounts", hint: "The first account of each. More can be added at any time.", options: chains.map(([id, text]) => [id, text]), value });

function picked(all) {
  if (all.chains.length === 0) throw new Error("Choose at least one account.");
  return all.chains;
}

function createWallet(again) {
  dialog({
    heading: "New wallet",
    fields: [
      field({ name: "walletName", label: "Name", required: true }),
      chainChoices(["ethereum", "solana"]),
      field({ name: "words", label: "Words of the mnemonic", kind: "select", value: "12", options: [["12", "12"], ["15", "15"], ["18", "18"], ["21", "21"], ["24", "24"]], wide: false }),
    ],
    action: "Create wallet",
    run: async (all) => {
      const activity = await submit("create_wallet", "CREATE_WALLET", { walletName: all.walletName, accounts: picked(all).map((id) => accountOf(id)), mnemonicLength: Number(all.words) });
      done(activity, `The wallet ${all.walletName} is made.`);
      if (waits(activity)) again();
      else location.hash = `#/wallets/${resultOf(activity).walletId}`;
    },
  });
}

const flags = (w) => h("span", { class: "row" }, w.imported ? badge("Imported") : badge("Made here"), w.exported && badge("Exported", "wait"));

function list(main) {
  const place = h("div");
  let again;
  const make = () => createWallet(again);
  fill(main, title("Wallets", { intro: "Keys are made in the enclave and never leave it in the clear.", actions: [button("New wallet", { class: "button primary", onclick: make })] }), place);
  again = load(place, "wallets", async () => (await query("list_wallets")).wallets, (all) =>
    all.length === 0 ? empty("There is no wallet yet.", button("Make the first one", { onclick: make }))
      : grown(all, (some) => table("Wallets", ["Name", "Origin", "Created", "Id"], some.map((w) => [
        h("a", { class: "strong", href: `#/wallets/${w.walletId}` }, w.walletName), flags(w), when(w.createdAt), copyable(w.walletId, `id of ${w.walletName}`)]))));
}

function addAccounts(wallet, again) {
  dialog({
    heading: `More accounts of ${wallet.walletName}`,
    fields: [
      choices({ name: "chains", legend: "Accounts", options: chains.map(([id, text]) => [id, text]) }),
      field({ name: "number", label: "Number", kind: "number", min: 0, max: 2147483647, step: 1, value: 1, required: true, wide: false, hint: "0 is the first account of a chain." }),
    ],
    action: "Add accounts",
    run: async (all) => {
      done(await submit("create_wallet_accounts", "CREATE_WALLET_ACCOUNTS", { walletId: wallet.walletId, accounts: picked(all).map((id) => accountOf(id, Number(all.number))) }), "The accounts are added.");
      again();
    },
  });
}

const formatOf = (account) => chains.find(([, , , , f]) => `ADDRESS_FORMAT_${f}` === account.addressFormat)?.[1] ?? words(account.addressFormat, "ADDRESS_FORMAT_");

const accountTable = (all) => table("Accounts", ["Chain", "Address", "Path"], all.map((a) => [
  h("span", null, h("span", { class: "strong" }, formatOf(a)), a.name && h("span", { class: "note" }, ` ${a.name}`)),
  copyable(a.address, `address of ${formatOf(a)}`, { whole: true }), h("code", null, a.path)]));

const accountsAfter = async (walletId, after) =>
  (await query("list_wallet_accounts", { walletId, paginationOptions: { limit: String(page), ...(after && { after }) } })).accounts;

// accountPages shows a page, and the next one below it on request.
function accountPages(walletId, first, more) {
  const all = [...first];
  const place = h("div", { class: "grown" });
  const draw = (full) => {
    const next = full && button("Show more", { class: "button quiet", onclick: async () => {
      next.disabled = true;
      try {
        const got = await accountsAfter(walletId, all.at(-1).walletAccountId);
        all.push(...got);
        draw(got.length === page);
      } catch (error) {
        next.disabled = false;
        more(error);
      }
    } });
    fill(place, accountTable(all), next);
  };
  draw(first.length === page);
  return place;
}

const back = { href: "#/wallets", text: "Wallets" };

function drawOne({ wallet, accounts }, again) {
  const failed = h("p", { class: "error", role: "alert" });
  return [
    title(wallet.walletName, { back, actions: [button("Add accounts", { class: "button primary", onclick: () => addAccounts(wallet, again) })] }),
    panel("Accounts", [accounts.length ? accountPages(wallet.walletId, accounts, (e) => fill(failed, e.message)) : empty("This wallet has no accounts."), failed]),
    panel("About", facts([["Wallet id", copyable(wallet.walletId, "wallet id", { whole: true })], ["Origin", flags(wallet)], ["Created", when(wallet.createdAt)]])),
  ];
}

const one = (main, walletId) => loadOne(main, "the wallet", "Wallet", back, async () => {
  const [{ wallet }, accounts] = await Promise.all([query("get_wallet", { walletId }), accountsAfter(walletId)]);
  return { wallet, accounts };
}, drawOne);

export const wallets = (main, [walletId]) => (walletId ? one(main, walletId) : list(main));
