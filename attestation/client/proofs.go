package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"cloister/attestation"
)

// tries is how often Discovery asks: behind one address there may be several
// enclaves, each with a live key of its own.
const tries = 4

// Discovery finds boot proofs in the keys document of the public interface at
// base, a URL without a slash at the end. It needs no credential and finds the
// proofs of enclaves that serve now. via carries the requests; nil means
// http.DefaultTransport. What it finds proves itself: the request is sent plain.
func Discovery(base string, via http.RoundTripper) func(context.Context, string) (attestation.BootProof, error) {
	return func(ctx context.Context, liveKey string) (attestation.BootProof, error) {
		for range tries {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/public/v1/discovery/keys", nil)
			if err != nil {
				return attestation.BootProof{}, err
			}
			r.Header.Set("Cache-Control", "no-cache")
			// Who signed what in it is no matter here, only whose boot proof it holds.
			found, err := ask(via, r)
			if err != nil {
				return attestation.BootProof{}, err
			}
			for _, b := range found.BootProofs {
				if b.EphemeralPublicKeyHex == liveKey {
					return b, nil
				}
			}
		}
		return attestation.BootProof{}, errors.New("keys document does not hold it")
	}
}

// Query finds boot proofs by the query get_boot_proof of the public interface at
// base, a URL without a slash at the end: those of earlier boots too. stamp adds
// the credential header of a member of organization over the exact body.
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
		found, err := ask(via, r)
		if err != nil {
			return attestation.BootProof{}, err
		}
		if len(found.BootProofs) != 1 {
			return attestation.BootProof{}, errors.New("reply does not hold one boot proof")
		}
		return found.BootProofs[0], nil
	}
}

// ask sends a request whose reply holds proofs.
func ask(via http.RoundTripper, r *http.Request) (*attestation.Reply, error) {
	resp, err := base(via).RoundTrip(r)
	if err != nil {
		return nil, err
	}
	raw, err := readReply(resp)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	return attestation.ParseReply(raw)
}
