//go:build !race

package keys_test

import (
	"crypto/rand"
	"testing"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/keys"
)

// TestTweakedKeysStayNowhere is TestNothingStaysInMemory for BIP-340: neither the
// key nor the tweaked one, as it is or negated, is left by the erasing build.
func TestTweakedKeysStayNowhere(t *testing.T) {
	const n = 60
	var mask [32]byte
	rand.Read(mask[:])
	wanted := make(map[string][][32]byte) // masked
	digest := make([]byte, 32)
	for range n {
		k, err := keys.GeneratePrivateKey(rand.Reader, chain.Secp256k1)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []chain.Scheme{chain.Taproot, chain.Schnorr} {
			if _, err := keys.SignBareAs(k, s, digest); err != nil {
				t.Fatal(err)
			}
		}
		tweaked := k.MaskedTweaked(mask)
		wanted["key"] = append(wanted["key"], k.Masked(mask))
		wanted["tweaked"] = append(wanted["tweaked"], tweaked[0])
		wanted["negated"] = append(wanted["negated"], tweaked[1])
		k.Wipe()
	}
	collect(t)
	found := scan(t, wanted, mask)
	t.Logf("erasing build: %v; found of %d each: %v", keys.Erasing, n, found)
	if keys.Erasing && len(found) > 0 {
		t.Errorf("keys are left in memory: %v", found)
	}
}
