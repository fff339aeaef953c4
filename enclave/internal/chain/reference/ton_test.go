package reference_test

import (
	"crypto/ed25519"
	"encoding/binary"
	"testing"

	"github.com/xssnick/tonutils-go/ton/wallet"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/addressonly"
)

// TestTONAddresses makes addresses of many keys in both ways.
func TestTONAddresses(t *testing.T) {
	const keys = 300
	for i := range keys {
		checkTON(t, binary.BigEndian.AppendUint64(make([]byte, 24), uint64(i)*0x9e3779b97f4a7c15))
	}
	t.Logf("%d addresses equal", 3*keys)
}

func FuzzTONAddress(f *testing.F) {
	f.Add(make([]byte, 32))
	f.Fuzz(func(t *testing.T, key []byte) {
		if len(key) == ed25519.PublicKeySize {
			checkTON(t, key)
		}
	})
}

func checkTON(t *testing.T, key []byte) {
	t.Helper()
	p, err := chain.NewPublicKey(chain.Ed25519, key)
	if err != nil {
		t.Fatal(err)
	}
	for f, v := range map[chain.Format]struct {
		version   wallet.VersionConfig
		subwallet uint32
	}{
		chain.TonV3R2: {wallet.V3R2, wallet.DefaultSubwallet},
		chain.TonV4R2: {wallet.V4R2, wallet.DefaultSubwallet},
		chain.TonV5R1: {wallet.ConfigV5R1Final{NetworkGlobalID: wallet.MainnetGlobalID}, 0},
	} {
		want, err := wallet.AddressFromPubKey(key, v.version, v.subwallet)
		if err != nil {
			t.Fatal(err)
		}
		got, err := addressonly.Addresses.Address(f, p)
		if err != nil || got != want.Bounce(false).String() {
			t.Errorf("%v of %x: %s, want %s (%v)", f, key, got, want, err)
		}
	}
}
