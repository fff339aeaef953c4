package image_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha512"
	"crypto/x509"
	"encoding/pem"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"cloister/eif/image"
)

func TestSameSignatureTwice(t *testing.T) {
	key, cert := signer(t, elliptic.P384())
	a, b := plain(), plain()
	for _, m := range []*image.Image{a, b} {
		if err := m.Sign(cert, key, now); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(encode(t, a), encode(t, b)) {
		t.Error("two signed images of the same parts differ")
	}
	// Signing again replaces.
	first := encode(t, a)
	if err := a.Sign(cert, key, now); err != nil || !bytes.Equal(first, encode(t, a)) {
		t.Errorf("signed again, another image: %v", err)
	}
}

func TestNotSigned(t *testing.T) {
	key, cert := signer(t, elliptic.P384())
	unrelated, _ := signer(t, elliptic.P384())
	small, smallCert := signer(t, elliptic.P256())
	for name, c := range map[string]struct {
		cert []byte
		key  *ecdsa.PrivateKey
	}{
		"key of another":          {cert, unrelated},
		"P-256":                   {smallCert, small},
		"no PEM":                  {[]byte("certificate"), key},
		"two certificates":        {append(bytes.Clone(cert), cert...), key},
		"words behind":            {append(bytes.Clone(cert), "words"...), key},
		"a key for a certificate": {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte{1}}), key},
		"malformed":               {pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte{0x30, 0}}), key},
		"too long":                {append(bytes.Clone(cert), bytes.Repeat([]byte("\n"), image.MaxCertificate)...), key},
		"expired":                 {certify(t, key, now.AddDate(-1, 0, 0)), key},
		"not yet valid":           {certify(t, key, now.AddDate(1, 0, 0)), key},
	} {
		m := plain()
		if err := m.Sign(c.cert, c.key, now); err == nil || m.Signature != nil {
			t.Errorf("%s: signed", name)
		}
	}
}

// The section as another program would write it: other types, the same form.
type (
	register struct {
		Index int      `cbor:"register_index"`
		Value []uint64 `cbor:"register_value"`
	}
	entry struct {
		Certificate any `cbor:"signing_certificate"`
		Signature   any `cbor:"signature"`
	}
)

