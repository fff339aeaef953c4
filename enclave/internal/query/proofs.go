package query

import (
	"strconv"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
)

var proofs = []*Query{
	historyQuery("list_app_proofs", fetchAppProofs, answerAppProofs),
	historyQuery("get_boot_proof", fetchBootProof, answerBootProof),
	historyQuery("get_latest_boot_proof", fetchLatestBootProof, answerBootProof),
}

// appName is what the enclave calls itself in boot proofs.
const appName = "cloister"

// BootProofRequest names a boot by its key.
type BootProofRequest struct {
	Head
	EphemeralKey string `json:"ephemeralKey" rule:"required"`
}

// LatestBootProofRequest names an application.
type LatestBootProofRequest struct {
	Head
	AppName string `json:"appName" rule:"required"`
}

func fetchAppProofs(in *ActivityRequest, r *Request, h History, p BootProofs) error {
	return fetchActivity(in, r, h, p)
}

func answerAppProofs(_ *View, r *Request) ([]byte, error) {
	return append(activity.AppendProofs([]byte(`{"appProofs":`), r.entries[0].Proofs), '}'), nil
}

func fetchBootProof(in *BootProofRequest, r *Request, _ History, p BootProofs) (err error) {
	r.proof, err = p.ByKey(strings.ToLower(in.EphemeralKey))
	return checkProofFound(r, err, in.EphemeralKey)
}

func fetchLatestBootProof(in *LatestBootProofRequest, r *Request, _ History, p BootProofs) (err error) {
	if in.AppName == appName {
		r.proof, err = p.Latest()
	}
	return checkProofFound(r, err, in.AppName)
}

const maxShown = 64

func checkProofFound(r *Request, err error, name string) error {
	if err == nil && r.proof == nil {
		q := strconv.QuoteToASCII(name[:min(len(name), maxShown)])
		err = fault.New(fault.NotFound, "boot proof not found: %s", q[1:len(q)-1])
	}
	return err
}

func answerBootProof(_ *View, r *Request) ([]byte, error) {
	return append(append([]byte(`{"bootProof":`), r.proof...), '}'), nil
}
