// Command apphost is /init of the guest that stands for the parent instance of a customer's program in scripts/nitro: it answers
// the enclave's heartbeat as nitro-cli does, and runs the program in the enclave by the host's own package, from a manifest and
// shares to a co-signature. It prints a line for each thing that held.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/hf/nitrite"
	"github.com/mdlayher/vsock"

	"cloister/attestation"
	"cloister/attestation/commitment"
	"cloister/attestation/programs"
	host "cloister/host/programs"
	"cloister/scripts/internal/parent"
	"cloister/shared/tvc"
)

const (
	enclaveID = 16
	patience  = 3 * time.Minute
	app       = "app"
	program   = "/cosigner"
)

func main() { parent.Run(patience, run) }

func run(release *attestation.Release) error {
	role, err := os.ReadFile("/pcr3")
	if err != nil {
		return err
	}
	binary, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return (&world{ctx: ctx, binary: binary, release: release, role: string(role)}).play()
}

// A machine has one enclave, which runs.
type machine struct{ ended chan struct{} }

func (m machine) Start(context.Context, bool) (host.Instance, error) { return m, nil }
func (m machine) Done() <-chan struct{}                              { return m.ended }
func (m machine) Stop()                                              {}

func (m machine) Dial(context.Context) (net.Conn, error) { return vsock.Dial(enclaveID, tvc.Port, nil) }

// images is a registry of one image.
type images []byte

func (i images) Program(context.Context, string, string) ([]byte, error) { return i, nil }

type world struct {
	ctx       context.Context
	binary    []byte
	release   *attestation.Release
	role      string // PCR3
	operators []*tvc.Keys
	shares    [][]byte
	manifest  tvc.Manifest
	host      *host.Host
}

func (w *world) play() error {
	if err := w.make(); err != nil {
		return err
	}
	w.host = host.New(host.Config{Machine: machine{make(chan struct{})}, Images: images(w.binary), After: time.After})
	for what, change := range map[string]func(*tvc.Manifest){
		"another PCR0":        func(m *tvc.Manifest) { m.Enclave.PCR0 = strings.Repeat("ab", 48) },
		"another PCR1":        func(m *tvc.Manifest) { m.Enclave.PCR1 = strings.Repeat("ab", 48) },
		"another PCR2":        func(m *tvc.Manifest) { m.Enclave.PCR2 = strings.Repeat("ab", 48) },
		"another role's PCR3": func(m *tvc.Manifest) { m.Enclave.PCR3 = strings.Repeat("ab", 48) },
		"a simulator's root":  func(m *tvc.Manifest) { m.Enclave.AWSRootCertificate = "3000" },
		"no approval of it":   nil,
	} {
		envelope, err := w.envelope(change)
		if err != nil {
			return err
		}
		if err := w.give(envelope); err == nil {
			return fmt.Errorf("the enclave takes a manifest with %s", what)
		}
	}
	fmt.Println("ok    the enclave refuses manifests with other registers, another root, and without approvals")
	envelope, err := w.envelope(func(*tvc.Manifest) {})
	if err != nil {
		return err
	}
	order := &tvc.Run{AppID: app, DeploymentID: "one", Envelope: envelope, Image: "registry.test/cosigner@sha256:" + strings.Repeat("ab", 32), Path: program,
		HealthCheckType: tvc.HealthHTTP, HealthCheckPort: 3000, PublicIngressPort: 3000, Replicas: 1}
	if err := w.host.Run(w.ctx, order); err != nil {
		return err
	}
	if err := w.await(func(r host.Replica) bool { return r.Status.State == tvc.StateShares }); err != nil {
		return err
	}
	fmt.Println("ok    it takes its own manifest and the program of that digest, and waits for shares")
	if err := w.provision(); err != nil {
		return err
	}
	if err := w.await(func(r host.Replica) bool { return r.Healthy }); err != nil {
		return err
	}
	fmt.Println("ok    two shares of three make the quorum key, and the program answers its health check")
	return w.use()
}

