package webauthn

import (
	"bytes"
	"encoding/base64"
	"encoding/json"

	"cloister/enclave/internal/strictjson"
)

// clientData is what matters of clientDataJSON. Whether the page stood in a frame
// of another origin does not: who may frame it is the page's to say.
type clientData struct{ typ, challenge, origin string }

var clientLimits = strictjson.Limits{Depth: 8, Items: 64, Members: 64, Values: 256}

func parseClientData(raw []byte) (*clientData, error) {
	if len(raw) > MaxClientDataJSON {
		return nil, Refusal("clientDataJSON is too long")
	}
	// As the value of a member, so that members may have any name.
	var outer struct {
		Data map[string]strictjson.Raw `json:"data"`
	}
	wrapped := make([]byte, 0, len(raw)+len(`{"data":}`))
	wrapped = append(append(append(wrapped, `{"data":`...), raw...), '}')
	if strictjson.Decode(wrapped, &outer, strictjson.Within(clientLimits)) != nil {
		return nil, Refusal("clientDataJSON is malformed")
	}
	c := new(clientData)
	for _, m := range []struct {
		name string
		into *string
	}{{"type", &c.typ}, {"challenge", &c.challenge}, {"origin", &c.origin}} {
		text := outer.Data[m.name]
		// encoding/json would leave null out, and takes what strictjson took.
		if len(text) == 0 || text[0] != '"' || json.Unmarshal(text, m.into) != nil {
			return nil, Refusal("clientDataJSON has no " + m.name)
		}
	}
	switch string(outer.Data["crossOrigin"]) {
	case "", "true", "false":
		return c, nil
	}
	return nil, Refusal("clientDataJSON is malformed")
}

// answers tells whether the client signed this challenge.
func (c *clientData) answers(challenge []byte) bool {
	got, ok := Text(c.challenge, MaxClientDataJSON)
	return ok && len(challenge) > 0 && bytes.Equal(got, challenge)
}

// encodings by whether the alphabet is the standard one, and whether padded.
var encodings = map[bool]map[bool]*base64.Encoding{
	false: {false: base64.RawURLEncoding.Strict(), true: base64.URLEncoding.Strict()},
	true:  {false: base64.RawStdEncoding.Strict(), true: base64.StdEncoding.Strict()},
}
