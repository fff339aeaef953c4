package btc

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/der"
)

// A transaction is a PSBT that the signer can sign.
type transaction struct {
	psbt  *psbt
	net   *network
	by    chain.PublicKey
	spent []utxo // by inputs
	owned []owned
	fee   int64
}

type owned struct {
	input int
	kind  kind
}

// Read takes a PSBT of version 0 apart, in binary. An input is the signer's if the output
// that it spends has the script of the signer's address. If the id of a private key names
// the signer, any of the five scripts of the key on Bitcoin's main network will do. A
// signature of the signer that is there already is made anew, everything else is kept byte
// for byte.
func (Chain) Read(b []byte, by chain.SigningKey) (chain.Transaction, error) {
	if len(b) > maxPSBT {
		return nil, chain.Invalid("a PSBT of more than %d bytes", maxPSBT)
	}
	net, scripts, err := scriptsOf(by)
	if err != nil {
		return nil, err
	}
	p, err := parse(bytes.Clone(b))
	if err != nil {
		return nil, err
	}
	t := &transaction{psbt: p, net: net, by: by.Public}
	if err := t.count(); err != nil {
		return nil, err
	}
	for i := range t.spent {
		for k := p2pkh; k < kinds; k++ {
			if scripts[k] == nil || !bytes.Equal(scripts[k], t.spent[i].script) {
				continue
			}
			if wrong := p.in[i].refuse(k, by.Public); wrong != "" {
				return nil, chain.Invalid("input %d, %v: %s", i, k, wrong)
			}
			t.owned = append(t.owned, owned{i, k})
		}
	}
	switch n := len(t.owned); {
	case n == 0:
		return nil, chain.Invalid("no input belongs to the signing key's address")
	case n > maxOwned:
		return nil, chain.Unsupported("%d inputs to be signed, which must be at most %d", n, maxOwned)
	}
	if err := t.prove(); err != nil {
		return nil, err
	}
	return t, nil
}

// prove refuses a PSBT whose amounts would be its own word. A signature of taproot covers the amounts and scripts of all
// inputs, so that it is good for the transaction only if they are true; any other leaves out those of the other inputs. If
// one of these is made, every input must come with the transaction that it spends from, whatever script it says to have.
func (t *transaction) prove() error {
	if !slices.ContainsFunc(t.owned, func(o owned) bool { return o.kind != p2tr }) {
		return nil
	}
	for i := range t.psbt.in {
		if t.psbt.in[i].previous == nil {
			return chain.Invalid("input %d: its amount is not proven: add its non_witness_utxo, the whole transaction that it spends from", i)
		}
	}
	return nil
}

// scriptsOf finds the signer's network and, by their kind, the scripts whose outputs
// are the signer's.
func scriptsOf(by chain.SigningKey) (*network, [kinds][]byte, error) {
	var scripts [kinds][]byte
	if c := by.Public.Curve(); c != chain.Secp256k1 {
		return nil, scripts, chain.Invalid("a key on %v cannot sign it", c)
	}
	a := accounts[by.Format]
	wanted := []kind{a.kind}
	switch {
	case by.Format == 0:
		a.net, wanted = &mainnet, []kind{p2pkh, p2sh, p2wpkh, p2wsh, p2tr}
	case a.net == nil:
		return nil, scripts, chain.Invalid("an address in %v owns no input: sign with a Bitcoin or Dogecoin address, or with the id of a private key", by.Format)
	}
	for _, k := range wanted {
		s, ok := scriptOf(k, by.Public)
		if !ok {
			return nil, scripts, chain.Invalid("the key has no %v output", k)
		}
		scripts[k] = s
	}
	return a.net, scripts, nil
}

// count finds the outputs that are spent, and the fee.
func (t *transaction) count() error {
	tx := &t.psbt.tx
	var in, out int64
	t.spent = make([]utxo, len(tx.in))
	for i := range tx.in {
		o, wrong := t.psbt.in[i].spentOutput(tx.in[i].outpoint)
		switch {
		case wrong != "":
		case o.value < 0 || o.value > t.net.money || in+o.value > t.net.money:
			wrong = "more is spent than there can be"
		case t.net.hrp == "" && t.psbt.in[i].utxo != nil:
			wrong = "Dogecoin has no witness_utxo: add the non_witness_utxo"
		}
		if wrong != "" {
			return chain.Invalid("input %d: %s", i, wrong)
		}
		t.spent[i] = o
		in += o.value
	}
	for i, o := range tx.out {
		if o.value < 0 || o.value > t.net.money || out+o.value > t.net.money {
			return chain.Invalid("output %d: more is paid than there can be", i)
		}
		if _, _, ok := witness(o.script); ok && t.net.hrp == "" {
			return chain.Invalid("output %d: on Dogecoin anyone could spend a witness output", i)
		}
		out += o.value
	}
	if in < out {
		return chain.Invalid("the outputs pay %d more than the inputs spend", out-in)
	}
	t.fee = in - out
	return nil
}

