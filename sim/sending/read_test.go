package sending_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/mr-tron/base58"

	"cloister/host/egress"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/hostile"
)

const (
	dollar    = "0x00000000000000000000000000000000000000d0"
	worthless = "0x00000000000000000000000000000000000000d1"
	blockHash = "0xb10cb10cb10cb10cb10cb10cb10cb10cb10cb10cb10cb10cb10cb10cb10cb10c"
)

const listed = `[{"caip19":"` + caip2 + `/erc20:` + dollar + `","symbol":"USD","name":"Dollar","decimals":6,"logoUrl":"https://logo.example/usd.png","stable":true},
	{"caip19":"` + caip2 + `/erc20:` + worthless + `","symbol":"NIL","name":"Nothing","decimals":0}]`

// tells is a node that knows balances and blocks; change alters its answers by method.
func (c *chain) tells(change object) {
	c.set(func() {
		c.lie = func(method string, params []any) (any, bool) {
			if answer, ok := change[method]; ok {
				return answer, true
			}
			switch method {
			case "eth_getBalance":
				return "0xde0b6b3a7640001", true // a coin and the smallest part of one
			case "eth_call":
				return "0x" + word(1) + word(2_500_000) + word(1) + word(0), true
			case "eth_getBlockByNumber", "eth_getBlockByHash":
				return object{"number": "0x9", "hash": blockHash, "timestamp": "0x68000000"}, true
			case "eth_getTransactionReceipt":
				for _, name := range c.mined {
					if name == params[0] {
						return object{"transactionHash": name, "status": "0x1", "blockNumber": "0x9", "blockHash": blockHash, "gasUsed": "0x5208", "effectiveGasPrice": "0x8"}, true
					}
				}
				return nil, true
			}
			return nil, false
		}
	})
}

func word(n uint64) string { return fmt.Sprintf("%064x", n) }

// reader is a world with assets. Its clock is the rig's, which runs: a test asks slowly enough for ten a second.
func reader(t testing.TB, between func(string) string) *world {
	assets, err := egress.ParseAssets([]byte(listed))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, chain: newChain(t), dir: t.TempDir(), between: between, assets: assets}
	w.start()
	made := w.Do("CREATE_WALLET", client.Wallet("First", client.Ethereum, client.Solana))
	w.address, w.solana = client.Text(made, "addresses", "0"), client.Text(made, "addresses", "1")
	w.chain.tells(nil)
	return w
}

