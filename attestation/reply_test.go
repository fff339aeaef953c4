package attestation_test

import (
	"encoding/json"
	"strings"
	"testing"

	"cloister/attestation"
)

func TestReplies(t *testing.T) {
	m := newMaker(t)
	a, _ := json.Marshal(m.appProof(signatureClaim("body")))
	b, _ := json.Marshal(m.bootProof(nil))
	app, boot := string(a), string(b)
	for name, c := range map[string]struct {
		text        string
		apps, boots int
	}{
		"app proof alone":    {app, 1, 0},
		"boot proof alone":   {boot, 0, 1},
		"list_app_proofs":    {`{"appProofs":[` + app + `,` + app + `]}`, 2, 0},
		"get_boot_proof":     {`{"bootProof":` + boot + `}`, 0, 1},
		"both":               {`{"appProofs":[` + app + `],"bootProof":` + boot + `}`, 1, 1},
		"submit":             {`{"activity":{"id":"i","result":{"deep":[null,{"x":1}]},"appProofs":[` + app + `]}}`, 1, 0},
		"null beside proofs": {`{"activity":null,"bootProof":` + boot + `}`, 0, 1},
	} {
		r, err := attestation.ParseReply([]byte(c.text))
		if err != nil || len(r.AppProofs) != c.apps || len(r.BootProofs) != c.boots {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	r, err := attestation.ParseReply([]byte(`{"activity":{"id":"i","organizationId":"o","fingerprint":"f","appProofs":[` + app + `]}}`))
	must(t, err)
	if r.ActivityID != "i" || r.OrganizationID != "o" || r.Fingerprint != "f" {
		t.Errorf("names of the activity: %+v", r)
	}
	for name, text := range map[string]string{
		"empty":                   ``,
		"an array":                `[` + app + `]`,
		"null":                    `null`,
		"no proof":                `{"activity":{"id":"i"}}`,
		"empty list":              `{"appProofs":[]}`,
		"proofs not a list":       `{"appProofs":{}}`,
		"appProofs in other case": `{"AppProofs":[` + app + `]}`,
		"null proof":              `{"appProofs":[null]}`,
		"proof with more members": strings.Replace(app, `{`, `{"note":"x",`, 1),
		"member twice":            `{"appProofs":[],"appProofs":[` + app + `]}`,
		"boot proof of numbers":   `{"bootProof":{"awsAttestationDocB64":1}}`,
		"activity is a text":      `{"activity":"x"}`,
		"id is a number":          `{"activity":{"id":1,"appProofs":[` + app + `]}}`,
		"trailing bytes":          `{"appProofs":[` + app + `]}x`,
		"too deep":                `{"appProofs":[` + app + `],"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
	} {
		_, err := attestation.ParseReply([]byte(text))
		refused(t, err, name)
	}
}

func FuzzReply(f *testing.F) {
	f.Add([]byte(`{"activity":{"id":"i","appProofs":[{"scheme":"s","publicKey":"","proofPayload":"{}","signature":""}]}}`))
	f.Add([]byte(`{"bootProof":{"awsAttestationDocB64":"hEQ=","createdAt":{"seconds":"1","nanos":"0"}}}`))
	f.Add([]byte(`{"activity":{"id":"i","type":"t","status":"s"},"logProof":"x","logKey":{"scheme":"s","publicKey":"","proofPayload":"{}","signature":""}}`))
	f.Add([]byte(`{"code":7,"details":[{"@type":"type.googleapis.com/cloister.v1.RefusedActivity","activityId":"i"}],"logProof":"x","logKey":{}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := attestation.ParseReply(raw)
		if (r == nil) == (err == nil) {
			t.Fatal("result and error do not exclude each other")
		}
		if err == nil && len(r.AppProofs)+len(r.BootProofs) == 0 && r.LogProof == nil {
			t.Fatal("accepted a reply without proofs")
		}
		if err == nil && r.CheckLogged(nil) == nil {
			t.Fatal("a log proof that nobody has verified fits")
		}
	})
}