// spentOutput finds the output that an input spends, or tells what is wrong.
func (in *input) spentOutput(outpoint []byte) (o utxo, wrong string) {
	if in.previous == nil && in.utxo == nil {
		return o, "it does not tell what it spends, so the fee is unknown: add its witness_utxo or non_witness_utxo"
	}
	if in.previous != nil {
		id, found, ok := previous(in.previous, binary.LittleEndian.Uint32(outpoint[32:]))
		switch {
		case !ok:
			return o, "non_witness_utxo is malformed, or has no such output"
		case !bytes.Equal(id[:], outpoint[:32]):
			return o, "non_witness_utxo is not the transaction that it spends"
		}
		o = found
	}
	if in.utxo != nil {
		said, ok := parseUTXO(in.utxo)
		_, _, program := witness(said.script)
		switch {
		case !ok:
			return o, "witness_utxo is malformed"
		case in.previous != nil && (said.value != o.value || !bytes.Equal(said.script, o.script)):
			return o, "witness_utxo and non_witness_utxo differ"
		case !program && kindOf(said.script) != p2sh:
			return o, "witness_utxo is not for a script without witnesses: add the non_witness_utxo in its place"
		}
		o = said
	}
	return o, ""
}

// refuse tells why an input that spends an output of the key cannot be signed.
func (in *input) refuse(k kind, by chain.PublicKey) string {
	sighash, name := uint32(sighashAll), "SIGHASH_ALL"
	if k == p2tr {
		sighash, name = sighashDefault, "SIGHASH_DEFAULT"
	}
	switch {
	case in.hasAny(inFinalScript, inFinalWitness):
		return "it is finalized already"
	case in.hasAny(inSighash) && in.sighash != sighash:
		return fmt.Sprintf("sighash type %d: only %s is signed", in.sighash, name)
	case k != p2tr && in.hasAny(inTapKeySig, inTapScriptSig, inTapLeaf, inTapDerivation, inTapInternal, inTapRoot):
		return "it has members of a taproot input"
	case k == p2tr && in.hasAny(inTapScriptSig, inTapLeaf, inTapRoot):
		return "only the key path without scripts is signed: remove tap scripts, their signatures and the merkle root"
	case in.internal != nil && !bytes.Equal(in.internal, by.Bytes()[1:33]):
		return "tap_internal_key is of another key"
	case k == p2sh && !bytes.Equal(in.redeem, redeemScript(by)):
		return "redeem_script must be the P2WPKH script of the key"
	case k != p2sh && in.redeem != nil:
		return "redeem_script does not belong there"
	case k == p2wsh && !bytes.Equal(in.witness, witnessScript(by)):
		return "witness_script must be the P2PK script of the key"
	case k != p2wsh && in.witness != nil:
		return "witness_script does not belong there"
	}
	return ""
}

func (*transaction) Root() string { return "bitcoin.tx" }

// locktimeSeconds is the first locktime that is a time and not the height of a
// block.
const locktimeSeconds = 500_000_000

// Facts are what the transaction says; nothing of a contract is in them.
func (t *transaction) Facts(chain.Described) (chain.Struct, error) {
	tx := &t.psbt.tx
	in, out := make([]any, len(tx.in)), make([]any, len(tx.out))
	for i, x := range tx.in {
		id := bytes.Clone(x.outpoint[:32])
		slices.Reverse(id)
		in[i] = chain.Struct{
			"tx_id": chain.Hex(hex.EncodeToString(id)), "vout": int64(binary.LittleEndian.Uint32(x.outpoint[32:])), "sequence": int64(x.sequence)}
	}
	for i, o := range tx.out {
		text, k := t.net.address(o.script)
		out[i] = chain.Struct{
			"value": o.value, "script_pubkey": chain.Hex(hex.EncodeToString(o.script)), "address": text, "address_type": k.String()}
	}
	unit := "Blocks"
	if tx.locktime >= locktimeSeconds {
		unit = "Seconds"
	}
	return chain.Struct{
		"version": strconv.FormatUint(uint64(tx.version), 10), "inputs": in, "outputs": out,
		"locktime": chain.Struct{"amount": int64(tx.locktime), "type": unit}, "fee": t.fee}, nil
}

// Digests are those of the signer's inputs, in their order.
func (t *transaction) Digests() []chain.Digest {
	tx := &t.psbt.tx
	old, now := newLegacy(tx), newSegregated(tx, t.spent)
	out := make([]chain.Digest, len(t.owned))
	for n, o := range t.owned {
		out[n].Scheme = chain.ECDSA
		var d [32]byte
		switch o.kind {
		case p2pkh:
			d = old.digest(o.input, t.spent[o.input].script)
		case p2sh, p2wpkh:
			d = now.ecdsa(o.input, payToHash(t.by))
		case p2wsh:
			d = now.ecdsa(o.input, witnessScript(t.by))
		case p2tr:
			out[n].Scheme = chain.Taproot
			d = now.taproot(o.input)
		}
		out[n].Message = d[:]
	}
	return out
}

// Assemble is the PSBT with partial_sig or tap_key_sig in the signer's inputs, each
// in the order of keys, not finalized.
func (t *transaction) Assemble(signatures []chain.Signature) ([]byte, error) {
	if len(signatures) != len(t.owned) {
		return nil, fmt.Errorf("%d signatures for %d inputs", len(signatures), len(t.owned))
	}
	const most = 1 + 34 + 1 + 73
	out := make([]byte, 0, len(t.psbt.raw)+most*len(t.owned))
	done := 0
	for n, o := range t.owned {
		s := &signatures[n]
		key, value := append([]byte{inPartialSig}, t.by.Compressed()...), append((&der.Signature{R: s.R, S: s.S}).Append(nil), sighashAll)
		if o.kind == p2tr {
			key, value = []byte{inTapKeySig}, slices.Concat(s.R[:], s.S[:])
		}
		in := &t.psbt.in[o.input]
		start, end := findPair(t.psbt.raw, in.from, in.to, key)
		out = append(out, t.psbt.raw[done:start]...)
		out = appendBytes(appendBytes(out, key), value)
		done = end
	}
	return append(out, t.psbt.raw[done:]...), nil
}
