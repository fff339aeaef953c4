package settings

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"strings"

	"cloister/enclave/internal/netclient"
	"cloister/enclave/internal/program"
	"cloister/shared/tvc"
)

// tvcPlatform is the member tvc.
type tvcPlatform struct {
	Domain   string `json:"domain" rule:"required"`
	Root     string `json:"root" rule:"required"`
	PCR3     string `json:"pcr3"`
	Versions []struct {
		Name   string `json:"name" rule:"required,max=64"`
		Commit string `json:"commit"`
		PCR0   string `json:"pcr0" rule:"required"`
		PCR1   string `json:"pcr1" rule:"required"`
		PCR2   string `json:"pcr2" rule:"required"`
	} `json:"versions" rule:"required,dive"`
}

const maxVersions = 100

func (d *tvcPlatform) read() (*program.Platform, error) {
	p := &program.Platform{Domain: strings.ToLower(d.Domain)}
	if !netclient.IsHost(p.Domain) || !strings.Contains(p.Domain, ".") || strings.Contains(p.Domain, ":") {
		return nil, errMember(".tvc.domain", "is no domain")
	}
	block, rest := pem.Decode([]byte(d.Root))
	if block == nil || block.Type != "CERTIFICATE" || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errMember(".tvc.root", "is not one certificate in PEM")
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return nil, errMember(".tvc.root", "is no certificate")
	}
	if len(d.Versions) == 0 || len(d.Versions) > maxVersions {
		return nil, errMember(".tvc.versions", "must be 1 to 100")
	}
	for _, v := range d.Versions {
		if p.Base(v.Name) != nil {
			return nil, errMember(".tvc.versions", "has one name twice")
		}
		b := program.Base{Name: v.Name, Enclave: tvc.Enclave{AWSRootCertificate: hex.EncodeToString(block.Bytes), QOSCommit: v.Commit,
			PCR0: strings.ToLower(v.PCR0), PCR1: strings.ToLower(v.PCR1), PCR2: strings.ToLower(v.PCR2), PCR3: strings.ToLower(cmp.Or(d.PCR3, strings.Repeat("00", 48)))}}
		for _, pcr := range []string{b.Enclave.PCR0, b.Enclave.PCR1, b.Enclave.PCR2, b.Enclave.PCR3} {
			if raw, err := hex.DecodeString(pcr); err != nil || len(raw) != 48 {
				return nil, errMember(".tvc.versions", "has a measurement that is not 48 bytes in hex")
			}
		}
		p.Bases = append(p.Bases, b)
	}
	return p, nil
}
