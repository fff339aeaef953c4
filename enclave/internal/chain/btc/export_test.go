package btc

import "cloister/enclave/internal/chain"

// The limits, for tests.
const (
	MaxPSBT     = maxPSBT
	MaxUnsigned = maxUnsigned
	MaxOwned    = maxOwned
	MaxPairs    = maxPairs
	MaxKey      = maxKey
)

// Parse tells whether b is a PSBT, whatever it spends.
func Parse(b []byte) error {
	_, err := parse(b)
	return err
}

// FactsOf are the facts of a PSBT for Bitcoin's main network, whoever signs it.
func FactsOf(b []byte) (chain.Struct, error) {
	p, err := parse(b)
	if err != nil {
		return nil, err
	}
	t := &transaction{psbt: p, net: &mainnet}
	if err := t.count(); err != nil {
		return nil, err
	}
	return t.Facts(nil)
}

// Unsigned are the bytes of the transaction in a PSBT, and what it says to spend.
func Unsigned(b []byte) ([]byte, []Spent, error) {
	p, err := parse(b)
	if err != nil {
		return nil, nil, err
	}
	t := &transaction{psbt: p, net: &testnet}
	err = t.count()
	var spent []Spent
	for _, o := range t.spent {
		spent = append(spent, Spent{o.value, o.script})
	}
	return p.tx.raw, spent, err
}

// AddressOf is the address of an output's script on the network with a prefix of
// bech32, and its kind.
func AddressOf(hrp string, script []byte) (string, string) {
	n := map[string]*network{"bc": &mainnet, "tb": &testnet, "bcrt": &regtest, "": &dogeMainnet}[hrp]
	text, k := n.address(script)
	return text, k.String()
}

// A Spent output, for tests.
type Spent struct {
	Value  int64
	Script []byte
}

func hashes(raw []byte, spent []Spent) (*segregated, error) {
	tx := new(unsigned)
	if err := tx.parse(raw); err != nil {
		return nil, err
	}
	out := make([]utxo, len(spent))
	for i, s := range spent {
		out[i] = utxo{s.Value, s.Script}
	}
	return newSegregated(tx, out), nil
}

// SighashV0 is the digest of BIP-143.
func SighashV0(raw []byte, spent []Spent, i int, code []byte) (d [32]byte, err error) {
	s, err := hashes(raw, spent)
	if err == nil {
		d = s.ecdsa(i, code)
	}
	return d, err
}

// SighashV1 is the digest of BIP-341, and the five hashes that go into it: outpoints,
// amounts, scripts, sequences, outputs.
func SighashV1(raw []byte, spent []Spent, i int) (d [32]byte, parts [5][32]byte, err error) {
	s, err := hashes(raw, spent)
	if err == nil {
		d, parts = s.taproot(i), [5][32]byte{s.outpoints, s.amounts, s.scripts, s.sequences, s.outputs}
	}
	return d, parts, err
}
