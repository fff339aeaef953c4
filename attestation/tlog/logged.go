package tlog

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
)

// MaxLoggedProof is the longest logged proof in bytes. Under any policy a proof fits from a log of 2^40 leaves, of an
// organization of 2^30 entries and a batch of 2^16 tips; with a few witnesses that one takes half of it.
const MaxLoggedProof = 16 << 10

// A LoggedProof is a proof that an entry of an organization's ledger is in a log, with the entry's Facts.
// To verify it takes only the log's key and a policy, neither another key nor the entry.
//
// Its text is a tlog-proof (https://c2sp.org/tlog-proof) of the batch's leaf, whose extra line has the
// path from the leaf down to the facts. A change of any bit of the text is an error.
type LoggedProof struct {
	Entry      LoggedEntry
	Index      uint64   // of the batch's leaf in the log
	Path       [][]byte // of that leaf, up to the checkpoint's root
	Checkpoint []byte   // as Policy.VerifyExactly takes it
}

// A LoggedEntry is the content of a logged proof's extra line: CBOR in the deterministic encoding of
// RFC 8949, section 4.2.1, in base64.
type LoggedEntry struct {
	Leaf      []byte         `cbor:"1,keyasint"`           // a Leaf, of a batch that moved tips
	Opening   Opening        `cbor:"2,keyasint"`           // of the organization's tip, under Leaf.Root
	Path      [][]byte       `cbor:"3,keyasint,omitempty"` // of the entry, up to Opening.Root; its index is Facts.Seq
	Stored    [32]byte       `cbor:"4,keyasint"`           // SHA-256 of the stored entry
	Facts     []byte         `cbor:"5,keyasint"`           // a Facts
	Salt      [SaltSize]byte `cbor:"6,keyasint"`           // of the facts
	FactsPath [][]byte       `cbor:"7,keyasint"`           // of the facts, up to the entry's commitment
	// Adopt is the first leaf of the log, an Adopt, and AdoptPath its path up to the checkpoint's root:
	// exactly in generations after the first.
	Adopt     []byte   `cbor:"8,keyasint,omitempty"`
	AdoptPath [][]byte `cbor:"9,keyasint,omitempty"`
}

// maxPath is the longest path in hashes, as in tlog-proof.
const maxPath = 63

const (
	loggedHeader = "c2sp.org/tlog-proof@v1\n"
	loggedExtra  = "extra "
	loggedIndex  = "index "
)

// Text returns the proof's text, at most MaxLoggedProof bytes. It verifies nothing.
func (p *LoggedProof) Text() (string, error) {
	for _, path := range [...][][]byte{p.Path, p.Entry.Path, p.Entry.FactsPath, p.Entry.AdoptPath, p.Entry.Opening.Path} {
		if err := checkPath(path); err != nil {
			return "", err
		}
	}
	extra, err := leafEncoding.Marshal(&p.Entry)
	if err != nil {
		return "", fmt.Errorf("tlog: a logged proof: %w", err)
	}
	var b strings.Builder
	b.WriteString(loggedHeader + loggedExtra + base64.StdEncoding.EncodeToString(extra) + "\n" + loggedIndex + strconv.FormatUint(p.Index, 10) + "\n")
	for _, hash := range p.Path {
		b.WriteString(base64.StdEncoding.EncodeToString(hash) + "\n")
	}
	b.WriteString("\n" + string(p.Checkpoint))
	if b.Len() > MaxLoggedProof {
		return "", fmt.Errorf("tlog: a logged proof of %d bytes, more than %d", b.Len(), MaxLoggedProof)
	}
	return b.String(), nil
}

func checkPath(path [][]byte) error {
	if len(path) > maxPath {
		return errors.New("tlog: a path is too long")
	}
	for _, hash := range path {
		if len(hash) != 32 {
			return errors.New("tlog: a path holds what is no hash")
		}
	}
	return nil
}

// ParseLoggedProof reads a logged proof in exactly the form of Text. It verifies nothing.
func ParseLoggedProof(text string) (*LoggedProof, error) {
	if len(text) > MaxLoggedProof {
		return nil, fmt.Errorf("tlog: a logged proof of more than %d bytes", MaxLoggedProof)
	}
	p, err := parseLogged(text)
	if err != nil {
		return nil, err
	}
	if again, err := p.Text(); err != nil || again != text {
		return nil, errors.Join(errors.New("tlog: a logged proof is not in its one form"), err)
	}
	return p, nil
}

func parseLogged(text string) (*LoggedProof, error) {
	head, checkpoint, ok := strings.Cut(text, "\n\n")
	head, known := strings.CutPrefix(head, loggedHeader)
	lines := strings.Split(head, "\n")
	if !ok || !known || len(lines) < 2 || len(lines) > 2+maxPath {
		return nil, errors.New("tlog: that is no logged proof: " + strings.TrimSpace(loggedHeader) + ", extra, index, hashes and a checkpoint")
	}
	p := &LoggedProof{Checkpoint: []byte(checkpoint)}
	extra, is := strings.CutPrefix(lines[0], loggedExtra)
	index, isIndex := strings.CutPrefix(lines[1], loggedIndex)
	raw, err := base64.StdEncoding.Strict().DecodeString(extra)
	if !is || !isIndex || err != nil {
		return nil, errors.New("tlog: a logged proof has extra and index, in base64 and decimal")
	}
	if p.Index, err = strconv.ParseUint(index, 10, 63); err != nil {
		return nil, errors.New("tlog: a logged proof's index is no number below 2^63")
	}
	if err := factsDecoding.Unmarshal(raw, &p.Entry); err != nil {
		return nil, fmt.Errorf("tlog: a logged proof's extra: %w", err)
	}
	for _, line := range lines[2:] {
		hash, err := base64.StdEncoding.Strict().DecodeString(line)
		if err != nil {
			return nil, errors.New("tlog: a logged proof's path is not base64")
		}
		p.Path = append(p.Path, hash)
	}
	return p, nil
}

