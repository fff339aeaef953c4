package log

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"cloister/enclave/internal/insecure"
	"cloister/shared/wire"
)

// A Tip is the tree head of an organization's ledger.
type Tip = wire.Tip

// A Table is an authenticated hash table of the tips of a range's organizations. The host
// stores its pages; the Table has their hashes, 1 MiB for a million organizations. A page
// proves the tip of each organization that hashes to it, and that others don't exist.
//
// A page has the tips of the organizations whose id hashes to it, in the order of their
// ids, 56 bytes each. There is one page for every 32 organizations. The table grows by linear
// hashing: each new page takes half of another's tips, so that an update changes few
// pages. The zero Table is empty.
type Table struct {
	pages []pageHash
	tips  int
}

type pageHash = [32]byte

// perPage is the average number of tips on a page, maxTips the largest. As ids are random,
// no page of a table that this package has made comes near maxTips. tipBytes is a tip's size on a page.
const (
	perPage  = 32
	maxTips  = 1 << 12
	tipBytes = 16 + 8 + 32
)

// MaxPageBytes is the largest size of a page.
const MaxPageBytes = maxTips * tipBytes

// MaxTips is the largest number of tips in a table that can be stored: its block hashes and what else is kept of it, for
// which 4 KiB are enough, must fit into wire.MaxTable. The hashes of its pages then have 252 MiB of the enclave's memory.
const MaxTips = (wire.MaxTable - 4<<10) / sha256.Size * wire.BlockPages * perPage

// NewTable returns the table with these page hashes and number of tips, as Hashes and Tips returned
// them. The caller must compare its Root with the commitment to the table.
func NewTable(pages [][32]byte, tips int) (*Table, error) {
	if tips < 0 || len(pages) != pagesFor(tips) {
		return nil, fmt.Errorf("log: %d pages for %d tips", len(pages), tips)
	}
	return &Table{slices.Clone(pages), tips}, nil
}

// pagesFor returns the number of pages of a table with that many tips.
func pagesFor(tips int) int { return (tips + perPage - 1) / perPage }

// blocksFor returns the number of blocks for the hashes of that many pages.
func blocksFor(pages int) int { return (pages + wire.BlockPages - 1) / wire.BlockPages }

// Pages returns the number of pages.
func (t *Table) Pages() int { return len(t.pages) }

// Tips returns the number of tips, which is that of the organizations.
func (t *Table) Tips() int { return t.tips }

// Hashes returns the SHA-256 of each page.
func (t *Table) Hashes() [][32]byte { return slices.Clone(t.pages) }

// Root returns the root of the RFC 6962 tree over the pages' hashes, which commits to the table.
func (t *Table) Root() [32]byte {
	edge := (&compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}).NewEmptyRange(0)
	for i := range t.pages {
		_ = edge.Append(rfc6962.DefaultHasher.HashLeaf(t.pages[i][:]), nil) // fails for another's range only
	}
	root, err := edge.GetRootHash(nil)
	if err != nil || len(t.pages) == 0 {
		return [32]byte(rfc6962.DefaultHasher.EmptyRoot())
	}
	return [32]byte(root)
}

// Page returns the number of an organization's page, -1 in a table without pages.
func (t *Table) Page(organization [16]byte) int { return pageOf(organization, len(t.pages)) }

// pageOf returns the number of an organization's page in a table with that many pages: the lowest bits of
// the hash of its id, one bit less for pages that are not split yet.
func pageOf(organization [16]byte, pages int) int {
	if pages == 0 {
		return -1
	}
	sum := sha256.Sum256(organization[:])
	h := binary.LittleEndian.Uint64(sum[:])
	whole := bits.Len(uint(pages - 1)) // bits that number every page
	page := int(h & (1<<whole - 1))
	if page >= pages {
		page -= 1 << (whole - 1)
	}
	return page
}

var errPage = errors.New("log: a page is not the one that the table names")

// Open verifies a page from the host by its hash and decodes it.
func (t *Table) Open(page int, kept []byte) ([]Tip, error) {
	if page < 0 || page >= len(t.pages) || len(kept) > MaxPageBytes || sha256.Sum256(kept) != t.pages[page] && !insecure.Skip(insecure.Page) {
		return nil, errPage
	}
	tips := make([]Tip, 0, len(kept)/tipBytes)
	for ; len(kept) >= tipBytes; kept = kept[tipBytes:] {
		tips = append(tips, Tip{Organization: wire.ID(kept), Count: binary.BigEndian.Uint64(kept[16:]), Root: wire.Hash(kept[24:])})
	}
	return tips, nil
}

