package show

import (
	"encoding/hex"
	"math/big"
	"slices"
	"strings"
	"time"

	"cloister/enclave/internal/chain"
)

// Where something is from that the bytes do not say, as documents write it.
const (
	FromBytes        = "BYTES"         // the bytes, where that is not plain
	FromImage        = "BUILTIN"       // the program
	FromOrganization = "ORGANIZATION"  // a record of the organization: of a label the address book, which the root quorum writes
	FromInterface    = "INTERFACE"     // the label of an uploaded interface: what whoever uploaded it calls the contract
	FromOperator     = "OPERATOR_LIST" // a list that the operator's configuration names by its hash
	FromRequester    = "REQUESTER"     // whoever asked
	FromHost         = "HOST"
)

// A Source is a record or a list that a document took something from.
type Source struct {
	From     string
	Record   string // its id
	SHA256   string // of its text, hexadecimal
	MadeBy   string // the user who put it there
	Contract string // the address that it speaks of
}

func (s *Source) append(b []byte) []byte {
	b = appendString(append(b, `{"source":`...), s.From)
	for _, m := range [...][2]string{{"record", s.Record}, {"address", s.Contract}, {"sha256", s.SHA256}, {"by", s.MadeBy}} {
		if m[1] != "" {
			b = appendString(append(b, `,"`+m[0]+`":`...), m[1])
		}
	}
	return append(b, '}')
}

// An Entry is an address that has a name. Only a name that is not FromInterface makes an address known.
type Entry struct {
	Name, Address, From string
	Source              *Source // the record that has the name; nil where documents name none
}

// A Token is one on the operator's list. Network is as CAIP-2 writes it for Ethereum's kin, such as eip155:1, and solana,
// tron otherwise.
type Token struct {
	Network, Address, Symbol string
	Decimals                 int
}

// Unit is what amounts of the token count.
func (t Token) Unit() Unit {
	return Unit{Symbol: t.Symbol, SymbolFrom: FromOperator, Decimals: t.Decimals, DecimalsFrom: FromOperator, HasDecimals: true}
}

// Tokens are the operator's list, with the index that many documents use. nil is an empty list. It does not change.
type Tokens struct {
	all  []Token
	by   map[string]*Token          // by network and match key
	ends map[string]map[string]bool // match keys of those with the same ends
	// symbols has match keys of those with a symbol, by its skeleton.
	symbols map[string]map[string]bool
	text    []byte
	hash    string // SHA-256 of text, hexadecimal
}

// NewTokens makes the list. Documents name it by the SHA-256 of its text.
func NewTokens(all []Token, text []byte) *Tokens {
	l := &Tokens{all, map[string]*Token{}, map[string]map[string]bool{}, map[string]map[string]bool{}, text, hex.EncodeToString(Sum(text))}
	for i := range all {
		t := &all[i]
		key := chain.MatchKey(t.Address)
		l.by[t.Network+" "+key] = t
		add(l.ends, ends(t.Address), key)
		add(l.symbols, skeleton(t.Symbol), key)
	}
	return l
}

// Text is the list's text, whose form package decoded defines.
func (l *Tokens) Text() []byte {
	if l == nil {
		return nil
	}
	return l.text
}

func (l *Tokens) find(network, address string) (Token, bool) {
	if l == nil {
		return Token{}, false
	}
	t := l.by[network+" "+chain.MatchKey(address)]
	if t == nil {
		return Token{}, false
	}
	return *t, true
}

// looksLike tells whether another address than that with a match key has the same ends.
func (l *Tokens) looksLike(ends, key string) bool { return l != nil && others(l.ends[ends], key) }

// isNamed tells whether another token than that with a match key has a symbol with a skeleton.
func (l *Tokens) isNamed(skeleton, key string) bool {
	return l != nil && others(l.symbols[skeleton], key)
}

func add(to map[string]map[string]bool, under, key string) {
	if to[under] == nil {
		to[under] = map[string]bool{}
	}
	to[under][key] = true
}

