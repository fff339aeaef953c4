package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/eif/image"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// kernel is what a boot loader looks at of a bzImage.
var kernel = func() []byte {
	raw := make([]byte, 0x400)
	copy(raw[0x1fe:], "\x55\xaa\xeb\x66HdrS\x0f\x02")
	raw[0x211], raw[0x236] = 1, 1
	return append(raw, "a kernel"...)
}()

// module begins as an object for x86-64 does.
func module(name string) []byte {
	return append([]byte("\x7fELF\x02\x01\x01"+strings.Repeat("\x00", 9)+"\x01\x00\x3e\x00"+strings.Repeat("\x00", 44)), name...)
}

// bench is a folder with what an image is made of.
type bench struct {
	t   *testing.T
	dir string
}

func setUp(t *testing.T) bench {
	b := bench{t, t.TempDir()}
	b.put("kernel", kernel)
	b.put("main.go", []byte("package main\n\nfunc main() {}\n"))
	c := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -buildid=", "-o", b.path("init"), b.path("main.go"))
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOFLAGS=", "GOWORK=off")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"b.ko", "a.ko", "07-c.ko"} {
		b.put("modules/"+name, module(name))
	}
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "release"}, NotBefore: now.AddDate(0, -1, 0), NotAfter: now.AddDate(0, 1, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	b.put("cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	if der, err = x509.MarshalPKCS8PrivateKey(key); err != nil {
		t.Fatal(err)
	}
	b.put("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	return b
}

func (b bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b bench) put(name string, raw []byte) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(b.path(name)), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(b.path(name), raw, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b bench) get(name string) []byte {
	b.t.Helper()
	raw, err := os.ReadFile(b.path(name))
	if err != nil {
		b.t.Fatal(err)
	}
	return raw
}

// call runs the command; words with a leading @ are files of the folder.
func (b bench) call(line string) (code int, stdout, stderr string) {
	return b.callAt(now, line)
}

func (b bench) callAt(at time.Time, line string) (code int, stdout, stderr string) {
	words := strings.Fields(line)
	for i, w := range words {
		if strings.HasPrefix(w, "@") {
			words[i] = strings.ReplaceAll(b.path(w[1:]), ",@", ","+b.dir+"/")
		}
	}
	var out, errs bytes.Buffer
	code = run(words, &out, &errs, func() time.Time { return at })
	return code, out.String(), errs.String()
}

// want calls and demands an exit status.
func (b bench) want(code int, line string) string {
	b.t.Helper()
	got, stdout, stderr := b.call(line)
	if got != code {
		b.t.Errorf("%s: exit %d, want %d: %s", line, got, code, stderr)
	}
	if got != exitDone && stdout != "" {
		b.t.Errorf("%s: words on standard output beside a refusal: %s", line, stdout)
	}
	return stdout
}

func (b bench) release(name string) *attestation.Release {
	b.t.Helper()
	r, err := attestation.ParseRelease(b.get(name))
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

const inputs = "build -kernel @kernel -init @init -modules @modules "

func TestBuild(t *testing.T) {
	b := setUp(t)
	printed := b.want(exitDone, inputs+"-o @a.eif -version 1.2.3 -platform qemu -kernel-sha256 "+digest(kernel))
	if printed != string(b.get("a.eif.json")) {
		t.Error("what is printed is not what is written")
	}
	r := b.release("a.eif.json")
	if r.Version != "1.2.3" || r.Platform != "qemu" || r.ApplicationDigest != digest(b.get("init")) || r.Image.SHA256 != digest(b.get("a.eif")) ||
		r.Kernel != (attestation.ReleaseFile{Name: "kernel", SHA256: digest(kernel)}) || r.CommandLine != commandLine || r.PCRs.PCR8 != "" ||
		!strings.HasPrefix(r.Toolchain, runtime.Version()[:4]) {
		t.Errorf("release says %+v", r)
	}
	m, err := image.Parse(b.get("a.eif"))
	if err != nil {
		t.Fatal(err)
	}
	// By the order of file names; numbers in them are those of the image.
	var at []int
	for _, name := range []string{"modules/01-c.ko\x00", "modules/02-a.ko\x00", "modules/03-b.ko\x00", "proc\x00"} {
		at = append(at, bytes.Index(m.Ramdisks[0], []byte(name)))
	}
	if at[0] < 0 || at[0] > at[1] || at[1] > at[2] || at[2] > at[3] || len(r.Modules) != 3 || r.Modules[0].Name != "c" {
		t.Errorf("modules at %v, recorded as %v", at, r.Modules)
	}
	// The same inputs, later, under other names: the same bytes.
	later := filepath.Join(b.dir, "elsewhere")
	if err := os.Rename(b.path("modules"), b.path("modules-moved")); err != nil {
		t.Fatal(err)
	}
	b.put("elsewhere/kernel", b.get("kernel"))
	code, _, stderr := b.callAt(now.AddDate(3, 0, 0), "build -kernel "+later+"/kernel -init @init -modules @modules-moved/07-c.ko,@modules-moved/a.ko,@modules-moved/b.ko -version 1.2.3 -platform qemu -o @b.eif")
	if code != exitDone || !bytes.Equal(b.get("a.eif"), b.get("b.eif")) || !bytes.Equal(b.get("a.eif.json"), b.get("b.eif.json")) {
		t.Errorf("the same inputs gave another image: %s", stderr)
	}
}

// Each input changes the measurements that it should, and no other.
func TestWhatIsMeasured(t *testing.T) {
	b := setUp(t)
	b.want(exitDone, inputs+"-o @a.eif")
	base := b.release("a.eif.json").PCRs
	init := b.get("init")
	for name, c := range map[string]struct {
		put, line              string
		zero, one, two, signed bool
	}{
		"kernel":       {put: "kernel", line: inputs, zero: true, one: true},
		"module":       {put: "modules/b.ko", line: inputs, zero: true, one: true},
		"command line": {line: inputs + "-cmdline panic=2 ", zero: true, one: true},
		"version":      {line: inputs + "-version 2 "},
		"signature":    {line: inputs + "-key @key.pem -cert @cert.pem ", signed: true},
		"application":  {put: "init", line: inputs, zero: true, two: true},
	} {
		if c.put != "" {
			old := b.get(c.put)
			b.put(c.put, append(bytes.Clone(old), "changed"...))
			defer b.put(c.put, old)
		}
		b.want(exitDone, c.line+"-o @b.eif")
		got := b.release("b.eif.json").PCRs
		if (got.PCR0 != base.PCR0) != c.zero || (got.PCR1 != base.PCR1) != c.one || (got.PCR2 != base.PCR2) != c.two || (got.PCR8 != "") != c.signed {
			t.Errorf("%s: from %+v to %+v", name, base, got)
		}
		if c.put != "" {
			b.put("kernel", kernel)
			b.put("modules/b.ko", module("b.ko"))
			b.put("init", init)
		}
	}
}

func TestBuildRefused(t *testing.T) {
	b := setUp(t)
	b.put("script", []byte("#!/bin/sh\n"))
	b.put("compressed/a.ko", []byte("\xfd7zXZ"))
	b.put("empty/readme", []byte("nothing"))
	b.put("other.pem", []byte("-----BEGIN CERTIFICATE-----\n"))
	program := b.get("init")
	for name, at := range map[string]int{"arm": 18, "32": 4} {
		other := bytes.Clone(program)
		other[at] = 0xb7
		b.put(name, other)
	}
	b.put("short", kernel[:0x236])
	for name, change := range map[string]func(raw []byte) []byte{
		"vmlinux": func([]byte) []byte { return program }, "gzip": func(raw []byte) []byte { return append([]byte{0x1f, 0x8b}, raw...) },
		"arm64": func(raw []byte) []byte { copy(raw[0x38:], "ARM\x64"); return raw }, "text": func(raw []byte) []byte { return bytes.Repeat([]byte("a kernel "), 1000) },
		"flag": func(raw []byte) []byte { raw[0x1fe] = 0; return raw }, "magic": func(raw []byte) []byte { raw[0x202] = 'h'; return raw },
		"zimage": func(raw []byte) []byte { raw[0x211] = 0x80; return raw }, "i386": func(raw []byte) []byte { raw[0x236] = 0; return raw }, "none": func([]byte) []byte { return nil },
	} {
		b.put("kernels/"+name, change(bytes.Clone(kernel)))
	}
	b.put("program/a.ko", program)
	b.put("armed/a.ko", append(append(module("a")[:18:18], 0xb7), module("a")[19:]...))
	b.put("cut/a.ko", module("")[:63])
	for _, c := range []struct {
		code int
		line string
	}{
		{exitRefused, inputs + "-o @x.eif -modules @program"},
		{exitRefused, inputs + "-o @x.eif -modules @armed"},
		{exitRefused, inputs + "-o @x.eif -modules @cut"},
		{exitUsage, ""},
		{exitUsage, "make"},
		{exitUsage, "build -o @x.eif"},
		{exitUsage, inputs},
		{exitUsage, inputs + "-o @x.eif more"},
		{exitUsage, inputs + "-o @x.eif -kernal x"},
		{exitUsage, inputs + "-o @x.eif -key @key.pem"},
		{exitUsage, inputs + "-o @x.eif -cert @cert.pem"},
		{exitRefused, inputs + "-o @x.eif -kernel-sha256 " + digest([]byte("another kernel"))},
		{exitRefused, inputs + "-o @x.eif -kernel @absent"},
		{exitRefused, inputs + "-o @x.eif -init @script"},
		{exitRefused, inputs + "-o @x.eif -init @arm"},
		{exitRefused, inputs + "-o @x.eif -init @32"},
		{exitRefused, inputs + "-o @x.eif -modules @compressed"},
		{exitRefused, inputs + "-o @x.eif -modules @empty"},
		{exitRefused, inputs + "-o @x.eif -modules @modules/a.ko,@modules/absent.ko"},
		{exitRefused, inputs + "-o @x.eif -platform xen"},
		{exitRefused, inputs + "-o @x.eif -source 12345"},
		{exitRefused, inputs + "-o @x.eif -cmdline ä"},
		{exitRefused, inputs + "-o @x.eif -key @cert.pem -cert @cert.pem"},
		{exitRefused, inputs + "-o @x.eif -key @key.pem -cert @other.pem"},
		{exitRefused, inputs + "-o @absent/x.eif"},
	} {
		b.want(c.code, c.line)
	}
	for name, says := range map[string]string{
		"short": "is no bzImage", "kernels/none": "is no bzImage", "kernels/text": "is no bzImage", "kernels/flag": "is no bzImage", "kernels/magic": "is no bzImage",
		"kernels/vmlinux": "is an ELF file, such as a program or vmlinux: want the kernel's arch/x86/boot/bzImage", "kernels/gzip": "compressed by gzip",
		"kernels/arm64": "64-bit ARM", "kernels/zimage": "is a zImage", "kernels/i386": "32 bits",
	} {
		code, _, stderr := b.call(inputs + "-o @y.eif -kernel @" + name)
		if code != exitRefused || !strings.Contains(stderr, b.path(name)+": ") || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit %d: %s", name, code, stderr)
		}
		if _, err := os.Stat(b.path("y.eif")); err == nil {
			t.Fatalf("%s: an image was made", name)
		}
	}
	if code, _, _ := b.callAt(now.AddDate(1, 0, 0), inputs+"-o @x.eif -key @key.pem -cert @cert.pem"); code != exitRefused {
		t.Error("signed with an expired certificate")
	}
}

func TestSharedLibraries(t *testing.T) {
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Skip("needs /bin/sh")
	}
	if _, err := program(shell); err == nil {
		t.Error("a program that needs shared libraries, or no program of Go, was taken")
	}
}

