package proxy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"cloister/enclave/core"
	"cloister/host/store"
	"cloister/host/store/sqlite"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/hostile"
	"cloister/sim/rig"
)

// A pending passcode is one that was sent and not yet verified.
type pending struct{ otp, code string }

func (p *post) pending(n int) (all []pending) {
	p.t.Helper()
	for i := range n {
		otp, code := p.passcode(fmt.Sprintf("s%d@example.org", i))
		all = append(all, pending{otp, code})
	}
	return all
}

// guess uses up tries of each.
func (p *post) guess(all []pending, tries int) {
	p.t.Helper()
	for _, x := range all {
		for range tries {
			p.refused("a guess", p.try(x.otp, "AAAAAA"), 400, "Invalid OTP code")
		}
	}
}

func (p *post) try(otp, code string) *reply {
	p.t.Helper()
	return p.ask("otp_verify", object{"otpId": otp, "otpCode": code})
}

// A restart gives no tries: what was sent before it is refused, as are the tokens.
func TestRestartGivesNoTries(t *testing.T) {
	p := newPost(t)
	all := p.pending(50)
	p.guess(all[:25], 2)
	p.guess(all[25:], 3)
	const holder = "holder@example.org"
	p.signsUp(holder)
	token := p.token(holder)
	p.Stop()
	p.restarted()
	for _, x := range all {
		p.refused("a code of the boot before", p.try(x.otp, x.code), 400, "Invalid OTP code")
	}
	for range 50 {
		p.refused("a token of the boot before", p.ask("otp_login", object{"verificationToken": token, "publicKey": client.NewKey().PublicKey}), 400, "verification token has expired")
	}
	p.token("s0@example.org") // who asks again is sent another
	t.Logf("refused: %d codes and one token 50 times, after a restart", len(all))
}

// copied is the store as it stands.
func (p *post) copied() string {
	p.t.Helper()
	to := p.t.TempDir()
	for _, name := range []string{"cloister.db", "cloister.db-wal"} {
		b, err := os.ReadFile(filepath.Join(p.Dir.Path, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), b, 0o600)
		}
		if err != nil {
			p.t.Fatal(err)
		}
	}
	return filepath.Join(to, "cloister.db")
}

func (p *post) open(path string) store.Store {
	p.t.Helper()
	s, err := sqlite.Open(p.t.Context(), path)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = s.Close() })
	return s
}

// shows answers what is loaded from another store.
func shows(old store.Store) hostile.Deed {
	return func(ctx context.Context, question any) (any, error, bool) {
		switch q := question.(type) {
		case wire.LoadOrganization:
			a, err := old.LoadOrganization(ctx, q)
			return a, err, true
		case wire.LoadEntries:
			a, err := old.LoadEntries(ctx, q)
			return a, err, true
		case wire.LoadPieces:
			a, err := old.LoadPieces(ctx, q)
			return a, err, true
		}
		return nil, nil, false
	}
}

// A host that shows the store as it was before the tries: within the boot the ledger
// sees it, and to the next boot the codes are those of another.
func TestRollbackGivesNoTries(t *testing.T) {
	dir := t.TempDir()
	honest, err := sqlite.Open(t.Context(), filepath.Join(dir, "cloister.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = honest.Close() })
	s := hostile.NewStore(honest)
	// The enclave has room for one organization: each call of another makes it load.
	p := startPost(t, rig.Options{Dir: dir, Store: s, Organizations: 1, Limits: core.Limits{StateBytes: 1}})
	other := p.other()
	all := p.pending(50)
	before := p.copied()
	p.guess(all, 3)
	old := p.open(before)
	var loaded atomic.Int64
	for _, x := range all {
		s.Do(nil)
		other.Read("whoami", nil)
		s.Do(func(ctx context.Context, question any) (any, error, bool) {
			if _, ok := question.(wire.LoadOrganization); ok {
				loaded.Add(1)
			}
			return shows(old)(ctx, question)
		})
		if r := p.try(x.otp, x.code); r.Status == 200 {
			t.Errorf("a code whose tries were rolled back: %s", r)
		}
	}
	s.Do(nil)
	alarms := p.Counters()["alarm_tip"]
	if loaded.Load() == 0 || alarms == 0 {
		t.Errorf("the old store was shown %d times, %d alarms", loaded.Load(), alarms)
	}
	for _, x := range all {
		p.refused("from the store as it is", p.try(x.otp, x.code), 400, "Invalid OTP code")
	}
	p.Kill()
	p.options.Store = p.open(before)
	p.restarted()
	for _, x := range all {
		p.refused("from the old store, to a new boot", p.try(x.otp, x.code), 400, "Invalid OTP code")
	}
	t.Logf("refused: %d codes with the old store under a running enclave, which was shown %d times (%d alarms), and as many under the next boot", len(all), loaded.Load(), alarms)
}