// An Interface is one that the organization has uploaded for a contract.
type Interface struct {
	Description chain.Description
	Source      Source
}

// A ContractCall is a call of a contract of Ethereum's kind, on whatever chain.
type ContractCall struct {
	Network  string                      // as lists of tokens have it
	Address  func(account []byte) string // writes an account of 20 bytes
	Coin     Unit
	To, Data []byte
	Value    *big.Int // nil for none
}

// ContractCalls adds a call to a list, with the calls that it makes. An error is one that Known.Interface has answered.
type ContractCalls func(v *View, list *List, c ContractCall) error

// Known is what is known besides the bytes. The zero value knows nothing. It is completed before anything is shown, and not
// changed afterwards.
type Known struct {
	Now       time.Time
	Signer    chain.SigningKey
	Own       func(address string) (Ownership, error)
	OwnNames  func() ([]string, error)        // of the organization's wallets and private keys
	UserName  func(id string) (string, error) // of a user of the organization, empty if there is none
	BuiltIn   *Names
	Entries   []Entry
	Tokens    *Tokens
	Interface func(address string) (Interface, error) // nil where none has been uploaded
	Calls     ContractCalls                           // nil where calls of contracts are not read
}

// Ownership is whose an account is.
type Ownership uint8

// The ownerships.
const (
	NotOwn        Ownership = iota
	Own                     // the organization's, and nobody else has had its key
	OwnKeyOutside           // the organization's, and its key was imported or exported: others may have it
)

// An index finds entries, of which there may be thousands, as fast as hundreds of addresses need it.
type index struct {
	entries map[string]*Entry          // of an address the first that makes it known, or else its first, by match key
	names   map[string]map[string]bool // match keys of those who have a name, by its skeleton
	labels  map[string]map[string]bool // as names, of those whose name is FromInterface
	ends    map[string]map[string]bool // match keys of those with the same ends
}

func newIndex(k *Known) *index {
	x := &index{map[string]*Entry{}, map[string]map[string]bool{}, map[string]map[string]bool{}, map[string]map[string]bool{}}
	for i := range k.Entries {
		e := &k.Entries[i]
		key := chain.MatchKey(e.Address)
		if there := x.entries[key]; there == nil || there.From == FromInterface && e.From != FromInterface {
			x.entries[key] = e
		}
		if e.From == FromInterface {
			add(x.labels, skeleton(e.Name), key)
		} else {
			add(x.names, skeleton(e.Name), key)
		}
		add(x.ends, ends(e.Address), key)
	}
	if own := k.Signer.Address; own != "" {
		add(x.ends, ends(own), chain.MatchKey(own))
	}
	return x
}

// others tells whether another than key is among keys.
func others(keys map[string]bool, key string) bool {
	return len(keys) > 1 || len(keys) == 1 && !keys[key]
}

// find is the index of what is known, which is complete once something is looked up.
func (v *View) find() *index {
	if v.index == nil {
		v.index = newIndex(v.known)
	}
	return v.index
}

// Now is when the document is made.
func (v *View) Now() time.Time { return v.known.Now }

// Signer is the key that will sign.
func (v *View) Signer() chain.SigningKey { return v.known.Signer }

// OwnershipOf tells whether the organization has the account, and alone. The signer's account is: what comes back to it is where
// it was. What cannot be found out is no account of the organization, and Err tells.
func (v *View) OwnershipOf(address string) Ownership {
	k := v.known
	if k.Signer.Address != "" && chain.MatchKey(k.Signer.Address) == chain.MatchKey(address) {
		return Own
	}
	if k.Own == nil {
		return NotOwn
	}
	own, err := k.Own(address)
	if v.fail(err); err != nil {
		return NotOwn
	}
	return own
}

// IsOwn tells whether the organization has the account, whoever else has its key.
func (v *View) IsOwn(address string) bool { return v.OwnershipOf(address) != NotOwn }

