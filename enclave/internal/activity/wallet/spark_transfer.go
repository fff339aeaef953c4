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

// Limits of one request for packages. The reply grows with leaves times operators, and, as each operator gets the public
// shares of all, with the operators squared.
const (
	maxSparkLeaves   = 100
	maxSparkPackages = 1 << 20 // bytes of all packages together
	sparkCipher      = 129     // bytes of an encrypted key
	maxSparkRefund   = 128     // bytes of a signature of a refund
)

// SparkOperators are the operators that share a secret.
type SparkOperators struct {
	Threshold          uint32                   `json:"threshold" rule:"required,gt=0"`
	OperatorRecipients []SparkOperatorRecipient `json:"operatorRecipients" rule:"required,dive"`

	group keys.SparkGroup
}

// SparkOperatorRecipient is one operator. Its position in the list is the index of its share.
type SparkOperatorRecipient struct {
	OperatorID          string `json:"operatorId" rule:"required"`
	EncryptionPublicKey string `json:"encryptionPublicKey" rule:"required"`
}

// check refuses equal operators, one of which would have two shares, and a threshold that a single operator reaches.
func (o *SparkOperators) check(field string, leaves int) error {
	n := len(o.OperatorRecipients)
	if n == 0 || n > maxSparkOperators {
		return fault.Field(field+".operatorRecipients", "must have 1 to %d elements", maxSparkOperators)
	}
	if o.Threshold < 2 || int(o.Threshold) > n {
		return fault.Field(field+".threshold", "must be 2 to the number of operatorRecipients")
	}
	if size := leaves * n * (sparkLeafSize + n*(sparkOperatorID+48) + int(o.Threshold)*36); size > maxSparkPackages {
		return fault.Field(field+".leaves", "are too many for so many operatorRecipients: send fewer at once")
	}
	o.group = keys.SparkGroup{Threshold: int(o.Threshold), Operators: make([]keys.SparkOperator, n)}
	ids, points := map[string]bool{}, map[chain.PublicKey]bool{}
	for i, r := range o.OperatorRecipients {
		at := fmt.Sprintf("%s.operatorRecipients.%d", field, i)
		if !activity.Visible(r.OperatorID) || len(r.OperatorID) > sparkOperatorID {
			return fault.Field(at+".operatorId", "must be 1 to %d visible ASCII characters", sparkOperatorID)
		}
		key, err := sparkPoint(at+".encryptionPublicKey", r.EncryptionPublicKey)
		if err != nil {
			return err
		}
		switch {
		case ids[r.OperatorID]:
			return fault.Field(at+".operatorId", "named twice")
		case points[key]:
			return fault.Field(at+".encryptionPublicKey", "named twice")
		}
		ids[r.OperatorID], points[key] = true, true
		o.group.Operators[i] = keys.SparkOperator{ID: r.OperatorID, Key: key}
	}
	return nil
}

const (
	sparkOperatorID = 64 // bytes of an operator's id
	// sparkLeafSize is the maximal size of one leaf in one package, without the parts that grow with the operators.
	sparkLeafSize = maxSparkID + 3*maxSparkRefund + sparkCipher + 150
)

func (o *SparkOperators) members() []policy.Member {
	return []policy.Member{
		{Name: "threshold", Value: policy.Int(int64(o.Threshold))},
		{Name: "operator_recipients", Value: listValue(o.OperatorRecipients, func(r *SparkOperatorRecipient) policy.Value {
			return policy.Struct(
				policy.Member{Name: "operator_id", Value: policy.String(r.OperatorID)},
				policy.Member{Name: "encryption_public_key", Value: policy.LowerHex(r.EncryptionPublicKey)})
		})},
	}
}

// SparkPrepareTransfer transfers leaves to another account.
type SparkPrepareTransfer struct {
	SignWith string        `json:"signWith" rule:"required"`
	Transfer SparkTransfer `json:"transfer" rule:"required"`
}

// SparkTransfer is a transfer of leaves to one receiver.
type SparkTransfer struct {
	TransferID string              `json:"transferId" rule:"required"`
	Leaves     []SparkTransferLeaf `json:"leaves" rule:"required,dive"`
	SparkOperators
	ReceiverPublicKey string `json:"receiverPublicKey" rule:"required"`

	id       org.ID
	receiver chain.PublicKey
}

