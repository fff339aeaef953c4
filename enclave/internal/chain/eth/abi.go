package eth

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/strictjson"
)

// MaxInterface bounds the text of a contract's interface, in bytes.
const MaxInterface = 400_000

// interfaceLimits bound what the text of an interface can blow up to. Solidity
// nests a few levels.
var interfaceLimits = strictjson.Limits{Depth: 31, Items: 10_000, Members: 1000, Values: 400_000}

// An Interface is a contract's ABI: it knows the functions by their selectors and
// reads the data of calls. It is immutable and safe for concurrent use.
type Interface struct {
	functions map[[4]byte]*function
}

type function struct {
	name      string
	signature string   // such as transfer(address,uint256)
	names     []string // of the inputs, empty where they have none
	inputs    *abiType // a tuple
}

var errNoABI = errors.New("no JSON array of objects")

// Describe reads the interface of a contract: an array of objects as Solidity's
// compiler writes it, of at most MaxInterface bytes. It answers an *Interface. It
// passes over members that it does not know; it checks events, errors and the like,
// and forgets them. It refuses what would make the meaning of a call uncertain: two
// functions with one selector, unless they are the same in all that policies see, and
// two inputs of a function with one name.
func (Chain) Describe(text string) (chain.Description, error) {
	if len(text) > MaxInterface {
		return nil, fmt.Errorf("more than %d bytes", MaxInterface)
	}
	var abi strictjson.Raw
	if err := strictjson.Decode([]byte(text), &abi, strictjson.Within(interfaceLimits)); err != nil {
		return nil, errNoABI
	}
	r := abiReader{cursor: cursor{text: abi}, types: map[string]*abiType{}, made: &Interface{map[[4]byte]*function{}}, left: fewTypes + len(text)/typeText}
	if !r.enter('[') {
		return nil, errNoABI
	}
	for n := 0; r.hasNext(']'); n++ {
		if err := r.item(); err != nil {
			return nil, fmt.Errorf("item %d: %w", n, err)
		}
	}
	return r.made, nil
}

type abiReader struct {
	cursor
	types map[string]*abiType // by name, but for tuples
	made  *Interface
	left  int // types that may still be made
}

// An interface may hold fewTypes types, and one more for each typeText bytes of its text,
// which bounds their memory. A name of 255 bytes can stand for a hundred lists of lists.
const (
	typeText = 8
	fewTypes = 1024
)

