// Wallets, their accounts and addresses.

import { query, resultOf, submit, waits } from "../api.js";
import { accountOf, chains } from "../chains.js";
import { fill, h } from "../dom.js";
import { exportButton, moment } from "../export.js";
import { accountPages } from "../pages.js";
import { sortable } from "../tables.js";
import { badge, button, choices, copyable, dialog, done, empty, facts, field, load, loadOne, milliseconds, paged, panel, show, table, title, when, words } from "../ui.js";

const page = 50;
const chainChoices = (value) => choices({ name: "chains", legend: "Accounts", hint: "The first account of each chain. You can add more at any time.", options: chains.map(([id, text]) => [id, text]), value });

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
      field({ name: "words", label: "Mnemonic length (words)", kind: "select", value: "12", options: [["12", "12"], ["15", "15"], ["18", "18"], ["21", "21"], ["24", "24"]], wide: false }),
    ],
    action: "Create wallet",
    run: async (all) => {
      const activity = await submit("create_wallet", "CREATE_WALLET", { walletName: all.walletName, accounts: picked(all).map((id) => accountOf(id)), mnemonicLength: Number(all.words) });
      done(activity, `Wallet ${all.walletName} was created.`);
      if (waits(activity)) again();
      else location.hash = `#/wallets/${resultOf(activity).walletId}`;
    },
  });
}

const flags = (w) => h("span", { class: "row" }, w.imported ? badge("Imported") : badge("Created in Cloister"), w.exported && badge("Exported", "wait"));

const walletTable = (all) => sortable("Wallets", [
  { name: "Name", cell: (w) => h("a", { class: "strong", href: `#/wallets/${w.walletId}` }, w.walletName), key: (w) => w.walletName },
  { name: "Origin", cell: flags, key: (w) => `${w.imported} ${w.exported}` },
  { name: "Created", cell: (w) => when(w.createdAt), key: (w) => milliseconds(w.createdAt) },
  { name: "Id", cell: (w) => copyable(w.walletId, `id of ${w.walletName}`) },
], all).node;

// walletRows yields all wallets, each with its accounts.
async function* walletRows(signal, tell) {
  const { wallets: all } = await query("list_wallets");
  const accounts = new Map(all.map((w) => [w.walletId, []]));
  let read = 0;
  for await (const page of accountPages({}, { signal })) {
    for (const account of page) accounts.get(account.walletId)?.push(account);
    tell(`${read += page.length} accounts so far…`);
  }
  yield all.map((w) => ({ ...w, accounts: accounts.get(w.walletId) }));
}

const walletExport = () => exportButton({
  what: "wallets", intro: "Wallets and their accounts. In CSV, each account has a line.", id: (w) => w.walletId, pages: walletRows,
  lines: ({ accounts, ...wallet }) => (accounts.length ? accounts.map((account) => ({ wallet, account })) : [{ wallet, account: {} }]),
  columns: [
    ["walletId", ({ wallet }) => wallet.walletId], ["walletName", ({ wallet }) => wallet.walletName], ["imported", ({ wallet }) => wallet.imported], ["exported", ({ wallet }) => wallet.exported],
    ["createdAt", ({ wallet }) => moment(wallet.createdAt)], ["updatedAt", ({ wallet }) => moment(wallet.updatedAt)],
    ...["walletAccountId", "name", "address", "addressFormat", "path", "curve", "publicKey"].map((name) => [name === "name" ? "accountName" : name, ({ account }) => account[name]]),
    ["accountCreatedAt", ({ account }) => moment(account.createdAt)],
  ],
});

function list(main) {
  const place = h("div");
  let again;
  const make = () => createWallet(again);
  fill(main, title("Wallets", { intro: "Keys are created in the enclave and never leave it unencrypted.", actions: [walletExport(), button("New wallet", { class: "button primary", onclick: make })] }), place);
  again = load(place, "wallets", async () => (await query("list_wallets")).wallets, (all) =>
    all.length === 0 ? empty("There is no wallet yet.", button("Create the first wallet", { onclick: make }))
      : walletTable(all));
}

