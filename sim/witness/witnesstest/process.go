package witnesstest

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"cloister/attestation/tlog"
	"cloister/shared/porttest"
)

// startWait is how long a program may take until it listens.
const startWait = 5 * time.Minute

// A Program is a witness that runs as a process of its own, at the same address whenever it is started. It ends with the test.
type Program struct {
	Key *tlog.Key
	URL string // its submission prefix

	t       testing.TB
	address string
	log     string
	argv    []string
	add     func([]*tlog.Key)
	cmd     *exec.Cmd
	done    chan struct{} // closed when it has ended
}

// run starts a program, whose arguments follow from the address that it is to listen at.
func run(t testing.TB, dir string, key *tlog.Key, argv func(address string) []string) *Program {
	t.Helper()
	address := porttest.Address(t)
	p := &Program{Key: key, URL: "http://" + address, t: t, address: address, log: filepath.Join(dir, "log"), argv: argv(address)}
	p.Start()
	t.Cleanup(func() {
		p.Kill()
		if b, err := os.ReadFile(p.log); t.Failed() && err == nil {
			t.Logf("the end of the log of %s:\n%s", key.Name(), b[max(0, len(b)-4<<10):])
		}
	})
	return p
}

// Start starts it, again after Kill, and returns when it listens.
func (p *Program) Start() {
	p.t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	cmd, done := exec.Command(p.argv[0], p.argv[1:]...), make(chan struct{})
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := start(cmd); err != nil {
		p.t.Fatal(err)
	}
	p.cmd, p.done = cmd, done
	go func() {
		_ = cmd.Wait() // it is killed
		close(done)
	}()
	for deadline := time.Now().Add(startWait); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial("tcp", p.address)
		if err == nil {
			_ = c.Close()
			return
		}
		select {
		case <-p.done:
			b, err := os.ReadFile(p.log)
			p.t.Fatalf("%s did not start: %s %v", p.argv[0], b[max(0, len(b)-4<<10):], err)
		default:
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s does not listen: %v", p.argv[0], err)
		}
	}
}

// AddLogs makes logs known to a Litewitness, while it runs, or to an Omniwitness, which is killed and started again.
func (p *Program) AddLogs(logs ...*tlog.Key) {
	p.t.Helper()
	if p.add == nil {
		p.t.Fatalf("%s knows the logs that it was started with", p.Key.Name())
	}
	p.add(logs)
}

// Kill ends it with SIGKILL.
func (p *Program) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// starts carries every start to one thread that never ends: a child's death signal comes when the thread that started it
// ends, and must come when this process does, however it ends.
var starts = sync.OnceValue(func() chan<- func() {
	c := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range c {
			f()
		}
	}()
	return c
})

func start(cmd *exec.Cmd) error {
	failed := make(chan error)
	starts() <- func() { failed <- cmd.Start() }
	return <-failed
}

// need leaves a test out for want of something, or fails it under CLOISTER_TEST_REQUIRE=all.
func need(t testing.TB, what string, err error) {
	t.Helper()
	if os.Getenv("CLOISTER_TEST_REQUIRE") == "all" {
		t.Fatal(errors.Join(errors.New(what), err))
	}
	t.Skip(errors.Join(errors.New(what), err))
}
