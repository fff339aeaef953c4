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

// Rotation of the storage key: only the organizations' data keys are wrapped anew, entries
// and snapshots stay as they are. Each ledger wraps the data keys of its range once, while
// it serves. Until then both storage keys are valid.

// rewrapPause is how long rewrapDataKeys waits after a failed question.
const rewrapPause = time.Second

// openDataKey unwraps a data key with the storage key, or else with the previous one: old reports which.
func (l *Ledger) openDataKey(w *wire.WrappedKey) (opened secret.Secret, old bool, err error) {
	name := l.name(seal.KindDataKey, org.ID(w.Organization), w.KeyID)
	if opened, err = l.cfg.Storage.OpenSecret(name, w.Sealed); err == nil || l.cfg.PreviousStorage == nil {
		return opened, false, err
	}
	opened, err = l.cfg.PreviousStorage.OpenSecret(name, w.Sealed)
	return opened, true, err
}

// rewrapDataKeys wraps all data keys of the range anew that are under the previous storage key. Data
// keys that the host leaves out stay as they are, and open as long as the keyring has that key.
func (l *Ledger) rewrapDataKeys() {
	ask := keysOf(l.cfg.Range, max(l.cfg.Ranges, 1))
	for {
		page, next, err := loadKeys(l.life, l.cfg.Store, ask)
		var put wire.Done
		fresh := wire.PutKeys{Range: l.cfg.Range, Boot: l.cfg.Boot, Epoch: l.batchWriter.epoch}
		if l.raiseAlarm(err) == nil {
			fresh.Keys, err = l.rewrapPage(page)
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
		if next == nil {
			l.wrapped.Store(true)
			return
		}
		ask = *next
	}
}

// rewrapPage wraps the data keys of a page anew that are under the previous storage key. If one opens
// under neither storage key, the host has altered it: an alarm counts it, and it stays as it is.
func (l *Ledger) rewrapPage(page []wire.WrappedKey) (fresh []wire.WrappedKey, err error) {
	for i := range page {
		w := &page[i]
		opened, old, err := l.openDataKey(w)
		if err != nil {
			l.cfg.Alarms.Raise(fault.AlarmKey)
			continue
		}
		if !old {
			opened.Wipe()
			continue
		}
		wrapped, err := l.wrapDataKey(w.Organization, w.KeyID, opened)
		opened.Wipe()
		if err != nil {
			return nil, err
		}
		fresh = append(fresh, wrapped)
	}
	return fresh, nil
}

// keysOf returns the question for all data keys of range r, one of count.
func keysOf(r wire.Range, count int) wire.LoadKeys {
	ask := wire.LoadKeys{From: wire.ID{0xff}, Limit: wire.MaxKeysPage}
	for i := range ask.To {
		ask.To[i] = 0xff
	}
	for b := range 256 {
		if wire.RangeOf(wire.ID{byte(b)}, count) == r {
			ask.From[0], ask.To[0] = min(ask.From[0], byte(b)), byte(b)
		}
	}
	return ask
}

// loadKeys loads a page of data keys. next is the question for the following page, nil after the last one.
func loadKeys(ctx context.Context, store Store, ask wire.LoadKeys) (page []wire.WrappedKey, next *wire.LoadKeys, err error) {
	got, err := askStore(ctx, store.LoadKeys, ask)
	if err != nil {
		return nil, nil, err
	}
	if !inOrder(got.Keys, ask) {
		return nil, nil, fault.NewBreach(fault.AlarmKey, "data keys out of order")
	}
	if n := len(got.Keys); n == wire.MaxKeysPage {
		last, more := got.Keys[n-1], true
		if ask.From, ask.FromKey = last.Organization, last.KeyID+1; ask.FromKey == 0 { // that was the last number of a key
			ask.From, more = nextID(last.Organization)
		}
		if more {
			next = &ask
		}
	}
	return got.Keys, next, nil
}

// inOrder reports whether keys is a possible answer to ask: in order, in bounds, and not too many.
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

// CountUnopened counts all data keys in the store, and those that do not open under a storage key.
func CountUnopened(ctx context.Context, store Store, storage *seal.Key, deployment [32]byte) (unopened, all int, err error) {
	whole := keysOf(0, 1)
	for next := &whole; next != nil; {
		var page []wire.WrappedKey
		if page, next, err = loadKeys(ctx, store, *next); err != nil {
			return 0, 0, err
		}
		for i := range page {
			w := &page[i]
			opened, err := storage.OpenSecret(seal.Name{Kind: seal.KindDataKey, KeyID: w.KeyID, Deployment: deployment, Organization: org.ID(w.Organization)}, w.Sealed)
			opened.Wipe()
			if err != nil {
				unopened++
			}
		}
		all += len(page)
	}
	return unopened, all, nil
}
