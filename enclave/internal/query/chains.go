package query

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/wallet"
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// Balances, and the blocks of transactions, are unverified statements of the operator's nodes, which the host queries. It is
// queried only when the caller may read and the address is of the organization's wallets.
var chains = []*Query{
	fetchQuery("get_wallet_address_balances", fetchBalances, answerFetched),
	fetchQuery("list_supported_assets", fetchAssets, answerFetched),
	fetchQuery("list_eth_transaction_history", fetchEthHistory, answerFetched),
	fetchQuery("list_sol_transaction_history", fetchSolHistory, answerFetched),
}

func answerFetched(_ *View, fetched []byte) ([]byte, error) { return fetched, nil }

// A ChainQuestion is a query for an address, if it is not empty, and for transactions by their names.
type ChainQuestion struct {
	Chain        string
	Address      string
	Transactions []string
}

// A ChainReading is a node's answer to a ChainQuestion.
type ChainReading struct {
	Coin   *big.Int // of the address
	Tokens []Asset
	Mined  []Mined // in the order of the question's Transactions
}

// An Asset is a coin or a token. In a list of assets its balance is nil.
type Asset struct {
	CAIP19, Symbol, Name, LogoURL string
	Decimals                      int
	Stable                        bool
	Balance                       *big.Int
}

// Mined is the block of a transaction; without a hash it is in none.
type Mined struct {
	Block         uint64
	Hash          string
	TimeMs        uint64
	Fee           *big.Int
	Failed, Final bool
}

// coin returns a chain's own coin, which is supported without being listed. Tempo's chains have none.
func coin(name string) (Asset, bool) {
	of := func(number int, symbol, name string) Asset {
		return Asset{CAIP19: "/slip44:" + strconv.Itoa(number), Symbol: symbol, Name: name, Decimals: 18}
	}
	a := of(60, "ETH", "Ether")
	switch name {
	case "eip155:4217", "eip155:42431":
		return a, false
	case "eip155:137", "eip155:80002":
		a = of(966, "POL", "POL")
	case "eip155:56", "eip155:97":
		a = of(714, "BNB", "BNB")
	case "eip155:143", "eip155:10143":
		a = of(268435779, "MON", "Monad")
	}
	if strings.HasPrefix(name, "solana:") {
		a = of(501, "SOL", "Solana")
		a.Decimals = 9
	}
	a.CAIP19 = name + a.CAIP19
	return a, true
}

// A chainName is the CAIP-2 name of any chain of the interface.
type chainName string

// Valid reports whether c is a chain of the interface.
func (c chainName) Valid() bool { return wallet.EthChain(c).Valid() || wallet.SolNetwork(c).Valid() }

// canonical returns the canonical name of the chain.
func (c chainName) canonical() string {
	if n := wallet.SolNetwork(c); n.Valid() {
		return n.CAIP2()
	}
	return string(c)
}

type balancesRequest struct {
	Head
	Address string    `json:"address" rule:"required"`
	CAIP2   chainName `json:"caip2" rule:"required"`
}

type assetsRequest struct {
	Head
	CAIP2 chainName `json:"caip2" rule:"required"`
}

// walletAddress returns an address as the organization has it stored. It must be a wallet account's, and one of the chain's.
func walletAddress(s *sources, address, name string) (string, error) {
	a, err := s.Account(chain.MatchKey(address))
	switch {
	case err != nil:
		return "", err
	case a == nil:
		return "", fault.New(fault.NotFound, "wallet account not found: %s", address)
	}
	want := "ADDRESS_FORMAT_SOLANA"
	if strings.HasPrefix(name, "eip155:") {
		want = "ADDRESS_FORMAT_ETHEREUM"
	}
	if a.Format != want {
		return "", fault.Field("address", "is no address on %s", name)
	}
	return a.Address, nil
}

func fetchBalances(in *balancesRequest, s *sources) ([]byte, error) {
	name := in.CAIP2.canonical()
	address, err := walletAddress(s, in.Address, name)
	if err != nil {
		return nil, err
	}
	r, err := s.ReadChain(&ChainQuestion{Chain: name, Address: address})
	if err != nil {
		return nil, err
	}
	if own, ok := coin(name); ok {
		own.Balance = r.Coin
		r.Tokens = slices.Insert(r.Tokens, 0, own)
	}
	has := slices.DeleteFunc(r.Tokens, func(a Asset) bool { return a.Balance == nil || a.Balance.Sign() == 0 })
	return many(`{"balances":`, has, nil, func(dst []byte, a Asset) []byte {
		dst = appendAsset(dst, &a)
		dst = text(dst, `,"balance":`, a.Balance.String())
		return append(text(dst, `,"display":{"crypto":`, decimal(a.Balance, a.Decimals)), `}}`...)
	})
}

