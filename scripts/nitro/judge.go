package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"cloister/attestation"
)

// A play is what the enclave is asked and what it must say.
type play struct {
	release  *attestation.Release
	manifest []byte
	nonces   [2][]byte
	calls    []call
}

// A call is one operation of the door boot.
type call struct {
	Op   string `json:"op"`
	Body []byte `json:"body"`
}

// newPlay makes a deployment of one operator, whose manifest names the image, and
// the same with one register changed.
func newPlay(r *attestation.Release) (*play, error) {
	p := &play{release: r}
	operator, point, key, err := newKey()
	if err != nil {
		return nil, err
	}
	_, _, share, err := newKey()
	if err != nil {
		return nil, err
	}
	m := attestation.Manifest{
		Format: 1, Kind: attestation.KindNitro, Application: attestation.Application, Version: r.Version, ApplicationDigest: r.ApplicationDigest,
		DeploymentLabel: "test-nitro", PCRs: attestation.Measurements{PCR0: r.PCRs.PCR0, PCR1: r.PCRs.PCR1, PCR2: r.PCRs.PCR2},
		QuorumPublicKey: hex.EncodeToString(append(bytes.Clone(point), point...)),
		Operators:       attestation.Operators{Threshold: 1, PublicKeys: []string{key}, ShareKeys: []string{share}}, AdmissionKey: key,
		SeedSource: attestation.SeedOperatorShares, Freshness: attestation.Freshness{Mode: attestation.FreshSinceBoot},
	}
	add := func(op string, body any) error {
		raw, err := json.Marshal(body)
		p.calls = append(p.calls, call{op, raw})
		return err
	}
	p.calls = []call{{Op: "status"}}
	for _, zero := range []string{m.PCRs.PCR0, m.PCRs.PCR1, m.PCRs.PCR2} {
		other := m
		swap := strings.NewReplacer(zero, strings.Repeat("ab", sha512.Size384))
		other.PCRs = attestation.Measurements{PCR0: swap.Replace(m.PCRs.PCR0), PCR1: swap.Replace(m.PCRs.PCR1), PCR2: swap.Replace(m.PCRs.PCR2)}
		body, _, err := approved(&other, operator)
		if err == nil {
			err = add("manifest", body)
		}
		if err != nil {
			return nil, err
		}
	}
	body, raw, err := approved(&m, operator)
	if err == nil {
		err = add("manifest", body)
	}
	if err != nil {
		return nil, err
	}
	p.manifest = raw
	for i := range p.nonces {
		if p.nonces[i], err = random(attestation.SetupNonceSize); err != nil {
			return nil, err
		}
		if err := add("setup_document", map[string]string{"nonce": hex.EncodeToString(p.nonces[i])}); err != nil {
			return nil, err
		}
	}
	p.calls = append(p.calls, call{Op: "status"})
	return p, nil
}

// newKey is a P-256 key with its public half, whole and compressed in hex.
func newKey() (key *ecdsa.PrivateKey, point []byte, compressed string, err error) {
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, nil, "", err
	}
	if point, err = key.PublicKey.Bytes(); err != nil {
		return nil, nil, "", err
	}
	// SEC 1: whether y is odd, and x.
	return key, point, hex.EncodeToString(append([]byte{2 | point[64]&1}, point[1:33]...)), nil
}

// approved is the body of the operation manifest.
func approved(m *attestation.Manifest, operator *ecdsa.PrivateKey) (body any, raw []byte, err error) {
	if raw, err = m.Encode(); err != nil {
		return nil, nil, err
	}
	approval, err := attestation.ApproveManifest(operator, attestation.Hash(raw))
	if err != nil {
		return nil, nil, err
	}
	return map[string]any{"manifest": base64.StdEncoding.EncodeToString(raw), "approvals": []attestation.ManifestApproval{approval}}, raw, nil
}

// A reply is what the enclave answered to a call.
type reply struct {
	status int
	body   []byte
}

// judge holds what the parent's guest printed against what must be.
func (p *play) judge(lines []string) error {
	beat := fmt.Sprintf("HEARTBEAT 0xb7 %d", enclaveID)
	heard := false
	var replies []reply
	for _, l := range lines {
		heard = heard || l == beat
		f := strings.Fields(l)
		if len(f) < 3 || f[0] != "REPLY" {
			continue
		}
		status, err := strconv.Atoi(f[2])
		if err != nil {
			return err
		}
		body, err := base64.StdEncoding.DecodeString(strings.Join(f[3:], ""))
		if err != nil || len(replies) >= len(p.calls) || p.calls[len(replies)].Op != f[1] {
			return fmt.Errorf("unexpected line %.100q", l)
		}
		replies = append(replies, reply{status, body})
	}
	if !heard || len(replies) != len(p.calls) {
		return fmt.Errorf("heartbeat heard: %t; %d of %d replies", heard, len(replies), len(p.calls))
	}
	fmt.Printf("ok    heartbeat 0xb7 from context id %d, answered\n", enclaveID)
	if err := p.states(replies); err != nil {
		return err
	}
	var keys [][]byte
	for i, nonce := range p.nonces {
		key, err := p.document(replies[5+i], nonce)
		if err != nil {
			return fmt.Errorf("document %d: %w", i+1, err)
		}
		keys = append(keys, key)
	}
	if !bytes.Equal(keys[0], keys[1]) {
		return errors.New("two documents of one boot with two setup keys")
	}
	fmt.Println("ok    PCR0, 1, 2 and 8 of the module are those of both computations; PCR3 and 4 name the parent; PCR16 commits to setup key and manifest")
	fmt.Println("left  the machine's module signs nothing (algorithm -1): what is signed is tested with the simulator's module")
	return nil
}

