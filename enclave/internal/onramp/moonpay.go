package onramp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strings"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/strictjson"
)

// moonPayHost is that of MoonPay's page.
func moonPayHost(sandbox bool) string {
	if sandbox {
		return "buy-sandbox.moonpay.com"
	}
	return "buy.moonpay.com"
}

// MoonPayURL is the address of MoonPay's page for a purchase, without its signature.
func (p *Purchase) MoonPayURL(apiKey string) string {
	text := "https://" + moonPayHost(p.Sandbox)
	sep := "?"
	for _, m := range [][2]string{
		{"apiKey", apiKey}, {"currencyCode", codes[[2]string{p.Network.name(), p.Asset.name()}]}, {"walletAddress", p.Address},
		{"baseCurrencyCode", strings.ToLower(p.Currency.name())}, {"baseCurrencyAmount", p.Amount},
		{"paymentMethod", strings.ToLower(p.Method.name())}, {"externalTransactionId", p.ID},
	} {
		if m[1] != "" {
			text += sep + m[0] + "=" + url.QueryEscape(m[1])
			sep = "&"
		}
	}
	return text
}

// SignMoonPay is MoonPay's signature of a URL: over its query, question mark included. Empty if there is no key.
func SignMoonPay(text string, key secret.Secret) (signature string) {
	query := []byte(text[strings.IndexByte(text, '?'):])
	key.Use(func(b []byte) {
		if len(b) > 0 {
			mac := hmac.New(sha256.New, b)
			mac.Write(query)
			signature = base64.StdEncoding.EncodeToString(mac.Sum(nil))
		}
	})
	return signature
}

// WithSignature puts a signature behind a URL.
func WithSignature(text, signature string) string {
	return text + "&signature=" + url.QueryEscape(signature)
}

// Bounds of a URL that a client brings.
const (
	maxToSign    = 4096
	maxAddresses = 20
)

// CheckToSign refuses to sign a MoonPay URL that a client brings unless it is of this credential's page, and has assets
// sent to nobody but the organization, which own tells. The errors are *fault.Error, or own's.
//
// MoonPay signs the query alone, so that a signature is good on its other pages too: whatever names a wallet or an address
// there is refused as well.
func CheckToSign(text string, sandbox bool, apiKey string, own func(address string) (bool, error)) error {
	const field = "urlForSignature"
	rest, ok := strings.CutPrefix(text, "https://"+moonPayHost(sandbox))
	path, query, found := strings.Cut(rest, "?")
	switch {
	case len(text) > maxToSign:
		return fault.Field(field, "must be at most %d characters", maxToSign)
	case !ok || path != "" && path[0] != '/':
		return fault.Field(field, "must begin with https://%s", moonPayHost(sandbox))
	case !found || query == "":
		return fault.Field(field, "must have a query")
	}
	// No character that a browser would write in another way, so that what is signed is what it sends.
	for i := range len(rest) {
		if c := rest[i]; !alphanumeric(rest[i:i+1]) && strings.IndexByte("-._~!$&()*+,;=:@/?%[]", c) < 0 {
			return fault.Field(field, "has a character that must be escaped")
		}
	}
	keys := 0
	for member := range strings.SplitSeq(query, "&") {
		name, escaped, _ := strings.Cut(member, "=")
		value, err := url.QueryUnescape(escaped)
		// A name in another spelling could be another name to the one who reads it.
		if err != nil || !alphanumeric(name) || strings.ContainsAny(member, ";?") {
			return fault.Field(field, "has a parameter that is not name=value")
		}
		switch lower := strings.ToLower(name); {
		case name == "apiKey":
			if keys++; value != apiKey {
				return fault.Field(field, "must have the apiKey of the organization's credential")
			}
		case name == "walletAddress":
			err = ownAddresses(field, own, value)
		case name == "walletAddresses":
			var addresses map[string]string
			if strictjson.Decode([]byte(value), &addresses) != nil || len(addresses) == 0 || len(addresses) > maxAddresses {
				return fault.Field(field, "walletAddresses must be a JSON object of 1 to %d addresses", maxAddresses)
			}
			for _, address := range addresses {
				if err = ownAddresses(field, own, address); err != nil {
					break
				}
			}
		case lower == "signature":
			return fault.Field(field, "has a signature already")
		case lower == "apikey", strings.Contains(lower, "wallet"), strings.Contains(lower, "address"):
			return fault.Field(field, "must not have %s: of addresses it may name walletAddress and walletAddresses", name)
		case lower == "externaltransactionid" && isID(value):
			// It could pass for a purchase of another organization under the same credential.
			return fault.Field(field, "externalTransactionId must not be a UUID: those are of this deployment's activities")
		}
		if err != nil {
			return err
		}
	}
	if keys != 1 {
		return fault.Field(field, "must have one apiKey, that of the organization's credential")
	}
	return nil
}

func ownAddresses(field string, own func(string) (bool, error), address string) error {
	ok, err := own(address)
	if err == nil && !ok {
		err = fault.Field(field, "has an address that is not the organization's")
	}
	return err
}

// isID tells whether a text could be taken for a UUID.
func isID(text string) bool {
	return strings.Count(text, "-") == 4 && strings.Trim(text, "0123456789abcdefABCDEF-") == "" && len(text) == 36
}

// MoonPayAPI is where MoonPay is asked; a simulator may ask elsewhere.
const MoonPayAPI = "https://api.moonpay.com"

// MoonPayStatus asks how a purchase stands.
func MoonPayStatus(base, id, apiKey string) *login.Request {
	return &login.Request{Method: "GET", URL: base + "/v1/transactions/ext/" + url.PathEscape(id) + "?apiKey=" + url.QueryEscape(apiKey), Header: requestFields()}
}

func requestFields() []login.HeaderField {
	return []login.HeaderField{{Name: "Accept", Value: []byte("application/json")}, {Name: "User-Agent", Value: []byte("cloister")}}
}

// answerLimits bound what an answer's JSON can blow up to.
var answerLimits = strictjson.Limits{Depth: 31, Items: 1000, Members: 1000, Values: 20_000}

var moonPayStates = map[string]State{
	"waitingPayment": Pending, "pending": Pending, "waitingAuthorization": Pending, "completed": Completed, "failed": Failed,
}

// ReadMoonPay reads the answer to MoonPayStatus: a list of the payments under id, the newest first, or 404 for none.
func ReadMoonPay(status int, body []byte, id string) (State, error) {
	if status == 404 {
		return Created, nil
	}
	var all []struct {
		Status string `json:"status"`
		ID     string `json:"externalTransactionId"`
	}
	if status != 200 || strictjson.Decode(body, &all, strictjson.AllowUnknown(), strictjson.Within(answerLimits)) != nil {
		return "", errAnswer
	}
	var states []State
	for _, one := range all {
		s, known := moonPayStates[one.Status]
		if one.ID != id || !known {
			return "", errAnswer
		}
		states = append(states, s)
	}
	return combineStates(states), nil
}
