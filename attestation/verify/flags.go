package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/attestation"
	"cloister/shared/commandline"
)

const maxSettings = 1 << 20 // bytes of a root, measurements or credentials file

var errUnreadable = errors.New("cannot read")

type options struct {
	apps, boots                   []string
	credentials, root, measured   string
	release, operators            string
	released                      *attestation.Release // the content of that file
	pcrs                          map[int]string
	manifests                     []string
	kept                          bool // proofs may be of an earlier manifest of the credentials
	allowDebug, unpinned, foreign bool
	now                           string
	maxAge, maxBootAge            time.Duration
	body                          string
	all                           attestation.Expectation // what every app proof must say
	one                           attestation.Expectation // what one of them must say
}

func list(to *[]string) func(string) error {
	return func(s string) error { *to = append(*to, s); return nil }
}

const proofsUsage = `usage: cloister-verify proofs [flags]

Checks boot proofs and app proofs, offline, and says what is proven. "proofs" may be left out.

  cloister-verify -credentials credentials.json -boot-proof boot.json -reply reply.json
  cloister-verify -release release.json -operators manifest.json -boot-proof boot.json -reply reply.json -body body.json

`

func parseFlags(args []string, stdout io.Writer) (*options, error) {
	o := &options{pcrs: make(map[int]string), kept: true}
	f := commandline.NewFlags("cloister-verify proofs", proofsUsage, stdout, nil)
	f.Func("app-proof", "`file` with app proofs: a proof, a list_app_proofs reply or a submit reply; - for stdin (repeatable)", list(&o.apps))
	f.Func("reply", "`file` with a submit reply; the same as -app-proof", list(&o.apps))
	f.Func("boot-proof", "`file` with a boot proof or a get_boot_proof reply (repeatable)", list(&o.boots))
	o.beliefs(f)
	f.StringVar(&o.all.OrganizationID, "organization", "", "`id` that every app proof must name")
	f.StringVar(&o.all.ActivityID, "activity", "", "`id` that every app proof must name")
	f.StringVar(&o.all.Fingerprint, "fingerprint", "", "sha256:`hex` that every app proof must name")
	f.StringVar(&o.body, "body", "", "`file` with the exact request body, from which the fingerprint is taken")
	f.StringVar(&o.one.Type, "type", "", "APP_PROOF_TYPE_… that one app proof must have")
	f.StringVar(&o.one.Address, "address", "", "`address` that one app proof must state")
	f.StringVar(&o.one.Outcome, "outcome", "", "OUTCOME_… that one app proof must state")
	f.StringVar(&o.one.PublicKey, "public-key", "", "`hex` of the key that signed, in one app proof")
	f.StringVar(&o.one.DecodedDigest, "decoded-digest", "", "`hex` of the digest of what approvers are shown, in one app proof")
	f.Func("digest", "`hex` of a digest signed, in one app proof (repeatable, all in order)", list(&o.one.Digests))
	return o, parse(f, args, o.check)
}

// parse parses flags and calls check, with the arguments after them. It refuses an empty value, as of a misspelt variable of
// the shell, which would pin nothing.
func parse(f *flag.FlagSet, args []string, check func(rest []string) error) error {
	if err := commandline.Parse(f, args); err != nil {
		return err
	}
	err := checkEmpty(args)
	if err == nil {
		err = check(f.Args())
	}
	if err != nil {
		return commandline.Wrong(f, err)
	}
	return nil
}

// checkEmpty refuses arguments that are empty, alone or after a flag's =.
func checkEmpty(args []string) error {
	for i, a := range args {
		name, value, assigned := strings.Cut(a, "=")
		switch {
		case a == "" && i > 0:
			return fmt.Errorf("%s is followed by an empty argument", args[i-1])
		case a == "" || assigned && value == "" && name[0] == '-':
			return fmt.Errorf("an argument is empty: %q", a)
		}
	}
	return nil
}