func fetchAssets(in *assetsRequest, s *sources) ([]byte, error) {
	name := in.CAIP2.canonical()
	r, err := s.ReadChain(&ChainQuestion{Chain: name})
	if err != nil {
		return nil, err
	}
	if own, ok := coin(name); ok {
		r.Tokens = slices.Insert(r.Tokens, 0, own)
	}
	return many(`{"assets":`, r.Tokens, nil, func(dst []byte, a Asset) []byte {
		dst = appendAsset(dst, &a)
		if a.LogoURL != "" {
			dst = text(dst, `,"logoUrl":`, a.LogoURL)
		}
		return append(flag(dst, `,"stable":`, a.Stable), '}')
	})
}

// appendAsset writes the members with which all objects of an asset begin.
func appendAsset(dst []byte, a *Asset) []byte {
	dst = text(dst, `{"caip19":`, a.CAIP19)
	dst = text(dst, `,"symbol":`, a.Symbol)
	dst = text(dst, `,"name":`, a.Name)
	return strconv.AppendInt(append(dst, `,"decimals":`...), int64(a.Decimals), 10)
}

// decimal formats an amount in whole coins, exactly.
func decimal(amount *big.Int, decimals int) string {
	digits := amount.String()
	if missing := decimals + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	whole, part := digits[:len(digits)-decimals], strings.TrimRight(digits[len(digits)-decimals:], "0")
	if part == "" {
		return whole
	}
	return whole + "." + part
}

type ethHistoryRequest struct {
	Head
	Address           string          `json:"address" rule:"required"`
	CAIP2             wallet.EthChain `json:"caip2" rule:"required"`
	PaginationOptions *Pagination     `json:"paginationOptions"`
}

type solHistoryRequest struct {
	Head
	Address           string            `json:"address" rule:"required"`
	CAIP2             wallet.SolNetwork `json:"caip2" rule:"required"`
	PaginationOptions *Pagination       `json:"paginationOptions"`
}

func fetchEthHistory(in *ethHistoryRequest, s *sources) ([]byte, error) {
	return fetchSends(s, in.Address, string(in.CAIP2), in.PaginationOptions, []string{"ACTIVITY_TYPE_ETH_SEND_TRANSACTION", "ACTIVITY_TYPE_ETH_SEND_TRANSACTION_V2", "ACTIVITY_TYPE_ETH_SEND_RAW_TRANSACTION"})
}

func fetchSolHistory(in *solHistoryRequest, s *sources) ([]byte, error) {
	return fetchSends(s, in.Address, in.CAIP2.CAIP2(), in.PaginationOptions, []string{"ACTIVITY_TYPE_SOL_SEND_TRANSACTION", "ACTIVITY_TYPE_SOL_SEND_TRANSACTION_V2"})
}

// ownSend is a transaction that the organization has sent.
type ownSend struct {
	*org.Entry
	*wallet.Sent
	name string
}

// maxScanned bounds the activities read for one page. A page may have fewer rows than its limit and still have a next one.
const maxScanned = 500

// fetchSends answers an address's sends from the ledger, with their blocks from a node. Those in no block are
// left out: get_send_transaction_status returns them.
func fetchSends(s *sources, address, name string, page *Pagination, types []string) ([]byte, error) {
	b, err := page.bounds()
	if err != nil {
		return nil, err
	}
	native, ok := coin(name)
	if !ok {
		return nil, activity.Unimplemented("transaction history", "fees are paid in tokens on "+name)
	}
	if address, err = walletAddress(s, address, name); err != nil {
		return nil, err
	}
	sends, first, last, more, err := scanSends(s, address, name, &b, types)
	if err != nil {
		return nil, err
	}
	q := &ChainQuestion{Chain: name}
	for _, o := range sends {
		q.Transactions = append(q.Transactions, o.name)
	}
	r, err := s.ReadChain(q)
	if err != nil {
		return nil, err
	}
	dst := []byte(`{"transactions":[`)
	for i, o := range sends {
		if r.Mined[i].Hash == "" {
			continue
		}
		if dst[len(dst)-1] != '[' {
			dst = append(dst, ',')
		}
		dst = appendSent(dst, &o, &r.Mined[i], &native, address)
	}
	next, previous := more, b.after != nil
	if b.before != nil {
		next, previous = true, more
	}
	dst = flag(dst, `],"pageInfo":{"hasNextPage":`, next)
	dst = flag(dst, `,"hasPreviousPage":`, previous)
	if first != nil {
		dst = ident(dst, `,"startCursor":`, *first)
		dst = ident(dst, `,"endCursor":`, *last)
	}
	return append(dst, `}}`...), nil
}