// make makes operators, a quorum key in shares, and the manifest.
func (w *world) make() error {
	var members []tvc.Member
	for i := range 3 {
		keys, err := tvc.DrawKeys(rand.Reader)
		if err != nil {
			return err
		}
		w.operators = append(w.operators, keys)
		members = append(members, tvc.Member{Alias: "operator " + strconv.Itoa(i+1), PubKey: keys.Hex()})
	}
	var quorum *tvc.Keys
	for range 4 {
		seed, slope := make([]byte, tvc.SeedSize), make([]byte, tvc.SeedSize)
		_, _ = rand.Read(seed)
		_, _ = rand.Read(slope)
		// Shares at 1 and 2 of the line through the seed: a product with 2 is a shift.
		one, two := []byte{1}, []byte{2}
		for i := range seed {
			double := slope[i] << 1
			if slope[i]&0x80 != 0 {
				double ^= 0x1b
			}
			one, two = append(one, seed[i]^slope[i]), append(two, seed[i]^double)
		}
		w.shares = [][]byte{one, two}
		if quorum, _ = tvc.NewKeys(seed); quorum != nil {
			break
		}
	}
	if quorum == nil {
		return errors.New("randomness gives no quorum key")
	}
	block, _ := pem.Decode([]byte(nitrite.DefaultCARoots))
	if block == nil {
		return errors.New("the AWS root is no certificate")
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return err
	}
	sum := sha256.Sum256(w.binary)
	set := tvc.Set{Members: members, Threshold: 2}
	w.manifest = tvc.Manifest{Version: tvc.Version, ManifestSet: set, ShareSet: set,
		Namespace: tvc.Namespace{Name: "prod/tvc/example", Nonce: 1, QuorumKey: quorum.Hex()},
		Pivot: tvc.Pivot{Hash: hex.EncodeToString(sum[:]), Restart: tvc.RestartNever, Args: []string{"-limit", "100", "-to", "alice,bob"},
			BridgeConfig: []tvc.Bridge{{Host: "127.0.0.1", Port: 3000, Type: tvc.BridgeServer}}},
		Enclave: tvc.Enclave{AWSRootCertificate: hex.EncodeToString(block.Bytes), PCR0: w.release.PCRs.PCR0, PCR1: w.release.PCRs.PCR1, PCR2: w.release.PCRs.PCR2, PCR3: w.role, QOSCommit: "test"},
	}
	return nil
}

// envelope is the manifest, changed, with the approvals of two operators; nil: with none.
func (w *world) envelope(change func(*tvc.Manifest)) (*tvc.Envelope, error) {
	e := &tvc.Envelope{Manifest: w.manifest}
	if change == nil {
		return e, nil
	}
	change(&e.Manifest)
	raw, err := e.Manifest.Encode()
	if err != nil {
		return nil, err
	}
	for i := range 2 {
		signature, err := tvc.Approve(w.operators[i].Signing, tvc.Hash(raw))
		if err != nil {
			return nil, err
		}
		e.ManifestSetApprovals = append(e.ManifestSetApprovals, tvc.NewApproval(e.Manifest.ManifestSet.Members[i], signature))
	}
	return e, nil
}

// give gives the enclave an envelope, past the host's own checks.
func (w *world) give(e *tvc.Envelope) error {
	raw, err := e.Encode()
	if err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	c, err := vsock.Dial(enclaveID, tvc.Port, nil)
	if err != nil {
		fmt.Println("FAILED", err)
		return nil
	}
	defer c.Close()
	_, err = tvc.Ask(c, tvc.GiveManifest, raw)
	return err
}

func (w *world) await(is func(host.Replica) bool) error {
	for {
		all, _, err := w.host.Status("one")
		if err != nil {
			return err
		}
		if is(all[0]) {
			return nil
		}
		select {
		case <-w.ctx.Done():
			return fmt.Errorf("the program's enclave does not get there: %+v", all[0])
		case <-time.After(time.Second):
		}
	}
}

// provision gives the shares. What a holder verifies is verified but for the module's signature, which QEMU's does not make.
func (w *world) provision() error {
	raw, err := w.manifest.Encode()
	if err != nil {
		return err
	}
	hash := tvc.Hash(raw)
	setups, err := w.host.Setups(w.ctx, "one")
	if err != nil || len(setups) != 1 {
		return fmt.Errorf("%d setups: %w", len(setups), err)
	}
	if _, err := programs.VerifySetup(setups[0], programs.Policy{ManifestSHA256: hash}); err == nil {
		return errors.New("a document that nobody has signed verifies")
	}
	d, err := parseUnsigned(setups[0].Document)
	if err != nil {
		return err
	}
	key := hex.EncodeToString(d.PublicKey)
	if err := w.registers(d, hash, commitment.SetupPCR, commitment.SetupRegister(key, hash)); err != nil {
		return err
	}
	fmt.Println("ok    PCR0 to 3 of the module are the manifest's; PCR16 commits to setup key and manifest, which the document names")
	pair, err := tvc.ParsePair(key)
	if err != nil {
		return err
	}
	for i, share := range w.shares {
		box, err := tvc.Seal(rand.Reader, pair.Encryption, share)
		if err != nil {
			return err
		}
		signature, err := tvc.Approve(w.operators[i].Signing, hash)
		if err != nil {
			return err
		}
		posted := &tvc.PostedShare{Approval: tvc.NewApproval(w.manifest.ShareSet.Members[i], signature), Box: hex.EncodeToString(box)}
		if err := w.host.GiveShare(w.ctx, "one", key, posted); err != nil {
			return err
		}
	}
	return nil
}

