package leak_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/host/store/sqlite"
	"cloister/shared/clocktest"
	"cloister/shared/porttest"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/laptop"
	"cloister/sim/process"
	"cloister/sim/rig"
)

// programs are the product's commands.
type programs struct{ sim, host string }

// build makes them, the simulator with an experiment of the toolchain.
func build(t *testing.T, experiment string) programs {
	t.Helper()
	// What go test has seen read it looks at before it answers from its cache;
	// what another go builds it does not see.
	for _, dir := range []string{"enclave", "host", "shared", "sim", "attestation"} {
		if err := filepath.WalkDir("../../"+dir, func(_ string, _ fs.DirEntry, err error) error { return err }); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	return programs{process.Build(t, filepath.Join(dir, "sim"), "cloister/sim", "", "GOEXPERIMENT="+experiment),
		process.Build(t, filepath.Join(dir, "host"), "cloister/host", "")}
}

// stack is a running product: enclave, recording proxy, host.
type stack struct {
	t             *testing.T
	dir           string // of the store
	logs, traffic string // folders of what else is searched
	api           string
	authProxy     string // where there is one
	credentials   *laptop.Credentials
	enclave, host *process.Process
	log           *os.File
	control       *secret
	tenants       []*client.User // root users, who ask for proofs
	times         client.Times
}

// settings are what a stack has besides.
type settings struct {
	organizations int
	control       *secret
	boot, host    []string // flags
	clients       bool     // an auth proxy, and what clients send is recorded too
}

// up starts everything, with the control planted in the environments of both
// processes and in the store.
func up(t *testing.T, p programs, o settings) *stack {
	t.Helper()
	s := &stack{t: t, dir: t.TempDir(), logs: t.TempDir(), traffic: t.TempDir(), control: o.control}
	s.plantInStore("leak-control-before")
	var err error
	if s.log, err = os.Create(filepath.Join(s.logs, "log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.log.Close() })
	addr, authProxy := porttest.Address(t), "off"
	s.api = "http://" + addr
	if o.clients {
		authProxy = porttest.Address(t)
		s.authProxy = "http://" + authProxy
	}
	s.enclave = process.Listen(t, "", s.command(p.sim, "enclave", "-data-dir", s.dir, "-enclave-addr", "127.0.0.1:0", "-auth-proxy-unlimited"), "")
	if s.enclave.Said == "" {
		t.Fatal("the enclave did not start")
	}
	proxy := "tcp://" + record(t, s.traffic, "enclave", strings.TrimPrefix(s.enclave.Said, "tcp://"))
	s.host = process.Start(t, "", s.command(p.host, append([]string{"serve", "-enclave", proxy, "-store", "sqlite:" + filepath.Join(s.dir, "cloister.db"),
		"-api-addr", addr, "-auth-proxy-addr", authProxy, "-log-level", "debug"}, o.host...)...))
	w := rig.StartWitnesses(t, rig.WitnessOptions{}) // so that there is something to sign with the keys of logs
	terms, err := json.Marshal(w.Terms)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "terms")
	if err := os.WriteFile(file, terms, 0o600); err != nil {
		t.Fatal(err)
	}
	go w.Follow(t.Context(), t, s.enclave.Said)
	boot := exec.Command(p.sim, append([]string{"boot", "-boot-patience", "5m", "-data-dir", s.dir, "-log-terms", file, "-enclave-addr", proxy, "-api-addr", addr, "-organizations", strconv.Itoa(o.organizations - 1)}, o.boot...)...)
	if out, err := boot.CombinedOutput(); err != nil {
		t.Fatalf("booting: %v\n%s", err, out)
	}
	s.readTenants()
	if o.clients {
		s.api, s.authProxy = "http://"+record(t, s.traffic, "client", addr), "http://"+record(t, s.traffic, "visitor", authProxy)
	}
	return s
}

// command is a command with the control in its environment.
func (s *stack) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "CLOISTER_LEAK_CONTROL="+string(planted(s.control)))
	cmd.Stdout, cmd.Stderr = s.log, s.log
	return cmd
}

