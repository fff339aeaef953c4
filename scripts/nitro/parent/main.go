// Command parent is /init of the guest that stands for the parent instance in scripts/nitro: it answers the enclave's
// heartbeat as nitro-cli does, runs the host, asks the enclave, and prints what it asks and hears, a line each.
package main

import (
	"context"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/mdlayher/vsock"

	"cloister/attestation"
	"cloister/scripts/internal/operators"
	"cloister/scripts/internal/parent"
	"cloister/shared/wire"
)

const (
	enclaveID   = 16
	enclavePort = 5000
	patience    = 2 * time.Minute
)

func main() { parent.Run(patience, run) }

func run(release *attestation.Release) error {
	host := exec.Command("/host", "serve", "-enclave", fmt.Sprintf("vsock://%d:%d", enclaveID, enclavePort),
		"-auth-proxy-addr", "off", "-store", "sqlite:/state/cloister.db", "-data-dir", "/state")
	host.Stdout, host.Stderr, host.Dir = os.Stdout, os.Stderr, "/state"
	if err := host.Start(); err != nil {
		return fmt.Errorf("starting the host: %w", err)
	}
	return play(release)
}

// ask asks one operation of the boot endpoint, again while the host is not there yet,
// and prints body and reply. A refusal is a reply like any other.
func ask(op string, in any) ([]byte, error) {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return nil, err
		}
	}
	for until := time.Now().Add(patience); ; time.Sleep(time.Second) {
		r, err := call(op, body)
		if err != nil {
			return nil, fmt.Errorf("asking %s: %w", op, err)
		}
		if r.Status == 503 && time.Now().Before(until) {
			continue
		}
		text := base64.StdEncoding.EncodeToString
		fmt.Printf("\nREPLY %s .%s %d .%s\n", op, text(body), r.Status, text(r.Body))
		return r.Body, nil
	}
}

func call(op string, body []byte) (r wire.Reply, err error) {
	nc, err := vsock.Dial(enclaveID, enclavePort, nil)
	if err != nil {
		return r, err
	}
	defer nc.Close()
	if err := wire.WriteHello(nc, wire.Hello{Role: wire.RoleCalls}, time.Now().Add(patience)); err != nil {
		return r, err
	}
	conn := wire.NewConn(nc, wire.Options{Role: wire.RoleCalls, Side: wire.SideHost})
	defer conn.Close()
	b, err := wire.Marshal(&wire.Call{Endpoint: wire.EndpointBoot, Op: op, Body: body, WithinMs: 60_000})
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	kind, answer, err := conn.Ask(ctx, wire.KindCall, b)
	if err != nil {
		return r, err
	}
	if kind != wire.KindReply {
		return r, errors.New("no reply")
	}
	return r, wire.Unmarshal(answer, &r)
}

// everybody is how many operators there are, all of whom act together.
const everybody = 2

// play leads an enclave to where it waits for its root secret: a deployment in
// shares, manifests of other images, its own, and two documents.
func play(r *attestation.Release) error {
	all, err := operators.New(everybody, everybody)
	if err != nil {
		return err
	}
	if _, err := ask("status", nil); err != nil {
		return err
	}
	answer, err := ask("genesis", map[string]any{"operators": all.Named})
	if err != nil {
		return err
	}
	var made struct{ QuorumPublicKey string }
	if err := json.Unmarshal(answer, &made); err != nil {
		return fmt.Errorf("genesis: %w", err)
	}
	own := all.Manifest()
	own.Version, own.ApplicationDigest, own.DeploymentLabel = r.Version, r.ApplicationDigest, "test-nitro"
	own.PCRs = attestation.Measurements{PCR0: r.PCRs.PCR0, PCR1: r.PCRs.PCR1, PCR2: r.PCRs.PCR2}
	own.QuorumPublicKey, own.AdmissionKey = made.QuorumPublicKey, all.Named.PublicKeys[0]
	another := strings.Repeat("ab", sha512.Size384)
	for i := range 4 {
		m := own
		switch i {
		case 0:
			m.PCRs.PCR0 = another
		case 1:
			m.PCRs.PCR1 = another
		case 2:
			m.PCRs.PCR2 = another
		}
		approved, err := all.ManifestBody(m)
		if err != nil {
			return err
		}
		if _, err := ask("manifest", approved); err != nil {
			return err
		}
	}
	for range 2 {
		var nonce [attestation.SetupNonceSize]byte
		_, _ = rand.Read(nonce[:])
		if _, err := ask("setup_document", map[string]string{"nonce": hex.EncodeToString(nonce[:])}); err != nil {
			return err
		}
	}
	_, err = ask("status", nil)
	return err
}
