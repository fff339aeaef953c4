package beside_test

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
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

	"cloister/attestation/programs"
	"cloister/host/egress"
	host "cloister/host/programs"
	pulling "cloister/host/registry"
	"cloister/shared/clocktest"
	"cloister/shared/tvc"
	"cloister/sim/client"
	signer "cloister/sim/rig"
)

type object = map[string]any

// push puts a program into an image at a registry of its own.
func push(t *testing.T, body []byte) string {
	t.Helper()
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	fatal := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	fatal(w.WriteHeader(&tar.Header{Name: "cosigner", Size: int64(len(body)), Mode: 0o755, Typeflag: tar.TypeReg}))
	_, err := w.Write(body)
	fatal(err)
	fatal(w.Close())
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	fatal(err)
	made, err := mutate.AppendLayers(empty.Image, layer)
	fatal(err)
	diff, err := layer.DiffID()
	fatal(err)
	made, err = mutate.ConfigFile(made, &v1.ConfigFile{Architecture: "amd64", OS: "linux", RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{diff}}})
	fatal(err)
	at := strings.TrimPrefix(s.URL, "http://") + "/cosigner"
	ref, err := name.ParseReference(at + ":1")
	fatal(err)
	fatal(remote.Write(ref, made))
	digest, err := made.Digest()
	fatal(err)
	return at + "@" + digest.String()
}

