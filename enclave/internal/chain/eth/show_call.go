package eth

import (
	"bytes"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/show"
)

// A shownCall is a call as approvers are shown it: of a transaction, of a Safe, of one in a row.
type shownCall struct {
	to, data []byte
	value    *big.Int // nil for none
	foreign  bool     // the code at to runs in the place of the account
	upgrade  bool     // and is what the account will be
}

// A callReader shows the calls of one part.
type callReader struct {
	view   *show.View
	at     place
	signed bool // a right is given by the signature alone, which has a warning of its own; not so in calls
}

// show adds a call at a depth, the outermost at 1. The error is one of the view's interfaces.
func (r callReader) show(list *show.List, c shownCall, depth int) error {
	r.signed = false // what a call gives needs the call
	o := list.Object()
	kind := "CALL"
	if c.foreign {
		kind = "DELEGATECALL"
	}
	o.Plain("kind", kind)
	to := r.at.address(o, "to", c.to)
	r.at.party(o, to, "to")
	if depth > 1 && c.value != nil && c.value.Sign() > 0 {
		o.Amount("value", c.value, r.at.native)
		burn(o, to, "to")
	}
	if why := r.view.Call(depth); why != "" {
		o.Unreadable(why, c.data)
		return nil
	}
	built := contracts[to]
	if c.foreign && !strings.HasPrefix(built, multiSendCalls) {
		if !c.upgrade {
			o.Warn(show.DelegateCall)
		}
		if !strings.HasPrefix(built, multiSend) {
			o.Unreadable(show.Delegatecall, c.data)
			return nil
		}
	}
	if len(c.data) == 0 {
		return nil
	}
	return r.function(o, to, c, depth)
}

// burn warns of an account that nobody has the key of.
func burn(o *show.Object, to, member string) {
	if to == zeroAddress || to == deadAddress || to == zeroTron {
		o.Warn(show.AddressBurn, member)
	}
}

// function tells what function is called, and with what.
func (r callReader) function(o *show.Object, to string, c shownCall, depth int) error {
	digest := chain.Keccak(numberWord(uint64(len(c.data))), c.data)
	var selector [4]byte
	if copy(selector[:], c.data) < len(selector) {
		o.Digest("calldataDigest", digest[:])
		o.Unreadable(show.UnknownFunction, c.data)
		return nil
	}
	o.Digest("selector", selector[:])
	s, values, source, err := r.find(c, selector)
	if err != nil {
		return err
	}
	if s == nil {
		o.Digest("calldataDigest", digest[:])
		o.Unreadable(show.UnknownFunction, c.data)
		return nil
	}
	o.Text("function", s.signature)
	o.Plain("functionSource", source.From)
	r.view.Use(source)
	if values != nil && r.means(s, to) {
		o.Plain("meaning", s.meaning)
		r.view.Title(titles[s.meaning])
	}
	o.Digest("calldataDigest", digest[:])
	if values == nil {
		o.Unreadable(show.DoesNotDecode, c.data)
		if source.From == show.FromImage {
			o.Warn(show.BlindSignature)
			r.view.Blind()
			for _, w := range dangers[s.meaning] {
				o.Warn(w)
			}
		}
		return nil
	}
	args := o.List("args")
	for i, value := range values {
		name := s.inputs.names[i]
		r.argument(args.Entry(name), s.inputs.parts[i], value, slices.Contains(carriers[s.meaning], name))
	}
	arguments := c.data[len(selector):]
	r.writing(o, s.inputs, values, arguments)
	return r.effects(call{o, to, c.to, s, values}, c, depth)
}

// writing warns of arguments that no encoder writes so, and of bytes behind them.
func (r callReader) writing(o *show.Object, inputs *abiType, values []any, arguments []byte) {
	again := inputs.appendSequence(nil, values)
	if bytes.Equal(again, arguments) {
		return
	}
	odd := !bytes.HasPrefix(arguments, again)
	if odd {
		o.Warn(show.EncodingOdd)
	}
	if _, strict := decodeWhole(inputs, arguments); !strict {
		r.view.MarkPartial() // bytes were passed over
	}
	if len(arguments) > len(again) && !(odd && inputs.dynamic) {
		o.Trailing(arguments[len(again):])
	}
}

