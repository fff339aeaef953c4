package replay_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"cloister/enclave/core"
	"cloister/enclave/internal/org"
	"cloister/shared/tvc"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// operator is an operator of customers' programs.
func operator(t *testing.T, n byte) *tvc.Keys {
	k, err := tvc.NewKeys(bytes.Repeat([]byte{n}, tvc.SeedSize))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// setOfTwo are two persons' operators.
func setOfTwo(t *testing.T, name string) object {
	return object{"name": name, "threshold": 2, "newOperators": []any{object{"name": "One", "publicKey": operator(t, 1).Hex()}, object{"name": "Two", "publicKey": operator(t, 2).Hex()}}}
}

// pushed is an image at a registry, with the digest of its program.
func pushed(t *testing.T) (image, digest string) {
	t.Helper()
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	body := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 100)...)
	body[16], body[18] = 3, 62
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: "app", Size: int64(len(body)), Mode: 0o755, Typeflag: tar.TypeReg})
	w.Write(body)
	w.Close()
	fatal := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	fatal(err)
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	fatal(err)
	made, err := mutate.AppendLayers(empty.Image, layer)
	fatal(err)
	diff, err := layer.DiffID()
	fatal(err)
	made, err = mutate.ConfigFile(made, &v1.ConfigFile{Architecture: "amd64", OS: "linux", RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{diff}}})
	fatal(err)
	at := strings.TrimPrefix(s.URL, "http://") + "/team/app"
	ref, err := name.ParseReference(at + ":latest")
	fatal(err)
	fatal(remote.Write(ref, made))
	named, err := made.Digest()
	fatal(err)
	return at + "@" + named.String(), fmt.Sprintf("%x", sha256.Sum256(body))
}

