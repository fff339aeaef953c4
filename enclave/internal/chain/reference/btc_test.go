package reference_test

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"
	"github.com/btcsuite/btcd/btcutil"
	"github.com/btcsuite/btcd/btcutil/bech32"
	"github.com/btcsuite/btcd/btcutil/psbt"
	"github.com/btcsuite/btcd/chaincfg"
	"github.com/btcsuite/btcd/chaincfg/chainhash"
	"github.com/btcsuite/btcd/txscript"
	"github.com/btcsuite/btcd/wire"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/btc"
)

// A btcKey is a key, its five scripts, and what spending them needs.
type btcKey struct {
	private *btcec.PrivateKey
	public  chain.PublicKey
	scripts [5][]byte // P2PKH, P2SH of P2WPKH, P2WPKH, P2WSH of P2PK, P2TR
	redeem  []byte
	witness []byte
	xOnly   []byte
}

const (
	btcP2PKH = iota
	btcP2SH
	btcP2WPKH
	btcP2WSH
	btcP2TR
)

// newBtcKey makes the scripts with btcd's libraries alone.
func newBtcKey(t testing.TB, seed byte) *btcKey {
	t.Helper()
	private, public := btcec.PrivKeyFromBytes(bytes.Repeat([]byte{seed}, 32))
	ours, err := chain.NewPublicKey(chain.Secp256k1, public.SerializeCompressed())
	if err != nil {
		t.Fatal(err)
	}
	k := &btcKey{private: private, public: ours, xOnly: schnorr.SerializePubKey(public)}
	hash := btcutil.Hash160(public.SerializeCompressed())
	k.witness, err = txscript.NewScriptBuilder().AddData(public.SerializeCompressed()).AddOp(txscript.OP_CHECKSIG).Script()
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range k.addresses(t, &chaincfg.MainNetParams, hash) {
		if k.scripts[i], err = txscript.PayToAddrScript(a); err != nil {
			t.Fatal(err)
		}
	}
	k.redeem = k.scripts[btcP2WPKH]
	return k
}

