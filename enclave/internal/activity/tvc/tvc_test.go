package tvc_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/tvc"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/program"
	"cloister/enclave/internal/secret/secrettest"
	"cloister/enclave/internal/shamir"
	manifest "cloister/shared/tvc"
)

type object = activitytest.Object

// wellKnown is the quorum key of the published template.
const wellKnown = "04451028fc9d42cef6d8f2a3ebe17d65783c470dbc6f04663d500c12009930cf9b209e733f6ac6103cc28f07ecde2dbb55095738b828d6b7a55caf4ddf9d67f2ae" +
	"047827dcd2325b8d58694c2ea14e8f1e1f8a36c84438d291ff9b1b067debdb3e2ba3822984cde8bed4de2c237bd323526da4961d368bcc63cbd2d37d00e936683e"

// operator is a person with keys of his own.
func operator(n byte) *manifest.Keys {
	k, err := manifest.NewKeys(bytes.Repeat([]byte{n}, 32))
	if err != nil {
		panic(err)
	}
	return k
}

func params(name string, threshold int, ns ...byte) object {
	var os []any
	for _, n := range ns {
		os = append(os, object{"name": fmt.Sprint("Operator ", n), "publicKey": operator(n).Hex()})
	}
	return object{"name": name, "threshold": threshold, "newOperators": os}
}

func app(name string) object {
	return object{"name": name, "quorumPublicKey": operator(99).Hex(), "manifestSetParams": params("Approvers", 2, 1, 2, 3), "shareSetParams": params("Holders", 2, 4, 5)}
}

func with(o object, member string, v any) object {
	c := activitytest.Without(o, member)
	if v != nil {
		c[member] = v
	}
	return c
}

func platform() *program.Platform {
	pcr := strings.Repeat("0b", 48)
	e := manifest.Enclave{AWSRootCertificate: "30", PCR0: pcr, PCR1: pcr, PCR2: pcr, PCR3: pcr, QOSCommit: "c"}
	return &program.Platform{Domain: "apps.example.com", Bases: []program.Base{{Name: "cloister-0", Enclave: e}, {Name: "cloister-1", Enclave: e}}}
}

func newWorld(t *testing.T) *activitytest.World {
	w := activitytest.New(t)
	w.Capabilities.Programs = platform()
	return w
}

func deployment(app any) object {
	return object{"appId": app, "qosVersion": "cloister-1", "pivotContainerImageUrl": "registry.example.com/app@sha256:" + strings.Repeat("0a", 32), "pivotPath": "/usr/bin/app",
		"pivotArgs": []any{"--verbose", "a b"}, "expectedPivotDigest": strings.Repeat("0C", 32), "healthCheckType": "TVC_HEALTH_CHECK_TYPE_GRPC", "healthCheckPort": 8081, "publicIngressPort": 8080}
}

func TestApp(t *testing.T) {
	w := newWorld(t)
	r := w.Run("CREATE_TVC_APP", app("Co-signer"))
	if len(activitytest.List(r, "manifestSetOperatorIds")) != 3 || len(activitytest.List(r, "shareSetOperatorIds")) != 2 || r["manifestSetThreshold"] != 2.0 || r["shareSetThreshold"] != 2.0 {
		t.Error(r)
	}
	// The same sets, in another order and by their ids, are the same ones.
	again := app("Another")
	m := again["manifestSetParams"].(object)
	m["newOperators"], m["existingOperatorIds"] = []any{object{"name": "Operator 3", "publicKey": strings.ToUpper(operator(3).Hex())}}, []any{r["manifestSetOperatorIds"].([]any)[1], r["manifestSetOperatorIds"].([]any)[0]}
	again = with(with(again, "shareSetParams", nil), "shareSetId", r["shareSetId"])
	s := w.Run("CREATE_TVC_APP", again)
	if s["manifestSetId"] != r["manifestSetId"] || s["shareSetId"] != r["shareSetId"] || s["appId"] == r["appId"] {
		t.Error(s)
	}
	// Another threshold, another name, another member: another set.
	for i, change := range []func(object){func(p object) { p["threshold"] = 1 }, func(p object) { p["name"] = "Others" }, func(p object) { p["newOperators"] = p["newOperators"].([]any)[:2] }} {
		one := app(fmt.Sprint("App ", i))
		change(one["manifestSetParams"].(object))
		if s := w.Run("CREATE_TVC_APP", one); s["manifestSetId"] == r["manifestSetId"] || s["shareSetId"] != r["shareSetId"] {
			t.Error(i, s)
		}
	}
	n := 0
	w.Must(w.Tx().EachTVCOperator(func(*org.TVCOperator) bool { n++; return true }))
	if n != 5 {
		t.Errorf("%d operators", n)
	}
	w.Refuse("CREATE_TVC_APP", app("Co-signer"), fault.InvalidArgument, "must be unique")
	w.Run("CREATE_TVC_APP", with(with(app("Debug"), "quorumPublicKey", wellKnown), "enableDebugModeDeployments", true))
}

