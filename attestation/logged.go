package attestation

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/attestation/tlog"
)

// LogKey is the claim about which key signs the checkpoints of one of the deployment's logs.
type LogKey struct {
	Origin string `json:"origin"` // NAME/DEPLOYMENT/RANGE/GENERATION
	Key    string `json:"vkey"`   // as tlog.ParseKey takes it, named Origin
}

// Type is TypeLog.
func (*LogKey) Type() string { return TypeLog }

// Names returns three empty texts: the claim is about the deployment.
func (*LogKey) Names() (string, string, string) { return "", "", "" }

// Fresh is nil: the checkpoints of the log say how fresh its entries are.
func (*LogKey) Fresh() *ClaimFreshness { return nil }

func (c *LogKey) write(w *writer) {
	w.open("logKeyProof")
	w.text("origin", c.Origin)
	w.text("vkey", c.Key)
	w.close()
}

func (c *LogKey) check() error {
	k, err := tlog.ParseKey(c.Key)
	if err != nil {
		return fmt.Errorf("vkey: %w", err)
	}
	if k.Type() != tlog.TypeLog || k.Name() != c.Origin {
		return errors.New("vkey is not of the log that origin names")
	}
	return nil
}

// A LogProof is the reply of get_log_proof: a proof that an entry of an organization's ledger is in a log which
// witnesses have cosigned, and an app proof of that log's key.
type LogProof struct {
	LogProof string   `json:"logProof"` // as tlog.ParseLoggedProof takes it
	LogKey   AppProof `json:"logKey"`   // of a LogKey
}

// A LoggedEntry is the content of a verified logged proof: the facts of one step of an activity, and its place
// in a log.
type LoggedEntry struct {
	*tlog.Logged
	// Boot is the boot whose live key named the log's key, and whose manifest names the witnesses. The
	// entry may be of an earlier boot.
	Boot *Boot
	// Time is the latest time, by the witnesses' clocks and to the second, at or after which a quorum signed the checkpoint.
	Time time.Time
	// Unseen is how many generations lie between the newest in Policy.KnownGenerations and this one: the
	// proof does not show what happened to the log in them. 0 where the policy names none.
	Unseen uint32

	witnesses int // how many the manifest names
}

// VerifyLogProof verifies that an entry is in one of the deployment's logs. text and logKey are the members of a
// LogProof: logKey, an app proof of a LogKey by the boot's live key, names the log's key; the boot's manifest names
// the log and its witnesses; a quorum of them has cosigned the checkpoint, from which hashes lead to the entry's facts.
//
// The boot's policy applies with MaxCheckpointAge and KnownGenerations. A proof from a generation that was
// recovered is no error: see Lost, CheckHistory and String.
func VerifyLogProof(text string, logKey AppProof, boot *Boot) (*LoggedEntry, error) {
	l, err := verifyLogProof(text, logKey, boot)
	if err != nil {
		return nil, fmt.Errorf("log proof: %w", err)
	}
	return l, nil
}

func verifyLogProof(text string, logKey AppProof, boot *Boot) (*LoggedEntry, error) {
	stated, err := boot.VerifyAppProof(logKey)
	if err != nil {
		return nil, err
	}
	of, ok := stated.Claim.(*LogKey)
	if !ok {
		return nil, errors.New("the proof beside it states no log's key")
	}
	if boot.Manifest == nil || boot.Manifest.Log == nil {
		return nil, errors.New("the manifest names no witnesses")
	}
	key, err := tlog.ParseKey(of.Key)
	if err != nil {
		return nil, err
	}
	witnesses, err := tlog.ParsePolicy(boot.Manifest.Log.Policy)
	if err != nil {
		return nil, err
	}
	read, err := tlog.ParseLoggedProof(text)
	if err != nil {
		return nil, err
	}
	shown, err := read.Verify(key, witnesses)
	if err != nil {
		return nil, err
	}
	if shown.Origin.Name != boot.Manifest.Log.Name {
		return nil, errors.New("the log has not the name that the manifest gives")
	}
	keys, _ := witnesses.Witnesses()
	l := &LoggedEntry{Logged: shown, Boot: boot, witnesses: len(keys)}
	if l.Time, err = quorumTime(shown.Signed, witnesses.Quorum()); err != nil {
		return nil, err
	}
	if err := boot.policy.checkAge("checkpoint", l.Time, boot.policy.MaxCheckpointAge); err != nil {
		return nil, err
	}
	if known := boot.policy.KnownGenerations[shown.Origin.Logs()]; known > 0 {
		if shown.Origin.Generation < known {
			return nil, fmt.Errorf("generation %d of the log, of which generation %d is known", shown.Origin.Generation, known)
		}
		l.Unseen = max(shown.Origin.Generation-known, 1) - 1
	}
	return l, nil
}