// item reads a function, an event or what else an interface lists. A member that
// is null is none.
func (r *abiReader) item() error {
	if !r.enter('{') {
		return errNoABI
	}
	typ, f := []byte("function"), function{}
	var inputs []*abiType
	for r.hasNext('}') {
		key := r.name()
		if r.null() {
			continue
		}
		var err error
		switch string(key) {
		case "type":
			if typ, _ = r.string(); typ == nil {
				return errors.New("unknown type")
			}
		case "name":
			name, ok := r.string()
			if !ok {
				r.skip()
			}
			f.name = string(name)
		case "inputs":
			f.names, inputs, err = r.params()
		case "outputs":
			_, _, err = r.params()
		default:
			r.skip()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	switch string(typ) {
	case "constructor", "receive", "fallback":
		return nil
	case "function", "event", "error":
	default:
		return errors.New("unknown type")
	}
	if !isIdentifier(f.name) {
		return errors.New("no name")
	}
	if string(typ) != "function" {
		return nil
	}
	f.inputs = tupleOf(inputs)
	f.inputs.names = f.names
	return r.made.add(&f)
}

func (i *Interface) add(f *function) error {
	seen := make(map[string]bool, len(f.names))
	for _, name := range f.names {
		if name != "" && seen[name] {
			return fmt.Errorf("two inputs have the name %s", name)
		}
		seen[name] = true
	}
	signature := f.inputs.appendName([]byte(f.name))
	sum := chain.Keccak(signature)
	selector := [4]byte(sum[:4])
	f.signature = string(signature)
	switch old := i.functions[selector]; {
	case old == nil:
		i.functions[selector] = f
	case old.signature != f.signature:
		return fmt.Errorf("%.80s has the same selector as %.80s", f.signature, old.signature)
	case !slices.Equal(old.names, f.names):
		return fmt.Errorf("%.80s is there twice, with other names of inputs", f.signature)
	}
	return nil
}

// params reads inputs, outputs or the components of a tuple.
func (r *abiReader) params() (names []string, types []*abiType, err error) {
	if !r.enter('[') {
		return nil, nil, errors.New("no array of objects")
	}
	for n := 0; r.hasNext(']'); n++ {
		name, typ, err := r.param()
		if err != nil {
			return nil, nil, fmt.Errorf("%d: %w", n, err)
		}
		names, types = append(names, name), append(types, typ)
	}
	return names, types, nil
}

func (r *abiReader) param() (name string, typ *abiType, err error) {
	if !r.enter('{') {
		return "", nil, errors.New("no object")
	}
	var text string
	var tuple *abiType
	for r.hasNext('}') {
		key := r.name()
		if r.null() {
			continue
		}
		switch string(key) {
		case "name":
			s, ok := r.string()
			if name = string(s); !ok || name != "" && !isIdentifier(name) {
				return "", nil, errors.New("no name")
			}
		case "type":
			s, ok := r.string()
			if text = string(s); !ok {
				return "", nil, errors.New("unknown type")
			}
		case "components":
			names, types, err := r.params()
			if err != nil {
				return "", nil, err
			}
			tuple = tupleOf(types)
			tuple.names = names
		default:
			r.skip()
		}
	}
	known := r.types[text]
	if typ = known; tuple != nil || typ == nil {
		typ = typeOf(text, tuple)
		for t := typ; t != nil; t = t.elem {
			r.left--
		}
	}
	switch {
	case typ == nil:
		return "", nil, errors.New("unknown type")
	case r.left < 0:
		return "", nil, errors.New("more types than a text of this length may have")
	case (typ.innermost().kind == kindTuple) != (tuple != nil):
		return "", nil, errors.New("a tuple, and nothing else, has components")
	case tuple == nil && known == nil:
		r.types[text] = typ
	}
	return name, typ, nil
}

type abiType struct {
	kind    kind
	signed  bool // of kindDecimal
	dynamic bool // its place holds an offset
	size    int
	name    string     // of what has no parts
	elem    *abiType   // of lists and arrays
	count   int        // of arrays
	parts   []*abiType // of tuples
	names   []string   // of the parts; approvers see them, policies do not
	head    uint64     // how many bytes it takes in place; from hugeHead on it does not matter
}

const (
	wordSize = 32
	hugeHead = 1 << 40 // more than any data can hold
)

// typeOf reads the name of a type, nil if there is none. tuple is what the word tuple
// in the name stands for; nil stands for a tuple of nothing.
func typeOf(name string, tuple *abiType) *abiType {
	if len(name) > maxTypeText {
		return nil
	}
	if of, count, ok := dimension(name); ok {
		elem := typeOf(of, tuple)
		if elem == nil {
			return nil
		}
		t := &abiType{kind: kindList, dynamic: true, elem: elem, count: count, head: wordSize}
		if count > 0 {
			t.kind, t.dynamic = kindArray, elem.dynamic
			if !t.dynamic {
				t.head = min(elem.head, hugeHead/uint64(count)+1) * uint64(count)
			}
		}
		return t
	}
	t := &abiType{name: name, head: wordSize}
	switch name {
	case "tuple":
		if tuple == nil {
			return tupleOf(nil)
		}
		return tuple
	case "uint", "int":
		t.name += "256"
	case "fixed", "ufixed":
		t.name += "128x18"
	case "function": // an address and a selector, encoded as bytes24
		t.kind, t.size = kindFixed, 24
		return t
	}
	if t.kind, t.size = elementary(t.name); t.kind == kindNone {
		t.decimals()
	}
	if t.kind == kindNone {
		return nil
	}
	t.dynamic = t.kind == kindBytes || t.kind == kindString
	return t
}

// decimals reads fixedMxN and ufixedMxN.
func (t *abiType) decimals() {
	rest, unsigned := strings.CutPrefix(t.name, "u")
	t.signed = !unsigned
	size, isFixed := strings.CutPrefix(rest, "fixed")
	m, n, _ := strings.Cut(size, "x")
	bits, ok := decimal(m, 8, 256)
	if _, places := decimal(n, 1, 80); isFixed && ok && places && bits%8 == 0 {
		t.kind, t.size = kindDecimal, bits
	}
}

func tupleOf(parts []*abiType) *abiType {
	t := &abiType{kind: kindTuple, parts: parts}
	for _, p := range parts {
		t.dynamic = t.dynamic || p.dynamic
		t.head = min(t.head+p.head, 2*hugeHead)
	}
	if t.dynamic {
		t.head = wordSize
	}
	return t
}

// innermost is what a list of lists consists of in the end.
func (t *abiType) innermost() *abiType {
	for t.elem != nil {
		t = t.elem
	}
	return t
}

// appendName writes the type as signatures of functions do.
func (t *abiType) appendName(b []byte) []byte {
	switch t.kind {
	case kindList:
		return append(t.elem.appendName(b), "[]"...)
	case kindArray:
		return append(strconv.AppendInt(append(t.elem.appendName(b), '['), int64(t.count), 10), ']')
	case kindTuple:
		b = append(b, '(')
		for i, p := range t.parts {
			if i > 0 {
				b = append(b, ',')
			}
			b = p.appendName(b)
		}
		return append(b, ')')
	}
	return append(b, t.name...)
}
