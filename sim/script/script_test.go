package script_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloister/sim/client"
	"cloister/sim/rig"
	"cloister/sim/script"
)

// The scripts of sim/testdata, each in an organization of its own, over HTTP
// against a host and a simulated enclave.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("../testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scripts: %v", len(files), err)
	}
	r := rig.Start(t, rig.Options{Organizations: len(files)})
	url, organizations := rig.ServeHTTP(t, rig.NewAPI(r.Link).Public(false)), r.Others()
	for i, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := script.Parse(filepath.Base(file), string(text))
			if err != nil {
				t.Fatal(err)
			}
			o := organizations[i]
			if err := s.Run(t.Context(), target(url), script.Organization{ID: o.Organization, UserID: o.User, Key: o.Key}); err != nil {
				t.Error(err)
			}
		})
	}
	t.Logf("counted: %d end-to-end scripts", len(files))
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		"", "# nothing\n", "  {}\n", "key Alice\nquery whoami\n", "key a b\nquery whoami\n", "whoami\n", "query\n", "submit whoami\n  {}\n",
		"submit ACTIVITY_TYPE_CREATE_WALLET\n", "submit ACTIVITY_TYPE_CREATE_WALLET\n  {\n", "query whoami as\n", "query whoami by root\n",
		"post whoami\n  {}\n", "again\n", "-> 200\n", "query whoami\n-> ok\n", "query whoami\n-> 99\n", "query whoami\n-> 200 roughly\n",
		"query whoami\n-> 200\n  {\"a\":}\n", "query whoami\nseal a b\n", "query whoami\nverify rsa a b c d\n", "query whoami\nverify ed25519 a b c\n",
	} {
		if _, err := script.Parse("test", text); err == nil {
			t.Errorf("taken: %q", text)
		}
	}
}

// A script must be able to fail: each of these is against a server that answers
// every request in the same way.
func TestScriptsFail(t *testing.T) {
	const answer = `{"name":"Ada","ids":["1","2"],"nested":{"n":1,"on":true,"none":null}}`
	url := rig.ServeHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/refused") {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = io.WriteString(w, answer)
	}))
	for _, c := range []struct {
		expects string
		fails   string // in the error; empty: it passes
	}{
		{`-> 200 {"name":"Ada"}`, ""},
		{`-> 200 {"name":"..."}`, ""},
		{`-> 200 {"name":"~[A-Z]da"}`, ""},
		{`-> 200 {"ids":["1","..."]}`, ""},
		{`-> 200 {"ids":["${a}","${b}"]}`, ""},
		{`-> 200 {"nested":{"n":1,"on":true,"none":null}}`, ""},
		{`-> 403`, "status 200, want 403"},
		{`-> 200 {"name":"Bob"}`, `.name is "Ada", want "Bob"`},
		{`-> 200 {"name":"~[a-z]+"}`, ".name is"},
		{`-> 200 {"name":7}`, ".name is"},
		{`-> 200 {"other":"..."}`, ".other is absent"},
		{`-> 200 {"ids":["1"]}`, ".ids has 2 elements"},
		{`-> 200 {"ids":["1","2","3","..."]}`, ".ids has 2 elements"},
		{`-> 200 {"ids":["2","1"]}`, `.ids[0] is "1"`},
		{`-> 200 {"ids":["${a}","${a}"]}`, `.ids[1] is "2", want "1"`},
		{`-> 200 {"name":"${b} ${c}"}`, `nothing is named`},
		{`-> 200 {"nested":{"n":2}}`, `.nested.n is 1, want 2`},
		{`-> 200 {"nested":[]}`, ".nested is"},
		{`-> 200 exactly {"name":"Ada","ids":["1","2"]}`, ".nested is there"},
		{`-> 200 exactly {"name":"Ada","ids":["1","2"],"nested":{"n":1}}`, "is there"},
	} {
		expects, pattern, _ := strings.Cut(c.expects, " {")
		if pattern != "" {
			expects += "\n  {" + pattern
		}
		check(t, url, "query whoami\n"+expects+"\n", c.fails)
	}
	check(t, url, "query refused\n", "status 403")
	check(t, url, "query whoami as bob\n", "no key")
	check(t, url, "query whoami\nverify ed25519 ${root.public} 00 00 00\n", "not that of the key")
	check(t, url, "query whoami\nopen {} root text\n", "bundle")
}

func target(url string) script.Target {
	return script.Target{URL: url, Client: http.DefaultClient, Now: time.Now}
}

func check(t *testing.T, url, text, fails string) {
	t.Helper()
	s, err := script.Parse("test", text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	err = s.Run(t.Context(), target(url), script.Organization{ID: "o", UserID: "u", Key: client.NewKey()})
	if (err == nil) != (fails == "") || err != nil && !strings.Contains(err.Error(), fails) {
		t.Errorf("%s: %v, want %q", text, err, fails)
	}
}
