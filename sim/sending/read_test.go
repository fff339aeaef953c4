package sending_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/mr-tron/base58"

	"cloister/host/egress"
	"cloister/shared/wire"
	"cloister/sim/hostile"
	"cloister/sim/rig"
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
	_, m := w.Submit("create_wallet", "ACTIVITY_TYPE_CREATE_WALLET", object{"walletName": "First", "accounts": []any{ethereum, object{
		"curve": "CURVE_ED25519", "pathFormat": "PATH_FORMAT_BIP32", "path": "m/44'/501'/0'/0'", "addressFormat": "ADDRESS_FORMAT_SOLANA"}}})
	w.address = rig.Text(m, "activity", "result", "createWalletResult", "addresses", "0")
	w.solana = rig.Text(m, "activity", "result", "createWalletResult", "addresses", "1")
	w.chain.tells(nil)
	return w
}

// read asks again while it is told that it asks too often.
func (w *world) read(op string, ask object) (status int, m object) {
	for range 1000 {
		if status, m = w.Query(op, ask); status != 429 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return status, m
}

func (w *world) balances(more ...object) (int, object) {
	ask := object{"address": w.address, "caip2": caip2}
	for _, m := range more {
		maps.Copy(ask, m)
	}
	return w.read("get_wallet_address_balances", ask)
}

func TestBalances(t *testing.T) {
	w := reader(t, nil)
	status, m := w.balances()
	want := fmt.Sprint([]any{
		object{"caip19": caip2 + "/slip44:60", "symbol": "ETH", "name": "Ether", "decimals": 18., "balance": "1000000000000000001", "display": object{"crypto": "1.000000000000000001"}},
		object{"caip19": caip2 + "/erc20:" + dollar, "symbol": "USD", "name": "Dollar", "decimals": 6., "balance": "2500000", "display": object{"crypto": "2.5"}},
	})
	if status != 200 || fmt.Sprint(m["balances"]) != want {
		t.Fatalf("%d %v", status, m)
	}
	// The address in any case of its letters is the same account.
	if status, lower := w.balances(object{"address": strings.ToLower(w.address)}); status != 200 || fmt.Sprint(lower) != fmt.Sprint(m) {
		t.Errorf("%d %v", status, lower)
	}
	w.chain.tells(object{"eth_getBalance": "0x0", "eth_call": "0x" + word(1) + word(0) + word(1) + word(0)})
	if status, m := w.balances(); status != 200 || len(m["balances"].([]any)) != 0 {
		t.Errorf("nothing: %d %v", status, m)
	}
	w.chain.tells(nil)
	if status, m := w.read("list_supported_assets", object{"caip2": caip2}); status != 200 || len(m["assets"].([]any)) != 3 || rig.Text(m, "assets", "1", "logoUrl") != "https://logo.example/usd.png" ||
		rig.Get(m, "assets", "1", "stable") != true || rig.Get(m, "assets", "0", "stable") != false || rig.Text(m, "assets", "0", "symbol") != "ETH" {
		t.Errorf("%d %v", status, m)
	}

	_, made := w.Submit("create_private_keys", "ACTIVITY_TYPE_CREATE_PRIVATE_KEYS_V2", object{"privateKeys": []any{object{"privateKeyName": "key", "curve": "CURVE_SECP256K1", "addressFormats": []string{"ADDRESS_FORMAT_ETHEREUM"}, "privateKeyTags": []string{}}}})
	private := rig.Text(made, "activity", "result", "createPrivateKeysResultV2", "privateKeys", "0", "addresses", "0", "address")
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
		if status, m := w.balances(c.ask); status != c.status || !strings.Contains(rig.Text(m, "message"), c.says) {
			t.Errorf("%s: %d %v", what, status, m)
		}
	}
	if status, m := w.balances(object{"caip2": "eip155:1"}); rig.Get(m, "code") != 9. {
		t.Errorf("%d %v", status, m)
	}
	if status, m := w.read("list_supported_assets", object{"caip2": "eip155:1"}); status != 400 || rig.Get(m, "code") != 9. {
		t.Errorf("%d %v", status, m)
	}

	// What a node says wrong is said, and nothing of it is believed.
	for what, change := range map[string]object{
		"more than there is": {"eth_getBalance": "0x1" + strings.Repeat("0", 64)}, "a number": {"eth_getBalance": 7}, "10 MB": {"eth_getBalance": strings.Repeat("0", 10<<20)},
		"a token that says nothing": {"eth_call": "0x" + word(0) + word(0) + word(1) + word(0)}, "too few tokens": {"eth_call": "0x" + word(1) + word(0)},
	} {
		w.chain.tells(change)
		if status, m := w.balances(); status != 503 || rig.Text(m, "turnkeyErrorCode") != "RPC_CALL_ERROR" || len(rig.Text(m, "message")) > 400 {
			t.Errorf("%s: %d %.300v", what, status, m)
		}
	}
}

