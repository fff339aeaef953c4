// Package logcheck follows the log of a range through the headers of its batches, as any copy of a store has them, and checks
// that its leaves are those of the log's checkpoints.
//
// What it promises:
//
//   - A header that is missing, changed, swapped or of another log ends the chain: each one names the SHA-256 of the one before,
//     its place in the log and its place in the store. The newest header is bound by the checkpoints alone.
//   - A generation begins where the one before it ended, as its first leaf says.
//   - It needs no key. The MACs of headers are the enclave's. Signatures are verified as far as the caller has keys.
//   - In memory are the newest leaves, 8 MiB at most.
package logcheck

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"cloister/attestation/tlog"
	"cloister/host/store"
	"cloister/host/store/tree"
	"cloister/host/witness"
	"cloister/shared/wire"
)

// minKept is how many of the newest leaves are in memory at least, if there are as many. A checkpoint of fewer leaves than lie
// before them cannot be checked.
const minKept = 1 << 17

// Errors of Follow and Check.
var (
	// ErrHeader is the error of a header that cannot be read.
	ErrHeader = errors.New("its header cannot be read")
	// ErrChain is the error of a batch that does not continue the batches before it.
	ErrChain = errors.New("it does not continue the batches before it")
	// ErrPlace is the error of a batch that is not where its header or its leaf says.
	ErrPlace = errors.New("it stands elsewhere")
	// ErrCheckpoint is the error of a checkpoint that the leaves do not lead to.
	ErrCheckpoint = errors.New("wrong checkpoint")
	// ErrSignature is the error of a checkpoint, to which the leaves lead, without the signatures that it needs.
	ErrSignature = errors.New("a signature is missing")
)

// A Place is where a batch stands in the store.
type Place struct{ Epoch, Number uint64 }

// Less reports whether a batch at p comes before one at q.
func (p Place) Less(q Place) bool {
	return p.Epoch < q.Epoch || p.Epoch == q.Epoch && p.Number < q.Number
}

// A Log is the log of a range up to a batch. Make it with New or Resume.
type Log struct {
	in         wire.Range
	deployment wire.Hash // zero: that of its first header
	generation uint32    // 0: it has no leaf
	last       wire.Hash // SHA-256 of the newest header
	at         Place     // of the newest batch
	start      *tree.Edge
	kept       []wire.Hash // leaves after start
	edge       *tree.Edge  // with them
	ended      map[uint32]end
}

// An end is where a generation ended.
type end struct {
	size      uint64
	root      wire.Hash
	recovered bool // the next generation is a recovery: this one may have gone further
}

// New returns the log of a range of a deployment, without leaves.
func New(in wire.Range, deployment wire.Hash) (*Log, error) {
	l, err := Resume(in, 0, nil, wire.Hash{}, Place{})
	if err == nil {
		l.deployment = deployment
	}
	return l, err
}

// Resume returns a log whose newest generation ends with an edge, nil if it has no leaf, and with a batch, whose header has
// that SHA-256.
func Resume(in wire.Range, generation uint32, edge *tree.Edge, last wire.Hash, at Place) (*Log, error) {
	l := &Log{in: in, generation: generation, last: last, at: at, ended: map[uint32]end{}}
	return l, l.begin(edge)
}

func (l *Log) begin(edge *tree.Edge) (err error) {
	if edge == nil {
		if edge, err = tree.NewEdge(0, nil); err != nil {
			return err
		}
	}
	l.start, l.edge, l.kept = edge, edge.Clone(), nil
	return nil
}

// Generation is the newest generation, 0 if there is no leaf.
func (l *Log) Generation() uint32 { return l.generation }

// Size is the number of leaves of the newest generation.
func (l *Log) Size() uint64 { return l.edge.Size() }

// At is where the newest batch stands.
func (l *Log) At() Place { return l.at }

// Parse decodes a header and its leaf. Errors are ErrHeader.
func Parse(header []byte) (*wire.BatchHeader, *tlog.Leaf, error) {
	h := new(wire.BatchHeader)
	end := len(header) - sha256.Size
	if end < 0 {
		return nil, nil, fmt.Errorf("%w: a header of %d bytes", ErrHeader, len(header))
	}
	if err := wire.Unmarshal(header[:end], h); err != nil {
		return nil, nil, fmt.Errorf("%w, or is of a release without logs: %w", ErrHeader, err)
	}
	leaf, err := tlog.ParseLeaf(h.Leaf)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrHeader, err)
	}
	return h, leaf, nil
}

