package sol

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/strictjson"
)

// What the text of an IDL may hold. Anchor nests a few levels.
const (
	maxText = 1_600_000 // bytes; the interface takes 400,000 characters
	maxName = 255       // bytes, of an account with its groups
)

var idlLimits = strictjson.Limits{Depth: 31, Items: 10_000, Members: 1000, Values: 400_000}

type idl struct {
	calls   map[string]*call // by discriminator; ambiguous for one that several calls may have
	lengths []int            // of discriminators, ascending
}

type call struct {
	name     string
	accounts []account
	args     typ // a struct
}

// ambiguous stands for the calls that may have one discriminator.
var ambiguous = &call{}

// account is a place for an account. Its name is a path through its groups, with dots; empty for one that another has too.
type account struct {
	name     string
	optional bool
}

// Describe reads an IDL of Anchor's form: of version 0.30 and later, or the older one with
// isMut and isSigner, of Shank too. It needs instructions and types. It takes instructions with
// arguments of a type that cannot be read (generics, maps, types that are not in the text,
// or in it twice), which stay undecoded.
//
// An instruction without a discriminator is known by every one that its name may stand for (see
// spellings). So are the methods of a state, which programs had in its first years; their accounts have no names here, since
// the IDL leaves out some.
func (Chain) Describe(text string) (chain.Description, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("more than %d bytes", maxText)
	}
	outer, err := part[members](strictjson.Raw(text))
	if err != nil || outer == nil {
		return nil, errors.New("no JSON object")
	}
	instructions, err := part[[]members](outer["instructions"])
	if err != nil {
		return nil, errors.New("no instructions")
	}
	d, names := &idl{calls: make(map[string]*call, len(instructions))}, defined{}
	left := min(maxSpellings, 32+len(text)/4)
	for i, raw := range instructions {
		if err := d.read(raw, global, names, &left); err != nil {
			return nil, fmt.Errorf("instruction %d: %w", i, err)
		}
	}
	state, _ := part[members](outer["state"]) // most have none
	methods, _ := part[[]members](state["methods"])
	for i, raw := range methods {
		if err := d.read(raw, ofState, names, &left); err != nil {
			return nil, fmt.Errorf("method %d of the state: %w", i, err)
		}
	}
	types, err := part[[]members](outer["types"])
	if err != nil {
		return nil, errors.New("no types")
	}
	for i, raw := range types {
		if err := names.define(raw); err != nil {
			return nil, fmt.Errorf("type %d: %w", i, err)
		}
	}
	return d, nil
}

// read adds the call that m is, with discriminators of the namespace if it has none of its own. left is how many of those
// the text may have yet.
func (d *idl) read(m members, namespace string, names defined, left *int) error {
	c, err := readCall(m, names)
	if err != nil {
		return err
	}
	if namespace == ofState {
		c.accounts = nil
	}
	if raw, ok := m["discriminator"]; ok {
		numbers, err := part[[]uint32](raw)
		if err != nil || len(numbers) == 0 || slices.Max(numbers) > math.MaxUint8 {
			return errors.New("no discriminator")
		}
		discriminator := make([]byte, len(numbers))
		for i, n := range numbers {
			discriminator[i] = byte(n)
		}
		d.add(c, discriminator)
		return nil
	}
	if raw, ok := m["discriminant"]; ok {
		one, err := part[discriminant](raw)
		if err != nil || one.Type != "u8" || one.Value > math.MaxUint8 {
			return errors.New("no discriminant of one byte")
		}
		d.add(c, []byte{byte(one.Value)})
		return nil
	}
	spelt := spellings(c.name)
	if *left -= len(spelt); spelt == nil || *left < 0 {
		return errors.New("its name may be spelt in too many ways: give its discriminator")
	}
	for _, name := range spelt {
		sum := sha256.Sum256([]byte(namespace + name))
		d.add(c, sum[:8])
	}
	return nil
}

