package wallet_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	decred "github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/secret"
)

// verifies checks a signature with code that did not make it.
func verifies(curve, publicHex string, message []byte, sig object) error {
	r, _ := hex.DecodeString(sig["r"].(string))
	s, _ := hex.DecodeString(sig["s"].(string))
	public, _ := hex.DecodeString(publicHex)
	if len(r) != 32 || len(s) != 32 || sig["r"] != strings.ToLower(sig["r"].(string)) {
		return fmt.Errorf("not 64 lower-case digits")
	}
	v := sig["v"].(string)
	switch curve {
	case "ED25519":
		if v != "00" || !ed25519.Verify(public, message, append(r, s...)) {
			return fmt.Errorf("bad ed25519 signature")
		}
	case "P256":
		x, y := elliptic.UnmarshalCompressed(elliptic.P256(), public)
		half := new(big.Int).Rsh(elliptic.P256().Params().N, 1)
		if !ecdsa.Verify(point(x, y), message, new(big.Int).SetBytes(r), new(big.Int).SetBytes(s)) || new(big.Int).SetBytes(s).Cmp(half) > 0 {
			return fmt.Errorf("bad P-256 signature")
		}
	default:
		compact := append(append([]byte{27 + v[1] - '0'}, r...), s...)
		key, _, err := decred.RecoverCompact(compact, message)
		if err != nil || !bytes.Equal(key.SerializeCompressed(), public) || (v != "00" && v != "01") {
			return fmt.Errorf("bad recoverable signature: %v", err)
		}
		var scalar secp256k1.ModNScalar
		scalar.SetByteSlice(s)
		if scalar.IsOverHalfOrder() {
			return fmt.Errorf("high s")
		}
	}
	return nil
}

var hashes = map[string]func([]byte) []byte{
	"HASH_FUNCTION_NO_OP":          func(b []byte) []byte { return b },
	"HASH_FUNCTION_NOT_APPLICABLE": func(b []byte) []byte { return b },
	"HASH_FUNCTION_SHA256":         func(b []byte) []byte { s := sha256.Sum256(b); return s[:] },
	// The vectors hold this one to another's work.
	"HASH_FUNCTION_KECCAK256": func(b []byte) []byte {
		d, err := keys.Digest(chain.Secp256k1, keys.HashKeccak256, b)
		if err != nil {
			panic(err)
		}
		return d
	},
}

func TestEveryCurveEncodingAndHash(t *testing.T) {
	w := activitytest.New(t)
	paths := map[string][2]string{"SECP256K1": {"m/44'/60'/0'/0/0", "ETHEREUM"}, "P256": {"m/0'/0", "COMPRESSED"}, "ED25519": {"m/44'/501'/0'", "SOLANA"}}
	n := 0
	for curve, p := range paths {
		made := w.Run("CREATE_WALLET", activitytest.Wallet(curve, activitytest.Account(curve, p[0], p[1])))
		a, err := w.Tx().Account(activitytest.MustID(made["walletId"]), 1)
		w.Must(err)
		for _, encoding := range []string{"HEXADECIMAL", "TEXT_UTF8"} {
			for hash, digest := range hashes {
				message := []byte("exactly 32 bytes, like a digest.")
				payload := string(message)
				if encoding == "HEXADECIMAL" {
					payload = "0x" + hex.EncodeToString(message)
				}
				in := object{"signWith": a.Address, "payload": payload, "encoding": "PAYLOAD_ENCODING_" + encoding, "hashFunction": hash}
				if (curve == "ED25519") != (hash == "HASH_FUNCTION_NOT_APPLICABLE") {
					w.Refuse("SIGN_RAW_PAYLOAD_V2", in, 3, "invalid hash function")
					continue
				}
				n++
				sig := w.Run("SIGN_RAW_PAYLOAD_V2", in)
				if err := verifies(curve, a.PublicKey, digest(message), sig); err != nil {
					t.Errorf("%s %s %s: %v", curve, encoding, hash, err)
				}
				claimed := digest(message)
				if curve == "ED25519" {
					sum := sha256.Sum256(message)
					claimed = sum[:]
				}
				c := w.Last.Claims[0].Signature
				if c.PublicKey != a.PublicKey || len(c.Digests) != 1 || c.Digests[0] != hex.EncodeToString(claimed) {
					t.Errorf("%+v", c)
				}
			}
		}
	}
	if n != 2*(3+3+1) {
		t.Errorf("%d signatures", n)
	}
}

