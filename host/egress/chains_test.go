package egress_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/host/egress"
	"cloister/shared/wire"
)

// patience is for answers that come, on a machine however slow.
const patience = 5 * time.Minute

func chains(n *node) *egress.Chains { return egress.NewChains(n.nodes(), patience) }

func TestEthereumIsKnown(t *testing.T) {
	n := newNode(t)
	from, to := strings.Repeat("\x01", 20), strings.Repeat("\x02", 20)
	n.do("eth_getTransactionCount", func(p []any) (any, error) {
		if p[0] != "0x"+strings.Repeat("01", 20) {
			t.Errorf("count of %v", p[0])
		}
		if p[1] == "pending" {
			return "0x2a", nil
		}
		return "0x28", nil
	})
	n.do("eth_feeHistory", func(p []any) (any, error) {
		return object{"oldestBlock": "0x9", "baseFeePerGas": []string{"0x1", "0x3b9aca00"}, "gasUsedRatio": []float64{0.5}}, nil
	})
	n.say("eth_maxPriorityFeePerGas", "0x5f5e100")
	n.do("eth_estimateGas", func(p []any) (any, error) {
		if got := fmt.Sprint(p[0]); got != "map[data:0x0506 from:0x"+strings.Repeat("01", 20)+" to:0x"+strings.Repeat("02", 20)+" value:0x400]" {
			t.Errorf("call %s", got)
		}
		return "0x5208", nil
	})
	c := chains(n)
	got := c.Chain(t.Context(), wire.Chain{Name: "eip155:1", Want: wire.WantNonces | wire.WantFees | wire.WantGas, From: []byte(from), To: []byte(to), Value: []byte{0x04, 0x00}, Data: []byte{5, 6}})
	want := wire.ChainState{Verdict: wire.ChainKnown, Latest: 0x28, Pending: 0x2a, BaseFee: 1e9, Tip: 1e8, Gas: 21000}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v", got)
	}
	if n.count("eth_chainId") != 1 {
		t.Error("the chain was not looked at")
	}
	// Only what is wanted is asked.
	before := len(n.asked)
	if got := c.Chain(t.Context(), wire.Chain{Name: "eip155:1"}); got.Verdict != wire.ChainKnown || len(n.asked) != before {
		t.Fatalf("%+v, %v", got, n.asked)
	}
	c.Chain(t.Context(), wire.Chain{Name: "eip155:1", Want: wire.WantFees})
	if got := n.asked[before:]; len(got) != 2 {
		t.Errorf("asked %v", got)
	}
	// A node that counts at two moments is no liar.
	n.do("eth_getTransactionCount", func(p []any) (any, error) { return map[any]string{"pending": "0x1", "latest": "0x2"}[p[1]], nil })
	if got := c.Chain(t.Context(), wire.Chain{Name: "eip155:1", Want: wire.WantNonces}); got.Latest != 2 || got.Pending != 2 {
		t.Fatalf("%+v", got)
	}
}

func TestSolanaIsKnown(t *testing.T) {
	n := newNode(t)
	n.say("getLatestBlockhash", object{"context": object{"slot": 5}, "value": object{"blockhash": "EkSnNWid2cvwEVnVx9aBqawnmiCNiDgp3gUdkDPTKN1N", "lastValidBlockHeight": 9}})
	for _, name := range []string{"solana:devnet", "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1", "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG"} {
		got := chains(n).Chain(t.Context(), wire.Chain{Name: name, Want: wire.WantBlockhash})
		if got.Verdict != wire.ChainKnown || got.Blockhash[0] != 0xcc && got.Blockhash == (wire.Hash{}) {
			t.Fatalf("%s: %+v", name, got)
		}
	}
	for what, bad := range map[string]any{
		"no hash": object{"value": object{}}, "short": object{"value": object{"blockhash": "abc"}}, "long": object{"value": object{"blockhash": strings.Repeat("1", 45)}},
		"alphabet": object{"value": object{"blockhash": "0OIl"}}, "no value": object{}, "a number": object{"value": 7}, "null": nil,
	} {
		n.say("getLatestBlockhash", bad)
		if got := chains(n).Chain(t.Context(), wire.Chain{Name: "solana:devnet", Want: wire.WantBlockhash}); got.Verdict != wire.ChainWrong || got.Blockhash != (wire.Hash{}) {
			t.Errorf("%s: %+v", what, got)
		}
	}
	n.say("getGenesisHash", "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d")
	if got := chains(n).Chain(t.Context(), wire.Chain{Name: "solana:devnet", Want: wire.WantBlockhash}); got.Verdict != wire.ChainWrong || !strings.Contains(got.Text, "another network") {
		t.Errorf("%+v", got)
	}
	if got := chains(n).Chain(t.Context(), wire.Chain{Name: "solana:devnet", Want: wire.WantNonces}); got.Verdict != wire.ChainWrong {
		t.Errorf("%+v", got)
	}
}

