package store

import "cloister/shared/wire"

// Bounds returns, for each of ascending times, the number of an organization's entries that are earlier; count is the number of all. Times
// of entries ascend with their seq. timesOf returns the times of the entries at some seqs, in their order: at most one for each time. It
// is called as often as count has binary digits.
func Bounds(count uint64, timesMs []uint64, timesOf func(seqs []uint64) ([]uint64, error)) ([]uint64, error) {
	low, high := make([]uint64, len(timesMs)), make([]uint64, len(timesMs))
	for i := range high {
		high[i] = count
	}
	for {
		var seqs []uint64
		var of []int // the time that each of seqs is read for
		for i := range low {
			if low[i] < high[i] {
				seqs, of = append(seqs, low[i]+(high[i]-low[i])/2), append(of, i)
			}
		}
		if len(seqs) == 0 {
			return low, nil
		}
		got, err := timesOf(seqs)
		if err != nil {
			return nil, err
		}
		for n, i := range of {
			if got[n] < timesMs[i] {
				low[i] = seqs[n] + 1
			} else {
				high[i] = seqs[n]
			}
		}
	}
}

// A Tally collects the rows of an answer to CountActivities. The zero value has no rows.
type Tally struct {
	rows map[tallied]int // places in counts
	wire.ActivityCounts
}

type tallied struct {
	text   string
	status uint8
}

// Add adds to the activities of a type and status in one of some periods.
func (t *Tally) Add(text string, status uint8, period, periods int, n uint64) error {
	if n == 0 {
		return nil
	}
	at, ok := t.rows[tallied{text, status}]
	if !ok {
		if len(t.Rows) == wire.MaxCounts {
			return refuse("more than %d types and statuses", wire.MaxCounts)
		}
		if t.rows == nil {
			t.rows = map[tallied]int{}
		}
		at = len(t.Rows)
		t.rows[tallied{text, status}] = at
		t.Rows = append(t.Rows, wire.ActivityCount{Type: text, Status: status, Counts: make([]uint64, periods)})
	}
	t.Rows[at].Counts[period] += n
	return nil
}
