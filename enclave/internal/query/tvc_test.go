package query_test

import (
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
