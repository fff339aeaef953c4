package tlog

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// MaxWitnesses is the most witnesses of a policy.
const MaxWitnesses = 16

// MaxPolicy and MaxNote are the longest texts of a policy and of a cosigned checkpoint
// in bytes. MaxWitnesses of the longest kind fit into both.
const (
	MaxPolicy = 64 << 10
	MaxNote   = 64 << 10
)

// A Policy is a set of witnesses and how many of them make a quorum: one group of k
// of n.
type Policy struct {
	needed    int
	witnesses []*Key
	urls      []string // of the witnesses; empty if none is named
}

// ParsePolicy reads the text of a policy in the form of tlog-policy, with these lines, empty
// lines and comments after #:
//
//	witness NAME VKEY [URL]
//	group NAME K WITNESS...      K is a number, any or all
//	quorum NAME                  of the group, or of a witness alone
//
// It names no logs: the verifier passes the log's key to Verify. Every witness is in the
// one group. Two witnesses with one public key are refused, whatever their names: one of
// them could sign for both.
func ParsePolicy(text string) (*Policy, error) {
	if len(text) > MaxPolicy {
		return nil, fmt.Errorf("tlog: a policy of more than %d bytes", MaxPolicy)
	}
	p := new(Policy)
	var group, quorum string
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		err := errors.New("it is none of witness, group and quorum with what belongs to them")
		switch {
		case quorum != "":
			err = errors.New("nothing follows the quorum")
		case words[0] == "witness" && (len(words) == 3 || len(words) == 4) && group == "":
			err = p.add(words[1:])
		case words[0] == "group" && len(words) >= 4 && group == "":
			group, err = words[1], p.group(words[2:])
		case words[0] == "quorum" && len(words) == 2:
			quorum, err = words[1], nil
		}
		if err != nil {
			return nil, fmt.Errorf("tlog: line %d of a policy: %w", i+1, err)
		}
	}
	if len(p.witnesses) == 1 && group == "" {
		group, p.needed = p.witnesses[0].name, 1
	}
	if quorum == "" || quorum != group {
		return nil, errors.New("tlog: a policy's quorum is its one group")
	}
	return p, nil
}

func (p *Policy) add(words []string) error {
	k, err := ParseKey(words[1])
	if err != nil {
		return err
	}
	switch {
	case k.kind != TypeCosignature:
		return fmt.Errorf("%s has no witness's key", words[0])
	case len(p.witnesses) == MaxWitnesses:
		return fmt.Errorf("more than %d witnesses", MaxWitnesses)
	case k.name != words[0]:
		return fmt.Errorf("%.40q has the key of %q", words[0], k.name)
	}
	for _, other := range p.witnesses {
		if other.name == k.name || other.public.Equal(k.public) {
			return fmt.Errorf("%s is %s", k.name, other.name)
		}
	}
	url := ""
	if len(words) == 3 {
		url = words[2]
	}
	p.witnesses, p.urls = append(p.witnesses, k), append(p.urls, url)
	return nil
}

func (p *Policy) group(words []string) (err error) {
	members := words[1:]
	if len(members) != len(p.witnesses) {
		return errors.New("the group is of all witnesses")
	}
	for _, k := range p.witnesses {
		if !slices.Contains(members, k.name) {
			return fmt.Errorf("%s is not in the group", k.name)
		}
	}
	switch words[0] {
	case "any":
		p.needed = 1
	case "all":
		p.needed = len(members)
	default:
		if p.needed, err = parseNumber(words[0], len(members)); err == nil && p.needed == 0 {
			err = errors.New("a quorum of none")
		}
	}
	return err
}

// Quorum is how many witnesses make a quorum.
func (p *Policy) Quorum() int { return p.needed }

// Witnesses are the witnesses in the order of the text, and their URLs, empty where none
// is named.
func (p *Policy) Witnesses() (keys []*Key, urls []string) {
	return slices.Clone(p.witnesses), slices.Clone(p.urls)
}

// Tolerates reports whether of two histories at most one can get a quorum while faulty
// witnesses, which lie or have lost their memory, sign both: 2k - n > f.
func (p *Policy) Tolerates(faulty int) bool {
	return faulty >= 0 && 2*p.needed-len(p.witnesses) > faulty
}

// A Cosignature is a verified signature of a witness.
type Cosignature struct {
	Witness string // its name
	Seconds uint64 // since 1970, by the witness's clock
}

// Verify verifies a cosigned checkpoint, the note's text and signature lines: its log and a
// quorum must have signed it. Lines of others than the policy's witnesses are ignored, as is
// a witness's second line. A line with the name and key id of the log or of a witness that
// does not verify makes the whole note invalid.
func (p *Policy) Verify(log *Key, cosignedNote []byte) (Checkpoint, []Cosignature, error) {
	c, signed, _, err := p.open(log, cosignedNote)
	return c, signed, err
}

