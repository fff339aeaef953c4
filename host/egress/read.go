package egress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"cloister/shared/wire"
)

// SetAssets sets the tokens whose balances are read. Call it before the first request.
func (c *Chains) SetAssets(assets Assets) {
	for name, tokens := range assets {
		if n := c.nodes[name]; n != nil {
			n.tokens = tokens
		}
	}
}

// Read handles one request for balances or mined transactions, within the timeout.
func (c *Chains) Read(ctx context.Context, ask wire.ReadChain) wire.ChainReading {
	var r wire.ChainReading
	s := c.about(ctx, ask.Name, ask.Address != "" || len(ask.Transactions) > 0, func(ctx context.Context, n *node) wire.ChainState {
		for _, t := range n.tokens {
			r.Tokens = append(r.Tokens, t.Token)
		}
		if err := n.read(ctx, ask, &r); err != nil {
			return verdict(err)
		}
		return wire.ChainState{Verdict: wire.ChainKnown}
	})
	if s.Verdict != wire.ChainKnown {
		return wire.ChainReading{Verdict: s.Verdict, Text: s.Text}
	}
	r.Verdict = wire.ChainKnown
	return r
}

func (n *node) read(ctx context.Context, ask wire.ReadChain, r *wire.ChainReading) error {
	balances, mined := n.solanaBalances, n.solanaMined
	if n.isEthereum() {
		balances, mined = n.ethereumBalances, n.ethereumMined
	}
	if ask.Address != "" {
		if err := balances(ctx, ask.Address, r); err != nil {
			return err
		}
	}
	if len(ask.Transactions) > wire.MaxStates {
		return fmt.Errorf("%w: %d transactions", errWrong, len(ask.Transactions))
	}
	if len(ask.Transactions) == 0 {
		return nil
	}
	r.Transactions = make([]wire.Mined, len(ask.Transactions))
	return mined(ctx, ask.Transactions, r.Transactions)
}

// atOnce bounds the parallel requests to a node for the transactions of one request.
const atOnce = 8

// eachAtOnce runs ask for 0 to count-1, atOnce at a time, and returns the first error in their order.
func eachAtOnce(count int, ask func(int) error) error {
	slots := make(chan struct{}, atOnce)
	asks := make([]func() error, count)
	for i := range asks {
		asks[i] = func() error {
			slots <- struct{}{}
			defer func() { <-slots }()
			return ask(i)
		}
	}
	return runAll(asks...)
}

// A large is a number below 2^256 in the encoding of Ethereum's JSON-RPC.
type large struct{ big.Int }

// UnmarshalJSON accepts "0x" and up to 64 hexadecimal digits.
func (l *large) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	digits, ok := strings.CutPrefix(text, "0x")
	if !ok || digits == "" || len(digits) > 64 || strings.Trim(digits, "0123456789abcdefABCDEF") != "" {
		return errWrong
	}
	l.SetString(digits, 16)
	return nil
}

// Constants of the EVM program that balancesOf makes.
const (
	balanceOf  = "70a08231" // the selector of balanceOf(address)
	callGas    = 500_000    // gas for one token, so that an endless call costs the others nothing
	firstWord  = 64         // memory offset of the results, after the call's data
	resultSize = 64         // bytes of a result: whether the token answered, and the balance
)

// balancesOf is an EVM program that calls every token for one account's balance and returns all results, of one block.
// A node runs it in eth_call as init code of a contract, so no contract needs to be deployed.
func balancesOf(account []byte, tokens []token) []byte {
	p := append([]byte{0x63}, decodeHex("0x"+balanceOf, 4)...) // PUSH4
	p = append(p, 0x60, 224, 0x1b, 0x60, 0, 0x52, 0x73)        // PUSH1 224 SHL, PUSH1 0 MSTORE, PUSH20
	p = append(append(p, account...), 0x60, 4, 0x52)           // PUSH1 4 MSTORE
	push2 := func(n int) { p = append(p, 0x61, byte(n>>8), byte(n)) }
	for i, t := range tokens {
		at := firstWord + i*resultSize
		p = append(p, 0x60, 32) // bytes of the result
		push2(at + 32)
		p = append(append(p, 0x60, 36, 0x60, 0, 0x73), t.address...) // PUSH1 36, PUSH1 0, PUSH20
		p = append(p, 0x62, callGas>>16, callGas>>8&0xff, callGas&0xff, 0xfa,
			0x60, 31, 0x3d, 0x11, 0x16) // PUSH3 STATICCALL; PUSH1 31, RETURNDATASIZE, GT, AND
		push2(at)
		p = append(p, 0x52) // MSTORE
	}
	push2(len(tokens) * resultSize)
	return append(p, 0x60, firstWord, 0xf3) // PUSH1, RETURN
}

