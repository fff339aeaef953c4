// Command webauthn lets go-webauthn judge passkeys: registrations and assertions, good and altered, that a test of
// enclave/internal/webauthn wrote to a file with the enclave's verdicts. Both must say the same, except where a case says
// why others may say otherwise. See run.sh in the folder above.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"
)

type verdict struct {
	Name              string   `json:"name"`
	Kind              string   `json:"kind"`
	RPID              string   `json:"rpId"`
	Origins           []string `json:"origins"`
	Challenge         string   `json:"challenge"`
	CredentialID      string   `json:"credentialId"`
	ClientDataJSON    string   `json:"clientDataJson"`
	AttestationObject string   `json:"attestationObject"`
	AuthenticatorData string   `json:"authenticatorData"`
	Signature         string   `json:"signature"`
	KnownID           string   `json:"knownId"`
	PublicKey         string   `json:"publicKey"`
	Counter           uint32   `json:"counter"`
	Accepted          bool     `json:"accepted"`
	Why               string   `json:"why"`
	Apart             string   `json:"apart"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: webauthn CORPUS")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "webauthn:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var cases []verdict
	if err := json.Unmarshal(raw, &cases); err != nil {
		return err
	}
	taken, refused, apart, wrong := 0, 0, 0, 0
	for _, c := range cases {
		err := judge(&c)
		switch {
		case (err == nil) == c.Accepted && c.Accepted:
			taken++
		case (err == nil) == c.Accepted:
			refused++
		case c.Apart != "" && !(c.Accepted && strings.HasPrefix(c.Apart, "stricter: ")):
			apart++
		default:
			wrong++
			fmt.Printf("%s, %s: the enclave says %s, go-webauthn %v\n", c.Kind, c.Name, answer(&c), err)
		}
	}
	fmt.Printf("go-webauthn: %d accepted and %d refused by both, %d apart for a reason, %d apart without\n", taken, refused, apart, wrong)
	if wrong > 0 || taken == 0 || refused == 0 {
		return fmt.Errorf("%d of %d cases are judged otherwise", wrong, len(cases))
	}
	return nil
}

func answer(c *verdict) string {
	if c.Accepted {
		return "yes"
	}
	return c.Why
}

func judge(c *verdict) (err error) {
	if c.Kind == "registration" {
		return register(c)
	}
	return assert(c)
}

func envelope(c *verdict, response map[string]any) []byte {
	b, err := json.Marshal(map[string]any{"id": c.CredentialID, "rawId": c.CredentialID, "type": "public-key", "response": response})
	if err != nil {
		panic(err) // strings
	}
	return b
}

var algorithms = []protocol.CredentialParameter{
	{Type: protocol.PublicKeyCredentialType, Algorithm: webauthncose.AlgES256},
	{Type: protocol.PublicKeyCredentialType, Algorithm: webauthncose.AlgRS256},
	{Type: protocol.PublicKeyCredentialType, Algorithm: webauthncose.AlgEdDSA},
}

func register(c *verdict) error {
	p, err := protocol.ParseCredentialCreationResponseBytes(envelope(c, map[string]any{"clientDataJSON": c.ClientDataJSON, "attestationObject": c.AttestationObject}))
	if err != nil {
		return err
	}
	_, err = p.Verify(c.Challenge, c.RPID, c.Origins, nil, nil, protocol.TopOriginImplicitVerificationMode, true, false, true, nil, algorithms,
		protocol.AttestationPolicy{}, protocol.SignaturePolicy{})
	return err
}

func assert(c *verdict) error {
	p, err := protocol.ParseCredentialRequestResponseBytes(envelope(c, map[string]any{
		"clientDataJSON": c.ClientDataJSON, "authenticatorData": c.AuthenticatorData, "signature": c.Signature,
	}))
	if err != nil {
		return err
	}
	var key protocol.URLEncodedBase64
	if err := key.UnmarshalJSON([]byte(`"` + c.PublicKey + `"`)); err != nil {
		return err
	}
	if c.CredentialID != c.KnownID {
		return fmt.Errorf("another credential")
	}
	if err := p.Verify(c.Challenge, c.RPID, "", c.Origins, nil, nil, protocol.TopOriginImplicitVerificationMode, true, false, true, key, protocol.SignaturePolicy{}); err != nil {
		return err
	}
	// The counter is its caller's to judge, by the words of the specification.
	if n := p.Response.AuthenticatorData.Counter; (n != 0 || c.Counter != 0) && n <= c.Counter {
		return fmt.Errorf("counter %d after %d", n, c.Counter)
	}
	return nil
}