// A discriminant is what Shank writes instead, for programs without Anchor: the number that the data begin with.
type discriminant struct {
	Type  string `json:"type" rule:"required"`
	Value uint32 `json:"value" rule:"present"`
}

func (d *idl) add(c *call, discriminator []byte) {
	if other := d.calls[string(discriminator)]; other != nil && other != c {
		c = ambiguous
	}
	d.calls[string(discriminator)] = c
	if i, there := slices.BinarySearch(d.lengths, len(discriminator)); !there {
		d.lengths = slices.Insert(d.lengths, i, len(discriminator))
	}
}

// find is the call that data begins with, and its discriminator; several if it may be more than one.
func (d *idl) find(data []byte) (found *call, discriminator []byte, several bool) {
	for _, n := range d.lengths {
		if n > len(data) {
			break
		}
		if c := d.calls[string(data[:n])]; c != nil {
			several = found != nil || c == ambiguous
			found, discriminator = c, data[:n]
		}
		if several {
			break
		}
	}
	return found, discriminator, several
}

// parse is an instruction as the IDL explains it, to the last byte, with every account
// that is not optional; nil if the IDL does not know the call. A known call that does not
// decode is refused: it would pass by every policy that looks at the call, and a program
// may read it all the same, such as one that does not mind bytes left over. If one of the
// arguments is of a type that cannot be read, all arguments are absent.
func (d *idl) parse(f *facts, in *instruction) (any, error) {
	c, discriminator, several := d.find(in.data)
	if several {
		return nil, chain.Invalid("an instruction begins as two of the interface uploaded for %s may: upload one that has all discriminators", f.names[in.program])
	}
	if c == nil {
		return nil, nil
	}
	v := values{rest: in.data[len(discriminator):], budget: &f.budget}
	args, ok := v.read(&c.args, 0)
	switch {
	case v.unread && len(in.accounts) >= c.needs():
	case !ok || len(v.rest) > 0 || len(in.accounts) < c.needs():
		return nil, chain.Invalid("an instruction does not decode as %s of the interface uploaded for %s", c.name, f.names[in.program])
	}
	accounts := make(chain.Map, min(len(c.accounts), len(in.accounts)))
	for i := range min(len(c.accounts), len(in.accounts)) {
		if name := c.accounts[i].name; name != "" {
			accounts[name] = f.name(in, i)
		}
	}
	parsed := chain.Struct{
		"instruction_name": c.name,
		"discriminator":    chain.Hex(fmt.Sprintf("%x", discriminator)),
		"named_accounts":   accounts,
	}
	if !v.unread {
		parsed["program_call_args"] = chain.Dynamic{Value: args}
	}
	return parsed, nil
}

// needs is how many accounts an instruction must have: optional ones at the end may be
// left out.
func (c *call) needs() int {
	n := len(c.accounts)
	for n > 0 && c.accounts[n-1].optional {
		n--
	}
	return n
}

type members = map[string]strictjson.Raw

func part[T any](raw strictjson.Raw) (T, error) {
	var v T
	err := strictjson.Decode(raw, &v, strictjson.Within(idlLimits))
	return v, err
}

func nameOf(m members) (string, error) {
	if name, ok := m["name"].Text(); ok && name != "" && len(name) <= maxName {
		return name, nil
	}
	return "", errors.New("no name")
}

func readCall(m members, names defined) (*call, error) {
	name, err := nameOf(m)
	if err != nil {
		return nil, err
	}
	c := &call{name: name}
	if c.accounts, err = readAccounts(m, "", nil); err != nil {
		return nil, err
	}
	places := make(map[string]int, len(c.accounts))
	for _, a := range c.accounts {
		places[a.name]++
	}
	for i := range c.accounts {
		if places[c.accounts[i].name] > 1 {
			c.accounts[i].name = ""
		}
	}
	args, err := part[[]members](m["args"])
	if err != nil {
		return nil, errors.New("no args")
	}
	c.args = typ{kind: kindStruct}
	for i, a := range args {
		name, err := nameOf(a)
		if raw := a["type"]; err != nil || len(raw) == 0 || raw[0] != '"' && raw[0] != '{' {
			return nil, fmt.Errorf("arg %d: no name or type", i)
		}
		c.args.names, c.args.elems = append(c.args.names, name), append(c.args.elems, names.read(a["type"]))
	}
	c.args.checkNames()
	return c, nil
}

