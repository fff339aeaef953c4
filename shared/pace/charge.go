package pace

import "time"

// Unit is one token of a rate in the amounts of Charge and Lacks, which count thousandths: a rate of
// 3000/m can stand for three seconds a minute and be charged in microseconds.
const Unit = 1000

// maxDebt is how long it takes a bucket at most to be repaid.
const maxDebt = time.Minute

// HasLess tells whether the bucket of k has less than so many thousandths of a token, and for how long. It takes nothing.
func (b *Buckets[K]) HasLess(k K, amount int64, now time.Time) Count {
	if b.count == 0 {
		return Count{}
	}
	at := now.UnixNano()
	b.mu.Lock()
	defer b.mu.Unlock()
	fullAt := b.fullAt(k, at, int64(maxDebt))
	c := Count{Limit: b.count}
	if over := fullAt + b.worth(amount) - (at + b.full); over > 0 {
		c.Refused, c.Wait = true, time.Duration(over)
	} else {
		c.Remaining = uint32((at + b.full - fullAt) / b.interval)
	}
	return c
}

// Charge takes thousandths of a token from the bucket of k, whether it has them or not: what something costs is known when it is done.
// What is missing is a debt that the bucket repays before it has anything again, in a minute at most. Buckets that are charged have no
// use for Take, which knows no debts.
func (b *Buckets[K]) Charge(k K, amount int64, now time.Time) {
	if b.count == 0 || amount <= 0 {
		return
	}
	at := now.UnixNano()
	b.mu.Lock()
	defer b.mu.Unlock()
	fullAt := b.fullAt(k, at, int64(maxDebt))
	b.keep(k, min(fullAt+b.worth(amount), at+b.full+int64(maxDebt)))
}

// worth is how long it takes to get so many thousandths, in nanoseconds.
func (b *Buckets[K]) worth(amount int64) int64 {
	most := (b.full + int64(maxDebt)) / b.interval * Unit // more makes no difference, and could overflow
	return b.interval * min(max(amount, 0), most+Unit) / Unit
}

// Left is how many tokens the bucket of k has, negative for a debt. It takes nothing.
func (b *Buckets[K]) Left(k K, now time.Time) int64 {
	if b.count == 0 {
		return 0
	}
	at := now.UnixNano()
	b.mu.Lock()
	defer b.mu.Unlock()
	return (at + b.full - b.fullAt(k, at, int64(maxDebt))) / b.interval
}
