package onramp

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/p256"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/strictjson"
)

// CoinbaseAPI is where Coinbase is asked; a simulator may ask elsewhere.
const CoinbaseAPI = "https://api.developer.coinbase.com"

// A CoinbaseKey is what requests to Coinbase are signed with.
type CoinbaseKey struct {
	ID      string
	Private secret.Secret // PEM of a P-256 key, or Base64 of an Ed25519 one
	Rand    io.Reader
	NowMs   uint64
}

// Methods as Coinbase names them, where that is not the interface's name.
var coinbaseMethods = map[string]string{"CREDIT_DEBIT_CARD": "CARD"}

// CoinbaseSession asks for a session, which has the wallet's address in it. from is the user's address on the network, as
// the host says; what is none is left out.
func (p *Purchase) CoinbaseSession(base, from string, key CoinbaseKey) (*login.Request, error) {
	type address struct {
		Address     string   `json:"address"`
		Blockchains []string `json:"blockchains"`
	}
	ask := struct {
		Addresses []address `json:"addresses"`
		Assets    []string  `json:"assets"`
		ClientIP  string    `json:"clientIp,omitempty"`
	}{Addresses: []address{{p.Address, []string{strings.ToLower(p.Network.name())}}}, Assets: []string{p.Asset.name()}}
	if ip, err := netip.ParseAddr(from); err == nil {
		ask.ClientIP = ip.Unmap().String()
	}
	body, err := json.Marshal(&ask)
	if err != nil {
		return nil, err
	}
	r, err := key.request("POST", base, "/onramp/v1/token")
	if err != nil {
		return nil, err
	}
	r.Header, r.Body = append(r.Header, login.HeaderField{Name: "Content-Type", Value: []byte("application/json")}), body
	return r, nil
}

// ReadCoinbaseSession reads the answer to CoinbaseSession.
func ReadCoinbaseSession(status int, body []byte) (token string, err error) {
	var answer struct {
		Token string `json:"token"`
	}
	if status != 200 || strictjson.Decode(body, &answer, strictjson.AllowUnknown(), strictjson.Within(answerLimits)) != nil || answer.Token == "" || len(answer.Token) > maxToSign {
		return "", errAnswer
	}
	return answer.Token, nil
}

// CoinbaseURL is the address of Coinbase's page for a purchase. The session is good once, for five minutes.
func (p *Purchase) CoinbaseURL(session string) string {
	host := "pay.coinbase.com"
	if p.Sandbox {
		host = "pay-sandbox.coinbase.com"
	}
	method := p.Method.name()
	if other := coinbaseMethods[method]; other != "" {
		method = other
	}
	text := "https://" + host + "/buy/select-asset?sessionToken=" + url.QueryEscape(session)
	for _, m := range [][2]string{{"defaultNetwork", strings.ToLower(p.Network.name())}, {"defaultAsset", p.Asset.name()}, {"presetFiatAmount", p.Amount},
		{"fiatCurrency", p.Currency.name()}, {"defaultPaymentMethod", method}, {"partnerUserRef", p.ID}} {
		if m[1] != "" {
			text += "&" + m[0] + "=" + url.QueryEscape(m[1])
		}
	}
	return text
}

// CoinbaseStatus asks how a purchase stands.
func CoinbaseStatus(base, id string, key CoinbaseKey) (*login.Request, error) {
	return key.request("GET", base, "/onramp/v1/buy/user/"+url.PathEscape(id)+"/transactions")
}

var coinbaseStates = map[string]State{
	"ONRAMP_TRANSACTION_STATUS_CREATED": Created, "ONRAMP_TRANSACTION_STATUS_IN_PROGRESS": Pending, "ONRAMP_TRANSACTION_STATUS_SUCCESS": Completed,
	"ONRAMP_TRANSACTION_STATUS_FAILED": Failed,
}

