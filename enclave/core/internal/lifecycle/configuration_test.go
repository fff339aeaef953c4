package lifecycle_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"cloister/enclave/core/internal/lifecycle"
)

func TestConfigurationIsTheManifests(t *testing.T) {
	e := lifecycle.New(lifecycle.Config{Simulator: true})
	one, other := []byte(`{"salt":"1"}`), []byte(`{"salt":"2"}`)
	hash := func(b []byte) string { h := sha256.Sum256(b); return hex.EncodeToString(h[:]) }
	for name, x := range map[string]struct {
		hash string
		raw  []byte
		good bool
	}{
		"none":                  {"", nil, true},
		"the one":               {hash(one), one, true},
		"another":               {hash(one), other, false},
		"withheld":              {hash(one), nil, false},
		"one that is not named": {"", one, false},
		"a blank more":          {hash(one), append([]byte(" "), one...), false},
		"the empty one's hash":  {hash(nil), nil, false},
		"no document":           {hash([]byte("x")), []byte("x"), false},
		"too long":              {hash(make([]byte, 1<<20)), make([]byte, 1<<20), false},
	} {
		if err := e.Configuration(x.hash, x.raw); (err == nil) != x.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}
