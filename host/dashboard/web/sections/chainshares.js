// How many accounts of wallets each chain has, as a picture. It reads a bounded number of accounts.

import { chainName } from "../chains.js";
import { shareRows } from "../charts.js";
import { h } from "../dom.js";
import { accountPages } from "../pages.js";
import { load, panel } from "../ui.js";

const most = 500; // accounts that are read, in pages of a hundred
const shown = 8; // rows

async function countByChain(parameters) {
  const counts = new Map();
  let read = 0;
  for await (const accounts of accountPages(parameters)) {
    for (const { addressFormat } of accounts) {
      if (read === most) return { counts, read, more: true };
      counts.set(chainName(addressFormat), (counts.get(chainName(addressFormat)) ?? 0) + 1);
      read++;
    }
  }
  return { counts, read, more: false };
}

// rowsOf are the chains with most accounts, and the others as one row.
function rowsOf(counts) {
  const rows = [...counts].sort((a, b) => b[1] - a[1]);
  if (rows.length <= shown) return rows;
  const rest = rows.splice(shown - 1);
  return [...rows, [`${rest.length} other chains`, rest.reduce((sum, [, n]) => sum + n, 0)]];
}

// chainShares is a panel that loads by itself, empty if no wallet has an account.
export function chainShares(parameters = {}) {
  const place = h("div");
  load(place, "accounts", () => countByChain(parameters), ({ counts, read, more }) => (read === 0 ? [] : panel("Accounts by chain",
    shareRows("Accounts by chain", rowsOf(counts)), { note: more && `Of the first ${read} accounts.` })));
  return place;
}
