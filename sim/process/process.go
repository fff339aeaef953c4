// Package process builds programs and runs them for tests. What runs ends with its test, and with the process of the tests, however
// that ends.
package process

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// Build builds a command into a file, as the Makefile does, and returns the file. The variables are set besides this process's own.
func Build(t testing.TB, file, from, tags string, variables ...string) string {
	t.Helper()
	tool := os.Getenv("GO")
	if tool == "" {
		tool = "go"
	}
	cmd := exec.Command(tool, "build", "-trimpath", "-buildvcs=false", "-tags", tags, "-o", file, from)
	cmd.Env = append(os.Environ(), variables...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", from, err, out)
	}
	return file
}

// A Process is a program that was started.
type Process struct {
	Cmd    *exec.Cmd
	Said   string // what Listen waited for
	done   chan struct{}
	err    error
	killed atomic.Bool
}

// starts carries every start of a process to one thread that never ends: a child's death signal comes when the thread that started
// it ends, and must come when this process does.
var starts = sync.OnceValue(func() chan<- func() {
	all := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range all {
			start()
		}
	}()
	return all
})

// Start starts a command. What it writes to stderr is added to the file log; without a name it goes where the command says.
func Start(t testing.TB, log string, cmd *exec.Cmd) *Process {
	t.Helper()
	if log != "" {
		file, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		cmd.Stderr = file
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p, started := &Process{Cmd: cmd, done: make(chan struct{})}, make(chan error)
	starts() <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		t.Fatalf("starting %s: %v", cmd.Path, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(p.Kill)
	return p
}

// Listen starts a command and waits for a line on stdout that has a word, say where the process listens. Said is what follows the
// word, empty if the process ended before.
func Listen(t testing.TB, log string, cmd *exec.Cmd, word string) *Process {
	t.Helper()
	read, write := io.Pipe()
	cmd.Stdout = write
	p := Start(t, log, cmd)
	go func() {
		<-p.done
		_ = write.Close()
	}()
	for lines := bufio.NewReader(read); ; {
		text, err := lines.ReadString('\n')
		if err != nil {
			return p
		}
		if _, said, ok := strings.Cut(text, word); ok {
			p.Said = strings.TrimSpace(said)
			go func() { _, _ = io.Copy(io.Discard, lines) }()
			return p
		}
	}
}

// Wait waits until the process has ended, and tells how.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Alive tells that the process was started and has not ended.
func (p *Process) Alive() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Killed tells that the process was sent SIGKILL from here.
func (p *Process) Killed() bool { return p.killed.Load() }

// Signal sends SIGKILL and does not wait.
func (p *Process) Signal() {
	if p.Alive() {
		p.killed.Store(true)
		_ = p.Cmd.Process.Kill()
	}
}

// Kill sends SIGKILL and waits for the end.
func (p *Process) Kill() {
	if p.Signal(); p != nil {
		<-p.done
	}
}
