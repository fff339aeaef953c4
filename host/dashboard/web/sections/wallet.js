// One wallet with its accounts: names, export, deletion.

import { query, submit, waits } from "../api.js";
import { accountOf, chains } from "../chains.js";
import { fill, h } from "../dom.js";
import { allowedByPolicies, limitedActions } from "../may.js";
import { button, choices, copyable, dialog, done, empty, facts, field, loadOne, paged, panel, table, title, when } from "../ui.js";
import { account } from "./account.js";
import { deleteDialog, renameDialog } from "./changes.js";
import { exportDialog, mayExport } from "./exportkey.js";
import { flags, formatOf, networks, picked, readBalances, walletList } from "./wallets.js";

const page = 50;

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

const accountLink = (wallet, a) => h("a", { class: "strong", href: `#/wallets/${wallet.walletId}/${encodeURIComponent(a.address)}` }, formatOf(a));

const accountTable = (wallet) => (all) => table("Accounts", ["Chain", "Address", "Path", "Balances"], all.map((a) => [
  h("span", null, accountLink(wallet, a), a.name && h("span", { class: "note" }, ` ${a.name}`)),
  copyable(a.address, `address of ${formatOf(a)}`, { whole: true }), h("code", { class: "path" }, a.path),
  networks[a.addressFormat] ? button("Balances", { "aria-label": `Balances of ${formatOf(a)} ${a.path}`, onclick: () => readBalances(a.address, networks[a.addressFormat]) }) : "–"]));

const accountsAfter = async (walletId, after) =>
  (await query("list_wallet_accounts", { walletId, paginationOptions: { limit: String(page), ...(after && { after }) } })).accounts;

const back = { href: "#/wallets", text: "Wallets" };

const rename = (wallet, again) => renameDialog({
  what: wallet.walletName, name: "walletName", value: wallet.walletName, type: "UPDATE_WALLET", parameters: { walletId: wallet.walletId }, again,
});

const exportWords = (wallet, again) => exportDialog({
  heading: `Export ${wallet.walletName}`, type: "EXPORT_WALLET", parameters: { walletId: wallet.walletId }, form: "mnemonic", name: wallet.walletName, again,
  meaning: ["Whoever has the words of this wallet can spend everything in it",
    "That goes for all its accounts, also those that you add later. The policies of this organization do not hold there. The wallet is marked Exported for ever."],
});

const remove = (wallet) => deleteDialog({
  what: `the wallet ${wallet.walletName}`, name: wallet.walletName, exported: wallet.exported, type: "DELETE_WALLETS", parameters: { walletIds: [wallet.walletId] },
  lost: wallet.exported || wallet.imported ? "The wallet and all its accounts are deleted here. Only somebody with its words can still reach what is at its addresses."
    : "The wallet and all its accounts are deleted. It was never exported: nobody has its words, and what is at its addresses is lost for ever.",
  then: (activity) => { if (!waits(activity)) location.hash = "#/wallets"; },
});

function drawOne({ wallet, accounts, limits }, again) {
  const failed = h("p", { class: "error", role: "alert" });
  return [
    title(wallet.walletName, { back, actions: [
      limits.remove("Delete", { onclick: () => remove(wallet) }), limits.rename("Rename", { onclick: () => rename(wallet, again) }),
      limits.words("Export words", { onclick: () => exportWords(wallet, again) }),
      limits.add("Add accounts", { class: "button primary", onclick: () => addAccounts(wallet, again) })] }),
    limits.why,
    panel("Accounts", [accounts.length ? paged(accounts, page, (last) => accountsAfter(wallet.walletId, last.walletAccountId), accountTable(wallet), (e) => fill(failed, e.message)) : empty("This wallet has no accounts."), failed]),
    panel("About", facts([["Wallet id", copyable(wallet.walletId, "wallet id", { whole: true })], ["Origin", flags(wallet)], ["Created", when(wallet.createdAt)]])),
  ];
}

const one = (main, walletId) => loadOne(main, "the wallet", "Wallet", back, async () => {
  const [{ wallet }, accounts, limits] = await Promise.all([query("get_wallet", { walletId }), accountsAfter(walletId), limitedActions({
    remove: ["Delete", allowedByPolicies("DELETE_WALLETS", { walletIds: [walletId] })], rename: ["Rename", allowedByPolicies("UPDATE_WALLET", { walletId })], words: ["Export words", mayExport("EXPORT_WALLET", { walletId })],
    add: ["Add accounts", allowedByPolicies("CREATE_WALLET_ACCOUNTS", { walletId, accounts: [accountOf("ethereum", 1)] })] })]);
  return { wallet, accounts, limits };
}, drawOne);

export const wallets = (main, [walletId, address]) => (address ? account(main, walletId, address) : walletId ? one(main, walletId) : walletList(main));
