// Wallets: the list, and what makes one. wallet.js has the page of each.

import { query, resultOf, submit, waits } from "../api.js";
import { accountOf, chains, formatName } from "../chains.js";
import { fill, h } from "../dom.js";
import { exportButton, moment } from "../export.js";
import { allowedByPolicies, limitedActions } from "../may.js";
import { accountPages } from "../pages.js";
import { inTurn } from "../waiting.js";
import { session } from "../session.js";
import { sortable } from "../tables.js";
import { badge, choices, copyable, dialog, done, empty, field, load, milliseconds, show, table, title, when } from "../ui.js";
import { chainShares } from "./chainshares.js";
import { importWallet } from "./importkey.js";

const page = 50;
const chainChoices = (value) => choices({ name: "chains", legend: "Accounts", hint: "The first account of each chain. You can add more at any time.", options: chains.map(([id, text]) => [id, text]), value });

export function picked(all) {
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
      opened(again)(activity);
    },
  });
}

export const flags = (w) => h("span", { class: "row" }, w.imported ? badge("Imported") : badge("Created in Cloister"), w.exported && badge("Exported", "wait"));

const fewAccounts = 4; // of a wallet, of which the first is shown

// addressFinder gives the addresses of wallets. One request has the accounts of the first wallets; the others are asked for when they are
// drawn, and nothing is asked twice.
function addressFinder() {
  const found = new Map();
  let first;
  let last = Promise.resolve();
  const read = async () => {
    const { accounts } = await query("list_wallet_accounts", { paginationOptions: { limit: "100" } });
    const whole = accounts.length < 100;
    for (const a of accounts) found.set(a.walletId, { accounts: [...(found.get(a.walletId)?.accounts ?? []), a], more: false });
    if (!whole) found.delete(accounts.at(-1).walletId); // it may have more
    return whole;
  };
  return async ({ walletId }, wanted) => {
    const whole = await (first ??= read());
    if (found.has(walletId) || whole) return found.get(walletId) ?? { accounts: [] };
    last = last.catch(() => {}).then(async () => {
      if (found.has(walletId) || !wanted()) return;
      const { accounts } = await query("list_wallet_accounts", { walletId, paginationOptions: { limit: String(fewAccounts) } });
      found.set(walletId, { accounts, more: accounts.length === fewAccounts });
    });
    await last;
    return found.get(walletId) ?? null;
  };
}

function firstAddress(w, { accounts: [first, ...others], more }) {
  if (!first) return "–";
  return [h("span", { class: "note" }, `${formatOf(first)} `), copyable(first.address, `address of ${w.walletName}`),
    others.length > 0 && h("span", { class: "note nowrap" }, ` and ${more ? `${others.length} or more` : others.length} ${others.length === 1 && !more ? "other" : "others"}`)];
}

// addressCell is a place for a wallet's first address.
function addressCell(w, find) {
  const place = h("div", null, h("span", { class: "note" }, "…"));
  setTimeout(() => find(w, () => place.isConnected).then((got) => got && fill(place, firstAddress(w, got)), (error) => console.debug(error) ?? fill(place, "–")));
  return place;
}

const walletTable = (all, find = addressFinder()) => sortable("Wallets", [
  { name: "Name", cell: (w) => h("a", { class: "strong", href: `#/wallets/${w.walletId}` }, w.walletName), key: (w) => w.walletName },
  { name: "Addresses", cell: (w) => addressCell(w, find) },
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

// opened shows a new wallet, or the list again while others must approve it.
const opened = (again) => (activity) => {
  if (waits(activity)) again();
  else location.hash = `#/wallets/${resultOf(activity).walletId}`;
};

export function walletList(main) {
  const place = h("div");
  let again;
  const make = () => createWallet(again);
  const [buttons, refused] = [h("div", { class: "row" }), h("div")];
  const limited = limitedActions({
    bring: ["Import wallet", allowedByPolicies("INIT_IMPORT_WALLET", { userId: session().userId })],
    make: ["New wallet", allowedByPolicies("CREATE_WALLET", { walletName: "Name", accounts: [accountOf("ethereum")], mnemonicLength: 12 })],
  });
  limited.then((limits) => {
    fill(buttons, limits.bring("Import wallet", { onclick: () => importWallet({ then: opened(again) }) }), limits.make("New wallet", { class: "button primary", onclick: make }));
    fill(refused, limits.why);
  });
  fill(main, title("Wallets", { intro: "Keys are created in the enclave and never leave it unencrypted.", actions: [walletExport(), buttons] }), refused, place);
  again = load(place, "wallets", async () => ({ all: (await query("list_wallets")).wallets, limits: await limited }), ({ all, limits }) =>
    (all.length === 0 ? empty("There is no wallet yet.", limits.make("Create the first wallet", { onclick: make }))
      : [chainShares(), walletTable(all)]));
}

export const formatOf = (account) => formatName(account.addressFormat);

export const networks = {
  ADDRESS_FORMAT_ETHEREUM: [["eip155:1", "Ethereum"], ["eip155:8453", "Base"], ["eip155:10", "Optimism"], ["eip155:42161", "Arbitrum"], ["eip155:137", "Polygon"], ["eip155:56", "BNB"], ["eip155:143", "Monad"],
    ["eip155:4217", "Tempo"], ["eip155:11155111", "Ethereum Sepolia"], ["eip155:84532", "Base Sepolia"], ["eip155:11155420", "Optimism Sepolia"], ["eip155:421614", "Arbitrum Sepolia"], ["eip155:80002", "Polygon Amoy"],
    ["eip155:97", "BNB testnet"], ["eip155:10143", "Monad testnet"], ["eip155:42431", "Tempo testnet"]],
  ADDRESS_FORMAT_SOLANA: [["solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "Solana"], ["solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1", "Solana devnet"]],
};

// A balance comes from the node in the host's configuration: nothing here can verify it.
const sourceNote = (caip2) => h("p", { class: "note", title: caip2 }, `As reported by your node for ${Object.values(networks).flat().find(([id]) => id === caip2)[1]}, unverified.`);

// Whether this server has a node for a network, once it was asked: that changes only with the server's start.
const nodes = new Map();

// hasNode asks for a network's assets: that reads no chain.
const hasNode = (caip2) => query("list_supported_assets", { caip2 }).then(() => true, (error) => !/no node of \S+ is configured/i.test(error.message));

// served are the networks for which there is a node.
async function served(options) {
  const known = await inTurn(options, async ([caip2]) => {
    if (!nodes.has(caip2)) nodes.set(caip2, await hasNode(caip2));
    return nodes.get(caip2);
  }, 6);
  return options.filter((_, i) => known[i]);
}

// readBalances asks for a network and shows what its node says of an address. all are the networks of the address's format.
export async function readBalances(address, all) {
  const options = await served(all);
  if (options.length === 0) {
    show("Balances", [h("p", null, `This server has no node for ${all[0][1]} or another network of this address, so it cannot look up balances.`), h("p", null, "Ask its operator to connect one.")]);
    return;
  }
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
