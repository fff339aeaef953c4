// Command check sends signing requests as the load generator does, and holds every reply against its request: the signature
// recovers to the address, the app proofs verify under the boot proof and name this very body, and the activity reads back
// from the store as it was answered.
//
//	go run ./scripts/load/check -data DIR -address 0x… [-n 5000] [-c 16]
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	secp "github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"golang.org/x/crypto/sha3"

	"cloister/attestation"
	"cloister/attestation/request"
	"cloister/scripts/internal/deployment"
)

type client struct {
	api                *request.API
	AttestationRootPEM string
	ManifestSHA256     string
}

func newClient(data string, clients int) (k *client, err error) {
	k = new(client)
	if err = deployment.Read(data, "credentials.json", k); err == nil {
		k.api, err = deployment.Root(data, deployment.Over(clients))
	}
	return k, err
}

func (k *client) send(path string, body []byte) ([]byte, error) {
	status, reply, err := k.api.Post(context.Background(), path, body)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%d: %.300s", status, reply)
	}
	return reply, err
}

type exchange struct {
	body, payload, reply []byte
	err                  error
}

type activity struct {
	Activity struct {
		ID, Status string
		Result     struct {
			SignRawPayloadResult struct{ R, S, V string }
		}
	}
}

func (k *client) check(x *exchange, address string, boots []attestation.BootProof) error {
	var a activity
	if err := json.Unmarshal(x.reply, &a); err != nil {
		return err
	}
	sig := a.Activity.Result.SignRawPayloadResult
	rs, err := hex.DecodeString(sig.R + sig.S)
	if err != nil || len(rs) != 64 || len(sig.V) != 2 {
		return errors.New("no signature")
	}
	public, _, err := secp.RecoverCompact(append([]byte{27 + sig.V[1] - '0'}, rs...), x.payload)
	if err != nil {
		return err
	}
	h := sha3.NewLegacyKeccak256()
	h.Write(public.SerializeUncompressed()[1:])
	if got := "0x" + hex.EncodeToString(h.Sum(nil)[12:]); !strings.EqualFold(got, address) {
		return fmt.Errorf("signed by %s", got)
	}
	r, err := attestation.ParseReply(x.reply)
	if err != nil {
		return err
	}
	policy := attestation.Policy{SimulatorRootPEM: k.AttestationRootPEM, AllowedManifestSHA256: []string{k.ManifestSHA256}}
	want := attestation.Expectation{OrganizationID: k.api.OrganizationID, ActivityID: a.Activity.ID, Fingerprint: attestation.Fingerprint(x.body)}
	if _, err := attestation.VerifyAppProofs(r.AppProofs, boots, policy, want); err != nil {
		return err
	}
	q, err := json.Marshal(map[string]string{"organizationId": k.api.OrganizationID, "activityId": a.Activity.ID})
	if err != nil {
		return err
	}
	again, err := k.send("/public/v1/query/get_activity", q)
	if err != nil {
		return err
	}
	if !bytes.Equal(again, x.reply) {
		return errors.New("the activity reads back otherwise than answered")
	}
	return nil
}

func run() error {
	data := flag.String("data", "", "data `directory` of the simulator")
	address := flag.String("address", "", "Ethereum address to sign with")
	n := flag.Int("n", 5000, "requests")
	clients := flag.Int("c", 16, "clients")
	flag.Parse()
	k, err := newClient(*data, *clients)
	if err != nil {
		return err
	}
	all := make([]exchange, *n)
	now := time.Now().UnixMilli()
	for i := range all {
		p := sha256.Sum256([]byte(strconv.Itoa(i)))
		all[i].payload = p[:]
		all[i].body = fmt.Appendf(nil, `{"type":"ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2","timestampMs":"%d","organizationId":"%s","parameters":{"signWith":"%s","payload":"%x","encoding":"PAYLOAD_ENCODING_HEXADECIMAL","hashFunction":"HASH_FUNCTION_NO_OP"},"generateAppProofs":true}`,
			now, k.api.OrganizationID, *address, p)
	}
	each := func(f func(*exchange)) time.Duration {
		began := time.Now()
		_ = deployment.Each(*clients, "request", 0, len(all), func(i int) error { f(&all[i]); return nil }) // what went wrong is in all
		return time.Since(began)
	}
	took := each(func(x *exchange) { x.reply, x.err = k.send("/public/v1/submit/sign_raw_payload", x.body) })
	q, err := json.Marshal(map[string]string{"organizationId": k.api.OrganizationID, "appName": attestation.Application})
	if err != nil {
		return err
	}
	proof, err := k.send("/public/v1/query/get_latest_boot_proof", q)
	if err != nil {
		return err
	}
	boot, err := attestation.ParseReply(proof)
	if err != nil {
		return err
	}
	each(func(x *exchange) {
		if x.err == nil {
			x.err = k.check(x, *address, boot.BootProofs)
		}
	})
	bad := 0
	for i := range all {
		if all[i].err != nil {
			if bad++; bad <= 3 {
				fmt.Println("reply", i, all[i].err)
			}
		}
	}
	fmt.Printf("%d replies of %d clients in %.1f s, %d wrong: signature, app proofs and stored activity of each checked\n", len(all), *clients, took.Seconds(), bad)
	if bad > 0 {
		return errors.New("wrong replies")
	}
	return nil
}

func main() { deployment.Main("check", run) }