// readAccounts appends the accounts of an instruction, or of a group of them.
func readAccounts(m members, path string, into []account) ([]account, error) {
	list, err := part[[]members](m["accounts"])
	if err != nil {
		return nil, errors.New("no accounts")
	}
	for i, a := range list {
		name, err := nameOf(a)
		if err != nil {
			return nil, fmt.Errorf("account %d: %w", i, err)
		}
		if len(path)+len(name) > maxName { // each account keeps all of it
			return nil, fmt.Errorf("account %d: its name with its groups is longer than %d bytes", i, maxName)
		}
		if _, group := a["accounts"]; !group {
			into = append(into, account{path + name, string(a["optional"]) == "true" || string(a["isOptional"]) == "true"})
			continue
		}
		if into, err = readAccounts(a, path+name+".", into); err != nil {
			return nil, fmt.Errorf("account %d: %w", i, err)
		}
	}
	return into, nil
}

// The namespaces of discriminators: 8 bytes of the SHA-256 of the namespace and the name that the function has in the
// program's source.
const (
	global  = "global:"
	ofState = "state:"
)

// Bounds of the spellings of names. What is kept of them is a small multiple of the text: for four bytes one spelling.
const (
	maxDigits    = 6      // of a name
	maxSpellings = 40_000 // of all names of a text
)

// spellings are the names that a function of a program's source may have where an IDL of before 0.30 has this name, or nil
// for too many. Such an IDL writes snake_case in camelCase, and what that loses cannot be told: withdraw2 stands for
// withdraw2 and withdraw_2, and for both with an underscore before or behind. Capitals that follow each other are words of
// one letter (placeXY) or, where somebody wrote the name by hand, a word (mintNFT). A name with an underscore has not been
// converted.
func spellings(name string) []string {
	each, words := snakeCase(name, false), snakeCase(name, true)
	spelt := []string{name, each}
	if !strings.Contains(name, "_") {
		spelt = append(spelt, words, "_"+name, name+"_")
		for _, base := range slices.Compact([]string{each, words}) {
			numbered := []string{""}
			for i := range len(base) {
				isDigit := '0' <= base[i] && base[i] <= '9'
				for j, before := range numbered {
					if numbered[j] += base[i : i+1]; isDigit && i > 0 && base[i-1] != '_' {
						numbered = append(numbered, before+"_"+base[i:i+1])
					}
				}
				if len(numbered) > 1<<maxDigits {
					return nil
				}
			}
			for _, n := range numbered {
				spelt = append(spelt, n, "_"+n, n+"_")
			}
		}
	}
	slices.Sort(spelt)
	return slices.Compact(spelt)
}

// snakeCase puts an underscore before capitals, and makes them small. With words, capitals that follow each other are one
// word, the last of them only if no small letter follows.
func snakeCase(name string, words bool) string {
	isCapital := func(i int) bool { return 0 <= i && i < len(name) && 'A' <= name[i] && name[i] <= 'Z' }
	isSmall := func(i int) bool { return i < len(name) && 'a' <= name[i] && name[i] <= 'z' }
	var out []byte
	for i := range len(name) {
		c := name[i]
		if isCapital(i) {
			if i > 0 && (!words || !isCapital(i-1) || isSmall(i+1)) {
				out = append(out, '_')
			}
			c += 'a' - 'A'
		}
		out = append(out, c)
	}
	return string(out)
}
