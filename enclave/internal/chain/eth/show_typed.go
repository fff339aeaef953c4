package eth

import (
	"math/big"
	"slices"
	"strings"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/show"
)

// A TypedMessage is typed data that have been read for approvers: with nothing left out that policies have no form for. It is
// shown once.
type TypedMessage struct {
	reader      *typedReader
	primaryType string
	message     chain.Map
	digest      [32]byte

	out      *show.Object
	calls    callReader
	contract string // that verifies, empty where the domain names none
	carries  bool   // data of calls, which are shown beside the message
}

// ReadTypedMessage reads typed data for approvers. It takes what ParseTypedData takes, with the same errors.
func ReadTypedMessage(text []byte) (*TypedMessage, error) {
	r := newTypedReader()
	r.whole = true
	primaryType, facts, digest, err := r.parse(text)
	if err != nil {
		return nil, err
	}
	message, _ := facts["message"].(chain.Dynamic).Value.(chain.Map)
	return &TypedMessage{reader: &r, primaryType: primaryType, message: message, digest: digest}, nil
}

// Digest is what is signed, as of TypedData.
func (s *TypedMessage) Digest() [32]byte { return s.digest }

// Show shows the domain, the message in the order of its types, and what a signature of it does where the types are those of a
// standard.
func (s *TypedMessage) Show(v *show.View, o *show.Object) error {
	r := s.reader
	primary := r.structs[s.primaryType]
	encoded := r.encodeType(primary)
	s.out, s.carries = o, slices.Contains([]string{safeTxTypes, safeTxOldTypes, executionTypes}, encoded)
	o.Text("primaryType", s.primaryType)
	o.Text("encodeType", encoded)
	s.domain(v, o.Object("domain"))
	o.Digest("domainHash", r.domainHash[:])
	o.Digest("messageHash", r.messageHash[:])
	s.members(o.List("message"), primary, s.message)
	if len(r.unsigned) > 0 {
		unsigned := o.List("unsigned")
		for _, name := range r.unsigned {
			unsigned.Entry(name)
		}
	}
	err := s.effects(encoded)
	v.Title("Sign typed data")
	return err
}

// domain shows what the signature is bound to.
func (s *TypedMessage) domain(v *show.View, o *show.Object) {
	values := s.reader.domainValues
	s.calls = callReader{view: v, at: placeOf(0), signed: true}
	id, bound := values["chainId"].(*big.Int)
	if bound && id.IsUint64() {
		s.calls.at = placeOf(id.Uint64())
	}
	for _, m := range s.reader.domainType.members {
		switch value := values[m.name].(type) {
		case *big.Int:
			o.Number(m.name, value)
		case string:
			o.Text(m.name, value)
		case []byte:
			if m.typ.kind != kindAddress {
				o.Digest(m.name, value)
				continue
			}
			s.contract = s.calls.at.address(o, m.name, value)
			s.calls.at.party(o, s.contract, m.name)
		}
	}
	if bound && s.calls.at.net.name == "" {
		o.Warn(show.ChainUnknown, "chainId")
	}
	if !bound || values["verifyingContract"] == nil {
		o.Warn(show.DomainOpen)
	}
	name, _ := values["name"].(string)
	for _, known := range []string{permit2, seaport, "TKGasDelegate"} {
		built := strings.HasPrefix(contracts[s.contract], known)
		switch {
		case built || known == "TKGasDelegate": // which verifies at the address of each account
		case name == known || show.LooksLikeName(name, known):
			o.Warn(show.DomainFalse, "name")
		}
	}
}

// members shows the members of a struct in the order of its type.
func (s *TypedMessage) members(list *show.List, t *structType, values chain.Map) {
	for i := range t.members {
		m := &t.members[i]
		o := list.Entry(m.name)
		o.Text("type", m.typ.name)
		s.value(o, m.typ, len(m.typ.dimensions), values[m.name])
	}
}

// value shows a value; left are the dimensions of lists that it still has.
func (s *TypedMessage) value(o *show.Object, t *valueType, left int, value any) {
	switch value := value.(type) {
	case []any:
		items := o.List("items")
		for _, item := range value {
			s.value(items.Object(), t, left-1, item)
		}
	case chain.Map:
		s.members(o.List("members"), t.of, value)
	case *big.Int:
		o.Number("value", value)
	case bool:
		o.Bool("value", value)
	case string:
		o.Text("value", value)
	case []byte:
		switch {
		case t.kind == kindAddress:
		case s.carries:
			o.Begin("value", value)
			return
		default:
			o.Bytes("value", value)
			return
		}
		text := chain.ChecksumAddress(value)
		o.Plain("address", text)
		o.Label(s.calls.at.caip2, text, contracts[text])
	}
}

