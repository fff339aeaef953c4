package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"time"

	"cloister/attestation"
)

// keysOptions is the command line of `cloister-verify keys`.
type keysOptions struct {
	options
	document string
	json     bool
}

func parseKeysFlags(args []string, stderr io.Writer) (*keysOptions, error) {
	o := &keysOptions{options: options{pcrs: make(map[int]string)}}
	f := flag.NewFlagSet("cloister-verify keys", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.document, "document", "", "`file` with the answer of GET /public/v1/discovery/keys; - for stdin")
	f.BoolVar(&o.json, "json", false, "write the keys as JSON, for tools that pin them")
	o.beliefs(f)
	err := f.Parse(args)
	if err == nil && (o.document == "" || f.NArg() > 0 || o.credentials != "" && o.root != "") {
		err = fmt.Errorf("want -document, at most one of -credentials and -simulator-root, and nothing behind the flags")
		fmt.Fprintln(stderr, "cloister-verify:", err)
		f.Usage()
	}
	return o, err
}

// pinned is what tools read: every member of it is proven.
type pinned struct {
	Keys                  attestation.Keys `json:"keys"`
	AttestationRootPEM    string           `json:"attestationRootPem"`
	AttestationRootSHA256 string           `json:"attestationRootSha256"`
	Simulator             bool             `json:"simulator"`
	ManifestSHA256        string           `json:"manifestSha256"`
	StatedAt              string           `json:"statedAt"`
}

func runKeys(args []string, in *input, stdout, stderr io.Writer, now func() time.Time) int {
	o, err := parseKeysFlags(args, stderr)
	if err != nil {
		return exitUsage
	}
	policy, err := o.policy(in, now)
	if err != nil {
		fmt.Fprintln(stderr, "cloister-verify:", err)
		return exitUsage
	}
	raw, err := in.read(o.document, attestation.MaxKeys)
	var proof *attestation.Proof
	if err == nil {
		proof, err = attestation.VerifyKeys(raw, policy)
	}
	if err == nil {
		err = o.print(stdout, proof, policy)
	}
	return verdict(err, stderr)
}

func (o *keysOptions) print(w io.Writer, p *attestation.Proof, policy attestation.Policy) error {
	stated := p.Claim.(*attestation.PublicKeys)
	if !o.json {
		printBoot(w, p.Boot, policy)
		printProof(w, 1, p)
		_, err := fmt.Fprintln(w, "VERIFIED: 7 public keys")
		return err
	}
	b, err := json.MarshalIndent(pinned{
		Keys: stated.Keys, AttestationRootPEM: p.Boot.RootPEM(), AttestationRootSHA256: stated.AttestationRootSHA256, Simulator: p.Boot.Document.Simulator,
		ManifestSHA256: fmt.Sprintf("%x", p.Boot.ManifestHash), StatedAt: p.Time.Format(time.RFC3339Nano),
	}, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", b)
	return err
}

func printKeys(w io.Writer, c *attestation.PublicKeys) {
	k := c.Keys
	for i, f := range []struct{ name, text string }{
		{"signer", k.Signer}, {"signerPair", k.SignerPair}, {"session", k.Session}, {"otp", k.OTP}, {"otpLegacy", k.OTPLegacy},
		{"fetcherEncrypt", k.FetcherEncrypt}, {"onRamp", k.OnRamp}, {"root SHA-256", c.AttestationRootSHA256},
	} {
		name := ""
		if i == 0 {
			name = "claim"
		}
		line(w, name, fmt.Sprintf("%-14s %s", f.name, f.text))
	}
}
