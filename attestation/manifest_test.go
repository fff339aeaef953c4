package attestation_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"cloister/attestation"
)

func TestManifestReadsBack(t *testing.T) {
	for name, change := range map[string]func(*attestation.Manifest){
		"with operators":    func(*attestation.Manifest) {},
		"without operators": func(m *attestation.Manifest) { m.Operators = attestation.Operators{} },
		"for nitro": func(m *attestation.Manifest) {
			m.Kind, m.SeedSource = attestation.KindNitro, attestation.SeedOperatorShares
			m.Operators.ShareKeys = []string{compressed(t, fixedKey(t, 6)), compressed(t, fixedKey(t, 7))}
		},
		"with a predecessor":   func(m *attestation.Manifest) { m.Predecessor = hexOf(7, 32) },
		"by hand-over":         func(m *attestation.Manifest) { m.SeedSource = attestation.SeedHandover },
		"with a configuration": func(m *attestation.Manifest) { m.ConfigurationSHA256 = hexOf(7, 32) },
		"with < & > and ü":     func(m *attestation.Manifest) { m.Owner = `<ü & "co">` },
	} {
		m := testManifest(t)
		change(m)
		raw, err := m.Encode()
		must(t, err)
		back, err := attestation.ParseManifest(raw)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again, err := back.Encode()
		must(t, err)
		if !bytes.Equal(raw, again) || back.Owner != m.Owner {
			t.Errorf("%s: does not read back", name)
		}
	}
}

