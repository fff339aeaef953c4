package wallet_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"google.golang.org/protobuf/encoding/protowire"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/spark"
	"cloister/enclave/internal/org"
)

// privateNumber is a test's own key.
func privateNumber(n uint32) *secp256k1.PrivateKey {
	return secp256k1.NewPrivateKey(new(secp256k1.ModNScalar).SetInt(n))
}

func publicHex(n uint32) string {
	return hex.EncodeToString(privateNumber(n).PubKey().SerializeCompressed())
}

// sparkAccount is a wallet with Spark's first account: its address and public key.
func sparkAccount(w *world, name string) (address, public string) {
	w.TB.Helper()
	made := w.Run("CREATE_WALLET", activitytest.Wallet(name, activitytest.Account("SECP256K1", "m/8797555'/0'/0'", "SPARK_MAINNET")))
	a, err := w.Tx().Account(activitytest.MustID(made["walletId"]), 1)
	w.Must(err)
	return a.Address, a.PublicKey
}

// leafPublic is the key of a leaf, from an account that is made at its path.
func leafPublic(w *world, address, id string) string {
	w.TB.Helper()
	owner, _, err := w.Tx().ByAddress(chain.MatchKey(address))
	w.Must(err)
	a, _ := spark.ParseAccount("m/8797555'/0'/0'")
	got := w.Run("CREATE_WALLET_ACCOUNTS", object{"walletId": owner.ID.String(), "persist": false, "accounts": []any{activitytest.Account("SECP256K1", a.Leaf(id), "COMPRESSED")}})
	return activitytest.List(got, "addresses")[0]
}

func frost(derivation object, more ...any) object {
	s := object{"derivation": derivation, "message": strings.Repeat("ab", 32), "verifyingKey": publicHex(77), "operatorCommitments": []any{
		object{"id": fmt.Sprintf("%064x", 1), "hiding": publicHex(11), "binding": publicHex(12)}, object{"id": fmt.Sprintf("%064x", 2), "hiding": publicHex(21), "binding": publicHex(22)}}}
	for i := 0; i+1 < len(more); i += 2 {
		s[more[i].(string)] = more[i+1]
	}
	return s
}

func leafKey(id string) object { return object{"signingLeaf": object{"leafId": id}} }

func signFrost(with string, signatures ...any) object {
	return object{"signWith": with, "signatures": signatures}
}

