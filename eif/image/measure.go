package image

import (
	"crypto/sha512"
	"encoding/hex"
)

// A PCR is a platform configuration register: 48 bytes.
type PCR [sha512.Size384]byte

// String is the register in lower-case hex.
func (p PCR) String() string { return hex.EncodeToString(p[:]) }

// PCRs are what the hypervisor measures of an image before it starts it. In
// debug mode it sets them all to zero.
type PCRs struct {
	PCR0 PCR // the whole image: kernel, command line, both ramdisks
	PCR1 PCR // kernel, command line, first ramdisk
	PCR2 PCR // second ramdisk: the application
	PCR8 PCR // the signing certificate; zero for an image without signature
}

// Measure computes the measurements. It refuses an image that could not be
// written.
func (m *Image) Measure() (PCRs, error) {
	if _, err := m.sections(); err != nil {
		return PCRs{}, err
	}
	return m.measure(), nil
}

func (m *Image) measure() PCRs {
	line := []byte(m.CommandLine)
	p := PCRs{
		PCR0: extend(m.Kernel, line, m.Ramdisks[0], m.Ramdisks[1]),
		PCR1: extend(m.Kernel, line, m.Ramdisks[0]),
		PCR2: extend(m.Ramdisks[1]),
	}
	if m.Signature != nil {
		p.PCR8 = extend(m.Signature.Certificate.Raw)
	}
	return p
}

// extend is a register of zeros, extended once with the SHA-384 of all parts.
func extend(parts ...[]byte) PCR {
	h := sha512.New384()
	for _, p := range parts {
		h.Write(p)
	}
	return sha512.Sum384(h.Sum(make([]byte, sha512.Size384)))
}
