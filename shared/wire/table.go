package wire

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math/big"
)

// A Table tells which ranges one enclave owned at one time: what the boot operations
// ranges, take, give and retire answer with. It is the enclave's word alone: that a range is
// owned is decided by the row in the store and the lease.
type Table struct {
	Format     int          `json:"format"`     // 1
	Deployment string       `json:"deployment"` // hex
	Boot       string       `json:"boot"`       // the id of this run, hex; another each time
	TimeMs     uint64       `json:"timeMs"`     // by the enclave's clock
	Ranges     int          `json:"ranges"`     // of the deployment
	Owned      []TableRange `json:"owned"`      // in order
	// Retiring says that the enclave wants to be rid of what it owns and to get nothing more, until it ends.
	Retiring bool `json:"retiring,omitempty"`
}

// A TableRange is one range that the enclave owns.
type TableRange struct {
	Range   Range  `json:"range"`
	Epoch   uint64 `json:"epoch"`   // under which it was taken: how often the range has been
	SinceMs uint64 `json:"sinceMs"` // when that was
	// Handed says that the owner before gave it away and handed on where its log ended.
	// Without that the state is fresh since then and no longer.
	Handed bool `json:"handed"`
}

// A SignedTable is a Table with the signature of the enclave's live key, which the boot
// proof of that key leads back to the security module.
type SignedTable struct {
	Table     string `json:"table"`     // the exact JSON text that is signed
	PublicKey string `json:"publicKey"` // the live key, 130 bytes in hex: encryption ‖ signing key
	Signature string `json:"signature"` // r ‖ s, 64 bytes in hex, over SHA-256 of TableText
}

// TableText is what is signed. No proof or reply begins like it.
func TableText(table string) []byte { return []byte("cloister ranges 1\n" + table) }

var errTable = errors.New("wire: a table of ranges that is not signed")

// ParseTable reads a SignedTable and verifies its signature by the key that it names.
// Whose that is the caller knows from where he has it, or from its boot proof. Both texts have one form, that of encoding/json: a
// member that is missing, unknown, twice, or in other letters makes it none.
func ParseTable(b []byte) (*Table, *SignedTable, error) {
	s := new(SignedTable)
	if len(b) > MaxObject || !decodeJSON(b, s) {
		return nil, nil, errTable
	}
	key, err := hex.DecodeString(s.PublicKey)
	sig, serr := hex.DecodeString(s.Signature)
	if err != nil || serr != nil || len(key) != 130 || len(sig) != 64 {
		return nil, nil, errTable
	}
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), key[65:])
	if err != nil {
		return nil, nil, errTable
	}
	digest := sha256.Sum256(TableText(s.Table))
	if !ecdsa.Verify(public, digest[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])) {
		return nil, nil, errTable
	}
	t := new(Table)
	if !decodeJSON([]byte(s.Table), t) || t.Format != 1 || t.Ranges < 1 || t.Ranges > MaxRanges || len(t.Owned) > t.Ranges {
		return nil, nil, errTable
	}
	for i, r := range t.Owned {
		if int(r.Range) >= t.Ranges || i > 0 && r.Range <= t.Owned[i-1].Range {
			return nil, nil, errTable
		}
	}
	return t, s, nil
}

// decodeJSON reads text that json.Marshal has written of such a value.
func decodeJSON(text []byte, into any) bool {
	if json.Unmarshal(text, into) != nil {
		return false
	}
	again, err := json.Marshal(into)
	return err == nil && bytes.Equal(again, text)
}
