package decoded_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/chain/sol"
	"cloister/enclave/internal/decoded"
)

// The cases are written down in testdata: payloads, most of them hostile, with what an approver must be shown of each.
type caseFile struct {
	NowMs   string
	Context struct {
		Tokens []struct {
			Chain, Token, Symbol string
			Decimals             int
		}
		AddressBook []struct{ Name, Address string }
		OwnAccounts []struct{ Address string }
	}
	Cases   []approvalCase
	Example struct {
		Case      string
		Decoded   json.RawMessage
		Canonical struct {
			Length int
			SHA256 string
		}
	}
}

type approvalCase struct {
	ID      string
	Input   caseInput
	Context struct {
		Interfaces []struct{ Address, Type, Label, Interface string }
	}
	Expect struct {
		Outcome, Kind, Readable, Refusal string
		Digests                          []string
		Fields                           map[string]any
		Absent, Warnings                 []string
		At                               map[string][]string
	}
}

type caseInput struct {
	Activity, Type, SignWith, PublicKey, UnsignedTransaction string
	Encoding, HashFunction, Payload                          string
}

func readCases(t testing.TB) (f caseFile) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// stricter are the cases in which nothing is shown, because nothing is signed: a fee that is the asker's word is refused.
var stricter = map[string]string{"btc-h01": "its amount is not proven"}