// scanSends finds an address's sends, newest first, and the activities at which the page begins and ends.
func scanSends(s *sources, address, name string, b *bounds, types []string) (sends []ownSend, first, last *org.ID, more bool, err error) {
	p := Page{Types: types, Statuses: []org.Status{org.StatusCompleted}, Before: b.before, After: b.after, Limit: maxLimit}
	at := func(id org.ID) {
		if last == nil || b.before == nil {
			last = &id
		}
		if first == nil || b.before != nil {
			first = &id
		}
	}
	for scanned := 0; scanned < maxScanned; scanned += p.Limit {
		es, err := s.Page(p)
		if err != nil {
			return nil, nil, nil, false, err
		}
		full := len(es) == p.Limit
		if b.before != nil { // from the cursor to newer ones
			slices.Reverse(es)
		}
		for _, e := range es {
			o, err := readSend(e, address, name)
			if err != nil {
				return nil, nil, nil, false, err
			}
			if o != nil && len(sends) == b.limit {
				return inListOrder(sends, b), first, last, true, nil
			}
			at(e.Activity)
			if o != nil {
				sends = append(sends, *o)
			}
		}
		if !full {
			return inListOrder(sends, b), first, last, false, nil
		}
		if b.before != nil {
			p.Before = first
		} else {
			p.Before, p.After = nil, last
		}
	}
	return inListOrder(sends, b), first, last, true, nil
}

func inListOrder(sends []ownSend, b *bounds) []ownSend {
	if b.before != nil {
		slices.Reverse(sends)
	}
	return sends
}

// readSend decodes an activity's transaction; nil if it is not from the address on the chain.
func readSend(e *org.Entry, address, name string) (*ownSend, error) {
	if len(e.Sends) == 0 || e.Sends[0].Kind != org.SendTransaction {
		return nil, nil
	}
	t, err := org.DecodeTransaction(e.Sends[0].Content)
	if err != nil || t.Chain != name {
		return nil, err
	}
	sent, err := wallet.ReadSent(t)
	if err != nil {
		return nil, err
	}
	signs := func(key string) bool { return chain.MatchKey(key) == chain.MatchKey(address) }
	if !signs(sent.From) && !slices.ContainsFunc(sent.Signers, func(r wallet.Signer) bool { return signs(r.Address) }) {
		return nil, nil
	}
	return &ownSend{e, sent, t.Name}, nil
}

func appendSent(dst []byte, o *ownSend, m *Mined, native *Asset, address string) []byte {
	solana := o.Signers != nil
	if solana {
		dst = text(dst, `{"signature":`, o.name)
	} else {
		dst = text(dst, `{"transactionHash":`, o.name)
	}
	dst = number(dst, `,"block":{"number":`, m.Block)
	dst = text(dst, `,"hash":`, m.Hash)
	dst = text(dst, `,"timestamp":`, rfc3339(m.TimeMs))
	status := "CONFIRMED"
	if m.Final {
		status = "FINALIZED"
	}
	dst = text(dst, `},"status":`, status)
	dst = append(dst, `,"origin":"TURNKEY"`...) // the value that clients of the interface expect
	if solana {
		dst = text(dst, `,"feePayer":`, o.Sent.From)
		dst = array(dst, `,"signers":`, o.Signers, func(dst []byte, r wallet.Signer) []byte {
			return append(flag(text(dst, `{"address":`, r.Address), `,"writable":`, r.Writable), '}')
		})
	} else {
		dst = text(dst, `,"from":`, o.Sent.From)
		if o.To != "" {
			dst = text(dst, `,"to":`, o.To)
		}
	}
	dst = text(dst, `,"fee":{"amount":`, m.Fee.String())
	dst = text(dst, `,"caip19":`, native.CAIP19)
	dst = append(dst, `},"transfers":[`...)
	for _, move := range o.Moves {
		for _, side := range []struct{ direction, of, other string }{{"OUT", move.From, move.To}, {"IN", move.To, move.From}} {
			if m.Failed || chain.MatchKey(side.of) != chain.MatchKey(address) {
				continue
			}
			if dst[len(dst)-1] != '[' {
				dst = append(dst, ',')
			}
			dst = text(dst, `{"direction":`, side.direction)
			dst = append(appendAsset(append(dst, `,"asset":`...), native), '}')
			dst = text(dst, `,"amount":`, move.Amount.String())
			dst = text(dst, `,"counterparty":`, side.other)
			dst = append(text(dst, `,"display":{"crypto":`, decimal(move.Amount, native.Decimals)), `}}`...)
		}
	}
	dst = activity.AppendFingerprint(append(dst, `],"turnkey":{"sponsored":false,"activityFingerprint":"`...), o.Fingerprint)
	return append(text(dst, `","submittedAt":`, rfc3339(o.TimeMs)), `}}`...)
}

func rfc3339(ms uint64) string {
	return time.UnixMilli(int64(ms)).UTC().Format("2006-01-02T15:04:05.999Z07:00")
}