// record records everything on the way to an address, each direction of each
// connection in a file. Its own address is answered.
func record(t *testing.T, dir, name, to string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for n := 0; ; n++ {
			from, err := l.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", to)
			if err != nil {
				_ = from.Close()
				continue
			}
			cut := sync.OnceFunc(func() { _, _ = from.Close(), there.Close() })
			for direction, way := range map[string][2]net.Conn{"in": {from, there}, "out": {there, from}} {
				go func() {
					defer cut()
					f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%s-%d-%s", name, n, direction)))
					if err != nil {
						return
					}
					defer f.Close()
					_, _ = io.Copy(io.MultiWriter(f, way[1]), way[0]) // recorded, or not passed on
				}()
			}
		}
	}()
	return l.Addr().String()
}

// plantInStore stores the control beside the host, in the host's way.
func (s *stack) plantInStore(name string) {
	s.t.Helper()
	db, err := sqlite.Open(s.t.Context(), filepath.Join(s.dir, "cloister.db"))
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err = db.PutObject(s.t.Context(), wire.PutObject{Name: name, Bytes: planted(s.control)}); err != nil {
		s.t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stack) readTenants() {
	s.t.Helper()
	dir := &laptop.Dir{Path: s.dir}
	c, err1 := dir.ReadCredentials()
	more, err2 := dir.Organizations()
	if err1 != nil || err2 != nil || c == nil {
		s.t.Fatal("no credentials: ", err1, err2)
	}
	s.credentials = c
	first := laptop.Organization{OrganizationID: c.OrganizationID, RootUserID: c.RootUserID, RootAPIKey: c.RootAPIKey}
	for _, o := range append([]laptop.Organization{first}, more...) {
		root := &client.Client{Send: s.send, Times: &s.times, Organization: o.OrganizationID, User: o.RootUserID, Key: o.RootAPIKey, Proofs: true}
		s.tenants = append(s.tenants, root.In(s.t))
	}
}

var httpClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}, Timeout: 30 * time.Second}

// pause is between two attempts.
const pause = 20 * time.Millisecond

// send sends until there is an answer that is not "try again".
func (s *stack) send(ctx context.Context, q *client.Request) (client.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, clocktest.Patience)
	defer cancel()
	return client.HTTP(httpClient, s.api).Again(pause)(ctx, q)
}

// visit posts a body to the auth proxy, as somebody without a key, until there is an answer.
func (s *stack) visit(path string, body client.Object) (client.Object, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), clocktest.Patience)
	defer cancel()
	r, err := client.HTTP(httpClient, s.authProxy).Again(pause)(ctx, &client.Request{Endpoint: wire.EndpointProxy, Op: path,
		Head: []wire.Header{{Name: "X-Auth-Proxy-Config-Id", Value: s.credentials.AuthProxyConfigID}}, Body: b})
	m := r.JSON()
	if err == nil && (r.Status != http.StatusOK || m == nil) {
		err = fmt.Errorf("%s: %v", path, r)
	}
	return m, err
}

// half sends the control in a request that does not end: the host keeps what it
// has of it.
func (s *stack) half() {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.api, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	b := planted(s.control)
	fmt.Fprintf(c, "POST /public/v1/query/whoami HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", len(b)+1)
	if _, err := c.Write(b); err != nil {
		s.t.Fatal(err)
	}
}

// pass sends the control through host and proxy to the enclave, which refuses it.
func (s *stack) pass() {
	s.t.Helper()
	r, err := http.Post(s.api+"/public/v1/query/whoami", "application/json", bytes.NewReader(planted(s.control)))
	if err != nil {
		s.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, r.Body)
	r.Body.Close()
	if r.StatusCode == http.StatusOK {
		s.t.Fatal("the control was accepted as a request")
	}
}

// collected waits until the enclave has collected its garbage as an idle one, twice: it may have begun the first time before
// the last call.
func (s *stack) collected() {
	s.t.Helper()
	for range 2 {
		before := s.counters()["idle_collections"]
		s.tenants[0].Read("whoami", nil) // it collects behind calls only
		clocktest.Until(s.t, "the idle enclave has collected its garbage", func() bool { return s.counters()["idle_collections"] > before })
	}
}

// counters are the enclave's own.
func (s *stack) counters() map[string]uint64 {
	s.t.Helper()
	d, err := laptop.DialEnclave(s.t.Context(), s.enclave.Said)
	if err != nil {
		s.t.Fatal(err)
	}
	defer d.Close()
	var st struct{ Counters map[string]uint64 }
	if err := d.Call(s.t.Context(), "status", nil, nil, &st); err != nil {
		s.t.Fatal(err)
	}
	return st.Counters
}
