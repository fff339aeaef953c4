package client_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"cloister/attestation"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// A host that shows approvers another view than the enclave's reaches no client that takes signed replies only, even if digest and
// view fit each other.
func TestAnotherViewIsRefused(t *testing.T) {
	w := start(t, rig.Options{})
	root := w.Root()
	address := client.Text(root.Do("CREATE_WALLET", client.Wallet("Treasury", client.Ethereum)), "addresses", "0")
	second := root.NewUser("Second")
	root.Do("UPDATE_ROOT_QUORUM", client.Object{"threshold": 2, "userIds": []any{root.User, second.User}})
	waits := root.Submit("SIGN_RAW_PAYLOAD_V2", client.Payload(address, "6869", "SHA256"))
	ask := []byte(`{"organizationId":"` + root.Organization + `","activityId":"` + waits.Text("activity", "id") + `"}`)
	get := func(alter func(activity map[string]json.RawMessage)) (answer, error) {
		w.way.alter = func(_ *http.Request, _ *http.Response, body []byte) []byte {
			var reply struct {
				Activity map[string]json.RawMessage `json:"activity"`
			}
			if alter == nil {
				return body
			}
			if err := json.Unmarshal(body, &reply); err != nil {
				t.Fatal(err)
			}
			alter(reply.Activity)
			changed, err := json.Marshal(&reply)
			if err != nil {
				t.Fatal(err)
			}
			return changed
		}
		return w.send(w.transport(), w.api+"/public/v1/query/get_activity", ask)
	}
	honest, err := get(nil)
	if err != nil || honest.status != 200 || !bytes.Contains([]byte(honest.body), []byte(`"lines":["hi"]`)) {
		t.Fatal(honest, err)
	}
	for name, alter := range map[string]func(a map[string]json.RawMessage){
		"another view": func(a map[string]json.RawMessage) {
			a["decoded"] = bytes.Replace(a["decoded"], []byte(`"hi"`), []byte(`"ho"`), 1)
		},
		"another digest": func(a map[string]json.RawMessage) { a["decodedDigest"] = []byte(`"00"`) },
		"neither":        func(a map[string]json.RawMessage) { delete(a, "decoded"); delete(a, "decodedDigest") },
		"both, which agree": func(a map[string]json.RawMessage) {
			view := bytes.Replace(a["decoded"], []byte(`"hi"`), []byte(`"ho"`), 1)
			a["decoded"], a["decodedDigest"] = view, []byte(`"`+attestation.DecodedDigest(view)+`"`)
		},
		"another fingerprint": func(a map[string]json.RawMessage) {
			a["fingerprint"] = []byte(`"` + attestation.Fingerprint(nil) + `"`)
		},
	} {
		if got, err := get(alter); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	var a struct {
		Activity struct {
			Decoded       json.RawMessage
			DecodedDigest string
		}
	}
	if err := json.Unmarshal([]byte(honest.body), &a); err != nil || attestation.DecodedDigest(a.Activity.Decoded) != a.Activity.DecodedDigest {
		t.Error(err, honest)
	}
}
