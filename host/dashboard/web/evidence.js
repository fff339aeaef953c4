// What somebody needs to decode a waiting activity on a machine of his own: package decode and `cloister-verify decode` read it.

import { query } from "./api.js";
import { inTurn } from "./waiting.js";

const most = 50; // addresses that are looked up

// addressesIn are the addresses that a document speaks of.
function addressesIn(value, found = new Set()) {
  for (const [key, member] of Object.entries(value ?? {})) {
    if (typeof member === "string" ? key === "address" || key === "by" : false) found.add(member);
    else if (typeof member === "object") addressesIn(member, found);
  }
  return found;
}

// makersIn are the ids of users who made labels of interfaces that a document has.
function makersIn(value, found = new Set()) {
  for (const member of Object.values(value ?? {})) if (member !== null && typeof member === "object") makersIn(member, found);
  if (value?.labelBy?.userId) found.add(value.labelBy.userId);
  return found;
}

// labelRecords are what labels of interfaces are compared with and made by: names of wallets, and users.
async function labelRecords({ sources }, makers) {
  if (!sources?.some(({ source }) => source === "INTERFACE")) return [];
  return (await Promise.all([
    query("list_wallets").catch((error) => console.debug(error)),
    inTurn([...makers].slice(0, most), (userId) => query("get_user", { userId })),
  ])).flat().filter(Boolean);
}

// evidenceOf gathers the activity, and the records that its document takes keys and names from.
export async function evidenceOf(activity) {
  const accounts = inTurn([...addressesIn(activity.decoded)].slice(0, most), (address) => query("list_wallet_accounts", { address, includeWalletDetails: true }));
  const labels = labelRecords(activity.decoded ?? {}, makersIn(activity.decoded));
  const [privateKeys, interfaces, configs, tokens] = await Promise.all(["list_private_keys", "list_smart_contract_interfaces", "get_organization_configs", "list_known_tokens"].map((name) => query(name)));
  const records = [...(await accounts).filter((reply) => reply?.accounts.length), ...(await labels), privateKeys, interfaces, configs].map((reply) => JSON.stringify(reply));
  return { activity: JSON.stringify({ activity }), records, tokens: JSON.stringify(tokens) };
}
