package query

import (
	"strconv"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

var proofs = []*Query{
	fetchQuery("list_app_proofs", fetchActivity, answerAppProofs),
	fetchQuery("get_boot_proof", fetchBootProof, answerBootProof),
	fetchQuery("get_latest_boot_proof", fetchLatestBootProof, answerBootProof),
}

// appName is what the enclave calls itself in boot proofs.
const appName = "cloister"

type bootProofRequest struct {
	Head
	EphemeralKey string `json:"ephemeralKey" rule:"required"`
}

type latestBootProofRequest struct {
	Head
	AppName string `json:"appName" rule:"required"`
}

func answerAppProofs(_ *View, e *org.Entry) ([]byte, error) {
	return append(activity.AppendProofs([]byte(`{"appProofs":`), e.Proofs), '}'), nil
}

func fetchBootProof(in *bootProofRequest, s *sources) ([]byte, error) {
	proof, err := s.ByKey(strings.ToLower(in.EphemeralKey))
	return proof, checkProofFound(proof, err, in.EphemeralKey)
}

func fetchLatestBootProof(in *latestBootProofRequest, s *sources) (proof []byte, err error) {
	if in.AppName == appName {
		proof, err = s.Latest()
	}
	return proof, checkProofFound(proof, err, in.AppName)
}

const maxShown = 64 // bytes of a name in an error

func checkProofFound(proof []byte, err error, name string) error {
	if err == nil && proof == nil {
		q := strconv.QuoteToASCII(name[:min(len(name), maxShown)])
		err = fault.New(fault.NotFound, "boot proof not found: %s", q[1:len(q)-1])
	}
	return err
}

func answerBootProof(_ *View, proof []byte) ([]byte, error) {
	return append(append([]byte(`{"bootProof":`), proof...), '}'), nil
}
