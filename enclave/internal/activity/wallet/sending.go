package wallet

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/chain/sol"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// Sending are the kinds that send a transaction, and sign it where it is unsigned.
var Sending = activity.Family{
	activity.Kind[EthSendRawTransaction, TransactionHash]{
		Name: "ETH_SEND_RAW_TRANSACTION", Resource: "PRIVATE_KEY", Action: "SIGN", Decodes: true, Run: ethSendRawTransaction, Verify: verifyRawSend,
		Show: func(tx *org.Tx, in *EthSendRawTransaction, v *show.View, known *show.Known) (string, error) {
			return in.show(tx, v, known)
		},
		Signatures:        func(*EthSendRawTransaction) int { return 0 }, // it is signed already
		ChainQuery:        func(tx *org.Tx, in *EthSendRawTransaction) (*activity.ChainQuery, error) { return in.need(tx) },
		FillPolicyRequest: func(tx *org.Tx, in *EthSendRawTransaction, q *policy.Request) error { return in.ask(tx, q) },
	},
	activity.Kind[EthSendTransaction, SendStatusID]{
		Name: "ETH_SEND_TRANSACTION", Resource: "PRIVATE_KEY", Action: "SIGN", Decodes: true, Run: ethSendTransaction, Verify: verifyEthSend, Results: []int{2},
		Show: func(tx *org.Tx, in *EthSendTransaction, v *show.View, known *show.Known) (string, error) {
			return in.show(tx, v, known)
		},
		Older: []activity.Older{activity.Upgrade(func(v *EthSendTransactionV1) EthSendTransaction {
			return EthSendTransaction{From: v.From, CAIP2: v.CAIP2, Sponsor: v.Sponsor, EthTerms: v.EthTerms,
				Calls: []EthCall{{To: v.To, Value: v.Value, Data: v.Data}}, flat: true}
		})},
		Examine:           func(tx *org.Tx, in *EthSendTransaction) error { return in.examine(tx) },
		ChainQuery:        func(tx *org.Tx, in *EthSendTransaction) (*activity.ChainQuery, error) { return in.need(tx) },
		Keys:              func(tx *org.Tx, in *EthSendTransaction) ([]policy.Key, error) { return in.keys(tx) },
		FillPolicyRequest: func(tx *org.Tx, in *EthSendTransaction, q *policy.Request) error { return in.ask(tx, q) },
	},
	activity.Kind[EthUndelegate7702, SendStatusID]{
		Name: "ETH_UNDELEGATE_7702", Resource: "PRIVATE_KEY", Action: "SIGN", Run: ethUndelegate7702, Verify: verifyUndelegate,
		Show: func(tx *org.Tx, in *EthUndelegate7702, v *show.View, known *show.Known) (string, error) {
			return in.send.show(tx, v, known)
		},
		Examine:           func(tx *org.Tx, in *EthUndelegate7702) error { return in.send.examine(tx) },
		ChainQuery:        func(tx *org.Tx, in *EthUndelegate7702) (*activity.ChainQuery, error) { return in.send.need(tx) },
		Keys:              func(tx *org.Tx, in *EthUndelegate7702) ([]policy.Key, error) { return in.send.keys(tx) },
		FillPolicyRequest: func(tx *org.Tx, in *EthUndelegate7702, q *policy.Request) error { return in.send.ask(tx, q) },
	},
	activity.Kind[SolSendTransaction, SendStatusID]{
		Name: "SOL_SEND_TRANSACTION", Resource: "PRIVATE_KEY", Action: "SIGN", Decodes: true, Run: solSendTransaction, Verify: verifySolSend, Results: []int{2},
		Show: func(tx *org.Tx, in *SolSendTransaction, v *show.View, known *show.Known) (string, error) {
			return in.show(tx, v, known)
		},
		Older: []activity.Older{activity.Upgrade(func(v *SolSendTransactionV1) SolSendTransaction {
			return SolSendTransaction{UnsignedTransaction: v.UnsignedTransaction, SignWiths: []string{v.SignWith}, Sponsor: v.Sponsor, CAIP2: v.CAIP2, RecentBlockhash: v.RecentBlockhash}
		})},
		Examine:           func(tx *org.Tx, in *SolSendTransaction) error { return in.examine(tx) },
		ChainQuery:        func(tx *org.Tx, in *SolSendTransaction) (*activity.ChainQuery, error) { return in.need(tx) },
		Keys:              func(tx *org.Tx, in *SolSendTransaction) ([]policy.Key, error) { return in.keys(tx) },
		FillPolicyRequest: func(tx *org.Tx, in *SolSendTransaction, q *policy.Request) error { return in.ask(tx, q) },
	},
}

