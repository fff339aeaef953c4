package dashboard_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Only the page that verifies and the worker that gives advice may run WebAssembly, and they may do nothing else more.
func TestOnlyTheVerifierMayCompile(t *testing.T) {
	ordinary := ask(t, "GET", "/dashboard/").header.Get("Content-Security-Policy")
	verify := ask(t, "GET", "/dashboard/verify").header.Get("Content-Security-Policy")
	if worker := ask(t, "GET", folder(t)+"lint.js").header.Get("Content-Security-Policy"); worker != verify {
		t.Errorf("the worker: %s", worker)
	}
	if strings.Contains(ordinary, "wasm") || strings.Contains(ask(t, "GET", folder(t)+"verify.js").header.Get("Content-Security-Policy"), "wasm") {
		t.Error("another page may compile")
	}
	if !strings.Contains(verify, "script-src 'self' 'wasm-unsafe-eval';") || !strings.Contains(verify, "trusted-types 'none'") || strings.Contains(verify, "preview") || strings.Contains(verify, "'unsafe-eval'") {
		t.Error(verify)
	}
	back := strings.NewReplacer(" 'wasm-unsafe-eval'", "", "trusted-types 'none'", "trusted-types preview advice").Replace(verify)
	if back != ordinary {
		t.Errorf("it may do more: %s", verify)
	}
}

var promised = regexp.MustCompile(`data-verifier="([0-9a-f]*)"`)

// The page names the verifier that the host has, or says that it has none; both
// builds are good ones.
func TestTheVerifierThatIsPromised(t *testing.T) {
	m := promised.FindStringSubmatch(ask(t, "GET", "/dashboard/verify").body)
	if m == nil {
		t.Fatal("the page says nothing of a verifier")
	}
	at := folder(t)
	packed, err := os.ReadFile("verifier/verifier.wasm.gz")
	if err != nil {
		for _, name := range []string{"verifier.wasm", "wasm_exec.js"} {
			if g := ask(t, "GET", at+name); g.status != 404 || m[1] != "" {
				t.Errorf("%s: %d, and the page promises %q", name, g.status, m[1])
			}
		}
		return
	}
	plain := ask(t, "GET", at+"verifier.wasm")
	sum := sha256.Sum256([]byte(plain.body))
	if plain.status != 200 || m[1] != hex.EncodeToString(sum[:]) || !strings.HasPrefix(plain.body, "\x00asm") || plain.header.Get("Content-Encoding") != "" {
		t.Errorf("%d, promised %q, is %x", plain.status, m[1], sum)
	}
	for _, accept := range []string{"gzip", "br, gzip", "gzip;q=1.0, *;q=0.5"} {
		g := ask(t, "GET", at+"verifier.wasm", "Accept-Encoding", accept)
		if g.body != string(packed) || g.header.Get("Content-Encoding") != "gzip" || g.header.Get("Content-Type") != "application/wasm" || g.header.Get("Vary") != "Accept-Encoding" || g.header.Get("Content-Length") != strconv.Itoa(len(packed)) {
			t.Errorf("%q: %+v", accept, g.header)
		}
	}
	for _, accept := range []string{"br", "gzip;q=0", "gzipped"} {
		if g := ask(t, "GET", at+"verifier.wasm", "Accept-Encoding", accept); g.header.Get("Content-Encoding") != "" || g.body != plain.body {
			t.Errorf("%q: %+v", accept, g.header)
		}
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	if all, err := io.ReadAll(z); err != nil || string(all) != plain.body {
		t.Error(err)
	}
}
