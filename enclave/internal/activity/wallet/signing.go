package wallet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/decoded"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// Signing are the kinds that sign and return the signature.
var Signing = activity.Family{
	activity.Kind[SignRawPayload, Signature]{
		Name: "SIGN_RAW_PAYLOAD", Resource: "PRIVATE_KEY", Action: "SIGN", Decodes: true, Run: signRawPayload, Verify: verifyPayload,
		Show: func(tx *org.Tx, in *SignRawPayload, v *show.View, known *show.Known) (string, error) {
			return showPayloads(tx, v, known, in.SignWith, in.Encoding, in.HashFunction, in.Payload)
		},
		Older: []activity.Older{activity.Upgrade(func(v *SignRawPayloadV1) SignRawPayload {
			return SignRawPayload{SignWith: v.PrivateKeyID, Payload: v.Payload, Encoding: v.Encoding, HashFunction: v.HashFunction}
		})},
		Params: func(in *SignRawPayload) policy.Value { return payloadParams(in.HashFunction, in.Encoding, in.decoded) },
		Keys:   func(tx *org.Tx, in *SignRawPayload) ([]policy.Key, error) { return policyKeys(tx, in.SignWith) },
		FillPolicyRequest: func(tx *org.Tx, in *SignRawPayload, q *policy.Request) error {
			return askPayloads(tx, in.SignWith, []payload{in.decoded}, q)
		},
	},
	activity.Kind[SignRawPayloads, Signatures]{
		Name: "SIGN_RAW_PAYLOADS", Resource: "PRIVATE_KEY", Action: "SIGN", Decodes: true, Run: signRawPayloads, Verify: verifyEachPayload,
		Show: func(tx *org.Tx, in *SignRawPayloads, v *show.View, known *show.Known) (string, error) {
			return showPayloads(tx, v, known, in.SignWith, in.Encoding, in.HashFunction, in.Payloads...)
		},
		Signatures: func(in *SignRawPayloads) int { return len(in.Payloads) },
		Params: func(in *SignRawPayloads) policy.Value {
			return payloadParams(in.HashFunction, in.Encoding, in.decoded...)
		},
		Keys: func(tx *org.Tx, in *SignRawPayloads) ([]policy.Key, error) { return policyKeys(tx, in.SignWith) },
		FillPolicyRequest: func(tx *org.Tx, in *SignRawPayloads, q *policy.Request) error {
			return askPayloads(tx, in.SignWith, in.decoded, q)
		},
	},
	activity.Kind[SignTransaction, SignedTransaction]{
		Name: "SIGN_TRANSACTION", Resource: "PRIVATE_KEY", Action: "SIGN", Decodes: true, Run: signTransaction, Verify: verifyTransaction,
		Show: func(tx *org.Tx, in *SignTransaction, v *show.View, known *show.Known) (string, error) {
			return in.show(tx, v, known)
		},
		Older: []activity.Older{activity.Upgrade(func(v *SignTransactionV1) SignTransaction {
			return SignTransaction{SignWith: v.PrivateKeyID, UnsignedTransaction: v.UnsignedTransaction, Type: v.Type}
		})},
		Examine:           func(tx *org.Tx, in *SignTransaction) error { return in.examine(tx) },
		Params:            func(in *SignTransaction) policy.Value { return activity.Param("type", policy.String(string(in.Type))) },
		Keys:              func(tx *org.Tx, in *SignTransaction) ([]policy.Key, error) { return policyKeys(tx, in.SignWith) },
		FillPolicyRequest: func(tx *org.Tx, in *SignTransaction, q *policy.Request) error { return in.ask(tx, q) },
	},
}

// payloadParams are the members of a request to sign raw payloads that policies may read. Of several payloads the worst kind
// counts: the decision must hold for all.
func payloadParams(h HashFunction, e PayloadEncoding, ps ...payload) policy.Value {
	kind := decoded.KindDocument
	for i := range ps {
		kind = decoded.Worse(kind, ps[i].kind)
	}
	return policy.Struct(
		policy.Member{Name: "payload_kind", Value: policy.String(kind)},
		policy.Member{Name: "hash_function", Value: policy.String(string(h))},
		policy.Member{Name: "encoding", Value: policy.String(string(e))})
}

