package programs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"cloister/host/link"
	"cloister/shared/tvc"
)

// A Process is a Machine for the simulator: its enclaves are processes. The first line that a process prints is the address at
// which it listens. For an enclave in debug mode, "debug" is added to the command.
type Process struct {
	Command []string
	Stderr  io.Writer
}

// Start starts a process that ends with this one.
func (p *Process) Start(ctx context.Context, debug bool) (Instance, error) {
	args := slices.Clone(p.Command[1:])
	if debug {
		args = append(args, "debug")
	}
	cmd := exec.Command(p.Command[0], args...)
	cmd.Stderr = p.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// It ends at the end of its standard input, which comes when this process ends.
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	i := &process{ended: make(chan struct{})}
	i.stop = sync.OnceFunc(func() {
		_ = stdin.Close()
		time.AfterFunc(grace, func() {
			select {
			case <-i.ended:
			default:
				_ = cmd.Process.Kill()
			}
		})
	})
	defer context.AfterFunc(ctx, i.stop)()
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() {
		_ = cmd.Wait()
		close(i.ended)
	}()
	if err != nil {
		i.Stop()
		return nil, errors.New("the process told no address")
	}
	i.address = strings.TrimSpace(line)
	return i, nil
}

// grace is the time that a process gets to end before it is killed.
const grace = 5 * time.Second

type process struct {
	address string
	ended   chan struct{}
	stop    func()
}

func (p *process) Dial(ctx context.Context) (net.Conn, error) { return link.Dial(ctx, p.address) }
func (p *process) Done() <-chan struct{}                      { return p.ended }
func (p *process) Stop()                                      { p.stop(); <-p.ended }

// Nitro is the Machine of production: it starts the base image with nitro-cli, on an instance with Nitro Enclaves. It follows
// the tool's documentation and is untested with the real tool: no such instance is available where this project is tested.
type Nitro struct {
	CLI       string // nitro-cli
	Image     string // file of the base image
	CPUs      int    // 2 at least: whole cores
	MemoryMiB int    // for image and program together
	After     func(time.Duration) <-chan time.Time
}

// described is an enclave in the output of nitro-cli.
type described struct {
	EnclaveID  string
	EnclaveCID uint32
	State      string
}

// watch is the interval at which nitro-cli is asked for the running enclaves.
const watch = 10 * time.Second

// Start runs the image. In debug mode its measurements are zero, so it accepts only a manifest for debug mode.
func (n *Nitro) Start(ctx context.Context, debug bool) (Instance, error) {
	args := []string{"run-enclave", "--eif-path", n.Image, "--cpu-count", strconv.Itoa(n.CPUs), "--memory", strconv.Itoa(n.MemoryMiB)}
	if debug {
		args = append(args, "--debug-mode")
	}
	var d described
	if err := n.ask(ctx, &d, args...); err != nil {
		return nil, err
	}
	if d.EnclaveID == "" || d.EnclaveCID <= 3 {
		return nil, errors.New("nitro-cli names no enclave")
	}
	watching, end := context.WithCancel(context.WithoutCancel(ctx))
	i := &nitro{cli: n, described: d, ended: make(chan struct{}), end: end}
	go i.watch(watching)
	return i, nil
}

func (n *Nitro) ask(ctx context.Context, into any, args ...string) error {
	out, err := exec.CommandContext(ctx, n.CLI, args...).Output()
	if err != nil {
		return fmt.Errorf("nitro-cli %s: %w", args[0], err)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("nitro-cli %s: not the JSON that was expected", args[0])
	}
	return nil
}

type nitro struct {
	described
	cli   *Nitro
	ended chan struct{}
	end   context.CancelFunc
}

func (i *nitro) watch(ctx context.Context) {
	defer close(i.ended)
	for {
		select {
		case <-ctx.Done():
			return
		case <-i.cli.After(watch):
		}
		var all []described
		if i.cli.ask(ctx, &all, "describe-enclaves") != nil {
			continue
		}
		there := false
		for _, d := range all {
			there = there || d.EnclaveID == i.EnclaveID && d.State == "RUNNING"
		}
		if !there {
			return
		}
	}
}

func (i *nitro) Dial(ctx context.Context) (net.Conn, error) {
	return link.Dial(ctx, fmt.Sprintf("vsock://%d:%d", i.EnclaveCID, tvc.Port))
}

func (i *nitro) Done() <-chan struct{} { return i.ended }

func (i *nitro) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = i.cli.ask(ctx, nil, "terminate-enclave", "--enclave-id", i.EnclaveID)
	i.end()
	<-i.ended
}
