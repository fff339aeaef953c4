package billing_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"cloister/enclave/internal/billing"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// tree is an organization with sub-organizations, at a time.
type tree struct {
	t     testing.TB
	plans *billing.Plans
	nowMs uint64
	top   *org.State
	subs  []*org.State
}

func newTree(t testing.TB, subs int, quota *uint64) *tree {
	r := &tree{t: t, nowMs: at(t, "2026-01-15T12:00:00Z"), top: org.NewState(), plans: &billing.Plans{Version: 1, Default: "p", Plans: []billing.Plan{{ID: "p", Name: "P", SignaturesPerMonth: quota}}}}
	for range subs {
		r.subs = append(r.subs, org.NewState())
	}
	return r
}

func at(t testing.TB, text string) uint64 {
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return uint64(when.UnixMilli())
}

func of[T any](v T) *T { return &v }

// sign has n signatures made by a sub-organization, or with -1 by the one above, and tells whether they are counted. What is
// refused leaves nothing.
func (r *tree) sign(who int, n uint64) bool {
	r.t.Helper()
	parent := org.Begin(org.ID{1}, r.top, r.nowMs)
	tx, err := parent, error(nil)
	if who < 0 {
		_, err = billing.Count(tx, r.plans, n)
	} else {
		var draws bool
		tx = org.Begin(org.ID{2, byte(who)}, r.subs[who], r.nowMs)
		if _, draws, err = billing.CountForChild(tx, nil, r.plans, n); draws && err == nil {
			if tx.Changed() {
				r.t.Fatal("something is done without the parent")
			}
			_, _, err = billing.CountForChild(tx, parent, r.plans, n)
		}
	}
	if f := fault.Of(err); f != nil {
		if f.Name != "SIGNING_QUOTA_EXCEEDED" || f.Code.HTTPStatus() != 429 || tx.Changed() || parent.Changed() {
			r.t.Fatalf("%v, %v changed", f, tx.Changed())
		}
		return false
	}
	if err != nil {
		r.t.Fatal(err)
	}
	for _, change := range []*org.Tx{tx, parent} {
		if _, err := change.Writes(); err != nil {
			r.t.Fatal(err)
		}
		change.Apply()
	}
	return true
}

func (r *tree) bill() org.Bill {
	b, err := org.Begin(org.ID{1}, r.top, r.nowMs).Bill()
	if err != nil {
		r.t.Fatal(err)
	}
	return billing.Current(b, r.nowMs)
}

// Whoever signs, and however much at once: what is signed and leased is never above the quota, at its end it is all of it, and
// what is stranded of it is less than each sub-organization has signed, and than a lease.
func TestNeverAboveTheQuota(t *testing.T) {
	const subs = 7
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		quota := random.Uint64N(3000)
		r := newTree(t, subs, &quota)
		signed := [subs + 1]uint64{}
		total := uint64(0)
		for range 3000 {
			who, n := random.IntN(subs+1)-1, uint64(1)
			if random.IntN(10) == 0 {
				n = 1 + random.Uint64N(100)
			}
			if r.sign(who, n) {
				signed[who+1], total = signed[who+1]+n, total+n
			}
			b := r.bill()
			if b.Drawn > quota || total > b.Drawn || b.Drawn-total > b.Leased {
				t.Fatalf("seed %d: %d signed, %+v of %d", seed, total, b, quota)
			}
		}
		for r.sign(-1, 1) {
			total++
		}
		stranded := uint64(0)
		for i := range subs {
			l, err := org.Begin(org.ID{2}, r.subs[i], r.nowMs).Lease()
			if err != nil {
				t.Fatal(err)
			}
			if l == nil {
				continue
			}
			if l.Left >= 64 || l.Left > signed[i+1] {
				t.Errorf("seed %d: %d stranded of one who has signed %d", seed, l.Left, signed[i+1])
			}
			stranded += l.Left
		}
		if total+stranded != quota || r.bill().Drawn != quota {
			t.Errorf("seed %d: %d signed and %d stranded of %d", seed, total, stranded, quota)
		}
	}
}

