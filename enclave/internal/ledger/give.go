package ledger

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// End ends the ledger while the enclave goes on with others. Nothing more is decided or opened for
// the first time, all that is decided gets stored, and then nothing is answered any more. The tips
// that it returns are final, so that another owner can go on from them. If ctx ends before all is
// stored, the range is served on as if nothing had happened. The row stays this boot's until Free.
func (l *Ledger) End(ctx context.Context) (map[org.ID]Tip, error) {
	if !l.shut(true) {
		return nil, ErrGiven
	}
	if err := l.drain(ctx); err != nil {
		l.shut(false)
		return nil, err
	}
	l.halt()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tips, nil
}

// shut sets given once decisions under way are done. It returns false if it was so before.
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

// Quit ends the ledger at once, as fencing does, but tells nobody.
func (l *Ledger) Quit() {
	l.fenced.Store(true)
	l.stop()
}

// tipSize is one tip as it is handed on: organization, count (big-endian), root.
const tipSize = 16 + 8 + 32

// MaxTips is how many tips EncodeTips puts together.
const MaxTips = 16_000

// EncodeTips encodes tips by ascending organization in at least one part of at most MaxTips.
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

// DecodeTips adds the tips of a part to tips. Each tip is there once, in order, in the only
// encoding. last is the organization before.
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
