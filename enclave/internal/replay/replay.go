// Package replay holds an exported history against itself, its log and the code that decides.
//
// Read goes from the file's bytes to the log: every entry is in its one form, the leaves of all are the
// organization's tree, that is the tip which a batch moved it to, and a quorum of witnesses has cosigned the
// log that has the batch. The trees are built by golang.org/x/mod's implementation, which no other part of
// Cloister uses. Run then decides everything again: see core.Replay.
package replay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	modtlog "golang.org/x/mod/sumdb/tlog"

	"cloister/attestation"
	"cloister/attestation/tlog"
	"cloister/enclave/core"
	"cloister/enclave/internal/history"
	"cloister/enclave/internal/org"
)

// Trust is what a history is held against.
type Trust struct {
	// LiveKeys are the public keys of boots, as their boot proofs have them: 130 bytes each. One of them
	// gave each page.
	LiveKeys [][]byte
	// Policy are the witnesses of the deployment's manifest; nil: it has none, and the live key's word is all
	// that says which entries there are.
	Policy *tlog.Policy
}

// A History is one that has been read.
type History struct {
	Organization org.ID
	Entries      []*core.Recorded
	Root         [sha256.Size]byte // of the tree over all entries
	Old          int               // entries of format 1, for which the live key vouches
	Pages        int
	// Newest is what the log says of the newest entry; nil without witnesses.
	Newest *tlog.Logged
}

// reader is a history that is being read.
type reader struct {
	trust  *Trust
	into   *History
	leaves []modtlog.Hash // as modtlog.StoredHashes lays them out
	digest history.Digest
	paged  int // entries that a page record covers
	last   bool
	facts  []byte // of the newest entry
}

// Read reads a file and verifies all of it.
func Read(file io.Reader, trust Trust) (*History, error) {
	r := &reader{trust: &trust, into: new(History)}
	if err := history.Read(file, r.record); err != nil {
		return nil, r.wrapError(err)
	}
	switch {
	case !r.last:
		return nil, r.wrapError(errors.New("the file ends before the last page"))
	case trust.Policy != nil && r.into.Newest == nil:
		return nil, r.wrapError(errors.New("the file has no proof that the newest entry is in the log"))
	}
	return r.into, nil
}

// wrapError says where in the history an error is.
func (r *reader) wrapError(err error) error {
	return fmt.Errorf("behind %d entries: %w", len(r.into.Entries), err)
}

func (r *reader) record(x *history.Record) error {
	if r.last && x.Logged == nil || r.into.Newest != nil {
		return errors.New("the file goes on behind its end")
	}
	switch {
	case x.Entry != nil:
		e, at, leaf, err := x.Entry.Open()
		if err != nil {
			return err
		}
		r.facts = x.Entry.Parts[tlog.PartFacts]
		return r.entry(e, at, leaf)
	case x.Old != nil:
		e, err := org.DecodeEntry(x.Old.Plain)
		if err != nil {
			return err
		}
		// The first format has no place in it.
		r.digest.Add(uint64(len(r.into.Entries)), x.Old)
		r.into.Old++
		r.facts = nil
		return r.entry(e, org.Place{Organization: r.into.Organization, Seq: uint64(len(r.into.Entries))}, x.Old.Leaf)
	case x.Page != nil:
		return r.page(x.Page)
	}
	return r.proof(x.Logged)
}

func (r *reader) entry(e *org.Entry, at org.Place, leaf [sha256.Size]byte) error {
	n := int64(len(r.into.Entries))
	if n == 0 {
		r.into.Organization = at.Organization
	}
	if at.Organization != r.into.Organization && !r.into.Organization.Zero() || at.Seq != uint64(n) {
		return fmt.Errorf("entry %d of organization %v in the place of entry %d of %v", at.Seq, at.Organization, n, r.into.Organization)
	}
	if r.into.Organization.Zero() {
		r.into.Organization = at.Organization // entries of format 1 came before
	}
	root := r.into.Root
	if n == 0 {
		root = sha256.Sum256(nil)
	}
	more, err := modtlog.StoredHashesForRecordHash(n, modtlog.Hash(leaf), modtlog.HashReaderFunc(r.hashes))
	if err != nil {
		return err
	}
	r.leaves = append(r.leaves, more...)
	tree, err := modtlog.TreeHash(n+1, modtlog.HashReaderFunc(r.hashes))
	if err != nil {
		return err
	}
	r.into.Root = tree
	e.Seq = uint64(n)
	r.into.Entries = append(r.into.Entries, &core.Recorded{Organization: r.into.Organization, Seq: uint64(n), Entry: e, Root: root})
	return nil
}