// quorumTime is the latest time at or after which a quorum signed: the quorum-th latest of the cosignatures'
// times. Fewer witnesses than a quorum cannot make it later with wrong clocks.
func quorumTime(signed []tlog.Cosignature, quorum int) (time.Time, error) {
	var seconds []uint64
	for _, s := range signed {
		seconds = append(seconds, s.Seconds)
	}
	slices.SortFunc(seconds, func(a, b uint64) int { return cmp.Compare(b, a) })
	at := seconds[quorum-1]
	if at > maxExactInt/1000 {
		return time.Time{}, errors.New("the cosignatures' times are out of range")
	}
	return time.Unix(int64(at), 0).UTC(), nil
}

// Lost reports whether the log goes on from a backup, and how many batches that witnesses had seen it
// lost by that. The decisions in them are in no history that goes on.
func (l *LoggedEntry) Lost() (lost uint64, recovered bool) {
	if l.Adopt == nil || l.Adopt.How != tlog.HowRecovered {
		return 0, false
	}
	return l.Adopt.Witnessed - l.Adopt.Size, true
}

// CheckHistory refuses an entry of a log that goes on from a backup (Lost), or with generations that the proof does not
// show (Unseen), unless Policy.KnownGenerations of the boot's policy names the entry's generation: such a log may have
// lost entries, so that it is not enough that this one is in it.
func (l *LoggedEntry) CheckHistory() error {
	_, recovered := l.Lost()
	if known := l.Boot.policy.KnownGenerations[l.Origin.Logs()]; known != l.Origin.Generation && (recovered || l.Unseen > 0) {
		return errors.New(l.History())
	}
	return nil
}

// History describes in words which log this one goes on from.
func (l *LoggedEntry) History() string {
	history := "first generation"
	switch lost, recovered := l.Lost(); {
	case recovered:
		history = fmt.Sprintf("generation %d, recovered, %s lost: goes on from %d batches of %s", l.Origin.Generation, batches(lost), l.Adopt.Size, l.Adopt.Origin)
	case l.Adopt != nil:
		history = fmt.Sprintf("generation %d, moved: goes on from %d batches of %s", l.Origin.Generation, l.Adopt.Size, l.Adopt.Origin)
	}
	if l.Unseen > 0 {
		history += fmt.Sprintf("; %d generation(s) since the one known not shown", l.Unseen)
	}
	return history
}

func batches(n uint64) string {
	if n == 1 {
		return "1 batch"
	}
	return strconv.FormatUint(n, 10) + " batches"
}

// Wait describes in words what the reply waited for at least, by the mode of the entry.
func (l *LoggedEntry) Wait() string {
	switch l.Facts.Mode {
	case tlog.ModeStrict:
		return "strict: the reply left when witnesses had cosigned it"
	case tlog.ModeBounded:
		return "bounded: the reply may have left before witnesses had cosigned it"
	}
	return l.Facts.Mode.String() + ": the reply left when there were no witnesses"
}

// String describes the entry in one line: mode, history, place in the log, and which witnesses cosigned when.
func (l *LoggedEntry) String() string {
	return fmt.Sprintf("%s; %s; leaf %d of %d in %s; %s", l.Facts.Mode, l.History(), l.Index, l.Checkpoint.Size, l.Origin, l.Signers())
}

// Signers describes in words which witnesses cosigned the checkpoint, and when.
func (l *LoggedEntry) Signers() string {
	var signed []string
	for _, s := range l.Signed {
		signed = append(signed, fmt.Sprintf("%s at %s", s.Witness, time.Unix(int64(min(s.Seconds, maxExactInt/1000)), 0).UTC().Format(time.RFC3339)))
	}
	return fmt.Sprintf("cosigned by %d of %d witnesses (%s)", len(signed), l.witnesses, strings.Join(signed, ", "))
}

// States reports whether an app proof is one of those that this step produced, by the SHA-256 of its payload.
// It does not verify the proof; Boot.VerifyAppProof does.
func (l *LoggedEntry) States(a AppProof) bool {
	return slices.Contains(l.Facts.Proofs, sha256.Sum256([]byte(a.ProofPayload)))
}

// CheckLogged refuses a verified entry that is not the expected one, by organization, activity, fingerprint,
// boot number and time. An expectation with any other member is an error: facts do not have them.
func (e Expectation) CheckLogged(l *LoggedEntry) error {
	if l == nil || l.Logged == nil {
		return errors.New("no logged proof")
	}
	f := l.Facts
	if err := cmp.Or(
		checkSame("type", e.Type, ""),
		checkSame("organization", e.OrganizationID, UUID(f.Organization)),
		checkSame("activity", e.ActivityID, UUID(f.Activity)),
		checkSame("fingerprint", e.Fingerprint, fmt.Sprintf("sha256:%x", f.Fingerprint)),
		checkSame("boot number", e.BootNumber, strconv.FormatUint(f.Boot, 10)),
	); err != nil {
		return err
	}
	if time.UnixMilli(int64(min(f.TimeMs, maxExactInt))).Before(e.NotBefore) {
		return errors.New("older than expected")
	}
	return e.checkClaim(nil)
}

// UUID formats an id as the interface does: lower-case hex in groups of 8, 4, 4, 4 and 12 digits.
func UUID(id [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
