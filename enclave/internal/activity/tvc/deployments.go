package tvc

import (
	"encoding/hex"
	"math"
	"path"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/program"
	"cloister/shared/tvc"
)

// Deployments are the kinds about deployments, except their approval.
var Deployments = activity.Family{
	activity.Kind[CreateDeployment, DeploymentResult]{Name: "CREATE_TVC_DEPLOYMENT", Resource: "TVC_DEPLOYMENT", Action: "CREATE", Run: createDeployment,
		Explain: func(tx *org.Tx, in *CreateDeployment, o *show.Object) error { return in.explain(tx, o) }},
	activity.Kind[DeploymentID, DeploymentID]{Name: "DELETE_TVC_DEPLOYMENT", Resource: "TVC_DEPLOYMENT", Action: "DELETE", Run: deleteDeployment,
		Explain: func(tx *org.Tx, in *DeploymentID, o *show.Object) error {
			return explainDeployment(tx, o, in.DeploymentID)
		}},
	activity.Kind[DeploymentID, DeploymentID]{Name: "RESTORE_TVC_DEPLOYMENT", Resource: "TVC_DEPLOYMENT", Action: "UPDATE", Run: restoreDeployment,
		Explain: func(tx *org.Tx, in *DeploymentID, o *show.Object) error {
			return explainDeployment(tx, o, in.DeploymentID)
		}},
	activity.Kind[AppID, AppID]{Name: "DELETE_TVC_APP_AND_DEPLOYMENTS", Resource: "TVC_APP", Action: "DELETE", Run: deleteApp,
		Explain: func(tx *org.Tx, in *AppID, o *show.Object) error {
			return explainDeletedApp(tx, o, in.AppID)
		}},
}

// Approvals are the kinds that approve and unlock deployments.
var Approvals = activity.Family{
	activity.Kind[CreateApprovals, ApprovalIDs]{Name: "CREATE_TVC_MANIFEST_APPROVALS", Resource: "TVC_DEPLOYMENT", Action: "UPDATE", Run: createApprovals,
		Explain: func(tx *org.Tx, in *CreateApprovals, o *show.Object) error { return in.explain(tx, o) }},
	activity.Kind[PostShare, PostedShareID]{Name: "POST_TVC_QUORUM_KEY_SHARE", Resource: "TVC_DEPLOYMENT", Action: "UPDATE", Run: postShare,
		Explain: func(tx *org.Tx, in *PostShare, o *show.Object) error { return in.explain(tx, o) }},
	reEncryptShareKind,
	activity.Kind[DeploymentID, activity.Nothing]{Name: "UPDATE_TVC_APP_LIVE_DEPLOYMENT", Resource: "TVC_APP", Action: "UPDATE", Run: setLive,
		Explain: func(tx *org.Tx, in *DeploymentID, o *show.Object) error {
			return explainLive(tx, o, in.DeploymentID)
		}},
}

// HealthCheck is the protocol by which the host checks a program's health.
type HealthCheck string

// The health checks.
const (
	healthHTTP HealthCheck = "TVC_HEALTH_CHECK_TYPE_HTTP"
	healthGRPC HealthCheck = "TVC_HEALTH_CHECK_TYPE_GRPC"
)

// Valid reports whether h is a health check of the interface.
func (h HealthCheck) Valid() bool { return h == healthHTTP || h == healthGRPC }

// CreateDeployment creates a deployment of an app, with its manifest. It runs once it is approved.
type CreateDeployment struct {
	AppID                             string      `json:"appId" rule:"required"`
	QOSVersion                        string      `json:"qosVersion" rule:"required"`
	PivotContainerImageURL            string      `json:"pivotContainerImageUrl" rule:"required"`
	PivotPath                         string      `json:"pivotPath" rule:"required"`
	PivotArgs                         []string    `json:"pivotArgs"`
	ExpectedPivotDigest               string      `json:"expectedPivotDigest" rule:"required"`
	Nonce                             *uint32     `json:"nonce"`
	PivotContainerEncryptedPullSecret *string     `json:"pivotContainerEncryptedPullSecret"`
	DebugMode                         *bool       `json:"debugMode"`
	HealthCheckType                   HealthCheck `json:"healthCheckType" rule:"required"`
	HealthCheckPort                   uint32      `json:"healthCheckPort" rule:"required"`
	PublicIngressPort                 uint32      `json:"publicIngressPort" rule:"required"`
	Replicas                          *uint32     `json:"replicas"`
	InstanceSizeCPUs                  *uint32     `json:"instanceSizeCpus"`
	InstanceSizeRAM                   *uint32     `json:"instanceSizeRam"` // GiB

	image    program.Reference
	expected program.Digest
}

