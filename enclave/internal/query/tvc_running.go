package query

import (
	"bytes"
	"encoding/base64"
	"strconv"

	"cloister/enclave/internal/activity"
	activitytvc "cloister/enclave/internal/activity/tvc"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// The status of programs is an unverified statement of the host. Only the document is a proof, which holders of shares verify.
var tvcRunning = []*Query{
	stateQuery("get_app_status", getAppStatus),
	stateQuery("get_tvc_deployment_provisioning_details", getProvisioningDetails),
	stateQuery("get_tvc_deployment_debug_logs", getDebugLogs),
}

// getAppStatus answers the status of an app's deployments that are approved and not deleted.
func getAppStatus(v *View, in *tvcAppDeploymentsRequest) ([]byte, error) {
	a, err := findNamed("app", "appId", in.AppID, v.TVCApp)
	if err != nil {
		return nil, err
	}
	ds, err := activity.Collect(v.EachTVCDeployment, func(d *org.TVCDeployment) bool { return d.App == a.ID && d.Approved && !d.Deleted })
	if err != nil {
		return nil, err
	}
	sortCreated(ds, func(d *org.TVCDeployment) created { return created{d.CreatedMs, d.ID} })
	dst := ident(nil, `{"appStatus":{"appId":`, a.ID)
	dst = append(dst, `,"deployments":[`...)
	for i, d := range ds {
		said, err := v.Images.ProgramStatus(d.ID, WantReplicas)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = ident(dst, `{"deploymentId":`, d.ID)
		dst = strconv.AppendUint(append(dst, `,"readyReplicas":`...), uint64(min(said.Ready, d.Replicas)), 10)
		dst = strconv.AppendUint(append(dst, `,"desiredReplicas":`...), uint64(d.Replicas), 10)
		dst = activity.AppendTime(append(dst, `,"lastUpdatedTime":`...), v.NowMs)
		if said.Known && said.Ready == 0 {
			if said, err = v.Images.ProgramStatus(d.ID, WantSetup); err != nil {
				return nil, err
			}
		}
		dst = append(text(dst, `,"provisioningState":`, provisioningState(said)), '}')
	}
	live := ""
	if !a.Live.Zero() {
		live = a.Live.String()
	}
	return append(text(dst, `],"targetedDeploymentId":`, live), `}}`...), nil
}

// provisioningState names the state of a deployment: its program runs, an enclave waits for shares of the app's key, or neither yet.
func provisioningState(said *ProgramStatus) string {
	switch {
	case said.Ready > 0:
		return "PROVISIONING_STATE_PROVISIONED"
	case len(said.Document) > 0:
		return "PROVISIONING_STATE_AWAITING_PROVISION"
	}
	return "PROVISIONING_STATE_PENDING"
}

// running finds an approved deployment.
func running(v *View, text string) (*org.TVCDeployment, error) {
	d, err := findNamed("deployment", "deploymentId", text, v.TVCDeployment)
	if err == nil && (!d.Approved || d.Deleted) {
		err = fault.New(fault.FailedPrecondition, "the deployment is not approved yet, or is deleted: nothing of it runs")
	}
	return d, err
}

// getProvisioningDetails answers the manifest envelope, and the attestation document if an enclave waits for shares. The holder of a share
// verifies both first.
func getProvisioningDetails(v *View, in *tvcDeploymentRequest) ([]byte, error) {
	d, err := running(v, in.DeploymentID)
	if err != nil {
		return nil, err
	}
	m, err := v.TVCManifest(d.Manifest)
	if m, err = activity.OrNotFound(m, err, "manifest", d.Manifest.String()); err != nil {
		return nil, err
	}
	e, err := activitytvc.Envelope(v.Tx, m)
	if err != nil {
		return nil, err
	}
	envelope, err := e.Encode()
	if err != nil {
		return nil, err
	}
	said, err := v.Images.ProgramStatus(d.ID, WantSetup)
	if err != nil {
		return nil, err
	}
	dst := text(nil, `{"manifestEnvelope":`, base64.StdEncoding.EncodeToString(envelope))
	if len(said.Document) > 0 {
		dst = text(dst, `,"attestationDocument":`, base64.StdEncoding.EncodeToString(said.Document))
	}
	return append(text(dst, `,"provisioningState":`, provisioningState(said)), '}'), nil
}

type debugLogsRequest struct {
	Head
	DeploymentID string `json:"deploymentId" rule:"required"`
	TailLines    *int32 `json:"tailLines"`
	SinceSeconds *int64 `json:"sinceSeconds"`
}

// maxLogLines bounds the lines of an answer.
const maxLogLines = 1000

// getDebugLogs answers the last output of programs. Lines have no times: nothing in their enclave records them.
func getDebugLogs(v *View, in *debugLogsRequest) ([]byte, error) {
	d, err := running(v, in.DeploymentID)
	switch {
	case err != nil:
		return nil, err
	case !d.Debug:
		return nil, fault.New(fault.FailedPrecondition, "only deployments in debug mode show what they write")
	case in.SinceSeconds != nil:
		return nil, activity.Unimplemented("get_tvc_deployment_debug_logs", "sinceSeconds")
	case in.TailLines != nil && (*in.TailLines < 1 || *in.TailLines > maxLogLines):
		return nil, fault.Field("tailLines", "must be 1 to %d", maxLogLines)
	}
	said, err := v.Images.ProgramStatus(d.ID, WantOutput)
	if err != nil {
		return nil, err
	}
	most := maxLogLines
	if in.TailLines != nil {
		most = int(*in.TailLines)
	}
	dst, first := []byte(`{"entries":[`), true
	for i, output := range said.Output {
		lines := bytes.Split(bytes.TrimSuffix(output, []byte{'\n'}), []byte{'\n'})
		for _, line := range lines[max(0, len(lines)-most):] {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = text(dst, `{"line":{"content":`, string(line))
			dst = append(text(dst, `},"replicaLabel":`, strconv.Itoa(i+1)), '}')
		}
	}
	return append(dst, `]}`...), nil
}
