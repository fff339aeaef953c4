package attestation

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"cloister/attestation/tlog"
)

// MaxLogName is the longest LogTerms.Name in bytes. The origins of logs, which begin with it, then
// fit into a checkpoint.
const MaxLogName = 128

// Limits of LogTerms.ServeMs and LogTerms.BoundMs. Below a second a remote witness cannot keep up;
// one on the same laptop can. Above five minutes an enclave that was replaced would answer for
// longer than a request is live.
const (
	MinLogTime          = time.Second
	MinSimulatorLogTime = 100 * time.Millisecond
	MaxLogTime          = 5 * time.Minute
)

// LogTerms are the part of a manifest that names the witnesses of the deployment's logs, and says what
// a reply waits for.
type LogTerms struct {
	// Name begins the origin of each log: NAME/DEPLOYMENT/RANGE/GENERATION. At most MaxLogName
	// bytes, without blanks, control characters and +.
	Name string `json:"name"`
	// Policy is the text of a tlog-policy, as tlog.ParsePolicy takes it: 1 to 16 witnesses, each
	// with a public key of its own and the URL of its submission prefix, and how many make a quorum.
	Policy string `json:"policy"`
	// Tolerates is how many of the witnesses may lie or lose their memory without a second history
	// getting a quorum: less than twice the quorum minus all witnesses. At least 1 outside of simulators.
	Tolerates int `json:"tolerates"`
	// Mode is the name of tlog.ModeStrict or tlog.ModeBounded.
	Mode string `json:"mode"`
	// ServeMs is the length of a right to serve in milliseconds, from when an enclave sent a leaf that
	// got a quorum. A successor that was not named in the log waits as long.
	ServeMs uint64 `json:"serveMs"`
	// BoundMs is by how much, in milliseconds, replies may run ahead of the witnesses in bounded
	// mode. It is absent in strict mode.
	BoundMs uint64 `json:"boundMs,omitempty"`
	// Generation is the first generation of each log that the terms are for. It rises by one with every manifest that changes
	// them or recovers a log. Absent in the first terms of a deployment, which are for generation 1. These witnesses have seen
	// no log of an earlier generation, and would sign any.
	Generation uint32 `json:"generation,omitempty"`
}

// maxGeneration bounds LogTerms.Generation.
const maxGeneration = 1 << 20

// FirstGeneration is Generation, and 1 where that is absent.
func (l *LogTerms) FirstGeneration() uint32 { return max(l.Generation, 1) }

// Hash is the digest of the terms in the first leaf of each boot, which must not change within a log: it covers
// which witnesses make a quorum, and how long an enclave that was replaced may still serve. It is the SHA-256 of
// these lines, each ended by a line feed: "cloister log terms 1", name, serveMs in decimal, and the lines of the
// policy without comments, empty lines and URLs, one blank between words; last, unless absent, generation, a
// blank, and Generation in decimal. So a witness may move to another URL; another key, quorum or time is another hash.
func (l *LogTerms) Hash() [32]byte {
	var b strings.Builder
	fmt.Fprintf(&b, "cloister log terms 1\n%s\n%d\n", l.Name, l.ServeMs)
	for line := range strings.Lines(l.Policy) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) > 0 && words[0] == "witness" {
			words = words[:min(3, len(words))]
		}
		if len(words) > 0 {
			b.WriteString(strings.Join(words, " ") + "\n")
		}
	}
	if l.Generation != 0 {
		fmt.Fprintf(&b, "generation %d\n", l.Generation)
	}
	return sha256.Sum256([]byte(b.String()))
}

// Continues reports whether an enclave under the next manifest's terms may go on with the logs of these: their
// Hash is the same, and their mode is no weaker. After nil terms any may follow.
func (l *LogTerms) Continues(next *LogTerms) bool {
	if l == nil {
		return true
	}
	return next != nil && next.Hash() == l.Hash() && (l.Mode == next.Mode || next.Mode == tlog.ModeStrict.String())
}

// CheckNext refuses terms that may not follow these; either may be nil. Next terms go on with the logs (Continues), or are
// for the next generation, whose enclave closes the logs and begins others. A deployment with witnesses keeps having some.
func (l *LogTerms) CheckNext(next *LogTerms) error {
	switch {
	case l == nil && next == nil:
		return nil
	case next == nil:
		return errors.New("log: a deployment that has witnesses keeps some")
	case l == nil && next.Generation != 0:
		return errors.New("log: the first terms are for generation 1, which is left out")
	case !l.Continues(next) && next.Generation != l.FirstGeneration()+1:
		return fmt.Errorf("log: other witnesses, another name or time, or a weaker mode are for generation %d", l.FirstGeneration()+1)
	}
	return nil
}

