package tvc_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"cloister/attestation/commitment"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/activity/tvc"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/program"
	"cloister/enclave/internal/secret/secrettest"
	"cloister/enclave/internal/shamir"
	manifest "cloister/shared/tvc"
	"cloister/sim/nsm"
)

// An enclave of a customer's program, as its security module shows it.
type enclave struct {
	w    *activitytest.World
	root *nsm.Root
	pcrs [3][48]byte
}

func newEnclave(w *activitytest.World) *enclave {
	root, err := nsm.NewRoot(w.Rand, time.UnixMilli(int64(w.Now)))
	w.Must(err)
	e := &enclave{w: w, root: root, pcrs: [3][48]byte{{1}, {2}, {3}}}
	block, _ := pem.Decode([]byte(root.PEM()))
	of := func(i int) string { return hex.EncodeToString(e.pcrs[i][:]) }
	w.Capabilities.Programs = &program.Platform{Bases: []program.Base{{Name: "cloister-1", Enclave: manifest.Enclave{AWSRootCertificate: hex.EncodeToString(block.Bytes),
		PCR0: of(0), PCR1: of(1), PCR2: of(2), PCR3: strings.Repeat("00", 48), QOSCommit: "c"}}}}
	return e
}

// waits returns the document of an enclave with this manifest that waits for shares to a setup key.
func (e *enclave) waits(m *org.TVCManifest, key *manifest.Keys, pcrs [3][48]byte, nonce []byte) string {
	device, err := nsm.New(nsm.Config{Root: e.root, Now: func() time.Time { return time.UnixMilli(int64(e.w.Now)) }, Rand: e.w.Rand, PCRs: pcrs})
	e.w.Must(err)
	hash := manifest.Hash(m.Bytes)
	setup := commitment.Setup(key.Hex(), hash)
	_, err = device.ExtendPCR(commitment.SetupPCR, setup[:])
	e.w.Must(err)
	e.w.Must(device.LockPCRs(32))
	document, err := device.Attest(key.Public[:], hash[:], nonce)
	e.w.Must(err)
	return base64.StdEncoding.EncodeToString(document)
}

// hosted makes an operator whose keys are in a wallet.
func hosted(w *activitytest.World, name string) object {
	return w.Run("CREATE_TVC_OPERATOR", object{"walletName": name, "path": "m/5527107'/0'/0'", "operatorName": name})
}

// hostedApp is an app whose shares are held by two operators with keys in wallets, and by one with keys of his own.
func hostedApp(w *activitytest.World, name string, key object, holders ...object) object {
	var ids []any
	for _, h := range holders {
		ids = append(ids, h["operatorId"])
	}
	set := with(params("Holders", 2, 6), "existingOperatorIds", ids)
	return with(with(app(name), "quorumPublicKey", key["quorumPublicKey"]), "shareSetParams", set)
}