// Check refuses an intent that is invalid whatever the organization's records are.
func (in *CreateDeployment) Check() (err error) {
	if in.image, err = program.ParseReference("pivotContainerImageUrl", in.PivotContainerImageURL, true); err != nil {
		return err
	}
	var ok bool
	if in.expected, ok = program.ParseDigest("sha256:" + strings.ToLower(in.ExpectedPivotDigest)); !ok {
		return fault.Field("expectedPivotDigest", "must be the SHA-256 of the program in hex")
	}
	if !strings.HasPrefix(in.PivotPath, "/") || path.Clean(in.PivotPath) != in.PivotPath || in.PivotPath == "/" {
		return fault.Field("pivotPath", "must be the whole path of a file in the image, without . and ..")
	}
	if err := checkPorts(in.HealthCheckPort, in.PublicIngressPort); err != nil {
		return err
	}
	if in.Replicas != nil && (*in.Replicas < 1 || *in.Replicas > tvc.MaxReplicas) {
		return fault.Field("replicas", "must be 1 to %d", tvc.MaxReplicas)
	}
	for _, size := range []*uint32{in.InstanceSizeCPUs, in.InstanceSizeRAM} {
		if size != nil && *size != 0 {
			return fault.New(fault.Unimplemented, "UNIMPLEMENTED: create_tvc_deployment with instanceSizeCpus or instanceSizeRam: the operator chooses the size of enclaves, by -program-size of cloister-host")
		}
	}
	return nil
}

func checkPorts(health, ingress uint32) error {
	switch {
	case health < 1 || health > 65535:
		return fault.Field("healthCheckPort", "must be 1 to 65535")
	case ingress < 1 || ingress > 65535:
		return fault.Field("publicIngressPort", "must be 1 to 65535")
	}
	return nil
}

// pivot returns the program as in the manifest.
func (in *CreateDeployment) pivot() tvc.Pivot {
	bridge := func(port uint32) tvc.Bridge {
		return tvc.Bridge{Type: tvc.BridgeServer, Host: "0.0.0.0", Port: uint16(port)}
	}
	p := tvc.Pivot{Hash: hex.EncodeToString(in.expected[:]), Restart: tvc.RestartAlways, DebugMode: activity.IsOn(in.DebugMode), Args: in.PivotArgs,
		BridgeConfig: []tvc.Bridge{bridge(in.PublicIngressPort)}}
	if in.HealthCheckPort != in.PublicIngressPort {
		p.BridgeConfig = append(p.BridgeConfig, bridge(in.HealthCheckPort))
	}
	return p
}

// DeploymentResult is the result of creating a deployment.
type DeploymentResult struct {
	DeploymentID string `json:"deploymentId"`
	ManifestID   string `json:"manifestId"`
}

