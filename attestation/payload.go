package attestation

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Types of app proofs, one for each implementation of Claim.
const (
	TypeAddressDerivation = "APP_PROOF_TYPE_ADDRESS_DERIVATION"
	TypePolicyOutcome     = "APP_PROOF_TYPE_POLICY_OUTCOME"
	TypeSignature         = "APP_PROOF_TYPE_SIGNATURE"
	TypeDecoded           = "APP_PROOF_TYPE_DECODED"
	TypePublicKeys        = "APP_PROOF_TYPE_PUBLIC_KEYS"
	TypeLog               = "APP_PROOF_TYPE_LOG"
	TypeHistory           = "APP_PROOF_TYPE_HISTORY"
)

var outcomes = map[string]bool{
	"OUTCOME_ALLOW": true, "OUTCOME_DENY_EXPLICIT": true, "OUTCOME_DENY_IMPLICIT": true,
	"OUTCOME_REQUIRES_CONSENSUS": true, "OUTCOME_REJECTED": true, "OUTCOME_ERROR": true,
	"OUTCOME_REQUIRES_AUTHENTICATORS": true, "OUTCOME_TIME_INACTIVE": true,
}

// A Claim is what an app proof states: *AddressDerivation, *PolicyOutcome, *SignatureMade, *DecodedActivity,
// *PublicKeys, *LogKey or *HistoryPage.
type Claim interface {
	// Type is the proof's type, one of the Type constants.
	Type() string
	// Names returns organization, activity and fingerprint; the last two are empty where the
	// claim leaves them out, all three where it is about the deployment.
	Names() (organizationID, activityID, fingerprint string)
	// Fresh is the claim's freshness; nil if it states none.
	Fresh() *ClaimFreshness

	check() error
	write(*writer)
}

// ClaimFreshness is what is promised about rollback of the state that a claim was made from.
type ClaimFreshness struct {
	Mode       string `json:"mode"`       // as in the manifest
	BootNumber string `json:"bootNumber"` // decimal; it rises with every boot of a range
	SeedSource string `json:"seedSource"` // as in the manifest
}

// AddressDerivation is the claim that the organization's key has this address. WalletID
// and DerivationPath are empty for a private key that belongs to no wallet.
type AddressDerivation struct {
	OrganizationID string          `json:"organizationId"`
	WalletID       string          `json:"walletId,omitempty"`
	DerivationPath string          `json:"derivationPath,omitempty"`
	Address        string          `json:"address"`
	ActivityID     string          `json:"activityId,omitempty"`
	Fingerprint    string          `json:"fingerprint,omitempty"`
	Freshness      *ClaimFreshness `json:"freshness,omitempty"`
}

// PolicyOutcome is the claim how the organization's policies judged a request. The digests are 32 bytes in hex;
// enclave/README.md defines what they cover. UserRequestApprovals may be empty but not nil.
type PolicyOutcome struct {
	OrganizationID               string          `json:"organizationId"`
	Outcome                      string          `json:"outcome"`
	DecisionContextDigest        string          `json:"decisionContextDigest"`
	OrganizationDataDigest       string          `json:"organizationDataDigest"`
	ParentOrganizationDataDigest string          `json:"parentOrganizationDataDigest,omitempty"`
	UserRequestApprovals         []Approval      `json:"userRequestApprovals"`
	ActivityID                   string          `json:"activityId,omitempty"`
	Fingerprint                  string          `json:"fingerprint,omitempty"`
	Freshness                    *ClaimFreshness `json:"freshness,omitempty"`
}

// An Approval is one vote: the request body that a user signed, and its stamp.
type Approval struct {
	Scheme    string `json:"scheme"`
	PublicKey string `json:"publicKey"`
	Message   string `json:"message"`
	Signature string `json:"signature"`
}

