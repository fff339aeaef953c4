package activity

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/strictjson"
)

var interfaces = []*Kind{
	kind("CREATE_SMART_CONTRACT_INTERFACE", "SMART_CONTRACT_INTERFACE", "CREATE", createInterface),
	kind("DELETE_SMART_CONTRACT_INTERFACE", "SMART_CONTRACT_INTERFACE", "DELETE", deleteInterface),
}

// InterfaceType is what language an interface is written in.
type InterfaceType string

// The interface types.
const (
	interfaceEthereum InterfaceType = "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM"
	interfaceSolana   InterfaceType = "SMART_CONTRACT_INTERFACE_TYPE_SOLANA"
)

// Valid tells whether t is one of the interface's.
func (t InterfaceType) Valid() bool { return t == interfaceEthereum || t == interfaceSolana }

// CreateInterface tells what calls of a contract mean: an Ethereum ABI, or a
// Solana IDL of Anchor's form.
type CreateInterface struct {
	SmartContractAddress   string        `json:"smartContractAddress" rule:"required"`
	SmartContractInterface string        `json:"smartContractInterface" rule:"required,max_length=400000"`
	Type                   InterfaceType `json:"type" rule:"required"`
	Label                  string        `json:"label" rule:"required,label,label_length"`
	Notes                  *string       `json:"notes"`
}

func (in *CreateInterface) check() error {
	var parses error
	ok := false
	if in.Type == interfaceSolana {
		ok, parses = isProgram(in.SmartContractAddress), checkIDL(in.SmartContractInterface)
	} else {
		ok, parses = isContract(in.SmartContractAddress), checkABI(in.SmartContractInterface)
	}
	if !ok {
		return fault.Field("smartContractAddress", "invalid smart contract address")
	}
	if parses != nil {
		return fault.Field("smartContractInterface", "invalid smart contract interface: %s", parses)
	}
	return checkNotes("notes", in.Notes)
}

// place is the name under which the interface of an address is unique. Labels
// are names of the same kind; what stands before them keeps the two apart.
func (in *CreateInterface) place() string {
	address := in.SmartContractAddress
	if in.Type == interfaceEthereum {
		address = strings.ToLower(address)
	}
	return "a:" + string(in.Type) + ":" + address
}

func labelOf(label string) string { return "l:" + label }

// InterfaceID is the result of making and of removing an interface.
type InterfaceID struct {
	SmartContractInterfaceID string `json:"smartContractInterfaceId"`
}

func createInterface(tx *Tx, in *CreateInterface) (*InterfaceID, error) {
	old, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	if int(old.Interfaces) >= tx.Limits.Interfaces {
		return nil, overQuota(tx.Limits.Interfaces, "smart contract interfaces")
	}
	id, err := newNamed(tx, org.NameInterface, "smart contract interface", "label", labelOf(in.Label))
	if err != nil {
		return nil, err
	}
	holder, err := tx.Named(org.NameInterface, in.place())
	if err != nil {
		return nil, err
	}
	if !holder.Zero() {
		return nil, fault.Field("smartContractAddress", "smart contract interface address must be unique in its type")
	}
	if err := tx.TakeName(org.NameInterface, in.place(), id); err != nil {
		return nil, err
	}
	i := &org.Interface{
		ID: id, Address: in.SmartContractAddress, Type: string(in.Type), Label: in.Label, Notes: textOf(in.Notes), CreatedMs: tx.NowMs, UpdatedMs: tx.NowMs,
	}
	if err := tx.PutInterface(i, in.SmartContractInterface); err != nil {
		return nil, err
	}
	o := *old
	o.Interfaces++
	return &InterfaceID{id.String()}, tx.PutOrganization(&o)
}

// DeleteInterface removes an interface.
type DeleteInterface struct {
	SmartContractInterfaceID string `json:"smartContractInterfaceId" rule:"required"`
}

