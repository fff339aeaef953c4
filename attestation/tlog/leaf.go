package tlog

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/fxamacker/cbor/v2"
)

// MaxLeaf is the longest leaf in bytes. It fits into an entry bundle of tlog-tiles.
const MaxLeaf = 1 << 10

// A Leaf is the public record of one batch in a log: that there was one, by which boot,
// and a commitment to its changes. No leaf names an organization, a count or an amount,
// and all leaves of one kind are about as long.
//
// Its bytes are CBOR in the deterministic encoding of RFC 8949, section 4.2.1.
type Leaf struct {
	Format uint8    `cbor:"1,keyasint"` // 1
	Epoch  uint64   `cbor:"2,keyasint"` // of the ownership of the range
	Boot   [16]byte `cbor:"3,keyasint"`
	Number uint64   `cbor:"4,keyasint"` // of the batch, in its epoch
	// Root commits to the tips that the batch moves (Opening). It is random if the batch moves
	// none, so that nobody can tell the difference.
	Root [32]byte `cbor:"5,keyasint"`
	// At most one of these is set. A leaf without any is of a batch that moves tips, or
	// of a heartbeat.
	Start    *Start    `cbor:"6,keyasint,omitempty"`
	Table    *Table    `cbor:"7,keyasint,omitempty"`
	Close    *Close    `cbor:"8,keyasint,omitempty"`
	Adopt    *Adopt    `cbor:"9,keyasint,omitempty"`
	Manifest *Manifest `cbor:"10,keyasint,omitempty"`
}

// LeafFormat is the one format of leaves.
const LeafFormat = 1

// Start is the first leaf of a boot.
type Start struct {
	Nonce    [32]byte `cbor:"1,keyasint"` // random
	Manifest [32]byte `cbor:"2,keyasint"` // SHA-256 of the manifest that it runs under
	LiveKey  [32]byte `cbor:"3,keyasint"` // SHA-256 of the key that signs its app proofs, as the boot proof has it
	Mode     Mode     `cbor:"4,keyasint"`
	Seed     string   `cbor:"5,keyasint"` // where the root secret came from, a manifest's seedSource
	// Policy is the Hash of the manifest's attestation.LogTerms; zero if it has none, and there are
	// no witnesses.
	Policy [32]byte `cbor:"6,keyasint,omitzero"`
	// Number is the number of the boot before plus one. 0: made before boots had numbers.
	Number uint64 `cbor:"7,keyasint,omitempty"`
	// ManifestNonce is the manifest's nonce, which rises with every manifest of the deployment.
	ManifestNonce uint64 `cbor:"8,keyasint,omitempty"`
}

// A Mode says what a reply waits for before it leaves the enclave.
type Mode uint8

// The modes.
const (
	ModeNone    Mode = iota // the store; there are no witnesses
	ModeBounded             // the store, while no leaf has been without a quorum for too long
	ModeStrict              // a quorum of witnesses
)

var modes = [...]string{"none", "bounded", "strict"}

// String is the mode's name, as manifests have it.
func (m Mode) String() string {
	if int(m) < len(modes) {
		return modes[m]
	}
	return fmt.Sprintf("mode %d", m)
}

// ParseMode returns the mode with a name: none, bounded or strict.
func ParseMode(name string) (Mode, error) {
	i := slices.Index(modes[:], name)
	if i < 0 {
		return 0, fmt.Errorf("tlog: mode %.20q is none of strict, bounded and none", name)
	}
	return Mode(i), nil
}

// Table is a commitment to the tip table, the tips of all organizations of the range.
type Table struct {
	Root [32]byte `cbor:"1,keyasint"`
}

// Close is the last leaf of a boot, or of a generation. Only the boot or generation that it names may follow.
type Close struct {
	Boot   [16]byte `cbor:"1,keyasint,omitzero"`  // the boot that goes on; zero if another generation does
	Origin string   `cbor:"2,keyasint,omitempty"` // of the next generation
	Policy [32]byte `cbor:"3,keyasint,omitzero"`  // SHA-256 of the next generation's policy
}

// Adopt is the first leaf of a generation. It says from which log the generation goes on.
type Adopt struct {
	How      How      `cbor:"1,keyasint"`
	Origin   string   `cbor:"2,keyasint,omitempty"` // of the generation before
	Size     uint64   `cbor:"3,keyasint"`           // how many of its leaves are taken over
	Root     [32]byte `cbor:"4,keyasint"`           // of its tree at that size
	Table    [32]byte `cbor:"5,keyasint"`           // commitment to the tips that are taken over
	Manifest [32]byte `cbor:"6,keyasint"`           // SHA-256 of the manifest that requires it
	// Witnessed is the largest size of the generation before that a witness is known to have seen: at
	// least Size. Only in a generation that is recovered.
	Witnessed uint64 `cbor:"7,keyasint,omitempty"`
}