func TestSignWith(t *testing.T) {
	w := activitytest.New(t)
	made := w.Run("CREATE_PRIVATE_KEYS_V2", object{"privateKeys": []any{object{"privateKeyName": "k", "curve": "CURVE_SECP256K1", "addressFormats": []any{"ADDRESS_FORMAT_ETHEREUM"}, "privateKeyTags": []any{}}}})
	key := made["privateKeys"].([]any)[0].(object)
	id := key["privateKeyId"].(string)
	address := key["addresses"].([]any)[0].(object)["address"].(string)
	want := w.Sign(id, "00")
	for _, with := range []string{address, strings.ToLower(address), "0x" + strings.ToUpper(address[2:]), strings.ToUpper(id)} {
		if got := w.Sign(with, "00"); got["r"] != want["r"] || got["s"] != want["s"] {
			t.Errorf("%s signs with another key", with)
		}
	}
	v1 := activitytest.Signing("", "00")
	delete(v1, "signWith")
	v1["privateKeyId"] = id
	if got := w.Run("SIGN_RAW_PAYLOAD", v1); got["r"] != want["r"] {
		t.Error("version 1 signs with another key")
	}
	v1["privateKeyId"] = address
	w.Refuse("SIGN_RAW_PAYLOAD", v1, 3, "privateKeyId")

	solana := activitytest.List(w.Run("CREATE_WALLET", activitytest.Wallet("s", activitytest.Account("ED25519", "m/44'/501'/0'", "SOLANA"))), "addresses")[0]
	for _, c := range []struct{ with, says string }{
		{w.Root, "private key not found: " + w.Root},
		{"0x0000000000000000000000000000000000000000", "wallet account not found: 0x0000"},
		{strings.ToLower(solana), "wallet account not found: " + strings.ToLower(solana)},
		{address[2:], "wallet account not found"},
		{" " + address, "wallet account not found"},
		{"a\n\x00\"é", `wallet account not found: a\n\x00\"\u00e9`},
	} {
		w.Refuse("SIGN_RAW_PAYLOAD_V2", activitytest.Signing(c.with, "00"), 5, c.says)
	}
	w.Refuse("SIGN_RAW_PAYLOAD_V2", activitytest.Signing(strings.Repeat("x", 100_000), "00"), 5, strings.Repeat("x", 128))
}

func TestSigningRefuses(t *testing.T) {
	w := activitytest.New(t)
	address := activitytest.List(w.Run("CREATE_WALLET", activitytest.Wallet("w", activitytest.EthAccount(0))), "addresses")[0]
	with := func(k string, v any) object {
		in := activitytest.Signing(address, "00")
		in[k] = v
		return in
	}
	for _, c := range []struct {
		params any
		code   fault.Code
		says   string
	}{
		{with("payload", "0"), 3, "invalid payload encoding"},
		{with("payload", "zz"), 3, "invalid payload encoding"},
		{with("payload", "0x0x00"), 3, "invalid payload encoding"},
		{with("payload", ""), 3, "missing field `payload`"},
		{with("encoding", "PAYLOAD_ENCODING_BASE64"), 3, "invalid payload encoding"},
		{with("encoding", "PAYLOAD_ENCODING_EIP712"), 3, "invalid typed data"},
		{with("encoding", "PAYLOAD_ENCODING_EIP7702_AUTHORIZATION"), 3, "invalid authorization"},
		{with("hashFunction", "HASH_FUNCTION_MD5"), 3, "invalid hash function"},
		{with("hashFunction", "HASH_FUNCTION_NOT_APPLICABLE"), 3, "invalid hash function"},
		{with("hashFunction", nil), 3, "missing field `hashFunction`"},
		{with("hashFunction", "HASH_FUNCTION_NO_OP"), 3, "expected a 32-bytes-long digest"},
	} {
		w.Refuse("SIGN_RAW_PAYLOAD_V2", c.params, c.code, c.says)
	}
}

