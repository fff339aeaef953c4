package deployment

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"cloister/attestation/request"
)

// A Simulator is a process of cloister-sim on loopback, which is started and killed.
type Simulator struct {
	Dir string       // where it keeps what it has: sim, its data directory, and sim.log
	API *request.API // as the root key uses it, once the simulator has started

	binary          string
	port, proxyPort int
	process         *os.Process
	ended           chan struct{} // closed when the process has ended
}

// Flags puts the simulator's settings on the command line.
func (s *Simulator) Flags() {
	flag.StringVar(&s.binary, "sim", "bin/cloister-sim", "the simulator")
	flag.StringVar(&s.Dir, "dir", "", "folder for what it keeps")
	flag.IntVar(&s.port, "port", 0, "for the interface")
	flag.IntVar(&s.proxyPort, "proxy-port", 0, "for the auth proxy")
}

// URL is that of the public interface.
func (s *Simulator) URL() string { return fmt.Sprintf("http://127.0.0.1:%d", s.port) }

// HostBinary is cloister-host, which lies beside the simulator.
func (s *Simulator) HostBinary() string {
	return filepath.Join(filepath.Dir(s.binary), "cloister-host")
}

func (s *Simulator) data() string { return filepath.Join(s.Dir, "sim") }

// Start starts the simulator with flags and environment besides its own, and waits until it answers.
func (s *Simulator) Start(env []string, args ...string) error {
	name := filepath.Join(s.Dir, "sim.log")
	log, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(s.binary, append(args, "-data-dir", s.data(),
		"-api-addr", "127.0.0.1:"+strconv.Itoa(s.port), "-auth-proxy-addr", "127.0.0.1:"+strconv.Itoa(s.proxyPort))...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	s.process, s.ended = cmd.Process, ended
	go func() { _ = cmd.Wait(); close(ended) }()
	for range 600 {
		select {
		case <-ended:
			text, _ := os.ReadFile(name)
			return fmt.Errorf("the simulator ended: %s", text[max(0, len(text)-2000):])
		case <-time.After(100 * time.Millisecond):
		}
		if _, err := s.Get("/readyz"); err == nil {
			s.API, err = Root(s.data(), &http.Client{Timeout: 30 * time.Second})
			return err
		}
	}
	return errors.New("the simulator does not answer")
}

// Kill ends the simulator and with it host and enclave, as kill -9 does.
func (s *Simulator) Kill() {
	if s.process == nil {
		return
	}
	_ = s.process.Kill()
	<-s.ended
	time.Sleep(200 * time.Millisecond) // the others die with it, a moment later
}

// KillHost ends the host alone, as kill -9 does, and waits for the others to follow.
func (s *Simulator) KillHost() error {
	pids, err := Pids(s.data())
	if err != nil {
		return err
	}
	if pids["host"] == 0 {
		return errors.New("no host among the processes")
	}
	p, err := os.FindProcess(pids["host"])
	if err != nil {
		return err
	}
	if err := p.Kill(); err != nil {
		return err
	}
	select {
	case <-s.ended:
		return nil
	case <-time.After(5 * time.Minute):
		return errors.New("the simulator goes on without its host")
	}
}

// Get gets a document that everybody may read.
func (s *Simulator) Get(path string) ([]byte, error) {
	r, err := http.Get(s.URL() + path)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: status %d", path, r.StatusCode)
	}
	return io.ReadAll(r.Body)
}

var alarm = regexp.MustCompile(`(?m)^cloister_enclave_alarms_total\{alarm="(\w+)",enclave="[^"]*"\} (\d+)$`)

// NoAlarms is an error if the enclave has caught its host at anything.
func (s *Simulator) NoAlarms() error {
	text, err := s.Get("/metrics")
	if err != nil {
		return err
	}
	all := alarm.FindAllSubmatch(text, -1)
	if len(all) == 0 {
		return errors.New("there are no alarms to read")
	}
	for _, a := range all {
		if string(a[2]) != "0" {
			return fmt.Errorf("alarm %s was raised %s times", a[1], a[2])
		}
	}
	return nil
}
