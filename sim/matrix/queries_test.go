package matrix_test

import (
	"cloister/sim/client"
)

// queries are the operations that read, with what they ask for beside the
// organization; it is made at first use.
var queries = map[string]func(t *tenant) object{
	"whoami":                   nothing,
	"get_organization":         nothing,
	"get_organization_configs": nothing,
	"list_suborgs":             nothing,
	"list_verified_suborgs":    nothing,

	"get_user":            func(t *tenant) object { return object{"userId": t.second} },
	"list_users":          nothing,
	"list_user_tags":      nothing,
	"get_api_key":         func(t *tenant) object { return object{"apiKeyId": t.once("api key", t.anyKey)} },
	"get_api_keys":        func(t *tenant) object { return object{"userId": t.second} },
	"get_authenticator":   func(t *tenant) object { return object{"authenticatorId": t.once("authenticator", t.authenticator)} },
	"get_authenticators":  func(t *tenant) object { return object{"userId": t.second} },
	"get_oauth_providers": func(t *tenant) object { return object{"userId": t.second} },
	"get_mfa_policies":    func(t *tenant) object { return object{"userId": t.second} },
	"get_mfa_policy":      func(t *tenant) object { return object{"userId": t.second, "mfaPolicyId": t.mfaOfSecond()} },
	"get_mfa_status":      func(t *tenant) object { return object{"activityId": t.once("pending", t.waiting)} },

	"get_policy":             func(t *tenant) object { return object{"policyId": t.once("policy", t.policy)} },
	"list_policies":          nothing,
	"get_active_policies":    nothing,
	"get_policy_evaluations": func(t *tenant) object { return object{"activityId": t.once("pending", t.waiting)} },
	"evaluate_policies": func(t *tenant) object {
		return object{"activity": object{"type": "ACTIVITY_TYPE_CREATE_WALLET", "parameters": t.newWallet()}}
	},
	"get_smart_contract_interface":   func(t *tenant) object { return object{"smartContractInterfaceId": t.once("interface", t.contract)} },
	"list_smart_contract_interfaces": nothing,
	"list_webhook_endpoints":         nothing,
	"get_ip_allowlist": func(t *tenant) object {
		t.once("allowlist", func() string { t.listed(); return "made" })
		return object{}
	},
	"get_session_profile":  func(t *tenant) object { return object{"sessionProfileId": t.once("profile", t.profile)} },
	"get_session_profiles": nothing,

	"get_oauth2_credential":         func(*tenant) object { return object{"oauth2CredentialId": noID} },
	"list_oauth2_credentials":       nothing,
	"list_fiat_on_ramp_credentials": nothing,
	"get_billing":                   nothing,
	"get_onramp_transaction_status": func(*tenant) object { return object{"transactionId": noID} },

	"get_wallet":   func(t *tenant) object { return object{"walletId": t.once("wallet", t.walletID)} },
	"list_wallets": nothing,
	"get_wallet_account": func(t *tenant) object {
		return object{"walletId": t.once("wallet", t.walletID), "path": "m/44'/60'/0'/0/0"}
	},
	"list_wallet_accounts":                    func(t *tenant) object { return object{"walletId": t.once("wallet", t.walletID)} },
	"get_private_key":                         func(t *tenant) object { return object{"privateKeyId": t.once("private key", t.privateKey)} },
	"list_private_keys":                       nothing,
	"list_secrets":                            nothing,
	"get_tvc_app":                             func(t *tenant) object { return object{"tvcAppId": t.once("app", t.app)} },
	"list_tvc_apps":                           nothing,
	"list_tvc_operators":                      nothing,
	"list_tvc_quorum_keys":                    nothing,
	"list_tvc_app_deployments":                func(t *tenant) object { return object{"appId": t.once("app", t.app)} },
	"get_tvc_deployment":                      func(*tenant) object { return object{"deploymentId": noID} },
	"get_app_status":                          func(t *tenant) object { return object{"appId": t.once("app", t.app)} },
	"get_tvc_deployment_provisioning_details": func(*tenant) object { return object{"deploymentId": noID} },
	"get_tvc_deployment_debug_logs":           func(*tenant) object { return object{"deploymentId": noID} },
	"get_tvc_quorum_key":                      func(*tenant) object { return object{"quorumKeyId": noID} },
	"get_tvc_qos_versions":                    nothing,
	"validate_tvc_image":                      func(*tenant) object { return object{"pivotContainerImageUrl": "@"} },
	"list_private_key_tags":                   nothing,

	"get_activity":          func(t *tenant) object { return object{"activityId": t.once("pending", t.waiting)} },
	"list_activities":       nothing,
	"list_app_proofs":       func(t *tenant) object { return object{"activityId": t.once("pending", t.waiting)} },
	"get_boot_proof":        func(t *tenant) object { return object{"ephemeralKey": t.once("boot key", t.bootKey)} },
	"get_latest_boot_proof": func(*tenant) object { return object{"appName": "cloister"} },
	"get_log_proof":         func(t *tenant) object { return object{"activityId": t.once("pending", t.waiting)} },
	"get_history":           func(t *tenant) object { return object{"activityId": t.once("export", t.exported)} },

	"get_nonces": func(*tenant) object {
		return object{"address": "0x000000000000000000000000000000000000dEaD", "caip2": "eip155:1", "nonce": true}
	},
	"list_shared_credentials":      nothing,
	"list_webhook_deliveries":      func(t *tenant) object { return object{"endpointId": t.once("endpoint", t.endpoint)} },
	"get_usage":                    nothing,
	"get_activity_counts":          func(*tenant) object { return object{"timesMs": []string{"0", "4102444800000"}} },
	"get_gas_usage":                sponsors,
	"get_gas_station":              sponsors,
	"list_known_tokens":            nothing,
	"get_send_transaction_status":  func(t *tenant) object { return object{"sendTransactionStatusId": t.once("send", t.sent)} },
	"get_wallet_address_balances":  func(t *tenant) object { return object{"address": t.once("address", t.address), "caip2": "eip155:1"} },
	"list_email_events":            func(*tenant) object { return object{"email": "somebody@example.com"} },
	"list_supported_assets":        func(*tenant) object { return object{"caip2": "eip155:1"} },
	"list_eth_transaction_history": func(t *tenant) object { return object{"address": t.once("address", t.address), "caip2": "eip155:1"} },
	"list_sol_transaction_history": func(t *tenant) object {
		return object{"address": t.once("solana address", t.solana), "caip2": "solana:devnet"}
	},
}

