package egress_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/mr-tron/base58"

	"cloister/host/egress"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
)

const (
	usd    = `{"caip19":"eip155:1/erc20:0x%s","symbol":"USD","name":"Dollar","decimals":6,"logoUrl":"https://a/b.png","stable":true}`
	minted = `{"caip19":"solana:devnet/token:%s","symbol":"M","name":"Mint","decimals":0}`
	holder = "0x1111111111111111111111111111111111111111"
	block  = "0xb10cb10cb10cb10cb10cb10cb10cb10cb10cb10cb10cb10cb10cb10cb10cb10c"
)

var (
	tokenText  = strings.Repeat("aB", 20)
	mint       = strings.Repeat("\x07", 32)
	mintText   = base58.Encode([]byte(mint))
	owner      = strings.Repeat("\x09", 32)
	ownerText  = base58.Encode([]byte(owner))
	devnet     = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"
	listedText = fmt.Sprintf("[%s,%s]", fmt.Sprintf(usd, tokenText), fmt.Sprintf(minted, mintText))
)

func reading(t testing.TB, n *node) *egress.Chains {
	c := chains(n)
	assets, err := egress.ParseAssets([]byte(listedText))
	if err != nil {
		t.Fatal(err)
	}
	c.SetAssets(assets)
	return c
}

func TestAssetsThatAreRefused(t *testing.T) {
	many := make([]string, wire.MaxTokens+1)
	for i := range many {
		many[i] = fmt.Sprintf(usd, fmt.Sprintf("%040x", i))
	}
	one := fmt.Sprintf(usd, tokenText)
	with := func(old, new string) string { return "[" + strings.Replace(one, old, new, 1) + "]" }
	for what, text := range map[string]string{
		"nothing": "", "no list": "{}", "more than a list": "[] []", "another member": with(`"stable"`, `"stabel"`),
		"no decimals": with(`"decimals":6,`, ""), "too many decimals": with(`:6,`, `:78,`), "negative": with(`:6,`, `:-1,`), "as text": with(`:6,`, `:"6",`),
		"no symbol": with(`"USD"`, `""`), "a long name": with("Dollar", strings.Repeat("x", 65)), "another alphabet": with("USD", "USÐ"),
		"http": with("https:", "http:"), "a script": with("https://a/b.png", "javascript:alert(1)"), "no chain": with("eip155:1/", ""), "another chain": with("eip155:1", "cosmos:1"),
		"a short address": with(tokenText, tokenText[2:]), "no digits": with(tokenText, strings.Repeat("g", 40)), "another kind": with("erc20", "erc721"), "its own coin": with("erc20:0x"+tokenText, "slip44:60"),
		"a mint of Ethereum": with("erc20:0x"+tokenText, "token:"+mintText), "twice": "[" + one + "," + strings.ReplaceAll(one, "aB", "Ab") + "]", "too many": "[" + strings.Join(many, ",") + "]",
	} {
		if got, err := egress.ParseAssets([]byte(text)); err == nil {
			t.Errorf("%s was taken: %v", what, got)
		}
	}
	if got, err := egress.ParseAssets([]byte("[" + strings.Join(many[1:], ",") + "]")); err != nil || len(got["eip155:1"]) != wire.MaxTokens {
		t.Error(err)
	}
}

func answer(word string, values ...uint64) string {
	out := "0x"
	for _, v := range values {
		out += word + fmt.Sprintf("%064x", v)
	}
	return out
}

var yes, no = fmt.Sprintf("%064x", 1), fmt.Sprintf("%064x", 0)

