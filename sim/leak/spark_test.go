package leak_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"cloister/sim/client"
)

// What Spark's kinds make for a moment is not stored, so that it follows from what they answer: the test has the keys of the
// operators, who are 1 and 2, and learns the users' from the store. Of a share's two nonces it learns the sum that the share
// has, which gives the key away as both do.

// one and two are the base point and its double.
const (
	one = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"
	two = "02c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5"
)

// sparkPaths are of the keys that spark uses: the identity's, and those of two leaves.
var sparkPaths = []string{"m/8797555'/0'/0'", leafPath("leaf"), leafPath("new")}

func leafPath(id string) string {
	sum := sha256.Sum256([]byte(id))
	return fmt.Sprintf("m/8797555'/0'/1'/%d'", binary.BigEndian.Uint32(sum[:])&^(1<<31))
}

// spark has a wallet sign for Spark and share keys of leaves and a preimage. The new key goes out encrypted.
func spark(o *client.User, l *load, wallet string) error {
	ctx := context.Background()
	account := client.Account("SECP256K1", sparkPaths[0], "SPARK_MAINNET")
	made, err := o.Client.Do(ctx, "CREATE_WALLET_ACCOUNTS", client.Object{"walletId": wallet, "accounts": []any{account}})
	if err != nil {
		return err
	}
	address := client.Text(made, "addresses", "0")
	leaf := func(id string) any { return client.Object{"signingLeaf": client.Object{"leafId": id}} }
	made, err = o.Client.Do(ctx, "SPARK_SIGN_FROST", client.Object{"signWith": address, "signatures": []any{client.Object{"derivation": leaf("leaf"),
		"message": frostMessage, "verifyingKey": two, "operatorCommitments": []any{client.Object{"id": frostOperator, "hiding": one, "binding": two}}}}})
	if err != nil {
		return err
	}
	share := func(member string) string { return client.Text(made, "signatures", "0", member) }
	l.preimages.Lock()
	l.frost = append(l.frost, frostShare{share("signatureShare"), share("hiding"), share("binding")})
	l.preimages.Unlock()
	operators := []any{client.Object{"operatorId": "one", "encryptionPublicKey": one}, client.Object{"operatorId": "two", "encryptionPublicKey": two}}
	err = do(o, "SPARK_PREPARE_TRANSFER", client.Object{"signWith": address, "transfer": client.Object{"transferId": wallet,
		"leaves": []any{client.Object{"leafId": "leaf", "oldLeafDerivation": leaf("leaf"), "newLeafDerivation": leaf("new")}}, "threshold": 2, "receiverPublicKey": one,
		"operatorRecipients": operators}})
	if err != nil {
		return err
	}
	made, err = o.Client.Do(ctx, "SPARK_PREPARE_LIGHTNING_RECEIVE",
		client.Object{"signWith": address, "lightningReceive": client.Object{"threshold": 2, "operatorRecipients": operators}})
	if err != nil {
		return err
	}
	box := func(i string) string { return client.Text(made, "operatorPackages", i, "encryptedPackage") }
	return l.preimages.add(box("0"), box("1"), client.Text(made, "paymentHash"))
}

// preimages are those that were shared, and their shares.
type preimages struct {
	sync.Mutex
	all [][]byte
}

// add opens the packages of the operators 1 and 2.
func (p *preimages) add(first, second, hash string) error {
	a, err := openShare(first, 1)
	if err != nil {
		return err
	}
	b, err := openShare(second, 2)
	if err != nil {
		return err
	}
	// A line through 1 and 2 has at 0 twice the first less the second.
	n := new(big.Int).Lsh(new(big.Int).SetBytes(a), 1)
	preimage := n.Mod(n.Sub(n, new(big.Int).SetBytes(b)), secp256k1.Params().N).FillBytes(make([]byte, 32))
	if sum := sha256.Sum256(preimage); hex.EncodeToString(sum[:]) != hash {
		return errors.New("the shares are of another preimage")
	}
	p.Lock()
	defer p.Unlock()
	p.all = append(p.all, preimage, a, b)
	return nil
}