// SignatureMade is the claim that the enclave signed these digests with this key, for this
// activity. PublicKey is hex, compressed for ECDSA. There are 1 to MaxDigests digests, each 32 bytes
// in hex: the digest that ECDSA signed, or SHA-256 of the message that Ed25519 signed.
type SignatureMade struct {
	OrganizationID string          `json:"organizationId"`
	ActivityID     string          `json:"activityId"`
	Fingerprint    string          `json:"fingerprint"`
	PublicKey      string          `json:"publicKey"`
	Digests        []string        `json:"digests"`
	Freshness      *ClaimFreshness `json:"freshness,omitempty"`
}

// DecodedActivity is the claim that approvers of the activity are shown the document with this digest, by whoever's vote
// decided it: see DecodedDigest. The document holds the digests that are signed.
type DecodedActivity struct {
	OrganizationID string          `json:"organizationId"`
	ActivityID     string          `json:"activityId"`
	Fingerprint    string          `json:"fingerprint"`
	DecodedDigest  string          `json:"decodedDigest"`
	Freshness      *ClaimFreshness `json:"freshness,omitempty"`
}

// DecodedDigest is the digest of what approvers are shown, in hex: of the bytes of the member decoded of get_activity, as
// JSON.stringify writes them.
func DecodedDigest(document []byte) string {
	h := sha256.New()
	h.Write([]byte("cloister decoded 1\n"))
	h.Write(document)
	return hex.EncodeToString(h.Sum(nil))
}

// payload is the JSON text that is signed. Exactly one claim is present.
type payload struct {
	Type          string             `json:"type"`
	TimestampMs   string             `json:"timestampMs"`
	Address       *AddressDerivation `json:"addressDerivationProof,omitempty"`
	Policy        *PolicyOutcome     `json:"policyOutcomeProof,omitempty"`
	SignatureMade *SignatureMade     `json:"signatureProof,omitempty"`
	Decoded       *DecodedActivity   `json:"decodedProof,omitempty"`
	PublicKeys    *PublicKeys        `json:"publicKeysProof,omitempty"`
	LogKey        *LogKey            `json:"logKeyProof,omitempty"`
	History       *HistoryPage       `json:"historyProof,omitempty"`
}

// EncodePayload returns the JSON text to be signed, the same for the same arguments. It refuses a
// claim that ParsePayload would refuse. The time is truncated to milliseconds.
func EncodePayload(at time.Time, c Claim) ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("app proof payload: %w", err)
	}
	if ms := at.UnixMilli(); ms <= 0 || ms > maxExactInt {
		return nil, errors.New("app proof payload: time is out of range")
	}
	w := append(make(writer, 0, 80), '{') // the claim's write grows it
	w.text("type", c.Type())
	w.name("timestampMs")
	w = append(strconv.AppendInt(append(w, '"'), at.UnixMilli(), 10), '"')
	c.write(&w)
	if w = append(w, '}'); len(w) > MaxPayload {
		return nil, errors.New("app proof payload: too long")
	}
	return w, nil
}

// ParsePayload reads a payload of at most MaxPayload bytes strictly: unknown types and
// members are refused. It verifies no signature.
func ParsePayload(text string) (time.Time, Claim, error) {
	at, c, err := parsePayload(text)
	if err != nil {
		return time.Time{}, nil, fmt.Errorf("app proof payload: %w", err)
	}
	return at, c, nil
}

func parsePayload(text string) (time.Time, Claim, error) {
	var p payload
	if err := decodeStrict([]byte(text), MaxPayload, &p); err != nil {
		return time.Time{}, nil, err
	}
	c, err := p.claim()
	if err != nil {
		return time.Time{}, nil, err
	}
	ms, err := parseDecimal("timestampMs", p.TimestampMs, maxExactInt)
	if err != nil {
		return time.Time{}, nil, err
	}
	if err := c.check(); err != nil {
		return time.Time{}, nil, err
	}
	return time.UnixMilli(int64(ms)).UTC(), c, nil
}

