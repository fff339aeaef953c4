package attestation

import (
	"bytes"
	"cmp"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// ShareSize is the size in bytes of one operator's share: as long as the secret.
const ShareSize = 32

// MaxShareSet is the longest share set in bytes.
const MaxShareSet = 128 << 10

// A ShareSet is the root secret of a deployment, split so that any Threshold of
// the operators recover it and fewer learn nothing of it, each share encrypted to
// its operator. The enclave that made the set attests it; see AttestedShares.
type ShareSet struct {
	Format          int       `json:"format"`          // 1
	Deployment      string    `json:"deployment"`      // SHA-256 of the genesis record, hex
	QuorumPublicKey string    `json:"quorumPublicKey"` // of the secret that the shares make, as manifests name it
	Generation      uint64    `json:"generation"`      // 1 at genesis; rises whenever the secret is split anew
	Random          string    `json:"random"`          // 32 bytes, hex: no two sets are alike
	Operators       Operators `json:"operators"`       // a threshold of at least 2, and keys for shares
	Shares          []Share   `json:"shares"`          // in the order of the operators
	// KeyService, where there is one, makes the shares useless alone: they recover the secret
	// encrypted with a pad, which is derived from a key that the service keeps.
	KeyService *KeyService `json:"keyService,omitempty"`
}

// KeyService is a second factor beside operators' shares: a data key of a cloud's key management service.
type KeyService struct {
	CiphertextBlob string `json:"ciphertextBlob"` // the data key under the service's own, hex
	Commitment     string `json:"commitment"`     // SHA-256 of the data key with the set's random, hex
}

// maxCiphertextBlob is the service's bound, in bytes.
const maxCiphertextBlob = 6 << 10

// A Share is the encrypted share of one operator.
type Share struct {
	// Commitment is SHA-256, in hex, of the share with its place: it shows which operator gave
	// a wrong share. A share is 32 random bytes, so the hash reveals nothing of it.
	Commitment string `json:"commitment"`
	// Box is the share, encrypted to the operator's share key by SealToPoint, hex.
	Box string `json:"box"`
}

const shareBoxSize = pointSize + ShareSize + 16

// ParseShareSet reads a share set of at most MaxShareSet bytes. It accepts exactly the bytes that Encode writes.
func ParseShareSet(raw []byte) (*ShareSet, error) {
	var s ShareSet
	if err := decodeStrict(raw, MaxShareSet, &s); err != nil {
		return nil, fmt.Errorf("share set: %w", err)
	}
	again, err := s.Encode()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(raw, again) {
		return nil, errors.New("share set: not in canonical form")
	}
	return &s, nil
}

// Encode returns the canonical bytes: JSON in the order of the struct, without
// blanks. It refuses a set that ParseShareSet would refuse.
func (s *ShareSet) Encode() ([]byte, error) {
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("share set: %w", err)
	}
	raw, err := encodeJSON(s)
	if err != nil {
		return nil, fmt.Errorf("share set: %w", err)
	}
	return raw, nil
}

func (s *ShareSet) check() error {
	if s.Format != 1 || s.Generation == 0 || s.Generation > maxExactInt {
		return errors.New("format or generation is out of range")
	}
	if err := cmp.Or(
		checkHex("deployment", s.Deployment, 32),
		checkHex("random", s.Random, 32),
		checkPair("quorumPublicKey", s.QuorumPublicKey),
		s.Operators.CheckHolders(),
	); err != nil {
		return err
	}
	if k := s.KeyService; k != nil {
		n := len(k.CiphertextBlob) / 2
		if n == 0 || n > maxCiphertextBlob {
			return errors.New("ciphertextBlob is empty or too long")
		}
		if err := cmp.Or(checkHex("ciphertextBlob", k.CiphertextBlob, n), checkHex("commitment", k.Commitment, 32)); err != nil {
			return err
		}
	}
	if len(s.Shares) != len(s.Operators.PublicKeys) {
		return errors.New("not as many shares as operators")
	}
	for _, share := range s.Shares {
		if err := cmp.Or(checkHex("commitment", share.Commitment, 32), checkHex("box", share.Box, shareBoxSize)); err != nil {
			return err
		}
	}
	return nil
}

// CheckHolders refuses operators who cannot hold shares: each needs a share key,
// and with a threshold below 2 one operator alone would have the secret.
func (o Operators) CheckHolders() error {
	if err := o.check(); err != nil {
		return err
	}
	if len(o.ShareKeys) == 0 || o.Threshold < 2 {
		return errors.New("operators: shares want a key for each and a threshold of at least 2")
	}
	return nil
}