// Lifetimes of sends. An Ethereum transaction stays valid until its nonce is used, a Solana transaction while its
// blockhash is recent: a minute or two.
const (
	ethSendMs = 24 * 60 * 60 * 1000
	solSendMs = 5 * 60 * 1000
)

// SendStatusID is the result of sending a transaction: the id of the activity, by which clients query the status.
type SendStatusID struct {
	SendTransactionStatusID string `json:"sendTransactionStatusId"`
}

// sendTransaction queues a signed transaction, to be sent once the activity is stored.
func sendTransaction(tx *activity.Tx, x *org.Transaction, lifeMs uint64) (*SendStatusID, error) {
	return &SendStatusID{tx.Activity.String()}, tx.Send(org.SendTransaction, x, tx.NowMs+lifeMs)
}

// EthSendRawTransaction sends a transaction that is signed already, by this enclave or elsewhere.
type EthSendRawTransaction struct {
	SignedTransaction string   `json:"signedTransaction" rule:"required"`
	CAIP2             EthChain `json:"caip2" rule:"required"`

	decoded []byte
	signed  *eth.Signed
	read    *transaction
	known   *activity.ChainState
}

// maxSigned bounds a signed transaction in bytes, as the host does; nodes relay less.
const maxSigned = 256 << 10

func (in *EthSendRawTransaction) Check() (err error) {
	const field = "signedTransaction"
	digits := strings.TrimPrefix(in.SignedTransaction, "0x")
	if len(digits) > 2*maxSigned {
		return fault.Field(field, "over %d bytes", maxSigned)
	}
	if in.decoded, err = hex.DecodeString(digits); err != nil {
		return fault.Field(field, "not hexadecimal")
	}
	if in.signed, err = eth.ReadSigned(in.decoded); err != nil {
		return err
	}
	if id := in.signed.ChainID; id != 0 && id != in.CAIP2.ID() { // a transaction from before EIP-155 has none
		return fault.Field(field, "it is for chain eip155:%d", id)
	}
	r := readers["TRANSACTION_TYPE_ETHEREUM"]
	by := chain.SigningKey{Public: in.signed.Key}
	read, err := r.chain.Read(in.signed.Unsigned, by)
	if err != nil {
		return err
	}
	in.read = &transaction{read, by, r.chain, r.speaks}
	return nil
}

func (in *EthSendRawTransaction) SetChainState(k *activity.ChainState) { in.known = k }

// sender returns the signing account, and whether it is one of the organization's, whose nonces are tracked.
func (in *EthSendRawTransaction) sender(tx *org.Tx) (s org.Sender, ours bool, err error) {
	s = org.Sender{Chain: in.CAIP2.ID(), Address: in.signed.From}
	_, ours, err = tx.ByAddress(chain.MatchKey("0x" + hex.EncodeToString(s.Address[:])))
	return s, ours, err
}

func (in *EthSendRawTransaction) need(tx *org.Tx) (*activity.ChainQuery, error) {
	n := &activity.ChainQuery{Chain: string(in.CAIP2)}
	s, ours, err := in.sender(tx)
	if err == nil && ours {
		n.Nonces, n.From = true, s.Address[:]
		_, n.Sends, err = openUses(tx, s)
	}
	return n, err
}

// ask adds the transaction to the policy request; eth.tx.from is the address of the key that signed it.
func (in *EthSendRawTransaction) ask(tx *org.Tx, q *policy.Request) error {
	q.Facts = policy.Facts{}
	return in.read.facts(tx, q.Facts)
}

// TransactionHash is the result of sending a signed transaction. Clients query its status by the activity's id.
type TransactionHash struct {
	TransactionHash string `json:"transactionHash"`
}

