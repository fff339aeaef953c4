package outward

import (
	"bytes"
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"errors"
	"fmt"
)

// mozilla is the list of root certificates in the image; roots/README.md says
// where it is from and how it is made anew.
//
//go:embed roots/mozilla.pem
var mozilla []byte

// maxRoots bounds each of the two lists.
const maxRoots = 512

// Roots are the image's root certificates and the extra ones of the measured
// configuration, each a PEM block of type CERTIFICATE; text between the blocks
// is passed over. An extra one must be a certificate authority's. Whether a root
// is still valid is asked at every use, at the enclave's time.
func Roots(extra []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	for _, bundle := range [][]byte{mozilla, extra} {
		certificates, err := authorities(bundle)
		if err != nil {
			return nil, err
		}
		for _, c := range certificates {
			pool.AddCert(c)
		}
	}
	return pool, nil
}

// authorities reads PEM. What is no certificate, or no authority's, is refused
// rather than left out: who configured it would believe it to be there.
func authorities(bundle []byte) ([]*x509.Certificate, error) {
	announced := bytes.Count(bundle, []byte("-----BEGIN"))
	if announced > maxRoots {
		return nil, errors.New("outward: too many root certificates")
	}
	var found []*x509.Certificate
	for {
		block, rest := pem.Decode(bundle)
		if block == nil {
			break
		}
		bundle = rest
		if block.Type != "CERTIFICATE" {
			return nil, errors.New("outward: among the root certificates is something else")
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("outward: a root certificate: %w", err)
		}
		if !c.IsCA || !c.BasicConstraintsValid {
			return nil, errors.New("outward: a root certificate is not that of an authority")
		}
		found = append(found, c)
	}
	if len(found) != announced {
		return nil, errors.New("outward: a root certificate is malformed")
	}
	return found, nil
}
