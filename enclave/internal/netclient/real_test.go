//go:build outward_real

// Mail through aiosmtpd, over TLS with a private root. scripts/outward/test.sh runs it, for it wants a Debian package.

package netclient_test

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cloister/enclave/internal/netclient"
	"cloister/enclave/internal/secret/secrettest"
)

// arrived is one message as aiosmtpd saw it.
type arrived struct {
	Door, User, From, Content string
	To                        []string
}

// aiosmtpd starts the server: its ports by name, and what arrives.
func aiosmtpd(t *testing.T) (map[string]uint16, <-chan arrived) {
	dir := t.TempDir()
	key := must(x509.MarshalPKCS8PrivateKey(valid.PrivateKey))
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: valid.Certificate[0]})
	for name, b := range map[string][]byte{"cert.pem": chain, "key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Debian's own Python has the package; one that comes first in the path may not.
	cmd := exec.Command("/usr/bin/python3", "../../../scripts/outward/mail.py", filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	cmd.Stderr = os.Stderr
	in, out := must(cmd.StdinPipe()), must(cmd.StdoutPipe())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := json.NewDecoder(bufio.NewReader(out))
	var ports map[string]uint16
	err := lines.Decode(&ports)
	// Read as it comes: the server says what has arrived before it answers.
	messages := make(chan arrived, 100)
	go func() {
		defer close(messages)
		for {
			var m arrived
			if lines.Decode(&m) != nil {
				return
			}
			messages <- m
		}
	}()
	t.Cleanup(func() { // it ends when its input does
		_ = in.Close()
		for range messages {
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return ports, messages
}

// toPort dials the port that is asked for on this machine.
func toPort(ctx context.Context, _ string, port uint16) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
}

func TestRealMailServer(t *testing.T) {
	settled(t)
	ports, messages := aiosmtpd(t)
	server := func(port string, s netclient.Security) netclient.MailServer {
		return netclient.MailServer{Host: "localhost", Port: ports[port], Security: s, User: "user", Password: secrettest.Of([]byte("pass word"))}
	}
	good := client(t, toPort, onLoopback)
	texts := []string{message, ".\r\n", "..\r\n.\r\n", "\r\n", strings.Repeat("."+strings.Repeat("x", 997)+"\r\n", 200)}
	for _, c := range []struct {
		port     string
		security netclient.Security
	}{{"starttls", netclient.StartTLS}, {"login", netclient.StartTLS}, {"tls", netclient.TLS}, {"plain", netclient.Plain}} {
		for _, text := range texts {
			m := netclient.Mail{From: "from@example.com", To: "to+tag@example.com", Message: []byte(text)}
			if o := good.Submit(t.Context(), server(c.port, c.security), m); o.Result != netclient.Delivered {
				t.Errorf("%s: %+v", c.port, o)
				continue
			}
			if got := <-messages; got.Door != c.port || got.User != "user" || got.From != m.From || !slices.Equal(got.To, []string{m.To}) || got.Content != text {
				t.Errorf("%s: %.200q arrived as %.200q from %s to %s by %s", c.port, text, got.Content, got.From, got.To, got.User)
			}
		}
	}
	wrong := func(s netclient.MailServer) netclient.MailServer {
		s.Password = secrettest.Of([]byte("wrong"))
		return s
	}
	nobody := func(s netclient.MailServer) netclient.MailServer { s.User = ""; return s }
	unbelieving := client(t, toPort, onLoopback, func(c *netclient.Config) { c.Roots = unrelated.pool() })
	for _, c := range []struct {
		name   string
		client *netclient.Client
		server netclient.MailServer
		to     string
		result netclient.Result
		code   int
		kind   netclient.Kind
	}{
		{"wrong password", good, wrong(server("starttls", netclient.StartTLS)), "to@example.com", netclient.Permanent, 535, 0},
		{"wrong password, LOGIN", good, wrong(server("login", netclient.StartTLS)), "to@example.com", netclient.Permanent, 535, 0},
		{"nobody", good, nobody(server("starttls", netclient.StartTLS)), "to@example.com", netclient.Permanent, 530, 0},
		{"unknown recipient", good, server("tls", netclient.TLS), "nobody@example.com", netclient.Permanent, 550, 0},
		{"later", good, server("tls", netclient.TLS), "later@example.com", netclient.Temporary, 451, 0},
		{"spam", good, server("tls", netclient.TLS), "spam@example.com", netclient.Permanent, 554, 0},
		{"no STARTTLS", good, server("plain", netclient.StartTLS), "to@example.com", netclient.Temporary, 250, 0},
		{"no TLS", good, server("plain", netclient.TLS), "to@example.com", netclient.Temporary, 0, netclient.Garbled},
		{"another root", unbelieving, server("starttls", netclient.StartTLS), "to@example.com", netclient.Temporary, 220, netclient.Untrusted},
		{"another root, TLS", unbelieving, server("tls", netclient.TLS), "to@example.com", netclient.Temporary, 0, netclient.Untrusted},
	} {
		o := c.client.Submit(t.Context(), c.server, netclient.Mail{From: "from@example.com", To: c.to, Message: []byte(message)})
		if o.Result != c.result || o.Code != c.code || netclient.KindOf(o.Err) != c.kind {
			t.Errorf("%s: %+v", c.name, o)
		}
	}
	// Nothing of that arrived: the next that does is this one.
	if o := good.Submit(t.Context(), server("tls", netclient.TLS), letter); o.Result != netclient.Delivered {
		t.Errorf("%+v", o)
	}
	if last := <-messages; !slices.Equal(last.To, []string{letter.To}) || last.Content != message {
		t.Errorf("%+v", last)
	}
}
