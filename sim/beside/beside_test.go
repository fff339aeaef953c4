package beside_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/attestation/programs"
	host "cloister/host/programs"
	"cloister/shared/clocktest"
	"cloister/shared/tvc"
	"cloister/shared/tvc/tvctest"
	"cloister/sim/beside"
	"cloister/sim/laptop"
)

// This test is the enclave that its host starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "beside" {
		self, err := os.Executable()
		if err == nil {
			err = beside.Main([]string{self, "beside"}, os.Args[2:])
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// images is a registry of one image, which the host was told to take the program from.
type images map[string][]byte

func (i images) Program(_ context.Context, image, path string) ([]byte, error) {
	program, ok := i[image+path]
	if !ok {
		return nil, errors.New("no such image")
	}
	return program, nil
}

// cosigner is the example, as static as an image has it.
var cosigner = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "cosigner-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "cosigner")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", file, "cloister/sim/cosigner")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return os.ReadFile(file)
})

const image, path = "registry.test/cosigner@sha256:abababababababababababababababababababababababababababababababab", "/cosigner"

// namespaces tells whether an ordinary user may make them here.
var namespaces = exec.Command("unshare", "-Urn", "true").Run() == nil

// A machine is what a host starts enclaves with, for the example.
type machine struct {
	program   []byte
	registers [3][48]byte // of the enclaves
	der       []byte      // of the certificate that their documents lead to
	rootPEM   string      // the same
	dir       string
	process   *host.Process
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	if testing.Short() {
		t.Skip("left to make campaign: customers' programs in processes of their own")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("programs are confined on x86-64 alone")
	}
	program, err := cosigner()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	root, err := (&laptop.Dir{Path: dir}).ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	registers, der, err := beside.Image(root)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &machine{program, registers, der, root.PEM(), dir, &host.Process{Command: []string{self, "beside", dir}, Stderr: os.Stderr}}
}

type rig struct {
	*tvctest.App
	t       *testing.T
	host    *host.Host
	images  images
	rootPEM string
}

func newRig(t *testing.T) *rig {
	m := newMachine(t)
	r := &rig{App: tvctest.New(t, m.program, m.registers, m.der), t: t, images: images{image + path: m.program}, rootPEM: m.rootPEM}
	r.Manifest.Pivot.Args = []string{"-limit", "100", "-to", "alice,bob"}
	r.host = host.New(host.Config{Machine: m.process, Images: r.images, After: soon})
	t.Cleanup(r.host.Stop)
	return r
}

// soon is a timer a hundred times as fast, that tests do not wait.
func soon(d time.Duration) <-chan time.Time { return time.After(d / 100) }

func (r *rig) order(id string, approvals int) *tvc.Run {
	return &tvc.Run{AppID: "app", DeploymentID: id, Envelope: r.Envelope(r.t, approvals), Image: image, Path: path,
		HealthCheckType: tvc.HealthHTTP, HealthCheckPort: 3000, PublicIngressPort: 3000, Replicas: 1}
}

// await waits until the first replica of a deployment is as it should be.
func (r *rig) await(id string, is func(host.Replica) bool) (first host.Replica) {
	r.t.Helper()
	defer func() {
		if r.t.Failed() {
			r.t.Logf("%+v", first)
		}
	}()
	clocktest.Until(r.t, "the first replica of "+id+" is as it should be", func() bool {
		all, _, err := r.host.Status(id)
		if err != nil {
			r.t.Fatal(err)
		}
		first = all[0]
		return is(first)
	})
	return first
}

func (r *rig) policy() programs.Policy {
	return programs.Policy{ManifestSHA256: r.Hash(r.t), SimulatorRootPEM: r.rootPEM}
}

// provision gives shares as their holders would: each verifies what the enclave attests first.
func (r *rig) provision(id string, shares [][]byte) error {
	r.t.Helper()
	r.await(id, func(x host.Replica) bool { return x.Status.State == tvc.StateShares })
	setups, err := r.host.Setups(r.t.Context(), id)
	if err != nil || len(setups) != 1 {
		r.t.Fatalf("%d setups: %v", len(setups), err)
	}
	for i, share := range shares {
		policy := r.policy()
		policy.AllowDebug = r.Manifest.Pivot.DebugMode
		setup, err := programs.VerifySetup(setups[0], policy)
		if err != nil {
			r.t.Fatal(err)
		}
		posted, err := setup.Share(rand.Reader, r.Manifest.ShareSet.Members[i], r.Operators[i].Signing, share)
		if err != nil {
			r.t.Fatal(err)
		}
		if err := r.host.GiveShare(r.t.Context(), id, setups[0].PublicKey, posted); err != nil {
			return err
		}
	}
	return nil
}

// ingress leads to an app, and returns the URL.
func ingress(t *testing.T, h *host.Host, app string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = h.Ingress(t.Context(), app, l) }()
	return "http://" + l.Addr().String()
}

