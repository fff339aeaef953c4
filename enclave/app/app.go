// Package app is the enclave of a customer's program: it takes a manifest that was approved and the program that the manifest
// names, proves to share holders what it is, puts the program's key together from their shares, and runs the program as its
// only child.
//
// It has no store and no network. Its host hands everything in and may hand in anything; what it runs is what a threshold
// of the manifest's own members have signed, in the image whose registers the manifest names. Nothing of a boot can be done
// twice: manifest, keys and registers are given once, and another manifest takes another enclave.
package app

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"cloister/attestation/commitment"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/shamir"
	"cloister/shared/tvc"
)

// A Device is the security module.
type Device interface {
	Attest(publicKey, userData, nonce []byte) ([]byte, error)
	ExtendPCR(index int, data []byte) ([]byte, error)
	LockPCRs(upTo int) error
	DescribePCR(index int) (value []byte, locked bool, err error)
	Now() time.Time
}

// A Machine is where the program runs.
type Machine interface {
	// Hold takes a program of size bytes in; nobody changes it from then on.
	Hold(program io.Reader, size int64) (Program, error)
	// Dial connects to a port that the program listens on.
	Dial(port uint16) (net.Conn, error)
}

// A Program is one that a Machine holds.
type Program interface {
	// Run runs it until it ends, with nothing but its arguments, its output and a connection that answer serves.
	Run(args []string, output io.Writer, answer func(io.ReadWriter)) error
	// Drop forgets it.
	Drop()
}

// Config is what an enclave is handed at its start. All fields are needed.
type Config struct {
	Device  Device
	Rand    io.Reader
	After   func(time.Duration) <-chan time.Time
	Machine Machine
	// RootSHA256 is that of the certificate, in DER, which Device's documents lead to. A manifest names the same.
	RootSHA256 [sha256.Size]byte
}

// An Enclave is safe for concurrent use.
type Enclave struct {
	cfg Config

	mu       sync.Mutex
	state    string
	envelope tvc.Envelope
	manifest [32]byte // its hash
	program  Program
	setup    *tvc.Keys // until the shares are together
	live     *tvc.Keys
	quorum   *tvc.Keys
	parts    map[string]shamir.Part // by the member's key
	starts   int
	ended    string
	output   tail
}

// New is an enclave that waits for its manifest.
func New(cfg Config) *Enclave {
	return &Enclave{cfg: cfg, state: tvc.StateManifest, parts: map[string]shamir.Part{}}
}

var errState = errors.New("not the moment for it: see the status")

// registers are those of the image and of the parent's role.
const registers = 4

// giveManifest takes the manifest, if it was approved by the threshold of its own members and is for this image.
func (e *Enclave) giveManifest(raw []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != tvc.StateManifest {
		return errState
	}
	envelope, err := tvc.ParseEnvelope(raw)
	if err != nil {
		return err
	}
	if len(envelope.ShareSetApprovals) != 0 {
		return errors.New("approvals of share holders before they could give their shares")
	}
	hash, err := envelope.Check()
	if err != nil {
		return err
	}
	if err := e.checkImage(&envelope.Manifest); err != nil {
		return err
	}
	e.envelope, e.manifest, e.state = *envelope, hash, tvc.StateProgram
	return nil
}

// checkImage holds the manifest against the registers. In debug mode those of the image are zero and the host reads along:
// only a manifest that says so runs there.
func (e *Enclave) checkImage(m *tvc.Manifest) error {
	for i, want := range [registers]string{m.Enclave.PCR0, m.Enclave.PCR1, m.Enclave.PCR2, m.Enclave.PCR3} {
		value, _, err := e.cfg.Device.DescribePCR(i)
		if err != nil {
			return fmt.Errorf("reading PCR %d: %w", i, err)
		}
		if hex.EncodeToString(value) != want {
			return fmt.Errorf("PCR%d of this enclave is not the manifest's", i)
		}
		if i == 0 && len(bytes.Trim(value, "\x00")) == 0 && !m.Pivot.DebugMode {
			return errors.New("an image in debug mode, and a manifest that is not for it")
		}
	}
	root, err := hex.DecodeString(m.Enclave.AWSRootCertificate)
	if err != nil || sha256.Sum256(root) != e.cfg.RootSHA256 {
		return errors.New("awsRootCertificate is not that which attestation leads to here")
	}
	return nil
}

