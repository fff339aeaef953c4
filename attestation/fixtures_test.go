package attestation_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"cloister/attestation"
	"cloister/attestation/tlog"
	"cloister/attestation/tlog/tlogtest"
)

// With -write the files that the command is tested with are made anew, with new
// keys; then run the command's own tests with -update.
var (
	write     = flag.Bool("write", false, "make verify/testdata anew")
	writeKeys = flag.Bool("write-keys", false, "make verify/testdata/keys-*.json anew")
	writeLogs = flag.Bool("write-logs", false, "make verify/testdata/log-*.json anew")
)

const fixtures = "verify/testdata"

// TestFixtures holds the stored proofs against the package as it is now: what
// was made once must verify for ever.
func TestFixtures(t *testing.T) {
	if *write {
		writeFixtures(t)
	}
	if *writeKeys {
		writeKeysFixtures(t)
	}
	if *writeLogs {
		writeLogFixtures(t)
	}
	boot := readReply(t, "boot.json").BootProofs
	root, err := os.ReadFile(filepath.Join(fixtures, "root.pem"))
	must(t, err)
	body, err := os.ReadFile(filepath.Join(fixtures, "body.json"))
	must(t, err)
	p := attestation.Policy{SimulatorRootPEM: string(root), ExpectedPCRs: map[int]string{0: hexOf(0xa0, 48), 1: hexOf(0xa1, 48), 2: hexOf(0xa2, 48)},
		Operators: testManifest(t).Operators}
	e := attestation.Expectation{Fingerprint: attestation.Fingerprint(body)}
	proofs, err := attestation.VerifyAppProofs(readReply(t, "submit.json").AppProofs, boot, p, e)
	if err != nil || len(proofs) != 2 {
		t.Fatalf("%d proofs, %v", len(proofs), err)
	}
	_, err = attestation.VerifyAppProofs(readReply(t, "other.json").AppProofs, boot, p, e)
	refused(t, err, "another request's proofs")
}

func readReply(t *testing.T, name string) *attestation.Reply {
	raw, err := os.ReadFile(filepath.Join(fixtures, name))
	must(t, err)
	r, err := attestation.ParseReply(raw)
	must(t, err)
	return r
}

func saver(t *testing.T) func(name string, v any) {
	return func(name string, v any) {
		raw, ok := v.([]byte)
		if !ok {
			var b bytes.Buffer
			enc := json.NewEncoder(&b)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			must(t, enc.Encode(v))
			raw = b.Bytes()
		}
		must(t, os.WriteFile(filepath.Join(fixtures, name), raw, 0o644))
	}
}

// credentialsOf is what the command reads of a simulator's file.
func credentialsOf(m *maker) map[string]any {
	return map[string]any{
		"apiUrl": "http://127.0.0.1:8080", "rootApiKey": map[string]string{"publicKey": "02", "privateKey": "not read"},
		"attestationRootPem": m.rootPEM(), "manifestSha256": hexHash(m),
		"pcrs": map[string]string{"0": hexOf(0xa0, 48), "1": hexOf(0xa1, 48), "2": hexOf(0xa2, 48)},
	}
}

func saveOperators(t *testing.T, save func(string, any)) {
	o := testManifest(t).Operators
	save("operators.json", o)
	o.PublicKeys = []string{compressed(t, fixedKey(t, 9))}
	save("other-operators.json", o)
}

func writeKeysFixtures(t *testing.T) {
	m, save := newMaker(t), saver(t)
	save("keys-credentials.json", credentialsOf(m))
	save("keys-root.pem", []byte(m.rootPEM()))
	d := m.keysDocument()
	save("keys-document.json", d)
	d.Keys.Signer = d.Keys.OTP
	save("keys-altered.json", d)
	d = m.keysDocument()
	d.AppProof = m.appProof(addressClaim())
	save("keys-address.json", d)
}

