package outward

import (
	"encoding/json"

	"cloister/enclave/internal/strictjson"
)

// documentLimits bound what an answer's JSON can blow up to; the answer's bytes
// are bounded already.
var documentLimits = strictjson.Limits{Depth: 32, Items: 1000, Members: 1000, Values: 20_000}

// members are those of a JSON object, by their exact names.
type members map[string]json.RawMessage

// object reads an answer whose members are not ours to name. It refuses equal
// names, invalid UTF-8 and whatever else could be read in two ways; then the
// standard library reads it.
func object(b []byte) (members, error) {
	var whole struct {
		Document strictjson.Raw `json:"document"`
	}
	wrapped := make([]byte, 0, len(b)+len(`{"document":}`))
	wrapped = append(append(append(wrapped, `{"document":`...), b...), '}')
	err := strictjson.Decode(wrapped, &whole, strictjson.Within(documentLimits))
	var m members
	if err == nil {
		err = json.Unmarshal(whole.Document, &m)
	}
	if err != nil {
		return nil, failed(Garbled, "the answer is no JSON object", err)
	}
	return m, nil
}

// text is a member that is a string; a missing one is none.
func (m members) text(name string) (s string, ok bool) {
	raw := m[name]
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}
