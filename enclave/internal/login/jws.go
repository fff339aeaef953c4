package login

import (
	"encoding/base64"
	"strings"
	"unicode"

	"cloister/enclave/internal/strictjson"
)

// base64URL has no padding and refuses bits that are left over.
var base64URL = base64.RawURLEncoding.Strict()

// jws is a token in three parts. Nothing of it is proven.
type jws struct {
	signed    []byte // what the signature is over
	alg, kid  string
	claims    object
	signature []byte
}

const errToken = refusal("not a signed token")

// parseJWS reads a token. Members of the header that name or bring keys are not
// looked at; one that changes what the rest means is refused.
func parseJWS(text string) (*jws, error) {
	t, payload, err := parseParts(text)
	if err != nil {
		return nil, err
	}
	var ok bool
	if t.claims, ok = parseObject(payload, tokenLimits); !ok {
		return nil, refusal("claims are malformed")
	}
	return t, nil
}

// parseParts reads all but the claims.
func parseParts(text string) (t *jws, payload []byte, err error) {
	if len(text) > MaxToken {
		return nil, nil, refusal("too long")
	}
	head, rest, ok := strings.Cut(text, ".")
	body, sig, ok2 := strings.Cut(rest, ".")
	// The library skips line breaks.
	if !ok || !ok2 || strings.ContainsAny(text, "\r\n") {
		return nil, nil, errToken
	}
	header, err1 := base64URL.DecodeString(head)
	payload, err2 := base64URL.DecodeString(body)
	signature, err3 := base64URL.DecodeString(sig)
	if err1 != nil || err2 != nil || err3 != nil {
		return nil, nil, errToken
	}
	h, ok := parseObject(header, tokenLimits)
	if !ok {
		return nil, nil, refusal("header is malformed")
	}
	t = &jws{signed: []byte(text[:len(head)+1+len(body)]), signature: signature}
	typ, there, ok := h.text("typ")
	if !ok || there && !strings.EqualFold(typ, "JWT") {
		return nil, nil, refusal("header has another typ than JWT")
	}
	for _, name := range []string{"crit", "b64", "zip"} {
		if _, there := h[name]; there {
			return nil, nil, refusal("header has the parameter " + name)
		}
	}
	if t.alg, there, ok = h.text("alg"); !there || !ok {
		return nil, nil, refusal("header has no alg")
	}
	if t.kid, there, ok = h.text("kid"); !ok || there && (t.kid == "" || len(t.kid) > maxKeyID) {
		return nil, nil, refusal("header has a bad kid")
	}
	return t, payload, nil
}

// object is a JSON object whose members may have any name. As everywhere, null is
// as good as absent.
type object map[string]strictjson.Raw

// parseObject reads an object. No member stands in it twice, at any depth and
// under any spelling.
func parseObject(raw []byte, l strictjson.Limits) (object, bool) {
	var whole strictjson.Raw
	if strictjson.Decode(raw, &whole, strictjson.Within(l)) != nil {
		return nil, false
	}
	return whole.Object()
}

func (o object) member(name string) (raw strictjson.Raw, there bool) {
	raw = o[name]
	return raw, len(raw) > 0 && raw[0] != 'n'
}

// text is a member that must be a string if it is there.
func (o object) text(name string) (s string, there, ok bool) {
	raw, there := o.member(name)
	if !there {
		return "", false, true
	}
	s, ok = raw.Text()
	return s, true, ok
}

// name is a member that must be there, a string of 1 to most bytes without control
// characters.
func (o object) name(name string, most int) (s string, ok bool) {
	s, _, ok = o.text(name)
	if !ok || s == "" || len(s) > most || strings.ContainsFunc(s, unicode.IsControl) {
		return "", false
	}
	return s, true
}

// array is a member that must be an array if it is there.
func (o object) array(name string) (items []strictjson.Raw, there, ok bool) {
	raw, there := o.member(name)
	if !there {
		return nil, false, true
	}
	items, ok = raw.Array()
	return items, true, ok
}

// seconds is a member that must be a number of seconds, not even null, if it is
// there, and answers milliseconds. Fractions are taken, as some issuers write them,
// exponents not.
func (o object) seconds(name string) (ms uint64, there, ok bool) {
	raw, there := o[name]
	if !there {
		return 0, false, true
	}
	whole, fraction, _ := strings.Cut(string(raw), ".")
	if len(whole) == 0 || len(whole) > 12 || len(fraction) > 20 {
		return 0, true, false
	}
	for _, c := range []byte(whole) {
		if c < '0' || c > '9' {
			return 0, true, false
		}
		ms = ms*10 + uint64(c-'0')
	}
	ms *= 1000
	unit := uint64(100)
	for _, c := range []byte(fraction) {
		if c < '0' || c > '9' { // an exponent
			return 0, true, false
		}
		ms += uint64(c-'0') * unit
		unit /= 10
	}
	return ms, true, true
}
