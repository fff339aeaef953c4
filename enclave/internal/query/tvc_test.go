package query_test

import (
	"strings"
	"testing"

	"cloister/enclave/internal/org"
)

// app stores an app with its operators and sets.
func (w *world) app(n byte) *org.TVCApp {
	a := &org.TVCApp{ID: id('A', n), Name: "App", QuorumPublicKey: "04aa", ManifestSet: id('S', 1), ShareSet: id('S', 2), Debug: n == 1, CreatedMs: 1000 * uint64(n), UpdatedMs: 5000}
	w.change(func(tx *org.Tx) {
		for i := byte(1); i <= 2; i++ {
			w.must(tx.PutTVCOperator(&org.TVCOperator{ID: id('O', i), Name: "Operator", PublicKey: "04bb", CreatedMs: 1000}))
			w.must(tx.PutTVCOperatorSet(&org.TVCOperatorSet{ID: id('S', i), Name: "Set", Operators: []org.ID{id('O', 2), id('O', 1)}[:i], Threshold: uint32(i), CreatedMs: 2000}))
		}
		if n == 2 {
			a.Live = id('D', 1)
		}
		w.must(tx.PutTVCApp(a))
	})
	return a
}

func TestTVCApps(t *testing.T) {
	w := newWorld(t)
	if got := w.get("list_tvc_apps", nil)["tvcApps"]; len(got.([]any)) != 0 {
		t.Error(got)
	}
	second, first := w.app(2), w.app(1)
	all := w.get("list_tvc_apps", nil)["tvcApps"].([]any)
	if len(all) != 2 || all[0].(object)["id"] != first.ID.String() || all[1].(object)["id"] != second.ID.String() {
		t.Fatal(all)
	}
	a := w.get("get_tvc_app", object{"tvcAppId": second.ID.String()})["tvcApp"].(object)
	set := a["shareSet"].(object)
	if a["organizationId"] != w.id.String() || a["liveDeploymentId"] != id('D', 1).String() || a["enableDebugModeDeployments"] != false || a["publicDomain"] != "" || set["threshold"] != 2.0 ||
		set["operators"].([]any)[1].(object)["id"] != id('O', 1).String() || a["manifestSet"].(object)["id"] != id('S', 1).String() {
		t.Error(a)
	}
	if a := all[0].(object); a["liveDeploymentId"] != nil || a["enableDebugModeDeployments"] != true {
		t.Error(a)
	}
	w.refused("get_tvc_app", object{"tvcAppId": id('A', 9).String()}, 5, "app not found")
	w.refused("get_tvc_app", object{"tvcAppId": "x"}, 3, "must be a UUID")
}

// Operators and quorum keys are listed whole, the newest first; a key names the operators that have its shares.
func TestTVCOperatorsAndQuorumKeys(t *testing.T) {
	w := newWorld(t)
	for op, list := range map[string]string{"list_tvc_operators": "tvcOperators", "list_tvc_quorum_keys": "tvcQuorumKeys"} {
		if got := w.get(op, nil)[list].([]any); len(got) != 0 {
			t.Errorf("%s: %v", op, got)
		}
	}
	w.change(func(tx *org.Tx) {
		for i := byte(1); i <= 3; i++ {
			o := &org.TVCOperator{ID: id('O', i), Name: "Operator", PublicKey: strings.Repeat("e", 129) + string('0'+rune(i)) + strings.Repeat("5", 130), CreatedMs: 1000 * uint64(i)}
			if i == 2 {
				o.Wallet, o.Path = id('W', 1), "m/0'"
			}
			w.must(tx.PutTVCOperator(o))
		}
		encrypt := func(i rune) string { return strings.Repeat("e", 129) + string('0'+i) }
		w.must(tx.PutTVCQuorumKey(&org.TVCQuorumKey{ID: id('K', 1), PublicKey: "04aa", Threshold: 2, Shares: []org.TVCShare{{EncryptKey: encrypt(3)}, {EncryptKey: encrypt(1)}, {EncryptKey: encrypt(9)}}, CreatedMs: 1000}))
		w.must(tx.PutTVCQuorumKey(&org.TVCQuorumKey{ID: id('K', 2), PublicKey: "04bb", Threshold: 2, CreatedMs: 2000}))
	})
	operators := w.get("list_tvc_operators", nil)["tvcOperators"].([]any)
	if got := strings.Join(pick(operators, "id"), " "); got != id('O', 3).String()+" "+id('O', 2).String()+" "+id('O', 1).String() {
		t.Error(got)
	}
	for i, source := range []string{"EXTERNAL_KEY", "ORG_WALLET_ACCOUNT", "EXTERNAL_KEY"} {
		o := operators[i].(object)
		if o["keySource"] != source || o["encryptPublicKey"].(string)+o["signPublicKey"].(string) != o["publicKey"] || len(o["signPublicKey"].(string)) != 130 {
			t.Error(o)
		}
	}
	keys := w.get("list_tvc_quorum_keys", nil)["tvcQuorumKeys"].([]any)
	if len(keys) != 2 || keys[0].(object)["id"] != id('K', 2).String() {
		t.Fatal(keys)
	}
	k := keys[1].(object)
	if holders := k["operatorIds"].([]any); len(holders) != 2 || holders[0] != id('O', 3).String() || holders[1] != id('O', 1).String() || k["threshold"] != 2.0 || k["publicKey"] != "04aa" {
		t.Error(k)
	}
}
