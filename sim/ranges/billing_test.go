package ranges_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"cloister/shared/wire"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// Each range has the plans, also one that moves; and what was counted in it goes on from where it was, at one enclave only.
func TestPlansOfRanges(t *testing.T) {
	w := newWorld(t)
	a, b := w.start(), w.start()
	admission, err := w.dir.AdmissionKey()
	if err != nil {
		t.Fatal(err)
	}
	put := func(e *enclave, version int, more string) *wire.Reply {
		body := fmt.Appendf(nil, `{"timestampMs":"%d","version":%d,"default":"p","plans":[{"id":"p","name":"P","signaturesPerMonth":3}]%s}`, w.now(), version, more)
		head, err := laptop.Stamp(admission, body)
		if err != nil {
			t.Fatal(err)
		}
		return e.call(&wire.Call{Endpoint: wire.EndpointBoot, Op: "put_plans", Head: head, Body: body, WithinMs: maxWaitMs})
	}
	want := func(what string, r *wire.Reply, status int, words string) {
		t.Helper()
		if int(r.Status) != status || !strings.Contains(string(r.Body), words) {
			t.Fatalf("%s: %d %s, want %d %s", what, r.Status, r.Body, status, words)
		}
	}
	o := w.in(2)
	submit := func(op, typ string, parameters map[string]any) *wire.Call {
		return w.stamped(wire.EndpointSubmit, op, o, map[string]any{"type": typ, "timestampMs": strconv.FormatInt(w.now(), 10), "parameters": parameters})
	}
	made := a.call(submit("create_wallet", "ACTIVITY_TYPE_CREATE_WALLET", map[string]any{"walletName": "Wallet", "accounts": []any{map[string]any{
		"curve": "CURVE_SECP256K1", "pathFormat": "PATH_FORMAT_BIP32", "path": "m/44'/60'/0'/0/0", "addressFormat": "ADDRESS_FORMAT_ETHEREUM"}}}))
	var m any
	if err := json.Unmarshal(made.Body, &m); err != nil || made.Status != 200 {
		t.Fatalf("%s", made.Body)
	}
	sign := func() *wire.Call {
		return submit("sign_raw_payload", "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", map[string]any{"signWith": rig.Text(m, "activity", "result", "createWalletResult", "addresses", "0"),
			"payload": strings.Repeat("ab", 32), "encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": "HASH_FUNCTION_NO_OP"})
	}
	want("all of them", put(a, 1, ""), 200, `"ranges":[0,1,2,3],"of":4`)
	a.must(sign())
	move(t, 2, a, b)
	if r := put(b, 1, `,"range":1`); r.Status != 503 || r.Moved != 2 {
		t.Fatalf("%d %d", r.Status, r.Moved)
	}
	want("no such range", put(b, 1, `,"range":4`), 400, "4 ranges")
	want("older ones at another enclave", put(b, 0, ""), 400, "")
	twice := sign()
	b.must(twice)
	a.elsewhere(twice, 2)
	b.must(twice) // the same body counts once
	b.must(sign())
	want("more", b.call(sign()), 429, "SIGNING_QUOTA_EXCEEDED")
	move(t, 2, b, a)
	b.elsewhere(sign(), 2)
	want("more, where it was", a.call(sign()), 429, "SIGNING_QUOTA_EXCEEDED")
	want("its own range", put(b, 2, ""), 503, "")
	want("newer ones", put(a, 2, ""), 200, `"ranges":[0,1,2,3]`)
	move(t, 2, a, b)
	want("older ones where it went", put(b, 1, `,"range":2`), 400, "version 2 are in force")
	want("the same ones, in their range", put(b, 2, `,"range":2`), 200, `"ranges":[2],"of":4`)
}
