package matrix_test

import (
	"cloister/sim/rig"
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
	"get_mfa_policy": func(t *tenant) object {
		return object{"userId": t.second, "mfaPolicyId": t.mfaOfSecond()}
	},
	"get_mfa_status": func(t *tenant) object { return object{"activityId": t.once("pending", t.waiting)} },

	"get_policy":             func(t *tenant) object { return object{"policyId": t.once("policy", t.policy)} },
	"list_policies":          nothing,
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

	"get_wallet":   func(t *tenant) object { return object{"walletId": t.once("wallet", t.walletID)} },
	"list_wallets": nothing,
	"get_wallet_account": func(t *tenant) object {
		return object{"walletId": t.once("wallet", t.walletID), "path": "m/44'/60'/0'/0/0"}
	},
	"list_wallet_accounts":  func(t *tenant) object { return object{"walletId": t.once("wallet", t.walletID)} },
	"get_private_key":       func(t *tenant) object { return object{"privateKeyId": t.once("private key", t.privateKey)} },
	"list_private_keys":     nothing,
	"list_private_key_tags": nothing,

	"get_activity":          func(t *tenant) object { return object{"activityId": t.once("pending", t.waiting)} },
	"list_activities":       nothing,
	"list_app_proofs":       func(t *tenant) object { return object{"activityId": t.once("pending", t.waiting)} },
	"get_boot_proof":        func(t *tenant) object { return object{"ephemeralKey": t.once("boot key", t.bootKey)} },
	"get_latest_boot_proof": func(*tenant) object { return object{"appName": "cloister"} },

	"get_nonces": func(*tenant) object {
		return object{"address": "0x000000000000000000000000000000000000dEaD", "caip2": "eip155:1", "nonce": true}
	},
	"get_send_transaction_status": func(t *tenant) object { return object{"sendTransactionStatusId": t.once("send", t.sent)} },
}

func nothing(*tenant) object { return object{} }

func (t *tenant) anyKey() string {
	return rig.Text(t.look("get_api_keys", object{"userId": t.second}), "apiKeys", "0", "apiKeyId")
}

func (t *tenant) authenticator() string { return t.authenticatorOf(t.second) }

func (t *tenant) authenticatorOf(user string) string {
	r := t.do("create_authenticators", "ACTIVITY_TYPE_CREATE_AUTHENTICATORS_V2", object{"userId": user, "authenticators": list(t.newPasskey())})
	return rig.Text(r, "authenticatorIds", "0")
}

// waiting is the id of an activity that waits for consent.
func (t *tenant) waiting() string {
	t.pending("")
	return rig.Text(t.look("list_activities", object{"filterByStatus": list("ACTIVITY_STATUS_CONSENSUS_NEEDED")}), "activities", "0", "id")
}

// sent is what the status of a transaction is asked by.
func (t *tenant) sent() string {
	r := t.do("eth_send_transaction", "ACTIVITY_TYPE_ETH_SEND_TRANSACTION_V2", submits["eth_send_transaction"].params(t, nobody, false))
	return rig.Text(r, "sendTransactionStatusId")
}

// profile is a session profile, which lives at the top.
func (t *tenant) profile() string {
	at := t
	if t.parent != nil {
		at = t.parent
	}
	return rig.Text(at.do("create_session_profile", "ACTIVITY_TYPE_CREATE_SESSION_PROFILE", at.newProfile()), "sessionProfileId")
}

func (t *tenant) bootKey() string {
	return rig.Text(t.look("get_latest_boot_proof", object{"appName": "cloister"}), "bootProof", "ephemeralPublicKeyHex")
}

func (t *tenant) mfaOfSecond() string {
	_, id := t.mfa(nobody, false)
	return id
}
