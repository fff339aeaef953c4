package providers

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"cloister/enclave/core/internal/link"
	"cloister/enclave/core/internal/tenant"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/program"
	"cloister/enclave/internal/query"
	"cloister/enclave/internal/secret"
	"cloister/shared/wire"
)

// Images of programs come from registries by the host, which speaks to those in its own name: what it gives is held against
// the digest that the image is named by, and is worth nothing else.

// Bounds on images that are looked at, divided among tenants.
const (
	maxLooks        = 8 // at a time
	maxLooked       = 64
	lookWait        = 15 * time.Minute // for a whole image
	blobWait        = time.Minute      // for the next bytes of it
	imageLookupLife = 10 * time.Minute // how long what was seen is remembered
)

// Programs looks for programs in images, for requests that have authenticated.
type Programs struct {
	host  *link.Host
	clock ledger.Clock
	lane  *link.Lane
	key   secret.Secret // opens the secrets of registries
	looks *tenant.Portion[org.ID]

	mu  sync.Mutex
	all map[lookKey]*imageLookup
}

// lookKey says what is looked for, and for whom.
type lookKey [sha256.Size]byte

// imageLookup is what came of looking into an image once, for all who wait for it. It outlives who asked: a large image takes
// longer than a request waits, and the request that comes again finds it.
type imageLookup struct {
	done  chan struct{}
	found program.Digest
	err   error
	until time.Time // once done
}

// Program tells whether a program is in its image, or asks by an *org.Retry.
func (x ofActivity) Program(i *activity.Image) error {
	found, err := x.startLookup(i, func(b program.Blobs) (program.Digest, error) { return program.Find(b, i.Reference, i.Path) })
	if err == nil && found != i.Expected {
		err = program.Invalid("wrong digest: the program at %s is %x", i.Path, found[:])
	}
	return err
}

// Resolve is the digest of the image that a reference names now, or an *org.Retry that asks.
func (a *Lookups) Resolve(i *activity.Image) (program.Digest, error) {
	return a.startLookup(i, func(b program.Blobs) (program.Digest, error) { return program.Resolve(b, i.Reference) })
}

