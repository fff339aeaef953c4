// Package cert gives the host's listeners their certificates: from two files, read anew when they
// change, or from an ACME server.
//
// TLS here protects clients' privacy and gives browsers an origin for passkeys. No key of a user
// and no decision depends on it: the host is not trusted, and neither is a thief of its certificate.
package cert

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
)

// lookEvery is the least time between two looks at the files.
const lookEvery = time.Second

// protocols are those that a listener speaks, the first by preference.
var protocols = []string{"h2", "http/1.1"}

// Files is a certificate chain and its private key, as PEM in two files.
type Files struct {
	cert, key string
	log       *slog.Logger
	now       func() time.Time

	mu     sync.Mutex
	looked time.Time
	stamp  string // of the files that current was read from
	failed string // of those that could not be read, told once
	// current is what clients get. Files that do not fit together, while one of them is being
	// replaced, change nothing.
	current *tls.Certificate
}

// ReadFiles reads both files, and fails if they are no certificate and its key.
func ReadFiles(cert, key string, log *slog.Logger, now func() time.Time) (*Files, error) {
	f := &Files{cert: cert, key: key, log: log, now: now, looked: now()}
	stamp, err := f.version()
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	f.stamp, f.current = stamp, &pair
	return f, nil
}

// Config is for a listener of HTTP.
func (f *Files) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return f.certificate(), nil
	}}
}

// Until tells until when the certificate is good, by its first name.
func (f *Files) Until() map[string]time.Time {
	leaf := f.certificate().Leaf
	name := leaf.Subject.CommonName
	if len(leaf.DNSNames) > 0 {
		name = leaf.DNSNames[0]
	}
	return map[string]time.Time{name: leaf.NotAfter}
}

// version changes when one of the two files does.
func (f *Files) version() (string, error) {
	var b strings.Builder
	for _, name := range []string{f.cert, f.key} {
		i, err := os.Stat(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%d %d ", i.ModTime().UnixNano(), i.Size())
	}
	return b.String(), nil
}

func (f *Files) certificate() *tls.Certificate {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if now.Sub(f.looked) < lookEvery {
		return f.current
	}
	f.looked = now
	stamp, err := f.version()
	if err == nil && stamp == f.stamp {
		return f.current
	}
	var pair tls.Certificate
	if err == nil {
		pair, err = tls.LoadX509KeyPair(f.cert, f.key)
	}
	if err != nil {
		if stamp != f.failed || stamp == "" {
			f.log.Warn("certificate not reloaded, the old one stays in use", "error", err)
		}
		f.failed = stamp
		return f.current
	}
	f.stamp, f.failed, f.current = stamp, "", &pair
	f.log.Info("certificate reloaded", "until", pair.Leaf.NotAfter)
	return f.current
}

// ACME gets certificates from an ACME server.
type ACME struct {
	// Names get a certificate each. A client that asks for another name is refused before the
	// server is asked.
	Names     []string
	Email     string // for the server's messages; may be empty
	Directory string // URL of the server; empty: Let's Encrypt
	Roots     string // file of PEM certificates for the server's own; empty: the system's
	Folder    string // of account key, certificates and their keys; mode 0700
}

// Config is for HTTP listeners. Port 443 of every name must lead to one of them, where the server
// checks that the name is ours (TLS-ALPN-01). Certificates are fetched at the first handshake and
// renewed before they expire. The server's terms count as accepted.
func (a *ACME) Config() (*tls.Config, error) {
	for _, n := range a.Names {
		if !strings.Contains(strings.Trim(n, "."), ".") || strings.ContainsAny(n, "/:* ") {
			return nil, fmt.Errorf("%q is no full host name", n)
		}
	}
	client := &acme.Client{DirectoryURL: a.Directory, UserAgent: "cloister"}
	if a.Directory == "" {
		client.DirectoryURL = autocert.DefaultACMEDirectory
	}
	if a.Roots != "" {
		roots, err := os.ReadFile(a.Roots)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(roots) {
			return nil, errors.New(a.Roots + ": no certificate in it")
		}
		client.HTTPClient = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	}
	if err := os.MkdirAll(a.Folder, 0o700); err != nil {
		return nil, err
	}
	m := &autocert.Manager{Prompt: autocert.AcceptTOS, Cache: autocert.DirCache(a.Folder), HostPolicy: autocert.HostWhitelist(a.Names...), Client: client, Email: a.Email}
	c := m.TLSConfig()
	c.MinVersion = tls.VersionTLS12
	c.NextProtos = slices.Concat(protocols, []string{acme.ALPNProto})
	return c, nil
}

// Until tells, by name, until when the fetched certificates are good. It passes over files that hold
// none: the next handshake fetches one.
func (a *ACME) Until() map[string]time.Time {
	until := map[string]time.Time{}
	for _, name := range a.Names {
		for _, file := range []string{name, name + "+rsa"} {
			text, err := os.ReadFile(filepath.Join(a.Folder, file))
			if err != nil {
				continue
			}
			for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
				if block.Type != "CERTIFICATE" {
					continue
				}
				// The first is the name's own. Of two kinds of key the one that ends first counts.
				if leaf, err := x509.ParseCertificate(block.Bytes); err == nil && (until[name].IsZero() || leaf.NotAfter.Before(until[name])) {
					until[name] = leaf.NotAfter
				}
				break
			}
		}
	}
	return until
}
