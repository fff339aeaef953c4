package rig

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"testing"
	"time"

	"cloister/attestation/commitment"
	"cloister/shared/tvc"
	"cloister/sim/nsm"
)

// programPCRs are the measurements of the image in which customers' programs run.
var programPCRs = [3][48]byte{{11}, {12}, {13}}

// A ProgramPlatform is a platform for customers' programs that nothing runs on, with the root of its attestation.
type ProgramPlatform struct {
	t    testing.TB
	root *nsm.Root
}

// NewProgramPlatform makes a platform under a root of its own.
func NewProgramPlatform(t testing.TB) *ProgramPlatform {
	t.Helper()
	root, err := nsm.NewRoot(rand.Reader, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &ProgramPlatform{t, root}
}

// Configuration is the member tvc of a configuration.
func (p *ProgramPlatform) Configuration() string {
	pcr := func(i int) string { return hex.EncodeToString(programPCRs[i][:]) }
	text, err := json.Marshal(map[string]any{"domain": "apps.example.com", "root": p.root.PEM(),
		"versions": []any{map[string]string{"name": "cloister-1", "commit": "c", "pcr0": pcr(0), "pcr1": pcr(1), "pcr2": pcr(2)}}})
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// Waits is the attestation document of an enclave that waits for shares, encrypted to a setup key, under a manifest.
func (p *ProgramPlatform) Waits(manifest []byte, setup *tvc.Keys) []byte {
	p.t.Helper()
	hash := tvc.Hash(manifest)
	module, err := nsm.New(nsm.Config{Root: p.root, Now: time.Now, Rand: rand.Reader, PCRs: programPCRs})
	if err != nil {
		p.t.Fatal(err)
	}
	extension := commitment.Setup(setup.Hex(), hash)
	if _, err := module.ExtendPCR(commitment.SetupPCR, extension[:]); err != nil {
		p.t.Fatal(err)
	}
	if err := module.LockPCRs(32); err != nil {
		p.t.Fatal(err)
	}
	document, err := module.Attest(setup.Public[:], hash[:], nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return document
}

// Programs is a configuration's member tvc, of a platform for customers' programs that nothing runs on.
func Programs(t testing.TB) string { return NewProgramPlatform(t).Configuration() }
