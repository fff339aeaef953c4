package wallet

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/org"
)

// Transactions that need an account with delegated code (EIP-7702): several calls in one, paid by the account or by a
// sponsor, and the removal of the delegation. A false statement of the host about the account can make a transaction wait, or fail
// and cost its fees, no more: the account signs the calls, and delegates only to the one contract named in this package. The host can
// have signed calls executed until their deadline, unless other calls with the same number are: see nonces.go.

// sponsor is the account that pays for sponsored transactions of a top-level organization and its sub-organizations.
type sponsor struct {
	config  *org.GasConfig
	address [20]byte
}

// LookUpPayer finds the sponsor of a sponsored transaction.
func (in *EthSendTransaction) LookUpPayer(top func() (*org.Tx, error)) error {
	in.sponsor = nil
	c, err := lookUpSponsor(in.Sponsor, top)
	if c == nil || err != nil {
		return err
	}
	in.sponsor = &sponsor{config: c}
	in.sponsor.address, err = sponsorAddress(c)
	return err
}

// SponsoredBy is part of activity.Payer.
func (in *EthSendTransaction) SponsoredBy() *org.GasConfig {
	if in.sponsor == nil {
		return nil
	}
	return in.sponsor.config
}

// delegated reports whether the transaction needs an authorization or the delegate's code.
func (in *EthSendTransaction) delegated() bool {
	return in.undelegates || len(in.calls) > 1 || activity.IsOn(in.Sponsor)
}

// contract returns the contract that the account delegates to; zero: none.
func (in *EthSendTransaction) contract() (to [20]byte) {
	if !in.undelegates {
		to = eth.Delegate
	}
	return to
}

// Gas of the delegate's execution, where the client gives no limit. It cannot be estimated before it is signed.
// Unused gas is not paid, but the payer must have it, and it counts against a sponsor's limits.
const (
	delegatedGas = 150_000 // authorization, signature check, nonce
	gasOfCall    = 200_000
	gasOfByte    = 40
)

func (in *EthSendTransaction) delegatedGas() uint64 {
	n := uint64(delegatedGas)
	for i := range in.calls {
		n += gasOfCall + gasOfByte*uint64(len(in.calls[i].Data)+128)
	}
	return n
}

// deadlineMs is the default deadline of signed calls, in milliseconds from now.
const deadlineMs = 15 * 60 * 1000

// execute builds the execution that the account signs, for several calls or a sponsored one.
func (in *EthSendTransaction) execute(tx *org.Tx) (err error) {
	if in.undelegates {
		return nil
	}
	if d := in.known.Delegate; d != nil && [20]byte(d) != eth.Delegate {
		return fault.New(fault.FailedPrecondition, "%s has delegated to 0x%x, not to 0x%x: eth_undelegate_7702 gives that up", in.From, d, eth.Delegate)
	}
	until := (tx.NowMs + deadlineMs) / 1000
	if in.deadline != nil {
		if until = *in.deadline; until <= tx.NowMs/1000 || until > (tx.NowMs+ethSendMs)/1000 {
			return fault.Field("deadline", "must be in the next %d hours, in seconds since 1970", ethSendMs/(60*60*1000))
		}
	}
	e := &eth.Execution{Account: in.sender.Address, ChainID: in.sender.Chain, Deadline: uint32(until), Calls: in.calls}
	switch {
	case in.stationNonce != nil:
		e.Nonce = *in.stationNonce
	case in.known.Recorded:
		e.Nonce = in.known.Executions
	default:
		if err = in.checkExecutions(tx); err == nil {
			e.Nonce, err = tx.FreeNumber(in.executions(), in.known.Executions, in.isFree(tx.NowMs))
		}
	}
	if err != nil {
		return err
	}
	in.execution = e
	return nil
}

// executions is the counter of the account's executions.
func (in *EthSendTransaction) executions() org.Counter {
	return org.Counter{Of: org.CountExecutions, Account: in.sender}
}

