package ledger

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"time"

	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// Give gives the range back while the enclave goes on with others: nothing more is
// decided or opened for the first time, all that is decided is stored, hand gets the
// tips that are remembered, and only then the range is free. Until then it answers
// queries. If storing takes longer than ctx lasts, or hand refuses, nothing has
// happened and the range is served on. An error that comes later leaves the range to
// nobody: this ledger has ended all the same.
func (l *Ledger) Give(ctx context.Context, hand func(map[org.ID]Tip) error) (ended bool, err error) {
	if !l.shut(true) {
		return false, ErrGiven
	}
	if err := l.drain(ctx); err != nil {
		l.shut(false)
		return false, err
	}
	if hand != nil {
		l.mu.Lock()
		tips := maps.Clone(l.tips)
		l.mu.Unlock()
		if err := hand(tips); err != nil {
			l.shut(false)
			return false, err
		}
	}
	err = l.release(ctx)
	for try := 1; err != nil && try < releaseTries && ctx.Err() == nil; try++ {
		<-l.cfg.Clock.After(releasePause)
		_, err = l.cfg.Store.Own(ctx, wire.Own{Action: wire.OwnRelease, Boot: l.cfg.Boot, Expect: l.pipe.epoch, Range: l.cfg.Range})
	}
	return true, err
}

// How often a release is tried whose answer does not come. Until it is known to whoever
// takes the range, nobody believes the tips that were handed on.
const (
	releaseTries = 5
	releasePause = 200 * time.Millisecond
)

// shut says whether decisions may take effect and tips be learned. It waits for those
// that are about to, and answers false if it was so before.
func (l *Ledger) shut(given bool) bool {
	l.gate.Lock()
	defer l.gate.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.given == given {
		return false
	}
	l.given = given
	return true
}

// Quit ends the ledger at once, as fencing does. Nobody is told.
func (l *Ledger) Quit() {
	l.fenced.Store(true)
	l.stop()
}

// tipSize is one tip as it is handed on: organization, count (big-endian), root.
const tipSize = 16 + 8 + 32

// MaxTips is how many tips EncodeTips puts together.
const MaxTips = 16_000

// EncodeTips writes tips down, in the order of their organizations, at most MaxTips to
// a part. There is at least one part.
func EncodeTips(tips map[org.ID]Tip) (parts [][]byte) {
	ids := slices.SortedFunc(maps.Keys(tips), func(a, b org.ID) int { return bytes.Compare(a[:], b[:]) })
	for first := true; first || len(ids) > 0; first = false {
		n := min(len(ids), MaxTips)
		part := make([]byte, 0, n*tipSize)
		for _, id := range ids[:n] {
			t := tips[id]
			part = append(part, id[:]...)
			part = binary.BigEndian.AppendUint64(part, t.Count)
			part = append(part, t.Root[:]...)
		}
		parts, ids = append(parts, part), ids[n:]
	}
	return parts
}

// DecodeTips reads a part behind those that are in tips already, to which it adds.
// Each tip stands once, in order, in the one encoding that there is; last is the
// organization before.
func DecodeTips(tips map[org.ID]Tip, last *org.ID, part []byte) error {
	if len(part)%tipSize != 0 || len(part) > MaxTips*tipSize {
		return errors.New("ledger: tips of no whole number")
	}
	for ; len(part) > 0; part = part[tipSize:] {
		id := org.ID(part[:16])
		t := Tip{Count: binary.BigEndian.Uint64(part[16:24]), Root: wire.Hash(part[24:tipSize])}
		if bytes.Compare(id[:], last[:]) <= 0 || t.Count == 0 {
			return errors.New("ledger: tips out of order")
		}
		tips[id], *last = t, id
	}
	return nil
}