// A document is what QEMU's module says, which it does not sign.
type document struct {
	PCRs      map[int][]byte `cbor:"pcrs"`
	PublicKey []byte         `cbor:"public_key"`
	UserData  []byte         `cbor:"user_data"`
}

// parseUnsigned reads a document and verifies nothing: nobody has signed it.
func parseUnsigned(raw []byte) (d document, err error) {
	var cose []cbor.RawMessage
	var payload []byte
	if err := cbor.Unmarshal(raw, &cose); err != nil || len(cose) != 4 {
		return d, errors.New("not a COSE_Sign1")
	}
	return d, errors.Join(cbor.Unmarshal(cose[2], &payload), cbor.Unmarshal(payload, &d))
}

func (w *world) registers(d document, hash [32]byte, index int, committed [48]byte) error {
	want := map[int]string{0: w.release.PCRs.PCR0, 1: w.release.PCRs.PCR1, 2: w.release.PCRs.PCR2, 3: w.role, index: hex.EncodeToString(committed[:])}
	for i, v := range want {
		if got := hex.EncodeToString(d.PCRs[i]); got != v {
			return fmt.Errorf("PCR%d is %s, want %s", i, got, v)
		}
	}
	if !bytes.Equal(d.UserData, hash[:]) {
		return errors.New("the document is of another manifest")
	}
	return nil
}

// use asks the program for a co-signature and holds it against manifest and boot proof.
func (w *world) use() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = w.host.Ingress(w.ctx, app, l) }()
	ask := func(body string) (int, []byte, error) {
		r, err := http.Post("http://"+l.Addr().String()+"/cosign", "application/json", strings.NewReader(body))
		if err != nil {
			return 0, nil, err
		}
		defer r.Body.Close()
		raw, err := io.ReadAll(r.Body)
		return r.StatusCode, raw, err
	}
	if status, raw, err := ask(`{"to":"mallory","amount":"1","nonce":"8"}`); err != nil || status != http.StatusForbidden {
		return fmt.Errorf("what the program's arguments forbid: %d %s %w", status, raw, err)
	}
	status, raw, err := ask(`{"to":"bob","amount":"40","nonce":"7"}`)
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("%d %s %w", status, raw, err)
	}
	var answer struct {
		Signature string               `json:"signature"`
		AppProof  attestation.AppProof `json:"appProof"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return err
	}
	signature, err := hex.DecodeString(answer.Signature)
	if err != nil {
		return err
	}
	if err := programs.VerifyCertified(&w.manifest, []byte("cosigner transfer 1\nbob\n40\n7\n"), signature); err != nil {
		return err
	}
	if err := attestation.VerifyAppProofSignature(answer.AppProof); err != nil {
		return err
	}
	proofs, err := w.host.Proofs(w.ctx, "one")
	if err != nil || len(proofs) != 1 {
		return fmt.Errorf("%d proofs: %w", len(proofs), err)
	}
	d, err := parseUnsigned(proofs[0].Document)
	if err != nil {
		return err
	}
	encoded, err := w.manifest.Encode()
	if err != nil {
		return err
	}
	hash := tvc.Hash(encoded)
	if key := hex.EncodeToString(d.PublicKey); key != answer.AppProof.PublicKey {
		return errors.New("the proof is by another key than that of the boot proof")
	} else if err := w.registers(d, hash, commitment.LivePCR, commitment.LiveRegister(key, hash)); err != nil {
		return err
	}
	fmt.Println("ok    the co-signature is by the quorum key, its proof by the key that PCR17 commits to; what the arguments forbid is refused")
	fmt.Println("left  the machine's module signs nothing (algorithm -1), so no holder would give his share: what is signed is tested with the simulator's module")
	return nil
}