// TestAnotherTenantsAddress: an address is looked for in the organization that is asked about, and a parent's users read
// their sub-organization's.
func TestAnotherTenantsAddress(t *testing.T) {
	w := reader(t, nil)
	_, m := w.Submit("create_sub_organization", "ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V8", object{"subOrganizationName": "below", "rootQuorumThreshold": 1,
		"rootUsers": []any{object{"userName": "one", "apiKeys": []any{object{"apiKeyName": "k", "publicKey": "036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296", "curveType": "API_KEY_CURVE_P256"}}, "authenticators": []any{}, "oauthProviders": []any{}}},
		"wallet":    object{"walletName": "w", "accounts": []any{ethereum}}})
	sub := rig.Text(m, "activity", "result", "createSubOrganizationResultV8", "subOrganizationId")
	if sub == "" {
		t.Fatal(m)
	}
	address := rig.Text(m, "activity", "result", "createSubOrganizationResultV8", "wallet", "addresses", "0")
	if status, m := w.balances(object{"organizationId": sub, "address": address}); status != 200 {
		t.Errorf("%d %v", status, m)
	}
	if status, m := w.balances(object{"organizationId": sub}); status != 404 {
		t.Errorf("its parent's: %d %v", status, m)
	}
	if status, m := w.balances(object{"address": address}); status != 404 {
		t.Errorf("its child's: %d %v", status, m)
	}
	if status, m := w.read("list_eth_transaction_history", object{"organizationId": sub, "address": w.address, "caip2": caip2}); status != 404 {
		t.Errorf("its parent's: %d %v", status, m)
	}
}