// Follow adds the next batch. Errors name its place, and are ErrHeader, ErrChain or ErrPlace.
func (l *Log) Follow(r *store.BatchRow) (*wire.BatchHeader, *tlog.Leaf, error) {
	h, leaf, err := Parse(r.Header)
	if err == nil {
		err = l.follow(r, h, leaf)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("range %d: batch %d of epoch %d: %w", l.in, r.Number, r.Epoch, err)
	}
	return h, leaf, nil
}

func (l *Log) follow(r *store.BatchRow, h *wire.BatchHeader, leaf *tlog.Leaf) error {
	if h.Previous != l.last {
		return ErrChain
	}
	if h.Generation != l.generation && h.Generation > 0 && h.Position == 0 {
		if err := l.nextGeneration(h, leaf); err != nil {
			return err
		}
	}
	switch {
	case h.Range != l.in || h.Generation != l.generation || h.Position != l.edge.Size():
		return fmt.Errorf("%w in the log: its header says leaf %d of generation %d of range %d", ErrPlace, h.Position, h.Generation, h.Range)
	case l.deployment != wire.Hash{} && h.Deployment != l.deployment:
		return fmt.Errorf("%w: its header is of deployment %x", ErrPlace, h.Deployment)
	case leaf.Epoch != r.Epoch || leaf.Number != r.Number:
		return fmt.Errorf("%w in the store: its leaf says batch %d of epoch %d", ErrPlace, leaf.Number, leaf.Epoch)
	}
	hash := wire.Hash(tlog.HashLeaf(h.Leaf))
	if _, err := l.edge.Append(hash); err != nil {
		return err
	}
	l.kept = append(l.kept, hash)
	l.deployment, l.last, l.at = h.Deployment, sha256.Sum256(r.Header), Place{r.Epoch, r.Number}
	return l.forget()
}

// nextGeneration begins the generation of a header. Its first leaf must adopt the one before.
func (l *Log) nextGeneration(h *wire.BatchHeader, leaf *tlog.Leaf) error {
	if l.generation > 0 {
		root, err := l.edge.Root()
		if err != nil {
			return err
		}
		if a := leaf.Adopt; h.Generation < l.generation || a == nil || a.How == tlog.HowFirst || a.Size != l.edge.Size() || wire.Hash(a.Root) != root {
			return fmt.Errorf("%w: generation %d does not begin where generation %d ended, with %d leaves", ErrChain, h.Generation, l.generation, l.edge.Size())
		}
		l.ended[l.generation] = end{l.edge.Size(), root, leaf.Adopt.How == tlog.HowRecovered}
	}
	l.generation = h.Generation
	return l.begin(nil)
}

// forget moves the older half of the kept leaves before the start when there are twice as many as needed.
func (l *Log) forget() error {
	if len(l.kept) < 2*minKept {
		return nil
	}
	for _, leaf := range l.kept[:minKept] {
		if _, err := l.start.Append(leaf); err != nil {
			return err
		}
	}
	l.kept = append(l.kept[:0], l.kept[minKept:]...)
	return nil
}

// Trust has what signatures are verified with.
type Trust struct {
	Policy *tlog.Policy         // of the witnesses; nil: the stored one
	Keys   map[string]*tlog.Key // public keys of logs, by origin; of other logs the signature is not verified
}

// ParseTrust makes a Trust of the text of a policy, empty for none, and of the vkeys of logs.
func ParseTrust(policy string, vkeys []string) (by Trust, err error) {
	if policy != "" {
		if by.Policy, err = tlog.ParsePolicy(policy); err != nil {
			return Trust{}, err
		}
	}
	by.Keys = map[string]*tlog.Key{}
	for _, vkey := range vkeys {
		k, err := tlog.ParseKey(vkey)
		if err == nil && k.Type() != tlog.TypeLog {
			err = fmt.Errorf("%s is no log's key", k.Name())
		}
		if err != nil {
			return Trust{}, err
		}
		by.Keys[k.Name()] = k
	}
	return by, nil
}

// A Checked is the result of Check: which checkpoints the leaves were checked against, and how far those were verified.
type Checked struct {
	Origin           string
	Signed, Cosigned uint64 // sizes of the checkpoints that the leaves lead to; 0: there is none, or it lies before the leaves that are known
	Verified         bool   // the log's signature was verified, by a key in Trust
	Cosignatures     int    // that were verified and make a quorum; 0 if Check verified none
	Witnesses        int    // of that policy
	Given            bool   // that policy is Trust's, not the stored one
}

