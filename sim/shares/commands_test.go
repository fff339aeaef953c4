package shares_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/shared/clocktest"
	"cloister/shared/porttest"
	"cloister/sim/laptop"
)

// A point of the curve and nobody's key.
const keyOfNobody = "036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"

// A desk is where the commands are run: the real binaries, files between them.
type desk struct {
	t            *testing.T
	dir          string
	enclave, api string
	digest       string // of the enclave's program
}

// newDesk builds the commands.
func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, dir: t.TempDir(), enclave: "tcp://" + porttest.Address(t), api: porttest.Address(t)}
	for name, from := range map[string]string{"cloister-sim": "cloister/sim", "cloister-host": "cloister/host", "cloister-verify": "cloister/attestation/verify"} {
		out, err := exec.Command("go", "build", "-o", d.file(name), from).CombinedOutput()
		if err != nil {
			t.Fatalf("building %s: %s", name, out)
		}
	}
	return d
}

// image writes what operators know: the root of the simulated module, and the image, here the program.
func (d *desk) image() (measured map[string]string) {
	d.t.Helper()
	root, err := (&laptop.Dir{Path: d.dir}).ModuleRoot()
	must(d.t, err)
	d.write("root.pem", []byte(root.PEM()))
	program, err := os.ReadFile(d.file("cloister-sim"))
	must(d.t, err)
	sum := sha256.Sum256(program)
	d.digest, measured = hex.EncodeToString(sum[:]), map[string]string{}
	for i, v := range laptop.Measurements(d.digest) {
		measured[fmt.Sprint(i)] = hex.EncodeToString(v[:])
	}
	raw, err := json.Marshal(measured)
	must(d.t, err)
	d.write("measurements.json", raw)
	return measured
}

func (d *desk) file(name string) string { return filepath.Join(d.dir, name) }

func (d *desk) write(name string, b []byte) string {
	d.t.Helper()
	must(d.t, os.WriteFile(d.file(name), b, 0o600))
	return d.file(name)
}

// patience bounds one wait. It ends a test that hangs; nothing is measured by it.
const patience = 10 * time.Minute

// hire makes three operators, of whom any two act together, and the flags of genesis that name them.
func (d *desk) hire() (o attestation.Operators, genesis []string) {
	d.t.Helper()
	o.Threshold, genesis = 2, []string{"-threshold", "2"}
	for n := 1; n <= 3; n++ {
		public := d.run("cloister-verify", "operator-key", "-out", d.file(fmt.Sprintf("key-%d", n)))
		var k struct{ PublicKey, ShareKey string }
		must(d.t, json.Unmarshal(public, &k))
		o.PublicKeys, o.ShareKeys = append(o.PublicKeys, k.PublicKey), append(o.ShareKeys, k.ShareKey)
		genesis = append(genesis, "-operator", d.write(fmt.Sprintf("public-%d", n), public))
		if st, err := os.Stat(d.file(fmt.Sprintf("key-%d", n))); err != nil || st.Mode() != 0o600 {
			d.t.Fatalf("key file: %v", st.Mode())
		}
	}
	return o, genesis
}

// draft is the first manifest of a deployment whose genesis was answered, with its admission key on the desk.
func (d *desk) draft(genesis []byte, operators attestation.Operators, measured map[string]string) attestation.Manifest {
	d.t.Helper()
	var made struct{ QuorumPublicKey string }
	must(d.t, json.Unmarshal(genesis, &made))
	admission, err := laptop.NewKey()
	must(d.t, err)
	d.write("admission-key", []byte(admission.PrivateKey))
	return attestation.Manifest{Format: 1, Kind: attestation.KindSimulator, Application: attestation.Application, Version: "test", ApplicationDigest: d.digest,
		DeploymentLabel: "commands", Nonce: 1, PCRs: attestation.Measurements{PCR0: measured["0"], PCR1: measured["1"], PCR2: measured["2"]},
		QuorumPublicKey: made.QuorumPublicKey, Operators: operators, AdmissionKey: admission.PublicKey, SeedSource: attestation.SeedOperatorShares,
		Freshness: attestation.Freshness{Mode: attestation.FreshSinceBoot}, MinKeyringEpoch: 1}
}

// approved writes a manifest in its one encoding, and what two operators say to it.
func (d *desk) approved(m attestation.Manifest) (manifest string, give []string) {
	d.t.Helper()
	draft, err := json.MarshalIndent(m, "", "  ")
	must(d.t, err)
	manifest = d.write("manifest.json", d.run("cloister-verify", "manifest", "-manifest", d.write("draft.json", draft)))
	give = []string{"-manifest", manifest}
	for n := 1; n <= 2; n++ {
		give = append(give, "-approval", d.write(fmt.Sprintf("approval-%d", n), d.run("cloister-verify", "approve", "-yes", "-key", d.file(fmt.Sprintf("key-%d", n)), "-manifest", manifest)))
	}
	return manifest, give
}

