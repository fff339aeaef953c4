package attestation

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
)

// A Reply is the proofs in a reply of the interface. Nothing in it is verified.
type Reply struct {
	AppProofs  []AppProof
	BootProofs []BootProof
	LogProof   *LogProof // nil: the reply has none
	// OrganizationID, ActivityID, Fingerprint, Type and Status are those of the reply's activity, and empty
	// without one. Of a refusal, OrganizationID and Type are empty. All are claims of the host.
	OrganizationID, ActivityID, Fingerprint, Type, Status string

	tells bool // the reply is about an activity or a refusal, not a proof alone
}

// ParseReply finds the proofs in a JSON reply of the interface, at most MaxReply bytes: an app proof or a boot proof
// alone, {"appProofs": […]}, {"bootProof": {…}}, {"logProof": …, "logKey": {…}} or {"activity": {…}} with
// appProofs in it, which may have logProof and logKey beside it, as may a refusal. It ignores
// other members, but not within a proof. A reply without any proof is an error.
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
	if err := r.addLogProof(top["logProof"], top["logKey"]); err != nil {
		return nil, err
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
	r.tells = top["activity"] != nil || top["code"] != nil
	if v := top["details"]; v != nil && top["activity"] == nil {
		if err := r.addRefused(v); err != nil {
			return nil, err
		}
	}
	if len(r.AppProofs) == 0 && len(r.BootProofs) == 0 && r.LogProof == nil {
		return nil, errors.New("holds no proof")
	}
	return r, nil
}

func (r *Reply) addActivity(raw json.RawMessage) error {
	a, err := members(raw)
	if err != nil {
		return err
	}
	for name, to := range map[string]*string{"organizationId": &r.OrganizationID, "id": &r.ActivityID, "fingerprint": &r.Fingerprint, "type": &r.Type, "status": &r.Status} {
		if v := a[name]; v != nil && json.Unmarshal(v, to) != nil {
			return errors.New("activity does not have the expected form")
		}
	}
	return r.addAppProofs(a["appProofs"])
}

const (
	refusedActivity = "type.googleapis.com/cloister.v1.RefusedActivity"
	statusFailed    = "ACTIVITY_STATUS_FAILED"
)

// addRefused finds the activity that a refusal is stored as, if it is.
func (r *Reply) addRefused(raw json.RawMessage) error {
	var details []struct {
		Type        string `json:"@type"`
		ActivityID  string `json:"activityId"`
		Fingerprint string `json:"fingerprint"`
	}
	if err := json.Unmarshal(raw, &details); err != nil {
		return errors.New("details do not have the expected form")
	}
	for _, d := range details {
		if d.Type != refusedActivity {
			continue
		}
		if r.ActivityID != "" {
			return errors.New("two refused activities")
		}
		r.ActivityID, r.Fingerprint, r.Status = d.ActivityID, d.Fingerprint, statusFailed
	}
	return nil
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

func (r *Reply) addLogProof(text, key json.RawMessage) error {
	if text == nil && key == nil {
		return nil
	}
	r.LogProof = new(LogProof)
	if err := json.Unmarshal(text, &r.LogProof.LogProof); err != nil {
		return errors.New("logProof is not a text")
	}
	if err := decodeStrict(key, 2*MaxPayload, &r.LogProof.LogKey); err != nil {
		return fmt.Errorf("logKey: %w", err)
	}
	return nil
}

// Expects is the Expectation of an app proof in this reply: it must be about the reply's activity. The organization
// is not compared for an address, which may belong to one that the activity created, and nothing is compared for a
// proof that names no activity, as one by other software may.
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

// CheckLogged refuses a verified entry that is not the one that this reply is about: one of another activity, of another
// step of it, or one that did not produce the app proofs in the reply. For a log proof alone there is nothing to compare.
func (r *Reply) CheckLogged(l *LoggedEntry) error {
	if l == nil || l.Logged == nil {
		return errors.New("no logged proof")
	}
	if !r.tells {
		return nil
	}
	if r.ActivityID == "" || r.Fingerprint == "" || r.Status == "" {
		return errors.New("the reply with the log proof does not name its activity")
	}
	f := l.Facts
	if err := cmp.Or(
		Expectation{OrganizationID: r.OrganizationID, ActivityID: r.ActivityID, Fingerprint: r.Fingerprint}.CheckLogged(l),
		checkSame("type", r.Type, f.Type),
		checkSame("status", r.Status, f.Status),
	); err != nil {
		return fmt.Errorf("the log proof does not fit what the reply tells: %w", err)
	}
	for i, a := range r.AppProofs {
		if !l.States(a) {
			return fmt.Errorf("app proof %d did not come of the entry that the log proof shows", i+1)
		}
	}
	return nil
}

// members splits an object by its exact names. A null member counts as absent.
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