func ethSendRawTransaction(tx *activity.Tx, in *EthSendRawTransaction) (*TransactionHash, error) {
	if in.known == nil {
		return nil, errUnasked
	}
	s, ours, err := in.sender(tx.Tx)
	if err == nil && ours {
		err = reserveOwn(tx, in.known, s, in.signed)
	}
	if err != nil {
		return nil, err
	}
	hash := "0x" + hex.EncodeToString(in.signed.Hash[:])
	_, err = sendTransaction(tx, &org.Transaction{Chain: string(in.CAIP2), Signed: in.decoded, Name: hash, From: s.Address[:], Nonce: in.signed.Nonce}, ethSendMs)
	return &TransactionHash{hash}, err
}

// EthSendTransactionV1 is a transaction of one call.
type EthSendTransactionV1 struct {
	From    string   `json:"from" rule:"required"`
	Sponsor *bool    `json:"sponsor"`
	CAIP2   EthChain `json:"caip2" rule:"required"`
	To      string   `json:"to" rule:"required"`
	Value   *string  `json:"value"`
	Data    *string  `json:"data"`
	EthTerms
}

// EthTerms are optional: missing ones come from the chain's node. Deadline and GasStationNonce are for
// transactions that the delegate's code executes: sponsored ones and those of several calls.
type EthTerms struct {
	EthFees
	Deadline        *string `json:"deadline"`
	GasStationNonce *string `json:"gasStationNonce"`
}

// EthFees are nonce, gas limit and fees of the transaction that a block includes.
type EthFees struct {
	Nonce                *string `json:"nonce"`
	GasLimit             *string `json:"gasLimit"`
	MaxFeePerGas         *string `json:"maxFeePerGas"`
	MaxPriorityFeePerGas *string `json:"maxPriorityFeePerGas"`
}

// EthSendTransaction signs and sends a transaction: of type 2 for one call that the account pays for, otherwise one that
// the delegate's code executes.
type EthSendTransaction struct {
	From    string   `json:"from" rule:"required"`
	CAIP2   EthChain `json:"caip2" rule:"required"`
	Sponsor *bool    `json:"sponsor"`
	EthTerms
	Calls []EthCall `json:"calls" rule:"required,min=1,max=50,dive"`

	flat bool // from version 1

	sender       org.Sender
	calls        []eth.Call
	nonce, gas   *uint64  // nil: not given
	feeCap, tip  *big.Int // likewise
	stationNonce *uint64  // likewise
	deadline     *uint64  // likewise
	undelegates  bool     // it makes no call: the account removes its delegation
	sponsor      *sponsor // set by LookUpPayer
	open         []openUse
	known        *activity.ChainState

	chosen    uint64        // the nonce, set by examine
	before    *org.NonceUse // the earlier use of that nonce, nil for none
	execution *eth.Execution
	reads     []*transaction // each call as policies see it; for a single, unsponsored one the transaction itself
	unknown   []string       // facts that have no value yet
}

// EthCall is one call of a transaction.
type EthCall struct {
	To    string  `json:"to" rule:"required"`
	Value *string `json:"value"`
	Data  *string `json:"data"`
}

// maxCallData bounds call data, so that nodes relay the transaction.
const maxCallData = 127 << 10

func (in *EthSendTransaction) Check() (err error) {
	if err := in.EthFees.read(in, in.From, in.CAIP2); err != nil {
		return err
	}
	if len(in.Calls) > eth.MaxCalls {
		return fault.Field("calls", "at most %d in one transaction: the accounts' delegate takes no more", eth.MaxCalls)
	}
	size := 0
	in.calls = make([]eth.Call, len(in.Calls))
	for i := range in.Calls {
		at := fmt.Sprintf("calls.%d.", i)
		if in.flat {
			at = ""
		}
		if in.calls[i], err = in.Calls[i].read(at); err != nil {
			return err
		}
		if size += len(in.calls[i].Data); size > maxCallData {
			return fault.Field("calls", "at most %d bytes of data in all", maxCallData)
		}
	}
	if in.stationNonce, err = number("gasStationNonce", in.GasStationNonce); err != nil {
		return err
	}
	if in.stationNonce != nil && *in.stationNonce > maxNonce {
		return fault.Field("gasStationNonce", "at most %d", uint64(maxNonce))
	}
	if in.deadline, err = number("deadline", in.Deadline); err != nil {
		return err
	}
	if activity.IsOn(in.Sponsor) && in.nonce != nil {
		return fault.Field("nonce", "the sponsor's transactions are numbered here: gasStationNonce numbers those that it pays for")
	}
	return nil
}

