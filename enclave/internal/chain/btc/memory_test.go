package btc_test

import (
	"runtime"
	"testing"
)

// Reading a PSBT takes at most so much memory for each of its bytes, also with outputs of nothing, which are the shortest
// and have as many facts as any other.
func TestMemory(t *testing.T) {
	const each = 64
	d := one("P2WPKH")
	for range 10_900 {
		d.out = append(d.out, draftOut{})
	}
	raw, by := d.bytes(), key(1).signer("id")
	decode := func() {
		tx, err := read(raw, by)
		if err != nil {
			t.Fatal(err)
		}
		tx.Facts(nil)
	}
	decode()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	decode()
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > uint64(each*len(raw)) {
		t.Errorf("%d bytes allocated for %d", n, len(raw))
	}
}
