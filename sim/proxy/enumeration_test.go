package proxy_test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/sim/client"
)

// pairs is how often each question is asked about somebody and about nobody; contacts
// is how many there are of each, since one is sent few codes. -short, as under the race
// detector, makes do with fewer.
var pairs, contacts = 500, 250

// named are ids and fingerprints of what the question itself made.
var named = regexp.MustCompile(`"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"|"sha256:[0-9a-f]{64}"`)

// shape is what a caller sees of a reply, but for new names.
func (r *reply) shape() string {
	var b strings.Builder
	fmt.Fprintln(&b, r.Status)
	for _, name := range []string{"Content-Type", "Content-Length", "Ratelimit-Limit", "Access-Control-Allow-Origin", "Cache-Control"} {
		fmt.Fprintln(&b, name, r.head.Values(name))
	}
	return b.String() + named.ReplaceAllString(string(r.Body), `"NEW"`)
}

// Whether a contact has an account is told by no words and no header; how long the
// answers take is measured and reported.
func TestEnumeration(t *testing.T) {
	if testing.Short() {
		pairs, contacts = 50, 25
	}
	p := newPost(t)
	known := func(i int) string { return fmt.Sprintf("known%03d@example.org", i%contacts) }
	unknown := func(i int) string { return fmt.Sprintf("other%03d@example.org", i%contacts) }
	for i := range contacts {
		p.signsUp(known(i))
	}
	// A token that the enclave has not signed, about anybody.
	_, genuine := p.signsUp("attacker@example.org")
	parts := strings.Split(genuine, ".")
	forged := func(contact string) string {
		claims := p.claims(genuine)
		for name, v := range claims {
			if v == "attacker@example.org" {
				claims[name] = contact
			}
		}
		return parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(text(claims))) + "." + parts[2]
	}
	live := client.Text(p.ok("otp_init", object{"otpType": "OTP_TYPE_EMAIL", "contact": "victim@example.org"}), "otpId")
	for range 3 {
		p.refused("a guess", p.ask("otp_verify", object{"otpId": live, "otpCode": "AAAAAA"}), 400, "Invalid OTP code")
	}
	account := func(members object) func(string) *reply {
		return func(contact string) *reply {
			body := object{"filterType": "EMAIL", "filterValue": contact}
			maps.Copy(body, members)
			return p.ask("account", body)
		}
	}
	p.compare(t, "account by EMAIL, which answers who it is", false, known, unknown, account(nil))
	p.root.Do("UPDATE_AUTH_PROXY_CONFIG", object{"verificationTokenRequiredForGetAccountPii": true})
	p.compare(t, "account by EMAIL, without the token that is demanded", true, known, unknown, account(nil))
	p.compare(t, "account by EMAIL, with a token about another contact", true, known, unknown, account(object{"verificationToken": genuine}))
	p.compare(t, "account by EMAIL, with a forged token", true, known, unknown, func(contact string) *reply { return account(object{"verificationToken": forged(contact)})(contact) })
	p.compare(t, "otp_login with a forged token", true, known, unknown, func(contact string) *reply {
		return p.ask("otp_login", object{"verificationToken": forged(contact), "publicKey": p.root.Key.PublicKey})
	})
	p.compare(t, "otp_init", true, known, unknown, func(contact string) *reply {
		return p.ask("otp_init", object{"otpType": "OTP_TYPE_EMAIL", "contact": contact})
	})
	p.compare(t, "otp_verify of a code that was sent, its tries used up, and of none", true,
		func(int) string { return live }, func(i int) string { return fmt.Sprintf("%s%03d", live[:len(live)-3], i) },
		func(otp string) *reply { return p.ask("otp_verify", object{"otpId": otp, "otpCode": "AAAAAA"}) })
	p.compare(t, "signup with a contact that nobody proves", true, known, unknown, func(contact string) *reply {
		return p.ask("signup", signup(object{"userEmail": contact}))
	})
	// Who proves a contact hears what is true, and the same whoever he is.
	var first string
	for i := range 50 {
		r := p.ask("otp_login", object{"verificationToken": p.token(fmt.Sprintf("nobody%02d@example.org", i)), "publicKey": client.NewKey().PublicKey})
		p.refused("a contact that nobody has", r, 404, "no organization found")
		if first == "" {
			first = r.shape()
		}
		if r.shape() != first {
			t.Errorf("%s\n%s", first, r.shape())
		}
	}
}

// compare asks about somebody and about nobody in turn, in changing order, and wants
// equal bytes unless the answer itself is what was asked for.
func (p *post) compare(t *testing.T, what string, equal bool, somebody, nobody func(int) string, ask func(string) *reply) {
	t.Helper()
	var took [2][]time.Duration
	differ := 0
	for i := range pairs {
		var shapes [2]string
		for k := range 2 {
			which := (k + i) % 2
			about := []func(int) string{somebody, nobody}[which](i)
			began := time.Now()
			r := ask(about)
			took[which] = append(took[which], time.Since(began))
			shapes[which] = r.shape()
		}
		if shapes[0] != shapes[1] {
			if differ++; equal && differ == 1 {
				t.Errorf("%s: pair %d:\n%s\n%s", what, i, shapes[0], shapes[1])
			}
		}
	}
	if !equal && differ != pairs {
		t.Errorf("%s: %d of %d answers tell nothing", what, pairs-differ, pairs)
	}
	for _, d := range took {
		slices.Sort(d)
	}
	a, b := took[0], took[1]
	t.Logf("measured: %s: medians of %d pairs: somebody %v, nobody %v (quartiles %v to %v, %v to %v); %d pairs of bytes differ", what, pairs,
		micro(a[pairs/2]), micro(b[pairs/2]), micro(a[pairs/4]), micro(a[pairs*3/4]), micro(b[pairs/4]), micro(b[pairs*3/4]), differ)
}

func micro(d time.Duration) time.Duration { return d.Round(time.Microsecond) }
