package keys_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/secret/secrettest"
)

const visible = "THE-VISIBLE-SECRET-OF-32-BYTES.."

func mustSecret(t testing.TB, b []byte) secret.Secret {
	t.Helper()
	s, err := secret.From(bytes.Clone(b))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// leaks reports whether text shows b in a way that fmt or an encoder would.
func leaks(text string, b []byte) bool {
	forms := []string{string(b), hex.EncodeToString(b), strings.ToUpper(hex.EncodeToString(b)),
		base64.StdEncoding.EncodeToString(b)[:40], strings.Trim(fmt.Sprint(b), "[]"), fmt.Sprintf("%o", b), fmt.Sprintf("%b", b)}
	var sharp []string
	for _, c := range b {
		sharp = append(sharp, fmt.Sprintf("%#x", c))
	}
	for _, f := range append(forms, strings.Join(sharp, ", ")) {
		if strings.Contains(text, strings.Trim(f, "[]")) {
			return true
		}
	}
	return false
}

func TestClone(t *testing.T) {
	s := secrettest.Of([]byte(visible))
	clone := s.Clone()
	s.Wipe()
	if string(secrettest.Bytes(clone)) != visible {
		t.Error("the clone went with the secret")
	}
	if again := s.Clone(); again.Len() != 0 {
		t.Error("the clone of a wiped secret holds something")
	}
	var zero secret.Secret
	if zero.Clone().Len() != 0 {
		t.Error("the clone of nothing holds something")
	}
}

func TestSecretIsNotPrinted(t *testing.T) {
	type inner struct{ hidden secret.Secret }
	type outer struct {
		in     inner
		Open   secret.Secret
		list   []secret.Secret
		byName map[string]secret.Secret
		ptr    *secret.Secret
		key    keys.PrivateKey
		Key    *keys.PrivateKey
		wallet *keys.Wallet
		any    any
	}
	s := mustSecret(t, []byte(visible))
	k, err := keys.PrivateKeyFromSecret(chain.Secp256k1, s)
	if err != nil {
		t.Fatal(err)
	}
	w, err := keys.OpenWallet(s, secret.Secret{})
	if err != nil {
		t.Fatal(err)
	}
	o := outer{inner{s}, s, []secret.Secret{s}, map[string]secret.Secret{"a": s}, &s, *k, k, w, s}
	seed, _ := hex.DecodeString(w.SeedHex())
	n := 0
	for _, v := range []any{s, &s, o, &o, o.in, o.list, k, *k, w, *w, fmt.Errorf("wrapped: %v", s)} {
		for _, verb := range strings.Split("v +v #v s q x X d o O b c U e p T t g # 5s 08x", " ") {
			text := fmt.Sprintf("%"+verb, v)
			if leaks(text, []byte(visible)) || leaks(text, seed) {
				t.Errorf("%%%s of %T shows the secret", verb, v)
			}
			n++
		}
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "v", v)
		if leaks(log.String(), []byte(visible)) {
			t.Errorf("a log of %T shows the secret", v)
		}
	}
	if !leaks(fmt.Sprintf("%x", visible), []byte(visible)) || !leaks(fmt.Sprint([]byte(visible)), []byte(visible)) {
		t.Error("the check itself finds nothing")
	}
	t.Logf("%d renderings", n)
}

func TestSecretIsNotEncoded(t *testing.T) {
	s := mustSecret(t, []byte(visible))
	k, err := keys.PrivateKeyFromSecret(chain.Ed25519, s)
	if err != nil {
		t.Fatal(err)
	}
	type encoders interface {
		MarshalJSON() ([]byte, error)
		MarshalText() ([]byte, error)
		MarshalBinary() ([]byte, error)
		MarshalCBOR() ([]byte, error)
		GobEncode() ([]byte, error)
	}
	for _, v := range []encoders{s, k, *k} {
		for i, f := range []func() ([]byte, error){v.MarshalJSON, v.MarshalText, v.MarshalBinary, v.MarshalCBOR, v.GobEncode} {
			if b, err := f(); err == nil || b != nil {
				t.Errorf("encoder %d of %T gave %d bytes", i, v, len(b))
			}
		}
		if _, err := json.Marshal(map[string]any{"a": v}); err == nil {
			t.Errorf("%T went into JSON", v)
		}
		if err := gob.NewEncoder(io.Discard).Encode(v); err == nil {
			t.Errorf("%T went into gob", v)
		}
	}
}

func TestSecretOwnership(t *testing.T) {
	b := []byte(visible)
	s, err := secret.From(b)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, make([]byte, len(b))) {
		t.Error("SecretFrom left the caller's bytes")
	}
	if got := secrettest.Bytes(s); string(got) != visible {
		t.Error("the secret is not what was taken over")
	}
	copied := s
	s.Wipe()
	s.Wipe()
	if copied.Len() != 0 || secrettest.Bytes(copied) != nil {
		t.Error("a copy survived wiping")
	}
	copied.Use(func(b []byte) {
		if b != nil {
			t.Error("a wiped secret gave bytes")
		}
	})
	var zero secret.Secret
	zero.Wipe()
	if zero.Len() != 0 || secrettest.Bytes(zero) != nil {
		t.Error("the zero secret holds something")
	}
	if w, err := keys.OpenWallet(s, zero); err == nil || w != nil {
		t.Error("a wallet was opened from a wiped secret")
	}
	if _, err := keys.PrivateKeyFromSecret(chain.Ed25519, s); err == nil {
		t.Error("a key was made from a wiped secret")
	}
}

func TestSecretSizes(t *testing.T) {
	big := bytes.Repeat([]byte{7}, secret.MaxSize+1)
	if _, err := secret.From(big); err == nil || big[0] != 0 {
		t.Error("a secret too large was taken, or not wiped")
	}
	for _, n := range []int{-1, 0, secret.MaxSize + 1} {
		if _, err := secret.New(rand.Reader, n); err == nil {
			t.Errorf("%d bytes were drawn", n)
		}
	}
	if _, err := secret.New(bytes.NewReader(make([]byte, 31)), 32); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("short randomness: %v", err)
	}
}

// TestWipeWhileSigning holds that a key wiped at the same time either signs
// properly or refuses.
func TestWipeWhileSigning(t *testing.T) {
	for _, c := range []chain.Curve{chain.Secp256k1, chain.P256, chain.Ed25519} {
		s := mustSecret(t, []byte(visible))
		message := bytes.Repeat([]byte{9}, 32)
		for range 50 {
			k, err := keys.PrivateKeyFromSecret(c, s)
			if err != nil {
				t.Fatal(err)
			}
			want, err := keys.SignBare(k, message)
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					if got, err := keys.SignBare(k, message); err == nil && got != want {
						t.Error("a signature with a half-wiped key")
					}
				})
			}
			wg.Go(k.Wipe)
			wg.Wait()
			if _, err := keys.SignBare(k, message); err == nil {
				t.Fatal("a wiped key signed")
			}
			if _, err := k.PrivateSecret(); err == nil {
				t.Fatal("a wiped key gave its bytes")
			}
		}
	}
}
