package programs_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloister/host/programs"
	"cloister/shared/tvc"
	"cloister/shared/tvc/tvctest"
)

// machine starts enclaves that take everything and say that they run; their program is a server of this test.
type machine struct {
	t       *testing.T
	program string // address
	started atomic.Int32
	fail    atomic.Bool
}

func (m *machine) Start(context.Context, bool) (programs.Instance, error) {
	m.started.Add(1)
	if m.fail.Load() {
		return nil, errors.New("no enclave to be had")
	}
	return &instance{m, make(chan struct{})}, nil
}

type instance struct {
	*machine
	done chan struct{}
}

func (i *instance) Done() <-chan struct{} { return i.done }
func (i *instance) Stop()                 {}

func (i *instance) Dial(context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		for {
			kind, length, err := tvc.ReadHead(theirs)
			if err != nil {
				return
			}
			if _, err := tvc.ReadBody(theirs, length); err != nil {
				return
			}
			reply := []byte(`{"state":"running"}`)
			if kind == tvc.Connect {
				program, err := net.Dial("tcp", i.program)
				if err != nil {
					_ = tvc.WriteFrame(theirs, tvc.Refused, []byte(err.Error()))
					return
				}
				if tvc.WriteFrame(theirs, tvc.Done, nil) == nil {
					tvc.Join(theirs, program)
				}
				_ = program.Close()
				return
			}
			if tvc.WriteFrame(theirs, tvc.Done, reply) != nil {
				return
			}
		}
	}()
	return ours, nil
}

type images struct{}

func (images) Program(context.Context, string, string) ([]byte, error) { return []byte("program"), nil }

func soon(d time.Duration) <-chan time.Time { return time.After(d / 1000) }

func order(t *testing.T, check string) *tvc.Run {
	a := tvctest.New(t, []byte("program"), [3][48]byte{{1}}, []byte{1})
	return &tvc.Run{AppID: "app", DeploymentID: "deployment", Envelope: a.Envelope(t, 2), Image: "registry.test/x@sha256:" + strings.Repeat("ab", 32), Path: "/x",
		HealthCheckType: check, HealthCheckPort: 3000, PublicIngressPort: 3000, Replicas: 2}
}

// serve is a program that answers health checks of both kinds, well or not.
func serve(t *testing.T, well *atomic.Bool) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, _ := io.ReadAll(r.Body)
		grpc := r.URL.Path == "/grpc.health.v1.Health/Check" && r.ProtoMajor == 2 && len(asked) == 5 && r.Header.Get("Content-Type") == "application/grpc"
		switch {
		case grpc:
			w.Header().Set("Trailer", "grpc-status")
			status := byte(2)
			if well.Load() {
				status = 1
			}
			_, _ = w.Write([]byte{0, 0, 0, 0, 2, 8, status})
			w.Header().Set("grpc-status", "0")
		case r.URL.Path != "/health" || !well.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return l.Addr().String()
}

// Programs are asked whether they are well; those that are not are started anew.
func TestHealth(t *testing.T) {
	for _, check := range []string{tvc.HealthHTTP, tvc.HealthGRPC} {
		t.Run(check, func(t *testing.T) {
			var well atomic.Bool
			well.Store(true)
			m := &machine{t: t, program: serve(t, &well)}
			h := programs.New(programs.Config{Machine: m, Images: images{}, After: soon})
			defer h.Stop()
			if err := h.Run(t.Context(), order(t, check)); err != nil {
				t.Fatal(err)
			}
			await(t, h, func(r programs.Replica) bool { return r.Healthy })
			if n := m.started.Load(); n != 2 {
				t.Errorf("%d enclaves for two replicas", n)
			}
			well.Store(false)
			await(t, h, func(r programs.Replica) bool { return strings.Contains(r.Failure, "not well") })
			well.Store(true)
			await(t, h, func(r programs.Replica) bool { return r.Healthy })
			m.fail.Store(true)
			well.Store(false)
			await(t, h, func(r programs.Replica) bool { return strings.Contains(r.Failure, "no enclave") })
		})
	}
}

