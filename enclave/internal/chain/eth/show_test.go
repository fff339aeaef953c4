package eth_test

import (
	"bytes"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/chain/show"
)

func shownBy(t *testing.T) chain.SigningKey {
	t.Helper()
	p, err := chain.NewPublicKey(chain.Secp256k1, unhex(t, "02796e6ba7d9179e83726def0418aa9a9522331c96338c0d1d06cb556f99027c35"))
	if err != nil {
		t.Fatal(err)
	}
	return chain.SigningKey{Public: p, Format: chain.Ethereum, Address: "0x5AF86b9c401983F0Ce23d27047fDDFA6c967965d"}
}

// documentOf shows a call of an account by a transaction of type 2 on Ethereum.
func documentOf(t *testing.T, to string, value int64, data []byte) string {
	t.Helper()
	return documentBy(t, &show.Known{}, to, value, data)
}

// documentBy is documentOf with what is known of tokens and interfaces.
func documentBy(t *testing.T, known *show.Known, to string, value int64, data []byte) string {
	t.Helper()
	account := [20]byte(unhex(t, to[2:]))
	tx, err := eth.Chain{}.Read(eth.Unsigned1559(1, 1, big.NewInt(1), big.NewInt(2), 100_000, &account, big.NewInt(value), data), shownBy(t))
	if err != nil {
		t.Fatal(err)
	}
	known.Now, known.Signer, known.Calls = time.Unix(1767225600, 0), shownBy(t), eth.ShowCall
	v := show.New(known)
	if err := tx.(show.Transaction).Show(v, v.Part()); err != nil {
		t.Fatal(err)
	}
	return string(v.Document(show.Header{}).Text())
}

func shownView(t *testing.T) *show.View {
	return show.New(&show.Known{Now: time.Unix(1767225600, 0), Signer: shownBy(t), Calls: eth.ShowCall})
}