// signingOf reads what was asked for as an operator would.
func signingOf(t *testing.T, asked object) *spark.Signing {
	t.Helper()
	point := func(v any) chain.PublicKey {
		b, _ := hex.DecodeString(v.(string))
		p, err := chain.NewPublicKey(chain.Secp256k1, b)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	message, _ := hex.DecodeString(asked["message"].(string))
	s := &spark.Signing{Message: [32]byte(message), VerifyingKey: point(asked["verifyingKey"])}
	for _, o := range asked["operatorCommitments"].([]any) {
		id, _ := hex.DecodeString(o.(object)["id"].(string))
		s.Operators = append(s.Operators, spark.Commitment{ID: [32]byte(id), Hiding: point(o.(object)["hiding"]), Binding: point(o.(object)["binding"])})
	}
	if a, _ := asked["adaptorPublicKey"].(string); a != "" {
		s.Adaptor = point(a)
	}
	return s
}

func shareOf(t *testing.T, got any) *spark.Share {
	t.Helper()
	b := func(name string) []byte {
		b, err := hex.DecodeString(got.(object)[name].(string))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	s := &spark.Share{Share: [32]byte(b("signatureShare"))}
	var err error
	if s.Hiding, err = chain.NewPublicKey(chain.Secp256k1, b("hiding")); err != nil {
		t.Fatal(err)
	}
	if s.Binding, err = chain.NewPublicKey(chain.Secp256k1, b("binding")); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSparkSignFrost(t *testing.T) {
	w := activitytest.New(t)
	address, public := sparkAccount(w, "w")
	asked := []any{
		frost(object{"identity": object{}}), frost(object{"identity": object{}}, "adaptorPublicKey", publicHex(5)), frost(leafKey("leaf")),
		frost(leafKey("leaf"), "message", strings.Repeat("00", 32), "adaptorPublicKey", ""), frost(object{"deposit": object{}}), frost(object{"staticDeposit": object{"index": 0}}),
		frost(object{"staticDeposit": object{"index": 1<<31 - 1}}),
	}
	seen := map[chain.PublicKey]bool{}
	for range 2 { // the same request in another activity: other nonces
		got := w.Run("SPARK_SIGN_FROST", signFrost(address, asked...))["signatures"].([]any)
		if len(got) != len(asked) {
			t.Fatalf("%d shares", len(got))
		}
		for i := range asked {
			made := shareOf(t, got[i])
			key, err := signingOf(t, asked[i].(object)).User(made)
			if err != nil {
				t.Fatal(err)
			}
			is := hex.EncodeToString(key.Compressed())
			if want := map[int]string{0: public, 1: public, 2: leafPublic(w, address, "leaf"), 3: leafPublic(w, address, "leaf")}[i]; want != "" && is != want {
				t.Errorf("share %d is by %s, not %s", i, is, want)
			}
			if seen[made.Hiding] || seen[made.Binding] {
				t.Error("a nonce is used twice")
			}
			seen[made.Hiding], seen[made.Binding] = true, true
		}
	}
}

// change is a copy with one member at a path of names and places set, or taken away by nil.
func change(in any, path string, v any) any {
	name, rest, deeper := strings.Cut(path, ".")
	if l, ok := in.([]any); ok {
		l = slices.Clone(l)
		var i int
		fmt.Sscan(name, &i)
		if l[i] = v; deeper {
			l[i] = change(in.([]any)[i], rest, v)
		}
		return l
	}
	out := object{}
	for k, old := range in.(object) {
		out[k] = old
	}
	switch {
	case deeper:
		out[name] = change(in.(object)[name], rest, v)
	case v == nil:
		delete(out, name)
	default:
		out[name] = v
	}
	return out
}

// A refusal is of a request with one member changed.
type refusal struct {
	path string
	v    any
	says string
}

func refuseEach(w *world, typ string, good object, refusals []refusal) {
	w.TB.Helper()
	w.Run(typ, good)
	for _, r := range refusals {
		bad := change(good, r.path, r.v)
		w.Refuse(typ, bad, 3, r.says)
		if w.TB.Failed() {
			w.TB.Fatalf("%s %v", r.path, r.v)
		}
	}
	w.Run(typ, good)
}

func many(n int, element func(i int) any) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = element(i)
	}
	return out
}

func TestSparkSignFrostRefuses(t *testing.T) {
	w := activitytest.New(t)
	address, public := sparkAccount(w, "w")
	good := signFrost(address, frost(leafKey("leaf")), frost(object{"identity": object{}}))
	id := func(text string) refusal {
		return refusal{"signatures.1.operatorCommitments.0.id", text, ""}
	}
	commitments := func(n int) []any {
		return many(n, func(i int) any {
			return object{"id": fmt.Sprintf("%064x", i+1), "hiding": publicHex(11), "binding": publicHex(12)}
		})
	}
	refuseEach(w, "SPARK_SIGN_FROST", good, []refusal{
		{"signatures", []any{}, "signatures"},
		{"signatures", many(101, func(int) any { return frost(leafKey("leaf")) }), "1 to 100"},
		{"signatures", many(6, func(int) any { return frost(leafKey("leaf"), "operatorCommitments", commitments(84)) }), "at most 500 operatorCommitments together"},
		{"signatures.1.derivation", object{}, "exactly one"},
		{"signatures.1.derivation", object{"identity": object{}, "deposit": object{}}, "exactly one"},
		{"signatures.1.derivation", object{"htlcPreimage": object{}}, "signs nothing"},
		{"signatures.1.derivation", leafKey(""), "leafId"},
		{"signatures.1.derivation", leafKey("a b"), "visible ASCII"},
		{"signatures.1.derivation", leafKey(strings.Repeat("x", 129)), "1 to 128"},
		{"signatures.1.derivation", object{"staticDeposit": object{}}, "missing field"},
		{"signatures.1.derivation", object{"staticDeposit": object{"index": 1 << 31}}, "below 2147483648"},
		{"signatures.1.message", strings.Repeat("ab", 31), "32 bytes"},
		{"signatures.1.message", "0x" + strings.Repeat("ab", 32), "32 bytes"},
		{"signatures.1.verifyingKey", strings.Repeat("00", 33), "compressed public key"}, // the point at infinity
		{"signatures.1.verifyingKey", "04" + strings.Repeat("11", 64), "compressed public key"},
		{"signatures.1.verifyingKey", hex.EncodeToString(privateNumber(9).PubKey().SerializeUncompressed()), "compressed public key"},
		{"signatures.1.verifyingKey", public, "no operator would have to sign"},
		{"signatures.1.adaptorPublicKey", "00", "compressed public key"},
		{"signatures.1.adaptorPublicKey", "02" + strings.Repeat("ff", 32), "compressed public key"},
		{"signatures.1.operatorCommitments", []any{}, "operatorCommitments"},
		{"signatures.1.operatorCommitments", commitments(101), "1 to 100"},
		{"signatures.1.operatorCommitments.1.hiding", strings.Repeat("00", 33), "compressed public key"},
		{"signatures.1.operatorCommitments.1.binding", "02" + strings.Repeat("00", 32), "compressed public key"},
		{"signatures.1.operatorCommitments.1.id", fmt.Sprintf("%064x", 1), "the same id"},
		id(strings.Repeat("00", 32)), id(strings.Repeat("ff", 32)), id(hex.EncodeToString(spark.UserID[:])), id("01"), id(strings.Repeat("00", 31) + "0A"),
	})
	ethereum := activitytest.List(w.Run("CREATE_WALLET", activitytest.Wallet("e", activitytest.EthAccount(0), activitytest.Account("SECP256K1", "m/8797555'/0'/2'", "COMPRESSED"))), "addresses")
	key := w.Run("CREATE_PRIVATE_KEYS_V2", object{"privateKeys": []any{activitytest.PrivateKey("k", "SECP256K1", "SPARK_MAINNET")}})["privateKeys"].([]any)[0].(object)["privateKeyId"]
	for _, with := range []any{ethereum[0], ethereum[1], key} {
		for typ, in := range sparkRequests(address) {
			w.Refuse(typ, change(in, "signWith", with), 3, "m/8797555'/n'/0'")
		}
	}
	for typ, in := range sparkRequests(address) {
		w.Refuse(typ, change(in, "signWith", "spark1nobody"), 5, "wallet account not found")
	}
}

const transferID = "01912f5c-7a3e-7c1d-8f00-0123456789ab"

func recipients(n int) []any {
	return many(n, func(i int) any {
		return object{"operatorId": fmt.Sprintf("operator-%d", n-i), "encryptionPublicKey": publicHex(uint32(100 + i))}
	})
}

func sparkTransfer(with, receiver string, leaves ...any) object {
	return object{"signWith": with, "transfer": object{"transferId": transferID, "leaves": leaves, "threshold": 2, "operatorRecipients": recipients(3), "receiverPublicKey": receiver}}
}

func transferLeaf(id, before, after string) object {
	return object{"leafId": id, "oldLeafDerivation": leafKey(before), "newLeafDerivation": leafKey(after), "refundSignature": strings.Repeat("01", 64)}
}

func sparkClaim(with, sender string, leaves ...any) object {
	return object{"signWith": with, "claim": object{"transferId": transferID, "leaves": leaves, "threshold": 2, "operatorRecipients": recipients(3), "senderIdentityPublicKey": sender}}
}

// signedLeaf is a leaf with a cipher, as whoever has the key of n signs it.
func signedLeaf(n uint32, id, cipher string) object {
	b, _ := hex.DecodeString(cipher)
	hash := spark.LeafHash(id, transferID, b)
	sig := ecdsa.Sign(privateNumber(n), hash[:])
	r, s := sig.R(), sig.S()
	rb, sb := r.Bytes(), s.Bytes()
	return object{"leafId": id, "ciphertext": cipher, "senderSignature": hex.EncodeToString(append(rb[:], sb[:]...))}
}

func receive(with string) object {
	return object{"signWith": with, "lightningReceive": object{"threshold": 2, "operatorRecipients": recipients(3)}}
}

// sparkRequests are one of each kind.
func sparkRequests(with string) map[string]object {
	return map[string]object{
		"SPARK_SIGN_FROST": signFrost(with, frost(leafKey("leaf"))), "SPARK_PREPARE_TRANSFER": sparkTransfer(with, publicHex(8), transferLeaf("a", "a", "new")),
		"SPARK_CLAIM_TRANSFER": sparkClaim(with, publicHex(8), signedLeaf(8, "a", strings.Repeat("00", 129))), "SPARK_PREPARE_LIGHTNING_RECEIVE": receive(with),
	}
}

// openBox opens Spark's ECIES with code that did not make it.
func openBox(t *testing.T, key *secp256k1.PrivateKey, box []byte) []byte {
	t.Helper()
	from, err := secp256k1.ParsePubKey(box[:65])
	if err != nil {
		t.Fatal(err)
	}
	var p, common secp256k1.JacobianPoint
	from.AsJacobian(&p)
	secp256k1.ScalarMultNonConst(&key.Key, &p, &common)
	common.ToAffine()
	secret, _ := hkdf.Key(sha256.New, append(slices.Clone(box[:65]), secp256k1.NewPublicKey(&common.X, &common.Y).SerializeUncompressed()...), nil, "", 32)
	block, _ := aes.NewCipher(secret)
	aead, _ := cipher.NewGCMWithNonceSize(block, 16)
	plain, err := aead.Open(nil, box[65:81], slices.Concat(box[97:], box[81:97]), nil)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// fieldsOf are the fields of a message, all of bytes.
func messageFields(t *testing.T, b []byte) map[protowire.Number][][]byte {
	t.Helper()
	out := map[protowire.Number][][]byte{}
	for len(b) > 0 {
		n, typ, size := protowire.ConsumeTag(b)
		if size < 0 || typ != protowire.BytesType {
			t.Fatal("no message")
		}
		v, more := protowire.ConsumeBytes(b[size:])
		if more < 0 {
			t.Fatal("no message")
		}
		out[n] = append(out[n], v)
		b = b[size+more:]
	}
	return out
}

// operatorsView opens what each operator gets and gives back the number that two of them find, times the base point, for
// each leaf, with the leaf's fields.
func operatorsView(t *testing.T, packages []any, leaves int) (points []string, of []map[protowire.Number][][]byte) {
	t.Helper()
	if len(packages) != 3 {
		t.Fatalf("%d packages", len(packages))
	}
	shares := make([][]secp256k1.ModNScalar, leaves)
	for i, p := range packages {
		box, err := hex.DecodeString(p.(object)["encryptedPackage"].(string))
		if err != nil || p.(object)["operatorId"] != fmt.Sprintf("operator-%d", 3-i) {
			t.Fatalf("package %d: %v", i, p)
		}
		all := messageFields(t, openBox(t, privateNumber(uint32(100+i)), box))[1]
		if len(all) != leaves {
			t.Fatalf("%d leaves", len(all))
		}
		for j, raw := range all {
			leaf := messageFields(t, raw)
			share := messageFields(t, leaf[2][0])
			if len(share[2]) != 2 || len(leaf[3]) != 3 {
				t.Errorf("%d proofs, %d public shares", len(share[2]), len(leaf[3]))
			}
			own := messageFields(t, leaf[3][i])
			if string(own[1][0]) != fmt.Sprintf("operator-%d", 3-i) || string(own[2][0]) != string(secp256k1.PrivKeyFromBytes(share[1][0]).PubKey().SerializeCompressed()) {
				t.Error("an operator's public share is not that of its share")
			}
			var n secp256k1.ModNScalar
			n.SetByteSlice(share[1][0])
			shares[j] = append(shares[j], n)
			if of = append(of, leaf); i > 0 {
				of = of[:len(of)-1]
			}
		}
	}
	for j := range shares {
		// The line through 1 and 2, at 0, and that through 2 and 3.
		first, second := shares[j][0], shares[j][1]
		second.Negate().Add(&first).Add(&first)
		other, third := shares[j][1], shares[j][2]
		other.Mul(new(secp256k1.ModNScalar).SetInt(3))
		third.Mul(new(secp256k1.ModNScalar).SetInt(2)).Negate().Add(&other)
		if !second.Equals(&third) {
			t.Error("two operators find another number than two others")
		}
		points = append(points, hex.EncodeToString(secp256k1.NewPrivateKey(&second).PubKey().SerializeCompressed()))
	}
	return points, of
}

// sum adds public keys.
func sum(a, b string) string {
	var p, q, r secp256k1.JacobianPoint
	for into, text := range map[*secp256k1.JacobianPoint]string{&p: a, &q: b} {
		raw, _ := hex.DecodeString(text)
		k, err := secp256k1.ParsePubKey(raw)
		if err != nil {
			panic(err)
		}
		k.AsJacobian(into)
	}
	secp256k1.AddNonConst(&p, &q, &r)
	r.ToAffine()
	return hex.EncodeToString(secp256k1.NewPublicKey(&r.X, &r.Y).SerializeCompressed())
}

// A leaf goes from one account to the other: what operators, the receiver and the sender hold adds up.
func TestSparkLeavesChangeHands(t *testing.T) {
	w := activitytest.New(t)
	sender, senderKey := sparkAccount(w, "sender")
	receiver, receiverKey := sparkAccount(w, "receiver")
	sent := w.Run("SPARK_PREPARE_TRANSFER", sparkTransfer(sender, receiverKey, transferLeaf("one", "one", "new-1"), transferLeaf("two", "before", "new-2")))
	tweaks, leaves := operatorsView(t, sent["operatorPackages"].([]any), 2)
	var packages []spark.Entry
	for _, p := range sent["operatorPackages"].([]any) {
		b, _ := hex.DecodeString(p.(object)["encryptedPackage"].(string))
		packages = append(packages, spark.Entry{Operator: p.(object)["operatorId"].(string), Value: b})
	}
	id, _ := org.ParseID(transferID)
	der, _ := hex.DecodeString(sent["transferUserSignature"].(string))
	raw, _ := hex.DecodeString(senderKey)
	key, err := chain.NewPublicKey(chain.Secp256k1, raw)
	w.Must(err)
	if !spark.VerifyPackages(key, id, packages, der) {
		t.Error("the packages are not signed")
	}
	var given []any
	for i, before := range []string{"one", "before"} {
		next := sent["newLeafPublicKeys"].([]any)[i].(object)
		if want := []string{"new-1", "new-2"}[i]; next["leafId"] != want || next["publicKey"] != leafPublic(w, sender, want) {
			t.Errorf("leaf %d has new key %v", i, next)
		}
		if sum(tweaks[i], next["publicKey"].(string)) != leafPublic(w, sender, before) {
			t.Errorf("leaf %d: the operators' difference is not that of old and new key", i)
		}
		leaf := leaves[i]
		if !spark.VerifyLeaf(key, string(leaf[1][0]), transferID, leaf[4][0], leaf[5][0]) || len(leaf[6][0]) != 64 || leaf[7] != nil || leaf[8] != nil {
			t.Errorf("leaf %d is not signed", i)
		}
		given = append(given, object{"leafId": string(leaf[1][0]), "ciphertext": hex.EncodeToString(leaf[4][0]), "senderSignature": hex.EncodeToString(leaf[5][0])})
	}
	taken := w.Run("SPARK_CLAIM_TRANSFER", sparkClaim(receiver, senderKey, given...))
	tweaks, leaves = operatorsView(t, taken["operatorPackages"].([]any), 2)
	for i, name := range []string{"one", "two"} {
		own := taken["newLeafPublicKeys"].([]any)[i].(object)
		if own["leafId"] != name || own["publicKey"] != leafPublic(w, receiver, name) || string(leaves[i][1][0]) != name || leaves[i][4] != nil {
			t.Errorf("leaf %s has key %v", name, own)
		}
		if sum(tweaks[i], own["publicKey"].(string)) != sent["newLeafPublicKeys"].([]any)[i].(object)["publicKey"] {
			t.Errorf("leaf %s: the operators' difference is not that of received and own key", name)
		}
	}
	// What was sealed to the receiver opens for nobody else, not for the sender either.
	w.Refuse("SPARK_CLAIM_TRANSFER", sparkClaim(sender, senderKey, given...), 3, "not hold a key for this account")
	w.Refuse("SPARK_CLAIM_TRANSFER", sparkClaim(receiver, receiverKey, given...), 3, "is not senderIdentityPublicKey")
	w.Refuse("SPARK_CLAIM_TRANSFER", sparkClaim(receiver, senderKey, given[0], given[0]), 3, "the key of another leaf")
	for _, m := range []string{"ciphertext", "leafId", "senderSignature"} {
		bad := change(given[1], m, "ee"+given[1].(object)[m].(string)[2:])
		w.Refuse("SPARK_CLAIM_TRANSFER", sparkClaim(receiver, senderKey, given[0], bad), 3, "is not senderIdentityPublicKey's")
	}
	w.Refuse("SPARK_CLAIM_TRANSFER", change(sparkClaim(receiver, senderKey, given...), "claim.transferId", "01912f5c-7a3e-7c1d-8f00-0123456789ac"), 3, "is not senderIdentityPublicKey")
}

func TestSparkPreparesNothingElse(t *testing.T) {
	w := activitytest.New(t)
	address, _ := sparkAccount(w, "w")
	group := func(at string) []refusal {
		return []refusal{
			{at + ".threshold", 0, "threshold"}, {at + ".threshold", 1, "2 to the number"}, {at + ".threshold", 4, "2 to the number"},
			{at + ".operatorRecipients", []any{}, "operatorRecipients"}, {at + ".operatorRecipients", recipients(101), "1 to 100"},
			{at + ".operatorRecipients.1.operatorId", "operator-3", "named twice"}, {at + ".operatorRecipients.1.operatorId", "a b", "visible ASCII"},
			{at + ".operatorRecipients.1.operatorId", strings.Repeat("x", 65), "1 to 64"},
			{at + ".operatorRecipients.1.encryptionPublicKey", publicHex(100), "named twice"},
			{at + ".operatorRecipients.1.encryptionPublicKey", strings.Repeat("00", 33), "compressed public key"},
		}
	}
	refuseEach(w, "SPARK_PREPARE_LIGHTNING_RECEIVE", receive(address), group("lightningReceive"))
	good := sparkTransfer(address, publicHex(8), transferLeaf("a", "a", "new-a"), transferLeaf("b", "old-b", "new-b"))
	refuseEach(w, "SPARK_PREPARE_TRANSFER", good, append(group("transfer"), []refusal{
		{"transfer.transferId", strings.ToUpper(transferID), "lower case"}, {"transfer.transferId", "t", "UUID"},
		{"transfer.receiverPublicKey", "00", "compressed public key"},
		{"transfer.leaves", []any{}, "leaves"},
		{"transfer.leaves", many(101, func(i int) any { return transferLeaf(fmt.Sprint(i), fmt.Sprint(i), "n"+fmt.Sprint(i)) }), "1 to 100"},
		{"transfer", change(change(good["transfer"], "leaves", many(100, func(i int) any { return transferLeaf(fmt.Sprint(i), fmt.Sprint(i), "n"+fmt.Sprint(i)) })), "operatorRecipients", recipients(40)), "send fewer at once"},
		{"transfer.leaves.1.leafId", "a", "named twice"}, {"transfer.leaves.1.leafId", "ä", "visible ASCII"},
		{"transfer.leaves.1.newLeafDerivation", leafKey("a"), "given away"}, {"transfer.leaves.1.newLeafDerivation", leafKey("old-b"), "given away"},
		{"transfer.leaves.1.newLeafDerivation", leafKey("b"), "given away"}, {"transfer.leaves.1.newLeafDerivation", leafKey("new-a"), "given away"},
		{"transfer.leaves.1.newLeafDerivation", object{"identity": object{}}, "must be a signingLeaf"}, {"transfer.leaves.1.newLeafDerivation", object{"deposit": object{}}, "must be a signingLeaf"},
		{"transfer.leaves.1.oldLeafDerivation", object{"staticDeposit": object{"index": 0}}, "must be a signingLeaf"},
		{"transfer.leaves.1.refundSignature", "zz", "hexadecimal"}, {"transfer.leaves.1.directRefundSignature", strings.Repeat("00", 129), "at most 128"},
	}...))
	got := w.Run("SPARK_PREPARE_LIGHTNING_RECEIVE", receive(address))
	if again := w.Run("SPARK_PREPARE_LIGHTNING_RECEIVE", receive(address)); again["paymentHash"] == got["paymentHash"] {
		t.Error("a preimage twice")
	}
	var shares []secp256k1.ModNScalar
	for i, p := range got["operatorPackages"].([]any) {
		box, _ := hex.DecodeString(p.(object)["encryptedPackage"].(string))
		var n secp256k1.ModNScalar
		n.SetByteSlice(messageFields(t, openBox(t, privateNumber(uint32(100+i)), box))[1][0])
		shares = append(shares, n)
	}
	shares[1].Negate().Add(&shares[0]).Add(&shares[0])
	preimage := shares[1].Bytes()
	if hash := sha256.Sum256(preimage[:]); hex.EncodeToString(hash[:]) != got["paymentHash"] {
		t.Error("two operators do not find the preimage")
	}
}

// Who replays a history takes no other result than one that the request can have.
func TestRecordedSpark(t *testing.T) {
	w := activitytest.New(t)
	address, public := sparkAccount(w, "w")
	_, other := sparkAccount(w, "other")
	sent := w.Run("SPARK_PREPARE_TRANSFER", sparkTransfer(address, public, transferLeaf("a", "a", "new")))
	_, leaves := operatorsView(t, sent["operatorPackages"].([]any), 1)
	requests := sparkRequests(address)
	requests["SPARK_SIGN_FROST"] = signFrost(address, frost(object{"identity": object{}}), frost(leafKey("x")), frost(leafKey("x"), "message", strings.Repeat("00", 32)))
	requests["SPARK_CLAIM_TRANSFER"] = sparkClaim(address, public, object{"leafId": "a", "ciphertext": hex.EncodeToString(leaves[0][4][0]), "senderSignature": hex.EncodeToString(leaves[0][5][0])})
	for typ, in := range requests {
		v, err := kinds.Live.Lookup(activity.OpOf("ACTIVITY_TYPE_"+typ), "ACTIVITY_TYPE_"+typ)
		w.Must(err)
		intent, err := v.Decode(activitytest.JSON(in))
		w.Must(err)
		holds := func(r any) error { return v.Verify(w.Tx(), intent, activitytest.JSON(object{v.ResultKey: r}), nil) }
		good := object(w.Run(typ, in))
		if err := holds(good); err != nil {
			t.Errorf("%s: %v", typ, err)
		}
		again := object(w.Run(typ, in))
		for path, bad := range map[string]map[string]any{
			"SPARK_SIGN_FROST": {"signatures": good["signatures"], "signatures.0.signatureShare": strings.Repeat("01", 32), "signatures.0.hiding": other, "signatures.1.binding": other,
				"signatures.2": again["signatures"], "signatures.2.signatureShare": strings.Repeat("01", 32), "signatures.0.binding": "00"},
			"SPARK_PREPARE_TRANSFER": {"operatorPackages.0": again["operatorPackages"], "operatorPackages.1.operatorId": "x", "transferUserSignature": again["transferUserSignature"],
				"newLeafPublicKeys.0.leafId": "a", "newLeafPublicKeys.0.publicKey": "00", "newLeafPublicKeys": []any{}, "operatorPackages": []any{}},
			"SPARK_CLAIM_TRANSFER":            {"operatorPackages.1.operatorId": "x", "newLeafPublicKeys.0.leafId": "b", "operatorPackages": []any{}},
			"SPARK_PREPARE_LIGHTNING_RECEIVE": {"operatorPackages.1.operatorId": "x", "paymentHash": "00", "operatorPackages": []any{}},
		}[typ] {
			if l, ok := bad.([]any); ok && len(l) > 0 {
				if path == "signatures" {
					bad = l[1:]
				} else {
					bad = l[0]
				}
			}
			if holds(change(good, path, bad)) == nil {
				t.Errorf("%s: another %s is taken", typ, path)
			}
		}
	}
}
