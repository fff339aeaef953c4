package pace

import "time"

// Unit is one token in the amounts of Charge and HasLess, which are thousandths of a token: a rate of
// 3000/m can mean three seconds a minute and be charged in microseconds.
const Unit = 1000

// maxDebt bounds a bucket's debt: it is repaid after this time at most.
const maxDebt = time.Minute

// HasLess reports whether the bucket of k has less than that many thousandths of a token (Refused), and for how long (Wait). It takes
// no token.
func (b *Buckets[K]) HasLess(k K, amount int64, now time.Time) Count {
	if b.count == 0 {
		return Count{}
	}
	at := now.UnixNano()
	b.mu.Lock()
	defer b.mu.Unlock()
	fullAt := b.fullAt(k, at, int64(maxDebt))
	c := Count{Limit: b.count}
	if over := fullAt + b.timeFor(amount) - (at + b.full); over > 0 {
		c.Refused, c.Wait = true, time.Duration(over)
	} else {
		c.Remaining = uint32((at + b.full - fullAt) / b.interval)
	}
	return c
}

// Charge takes thousandths of a token from the bucket of k, whether it has them or not, because the cost of work is known only afterwards.
// The missing amount is a debt, which new tokens repay first, in a minute at most. Don't mix Charge with Take, which ignores and
// forgets debts.
func (b *Buckets[K]) Charge(k K, amount int64, now time.Time) {
	if b.count == 0 || amount <= 0 {
		return
	}
	at := now.UnixNano()
	b.mu.Lock()
	defer b.mu.Unlock()
	fullAt := b.fullAt(k, at, int64(maxDebt))
	b.keep(k, min(fullAt+b.timeFor(amount), at+b.full+int64(maxDebt)))
}

// timeFor returns the time in which a bucket gets that many thousandths of a token, in nanoseconds.
func (b *Buckets[K]) timeFor(amount int64) int64 {
	most := (b.full + int64(maxDebt)) / b.interval * Unit // more makes no difference, and could overflow
	return b.interval * min(max(amount, 0), most+Unit) / Unit
}

// Left returns the number of tokens in the bucket of k, negative for a debt. It takes no token.
func (b *Buckets[K]) Left(k K, now time.Time) int64 {
	if b.count == 0 {
		return 0
	}
	at := now.UnixNano()
	b.mu.Lock()
	defer b.mu.Unlock()
	return (at + b.full - b.fullAt(k, at, int64(maxDebt))) / b.interval
}
