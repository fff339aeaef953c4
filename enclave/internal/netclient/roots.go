package netclient

import (
	"bytes"
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"errors"
	"fmt"
	"sync"
)

// mozilla is the list of root certificates in the image; roots/README.md says
// where it is from and how it is made anew.
//
//go:embed roots/mozilla.pem
var mozilla []byte

// maxRoots bounds each of the two lists.
const maxRoots = 512

// Roots are the image's root certificates and the extra ones of the measured
// configuration, each a PEM block of type CERTIFICATE; text between the blocks is passed
// over. Whether a root is still valid is asked at every use, at the enclave's time.
func Roots(extra []byte) (*x509.CertPool, error) {
	pool, err := ofImage()
	if err != nil {
		return nil, err
	}
	pool = pool.Clone()
	if err := addAuthorities(pool, extra); err != nil {
		return nil, err
	}
	return pool, nil
}

// ofImage reads the image's list, once: a process may read many configurations.
var ofImage = sync.OnceValues(func() (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	return pool, addAuthorities(pool, mozilla)
})

// addAuthorities reads PEM. What is no certificate, or no authority's, is refused rather
// than left out: who configured it would believe it to be there.
func addAuthorities(pool *x509.CertPool, bundle []byte) error {
	announced := bytes.Count(bundle, []byte("-----BEGIN"))
	if announced > maxRoots {
		return errors.New("netclient: too many root certificates")
	}
	found := 0
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return errors.New("netclient: among the root certificates is something else")
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("netclient: a root certificate: %w", err)
		}
		if !c.IsCA || !c.BasicConstraintsValid {
			return errors.New("netclient: a root certificate is not that of an authority")
		}
		pool.AddCert(c)
		found++
	}
	if found != announced {
		return errors.New("netclient: a root certificate is malformed")
	}
	return nil
}
