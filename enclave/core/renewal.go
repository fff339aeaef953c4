package core

import (
	"sync"
	"sync/atomic"
	"time"
)

// renewAfter is the age from which an attestation document is replaced at the next
// look at it. The module's certificates last about three hours, and hosts hold one of
// that age for a failure.
const renewAfter = time.Hour

// renewPause is how long after an attempt that failed the next one comes.
const renewPause = time.Minute

// A bootProof is an attestation document of the live key with what belongs to it, as
// JSON.
type bootProof struct {
	json []byte
	at   time.Time // on the enclave's clock
}

// bootProofOf is the boot proof of this boot, made anew while the enclave serves: live
// key, manifest and registers stay the same, and an older proof stays as good as it
// was. A module that fails leaves the proof that there is.
type bootProofOf struct {
	make func(now time.Time) ([]byte, error)

	kept atomic.Pointer[bootProof]
	mu   sync.Mutex // held by who makes one; nobody waits for it
	last time.Time  // when that was tried last
}

// first makes the proof that the boot begins with.
func (b *bootProofOf) first(now time.Time) error {
	text, err := b.make(now)
	if err == nil {
		b.kept.Store(&bootProof{text, now})
	}
	return err
}

// current is the proof as it stands.
func (b *bootProofOf) current(now time.Time) *bootProof {
	p := b.kept.Load()
	if now.Sub(p.at) < renewAfter || !b.mu.TryLock() {
		return p
	}
	defer b.mu.Unlock()
	if p = b.kept.Load(); now.Sub(p.at) < renewAfter || !b.last.IsZero() && now.Sub(b.last) < renewPause {
		return p
	}
	b.last = now
	if b.first(now) != nil {
		return p // the age that status tells shows it
	}
	return b.kept.Load()
}
