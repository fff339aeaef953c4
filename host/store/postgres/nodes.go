package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"cloister/host/store"
	"cloister/host/store/tree"
	"cloister/shared/wire"
)

// errAbsent is the error of missing hashes below a node. Under the ownership row's lock it means that the
// batch does not follow the stored entries; append_batch will return that verdict.
var errAbsent = errors.New("hashes are absent")

type node struct {
	org   int32
	level uint
	index uint64
}

// complete computes the nodes that the batch completes, from stored hashes and the batch's own. It
// locks the ownership row first, so that append_batch will see the same hashes.
func (a *appender) complete(ctx context.Context, tx pgx.Tx) error {
	a.nodeOrg, a.nodeOffset, a.nodes = nil, nil, nil // from an earlier attempt
	if _, err := tx.Exec(ctx, "SELECT 1 FROM owner WHERE id = $1 FOR NO KEY UPDATE", rowOf(a.batch.Range)); err != nil {
		return err
	}
	bases := make(map[int32]int64)
	made := make(map[node]wire.Hash)
	for _, i := range a.completes {
		org := a.org[i]
		if _, ok := bases[org]; !ok {
			base, err := number(ctx, tx, a.uuids[org-1])
			if err != nil {
				return err
			}
			bases[org] = base
		}
		for _, level := range tree.CompletedLevels(uint64(a.seq[i])) {
			at := node{org, level, uint64(a.seq[i]) >> level}
			hash, err := a.fold(ctx, tx, at, bases[org], made)
			if errors.Is(err, errAbsent) {
				return nil
			}
			if err != nil {
				return err
			}
			made[at] = hash
			a.nodeOrg = append(a.nodeOrg, org)
			a.nodeOffset = append(a.nodeOffset, store.NodePlace(0, level, at.index))
			a.nodes = append(a.nodes, hash[:])
		}
	}
	return nil
}

// fold computes one node. The older hashes below it are stored, the others come from the batch.
func (a *appender) fold(ctx context.Context, tx pgx.Tx, at node, base int64, made map[node]wire.Hash) (wire.Hash, error) {
	below := at.level - 8
	from := at.index * tree.Span
	stored := uint64(a.first[at.org-1]) >> below // those complete before this batch
	count := 0
	if stored > from {
		count = int(min(stored-from, tree.Span))
	}
	list, err := hashes(ctx, tx, base, below, from, count)
	if err != nil {
		return wire.Hash{}, err
	}
	if below > 0 {
		for i := from + uint64(count); i < from+tree.Span; i++ {
			list = append(list, made[node{at.org, below, i}])
		}
		return tree.Fold(list)
	}
	for i := range a.leaves {
		if seq := uint64(a.seq[i]); a.org[i] == at.org && seq >= from+uint64(count) && seq < from+tree.Span {
			list = append(list, wire.Hash(a.leaves[i]))
		}
	}
	return tree.Fold(list)
}

// number returns an organization's number, 0 if there is none.
func number(ctx context.Context, on querier, id [16]byte) (int64, error) {
	var n int32
	err := on.QueryRow(ctx, "SELECT id FROM organization WHERE uuid = $1", id).Scan(&n)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return int64(n), err
}

// hashes reads consecutive hashes of a stored level; errAbsent if there are fewer.
func hashes(ctx context.Context, on querier, number int64, level uint, from uint64, count int) ([]wire.Hash, error) {
	text, first := "SELECT leaf FROM entry WHERE id >= $1 AND id < $2 ORDER BY id", store.Place(number, from)
	if level > 0 {
		text, first = "SELECT hash FROM node WHERE id >= $1 AND id < $2 ORDER BY id", store.NodePlace(number, level, from)
	}
	list := make([]wire.Hash, 0, tree.Span)
	var hash []byte
	err := each(ctx, on, text, []any{first, first + int64(count)}, []any{&hash}, func() error {
		if len(hash) != len(wire.Hash{}) {
			return fmt.Errorf("stored hash has %d bytes", len(hash))
		}
		list = append(list, wire.Hash(hash))
		return nil
	})
	if err == nil && len(list) != count {
		err = fmt.Errorf("%w: %d of %d at level %d", errAbsent, len(list), count, level)
	}
	return list, err
}