func TestAppRefusals(t *testing.T) {
	w := newWorld(t)
	r := w.Run("CREATE_TVC_APP", app("One"))
	x := app("Two")
	set := func(which string, change func(object)) object {
		o := app("Two")
		change(o[which].(object))
		return o
	}
	twice := func(p object) { p["newOperators"] = append(p["newOperators"].([]any), p["newOperators"].([]any)[0]) }
	// One person under two names, by one half of a key.
	half := func(p object) {
		p["newOperators"] = append(p["newOperators"].([]any), object{"name": "Another", "publicKey": operator(9).Hex()[:130] + operator(1).Hex()[130:]})
	}
	for says, o := range map[string]object{
		"exactly one of manifestSetId":   with(x, "manifestSetId", r["manifestSetId"]),
		"exactly one of shareSetId and ": with(x, "shareSetParams", nil),
		"two points of P-256":            with(x, "quorumPublicKey", operator(1).Hex()[:130]),
		"everybody has the private half": with(x, "quorumPublicKey", wellKnown),
		"printable text":                 with(x, "name", "Two\u202e"),
		"must be 2 to the number":        set("shareSetParams", func(p object) { p["threshold"] = 1 }),
		"must be 1 to the number":        set("manifestSetParams", func(p object) { p["threshold"] = 4 }),
		"two members of one alias":       set("manifestSetParams", twice),
		"two members of one alias or":    set("manifestSetParams", half),
		"a set has 1 to 50":              set("manifestSetParams", func(p object) { p["newOperators"] = []any{} }),
		"must be a UUID":                 set("manifestSetParams", func(p object) { p["existingOperatorIds"] = []any{"x"} }),
	} {
		w.Refuse("CREATE_TVC_APP", o, fault.InvalidArgument, says)
	}
	w.Refuse("CREATE_TVC_APP", with(x, "enableEgress", true), fault.FailedPrecondition, "no way out")
	w.Refuse("CREATE_TVC_APP", with(with(x, "manifestSetParams", nil), "manifestSetId", activitytest.SomeID), fault.NotFound, "operator set not found")
	w.Refuse("CREATE_TVC_APP", set("manifestSetParams", func(p object) { p["existingOperatorIds"] = []any{activitytest.SomeID} }), fault.NotFound, "operator not found")
	// A set of one cannot hold shares.
	one := app("Three")
	one["manifestSetParams"].(object)["threshold"] = 1
	s := w.Run("CREATE_TVC_APP", one)
	w.Refuse("CREATE_TVC_APP", with(with(x, "shareSetParams", nil), "shareSetId", s["manifestSetId"]), fault.InvalidArgument, "must be 2 at least")
}

