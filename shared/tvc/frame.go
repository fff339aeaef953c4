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

// Port is the vsock port on which an app's enclave listens for its host.
const Port = 5001

// The kinds of frames that the host sends to an app's enclave. A frame is a kind (1 byte), the body's length (4 bytes,
// big-endian) and the body. The enclave answers each with one frame, over a connection for many questions. After →: the
// answer's body.
const (
	AskStatus    byte = iota + 1 // → Status
	GiveManifest                 // an Envelope; accepted once
	GiveProgram                  // the program; accepted once, if its hash is the manifest's
	AskSetup                     // → Attested with the setup key, for share holders
	GiveShare                    // a PostedShare → Status
	AskProof                     // → Attested with the live key
	AskOutput                    // → the end of the program's output, in debug mode
	Connect                      // port, 2 bytes; after the answer the connection is one to the program's port
)

// The kinds of frames that a program sends to its enclave, over file descriptor ProgramFD.
const (
	Prove   byte = iota + 1 // text of an app proof → the live key, 130 bytes, and its signature, r ‖ s
	Certify                 // any bytes → the quorum key's signature over their SHA-256, r ‖ s
	Unbox                   // a box for the quorum key → its plain text
	AskTime                 // → milliseconds since 1970 by the security module, 8 bytes, big-endian
)

// ProgramFD is the file descriptor of a program's connection to its enclave.
const ProgramFD = 3

// The kinds of answers.
const (
	Done    byte = 0
	Refused byte = 1 // the body is the reason, as text
)

// MaxFrame is the largest body of a frame in bytes, except of one with a program.
const MaxFrame = MaxEnvelope + 64<<10

const frameHead = 5

// WriteFrame writes a frame in one write.
func WriteFrame(w io.Writer, kind byte, body []byte) error {
	_, err := w.Write(append(frameStart(kind, uint32(len(body))), body...))
	return err
}

// WriteProgram writes a GiveProgram frame with a program of size bytes.
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

// ReadHead reads the head of a frame: its kind and its body's length.
func ReadHead(r io.Reader) (kind byte, length uint32, err error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, 0, err
	}
	return head[0], binary.BigEndian.Uint32(head[1:]), nil
}

// ReadBody reads the body of a frame. It refuses more than MaxFrame bytes.
func ReadBody(r io.Reader, length uint32) ([]byte, error) {
	if length > MaxFrame {
		return nil, fmt.Errorf("a frame of %d bytes, want at most %d", length, MaxFrame)
	}
	body := make([]byte, length)
	_, err := io.ReadFull(r, body)
	return body, err
}

// ReadAnswer reads an answer and returns its body. The error of a Refused answer is a Refusal.
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

// Ask writes one question and reads its answer.
func Ask(c io.ReadWriter, kind byte, body []byte) ([]byte, error) {
	if len(body) > math.MaxUint32 {
		return nil, errors.New("a question that is too long")
	}
	if err := WriteFrame(c, kind, body); err != nil {
		return nil, err
	}
	return ReadAnswer(c)
}

// A Refusal is the error of a refused question: the reason that the enclave gave.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// The states of an app's enclave, the values of Status.State.
const (
	StateManifest = "manifest" // it waits for its manifest
	StateProgram  = "program"  // it waits for its program
	StateShares   = "shares"   // its PCRs commit to manifest and keys; it waits for shares
	StateRunning  = "running"
	StateEnded    = "ended" // the program ended, and its manifest says not to start it again
)

// A Status is the status that an app's enclave reports.
type Status struct {
	State          string `json:"state"`
	ManifestSHA256 string `json:"manifestSha256,omitempty"` // hex
	Shares         int    `json:"shares"`                   // shares received so far
	Threshold      int    `json:"threshold"`
	Starts         int    `json:"starts"`          // how often the program was started
	Ended          string `json:"ended,omitempty"` // how the program ended last
}

// Attested is an attestation document of an app's enclave, with its manifest and all approvals so far.
type Attested struct {
	Document  []byte `json:"attestationDocument"`
	Envelope  []byte `json:"manifestEnvelope"`
	PublicKey string `json:"ephemeralPublicKeyHex"` // the key in the document: 130 bytes, hex
}

// ParseAttested decodes the JSON of an Attested. It verifies nothing but the form.
func ParseAttested(raw []byte) (a Attested, err error) {
	if json.Unmarshal(raw, &a) != nil || len(a.Document) == 0 || len(a.Envelope) > MaxEnvelope {
		return a, errors.New("attested: not JSON of the expected form")
	}
	return a, nil
}

// Join relays two connections to each other, until both directions have ended.
func Join(one, other net.Conn) {
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{one, other}, {other, one}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			// Close one direction only: the other may still have data.
			if half, ok := way[0].(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			} else {
				_ = way[0].Close()
			}
		})
	}
	both.Wait()
}