func (c *EthCall) read(at string) (call eth.Call, err error) {
	if call.To, err = EthAddress(at+"to", c.To); err != nil {
		return call, err
	}
	if call.Value, err = amount(at+"value", c.Value); err != nil {
		return call, err
	}
	if call.Value == nil {
		call.Value = new(big.Int)
	}
	if data := activity.TextOf(c.Data); data != "" {
		digits, ok := strings.CutPrefix(data, "0x")
		if len(digits) > 2*maxCallData {
			return call, fault.Field(at+"data", "at most %d bytes", maxCallData)
		}
		if call.Data, err = hex.DecodeString(digits); err != nil || !ok {
			return call, fault.Field(at+"data", "must be hexadecimal with 0x")
		}
	}
	return call, nil
}

func (t *EthFees) read(into *EthSendTransaction, from string, on EthChain) (err error) {
	into.sender.Chain = on.ID()
	if into.sender.Address, err = EthAddress("from", from); err != nil {
		return err
	}
	if into.nonce, err = number("nonce", t.Nonce); err != nil {
		return err
	}
	if into.nonce != nil && *into.nonce > maxNonce {
		return fault.Field("nonce", "at most %d", uint64(maxNonce))
	}
	if into.gas, err = number("gasLimit", t.GasLimit); err != nil {
		return err
	}
	if into.feeCap, err = amount("maxFeePerGas", t.MaxFeePerGas); err != nil {
		return err
	}
	if into.tip, err = amount("maxPriorityFeePerGas", t.MaxPriorityFeePerGas); err != nil {
		return err
	}
	if into.feeCap != nil && into.tip != nil && into.tip.Cmp(into.feeCap) > 0 {
		return fault.Field("maxPriorityFeePerGas", "must not be above maxFeePerGas")
	}
	return nil
}

// amount parses a decimal number below 2^256; nil for none.
func amount(field string, text *string) (*big.Int, error) {
	digits := activity.TextOf(text)
	if digits == "" {
		return nil, nil
	}
	ok := len(digits) <= 78 && strings.Trim(digits, "0123456789") == ""
	n := new(big.Int)
	if ok {
		_, ok = n.SetString(digits, 10)
	}
	if !ok || n.BitLen() > 256 {
		return nil, fault.Field(field, "must be a decimal number below 2^256")
	}
	return n, nil
}

// number is amount below 2^64.
func number(field string, text *string) (*uint64, error) {
	n, err := amount(field, text)
	if n == nil && err == nil {
		return nil, nil
	}
	if err != nil || !n.IsUint64() {
		return nil, fault.Field(field, "must be a decimal number below 2^64")
	}
	u := n.Uint64()
	return &u, nil
}

// SetChainState stores the host's chain state.
func (in *EthSendTransaction) SetChainState(k *activity.ChainState) { in.known = k }

// keys returns the keys that sign: the account's and, if a sponsor pays, the sponsor's.
func (in *EthSendTransaction) keys(tx *org.Tx) ([]policy.Key, error) {
	ks, err := policyKeys(tx, in.From)
	if in.sponsor != nil {
		ks = append(ks, policy.Key{Owner: in.sponsor.config.ID})
	}
	return ks, err
}

// need returns the query for the chain state that the transaction needs.
func (in *EthSendTransaction) need(tx *org.Tx) (*activity.ChainQuery, error) {
	s, err := lookUpSigningKey(tx, in.From)
	if s == nil || err != nil {
		return nil, err
	}
	n := &activity.ChainQuery{
		Chain: string(in.CAIP2), From: in.sender.Address[:],
		Nonces: true, Fees: in.feeCap == nil || in.tip == nil || in.sponsor != nil, Gas: in.gas == nil && !in.delegated(),
	}
	if n.Gas {
		n.To, n.Value, n.Data = in.calls[0].To[:], in.calls[0].Value, in.calls[0].Data
	}
	if in.delegated() && !in.undelegates {
		n.Account = in.sender.Address[:]
	}
	if in.sponsor != nil {
		n.From = in.sponsor.address[:]
	} else if in.open, n.Sends, err = openUses(tx, in.sender); err != nil {
		return nil, err
	}
	if in.delegated() && !in.undelegates {
		err = in.needExecutions(tx, n)
	}
	return n, err
}

