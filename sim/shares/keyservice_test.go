package shares_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"strings"
	"testing"

	"cloister/attestation"
)

// A service stands in for the key service. It follows the published forms of its
// requests and answers (GenerateDataKey and Decrypt with a Recipient, CMS
// EnvelopedData of RFC 5652, in DER or with indefinite lengths); the real one was
// never asked.
type service struct {
	t    *testing.T
	root string
	keys map[string][]byte // data keys by their blobs
	ber  bool
}

func (s *service) answer(request map[string]json.RawMessage) map[string]any {
	s.t.Helper()
	var r struct {
		KeyEncryptionAlgorithm string
		AttestationDocument    []byte
	}
	must(s.t, json.Unmarshal(request["Recipient"], &r))
	doc, err := attestation.VerifyDocument(r.AttestationDocument, attestation.Policy{SimulatorRootPEM: s.root, ExpectedPCRs: pcrs()})
	must(s.t, err)
	if r.KeyEncryptionAlgorithm != "RSAES_OAEP_SHA_256" {
		s.t.Fatal(r.KeyEncryptionAlgorithm)
	}
	public, err := x509.ParsePKIXPublicKey(doc.PublicKey)
	must(s.t, err)
	var blob []byte
	if request["CiphertextBlob"] == nil {
		blob = []byte("blob ")
		key := make([]byte, 32)
		_, _ = rand.Read(key)
		blob = append(blob, key[:4]...)
		s.keys[string(blob)] = key
	} else {
		must(s.t, json.Unmarshal(request["CiphertextBlob"], &blob))
	}
	return map[string]any{"CiphertextBlob": blob, "CiphertextForRecipient": s.envelop(public.(*rsa.PublicKey), s.keys[string(blob)])}
}

// tlv writes one element; what is made of parts with an indefinite length if ber.
func (s *service) tlv(tag byte, parts ...[]byte) []byte {
	b := bytes.Join(parts, nil)
	if s.ber && tag&0x20 != 0 {
		return append(append([]byte{tag, 0x80}, b...), 0, 0)
	}
	switch n := len(b); {
	case n < 0x80:
		return append([]byte{tag, byte(n)}, b...)
	case n < 0x100:
		return append([]byte{tag, 0x81, byte(n)}, b...)
	default:
		return append([]byte{tag, 0x82, byte(n >> 8), byte(n)}, b...)
	}
}

func (s *service) envelop(to *rsa.PublicKey, key []byte) []byte {
	cek, iv := make([]byte, 32), make([]byte, 16)
	_, _ = rand.Read(cek)
	_, _ = rand.Read(iv)
	wrapped, err := rsa.EncryptOAEP(sha256.New(), rand.Reader, to, cek, nil)
	must(s.t, err)
	block, err := aes.NewCipher(cek)
	must(s.t, err)
	sealed := append(bytes.Clone(key), bytes.Repeat([]byte{16}, 16)...)
	cipher.NewCBCEncrypter(block, iv).CryptBlocks(sealed, sealed)
	oid := func(b ...byte) []byte { return s.tlv(6, b) }
	sha := s.tlv(0x30, oid(0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1), s.tlv(5))
	rsaes := s.tlv(0x30, oid(0x2a, 0x86, 0x48, 0x86, 0xf7, 0xd, 1, 1, 7), s.tlv(0x30, s.tlv(0xa0, sha),
		s.tlv(0xa1, s.tlv(0x30, oid(0x2a, 0x86, 0x48, 0x86, 0xf7, 0xd, 1, 1, 8), sha))))
	recipient := s.tlv(0x30, s.tlv(2, []byte{2}), s.tlv(0x80, make([]byte, 20)), rsaes, s.tlv(4, wrapped))
	content := s.tlv(0x80, sealed)
	if s.ber {
		content = s.tlv(0xa0, s.tlv(4, sealed[:20]), s.tlv(4, sealed[20:]))
	}
	return s.tlv(0x30, oid(0x2a, 0x86, 0x48, 0x86, 0xf7, 0xd, 1, 7, 3), s.tlv(0xa0, s.tlv(0x30, s.tlv(2, []byte{2}), s.tlv(0x31, recipient),
		s.tlv(0x30, oid(0x2a, 0x86, 0x48, 0x86, 0xf7, 0xd, 1, 7, 1), s.tlv(0x30, oid(0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 0x2a), s.tlv(4, iv)), content))))
}

