package leak_test

import (
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mr-tron/base58"

	"cloister/sim/client"
)

// onRampSecret encrypts a provider's secret as clients do.
func (s *stack) onRampSecret(public string, plain []byte) string {
	s.t.Helper()
	var box struct{ EncappedPublic, Ciphertext string }
	short, err := hex.DecodeString(public)
	if err != nil {
		s.t.Fatal(err)
	}
	x, y := elliptic.UnmarshalCompressed(elliptic.P256(), short)
	point := slices.Concat([]byte{4}, x.FillBytes(make([]byte, 32)), y.FillBytes(make([]byte, 32)))
	err = json.Unmarshal([]byte(s.seal(point, plain)), &box)
	from, err1 := hex.DecodeString(box.EncappedPublic)
	ciphertext, err2 := hex.DecodeString(box.Ciphertext)
	if err != nil || err1 != nil || err2 != nil {
		s.t.Fatal(err, err1, err2)
	}
	short = slices.Concat([]byte{2 + from[64]&1}, from[1:33], ciphertext)
	sum := sha256.Sum256(short)
	sum = sha256.Sum256(sum[:])
	return base58.Encode(append(short, sum[:4]...))
}

// The secrets of on-ramp providers, and what they sign with, are nowhere but sealed: not in the host, its files, or what
// clients, host, enclave and provider say to each other.
func TestOnRampLeaks(t *testing.T) {
	certificate, root := issued(t)
	o := &outside{roots: filepath.Join(t.TempDir(), "roots.pem"), traffic: t.TempDir()}
	if err := os.WriteFile(o.roots, root, 0o600); err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 100)
	provider := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		if r.Method == "POST" {
			fmt.Fprint(rw, `{"token":"session"}`)
			return
		}
		rw.WriteHeader(404)
	}))
	provider.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	provider.Config.ErrorLog = log.New(io.Discard, "", 0)
	provider.StartTLS()
	t.Cleanup(provider.Close)
	o.mail = record(t, o.traffic, "provider", provider.Listener.Addr().String())
	o.text = o.mail
	with := settings{organizations: 1, control: newControl(), clients: true, host: []string{"-reach", o.mail},
		boot: []string{"-issuer-roots", o.roots, "-on-ramps", "FIAT_ON_RAMP_PROVIDER_MOONPAY=https://" + o.mail + " FIAT_ON_RAMP_PROVIDER_COINBASE=https://" + o.mail}}
	s := up(t, build(t, "runtimesecret"), with)
	s.half()

	hmacKey, seed := []byte("sk_live_"+rand.Text()+rand.Text()), make([]byte, 32)
	_, _ = rand.Read(seed)
	scalar := sha512.Sum512(seed)
	scalar[0], scalar[31] = scalar[0]&248, scalar[31]&63|64
	text := base64.StdEncoding.EncodeToString(ed25519.NewKeyFromSeed(seed))
	secrets := []*secret{{"on-ramp secret", hmacKey}, {"on-ramp private key", []byte(text)}, {"seed of it", seed}, {"scalar of it", scalar[:32]}}
	top := s.tenants[0]
	for provider, more := range map[string]client.Object{
		"FIAT_ON_RAMP_PROVIDER_MOONPAY":  {},
		"FIAT_ON_RAMP_PROVIDER_COINBASE": {"encryptedPrivateApiKey": s.onRampSecret(s.credentials.Keys.OnRamp, []byte(text))},
	} {
		more["onrampProvider"], more["publishableApiKey"] = provider, "pk"
		more["encryptedSecretApiKey"] = s.onRampSecret(s.credentials.Keys.OnRamp, slices.Clone(hmacKey))
		top.Do("CREATE_FIAT_ON_RAMP_CREDENTIAL", more)
	}
	wallet := top.Do("CREATE_WALLET", client.Wallet("bought", client.Ethereum))
	const each = 20
	for range each {
		for _, provider := range []string{"MOONPAY", "COINBASE"} {
			made := top.Do("INIT_FIAT_ON_RAMP", client.Object{"onrampProvider": "FIAT_ON_RAMP_PROVIDER_" + provider, "walletAddress": client.Text(wallet, "addresses", "0"),
				"network": "FIAT_ON_RAMP_BLOCKCHAIN_NETWORK_BASE", "cryptoCurrencyCode": "FIAT_ON_RAMP_CRYPTO_CURRENCY_ETH"})
			top.Read("get_onramp_transaction_status", client.Object{"transactionId": client.Text(made, "onRampTransactionId"), "refresh": true})
		}
	}
	if len(asked) != 3*each {
		t.Errorf("the provider was asked %d times, want %d", len(asked), 3*each)
	}
	top.Read("list_fiat_on_ramp_credentials", nil)

	s.plantInStore("leak-control-after")
	s.pass()
	o.plant(t, s.control)
	if _, err := s.log.Write(planted(s.control)); err != nil {
		t.Fatal(err)
	}
	scan := newScanner(append(slices.Clip(secrets), s.control))
	found := map[find]int{}
	clean(t, "memory of the host", scan.memory(t, s.host.Cmd.Process.Pid, found), len(secrets), found)
	found = map[find]int{}
	clean(t, "traffic of clients, host and enclave", scan.files(t, s.traffic, nothing, found), len(secrets), found)
	found = map[find]int{}
	clean(t, "traffic to the provider", scan.files(t, o.traffic, nothing, found), len(secrets), found)
	s.restsClean(scan, len(secrets))
	s.collected()
	found = map[find]int{}
	clean(t, "memory of the enclave, after the last call", scan.memory(t, s.enclave.Cmd.Process.Pid, found), len(secrets), found)
}