func TestCases(t *testing.T) {
	f := readCases(t)
	seen := map[string]bool{}
	for _, c := range f.Cases {
		if c.Input.UnsignedTransaction == "" && c.Input.Payload == "" {
			continue // of an activity that signs nothing itself
		}
		t.Run(c.ID, func(t *testing.T) {
			if why := stricter[c.ID]; why != "" {
				c.Expect.Outcome, c.Expect.Refusal = "REFUSED", why
			}
			view := show.New(known(t, &f, &c))
			kind, err := decode(t, view, c.Input)
			if c.Expect.Outcome == "REFUSED" {
				if err == nil || !strings.Contains(err.Error(), c.Expect.Refusal) {
					t.Fatalf("error %v, want %q", err, c.Expect.Refusal)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			d := view.Document(show.Header{Kind: kind})
			check(t, c, d)
		})
		seen[c.Expect.Outcome] = true
	}
	if !seen["DECODED"] || !seen["REFUSED"] {
		t.Error("cases of one outcome are missing")
	}
}

func decode(t *testing.T, v *show.View, in caseInput) (string, error) {
	t.Helper()
	if in.Payload != "" {
		return decoded.Payload(v, in.Encoding, in.HashFunction, in.Payload)
	}
	unsigned, err := hex.DecodeString(in.UnsignedTransaction)
	if err != nil {
		t.Fatal(err)
	}
	return decoded.Transaction(v, in.Type, unsigned)
}

// known is what the enclave would know for a case.
func known(t testing.TB, f *caseFile, c *approvalCase) *show.Known {
	t.Helper()
	ms, err := strconv.ParseInt(f.NowMs, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]show.Ownership{}
	for _, a := range f.Context.OwnAccounts {
		own[chain.MatchKey(a.Address)] = show.Own
	}
	k := &show.Known{Now: time.UnixMilli(ms), Signer: signer(t, c.Input), Calls: eth.ShowCall, BuiltIn: decoded.Names(),
		Own: func(address string) (show.Ownership, error) { return own[chain.MatchKey(address)], nil }}
	var tokens []show.Token
	for _, x := range f.Context.Tokens {
		tokens = append(tokens, show.Token{Network: x.Chain, Address: x.Token, Symbol: x.Symbol, Decimals: x.Decimals})
	}
	k.Tokens = show.NewTokens(tokens, nil)
	for _, x := range f.Context.AddressBook {
		k.Entries = append(k.Entries, show.Entry{Name: x.Name, Address: x.Address, From: show.FromOrganization})
	}
	interfaces := map[string]show.Interface{}
	for _, x := range c.Context.Interfaces {
		var d chain.Description
		if x.Type == "SMART_CONTRACT_INTERFACE_TYPE_SOLANA" {
			d, err = sol.Chain{}.Describe(x.Interface)
		} else {
			d, err = eth.Chain{}.Describe(x.Interface)
		}
		if err != nil {
			t.Fatal(err)
		}
		interfaces[chain.MatchKey(x.Address)] = show.Interface{Description: d, Source: show.Source{From: show.FromOrganization, Contract: x.Address}}
	}
	k.Interface = func(address string) (show.Interface, error) { return interfaces[chain.MatchKey(address)], nil }
	return k
}

// Change that goes to an own account whose key was outside is no change: it is marked, and counts as what leaves.
func TestChangeToKeyOutside(t *testing.T) {
	f := readCases(t)
	c := &f.Cases[slices.IndexFunc(f.Cases, func(c approvalCase) bool { return c.ID == "btc-h02" })]
	const change = "bc1qc5z5wvt6g3djznejpdccgceqeswdxhh53c5fee"
	for _, w := range []struct {
		is                   show.Ownership
		spent, output, codes string
	}{
		{show.NotOwn, "50000000", `"own":false,"address":"` + change + `","claimsOwn":true`, "CHANGE_FALSE, ADDRESS_NEW"},
		{show.Own, "30010000", `"own":true,"address":"` + change + `"}`, ""},
		{show.OwnKeyOutside, "50000000", `"own":true,"address":"` + change + `","keyOutside":true}`, "OWN_KEY_OUTSIDE"},
	} {
		k := known(t, &f, c)
		own := k.Own
		k.Own = func(address string) (show.Ownership, error) {
			if address == change {
				return w.is, nil
			}
			return own(address)
		}
		v := show.New(k)
		if _, err := decode(t, v, c.Input); err != nil {
			t.Fatal(err)
		}
		d := v.Document(show.Header{})
		var doc struct {
			Warnings []struct{ Code string }
			Parts    []struct{ Spent struct{ Value string } }
		}
		if err := json.Unmarshal(d.Text(), &doc); err != nil {
			t.Fatal(err)
		}
		var codes []string
		for _, w := range doc.Warnings {
			codes = append(codes, w.Code)
		}
		if got := strings.Join(codes, ", "); got != w.codes || doc.Parts[0].Spent.Value != w.spent || !strings.Contains(string(d.Text()), w.output) {
			t.Errorf("%d: warnings %q, spent %s, want %q, %s and %s in %s", w.is, got, doc.Parts[0].Spent.Value, w.codes, w.spent, w.output, d.Text())
		}
	}
}

// listHash is that of the operator's list in the cases.
const listHash = "d3dee9a94ca02b0c90c486cdc5d24e9c77fc803cf1bd71c2fb9c98069aebf22c"

func signer(t testing.TB, in caseInput) chain.SigningKey {
	t.Helper()
	key, err := hex.DecodeString(in.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	by := chain.SigningKey{Address: in.SignWith}
	curve := chain.Secp256k1
	switch {
	case strings.HasPrefix(in.SignWith, "0x"):
		by.Format = chain.Ethereum
	case strings.HasPrefix(in.SignWith, "bc1q"):
		by.Format = chain.BitcoinMainnetP2WPKH
	case strings.HasPrefix(in.SignWith, "bc1p"):
		by.Format = chain.BitcoinMainnetP2TR
	case strings.HasPrefix(in.SignWith, "T"):
		by.Format = chain.Tron
	default:
		by.Format, curve = chain.Solana, chain.Ed25519
	}
	if by.Public, err = chain.NewPublicKey(curve, key); err != nil {
		t.Fatal(err)
	}
	return by
}

// titles are what some cases do, in words.
var titles = map[string]string{
	"eth-01": "Send ETH", "eth-05": "Create a contract", "eth-07": "Call a contract", "eth-h01": "Allow another to move tokens", "eth-h07": "Run a transaction of a Safe",
	"eth-h15": "Let code act as an account", "typed-01": "Sign typed data", "typed-02": "Allow another to move tokens", "msg-01": "Sign in to a site", "msg-h03": "Sign bytes",
	"msg-h04": "Sign a transaction as bytes", "sol-01": "Send SOL", "sol-02": "Send tokens", "sol-h02": "Change who controls an account", "btc-01": "Send BTC",
	"tron-h01": "Change who controls the account", "tron-h02": "Allow another to move tokens",
}

// check holds a document against what a case says.
func check(t *testing.T, c approvalCase, d show.Document) {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal(d.Text(), &doc); err != nil {
		t.Fatalf("%v in %s", err, d.Text())
	}
	defer func() {
		if t.Failed() {
			t.Logf("%s", d.Text())
		}
	}()
	if doc["kind"] != c.Expect.Kind || doc["readable"] != c.Expect.Readable {
		t.Errorf("kind %v, readable %v; want %s, %s", doc["kind"], doc["readable"], c.Expect.Kind, c.Expect.Readable)
	}
	if want := titles[c.ID]; want != "" && doc["title"] != want {
		t.Errorf("title %q, want %q", doc["title"], want)
	}
	part := doc["parts"].([]any)[0].(map[string]any)
	var digests []string
	for _, s := range part["signs"].([]any) {
		digests = append(digests, s.(map[string]any)["digest"].(string))
	}
	if !slices.Equal(digests, c.Expect.Digests) {
		t.Errorf("digests %v, want %v", digests, c.Expect.Digests)
	}
	for path, want := range c.Expect.Fields {
		if got, ok := find(part, path); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	for _, path := range c.Expect.Absent {
		if got, ok := find(part, path); ok {
			t.Errorf("%s is there: %v", path, got)
		}
	}
	codes := []string{}
	for _, w := range doc["warnings"].([]any) {
		w := w.(map[string]any)
		code := w["code"].(string)
		codes = append(codes, code)
		for _, at := range c.Expect.At[code] {
			if !slices.Contains(w["at"].([]any), any("parts.0."+at)) {
				t.Errorf("%s at %v, want %s", code, w["at"], at)
			}
		}
	}
	slices.Sort(codes)
	if want := slices.Sorted(slices.Values(c.Expect.Warnings)); !slices.Equal(codes, want) {
		t.Errorf("warnings %v, want %v", codes, want)
	}
}

// find goes along a path: into lists by index, and into lists of named entries by name. At an object it means what the object
// is of; at a list how many it has, if a number is asked for. Some paths name a member of what they end in: toLabel.
func find(at any, path string) (any, bool) {
	if path == "" {
		return meant(at), true
	}
	step, rest, _ := strings.Cut(path, ".")
	switch at := at.(type) {
	case []any:
		if i, err := strconv.Atoi(step); err == nil && i < len(at) {
			return find(at[i], rest)
		}
		for _, entry := range at {
			if m, ok := entry.(map[string]any); ok && m["name"] == step {
				return find(entry, rest)
			}
		}
	case map[string]any:
		if next, ok := at[step]; ok && at["name"] == nil {
			return find(next, rest)
		}
		for _, list := range []string{"members", "items"} {
			if next, ok := at[list].([]any); ok {
				return find(next, path)
			}
		}
		if next, ok := at[step]; ok {
			return find(next, rest)
		}
		if next, ok := at["value"].(map[string]any); ok { // a long text, a long piece of data
			return find(next, path)
		}
		for _, suffix := range []string{"Label"} {
			if name, ok := strings.CutSuffix(step, suffix); ok && at[name] != nil {
				return find(at[name], strings.ToLower(suffix))
			}
		}
	}
	return nil, false
}

func meant(at any) any {
	switch at := at.(type) {
	case []any:
		return fmt.Sprint(len(at))
	case map[string]any:
		for _, member := range []string{"value", "address", "text"} {
			if v, ok := at[member].(string); ok {
				return v
			}
		}
		if v, ok := at["value"]; ok {
			return v
		}
	}
	return at
}

// The example is whole: each client must come to these bytes, and to their digest.
func TestExample(t *testing.T) {
	f := readCases(t)
	i := slices.IndexFunc(f.Cases, func(c approvalCase) bool { return c.ID == f.Example.Case })
	c := &f.Cases[i]
	view := show.New(known(t, &f, c))
	kind, err := decode(t, view, c.Input)
	if err != nil {
		t.Fatal(err)
	}
	d := view.Document(show.Header{
		OrganizationID: "00000000-0000-4000-8000-000000000001", ActivityID: "00000000-0000-4000-8000-000000000002", Type: "ACTIVITY_TYPE_SIGN_TRANSACTION_V2",
		Fingerprint: "sha256:00ab98bb768dcb542f8fff40414b41c91248d8c534b89e568ff7319b3fe3553c", Kind: kind,
	})
	// The operator's list of the cases is named by the hash of another text than ours.
	text := bytes.ReplaceAll(d.Text(), []byte(hex.EncodeToString(show.Sum(nil))), []byte(listHash))
	digest := sha256.Sum256(append([]byte("cloister decoded 1\n"), text...))
	if own := sha256.Sum256(append([]byte("cloister decoded 1\n"), d.Text()...)); own != d.Digest() {
		t.Errorf("the digest is %x, and not that of the text: %x", d.Digest(), own)
	}
	if len(text) != f.Example.Canonical.Length || hex.EncodeToString(digest[:]) != f.Example.Canonical.SHA256 {
		t.Errorf("%d bytes with the digest %x, want %d and %s\n%s\n%s", len(text), digest, f.Example.Canonical.Length, f.Example.Canonical.SHA256, text, f.Example.Decoded)
	}
}
