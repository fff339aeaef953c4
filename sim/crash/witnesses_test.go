package crash_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/attestation/tlog"
	"cloister/shared/porttest"
	"cloister/sim/laptop"
	"cloister/sim/process"
	"cloister/sim/witness"
)

// Of four witnesses three make a quorum, though one of them lies.
const (
	witnessCount  = 4
	witnessQuorum = 3
)

const (
	killWitness1   victims = 8 << iota
	killWitness2           // without both there is no quorum
	killWitnesses  = 15 * killWitness1
	killNoQuorum   = killWitness1 | killWitness2
	killEverything = killHost | killEnclave | killWitnesses
	allVictims     = killEverything | killPostgres
)

// serveFor is for how long a quorum gives the right to serve: as long as the lease on the store.
const serveFor = 500 * time.Millisecond

// witnessFolder and witnessAddress make this test's program a witness instead.
const (
	witnessFolder  = "CLOISTER_CRASH_WITNESS"
	witnessAddress = "CLOISTER_CRASH_WITNESS_ADDRESS"
)

// logsFile is in the folder of all witnesses: the keys of the logs that they cosign, one a line.
const logsFile = "logs"

// seats are the witnesses of a world, each a process of its own. What they have signed outlasts them.
type seats struct {
	dir     string
	terms   attestation.LogTerms
	address [witnessCount]string
	process [witnessCount]*process.Process

	mu    sync.Mutex
	known []string
}

func newSeats(t *testing.T, mode tlog.Mode) *seats {
	t.Helper()
	s := &seats{dir: filepath.Join(t.TempDir(), "witnesses")}
	var policy strings.Builder
	names := ""
	for i := range witnessCount {
		s.address[i] = porttest.Address(t)
		key, err := witness.ReadKey(filepath.Join(s.folder(i), "key"), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		public, err := tlog.NewKey(filepath.Base(s.folder(i)), tlog.TypeCosignature, key.Public().(ed25519.PublicKey))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&policy, "witness %s %s http://%s\n", public.Name(), public, s.address[i])
		names += " " + public.Name()
	}
	s.terms = attestation.LogTerms{Name: "crash", Policy: fmt.Sprintf("%sgroup all %d%s\nquorum all\n", policy.String(), witnessQuorum, names),
		Tolerates: 1, Mode: mode.String(), ServeMs: uint64(serveFor.Milliseconds())}
	if mode == tlog.ModeBounded {
		s.terms.BoundMs = s.terms.ServeMs
	}
	return s
}

func (s *seats) folder(i int) string { return filepath.Join(s.dir, fmt.Sprint("crash-", i+1)) }

// end kills those witnesses that are among the victims.
func (s *seats) end(v victims) {
	for _, wait := range []bool{false, true} {
		for i, p := range s.process {
			if p == nil || v&(killWitness1<<i) == 0 {
				continue
			}
			if p.Signal(); wait {
				p.Kill()
			}
		}
	}
}

// raise starts those that are down.
func (s *seats) raise(t *testing.T, dir string) error {
	for i, p := range s.process {
		if p.Alive() {
			continue
		}
		if p != nil && !p.Killed() {
			return fmt.Errorf("witness %d ended by itself", i+1)
		}
		cmd := exec.Command(os.Args[0], witnessFolder+"="+s.folder(i), witnessAddress+"="+s.address[i])
		s.process[i] = process.Listen(t, filepath.Join(dir, fmt.Sprintf("witness-%d.log", i+1)), cmd, "")
	}
	return nil
}

// know tells the witnesses of a log.
func (s *seats) know(log *tlog.Key) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.known, log.String()) {
		return nil
	}
	s.known = append(s.known, log.String())
	written := filepath.Join(s.dir, logsFile)
	if err := os.WriteFile(written+".new", []byte(strings.Join(s.known, "\n")), 0o600); err != nil {
		return err
	}
	return os.Rename(written+".new", written)
}

// follow has the witnesses know the logs of the enclave at an address while that boots.
func (s *seats) follow(ctx context.Context, address string) {
	if err := laptop.FollowLogs(ctx, address, s.know); err != nil {
		panic(err)
	}
}

// file has what a manifest says of the logs.
func (s *seats) file() (string, error) {
	b, err := json.Marshal(s.terms)
	if err != nil {
		return "", err
	}
	name := filepath.Join(s.dir, "terms.json")
	return name, os.WriteFile(name, b, 0o600)
}

// runWitness is a witness's process. Its first line says that it listens.
func runWitness(folder, address string) error {
	key, err := witness.ReadKey(filepath.Join(folder, "key"), rand.Reader)
	if err != nil {
		return err
	}
	w, err := witness.New(witness.Options{Name: filepath.Base(folder), Key: key, Dir: filepath.Join(folder, "signed"), Now: time.Now, Patience: time.Second})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Println("listening")
	go func() {
		for ; ; time.Sleep(10 * time.Millisecond) {
			b, err := os.ReadFile(filepath.Join(filepath.Dir(folder), logsFile))
			if err != nil {
				continue // nobody has told of a log yet
			}
			for line := range strings.Lines(string(b)) {
				log, err := tlog.ParseKey(strings.TrimSpace(line))
				if err == nil {
					err = w.Add(log)
				}
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
			}
		}
	}()
	return w.Serve(context.Background(), l)
}

// isWitness makes this process a witness if it was started as one.
func isWitness() {
	var folder, address string
	for _, arg := range os.Args[1:] {
		if s, ok := strings.CutPrefix(arg, witnessFolder+"="); ok {
			folder = s
		}
		if s, ok := strings.CutPrefix(arg, witnessAddress+"="); ok {
			address = s
		}
	}
	if folder == "" {
		return
	}
	if err := runWitness(folder, address); err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(1)
}

// TestCrashWitnessed kills witnesses too: those that a quorum can miss, those that it cannot, and all with the rest.
func TestCrashWitnessed(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: kills of real witnesses")
	}
	for _, mode := range []tlog.Mode{tlog.ModeStrict, tlog.ModeBounded} {
		t.Run(mode.String(), func(t *testing.T) {
			n := share(24, 500)
			crash(t, setting{programs: build(t, ""), lease: shortLease, snapshots: true, witnesses: newSeats(t, mode)}, n,
				killWitness1, killEnclave, killNoQuorum, killHost, killEnclave|killNoQuorum, killHost|killWitness1, killEverything)
		})
	}
}

// TestCrashWitnessedPostgreSQL has the store as a process of its own among the killed.
func TestCrashWitnessedPostgreSQL(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: kills of real witnesses")
	}
	crash(t, setting{programs: build(t, ""), postgres: true, lease: shortLease, snapshots: true, witnesses: newSeats(t, tlog.ModeStrict)}, share(14, 250),
		killPostgres, killPostgres|killWitness1, killEnclave|killPostgres, killEverything|killPostgres)
}
