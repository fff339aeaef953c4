package activity

import (
	"slices"
	"strings"

	"cloister/enclave/internal/fault"
)

// An operation is a path of the interface, with the number of versions of its activity type.
type operation struct {
	name     string
	versions int
}

// operations are all operations of the interface, live or not, and our own export_history and resend_webhook_deliveries. One whose path the interface
// does not publish has the name of its kind.
var operations = []operation{
	{"accept_invitation", 2}, {"activate_billing_tier", 1}, {"approve_activity", 1}, {"claim_earn_fees", 1},
	{"claim_swap_fees", 1}, {"create_api_keys", 2}, {"create_api_only_users", 1}, {"create_authenticators", 2},
	{"create_fiat_on_ramp_credential", 1}, {"create_invitations", 1}, {"create_mfa_policy", 1},
	{"create_oauth2_credential", 1}, {"create_oauth_providers", 2}, {"create_organization", 2}, {"create_policies", 1},
	{"create_policy", 3}, {"create_private_key_tag", 1}, {"create_private_keys", 2}, {"create_read_only_session", 1},
	{"create_read_write_session", 2}, {"create_session_profile", 1}, {"create_smart_contract_interface", 1},
	{"create_sub_organization", 8}, {"create_swap_quote", 2}, {"create_tvc_app", 1}, {"create_tvc_deployment", 1},
	{"create_tvc_manifest_approvals", 1}, {"create_tvc_operator", 1}, {"create_tvc_quorum_key", 1},
	{"create_user_tag", 1}, {"create_users", 4}, {"create_velocity_control", 1}, {"create_wallet", 1}, {"create_wallet_accounts", 1},
	{"create_webhook_endpoint", 1}, {"delete_api_keys", 1}, {"delete_authenticators", 1},
	{"delete_fiat_on_ramp_credential", 1}, {"delete_invitation", 1}, {"delete_mfa_policy", 1},
	{"delete_oauth2_credential", 1}, {"delete_oauth_providers", 1}, {"delete_organization", 1},
	{"delete_payment_method", 1}, {"delete_policies", 1}, {"delete_policy", 1}, {"delete_private_key_tags", 1},
	{"delete_private_keys", 1}, {"delete_secrets", 1}, {"delete_smart_contract_interface", 1}, {"delete_sub_organization", 1},
	{"delete_tvc_app_and_deployments", 1}, {"delete_tvc_deployment", 1}, {"delete_user_tags", 1}, {"delete_users", 1},
	{"delete_velocity_control", 1}, {"delete_wallet_accounts", 1}, {"delete_wallets", 1}, {"delete_webhook_endpoint", 1}, {"disable_auth_proxy", 1},
	{"disable_private_key", 1}, {"earn_claim_rewards", 1}, {"earn_deploy_wrapper", 1}, {"earn_deposit", 1}, {"earn_set_wrapper_state", 1},
	{"earn_withdraw", 1}, {"email_auth", 3}, {"enable_auth_proxy", 1}, {"eth_send_raw_transaction", 1},
	{"eth_send_transaction", 2}, {"eth_undelegate_7702", 1}, {"execute_swap", 3}, {"export_history", 1}, {"export_private_key", 1},
	{"export_secrets", 1}, {"export_wallet", 1}, {"export_wallet_account", 1}, {"import_private_key", 1},
	{"import_secrets", 1}, {"import_wallet", 1}, {"init_fiat_on_ramp", 1}, {"init_import_private_key", 1},
	{"init_import_secrets", 1}, {"init_import_wallet", 1}, {"init_otp", 3}, {"init_otp_auth", 3},
	{"init_user_email_recovery", 2}, {"oauth", 1}, {"oauth2_authenticate", 1}, {"oauth_login", 1}, {"otp_auth", 1},
	{"otp_login", 2}, {"post_tvc_quorum_key_share", 1}, {"re_encrypt_tvc_quorum_key_share", 1}, {"recover_user", 1},
	{"reject_activity", 1}, {"remove_ip_allowlist", 1}, {"remove_organization_feature", 1}, {"resend_webhook_deliveries", 1}, {"restore_tvc_deployment", 1},
	{"set_ip_allowlist", 1}, {"set_organization_feature", 1}, {"set_payment_method", 2},
	{"set_tvc_app_live_deployment", 1}, {"sign_raw_payload", 2}, {"sign_raw_payloads", 1}, {"sign_transaction", 2},
	{"sol_send_transaction", 2}, {"spark_claim_transfer", 1}, {"spark_prepare_lightning_receive", 1},
	{"spark_prepare_transfer", 1}, {"spark_sign_frost", 1}, {"stamp_login", 1}, {"update_allowed_origins", 1},
	{"update_auth_proxy_config", 1}, {"update_fiat_on_ramp_credential", 1}, {"update_mfa_policy", 1},
	{"update_oauth2_credential", 1}, {"update_organization_name", 1}, {"update_payment_method", 1}, {"update_policy", 2}, {"update_private_key_tag", 1},
	{"update_root_quorum", 1}, {"update_user", 1}, {"update_user_email", 1}, {"update_user_name", 1},
	{"update_user_phone_number", 1}, {"update_user_tag", 1}, {"update_wallet", 1}, {"update_wallet_account_name", 1},
	{"update_webhook_endpoint", 1}, {"upsert_gas_usage_config", 1}, {"upsert_swap_config", 1}, {"verify_otp", 2},
}

