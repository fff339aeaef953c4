package wallet

import (
	"math/big"
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/sol"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// Sponsored transactions on Solana. The sponsor's account becomes the first signer, which pays the fee, in a message that is put
// together here: no instruction of the client's can name that account, so none can use its signature. The host says what others
// pay and which accounts there are; a lie costs the sponsor fees and rents, within the same windows as gas.

// paidSolana is a transaction with its sponsor, and the most that he pays, in lamports.
type paidSolana struct {
	tx       []byte
	lamports uint64
}

// LookUpPayer finds the sponsor of a sponsored transaction.
func (in *SolSendTransaction) LookUpPayer(top func() (*org.Tx, error)) (err error) {
	in.payer, err = lookUpSponsor(in.Sponsor, top)
	if err == nil && in.payer != nil && in.payer.SolanaPublicKey == "" {
		in.payer, err = nil, fault.New(fault.FailedPrecondition, "sponsor: the gas usage configuration is from before transactions on Solana were sponsored; send upsert_gas_usage_config again")
	}
	return err
}

// SponsoredBy is part of activity.Payer.
func (in *SolSendTransaction) SponsoredBy() *org.GasConfig { return in.payer }

// checkSponsored checks that every required signer signs: a signature from elsewhere would be of the message without the sponsor.
func (in *SolSendTransaction) checkSponsored() (err error) {
	if in.sponsorable, err = sol.ReadSponsorable(in.decoded); err != nil {
		return err
	}
	required, err := sol.Signers(in.decoded)
	if err != nil {
		return err
	}
	for _, r := range required {
		if !slices.Contains(in.SignWiths, r.Address) {
			return fault.Field("signWiths", "must have every required signer of a sponsored transaction: %s is missing", r.Address)
		}
	}
	return nil
}

// keys returns the keys that sign: the signers' and, if a sponsor pays, the sponsor's.
func (in *SolSendTransaction) keys(tx *org.Tx) ([]policy.Key, error) {
	ks, err := policyKeys(tx, in.SignWiths...)
	if in.payer != nil {
		ks = append(ks, policy.Key{Owner: in.payer.ID})
	}
	return ks, err
}

// needSponsored adds what the sponsor's part is made from.
func (in *SolSendTransaction) needSponsored(n *activity.ChainQuery) {
	s := in.sponsorable
	n.Fees, n.Exist = !s.NamesPrice(), in.payer.RentPrefund && len(s.Rents(0)) > 0
	if n.Fees || n.Exist {
		n.Accounts = s.Writable()
	}
}

// addSponsor returns the transaction with its sponsor.
func (in *SolSendTransaction) addSponsor() (*paidSolana, error) {
	s, err := sol.ReadSponsorable(in.raw)
	if err != nil {
		return nil, err
	}
	by := &sol.Sponsorship{}
	if by.Payer, err = solanaSponsor(in.payer); err != nil {
		return nil, err
	}
	if !s.NamesPrice() {
		by.Price = s.PriceWithin(in.known.Tip)
	}
	if in.payer.RentPrefund {
		by.Rents = s.Rents(in.known.Existing)
	}
	paid := &paidSolana{}
	paid.tx, paid.lamports, err = s.Sponsor(by)
	return paid, err
}

// sendSponsored signs with the signers' keys and the sponsor's, under one grant.
func (in *SolSendTransaction) sendSponsored(tx *activity.Tx, all []*signingKey) (*SendStatusID, error) {
	price, err := priceOf(tx, in.CAIP2.CAIP2())
	if err != nil {
		return nil, err
	}
	micro, ok := microOf(new(big.Int).SetUint64(in.paid.lamports), price, 1e9)
	if !ok {
		return nil, fault.Field("unsignedTransaction", "it could cost more than any limit")
	}
	top, err := tx.Top()
	if err != nil {
		return nil, err
	}
	if err := SpendGas(tx, top, in.payer, micro); err != nil {
		return nil, err
	}
	public, err := publicKey("CURVE_ED25519", in.payer.SolanaPublicKey)
	if err != nil {
		return nil, err
	}
	last, err := sol.Chain{}.Read(in.paid.tx, chain.SigningKey{Public: public})
	if err != nil {
		return nil, err
	}
	pays, err := tx.TopHolder().OpenKey(keys.ActionSign, in.payer.ID, chain.Ed25519, in.payer.SolanaKey)
	if err != nil {
		return nil, err
	}
	defer pays.Wipe()
	digests := make([][]chain.Digest, len(all)) // one message is signed by all
	for i := range digests {
		digests[i] = last.Digests()
	}
	made, err := signEach(tx, all, digests, keys.KeyDigests{Key: pays, Digests: last.Digests()})
	if err != nil {
		return nil, err
	}
	signed, err := last.Assemble(made[len(all)])
	if err != nil {
		return nil, err
	}
	return in.send(tx, signed, all, made)
}

// solanaSponsor returns the sponsor's account on Solana.
func solanaSponsor(c *org.GasConfig) (account [32]byte, err error) {
	p, err := publicKey("CURVE_ED25519", c.SolanaPublicKey)
	if err != nil {
		return account, err
	}
	return [32]byte(p.Bytes()), nil
}