// SparkTransferLeaf is a leaf to be transferred. The receiver gets its new key.
type SparkTransferLeaf struct {
	LeafID                        string          `json:"leafId" rule:"required"`
	OldLeafDerivation             SparkDerivation `json:"oldLeafDerivation" rule:"required"`
	NewLeafDerivation             SparkDerivation `json:"newLeafDerivation" rule:"required"`
	RefundSignature               *string         `json:"refundSignature,omitempty" rule:"omitempty"`
	DirectRefundSignature         *string         `json:"directRefundSignature,omitempty" rule:"omitempty"`
	DirectFromCpfpRefundSignature *string         `json:"directFromCpfpRefundSignature,omitempty" rule:"omitempty"`

	refunds [3][]byte
}

func (in *SparkPrepareTransfer) Check() (err error) {
	t := &in.Transfer
	if t.id, err = checkTransfer("transfer", t.TransferID, len(t.Leaves)); err != nil {
		return err
	}
	if err := t.check("transfer", len(t.Leaves)); err != nil {
		return err
	}
	if t.receiver, err = sparkPoint("transfer.receiverPublicKey", t.ReceiverPublicKey); err != nil {
		return err
	}
	ids, own := map[string]bool{}, map[string]bool{}
	for i := range t.Leaves {
		l := &t.Leaves[i]
		at := fmt.Sprintf("transfer.leaves.%d", i)
		if err := l.check(at); err != nil {
			return err
		}
		if ids[l.LeafID] {
			return fault.Field(at+".leafId", "named twice")
		}
		ids[l.LeafID] = true
		own[l.LeafID], own[l.OldLeafDerivation.SigningLeaf.LeafID] = true, true
	}
	// The receiver gets the new key, so it must be neither a key of another leaf nor one that the sender still needs.
	next := map[string]bool{}
	for path := range own {
		next[spark.Account("").Leaf(path)] = true
	}
	for i := range t.Leaves {
		path := t.Leaves[i].NewLeafDerivation.path("")
		if next[path] {
			return fault.Field(fmt.Sprintf("transfer.leaves.%d.newLeafDerivation", i), "must be a key that no other leaf has: it is given away")
		}
		next[path] = true
	}
	return nil
}

// checkTransfer parses the id of a transfer, in its one encoding, and limits its leaves.
func checkTransfer(field, text string, leaves int) (id org.ID, err error) {
	if leaves == 0 || leaves > maxSparkLeaves {
		return id, fault.Field(field+".leaves", "must have 1 to %d elements", maxSparkLeaves)
	}
	if id, err = activity.ParseID(field+".transferId", text); err == nil && id.String() != text {
		err = fault.Field(field+".transferId", "must be a UUID in lower case")
	}
	return id, err
}

func (l *SparkTransferLeaf) check(field string) error {
	if err := checkLeafID(field+".leafId", l.LeafID); err != nil {
		return err
	}
	for _, d := range []struct {
		name string
		*SparkDerivation
	}{{"oldLeafDerivation", &l.OldLeafDerivation}, {"newLeafDerivation", &l.NewLeafDerivation}} {
		at := field + "." + d.name
		if err := d.check(at); err != nil {
			return err
		}
		if d.SigningLeaf == nil {
			return fault.Field(at, "must be a signingLeaf")
		}
	}
	for i, r := range []struct {
		name string
		text *string
	}{{"refundSignature", l.RefundSignature}, {"directRefundSignature", l.DirectRefundSignature}, {"directFromCpfpRefundSignature", l.DirectFromCpfpRefundSignature}} {
		b, err := hex.DecodeString(activity.TextOf(r.text))
		if err != nil || len(b) > maxSparkRefund {
			return fault.Field(field+"."+r.name, "must be at most %d bytes in hexadecimal digits", maxSparkRefund)
		}
		l.refunds[i] = b
	}
	return nil
}

func (t *SparkTransfer) value() policy.Value {
	return policy.Struct(append(t.members(),
		policy.Member{Name: "transfer_id", Value: policy.String(t.TransferID)},
		policy.Member{Name: "receiver_public_key", Value: policy.LowerHex(t.ReceiverPublicKey)},
		policy.Member{Name: "leaves", Value: listValue(t.Leaves, func(l *SparkTransferLeaf) policy.Value {
			return policy.Struct(
				policy.Member{Name: "leaf_id", Value: policy.String(l.LeafID)},
				policy.Member{Name: "old_leaf_derivation", Value: l.OldLeafDerivation.value()},
				policy.Member{Name: "new_leaf_derivation", Value: l.NewLeafDerivation.value()},
				policy.Member{Name: "refund_signature", Value: policy.LowerHex(activity.TextOf(l.RefundSignature))},
				policy.Member{Name: "direct_refund_signature", Value: policy.LowerHex(activity.TextOf(l.DirectRefundSignature))},
				policy.Member{Name: "direct_from_cpfp_refund_signature", Value: policy.LowerHex(activity.TextOf(l.DirectFromCpfpRefundSignature))})
		})})...)
}

