package witnesstest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/mod/sumdb/note"
	_ "modernc.org/sqlite" // litewitness keeps its logs so

	"cloister/attestation/tlog"
	"cloister/sim/witness"
)

// A Starter starts a witness that knows some logs.
type Starter func(t testing.TB, name string, logs ...*tlog.Key) *Program

var (
	_ Starter = Ours
	_ Starter = Litewitness
	_ Starter = Omniwitness
)

// ours makes a test's own program run as a witness. Options follow it in JSON.
const ours = "-run-as-witness"

type oursOptions struct {
	Name, Dir, Address string
	Logs               []string // vkeys
}

// Ours starts sim/witness as a process: the test's program once more, which must call Main.
func Ours(t testing.TB, name string, logs ...*tlog.Key) *Program {
	t.Helper()
	o := oursOptions{Name: name, Dir: t.TempDir()}
	for _, l := range logs {
		o.Logs = append(o.Logs, l.String())
	}
	private, err := witness.ReadKey(filepath.Join(o.Dir, "seed"), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return run(t, o.Dir, cosigner(t, name, private.Public().(ed25519.PublicKey)), func(address string) []string {
		o.Address = address
		b, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		return []string{self, ours, string(b)}
	})
}

// Main runs the tests, or the witness that Ours started.
func Main(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == ours {
		fmt.Fprintln(os.Stderr, serve(os.Args[2]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func serve(options string) error {
	var o oursOptions
	if err := json.Unmarshal([]byte(options), &o); err != nil {
		return err
	}
	private, err := witness.ReadKey(filepath.Join(o.Dir, "seed"), rand.Reader)
	if err != nil {
		return err
	}
	w, err := witness.New(witness.Options{Name: o.Name, Key: private, Dir: o.Dir, Now: time.Now})
	if err != nil {
		return err
	}
	for _, vkey := range o.Logs {
		log, err := tlog.ParseKey(vkey)
		if err != nil {
			return err
		}
		if err := w.Add(log); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", o.Address)
	if err != nil {
		return err
	}
	return w.Serve(context.Background(), l)
}

func cosigner(t testing.TB, name string, public ed25519.PublicKey) *tlog.Key {
	t.Helper()
	k, err := tlog.NewKey(name, tlog.TypeCosignature, public)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Litewitness starts the witness of that name. Its key lies with an agent, which is the test.
func Litewitness(t testing.TB, name string, logs ...*tlog.Key) *Program {
	t.Helper()
	program := built(t, "litewitness")
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "lw") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket, fingerprint := serveAgent(t, dir, private)
	file := filepath.Join(dir, "db")
	p := run(t, dir, cosigner(t, name, public), func(address string) []string {
		return []string{program, "-name", name, "-db", file, "-listen", address, "-key", fingerprint, "-ssh-agent", socket}
	})
	// It makes its tables when it starts, and looks for logs at each request.
	p.add = func(logs []*tlog.Key) { addRows(t, file, logs) }
	p.AddLogs(logs...)
	return p
}

// addRows adds logs without leaves to the database of a litewitness.
func addRows(t testing.TB, file string, logs []*tlog.Key) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	empty := sha256.Sum256(nil)
	for _, l := range logs {
		if _, err := db.Exec("INSERT INTO log VALUES (?, 0, ?)", l.Name(), base64.StdEncoding.EncodeToString(empty[:])); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec("INSERT INTO key VALUES (?, ?)", l.Name(), l.String()); err != nil {
			t.Fatal(err)
		}
	}
}

// serveAgent is an agent with one key.
func serveAgent(t testing.TB, dir string, private ed25519.PrivateKey) (socket, fingerprint string) {
	t.Helper()
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: private}); err != nil {
		t.Fatal(err)
	}
	public, err := ssh.NewPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "agent")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_ = agent.ServeAgent(ring, c) // until the program ends
				_ = c.Close()
			}()
		}
	}()
	return socket, ssh.FingerprintSHA256(public)
}

