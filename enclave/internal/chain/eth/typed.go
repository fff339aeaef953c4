package eth

import (
	"slices"
	"strings"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/strictjson"
)

// MaxTypedData bounds the text of typed data, in bytes.
const MaxTypedData = 1 << 20

// typedLimits bound what that text can blow up to.
var typedLimits = strictjson.Limits{Depth: 64, Items: 10_000, Members: 1000, Values: MaxTypedValues}

// MaxTypedValues bounds the values of typed data, those of types too.
const MaxTypedValues = 50_000

// TypedData is a message of EIP-712 that has been read. It is immutable and safe
// for concurrent use.
type TypedData struct {
	digest [32]byte
	facts  chain.Struct
	values int
}

// Digest is what is signed: the Keccak-256 of 0x1901, the hash of the domain and
// the hash of the message.
func (t *TypedData) Digest() [32]byte { return t.digest }

// Facts are the members of eth.eip_712. What the domain lacks is empty or 0. The message
// holds what is signed and nothing else: structs as chain.Map, lists and arrays as []any,
// numbers as int64 or *big.Int, addresses and bytes of any kind as chain.Hex with 0x. An
// intN beyond the int of policies is nil: there, but not to be read.
func (t *TypedData) Facts() chain.Struct { return t.facts }

// Values is how many values Facts hold, lists and structs among them, but for the domain and the message themselves.
func (t *TypedData) Values() int { return t.values }

type typedText struct {
	Types       map[string][]typedMember `json:"types" rule:"present"`
	PrimaryType string                   `json:"primaryType" rule:"required"`
	Domain      strictjson.Raw           `json:"domain" rule:"present"`
	Message     strictjson.Raw           `json:"message" rule:"present"`
}

type typedMember struct {
	Name string `json:"name" rule:"required"`
	Type string `json:"type" rule:"required"`
}

// ParseTypedData reads a JSON object of types, primaryType, domain and message as
// eth_signTypedData_v4 takes it, at most MaxTypedData bytes.
//
// It takes integers as JSON numbers without fraction and exponent, as decimal strings, or
// as hexadecimal strings with 0x; addresses in any case; bytes with 0x. Types may lack
// EIP712Domain, which then has the members of the domain, in the order of the EIP.
//
// Members of the message that their type does not name, and those beside the four, are in no hash, as
// the EIP has it and wallets do: they are passed over, and Facts lack them. So it is with the domain,
// unless it comes without a type: then programs disagree on them.
//
// It refuses what two programs could read in two ways: a member that is missing, null, or
// not of its type; uint and int without a size; types that hold themselves; names that
// Solidity does not allow. The primary type alone may have ':', '.' or '-' in its name,
// as some chains want it, but holds no structs then: programs disagree on its hash.
//
// The errors are *fault.Error (InvalidArgument) with the field `payload` and, in the text,
// the path of what is at fault.
func ParseTypedData(text []byte) (*TypedData, error) {
	r := newTypedReader()
	_, facts, digest, err := r.parse(text)
	if err != nil {
		return nil, err
	}
	return &TypedData{digest, facts, r.values}, nil
}

func newTypedReader() typedReader {
	return typedReader{types: map[string]*valueType{}, structs: map[string]*structType{}, left: maxHashedTypes}
}

// parse reads the text of typed data.
func (r *typedReader) parse(text []byte) (primaryType string, facts chain.Struct, digest [32]byte, err error) {
	if len(text) > MaxTypedData {
		return "", nil, digest, badPayload("typed data", "more than %d bytes", MaxTypedData)
	}
	var in typedText
	if err := strictjson.Decode(text, &in, strictjson.AllowUnknownOutermost(), strictjson.Within(typedLimits)); err != nil {
		return "", nil, digest, badJSON("typed data", err)
	}
	facts, digest, m := r.read(&in)
	if m != nil {
		return "", nil, digest, badPayload("typed data", "%s", m)
	}
	return in.PrimaryType, facts, digest, nil
}