func TestSolanaFeesAndAccounts(t *testing.T) {
	n := newNode(t)
	c := chains(n)
	accounts := [][]byte{bytes.Repeat([]byte{1}, 32), make([]byte, 32)}
	texts := "[4vJ9JU1bJJE96FWSJKvHsmmFADCg4gpZQff4P3bkLKi 11111111111111111111111111111111]"
	fees := func(of ...int) (all []object) {
		for i, fee := range of {
			all = append(all, object{"slot": i, "prioritizationFee": fee})
		}
		return all
	}
	asked := func(method string, answer any) {
		n.do(method, func(p []any) (any, error) {
			if got := fmt.Sprint(p[0]); got != texts {
				t.Errorf("%s of %s", method, got)
			}
			return answer, nil
		})
	}
	asked("getRecentPrioritizationFees", fees(9, 0, 7, 8, 5))
	asked("getMultipleAccounts", object{"context": object{"slot": 1}, "value": []any{nil, object{"lamports": 1}}})
	ask := wire.Chain{Name: "solana:devnet", Want: wire.WantFees | wire.WantExisting, Accounts: accounts}
	if got := c.Chain(t.Context(), ask); got.Verdict != wire.ChainKnown || got.Tip != 8 || got.Existing != 0b10 || n.count("getLatestBlockhash") != 0 {
		t.Fatalf("%+v", got)
	}
	asked("getRecentPrioritizationFees", fees())
	if got := c.Chain(t.Context(), ask); got.Verdict != wire.ChainKnown || got.Tip != 0 {
		t.Errorf("%+v", got)
	}
	for what, bad := range map[string]func(){
		"no list":         func() { n.say("getRecentPrioritizationFees", object{}) },
		"a fee below 0":   func() { n.say("getRecentPrioritizationFees", fees(-1)) },
		"one account":     func() { n.say("getMultipleAccounts", object{"value": []any{nil}}) },
		"no accounts":     func() { n.say("getMultipleAccounts", nil) },
		"three accounts":  func() { n.say("getMultipleAccounts", object{"value": []any{nil, nil, nil}}) },
		"a node without":  func() { n.refuse("getMultipleAccounts", -32601, "Method not found") },
		"a limit":         func() { n.refuse("getRecentPrioritizationFees", -32005, "slow down") },
		"not of accounts": func() { n.say("getMultipleAccounts", []any{nil, nil}) },
	} {
		asked("getRecentPrioritizationFees", fees(1))
		asked("getMultipleAccounts", object{"value": []any{nil, nil}})
		bad()
		if got := c.Chain(t.Context(), ask); got.Verdict != wire.ChainWrong || got.Existing != 0 {
			t.Errorf("%s: %+v", what, got)
		}
	}
	ask.Accounts = make([][]byte, wire.MaxChainAccounts+1)
	if got := c.Chain(t.Context(), ask); got.Verdict != wire.ChainWrong {
		t.Errorf("%+v", got)
	}
}

