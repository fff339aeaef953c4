package ranges_test

import (
	"fmt"
	"strings"
	"testing"

	"cloister/shared/wire"
	"cloister/sim/client"
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
		body := fmt.Appendf(nil, `{"timestampMs":"%d","version":%d,"default":"p","plans":[{"id":"p","name":"P","signaturesPerMonth":3}]%s}`, w.times.Next(), version, more)
		return e.call(w.request((&client.Client{Key: admission}).Request(wire.EndpointBoot, "put_plans", body)))
	}
	want := func(what string, r *wire.Reply, status int, words string) {
		t.Helper()
		if int(r.Status) != status || !strings.Contains(string(r.Body), words) {
			t.Fatalf("%s: %d %s, want %d %s", what, r.Status, r.Body, status, words)
		}
	}
	o := w.in(2)
	wallet := a.completed(w.submit(o, "CREATE_WALLET", client.Wallet("Wallet", client.Ethereum)))
	sign := func() *client.Request {
		return w.submit(o, "SIGN_RAW_PAYLOAD_V2", client.Payload(client.Text(wallet, "addresses", "0"), strings.Repeat("ab", 32), "NO_OP"))
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
