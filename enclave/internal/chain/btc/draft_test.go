package btc_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"sync"
	"testing"

	"github.com/btcsuite/btcd/btcutil/bech32"
	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"golang.org/x/crypto/ripemd160" //lint:ignore SA1019 addresses are made of it

	"cloister/enclave/internal/chain"
)

// What tests write with: keys that sign by the textbook, and PSBTs put together pair
// by pair. Scripts and hashes are written a second time here.

type testKey struct {
	d      secp256k1.ModNScalar
	public chain.PublicKey
}

var made sync.Map

// key is one of the tests' keys.
func key(i int) testKey {
	if k, ok := made.Load(i); ok {
		return k.(testKey)
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint32([]byte("key of a test"), uint32(i)))
	k := keyOf(sum[:])
	made.Store(i, k)
	return k
}

func keyOf(raw []byte) testKey {
	p := secp256k1.PrivKeyFromBytes(raw)
	public, err := chain.NewPublicKey(chain.Secp256k1, p.PubKey().SerializeUncompressed())
	if err != nil {
		panic(err)
	}
	return testKey{p.Key, public}
}

func (k testKey) xOnly() []byte { return k.public.Bytes()[1:33] }

func taggedHash(tag string, parts ...[]byte) []byte {
	t := sha256.Sum256([]byte(tag))
	sum := sha256.Sum256(slices.Concat(t[:], t[:], bytes.Join(parts, nil)))
	return sum[:]
}

// even is the key whose point has an even y.
func (k testKey) even() testKey {
	if k.public.Bytes()[64]&1 == 1 {
		k.d.Negate()
		raw := k.d.Bytes()
		return keyOf(raw[:])
	}
	return k
}

// tweaked is the key of BIP-341 without a script tree.
func (k testKey) tweaked() testKey {
	k = k.even()
	var t secp256k1.ModNScalar
	t.SetByteSlice(taggedHash("TapTweak", k.xOnly()))
	raw := k.d.Add(&t).Bytes()
	return keyOf(raw[:])
}

// bip340 signs without randomness.
func (k testKey) bip340(digest []byte) (s chain.Signature) {
	k = k.even()
	var n, e secp256k1.ModNScalar
	masked := k.d.Bytes()
	for i, b := range taggedHash("BIP0340/aux", make([]byte, 32)) {
		masked[i] ^= b
	}
	n.SetByteSlice(taggedHash("BIP0340/nonce", masked[:], k.xOnly(), digest))
	raw := n.Bytes()
	r := keyOf(raw[:]).even()
	e.SetByteSlice(taggedHash("BIP0340/challenge", r.xOnly(), k.xOnly(), digest))
	e.Mul(&k.d).Add(&r.d)
	copy(s.R[:], r.xOnly())
	e.PutBytes(&s.S)
	return s
}

func (k testKey) sign(d chain.Digest) (s chain.Signature) {
	if d.Scheme == chain.Taproot {
		return k.tweaked().bip340(d.Message)
	}
	raw := k.d.Bytes()
	b := ecdsa.SignCompact(secp256k1.PrivKeyFromBytes(raw[:]), d.Message, true)
	copy(s.R[:], b[1:33])
	copy(s.S[:], b[33:])
	s.V = (b[0] - 27) & 1
	return s
}

func (k testKey) signAll(ds []chain.Digest) (out []chain.Signature) {
	for _, d := range ds {
		out = append(out, k.sign(d))
	}
	return out
}

