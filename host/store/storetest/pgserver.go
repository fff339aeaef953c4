package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// patience is the timeout for a server's start; no measurement depends on it.
const patience = 5 * time.Minute

// A Server is a PostgreSQL server started by the test, with its default settings
// except the address: fsync and synchronous_commit are on. It listens only on a Unix
// socket in its folder.
type Server struct {
	// DSN is that of the server's database "postgres"; see Database.
	DSN string

	t       testing.TB
	bin     string
	dir     string
	account *syscall.Credential
	process *exec.Cmd
	log     bytes.Buffer
	made    int
}

// StartPostgres creates and starts a server, which stops with the test. Without
// PostgreSQL's programs the test is skipped, or fails under
// CLOISTER_TEST_REQUIRE=all.
func StartPostgres(t testing.TB) *Server {
	t.Helper()
	bin := findPostgres()
	if bin == "" {
		const need = "PostgreSQL's server is not here; Debian has it in package postgresql-15"
		if os.Getenv("CLOISTER_TEST_REQUIRE") == "all" {
			t.Fatal(need)
		}
		t.Skip(need)
	}
	// A socket's path must be short, so t.TempDir is not suitable.
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, bin: bin, dir: dir}
	t.Cleanup(func() {
		s.stop()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := s.initialize(); err != nil {
		t.Fatal(err)
	}
	s.DSN = "postgres:///postgres?user=postgres&host=" + dir
	s.Start()
	return s
}

func findPostgres() string {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.Reverse(dirs)
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, d := range dirs {
		if _, err := os.Stat(filepath.Join(d, "initdb")); err == nil {
			return d
		}
	}
	return ""
}

// initialize creates the data folder. PostgreSQL refuses to run as root, so root
// gives the folder to the account "postgres" or "nobody".
func (s *Server) initialize() error {
	if os.Geteuid() == 0 {
		account, err := unprivilegedUser()
		if err != nil {
			return err
		}
		s.account = account
		if err := os.Chown(s.dir, int(account.Uid), int(account.Gid)); err != nil {
			return err
		}
	}
	cmd := s.command(context.Background(), "initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

func unprivilegedUser() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL will not run as root and there is no account postgres or nobody")
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + s.bin + ":/usr/bin:/bin", "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.account}
	return cmd
}

// Start starts the server and waits until it answers. After Kill9 it first
// recovers.
func (s *Server) Start() {
	s.t.Helper()
	s.log.Reset()
	s.process = s.command(context.Background(), "postgres", "-D", s.data(), "-k", s.dir, "-c", "listen_addresses=")
	s.process.Stdout, s.process.Stderr = &s.log, &s.log
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	for start := time.Now(); time.Since(start) < patience; time.Sleep(20 * time.Millisecond) {
		if s.ask("SELECT 1") == nil {
			return
		}
	}
	s.stop()
	s.t.Fatalf("PostgreSQL does not answer:\n%s", s.log.String())
}

func (s *Server) ask(text string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := pgx.Connect(ctx, s.DSN)
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, text)
	return errors.Join(err, c.Close(ctx))
}

// Database creates an empty database and returns its DSN.
func (s *Server) Database() string {
	s.t.Helper()
	s.made++
	name := fmt.Sprintf("cloister%d", s.made)
	if err := s.ask("CREATE DATABASE " + name); err != nil {
		s.t.Fatal(err)
	}
	return strings.Replace(s.DSN, ":///postgres?", ":///"+name+"?", 1)
}

// Kill9 kills the server and all its processes at once, like a power failure, except
// that the kernel keeps its buffered writes.
func (s *Server) Kill9() {
	s.t.Helper()
	if s.process == nil {
		return
	}
	_ = s.process.Process.Signal(syscall.SIGSTOP) // so that it starts no process that is not listed
	pids := s.children()
	// Kill the postmaster first: it would restart a process that ends before it.
	_ = s.process.Process.Kill()
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = s.process.Wait() // the error "signal: killed" is expected
	s.process = nil
	for _, pid := range pids {
		for start := time.Now(); syscall.Kill(pid, 0) == nil && !ended(pid); time.Sleep(time.Millisecond) {
			if time.Since(start) > patience {
				s.t.Errorf("process %d has not ended", pid)
				break
			}
		}
	}
}

// children returns the processes whose parent is the server.
func (s *Server) children() (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range all {
		if f := stat(path); len(f) > 1 && f[1] == strconv.Itoa(s.process.Process.Pid) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// stat returns the fields of a process after its name: state, parent, ...
func stat(path string) []string {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.Fields(rest)
}

func ended(pid int) bool {
	f := stat(fmt.Sprintf("/proc/%d/stat", pid))
	return len(f) == 0 || f[0] == "Z" || f[0] == "X"
}

// CPU returns the time that the server's processes have used since they started.
func (s *Server) CPU() time.Duration {
	ticks := 0
	for _, pid := range append(s.children(), s.process.Process.Pid) {
		if f := stat(fmt.Sprintf("/proc/%d/stat", pid)); len(f) > 12 {
			user, _ := strconv.Atoi(f[11])
			system, _ := strconv.Atoi(f[12])
			ticks += user + system
		}
	}
	return time.Duration(ticks) * (time.Second / 100)
}

// stop stops the server and waits until it has ended.
func (s *Server) stop() {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Signal(syscall.SIGINT) // fast shutdown
	late := time.AfterFunc(10*time.Second, func() { _ = s.process.Process.Kill() })
	_ = s.process.Wait()
	late.Stop()
	s.process = nil
}
