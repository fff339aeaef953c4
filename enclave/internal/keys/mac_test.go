package keys_test

import (
	"crypto/hmac"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"cloister/enclave/internal/keys"
)

func load(t testing.TB, file string, v any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatal(err)
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type wycheproof struct {
	NumberOfTests int
	TestGroups    []struct {
		TagSize int
		Tests   []struct {
			TcID                    int
			Key, Msg, Tag           string
			Password, Salt, Dk      string
			IterationCount, DkLen   int
			Result, Comment, Ignore string
		}
	}
}

func TestWycheproofMAC(t *testing.T) {
	for file, mac := range map[string]func(key, m []byte) []byte{"hmac_sha512": keys.MAC512} {
		var f wycheproof
		load(t, "testdata/"+file+"_test.json", &f)
		valid, refused := 0, 0
		for _, g := range f.TestGroups {
			for _, c := range g.Tests {
				tag := unhex(t, c.Tag)
				got := mac(unhex(t, c.Key), unhex(t, c.Msg))[:g.TagSize/8]
				if ok := hmac.Equal(got, tag); ok != (c.Result == "valid") {
					t.Errorf("%s %d (%s): %v, want %s", file, c.TcID, c.Comment, ok, c.Result)
				}
				if c.Result == "valid" {
					valid++
					tag[len(tag)/2] ^= 1
					if hmac.Equal(got, tag) {
						t.Errorf("%s %d: a flipped tag is equal", file, c.TcID)
					}
				} else {
					refused++
				}
			}
		}
		if valid+refused != f.NumberOfTests || valid == 0 || refused == 0 {
			t.Errorf("%s: %d+%d of %d cases", file, valid, refused, f.NumberOfTests)
		}
		t.Logf("%s: %d valid, %d refused, %d flipped refused", file, valid, refused, valid)
	}
}

func TestWycheproofPBKDF2(t *testing.T) {
	var f wycheproof
	load(t, "testdata/pbkdf2_hmacsha512_test.json", &f)
	n := 0
	for _, g := range f.TestGroups {
		for _, c := range g.Tests {
			password := unhex(t, c.Password)
			out := make([]byte, c.DkLen)
			err := keys.Stretch(out, password, unhex(t, c.Salt), c.IterationCount)
			if got := hex.EncodeToString(out); err != nil || (got == c.Dk) != (c.Result == "valid") {
				t.Errorf("%d (%s): wrong, %v", c.TcID, c.Comment, err)
			}
			keys.Stretch(out, append(password, 1), unhex(t, c.Salt), c.IterationCount)
			if hex.EncodeToString(out) == c.Dk {
				t.Errorf("%d: another password gives the same key", c.TcID)
			}
			n++
		}
	}
	if n != f.NumberOfTests || n == 0 {
		t.Errorf("%d of %d cases", n, f.NumberOfTests)
	}
	t.Logf("pbkdf2_hmacsha512: %d cases, as many altered", n)
}
