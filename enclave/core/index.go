package core

import (
	"errors"
	"slices"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/insecure"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/query"
	"cloister/shared/wire"
)

// Sub-organizations are searched by their users' names and by addresses through
// an index that the host stores. It holds hashes, with a key per parent and kind, so the host
// learns which sub-organizations of one parent share a value and nothing else. If the host
// withholds rows a search finds less. A false row has no effect, since every
// sub-organization that a row names is opened and checked.

// indexKey is the key of a handle in the index of parent's sub-organizations.
func (s *serving) indexKey(parent org.ID, h org.Handle) org.Hash {
	return s.keyedHash(slices.Concat([]byte("cloister index 1"), parent[:], h.Bytes()))
}

// proxyKey is the key of the row from an auth proxy's configuration to its organization.
func (s *serving) proxyKey(config org.ID) org.Hash {
	return s.indexKey(org.ID{}, org.AuthProxyHandle(config))
}

// indexChanges returns an entry's changes of the index: in a top-level organization the rows
// of its auth proxy. An *org.Retry requests the pieces that show whether
// a dropped value still exists in another record.
func (s *serving) indexChanges(tx *org.Tx) ([]org.IndexChange, error) {
	o, err := tx.Organization()
	if err != nil || o == nil {
		return nil, err
	}
	var puts, drops []org.IndexChange
	if o.Parent.Zero() {
		tx.EachChangedAuthProxy(func(id org.ID, is bool) {
			puts = append(puts, org.IndexChange{Key: s.proxyKey(id), Rank: o.CreatedMs, Drop: !is})
		})
		return puts, nil
	}
	var seen map[org.Handle]bool // handles of a deleted organization
	if o.Deleted {
		seen = map[org.Handle]bool{}
	}
	change := func(h org.Handle, has bool) error {
		x := org.IndexChange{Key: s.indexKey(o.Parent, h), Rank: o.CreatedMs, Drop: !has || o.Deleted}
		if x.Drop {
			drops = append(drops, x)
		} else {
			puts = append(puts, x)
		}
		if o.Deleted {
			seen[h] = true
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
	// Drops that exceed an entry's limit are left out: the rows remain, and every search skips them.
	// The ledger refuses an entry whose puts exceed the limit.
	if free := max(wire.MaxIndex-len(puts), 0); len(drops) > free {
		drops = drops[:free]
	}
	return append(drops, puts...), nil
}

var _ query.Index = sources{} // about the sub-organizations of the queried organization

// Child reads the parent's newest state.
func (x sources) Child(id org.ID) (child *org.Child, err error) {
	err = x.call.WithLock(x.ctx, x.organization, func(t *ledger.Locked) (err error) {
		child, err = t.Begin(x.core.now()).Child(id)
		return err
	})
	return child, err
}

// Rows queries the host.
func (x sources) Rows(h org.Handle, before, after *org.Child, limit int) ([]org.Child, error) {
	rows, err := x.view.PageIndex(x.ctx, x.core.serving.indexKey(x.organization, h), childIndexRow(before), childIndexRow(after), limit)
	if err != nil {
		return nil, err
	}
	cs := make([]org.Child, len(rows))
	for i, r := range rows {
		cs[i] = org.Child{ID: r.ID, CreatedMs: r.Rank}
	}
	return cs, nil
}

func childIndexRow(c *org.Child) *ledger.IndexRow {
	if c == nil {
		return nil
	}
	return &ledger.IndexRow{Rank: c.CreatedMs, ID: c.ID}
}

// Has opens the sub-organization and looks for the handle. A deleted one has none. A host that
// names an organization which never was the parent's is detected.
func (x sources) Has(c *org.Child, h org.Handle) (has bool, err error) {
	var o *org.Organization
	err = x.call.WithLock(x.ctx, c.ID, func(t *ledger.Locked) (err error) {
		tx := t.Begin(x.core.now())
		if o, err = tx.Organization(); err == nil && !o.Deleted {
			has, err = tx.Has(h)
		}
		return err
	})
	switch {
	case errors.Is(err, ledger.ErrNoOrganization):
		return false, x.core.alarms.Breach(fault.AlarmIndex, "a row of no organization")
	case err != nil:
		return false, err
	case (o.Parent != x.organization || o.CreatedMs != c.CreatedMs) && !insecure.Skip(insecure.Answer):
		return false, x.core.alarms.Breach(fault.AlarmIndex, "a row of another organization")
	}
	return has, nil
}

// Identity verifies a token with its issuer's keys.
func (x sources) Identity(field, token string) (issuer, subject string, audiences []string, attempt org.Hash, err error) {
	i, err := x.call.lookups.Identity(x.ctx, x.record.Tenant(), field, token)
	if err != nil {
		return "", "", nil, org.Hash{}, err
	}
	return i.Issuer, i.Subject, i.Audiences, i.Attempt(), nil
}
