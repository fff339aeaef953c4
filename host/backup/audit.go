package backup

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"cloister/host/store"
	"cloister/host/store/tree"
	"cloister/shared/wire"
)

// Names of the objects that an enclave needs to start a deployment.
const (
	objectGenesis = "genesis"
	objectKeyring = "keyring/"
)

// A Summary counts the content of a backup.
type Summary struct {
	Header        Header
	Chunks        int
	Bytes         uint64
	Rows          uint64
	Organizations uint64
	Entries       uint64
	Batches       uint64
	Sends         uint64       // rows of the outbox
	Unsent        uint64       // rows of the outbox that have not ended
	Epoch         uint64       // highest epoch of a range
	Logs          []LogSummary // set by Verify
}

// An audit checks the rows of a backup against each other.
type audit struct {
	order   store.Order
	tree    *tree.Builder
	id      wire.ID
	owners  map[uint32]uint64 // epoch by range
	genesis bool
	keyring bool
	before  *store.BatchRow
	sum     *Summary
}

func newAudit(s *Summary) *audit { return &audit{owners: map[uint32]uint64{}, sum: s} }

func (a *audit) follow(r store.Row) error {
	if err := store.CheckRow(r); err != nil {
		return err
	}
	if err := a.order.Follow(r); err != nil {
		return err
	}
	a.sum.Rows++
	switch r := r.(type) {
	case *store.OwnerRow:
		a.owners[r.Range] = r.Epoch
		a.sum.Epoch = max(a.sum.Epoch, r.Epoch)
	case *store.ObjectRow:
		return a.object(r)
	case *store.BatchRow:
		return a.batch(r)
	case *store.OrganizationRow:
		a.sum.Organizations++
		a.tree, a.id = tree.NewBuilder(), r.ID
	case *store.EntryRow:
		a.sum.Entries++
		_, err := a.tree.Add(tree.Leaf(r.Sealed))
		return err
	case *store.EndRow:
		root, err := a.tree.Root()
		if err == nil && root != r.Root {
			err = fmt.Errorf("entries of organization %x are not those that were appended: the root of their tree differs", a.id)
		}
		return err
	case *store.SendRow:
		a.sum.Sends++
		if r.State < wire.SendIncluded {
			a.sum.Unsent++
		}
	case *store.TableRow:
		return a.owner(r.Range)
	case *store.PageRow:
		return a.owner(r.Range)
	case *store.CheckpointRow:
		return a.owner(r.Range)
	}
	return nil
}

// owner checks that a range with a tip table, page or checkpoint has an ownership row: only an owner makes them.
func (a *audit) owner(r uint32) error {
	if a.owners[r] == 0 {
		return fmt.Errorf("a tip table or checkpoint of range %d, which nobody has owned", r)
	}
	return nil
}

func (a *audit) object(r *store.ObjectRow) error {
	a.keyring = a.keyring || strings.HasPrefix(r.Name, objectKeyring)
	if r.Name == objectGenesis {
		a.genesis = true
		if sha256.Sum256(r.Bytes) != a.sum.Header.Deployment {
			return fmt.Errorf("the genesis record is that of another deployment")
		}
	}
	return nil
}

// batch checks that the batches of an epoch are numbered from 1 without a gap, and that the epoch is
// not later than the range's owner's.
func (a *audit) batch(r *store.BatchRow) error {
	a.sum.Batches++
	want, b := uint64(1), a.before
	if b != nil && b.Range == r.Range && b.Epoch == r.Epoch {
		want = b.Number + 1
	}
	if r.Number != want {
		return fmt.Errorf("batch %d of epoch %d where %d comes next", r.Number, r.Epoch, want)
	}
	if r.Epoch > a.owners[r.Range] {
		return fmt.Errorf("batch of epoch %d, the owner's is %d", r.Epoch, a.owners[r.Range])
	}
	a.before = r
	return nil
}

func (a *audit) finish() error {
	if err := a.order.Done(); err != nil {
		return err
	}
	if !a.genesis || !a.keyring {
		return fmt.Errorf("genesis record or keyring is missing")
	}
	return nil
}