// HashFunction is the interface's name of the hash function applied to a payload before signing.
type HashFunction string

// Valid reports whether h is a hash function of the interface.
func (h HashFunction) Valid() bool { return valid(keys.ParseHashFunction(string(h))) }

// SignRawPayloadV1 is version 1 of the intent, which names a private key by its id only.
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

	decoded payload
}

func (in *SignRawPayload) Check() (err error) {
	in.decoded, err = decodePayload("payload", in.Encoding, in.HashFunction, in.Payload)
	return err
}

func (in *SignRawPayload) AppendJSON(dst []byte) []byte {
	dst = activity.AppendText(dst, `{"signWith":`, in.SignWith)
	dst = activity.AppendText(dst, `,"payload":`, in.Payload)
	dst = activity.AppendText(dst, `,"encoding":`, string(in.Encoding))
	dst = activity.AppendText(dst, `,"hashFunction":`, string(in.HashFunction))
	return append(dst, '}')
}

// SignRawPayloads signs payloads with one key, all or none.
type SignRawPayloads struct {
	SignWith     string          `json:"signWith" rule:"required"`
	Payloads     []string        `json:"payloads" rule:"required"`
	Encoding     PayloadEncoding `json:"encoding" rule:"required"`
	HashFunction HashFunction    `json:"hashFunction" rule:"required"`

	decoded []payload
}

func (in *SignRawPayloads) Check() error {
	if n := len(in.Payloads); n == 0 || n > keys.MaxBatch {
		return fault.Field("payloads", "must have 1 to %d elements", keys.MaxBatch)
	}
	in.decoded = make([]payload, len(in.Payloads))
	values := 0
	for i, p := range in.Payloads {
		var err error
		if in.decoded[i], err = decodePayload(fmt.Sprintf("payloads.%d", i), in.Encoding, in.HashFunction, p); err != nil {
			return err
		}
		if d, typed := in.decoded[i].document.(*eth.TypedData); typed {
			values += d.Values()
		}
		if values > eth.MaxTypedValues { // decoded values are far larger than their text, and all are in memory at once
			return fault.Field("payloads", "must hold at most %d values in all their typed data", eth.MaxTypedValues)
		}
	}
	return nil
}

// Signature is a signature in the interface's encoding: hex, r and s of 64 digits, v of two.
type Signature struct {
	R string `json:"r"`
	S string `json:"s"`
	V string `json:"v"`

	raw chain.Signature
}

func (s *Signature) AppendJSON(dst []byte) []byte {
	dst = activity.AppendHex(dst, `{"r":`, s.raw.R[:])
	dst = activity.AppendHex(dst, `,"s":`, s.raw.S[:])
	dst = activity.AppendHex(dst, `,"v":`, []byte{s.raw.V})
	return append(dst, '}')
}

// Signatures is the result of signing several payloads, in their order.
type Signatures struct {
	Signatures []Signature `json:"signatures"`
}

func (r *Signatures) AppendJSON(dst []byte) []byte {
	dst = activity.AppendList(dst, `{"signatures":`, r.Signatures, func(dst []byte, s *Signature) []byte { return s.AppendJSON(dst) })
	return append(dst, '}')
}

func signRawPayload(tx *activity.Tx, in *SignRawPayload) (*Signature, error) {
	made, err := signPayloads(tx, in.SignWith, in.decoded)
	if err != nil {
		return nil, err
	}
	return &Signature{raw: made[0]}, nil
}

func signRawPayloads(tx *activity.Tx, in *SignRawPayloads) (*Signatures, error) {
	made, err := signPayloads(tx, in.SignWith, in.decoded...)
	if err != nil {
		return nil, err
	}
	return &Signatures{activity.MapList(made, func(s *chain.Signature) Signature { return Signature{raw: *s} })}, nil
}

