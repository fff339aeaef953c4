// Package programs runs customers' programs in enclaves beside the signer. It runs what the signer reports as approved; the
// enclaves themselves refuse anything else.
//
// For each deployment it starts the ordered number of enclaves, gives them manifest and program, forwards share holders'
// shares, checks the health of each program, restarts an enclave that ended or is unhealthy, and forwards the app's traffic
// to the healthy ones. Its status reports are unverified claims of the host; the enclaves' boot proofs are the proof.
package programs

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"cloister/shared/tvc"
)

// A Machine starts enclaves of our base image.
type Machine interface {
	// Start starts an enclave, which then waits for its manifest.
	Start(ctx context.Context, debug bool) (Instance, error)
}

// An Instance is a started enclave.
type Instance interface {
	// Dial connects to its port tvc.Port.
	Dial(ctx context.Context) (net.Conn, error)
	// Done is closed when the enclave has ended.
	Done() <-chan struct{}
	// Stop ends the enclave, and returns when it has ended.
	Stop()
}

// Images reads programs from container images. The enclave verifies the digest.
type Images interface {
	Program(ctx context.Context, image, path string) ([]byte, error)
}

// Config holds the options of a Host. Log may be nil.
type Config struct {
	Machine Machine
	Images  Images
	After   func(time.Duration) <-chan time.Time
	Log     *slog.Logger
}

// Times and limits of a replica.
const (
	between = 5 * time.Second  // between two health checks
	unwell  = 3                // failed health checks in a row after which the enclave is restarted
	pause   = 10 * time.Second // before a restart
	asking  = 10 * time.Second // time limit of a request to an enclave
	handing = 10 * time.Minute // time limit of giving manifest and program
)

// A Host runs deployments of customers' programs. It is safe for concurrent use.
type Host struct {
	cfg Config

	mu          sync.Mutex
	deployments map[string]*deployment
	live        map[string]string // id of the live deployment, by app
	next        int               // counter for round-robin over replicas
}

type deployment struct {
	run      *tvc.Run
	end      context.CancelFunc
	ended    sync.WaitGroup
	replicas []*replica
}

type replica struct {
	number   int
	instance Instance // nil while no enclave runs
	status   tvc.Status
	healthy  bool
	failure  string
}

// New makes a Host without deployments.
func New(cfg Config) *Host {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Host{cfg: cfg, deployments: map[string]*deployment{}, live: map[string]string{}}
}

// Run carries out an order of the signer: it starts or stops a deployment, or makes it live. It is idempotent. A started
// deployment runs until it is stopped, or ctx ends.
func (h *Host) Run(ctx context.Context, run *tvc.Run) error {
	if _, err := run.Encode(); err != nil {
		return err
	}
	h.mu.Lock()
	if run.Stop {
		d := h.deployments[run.DeploymentID]
		delete(h.deployments, run.DeploymentID)
		if h.live[run.AppID] == run.DeploymentID {
			delete(h.live, run.AppID)
		}
		h.mu.Unlock()
		if d != nil {
			d.end()
			d.ended.Wait()
		}
		return nil
	}
	defer h.mu.Unlock()
	if run.Live || h.live[run.AppID] == "" {
		h.live[run.AppID] = run.DeploymentID
	}
	if h.deployments[run.DeploymentID] != nil {
		return nil // it runs already: a deployment's manifest never changes
	}
	ctx, end := context.WithCancel(ctx)
	d := &deployment{run: run, end: end}
	for i := range run.Replicas {
		r := &replica{number: int(i) + 1}
		d.replicas = append(d.replicas, r)
		d.ended.Go(func() { h.runReplica(ctx, d, r) })
	}
	h.deployments[run.DeploymentID] = d
	return nil
}

// Stop ends all deployments and waits until they have ended.
func (h *Host) Stop() {
	h.mu.Lock()
	all := h.deployments
	h.deployments, h.live = map[string]*deployment{}, map[string]string{}
	h.mu.Unlock()
	for _, d := range all {
		d.end()
	}
	for _, d := range all {
		d.ended.Wait()
	}
}

