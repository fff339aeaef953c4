package tvc

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/shared/tvc"
)

// CreateApprovals are operators' signatures over a manifest, all or none.
type CreateApprovals struct {
	ManifestID string     `json:"manifestId" rule:"required,uuid"`
	Approvals  []Approval `json:"approvals" rule:"required"`
}

// Approval is one operator's signature.
type Approval struct {
	OperatorID string `json:"operatorId" rule:"required,uuid"`
	Signature  string `json:"signature" rule:"required"`
}

// Check refuses an intent that is invalid whatever the organization's records are.
func (in *CreateApprovals) Check() error {
	if n := len(in.Approvals); n == 0 || n > tvc.MaxMembers {
		return fault.Field("approvals", "must have 1 to %d elements", tvc.MaxMembers)
	}
	for i := range in.Approvals {
		if _, err := signature(activity.FieldAt("approvals", i, "signature"), in.Approvals[i].Signature); err != nil {
			return err
		}
	}
	return nil
}

func signature(field, text string) ([]byte, error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != tvc.SignatureSize {
		return nil, fault.Field(field, "must be the hex of r and s, 64 bytes")
	}
	return b, nil
}

// ApprovalIDs is the result: the ids of the approvals, in the order of the request.
type ApprovalIDs struct {
	ApprovalIDs []string `json:"approvalIds"`
}

func createApprovals(tx *activity.Tx, in *CreateApprovals) (*ApprovalIDs, error) {
	if err := activity.CheckTopLevel(tx, "manifests"); err != nil {
		return nil, err
	}
	old, err := activity.Find(tx.TVCManifest, "manifest", in.ManifestID)
	if err != nil {
		return nil, err
	}
	d, app, err := find(tx, old.Deployment.String())
	switch {
	case err != nil:
		return nil, err
	case d.Deleted:
		return nil, errDeleted
	}
	set, err := tx.TVCOperatorSet(app.ManifestSet)
	if set, err = activity.OrNotFound(set, err, "operator set", app.ManifestSet.String()); err != nil {
		return nil, err
	}
	m := *old
	m.Approvals = slices.Clone(old.Approvals)
	r := &ApprovalIDs{ApprovalIDs: []string{}}
	for i := range in.Approvals {
		a, err := approve(tx, &m, set, &in.Approvals[i], "approvals."+fmt.Sprint(i))
		if err != nil {
			return nil, err
		}
		m.Approvals = append(m.Approvals, *a)
		r.ApprovalIDs = append(r.ApprovalIDs, a.ID.String())
	}
	if err := tx.PutTVCManifest(&m); err != nil || d.Approved || len(m.Approvals) < int(set.Threshold) {
		return r, err
	}
	return r, release(tx, app, d)
}

// approve verifies an operator's approval of a manifest that he has not approved yet.
func approve(tx *activity.Tx, m *org.TVCManifest, set *org.TVCOperatorSet, in *Approval, at string) (*org.TVCApproval, error) {
	o, err := memberOf(tx, set, at+".operatorId", in.OperatorID)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(m.Approvals, func(a org.TVCApproval) bool { return a.Operator == o.ID }) {
		return nil, fault.Field(at+".operatorId", "this operator has approved the manifest already")
	}
	a := &org.TVCApproval{Operator: o.ID, CreatedMs: tx.NowMs}
	if a.Signature, err = signature(at+".signature", in.Signature); err != nil {
		return nil, err
	}
	if tvc.CheckApproval(o.PublicKey, tvc.Hash(m.Bytes), a.Signature) != nil {
		return nil, fault.Field(at+".signature", "does not verify: it must be over the SHA-256 of the manifest's hash, by the operator's signing key")
	}
	a.ID, err = org.NewID(tx.Rand)
	return a, err
}

// memberOf finds an operator of a set.
func memberOf(tx *activity.Tx, set *org.TVCOperatorSet, field, text string) (*org.TVCOperator, error) {
	id, _ := org.ParseID(text) // its rule requires a UUID
	o, err := tx.TVCOperator(id)
	if err == nil && (o == nil || !slices.Contains(set.Operators, id)) {
		err = fault.Field(field, "no operator of the app's set")
	}
	return o, err
}