// With a key service as second factor neither M shares nor the service alone start
// the enclave, in whatever order they come.
func TestKeyService(t *testing.T) {
	for _, ber := range []bool{false, true} {
		w := &world{t: t, root: newRoot(t), store: &memory{objects: map[string][]byte{}}}
		for range 3 {
			w.operators = append(w.operators, newOperator(t))
		}
		w.named = named(t, 2, w.operators)
		s := &service{t: t, root: w.root.PEM(), keys: map[string][]byte{}, ber: ber}
		e := w.start()
		made := s.answer(e.mustAsk("key_service_request", nil))
		got := e.mustAsk("genesis", map[string]any{"operators": w.named, "keyService": map[string]any{
			"ciphertextBlob": made["CiphertextBlob"], "ciphertextForRecipient": made["CiphertextForRecipient"]}})
		e.stop()
		var quorum string
		must(t, json.Unmarshal(got["quorumPublicKey"], &quorum))
		w.shares, w.manifest = got["shares"], w.first(quorum)
		e = w.start()
		if _, refusal := e.ask("manifest", submission(t, w.manifest, nil, w.operators)); !strings.Contains(refusal, "SHARES_OF_ANOTHER") {
			t.Errorf("a manifest of shares alone: %q", refusal)
		}
		e.stop()
		w.manifest.SeedSource = attestation.SeedCloudKMS
		answer := func(e *enclave) map[string]any {
			return map[string]any{"CiphertextForRecipient": s.answer(e.mustAsk("key_service_request", nil))["CiphertextForRecipient"], "KeyId": "arn:aws:kms:x"}
		}
		e = w.waiting()
		e.give(0, 2)
		e.wants("seed") // M shares without the service
		e.give(1)
		e.wants("seed")
		other := w.waiting()
		if _, refusal := e.ask("key_service", answer(other)); !strings.Contains(refusal, "KEY_SERVICE_ANSWER") {
			t.Errorf("an answer for another enclave: %q", refusal)
		}
		other.stop()
		good := answer(e)
		raw := good["CiphertextForRecipient"].([]byte)
		for _, at := range []int{0, 1, 5, 150, len(raw) / 2, len(raw) - 60, len(raw) - 40} {
			bad := bytes.Clone(raw)
			bad[at] ^= 1
			if _, refusal := e.ask("key_service", map[string]any{"CiphertextForRecipient": bad}); !strings.Contains(refusal, "KEY_SERVICE_ANSWER") {
				t.Errorf("an answer altered at %d: %q", at, refusal)
			}
		}
		e.mustAsk("key_service", good)
		e.wants("serving")
		w.bootProof(e)
		e.stop()
		e = w.waiting() // the service first
		e.mustAsk("key_service", answer(e))
		e.give(1)
		e.wants("seed")
		e.give(0)
		e.wants("serving")
		e.stop()
	}
}

// The shares make the secret only under the pad.
func TestKeyServiceIsNeverAlone(t *testing.T) {
	w := newWorld(t, newRoot(t), 2, 2)
	w.manifest.SeedSource = attestation.SeedCloudKMS
	e := w.start()
	defer e.stop()
	if _, refusal := e.ask("manifest", submission(t, w.manifest, nil, w.operators)); !strings.Contains(refusal, "SHARES_OF_ANOTHER") {
		t.Errorf("a key service where there is none: %q", refusal)
	}
	w.manifest.SeedSource = attestation.SeedOperatorShares
	e.mustAsk("manifest", submission(t, w.manifest, nil, w.operators))
	if _, refusal := e.ask("key_service_request", nil); !strings.Contains(refusal, "KEY_SERVICE_NONE") {
		t.Errorf("%q", refusal)
	}
}