// read asks again while it is told that it asks too often.
func (w *world) read(op string, ask object) (r client.Reply) {
	for range 1000 {
		if r = w.Query(op, ask); r.Status != 429 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return r
}

func (w *world) balances(more ...object) client.Reply {
	ask := object{"address": w.address, "caip2": caip2}
	for _, m := range more {
		maps.Copy(ask, m)
	}
	return w.read("get_wallet_address_balances", ask)
}

func TestBalances(t *testing.T) {
	w := reader(t, nil)
	r := w.balances()
	want := fmt.Sprint([]any{
		object{"caip19": caip2 + "/slip44:60", "symbol": "ETH", "name": "Ether", "decimals": 18., "balance": "1000000000000000001", "display": object{"crypto": "1.000000000000000001"}},
		object{"caip19": caip2 + "/erc20:" + dollar, "symbol": "USD", "name": "Dollar", "decimals": 6., "balance": "2500000", "display": object{"crypto": "2.5"}},
	})
	if r.Status != 200 || fmt.Sprint(r.Get("balances")) != want {
		t.Fatal(r)
	}
	// The address in any case of its letters is the same account.
	if lower := w.balances(object{"address": strings.ToLower(w.address)}); lower.Status != 200 || fmt.Sprint(lower.JSON()) != fmt.Sprint(r.JSON()) {
		t.Error(lower)
	}
	w.chain.tells(object{"eth_getBalance": "0x0", "eth_call": "0x" + word(1) + word(0) + word(1) + word(0)})
	if r := w.balances(); r.Status != 200 || len(r.Get("balances").([]any)) != 0 {
		t.Errorf("nothing: %v", r)
	}
	w.chain.tells(nil)
	if r := w.read("list_supported_assets", object{"caip2": caip2}); r.Status != 200 || len(r.Get("assets").([]any)) != 3 || r.Text("assets", "1", "logoUrl") != "https://logo.example/usd.png" ||
		r.Get("assets", "1", "stable") != true || r.Get("assets", "0", "stable") != false || r.Text("assets", "0", "symbol") != "ETH" {
		t.Error(r)
	}

	made := w.Do("CREATE_PRIVATE_KEYS_V2", object{"privateKeys": []any{object{"privateKeyName": "key", "curve": "CURVE_SECP256K1",
		"addressFormats": []string{"ADDRESS_FORMAT_ETHEREUM"}, "privateKeyTags": []string{}}}})
	private := client.Text(made, "privateKeys", "0", "addresses", "0", "address")
	for what, c := range map[string]struct {
		ask    object
		status int
		says   string
	}{
		"nobody's":             {object{"address": nowhere}, 404, "wallet account not found: " + nowhere},
		"a private key's":      {object{"address": private}, 404, "wallet account not found: " + private},
		"no address":           {object{"address": "x"}, 404, "wallet account not found"},
		"another chain's":      {object{"address": w.solana}, 400, "is no address on " + caip2},
		"another chain":        {object{"caip2": "solana:mainnet"}, 400, "is no address on solana:5eykt"},
		"no chain":             {object{"caip2": "eip155:5"}, 400, "caip2"},
		"a chain with no node": {object{"caip2": "eip155:1"}, 400, "no node of eip155:1 is configured: its operator names one with -chain"},
		"a node of Solana":     {object{"address": w.solana, "caip2": "solana:devnet"}, 400, "no node of solana:EtWTR"},
		"an empty address":     {object{"address": ""}, 400, "address"},
	} {
		if r := w.balances(c.ask); r.Status != c.status || !strings.Contains(r.Text("message"), c.says) {
			t.Errorf("%s: %v", what, r)
		}
	}
	if r := w.balances(object{"caip2": "eip155:1"}); r.Get("code") != 9. {
		t.Error(r)
	}
	if r := w.read("list_supported_assets", object{"caip2": "eip155:1"}); r.Status != 400 || r.Get("code") != 9. {
		t.Error(r)
	}

	// What a node says wrong is said, and nothing of it is believed.
	for what, change := range map[string]object{
		"more than there is": {"eth_getBalance": "0x1" + strings.Repeat("0", 64)}, "a number": {"eth_getBalance": 7}, "10 MB": {"eth_getBalance": strings.Repeat("0", 10<<20)},
		"a token that says nothing": {"eth_call": "0x" + word(0) + word(0) + word(1) + word(0)}, "too few tokens": {"eth_call": "0x" + word(1) + word(0)},
	} {
		w.chain.tells(change)
		if r := w.balances(); r.Status != 503 || r.Text("turnkeyErrorCode") != "RPC_CALL_ERROR" || len(r.Text("message")) > 400 {
			t.Errorf("%s: %.300v", what, r)
		}
	}
}

// TestAnotherTenantsAddress: an address is looked for in the organization that is asked about, and a parent's users read
// their sub-organization's.
func TestAnotherTenantsAddress(t *testing.T) {
	w := reader(t, nil)
	parameters := client.SubOrganization("below", client.NewRootUser("one", client.NewKey()))
	parameters["wallet"] = client.Wallet("w", client.Ethereum)
	made := w.Do("CREATE_SUB_ORGANIZATION_V8", parameters)
	sub, address := client.Text(made, "subOrganizationId"), client.Text(made, "wallet", "addresses", "0")
	if r := w.balances(object{"organizationId": sub, "address": address}); r.Status != 200 {
		t.Error(r)
	}
	if r := w.balances(object{"organizationId": sub}); r.Status != 404 {
		t.Errorf("its parent's: %v", r)
	}
	if r := w.balances(object{"address": address}); r.Status != 404 {
		t.Errorf("its child's: %v", r)
	}
	if r := w.read("list_eth_transaction_history", object{"organizationId": sub, "address": w.address, "caip2": caip2}); r.Status != 404 {
		t.Errorf("its parent's: %v", r)
	}
}

// TestReadsAreCounted: chains are read ten times a second for one organization, and an answer that comes late keeps
// nobody from other queries.
func TestReadsAreCounted(t *testing.T) {
	w := reader(t, nil)
	w.chain.set(func() { w.chain.slow = 5 * time.Minute })
	hung := make(chan *wire.Reply, 40)
	ask, err := w.Request(wire.EndpointQuery, "get_wallet_address_balances", w.Ask(object{"address": w.address, "caip2": caip2}))
	if err != nil {
		t.Fatal(err)
	}
	for range cap(hung) {
		go func() {
			reply, err := w.rig.Link.Call(t.Context(), ask.Call())
			if err != nil {
				t.Error(err)
				reply = new(wire.Reply)
			}
			hung <- reply
		}()
	}
	if r := w.Query("list_supported_assets", object{"caip2": caip2}); r.Status != 200 {
		t.Error(r)
	}
	counts := map[int]int{}
	for range cap(hung) {
		reply := <-hung
		counts[int(reply.Status)]++
		// Which becomes the header Retry-After.
		if again := strings.Contains(string(reply.Body), "times a second, try again in"); again != (reply.RetryMs > 0) {
			t.Errorf("%d %s: again in %d ms", reply.Status, reply.Body, reply.RetryMs)
		}
	}
	if counts[429] < 20 || counts[504] == 0 || counts[429]+counts[504] != cap(hung) {
		t.Error(counts)
	}
	w.chain.set(func() { w.chain.slow = 0 })
	if r := w.balances(); r.Status != 200 {
		t.Error(r)
	}
}

func (w *world) history(page object) (r client.Reply, names []string) {
	r = w.read("list_eth_transaction_history", object{"address": w.address, "caip2": caip2, "paginationOptions": page})
	of, _ := r.Get("transactions").([]any)
	for _, one := range of {
		names = append(names, client.Text(one, "transactionHash"))
	}
	return r, names
}

func TestHistory(t *testing.T) {
	w := reader(t, nil)
	if r, names := w.history(nil); r.Status != 200 || len(names) != 0 || r.Get("pageInfo", "hasNextPage") != false || r.Get("pageInfo", "endCursor") != nil {
		t.Fatal(r)
	}
	var sent []string // newest first
	for range 5 {
		id := w.send()
		sent = append([]string{client.Text(w.until(id, "INCLUDED"), "eth", "txHash")}, sent...)
	}
	r, names := w.history(nil)
	if r.Status != 200 || fmt.Sprint(names) != fmt.Sprint(sent) {
		t.Fatal(r)
	}
	first := r.Get("transactions", "0").(object)
	l := w.Query("list_activities", object{"filterByType": []string{"ACTIVITY_TYPE_" + sendType}, "paginationOptions": object{"limit": "1"}})
	turnkey := first["turnkey"].(object)
	if turnkey["activityFingerprint"] != l.Text("activities", "0", "fingerprint") || turnkey["sponsored"] != false {
		t.Errorf("%v", turnkey)
	}
	if at, err := time.Parse(time.RFC3339, turnkey["submittedAt"].(string)); err != nil || time.Since(at) > time.Hour {
		t.Errorf("%v", turnkey)
	}
	delete(first, "turnkey")
	coin := object{"caip19": caip2 + "/slip44:60", "symbol": "ETH", "name": "Ether", "decimals": 18.}
	want := object{"transactionHash": sent[0], "block": object{"number": "9", "hash": blockHash, "timestamp": "2025-04-16T19:07:44Z"}, "status": "FINALIZED", "origin": "TURNKEY", "from": w.address, "to": nowhere,
		"fee":       object{"amount": fmt.Sprint(21000 * 8), "caip19": caip2 + "/slip44:60"},
		"transfers": []any{object{"direction": "OUT", "asset": coin, "amount": "1", "counterparty": nowhere, "display": object{"crypto": "0.000000000000000001"}}}}
	if fmt.Sprint(first) != fmt.Sprint(want) {
		t.Errorf("%v\nwant %v", first, want)
	}

	// Pages, forth and back.
	var forth []string
	page, turns := object{"limit": "2"}, 0
	for {
		r, names := w.history(page)
		if turns++; r.Status != 200 || turns > 5 {
			t.Fatal(r)
		}
		forth = append(forth, names...)
		if r.Get("pageInfo", "hasPreviousPage") != (turns > 1) {
			t.Errorf("page %d: %v", turns, r.Get("pageInfo"))
		}
		page = object{"limit": "2", "after": r.Text("pageInfo", "endCursor")}
		if r.Get("pageInfo", "hasNextPage") == false {
			page = object{"limit": "2", "before": r.Text("pageInfo", "startCursor")}
			break
		}
	}
	if fmt.Sprint(forth) != fmt.Sprint(sent) || turns != 3 {
		t.Errorf("%v in %d turns", forth, turns)
	}
	if r, names := w.history(page); r.Status != 200 || fmt.Sprint(names) != fmt.Sprint(sent[2:4]) || r.Get("pageInfo", "hasPreviousPage") != true || r.Get("pageInfo", "hasNextPage") != true {
		t.Error(r)
	}
	for what, page := range map[string]object{"an unknown cursor": {"after": "x"}, "nobody's cursor": {"after": "00000000-0000-4000-8000-000000000000"}, "no limit": {"limit": "0"}, "too many": {"limit": "101"}} {
		if r, _ := w.history(page); r.Status != 400 {
			t.Errorf("%s: %v", what, r)
		}
	}

	// What is in no block is left out, what has failed has moved nothing, what is not final is not said to be.
	w.chain.tells(object{"eth_getTransactionReceipt": nil})
	if r, names := w.history(nil); r.Status != 200 || len(names) != 0 {
		t.Error(r)
	}
	w.chain.tells(object{"eth_getTransactionReceipt": object{"transactionHash": sent[0], "status": "0x0", "blockNumber": "0x9", "blockHash": blockHash, "gasUsed": "0x1", "effectiveGasPrice": "0x1"},
		"eth_getBlockByNumber": object{"number": "0x8", "hash": blockHash, "timestamp": "0x1"}})
	if r, names := w.history(object{"limit": "1"}); r.Status != 200 || len(names) != 1 || len(r.Get("transactions", "0", "transfers").([]any)) != 0 || r.Text("transactions", "0", "status") != "CONFIRMED" {
		t.Error(r)
	}
	w.chain.tells(object{"eth_getTransactionReceipt": object{"transactionHash": sent[1]}})
	if r, _ := w.history(object{"limit": "1"}); r.Status != 503 || r.Text("turnkeyErrorCode") != "RPC_CALL_ERROR" {
		t.Errorf("another's receipt: %v", r)
	}
	if r := w.read("list_eth_transaction_history", object{"address": w.address, "caip2": "eip155:4217"}); r.Status != 501 {
		t.Errorf("a chain whose fees are tokens: %v", r)
	}
	if r := w.read("list_sol_transaction_history", object{"address": w.address, "caip2": "solana:devnet"}); r.Status != 400 {
		t.Error(r)
	}
}

// TestHostileReadings: a host may say what it likes of balances and blocks, but nothing that could be taken for something
// else: no chain's own coin, no asset of another chain, no number that is none.
func TestHostileReadings(t *testing.T) {
	var p *hostile.Proxy
	w := reader(t, lying(t, &p))
	w.until(w.send(), "INCLUDED")
	reading := func(change func(*wire.ChainReading)) hostile.Lie { return about(change) }
	for what, lie := range map[string]func(*wire.ChainReading){
		"no verdict":        func(r *wire.ChainReading) { r.Verdict = 0 },
		"a coin too large":  func(r *wire.ChainReading) { r.Coin = make([]byte, 33) },
		"a token too large": func(r *wire.ChainReading) { r.Tokens[0].Balance = make([]byte, 33) },
		"a second coin":     func(r *wire.ChainReading) { r.Tokens[0].CAIP19 = caip2 + "/slip44:60" },
		"another chain's":   func(r *wire.ChainReading) { r.Tokens[0].CAIP19 = "eip155:1/erc20:" + dollar },
		"the same twice":    func(r *wire.ChainReading) { r.Tokens[1].CAIP19 = r.Tokens[0].CAIP19 },
		"a picture":         func(r *wire.ChainReading) { r.Tokens[0].LogoURL = "javascript:alert(1)" },
		"control":           func(r *wire.ChainReading) { r.Tokens[0].Name = "a\nb" },
		"a long name":       func(r *wire.ChainReading) { r.Tokens[0].Name = strings.Repeat("x", 300) },
		"many decimals":     func(r *wire.ChainReading) { r.Tokens[0].Decimals = 78 },
		"too many tokens":   func(r *wire.ChainReading) { r.Tokens = make([]wire.Token, 101) },
		"blocks unasked":    func(r *wire.ChainReading) { r.Transactions = append(r.Transactions, wire.Mined{}) },
	} {
		p.Arm(reading(lie))
		if r := w.balances(); r.Status != 503 || p.CountChanged() == 0 {
			t.Errorf("%s: %v", what, r)
		}
		p.Disarm()
	}
	for what, lie := range map[string]func(*wire.Mined){
		"a late block": func(m *wire.Mined) { m.Block = 1 << 63 }, "a late time": func(m *wire.Mined) { m.TimeMs = 1 << 63 }, "a large fee": func(m *wire.Mined) { m.Fee = make([]byte, 33) },
		"a loose hash": func(m *wire.Mined) { m.Hash = "\x00" },
	} {
		p.Arm(reading(func(r *wire.ChainReading) { lie(&r.Transactions[0]) }))
		if r, _ := w.history(nil); r.Status != 503 || p.CountChanged() == 0 {
			t.Errorf("%s: %v", what, r)
		}
		p.Disarm()
	}
	if r := w.balances(); r.Status != 200 {
		t.Error(r)
	}
}

func TestSolanaIsRead(t *testing.T) {
	n := newNetwork(t)
	w := devnet(t, n)
	address, params := w.payment()
	id := client.Text(w.Do("SOL_SEND_TRANSACTION_V2", params), "sendTransactionStatusId")
	n.set(func() { n.done = true })
	name := client.Text(w.until(id, "INCLUDED"), "solana", "signature")
	r := w.read("list_sol_transaction_history", object{"address": address, "caip2": "solana:devnet"})
	coin := object{"caip19": "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1/slip44:501", "symbol": "SOL", "name": "Solana", "decimals": 9.}
	want := object{"signature": name, "block": object{"number": "7", "hash": recent, "timestamp": "2025-04-16T19:07:44Z"}, "status": "CONFIRMED", "origin": "TURNKEY", "feePayer": address,
		"signers": []any{object{"address": address, "writable": true}}, "fee": object{"amount": "5000", "caip19": coin["caip19"]},
		"transfers": []any{object{"direction": "OUT", "asset": coin, "amount": "5", "counterparty": base58.Encode([]byte(strings.Repeat("\x09", 32))), "display": object{"crypto": "0.000000005"}}}}
	if of, ok := r.Get("transactions").([]any); r.Status != 200 || !ok || len(of) != 1 {
		t.Fatal(r)
	} else {
		delete(of[0].(object), "turnkey")
		if fmt.Sprint(of[0]) != fmt.Sprint(want) {
			t.Errorf("%v\nwant %v", of[0], want)
		}
	}
	if r := w.read("get_wallet_address_balances", object{"address": address, "caip2": "solana:devnet"}); r.Status != 200 || r.Text("balances", "0", "balance") != "1500000000" || r.Text("balances", "0", "display", "crypto") != "1.5" {
		t.Error(r)
	}
}