func (n *node) ethereumBalances(ctx context.Context, address string, r *wire.ChainReading) error {
	var coin large
	var out string
	account := decodeHex(address, 20)
	if len(account) != 20 {
		return fmt.Errorf("%w: no address", errWrong)
	}
	asks := []func() error{func() error { return n.call(ctx, &coin, "eth_getBalance", address, "latest") }}
	if len(n.tokens) > 0 {
		asks = append(asks, func() error {
			return n.call(ctx, &out, "eth_call", map[string]string{"data": encodeHex(balancesOf(account, n.tokens))}, "latest")
		})
	}
	if err := runAll(asks...); err != nil {
		return err
	}
	r.Coin = coin.Bytes()
	if len(n.tokens) == 0 {
		return nil
	}
	answers := decodeHex(out, len(n.tokens)*resultSize+1)
	if len(answers) != len(n.tokens)*resultSize {
		return fmt.Errorf("eth_call: %w: %d bytes", errWrong, len(answers))
	}
	for i := range r.Tokens {
		answer := answers[i*resultSize:][:resultSize]
		// A balance that is unavailable must not look like zero.
		if new(big.Int).SetBytes(answer[:32]).Cmp(big.NewInt(1)) != 0 {
			return fmt.Errorf("%w: the asset %s tells no balance", errWrong, r.Tokens[i].CAIP19)
		}
		r.Tokens[i].Balance = new(big.Int).SetBytes(answer[32:]).Bytes()
	}
	return nil
}

// ethereumMined looks up the blocks of transactions. Those at or before the node's finalized block are final.
func (n *node) ethereumMined(ctx context.Context, names []string, mined []wire.Mined) error {
	type block struct {
		Number quantity `json:"number"`
		Hash   string   `json:"hash"`
		Time   quantity `json:"timestamp"`
	}
	var final *block
	if err := n.call(ctx, &final, "eth_getBlockByNumber", "finalized", false); err != nil {
		if _, refused := errors.AsType[*refusal](err); !refused { // a chain may have no finalized block yet
			return err
		}
	}
	return eachAtOnce(len(names), func(i int) error {
		var receipt *struct {
			Name     string   `json:"transactionHash"`
			Status   quantity `json:"status"`
			Block    quantity `json:"blockNumber"`
			Hash     string   `json:"blockHash"`
			Gas      *large   `json:"gasUsed"`
			Price    *large   `json:"effectiveGasPrice"`
			BlobGas  large    `json:"blobGasUsed"`
			BlobCost large    `json:"blobGasPrice"`
			L1Fee    large    `json:"l1Fee"` // a rollup's fee for its data on layer 1, if it reports one
		}
		if err := n.call(ctx, &receipt, "eth_getTransactionReceipt", names[i]); err != nil || receipt == nil {
			return err
		}
		var in *block
		if err := n.call(ctx, &in, "eth_getBlockByHash", receipt.Hash, false); err != nil {
			return err
		}
		if !strings.EqualFold(receipt.Name, names[i]) || receipt.Gas == nil || receipt.Price == nil || in == nil || in.Hash != receipt.Hash || in.Number != receipt.Block || len(decodeHex(in.Hash, 33)) != 32 || in.Time > 1<<40 {
			return fmt.Errorf("eth_getTransactionReceipt: %w: another transaction's or block's", errWrong)
		}
		fee := new(big.Int).Mul(&receipt.Gas.Int, &receipt.Price.Int)
		fee.Add(fee, new(big.Int).Mul(&receipt.BlobGas.Int, &receipt.BlobCost.Int)).Add(fee, &receipt.L1Fee.Int)
		if fee.BitLen() > 256 {
			return fmt.Errorf("eth_getTransactionReceipt: %w: its fee", errWrong)
		}
		mined[i] = wire.Mined{Block: uint64(receipt.Block), Hash: in.Hash, TimeMs: uint64(in.Time) * 1000, Fee: fee.Bytes(),
			Failed: receipt.Status != 1, Final: final != nil && receipt.Block <= final.Number}
		return nil
	})
}