func TestSignRawPayloads(t *testing.T) {
	w := activitytest.New(t)
	made := w.Run("CREATE_WALLET", activitytest.Wallet("w", activitytest.EthAccount(0)))
	a, _ := w.Tx().Account(activitytest.MustID(made["walletId"]), 1)
	in := func(n int) object {
		p := activitytest.Signing(a.Address, "")
		delete(p, "payload")
		payloads := []any{}
		for i := range n {
			payloads = append(payloads, fmt.Sprintf("%04x", i))
		}
		p["payloads"] = payloads
		return p
	}
	sigs := w.Run("SIGN_RAW_PAYLOADS", in(100))["signatures"].([]any)
	if len(sigs) != 100 || len(w.Last.Claims) != 1 || len(w.Last.Claims[0].Signature.Digests) != 100 {
		t.Fatalf("%d signatures", len(sigs))
	}
	for i, s := range sigs {
		sum := sha256.Sum256([]byte{byte(i >> 8), byte(i)})
		if err := verifies("SECP256K1", a.PublicKey, sum[:], s.(object)); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	w.Refuse("SIGN_RAW_PAYLOADS", in(101), 3, "1 to 100")
	w.Refuse("SIGN_RAW_PAYLOADS", in(0), 3, "1 to 100")
	bad := in(3)
	bad["payloads"].([]any)[2] = "x"
	_, err := w.Try("SIGN_RAW_PAYLOADS", bad)
	if e := fault.Of(err); e == nil || len(e.Violations) != 1 || e.Violations[0].Field != "payloads.2" {
		t.Errorf("%+v", e)
	}
	short := in(2)
	short["hashFunction"] = "HASH_FUNCTION_NO_OP"
	w.Refuse("SIGN_RAW_PAYLOADS", short, 3, "expected a 32-bytes-long digest")
}

func TestNothingIsSignedWithoutAGrant(t *testing.T) {
	w := activitytest.New(t)
	address := activitytest.List(w.Run("CREATE_WALLET", activitytest.Wallet("w", activitytest.EthAccount(0))), "addresses")[0]
	for _, c := range []struct{ op, typ, params string }{
		{"sign_raw_payload", "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", string(activitytest.JSON(activitytest.Signing(address, "00")))},
		{"sign_raw_payloads", "ACTIVITY_TYPE_SIGN_RAW_PAYLOADS", strings.Replace(string(activitytest.JSON(activitytest.Signing(address, "00"))), `"payload":"00"`, `"payloads":["00"]`, 1)},
	} {
		v, err := kinds.Live.Lookup(c.op, c.typ)
		w.Must(err)
		in, err := v.Decode([]byte(c.params))
		w.Must(err)
		id := w.NewID()
		run := func(tx *activity.Tx) error {
			tx.Tx, tx.Vault, tx.Rand, tx.Keys, tx.User, tx.Activity = w.Tx(), activity.VaultOf(w.Vault), w.Rand, w.Keys, w.User, id
			_, err := v.Run(tx, in)
			if fault.Of(err) != nil {
				t.Errorf("told to the user: %v", err)
			}
			return err
		}
		if run(&activity.Tx{}) == nil {
			t.Errorf("%s signs without a grant", c.op)
		}
		if run(&activity.Tx{Grant: w.Grant("CREATE", id)}) == nil {
			t.Errorf("%s signs with a grant for something else", c.op)
		}
		g := w.GrantFor(v, in, id)
		if err := run(&activity.Tx{Grant: g}); err != nil {
			t.Errorf("%s: %v", c.op, err)
		}
		if run(&activity.Tx{Grant: g}) == nil {
			t.Errorf("%s signs with a spent grant", c.op)
		}
	}
}

func TestKeysOfOrganizationsStayApart(t *testing.T) {
	a, b := activitytest.New(t), activitytest.New(t)
	b.Keys, b.ID = a.Keys, a.NewID()
	tx := b.Tx()
	o, err := tx.Organization()
	b.Must(err)
	moved := *o
	moved.ID = b.ID
	b.Must(tx.PutOrganization(&moved))
	tx.Apply()
	address := activitytest.List(a.Run("CREATE_WALLET", activitytest.Wallet("w", activitytest.EthAccount(0))), "addresses")[0]
	a.Sign(address, "00") // cached from here on
	b.Refuse("SIGN_RAW_PAYLOAD_V2", activitytest.Signing(address, "00"), 5, "not found")
}

// A missing piece is passed on as it is, and the activity can run again.
func TestMissingPiecesPassThrough(t *testing.T) {
	w := activitytest.New(t)
	address := activitytest.List(w.Run("CREATE_WALLET", activitytest.Wallet("w", activitytest.EthAccount(0))), "addresses")[0]
	stored := activitytest.Store(w.State)
	w.State.DropLoaded()
	n := 0
	for {
		_, err := w.Try("SIGN_RAW_PAYLOAD_V2", activitytest.Signing(address, "00"))
		if err == nil {
			break
		}
		m, ok := err.(*org.Retry)
		if !ok || n > len(stored) {
			t.Fatal(err)
		}
		w.Must(w.State.Install(m.LoadPiece, stored[m.LoadPiece]))
		n++
	}
	if n == 0 {
		t.Error("nothing was missing")
	}
}

// importedKey stores a private key as if it had been made, under an address if one is given.
func importedKey(w *world, curve chain.Curve, privateHex, format, address string) (id string) {
	w.TB.Helper()
	raw, err := hex.DecodeString(privateHex)
	w.Must(err)
	s, err := secret.From(raw[:32])
	w.Must(err)
	by := w.NewID()
	k, err := (&keys.Holder{Grant: w.Grant(keys.ActionImport, by), Organization: w.ID, Activity: by}).ImportKey(curve, s)
	w.Must(err)
	of := w.NewID()
	sealed, err := w.Vault.Seal(of, s)
	w.Must(err)
	p := &org.PrivateKey{ID: of, Name: of.String(), Curve: curve.String(), Key: sealed, PublicKey: hex.EncodeToString(k.Public().Bytes())}
	var matches []string
	if address != "" {
		p.Addresses, matches = []org.Address{{Format: "ADDRESS_FORMAT_" + format, Address: address}}, []string{chain.MatchKey(address)}
	}
	tx := w.Tx()
	w.Must(tx.PutPrivateKey(p, matches))
	tx.Apply()
	return of.String()
}

// The vectors of raw signing, through the whole activity, byte for byte: every signature is determined.
func TestSigningVectors(t *testing.T) {
	w := activitytest.New(t)
	for _, v := range loadVectors(t) {
		private, format := v.PrivateKey, ""
		switch {
		case strings.HasPrefix(v.SignWith, "bc1p"): // what signs is tweaked from what is stored
			private, format = v.UntweakedPrivateKey, "BITCOIN_MAINNET_P2TR"
		case strings.HasPrefix(v.SignWith, "spark1"):
			format = "SPARK_MAINNET"
		}
		curve := chain.Secp256k1
		if v.Curve != "schnorr" {
			var err error
			curve, err = chain.ParseCurve("CURVE_" + strings.ToUpper(v.Curve))
			w.Must(err)
		}
		with := importedKey(w, curve, private, format, v.SignWith)
		if format != "" {
			with = v.SignWith
		}
		got := w.Run("SIGN_RAW_PAYLOAD_V2", object{"signWith": with, "payload": v.Payload, "encoding": v.Encoding, "hashFunction": v.HashFunction})
		if got["r"] != v.Result.R || got["s"] != v.Result.S || got["v"] != v.Result.V {
			t.Errorf("%s: %v, want %+v", v.Name, got, v.Result)
		}
	}
}

// What the SDKs send, and what they make of our answers.
func TestSDKFlows(t *testing.T) {
	w := activitytest.New(t)
	var f struct {
		Vectors []signingVector
		Flows   []struct {
			Name     string
			Requests []object
			Output   any `json:"sdk_output"`
		} `json:"sdk_flows"`
	}
	w.Must(json.Unmarshal(rawSigning, &f))
	signers := map[string]string{}
	for _, v := range f.Vectors {
		if v.Curve == "secp256k1" && v.SignWith != "" {
			signers[v.SignWith] = v.PrivateKey
		}
	}
	for address, private := range signers {
		importedKey(w, chain.Secp256k1, private, "ETHEREUM", address)
	}
	for _, flow := range f.Flows {
		in := activitytest.Without(flow.Requests[0], "organizationId")
		got := w.Run("SIGN_RAW_PAYLOAD_V2", in)
		r, s, v := got["r"].(string), got["s"].(string), got["v"].(string)
		if m, ok := flow.Output.(object); ok {
			if m["r"] != "0x"+r || m["s"] != "0x"+s || "0"+m["v"].(string) != v {
				t.Errorf("%s: %v, want %v", flow.Name, got, m)
			}
			continue
		}
		if want := "0x" + r + s + map[string]string{"00": "1b", "01": "1c"}[v]; flow.Output != want {
			t.Errorf("%s: %v, want %s", flow.Name, flow.Output, want)
		}
	}
	if len(f.Flows) < 7 || len(signers) == 0 {
		t.Errorf("%d flows of %d signers", len(f.Flows), len(signers))
	}
}

// point is a P-256 public key by its coordinates.
func point(x, y *big.Int) *ecdsa.PublicKey {
	b := make([]byte, 65)
	b[0] = 4
	x.FillBytes(b[1:33])
	y.FillBytes(b[33:])
	k, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), b)
	if err != nil {
		return &ecdsa.PublicKey{Curve: elliptic.P256()}
	}
	return k
}