// find is the function with a selector, and its arguments: a standard one whatever the organization has uploaded, so that no
// interface gives it another name, else the one of the interface that is uploaded for the contract. The function is nil for none,
// the arguments are for data that do not decode.
func (r callReader) find(c shownCall, selector [4]byte) (s *standard, values []any, source show.Source, err error) {
	arguments := c.data[len(selector):]
	if s := known()[selector]; s != nil {
		values, ok := decodeWhole(s.inputs, arguments)
		if !ok {
			values, _ = decodeMasked(s.inputs, arguments)
		}
		return s, values, show.Source{From: show.FromImage}, nil
	}
	uploaded, i, err := r.interfaceOf(c.to)
	if err != nil || i == nil || i.functions[selector] == nil {
		return nil, nil, uploaded, err
	}
	s = &standard{function: *i.functions[selector]}
	values, _ = decodeWhole(s.inputs, arguments)
	return s, values, uploaded, nil
}

// interfaceOf is the interface that the organization has for a contract, nil if there is none.
func (r callReader) interfaceOf(contract []byte) (show.Source, *Interface, error) {
	if !r.at.described {
		return show.Source{}, nil, nil
	}
	uploaded, err := r.view.Interface(string(chain.ZeroX(contract)))
	i, _ := uploaded.Description.(*Interface)
	return uploaded.Source, i, err
}

// dangers are what a standard function may do at worst, by its meaning: of one whose arguments nobody can read.
var dangers = map[string][]show.Warning{
	"ERC20_APPROVE": {show.ApprovalUnlimited}, "ERC20_PERMIT": {show.ApprovalUnlimited}, "DAI_PERMIT": {show.ApprovalUnlimited},
	"PERMIT2_APPROVE": {show.ApprovalUnlimited}, "PERMIT2_PERMIT": {show.ApprovalUnlimited}, "APPROVAL_FOR_ALL": {show.ApprovalAll},
	"CONTROL": {show.ControlChange}, "PROXY_UPGRADE": {show.Upgrade}, "SAFE_SETUP": {show.ControlChange, show.DelegateCall},
	"SAFE_EXEC": {show.DelegateCall}, "SAFE_MODULE_EXEC": {show.DelegateCall}, "SAFE_MULTI_SEND": {show.DelegateCall},
}

// means tells whether a standard function has its meaning at a contract. Coins are wrapped and unwrapped only by a contract that the
// operator's list has under the name of the wrapped coin: any other may keep them.
func (r callReader) means(s *standard, to string) bool {
	switch s.meaning {
	case "":
		return false
	case "WRAP", "UNWRAP":
		t, ok := r.view.Token(r.at.caip2, to)
		return ok && r.at.native.Symbol != "" && t.Symbol == "W"+r.at.native.Symbol
	}
	return true
}

// carriers are the arguments that hold other calls, which are shown beside them.
var carriers = map[string][]string{
	"SAFE_EXEC": {"data"}, "SAFE_MODULE_EXEC": {"data"}, "SAFE_SETUP": {"data"}, "SAFE_MULTI_SEND": {"transactions"}, "PROXY_UPGRADE": {"data"},
	"MULTICALL": {"data"}, "CALLS": {"calls"}, "EXECUTE": {"data"}, "EXECUTE_BATCH": {"datas"}, "TIMELOCK": {"data", "payload"},
}

// argument sets a value of decodeWhole with its type. Of data that are shown elsewhere too, the beginning will do.
func (r callReader) argument(o *show.Object, t *abiType, value any, elsewhere bool) {
	o.Text("type", string(t.appendName(nil)))
	switch value := value.(type) {
	case *big.Int:
		o.Number("value", value)
	case bool:
		o.Bool("value", value)
	case []byte:
		switch t.kind {
		case kindAddress:
			text := r.at.text(value)
			o.Plain("address", text)
			o.Label(r.at.caip2, text, contracts[text])
		case kindString:
			o.Text("value", string(value))
		default:
			if elsewhere {
				o.Begin("value", value)
				return
			}
			o.Bytes("value", value)
		}
	case []any:
		if t.kind != kindTuple {
			items := o.List("items")
			for _, item := range value {
				r.argument(items.Object(), t.elem, item, elsewhere)
			}
			return
		}
		members := o.List("members")
		for i, part := range value {
			name := ""
			if t.names != nil {
				name = t.names[i]
			}
			r.argument(members.Entry(name), t.parts[i], part, elsewhere)
		}
	}
}

