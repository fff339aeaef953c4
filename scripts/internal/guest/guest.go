// Package guest runs QEMU guests, and keeps what they show on their consoles.
package guest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
)

// A Guest is a running QEMU.
type Guest struct {
	Ended chan struct{} // closed when it has ended

	name string
	cmd  *exec.Cmd
	err  error // how it ended, once Ended is closed

	mu      sync.Mutex
	console []string
	lines   chan struct{} // closed and made anew with each line
}

// Start starts a guest in a folder, with an emulated processor and its console on standard output. It ends with the thread
// that has started it.
func Start(name, dir, qemu string, args ...string) (*Guest, error) {
	g := &Guest{name: name, Ended: make(chan struct{}), lines: make(chan struct{})}
	g.cmd = exec.Command(qemu, append([]string{"-accel", "tcg", "-cpu", "max", "-nodefaults", "-no-user-config", "-nographic", "-no-reboot", "-serial", "stdio"}, args...)...)
	g.cmd.Dir = dir
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := g.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	g.cmd.Stderr = g.cmd.Stdout
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		g.read(out)
		g.err = g.cmd.Wait()
		close(g.Ended)
	}()
	return g, nil
}

// maxConsole bounds what is kept of a console, in lines.
const maxConsole = 5000

func (g *Guest) read(r io.Reader) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		g.mu.Lock()
		if len(g.console) < maxConsole {
			g.console = append(g.console, strings.TrimRight(lines.Text(), "\r"))
		}
		close(g.lines)
		g.lines = make(chan struct{})
		g.mu.Unlock()
	}
}

// Console is what the guest has shown so far, and a channel that is closed when it shows more.
func (g *Guest) Console() (lines []string, more <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.console, g.lines
}

// Says waits until a line of the console holds text, and answers the line.
func (g *Guest) Says(ctx context.Context, text string) (string, error) {
	for ended := false; ; {
		lines, more := g.Console()
		for _, line := range lines {
			if strings.Contains(line, text) {
				return line, nil
			}
		}
		if ended {
			return "", fmt.Errorf("the %s ended before it said %q", g.name, text)
		}
		select {
		case <-more:
		case <-g.Ended: // what it said last is there now
			ended = true
		case <-ctx.Done():
			return "", fmt.Errorf("the %s did not say %q: %w", g.name, text, context.Cause(ctx))
		}
	}
}

// AwaitEnd waits for the guest's own end.
func (g *Guest) AwaitEnd(ctx context.Context) error {
	select {
	case <-g.Ended:
		return g.err
	case <-ctx.Done():
		return fmt.Errorf("the %s runs on", g.name)
	}
}

// Kill ends the guest as a loss of power would.
func (g *Guest) Kill() {
	_ = g.cmd.Process.Kill()
	<-g.Ended
}

// With adds the end of the console to an error.
func (g *Guest) With(err error) error {
	lines, _ := g.Console()
	return fmt.Errorf("%w\n-- console of the %s\n%s", err, g.name, strings.Join(lines[max(0, len(lines)-60):], "\n"))
}
