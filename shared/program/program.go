// Package program is what a customer's program imports to ask the enclave that it runs in: for app proofs by the enclave's live
// key, for signatures and decryption by the app's quorum key, and for the time. The keys stay in the enclave's first process.
package program

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"cloister/shared/tvc"
)

// An Enclave is safe for concurrent use.
type Enclave struct {
	mu   sync.Mutex
	conn io.ReadWriter
}

// Open is the enclave around this program. Where there is none, the first question fails.
func Open() *Enclave { return New(os.NewFile(tvc.ProgramFD, "enclave")) }

// New is an enclave at the other end of a connection.
func New(conn io.ReadWriter) *Enclave { return &Enclave{conn: conn} }

// Ask asks by hand; see the constants of package tvc.
func (e *Enclave) Ask(kind byte, body []byte) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	reply, err := tvc.Ask(e.conn, kind, body)
	if err != nil {
		return nil, fmt.Errorf("asking the enclave: %w", err)
	}
	return reply, nil
}

// A Proof is an app proof, as clients of the interface read it.
type Proof struct {
	Scheme       string `json:"scheme"`
	PublicKey    string `json:"publicKey"`
	ProofPayload string `json:"proofPayload"`
	Signature    string `json:"signature"`
}

const scheme = "SIGNATURE_SCHEME_EPHEMERAL_KEY_P256"

// Prove has the live key sign these members, to which it adds the enclave's time as timestampMs.
func (e *Enclave) Prove(members map[string]any) (*Proof, error) {
	now, err := e.Now()
	if err != nil {
		return nil, err
	}
	members["timestampMs"] = strconv.FormatInt(now.UnixMilli(), 10)
	text, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	reply, err := e.Ask(tvc.Prove, text)
	if err != nil {
		return nil, err
	}
	if len(reply) != tvc.PairSize+tvc.SignatureSize {
		return nil, errors.New("the enclave answered no signature")
	}
	return &Proof{scheme, hex.EncodeToString(reply[:tvc.PairSize]), string(text), hex.EncodeToString(reply[tvc.PairSize:])}, nil
}

// Certify has the app's quorum key sign SHA-256 of a message: r ‖ s, verified by the manifest's namespace.quorumKey. Its
// signatures stand across boots and deployments of the app.
func (e *Enclave) Certify(message []byte) ([]byte, error) { return e.Ask(tvc.Certify, message) }

// Unbox decrypts what was encrypted to the app's quorum key.
func (e *Enclave) Unbox(box []byte) ([]byte, error) { return e.Ask(tvc.Unbox, box) }

// Now is the security module's time.
func (e *Enclave) Now() (time.Time, error) {
	reply, err := e.Ask(tvc.AskTime, nil)
	if err != nil {
		return time.Time{}, err
	}
	if len(reply) != 8 {
		return time.Time{}, errors.New("the enclave answered no time")
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(reply))), nil
}
