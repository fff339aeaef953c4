package wallet

import (
	"math/big"
	"strings"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/chain/sol"
	"cloister/enclave/internal/org"
)

// A Sent is the decoded content of a sent transaction.
type Sent struct {
	From    string   // the payer of the fee
	To      string   // Ethereum only; empty for a contract creation
	Signers []Signer // Solana only, in order
	Moves   []Move
}

// A Signer is a required signer of a Solana transaction.
type Signer = sol.RequiredSigner

// A Move is a transfer of the chain's own coin by the transaction itself, if it does not fail.
type Move struct {
	From, To string
	Amount   *big.Int
}

// ReadSent decodes the transaction of a send.
func ReadSent(t *org.Transaction) (*Sent, error) {
	if !strings.HasPrefix(t.Chain, "eip155:") {
		return readSolana(t.Signed)
	}
	signed, err := eth.ReadSigned(t.Signed)
	if err != nil {
		return nil, err
	}
	read, err := eth.Chain{}.Read(signed.Unsigned, chain.SigningKey{Public: signed.Key})
	if err != nil {
		return nil, err
	}
	facts, err := read.Facts(nil)
	if err != nil {
		return nil, err
	}
	s := &Sent{From: eth.AddressText(signed.From)}
	if to, err := eth.ParseAddress(string(facts["to"].(chain.Hex))); err == nil { // a contract creation has none
		s.To = eth.AddressText(to)
	}
	if value := facts["value"].(*big.Int); value.Sign() > 0 {
		s.Moves = []Move{{s.From, s.To, value}}
	}
	return s, nil
}

func readSolana(signed []byte) (*Sent, error) {
	signers, err := sol.Signers(signed)
	if err != nil {
		return nil, err
	}
	transfers, err := sol.Transfers(signed)
	if err != nil {
		return nil, err
	}
	s := &Sent{From: signers[0].Address, Signers: signers}
	for _, m := range transfers {
		s.Moves = append(s.Moves, Move{m.From, m.To, new(big.Int).SetUint64(m.Amount)})
	}
	return s, nil
}

// Expires reports whether no block can include a transaction any more once its send has expired. Plain Ethereum transactions stay valid
// until their nonce is used, Solana's with a durable nonce until that is advanced.
func Expires(t *org.Transaction) bool {
	if strings.HasPrefix(t.Chain, "eip155:") {
		return len(t.Account) > 0 // calls with a deadline
	}
	return !sol.IsDurable(t.Signed)
}
