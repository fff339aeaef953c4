package program_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/program"
	"cloister/enclave/internal/secret/secrettest"
)

// registry keeps blobs, as the host would give them.
type registry map[program.Digest][]byte

func (r registry) Open(d program.Digest) (io.Reader, error) {
	b, ok := r[d]
	if !ok {
		return nil, program.Invalid("the registry has no such image")
	}
	return bytes.NewReader(b), nil
}

func (r registry) put(b []byte) program.Digest {
	d := program.Digest(sha256.Sum256(b))
	r[d] = b
	return d
}

// elf begins as a program for x86-64 does.
func elf(rest string) []byte {
	head := make([]byte, 64)
	copy(head, "\x7fELF\x02\x01\x01")
	head[16], head[18] = 3, 62
	return append(head, rest...)
}

type file struct {
	name string
	body []byte
	kind byte // of tar; 0: a file
}

func archive(files ...file) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Size: int64(len(f.body)), Typeflag: f.kind, Mode: 0o755, Linkname: "elsewhere"}
		if f.kind == 0 {
			h.Typeflag, h.Linkname = tar.TypeReg, ""
		}
		if err := w.WriteHeader(h); err != nil {
			panic(err)
		}
		w.Write(f.body)
	}
	w.Close()
	return b.Bytes()
}

func zip(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(b)
	w.Close()
	return out.Bytes()
}

type object = map[string]any

