package wire

// Dial asks the host to connect to a name outside, and then to connect the enclave
// to that by a connection of RoleStream with the ticket. What goes over it the host
// carries unread and cannot be trusted with: the enclave speaks TLS over it.
type Dial struct {
	Host   string `cbor:"1,keyasint"` // a name or an IP address without brackets, at most MaxDialHost bytes
	Port   uint16 `cbor:"2,keyasint"`
	Ticket Ticket `cbor:"3,keyasint"`
	// WithinMs is how long the enclave waits.
	WithinMs uint32 `cbor:"4,keyasint"`
}

// A DialVerdict says what came of a Dial.
type DialVerdict uint8

// The verdicts. With DialOpen the stream stands already; with all others none does and none will.
const (
	DialOpen    DialVerdict = 1
	DialRefused DialVerdict = 2 // the host connects to no such place: it is not public and its operator does not allow it
	DialAway    DialVerdict = 3 // not reached, or not in time
	DialBusy    DialVerdict = 4 // too many streams
)

// Dialed answers Dial.
type Dialed struct {
	Verdict DialVerdict `cbor:"1,keyasint"`
}
