package eth

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"cloister/enclave/internal/chain"
)

// A misfit is why typed data were refused. The path is gathered from the inside
// out, so that good data pay nothing for it.
type misfit struct {
	text string
	path []string // innermost first
}

func refusal(text string) *misfit { return &misfit{text: text} }

func (m *misfit) inField(name string) *misfit {
	m.path = append(m.path, name)
	return m
}

func (m *misfit) String() string {
	path := slices.Clone(m.path)
	slices.Reverse(path)
	return strings.Join(path, ".") + " " + m.text
}

// A structType is one of the types that the data bring with them.
type structType struct {
	name    string
	text    string // such as Mail(address to,string contents), without the types in it
	members []structMember
	index   map[string]int
	hash    [32]byte // of text and the text of all types in it, once hashed
	hashed  bool
	state   state
}

type structMember struct {
	name string
	typ  *valueType
}

// A valueType is the type of a member: an elementary one or a struct, or lists of
// lists of it.
type valueType struct {
	kind kind
	size int
	name string
	of   *structType // of structs
	// dimensions are the lengths of the lists, the outermost first: -1 for T[].
	dimensions []int
}

// state is how far the search for types that hold themselves has come.
type state uint8

const (
	unseen state = iota
	open
	closed
)

// maxHashedTypes bounds the text of types that is hashed for one payload, in bytes. The
// hash of a type takes in all types that it holds, so that n bytes of types can be made
// to hash n^2.
const maxHashedTypes = 1 << 20

type typedReader struct {
	cursor  // over the domain, then the message
	types   map[string]*valueType
	structs map[string]*structType
	left    int // of maxHashedTypes
	values  int // that have been read

	// What approvers see besides, where whole says that they are to.
	whole                   bool
	unsigned                []string // members that no type names, which are in no hash
	domainType              *structType
	domainValues            chain.Map
	domainHash, messageHash [32]byte
}

// fact is a number as policies see it, or approvers.
func (r *typedReader) fact(n *big.Int, signed bool) any {
	if r.whole {
		return n
	}
	return numberFact(n, signed)
}

// data are bytes as policies see them, or approvers.
func (r *typedReader) data(b []byte) any {
	if r.whole {
		return b
	}
	return chain.ZeroX(b)
}

// encodeType is the text of a type and of all that it holds.
func (r *typedReader) encodeType(s *structType) string {
	var within []*structType
	r.left = maxHashedTypes
	r.gather(s, map[*structType]bool{s: true}, &within)
	slices.SortFunc(within, func(a, b *structType) int { return strings.Compare(a.name, b.name) })
	text := s.text
	for _, w := range within {
		text += w.text
	}
	return text
}

// define takes up the types, all of them whether they are used or not.
func (r *typedReader) define(types map[string][]typedMember) *misfit {
	names := slices.Sorted(maps.Keys(types))
	for _, name := range names {
		if !isTypeName(name) {
			return refusal("is no name of a type").inField(quoteShort(name))
		}
		r.structs[name] = &structType{name: name}
	}
	for _, name := range names {
		if m := r.fill(r.structs[name], types[name]); m != nil {
			return m.inField(name)
		}
	}
	for _, name := range names {
		if m := r.structs[name].check(); m != nil {
			return m
		}
	}
	if s := r.structs[domainType]; s != nil {
		if m := checkDomain(s); m != nil {
			return m.inField(domainType)
		}
	}
	return nil
}

func (r *typedReader) fill(s *structType, members []typedMember) *misfit {
	s.index = make(map[string]int, len(members))
	text := append([]byte(s.name), '(')
	for i, m := range members {
		if !isIdentifier(m.Name) {
			return refusal("is no name of a member").inField(quoteShort(m.Name))
		}
		if _, twice := s.index[m.Name]; twice {
			return refusal("is there twice").inField(m.Name)
		}
		typ := r.typeOf(m.Type)
		if typ == nil {
			return refusal("has the unknown type " + quoteShort(m.Type)).inField(m.Name)
		}
		s.index[m.Name] = i
		s.members = append(s.members, structMember{m.Name, typ})
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(append(text, m.Type...), ' '), m.Name...)
	}
	s.text = string(append(text, ')'))
	return nil
}

func (r *typedReader) typeOf(name string) *valueType {
	if t := r.types[name]; t != nil {
		return t
	}
	if len(name) > maxTypeText {
		return nil
	}
	t := &valueType{name: name}
	base := name
	for {
		of, count, ok := dimension(base)
		if !ok {
			break
		}
		base, t.dimensions = of, append(t.dimensions, count)
	}
	if t.of = r.structs[base]; t.of != nil {
		t.kind = kindStruct
	} else if t.kind, t.size = elementary(base); t.kind == kindNone {
		return nil
	}
	r.types[name] = t
	return t
}

// check refuses a type that holds itself, and one that programs hash in different ways:
// for some a name ends where neither letter nor digit follows.
func (s *structType) check() *misfit {
	s.state = open
	for i := range s.members {
		m := &s.members[i]
		of := m.typ.of
		switch {
		case of == nil:
		case !isPlain(s.name) || !isPlain(of.name):
			return refusal("is a struct in or of a type whose name has more than letters, digits and _").inField(m.name).inField(s.name)
		case of.state == open:
			return refusal("makes the type hold itself").inField(m.name).inField(s.name)
		case of.state == unseen:
			if inner := of.check(); inner != nil {
				return inner
			}
		}
	}
	s.state = closed
	return nil
}

// isTypeName takes what types may be called.
func isTypeName(s string) bool {
	base := strings.TrimRight(s, "0123456789")
	switch base {
	case "", "address", "bool", "string", "bytes", "uint", "int":
		return false
	}
	return isIdentifier(s[:1]) && isIdentifier(strings.NewReplacer(":", "_", ".", "_", "-", "_").Replace(s))
}

// isPlain takes names of letters, digits and _.
func isPlain(name string) bool { return !strings.ContainsAny(name, ":.-$") }

// quoteShort makes a text from outside fit for an error.
func quoteShort(s string) string { return fmt.Sprintf("%+.64q", s) }

// hashType makes the hash of a type: of its own text and those of all types that it
// holds, by name.
func (r *typedReader) hashType(s *structType) *misfit {
	if s.hashed {
		return nil
	}
	var within []*structType
	seen := map[*structType]bool{s: true}
	if !r.gather(s, seen, &within) {
		return refusal("is of a type that holds too many others")
	}
	slices.SortFunc(within, func(a, b *structType) int { return strings.Compare(a.name, b.name) })
	text := []byte(s.text)
	for _, w := range within {
		text = append(text, w.text...)
	}
	s.hash, s.hashed = chain.Keccak(text), true
	return nil
}

// gather lists the types that a type holds.
func (r *typedReader) gather(s *structType, seen map[*structType]bool, within *[]*structType) bool {
	if r.left -= len(s.text); r.left < 0 {
		return false
	}
	for i := range s.members {
		of := s.members[i].typ.of
		if of == nil || seen[of] {
			continue
		}
		seen[of] = true
		*within = append(*within, of)
		if !r.gather(of, seen, within) {
			return false
		}
	}
	return true
}
