package tvc

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"reflect"
	"strings"

	"cloister/attestation/programs"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/wallet"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
	"cloister/shared/tvc"
)

var reEncryptShareKind = activity.Kind[ReEncryptShare, PostedShareID]{
	Name: "RE_ENCRYPT_TVC_QUORUM_KEY_SHARE", Resource: "TVC_QUORUM_KEY", Action: keys.ActionEncrypt, Run: reEncryptShare, Verify: verifyReEncryptedShare,
	Explain: func(tx *org.Tx, in *ReEncryptShare, o *show.Object) error { return in.explain(tx, o) },
	Keys: func(tx *org.Tx, in *ReEncryptShare) ([]policy.Key, error) {
		p, err := in.find(tx)
		if err != nil || p.operator == nil {
			if fault.Of(err) != nil {
				err = nil // Run refuses it
			}
			return nil, err
		}
		return accountsOf(tx, p.operator)
	},
}

// ReEncryptShare encrypts the share of an operator whose keys are here to an enclave that waits for it, and posts it, as
// other operators do with PostShare.
type ReEncryptShare struct {
	AttestationDocB64  string `json:"attestationDocB64" rule:"required"`
	ManifestB64        string `json:"manifestB64" rule:"required"`
	OperatorEncryptKey string `json:"operatorEncryptKey" rule:"required"`
	OperatorSignKey    string `json:"operatorSignKey" rule:"required"`
	DeploymentID       string `json:"deploymentId" rule:"required,uuid"`
	AppQuorumKey       string `json:"appQuorumKey" rule:"required"`

	document, manifest []byte
	pair, quorum       string // in their stored encoding
}

// maxDocument bounds an attestation document; those of the security module are a third as long.
const maxDocument = 16 << 10

// Check refuses an intent that is invalid whatever the organization's records are.
func (in *ReEncryptShare) Check() (err error) {
	if in.document, err = decodeBase64("attestationDocB64", in.AttestationDocB64, maxDocument); err != nil {
		return err
	}
	if in.manifest, err = decodeBase64("manifestB64", in.ManifestB64, tvc.MaxEnvelope); err != nil {
		return err
	}
	for _, key := range []struct{ field, text string }{{"operatorEncryptKey", in.OperatorEncryptKey}, {"operatorSignKey", in.OperatorSignKey}} {
		if len(key.text) != 2*tvc.PointSize {
			return fault.Field(key.field, "must be the hex of an uncompressed point of P-256, 65 bytes")
		}
	}
	in.pair, in.quorum = strings.ToLower(in.OperatorEncryptKey+in.OperatorSignKey), strings.ToLower(in.AppQuorumKey)
	if _, err := tvc.ParsePair(in.pair); err != nil {
		return fault.Field("operatorEncryptKey", "operatorEncryptKey and operatorSignKey must be points of P-256")
	}
	if _, err := tvc.ParsePair(in.quorum); err != nil {
		return fault.Field("appQuorumKey", "must be the hex of two points of P-256, 130 bytes")
	}
	return nil
}

func decodeBase64(field, text string, most int) ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(b) > most {
		return nil, fault.Field(field, "must be base64 of at most %d bytes", most)
	}
	return b, nil
}

// waiting is a deployment whose enclave waits for shares. operator is nil if none of the share set has the request's keys in
// a wallet here.
type waiting struct {
	deployment *org.TVCDeployment
	app        *org.TVCApp
	manifest   *org.TVCManifest
	operator   *org.TVCOperator
}

func (in *ReEncryptShare) find(tx *org.Tx) (p waiting, err error) {
	if p.deployment, err = activity.Find(tx.TVCDeployment, "deployment", in.DeploymentID); err != nil {
		return p, err
	}
	if p.app, err = activity.Find(tx.TVCApp, "app", p.deployment.App.String()); err != nil {
		return p, err
	}
	if p.manifest, err = activity.Find(tx.TVCManifest, "manifest", p.deployment.Manifest.String()); err != nil {
		return p, err
	}
	set, err := activity.Find(tx.TVCOperatorSet, "operator set", p.app.ShareSet.String())
	if err != nil {
		return p, err
	}
	members, err := membersOf(tx, set)
	for _, o := range members {
		if o.PublicKey == in.pair && !o.Wallet.Zero() {
			p.operator = o
		}
	}
	return p, err
}

// accountsOf returns the accounts of an operator's two keys: encryption, signing.
func accountsOf(tx *org.Tx, o *org.TVCOperator) ([]policy.Key, error) {
	var of []policy.Key
	for _, p := range (&CreateOperator{Path: o.Path}).accounts() {
		no, err := tx.AccountAt(o.Wallet, p.Path, string(p.Curve), string(p.AddressFormat))
		if err != nil || no == 0 {
			return nil, err
		}
		of = append(of, policy.Key{Owner: o.Wallet, No: no})
	}
	return of, nil
}

