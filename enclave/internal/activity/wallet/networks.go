package wallet

import (
	"slices"
	"strconv"
	"strings"

	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/fault"
)

// An EthChain is the CAIP-2 name of an Ethereum-like chain.
type EthChain string

// The chains of the interface.
var ethChains = []EthChain{
	"eip155:1", "eip155:11155111", "eip155:8453", "eip155:84532", "eip155:137", "eip155:80002", "eip155:56", "eip155:97",
	"eip155:10", "eip155:11155420", "eip155:143", "eip155:10143", "eip155:42161", "eip155:4217", "eip155:42431", "eip155:421614",
	"eip155:4663", "eip155:46630", "eip155:5042", "eip155:5042002",
}

// Valid reports whether c is a chain of the interface.
func (c EthChain) Valid() bool { return slices.Contains(ethChains, c) }

// ID returns the chain id in transactions.
func (c EthChain) ID() uint64 {
	n, _ := strconv.ParseUint(strings.TrimPrefix(string(c), "eip155:"), 10, 63) // it is Valid
	return n
}

// A DelegateChain is an EthChain whose accounts can remove a delegation.
type DelegateChain string

// Valid reports whether c is such a chain of the interface. Tempo has its own transaction type.
func (c DelegateChain) Valid() bool {
	return EthChain(c).Valid() && c != "eip155:4217" && c != "eip155:42431"
}

// EthAddress parses an account's address. The error is a *fault.Error about field.
func EthAddress(field, text string) (address [20]byte, err error) {
	if address, err = eth.ParseAddress(text); err != nil {
		err = fault.Field(field, "%s", err)
	}
	return address, err
}

// A SolNetwork is the CAIP-2 name of a Solana network, or an alias of it.
type SolNetwork string

var solNetworks = map[SolNetwork]string{
	"solana:mainnet": "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
	"solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp":             "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
	"solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d": "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
	"solana:devnet": "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1",
	"solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1":             "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1",
	"solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG": "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1",
}

// Valid reports whether n is a network of the interface.
func (n SolNetwork) Valid() bool { _, ok := solNetworks[n]; return ok }

// CAIP2 returns the CAIP-2 name of the network.
func (n SolNetwork) CAIP2() string { return solNetworks[n] }