func createDeployment(tx *activity.Tx, in *CreateDeployment) (*DeploymentResult, error) {
	if err := activity.CheckTopLevel(tx, "deployments"); err != nil {
		return nil, err
	}
	app, err := activity.FindField(tx.TVCApp, "app", "appId", in.AppID)
	if err != nil {
		return nil, err
	}
	m, err := in.manifest(tx, app)
	if err != nil {
		return nil, err
	}
	raw, err := m.Encode()
	if err != nil {
		return nil, fault.New(fault.InvalidArgument, "no manifest can be made of this: %s", err.Error())
	}
	if err := tx.Providers.Program(&activity.Image{Reference: in.image, Path: in.PivotPath, Expected: in.expected, PullSecret: activity.TextOf(in.PivotContainerEncryptedPullSecret)}); err != nil {
		return nil, err
	}
	d := &org.TVCDeployment{App: app.ID, Version: in.QOSVersion, Image: in.PivotContainerImageURL, Path: in.PivotPath,
		PullSecret: activity.TextOf(in.PivotContainerEncryptedPullSecret), HealthCheck: string(in.HealthCheckType), HealthPort: uint16(in.HealthCheckPort),
		IngressPort: uint16(in.PublicIngressPort), Replicas: in.replicas(), Debug: activity.IsOn(in.DebugMode), CreatedMs: tx.NowMs, UpdatedMs: tx.NowMs}
	for _, id := range []*org.ID{&d.ID, &d.Manifest} {
		if *id, err = org.NewID(tx.Rand); err != nil {
			return nil, err
		}
	}
	if err := tx.PutTVCManifest(&org.TVCManifest{ID: d.Manifest, Deployment: d.ID, Bytes: raw, CreatedMs: tx.NowMs}); err != nil {
		return nil, err
	}
	changed := *app
	changed.LastNonce = m.Namespace.Nonce
	if err := tx.PutTVCApp(&changed); err != nil {
		return nil, err
	}
	return &DeploymentResult{d.ID.String(), d.Manifest.String()}, tx.PutTVCDeployment(d)
}

func (in *CreateDeployment) replicas() uint32 {
	switch {
	case in.Replicas != nil:
		return *in.Replicas
	case activity.IsOn(in.DebugMode):
		return 1
	}
	return usualReplicas
}

const usualReplicas = 3

// manifest returns the manifest for the operators to approve.
func (in *CreateDeployment) manifest(tx *activity.Tx, app *org.TVCApp) (*tvc.Manifest, error) {
	if err := checkCount(tx.EachTVCDeployment, org.MaxTVCDeployments, "deployments"); err != nil {
		return nil, err
	}
	debug := activity.IsOn(in.DebugMode)
	if debug && !app.Debug {
		return nil, fault.Field("debugMode", "this app was made without deployments in debug mode, for good")
	}
	if !debug && app.QuorumPublicKey == wellKnownQuorumKey {
		return nil, fault.Field("debugMode", "everybody has the private half of this app's key: it runs in debug mode alone")
	}
	nonce, err := in.nonce(tx.NowMs, app)
	if err != nil {
		return nil, err
	}
	m := &tvc.Manifest{Version: tvc.Version, Pivot: in.pivot(),
		Namespace: tvc.Namespace{Name: namespace(app.ID), Nonce: nonce, QuorumKey: app.QuorumPublicKey}}
	for _, s := range []struct {
		id   org.ID
		into *tvc.Set
	}{{app.ManifestSet, &m.ManifestSet}, {app.ShareSet, &m.ShareSet}} {
		set, err := tx.TVCOperatorSet(s.id)
		if set, err = activity.OrNotFound(set, err, "operator set", s.id.String()); err != nil {
			return nil, err
		}
		members, err := membersOf(tx.Tx, set)
		if err != nil {
			return nil, err
		}
		*s.into = setOf(members, set.Threshold)
	}
	if m.Enclave, err = enclaveOf(tx, in.QOSVersion); debug {
		m.Enclave.PCR0, m.Enclave.PCR1, m.Enclave.PCR2, m.Enclave.PCR3 = unmeasured, unmeasured, unmeasured, unmeasured
	}
	return m, err
}

// unmeasured is every register of an enclave in debug mode.
var unmeasured = strings.Repeat("00", 48)

// enclaveOf returns the measurements of a release of the base image. The caller calls it last: a replay does not have them.
func enclaveOf(tx *activity.Tx, version string) (tvc.Enclave, error) {
	if tx.Capabilities.Programs == nil {
		return tvc.Enclave{}, activity.NoPrograms()
	}
	base := tx.Capabilities.Programs.Base(version)
	if base == nil {
		return tvc.Enclave{}, fault.Field("qosVersion", "there is no such version: get_tvc_qos_versions lists them")
	}
	return base.Enclave, nil
}

// namespace returns the name of an app in its manifests.
func namespace(app org.ID) string { return "prod/tvc/" + app.String() }

