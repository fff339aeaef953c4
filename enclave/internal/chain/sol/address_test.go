package sol_test

import (
	"strings"
	"testing"

	"cloister/enclave/internal/chain/sol"
)

func TestParseAddress(t *testing.T) {
	for _, good := range []string{"11111111111111111111111111111111", "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", "JEKNVnkbo3jma5nREBBJCDoXFVeKkD56V3xKrvRmWxFG"} {
		if _, err := sol.ParseAddress(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "1", strings.Repeat("1", 31), strings.Repeat("1", 33), strings.Repeat("z", 44), "0" + strings.Repeat("1", 31), "l" + strings.Repeat("1", 31),
		"TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5D", "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA ", strings.Repeat("1", 1000)} {
		if a, err := sol.ParseAddress(bad); err == nil || a != [32]byte{} {
			t.Errorf("%q is taken", bad)
		}
	}
}
