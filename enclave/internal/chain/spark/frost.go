package spark

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"slices"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"cloister/enclave/internal/chain"
)

// A Scalar is a number below the curve's order.
type Scalar = secp256k1.ModNScalar

// A Commitment is what one who signs has said of their nonces.
type Commitment struct {
	ID              [32]byte
	Hiding, Binding chain.PublicKey
}

// A Signing is a message that the operators and the user sign together.
type Signing struct {
	Message      [32]byte
	VerifyingKey chain.PublicKey // the operators' key plus the user's
	Operators    []Commitment
	Adaptor      chain.PublicKey // the zero key: none
}

// A Share is the user's part of a signature, with what it commits to.
type Share struct {
	Share           [32]byte
	Hiding, Binding chain.PublicKey
}

// Terms are what the user's share z is made with: z = ±(d + Binding*e) + Challenge*(±key).
type Terms struct {
	Binding, Challenge      Scalar
	NegateNonces, NegateKey bool
}

const suite = "FROST-secp256k1-SHA256-TR-v1"

// UserID is the identifier of the user among those who sign.
var UserID = func() [32]byte { id := HashToScalar(suite+"id", []byte("user")); return id.Bytes() }()

// ErrNoSignature is returned where keys or commitments cancel each other out.
var ErrNoSignature = errors.New("the keys or commitments add up to nothing")

// Check refuses identifiers that nobody has, that are the user's, or that two have.
func (s *Signing) Check() error {
	if len(s.Operators) == 0 {
		return errors.New("there must be an operator")
	}
	seen := make(map[[32]byte]bool, len(s.Operators))
	for i := range s.Operators {
		id := s.Operators[i].ID
		var n Scalar
		switch over := n.SetBytes(&id); {
		case over != 0 || n.IsZero():
			return errors.New("an id must be a number from 1 to the order of the curve less 1")
		case id == UserID:
			return errors.New("an operator has the id of the user")
		case seen[id]:
			return errors.New("two operators have the same id")
		}
		seen[id] = true
	}
	return nil
}

// Context is all that the share depends on besides the user's key and nonces, in one form.
func (s *Signing) Context() []byte {
	b := append([]byte(nil), s.Message[:]...)
	b = append(b, s.VerifyingKey.Compressed()...)
	b = appendCommitments(b, byID(s.Operators))
	return append(b, s.Adaptor.Compressed()...) // nothing or 33 bytes, at the end
}