// What belongs to customers' programs lives in top-level organizations.
func TestTopLevelOnly(t *testing.T) {
	w := newWorld(t)
	r := w.Run("CREATE_SUB_ORGANIZATION_V7", object{"subOrganizationName": "Sub", "rootUsers": []any{activitytest.RootUser("A", activitytest.APIKey("k", w.FreshKey()))}, "rootQuorumThreshold": 1})
	sub := w.Sub(r["subOrganizationId"])
	sub.Capabilities.Programs = platform()
	for typ, o := range map[string]object{
		"CREATE_TVC_APP": app("One"), "CREATE_TVC_OPERATOR": {"walletName": "W", "path": "m/0'", "operatorName": "O"},
		"CREATE_TVC_QUORUM_KEY": {"threshold": 2, "operatorEncryptKeys": []any{operator(1).Hex()[:130], operator(2).Hex()[:130]}}, "CREATE_TVC_DEPLOYMENT": deployment(activitytest.SomeID),
		"CREATE_TVC_MANIFEST_APPROVALS":  activitytest.Sample("CreateTvcManifestApprovalsIntent"),
		"UPDATE_TVC_APP_LIVE_DEPLOYMENT": {"deploymentId": activitytest.SomeID}, "DELETE_TVC_DEPLOYMENT": {"deploymentId": activitytest.SomeID}, "RESTORE_TVC_DEPLOYMENT": {"deploymentId": activitytest.SomeID},
		"DELETE_TVC_APP_AND_DEPLOYMENTS": {"appId": activitytest.SomeID}, "POST_TVC_QUORUM_KEY_SHARE": activitytest.Sample("PostTvcQuorumKeyShareIntent"),
	} {
		if _, err := sub.Try(typ, o); fault.Of(err) == nil || fault.Of(err).Name != "INVALID_ACTIVITY_CALLER" {
			t.Errorf("%s: %v", typ, err)
		}
	}
}

// An operator's keys are accounts, with which he approves as any account signs.
func TestOperator(t *testing.T) {
	w := newWorld(t)
	r := w.Run("CREATE_TVC_OPERATOR", object{"walletName": "Operators", "path": "m/5527107'/0'/0'", "operatorName": "Hosted"})
	pair := r["encryptPublicKey"].(string) + r["signPublicKey"].(string)
	if _, err := manifest.ParsePair(pair); err != nil {
		t.Fatal(err)
	}
	second := w.Run("CREATE_TVC_OPERATOR", object{"walletId": r["walletId"], "path": "m/5527107'/0'/1'", "operatorName": "Second"})
	if second["walletId"] != r["walletId"] || second["encryptPublicKey"] == r["encryptPublicKey"] {
		t.Error(second)
	}
	for says, o := range map[string]object{
		"exactly one of walletName": {"walletName": "W", "walletId": r["walletId"], "path": "m/0'", "operatorName": "O"},
		"exactly one of walletNam":  {"path": "m/0'", "operatorName": "O"},
		"must be unique":            {"walletId": r["walletId"], "path": "m/5527107'/0'/0'", "operatorName": "Again"},
		"invalid path":              {"walletName": "W", "path": "m/x", "operatorName": "O"},
		"printable":                 {"walletName": "W", "path": "m/0'", "operatorName": "a\nb"},
	} {
		w.Refuse("CREATE_TVC_OPERATOR", o, fault.InvalidArgument, says)
	}
	w.Refuse("CREATE_TVC_OPERATOR", object{"walletId": activitytest.SomeID, "path": "m/0'", "operatorName": "O"}, fault.NotFound, "wallet not found")

	a := app("One")
	a["manifestSetParams"] = object{"name": "Hosted", "threshold": 2, "existingOperatorIds": []any{r["operatorId"], second["operatorId"]}}
	d := w.Run("CREATE_TVC_DEPLOYMENT", deployment(w.Run("CREATE_TVC_APP", a)["appId"]))
	hash := manifest.Hash(manifestOf(w, d).Bytes)
	var all []any
	for _, o := range []object{r, second} {
		s := w.Run("SIGN_RAW_PAYLOAD_V2", object{"signWith": o["signPublicKey"], "payload": hex.EncodeToString(hash[:]), "encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": "HASH_FUNCTION_SHA256"})
		all = append(all, object{"operatorId": o["operatorId"], "signature": s["r"].(string) + s["s"].(string)})
	}
	w.Run("CREATE_TVC_MANIFEST_APPROVALS", object{"manifestId": d["manifestId"], "approvals": all})
	if len(w.Last.Sends) != 1 {
		t.Error("hosted operators' approvals release nothing")
	}
}