// String describes the terms in words, for people who are about to rely on them.
func (l *LogTerms) String() string {
	p, err := tlog.ParsePolicy(l.Policy)
	if err != nil {
		return err.Error()
	}
	var names []string
	keys, _ := p.Witnesses()
	for _, k := range keys {
		names = append(names, k.Name())
	}
	waits := "a reply leaves once they have cosigned"
	if l.BoundMs != 0 {
		waits = "a reply is at most " + milliseconds(l.BoundMs) + " ahead of them"
	}
	since := ""
	if l.Generation != 0 {
		since = fmt.Sprintf("; from generation %d of each log on", l.Generation)
	}
	return fmt.Sprintf("%d of %d witnesses (%s), of whom %d may lie or forget; %s: %s%s", p.Quorum(), len(keys), strings.Join(names, ", "), l.Tolerates, l.Mode, waits, since)
}

func milliseconds(n uint64) string { return (time.Duration(n) * time.Millisecond).String() }

// checkLog requires terms exactly where the freshness mode is FreshWitnessed.
func (m *Manifest) checkLog() error {
	if (m.Log != nil) != (m.Freshness.Mode == FreshWitnessed) {
		return errors.New("log: it goes with the freshness mode " + FreshWitnessed + ", and with no other")
	}
	if m.Log == nil {
		return nil
	}
	if m.Log.Generation != 0 && m.Predecessor == "" {
		return errors.New("log: the first manifest is for generation 1, which is left out")
	}
	if err := m.Log.check(m.Kind == KindSimulator); err != nil {
		return fmt.Errorf("log: %w", err)
	}
	return nil
}

func (l *LogTerms) check(simulator bool) error {
	if len(l.Name) > MaxLogName || !tlog.ValidName(l.Name) {
		return fmt.Errorf("name is not 1 to %d bytes without blanks, control characters and +", MaxLogName)
	}
	if l.Generation == 1 || l.Generation > maxGeneration {
		return fmt.Errorf("generation is not absent or 2 to %d", maxGeneration)
	}
	// Operators read the text as it is, so no control character may hide a part of it.
	if !utf8.ValidString(l.Policy) || strings.ContainsFunc(l.Policy, func(r rune) bool { return r != '\n' && unicode.IsControl(r) }) {
		return errors.New("policy holds a control character other than the line feed")
	}
	p, err := tlog.ParsePolicy(l.Policy)
	if err != nil {
		return err
	}
	keys, urls := p.Witnesses()
	for i, k := range keys {
		if err := checkPrefix(urls[i]); err != nil {
			return fmt.Errorf("witness %s: %w", k.Name(), err)
		}
	}
	if l.Tolerates < 1 && !simulator {
		return errors.New("tolerates is 0, which is for simulators: one witness restored from a backup would do")
	}
	if !p.Tolerates(l.Tolerates) && !anyQuorum() {
		return fmt.Errorf("%d of %d witnesses do not tolerate %d: twice the quorum less all of them must be more", p.Quorum(), len(keys), l.Tolerates)
	}
	least := MinLogTime
	if simulator {
		least = MinSimulatorLogTime
	}
	if err := checkLogTime("serveMs", l.ServeMs, least); err != nil {
		return err
	}
	switch mode, err := tlog.ParseMode(l.Mode); {
	case err != nil:
		return err
	case mode == tlog.ModeBounded:
		return checkLogTime("boundMs", l.BoundMs, least)
	case mode == tlog.ModeStrict && l.BoundMs != 0:
		return errors.New("boundMs is of bounded mode")
	case mode == tlog.ModeNone:
		return errors.New("who has no witnesses leaves log out")
	}
	return nil
}

// checkPrefix requires a URL of a witness's submission prefix that a host can send requests to.
func checkPrefix(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery {
		return errors.New("its URL is not http:// or https://, a host and a path")
	}
	return nil
}

func checkLogTime(name string, ms uint64, least time.Duration) error {
	if ms < uint64(least.Milliseconds()) || ms > uint64(MaxLogTime.Milliseconds()) {
		return fmt.Errorf("%s is not %d to %d", name, least.Milliseconds(), MaxLogTime.Milliseconds())
	}
	return nil
}
