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

// A Table lists the ranges that one enclave owned at one time. The boot operations ranges, take,
// give and retire answer with it. It is the enclave's statement, not the ownership itself: that
// is the range's row in the store and the lease.
type Table struct {
	Format     int          `json:"format"`     // 1
	Deployment string       `json:"deployment"` // hex
	Boot       string       `json:"boot"`       // the boot's id, hex; random for each boot
	TimeMs     uint64       `json:"timeMs"`     // by the enclave's clock
	Ranges     int          `json:"ranges"`     // number of ranges of the deployment
	Owned      []TableRange `json:"owned"`      // in rising order of Range
	// Retiring asks the hosts to move all its ranges to other enclaves and to give it no more, until it ends.
	Retiring bool `json:"retiring,omitempty"`
}

// A TableRange is one range that the enclave owns.
type TableRange struct {
	Range   Range  `json:"range"`
	Epoch   uint64 `json:"epoch"`   // ownerships of the range so far, this one included
	SinceMs uint64 `json:"sinceMs"` // time at which this one began
	// Handed means that the last owner gave the range away and handed on the head of its log. Without it, only
	// what was written since SinceMs is certainly the newest: the store may have shown the enclave an older log.
	Handed bool `json:"handed"`
}

// A SignedTable is a Table that the enclave's live key has signed. That key's boot proof
// shows that the security module attests to it.
type SignedTable struct {
	Table     string `json:"table"`     // the exact JSON text that is signed
	PublicKey string `json:"publicKey"` // the live key, 130 bytes in hex: encryption ‖ signing key
	Signature string `json:"signature"` // ECDSA P-256, r ‖ s, 64 bytes in hex, over SHA-256 of TableText
}

// TableText returns the text that is signed. Its prefix keeps it apart from the other texts that live keys sign.
func TableText(table string) []byte { return []byte("cloister ranges 1\n" + table) }

var errTable = errors.New("wire: a table of ranges that is not signed")

// ParseTable decodes a SignedTable and verifies its signature by the key that it names. The caller must check whose key
// that is, by its boot proof or by the connection. Both JSON texts must be exactly as encoding/json writes them: ParseTable
// refuses members that are missing, unknown, repeated or in other letters.
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

// decodeJSON decodes text into a value and refuses any text but the one that json.Marshal writes of it.
func decodeJSON(text []byte, into any) bool {
	if json.Unmarshal(text, into) != nil {
		return false
	}
	again, err := json.Marshal(into)
	return err == nil && bytes.Equal(again, text)
}
