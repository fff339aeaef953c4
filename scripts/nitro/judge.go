package main

import (
	"bytes"
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
	"cloister/attestation/commitment"
)

// An exchange is what the enclave was asked at the boot endpoint and what it answered.
type exchange struct {
	op     string
	body   []byte
	status int
	reply  []byte
}

func (e exchange) String() string {
	return fmt.Sprintf("%s: the enclave says %d %s", e.op, e.status, e.reply)
}

// asked is what the parent's guest asks, in order (parent/play.go).
var asked = []string{"status", "genesis", "manifest", "manifest", "manifest", "manifest", "setup_document", "setup_document", "status"}

// listen reads what the parent's guest printed.
func listen(lines []string) ([]exchange, error) {
	beat := fmt.Sprintf("HEARTBEAT 0xb7 %d", enclaveID)
	alive := false
	var all []exchange
	for _, l := range lines {
		alive = alive || l == beat
		f := strings.Fields(l)
		if len(f) != 5 || f[0] != "REPLY" {
			continue
		}
		e := exchange{op: f[1]}
		var err, err2, err3 error
		e.body, err = base64.StdEncoding.DecodeString(f[2][1:])
		e.status, err2 = strconv.Atoi(f[3])
		e.reply, err3 = base64.StdEncoding.DecodeString(f[4][1:])
		if err := errors.Join(err, err2, err3); err != nil {
			return nil, fmt.Errorf("line %.100q: %w", l, err)
		}
		all = append(all, e)
	}
	if !alive || len(all) != len(asked) {
		return nil, fmt.Errorf("heartbeat heard: %t; %d of %d replies", alive, len(all), len(asked))
	}
	for i, op := range asked {
		if all[i].op != op {
			return nil, fmt.Errorf("question %d is %s, want %s", i+1, all[i].op, op)
		}
	}
	fmt.Printf("ok    heartbeat 0xb7 from context id %d, answered\n", enclaveID)
	return all, nil
}

// judge holds what was said against what the image was measured as.
func judge(r *attestation.Release, lines []string) error {
	all, err := listen(lines)
	if err != nil {
		return err
	}
	if err := state(r, all[0], "hello"); err != nil {
		return err
	}
	fmt.Println("ok    the endpoint boot answers over vsock; the program that runs is the one of the release:", r.ApplicationDigest)
	var made struct{ Shares json.RawMessage }
	if all[1].status != 200 || json.Unmarshal(all[1].reply, &made) != nil {
		return errors.New(all[1].String())
	}
	set, _, document, err := attestation.ParseAttestedShares(made.Shares)
	if err != nil {
		return err
	}
	digest := attestation.ShareSetDigest(set)
	if err := registers(r, document, digest[:], nil, nil); err != nil {
		return fmt.Errorf("document of the genesis: %w", err)
	}
	var manifest []byte
	for i, e := range all[2:6] {
		if manifest, err = checkManifests(e, r, i); err != nil {
			return err
		}
	}
	if err := state(r, all[8], "seed"); err != nil {
		return err
	}
	fmt.Println("ok    the enclave compares the manifest with the module's PCR0, 1 and 2: takes its own, refuses three others")
	hash := attestation.Hash(manifest)
	for i, e := range all[6:8] {
		var a attestation.SetupAnswer
		var in struct{ Nonce string }
		if e.status != 200 || json.Unmarshal(e.reply, &a) != nil || json.Unmarshal(e.body, &in) != nil {
			return errors.New(e.String())
		}
		document, err := base64.StdEncoding.DecodeString(a.Document)
		if err != nil {
			return err
		}
		nonce, err := hex.DecodeString(in.Nonce)
		if err != nil {
			return err
		}
		if err := registers(r, document, hash[:], nonce, &hash); err != nil {
			return fmt.Errorf("setup document %d: %w", i+1, err)
		}
	}
	fmt.Println("ok    PCR0, 1, 2 and 8 of the module are those of both computations; PCR3 and 4 name the parent; PCR16 commits to setup key and manifest")
	fmt.Println("left  the machine's module signs nothing (algorithm -1): what is signed is tested with the simulator's module")
	return nil
}