func numbers(b []byte) []uint64 {
	out := make([]uint64, len(b))
	for i := range b {
		out[i] = uint64(b[i])
	}
	return out
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := cbor.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

var es384 = []byte{0xa1, 0x01, 0x38, 0x22}

// cose signs a payload; what tampers sees the four members before they are put together.
func cose(t *testing.T, key *ecdsa.PrivateKey, payload []byte, tamper func([]any)) []byte {
	t.Helper()
	sum := sha512.Sum384(marshal(t, []any{"Signature1", es384, []byte{}, payload}))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	raw := make([]byte, 96)
	r.FillBytes(raw[:48])
	s.FillBytes(raw[48:])
	parts := []any{es384, map[int]int{}, payload, raw}
	if tamper != nil {
		tamper(parts)
	}
	return marshal(t, parts)
}

func TestSignatureOfAnother(t *testing.T) {
	key, cert := signer(t, elliptic.P384())
	unrelated, unrelatedCert := signer(t, elliptic.P384())
	_, smallCert := signer(t, elliptic.P256())
	m := plain()
	if err := m.Sign(cert, key, now); err != nil {
		t.Fatal(err)
	}
	pcrs, err := m.Measure()
	if err != nil {
		t.Fatal(err)
	}
	zero := marshal(t, register{0, numbers(pcrs.PCR0[:])})
	good := cose(t, key, zero, nil)
	big := numbers(cert)
	big[0] += 256

	section := func(entries ...entry) []byte { return marshal(t, entries) }
	read := func(raw []byte) error {
		m.TestOnlySignatureSection(raw)
		_, err := m.Encode()
		return err
	}
	if err := read(section(entry{numbers(cert), numbers(good)})); err != nil {
		t.Fatalf("one made by another writer: %v", err)
	}
	signedBy := func(payload []byte, tamper func([]any)) []byte {
		return section(entry{numbers(cert), numbers(cose(t, key, payload, tamper))})
	}
	for name, raw := range map[string][]byte{
		"nothing":               {},
		"empty list":            section(),
		"two":                   section(entry{numbers(cert), numbers(good)}, entry{numbers(cert), numbers(good)}),
		"rest":                  append(section(entry{numbers(cert), numbers(good)}), 0),
		"byte strings":          section(entry{cert, good}),
		"numbers over 255":      section(entry{big, numbers(good)}),
		"a member too many":     marshal(t, []any{map[string]any{"signing_certificate": numbers(cert), "signature": numbers(good), "x": 1}}),
		"a member missing":      marshal(t, []any{map[string]any{"signing_certificate": numbers(cert)}}),
		"another's certificate": section(entry{numbers(unrelatedCert), numbers(good)}),
		"another's signature":   section(entry{numbers(cert), numbers(cose(t, unrelated, zero, nil))}),
		"P-256 certificate":     section(entry{numbers(smallCert), numbers(good)}),
		"PCR1":                  signedBy(marshal(t, register{1, numbers(pcrs.PCR0[:])}), nil),
		"another PCR0":          signedBy(marshal(t, register{0, numbers(pcrs.PCR1[:])}), nil),
		"short PCR0":            signedBy(marshal(t, register{0, numbers(pcrs.PCR0[:47])}), nil),
		"another payload":       signedBy(marshal(t, "PCR0"), nil),
		"payload replaced":      signedBy(marshal(t, register{0, numbers(pcrs.PCR1[:])}), func(p []any) { p[2] = zero }),
		"no algorithm":          signedBy(zero, func(p []any) { p[0] = []byte{0xa0} }),
		"ES256":                 signedBy(zero, func(p []any) { p[0] = []byte{0xa1, 0x01, 0x26} }),
		"unprotected header":    signedBy(zero, func(p []any) { p[1] = map[int]int{4: 1} }),
		"short signature":       signedBy(zero, func(p []any) { p[3] = p[3].([]byte)[:95] }),
		"zero signature":        signedBy(zero, func(p []any) { p[3] = make([]byte, 96) }),
		"tagged":                section(entry{numbers(cert), numbers(append([]byte{0xd2}, good...))}),
		"a COSE of three":       section(entry{numbers(cert), numbers(marshal(t, []any{es384, map[int]int{}, zero}))}),
	} {
		if err := read(raw); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	// One member twice, which no marshaller writes.
	twice := append([]byte{0x81, 0xa2}, marshal(t, "signature")...)
	twice = append(append(twice, marshal(t, numbers(good))...), marshal(t, "signature")...)
	if read(append(twice, marshal(t, numbers(good))...)) == nil {
		t.Error("one member twice: accepted")
	}
}

func TestParseKey(t *testing.T) {
	key, cert := signer(t, elliptic.P384())
	small, _ := signer(t, elliptic.P256())
	pkcs8 := func(k *ecdsa.PrivateKey) []byte {
		der, err := x509.MarshalPKCS8PrivateKey(k)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	sec1 := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	parameters := pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte{6, 5, 0x2b, 0x81, 4, 0, 0x22}})
	for name, text := range map[string][]byte{"PKCS #8": pkcs8(key), "SEC 1": sec1, "with parameters": append(parameters, sec1...)} {
		if k, err := image.ParseKey(text); err != nil || !k.Equal(key) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string][]byte{
		"nothing": nil, "P-256": pkcs8(small), "two": append(pkcs8(key), pkcs8(key)...), "a certificate": cert,
		"encrypted": pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: der}),
		"malformed": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der[:20]}), "parameters alone": parameters,
	} {
		if _, err := image.ParseKey(text); err == nil {
			t.Errorf("%s: read", name)
		}
	}
}

func FuzzSignature(f *testing.F) {
	m := signed(f)
	f.Add(m.TestOnlySection())
	f.Add([]byte{0x81, 0xa2})
	f.Fuzz(func(t *testing.T, raw []byte) {
		m.TestOnlySignatureSection(raw)
		if _, err := m.Encode(); err == nil && !bytes.Contains(raw, []byte("signing_certificate")) {
			t.Error("accepted without a certificate")
		}
	})
}
