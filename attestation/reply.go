package attestation

import (
	"encoding/json"
	"errors"
	"fmt"
)

// A Reply holds the proofs found in a reply of the interface. Nothing in it is verified.
type Reply struct {
	AppProofs  []AppProof
	BootProofs []BootProof
	// OrganizationID, ActivityID and Fingerprint are those of the reply's
	// activity, empty where there is none. They are the host's word.
	OrganizationID, ActivityID, Fingerprint string
}

// ParseReply finds proofs in JSON as the interface answers it: an app proof or a boot proof
// alone, {"appProofs": […]}, {"bootProof": {…}} or {"activity": {…}} with appProofs in it.
// Other members are ignored, but those within a proof are held against the format.
func ParseReply(raw []byte) (*Reply, error) {
	r, err := parseReply(raw)
	if err != nil {
		return nil, fmt.Errorf("reply: %w", err)
	}
	return r, nil
}

func parseReply(raw []byte) (*Reply, error) {
	if err := scanJSON(raw, MaxReply, maxReplyDepth, nil); err != nil {
		return nil, err
	}
	top, err := members(raw)
	if err != nil {
		return nil, err
	}
	r := &Reply{}
	if top["proofPayload"] != nil {
		return r, r.addAppProof(raw)
	}
	if top["awsAttestationDocB64"] != nil {
		return r, r.addBootProof(raw)
	}
	if v := top["bootProof"]; v != nil {
		if err := r.addBootProof(v); err != nil {
			return nil, err
		}
	}
	if err := r.addAppProofs(top["appProofs"]); err != nil {
		return nil, err
	}
	if v := top["activity"]; v != nil {
		if err := r.addActivity(v); err != nil {
			return nil, err
		}
	}
	if len(r.AppProofs) == 0 && len(r.BootProofs) == 0 {
		return nil, errors.New("holds no proof")
	}
	return r, nil
}

func (r *Reply) addActivity(raw json.RawMessage) error {
	a, err := members(raw)
	if err != nil {
		return err
	}
	for name, to := range map[string]*string{"organizationId": &r.OrganizationID, "id": &r.ActivityID, "fingerprint": &r.Fingerprint} {
		if v := a[name]; v != nil && json.Unmarshal(v, to) != nil {
			return errors.New("activity does not have the expected form")
		}
	}
	return r.addAppProofs(a["appProofs"])
}

func (r *Reply) addAppProofs(raw json.RawMessage) error {
	if raw == nil {
		return nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return errors.New("appProofs is not a list")
	}
	for _, v := range list {
		if err := r.addAppProof(v); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reply) addAppProof(raw []byte) error {
	var a AppProof
	if err := decodeStrict(raw, 2*MaxPayload, &a); err != nil {
		return fmt.Errorf("app proof: %w", err)
	}
	r.AppProofs = append(r.AppProofs, a)
	return nil
}

func (r *Reply) addBootProof(raw []byte) error {
	var b BootProof
	if err := decodeStrict(raw, 2*MaxEnvelope, &b); err != nil {
		return fmt.Errorf("boot proof: %w", err)
	}
	r.BootProofs = append(r.BootProofs, b)
	return nil
}

// Expects is what a proof that came with this reply must say to be about the activity beside it. An address
// may belong to an organization that the activity made, and a proof of another maker's may name no activity.
func (r *Reply) Expects(p *Proof) Expectation {
	var e Expectation
	if _, activity, _ := p.Claim.Names(); activity == "" {
		return e
	}
	e.ActivityID, e.Fingerprint = r.ActivityID, r.Fingerprint
	if p.Claim.Type() != TypeAddressDerivation {
		e.OrganizationID = r.OrganizationID
	}
	return e
}

// members splits an object by exact name. A null member counts as absent.
func members(raw []byte) (map[string]json.RawMessage, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil || m == nil {
		return nil, errors.New("not a JSON object")
	}
	for name, v := range m {
		if string(v) == "null" {
			delete(m, name)
		}
	}
	return m, nil
}