func TestManifestsRefused(t *testing.T) {
	for name, change := range map[string]func(*attestation.Manifest){
		"format 2":                         func(m *attestation.Manifest) { m.Format = 2 },
		"unknown kind":                     func(m *attestation.Manifest) { m.Kind = "other" },
		"another application":              func(m *attestation.Manifest) { m.Application = "signer" },
		"no version":                       func(m *attestation.Manifest) { m.Version = "" },
		"no label":                         func(m *attestation.Manifest) { m.DeploymentLabel = "" },
		"long label":                       func(m *attestation.Manifest) { m.DeploymentLabel = strings.Repeat("l", 256) },
		"label with a line break":          func(m *attestation.Manifest) { m.DeploymentLabel = "a\nb" },
		"owner not UTF-8":                  func(m *attestation.Manifest) { m.Owner = "\xff" },
		"configuration's hash too short":   func(m *attestation.Manifest) { m.ConfigurationSHA256 = hexOf(1, 31) },
		"configuration's hash too long":    func(m *attestation.Manifest) { m.ConfigurationSHA256 = hexOf(1, 33) },
		"configuration's hash in capitals": func(m *attestation.Manifest) { m.ConfigurationSHA256 = strings.Repeat("AB", 32) },
		"configuration no hash":            func(m *attestation.Manifest) { m.ConfigurationSHA256 = "none" },
		"digest too short":                 func(m *attestation.Manifest) { m.ApplicationDigest = hexOf(1, 31) },
		"digest in upper case":             func(m *attestation.Manifest) { m.ApplicationDigest = strings.Repeat("AB", 32) },
		"nonce beyond 2^53":                func(m *attestation.Manifest) { m.Nonce = 1 << 53 },
		"epoch beyond 2^53":                func(m *attestation.Manifest) { m.MinKeyringEpoch = 1 << 53 },
		"no PCR 1":                         func(m *attestation.Manifest) { m.PCRs.PCR1 = "" },
		"PCR of 32 bytes":                  func(m *attestation.Manifest) { m.PCRs.PCR2 = hexOf(1, 32) },
		"half a quorum key":                func(m *attestation.Manifest) { m.QuorumPublicKey = m.QuorumPublicKey[:130] },
		"quorum key off the curve":         func(m *attestation.Manifest) { m.QuorumPublicKey = m.QuorumPublicKey[:258] + "00" },
		"admission key uncompressed":       func(m *attestation.Manifest) { m.AdmissionKey = m.QuorumPublicKey[:130] },
		"admission key off the curve":      func(m *attestation.Manifest) { m.AdmissionKey = "02" + hexOf(0xff, 32) },
		"unknown seed source":              func(m *attestation.Manifest) { m.SeedSource = "memory" },
		"development seed on nitro":        func(m *attestation.Manifest) { m.Kind = attestation.KindNitro },
		"no freshness":                     func(m *attestation.Manifest) { m.Freshness.Mode = "" },
		"threshold 0":                      func(m *attestation.Manifest) { m.Operators.Threshold = 0 },
		"threshold above the number":       func(m *attestation.Manifest) { m.Operators.Threshold = 3 },
		"as many for a recovery":           func(m *attestation.Manifest) { m.Operators.RecoverThreshold = 1 },
		"more for a recovery than all":     func(m *attestation.Manifest) { m.Operators.RecoverThreshold = 3 },
		"fewer for a recovery than none":   func(m *attestation.Manifest) { m.Operators.RecoverThreshold = -1 },
		"nobody for a recovery":            func(m *attestation.Manifest) { m.Operators = attestation.Operators{RecoverThreshold: 1} },
		"threshold without operators":      func(m *attestation.Manifest) { m.Operators.PublicKeys = nil },
		"an operator twice":                func(m *attestation.Manifest) { m.Operators.PublicKeys[1] = m.Operators.PublicKeys[0] },
		"an operator who is no key":        func(m *attestation.Manifest) { m.Operators.PublicKeys[1] = "02" },
		"too many operators":               func(m *attestation.Manifest) { m.Operators.PublicKeys = make([]string, 65) },
		"predecessor too short":            func(m *attestation.Manifest) { m.Predecessor = hexOf(1, 31) },
		"predecessor in capitals":          func(m *attestation.Manifest) { m.Predecessor = strings.Repeat("AB", 32) },
		"shares for nobody":                func(m *attestation.Manifest) { m.SeedSource = attestation.SeedOperatorShares },
		"a key service and nobody":         func(m *attestation.Manifest) { m.SeedSource = attestation.SeedCloudKMS },
		"shares for one of two":            func(m *attestation.Manifest) { m.Operators.ShareKeys = m.Operators.PublicKeys[:1] },
		"shares to a signing key":          func(m *attestation.Manifest) { m.Operators.ShareKeys = m.Operators.PublicKeys },
		"shares to what is no key":         func(m *attestation.Manifest) { m.Operators.ShareKeys = []string{"02", "03"} },
		"shares without operators": func(m *attestation.Manifest) {
			m.Operators.ShareKeys, m.Operators.PublicKeys, m.Operators.Threshold = m.Operators.PublicKeys, nil, 0
		},
		"nitro without operators": func(m *attestation.Manifest) {
			m.Kind, m.SeedSource, m.Operators = attestation.KindNitro, attestation.SeedOperatorShares, attestation.Operators{}
		},
	} {
		m := testManifest(t)
		change(m)
		_, err := m.Encode()
		refused(t, err, name)
	}
}

