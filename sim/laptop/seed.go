package laptop

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/crypto/scrypt"

	"cloister/attestation"
	"cloister/enclave/core"
)

// SeedFile keeps the root secret in a file sealed for development: AES-256-GCM under scrypt of a passphrase
// that lies beside it. It keeps nothing secret from its own machine, and every manifest and proof names it.
type SeedFile struct{ Seed, Passphrase string }

var _ core.RootSecret = (*SeedFile)(nil)

// scrypt's cost: quick, since the passphrase is random.
const scryptN, scryptR, scryptP = 1 << 14, 8, 1

const seedName = "cloister development seed 1"

// Source is what manifests call it.
func (s *SeedFile) Source() string { return attestation.SeedDevelopmentFile }

func (s *SeedFile) aead(salt []byte) (cipher.AEAD, error) {
	pass, err := os.ReadFile(s.Passphrase)
	if err != nil {
		return nil, fmt.Errorf("reading the development passphrase: %w", err)
	}
	key, err := scrypt.Key(pass, salt, scryptN, scryptR, scryptP, 32)
	clear(pass)
	if err != nil {
		return nil, err
	}
	defer clear(key)
	b, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(b)
}

// Recover opens the file.
func (s *SeedFile) Recover() (q core.Secret, err error) {
	b, err := os.ReadFile(s.Seed)
	if errors.Is(err, fs.ErrNotExist) {
		return q, core.ErrNoRootSecret
	}
	if err != nil {
		return q, fmt.Errorf("reading the development seed: %w", err)
	}
	if len(b) < 16+12 {
		return q, errors.New("development seed file is too short")
	}
	a, err := s.aead(b[:16])
	if err != nil {
		return q, err
	}
	plain, err := a.Open(nil, b[16:28], b[28:], []byte(seedName))
	if err != nil {
		return q, errors.New("development seed does not open with this passphrase")
	}
	return core.SecretFrom(plain)
}

// Keep writes the file, with a passphrase of its own if there is none.
func (s *SeedFile) Keep(q core.Secret) error {
	if _, err := os.Stat(s.Passphrase); errors.Is(err, fs.ErrNotExist) {
		var p [16]byte
		_, _ = rand.Read(p[:])
		if err := writeSecret(s.Passphrase, hex.AppendEncode(nil, p[:])); err != nil {
			return fmt.Errorf("writing the development passphrase: %w", err)
		}
	}
	head := make([]byte, 16+12)
	_, _ = rand.Read(head)
	a, err := s.aead(head[:16])
	if err != nil {
		return err
	}
	var sealed []byte
	q.Use(func(b []byte) { sealed = a.Seal(head, head[16:28], b, []byte(seedName)) })
	if err := writeSecret(s.Seed, sealed); err != nil {
		return fmt.Errorf("writing the development seed: %w", err)
	}
	return nil
}
