package core

import (
	"sync"

	"cloister/enclave/internal/org"
)

// tenant is the organization of the top level that pays for what happens in tx's.
func tenant(tx *org.Tx) (org.ID, error) {
	o, err := tx.Organization()
	if err != nil || o.Parent.Zero() {
		return tx.ID, err
	}
	return o.Parent, nil
}

// A portion divides an amount of something among tenants. Who has none of it is given
// some as long as there is enough; who has some is given more up to an eighth of what
// is left. So one tenant has an eighth of all at most, sixteen that want everything
// leave a fifth, and who comes then is given some.
type portion struct {
	mu   sync.Mutex
	left int64
	of   map[org.ID]int64
}

const portionOfLeft = 8

func newPortion(all int64) *portion { return &portion{left: all, of: map[org.ID]int64{}} }

// take gives a tenant n more, or nothing.
func (p *portion) take(who org.ID, n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	has := p.of[who]
	if n > p.left || has > 0 && has+n > (p.left-n)/portionOfLeft {
		return false
	}
	p.addLocked(who, n)
	return true
}

// add gives a tenant n more, which may be less than none, without asking: it has it
// already.
func (p *portion) add(who org.ID, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addLocked(who, n)
}

func (p *portion) addLocked(who org.ID, n int64) {
	p.left -= n
	if has := p.of[who] + n; has != 0 {
		p.of[who] = has
	} else {
		delete(p.of, who)
	}
}

// given is how much all tenants have.
func (p *portion) given() (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, has := range p.of {
		n += has
	}
	return n
}