// release marks a deployment as approved by the threshold, and sends it to the host to run. The first one of an app
// becomes its live one.
func release(tx *activity.Tx, app *org.TVCApp, d *org.TVCDeployment) error {
	changed := *d
	changed.Approved, changed.UpdatedMs = true, tx.NowMs
	if err := tx.PutTVCDeployment(&changed); err != nil {
		return err
	}
	if app.Live.Zero() {
		first := *app
		first.Live, first.UpdatedMs = d.ID, tx.NowMs
		if err := tx.PutTVCApp(&first); err != nil {
			return err
		}
	}
	return sendToHost(tx, &changed, false)
}

// sendLasts is the lifetime of a send about a deployment: unlimited.
const sendLasts = 1 << 62

// sendToHost sends a deployment to the host, unless it was never approved. With once the send ends when the host has followed the instruction.
func sendToHost(tx *activity.Tx, d *org.TVCDeployment, once bool) error {
	if !d.Approved {
		return nil
	}
	return tx.Send(org.SendProgram, &org.Program{App: d.App, Deployment: d.ID, Once: once}, sendLasts)
}

// Run returns the host's present instruction for a send, with the encrypted secret of the image's registry.
func Run(tx *org.Tx, p *org.Program) (r *tvc.Run, pullSecret string, err error) {
	r = &tvc.Run{AppID: p.App.String(), DeploymentID: p.Deployment.String(), Stop: true}
	d, err := tx.TVCDeployment(p.Deployment)
	if err != nil || d == nil || d.Deleted || !d.Approved {
		return r, "", err
	}
	app, err := tx.TVCApp(d.App)
	if err != nil || app == nil {
		return r, "", err
	}
	m, err := tx.TVCManifest(d.Manifest)
	if m, err = activity.OrNotFound(m, err, "manifest", d.Manifest.String()); err != nil {
		return nil, "", err
	}
	e, err := Envelope(tx, m)
	if err != nil {
		return nil, "", err
	}
	return &tvc.Run{AppID: r.AppID, DeploymentID: r.DeploymentID, Live: app.Live == d.ID, Envelope: e, Image: d.Image, Path: d.Path, Replicas: d.Replicas,
		HealthCheckType: strings.TrimPrefix(d.HealthCheck, "TVC_HEALTH_CHECK_TYPE_"), HealthCheckPort: d.HealthPort, PublicIngressPort: d.IngressPort}, d.PullSecret, nil
}

// Envelope returns a manifest with its counted approvals.
func Envelope(tx *org.Tx, m *org.TVCManifest) (*tvc.Envelope, error) {
	parsed, err := tvc.ParseManifest(m.Bytes)
	if err != nil {
		return nil, err
	}
	e := &tvc.Envelope{Manifest: *parsed}
	for _, a := range m.Approvals {
		o, err := tx.TVCOperator(a.Operator)
		if o, err = activity.OrNotFound(o, err, "operator", a.Operator.String()); err != nil {
			return nil, err
		}
		e.ManifestSetApprovals = append(e.ManifestSetApprovals, tvc.NewApproval(tvc.Member{Alias: o.Name, PubKey: o.PublicKey}, a.Signature))
	}
	return e, nil
}

// PostShare is an operator's share, encrypted to one boot of a deployment's enclave.
type PostShare struct {
	DeploymentID          string      `json:"deploymentId" rule:"required,uuid"`
	EphemeralPublicKeyHex string      `json:"ephemeralPublicKeyHex" rule:"required"`
	ShareApprovalBundle   ShareBundle `json:"shareApprovalBundle" rule:"required"`
}

// ShareBundle is the encrypted share, and the operator's approval of the manifest.
type ShareBundle struct {
	OperatorID          string `json:"operatorId" rule:"required,uuid"`
	ReEncryptedShareHex string `json:"reEncryptedShareHex" rule:"required"`
	Signature           string `json:"signature" rule:"required"`
}