// examine builds the transaction as it will be signed, without signatures. Before the host has answered, it is built
// from what is known so far, for hypothetical policy requests.
func (in *EthSendTransaction) examine(tx *org.Tx) error {
	in.reads, in.unknown, in.execution = nil, nil, nil
	s, err := lookUpSigningKey(tx, in.From)
	if s == nil || err != nil {
		return err
	}
	in.chosen, in.before = 0, nil
	gas, feeCap, tip := uint64(0), new(big.Int), new(big.Int)
	sponsored := activity.IsOn(in.Sponsor) // a sponsored account pays no fees
	if in.known != nil {
		if in.delegated() {
			err = in.execute(tx)
		}
		if err == nil && !sponsored {
			err = in.choose(tx)
		}
		if err != nil {
			return err
		}
		if g, f, t, err := in.price(); err != nil {
			return err
		} else if !sponsored {
			gas, feeCap, tip = g, f, t
		}
	} else if !sponsored {
		for _, f := range []struct {
			is   bool
			name string
		}{{in.nonce == nil, "nonce"}, {in.gas == nil, "gas"}, {in.feeCap == nil, "gas_price"}, {in.feeCap == nil, "max_fee_per_gas"}, {in.tip == nil, "max_priority_fee_per_gas"}} {
			if f.is {
				in.unknown = append(in.unknown, f.name)
			}
		}
		activity.Set(&in.chosen, in.nonce)
		activity.Set(&gas, in.gas)
		if in.tip != nil {
			tip, feeCap = in.tip, in.tip
		}
		if in.feeCap != nil {
			feeCap = in.feeCap
		}
	} else if in.stationNonce == nil {
		in.unknown = append(in.unknown, "nonce")
	}
	nonce := in.chosen
	if sponsored && in.execution != nil {
		nonce = in.execution.Nonce
	} else if sponsored {
		activity.Set(&nonce, in.stationNonce)
	}
	calls := in.calls
	if in.undelegates {
		calls = []eth.Call{{To: in.sender.Address, Value: new(big.Int)}}
	}
	for i := range calls {
		c := &calls[i]
		t, err := readTransaction(s, "TRANSACTION_TYPE_ETHEREUM", eth.Unsigned1559(in.sender.Chain, nonce, tip, feeCap, gas, &c.To, c.Value, c.Data), nil)
		if err != nil {
			return err
		}
		if in.delegated() {
			t.Transaction = delegatedCall{t.Transaction}
		}
		in.reads = append(in.reads, t)
	}
	return nil
}

// ask completes the policy request with the transaction that will be signed, or with each of its calls as a payload of
// its own: the decision must hold for all.
func (in *EthSendTransaction) ask(tx *org.Tx, q *policy.Request) error {
	if len(in.reads) == 0 {
		return nil
	}
	q.Facts = policy.Facts{}
	for _, read := range in.reads {
		facts := q.Facts
		if len(in.reads) > 1 {
			facts = policy.Facts{}
			q.Payloads = append(q.Payloads, facts)
		}
		if err := read.facts(tx, facts, in.unknown...); err != nil {
			return err
		}
	}
	if in.undelegates {
		facts := eth.Delegation(in.sender.Chain, in.contract(), in.chosen+1).Facts()
		if slices.Contains(in.unknown, "nonce") {
			facts["nonce"] = nil
		}
		q.Facts["eth.eip_7702_authorization"] = factOf(facts)
	}
	s, err := findSigningKey(tx, in.From)
	if err != nil {
		return err
	}
	return s.facts(tx, q.Facts)
}

var errUnasked = errors.New("a transaction is to be signed of whose chain nothing is known")