function addAccounts(wallet, again) {
  dialog({
    heading: `Add accounts to ${wallet.walletName}`,
    fields: [
      choices({ name: "chains", legend: "Accounts", options: chains.map(([id, text]) => [id, text]) }),
      field({ name: "number", label: "Account number", kind: "number", min: 0, max: 2147483647, step: 1, value: 1, required: true, wide: false, hint: "0 is the first account of a chain." }),
    ],
    action: "Add accounts",
    run: async (all) => {
      done(await submit("create_wallet_accounts", "CREATE_WALLET_ACCOUNTS", { walletId: wallet.walletId, accounts: picked(all).map((id) => accountOf(id, Number(all.number))) }), "The accounts were added.");
      again();
    },
  });
}

export const formatOf = (account) => chains.find(([, , , , f]) => `ADDRESS_FORMAT_${f}` === account.addressFormat)?.[1] ?? words(account.addressFormat, "ADDRESS_FORMAT_");

export const networks = {
  ADDRESS_FORMAT_ETHEREUM: [["eip155:1", "Ethereum"], ["eip155:8453", "Base"], ["eip155:10", "Optimism"], ["eip155:42161", "Arbitrum"], ["eip155:137", "Polygon"], ["eip155:56", "BNB"], ["eip155:143", "Monad"],
    ["eip155:4217", "Tempo"], ["eip155:11155111", "Ethereum Sepolia"], ["eip155:84532", "Base Sepolia"], ["eip155:11155420", "Optimism Sepolia"], ["eip155:421614", "Arbitrum Sepolia"], ["eip155:80002", "Polygon Amoy"],
    ["eip155:97", "BNB testnet"], ["eip155:10143", "Monad testnet"], ["eip155:42431", "Tempo testnet"]],
  ADDRESS_FORMAT_SOLANA: [["solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "Solana"], ["solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1", "Solana devnet"]],
};

// A balance comes from the node in the host's configuration: nothing here can verify it.
const sourceNote = (caip2) => h("p", { class: "note" }, `As reported by your node for ${caip2}, unverified.`);

function readBalances(address, options) {
  dialog({
    heading: "Balances",
    fields: [field({ name: "caip2", label: "Network", kind: "select", value: options[0][0], options })],
    action: "Show balances",
    run: async ({ caip2 }) => {
      const { balances } = await query("get_wallet_address_balances", { address, caip2 });
      show(`Balances of ${address}`, [sourceNote(caip2), balances.length === 0 ? empty("The node reports no assets.")
        : table("Balances", ["Asset", "Amount", "Name"], balances.map((b) => [h("span", { class: "strong" }, b.symbol), `${b.display.crypto}`, h("span", null, b.name, " ", copyable(b.caip19, `asset id of ${b.symbol}`))]))]);
    },
  });
}

const accountTable = (all) => table("Accounts", ["Chain", "Address", "Path", "Balances"], all.map((a) => [
  h("span", null, h("span", { class: "strong" }, formatOf(a)), a.name && h("span", { class: "note" }, ` ${a.name}`)),
  copyable(a.address, `address of ${formatOf(a)}`, { whole: true }), h("code", null, a.path),
  networks[a.addressFormat] ? button("Balances", { "aria-label": `Balances of ${formatOf(a)} ${a.path}`, onclick: () => readBalances(a.address, networks[a.addressFormat]) }) : "–"]));

const accountsAfter = async (walletId, after) =>
  (await query("list_wallet_accounts", { walletId, paginationOptions: { limit: String(page), ...(after && { after }) } })).accounts;

const back = { href: "#/wallets", text: "Wallets" };

function drawOne({ wallet, accounts }, again) {
  const failed = h("p", { class: "error", role: "alert" });
  return [
    title(wallet.walletName, { back, actions: [button("Add accounts", { class: "button primary", onclick: () => addAccounts(wallet, again) })] }),
    panel("Accounts", [accounts.length ? paged(accounts, page, (last) => accountsAfter(wallet.walletId, last.walletAccountId), accountTable, (e) => fill(failed, e.message)) : empty("This wallet has no accounts."), failed]),
    panel("About", facts([["Wallet id", copyable(wallet.walletId, "wallet id", { whole: true })], ["Origin", flags(wallet)], ["Created", when(wallet.createdAt)]])),
  ];
}

const one = (main, walletId) => loadOne(main, "the wallet", "Wallet", back, async () => {
  const [{ wallet }, accounts] = await Promise.all([query("get_wallet", { walletId }), accountsAfter(walletId)]);
  return { wallet, accounts };
}, drawOne);

export const wallets = (main, [walletId]) => (walletId ? one(main, walletId) : list(main));
