package core_test

import (
	"testing"

	"cloister/enclave/core"
	"cloister/enclave/internal/activity/kinds"
)

// Room is made for what policies are shown of data, and for no more.
func TestDecodedBytes(t *testing.T) {
	for _, c := range []struct {
		op, typ string
		n, want int64
	}{
		{"sign_transaction", "ACTIVITY_TYPE_SIGN_TRANSACTION_V2", 1 << 20, 8 * (1<<20 - 8<<10)},
		{"sign_transaction", "ACTIVITY_TYPE_SIGN_TRANSACTION", 9 << 10, 8 << 10},
		{"sign_transaction", "ACTIVITY_TYPE_SIGN_TRANSACTION_V2", 8 << 10, 0},
		{"sign_transaction", "ACTIVITY_TYPE_SIGN_TRANSACTION_V2", 300, 0},
		{"sign_raw_payload", "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", 9 << 10, 8 << 10},
		{"sign_raw_payloads", "ACTIVITY_TYPE_SIGN_RAW_PAYLOADS", 9 << 10, 8 << 10},
		{"eth_send_transaction", "ACTIVITY_TYPE_ETH_SEND_TRANSACTION", 9 << 10, 8 << 10},
		{"eth_send_transaction", "ACTIVITY_TYPE_ETH_SEND_TRANSACTION_V2", 9 << 10, 8 << 10},
		{"eth_send_raw_transaction", "ACTIVITY_TYPE_ETH_SEND_RAW_TRANSACTION", 9 << 10, 8 << 10},
		{"sol_send_transaction", "ACTIVITY_TYPE_SOL_SEND_TRANSACTION", 9 << 10, 8 << 10},
		{"create_policies", "ACTIVITY_TYPE_CREATE_POLICIES", 1 << 20, 0},
		{"create_smart_contract_interface", "ACTIVITY_TYPE_CREATE_SMART_CONTRACT_INTERFACE", 1 << 20, 0},
		{"approve_activity", "ACTIVITY_TYPE_APPROVE_ACTIVITY", 1 << 20, 0},
	} {
		v, err := kinds.Live.Lookup(c.op, c.typ)
		if err != nil {
			t.Fatal(c.typ, err)
		}
		if got := core.DecodedBytes(v, c.n); got != c.want {
			t.Errorf("%s, %d bytes: %d, want %d", c.typ, c.n, got, c.want)
		}
	}
	if core.DecodedBytes(nil, 1<<20) != 0 {
		t.Error("room for what is not known")
	}
}
