package programs

import (
	"context"
	"sync"

	"cloister/shared/tvc"
	"cloister/shared/wire"
)

// A Registry reads a program from an image in a container registry. auth is the registry's credential.
type Registry interface {
	Program(ctx context.Context, image, path, auth string) ([]byte, error)
}

// Pulls implements Images with a Registry, and with the credential that the signer has given for each image.
type Pulls struct {
	Registry Registry

	mu    sync.Mutex
	auths map[string]string // credentials by image
}

// Program implements Images.
func (p *Pulls) Program(ctx context.Context, image, path string) ([]byte, error) {
	p.mu.Lock()
	auth := p.auths[image]
	p.mu.Unlock()
	return p.Registry.Program(ctx, image, path, auth)
}

func (p *Pulls) allow(image, auth string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.auths == nil {
		p.auths = map[string]string{}
	}
	p.auths[image] = auth
}

// A Listener connects a Host to the signer: it receives orders and reports status. Deployments run until Context ends.
type Listener struct {
	Context context.Context
	Host    *Host
	Pulls   *Pulls
}

// Tell implements egress.Programs.
func (l *Listener) Tell(ctx context.Context, p *wire.Program) (runs bool, err error) {
	if len(p.Share) > 0 {
		share, err := tvc.ParsePostedShare(p.Share)
		if err != nil {
			return false, err
		}
		return false, l.Host.GiveShare(ctx, p.Deployment, p.SetupKey, share)
	}
	run, err := tvc.ParseRun(p.Run)
	if err != nil {
		return false, err
	}
	if !run.Stop && p.Auth != "" {
		l.Pulls.allow(run.Image, p.Auth)
	}
	return !run.Stop, l.Host.Run(l.Context, run)
}

// maxOutput bounds the reported output of a deployment, of all replicas together, in bytes.
const maxOutput = wire.MaxProgram / 2

// About implements link.Programs.
func (l *Listener) About(ctx context.Context, q *wire.AboutProgram) (said wire.ProgramStatus, err error) {
	replicas, _, err := l.Host.Status(q.Deployment)
	if err != nil {
		return said, nil
	}
	said.Known, said.Desired = true, uint32(len(replicas))
	for _, r := range replicas {
		if r.Healthy {
			said.Ready++
		}
	}
	switch q.Want {
	case wire.WantSetup:
		setups, err := l.Host.Setups(ctx, q.Deployment)
		if err != nil || len(setups) == 0 {
			return said, nil
		}
		if len(setups[0].Document) < wire.MaxProgram/2 {
			said.Document = setups[0].Document
		}
	case wire.WantOutput:
		output, err := l.Host.Output(ctx, q.Deployment)
		if err != nil {
			return said, nil
		}
		for _, b := range output {
			said.Output = append(said.Output, b[max(0, len(b)-maxOutput/len(output)):])
		}
	}
	return said, nil
}