// The types of standards.
const (
	permitTypes          = "Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)"
	daiPermitTypes       = "Permit(address holder,address spender,uint256 nonce,uint256 expiry,bool allowed)"
	transferTypes        = "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
	receiveTypes         = "ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
	permitDetails        = "PermitDetails(address token,uint160 amount,uint48 expiration,uint48 nonce)"
	permitSingleTypes    = "PermitSingle(PermitDetails details,address spender,uint256 sigDeadline)" + permitDetails
	permitBatchTypes     = "PermitBatch(PermitDetails[] details,address spender,uint256 sigDeadline)" + permitDetails
	tokenPermissions     = "TokenPermissions(address token,uint256 amount)"
	permitTransferTypes  = "PermitTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline)" + tokenPermissions
	permitTransfersTypes = "PermitBatchTransferFrom(TokenPermissions[] permitted,address spender,uint256 nonce,uint256 deadline)" + tokenPermissions
	permitWitness        = "PermitWitnessTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,"
	permitsWitness       = "PermitBatchWitnessTransferFrom(TokenPermissions[] permitted,address spender,uint256 nonce,uint256 deadline,"
	safeTxTypes          = "SafeTx(address to,uint256 value,bytes data,uint8 operation,uint256 safeTxGas,uint256 baseGas,uint256 gasPrice,address gasToken,address refundReceiver,uint256 nonce)"
	safeTxOldTypes       = "SafeTx(address to,uint256 value,bytes data,uint8 operation,uint256 safeTxGas,uint256 dataGas,uint256 gasPrice,address gasToken,address refundReceiver,uint256 nonce)"
	safeMessageTypes     = "SafeMessage(bytes message)"
	executionTypes       = "BatchExecution(uint128 nonce,uint32 deadline,Call[] calls)Call(address to,uint256 value,bytes data)"
	orderTypes           = "OrderComponents(address offerer,address zone,OfferItem[] offer,ConsiderationItem[] consideration,uint8 orderType,uint256 startTime,uint256 endTime,bytes32 zoneHash,uint256 salt,bytes32 conduitKey,uint256 counter)" +
		"ConsiderationItem(uint8 itemType,address token,uint256 identifierOrCriteria,uint256 startAmount,uint256 endAmount,address recipient)" +
		"OfferItem(uint8 itemType,address token,uint256 identifierOrCriteria,uint256 startAmount,uint256 endAmount)"
)

// effects tells what a signature does. A meaning is told only where the contract that verifies is known to mean it: of a
// standard of tokens any, else a built-in one.
func (s *TypedMessage) effects(encoded string) error {
	v := s.calls.view
	built := contracts[s.contract]
	mean := func(meaning, title string, known bool) bool {
		if known {
			s.out.Plain("meaning", meaning)
			v.Title(title)
		}
		return known
	}
	isPermit2 := built == permit2
	const allow, move = "Allow another to move tokens", "Let another move tokens once"
	switch encoded {
	case permitTypes:
		mean("ERC2612_PERMIT", allow, true)
		s.permit("spender")
		s.calls.amount(s.out.Object("amount"), s.contract, s.number("value"), 256)
		s.calls.until(s.out, s.number("deadline"), false)
	case daiPermitTypes:
		mean("DAI_PERMIT", allow, true)
		s.permit("spender")
		s.calls.token(s.out, s.contract)
		if allowed, _ := s.message["allowed"].(bool); allowed {
			s.out.Warn(show.ApprovalUnlimited, "message.allowed")
		}
		s.calls.until(s.out, s.number("expiry"), true)
	case transferTypes, receiveTypes:
		mean("ERC3009_TRANSFER", "Send tokens", true)
		s.permit("to")
		s.calls.amount(s.out.Object("amount"), s.contract, s.number("value"), 0)
		s.calls.until(s.out, s.number("validBefore"), false)
	case permitSingleTypes, permitBatchTypes:
		s.permit("spender")
		meaning := "PERMIT2_SINGLE"
		if encoded == permitBatchTypes {
			meaning = "PERMIT2_BATCH"
		}
		if mean(meaning, allow, isPermit2) {
			s.amounts("details", 160)
		}
	case permitTransferTypes, permitTransfersTypes:
		s.permit("spender")
		if mean("PERMIT2_TRANSFER", move, isPermit2) {
			s.amounts("permitted", 256)
		}
		s.calls.until(s.out, s.number("deadline"), false)
	case safeTxTypes, safeTxOldTypes:
		mean("SAFE_TX", "Approve a transaction of a Safe", true)
		return s.safe()
	case safeMessageTypes:
		mean("SAFE_MESSAGE", "Sign a message as a Safe", true)
		s.safeMessage()
	case executionTypes:
		mean("DELEGATE_EXECUTION", "Several calls at once", s.reader.domainHash != [32]byte{} && s.reader.domainValues["name"] == "TKGasDelegate")
		return s.execution()
	case orderTypes:
		if mean("SEAPORT_ORDER", "Place an order", strings.HasPrefix(built, seaport)) {
			s.order()
		}
	default:
		if strings.HasPrefix(encoded, permitWitness) || strings.HasPrefix(encoded, permitsWitness) {
			s.permit("spender")
			if mean("PERMIT2_TRANSFER", move, isPermit2) {
				s.amounts("permitted", 256)
			}
			s.calls.until(s.out, s.number("deadline"), false)
		}
	}
	return nil
}

func (s *TypedMessage) number(name string) *big.Int { return numberIn(s.message, name) }