func (r *reader) hashes(indexes []int64) ([]modtlog.Hash, error) {
	out := make([]modtlog.Hash, len(indexes))
	for i, at := range indexes {
		if at >= int64(len(r.leaves)) {
			return nil, errors.New("a hash of later entries")
		}
		out[i] = r.leaves[at]
	}
	return out, nil
}

// claim is what an app proof of one of the trusted live keys says.
func (r *reader) claim(p *history.Proof) (attestation.Claim, error) {
	if !slices.ContainsFunc(r.trust.LiveKeys, func(k []byte) bool { return bytes.Equal(k, p.Key) }) {
		return nil, fmt.Errorf("an app proof of a live key that is not trusted: %x…", p.Key[:min(len(p.Key), 16)])
	}
	err := attestation.VerifyAppProofSignature(attestation.AppProof{Scheme: attestation.Scheme, PublicKey: hex.EncodeToString(p.Key),
		ProofPayload: p.Payload, Signature: hex.EncodeToString(p.Signature)})
	if err != nil {
		return nil, err
	}
	at, c, err := attestation.ParsePayload(p.Payload)
	if err != nil {
		return nil, err
	}
	if again, err := attestation.EncodePayload(at, c); err != nil || string(again) != p.Payload {
		return nil, errors.Join(errors.New("an app proof that is not in its one form"), err)
	}
	return c, nil
}

func (r *reader) page(p *history.Proof) error {
	c, err := r.claim(p)
	if err != nil {
		return err
	}
	page, ok := c.(*attestation.HistoryPage)
	if !ok {
		return errors.New("an app proof of another type ends a page")
	}
	from, to, err := page.Range()
	if err != nil {
		return err
	}
	n, sum := len(r.into.Entries), r.digest.Sum()
	id, err := org.ParseID(page.OrganizationID)
	switch {
	case err != nil:
		return err
	case r.into.Organization.Zero():
		r.into.Organization = id
		for _, e := range r.into.Entries {
			e.Organization = id
		}
	case id != r.into.Organization:
		return fmt.Errorf("a page of organization %v", id)
	}
	switch {
	case from != uint64(r.paged) || to != uint64(n):
		return fmt.Errorf("a page of entries %d to %d, of which %d to %d are there", from, to, r.paged, n)
	case page.Digest != hex.EncodeToString(sum[:]):
		return errors.New("the live key vouches for other entries of format 1")
	case page.Root != "" && page.Root != hex.EncodeToString(r.into.Root[:]):
		return fmt.Errorf("the entries have root %x, the live key says %s", r.into.Root, page.Root)
	}
	r.paged, r.last = n, page.Root != ""
	r.into.Pages++
	return nil
}

func (r *reader) proof(l *history.Logged) error {
	if !r.last {
		return errors.New("the proof of the log comes before the last page")
	}
	if r.trust.Policy == nil {
		return errors.New("the file has a proof of the log, and there are no witnesses to hold it against")
	}
	c, err := r.claim(&l.Key)
	if err != nil {
		return err
	}
	stated, ok := c.(*attestation.LogKey)
	if !ok {
		return errors.New("an app proof of another type names the log's key")
	}
	key, err := tlog.ParseKey(stated.Key)
	if err != nil {
		return err
	}
	proof, err := tlog.ParseLoggedProof(l.Proof)
	if err != nil {
		return err
	}
	newest, err := proof.Verify(key, r.trust.Policy)
	if err != nil {
		return err
	}
	n := len(r.into.Entries)
	switch o := newest.Opening; {
	case o.Organization != r.into.Organization || o.Count != uint64(n) || o.Root != r.into.Root:
		return fmt.Errorf("the log says that organization %v stands at %d entries with root %x: here are %d with root %x", org.ID(o.Organization), o.Count, o.Root, n, r.into.Root)
	case !bytes.Equal(proof.Entry.Facts, r.facts):
		return errors.New("the log has other facts of the newest entry")
	}
	// The same once more, by the other implementation.
	path := make(modtlog.RecordProof, len(proof.Path))
	for i := range proof.Path {
		path[i] = modtlog.Hash(proof.Path[i])
	}
	if err := modtlog.CheckRecord(path, int64(newest.Checkpoint.Size), modtlog.Hash(newest.Checkpoint.Root), int64(newest.Index), modtlog.RecordHash(proof.Entry.Leaf)); err != nil {
		return fmt.Errorf("the batch's leaf is not in the log: %w", err)
	}
	r.into.Newest = newest
	return nil
}

// Run decides histories again, of one organization or of several that have to do with each other.
func Run(ctx context.Context, cfg core.ReplayConfig, histories ...*History) (*core.ReplayReport, error) {
	var all []*core.Recorded
	for _, h := range histories {
		all = append(all, h.Entries...)
	}
	r, err := core.NewReplay(cfg, all)
	if err != nil {
		return nil, err
	}
	return r.Run(ctx)
}