// TestReadsAreCounted: chains are read ten times a second for one organization, and an answer that comes late keeps
// nobody from other queries.
func TestReadsAreCounted(t *testing.T) {
	w := reader(t, nil)
	w.chain.set(func() { w.chain.slow = 5 * time.Minute })
	hung := make(chan *wire.Reply, 40)
	body, err := json.Marshal(object{"organizationId": w.Credentials.OrganizationID, "address": w.address, "caip2": caip2})
	if err != nil {
		t.Fatal(err)
	}
	for range cap(hung) {
		go func() {
			reply, err := w.Send(t.Context(), wire.EndpointQuery, "get_wallet_address_balances", body, w.Credentials.RootAPIKey)
			if err != nil {
				t.Error(err)
				reply = new(wire.Reply)
			}
			hung <- reply
		}()
	}
	if status, m := w.Query("list_supported_assets", object{"caip2": caip2}); status != 200 {
		t.Errorf("%d %v", status, m)
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
	if status, m := w.balances(); status != 200 {
		t.Errorf("%d %v", status, m)
	}
}

func (w *world) history(page object) (status int, m object, names []string) {
	status, m = w.read("list_eth_transaction_history", object{"address": w.address, "caip2": caip2, "paginationOptions": page})
	if of, ok := m["transactions"].([]any); ok {
		for i := range of {
			names = append(names, rig.Text(m, "transactions", fmt.Sprint(i), "transactionHash"))
		}
	}
	return status, m, names
}

func TestHistory(t *testing.T) {
	w := reader(t, nil)
	if status, m, names := w.history(nil); status != 200 || len(names) != 0 || rig.Get(m, "pageInfo", "hasNextPage") != false || rig.Get(m, "pageInfo", "endCursor") != nil {
		t.Fatalf("%d %v", status, m)
	}
	var sent []string // newest first
	for range 5 {
		id := w.send()
		sent = append([]string{rig.Text(w.until(id, "INCLUDED"), "eth", "txHash")}, sent...)
	}
	status, m, names := w.history(nil)
	if status != 200 || fmt.Sprint(names) != fmt.Sprint(sent) {
		t.Fatalf("%d %v", status, m)
	}
	first := rig.Get(m, "transactions", "0").(object)
	_, l := w.Query("list_activities", object{"filterByType": []string{sendType}, "paginationOptions": object{"limit": "1"}})
	turnkey := first["turnkey"].(object)
	if turnkey["activityFingerprint"] != rig.Text(l, "activities", "0", "fingerprint") || turnkey["sponsored"] != false {
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
		status, m, names := w.history(page)
		if turns++; status != 200 || turns > 5 {
			t.Fatalf("%d %v", status, m)
		}
		forth = append(forth, names...)
		if rig.Get(m, "pageInfo", "hasPreviousPage") != (turns > 1) {
			t.Errorf("page %d: %v", turns, m["pageInfo"])
		}
		page = object{"limit": "2", "after": rig.Text(m, "pageInfo", "endCursor")}
		if rig.Get(m, "pageInfo", "hasNextPage") == false {
			page = object{"limit": "2", "before": rig.Text(m, "pageInfo", "startCursor")}
			break
		}
	}
	if fmt.Sprint(forth) != fmt.Sprint(sent) || turns != 3 {
		t.Errorf("%v in %d turns", forth, turns)
	}
	if status, m, names := w.history(page); status != 200 || fmt.Sprint(names) != fmt.Sprint(sent[2:4]) || rig.Get(m, "pageInfo", "hasPreviousPage") != true || rig.Get(m, "pageInfo", "hasNextPage") != true {
		t.Errorf("%d %v", status, m)
	}
	for what, page := range map[string]object{"an unknown cursor": {"after": "x"}, "nobody's cursor": {"after": "00000000-0000-4000-8000-000000000000"}, "no limit": {"limit": "0"}, "too many": {"limit": "101"}} {
		if status, m, _ := w.history(page); status != 400 {
			t.Errorf("%s: %d %v", what, status, m)
		}
	}

	// What is in no block is left out, what has failed has moved nothing, what is not final is not said to be.
	w.chain.tells(object{"eth_getTransactionReceipt": nil})
	if status, m, names := w.history(nil); status != 200 || len(names) != 0 {
		t.Errorf("%d %v", status, m)
	}
	w.chain.tells(object{"eth_getTransactionReceipt": object{"transactionHash": sent[0], "status": "0x0", "blockNumber": "0x9", "blockHash": blockHash, "gasUsed": "0x1", "effectiveGasPrice": "0x1"},
		"eth_getBlockByNumber": object{"number": "0x8", "hash": blockHash, "timestamp": "0x1"}})
	if status, m, names := w.history(object{"limit": "1"}); status != 200 || len(names) != 1 || len(rig.Get(m, "transactions", "0", "transfers").([]any)) != 0 || rig.Text(m, "transactions", "0", "status") != "CONFIRMED" {
		t.Errorf("%d %v", status, m)
	}
	w.chain.tells(object{"eth_getTransactionReceipt": object{"transactionHash": sent[1]}})
	if status, m, _ := w.history(object{"limit": "1"}); status != 503 || rig.Text(m, "turnkeyErrorCode") != "RPC_CALL_ERROR" {
		t.Errorf("another's receipt: %d %v", status, m)
	}
	if status, m := w.read("list_eth_transaction_history", object{"address": w.address, "caip2": "eip155:4217"}); status != 501 {
		t.Errorf("a chain whose fees are tokens: %d %v", status, m)
	}
	if status, m := w.read("list_sol_transaction_history", object{"address": w.address, "caip2": "solana:devnet"}); status != 400 {
		t.Errorf("%d %v", status, m)
	}
}

// TestHostileReadings: a host may say what it likes of balances and blocks, but nothing that could be taken for something
// else: no chain's own coin, no asset of another chain, no number that is none.
func TestHostileReadings(t *testing.T) {
	var p *hostile.Proxy
	w := reader(t, func(address string) string {
		var err error
		if p, err = hostile.NewProxy(address); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		return p.Address()
	})
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
		if status, m := w.balances(); status != 503 || p.CountChanged() == 0 {
			t.Errorf("%s: %d %v", what, status, m)
		}
		p.Disarm()
	}
	for what, lie := range map[string]func(*wire.Mined){
		"a late block": func(m *wire.Mined) { m.Block = 1 << 63 }, "a late time": func(m *wire.Mined) { m.TimeMs = 1 << 63 }, "a large fee": func(m *wire.Mined) { m.Fee = make([]byte, 33) },
		"a loose hash": func(m *wire.Mined) { m.Hash = "\x00" },
	} {
		p.Arm(reading(func(r *wire.ChainReading) { lie(&r.Transactions[0]) }))
		if status, m, _ := w.history(nil); status != 503 || p.CountChanged() == 0 {
			t.Errorf("%s: %d %v", what, status, m)
		}
		p.Disarm()
	}
	if status, m := w.balances(); status != 200 {
		t.Errorf("%d %v", status, m)
	}
}