func numberIn(m chain.Map, name string) *big.Int {
	if n, ok := m[name].(*big.Int); ok {
		return n
	}
	return new(big.Int)
}

func accountIn(m chain.Map, name string) string {
	b, _ := m[name].([]byte)
	return chain.ChecksumAddress(b)
}

// permit warns of a signature that is a right to tokens.
func (s *TypedMessage) permit(to string) {
	s.out.Warn(show.Permit)
	s.calls.at.party(s.out, accountIn(s.message, to), "message."+to)
}

// amounts shows what a permit of Permit2 lets move: one token or many.
func (s *TypedMessage) amounts(member string, bits uint) {
	list := s.out.List("amounts")
	tokens, many := s.message[member].([]any)
	if !many {
		tokens = []any{s.message[member]}
	}
	for _, token := range tokens {
		m := token.(chain.Map)
		o := list.Object()
		address := accountIn(m, "token")
		o.Plain("token", address)
		s.calls.amount(o, address, numberIn(m, "amount"), bits)
		if m["expiration"] != nil {
			s.calls.until(o, numberIn(m, "expiration"), false)
		}
	}
}

// safe shows what owners of a Safe agree to.
func (s *TypedMessage) safe() error {
	if s.number("gasPrice").Sign() > 0 {
		s.out.Warn(show.SafeRefund)
		s.calls.at.party(s.out, accountIn(s.message, "refundReceiver"), "message.refundReceiver")
	}
	c := shownCall{value: s.number("value"), foreign: s.number("operation").Sign() > 0}
	c.to, _ = s.message["to"].([]byte)
	c.data, _ = s.message["data"].([]byte)
	return s.calls.show(s.out.List("calls"), c, 2) // like one in a transaction: with its value
}

// safeMessage shows the text that owners of a Safe sign, and says so if it is none: what is hashed may be another signature of the Safe.
func (s *TypedMessage) safeMessage() {
	switch message, _ := s.message["message"].([]byte); {
	case IsDigest(message):
		s.out.Unreadable(show.Digest, message)
	case isReadable(message):
		s.out.Lines("lines", string(message))
	default:
		s.out.Unreadable(show.DoesNotDecode, message)
		s.out.Warn(show.BlindSignature)
		s.calls.view.Blind()
	}
}

// execution shows the calls that an account lets its delegate make.
func (s *TypedMessage) execution() error {
	s.calls.until(s.out, s.number("deadline"), false)
	list, _ := s.message["calls"].([]any)
	var calls []shownCall
	for _, item := range list {
		m := item.(chain.Map)
		c := shownCall{value: numberIn(m, "value")}
		c.to, _ = m["to"].([]byte)
		c.data, _ = m["data"].([]byte)
		calls = append(calls, c)
	}
	return s.calls.all(s.out.List("calls"), calls, 2)
}

// order shows what an order of Seaport gives and gets.
func (s *TypedMessage) order() {
	offerer := accountIn(s.message, "offerer")
	gives, _ := s.message["offer"].([]any)
	list := s.out.List("gives")
	for _, item := range gives {
		s.orderItem(list.Object(), item.(chain.Map), true)
	}
	gets, others := s.out.List("gets"), []chain.Map{}
	n := 0
	asked, _ := s.message["consideration"].([]any)
	for _, item := range asked {
		m := item.(chain.Map)
		switch least := least(m); {
		case accountIn(m, "recipient") != offerer:
			others = append(others, m)
		case least.Sign() > 0:
			n++
			s.orderItem(gets.Object(), m, false)
		}
	}
	if len(others) > 0 {
		paid := s.out.List("getsOthers")
		for _, m := range others {
			o := paid.Object()
			o.Plain("recipient", accountIn(m, "recipient"))
			s.calls.at.party(o, accountIn(m, "recipient"), "recipient")
			s.orderItem(o, m, false)
		}
	}
	if n == 0 && len(gives) > 0 {
		s.out.Warn(show.OrderGiveaway)
	}
	s.calls.until(s.out, s.number("endTime"), false)
}

func least(m chain.Map) *big.Int {
	start, end := numberIn(m, "startAmount"), numberIn(m, "endAmount")
	if start.Cmp(end) < 0 {
		return start
	}
	return end
}

// orderItem shows a coin, tokens or a collectible of an order: the most that is given, the least that is got.
func (s *TypedMessage) orderItem(o *show.Object, m chain.Map, most bool) {
	n := least(m)
	if start, end := numberIn(m, "startAmount"), numberIn(m, "endAmount"); most && n.Cmp(start) == 0 {
		n = end
	} else if most {
		n = start
	}
	token := accountIn(m, "token")
	switch typ := numberIn(m, "itemType").Int64(); typ {
	case 0:
		o.SetAmount(n, s.calls.at.native, false)
	case 1:
		o.Plain("token", token)
		s.calls.amount(o, token, n, 0)
	default:
		o.Plain("token", token)
		o.Number("id", numberIn(m, "identifierOrCriteria"))
		o.Number("value", n)
		s.calls.token(o, token)
	}
}
