package eth

import (
	"math/big"
	"strconv"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/show"
)

// A network is a chain of Ethereum's kind that approvers know by its name.
type network struct {
	name, coin string // coin is empty where there is none
	high       int64  // coins from which a fee is called high, in tenths
}

var networks = map[uint64]network{
	1: {"Ethereum", "ETH", 1}, 10: {"OP Mainnet", "ETH", 1}, 56: {"BNB Smart Chain", "BNB", 1}, 97: {"BNB Smart Chain Testnet", "tBNB", 1},
	100: {"Gnosis", "xDAI", 100}, 130: {"Unichain", "ETH", 1}, 137: {"Polygon", "POL", 100}, 143: {"Monad", "MON", 100}, 324: {"ZKsync Era", "ETH", 1},
	480: {"World Chain", "ETH", 1}, 8453: {"Base", "ETH", 1}, 10143: {"Monad Testnet", "MON", 100}, 42161: {"Arbitrum One", "ETH", 1},
	42220: {"Celo", "CELO", 100}, 43114: {"Avalanche", "AVAX", 10}, 59144: {"Linea", "ETH", 1}, 80002: {"Polygon Amoy", "POL", 100},
	84532: {"Base Sepolia", "ETH", 1}, 421614: {"Arbitrum Sepolia", "ETH", 1}, 534352: {"Scroll", "ETH", 1}, 560048: {"Hoodi", "ETH", 1},
	11155111: {"Sepolia", "ETH", 1}, 11155420: {"OP Sepolia", "ETH", 1}, 17000: {"Holesky", "ETH", 1},
	5042: {"Arc", "", 0}, 5042002: {"Arc Testnet", "", 0}, 4663: {"Robinhood Chain", "ETH", 1}, 46630: {"Robinhood Chain Testnet", "ETH", 1},
}

// A place is where a transaction or a signature counts: a chain and what is known of it. The id 0 stands for every chain.
type place struct {
	id     uint64
	net    network
	caip2  string                      // the name under which lists of tokens have the chain
	text   func(account []byte) string // writes an account
	native show.Unit                   // of the chain's own coin
	// described: the interfaces that organizations upload for contracts are of the chain's.
	described bool
}

func placeOf(id uint64) place {
	p := place{id: id, net: networks[id], caip2: "eip155:" + strconv.FormatUint(id, 10), text: chain.ChecksumAddress, native: show.Unit{Name: "wei"}, described: true}
	if p.net.coin != "" {
		p.native.Symbol, p.native.SymbolFrom, p.native.Decimals, p.native.HasDecimals = p.net.coin, show.FromImage, 18, true
	}
	if id == 0 {
		p.native.Decimals, p.native.HasDecimals = 18, true // wherever it is sent
	}
	return p
}

// show sets the member network.
func (p place) show(o *show.Object) {
	n := o.Object("network")
	if p.id == 0 {
		n.Plain("chainId", "any")
		n.Warn(show.ChainAny)
		return
	}
	n.Uint("chainId", p.id)
	if p.net.name == "" {
		n.Warn(show.ChainUnknown)
		return
	}
	n.Plain("name", p.net.name)
	n.Plain("nameSource", show.FromImage)
}

// isHigh tells a fee that is to be looked at.
func (p place) isHigh(fee *big.Int) bool {
	if p.net.coin == "" {
		return false
	}
	most := new(big.Int).Mul(big.NewInt(p.net.high), tenth)
	return fee.Cmp(most) > 0
}

var tenth = big.NewInt(1e17)

// token is the unit of a token, and whether it is on the operator's list.
func (p place) token(v *show.View, address string) (show.Unit, bool) {
	t, ok := v.Token(p.caip2, address)
	if !ok {
		return show.Unit{}, false
	}
	v.UseTokens()
	return t.Unit(), true
}

// The contracts that are the same on every chain, since their address follows from their code.
var contracts = map[string]string{
	"0x000000000022D473030F116dDEE9F6B43aC78BA3": "Permit2",
	"0x00000000000000ADc04C56Bf30aC9d3c0aAF14dC": "Seaport 1.5",
	"0x0000000000000068F116a894984e2DB1123eB395": "Seaport 1.6",
	"0x40A2aCCbd92BCA938b02010E17A5b8929b49130D": "Safe: MultiSendCallOnly 1.3.0",
	"0xA1dabEF33b3B82c7814B6D82A79e50F4AC44102B": "Safe: MultiSendCallOnly 1.3.0",
	"0x9641d764fc13c8B624c04430C7356C1C7C8102e2": "Safe: MultiSendCallOnly 1.4.1",
	"0xA238CBeb142c10Ef7Ad8442C6D1f9E89e07e7761": "Safe: MultiSend 1.3.0",
	"0x998739BFdAAdde7C933B942a68053933098f9EDa": "Safe: MultiSend 1.3.0",
	"0x38869bf66a61cF6bDB996A6aE40D5853Fd43B526": "Safe: MultiSend 1.4.1",
	"0xcA11bde05977b3631167028862bE2a173976CA11": "Multicall3",
	"0x5FF137D4b0FDCD49DcA30c7CF57E578a026d2789": "EntryPoint 0.6",
	"0x0000000071727De22E5E9d8BAf0edAc6f37da032": "EntryPoint 0.7",
	AddressText(Delegate):                        "TKGasDelegate",
	AddressText(Station):                         "TKGasStation",
}

const (
	permit2        = "Permit2"
	multiSendCalls = "Safe: MultiSendCallOnly"
	multiSend      = "Safe: MultiSend"
	seaport        = "Seaport"
	zeroAddress    = "0x0000000000000000000000000000000000000000"
	zeroTron       = "T9yD14Nj9j7xAB4dbGeiX9h8unkKHxuWwb"
	deadAddress    = "0x000000000000000000000000000000000000dEaD"
)

// address sets an address, and answers its text.
func (p place) address(o *show.Object, key string, account []byte) string {
	text := p.text(account)
	o.Address(key, p.caip2, text, contracts[text])
	return text
}

// party warns of an account that nobody knows. What is built in is known.
func (p place) party(o *show.Object, text string, member ...string) {
	if contracts[text] == "" && text != zeroAddress && text != zeroTron {
		o.Party(p.caip2, text, member...)
	}
}

// ContractNames are the names of contracts that are built in, by their addresses. Nobody may change them.
func ContractNames() map[string]string { return contracts }

// CoinNames are the coins of networks that are built in.
func CoinNames() (all []string) {
	for _, n := range networks {
		if n.coin != "" {
			all = append(all, n.coin)
		}
	}
	return all
}