// SparkClaimTransfer takes over leaves that another account has transferred.
type SparkClaimTransfer struct {
	SignWith string     `json:"signWith" rule:"required"`
	Claim    SparkClaim `json:"claim" rule:"required"`
}

// SparkClaim is a claim of leaves from one sender.
type SparkClaim struct {
	Leaves []SparkClaimLeaf `json:"leaves" rule:"required,dive"`
	SparkOperators
	TransferID              string `json:"transferId" rule:"required"`
	SenderIdentityPublicKey string `json:"senderIdentityPublicKey" rule:"required"`
}

// SparkClaimLeaf is a leaf with its key, encrypted and signed by the sender.
type SparkClaimLeaf struct {
	LeafID          string `json:"leafId" rule:"required"`
	Ciphertext      string `json:"ciphertext" rule:"required"`
	SenderSignature string `json:"senderSignature" rule:"required"`

	cipher []byte
}

func (in *SparkClaimTransfer) Check() error {
	c := &in.Claim
	if _, err := checkTransfer("claim", c.TransferID, len(c.Leaves)); err != nil {
		return err
	}
	if err := c.check("claim", len(c.Leaves)); err != nil {
		return err
	}
	sender, err := sparkPoint("claim.senderIdentityPublicKey", c.SenderIdentityPublicKey)
	if err != nil {
		return err
	}
	paths := map[string]bool{}
	for i := range c.Leaves {
		l := &c.Leaves[i]
		at := fmt.Sprintf("claim.leaves.%d", i)
		if err := checkLeafID(at+".leafId", l.LeafID); err != nil {
			return err
		}
		if path := spark.Account("").Leaf(l.LeafID); paths[path] {
			return fault.Field(at+".leafId", "has the key of another leaf")
		} else {
			paths[path] = true
		}
		if l.cipher, err = sparkBytes(at+".ciphertext", l.Ciphertext, sparkCipher); err != nil {
			return err
		}
		signature, err := sparkBytes(at+".senderSignature", l.SenderSignature, 64)
		if err != nil {
			return err
		}
		if !spark.VerifyLeaf(sender, l.LeafID, c.TransferID, l.cipher, signature) {
			return fault.Field(at+".senderSignature", "is not senderIdentityPublicKey's of this leaf, transfer and ciphertext")
		}
	}
	return nil
}

func (c *SparkClaim) value() policy.Value {
	return policy.Struct(append(c.members(),
		policy.Member{Name: "transfer_id", Value: policy.String(c.TransferID)},
		policy.Member{Name: "sender_identity_public_key", Value: policy.LowerHex(c.SenderIdentityPublicKey)},
		policy.Member{Name: "leaves", Value: listValue(c.Leaves, func(l *SparkClaimLeaf) policy.Value {
			return policy.Struct(
				policy.Member{Name: "leaf_id", Value: policy.String(l.LeafID)},
				policy.Member{Name: "ciphertext", Value: policy.LowerHex(l.Ciphertext)},
				policy.Member{Name: "sender_signature", Value: policy.LowerHex(l.SenderSignature)})
		})})...)
}

// SparkPrepareLightningReceive creates a preimage and shares it among the operators.
type SparkPrepareLightningReceive struct {
	SignWith         string         `json:"signWith" rule:"required"`
	LightningReceive SparkOperators `json:"lightningReceive" rule:"required"`
}

func (in *SparkPrepareLightningReceive) Check() error {
	return in.LightningReceive.check("lightningReceive", 0)
}

// SparkPackages are the packages that the client sends to the operators, in their order.
type SparkPackages struct {
	OperatorPackages []SparkOperatorPackage `json:"operatorPackages"`
}

// SparkOperatorPackage is one operator's package, in hex; only the operator can decrypt it.
type SparkOperatorPackage struct {
	OperatorID       string `json:"operatorId"`
	EncryptedPackage string `json:"encryptedPackage"`
}

