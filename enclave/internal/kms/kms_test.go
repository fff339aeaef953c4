package kms_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"sync"
	"testing"

	"cloister/enclave/internal/kms"
	"cloister/enclave/internal/secret/secrettest"
)

var recipient = sync.OnceValues(func() (*kms.Recipient, error) { return kms.NewRecipient(rand.Reader) })

func tlv(tag byte, parts ...[]byte) []byte {
	b := bytes.Join(parts, nil)
	switch n := len(b); {
	case n < 0x80:
		return append([]byte{tag, byte(n)}, b...)
	case n < 0x100:
		return append([]byte{tag, 0x81, byte(n)}, b...)
	default:
		return append([]byte{tag, 0x82, byte(n >> 8), byte(n)}, b...)
	}
}

var (
	sha    = tlv(0x30, tlv(6, []byte{0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1}))
	sha384 = tlv(0x30, tlv(6, []byte{0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 2}))
	data   = tlv(6, []byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0xd, 1, 7, 1})
	pkcs1  = tlv(0x30, tlv(6, []byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0xd, 1, 1, 1}), tlv(5))
)

func oaep(hash, mask []byte) []byte {
	return tlv(0x30, tlv(6, []byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0xd, 1, 1, 7}), tlv(0x30, tlv(0xa0, hash),
		tlv(0xa1, tlv(0x30, tlv(6, []byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0xd, 1, 1, 8}), mask))))
}

func to(algorithm, key []byte) []byte {
	return tlv(0x30, tlv(2, []byte{2}), tlv(0x80, make([]byte, 20)), algorithm, tlv(4, key))
}

func answer(recipients []byte, cipher byte, iv, content []byte) []byte {
	return tlv(0x30, tlv(6, []byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0xd, 1, 7, 3}), tlv(0xa0, tlv(0x30, tlv(2, []byte{2}), tlv(0x31, recipients),
		tlv(0x30, data, tlv(0x30, tlv(6, []byte{0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, cipher}), tlv(4, iv)), content))))
}

// sealed is a data key of sevens for r, and what of it the cases below change.
func sealed(t testing.TB, r *kms.Recipient) (wrapped, iv, content []byte) {
	t.Helper()
	public, err := x509.ParsePKIXPublicKey(r.Public)
	if err != nil {
		t.Fatal(err)
	}
	cek := bytes.Repeat([]byte{5}, 32)
	if wrapped, err = rsa.EncryptOAEP(sha256.New(), rand.Reader, public.(*rsa.PublicKey), cek, nil); err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(cek)
	if err != nil {
		t.Fatal(err)
	}
	iv = make([]byte, 16)
	content = append(bytes.Repeat([]byte{7}, 32), bytes.Repeat([]byte{16}, 16)...)
	cipher.NewCBCEncrypter(block, iv).CryptBlocks(content, content)
	return wrapped, iv, content
}