// titles say what a call does, by its meaning.
var titles = map[string]string{
	"ERC20_TRANSFER": "Send tokens", "ERC20_TRANSFER_FROM": "Move tokens of another account", "ERC20_APPROVE": "Allow another to move tokens",
	"ERC20_DECREASE": "Allow another to move fewer tokens", "ERC20_PERMIT": "Allow another to move tokens", "DAI_PERMIT": "Allow another to move tokens",
	"TOKEN_MINT": "Make new tokens", "TOKEN_BURN": "Destroy tokens", "WRAP": "Wrap coins into tokens", "UNWRAP": "Unwrap tokens into coins",
	"NFT_TRANSFER": "Send a collectible", "APPROVAL_FOR_ALL": "Allow another to move a whole collection", "VOTES_DELEGATE": "Delegate votes",
	"VAULT_DEPOSIT": "Deposit into a vault", "VAULT_WITHDRAW": "Withdraw from a vault", "PERMIT2_APPROVE": "Allow another to move tokens",
	"PERMIT2_TRANSFER": "Move tokens through Permit2", "PERMIT2_PERMIT": "Allow another to move tokens", "PERMIT2_LOCKDOWN": "Take rights to move tokens back",
	"CONTROL": "Change who controls a contract", "PAUSE": "Pause or resume a contract", "PROXY_UPGRADE": "Replace the code of a contract",
	"SAFE_EXEC": "Run a transaction of a Safe", "SAFE_MODULE_EXEC": "Run a transaction of a Safe as its module", "SAFE_APPROVE_HASH": "Approve a hash in a Safe",
	"SAFE_SETUP": "Set up a Safe", "SAFE_MULTI_SEND": "Several calls at once", "MULTICALL": "Several calls at once", "CALLS": "Several calls at once",
	"EXECUTE": "Run a call of an account", "EXECUTE_BATCH": "Several calls at once", "TIMELOCK": "Run a call after a delay",
}

// A call has been decoded as a function.
type call struct {
	out      *show.Object
	to       string
	self     []byte // the account at to
	function *standard
	values   []any
}

// value is an argument by its name, nil where there is none.
func (c *call) value(name string) any {
	if i := slices.Index(c.function.inputs.names, name); i >= 0 {
		return c.values[i]
	}
	return nil
}

func (c *call) number(names ...string) *big.Int {
	for _, name := range names {
		if n, ok := c.value(name).(*big.Int); ok {
			return n
		}
	}
	return new(big.Int)
}

func (c *call) bytes(names ...string) []byte {
	for _, name := range names {
		if b, ok := c.value(name).([]byte); ok {
			return b
		}
	}
	return nil
}

// Those whom a call names and who get nothing by it.
var losers = []string{"from", "holder", "prevOwner", "oldOwner", "prevModule", "gasToken", "paymentToken", "token"}

// effects tells what a call does that approvers must know: who gets what, and the calls in it.
func (r callReader) effects(c call, sent shownCall, depth int) error {
	for i, part := range c.function.inputs.parts {
		name := c.function.inputs.names[i]
		switch {
		case part.kind != kindAddress, slices.Contains(losers, name), name == "owner" && c.function.meaning != "CONTROL":
		default:
			r.at.party(c.out, r.at.text(c.values[i].([]byte)), "args", argumentName(name, i))
		}
	}
	switch c.function.meaning {
	case "ERC20_TRANSFER", "ERC20_TRANSFER_FROM", "TOKEN_MINT", "TOKEN_BURN":
		r.amount(c.out.Object("amount"), c.to, c.number("value"), 0)
		if to := c.bytes("to"); to != nil {
			text := r.at.text(to)
			burn(c.out, text, "args.to")
			if text == c.to {
				c.out.Warn(show.AddressBurn, "args.to")
			}
		}
		r.alone(c, sent)
	case "WRAP", "UNWRAP":
		if !r.means(c.function, c.to) {
			r.token(c.out, c.to)
			r.alone(c, sent)
		}
	case "ERC20_APPROVE", "ERC20_PERMIT":
		n := c.number("value", "addedValue")
		r.amount(c.out.Object("amount"), c.to, n, 256)
		if n.Sign() == 0 && c.function.name == "approve" && !isZero(c.bytes("spender")) {
			if err := r.collectible(c); err != nil {
				return err
			}
		}
		r.alone(c, sent)
	case "ERC20_DECREASE":
		r.amount(c.out.Object("amount"), c.to, c.number("subtractedValue"), 0)
		r.alone(c, sent)
	case "DAI_PERMIT":
		if allowed, _ := c.value("allowed").(bool); allowed {
			c.out.Warn(show.ApprovalUnlimited)
		}
		r.until(c.out, c.number("expiry"), true)
	case "PERMIT2_APPROVE":
		token := r.at.text(c.bytes("token"))
		r.amount(c.out.Object("amount"), token, c.number("amount"), 160)
		r.until(c.out, c.number("expiration"), false)
	case "PERMIT2_TRANSFER":
		r.amount(c.out.Object("amount"), r.at.text(c.bytes("token")), c.number("amount"), 0)
	case "PERMIT2_PERMIT":
		r.permit2(c)
	case "NFT_TRANSFER":
		r.token(c.out, c.to)
		r.alone(c, sent)
	case "APPROVAL_FOR_ALL":
		if all, _ := c.value("approved").(bool); all {
			c.out.Warn(show.ApprovalAll)
		}
		r.alone(c, sent)
	case "CONTROL":
		c.out.Warn(show.ControlChange)
	case "SAFE_APPROVE_HASH":
		c.out.Warn(show.BlindSignature, "args.hashToApprove")
	}
	return r.inner(c, depth)
}