// runReplica runs one replica and restarts its enclave whenever it ends. A restarted enclave waits for its shares again: only their holders can give them.
func (h *Host) runReplica(ctx context.Context, d *deployment, r *replica) {
	for ctx.Err() == nil {
		err := h.runInstance(ctx, d, r)
		h.mu.Lock()
		r.instance, r.healthy, r.status = nil, false, tvc.Status{}
		if err != nil {
			r.failure = err.Error()
		}
		h.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		h.cfg.Log.Warn("program's enclave ended", "deployment", d.run.DeploymentID, "replica", r.number, "error", err)
		select {
		case <-ctx.Done():
		case <-h.cfg.After(pause):
		}
	}
}

// runInstance starts an enclave, gives it manifest and program, and checks it until it has ended or is unhealthy.
func (h *Host) runInstance(ctx context.Context, d *deployment, r *replica) error {
	program, err := h.cfg.Images.Program(ctx, d.run.Image, d.run.Path)
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	instance, err := h.cfg.Machine.Start(ctx, d.run.Envelope.Manifest.Pivot.DebugMode)
	if err != nil {
		return fmt.Errorf("starting an enclave: %w", err)
	}
	defer instance.Stop()
	if err := sendProgram(ctx, instance, d.run, program); err != nil {
		return err
	}
	h.mu.Lock()
	r.instance, r.failure = instance, ""
	h.mu.Unlock()
	for failures := 0; failures < unwell; {
		status, healthy, err := h.readStatus(ctx, instance, d.run)
		h.mu.Lock()
		if err == nil {
			r.status = status
		}
		r.healthy = healthy
		h.mu.Unlock()
		if err != nil || status.State == tvc.StateRunning && !healthy {
			failures++
		} else {
			failures = 0
		}
		select {
		case <-ctx.Done():
			return nil
		case <-instance.Done():
			return errors.New("it ended")
		case <-h.cfg.After(between):
		}
	}
	return errors.New("it is not well")
}

// sendProgram gives an enclave manifest and program. Until it listens, it is dialed again, within handing.
func sendProgram(ctx context.Context, instance Instance, run *tvc.Run, program []byte) error {
	ctx, cancel := context.WithTimeout(ctx, handing)
	defer cancel()
	c, err := dial(ctx, instance)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	envelope, err := run.Envelope.Encode()
	if err != nil {
		return err
	}
	if _, err := tvc.Ask(c, tvc.GiveManifest, envelope); err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	if err := tvc.WriteProgram(c, bytes.NewReader(program), int64(len(program))); err != nil {
		return fmt.Errorf("program: %w", err)
	}
	if _, err := tvc.ReadAnswer(c); err != nil {
		return fmt.Errorf("program: %w", err)
	}
	return nil
}

const redial = 200 * time.Millisecond

func dial(ctx context.Context, instance Instance) (net.Conn, error) {
	for {
		c, err := instance.Dial(ctx)
		if err == nil {
			return c, nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-instance.Done():
			return nil, errors.New("the enclave ended before it listened")
		case <-time.After(redial):
		}
	}
}

// ask makes one request to an enclave, over a new connection.
func ask(ctx context.Context, instance Instance, kind byte, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	c, err := instance.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	return tvc.Ask(c, kind, body)
}

func (h *Host) readStatus(ctx context.Context, instance Instance, run *tvc.Run) (s tvc.Status, healthy bool, err error) {
	raw, err := ask(ctx, instance, tvc.AskStatus, nil)
	if err != nil {
		return s, false, err
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, false, err
	}
	if s.State == tvc.StateRunning {
		if err := health(ctx, instance, run); err != nil {
			h.cfg.Log.Debug("program unhealthy", "deployment", run.DeploymentID, "error", err)
			return s, false, nil
		}
		healthy = true
	}
	return s, healthy, nil
}

// A Replica is the status of one enclave of a deployment, as the host sees it.
type Replica struct {
	Number  int
	Healthy bool
	Status  tvc.Status
	Failure string // why the enclave before it ended, if one has
}

// ErrUnknown is the error of a deployment that does not run on this host.
var ErrUnknown = errors.New("no such deployment runs here")

// Status returns the status of a deployment's replicas, and whether it is its app's live deployment.
func (h *Host) Status(deployment string) (replicas []Replica, live bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.deployments[deployment]
	if d == nil {
		return nil, false, ErrUnknown
	}
	for _, r := range d.replicas {
		replicas = append(replicas, Replica{r.number, r.healthy, r.status, r.failure})
	}
	return replicas, h.live[d.run.AppID] == deployment, nil
}