// A quorum key is there only in shares: as many as the threshold give it back, in the form of operators' tools.
func TestQuorumKey(t *testing.T) {
	w := newWorld(t)
	keys := []any{operator(1).Hex()[:130], strings.ToUpper(operator(2).Hex()[:130]), operator(3).Hex()[:130]}
	r := w.Run("CREATE_TVC_QUORUM_KEY", object{"threshold": 2, "operatorEncryptKeys": keys})
	k, err := w.Tx().TVCQuorumKey(activitytest.MustID(r["quorumKeyId"]))
	w.Must(err)
	if len(k.Shares) != 3 || k.PublicKey != r["quorumPublicKey"] {
		t.Fatal(k)
	}
	open := func(i int) shamir.Part {
		share, err := manifest.Open(operator(byte(i+1)).Encryption, k.Shares[i].Sealed)
		if err != nil || len(share) != manifest.ShareSize {
			t.Fatal(err)
		}
		return shamir.Part{X: share[0], Y: secrettest.Of(share[1:])}
	}
	for _, two := range [][2]int{{0, 1}, {2, 0}, {1, 2}} {
		seed, err := shamir.Combine([]shamir.Part{open(two[0]), open(two[1])})
		w.Must(err)
		pair, err := manifest.NewKeys(secrettest.Bytes(seed))
		if err != nil || pair.Hex() != r["quorumPublicKey"] {
			t.Errorf("shares %v make another key: %v", two, err)
		}
	}
	if _, err := manifest.Open(operator(2).Encryption, k.Shares[0].Sealed); err == nil {
		t.Error("a share opens for another operator")
	}
	if other := w.Run("CREATE_TVC_QUORUM_KEY", object{"threshold": 3, "operatorEncryptKeys": keys}); other["quorumPublicKey"] == r["quorumPublicKey"] {
		t.Error("one key twice")
	}
	many := make([]any, 255)
	for i := range many {
		many[i] = operator(byte(i)).Hex()[:130]
	}
	for says, o := range map[string]object{
		"at most 254":             {"threshold": 2, "operatorEncryptKeys": many},
		"must be 2 to the number": {"threshold": 1, "operatorEncryptKeys": keys},
		"2 to the number of oper": {"threshold": 4, "operatorEncryptKeys": keys},
		"named twice":             {"threshold": 2, "operatorEncryptKeys": []any{keys[0], strings.ToUpper(keys[0].(string))}},
		"65 bytes":                {"threshold": 2, "operatorEncryptKeys": []any{keys[0], operator(2).Hex()}},
		"not a point":             {"threshold": 2, "operatorEncryptKeys": []any{keys[0], "04" + strings.Repeat("11", 64)}},
	} {
		w.Refuse("CREATE_TVC_QUORUM_KEY", o, fault.InvalidArgument, says)
	}
	if k := w.Run("CREATE_TVC_QUORUM_KEY", object{"threshold": 254, "operatorEncryptKeys": many[:254]}); len(activitytest.List(k, "shareIds")) != 254 {
		t.Error("254 operators are too many")
	}
}

func manifestOf(w *activitytest.World, r object) *org.TVCManifest {
	m, err := w.Tx().TVCManifest(activitytest.MustID(r["manifestId"]))
	w.Must(err)
	return m
}

func deploymentOf(w *activitytest.World, r object) *org.TVCDeployment {
	d, err := w.Tx().TVCDeployment(activitytest.MustID(r["deploymentId"]))
	w.Must(err)
	return d
}