// openShare opens an operator's package, of a point of 65 bytes, a nonce and a tag of 16, and reads the share in it.
func openShare(box string, key uint32) ([]byte, error) {
	b, err := hex.DecodeString(box)
	if err != nil || len(b) < 97 {
		return nil, fmt.Errorf("no package: %q", box)
	}
	point, err := secp256k1.ParsePubKey(b[:65])
	if err != nil {
		return nil, err
	}
	of := secp256k1.NewPublicKey(affine(times(new(secp256k1.ModNScalar).SetInt(key), point)))
	secret, err := hkdf.Key(sha256.New, slices.Concat(b[:65], of.SerializeUncompressed()), nil, "", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithNonceSize(block, 16)
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(nil, b[65:81], slices.Concat(b[97:], b[81:97]), nil)
	if err != nil || !bytes.HasPrefix(plain, []byte{1<<3 | 2, 32}) || len(plain) < 34 {
		return nil, fmt.Errorf("no share in a package: %v", err)
	}
	return plain[2:34], nil
}

// sparkSecrets are of one wallet: its keys, their difference, and the nonces of its share, which it takes off the list.
func (s *stack) sparkSecrets(l *load, seed []byte) (all []*secret) {
	s.t.Helper()
	var last [][]byte
	for _, path := range sparkPaths {
		nodes := curves["CURVE_SECP256K1"].nodes(s.t, seed, path)
		for _, n := range nodes {
			all = append(all, &secret{kindNode, n})
		}
		last = append(last, nodes[len(nodes)-1])
	}
	n := new(big.Int).Sub(new(big.Int).SetBytes(last[1]), new(big.Int).SetBytes(last[2]))
	all = append(all, &secret{kindSpark, n.Mod(n, secp256k1.Params().N).FillBytes(make([]byte, 32))})
	l.frost = slices.DeleteFunc(l.frost, func(share frostShare) bool {
		nonces := share.nonces(s.t.Fatal, last[1])
		for _, b := range nonces {
			all = append(all, &secret{kindSpark, b})
		}
		return nonces != nil
	})
	return all
}

// frostShare is a share as it was answered.
type frostShare struct{ share, hiding, binding string }

var (
	frostMessage  = strings.Repeat("ab", 32)
	frostOperator = strings.Repeat("00", 31) + "01"
)

const frostSuite = "FROST-secp256k1-SHA256-TR-v1"

// nonces are the sum d + rho*e of a share of key and its negative, none if it is another's.
func (f frostShare) nonces(fatal func(...any), key []byte) [][]byte {
	decode := func(text string) []byte {
		b, err := hex.DecodeString(text)
		if err != nil {
			fatal(err)
		}
		return b
	}
	point := func(text string) *secp256k1.PublicKey {
		p, err := secp256k1.ParsePubKey(decode(text))
		if err != nil {
			fatal(err)
		}
		return p
	}
	// The output key: the verifying key with an even y, and the tweak of its x.
	x := decode(two)[1:]
	var tweak, challenge, z, private secp256k1.ModNScalar
	tweak.SetByteSlice(tagged("TapTweak", x))
	output := sum(times(&tweak, point(one)), times(new(secp256k1.ModNScalar).SetInt(1), point("02"+hex.EncodeToString(x))))
	outputX, _ := affine(output)

	user := hashToScalar(frostSuite+"id", []byte("user")).Bytes()
	type commitment struct{ id, hiding, binding []byte }
	all := []commitment{{decode(frostOperator), decode(one), decode(two)}, {user[:], decode(f.hiding), decode(f.binding)}}
	slices.SortFunc(all, func(a, b commitment) int { return bytes.Compare(a.id, b.id) })
	list := []byte(frostSuite + "com")
	for _, c := range all {
		list = slices.Concat(list, c.id, c.hiding, c.binding)
	}
	message, commitments := sha256.Sum256(slices.Concat([]byte(frostSuite+"msg"), decode(frostMessage))), sha256.Sum256(list)
	var nonces, mine secp256k1.JacobianPoint
	for _, c := range all {
		rho := hashToScalar(frostSuite+"rho", []byte{2}, outputX.Bytes()[:], message[:], commitments[:], c.id)
		part := sum(times(new(secp256k1.ModNScalar).SetInt(1), point(hex.EncodeToString(c.hiding))), times(rho, point(hex.EncodeToString(c.binding))))
		if bytes.Equal(c.id, user[:]) {
			mine = *part
		}
		nonces = *sum(&nonces, part)
	}
	nonceX, _ := affine(&nonces)
	challenge.SetByteSlice(tagged("BIP0340/challenge", slices.Concat(nonceX.Bytes()[:], outputX.Bytes()[:], decode(frostMessage))))

	// The share is ±nonce + challenge*(±key): of the four, one fits the commitments.
	mineX, mineY := affine(&mine)
	z.SetByteSlice(decode(f.share))
	private.SetByteSlice(key)
	for range 2 {
		k := new(secp256k1.ModNScalar).Mul2(&challenge, private.Negate()).Add(&z)
		for range 2 {
			if at := secp256k1.NewPrivateKey(k.Negate()).PubKey(); at.IsEqual(secp256k1.NewPublicKey(mineX, mineY)) {
				a := k.Bytes()
				b := k.Negate().Bytes()
				return [][]byte{a[:], b[:]}
			}
		}
	}
	return nil
}

func tagged(tag string, message []byte) []byte {
	t := sha256.Sum256([]byte(tag))
	sum := sha256.Sum256(slices.Concat(t[:], t[:], message))
	return sum[:]
}

// hashToScalar is hash_to_field of RFC 9380, of 48 bytes.
func hashToScalar(domain string, message ...[]byte) *secp256k1.ModNScalar {
	end := append([]byte(domain), byte(len(domain)))
	zero := sha256.Sum256(slices.Concat(make([]byte, 64), slices.Concat(message...), []byte{0, 48, 0}, end))
	first := sha256.Sum256(slices.Concat(zero[:], []byte{1}, end))
	for i := range zero {
		zero[i] ^= first[i]
	}
	second := sha256.Sum256(slices.Concat(zero[:], []byte{2}, end))
	n := new(big.Int).SetBytes(slices.Concat(first[:], second[:16]))
	out := new(secp256k1.ModNScalar)
	out.SetByteSlice(n.Mod(n, secp256k1.Params().N).FillBytes(make([]byte, 32)))
	return out
}

func times(n *secp256k1.ModNScalar, p *secp256k1.PublicKey) *secp256k1.JacobianPoint {
	var at, out secp256k1.JacobianPoint
	p.AsJacobian(&at)
	secp256k1.ScalarMultNonConst(n, &at, &out)
	return &out
}

func sum(a, b *secp256k1.JacobianPoint) *secp256k1.JacobianPoint {
	var out secp256k1.JacobianPoint
	secp256k1.AddNonConst(a, b, &out)
	return &out
}

func affine(p *secp256k1.JacobianPoint) (x, y *secp256k1.FieldVal) {
	p.ToAffine()
	return &p.X, &p.Y
}
