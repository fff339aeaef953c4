package wallet_test

import (
	"fmt"
	"strings"
	"testing"

	"cloister/enclave/internal/activity/wallet"
	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/org"
)

// However many interfaces tenants upload and have read, what is kept of them is bounded, and those that are dropped are
// read again.
func TestDescriptionsAreBounded(t *testing.T) {
	const typ = "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM"
	abi := strings.Repeat(" ", 390_000) + `[{"type":"function","name":"transfer","inputs":[{"name":"to","type":"address"},{"name":"amount","type":"uint256"}],"outputs":[]}]`
	tx := org.Begin(org.ID{1}, org.NewState(), 1)
	address := func(i int) string { return fmt.Sprintf("0x%040x", 0x1111+i) }
	for i := range 15 {
		id := org.ID{2, byte(i)}
		if err := tx.TakeName(org.NameInterface, wallet.PlaceOf(typ, address(i)), id); err != nil {
			t.Fatal(err)
		}
		if err := tx.PutInterface(&org.Interface{ID: id, Address: address(i), Type: typ, Label: address(i)}, abi); err != nil {
			t.Fatal(err)
		}
	}
	dropped := 0
	for range 2 {
		for i := range 15 {
			if d, err := wallet.Describe(tx, eth.Chain{}, typ, address(i)); err != nil || d == nil {
				t.Fatalf("%d: %v, %v", i, d, err)
			}
			if n := wallet.DescribedBytes(); n > 4<<20 {
				t.Fatalf("%d bytes of interfaces are kept", n)
			}
		}
	}
	for i := range 15 {
		if !wallet.IsDescribed(org.ID{2, byte(i)}) {
			dropped++
		}
	}
	if dropped == 0 {
		t.Error("nothing was dropped, so nothing was read again")
	}
}