// How says how a generation began.
type How uint8

// Values of How.
const (
	HowFirst     How = 1 + iota // the range had no log
	HowMoved                    // the generation before closed for it
	HowRecovered                // it goes on from where operators said; the generation before may have gone further
)

// Manifest is the leaf that allows the keyring to go to an enclave under another manifest. It is in
// the log before the keyring goes.
type Manifest struct {
	SHA256 [32]byte `cbor:"1,keyasint"`
}

var (
	leafEncoding = func() cbor.EncMode {
		mode, err := cbor.CoreDetEncOptions().EncMode()
		if err != nil {
			panic(err)
		}
		return mode
	}()
	leafDecoding = func() cbor.DecMode {
		mode, err := cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
			ExtraReturnErrors: cbor.ExtraDecErrorUnknownField, MaxNestedLevels: 4, UTF8: cbor.UTF8RejectInvalid}.DecMode()
		if err != nil {
			panic(err)
		}
		return mode
	}()
)

// Encode returns the leaf's bytes, at most MaxLeaf.
func (l *Leaf) Encode() ([]byte, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	b, err := leafEncoding.Marshal(l)
	if err == nil && len(b) > MaxLeaf {
		err = errors.New("tlog: a leaf is too long")
	}
	return b, err
}

// ParseLeaf reads a leaf in exactly the encoding of Encode.
func ParseLeaf(b []byte) (*Leaf, error) {
	if len(b) > MaxLeaf {
		return nil, errors.New("tlog: a leaf is too long")
	}
	l := new(Leaf)
	if err := leafDecoding.Unmarshal(b, l); err != nil {
		return nil, fmt.Errorf("tlog: a leaf: %w", err)
	}
	if again, err := l.Encode(); err != nil || !bytes.Equal(again, b) {
		return nil, errors.Join(errors.New("tlog: a leaf is not in its one form"), err)
	}
	return l, nil
}

func (l *Leaf) check() error {
	parts := 0
	for _, is := range [...]bool{l.Start != nil, l.Table != nil, l.Close != nil, l.Adopt != nil, l.Manifest != nil} {
		if is {
			parts++
		}
	}
	switch {
	case l.Format != LeafFormat:
		return fmt.Errorf("tlog: a leaf of format %d", l.Format)
	case parts > 1:
		return errors.New("tlog: a leaf is of two kinds")
	case l.Start != nil && (l.Start.Mode > ModeStrict || l.Start.Seed == "" || len(l.Start.Seed) > 32):
		return errors.New("tlog: a boot's leaf without mode or seed")
	case l.Start != nil && (l.Start.Mode == ModeNone) != (l.Start.Policy == [32]byte{}):
		return errors.New("tlog: a boot's leaf has a mode with witnesses and the hash of the terms, or neither")
	case l.Close != nil && (l.Close.Boot == [16]byte{}) == (l.Close.Origin == ""):
		return errors.New("tlog: a closing leaf names a boot or a generation")
	case l.Close != nil && (l.Close.Origin == "") != (l.Close.Policy == [32]byte{}):
		return errors.New("tlog: a closing leaf names a generation without its policy")
	case l.Close != nil && len(l.Close.Origin) > MaxName, l.Adopt != nil && len(l.Adopt.Origin) > MaxName:
		return errors.New("tlog: an origin is too long")
	case l.Adopt != nil && (l.Adopt.How < HowFirst || l.Adopt.How > HowRecovered || (l.Adopt.How == HowFirst) != (l.Adopt.Origin == "")):
		return errors.New("tlog: a generation comes of nothing or of another")
	case l.Adopt != nil && l.Adopt.How == HowRecovered && l.Adopt.Witnessed < l.Adopt.Size, l.Adopt != nil && l.Adopt.How != HowRecovered && l.Adopt.Witnessed != 0:
		return errors.New("tlog: what is recovered, and it alone, says how much of the generation before had been witnessed")
	}
	return nil
}

// Hash is the leaf's hash in the log's tree, by RFC 6962.
func (l *Leaf) Hash() ([32]byte, error) {
	b, err := l.Encode()
	return HashLeaf(b), err
}

// HashLeaf is the RFC 6962 hash of a leaf's bytes.
func HashLeaf(b []byte) [32]byte {
	var prefixed [256]byte // most leaves fit
	return sha256.Sum256(append(prefixed[:1], b...))
}
