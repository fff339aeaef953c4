package wallet

import (
	"encoding/hex"
	"fmt"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/spark"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// Spark are the kinds that sign and share keys for Spark. The enclave contacts no operator: the client relays the packages.
var Spark = activity.Family{
	activity.Kind[SparkSignFrost, SparkShares]{
		Name: "SPARK_SIGN_FROST", Resource: "PRIVATE_KEY", Action: "SIGN", Run: sparkSignFrost, Verify: verifySparkShares,
		Signatures: func(in *SparkSignFrost) int { return len(in.Signatures) },
		Params: func(in *SparkSignFrost) policy.Value {
			return sparkParams(in.SignWith, "signatures", listValue(in.Signatures, (*SparkSignatureRequest).value))
		},
		Keys: func(tx *org.Tx, in *SparkSignFrost) ([]policy.Key, error) { return policyKeys(tx, in.SignWith) },
		FillPolicyRequest: func(tx *org.Tx, in *SparkSignFrost, q *policy.Request) error {
			return askPayloads(tx, in.SignWith, nil, q)
		},
	},
	activity.Kind[SparkPrepareTransfer, SparkTransferPackages]{
		Name: "SPARK_PREPARE_TRANSFER", Resource: "PRIVATE_KEY", Action: "SIGN", Run: sparkPrepareTransfer, Verify: verifySparkTransfer,
		Params: func(in *SparkPrepareTransfer) policy.Value {
			return sparkParams(in.SignWith, "transfer", in.Transfer.value())
		},
		Keys: func(tx *org.Tx, in *SparkPrepareTransfer) ([]policy.Key, error) { return policyKeys(tx, in.SignWith) },
		FillPolicyRequest: func(tx *org.Tx, in *SparkPrepareTransfer, q *policy.Request) error {
			return askPayloads(tx, in.SignWith, nil, q)
		},
	},
	activity.Kind[SparkClaimTransfer, SparkClaimPackages]{
		Name: "SPARK_CLAIM_TRANSFER", Resource: "PRIVATE_KEY", Action: "SIGN", Run: sparkClaimTransfer, Verify: verifySparkClaim,
		Params: func(in *SparkClaimTransfer) policy.Value {
			return sparkParams(in.SignWith, "claim", in.Claim.value())
		},
		Keys: func(tx *org.Tx, in *SparkClaimTransfer) ([]policy.Key, error) { return policyKeys(tx, in.SignWith) },
		FillPolicyRequest: func(tx *org.Tx, in *SparkClaimTransfer, q *policy.Request) error {
			return askPayloads(tx, in.SignWith, nil, q)
		},
	},
	activity.Kind[SparkPrepareLightningReceive, SparkPreimagePackages]{
		Name: "SPARK_PREPARE_LIGHTNING_RECEIVE", Resource: "PRIVATE_KEY", Action: "SIGN", Run: sparkPrepareLightningReceive, Verify: verifySparkPreimage,
		Params: func(in *SparkPrepareLightningReceive) policy.Value {
			return sparkParams(in.SignWith, "lightning_receive", policy.Struct(in.LightningReceive.members()...))
		},
		Keys: func(tx *org.Tx, in *SparkPrepareLightningReceive) ([]policy.Key, error) {
			return policyKeys(tx, in.SignWith)
		},
		FillPolicyRequest: func(tx *org.Tx, in *SparkPrepareLightningReceive, q *policy.Request) error {
			return askPayloads(tx, in.SignWith, nil, q)
		},
	},
}

// Limits of one request. Each commitment costs the enclave a few scalar multiplications: the maximal number costs some
// six times the largest batch of payloads.
const (
	maxSparkSignatures  = 100
	maxSparkOperators   = 100
	maxSparkCommitments = 500 // of all signatures together
	maxSparkID          = 128 // bytes of the id of a leaf
)

// SparkSignFrost makes the user's shares of FROST signatures, which the operators complete.
type SparkSignFrost struct {
	SignWith   string                  `json:"signWith" rule:"required"`
	Signatures []SparkSignatureRequest `json:"signatures" rule:"required,dive"`
}

// SparkSignatureRequest is the request for one share.
type SparkSignatureRequest struct {
	Derivation          SparkDerivation   `json:"derivation" rule:"required"`
	Message             string            `json:"message" rule:"required"`
	VerifyingKey        string            `json:"verifyingKey" rule:"required"`
	OperatorCommitments []SparkCommitment `json:"operatorCommitments" rule:"required,dive"`
	AdaptorPublicKey    *string           `json:"adaptorPublicKey,omitempty"`

	signing spark.Signing
}

// SparkCommitment is an operator's commitment to its nonces.
type SparkCommitment struct {
	ID      string `json:"id" rule:"required"`
	Hiding  string `json:"hiding" rule:"required"`
	Binding string `json:"binding" rule:"required"`
}

// SparkDerivation names a key of the account. Exactly one member is set.
type SparkDerivation struct {
	Identity      *struct{}           `json:"identity,omitempty"`
	SigningLeaf   *SparkSigningLeaf   `json:"signingLeaf,omitempty"`
	Deposit       *struct{}           `json:"deposit,omitempty"`
	StaticDeposit *SparkStaticDeposit `json:"staticDeposit,omitempty"`
	HTLCPreimage  *struct{}           `json:"htlcPreimage,omitempty"`
}

// SparkSigningLeaf names the key of a leaf.
type SparkSigningLeaf struct {
	LeafID string `json:"leafId" rule:"required"`
}

// SparkStaticDeposit names the key of a static deposit address.
type SparkStaticDeposit struct {
	Index uint32 `json:"index" rule:"required"`
}

func (in *SparkSignFrost) Check() error {
	if n := len(in.Signatures); n == 0 || n > maxSparkSignatures {
		return fault.Field("signatures", "must have 1 to %d elements", maxSparkSignatures)
	}
	commitments := 0
	for i := range in.Signatures {
		commitments += len(in.Signatures[i].OperatorCommitments)
	}
	if commitments > maxSparkCommitments {
		return fault.Field("signatures", "must have at most %d operatorCommitments together", maxSparkCommitments)
	}
	for i := range in.Signatures {
		if err := in.Signatures[i].check(fmt.Sprintf("signatures.%d", i)); err != nil {
			return err
		}
	}
	return nil
}

func (r *SparkSignatureRequest) check(field string) (err error) {
	if err := r.Derivation.check(field + ".derivation"); err != nil {
		return err
	}
	message, err := sparkBytes(field+".message", r.Message, 32)
	if err != nil {
		return err
	}
	r.signing.Message = [32]byte(message)
	if r.signing.VerifyingKey, err = sparkPoint(field+".verifyingKey", r.VerifyingKey); err != nil {
		return err
	}
	if text := activity.TextOf(r.AdaptorPublicKey); text != "" {
		if r.signing.Adaptor, err = sparkPoint(field+".adaptorPublicKey", text); err != nil {
			return err
		}
	}
	if n := len(r.OperatorCommitments); n == 0 || n > maxSparkOperators {
		return fault.Field(field+".operatorCommitments", "must have 1 to %d elements", maxSparkOperators)
	}
	r.signing.Operators = make([]spark.Commitment, len(r.OperatorCommitments))
	for i, c := range r.OperatorCommitments {
		at := fmt.Sprintf("%s.operatorCommitments.%d", field, i)
		id, err := sparkBytes(at+".id", c.ID, 32)
		if err != nil {
			return err
		}
		if c.ID != hex.EncodeToString(id) {
			return fault.Field(at+".id", "must be in lower case")
		}
		made := &r.signing.Operators[i]
		made.ID = [32]byte(id)
		if made.Hiding, err = sparkPoint(at+".hiding", c.Hiding); err != nil {
			return err
		}
		if made.Binding, err = sparkPoint(at+".binding", c.Binding); err != nil {
			return err
		}
	}
	if err := r.signing.Check(); err != nil {
		return fault.Field(field+".operatorCommitments", "%s", err)
	}
	return nil
}

// check accepts the keys that sign: all but that of preimages.
func (d *SparkDerivation) check(field string) error {
	set := 0
	for _, is := range []bool{d.Identity != nil, d.SigningLeaf != nil, d.Deposit != nil, d.StaticDeposit != nil, d.HTLCPreimage != nil} {
		if is {
			set++
		}
	}
	switch {
	case set != 1:
		return fault.Field(field, "must have exactly one of identity, signingLeaf, deposit and staticDeposit")
	case d.HTLCPreimage != nil:
		return fault.Field(field+".htlcPreimage", "is the key of preimages, which signs nothing")
	case d.SigningLeaf != nil:
		return checkLeafID(field+".signingLeaf.leafId", d.SigningLeaf.LeafID)
	case d.StaticDeposit != nil && d.StaticDeposit.Index >= 1<<31:
		return fault.Field(field+".staticDeposit.index", "must be below 2147483648")
	}
	return nil
}

func checkLeafID(field, id string) error {
	if !activity.Visible(id) || len(id) > maxSparkID {
		return fault.Field(field, "must be 1 to %d visible ASCII characters", maxSparkID)
	}
	return nil
}

// path returns the key's derivation path. The derivation has been checked.
func (d *SparkDerivation) path(a spark.Account) string {
	switch {
	case d.SigningLeaf != nil:
		return a.Leaf(d.SigningLeaf.LeafID)
	case d.Deposit != nil:
		return a.Deposit()
	case d.StaticDeposit != nil:
		return a.StaticDeposit(d.StaticDeposit.Index)
	}
	return a.Identity()
}

func sparkBytes(field, text string, size int) ([]byte, error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != size {
		return nil, fault.Field(field, "must be %d bytes in hexadecimal digits", size)
	}
	return b, nil
}

// sparkPoint parses a public key in the one encoding that Spark uses.
func sparkPoint(field, text string) (chain.PublicKey, error) {
	b, err := hex.DecodeString(text)
	if err == nil && len(b) == 33 {
		if p, err := chain.NewPublicKey(chain.Secp256k1, b); err == nil {
			return p, nil
		}
	}
	return chain.PublicKey{}, fault.Field(field, "must be a compressed public key on secp256k1: 33 bytes in hexadecimal digits")
}

// sparkParams are the members of a request that policies may read.
func sparkParams(signWith, name string, value policy.Value) policy.Value {
	return policy.Struct(policy.Member{Name: "sign_with", Value: addressValue(chain.MatchKey(signWith))}, policy.Member{Name: name, Value: value})
}

func listValue[T any](list []T, element func(*T) policy.Value) policy.Value {
	return policy.List(activity.MapList(list, element)...)
}

func (r *SparkSignatureRequest) value() policy.Value {
	return policy.Struct(
		policy.Member{Name: "derivation", Value: r.Derivation.value()},
		policy.Member{Name: "message", Value: policy.LowerHex(r.Message)},
		policy.Member{Name: "verifying_key", Value: policy.LowerHex(r.VerifyingKey)},
		policy.Member{Name: "operator_commitments", Value: listValue(r.OperatorCommitments, func(c *SparkCommitment) policy.Value {
			return policy.Struct(
				policy.Member{Name: "id", Value: policy.String(c.ID)},
				policy.Member{Name: "hiding", Value: policy.LowerHex(c.Hiding)},
				policy.Member{Name: "binding", Value: policy.LowerHex(c.Binding)})
		})},
		policy.Member{Name: "adaptor_public_key", Value: policy.LowerHex(activity.TextOf(r.AdaptorPublicKey))})
}

// value returns the derivation as a policy value with all members; type names the one that is set.
func (d *SparkDerivation) value() policy.Value {
	typ, leaf, index := "identity", "", uint32(0)
	switch {
	case d.SigningLeaf != nil:
		typ, leaf = "signing_leaf", d.SigningLeaf.LeafID
	case d.Deposit != nil:
		typ = "deposit"
	case d.StaticDeposit != nil:
		typ, index = "static_deposit", d.StaticDeposit.Index
	}
	return policy.Struct(
		policy.Member{Name: "type", Value: policy.String(typ)},
		policy.Member{Name: "signing_leaf", Value: activity.Param("leaf_id", policy.String(leaf))},
		policy.Member{Name: "static_deposit", Value: activity.Param("index", policy.Int(int64(index)))})
}

// SparkShares are the user's shares, in the order of the request.
type SparkShares struct {
	Signatures []SparkShare `json:"signatures"`
}

// SparkShare is one share, with the user's commitment that belongs to it.
type SparkShare struct {
	SignatureShare string `json:"signatureShare"`
	Hiding         string `json:"hiding"`
	Binding        string `json:"binding"`
}

func sparkSignFrost(tx *activity.Tx, in *SparkSignFrost) (*SparkShares, error) {
	s, account, err := findSparkAccount(tx.Tx, in.SignWith)
	if err != nil {
		return nil, err
	}
	asked := make([]keys.FrostSigning, len(in.Signatures))
	for i := range in.Signatures {
		r := &in.Signatures[i]
		asked[i] = keys.FrostSigning{Path: r.Derivation.path(account), Signing: &r.signing}
	}
	var made []spark.Share
	err = withWallet(tx, s, func(w *keys.Wallet) (err error) {
		made, err = tx.Holder().SignFrost(tx.Rand, w, asked)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &SparkShares{activity.MapList(made, func(m *spark.Share) SparkShare {
		return SparkShare{hex.EncodeToString(m.Share[:]), hex.EncodeToString(m.Hiding.Compressed()), hex.EncodeToString(m.Binding.Compressed())}
	})}, nil
}

// findSparkAccount finds the wallet account whose path is that of Spark's identity key, and the account of Spark.
func findSparkAccount(tx *org.Tx, signWith string) (*signingKey, spark.Account, error) {
	s, err := findSigningKey(tx, signWith)
	if err != nil {
		return nil, "", err
	}
	if s.account != nil && s.curve == chain.Secp256k1 {
		if a, ok := spark.ParseAccount(s.account.Path); ok {
			return s, a, nil
		}
	}
	return nil, "", fault.Field("signWith", "must be an address of a wallet account at m/8797555'/n'/0' on CURVE_SECP256K1")
}

// withWallet opens the wallet of an account for signing.
func withWallet(tx *activity.Tx, s *signingKey, use func(*keys.Wallet) error) error {
	return UseWallet(tx, keys.ActionSign, policy.Key{Owner: s.owner.ID, No: s.owner.No}, use)
}

// UseWallet opens the wallet of an account for an action, and wipes it after use.
func UseWallet(tx *activity.Tx, action string, account policy.Key, use func(*keys.Wallet) error) error {
	rec, err := tx.Wallet(account.Owner)
	if err != nil {
		return err
	}
	if rec == nil {
		return fmt.Errorf("an account of a wallet that does not exist")
	}
	w, err := tx.Holder().OpenWallet(action, account, sealedWallet(rec))
	if err != nil {
		return err
	}
	defer w.Wipe()
	return use(w)
}