func TestBalancesOfEthereum(t *testing.T) {
	n := newNode(t)
	c := reading(t, n)
	// A list needs nobody's answer.
	n.hangs("eth_chainId")
	if got := c.Read(t.Context(), wire.ReadChain{Name: "eip155:1"}); got.Verdict != wire.ChainKnown || len(got.Tokens) != 1 || !got.Tokens[0].Stable || got.Tokens[0].Symbol != "USD" || len(got.Coin) != 0 {
		t.Fatalf("%+v", got)
	}
	n.say("eth_chainId", "0x1")
	n.say("eth_getBalance", "0xde0b6b3a7640000")
	n.do("eth_call", func(p []any) (any, error) {
		data, _ := p[0].(object)["data"].(string)
		if len(p[0].(object)) != 1 || !strings.Contains(data, "73"+strings.ToLower(tokenText)) || !strings.Contains(data, "73"+holder[2:]) || p[1] != "latest" {
			t.Errorf("call %v", p)
		}
		return answer(yes, 7), nil
	})
	c = reading(t, n)
	ask := wire.ReadChain{Name: "eip155:1", Address: holder}
	got := c.Read(t.Context(), ask)
	if got.Verdict != wire.ChainKnown || hex.EncodeToString(got.Coin) != "0de0b6b3a7640000" || len(got.Tokens) != 1 || string(got.Tokens[0].Balance) != "\x07" {
		t.Fatalf("%+v", got)
	}
	largest := "0x" + strings.Repeat("f", 64)
	n.say("eth_getBalance", largest)
	n.say("eth_call", "0x"+yes+largest[2:])
	if got = c.Read(t.Context(), ask); got.Verdict != wire.ChainKnown || len(got.Coin) != 32 || len(got.Tokens[0].Balance) != 32 {
		t.Fatalf("%+v", got)
	}
	if got := chains(n).Read(t.Context(), ask); got.Verdict != wire.ChainKnown || got.Tokens != nil {
		t.Errorf("without a list: %+v", got)
	}
	for what, bad := range map[string]any{
		"beyond 256 bits": "0x1" + strings.Repeat("0", 64), "a number": 7, "a float": 1e30, "null": nil, "empty": "0x", "decimal": "12", "an object": object{}, "a list": []string{"0x1"},
		"negative": "0x-1", "no digits": "0xzz", "10 MB": "0x" + strings.Repeat("0", 10<<20),
	} {
		n.say("eth_getBalance", bad)
		if got := c.Read(t.Context(), ask); got.Verdict != wire.ChainWrong || len(got.Text) > wire.MaxChainText || got.Coin != nil || got.Tokens != nil {
			t.Errorf("%s: %d %.200v", what, got.Verdict, got)
		}
	}
	n.say("eth_getBalance", "0x1")
	for what, bad := range map[string]any{
		"a contract that tells nothing": answer(no, 0), "too short": "0x" + yes, "too long": answer(yes, 7, 8), "neither yes nor no": answer(fmt.Sprintf("%064x", 2), 7), "nothing": "0x", "null": nil,
		"no hexadecimal": "0x" + strings.Repeat("g", 128), "10 MB": "0x" + strings.Repeat(yes, 160_000),
	} {
		n.say("eth_call", bad)
		if got := c.Read(t.Context(), ask); got.Verdict != wire.ChainWrong || got.Coin != nil {
			t.Errorf("%s: %d %.200v", what, got.Verdict, got)
		}
	}
	n.say("eth_call", answer(no, 0))
	if got := c.Read(t.Context(), ask); !strings.Contains(got.Text, "erc20:0x"+tokenText) {
		t.Errorf("the asset is not named: %+v", got)
	}
	if got := c.Read(t.Context(), wire.ReadChain{Name: "eip155:10", Address: holder}); got.Verdict != wire.ChainNoNode {
		t.Errorf("%+v", got)
	}
}

// held is a token account as a node tells it.
func held(mint, owner string, amount byte) object {
	return object{"pubkey": "x", "account": object{"data": []string{base64.StdEncoding.EncodeToString([]byte(mint + owner + string([]byte{amount, 0, 0, 0, 0, 0, 0, 0x80}))), "base64"}}}
}

