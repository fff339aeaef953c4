package wallet

import (
	"encoding/hex"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// TransactionType is the interface's name of a chain's transaction format.
type TransactionType string

// Valid reports whether t is a transaction type of the interface.
func (t TransactionType) Valid() bool { _, ok := readers[t]; return ok }

// maxTransaction bounds an unsigned transaction in bytes, as request bodies are.
const maxTransaction = 1 << 20

// SignTransactionV1 is version 1 of the intent, which names a private key by its id only.
type SignTransactionV1 struct {
	PrivateKeyID        string          `json:"privateKeyId" rule:"required,uuid"`
	UnsignedTransaction string          `json:"unsignedTransaction" rule:"required"`
	Type                TransactionType `json:"type" rule:"required"`
}

// SignTransaction signs a transaction with the key of an address or an id.
type SignTransaction struct {
	SignWith            string          `json:"signWith" rule:"required"`
	UnsignedTransaction string          `json:"unsignedTransaction" rule:"required"`
	Type                TransactionType `json:"type" rule:"required"`

	decoded []byte
	read    *transaction // for the present signer
}

func (in *SignTransaction) Check() (err error) {
	in.decoded, err = decodeTransaction(in.UnsignedTransaction)
	return err
}

// decodeTransaction decodes the hexadecimal text of a transaction, with or without 0x.
func decodeTransaction(text string) ([]byte, error) {
	digits := strings.TrimPrefix(text, "0x")
	if len(digits) > 2*maxTransaction {
		return nil, chain.Invalid("over %d bytes", maxTransaction)
	}
	b, err := hex.DecodeString(digits)
	if err != nil {
		return nil, chain.Invalid("not hexadecimal")
	}
	return b, nil
}

// SignedTransaction is the result of signing a transaction: hex without 0x.
type SignedTransaction struct {
	SignedTransaction string `json:"signedTransaction"`
}

func signTransaction(tx *activity.Tx, in *SignTransaction) (*SignedTransaction, error) {
	s, err := findSigningKey(tx.Tx, in.SignWith)
	if err != nil {
		return nil, err
	}
	if in.read, err = readTransaction(s, in.Type, in.decoded, in.read); err != nil {
		return nil, err
	}
	signed, err := in.read.sign(tx, s)
	if err != nil {
		return nil, err
	}
	return &SignedTransaction{hex.EncodeToString(signed)}, nil
}

// examine decodes the transaction, unless that was done for the same signer. Run refuses a missing signer.
func (in *SignTransaction) examine(tx *org.Tx) error {
	s, err := lookUpSigningKey(tx, in.SignWith)
	if s == nil || err != nil {
		return err
	}
	in.read, err = readTransaction(s, in.Type, in.decoded, in.read)
	return err
}

// ask completes the policy request about signing a transaction.
func (in *SignTransaction) ask(tx *org.Tx, q *policy.Request) error {
	s, err := lookUpSigningKey(tx, in.SignWith)
	if s == nil || err != nil {
		return err
	}
	q.Facts = policy.Facts{}
	if err := in.read.facts(tx, q.Facts); err != nil {
		return err
	}
	return s.facts(tx, q.Facts)
}

// A transaction is a decoded transaction, with the signer that it was decoded for.
type transaction struct {
	chain.Transaction
	by     chain.SigningKey
	chain  chain.Reader
	speaks InterfaceType
}

// readTransaction decodes a transaction for a signer, unless known was decoded for the same one. A malformed
// transaction is a *fault.Error.
func readTransaction(s *signingKey, typ TransactionType, unsigned []byte, known *transaction) (*transaction, error) {
	by, err := s.chainKey()
	if err != nil {
		return nil, err
	}
	if known != nil && known.by == by {
		return known, nil
	}
	r := readers[typ]
	read, err := r.chain.Read(unsigned, by)
	if err != nil {
		return nil, err
	}
	return &transaction{read, by, r.chain, r.speaks}, nil
}

// facts adds the root of the transaction's chain, without the members unknown.
func (t *transaction) facts(tx *org.Tx, into policy.Facts, unknown ...string) error {
	f, err := t.Facts(func(address string) (chain.Description, error) { return describe(tx, t.chain, t.speaks, address) })
	if err != nil {
		return err
	}
	for _, name := range unknown {
		f[name] = nil
	}
	into[t.Root()] = factOf(f)
	return nil
}

// sign signs the transaction for s and returns it with the signatures.
func (t *transaction) sign(tx *activity.Tx, s *signingKey) ([]byte, error) {
	made, err := sign(tx, s, t.Digests())
	if err != nil {
		return nil, err
	}
	return t.Assemble(made)
}