// beliefs defines the flags of the policy: what is trusted and pinned.
func (o *options) beliefs(f *flag.FlagSet) {
	f.StringVar(&o.credentials, "credentials", "", "the simulator's credentials.json `file`: root, manifest and measurements")
	f.StringVar(&o.root, "simulator-root", "", "PEM `file` of a simulator's root, believed instead of the AWS root")
	f.StringVar(&o.measured, "measurements", "", "JSON `file` with the expected PCRs, as {\"0\": hex, …} or as nitro-cli prints them")
	f.StringVar(&o.release, "release", "", "release `file`, as in eif/releases: its measurements and its enclave binary are expected")
	for _, i := range []int{0, 1, 2, 3, 4, 8} {
		f.Func("pcr"+strconv.Itoa(i), "expected PCR, 48 bytes of `hex`", func(s string) error { return o.pin(i, s) })
	}
	f.StringVar(&o.operators, "operators", "", "`file` that names the operators whose threshold must have approved the manifest: the deployment's first manifest or the one before, or {\"threshold\": n, \"publicKeys\": [hex, …]}")
	f.Func("manifest-sha256", "`hex` of an allowed manifest (repeatable)", list(&o.manifests))
	f.BoolVar(&o.allowDebug, "allow-debug", false, "accept an image in debug mode")
	f.BoolVar(&o.unpinned, "unpinned", false, "look at what is not pinned, any image or anybody's deployment of it; the status is then 3, never 0")
	f.BoolVar(&o.foreign, "foreign-manifest", false, "accept a manifest of another format")
	f.StringVar(&o.now, "now", "", "`time` to take ages at (RFC 3339); default the clock")
	f.DurationVar(&o.maxAge, "max-age", 0, "oldest app proof")
	f.DurationVar(&o.maxBootAge, "max-boot-age", 0, "oldest boot proof")
}

func (o *options) check(rest []string) error {
	files := slices.Concat([]string{o.credentials, o.root, o.measured, o.release, o.operators, o.body}, o.apps, o.boots)
	switch {
	case len(rest) > 0:
		return errors.New("arguments that belong to no flag")
	case len(o.apps)+len(o.boots) == 0:
		return errors.New("nothing to verify: give -boot-proof, and -app-proof or -reply")
	case o.credentials != "" && o.root != "":
		return errors.New("-credentials and -simulator-root both name a root")
	case o.body != "" && o.all.Fingerprint != "":
		return errors.New("-body and -fingerprint both name a request")
	case len(slices.DeleteFunc(files, func(name string) bool { return name != "-" })) > 1:
		return errors.New("only one file can be stdin")
	}
	return nil
}

func (o *options) expectsProof() bool {
	return o.body != "" || o.all.OrganizationID+o.all.ActivityID+o.all.Fingerprint != "" ||
		o.one.Type+o.one.Address+o.one.Outcome+o.one.PublicKey != "" || o.one.Digests != nil
}

// pin sets an expected register; two different values for one are an error.
func (o *options) pin(index int, hex string) error {
	if old, twice := o.pcrs[index]; twice && old != hex {
		return fmt.Errorf("PCR%d is given twice, differently", index)
	}
	o.pcrs[index] = hex
	return nil
}

// policy makes the policy from flags and files.
func (o *options) policy(in *input, now func() time.Time) (attestation.Policy, error) {
	p := attestation.Policy{
		AllowDebug: o.allowDebug, AllowUnpinned: o.unpinned, ForeignManifest: o.foreign,
		MaxProofAge: o.maxAge, MaxBootAge: o.maxBootAge,
	}
	if err := o.readCredentials(in, &p); err != nil {
		return p, err
	}
	if o.root != "" {
		raw, err := in.read(o.root, maxSettings)
		if err != nil {
			return p, err
		}
		if p.SimulatorRootPEM = string(raw); strings.TrimSpace(p.SimulatorRootPEM) == "" {
			return p, fmt.Errorf("%s: empty", o.root)
		}
	}
	if o.measured != "" {
		if err := o.readMeasurements(in); err != nil {
			return p, err
		}
	}
	p.ExpectedPCRs, p.AllowedManifestSHA256 = o.pcrs, o.manifests
	if err := o.readRelease(in, &p); err != nil {
		return p, err
	}
	if o.operators != "" {
		raw, err := in.read(o.operators, attestation.MaxManifest)
		if err == nil {
			p.Operators, err = attestation.ParseOperators(raw)
		}
		if err != nil {
			return p, fmt.Errorf("%s: %w", o.operators, err)
		}
	}
	if o.now != "" {
		at, err := time.Parse(time.RFC3339, o.now)
		if err != nil {
			return p, errors.New("-now is not a time in RFC 3339")
		}
		p.Now = at
	} else if o.maxAge != 0 || o.maxBootAge != 0 {
		p.Now = now()
	}
	return p, nil
}