// Check checks that the leaves lead to stored checkpoints of the log, of its newest generation or an earlier one. With verify it also
// verifies their signatures: the log's if there is a key, the witnesses' by the policy.
func (l *Log) Check(c *store.Checkpoint, verify bool, by Trust) (got Checked, err error) {
	for _, one := range []struct {
		note []byte
		size *uint64
	}{{c.Signed, &got.Signed}, {c.Cosigned, &got.Cosigned}} {
		if len(one.note) == 0 {
			continue
		}
		head, err := witness.ParseSigned(one.note)
		if err == nil {
			err = l.checkOrigin(head.Origin, c.Generation)
		}
		if err == nil {
			*one.size, err = l.checkHead(&head, c.Generation)
		}
		if err != nil {
			return got, fmt.Errorf("range %d: %w: %w", l.in, ErrCheckpoint, err)
		}
		got.Origin = head.Origin
	}
	if verify {
		if err := got.verify(c, by); err != nil {
			return got, fmt.Errorf("range %d: %w: %w", l.in, ErrSignature, err)
		}
	}
	return got, nil
}

// checkOrigin checks that an origin is that of a generation of this log.
func (l *Log) checkOrigin(origin string, generation uint32) error {
	o, err := tlog.ParseOrigin(origin)
	if err != nil {
		return fmt.Errorf("its origin is %.255q: %w", origin, err)
	}
	if o.Range != uint16(l.in) || o.Generation != generation || o.Deployment != [16]byte(l.deployment[:16]) {
		return fmt.Errorf("its origin is %.255q, of another log", origin)
	}
	return nil
}

// checkHead checks that the leaves lead to a checkpoint. It returns the checkpoint's size, 0 if it lies before the leaves that are known.
func (l *Log) checkHead(head *tlog.Checkpoint, generation uint32) (size uint64, err error) {
	known := end{size: l.edge.Size()}
	if generation != l.generation {
		var ok bool
		if known, ok = l.ended[generation]; !ok {
			return 0, fmt.Errorf("it is of generation %d, which has no leaf", generation)
		}
	}
	switch {
	case head.Size > known.size && known.recovered:
		return 0, nil
	case head.Size > known.size:
		return 0, fmt.Errorf("there are %d leaves, and the log has signed %d", known.size, head.Size)
	case generation != l.generation && head.Size < known.size, generation == l.generation && head.Size <= l.start.Size():
		return 0, nil
	}
	root := known.root
	if generation == l.generation {
		if root, err = l.rootAt(head.Size); err != nil {
			return 0, err
		}
	}
	if root != head.Root {
		return 0, fmt.Errorf("the first %d leaves are not those that the log has signed", head.Size)
	}
	return head.Size, nil
}

// rootAt returns the root of the first leaves of the newest generation, which are more than those of the start.
func (l *Log) rootAt(size uint64) (root wire.Hash, err error) {
	edge := l.start.Clone()
	for _, leaf := range l.kept[:size-edge.Size()] {
		if _, err := edge.Append(leaf); err != nil {
			return root, err
		}
	}
	return edge.Root()
}

// verify verifies the signatures of checkpoints.
func (got *Checked) verify(c *store.Checkpoint, by Trust) error {
	if key := by.Keys[got.Origin]; key != nil {
		for _, note := range [][]byte{c.Signed, c.Cosigned} {
			if len(note) > 0 && !key.Signed(note) {
				return fmt.Errorf("the signature of the log %s is not by its key", got.Origin)
			}
		}
		got.Verified = true
	}
	if len(c.Cosigned) == 0 {
		return nil
	}
	policy := by.Policy
	if got.Given = policy != nil; !got.Given {
		var err error
		if policy, err = tlog.ParsePolicy(c.Policy); err != nil {
			return fmt.Errorf("the stored policy: %w", err)
		}
	}
	keys, _ := policy.Witnesses()
	got.Witnesses = len(keys)
	if got.Cosignatures = policy.Count(c.Cosigned); got.Cosignatures < policy.Quorum() {
		return fmt.Errorf("the checkpoint of %d leaves has valid cosignatures of %d witnesses, and a quorum is %d", c.CosignedSize, got.Cosignatures, policy.Quorum())
	}
	return nil
}