// program decodes an address of bech32.
func program(t testing.TB, text string) []byte {
	t.Helper()
	_, groups, _, err := bech32.DecodeGeneric(text)
	if err != nil {
		t.Fatal(err)
	}
	b, err := bech32.ConvertBits(groups[1:], 5, 8, false)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func hash160(b []byte) []byte {
	sum := sha256.Sum256(b)
	h := ripemd160.New()
	h.Write(sum[:])
	return h.Sum(nil)
}

func sum256(b []byte) []byte { s := sha256.Sum256(b); return s[:] }

// The five scripts of a key.
func (k testKey) p2pkh() []byte {
	return slices.Concat([]byte{0x76, 0xa9, 20}, hash160(k.public.Compressed()), []byte{0x88, 0xac})
}
func (k testKey) p2wpkh() []byte { return append([]byte{0, 20}, hash160(k.public.Compressed())...) }
func (k testKey) p2sh() []byte {
	return slices.Concat([]byte{0xa9, 20}, hash160(k.p2wpkh()), []byte{0x87})
}
func (k testKey) p2pk() []byte {
	return slices.Concat([]byte{33}, k.public.Compressed(), []byte{0xac})
}
func (k testKey) p2wsh() []byte { return append([]byte{0, 32}, sum256(k.p2pk())...) }
func (k testKey) p2tr() []byte  { return append([]byte{0x51, 32}, k.tweaked().xOnly()...) }

func (k testKey) script(kind string) []byte {
	return map[string]func() []byte{"P2PKH": k.p2pkh, "P2SH": k.p2sh, "P2WPKH": k.p2wpkh, "P2WSH": k.p2wsh, "P2TR": k.p2tr}[kind]()
}

func le32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }
func le64(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

func compact(n int) []byte {
	switch {
	case n < 0xfd:
		return []byte{byte(n)}
	case n < 1<<16:
		return binary.LittleEndian.AppendUint16([]byte{0xfd}, uint16(n))
	}
	return binary.LittleEndian.AppendUint32([]byte{0xfe}, uint32(n))
}

func prefixed(b []byte) []byte { return append(compact(len(b)), b...) }

type pair struct{ key, value []byte }

func p(key string, value []byte) pair {
	b, err := hex.DecodeString(key)
	if err != nil {
		panic(err)
	}
	return pair{b, value}
}

type draftIn struct {
	id       []byte // as it is hashed
	index    uint32
	script   []byte // scriptSig, which should be empty
	sequence uint32
	pairs    []pair
}

type draftOut struct {
	value  uint64
	script []byte
	pairs  []pair
}

// A draft is a PSBT in the making.
type draft struct {
	version, locktime uint32
	in                []draftIn
	out               []draftOut
	global            []pair // after the transaction
	raw               []byte // the transaction, if it is not to be written
	tail              []byte
}

func (o draftOut) bytes() []byte { return append(le64(o.value), prefixed(o.script)...) }

func (d *draft) unsigned() []byte {
	if d.raw != nil {
		return d.raw
	}
	b := append(le32(d.version), compact(len(d.in))...)
	for _, in := range d.in {
		b = slices.Concat(b, in.id, le32(in.index), prefixed(in.script), le32(in.sequence))
	}
	b = append(b, compact(len(d.out))...)
	for _, o := range d.out {
		b = append(b, o.bytes()...)
	}
	return append(b, le32(d.locktime)...)
}

func appendPairs(b []byte, pairs []pair) []byte {
	for _, p := range pairs {
		b = slices.Concat(b, prefixed(p.key), prefixed(p.value))
	}
	return append(b, 0)
}

func (d *draft) bytes() []byte {
	b := appendPairs([]byte("psbt\xff"), append([]pair{p("00", d.unsigned())}, d.global...))
	for _, in := range d.in {
		b = appendPairs(b, in.pairs)
	}
	for _, o := range d.out {
		b = appendPairs(b, o.pairs)
	}
	return append(b, d.tail...)
}

// funding is a transaction without witnesses that pays an output after others.
func funding(index int, value uint64, script []byte) []byte {
	d := draft{version: 1, in: []draftIn{{id: sum256(script), index: 7, script: []byte{0x51}, sequence: 9}}}
	for range index {
		d.out = append(d.out, draftOut{value: 5, script: []byte{0x6a}})
	}
	d.out = append(d.out, draftOut{value: value, script: script})
	return d.unsigned()
}

// withWitness is the same transaction with a witness.
func withWitness(tx []byte) []byte {
	return slices.Concat(tx[:4], []byte{0, 1}, tx[4:len(tx)-4], []byte{1, 2, 0xaa, 0xbb}, tx[len(tx)-4:])
}

func txid(tx []byte) []byte { return sum256(sum256(tx)) }

// input spends an output of a kind of script of a key, with what a signer needs.
func (k testKey) input(kind string, index int, value uint64) draftIn {
	script := k.script(kind)
	tx := funding(index, value, script)
	in := draftIn{id: txid(tx), index: uint32(index), sequence: 0xfffffffd}
	if kind == "P2PKH" {
		in.pairs = []pair{p("00", tx)}
		return in
	}
	in.pairs = []pair{p("01", draftOut{value: value, script: script}.bytes())}
	if kind != "P2TR" { // which proves the amounts of all inputs by its signature
		in.pairs = slices.Insert(in.pairs, 0, p("00", tx))
	}
	switch kind {
	case "P2SH":
		in.pairs = append(in.pairs, p("04", k.p2wpkh()))
	case "P2WSH":
		in.pairs = append(in.pairs, p("05", k.p2pk()))
	case "P2TR":
		in.pairs = append(in.pairs, p("17", k.xOnly()))
	}
	return in
}

var kinds = []string{"P2PKH", "P2SH", "P2WPKH", "P2WSH", "P2TR"}

var mainnetFormats = map[string]chain.Format{"P2PKH": chain.BitcoinMainnetP2PKH, "P2SH": chain.BitcoinMainnetP2SH, "P2WPKH": chain.BitcoinMainnetP2WPKH,
	"P2WSH": chain.BitcoinMainnetP2WSH, "P2TR": chain.BitcoinMainnetP2TR}

// signer names a key by its address of a kind on the main network, or by its id.
func (k testKey) signer(kind string) chain.SigningKey {
	return chain.SigningKey{Public: k.public, Format: mainnetFormats[kind]}
}