func TestReEncryptShare(t *testing.T) {
	const kind = "RE_ENCRYPT_TVC_QUORUM_KEY_SHARE"
	w := newWorld(t)
	e := newEnclave(w)
	one, two := hosted(w, "One"), hosted(w, "Two")
	key := w.Run("CREATE_TVC_QUORUM_KEY", object{"threshold": 2, "operatorEncryptKeys": []any{one["encryptPublicKey"], two["encryptPublicKey"], operator(6).Hex()[:130]}})
	a := w.Run("CREATE_TVC_APP", hostedApp(w, "App", key, one, two))
	idle := w.Run("CREATE_TVC_DEPLOYMENT", deployment(a["appId"]))
	d := approved(w, a)
	m := manifestOf(w, d)
	setup := operator(77)
	request := func(of object) object {
		return object{"attestationDocB64": e.waits(m, setup, e.pcrs, nil), "manifestB64": base64.StdEncoding.EncodeToString(m.Bytes), "operatorEncryptKey": of["encryptPublicKey"],
			"operatorSignKey": of["signPublicKey"], "deploymentId": d["deploymentId"], "appQuorumKey": key["quorumPublicKey"]}
	}
	whole := request(one)

	other := manifestOf(w, idle)
	elsewhere := newEnclave(w) // under another root
	for says, o := range map[string]object{
		"base64 of at most":              with(whole, "attestationDocB64", "%"),
		"base64 of at most 16384":        with(whole, "attestationDocB64", strings.Repeat("AAAA", 6000)),
		"base64 of at most 262144":       with(whole, "manifestB64", "-"),
		"an uncompressed point":          with(whole, "operatorEncryptKey", "04"),
		"an uncompressed point of":       with(whole, "operatorSignKey", strings.Repeat("00", 66)),
		"points of P-256":                with(whole, "operatorSignKey", "04"+strings.Repeat("01", 64)),
		"130 bytes":                      with(whole, "appQuorumKey", operator(5).Hex()[:130]),
		"not the quorum key":             with(whole, "appQuorumKey", operator(5).Hex()),
		"no operator of the app's share": with(whole, "operatorSignKey", two["signPublicKey"]),                                                         // keys of two operators
		"keys in a wallet here":          with(with(whole, "operatorEncryptKey", operator(6).Hex()[:130]), "operatorSignKey", operator(6).Hex()[130:]), // a member with keys of his own
		"not the deployment's manifest":  with(whole, "manifestB64", base64.StdEncoding.EncodeToString(other.Bytes)),                                   // of the app's other deployment
		"waits for shares under this":    with(whole, "attestationDocB64", e.waits(other, setup, e.pcrs, nil)),                                         // it runs another manifest
		"waits for shares under":         with(whole, "attestationDocB64", e.waits(m, setup, [3][48]byte{{1}, {9}, {3}}, nil)),                         // another image
		"waits for shares":               with(whole, "attestationDocB64", e.waits(m, setup, [3][48]byte{}, nil)),                                      // debug mode
		"not of an enclave that":         with(whole, "attestationDocB64", e.waits(m, setup, e.pcrs, []byte("n"))),                                     // a live document
		"not of an enclave":              with(whole, "attestationDocB64", elsewhere.waits(m, setup, e.pcrs, nil)),                                     // another root
		"attestation document":           with(whole, "attestationDocB64", strings.Replace(whole["attestationDocB64"].(string), "A", "B", 1)),          // altered
		"deploymentId":                   with(whole, "deploymentId", "x"),
	} {
		w.Refuse(kind, o, fault.InvalidArgument, says)
	}
	w.Refuse(kind, with(whole, "deploymentId", activitytest.SomeID), fault.NotFound, "deployment not found")
	w.Refuse(kind, with(with(whole, "deploymentId", idle["deploymentId"]), "manifestB64", base64.StdEncoding.EncodeToString(other.Bytes)), fault.FailedPrecondition, "not approved")

	// A share for each, by the manifest alone and in its envelope, and the key is whole again.
	signed, err := tvc.Envelope(w.Tx(), m)
	w.Must(err)
	envelope, err := signed.Encode()
	w.Must(err)
	var shares [][]byte
	for _, o := range []object{whole, with(request(two), "manifestB64", base64.StdEncoding.EncodeToString(envelope))} {
		r := w.Run(kind, o)
		_, p := told(w)
		posted, err := manifest.ParsePostedShare(p.Share)
		w.Must(err)
		box, err := hex.DecodeString(posted.Box)
		w.Must(err)
		share, err := manifest.Open(setup.Encryption, box)
		w.Must(err)
		shares = append(shares, share)
		pair := o["operatorEncryptKey"].(string) + o["operatorSignKey"].(string)
		signature, err := hex.DecodeString(posted.Approval.Signature)
		w.Must(err)
		if posted.Approval.Member.PubKey != pair || manifest.CheckApproval(pair, manifest.Hash(m.Bytes), signature) != nil || p.SetupKey != setup.Hex() || r["provisioningShareId"] == "" {
			t.Errorf("%+v %v", posted, r)
		}
		verifies(w, kind, o, r)
	}
	if got := combined(t, shares); got != key["quorumPublicKey"] {
		t.Errorf("the shares make %s", got)
	}

	w.Run("DELETE_TVC_DEPLOYMENT", object{"deploymentId": d["deploymentId"]})
	w.Refuse(kind, whole, fault.FailedPrecondition, "restore it first")
}

