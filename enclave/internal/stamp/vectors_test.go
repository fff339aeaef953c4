package stamp_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/der"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/stamp"
)

func load(t testing.TB, name string, into any) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
}

type parts struct {
	PublicKey string `json:"publicKey"`
	Scheme    string `json:"scheme"`
	Signature string `json:"signature"`
}

type vector struct {
	Name         string
	Kind         string
	Header       string
	Value        string
	Decoded      parts
	Body         string
	Expect       string
	SignatureRaw string `json:"signature_raw_hex"`
	PublicKey    string `json:"public_key"`
	// Of passkeys.
	RPID         string `json:"rp_id"`
	Origin       string
	CredentialID string `json:"credential_id"`
	COSE         string `json:"cose_public_key_hex"`
	Registration struct {
		Challenge   string
		Attestation struct{ CredentialID, AttestationObject, ClientDataJSON string }
	} `json:"authenticator_params"`
}

func stampVectors(t testing.TB) []vector {
	var f struct{ Vectors []vector }
	load(t, "stamps.json", &f)
	return f.Vectors
}

// header makes the value of X-Stamp.
func header(p parts) string {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func xstamp(value string) []stamp.Header {
	return []stamp.Header{{Name: "Content-Type", Value: "application/json"}, {Name: "x-stamp", Value: value}}
}

func accepted(v *stamp.Verifier, value, body string) bool {
	c, err := v.Verify(xstamp(value), []byte(body))
	return c != nil && err == nil
}

// refusedAs checks that an error is what a client may see for a bad stamp.
func refusedAs(t *testing.T, err error, stem string) {
	t.Helper()
	f := fault.Of(err)
	if f == nil || f.Code != fault.Unauthenticated || f.Name != "SIGNATURE_INVALID" || !strings.HasPrefix(f.Message, stem) {
		t.Errorf("want %q, got %v", stem, err)
	}
}

// leftForLater are the vectors of headers that are not served yet. A name that
// is missing here or superfluous fails the test.
var leftForLater = []string{
	"attested_STAMP_ATTESTED_SCHEME_P256_VERIFICATION_TOKEN", "attested_STAMP_ATTESTED_SCHEME_P256_OIDC",
}

func TestStampVectors(t *testing.T) {
	taken, refused, left := 0, 0, 0
	var seenLeft []string
	for _, x := range stampVectors(t) {
		v := stamp.NewVerifier()
		switch {
		case x.Header == passkeyHeader || x.Kind == "registration": // TestPasskeyVectors
		case x.Header == "X-Stamp":
			c, err := v.Verify(xstamp(x.Value), []byte(x.Body))
			switch x.Expect {
			case "accept":
				if err != nil {
					t.Errorf("%s: %v", x.Name, err)
					continue
				}
				checkCaller(t, x, c)
				taken++
			case "reject":
				if c != nil || fault.Of(err) == nil || fault.Of(err).Code != fault.Unauthenticated {
					t.Errorf("%s: %v, %v", x.Name, c, err)
				}
				refused++
			default:
				t.Errorf("%s: expect %q", x.Name, x.Expect)
			}
		case x.Kind == "sign_raw":
			// r and s of the same stamper without DER: refused as they are, good as DER.
			p := parts{x.PublicKey, "SIGNATURE_SCHEME_TK_API_P256", x.SignatureRaw}
			if accepted(v, header(p), x.Body) {
				t.Errorf("%s: a raw signature was accepted", x.Name)
			}
			p.Signature = derOfRaw(t, x.SignatureRaw)
			if !accepted(v, header(p), x.Body) {
				t.Errorf("%s: refused as DER", x.Name)
			}
			taken++
		default:
			if x.Header != "" {
				c, err := v.Verify([]stamp.Header{{Name: x.Header, Value: x.Value}}, []byte(x.Body))
				if f := fault.Of(err); c != nil || f == nil || f.Code != fault.Unimplemented || !strings.EqualFold(f.Message, "UNIMPLEMENTED: "+x.Header) || f.Name != "" {
					t.Errorf("%s: %v", x.Name, err)
				}
			}
			seenLeft = append(seenLeft, x.Name)
			left++
		}
	}
	if !slices.Equal(seenLeft, leftForLater) {
		t.Errorf("left: %q", seenLeft)
	}
	if taken != 20 || refused != 7 {
		t.Errorf("%d taken, %d refused", taken, refused)
	}
	t.Logf("stamps.json: %d accepted, %d refused as expected, %d left for their issue: %s", taken, refused, left, strings.Join(seenLeft, " "))
}

func checkCaller(t *testing.T, x vector, c *stamp.Caller) {
	t.Helper()
	curve := strings.TrimSuffix(strings.TrimPrefix(x.Decoded.Scheme, "SIGNATURE_SCHEME_TK_API_"), "_EIP191")
	if string(c.Body().Bytes()) != x.Body || c.PublicKey() != x.Decoded.PublicKey || c.Signature() != x.Decoded.Signature ||
		c.Scheme().String() != x.Decoded.Scheme || c.Curve() != "API_KEY_CURVE_"+curve || c.CredentialType() != "CREDENTIAL_TYPE_API_KEY_"+curve {
		t.Errorf("%s: %+v", x.Name, c)
	}
}

func derOfRaw(t testing.TB, raw string) string {
	b, err := hex.DecodeString(raw)
	if err != nil || len(b) != 64 {
		t.Fatal(raw)
	}
	return hex.EncodeToString(inDER([32]byte(b[:32]), [32]byte(b[32:])))
}

func inDER(r, s [32]byte) []byte { return (&der.Signature{R: r, S: s}).Append(nil) }

func TestFingerprints(t *testing.T) {
	var f struct {
		Vectors []struct{ Name, Body, Fingerprint string }
	}
	load(t, "fingerprints.json", &f)
	pub, priv := ed25519Pair()
	v := stamp.NewVerifier()
	for _, x := range f.Vectors {
		p := parts{pub, "SIGNATURE_SCHEME_TK_API_ED25519", hex.EncodeToString(ed25519.Sign(priv, []byte(x.Body)))}
		c, err := v.Verify(xstamp(header(p)), []byte(x.Body))
		if err != nil || fmt.Sprintf("sha256:%x", c.Fingerprint()) != x.Fingerprint {
			t.Errorf("%s: %v, %v", x.Name, c, err)
		}
	}
	t.Logf("%d fingerprints", len(f.Vectors))
	if len(f.Vectors) != 4 {
		t.Error("vectors missing")
	}
}

func ed25519Pair() (string, ed25519.PrivateKey) {
	priv := ed25519.NewKeyFromSeed([]byte("a seed that is known to everybody")[:32])
	return hex.EncodeToString(priv[32:]), priv
}

// TestFlipped changes every byte of the body, and every digit of key and
// signature, of every accepted vector.
func TestFlipped(t *testing.T) {
	v := stamp.NewVerifier() // shared: a key that is remembered must not help
	n, vectors := 0, 0
	for _, x := range stampVectors(t) {
		if x.Header != "X-Stamp" || x.Expect != "accept" {
			continue
		}
		if !accepted(v, x.Value, x.Body) {
			t.Fatal(x.Name)
		}
		vectors++
		for i := range len(x.Body) {
			body := []byte(x.Body)
			body[i] ^= 1 << (i % 8)
			n++
			if accepted(v, x.Value, string(body)) {
				t.Errorf("%s: body byte %d flipped", x.Name, i)
			}
		}
		for what, text := range map[string]*string{"publicKey": &x.Decoded.PublicKey, "signature": &x.Decoded.Signature} {
			old := *text
			for i := range len(old) {
				*text = old[:i] + string("123456789abcdef0"[strings.IndexByte("0123456789abcdef", old[i])]) + old[i+1:]
				n++
				if accepted(v, header(x.Decoded), x.Body) {
					t.Errorf("%s: %s digit %d changed", x.Name, what, i)
				}
			}
			*text = old
		}
		if !accepted(v, header(x.Decoded), x.Body) {
			t.Errorf("%s: no longer accepted", x.Name)
		}
	}
	if vectors != 19 {
		t.Errorf("%d vectors", vectors)
	}
	t.Logf("%d changes of %d accepted vectors refused", n, vectors)
}

// TestMoved carries every accepted stamp to the bodies of all the others, and
// every signature to every other scheme and key.
func TestMoved(t *testing.T) {
	v := stamp.NewVerifier()
	var good []vector
	for _, x := range stampVectors(t) {
		if x.Header == "X-Stamp" && x.Expect == "accept" {
			good = append(good, x)
		}
	}
	n := 0
	for _, a := range good {
		for _, b := range good {
			if a.Body != b.Body {
				n++
				if accepted(v, a.Value, b.Body) {
					t.Errorf("%s accepted over the body of %s", a.Name, b.Name)
				}
			}
			if a.Decoded.PublicKey != b.Decoded.PublicKey {
				n++
				if accepted(v, header(parts{b.Decoded.PublicKey, a.Decoded.Scheme, a.Decoded.Signature}), a.Body) {
					t.Errorf("%s accepted under the key of %s", a.Name, b.Name)
				}
			}
			if a.Decoded.Scheme != b.Decoded.Scheme {
				n++
				if accepted(v, header(parts{a.Decoded.PublicKey, b.Decoded.Scheme, a.Decoded.Signature}), a.Body) {
					t.Errorf("%s accepted under the scheme of %s", a.Name, b.Name)
				}
			}
		}
	}
	t.Logf("%d moved stamps refused", n)
}

// TestBothHalves turns s into order-s: accepted, with the same fingerprint, so
// that the twin is the same activity.
func TestBothHalves(t *testing.T) {
	orders := map[string]string{
		"SIGNATURE_SCHEME_TK_API_P256":             "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551",
		"SIGNATURE_SCHEME_TK_API_SECP256K1":        "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141",
		"SIGNATURE_SCHEME_TK_API_SECP256K1_EIP191": "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141",
	}
	n := 0
	for _, x := range stampVectors(t) {
		order := orders[x.Decoded.Scheme]
		if x.Header != "X-Stamp" || x.Expect != "accept" || order == "" {
			continue
		}
		b, _ := hex.DecodeString(x.Decoded.Signature)
		signature, ok := der.Parse(b)
		if !ok {
			t.Fatal(x.Name)
		}
		r, s := signature.R, signature.S
		q, _ := new(big.Int).SetString(order, 16)
		var twin [32]byte
		new(big.Int).Sub(q, new(big.Int).SetBytes(s[:])).FillBytes(twin[:])
		v := stamp.NewVerifier()
		c, err := v.Verify(xstamp(x.Value), []byte(x.Body))
		if err != nil {
			t.Fatal(err)
		}
		p := x.Decoded
		p.Signature = hex.EncodeToString(inDER(r, twin))
		d, err := v.Verify(xstamp(header(p)), []byte(x.Body))
		if err != nil || c.Fingerprint() != d.Fingerprint() || c.Signature() == d.Signature() {
			t.Errorf("%s: %v", x.Name, err)
		}
		// Out of range, though congruent: r+order and s+order where they fit, and 0.
		for _, rs := range [][2][32]byte{{{}, s}, {r, {}}, {plus(r, q), s}, {r, plus(s, q)}, {fill(q), s}, {r, fill(q)}} {
			p.Signature = hex.EncodeToString(inDER(rs[0], rs[1]))
			if rs != [2][32]byte{r, s} && accepted(v, header(p), x.Body) {
				t.Errorf("%s: accepted out of range: %s", x.Name, p.Signature)
			}
		}
		n++
	}
	t.Logf("%d twins accepted as the same body's, values out of range refused", n)
}

func fill(n *big.Int) (b [32]byte) { n.FillBytes(b[:]); return b }

// plus is a+q, or a itself when that has more than 32 bytes.
func plus(a [32]byte, q *big.Int) [32]byte {
	sum := new(big.Int).Add(new(big.Int).SetBytes(a[:]), q)
	if sum.BitLen() > 256 {
		return a
	}
	return fill(sum)
}

func compressed(t testing.TB, uncompressed string) string {
	b, err := hex.DecodeString(uncompressed)
	if err != nil || len(b) != 65 {
		t.Fatal(uncompressed)
	}
	return hex.EncodeToString(append([]byte{2 | b[64]&1}, b[1:33]...))
}
