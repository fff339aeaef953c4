// Command tls starts pebble, a name server that leads every name here, and the
// host, and looks at the host's certificates as its clients see them.
package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

const (
	name  = "api.cloister.test"
	proxy = "auth.cloister.test"
	other = "other.cloister.test"
	wait  = 5 * time.Minute
)

// A world is the processes and what they need of each other.
type world struct {
	pebble, names, host, dir           string
	apiAddr, proxyAddr, acme, manage   string
	dns, dnsManage, unused, serverRoot string
	roots                              *x509.CertPool // that pebble signs with
	running                            sync.WaitGroup // the processes
}

func main() {
	w := &world{}
	flag.StringVar(&w.pebble, "pebble", "", "pebble")
	flag.StringVar(&w.names, "names", "", "pebble-challtestsrv")
	flag.StringVar(&w.host, "host", "", "cloister-host")
	flag.StringVar(&w.dir, "dir", "", "folder for what is written")
	flag.Parse()
	err := w.run()
	w.running.Wait()
	if err != nil {
		fmt.Fprintln(os.Stderr, "tls:", err)
		os.Exit(1)
	}
}

func (w *world) run() error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	for _, a := range []*string{&w.apiAddr, &w.proxyAddr, &w.acme, &w.manage, &w.dns, &w.dnsManage, &w.unused} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		*a = l.Addr().String()
		defer l.Close()
		if err := l.Close(); err != nil {
			return err
		}
	}
	if err := w.startServers(ctx, 90*24*time.Hour); err != nil {
		return err
	}
	end, err := w.startHost(ctx)
	if err != nil {
		return err
	}
	first, err := w.look(w.apiAddr, name)
	if err != nil {
		return err
	}
	fmt.Println("got at the first handshake:", first.DNSNames)
	second, err := w.look(w.proxyAddr, proxy)
	if err != nil {
		return err
	}
	fmt.Println("the auth proxy's too:", second.DNSNames)
	for _, bad := range []string{other, "", "localhost"} {
		if c, err := w.handshake(w.apiAddr, bad); err == nil {
			return fmt.Errorf("%q: was given %v", bad, c.DNSNames)
		}
	}
	fmt.Println("none for other names")
	if err := w.protocols(); err != nil {
		return err
	}
	end()
	if end, err = w.startHost(ctx); err != nil {
		return err
	}
	again, err := w.look(w.apiAddr, name)
	if err != nil {
		return err
	}
	if again.SerialNumber.Cmp(first.SerialNumber) != 0 {
		return errors.New("a restart asked for another certificate")
	}
	fmt.Println("kept over a restart")
	end()
	return w.checkRenewal(ctx, stop)
}

