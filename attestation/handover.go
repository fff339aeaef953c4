package attestation

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
)

// MaxHandOverBox is the longest HandOver.Box in bytes, before base64.
const MaxHandOverBox = 8 << 10

// A HandOver is a deployment's keyring, encrypted by a live enclave to the setup key
// of its successor. Only the successor opens the box, and it accepts one only from an
// enclave that runs under the manifest before its own.
type HandOver struct {
	BootProof  BootProof `json:"bootProof"`  // of the enclave that hands over
	Nonce      string    `json:"nonce"`      // of the successor's setup document, 32 bytes hex
	Deployment string    `json:"deployment"` // SHA-256 of the genesis record, hex
	Box        string    `json:"box"`        // the keyring, by SealTo to the setup key under HandOverInfo, standard base64
	Signature  string    `json:"signature"`  // by the giver's live key over Text, r ‖ s, 64 bytes hex
}

// HandOverInfo is the HPKE info of the box: it opens only for the receiving
// enclave's manifest and the nonce of its setup document.
func HandOverInfo(deployment, manifestHash, nonce [32]byte) []byte {
	return fmt.Appendf(nil, "cloister hand-over box 1\n%x\n%x\n%x\n", deployment, manifestHash, nonce)
}

// Text is the text that the giver's live key signs, in lines: deployment, setup key and
// manifest of the receiver, the nonce and the SHA-256 of the box. A malformed member is an error.
func (h *HandOver) Text(setupKeyHex string, manifestHash [32]byte) ([]byte, error) {
	box, err := parseBase64("box", h.Box, MaxHandOverBox)
	if err := cmp.Or(err, checkPair("setup key", setupKeyHex), checkHex("nonce", h.Nonce, SetupNonceSize), checkHex("deployment", h.Deployment, 32)); err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "cloister hand-over 1\n%s\n%s\n%x\n%s\n%x\n", h.Deployment, setupKeyHex, manifestHash, h.Nonce, sha256.Sum256(box)), nil
}

// Verify verifies that the enclave of giver, a verified boot proof, signed the hand-over for this setup key and
// manifest. It returns the deployment and the box, which OpenBox opens under HandOverInfo.
func (h *HandOver) Verify(giver *Boot, setupKeyHex string, manifestHash [32]byte) (deployment [32]byte, box []byte, err error) {
	refuse := func(err error) ([32]byte, []byte, error) { return [32]byte{}, nil, fmt.Errorf("hand-over: %w", err) }
	if giver == nil || giver.signing == nil || giver.Manifest == nil {
		return refuse(errors.New("the giver was not verified"))
	}
	text, err := h.Text(setupKeyHex, manifestHash)
	if err != nil {
		return refuse(err)
	}
	sig, err := parseHex("signature", h.Signature, signatureSize)
	if err != nil {
		return refuse(err)
	}
	if !hasSigned(giver.signing, text, sig) {
		return refuse(errors.New("not signed by the live key of the giver"))
	}
	raw, err := hex.DecodeString(h.Deployment)
	if err != nil {
		return refuse(err)
	}
	box, err = base64.StdEncoding.DecodeString(h.Box)
	if err != nil {
		return refuse(err)
	}
	return [32]byte(raw), box, nil
}

// ParseHandOver reads the JSON of a hand-over strictly, at most 4 × MaxEnvelope bytes. It verifies nothing.
func ParseHandOver(raw []byte) (*HandOver, error) {
	return parseJSON[HandOver]("hand-over", raw, 4*MaxEnvelope)
}
