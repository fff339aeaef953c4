package dashboard_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"cloister/host/dashboard"
)

type got struct {
	status int
	header http.Header
	body   string
}

// site is one for all tests: making it unpacks the verifier.
var site = sync.OnceValue(dashboard.New)

func ask(t *testing.T, method, at string, header ...string) got {
	t.Helper()
	r := httptest.NewRequest(method, "http://localhost"+at, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	site().ServeHTTP(w, r)
	b, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return got{w.Code, w.Result().Header, string(b)}
}

var version = regexp.MustCompile(`src="([0-9a-f]{20})/main\.js"`)

// folder is the path of scripts and styles.
func folder(t *testing.T) string {
	t.Helper()
	m := version.FindStringSubmatch(ask(t, "GET", "/dashboard/").body)
	if m == nil {
		t.Fatal("the page names no script")
	}
	return "/dashboard/" + m[1] + "/"
}

func TestEveryAnswerBindsTheBrowser(t *testing.T) {
	main := folder(t) + "main.js"
	for _, c := range []struct{ method, at string }{
		{"GET", "/dashboard/"}, {"HEAD", "/dashboard/"}, {"GET", "/dashboard"}, {"GET", main}, {"GET", "/dashboard/absent"}, {"POST", "/dashboard/"}, {"DELETE", main},
	} {
		h := ask(t, c.method, c.at).header
		policy := map[string]string{}
		for part := range strings.SplitSeq(h.Get("Content-Security-Policy"), ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(part), " ")
			policy[name] = value
		}
		for name, want := range map[string]string{
			"default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "connect-src": "'self'", "img-src": "'self' data:",
			"base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'", "require-trusted-types-for": "'script'",
		} {
			if policy[name] != want {
				t.Errorf("%s %s: %s is %q", c.method, c.at, name, policy[name])
			}
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "Cross-Origin-Opener-Policy": "same-origin"} {
			if h.Get(name) != want {
				t.Errorf("%s %s: %s is %q", c.method, c.at, name, h.Get(name))
			}
		}
	}
}

func TestPaths(t *testing.T) {
	at := folder(t)
	for _, c := range []struct {
		method, path string
		status       int
		kind, cache  string
	}{
		{"GET", "/dashboard/", 200, "text/html; charset=utf-8", "no-cache"},
		{"GET", at + "main.js", 200, "text/javascript; charset=utf-8", "public, max-age=31536000, immutable"},
		{"GET", at + "style.css", 200, "text/css; charset=utf-8", "public, max-age=31536000, immutable"},
		{"GET", at + "icon.svg", 200, "image/svg+xml", "public, max-age=31536000, immutable"},
		{"GET", at + "sections/users.js", 200, "text/javascript; charset=utf-8", "public, max-age=31536000, immutable"},
		{"GET", "/dashboard/verify", 200, "text/html; charset=utf-8", "no-cache"},
		{"GET", at + "verify.js", 200, "text/javascript; charset=utf-8", "public, max-age=31536000, immutable"},
		{"GET", at + "verify.html", 404, "text/plain; charset=utf-8", ""},
		{"GET", "/dashboard/verify/", 404, "text/plain; charset=utf-8", ""},
		{"GET", at + "README.md", 404, "text/plain; charset=utf-8", ""},
		{"GET", at + "verifier.wasm.gz", 404, "text/plain; charset=utf-8", ""},
		{"GET", "/dashboard", 308, "", ""},
		{"GET", at, 404, "text/plain; charset=utf-8", ""},
		{"GET", at + "index.html", 404, "text/plain; charset=utf-8", ""},
		{"GET", at + "../dashboard.go", 404, "text/plain; charset=utf-8", ""},
		{"GET", at + "sections/", 404, "text/plain; charset=utf-8", ""},
		{"GET", at + "%2e%2e/dashboard.go", 404, "text/plain; charset=utf-8", ""},
		{"GET", "/dashboard/00000000000000000000/main.js", 404, "text/plain; charset=utf-8", ""},
		{"GET", "/dashboard//", 404, "text/plain; charset=utf-8", ""},
		{"POST", "/dashboard/", 405, "text/plain; charset=utf-8", ""},
		{"PUT", at + "main.js", 405, "text/plain; charset=utf-8", ""},
	} {
		g := ask(t, c.method, c.path)
		if g.status != c.status || g.header.Get("Content-Type") != c.kind || g.header.Get("Cache-Control") != c.cache {
			t.Errorf("%s %s: %d %q %q", c.method, c.path, g.status, g.header.Get("Content-Type"), g.header.Get("Cache-Control"))
		}
	}
	if l := ask(t, "GET", "/dashboard").header.Get("Location"); l != "/dashboard/" {
		t.Errorf("led to %q", l)
	}
}

