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

// Pull asks the host for a stream over which it gives the blobs of an image that it gets from a registry. The enclave
// sends the SHA-256 of one, 32 bytes, all zero for the manifest that the image's name leads to; the host answers with a
// BlobVerdict, the blob's size in 8 bytes, big-endian, and with BlobHere the blob. Then comes the next. Whatever it
// gives, the enclave holds it against the digest.
type Pull struct {
	Image string `cbor:"1,keyasint"` // HOST/NAME, with a tag or @sha256:HEX, at most MaxImageName bytes
	// Auth is what the image's registry asks for, USER:PASSWORD, at most MaxAuth bytes; empty: nothing. It is for that
	// registry and nobody else.
	Auth   string `cbor:"2,keyasint,omitempty"`
	Ticket Ticket `cbor:"3,keyasint"`
	// WithinMs is how long the enclave waits for the stream.
	WithinMs uint32 `cbor:"4,keyasint"`
}

// A BlobVerdict says what came of asking for a blob.
type BlobVerdict uint8

// The verdicts. All but BlobHere come with a size of 0.
const (
	BlobHere    BlobVerdict = 1
	BlobAbsent  BlobVerdict = 2 // the registry has none
	BlobRefused BlobVerdict = 3 // the registry does not give it to who asks so
	BlobAway    BlobVerdict = 4 // the registry did not answer, or may not be asked
)

// A DialVerdict says what came of a Dial or a Pull.
type DialVerdict uint8

// The verdicts. With DialOpen the stream stands already; with all others none does and none will.
const (
	DialOpen    DialVerdict = 1
	DialRefused DialVerdict = 2 // the host connects to no such place: it is not public and its operator does not allow it
	DialAway    DialVerdict = 3 // not reached, or not in time
	DialBusy    DialVerdict = 4 // too many streams
)

// Dialed answers Dial and Pull.
type Dialed struct {
	Verdict DialVerdict `cbor:"1,keyasint"`
}
