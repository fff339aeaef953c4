package cloister_test

import (
	"bytes"
	"debug/elf"
	"os/exec"
	"path/filepath"
	"testing"
)

// What no function of the released enclave is called: names of packages and of functions, as the runtime keeps them.
var unreleased = []struct{ name, reason string }{
	{"cloister/enclave/internal/insecure.", "what switches a check off, or asks whether it is"},
	{"cloister/sim", "a simulator"},
	{"cloister/host", "the untrusted side"},
	{"cloister/enclave/internal/policy.Lint", "advice, which decides nothing"},
	{"cloister/enclave/internal/policy.(*linter)", "advice, which decides nothing"},
	{"cloister/enclave/internal/policy.FindMistake", "for an editor"},
	{"cloister/enclave/internal/policy.Describe", "for an editor"},
	{"cloister/enclave/internal/policy.(*describer)", "for an editor"},
	{"cloister/enclave/internal/policy.Complete", "for an editor"},
	{"cloister/enclave/internal/policy.(*finder)", "for an editor"},
	{"net/http.", "the enclave speaks one protocol"},
	{"os/exec.", "nothing is started inside"},
	{"plugin.", "no code comes in after the measurement"},
	{"testing.", "for tests"},
	{"expvar.", "tells of memory"},
	{"runtime/pprof.", "tells of memory"},
}

// TestReleaseSymbols looks at the very binary that is released. It is stripped, but the runtime's table of functions,
// which lists those that were inlined too, cannot be.
func TestReleaseSymbols(t *testing.T) {
	out := filepath.Join(t.TempDir(), "cloister-enclave")
	if msg, err := exec.Command("scripts/enclave.sh", out).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, msg)
	}
	names := functionTable(t, out)
	// It is the table, and the search finds: with what links every enclave, and what is inlined.
	for _, want := range []string{"cloister/enclave/internal/keys.(*Holder).SignEach", "cloister/enclave/internal/keys.(*Holder).useOf", "main.main"} {
		if !bytes.Contains(names, append([]byte{0}, want+"\x00"...)) {
			t.Fatalf("the table of functions does not name %s", want)
		}
	}
	for name := range bytes.SplitSeq(names, []byte{0}) {
		if bytes.HasSuffix(name, []byte(".go")) {
			continue // a file's name
		}
		for _, u := range unreleased {
			if bytes.HasPrefix(name, []byte(u.name)) {
				t.Errorf("the released enclave has %s: %s", name, u.reason)
			}
		}
		for _, sign := range []string{".TestOnly", ".testOnly"} {
			if bytes.Contains(name, []byte(sign)) {
				t.Errorf("the released enclave has %s: for tests", name)
			}
		}
	}
}

func functionTable(t *testing.T, path string) []byte {
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := f.Section(".gopclntab")
	if s == nil {
		t.Fatal("no table of functions")
	}
	b, err := s.Data()
	if err != nil {
		t.Fatal(err)
	}
	return b
}
