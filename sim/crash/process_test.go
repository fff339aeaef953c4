package crash_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
)

// process is a running program of ours.
type process struct {
	name   string
	cmd    *exec.Cmd
	done   chan struct{} // closed when it has ended
	killed atomic.Bool   // by us
	first  string        // its first line on stdout, if that was asked for
}

// launch starts a program whose log goes to the end of a file. With firstLine
// it returns once the program has written a line on stdout.
func launch(dir, name string, firstLine bool, program string, args ...string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{name: name, cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.cmd.Stderr = log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer write.Close()
	p.cmd.Stdout = write
	started := make(chan error)
	starts <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		read.Close()
		return nil, fmt.Errorf("starting the %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	write.Close()
	lines := bufio.NewReader(read)
	if firstLine {
		text, err := lines.ReadString('\n')
		if err != nil {
			read.Close()
			<-p.done
			return p, nil // it has ended; alive tells
		}
		p.first = strings.TrimSpace(text)
	}
	go func() {
		defer read.Close()
		for {
			if _, err := lines.ReadString('\n'); err != nil {
				return
			}
		}
	}()
	return p, nil
}

func (p *process) alive() bool {
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

// signal sends SIGKILL and does not wait.
func (p *process) signal() {
	if p.alive() {
		p.killed.Store(true)
		_ = p.cmd.Process.Kill()
	}
}

// kill sends SIGKILL and waits for the end.
func (p *process) kill() {
	if p != nil {
		p.signal()
		<-p.done
	}
}
