package link

import (
	"context"
	"errors"
	"fmt"

	"cloister/shared/wire"
)

// answer serves one question of the enclave from the store.
func (l *Link) answer(ctx context.Context, kind wire.Kind, payload []byte) (wire.Kind, []byte) {
	name, write := questions[kind].name, questions[kind].write
	if write {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, l.o.StoreTimeout)
	defer cancel()
	begin := l.o.Now()
	answer, err := l.fromStore(ctx, kind, payload)
	if l.o.Observer != nil {
		l.o.Observer.Stored(name, l.o.Now().Sub(begin), err != nil)
	}
	if err == nil {
		var out []byte
		if out, err = wire.Marshal(answer); err == nil {
			return questions[kind].answer, out
		}
	}
	if !errors.Is(err, context.Canceled) { // the enclave gave up by itself
		l.o.Log.Error("store failed", "question", name, "error", err)
	}
	return wire.KindFailed, failed
}

// failed tells the enclave nothing but that: why is for the host's log.
var failed = []byte{0xa0}

// A question is one kind that the enclave asks.
type question struct {
	name   string
	answer wire.Kind
	write  bool // runs to its end once it was begun
}

var questions = map[wire.Kind]question{
	wire.KindOwn:              {"own", wire.KindOwned, true},
	wire.KindBatch:            {"batch", wire.KindStored, true},
	wire.KindLoadOrganization: {"load_organization", wire.KindOrganization, false},
	wire.KindLoadEntries:      {"load_entries", wire.KindEntries, false},
	wire.KindLoadPieces:       {"load_pieces", wire.KindPieces, false},
	wire.KindLoadObject:       {"load_object", wire.KindObject, false},
	wire.KindFind:             {"find", wire.KindProven, false},
	wire.KindPage:             {"page", wire.KindProven, false},
	wire.KindPageIndex:        {"page_index", wire.KindIndexRows, false},
	wire.KindSends:            {"sends", wire.KindSendStates, false},
	wire.KindPutSnapshot:      {"put_snapshot", wire.KindDone, true},
	wire.KindLoadKeys:         {"load_keys", wire.KindKeys, false},
	wire.KindPutKeys:          {"put_keys", wire.KindDone, true},
	wire.KindPutObject:        {"put_object", wire.KindDone, true},
}

func (l *Link) fromStore(ctx context.Context, kind wire.Kind, payload []byte) (any, error) {
	s := l.o.Store
	switch kind {
	case wire.KindOwn:
		return relay(ctx, payload, s.Own)
	case wire.KindBatch:
		return relay(ctx, payload, l.append)
	case wire.KindLoadOrganization:
		return relay(ctx, payload, s.LoadOrganization)
	case wire.KindLoadEntries:
		return relay(ctx, payload, s.LoadEntries)
	case wire.KindLoadPieces:
		return relay(ctx, payload, s.LoadPieces)
	case wire.KindLoadObject:
		return relay(ctx, payload, s.LoadObject)
	case wire.KindFind:
		return relay(ctx, payload, s.Find)
	case wire.KindPage:
		return relay(ctx, payload, s.Page)
	case wire.KindPageIndex:
		return relay(ctx, payload, s.PageIndex)
	case wire.KindSends:
		return relay(ctx, payload, s.SendStates)
	case wire.KindLoadKeys:
		return relay(ctx, payload, s.LoadKeys)
	case wire.KindPutKeys:
		return relay(ctx, payload, s.PutKeys)
	case wire.KindPutSnapshot:
		return relay(ctx, payload, l.putSnapshot)
	case wire.KindPutObject:
		return relay(ctx, payload, s.PutObject)
	}
	return nil, fmt.Errorf("kind %d is no question", kind)
}

// relay decodes a question, puts it to the store and returns the answer.
func relay[Q, A any](ctx context.Context, payload []byte, to func(context.Context, Q) (A, error)) (any, error) {
	var q Q
	if err := wire.Unmarshal(payload, &q); err != nil {
		return nil, err
	}
	a, err := to(ctx, q)
	if err != nil {
		return nil, err
	}
	return &a, nil
}

func (l *Link) append(ctx context.Context, batch wire.Batch) (wire.Stored, error) {
	stored, err := l.o.Store.Append(ctx, &batch)
	if err != nil {
		return wire.Stored{}, err
	}
	if stored.Verdict != wire.VerdictStored {
		l.o.Log.Error("batch not stored", "number", batch.Number, "epoch", batch.Epoch, "verdict", stored.Verdict)
	}
	if l.o.Sends != nil && stored.Verdict == wire.VerdictStored && sends(&batch) {
		l.o.Sends()
	}
	if l.o.Observer != nil {
		size := 0
		for i := range batch.Entries {
			size += len(batch.Entries[i].Sealed)
		}
		l.o.Observer.Batch(len(batch.Entries), size, stored.Verdict)
	}
	return stored, nil
}

func (l *Link) putSnapshot(ctx context.Context, put wire.PutSnapshot) (wire.Done, error) {
	done, err := l.o.Store.PutSnapshot(ctx, put)
	if err == nil && !done.OK {
		l.o.Log.Error("snapshot not stored", "count", put.Count, "over", put.Over, "epoch", put.Epoch)
	}
	return done, err
}

func sends(batch *wire.Batch) bool {
	for i := range batch.Entries {
		if len(batch.Entries[i].Sends) > 0 {
			return true
		}
	}
	return false
}

// chain answers one question about a chain.
func (l *Link) chain(ctx context.Context, _ wire.Kind, payload []byte) (wire.Kind, []byte) {
	var ask wire.Chain
	err := wire.Unmarshal(payload, &ask)
	if err == nil {
		s := wire.ChainState{Verdict: wire.ChainNoNode}
		begin := l.o.Now()
		if l.o.Chains != nil {
			s = l.o.Chains.Chain(ctx, ask)
		}
		if s.Verdict != wire.ChainKnown && s.Verdict != wire.ChainReverts {
			l.o.Log.Warn("chain not asked", "chain", ask.Name, "verdict", s.Verdict, "said", s.Text)
		}
		if l.o.Observer != nil {
			l.o.Observer.Stored("chain", l.o.Now().Sub(begin), s.Verdict != wire.ChainKnown && s.Verdict != wire.ChainReverts)
		}
		var out []byte
		if out, err = wire.Marshal(&s); err == nil {
			return wire.KindChainState, out
		}
	}
	l.o.Log.Error("chain question not answered", "error", err)
	return wire.KindFailed, failed
}