func signPayloads(tx *activity.Tx, signWith string, payloads ...payload) ([]chain.Signature, error) {
	s, err := findSigningKey(tx.Tx, signWith)
	if err != nil {
		return nil, err
	}
	digests := make([]chain.Digest, len(payloads))
	for i := range payloads {
		if tx.Drill != "" && !payloads[i].beginsWith(tx.Drill) {
			return nil, fault.WithCode(fault.FailedPrecondition, "DRILL", "a drill signs only payloads that begin with the bytes %x and are hashed here", tx.Drill)
		}
		if digests[i], err = payloads[i].digest(s.curve, s.format); err != nil {
			return nil, err
		}
	}
	return sign(tx, s, digests)
}

// sign signs digests with one key under the activity's grant. A disabled key does not sign.
func sign(tx *activity.Tx, s *signingKey, digests []chain.Digest) (made []chain.Signature, err error) {
	err = withKey(tx, s, func(k *keys.PrivateKey) (err error) {
		if made, err = tx.Holder().Sign(k, digests...); err == nil && tx.WantsProofs {
			claimSignatures(tx, keys.KeyDigests{Key: k, Digests: digests})
		}
		return err
	})
	return made, err
}

// signEach is sign for several keys, each with digests of its own. beside signs too, without a claim.
func signEach(tx *activity.Tx, signers []*signingKey, digests [][]chain.Digest, beside ...keys.KeyDigests) (made [][]chain.Signature, err error) {
	asked := make([]keys.KeyDigests, 0, len(signers))
	var next func() error
	next = func() (err error) { // take one key after the other from the cache and hold all until all have signed
		i := len(asked)
		if i < len(signers) {
			return withKey(tx, signers[i], func(k *keys.PrivateKey) error {
				asked = append(asked, keys.KeyDigests{Key: k, Digests: digests[i]})
				return next()
			})
		}
		if made, err = tx.Holder().SignEach(append(asked, beside...)...); err == nil && tx.WantsProofs {
			claimSignatures(tx, asked...)
		}
		return err
	}
	err = next()
	return made, err
}

// withKey calls use with the private key of s.
func withKey(tx *activity.Tx, s *signingKey, use func(*keys.PrivateKey) error) error {
	if s.key != nil && s.key.Disabled {
		return fault.New(fault.InvalidArgument, "private key is disabled: %s", s.owner.ID)
	}
	id := activity.KeyID{Organization: tx.ID, Owner: s.owner.ID, No: s.owner.No}
	return tx.Keys.With(id, func() (*keys.PrivateKey, error) { return deriveKey(tx, keys.ActionSign, s.owner) }, use)
}

// claimSignatures adds the signatures of each key to the Claims for app proofs.
func claimSignatures(tx *activity.Tx, asked ...keys.KeyDigests) {
	for _, a := range asked {
		c := &activity.SignatureClaim{PublicKey: hex.EncodeToString(a.Key.Public().Compressed()), Digests: make([]string, len(a.Digests))}
		for i, d := range a.Digests {
			m := d.Message
			if d.Scheme == chain.EdDSA {
				sum := sha256.Sum256(m)
				m = sum[:]
			}
			c.Digests[i] = hex.EncodeToString(m)
		}
		tx.Claims = append(tx.Claims, activity.Claim{Signature: c})
	}
}

// A signingKey is the key that signWith names: an account of a wallet, or a private key.
type signingKey struct {
	owner  org.Owner
	curve  chain.Curve
	format chain.Format // of the address in signWith; zero for a private key's id

	account *org.Account
	key     *org.PrivateKey // nil for an account
}

