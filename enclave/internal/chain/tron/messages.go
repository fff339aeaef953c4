package tron

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"unicode/utf8"

	"cloister/enclave/internal/chain"
)

// The wire types of protocol buffers that are in use: the low bits of a tag, above
// which is the number of the field.
const (
	wireVarint = 0
	wireBytes  = 2
	wireBits   = 3
	maxField   = 1<<29 - 1
)

// A message is a kind of protocol buffer and what is read of it.
type message struct {
	name    string
	members []member
}

// A member is a field, under the name that policies know.
type member struct {
	number uint64
	name   string
	shape
}

type shape uint8

const (
	number      shape = iota // int64, not negative
	small                    // int32, not negative
	flag                     // bool
	octets                   // bytes; the fact is hexadecimal
	nested                   // bytes that are another message, as []byte
	utf8Text                 // string
	address                  // 21 bytes, always there; the fact is base58
	resource                 // enum ResourceCode
	role                     // enum Permission.PermissionType
	permission               // message Permission; no fact when absent
	permissions              // the same, repeated
	keys                     // message Key, repeated
	contracts                // message Transaction.Contract, repeated
)

// shapes tells which values are written as bytes, and how many a list may have.
var shapes = [...]struct {
	bytes bool
	most  int
}{
	octets: {bytes: true}, nested: {bytes: true}, utf8Text: {bytes: true}, address: {bytes: true}, permission: {bytes: true},
	permissions: {true, 8}, // the network's own bound
	keys:        {true, 32},
	contracts:   {true, 1}, // likewise
}

// Messages of the network's protocol, api and core. The network has given up the fields
// that are not here: ref_block_num, auths and scripts of raw_data, provider and
// ContractName of Contract.
var (
	rawData = message{"raw_data", []member{{1, "ref_block_bytes", octets}, {4, "ref_block_hash", octets}, {8, "expiration", number},
		{10, "data", octets}, {11, "contract", contracts}, {14, "timestamp", number}, {18, "fee_limit", number}}}
	contractHead   = message{"contract", []member{{1, "type", small}, {2, "parameter", nested}, {5, "permission_id", small}}}
	anyMessage     = message{"parameter", []member{{1, "type_url", utf8Text}, {2, "value", nested}}}
	permissionBody = message{"Permission", []member{{1, "type", role}, {2, "id", small}, {3, "permission_name", utf8Text}, {4, "threshold", number},
		{5, "parent_id", small}, {6, "operations", octets}, {7, "keys", keys}}}
	keyBody = message{"Key", []member{{1, "address", address}, {2, "weight", number}}}
)

// contractTypes are the contracts that are read, by ContractType.
var contractTypes = map[int64]message{
	1: {"TransferContract", []member{{1, "owner_address", address}, {2, "to_address", address}, {3, "amount", number}}},
	31: {"TriggerSmartContract", []member{{1, "owner_address", address}, {2, "contract_address", address}, {3, "call_value", number},
		{4, "data", octets}, {5, "call_token_value", number}, {6, "token_id", number}}},
	46: {"AccountPermissionUpdateContract", []member{{1, "owner_address", address}, {2, "owner", permission}, {3, "witness", permission},
		{4, "actives", permissions}}},
	54: {"FreezeBalanceV2Contract", []member{{1, "owner_address", address}, {2, "frozen_balance", number}, {3, "resource", resource}}},
	55: {"UnfreezeBalanceV2Contract", []member{{1, "owner_address", address}, {2, "unfreeze_balance", number}, {3, "resource", resource}}},
	57: {"DelegateResourceContract", []member{{1, "owner_address", address}, {2, "resource", resource}, {3, "balance", number},
		{4, "receiver_address", address}, {5, "lock", flag}, {6, "lock_period", number}}},
	58: {"UnDelegateResourceContract", []member{{1, "owner_address", address}, {2, "resource", resource}, {3, "balance", number},
		{4, "receiver_address", address}}},
}

const urlPrefix = "type.googleapis.com/protocol."

var (
	resources = []string{"BANDWIDTH", "ENERGY", "TRON_POWER"}
	roles     = []string{"Owner", "Witness", "Active"}
)

// readContract reads a contract and its parameter into one struct.
func readContract(b []byte) (any, error) {
	head, err := contractHead.read(b)
	if err != nil {
		return nil, err
	}
	body, ok := contractTypes[head["type"].(int64)]
	if !ok {
		return nil, chain.Unsupported("contract type %d", head["type"])
	}
	parameter, err := anyMessage.read(head["parameter"].([]byte))
	if err != nil {
		return nil, err
	}
	if parameter["type_url"] != urlPrefix+body.name {
		return nil, chain.Invalid("contract type %d is %s and parameter.type_url says otherwise", head["type"], body.name)
	}
	facts, err := body.read(parameter["value"].([]byte))
	if err != nil {
		return nil, err
	}
	facts["type"], facts["permission_id"] = body.name, head["permission_id"]
	return facts, nil
}

