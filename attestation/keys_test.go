package attestation_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloister/attestation"
)

func someKeys(t testing.TB) attestation.Keys {
	long := func(n byte) string { return hex.EncodeToString(point(t, fixedKey(t, n))) }
	return attestation.Keys{Signer: long(11), SignerPair: long(12) + long(11), Session: long(13), OTP: long(14), OTPLegacy: compressed(t, fixedKey(t, 15)),
		FetcherEncrypt: long(16), OnRamp: compressed(t, fixedKey(t, 17))}
}

func (m *maker) keysClaim() *attestation.PublicKeys {
	_, sha, err := attestation.DocumentRoot(m.document(nil))
	must(m.t, err)
	return &attestation.PublicKeys{Keys: someKeys(m.t), AttestationRootSHA256: sha, Freshness: fresh}
}

func (m *maker) keysDocument() attestation.KeysDocument {
	root, _, err := attestation.DocumentRoot(m.document(nil))
	must(m.t, err)
	return attestation.KeysDocument{Keys: someKeys(m.t), AttestationRootPEM: root, AppProof: m.appProof(m.keysClaim()), BootProof: m.bootProof(nil)}
}

func encoded(t testing.TB, v any) []byte {
	b, err := json.Marshal(v)
	must(t, err)
	return b
}

func TestKeysVerified(t *testing.T) {
	m := newMaker(t)
	d := m.keysDocument()
	p, err := attestation.VerifyKeys(encoded(t, d), m.policy())
	must(t, err)
	c, ok := p.Claim.(*attestation.PublicKeys)
	if !ok || c.Keys != someKeys(t) || p.Boot.RootPEM() != strings.TrimSuffix(m.rootPEM(), "\n") || d.AttestationRootPEM != p.Boot.RootPEM() || !p.Time.Equal(m.now.Add(time.Minute)) {
		t.Errorf("%+v", p)
	}
	if org, activity, fingerprint := c.Names(); org+activity+fingerprint != "" || c.Fresh() != nil && *c.Fresh() != *fresh || c.Type() != attestation.TypePublicKeys {
		t.Error("names something")
	}
	// A file that was stored once verifies for ever.
	raw, err := os.ReadFile(filepath.Join(fixtures, "keys-document.json"))
	must(t, err)
	credentials, err := os.ReadFile(filepath.Join(fixtures, "keys-credentials.json"))
	must(t, err)
	var known struct {
		AttestationRootPEM string
		ManifestSHA256     string
	}
	must(t, json.Unmarshal(credentials, &known))
	_, err = attestation.VerifyKeys(raw, attestation.Policy{SimulatorRootPEM: known.AttestationRootPEM, AllowedManifestSHA256: []string{known.ManifestSHA256}})
	must(t, err)
}

func TestKeysRefused(t *testing.T) {
	m, other := newMaker(t), newMaker(t)
	changed := func(f func(*attestation.KeysDocument)) []byte {
		d := m.keysDocument()
		f(&d)
		return encoded(t, d)
	}
	good := m.keysDocument()
	otherKeys := someKeys(t)
	otherKeys.Session = otherKeys.OTP
	claim := m.keysClaim()
	claim.AttestationRootSHA256 = strings.Repeat("00", 32)
	for name, raw := range map[string][]byte{
		"empty": {}, "null": []byte("null"), "no object": []byte("[]"), "trailing": append(encoded(t, good), '{'), "long": bytes.Repeat([]byte(" "), attestation.MaxKeys+1),
		"unknown member":        append([]byte(`{"more":1,`), encoded(t, good)[1:]...),
		"another key":           changed(func(d *attestation.KeysDocument) { d.Keys = otherKeys }),
		"keys left out":         changed(func(d *attestation.KeysDocument) { d.Keys = attestation.Keys{} }),
		"other keys signed":     changed(func(d *attestation.KeysDocument) { c := m.keysClaim(); c.Keys = otherKeys; d.AppProof = m.appProof(c) }),
		"another root":          changed(func(d *attestation.KeysDocument) { d.AttestationRootPEM = strings.TrimSuffix(other.rootPEM(), "\n") }),
		"root with a line feed": changed(func(d *attestation.KeysDocument) { d.AttestationRootPEM += "\n" }),
		"no root":               changed(func(d *attestation.KeysDocument) { d.AttestationRootPEM = "" }),
		"another root signed":   changed(func(d *attestation.KeysDocument) { d.AppProof = m.appProof(claim) }),
		"another statement":     changed(func(d *attestation.KeysDocument) { d.AppProof = m.appProof(addressClaim()) }),
		"altered statement": changed(func(d *attestation.KeysDocument) {
			d.AppProof.ProofPayload = strings.Replace(d.AppProof.ProofPayload, "signer", "Signer", 1)
		}),
		"another boot's proof":   changed(func(d *attestation.KeysDocument) { d.BootProof = other.bootProof(nil) }),
		"another enclave's word": changed(func(d *attestation.KeysDocument) { d.AppProof = other.appProof(m.keysClaim()) }),
		"all of another":         encoded(t, other.keysDocument()),
	} {
		p, err := attestation.VerifyKeys(raw, m.policy())
		refused(t, err, name)
		if p != nil {
			t.Errorf("%s: a result beside the error", name)
		}
	}
	_, err := attestation.VerifyKeys(encoded(t, good), attestation.Policy{SimulatorRootPEM: m.rootPEM()})
	refused(t, err, "nothing pinned")
	old := m.policy()
	old.Now, old.MaxProofAge = m.now.Add(time.Hour), time.Minute
	_, err = attestation.VerifyKeys(encoded(t, good), old)
	refused(t, err, "too old")
}