func (v *View) fail(err error) {
	if v.err == nil {
		v.err = err
	}
}

// Err is the first error of a function of Known: the document is then not to be used.
func (v *View) Err() error { return v.err }

// Interface is what the organization has uploaded for a contract; its Description is nil where there is none.
func (v *View) Interface(address string) (Interface, error) {
	if v.known.Interface == nil {
		return Interface{}, nil
	}
	return v.known.Interface(address)
}

// ShowCall adds a call of a contract to a list.
func (v *View) ShowCall(list *List, c ContractCall) error {
	if v.known.Calls == nil {
		list.Object().Unreadable(UnknownFunction, c.Data)
		return nil
	}
	return v.known.Calls(v, list, c)
}

// Use notes that something was taken from a source.
func (v *View) Use(s Source) {
	if s.From != FromImage && !slices.Contains(v.sources, s) && v.take(160+written(s.Record)+written(s.MadeBy)) {
		v.sources = append(v.sources, s)
	}
}

// Token finds a token of a network on the operator's list.
func (v *View) Token(network, address string) (Token, bool) {
	return v.known.Tokens.find(network, address)
}

// Mints are the addresses of a network's tokens on the operator's list.
func (v *View) Mints(network string) (all []string) {
	if v.known.Tokens == nil {
		return nil
	}
	for _, t := range v.known.Tokens.all {
		if t.Network == network {
			all = append(all, t.Address)
		}
	}
	return all
}

// Addresses are those that have a name.
func (v *View) Addresses() (all []string) {
	for _, e := range v.known.Entries {
		all = append(all, e.Address)
	}
	return all
}

// UseTokens notes that something was taken from the operator's list.
func (v *View) UseTokens() {
	v.Use(Source{From: FromOperator, SHA256: v.known.Tokens.hash})
}

// A Name is what an address is called, and by whom.
type Name struct {
	Text, From string
	Source     *Source // the record that has it, nil where documents name none
}

// Address sets an address of a network, whole, with what it is called: by the program if builtin is not empty, else by the
// operator's list, else by the organization.
func (o *Object) Address(key, network, address, builtin string) *Object {
	child := o.Object(key)
	child.Plain("address", address)
	child.Label(network, address, builtin)
	return child
}

// Label sets what an address is called, and of the label of an interface who made it.
func (o *Object) Label(network, address, builtin string) {
	v := o.view
	name := Name{Text: builtin, From: FromImage}
	if name.Text == "" {
		name = v.NameOf(network, address)
	}
	if name.Text == "" {
		return
	}
	o.Text("label", name.Text)
	o.Plain("labelSource", name.From)
	if name.From == FromOperator {
		v.UseTokens()
	}
	if name.Source != nil {
		v.Use(*name.Source)
	}
	if name.From == FromInterface {
		o.maker(name)
		if claims(name.Text) {
			o.Warn(LabelClaim, "label")
		}
	}
	if v.clashes(name, address) {
		o.Warn(LabelClash)
	}
}

// maker sets who made a label, if that is recorded.
func (o *Object) maker(name Name) {
	v := o.view
	if name.Source == nil || name.Source.MadeBy == "" {
		return
	}
	by := o.Object("labelBy")
	by.Plain("userId", name.Source.MadeBy)
	if v.known.UserName == nil {
		return
	}
	text, err := v.known.UserName(name.Source.MadeBy)
	if v.fail(err); text != "" {
		by.Text("name", text)
		by.Plain("nameSource", FromOrganization)
	}
}

// NameOf is what the operator's list, the organization or somebody in it calls an address, empty if nobody does.
func (v *View) NameOf(network, address string) Name {
	if t, ok := v.Token(network, address); ok {
		return Name{Text: t.Symbol, From: FromOperator}
	}
	if e := v.find().entries[chain.MatchKey(address)]; e != nil {
		return Name{e.Name, e.From, e.Source}
	}
	return Name{}
}