func writeLogFixtures(t *testing.T) {
	save := saver(t)
	for name, l := range map[string]*logged{
		"log":           newLogged(t, 1, tlog.ModeStrict, nil),
		"log-moved":     newLogged(t, 2, tlog.ModeBounded, &tlog.Adopt{How: tlog.HowMoved, Origin: logsOf + "/1", Size: 40}),
		"log-recovered": newLogged(t, 3, tlog.ModeStrict, &tlog.Adopt{How: tlog.HowRecovered, Origin: logsOf + "/1", Size: 40, Witnessed: 43}),
	} {
		save(name+"-credentials.json", credentialsOf(l.maker))
		save(name+"-boot.json", map[string]any{"bootProof": l.bootProof(nil)})
		save(name+"-proof.json", attestation.LogProof{LogProof: l.text, LogKey: l.logKey})
		save(name+"-submit.json", map[string]any{"activity": map[string]any{"id": activity, "appProofs": []attestation.AppProof{l.proof}}})
		if name == "log" {
			another := addressClaim()
			another.Freshness = nil
			save("log-address.json", l.appProof(another))
			save("log-altered.json", attestation.LogProof{LogProof: flip(l.text, len(l.text)/4), LogKey: l.logKey})
			save("log-root.pem", []byte(l.rootPEM()))
			reply := func(id string) map[string]any {
				return map[string]any{"logProof": l.text, "logKey": l.logKey, "activity": map[string]any{"id": id, "organizationId": "11111111-1111-4111-8111-111111111111",
					"type": "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", "status": "ACTIVITY_STATUS_COMPLETED", "fingerprint": attestation.Fingerprint([]byte("body")), "appProofs": []attestation.AppProof{l.proof}}}
			}
			save("log-reply.json", reply(activity))
			save("log-pasted.json", reply("33333333-3333-4333-8333-333333333333"))
			for generation := range 4 { // whose logs package tlogtest has
				key := tlogtest.NewSigner(fmt.Sprintf("%s/%d", logsOf, generation+1), tlog.TypeLog, fmt.Sprintf("log %s/%d", logsOf, generation+1))
				save(fmt.Sprintf("log-key-%d.json", generation+1), l.appProof(&attestation.LogKey{Origin: key.Name(), Key: key.String()}))
			}
		}
	}
}

func writeFixtures(t *testing.T) {
	m, unrelated, save := newMaker(t), newMaker(t), saver(t)
	type list = []attestation.AppProof
	reply := func(activity, body string, proofs list) map[string]any {
		return map[string]any{"activity": map[string]any{
			"id": activity, "organizationId": "11111111-1111-4111-8111-111111111111", "status": "ACTIVITY_STATUS_COMPLETED",
			"fingerprint": attestation.Fingerprint([]byte(body)), "failure": nil, "appProofs": proofs,
		}}
	}
	const one, two = "22222222-2222-4222-8222-222222222222", "33333333-3333-4333-8333-333333333333"
	body, otherBody := `{"type":"ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2"}`, `{"type":"ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2","timestampMs":"2"}`
	about := func(activity, body string) list {
		s, p := signatureClaim(body), policyClaim()
		s.ActivityID, p.ActivityID, p.Fingerprint = activity, activity, attestation.Fingerprint([]byte(body))
		return list{m.appProof(s), m.appProof(p)}
	}
	save("credentials.json", credentialsOf(m))
	save("root.pem", []byte(m.rootPEM()))
	save("stranger-root.pem", []byte(unrelated.rootPEM()))
	save("measurements.json", map[string]string{"0": hexOf(0xa0, 48), "1": hexOf(0xa1, 48), "2": hexOf(0xa2, 48)})
	save("nitro-cli.json", map[string]any{"Measurements": map[string]string{
		"HashAlgorithm": "Sha384 { ... }", "PCR0": hexOf(0xa0, 48), "PCR1": hexOf(0xa1, 48), "PCR2": hexOf(0xa2, 48)}})
	save("other-image.json", map[string]string{"0": hexOf(1, 48), "1": hexOf(0xa1, 48), "2": hexOf(0xa2, 48)})
	save("boot.json", map[string]any{"bootProof": m.bootProof(nil)})
	save("stranger-boot.json", map[string]any{"bootProof": unrelated.bootProof(nil)})
	save("debug-boot.json", m.bootProof(func(d *doc) { d.PCRs[0], d.PCRs[1], d.PCRs[2] = d.PCRs[31], d.PCRs[31], d.PCRs[31] }))
	saveOperators(t, save)
	save("body.json", []byte(body))
	save("submit.json", reply(one, body, about(one, body)))
	save("other.json", reply(two, otherBody, about(two, otherBody)))
	save("mixed.json", reply(one, body, about(two, otherBody)))
	save("withheld.json", reply(one, body, list{}))
	save("addresses.json", map[string]any{"appProofs": list{m.appProof(addressClaim())}})
	forged := m.appProof(signatureClaim(body))
	forged.ProofPayload = string(bytes.Replace([]byte(forged.ProofPayload), []byte(hexOf(5, 32)), []byte(hexOf(6, 32)), 1))
	save("forged.json", forged)
}