func deleteInterface(tx *Tx, in *DeleteInterface) (*InterfaceID, error) {
	id, err := org.ParseID(in.SmartContractInterfaceID)
	if err != nil {
		return nil, fault.Field("smartContractInterfaceId", "must be a UUID")
	}
	i, err := tx.Interface(id)
	if err != nil {
		return nil, err
	}
	if i == nil {
		return nil, notFound("smart contract interface", in.SmartContractInterfaceID)
	}
	old, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	was := CreateInterface{SmartContractAddress: i.Address, Type: InterfaceType(i.Type)}
	tx.FreeName(org.NameInterface, was.place())
	tx.FreeName(org.NameInterface, labelOf(i.Label))
	tx.DeleteInterface(i)
	o := *old
	o.Interfaces--
	return &InterfaceID{in.SmartContractInterfaceID}, tx.PutOrganization(&o)
}

// isContract takes an Ethereum address, in any case.
func isContract(text string) bool {
	digits, ok := strings.CutPrefix(text, "0x")
	return ok && len(digits) == 40 && strings.Trim(digits, "0123456789abcdefABCDEF") == ""
}

const base58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// isProgram takes the base58 text of 32 bytes.
func isProgram(text string) bool {
	if len(text) < 32 || len(text) > 44 {
		return false
	}
	n, radix := new(big.Int), big.NewInt(int64(len(base58)))
	for i := range len(text) {
		digit := strings.IndexByte(base58, text[i])
		if digit < 0 {
			return false
		}
		n.Add(n.Mul(n, radix), big.NewInt(int64(digit)))
	}
	zeros := len(text) - len(strings.TrimLeft(text, base58[:1]))
	return zeros+(n.BitLen()+7)/8 == 32
}

// interfaceLimits bound what the text of an interface can blow up to. Anchor and
// Solidity nest a few levels.
var interfaceLimits = strictjson.Limits{Depth: 32, Items: 10_000, Members: 1000, Values: 400_000}

// part reads a JSON value into a T.
func part[T any](raw string) (T, error) {
	var outer struct {
		Part T `json:"part" rule:"present"`
	}
	err := strictjson.Decode([]byte(`{"part":`+raw+`}`), &outer, strictjson.Within(interfaceLimits))
	return outer.Part, err
}

type members = map[string]strictjson.Raw

// checkABI refuses what is no contract ABI as Solidity's compiler writes it.
// Members that it does not know it passes over.
func checkABI(text string) error {
	items, err := part[[]members](text)
	if err != nil {
		return fmt.Errorf("no JSON array of objects")
	}
	for i, item := range items {
		typ := "function"
		if raw, ok := item["type"]; ok {
			typ, err = part[string](string(raw))
		}
		if err != nil || !slices.Contains([]string{"function", "constructor", "receive", "fallback", "event", "error"}, typ) {
			return fmt.Errorf("item %d: unknown type", i)
		}
		if named := typ == "function" || typ == "event" || typ == "error"; named {
			if name, err := part[string](string(item["name"])); err != nil || !isIdentifier(name) {
				return fmt.Errorf("item %d: no name", i)
			}
		}
		for _, list := range []string{"inputs", "outputs"} {
			if raw, ok := item[list]; ok {
				if err := checkParams(string(raw)); err != nil {
					return fmt.Errorf("item %d: %s: %w", i, list, err)
				}
			}
		}
	}
	return nil
}