// Party warns of an address that receives something, gets a right, verifies or is called, and that is not known: it is none of
// the organization's and on no list. The label of an interface makes no address known, since others than the root quorum may give it.
// An own account whose key was outside is marked: it may be somebody else's as well.
func (o *Object) Party(network, address string, member ...string) {
	v := o.view
	name := v.NameOf(network, address)
	known := name.Text != "" && name.From != FromInterface
	switch v.OwnershipOf(address) {
	case Own:
		return
	case OwnKeyOutside:
		o.markOutside(member)
		o.Warn(KeyOutside, member...)
	case NotOwn:
		if !known {
			o.Warn(AddressNew, member...)
		}
	}
	if !known && v.looksLike(address) {
		o.Warn(Lookalike, member...)
	}
}

// markOutside sets at an own account, which is the object or one of its members, that its key was outside.
func (o *Object) markOutside(member []string) {
	at := o
	for _, key := range member {
		child, ok := at.value(key).(*Object)
		if !ok {
			return // such as a text or a list, whose place the warning names
		}
		at = child
	}
	if at.value("own") == nil {
		at.Bool("own", true)
	}
	if at.value("keyOutside") == nil {
		at.Bool("keyOutside", true)
	}
}

// ends are the first and last digits, which people compare.
func ends(address string) string {
	digits := address
	for _, prefix := range []string{"0x", "bc1q", "bc1p", "tb1q", "tb1p", "bcrt1q", "bcrt1p"} {
		if cut, ok := strings.CutPrefix(address, prefix); ok {
			digits = cut
			break
		}
	}
	if len(digits) < 12 {
		return ""
	}
	if chain.IgnoresCase(address) {
		digits = strings.ToLower(digits)
	}
	return digits[:4] + digits[len(digits)-4:]
}

func (v *View) looksLike(address string) bool {
	e, key := ends(address), chain.MatchKey(address)
	return e != "" && (others(v.find().ends[e], key) || v.known.Tokens.looksLike(e, key))
}

// A Unit is what an amount counts, and the coin or token that many of them make. Symbol is empty where nobody knows it, and
// Decimals is then of no use unless HasDecimals says that the bytes have them.
type Unit struct {
	Name               string // of the smallest unit, such as wei; empty for tokens
	Symbol, SymbolFrom string
	Decimals           int
	DecimalsFrom       string // empty where it goes without saying: of coins
	HasDecimals        bool
}

// Amount sets an amount.
func (o *Object) Amount(key string, n *big.Int, u Unit) *Object {
	child := o.Object(key)
	child.SetAmount(n, u, false)
	return child
}

// SetAmount makes the object an amount: the number in the smallest unit, always, and beside it the scaled one where decimals
// are known. One that is unlimited stands for all there will ever be.
func (o *Object) SetAmount(n *big.Int, u Unit, unlimited bool) {
	o.Number("value", n)
	if u.Name != "" {
		o.Plain("unit", u.Name)
	}
	if unlimited {
		o.Bool("unlimited", true)
	}
	if u.DecimalsFrom != "" {
		o.Uint("decimals", uint64(u.Decimals))
		o.Plain("decimalsSource", u.DecimalsFrom)
	}
	if n.Sign() == 0 && u.Name != "" {
		return
	}
	if u.HasDecimals && !unlimited {
		o.Plain("text", Scale(n, u.Decimals))
	}
	if u.Symbol != "" {
		o.Text("symbol", u.Symbol)
		o.Plain("symbolSource", u.SymbolFrom)
	}
}

// Scale writes n / 10^decimals without zeros at the end.
func Scale(n *big.Int, decimals int) string {
	text := new(big.Int).Abs(n).String()
	if len(text) <= decimals {
		text = strings.Repeat("0", decimals-len(text)+1) + text
	}
	whole, part := text[:len(text)-decimals], strings.TrimRight(text[len(text)-decimals:], "0")
	if part != "" {
		whole += "." + part
	}
	if n.Sign() < 0 {
		whole = "-" + whole
	}
	return whole
}
