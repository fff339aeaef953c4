// Package collector tunes Go's garbage collector for a process that allocates
// tens of kilobytes for each request and keeps next to nothing, and says how much memory it may have.
//
// At the runtime's default such a process collects dozens of times a second and spends a tenth of its CPU on
// it. A large fixed percentage saves that, but multiplies the memory of a process that does keep something.
// Spare allows a fixed amount of garbage instead, and never less than the runtime's default.
package collector

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"syscall"
)

// Limit has the runtime collect garbage more often as memory comes near four fifths of the machine's, instead of letting it double: a process
// that is alone on a machine without swap is ended otherwise. It answers the limit, in bytes.
func Limit() int64 {
	var s syscall.Sysinfo_t
	if err := syscall.Sysinfo(&s); err != nil || s.Totalram == 0 {
		return math.MaxInt64
	}
	limit := int64(s.Totalram / 5 * 4 * uint64(s.Unit))
	debug.SetMemoryLimit(limit)
	return limit
}

// Bounds of the percentage that Spare sets.
const (
	least = 100
	most  = 1000
)

const live = "/gc/heap/live:bytes"

// Spare lets garbage grow to about this many bytes before it is collected, or to the size of what lives if
// that is more. It adjusts itself after every collection. It overrules a GOGC in the environment.
func Spare(bytes uint64) {
	tune(bytes)
	arm(bytes)
}

// arm has tune run after the next collection, which finds the sentinel dead.
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

// Percent is the collector's percentage that allows so many bytes of garbage beside so many that live.
func Percent(spare, live uint64) int {
	if live == 0 {
		return most
	}
	return int(min(max(spare/((live+99)/100), least), most))
}
