package monitor

// A Kind says what an event is about.
type Kind string

// The kinds. All but the first three are alerts, as are logs that were recovered or that nobody showed.
const (
	KindEntry     Kind = "entry"         // an entry of the ledger, with its proof
	KindLog       Kind = "log"           // the log is another than before, or the first
	KindAway      Kind = "witness-away"  // a witness does not answer
	KindUnseen    Kind = "unseen"        // it could not be looked to the end
	KindRefused   Kind = "refused"       // what was shown does not hold
	KindOldHead   Kind = "head-old"      // the newest head is too old
	KindOlderHead Kind = "head-back"     // a head is older than one before
	KindForked    Kind = "head-forked"   // two heads that cannot be of one log
	KindLost      Kind = "lost"          // entries that were told of, by a recovery of the log
	KindRewritten Kind = "rewritten"     // the ledger is another than before
	KindEarlier   Kind = "clock-back"    // an entry is older than the one before
	KindWithheld  Kind = "withheld"      // logged and not listed
	KindUnlogged  Kind = "unlogged"      // listed and not logged
	KindAhead     Kind = "witness-ahead" // a witness has seen more than is shown
	KindForgot    Kind = "witness-lost"  // a witness has lost its memory, or never knew the log
)

// An Event is what a monitor tells of. Members that have nothing to say are left out.
type Event struct {
	At           string   `json:"at"` // by the monitor's clock, RFC 3339
	Kind         Kind     `json:"event"`
	Alert        bool     `json:"alert"` // somebody should look
	Organization string   `json:"organization"`
	Log          string   `json:"log,omitempty"`  // origin
	Size         uint64   `json:"size,omitempty"` // of the head
	Leaf         *uint64  `json:"leaf,omitempty"` // of the batch
	Seq          *uint64  `json:"seq,omitempty"`  // of the entry
	Activity     string   `json:"activity,omitempty"`
	Type         string   `json:"type,omitempty"`   // ACTIVITY_TYPE_…
	Status       string   `json:"status,omitempty"` // ACTIVITY_STATUS_… after this step
	Fingerprint  string   `json:"fingerprint,omitempty"`
	Mode         string   `json:"mode,omitempty"`    // what the reply waited for at least
	Decided      string   `json:"decided,omitempty"` // by the enclave's clock, RFC 3339
	Witness      string   `json:"witness,omitempty"`
	Text         string   `json:"text,omitempty"`
	Evidence     []string `json:"evidence,omitempty"` // cosigned checkpoints that contradict each other
}
