// Package onramp is what the enclave says to providers that sell crypto assets for money: the address of a
// provider's page, made and signed here so that nobody swaps the wallet's address in it, and the requests that ask
// how a purchase stands.
//
// What is signed is good wherever the provider takes such a signature, not only on the page that somebody meant: a
// URL that a client brings is signed only if nothing in it can send assets or money elsewhere.
//
// Nothing here asks anybody: requests go out and answers come in elsewhere.
package onramp

import (
	"errors"
	"slices"
	"strings"

	"cloister/enclave/internal/fault"
)

// Provider is the interface's name of a provider.
type Provider string

// The providers.
const (
	Coinbase Provider = "FIAT_ON_RAMP_PROVIDER_COINBASE"
	MoonPay  Provider = "FIAT_ON_RAMP_PROVIDER_MOONPAY"
)

// Valid tells whether p is one of the interface's.
func (p Provider) Valid() bool { return p == Coinbase || p == MoonPay }

// Network is the interface's name of a network.
type Network string

// Valid tells whether n is one of the interface's.
func (n Network) Valid() bool { return tail(n, "FIAT_ON_RAMP_BLOCKCHAIN_NETWORK_", networks) }

func (n Network) name() string {
	return strings.TrimPrefix(string(n), "FIAT_ON_RAMP_BLOCKCHAIN_NETWORK_")
}

// Asset is the interface's name of what is bought.
type Asset string

// Valid tells whether a is one of the interface's.
func (a Asset) Valid() bool { return tail(a, "FIAT_ON_RAMP_CRYPTO_CURRENCY_", assets) }

func (a Asset) name() string { return strings.TrimPrefix(string(a), "FIAT_ON_RAMP_CRYPTO_CURRENCY_") }

// Currency is the interface's name of the money that is paid with.
type Currency string

// Valid tells whether c is one of the interface's.
func (c Currency) Valid() bool { return tail(c, "FIAT_ON_RAMP_CURRENCY_", currencies) }

func (c Currency) name() string { return strings.TrimPrefix(string(c), "FIAT_ON_RAMP_CURRENCY_") }

// Method is the interface's name of a way to pay.
type Method string

// Valid tells whether m is one of the interface's.
func (m Method) Valid() bool { return tail(m, "FIAT_ON_RAMP_PAYMENT_METHOD_", methods) }

func (m Method) name() string { return strings.TrimPrefix(string(m), "FIAT_ON_RAMP_PAYMENT_METHOD_") }

var (
	networks   = strings.Fields("BITCOIN ETHEREUM SOLANA BASE")
	assets     = strings.Fields("BTC ETH SOL USDC")
	currencies = strings.Fields("AUD BGN BRL CAD CHF COP CZK DKK DOP EGP EUR GBP HKD IDR ILS JOD KES KWD LKR MXN NGN NOK NZD OMR PEN PLN RON SEK THB TRY TWD USD VND ZAR")
	methods    = strings.Fields("CREDIT_DEBIT_CARD APPLE_PAY GBP_BANK_TRANSFER GBP_OPEN_BANKING_PAYMENT GOOGLE_PAY SEPA_BANK_TRANSFER PIX_INSTANT_PAYMENT " +
		"PAYPAL VENMO MOONPAY_BALANCE CRYPTO_ACCOUNT FIAT_WALLET ACH_BANK_ACCOUNT")
)

func tail[T ~string](name T, prefix string, all []string) bool {
	rest, ok := strings.CutPrefix(string(name), prefix)
	return ok && slices.Contains(all, rest)
}

// A Purchase is what somebody wants to buy. ID is the activity's, by which the provider is asked later.
type Purchase struct {
	Provider    Provider
	Network     Network
	Asset       Asset
	Address     string
	Currency    Currency // empty: the provider's choice, as in the members below
	Amount      string
	Method      Method
	Country     string
	Subdivision string
	Sandbox     bool
	ID          string
}

