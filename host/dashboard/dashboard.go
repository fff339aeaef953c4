// Package dashboard is the web application for operators: pages, scripts and
// styles inside of the binary, which talk to the public interface and to
// nothing else.
//
// What it promises:
//
//   - It holds no secret and decides nothing. Every request is stamped in the
//     browser, by a passkey or a key that scripts cannot read out; the host that
//     serves these files sees of it what any host sees.
//   - The browser is told to run only what came from here: no inline script or
//     style, no frame around it, no form that leaves, no other origin.
//   - The page that verifies proofs needs nobody to be signed in. It and the worker that
//     gives advice about policies may run WebAssembly, and that is the verifier of
//     package attestation, if the build has it. No page that has a key may.
//   - Scripts and styles lie below a name made from their contents and may be
//     kept for ever; the page that names them is asked for anew each time.
//
// The host could serve other scripts than these, which misuse a key while it is
// signed in. Against such a host only an SDK helps.
package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
)

// Base is the path that all of it lies under.
const Base = "/dashboard/"

//go:embed web
var files embed.FS

// built holds what scripts/wasm leaves there, which a build by the go command alone
// does without.
//
//go:embed verifier
var built embed.FS

// policy is what the browser may load and do. Preview is the name of the one
// piece of script that may fill a frame, which runs no scripts; advice of the one that
// starts the worker.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types preview advice"

// policyOfVerifier is that of the page that verifies, and of the worker: they compile the
// verifier, and make no frame and no worker.
var policyOfVerifier = strings.NewReplacer("script-src 'self'", "script-src 'self' 'wasm-unsafe-eval'", "trusted-types preview advice", "trusted-types 'none'").Replace(policy)

const permissions = "publickey-credentials-get=(self), publickey-credentials-create=(self), clipboard-write=(self), " +
	"camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"

// types are what may lie in the folder, and how it is served.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// file is one of those that are served, with its headers.
type file struct {
	body  []byte
	kind  string
	tag   string
	cache string
	// policy of a page or a worker; empty: the ordinary one.
	policy string
	// packed says that body is compressed by gzip.
	packed bool
}

// A Site serves the dashboard. Make it with New.
type Site struct{ files map[string]file }

// New reads what is in the binary. It panics on a file that no browser should
// get, which a test would have found.
func New() *Site {
	contents := map[string][]byte{}
	sum := sha256.New()
	err := fs.WalkDir(files, "web", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := files.ReadFile(name)
		// Walked in the order of names: the same files make the same sum.
		fmt.Fprintf(sum, "%s %d\n", name, len(b))
		sum.Write(b)
		contents[strings.TrimPrefix(name, "web/")] = b
		return err
	})
	if err != nil {
		panic(err)
	}
	verifier := readVerifier()
	sum.Write(verifier.packed)
	sum.Write(verifier.starter)
	version := hex.EncodeToString(sum.Sum(nil)[:10])
	s := &Site{files: map[string]file{}}
	const forEver = "public, max-age=31536000, immutable"
	if verifier.sha256 != "" {
		s.files[Base+version+"/verifier.wasm"] = file{body: verifier.packed, kind: "application/wasm", tag: strconv.Quote(version), cache: forEver, packed: true}
		s.files[Base+version+"/wasm_exec.js"] = file{body: verifier.starter, kind: types[".js"], tag: strconv.Quote(version), cache: forEver}
	}
	page := func(b []byte, policy string) file {
		b = bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("VERSION"), []byte(version)), []byte("VERIFIER"), []byte(verifier.sha256))
		return file{body: b, kind: types[".html"], tag: strconv.Quote(version), cache: "no-cache", policy: policy}
	}
	for name, b := range contents {
		kind, ok := types[path.Ext(name)]
		if !ok {
			panic("dashboard: no type for " + name)
		}
		switch name {
		case "index.html":
			s.files[Base] = page(b, "")
		case "verify.html":
			s.files[Base+"verify"] = page(b, policyOfVerifier)
		case "lint.js":
			s.files[Base+version+"/"+name] = file{body: b, kind: kind, tag: strconv.Quote(version), cache: forEver, policy: policyOfVerifier}
		default:
			s.files[Base+version+"/"+name] = file{body: b, kind: kind, tag: strconv.Quote(version), cache: forEver}
		}
	}
	return s
}

// verifier is what scripts/wasm has built: sha256 is that of the uncompressed file,
// in hex, and empty where there is none.
type verifier struct {
	packed, starter []byte
	sha256          string
}

func readVerifier() verifier {
	packed, err := built.ReadFile("verifier/verifier.wasm.gz")
	if err != nil {
		return verifier{}
	}
	starter, err := built.ReadFile("verifier/wasm_exec.js")
	if err != nil {
		return verifier{}
	}
	h := sha256.New()
	if err := unpack(h, packed); err != nil {
		panic("dashboard: the verifier is damaged: build it anew")
	}
	return verifier{packed, starter, hex.EncodeToString(h.Sum(nil))}
}

func unpack(to io.Writer, packed []byte) error {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		_, err = io.Copy(to, z)
	}
	return err
}

// takesGzip tells whether a browser takes gzip; all do.
func takesGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if name, quality, _ := strings.Cut(strings.TrimSpace(part), ";"); name == "gzip" && strings.TrimSpace(quality) != "q=0" {
			return true
		}
	}
	return false
}

// ServeHTTP answers GET and HEAD below Base.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Permissions-Policy", permissions)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	if r.URL.Path+"/" == Base {
		// Scripts are named relative to the page.
		h.Set("Location", Base)
		w.WriteHeader(http.StatusPermanentRedirect)
		return
	}
	f, ok := s.files[r.URL.Path]
	if !ok {
		http.Error(w, "there is no such page of the dashboard", http.StatusNotFound)
		return
	}
	if f.policy != "" {
		h.Set("Content-Security-Policy", f.policy)
	}
	h.Set("Cache-Control", f.cache)
	h.Set("ETag", f.tag)
	if r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if f.packed {
		h.Set("Vary", "Accept-Encoding")
		if takesGzip(r) {
			h.Set("Content-Encoding", "gzip")
		} else {
			var b bytes.Buffer
			if err := unpack(&b, f.body); err != nil {
				panic(err) // it was unpacked before
			}
			f.body = b.Bytes()
		}
	}
	h.Set("Content-Type", f.kind)
	h.Set("Content-Length", strconv.Itoa(len(f.body)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(f.body) // if the caller is gone there is nobody to tell
	}
}
