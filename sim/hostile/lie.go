// Package hostile is a host as an attacker would write it: a proxy between host
// and enclave that reads and rewrites the frames of every role, a store that
// answers with lies, and raw connections that keep no rule.
//
// Nothing here checks anything. What an attack must not achieve, and which alarm
// of the enclave must count it, stands in the tests: one table of attacks, each
// made many times against a running enclave, and a second run of the same table
// in a build that can switch checks off, where the attacks succeed.
package hostile

import (
	"fmt"
	"sync"

	"cloister/shared/wire"
)

// A Lie changes the answer to a question before the enclave sees it. The
// question is a message of package wire, the answer a pointer to one. It tells
// whether it changed anything.
type Lie func(question, answer any) bool

// A Liar tells at most one lie at a time. The zero value tells the truth.
type Liar struct {
	mu   sync.Mutex
	lie  Lie
	told int
}

// Arm makes l tell this lie from now on.
func (l *Liar) Arm(lie Lie) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lie, l.told = lie, 0
}

// Disarm makes l honest.
func (l *Liar) Disarm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lie = nil
}

// Told is how many answers were changed since Arm.
func (l *Liar) Told() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told
}

// tell runs one lie at a time, so that a lie may keep notes.
func (l *Liar) tell(question, answer any) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lie == nil || !l.lie(question, answer) {
		return false
	}
	l.told++
	return true
}

// messages makes an empty message of each kind.
var messages = map[wire.Kind]func() any{
	wire.KindCall: blank[wire.Call], wire.KindReply: blank[wire.Reply],
	wire.KindOwn: blank[wire.Own], wire.KindOwned: blank[wire.Owned],
	wire.KindBatch: blank[wire.Batch], wire.KindStored: blank[wire.Stored],
	wire.KindLoadOrganization: blank[wire.LoadOrganization], wire.KindOrganization: blank[wire.Organization],
	wire.KindLoadEntries: blank[wire.LoadEntries], wire.KindEntries: blank[wire.Entries],
	wire.KindLoadPieces: blank[wire.LoadPieces], wire.KindPieces: blank[wire.Pieces],
	wire.KindFind: blank[wire.Find], wire.KindPage: blank[wire.Page], wire.KindProven: blank[wire.Proven],
	wire.KindPageIndex: blank[wire.PageIndex], wire.KindIndexRows: blank[wire.IndexRows],
	wire.KindLoadObject: blank[wire.LoadObject], wire.KindObject: blank[wire.Object],
	wire.KindLoadKeys: blank[wire.LoadKeys], wire.KindKeys: blank[wire.Keys], wire.KindPutKeys: blank[wire.PutKeys],
	wire.KindPutSnapshot: blank[wire.PutSnapshot], wire.KindPutObject: blank[wire.PutObject], wire.KindDone: blank[wire.Done],
	wire.KindFailed:   blank[wire.Failed],
	wire.KindOpenSend: blank[wire.AboutSend], wire.KindOpened: blank[wire.Opened],
	wire.KindSends: blank[wire.Sends], wire.KindSendStates: blank[wire.SendStates],
	wire.KindChain: blank[wire.Chain], wire.KindChainState: blank[wire.ChainState],
}

func blank[M any]() any { return new(M) }

// Decode reads the payload of a frame as the message of its kind; the result is
// a pointer to it.
func Decode(kind wire.Kind, payload []byte) (any, error) {
	m := messages[kind]
	if m == nil {
		return nil, fmt.Errorf("kind %d carries no message", kind)
	}
	v := m()
	return v, wire.Unmarshal(payload, v)
}

// value is the message behind a pointer that Decode returned, as a store's
// method would be given it.
func value(p any) any {
	switch q := p.(type) {
	case *wire.Own:
		return *q
	case *wire.LoadOrganization:
		return *q
	case *wire.LoadEntries:
		return *q
	case *wire.LoadPieces:
		return *q
	case *wire.Find:
		return *q
	case *wire.Page:
		return *q
	case *wire.PageIndex:
		return *q
	case *wire.LoadObject:
		return *q
	case *wire.LoadKeys:
		return *q
	case *wire.PutKeys:
		return *q
	case *wire.PutSnapshot:
		return *q
	case *wire.PutObject:
		return *q
	case *wire.Sends:
		return *q
	case *wire.Chain:
		return *q
	}
	return p
}