func TestManifestBytesRefused(t *testing.T) {
	good, err := testManifest(t).Encode()
	must(t, err)
	sub := func(old, new string) []byte { return bytes.Replace(good, []byte(old), []byte(new), 1) }
	for name, raw := range map[string][]byte{
		"empty":                      nil,
		"null":                       []byte("null"),
		"another format":             []byte(`{"cloisterTestManifest":1,"set":"set-1"}`),
		"too long":                   append(bytes.Repeat([]byte(" "), attestation.MaxManifest), good...),
		"trailing line":              append(append([]byte{}, good...), '\n'),
		"a blank":                    sub(`{"format"`, `{ "format"`),
		"unknown member":             sub(`{"format"`, `{"x":1,"format"`),
		"member twice":               sub(`{"format"`, `{"format":1,"format"`),
		"member in other case":       sub(`"format"`, `"Format"`),
		"order changed":              sub(`"format":1,"kind":"simulator"`, `"kind":"simulator","format":1`),
		"member missing":             sub(`"nonce":3,`, ""),
		"number as text":             sub(`"nonce":3`, `"nonce":"3"`),
		"number as a float":          sub(`"nonce":3`, `"nonce":3.0`),
		"negative number":            sub(`"nonce":3`, `"nonce":-3`),
		"escaped letter":             sub(`"simulator"`, `"\u0073imulator"`),
		"null member":                sub(`"somebody"`, `null`),
		"empty configuration":        sub(`"minKeyringEpoch":`, `"configurationSha256":"","minKeyringEpoch":`),
		"empty configuration behind": append(append([]byte{}, good[:len(good)-1]...), `,"configurationSha256":""}`...),
		"configuration ahead":        sub(`"minKeyringEpoch":`, `"configurationSha256":"`+hexOf(7, 32)+`","minKeyringEpoch":`),
		"no threshold for recovery":  sub(`"threshold":1,`, `"threshold":1,"recoverThreshold":0,`),
		"one for recovery elsewhere": sub(`"threshold":1,`, `"recoverThreshold":2,"threshold":1,`),
		"cut":                        good[:len(good)-1],
	} {
		if bytes.Equal(raw, good) {
			t.Fatalf("%s: nothing was changed", name)
		}
		_, err := attestation.ParseManifest(raw)
		refused(t, err, name)
	}
}

func TestManifestHash(t *testing.T) {
	h := attestation.Hash([]byte(`{"cloisterTestManifest":1,"set":"set-1"}`))
	if got := hex.EncodeToString(h[:]); got != "4d6116652b5c7dfbdd6a7a0e73c52209d634b8e5e40f770663d75f4a7ff4207e" {
		t.Error(got)
	}
}

func FuzzManifest(f *testing.F) {
	good, err := testManifest(f).Encode()
	must(f, err)
	f.Add(good)
	logged, err := witnessed(f).Encode()
	must(f, err)
	f.Add(logged)
	f.Add([]byte(`{"format":1,"pcrs":{"0":""}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := attestation.ParseManifest(raw)
		if err != nil {
			return
		}
		again, err := m.Encode()
		if err != nil || !bytes.Equal(raw, again) {
			t.Fatalf("an accepted manifest is not its own encoding: %v", err)
		}
	})
}

func TestParseOperators(t *testing.T) {
	m := testManifest(t)
	raw, err := m.Encode()
	must(t, err)
	alone, err := json.Marshal(m.Operators)
	must(t, err)
	for name, b := range map[string][]byte{"manifest": raw, "alone": alone} {
		if o, err := attestation.ParseOperators(b); err != nil || !o.Equal(m.Operators) {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
	m.Operators = attestation.Operators{}
	none, err := m.Encode()
	must(t, err)
	for name, b := range map[string]string{
		"a manifest that names none": string(none), "nothing": "", "none": `{"threshold":0,"publicKeys":[]}`, "no threshold": strings.Replace(string(alone), ":1", ":0", 1),
		"too high a threshold": strings.Replace(string(alone), ":1", ":3", 1), "a manifest in another form": " " + string(raw), "more members": `{"a":1,` + string(alone[1:]),
		"a key that is none": `{"threshold":1,"publicKeys":["02"]}`, "bytes behind": string(alone) + "{}",
	} {
		_, err := attestation.ParseOperators([]byte(b))
		refused(t, err, name)
	}
}

func FuzzOperators(f *testing.F) {
	m := testManifest(f)
	for _, v := range []any{m, m.Operators} {
		raw, err := json.Marshal(v)
		must(f, err)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if o, err := attestation.ParseOperators(raw); err == nil && (!o.Named() || o.Threshold < 1 || o.Threshold > len(o.PublicKeys)) {
			t.Fatalf("%+v", o)
		}
	})
}