// A field is one number of a message and its value: a varint, or bytes.
type field struct {
	number  uint64
	bytes   bool
	varint  uint64
	content []byte
}

// read takes a message apart. A member that is not there gets its default.
func (m *message) read(b []byte) (chain.Struct, error) {
	facts := make(chain.Struct, len(m.members)+2)
	last := uint64(0)
	for len(b) > 0 {
		f, n := readField(b)
		if n == 0 {
			return nil, chain.Invalid("%s is no protocol buffer in its shortest form", m.name)
		}
		b = b[n:]
		at := slices.IndexFunc(m.members, func(is member) bool { return is.number == f.number })
		if at < 0 {
			return nil, chain.Unsupported("field %d of %s", f.number, m.name)
		}
		is := &m.members[at]
		if f.bytes != shapes[is.shape].bytes {
			return nil, chain.Invalid("%s.%s has the wrong type", m.name, is.name)
		}
		most := shapes[is.shape].most
		if f.number < last || f.number == last && most == 0 {
			return nil, chain.Invalid("%s.%s comes twice or too late", m.name, is.name)
		}
		last = f.number
		if f.varint == 0 && len(f.content) == 0 {
			return nil, chain.Invalid("%s.%s is empty and must be left out", m.name, is.name)
		}
		value, err := is.value(m, f)
		if err != nil {
			return nil, err
		}
		if most > 0 {
			list, _ := facts[is.name].([]any)
			if len(list) == most {
				return nil, chain.Invalid("%s.%s numbers more than %d", m.name, is.name, most)
			}
			value = append(list, value)
		}
		facts[is.name] = value
	}
	return facts, m.fill(facts)
}

// readField reads the field that b begins with and tells its size. It is 0 for a varint that is
// not the shortest, bytes that are not all there, and a wire type that is not in use.
func readField(b []byte) (f field, size int) {
	tag, n := varint(b)
	f.number = tag >> wireBits
	if n == 0 || f.number == 0 || f.number > maxField {
		return f, 0
	}
	v, more := varint(b[n:])
	if more == 0 {
		return f, 0
	}
	n += more
	switch tag & (1<<wireBits - 1) {
	case wireVarint:
		f.varint = v
		return f, n
	case wireBytes:
		if v > uint64(len(b)-n) {
			return f, 0
		}
		f.bytes, f.content = true, b[n:n+int(v)]
		return f, n + int(v)
	}
	return f, 0
}

// varint reads a varint in its shortest form; the size is 0 if there is none.
func varint(b []byte) (v uint64, size int) {
	v, n := binary.Uvarint(b)
	if n <= 0 || n > 1 && b[n-1] == 0 {
		return 0, 0
	}
	return v, n
}

// value is the fact that a field of message m tells.
func (is *member) value(m *message, f field) (any, error) {
	switch is.shape {
	case number, small:
		limit := uint64(math.MaxInt64)
		if is.shape == small {
			limit = math.MaxInt32
		}
		if f.varint > limit {
			return nil, chain.Invalid("%s.%s is negative or too large", m.name, is.name)
		}
		return int64(f.varint), nil
	case flag:
		if f.varint > 1 {
			return nil, chain.Invalid("%s.%s is neither true nor false", m.name, is.name)
		}
		return f.varint == 1, nil
	case resource:
		return is.enumName(m, resources, f.varint)
	case role:
		return is.enumName(m, roles, f.varint)
	case octets:
		return chain.Hex(hex.EncodeToString(f.content)), nil
	case nested:
		return f.content, nil
	case utf8Text:
		if !utf8.Valid(f.content) {
			return nil, chain.Invalid("%s.%s is not UTF-8", m.name, is.name)
		}
		return string(f.content), nil
	case address:
		if len(f.content) != addressSize || f.content[0] != prefix {
			return nil, chain.Invalid("%s.%s must be an address: %d bytes that begin with %x", m.name, is.name, addressSize, prefix)
		}
		return text(f.content), nil
	case permission, permissions:
		return permissionBody.read(f.content)
	case keys:
		return keyBody.read(f.content)
	}
	return readContract(f.content)
}

func (is *member) enumName(m *message, names []string, v uint64) (any, error) {
	if v >= uint64(len(names)) {
		return nil, chain.Unsupported("%s.%s %d", m.name, is.name, v)
	}
	return names[v], nil
}

func (m *message) fill(facts chain.Struct) error {
	for i := range m.members {
		is := &m.members[i]
		var err error
		switch _, there := facts[is.name]; {
		case there || is.shape == permission:
		case is.shape == address:
			err = chain.Invalid("%s.%s is missing", m.name, is.name)
		case shapes[is.shape].most > 0:
			facts[is.name] = []any(nil)
		default:
			facts[is.name], err = is.value(m, field{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
