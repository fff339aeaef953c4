// Package laptop stands for a Nitro instance and its operators on a laptop: a data directory with the secrets
// of the simulated enclave, the manifest, the admission key and the first organization. It keeps nothing
// secret from its own machine. The enclave that it starts is the one of production.
package laptop

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"cloister/attestation"
)

// Dir is a data directory. The files under enclave stand for what a real enclave
// keeps nowhere; only the enclave's process reads them.
type Dir struct {
	Path                 string
	APIURL, AuthProxyURL string // as credentials.json tells them
	// Configuration is what the enclave is to run under, of which the manifest holds
	// the hash; empty: none. Boot leaves a copy in configuration.json.
	Configuration []byte
	// Log is what the manifest says of the deployment's logs; nil: what it said before, of a new
	// deployment nothing.
	Log *attestation.LogTerms
	// Drill makes the manifest that of a drill, which names no witnesses: the directory is a copy of another. Such an enclave
	// is joined and not booted, since it makes no organization.
	Drill bool
	// InboxURL and IdentityProviderURL likewise; empty where there are none.
	InboxURL, IdentityProviderURL string
	// AuthProxy turns the proxy of the root organization on at the first boot.
	AuthProxy bool
	// Ranges is how many the deployment gets at the first boot; 0 means 1.
	Ranges int
	// Shares leaves the enclave without a seed file: its root secret is made in shares
	// and brought in by operators, as in production.
	Shares bool
	// Now is the time that requests are stamped with; nil: the machine's.
	Now func() time.Time
	// Patience is how long a step of a boot is asked again while the enclave is busy; 0 means 15 s.
	Patience time.Duration
	// Dial reaches the enclave at an address; nil: over tcp or a unix socket.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

func (d *Dir) now() time.Time {
	if d.Now != nil {
		return d.Now()
	}
	return time.Now()
}

func (d *Dir) file(name string) string { return filepath.Join(d.Path, name) }

// CredentialsFile is where credentials.json lies.
func (d *Dir) CredentialsFile() string { return d.file(fileCredentials) }

const (
	fileCredentials   = "credentials.json"
	fileOrganizations = "organizations.json"
	fileManifest      = "manifest.json"
	fileConfiguration = "configuration.json"
	fileAdmissionKey  = "admission-key"
	fileFirst         = "first-organization.json"
	fileIdentityKeys  = "identity-provider-keys.json"
	fileProxy         = "first-auth-proxy.json"
	fileModuleRoot    = "enclave/module-root"
	fileSeed          = "enclave/seed"
	filePassphrase    = "enclave/passphrase"
)

// readOrMake is what a file holds, which make gives when it is not there yet.
func (d *Dir) readOrMake(name string, make func() ([]byte, error)) ([]byte, error) {
	b, err := os.ReadFile(d.file(name))
	if !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	if b, err = make(); err != nil {
		return nil, err
	}
	err = placeSecret(d.file(name), b, os.Link)
	if errors.Is(err, fs.ErrExist) {
		return os.ReadFile(d.file(name)) // another process was first
	}
	return b, err
}

// writeSecret writes a file that only its owner may read, whole or not at all.
func writeSecret(name string, b []byte) error { return placeSecret(name, b, os.Rename) }

func placeSecret(name string, b []byte, place func(from, to string) error) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(name), ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(b)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return place(tmp.Name(), name)
}