func TestAnswers(t *testing.T) {
	r, err := recipient()
	if err != nil {
		t.Fatal(err)
	}
	wrapped, iv, content := sealed(t, r)
	one := to(oaep(sha, sha), wrapped)
	good := answer(one, 0x2a, iv, tlv(0x80, content))
	if key, err := r.Open(good); err != nil || !bytes.Equal(secrettest.Bytes(key), bytes.Repeat([]byte{7}, 32)) {
		t.Fatalf("%x, %v", secrettest.Bytes(key), err)
	}
	pieces := answer(one, 0x2a, iv, tlv(0xa0, tlv(4, content[:1]), tlv(4, content[1:])))
	if key, err := r.Open(pieces); err != nil || !bytes.Equal(secrettest.Bytes(key), bytes.Repeat([]byte{7}, 32)) {
		t.Fatalf("in pieces: %x, %v", secrettest.Bytes(key), err)
	}
	altered := bytes.Clone(wrapped)
	altered[100] ^= 1
	deep := []byte{}
	for range 40 {
		deep = append(deep, 0x30, 0x80)
	}
	long := append([]byte{0x30, 0x83, 0, byte(len(good[4:]) >> 8), byte(len(good[4:]))}, good[4:]...)
	for name, b := range map[string][]byte{
		"nothing": nil, "one byte": {0x30}, "trailing": append(bytes.Clone(good), 0), "cut": good[:len(good)-1], "too long": make([]byte, kms.MaxAnswer+1),
		"a length that is too long": long, "endless": deep, "an indefinite string": {0x04, 0x80, 0, 0},
		"no recipient":        answer(nil, 0x2a, iv, tlv(0x80, content)),
		"two recipients":      answer(append(bytes.Clone(one), one...), 0x2a, iv, tlv(0x80, content)),
		"by PKCS #1 v1.5":     answer(to(pkcs1, wrapped), 0x2a, iv, tlv(0x80, content)),
		"OAEP with SHA-384":   answer(to(oaep(sha384, sha), wrapped), 0x2a, iv, tlv(0x80, content)),
		"MGF1 with SHA-384":   answer(to(oaep(sha, sha384), wrapped), 0x2a, iv, tlv(0x80, content)),
		"for another key":     answer(to(oaep(sha, sha), altered), 0x2a, iv, tlv(0x80, content)),
		"a short wrapped key": answer(to(oaep(sha, sha), wrapped[1:]), 0x2a, iv, tlv(0x80, content)),
		"by AES-128":          answer(one, 2, iv, tlv(0x80, content)),
		"by AES-256-GCM":      answer(one, 0x2e, iv, tlv(0x80, content)),
		"a short vector":      answer(one, 0x2a, iv[1:], tlv(0x80, content)),
		"a block less":        answer(one, 0x2a, iv, tlv(0x80, content[:32])),
		"a block more":        answer(one, 0x2a, iv, tlv(0x80, append(bytes.Clone(content), content[:16]...))),
		"no content":          answer(one, 0x2a, iv, tlv(5)),
		"pieces of no string": answer(one, 0x2a, iv, tlv(0xa0, tlv(2, content))),
	} {
		if key, err := r.Open(b); err == nil || key.Len() != 0 {
			t.Errorf("%s: opens", name)
		}
	}
}

// Whether the padding is right nobody learns.
func TestPaddingIsNotLookedAt(t *testing.T) {
	r, err := recipient()
	if err != nil {
		t.Fatal(err)
	}
	wrapped, iv, content := sealed(t, r)
	for at := range content {
		bad := bytes.Clone(content)
		bad[at] ^= 1
		if _, err := r.Open(answer(to(oaep(sha, sha), wrapped), 0x2a, iv, tlv(0x80, bad))); err != nil {
			t.Fatalf("altered at %d: %v", at, err)
		}
	}
}

func TestRequests(t *testing.T) {
	g, err := kms.GenerateRequest([]byte("doc"))
	if err != nil || string(g) != `{"NumberOfBytes":32,"Recipient":{"KeyEncryptionAlgorithm":"RSAES_OAEP_SHA_256","AttestationDocument":"ZG9j"}}` {
		t.Errorf("%s, %v", g, err)
	}
	d, err := kms.DecryptRequest([]byte("blob"), []byte("doc"))
	if err != nil || string(d) != `{"CiphertextBlob":"YmxvYg==","Recipient":{"KeyEncryptionAlgorithm":"RSAES_OAEP_SHA_256","AttestationDocument":"ZG9j"}}` || !json.Valid(d) {
		t.Errorf("%s, %v", d, err)
	}
}

func FuzzOpen(f *testing.F) {
	r, err := recipient()
	if err != nil {
		f.Fatal(err)
	}
	wrapped, iv, content := sealed(f, r)
	f.Add(answer(to(oaep(sha, sha), wrapped), 0x2a, iv, tlv(0x80, content)))
	f.Add([]byte{0x30, 0x80, 0x06, 0x01, 0x2a, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if key, err := r.Open(b); (err == nil) != (key.Len() == 32) {
			t.Fatalf("%d bytes and %v", key.Len(), err)
		}
	})
}
