package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"cloister/attestation"
	"cloister/attestation/commitment"
	"cloister/attestation/request"
	"cloister/scripts/internal/operators"
	"cloister/sim/laptop"
	"cloister/sim/script"
)

// Three operators, of whom any two bring the enclave up.
const (
	operatorCount = 3
	threshold     = 2
)

// A deployment is what its operators know of it.
type deployment struct {
	*operators.Operators
	admission laptop.KeyPair
	shares    []byte // the attested share set
	manifest  attestation.Manifest
}

// ask asks one operation at the boot endpoint, through the relay on the parent.
func (w *world) ask(ctx context.Context, op string, body, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	d, err := laptop.DialEnclave(ctx, w.relay)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Call(ctx, op, b, nil, into)
}

// policy is what operators believe in: the emulated module's root, and the image.
func (w *world) policy() attestation.Policy {
	p := attestation.Policy{SimulatorRootPEM: w.root.PEM(), Operators: w.deployment.Named, ExpectedPCRs: map[int]string{}}
	for i, v := range w.pcrs {
		p.ExpectedPCRs[i] = v
	}
	return p
}

// genesis makes the deployment: its root secret is split among the operators, and
// their first manifest is written.
func (w *world) genesis(ctx context.Context) error {
	all, err := operators.New(operatorCount, threshold)
	if err != nil {
		return err
	}
	o := &deployment{Operators: all}
	w.deployment = o
	if o.admission, err = laptop.NewKey(); err != nil {
		return err
	}
	var g struct {
		QuorumPublicKey string          `json:"quorumPublicKey"`
		Shares          json.RawMessage `json:"shares"`
	}
	if err := w.ask(ctx, "genesis", map[string]any{"operators": o.Named}, &g); err != nil {
		return err
	}
	o.shares = g.Shares
	program, err := os.ReadFile(w.enclave)
	if err != nil {
		return err
	}
	o.manifest = o.Manifest()
	o.manifest.Version, o.manifest.ApplicationDigest = "test", fmt.Sprintf("%x", sha256.Sum256(program))
	o.manifest.DeploymentLabel, o.manifest.Owner = "vsock", "test"
	o.manifest.PCRs = attestation.Measurements{PCR0: w.pcrs[0], PCR1: w.pcrs[1], PCR2: w.pcrs[2]}
	o.manifest.QuorumPublicKey, o.manifest.AdmissionKey = g.QuorumPublicKey, o.admission.PublicKey
	return nil
}

// boot leads a waiting enclave to serving: manifest, approvals, and the shares of
// the operators with these places, from 0.
func (w *world) boot(ctx context.Context, places ...int) error {
	approved, err := w.deployment.ManifestBody(w.deployment.manifest)
	if err != nil {
		return err
	}
	if err := w.ask(ctx, "manifest", approved, nil); err != nil {
		return err
	}
	for i, place := range places {
		s, err := w.status(ctx)
		if err != nil {
			return err
		}
		if s != "seed" {
			return fmt.Errorf("with %d shares the enclave's state is %q", i, s)
		}
		if err := w.give(ctx, place); err != nil {
			return fmt.Errorf("operator %d: %w", place+1, err)
		}
	}
	s, err := w.status(ctx)
	if err == nil && s != "serving" {
		err = fmt.Errorf("the enclave's state is %q, want serving", s)
	}
	return err
}

// give is what one operator does: look at the enclave, then hand over the share.
func (w *world) give(ctx context.Context, place int) error {
	var nonce [attestation.SetupNonceSize]byte
	_, _ = rand.Read(nonce[:])
	var answer attestation.SetupAnswer
	if err := w.ask(ctx, "setup_document", map[string]string{"nonce": hex.EncodeToString(nonce[:])}, &answer); err != nil {
		return err
	}
	setup, err := w.verify(answer, nonce)
	if err != nil {
		return fmt.Errorf("looking at the enclave: %w", err)
	}
	set, err := attestation.VerifyShares(w.deployment.shares, w.policy())
	if err != nil {
		return err
	}
	raw, err := set.Encode()
	if err != nil {
		return err
	}
	share, err := set.Open(place+1, w.deployment.Share[place])
	if err != nil {
		return err
	}
	submission, err := setup.Submit(raw, place+1, share, w.deployment.Sign[place])
	if err != nil {
		return err
	}
	return w.ask(ctx, "share", submission, nil)
}

// verify is what attestation.VerifySetup does, but for one thing: that refuses, and rightly, a manifest of a
// real enclave under any root but AWS's, which is what there is here.
func (w *world) verify(a attestation.SetupAnswer, nonce [attestation.SetupNonceSize]byte) (*attestation.Setup, error) {
	if _, err := attestation.VerifySetup(a, nonce, w.policy()); err == nil {
		return nil, errors.New("a real enclave's manifest was accepted under an emulated root")
	}
	d, hash, key, err := w.document(a.Document)
	if err != nil {
		return nil, err
	}
	switch {
	case string(d.Nonce) != string(nonce[:]):
		return nil, errors.New("the document is for another nonce")
	case string(d.UserData) != string(hash[:]):
		return nil, errors.New("the document is for another manifest")
	case d.PCRs[commitment.SetupPCR] != commitment.SetupRegister(key, hash):
		return nil, errors.New("PCR16 does not commit to setup key and manifest")
	}
	return &attestation.Setup{Document: d, Manifest: &w.deployment.manifest, ManifestHash: hash, PublicKeyHex: key, Nonce: nonce}, nil
}

// document verifies a document, and gives the manifest's hash and the key that it should be about.
func (w *world) document(text string) (d *attestation.Document, hash [32]byte, key string, err error) {
	raw, err := w.deployment.manifest.Encode()
	if err != nil {
		return nil, hash, "", err
	}
	document, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, hash, "", err
	}
	if d, err = attestation.VerifyDocument(document, w.policy()); err != nil {
		return nil, hash, "", err
	}
	return d, attestation.Hash(raw), hex.EncodeToString(d.PublicKey), nil
}

// organization makes a first organization with the admission key.
func (w *world) organization(ctx context.Context, name string) (script.Organization, error) {
	d, err := laptop.DialEnclave(ctx, w.relay)
	if err != nil {
		return script.Organization{}, err
	}
	defer d.Close()
	made, err := d.NewOrganization(ctx, w.deployment.admission, name, time.Now())
	return script.Organization{ID: made.OrganizationID, UserID: made.RootUserID, Key: made.RootAPIKey}, err
}

// proof asks for the boot proof as a client does and holds the document against image, manifest and live key.
func (w *world) proof(ctx context.Context, o script.Organization) error {
	stamps, err := request.ParseKey(o.Key.PrivateKey)
	if err != nil {
		return err
	}
	api := &request.API{URL: w.api, OrganizationID: o.ID, Key: stamps}
	var answer struct {
		BootProof attestation.BootProof `json:"bootProof"`
	}
	if err := api.Query(ctx, "get_latest_boot_proof", map[string]string{"appName": attestation.Application}, &answer); err != nil {
		return err
	}
	d, hash, key, err := w.document(answer.BootProof.AWSAttestationDocB64)
	if err != nil {
		return err
	}
	switch {
	case key != answer.BootProof.EphemeralPublicKeyHex:
		return errors.New("the document is for another live key")
	case string(d.UserData) != string(hash[:]):
		return errors.New("the document is for another manifest")
	case len(d.PCRs) != 32 || d.PCRs[commitment.LivePCR] != commitment.LiveRegister(key, hash):
		return errors.New("the registers do not commit to live key and manifest, or are not all locked")
	}
	return nil
}