// SparkLeafPublicKey is the public key of a transferred leaf.
type SparkLeafPublicKey struct {
	LeafID    string `json:"leafId"`
	PublicKey string `json:"publicKey"`
}

// SparkTransferPackages are the result for the sender. Leaves are named by the ids of their new keys.
type SparkTransferPackages struct {
	SparkPackages
	TransferUserSignature string               `json:"transferUserSignature"`
	NewLeafPublicKeys     []SparkLeafPublicKey `json:"newLeafPublicKeys"`
}

// SparkClaimPackages are the result for the receiver.
type SparkClaimPackages struct {
	SparkPackages
	NewLeafPublicKeys []SparkLeafPublicKey `json:"newLeafPublicKeys"`
}

// SparkPreimagePackages are the result for the payee.
type SparkPreimagePackages struct {
	SparkPackages
	PaymentHash string `json:"paymentHash"`
}

func sparkPackages(of []spark.Entry) SparkPackages {
	return SparkPackages{activity.MapList(of, func(e *spark.Entry) SparkOperatorPackage {
		return SparkOperatorPackage{e.Operator, hex.EncodeToString(e.Value)}
	})}
}

func sparkPrepareTransfer(tx *activity.Tx, in *SparkPrepareTransfer) (*SparkTransferPackages, error) {
	s, account, err := findSparkAccount(tx.Tx, in.SignWith)
	if err != nil {
		return nil, err
	}
	t := &keys.SparkTransfer{Account: account, ID: in.Transfer.id, Text: in.Transfer.TransferID, Group: in.Transfer.group, Receiver: in.Transfer.receiver}
	for i := range in.Transfer.Leaves {
		l := &in.Transfer.Leaves[i]
		t.Leaves = append(t.Leaves, keys.SparkSent{ID: l.LeafID, Old: l.OldLeafDerivation.path(account), New: l.NewLeafDerivation.path(account), Refunds: l.refunds})
	}
	var made *keys.SparkPackages
	err = withWallet(tx, s, func(w *keys.Wallet) (err error) {
		made, err = tx.Holder().PrepareTransfer(tx.Rand, w, t)
		return err
	})
	if err != nil {
		return nil, err
	}
	r := &SparkTransferPackages{SparkPackages: sparkPackages(made.Packages), TransferUserSignature: hex.EncodeToString(made.Signature)}
	for i, k := range made.Keys {
		r.NewLeafPublicKeys = append(r.NewLeafPublicKeys, SparkLeafPublicKey{in.Transfer.Leaves[i].NewLeafDerivation.SigningLeaf.LeafID, hex.EncodeToString(k.Compressed())})
	}
	return r, nil
}

func sparkClaimTransfer(tx *activity.Tx, in *SparkClaimTransfer) (*SparkClaimPackages, error) {
	s, account, err := findSparkAccount(tx.Tx, in.SignWith)
	if err != nil {
		return nil, err
	}
	c := &keys.SparkClaim{Account: account, Group: in.Claim.group}
	for i := range in.Claim.Leaves {
		c.Leaves = append(c.Leaves, keys.SparkReceived{ID: in.Claim.Leaves[i].LeafID, Cipher: in.Claim.Leaves[i].cipher})
	}
	var made *keys.SparkPackages
	err = withWallet(tx, s, func(w *keys.Wallet) (err error) {
		made, err = tx.Holder().ClaimTransfer(tx.Rand, w, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	r := &SparkClaimPackages{SparkPackages: sparkPackages(made.Packages)}
	for i, k := range made.Keys {
		r.NewLeafPublicKeys = append(r.NewLeafPublicKeys, SparkLeafPublicKey{in.Claim.Leaves[i].LeafID, hex.EncodeToString(k.Compressed())})
	}
	return r, nil
}

func sparkPrepareLightningReceive(tx *activity.Tx, in *SparkPrepareLightningReceive) (*SparkPreimagePackages, error) {
	s, _, err := findSparkAccount(tx.Tx, in.SignWith)
	if err != nil {
		return nil, err
	}
	packages, hash, err := tx.Holder().SharePreimage(tx.Rand, policy.Key{Owner: s.owner.ID, No: s.owner.No}, &in.LightningReceive.group)
	if err != nil {
		return nil, err
	}
	return &SparkPreimagePackages{sparkPackages(packages), hex.EncodeToString(hash[:])}, nil
}