// argumentName is how warnings name an argument: by its place if it has no name.
func argumentName(name string, i int) string {
	if name != "" {
		return name
	}
	return strconv.Itoa(i)
}

// alone warns of coins that go along to a function of a token, which is not known to take any.
func (r callReader) alone(c call, sent shownCall) {
	if sent.value != nil && sent.value.Sign() > 0 {
		c.out.Warn(show.ValueAlong)
	}
}

// amount makes an object an amount of a token. It is moved, or if bits is above 0 somebody may move up to as much, in a type
// of so many bits.
func (r callReader) amount(o *show.Object, token string, n *big.Int, bits uint) {
	u := r.token(o, token)
	all := bits > 0 && isUnlimited(n, bits)
	o.SetAmount(n, u, all)
	switch {
	case all:
		o.Warn(show.ApprovalUnlimited)
	case bits > 0 && n.Sign() > 0 && !r.signed:
		o.Warn(show.Approval)
	}
}

// collectible warns of an approval of 0 as a right: of a token that nobody knows it may be for the collectible with the number 0.
// One on the operator's list is fungible, and so is one whose uploaded interface has decimals and no owners of collectibles.
func (r callReader) collectible(c call) error {
	if _, listed := r.at.token(r.view, c.to); listed {
		return nil
	}
	source, i, err := r.interfaceOf(c.self)
	if err != nil {
		return err
	}
	if i != nil && i.functions[selectorDecimals] != nil && i.functions[selectorOwnerOf] == nil {
		r.view.Use(source)
		return nil
	}
	c.out.Warn(show.Approval, "amount")
	return nil
}

var (
	selectorDecimals = selector("decimals()")
	selectorOwnerOf  = selector("ownerOf(uint256)")
)

// isUnlimited tells an amount that is no bound: half of what a narrower type can hold, from 2^127 of one with 256 bits, and
// 2^96-1, which some tokens take for all.
func isUnlimited(n *big.Int, bits uint) bool {
	from := bits - 1
	if bits == 256 {
		from = 127
	}
	return n.BitLen() > int(from) || n.Cmp(most96) == 0
}

var most96 = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 96), big.NewInt(1))

// token is the unit of a token; it warns of one that nobody knows.
func (r callReader) token(o *show.Object, token string) show.Unit {
	u, ok := r.at.token(r.view, token)
	if !ok {
		o.Warn(show.TokenUnknown)
	}
	return u
}

// keepsFor is how long something may stay good without a warning, in seconds: 30 days.
const keepsFor = 30 * 24 * 60 * 60

// until sets when something ends, in seconds since 1970.
func (r callReader) until(o *show.Object, end *big.Int, zeroIsNever bool) {
	if end.Sign() == 0 && zeroIsNever || end.Cmp(big.NewInt(r.view.Now().Unix()+keepsFor)) > 0 {
		o.Warn(show.NoExpiry)
	}
	o.Time("until", end)
}