func (r *typedReader) read(in *typedText) (facts chain.Struct, digest [32]byte, m *misfit) {
	if m = r.define(in.Types); m != nil {
		return nil, digest, m.inField("types")
	}
	primary := r.structs[in.PrimaryType]
	if primary == nil || in.PrimaryType == domainType {
		return nil, digest, refusal("must name one of the types, other than " + domainType).inField("primaryType")
	}
	domainFacts, domainHash, m := r.domain(in.Domain)
	if m != nil {
		return nil, digest, m.inField("domain")
	}
	r.cursor = cursor{text: in.Message}
	hash, message, m := r.object(primary)
	if m != nil {
		return nil, digest, m.inField("message")
	}
	r.domainHash, r.messageHash = domainHash, hash
	digest = chain.Keccak([]byte{0x19, 1}, domainHash[:], hash[:])
	return chain.Struct{"primary_type": in.PrimaryType, "domain": domainFacts, "message": chain.Dynamic{Value: message}}, digest, nil
}

// domainType is the type of the domain. Its members have the types of the EIP, or also
// another: chainId any uintN, and where the EIP says address or bytes32, text, as chains
// that are not Ethereum's write.
const domainType = "EIP712Domain"

type domainMember struct {
	name, typ string
	also      kind
	fact      string // the name that policies read it by
	absent    any
}

var domainMembers = []domainMember{
	{"name", "string", kindNone, "name", ""},
	{"version", "string", kindNone, "version", ""},
	{"chainId", "uint256", kindUint, "chain_id", int64(0)},
	{"verifyingContract", "address", kindString, "verifying_contract", chain.Hex("")},
	{"salt", "bytes32", kindString, "", nil},
}

// domain reads the domain. All that policies see of it is part of its hash.
func (r *typedReader) domain(raw strictjson.Raw) (facts chain.Struct, hash [32]byte, m *misfit) {
	typ := r.structs[domainType]
	if typ == nil {
		if typ, m = r.derive(raw); m != nil {
			return nil, hash, m
		}
	}
	r.cursor = cursor{text: raw}
	hash, values, m := r.object(typ)
	if m != nil {
		return nil, hash, m
	}
	r.domainType, r.domainValues = typ, values
	facts = chain.Struct{}
	for _, known := range domainMembers {
		if known.fact == "" {
			continue
		}
		if facts[known.fact] = known.absent; values[known.name] != nil {
			facts[known.fact] = values[known.name]
		}
	}
	return facts, hash, nil
}

// derive makes the type of a domain that comes without one.
func (r *typedReader) derive(raw strictjson.Raw) (*structType, *misfit) {
	c := cursor{text: raw}
	if !c.enter('{') {
		return nil, refusal("must be an object")
	}
	there := make([]bool, len(domainMembers))
	for c.hasNext('}') {
		name := string(c.name())
		c.skip()
		i := slices.IndexFunc(domainMembers, func(known domainMember) bool { return known.name == name })
		if i < 0 {
			return nil, refusal("is no member that domains have").inField(quoteShort(name))
		}
		there[i] = true
	}
	var members []typedMember
	for i, known := range domainMembers {
		if there[i] {
			members = append(members, typedMember{known.name, known.typ})
		}
	}
	s := &structType{name: domainType}
	return s, r.fill(s, members)
}

func checkDomain(s *structType) *misfit {
	for _, m := range s.members {
		fits := func(known domainMember) bool {
			return m.name == known.name && (m.typ.name == known.typ || m.typ.kind == known.also && known.also != kindNone && len(m.typ.dimensions) == 0)
		}
		if !slices.ContainsFunc(domainMembers, fits) {
			return refusal("is no member that domains have, or not of its type").inField(m.name)
		}
	}
	return nil
}

func badPayload(what, format string, args ...any) error {
	return fault.Field("payload", "invalid "+what+": "+format, args...)
}

// badJSON refuses a payload that strictjson has refused.
func badJSON(what string, err error) error {
	f := fault.Of(err)
	if f == nil {
		return err
	}
	return badPayload(what, "%s", strings.TrimPrefix(f.Message, "invalid request body: "))
}
