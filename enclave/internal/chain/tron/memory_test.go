package tron_test

import (
	"bytes"
	"runtime"
	"testing"

	"cloister/enclave/internal/chain/tron"
)

// Reading a transaction takes at most so much memory for each of its bytes: data are shown in hexadecimal, keys as text.
func TestMemory(t *testing.T) {
	const fixed, each = 64 << 10, 16
	var keys, operations []any
	for range 32 {
		keys = append(keys, 7, message(1, ownerBytes, 2, 1))
	}
	for range 8 {
		operations = append(operations, 4, message(append([]any{1, 2, 3, "p", 4, 1, 6, bytes.Repeat([]byte{1}, 32)}, keys...)...))
	}
	by := signer(t)
	for name, raw := range map[string][]byte{
		"data":        inside(31, "TriggerSmartContract", 1, ownerBytes, 2, otherBytes, 4, bytes.Repeat([]byte{0xab}, 490_000)),
		"permissions": inside(46, "AccountPermissionUpdateContract", append([]any{1, ownerBytes}, operations...)...),
	} {
		read := func() {
			tx, err := tron.Chain{}.Read(raw, by)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			tx.Facts(nil)
		}
		read()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		read()
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > fixed+uint64(each*len(raw)) {
			t.Errorf("%s: %d bytes allocated for %d", name, n, len(raw))
		}
	}
}