func TestBalancesOfSolana(t *testing.T) {
	n := newNode(t)
	n.say("getBalance", object{"context": object{"slot": 1}, "value": uint64(1<<64 - 1)})
	accounts := func(of ...object) object { return object{"context": object{"slot": 1}, "value": of} }
	// Both programs have accounts of the mint: what they hold is added, above 64 bits too.
	n.say("getTokenAccountsByOwner", accounts(held(mint, owner, 1), held(mint, owner, 2), held(strings.Repeat("\x08", 32), owner, 9)))
	c, ask := reading(t, n), wire.ReadChain{Name: "solana:devnet", Address: ownerText}
	got := c.Read(t.Context(), ask)
	if got.Verdict != wire.ChainKnown || hex.EncodeToString(got.Coin) != "ffffffffffffffff" || len(got.Tokens) != 1 || hex.EncodeToString(got.Tokens[0].Balance) != "020000000000000006" ||
		got.Tokens[0].CAIP19 != devnet+"/token:"+mintText {
		t.Fatalf("%+v", got)
	}
	for what, bad := range map[string]any{
		"another owner": accounts(held(mint, strings.Repeat("\x0a", 32), 1)), "too short": accounts(object{"account": object{"data": []string{"AAAA", "base64"}}}), "no base64": accounts(object{"account": object{"data": []string{"!", ""}}}),
		"an object": accounts(object{"account": object{"data": object{"parsed": 1}}}), "a number": 7, "10 MB": accounts(object{"account": object{"data": []string{strings.Repeat("A", 10<<20), ""}}}),
	} {
		n.say("getTokenAccountsByOwner", bad)
		if got := c.Read(t.Context(), ask); got.Verdict != wire.ChainWrong {
			t.Errorf("%s: %+v", what, got)
		}
	}
	n.say("getTokenAccountsByOwner", accounts())
	for what, bad := range map[string]any{"negative": -1, "a fraction": 0.5, "as text": "7", "huge": 1e40, "null": nil} {
		n.say("getBalance", object{"value": bad})
		if got := c.Read(t.Context(), ask); got.Verdict != wire.ChainWrong {
			t.Errorf("%s: %+v", what, got)
		}
	}
	for _, address := range []string{"0OIl", "abc", strings.Repeat("1", 45), holder} {
		if got := c.Read(t.Context(), wire.ReadChain{Name: "solana:devnet", Address: address}); got.Verdict != wire.ChainWrong {
			t.Errorf("%s: %+v", address, got)
		}
	}
}

func TestTransactionsInBlocks(t *testing.T) {
	n := newNode(t)
	names := []string{"0x" + strings.Repeat("01", 32), "0x" + strings.Repeat("02", 32), "0x" + strings.Repeat("03", 32)}
	receipt := func(name, number, status string) object {
		return object{"transactionHash": name, "status": status, "blockNumber": number, "blockHash": block, "gasUsed": "0x5208", "effectiveGasPrice": "0x3b9aca00"}
	}
	n.say("eth_getBlockByNumber", object{"number": "0x10", "hash": block, "timestamp": "0x1"})
	at := "0x10"
	n.do("eth_getBlockByHash", func(p []any) (any, error) { return object{"number": at, "hash": p[0], "timestamp": "0x68000000"}, nil })
	n.do("eth_getTransactionReceipt", func(p []any) (any, error) {
		switch p[0] {
		case names[0]:
			r := receipt(names[0], at, "0x1")
			r["l1Fee"], r["blobGasUsed"], r["blobGasPrice"] = "0x5", "0x2", "0x3"
			return r, nil
		case names[1]:
			return receipt(names[1], at, "0x0"), nil
		}
		return nil, nil
	})
	c, ask := reading(t, n), wire.ReadChain{Name: "eip155:1", Transactions: names}
	want := []wire.Mined{{Block: 16, Hash: block, TimeMs: 0x68000000 * 1000, Fee: []byte{0x13, 0x19, 0x71, 0x8a, 0x50, 0x0b}, Final: true},
		{Block: 16, Hash: block, TimeMs: 0x68000000 * 1000, Fee: []byte{0x13, 0x19, 0x71, 0x8a, 0x50, 0x00}, Failed: true, Final: true}, {}}
	if got := c.Read(t.Context(), ask); got.Verdict != wire.ChainKnown || !reflect.DeepEqual(got.Transactions, want) {
		t.Fatalf("%+v", got)
	}
	at = "0x11"
	if got := c.Read(t.Context(), ask); got.Transactions[0].Final || got.Transactions[0].Block != 17 {
		t.Errorf("a block that is not final yet: %+v", got)
	}
	n.refuse("eth_getBlockByNumber", -39001, "finalized block not found")
	if got := c.Read(t.Context(), ask); got.Verdict != wire.ChainKnown || got.Transactions[0].Final {
		t.Errorf("a chain that has finalized nothing: %+v", got)
	}
	for what, bad := range map[string]object{
		"another's": receipt(names[1], at, "0x1"), "another block": receipt(names[0], "0x12", "0x1"), "no fee": {"transactionHash": names[0], "status": "0x1", "blockNumber": at, "blockHash": block},
		"a huge fee":   {"transactionHash": names[0], "status": "0x1", "blockNumber": at, "blockHash": block, "gasUsed": "0x" + strings.Repeat("f", 64), "effectiveGasPrice": "0x2"},
		"a short hash": {"transactionHash": names[0], "status": "0x1", "blockNumber": at, "blockHash": "0x01", "gasUsed": "0x1", "effectiveGasPrice": "0x1"},
	} {
		n.say("eth_getTransactionReceipt", bad)
		if got := c.Read(t.Context(), wire.ReadChain{Name: "eip155:1", Transactions: names[:1]}); got.Verdict != wire.ChainWrong || got.Transactions != nil {
			t.Errorf("%s: %+v", what, got)
		}
	}
	if got := c.Read(t.Context(), wire.ReadChain{Name: "eip155:1", Transactions: make([]string, wire.MaxStates+1)}); got.Verdict != wire.ChainWrong {
		t.Errorf("%+v", got)
	}
}

