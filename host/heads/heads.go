// Package heads compares the logs that a store holds with what their witnesses remember. It needs the store alone: no host
// and no enclave.
package heads

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"cloister/attestation/tlog"
	"cloister/host/leaves"
	"cloister/host/store"
	"cloister/host/witness"
	"cloister/shared/wire"
)

// A Head is where the log of a range ends in the store, and for its witnesses.
type Head struct {
	Range      wire.Range
	Origin     string // empty: no checkpoint is stored, and nobody could be asked
	Generation uint32
	Quorum     int
	Size       uint64 // leaves in the store
	Root       wire.Hash
	Signed     uint64 // of them, those in the newest checkpoint that is stored
	Cosigned   uint64 // and in the newest with a quorum
	Damaged    error  // the store does not have what that checkpoint says, and nobody was asked
	Witnesses  []witness.Head
}

// A Store is what is read: a store.Store.
type Store interface {
	leaves.Store
	store.Checkpoints
	Own(ctx context.Context, ask wire.Own) (wire.Owned, error)
}

// Options of Ask. All are needed.
type Options struct {
	Store     Store
	Transport http.RoundTripper // to witnesses; see witness.NewTransport
	Timeout   time.Duration     // for a witness's answer
	Now       func() time.Time
	Pause     func(context.Context, time.Duration)
}

// Ask gives the newest log of every range that somebody has owned, in their order.
func Ask(ctx context.Context, o Options) ([]Head, error) {
	kept, err := o.Store.LoadCheckpoints(ctx)
	if err != nil {
		return nil, err
	}
	newest := map[wire.Range]*store.Checkpoint{}
	for i := range kept {
		newest[kept[i].Range] = &kept[i] // generations rise
	}
	var all []Head
	for r := range wire.Range(wire.MaxRanges) {
		owned, err := o.Store.Own(ctx, wire.Own{Action: wire.OwnLook, Range: r})
		if err != nil {
			return nil, err
		}
		if owned.Epoch == 0 && newest[r] == nil {
			continue
		}
		h := Head{Range: r}
		if c := newest[r]; c != nil {
			if err := h.ask(ctx, &o, c); err != nil {
				return nil, fmt.Errorf("range %d: %w", r, err)
			}
		}
		all = append(all, h)
	}
	return all, nil
}

func (h *Head) ask(ctx context.Context, o *Options, c *store.Checkpoint) error {
	signed, err := witness.ParseSigned(c.Signed)
	if err != nil {
		return err
	}
	policy, err := tlog.ParsePolicy(c.Policy)
	if err != nil {
		return err
	}
	h.Origin, h.Generation, h.Quorum, h.Signed, h.Cosigned = signed.Origin, c.Generation, policy.Quorum(), signed.Size, c.CosignedSize
	l := leaves.New(o.Store, h.Range, h.Generation, false)
	if h.Damaged, err = h.read(ctx, l, &signed); err != nil || h.Damaged != nil {
		return err
	}
	client, err := witness.New(witness.Options{Policy: policy, Transport: o.Transport, Timeout: o.Timeout, Cosigned: func(witness.Cosignature) {}, Now: o.Now, Pause: o.Pause})
	if err != nil {
		return err
	}
	h.Witnesses, err = client.Heads(ctx, c.Signed, func(old uint64) ([]wire.Hash, error) { return l.ProveConsistency(ctx, old, signed.Size) })
	return err
}

// read reads the log to its end. damaged: the store does not have what was signed.
func (h *Head) read(ctx context.Context, l *leaves.Log, signed *tlog.Checkpoint) (damaged, err error) {
	for more := true; more && err == nil; {
		more, err = l.ReadOn(ctx)
	}
	if errors.Is(err, leaves.ErrOther) {
		return err, nil
	}
	if err != nil {
		return nil, err
	}
	h.Size = l.Size()
	if h.Size < signed.Size {
		return fmt.Errorf("it has %d leaves, and the log has signed %d", h.Size, signed.Size), nil
	}
	if h.Root, err = l.Root(ctx, h.Size); err != nil {
		return nil, err
	}
	root, err := l.Root(ctx, signed.Size)
	if err == nil && root != signed.Root {
		damaged = fmt.Errorf("its first %d leaves are not those that the log has signed", signed.Size)
	}
	return damaged, err
}

// Answers is how many witnesses have said what they have seen.
func (h *Head) Answers() (n int) {
	for _, w := range h.Witnesses {
		if w.Err == nil {
			n++
		}
	}
	return n
}

// MostSeen is the largest number of leaves that any witness has seen; less than Size where the store has more.
func (h *Head) MostSeen() (most uint64) {
	for _, w := range h.Witnesses {
		if w.Err == nil {
			most = max(most, w.Size)
		}
	}
	return most
}

// Others are the witnesses that have seen other leaves than the store has.
func (h *Head) Others() (names []string) {
	for _, w := range h.Witnesses {
		if w.Other {
			names = append(names, w.Witness)
		}
	}
	return names
}

// Missing is how many leaves the store lacks at least of what witnesses have seen.
func (h *Head) Missing() uint64 { return max(h.MostSeen(), h.Size) - h.Size }

// Saw is how many witnesses have seen so many leaves.
func (h *Head) Saw(size uint64) (n int) {
	for _, w := range h.Witnesses {
		if w.Err == nil && w.Size >= size {
			n++
		}
	}
	return n
}
