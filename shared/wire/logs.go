package wire

// A LogState says whether the witnesses of a range's log let the enclave serve the range.
type LogState string

// The states of a log. The second to fourth are those of a boot, in their order.
const (
	LogUnwitnessed LogState = "unwitnessed" // it has no witnesses, and nothing waits for them
	LogStarting    LogState = "starting"    // the boot's first leaf lacks a quorum
	LogWaiting     LogState = "waiting"     // until no earlier enclave may serve any more
	LogServing     LogState = "serving"     // it serves, or does so once somebody asks
	LogStalled     LogState = "stalled"     // a stored leaf has lacked a quorum for too long: requests are refused
)

// A LogStatus is the state of a range's log as the enclave sees it, for the operator: an element of the list in the reply to
// OpLogs.
type LogStatus struct {
	Range      Range    `json:"range"`
	Origin     string   `json:"origin"`
	Generation uint32   `json:"generation"`
	Size       uint64   `json:"size"` // stored leaves
	State      LogState `json:"state"`
	// WaitMs is for how much longer a boot waits in LogWaiting. In LogStarting it is how long LogWaiting will last.
	WaitMs uint64 `json:"waitMs,omitempty"`
	// Quorum is how many cosignatures are needed. It and all fields after it are zero without witnesses.
	Quorum int `json:"quorum,omitempty"`
	// Unwitnessed is the number of stored leaves without a quorum, UnwitnessedMs how long the oldest of them has been stored, and
	// BoundMs how long it may lack a quorum before the enclave refuses requests.
	Unwitnessed   uint64 `json:"unwitnessed"`
	UnwitnessedMs uint64 `json:"unwitnessedMs,omitempty"`
	BoundMs       uint64 `json:"boundMs,omitempty"`
	// QuorumAgeMs is the time since the last quorum; absent if this boot has had none.
	QuorumAgeMs *uint64 `json:"quorumAgeMs,omitempty"`
	// Missing are the witnesses without a valid cosignature in the newest round, if that had no quorum. It is empty if the host
	// brought no answer at all.
	Missing []string `json:"missing,omitempty"`
}

// Serves reports whether requests are answered. A boot that needs only the quorum of its first leaf has the same time for it as
// every later leaf. A state that this release does not know counts as one that serves.
func (s *LogStatus) Serves() bool {
	switch s.State {
	case LogStarting:
		return s.WaitMs == 0 && s.UnwitnessedMs <= s.BoundMs
	case LogWaiting, LogStalled:
		return false
	}
	return true
}
