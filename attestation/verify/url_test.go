package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/sim/rig"
)

// A running deployment, real but for the machine, against its release and others.
func TestRunningDeployment(t *testing.T) {
	r := rig.Start(t, rig.Options{})
	real := httptest.NewServer(rig.NewAPI(r.Link).Public(true)) // which the test closes
	defer real.Close()
	root, pcrs, digest := r.Credentials.AttestationRootPEM, r.Credentials.PCRs, binaryOf(t, real.URL)
	dir := t.TempDir()
	write := func(name string, change func(*attestation.Release)) string {
		rel := &attestation.Release{
			Format: 1, Application: attestation.Application, Version: "9.9", Platform: attestation.PlatformQEMU, Toolchain: "go1.26.8", ApplicationDigest: digest,
			PCRs:   attestation.ReleasePCRs{PCR0: pcrs["0"], PCR1: pcrs["1"], PCR2: pcrs["2"]},
			Kernel: attestation.ReleaseFile{Name: "none", SHA256: digest}, CommandLine: "none", Image: attestation.ReleaseFileHash{SHA256: digest},
		}
		change(rel)
		raw, err := rel.Encode()
		if err != nil {
			t.Fatal(err)
		}
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, raw, 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	good := write("good", func(*attestation.Release) {})
	pem := filepath.Join(dir, "root.pem")
	if err := os.WriteFile(pem, []byte(root), 0o644); err != nil {
		t.Fatal(err)
	}
	verify := func(at, release string) (int, string) {
		var out, errs bytes.Buffer
		code := run([]string{"keys", "-simulator-root", pem, "-release", release, "-manifest-sha256", r.Credentials.ManifestSHA256, "-url", at}, strings.NewReader(""), &out, &errs, os.ReadFile, time.Now)
		return code, out.String() + errs.String()
	}
	if code, said := verify(real.URL, good); code != exitVerified || !strings.Contains(said, `release "9.9"`) || !strings.Contains(said, "nonce that was made for this check") {
		t.Errorf("the release that it is: exit %d\n%s", code, said)
	}
	for name, change := range map[string]func(*attestation.Release){
		"binary": func(r *attestation.Release) { r.ApplicationDigest = strings.Repeat("ab", 32) },
		"PCR0":   func(r *attestation.Release) { r.PCRs.PCR0 = strings.Repeat("ab", 48) },
		"PCR1":   func(r *attestation.Release) { r.PCRs.PCR1 = strings.Repeat("ab", 48) },
		"PCR2":   func(r *attestation.Release) { r.PCRs.PCR2 = strings.Repeat("ab", 48) },
		"PCR8":   func(r *attestation.Release) { r.PCRs.PCR8 = strings.Repeat("ab", 48) },
	} {
		if code, said := verify(real.URL, write(name, change)); code != exitRefused {
			t.Errorf("another %s: exit %d\n%s", name, code, said)
		}
	}
	// What a host could do: play back what was answered to somebody else, signature and all.
	recorded := recording(t, real.URL)
	if code, said := verify(recorded, good); code != exitRefused {
		t.Errorf("a recording: exit %d\n%s", code, said)
	}
	unsigned := between(t, real.URL, func(r *http.Request) { r.Header.Del(attestation.HeaderSignReply) })
	if code, said := verify(unsigned, good); code != exitRefused || !strings.Contains(said, "no signature") {
		t.Errorf("no signature: exit %d\n%s", code, said)
	}
	real.Close()
	if code, said := verify(real.URL, good); code != exitRefused {
		t.Errorf("nobody there: exit %d\n%s", code, said)
	}
}

// binaryOf is the enclave binary that the manifest of a deployment names.
func binaryOf(t *testing.T, at string) string {
	t.Helper()
	resp, err := http.Get(at + "/public/v1/discovery/keys")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var d attestation.KeysDocument
	if err := json.NewDecoder(resp.Body).Decode(&d); err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(d.BootProof.QOSManifestB64)
	if err != nil {
		t.Fatal(err)
	}
	m, err := attestation.ParseManifest(raw)
	if err != nil {
		t.Fatal(err)
	}
	return m.ApplicationDigest
}

// between is a host's way to the deployment.
func between(t *testing.T, to string, change func(*http.Request)) string {
	t.Helper()
	at, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(at)
		change(p.Out)
	}})
	t.Cleanup(s.Close)
	return s.URL
}

// recording answers everybody with the answer to one signed request.
func recording(t *testing.T, from string) string {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, from+"/public/v1/discovery/keys", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(attestation.HeaderSignReply, "another-nonce")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.Header.Get(attestation.HeaderReplySignature) == "" {
		t.Fatalf("no signed reply to record: %v", err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}
