package witness_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	hosts "cloister/host/witness"
	"cloister/sim/witness/witnesstest"
)

// A host's client and four witnesses, of which it takes three: rounds one after the other as a log makes them, each judged by
// the policy; then while one after the other is killed, is away for some rounds, and starts again.
func TestRounds(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: rounds of witnesses that are slow in real time")
	}
	const measured, killed = 300, 40
	for name, starters := range map[string][]witnesstest.Starter{
		"ours": {witnesstest.Ours, witnesstest.Ours, witnesstest.Ours, witnesstest.Ours},
		"real": {witnesstest.Litewitness, witnesstest.Omniwitness, witnesstest.Litewitness, witnesstest.Omniwitness},
	} {
		t.Run(name, func(t *testing.T) {
			l := witnesstest.NewLog(originOf("rounds")).Grow(20_000)
			var ps []*witnesstest.Program
			for i, start := range starters {
				ps = append(ps, start(t, fmt.Sprintf("w%d.example", i), l.Key))
			}
			came := make(chan hosts.Cosignature, 4*20_000)
			transport := hosts.NewTransport(nil)
			defer transport.CloseIdleConnections()
			policy := policyOf(t, 3, ps...)
			c, err := hosts.New(hosts.Options{Policy: policy, Transport: transport, Timeout: time.Minute, Now: time.Now,
				Cosigned: func(c hosts.Cosignature) { came <- c },
				Pause: func(ctx context.Context, d time.Duration) {
					select {
					case <-ctx.Done():
					case <-time.After(d):
					}
				}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { c.Run(ctx); close(ended) }()
			defer func() { stop(); <-ended }()

			// round gives the time until the quorum was there.
			size := uint64(0)
			round := func(needed int) time.Duration {
				size += 1 + size%7
				note := l.Checkpoint(size)
				began := time.Now()
				if err := c.Send(note, l.ProveTo(size)); err != nil {
					t.Fatal(err)
				}
				cosigned := bytes.Clone(note)
				for n := 0; n < needed; {
					select {
					case s := <-came:
						if s.Size == size {
							cosigned, n = append(cosigned, s.Line...), n+1
						}
					case <-time.After(time.Minute):
						t.Fatalf("no quorum at %d: %+v", size, c.Statuses())
					}
				}
				took := time.Since(began)
				if _, _, err := policy.Verify(l.Key, cosigned); err != nil {
					t.Fatal(err)
				}
				return took
			}
			round(4)
			var took []time.Duration
			for range measured {
				took = append(took, round(3))
			}
			slices.Sort(took)
			t.Logf("counted: 3 of 4 witnesses (%s), %d rounds: p50 %.1f, p90 %.1f, p99 %.1f ms", name, measured,
				ms(took[measured/2]), ms(took[measured*9/10]), ms(took[measured*99/100]))

			for i, p := range ps {
				p.Kill()
				for range killed {
					round(3)
				}
				p.Start()
				for c.Statuses()[i].Size < size { // it is asked from where it was, and is there again
					round(3)
					time.Sleep(5 * time.Millisecond)
				}
				round(4)
			}
		})
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