// Find looks up an organization on its page, which comes from the host and is verified. exists is
// false if the organization doesn't exist.
func (t *Table) Find(organization [16]byte, kept []byte) (tip Tip, exists bool, err error) {
	if len(t.pages) == 0 {
		return Tip{}, false, nil
	}
	tips, err := t.Open(t.Page(organization), kept)
	if err != nil {
		return Tip{}, false, err
	}
	i, exists := find(tips, organization)
	if exists {
		tip = tips[i]
	}
	return tip, exists, nil
}

func find(tips []Tip, organization [16]byte) (int, bool) {
	return slices.BinarySearchFunc(tips, Tip{Organization: organization}, compare)
}

func appendPage(b []byte, tips []Tip) []byte {
	for i := range tips {
		b = append(b, tips[i].Organization[:]...)
		b = binary.BigEndian.AppendUint64(b, tips[i].Count)
		b = append(b, tips[i].Root[:]...)
	}
	return b
}

// A Change is a new table with its pages that differ from the old one's: their numbers in
// ascending order, and their encodings for the host.
type Change struct {
	Table   *Table
	Numbers []int
	Pages   [][]byte
}

// Hash returns the SHA-256 of a page, under which the host stores it.
func (t *Table) Hash(page int) [32]byte { return t.pages[page] }

// Needs returns the numbers of the pages that have the changed tips' organizations, ascending. Update asks for
// these pages, and for those that it splits.
func (t *Table) Needs(moved []Tip) []int {
	pages := map[int]bool{}
	for i := range moved {
		if page := t.Page(moved[i].Organization); page >= 0 {
			pages[page] = true
		}
	}
	return slices.Sorted(maps.Keys(pages))
}

// Update returns the table with changed tips, each organization once. It calls ask for the
// pages that it needs, and doesn't change t. It refuses a tip with fewer entries than the
// one in the table: ledgers only grow.
func (t *Table) Update(moved []Tip, ask func(page int) ([]byte, error)) (*Change, error) {
	open := map[int][]Tip{} // pages of t
	load := func(page int) error {
		if _, is := open[page]; is {
			return nil
		}
		kept, err := ask(page)
		if err != nil {
			return err
		}
		open[page], err = t.Open(page, kept)
		return err
	}
	tips := t.tips
	moved = slices.SortedFunc(slices.Values(moved), compare)
	for i := range moved {
		if i > 0 && moved[i].Organization == moved[i-1].Organization {
			return nil, errors.New("log: an organization has two tips")
		}
		if moved[i].Count == 0 {
			return nil, errors.New("log: an organization has no entries")
		}
		page := t.Page(moved[i].Organization)
		if page < 0 {
			tips++
			continue
		}
		if err := load(page); err != nil {
			return nil, err
		}
		at, is := find(open[page], moved[i].Organization)
		if !is {
			tips++
		} else if open[page][at].Count > moved[i].Count {
			return nil, errors.New("log: a tip goes back")
		}
	}
	pages := pagesFor(tips)
	for added := max(len(t.pages), 1); added < pages; added++ { // each takes half of another
		if from := added - 1<<(bits.Len(uint(added))-1); from < len(t.pages) {
			if err := load(from); err != nil {
				return nil, err
			}
		}
	}
	changed := map[int][]Tip{}
	put := func(tip Tip) {
		page := pageOf(tip.Organization, pages)
		changed[page] = append(changed[page], tip)
	}
	for page, kept := range open {
		changed[page] = nil
		for _, tip := range kept {
			if _, again := find(moved, tip.Organization); !again {
				put(tip)
			}
		}
	}
	for _, tip := range moved {
		put(tip)
	}
	for page := len(t.pages); page < pages; page++ {
		changed[page] = append([]Tip{}, changed[page]...) // also a page without tips
	}
	c := &Change{Table: &Table{make([]pageHash, pages), tips}, Numbers: slices.Sorted(maps.Keys(changed))}
	copy(c.Table.pages, t.pages)
	for _, page := range c.Numbers {
		kept := changed[page]
		if len(kept) > maxTips {
			return nil, fmt.Errorf("log: a page of %d tips", len(kept))
		}
		slices.SortFunc(kept, compare)
		c.Pages = append(c.Pages, appendPage(make([]byte, 0, len(kept)*tipBytes), kept))
		c.Table.pages[page] = sha256.Sum256(c.Pages[len(c.Pages)-1])
	}
	return c, nil
}

func compare(a, b Tip) int { return bytes.Compare(a.Organization[:], b.Organization[:]) }