// A month ends at its last millisecond, UTC; what was leased in it is not for the next. A clock that goes back, as another
// enclave's may, opens no month again.
func TestNextMonth(t *testing.T) {
	r := newTree(t, 1, of(uint64(10)))
	r.nowMs = at(t, "2026-12-31T23:59:59Z") + 999
	for i := range 4 {
		if !r.sign(0, 1) {
			t.Fatal(i)
		}
	}
	if b := r.bill(); b.Drawn != 4 {
		t.Fatalf("%+v", b) // 1, 1, 1, 1: a 64th of ten is one
	}
	for range 6 {
		if !r.sign(-1, 1) {
			t.Fatal("refused below the quota")
		}
	}
	if r.sign(-1, 1) || r.sign(0, 1) {
		t.Error("signed above the quota")
	}
	last := r.nowMs
	r.nowMs++
	if !r.sign(0, 1) || !r.sign(-1, 3) {
		t.Error("the next month is not begun")
	}
	if b := r.bill(); b.Drawn != 4 || b.Month != billing.MonthOf(r.nowMs) {
		t.Errorf("%+v", b)
	}
	r.nowMs = last
	if !r.sign(0, 6) || r.sign(0, 1) || r.sign(-1, 1) || r.bill().Month != billing.MonthOf(last+1) {
		t.Error("a month that was over is begun again")
	}

	r = newTree(t, 1, nil)
	r.nowMs = last
	for range 3 {
		r.sign(0, 1)
	}
	if l, _ := org.Begin(org.ID{2}, r.subs[0], last).Lease(); l.Left != 0 {
		t.Fatalf("%+v", l) // 1, 2
	}
	r.sign(0, 1) // of 4
	r.nowMs++
	r.sign(0, 1)
	if b := r.bill(); b.Drawn != 1 || b.Leased != 0 {
		t.Errorf("%+v: what was left of the month before is good in this one", b)
	}
}

// A plan that is gone is the default one; a lower quota than what is drawn refuses and takes nothing back.
func TestPlansThatChange(t *testing.T) {
	r := newTree(t, 1, of(uint64(100)))
	if !r.sign(-1, 60) || !r.sign(0, 10) {
		t.Fatal("refused below the quota")
	}
	r.plans = &billing.Plans{Version: 2, Default: "q", Plans: []billing.Plan{{ID: "q", Name: "Q", SignaturesPerMonth: of(uint64(50))}}}
	if r.sign(-1, 1) || r.sign(0, 1) {
		t.Error("signed above the quota")
	}
	r.plans.Plans[0].SignaturesPerMonth = of(uint64(71))
	if !r.sign(0, 1) || r.sign(-1, 1) {
		t.Error("a quota that was raised")
	}
}

func TestPlans(t *testing.T) {
	const one = `{"id":"free","name":"Free","signaturesPerMonth":25,"requestsPerSecond":1,"subOrganizations":3,"price":{"currency":"usd","perMonth":"0"}}`
	document := func(version, byDefault, plans string) string {
		return `{"timestampMs":"1700000000000","version":` + version + `,"default":"` + byDefault + `","plans":[` + plans + `]}`
	}
	p, err := billing.ParsePlans([]byte(document("3", "free", one+`,{"id":"pro","name":"Pro","needsPaymentMethod":true}`)))
	if err != nil {
		t.Fatal(err)
	}
	if p.Of("").ID != "free" || p.Of("gone").ID != "free" || p.Of("pro").SignaturesPerMonth != nil || *p.Of("free").SignaturesPerMonth != 25 || p.Find("gone") != nil {
		t.Errorf("%+v", p)
	}
	for what, bad := range map[string]string{
		"no version": document("0", "free", one), "no default": document("1", "", one), "another default": document("1", "pro", one),
		"no plans": document("1", "free", ""), "a plan twice": document("1", "free", one+","+one), "an unknown member": document("1", "free", `{"id":"free","name":"Free","signatures":1}`),
		"a quota below zero": document("1", "free", `{"id":"free","name":"Free","signaturesPerMonth":-1}`), "a plan without a name": document("1", "free", `{"id":"free"}`),
		"a default that must be paid": document("1", "free", `{"id":"free","name":"Free","needsPaymentMethod":true}`), "nothing": "", "text behind it": document("1", "free", one) + "x",
	} {
		if p, err := billing.ParsePlans([]byte(bad)); fault.Of(err) == nil {
			t.Errorf("%s: %+v, %v", what, p, err)
		}
	}
	var none *billing.Plans
	if none.Of("") != billing.SelfHosted || none.Find("self-hosted") != billing.SelfHosted || none.Find("free") != nil {
		t.Error("without a document there is one plan, self-hosted")
	}
}

func FuzzPlans(f *testing.F) {
	f.Add([]byte(`{"timestampMs":1,"version":1,"default":"a","plans":[{"id":"a","name":"A"}]}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		p, err := billing.ParsePlans(document)
		if err != nil {
			return
		}
		if d := p.Of("none of them, surely"); d == nil || d.NeedsPaymentMethod || d.ID != p.Default && p.Find("none of them, surely") == nil {
			t.Errorf("%+v", p)
		}
	})
}
