package rig_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"cloister/shared/tvc"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// images is a registry, and what is in it.
type images struct {
	t       *testing.T
	at      string // host:port
	auth    atomic.Pointer[string]
	asked   atomic.Int64
	corrupt atomic.Bool // what it gives
}

func startRegistry(t *testing.T) *images {
	x := &images{t: t}
	r := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	at := rig.ServeHTTP(t, http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
		x.asked.Add(1)
		if want := x.auth.Load(); want != nil {
			user, password, _ := q.BasicAuth()
			if user+":"+password != *want {
				rw.Header().Set("WWW-Authenticate", `Basic realm="images"`)
				rw.WriteHeader(http.StatusUnauthorized)
				return
			}
		}
		if x.corrupt.Load() && strings.Contains(q.URL.Path, "/blobs/") && q.Method == http.MethodGet {
			w := httptest.NewRecorder()
			r.ServeHTTP(w, q)
			b := w.Body.Bytes()
			b[len(b)/2] ^= 1
			rw.Header().Set("Content-Length", fmt.Sprint(len(b)))
			rw.Write(b)
			return
		}
		r.ServeHTTP(rw, q)
	}))
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	x.at = u.Host
	return x
}

// push puts an image of one layer with these files, and answers its name by digest.
func (x *images) push(repository string, files map[string][]byte) string {
	x.t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for path, body := range files {
		w.WriteHeader(&tar.Header{Name: path, Size: int64(len(body)), Mode: 0o755, Typeflag: tar.TypeReg})
		w.Write(body)
	}
	w.Close()
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		x.t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err == nil {
		image, err = mutate.ConfigFile(image, &v1.ConfigFile{Architecture: "amd64", OS: "linux", RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{must(layer.DiffID())}}})
	}
	if err != nil {
		x.t.Fatal(err)
	}
	ref, err := name.ParseReference(x.at + "/" + repository + ":latest")
	if err != nil {
		x.t.Fatal(err)
	}
	var auth authn.Authenticator = authn.Anonymous
	if want := x.auth.Load(); want != nil {
		user, password, _ := strings.Cut(*want, ":")
		auth = &authn.Basic{Username: user, Password: password}
	}
	if err := remote.Write(ref, image, remote.WithAuth(auth)); err != nil {
		x.t.Fatal(err)
	}
	return x.at + "/" + repository + "@" + must(image.Digest()).String()
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// person is an operator of customers' programs.
func person(n byte) *tvc.Keys { return must(tvc.NewKeys(bytes.Repeat([]byte{n}, tvc.SeedSize))) }

func twoPersons(name string) object {
	return object{"name": name, "threshold": 2, "newOperators": []any{object{"name": "One", "publicKey": person(1).Hex()}, object{"name": "Two", "publicKey": person(2).Hex()}}}
}

// program is one for x86-64: this test's own.
func program(t *testing.T) []byte {
	t.Helper()
	b := make([]byte, 1<<20)
	copy(b, "\x7fELF\x02\x01\x01")
	b[16], b[18] = 3, 62
	if own, err := os.ReadFile("/proc/self/exe"); err == nil && len(own) > 64 && own[18] == 62 {
		b = own[:min(len(own), 4<<20)]
	}
	return b
}

func deployment(app any, image, digest string, more ...any) object {
	in := object{"appId": app, "qosVersion": "cloister-1", "pivotContainerImageUrl": image, "pivotPath": "/usr/bin/app", "pivotArgs": []any{"-v"}, "expectedPivotDigest": digest,
		"healthCheckType": "TVC_HEALTH_CHECK_TYPE_HTTP", "healthCheckPort": 8080, "publicIngressPort": 8080}
	for i := 0; i < len(more); i += 2 {
		in[more[i].(string)] = more[i+1]
	}
	return in
}