// findSigningKey finds the key of an address or of a private key's id. A missing one is a *fault.Error.
func findSigningKey(tx *org.Tx, signWith string) (*signingKey, error) {
	s := new(signingKey)
	id, err := org.ParseID(signWith)
	byID := err == nil
	if s.owner.ID = id; !byID {
		ok := false
		if s.owner, ok, err = tx.ByAddress(chain.MatchKey(signWith)); err != nil {
			return nil, err
		} else if !ok {
			return nil, activity.NotFound("wallet account", signWith)
		}
	}
	if s.owner.No != 0 {
		return s, s.ofAccount(tx)
	}
	if s.key, err = tx.PrivateKey(s.owner.ID); err != nil {
		return nil, err
	}
	if s.key == nil {
		return nil, activity.NotFound("private key", signWith)
	}
	if !byID {
		match := chain.MatchKey(signWith)
		for _, a := range s.key.Addresses {
			if chain.MatchKey(a.Address) == match {
				s.format, _ = chain.ParseFormat(a.Format) // it was parsed before it was stored
			}
		}
	}
	s.curve, err = chain.ParseCurve(s.key.Curve)
	return s, err
}

// lookUpSigningKey is findSigningKey with nil for a missing key: Run refuses it.
func lookUpSigningKey(tx *org.Tx, signWith string) (*signingKey, error) {
	s, err := findSigningKey(tx, signWith)
	if fault.Of(err) != nil {
		return nil, nil
	}
	return s, err
}

// policyKeys returns the existing keys among signWiths.
func policyKeys(tx *org.Tx, signWiths ...string) ([]policy.Key, error) {
	ks := make([]policy.Key, 0, len(signWiths))
	for _, name := range signWiths {
		s, err := lookUpSigningKey(tx, name)
		if err != nil {
			return nil, err
		}
		if s != nil {
			ks = append(ks, policy.Key{Owner: s.owner.ID, No: s.owner.No})
		}
	}
	return ks, nil
}

func (s *signingKey) ofAccount(tx *org.Tx) (err error) {
	if s.account, err = tx.Account(s.owner.ID, s.owner.No); err != nil {
		return err
	}
	if s.account == nil {
		return fmt.Errorf("an address of account %d that does not exist", s.owner.No)
	}
	if s.curve, err = chain.ParseCurve(s.account.Curve); err == nil {
		s.format, err = chain.ParseFormat(s.account.Format)
	}
	return err
}

// chainKey returns the key as chains need it.
func (s *signingKey) chainKey() (by chain.SigningKey, err error) {
	var public string
	if s.account != nil {
		public, by.Address = s.account.PublicKey, s.account.Address
	} else {
		public = s.key.PublicKey
		for _, a := range s.key.Addresses {
			if s.format != 0 && a.Format == s.format.String() {
				by.Address = a.Address
			}
		}
	}
	b, err := hex.DecodeString(public)
	if err != nil {
		return by, err
	}
	by.Format = s.format
	by.Public, err = chain.NewPublicKey(s.curve, b)
	return by, err
}

// facts adds the roots of the signing key: an account with its wallet, or a private key.
func (s *signingKey) facts(tx *org.Tx, into policy.Facts) error {
	if s.key != nil {
		into["private_key"] = privateKeyValue(s.key)
		return nil
	}
	w, err := tx.Wallet(s.owner.ID)
	if w == nil || err != nil {
		return err
	}
	into["wallet"], into["wallet_account"] = walletValue(w), accountValue(s.account)
	return nil
}

// deriveKey derives the private key that owner names, for a granted action.
func deriveKey(tx *activity.Tx, action string, owner org.Owner) (*keys.PrivateKey, error) {
	if owner.No == 0 {
		return openKey(tx, action, owner.ID)
	}
	a, w, err := loadAccount(tx.Tx, owner)
	if err != nil {
		return nil, err
	}
	if a == nil {
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
	seed, err := tx.Holder().OpenWallet(action, policy.Key{Owner: owner.ID, No: owner.No}, sealedWallet(w))
	if err != nil {
		return nil, err
	}
	defer seed.Wipe()
	return seed.Derive(curve, path)
}

func openKey(tx *activity.Tx, action string, id org.ID) (*keys.PrivateKey, error) {
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
	return tx.Holder().OpenKey(action, id, curve, k.Key)
}
