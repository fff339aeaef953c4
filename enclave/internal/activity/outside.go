package activity

import (
	"math/big"

	"cloister/enclave/internal/billing"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/onramp"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/program"
	"cloister/enclave/internal/secret"
)

// Capabilities are the outside services in the measured configuration, and the senders of messages. With the zero
// value nothing can be sent but transactions.
type Capabilities struct {
	Mail, Text bool         // whether there is a server for them
	Sender     login.Sender // who mails are from where an organization does not say
	Domains    []string     // of whose addresses an organization may choose a sender; not to be changed
	Sandbox    bool         // whether the sandbox's contacts get no real passcode
	Issuer     string       // of identity tokens of ours; empty: none can be issued
	// GasPrices are those of a coin of the chains whose transactions may be sponsored, by CAIP-2, in millionths of a US
	// dollar; not to be changed.
	GasPrices map[string]uint64
	// OnRamps are the providers that the operator has set up; not to be changed.
	OnRamps []onramp.Provider
	// Payments tells whether there is a payment processor.
	Payments bool
	// Programs is what customers' programs run in, nil if nothing; not to be changed.
	Programs *program.Platform
}

// OnRampNotSet refuses what asks for a provider that the operator has not set up.
func OnRampNotSet(p onramp.Provider) error {
	return fault.New(fault.FailedPrecondition, "the operator has not set up %s: the configuration's onRamps does not name it", p)
}

// ErrNoProcessor refuses what takes a payment processor, where the operator has set up none.
var ErrNoProcessor = fault.New(fault.FailedPrecondition, "the operator has not set up a payment processor: the configuration's billing.processor is missing")

// NoPrograms refuses what needs a platform that the operator has not set up.
func NoPrograms() *fault.Error {
	return fault.New(fault.FailedPrecondition, "the operator has not set up a platform for customers' programs: the configuration has no member tvc")
}

// A ChainQuery is a query for the state of a chain. The host answers it while no organization is locked.
type ChainQuery struct {
	Chain                        string // CAIP-2
	Nonces, Fees, Gas, Blockhash bool   // nothing: whether there is a node at all
	Account                      []byte // whose delegation; nil: nobody's
	From                         []byte // whose nonces, and who calls
	To, Data                     []byte // of a call to estimate; To is empty for one that makes a contract
	Value                        *big.Int
	// Sends are those, MaxStandings at most, whose standing matters too.
	Sends []org.SendRef
}

// MaxStandings bounds ChainQuery.Sends.
const MaxStandings = 100

// ChainState is the host's answer to a ChainQuery. It is not verified: an activity must bound the effect of a false value.
type ChainState struct {
	Latest, Pending   uint64 // nonces; Latest is at most Pending, which is below 2^64-2
	BaseFee, Tip, Gas uint64
	Blockhash         [32]byte
	Delegate          []byte // the contract whose code the account has, nil for none
	Executions        uint64 // that it has counted
	Recorded          bool   // of what was sent before: Executions is the number that it took
	Transactions      uint64 // of the account that are in blocks
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

// A Payer is an intent for which the top-level organization may pay, whose records top answers. LookUpPayer looks at who pays:
// a *fault.Error refuses the request; others are those of top.
type Payer interface {
	LookUpPayer(top func() (*org.Tx, error)) error
}

// Payer is nil for an intent that nobody else can pay for.
func (in *Intent) Payer() Payer {
	p, _ := in.newest.(Payer)
	return p
}

// Providers asks identity providers without waiting. What is not known yet is an error, no *fault.Error, that
// must be returned: the activity is dropped, the answer is fetched with no organization locked, and the activity runs again.
type Providers interface {
	// Keys returns the key set of an issuer; has tells whether it holds the token's key or must be fetched
	// again. A *fault.Error about field says why there is none.
	Keys(field, issuer string, has func(*login.KeySet) bool) (*login.KeySet, error)
	// Exchange turns a code into an identity: once for one activity, however often it runs, since a code is good once.
	Exchange(*Exchange) (*Exchanged, error)
	// OnRampSession asks Coinbase for a session. ask makes the request, which goes to what begins with base, if there
	// is none yet.
	OnRampSession(ask func(base string) (*login.Request, error)) (string, error)
	// Pay asks the payment processor a question. A *fault.Error is its refusal, or that it cannot be asked.
	Pay(*billing.Question) (*billing.Answer, error)
	// Program looks for a program in its image, and refuses one that is not as the image is said to have it.
	Program(*Image) error
}

// An Image is the location of a program in a container image, with its digest.
type Image struct {
	Reference  program.Reference
	Path       string
	Expected   program.Digest
	PullSecret string // of the registry, encrypted to a key of the enclave; empty: none
}

// An Exchange is an authorization code of an OAuth 2.0 provider with the parameters of its exchange. Its maker wipes the secret.
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
	Bearer  string // the access token, encrypted; empty if nobody wants it
}

// ServiceKeys are keys of the enclave that few activities use.
type ServiceKeys struct {
	ClientSecrets secret.Secret // opens the client secrets of OAuth 2.0
	OnRamp        secret.Secret // opens the secrets of on-ramp providers
	// Identities signs the identity tokens that the enclave issues under the URL Issuer, which is empty if it issues none.
	Identities *login.Signer
	Issuer     string
}