// Equal reports whether keys, share keys, their order and Threshold are the same. RecoverThreshold is not compared.
func (o Operators) Equal(other Operators) bool { return o.Digest() == other.Digest() }

// Digest is the SHA-256 of the line "cloister operators 1" and the operators' JSON as in manifests, without
// recoverThreshold, on which shares do not depend.
func (o Operators) Digest() [32]byte {
	o.RecoverThreshold = 0
	if o.PublicKeys == nil {
		o.PublicKeys = []string{}
	}
	raw, err := encodeJSON(o)
	if err != nil {
		return [32]byte{} // lists of texts: nothing can fail
	}
	return sha256.Sum256(append([]byte("cloister operators 1\n"), raw...))
}

// ShareSetDigest identifies a share set: SHA-256 of the line "cloister share set 1" and
// the set's bytes. It is the user_data of the document that attests the set.
func ShareSetDigest(raw []byte) [32]byte {
	return sha256.Sum256(append([]byte("cloister share set 1\n"), raw...))
}

// info is the HPKE info of the box of an operator, counted from 1.
func (s *ShareSet) info(operator int) []byte {
	return []byte("cloister operator share 1\n" + s.Deployment + "\n" + s.QuorumPublicKey + "\n" + s.Random + "\n" + strconv.Itoa(operator) + "\n")
}

func (s *ShareSet) commitment(operator int, share []byte) string {
	h := sha256.New()
	h.Write([]byte("cloister share commitment 1\n" + s.Deployment + "\n" + s.Random + "\n" + strconv.Itoa(operator) + "\n"))
	h.Write(share)
	return hex.EncodeToString(h.Sum(nil))
}

// Add encrypts the next operator's share, 32 bytes, commits to it and appends it to Shares.
func (s *ShareSet) Add(share []byte) error {
	n := len(s.Shares) + 1
	if len(share) != ShareSize || n > len(s.Operators.ShareKeys) {
		return errors.New("share set: no such share")
	}
	point, err := decompress("key", s.Operators.ShareKeys[n-1])
	if err != nil {
		return err
	}
	box, err := SealToPoint(point, s.info(n), share)
	if err != nil {
		return err
	}
	s.Shares = append(s.Shares, Share{Commitment: s.commitment(n, share), Box: hex.EncodeToString(box)})
	return nil
}

// Holds reports whether share is the one that the set commits to for an operator, counted from 1.
func (s *ShareSet) Holds(operator int, share []byte) bool {
	return operator >= 1 && operator <= len(s.Shares) && len(share) == ShareSize &&
		subtle.ConstantTimeCompare([]byte(s.commitment(operator, share)), []byte(s.Shares[operator-1].Commitment)) == 1
}

// Open decrypts an operator's share, counted from 1, and checks it against its commitment. The caller wipes it.
func (s *ShareSet) Open(operator int, key *ecdh.PrivateKey) ([]byte, error) {
	if operator < 1 || operator > len(s.Shares) {
		return nil, errors.New("share set: no such operator")
	}
	box, err := hex.DecodeString(s.Shares[operator-1].Box)
	if err != nil {
		return nil, err
	}
	share, err := OpenBox(key, s.info(operator), box)
	if err != nil {
		return nil, fmt.Errorf("share set: %w", err)
	}
	if !s.Holds(operator, share) {
		clear(share)
		return nil, errors.New("share set: the share is not the one that the set commits to")
	}
	return share, nil
}

// Operator returns the place, counted from 1, of the operator with this signing key; 0 if there is none.
func (s *ShareSet) Operator(publicKey string) int {
	return slices.Index(s.Operators.PublicKeys, publicKey) + 1
}

// AttestedShares is a share set with the attestation document of the enclave that made
// it, as the store has it. Both are standard base64.
type AttestedShares struct {
	Set      string `json:"set"`
	Document string `json:"document"`
}

// MaxAttestedShares is the longest JSON of AttestedShares in bytes.
const MaxAttestedShares = 256 << 10

