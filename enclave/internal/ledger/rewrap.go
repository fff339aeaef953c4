package ledger

import (
	"bytes"
	"context"
	"time"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/seal"
	"cloister/enclave/internal/secret"
	"cloister/shared/wire"
)

// When the storage key has rotated, each organization's data key is wrapped anew,
// and nothing else: entries, snapshots and histories stay as they are. The data
// keys of a range are gone through once while it is served; until then either
// storage key opens them.

// rewrapPause is how long going through waits after a question without an answer.
const rewrapPause = time.Second

// openKey opens a wrapped data key under the storage key, or the one before it.
func (l *Ledger) openKey(w *wire.WrappedKey) (opened secret.Secret, old bool, err error) {
	name := l.name(seal.KindDataKey, org.ID(w.Organization), w.KeyID)
	if opened, err = l.cfg.Storage.OpenSecret(name, w.Sealed); err == nil || l.cfg.Before == nil {
		return opened, false, err
	}
	opened, err = l.cfg.Before.OpenSecret(name, w.Sealed)
	return opened, true, err
}

// rewrap goes through the data keys of the range and wraps anew what is under the
// storage key before. What the host leaves out stays as it is, and opens as long as
// that key is kept.
func (l *Ledger) rewrap() {
	first, last := bounds(l.cfg.Range, max(l.cfg.Ranges, 1))
	ask := wire.LoadKeys{From: first, To: last, Limit: wire.MaxKeysPage}
	for {
		page, err := askStore(l.life, l.cfg.Store.LoadKeys, ask)
		if err == nil && !inOrder(page.Keys, ask) {
			err = l.breach(fault.AlarmKey, "data keys out of order")
		}
		var put wire.Done
		fresh := wire.PutKeys{Range: l.cfg.Range, Boot: l.cfg.Boot, Epoch: l.pipe.epoch}
		if err == nil {
			fresh.Keys, err = l.wrapAnew(page.Keys)
		}
		if put.OK = len(fresh.Keys) == 0; err == nil && !put.OK {
			put, err = askStore(l.life, l.cfg.Store.PutKeys, fresh)
		}
		switch {
		case l.life.Err() != nil, err == nil && !put.OK: // the range is another's
			return
		case err != nil:
			select {
			case <-l.done:
				return
			case <-l.cfg.Clock.After(rewrapPause):
			}
			continue
		}
		l.rewrapped.Add(uint64(len(fresh.Keys)))
		if len(page.Keys) < wire.MaxKeysPage {
			l.wrapped.Store(true)
			return
		}
		at := page.Keys[len(page.Keys)-1]
		ask.From, ask.FromKey = at.Organization, at.KeyID+1
	}
}

// wrapAnew wraps those of a page that are under the storage key before. One that
// opens under neither is the host's doing: it is counted and left.
func (l *Ledger) wrapAnew(page []wire.WrappedKey) (fresh []wire.WrappedKey, err error) {
	for i := range page {
		w := &page[i]
		opened, old, err := l.openKey(w)
		if err != nil {
			l.cfg.Alarms.Raise(fault.AlarmKey)
			continue
		}
		if !old {
			opened.Wipe()
			continue
		}
		sealed, err := l.cfg.Storage.SealSecret(l.cfg.Rand, l.name(seal.KindDataKey, org.ID(w.Organization), w.KeyID), opened)
		opened.Wipe()
		if err != nil {
			return nil, err
		}
		fresh = append(fresh, wire.WrappedKey{Organization: w.Organization, KeyID: w.KeyID, Sealed: sealed})
	}
	return fresh, nil
}

// bounds are the lowest and the highest id of a range.
func bounds(r wire.Range, count int) (first, last wire.ID) {
	found := false
	for b := range 256 {
		if wire.RangeOf(wire.ID{byte(b)}, count) != r {
			continue
		}
		if !found {
			first[0], found = byte(b), true
		}
		last[0] = byte(b)
	}
	for i := 1; i < len(last); i++ {
		last[i] = 0xff
	}
	return first, last
}

// inOrder tells whether keys may answer a question for them.
func inOrder(keys []wire.WrappedKey, ask wire.LoadKeys) bool {
	if len(keys) > int(ask.Limit) {
		return false
	}
	from, key := ask.From, uint64(ask.FromKey)
	for i := range keys {
		k := &keys[i]
		switch c := bytes.Compare(k.Organization[:], from[:]); {
		case c < 0, c == 0 && uint64(k.KeyID) < key, bytes.Compare(k.Organization[:], ask.To[:]) > 0:
			return false
		}
		from, key = k.Organization, uint64(k.KeyID)+1
	}
	return true
}

// CountUnopened counts the data keys in the store that do not open under a storage key,
// and all that there are. The host may leave out what it will lose by that.
func CountUnopened(ctx context.Context, store Store, storage *seal.Key, deployment [32]byte) (unopened, all int, err error) {
	ask := wire.LoadKeys{Limit: wire.MaxKeysPage}
	for i := range ask.To {
		ask.To[i] = 0xff
	}
	for {
		page, err := askStore(ctx, store.LoadKeys, ask)
		if err != nil {
			return 0, 0, err
		}
		if !inOrder(page.Keys, ask) {
			return 0, 0, fault.NewBreach(fault.AlarmKey, "data keys out of order")
		}
		for i := range page.Keys {
			w := &page.Keys[i]
			opened, err := storage.OpenSecret(seal.Name{Kind: seal.KindDataKey, KeyID: w.KeyID, Deployment: deployment, Organization: org.ID(w.Organization)}, w.Sealed)
			opened.Wipe()
			if err != nil {
				unopened++
			}
		}
		all += len(page.Keys)
		if len(page.Keys) < wire.MaxKeysPage {
			return unopened, all, nil
		}
		at := page.Keys[len(page.Keys)-1]
		ask.From, ask.FromKey = at.Organization, at.KeyID+1
	}
}
