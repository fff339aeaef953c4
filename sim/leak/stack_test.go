package leak_test

import (
	"bufio"
	"bytes"
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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cloister/host/store/sqlite"
	"cloister/shared/clocktest"
	"cloister/shared/porttest"
	"cloister/shared/wire"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// build makes one of the product's commands, with the flags of the Makefile.
func build(t *testing.T, pkg, tags string, env ...string) string {
	t.Helper()
	// What go test has seen read it looks at before it answers from its cache;
	// what another go builds it does not see.
	for _, dir := range []string{"enclave", "host", "shared", "sim", "attestation"} {
		if err := filepath.WalkDir("../../"+dir, func(_ string, _ fs.DirEntry, err error) error { return err }); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(t.TempDir(), filepath.Base(pkg))
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", tags, "-o", name, pkg)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", pkg, err, out)
	}
	return name
}

// stack is a running product: enclave, recording proxy, host.
type stack struct {
	t             *testing.T
	dir           string // of the store
	logs, traffic string // folders of what else is searched
	api           string
	authProxy     string // where there is one
	credentials   laptop.Credentials
	enclave, host *exec.Cmd
	enclaveAddr   string
	log           *os.File
	control       *secret
	tenants       []laptop.Organization
	stampMs       atomic.Int64
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
func up(t *testing.T, sim, host string, o settings) *stack {
	t.Helper()
	s := &stack{t: t, dir: t.TempDir(), logs: t.TempDir(), traffic: t.TempDir(), control: o.control}
	s.stampMs.Store(time.Now().UnixMilli())
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
	s.enclave = s.start(sim, true, "enclave", "-data-dir", s.dir, "-enclave-addr", "127.0.0.1:0", "-auth-proxy-unlimited")
	proxy := "tcp://" + record(t, s.traffic, "enclave", strings.TrimPrefix(s.enclaveAddr, "tcp://"))
	s.host = s.start(host, false, append([]string{"serve", "-enclave", proxy, "-store", "sqlite:" + filepath.Join(s.dir, "cloister.db"), "-api-addr", addr, "-auth-proxy-addr", authProxy, "-log-level", "debug"}, o.host...)...)
	w := rig.StartWitnesses(t, rig.WitnessOptions{}) // so that there is something to sign with the keys of logs
	terms, err := json.Marshal(w.Terms)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "terms")
	if err := os.WriteFile(file, terms, 0o600); err != nil {
		t.Fatal(err)
	}
	go w.Follow(t.Context(), t, s.enclaveAddr)
	boot := exec.Command(sim, append([]string{"boot", "-boot-patience", "5m", "-data-dir", s.dir, "-log-terms", file, "-enclave-addr", proxy, "-api-addr", addr, "-organizations", strconv.Itoa(o.organizations - 1)}, o.boot...)...)
	if out, err := boot.CombinedOutput(); err != nil {
		t.Fatalf("booting: %v\n%s", err, out)
	}
	s.readTenants()
	if o.clients {
		s.api, s.authProxy = "http://"+record(t, s.traffic, "client", addr), "http://"+record(t, s.traffic, "visitor", authProxy)
	}
	return s
}

// start starts a process; with address its first line says where it listens.
func (s *stack) start(name string, address bool, args ...string) *exec.Cmd {
	s.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "CLOISTER_LEAK_CONTROL="+string(planted(s.control)))
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	cmd.Stdout, cmd.Stderr = s.log, s.log
	var out io.ReadCloser
	var err error
	if address {
		cmd.Stdout = nil
		if out, err = cmd.StdoutPipe(); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if address {
		if s.enclaveAddr, err = bufio.NewReader(out).ReadString('\n'); err != nil {
			s.t.Fatal(err)
		}
		s.enclaveAddr = strings.TrimSpace(s.enclaveAddr)
	}
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
	read := func(name string, into any) {
		b, err := os.ReadFile(filepath.Join(s.dir, name))
		if err == nil {
			err = json.Unmarshal(b, into)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	c := &s.credentials
	read("credentials.json", c)
	s.tenants = []laptop.Organization{{OrganizationID: c.OrganizationID, RootUserID: c.RootUserID, RootAPIKey: c.RootAPIKey}}
	if _, err := os.Stat(filepath.Join(s.dir, "organizations.json")); err == nil {
		var more []laptop.Organization
		read("organizations.json", &more)
		s.tenants = append(s.tenants, more...)
	}
}

var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}, Timeout: 30 * time.Second}

// ask posts a stamped body until there is an answer.
func (s *stack) ask(path string, body []byte, key laptop.KeyPair) (map[string]any, error) {
	head, err := laptop.Stamp(key, body)
	if err != nil {
		return nil, err
	}
	return post(s.api+"/public/v1/"+path, body, head[0].Name, head[0].Value)
}

// visit posts a body to the auth proxy, as somebody without a key.
func (s *stack) visit(path string, body map[string]any) (map[string]any, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return post(s.authProxy+"/v1/"+path, b, "X-Auth-Proxy-Config-Id", s.credentials.AuthProxyConfigID)
}

// post posts a body with one header until there is an answer.
func post(url string, body []byte, name, value string) (map[string]any, error) {
	for end := time.Now().Add(clocktest.Patience); ; time.Sleep(20 * time.Millisecond) {
		req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set(name, value)
		reply, err := client.Do(req)
		if err == nil {
			b, rerr := io.ReadAll(reply.Body)
			reply.Body.Close()
			var m map[string]any
			switch {
			case rerr != nil:
				err = rerr
			case reply.StatusCode == http.StatusOK:
				return m, json.Unmarshal(b, &m)
			case reply.StatusCode != http.StatusServiceUnavailable:
				return nil, fmt.Errorf("%s: %d %s", url, reply.StatusCode, b)
			default:
				err = fmt.Errorf("%s: %d %s", url, reply.StatusCode, b)
			}
		}
		if time.Now().After(end) {
			return nil, err
		}
	}
}

func (s *stack) submit(o *laptop.Organization, op, typ string, parameters any) (map[string]any, error) {
	body, err := json.Marshal(map[string]any{"type": typ, "timestampMs": strconv.FormatInt(s.stampMs.Add(1), 10), "organizationId": o.OrganizationID, "parameters": parameters,
		"generateAppProofs": true})
	if err != nil {
		return nil, err
	}
	return s.ask("submit/"+op, body, o.RootAPIKey)
}

func (s *stack) query(o *laptop.Organization, op string, request map[string]any) map[string]any {
	s.t.Helper()
	request["organizationId"] = o.OrganizationID
	body, err := json.Marshal(request)
	if err != nil {
		s.t.Fatal(err)
	}
	m, err := s.ask("query/"+op, body, o.RootAPIKey)
	if err != nil {
		s.t.Fatal(err)
	}
	return m
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
		s.query(&s.tenants[0], "whoami", map[string]any{}) // it collects behind calls only
		clocktest.Until(s.t, "the idle enclave has collected its garbage", func() bool { return s.counters()["idle_collections"] > before })
	}
}

// counters are the enclave's own.
func (s *stack) counters() map[string]uint64 {
	s.t.Helper()
	d, err := laptop.DialEnclave(s.t.Context(), s.enclaveAddr)
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