// Texts that clients would not find equal are refused when they are signed, too.
func TestKeysClaimRefused(t *testing.T) {
	m := newMaker(t)
	good := m.keysClaim()
	for name, f := range map[string]func(*attestation.PublicKeys){
		"upper case":        func(c *attestation.PublicKeys) { c.Keys.Signer = strings.ToUpper(c.Keys.Signer) },
		"compressed signer": func(c *attestation.PublicKeys) { c.Keys.Signer = compressed(t, fixedKey(t, 11)) },
		"long on-ramp":      func(c *attestation.PublicKeys) { c.Keys.OnRamp = c.Keys.Session },
		"legacy in upper":   func(c *attestation.PublicKeys) { c.Keys.OTPLegacy = strings.ToUpper(c.Keys.OTPLegacy) },
		"no session":        func(c *attestation.PublicKeys) { c.Keys.Session = "" },
		"off the curve":     func(c *attestation.PublicKeys) { c.Keys.OTP = "04" + hexOf(9, 64) },
		"pair of others":    func(c *attestation.PublicKeys) { c.Keys.SignerPair = c.Keys.Session + c.Keys.OTP },
		"half a pair":       func(c *attestation.PublicKeys) { c.Keys.SignerPair = c.Keys.Signer },
		"pair off the curve": func(c *attestation.PublicKeys) {
			c.Keys.SignerPair = "04" + hexOf(9, 64) + c.Keys.Signer
		},
		"0x": func(c *attestation.PublicKeys) { c.Keys.FetcherEncrypt = "0x" + c.Keys.FetcherEncrypt[2:] },
		"root in lower": func(c *attestation.PublicKeys) {
			c.AttestationRootSHA256 = "a" + strings.ToLower(c.AttestationRootSHA256[1:])
		},
		"short root":        func(c *attestation.PublicKeys) { c.AttestationRootSHA256 = c.AttestationRootSHA256[2:] },
		"unknown freshness": func(c *attestation.PublicKeys) { c.Freshness = &attestation.ClaimFreshness{Mode: "x"} },
	} {
		c := *good
		f(&c)
		_, err := attestation.EncodePayload(m.now, &c)
		refused(t, err, name)
		raw := fmt.Sprintf(`{"type":"APP_PROOF_TYPE_PUBLIC_KEYS","timestampMs":"1767225600123","publicKeysProof":%s}`, encoded(t, &c))
		_, _, err = attestation.ParsePayload(raw)
		refused(t, err, name+", read")
	}
}

func TestDocumentRoot(t *testing.T) {
	m := newMaker(t)
	raw := m.document(nil)
	for _, b := range [][]byte{raw, append([]byte{0xd2}, raw...)} {
		text, sha, err := attestation.DocumentRoot(b)
		if err != nil || text+"\n" != m.rootPEM() || len(sha) != 64 {
			t.Errorf("%s %s %v", text, sha, err)
		}
	}
	for name, b := range map[string][]byte{"nothing": nil, "no document": []byte("x"), "cut": raw[:len(raw)-1], "long": make([]byte, attestation.MaxDocument+1),
		"no bundle": m.document(func(d *doc) { d.CABundle = nil })} {
		_, _, err := attestation.DocumentRoot(b)
		refused(t, err, name)
	}
}

func FuzzKeys(f *testing.F) {
	m := newMaker(f)
	f.Add(encoded(f, m.keysDocument()))
	f.Add([]byte(`{"keys":{}}`))
	p := m.policy()
	f.Fuzz(func(t *testing.T, raw []byte) {
		proof, err := attestation.VerifyKeys(raw, p)
		if (proof == nil) != (err != nil) {
			t.Fatal(proof, err)
		}
		if err == nil && proof.Claim.(*attestation.PublicKeys).Keys != someKeys(t) {
			t.Fatal("other keys")
		}
	})
}
