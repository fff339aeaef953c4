package decoded

import (
	"fmt"
	"strings"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/chain/sol"
	"cloister/enclave/internal/chain/tron"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/strictjson"
)

// Limits of the operator's list of tokens.
const (
	MaxTokens   = 500
	maxDecimals = 77 // of the largest amount below 2^256
	maxSymbol   = 32 // characters
)

// ListedToken is a token as the configuration, list_tokens and their readers write it. Other members, such as those of the
// host's -assets, are passed over.
type ListedToken struct {
	CAIP19   string  `json:"caip19" rule:"required"`
	Symbol   string  `json:"symbol" rule:"required"`
	Decimals *uint32 `json:"decimals" rule:"required"`
}

// ReadTokens reads a list as the operator writes it, a JSON array. Its text is then JSON without blanks: caip19, symbol and
// decimals of each token, in the operator's order.
func ReadTokens(list []byte) (*show.Tokens, error) {
	items, ok := strictjson.Raw(list).Array()
	if !ok || len(items) > MaxTokens {
		return nil, fault.New(fault.InvalidArgument, "want a list of at most %d tokens", MaxTokens)
	}
	all := make([]show.Token, len(items))
	seen := map[[2]string]bool{}
	text := []byte{'['}
	for i, item := range items {
		var t ListedToken
		if err := strictjson.Decode(item, &t, strictjson.AllowUnknown()); err != nil {
			return nil, fmt.Errorf("token %d: %w", i+1, err)
		}
		var err error
		if all[i], err = t.token(); err != nil {
			return nil, fmt.Errorf("token %d: %w", i+1, err)
		}
		at := [2]string{all[i].Network, chain.MatchKey(all[i].Address)}
		if seen[at] {
			return nil, fault.New(fault.InvalidArgument, "token %d is given twice", i+1)
		}
		seen[at] = true
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, strictjson.Append(nil, &t)...)
	}
	return show.NewTokens(all, append(text, ']')), nil
}

// token reads the parts of a token's CAIP-19 id: eip155:NUMBER/erc20:0x…, solana:NETWORK/token:MINT or tron:NETWORK/trc20:T….
func (t *ListedToken) token() (show.Token, error) {
	network, id, _ := strings.Cut(t.CAIP19, "/")
	family, reference, _ := strings.Cut(network, ":")
	kind, address, _ := strings.Cut(id, ":")
	out := show.Token{Network: family, Address: address, Symbol: t.Symbol, Decimals: int(*t.Decimals)}
	var err error
	switch family + "/" + kind {
	case "eip155/erc20":
		out.Network = network
		_, err = eth.ParseAddress(address)
	case "solana/token":
		_, err = sol.ParseAddress(address)
	case "tron/trc20":
		_, err = tron.ParseAddress(address)
	default:
		err = fault.New(fault.InvalidArgument, "unknown kind")
	}
	if err != nil || reference == "" || len(t.CAIP19) > 128 {
		return out, fault.New(fault.InvalidArgument, "caip19: want eip155:NUMBER/erc20:0x…, solana:NETWORK/token:MINT or tron:NETWORK/trc20:T…")
	}
	if len(t.Symbol) > maxSymbol || strings.ContainsFunc(t.Symbol, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return out, fault.New(fault.InvalidArgument, "symbol: want 1 to %d characters of printable ASCII without blanks", maxSymbol)
	}
	if *t.Decimals > maxDecimals {
		return out, fault.New(fault.InvalidArgument, "decimals: at most %d", maxDecimals)
	}
	return out, nil
}
