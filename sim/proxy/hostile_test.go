package proxy_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"cloister/host/store"
	"cloister/host/store/sqlite"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// liar is a store whose index says what a test wants.
type liar struct {
	store.Store
	mu  sync.Mutex
	lie func(wire.IndexRows) wire.IndexRows
}

func (l *liar) PageIndex(ctx context.Context, ask wire.PageIndex) (wire.IndexRows, error) {
	rows, err := l.Store.PageIndex(ctx, ask)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lie != nil && err == nil {
		rows = l.lie(rows)
	}
	return rows, err
}

func (l *liar) says(lie func(wire.IndexRows) wire.IndexRows) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lie = lie
}

// The host leads from a configuration to its organization: it can hide the way, and
// lead to no other.
func TestHostCannotLeadElsewhere(t *testing.T) {
	dir := t.TempDir()
	var l *liar
	open := func() *liar {
		s, err := sqlite.Open(t.Context(), filepath.Join(dir, "cloister.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		l = &liar{Store: s}
		return l
	}
	start := func() *world {
		return newWorld(t, rig.Options{Dir: dir, Store: open(), Rates: unlimited, Organizations: 1})
	}
	w := start()
	other := enabled(w.other())
	var theirs wire.IndexRows
	l.says(func(rows wire.IndexRows) wire.IndexRows { theirs = rows; return rows })
	if r := w.post("wallet_kit_config", "{}", configHeader, other); r.Status != 200 || len(theirs.Rows) != 1 {
		t.Fatal(r, theirs)
	}
	unheard := theirs.Rows[0]
	unheard.Organization = wire.ID{0x6b, 0xa7, 0xb8, 0x10, 0x9d, 0xad, 0x41, 0xd1, 0x80, 0xb4}
	for _, c := range []struct {
		what   string
		lie    func(wire.IndexRows) wire.IndexRows
		status int
	}{
		{"hidden", func(wire.IndexRows) wire.IndexRows { return wire.IndexRows{} }, 403},
		{"another organization that has a proxy", func(wire.IndexRows) wire.IndexRows { return theirs }, 403},
		{"an organization that is none", func(wire.IndexRows) wire.IndexRows { return wire.IndexRows{Rows: []wire.IndexRow{unheard}} }, 503},
		{"more rows than asked for", func(r wire.IndexRows) wire.IndexRows {
			return wire.IndexRows{Rows: append(append([]wire.IndexRow{}, r.Rows...), theirs.Rows...)}
		}, 503},
	} {
		w.Kill() // what was found once is remembered
		w = start()
		l.says(c.lie)
		if r := w.ask("wallet_kit_config", "{}"); r.Status != c.status {
			t.Errorf("%s: %v", c.what, r)
		}
		l.says(nil)
		if got := client.Text(w.ok("wallet_kit_config", "{}"), "organizationId"); got != w.root.Organization {
			t.Errorf("%s: then %s", c.what, got)
		}
		// Once known it is not asked for again.
		l.says(func(wire.IndexRows) wire.IndexRows { return theirs })
		if got := client.Text(w.ok("wallet_kit_config", "{}"), "organizationId"); got != w.root.Organization {
			t.Errorf("%s: at last %s", c.what, got)
		}
	}
	if w.Counters()["alarm_index"] == 0 {
		t.Errorf("no alarm: %v", w.Counters())
	}
}
