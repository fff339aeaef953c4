package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"cloister/host/store"
	"cloister/shared/wire"
)

// answer handles one request of the enclave to the store.
func (l *Link) answer(ctx context.Context, kind wire.Kind, payload []byte) (wire.Kind, []byte) {
	q := wire.QuestionOf(kind)
	if q.Writes {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, l.options.StoreTimeout)
	defer cancel()
	begin := l.options.Now()
	answer, err := l.stored[kind](ctx, payload)
	if l.options.Observer != nil {
		l.options.Observer.Question(q.Name, l.options.Now().Sub(begin), err != nil)
	}
	if err == nil {
		var out []byte
		if out, err = wire.Marshal(answer); err == nil {
			l.outages.LogSuccess(q.Name, "store answers again")
			return q.Answer, out
		}
	}
	switch {
	case errors.Is(err, context.Canceled): // the enclave cancelled its request
	case errors.Is(err, store.ErrRefused):
		l.options.Log.Error("store failed", "question", q.Name, "error", err)
	default: // the enclave retries twice a second
		l.outages.LogFailure(slog.LevelError, q.Name, "store failed", "question", q.Name, "error", err)
	}
	return wire.KindFailed, failed
}

// failed is the payload of wire.KindFailed: an empty CBOR map, since the reason belongs in the host's log.
var failed = []byte{0xa0}

// A fromStore is the handler of one kind of store request.
type fromStore func(ctx context.Context, payload []byte) (any, error)

// storeHandlers returns the handlers of all requests on connections for stores, loads and snapshots.
// Package wire refuses other kinds there.
func (l *Link) storeHandlers() map[wire.Kind]fromStore {
	s := l.options.Store
	return map[wire.Kind]fromStore{
		wire.KindOwn:              relay(s.Own),
		wire.KindBatch:            relay(l.append),
		wire.KindLoadOrganization: relay(s.LoadOrganization),
		wire.KindLoadEntries:      relay(s.LoadEntries),
		wire.KindLoadPieces:       relay(s.LoadPieces),
		wire.KindLoadObject:       relay(s.LoadObject),
		wire.KindFind:             relay(s.Find),
		wire.KindPage:             relay(s.Page),
		wire.KindPageIndex:        relay(s.PageIndex),
		wire.KindCountActivities:  relay(s.CountActivities),
		wire.KindSends:            relay(s.SendStates),
		wire.KindDeliveries:       relay(s.Deliveries),
		wire.KindLoadKeys:         relay(s.LoadKeys),
		wire.KindLoadHeaders:      relay(s.LoadHeaders),
		wire.KindLoadTips:         relay(s.LoadTips),
		wire.KindLoadTable:        relay(s.LoadTable),
		wire.KindLoadPages:        relay(s.LoadPages),
		wire.KindProveLogged:      relay(l.proveLogged),
		wire.KindPutKeys:          relay(s.PutKeys),
		wire.KindPutTable:         relay(l.putTable),
		wire.KindPutSnapshot:      relay(l.putSnapshot),
		wire.KindPutObject:        relay(s.PutObject),
	}
}

// relay makes a handler that decodes the payload and calls to with it.
func relay[Q, A any](to func(context.Context, Q) (A, error)) fromStore {
	return func(ctx context.Context, payload []byte) (any, error) {
		var q Q
		if err := wire.Unmarshal(payload, &q); err != nil {
			return nil, fmt.Errorf("%w: %w", store.ErrRefused, err)
		}
		a, err := to(ctx, q)
		if err != nil {
			return nil, err
		}
		return &a, nil
	}
}

func (l *Link) append(ctx context.Context, batch wire.Batch) (wire.Stored, error) {
	stored, err := l.options.Store.Append(ctx, &batch)
	if err != nil {
		return wire.Stored{}, err
	}
	if stored.Verdict != wire.VerdictStored {
		l.options.Log.Error("batch not stored", "number", batch.Number, "epoch", batch.Epoch, "verdict", stored.Verdict)
	}
	if l.options.Sends != nil && stored.Verdict == wire.VerdictStored && hasSends(&batch) {
		l.options.Sends()
	}
	if l.options.Observer != nil {
		size := 0
		for i := range batch.Entries {
			size += len(batch.Entries[i].Sealed)
		}
		l.options.Observer.Batch(len(batch.Entries), size, stored.Verdict)
	}
	return stored, nil
}

