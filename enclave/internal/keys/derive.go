package keys

import (
	"crypto/hmac"
	"crypto/sha512"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
)

// mac512 is HMAC-SHA512. It runs inside erase.Do.
func mac512(out *[64]byte, key, message []byte) {
	h := hmac.New(sha512.New, key)
	h.Write(message)
	h.Sum(out[:0])
}

// A node is an extended private key with buffers to compute its child in place. It is allocated inside erase.Do.
type node struct {
	key, chain [32]byte
	message    [37]byte
	mac        [64]byte
}

// A scheme is the derivation scheme of one curve. Its functions run inside erase.Do.
type scheme struct {
	// master is the HMAC key from which the master node is made.
	master string
	// accept reports whether b can be a private key.
	accept func(b *[32]byte) bool
	// public writes the compressed public key; nil when every step is hardened.
	public func(out *[33]byte, key *[32]byte)
	// add sets key to key+tweak modulo the order. It refuses a tweak that is not
	// below the order, and a sum of zero. nil when the tweak is the child itself.
	add func(key, tweak *[32]byte) bool
	// retry is set when a refused value is hashed again (SLIP-0010). Otherwise
	// (BIP-32) the step has no key.
	retry bool
	// parse makes an accepted key and writes its public point.
	parse func(point *[65]byte, raw *[32]byte) (curveKey, error)
	// footprint is the approximate memory of a cached key with its entry and the
	// libraries' precomputed data, in bytes: measured, and rounded up.
	footprint int
}

var schemes = map[chain.Curve]*scheme{chain.Secp256k1: &schemeSecp256k1, chain.P256: &schemeP256, chain.Ed25519: &schemeEd25519}

var errWiped = errors.New("the key has been wiped")

// Derive derives the private key at a path: BIP-32 for secp256k1, SLIP-0010 for P-256 and
// ed25519. ed25519 has hardened steps only: a step without the apostrophe is derived as if it
// had one. The errors are *fault.Error (InvalidArgument, `invalid path` or `invalid curve`)
// except that of a wiped wallet. As in BIP-32, one secp256k1 path in about 2^127 has no key.
func (w *Wallet) Derive(c chain.Curve, p Path) (*PrivateKey, error) {
	s := schemes[c]
	if s == nil {
		return nil, fault.New(fault.InvalidArgument, "invalid curve")
	}
	if p.text == "" {
		return nil, fault.New(fault.InvalidArgument, "invalid path")
	}
	var key parsedKey
	err := errWiped
	w.seed.Use(func(seed []byte) {
		if seed == nil {
			return
		}
		var n node
		if !s.derive(&n, seed, p.steps) {
			err = fault.New(fault.InvalidArgument, "invalid path")
		} else {
			err = key.parse(s, &n.key)
		}
		n = node{}
	})
	if err != nil {
		return nil, err
	}
	k, err := key.key(c)
	if err == nil {
		k.identity = w.identity
	}
	return k, err
}

// derive sets n to the node at the end of the steps. The seed is at most 64 bytes.
func (s *scheme) derive(n *node, seed []byte, steps []uint32) bool {
	mac512(&n.mac, []byte(s.master), seed)
	for !s.accept((*[32]byte)(n.mac[:32])) {
		if !s.retry {
			return false
		}
		again := n.mac
		mac512(&n.mac, []byte(s.master), again[:])
	}
	copy(n.key[:], n.mac[:32])
	copy(n.chain[:], n.mac[32:])
	for _, step := range steps {
		if !s.child(n, step) {
			return false
		}
	}
	return true
}

// child replaces n by its child at a step.
func (s *scheme) child(n *node, step uint32) bool {
	if s.public == nil {
		step |= hardened
	}
	if step >= hardened {
		n.message[0] = 0
		copy(n.message[1:], n.key[:])
	} else {
		s.public((*[33]byte)(n.message[:33]), &n.key)
	}
	binary.BigEndian.PutUint32(n.message[33:], step)
	tweak := (*[32]byte)(n.mac[:32])
	for {
		mac512(&n.mac, n.chain[:], n.message[:])
		if s.add == nil {
			n.key = *tweak
			break
		}
		if s.add(&n.key, tweak) {
			break
		}
		if !s.retry {
			return false
		}
		n.message[0] = 1
		copy(n.message[1:33], n.mac[32:])
	}
	copy(n.chain[:], n.mac[32:])
	return true
}

// hardened is the bit that marks a hardened step.
const hardened = 1 << 31

// A Path is a parsed derivation path with its text. Derive refuses the zero value.
type Path struct {
	text  string
	steps []uint32
}

// ParsePath parses `m`, or `m/` and steps separated by `/`: each a decimal number below 2^31
// without leading zeros, hardened by a trailing apostrophe; at most MaxPathSteps. So each path
// has exactly one text. The error is a *fault.Error: InvalidArgument, `invalid path`.
func ParsePath(text string) (Path, error) {
	refuse := fault.New(fault.InvalidArgument, "invalid path")
	if len(text) > MaxPathText {
		return Path{}, refuse
	}
	steps := strings.Split(text, "/")
	if steps[0] != "m" || len(steps) > 1+MaxPathSteps {
		return Path{}, refuse
	}
	p := Path{text: text}
	for _, step := range steps[1:] {
		digits, isHard := strings.CutSuffix(step, "'")
		n, err := strconv.ParseUint(digits, 10, 31)
		if err != nil || digits[0] == '0' && len(digits) > 1 {
			return Path{}, refuse
		}
		if isHard {
			n |= hardened
		}
		p.steps = append(p.steps, uint32(n))
	}
	return p, nil
}

// String returns the text that was parsed.
func (p Path) String() string { return p.text }