// ReadCoinbase reads the answer to CoinbaseStatus, which is about the payments of one user reference alone.
func ReadCoinbase(status int, body []byte) (State, error) {
	var answer struct {
		Transactions []struct {
			Status string `json:"status"`
		} `json:"transactions"`
	}
	if status != 200 || strictjson.Decode(body, &answer, strictjson.AllowUnknown(), strictjson.Within(answerLimits)) != nil {
		return "", errAnswer
	}
	var states []State
	for _, one := range answer.Transactions {
		s, known := coinbaseStates[one.Status]
		if !known {
			return "", errAnswer
		}
		states = append(states, s)
	}
	return combineStates(states), nil
}

// tokenLife is how long a bearer token of ours is good, in seconds.
const tokenLife = 120

// request is a request with a token for it and no other.
func (k CoinbaseKey) request(method, base, path string) (*login.Request, error) {
	token, err := k.token(method + " " + strings.TrimPrefix(strings.TrimPrefix(base, "https://"), "http://") + path)
	if err != nil {
		return nil, err
	}
	return &login.Request{Method: method, URL: base + path, Header: append(requestFields(), login.HeaderField{Name: "Authorization", Value: append([]byte("Bearer "), token...)})}, nil
}

// errKey is of a key that Coinbase would not have given out. It keeps no activity: who replays a history cannot see the key.
var errKey = fault.New(fault.Unavailable, "the on-ramp credential's private key is neither PEM of a P-256 key nor Base64 of an Ed25519 key: update it")

// token is the bearer token for a request.
func (k CoinbaseKey) token(uri string) (token []byte, err error) {
	nonce := make([]byte, 16)
	if _, err := io.ReadFull(k.Rand, nonce); err != nil {
		return nil, err
	}
	err = errKey
	k.Private.Use(func(b []byte) {
		var key crypto.Signer
		if key, err = readKey(b); err != nil {
			return
		}
		token, err = sign(key, k.Rand, map[string]any{"typ": "JWT", "kid": k.ID, "nonce": hex.EncodeToString(nonce)},
			map[string]any{"iss": "cdp", "sub": k.ID, "nbf": k.NowMs / 1000, "exp": k.NowMs/1000 + tokenLife, "uri": uri})
	})
	return token, err
}

// readKey reads a private key as Coinbase gives it out. Line ends may have become \n in a file of JSON.
func readKey(text []byte) (crypto.Signer, error) {
	text = bytes.TrimSpace(text)
	if !bytes.HasPrefix(text, []byte("-----BEGIN ")) {
		raw := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
		n, err := base64.StdEncoding.Decode(raw, text)
		if err != nil || n != ed25519.PrivateKeySize {
			return nil, errKey
		}
		key := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
		if !bytes.Equal(key, raw[:n]) {
			return nil, errKey // a public half that is another key's would give the private one away
		}
		return key, nil
	}
	block, _ := pem.Decode(bytes.ReplaceAll(text, []byte(`\n`), []byte("\n")))
	if block == nil {
		return nil, errKey
	}
	var key any
	var err error
	if block.Type == "EC PRIVATE KEY" {
		key, err = x509.ParseECPrivateKey(block.Bytes)
	} else {
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		if err == nil && k.Curve == elliptic.P256() {
			return k, nil
		}
	case ed25519.PrivateKey:
		return k, err
	}
	return nil, errKey
}

// sign makes a JSON Web Token.
func sign(key crypto.Signer, rand io.Reader, head, claims map[string]any) ([]byte, error) {
	ec, isEC := key.(*ecdsa.PrivateKey)
	head["alg"] = "EdDSA"
	if isEC {
		head["alg"] = "ES256"
	}
	a, err1 := json.Marshal(head)
	b, err2 := json.Marshal(claims)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	text := slices.Concat(base64.RawURLEncoding.AppendEncode(nil, a), []byte("."), base64.RawURLEncoding.AppendEncode(nil, b))
	var signature []byte
	var err error
	if isEC {
		var made p256.Signature
		made, err = p256.Sign(ec, sha256.Sum256(text))
		signature = made[:]
	} else {
		signature, err = key.Sign(rand, text, crypto.Hash(0))
	}
	if err != nil {
		return nil, err
	}
	return base64.RawURLEncoding.AppendEncode(append(text, '.'), signature), nil
}
