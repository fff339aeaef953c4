package monitor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"strings"

	"cloister/attestation/tlog"
)

const stateFormat = 1

// MaxState is the longest JSON of a state in bytes.
const MaxState = 32 << 20

// A State is a monitor's memory from one poll to the next. It is no secret, but must be protected from changes: with
// another state a monitor overlooks a change of earlier entries.
type State struct {
	Format       int    `json:"format"` // 1
	Organization string `json:"organization"`
	// Next is the number of the next entry, Edge the right edge of the ledger's tree before it, TimeMs the latest time of
	// an entry in milliseconds since 1970.
	Next   uint64 `json:"next"`
	Edge   []Hash `json:"edge"`
	TimeMs uint64 `json:"timeMs"`
	// Places are the newest entries, in order, and Before is the right edge before them. States of earlier releases, which
	// remembered no entries, have neither.
	Before []Hash  `json:"before,omitempty"`
	Places []Place `json:"places,omitempty"`
	// Recovered is the log before a recovery that the monitor has not followed yet.
	Recovered *Recovered `json:"recovered,omitempty"`
	// Checkpoint is the newest head, as the log and a quorum signed it, CosignedSeconds its LoggedEntry.Time.
	Checkpoint      string `json:"checkpoint"`
	CosignedSeconds int64  `json:"cosignedSeconds"`
	// Consistent is the newest head that was proven, from tiles, to be consistent with those before.
	Consistent string `json:"consistent,omitempty"`
	// Compared is the second since 1970 up to which list_activities was compared with the entries. Steps are those that the
	// list did not have yet, and those of that second.
	Compared uint64 `json:"compared"`
	Steps    []Step `json:"steps,omitempty"`
}

// A Step is a step of an activity, from an entry.
type Step struct {
	Activity string `json:"activity"`
	Status   string `json:"status"`
	Second   uint64 `json:"second"`           // of the decision, since 1970; list_activities is no more exact
	Listed   bool   `json:"listed,omitempty"` // list_activities has it
}

// ParseState reads the JSON of a state, at most MaxState bytes. It refuses unknown members and trailing values.
func ParseState(raw []byte) (s State, err error) {
	if len(raw) > MaxState {
		return State{}, errors.New("monitor: a state is too long")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return State{}, fmt.Errorf("monitor: a state: %w", err)
	}
	if d.More() {
		return State{}, errors.New("monitor: a state is followed by something")
	}
	return s, s.check()
}

func (s *State) check() error {
	if s.Format != stateFormat {
		return fmt.Errorf("monitor: a state of format %d", s.Format)
	}
	if s.Edge != nil && len(s.Edge) != bits.OnesCount64(s.Next) {
		return errors.New("monitor: a state's edge is not of so many entries")
	}
	if from := s.Next - uint64(len(s.Places)); len(s.Places) > 0 && (uint64(len(s.Places)) > s.Next || len(s.Places) > maxPlaces || len(s.Before) != bits.OnesCount64(from)) {
		return errors.New("monitor: a state's places are not of its newest entries")
	}
	_, err1 := checkpointOf(s.Checkpoint)
	_, err2 := checkpointOf(s.Consistent)
	return errors.Join(err1, err2)
}

// checkpointOf parses a note that was verified before. It returns the zero Checkpoint for an empty text.
func checkpointOf(note string) (tlog.Checkpoint, error) {
	if note == "" {
		return tlog.Checkpoint{}, nil
	}
	text, _, _ := strings.Cut(note, "\n\n")
	return tlog.ParseCheckpoint(text + "\n")
}