func byID(cs []Commitment) []Commitment {
	cs = slices.Clone(cs)
	slices.SortFunc(cs, func(a, b Commitment) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return cs
}

// appendCommitments encodes as RFC 9591 has it; each takes 98 bytes.
func appendCommitments(b []byte, cs []Commitment) []byte {
	for i := range cs {
		b = append(append(append(b, cs[i].ID[:]...), cs[i].Hiding.Compressed()...), cs[i].Binding.Compressed()...)
	}
	return b
}

// Terms computes what the share of a user is made with who has committed to these nonces.
func (s *Signing) Terms(hiding, binding chain.PublicKey) (*Terms, error) {
	output, negate, err := outputKey(s.VerifyingKey)
	if err != nil {
		return nil, err
	}
	all := byID(append(slices.Clone(s.Operators), Commitment{UserID, hiding, binding}))
	message := sha256.Sum256(append([]byte(suite+"msg"), s.Message[:]...))
	commitments := sha256.Sum256(appendCommitments([]byte(suite+"com"), all))
	t := &Terms{NegateKey: negate}
	var nonce secp256k1.JacobianPoint // R
	for i := range all {
		factor := HashToScalar(suite+"rho", []byte{2}, output[:], message[:], commitments[:], all[i].ID[:])
		addCommitment(&nonce, &all[i], &factor)
		if all[i].ID == UserID {
			t.Binding = factor
		}
	}
	if s.Adaptor.Curve() != 0 {
		add(&nonce, point(s.Adaptor))
	}
	x, odd, ok := affine(&nonce)
	if !ok {
		return nil, ErrNoSignature
	}
	t.NegateNonces = odd
	sum := chain.TaggedHash("BIP0340/challenge", slices.Concat(x[:], output[:], s.Message[:]))
	t.Challenge.SetBytes(&sum) // modulo the order, as BIP-340 has it
	return t, nil
}

// User is the public key whose private key made a share, whatever the key: the share verifies under no other.
func (s *Signing) User(made *Share) (user chain.PublicKey, err error) {
	t, err := s.Terms(made.Hiding, made.Binding)
	if err != nil {
		return user, err
	}
	var z Scalar
	if z.SetBytes(&made.Share) != 0 || t.Challenge.IsZero() {
		return user, ErrNoSignature
	}
	// z*G = ±(D + Binding*E) + Challenge*(±Y), of which Y is looked for.
	var sum, nonces, key secp256k1.JacobianPoint
	addCommitment(&nonces, &Commitment{Hiding: made.Hiding, Binding: made.Binding}, &t.Binding)
	if !t.NegateNonces {
		negate(&nonces)
	}
	secp256k1.ScalarBaseMultNonConst(&z, &sum)
	add(&sum, &nonces)
	inverse := t.Challenge
	inverse.InverseNonConst()
	if t.NegateKey {
		inverse.Negate()
	}
	secp256k1.ScalarMultNonConst(&inverse, &sum, &key)
	x, odd, ok := affine(&key)
	if !ok {
		return user, ErrNoSignature
	}
	return chain.NewPublicKey(chain.Secp256k1, append([]byte{parity(odd)}, x[:]...))
}

// Verify tells whether a share is that of the user with this key.
func (s *Signing) Verify(user chain.PublicKey, made *Share) bool {
	key, err := s.User(made)
	return err == nil && key == user
}

// outputKey is the x of the key that BIP-341 makes of the verifying key without a script, and tells whether the private
// keys of those who sign are negated for it: if exactly one of the two points is odd.
func outputKey(verifying chain.PublicKey) (x [32]byte, negated bool, err error) {
	tweak, ok := verifying.TapTweak()
	if !ok {
		return x, false, ErrNoSignature
	}
	sum := point(verifying)
	internal := sum.Y.IsOdd()
	if internal {
		negate(sum)
	}
	var tweaked secp256k1.JacobianPoint
	secp256k1.ScalarBaseMultNonConst(&tweak, &tweaked)
	add(sum, &tweaked)
	x, odd, ok := affine(sum)
	if !ok {
		return x, false, ErrNoSignature
	}
	return x, internal != odd, nil
}

func point(p chain.PublicKey) *secp256k1.JacobianPoint {
	out := new(secp256k1.JacobianPoint)
	b := p.Bytes()
	out.X.SetByteSlice(b[1:33])
	out.Y.SetByteSlice(b[33:])
	out.Z.SetInt(1)
	return out
}

// addCommitment adds D + factor*E.
func addCommitment(to *secp256k1.JacobianPoint, c *Commitment, factor *Scalar) {
	var bound secp256k1.JacobianPoint
	secp256k1.ScalarMultNonConst(factor, point(c.Binding), &bound)
	add(to, point(c.Hiding))
	add(to, &bound)
}

func add(to, p *secp256k1.JacobianPoint) {
	var sum secp256k1.JacobianPoint
	secp256k1.AddNonConst(to, p, &sum)
	*to = sum
}

func negate(p *secp256k1.JacobianPoint) { p.Y.Normalize().Negate(1).Normalize() }

// affine gives a point's x and whether its y is odd; not ok for the point at infinity.
func affine(p *secp256k1.JacobianPoint) (x [32]byte, odd, ok bool) {
	if p.Z.Normalize().IsZero() || p.X.Normalize().IsZero() && p.Y.Normalize().IsZero() {
		return x, false, false
	}
	p.ToAffine()
	p.X.PutBytes(&x)
	return x, p.Y.IsOdd(), true
}

func parity(odd bool) byte {
	if odd {
		return 3
	}
	return 2
}

// HashToScalar is hash_to_field of RFC 9380 for one number modulo the order, from 48 bytes of expand_message_xmd with
// SHA-256.
func HashToScalar(domain string, message ...[]byte) (n Scalar) {
	end := append([]byte(domain), byte(len(domain)))
	h := sha256.New()
	h.Write(make([]byte, h.BlockSize()))
	for _, part := range message {
		h.Write(part)
	}
	h.Write([]byte{0, 48, 0})
	h.Write(end)
	var zero, first, second [sha256.Size]byte
	h.Sum(zero[:0])
	block := func(out *[sha256.Size]byte, number byte, before []byte) {
		h.Reset()
		h.Write(before)
		h.Write([]byte{number})
		h.Write(end)
		h.Sum(out[:0])
	}
	block(&first, 1, zero[:])
	for i := range zero {
		zero[i] ^= first[i]
	}
	block(&second, 2, zero[:])
	// The number is high*2^192 + low, of 24 bytes each.
	var low Scalar
	n.SetByteSlice(first[:24])
	low.SetByteSlice(slices.Concat(first[24:], second[:16]))
	shift := new(Scalar).SetInt(1 << 31)
	for range 6 {
		n.Mul(shift)
	}
	n.Mul(new(Scalar).SetInt(1 << 6)) // 6*31 + 6 = 192
	n.Add(&low)
	return n
}