// The manifest says what was asked for and what the configuration has, in the canonical form.
func TestDeployment(t *testing.T) {
	w := newWorld(t)
	a := w.Run("CREATE_TVC_APP", with(app("One"), "enableDebugModeDeployments", true))
	var asked *activity.Image
	w.Providers.Found = func(i *activity.Image) error { asked = i; return nil }
	r := w.Run("CREATE_TVC_DEPLOYMENT", with(deployment(a["appId"]), "pivotContainerEncryptedPullSecret", "sealed"))
	if asked.Reference.Registry != "registry.example.com" || asked.Path != "/usr/bin/app" || asked.PullSecret != "sealed" || asked.Expected.String() != "sha256:"+strings.Repeat("0c", 32) {
		t.Errorf("%+v", asked)
	}
	m, err := manifest.ParseManifest(manifestOf(w, r).Bytes)
	w.Must(err)
	if m.Namespace != (manifest.Namespace{Name: "prod/tvc/" + a["appId"].(string), Nonce: activitytest.Start / 1000, QuorumKey: operator(99).Hex()}) || m.Enclave != platform().Bases[1].Enclave ||
		m.Pivot.Hash != strings.Repeat("0c", 32) || m.Pivot.DebugMode || m.Pivot.Restart != "Always" || fmt.Sprint(m.Pivot.Args, m.Pivot.BridgeConfig) != "[--verbose a b] [{0.0.0.0 8080 server} {0.0.0.0 8081 server}]" ||
		m.ManifestSet.Threshold != 2 || len(m.ManifestSet.Members) != 3 || m.ShareSet.Members[1] != (manifest.Member{Alias: "Operator 5", PubKey: operator(5).Hex()}) {
		t.Errorf("%+v", m)
	}
	if d := deploymentOf(w, r); d.Replicas != 3 || d.Approved || d.Debug || len(w.Last.Sends) != 0 {
		t.Errorf("%+v", d)
	}
	// Each manifest of an app has a higher number than the one before.
	debug := with(with(deployment(a["appId"]), "debugMode", true), "healthCheckPort", 8080)
	if m, err := manifest.ParseManifest(manifestOf(w, w.Run("CREATE_TVC_DEPLOYMENT", debug)).Bytes); err != nil || m.Namespace.Nonce != activitytest.Start/1000+1 || !m.Pivot.DebugMode || len(m.Pivot.BridgeConfig) != 1 ||
		m.Enclave.PCR0 != strings.Repeat("00", 48) || m.Enclave.PCR3 != m.Enclave.PCR0 || m.Enclave.AWSRootCertificate != "30" {
		t.Error(m, err)
	}
	w.Refuse("CREATE_TVC_DEPLOYMENT", with(deployment(a["appId"]), "nonce", activitytest.Start/1000+1), fault.InvalidArgument, "must be more than")
	w.Run("CREATE_TVC_DEPLOYMENT", with(deployment(a["appId"]), "nonce", uint32(1<<32-2)))
	w.Run("CREATE_TVC_DEPLOYMENT", deployment(a["appId"]))
	w.Refuse("CREATE_TVC_DEPLOYMENT", deployment(a["appId"]), fault.ResourceExhausted, "no higher nonce")
}

func TestDeploymentRefusals(t *testing.T) {
	w := newWorld(t)
	a := w.Run("CREATE_TVC_APP", app("One"))["appId"]
	known := w.Run("CREATE_TVC_APP", with(with(app("Known"), "quorumPublicKey", wellKnown), "enableDebugModeDeployments", true))["appId"]
	x := deployment(a)
	for says, o := range map[string]object{
		"must be pinned":                  with(x, "pivotContainerImageUrl", "registry.example.com/app:1"),
		"64 digits":                       with(x, "pivotContainerImageUrl", "registry.example.com/app@sha256:00"),
		"SHA-256 of the program":          with(x, "expectedPivotDigest", "0c"),
		"whole path":                      with(x, "pivotPath", "usr/bin/app"),
		"whole path of a file":            with(x, "pivotPath", "/usr/../app"),
		"1 to 65535":                      with(x, "publicIngressPort", 65536),
		"must be 1 to 65535":              with(x, "healthCheckPort", 0),
		"must be 1 to 16":                 with(x, "replicas", 17),
		"no such version":                 with(x, "qosVersion", "cloister-2"),
		"without deployments in debug":    with(x, "debugMode", true),
		"runs in debug mode alone":        deployment(known),
		"no manifest can be made of this": with(x, "pivotArgs", []any{"a\x00b"}),
		"must be a UUID":                  with(x, "appId", "x"),
	} {
		w.Refuse("CREATE_TVC_DEPLOYMENT", o, fault.InvalidArgument, says)
	}
	for _, size := range []string{"instanceSizeCpus", "instanceSizeRam"} {
		w.Refuse("CREATE_TVC_DEPLOYMENT", with(x, size, 4), fault.Unimplemented, "the operator chooses the size of enclaves")
	}
	w.Refuse("CREATE_TVC_DEPLOYMENT", deployment(activitytest.SomeID), fault.NotFound, "app not found")
	w.Providers.Found = func(*activity.Image) error { return program.Invalid("wrong digest") }
	w.Refuse("CREATE_TVC_DEPLOYMENT", x, fault.InvalidArgument, "wrong digest")
	w.Capabilities.Programs = nil
	w.Refuse("CREATE_TVC_DEPLOYMENT", x, fault.FailedPrecondition, "has no member tvc")
}

