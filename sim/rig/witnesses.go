package rig

import (
	"crypto/rand"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/attestation/tlog"
	"cloister/sim/witness"
)

// LogName begins the origins of a rig's logs.
const LogName = "cloister"

// WitnessOptions are how many witnesses there are and what they are for. The zero value is four of which three make a
// quorum, though one of them lies, in bounded mode.
type WitnessOptions struct {
	Count, Quorum, Tolerates int       // 0: 4, 3 and 1, if Count is 0
	Mode                     tlog.Mode // ModeNone: ModeBounded
	Serve, Bound             time.Duration
	// Dir has their keys and what they signed; empty: in memory.
	Dir string
}

// Witnesses are on loopback and real, but for what a test makes them do: Lie, Forget, Delay, Stop, Start. They know the logs of
// every rig that they are given to.
type Witnesses struct {
	witness.Locals
	Terms attestation.LogTerms // as manifests have them
}

// StartWitnesses starts witnesses. They stop with the test.
func StartWitnesses(t testing.TB, o WitnessOptions) *Witnesses {
	t.Helper()
	if o.Count == 0 {
		o.Count, o.Quorum, o.Tolerates = 4, 3, 1
	}
	if o.Mode == tlog.ModeNone {
		o.Mode = tlog.ModeBounded
	}
	if o.Serve == 0 {
		o.Serve = 2 * time.Second
	}
	if o.Bound == 0 && o.Mode == tlog.ModeBounded {
		o.Bound = 2 * time.Second
	}
	all, err := witness.StartLocals(witness.LocalsOptions{Name: "rig-", Count: o.Count, Dir: o.Dir, Rand: rand.Reader, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(all.Stop)
	return &Witnesses{all, attestation.LogTerms{Name: LogName, Policy: all.Policy(o.Quorum), Tolerates: o.Tolerates, Mode: o.Mode.String(),
		ServeMs: uint64(o.Serve.Milliseconds()), BoundMs: uint64(o.Bound.Milliseconds())}}
}
