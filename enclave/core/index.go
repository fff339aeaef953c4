package core

import (
	"context"
	"errors"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/insecure"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/query"
	"cloister/shared/wire"
)

// Sub-organizations are searched by their users' names and by addresses through
// an index that the host keeps. It holds keyed hashes, keyed apart by parent and
// kind, so the host learns which sub-organizations of one parent share a value
// and nothing else. It may lose rows or keep them back, and then a search finds
// less; a row that is not true finds nothing, since every sub-organization that
// it names is opened and asked.

// indexKey is the key of a handle in the index of parent's sub-organizations.
func (s *serving) indexKey(parent org.ID, h org.Handle) (key org.Hash) {
	m := s.blind()
	m.Write([]byte("cloister index 1"))
	m.Write(parent[:])
	m.Write(h.Bytes())
	m.Sum(key[:0])
	return key
}

// indexChanges is what the step's entry must change in the index: the way to its
// auth proxy in a top-level organization, all that is left to drop when the organization is
// deleted. An *org.Missing must be handed up: it asks for the pieces that tell
// whether something dropped is still there in another record.
func (s *serving) indexChanges(tx *org.Tx) ([]org.IndexChange, error) {
	o, err := tx.Organization()
	if err != nil || o == nil {
		return nil, err
	}
	if o.Parent.Zero() {
		return s.proxyChanges(tx, o), nil
	}
	var puts, drops []org.IndexChange
	var seen map[org.Handle]bool
	if o.Deleted {
		seen = map[org.Handle]bool{}
	}
	change := func(h org.Handle, has bool) error {
		if o.Deleted {
			seen[h] = true
		}
		x := org.IndexChange{Key: s.indexKey(o.Parent, h), Rank: o.CreatedMs, Drop: !has || o.Deleted}
		if x.Drop {
			drops = append(drops, x)
		} else {
			puts = append(puts, x)
		}
		return nil
	}
	if err := tx.EachChangedHandle(change); err != nil {
		return nil, err
	}
	if o.Deleted {
		err := tx.EachHandle(func(h org.Handle) bool {
			if !seen[h] {
				_ = change(h, false)
			}
			return len(drops) < wire.MaxIndex
		})
		if err != nil {
			return nil, err
		}
	}
	// What an entry has no room to drop stays behind and is passed over by every
	// search; what it has no room to put is refused by the ledger.
	if room := max(wire.MaxIndex-len(puts), 0); len(drops) > room {
		drops = drops[:room]
	}
	return append(drops, puts...), nil
}

// proxyChanges are the rows that lead from configurations of the auth proxy to
// their organization. They stand under no parent.
func (s *serving) proxyChanges(tx *org.Tx, o *org.Organization) (xs []org.IndexChange) {
	tx.EachChangedAuthProxy(func(id org.ID, is bool) {
		xs = append(xs, org.IndexChange{Key: s.indexKey(org.ID{}, org.AuthProxyHandle(id)), Rank: o.CreatedMs, Drop: !is})
	})
	return xs
}

// findProxy asks the host for such a row.
func (s *serving) findProxy(ctx context.Context, config org.ID) ([]ledger.IndexRow, error) {
	return s.Ranges.PageIndex(ctx, s.indexKey(org.ID{}, org.AuthProxyHandle(config)), 1)
}

// suborgIndex is query.Index for one query: about the sub-organizations of the
// organization that is read.
type suborgIndex struct {
	ctx     context.Context
	reading *reading
}

// Child reads the parent's newest state.
func (x suborgIndex) Child(id org.ID) (child *org.Child, err error) {
	err = x.reading.visit.Turn(x.ctx, x.reading.id, func(t *ledger.Turn) (err error) {
		child, err = org.Begin(t.ID(), t.State, x.reading.core.now()).Child(id)
		return err
	})
	return child, err
}

// Rows asks the host.
func (x suborgIndex) Rows(h org.Handle, before, after *org.Child, limit int) ([]org.Child, error) {
	rows, err := x.reading.view.PageIndex(x.ctx, x.reading.core.serving.indexKey(x.reading.id, h), place(before), place(after), limit)
	if err != nil {
		return nil, err
	}
	cs := make([]org.Child, len(rows))
	for i, r := range rows {
		cs[i] = org.Child{ID: r.ID, CreatedMs: r.Rank}
	}
	return cs, nil
}

func place(c *org.Child) *ledger.IndexRow {
	if c == nil {
		return nil
	}
	return &ledger.IndexRow{Rank: c.CreatedMs, ID: c.ID}
}

// Has opens the sub-organization and looks. One that was deleted has nothing any
// more; a host that names an organization which never was the parent's is caught.
func (x suborgIndex) Has(c *org.Child, h org.Handle) (has bool, err error) {
	var o *org.Organization
	err = x.reading.visit.Turn(x.ctx, c.ID, func(t *ledger.Turn) (err error) {
		tx := org.Begin(t.ID(), t.State, x.reading.core.now())
		if o, err = tx.Organization(); err == nil && !o.Deleted {
			has, err = tx.Has(h)
		}
		return err
	})
	switch {
	case errors.Is(err, ledger.ErrNoOrganization):
		return false, x.breach("a row of no organization")
	case err != nil:
		return false, err
	case (o.Parent != x.reading.id || o.CreatedMs != c.CreatedMs) && !insecure.Skip(insecure.Answer):
		return false, x.breach("a row of another organization")
	}
	return has, nil
}

// Identity is the core's, as queries want it.
func (x suborgIndex) Identity(field, token string) (issuer, subject string, audiences []string, err error) {
	i, err := x.reading.visit.lookups.Identity(x.ctx, x.reading.payer, field, token)
	if err != nil {
		return "", "", nil, err
	}
	return i.Issuer, i.Subject, i.Audiences, nil
}

func (x suborgIndex) breach(text string) error {
	x.reading.core.alarms.Raise(fault.AlarmIndex)
	return fault.NewBreach(fault.AlarmIndex, "%s", text)
}

var _ query.Index = suborgIndex{}