// Of an app everything is found out again; of keys that are made what is public.
func TestReplayOfPrograms(t *testing.T) {
	platform := rig.NewProgramPlatform(t)
	h := begin(t, rig.Options{Witnesses: rig.StartWitnesses(t, rig.WitnessOptions{}), Configuration: []byte(`{"tvc":` + platform.Configuration() + `}`)})
	top := h.orgs[0]
	app := object{"name": "App", "quorumPublicKey": operator(t, 9).Hex(), "manifestSetParams": setOfTwo(t, "Approvers"), "shareSetParams": setOfTwo(t, "Holders")}
	keys := []any{operator(t, 1).Hex()[:130], operator(t, 2).Hex()[:130]}
	for _, c := range []struct {
		typ    string
		params object
		status int
	}{
		{"CREATE_TVC_APP", app, 200}, {"CREATE_TVC_APP", app, 400},
		{"CREATE_TVC_OPERATOR", object{"walletName": "Operators", "path": "m/5527107'/0'/0'", "operatorName": "Hosted"}, 200},
		{"CREATE_TVC_QUORUM_KEY", object{"threshold": 2, "operatorEncryptKeys": keys}, 200},
	} {
		if r, status := h.do(top, top.root, c.typ, c.params); status != c.status {
			t.Fatal(c.typ, r)
		}
	}
	image, digest := pushed(t)
	r, _ := h.do(top, top.root, "CREATE_TVC_APP", object{"name": "Second", "quorumPublicKey": operator(t, 8).Hex(), "manifestSetParams": setOfTwo(t, "Approvers"), "shareSetParams": setOfTwo(t, "Approvers")})
	deployment := object{"appId": client.Text(r, "appId"), "qosVersion": "cloister-1", "pivotContainerImageUrl": image, "pivotPath": "/app", "pivotArgs": []any{"-v"}, "expectedPivotDigest": digest,
		"healthCheckType": "TVC_HEALTH_CHECK_TYPE_HTTP", "healthCheckPort": 8080, "publicIngressPort": 8081}
	but := func(member string, value any) object {
		c := maps.Clone(deployment)
		c[member] = value
		return c
	}
	for i, c := range []struct {
		params object
		status int
	}{{deployment, 200}, {deployment, 200}, {but("pivotPath", "/none"), 400}, {but("expectedPivotDigest", strings.Repeat("0a", 32)), 400}, {but("qosVersion", "cloister-2"), 400}, {but("debugMode", true), 400}, {but("nonce", 1), 400}} {
		if r, status := h.do(top, top.root, "CREATE_TVC_DEPLOYMENT", c.params); status != c.status {
			t.Fatal(i, r)
		} else if i == 1 {
			h.do(top, top.root, "DELETE_TVC_DEPLOYMENT", object{"deploymentId": client.Text(r, "deploymentId")})
			h.do(top, top.root, "RESTORE_TVC_DEPLOYMENT", object{"deploymentId": client.Text(r, "deploymentId")})
		}
	}
	h.do(top, top.root, "DELETE_TVC_APP_AND_DEPLOYMENTS", object{"appId": client.Text(r, "appId")})
	reEncrypt(t, h, top, platform, deployment)
	original := h.read()
	report, err := run(copied(t, original))
	if err != nil {
		t.Fatal(err)
	}
	for typ, grade := range map[string]core.ReplayGrade{"CREATE_TVC_APP": core.ReplayRecomputed, "CREATE_TVC_OPERATOR": core.ReplayVerified, "CREATE_TVC_QUORUM_KEY": core.ReplayVerified,
		"CREATE_TVC_DEPLOYMENT": core.ReplayRecomputed, "RE_ENCRYPT_TVC_QUORUM_KEY_SHARE": core.ReplayVerified, "RESTORE_TVC_DEPLOYMENT": core.ReplayRecomputed} {
		if got := report.Grades["ACTIVITY_TYPE_"+typ]; got[grade] == 0 {
			t.Errorf("%s: %v", typ, got)
		}
	}
	// alter replaces text in the records and the result of a type's entry.
	for what, c := range map[string]struct{ typ, from, to string }{
		"an operator more":          {"CREATE_TVC_APP", operator(t, 2).Hex(), operator(t, 3).Hex()},
		"another key of the app":    {"CREATE_TVC_APP", operator(t, 9).Hex(), operator(t, 8).Hex()},
		"another set's name":        {"CREATE_TVC_APP", "Holders", "Helpers"},
		"another operator's name":   {"CREATE_TVC_OPERATOR", "Hosted", "Posted"},
		"another program":           {"CREATE_TVC_DEPLOYMENT", digest, strings.Repeat("0b", 32)},
		"another argument":          {"CREATE_TVC_DEPLOYMENT", `"-v"`, `"-w"`},
		"another approver":          {"CREATE_TVC_DEPLOYMENT", operator(t, 2).Hex(), operator(t, 3).Hex()},
		"another image":             {"CREATE_TVC_DEPLOYMENT", "team/app", "team/bad"},
		"a share for another boot":  {"RE_ENCRYPT_TVC_QUORUM_KEY_SHARE", operator(t, 7).Hex(), operator(t, 8).Hex()},
		"a share for somebody else": {"CREATE_TVC_QUORUM_KEY", operator(t, 2).Hex()[:130], operator(t, 3).Hex()[:130]},
	} {
		hs, changed := copied(t, original), false
		for _, one := range hs {
			for _, e := range one.Entries {
				if e.Entry.Type != "ACTIVITY_TYPE_"+c.typ {
					continue
				}
				for i, w := range e.Entry.Writes {
					b := bytes.ReplaceAll(w.Value, []byte(c.from), []byte(c.to))
					changed = changed || !bytes.Equal(b, w.Value)
					e.Entry.Writes[i] = org.Write{Key: w.Key, Value: b}
				}
			}
		}
		_, err := run(hs)
		if found, ok := errors.AsType[*core.ReplayFinding](err); !ok || !changed {
			t.Errorf("%s: %v %v", what, found, err)
		}
	}
	// A key that the accounts do not have.
	hs := copied(t, original)
	for _, one := range hs {
		for _, e := range one.Entries {
			if e.Entry.Type == "ACTIVITY_TYPE_CREATE_TVC_OPERATOR" && len(e.Entry.Result) > 0 {
				i := bytes.Index(e.Entry.Result, []byte(`"signPublicKey":"`)) + len(`"signPublicKey":"`)
				was := bytes.Clone(e.Entry.Result[i : i+130])
				for j, w := range e.Entry.Writes {
					if w.Key[0] == 'n' {
						e.Entry.Writes[j].Value = bytes.Replace(w.Value, was, []byte(operator(t, 3).Hex()[130:]), 1)
					}
				}
				e.Entry.Result = bytes.Replace(e.Entry.Result, was, []byte(hex.EncodeToString(operator(t, 3).Public[65:])), 1)
			}
		}
	}
	if _, err := run(hs); err == nil {
		t.Error("an operator with another's key passes")
	}
}

