package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"cloister/attestation/programs"
	"cloister/shared/tvc"
)

// newProgramKey makes the key of an operator of customers' programs: a seed, from which both halves are derived.
func newProgramKey(o *operatorFlags) error {
	if o.out == "" {
		return fmt.Errorf("%w: want -out", errUnreadable)
	}
	var seed [tvc.SeedSize]byte
	_, _ = rand.Read(seed[:]) // it never fails
	k, err := tvc.NewKeys(seed[:])
	if err != nil {
		return err
	}
	f, err := os.OpenFile(o.out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnreadable, err)
	}
	_, err = fmt.Fprintf(f, "%x\n", seed)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return printJSON(o.stdout, map[string]string{"publicKey": k.Hex()})
}

// readHex reads a file of hex digits.
func (o *operatorFlags) readHex(name string) ([]byte, error) {
	raw, err := o.in.read(name, maxSettings)
	if err != nil {
		return nil, err
	}
	if raw, err = hex.DecodeString(strings.TrimSpace(string(raw))); err != nil {
		return nil, fmt.Errorf("%s: not hex", name)
	}
	return raw, nil
}

// readProgram reads an operator's key, and the manifest to approve with its hash.
func (o *operatorFlags) readProgram() (*tvc.Keys, *tvc.Manifest, [32]byte, error) {
	var hash [32]byte
	seed, err := o.readHex(o.key)
	if err != nil {
		return nil, nil, hash, err
	}
	k, err := tvc.NewKeys(seed)
	clear(seed)
	if err != nil {
		return nil, nil, hash, fmt.Errorf("%s: %w", o.key, err)
	}
	raw, err := o.in.read(o.manifest, tvc.MaxManifest)
	if err != nil {
		return nil, nil, hash, err
	}
	m, err := tvc.ParseManifest(raw)
	return k, m, tvc.Hash(raw), err
}

// member returns the member of a set with a key.
func member(k *tvc.Keys, set *tvc.Set) (tvc.Member, error) {
	for _, m := range set.Members {
		if m.PubKey == k.Hex() {
			return m, nil
		}
	}
	return tvc.Member{}, errors.New("the key is not of the manifest's set")
}

func approveProgram(o *operatorFlags) error {
	k, m, hash, err := o.readProgram()
	if err != nil {
		return err
	}
	if _, err := member(k, &m.ManifestSet); err != nil {
		return err
	}
	if err := printJSON(o.stderr, m); err != nil {
		return err
	}
	if m.Pivot.DebugMode {
		fmt.Fprintln(o.stderr, "debug mode: whoever runs it reads along, and the quorum key is as good as public")
	}
	fmt.Fprintf(o.stderr, "SHA-256 %x\n", hash)
	if err := o.confirm(); err != nil {
		return err
	}
	signature, err := tvc.Approve(k.Signing, hash)
	if err != nil {
		return err
	}
	return printJSON(o.stdout, map[string]string{"signature": hex.EncodeToString(signature)})
}

func giveProgramShare(o *operatorFlags) error {
	k, m, hash, err := o.readProgram()
	if err != nil {
		return err
	}
	own, err := member(k, &m.ShareSet)
	if err != nil {
		return err
	}
	p := programs.Policy{ManifestSHA256: hash, AllowDebug: o.allowDebug}
	if o.root != "" {
		raw, err := o.in.read(o.root, maxSettings)
		if err != nil {
			return err
		}
		p.SimulatorRootPEM = string(raw)
	}
	raw, err := o.in.read(o.setup, 2*(tvc.MaxEnvelope+maxSettings))
	if err != nil {
		return err
	}
	a, err := tvc.ParseAttested(raw)
	if err != nil {
		return err
	}
	setup, err := programs.VerifySetup(a, p)
	if err != nil {
		return err
	}
	box, err := o.readHex(o.shares)
	if err != nil {
		return err
	}
	share, err := tvc.Open(k.Encryption, box)
	if err != nil {
		return err
	}
	defer clear(share)
	posted, err := setup.Share(rand.Reader, own, k.Signing, share)
	if err != nil {
		return err
	}
	out, err := posted.Encode()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.stdout, "%s\n", out)
	return err
}
