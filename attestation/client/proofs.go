package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"cloister/attestation"
)

// Discovery returns a Transport.Proofs that fetches boot proofs from the public interface at base, a URL
// without a slash at the end. It has those of all boots of the deployment and needs no credential. via sends
// the requests; nil means http.DefaultTransport. The reply needs no signature: a boot proof proves itself.
func Discovery(base string, via http.RoundTripper) func(context.Context, string) (attestation.BootProof, error) {
	return func(ctx context.Context, liveKey string) (attestation.BootProof, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/public/v1/discovery/boot_proof/"+url.PathEscape(liveKey), nil)
		if err != nil {
			return attestation.BootProof{}, err
		}
		return fetchBootProof(via, r)
	}
}

// Query returns a Transport.Proofs that fetches boot proofs by the query get_boot_proof,
// for an interface that a proxy opens to stamped requests only. stamp adds the credential
// header of a user of organization over the exact body. base and via are as in Discovery.
func Query(base, organization string, via http.RoundTripper, stamp func(h http.Header, body []byte) error) func(context.Context, string) (attestation.BootProof, error) {
	return func(ctx context.Context, liveKey string) (attestation.BootProof, error) {
		body, err := json.Marshal(map[string]string{"organizationId": organization, "ephemeralKey": liveKey})
		if err != nil {
			return attestation.BootProof{}, fmt.Errorf("writing the query: %w", err)
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/public/v1/query/get_boot_proof", bytes.NewReader(body))
		if err != nil {
			return attestation.BootProof{}, err
		}
		r.Header.Set("Content-Type", "application/json")
		if err := stamp(r.Header, body); err != nil {
			return attestation.BootProof{}, fmt.Errorf("stamping the query: %w", err)
		}
		return fetchBootProof(via, r)
	}
}

// fetchBootProof sends a request whose reply holds one boot proof.
func fetchBootProof(via http.RoundTripper, r *http.Request) (proof attestation.BootProof, err error) {
	resp, err := base(via).RoundTrip(r)
	if err != nil {
		return proof, err
	}
	raw, err := readReply(resp)
	if err != nil {
		return proof, err
	}
	if resp.StatusCode != http.StatusOK {
		return proof, fmt.Errorf("status %d", resp.StatusCode)
	}
	found, err := attestation.ParseReply(raw)
	if err != nil {
		return proof, err
	}
	if len(found.BootProofs) != 1 {
		return proof, errors.New("reply does not hold one boot proof")
	}
	return found.BootProofs[0], nil
}
