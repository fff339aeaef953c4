package attestation

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// MaxRelease is the longest release file in bytes, MaxModules how many kernel modules one may name.
const (
	MaxRelease = 64 << 10
	MaxModules = 32

	maxCommandLine = 2047 // of Linux on x86
)

// Values of Release.Platform: where the image runs.
const (
	PlatformNitro = "nitro" // AWS Nitro Enclaves
	PlatformQEMU  = "qemu"  // QEMU's nitro-enclave machine, for tests: it attests nothing
)

// A Release is what a builder publishes about an enclave image: its measurements, and the inputs from which
// anybody can build it again. It is a file of its own beside the image; eif/README.md describes how to make both.
type Release struct {
	Format            int             `json:"format"`            // 1
	Application       string          `json:"application"`       // Application
	Version           string          `json:"version"`           // of the release
	Platform          string          `json:"platform"`          // one of the Platform constants
	Source            string          `json:"source,omitempty"`  // the git commit that it was built from, 40 characters of hex
	Toolchain         string          `json:"toolchain"`         // of Go, such as go1.26.8
	ApplicationDigest string          `json:"applicationDigest"` // SHA-256 of the enclave binary, hex
	PCRs              ReleasePCRs     `json:"pcrs"`              // of the image
	Kernel            ReleaseFile     `json:"kernel"`            // the kernel in it
	Modules           []ReleaseFile   `json:"modules"`           // kernel modules in it, in the order in which they are loaded
	CommandLine       string          `json:"commandLine"`       // of the kernel
	Image             ReleaseFileHash `json:"image"`             // the image file itself
}

// ReleasePCRs are measurements, each 48 bytes in lower-case hex.
type ReleasePCRs struct {
	PCR0 string `json:"0"`
	PCR1 string `json:"1"`
	PCR2 string `json:"2"`
	PCR8 string `json:"8,omitempty"` // absent for an image without signature
}

// A ReleaseFile is an input of the image.
type ReleaseFile struct {
	Name   string `json:"name"`   // names where it is from
	SHA256 string `json:"sha256"` // of its bytes, lower-case hex
}

// A ReleaseFileHash is the SHA-256 of a file, in lower-case hex.
type ReleaseFileHash struct {
	SHA256 string `json:"sha256"`
}

// ParseRelease reads a release file, JSON of at most MaxRelease bytes. Unknown,
// missing, duplicate and malformed members are refused.
func ParseRelease(raw []byte) (*Release, error) {
	r, err := parseJSON[Release]("release", raw, MaxRelease)
	if err != nil {
		return nil, err
	}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("release: %w", err)
	}
	return r, nil
}

// Encode returns the file: indented JSON that ends with a line feed. It refuses a release that ParseRelease would refuse.
func (r *Release) Encode() ([]byte, error) {
	out := *r
	if out.Modules == nil {
		out.Modules = []ReleaseFile{}
	}
	if err := out.check(); err != nil {
		return nil, fmt.Errorf("release: %w", err)
	}
	raw, err := encodeJSON(out)
	if err != nil {
		return nil, fmt.Errorf("release: %w", err)
	}
	var b bytes.Buffer
	_ = json.Indent(&b, raw, "", "  ") // it has just been written
	b.WriteByte('\n')
	return b.Bytes(), nil
}

func (r *Release) check() error {
	switch {
	case r.Format != 1 || r.Application != Application:
		return errors.New("not format 1 of " + Application)
	case r.Platform != PlatformNitro && r.Platform != PlatformQEMU:
		return errors.New("unknown platform")
	case r.Modules == nil || len(r.Modules) > MaxModules:
		return errors.New("modules are missing or too many")
	case r.CommandLine == "" || len(r.CommandLine) > maxCommandLine:
		return errors.New("commandLine is missing or too long")
	}
	if err := cmp.Or(checkText("version", r.Version, 1), checkText("toolchain", r.Toolchain, 1)); err != nil {
		return err
	}
	for _, f := range append([]ReleaseFile{r.Kernel}, r.Modules...) {
		if err := checkText("name", f.Name, 1); err != nil {
			return err
		}
		if err := checkHex("sha256", f.SHA256, 32); err != nil {
			return fmt.Errorf("%q: %w", f.Name, err)
		}
	}
	if err := cmp.Or(checkHex("applicationDigest", r.ApplicationDigest, 32), checkHex("image", r.Image.SHA256, 32)); err != nil {
		return err
	}
	if r.Source != "" {
		if err := checkHex("source", r.Source, 20); err != nil {
			return err
		}
	}
	for i, text := range r.ExpectedPCRs() {
		name := fmt.Sprintf("PCR%d", i)
		if err := checkHex(name, text, pcrSize); err != nil {
			return err
		}
		// Debug mode measures zeros, whatever the image.
		if text == strings.Repeat("0", 2*pcrSize) {
			return errors.New(name + " is zero")
		}
	}
	return nil
}

// Pin makes a policy accept this release only, by its measurements and its enclave
// binary. If the policy already expects others, Pin returns an error and changes nothing.
func (r *Release) Pin(p *Policy) error {
	if err := r.check(); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	pcrs := r.ExpectedPCRs()
	for i, text := range p.ExpectedPCRs {
		if want, ok := pcrs[i]; ok && want != text {
			return fmt.Errorf("release: PCR%d is expected to be another", i)
		}
		pcrs[i] = text
	}
	if d := p.ExpectedApplicationDigest; d != "" && d != r.ApplicationDigest {
		return errors.New("release: another enclave binary is expected")
	}
	p.ExpectedPCRs, p.ExpectedApplicationDigest = pcrs, r.ApplicationDigest
	return nil
}

// ExpectedPCRs are the release's measurements by index, as Policy compares them.
func (r *Release) ExpectedPCRs() map[int]string {
	pcrs := map[int]string{0: r.PCRs.PCR0, 1: r.PCRs.PCR1, 2: r.PCRs.PCR2}
	if r.PCRs.PCR8 != "" {
		pcrs[8] = r.PCRs.PCR8
	}
	return pcrs
}
