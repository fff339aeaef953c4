package api_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloister/host/api"
	"cloister/shared/wire"
)

// What the enclave refuses for a while, whatever a credential stamps, the host refuses by itself for as long, ten seconds at most. The
// enclave is asked again then, and always for other credentials.
func TestRefusalsAreRemembered(t *testing.T) {
	n := 0
	stamp := func(key string) [2]string {
		n++
		return [2]string{"X-Stamp", base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"publicKey":%q,"scheme":"s","signature":"%d"}`, key, n))}
	}
	passkey := func(id string) [2]string {
		return [2]string{"X-Stamp-WebAuthn", fmt.Sprintf(`{"credentialId":%q,"signature":"x"}`, id)}
	}
	session := func(token string) [2]string { return [2]string{"X-Session", token} }
	for name, c := range map[string]struct {
		reply  wire.Reply
		by     [2]string
		again  [2]string // the same credential, stamped anew
		other  [2]string
		lasts  time.Duration // the host refuses
		header string        // Retry-After of the enclave's refusal
	}{
		"a key":             {wire.Reply{Status: 429, RetryMs: 1400, RefusesAll: true}, stamp("k"), stamp("k"), stamp("other"), 1400 * time.Millisecond, "2"},
		"a passkey":         {wire.Reply{Status: 429, RetryMs: 2000, RefusesAll: true}, passkey("k"), passkey("k"), passkey("other"), 2 * time.Second, "2"},
		"a session":         {wire.Reply{Status: 429, RetryMs: 1, RefusesAll: true}, session("k"), session("k"), session("other"), time.Millisecond, "1"},
		"a minute":          {wire.Reply{Status: 429, RetryMs: 60_000, RefusesAll: true}, stamp("k"), stamp("k"), passkey("k"), 10 * time.Second, "60"},
		"one resource":      {wire.Reply{Status: 429, RetryMs: 60_000}, stamp("k"), stamp("k"), stamp("other"), 0, "60"},
		"no time":           {wire.Reply{Status: 429, RefusesAll: true}, stamp("k"), stamp("k"), stamp("other"), 0, ""},
		"no refusal":        {wire.Reply{Status: 200, RetryMs: 60_000, RefusesAll: true}, stamp("k"), stamp("k"), stamp("other"), 0, ""},
		"nobody's stamp":    {wire.Reply{Status: 429, RetryMs: 60_000, RefusesAll: true}, [2]string{"X-Stamp", "?"}, [2]string{"X-Stamp", "?"}, stamp("other"), 0, "60"},
		"a stamp of no key": {wire.Reply{Status: 429, RetryMs: 60_000, RefusesAll: true}, stamp(""), stamp(""), stamp("other"), 0, "60"},
	} {
		t.Run(name, func(t *testing.T) {
			at := new(clock)
			r := start(t, func(o *api.Options) { o.Now = at.now })
			var asked atomic.Int64
			r.peer.mu.Lock()
			r.answer = func(context.Context, *wire.Call) *wire.Reply {
				reply := wire.Reply{Status: 200}
				if asked.Add(1) == 1 {
					reply = c.reply
				}
				reply.Body = []byte(`{"from":"the enclave"}`)
				return &reply
			}
			r.peer.mu.Unlock()
			ask := func(head [2]string) response { return post(t, r.at+"/public/v1/query/whoami", "{}", head[0], head[1]) }
			if got := ask(c.by); got.header.Get("Retry-After") != c.header || got.status != int(c.reply.Status) {
				t.Errorf("refused with %d, %v", got.status, got.header)
			}
			for _, again := range []struct {
				head   [2]string
				passes bool
				move   time.Duration
			}{{c.again, c.lasts == 0, 0}, {c.other, true, 0}, {c.again, c.lasts == 0, max(c.lasts-time.Millisecond, 0)}, {c.other, true, 0}, {c.again, true, time.Millisecond}} {
				at.move(again.move)
				before := asked.Load()
				got := ask(again.head)
				if passed := asked.Load() > before; passed != again.passes {
					t.Errorf("%v: it is asked: %t; %d %s", again, passed, got.status, got.body)
				} else if !passed && (got.status != 429 || got.header.Get("Retry-After") == "" || !strings.Contains(got.body, `"turnkeyErrorCode":"RATE_LIMIT_EXCEEDED"`)) {
					t.Errorf("%v: %d %v %s", again, got.status, got.header, got.body)
				}
			}
		})
	}
}

// Two stamps are nobody's: who may refuse one of them is not told by the other.
func TestRefusalsOfTwoStamps(t *testing.T) {
	r := start(t, nil)
	r.peer.mu.Lock()
	r.answer = func(context.Context, *wire.Call) *wire.Reply {
		return &wire.Reply{Status: 429, RetryMs: 60_000, RefusesAll: true, Body: []byte("{}")}
	}
	r.peer.mu.Unlock()
	a := base64.RawURLEncoding.EncodeToString([]byte(`{"publicKey":"a"}`))
	post(t, r.at+"/public/v1/query/whoami", "{}", "X-Stamp", a, "X-Session", "s")
	for _, head := range [][2]string{{"X-Stamp", a}, {"X-Session", "s"}} {
		r.peer.mu.Lock()
		r.answer = func(context.Context, *wire.Call) *wire.Reply { return &wire.Reply{Status: 200, Body: []byte("{}")} }
		r.peer.mu.Unlock()
		if got := post(t, r.at+"/public/v1/query/whoami", "{}", head[0], head[1]); got.status != http.StatusOK {
			t.Errorf("%s is refused: %d", head[0], got.status)
		}
	}
}

// Who goes on asking is refused for twice as long each time, up to a second, and anew once he has waited.
func TestRefusalsGrow(t *testing.T) {
	at := new(clock)
	r := start(t, func(o *api.Options) { o.Now = at.now })
	var asked atomic.Int64
	r.peer.mu.Lock()
	r.answer = func(context.Context, *wire.Call) *wire.Reply {
		asked.Add(1)
		return &wire.Reply{Status: 429, RetryMs: 50, RefusesAll: true, Body: []byte("{}")}
	}
	r.peer.mu.Unlock()
	passes := func() bool {
		before := asked.Load()
		post(t, r.at+"/public/v1/query/whoami", "{}", "X-Session", "token")
		return asked.Load() > before
	}
	const ms = time.Millisecond
	if !passes() {
		t.Fatal("the first is refused by the host")
	}
	for _, wait := range []time.Duration{50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 1000 * ms, 1000 * ms} {
		at.move(wait - ms)
		if passes() {
			t.Errorf("it is asked after %v", wait-ms)
		}
		if at.move(ms); !passes() {
			t.Errorf("it is not asked after %v", wait)
		}
	}
	at.move(3 * time.Second)
	if !passes() {
		t.Error("it is not asked after a while")
	}
	if at.move(50 * ms); !passes() {
		t.Error("who has waited is refused as before")
	}
}