func state(r *attestation.Release, e exchange, want string) error {
	var s struct{ State, ApplicationDigest string }
	if e.status != 200 || json.Unmarshal(e.reply, &s) != nil || s.State != want || s.ApplicationDigest != r.ApplicationDigest {
		return fmt.Errorf("state %s expected: %v", want, e)
	}
	return nil
}

// checkManifests wants the first three manifests refused, which differ from the release in
// PCR0, 1 or 2 each, and the fourth accepted, which does not. It gives the manifest.
func checkManifests(e exchange, r *attestation.Release, i int) ([]byte, error) {
	var in struct{ Manifest []byte }
	if err := json.Unmarshal(e.body, &in); err != nil {
		return nil, err
	}
	m, err := attestation.ParseManifest(in.Manifest)
	if err != nil {
		return nil, err
	}
	for at, same := range []bool{m.PCRs.PCR0 == r.PCRs.PCR0, m.PCRs.PCR1 == r.PCRs.PCR1, m.PCRs.PCR2 == r.PCRs.PCR2} {
		if same == (at == i) {
			return nil, fmt.Errorf("manifest %d names the wrong registers", i+1)
		}
	}
	if i < 3 && (e.status == 200 || !bytes.Contains(e.reply, []byte("MANIFEST_OF_ANOTHER"))) || i == 3 && e.status != 200 {
		return nil, fmt.Errorf("manifest %d of 4, of which the last is the enclave's own: %v", i+1, e)
	}
	return in.Manifest, nil
}

// unsigned is the algorithm that QEMU's module names.
const unsigned = -1

// registers checks one attestation document but for its signature, of which there
// is none. With a manifest it must be one of the setup key.
func registers(r *attestation.Release, document, userData, nonce []byte, manifest *[32]byte) error {
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
	if err := cbor.Unmarshal(document, &cose); err != nil || len(cose) != 4 {
		return errors.New("not a COSE_Sign1")
	}
	if err := errors.Join(cbor.Unmarshal(cose[0], &protected), cbor.Unmarshal(protected, &header), cbor.Unmarshal(cose[2], &payload), cbor.Unmarshal(payload, &d)); err != nil {
		return err
	}
	// Should QEMU learn to sign, there would be more to check here.
	if header[1] != unsigned {
		return fmt.Errorf("algorithm %d: it seems to be signed", header[1])
	}
	want := map[int]string{0: r.PCRs.PCR0, 1: r.PCRs.PCR1, 2: r.PCRs.PCR2, 8: r.PCRs.PCR8, 3: extendZeros(role), 4: extendZeros(instanceID)}
	if manifest != nil {
		committed := commitment.SetupRegister(hex.EncodeToString(d.PublicKey), *manifest)
		want[commitment.SetupPCR] = hex.EncodeToString(committed[:])
	}
	for i, v := range want {
		if got := hex.EncodeToString(d.PCRs[i]); v == "" || got != v {
			return fmt.Errorf("PCR%d is %s, want %s", i, got, v)
		}
	}
	switch {
	case !bytes.Equal(d.Nonce, nonce) || !bytes.Equal(d.UserData, userData) || (len(d.PublicKey) == 130) != (manifest != nil):
		return errors.New("nonce, user_data or public_key is not what was asked for")
	case d.Digest != "SHA384" || d.ModuleID == "":
		return errors.New("no module or another digest")
	}
	return nil
}

// extendZeros is a register of zeros, extended once by the text itself.
func extendZeros(text string) string {
	sum := sha512.Sum384(append(make([]byte, sha512.Size384), text...))
	return hex.EncodeToString(sum[:])
}
