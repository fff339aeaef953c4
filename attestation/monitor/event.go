package monitor

// A Kind is the kind of an event, as in JSON.
type Kind string

// The kinds of events. All are alerts but KindEntry, KindLog and KindAway. KindLog is one if a log was recovered or never shown.
const (
	KindEntry     Kind = "entry"         // an entry of the ledger, with its proof
	KindLog       Kind = "log"           // another log than before, or the first
	KindAway      Kind = "witness-away"  // a witness does not answer
	KindUnseen    Kind = "unseen"        // a poll could not finish
	KindRefused   Kind = "refused"       // a proof or reply is wrong
	KindOldHead   Kind = "head-old"      // the newest head is too old
	KindOlderHead Kind = "head-back"     // a head is older than one before
	KindForked    Kind = "head-forked"   // two heads that cannot be of one log
	KindLost      Kind = "lost"          // a recovery of the log has lost entries that were reported
	KindRewritten Kind = "rewritten"     // entries that were shown before have changed
	KindEarlier   Kind = "clock-back"    // an entry is older than the one before
	KindWithheld  Kind = "withheld"      // an activity is in an entry but not in list_activities
	KindUnlogged  Kind = "unlogged"      // an activity is in list_activities but not in an entry
	KindAhead     Kind = "witness-ahead" // a witness has seen more of the log than is shown
	KindForgot    Kind = "witness-lost"  // a witness has lost its memory, or never knew the log
)

// An Event is a finding of a monitor. Members that do not apply are left out.
type Event struct {
	At           string   `json:"at"` // by the monitor's clock, RFC 3339
	Kind         Kind     `json:"event"`
	Alert        bool     `json:"alert"` // the owner should look at it
	Organization string   `json:"organization"`
	Log          string   `json:"log,omitempty"`  // its origin
	Size         uint64   `json:"size,omitempty"` // of the head
	Leaf         *uint64  `json:"leaf,omitempty"` // of the batch
	Seq          *uint64  `json:"seq,omitempty"`  // of the entry
	Activity     string   `json:"activity,omitempty"`
	Type         string   `json:"type,omitempty"`   // ACTIVITY_TYPE_…
	Status       string   `json:"status,omitempty"` // ACTIVITY_STATUS_… after this step
	Fingerprint  string   `json:"fingerprint,omitempty"`
	Mode         string   `json:"mode,omitempty"`    // what the reply waited for at least: strict, bounded or none
	Decided      string   `json:"decided,omitempty"` // by the enclave's clock, RFC 3339
	Witness      string   `json:"witness,omitempty"`
	Text         string   `json:"text,omitempty"`
	Evidence     []string `json:"evidence,omitempty"` // cosigned checkpoints that contradict each other
}
