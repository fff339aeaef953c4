package activity

import (
	"math/big"
	"slices"
	"strconv"
	"strings"

	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
)

// An EthChain is the CAIP-2 name of a chain of Ethereum's kind.
type EthChain string

// The chains of the interface.
var ethChains = []EthChain{
	"eip155:1", "eip155:11155111", "eip155:8453", "eip155:84532", "eip155:137", "eip155:80002", "eip155:56", "eip155:97",
	"eip155:10", "eip155:11155420", "eip155:143", "eip155:10143", "eip155:42161", "eip155:4217", "eip155:42431", "eip155:421614",
}

// Valid tells whether c is one of the interface's.
func (c EthChain) Valid() bool { return slices.Contains(ethChains, c) }

// ID is the number by which transactions name the chain.
func (c EthChain) ID() uint64 {
	n, _ := strconv.ParseUint(strings.TrimPrefix(string(c), "eip155:"), 10, 63) // it is Valid
	return n
}

// EthAddress reads the address of an account in a field of that name. The error is
// a *fault.Error.
func EthAddress(field, text string) (address [20]byte, err error) {
	if address, err = eth.ParseAddress(text); err != nil {
		err = fault.Field(field, "%s", err)
	}
	return address, err
}

// A SolNetwork is the CAIP-2 name of a network of Solana's, or a name that stands
// for one.
type SolNetwork string

var solNetworks = map[SolNetwork]string{
	"solana:mainnet": "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
	"solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp":             "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
	"solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d": "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
	"solana:devnet": "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1",
	"solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1":             "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1",
	"solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG": "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1",
}

// Valid tells whether n is one of the interface's.
func (n SolNetwork) Valid() bool { _, ok := solNetworks[n]; return ok }

// CAIP2 is the one name of the network.
func (n SolNetwork) CAIP2() string { return solNetworks[n] }

// Outside is what can go out besides transactions, and in whose name, as the
// measured configuration has it. The zero value is an enclave without one.
type Outside struct {
	Mail, Text bool         // whether there is a server for them
	Sender     login.Sender // who mails are from where an organization does not say
	Domains    []string     // of whose addresses an organization may choose a sender; not to be changed
	Sandbox    bool         // whether the sandbox's contacts get no real passcode
	Issuer     string       // of identity tokens of ours; empty: none can be issued
}

// A ChainNeed is what must be known of a chain before something can be decided or
// told. The host is asked for it, outside of any organization's turn.
type ChainNeed struct {
	Chain                        string // CAIP-2
	Nonces, Fees, Gas, Blockhash bool   // nothing: whether there is a node at all
	From                         []byte // whose nonces, and who calls
	To, Data                     []byte // of a call to estimate; To is empty for one that makes a contract
	Value                        *big.Int
	// Sends are those, MaxStandings at most, whose standing matters too.
	Sends []org.SendRef
}

// MaxStandings bounds ChainNeed.Sends.
const MaxStandings = 100

// ChainKnown is what the host says of a chain: hints, which it may choose. Whoever
// uses one bounds what it can do.
type ChainKnown struct {
	Latest, Pending   uint64 // nonces; Latest is at most Pending, which is below 2^64-2
	BaseFee, Tip, Gas uint64
	Blockhash         [32]byte
	Standings         map[org.SendRef]Standing
	// HeardMs is the enclave's time before the host was asked.
	HeardMs uint64
}

// A Standing is where a send stands, by the host's word. Text is printable.
type Standing struct {
	State  org.SendState
	Text   string
	Revert []byte
}

// knower is an intent that takes what the host has said.
type knower interface{ know(*ChainKnown) }

// Need is what must be known before the activity is decided, nil for nothing. An
// *org.Missing must be passed up; a *fault.Error refuses what is asked.
func (v *Version) Need(tx *org.Tx, in *Intent) (*ChainNeed, error) {
	return v.need(tx, in.newest)
}

// Know hands the intent what was needed.
func (in *Intent) Know(k *ChainKnown) {
	if w, ok := in.newest.(knower); ok {
		w.know(k)
	}
}