// await waits until all replicas are as they should be.
func await(t *testing.T, h *programs.Host, is func(programs.Replica) bool) {
	t.Helper()
	for {
		all, live, err := h.Status("deployment")
		if err != nil || !live {
			t.Fatalf("live %t: %v", live, err)
		}
		ok := true
		for _, r := range all {
			ok = ok && is(r)
		}
		if ok {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%+v", all)
		case <-time.After(time.Millisecond):
		}
	}
}

func TestOrdersRefused(t *testing.T) {
	h := programs.New(programs.Config{Machine: &machine{t: t}, Images: images{}, After: soon})
	defer h.Stop()
	bad := order(t, tvc.HealthHTTP)
	bad.Envelope.ManifestSetApprovals = nil
	if h.Run(t.Context(), bad) == nil {
		t.Error("an order without approvals was taken")
	}
	if err := h.Run(t.Context(), &tvc.Run{AppID: "app", DeploymentID: "unknown", Stop: true}); err != nil {
		t.Errorf("the end of what does not run: %v", err)
	}
	for name, err := range map[string]error{
		"status": func() error { _, _, err := h.Status("unknown"); return err }(),
		"setups": func() error { _, err := h.Setups(t.Context(), "unknown"); return err }(),
		"proofs": func() error { _, err := h.Proofs(t.Context(), "unknown"); return err }(),
		"output": func() error { _, err := h.Output(t.Context(), "unknown"); return err }(),
		"share":  h.GiveShare(t.Context(), "unknown", "", &tvc.PostedShare{}),
	} {
		if err == nil {
			t.Errorf("%s of a deployment that does not run", name)
		}
	}
}

// nitro-cli's part is played by a script that prints what its documents say.
func TestNitro(t *testing.T) {
	dir := t.TempDir()
	cli := filepath.Join(dir, "nitro-cli")
	script := `#!/bin/sh
cd ` + dir + `
echo "$@" >>asked
case $1 in
run-enclave) echo '{"EnclaveName":"x","EnclaveID":"i-1-enc1","ProcessID":1,"EnclaveCID":17,"NumberOfCPUs":2,"CPUIDs":[1,3],"MemoryMiB":1024}'; touch runs ;;
describe-enclaves) if [ -e runs ]; then echo '[{"EnclaveID":"i-1-enc1","EnclaveCID":17,"State":"RUNNING"}]'; else echo '[]'; fi ;;
terminate-enclave) rm -f runs; echo '{"EnclaveID":"i-1-enc1","Terminated":true}' ;;
*) exit 1 ;;
esac
`
	if err := os.WriteFile(cli, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	n := &programs.Nitro{CLI: cli, Image: "app.eif", CPUs: 2, MemoryMiB: 1024, After: soon}
	i, err := n.Start(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-i.Done():
		t.Error("an enclave that runs is thought to have ended")
	case <-time.After(50 * time.Millisecond):
	}
	i.Stop()
	<-i.Done()
	asked, err := os.ReadFile(filepath.Join(dir, "asked"))
	if err != nil || !strings.HasPrefix(string(asked), "run-enclave --eif-path app.eif --cpu-count 2 --memory 1024 --debug-mode\n") ||
		!strings.Contains(string(asked), "terminate-enclave --enclave-id i-1-enc1\n") {
		t.Errorf("asked %q: %v", asked, err)
	}
	if i, err = n.Start(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "runs")); err != nil {
		t.Fatal(err)
	}
	<-i.Done() // it ended by itself
	i.Stop()
	if _, err := (&programs.Nitro{CLI: "/bin/false", After: soon}).Start(t.Context(), false); err == nil {
		t.Error("started without nitro-cli")
	}
	if _, err := (&programs.Nitro{CLI: "/bin/echo", After: soon}).Start(t.Context(), false); err == nil {
		t.Error("started by what prints no JSON")
	}
}

func TestProcess(t *testing.T) {
	if _, err := (&programs.Process{Command: []string{"/bin/true"}}).Start(t.Context(), false); err == nil {
		t.Error("a process that tells no address was taken")
	}
	i, err := (&programs.Process{Command: []string{"/bin/sh", "-c", "echo tcp://127.0.0.1:1; cat >/dev/null"}}).Start(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.Dial(t.Context()); err == nil {
		t.Error("connected to nobody")
	}
	i.Stop()
	<-i.Done()
}