// nonce increases with every manifest of an app, so that operators see which of two is newer.
func (in *CreateDeployment) nonce(nowMs uint64, app *org.TVCApp) (uint32, error) {
	switch {
	case app.LastNonce == math.MaxUint32:
		return 0, fault.New(fault.ResourceExhausted, "the app's manifests have no higher nonce left: make another app")
	case in.Nonce == nil:
		return max(uint32(nowMs/1000), app.LastNonce+1), nil
	case *in.Nonce <= app.LastNonce:
		return 0, fault.Field("nonce", "must be more than that of the app's manifest before, %d", app.LastNonce)
	}
	return *in.Nonce, nil
}

// DeploymentID names a deployment, and is the result of some activities.
type DeploymentID struct {
	DeploymentID string `json:"deploymentId" rule:"required,uuid"`
}

// AppID names an app, and is the result of deleting it.
type AppID struct {
	AppID string `json:"appId" rule:"required,uuid"`
}

// find finds a deployment with its app.
func find(tx *activity.Tx, text string) (*org.TVCDeployment, *org.TVCApp, error) {
	if err := activity.CheckTopLevel(tx, "deployments"); err != nil {
		return nil, nil, err
	}
	d, err := activity.Find(tx.TVCDeployment, "deployment", text)
	if err != nil {
		return nil, nil, err
	}
	app, err := tx.TVCApp(d.App)
	app, err = activity.OrNotFound(app, err, "app", d.App.String())
	return d, app, err
}

var errDeleted = fault.New(fault.FailedPrecondition, "the deployment is deleted: restore it first")

// findApproved finds an approved deployment with its app.
func findApproved(tx *activity.Tx, text string) (*org.TVCDeployment, *org.TVCApp, error) {
	d, app, err := find(tx, text)
	switch {
	case err != nil:
		return nil, nil, err
	case d.Deleted:
		return nil, nil, errDeleted
	case !d.Approved:
		return nil, nil, fault.New(fault.FailedPrecondition, "the deployment is not approved yet")
	}
	return d, app, nil
}

func setLive(tx *activity.Tx, in *DeploymentID) (*activity.Nothing, error) {
	d, app, err := findApproved(tx, in.DeploymentID)
	if err != nil {
		return nil, err
	}
	if app.Live == d.ID {
		return &activity.Nothing{}, nil
	}
	changed := *app
	changed.Live, changed.UpdatedMs = d.ID, tx.NowMs
	if err := tx.PutTVCApp(&changed); err != nil {
		return nil, err
	}
	return &activity.Nothing{}, sendToHost(tx, d, true)
}

func deleteDeployment(tx *activity.Tx, in *DeploymentID) (*DeploymentID, error) {
	d, app, err := find(tx, in.DeploymentID)
	if err != nil || d.Deleted {
		return in, err
	}
	changed := *d
	changed.Deleted, changed.UpdatedMs = true, tx.NowMs
	if err := tx.PutTVCDeployment(&changed); err != nil {
		return nil, err
	}
	if app.Live == d.ID {
		without := *app
		without.Live, without.UpdatedMs = org.ID{}, tx.NowMs
		if err := tx.PutTVCApp(&without); err != nil {
			return nil, err
		}
	}
	return in, sendToHost(tx, &changed, true)
}

func restoreDeployment(tx *activity.Tx, in *DeploymentID) (*DeploymentID, error) {
	d, _, err := find(tx, in.DeploymentID)
	if err != nil || !d.Deleted {
		return in, err
	}
	changed := *d
	changed.Deleted, changed.UpdatedMs = false, tx.NowMs
	if err := tx.PutTVCDeployment(&changed); err != nil {
		return nil, err
	}
	return in, sendToHost(tx, &changed, false)
}

func deleteApp(tx *activity.Tx, in *AppID) (*AppID, error) {
	if err := activity.CheckTopLevel(tx, "apps"); err != nil {
		return nil, err
	}
	app, err := activity.Find(tx.TVCApp, "app", in.AppID)
	if err != nil {
		return nil, err
	}
	all, err := activity.Collect(tx.EachTVCDeployment, func(d *org.TVCDeployment) bool { return d.App == app.ID })
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		if !d.Deleted {
			if err := sendToHost(tx, d, true); err != nil {
				return nil, err
			}
		}
		if err := tx.DeleteTVCDeployment(d); err != nil {
			return nil, err
		}
	}
	tx.FreeName(org.NameTVCApp, app.Name)
	tx.DeleteTVCApp(app.ID)
	return in, nil
}
