// Package dashboard is the web application for operators: pages, scripts and styles in the binary,
// which talk to the public interface only.
//
// What it promises:
//
//   - It holds no secret and decides nothing. Every request is stamped in the browser, by a passkey
//     or a key that scripts cannot extract. The host that serves these files sees no more than
//     any host. What is imported or exported is in clear in the browser alone.
//   - The browser may run only what came from here: no inline script or style, no frame around it,
//     no form to another place, no other origin.
//   - The page that verifies proofs needs no sign-in. It and the worker that gives advice about
//     policies and encrypts imports and exports may run WebAssembly: the verifier of package
//     attestation, if the build has it. No page that has a key may.
//   - Scripts and styles lie below a name made from their contents and may be cached for ever; the
//     page that names them is fetched each time.
//
// A host could serve other scripts, which misuse a key while it is signed in. Against such a host
// only an SDK helps.
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

// built holds the output of scripts/wasm, which a build by the go command alone does not have.
//
//go:embed verifier
var built embed.FS

// policy is what the browser may load and do. preview names the script that may fill a frame, which
// runs no scripts; advice names the one that starts the worker.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types preview advice"

// policyOfVerifier is for the page that verifies, and for the worker. They compile the verifier, and
// make no frame and no worker.
var policyOfVerifier = strings.NewReplacer("script-src 'self'", "script-src 'self' 'wasm-unsafe-eval'", "trusted-types preview advice", "trusted-types 'none'").Replace(policy)

const permissions = "publickey-credentials-get=(self), publickey-credentials-create=(self), clipboard-write=(self), " +
	"camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"

// types are the file types in the folder, with their Content-Type.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// file is a served file with its headers.
type file struct {
	body   []byte
	kind   string
	tag    string
	cache  string
	policy string // of a page or a worker; empty: the ordinary one
	packed bool   // body is compressed by gzip
}

// A Site serves the dashboard. Make it with New.
type Site struct{ files map[string]file }

// New reads the files in the binary. It panics on a file of an unknown type, which a test finds.
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
	s, tag := &Site{files: map[string]file{}}, strconv.Quote(version)
	keep := func(name string, f file) {
		f.tag, f.cache = tag, "public, max-age=31536000, immutable"
		s.files[Base+version+"/"+name] = f
	}
	if verifier.sha256 != "" {
		keep("verifier.wasm", file{body: verifier.packed, kind: "application/wasm", packed: true})
		keep("wasm_exec.js", file{body: verifier.starter, kind: types[".js"]})
	}
	page := func(b []byte, policy string) file {
		b = bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("VERSION"), []byte(version)), []byte("VERIFIER"), []byte(verifier.sha256))
		return file{body: b, kind: types[".html"], tag: tag, cache: "no-cache", policy: policy}
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
			keep(name, file{body: b, kind: kind, policy: policyOfVerifier})
		default:
			keep(name, file{body: b, kind: kind})
		}
	}
	return s
}

// verifier is the output of scripts/wasm. sha256 is of the uncompressed file, in hex, and empty if
// there is none.
type verifier struct {
	packed, starter []byte
	sha256          string
}

func readVerifier() verifier {
	packed, err1 := built.ReadFile("verifier/verifier.wasm.gz")
	starter, err2 := built.ReadFile("verifier/wasm_exec.js")
	if err1 != nil || err2 != nil {
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
