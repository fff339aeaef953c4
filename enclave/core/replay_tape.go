package core

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"cloister/enclave/internal/org"
)

// A tape is the randomness of a replay: the learnt value of a draw, or bytes of its own.
type tape struct {
	at    int
	made  map[int][]byte // by the number of the draw
	known map[int][]byte
}

func (t *tape) rewind() { t.at, t.made = 0, map[int][]byte{} }
func (t *tape) forget() { t.known = map[int][]byte{} }

// Read makes one draw.
func (t *tape) Read(p []byte) (int, error) {
	n := t.at
	t.at++
	if known := t.known[n]; len(known) == len(p) {
		return copy(p, known), nil
	}
	own := sha256.Sum256(fmt.Appendf(nil, "draw %d", n))
	for i := range p {
		p[i] = own[i%len(own)]
	}
	t.made[n] = slices.Clone(p)
	return len(p), nil
}

// idBytes is how much of an id is compared: the first byte may depend on the range.
const idBytes = 15

// learn finds the tape's own ids in the computed entry, and the ids recorded in their places.
func (t *tape) learn(computed, recorded *org.Entry) (learnt bool) {
	for n, made := range t.made {
		tail := len(made) // the drawn bytes of an id: those after the time in a timed one
		if tail != 16 && tail != 10 || t.known[n] != nil {
			continue
		}
		id := org.ID{}
		copy(id[16-tail:], made)
		version := byte(0x40)
		if tail == 10 {
			version = 0x70
		}
		id[6], id[8] = id[6]&0x0f|version, id[8]&0x3f|0x80
		if found, ok := placeOf(id, min(tail, idBytes), computed, recorded); ok {
			t.known[n] = found[16-tail:]
			learnt = true
		}
	}
	return learnt
}

// placeOf finds the id that is recorded where one of the tape was computed, by its last bytes.
func placeOf(id org.ID, tail int, computed, recorded *org.Entry) (found org.ID, ok bool) {
	full := id.String()
	cut := 2
	if tail == 10 {
		cut = 14
	}
	raw, text := id[16-tail:], []byte(full[cut:])
	in := func(a, b []byte) bool {
		if i := bytes.Index(a, raw); i >= 16-tail && i+tail <= len(b) {
			found, ok = org.ID(b[i-(16-tail):i+tail]), true
			return true
		}
		if i := bytes.Index(a, text); i >= cut && i+len(text) <= len(b) {
			if read, err := org.ParseID(string(b[i-cut : i+len(text)])); err == nil {
				found, ok = read, true
			}
		}
		return ok
	}
	for i := range min(len(computed.Votes), len(recorded.Votes)) {
		if in(computed.Votes[i].ID[:], recorded.Votes[i].ID[:]) {
			return found, ok
		}
	}
	for i := range min(len(computed.Evaluations), len(recorded.Evaluations)) {
		if in(computed.Evaluations[i].ID[:], recorded.Evaluations[i].ID[:]) {
			return found, ok
		}
	}
	if in(computed.Other[:], recorded.Other[:]) || in(computed.Result, recorded.Result) {
		return found, ok
	}
	for i := range min(len(computed.Writes), len(recorded.Writes)) {
		a, b := &computed.Writes[i], &recorded.Writes[i]
		if in(a.Key, b.Key) || in(a.Value, b.Value) {
			return found, ok
		}
	}
	for i := range min(len(computed.Sends), len(recorded.Sends)) {
		if in(computed.Sends[i].Content, recorded.Sends[i].Content) {
			return found, ok
		}
	}
	return found, ok
}

// fixedClock is always at the time of the request that is replayed.
type fixedClock struct{ ms uint64 }

func (c *fixedClock) Now() time.Time                       { return time.UnixMilli(int64(c.ms)).UTC() }
func (c *fixedClock) After(time.Duration) <-chan time.Time { return nil }

// noDevice returns zeros as randomness, so that only the tape counts.
type noDevice struct{}

var errNoDevice = errors.New("a replay has no security module")

func (noDevice) Attest(_, _, _ []byte) ([]byte, error) { return nil, errNoDevice }
func (noDevice) ExtendPCR(int, []byte) ([]byte, error) { return nil, errNoDevice }
func (noDevice) DescribePCR(int) ([]byte, bool, error) { return nil, false, errNoDevice }
func (noDevice) LockPCRs(int) error                    { return errNoDevice }
func (noDevice) Random(p []byte) error                 { clear(p); return nil }
func (noDevice) Now() time.Time                        { return time.Time{} }