func TestSignAndCheck(t *testing.T) {
	b := setUp(t)
	b.want(exitDone, inputs+"-o @plain.eif")
	b.want(exitDone, "sign -key @key.pem -cert @cert.pem -o @signed.eif @plain.eif")
	b.want(exitDone, inputs+"-key @key.pem -cert @cert.pem -o @at-once.eif")
	if !bytes.Equal(b.get("signed.eif"), b.get("at-once.eif")) || !bytes.Equal(b.get("signed.eif.json"), b.get("at-once.eif.json")) {
		t.Error("signed afterwards is not signed at once")
	}
	if out := b.want(exitDone, "check -release @signed.eif.json @signed.eif"); !strings.Contains(out, "THE IMAGE OF THE RELEASE") || !strings.Contains(out, "release") {
		t.Errorf("check says\n%s", out)
	}
	if _, out, _ := b.callAt(now.AddDate(1, 0, 0), "check @signed.eif"); !strings.Contains(out, "NOT VALID NOW") {
		t.Errorf("an expired certificate is not told:\n%s", out)
	}
	if out := b.want(exitDone, "check @plain.eif"); !strings.Contains(out, "not signed") {
		t.Errorf("check says\n%s", out)
	}
	broken := b.get("signed.eif")
	broken[len(broken)/2] ^= 1
	b.put("broken.eif", broken)
	b.put("broken.eif.json", b.get("signed.eif.json"))
	b.put("alone.eif", b.get("plain.eif"))
	b.put("release.json", bytes.Replace(b.get("plain.eif.json"), []byte(`"format"`), []byte(`"Format"`), 1))
	for _, line := range []string{
		"check @broken.eif", "check @absent.eif", "check @kernel",
		"check -release @signed.eif.json @plain.eif", "check -release @plain.eif.json @signed.eif", "check -release @release.json @plain.eif",
		"check -release @plain.eif @plain.eif",
		"sign -key @key.pem -cert @cert.pem -o @x.eif @broken.eif", "sign -key @key.pem -cert @cert.pem -o @x.eif @alone.eif",
	} {
		b.want(exitRefused, line)
	}
	for _, line := range []string{"check", "check @plain.eif @plain.eif", "sign @plain.eif", "sign -key @key.pem -cert @cert.pem -o @x.eif"} {
		b.want(exitUsage, line)
	}
}

