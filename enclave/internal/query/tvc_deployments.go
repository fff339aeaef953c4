package query

import (
	"encoding/base64"
	"strconv"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/program"
	"cloister/shared/tvc"
)

var tvcDeployments = []*Query{
	stateQuery("get_tvc_deployment", getTVCDeployment),
	stateQuery("list_tvc_app_deployments", listTVCAppDeployments),
	stateQuery("get_tvc_qos_versions", getTVCVersions),
	stateQuery("validate_tvc_image", validateTVCImage),
}

type tvcAppDeploymentsRequest struct {
	Head
	AppID string `json:"appId" rule:"required"`
}

type tvcDeploymentRequest struct {
	Head
	DeploymentID string `json:"deploymentId" rule:"required"`
}

func getTVCDeployment(v *View, in *tvcDeploymentRequest) ([]byte, error) {
	d, err := findNamed("deployment", "deploymentId", in.DeploymentID, v.TVCDeployment)
	if err != nil {
		return nil, err
	}
	dst, err := v.appendTVCDeployment([]byte(`{"tvcDeployment":`), d)
	return append(dst, '}'), err
}

func listTVCAppDeployments(v *View, in *tvcAppDeploymentsRequest) ([]byte, error) {
	a, err := findNamed("app", "appId", in.AppID, v.TVCApp)
	if err != nil {
		return nil, err
	}
	ds, err := activity.Collect(v.EachTVCDeployment, func(d *org.TVCDeployment) bool { return d.App == a.ID })
	sortCreated(ds, func(d *org.TVCDeployment) created { return created{d.CreatedMs, d.ID} })
	return v.manyTVC(`{"tvcDeployments":[`, len(ds), err, func(dst []byte, i int) ([]byte, error) { return v.appendTVCDeployment(dst, ds[i]) })
}

func (v *View) appendTVCDeployment(dst []byte, d *org.TVCDeployment) ([]byte, error) {
	a, err := v.TVCApp(d.App)
	if a, err = activity.OrNotFound(a, err, "app", d.App.String()); err != nil {
		return nil, err
	}
	m, err := v.TVCManifest(d.Manifest)
	if m, err = activity.OrNotFound(m, err, "manifest", d.Manifest.String()); err != nil {
		return nil, err
	}
	parsed, err := tvc.ParseManifest(m.Bytes)
	if err != nil {
		return nil, err
	}
	dst = ident(dst, `{"id":`, d.ID)
	dst = ident(dst, `,"organizationId":`, v.ID)
	dst = ident(dst, `,"appId":`, d.App)
	if dst, err = v.appendTVCSets(dst, a); err != nil {
		return nil, err
	}
	dst = ident(dst, `,"manifest":{"id":`, m.ID)
	dst = text(dst, `,"manifest":`, base64.StdEncoding.EncodeToString(m.Bytes))
	dst = append(appendTimes(dst, m.CreatedMs, m.CreatedMs), `},"manifestApprovals":[`...)
	for i, ap := range m.Approvals {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = ident(dst, `{"id":`, ap.ID)
		dst = ident(dst, `,"manifestId":`, m.ID)
		if dst, err = v.appendTVCOperator(append(dst, `,"operator":`...), ap.Operator); err != nil {
			return nil, err
		}
		dst = text(dst, `,"approval":`, base64.StdEncoding.EncodeToString(ap.Signature))
		dst = append(appendTimes(dst, ap.CreatedMs, ap.CreatedMs), '}')
	}
	dst = text(dst, `],"qosVersion":`, d.Version)
	dst = text(dst, `,"pivotContainer":{"containerUrl":`, d.Image)
	dst = text(dst, `,"path":`, d.Path)
	dst = array(dst, `,"args":`, parsed.Pivot.Args, func(dst []byte, arg string) []byte { return text(dst, "", arg) })
	dst = flag(dst, `,"hasPullSecret":`, d.PullSecret != "")
	dst = text(dst, `,"healthCheckType":`, d.HealthCheck)
	dst = strconv.AppendUint(append(dst, `,"healthCheckPort":`...), uint64(d.HealthPort), 10)
	dst = strconv.AppendUint(append(dst, `,"publicIngressPort":`...), uint64(d.IngressPort), 10)
	dst = appendTimes(append(dst, '}'), d.CreatedMs, d.UpdatedMs)
	dst = flag(dst, `,"delete":`, d.Deleted)
	return append(flag(dst, `,"debugMode":`, d.Debug), '}'), nil
}

// getTVCVersions lists the base images, the newest one last.
func getTVCVersions(v *View, _ *organizationRequest) ([]byte, error) {
	if v.Programs == nil {
		return nil, activity.NoPrograms()
	}
	names := activity.MapList(v.Programs.Bases, func(b *program.Base) string { return b.Name })
	dst := array(nil, `{"availableVersions":`, names, func(dst []byte, name string) []byte { return text(dst, "", name) })
	return append(text(dst, `,"latestVersion":`, names[len(names)-1]), '}'), nil
}

type tvcImageRequest struct {
	Head
	PivotContainerImageURL            string  `json:"pivotContainerImageUrl" rule:"required"`
	PivotContainerEncryptedPullSecret *string `json:"pivotContainerEncryptedPullSecret"`
}

// validateTVCImage answers the present digest of an image reference, so that it can be pinned. For a tag it is an unverified
// statement of the registry and of the host.
func validateTVCImage(v *View, in *tvcImageRequest) ([]byte, error) {
	if v.Programs == nil {
		return nil, activity.NoPrograms()
	}
	r, err := program.ParseReference("pivotContainerImageUrl", in.PivotContainerImageURL, false)
	if err != nil {
		return nil, err
	}
	d, err := v.Images.Resolve(&activity.Image{Reference: r, PullSecret: activity.TextOf(in.PivotContainerEncryptedPullSecret)})
	if err != nil {
		return nil, err
	}
	return append(text(nil, `{"resolvedImageDigest":`, d.String()), '}'), nil
}
