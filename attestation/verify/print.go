package main

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	"cloister/attestation"
)

// Free text of a proof is printed quoted: it may come from anybody, and terminals interpret control characters.

func printBoot(w io.Writer, b *attestation.Boot, r *attestation.Release) {
	d := b.Document
	fmt.Fprintf(w, "Boot proof: an enclave attested its live key and manifest at %s.\n", stamp(d.Time))
	root := "AWS Nitro Enclaves"
	if d.Simulator {
		root = "a simulator's root that you named; it protects nothing"
	}
	line(w, "root", root)
	line(w, "module", fmt.Sprintf("%q", d.ModuleID))
	line(w, "pinned", pins(b))
	if r != nil && b.Pinned {
		line(w, "", fmt.Sprintf("the image is the one of release %q, with its enclave binary", r.Version))
	}
	for i := range 3 {
		pcr := d.PCRs[i]
		line(w, fmt.Sprintf("PCR%d", i), hex.EncodeToString(pcr[:]))
	}
	line(w, "live key", b.PublicKeyHex)
	line(w, "manifest", hex.EncodeToString(b.ManifestHash[:]))
	m := b.Manifest
	if m == nil {
		line(w, "", "of another format: only its hash was checked")
		return
	}
	line(w, "", fmt.Sprintf("%s %q, deployment %q of %q, kind %s, number %d", m.Application, m.Version, m.DeploymentLabel, m.Owner, m.Kind, m.Nonce))
	line(w, "", "enclave binary "+m.ApplicationDigest)
	line(w, "", fmt.Sprintf("root secret from %s; operators %s", m.SeedSource, m.Operators))
	line(w, "", "configuration "+cmp.Or(m.ConfigurationSHA256, "none"))
	line(w, "freshness", freshness(m))
}

func freshness(m *attestation.Manifest) string {
	if m.Log == nil {
		return "since boot: within a boot nothing was rolled back, across boots nothing is promised"
	}
	return "witnessed: " + m.Log.String()
}

func pins(b *attestation.Boot) string {
	found := strings.Join(b.Pins(), "; ")
	switch {
	case b.Document.Debug:
		return "DEBUG MODE: nothing shows which code runs, and its parent can read along"
	case b.Pinned:
		return found + ": as you expected"
	case found == "":
		return "NOTHING: this may be any image, run by anybody"
	}
	return "NOT ENOUGH (" + found + "): this may be another image, or anybody's deployment of it"
}

func printProof(w io.Writer, n int, p *attestation.Proof) {
	fmt.Fprintf(w, "App proof %d: stated by that live key at %s.\n", n, stamp(p.Time))
	switch c := p.Claim.(type) {
	case *attestation.SignatureMade:
		line(w, "claim", "signature made with key "+c.PublicKey)
		for _, d := range c.Digests {
			line(w, "", "over "+d)
		}
	case *attestation.AddressDerivation:
		line(w, "claim", fmt.Sprintf("address %q was derived", c.Address))
		if c.WalletID != "" {
			line(w, "", fmt.Sprintf("from wallet %q at path %q", c.WalletID, c.DerivationPath))
		}
	case *attestation.PolicyOutcome:
		line(w, "claim", fmt.Sprintf("policies decided %s with %d signed request(s)", c.Outcome, len(c.UserRequestApprovals)))
		line(w, "", "decision context "+c.DecisionContextDigest)
		line(w, "", "organization     "+c.OrganizationDataDigest)
		if c.ParentOrganizationDataDigest != "" {
			line(w, "", "its parent       "+c.ParentOrganizationDataDigest)
		}
	case *attestation.DecodedActivity:
		line(w, "claim", "approvers are shown the document with digest "+c.DecodedDigest)
	case *attestation.PublicKeys:
		printKeys(w, c)
	}
	org, activity, fingerprint := p.Claim.Names()
	if org != "" {
		line(w, "organization", fmt.Sprintf("%q", org))
	}
	if activity != "" {
		line(w, "activity", fmt.Sprintf("%q", activity))
		line(w, "request", fingerprint)
	}
	if f := p.Claim.Fresh(); f != nil {
		line(w, "freshness", fmt.Sprintf("%s, boot %s, root secret from %q", f.Mode, f.BootNumber, f.SeedSource))
	}
}

func line(w io.Writer, name, text string) { fmt.Fprintf(w, "  %-13s %s\n", name, text) }

func stamp(t time.Time) string { return t.Format("2006-01-02 15:04:05.000 MST") }
