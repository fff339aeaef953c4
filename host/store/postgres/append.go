package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"cloister/host/store"
	"cloister/host/store/tree"
	"cloister/shared/wire"
)

type kind struct {
	text   string
	status uint8
}

// An appender is a batch as arrays, one for each column, in the order of the database's function
// append_batch.
type appender struct {
	batch *wire.Batch
	gap   bool // entries of an organization are not consecutive

	uuids [][16]byte
	first []int64

	org        []int32 // indexes into uuids, from 1 as in PostgreSQL arrays
	seq        []int64
	time       []int64
	activities [][16]byte
	kinds      []int32
	leaves     [][]byte
	sealed     [][]byte

	laterEntry []int32
	priorSeq   []int64

	nodeOrg    []int32
	nodeOffset []int64
	nodes      [][]byte

	keyUUIDs  [][16]byte
	keyIDs    []int64
	keySealed [][]byte

	completes []int // entries that complete a node

	index *indexing // nil: the index stays as it is
	sends *sending  // nil: no sends
}

const appendBatch = `SELECT append_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
	$13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
	$25)`

const appendIndexed = `SELECT append_indexed($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
	$13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
	$25, $26, $27, $28, $29, $30, $31)`

const appendSending = `SELECT append_sending($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
	$13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
	$25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36,
	$37, $38, $39)`

// Append implements store.Writer.
func (s *Store) Append(ctx context.Context, batch *wire.Batch) (wire.Stored, error) {
	stored := wire.Stored{Number: batch.Number}
	if err := store.CheckBatch(batch); err != nil {
		return stored, err
	}
	kinds, err := s.kindsOf(ctx, batch)
	if err == nil {
		stored.Verdict, err = s.append(ctx, arrange(batch, kinds))
	}
	if err != nil {
		return wire.Stored{Number: batch.Number}, fmt.Errorf("appending: %w", err)
	}
	return stored, nil
}

func (s *Store) append(ctx context.Context, a *appender) (verdict wire.Verdict, err error) {
	if len(a.completes) > 0 && !a.gap {
		err = s.write(ctx, func(tx pgx.Tx) (err error) {
			if err = a.complete(ctx, tx); err == nil {
				verdict, err = a.run(ctx, tx)
			}
			return err
		})
	} else {
		for range attempts {
			if verdict, err = a.run(ctx, s.pool); !isCollision(err) {
				break
			}
		}
	}
	if isConstraint(err) { // after all attempts: different data is stored
		return wire.VerdictConflict, nil
	}
	return verdict, err
}

// arrange converts a batch to arrays. kinds holds a number for each entry.
func arrange(b *wire.Batch, kinds []int32) *appender {
	n := len(b.Entries)
	a := &appender{batch: b, kinds: kinds, index: arrangeIndex(b), sends: arrangeSends(b),
		org: make([]int32, n), seq: make([]int64, n), time: make([]int64, n),
		activities: make([][16]byte, n), leaves: make([][]byte, n), sealed: make([][]byte, n)}
	places := make(map[wire.ID]int32, n)
	next := make(map[wire.ID]uint64, n)
	for i := range b.Entries {
		e := &b.Entries[i]
		place, known := places[e.Organization]
		if !known {
			a.uuids = append(a.uuids, e.Organization)
			a.first = append(a.first, int64(e.Seq))
			place = int32(len(a.uuids))
			places[e.Organization] = place
		} else if next[e.Organization] != e.Seq {
			a.gap = true
		}
		next[e.Organization] = e.Seq + 1
		leaf := tree.Leaf(e.Sealed)
		a.org[i], a.seq[i], a.time[i], a.activities[i] = place, int64(e.Seq), int64(e.TimeMs), e.Activity
		a.leaves[i], a.sealed[i] = leaf[:], e.Sealed
		a.extras(int32(i+1), e)
		if len(tree.CompletedLevels(e.Seq)) > 0 {
			a.completes = append(a.completes, i)
		}
	}
	for i := range b.Keys {
		k := &b.Keys[i]
		a.keyUUIDs = append(a.keyUUIDs, k.Organization)
		a.keyIDs = append(a.keyIDs, int64(k.KeyID))
		a.keySealed = append(a.keySealed, k.Sealed)
	}
	return a
}

func (a *appender) extras(place int32, e *wire.Entry) {
	if e.Activity != (wire.ID{}) && e.Prior > 0 && e.Prior <= e.Seq {
		a.laterEntry = append(a.laterEntry, place)
		a.priorSeq = append(a.priorSeq, int64(e.Prior-1))
	}
}

func (a *appender) run(ctx context.Context, on querier) (wire.Verdict, error) {
	var verdict int32
	text, args := appendBatch, []any{
		int16(a.batch.Range),
		[16]byte(a.batch.Boot), int64(a.batch.Epoch), int64(a.batch.Number), []byte(a.batch.Header),
		a.gap, list(a.uuids), list(a.first),
		list(a.org), list(a.seq), list(a.time), list(a.activities), list(a.kinds), list(a.leaves), list(a.sealed),
		list(a.laterEntry), list(a.priorSeq),
		list(a.nodeOrg), list(a.nodeOffset), list(a.nodes),
		[]int32{}, [][]byte{}, // rows of the table blind, which is not written any more
		list(a.keyUUIDs), list(a.keyIDs), list(a.keySealed),
	}
	x, z := a.index, a.sends
	if x == nil && z != nil {
		x = new(indexing)
	}
	if x != nil {
		text, args = appendIndexed, append(args, list(x.goneKey), list(x.goneRank), list(x.gone), list(x.keptKey), list(x.keptRank), list(x.kept))
	}
	if z != nil {
		text, args = appendSending, append(args, list(z.uuid), list(z.seq), list(z.number), list(z.kind), list(z.due), list(z.receiver), list(z.activity), list(z.payer))
	}
	err := on.QueryRow(ctx, text, args...).Scan(&verdict)
	return wire.Verdict(verdict), err
}

// list converts a slice to the driver's array type; an empty one is not NULL.
func list[T any](v []T) pgtype.FlatArray[T] {
	if v == nil {
		return pgtype.FlatArray[T]{}
	}
	return v
}

// kindsOf returns the number of each entry's type and status, 0 for an entry of no activity. New
// kinds are stored before the batch and stay if it fails.
func (s *Store) kindsOf(ctx context.Context, b *wire.Batch) ([]int32, error) {
	numbers := make([]int32, len(b.Entries))
	for i := range b.Entries {
		e := &b.Entries[i]
		if e.Activity == (wire.ID{}) {
			continue
		}
		k := kind{e.Type, e.Status}
		s.mu.Lock()
		n, ok := s.kinds[k]
		s.mu.Unlock()
		if !ok {
			var err error
			if n, err = s.kindOf(ctx, k); err != nil {
				return nil, err
			}
		}
		numbers[i] = n
	}
	return numbers, nil
}

func (s *Store) kindOf(ctx context.Context, k kind) (n int32, err error) {
	find := func() error {
		return s.pool.QueryRow(ctx, "SELECT id FROM kind WHERE type = $1 AND status = $2", k.text, int16(k.status)).Scan(&n)
	}
	if err = find(); errors.Is(err, pgx.ErrNoRows) {
		_, err = s.pool.Exec(ctx, "INSERT INTO kind (type, status) VALUES ($1, $2) ON CONFLICT DO NOTHING", k.text, int16(k.status))
		if err == nil {
			err = find()
		}
	}
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kinds) >= manyKinds {
		clear(s.kinds)
	}
	s.kinds[k] = n
	return n, nil
}
