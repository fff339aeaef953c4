package query_test

import (
	"testing"

	"cloister/enclave/internal/org"
)

// After a recovery a window is shown as used up until what was spent in the lost time would have left it.
func TestGasUsageAfterARecovery(t *testing.T) {
	w := newWorld(t)
	w.refused("get_gas_usage", nil, 9, "no gas usage configuration")
	now := w.tx().NowMs
	w.change(func(tx *org.Tx) {
		w.must(tx.PutGasConfig(&org.GasConfig{ID: id('G', 1), TreeLimit: 5_000_000, WindowMinutes: 10, Enabled: true, CreatedMs: now}))
		w.must(tx.PutGasSpend(id('A', 1), &org.GasSpend{Organization: w.id, Micro: 2_000_000}))
	})
	used := func(want string) {
		t.Helper()
		if m := w.get("get_gas_usage", nil); m["usageUsd"] != want || m["windowLimitUsd"] != "5" {
			t.Errorf("%v, want %s", m, want)
		}
	}
	used("2")
	w.recovered = now - 1 // before there was a sponsor
	used("2")
	w.recovered = now
	used("5")
	w.later = 10*60*1000 - 1
	used("5")
	w.later++
	used("0")
}
