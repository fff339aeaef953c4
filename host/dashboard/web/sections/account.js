// One account of a wallet: its name, the export of its key, deletion.

import { query, submit, waits } from "../api.js";
import { h } from "../dom.js";
import { allowedByPolicies, limitedActions } from "../may.js";
import { button, confirm, copyable, done, facts, loadOne, panel, title, when } from "../ui.js";
import { renameDialog } from "./changes.js";
import { exportDialog, formOf, mayExport } from "./exportkey.js";
import { flags, formatOf, networks, readBalances } from "./wallets.js";

const rename = (account, again) => renameDialog({
  what: account.name ?? account.address, name: "name", value: account.name ?? "", type: "UPDATE_WALLET_ACCOUNT_NAME", parameters: { walletAccountId: account.walletAccountId }, again,
});

const exportAccount = (account, again) => exportDialog({
  heading: "Export the private key", type: "EXPORT_WALLET_ACCOUNT", parameters: { address: account.address }, form: formOf([account.addressFormat]), name: account.name ?? account.address, again,
  meaning: [`Whoever has this key can spend everything at ${account.address}`,
    "The policies of this organization do not hold there. The wallet's other accounts stay as they are."],
});

const remove = (account, href) => confirm("Delete this account?", [
  h("p", null, h("code", { class: "wrap" }, account.address)),
  h("p", null, "Nothing can be signed with it here any more. What is at the address stays there. While the wallet exists, you get the account back by adding one with the path ", h("code", null, account.path), "."),
], "Delete", async () => {
  const activity = await submit("delete_wallet_accounts", "DELETE_WALLET_ACCOUNTS", { walletAccountIds: [account.walletAccountId], deleteWithoutExport: true });
  done(activity, "The account was deleted.");
  if (!waits(activity)) location.hash = href;
});

const draw = (back) => ({ account, wallet, limits }, again) => [
  title(account.name ?? formatOf(account), { back: { ...back, text: wallet.walletName }, actions: [
    limits.remove("Delete", { onclick: () => remove(account, back.href) }), limits.rename("Rename", { onclick: () => rename(account, again) }),
    limits.words("Export private key", { onclick: () => exportAccount(account, again) })] }),
  limits.why,
  panel("About", facts([
    ["Address", copyable(account.address, "address", { whole: true })], ["Chain", formatOf(account)], ["Path", h("code", null, account.path)],
    ["Public key", copyable(account.publicKey, "public key", { whole: true })], ["Account id", copyable(account.walletAccountId, "account id", { whole: true })],
    wallet.exported && ["Origin", flags(wallet)], ["Created", when(account.createdAt)],
  ]), { actions: networks[account.addressFormat] ? [button("Balances", { class: "button small", onclick: () => readBalances(account.address, networks[account.addressFormat]) })] : [] }),
];

export function account(main, walletId, address) {
  const back = { href: `#/wallets/${walletId}`, text: "Wallet" };
  loadOne(main, "the account", "Account", back, async () => {
    const [{ account: found }, { wallet }] = await Promise.all([query("get_wallet_account", { walletId, address }), query("get_wallet", { walletId })]);
    const { walletAccountId } = found;
    const limits = await limitedActions({
      remove: ["Delete", allowedByPolicies("DELETE_WALLET_ACCOUNTS", { walletAccountIds: [walletAccountId] })], rename: ["Rename", allowedByPolicies("UPDATE_WALLET_ACCOUNT_NAME", { walletAccountId, name: "Name" })],
      words: ["Export private key", mayExport("EXPORT_WALLET_ACCOUNT", { address })] });
    return { account: found, wallet, limits };
  }, draw(back));
}
