package addressonly_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/addressonly"
	"cloister/enclave/internal/fault"
)

func publicKey(t testing.TB, c chain.Curve, text string) chain.PublicKey {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	p, err := chain.NewPublicKey(c, b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func ed25519(t testing.TB) chain.PublicKey {
	return publicKey(t, chain.Ed25519, "34c1363c6d6b88bc1aa6cf6543a7baad1673c1f8711cc4facbbf54e7f2ae2d29")
}

// TestCodes hashes the published code of each contract, cell by cell.
func TestCodes(t *testing.T) {
	b, err := os.ReadFile("testdata/codes.json")
	if err != nil {
		t.Fatal(err)
	}
	var codes map[string]string
	if err := json.Unmarshal(b, &codes); err != nil {
		t.Fatal(err)
	}
	if len(codes) != len(addressonly.Codes) {
		t.Fatalf("%d codes", len(codes))
	}
	for name, text := range codes {
		f, err := chain.ParseFormat(name)
		if err != nil {
			t.Fatal(err)
		}
		boc, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		hash, depth := root(t, boc)
		if want := addressonly.Codes[f]; hash != want.Hash || depth != want.Depth {
			t.Errorf("%s: hash %x, depth %d", name, hash, depth)
		}
	}
}

// root reads a bag of one root, of at most 255 ordinary cells, without index and
// checksum, and gives hash and depth of the root.
func root(t *testing.T, boc []byte) ([32]byte, uint16) {
	t.Helper()
	header, ok := bytes.CutPrefix(boc, []byte{0xb5, 0xee, 0x9c, 0x72})
	if !ok || header[0] != 1 {
		t.Fatal("not a bag as this test reads them")
	}
	offset, count := int(header[1]), int(header[2])
	if header[3] != 1 || header[4] != 0 || header[5+offset] != 0 {
		t.Fatal("the bag does not have one root, or not first")
	}
	type cell struct {
		shown []byte // descriptors and data
		refs  []byte
	}
	cells := make([]cell, count)
	rest := header[6+offset:]
	for i := range cells {
		if rest[0] > 4 {
			t.Fatal("a cell of another kind")
		}
		end := 2 + (int(rest[1])+1)/2
		cells[i] = cell{rest[:end], rest[end : end+int(rest[0])]}
		rest = rest[end+int(rest[0]):]
	}
	if len(rest) != 0 {
		t.Fatal("the bag goes on")
	}
	hashes, depths := make([][32]byte, count), make([]uint16, count)
	for i := count - 1; i >= 0; i-- { // a cell refers to later ones only
		shown := bytes.Clone(cells[i].shown)
		for _, r := range cells[i].refs {
			depths[i] = max(depths[i], depths[r]+1)
			shown = binary.BigEndian.AppendUint16(shown, depths[r])
		}
		for _, r := range cells[i].refs {
			shown = append(shown, hashes[r][:]...)
		}
		hashes[i] = sha256.Sum256(shown)
	}
	return hashes[0], depths[0]
}

// TestAddress is of @ton/ton; more are in the vectors that package chain holds
// all formats against, and tonutils-go is asked in ../reference.
func TestAddress(t *testing.T) {
	p := ed25519(t)
	for f, want := range map[chain.Format]string{
		chain.TonV3R2: "UQANACPZU1HEymvIcRwzzxkgfBUYbEQPBaq8V_KnVnN5HD5u",
		chain.TonV4R2: "UQAp3LwSV1M7jdVutXnTaTY3aU912WKZ9F1rEmBLjB4xYE2Y",
		chain.TonV5R1: "UQAOTUHMuYgPVQooxXzyFIryQxeB-TGNwCEqQ950pXSVuqD2",
	} {
		if got, err := addressonly.Addresses.Address(f, p); err != nil || got != want {
			t.Errorf("%v: %s, %v", f, got, err)
		}
	}
	secp := publicKey(t, chain.Secp256k1, "0390c9c99541bfc8aa65747f8963c542e937454adb17233bb9f6f44fc8474269a8")
	for f, p := range map[chain.Format]chain.PublicKey{chain.Solana: p, 0: p, chain.TonV3R2: secp, chain.TonV5R1: {}} {
		if got, err := addressonly.Addresses.Address(f, p); fault.Of(err) == nil || got != "" {
			t.Errorf("%v: %q, %v", f, got, err)
		}
	}
}

// The check value of CRC-16/XMODEM.
func TestCRC16(t *testing.T) {
	if got := addressonly.CRC16([]byte("123456789")); got != 0x31c3 {
		t.Errorf("%04x", got)
	}
}

func BenchmarkAddress(b *testing.B) {
	p := ed25519(b)
	b.Run("address", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			addressonly.Addresses.Address(chain.TonV5R1, p)
		}
	})
	b.Run("hashes alone", func(b *testing.B) {
		data, state := make([]byte, 2+41), make([]byte, 7+64)
		for b.Loop() {
			sha256.Sum256(data)
			sha256.Sum256(state)
		}
	})
}