// shownTyped is the document of typed data.
func shownTyped(t *testing.T, text string) string {
	t.Helper()
	typed, err := eth.ReadTypedMessage([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	v := shownView(t)
	if err := typed.Show(v, v.Part()); err != nil {
		t.Fatal(err)
	}
	return string(v.Document(show.Header{}).Text())
}

const someone = "35cDF80606C5e1eFfE6Cb81d969f03f0c04deCC9"

// word is an argument of 32 bytes.
func word(text string) string { return strings.Repeat("0", 64-len(text)) + strings.ToLower(text) }

// dynamic is an argument of bytes, without its offset.
func dynamic(data string) string {
	return word(fmt.Sprintf("%x", len(data)/2)) + data + strings.Repeat("0", -len(data)&63)
}

// The selectors are those that are published for these functions.
func TestStandardFunctions(t *testing.T) {
	for selector, name := range map[string]string{
		"a9059cbb": "transfer(address,uint256)", "23b872dd": "transferFrom(address,address,uint256)", "095ea7b3": "approve(address,uint256)",
		"39509351": "increaseAllowance(address,uint256)", "d505accf": "permit(address,address,uint256,uint256,uint8,bytes32,bytes32)",
		"8fcbaf0c": "permit(address,address,uint256,uint256,bool,uint8,bytes32,bytes32)", "a22cb465": "setApprovalForAll(address,bool)",
		"42842e0e": "safeTransferFrom(address,address,uint256)", "f242432a": "safeTransferFrom(address,address,uint256,uint256,bytes)",
		"87517c45": "approve(address,address,uint160,uint48)", "2b67b570": "permit(address,((address,uint160,uint48,uint48),address,uint256),bytes)",
		"2a2d80d1": "permit(address,((address,uint160,uint48,uint48)[],address,uint256),bytes)", "f2fde38b": "transferOwnership(address)",
		"2f2ff15d": "grantRole(bytes32,address)", "3659cfe6": "upgradeTo(address)", "4f1ef286": "upgradeToAndCall(address,bytes)",
		"8d80ff0a": "multiSend(bytes)", "0d582f13": "addOwnerWithThreshold(address,uint256)", "610b5925": "enableModule(address)",
		"e19a9dd9": "setGuard(address)", "ac9650d8": "multicall(bytes[])", "82ad56cb": "aggregate3((address,bool,bytes)[])",
		"b61d27f6": "execute(address,uint256,bytes)", "34fcd5be": "executeBatch((address,uint256,bytes)[])", "d0e30db0": "deposit()",
	} {
		if s := documentOf(t, "0x"+someone, 0, unhex(t, selector)); !strings.Contains(s, `"function":"`+name+`","functionSource":"BUILTIN"`) {
			t.Errorf("%s: %s", selector, s)
		}
	}
}

// What a call does is told by warnings.
func TestEffects(t *testing.T) {
	const callOnly, foreignCode, token = "0x40A2aCCbd92BCA938b02010E17A5b8929b49130D", "0xA238CBeb142c10Ef7Ad8442C6D1f9E89e07e7761", "0xdAC17F958D2ee523a2206206994597C13D831ec7"
	all := strings.Repeat("f", 64)
	approve := "095ea7b3" + word(someone) + all
	packed := func(operation string) string {
		return operation + someone + word("5") + word(fmt.Sprintf("%x", len(approve)/2)) + approve
	}
	exec := func(to, operation, data string) string {
		return "6a761202" + word(to[2:]) + word("0") + word("140") + word(operation) + strings.Repeat(word("0"), 5) +
			word(fmt.Sprintf("%x", 0x140+32+(len(data)/2+31)/32*32)) + dynamic(data) + dynamic("")
	}
	send := func(operation string) string { return "8d80ff0a" + word("20") + dynamic(packed(operation)) }
	for _, c := range []struct {
		about, to string
		value     int64
		data      string
		has, not  []string
	}{
		{"nobody's tokens", token, 0, "a9059cbb" + word("0") + word("5"), []string{"ADDRESS_BURN", "TOKEN_UNKNOWN"}, []string{"ADDRESS_NEW\",\"severity\":\"INFO\",\"at\":[\"parts.0.calls.0.args"}},
		{"a bounded right", token, 0, "095ea7b3" + word(someone) + word("5"), []string{`"code":"APPROVAL",`}, []string{"UNLIMITED"}},
		{"a right taken back, or the collectible with the number 0", token, 0, "095ea7b3" + word(someone) + word("0"), []string{`"code":"APPROVAL",`}, []string{"UNLIMITED"}},
		{"nobody's right to it", token, 0, "095ea7b3" + word("0") + word("0"), nil, []string{"APPROVAL"}},
		{"a right raised by nothing", token, 0, "39509351" + word(someone) + word("0"), nil, []string{`"code":"APPROVAL"`}},
		{"2^96-1", token, 0, "095ea7b3" + word(someone) + word(strings.Repeat("f", 24)), []string{"APPROVAL_UNLIMITED"}, nil},
		{"all of a collection", token, 0, "a22cb465" + word(someone) + word("1"), []string{"APPROVAL_ALL"}, nil},
		{"none of a collection", token, 0, "a22cb465" + word(someone) + word("0"), nil, []string{"APPROVAL_ALL"}},
		{"DAI's permit", token, 0, "8fcbaf0c" + word(someone) + word(someone) + word("0") + word("0") + word("1") + word("1b") + word("1") + word("1"), []string{"APPROVAL_UNLIMITED", "NO_EXPIRY"}, nil},
		{"half of 160 bits", token, 0, "87517c45" + word(token[2:]) + word(someone) + word("8"+strings.Repeat("0", 39)) + word("69600000"), []string{"APPROVAL_UNLIMITED"}, []string{"NO_EXPIRY"}},
		{"less, and for long", token, 0, "87517c45" + word(token[2:]) + word(someone) + word("7"+strings.Repeat("f", 39)) + word("ffffffffffff"), []string{`"code":"APPROVAL",`, "NO_EXPIRY"}, []string{"APPROVAL_UNLIMITED"}},
		{"another owner", token, 0, "f2fde38b" + word(someone), []string{"CONTROL_CHANGE", "ADDRESS_NEW"}, nil},
		{"a hash approved", token, 0, "d4d9bdcd" + word("1"), []string{"BLIND"}, nil},
		{"several by code that only calls", "0x" + someone, 0, exec(callOnly, "1", send("00")), []string{"SAFE_EXEC", "SAFE_MULTI_SEND", "APPROVAL_UNLIMITED"}, []string{`"DELEGATECALL","severity"`, "ENCODING_ODD"}},
		{"and one among them that is foreign", "0x" + someone, 0, exec(callOnly, "1", send("01")), []string{`"DELEGATECALL","severity"`, `"reason":"DELEGATECALL"`}, []string{"APPROVAL_UNLIMITED"}},
		{"several by code that may do more", "0x" + someone, 0, exec(foreignCode, "1", send("00")), []string{`"DELEGATECALL","severity"`, "APPROVAL_UNLIMITED"}, nil},
		{"what is packed ends too early", "0x" + someone, 0, "8d80ff0a" + word("20") + dynamic(packed("00")[:150]), []string{"TRAILING_DATA"}, nil},
		{"and so do the arguments", "0x" + someone, 0, "8d80ff0a" + word("20") + dynamic(packed("00")[:150]) + "01", []string{`"transactions":{"trailing":{"hex":"0x00`, `"trailing":{"hex":"0x01"`}, nil},
		{"arguments that are none", token, 0, "8d80ff0a" + all + word("5"), []string{"DOES_NOT_DECODE", "UNREAD", `"code":"BLIND"`}, []string{"SAFE_MULTI_SEND"}},
		{"two bytes", token, 0, "a905", []string{"UNKNOWN_FUNCTION"}, []string{"selector"}},
		{"coins to nobody", "0x" + strings.Repeat("0", 40), 1, "", []string{"ADDRESS_BURN"}, []string{"ADDRESS_NEW"}},
	} {
		s := documentOf(t, c.to, c.value, unhex(t, c.data))
		for _, want := range c.has {
			if !strings.Contains(s, want) {
				t.Errorf("%s: no %s in %s", c.about, want, s)
			}
		}
		for _, not := range c.not {
			if strings.Contains(s, not) {
				t.Errorf("%s: %s in %s", c.about, not, s)
			}
		}
	}
}

// A call that another pays for is shown with what it does for the account.
func TestShownExecution(t *testing.T) {
	account := [20]byte(unhex(t, someone))
	e := eth.Execution{Account: account, ChainID: 1, Nonce: 3, Deadline: 1767225600, Calls: []eth.Call{{To: eth.Station, Value: big.NewInt(7), Data: unhex(t, "095ea7b3"+word(someone)+word("9"))}}}
	s := documentOf(t, eth.AddressText(eth.Station), 0, e.CallData(chain.Signature{}, true))
	for _, want := range []string{`"label":"TKGasStation","labelSource":"BUILTIN"`, `"function":"approve(address,uint256)"`, `"value":"7","unit":"wei"`} {
		if !strings.Contains(s, want) {
			t.Errorf("no %s in %s", want, s)
		}
	}
}

// Members that no type names are in no hash, and are told apart.
func TestUnsignedMembers(t *testing.T) {
	const text = `{"types":{"Order":[{"name":"amount","type":"uint256"},{"name":"inner","type":"Inner"}],"Inner":[{"name":"big","type":"int256"}]},"primaryType":"Order",` +
		`"domain":{"name":"Perm\u0456t2","chainId":1,"verifyingContract":"0x` + someone + `"},"message":{"amount":"1","note":"harmless","inner":{"big":"-57896044618658097711785492504343953926634992332820282019728792003956564819968","more":1}}}`
	v := shownView(t)
	typed, err := eth.ReadTypedMessage([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := eth.ParseTypedData([]byte(text)); err != nil || plain.Digest() != typed.Digest() {
		t.Fatalf("%v: policies and approvers are told of different digests", err)
	}
	if err := typed.Show(v, v.Part()); err != nil {
		t.Fatal(err)
	}
	s := string(v.Document(show.Header{}).Text())
	for _, want := range []string{
		`"unsigned":[{"name":"Order.note"},{"name":"Inner.more"}]`, `"value":"-57896044618658097711785492504343953926634992332820282019728792003956564819968"`,
		`"encodeType":"Order(uint256 amount,Inner inner)Inner(int256 big)"`, "DOMAIN_FALSE", "TEXT_SCRIPTS",
	} {
		if !strings.Contains(s, want) {
			t.Errorf("no %s in %s", want, s)
		}
	}
	if strings.Contains(s, "harmless") {
		t.Error(s)
	}
}

func TestMessageOf(t *testing.T) {
	prefixed := func(length, message string) []byte {
		return []byte("\x19Ethereum Signed Message:\n" + length + message)
	}
	for _, c := range []struct {
		preimage []byte
		want     string
		ok       bool
	}{
		{prefixed("5", "hello"), "hello", true},
		{prefixed("12", "hello, world"), "hello, world", true},
		{prefixed("1", "1"), "1", true}, // the length is told from the message by what fits
		{prefixed("0", ""), "", true},
		{prefixed("6", "hello"), "", false},
		{prefixed("05", "hello"), "", false},
		{prefixed("", "hello"), "", false},
		{[]byte("hello"), "", false},
	} {
		message, ok := eth.MessageOf(c.preimage)
		if ok != c.ok || !bytes.Equal(message, []byte(c.want)) {
			t.Errorf("%q: %q, %v", c.preimage, message, ok)
		}
	}
}

// What is not exactly a message that signs in is a message like any other.
func TestSignIn(t *testing.T) {
	const whole = "example.com wants you to sign in with your Ethereum account:\n0x5AF86b9c401983F0Ce23d27047fDDFA6c967965d\n\nHello.\n\n" +
		"URI: https://example.com\nVersion: 1\nChain ID: 1\nNonce: abcdefgh\nIssued At: 2026-01-01T00:00:00Z\nExpiration Time: 2026-01-02T00:00:00Z\nResources:\n- https://a\n- https://b"
	shown := func(message string) string {
		v := shownView(t)
		eth.ShowMessage(v, v.Part(), []byte(message), shownBy(t).Public)
		return string(v.Document(show.Header{}).Text())
	}
	if s := shown(whole); !strings.Contains(s, `"meaning":"SIGN_IN"`) || !strings.Contains(s, `"resources":[{"uri":"https://a"},{"uri":"https://b"}]`) || !strings.Contains(s, `"statement":"Hello."`) {
		t.Error(s)
	}
	if s := shown(strings.Replace(whole, "Hello.\n\n", "\n", 1)); !strings.Contains(s, "SIGN_IN") || strings.Contains(s, "statement") {
		t.Error(s)
	}
	for _, change := range [][2]string{
		{"Version: 1", "Version: 2"}, {"URI: ", "url: "}, {"Nonce: abcdefgh", "Nonce: abc"}, {"967965d", "967965D"}, {"- https://b", "https://b"},
		{"Issued At: 2026-01-01T00:00:00Z", "Issued At: today"}, {"Chain ID: 1", "Chain ID: one"}, {"Expiration Time", "More"}, {"\n\nHello.", "\nHello."},
	} {
		if s := shown(strings.Replace(whole, change[0], change[1], 1)); strings.Contains(s, "SIGN_IN") || !strings.Contains(s, `"lines":[`) {
			t.Errorf("%v: %s", change, s)
		}
	}
}

// A message that is no text is shown as bytes, and one of 32 bytes is a hash, whatever letters it has.
func TestMessageOfBytes(t *testing.T) {
	for message, want := range map[string][]string{
		"\xff\xfe":                 {`"reason":"DOES_NOT_DECODE","hex":"0xfffe"`, `"readable":"NONE"`, "BLIND", "UNREAD"},
		strings.Repeat("\xff", 32): {`"reason":"DIGEST","hex":"0xffff`, `"readable":"NONE"`, "BLIND"},
		strings.Repeat("a", 32):    {`"reason":"DIGEST","hex":"0x6161`, `"lines":["aaaa`, `"readable":"NONE"`, "BLIND"},
		strings.Repeat("a", 33):    {`"lines":["aaaa`, `"readable":"FULL"`, `"warnings":[]`},
	} {
		v := shownView(t)
		eth.ShowMessage(v, v.Part(), []byte(message), shownBy(t).Public)
		s := string(v.Document(show.Header{}).Text())
		for _, part := range want {
			if !strings.Contains(s, part) {
				t.Errorf("%q: no %s in %s", message, part, s)
			}
		}
		if strings.Contains(s, "FFFD") {
			t.Errorf("%q: %s", message, s)
		}
	}
}

// What an owner of a Safe agrees to is shown as a call; its long data are not told as cut beside it.
func TestLongSafeTransaction(t *testing.T) {
	const types = `"types":{"SafeTx":[{"name":"to","type":"address"},{"name":"value","type":"uint256"},{"name":"data","type":"bytes"},{"name":"operation","type":"uint8"},{"name":"safeTxGas","type":"uint256"},{"name":"baseGas","type":"uint256"},{"name":"gasPrice","type":"uint256"},{"name":"gasToken","type":"address"},{"name":"refundReceiver","type":"address"},{"name":"nonce","type":"uint256"}]}`
	approve := "095ea7b3" + word(someone) + word("5")
	data := "ac9650d8" + word("20") + word("4") + word("80") + word("100") + word("180") + word("200") + strings.Repeat(dynamic(approve), 4)
	text := `{` + types + `,"primaryType":"SafeTx","domain":{"chainId":1,"verifyingContract":"0x` + someone + `"},"message":{"to":"0x` + someone + `","value":"0","data":"0x` + data +
		`","operation":0,"safeTxGas":"0","baseGas":"0","gasPrice":"0","gasToken":"0x` + strings.Repeat("0", 40) + `","refundReceiver":"0x` + strings.Repeat("0", 40) + `","nonce":"1"}}`
	s := shownTyped(t, text)
	if strings.Contains(s, `"CUT"`) || strings.Count(s, `"meaning":"ERC20_APPROVE"`) != 4 || !strings.Contains(s, `"readable":"FULL"`) || !strings.Contains(s, `"code":"APPROVAL"`) {
		t.Error(s)
	}
}

// An account of 20 bytes on another chain is another account: no interface for Ethereum explains it.
func TestInterfacesOfOtherChains(t *testing.T) {
	uploaded, err := eth.Chain{}.Describe(`[{"type":"function","name":"relay","inputs":[{"name":"v","type":"uint256"}]}]`)
	if err != nil {
		t.Fatal(err)
	}
	selector := chain.Keccak([]byte("relay(uint256)"))
	data := append(selector[:4:4], unhex(t, word("1"))...)
	for network, want := range map[string]bool{"eip155:4217": true, "tron": false} {
		v := show.New(&show.Known{Signer: shownBy(t), Calls: eth.ShowCall, Interface: func(string) (show.Interface, error) {
			return show.Interface{Description: uploaded, Source: show.Source{From: show.FromOrganization}}, nil
		}})
		err := v.ShowCall(v.Part().List("calls"), show.ContractCall{Network: network, Address: chain.ChecksumAddress, To: unhex(t, someone), Data: data})
		if err != nil {
			t.Fatal(err)
		}
		if s := string(v.Document(show.Header{}).Text()); strings.Contains(s, "relay(uint256)") != want {
			t.Errorf("%s: %s", network, s)
		}
	}
}
