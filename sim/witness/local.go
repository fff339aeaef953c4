package witness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"cloister/attestation/tlog"
	"cloister/sim/loopback"
)

// A Local is a witness that answers on this machine.
type Local struct {
	*Witness
	URL string // of its submission prefix

	mu   sync.Mutex
	stop func() // nil: it is away
}

// listen makes a witness answer at an address of loopback, which gives way to any free port when others have it.
func listen(w *Witness, address string) (*Local, error) {
	l, err := loopback.Listen(address)
	if errors.Is(err, syscall.EADDRINUSE) {
		l, err = loopback.Listen("127.0.0.1:0")
	}
	if err != nil {
		return nil, err
	}
	local := &Local{Witness: w, URL: "http://" + l.Addr().String()}
	local.serve(l)
	return local, nil
}

func (l *Local) serve(at net.Listener) {
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() { _ = l.Serve(ctx, at) })
	l.stop = func() { cancel(); served.Wait() }
}

// Stop makes it unreachable. It remembers what it has signed.
func (l *Local) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != nil {
		l.stop()
		l.stop = nil
	}
}

// Start makes it answer again, at the same address.
func (l *Local) Start() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != nil {
		return nil
	}
	at, err := loopback.Listen(strings.TrimPrefix(l.URL, "http://"))
	if err == nil {
		l.serve(at)
	}
	return err
}

// Locals are the witnesses of one log that all answer on this machine. Whoever has the machine has all of them.
type Locals []*Local

// patience is for a log that starts beside its witnesses, who hear of it a moment later.
const patience = 500 * time.Millisecond

// LocalsOptions are what Locals are made of.
type LocalsOptions struct {
	// Name begins their names, behind which they are counted from 1.
	Name  string
	Count int
	// Dir has a folder for each, which is made where there is none: its key, and what it signed. Empty: in memory.
	Dir string
	// Addresses are where they answer if these are free: IP:PORT of loopback, in their order. Those without one take any.
	Addresses []string
	Rand      io.Reader
	Now       func() time.Time
}

// StartLocals starts witnesses that know no log.
func StartLocals(o LocalsOptions) (all Locals, err error) {
	defer func() {
		if err != nil {
			all.Stop()
		}
	}()
	for i := range o.Count {
		number := strconv.Itoa(i + 1)
		w, err := o.witness(number)
		if err != nil {
			return all, err
		}
		address := "127.0.0.1:0"
		if i < len(o.Addresses) {
			address = o.Addresses[i]
		}
		local, err := listen(w, address)
		if err != nil {
			return all, fmt.Errorf("witness %s: %w", number, err)
		}
		all = append(all, local)
	}
	return all, nil
}

func (o *LocalsOptions) witness(number string) (*Witness, error) {
	options := Options{Name: o.Name + number, Now: o.Now, Patience: patience}
	var err error
	if o.Dir == "" {
		options.Key, err = newKey(o.Rand)
	} else {
		options.Dir = filepath.Join(o.Dir, number, "signed")
		options.Key, err = ReadKey(filepath.Join(o.Dir, number, "key"), o.Rand)
	}
	if err != nil {
		return nil, err
	}
	return New(options)
}

// Policy is the tlog-policy by which so many of them make a quorum.
func (all Locals) Policy(quorum int) string {
	var b strings.Builder
	names := ""
	for _, l := range all {
		fmt.Fprintf(&b, "witness %s %s %s\n", l.Key().Name(), l.Key(), l.URL)
		names += " " + l.Key().Name()
	}
	return fmt.Sprintf("%sgroup all %d%s\nquorum all\n", b.String(), quorum, names)
}

// Add makes a log known to all of them, as Witness.Add does.
func (all Locals) Add(log *tlog.Key) error {
	for _, l := range all {
		if err := l.Add(log); err != nil {
			return err
		}
	}
	return nil
}

// Stop stops all of them.
func (all Locals) Stop() {
	for _, l := range all {
		l.Stop()
	}
}