func ethSendTransaction(tx *activity.Tx, in *EthSendTransaction) (*SendStatusID, error) {
	s, err := findSigningKey(tx.Tx, in.From)
	if err != nil {
		return nil, err
	}
	if in.known == nil {
		return nil, errUnasked
	}
	if err := in.examine(tx.Tx); err != nil {
		return nil, err
	}
	if in.delegated() {
		return in.sendDelegated(tx, s)
	}
	signed, err := in.reads[0].sign(tx, s)
	if err != nil {
		return nil, err
	}
	made, err := eth.ReadSigned(signed)
	if err != nil {
		return nil, fmt.Errorf("reading what was signed: %v", err)
	}
	if made.From != in.sender.Address || made.ChainID != in.sender.Chain || made.Nonce != in.chosen {
		return nil, errors.New("another transaction was signed than asked for")
	}
	if err := reserveOwn(tx, in.known, in.sender, made); err != nil {
		return nil, err
	}
	return sendTransaction(tx, &org.Transaction{Chain: string(in.CAIP2), Signed: signed, Name: "0x" + hex.EncodeToString(made.Hash[:]),
		From: in.sender.Address[:], Nonce: made.Nonce}, ethSendMs)
}

// SolSendTransactionV1 is version 1 of the intent, with one signer.
type SolSendTransactionV1 struct {
	UnsignedTransaction string     `json:"unsignedTransaction" rule:"required"`
	SignWith            string     `json:"signWith" rule:"required"`
	Sponsor             *bool      `json:"sponsor"`
	CAIP2               SolNetwork `json:"caip2" rule:"required"`
	RecentBlockhash     *string    `json:"recentBlockhash"`
}

// SolSendTransaction signs a transaction with one or several keys and sends it. Other signers must have signed
// already. A blockhash of zeros is replaced by a recent one.
type SolSendTransaction struct {
	UnsignedTransaction string     `json:"unsignedTransaction" rule:"required"`
	SignWiths           []string   `json:"signWiths" rule:"required,min=1,max=16,dive,required"`
	Sponsor             *bool      `json:"sponsor"`
	CAIP2               SolNetwork `json:"caip2" rule:"required"`
	RecentBlockhash     *string    `json:"recentBlockhash"`

	decoded []byte
	fills   bool // the blockhash is to be replaced
	known   *activity.ChainState
	raw     []byte
	reads   []*transaction // for each signer

	sponsorable *sol.Sponsorable // before its blockhash is filled in; nil: the first signer pays
	payer       *org.GasConfig   // set by LookUpPayer
	paid        *paidSolana      // once the chain's state is known
}

const maxSolana = 1232

func (in *SolSendTransaction) Check() (err error) {
	if in.decoded, err = decodeSolana(in.UnsignedTransaction); err != nil {
		return err
	}
	for i, address := range in.SignWiths {
		if slices.Contains(in.SignWiths[:i], address) {
			return fault.Field(fmt.Sprintf("signWiths.%d", i), "stands there twice")
		}
		if _, err := org.ParseID(address); err == nil {
			return fault.Field(fmt.Sprintf("signWiths.%d", i), "must be an address")
		}
	}
	if recent := activity.TextOf(in.RecentBlockhash); recent != "" {
		if in.decoded, err = sol.WithBlockhash(in.decoded, recent); err != nil {
			return err
		}
	}
	hash, err := sol.Blockhash(in.decoded)
	in.fills = hash == [32]byte{} && activity.TextOf(in.RecentBlockhash) == ""
	if err == nil && activity.IsOn(in.Sponsor) {
		err = in.checkSponsored()
	}
	return err
}

// decodeSolana decodes the text of a transaction: hexadecimal (version 2) or base64 (version 1).
func decodeSolana(text string) ([]byte, error) {
	if len(text) > 2*maxSolana+2 {
		return nil, chain.Invalid("over %d bytes", maxSolana)
	}
	if b, err := hex.DecodeString(strings.TrimPrefix(text, "0x")); err == nil {
		return b, nil
	}
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, chain.Invalid("neither hexadecimal nor base64")
	}
	return b, nil
}

func (in *SolSendTransaction) SetChainState(k *activity.ChainState) { in.known = k }