// VerifyExactly is Verify for a checkpoint in a stored proof: it must have the log's signature
// and then cosignatures in the order of the policy, each verified, and nothing else. So no bit
// of a proof can be changed without an error.
func (p *Policy) VerifyExactly(log *Key, cosignedNote []byte) (Checkpoint, []Cosignature, error) {
	c, signed, n, err := p.open(log, cosignedNote)
	if err != nil {
		return c, nil, err
	}
	at := 0
	for _, s := range n.Sigs[1:] {
		i := slices.IndexFunc(p.witnesses[at:], func(k *Key) bool { return k.name == s.Name })
		if i < 0 {
			return c, nil, errors.New("tlog: cosignatures are not in the policy's order")
		}
		at += i + 1
	}
	for _, s := range n.Sigs {
		if _, err := base64.StdEncoding.Strict().DecodeString(s.Base64); err != nil {
			return c, nil, errors.New("tlog: a signature has bits that mean nothing")
		}
	}
	if n.Sigs[0].Name != log.name || len(n.UnverifiedSigs) > 0 || string(cosignedNote) != Note(n.Text, n.Sigs) {
		return c, nil, errors.New("tlog: a proof's checkpoint is not in its one form")
	}
	return c, signed, nil
}

// Collect appends to a checkpoint that the log has signed the first lines that make a quorum, in
// the order of the policy, as VerifyExactly takes it. Lines are untrusted: one that does not verify
// is ignored. It returns nil if the lines make no quorum, or are more than 4 * MaxWitnesses.
func (p *Policy) Collect(signed []byte, lines []string) []byte {
	var cosigned []string
	for _, k := range p.witnesses {
		if line, ok := k.lineOf(signed, lines); ok {
			cosigned = append(cosigned, line)
		}
		if len(cosigned) == p.needed {
			return []byte(string(signed) + strings.Join(cosigned, ""))
		}
	}
	return nil
}

// Missing names the witnesses, in the order of the policy, without a line that Collect would take.
func (p *Policy) Missing(signed []byte, lines []string) (names []string) {
	for _, k := range p.witnesses {
		if _, ok := k.lineOf(signed, lines); !ok {
			names = append(names, k.name)
		}
	}
	return names
}

// Count is how many witnesses have validly cosigned a checkpoint: a note with the log's signature line first, which Count
// does not verify, and then cosignatures, of which each that Collect would take counts.
func (p *Policy) Count(cosignedNote []byte) int {
	text, lines, ok := strings.Cut(string(cosignedNote), "\n\n")
	if !ok || len(cosignedNote) > MaxNote {
		return 0
	}
	return len(p.witnesses) - len(p.Missing([]byte(text+"\n\n"), strings.SplitAfter(lines, "\n")))
}

// lineOf returns the first of the lines that is the witness's cosignature of a checkpoint that the log has signed.
func (k *Key) lineOf(signed []byte, lines []string) (line string, ok bool) {
	text, _, ok := strings.Cut(string(signed), "\n\n")
	if !ok || len(lines) > 4*MaxWitnesses {
		return "", false
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, "— "+k.name+" ") || strings.Count(line, "\n") != 1 {
			continue
		}
		n, err := note.Open([]byte(text+"\n\n"+line), note.VerifierList(k))
		if err == nil && len(n.Sigs) == 1 && "— "+n.Sigs[0].Name+" "+n.Sigs[0].Base64+"\n" == line {
			return line, true
		}
	}
	return "", false
}

func (p *Policy) open(log *Key, cosignedNote []byte) (c Checkpoint, signed []Cosignature, n *note.Note, err error) {
	if len(cosignedNote) > MaxNote {
		return c, nil, nil, fmt.Errorf("tlog: a checkpoint of more than %d bytes", MaxNote)
	}
	if log.kind != TypeLog {
		return c, nil, nil, errors.New("tlog: that is no log's key")
	}
	known := []note.Verifier{log}
	for _, k := range p.witnesses {
		known = append(known, k)
	}
	if n, err = note.Open(cosignedNote, note.VerifierList(known...)); err != nil {
		return c, nil, nil, fmt.Errorf("tlog: %w", err)
	}
	if c, err = ParseCheckpoint(n.Text); err != nil {
		return c, nil, nil, err
	}
	if c.Origin != log.name {
		return c, nil, nil, fmt.Errorf("tlog: a checkpoint of %.255q, not of %s", c.Origin, log.name)
	}
	byLog := false
	for _, s := range n.Sigs {
		if s.Name == log.name && s.Hash == log.KeyHash() {
			byLog = true
			continue
		}
		raw, err := base64.StdEncoding.DecodeString(s.Base64)
		if err != nil || len(raw) < 4+8 {
			return c, nil, nil, errors.New("tlog: a cosignature without a time")
		}
		signed = append(signed, Cosignature{s.Name, binary.BigEndian.Uint64(raw[4:])})
	}
	if !byLog {
		return c, nil, nil, fmt.Errorf("tlog: %s has not signed its checkpoint", log.name)
	}
	if len(signed) < p.needed {
		return c, nil, nil, fmt.Errorf("tlog: %d of %d witnesses have signed, and it takes %d", len(signed), len(p.witnesses), p.needed)
	}
	return c, signed, n, nil
}

// Note writes a note: its text, an empty line, and a line for each signature.
func Note(text string, signatures []note.Signature) string {
	var b strings.Builder
	b.WriteString(text + "\n")
	for _, s := range signatures {
		b.WriteString("— " + s.Name + " " + s.Base64 + "\n")
	}
	return b.String()
}
