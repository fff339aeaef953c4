package monitor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cloister/attestation"
	"cloister/attestation/tlog"
)

// After a recovery a ledger may be shorter than it was, or go on with other entries. The monitor accepts the losses that the
// first leaf of the recovered log states, and no others: an entry whose batch is in the part that was taken over must be
// where it was. For that the monitor remembers its newest entries, each with its place.

// A Place is the position of an entry in the log, as it was shown.
type Place struct {
	Entry      Hash   `json:"entry"` // its leaf in the ledger's tree
	Generation uint32 `json:"generation"`
	Leaf       uint64 `json:"leaf"` // index of the batch's leaf, in that generation of the log
}

// maxPlaces is how many of the newest entries are remembered.
var maxPlaces = 4096

// A Recovered is a generation of the log with its size after a recovery, in leaves.
type Recovered struct {
	Generation uint32 `json:"generation"`
	Size       uint64 `json:"size"`
}

// isKept reports whether an entry is certainly in the part that is left. Others may be too: a later batch may have shown them.
func (r *Recovered) isKept(p Place) bool {
	return p.Generation < r.Generation || p.Generation == r.Generation && p.Leaf < r.Size
}

// remember adds an entry to the newest ones.
func (s *State) remember(p Place) {
	s.Places = append(s.Places, p)
	if len(s.Places) > maxPlaces {
		s.Before, s.Places = grow(s.Before, s.Next-uint64(maxPlaces)-1, s.Places[0].Entry), s.Places[1:]
	}
}

// edgeAt returns the right edge after the first entries, which must end among the remembered ones.
func (s *State) edgeAt(entries uint64) []Hash {
	edge := s.Before
	for seq := s.Next - uint64(len(s.Places)); seq < entries; seq++ {
		edge = grow(edge, seq, s.Places[seq+uint64(len(s.Places))-s.Next].Entry)
	}
	return edge
}

// adopt checks the size and root from which a log goes on against the newest head of the log before.
func (m *Monitor) adopt(l *attestation.LoggedEntry, last tlog.Checkpoint, note string) error {
	a := l.Adopt
	if a == nil || a.Origin != last.Origin {
		return nil // a generation between was not shown, which follow has reported
	}
	switch {
	case a.Size == last.Size && a.Root != last.Root, a.How == tlog.HowMoved && a.Size < last.Size:
		return m.contradict(l.Checkpoint, m.state.Checkpoint, note, fmt.Sprintf("it goes on from %d leaves that are not those that were shown", a.Size))
	case a.How == tlog.HowRecovered && a.Witnessed < last.Size:
		m.emit(Event{Kind: KindLog, Alert: true, Log: l.Origin.String(), Text: fmt.Sprintf("its recovery says that witnesses had seen %d leaves, and a head of %d was shown: more is lost than it says", a.Witnessed, last.Size)})
	}
	if a.How == tlog.HowRecovered && m.state.Recovered == nil { // an earlier recovery that is not followed yet comes first
		before, err := tlog.ParseOrigin(a.Origin)
		if err != nil {
			return err
		}
		m.state.Recovered = &Recovered{before.Generation, a.Size}
	}
	return nil
}

// errMeanwhile is the error for a poll during which the log was recovered.
var errMeanwhile = errors.New("the log was recovered meanwhile")

// newest gets the proof of the last entry once more, under the newest head.
func (m *Monitor) newest(ctx context.Context) (*attestation.LoggedEntry, error) {
	l, err := m.prove(ctx, m.state.Next-1)
	if errors.Is(err, errNoEntry) { // the proof of any other shows a recovery
		if _, err := m.prove(ctx, 0); err != nil && !errors.Is(err, errNoEntry) {
			return nil, err
		}
	}
	if (err == nil || errors.Is(err, errNoEntry)) && m.state.Recovered != nil {
		return l, errMeanwhile
	}
	return l, err
}

// resume goes back to the part of the ledger that a recovery has left.
func (m *Monitor) resume(ctx context.Context) error {
	if m.state.Next == 0 {
		return nil
	}
	_, err := m.newest(ctx)
	if errors.Is(err, errNoEntry) {
		return nil // again reports it
	}
	if m.state.Recovered == nil {
		return err
	}
	s := &m.state
	from := s.Next - uint64(len(s.Places))
	left := from
	for i, p := range s.Places {
		if !s.Recovered.isKept(p) {
			l, err := m.prove(ctx, from+uint64(i))
			if errors.Is(err, errNoEntry) || err == nil && l.Entry != p.Entry {
				break
			}
			if err != nil {
				return fmt.Errorf("entry %d: %w", from+uint64(i), err)
			}
		}
		left++
	}
	edge := s.edgeAt(left)
	if left > 0 {
		l, err := m.prove(ctx, left-1)
		if err != nil && !errors.Is(err, errNoEntry) {
			return fmt.Errorf("entry %d: %w", left-1, err)
		}
		if err != nil || !slices.Equal(grow(leftOf(left-1, l.Opening.Count, l.Path), left-1, l.Entry), edge) {
			seq := left - 1
			m.emit(Event{Kind: KindRewritten, Alert: true, Seq: &seq, Text: "the recovery of the log does not say that it, or an entry before it, is lost, or it is older than the monitor remembers"})
			return fmt.Errorf("%w: entry %d is another", ErrRefused, seq)
		}
	}
	if lost := s.Next - left; lost > 0 {
		m.emit(Event{Kind: KindLost, Alert: true, Seq: &left, Text: fmt.Sprintf("%d entries from this one on, which were told of, are in no history any more", lost)})
		s.Places = s.Places[:len(s.Places)-int(lost)]
		// The list has been compared up to that time, and the entries that follow are of a later second.
		s.Next, s.Edge, s.Steps, s.Compared = left, edge, nil, s.TimeMs/1000+1
		m.metrics.lose(left)
	}
	s.Recovered = nil
	return nil
}