// claim returns the one claim present, which must be of the payload's type.
func (p payload) claim() (Claim, error) {
	var found []Claim
	if p.Address != nil {
		found = append(found, p.Address)
	}
	if p.Policy != nil {
		found = append(found, p.Policy)
	}
	if p.SignatureMade != nil {
		found = append(found, p.SignatureMade)
	}
	if p.Decoded != nil {
		found = append(found, p.Decoded)
	}
	if p.PublicKeys != nil {
		found = append(found, p.PublicKeys)
	}
	if p.LogKey != nil {
		found = append(found, p.LogKey)
	}
	if p.History != nil {
		found = append(found, p.History)
	}
	if len(found) != 1 || found[0].Type() != p.Type {
		return nil, errors.New("unknown type, or its claim is not the only one")
	}
	return found[0], nil
}

// Fingerprint is the fingerprint of a request: sha256: and the SHA-256 of its exact body in hex.
func Fingerprint(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Type is TypeAddressDerivation.
func (*AddressDerivation) Type() string { return TypeAddressDerivation }

// Type is TypePolicyOutcome.
func (*PolicyOutcome) Type() string { return TypePolicyOutcome }

// Type is TypeSignature.
func (*SignatureMade) Type() string { return TypeSignature }

// Type is TypeDecoded.
func (*DecodedActivity) Type() string { return TypeDecoded }

// Names returns organization, activity and fingerprint.
func (c *AddressDerivation) Names() (string, string, string) {
	return c.OrganizationID, c.ActivityID, c.Fingerprint
}

// Names returns organization, activity and fingerprint.
func (c *PolicyOutcome) Names() (string, string, string) {
	return c.OrganizationID, c.ActivityID, c.Fingerprint
}

// Names returns organization, activity and fingerprint.
func (c *SignatureMade) Names() (string, string, string) {
	return c.OrganizationID, c.ActivityID, c.Fingerprint
}

// Names returns organization, activity and fingerprint.
func (c *DecodedActivity) Names() (string, string, string) {
	return c.OrganizationID, c.ActivityID, c.Fingerprint
}

// Fresh is the claim's freshness; nil if it states none.
func (c *AddressDerivation) Fresh() *ClaimFreshness { return c.Freshness }

// Fresh is the claim's freshness; nil if it states none.
func (c *PolicyOutcome) Fresh() *ClaimFreshness { return c.Freshness }

// Fresh is the claim's freshness; nil if it states none.
func (c *SignatureMade) Fresh() *ClaimFreshness { return c.Freshness }

// Fresh is the claim's freshness; nil if it states none.
func (c *DecodedActivity) Fresh() *ClaimFreshness { return c.Freshness }

func (c *AddressDerivation) write(w *writer) { w.value("addressDerivationProof", c) }

func (c *PolicyOutcome) write(w *writer) {
	size := 640
	for _, a := range c.UserRequestApprovals {
		size += 288 + len(a.Message) + len(a.Message)/4
	}
	*w = slices.Grow(*w, size)
	w.open("policyOutcomeProof")
	w.text("organizationId", c.OrganizationID)
	w.text("outcome", c.Outcome)
	w.text("decisionContextDigest", c.DecisionContextDigest)
	w.text("organizationDataDigest", c.OrganizationDataDigest)
	w.optional("parentOrganizationDataDigest", c.ParentOrganizationDataDigest)
	w.name("userRequestApprovals")
	*w = append(*w, '[')
	for i, a := range c.UserRequestApprovals {
		if i > 0 {
			*w = append(*w, ',')
		}
		*w = append(*w, '{')
		w.text("scheme", a.Scheme)
		w.text("publicKey", a.PublicKey)
		w.text("message", a.Message)
		w.text("signature", a.Signature)
		w.close()
	}
	*w = append(*w, ']')
	w.optional("activityId", c.ActivityID)
	w.optional("fingerprint", c.Fingerprint)
	w.freshness(c.Freshness)
	w.close()
}

func (c *SignatureMade) write(w *writer) {
	*w = slices.Grow(*w, 400+len(c.PublicKey)+72*len(c.Digests))
	w.open("signatureProof")
	w.text("organizationId", c.OrganizationID)
	w.text("activityId", c.ActivityID)
	w.text("fingerprint", c.Fingerprint)
	w.text("publicKey", c.PublicKey)
	w.name("digests")
	*w = append(*w, '[')
	for i, d := range c.Digests {
		if i > 0 {
			*w = append(*w, ',')
		}
		w.quote(d)
	}
	*w = append(*w, ']')
	w.freshness(c.Freshness)
	w.close()
}

func (c *DecodedActivity) write(w *writer) {
	w.open("decodedProof")
	w.text("organizationId", c.OrganizationID)
	w.text("activityId", c.ActivityID)
	w.text("fingerprint", c.Fingerprint)
	w.text("decodedDigest", c.DecodedDigest)
	w.freshness(c.Freshness)
	w.close()
}

func (c *AddressDerivation) check() error {
	if (c.WalletID == "") != (c.DerivationPath == "") {
		return errors.New("walletId and derivationPath come together")
	}
	return cmp.Or(checkText("walletId", c.WalletID, 0), checkText("derivationPath", c.DerivationPath, 0), checkText("address", c.Address, 1), checkNames(c, false))
}

func (c *PolicyOutcome) check() error {
	if !outcomes[c.Outcome] {
		return errors.New("unknown outcome")
	}
	if err := cmp.Or(
		checkHex("digest", c.DecisionContextDigest, 32),
		checkHex("digest", c.OrganizationDataDigest, 32),
		checkOptionalHash("digest", c.ParentOrganizationDataDigest),
	); err != nil {
		return err
	}
	if c.UserRequestApprovals == nil || len(c.UserRequestApprovals) > MaxApprovals {
		return errors.New("userRequestApprovals is missing or too long")
	}
	for _, a := range c.UserRequestApprovals {
		if a.Scheme == "" || a.PublicKey == "" || a.Message == "" || a.Signature == "" {
			return errors.New("an approval is incomplete")
		}
	}
	return checkNames(c, false)
}

func (c *SignatureMade) check() error {
	if n := len(c.PublicKey) / 2; n < 32 || n > pointSize {
		return errors.New("publicKey is not 32 to 65 bytes of hex")
	}
	if err := checkHex("publicKey", c.PublicKey, len(c.PublicKey)/2); err != nil {
		return err
	}
	if len(c.Digests) == 0 || len(c.Digests) > MaxDigests {
		return errors.New("digests is empty or too long")
	}
	for _, d := range c.Digests {
		if err := checkHex("digest", d, 32); err != nil {
			return err
		}
	}
	return checkNames(c, true)
}

func (c *DecodedActivity) check() error {
	return cmp.Or(checkHex("decodedDigest", c.DecodedDigest, 32), checkNames(c, true))
}

// checkNames requires an organization, and activity and fingerprint both or, unless must, neither.
func checkNames(c Claim, must bool) error {
	org, activity, fingerprint := c.Names()
	if err := checkText("organizationId", org, 1); err != nil {
		return err
	}
	if must || activity != "" || fingerprint != "" {
		if err := checkText("activityId", activity, 1); err != nil {
			return err
		}
		digits, ok := strings.CutPrefix(fingerprint, "sha256:")
		if err := checkHex("fingerprint", digits, 32); err != nil || !ok {
			return errors.New("fingerprint is not sha256: and 32 bytes of hex")
		}
	}
	return checkFresh(c.Fresh())
}

func checkFresh(f *ClaimFreshness) error {
	if f == nil {
		return nil
	}
	return cmp.Or(checkFreshMode(f.Mode), checkDecimal("bootNumber", f.BootNumber, maxExactInt), checkText("seedSource", f.SeedSource, 1))
}

func checkFreshMode(mode string) error {
	if mode != FreshSinceBoot && mode != FreshWitnessed {
		return errors.New("unknown freshness mode")
	}
	return nil
}