// Omniwitness starts the witness of that name, which reads its logs once. It asks nobody outside.
func Omniwitness(t testing.TB, name string, logs ...*tlog.Key) *Program {
	t.Helper()
	program := built(t, "omniwitness")
	dir := t.TempDir()
	private, public, err := note.GenerateKey(rand.Reader, name)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(strings.SplitN(public, "+", 3)[2])
	if err != nil || len(raw) != 1+ed25519.PublicKeySize {
		t.Fatal(public, err)
	}
	write := func(file, text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key, known, list := filepath.Join(dir, "key"), filepath.Join(dir, "logs.yaml"), "Logs:\n"
	addToList := func(logs []*tlog.Key) {
		for _, l := range logs {
			list += fmt.Sprintf("  - Origin: %q\n    PublicKey: %q\n    URL: \"http://127.0.0.1:1\"\n", l.Name(), l.String())
		}
		write(known, list)
	}
	write(key, private)
	addToList(logs)
	p := run(t, dir, cosigner(t, name, ed25519.PublicKey(raw[1:])), func(address string) []string {
		return []string{program, "-listen", address, "-metrics_listen", "", "-db_file", filepath.Join(dir, "db"), "-private_key_path", key, "-additional_logs", known}
	})
	p.add = func(logs []*tlog.Key) {
		addToList(logs)
		p.Kill()
		p.Start()
	}
	return p
}

// Policy is the tlog-policy by which so many of some witnesses make a quorum.
func Policy(needed int, of ...*Program) string {
	text, members := "", ""
	for _, p := range of {
		text, members = text+fmt.Sprintf("witness %s %s %s\n", p.Key.Name(), p.Key, p.URL), members+" "+p.Key.Name()
	}
	return fmt.Sprintf("%sgroup all %d%s\nquorum all\n", text, needed, members)
}

// Torchwood verifies a proof of a leaf as filippo.io/torchwood does, by a policy that names the log. It gives the reason of
// a refusal, or nothing.
func Torchwood(t testing.TB, policy string, leaf []byte, proof string) (refusal string) {
	t.Helper()
	question, err := json.Marshal(map[string]any{"policy": policy, "leaf": leaf, "proof": proof})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(built(t, "proofjudge"))
	cmd.Stdin = bytes.NewReader(question)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if said := strings.TrimSpace(string(out)); said != "ok" {
		return said
	}
	return ""
}

// TorchwoodTiles reads a log by its tiles as filippo.io/torchwood does, by a policy that names the log. It gives how many
// leaves it has read, and the SHA-256 of all behind each other, or the reason of a refusal.
func TorchwoodTiles(t testing.TB, policy, prefix string) (said string, ok bool) {
	t.Helper()
	cmd := exec.Command(built(t, "tilesjudge"), prefix)
	cmd.Stdin = strings.NewReader(policy)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err == nil
}

// built is a program of others, which is built once into CLOISTER_CACHE. Their modules are listed in sim/witness/programs.
// Without them the test is skipped, or fails under CLOISTER_TEST_REQUIRE=all.
func built(t testing.TB, program string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("left to make campaign: the witnesses of others")
	}
	dir, err := programs()
	if err != nil {
		need(t, "the witnesses of others: a Go module proxy must serve the modules of sim/witness/programs/go.mod", err)
	}
	return filepath.Join(dir, program)
}

var programs = sync.OnceValues(func() (string, error) {
	tool := os.Getenv("GO")
	if tool == "" {
		tool = "go"
	}
	root, err := exec.Command(tool, "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", err
	}
	modules := filepath.Join(strings.TrimSpace(string(root)), "sim", "witness", "programs")
	var source []byte
	for _, name := range []string{"go.mod", "go.sum", "proofjudge/main.go", "tilesjudge/main.go"} {
		b, err := os.ReadFile(filepath.Join(modules, name))
		if err != nil {
			return "", err
		}
		source = append(source, b...)
	}
	version, err := exec.Command(tool, "version").Output()
	if err != nil {
		return "", err
	}
	cache := os.Getenv("CLOISTER_CACHE")
	if cache == "" {
		if cache, err = os.UserCacheDir(); err != nil {
			return "", err
		}
		cache = filepath.Join(cache, "cloister")
	}
	cache = filepath.Join(cache, "engines")
	dir := filepath.Join(cache, fmt.Sprintf("witnesses-%x", sha256.Sum256(append(source, version...)))[:len("witnesses-")+16])
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", err
	}
	// A name of its own until it is whole: two runs may build at once.
	scratch, err := os.MkdirTemp(cache, "building.")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(scratch)
	cmd := exec.Command(tool, "install", "tool")
	cmd.Dir = modules
	cmd.Env = append(os.Environ(), "GOBIN="+scratch, "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, bytes.TrimSpace(out[max(0, len(out)-2<<10):]))
	}
	if err := os.Rename(scratch, dir); err != nil {
		if _, other := os.Stat(dir); other != nil {
			return "", err
		}
	}
	return dir, nil
})