// instances returns the running enclaves of a deployment, or only the healthy ones.
func (h *Host) instances(deployment string, healthy bool) ([]Instance, *tvc.Run, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.deployments[deployment]
	if d == nil {
		return nil, nil, ErrUnknown
	}
	var all []Instance
	for _, r := range d.replicas {
		if r.instance != nil && (r.healthy || !healthy) {
			all = append(all, r.instance)
		}
	}
	return all, d.run, nil
}

// Setups returns the setup attestations of a deployment's enclaves that wait for shares.
func (h *Host) Setups(ctx context.Context, deployment string) ([]tvc.Attested, error) {
	return h.askAll(ctx, deployment, tvc.AskSetup)
}

// Proofs returns the boot proofs of a deployment's enclaves that run their program.
func (h *Host) Proofs(ctx context.Context, deployment string) ([]tvc.Attested, error) {
	return h.askAll(ctx, deployment, tvc.AskProof)
}

func (h *Host) askAll(ctx context.Context, deployment string, kind byte) (all []tvc.Attested, err error) {
	instances, _, err := h.instances(deployment, false)
	if err != nil {
		return nil, err
	}
	for _, i := range instances {
		raw, err := ask(ctx, i, kind, nil)
		if err != nil {
			continue // the enclave is in another state
		}
		a, err := tvc.ParseAttested(raw)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// GiveShare gives a share to the enclave of a deployment with this setup key.
func (h *Host) GiveShare(ctx context.Context, deployment, key string, share *tvc.PostedShare) error {
	raw, err := share.Encode()
	if err != nil {
		return err
	}
	instances, _, err := h.instances(deployment, false)
	if err != nil {
		return err
	}
	for _, i := range instances {
		setup, err := ask(ctx, i, tvc.AskSetup, nil)
		if err != nil {
			continue
		}
		if a, err := tvc.ParseAttested(setup); err == nil && a.PublicKey == key {
			_, err := ask(ctx, i, tvc.GiveShare, raw)
			return err
		}
	}
	return errors.New("no enclave of the deployment has this setup key")
}

// Output returns the last output of each program of a deployment, in debug mode.
func (h *Host) Output(ctx context.Context, deployment string) (all [][]byte, err error) {
	instances, _, err := h.instances(deployment, false)
	if err != nil {
		return nil, err
	}
	for _, i := range instances {
		raw, err := ask(ctx, i, tvc.AskOutput, nil)
		if err != nil {
			return nil, err
		}
		all = append(all, raw)
	}
	return all, nil
}

// dialProgram connects to a port of the program inside an enclave.
func dialProgram(ctx context.Context, instance Instance, port uint16) (net.Conn, error) {
	c, err := instance.Dial(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	_, err = tvc.Ask(c, tvc.Connect, binary.BigEndian.AppendUint16(nil, port))
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// Ingress forwards the connections of a listener to an app's live deployment, round-robin over its healthy replicas, until
// ctx ends.
func (h *Host) Ingress(ctx context.Context, app string, l net.Listener) error {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	slots := make(chan struct{}, maxIngress)
	for {
		c, err := l.Accept()
		if err != nil {
			return errors.Join(ctx.Err(), err)
		}
		select {
		case slots <- struct{}{}:
			go func() {
				defer func() { <-slots }()
				defer c.Close()
				if err := h.forwardConnection(ctx, app, c); err != nil {
					h.cfg.Log.Debug("incoming connection not passed on", "app", app, "error", err)
				}
			}()
		default:
			_ = c.Close()
		}
	}
}

// maxIngress bounds the connections of an app; it is less than one of its enclaves accepts.
const maxIngress = 128

func (h *Host) forwardConnection(ctx context.Context, app string, c net.Conn) error {
	h.mu.Lock()
	deployment := h.live[app]
	h.next++
	next := h.next
	h.mu.Unlock()
	instances, run, err := h.instances(deployment, true)
	if err != nil {
		return err
	}
	if len(instances) == 0 {
		return errors.New("no enclave of the live deployment is well")
	}
	at := next % len(instances)
	for _, i := range slices.Concat(instances[at:], instances[:at]) {
		dialing, cancel := context.WithTimeout(ctx, asking)
		program, err := dialProgram(dialing, i, run.PublicIngressPort)
		cancel()
		if err == nil {
			defer program.Close()
			defer context.AfterFunc(ctx, func() { _ = program.Close(); _ = c.Close() })()
			tvc.Join(c, program)
			return nil
		}
	}
	return io.ErrUnexpectedEOF
}