func isIdentifier(s string) bool {
	return s != "" && len(s) <= 255 && (s[0] < '0' || s[0] > '9') && strings.Trim(s, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_$") == ""
}

func checkParams(raw string) error {
	ps, err := part[[]members](raw)
	if err != nil {
		return fmt.Errorf("no array of objects")
	}
	for i, p := range ps {
		if name, ok := p["name"]; ok {
			if s, err := part[string](string(name)); err != nil || s != "" && !isIdentifier(s) {
				return fmt.Errorf("%d: no name", i)
			}
		}
		typ, err := part[string](string(p["type"]))
		if err != nil || !isABIType(typ) {
			return fmt.Errorf("%d: unknown type", i)
		}
		components, ok := p["components"]
		if tuple := strings.HasPrefix(typ, "tuple"); tuple != ok {
			return fmt.Errorf("%d: a tuple, and nothing else, has components", i)
		}
		if ok {
			if err := checkParams(string(components)); err != nil {
				return fmt.Errorf("%d: %w", i, err)
			}
		}
	}
	return nil
}

// isABIType takes the types of the contract ABI in their canonical form, and
// arrays of them.
func isABIType(typ string) bool {
	if len(typ) > 255 {
		return false
	}
	for strings.HasSuffix(typ, "]") {
		open := strings.LastIndexByte(typ, '[')
		if open < 0 {
			return false
		}
		if n := typ[open+1 : len(typ)-1]; n != "" && !isNumber(n, 1, 1<<31, 1) {
			return false
		}
		typ = typ[:open]
	}
	base := strings.TrimRight(typ, "0123456789")
	size := typ[len(base):]
	switch base {
	case "address", "bool", "string", "tuple", "function":
		return size == ""
	case "bytes":
		return size == "" || isNumber(size, 1, 32, 1)
	case "int", "uint":
		return size == "" || isNumber(size, 8, 256, 8)
	}
	for _, fixed := range []string{"fixed", "ufixed"} {
		if rest, ok := strings.CutPrefix(typ, fixed); ok {
			bits, places, ok := strings.Cut(rest, "x")
			return rest == "" || ok && isNumber(bits, 8, 256, 8) && isNumber(places, 1, 80, 1)
		}
	}
	return false
}

// isNumber takes decimal numbers from least to most that are multiples of step.
func isNumber(text string, least, most, step uint64) bool {
	n, err := strconv.ParseUint(text, 10, 64)
	return err == nil && text[0] != '0' && n >= least && n <= most && n%step == 0
}

// checkIDL refuses what is no IDL of Anchor's form. Of the types only the
// outline is looked at.
func checkIDL(text string) error {
	idl, err := part[members](text)
	if err != nil || idl == nil {
		return fmt.Errorf("no JSON object")
	}
	instructions, err := part[[]members](string(idl["instructions"]))
	if err != nil {
		return fmt.Errorf("no instructions")
	}
	for i, in := range instructions {
		if err := checkInstruction(in); err != nil {
			return fmt.Errorf("instruction %d: %w", i, err)
		}
	}
	types, err := part[[]members](string(idl["types"]))
	if err != nil {
		return fmt.Errorf("no types")
	}
	for i, t := range types {
		if !hasName(t) {
			return fmt.Errorf("type %d: no name", i)
		}
		shape, err := part[members](string(t["type"]))
		if err != nil {
			return fmt.Errorf("type %d: no type", i)
		}
		if kind, err := part[string](string(shape["kind"])); err != nil || !slices.Contains([]string{"struct", "enum", "alias", "type"}, kind) {
			return fmt.Errorf("type %d: unknown kind", i)
		}
	}
	return nil
}

func hasName(m members) bool {
	name, err := part[string](string(m["name"]))
	return err == nil && name != "" && len(name) <= 255
}

func checkInstruction(in members) error {
	if !hasName(in) {
		return fmt.Errorf("no name")
	}
	if raw, ok := in["discriminator"]; ok {
		bytes, err := part[[]uint32](string(raw))
		if err != nil || len(bytes) == 0 || slices.Max(bytes) > 255 {
			return fmt.Errorf("no discriminator")
		}
	}
	if err := checkAccountsOf(in); err != nil {
		return err
	}
	args, err := part[[]members](string(in["args"]))
	if err != nil {
		return fmt.Errorf("no args")
	}
	for i, a := range args {
		typ := string(a["type"])
		if !hasName(a) || typ == "" || typ[0] != '"' && typ[0] != '{' {
			return fmt.Errorf("arg %d: no name or type", i)
		}
	}
	return nil
}

// checkAccountsOf looks at the accounts of an instruction, or of a group of them.
func checkAccountsOf(m members) error {
	accounts, err := part[[]members](string(m["accounts"]))
	if err != nil {
		return fmt.Errorf("no accounts")
	}
	for i, a := range accounts {
		if !hasName(a) {
			return fmt.Errorf("account %d: no name", i)
		}
		if _, group := a["accounts"]; group {
			if err := checkAccountsOf(a); err != nil {
				return fmt.Errorf("account %d: %w", i, err)
			}
		}
	}
	return nil
}
