package rig_test

import (
	"testing"

	"cloister/sim/rig"
)

var ethereum = map[string]any{"curve": "CURVE_SECP256K1", "pathFormat": "PATH_FORMAT_BIP32", "path": "m/44'/60'/0'/0/0", "addressFormat": "ADDRESS_FORMAT_ETHEREUM"}

func TestFirstSignature(t *testing.T) {
	dir := t.TempDir()
	r := rig.Start(t, rig.Options{Dir: dir})
	status, m := r.Submit("create_wallet", "ACTIVITY_TYPE_CREATE_WALLET", map[string]any{"walletName": "First", "accounts": []any{ethereum}, "generateAppProofs": true})
	if status != 200 {
		t.Fatalf("create_wallet: %d %v", status, m)
	}
	address := rig.Text(m, "activity", "result", "createWalletResult", "addresses", "0")
	sign := map[string]any{"signWith": address, "payload": "68656c6c6f", "encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": "HASH_FUNCTION_SHA256"}
	body := r.Body("ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", sign)
	status, first := r.SubmitBody("sign_raw_payload", body)
	if status != 200 || rig.Get(first, "activity", "result", "signRawPayloadResult", "r") == nil {
		t.Fatalf("sign_raw_payload: %d %v", status, first)
	}
	id := rig.Text(first, "activity", "id")
	status, again := r.SubmitBody("sign_raw_payload", body)
	if status != 200 || rig.Text(again, "activity", "id") != id {
		t.Fatalf("repeat: %d %v", status, again)
	}
	for i, orderly := range []bool{false, true} {
		if orderly {
			r.Stop()
		} else {
			r.Kill()
		}
		r = rig.Start(t, rig.Options{Dir: dir})
		status, who := r.Query("whoami", nil)
		if status != 200 || rig.Text(who, "organizationName") != "Root organization" {
			t.Fatalf("whoami: %d %v", status, who)
		}
		status, a := r.Query("get_activity", map[string]any{"activityId": id})
		if status != 200 || rig.Text(a, "activity", "result", "signRawPayloadResult", "s") != rig.Text(first, "activity", "result", "signRawPayloadResult", "s") {
			t.Fatalf("get_activity: %d %v", status, a)
		}
		status, l := r.Query("list_activities", map[string]any{"paginationOptions": map[string]any{"limit": "5"}})
		if status != 200 || len(rig.Get(l, "activities").([]any)) != 2+i {
			t.Fatalf("list_activities: %d %v", status, l)
		}
		if status, m := r.Submit("sign_raw_payload", "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", sign); status != 200 {
			t.Fatalf("%d %v", status, m)
		}
	}
	for k, n := range r.Counters() {
		if len(k) > 6 && k[:6] == "alarm_" && n != 0 {
			t.Errorf("%s = %d", k, n)
		}
	}
}
