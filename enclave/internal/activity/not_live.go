package activity

import (
	"strings"

	"cloister/enclave/internal/fault"
)

// Alternatives to operations that need contracts and keys of the hosted service, which no release will implement.
const (
	swaps  = "swaps need an aggregator of your own: build the transaction with its SDK and send it by eth_send_transaction, where policies see every call"
	swap   = "a swap of your own is a transaction: ask get_send_transaction_status"
	earn   = "deposit into a vault and withdraw from it by eth_send_transaction, approve and deposit as calls that policies see; upload the vault's ERC-4626 interface for its arguments"
	fees   = "fee wrappers are contracts of the hosted service: call the vault itself by eth_send_transaction"
	claims = "rewards are claimed at the distributor's contract: call it by eth_send_transaction, with the proof that its operator publishes"
	vault  = "vaults are contracts: ask your chain's node, and get_send_transaction_status for what you sent"
)

var alternative = map[string]string{
	"create_swap_quote": swaps, "execute_swap": swaps, "upsert_swap_config": swaps, "claim_swap_fees": swaps, "get_swap_status": swap,
	"earn_deposit": earn, "earn_withdraw": earn, "earn_claim_rewards": claims,
	"earn_deploy_wrapper": fees, "earn_set_wrapper_state": fees, "claim_earn_fees": fees,
	"get_claim_earn_fees_status": vault, "get_earn_deploy_status": vault, "get_earn_deposit_status": vault, "get_earn_withdraw_status": vault,
	"get_earn_claim_rewards_status": vault, "list_earn_rewards": vault,
	"list_earn_enabled_vaults": vault, "list_earn_positions": vault, "list_earn_vaults": vault,
}

// NotLive is the error of an operation of the public interface that is not implemented. If it never will be, the error names an alternative.
func NotLive(op string) *fault.Error {
	return fault.New(fault.Unimplemented, "%s", strings.TrimSuffix("UNIMPLEMENTED: "+op+": "+alternative[op], ": "))
}