func TestSolanaIsRead(t *testing.T) {
	n := newNetwork(t)
	w := &world{t: t, dir: t.TempDir()}
	w.Rig = rig.Start(t, rig.Options{Dir: w.dir, Nodes: egress.Nodes{"solana:devnet": n.URL}})
	address, params := w.payment()
	_, m := w.Submit("sol_send_transaction", "ACTIVITY_TYPE_SOL_SEND_TRANSACTION_V2", params)
	n.set(func() { n.done = true })
	name := rig.Text(w.until(rig.Text(m, "activity", "result", "solSendTransactionResultV2", "sendTransactionStatusId"), "INCLUDED"), "solana", "signature")
	status, m := w.read("list_sol_transaction_history", object{"address": address, "caip2": "solana:devnet"})
	coin := object{"caip19": "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1/slip44:501", "symbol": "SOL", "name": "Solana", "decimals": 9.}
	want := object{"signature": name, "block": object{"number": "7", "hash": recent, "timestamp": "2025-04-16T19:07:44Z"}, "status": "CONFIRMED", "origin": "TURNKEY", "feePayer": address,
		"signers": []any{object{"address": address, "writable": true}}, "fee": object{"amount": "5000", "caip19": coin["caip19"]},
		"transfers": []any{object{"direction": "OUT", "asset": coin, "amount": "5", "counterparty": base58.Encode([]byte(strings.Repeat("\x09", 32))), "display": object{"crypto": "0.000000005"}}}}
	if of, ok := m["transactions"].([]any); status != 200 || !ok || len(of) != 1 {
		t.Fatalf("%d %v", status, m)
	} else {
		delete(of[0].(object), "turnkey")
		if fmt.Sprint(of[0]) != fmt.Sprint(want) {
			t.Errorf("%v\nwant %v", of[0], want)
		}
	}
	if status, m := w.read("get_wallet_address_balances", object{"address": address, "caip2": "solana:devnet"}); status != 200 || rig.Text(m, "balances", "0", "balance") != "1500000000" || rig.Text(m, "balances", "0", "display", "crypto") != "1.5" {
		t.Errorf("%d %v", status, m)
	}
}
