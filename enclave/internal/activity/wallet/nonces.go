package wallet

import (
	"math/big"
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// Nonces. An account numbers its transactions without gaps, and a block includes only one of each number. The organization's
// records have the numbers that were assigned. The chain's progress, and the refusals of nodes, are unverified statements of the host.
//
// A false statement can make a transaction wait or fail. The host also has the signed transactions: one that it reports as refused can be
// mined later. So the number of a refused transaction goes to the next one, and a block includes one of the two. If the chain
// has used the number, and none of its sends is reported to be in a block, the account's owner is asked to check first.
// A send that is not reported as refused keeps its number, and its status is not failed: see package query.

const (
	// maxNonce is the highest nonce of an account (EIP-2681).
	maxNonce = 1<<64 - 2
	// maxUses bounds the nonces of one account that are in use at a time.
	maxUses = 4096
	// maxReplaced bounds the transactions with one nonce that count.
	maxReplaced = 8
	// minedMs is how long a number is remembered after it was reported to be in a block. A request whose node did
	// not know that yet must not take it again; a request uses its chain state for maxHeardMs at most.
	minedMs = 10 * 60 * 1000
	// maxTidied bounds the records that one transaction prunes.
	maxTidied = 128
)

var errNonces = fault.New(fault.ResourceExhausted, "over quota: %d transactions of the account are under way; wait for some of them", maxUses)

// errMayBePaid refuses a new transaction until its client has checked an earlier one. field is the member with the number.
func errMayBePaid(field string, number uint64, from string, on EthChain) error {
	return fault.New(fault.FailedPrecondition, "%s: number %d of %s is used on %s, but no block is known to hold a transaction sent with it, so that may have been paid: look up the account's payments there. "+
		"To pay the same again, give %[1]s %[2]d, which a chain accepts once; to go on, give the next number", field, number, from, on)
}

// openUse is a nonce whose sends are not known to be mined.
type openUse struct {
	nonce uint64
	sends []org.SendRef
}

// openUses are the lowest nonces of an account that are not known to be mined, as many as one ChainQuery may have.
func openUses(tx *org.Tx, s org.Sender) (uses []openUse, refs []org.SendRef, err error) {
	err = tx.EachNonce(s, 0, func(nonce uint64, u *org.NonceUse) bool {
		if u.MinedMs != 0 {
			return true
		}
		if len(refs)+len(u.Sends) > activity.MaxStandings {
			return false
		}
		uses, refs = append(uses, openUse{nonce, u.Sends}), append(refs, u.Sends...)
		return true
	})
	return uses, refs, err
}

// areAll reports whether is holds for the states of all sends. For a send that the host was not asked about it must be false.
func areAll(k *activity.ChainState, sends []org.SendRef, is func(org.SendState) bool) bool {
	return !slices.ContainsFunc(sends, func(ref org.SendRef) bool { return !is(k.Standings[ref].State) })
}

// choose sets the transaction's nonce, and its earlier use.
func (in *EthSendTransaction) choose(tx *org.Tx) (err error) {
	if in.chosen, err = in.freeNonce(tx); err == nil && !in.known.Recorded {
		in.before, err = tx.Nonce(in.sender, in.chosen)
	}
	return err
}

// freeNonce returns the client's own number, or that of a refused transaction, whatever the chain state has for
// it, or else the lowest that neither the chain has used nor a transaction may still use.
func (in *EthSendTransaction) freeNonce(tx *org.Tx) (uint64, error) {
	if in.nonce != nil {
		return *in.nonce, nil
	}
	k := in.known
	if k.Recorded {
		return k.Pending, nil
	}
	for _, u := range in.open {
		switch {
		case u.nonce < k.Latest && areAll(k, u.sends, org.SendState.IsMissing):
			return 0, errMayBePaid("nonce", u.nonce, in.From, in.CAIP2)
		case u.nonce >= k.Latest && areAll(k, u.sends, org.SendState.IsRefused):
			return u.nonce, nil
		}
	}
	n := k.Pending
	err := tx.EachNonce(in.sender, n, func(nonce uint64, _ *org.NonceUse) bool {
		if nonce > n {
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

// reserveNonce records the number of the transaction about to be sent, beside earlier sends of that number.
func reserveNonce(tx *activity.Tx, k *activity.ChainState, s org.Sender, number uint64, terms ethTerms) error {
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
		return nil // the client's own number, already used: no transaction will get it
	}
	use := &org.NonceUse{}
	was, err := tx.Nonce(s, number)
	if err != nil {
		return err
	}
	if was != nil {
		use.FeeCap, use.Tip, use.Sends = was.FeeCap, was.Tip, slices.Clone(was.Sends)
	}
	if len(use.Sends) >= maxReplaced { // replace the first that was refused
		i := slices.IndexFunc(use.Sends, func(ref org.SendRef) bool { return k.Standings[ref].State.IsRefused() })
		if i < 0 {
			return fault.New(fault.ResourceExhausted, "over quota: nonce %d was given to %d transactions already", number, maxReplaced)
		}
		use.Sends = slices.Delete(use.Sends, i, i+1)
	}
	if terms.feeCap != nil {
		use.FeeCap, use.Tip = higher(use.FeeCap, terms.feeCap), higher(use.Tip, terms.tip)
	}
	use.Sends = append(use.Sends, refOf(tx))
	return tx.PutNonce(s, number, use)
}

// reserveOwn is reserveNonce for the transaction's own number, at which it competes with the earlier sends.
func reserveOwn(tx *activity.Tx, k *activity.ChainState, s org.Sender, made *eth.Signed) error {
	was, err := tx.Nonce(s, made.Nonce)
	if err == nil && was != nil {
		err = tx.AddRival(org.Counter{Of: org.CountNonces, Account: s}, made.Nonce, was.Sends, refOf(tx))
	}
	if err != nil {
		return err
	}
	terms, _ := termsOf(made) // transactions of other types have none
	return reserveNonce(tx, k, s, made.Nonce, terms)
}

// refOf is the reference of the send that tx will make next.
func refOf(tx *activity.Tx) org.SendRef {
	return org.SendRef{Seq: tx.Seq, Number: uint16(len(tx.Sends))}
}

// higher returns the higher of two amounts, big-endian.
func higher(was []byte, now *big.Int) []byte {
	return most(new(big.Int).SetBytes(was), now).Bytes()
}

// pruneNonces marks numbers that are in blocks, and deletes those marked minedMs ago. A client's own number
// settles lower, used numbers whose sends are missing: the client has been asked to check them.
func pruneNonces(tx *activity.Tx, k *activity.ChainState, s org.Sender, number uint64) error {
	var drop, mark []uint64
	err := tx.EachNonce(s, 0, func(nonce uint64, u *org.NonceUse) bool {
		reported := slices.ContainsFunc(u.Sends, func(ref org.SendRef) bool { _, ok := k.Standings[ref]; return ok })
		switch {
		case nonce == number:
		case u.MinedMs != 0 && tx.NowMs >= u.MinedMs+minedMs:
			drop = append(drop, nonce)
		case u.MinedMs == 0 && nonce < k.Latest:
			mark = append(mark, nonce)
		case u.MinedMs == 0 && !reported: // nor has any later one
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
		done := *u
		done.MinedMs = tx.NowMs
		if err := tx.PutNonce(s, nonce, &done); err != nil {
			return err
		}
	}
	return nil
}

// maxGas bounds the gas of the host's estimate, so that a lying node cannot burn an account's coins. A client who
// needs more gives gas and fees.
const maxGas = 50_000_000

// mostFees bounds gas times fee, in the chain's smallest unit: a tenth of a coin, ten coins on chains with cheap coins.
func mostFees(chainID uint64) *big.Int {
	tenth := big.NewInt(1e17)
	switch chainID {
	case 137, 80002, 143, 10143, 4217, 42431: // Polygon, Monad, Tempo
		return tenth.Mul(tenth, big.NewInt(100))
	}
	return tenth
}

func most(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}

// toReplace returns the minimal amount with which nodes replace a transaction: a tenth more, rounded up.
func toReplace(was []byte) *big.Int {
	n := new(big.Int).SetBytes(was)
	return n.Add(n, new(big.Int).Div(n, big.NewInt(10))).Add(n, big.NewInt(1))
}

// price returns gas limit and fees: the client's, or else the host's within bounds. The fee is
// twice the base fee plus the tip: enough for several full blocks. It exceeds that of an earlier transaction with the number.
func (in *EthSendTransaction) price() (gas uint64, feeCap, tip *big.Int, err error) {
	k := in.known
	if in.gas != nil {
		gas = *in.gas
	} else if in.delegated() {
		gas = in.delegatedGas()
	} else if gas = k.Gas; gas > maxGas {
		return 0, nil, nil, fault.WithCode(fault.FailedPrecondition, "RPC_CALL_ERROR", "the node of %s asks for %d gas, more than %d: give gasLimit", in.CAIP2, gas, maxGas)
	} else if gas != 21_000 { // a call's gas may change until it is in a block
		gas += gas / 5
	}
	outbid := in.before != nil && len(in.before.FeeCap) > 0
	if tip = in.tip; tip == nil {
		if tip = new(big.Int).SetUint64(k.Tip); outbid {
			tip = most(tip, toReplace(in.before.Tip))
		}
	}
	if feeCap = in.feeCap; feeCap == nil {
		base := new(big.Int).SetUint64(k.BaseFee)
		if outbid { // in whole base fees, as KnownOf computes them
			half := toReplace(in.before.FeeCap)
			base = most(base, half.Sub(half, tip).Add(half, big.NewInt(1)).Rsh(half, 1))
		}
		feeCap = base.Lsh(base, 1).Add(base, tip)
	} else if in.tip == nil && tip.Cmp(feeCap) > 0 {
		tip = feeCap
	}
	if in.feeCap == nil || in.gas == nil {
		bound, total := mostFees(in.sender.Chain), new(big.Int).SetUint64(gas)
		if total.Mul(total, feeCap).Cmp(bound) > 0 {
			return 0, nil, nil, fault.WithCode(fault.FailedPrecondition, "RPC_CALL_ERROR",
				"fees of %s by the node of %s, more than %s: give gasLimit and maxFeePerGas", total, in.CAIP2, bound)
		}
	}
	return gas, feeCap, tip, nil
}
