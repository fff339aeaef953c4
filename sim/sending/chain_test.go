package sending_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/sha3"
)

// A chain is a node with a pool and blocks: a transaction is in a block when those
// with lower numbers of its account are, and when blocks are made.
type chain struct {
	*httptest.Server

	mu     sync.Mutex
	idle   bool                // no blocks are made
	pool   map[uint64]string   // names by nonce, of the one account that there is
	mined  []string            // names in the order of their nonces
	taken  map[string]int      // how often each came
	refuse func([]byte) string // what is wrong with a transaction
	keep   string              // what a transaction is refused with that is kept all the same
	kept   map[uint64]string   // names by nonce
	lie    func(method string, params []any) (answer any, lies bool)
	slow   time.Duration
}

func newChain(t testing.TB) *chain {
	c := &chain{pool: map[uint64]string{}, kept: map[uint64]string{}, taken: map[string]int{}}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *chain) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	c.block()
}

// block takes what can go in.
func (c *chain) block() {
	for !c.idle && c.pool[uint64(len(c.mined))] != "" {
		n := uint64(len(c.mined))
		c.mined = append(c.mined, c.pool[n])
		delete(c.pool, n)
	}
}

func (c *chain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		ID     any    `json:"id"`
		Method string `json:"method"`
		Params []any  `json:"params"`
	}
	if json.NewDecoder(r.Body).Decode(&ask) != nil {
		return
	}
	reply := map[string]any{"jsonrpc": "2.0", "id": ask.ID}
	c.mu.Lock()
	slow := c.slow
	c.mu.Unlock()
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-r.Context().Done():
		}
	}
	result, refusal := c.answer(ask.Method, ask.Params)
	if refusal != "" {
		reply["error"] = map[string]any{"code": -32000, "message": refusal}
	} else {
		reply["result"] = result
	}
	_ = json.NewEncoder(w).Encode(reply)
}

func (c *chain) answer(method string, params []any) (result any, refusal string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lie != nil {
		if answer, lies := c.lie(method, params); lies {
			return answer, ""
		}
	}
	switch method {
	case "eth_chainId":
		return "0xaa36a7", ""
	case "eth_getTransactionCount":
		n := uint64(len(c.mined))
		for params[1] == "pending" && c.pool[n] != "" {
			n++
		}
		return fmt.Sprintf("%#x", n), ""
	case "eth_getCode":
		return "0x", ""
	case "eth_getStorageAt":
		return fmt.Sprintf("0x%064x", 4), ""
	case "eth_feeHistory":
		return map[string]any{"baseFeePerGas": []string{"0x7", "0x7"}}, ""
	case "eth_maxPriorityFeePerGas":
		return "0x1", ""
	case "eth_estimateGas":
		return "0x5208", ""
	case "eth_sendRawTransaction":
		return c.take(params[0].(string))
	case "eth_getTransactionByHash":
		for _, name := range c.known() {
			if name == params[0] {
				return map[string]any{"hash": name}, ""
			}
		}
		return nil, ""
	case "eth_getTransactionReceipt":
		for _, name := range c.mined {
			if name == params[0] {
				return map[string]any{"transactionHash": name, "status": "0x1", "blockNumber": "0x1"}, ""
			}
		}
		return nil, ""
	}
	return nil, "no such method: " + method
}

func (c *chain) known() []string {
	all := append([]string(nil), c.mined...)
	for _, name := range c.pool {
		all = append(all, name)
	}
	return all
}

func (c *chain) take(text string) (result any, refusal string) {
	raw, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil {
		return nil, "rlp: no"
	}
	h := sha3.NewLegacyKeccak256()
	h.Write(raw)
	name := "0x" + hex.EncodeToString(h.Sum(nil))
	c.taken[name]++
	nonce := nonceOf(raw)
	for _, other := range c.known() {
		if other == name {
			return nil, "already known"
		}
	}
	switch {
	case c.refuse != nil && c.refuse(raw) != "":
		return nil, c.refuse(raw)
	case c.keep != "":
		c.kept[nonce] = name
		return nil, c.keep
	case nonce < uint64(len(c.mined)):
		return nil, "nonce too low"
	case c.pool[nonce] != "":
		return nil, "replacement transaction underpriced"
	}
	c.pool[nonce] = name
	c.block()
	return name, ""
}

// nonceOf reads the second number of a transaction of type 2.
func nonceOf(raw []byte) uint64 {
	b := raw[1:]
	if b[0] >= 0xf8 {
		b = b[1+b[0]-0xf7:]
	} else {
		b = b[1:]
	}
	item := func() []byte {
		if b[0] < 0x80 {
			v := b[:1]
			b = b[1:]
			return v
		}
		n := int(b[0]) - 0x80
		v := b[1 : 1+n]
		b = b[1+n:]
		return v
	}
	item()
	n := uint64(0)
	for _, c := range item() {
		n = n<<8 | uint64(c)
	}
	return n
}
