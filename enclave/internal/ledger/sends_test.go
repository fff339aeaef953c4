package ledger_test

import (
	"bytes"
	"testing"

	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// TestSendsAreNamed: the batch tells of a send that it is there and when it is due;
// what it is lies sealed in the entry.
func TestSendsAreNamed(t *testing.T) {
	s := newStore()
	r := start(t, s, nil)
	r.found(orgID(1))
	content := []byte("what must go out, which nobody may read")
	e := &org.Entry{TimeMs: 2, Sends: []org.Send{{Kind: org.SendTransaction, DueMs: 5, ExpiresMs: 9, Content: content}, {Kind: 7, DueMs: 6, Content: content}}}
	batch, err := r.step(orgID(1), e, nil)
	if err == nil {
		err = r.l.Wait(ctx(t), batch)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	stored := s.orgs[wire.ID(orgID(1))].entries[1]
	s.mu.Unlock()
	payer := wire.ID(orgID(1))
	if len(stored.Sends) != 2 || stored.Sends[0] != (wire.SendMark{Kind: wire.SendTransaction, DueMs: 5, Payer: payer}) || stored.Sends[1] != (wire.SendMark{Kind: 7, DueMs: 6, Payer: payer}) {
		t.Errorf("marks %+v", stored.Sends)
	}
	if b, err := wire.Marshal(&stored); err != nil || bytes.Contains(b, content[:10]) {
		t.Errorf("it can be read: %v", err)
	}
	back, err := r.view(orgID(1)).Entry(ctx(t), 1)
	if err != nil || len(back.Sends) != 2 || !bytes.Equal(back.Sends[0].Content, content) || back.Sends[0].ExpiresMs != 9 {
		t.Errorf("%+v, %v", back, err)
	}
	if _, err := r.step(orgID(1), &org.Entry{TimeMs: 3, Sends: make([]org.Send, wire.MaxSends+1)}, nil); err == nil {
		t.Error("too many sends stand")
	}
	r.quiet()
}

// TestSendsNameTheTenant: who pays for a sub-organization's sends is its parent, from its making on and when it was loaded.
func TestSendsNameTheTenant(t *testing.T) {
	s := newStore()
	r := start(t, s, nil)
	tenant, below := orgID(1), orgID(2)
	r.found(tenant)
	err := r.l.TransactOne(ctx(t), tenant, func(tn *ledger.Locked) error {
		c := r.child(below, tenant)
		batch, err := tn.Append(&org.Entry{TimeMs: 1}, nil, ledger.Addition{Child: c, Tx: c.Tx(), Entry: &org.Entry{TimeMs: 1}})
		if err != nil {
			return err
		}
		return r.l.Wait(ctx(t), batch)
	})
	if err != nil {
		t.Fatal(err)
	}
	sends := func(id org.ID) {
		t.Helper()
		batch, err := r.step(id, &org.Entry{TimeMs: 2, Sends: []org.Send{{Kind: org.SendMail, DueMs: 5, Content: []byte("mail")}}}, nil)
		if err == nil {
			err = r.l.Wait(ctx(t), batch)
		}
		if err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		entries := s.orgs[wire.ID(id)].entries
		if got := entries[len(entries)-1].Sends; len(got) != 1 || got[0].Payer != wire.ID(tenant) {
			t.Errorf("marks %+v", got)
		}
	}
	sends(tenant)
	sends(below)
	r.quiet()
	r.l.Close()
	r = start(t, s, nil)
	sends(tenant)
	sends(below)
	r.quiet()
}
