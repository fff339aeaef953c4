package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"cloister/attestation/request"
	"cloister/host/link"
	"cloister/host/store/open"
	"cloister/shared/wire"
)

// programs are what is measured, as make build leaves it, and where it keeps what.
type programs struct {
	sim, host, data, store string
	state                  int64 // bytes of opened organizations that the enclave may hold
}

// A process is one that this program has started.
type process struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	heap string // the last line about the heap that the collector wrote
}

var heapLine = regexp.MustCompile(`->(\d+) MB, (\d+) MB goal`)

// listen reads what the process says on standard error: what is about the collector is kept, the rest passed on.
func (p *process) listen(r io.Reader) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if m := heapLine.FindSubmatch(lines.Bytes()); m != nil {
			p.mu.Lock()
			p.heap = string(m[1])
			p.mu.Unlock()
		} else {
			fmt.Fprintln(os.Stderr, lines.Text())
		}
	}
}

func (p *process) live() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heap
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Wait()
}

func start(stdout io.Writer, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(name, args...)}
	p.cmd.Env = append(os.Environ(), "GODEBUG=gctrace=1")
	p.cmd.Stdout = stdout
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // with the thread of run
	said, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.listen(said)
	return p, nil
}

// An enclave is a running one and what it may be asked through: a host's process, or this program as the host.
type enclave struct {
	programs
	*process
	address string
	host    *process
	detach  func()
}

// begin starts an enclave that is not booted yet.
func (p programs) begin() (*enclave, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	e := &enclave{programs: p}
	e.process, err = start(w, p.sim, "enclave", "-data-dir", p.data, "-state-bytes", strconv.FormatInt(p.state, 10))
	_ = w.Close()
	if err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(r).ReadString('\n')
	e.address = strings.TrimSpace(line)
	return e, err
}

func (e *enclave) boot(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, e.sim, "boot", "-data-dir", e.data, "-enclave-addr", e.address, "-api-addr", apiAddr, "-auth-proxy-addr", proxyAddr)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("booting: %w: %s", err, out)
	}
	return nil
}

const (
	apiAddr   = "127.0.0.1:18470"
	proxyAddr = "127.0.0.1:18471"
)

// attach puts this program where the host was: the same link and store without HTTP between.
func (e *enclave) attach(ctx context.Context) (*http.Client, error) {
	s, err := open.Open(ctx, e.store)
	if err != nil {
		return nil, err
	}
	l, err := link.New(link.Options{Address: e.address, Calls: 4, StoreTimeout: time.Minute, Store: s, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Pause: func(ctx context.Context, d time.Duration) {
			select {
			case <-ctx.Done():
			case <-time.After(d):
			}
		}})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var ran sync.WaitGroup
	ran.Go(func() { l.Run(ctx) })
	e.detach = func() { cancel(); ran.Wait(); _ = s.Close() }
	for l.Ready() != nil {
		time.Sleep(time.Millisecond)
	}
	return &http.Client{Transport: through{l}}, nil
}

// serve starts the host's program and waits until it is ready.
func (e *enclave) serve() (err error) {
	e.host, err = start(os.Stderr, e.programs.host, "serve", "-enclave", e.address, "-store", e.store, "-api-addr", apiAddr, "-auth-proxy-addr", proxyAddr, "-log-level", "error")
	return err
}

func (e *enclave) ready() error {
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		r, err := http.Get("http://" + apiAddr + "/readyz")
		if err == nil {
			_ = r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return nil
			}
		}
		if time.Since(began) > time.Minute {
			return errors.New("the host does not become ready")
		}
	}
}

// leave ends whatever stands in the host's place.
func (e *enclave) leave() {
	if e.detach != nil {
		e.detach()
		e.detach = nil
	}
	if e.host != nil {
		e.host.stop()
		e.host = nil
	}
}

// end stops the enclave in good order, and the host behind it.
func (e *enclave) end() {
	e.stop()
	e.leave()
}

type through struct{ link *link.Link }

func (t through) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	endpoint := wire.EndpointSubmit
	if strings.HasPrefix(r.URL.Path, "/public/v1/query/") {
		endpoint = wire.EndpointQuery
	}
	reply, err := t.link.Call(r.Context(), &wire.Call{Endpoint: endpoint, Op: path.Base(r.URL.Path), Body: body, WithinMs: 60_000,
		Head: []wire.Header{{Name: request.HeaderStamp, Value: r.Header.Get(request.HeaderStamp)}}})
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: int(reply.Status), Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(reply.Body)), Request: r}, nil
}

// size is what the files below a folder take.
func size(folder string) (n int64) {
	_ = filepath.WalkDir(folder, func(_ string, d os.DirEntry, err error) error {
		switch {
		case err == nil && d.IsDir() && d.Name() == "pg_wal": // its size is a setting
			return filepath.SkipDir
		case err != nil || d.IsDir():
			return nil // a file may go meanwhile
		}
		if i, err := d.Info(); err == nil {
			n += i.Size()
		}
		return nil
	})
	return n
}
