package attestation_test

import (
	"bytes"
	"strings"
	"testing"

	"cloister/attestation"
)

func release() *attestation.Release {
	hash := func(c string) string { return strings.Repeat(c, 64) }
	pcr := func(c string) string { return strings.Repeat(c, 96) }
	return &attestation.Release{
		Format: 1, Application: attestation.Application, Version: "1.2.3", Platform: attestation.PlatformNitro, Source: strings.Repeat("5", 40),
		Toolchain: "go1.26.8", ApplicationDigest: hash("a"), PCRs: attestation.ReleasePCRs{PCR0: pcr("1"), PCR1: pcr("2"), PCR2: pcr("3"), PCR8: pcr("8")},
		Kernel:      attestation.ReleaseFile{Name: "bzImage", SHA256: hash("b")},
		Modules:     []attestation.ReleaseFile{{Name: "nsm", SHA256: hash("c")}},
		CommandLine: "panic=1", Image: attestation.ReleaseFileHash{SHA256: hash("d")},
	}
}

func TestReleaseReadBack(t *testing.T) {
	for name, change := range map[string]func(*attestation.Release){
		"full":        func(*attestation.Release) {},
		"not signed":  func(r *attestation.Release) { r.PCRs.PCR8 = "" },
		"no source":   func(r *attestation.Release) { r.Source = "" },
		"no modules":  func(r *attestation.Release) { r.Modules = nil },
		"the machine": func(r *attestation.Release) { r.Platform = attestation.PlatformQEMU },
	} {
		r := release()
		change(r)
		raw, err := r.Encode()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := attestation.ParseRelease(raw)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		again, err := got.Encode()
		if err != nil || !bytes.Equal(raw, again) {
			t.Errorf("%s: written again, another file: %v", name, err)
		}
		pcrs := got.ExpectedPCRs()
		if _, signed := pcrs[8]; signed != (r.PCRs.PCR8 != "") || pcrs[0] != r.PCRs.PCR0 || pcrs[1] != r.PCRs.PCR1 || pcrs[2] != r.PCRs.PCR2 {
			t.Errorf("%s: expects %v", name, pcrs)
		}
	}
}

func TestReleaseRefused(t *testing.T) {
	for name, change := range map[string]func(*attestation.Release){
		"format":           func(r *attestation.Release) { r.Format = 2 },
		"application":      func(r *attestation.Release) { r.Application = "other" },
		"version":          func(r *attestation.Release) { r.Version = "" },
		"control":          func(r *attestation.Release) { r.Version = "1\x1b[2J" },
		"platform":         func(r *attestation.Release) { r.Platform = "xen" },
		"source":           func(r *attestation.Release) { r.Source = "main" },
		"toolchain":        func(r *attestation.Release) { r.Toolchain = "" },
		"digest":           func(r *attestation.Release) { r.ApplicationDigest = strings.Repeat("A", 64) },
		"no digest":        func(r *attestation.Release) { r.ApplicationDigest = "" },
		"no PCR1":          func(r *attestation.Release) { r.PCRs.PCR1 = "" },
		"zero PCR0":        func(r *attestation.Release) { r.PCRs.PCR0 = strings.Repeat("0", 96) },
		"zero PCR8":        func(r *attestation.Release) { r.PCRs.PCR8 = strings.Repeat("0", 96) },
		"short PCR2":       func(r *attestation.Release) { r.PCRs.PCR2 = r.PCRs.PCR2[:64] },
		"kernel":           func(r *attestation.Release) { r.Kernel.Name = "" },
		"module":           func(r *attestation.Release) { r.Modules[0].SHA256 = "" },
		"too many modules": func(r *attestation.Release) { r.Modules = make([]attestation.ReleaseFile, attestation.MaxModules+1) },
		"no command line":  func(r *attestation.Release) { r.CommandLine = "" },
		"long one":         func(r *attestation.Release) { r.CommandLine = strings.Repeat("a", 2048) },
		"image":            func(r *attestation.Release) { r.Image.SHA256 = "" },
	} {
		r := release()
		change(r)
		if _, err := r.Encode(); err == nil {
			t.Errorf("%s: written", name)
		}
	}
	good, err := release().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string][]byte{
		"nothing":          nil,
		"rest":             append(bytes.Clone(good), '{'),
		"another spelling": bytes.Replace(good, []byte(`"pcrs"`), []byte(`"PCRs"`), 1),
		"unknown member":   bytes.Replace(good, []byte(`"format"`), []byte(`"more": 1, "format"`), 1),
		"member twice":     bytes.Replace(good, []byte(`"format"`), []byte(`"version": "1", "format"`), 1),
		"null":             bytes.Replace(good, []byte(`"1.2.3"`), []byte(`null`), 1),
		"no modules":       bytes.Replace(good, []byte(`"modules"`), []byte(`"kernel"`), 1),
		"too long":         append(bytes.Clone(good), bytes.Repeat([]byte(" "), attestation.MaxRelease)...),
	} {
		if _, err := attestation.ParseRelease(raw); err == nil {
			t.Errorf("%s: read", name)
		}
	}
}

func FuzzParseRelease(f *testing.F) {
	good, err := release().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := attestation.ParseRelease(raw)
		if err != nil {
			return
		}
		again, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := attestation.ParseRelease(again); err != nil {
			t.Errorf("written again, not read: %v", err)
		}
	})
}

func TestReleasePin(t *testing.T) {
	r := release()
	var p attestation.Policy
	if err := r.Pin(&p); err != nil {
		t.Fatal(err)
	}
	if p.ExpectedApplicationDigest != r.ApplicationDigest || len(p.ExpectedPCRs) != 4 || p.ExpectedPCRs[8] != r.PCRs.PCR8 {
		t.Errorf("pinned %+v", p)
	}
	if err := r.Pin(&p); err != nil {
		t.Errorf("the same once more: %v", err)
	}
	// What it does not say may be expected besides: the role of the parent.
	role := attestation.Policy{ExpectedPCRs: map[int]string{3: strings.Repeat("4", 96)}}
	if err := r.Pin(&role); err != nil || len(role.ExpectedPCRs) != 5 {
		t.Errorf("%v, %v", role.ExpectedPCRs, err)
	}
	malformed := release()
	malformed.PCRs.PCR0 = ""
	for name, c := range map[string]struct {
		r *attestation.Release
		p attestation.Policy
	}{
		"another PCR2":   {r, attestation.Policy{ExpectedPCRs: map[int]string{2: strings.Repeat("4", 96)}}},
		"another binary": {r, attestation.Policy{ExpectedApplicationDigest: strings.Repeat("4", 64)}},
		"malformed":      {malformed, attestation.Policy{}},
	} {
		if err := c.r.Pin(&c.p); err == nil {
			t.Errorf("%s: pinned", name)
		}
	}
}
