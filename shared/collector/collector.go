// Package collector tunes Go's garbage collector for a process that allocates tens of kilobytes for each
// request and keeps next to nothing, and sets its memory limit.
//
// With the runtime's default such a process collects dozens of times a second and spends a tenth of its CPU on
// it. A large fixed percentage saves that, but multiplies the memory of a process with a large live heap.
// Spare allows a fixed amount of garbage instead, and never less than the runtime's default.
package collector

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"syscall"
)

// Limit sets the runtime's memory limit to four fifths of the machine's memory and returns it, in bytes. Near the limit the runtime collects
// more often instead of letting the heap double, for which Linux would kill a process on a machine without swap. If the
// memory's size is unknown, Limit sets none and returns math.MaxInt64.
func Limit() int64 {
	var s syscall.Sysinfo_t
	if err := syscall.Sysinfo(&s); err != nil || s.Totalram == 0 {
		return math.MaxInt64
	}
	limit := int64(s.Totalram / 5 * 4 * uint64(s.Unit))
	debug.SetMemoryLimit(limit)
	return limit
}

// Bounds of the GC percentage that Spare sets. least is the runtime's default.
const (
	least = 100
	most  = 1000
)

const live = "/gc/heap/live:bytes"

// Spare lets garbage grow to about this many bytes before it is collected, or to the size of the live heap if
// that is more. It adjusts the percentage after every collection, and overrides GOGC.
func Spare(bytes uint64) {
	tune(bytes)
	arm(bytes)
}

// arm runs tune after the next collection, by a finalizer of an unreachable object.
func arm(bytes uint64) {
	sentinel := new([16]byte)
	runtime.SetFinalizer(sentinel, func(*[16]byte) {
		tune(bytes)
		arm(bytes)
	})
}

func tune(bytes uint64) {
	s := []metrics.Sample{{Name: live}}
	metrics.Read(s)
	n := uint64(1)
	if s[0].Value.Kind() == metrics.KindUint64 {
		n = max(n, s[0].Value.Uint64())
	}
	debug.SetGCPercent(Percent(bytes, n))
}

// Percent returns the GC percentage that allows spare bytes of garbage beside a live heap of live bytes.
func Percent(spare, live uint64) int {
	if live == 0 {
		return most
	}
	return int(min(max(spare/((live+99)/100), least), most))
}
