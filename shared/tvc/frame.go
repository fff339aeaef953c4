package tvc

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
)

// Port is the port of vsock on which an app's enclave listens for its host.
const Port = 5001

// A frame is a byte that says what it is, four bytes of length, most significant first, and as many bytes. The host asks an
// app's enclave by one frame and is answered by one, over a connection that serves many questions.
const (
	AskStatus    byte = iota + 1 // → Status
	GiveManifest                 // an Envelope; once
	GiveProgram                  // the program; once it is the right one
	AskSetup                     // → Attested: the setup key, for share holders
	GiveShare                    // a PostedShare → Status
	AskProof                     // → Attested: the live key
	AskOutput                    // → the end of what the program wrote, in debug mode
	Connect                      // two bytes of port: behind the answer the connection is the program's
)

// What a program asks its enclave, by the same frames, over file descriptor ProgramFD.
const (
	Prove   byte = iota + 1 // text of an app proof → the live key, 130 bytes, and its signature, r ‖ s
	Certify                 // any bytes → the quorum key's signature over their SHA-256, r ‖ s
	Unbox                   // a box for the quorum key → what was in it
	AskTime                 // → milliseconds since 1970 by the security module, 8 bytes, most significant first
)

// ProgramFD is where a program asks its enclave.
const ProgramFD = 3

// How a question is answered.
const (
	Done    byte = 0
	Refused byte = 1 // the body says why
)

// MaxFrame bounds frames but that with a program, in bytes.
const MaxFrame = MaxEnvelope + 64<<10

const frameHead = 5

// WriteFrame writes a frame at once.
func WriteFrame(w io.Writer, kind byte, body []byte) error {
	_, err := w.Write(append(frameStart(kind, uint32(len(body))), body...))
	return err
}

// WriteProgram writes the frame of a program of size bytes.
func WriteProgram(w io.Writer, program io.Reader, size int64) error {
	if size < 1 || size > MaxProgram {
		return errors.New("program is empty or too long")
	}
	if _, err := w.Write(frameStart(GiveProgram, uint32(size))); err != nil {
		return err
	}
	_, err := io.CopyN(w, program, size)
	return err
}

func frameStart(kind byte, length uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{kind}, length)
}

// ReadHead reads what a frame is and how long its body.
func ReadHead(r io.Reader) (kind byte, length uint32, err error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, 0, err
	}
	return head[0], binary.BigEndian.Uint32(head[1:]), nil
}

// ReadBody reads the body of a frame of at most MaxFrame bytes.
func ReadBody(r io.Reader, length uint32) ([]byte, error) {
	if length > MaxFrame {
		return nil, fmt.Errorf("a frame of %d bytes, want at most %d", length, MaxFrame)
	}
	body := make([]byte, length)
	_, err := io.ReadFull(r, body)
	return body, err
}

// ReadAnswer reads an answer; one that refuses is a Refusal.
func ReadAnswer(r io.Reader) ([]byte, error) {
	kind, length, err := ReadHead(r)
	if err != nil {
		return nil, err
	}
	body, err := ReadBody(r, length)
	switch {
	case err != nil:
		return nil, err
	case kind == Refused:
		return nil, Refusal(body)
	case kind != Done:
		return nil, errors.New("an answer of no known kind")
	}
	return body, nil
}

// Ask asks one question.
func Ask(c io.ReadWriter, kind byte, body []byte) ([]byte, error) {
	if len(body) > math.MaxUint32 {
		return nil, errors.New("a question that is too long")
	}
	if err := WriteFrame(c, kind, body); err != nil {
		return nil, err
	}
	return ReadAnswer(c)
}

// A Refusal is why a question was not answered.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// Where an app's enclave stands.
const (
	StateManifest = "manifest" // it waits for its manifest
	StateProgram  = "program"
	StateShares   = "shares" // its registers name manifest and keys; it waits for shares
	StateRunning  = "running"
	StateEnded    = "ended" // the program ended, and its manifest says not to start it again
)

// A Status is what an app's enclave says of itself.
type Status struct {
	State          string `json:"state"`
	ManifestSHA256 string `json:"manifestSha256,omitempty"` // hex
	Shares         int    `json:"shares"`                   // given so far
	Threshold      int    `json:"threshold"`
	Starts         int    `json:"starts"`          // of the program
	Ended          string `json:"ended,omitempty"` // how it ended last
}

// Attested is an attestation document with the manifest that it is of, and all approvals so far.
type Attested struct {
	Document  []byte `json:"attestationDocument"`
	Envelope  []byte `json:"manifestEnvelope"`
	PublicKey string `json:"ephemeralPublicKeyHex"` // as the document has it: 130 bytes, hex
}

// ParseAttested reads the JSON of an Attested, whose parts are to be verified.
func ParseAttested(raw []byte) (a Attested, err error) {
	if json.Unmarshal(raw, &a) != nil || len(a.Document) == 0 || len(a.Envelope) > MaxEnvelope {
		return a, errors.New("attested: not JSON of the expected form")
	}
	return a, nil
}

// Join copies both ways between two connections until both ways have ended.
func Join(one, other net.Conn) {
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{one, other}, {other, one}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			// Whoever reads must hear that nothing more comes; who still writes may go on.
			if half, ok := way[0].(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			} else {
				_ = way[0].Close()
			}
		})
	}
	both.Wait()
}