func TestWhatIsKnownIsNotSentAgain(t *testing.T) {
	for _, at := range []string{"/dashboard/", folder(t) + "main.js"} {
		first := ask(t, "GET", at)
		tag := first.header.Get("ETag")
		if again := ask(t, "GET", at, "If-None-Match", tag); tag == "" || again.status != 304 || again.body != "" {
			t.Errorf("%s: %+v", at, again)
		}
		if other := ask(t, "GET", at, "If-None-Match", `"other"`); other.status != 200 || other.body != first.body {
			t.Errorf("%s: %d", at, other.status)
		}
		if head := ask(t, "HEAD", at); head.status != 200 || head.body != "" || head.header.Get("Content-Length") != first.header.Get("Content-Length") {
			t.Errorf("%s: %+v", at, head)
		}
	}
}

var (
	imports = regexp.MustCompile(`from "(\.[^"]+)"`)
	// What the policy would refuse, or what would let text become markup or script.
	forbidden = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|https?://[a-z0-9.-]+\.(?:com|net|org)/[a-z]+\.js|style="|\son[a-z]+="|<style`)
)

// Every file is reached from the page, and holds nothing that the browser is told
// to refuse.
func TestFiles(t *testing.T) {
	at := folder(t)
	reached := map[string]bool{"main.js": true, "style.css": true, "icon.svg": true, "preview.css": true}
	reached["verify.js"], reached["lint.js"] = true, true
	for queue := []string{"main.js", "verify.js", "lint.js"}; len(queue) > 0; queue = queue[1:] {
		g := ask(t, "GET", at+queue[0])
		if g.status != 200 {
			t.Fatalf("%s is imported and not there", queue[0])
		}
		for _, m := range imports.FindAllStringSubmatch(g.body, -1) {
			if name := path.Join(path.Dir(queue[0]), m[1]); !reached[name] {
				reached[name] = true
				queue = append(queue, name)
			}
		}
	}
	err := filepath.WalkDir("web", func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		if name = strings.TrimPrefix(filepath.ToSlash(name), "web/"); name != "index.html" && name != "verify.html" && !reached[name] {
			t.Errorf("%s: nothing leads to it", name)
		}
		if bad := forbidden.Find(b); bad != nil {
			t.Errorf("%s: %s", name, bad)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The list of activity types by which activities are filtered is that of the enclave, version by version.
func TestTypes(t *testing.T) {
	table, err := os.ReadFile("../../enclave/INTERFACE.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([A-Z0-9_]+) \| \w+ \| \w* \| served \|$|, ACTIVITY_TYPE_([A-Z0-9_]+)$`).FindAllStringSubmatch(string(table), -1) {
		name, version := m[1]+m[2], "1"
		if v := regexp.MustCompile(`^(\w+)_V(\d+)$`).FindStringSubmatch(name); v != nil {
			name, version = v[1], v[2]
		}
		want[name] = append(want[name], version)
	}
	if len(want) < 100 {
		t.Fatalf("%d types in the table", len(want))
	}
	have := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^  ([A-Z0-9_]+): \[([\d, ]+)\],$`).FindAllStringSubmatch(ask(t, "GET", folder(t)+"types.js").body, -1) {
		have[m[1]] = strings.Split(m[2], ", ")
	}
	for name := range have {
		if want[name] == nil {
			t.Errorf("types.js has %s, which is not served", name)
		}
	}
	for name, versions := range want {
		slices.Sort(versions)
		if !slices.Equal(have[name], versions) {
			t.Errorf("types.js has versions %v of %s, want %v", have[name], name, versions)
		}
	}
}

// Every type has a name of its own that people read, and no version, prefix or name of the interface is left in it.
func TestKinds(t *testing.T) {
	at := folder(t)
	types := regexp.MustCompile(`(?m)^  ([A-Z0-9_]+): \[[\d, ]+\],$`).FindAllStringSubmatch(ask(t, "GET", at+"types.js").body, -1)
	names, owners := map[string]string{}, map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^  ([A-Z0-9_]{4,}): "([^"]+)",$`).FindAllStringSubmatch(ask(t, "GET", at+"kinds.js").body, -1) {
		names[m[1]] = m[2]
		if other, ok := owners[m[2]]; ok {
			t.Errorf("%s and %s are both %q", other, m[1], m[2])
		}
		owners[m[2]] = m[1]
		if !regexp.MustCompile(`^[A-Z][a-z]`).MatchString(m[2]) || strings.Contains(m[2], "_") {
			t.Errorf("%s is called %q", m[1], m[2])
		}
	}
	for _, m := range types {
		if names[m[1]] == "" {
			t.Errorf("%s has no name in kinds.js", m[1])
		}
	}
	if len(names) != len(types) {
		t.Errorf("%d names for %d types", len(names), len(types))
	}
}
