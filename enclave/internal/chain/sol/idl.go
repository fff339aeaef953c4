package sol

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"

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
	calls   map[string]*call // by discriminator; of two with one discriminator neither is read
	lengths []int            // of discriminators, ascending
}

type call struct {
	name          string
	discriminator []byte
	accounts      []account
	args          typ  // a struct
	unreadable    bool // two of its accounts, or calls, have one name or discriminator
}

// account is a place for an account. Its name is a path through its groups, with dots.
type account struct {
	name     string
	optional bool
}

// Describe reads an IDL of Anchor's form: of version 0.30 and later, or the older one with
// isMut and isSigner. It needs instructions and types. It takes instructions with
// arguments of a type that cannot be read (generics, maps, types that are not in the text,
// or in it twice), which stay undecoded.
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
	for i, raw := range instructions {
		c, err := readCall(raw, names)
		if err != nil {
			return nil, fmt.Errorf("instruction %d: %w", i, err)
		}
		d.add(c)
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

func (d *idl) add(c *call) {
	if other := d.calls[string(c.discriminator)]; other != nil {
		other.unreadable = true
		return
	}
	d.calls[string(c.discriminator)] = c
	if i, there := slices.BinarySearch(d.lengths, len(c.discriminator)); !there {
		d.lengths = slices.Insert(d.lengths, i, len(c.discriminator))
	}
}

// find is the call that data begins with; several if it begins with more than one.
func (d *idl) find(data []byte) (found *call, several bool) {
	for _, n := range d.lengths {
		if n > len(data) {
			break
		}
		if c := d.calls[string(data[:n])]; c != nil {
			several = found != nil
			found = c
		}
	}
	return found, several
}

// parse is an instruction as the IDL explains it, to the last byte, with every account
// that is not optional; nil if the IDL does not know the call. A known call that does not
// decode is refused: it would pass by every policy that looks at the call, and a program
// may read it all the same, such as one that does not mind bytes left over. If one of the
// arguments is of a type that cannot be read, all arguments are absent.
func (d *idl) parse(f *facts, in *instruction) (any, error) {
	c, several := d.find(in.data)
	if several {
		return nil, chain.Invalid("an instruction begins as two of the interface uploaded for %s", f.names[in.program])
	}
	if c == nil || c.unreadable {
		return nil, nil
	}
	v := values{rest: in.data[len(c.discriminator):], budget: &f.budget}
	args, ok := v.read(&c.args, 0)
	switch {
	case v.unread && len(in.accounts) >= c.needs():
	case !ok || len(v.rest) > 0 || len(in.accounts) < c.needs():
		return nil, chain.Invalid("an instruction does not decode as %s of the interface uploaded for %s", c.name, f.names[in.program])
	}
	accounts := make(chain.Map, min(len(c.accounts), len(in.accounts)))
	for i := range min(len(c.accounts), len(in.accounts)) {
		accounts[c.accounts[i].name] = f.name(in, i)
	}
	parsed := chain.Struct{
		"instruction_name": c.name,
		"discriminator":    chain.Hex(fmt.Sprintf("%x", c.discriminator)),
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
	if raw, ok := m["discriminator"]; !ok {
		c.discriminator = anchorDiscriminator(name)
	} else {
		numbers, err := part[[]uint32](raw)
		if err != nil || len(numbers) == 0 || slices.Max(numbers) > math.MaxUint8 {
			return nil, errors.New("no discriminator")
		}
		for _, n := range numbers {
			c.discriminator = append(c.discriminator, byte(n))
		}
	}
	if c.accounts, err = readAccounts(m, "", nil); err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(c.accounts))
	for _, a := range c.accounts {
		c.unreadable = c.unreadable || seen[a.name]
		seen[a.name] = true
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

// anchorDiscriminator begins the data of an instruction without a discriminator
// of its own: 8 bytes of the hash of its name in snake_case.
func anchorDiscriminator(name string) []byte {
	preimage := []byte("global:")
	for i := range len(name) {
		c := name[i]
		if c >= 'A' && c <= 'Z' {
			if i > 0 {
				preimage = append(preimage, '_')
			}
			c += 'a' - 'A'
		}
		preimage = append(preimage, c)
	}
	sum := sha256.Sum256(preimage)
	return sum[:8]
}
