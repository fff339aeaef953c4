package rig

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"cloister/host/cosign"
	"cloister/host/store"
	"cloister/host/witness"
	"cloister/sim/laptop"
)

// witnessWait is how long witnesses have for a round.
const witnessWait = time.Second

// NewCosigner is what brings the logs of a store to witnesses, as a host has it. It ends with the test at the latest.
func NewCosigner(t testing.TB, s store.Store, pause func(context.Context, time.Duration)) (c *cosign.Cosigner, end func()) {
	t.Helper()
	transport := witness.NewTransport(nil)
	c, err := cosign.New(cosign.Options{Store: s, Checkpoints: s, Transport: transport, Timeout: witnessWait, Log: slog.New(slog.DiscardHandler), Now: time.Now, Pause: pause})
	if err != nil {
		t.Fatal(err)
	}
	end = func() { c.Close(); transport.CloseIdleConnections() }
	t.Cleanup(end)
	return c, end
}

const followAgain = 50 * time.Millisecond

// Follow has the witnesses know the logs of the enclave at an address, until ctx ends.
func (w *Witnesses) Follow(ctx context.Context, t testing.TB, address string) {
	for ctx.Err() == nil { // others come when the manifest after this one has other terms
		if err := laptop.FollowLogs(ctx, address, w.Add); err != nil {
			t.Errorf("witnesses: %v", err)
			return
		}
		laptop.Pause(ctx, followAgain)
	}
}