// approval is an operator's, over a manifest.
func approval(id any, n byte, m *org.TVCManifest) object {
	s, err := manifest.Approve(operator(n).Signing, manifest.Hash(m.Bytes))
	if err != nil {
		panic(err)
	}
	return object{"operatorId": id, "signature": hex.EncodeToString(s)}
}

func TestApprovals(t *testing.T) {
	w := newWorld(t)
	a := w.Run("CREATE_TVC_APP", app("One"))
	ids := a["manifestSetOperatorIds"].([]any)
	other := w.Run("CREATE_TVC_DEPLOYMENT", deployment(a["appId"]))
	r := w.Run("CREATE_TVC_DEPLOYMENT", with(deployment(a["appId"]), "pivotContainerEncryptedPullSecret", "sealed"))
	m := manifestOf(w, r)
	approve := func(as ...any) object { return object{"manifestId": r["manifestId"], "approvals": as} }
	twin := approval(ids[0], 1, m)
	twin["signature"] = strings.Repeat("0", 128)
	for says, o := range map[string]object{
		"does not verify":      approve(twin),
		"does not verify:":     approve(approval(ids[0], 2, m)),                              // another operator's key
		"does not verify: it":  approve(approval(ids[0], 1, manifestOf(w, other))),           // another manifest
		"no operator of the":   approve(approval(activitytest.SomeID, 1, m)),                 // nobody
		"no operator of the a": approve(approval(a["shareSetOperatorIds"].([]any)[0], 4, m)), // of the other set
		"approved the man":     approve(approval(ids[0], 1, m), approval(ids[0], 1, m)),
		"64 bytes":             approve(object{"operatorId": ids[0], "signature": "00"}),
		"1 to 50":              approve(),
	} {
		w.Refuse("CREATE_TVC_MANIFEST_APPROVALS", o, fault.InvalidArgument, says)
	}
	w.Refuse("CREATE_TVC_MANIFEST_APPROVALS", with(approve(approval(ids[0], 1, m)), "manifestId", activitytest.SomeID), fault.NotFound, "manifest not found")
	// All or none.
	w.Refuse("CREATE_TVC_MANIFEST_APPROVALS", approve(approval(ids[0], 1, m), approval(ids[1], 3, m)), fault.InvalidArgument, "does not verify")

	if one := w.Run("CREATE_TVC_MANIFEST_APPROVALS", approve(approval(ids[2], 3, m))); len(activitytest.List(one, "approvalIds")) != 1 || len(w.Last.Sends) != 0 || deploymentOf(w, r).Approved {
		t.Error("one approval of two is enough", one)
	}
	// Another signature of the same operator is no second approval.
	w.Refuse("CREATE_TVC_MANIFEST_APPROVALS", approve(approval(ids[2], 3, m)), fault.InvalidArgument, "approved the manifest already")
	w.Run("CREATE_TVC_MANIFEST_APPROVALS", approve(approval(ids[0], 1, m)))
	run, p := told(w)
	if !deploymentOf(w, r).Approved || run.Stop || !run.Live || run.Image != "registry.example.com/app@sha256:"+strings.Repeat("0a", 32) || run.Path != "/usr/bin/app" || run.Replicas != 3 ||
		run.HealthCheckType != "GRPC" || run.HealthCheckPort != 8081 || run.PublicIngressPort != 8080 || p.Once {
		t.Errorf("%+v", run)
	}
	if hash, err := run.Envelope.Check(); err != nil || hash != manifest.Hash(m.Bytes) {
		t.Error("the program's enclave would not take it:", err)
	}
	// One more is kept, and nobody is told twice.
	w.Run("CREATE_TVC_MANIFEST_APPROVALS", approve(approval(ids[1], 2, m)))
	if len(w.Last.Sends) != 0 || len(manifestOf(w, r).Approvals) != 3 {
		t.Error("a third approval")
	}
}