// Logged is the content of a verified logged proof.
type Logged struct {
	Origin     Origin
	Checkpoint Checkpoint
	Signed     []Cosignature // at least a quorum
	Index      uint64        // of the batch's leaf
	Leaf       *Leaf
	Opening    *Opening
	Facts      *Facts
	Entry      [32]byte // the entry's leaf in the tree of Opening
	Path       [][]byte // of that leaf
	// Adopt says from which log this one goes on; nil in the first generation.
	Adopt *Adopt
}

// Verify verifies a logged proof under the log's key and the witnesses' policy: the signatures of the log and a
// quorum over the checkpoint, the leaf under the checkpoint, the organization's tip under the leaf, the entry
// under the tip, and the facts under the entry. In generations after the first, also that the log begins with
// a leaf that adopts an earlier log of the same range.
func (p *LoggedProof) Verify(log *Key, policy *Policy) (*Logged, error) {
	e := &p.Entry
	l := &Logged{Index: p.Index, Opening: &e.Opening, Path: e.Path}
	var err error
	if l.Checkpoint, l.Signed, err = policy.VerifyExactly(log, p.Checkpoint); err != nil {
		return nil, err
	}
	if l.Origin, err = ParseOrigin(l.Checkpoint.Origin); err != nil {
		return nil, err
	}
	if l.Leaf, err = p.leafAt(l.Checkpoint, p.Index, e.Leaf, p.Path); err != nil {
		return nil, err
	}
	if l.Leaf.Start != nil || l.Leaf.Table != nil || l.Leaf.Close != nil || l.Leaf.Adopt != nil || l.Leaf.Manifest != nil {
		return nil, errors.New("tlog: the leaf is of no batch that moves tips")
	}
	if err := e.Opening.Verify(l.Leaf.Root); err != nil {
		return nil, fmt.Errorf("tlog: the organization's tip is not under the leaf: %w", err)
	}
	if l.Facts, l.Entry, err = e.verifyFacts(); err != nil {
		return nil, err
	}
	if (e.Adopt != nil) != (l.Origin.Generation > FirstGeneration) || e.Adopt == nil && e.AdoptPath != nil {
		return nil, errors.New("tlog: the leaf that adopts another log is of generations after the first, and of all of them")
	}
	if e.Adopt != nil {
		if l.Adopt, err = p.verifyAdopt(l); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// leafAt parses a leaf and verifies that it is under the checkpoint.
func (p *LoggedProof) leafAt(c Checkpoint, index uint64, leaf []byte, path [][]byte) (*Leaf, error) {
	read, err := ParseLeaf(leaf)
	if err != nil {
		return nil, err
	}
	hash := HashLeaf(leaf)
	if err := proof.VerifyInclusion(rfc6962.DefaultHasher, index, c.Size, hash[:], path, c.Root[:]); err != nil {
		return nil, fmt.Errorf("tlog: the leaf at %d is not under the checkpoint: %w", index, err)
	}
	return read, nil
}

// verifyFacts verifies that the facts are under the organization's tip.
func (e *LoggedEntry) verifyFacts() (f *Facts, entry [32]byte, err error) {
	f, err = ParseFacts(e.Facts)
	if err != nil {
		return nil, entry, err
	}
	if f.Organization != e.Opening.Organization {
		return nil, entry, errors.New("tlog: the facts are of another organization than the tip")
	}
	part := HashPart(PartFacts, e.Salt, e.Facts)
	commitment, err := proof.RootFromInclusionProof(rfc6962.DefaultHasher, uint64(PartFacts), uint64(Parts), part[:], e.FactsPath)
	if err != nil {
		return nil, entry, fmt.Errorf("tlog: the facts are not under the entry: %w", err)
	}
	entry = HashEntry([32]byte(commitment), e.Stored)
	if err := proof.VerifyInclusion(rfc6962.DefaultHasher, f.Seq, e.Opening.Count, entry[:], e.Path, e.Opening.Root[:]); err != nil {
		return nil, entry, fmt.Errorf("tlog: the entry is not under the organization's tip: %w", err)
	}
	return f, entry, nil
}

// verifyAdopt verifies that the first leaf of the log is under the checkpoint and adopts an earlier log of the range.
func (p *LoggedProof) verifyAdopt(l *Logged) (*Adopt, error) {
	first, err := p.leafAt(l.Checkpoint, 0, p.Entry.Adopt, p.Entry.AdoptPath)
	if err != nil {
		return nil, err
	}
	a := first.Adopt
	if a == nil || a.How == HowFirst {
		return nil, errors.New("tlog: the log's first leaf adopts no other")
	}
	before, err := ParseOrigin(a.Origin)
	if err != nil {
		return nil, err
	}
	if before.Deployment != l.Origin.Deployment || before.Range != l.Origin.Range || before.Generation >= l.Origin.Generation {
		return nil, fmt.Errorf("tlog: the log adopts %s, which is no earlier one of its range", a.Origin)
	}
	return a, nil
}