func reEncryptShare(tx *activity.Tx, in *ReEncryptShare) (*PostedShareID, error) {
	if _, _, err := findApproved(tx, in.DeploymentID); err != nil {
		return nil, err
	}
	p, err := in.find(tx.Tx)
	switch {
	case err != nil:
		return nil, err
	case in.quorum != p.app.QuorumPublicKey:
		return nil, fault.Field("appQuorumKey", "not the quorum key of the deployment's app")
	case p.operator == nil:
		return nil, fault.Field("operatorEncryptKey", "no operator of the app's share set has these keys in a wallet here: post_tvc_quorum_key_share takes the shares of others")
	}
	share, err := shareFor(tx.Tx, in.quorum, in.pair)
	if err != nil {
		return nil, err
	}
	setup, err := in.verifySetup(tx.Tx, &p)
	if err != nil {
		return nil, err
	}
	of, err := accountsOf(tx.Tx, p.operator)
	if err != nil || len(of) != 2 {
		return nil, errors.Join(err, errors.New("an operator whose keys are no accounts of his wallet"))
	}
	re := &keys.ShareReEncryption{Signing: of[1], Share: share.Sealed, Setup: setup.Key.Encryption, Manifest: tvc.Hash(p.manifest.Bytes)}
	for i, a := range (&CreateOperator{Path: p.operator.Path}).accounts() {
		if re.Paths[i], err = keys.ParsePath(a.Path); err != nil {
			return nil, err
		}
	}
	var box, approval []byte
	err = wallet.UseWallet(tx, keys.ActionEncrypt, of[0], func(w *keys.Wallet) (err error) {
		box, approval, err = tx.Holder().ReEncryptShare(tx.Rand, w, re)
		return err
	})
	if err != nil {
		return nil, err
	}
	return storeShare(tx, p.deployment, p.operator, setup.KeyHex, hex.EncodeToString(box), approval)
}

// shareFor returns the share of a quorum key that is encrypted to an operator.
func shareFor(tx *org.Tx, quorum, pair string) (found *org.TVCShare, err error) {
	err = tx.EachTVCQuorumKey(func(k *org.TVCQuorumKey) bool {
		for i := range k.Shares {
			if k.PublicKey == quorum && k.Shares[i].EncryptKey == pair[:2*tvc.PointSize] {
				found = &k.Shares[i]
			}
		}
		return found == nil
	})
	if err == nil && found == nil {
		err = fault.New(fault.FailedPrecondition, "no share of this quorum key is kept here for the operator: create_tvc_quorum_key makes a key in shares for the operators it names")
	}
	return found, err
}

// verifySetup verifies that the document is of an enclave that waits for shares under the deployment's own manifest. Platform,
// root and image are those in the manifest, which the operators have approved.
func (in *ReEncryptShare) verifySetup(tx *org.Tx, p *waiting) (*programs.Setup, error) {
	if !in.names(p.manifest) {
		return nil, fault.Field("manifestB64", "not the deployment's manifest")
	}
	if p.deployment.Debug {
		if err := checkDebugKey(tx, p.app); err != nil {
			return nil, err
		}
	}
	e, err := Envelope(tx, p.manifest)
	if err != nil {
		return nil, err
	}
	envelope, err := e.Encode()
	if err != nil {
		return nil, err
	}
	trusted := programs.Policy{ManifestSHA256: tvc.Hash(p.manifest.Bytes), AllowDebug: p.deployment.Debug}
	if root, err := hex.DecodeString(e.Manifest.Enclave.AWSRootCertificate); err != nil {
		return nil, err
	} else if tvc.Hash(root) != tvc.AWSRootSHA256 {
		trusted.SimulatorRootPEM = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root}))
	}
	setup, err := programs.VerifySetup(tvc.Attested{Document: in.document, Envelope: envelope}, trusted)
	if err != nil {
		return nil, fault.Field("attestationDocB64", "not of an enclave that waits for shares under this manifest: %s", err.Error())
	}
	return setup, nil
}

// names reports whether the request has this manifest, alone or in an envelope.
func (in *ReEncryptShare) names(m *org.TVCManifest) bool {
	if bytes.Equal(in.manifest, m.Bytes) {
		return true
	}
	e, err := tvc.ParseEnvelope(in.manifest)
	if err != nil {
		return false
	}
	raw, err := e.Manifest.Encode()
	return err == nil && bytes.Equal(raw, m.Bytes)
}

// checkDebugKey refuses a debug deployment, whose enclave keeps no secret, the key of an app that has none in debug mode.
func checkDebugKey(tx *org.Tx, app *org.TVCApp) error {
	shared := false
	err := tx.EachTVCApp(func(a *org.TVCApp) bool {
		shared = a.QuorumPublicKey == app.QuorumPublicKey && !a.Debug
		return !shared
	})
	if err == nil && shared {
		err = fault.New(fault.FailedPrecondition, "another app without debug mode has the same quorum key, which an enclave in debug mode would give away")
	}
	return err
}

// verifyReEncryptedShare compares the recorded share with the request: it is for the document's enclave, with the operator's approval.
func verifyReEncryptedShare(tx *org.Tx, in *ReEncryptShare, r *PostedShareID, sends []org.Send) error {
	p, err := in.find(tx)
	if err != nil || p.operator == nil {
		return errors.Join(err, errors.New("a share of no operator"))
	}
	setup, err := in.verifySetup(tx, &p)
	if err != nil {
		return err
	}
	s, err := tx.TVCPostedShare(p.deployment.ID, p.operator.ID)
	if err != nil {
		return err
	}
	if s == nil || s.ID.String() != r.ProvisioningShareID || s.SetupKey != setup.KeyHex || len(s.Box) != tvc.ShareBoxSize {
		return errors.New("another share than the result's")
	}
	if err := tvc.CheckApproval(p.operator.PublicKey, tvc.Hash(p.manifest.Bytes), s.Signature); err != nil {
		return err
	}
	want, err := shareSend(p.deployment, p.operator, s)
	if err != nil {
		return err
	}
	if len(sends) != 1 || sends[0].Kind != org.SendProgram {
		return errors.New("a share that is not sent")
	}
	got, err := org.DecodeProgram(sends[0].Content)
	if err == nil && !reflect.DeepEqual(got, want) {
		err = errors.New("another share is sent than the recorded one")
	}
	return err
}
