package api

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"cloister/shared/pace"
	"cloister/shared/wire"
)

// credentialOf returns the credential that a call names, unverified; "" if the call names none or more than one.
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

// refusedBefore replies with 429 to a call whose credential the enclave has said it refuses for a while, and reports whether it did. It saves
// the enclave the verification of a stamp, which costs as much for a refusal as for an answer.
func (a *API) refusedBefore(w http.ResponseWriter, head []wire.Header) bool {
	if a.refusals.None() {
		return false
	}
	wait := a.refusals.Wait(credentialOf(head), a.options.Now())
	if wait == 0 {
		return false
	}
	a.options.Metrics.refusedCredentials.Inc()
	tellWait(w.Header(), wait)
	write(w, http.StatusTooManyRequests, tooMany("too many requests: credential is rate limited", pace.Count{Wait: wait}))
	return true
}

// tooMany is the body of a 429 reply.
func tooMany(what string, c pace.Count) []byte {
	return []byte(`{"code":8,"message":"` + what + `, try again in ` + c.Again() +
		`","details":[{"@type":"type.googleapis.com/errors.v1.TurnkeyErrorDetail","turnkeyErrorCode":"RATE_LIMIT_EXCEEDED"}],"turnkeyErrorCode":"RATE_LIMIT_EXCEEDED"}`)
}

// tellWait sets Retry-After (RFC 9110) of a refusal, in whole seconds.
func tellWait(h http.Header, wait time.Duration) {
	if wait > 0 {
		h["Retry-After"] = []string{strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10)}
	}
}
