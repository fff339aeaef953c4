package login_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"cloister/enclave/internal/login"
)

// Beside each benchmark is the bare cryptography of it.

func BenchmarkIssueSession(b *testing.B) {
	s, in := signer(b, "11"), session()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := login.IssueSession(s, in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkIssueSessionBare(b *testing.B) {
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), unhex(b, strings.Repeat("11", 32)))
	must(b, err)
	digest := sha256.Sum256([]byte("x"))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := key.Sign(nil, digest[:], crypto.SHA256); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifySession(b *testing.B) {
	s := signer(b, "11")
	text, err := login.IssueSession(s, session())
	must(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := login.VerifySession(text, s.Public(), nowMs); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifySessionBare(b *testing.B) {
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), unhex(b, strings.Repeat("11", 32)))
	must(b, err)
	digest := sha256.Sum256([]byte("x"))
	sig, err := key.Sign(nil, digest[:], crypto.SHA256)
	must(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if !ecdsa.VerifyASN1(&key.PublicKey, digest[:], sig) {
			b.Fatal("no")
		}
	}
}

func BenchmarkVerifyVerificationToken(b *testing.B) {
	s := signer(b, "11")
	text, err := login.IssueVerificationToken(s, verificationToken())
	must(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := login.VerifyVerificationToken("f", text, login.TokenKeys{Token: s.Public()}, nowMs); err != nil {
			b.Fatal(err)
		}
	}
}

// A client's key costs a square root besides.
func BenchmarkClientSignature(b *testing.B) {
	by := signer(b, "44")
	token := verificationToken()
	token.PublicKey = by.Public().String()
	s := clientSigned(b, by, `{"login":{"publicKey":"`+token.PublicKey+`"},"tokenId":"`+tokenID+`","type":"USAGE_TYPE_LOGIN"}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.VerifyLogin("f", token, token.PublicKey); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkIdentity(b *testing.B, name string) {
	var f struct {
		NowMs   uint64 `json:"now_ms"`
		Keys    json.RawMessage
		Vectors []struct{ Name, Token string }
	}
	load(b, "jose.json", &f)
	set, err := login.ParseKeySet("f", f.Keys)
	must(b, err)
	for _, v := range f.Vectors {
		if v.Name != name {
			continue
		}
		b.ReportAllocs()
		for b.Loop() {
			u, err := login.ParseIdentityToken("f", v.Token)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := u.Verify(set, f.NowMs); err != nil {
				b.Fatal(err)
			}
		}
		return
	}
	b.Fatal(name)
}

func BenchmarkIdentityRS256(b *testing.B) { benchmarkIdentity(b, "good RS256 rsa") }
func BenchmarkIdentityPS256(b *testing.B) { benchmarkIdentity(b, "good PS256 rsa") }
func BenchmarkIdentityES256(b *testing.B) { benchmarkIdentity(b, "good ES256 ec") }
func BenchmarkIdentityEdDSA(b *testing.B) { benchmarkIdentity(b, "good EdDSA ed") }

func BenchmarkRS256Bare(b *testing.B) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(b, err)
	digest := sha256.Sum256([]byte("x"))
	sig, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, digest[:])
	must(b, err)
	for b.Loop() {
		if err := rsa.VerifyPKCS1v15(&key.PublicKey, crypto.SHA256, digest[:], sig); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEdDSABare(b *testing.B) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	must(b, err)
	message := []byte(strings.Repeat("x", 300))
	sig := ed25519.Sign(key, message)
	for b.Loop() {
		if !ed25519.Verify(public, message, sig) {
			b.Fatal("no")
		}
	}
}

// The worst that an issuer may hand over: 100 keys.
func BenchmarkParseKeySet(b *testing.B) {
	key := strings.TrimSuffix(strings.TrimPrefix(string(login.MarshalKeySet(signer(b, "11").Public())), `{"keys":[`), `]}`)
	raw := []byte(`{"keys":[` + strings.TrimSuffix(strings.Repeat(key+",", login.MaxKeys), ",") + `]}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := login.ParseKeySet("f", raw); err != nil {
			b.Fatal(err)
		}
	}
}

// The worst token that is refused after a signature was verified: as long as may be,
// under the largest key.
func BenchmarkWorstToken(b *testing.B) {
	set, err := login.ParseKeySet("f", []byte(jwk(`"kty":"RSA","e":"AQAB","n":"`+modulus(8192)+`"`)))
	must(b, err)
	encode := base64.RawURLEncoding.EncodeToString
	sig := make([]byte, 1024)
	sig[1023] = 2
	text := encode([]byte(`{"alg":"RS256"}`)) + "." + encode([]byte(`{"iss":"i","x":"`+strings.Repeat("y", 10_000)+`"}`)) + "." + encode(sig)
	b.ReportAllocs()
	for b.Loop() {
		u, err := login.ParseIdentityToken("f", text)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := u.Verify(set, nowMs); err == nil {
			b.Fatal("taken")
		}
	}
}

func BenchmarkPasscode(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		p, err := login.NewPasscode(rand.Reader, login.DefaultPasscode, true)
		if err != nil || !p.Matches(string(p)) {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpenClientSecret(b *testing.B) {
	v := vectorNamed(b, "oauth2_client_secret")
	private := mustSecret(b, unhex(b, v["enclave_private_key"]))
	b.ReportAllocs()
	for b.Loop() {
		s, err := login.OpenClientSecret("f", v["encrypted_hex"], private)
		if err != nil {
			b.Fatal(err)
		}
		s.Wipe()
	}
}

func BenchmarkMail(b *testing.B) {
	m := aMail(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Bytes(); err != nil {
			b.Fatal(err)
		}
	}
}