// told is what the last run has told the host, as the host hears it now.
func told(w *activitytest.World) (*manifest.Run, *org.Program) {
	w.TB.Helper()
	if len(w.Last.Sends) != 1 || w.Last.Sends[0].Kind != org.SendProgram {
		w.TB.Fatalf("%d sends", len(w.Last.Sends))
	}
	p, err := org.DecodeProgram(w.Last.Sends[0].Content)
	w.Must(err)
	r, _, err := tvc.Run(w.Tx(), p)
	w.Must(err)
	raw, err := r.Encode()
	w.Must(err)
	r, err = manifest.ParseRun(raw)
	w.Must(err)
	return r, p
}

// approved makes a deployment that runs.
func approved(w *activitytest.World, a object) object {
	r := w.Run("CREATE_TVC_DEPLOYMENT", deployment(a["appId"]))
	m := manifestOf(w, r)
	ids := a["manifestSetOperatorIds"].([]any)
	w.Run("CREATE_TVC_MANIFEST_APPROVALS", object{"manifestId": r["manifestId"], "approvals": []any{approval(ids[0], 1, m), approval(ids[1], 2, m)}})
	return r
}

func TestLiveDeleteAndRestore(t *testing.T) {
	w := newWorld(t)
	a := w.Run("CREATE_TVC_APP", app("One"))
	live := func() string {
		app, err := w.Tx().TVCApp(activitytest.MustID(a["appId"]))
		w.Must(err)
		return app.Live.String()
	}
	first := approved(w, a)
	second := approved(w, a)
	if run, _ := told(w); run.Live || live() != first["deploymentId"] {
		t.Error("the second deployment is live")
	}
	about := func(r object) object { return object{"deploymentId": r["deploymentId"]} }
	w.Run("UPDATE_TVC_APP_LIVE_DEPLOYMENT", about(second))
	if run, p := told(w); !run.Live || !p.Once || live() != second["deploymentId"] {
		t.Error("the live deployment did not change")
	}
	w.Run("UPDATE_TVC_APP_LIVE_DEPLOYMENT", about(second)) // it is already
	if len(w.Last.Sends) != 0 {
		t.Error("told twice")
	}
	w.Run("DELETE_TVC_DEPLOYMENT", about(second))
	if run, p := told(w); !run.Stop || run.Envelope != nil || !p.Once || live() != (org.ID{}).String() || !deploymentOf(w, second).Deleted {
		t.Error("a deleted deployment goes on")
	}
	w.Run("DELETE_TVC_DEPLOYMENT", about(second))
	w.Refuse("UPDATE_TVC_APP_LIVE_DEPLOYMENT", about(second), fault.FailedPrecondition, "restore it first")
	w.Refuse("CREATE_TVC_MANIFEST_APPROVALS", object{"manifestId": second["manifestId"], "approvals": []any{approval(a["manifestSetOperatorIds"].([]any)[2], 3, manifestOf(w, second))}}, fault.FailedPrecondition, "restore it first")
	w.Run("RESTORE_TVC_DEPLOYMENT", about(second))
	if run, p := told(w); run.Stop || run.Live || p.Once || deploymentOf(w, second).Deleted {
		t.Error("a restored deployment does not run")
	}
	idle := w.Run("CREATE_TVC_DEPLOYMENT", deployment(a["appId"]))
	w.Refuse("UPDATE_TVC_APP_LIVE_DEPLOYMENT", about(idle), fault.FailedPrecondition, "not approved")
	w.Run("DELETE_TVC_DEPLOYMENT", about(idle))
	w.Run("RESTORE_TVC_DEPLOYMENT", about(idle))
	if len(w.Last.Sends) != 0 {
		t.Error("the host is told of what was never approved")
	}
	for _, typ := range []string{"UPDATE_TVC_APP_LIVE_DEPLOYMENT", "DELETE_TVC_DEPLOYMENT", "RESTORE_TVC_DEPLOYMENT"} {
		w.Refuse(typ, object{"deploymentId": activitytest.SomeID}, fault.NotFound, "deployment not found")
	}
	w.Run("DELETE_TVC_APP_AND_DEPLOYMENTS", object{"appId": a["appId"]})
	if len(w.Last.Sends) != 2 {
		t.Errorf("%d of 2 deployments are ended", len(w.Last.Sends))
	}
	left := 0
	w.Must(w.Tx().EachTVCDeployment(func(*org.TVCDeployment) bool { left++; return true }))
	if m := manifestOf(w, first); left != 0 || m != nil {
		t.Error("records of deployments are left")
	}
	w.Refuse("DELETE_TVC_APP_AND_DEPLOYMENTS", object{"appId": a["appId"]}, fault.NotFound, "app not found")
	w.Run("CREATE_TVC_APP", app("One"))
}