// Check refuses an intent that is invalid whatever the organization's records are.
func (in *PostShare) Check() error {
	if _, err := tvc.ParsePair(strings.ToLower(in.EphemeralPublicKeyHex)); err != nil {
		return fault.Field("ephemeralPublicKeyHex", "must be the hex of two points of P-256, 130 bytes, as the enclave's document has them")
	}
	if box, err := hex.DecodeString(in.ShareApprovalBundle.ReEncryptedShareHex); err != nil || len(box) != tvc.ShareBoxSize {
		return fault.Field("shareApprovalBundle.reEncryptedShareHex", "must be the hex of a share's box, %d bytes", tvc.ShareBoxSize)
	}
	_, err := signature("shareApprovalBundle.signature", in.ShareApprovalBundle.Signature)
	return err
}

// PostedShareID is the result of posting a share.
type PostedShareID struct {
	ProvisioningShareID string `json:"provisioningShareId"`
}

func postShare(tx *activity.Tx, in *PostShare) (*PostedShareID, error) {
	d, app, err := findApproved(tx, in.DeploymentID)
	if err != nil {
		return nil, err
	}
	set, err := tx.TVCOperatorSet(app.ShareSet)
	if set, err = activity.OrNotFound(set, err, "operator set", app.ShareSet.String()); err != nil {
		return nil, err
	}
	o, err := memberOf(tx, set, "shareApprovalBundle.operatorId", in.ShareApprovalBundle.OperatorID)
	if err != nil {
		return nil, err
	}
	m, err := tx.TVCManifest(d.Manifest)
	if m, err = activity.OrNotFound(m, err, "manifest", d.Manifest.String()); err != nil {
		return nil, err
	}
	sig, err := signature("shareApprovalBundle.signature", in.ShareApprovalBundle.Signature)
	if err == nil && tvc.CheckApproval(o.PublicKey, tvc.Hash(m.Bytes), sig) != nil {
		err = fault.Field("shareApprovalBundle.signature", "does not verify: it must be over the SHA-256 of the manifest's hash, by the operator's signing key")
	}
	if err != nil {
		return nil, err
	}
	return storeShare(tx, d, o, strings.ToLower(in.EphemeralPublicKeyHex), strings.ToLower(in.ShareApprovalBundle.ReEncryptedShareHex), sig)
}

// storeShare stores a share and sends it to the host, for the enclave to whose setup key it is encrypted.
func storeShare(tx *activity.Tx, d *org.TVCDeployment, o *org.TVCOperator, setupKey, box string, sig []byte) (*PostedShareID, error) {
	sealed, err := hex.DecodeString(box)
	if err != nil {
		return nil, err
	}
	s := &org.TVCPostedShare{Deployment: d.ID, Operator: o.ID, SetupKey: setupKey, Box: sealed, Signature: sig, CreatedMs: tx.NowMs}
	if s.ID, err = org.NewID(tx.Rand); err != nil {
		return nil, err
	}
	if err := tx.PutTVCPostedShare(s); err != nil {
		return nil, err
	}
	send, err := shareSend(d, o, s)
	if err != nil {
		return nil, err
	}
	return &PostedShareID{s.ID.String()}, tx.Send(org.SendProgram, send, tx.NowMs+shareLastsMs)
}

// shareSend is what is sent to the host of a stored share.
func shareSend(d *org.TVCDeployment, o *org.TVCOperator, s *org.TVCPostedShare) (*org.Program, error) {
	posted, err := (&tvc.PostedShare{Approval: tvc.NewApproval(tvc.Member{Alias: o.Name, PubKey: o.PublicKey}, s.Signature), Box: hex.EncodeToString(s.Box)}).Encode()
	return &org.Program{App: d.App, Deployment: d.ID, SetupKey: s.SetupKey, Share: posted}, err
}

// shareLastsMs is how long the host may open the send of a share. Its enclave waits no longer for it.
const shareLastsMs = 24 * 60 * 60 * 1000
