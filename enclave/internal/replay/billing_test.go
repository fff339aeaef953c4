package replay_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"cloister/enclave/core"
	"cloister/enclave/internal/org"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// What counts for a plan is found out again, of a sub-organization with the parent's history, under the quota that the records
// tell: fewer counted, a lease that is too large and a plan that was not chosen are not what would have been decided.
func TestReplayOfBilling(t *testing.T) {
	processor := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/customers":
			fmt.Fprint(rw, `{"id":"cus_1"}`)
		case "/v1/payment_methods/pm_1/attach":
			fmt.Fprint(rw, `{"id":"pm_1","customer":"cus_1","card":{"last4":"4242"}}`)
		default:
			rw.WriteHeader(402)
		}
	}))
	t.Cleanup(processor.Close)
	h := begin(t, rig.Options{Witnesses: rig.StartWitnesses(t, rig.WitnessOptions{}), Configuration: fmt.Appendf(nil, `{"billing":{"processor":"stripe","key":"rk_1","meter":"m","apiUrl":%q}}`, processor.URL)})
	top := h.orgs[0]
	sub := h.below(client.NewKey())
	address := map[*member]string{}
	for _, o := range h.orgs {
		r, _ := h.do(o, o.root, "CREATE_WALLET", client.Wallet("Wallet", client.Ethereum))
		address[o] = client.Text(r, "addresses", "0")
	}
	if r := h.r.PutPlans(1, "free", object{"id": "free", "name": "Free", "signaturesPerMonth": 150}, object{"id": "big", "name": "Big", "signaturesPerMonth": 100_000}); r.Status != 200 {
		t.Fatal(r)
	}
	for id, want := range map[string]int{"pm_2": 400, "pm_1": 200} {
		if r, status := h.do(top, top.root, "SET_PAYMENT_METHOD_V2", object{"paymentMethodId": id, "cardHolderEmail": "payer@example.org", "cardHolderName": "Ada"}); status != want {
			t.Fatal(status, r)
		}
	}
	sign := func(o *member, want int) {
		t.Helper()
		if r, status := h.do(o, o.root, "SIGN_RAW_PAYLOAD_V2", client.Payload(address[o], strings.Repeat("ab", 32), "NO_OP")); status != want {
			t.Fatal(status, r)
		}
	}
	sign(top, 200)
	for range 5 {
		sign(sub, 200)
	}
	for product, want := range map[string]int{"none": 404, "big": 200} {
		if r, status := h.do(top, top.root, "ACTIVATE_BILLING_TIER", object{"productId": product}); status != want {
			t.Fatal(status, r)
		}
	}
	for range 5 {
		sign(sub, 200)
	}
	if r := h.r.PutPlans(2, "big", object{"id": "big", "name": "Big", "signaturesPerMonth": 0}); r.Status != 200 {
		t.Fatal(r)
	}
	sign(top, 429)
	original := h.read()
	report, err := run(copied(t, original))
	if err != nil {
		t.Fatal(err)
	}
	if got := report.Grades["ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2"]; got[core.ReplayVerified] != 11 || got[core.ReplayGiven]+got[core.ReplayTaken] != 0 {
		t.Errorf("%v", got)
	}
	if got := report.Grades["ACTIVITY_TYPE_ACTIVATE_BILLING_TIER"]; got[core.ReplayTaken] != 2 {
		t.Errorf("%v", got)
	}
	if got := report.Grades["ACTIVITY_TYPE_SET_PAYMENT_METHOD_V2"]; got[core.ReplayTaken] != 2 {
		t.Errorf("%v", got)
	}
	sends := 0
	for _, one := range original {
		for _, e := range one.Entries {
			sends += len(e.Entry.Sends)
		}
	}
	if sends != 1 && sends != 2 { // a usage of each day, of which there may be two
		t.Errorf("%d sends", sends)
	}
	for what, change := range map[string]func(tx *org.Tx) bool{
		"fewer counted": func(tx *org.Tx) bool {
			b, _ := tx.Bill()
			if b == nil || b.Drawn < 3 {
				return false
			}
			c := *b
			c.Drawn--
			return tx.PutBill(&c) == nil
		},
		"a larger lease": func(tx *org.Tx) bool {
			l, _ := tx.Lease()
			if l == nil {
				return false
			}
			c := *l
			c.Left += 10
			return tx.PutLease(&c) == nil
		},
		"a quota below what is counted": func(tx *org.Tx) bool {
			b, _ := tx.Bill()
			if b == nil || b.Drawn == 0 {
				return false
			}
			c, none := *b, uint64(0)
			c.Quota = &none
			return tx.PutBill(&c) == nil
		},
		"nothing counted": func(tx *org.Tx) bool {
			b, _ := tx.Bill()
			if b == nil || b.Drawn == 0 {
				return false
			}
			tx.Replace(nil)
			return true
		},
	} {
		hs, changed := copied(t, original), false
		for _, one := range hs {
			for _, e := range one.Entries {
				if changed || e.Seq == 0 || e.Entry.Type == "ACTIVITY_TYPE_ACTIVATE_BILLING_TIER" {
					continue
				}
				tx := org.Begin(e.Organization, org.NewState(), e.Entry.TimeMs)
				tx.Put(e.Entry.Writes...)
				if changed = change(tx); changed {
					var err error
					if e.Entry.Writes, err = tx.Writes(); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		_, err := run(hs)
		if _, ok := errors.AsType[*core.ReplayFinding](err); !ok || !changed {
			t.Errorf("%s: %v", what, err)
		}
	}
}