// signers returns the signing keys; the error for one that does not exist is a *fault.Error.
func (in *SolSendTransaction) signers(tx *org.Tx) ([]*signingKey, error) {
	all := make([]*signingKey, len(in.SignWiths))
	for i, address := range in.SignWiths {
		var err error
		if all[i], err = findSigningKey(tx, address); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (in *SolSendTransaction) need(tx *org.Tx) (*activity.ChainQuery, error) {
	if _, err := in.signers(tx); fault.Of(err) != nil {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	n := &activity.ChainQuery{Chain: in.CAIP2.CAIP2(), Blockhash: in.fills}
	if in.payer != nil {
		in.needSponsored(n)
	}
	return n, nil
}

func (in *SolSendTransaction) examine(tx *org.Tx) (err error) {
	in.reads, in.paid = nil, nil
	all, err := in.signers(tx)
	if fault.Of(err) != nil {
		return nil
	}
	if err != nil {
		return err
	}
	in.raw = in.decoded
	if in.fills && in.known != nil {
		if in.raw, err = sol.WithBlockhash(in.decoded, sol.BlockhashText(in.known.Blockhash)); err != nil {
			return err
		}
	}
	for _, s := range all {
		t, err := readTransaction(s, "TRANSACTION_TYPE_SOLANA", in.raw, nil)
		if err != nil {
			return err
		}
		in.reads = append(in.reads, t)
	}
	if in.payer != nil && in.known != nil {
		in.paid, err = in.addSponsor()
	}
	return err
}

// ask completes the policy request with each signer as a payload of its own: the decision must hold for all. Facts of
// several signers have their wallets together, too.
func (in *SolSendTransaction) ask(tx *org.Tx, q *policy.Request) error {
	if len(in.reads) == 0 {
		return nil
	}
	q.Facts = policy.Facts{}
	var unknown []string
	if in.fills && in.known == nil {
		unknown = []string{"recent_blockhash"}
	}
	if err := in.reads[0].facts(tx, q.Facts, unknown...); err != nil {
		return err
	}
	all, err := in.signers(tx)
	if err != nil {
		return err
	}
	if len(all) == 1 {
		return all[0].facts(tx, q.Facts)
	}
	all = slices.SortedFunc(slices.Values(all), func(a, b *signingKey) int { // the request may list signWiths in any order
		return cmp.Or(bytes.Compare(a.owner.ID[:], b.owner.ID[:]), cmp.Compare(a.owner.No, b.owner.No))
	})
	var wallets []policy.Value
	var seen []org.ID
	for _, s := range all {
		facts := policy.Facts{}
		if err := s.facts(tx, facts); err != nil {
			return err
		}
		q.Payloads = append(q.Payloads, facts)
		if w, ok := facts["wallet"]; ok && !slices.Contains(seen, s.owner.ID) {
			seen, wallets = append(seen, s.owner.ID), append(wallets, w)
		}
	}
	q.Facts["wallets"] = policy.List(wallets...)
	return nil
}

func solSendTransaction(tx *activity.Tx, in *SolSendTransaction) (*SendStatusID, error) {
	all, err := in.signers(tx.Tx)
	if err != nil {
		return nil, err
	}
	if in.known == nil {
		return nil, errUnasked
	}
	if err := in.examine(tx.Tx); err != nil {
		return nil, err
	}
	switch {
	case in.payer != nil:
		return in.sendSponsored(tx, all)
	case activity.IsOn(in.Sponsor):
		return nil, errNoSponsor
	}
	digests := make([][]chain.Digest, len(all))
	for i, t := range in.reads {
		digests[i] = t.Digests()
	}
	made, err := signEach(tx, all, digests)
	if err != nil {
		return nil, err
	}
	return in.send(tx, in.raw, all, made)
}

// send puts a signature of each signer into its slot, and queues the transaction.
func (in *SolSendTransaction) send(tx *activity.Tx, signed []byte, all []*signingKey, made [][]chain.Signature) (*SendStatusID, error) {
	for i, s := range all { // each fills only its own slot
		t, err := readTransaction(s, "TRANSACTION_TYPE_SOLANA", signed, nil)
		if err != nil {
			return nil, err
		}
		if signed, err = t.Assemble(made[i]); err != nil {
			return nil, err
		}
	}
	name, err := sol.Signature(signed) // fails if another signature is missing
	if err != nil {
		return nil, err
	}
	return sendTransaction(tx, &org.Transaction{Chain: in.CAIP2.CAIP2(), Signed: signed, Name: name}, solSendMs)
}