func nothing(*tenant) object { return object{} }

var gasLimits = object{"orgWindowLimitUsd": "100", "subOrgWindowLimitUsd": "1.5", "windowDurationMinutes": "60"}

// sponsors has the organization at the top pay for transactions.
func sponsors(t *tenant) object {
	t.once("gas limits", func() string {
		at := t
		if t.parent != nil {
			at = t.parent
		}
		return client.Text(at.do("UPSERT_GAS_USAGE_CONFIG", gasLimits), "gasUsageConfigId")
	})
	return object{}
}

func (t *tenant) anyKey() string {
	return client.Text(t.look("get_api_keys", object{"userId": t.second}), "apiKeys", "0", "apiKeyId")
}

func (t *tenant) authenticator() string { return t.authenticatorOf(t.second) }

func (t *tenant) authenticatorOf(user string) string {
	r := t.do("CREATE_AUTHENTICATORS_V2", object{"userId": user, "authenticators": list(t.newPasskey())})
	return client.Text(r, "authenticatorIds", "0")
}

// waiting is the id of an activity that waits for consent.
func (t *tenant) waiting() string {
	t.pending("")
	return client.Text(t.look("list_activities", object{"filterByStatus": list("ACTIVITY_STATUS_CONSENSUS_NEEDED")}), "activities", "0", "id")
}

// exported is the id of an export_history that the root member has submitted.
func (t *tenant) exported() string {
	t.do("EXPORT_HISTORY", object{})
	return client.Text(t.look("list_activities", object{"filterByType": list("ACTIVITY_TYPE_EXPORT_HISTORY")}), "activities", "0", "id")
}

// sent is what the status of a transaction is asked by.
func (t *tenant) sent() string {
	r := t.do("ETH_SEND_TRANSACTION_V2", submits["eth_send_transaction"].params(t, nobody, false))
	return client.Text(r, "sendTransactionStatusId")
}

// profile is a session profile, which lives at the top.
func (t *tenant) profile() string {
	at := t
	if t.parent != nil {
		at = t.parent
	}
	return client.Text(at.do("CREATE_SESSION_PROFILE", at.newProfile()), "sessionProfileId")
}

func (t *tenant) bootKey() string {
	return client.Text(t.look("get_latest_boot_proof", object{"appName": "cloister"}), "bootProof", "ephemeralPublicKeyHex")
}

func (t *tenant) mfaOfSecond() string {
	_, id := t.mfa(nobody, false)
	return id
}
