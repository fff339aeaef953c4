// Command sending sends transactions through a simulator to a node of go-ethereum and holds what comes of them against the
// chain. It starts the simulator itself, since it kills it in the middle.
//
//	sending -sim bin/cloister-sim -dir DIR -node URL -rich KEY -port N -proxy-port N
//
// The node's chain id is 11155111; KEY is of an account that has money there.
package main

import (
	"errors"
	"flag"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"cloister/scripts/internal/deployment"
)

const (
	caip2   = "eip155:11155111"
	chainID = 11155111
	nowhere = "0x000000000000000000000000000000000000dEaD"
)

func main() {
	w := new(world)
	w.Flags()
	flag.StringVar(&w.node.url, "node", "", "address of the node")
	rich := flag.String("rich", "", "private key of an account with money")
	flag.Parse()
	deployment.Main("sending", func() error {
		defer w.Kill()
		return w.run(*rich)
	})
}

func (w *world) run(rich string) error {
	liar, late := &liar{}, httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	lying := httptest.NewServer(liar)
	w.chains = fmt.Sprintf("%s=%s eip155:137=%s eip155:8453=%s", caip2, w.node.url, lying.URL, late.URL)
	funder, err := newFunder(rich)
	if err != nil {
		return err
	}
	for range 2 {
		token, err := funder.deployToken(&w.node, 1_000_000)
		if err != nil {
			return fmt.Errorf("making a token: %w", err)
		}
		w.listed = append(w.listed, token)
	}
	if err := w.listTokens(w.listed...); err != nil {
		return err
	}
	setting, err := w.configure(w.Dir)
	if err != nil {
		return err
	}
	w.settings = []string{setting}
	if err := w.start(); err != nil {
		return err
	}
	if w.account, err = w.createWallet(); err != nil {
		return err
	}
	if err := funder.pay(&w.node, w.account, new(big.Int).Exp(big.NewInt(10), big.NewInt(18), nil)); err != nil {
		return fmt.Errorf("paying %s: %w", w.account, err)
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"nonces are those of the chain", w.nonces},
		{"50 at once, killed in the middle", w.manyAtOnce},
		{"a refused one leaves a gap, the next one fills it", w.gap},
		{"the same number again outbids what waits", w.replaces},
		{"a transaction that fails in its block", func() error { return w.reverts(funder) }},
		{"one that was signed before is sent as it is", w.raw},
		{"balances and history are those of the chain", func() error { return w.reads(funder) }},
		{"several calls that the account pays for", w.batches},
		{"what stands in the place of swaps and earning", func() error { return w.twoCalls(funder) }},
		{"sponsored ones, and the end of a delegation", func() error { return w.sponsor(funder) }},
		{"a window that 1,000 requests fill at once, killed in the middle", w.window},
		{"nodes that lie, are late or are none", func() error { return w.wrong(liar) }},
		{"a plan's signatures that 1,000 requests use up at once, killed in the middle", w.quota},
	} {
		begin := time.Now()
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Printf("ok  %s, %.1f s\n", step.name, time.Since(begin).Seconds())
	}
	return nil
}

func (w *world) nonces() error {
	want, err := w.node.count(w.account, "latest")
	if err != nil {
		return err
	}
	m, err := w.query("get_nonces", object{"address": w.account, "caip2": caip2, "nonce": true})
	if err != nil {
		return err
	}
	if m["nonce"] != fmt.Sprint(want) {
		return fmt.Errorf("%v, the chain says %d", m, want)
	}
	return nil
}

// params are those of a transaction of one wei.
func (w *world) params(more object) object {
	p := object{"from": w.account, "caip2": caip2, "calls": []object{{"to": nowhere, "value": "1"}}}
	for k, v := range more {
		p[k] = v
	}
	return p
}

const sendType = "ACTIVITY_TYPE_ETH_SEND_TRANSACTION_V2"

// send sends a transaction and answers the id of its status.
func (w *world) send(more object) (string, error) {
	m, err := w.submit(sendType, w.params(more))
	return text(m, "activity", "result", "ethSendTransactionResultV2", "sendTransactionStatusId"), err
}