// try runs a command and gives what it wrote, and its errors' text if it failed.
func (d *desk) try(args ...string) (out []byte, refusal string) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if args[1] == "boot" { // has a limit of its own
		args = append([]string{args[0], "boot", "-timeout", patience.String()}, args[2:]...)
	}
	cmd := exec.CommandContext(ctx, d.file(args[0]), args[1:]...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return out, err.Error() + ": " + errs.String()
	}
	return out, ""
}

// until tries a command until it is not refused: the host may not be connected yet.
func (d *desk) until(args ...string) []byte {
	d.t.Helper()
	var out []byte
	var refusal string
	defer func() {
		if d.t.Failed() {
			d.t.Logf("refused: %s", refusal)
		}
	}()
	clocktest.Until(d.t, strings.Join(args, " ")+" is not refused", func() bool {
		out, refusal = d.try(args...)
		return refusal == ""
	})
	return out
}

func (d *desk) run(args ...string) []byte {
	d.t.Helper()
	out, refusal := d.try(args...)
	if refusal != "" {
		d.t.Fatalf("%s: %s", strings.Join(args, " "), refusal)
	}
	return out
}

func (d *desk) boot(args ...string) []byte {
	d.t.Helper()
	return d.run(append([]string{"cloister-host", "boot", "-enclave", d.enclave}, args...)...)
}

// start runs a process until the test ends or it is stopped.
func (d *desk) start(args ...string) (out io.Reader, stop func()) {
	d.t.Helper()
	cmd := exec.Command(d.file(args[0]), args[1:]...)
	cmd.Stderr = io.Discard
	pipe, err := cmd.StdoutPipe()
	must(d.t, err)
	must(d.t, cmd.Start())
	stop = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	d.t.Cleanup(stop)
	return pipe, stop
}

func (d *desk) startEnclave() (stop func()) {
	d.t.Helper()
	out, stop := d.start("cloister-sim", "enclave", "-shares", "-data-dir", d.dir, "-enclave-addr", strings.TrimPrefix(d.enclave, "tcp://"))
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		d.t.Fatal("the enclave did not start")
	}
	return stop
}

// expected are the flags with what the operators know of the image.
func (d *desk) expected() []string {
	return []string{"-simulator-root", d.file("root.pem"), "-measurements", d.file("measurements.json")}
}

// share makes operator n's submission for the enclave that waits.
func (d *desk) share(n int, shares string) string {
	d.t.Helper()
	nonce := strings.TrimSpace(string(d.run("cloister-verify", "nonce")))
	setup := d.write("setup.json", d.boot("-nonce", nonce, "setup-document"))
	args := append([]string{"cloister-verify", "share", "-key", d.file(fmt.Sprintf("key-%d", n)), "-shares", shares, "-nonce", nonce, "-setup", setup, "-operators", d.file("manifest.json")}, d.expected()...)
	return d.write(fmt.Sprintf("share-%d.json", n), d.run(args...))
}

// upgrade has an enclave at another address follow the one that serves, under a manifest
// that comes after m.
func (d *desk) upgrade(m attestation.Manifest, before, next string) {
	t := d.t
	t.Helper()
	old := d.enclave
	d.enclave = next
	d.startEnclave()
	after := successor(t, &m)
	raw, err := after.Encode()
	must(t, err)
	manifest := d.write("manifest-2.json", raw)
	give := []string{"-manifest", manifest, "-predecessor", before}
	for n := 1; n <= 2; n++ {
		give = append(give, "-approval", d.write(fmt.Sprintf("approval-2-%d", n), d.run("cloister-verify", "approve", "-yes", "-key", d.file(fmt.Sprintf("key-%d", n)), "-manifest", manifest)))
	}
	if _, refusal := d.try("cloister-host", "upgrade", "-from", old, "-to", next); !strings.Contains(refusal, "give it its manifest first") {
		t.Errorf("an upgrade to an enclave without a manifest: %q", refusal)
	}
	d.until(append(append([]string{"cloister-host", "boot", "-enclave", next}, give...), "manifest")...)
	if out := d.run("cloister-host", "upgrade", "-from", old, "-to", next); !bytes.Contains(out, []byte("the old enclave has said farewell")) {
		t.Errorf("upgrade: %s", out)
	}
	if b := d.boot("status"); !bytes.Contains(b, []byte(`"state":"serving"`)) {
		t.Fatalf("after the upgrade: %s", b)
	}
	d.run("cloister-host", "create-organization", "-api-url", "http://"+d.api, "-admission-key", d.file("admission-key"), "-name", "after", "-out", d.file("organization-after.json"))
	clocktest.Until(t, "the old enclave has ended", func() bool {
		_, refusal := d.try("cloister-host", "boot", "-enclave", old, "status")
		return refusal != ""
	})
}

