package login

import (
	"encoding/base64"
	"errors"
	"math/big"
	"strconv"
	"strings"
	"unicode"

	"cloister/enclave/internal/strictjson"
)

// base64URL has no padding and refuses bits that are left over.
var base64URL = base64.RawURLEncoding.Strict()

// jws is a token in three parts. Nothing in it is proven.
type jws struct {
	signed    []byte // the signed text
	alg, kid  string
	claims    object
	signature []byte
}

var errToken = errors.New("not a signed token")

// parseJWS reads a token. Header parameters that name or bring keys are ignored; one that changes
// the meaning of the rest is refused.
func parseJWS(text string) (*jws, error) {
	t, payload, err := parseParts(text)
	if err != nil {
		return nil, err
	}
	var ok bool
	if t.claims, ok = parseObject(payload, tokenLimits); !ok {
		return nil, errors.New("claims are malformed")
	}
	return t, nil
}

// parseParts reads all but the claims.
func parseParts(text string) (t *jws, payload []byte, err error) {
	if len(text) > MaxToken {
		return nil, nil, errors.New("too long")
	}
	parts := strings.SplitN(text, ".", 4)
	// The library skips line breaks.
	if len(parts) != 3 || strings.ContainsAny(text, "\r\n") {
		return nil, nil, errToken
	}
	header, err1 := base64URL.DecodeString(parts[0])
	payload, err2 := base64URL.DecodeString(parts[1])
	signature, err3 := base64URL.DecodeString(parts[2])
	if err1 != nil || err2 != nil || err3 != nil {
		return nil, nil, errToken
	}
	h, ok := parseObject(header, tokenLimits)
	if !ok {
		return nil, nil, errors.New("header is malformed")
	}
	t = &jws{signed: []byte(text[:strings.LastIndexByte(text, '.')]), signature: signature}
	typ, ok := h.text("typ")
	if !ok || h.hasMember("typ") && !strings.EqualFold(typ, "JWT") {
		return nil, nil, errors.New("header has another typ than JWT")
	}
	for _, name := range []string{"crit", "b64", "zip"} {
		if _, there := h[name]; there {
			return nil, nil, errors.New("header has the parameter " + name)
		}
	}
	if t.alg, ok = h.text("alg"); !ok || !h.hasMember("alg") {
		return nil, nil, errors.New("header has no alg")
	}
	if t.kid, ok = h.keyID(); !ok {
		return nil, nil, errors.New("header has a bad kid")
	}
	return t, payload, nil
}

// object is a JSON object whose members may have any name. A member that is null counts as
// absent.
type object map[string]strictjson.Raw

// parseObject reads an object. At no depth may a member stand twice, under any spelling.
func parseObject(raw []byte, l strictjson.Limits) (object, bool) {
	var whole strictjson.Raw
	if strictjson.Decode(raw, &whole, strictjson.Within(l)) != nil {
		return nil, false
	}
	return whole.Object()
}

func (o object) hasMember(name string) bool { return len(o[name]) > 0 && string(o[name]) != "null" }

// text is a member that must be a string if it is there, empty if not.
func (o object) text(name string) (s string, ok bool) {
	if !o.hasMember(name) {
		return "", true
	}
	return o[name].Text()
}

// readTexts reads several members like text.
func (o object) readTexts(into map[string]*string) bool {
	for name, s := range into {
		var ok bool
		if *s, ok = o.text(name); !ok {
			return false
		}
	}
	return true
}

// name is a member that must be there: 1 to most bytes without control characters.
func (o object) name(name string, most int) (s string, ok bool) {
	s, ok = o.text(name)
	if !ok || s == "" || len(s) > most || strings.ContainsFunc(s, unicode.IsControl) {
		return "", false
	}
	return s, true
}

// keyID is the member kid, empty if it is not there.
func (o object) keyID() (kid string, ok bool) {
	kid, ok = o.text("kid")
	return kid, ok && len(kid) <= maxKeyID && (kid != "" || !o.hasMember("kid"))
}

// seconds is a member that must be there, a number of seconds in any form of JSON's, of at most 40 characters, in
// milliseconds. What is below a millisecond is cut off; beyond the year 33658 there is no time.
func (o object) seconds(name string) (ms uint64, ok bool) {
	text := string(o[name])
	if len(text) > 40 || text == "" || text[0] < '0' || text[0] > '9' { // no number, or before 1970
		return 0, false
	}
	if _, e, found := strings.Cut(strings.ToLower(text), "e"); found {
		if exponent, err := strconv.Atoi(e); err != nil || exponent < -30 || exponent > 30 { // bounds the arithmetic
			return 0, false
		}
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok || r.Cmp(maxSeconds) >= 0 {
		return 0, false
	}
	r.Mul(r, big.NewRat(1000, 1))
	return new(big.Int).Quo(r.Num(), r.Denom()).Uint64(), true
}

var maxSeconds = big.NewRat(1_000_000_000_000, 1)

// wholeSeconds is seconds without a fraction, as our own tokens have it.
func (o object) wholeSeconds(name string) (ms uint64, ok bool) {
	ms, ok = o.seconds(name)
	return ms, ok && !strings.ContainsAny(string(o[name]), ".eE")
}