// ParseAttestedShares reads the JSON of AttestedShares and returns the set's bytes, the set and the document. It checks only the form; see VerifyShares.
func ParseAttestedShares(raw []byte) (set []byte, s *ShareSet, document []byte, err error) {
	var a AttestedShares
	if err := decodeStrict(raw, MaxAttestedShares, &a); err != nil {
		return nil, nil, nil, fmt.Errorf("share set: %w", err)
	}
	if set, err = parseBase64("set", a.Set, MaxShareSet); err != nil {
		return nil, nil, nil, err
	}
	if document, err = parseBase64("document", a.Document, MaxDocument); err != nil {
		return nil, nil, nil, err
	}
	s, err = ParseShareSet(set)
	return set, s, document, err
}

// EncodeAttestedShares returns the JSON that ParseAttestedShares reads.
func EncodeAttestedShares(set, document []byte) []byte {
	raw, err := encodeJSON(AttestedShares{base64.StdEncoding.EncodeToString(set), base64.StdEncoding.EncodeToString(document)})
	if err != nil {
		return nil // two texts: nothing can fail
	}
	return raw
}

// VerifyShares verifies that a share set, the JSON of AttestedShares, was made in an enclave whose
// image the policy pins by PCR 0, 1 and 2. It refuses debug images whatever the policy says.
func VerifyShares(raw []byte, p Policy) (*ShareSet, error) {
	set, s, document, err := ParseAttestedShares(raw)
	if err != nil {
		return nil, err
	}
	if !p.pinsImage() {
		return nil, errors.New("share set: no measurements to compare with: pin PCR 0, 1 and 2")
	}
	p.AllowDebug = false
	doc, err := VerifyDocument(document, p)
	if err != nil {
		return nil, fmt.Errorf("share set: %w", err)
	}
	digest := ShareSetDigest(set)
	if !bytes.Equal(doc.UserData, digest[:]) {
		return nil, errors.New("share set: the document attests another")
	}
	return s, nil
}

// A ShareSubmission is one operator's share for an enclave that waits for its root secret:
// encrypted to the setup key, bound to manifest, share set and nonce, signed by the operator.
type ShareSubmission struct {
	Operator       int    `json:"operator"`       // place in the share set, from 1
	ManifestSHA256 string `json:"manifestSha256"` // hex
	ShareSetDigest string `json:"shareSetDigest"` // hex; see ShareSetDigest
	Nonce          string `json:"nonce"`          // of the setup document, hex
	Box            string `json:"box"`            // the share, sealed with Info, hex
	Signature      string `json:"signature"`      // by the operator's signing key over Text: r ‖ s, low s, hex
}

// MaxSubmission is the longest JSON of a ShareSubmission in bytes.
const MaxSubmission = 4 << 10

// ParseShareSubmission reads a submission's JSON, strictly. It verifies nothing.
func ParseShareSubmission(raw []byte) (*ShareSubmission, error) {
	return parseJSON[ShareSubmission]("share", raw, MaxSubmission)
}

// Info is the HPKE info of the box.
func (s *ShareSubmission) Info() []byte {
	return []byte("cloister setup share 1\n" + s.ManifestSHA256 + "\n" + s.ShareSetDigest + "\n" + s.Nonce + "\n" + strconv.Itoa(s.Operator) + "\n")
}

// Text is the text that the operator signs.
func (s *ShareSubmission) Text() []byte {
	return append([]byte("cloister share submission 1\n"), append(s.Info(), s.Box+"\n"...)...)
}

// Check verifies form and signature under the operator's signing key, compressed P-256 in hex.
func (s *ShareSubmission) Check(publicKey string) error {
	return cmp.Or(
		checkHex("manifestSha256", s.ManifestSHA256, 32),
		checkHex("shareSetDigest", s.ShareSetDigest, 32),
		checkHex("nonce", s.Nonce, SetupNonceSize),
		checkHex("box", s.Box, shareBoxSize),
		verifyText(publicKey, s.Text(), s.Signature),
	)
}

// Submit encrypts an operator's share to a verified enclave and signs the submission. It is bound
// to the set's bytes, which must be those that the operator has verified.
func (s *Setup) Submit(set []byte, operator int, share []byte, signing *ecdsa.PrivateKey) (*ShareSubmission, error) {
	digest := ShareSetDigest(set)
	out := &ShareSubmission{Operator: operator, ManifestSHA256: hex.EncodeToString(s.ManifestHash[:]), ShareSetDigest: hex.EncodeToString(digest[:]),
		Nonce: hex.EncodeToString(s.Nonce[:])}
	box, err := SealTo(s.PublicKeyHex, out.Info(), share)
	if err != nil {
		return nil, err
	}
	out.Box = hex.EncodeToString(box)
	_, out.Signature, err = signText(signing, out.Text())
	return out, err
}
