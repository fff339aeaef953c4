package wallet_test

import (
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/secret"
)

//go:embed testdata/raw_signing.json
var rawSigning []byte

//go:embed testdata/derivation.json
var derivation []byte

type signingVector struct {
	Name, Curve, Payload, Encoding, HashFunction string
	PrivateKey                                   string `json:"private_key"`
	UntweakedPrivateKey                          string `json:"untweaked_private_key"`
	SignWith                                     string `json:"sign_with"`
	Result                                       struct{ R, S, V string }
}

func loadVectors(t *testing.T) []signingVector {
	var f struct{ Vectors []signingVector }
	if err := json.Unmarshal(rawSigning, &f); err != nil {
		t.Fatal(err)
	}
	return f.Vectors
}

func TestDerivationVectors(t *testing.T) {
	var f struct {
		Vectors []struct{ Entropy, Format, Curve, Path, PublicKey, Address string }
	}
	if err := json.Unmarshal(derivation, &f); err != nil {
		t.Fatal(err)
	}
	w := activitytest.New(t)
	wallets := map[string]org.ID{}
	for _, v := range f.Vectors {
		// A wallet has one path of ed25519 once, as it is written with apostrophes or without.
		place := v.Entropy + v.Path
		id, ok := wallets[place]
		if !ok {
			id = w.NewID()
			raw, _ := hex.DecodeString(v.Entropy)
			s, err := secret.From(raw)
			w.Must(err)
			sealed, err := w.Vault.Seal(id, s)
			w.Must(err)
			tx := w.Tx()
			w.Must(tx.PutWallet(&org.Wallet{ID: id, Name: v.Entropy, Entropy: sealed}))
			tx.Apply()
			wallets[place] = id
		}
		in := object{"walletId": id.String(), "accounts": []any{object{"curve": v.Curve, "pathFormat": "PATH_FORMAT_BIP32", "path": v.Path, "addressFormat": v.Format}}}
		r, err := w.Try("CREATE_WALLET_ACCOUNTS", in)
		if err != nil {
			t.Errorf("%+v: %v", v, err)
			continue
		}
		if got := activitytest.List(r, "addresses")[0]; got != v.Address {
			t.Errorf("%s, want %+v", got, v)
		}
		no, err := w.Tx().AccountAt(id, v.Path, v.Curve, v.Format)
		w.Must(err)
		if a, _ := w.Tx().Account(id, no); a.PublicKey != v.PublicKey {
			t.Errorf("%s, want %+v", a.PublicKey, v)
		}
		hash := "HASH_FUNCTION_SHA256"
		if v.Curve == "CURVE_ED25519" {
			hash = "HASH_FUNCTION_NOT_APPLICABLE"
		}
		sig := w.Run("SIGN_RAW_PAYLOAD_V2", object{"signWith": v.Address, "payload": "m", "encoding": "PAYLOAD_ENCODING_TEXT_UTF8", "hashFunction": hash})
		if err := verifies(strings.TrimPrefix(v.Curve, "CURVE_"), v.PublicKey, hashes[hash]([]byte("m")), sig); err != nil {
			t.Errorf("%+v: %v", v, err)
		}
	}
	if len(f.Vectors) < 20 {
		t.Errorf("%d vectors", len(f.Vectors))
	}
	t.Logf("%d derivations", len(f.Vectors))
}
