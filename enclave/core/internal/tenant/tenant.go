// Package tenant says who pays for what an organization and its sub-organizations use,
// and divides what is scarce among those.
package tenant

import (
	"sync"

	"cloister/enclave/internal/org"
)

// Of is the organization of the top level that pays for what happens in tx's; see org.Organization.Tenant.
func Of(tx *org.Tx) (org.ID, error) {
	o, err := tx.Organization()
	if err != nil {
		return tx.ID, err
	}
	return o.Tenant(), nil
}

// A Portion divides an amount of something among tenants. One that has none is given some as
// long as there is enough; one that has some is given more up to an eighth of what is left.
// So sixteen tenants that want everything leave a fifth of it to others.
type Portion[K comparable] struct {
	mu   sync.Mutex
	left int64
	of   map[K]int64
}

const portionOfLeft = 8

// NewPortion divides all.
func NewPortion[K comparable](all int64) *Portion[K] {
	return &Portion[K]{left: all, of: map[K]int64{}}
}

// Take gives a tenant n more, or nothing.
func (p *Portion[K]) Take(who K, n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	has := p.of[who]
	if n > p.left || has > 0 && has+n > (p.left-n)/portionOfLeft {
		return false
	}
	p.addLocked(who, n)
	return true
}

// Add counts n more for a tenant that has it already. n may be negative.
func (p *Portion[K]) Add(who K, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addLocked(who, n)
}

func (p *Portion[K]) addLocked(who K, n int64) {
	p.left -= n
	if has := p.of[who] + n; has != 0 {
		p.of[who] = has
	} else {
		delete(p.of, who)
	}
}

// Given is how much all tenants have.
func (p *Portion[K]) Given() (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, has := range p.of {
		n += has
	}
	return n
}