func TestTransactionsOfSolana(t *testing.T) {
	n := newNode(t)
	n.say("getSignatureStatuses", object{"value": []any{object{"confirmationStatus": "finalized"}, object{"confirmationStatus": "processed"}, nil, object{"confirmationStatus": "confirmed"}}})
	n.do("getTransaction", func(p []any) (any, error) {
		failed := any(nil)
		if p[0] == "d" {
			failed = object{"InstructionError": []any{0, "Custom"}}
		}
		return object{"slot": 9, "blockTime": 7, "meta": object{"fee": 5000, "err": failed}, "transaction": object{"signatures": []any{p[0]}}}, nil
	})
	n.say("getBlock", object{"blockhash": "Hash"})
	c, ask := reading(t, n), wire.ReadChain{Name: "solana:devnet", Transactions: []string{"a", "b", "c", "d"}}
	want := []wire.Mined{{Block: 9, Hash: "Hash", TimeMs: 7000, Fee: []byte{0x13, 0x88}, Final: true}, {}, {}, {Block: 9, Hash: "Hash", TimeMs: 7000, Fee: []byte{0x13, 0x88}, Failed: true}}
	if got := c.Read(t.Context(), ask); got.Verdict != wire.ChainKnown || !reflect.DeepEqual(got.Transactions, want) {
		t.Fatalf("%+v", got)
	}
	for what, bad := range map[string]any{
		"another's": object{"slot": 9, "blockTime": 7, "meta": object{"fee": 1}, "transaction": object{"signatures": []string{"z"}}}, "no meta": object{"slot": 9, "blockTime": 7, "transaction": object{"signatures": []string{"a"}}},
		"negative fee": object{"slot": 9, "blockTime": 7, "meta": object{"fee": -1}, "transaction": object{"signatures": []string{"a"}}}, "long ago": object{"slot": 9, "blockTime": -7, "meta": object{"fee": 1}, "transaction": object{"signatures": []string{"a"}}},
	} {
		n.say("getTransaction", bad)
		if got := c.Read(t.Context(), ask); got.Verdict != wire.ChainWrong {
			t.Errorf("%s: %+v", what, got)
		}
	}
	n.say("getSignatureStatuses", object{"value": []any{nil}})
	if got := c.Read(t.Context(), ask); got.Verdict != wire.ChainWrong {
		t.Errorf("too few: %+v", got)
	}
}

// TestReadingANodeThatHangs: it costs questions about other chains nothing.
func TestReadingANodeThatHangs(t *testing.T) {
	n := newNode(t)
	n.hangs("eth_getBalance")
	n.say("getBalance", object{"value": 3})
	n.say("getTokenAccountsByOwner", object{"value": []any{}})
	c := reading(t, n)
	for range 200 {
		go c.Read(t.Context(), wire.ReadChain{Name: "eip155:1", Address: holder})
	}
	clocktest.Until(t, "as many questions as connections to one node", func() bool { return n.count("eth_getBalance") >= 32 })
	if got := c.Read(t.Context(), wire.ReadChain{Name: "solana:devnet", Address: ownerText}); got.Verdict != wire.ChainKnown || string(got.Coin) != "\x03" {
		t.Errorf("%+v", got)
	}
}

func FuzzParseAssets(f *testing.F) {
	f.Add([]byte(listedText))
	f.Add([]byte(`[{"caip19":"eip155:1/erc20:0x"}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		assets, err := egress.ParseAssets(text)
		for name, of := range assets {
			if err != nil || len(of) > wire.MaxTokens || len(name) > 200 {
				t.Errorf("%s: %d, %v", name, len(of), err)
			}
		}
	})
}
