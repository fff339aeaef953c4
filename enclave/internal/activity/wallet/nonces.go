package wallet

import (
	"math/big"
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// Nonces. An account numbers its transactions without gaps, and only one of a number gets into a block. The
// organization's records know which numbers were given out. How far the chain is, and what nodes have refused
// for good, is the host's word: a host that lies can make a transaction wait or fail, no more.

const (
	// maxNonce is the highest nonce of an account (EIP-2681).
	maxNonce = 1<<64 - 2
	// maxUses bounds the nonces of one account that are in use at a time.
	maxUses = 4096
	// maxReplaced bounds the transactions with one nonce.
	maxReplaced = 8
	// minedMs is how long a number is remembered after it was heard to be in a block. A request whose node did
	// not know that yet must not take it again; what a request has heard is used for maxHeardMs at most.
	minedMs = 10 * 60 * 1000
	// maxTidied bounds the records that one transaction prunes.
	maxTidied = 128
)

var errNonces = fault.New(fault.ResourceExhausted, "over quota: %d transactions of the account are under way; wait for some of them", maxUses)

// openSends are the sends of an account that are not known to be done: the lowest numbers, as many as may be asked for.
func openSends(tx *org.Tx, s org.Sender) (refs []org.SendRef, err error) {
	err = tx.EachNonce(s, 0, func(_ uint64, u *org.NonceUse) bool {
		for _, ref := range u.Sends {
			if u.MinedMs == 0 && len(refs) < activity.MaxStandings {
				refs = append(refs, ref)
			}
		}
		return len(refs) < activity.MaxStandings
	})
	return refs, err
}

// isFree tells whether no transaction with this number can still use it.
func isFree(k *activity.ChainKnown, u *org.NonceUse) bool {
	return !slices.ContainsFunc(u.Sends, func(ref org.SendRef) bool { return !k.Standings[ref].State.Freed() })
}

// choose finds the transaction's number: the client's own, or the lowest that neither the chain has used nor a
// transaction may still use. A gap that a refused transaction left is filled first.
func (in *EthSendTransaction) choose(tx *org.Tx) (uint64, error) {
	if in.nonce != nil {
		return *in.nonce, nil
	}
	n := in.known.Pending
	err := tx.EachNonce(in.sender, n, func(nonce uint64, u *org.NonceUse) bool {
		if nonce > n || isFree(in.known, u) {
			return false
		}
		n++
		return true
	})
	if err == nil && n > maxNonce {
		err = fault.Field("nonce", "the account has none left")
	}
	return n, err
}

// reserveNonce records that the transaction about to be sent has a number, beside those that have it already
// and may still use it.
func reserveNonce(tx *activity.Tx, k *activity.ChainKnown, s org.Sender, number uint64) error {
	if err := pruneNonces(tx, k, s, number); err != nil {
		return err
	}
	uses := 0
	err := tx.EachNonce(s, k.Latest, func(uint64, *org.NonceUse) bool {
		uses++
		return uses < maxUses
	})
	if err == nil && uses >= maxUses {
		err = errNonces
	}
	if err != nil {
		return err
	}
	if number < k.Latest {
		return nil // a client's own: it is used up, and nobody is given it any more
	}
	var use org.NonceUse
	was, err := tx.Nonce(s, number)
	if err != nil {
		return err
	}
	if was != nil && !isFree(k, was) {
		use.Sends = append(use.Sends, was.Sends...)
	}
	if len(use.Sends) >= maxReplaced {
		return fault.New(fault.ResourceExhausted, "over quota: nonce %d was given to %d transactions already", number, maxReplaced)
	}
	use.Sends = append(use.Sends, org.SendRef{Seq: tx.Seq, Number: uint16(len(tx.Sends))})
	return tx.PutNonce(s, number, &use)
}

// pruneNonces forgets numbers that are free again, and those that have been in a block for minedMs.
func pruneNonces(tx *activity.Tx, k *activity.ChainKnown, s org.Sender, number uint64) error {
	var drop, mark []uint64
	err := tx.EachNonce(s, 0, func(nonce uint64, u *org.NonceUse) bool {
		heard := slices.ContainsFunc(u.Sends, func(ref org.SendRef) bool { _, ok := k.Standings[ref]; return ok })
		switch {
		case nonce == number:
		case isFree(k, u), u.MinedMs != 0 && tx.NowMs >= u.MinedMs+minedMs:
			drop = append(drop, nonce)
		case u.MinedMs == 0 && nonce < k.Latest:
			mark = append(mark, nonce)
		case u.MinedMs == 0 && !heard: // nor of any behind it
			return false
		}
		return len(drop)+len(mark) < maxTidied
	})
	if err != nil {
		return err
	}
	for _, nonce := range drop {
		tx.DeleteNonce(s, nonce)
	}
	for _, nonce := range mark {
		u, err := tx.Nonce(s, nonce)
		if err != nil {
			return err
		}
		if err := tx.PutNonce(s, nonce, &org.NonceUse{Sends: u.Sends, MinedMs: tx.NowMs}); err != nil {
			return err
		}
	}
	return nil
}

// What the host's word may make a transaction cost, so that a lying node cannot burn an account. A client who
// needs more gives gas and fees.
const maxGas = 50_000_000

// mostFees bounds gas times fee, in the chain's smallest unit: a tenth of a coin, ten coins where they are cheap.
func mostFees(chainID uint64) *big.Int {
	tenth := big.NewInt(1e17)
	switch chainID {
	case 137, 80002, 143, 10143, 4217, 42431: // Polygon, Monad, Tempo
		return tenth.Mul(tenth, big.NewInt(100))
	}
	return tenth
}

// price is what the transaction may cost: the client's word, or else the host's within bounds. The fee is
// twice the base fee plus the tip: enough for several full blocks.
func (in *EthSendTransaction) price() (gas uint64, feeCap, tip *big.Int, err error) {
	k := in.known
	if in.gas != nil {
		gas = *in.gas
	} else if in.delegated() {
		gas = in.delegatedGas()
	} else if gas = k.Gas; gas > maxGas {
		return 0, nil, nil, fault.WithCode(fault.FailedPrecondition, "RPC_CALL_ERROR", "the node of %s asks for %d gas, more than %d: give gasLimit", in.CAIP2, gas, maxGas)
	} else if gas != 21_000 { // what the call finds may have changed until it is in a block
		gas += gas / 5
	}
	if tip = in.tip; tip == nil {
		tip = new(big.Int).SetUint64(k.Tip)
	}
	if feeCap = in.feeCap; feeCap == nil {
		feeCap = new(big.Int).SetUint64(k.BaseFee)
		feeCap.Lsh(feeCap, 1).Add(feeCap, tip)
	} else if in.tip == nil && tip.Cmp(feeCap) > 0 {
		tip = feeCap
	}
	if in.feeCap == nil || in.gas == nil {
		most, total := mostFees(in.sender.Chain), new(big.Int).SetUint64(gas)
		if total.Mul(total, feeCap).Cmp(most) > 0 {
			return 0, nil, nil, fault.WithCode(fault.FailedPrecondition, "RPC_CALL_ERROR",
				"fees of %s by the node of %s, more than %s: give gasLimit and maxFeePerGas", total, in.CAIP2, most)
		}
	}
	return gas, feeCap, tip, nil
}
