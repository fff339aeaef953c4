package wire

// Dial asks the host to connect to a server on the internet and to relay that connection to the
// enclave as one of RoleStream with the ticket. The host relays bytes without reading them, and
// is not trusted with their content: the enclave speaks TLS over it.
type Dial struct {
	Host   string `cbor:"1,keyasint"` // a name or an IP address without brackets, at most MaxDialHost bytes
	Port   uint16 `cbor:"2,keyasint"`
	Ticket Ticket `cbor:"3,keyasint"`
	// WithinMs is how long the enclave waits for the stream.
	WithinMs uint32 `cbor:"4,keyasint"`
}

// Pull asks the host for a stream that serves the blobs of a container image from its registry. For each blob the enclave
// sends its SHA-256, 32 bytes, all zero for the manifest to which the image's name resolves; the host answers with a
// BlobVerdict (1 byte), the blob's size (8 bytes, big-endian) and, with BlobHere, the blob. The enclave verifies every
// blob by its digest.
type Pull struct {
	Image string `cbor:"1,keyasint"` // HOST/NAME, with a tag or @sha256:HEX, at most MaxImageName bytes
	// Auth are the credentials for the image's registry, USER:PASSWORD, at most MaxAuth bytes; empty: none. The host must
	// not send them to any other server.
	Auth   string `cbor:"2,keyasint,omitempty"`
	Ticket Ticket `cbor:"3,keyasint"`
	// WithinMs is how long the enclave waits for the stream.
	WithinMs uint32 `cbor:"4,keyasint"`
}

// A BlobVerdict is the result of a request for a blob.
type BlobVerdict uint8

// The blob verdicts. The size is 0 with each but BlobHere.
const (
	BlobHere    BlobVerdict = 1
	BlobAbsent  BlobVerdict = 2 // the registry has no such blob
	BlobRefused BlobVerdict = 3 // the registry refuses it with these credentials
	BlobAway    BlobVerdict = 4 // the registry did not answer, or may not be asked
)

// A DialVerdict is the result of a Dial or a Pull.
type DialVerdict uint8

// The dial verdicts. With DialOpen the stream is open when the answer comes; with the others there is and will be none.
const (
	DialOpen    DialVerdict = 1
	DialRefused DialVerdict = 2 // the host doesn't connect there: the address is not public and its operator does not allow it
	DialAway    DialVerdict = 3 // the server was not reached in time
	DialBusy    DialVerdict = 4 // too many streams
)

// Dialed answers Dial and Pull.
type Dialed struct {
	Verdict DialVerdict `cbor:"1,keyasint"`
}
