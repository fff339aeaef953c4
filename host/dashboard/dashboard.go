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
//   - Scripts and styles lie below a name made from their contents and may be
//     kept for ever; the page that names them is asked for anew each time.
//
// The host could serve other scripts than these, which misuse a key while it is
// signed in. Against such a host only an SDK helps.
package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
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

// policy is what the browser may load and do. Preview is the name of the one
// piece of script that may fill a frame: the frame runs no scripts.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types preview"

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
	version := hex.EncodeToString(sum.Sum(nil)[:10])
	s := &Site{files: map[string]file{}}
	for name, b := range contents {
		kind, ok := types[path.Ext(name)]
		if !ok {
			panic("dashboard: no type for " + name)
		}
		if name == "index.html" {
			s.files[Base] = file{bytes.ReplaceAll(b, []byte("VERSION"), []byte(version)), kind, strconv.Quote(version), "no-cache"}
			continue
		}
		s.files[Base+version+"/"+name] = file{b, kind, strconv.Quote(version), "public, max-age=31536000, immutable"}
	}
	return s
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
	h.Set("Cache-Control", f.cache)
	h.Set("ETag", f.tag)
	if r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", f.kind)
	h.Set("Content-Length", strconv.Itoa(len(f.body)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(f.body) // if the caller is gone there is nobody to tell
	}
}
