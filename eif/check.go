package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"cloister/attestation"
	"cloister/eif/cpio"
	"cloister/eif/image"
)

// sign signs an image that is there, with its release file beside it.
func sign(args []string, stdout, stderr io.Writer, now func() time.Time) error {
	f := flag.NewFlagSet("cloister-eif sign", flag.ContinueOnError)
	key := f.String("key", "", "PEM `file`: P-384 key to sign with")
	certificate := f.String("cert", "", "PEM `file`: certificate of that key")
	out := f.String("o", "", "`file` to write; may be the same")
	if err := parse(f, args, stderr, 1); err != nil {
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
func check(args []string, stdout, stderr io.Writer, now func() time.Time) error {
	f := flag.NewFlagSet("cloister-eif check", flag.ContinueOnError)
	release := f.String("release", "", "`file`: refuse any image but that of this release")
	if err := parse(f, args, stderr, 1); err != nil {
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

// compare refuses an image that is not what the release file says, in whatever
// part.
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