// operationOf maps every activity type of the interface to its operation.
var operationOf = func() map[string]string {
	m := make(map[string]string, 2*len(operations))
	for _, o := range operations {
		typ := "ACTIVITY_TYPE_" + kindOf(o.name)
		m[typ] = o.name
		for n := 2; n <= o.versions; n++ {
			m[typ+"_"+versionSuffix(n)] = o.name
		}
	}
	return m
}()

// The one operation whose path does not follow from the name of its kind.
const (
	unusualOperation = "set_tvc_app_live_deployment"
	unusualKind      = "UPDATE_TVC_APP_LIVE_DEPLOYMENT"
)

func kindOf(op string) string {
	if op == unusualOperation {
		return unusualKind
	}
	return strings.ToUpper(op)
}

func operationName(kind string) string {
	if kind == unusualKind {
		return unusualOperation
	}
	return strings.ToLower(kind)
}

// KnownOp reports whether op is an operation of the interface, live or not.
func KnownOp(op string) bool {
	_, ok := slices.BinarySearchFunc(operations, op, func(o operation, op string) int { return strings.Compare(o.name, op) })
	return ok
}

// OpOf returns the operation of an activity type, or "".
func OpOf(typ string) string { return operationOf[typ] }

// KnownType reports whether typ is an activity type of the interface, live or not.
func KnownType(typ string) bool { return operationOf[typ] != "" }

// undelegateAlias is the name under which the server and browser SDKs 8.x send ACTIVITY_TYPE_ETH_UNDELEGATE_7702. Only the path of that
// type takes it, and the activity has the type's own name.
const undelegateAlias = "ACTIVITY_TYPE_ETH_UNDELEGATE7702"

// Lookup finds the version of activity type typ at path op. Errors are NotFound for an unknown path, InvalidArgument
// for a type that is unknown or of another path, Unimplemented for a type that is not live.
func (t Table) Lookup(op, typ string) (*Version, error) {
	if op == "eth_undelegate_7702" && typ == undelegateAlias {
		typ = "ACTIVITY_TYPE_ETH_UNDELEGATE_7702"
	}
	if v := t[typ]; v != nil && v.Kind.Op == op {
		return v, nil
	}
	switch {
	case !KnownOp(op):
		return nil, fault.New(fault.NotFound, "no such path")
	case operationOf[typ] != op:
		return nil, fault.WithCode(fault.InvalidArgument, "REQUEST_INVALID", "bad request body: this path does not take this activity type")
	}
	return nil, NotLive(op)
}