// states checks the replies but for the documents.
func (p *play) states(replies []reply) error {
	say := func(r reply) error { return fmt.Errorf("the enclave says %d %s", r.status, r.body) }
	state := func(r reply, want string) error {
		var s struct{ State, ApplicationDigest string }
		if r.status != 200 || json.Unmarshal(r.body, &s) != nil || s.State != want || s.ApplicationDigest != p.release.ApplicationDigest {
			return fmt.Errorf("status %s expected: %w", want, say(r))
		}
		return nil
	}
	if err := state(replies[0], "hello"); err != nil {
		return err
	}
	fmt.Println("ok    the door boot answers over vsock; the program that runs is the one of the release:", p.release.ApplicationDigest)
	for i := range 3 {
		if r := replies[1+i]; r.status == 200 || !bytes.Contains(r.body, []byte("MANIFEST_OF_ANOTHER")) {
			return fmt.Errorf("a manifest of another PCR%d: %w", i, say(r))
		}
	}
	if replies[4].status != 200 {
		return fmt.Errorf("its own manifest: %w", say(replies[4]))
	}
	if err := state(replies[len(replies)-1], "seed"); err != nil {
		return err
	}
	fmt.Println("ok    the enclave compares the manifest with the module's PCR0, 1 and 2: takes its own, refuses three others")
	return nil
}

// unsigned is the algorithm that QEMU's module names.
const unsigned = -1

// document checks one attestation document but for its signature, of which there is
// none, and gives the setup key.
func (p *play) document(r reply, nonce []byte) ([]byte, error) {
	var a attestation.SetupAnswer
	if r.status != 200 || json.Unmarshal(r.body, &a) != nil {
		return nil, fmt.Errorf("the enclave says %d %s", r.status, r.body)
	}
	raw, err := base64.StdEncoding.DecodeString(a.Document)
	if err != nil {
		return nil, err
	}
	var cose []cbor.RawMessage
	var protected, payload []byte
	var header map[int]int
	var d struct {
		ModuleID  string         `cbor:"module_id"`
		Digest    string         `cbor:"digest"`
		PCRs      map[int][]byte `cbor:"pcrs"`
		PublicKey []byte         `cbor:"public_key"`
		UserData  []byte         `cbor:"user_data"`
		Nonce     []byte         `cbor:"nonce"`
	}
	if err := cbor.Unmarshal(raw, &cose); err != nil || len(cose) != 4 {
		return nil, errors.New("not a COSE_Sign1")
	}
	if err := errors.Join(cbor.Unmarshal(cose[0], &protected), cbor.Unmarshal(protected, &header), cbor.Unmarshal(cose[2], &payload), cbor.Unmarshal(payload, &d)); err != nil {
		return nil, err
	}
	// Should QEMU learn to sign, there would be more to check here.
	if header[1] != unsigned {
		return nil, fmt.Errorf("algorithm %d: it seems to be signed", header[1])
	}
	hash := attestation.Hash(p.manifest)
	commitment := attestation.SetupCommitment(hex.EncodeToString(d.PublicKey), hash)
	want := map[int]string{
		0: p.release.PCRs.PCR0, 1: p.release.PCRs.PCR1, 2: p.release.PCRs.PCR2, 8: p.release.PCRs.PCR8,
		3: extended(role), 4: extended(instanceID), attestation.SetupPCR: hex.EncodeToString(commitment[:]),
	}
	for i, v := range want {
		if got := hex.EncodeToString(d.PCRs[i]); v == "" || got != v {
			return nil, fmt.Errorf("PCR%d is %s, want %s", i, got, v)
		}
	}
	switch {
	case !bytes.Equal(d.Nonce, nonce) || !bytes.Equal(d.UserData, hash[:]) || len(d.PublicKey) != 130:
		return nil, errors.New("nonce, user_data or public_key is not what was asked for")
	case d.Digest != "SHA384" || d.ModuleID == "":
		return nil, errors.New("no module or another digest")
	}
	return d.PublicKey, nil
}

// extended is a register of zeros, extended once by the text itself.
func extended(text string) string {
	sum := sha512.Sum384(append(make([]byte, sha512.Size384), text...))
	return hex.EncodeToString(sum[:])
}