// unkept opens a connection for each request: one that is open stays with the deployment that it was led to.
var unkept = http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func post(t *testing.T, url, body string) (int, []byte) {
	t.Helper()
	reply, err := unkept.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	raw, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply.StatusCode, raw
}

// From an image's bytes to a co-signature that a client verifies offline.
func TestCosigner(t *testing.T) {
	r := newRig(t)
	if err := r.host.Run(t.Context(), r.order("first", 1)); err == nil {
		t.Error("the host took an order with one approval too few")
	}
	if err := r.host.Run(t.Context(), r.order("first", 2)); err != nil {
		t.Fatal(err)
	}
	other := tvctest.New(t, nil, [3][48]byte{{1}}, []byte{1})
	if err := r.provision("first", other.Shares[:2]); err == nil || !strings.Contains(err.Error(), "another key") {
		t.Fatalf("shares of another key: %v", err)
	}
	if err := r.provision("first", r.Shares[:2]); err != nil {
		t.Fatal(err)
	}
	r.await("first", func(x host.Replica) bool { return x.Healthy })
	if c, err := net.Dial("tcp", "127.0.0.1:3000"); err == nil && namespaces {
		t.Error("the program listens on this machine's network")
		_ = c.Close()
	}
	url := ingress(t, r.host, "app")
	status, raw := post(t, url+"/cosign", `{"to":"bob","amount":"40","nonce":"7"}`)
	if status != http.StatusOK {
		t.Fatalf("%d: %s", status, raw)
	}

	// The client: what it holds is the manifest's hash, and the root that it believes.
	proofs, err := r.host.Proofs(t.Context(), "first")
	if err != nil || len(proofs) != 1 {
		t.Fatalf("%d proofs: %v", len(proofs), err)
	}
	proof, err := programs.BootProof(proofs[0], time.Now())
	if err != nil {
		t.Fatal(err)
	}
	boot, err := programs.VerifyBoot(proof, r.policy())
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Signature string               `json:"signature"`
		AppProof  attestation.AppProof `json:"appProof"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		t.Fatal(err)
	}
	signature, err := hex.DecodeString(answer.Signature)
	if err != nil {
		t.Fatal(err)
	}
	message := []byte("cosigner transfer 1\nbob\n40\n7\n")
	if err := programs.VerifyCertified(&boot.Manifest, message, signature); err != nil {
		t.Error(err)
	}
	var claim struct{ Type, TimestampMs, TransferSha256, Limit, Signature string }
	if _, err := boot.VerifyProof(answer.AppProof, &claim); err != nil {
		t.Fatal(err)
	}
	sum := tvc.Hash(message) // SHA-256, as of a manifest
	if claim.Type != "EXAMPLE_COSIGNATURE" || claim.Limit != "100" || claim.Signature != answer.Signature || claim.TransferSha256 != hex.EncodeToString(sum[:]) {
		t.Errorf("%+v", claim)
	}
	forged := answer.AppProof
	forged.ProofPayload = strings.Replace(forged.ProofPayload, `"100"`, `"999"`, 1)
	if _, err := boot.VerifyProof(forged, &claim); err == nil {
		t.Error("a proof of other rules verifies")
	}
	for _, body := range []string{`{"to":"mallory","amount":"1","nonce":"8"}`, `{"to":"bob","amount":"101","nonce":"8"}`, `{"to":"bob","amount":"0","nonce":"8"}`} {
		if status, raw := post(t, url+"/cosign", body); status != http.StatusForbidden {
			t.Errorf("%s: %d %s", body, status, raw)
		}
	}

	// The second deployment of the app: its manifest is another, so are its keys, and the first's approvals are not for it.
	replayed := r.order("second", 2)
	replayed.Envelope.Manifest.Namespace.Nonce++
	if err := r.host.Run(t.Context(), replayed); err == nil {
		t.Error("approvals of the first deployment let the second run")
	}
	r.Manifest.Namespace.Nonce++
	r.Manifest.Pivot.Args[1] = "10"
	if err := r.host.Run(t.Context(), r.order("second", 2)); err != nil {
		t.Fatal(err)
	}
	if err := r.provision("second", r.Shares[:2]); err != nil {
		t.Fatal(err)
	}
	r.await("second", func(x host.Replica) bool { return x.Healthy })
	if status, _ := post(t, url+"/cosign", `{"to":"bob","amount":"40","nonce":"9"}`); status != http.StatusOK {
		t.Errorf("traffic has left the live deployment: %d", status)
	}
	live := r.order("second", 2)
	live.Live = true
	if err := r.host.Run(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	status, raw = post(t, url+"/cosign", `{"to":"bob","amount":"4","nonce":"9"}`)
	if err := json.Unmarshal(raw, &answer); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s: %v", status, raw, err)
	}
	if _, err := boot.VerifyProof(answer.AppProof, &claim); err == nil {
		t.Error("the second deployment's proof verifies under the first's boot")
	}
	if err := r.host.Run(t.Context(), &tvc.Run{AppID: "app", DeploymentID: "second", Stop: true}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.host.Status("second"); !errors.Is(err, host.ErrUnknown) {
		t.Errorf("a deployment that was stopped: %v", err)
	}
	if reply, err := unkept.Post(url+"/cosign", "application/json", strings.NewReader("{}")); err == nil {
		t.Errorf("an app without a live deployment answered %d", reply.StatusCode)
		_ = reply.Body.Close()
	}
}

// What a host may hand in instead, an enclave does not run.
func TestRefused(t *testing.T) {
	r := newRig(t)
	for name, c := range map[string]struct {
		want  string
		alter func()
	}{
		"another program":         {"digest", func() { r.images[image+path] = append(bytes.Clone(r.images[image+path]), 0) }},
		"a manifest for another":  {"PCR0", func() { r.Manifest.Enclave.PCR0 = strings.Repeat("ab", 48) }},
		"no such image":           {"no such image", func() { delete(r.images, image+path) }},
		"one for the root of AWS": {"awsRootCertificate", func() { r.Manifest.Enclave.AWSRootCertificate = "00" }},
	} {
		kept, program := r.Manifest, bytes.Clone(r.images[image+path])
		c.alter()
		if err := r.host.Run(t.Context(), r.order(name, 2)); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			one := *r
			one.t = t
			if got := one.await(name, func(x host.Replica) bool { return x.Failure != "" }); !strings.Contains(got.Failure, c.want) {
				t.Errorf("%+v", got)
			}
		})
		if err := r.host.Run(t.Context(), &tvc.Run{AppID: "app", DeploymentID: name, Stop: true}); err != nil {
			t.Fatal(err)
		}
		r.Manifest, r.images[image+path] = kept, program
	}
}

// In debug mode nothing is measured, the host reads along, and what was approved for measured enclaves does not run.
func TestDebugMode(t *testing.T) {
	r := newRig(t)
	r.Manifest.Pivot.DebugMode = true
	if err := r.host.Run(t.Context(), r.order("measured", 2)); err != nil {
		t.Fatal(err)
	}
	if got := r.await("measured", func(x host.Replica) bool { return x.Failure != "" }); !strings.Contains(got.Failure, "PCR0 of this enclave") {
		t.Errorf("%+v", got)
	}
	if err := r.host.Run(t.Context(), &tvc.Run{AppID: "app", DeploymentID: "measured", Stop: true}); err != nil {
		t.Fatal(err)
	}
	zero := strings.Repeat("00", 48)
	r.Manifest.Enclave.PCR0, r.Manifest.Enclave.PCR1, r.Manifest.Enclave.PCR2 = zero, zero, zero
	r.Manifest.Pivot.Args = []string{"-unknown"}
	if err := r.host.Run(t.Context(), r.order("debug", 2)); err != nil {
		t.Fatal(err)
	}
	r.await("debug", func(x host.Replica) bool { return x.Status.State == tvc.StateShares })
	setups, err := r.host.Setups(t.Context(), "debug")
	if err != nil || len(setups) != 1 {
		t.Fatal(len(setups), err)
	}
	if _, err := programs.VerifySetup(setups[0], r.policy()); err == nil {
		t.Error("a holder takes an enclave in debug mode for another")
	}
	if err := r.provision("debug", r.Shares[:2]); err != nil {
		t.Fatal(err)
	}
	clocktest.Until(t, "the host reads what the program writes", func() bool {
		output, err := r.host.Output(t.Context(), "debug")
		return err == nil && len(output) == 1 && bytes.Contains(output[0], []byte("-unknown"))
	})
}

// A program that ended stays so where its manifest says so; an enclave whose program is not well is started anew, and waits for
// its shares.
func TestEnds(t *testing.T) {
	r := newRig(t)
	r.Manifest.Pivot.Args = []string{"-unknown"}
	if err := r.host.Run(t.Context(), r.order("once", 2)); err != nil {
		t.Fatal(err)
	}
	if err := r.provision("once", r.Shares[:2]); err != nil {
		t.Fatal(err)
	}
	if got := r.await("once", func(x host.Replica) bool { return x.Status.State == tvc.StateEnded }); got.Healthy || got.Status.Starts != 1 {
		t.Errorf("%+v", got)
	}
	r.Manifest.Pivot.Args, r.Manifest.Namespace.Nonce = []string{"-port", "3001"}, 2 // listens, where nobody asks it
	if err := r.host.Run(t.Context(), r.order("elsewhere", 2)); err != nil {
		t.Fatal(err)
	}
	if err := r.provision("elsewhere", r.Shares[:2]); err != nil {
		t.Fatal(err)
	}
	if got := r.await("elsewhere", func(x host.Replica) bool { return x.Failure != "" }); !strings.Contains(got.Failure, "not well") {
		t.Errorf("%+v", got)
	}
	r.await("elsewhere", func(x host.Replica) bool { return x.Status.State == tvc.StateShares })
}
