package activity

import (
	"math/big"

	"cloister/enclave/internal/billing"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/onramp"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/program"
	"cloister/enclave/internal/secret"
)

// Capabilities are the external services in the measured configuration, and the senders of messages. With the zero
// value nothing can be sent but transactions.
type Capabilities struct {
	Mail, Text bool         // whether a server for them is configured
	WhatsApp   bool         // whether a sender of WhatsApp messages is
	Sender     login.Sender // of mails, where an organization sets none
	Domains    []string     // of the addresses that an organization may choose as sender; read-only
	Sandbox    bool         // whether contacts of the sandbox get the fixed passcode
	Issuer     string       // of the enclave's identity tokens; empty: it cannot issue any
	// Tokens are the operator's list, by which approvers are shown amounts; nil for none.
	Tokens *show.Tokens
	// GasPrices are the prices of a coin, by CAIP-2, of the chains whose transactions may be sponsored, in millionths of a US
	// dollar; read-only.
	GasPrices map[string]uint64
	// OnRamps are the providers that the operator has set up; read-only.
	OnRamps []onramp.Provider
	// Payments reports whether a payment processor is configured.
	Payments bool
	// Programs is the platform that runs customers' programs, nil for none; read-only.
	Programs *program.Platform
}

// OnRampNotSet is the error of a request for a provider that the operator has not set up.
func OnRampNotSet(p onramp.Provider) error {
	return fault.New(fault.FailedPrecondition, "the operator has not set up %s: the configuration's onRamps does not name it", p)
}

// ErrNoProcessor is the error of a request that needs a payment processor where the operator has set up none.
var ErrNoProcessor = fault.New(fault.FailedPrecondition, "the operator has not set up a payment processor: the configuration's billing.processor is missing")

// NoPrograms is the error of a request that needs a platform for programs where the operator has set up none.
func NoPrograms() *fault.Error {
	return fault.New(fault.FailedPrecondition, "the operator has not set up a platform for customers' programs: the configuration has no member tvc")
}

// A ChainQuery is a query for the state of a chain. The host answers it while no organization is locked.
type ChainQuery struct {
	Chain                        string // CAIP-2
	Nonces, Fees, Gas, Blockhash bool   // what to ask for; none: whether there is a node at all
	Account                      []byte // the account whose delegation is asked for; nil: none
	// Accounts are those that a Solana transaction changes, whose competition sets the Fees; Exist: which of them there are.
	Accounts [][]byte
	Exist    bool
	From     []byte // the account whose nonces are asked for, and the caller
	To, Data []byte // of the call to estimate; To is empty for a contract creation
	Value    *big.Int
	// Sends are the sends, at most MaxStandings, whose Standing is needed.
	Sends []org.SendRef
}

// MaxStandings bounds ChainQuery.Sends.
const MaxStandings = 100

// ChainState is the host's answer to a ChainQuery. It is not verified: an activity must bound the effect of a false value.
type ChainState struct {
	Latest, Pending   uint64 // transaction counts; Latest is at most Pending, which is below 2^64-2
	BaseFee, Tip, Gas uint64
	Existing          uint64 // bit i: there is account i of the ChainQuery
	Blockhash         [32]byte
	Delegate          []byte // the contract whose code the account has, nil for none
	Executions        uint64 // the number of executions that the account's delegate has counted
	Recorded          bool   // set in a replay: nonces and Executions are those that the recorded send used
	Transactions      uint64 // transactions of the account in blocks
	Standings         map[org.SendRef]Standing
	// ReadMs is the enclave's time before the host was asked.
	ReadMs uint64
}

// A Standing is the state of a send, as the host reports it. Text is printable.
type Standing struct {
	State  org.SendState
	Text   string
	Revert []byte
}

// chainStateSetter is an intent that needs a ChainState.
type chainStateSetter interface{ SetChainState(*ChainState) }

// ChainQuery is the chain state needed before the decision, nil for none. A *fault.Error refuses the request.
func (v *Version) ChainQuery(tx *org.Tx, in *Intent) (*ChainQuery, error) {
	return v.chainQuery(tx, in.newest)
}

// SetChainState passes the answer to the ChainQuery to the intent.
func (in *Intent) SetChainState(k *ChainState) {
	if w, ok := in.newest.(chainStateSetter); ok {
		w.SetChainState(k)
	}
}

// A Payer is an intent that the top-level organization may pay for. LookUpPayer loads the payer from that organization's
// records, which top returns: a *fault.Error refuses the request; other errors are those of top.
type Payer interface {
	LookUpPayer(top func() (*org.Tx, error)) error
	// SponsoredBy returns the payer that LookUpPayer has found, nil if the organization itself pays.
	SponsoredBy() *org.GasConfig
}

// Payer returns the intent as a Payer, nil if only its own organization can pay for it.
func (in *Intent) Payer() Payer {
	p, _ := in.newest.(Payer)
	return p
}

// Providers queries identity providers without waiting. If a response is not there yet, it returns an error, no *fault.Error, that
// must be returned: the activity is dropped, the response is fetched while no organization is locked, and the activity runs again.
type Providers interface {
	// Keys returns the key set of an issuer. has reports whether it contains the token's key; if not, it is fetched
	// again. A *fault.Error about field says why there is none.
	Keys(field, issuer string, has func(*login.KeySet) bool) (*login.KeySet, error)
	// Exchange exchanges a code for an identity: once per activity, however often it runs, since a code can be used once.
	Exchange(*Exchange) (*Exchanged, error)
	// OnRampSession requests a session from Coinbase. ask makes the request, to a URL that begins with base, if there
	// is no response yet.
	OnRampSession(ask func(base string) (*login.Request, error)) (string, error)
	// Pay sends a request to the payment processor. A *fault.Error is its refusal, or that it can't be reached.
	Pay(*billing.Question) (*billing.Answer, error)
	// Program looks for a program in its image, and refuses it if its digest differs from the Image's.
	Program(*Image) error
}

// An Image is the location of a program in a container image, with its digest.
type Image struct {
	Reference  program.Reference
	Path       string
	Expected   program.Digest
	PullSecret string // of the image's registry, encrypted to a key of the enclave; empty: none
}

// An Exchange is an authorization code of an OAuth 2.0 provider with the parameters of its exchange. The caller that made it wipes the secret.
type Exchange struct {
	Provider login.OAuth2Provider
	Code     login.Code
	ClientID string
	Secret   secret.Secret // the client's
	// BearerTo is the key to which the provider's access token is encrypted, in hex, or empty.
	BearerTo string
}

// Exchanged is the identity that a provider returned for a code.
type Exchanged struct {
	Subject string
	Bearer  string // the access token, encrypted; empty without BearerTo
}

// ServiceKeys are keys of the enclave that only a few activities use.
type ServiceKeys struct {
	ClientSecrets secret.Secret // opens the client secrets of OAuth 2.0
	OnRamp        secret.Secret // opens the secrets of on-ramp providers
	// Identities signs the identity tokens that the enclave issues under the URL Issuer, which is empty if it issues none.
	Identities *login.Signer
	Issuer     string
}
