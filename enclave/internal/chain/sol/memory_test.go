package sol_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"cloister/enclave/internal/chain"
)

// Whatever an interface makes of a transaction, which has at most 1232 bytes, its facts take at most so much memory.
func TestMemoryOfCalls(t *testing.T) {
	const most = 3 << 20
	nothing, deep := named("T", `{"kind":"struct"}`), []string{named("D0", `{"kind":"struct","fields":[{"name":"a","type":"u8"}]}`)}
	for i := range 10 {
		deep = append(deep, named(fmt.Sprintf("D%d", i+1), fmt.Sprintf(`{"kind":"struct","fields":[{"name":"a","type":{"defined":"D%d"}}]}`, i)))
	}
	bytes := slices.Repeat([]byte{1}, 900)
	long := append(le32(uint32(len(bytes))), bytes...)
	for _, c := range []struct {
		idl   string
		data  []byte
		taken bool
	}{
		{one(`{"vec":{"defined":"T"}}`, nothing), le32(3_000), true}, // each twice: by its name, and itself
		{one(`{"vec":{"defined":"T"}}`, nothing), le32(6_000), false},
		{one(`{"vec":{"defined":"T"}}`, nothing), le32(1 << 31), false},
		{one(`{"array":[{"defined":"T"},100000]}`, nothing), nil, false},
		{one(`{"vec":{"array":["u8",0]}}`), le32(9_900), true},
		{one(`{"vec":{"array":["u8",0]}}`), le32(10_000), false},
		{one(`{"vec":"u8"}`), long, true},
		{one(`{"vec":{"defined":"D3"}}`, deep...), long, true},
		{one(`{"vec":{"defined":"D10"}}`, deep...), long, false},
		{one(`"bytes"`), long, true},
	} {
		tx, d := mustRead(t, calling(append([]byte{7}, c.data...), 0).bytes()), describe(t, c.idl)
		described := func(string) (chain.Description, error) { return d, nil }
		if _, err := tx.Facts(described); (err == nil) != c.taken {
			t.Errorf("%.100s, %d bytes: %v", c.idl, len(c.data), err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		tx.Facts(described)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > most {
			t.Errorf("%.100s: %d bytes allocated for a transaction of %d", c.idl, n, len(c.data))
		}
	}
}