// checkRenewal: certificates of a minute are renewed when a third of their life is
// left, and no handshake in between fails.
func (w *world) checkRenewal(ctx context.Context, stop func()) error {
	stop()
	w.running.Wait() // the next ones get the same ports
	ctx, stop = context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	if err := os.RemoveAll(filepath.Join(w.dir, "data")); err != nil {
		return err
	}
	if err := w.startServers(ctx, time.Minute); err != nil {
		return err
	}
	end, err := w.startHost(ctx)
	if err != nil {
		return err
	}
	defer end()
	first, err := w.look(w.apiAddr, name)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(wait); ; {
		now, err := w.handshake(w.apiAddr, name)
		if err != nil {
			return fmt.Errorf("while it is renewed: %w", err)
		}
		if now.SerialNumber.Cmp(first.SerialNumber) != 0 {
			fmt.Println("renewed")
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("it is not renewed")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// start runs a program until ctx ends.
func (w *world) start(ctx context.Context, env []string, program string, args ...string) (end func(), err error) {
	log, err := os.OpenFile(filepath.Join(w.dir, filepath.Base(program)+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	c := exec.CommandContext(ctx, program, args...)
	c.Env, c.Stdout, c.Stderr = append(os.Environ(), env...), log, log
	if err := c.Start(); err != nil {
		cancel()
		return nil, err
	}
	done := make(chan struct{})
	w.running.Go(func() { _ = c.Wait(); close(done); _ = log.Close() })
	return func() { cancel(); <-done }, nil
}

// startServers starts pebble, whose certificates are good for so long, behind a
// certificate of a root of its own, and the name server that it asks.
func (w *world) startServers(ctx context.Context, life time.Duration) error {
	if err := w.ownRoot(); err != nil {
		return err
	}
	port := func(address string) int {
		a, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			panic(err) // a listener said so
		}
		return a.Port
	}
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": w.acme, "managementListenAddress": w.manage, "certificate": w.file("server.pem"), "privateKey": w.file("server.key"),
		"retryAfter": map[string]int{"authz": 1, "order": 1}, "httpPort": port(w.unused), "tlsPort": port(w.apiAddr), "profiles": map[string]any{"default": map[string]any{"description": "for tests", "validityPeriod": int(life.Seconds())}},
	}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(w.file("pebble.json"), config, 0o600); err != nil {
		return err
	}
	if _, err := w.start(ctx, nil, w.names, "-dnsserver", w.dns, "-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-management", w.dnsManage, "-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""); err != nil {
		return err
	}
	if _, err := w.start(ctx, []string{"PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=10", "PEBBLE_AUTHZREUSE=0"}, w.pebble, "-config", w.file("pebble.json"), "-dnsserver", w.dns); err != nil {
		return err
	}
	return w.readRoots()
}

func (w *world) file(name string) string { return filepath.Join(w.dir, name) }

// ownRoot makes the certificate that pebble itself is reached by.
func (w *world) ownRoot() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "pebble"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	w.serverRoot = w.file("server.pem")
	if err := os.WriteFile(w.serverRoot, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		return err
	}
	return os.WriteFile(w.file("server.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), 0o600)
}

// readRoots asks pebble what it signs with, which it makes anew at each start.
func (w *world) readRoots() error {
	own, err := os.ReadFile(w.serverRoot)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(own)
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	b, err := await(func() ([]byte, error) {
		r, err := client.Get("https://" + w.manage + "/roots/0")
		if err != nil {
			return nil, err
		}
		defer r.Body.Close()
		return io.ReadAll(r.Body)
	})
	if err != nil {
		return err
	}
	w.roots = x509.NewCertPool()
	if !w.roots.AppendCertsFromPEM(b) {
		return errors.New("pebble tells no root")
	}
	return nil
}

// startHost starts the host without an enclave: its own answers are enough here.
func (w *world) startHost(ctx context.Context) (end func(), err error) {
	end, err = w.start(ctx, nil, w.host, "serve", "-enclave", "tcp://"+w.unused, "-data-dir", w.file("data"), "-api-addr", w.apiAddr, "-auth-proxy-addr", w.proxyAddr,
		"-acme-names", name+","+proxy, "-acme-email", "operator@cloister.test", "-acme-directory", "https://"+w.acme+"/dir", "-acme-roots", w.serverRoot)
	if err != nil {
		return nil, err
	}
	_, err = await(func() (struct{}, error) {
		c, err := net.Dial("tcp", w.apiAddr)
		if err == nil {
			err = c.Close()
		}
		return struct{}{}, err
	})
	return end, err
}

func await[T any](try func() (T, error)) (got T, err error) {
	for deadline := time.Now().Add(wait); ; time.Sleep(20 * time.Millisecond) {
		if got, err = try(); err == nil || time.Now().After(deadline) {
			return got, err
		}
	}
}

// look is a handshake that must succeed, in time.
func (w *world) look(address, name string) (*x509.Certificate, error) {
	c, err := w.handshake(address, name)
	if err != nil {
		b, _ := os.ReadFile(w.file(filepath.Base(w.host) + ".log"))
		p, _ := os.ReadFile(w.file(filepath.Base(w.pebble) + ".log"))
		return nil, fmt.Errorf("%s: %w\n%s\n%s", name, err, tail(b), tail(p))
	}
	if len(c.DNSNames) != 1 || c.DNSNames[0] != name {
		return nil, fmt.Errorf("%s: a certificate for %v", name, c.DNSNames)
	}
	return c, nil
}

func tail(b []byte) []byte { return bytes.TrimSpace(b[max(0, len(b)-2000):]) }

func (w *world) handshake(address, name string) (*x509.Certificate, error) {
	d := &tls.Dialer{NetDialer: &net.Dialer{Timeout: wait}, Config: &tls.Config{RootCAs: w.roots, ServerName: name, InsecureSkipVerify: name == ""}}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

// protocols: both versions of HTTP reach the host through TLS.
func (w *world) protocols() error {
	for _, c := range []struct {
		two  bool
		want int
	}{{true, 2}, {false, 1}} {
		t := &http.Transport{ForceAttemptHTTP2: c.two, TLSClientConfig: &tls.Config{RootCAs: w.roots, ServerName: name}}
		r, err := (&http.Client{Transport: t, Timeout: wait}).Get("https://" + w.apiAddr + "/dashboard/")
		if err != nil {
			return err
		}
		_ = r.Body.Close()
		t.CloseIdleConnections()
		if r.StatusCode != http.StatusOK || r.ProtoMajor != c.want {
			return fmt.Errorf("the dashboard over TLS: %s %s", r.Proto, r.Status)
		}
	}
	fmt.Println("HTTP/2 and HTTP/1.1 are spoken")
	return nil
}