func (l *Link) putSnapshot(ctx context.Context, put wire.PutSnapshot) (wire.Done, error) {
	done, err := l.options.Store.PutSnapshot(ctx, put)
	if err == nil && !done.OK {
		l.options.Log.Error("snapshot not stored", "count", put.Count, "over", put.Over, "epoch", put.Epoch)
	}
	return done, err
}

func (l *Link) putTable(ctx context.Context, put wire.PutTable) (wire.Done, error) {
	done, err := l.options.Store.PutTable(ctx, put)
	if err == nil && !done.OK {
		l.options.Log.Error("tip table not stored", "range", put.Range, "epoch", put.Epoch)
	}
	return done, err
}

func hasSends(batch *wire.Batch) bool {
	for i := range batch.Entries {
		if len(batch.Entries[i].Sends) > 0 {
			return true
		}
	}
	return false
}

// chain handles one request of the enclave about a chain.
func (l *Link) chain(ctx context.Context, kind wire.Kind, payload []byte) (wire.Kind, []byte) {
	q := wire.QuestionOf(kind)
	var name, said string
	var verdict wire.ChainVerdict
	ask := relay(func(ctx context.Context, ask wire.Chain) (wire.ChainState, error) {
		s := wire.ChainState{Verdict: wire.ChainNoNode}
		if l.options.Chains != nil {
			s = l.options.Chains.Chain(ctx, ask)
		}
		name, verdict, said = ask.Name, s.Verdict, s.Text
		return s, nil
	})
	if kind == wire.KindReadChain {
		ask = relay(func(ctx context.Context, ask wire.ReadChain) (wire.ChainReading, error) {
			r := wire.ChainReading{Verdict: wire.ChainNoNode}
			if l.options.Chains != nil {
				r = l.options.Chains.Read(ctx, ask)
			}
			name, verdict, said = ask.Name, r.Verdict, r.Text
			return r, nil
		})
	}
	begin := l.options.Now()
	answer, err := ask(ctx, payload)
	if err == nil {
		known := verdict == wire.ChainKnown || verdict == wire.ChainReverts
		if !known {
			l.options.Log.Warn("chain not queried", "chain", name, "verdict", verdict, "said", said)
		}
		if l.options.Observer != nil {
			l.options.Observer.Question(q.Name, l.options.Now().Sub(begin), !known)
		}
		var out []byte
		if out, err = wire.Marshal(answer); err == nil {
			return q.Answer, out
		}
	}
	l.options.Log.Error("chain question not answered", "error", err)
	return wire.KindFailed, failed
}

// witness handles one request for cosignatures. Rounds and their results are counted in Options.Witnesses.
func (l *Link) witness(ctx context.Context, _ wire.Kind, payload []byte) (wire.Kind, []byte) {
	answer, err := relay(l.cosign)(ctx, payload)
	if err == nil {
		var out []byte
		if out, err = wire.Marshal(answer); err == nil {
			l.outages.LogSuccess("witness", "checkpoints are witnessed again")
			return wire.KindCosigned, out
		}
	}
	if !errors.Is(err, context.Canceled) {
		l.outages.LogFailure(slog.LevelError, "witness", "checkpoint not witnessed", "error", err)
	}
	return wire.KindFailed, failed
}

var errNoWitnesses = errors.New("this host was given no way to witnesses")

func (l *Link) cosign(ctx context.Context, ask wire.Witness) (wire.Cosigned, error) {
	if l.options.Witnesses == nil {
		return wire.Cosigned{}, errNoWitnesses
	}
	return l.options.Witnesses.Witness(ctx, ask)
}

func (l *Link) proveLogged(ctx context.Context, ask wire.ProveLogged) (wire.Logged, error) {
	if l.options.Witnesses == nil {
		return wire.Logged{}, errNoWitnesses
	}
	return l.options.Witnesses.ProveLogged(ctx, ask)
}
