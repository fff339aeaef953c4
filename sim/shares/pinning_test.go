package shares_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/attestation/checks"
	"cloister/attestation/client"
	"cloister/sim/nsm"
	"cloister/sim/rig"
)

// A client says whether it takes what the deployment at a URL answers, under pins.
type believer func(t *testing.T, url string, p pins) error

// pins are what a client knows beforehand besides the module's root: the image
// always, and whose it is by one or the other.
type pins struct {
	root      string
	operators *attestation.Operators
	manifest  string // SHA-256, hex
}

func (p pins) policy() attestation.Policy {
	out := attestation.Policy{SimulatorRootPEM: p.root, ExpectedPCRs: pcrs()}
	if p.operators != nil {
		out.Operators = *p.operators
	}
	if p.manifest != "" {
		out.AllowedManifestSHA256 = []string{p.manifest}
	}
	return out
}

// question is pins as the page and the verifier in WebAssembly are asked.
func (p pins) question(t *testing.T) checks.Question {
	q := checks.Question{Expected: measurements(t), Manifest: p.manifest, SimulatorRoot: p.root, NowMs: time.Now().UnixMilli()}
	if p.operators != nil {
		q.Operators = text(t, p.operators)
	}
	return q
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return string(b)
}

func measurements(t *testing.T) string {
	m := map[string]string{}
	for i, v := range pcrs() {
		m[strconv.Itoa(i)] = v
	}
	return text(t, m)
}

// Somebody else runs the very same image under the same root, with operators and a
// root secret of his own. Everything that his enclave says is true, and no client
// that knows our operators or our manifest takes it; nor does one take anything that
// knows the image alone.
func TestAnothersDeploymentOfTheSameImage(t *testing.T) {
	root, err := nsm.NewRoot(rand.Reader, time.Now())
	must(t, err)
	ours, theirs := newWorld(t, root, 2, 3), newWorld(t, root, 2, 3)
	at := map[*world]string{}
	for _, w := range []*world{ours, theirs} {
		e := w.waiting()
		defer e.stop()
		e.give(0, 1)
		e.wants("serving")
		at[w] = rig.ServeHTTP(t, rig.NewAPI(e.link).Public(true))
	}
	manifest := func(w *world) string {
		raw, err := w.manifest.Encode()
		must(t, err)
		return fmt.Sprintf("%x", attestation.Hash(raw))
	}
	for name, believes := range map[string]believer{"package": byPackage, "transport": byTransport, "page": byPage, "command": byCommand(t), "JavaScript": byJavaScript(t)} {
		t.Run(name, func(t *testing.T) {
			switch {
			case believes == nil && testing.Short():
				t.Skip("left to make campaign: who is pinned by " + name)
			case believes == nil:
				t.Skip("who is pinned by " + name + " (apt-get install nodejs)")
			}
			for _, c := range []struct {
				what  string
				of    *world
				pins  pins
				takes bool
			}{
				{"ours by operators", ours, pins{operators: &ours.named}, true},
				{"ours by manifest", ours, pins{manifest: manifest(ours)}, true},
				{"theirs by their operators", theirs, pins{operators: &theirs.named}, true},
				{"theirs by our operators", theirs, pins{operators: &ours.named}, false},
				{"theirs by our manifest", theirs, pins{manifest: manifest(ours)}, false},
				{"theirs by the image", theirs, pins{}, false},
				{"ours by the image", ours, pins{}, false},
			} {
				c.pins.root = root.PEM()
				if err := believes(t, at[c.of], c.pins); (err == nil) != c.takes {
					t.Errorf("%s: %v", c.what, err)
				}
			}
		})
	}
}

