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

// evidenceOf gathers the activity, and the records that its document takes keys and names from.
export async function evidenceOf(activity) {
  const accounts = inTurn([...addressesIn(activity.decoded)].slice(0, most), (address) => query("list_wallet_accounts", { address }));
  const [privateKeys, interfaces, configs, tokens] = await Promise.all(["list_private_keys", "list_smart_contract_interfaces", "get_organization_configs", "list_known_tokens"].map((name) => query(name)));
  const records = [...(await accounts).filter((reply) => reply?.accounts.length), privateKeys, interfaces, configs].map((reply) => JSON.stringify(reply));
  return { activity: JSON.stringify({ activity }), records, tokens: JSON.stringify(tokens) };
}