func (w *world) until(id, want string) (object, error) {
	deadline := time.Now().Add(10 * time.Minute)
	for {
		m, err := w.query("get_send_transaction_status", object{"sendTransactionStatusId": id})
		switch {
		case err != nil:
			return nil, err
		case m["txStatus"] == want:
			return m, nil
		case m["txStatus"] == "FAILED", m["txStatus"] == "INCLUDED", time.Now().After(deadline):
			return nil, fmt.Errorf("send %s: %v, want %s", id, m, want)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// untilSaid waits for an error, which is to come with a status.
func (w *world) untilSaid(id, status string) (object, error) {
	deadline := time.Now().Add(time.Minute)
	for {
		m, err := w.query("get_send_transaction_status", object{"sendTransactionStatusId": id})
		switch {
		case err != nil:
			return nil, err
		case m["txError"] != nil && m["txStatus"] == status:
			return m, nil
		case time.Now().After(deadline):
			return nil, fmt.Errorf("send %s: %v, want %s with an error", id, m, status)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// manyAtOnce sends 50 transactions at once and ends host and enclave while they are
// on their way. Requests without a reply go again with the same bytes.
func (w *world) manyAtOnce() error {
	first, err := w.node.count(w.account, "latest")
	if err != nil {
		return err
	}
	const n = 50
	ids, err := w.crowd(n, "allotted quota", func(int) object { return nil })
	if err != nil {
		return err
	}
	if slices.Contains(ids, "") {
		return errors.New("a limit refused one")
	}
	var nonces []uint64
	for _, id := range ids {
		m, err := w.until(id, "INCLUDED")
		if err != nil {
			return err
		}
		nonce, err := w.node.includedNonce(text(m, "eth", "txHash"), w.account)
		if err != nil {
			return err
		}
		nonces = append(nonces, nonce)
	}
	slices.Sort(nonces)
	for i, nonce := range nonces {
		if nonce != first+uint64(i) {
			return fmt.Errorf("nonces %v, want %d in a row from %d", nonces, n, first)
		}
	}
	// Nothing else is on the chain: each once.
	if now, err := w.node.count(w.account, "latest"); err != nil || now != first+n {
		return fmt.Errorf("%d transactions in blocks, %v, want %d", now-first, err, n)
	}
	return nil
}

// gap sends one that the node must refuse for want of money, and others behind it.
func (w *world) gap() error {
	next, err := w.node.count(w.account, "pending")
	if err != nil {
		return err
	}
	fees := object{"gasLimit": "21000", "maxFeePerGas": "10000000000", "maxPriorityFeePerGas": "1000000"}
	poor := object{"calls": []object{{"to": nowhere, "value": "1" + strings.Repeat("0", 30)}}}
	for k, v := range fees {
		poor[k] = v
	}
	refused, err := w.send(poor)
	if err != nil {
		return err
	}
	behind, err := w.send(fees) // has the next number, perhaps before it is known that the one before is free
	if err != nil {
		return err
	}
	m, err := w.untilSaid(refused, "BROADCASTING")
	if err != nil {
		return err
	}
	if said := text(m, "error", "message"); !strings.Contains(said, "insufficient funds") || !strings.Contains(said, fmt.Sprintf("give nonce %d", next)) {
		return fmt.Errorf("refused with %v", m)
	}
	var ids []string
	for range 2 {
		id, err := w.send(fees)
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	for _, id := range append(ids, behind) {
		if _, err := w.until(id, "INCLUDED"); err != nil {
			return err
		}
	}
	if now, err := w.node.count(w.account, "latest"); err != nil || now != next+3 {
		return fmt.Errorf("the chain counts %d, %v, want %d", now, err, next+3)
	}
	_, err = w.untilSaid(refused, "FAILED") // another one has its number now
	return err
}

// replaces gives one that waits behind a gap its number again, with no word on fees: the node must take it in its place.
func (w *world) replaces() error {
	next, err := w.node.count(w.account, "latest")
	if err != nil {
		return err
	}
	var ids []string
	for _, nonce := range []uint64{next + 1, next + 1, next} {
		id, err := w.send(object{"nonce": fmt.Sprint(nonce)})
		if err != nil {
			return err
		}
		if nonce != next {
			if _, err := w.until(id, "BROADCASTING"); err != nil {
				return err
			}
		}
		ids = append(ids, id)
	}
	for _, id := range ids[1:] {
		if _, err := w.until(id, "INCLUDED"); err != nil {
			return err
		}
	}
	_, err = w.until(ids[0], "FAILED")
	return err
}

// reverts calls a contract that takes nothing.
func (w *world) reverts(f *funder) error {
	// Its code is PUSH0 PUSH0 REVERT; what stands before it returns that.
	contract, err := f.deploy(&w.node, "625f5ffd5f526003601df3")
	if err != nil {
		return err
	}
	call := object{"calls": []object{{"to": contract, "data": "0x01020304"}}}
	status, m, err := w.post("/public/v1/submit/eth_send_transaction", w.body(sendType, w.params(call)))
	if err != nil || status != 400 || text(m, "turnkeyErrorCode") != "RPC_CALL_ERROR" || !strings.Contains(text(m, "message"), "execution reverted") {
		return fmt.Errorf("it was not said beforehand: %d %v %w", status, m, err)
	}
	call["gasLimit"] = "100000"
	id, err := w.send(call)
	if err != nil {
		return err
	}
	if m, err = w.until(id, "FAILED"); err != nil {
		return err
	}
	if text(m, "error", "eth", "revertChain", "0", "native", "nativeType") != "execution_reverted" || !strings.Contains(text(m, "txError"), "execution reverted") {
		return fmt.Errorf("%v", m)
	}
	_, err = w.node.includedNonce(text(m, "eth", "txHash"), w.account)
	return err
}

func (w *world) raw() error {
	nonce, err := w.node.count(w.account, "pending")
	if err != nil {
		return err
	}
	unsigned := unsignedTransfer(nonce, nowhere)
	m, err := w.submit("ACTIVITY_TYPE_SIGN_TRANSACTION_V2", object{"signWith": w.account, "unsignedTransaction": unsigned, "type": "TRANSACTION_TYPE_ETHEREUM"})
	if err != nil {
		return err
	}
	signed := text(m, "activity", "result", "signTransactionResult", "signedTransaction")
	m, err = w.submit("ACTIVITY_TYPE_ETH_SEND_RAW_TRANSACTION", object{"signedTransaction": "0x" + signed, "caip2": caip2})
	if err != nil {
		return err
	}
	hash := text(m, "activity", "result", "ethSendRawTransactionResult", "transactionHash")
	if m, err = w.until(text(m, "activity", "id"), "INCLUDED"); err != nil || text(m, "eth", "txHash") != hash {
		return fmt.Errorf("%v, hash %s, %w", m, hash, err)
	}
	got, err := w.node.includedNonce(hash, w.account)
	if err != nil || got != nonce {
		return fmt.Errorf("nonce %d, want %d, %w", got, nonce, err)
	}
	return nil
}

// wrong asks nodes that do not answer as they should.
func (w *world) wrong(l *liar) error {
	type want struct {
		status int
		says   string
	}
	ask := func(caip2 string, want want) error {
		for path, body := range map[string][]byte{
			"/public/v1/submit/eth_send_transaction": w.body(sendType, w.params(object{"caip2": caip2})),
			"/public/v1/query/get_nonces":            w.queryBody(object{"address": w.account, "caip2": caip2, "nonce": true}),
		} {
			status, m, err := w.post(path, body)
			if err != nil || status != want.status || text(m, "turnkeyErrorCode") != "RPC_CALL_ERROR" || !strings.Contains(text(m, "message"), want.says) {
				return fmt.Errorf("%s of %s: %d %v %w, want %d %q", path, caip2, status, m, err, want.status, want.says)
			}
		}
		return nil
	}
	if err := ask("eip155:1", want{400, "no node of eip155:1"}); err != nil {
		return err
	}
	if err := ask("eip155:8453", want{504, "in time"}); err != nil {
		return err
	}
	for _, lie := range []string{`{"jsonrpc":"2.0","id":ID,"result":"0x1"}`, `{"jsonrpc":"2.0","id":ID,"result":"lots"}`, `{"jsonrpc":"2.0","id":99999,"result":"0x89"}`, `nonsense`, ``,
		`{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"no such method"}}`, `{"jsonrpc":"2.0","id":ID,"result":` + strings.Repeat("[", 100_000)} {
		l.say(lie)
		if err := ask("eip155:137", want{503, "no answer that makes sense"}); err != nil {
			return err
		}
	}
	return w.NoAlarms()
}
