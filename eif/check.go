package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"cloister/attestation"
	"cloister/eif/cpio"
	"cloister/eif/image"
	"cloister/shared/commandline"
)

// sign signs an image that is there, with its release file beside it.
func sign(args []string, stdout io.Writer, now func() time.Time) error {
	f := commandline.NewFlags("cloister-eif sign", "usage: cloister-eif sign -key FILE -cert FILE -o IMAGE IMAGE\n\n", stdout, nil)
	key := f.String("key", "", "PEM `file`: P-384 key to sign with")
	certificate := f.String("cert", "", "PEM `file`: certificate of that key")
	out := f.String("o", "", "`file` to write; may be the same")
	if err := parse(f, args, 1); err != nil {
		return err
	}
	if *key == "" || *certificate == "" || *out == "" {
		return fmt.Errorf("%w: sign needs -key, -cert and -o", errUsage)
	}
	m, raw, err := open(f.Arg(0))
	if err != nil {
		return err
	}
	r, err := openRelease(f.Arg(0) + ".json")
	if err == nil {
		err = compare(m, raw, r)
	}
	if err == nil {
		err = signWith(m, *key, *certificate, now())
	}
	if err != nil {
		return err
	}
	return finish(m, r, *out, stdout)
}

func signWith(m *image.Image, key, certificate string, now time.Time) error {
	text, err := read(key, image.MaxCertificate)
	if err != nil {
		return err
	}
	defer clear(text)
	k, err := image.ParseKey(text)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	cert, err := read(certificate, image.MaxCertificate)
	if err != nil {
		return err
	}
	return m.Sign(cert, k, now)
}

// check reads an image back and says what it is, perhaps against a release file.
func check(args []string, stdout io.Writer, now func() time.Time) error {
	f := commandline.NewFlags("cloister-eif check", "usage: cloister-eif check [-release FILE] IMAGE\n\n", stdout, nil)
	release := f.String("release", "", "`file`: refuse any image but that of this release")
	other := f.String("nitro-cli", "", "`file`: what nitro-cli build-enclave or describe-eif printed of this image; refuse it if that measured another")
	if err := parse(f, args, 1); err != nil {
		return err
	}
	m, raw, err := open(f.Arg(0))
	if err != nil {
		return err
	}
	if *release != "" {
		r, err := openRelease(*release)
		if err == nil {
			err = compare(m, raw, r)
		}
		if err != nil {
			return err
		}
	}
	pcrs, err := m.Measure()
	if err == nil && *other != "" {
		err = compareNitro(measurements(pcrs), *other)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "image         %q %q, %d bytes, SHA-256 %s\n", m.Metadata.ImageName, m.Metadata.ImageVersion, len(raw), digest(raw))
	fmt.Fprintf(stdout, "kernel        %d bytes, SHA-256 %s\n", len(m.Kernel), digest(m.Kernel))
	fmt.Fprintf(stdout, "command line  %q\n", m.CommandLine)
	for i, d := range m.Ramdisks {
		fmt.Fprintf(stdout, "ramdisk %d     %d bytes, SHA-256 %s\n", i, len(d), digest(d))
	}
	fmt.Fprintf(stdout, "PCR0          %s\nPCR1          %s\nPCR2          %s\n", pcrs.PCR0, pcrs.PCR1, pcrs.PCR2)
	if m.Signature == nil {
		fmt.Fprintln(stdout, "PCR8          not signed")
	} else {
		fmt.Fprintf(stdout, "PCR8          %s\n", pcrs.PCR8)
		c := m.Signature.Certificate
		fmt.Fprintf(stdout, "signed by     %q, valid %s to %s\n", c.Subject, c.NotBefore.UTC().Format(time.RFC3339), c.NotAfter.UTC().Format(time.RFC3339))
		if at := now(); at.Before(c.NotBefore) || at.After(c.NotAfter) {
			fmt.Fprintln(stdout, "              NOT VALID NOW: nitro-cli will not start this image")
		}
	}
	if *release != "" {
		fmt.Fprintf(stdout, "THE IMAGE OF THE RELEASE %s\n", *release)
	}
	if *other != "" {
		fmt.Fprintf(stdout, "MEASURED THE SAME by nitro-cli, as %s says\n", *other)
	}
	return nil
}

func open(name string) (*image.Image, []byte, error) {
	raw, err := read(name, image.MaxImage)
	if err != nil {
		return nil, nil, err
	}
	m, err := image.Parse(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, raw, nil
}

func openRelease(name string) (*attestation.Release, error) {
	raw, err := read(name, attestation.MaxRelease)
	if err != nil {
		return nil, err
	}
	r, err := attestation.ParseRelease(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// compare refuses an image that is not what the release file says, in whatever part.
func compare(m *image.Image, raw []byte, r *attestation.Release) error {
	pcrs, err := m.Measure()
	if err != nil {
		return err
	}
	// Nil for an image of nitro-cli's, whose ramdisks are made in another way.
	init, _ := cpio.Sole(m.Ramdisks[1], "init")
	switch got := measurements(pcrs); {
	case got.PCR0 != r.PCRs.PCR0 || got.PCR1 != r.PCRs.PCR1 || got.PCR2 != r.PCRs.PCR2 || got.PCR8 != r.PCRs.PCR8:
		return errors.New("measurements are not those of the release")
	case digest(m.Kernel) != r.Kernel.SHA256 || m.CommandLine != r.CommandLine:
		return errors.New("kernel or command line is not that of the release")
	case init == nil || digest(init) != r.ApplicationDigest:
		return errors.New("the enclave binary is not that of the release")
	case digest(raw) != r.Image.SHA256:
		return errors.New("the measured parts are those of the release, but the file is another")
	}
	return nil
}

// maxPrinted is the longest answer of nitro-cli in bytes.
const maxPrinted = 1 << 20

// compareNitro holds measurements against what nitro-cli printed: words perhaps, and then JSON whose member
// Measurements names the registers. The rest of it is about other things.
func compareNitro(ours attestation.ReleasePCRs, name string) error {
	raw, err := read(name, maxPrinted)
	if err != nil {
		return err
	}
	var printed struct {
		Measurements map[string]string
	}
	at := bytes.IndexByte(raw, '{')
	if at < 0 || json.Unmarshal(raw[at:], &printed) != nil {
		return fmt.Errorf("%s: not what nitro-cli prints", name)
	}
	want := map[string]string{"PCR0": ours.PCR0, "PCR1": ours.PCR1, "PCR2": ours.PCR2}
	if ours.PCR8 != "" {
		want["PCR8"] = ours.PCR8
	}
	for register, value := range printed.Measurements {
		if register == "HashAlgorithm" {
			continue
		}
		if want[register] != value {
			return fmt.Errorf("%s: nitro-cli measures %s as %.96q, we as %q", name, register, value, want[register])
		}
		delete(want, register)
	}
	if len(want) > 0 {
		return fmt.Errorf("%s: nitro-cli does not name PCR0, 1, 2, and 8 of a signed image", name)
	}
	return nil
}
