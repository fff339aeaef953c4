package activity_test

import (
	"bytes"
	"fmt"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/stamp"
)

// BenchmarkSignRawPayload is what this package does for one signature: body and
// intent read, the activity run on a hot organization, result and reply
// written. Of it, the signature itself is BenchmarkSignatureAlone.
func BenchmarkSignRawPayload(b *testing.B) {
	for _, c := range []struct {
		name   string
		proofs bool
	}{{"plain", false}, {"proofs", true}} {
		b.Run(c.name, func(b *testing.B) { benchmarkSign(b, c.proofs) })
	}
}

func benchmarkSign(b *testing.B, proofs bool) {
	w := activitytest.New(b)
	address := activitytest.List(w.Run("CREATE_WALLET", activitytest.Wallet("w", activitytest.EthAccount(0))), "addresses")[0]
	body := signBody(w, address)
	v, err := kinds.Live.Lookup("sign_raw_payload", "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2")
	w.Must(err)
	id := w.NewID()
	e := w.Entry(v.Type, nil)
	e.Body = body
	b.ReportAllocs()
	for b.Loop() {
		s, err := activity.ParseStored(stamp.StoredBody(body))
		if err != nil {
			b.Fatal(err)
		}
		v, err := kinds.Live.Lookup("sign_raw_payload", s.Type)
		if err != nil {
			b.Fatal(err)
		}
		in, err := v.Decode(s.Parameters)
		if err != nil {
			b.Fatal(err)
		}
		tx := &activity.Tx{Tx: w.Tx(), Vault: activity.VaultOf(w.Vault), Rand: w.Rand, Keys: w.Keys, User: w.User, Activity: id, WantsProofs: proofs, Grant: w.GrantFor(v, in, id)}
		if e.Result, err = v.Run(tx, in); err != nil {
			b.Fatal(err)
		}
		vw := view(w)
		vw.Intent = v.AppendIntent(nil, in)
		kinds.Live.AppendActivity(make([]byte, 0, 2048), e, w.ID, vw)
	}
}

func signBody(w *world, address string) []byte {
	p := activitytest.Signing(address, "69a8c6c42a121ce2042f3c69192ba2bf127def7c6d6094920db6fe74edd5abfc")
	p["hashFunction"] = "HASH_FUNCTION_NO_OP"
	return activitytest.JSON(object{"type": "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", "timestampMs": "1700000000000", "organizationId": w.ID.String(), "parameters": p, "generateAppProofs": true})
}

func BenchmarkParseSubmit(b *testing.B) {
	w := activitytest.New(b)
	body := signBody(w, "0x58A57ed9d8d624cBD12e2C467D34787555bB1b25")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := activity.ParseStored(stamp.StoredBody(body)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeAndRepeat(b *testing.B) {
	w := activitytest.New(b)
	s, err := activity.ParseStored(stamp.StoredBody(signBody(w, "0x58A57ed9d8d624cBD12e2C467D34787555bB1b25")))
	w.Must(err)
	v, err := kinds.Live.Lookup("sign_raw_payload", s.Type)
	w.Must(err)
	b.ReportAllocs()
	for b.Loop() {
		in, err := v.Decode(s.Parameters)
		if err != nil {
			b.Fatal(err)
		}
		v.AppendIntent(make([]byte, 0, 512), in)
	}
}

func BenchmarkRun(b *testing.B) {
	w := activitytest.New(b)
	address := activitytest.List(w.Run("CREATE_WALLET", activitytest.Wallet("w", activitytest.EthAccount(0))), "addresses")[0]
	s, err := activity.ParseStored(stamp.StoredBody(signBody(w, address)))
	w.Must(err)
	v, err := kinds.Live.Lookup("sign_raw_payload", s.Type)
	w.Must(err)
	in, err := v.Decode(s.Parameters)
	w.Must(err)
	id := w.NewID()
	b.ReportAllocs()
	for b.Loop() {
		tx := &activity.Tx{Tx: w.Tx(), Vault: activity.VaultOf(w.Vault), Rand: w.Rand, Keys: w.Keys, User: w.User, Activity: id, Grant: w.GrantFor(v, in, id)}
		if _, err := v.Run(tx, in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendActivity(b *testing.B) {
	w := activitytest.New(b)
	e := w.Entry("ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", nil)
	e.Body = signBody(w, "0x58A57ed9d8d624cBD12e2C467D34787555bB1b25")
	e.Proofs = []org.Proof{{Key: make([]byte, 130), Payload: bytes.Repeat([]byte(`"member":"some value",`), 18), Signature: make([]byte, 64)}}
	vw := view(w)
	vw.Intent = []byte(`{"signRawPayloadIntentV2":{}}`)
	b.ReportAllocs()
	for b.Loop() {
		kinds.Live.AppendActivity(make([]byte, 0, 4096), e, w.ID, vw)
	}
}

// BenchmarkAccount times one more account of a wallet that has few and of one that has 10,000.
func BenchmarkAccount(b *testing.B) {
	for _, have := range []int{1, 10_000} {
		b.Run(fmt.Sprint(have), func(b *testing.B) {
			w := activitytest.New(b)
			id := w.Run("CREATE_WALLET", activitytest.Wallet("w"))["walletId"]
			for made := 0; made < have; made += 500 {
				var more []any
				for i := range min(500, have-made) {
					more = append(more, activitytest.EthAccount(made+i))
				}
				w.Run("CREATE_WALLET_ACCOUNTS", object{"walletId": id, "accounts": more})
			}
			n := 1 << 20
			b.ResetTimer()
			for b.Loop() {
				n++
				w.Run("CREATE_WALLET_ACCOUNTS", object{"walletId": id, "accounts": []any{activitytest.EthAccount(n)}})
			}
		})
	}
}