func TestPostShare(t *testing.T) {
	w := newWorld(t)
	a := w.Run("CREATE_TVC_APP", app("One"))
	holders := a["shareSetOperatorIds"].([]any)
	idle := w.Run("CREATE_TVC_DEPLOYMENT", deployment(a["appId"]))
	r := approved(w, a)
	m := manifestOf(w, r)
	box := strings.Repeat("0a", manifest.ShareBoxSize)
	post := func(by any, n byte, m *org.TVCManifest) object {
		s := approval(by, n, m)
		return object{"deploymentId": r["deploymentId"], "ephemeralPublicKeyHex": operator(77).Hex(), "shareApprovalBundle": object{"operatorId": by, "signature": s["signature"], "reEncryptedShareHex": box}}
	}
	for says, o := range map[string]object{
		"does not verify":     post(holders[0], 5, m),
		"does not verify: it": post(holders[0], 4, manifestOf(w, idle)),
		"no operator of":      post(a["manifestSetOperatorIds"].([]any)[0], 1, m),
		"130 bytes":           with(post(holders[0], 4, m), "ephemeralPublicKeyHex", operator(77).Hex()[:130]),
		"share's box":         with(post(holders[0], 4, m), "shareApprovalBundle", with(post(holders[0], 4, m)["shareApprovalBundle"].(object), "reEncryptedShareHex", box+"00")),
	} {
		w.Refuse("POST_TVC_QUORUM_KEY_SHARE", o, fault.InvalidArgument, says)
	}
	w.Refuse("POST_TVC_QUORUM_KEY_SHARE", with(post(holders[0], 4, m), "deploymentId", idle["deploymentId"]), fault.FailedPrecondition, "not approved")
	w.Run("POST_TVC_QUORUM_KEY_SHARE", post(holders[0], 4, m))
	_, p := told(w)
	share, err := manifest.ParsePostedShare(p.Share)
	if err != nil || p.SetupKey != operator(77).Hex() || share.Box != box || share.Approval.Member.PubKey != operator(4).Hex() {
		t.Error(p, err)
	}
	w.Run("DELETE_TVC_DEPLOYMENT", object{"deploymentId": r["deploymentId"]})
	w.Refuse("POST_TVC_QUORUM_KEY_SHARE", post(holders[0], 4, m), fault.FailedPrecondition, "restore it first")
}

// What one organization has, another does not find.
func TestOtherTenant(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	a := w.Run("CREATE_TVC_APP", app("One"))
	r := approved(w, a)
	other.Refuse("CREATE_TVC_DEPLOYMENT", deployment(a["appId"]), fault.NotFound, "app not found")
	other.Refuse("CREATE_TVC_APP", with(with(app("X"), "manifestSetParams", nil), "manifestSetId", a["manifestSetId"]), fault.NotFound, "operator set not found")
	other.Refuse("DELETE_TVC_DEPLOYMENT", object{"deploymentId": r["deploymentId"]}, fault.NotFound, "deployment not found")
	other.Refuse("CREATE_TVC_MANIFEST_APPROVALS", object{"manifestId": r["manifestId"], "approvals": []any{approval(a["manifestSetOperatorIds"].([]any)[2], 3, manifestOf(w, r))}}, fault.NotFound, "manifest not found")
	// Its own app of the same operators, by the same name, makes another manifest, whose approvals are worth nothing here.
	b := other.Run("CREATE_TVC_APP", app("One"))
	foreign := manifestOf(other, other.Run("CREATE_TVC_DEPLOYMENT", deployment(b["appId"])))
	w.Refuse("CREATE_TVC_MANIFEST_APPROVALS", object{"manifestId": r["manifestId"], "approvals": []any{approval(a["manifestSetOperatorIds"].([]any)[2], 3, foreign)}}, fault.InvalidArgument, "does not verify")
}
