package activity

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

var signing = []*Kind{
	showing(reading(kind("SIGN_RAW_PAYLOAD", "PRIVATE_KEY", "SIGN", signRawPayload,
		was(1, func(v *SignRawPayloadV1) SignRawPayload {
			return SignRawPayload{SignWith: v.PrivateKeyID, Payload: v.Payload, Encoding: v.Encoding, HashFunction: v.HashFunction}
		})),
		func(tx *org.Tx, in *SignRawPayload) (policy.Facts, error) { return signerFacts(tx, in.SignWith) }),
		func(in *SignRawPayload) policy.Value { return payloadParams(in.HashFunction, in.Encoding) }),
	showing(reading(kind("SIGN_RAW_PAYLOADS", "PRIVATE_KEY", "SIGN", signRawPayloads),
		func(tx *org.Tx, in *SignRawPayloads) (policy.Facts, error) { return signerFacts(tx, in.SignWith) }),
		func(in *SignRawPayloads) policy.Value { return payloadParams(in.HashFunction, in.Encoding) }),
}

// payloadParams are what policies may read of the signing of raw payloads.
func payloadParams(h HashFunction, e PayloadEncoding) policy.Value {
	return policy.Struct(
		policy.Member{Name: "hash_function", Value: policy.String(string(h))},
		policy.Member{Name: "encoding", Value: policy.String(string(e))})
}

// PayloadEncoding is how a payload is written.
type PayloadEncoding string

var encodings = []PayloadEncoding{"PAYLOAD_ENCODING_HEXADECIMAL", "PAYLOAD_ENCODING_TEXT_UTF8", "PAYLOAD_ENCODING_EIP712", "PAYLOAD_ENCODING_EIP7702_AUTHORIZATION"}

// Valid tells whether e is one of the interface's, live or not.
func (e PayloadEncoding) Valid() bool { return slices.Contains(encodings, e) }

// HashFunction is what is done to a payload before it is signed.
type HashFunction string

// Valid tells whether h is one of the interface's.
func (h HashFunction) Valid() bool { return valid(keys.ParseHashFunction(string(h))) }

// SignRawPayloadV1 could name a private key by its id only.
type SignRawPayloadV1 struct {
	PrivateKeyID string          `json:"privateKeyId" rule:"required,uuid"`
	Payload      string          `json:"payload" rule:"required"`
	Encoding     PayloadEncoding `json:"encoding" rule:"required"`
	HashFunction HashFunction    `json:"hashFunction" rule:"required"`
}

// SignRawPayload signs one payload with the key of an address or an id.
type SignRawPayload struct {
	SignWith     string          `json:"signWith" rule:"required"`
	Payload      string          `json:"payload" rule:"required"`
	Encoding     PayloadEncoding `json:"encoding" rule:"required"`
	HashFunction HashFunction    `json:"hashFunction" rule:"required"`

	decoded []byte
}

func (in *SignRawPayload) check() (err error) {
	in.decoded, err = keys.DecodePayload(string(in.Encoding), in.Payload)
	return err
}

func (in *SignRawPayload) appendJSON(dst []byte) []byte {
	dst = appendText(dst, `{"signWith":`, in.SignWith)
	dst = appendText(dst, `,"payload":`, in.Payload)
	dst = appendText(dst, `,"encoding":`, string(in.Encoding))
	dst = appendText(dst, `,"hashFunction":`, string(in.HashFunction))
	return append(dst, '}')
}

// SignRawPayloads signs payloads with one key, all or none.
type SignRawPayloads struct {
	SignWith     string          `json:"signWith" rule:"required"`
	Payloads     []string        `json:"payloads" rule:"required"`
	Encoding     PayloadEncoding `json:"encoding" rule:"required"`
	HashFunction HashFunction    `json:"hashFunction" rule:"required"`

	decoded [][]byte
}

func (in *SignRawPayloads) check() error {
	if n := len(in.Payloads); n == 0 || n > keys.MaxBatch {
		return fault.Field("payloads", "must have 1 to %d elements", keys.MaxBatch)
	}
	in.decoded = make([][]byte, len(in.Payloads))
	for i, p := range in.Payloads {
		var err error
		if in.decoded[i], err = keys.DecodePayload(string(in.Encoding), p); err != nil {
			if e := fault.Of(err); e != nil && e.Code == fault.InvalidArgument {
				return fault.Field(fmt.Sprintf("payloads.%d", i), "%s", e.Message)
			}
			return err
		}
	}
	return nil
}

// Signature is a signature as the interface writes it: hex, r and s of 64
// digits, v of two.
type Signature struct {
	R string `json:"r"`
	S string `json:"s"`
	V string `json:"v"`

	raw keys.Signature
}

func (s *Signature) appendJSON(dst []byte) []byte {
	dst = appendHex(dst, `{"r":`, s.raw.R[:])
	dst = appendHex(dst, `,"s":`, s.raw.S[:])
	dst = appendHex(dst, `,"v":`, []byte{s.raw.V})
	return append(dst, '}')
}

// Signatures is the result of signing several payloads, in their order.
type Signatures struct {
	Signatures []Signature `json:"signatures"`
}

func (r *Signatures) appendJSON(dst []byte) []byte {
	dst = append(dst, `{"signatures":[`...)
	for i := range r.Signatures {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = r.Signatures[i].appendJSON(dst)
	}
	return append(dst, `]}`...)
}