// readCredentials reads four of the members; the file also has keys, which this command does not need. Earlier manifests are
// accepted for stored proofs (kept), never for a running enclave. With several manifests the measurements are not pinned: each
// manifest names its own.
func (o *options) readCredentials(in *input, p *attestation.Policy) error {
	if o.credentials == "" {
		return nil
	}
	raw, err := in.read(o.credentials, maxSettings)
	if err != nil {
		return err
	}
	var c struct {
		Root     string            `json:"attestationRootPem"`
		Manifest string            `json:"manifestSha256"`
		Earlier  []string          `json:"earlierManifestsSha256"`
		PCRs     map[string]string `json:"pcrs"`
	}
	if err := json.Unmarshal(raw, &c); err != nil || c.Root == "" || c.Manifest == "" || len(c.PCRs) == 0 {
		return fmt.Errorf("%s: no attestationRootPem, manifestSha256 and pcrs: want the file that a simulator wrote, not a user's key", o.credentials)
	}
	p.SimulatorRootPEM = c.Root
	if len(o.manifests) == 0 {
		o.manifests = []string{c.Manifest}
		if o.kept && len(c.Earlier) > 0 {
			o.manifests = append(o.manifests, c.Earlier...)
			return nil
		}
	}
	return o.pinAll(o.credentials, c.PCRs)
}

func (o *options) readMeasurements(in *input) error {
	raw, err := in.read(o.measured, maxSettings)
	if err != nil {
		return err
	}
	pcrs, err := attestation.ParseMeasurements(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", o.measured, err)
	}
	for i, hex := range pcrs {
		if err := o.pin(i, hex); err != nil {
			return fmt.Errorf("%s: %w", o.measured, err)
		}
	}
	return nil
}

// readRelease pins the measurements of a release. A release for QEMU's machine is for
// tests: nothing attests it, and its kernel runs in no real enclave.
func (o *options) readRelease(in *input, p *attestation.Policy) error {
	if o.release == "" {
		return nil
	}
	raw, err := in.read(o.release, attestation.MaxRelease)
	if err != nil {
		return err
	}
	r, err := attestation.ParseRelease(raw)
	if err == nil && r.Platform != attestation.PlatformNitro && p.SimulatorRootPEM == "" {
		err = fmt.Errorf("for %s, which AWS attests to nowhere", r.Platform)
	}
	if err == nil && (p.AllowDebug || p.AllowUnpinned || p.ForeignManifest) {
		err = errors.New("-allow-debug, -unpinned and -foreign-manifest leave nothing of a release to compare")
	}
	if err == nil {
		err = r.Pin(p)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", o.release, err)
	}
	o.pcrs, o.released = p.ExpectedPCRs, r
	return nil
}

func (o *options) pinAll(file string, pcrs map[string]string) error {
	if len(pcrs) == 0 {
		return fmt.Errorf("%s: no measurements", file)
	}
	for name, hex := range pcrs {
		i, err := strconv.Atoi(name)
		if err != nil || strconv.Itoa(i) != name || i < 0 || i > 31 {
			return fmt.Errorf("%s: a PCR is not numbered 0 to 31", file)
		}
		if err := o.pin(i, hex); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// input reads files by name, and stdin for the name -.
type input struct {
	stdin    io.Reader
	readFile func(string) ([]byte, error)
}

func (in *input) read(name string, max int) ([]byte, error) {
	var raw []byte
	var err error
	if name == "-" {
		raw, err = io.ReadAll(io.LimitReader(in.stdin, int64(max)+1))
	} else {
		raw, err = in.readFile(name)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	if len(raw) > max {
		return nil, fmt.Errorf("%w: %s is longer than %d bytes", errUnreadable, name, max)
	}
	return raw, nil
}
