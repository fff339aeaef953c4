package core

import "runtime/debug"

// collectorPercent lets garbage grow to three times what lives before it is
// collected. A request allocates some 60 KiB and keeps next to nothing, so at
// the default of 100 a small enclave collects dozens of times a second;
// measured with scripts/load this saves about a tenth of the CPU for a
// signature.
const collectorPercent = 300

// TuneCollector sets the collector for the process of an enclave. Its main
// calls it once, at start.
func TuneCollector() { debug.SetGCPercent(collectorPercent) }
