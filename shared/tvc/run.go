package tvc

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// The values of Run.HealthCheckType: how the host checks a program's health.
const (
	HealthHTTP = "HTTP" // GET /health answers 200
	HealthGRPC = "GRPC" // grpc.health.v1.Health/Check answers SERVING
)

// MaxReplicas is the largest number of enclaves of one deployment.
const MaxReplicas = 16

// A Run is the signer's instruction to the host to run an approved deployment, or to stop it. It has no secrets. A host that
// disobeys can't run anything unapproved: the enclave verifies the envelope itself.
type Run struct {
	AppID        string `json:"appId"`
	DeploymentID string `json:"deploymentId"`
	// Stop ends the deployment; the fields from Live on are empty then.
	Stop     bool      `json:"stop,omitempty"`
	Live     bool      `json:"live,omitempty"` // the deployment gets the app's traffic
	Envelope *Envelope `json:"envelope,omitempty"`
	// Image is NAME@sha256:HEX, and Path is the program's path in it.
	Image             string `json:"image,omitempty"`
	Path              string `json:"path,omitempty"`
	HealthCheckType   string `json:"healthCheckType,omitempty"`
	HealthCheckPort   uint16 `json:"healthCheckPort,omitempty"`
	PublicIngressPort uint16 `json:"publicIngressPort,omitempty"`
	Replicas          uint32 `json:"replicas,omitempty"`
}

const maxRun = MaxEnvelope + 8<<10

// ParseRun decodes a Run and refuses any bytes but those that Encode writes.
func ParseRun(raw []byte) (*Run, error) {
	r := new(Run)
	if err := parse("run", raw, maxRun, r, r.Encode); err != nil {
		return nil, err
	}
	return r, nil
}

// Encode returns the canonical JSON. It refuses a Run that no host could start.
func (r *Run) Encode() ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	out := *r
	if r.Envelope != nil {
		e := *r.Envelope
		e.normalize()
		out.Envelope = &e
	}
	return encode(out)
}

func (r *Run) check() error {
	if err := cmp.Or(checkText("appId", r.AppID, 1, MaxText), checkText("deploymentId", r.DeploymentID, 1, MaxText)); err != nil {
		return err
	}
	if r.Stop {
		if *r != (Run{AppID: r.AppID, DeploymentID: r.DeploymentID, Stop: true}) {
			return errors.New("what ends has nothing to run")
		}
		return nil
	}
	if r.Envelope == nil {
		return errors.New("no manifest")
	}
	if _, err := r.Envelope.Check(); err != nil {
		return err
	}
	name, digest, ok := strings.Cut(r.Image, "@sha256:")
	switch {
	case !ok || checkHex("digest", digest, 32) != nil || checkText("image", name, 1, MaxArgument) != nil:
		return errors.New("image is not NAME@sha256:HEX")
	case !strings.HasPrefix(r.Path, "/") || checkText("path", r.Path, 2, MaxArgument) != nil:
		return errors.New("path does not begin with /")
	case r.HealthCheckType != HealthHTTP && r.HealthCheckType != HealthGRPC:
		return errors.New("healthCheckType is neither HTTP nor GRPC")
	case !r.Envelope.Manifest.Pivot.bridges(r.HealthCheckPort) || !r.Envelope.Manifest.Pivot.bridges(r.PublicIngressPort):
		return errors.New("a port that the manifest does not bridge")
	case r.Replicas < 1 || r.Replicas > MaxReplicas:
		return fmt.Errorf("replicas are not 1 to %d", MaxReplicas)
	}
	return nil
}

func (p *Pivot) bridges(port uint16) bool {
	for _, b := range p.BridgeConfig {
		if b.Port == port {
			return true
		}
	}
	return false
}