// A release file with any of its members changed is not that of the image.
func TestReleaseOfAnother(t *testing.T) {
	b := setUp(t)
	b.want(exitDone, inputs+"-key @key.pem -cert @cert.pem -o @a.eif")
	for name, change := range map[string]func(*attestation.Release){
		"PCR0":         func(r *attestation.Release) { r.PCRs.PCR0 = r.PCRs.PCR1 },
		"PCR1":         func(r *attestation.Release) { r.PCRs.PCR1 = r.PCRs.PCR0 },
		"PCR2":         func(r *attestation.Release) { r.PCRs.PCR2 = r.PCRs.PCR0 },
		"PCR8":         func(r *attestation.Release) { r.PCRs.PCR8 = r.PCRs.PCR0 },
		"no PCR8":      func(r *attestation.Release) { r.PCRs.PCR8 = "" },
		"kernel":       func(r *attestation.Release) { r.Kernel.SHA256 = r.ApplicationDigest },
		"command line": func(r *attestation.Release) { r.CommandLine = "panic=2" },
		"application":  func(r *attestation.Release) { r.ApplicationDigest = r.Kernel.SHA256 },
		"image":        func(r *attestation.Release) { r.Image.SHA256 = r.Kernel.SHA256 },
	} {
		r := b.release("a.eif.json")
		change(r)
		raw, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		b.put("other.json", raw)
		if code, _, _ := b.call("check -release @other.json @a.eif"); code != exitRefused {
			t.Errorf("%s changed: accepted", name)
		}
	}
}