// giveProgram reads the program, and once it is the manifest's makes the keys and commits to them and to the manifest.
func (e *Enclave) giveProgram(body io.Reader, size uint32) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != tvc.StateProgram || size == 0 || size > tvc.MaxProgram {
		return errors.Join(errState, errUnread)
	}
	hash := sha256.New()
	program, err := e.cfg.Machine.Hold(io.TeeReader(body, hash), int64(size))
	if err != nil {
		return errors.Join(fmt.Errorf("taking the program in: %w", err), errUnread)
	}
	if hex.EncodeToString(hash.Sum(nil)) != e.envelope.Manifest.Pivot.Hash {
		program.Drop()
		return errors.New("the program is not the one whose digest the manifest holds")
	}
	e.program = program
	return e.commit()
}

// commit makes both keys and writes them into the registers, for good. An enclave that cannot ends: e.state stays behind,
// where nothing leads on from.
func (e *Enclave) commit() (err error) {
	e.state = "" // nothing is answered until this is whole
	if e.setup, err = tvc.DrawKeys(e.cfg.Rand); err != nil {
		return err
	}
	if e.live, err = tvc.DrawKeys(e.cfg.Rand); err != nil {
		return err
	}
	setup, live := commitment.Setup(e.setup.Hex(), e.manifest), commitment.Live(e.live.Hex(), e.manifest)
	if _, err := e.cfg.Device.ExtendPCR(commitment.SetupPCR, setup[:]); err != nil {
		return fmt.Errorf("extending PCR %d: %w", commitment.SetupPCR, err)
	}
	if _, err := e.cfg.Device.ExtendPCR(commitment.LivePCR, live[:]); err != nil {
		return fmt.Errorf("extending PCR %d: %w", commitment.LivePCR, err)
	}
	if err := e.cfg.Device.LockPCRs(allRegisters); err != nil {
		return fmt.Errorf("locking PCRs: %w", err)
	}
	// The committed state must be what the module says, or the first boot of two has written it.
	for index, want := range map[int][48]byte{
		commitment.SetupPCR: commitment.SetupRegister(e.setup.Hex(), e.manifest), commitment.LivePCR: commitment.LiveRegister(e.live.Hex(), e.manifest),
	} {
		if value, locked, err := e.cfg.Device.DescribePCR(index); err != nil || !locked || !bytes.Equal(value, want[:]) {
			return errors.Join(fmt.Errorf("PCR %d does not hold what was written into it", index), err)
		}
	}
	e.state = tvc.StateShares
	return nil
}

const allRegisters = 32

// giveShare takes one member's share. With the threshold of them the quorum key is put together, and the program starts.
func (e *Enclave) giveShare(raw []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != tvc.StateShares {
		return errState
	}
	posted, err := tvc.ParsePostedShare(raw)
	if err != nil {
		return err
	}
	set, member := &e.envelope.Manifest.ShareSet, posted.Approval.Member
	if !slices.Contains(set.Members, member) {
		return errors.New("share of nobody of the share set")
	}
	if _, given := e.parts[member.PubKey]; given {
		return errors.New("share of a member who has given his")
	}
	signature, err := hex.DecodeString(posted.Approval.Signature)
	if err != nil {
		return err
	}
	if err := tvc.CheckApproval(member.PubKey, e.manifest, signature); err != nil {
		return err
	}
	part, err := e.openShare(posted.Box)
	if err != nil {
		return err
	}
	for _, other := range e.parts {
		if other.X == part.X {
			part.Y.Wipe()
			return errors.New("share of a place that another member has given")
		}
	}
	e.parts[member.PubKey] = part
	e.envelope.ShareSetApprovals = append(e.envelope.ShareSetApprovals, posted.Approval)
	if len(e.parts) < int(set.Threshold) {
		return nil
	}
	if err := e.combine(); err != nil {
		return err
	}
	e.state = tvc.StateRunning
	go e.run()
	return nil
}