// codes are MoonPay's names of an asset on a network; of what is not in it there is no sale anywhere.
var codes = map[[2]string]string{
	{"BITCOIN", "BTC"}: "btc", {"ETHEREUM", "ETH"}: "eth", {"BASE", "ETH"}: "eth_base", {"SOLANA", "SOL"}: "sol",
	{"ETHEREUM", "USDC"}: "usdc", {"BASE", "USDC"}: "usdc_base", {"SOLANA", "USDC"}: "usdc_sol",
}

// Bounds of a purchase.
const (
	maxAmount  = 20  // characters
	maxAddress = 128 // characters
)

// Check refuses what no provider sells, or this one does not. The errors are *fault.Error.
func (p *Purchase) Check() error {
	switch {
	case codes[[2]string{p.Network.name(), p.Asset.name()}] == "":
		return fault.Field("cryptoCurrencyCode", "there is no %s on %s", p.Asset.name(), p.Network.name())
	case len(p.Address) > maxAddress || !alphanumeric(p.Address):
		return fault.Field("walletAddress", "must be an address of letters and digits")
	case p.Amount != "" && !decimal(p.Amount):
		return fault.Field("fiatCurrencyAmount", "must be a decimal number above zero, of at most %d characters", maxAmount)
	case p.Method != "" && !slices.Contains(methodsOf[p.Provider], p.Method.name()):
		return fault.Field("paymentMethod", "the provider does not have this payment method")
	case p.Country != "" && (len(p.Country) != 2 || !upper(p.Country)):
		return fault.Field("countryCode", "must be two capital letters, as in ISO 3166-1")
	case p.Subdivision != "" && (len(p.Subdivision) > 3 || !alphanumeric(p.Subdivision) || p.Country == ""):
		return fault.Field("countrySubdivisionCode", "must be one to three letters and digits, as in ISO 3166-2, beside a countryCode")
	case p.Country == "US" && p.Subdivision == "":
		return fault.Field("countrySubdivisionCode", "must be set where countryCode is US")
	}
	return nil
}

var methodsOf = map[Provider][]string{
	MoonPay: strings.Fields("CREDIT_DEBIT_CARD APPLE_PAY GBP_BANK_TRANSFER GBP_OPEN_BANKING_PAYMENT GOOGLE_PAY SEPA_BANK_TRANSFER PIX_INSTANT_PAYMENT " +
		"PAYPAL VENMO MOONPAY_BALANCE"),
	Coinbase: strings.Fields("CREDIT_DEBIT_CARD APPLE_PAY CRYPTO_ACCOUNT FIAT_WALLET ACH_BANK_ACCOUNT"),
}

// decimal takes digits with at most one point between them, and more than zero.
func decimal(s string) bool {
	whole, part, point := strings.Cut(s, ".")
	digits := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	return len(s) <= maxAmount && digits(whole) && (!point || digits(part)) && strings.Trim(s, "0.") != ""
}

func upper(s string) bool { return strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" }

func alphanumeric(s string) bool {
	for i := range len(s) {
		if c := s[i]; !(c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9') {
			return false
		}
	}
	return s != ""
}

// State is how far a purchase has come, as the interface names it.
type State string

// The states.
const (
	Created   State = "CREATED" // nobody has begun to pay, as far as is known
	Pending   State = "PENDING"
	Completed State = "COMPLETED"
	Failed    State = "FAILED"
)

// errAnswer is of an answer that is not what the provider documents.
var errAnswer = errors.New("onramp: the provider's answer cannot be used")

// combineStates is the state of a purchase for which the provider knows of payments in these states: one that came
// through counts, then one under way, then the newest that did not.
func combineStates(states []State) State {
	for _, s := range []State{Completed, Pending} {
		if slices.Contains(states, s) {
			return s
		}
	}
	if len(states) > 0 {
		return states[0]
	}
	return Created
}

// CutSignature is a page's address without what is made with a secret or by the provider: its signature, or its session.
func CutSignature(text string) string {
	head, query, _ := strings.Cut(text, "?")
	rest := strings.Split(query, "&")
	return head + "?" + strings.Join(slices.DeleteFunc(rest, func(member string) bool {
		return strings.HasPrefix(member, "signature=") || strings.HasPrefix(member, "sessionToken=")
	}), "&")
}