// addresses are those of the key on a network, by btcd.
func (k *btcKey) addresses(t testing.TB, n *chaincfg.Params, hash []byte) (out [5]btcutil.Address) {
	t.Helper()
	check := func(a btcutil.Address, err error) btcutil.Address {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	pkh, err := btcutil.NewAddressPubKeyHash(hash, n)
	out[btcP2PKH] = check(pkh, err)
	wpkh, err := btcutil.NewAddressWitnessPubKeyHash(hash, n)
	out[btcP2WPKH] = check(wpkh, err)
	redeem, err := txscript.PayToAddrScript(wpkh)
	if err != nil {
		t.Fatal(err)
	}
	sh, err := btcutil.NewAddressScriptHash(redeem, n)
	out[btcP2SH] = check(sh, err)
	wsh, err := btcutil.NewAddressWitnessScriptHash(chainhash.HashB(k.witness), n)
	out[btcP2WSH] = check(wsh, err)
	tr, err := btcutil.NewAddressTaproot(schnorr.SerializePubKey(txscript.ComputeTaprootKeyNoScript(k.private.PubKey())), n)
	out[btcP2TR] = check(tr, err)
	return out
}

// sign signs what our reader asks for.
func (k *btcKey) sign(t testing.TB, ds []chain.Digest) (out []chain.Signature) {
	t.Helper()
	for _, d := range ds {
		var s chain.Signature
		if d.Scheme == chain.Taproot {
			sig, err := schnorr.Sign(txscript.TweakTaprootPrivKey(*k.private, nil), d.Message)
			if err != nil {
				t.Fatal(err)
			}
			b := sig.Serialize()
			copy(s.R[:], b)
			copy(s.S[:], b[32:])
		} else {
			b := ecdsa.SignCompact(k.private, d.Message, true)
			copy(s.R[:], b[1:])
			copy(s.S[:], b[33:])
		}
		out = append(out, s)
	}
	return out
}

// TestBitcoinAddresses holds our addresses, and those that policies read, against
// btcutil.
func TestBitcoinAddresses(t *testing.T) {
	networks := []struct {
		params *chaincfg.Params
		first  chain.Format
	}{{&chaincfg.MainNetParams, chain.BitcoinMainnetP2PKH}, {&chaincfg.TestNet3Params, chain.BitcoinTestnetP2PKH},
		{&chaincfg.SigNetParams, chain.BitcoinSignetP2PKH}, {&chaincfg.RegressionNetParams, chain.BitcoinRegtestP2PKH}}
	for seed := range byte(50) {
		k := newBtcKey(t, seed+1)
		for _, n := range networks {
			for i, a := range k.addresses(t, n.params, btcutil.Hash160(k.private.PubKey().SerializeCompressed())) {
				got, err := btc.Addresses.Address(n.first+chain.Format(i), k.public)
				if err != nil || got != a.EncodeAddress() {
					t.Errorf("%s, %d: %s, want %s (%v)", n.params.Name, i, got, a.EncodeAddress(), err)
				}
			}
		}
	}
}

// A btcSpend is a transaction of random inputs and outputs, and its PSBT.
type btcSpend struct {
	packet *psbt.Packet
	spent  []*wire.TxOut
	owner  []int // index of the key of each input
	kind   []int
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// newBtcSpend spends outputs of the keys, the first key's among them.
func newBtcSpend(t testing.TB, r *rand.Rand, keys []*btcKey) *btcSpend {
	t.Helper()
	s := new(btcSpend)
	tx := wire.NewMsgTx(int32(1 + r.IntN(3)))
	tx.LockTime = r.Uint32()
	total := int64(0)
	var previous []*wire.MsgTx
	for i := range 1 + r.IntN(6) {
		owner, kind := r.IntN(len(keys)), r.IntN(5)
		if i == 0 {
			owner = 0
		}
		prev := wire.NewMsgTx(2)
		prev.AddTxIn(wire.NewTxIn(wire.NewOutPoint((*chainhash.Hash)(randomBytes(r, 32)), r.Uint32()), randomBytes(r, r.IntN(300)), nil))
		if r.IntN(2) == 0 {
			prev.TxIn[0].Witness = wire.TxWitness{randomBytes(r, r.IntN(100)), randomBytes(r, r.IntN(300))}
		}
		index := r.IntN(4)
		for range index {
			prev.AddTxOut(wire.NewTxOut(r.Int64N(1e12), randomBytes(r, r.IntN(300))))
		}
		o := wire.NewTxOut(1+r.Int64N(1e10), keys[owner].scripts[kind])
		prev.AddTxOut(o)
		hash := prev.TxHash()
		in := wire.NewTxIn(wire.NewOutPoint(&hash, uint32(index)), nil, nil)
		in.Sequence = r.Uint32()
		tx.AddTxIn(in)
		total += o.Value
		previous, s.spent = append(previous, prev), append(s.spent, o)
		s.owner, s.kind = append(s.owner, owner), append(s.kind, kind)
	}
	for range 1 + r.IntN(300)/(1+r.IntN(100)) {
		script := randomBytes(r, r.IntN(80))
		if r.IntN(2) == 0 {
			script = keys[r.IntN(len(keys))].scripts[r.IntN(5)]
		}
		v := r.Int64N(total/4 + 1)
		total -= v
		tx.AddTxOut(wire.NewTxOut(v, script))
	}
	packet, err := psbt.NewFromUnsignedTx(tx)
	if err != nil {
		t.Fatal(err)
	}
	proof := slices.ContainsFunc(s.kind, func(kind int) bool { return kind != btcP2TR })
	for i := range packet.Inputs {
		in, k := &packet.Inputs[i], keys[s.owner[i]]
		// Amounts are proven by previous transactions, or by the signatures where only taproot is signed.
		if proof || r.IntN(3) == 0 {
			in.NonWitnessUtxo = previous[i]
		}
		if s.kind[i] != btcP2PKH && (in.NonWitnessUtxo == nil || r.IntN(2) == 0) {
			in.WitnessUtxo = s.spent[i]
		}
		switch s.kind[i] {
		case btcP2SH:
			in.RedeemScript = k.redeem
		case btcP2WSH:
			in.WitnessScript = k.witness
		case btcP2TR:
			if r.IntN(2) == 0 {
				in.TaprootInternalKey = k.xOnly
			}
		}
		if s.kind[i] != btcP2TR && r.IntN(2) == 0 {
			in.SighashType = txscript.SigHashAll
		}
		if r.IntN(2) == 0 {
			in.Unknowns = []*psbt.Unknown{{Key: append([]byte{0xfc}, randomBytes(r, 5)...), Value: randomBytes(r, r.IntN(300))}}
		}
		if r.IntN(2) == 0 {
			in.Bip32Derivation = []*psbt.Bip32Derivation{{PubKey: k.private.PubKey().SerializeCompressed(), MasterKeyFingerprint: r.Uint32(), Bip32Path: []uint32{r.Uint32()}}}
		}
	}
	s.packet = packet
	return s
}

func (s *btcSpend) bytes(t testing.TB) []byte { return btcBytes(t, s.packet) }

func btcBytes(t testing.TB, packet *psbt.Packet) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := packet.Serialize(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// fetcher gives the outputs that are spent, as a PSBT tells them.
func btcFetcher(packet *psbt.Packet) (*txscript.MultiPrevOutFetcher, []*wire.TxOut) {
	outs := make([]*wire.TxOut, len(packet.Inputs))
	f := txscript.NewMultiPrevOutFetcher(nil)
	for i, in := range packet.Inputs {
		at := packet.UnsignedTx.TxIn[i].PreviousOutPoint
		if outs[i] = in.WitnessUtxo; outs[i] == nil {
			outs[i] = in.NonWitnessUtxo.TxOut[at.Index]
		}
		f.AddPrevOut(at, outs[i])
	}
	return f, outs
}

// run executes an input's scripts as a node does.
func btcRun(tx *wire.MsgTx, i int, f txscript.PrevOutputFetcher, o *wire.TxOut) error {
	vm, err := txscript.NewEngine(o.PkScript, tx, i, txscript.StandardVerifyFlags, nil, txscript.NewTxSigHashes(tx, f), o.Value, f)
	if err != nil {
		return err
	}
	return vm.Execute()
}

// TestBitcoinTransactions reads random transactions that btcutil/psbt wrote, holds
// digests and facts against txscript, signs them key by key, has them finalized by
// btcutil/psbt, and executes every input.
func TestBitcoinTransactions(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	keys := []*btcKey{newBtcKey(t, 1), newBtcKey(t, 2), newBtcKey(t, 3)}
	executed := [5]int{}
	for n := range 400 {
		s := newBtcSpend(t, r, keys)
		b := s.bytes(t)
		for owner, k := range keys {
			by := chain.SigningKey{Public: k.public}
			owned := s.inputsOf(owner)
			read, err := btc.Chain{}.Read(b, by)
			if len(owned) == 0 {
				if err == nil {
					t.Fatalf("%d: read for a key that owns nothing", n)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%d: %v\n%x", n, err, b)
			}
			s.digests(t, owned, read.Digests())
			s.facts(t, read)
			if b, err = read.Assemble(k.sign(t, read.Digests())); err != nil {
				t.Fatal(err)
			}
		}
		signed, err := psbt.NewFromRawBytes(bytes.NewReader(b), false)
		if err != nil {
			t.Fatalf("%d: %v\n%x", n, err, b)
		}
		if !bytes.Equal(btcBytes(t, signed), b) {
			t.Errorf("%d: btcutil writes it otherwise\n%x\n%x", n, btcBytes(t, signed), b)
		}
		for i := range signed.Inputs {
			if in := &signed.Inputs[i]; s.kind[i] == btcP2WSH { // btcutil finalizes multisig alone
				var w bytes.Buffer
				if err := psbt.WriteTxWitness(&w, [][]byte{in.PartialSigs[0].Signature, in.WitnessScript}); err != nil {
					t.Fatal(err)
				}
				*in = psbt.PInput{NonWitnessUtxo: in.NonWitnessUtxo, WitnessUtxo: in.WitnessUtxo, FinalScriptWitness: w.Bytes()}
			}
			if s.kind[i] != btcP2PKH {
				signed.Inputs[i].NonWitnessUtxo, signed.Inputs[i].WitnessUtxo = nil, s.spent[i] // btcutil would finalize it as no witness
			}
		}
		if err := psbt.MaybeFinalizeAll(signed); err != nil {
			t.Fatalf("%d: %v\n%x", n, err, b)
		}
		final, err := psbt.Extract(signed)
		if err != nil {
			t.Fatal(err)
		}
		f, _ := btcFetcher(s.packet)
		for i, o := range s.spent {
			if err := btcRun(final, i, f, o); err != nil {
				t.Errorf("%d, input %d of kind %d: %v", n, i, s.kind[i], err)
			}
			executed[s.kind[i]]++
		}
	}
	t.Logf("inputs executed by kind: %v", executed)
}

func (s *btcSpend) inputsOf(owner int) (out []int) {
	for i, o := range s.owner {
		if o == owner {
			out = append(out, i)
		}
	}
	return out
}

// digests holds digests against those of txscript.
func (s *btcSpend) digests(t testing.TB, owned []int, got []chain.Digest) {
	t.Helper()
	tx := s.packet.UnsignedTx
	f, _ := btcFetcher(s.packet)
	hashes := txscript.NewTxSigHashes(tx, f)
	if len(got) != len(owned) {
		t.Fatalf("%d digests for %v", len(got), owned)
	}
	for n, i := range owned {
		var want []byte
		var err error
		in := s.packet.Inputs[i]
		switch s.kind[i] {
		case btcP2PKH:
			want, err = txscript.CalcSignatureHash(s.spent[i].PkScript, txscript.SigHashAll, tx, i)
		case btcP2SH:
			want, err = txscript.CalcWitnessSigHash(in.RedeemScript, hashes, txscript.SigHashAll, tx, i, s.spent[i].Value)
		case btcP2WPKH:
			want, err = txscript.CalcWitnessSigHash(s.spent[i].PkScript, hashes, txscript.SigHashAll, tx, i, s.spent[i].Value)
		case btcP2WSH:
			want, err = txscript.CalcWitnessSigHash(in.WitnessScript, hashes, txscript.SigHashAll, tx, i, s.spent[i].Value)
		case btcP2TR:
			want, err = txscript.CalcTaprootSignatureHash(hashes, txscript.SigHashDefault, tx, i, f)
		}
		if err != nil || !bytes.Equal(got[n].Message, want) || (got[n].Scheme == chain.Taproot) != (s.kind[i] == btcP2TR) {
			t.Fatalf("input %d of kind %d: %x, want %x (%v)", i, s.kind[i], got[n].Message, want, err)
		}
	}
}

// facts holds what policies read against btcd's reading of the transaction.
func (s *btcSpend) facts(t testing.TB, read chain.Transaction) {
	t.Helper()
	facts, err := read.Facts(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := btcFacts(t, s.packet)
	if !reflect.DeepEqual(facts, want) {
		t.Fatalf("%v\nwant %v", facts, want)
	}
}

var btcTypes = map[txscript.ScriptClass]string{txscript.PubKeyHashTy: "P2PKH", txscript.ScriptHashTy: "P2SH", txscript.WitnessV0PubKeyHashTy: "P2WPKH",
	txscript.WitnessV0ScriptHashTy: "P2WSH", txscript.WitnessV1TaprootTy: "P2TR"}

// btcFacts makes the facts with btcd's libraries. Addresses of later witness
// versions, which btcutil does not write, are left to the tests of BIP-350.
func btcFacts(t testing.TB, packet *psbt.Packet) chain.Struct {
	t.Helper()
	tx := packet.UnsignedTx
	fee, err := packet.GetTxFee()
	if err != nil {
		t.Fatal(err)
	}
	in, out := []any{}, []any{}
	for _, x := range tx.TxIn {
		in = append(in, chain.Struct{"tx_id": chain.Hex(x.PreviousOutPoint.Hash.String()), "vout": int64(x.PreviousOutPoint.Index), "sequence": int64(x.Sequence)})
	}
	for _, o := range tx.TxOut {
		class, addresses, _, _ := txscript.ExtractPkScriptAddrs(o.PkScript, &chaincfg.MainNetParams)
		text, kind := "", btcTypes[class]
		if kind != "" {
			text = addresses[0].EncodeAddress()
		} else if txscript.IsWitnessProgram(o.PkScript) {
			text, _ = btcLater(o.PkScript)
		}
		out = append(out, chain.Struct{"value": o.Value, "script_pubkey": chain.Hex(hex.EncodeToString(o.PkScript)), "address": text, "address_type": kind})
	}
	unit := "Blocks"
	if tx.LockTime >= txscript.LockTimeThreshold {
		unit = "Seconds"
	}
	return chain.Struct{"version": string(rune('0' + tx.Version)), "inputs": in, "outputs": out,
		"locktime": chain.Struct{"amount": int64(tx.LockTime), "type": unit}, "fee": int64(fee)}
}

// TestBitcoinMutations alters the bytes of PSBTs: what we read, btcutil reads too.
func TestBitcoinMutations(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	keys := []*btcKey{newBtcKey(t, 1), newBtcKey(t, 2)}
	taken := 0
	for range 150 {
		b := newBtcSpend(t, r, keys).bytes(t)
		for range 200 {
			m := bytes.Clone(b)
			for range 1 + r.IntN(2) {
				at := r.IntN(len(m))
				switch r.IntN(4) {
				case 0:
					m[at] = byte(r.Uint32())
				case 1:
					m[at] ^= 1 << r.IntN(8)
				case 2:
					m = append(m[:at:at], m[at+1:]...)
				case 3:
					m = append(append(bytes.Clone(m[:at]), byte(r.Uint32())), m[at:]...)
				}
			}
			if btcHolds(t, m, keys[0]) {
				taken++
			}
		}
	}
	t.Logf("of 30000 altered PSBTs %d are read for the first key", taken)
	if taken < 1000 {
		t.Error("too few are read for this to say something")
	}
}

// btcHolds reads b for a key and, if it is read, holds it against btcutil: it reads
// there with the same fee, and what we sign executes.
func btcHolds(t testing.TB, b []byte, k *btcKey) bool {
	t.Helper()
	read, err := btc.Chain{}.Read(b, chain.SigningKey{Public: k.public})
	if err != nil {
		return false
	}
	packet, err := psbt.NewFromRawBytes(bytes.NewReader(b), false)
	if err != nil {
		t.Fatalf("we read what btcutil refuses: %v\n%x", err, b)
	}
	facts, err := read.Facts(nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := btcFacts(t, packet); !reflect.DeepEqual(facts, want) {
		t.Fatalf("%v\nwant %v\n%x", facts, want, b)
	}
	out, err := read.Assemble(k.sign(t, read.Digests()))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := psbt.NewFromRawBytes(bytes.NewReader(out), false)
	if err != nil {
		t.Fatalf("btcutil refuses what we signed: %v\n%x", err, out)
	}
	f, outs := btcFetcher(packet)
	own := k.private.PubKey().SerializeCompressed()
	done := 0
	for i, o := range outs {
		kind := -1
		for n, script := range k.scripts {
			if bytes.Equal(script, o.PkScript) {
				kind = n
			}
		}
		if kind < 0 {
			continue
		}
		in, tx := &signed.Inputs[i], signed.UnsignedTx.Copy()
		var sig []byte
		for _, p := range in.PartialSigs {
			if bytes.Equal(p.PubKey, own) {
				sig = p.Signature
			}
		}
		x := tx.TxIn[i]
		switch kind {
		case btcP2PKH:
			x.SignatureScript, err = txscript.NewScriptBuilder().AddData(sig).AddData(own).Script()
		case btcP2SH:
			x.SignatureScript, err = txscript.NewScriptBuilder().AddData(k.redeem).Script()
			x.Witness = wire.TxWitness{sig, own}
		case btcP2WPKH:
			x.Witness = wire.TxWitness{sig, own}
		case btcP2WSH:
			x.Witness = wire.TxWitness{sig, k.witness}
		case btcP2TR:
			x.Witness = wire.TxWitness{in.TaprootKeySpendSig}
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := btcRun(tx, i, f, o); err != nil {
			t.Fatalf("input %d of kind %d: %v\n%x\n%x", i, kind, err, b, out)
		}
		done++
	}
	if done != len(read.Digests()) {
		t.Fatalf("%d inputs are ours, %d were signed\n%x", done, len(read.Digests()), b)
	}
	return true
}

func FuzzBitcoinPSBT(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	keys := []*btcKey{newBtcKey(f, 1), newBtcKey(f, 2)}
	for range 30 {
		f.Add(newBtcSpend(f, r, keys).bytes(f))
	}
	f.Fuzz(func(t *testing.T, b []byte) { btcHolds(t, b, keys[0]) })
}

// btcLater writes the address of a witness program that btcutil has no type for.
func btcLater(script []byte) (string, error) {
	version, program, err := txscript.ExtractWitnessProgramInfo(script)
	if err != nil || version == 0 {
		return "", err
	}
	groups, err := bech32.ConvertBits(program, 8, 5, true)
	if err != nil {
		return "", err
	}
	return bech32.EncodeM("bc", append([]byte{byte(version)}, groups...))
}