// What nitro-cli prints of an image, in the form of its documentation.
func TestMeasuredByNitroCLI(t *testing.T) {
	b := setUp(t)
	b.want(exitDone, inputs+"-o @plain.eif")
	b.want(exitDone, inputs+"-key @key.pem -cert @cert.pem -o @signed.eif")
	p, s := b.release("plain.eif.json").PCRs, b.release("signed.eif.json").PCRs
	const algorithm = `"HashAlgorithm": "Sha384 { ... }", `
	built := func(members string) string {
		return "Start building the Enclave Image...\nEnclave Image successfully created.\n{\n \"Measurements\": {" + members + "}\n}\n"
	}
	three := algorithm + `"PCR0": "` + p.PCR0 + `", "PCR1": "` + p.PCR1 + `", "PCR2": "` + p.PCR2 + `"`
	four := three + `, "PCR8": "` + s.PCR8 + `"`
	for _, c := range []struct {
		code        int
		image, text string
	}{
		{exitDone, "plain", built(three)},
		{exitDone, "signed", built(four)},
		{exitDone, "plain", `{"EifVersion": 4, "Measurements": {` + three + `}, "IsSigned": false, "CheckCRC": true, "Metadata": {"a": [1]}}`},
		{exitRefused, "signed", built(three)},
		{exitRefused, "plain", built(four)},
		{exitRefused, "plain", built(algorithm + `"PCR0": "` + p.PCR0 + `"`)},
		{exitRefused, "plain", built(strings.Replace(three, p.PCR1, p.PCR0, 1))},
		{exitRefused, "plain", built(strings.Replace(three, p.PCR2, strings.Repeat("0", 96), 1))},
		{exitRefused, "plain", built(three + `, "PCR3": "00"`)},
		{exitRefused, "plain", built("")},
		{exitRefused, "plain", "Enclave Image successfully created."},
		{exitRefused, "plain", built(three) + "{"},
		{exitRefused, "plain", ""},
	} {
		b.put("printed", []byte(c.text))
		if code, _, said := b.call("check -nitro-cli @printed @" + c.image + ".eif"); code != c.code {
			t.Errorf("%s against %q: exit %d, want %d: %s", c.image, c.text, code, c.code, said)
		}
	}
}

// What is released can be read, and is called what it is.
func TestReleases(t *testing.T) {
	files, err := filepath.Glob("releases/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		r, err := openRelease(name)
		if err != nil {
			t.Error(err)
			continue
		}
		want := r.Version
		if r.Platform != attestation.PlatformNitro {
			want += "-" + r.Platform
		}
		if got := strings.TrimSuffix(filepath.Base(name), ".json"); got != want || r.Source == "" {
			t.Errorf("%s: want %s.json, with its source", name, want)
		}
	}
}
