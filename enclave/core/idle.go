package core

import (
	"context"
	"runtime"
	"time"
)

// Why an idle enclave collects garbage: secret.Secret and runtime/secret erase what they know
// of at once. What libraries allocate while they use a key (a parsed P-256 scalar, the blocks
// of PBKDF2, an expanded ed25519 seed) is erased when a collection frees it. A busy enclave
// collects anyway; an idle one would keep the remains for up to two minutes.
const (
	// idleStep without a call makes the enclave idle: it collects 0.5 to 1 s after the last.
	idleStep = 500 * time.Millisecond
	// idleCollections free what a sync.Pool holds (for two collections) and what waits for a
	// cleanup or finalizer.
	idleCollections = 3
)

// noteWork notes that a call used keys or may have.
func (c *Core) noteWork() {
	c.calls.Add(1)
	select {
	case c.active <- struct{}{}:
	default:
	}
}

// collectWhenIdle collects once behind every stretch of calls, until ctx ends.
func (c *Core) collectWhenIdle(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.active:
		}
		for before := uint64(0); before != c.calls.Load(); {
			select {
			case <-c.active: // this call is counted below
			default:
			}
			before = c.calls.Load()
			select {
			case <-ctx.Done():
				return
			case <-c.cfg.Clock.After(idleStep):
			}
		}
		for range idleCollections {
			runtime.GC()
		}
	}
}
