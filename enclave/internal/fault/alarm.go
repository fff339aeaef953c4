package fault

import (
	"fmt"
	"sync/atomic"
)

// An Alarm is one kind of misbehaviour of the host that the enclave has refused. The
// enclave tells how often, and no more.
type Alarm uint8

// The alarms. Their texts are metric labels and never change.
const (
	AlarmFrame      Alarm = iota // a frame that is malformed, too large or out of place
	AlarmOpen                    // a sealed record that does not open under its name
	AlarmTip                     // an organization at another tip than the log names, or a log at another head than the one known
	AlarmInclusion               // an old entry without a valid inclusion proof
	AlarmSnapshot                // a snapshot or piece that is not the one named, or a snapshot refused
	AlarmSequence                // entries out of order, repeated or missing
	AlarmConflict                // the store holds another entry at our place
	AlarmSuperseded              // another boot owns the store
	AlarmRecord                  // a record of another organization, type or deployment
	AlarmIndex                   // an answer to a search that does not fit the question
	AlarmKey                     // a wrapped key that does not open under its name
	AlarmLate                    // an answer that came after its deadline
	AlarmLog                     // a batch header, tip table or page of it that is not of the range's log
	alarms
)

var alarmTexts = [alarms]string{"frame", "open", "tip", "inclusion", "snapshot", "sequence", "conflict", "superseded", "record", "index", "key", "late", "log"}

// String is the alarm's metric label.
func (a Alarm) String() string {
	if a < alarms {
		return alarmTexts[a]
	}
	return fmt.Sprintf("alarm-%d", uint8(a))
}

// A Breach is the host caught at something that only a faulty or hostile host
// does. It is no *Error: the user sees UNAVAILABLE, the operator a counter.
type Breach struct {
	Alarm Alarm
	Text  string
}

func (b *Breach) Error() string { return "host: " + b.Alarm.String() + ": " + b.Text }

// NewBreach makes a Breach. The text never holds what the host sent.
func NewBreach(a Alarm, format string, args ...any) *Breach {
	return &Breach{a, fmt.Sprintf(format, args...)}
}

// Breach counts a breach and makes the error that tells of it.
func (a *Alarms) Breach(alarm Alarm, text string) error {
	a.Raise(alarm)
	return &Breach{alarm, text}
}

// Alarms counts breaches. The zero value is ready; it is safe for concurrent use.
type Alarms struct{ counts [alarms]atomic.Uint64 }

// Raise counts one breach of kind a.
func (s *Alarms) Raise(a Alarm) {
	if a < alarms {
		s.counts[a].Add(1)
	}
}

// Counts returns the counters by label, zeros included.
func (s *Alarms) Counts() map[string]uint64 {
	m := make(map[string]uint64, alarms)
	for i := range s.counts {
		m[Alarm(i).String()] = s.counts[i].Load()
	}
	return m
}