// permit2 shows the amounts of a permit that is brought to Permit2.
func (r callReader) permit2(c call) {
	permit, single := c.value("permitSingle").([]any)
	if !single {
		permit = c.value("permitBatch").([]any)
	}
	details := permit[0].([]any)
	if single {
		details = []any{details}
	}
	r.at.party(c.out, r.at.text(permit[1].([]byte)), "args.spender")
	amounts := c.out.List("amounts")
	for _, item := range details {
		d, o := item.([]any), amounts.Object()
		token := r.at.text(d[0].([]byte))
		o.Plain("token", token)
		r.amount(o, token, d[1].(*big.Int), 160)
		r.until(o, d[2].(*big.Int), false)
	}
}

// inner shows the calls that a call makes.
func (r callReader) inner(c call, depth int) error {
	var calls []shownCall
	switch c.function.meaning {
	case "SAFE_EXEC", "SAFE_MODULE_EXEC":
		if c.number("gasPrice").Sign() > 0 {
			c.out.Warn(show.SafeRefund)
		}
		calls = append(calls, shownCall{to: c.bytes("to"), value: c.number("value"), data: c.bytes("data"), foreign: c.number("operation").Sign() > 0})
	case "SAFE_SETUP":
		c.out.Warn(show.ControlChange)
		if to := c.bytes("to"); !isZero(to) {
			calls = append(calls, shownCall{to: to, data: c.bytes("data"), foreign: true})
		}
	case "PROXY_UPGRADE":
		c.out.Warn(show.Upgrade)
		if data := c.bytes("data"); len(data) > 0 {
			calls = append(calls, shownCall{to: c.bytes("newImplementation", "implementation"), data: data, foreign: true, upgrade: true})
		}
	case "SAFE_MULTI_SEND":
		packed := c.bytes("transactions")
		for len(packed) > 0 {
			one, rest, ok := unpack(packed)
			if !ok { // beside what may follow the arguments
				c.out.Object("transactions").Trailing(packed)
				break
			}
			calls, packed = append(calls, one), rest
		}
	case "MULTICALL":
		list, _ := c.value("data").([]any)
		for _, data := range list {
			calls = append(calls, shownCall{to: c.self, data: data.([]byte)})
		}
	case "CALLS":
		list, _ := c.value("calls").([]any)
		for _, tuple := range list {
			calls = append(calls, callOf(tuple.([]any)))
		}
	case "EXECUTE", "TIMELOCK":
		calls = append(calls, shownCall{to: c.bytes("target"), value: c.number("value"), data: c.bytes("data", "payload")})
	case "EXECUTE_BATCH":
		targets, _ := c.value("targets").([]any)
		values, _ := c.value("values").([]any)
		datas, _ := c.value("datas").([]any)
		if len(targets) != len(values) || len(values) != len(datas) {
			c.out.Warn(show.EncodingOdd)
			break
		}
		for i := range targets {
			calls = append(calls, shownCall{to: targets[i].([]byte), value: values[i].(*big.Int), data: datas[i].([]byte)})
		}
	}
	if len(calls) == 0 {
		return nil
	}
	return r.all(c.out.List("calls"), calls, depth+1)
}

// all shows calls in a row, as long as any are read.
func (r callReader) all(list *show.List, calls []shownCall, depth int) error {
	for i, c := range calls {
		if r.view.CallsLeft() == 0 && i > 0 {
			list.TooMany()
			return nil
		}
		if err := r.show(list, c, depth); err != nil {
			return err
		}
	}
	return nil
}

// callOf reads a tuple of an addressee, perhaps a value, and data.
func callOf(tuple []any) (c shownCall) {
	c.to = tuple[0].([]byte)
	for _, part := range tuple[1:] {
		switch part := part.(type) {
		case *big.Int:
			c.value = part
		case []byte:
			c.data = part
		}
	}
	return c
}

// unpack reads one of the transactions that MultiSend packs: the operation, the addressee, the value, the length of the data
// and the data.
func unpack(b []byte) (c shownCall, rest []byte, ok bool) {
	const head = 1 + 20 + wordSize + wordSize
	if len(b) < head {
		return c, nil, false
	}
	size := new(big.Int).SetBytes(b[head-wordSize : head])
	if !size.IsInt64() || size.Int64() > int64(len(b)-head) {
		return c, nil, false
	}
	end := head + int(size.Int64())
	return shownCall{foreign: b[0] != 0, to: b[1:21], value: new(big.Int).SetBytes(b[21:53]), data: b[head:end]}, b[end:], true
}