// A key whose shares were made elsewhere, and a debug deployment that shares the key of an app without debug mode.
func TestReEncryptShareElsewhere(t *testing.T) {
	const kind = "RE_ENCRYPT_TVC_QUORUM_KEY_SHARE"
	w := newWorld(t)
	e := newEnclave(w)
	one, two := hosted(w, "One"), hosted(w, "Two")
	key := w.Run("CREATE_TVC_QUORUM_KEY", object{"threshold": 2, "operatorEncryptKeys": []any{one["encryptPublicKey"], two["encryptPublicKey"]}})
	request := func(key, a, d object, pcrs [3][48]byte) object {
		m := manifestOf(w, d)
		return object{"attestationDocB64": e.waits(m, operator(77), pcrs, nil), "manifestB64": base64.StdEncoding.EncodeToString(m.Bytes), "operatorEncryptKey": one["encryptPublicKey"],
			"operatorSignKey": one["signPublicKey"], "deploymentId": d["deploymentId"], "appQuorumKey": key["quorumPublicKey"]}
	}
	foreign := object{"quorumPublicKey": operator(99).Hex()}
	a := w.Run("CREATE_TVC_APP", hostedApp(w, "Foreign", foreign, one, two))
	w.Refuse(kind, request(foreign, a, approved(w, a), e.pcrs), fault.FailedPrecondition, "no share of this quorum key")

	debug := w.Run("CREATE_TVC_APP", with(hostedApp(w, "Debug", key, one, two), "enableDebugModeDeployments", true))
	d := w.Run("CREATE_TVC_DEPLOYMENT", with(deployment(debug["appId"]), "debugMode", true))
	ids, m := debug["manifestSetOperatorIds"].([]any), manifestOf(w, d)
	w.Run("CREATE_TVC_MANIFEST_APPROVALS", object{"manifestId": d["manifestId"], "approvals": []any{approval(ids[0], 1, m), approval(ids[1], 2, m)}})
	w.Run(kind, request(key, debug, d, [3][48]byte{}))
	w.Run("CREATE_TVC_APP", hostedApp(w, "Other", key, one, two))
	w.Refuse(kind, request(key, debug, d, [3][48]byte{}), fault.FailedPrecondition, "which an enclave in debug mode would give away")
}

// verifies checks the recorded result as a replay does, and that an altered record or send is found.
func verifies(w *activitytest.World, kind string, params, result object) {
	w.TB.Helper()
	v := kinds.Live["ACTIVITY_TYPE_"+kind]
	in, err := v.Decode(activitytest.JSON(params))
	w.Must(err)
	recorded := activitytest.JSON(object{v.ResultKey: result})
	w.Must(v.Verify(w.Tx(), in, recorded, w.Last.Sends))
	if v.Verify(w.Tx(), in, activitytest.JSON(object{v.ResultKey: object{"provisioningShareId": activitytest.SomeID}}), w.Last.Sends) == nil || v.Verify(w.Tx(), in, recorded, nil) == nil {
		w.TB.Error("another id, or a share that was not sent, verifies")
	}
	p, err := org.DecodeProgram(w.Last.Sends[0].Content)
	w.Must(err)
	for _, change := range []func(*org.TVCPostedShare){
		func(s *org.TVCPostedShare) { s.SetupKey = operator(78).Hex() },
		func(s *org.TVCPostedShare) { s.Signature[40] ^= 1 },
		func(s *org.TVCPostedShare) { s.Box[40] ^= 1 }, // the send has another
		func(s *org.TVCPostedShare) { s.Box = s.Box[1:] },
	} {
		tx := w.Tx()
		o, err := tx.TVCOperator(operatorOf(w, params))
		w.Must(err)
		s, err := tx.TVCPostedShare(p.Deployment, o.ID)
		w.Must(err)
		x := *s
		x.Box, x.Signature = bytes.Clone(s.Box), bytes.Clone(s.Signature)
		change(&x)
		w.Must(tx.PutTVCPostedShare(&x))
		if v.Verify(tx, in, recorded, w.Last.Sends) == nil {
			w.TB.Errorf("an altered share verifies: %+v", x)
		}
	}
}

// operatorOf is the id of the operator with a request's keys.
func operatorOf(w *activitytest.World, params object) (id org.ID) {
	w.Must(w.Tx().EachTVCOperator(func(o *org.TVCOperator) bool {
		if o.PublicKey == params["operatorEncryptKey"].(string)+params["operatorSignKey"].(string) {
			id = o.ID
		}
		return true
	}))
	return id
}

// combined is the public key of the seed that two shares make.
func combined(t *testing.T, shares [][]byte) string {
	var parts []shamir.Part
	for _, s := range shares {
		parts = append(parts, shamir.Part{X: s[0], Y: secrettest.Of(s[1:])})
	}
	seed, err := shamir.Combine(parts)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := manifest.NewKeys(secrettest.Bytes(seed))
	if err != nil {
		t.Fatal(err)
	}
	return pair.Hex()
}