// reEncrypt has two operators whose keys are in wallets approve a deployment and give their shares. One share is asked for with
// another deployment's manifest first.
func reEncrypt(t *testing.T, h *history, top *member, platform *rig.ProgramPlatform, deployment object) {
	t.Helper()
	do := func(typ string, params object, want int) object {
		t.Helper()
		r, status := h.do(top, top.root, typ, params)
		if status != want {
			t.Fatal(typ, status, r)
		}
		return r
	}
	var hosted []object
	for _, name := range []string{"North", "South"} {
		hosted = append(hosted, do("CREATE_TVC_OPERATOR", object{"walletName": name, "path": "m/5527107'/0'/0'", "operatorName": name}, 200))
	}
	key := do("CREATE_TVC_QUORUM_KEY", object{"threshold": 2, "operatorEncryptKeys": []any{hosted[0]["encryptPublicKey"], hosted[1]["encryptPublicKey"]}}, 200)
	set := object{"name": "Hosted", "threshold": 2, "existingOperatorIds": []any{hosted[0]["operatorId"], hosted[1]["operatorId"]}}
	app := do("CREATE_TVC_APP", object{"name": "Hosted", "quorumPublicKey": key["quorumPublicKey"], "manifestSetParams": set, "shareSetParams": set}, 200)
	deployment = maps.Clone(deployment)
	deployment["appId"] = app["appId"]
	d := do("CREATE_TVC_DEPLOYMENT", deployment, 200)
	manifest, err := base64.StdEncoding.DecodeString(client.Text(h.as(top, top.root).Read("get_tvc_deployment", object{"deploymentId": d["deploymentId"]}), "tvcDeployment", "manifest", "manifest"))
	if err != nil {
		t.Fatal(err)
	}
	hash := tvc.Hash(manifest)
	for _, o := range hosted {
		s := do("SIGN_RAW_PAYLOAD_V2", object{"signWith": o["signPublicKey"], "payload": hex.EncodeToString(hash[:]), "encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": "HASH_FUNCTION_SHA256"}, 200)
		do("CREATE_TVC_MANIFEST_APPROVALS", object{"manifestId": d["manifestId"], "approvals": []any{object{"operatorId": o["operatorId"], "signature": client.Text(s, "r") + client.Text(s, "s")}}}, 200)
	}
	document := base64.StdEncoding.EncodeToString(platform.Waits(manifest, operator(t, 7)))
	for _, o := range hosted {
		ask := object{"attestationDocB64": document, "manifestB64": base64.StdEncoding.EncodeToString([]byte("{}")), "deploymentId": d["deploymentId"],
			"operatorEncryptKey": o["encryptPublicKey"], "operatorSignKey": o["signPublicKey"], "appQuorumKey": key["quorumPublicKey"]}
		do("RE_ENCRYPT_TVC_QUORUM_KEY_SHARE", ask, 400)
		ask["manifestB64"] = base64.StdEncoding.EncodeToString(manifest)
		do("RE_ENCRYPT_TVC_QUORUM_KEY_SHARE", ask, 200)
	}
}