func signRawPayload(tx *Tx, in *SignRawPayload) (*Signature, error) {
	hash, err := keys.ParseHashFunction(string(in.HashFunction))
	if err != nil {
		return nil, err
	}
	out := new(Signature)
	err = withKey(tx, in.SignWith, func(k *keys.PrivateKey) (err error) {
		if out.raw, err = keys.Sign(tx.Grant, k, hash, in.decoded); err != nil {
			return err
		}
		return claimSignature(tx, k, hash, in.decoded)
	})
	return out, err
}

func signRawPayloads(tx *Tx, in *SignRawPayloads) (*Signatures, error) {
	hash, err := keys.ParseHashFunction(string(in.HashFunction))
	if err != nil {
		return nil, err
	}
	out := &Signatures{make([]Signature, len(in.decoded))}
	err = withKey(tx, in.SignWith, func(k *keys.PrivateKey) error {
		made, err := keys.SignAll(tx.Grant, k, hash, in.decoded)
		if err != nil {
			return err
		}
		for i := range made {
			out.Signatures[i].raw = made[i]
		}
		return claimSignature(tx, k, hash, in.decoded...)
	})
	return out, err
}

func claimSignature(tx *Tx, k *keys.PrivateKey, hash keys.HashFunction, payloads ...[]byte) error {
	if !tx.WantsProofs {
		return nil
	}
	c := &SignatureClaim{PublicKey: hex.EncodeToString(k.Public().Compressed()), Digests: make([]string, len(payloads))}
	for i, p := range payloads {
		d, err := keys.Digest(k.Curve(), hash, p)
		if err != nil {
			return err
		}
		if k.Curve() == chain.Ed25519 {
			sum := sha256.Sum256(d)
			d = sum[:]
		}
		c.Digests[i] = hex.EncodeToString(d)
	}
	tx.Claims = append(tx.Claims, Claim{Signature: c})
	return nil
}

// withKey finds the key that signs with an address or under an id, and calls
// use with it. A disabled key does not sign.
func withKey(tx *Tx, signWith string, use func(*keys.PrivateKey) error) error {
	owner, err := signer(tx.Tx, signWith)
	if err != nil {
		return err
	}
	if owner.No == 0 {
		k, err := tx.PrivateKey(owner.ID)
		if err != nil {
			return err
		}
		if k != nil && k.Disabled {
			return fault.New(fault.InvalidArgument, "private key is disabled: %s", owner.ID)
		}
	}
	id := KeyID{tx.ID, owner.ID, owner.No}
	return tx.Keys.With(id, func() (*keys.PrivateKey, error) { return deriveKey(tx, owner) }, use)
}

// signer finds what an address or the id of a private key belongs to.
func signer(tx *org.Tx, signWith string) (org.Owner, error) {
	if id, err := org.ParseID(signWith); err == nil {
		k, err := tx.PrivateKey(id)
		if err == nil && k == nil {
			err = notFound("private key", signWith)
		}
		return org.Owner{ID: id}, err
	}
	owner, ok, err := tx.ByAddress(chain.MatchKey(signWith))
	if err == nil && !ok {
		err = notFound("wallet account", signWith)
	}
	return owner, err
}

// signerFacts are the roots of what signs: an account with its wallet, or a
// private key.
func signerFacts(tx *org.Tx, signWith string) (policy.Facts, error) {
	owner, err := signer(tx, signWith)
	if fault.Of(err) != nil {
		return nil, nil // the activity will say what is not there
	}
	if err != nil {
		return nil, err
	}
	if owner.No == 0 {
		k, err := tx.PrivateKey(owner.ID)
		if k == nil || err != nil {
			return nil, err
		}
		return policy.Facts{"private_key": privateKeyValue(k)}, nil
	}
	a, err := tx.Account(owner.ID, owner.No)
	if a == nil || err != nil {
		return nil, err
	}
	w, err := tx.Wallet(owner.ID)
	if w == nil || err != nil {
		return nil, err
	}
	return policy.Facts{"wallet": walletValue(w), "wallet_account": accountValue(a)}, nil
}

// deriveKey makes the private key that owner names.
func deriveKey(tx *Tx, owner org.Owner) (*keys.PrivateKey, error) {
	if owner.No == 0 {
		return openKey(tx, owner.ID)
	}
	a, err := tx.Account(owner.ID, owner.No)
	if err != nil {
		return nil, err
	}
	w, err := tx.Wallet(owner.ID)
	if err != nil {
		return nil, err
	}
	if a == nil || w == nil {
		return nil, fmt.Errorf("an address of account %d that does not exist", owner.No)
	}
	curve, err := chain.ParseCurve(a.Curve)
	if err != nil {
		return nil, err
	}
	path, err := keys.ParsePath(a.Path)
	if err != nil {
		return nil, err
	}
	seed, err := openWallet(tx, w)
	if err != nil {
		return nil, err
	}
	defer seed.Wipe()
	return seed.Derive(curve, path)
}

func openKey(tx *Tx, id org.ID) (*keys.PrivateKey, error) {
	k, err := tx.PrivateKey(id)
	if err != nil {
		return nil, err
	}
	if k == nil {
		return nil, fmt.Errorf("an address of a private key that does not exist")
	}
	curve, err := chain.ParseCurve(k.Curve)
	if err != nil {
		return nil, err
	}
	s, err := tx.Vault.Open(id, k.Key)
	if err != nil {
		return nil, err
	}
	defer s.Wipe()
	return keys.PrivateKeyFromSecret(curve, s)
}
