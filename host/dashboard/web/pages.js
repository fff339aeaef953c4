// Lists that come by pages, read one page after the other.

import { query } from "./api.js";

const pause = (ms, signal) => new Promise((done, failed) => {
  const timer = setTimeout(done, ms);
  signal?.addEventListener("abort", () => { clearTimeout(timer); failed(signal.reason); }, { once: true });
});

// patient repeats a query that was refused for coming too fast.
async function patient(operation, parameters, signal) {
  for (let tries = 1; ; tries++) {
    signal?.throwIfAborted();
    try {
      return await query(operation, parameters);
    } catch (error) {
      if (error.status !== 429 || tries === 8) throw error;
      await pause(250 * 2 ** tries, signal);
    }
  }
}

// pages yields the rows of each page of a list. The cursor is the member that takes the id of the last row.
export async function* pages(operation, parameters, { rows, id, cursor = "after", size = 100, signal }) {
  for (let last; ;) {
    const got = rows(await patient(operation, { ...parameters, paginationOptions: { limit: String(size), ...(last && { [cursor]: last }) } }, signal));
    if (got.length === 0) return; // a page may be short because its rows are long
    yield got;
    last = id(got.at(-1));
  }
}

// activityPages yields activities, those that changed last first.
export const activityPages = (parameters, more) =>
  pages("list_activities", parameters, { rows: (a) => a.activities, id: (a) => a.id, cursor: "before", ...more });

// accountPages yields accounts of wallets, wallet by wallet.
export const accountPages = (parameters, more) =>
  pages("list_wallet_accounts", parameters, { rows: (a) => a.accounts, id: (a) => a.walletAccountId, ...more });

// subOrganizationPages yields the parent's records of sub-organizations, the oldest first.
export const subOrganizationPages = (parameters, more, operation = "list_suborgs") =>
  pages(operation, { includeDetails: true, ...parameters }, { rows: (a) => a.organizations, id: (o) => o.organizationId, ...more });
