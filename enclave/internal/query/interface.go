package query

import (
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
)

// operations are all queries of the interface, live or not, in order.
var operations = []string{
	"get_active_policies", "get_activity", "get_api_key", "get_api_keys", "get_app_status", "get_authenticator",
	"get_authenticators", "get_boot_proof", "get_claim_earn_fees_status", "get_earn_claim_rewards_status",
	"get_earn_deploy_status", "get_earn_deposit_status", "get_earn_withdraw_status", "get_gas_usage",
	"get_ip_allowlist", "get_latest_boot_proof", "get_mfa_policies", "get_mfa_policy", "get_mfa_status", "get_nonces",
	"get_oauth2_credential", "get_oauth_providers", "get_onramp_transaction_status", "get_organization",
	"get_organization_configs", "get_policy", "get_policy_evaluations", "get_private_key",
	"get_send_transaction_status", "get_session_profile", "get_session_profiles", "get_smart_contract_interface",
	"get_swap_status", "get_tvc_app", "get_tvc_deployment", "get_tvc_deployment_debug_logs",
	"get_tvc_deployment_provisioning_details", "get_tvc_qos_versions", "get_user", "get_velocity_control",
	"get_wallet", "get_wallet_account", "get_wallet_address_balances", "list_activities", "list_app_proofs",
	"list_earn_enabled_vaults", "list_earn_positions", "list_earn_rewards", "list_earn_vaults", "list_email_events",
	"list_eth_transaction_history", "list_fiat_on_ramp_credentials", "list_oauth2_credentials", "list_policies",
	"list_private_key_tags", "list_private_keys", "list_secrets", "list_smart_contract_interfaces",
	"list_sol_transaction_history", "list_suborgs", "list_supported_assets", "list_tvc_app_deployments",
	"list_tvc_apps", "list_tvc_operators", "list_tvc_quorum_keys", "list_user_tags", "list_users",
	"list_velocity_controls", "list_verified_suborgs", "list_wallet_accounts", "list_wallets",
	"list_webhook_endpoints", "validate_tvc_image", "whoami",
}

// own are our own queries: the published interface does not have them.
var own = []string{"evaluate_policies", "get_activity_counts", "get_auth_proxy_config", "get_billing", "get_gas_station", "get_history", "get_log_proof", "get_tvc_quorum_key", "get_usage", "list_known_tokens", "list_shared_credentials", "list_webhook_deliveries"}

// KnownOp reports whether op is a query of the interface, live or not.
func KnownOp(op string) bool {
	_, ok := slices.BinarySearch(operations, op)
	return ok || slices.Contains(own, op)
}

// Lookup finds the query at path op. The errors are *fault.Error: NotFound for
// an unknown path, Unimplemented for a query that is not live.
func Lookup(op string) (*Query, error) {
	switch q := live[op]; {
	case q != nil:
		return q, nil
	case KnownOp(op):
		return nil, activity.NotLive(op)
	}
	return nil, fault.New(fault.NotFound, "no such path")
}
