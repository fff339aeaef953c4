package policy_test

import (
	"strings"
	"testing"

	"cloister/enclave/internal/policy"
)

func TestIsBroad(t *testing.T) {
	for _, c := range []struct {
		broad     bool
		condition string
	}{
		// Always true, however it is written.
		{true, ""}, {true, "true"}, {true, "(true)"}, {true, "1 == 1"}, {true, "!false"}, {true, "'a' != 'b'"}, {true, "true || wallet.id == 'w'"},
		{true, "activity.kind != 'X'"}, {true, "activity.kind == activity.kind"}, {true, "activity.resource != ''"}, {true, "[activity.kind].contains('CREATE_POLICY')"},
		{true, "wallet.id == 'w' || 1 == 1"},
		// Giving oneself more.
		{true, "activity.resource == 'POLICY'"}, {true, "activity.kind == 'UPDATE_POLICY'"}, {true, "activity.type == 'ACTIVITY_TYPE_CREATE_POLICY_V3'"},
		{true, "activity.action == 'CREATE'"}, {true, "!(activity.action == 'SIGN' || activity.action == 'EXPORT')"}, {true, "activity.resource in ['WALLET', 'CREDENTIAL']"},
		{true, "activity.kind == 'CREATE_AUTHENTICATORS'"}, {true, "activity.kind == 'CREATE_WALLET' || activity.kind == 'CREATE_READ_WRITE_SESSION'"},
		{true, "activity.kind == 'CREATE_API_KEYS' && activity.params.user_id != 'u'"},
		// Every key.
		{true, "activity.action == 'SIGN'"}, {true, "activity.kind == 'SIGN_TRANSACTION'"}, {true, "eth.tx.value < 5"}, {true, "activity.action == 'EXPORT'"},
		{true, "activity.kind == 'SIGN_TRANSACTION' && wallet.id != 'w'"}, {true, "activity.kind == 'SIGN_TRANSACTION' && !(wallet.id == 'w')"},
		{true, "activity.kind == 'SIGN_TRANSACTION' && (wallet.id == 'w' || eth.tx.value < 5)"}, {true, "activity.kind == 'SIGN_TRANSACTION' && wallet.imported"},
		{true, "activity.kind == 'SIGN_TRANSACTION' && wallet.imported == false"}, {true, "activity.kind == 'SIGN_TRANSACTION' && private_key.tags.all(t, t == 'g')"},
		{true, "activity.kind == 'SIGN_TRANSACTION' && wallet.id == wallet.label"}, {true, "activity.kind == 'SIGN_TRANSACTION' && private_key.tags.count() >= 0"},
		{true, "activity.kind == 'EXPORT_WALLET' && activity.params.target_public_key == '04'"},

		{false, "false"}, {false, "activity.kind == 'X'"}, {false, "activity.kind == 'CREATE_WALLET'"}, {false, "activity.kind in ['CREATE_WALLET', 'CREATE_WALLET_ACCOUNTS']"},
		{false, "activity.resource == 'WALLET' && activity.action == 'CREATE'"}, {false, "activity.resource == 'USER'"}, {false, "activity.kind == 'DELETE_POLICY'"},
		{false, "activity.kind == 'CREATE_API_KEYS' && activity.params.user_id == 'u'"},
		{false, "activity.action == 'SIGN' && wallet.id == 'w'"}, {false, "activity.action == 'SIGN' && 'w' == wallet.id"}, {false, "activity.action == 'SIGN' && !(wallet.id != 'w')"},
		{false, "activity.action == 'SIGN' && wallet.id in ['v', 'w']"}, {false, "activity.action == 'SIGN' && ['v', 'w'].contains(wallet.id)"},
		{false, "activity.action == 'SIGN' && (wallet.id == 'v' || wallet.id == 'w')"}, {false, "activity.action == 'SIGN' && private_key.tags.contains('g')"},
		{false, "activity.action == 'SIGN' && private_key.tags.any(t, t == 'g')"}, {false, "wallet_account.address == 'a' && eth.tx.value < 5"}, {false, "eth.tx.from == '0xab'"},
		{false, "activity.kind == 'CREATE_WALLET' || activity.kind == 'SIGN_TRANSACTION' && wallet.id == 'w'"},
		{false, "(activity.kind == 'CREATE_WALLET' || activity.kind == 'SIGN_TRANSACTION' && wallet.id == 'w') && activity.resource != 'USER'"},
		{false, "activity.kind == 'EXPORT_SECRETS' && secret.static_properties['for'] == 'me'"}, {false, "activity.params.sign_with == 'sp1'"},

		// The dashboard's tasks; host/dashboard/web/sections/policytasks.js.
		{false, "activity.kind in ['SIGN_TRANSACTION', 'ETH_SEND_TRANSACTION', 'SOL_SEND_TRANSACTION']\n&& wallet.id == 'w'"},
		{false, "activity.kind == 'SIGN_RAW_PAYLOAD'\n&& wallet.id == 'w'\n&& activity.params.payload_kind == 'MESSAGE'"},
		{false, "activity.kind in ['SIGN_TRANSACTION', 'ETH_SEND_TRANSACTION']\n&& wallet.id == 'w'\n&& eth.tx.chain_id == 1\n&& eth.tx.to in ['0xa', '0xb']\n&& eth.tx.value <= 5\n&& eth.tx.data == '0x'"},
		{false, "activity.kind in ['SIGN_TRANSACTION', 'ETH_SEND_TRANSACTION']\n&& wallet.id == 'w'\n&& eth.tx.chain_id == 1\n&& eth.tx.to == '0xa'\n&& eth.tx.function_signature == '0xa9059cbb'\n&& eth.tx.contract_call_args['value'] <= 5\n&& eth.tx.contract_call_args['to'] == '0xb'"},
	} {
		p, err := policy.Compile(policy.ClauseCondition, c.condition)
		if err != nil {
			t.Errorf("%s: %v", c.condition, err)
		} else if policy.IsBroad(p) != c.broad {
			t.Errorf("%q: broad is %t", c.condition, !c.broad)
		}
	}
}

// Alternatives of alternatives are not all tried.
func TestIsBroadIsQuick(t *testing.T) {
	for _, condition := range []string{
		strings.Repeat("(activity.kind == 'A' || activity.kind != 'B') && ", 60) + "activity.kind != 'C'",
		strings.Repeat("(activity.kind == 'A' || activity.kind == 'CREATE_WALLET' && ", 15) + "true" + strings.Repeat(")", 15),
	} {
		p, err := policy.Compile(policy.ClauseCondition, condition)
		if err != nil {
			t.Fatal(err)
		}
		if policy.IsBroad(p) != strings.Contains(condition, "'C'") { // if it tried all, it would not end
			t.Errorf("%.40s…", condition)
		}
	}
}
