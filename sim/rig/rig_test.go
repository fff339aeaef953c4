package rig_test

import (
	"testing"

	"cloister/sim/client"
	"cloister/sim/rig"
)

func TestFirstSignature(t *testing.T) {
	dir := t.TempDir()
	r := rig.Start(t, rig.Options{Dir: dir})
	root := r.Root()
	made := root.Submit("CREATE_WALLET", client.Object{"walletName": "First", "accounts": []any{client.Ethereum}, "generateAppProofs": true})
	if made.Status != 200 {
		t.Fatal(made)
	}
	sign := client.Payload(client.Text(made.Result(), "addresses", "0"), "68656c6c6f", "SHA256")
	body := root.Body("SIGN_RAW_PAYLOAD_V2", sign)
	first := submit(root, "SIGN_RAW_PAYLOAD_V2", body)
	if first.Status != 200 || first.Result()["r"] == nil {
		t.Fatal(first)
	}
	id := first.Text("activity", "id")
	if again := submit(root, "SIGN_RAW_PAYLOAD_V2", body); again.Status != 200 || again.Text("activity", "id") != id {
		t.Fatalf("repeat: %v", again)
	}
	for i, orderly := range []bool{false, true} {
		if orderly {
			r.Stop()
		} else {
			r.Kill()
		}
		r = rig.Start(t, rig.Options{Dir: dir})
		root = r.Root()
		if who := root.Read("whoami", nil); client.Text(who, "organizationName") != "Root organization" {
			t.Fatal(who)
		}
		a := root.Query("get_activity", client.Object{"activityId": id})
		if a.Status != 200 || client.Text(a.Result(), "s") != client.Text(first.Result(), "s") {
			t.Fatal(a)
		}
		l := root.Read("list_activities", client.Object{"paginationOptions": client.Object{"limit": "5"}})
		if len(l["activities"].([]any)) != 2+i {
			t.Fatal(l)
		}
		if got := root.Submit("SIGN_RAW_PAYLOAD_V2", sign); got.Status != 200 {
			t.Fatal(got)
		}
	}
	for k, n := range r.Counters() {
		if len(k) > 6 && k[:6] == "alarm_" && n != 0 {
			t.Errorf("%s = %d", k, n)
		}
	}
}
