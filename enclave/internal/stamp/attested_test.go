package stamp_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/stamp"
)

// bound vouches for one key.
type bound string

func (b bound) BoundTo(publicKey string) bool { return publicKey == string(b) }

const attestedPrefix = "STAMP_ATTESTED_SCHEME_P256_"

// The SDK's stamps are read, in base64 and as plain JSON, and make a Caller with a
// token that vouches for their key.
func TestAttestedVectors(t *testing.T) {
	v, n := stamp.NewVerifier(), 0
	for _, c := range stampVectors(t) {
		if c.Header != "X-Stamp-Attested" {
			continue
		}
		n++
		text, err := base64.RawURLEncoding.DecodeString(c.Value)
		if err != nil {
			t.Fatal(err)
		}
		for form, value := range map[string]string{"base64url": c.Value, "padded": base64.URLEncoding.EncodeToString(text), "JSON": string(text), "JSON after a space": " " + string(text)} {
			a, err := v.ReadAttested(value, []byte(c.Body))
			if err != nil {
				t.Errorf("%s %s: %v", c.Name, form, err)
				continue
			}
			if a.OIDC() != strings.HasSuffix(c.Decoded.Scheme, "OIDC") || a.PublicKey() != c.Decoded.PublicKey || a.Token() == "" || a.Unverified().Text() != c.Body {
				t.Errorf("%s %s: %+v", c.Name, form, a)
			}
			who, err := a.Verify(bound(c.Decoded.PublicKey))
			if err != nil || string(who.Body().Bytes()) != c.Body || who.Scheme() != stamp.AttestedP256 || who.Scheme().String() != "SIGNATURE_SCHEME_TK_ATTESTED_P256" ||
				who.PublicKey() != c.Decoded.PublicKey || who.Signature() != c.Decoded.Signature || who.Fingerprint() != sha256.Sum256([]byte(c.Body)) || who.CredentialID() != "" || who.CredentialType() != "" {
				t.Errorf("%s %s: %+v, %v", c.Name, form, who, err)
			}
			for name, by := range map[string]stamp.Voucher{"nobody": nil, "another": bound("02ab"), "nothing": bound("")} {
				if who, err := a.Verify(by); who != nil || fault.Of(err) == nil || fault.Of(err).Code != fault.Unauthenticated {
					t.Errorf("%s: vouched for by %s: %v", c.Name, name, err)
				}
			}
			if _, err := v.ReadAttested(value, append([]byte(c.Body), ' ')); err == nil {
				t.Errorf("%s %s: of another body", c.Name, form)
			}
		}
	}
	if n != 2 {
		t.Errorf("%d attested stamps", n)
	}
}

// attest makes the JSON of a stamp over body.
func attest(t testing.TB, body string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256([]byte(body))
	sig, err := ecdsa.SignASN1(rand.Reader, key, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"publicKeyAttestation":"a.b.c","scheme":"%sOIDC","publicKey":"%02x%x","signature":"%x"}`, attestedPrefix, 2|point[64]&1, point[1:33], sig)
}

func TestAttestedRefused(t *testing.T) {
	const body = `{"type":"x"}`
	v := stamp.NewVerifier()
	good := attest(t, body)
	if _, err := v.ReadAttested(good, []byte(body)); err != nil {
		t.Fatal(err)
	}
	member := func(name string) string {
		_, rest, _ := strings.Cut(good, `"`+name+`":"`)
		value, _, _ := strings.Cut(rest, `"`)
		return value
	}
	change := func(old, now string) string { return strings.Replace(good, old, now, 1) }
	key, sig := member("publicKey"), member("signature")
	other := attest(t, body)
	for name, value := range map[string]string{
		"nothing": "", "no JSON": "x", "array": "[" + good + "]", "text": `"a"`, "null": "null", "trailing": good + "x", "twice": good + good, "base64 of nothing": "AAAA", "base64 with a break": base64.RawURLEncoding.EncodeToString([]byte(good))[:40] + "\n" + base64.RawURLEncoding.EncodeToString([]byte(good))[40:],
		"no token": change("publicKeyAttestation", "attestation"), "token empty": change("a.b.c", ""), "token null": change(`"a.b.c"`, "null"), "token number": change(`"a.b.c"`, "1"), "token twice": change("{", `{"publicKeyAttestation":"x",`), "token twice, spelt apart": change("{", `{"public_key_attestation":"x",`), "unknown member": change("{", `{"x":"y",`),
		"scheme of X-Stamp": change(attestedPrefix+"OIDC", "SIGNATURE_SCHEME_TK_API_P256"), "unknown scheme": change("P256_OIDC", "P256_SAML"), "scheme in other case": change("P256_OIDC", "P256_oidc"), "scheme empty": change(attestedPrefix+"OIDC", ""),
		"key short": change(key, key[2:]), "key long": change(key, key+"00"), "key no hex": change(key, "zz"+key[2:]), "key off the curve": change(key, "02"+strings.Repeat("ff", 32)), "key uncompressed's prefix": change(key, "04"+key[2:]), "other half": change(key, map[string]string{"02": "03", "03": "02"}[key[:2]]+key[2:]),
		"another's key": change(key, func() string { _, r, _ := strings.Cut(other, `"publicKey":"`); return r[:66] }()), "signature empty": change(sig, ""), "signature cut": change(sig, sig[:len(sig)-2]), "signature odd": change(sig, sig[1:]), "signature longer": change(sig, sig+"00"), "signature long": change(sig, strings.Repeat("00", 200)),
		"signature raw": change(sig, strings.Repeat("11", 64)), "signature of zeros": change(sig, "3006020100020100"), "signature altered": change(sig, sig[:20]+flip(sig[20:22])+sig[22:]), "header large": change("a.b.c", strings.Repeat("a", stamp.MaxHeader)), "invalid UTF-8": change("a.b.c", "\xff"), "deep": change(`"a.b.c"`, strings.Repeat("[", 100)+strings.Repeat("]", 100)),
	} {
		a, err := v.ReadAttested(value, []byte(body))
		if e := fault.Of(err); a != nil || e == nil || e.Code != fault.Unauthenticated || e.Name != "SIGNATURE_INVALID" || len(e.Message) > 200 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func flip(digits string) string {
	b, _ := hex.DecodeString(digits)
	b[0] ^= 1
	return hex.EncodeToString(b)
}

// FuzzAttested: what is taken is a signature of that key over that body.
func FuzzAttested(f *testing.F) {
	for _, c := range stampVectors(f) {
		if c.Header == "X-Stamp-Attested" {
			f.Add(c.Value, []byte(c.Body))
		}
	}
	f.Add(attest(f, "x"), []byte("x"))
	v := stamp.NewVerifier()
	f.Fuzz(func(t *testing.T, value string, body []byte) {
		a, err := v.ReadAttested(value, body)
		if err != nil {
			if e := fault.Of(err); a != nil || e == nil || e.Code != fault.Unauthenticated || len(e.Message) > 200 {
				t.Fatal(err)
			}
			return
		}
		if len(a.PublicKey()) != 66 || a.Token() == "" || len(value) > stamp.MaxHeader {
			t.Fatalf("%+v", a)
		}
		if _, err := a.Verify(nil); err == nil {
			t.Fatal("nobody vouched")
		}
	})
}