func keysOf(t *testing.T, url string) []byte {
	t.Helper()
	resp, err := http.Get(url + "/public/v1/discovery/keys")
	must(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	must(t, err)
	return raw
}

func byPackage(t *testing.T, url string, p pins) error {
	_, err := attestation.VerifyKeys(keysOf(t, url), p.policy())
	return err
}

func byTransport(t *testing.T, url string, p pins) error {
	insists := &http.Client{Timeout: time.Minute, Transport: &client.Transport{Policy: p.policy(), Proofs: client.Discovery(url, nil)}}
	resp, err := insists.Get(url + "/public/v1/discovery/keys")
	if err == nil {
		err = resp.Body.Close()
	}
	return err
}

func byPage(t *testing.T, url string, p pins) error {
	q := p.question(t)
	q.Texts = []string{string(keysOf(t, url))}
	if r := checks.Make(q); !r.Verified {
		return fmt.Errorf("refused: %s", r.Reason)
	}
	return nil
}

// byCommand runs the real command.
func byCommand(t *testing.T) believer {
	if testing.Short() {
		return nil
	}
	dir := t.TempDir()
	command := filepath.Join(dir, "cloister-verify")
	if out, err := exec.Command("go", "build", "-o", command, "cloister/attestation/verify").CombinedOutput(); err != nil {
		t.Fatalf("building: %s", out)
	}
	write := func(t *testing.T, name, content string) string {
		name = filepath.Join(dir, name)
		must(t, os.WriteFile(name, []byte(content), 0o600))
		return name
	}
	return func(t *testing.T, url string, p pins) error {
		args := []string{"keys", "-url", url, "-simulator-root", write(t, "root.pem", p.root), "-measurements", write(t, "measurements.json", measurements(t))}
		if p.operators != nil {
			args = append(args, "-operators", write(t, "operators.json", text(t, p.operators)))
		}
		if p.manifest != "" {
			args = append(args, "-manifest-sha256", p.manifest)
		}
		out, err := exec.Command(command, args...).CombinedOutput()
		if (err == nil) != strings.Contains(string(out), "VERIFIED") {
			t.Errorf("%v beside %s", err, out)
		}
		return err
	}
}

// The fetch that insists, with the verifier in WebAssembly as the one that says whom
// to trust: what attestation/README.md shows.
const script = `
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { gunzipSync } from "node:zlib";
const { folder, client, url, question } = JSON.parse(readFileSync(0));
const { signedFetch } = await import(client);
createRequire(import.meta.url)(folder + "/wasm_exec.js");
const go = new globalThis.Go();
const { instance } = await WebAssembly.instantiate(gunzipSync(readFileSync(folder + "/verifier.wasm.gz")), go.importObject);
go.run(instance);
const plain = globalThis.fetch;
const trust = async (liveKey) => {
	const document = await (await plain(url + "/public/v1/discovery/boot_proof/" + liveKey)).text();
	const report = JSON.parse(cloisterVerify(JSON.stringify({ ...question, texts: [document] })));
	return report.verified && report.facts.some((f) => f.name === "Live key" && f.value === liveKey);
};
const answer = await signedFetch({ origins: [url], trust })(url + "/public/v1/discovery/keys").then(() => "taken", (e) => e.code);
console.log(answer);
process.exit(0);
`

func byJavaScript(t *testing.T) believer {
	node, err := exec.LookPath("node")
	if err != nil || testing.Short() {
		return nil
	}
	folder := t.TempDir()
	build := exec.Command("go", "run", "./scripts/wasm", folder)
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the verifier: %s", out)
	}
	module, err := filepath.Abs(filepath.Join("..", "..", "attestation", "js", "signed-replies.mjs"))
	must(t, err)
	return func(t *testing.T, url string, p pins) error {
		cmd := exec.Command(node, "--input-type=module", "-e", script)
		cmd.Stdin = strings.NewReader(text(t, map[string]any{"folder": folder, "client": "file://" + module, "url": url, "question": p.question(t)}))
		out, err := cmd.CombinedOutput()
		must(t, err)
		switch answer := strings.TrimSpace(string(out)); answer {
		case "taken":
			return nil
		case "UNTRUSTED":
			return fmt.Errorf("refused: %s", answer)
		default:
			t.Errorf("neither taken nor refused: %s", answer)
			return fmt.Errorf("%s", answer)
		}
	}
}
