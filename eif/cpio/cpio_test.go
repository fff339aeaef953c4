package cpio_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os/exec"
	"strings"
	"testing"

	"cloister/eif/cpio"
)

func entries() []cpio.Entry {
	return []cpio.Entry{
		cpio.File("modules/01-b.ko", 0o644, []byte("module")), cpio.Dir("proc"), cpio.Dir("modules"),
		cpio.File("init", 0o755, []byte("#!")), cpio.Dir("dev"), cpio.Device("dev/console", 5, 1),
	}
}

func archive(t *testing.T, e ...cpio.Entry) []byte {
	t.Helper()
	raw, err := cpio.Archive(e...)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// The bytes are part of every measurement: they change only with a reason.
func TestGolden(t *testing.T) {
	raw := archive(t, entries()...)
	sum := sha256.Sum256(raw)
	const want = "97491b22667571e924eda899793414fd9fa5f9750d46ee9c364b4522ce909895"
	if got := hex.EncodeToString(sum[:]); got != want {
		t.Errorf("SHA-256 of the archive is %s, was %s", got, want)
	}
	if len(raw)%512 != 0 {
		t.Errorf("%d bytes: the archive behind it would not begin at a multiple of four", len(raw))
	}
}

func TestOrderOfArgumentsDoesNotMatter(t *testing.T) {
	e := entries()
	first := archive(t, e...)
	for i := range e {
		e[0], e[i] = e[i], e[0]
		if !bytes.Equal(first, archive(t, e...)) {
			t.Fatal("another archive")
		}
	}
}

// Another program reads it as it was meant.
func TestReadByCpio(t *testing.T) {
	path, err := exec.LookPath("cpio")
	if err != nil {
		t.Skip("needs cpio")
	}
	c := exec.Command(path, "--quiet", "-itvn")
	c.Stdin = bytes.NewReader(archive(t, entries()...))
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var got []string
	for l := range strings.Lines(string(out)) {
		f := strings.Fields(l)
		got = append(got, f[0]+" "+f[2]+":"+f[3]+" "+f[len(f)-1])
	}
	want := []string{
		"drwxr-xr-x 0:0 dev", "crw------- 0:0 dev/console", "-rwxr-xr-x 0:0 init", "drwxr-xr-x 0:0 modules",
		"-rw-r--r-- 0:0 modules/01-b.ko", "drwxr-xr-x 0:0 proc",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !strings.Contains(string(out), "Jan  1  1970") {
		t.Errorf("time is not 0:\n%s", out)
	}
}

func TestRefused(t *testing.T) {
	many := make([]cpio.Entry, cpio.MaxEntries+1)
	for name, e := range map[string][]cpio.Entry{
		"nothing":              {},
		"too many":             many,
		"no name":              {cpio.Dir("")},
		"absolute":             {cpio.Dir("/dev")},
		"ends with a slash":    {cpio.Dir("dev/")},
		"empty part":           {cpio.Dir("a"), cpio.File("a//b", 0o644, nil)},
		"dot":                  {cpio.Dir(".")},
		"upwards":              {cpio.Dir("a"), cpio.File("a/../init", 0o755, nil)},
		"line feed":            {cpio.File("a\nb", 0o644, nil)},
		"NUL":                  {cpio.File("a\x00b", 0o644, nil)},
		"not ASCII":            {cpio.File("ä", 0o644, nil)},
		"the end":              {cpio.File("TRAILER!!!", 0o644, nil)},
		"long name":            {cpio.Dir(strings.Repeat("a", 256))},
		"twice":                {cpio.Dir("a"), cpio.File("a", 0o644, nil)},
		"no directory":         {cpio.File("a/b", 0o644, nil)},
		"a file as directory":  {cpio.File("a", 0o644, nil), cpio.File("a/b", 0o644, nil)},
		"a device as one":      {cpio.Device("a", 1, 3), cpio.File("a/b", 0o644, nil)},
		"directory of another": {cpio.Dir("ab"), cpio.File("a/b", 0o644, nil)},
		"set user":             {cpio.File("a", 0o4755, nil)},
		"a type in the mode":   {cpio.File("a", 0o040755, nil)},
	} {
		if _, err := cpio.Archive(e...); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestSole(t *testing.T) {
	content := []byte("a program")
	raw := archive(t, cpio.File("init", 0o755, content))
	got, err := cpio.Sole(raw, "init")
	if err != nil || !bytes.Equal(got, content) {
		t.Fatalf("%q, %v", got, err)
	}
	for i := range raw {
		other := bytes.Clone(raw)
		other[i] ^= 1
		if again, err := cpio.Sole(other, "init"); err == nil && bytes.Equal(again, content) {
			t.Errorf("byte %d changed: accepted as the same", i)
		}
	}
	for name, other := range map[string][]byte{
		"empty":            nil,
		"short":            raw[:100],
		"cut":              raw[:len(raw)-512],
		"rest":             append(bytes.Clone(raw), 0),
		"mode":             archive(t, cpio.File("init", 0o644, content)),
		"another name":     archive(t, cpio.File("tini", 0o755, content)),
		"a second file":    archive(t, cpio.File("init", 0o755, content), cpio.File("more", 0o755, nil)),
		"longer than that": bytes.Replace(raw, []byte("00000009"), []byte("0000FFFF"), 1),
	} {
		if _, err := cpio.Sole(other, "init"); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzSole(f *testing.F) {
	raw, err := cpio.Archive(cpio.File("init", 0o755, []byte("a program")))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add(raw[:200])
	f.Fuzz(func(t *testing.T, raw []byte) {
		content, err := cpio.Sole(raw, "init")
		if err != nil {
			return
		}
		if again := archive(t, cpio.File("init", 0o755, content)); !bytes.Equal(again, raw) {
			t.Error("accepted what is not the archive of its content")
		}
	})
}