// TestCommands goes the operators' way with the commands that they have: from keys
// and genesis to an enclave that serves, once more after it is gone, and to the one
// that comes after it.
func TestCommands(t *testing.T) {
	d := newDesk(t)
	stop := d.startEnclave()
	next := "tcp://" + porttest.Address(t) // of the enclave that comes after; it is not there yet
	d.start("cloister-host", "serve", "-enclave", d.enclave+","+next, "-store", "sqlite:"+d.file("cloister.db"), "-api-addr", d.api)
	measured := d.image()
	operators, genesis := d.hire()
	if _, refusal := d.try("cloister-verify", "operator-key", "-out", d.file("key-1")); refusal == "" {
		t.Error("a key file was written over")
	}
	if d.try("cloister-host", "boot", "-enclave", d.enclave, "status"); t.Failed() {
		return
	}
	d.write("genesis.json", d.until(append(append([]string{"cloister-host", "boot", "-enclave", d.enclave}, genesis...), "genesis")...))
	shares := d.file("genesis.json")
	for n := 1; n <= 3; n++ {
		d.run(append([]string{"cloister-verify", "shares", "-key", d.file(fmt.Sprintf("key-%d", n)), "-shares", shares}, d.expected()...)...)
	}
	// The same with the operators who hold the others, and with somebody else among them.
	check := append([]string{"cloister-verify", "shares", "-key", d.file("key-1"), "-shares", shares}, d.expected()...)
	for name, last := range map[string]string{"operators.json": operators.PublicKeys[2], "others.json": keyOfNobody} {
		o := operators
		o.PublicKeys = append(slices.Clone(o.PublicKeys[:2]), last)
		raw, err := json.Marshal(o)
		must(t, err)
		if _, refusal := d.try(append(check, "-operators", d.write(name, raw))...); (refusal == "") != (name == "operators.json") {
			t.Errorf("shares -operators %s: %q", name, refusal)
		}
	}
	replied, err := os.ReadFile(shares)
	must(t, err)
	m := d.draft(replied, operators, measured)
	manifest, give := d.approved(m)
	if _, refusal := d.try("cloister-verify", "approve", "-key", d.file("key-1"), "-manifest", manifest); !strings.Contains(refusal, "not approved") {
		t.Errorf("approved without a yes: %q", refusal)
	}
	if _, refusal := d.try("cloister-host", "boot", "-enclave", d.enclave, "-manifest", manifest, "-approval", d.file("approval-1"), "manifest"); !strings.Contains(refusal, "MANIFEST_NOT_APPROVED") {
		t.Errorf("one approval of two: %q", refusal)
	}
	for start := range 2 {
		if start > 0 {
			stop()
			stop = d.startEnclave()
		}
		d.until(append(append([]string{"cloister-host", "boot", "-enclave", d.enclave}, give...), "manifest")...)
		d.boot("-in", d.share(1+start, shares), "share")
		if _, refusal := d.try("cloister-host", "boot", "-enclave", d.enclave, "-in", d.file(fmt.Sprintf("share-%d.json", 1+start)), "share"); !strings.Contains(refusal, "SHARE_STALE") {
			t.Errorf("a share twice: %q", refusal)
		}
		last := d.share(3, shares)
		var in attestation.ShareSubmission
		b, err := os.ReadFile(last)
		must(t, err)
		must(t, json.Unmarshal(b, &in))
		in.Operator = 2 - start
		forged, err := json.Marshal(in)
		must(t, err)
		if _, refusal := d.try("cloister-host", "boot", "-enclave", d.enclave, "-in", d.write("forged.json", forged), "share"); !strings.Contains(refusal, "SHARE_NOT_SIGNED") {
			t.Errorf("a share in another's name: %q", refusal)
		}
		if b := d.boot("status"); !bytes.Contains(b, []byte(`"state":"seed"`)) {
			t.Fatalf("with one share: %s", b)
		}
		d.boot("-in", last, "share")
		if b := d.boot("status"); !bytes.Contains(b, []byte(`"state":"serving"`)) {
			t.Fatalf("with two shares: %s", b)
		}
		d.run("cloister-host", "create-organization", "-api-url", "http://"+d.api, "-admission-key", d.file("admission-key"), "-name", "one", "-out", d.file(fmt.Sprintf("organization-%d.json", start)))
	}
	d.upgrade(m, manifest, next)
	// An operator who expects another image gives nothing.
	nonce := strings.TrimSpace(string(d.run("cloister-verify", "nonce")))
	measured["0"] = strings.Repeat("07", 48)
	raw, err := json.Marshal(measured)
	must(t, err)
	d.write("measurements.json", raw)
	args := append([]string{"cloister-verify", "share", "-key", d.file("key-1"), "-shares", shares, "-nonce", nonce, "-setup", d.file("setup.json"), "-operators", manifest}, d.expected()...)
	if out, refusal := d.try(args...); refusal == "" || len(out) > 0 {
		t.Errorf("a share for another image: %q, %s", refusal, out)
	}
}
