//go:build ignore

// Prints the root certificates of golang.org/x/crypto/x509roots/fallback as PEM: those without conditions that were valid
// on the given date. roots.sh runs it in a module of its own.
package main

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

func main() {
	version, sum := os.Args[1], os.Args[2]
	date, err := time.Parse("20060102", os.Args[3])
	if err != nil {
		panic(err)
	}
	var kept []*x509.Certificate
	var conditional, expired []string
	for r := range bundle.Roots() {
		c, err := x509.ParseCertificate(r.Certificate)
		switch {
		case err != nil:
			panic(err)
		case r.Constraint != nil:
			conditional = append(conditional, c.Subject.String())
		case !date.Before(c.NotAfter):
			expired = append(expired, c.Subject.String())
		default:
			kept = append(kept, c)
		}
	}
	slices.SortFunc(kept, func(a, b *x509.Certificate) int {
		return cmp.Or(cmp.Compare(a.Subject.String(), b.Subject.String()), slices.Compare(a.Raw, b.Raw))
	})
	fmt.Printf("# Root certificates of the Mozilla list. Made by scripts/outward/roots.sh; not to be edited.\n")
	fmt.Printf("# source: golang.org/x/crypto/x509roots/fallback %s\n# sum: %s\n# date: %s\n# certificates: %d\n",
		version, sum, date.Format(time.DateOnly), len(kept))
	for _, s := range conditional {
		fmt.Printf("# left out, trusted only under a condition: %q\n", s)
	}
	for _, s := range expired {
		fmt.Printf("# left out, expired: %q\n", s)
	}
	for _, c := range kept {
		fmt.Printf("\n# %q\n# sha256 %x, until %s\n", c.Subject.String(), sha256.Sum256(c.Raw), c.NotAfter.UTC().Format(time.DateOnly))
		if err := pem.Encode(os.Stdout, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}); err != nil {
			panic(err)
		}
	}
}
