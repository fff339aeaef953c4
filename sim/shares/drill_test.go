package shares_test

import (
	"crypto/rand"
	"encoding/json"
	"flag"
	mrand "math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/sim/nsm"
)

var (
	drills = flag.Int("drills", 0, "how many random drills; 0: 1,000, and 100 with -short")
	seed   = flag.Uint64("seed", 0, "of the drills; 0 draws one")
)

// A fault is what goes wrong in a drill, and with which code the enclave says so.
type fault struct {
	name, code string
	// do gives a wrong submission in operator n's name to an enclave that waits.
	do func(d *drill, n int) *attestation.ShareSubmission
}

type drill struct {
	*world
	r *mrand.Rand
	e *enclave
}

var faults = []fault{
	{"a share with a bit flipped", "SHARE_WRONG", func(d *drill, n int) *attestation.ShareSubmission {
		at := d.r.IntN(8 * attestation.ShareSize)
		return d.submit(d.e.setup(d.policy()), n, func(b []byte) { b[at/8] ^= 1 << (at % 8) })
	}},
	{"for another manifest", "SHARE_FOR_ANOTHER_MANIFEST", func(d *drill, n int) *attestation.ShareSubmission {
		other := *d.manifest
		other.Version = "another"
		e := d.waitingUnder(&other)
		defer e.stop()
		return d.submit(e.setup(d.policy()), n, nil)
	}},
	{"for another enclave", "SHARE_STALE", func(d *drill, n int) *attestation.ShareSubmission {
		e := d.waiting()
		defer e.stop()
		return d.submit(e.setup(d.policy()), n, nil)
	}},
	{"to the key of another enclave", "SHARE_NOT_FOR_US", func(d *drill, n int) *attestation.ShareSubmission {
		e := d.waiting()
		defer e.stop()
		s, other := d.e.setup(d.policy()), e.setup(d.policy())
		s.PublicKeyHex = other.PublicKeyHex
		return d.submit(s, n, nil)
	}},
	{"a document ten minutes old", "SHARE_STALE", func(d *drill, n int) *attestation.ShareSubmission {
		in := d.submit(d.e.setup(d.policy()), n, nil)
		d.ahead.Add(int64(10 * time.Minute))
		return in
	}},
	{"a nonce of nobody's", "SHARE_STALE", func(d *drill, n int) *attestation.ShareSubmission {
		s := d.e.setup(d.policy())
		_, _ = rand.Read(s.Nonce[:])
		return d.submit(s, n, nil)
	}},
	{"signed by another operator", "SHARE_NOT_SIGNED", func(d *drill, n int) *attestation.ShareSubmission {
		s := d.e.setup(d.policy())
		in, theirs := d.submit(s, n, nil), d.submit(s, (n+1)%len(d.operators), nil)
		in.Signature = theirs.Signature
		return in
	}},
	{"another's share in one's own name", "SHARE_NOT_SIGNED", func(d *drill, n int) *attestation.ShareSubmission {
		in := d.submit(d.e.setup(d.policy()), (n+1)%len(d.operators), nil)
		in.Operator = n + 1
		return in
	}},
	{"of another share set", "SHARE_OF_ANOTHER_SET", func(d *drill, n int) *attestation.ShareSubmission {
		in := d.submit(d.e.setup(d.policy()), n, nil)
		in.ShareSetDigest = strings.Repeat("07", 32)
		return in
	}},
	{"none", "", nil},
}

// TestDrills makes deployments of 2 to 9 operators and boots them again and again:
// with any M of N it starts, with M-1 it does not, and what is wrong is named.
func TestDrills(t *testing.T) {
	if *seed == 0 {
		*seed = mrand.Uint64()
	}
	if *drills == 0 {
		*drills = 1000
		if testing.Short() {
			*drills = 100
		}
	}
	t.Logf("%d drills, -seed %d", *drills, *seed)
	r := mrand.New(mrand.NewPCG(*seed, 1))
	root, err := nsm.NewRoot(rand.Reader, time.Now())
	must(t, err)
	var w *world
	seen := map[string]int{}
	for i := range *drills {
		if i%25 == 0 {
			n := 2 + r.IntN(8)
			w = newWorld(t, root, 2+r.IntN(n-1), n)
		}
		d := &drill{world: w, r: r}
		f := faults[r.IntN(len(faults))]
		seen[f.name]++
		d.run(f)
	}
	if len(seen) != len(faults) && *drills >= 200 {
		t.Errorf("only %d of %d faults drawn", len(seen), len(faults))
	}
	t.Log(seen)
}

func (d *drill) run(f fault) {
	d.t.Helper()
	d.e = d.waiting()
	defer d.e.stop()
	m := d.named.Threshold
	order := d.r.Perm(len(d.operators))
	short := d.r.IntN(4) == 0 // ends one share short
	at := d.r.IntN(m)         // where the fault happens
	for i, n := range order[:m] {
		if f.do != nil && i == at {
			_, refusal := d.e.ask("share", f.do(d, n))
			if !strings.Contains(refusal, f.code) || !strings.Contains(refusal, "operator "+strconv.Itoa(n+1)+":") {
				d.t.Fatalf("%s by operator %d: %q", f.name, n+1, refusal)
			}
			d.e.wants("seed")
		}
		if i == m-1 {
			d.e.wants("seed") // M-1 shares never start it
			if i > 0 && d.r.IntN(2) == 0 {
				again := order[d.r.IntN(i)] // nor does one of them twice
				d.e.give(again)
				d.e.wants("seed")
			}
			if short {
				return
			}
		}
		in := d.submit(d.e.setup(d.policy()), n, nil)
		got := d.e.mustAsk("share", in)
		if i < m-1 {
			var state struct{ Have []int }
			must(d.t, json.Unmarshal(got["shares"], &state))
			if len(state.Have) != i+1 {
				d.t.Fatalf("%d shares given, have %v", i+1, state.Have)
			}
			if _, refusal := d.e.ask("share", in); !strings.Contains(refusal, "SHARE_STALE") {
				d.t.Fatalf("a share was taken twice: %q", refusal)
			}
		}
	}
	d.e.wants("serving")
}
