package wire_test

import (
	"bytes"
	"testing"

	"cloister/shared/wire"
)

func keptTable() wire.KeptTable {
	return wire.KeptTable{Format: wire.KeptFormat, Covers: 0b1011, Previous: wire.Hash{1}, Edge: bytes.Repeat([]byte{2}, 3*32), Tips: 40,
		Blocks: bytes.Repeat([]byte{3}, 2*32), Epoch: 4, Number: 5, Policy: wire.Hash{6}, Mode: 1, Boots: 7, Generation: 2, Recovered: 2, RecoveredMs: 8, ManifestNonce: 9, WaitMs: 10}
}

func marshalKept(t testing.TB, k wire.KeptTable) []byte {
	t.Helper()
	b, err := wire.Marshal(&k)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParseKeptTable(t *testing.T) {
	good := marshalKept(t, keptTable())
	k, err := wire.ParseKeptTable(good)
	if err != nil || len(k.EdgeHashes()) != 3 || len(k.BlockHashes()) != 2 || k.EdgeHashes()[2] != wire.Hash(bytes.Repeat([]byte{2}, 32)) {
		t.Fatal(k, err)
	}
	for name, change := range map[string]func(*wire.KeptTable){
		"format":          func(k *wire.KeptTable) { k.Format = 3 },
		"an edge of less": func(k *wire.KeptTable) { k.Edge = k.Edge[32:] },
		"an edge of more": func(k *wire.KeptTable) { k.Edge = append(k.Edge, k.Edge[:32]...) },
		"half a hash":     func(k *wire.KeptTable) { k.Edge = k.Edge[16:] },
		"half a block":    func(k *wire.KeptTable) { k.Blocks = k.Blocks[16:] },
		"many leaves":     func(k *wire.KeptTable) { k.Covers, k.Edge = 1<<63, k.Edge[:32] },
		"many tips":       func(k *wire.KeptTable) { k.Tips = 1<<40 + 1 },
		"many blocks":     func(k *wire.KeptTable) { k.Blocks = make([]byte, wire.MaxTable) },
	} {
		bad := keptTable()
		bad.Edge = bytes.Clone(bad.Edge)
		change(&bad)
		if k, err := wire.ParseKeptTable(marshalKept(t, bad)); err == nil {
			t.Errorf("%s: %+v", name, k)
		}
	}
	for n := range good {
		if _, err := wire.ParseKeptTable(good[:n]); err == nil {
			t.Errorf("%d bytes of %d", n, len(good))
		}
	}
}

// FuzzParseKeptTable: what is read is written again byte for byte.
func FuzzParseKeptTable(f *testing.F) {
	f.Add(marshalKept(f, keptTable()))
	f.Add(marshalKept(f, wire.KeptTable{Format: wire.KeptFormat}))
	f.Add(marshalKept(f, wire.KeptTable{Format: wire.KeptPages, Tips: 1, Blocks: make([]byte, 32)}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if k, err := wire.ParseKeptTable(b); err == nil && !bytes.Equal(marshalKept(t, *k), b) {
			t.Fatalf("%+v", k)
		}
	})
}
