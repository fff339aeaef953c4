package attestation

import (
	"cmp"
	"errors"
)

// HistoryPage is the claim about one page of an organization's exported history: the entries of its ledger from
// From up to, and without, To. Entries of format 1 commit to nothing, so Digest is over those of the page, as
// package enclave/internal/history makes it. On the last page Root is the root of the tree over all entries
// that there were at that time; on others it is empty.
type HistoryPage struct {
	OrganizationID string          `json:"organizationId"`
	From           string          `json:"from"` // decimal
	To             string          `json:"to"`
	Digest         string          `json:"digest"` // 32 bytes in hex
	Root           string          `json:"root,omitempty"`
	Freshness      *ClaimFreshness `json:"freshness,omitempty"`
}

// Type is TypeHistory.
func (*HistoryPage) Type() string { return TypeHistory }

// Names returns the organization alone.
func (c *HistoryPage) Names() (string, string, string) { return c.OrganizationID, "", "" }

// Fresh is the claim's freshness; nil if it states none.
func (c *HistoryPage) Fresh() *ClaimFreshness { return c.Freshness }

func (c *HistoryPage) write(w *writer) {
	w.open("historyProof")
	w.text("organizationId", c.OrganizationID)
	w.text("from", c.From)
	w.text("to", c.To)
	w.text("digest", c.Digest)
	w.optional("root", c.Root)
	w.freshness(c.Freshness)
	w.close()
}

// Range returns From and To as numbers below 2^53. A page without entries is an error.
func (c *HistoryPage) Range() (from, to uint64, err error) {
	from, err = parseDecimal("from", c.From, maxExactInt)
	if err == nil {
		to, err = parseDecimal("to", c.To, maxExactInt)
	}
	if err == nil && from >= to {
		err = errors.New("a page without entries")
	}
	return from, to, err
}

func (c *HistoryPage) check() error {
	_, _, err := c.Range()
	return cmp.Or(err, checkHex("digest", c.Digest, 32), checkOptionalHash("root", c.Root), checkNames(c, false))
}