func (e *Enclave) openShare(box string) (part shamir.Part, err error) {
	raw, err := hex.DecodeString(box)
	if err != nil {
		return part, err
	}
	plain, err := tvc.Open(e.setup.Encryption, raw)
	if err != nil {
		return part, err
	}
	defer clear(plain)
	if len(plain) != tvc.ShareSize || plain[0] == 0 {
		return part, errors.New("box holds no share")
	}
	part.X = plain[0]
	part.Y, err = secret.From(plain[1:])
	return part, err
}

// combine puts the quorum key together. Shares that make another are forgotten: nobody knows which of them is wrong, and all
// may be given again.
func (e *Enclave) combine() error {
	parts := make([]shamir.Part, 0, len(e.parts))
	for _, part := range e.parts {
		parts = append(parts, part)
	}
	seed, err := shamir.Combine(parts)
	for _, part := range parts {
		part.Y.Wipe()
	}
	clear(e.parts)
	if err == nil {
		seed.Use(func(b []byte) { e.quorum, err = tvc.NewKeys(b) })
		seed.Wipe()
	}
	if err == nil && e.quorum.Hex() != e.envelope.Manifest.Namespace.QuorumKey {
		err = errors.New("they make another key than the manifest's")
	}
	if err != nil {
		e.quorum, e.envelope.ShareSetApprovals = nil, nil
		return fmt.Errorf("shares are forgotten: %w", err)
	}
	e.setup = nil
	return nil
}

// How long a program that ended waits until it is started again: twice as long each time, and from the start again once it
// has run for a while.
const (
	firstPause = time.Second
	lastPause  = time.Minute
	steady     = 10 * time.Minute
)

func (e *Enclave) run() {
	pause := firstPause
	pivot := e.envelope.Manifest.Pivot
	for {
		e.mu.Lock()
		e.starts++
		e.mu.Unlock()
		output := io.Discard
		if pivot.DebugMode {
			output = &e.output
		}
		started := e.cfg.Device.Now()
		err := e.program.Run(pivot.Args, output, e.answerProgram)
		e.mu.Lock()
		e.ended = "0"
		if err != nil {
			e.ended = err.Error()
		}
		if pivot.Restart == tvc.RestartNever {
			e.state = tvc.StateEnded
			e.mu.Unlock()
			return
		}
		e.mu.Unlock()
		if e.cfg.Device.Now().Sub(started) >= steady {
			pause = firstPause
		}
		<-e.cfg.After(pause)
		pause = min(2*pause, lastPause)
	}
}

func (e *Enclave) status() ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := tvc.Status{State: e.state, Shares: len(e.parts), Threshold: int(e.envelope.Manifest.ShareSet.Threshold), Starts: e.starts, Ended: e.ended}
	if e.state != tvc.StateManifest {
		s.ManifestSHA256 = hex.EncodeToString(e.manifest[:])
	}
	return json.Marshal(s)
}

// attest is the setup key's document while shares are awaited, and the live key's once the program runs.
func (e *Enclave) attest(states ...string) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Contains(states, e.state) {
		return nil, errState
	}
	keys := e.live
	if e.state == tvc.StateShares {
		keys = e.setup
	}
	document, err := e.cfg.Device.Attest(keys.Public[:], e.manifest[:], nil)
	if err != nil {
		return nil, fmt.Errorf("attesting: %w", err)
	}
	envelope, err := e.envelope.Encode()
	if err != nil {
		return nil, err
	}
	return json.Marshal(tvc.Attested{Document: document, Envelope: envelope, PublicKey: keys.Hex()})
}
