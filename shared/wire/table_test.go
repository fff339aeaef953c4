package wire_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"cloister/shared/wire"
)

// signTable is what an enclave does.
func signTable(t testing.TB, text string) wire.SignedTable {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256([]byte("cloister ranges 1\n" + text))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	return wire.SignedTable{Table: text, PublicKey: hex.EncodeToString(append(make([]byte, 65), public...)), Signature: hex.EncodeToString(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))}
}

func TestParseTable(t *testing.T) {
	const good = `{"format":1,"deployment":"aa","boot":"bb","timeMs":5,"ranges":4,"owned":[{"range":0,"epoch":3,"sinceMs":4,"handed":true},{"range":3,"epoch":1,"sinceMs":2,"handed":false}]}`
	parse := func(s wire.SignedTable) (*wire.Table, error) {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		table, _, err := wire.ParseTable(b)
		return table, err
	}
	s := signTable(t, good)
	table, err := parse(s)
	if err != nil || len(table.Owned) != 2 || table.Owned[1] != (wire.TableRange{Range: 3, Epoch: 1, SinceMs: 2}) || !table.Owned[0].Handed {
		t.Fatalf("%+v, %v", table, err)
	}
	for what, bad := range map[string]func(*wire.SignedTable){
		"another text":      func(s *wire.SignedTable) { s.Table = strings.Replace(good, `"epoch":3`, `"epoch":4`, 1) },
		"another key":       func(s *wire.SignedTable) { s.PublicKey = signTable(t, good).PublicKey },
		"another signature": func(s *wire.SignedTable) { s.Signature = signTable(t, good).Signature },
		"no signature":      func(s *wire.SignedTable) { s.Signature = "" },
		"a short signature": func(s *wire.SignedTable) { s.Signature = s.Signature[:126] },
		"no key":            func(s *wire.SignedTable) { s.PublicKey = "" },
		"no point":          func(s *wire.SignedTable) { s.PublicKey = strings.Repeat("04", 130) },
		"another format":    func(s *wire.SignedTable) { *s = signTable(t, strings.Replace(good, `"format":1`, `"format":2`, 1)) },
		"no ranges":         func(s *wire.SignedTable) { *s = signTable(t, strings.Replace(good, `"ranges":4`, `"ranges":0`, 1)) },
		"too many ranges":   func(s *wire.SignedTable) { *s = signTable(t, strings.Replace(good, `"ranges":4`, `"ranges":65`, 1)) },
		"a range too many":  func(s *wire.SignedTable) { *s = signTable(t, strings.Replace(good, `"ranges":4`, `"ranges":3`, 1)) },
		"a range twice":     func(s *wire.SignedTable) { *s = signTable(t, strings.Replace(good, `"range":3`, `"range":0`, 1)) },
		"an unknown member": func(s *wire.SignedTable) {
			*s = signTable(t, strings.Replace(good, `"timeMs"`, `"more":1,"timeMs"`, 1))
		},
		"a member twice": func(s *wire.SignedTable) {
			*s = signTable(t, strings.Replace(good, `"ranges":4`, `"ranges":1,"ranges":4`, 1))
		},
		"other letters":    func(s *wire.SignedTable) { *s = signTable(t, strings.Replace(good, `"handed"`, `"Handed"`, 1)) },
		"a member missing": func(s *wire.SignedTable) { *s = signTable(t, strings.Replace(good, `,"sinceMs":4`, "", 1)) },
		"spaces":           func(s *wire.SignedTable) { *s = signTable(t, good+" ") },
		"no table":         func(s *wire.SignedTable) { *s = signTable(t, "[]") },
	} {
		changed := s
		bad(&changed)
		if _, err := parse(changed); err == nil {
			t.Errorf("%s: parses", what)
		}
	}
	outer := func(old, new string) string {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Replace(string(b), old, new, 1)
	}
	for _, b := range []string{outer(`{`, `{"more":1,`), outer(`"publicKey"`, `"PublicKey"`), outer(`{`, `{"table":"x",`), outer(`{`, `{ `), outer(`{`, ` {`), outer("", "") + "\n", "", "{}", "null", strings.Repeat(" ", wire.MaxObject+1)} {
		if _, _, err := wire.ParseTable([]byte(b)); err == nil {
			t.Errorf("%q parses", b[:min(len(b), 10)])
		}
	}
}

func FuzzParseTable(f *testing.F) {
	b, err := json.Marshal(signTable(f, `{"format":1,"deployment":"","boot":"","timeMs":1,"ranges":4,"owned":[{"range":0,"epoch":3,"sinceMs":1,"handed":false}]}`))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		table, signed, err := wire.ParseTable(b)
		if (err == nil) != (table != nil) || (err == nil) != (signed != nil) {
			t.Fatal("neither a table nor a refusal")
		}
	})
}
