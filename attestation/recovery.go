package attestation

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"cloister/attestation/tlog"
)

// SigningOpen is the value of Manifest.SigningAfterRecovery that lets organizations sign at once.
const SigningOpen = "open"

// maxRecovered bounds Manifest.Recover: a deployment has no more ranges.
const maxRecovered = 64

// A RecoveredLog is the point from which a range goes on after its store lost batches that witnesses have seen. The
// enclave accepts only a log that ends exactly there, and begins the next generation with it. The generation before is
// given up: its batches from Size on are lost.
type RecoveredLog struct {
	Range      uint16 `json:"range"`
	Origin     string `json:"origin"`     // of the log that is adopted, as its checkpoints name it
	Size       uint64 `json:"size"`       // how many of its batches are left
	Root       string `json:"root"`       // of its tree at that size, 32 bytes hex
	Witnessed  uint64 `json:"witnessed"`  // the largest size that a witness is known to have seen; as much as Size: nothing is lost
	Generation uint32 `json:"generation"` // the one that begins: the origin's plus one
}

// Lost is how many batches witnesses have seen that are not recovered.
func (r *RecoveredLog) Lost() uint64 { return r.Witnessed - r.Size }

// String describes the recovery in words, for people who are about to approve it.
func (r *RecoveredLog) String() string {
	return fmt.Sprintf("range %d goes on as generation %d from %d batches of %s, with root %s: %d that witnesses have seen are lost", r.Range, r.Generation, r.Size, r.Origin, r.Root, r.Lost())
}

// Root256 is Root in bytes.
func (r *RecoveredLog) Root256() (root [32]byte) {
	_, _ = hex.Decode(root[:], []byte(r.Root)) // checked when the manifest was read
	return root
}

func (m *Manifest) checkRecovery() error {
	if m.SigningAfterRecovery != "" && (m.SigningAfterRecovery != SigningOpen || len(m.Recover) == 0) {
		return errors.New("signingAfterRecovery is absent or, with recover, " + SigningOpen)
	}
	if len(m.Recover) == 0 {
		return nil
	}
	switch {
	case m.Log == nil:
		return errors.New("recover: without witnesses no log stands still, and none is recovered")
	case len(m.Recover) > maxRecovered:
		return errors.New("recover: more than there are ranges")
	case m.Predecessor == "" && m.Operators.Named():
		return errors.New("recover: it needs a predecessor, whose operators approve it")
	}
	for i := range m.Recover {
		r := &m.Recover[i]
		if i > 0 && m.Recover[i-1].Range >= r.Range {
			return errors.New("recover: not in the order of ranges, or one twice")
		}
		if err := r.check(); err != nil {
			return fmt.Errorf("recover: range %d: %w", r.Range, err)
		}
		if r.Generation < m.Log.FirstGeneration() {
			return fmt.Errorf("recover: range %d: log is for generation %d and later", r.Range, m.Log.FirstGeneration())
		}
	}
	return nil
}

func (r *RecoveredLog) check() error {
	switch {
	case r.Range >= maxRecovered:
		return errors.New("there is no such range")
	case r.Generation < 2 || r.Generation > maxGeneration:
		return fmt.Errorf("generation is not 2 to %d", maxGeneration)
	case !tlog.ValidName(r.Origin) || !strings.HasSuffix(r.Origin, fmt.Sprintf("/%d/%d", r.Range, r.Generation-1)):
		return errors.New("origin is not that of the range's generation before")
	case r.Size < 1 || r.Witnessed < r.Size || r.Witnessed > maxExactInt:
		return errors.New("size or witnessed is out of range, or more is left than was witnessed")
	}
	return checkHex("root", r.Root, 32)
}

// DrillPrefix begins every payload that an enclave signs in a drill (Manifest.Drill), before it is hashed. No chain's transaction
// or message begins like that: Ethereum's types end at 0x7f and its lists begin at 0xc0, no field of a protocol buffer has the
// wire type 7, and no text begins with 0xbf.
const DrillPrefix = "\xbfcloister drill 1\n"

func (m *Manifest) checkDrill() error {
	switch {
	case !m.Drill:
		return nil
	case m.Log != nil || len(m.Recover) > 0:
		return errors.New("drill: no witness hears of it, so log and recover are absent")
	case m.AdoptLog || m.RotateRootSecret || m.RotateStorageKey || m.ForgetStorageKey:
		return errors.New("drill: nothing of the deployment changes in it")
	case m.Predecessor == "" && m.Operators.Named():
		return errors.New("drill: it needs a predecessor, whose operators approve it")
	}
	return nil
}
