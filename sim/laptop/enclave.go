package laptop

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"cloister/enclave/core"
	"cloister/shared/yield"
	"cloister/sim/idp"
	"cloister/sim/nsm"
)

// Digest is the SHA-256 of this program: the simulator's "image". A running
// program does not change, so it is read once.
var Digest = sync.OnceValues(func() (string, error) {
	name, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
})

// Measurements are the simulated PCR0 to 2 of a program.
func Measurements(digest string) (pcrs [3][48]byte) {
	for i := range pcrs {
		pcrs[i] = sha512.Sum384(fmt.Appendf(nil, "cloister simulator PCR%d %s", i, digest))
	}
	return pcrs
}

// ModuleRoot is the throw-away attestation root of a data directory.
func (d *Dir) ModuleRoot() (*nsm.Root, error) {
	b, err := d.readOrMake(fileModuleRoot, func() ([]byte, error) {
		r, err := nsm.NewRoot(rand.Reader, time.Now())
		if err != nil {
			return nil, err
		}
		return r.Marshal()
	})
	if err != nil {
		return nil, err
	}
	if root, read := roots.Load(string(b)); read {
		return root.(*nsm.Root), nil
	}
	root, err := nsm.ParseRoot(b)
	if err != nil {
		return nil, err
	}
	one, _ := roots.LoadOrStore(string(b), root)
	return one.(*nsm.Root), nil
}

// roots are those that were read, by what they were read from: enclaves of one process share the authorities of theirs.
var roots sync.Map

// IdentityKeys are the keys of the simulator's identity provider, made when absent:
// tokens and key sets that others keep stay good over a start.
func (d *Dir) IdentityKeys() (*idp.Keys, error) {
	b, err := d.readOrMake(fileIdentityKeys, func() ([]byte, error) {
		k, err := idp.NewKeys()
		if err != nil {
			return nil, err
		}
		return k.Marshal()
	})
	if err != nil {
		return nil, err
	}
	return idp.ParseKeys(b)
}

// Clock is the machine's clock. Its readings carry the monotonic one.
type Clock struct{}

// Now is the time of day.
func (Clock) Now() time.Time { return time.Now() }

// After is time.After.
func (Clock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Enclave makes the enclave of a data directory, with a security module just
// started. What cfg leaves open is filled in as a laptop has it.
func (d *Dir) Enclave(cfg core.Config) (*core.Core, error) {
	root, err := d.ModuleRoot()
	if err != nil {
		return nil, fmt.Errorf("attestation root: %w", err)
	}
	sum, err := Digest()
	if err != nil {
		return nil, fmt.Errorf("measuring this program: %w", err)
	}
	if cfg.Clock == nil {
		cfg.Clock = Clock{}
	}
	if cfg.Device, err = nsm.New(nsm.Config{Root: root, Now: cfg.Clock.Now, Rand: rand.Reader, PCRs: Measurements(sum), ModuleID: "i-cloistersimulator-enc0"}); err != nil {
		return nil, fmt.Errorf("security module: %w", err)
	}
	cfg.Rand, cfg.Yield = rand.Reader, yield.Thread
	if cfg.Root == nil && !d.Shares {
		cfg.Root = &SeedFile{d.file(fileSeed), d.file(filePassphrase)}
	}
	cfg.Simulator, cfg.ApplicationDigest = true, sum
	return core.New(cfg), nil
}