func TestNodesThatAnswerWrong(t *testing.T) {
	ask := wire.Chain{Name: "eip155:1", Want: wire.WantNonces, From: make([]byte, 20)}
	gas := wire.Chain{Name: "eip155:1", Want: wire.WantGas, From: make([]byte, 20)}
	fees := wire.Chain{Name: "eip155:1", Want: wire.WantFees}
	for what, c := range map[string]struct {
		set  func(n *node)
		ask  wire.Chain
		want wire.ChainVerdict
		says string
	}{
		"another chain":    {func(n *node) { n.say("eth_chainId", "0x2") }, ask, wire.ChainWrong, "eip155:2"},
		"no such method":   {func(n *node) {}, ask, wire.ChainWrong, "does not exist"},
		"a number":         {func(n *node) { n.say("eth_getTransactionCount", 7) }, ask, wire.ChainWrong, "no sense"},
		"decimal":          {func(n *node) { n.say("eth_getTransactionCount", "7") }, ask, wire.ChainWrong, "no sense"},
		"empty quantity":   {func(n *node) { n.say("eth_getTransactionCount", "0x") }, ask, wire.ChainWrong, "no sense"},
		"negative":         {func(n *node) { n.say("eth_getTransactionCount", "0x-1") }, ask, wire.ChainWrong, "no sense"},
		"underscores":      {func(n *node) { n.say("eth_getTransactionCount", "0x1_0") }, ask, wire.ChainWrong, "no sense"},
		"too large":        {func(n *node) { n.say("eth_getTransactionCount", "0x10000000000000000") }, ask, wire.ChainWrong, "no sense"},
		"null":             {func(n *node) { n.say("eth_getTransactionCount", nil) }, ask, wire.ChainWrong, "no sense"},
		"object":           {func(n *node) { n.say("eth_getTransactionCount", object{"a": "0x1"}) }, ask, wire.ChainWrong, "no sense"},
		"rate":             {func(n *node) { n.refuse("eth_getTransactionCount", -32005, "limit exceeded") }, ask, wire.ChainWrong, "limit exceeded"},
		"loose words":      {func(n *node) { n.refuse("eth_getTransactionCount", 1, "a\x00b\n\u00e9"+strings.Repeat("c", 1000)) }, ask, wire.ChainWrong, "a b "},
		"breaks off":       {func(n *node) { n.do("eth_getTransactionCount", func([]any) (any, error) { return nil, errAway }) }, ask, wire.ChainWrong, "not reached"},
		"late":             {func(n *node) { n.hangs("eth_getTransactionCount") }, ask, wire.ChainLate, ""},
		"late about chain": {func(n *node) { n.hangs("eth_chainId") }, ask, wire.ChainLate, ""},
		"reverts":          {func(n *node) { n.refuse("eth_estimateGas", 3, "execution reverted: no") }, gas, wire.ChainReverts, "execution reverted: no"},
		"no funds":         {func(n *node) { n.refuse("eth_estimateGas", -32000, "insufficient funds") }, gas, wire.ChainReverts, "insufficient funds"},
		"gas limit":        {func(n *node) { n.refuse("eth_estimateGas", -32005, "slow down") }, gas, wire.ChainWrong, "slow down"},
		"no base fees":     {func(n *node) { n.say("eth_feeHistory", object{}); n.say("eth_maxPriorityFeePerGas", "0x1") }, fees, wire.ChainWrong, "0 base fees"},
		"many base fees": {func(n *node) {
			n.say("eth_feeHistory", object{"baseFeePerGas": []string{"0x1", "0x1", "0x1"}})
			n.say("eth_maxPriorityFeePerGas", "0x1")
		}, fees, wire.ChainWrong, "3 base fees"},
		"not ours": {func(n *node) {}, wire.Chain{Name: "eip155:1", Want: wire.WantBlockhash}, wire.ChainWrong, "no such thing"},
		"no node":  {func(n *node) {}, wire.Chain{Name: "eip155:137", Want: wire.WantNonces}, wire.ChainNoNode, ""},
		"no name":  {func(n *node) {}, wire.Chain{Want: wire.WantNonces}, wire.ChainNoNode, ""},
	} {
		t.Run(what, func(t *testing.T) {
			n := newNode(t)
			c.set(n)
			wait := patience
			if c.want == wire.ChainLate {
				wait = 50 * time.Millisecond
			}
			got := egress.NewChains(n.nodes(), wait).Chain(t.Context(), c.ask)
			if got.Verdict != c.want || !strings.Contains(got.Text, c.says) || len(got.Text) > wire.MaxChainText || strings.Contains(got.Text, n.URL) {
				t.Fatalf("%+v, want %d %q", got, c.want, c.says)
			}
			if got.Verdict != wire.ChainKnown && (got.Latest|got.Pending|got.Gas|got.BaseFee|got.Tip) != 0 {
				t.Fatalf("numbers with a verdict: %+v", got)
			}
			if b, err := wire.Marshal(&got); err != nil || wire.Unmarshal(b, new(wire.ChainState)) != nil {
				t.Fatalf("does not cross: %v", err)
			}
		})
	}
}

// TestThingsThatAreNoNodes: whatever stands at the address, the answer is an error
// and of bounded size.
func TestThingsThatAreNoNodes(t *testing.T) {
	for what, serve := range map[string]http.HandlerFunc{
		"text":  func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") },
		"empty": func(http.ResponseWriter, *http.Request) {},
		"another id": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":99999,"result":"0x1"}`)
		},
		"no id": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"jsonrpc":"2.0","result":"0x1"}`) },
		"text id": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":"1","result":"0x1"}`)
		},
		"no result": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"jsonrpc":"2.0","id":1}`) },
		"array": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `[{"jsonrpc":"2.0","id":1,"result":"0x1"}]`)
		},
		"deep":         func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("[", 1<<20)) },
		"unauthorized": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnauthorized) },
		"away": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"id":1,"error":{"code":3,"message":"reverted"}}`, http.StatusBadGateway)
		},
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		},
		"endless": func(w http.ResponseWriter, _ *http.Request) {
			for range 1 << 12 {
				if _, err := w.Write(make([]byte, 1<<10)); err != nil {
					return
				}
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := httptest.NewServer(serve)
			defer s.Close()
			c := egress.NewChains(egress.Nodes{"eip155:1": s.URL, "solana:devnet": s.URL}, patience)
			for _, ask := range []wire.Chain{{Name: "eip155:1", Want: wire.WantGas}, {Name: "solana:devnet", Want: wire.WantBlockhash}} {
				if got := c.Chain(t.Context(), ask); got.Verdict != wire.ChainWrong {
					t.Errorf("%+v", got)
				}
			}
		})
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	if got := egress.NewChains(egress.Nodes{"eip155:1": gone.URL}, patience).Chain(t.Context(), wire.Chain{Name: "eip155:1", Want: wire.WantGas}); got.Verdict != wire.ChainWrong || strings.Contains(got.Text, "127.0.0.1") {
		t.Errorf("%+v", got)
	}
}

