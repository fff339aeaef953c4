package monitor_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"cloister/attestation/monitor"
	"cloister/attestation/tlog"
	"cloister/attestation/tlog/tlogtest"
	"cloister/sim/witness"
)

// A way leads to the witnesses of the stored manifest: to real ones on this machine, whose keys are others. Nobody looks
// at their signatures here.
type way struct{ to witness.Locals }

func (w way) RoundTrip(r *http.Request) (*http.Response, error) {
	var n int
	if _, err := fmt.Sscanf(r.URL.Host, "w%d.example", &n); err != nil || r.URL.Scheme != "https" {
		return nil, fmt.Errorf("nobody is at %s", r.URL)
	}
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host, r.Host = "http", strings.TrimPrefix(w.to[n-1].URL, "http://"), ""
	return http.DefaultTransport.RoundTrip(r)
}

// show brings a witness the log up to a size.
func show(t *testing.T, l *witness.Local, w *tlogtest.World, old, size uint64) {
	t.Helper()
	body := fmt.Appendf(nil, "old %d\n", old)
	for _, hash := range w.Tree.Consistency(old, size) {
		body = fmt.Appendf(body, "%s\n", b64(hash))
	}
	r, err := http.Post(l.URL+"/add-checkpoint", "text/plain", bytes.NewReader(append(append(body, '\n'), w.Checkpoint(size)...)))
	must(t, err)
	defer r.Body.Close()
	if answer, err := io.ReadAll(r.Body); err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%d %s %v", r.StatusCode, answer, err)
	}
}

func TestWitnesses(t *testing.T) {
	o := newOwner(t)
	for range 4 {
		o.decide()
	}
	all, err := witness.StartLocals(witness.LocalsOptions{Name: "w", Count: 4, Rand: rand.Reader, Now: func() time.Time { return o.now }})
	must(t, err)
	defer all.Stop()
	must(t, all.Add(o.world.Log.Key))
	o.via = way{all}
	size := o.world.Tree.Size()
	for _, w := range all {
		show(t, w, o.world, 0, size)
	}
	o.expect("log", 5)
	o.world.Grow(size + 5) // the witnesses are behind what is shown: a round may be under way
	o.expect("", 0)

	// The host shows an old head, and a witness knows better.
	o.head = size + 2
	show(t, all[2], o.world, size, size+5)
	o.expect("head-back", 0)
	o.kept = monitor.State{}
	o.expect("log witness-ahead head-old", 5)
	if e := o.events[len(o.events)-2]; e.Witness != "w3.example" || !e.Alert || !strings.Contains(e.Text, fmt.Sprint(size+5)) || e.Size != size+2 {
		t.Errorf("%+v", e)
	}
	o.head = 0
	o.expect("", 0)

	all[0].Stop()
	o.expect("witness-away", 0)
	if e := o.events[0]; e.Alert || e.Witness != "w1.example" {
		t.Errorf("%+v", e)
	}
	must(t, all[0].Start())
	all[1].Forget()
	o.expect("witness-lost", 0)
	if e := o.events[0]; !e.Alert || e.Witness != "w2.example" {
		t.Errorf("%+v", e)
	}
	o.expect("", 0) // it signed what it was shown, as if it had never seen the log

	// A log that nobody told the witnesses of.
	o.begin(2, o.adopt(tlog.HowMoved, 0))
	o.decide()
	o.expect("log witness-lost witness-lost witness-lost witness-lost", 1)
}

// What is no answer of a witness says nothing of what it has seen.
func TestWitnessesThatTalkNonsense(t *testing.T) {
	o := newOwner(t)
	o.expect("log", 1)
	for name, answer := range map[string]string{"nothing": "", "no number": "many\n", "no newline": "9", "a sign": "+9\n", "too much": "9223372036854775808\n", "two": "9\n9\n"} {
		o.via = say{http.StatusConflict, answer}
		if kinds, _, err := o.runOnce(); err != nil || kinds != "witness-away witness-away witness-away witness-away" {
			t.Errorf("%s: %q, %v", name, kinds, err)
		}
	}
	for _, status := range []int{400, 403, 422, 500, 301} {
		o.via = say{status, "9\n"}
		if kinds, _, err := o.runOnce(); err != nil || kinds != "witness-away witness-away witness-away witness-away" {
			t.Errorf("%d: %q, %v", status, kinds, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if o.monitor().Poll(ctx) == nil {
		t.Error("a turn that was called off is whole")
	}
}

// A say answers everybody alike.
type say struct {
	status int
	body   string
}

func (s say) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: s.status, Body: io.NopCloser(strings.NewReader(s.body))}, nil
}
