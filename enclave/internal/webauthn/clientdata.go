package webauthn

import (
	"bytes"
	"encoding/base64"
	"slices"

	"cloister/enclave/internal/strictjson"
)

// clientData is the part of clientDataJSON that is judged. crossOrigin is not: a page itself
// decides who may frame it.
type clientData struct{ typ, challenge, origin string }

// byteOrderMark may stand before the JSON: WebAuthn has it read by the UTF-8 decoding of browsers, which drops one.
var byteOrderMark = []byte("\ufeff")

var clientLimits = strictjson.Limits{Depth: 7, Items: 64, Members: 64, Values: 256}

func parseClientData(raw []byte) (*clientData, error) {
	if len(raw) > MaxClientDataJSON {
		return nil, Refusal("clientDataJSON is too long")
	}
	var members map[string]strictjson.Raw
	if strictjson.Decode(bytes.TrimPrefix(raw, byteOrderMark), &members, strictjson.Within(clientLimits)) != nil {
		return nil, Refusal("clientDataJSON is malformed")
	}
	c := new(clientData)
	for _, m := range []struct {
		name string
		into *string
	}{{"type", &c.typ}, {"challenge", &c.challenge}, {"origin", &c.origin}} {
		var ok bool
		if *m.into, ok = members[m.name].Text(); !ok {
			return nil, Refusal("clientDataJSON has no " + m.name)
		}
	}
	if !slices.Contains([]string{"", "true", "false"}, string(members["crossOrigin"])) {
		return nil, Refusal("clientDataJSON is malformed")
	}
	return c, nil
}

// hasChallenge tells whether the client's challenge is this one.
func (c *clientData) hasChallenge(challenge []byte) bool {
	got, ok := Text(c.challenge, MaxClientDataJSON)
	return ok && len(challenge) > 0 && bytes.Equal(got, challenge)
}

// encodings by whether the alphabet is the standard one, and whether padded.
var encodings = map[bool]map[bool]*base64.Encoding{
	false: {false: base64.RawURLEncoding.Strict(), true: base64.URLEncoding.Strict()},
	true:  {false: base64.RawStdEncoding.Strict(), true: base64.StdEncoding.Strict()},
}
