package api

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"cloister/shared/pace"
	"cloister/shared/wire"
)

// refusals are credentials of which the enclave has said that it refuses for a while whatever they stamp. The host refuses by
// itself then: verifying a stamp to refuse it costs the enclave as much as answering.
//
// Who goes on asking is refused for longer each time, up to a second: many requests of one credential that wait for the same moment
// would all reach the enclave then, which has an answer for one of them.
type refusals struct {
	mu  sync.Mutex
	all map[string]refusal // by credential
}

type refusal struct {
	until time.Time
	wait  time.Duration
}

const (
	// maxRefusal is how long the host goes by what the enclave has said.
	maxRefusal = 10 * time.Second
	// maxAgain is for how long at most it refuses who went on asking.
	maxAgain = time.Second
	// maxRefusals is how many credentials are remembered; one more, and all are forgotten.
	maxRefusals = 1 << 16
)

func (f *refusals) note(credential string, now time.Time, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.all[credential]
	switch {
	case now.Before(before.until): // under way when the refusal before this came
		return
	case now.Before(before.until.Add(before.wait)):
		wait = max(wait, min(2*before.wait, maxAgain))
	}
	if f.all == nil || len(f.all) >= maxRefusals {
		f.all = map[string]refusal{}
	}
	wait = min(wait, maxRefusal)
	f.all[credential] = refusal{now.Add(wait), wait}
}

// none tells that no credential is refused, as mostly.
func (f *refusals) none() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.all) == 0
}

// wait is for how long a credential is refused yet, 0 if it is not.
func (f *refusals) wait(credential string, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, known := f.all[credential]
	if known && !now.Before(last.until.Add(last.wait)) {
		delete(f.all, credential)
	}
	return max(last.until.Sub(now), 0)
}

// credentialOf is the one credential that a call names, whether it is that one's or not; "" if there is not one.
func credentialOf(head []wire.Header) (credential string) {
	for _, h := range head {
		var s struct {
			PublicKey    string `json:"publicKey"`
			CredentialID string `json:"credentialId"`
		}
		name := ""
		switch h.Name {
		case "X-Stamp", "X-Stamp-Attested":
			b, err := base64.RawURLEncoding.DecodeString(h.Value)
			if err == nil && json.Unmarshal(b, &s) == nil {
				name = s.PublicKey
			}
		case "X-Stamp-WebAuthn":
			if json.Unmarshal([]byte(h.Value), &s) == nil {
				name = s.CredentialID
			}
		case "X-Session":
			name = h.Value
		default:
			continue
		}
		if name == "" || credential != "" {
			return ""
		}
		credential = h.Name + " " + name
	}
	return credential
}

// refusedBefore answers a call whose credential the enclave refuses yet.
func (a *API) refusedBefore(w http.ResponseWriter, head []wire.Header) bool {
	if a.refusals.none() {
		return false
	}
	wait := a.refusals.wait(credentialOf(head), a.options.Now())
	if wait == 0 {
		return false
	}
	a.options.Metrics.refusedCredentials.Inc()
	tellWait(w.Header(), wait)
	write(w, http.StatusTooManyRequests, tooMany("too many requests: credential is rate limited", pace.Count{Wait: wait}))
	return true
}

// tooMany is the body of a refusal.
func tooMany(what string, c pace.Count) []byte {
	return []byte(`{"code":8,"message":"` + what + `, try again in ` + c.Again() +
		`","details":[{"@type":"type.googleapis.com/errors.v1.TurnkeyErrorDetail","turnkeyErrorCode":"RATE_LIMIT_EXCEEDED"}],"turnkeyErrorCode":"RATE_LIMIT_EXCEEDED"}`)
}

// tellWait sets the header that tells a refused caller when to come again: RFC 9110, in whole seconds.
func tellWait(h http.Header, wait time.Duration) {
	if wait > 0 {
		h["Retry-After"] = []string{strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10)}
	}
}