// A program is looked for in its image at a registry, through the host, and the manifest says what was found there.
func TestPrograms(t *testing.T) {
	f := newFamily(t)
	x := startRegistry(t)
	body := program(t)
	digest := fmt.Sprintf("%x", sha256.Sum256(body))
	image := x.push("team/app", map[string][]byte{"usr/bin/app": body, "usr/bin/script": []byte("#!/bin/sh" + strings.Repeat("\n", 100))})
	app := f.Root().Do("CREATE_TVC_APP", object{"name": "App", "quorumPublicKey": person(9).Hex(), "manifestSetParams": twoPersons("Approvers"), "shareSetParams": twoPersons("Holders")})["appId"]
	try := func(image, digest string, more ...any) client.Reply {
		return f.Root().Submit("CREATE_TVC_DEPLOYMENT", deployment(app, image, digest, more...))
	}
	query := f.Root().Read
	makes := func(image, digest string, more ...any) object {
		return f.Root().Do("CREATE_TVC_DEPLOYMENT", deployment(app, image, digest, more...))
	}
	made := makes(image, digest)
	d := query("get_tvc_deployment", object{"deploymentId": made["deploymentId"]})["tvcDeployment"]
	raw, err := base64.StdEncoding.DecodeString(client.Text(d, "manifest", "manifest"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := tvc.ParseManifest(raw)
	if err != nil || m.Pivot.Hash != digest || !strings.HasPrefix(m.Enclave.PCR0, "0b00") || m.Namespace.Name != "prod/tvc/"+app.(string) || m.ManifestSet.Members[1].PubKey != person(2).Hex() {
		t.Error(m, err)
	}
	if client.Text(d, "pivotContainer", "containerUrl") != image || client.Text(d, "pivotContainer", "args", "0") != "-v" || client.Text(d, "delete") != "false" || client.Text(d, "pivotContainer", "hasPullSecret") != "false" {
		t.Error(d)
	}
	// What was seen is remembered: the registry is not asked again.
	before := x.asked.Load()
	makes(image, digest)
	if x.asked.Load() != before {
		t.Error("the same image is fetched twice within ten minutes")
	}
	if all := query("list_tvc_app_deployments", object{"appId": app})["tvcDeployments"].([]any); len(all) != 2 {
		t.Error(all)
	}
	if v := query("get_tvc_qos_versions", nil); v["latestVersion"] != "cloister-1" {
		t.Error(v)
	}
	if v := query("validate_tvc_image", object{"pivotContainerImageUrl": x.at + "/team/app:latest"}); !strings.HasSuffix(image, v["resolvedImageDigest"].(string)) {
		t.Error(v)
	}
	if got := query("get_tvc_app", object{"tvcAppId": app}); client.Text(got, "tvcApp", "publicDomain") != "app-"+app.(string)+".apps.example.com" {
		t.Error(got)
	}

	const failed = "TVC_IMAGE_VALIDATION_FAILED"
	other := x.push("team/other", map[string][]byte{"usr/bin/app": body[:1<<10], "x": []byte("another image")})
	_, byDigest, _ := strings.Cut(other, "@")
	for what, got := range map[string]client.Reply{
		"wrong digest: the program":   try(image, strings.Repeat("0a", 32)),
		"no such path in the image":   try(image, digest, "pivotPath", "/usr/bin/none"),
		"not ELF x86-64":              try(image, digest, "pivotPath", "/usr/bin/script"),
		"the registry has no such":    try(x.at+"/team/app@sha256:"+strings.Repeat("0a", 32), digest),
		"wrong digest: the program a": try(x.at+"/team/other@"+byDigest, digest),
		"the pull secret does not":    try(image, digest, "pivotContainerEncryptedPullSecret", "sealed"),
		"is none for the image's reg": try(image, digest, "pivotContainerEncryptedPullSecret", f.onRampSecret(`{"auths": {"registry.example.com": {"username": "u", "password": "p"}}}`)),
	} {
		wants(t, what, got, 400, failed, what)
	}
	// A secret of something else, shown to somebody's registry, is told to nobody.
	wants(t, "an on-ramp's secret", try(image, digest, "pivotContainerEncryptedPullSecret", f.onRampSecret("sk_live_1")), 400, failed, "is none for the image's registry")

	// A registry that asks for a secret gets the one for it.
	secret := "robot:pass:word"
	x.auth.Store(&secret)
	private := x.push("team/private", map[string][]byte{"usr/bin/app": body})
	wants(t, "no secret", try(private, digest), 400, failed, "needs another pull secret")
	doc := func(password string) string {
		return f.onRampSecret(`{"auths": {"` + x.at + `": {"username": "robot", "password": "` + password + `"}, "index.docker.io": {"auth": "eDp5"}}}`)
	}
	wants(t, "a wrong secret", try(private, digest, "pivotContainerEncryptedPullSecret", doc("wrong")), 400, failed, "needs another pull secret")
	r := makes(private, digest, "pivotContainerEncryptedPullSecret", doc("pass:word"))
	if d := query("get_tvc_deployment", object{"deploymentId": r["deploymentId"]})["tvcDeployment"]; client.Text(d, "pivotContainer", "hasPullSecret") != "true" {
		t.Error(d)
	}
	x.auth.Store(nil)

	// What the host gives in the place of what was named fails nothing for good: the same body comes again.
	fresh := x.push("team/fresh", map[string][]byte{"usr/bin/app": body, "more": []byte("fresh")})
	x.corrupt.Store(true)
	again := f.Root().Body("CREATE_TVC_DEPLOYMENT", deployment(app, fresh, digest))
	send := func() client.Reply {
		return submit(f.Root(), "CREATE_TVC_DEPLOYMENT", again)
	}
	wants(t, "altered on the way", send(), 503, "RPC_CALL_ERROR", "could not be fetched")
	x.corrupt.Store(false)
	wants(t, "as it is", send(), 200, "")
}
