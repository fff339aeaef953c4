package ledger_test

import (
	"bytes"
	"testing"

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
	if len(stored.Sends) != 2 || stored.Sends[0] != (wire.SendMark{Kind: wire.SendTransaction, DueMs: 5}) || stored.Sends[1] != (wire.SendMark{Kind: 7, DueMs: 6}) {
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
