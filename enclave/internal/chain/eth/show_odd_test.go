package eth_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/chain/show"
)

const (
	usdt = "0xdAC17F958D2ee523a2206206994597C13D831ec7"
	weth = "0xC02aaA39b223FE8D0A0e5C4F27eAD9083C756Cc2"
)

func listed() *show.Known {
	return &show.Known{Tokens: show.NewTokens([]show.Token{
		{Network: "eip155:1", Address: usdt, Symbol: "USDT", Decimals: 6}, {Network: "eip155:1", Address: weth, Symbol: "WETH", Decimals: 18},
		{Network: "eip155:10", Address: "0x" + someone, Symbol: "WETH", Decimals: 18},
	}, nil)}
}

// A seen is what of a document decides how an approver looks at it.
type seen struct {
	Severity, Readable, Title string
	Warnings                  []struct{ Code string }
}

func (s seen) codes() (all []string) {
	for _, w := range s.Warnings {
		all = append(all, w.Code)
	}
	slices.Sort(all)
	return all
}

func look(t *testing.T, document string) (s seen) {
	t.Helper()
	if err := json.Unmarshal([]byte(document), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func codes(text string) []string { return slices.Sorted(slices.Values(strings.Fields(text))) }

// Contracts of older compilers pass over the bytes of a word that its type does not use, and read zeros where the data end. So the
// same call written in that way has the same warnings, beside those about the writing.
func TestOddWords(t *testing.T) {
	const odd = " ENCODING_ODD"
	all := strings.Repeat("f", 64)
	d := strings.Repeat("0", 22) + "01" + strings.ToLower(someone) // an address under a dirty byte
	safe := func(to, operation string) string {
		return "6a761202" + to + word("0") + word("140") + operation + strings.Repeat(word("0"), 5) + word("160") + dynamic("") + dynamic("")
	}
	noted := func(from, to string) string { return "a9059cbb" + from + to }
	for _, c := range []struct {
		about, to, clean, odd, warnings string
		severity                        show.Severity
	}{
		{"approve", usdt, "095ea7b3" + word(someone) + all, "095ea7b3" + d + all, "ADDRESS_NEW APPROVAL_UNLIMITED", show.Danger},
		{"setApprovalForAll, a dirty address", usdt, "a22cb465" + word(someone) + word("1"), "a22cb465" + d + word("1"), "ADDRESS_NEW APPROVAL_ALL", show.Danger},
		{"setApprovalForAll, 2 for true", usdt, "a22cb465" + word(someone) + word("1"), "a22cb465" + word(someone) + word("2"), "ADDRESS_NEW APPROVAL_ALL", show.Danger},
		{"setApprovalForAll, 2^255 for true", usdt, "a22cb465" + word(someone) + word("1"), "a22cb465" + word(someone) + "8" + strings.Repeat("0", 63), "ADDRESS_NEW APPROVAL_ALL", show.Danger},
		{"transferOwnership", usdt, "f2fde38b" + word(someone), "f2fde38b" + d, "ADDRESS_NEW CONTROL_CHANGE", show.Danger},
		{"upgradeTo", usdt, "3659cfe6" + word(someone), "3659cfe6" + d, "ADDRESS_NEW UPGRADE", show.Danger},
		{"transfer", usdt, noted(word(someone), word("5")), noted(d, word("5")), "ADDRESS_NEW", show.Warn},
		{"execTransaction, a dirty address", usdt, safe(word(someone), word("1")), safe(d, word("1")), "ADDRESS_NEW DELEGATECALL UNREAD", show.Danger},
		{"execTransaction, a dirty operation", usdt, safe(word(someone), word("1")), safe(word(someone), "ff"+word("1")[2:]), "ADDRESS_NEW DELEGATECALL UNREAD", show.Danger},
		{"Permit2's approve, a dirty amount", "0x000000000022D473030F116dDEE9F6B43aC78BA3", "87517c45" + word(usdt[2:]) + word(someone) + word("8"+strings.Repeat("0", 39)) + word("69600000"),
			"87517c45" + word(usdt[2:]) + word(someone) + "ff" + word("8" + strings.Repeat("0", 39))[2:] + word("69600000"), "ADDRESS_NEW APPROVAL_UNLIMITED", show.Danger},
		{"approve that ends too early", usdt, "095ea7b3" + word(someone) + all[:62] + "00", "095ea7b3" + word(someone) + all[:62], "ADDRESS_NEW APPROVAL_UNLIMITED", show.Danger},
		{"transferOwnership of nothing", usdt, "f2fde38b" + word("0"), "f2fde38b", "CONTROL_CHANGE", show.Danger},
		{"the short address", usdt, noted(word(someone), word("500")), noted(word(someone), word("500")[:62]), "ADDRESS_NEW", show.Warn},
	} {
		clean, dirty := documentBy(t, listed(), c.to, 0, unhex(t, c.clean)), documentBy(t, listed(), c.to, 0, unhex(t, c.odd))
		a, b := look(t, clean), look(t, dirty)
		if got := a.codes(); !slices.Equal(got, codes(c.warnings)) {
			t.Errorf("%s, as encoders write it: %v, want %s", c.about, got, c.warnings)
		}
		if got := b.codes(); !slices.Equal(got, codes(c.warnings+odd)) || b.Severity != c.severity.String() || b.Readable != "PARTIAL" || b.Title != a.Title {
			t.Errorf("%s: %v, %s, %s, %s; want %s%s, %v", c.about, got, b.Severity, b.Readable, b.Title, c.warnings, odd, c.severity)
		}
		if member := func(s string) string { return s[strings.Index(s, `"args":`):] }; member(clean) != member(dirty) {
			t.Errorf("%s: shown are\n%s\nand\n%s", c.about, member(clean), member(dirty))
		}
	}
}

// In another call it is the same.
func TestOddWordsInside(t *testing.T) {
	odd := "095ea7b3" + strings.Repeat("f", 24) + strings.ToLower(someone) + strings.Repeat("f", 64)
	inner := []string{
		"ac9650d8" + word("20") + word("1") + word("20") + dynamic(odd),
		"b61d27f6" + word(usdt[2:]) + word("0") + word("60") + dynamic(odd),
		"8d80ff0a" + word("20") + dynamic("00"+usdt[2:]+word("0")+word("44")+odd),
	}
	for _, data := range inner {
		s := look(t, documentBy(t, listed(), usdt, 0, unhex(t, data)))
		if got := s.codes(); !slices.Contains(got, "APPROVAL_UNLIMITED") || !slices.Contains(got, "ENCODING_ODD") || s.Severity != "DANGER" {
			t.Errorf("%.8s: %v", data, got)
		}
	}
}

// What follows the arguments takes no danger away, and what is written oddly does not hide it.
func TestBytesBehind(t *testing.T) {
	all := strings.Repeat("f", 64)
	for data, want := range map[string]string{
		"095ea7b3" + word(someone) + all + "01":                                                              "ADDRESS_NEW APPROVAL_UNLIMITED TRAILING_DATA",
		"095ea7b3" + "01" + word(someone)[2:] + all + "01":                                                   "ADDRESS_NEW APPROVAL_UNLIMITED ENCODING_ODD TRAILING_DATA",
		"f2fde38b" + word(someone) + word("1"):                                                               "ADDRESS_NEW CONTROL_CHANGE TRAILING_DATA",
		"4f1ef286" + word(someone) + word("40") + dynamic("") + "01":                                         "ADDRESS_NEW TRAILING_DATA UPGRADE",
		"4f1ef286" + "01" + word(someone)[2:] + word("40") + dynamic("") + strings.Repeat("01", 32):          "ADDRESS_NEW ENCODING_ODD UPGRADE",
		"4f1ef286" + word(someone) + word("60") + strings.Repeat("01", 32) + dynamic(""):                     "ADDRESS_NEW ENCODING_ODD UPGRADE",
		"a22cb465" + word(someone) + word("1") + strings.Repeat("ab", 300):                                   "ADDRESS_NEW APPROVAL_ALL TRAILING_DATA",
		"095ea7b3" + word(someone) + word("5") + "095ea7b3" + word(someone) + strings.Repeat("f", 64) + "00": "ADDRESS_NEW APPROVAL TRAILING_DATA",
	} {
		document := documentBy(t, listed(), usdt, 0, unhex(t, data))
		if got := look(t, document).codes(); !slices.Equal(got, codes(want)) {
			t.Errorf("%s: %v, want %s", data, got, want)
		}
		if strings.Contains(want, "TRAILING") != strings.Contains(document, `"trailing":{`) {
			t.Errorf("%s: %s", data, document)
		}
	}
}

// Of a standard function whose arguments nobody can read the worst is said.
func TestStandardsThatCannotBeRead(t *testing.T) {
	all := strings.Repeat("f", 64)
	for data, want := range map[string]string{
		"6a761202" + word(someone) + word("0") + all + word("1") + strings.Repeat(word("0"), 6): "DELEGATECALL", // an offset that leads outside
		"6a761202" + word(someone) + word("0") + word("140"):                                    "DELEGATECALL", // too short
		"468721a7" + word(someone) + word("0") + all + word("0"):                                "DELEGATECALL", // execTransactionFromModule
		"b63e800d":                             "CONTROL_CHANGE DELEGATECALL", // setup
		"8d80ff0a" + all:                       "DELEGATECALL",                // multiSend
		"4f1ef286" + word(someone):             "UPGRADE",                     // upgradeToAndCall
		"9623609d" + word(someone):             "UPGRADE",                     // upgradeAndCall
		"2b67b570" + word(someone):             "APPROVAL_UNLIMITED",          // Permit2's permit of one
		"2a2d80d1" + word(someone) + all + all: "APPROVAL_UNLIMITED",          // and of several
		"cae9ca51" + word(someone) + all:       "APPROVAL_UNLIMITED",          // approveAndCall
		"ac9650d8" + all:                       "",
		"82ad56cb" + all:                       "",
		"b61d27f6" + word(someone):             "",
		"4000aea0" + word(someone) + word("5"): "", // transferAndCall
	} {
		document := documentBy(t, listed(), usdt, 0, unhex(t, data))
		s := look(t, document)
		if got := s.codes(); !slices.Equal(got, codes("BLIND UNREAD "+want)) || s.Severity != "DANGER" || s.Readable != "NONE" {
			t.Errorf("%s: %v, %s, %s; want %s", data, got, s.Severity, s.Readable, want)
		}
		if !strings.Contains(document, `"reason":"DOES_NOT_DECODE"`) || strings.Contains(document, `"meaning"`) {
			t.Errorf("%s: %s", data, document)
		}
	}
}

// uploadedFor is what an organization knows that has uploaded an interface for every contract.
func uploadedFor(t *testing.T, abi string) *show.Known {
	t.Helper()
	d, err := eth.Chain{}.Describe(abi)
	if err != nil {
		t.Fatal(err)
	}
	k := listed()
	k.Interface = func(string) (show.Interface, error) {
		return show.Interface{Description: d, Source: show.Source{From: show.FromOrganization, Record: "record"}}, nil
	}
	return k
}

func abiOf(name string, types ...string) string {
	var inputs []string
	for i, typ := range types {
		inputs = append(inputs, fmt.Sprintf(`{"name":"n%d","type":%q}`, i, typ))
	}
	return fmt.Sprintf(`[{"type":"function","name":%q,"inputs":[%s]}]`, name, strings.Join(inputs, ","))
}

// An uploaded interface says nothing of a function that is built in, whatever it calls it.
func TestInterfacesAgainstStandards(t *testing.T) {
	pay := "a9059cbb" + word(someone) + word("4c4b40")
	plain := documentBy(t, listed(), usdt, 0, unhex(t, pay))
	for about, abi := range map[string]string{
		"another signature": abiOf("workMyDirefulOwner", "uint256", "uint256"), "the same": abiOf("transfer", "address", "uint256"), "none of it": abiOf("relay", "uint256"),
	} {
		document := documentBy(t, uploadedFor(t, abi), usdt, 0, unhex(t, pay))
		if document != plain {
			t.Errorf("%s: %s", about, document)
		}
		if !strings.Contains(document, `"meaning":"ERC20_TRANSFER"`) || !strings.Contains(document, `"text":"5","symbol":"USDT"`) || look(t, document).Severity != "INFO" {
			t.Errorf("%s: %s", about, document)
		}
	}
	// Data that are not the standard function's arguments are not the other's either.
	blind := "4f1ef286" + word("1")
	if s := look(t, documentBy(t, uploadedFor(t, abiOf("upgradeToAndCall", "address", "bytes")), usdt, 0, unhex(t, blind))); !slices.Equal(s.codes(), codes("BLIND UNREAD UPGRADE")) {
		t.Error(s)
	}
	// Functions that are not built in are the organization's to name.
	sum := chain.Keccak([]byte("relay(uint256)"))
	if s := documentBy(t, uploadedFor(t, abiOf("relay", "uint256")), usdt, 0, append(sum[:4:4], unhex(t, word("1"))...)); !strings.Contains(s, `"function":"relay(uint256)","functionSource":"ORGANIZATION"`) {
		t.Error(s)
	}
}

func TestFalseStandard(t *testing.T) {
	for _, c := range []struct{ abi, signature, standard string }{
		{abiOf("workMyDirefulOwner", "uint256", "uint256"), "workMyDirefulOwner(uint256,uint256)", "transfer(address,uint256)"},
		{abiOf("collate_propagate_storage", "bytes16"), "collate_propagate_storage(bytes16)", "burn(uint256)"},
		{abiOf("transfer", "address", "uint256"), "", ""},
		{abiOf("relay", "uint256"), "", ""},
		{`[]`, "", ""},
		{strings.Replace(abiOf("relay", "uint256"), "[", "["+strings.TrimSuffix(abiOf("workMyDirefulOwner", "uint256", "uint256")[1:], "]")+",", 1), "workMyDirefulOwner(uint256,uint256)", "transfer(address,uint256)"},
	} {
		if signature, standard := describe(t, c.abi).FalseStandard(); signature != c.signature || standard != c.standard {
			t.Errorf("%s: %q, %q", c.abi, signature, standard)
		}
	}
}

// Coins are wrapped by the contract that the operator's list has under that name, and by no other.
func TestWrapping(t *testing.T) {
	for _, c := range []struct {
		about, to string
		value     int64
		data      string
		title     string
		warnings  string
	}{
		{"deposit", weth, 5, "d0e30db0", "Wrap coins into tokens", ""},
		{"withdraw", weth, 0, "2e1a7d4d" + word("5"), "Unwrap tokens into coins", ""},
		{"deposit for somebody unknown", "0x" + someone, 5, "d0e30db0", "Call a contract", "ADDRESS_NEW TOKEN_UNKNOWN VALUE_ALONG"}, // wrapped coins on another chain
		{"of nothing", "0x" + someone, 0, "d0e30db0", "Call a contract", "ADDRESS_NEW TOKEN_UNKNOWN"},
		{"withdraw from somebody unknown", "0x" + someone, 0, "2e1a7d4d" + word("5"), "Call a contract", "ADDRESS_NEW TOKEN_UNKNOWN"},
		{"deposit for another token", usdt, 5, "d0e30db0", "Call a contract", "VALUE_ALONG"},
	} {
		document := documentBy(t, listed(), c.to, c.value, unhex(t, c.data))
		if s := look(t, document); s.Title != c.title || !slices.Equal(s.codes(), codes(c.warnings)) {
			t.Errorf("%s: %s, %v; want %s, %s", c.about, s.Title, s.codes(), c.title, c.warnings)
		}
		if wraps := c.to == weth; strings.Contains(document, `"meaning"`) != wraps {
			t.Errorf("%s: %s", c.about, document)
		}
	}
}

// An approval of 0 takes a right back only of a token that is known to be none of collectibles.
func TestApprovalOfNumberZero(t *testing.T) {
	zero := "095ea7b3" + word(someone) + word("0")
	functions := func(all ...string) string { return "[" + strings.Join(all, ",") + "]" }
	decimals, owner := `{"type":"function","name":"decimals","inputs":[]}`, `{"type":"function","name":"ownerOf","inputs":[{"name":"id","type":"uint256"}]}`
	for _, c := range []struct {
		about, to string
		known     *show.Known
		warnings  string
	}{
		{"listed", usdt, listed(), "ADDRESS_NEW"},
		{"unknown", weth[:40] + "ff", listed(), "ADDRESS_NEW APPROVAL TOKEN_UNKNOWN"},
		{"an interface with decimals", weth[:40] + "ff", uploadedFor(t, functions(decimals)), "ADDRESS_NEW TOKEN_UNKNOWN"},
		{"and with owners", weth[:40] + "ff", uploadedFor(t, functions(decimals, owner)), "ADDRESS_NEW APPROVAL TOKEN_UNKNOWN"},
		{"an interface without", weth[:40] + "ff", uploadedFor(t, functions(owner)), "ADDRESS_NEW APPROVAL TOKEN_UNKNOWN"},
	} {
		if got := look(t, documentBy(t, c.known, c.to, 0, unhex(t, zero))).codes(); !slices.Equal(got, codes(c.warnings)) {
			t.Errorf("%s: %v, want %s", c.about, got, c.warnings)
		}
	}
	// What cannot be found out is no interface.
	known := listed()
	known.Interface = func(string) (show.Interface, error) { return show.Interface{}, errors.New("lost") }
	known.Signer = shownBy(t)
	v := show.New(known)
	if err := eth.ShowCall(v, v.Part().List("calls"), show.ContractCall{Network: "eip155:1", Address: chain.ChecksumAddress, To: unhex(t, someone), Data: unhex(t, zero)}); err == nil {
		t.Error("an interface that could not be read was passed over")
	}
}

// Owners of a Safe see the text that they sign; what is none, and may be another signature of the Safe, is signed blindly.
func TestSafeMessages(t *testing.T) {
	preimage := "1901" + strings.Repeat("ab", 64)
	for _, c := range []struct{ about, message, severity, readable, has string }{
		{"what typed data are hashed from", preimage, "DANGER", "NONE", `"reason":"DIGEST","hex":"0x1901abab`},
		{"one that is text", "1901" + strings.Repeat("61", 64), "DANGER", "NONE", `"reason":"DIGEST"`},
		{"a hash", strings.Repeat("ab", 32), "DANGER", "NONE", `"reason":"DIGEST"`},
		{"bytes", preimage + "ab", "DANGER", "NONE", `"reason":"DOES_NOT_DECODE"`},
		{"nothing", "", "DANGER", "NONE", `"reason":"DOES_NOT_DECODE"`},
		{"text with what nobody sees", hex.EncodeToString([]byte("\x19Ethereum Signed Message:\n8hello, a")), "DANGER", "NONE", `"reason":"DOES_NOT_DECODE"`},
		{"text", hex.EncodeToString([]byte("I agree\nto the terms")), "INFO", "FULL", `"lines":["I agree","to the terms"]`},
		{"text of other letters", hex.EncodeToString([]byte("Grüße")), "INFO", "FULL", `"lines":["Gr\\u{FC}\\u{DF}e"]`},
	} {
		text := `{"types":{"SafeMessage":[{"name":"message","type":"bytes"}]},"primaryType":"SafeMessage","domain":{"chainId":1,"verifyingContract":"0x` + someone + `"},"message":{"message":"0x` + c.message + `"}}`
		document := shownTyped(t, text)
		s := look(t, document)
		if s.Severity != c.severity || s.Readable != c.readable || s.Title != "Sign a message as a Safe" || !strings.Contains(document, c.has) {
			t.Errorf("%s: %s, %s: %s", c.about, s.Severity, s.Readable, document)
		}
		if slices.Contains(s.codes(), "BLIND") != (c.severity == "DANGER") {
			t.Errorf("%s: %v", c.about, s.codes())
		}
	}
}

// Calls by the delegate's code may take the account's authorization along: the host says at the vote whether the account has the code.
func TestSendThatMayDelegate(t *testing.T) {
	call := eth.Call{To: [20]byte(unhex(t, someone)), Value: big.NewInt(5)}
	for _, c := range []struct {
		about string
		send  eth.Send
		want  bool
	}{
		{"sponsored", eth.Send{Calls: []eth.Call{call}, Delegated: true, Sponsored: true}, true},
		{"several calls", eth.Send{Calls: []eth.Call{call, call}, Delegated: true}, true},
		{"one that the account pays", eth.Send{Calls: []eth.Call{call}}, false},
		{"taken back", eth.Send{Undelegates: true, Delegated: true}, false},
	} {
		c.send.ChainID, c.send.MostFee = 10, big.NewInt(1)
		c.send.From = [20]byte(unhex(t, "5AF86b9c401983F0Ce23d27047fDDFA6c967965d"))
		v := shownView(t)
		if err := c.send.Show(v, v.Part()); err != nil {
			t.Fatal(err)
		}
		document := string(v.Document(show.Header{}).Text())
		const authorization = `"authorization":{"address":{"address":"0x2a31eF110e4Cdb9C332aA1d8633510214299c48B","label":"TKGasDelegate","labelSource":"BUILTIN"},"chainId":"10",` +
			`"authority":"0x5AF86b9c401983F0Ce23d27047fDDFA6c967965d","mayBeSigned":true,"nonce":{"source":"HOST"}}`
		s := look(t, document)
		if strings.Contains(document, authorization) != c.want || slices.Contains(s.codes(), "DELEGATION") != c.want || (s.Severity == "WARN") != c.want {
			t.Errorf("%s: %s", c.about, document)
		}
	}
}
