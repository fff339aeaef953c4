package fairqueue

import (
	"container/heap"
	"time"
)

// A level is one fair queue: of all customers, or of the organizations of one. Its virtual time is the start of whoever got a
// slot last. Who wants one starts where what he has used ends, but at most credit behind that time.
//
// Of two that wait, the one that has used less starts no later than the other, so who is next is a question of
// what they have used alone, and a heap answers it.
type level struct {
	virtual time.Duration
	heaps   [classes]flowHeap // of flows in which somebody waits
}

// tag is where in virtual time a flow starts that wants something now.
func (l *level) tag(f *flow) time.Duration { return max(l.virtual-credit, f.finish) }

// chargeLocked adds what a flow has used that started at a virtual time.
func (l *level) chargeLocked(f *flow, start, d time.Duration) {
	f.finish = max(f.finish, start) + d
	for c := range l.heaps {
		if f.at[c] > 0 {
			heap.Fix(&l.heaps[c], f.at[c]-1)
		}
	}
}

// pushLocked puts a flow into the heap of a class, if it is not there.
func (l *level) pushLocked(f *flow, c class, arrival uint64) {
	if f.at[c] > 0 {
		return
	}
	if f.at == [classes]int{} {
		f.arrival = arrival
	}
	l.heaps[c].class = c
	heap.Push(&l.heaps[c], f)
}

func (l *level) removeLocked(f *flow, c class) { heap.Remove(&l.heaps[c], f.at[c]-1) }

// firstLocked is the flow that is next, and the class of its step that is; nil: none.
func (l *level) firstLocked(longToo bool) (*flow, class) {
	var first *flow
	of := short
	for c := range l.heaps {
		h := &l.heaps[c]
		if len(h.flows) > 0 && (class(c) == short || longToo) && (first == nil || h.flows[0].before(first)) {
			first, of = h.flows[0], class(c)
		}
	}
	return first, of
}

// before tells whether f is next before another: it has used less, or as much and waits longer.
func (f *flow) before(other *flow) bool {
	if f.finish != other.finish {
		return f.finish < other.finish
	}
	return f.arrival < other.arrival
}

// A flowHeap has the flow that is next at 0; see container/heap.
type flowHeap struct {
	flows []*flow
	class class
}

func (h *flowHeap) Len() int           { return len(h.flows) }
func (h *flowHeap) Less(i, j int) bool { return h.flows[i].before(h.flows[j]) }

func (h *flowHeap) Swap(i, j int) {
	h.flows[i], h.flows[j] = h.flows[j], h.flows[i]
	h.flows[i].at[h.class], h.flows[j].at[h.class] = i+1, j+1
}

func (h *flowHeap) Push(x any) {
	f := x.(*flow)
	h.flows = append(h.flows, f)
	f.at[h.class] = len(h.flows)
}

func (h *flowHeap) Pop() any {
	n := len(h.flows) - 1
	f := h.flows[n]
	h.flows[n] = nil
	h.flows = h.flows[:n]
	f.at[h.class] = 0
	return f
}

// A mean is that of the last steps, the newest counting a quarter. A step counts as much as a long one twice at most, so that
// one which stands out makes no difference for long.
type mean struct {
	of    time.Duration
	known bool
}

func (m *mean) addSample(d time.Duration) {
	if d = min(d, 2*longAfter); !m.known {
		m.of, m.known = d, true
	}
	m.of += (d - m.of) / 4
}

func (m *mean) long() bool { return m.of >= longAfter }