// eachExecution visits the numbers of executions that may still be carried out, with all sends of each number.
func (in *EthSendTransaction) eachExecution(tx *org.Tx, visit func(number uint64, sends []org.SendRef) bool) error {
	c := in.executions()
	var failed error
	err := tx.EachTaken(c, func(number uint64, u *org.Taken) bool {
		if u.Send == nil {
			return true
		}
		sends, err := tx.Rivals(c, number)
		if failed = err; err != nil {
			return false
		}
		if sends == nil {
			sends = []org.SendRef{*u.Send}
		}
		return visit(number, sends)
	})
	return cmp.Or(failed, err)
}

// needExecutions adds the account's executions to the sends whose Standing is needed.
func (in *EthSendTransaction) needExecutions(tx *org.Tx, n *activity.ChainQuery) error {
	return in.eachExecution(tx, func(_ uint64, sends []org.SendRef) bool {
		for _, ref := range sends {
			if !slices.Contains(n.Sends, ref) {
				n.Sends = append(n.Sends, ref)
			}
		}
		n.Sends = n.Sends[:min(len(n.Sends), activity.MaxStandings)]
		return len(n.Sends) < activity.MaxStandings
	})
}

// missingExecutions are the numbers that the chain has counted as used, though the host reports no send of them as successful.
func (in *EthSendTransaction) missingExecutions(tx *org.Tx) (numbers []uint64, err error) {
	err = in.eachExecution(tx, func(number uint64, sends []org.SendRef) bool {
		if number < in.known.Executions && areAll(in.known, sends, func(s org.SendState) bool { return s.IsMissing() || s == org.SendReverted }) {
			numbers = append(numbers, number)
		}
		return number < in.known.Executions
	})
	return numbers, err
}

// checkExecutions refuses to number an execution as long as an earlier one may have been carried out unreported.
func (in *EthSendTransaction) checkExecutions(tx *org.Tx) error {
	numbers, err := in.missingExecutions(tx)
	if err == nil && len(numbers) > 0 {
		err = errMayBePaid("gasStationNonce", numbers[0], in.From, in.CAIP2)
	}
	return err
}

// takeExecution records the execution's number, and releases missing ones if the client gives the number: he has been asked to check them.
func (in *EthSendTransaction) takeExecution(tx *activity.Tx, within uint64, untilMs uint64, sponsored bool) error {
	c, number := in.executions(), in.execution.Nonce
	if in.stationNonce != nil {
		numbers, err := in.missingExecutions(tx.Tx)
		if err != nil {
			return err
		}
		for _, n := range numbers {
			tx.ReleaseNumber(c, n)
		}
	}
	ref := refOf(tx)
	was, err := tx.Taken(c, number)
	if err == nil && was != nil && was.Send != nil {
		err = tx.AddRival(c, number, []org.SendRef{*was.Send}, ref)
	}
	if err != nil {
		return err
	}
	return tx.TakeNumber(c, number, &org.Taken{UntilMs: untilMs, Within: within, Sponsored: sponsored, Send: &ref})
}

// unseenMs is the time after which a node must know a transaction that was handed to it.
const unseenMs = 60 * 1000

// isFree returns a function that reports whether a transaction no longer needs its number, according to the host's unverified state of
// the paying account: it is in a block and its execution did not count, or the node did not accept it.
func (in *EthSendTransaction) isFree(nowMs uint64) func(*org.Taken) bool {
	return func(u *org.Taken) bool {
		switch {
		case u.Send != nil && in.known.Standings[*u.Send].State.IsRefused():
			return true // if it is executed nevertheless, this one with the same number cannot be
		case u.Sponsored != activity.IsOn(in.Sponsor):
			return false
		case u.Within < in.known.Latest:
			return true
		}
		return u.Within >= in.known.Pending && nowMs >= u.TakenMs+unseenMs
	}
}

// delegatedCall is a call by the delegate's code, as policies see it.
type delegatedCall struct{ chain.Transaction }

func (c delegatedCall) Facts(described chain.Described) (chain.Struct, error) {
	f, err := c.Transaction.Facts(described)
	if err == nil {
		f["type"] = "TYPE_4"
	}
	return f, err
}