func (a *Lookups) startLookup(i *activity.Image, read func(program.Blobs) (program.Digest, error)) (program.Digest, error) {
	if l := a.imageLookup; l != nil {
		select {
		case <-l.done:
			return l.found, l.err
		default: // the request has waited as long as it may
			return program.Digest{}, errImage("it takes longer than a request may")
		}
	}
	return program.Digest{}, a.fetch(func(ctx context.Context) (err error) {
		if a.imageLookup, err = a.services.Programs.join(ctx, a.Tenant, i, read); err != nil {
			return err
		}
		select {
		case <-a.imageLookup.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

func errImage(why string) *fault.Error {
	return fault.WithCode(fault.Unavailable, rpcError, "the image could not be fetched: %s; send the same request again", why)
}

// join begins to look, or joins who looks or has looked.
func (p *Programs) join(ctx context.Context, who org.ID, i *activity.Image, read func(program.Blobs) (program.Digest, error)) (*imageLookup, error) {
	key := lookKey(sha256.Sum256(fmt.Appendf(nil, "%x %q %q %q", who, i.Reference.Text, i.Path, i.PullSecret)))
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	for k, l := range p.all {
		if !l.until.IsZero() && now.After(l.until) {
			delete(p.all, k)
		}
	}
	if l := p.all[key]; l != nil {
		return l, nil
	}
	if len(p.all) >= maxLooked || !p.looks.Take(who, 1) {
		return nil, errImage("too many images are being looked at")
	}
	l := &imageLookup{done: make(chan struct{})}
	p.all[key] = l
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookWait)
		defer cancel()
		l.found, l.err = p.run(ctx, i, read)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.looks.Add(who, -1)
		if f := fault.Of(l.err); l.err != nil && (f == nil || f.Code == fault.Unavailable) {
			delete(p.all, key) // nothing was found out
		}
		l.until = p.clock.Now().Add(imageLookupLife)
		close(l.done)
	}()
	return l, nil
}

// run looks into an image.
func (p *Programs) run(ctx context.Context, i *activity.Image, read func(program.Blobs) (program.Digest, error)) (found program.Digest, err error) {
	defer func() {
		if recover() != nil { // nobody stands above who could catch it
			found, err = program.Digest{}, errImage("it cannot be read")
		}
	}()
	pull := wire.Pull{Image: i.Reference.Text}
	if i.PullSecret != "" {
		if pull.Auth, err = p.Auth(i.PullSecret, i.Reference.Registry); err != nil {
			return found, err
		}
	}
	conn, err := p.lane.Pull(ctx, pull)
	if err != nil {
		return found, errImage("the host reaches no registry")
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	found, err = read(&blobs{conn: conn, clock: p.clock})
	if errors.Is(err, program.ErrAway) {
		err = errImage("the host did not give it whole, or gave another")
	}
	return found, err
}

// Auth opens a registry's secret.
func (p *Programs) Auth(sealed, registry string) (string, error) {
	s, err := login.OpenOnRampSecret("pivotContainerEncryptedPullSecret", sealed, p.key)
	if err != nil {
		return "", program.Invalid("the pull secret does not open: it must be encrypted to the on-ramp key that /public/v1/discovery/keys tells")
	}
	defer s.Wipe()
	return program.Auth(s, registry)
}

// blobs asks for blobs, one after the other, over a stream to the host.
type blobs struct {
	conn  net.Conn
	clock ledger.Clock
	last  *io.LimitedReader // the blob that is being read
}

// Open asks for a blob.
func (b *blobs) Open(d program.Digest) (io.Reader, error) {
	if b.last != nil && b.last.N > 0 {
		return nil, program.ErrAway
	}
	if err := b.conn.SetDeadline(b.clock.Now().Add(blobWait)); err != nil {
		return nil, program.ErrAway
	}
	if _, err := b.conn.Write(d[:]); err != nil {
		return nil, program.ErrAway
	}
	var head [1 + 8]byte
	if _, err := io.ReadFull(b.conn, head[:]); err != nil {
		return nil, program.ErrAway
	}
	size := binary.BigEndian.Uint64(head[1:])
	switch wire.BlobVerdict(head[0]) {
	case wire.BlobHere:
	case wire.BlobAbsent:
		return nil, program.Invalid("the registry has no such image, as the host says")
	case wire.BlobRefused:
		return nil, program.Invalid("the registry does not give the image to who asks so: it needs another pull secret, as the host says")
	default:
		return nil, program.ErrAway
	}
	if size > program.MaxImage {
		return nil, program.Invalid("the image has more than %d bytes", int64(program.MaxImage))
	}
	b.last = &io.LimitedReader{R: whole{b}, N: int64(size)}
	return b.last, nil
}

// whole reads from the stream: its end is no end of a blob.
type whole struct{ *blobs }

func (w whole) Read(p []byte) (int, error) {
	if err := w.conn.SetDeadline(w.clock.Now().Add(blobWait)); err != nil {
		return 0, program.ErrAway
	}
	n, err := w.conn.Read(p)
	if err != nil {
		err = program.ErrAway
	}
	return n, err
}

// maxProgramStatus bounds how many deployments one request asks the host about.
const maxProgramStatus = 1000

// programStatusWait is for one of them.
const programStatusWait = 15 * time.Second

// ProgramStatus is what the host says of a deployment, or an *org.Retry that asks.
func (a *Lookups) ProgramStatus(deployment org.ID, want query.ProgramWant) (*query.ProgramStatus, error) {
	k := programStatusKey{deployment, want}
	if s := a.programStatus[k]; s != nil {
		return s, nil
	}
	if len(a.programStatus) >= maxProgramStatus {
		return &query.ProgramStatus{}, nil
	}
	return nil, &org.Retry{Prefetch: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, programStatusWait)
		defer cancel()
		said, err := a.services.Programs.host.Program(ctx, wire.AboutProgram{Deployment: deployment.String(), Want: wire.ProgramWant(want)})
		if err != nil {
			return err
		}
		if a.programStatus == nil {
			a.programStatus = map[programStatusKey]*query.ProgramStatus{}
		}
		a.programStatus[k] = &query.ProgramStatus{Known: said.Known, Desired: said.Desired, Ready: min(said.Ready, said.Desired), Document: said.Document, Output: said.Output}
		return nil
	}}
}

// programStatusKey names what was asked of a deployment.
type programStatusKey struct {
	deployment org.ID
	want       query.ProgramWant
}
