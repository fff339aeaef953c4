package restart_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"

	"cloister/attestation/tlog"
	"cloister/shared/wire"
)

// What the host keeps of a log, as package log of the enclave writes it.

// A header is followed by its MAC.
type header struct {
	Format     uint8           `cbor:"1,keyasint"`
	Deployment [32]byte        `cbor:"2,keyasint"`
	Range      wire.Range      `cbor:"3,keyasint"`
	Generation uint32          `cbor:"4,keyasint"`
	Position   uint64          `cbor:"5,keyasint"`
	Previous   [32]byte        `cbor:"6,keyasint"`
	Leaf       []byte          `cbor:"7,keyasint"`
	Tips       []tip           `cbor:"8,keyasint,omitempty"`
	Table      *wire.TableHead `cbor:"9,keyasint,omitempty"`
}

type tip struct {
	Organization [16]byte `cbor:"1,keyasint"`
	Count        uint64   `cbor:"2,keyasint"`
	Root         [32]byte `cbor:"3,keyasint"`
}

const macBytes = sha256.Size

func parseHeader(b []byte) *header {
	h := new(header)
	if err := wire.Unmarshal(b[:len(b)-macBytes], h); err != nil {
		panic(err)
	}
	return h
}

// sealed is a header with a MAC that no key has made.
func (h *header) sealed(mac []byte) []byte { return append(must(wire.Marshal(h)), mac...) }

// next is a header that would come after one and moves an organization.
func next(before []byte, moved ...tip) *header {
	h := parseHeader(before)
	leaf := must(tlog.ParseLeaf(h.Leaf))
	leaf = &tlog.Leaf{Format: leaf.Format, Epoch: leaf.Epoch, Boot: leaf.Boot, Number: leaf.Number + 1, Root: sha256.Sum256(before)}
	h.Position++
	h.Previous, h.Leaf, h.Tips, h.Table = sha256.Sum256(before), must(leaf.Encode()), moved, nil
	return h
}

func parseTable(b []byte) *wire.KeptTable { return must(wire.ParseKeptTable(b)) }

const tipBytes = 16 + 8 + sha256.Size

func parsePage(b []byte) (all []tip) {
	for ; len(b) >= tipBytes; b = b[tipBytes:] {
		all = append(all, tip{[16]byte(b), binary.BigEndian.Uint64(b[16:]), [32]byte(b[24:])})
	}
	return all
}

// pageOf is the page of an organization among so many, by the lowest bits of its hash.
func pageOf(organization [16]byte, pages int) int {
	sum := sha256.Sum256(organization[:])
	whole := 1 // pages if all were divided
	for whole < pages {
		whole *= 2
	}
	page := int(binary.LittleEndian.Uint64(sum[:]) % uint64(whole))
	if page >= pages {
		page -= whole / 2
	}
	return page
}

// withTip is a page with another tip of an organization; nil if it is not there.
func withTip(page []byte, t tip) []byte {
	page = bytes.Clone(page)
	for b := page; len(b) >= tipBytes; b = b[tipBytes:] {
		if [16]byte(b) == t.Organization {
			binary.BigEndian.PutUint64(b[16:], t.Count)
			copy(b[24:], t.Root[:])
			return page
		}
	}
	return nil
}

const loadBytes = 4 << 20

// table is the newest tip table of a range in a copy, empty if there is none.
func (s *shot) table(of wire.Range) []byte {
	return must(s.read.LoadTable(context.Background(), wire.LoadTable{Range: of})).Table
}

// behind are the headers behind a table, all without one.
func (s *shot) behind(of wire.Range, table []byte) [][]byte {
	ask := wire.LoadHeaders{Range: of, MaxBytes: loadBytes}
	if len(table) > 0 {
		k := parseTable(table)
		ask.Epoch, ask.Number = k.Epoch, k.Number
	}
	return must(s.read.LoadHeaders(context.Background(), ask)).Headers
}

// tip is where an organization stands in a copy; its count is 0 if it is not there.
func (s *shot) tip(a *account) tip {
	got := must(s.read.LoadTips(context.Background(), wire.LoadTips{From: a.wid, To: a.wid, Limit: 1})).Tips
	if len(got) == 0 {
		return tip{Organization: a.wid}
	}
	return tip{a.wid, got[0].Count, got[0].Root}
}

// load is what opens an organization, as the copy has it.
func (s *shot) load(a *account) wire.Organization {
	return must(s.read.LoadOrganization(context.Background(), wire.LoadOrganization{Organization: a.wid, MaxBytes: loadBytes}))
}

// pageHashes are the hashes of a table's pages, which its blocks have.
func (h *history) pageHashes(table []byte) (all []wire.Hash) {
	for _, block := range parseTable(table).BlockHashes() {
		for b := h.pages.page(block); len(b) > 0; b = b[sha256.Size:] {
			all = append(all, wire.Hash(b))
		}
	}
	return all
}

// tips are where a table and the headers behind it say that organizations stand.
func (h *history) tips(table []byte, headers [][]byte) map[wire.ID]tip {
	all := map[wire.ID]tip{}
	if len(table) > 0 {
		for _, hash := range h.pageHashes(table) {
			for _, t := range parsePage(h.pages.page(hash)) {
				all[t.Organization] = t
			}
		}
	}
	for _, t := range moved(headers) {
		all[t.Organization] = t
	}
	return all
}

// moved are the tips that headers move, the newest of each organization.
func moved(headers [][]byte) map[wire.ID]tip {
	all := map[wire.ID]tip{}
	for _, b := range headers {
		for _, t := range parseHeader(b).Tips {
			all[t.Organization] = t
		}
	}
	return all
}

// names tells whether one of the headers commits to a table. Without one it is the first table, of
// a log that begins empty.
func names(headers [][]byte, table []byte) bool {
	covers := uint64(0)
	if len(table) > 0 {
		covers = parseTable(table).Covers
	}
	for _, b := range headers {
		if head := parseHeader(b).Table; head != nil && head.Covers == covers {
			return true
		}
	}
	return false
}

func hashOf(b []byte) wire.Hash { return sha256.Sum256(b) }