// From the signer's interface to a co-signature: an app, a key made in the signer's enclave, an image at a registry, approvals, shares,
// and a program that answers.
func TestWhole(t *testing.T) {
	m := newMachine(t)
	pulls := &host.Pulls{Registry: pulling.New((&egress.Dialer{Loopback: true}).DialContext, slog.New(slog.DiscardHandler))}
	runner := &host.Listener{Context: t.Context(), Pulls: pulls, Host: host.New(host.Config{Machine: m.process, Images: pulls, After: soon})}
	t.Cleanup(runner.Host.Stop)
	configuration, err := json.Marshal(object{"tvc": object{"domain": "apps.example.com", "root": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.der})),
		"versions": []any{object{"name": "cloister-1", "pcr0": hex.EncodeToString(m.registers[0][:]), "pcr1": hex.EncodeToString(m.registers[1][:]), "pcr2": hex.EncodeToString(m.registers[2][:])}}}})
	if err != nil {
		t.Fatal(err)
	}
	u := signer.Start(t, signer.Options{Dir: m.dir, Configuration: configuration, Programs: runner, About: runner}).Root()

	// Two operators have keys of their own, and the third has his in a wallet.
	var operators [2]*tvc.Keys
	var encrypt, people []any
	for i := range operators {
		if operators[i], err = tvc.NewKeys(bytes.Repeat([]byte{byte(i + 1)}, tvc.SeedSize)); err != nil {
			t.Fatal(err)
		}
		encrypt = append(encrypt, operators[i].Hex()[:2*tvc.PointSize])
		people = append(people, object{"name": fmt.Sprint("Operator ", i), "publicKey": operators[i].Hex()})
	}
	hosted := u.Do("CREATE_TVC_OPERATOR", object{"walletName": "Operator", "path": "m/5527107'/0'/0'", "operatorName": "Hosted"})
	key := u.Do("CREATE_TVC_QUORUM_KEY", object{"threshold": 2, "operatorEncryptKeys": append(encrypt, hosted["encryptPublicKey"])})
	set := object{"name": "All", "threshold": 2, "newOperators": people, "existingOperatorIds": []any{hosted["operatorId"]}}
	app := u.Do("CREATE_TVC_APP", object{"name": "Co-signer", "quorumPublicKey": key["quorumPublicKey"], "manifestSetParams": set, "shareSetParams": set})
	members := app["manifestSetOperatorIds"].([]any)
	image, digest := push(t, m.program), sha256.Sum256(m.program)
	d := u.Do("CREATE_TVC_DEPLOYMENT", object{"appId": app["appId"], "qosVersion": "cloister-1", "pivotContainerImageUrl": image, "pivotPath": "/cosigner",
		"pivotArgs": []any{"-limit", "100", "-to", "alice,bob"}, "expectedPivotDigest": hex.EncodeToString(digest[:]), "healthCheckType": "TVC_HEALTH_CHECK_TYPE_HTTP", "healthCheckPort": 3000,
		"publicIngressPort": 3000, "replicas": 1})
	about := object{"deploymentId": d["deploymentId"]}
	raw, err := base64.StdEncoding.DecodeString(u.Query("get_tvc_deployment", about).Text("tvcDeployment", "manifest", "manifest"))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := tvc.ParseManifest(raw)
	if err != nil {
		t.Fatal(err)
	}
	if r := u.Query("get_tvc_deployment_provisioning_details", about); r.Status != 400 {
		t.Error("details of what is not approved:", r)
	}
	approve := func(operator any, signature string) {
		u.Do("CREATE_TVC_MANIFEST_APPROVALS", object{"manifestId": d["manifestId"], "approvals": []any{object{"operatorId": operator, "signature": signature}}})
	}
	hash := tvc.Hash(raw)
	byWallet := u.Do("SIGN_RAW_PAYLOAD_V2", object{"signWith": hosted["signPublicKey"], "payload": hex.EncodeToString(hash[:]), "encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": "HASH_FUNCTION_SHA256"})
	approve(members[2], byWallet["r"].(string)+byWallet["s"].(string))
	if _, _, err := runner.Host.Status(d["deploymentId"].(string)); err == nil {
		t.Error("one approval of two lets it run")
	}
	approval, err := tvc.Approve(operators[0].Signing, hash)
	if err != nil {
		t.Fatal(err)
	}
	approve(members[0], hex.EncodeToString(approval))

	var details client.Reply
	clocktest.Until(t, "shares can be given", func() bool {
		details = u.Query("get_tvc_deployment_provisioning_details", about)
		return details.Text("provisioningState") == "PROVISIONING_STATE_AWAITING_PROVISION"
	})
	// The holder of a share verifies what the enclave attests, and gives it.
	document, err1 := base64.StdEncoding.DecodeString(details.Text("attestationDocument"))
	envelope, err2 := base64.StdEncoding.DecodeString(details.Text("manifestEnvelope"))
	if err1 != nil || err2 != nil {
		t.Fatal(details)
	}
	setup, err := programs.VerifySetup(tvc.Attested{Document: document, Envelope: envelope}, programs.Policy{ManifestSHA256: hash, SimulatorRootPEM: m.rootPEM})
	if err != nil {
		t.Fatal(err)
	}
	box, err := hex.DecodeString(u.Query("get_tvc_quorum_key", object{"quorumKeyId": key["quorumKeyId"]}).Text("quorumKey", "shares", "1", "encryptedShareHex"))
	if err != nil {
		t.Fatal(err)
	}
	share, err := tvc.Open(operators[1].Encryption, box)
	if err != nil {
		t.Fatal(err)
	}
	posted, err := setup.Share(rand.Reader, manifest.ShareSet.Members[1], operators[1].Signing, share)
	if err != nil {
		t.Fatal(err)
	}
	u.Do("POST_TVC_QUORUM_KEY_SHARE", object{"deploymentId": d["deploymentId"], "ephemeralPublicKeyHex": setup.KeyHex,
		"shareApprovalBundle": object{"operatorId": members[1], "signature": posted.Approval.Signature, "reEncryptedShareHex": posted.Box}})
	// For the operator whose keys are in a wallet, the signer's enclave verifies and gives.
	u.Do("RE_ENCRYPT_TVC_QUORUM_KEY_SHARE", object{"attestationDocB64": details.Text("attestationDocument"), "manifestB64": details.Text("manifestEnvelope"), "deploymentId": d["deploymentId"],
		"operatorEncryptKey": hosted["encryptPublicKey"], "operatorSignKey": hosted["signPublicKey"], "appQuorumKey": key["quorumPublicKey"]})
	state := func() string {
		r := u.Query("get_app_status", object{"appId": app["appId"]})
		return r.Text("appStatus", "deployments", "0", "readyReplicas") + " of " + r.Text("appStatus", "deployments", "0", "desiredReplicas")
	}
	clocktest.Until(t, "the program is well", func() bool { return state() == "1 of 1" })
	if r := u.Query("get_tvc_deployment_provisioning_details", about); r.Text("provisioningState") != "PROVISIONING_STATE_PROVISIONED" || r.Get("attestationDocument") != nil || r.Get("manifestEnvelope") == nil {
		t.Error(r)
	}
	status, answer := post(t, ingress(t, runner.Host, app["appId"].(string))+"/cosign", `{"to":"bob","amount":"40","nonce":"7"}`)
	var signed struct {
		Signature string `json:"signature"`
	}
	if err := json.Unmarshal(answer, &signed); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s", status, answer)
	}
	signature, err := hex.DecodeString(signed.Signature)
	if err != nil {
		t.Fatal(err)
	}
	// By the key that the signer's enclave made and nobody has.
	if err := programs.VerifyCertified(manifest, []byte("cosigner transfer 1\nbob\n40\n7\n"), signature); err != nil {
		t.Error(err)
	}
	u.Do("DELETE_TVC_DEPLOYMENT", about)
	runs := func() bool { _, _, err := runner.Host.Status(d["deploymentId"].(string)); return err == nil }
	clocktest.Until(t, "it runs no more", func() bool { return !runs() })
	u.Do("RESTORE_TVC_DEPLOYMENT", about)
	clocktest.Until(t, "it runs again", runs)
	// The host tells of what runs, and of nothing that the records do not have.
	if r := u.Query("get_app_status", object{"appId": app["appId"]}); r.Text("appStatus", "targetedDeploymentId") != "" {
		t.Error(r)
	}
}