// outer is the transaction that a block includes.
type outer struct {
	from        [20]byte
	nonce, gas  uint64
	feeCap, tip *big.Int
	top         *org.Tx // the sponsor's organization; nil: the account pays
}

// sendDelegated signs for the account, and then the transaction that includes it, under one grant.
func (in *EthSendTransaction) sendDelegated(tx *activity.Tx, s *signingKey) (*SendStatusID, error) {
	o := &outer{from: in.sender.Address, nonce: in.chosen}
	var err error
	if o.gas, o.feeCap, o.tip, err = in.price(); err != nil {
		return nil, err
	}
	switch {
	case in.sponsor != nil:
		err = in.charge(tx, o)
	case activity.IsOn(in.Sponsor):
		err = errNoSponsor
	}
	if err != nil {
		return nil, err
	}
	signed, err := in.signDelegated(tx, s, o)
	if err != nil {
		return nil, err
	}
	made, err := eth.ReadSigned(signed)
	if err != nil {
		return nil, fmt.Errorf("reading what was signed: %v", err)
	}
	if made.From != o.from || made.ChainID != in.sender.Chain || made.Nonce != o.nonce {
		return nil, errors.New("another transaction was signed than asked for")
	}
	lifeMs := uint64(ethSendMs)
	sponsored := o.top != nil
	if e := in.execution; e != nil {
		lifeMs = uint64(e.Deadline)*1000 - tx.NowMs
		if err := in.takeExecution(tx, o.nonce, tx.NowMs+lifeMs, sponsored); err != nil {
			return nil, err
		}
	}
	if sponsored {
		// A client's late deadline must not make transactions of others wait for his.
		u := &org.Taken{UntilMs: tx.NowMs + min(lifeMs, deadlineMs), Within: o.nonce, Sponsored: true}
		err = o.top.TakeNumber(in.sponsor.counter(in.sender.Chain), o.nonce, u)
	} else if err = reserveOwn(tx, in.known, in.sender, made); err == nil {
		if d, takes := eth.ReadDelegation(made.Unsigned); takes {
			err = reserveNonce(tx, in.known, in.sender, d.Nonce, ethTerms{})
		}
	}
	if err != nil {
		return nil, err
	}
	x := &org.Transaction{Chain: string(in.CAIP2), Signed: signed, Name: "0x" + hex.EncodeToString(made.Hash[:]), From: o.from[:], Nonce: o.nonce}
	if in.execution != nil {
		x.Account, x.Execution = in.sender.Address[:], in.execution.Nonce
	}
	return sendTransaction(tx, x, lifeMs)
}

func (s *sponsor) counter(chainID uint64) org.Counter {
	return org.Counter{Of: org.CountSponsored, Account: org.Sender{Chain: chainID, Address: s.address}}
}

// charge makes the sponsor pay: the maximal cost of the transaction must be within its limits.
func (in *EthSendTransaction) charge(tx *activity.Tx, o *outer) (err error) {
	price, err := priceOf(tx, string(in.CAIP2))
	if err != nil {
		return err
	}
	if o.top, err = tx.Top(); err != nil {
		return err
	}
	micro, err := costOf(o.gas, o.feeCap, price)
	if err != nil {
		return err
	}
	// All later transactions of the organization tree would wait for one that no block includes.
	if o.gas > maxGas {
		return fault.Field("gasLimit", "at most %d where another account pays", maxGas)
	}
	if base := new(big.Int).SetUint64(in.known.BaseFee); o.feeCap.Cmp(base) < 0 {
		return fault.New(fault.FailedPrecondition, "maxFeePerGas: a unit of gas costs %s on %s now, and nobody else's transactions wait until it costs less", base, in.CAIP2)
	}
	if err := SpendGas(tx, o.top, in.sponsor.config, micro); err != nil {
		return err
	}
	o.from = in.sponsor.address
	o.nonce, err = o.top.FreeNumber(in.sponsor.counter(in.sender.Chain), in.known.Latest, in.isFree(tx.NowMs))
	return err
}

