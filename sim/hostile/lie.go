// Package hostile is a host as an attacker would write it: a proxy between host and enclave that reads and
// rewrites the frames of every role, a store that answers with lies, and raw connections that keep no rule.
//
// The tests hold one table of attacks, and which alarm of the enclave must count each. Every attack is made
// many times against a running enclave, and again in a build that can switch checks off, where it succeeds.
package hostile

import (
	"fmt"
	"sync"

	"cloister/shared/wire"
)

// A Lie changes the answer to a question before the enclave sees it. The question is a message of package
// wire, the answer a pointer to one. It tells whether it changed anything.
type Lie func(question, answer any) bool

// A Liar tells at most one lie at a time. The zero value tells the truth.
type Liar struct {
	mu      sync.Mutex
	lie     Lie
	changed int
}

// Arm makes l tell this lie from now on.
func (l *Liar) Arm(lie Lie) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lie, l.changed = lie, 0
}

// Disarm makes l honest.
func (l *Liar) Disarm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lie = nil
}

// CountChanged is how many answers were changed since Arm.
func (l *Liar) CountChanged() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// tell runs one lie at a time, so that a lie may keep notes.
func (l *Liar) tell(question, answer any) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lie == nil || !l.lie(question, answer) {
		return false
	}
	l.changed++
	return true
}

// A form is what a message of one kind is read into, and what a store's method would be given of it.
type form struct {
	empty func() any
	value func(message any) any
}

// byPointer is the form of messages that stores are given by pointer, or not at all.
func byPointer[M any]() form {
	return form{func() any { return new(M) }, func(m any) any { return m }}
}

// byValue is the form of questions that stores are given as they are.
func byValue[M any]() form {
	return form{func() any { return new(M) }, func(m any) any { return *m.(*M) }}
}

var forms = map[wire.Kind]form{
	wire.KindCall: byPointer[wire.Call](), wire.KindReply: byPointer[wire.Reply](),
	wire.KindOwn: byValue[wire.Own](), wire.KindOwned: byPointer[wire.Owned](),
	wire.KindBatch: byPointer[wire.Batch](), wire.KindStored: byPointer[wire.Stored](),
	wire.KindLoadOrganization: byValue[wire.LoadOrganization](), wire.KindOrganization: byPointer[wire.Organization](),
	wire.KindLoadEntries: byValue[wire.LoadEntries](), wire.KindEntries: byPointer[wire.Entries](),
	wire.KindLoadPieces: byValue[wire.LoadPieces](), wire.KindPieces: byPointer[wire.Pieces](),
	wire.KindFind: byValue[wire.Find](), wire.KindPage: byValue[wire.Page](), wire.KindProven: byPointer[wire.Proven](),
	wire.KindPageIndex: byValue[wire.PageIndex](), wire.KindIndexRows: byPointer[wire.IndexRows](),
	wire.KindCountActivities: byValue[wire.CountActivities](), wire.KindActivityCounts: byPointer[wire.ActivityCounts](),
	wire.KindLoadObject: byValue[wire.LoadObject](), wire.KindObject: byPointer[wire.Object](),
	wire.KindLoadKeys: byValue[wire.LoadKeys](), wire.KindKeys: byPointer[wire.Keys](), wire.KindPutKeys: byValue[wire.PutKeys](),
	wire.KindLoadHeaders: byValue[wire.LoadHeaders](), wire.KindHeaders: byPointer[wire.Headers](),
	wire.KindLoadTips: byValue[wire.LoadTips](), wire.KindTips: byPointer[wire.Tips](),
	wire.KindLoadTable: byValue[wire.LoadTable](), wire.KindTable: byPointer[wire.TipTable](),
	wire.KindLoadPages: byValue[wire.LoadPages](), wire.KindPutTable: byValue[wire.PutTable](),
	wire.KindProveLogged: byValue[wire.ProveLogged](), wire.KindLogged: byPointer[wire.Logged](),
	wire.KindPutSnapshot: byValue[wire.PutSnapshot](), wire.KindPutObject: byValue[wire.PutObject](), wire.KindDone: byPointer[wire.Done](),
	wire.KindFailed:   byPointer[wire.Failed](),
	wire.KindOpenSend: byPointer[wire.AboutSend](), wire.KindOpened: byPointer[wire.Opened](),
	wire.KindSends: byValue[wire.Sends](), wire.KindSendStates: byPointer[wire.SendStates](),
	wire.KindDeliveries: byValue[wire.Deliveries](), wire.KindDeliveryList: byPointer[wire.DeliveryList](),
	wire.KindChain: byValue[wire.Chain](), wire.KindChainState: byPointer[wire.ChainState](),
	wire.KindReadChain: byValue[wire.ReadChain](), wire.KindReading: byPointer[wire.ChainReading](),
}

// Decode reads the payload of a frame as the message of its kind; the result is a pointer to it.
func Decode(kind wire.Kind, payload []byte) (any, error) {
	f, ok := forms[kind]
	if !ok {
		return nil, fmt.Errorf("kind %d carries no message", kind)
	}
	v := f.empty()
	return v, wire.Unmarshal(payload, v)
}
