package replay_test

import (
	"bytes"
	"errors"
	"testing"

	"cloister/enclave/core"
	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/secret"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// The page of an on-ramp is found out again but for its signature, with the credential that the parent's history has; a
// page to another address is not what would have been decided.
func TestReplayOfOnRamps(t *testing.T) {
	h := begin(t, rig.Options{Witnesses: rig.StartWitnesses(t, rig.WitnessOptions{}), Configuration: []byte(`{"onRamps":{"FIAT_ON_RAMP_PROVIDER_MOONPAY":{}}}`)})
	top := h.orgs[0]
	to, err := bundle.ParsePublicKey("", h.r.Credentials.Keys.OnRamp)
	if err != nil {
		t.Fatal(err)
	}
	s, err := secret.From([]byte("sk_test"))
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := bundle.SealCompact(to, s)
	if err != nil {
		t.Fatal(err)
	}
	sub := h.below(client.NewKey())
	r, _ := h.do(sub, sub.root, "CREATE_WALLET", client.Wallet("Wallet", client.Ethereum))
	address := client.Text(r, "addresses", "0")
	ask := object{"onrampProvider": "FIAT_ON_RAMP_PROVIDER_MOONPAY", "walletAddress": address, "network": "FIAT_ON_RAMP_BLOCKCHAIN_NETWORK_BASE", "cryptoCurrencyCode": "FIAT_ON_RAMP_CRYPTO_CURRENCY_USDC"}
	if _, status := h.do(sub, sub.root, "INIT_FIAT_ON_RAMP", ask); status != 404 {
		t.Fatal("a page without a credential")
	}
	h.do(top, top.root, "CREATE_FIAT_ON_RAMP_CREDENTIAL", object{"onrampProvider": "FIAT_ON_RAMP_PROVIDER_MOONPAY", "publishableApiKey": "pk", "encryptedSecretApiKey": sealed})
	ask["urlForSignature"] = "https://buy.moonpay.com?apiKey=pk&walletAddress=" + address
	if r, status := h.do(sub, sub.root, "INIT_FIAT_ON_RAMP", ask); status != 200 || client.Text(r, "onRampUrlSignature") == "<nil>" {
		t.Fatal(status, r)
	}
	original := h.read()
	report, err := run(copied(t, original))
	if err != nil {
		t.Fatal(err)
	}
	if got := report.Grades["ACTIVITY_TYPE_INIT_FIAT_ON_RAMP"]; got[core.ReplaySealed] != 2 {
		t.Errorf("%v", got)
	}
	for what, change := range map[string]func(e *org.Entry) []byte{
		"another address": func(e *org.Entry) []byte {
			return bytes.Replace(e.Result, []byte(address), []byte("0x000000000000000000000000000000000000bEEF"), 1)
		},
		"another page": func(e *org.Entry) []byte {
			return bytes.Replace(e.Result, []byte("buy.moonpay.com"), []byte("buy.moonpay.example"), 1)
		},
		"another purchase": func(e *org.Entry) []byte {
			return bytes.Replace(e.Result, []byte(`"onRampTransactionId":"0`), []byte(`"onRampTransactionId":"1`), 1)
		},
		"a signature fewer": func(e *org.Entry) []byte {
			return append(e.Result[:bytes.Index(e.Result, []byte(`,"onRampUrlSignature"`))], "}}"...)
		},
	} {
		hs, changed := copied(t, original), false
		for _, one := range hs {
			for _, e := range one.Entries {
				if e.Entry.Type == "ACTIVITY_TYPE_INIT_FIAT_ON_RAMP" && len(e.Entry.Result) > 0 {
					before := bytes.Clone(e.Entry.Result)
					e.Entry.Result = change(e.Entry)
					changed = !bytes.Equal(before, e.Entry.Result)
				}
			}
		}
		_, err := run(hs)
		if found, ok := errors.AsType[*core.ReplayFinding](err); !ok || found.Check != "result" || !changed {
			t.Errorf("%s: %v", what, err)
		}
	}
}
