package ranges

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/seal"
	"cloister/shared/wire"
)

// Between a hand-over and its farewell two enclaves have the keyring. This file keeps them
// from serving the same range; see package lifecycle for the order of steps.

const objectFarewell = "farewell/" // with the SHA-256 of the setup key that the keyring went to

// farewellTo is where the farewell to the enclave of a setup key lies, and the name that it is
// sealed under.
func (s *Ranges) farewellTo(setupKeyHex string) (object string, name seal.Name) {
	to := sha256.Sum256([]byte(setupKeyHex))
	return objectFarewell + hex.EncodeToString(to[:]), seal.Name{Kind: seal.KindFarewell, Deployment: s.cfg.Ledger.Deployment, Root: to}
}

// Alone tells whether the enclave that handed over to this one, if one did, has said
// farewell to it.
func (s *Ranges) Alone(ctx context.Context) (bool, error) {
	s.mu.Lock()
	alone := s.alone
	s.mu.Unlock()
	if alone {
		return true, nil
	}
	object, name := s.farewellTo(s.cfg.Setup)
	word, err := s.cfg.Host.Object(ctx, object)
	if err != nil {
		return false, err
	}
	by, err := s.cfg.Hands.Open(name, word)
	if err != nil || string(by) != s.cfg.Predecessor {
		return false, nil
	}
	s.mu.Lock()
	s.alone = true
	s.mu.Unlock()
	return true, nil
}

// Follow says that another enclave comes after this one.
func (s *Ranges) Follow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retiring, s.followed = true, true
}

// Farewell ends all, once nothing is owned or on its way, and leaves word of it to the
// enclave of a setup key.
func (s *Ranges) Farewell(ctx context.Context, setupKeyHex, liveKeyHex string) error {
	s.mu.Lock()
	if len(s.owned) > 0 || len(s.busy) > 0 {
		s.mu.Unlock()
		return fault.WithCode(fault.FailedPrecondition, "FAREWELL_TOO_EARLY", "this enclave still owns ranges: give them first")
	}
	s.ended = true
	s.mu.Unlock()
	object, name := s.farewellTo(setupKeyHex)
	word, err := s.cfg.Hands.Seal(s.cfg.Ledger.Rand, name, []byte(liveKeyHex))
	if err != nil {
		return err
	}
	return s.cfg.Host.PutObject(ctx, wire.PutObject{Name: object, Bytes: word})
}