// FuzzNode throws answers at what reads them; ID in one is the question's.
func FuzzNode(f *testing.F) {
	for _, seed := range []string{`{"jsonrpc":"2.0","id":ID,"result":"0x1"}`, `{"id":ID,"result":{"value":{"blockhash":"1"}}}`, `{"id":ID,"error":{"code":3,"message":"x","data":"0x"}}`,
		`{"id":ID,"result":{"baseFeePerGas":["0x1"]}}`, `{"id":ID,"result":"EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG"}`} {
		f.Add([]byte(seed))
	}
	var mu sync.Mutex
	var body []byte
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ask struct{ ID json.Number }
		_ = json.NewDecoder(r.Body).Decode(&ask)
		mu.Lock()
		defer mu.Unlock()
		_, _ = w.Write(bytes.ReplaceAll(body, []byte("ID"), []byte(ask.ID.String())))
	}))
	f.Cleanup(s.Close)
	c := egress.NewChains(egress.Nodes{"eip155:1": s.URL, "solana:devnet": s.URL}, time.Second)
	f.Fuzz(func(t *testing.T, answer []byte) {
		mu.Lock()
		body = answer
		mu.Unlock()
		for _, ask := range []wire.Chain{{Name: "eip155:1", Want: wire.WantGas}, {Name: "eip155:1", Want: wire.WantFees}, {Name: "solana:devnet", Want: wire.WantBlockhash}} {
			if got := c.Chain(t.Context(), ask); len(got.Text) > wire.MaxChainText || got.Verdict == 0 || got.Verdict == wire.ChainNoNode {
				t.Fatalf("%+v", got)
			}
		}
	})
}

// TestDelegation: whose code an account has, and how many executions that has counted.
func TestDelegation(t *testing.T) {
	account := bytes.Repeat([]byte{3}, 20)
	ask := wire.Chain{Name: "eip155:1", Want: wire.WantDelegation, Account: account}
	delegate := strings.Repeat("2a", 20)
	slot := func(digits string) string { return "0x" + strings.Repeat("0", 64-len(digits)) + digits }
	for name, c := range map[string]struct {
		code, value string
		want        wire.ChainState
	}{
		"no code":          {"0x", slot(""), wire.ChainState{Verdict: wire.ChainKnown, Transactions: 9}},
		"given up":         {"0x", slot("7"), wire.ChainState{Verdict: wire.ChainKnown, Transactions: 9, Executions: 7}},
		"a delegate":       {"0xEF0100" + delegate, slot("ff"), wire.ChainState{Verdict: wire.ChainKnown, Transactions: 9, Executions: 255, Delegate: bytes.Repeat([]byte{0x2a}, 20)}},
		"high bytes":       {"0x", "0x" + strings.Repeat("f", 32) + strings.Repeat("0", 31) + "1", wire.ChainState{Verdict: wire.ChainKnown, Transactions: 9, Executions: 1}},
		"a contract":       {"0x6001", slot(""), wire.ChainState{Verdict: wire.ChainWrong}},
		"a longer one":     {"0xef0100" + delegate + "00", slot(""), wire.ChainState{Verdict: wire.ChainWrong}},
		"a shorter one":    {"0xef0100" + delegate[2:], slot(""), wire.ChainState{Verdict: wire.ChainWrong}},
		"no code at all":   {"", slot(""), wire.ChainState{Verdict: wire.ChainWrong}},
		"a short value":    {"0x", "0x07", wire.ChainState{Verdict: wire.ChainWrong}},
		"a long value":     {"0x", slot("7") + "00", wire.ChainState{Verdict: wire.ChainWrong}},
		"more than counts": {"0x", slot("1" + strings.Repeat("0", 16)), wire.ChainState{Verdict: wire.ChainWrong}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.say("eth_getCode", c.code)
			n.say("eth_getStorageAt", c.value)
			n.say("eth_getTransactionCount", "0x9")
			got := chains(n).Chain(t.Context(), ask)
			if got.Text = ""; !reflect.DeepEqual(got, c.want) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}