// image puts an image of these layers into r. change may alter its documents before they are named.
func (r registry) image(change func(manifest, config object), layers ...[]byte) program.Reference {
	descriptors, diffs := []any{}, []any{}
	for _, l := range layers {
		z := zip(l)
		descriptors = append(descriptors, object{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": r.put(z).String(), "size": len(z)})
		diffs = append(diffs, program.Digest(sha256.Sum256(l)).String())
	}
	config := object{"architecture": "amd64", "os": "linux", "rootfs": object{"type": "layers", "diff_ids": diffs}}
	manifest := object{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": descriptors}
	if change != nil {
		change(manifest, config)
	}
	raw, _ := json.Marshal(config)
	if manifest["config"] == nil {
		manifest["config"] = object{"mediaType": "application/vnd.oci.image.config.v1+json", "digest": r.put(raw).String(), "size": len(raw)}
	}
	raw, _ = json.Marshal(manifest)
	d := r.put(raw)
	return program.Reference{Text: "registry.example/app@" + d.String(), Registry: "registry.example", Digest: d}
}

func TestFind(t *testing.T) {
	one, two := elf("one"), elf("two")
	r := registry{}
	for what, c := range map[string]struct {
		layers [][]byte
		at     string
		want   []byte
	}{
		"alone":                    {[][]byte{archive(file{name: "app", body: one})}, "/app", one},
		"below":                    {[][]byte{archive(file{name: "usr/", kind: tar.TypeDir}, file{name: "./usr/bin/app", body: one}), archive(file{name: "etc/x", body: two})}, "/usr/bin/app", one},
		"the upper one":            {[][]byte{archive(file{name: "app", body: one}), archive(file{name: "app", body: two})}, "/app", two},
		"the last one of a layer":  {[][]byte{archive(file{name: "app", body: one}, file{name: "/app", body: two})}, "/app", two},
		"another is taken away":    {[][]byte{archive(file{name: "app", body: one}), archive(file{name: ".wh.apple"})}, "/app", one},
		"taken away and put again": {[][]byte{archive(file{name: "d/app", body: one}), archive(file{name: "d/app", body: two}, file{name: "d/.wh..wh..opq"})}, "/d/app", two},
	} {
		got, err := program.Find(r, r.image(nil, c.layers...), c.at)
		if err != nil || got != program.Digest(sha256.Sum256(c.want)) {
			t.Errorf("%s: %s, %v", what, got, err)
		}
	}
	// A layer that is not compressed.
	plain := archive(file{name: "app", body: one})
	ref := r.image(func(m, _ object) {
		m["layers"] = []any{object{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": r.put(plain).String(), "size": len(plain)}}
	}, plain)
	if got, err := program.Find(r, ref, "/app"); err != nil || got != program.Digest(sha256.Sum256(one)) {
		t.Error(got, err)
	}
	if d, err := program.Resolve(r, ref); err != nil || d != ref.Digest {
		t.Error(d, err)
	}
}

func TestFindRefuses(t *testing.T) {
	app := archive(file{name: "app", body: elf("one")})
	arm := elf("")
	arm[18] = 183
	old := elf("")
	old[4] = 1
	r := registry{}
	alter := func(what string, value any) func(m, c object) {
		return func(m, c object) {
			if _, there := m[what]; there || what == "manifests" {
				m[what] = value
			} else {
				c[what] = value
			}
		}
	}
	layer := func(kind string, more object) func(m, c object) {
		return func(m, _ object) {
			l := object{"mediaType": kind, "digest": program.Digest{1}.String(), "size": 100}
			for k, v := range more {
				l[k] = v
			}
			m["layers"] = []any{l}
		}
	}
	const gz = "application/vnd.oci.image.layer.v1.tar+gzip"
	for what, c := range map[string]struct {
		change func(m, c object)
		layers [][]byte
		says   string
	}{
		"no such path":             {nil, [][]byte{archive(file{name: "apple", body: elf("")})}, "no such path"},
		"a script":                 {nil, [][]byte{archive(file{name: "app", body: []byte("#!/bin/sh\n" + strings.Repeat("#", 100))})}, "not ELF x86-64"},
		"empty":                    {nil, [][]byte{archive(file{name: "app"})}, "not ELF x86-64"},
		"another machine":          {nil, [][]byte{archive(file{name: "app", body: arm})}, "not ELF x86-64"},
		"32 bits":                  {nil, [][]byte{archive(file{name: "app", body: old})}, "not ELF x86-64"},
		"a link":                   {nil, [][]byte{app, archive(file{name: "app", kind: tar.TypeSymlink})}, "no link"},
		"a hard link":              {nil, [][]byte{archive(file{name: "app", kind: tar.TypeLink})}, "no link"},
		"a directory":              {nil, [][]byte{archive(file{name: "app/", kind: tar.TypeDir})}, "is no file"},
		"taken away":               {nil, [][]byte{app, archive(file{name: ".wh.app"})}, "no such path"},
		"all taken away":           {nil, [][]byte{app, archive(file{name: ".wh..wh..opq"})}, "no such path"},
		"no archive":               {nil, [][]byte{[]byte(strings.Repeat("no archive", 100))}, "no tar archive"},
		"an archive that ends":     {nil, [][]byte{archive(file{name: "x", body: elf(strings.Repeat("x", 2000))})[:1000]}, "no tar archive"},
		"for arm":                  {alter("architecture", "arm64"), [][]byte{app}, "not for linux/amd64"},
		"for another system":       {alter("os", "windows"), [][]byte{app}, "not for linux/amd64"},
		"an index":                 {alter("mediaType", "application/vnd.oci.image.index.v1+json"), [][]byte{app}, "several images"},
		"an index without type":    {alter("manifests", []any{object{"digest": "x"}}), [][]byte{app}, "several images"},
		"another document":         {alter("mediaType", "text/plain"), [][]byte{app}, "of no type"},
		"the first version":        {alter("schemaVersion", 1), [][]byte{app}, "of no version"},
		"no layers":                {alter("layers", []any{}), [][]byte{app}, "has 0 layers"},
		"zstd":                     {layer("application/vnd.oci.image.layer.v1.tar+zstd", nil), [][]byte{app}, "of no type"},
		"from elsewhere":           {layer(gz, object{"urls": []any{"https://example.org"}}), [][]byte{app}, "of no type"},
		"no digest":                {layer(gz, object{"digest": "sha512:00"}), [][]byte{app}, "no digest"},
		"no size":                  {layer(gz, object{"size": 0}), [][]byte{app}, "no size"},
		"too large":                {layer(gz, object{"size": program.MaxImage + 1}), [][]byte{app}, "more than 1073741824 bytes"},
		"other layers":             {alter("rootfs", object{"diff_ids": []any{}}), [][]byte{app}, "other layers"},
		"another layer than named": {alter("rootfs", object{"diff_ids": []any{program.Digest{1}.String()}}), [][]byte{app}, "not the one that its configuration names"},
		"no configuration":         {func(m, _ object) { m["config"] = object{"digest": "x"} }, [][]byte{app}, "no configuration"},
	} {
		_, err := program.Find(r, r.image(c.change, c.layers...), "/app")
		if e := fault.Of(err); e == nil || e.Code != fault.InvalidArgument || e.Name != "TVC_IMAGE_VALIDATION_FAILED" || !strings.Contains(e.Message, c.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := program.Find(r, r.image(nil, archive(file{name: "usr", kind: tar.TypeSymlink}, file{name: "usr/app", body: elf("")})), "/usr/app"); err == nil || !strings.Contains(err.Error(), "is no directory") {
		t.Error(err)
	}
}

// Whatever the host gives in the place of what was named is nothing, wherever it differs and however it is found.
func TestNothingButWhatIsNamed(t *testing.T) {
	r := registry{}
	ref := r.image(nil, archive(file{name: "app", body: elf("one")}), archive(file{name: "x", body: []byte("x")}))
	want, err := program.Find(r, ref, "/app")
	if err != nil {
		t.Fatal(err)
	}
	for d, whole := range r {
		for at := range whole {
			for _, bit := range []byte{1, 0x80} {
				b := bytes.Clone(whole)
				b[at] ^= bit
				r[d] = b
				if got, err := program.Find(r, ref, "/app"); !errors.Is(err, program.ErrAway) {
					t.Fatalf("byte %d of %s altered: %s, %v", at, d, got, err)
				}
			}
		}
		for _, b := range [][]byte{nil, whole[:len(whole)-1], append(bytes.Clone(whole), 0), append(bytes.Clone(whole), whole...)} {
			r[d] = b
			if got, err := program.Find(r, ref, "/app"); !errors.Is(err, program.ErrAway) {
				t.Fatalf("%d of %d bytes of %s: %s, %v", len(b), len(whole), d, got, err)
			}
		}
		r[d] = whole
	}
	if got, err := program.Find(r, ref, "/app"); err != nil || got != want {
		t.Error(got, err)
	}
}

// bomb is as many zeros as are asked for.
type bomb struct{ left int64 }

func (b *bomb) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), b.left)
	clear(p[:n])
	b.left -= n
	return int(n), nil
}

// What comes out of compression is bounded, not only what goes in.
func TestBomb(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: four gibibytes of zeros")
	}
	var z bytes.Buffer
	w, _ := gzip.NewWriterLevel(&z, gzip.BestSpeed)
	a := tar.NewWriter(w)
	const size = 4 << 30
	a.WriteHeader(&tar.Header{Name: "zeros", Size: size, Mode: 0o644, Typeflag: tar.TypeReg})
	io.Copy(a, &bomb{size})
	a.Close()
	w.Close()
	r := registry{}
	ref := r.image(func(m, _ object) {
		m["layers"] = []any{object{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": r.put(z.Bytes()).String(), "size": z.Len()}}
	}, nil)
	if _, err := program.Find(r, ref, "/app"); err == nil || !strings.Contains(err.Error(), "once it is unpacked") {
		t.Error(err)
	}
}

func TestReferences(t *testing.T) {
	hex := strings.Repeat("ab", 32)
	for text, registry := range map[string]string{
		"registry.example.com/team/app@sha256:" + hex: "registry.example.com", "LOCALHOST:5000/app:tag@sha256:" + hex: "localhost:5000", "localhost/app@sha256:" + hex: "localhost",
		"library/app@sha256:" + hex: "index.docker.io", "app:latest@sha256:" + hex: "index.docker.io", "docker.io/library/app@sha256:" + hex: "index.docker.io",
	} {
		if r, err := program.ParseReference("image", text, true); err != nil || r.Registry != registry || r.Digest == (program.Digest{}) || r.Text != text {
			if text[:4] == "LOCA" && err == nil && r.Registry == registry {
				continue
			}
			t.Errorf("%s: %+v, %v", text, r, err)
		}
	}
	for _, text := range []string{"", "@sha256:" + hex, "registry.example.com/app", "registry.example.com/app:1", "registry.example.com/app@sha256:" + hex[1:], "registry.example.com/app@sha256:" + strings.ToUpper(hex),
		"registry.example.com/app@sha512:" + hex, "registry.example.com/@sha256:" + hex, "registry.example.com//app@sha256:" + hex, "registry.example.com/app@sha256:" + hex + "@sha256:" + hex,
		"registry.example.com/a b@sha256:" + hex, "user:password@registry.example.com/app@sha256:" + hex, "registry.example.com/app?x@sha256:" + hex, strings.Repeat("a", 500) + "@sha256:" + hex, "https://registry.example.com/app@sha256:" + hex} {
		if r, err := program.ParseReference("image", text, true); err == nil {
			t.Errorf("%q is taken: %+v", text, r)
		}
	}
	if r, err := program.ParseReference("image", "registry.example.com/app:1", false); err != nil || r.Digest != (program.Digest{}) {
		t.Error(r, err)
	}
}

// A pull secret is told to the registry of its entry alone.
func TestAuth(t *testing.T) {
	const doc = `{"auths": {"https://index.docker.io/v1/": {"auth": "aHViOnB3"}, "Registry.example.com": {"username": "u", "password": "p:w", "email": "x"}, "bad.example.com": {"auth": "?"},
		"none.example.com": {}}, "credHelpers": {}}`
	for registry, want := range map[string]string{"index.docker.io": "hub:pw", "registry.example.com": "u:p:w", "bad.example.com": "", "none.example.com": "", "example.com": "", "evil.example": "", "": ""} {
		got, err := program.Auth(secrettest.Of([]byte(doc)), registry)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", registry, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "hub") {
			t.Error(err)
		}
	}
	for _, text := range []string{"sk_test_of_something_else", `{}`, `[]`, `{"auths": {"registry.example.com": {"username": "u"}, "registry.example.com": {"auth": ""}}}`} {
		if got, err := program.Auth(secrettest.Of([]byte(text)), "registry.example.com"); err == nil {
			t.Errorf("%s: %q", text, got)
		}
	}
}

// fuzzed seeds a target with the blobs of an image.
func fuzzed(f *testing.F, which int) (registry, program.Reference, program.Digest) {
	r := registry{}
	ref := r.image(nil, archive(file{name: "app", body: elf("one")}))
	var m struct{ Config, Layer struct{ Digest string } }
	var whole struct {
		Config struct{ Digest string }
		Layers []struct{ Digest string }
	}
	if err := json.Unmarshal(r[ref.Digest], &whole); err != nil {
		f.Fatal(err)
	}
	m.Config, m.Layer = whole.Config, whole.Layers[0]
	d := []program.Digest{ref.Digest, {}, {}}
	d[1], _ = program.ParseDigest(m.Config.Digest)
	d[2], _ = program.ParseDigest(m.Layer.Digest)
	f.Add(r[d[which]])
	return r, ref, d[which]
}

// must refuses an error of no meaning, and a result beside one.
func must(t *testing.T, got program.Digest, err error) {
	if err != nil && (got != program.Digest{} || fault.Of(err) == nil && !errors.Is(err, program.ErrAway)) {
		t.Errorf("%s, %v", got, err)
	}
}

func FuzzManifest(f *testing.F) {
	r, ref, _ := fuzzed(f, 0)
	f.Add([]byte(`{"schemaVersion":2,"layers":[{"size":9223372036854775807},{"size":9223372036854775807}],"config":{"digest":""}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := registry{ref.Digest: r[ref.Digest]}
		d := r.put(raw)
		got, err := program.Find(r, program.Reference{Text: "x@" + d.String(), Digest: d}, "/app")
		must(t, got, err)
	})
}

func FuzzConfig(f *testing.F) {
	r, ref, of := fuzzed(f, 1)
	f.Fuzz(func(t *testing.T, raw []byte) {
		other := registry{}
		for d, b := range r {
			other[d] = b
		}
		c := other.put(raw)
		m := other.put(bytes.ReplaceAll(r[ref.Digest], []byte(of.String()), []byte(c.String())))
		got, err := program.Find(other, program.Reference{Text: "x@" + m.String(), Digest: m}, "/app")
		must(t, got, err)
	})
}

func FuzzLayer(f *testing.F) {
	_, _, _ = fuzzed(f, 2)
	f.Add(zip([]byte("no archive")))
	f.Add(zip(archive(file{name: ".wh..wh..opq"}, file{name: "app", kind: tar.TypeSymlink})))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := registry{}
		for _, compressed := range []bool{true, false} {
			ref := r.image(func(m, c object) {
				kind := "application/vnd.oci.image.layer.v1.tar"
				unpacked := raw
				if compressed {
					kind += "+gzip"
					if z, err := gzip.NewReader(bytes.NewReader(raw)); err == nil {
						unpacked, _ = io.ReadAll(io.LimitReader(z, 1<<20))
					}
				}
				m["layers"] = []any{object{"mediaType": kind, "digest": r.put(raw).String(), "size": len(raw)}}
				c["rootfs"] = object{"diff_ids": []any{fmt.Sprintf("sha256:%x", sha256.Sum256(unpacked))}}
			}, nil)
			got, err := program.Find(r, ref, "/app")
			must(t, got, err)
		}
	})
}

func FuzzReference(f *testing.F) {
	f.Add("registry.example.com/team/app:1@sha256:" + strings.Repeat("ab", 32))
	f.Fuzz(func(t *testing.T, text string) {
		for _, pinned := range []bool{true, false} {
			r, err := program.ParseReference("image", text, pinned)
			if err == nil && (r.Text != text || r.Registry == "" || pinned && r.Digest == (program.Digest{}) && !strings.Contains(text, strings.Repeat("0", 64))) {
				t.Errorf("%q: %+v", text, r)
			}
		}
	})
}

func FuzzAuth(f *testing.F) {
	f.Add([]byte(`{"auths": {"registry.example.com": {"auth": "aHViOnB3"}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) == 0 || len(raw) > 1<<16 {
			return
		}
		got, err := program.Auth(secrettest.Of(bytes.Clone(raw)), "registry.example.com")
		if (got == "") == (err == nil) {
			t.Errorf("%q: %q, %v", raw, got, err)
		}
	})
}
