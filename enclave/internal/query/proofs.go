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
	fetchQuery("get_log_proof", fetchLogProof, answerLogProof),
}

// appName is the enclave's application name in boot proofs.
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

type logProofRequest struct {
	Head
	ActivityID string `json:"activityId,omitempty"`
	// Seq is the sequence number of an entry: of the activity, as its next one contains it, or, without an activity,
	// of any. Without Seq it is the activity's newest entry.
	Seq string `json:"seq,omitempty"`
}

func fetchLogProof(in *logProofRequest, s *sources) (*LogProof, error) {
	var seq *uint64
	if in.Seq != "" {
		n, err := strconv.ParseUint(in.Seq, 10, 63)
		if err != nil || strconv.FormatUint(n, 10) != in.Seq {
			return nil, fault.Field("seq", "must be the number of an entry")
		}
		seq = &n
	}
	if in.ActivityID == "" && seq == nil {
		return nil, fault.Field("activityId", "activityId or seq must be given")
	}
	if in.ActivityID != "" {
		return findNamed("activity", "activityId", in.ActivityID, func(id org.ID) (*LogProof, error) { return s.LogProof(id, seq) })
	}
	p, err := s.LogProof(org.ID{}, seq)
	if err == nil && p == nil {
		err = fault.New(fault.NotFound, "entry not found: %d", *seq)
	}
	return p, err
}

func answerLogProof(_ *View, p *LogProof) ([]byte, error) {
	return AppendLogProof(nil, p), nil
}

// AppendLogProof completes an object with a logged proof: dst is the object without its last brace, or empty.
func AppendLogProof(dst []byte, p *LogProof) []byte {
	open := `,"logProof":`
	if len(dst) == 0 {
		open = `{"logProof":`
	}
	dst = activity.AppendText(dst, open, p.Text)
	return append(activity.AppendProof(append(dst, `,"logKey":`...), &p.Key), '}')
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
