package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"cloister/attestation"
	"cloister/attestation/client"
	"cloister/shared/commandline"
)

// keysOptions is the command line of `cloister-verify keys`.
type keysOptions struct {
	options
	document string
	url      string
	json     bool
}

const keysUsage = `usage: cloister-verify keys -url URL | -document FILE [flags]

Checks the document of a deployment's public keys, and with -json writes them for tools that pin them.

`

func parseKeysFlags(args []string, stdout io.Writer) (*keysOptions, error) {
	o := &keysOptions{options: options{pcrs: make(map[int]string)}}
	f := commandline.NewFlags("cloister-verify keys", keysUsage, stdout, nil)
	f.StringVar(&o.document, "document", "", "`file` with the answer of GET /public/v1/discovery/keys; - for stdin")
	f.StringVar(&o.url, "url", "", "`URL` of the public interface of a running deployment: the document is asked for there, and the enclave must sign its reply to a fresh nonce")
	f.BoolVar(&o.json, "json", false, "write the keys as JSON, for tools that pin them")
	o.beliefs(f)
	return o, parse(f, args, func(rest []string) error {
		if (o.document == "") == (o.url == "") || len(rest) > 0 || o.credentials != "" && o.root != "" {
			return errors.New("want -document or -url, at most one of -credentials and -simulator-root, and nothing behind the flags")
		}
		return nil
	})
}

// patience is the timeout of a request to a deployment.
const patience = 30 * time.Second

// ask fetches the keys document of a running deployment. The live key has signed the
// reply over a fresh nonce, so it is current and not a recording.
func ask(base string, policy attestation.Policy, now func() time.Time) ([]byte, error) {
	base = strings.TrimSuffix(base, "/")
	at, err := url.Parse(base)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.RawQuery != "" || at.Fragment != "" {
		return nil, fmt.Errorf("%w: %q is no URL of an interface", errUnreadable, base)
	}
	t := &client.Transport{Policy: policy, Proofs: client.Discovery(base, nil), Prefix: strings.TrimSuffix(at.EscapedPath(), "/")}
	if policy.MaxBootAge != 0 || policy.MaxProofAge != 0 {
		t.Now = now
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/public/v1/discovery/keys", nil)
	if err != nil {
		return nil, err
	}
	resp, err := t.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the deployment answers with status %d", resp.StatusCode)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, attestation.MaxKeys+1))
	if err == nil && len(raw) > attestation.MaxKeys {
		err = fmt.Errorf("keys document is longer than %d bytes", attestation.MaxKeys)
	}
	return raw, err
}

// pinned is the output of -json for tools. Every member is proven.
type pinned struct {
	Keys                  attestation.Keys `json:"keys"`
	AttestationRootPEM    string           `json:"attestationRootPem"`
	AttestationRootSHA256 string           `json:"attestationRootSha256"`
	Simulator             bool             `json:"simulator"`
	ManifestSHA256        string           `json:"manifestSha256"`
	StatedAt              string           `json:"statedAt"`
}

func runKeys(args []string, in *input, stdout, stderr io.Writer, now func() time.Time) int {
	o, err := parseKeysFlags(args, stdout)
	if err != nil {
		return program.Misuse(err, stderr)
	}
	policy, err := o.policy(in, now)
	if err != nil {
		fmt.Fprintln(stderr, "cloister-verify:", err)
		return exitUsage
	}
	var raw []byte
	if o.url != "" {
		raw, err = ask(o.url, policy, now)
	} else {
		raw, err = in.read(o.document, attestation.MaxKeys)
	}
	var proof *attestation.Proof
	if err == nil {
		proof, err = attestation.VerifyKeys(raw, policy)
	}
	if err == nil {
		err = o.print(stdout, proof)
	}
	return verdict(err, stderr)
}

func (o *keysOptions) print(w io.Writer, p *attestation.Proof) error {
	stated := p.Claim.(*attestation.PublicKeys)
	if !p.Boot.Pinned && o.json {
		return fmt.Errorf("%w: no keys to pin", errUnpinned)
	}
	if !o.json {
		printBoot(w, p.Boot, o.released)
		if o.url != "" {
			line(w, "", "it signed its answer to a nonce that was made for this check")
		}
		printProof(w, 1, p)
		if !p.Boot.Pinned {
			return errUnpinned
		}
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
	name := "claim"
	for _, f := range [][2]string{
		{"signer", k.Signer}, {"signerPair", k.SignerPair}, {"session", k.Session}, {"otp", k.OTP}, {"otpLegacy", k.OTPLegacy},
		{"fetcherEncrypt", k.FetcherEncrypt}, {"onRamp", k.OnRamp}, {"root SHA-256", c.AttestationRootSHA256},
	} {
		line(w, name, fmt.Sprintf("%-14s %s", f[0], f[1]))
		name = ""
	}
}