// signDelegated signs the calls and, unless the account has the code, the authorization with the account's key; then it signs with the payer's.
func (in *EthSendTransaction) signDelegated(tx *activity.Tx, s *signingKey, o *outer) (signed []byte, err error) {
	sponsored := o.top != nil
	var digests []chain.Digest
	add := func(sum [32]byte) { digests = append(digests, chain.Digest{Scheme: chain.ECDSA, Message: sum[:]}) }
	if in.execution != nil {
		add(in.execution.Digest())
	}
	var takes *eth.Authorization
	if in.undelegates || len(in.known.Delegate) == 0 {
		nonce := o.nonce + 1 // the transaction uses the nonce before its authorization
		if sponsored {
			nonce = in.known.Transactions
		}
		takes = eth.Delegation(in.sender.Chain, in.contract(), nonce)
		add(takes.Digest())
	}
	by, err := s.chainKey()
	if err != nil {
		return nil, err
	}
	if by.Public.KeccakAccount() != in.sender.Address || by.Format != chain.Ethereum {
		return nil, fault.Field("from", "must be an Ethereum account")
	}
	var last chain.Transaction
	around := func(payer chain.PublicKey) func([][]keys.Signature) ([]chain.Digest, error) {
		return func(before [][]keys.Signature) (_ []chain.Digest, err error) {
			made := before[0]
			to, data := in.sender.Address, []byte(nil)
			if sponsored {
				to = eth.Station
			}
			if in.execution != nil {
				data = in.execution.CallData(made[0], sponsored)
			}
			unsigned := eth.Unsigned1559(in.sender.Chain, o.nonce, o.tip, o.feeCap, o.gas, &to, new(big.Int), data)
			if takes != nil {
				unsigned = eth.UnsignedSetCode(in.sender.Chain, o.nonce, o.tip, o.feeCap, o.gas, to, data, takes.Encode(made[len(made)-1]))
			}
			if last, err = readers["TRANSACTION_TYPE_ETHEREUM"].chain.Read(unsigned, chain.SigningKey{Public: payer}); err != nil {
				return nil, err
			}
			return last.Digests(), nil
		}
	}
	err = withKey(tx, s, func(k *keys.PrivateKey) error {
		pays := k
		if sponsored {
			if pays, err = tx.TopHolder().OpenKey(keys.ActionSign, in.sponsor.config.ID, chain.Secp256k1, in.sponsor.config.Key); err != nil {
				return err
			}
			defer pays.Wipe()
		}
		made, err := tx.Holder().SignChained(
			keys.ChainedSignature{Key: k, Digests: func([][]keys.Signature) ([]chain.Digest, error) { return digests, nil }},
			keys.ChainedSignature{Key: pays, Digests: around(pays.Public())})
		if err != nil {
			return err
		}
		if tx.WantsProofs {
			if claimed := digests; sponsored {
				claimSignatures(tx, keys.KeyDigests{Key: k, Digests: claimed})
			} else {
				claimSignatures(tx, keys.KeyDigests{Key: k, Digests: append(claimed, last.Digests()...)})
			}
		}
		signed, err = last.Assemble(made[1])
		return err
	})
	return signed, err
}

// EthUndelegate7702 removes the delegation of an account. The account pays.
type EthUndelegate7702 struct {
	From  string        `json:"from" rule:"required"`
	CAIP2 DelegateChain `json:"caip2" rule:"required"`
	EthFees

	send EthSendTransaction
}

// undelegateGas is the gas limit of a removal, with reserve for chains that charge for data in gas.
const undelegateGas = 100_000

func (in *EthUndelegate7702) Check() error {
	in.send = EthSendTransaction{From: in.From, CAIP2: EthChain(in.CAIP2), undelegates: true}
	if err := in.EthFees.read(&in.send, in.From, in.send.CAIP2); err != nil {
		return err
	}
	if in.send.gas == nil {
		gas := uint64(undelegateGas)
		in.send.gas = &gas
	}
	return nil
}

// SetChainState stores the host's chain state.
func (in *EthUndelegate7702) SetChainState(k *activity.ChainState) { in.send.known = k }

func ethUndelegate7702(tx *activity.Tx, in *EthUndelegate7702) (*SendStatusID, error) {
	return ethSendTransaction(tx, &in.send)
}
