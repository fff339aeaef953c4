package witness

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"

	"cloister/attestation/tlog"
)

// Bounds of a request.
const (
	maxProof   = 63                              // hashes
	maxRequest = 32 + maxProof*45 + tlog.MaxNote // bytes: the old size, the proof, the checkpoint
)

// A request asks for a cosignature.
type request struct {
	old        uint64
	proof      [][]byte // of 32 bytes each
	note       []byte   // the checkpoint as it came
	checkpoint tlog.Checkpoint
}

var errMalformed = errors.New("it is not an old size, a proof of at most 63 hashes, an empty line and a checkpoint")

// parseRequest reads a request of which nothing is verified. Checkpoints with extension lines are refused.
func parseRequest(body []byte) (r request, err error) {
	if len(body) > maxRequest {
		return r, errMalformed
	}
	head, signed, ok := bytes.Cut(body, []byte("\n\n"))
	if !ok {
		return r, errMalformed
	}
	lines := strings.Split(string(head), "\n")
	old, ok := strings.CutPrefix(lines[0], "old ")
	if !ok || len(lines)-1 > maxProof {
		return r, errMalformed
	}
	if r.old, err = strconv.ParseUint(old, 10, 63); err != nil || strconv.FormatUint(r.old, 10) != old {
		return r, errMalformed
	}
	for _, line := range lines[1:] {
		hash, err := base64.StdEncoding.Strict().DecodeString(line)
		if err != nil || len(hash) != 32 || len(line) != 44 { // decoding skips line ends
			return r, errMalformed
		}
		r.proof = append(r.proof, hash)
	}
	// A checkpoint has no empty line of its own.
	text, _, ok := bytes.Cut(signed, []byte("\n\n"))
	if !ok {
		return r, errMalformed
	}
	r.note = signed
	r.checkpoint, err = tlog.ParseCheckpoint(string(text) + "\n")
	return r, err
}
