package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"

	sdk "github.com/tkhq/go-sdk"
	"github.com/tkhq/go-sdk/pkg/api/client"
	"github.com/tkhq/go-sdk/pkg/api/client/app_proof"
	"github.com/tkhq/go-sdk/pkg/api/client/boot_proof"
	"github.com/tkhq/go-sdk/pkg/api/client/sessions"
	"github.com/tkhq/go-sdk/pkg/api/models"
	"github.com/tkhq/go-sdk/pkg/apikey"
	"github.com/tkhq/go-sdk/pkg/proofs"
)

// A place is the running simulator, as its credentials.json tells it.
type place struct {
	APIURL         string `json:"apiUrl"`
	OrganizationID string `json:"organizationId"`
	RootUserID     string `json:"rootUserId"`
	RootAPIKey     struct {
		PublicKey  string `json:"publicKey"`
		PrivateKey string `json:"privateKey"`
	} `json:"rootApiKey"`
	Keys struct {
		Signer string `json:"signer"`
	} `json:"keys"`

	credentials, verify string // files
}

func openPlace(credentials, verify string) (*place, error) {
	raw, err := os.ReadFile(credentials)
	if err != nil {
		return nil, err
	}
	p := &place{credentials: credentials, verify: verify}
	if err := json.Unmarshal(raw, p); err != nil {
		return nil, fmt.Errorf("reading %s: %w", credentials, err)
	}
	return p, nil
}

// A session is the SDK's client with one API key.
type session struct {
	api   *client.TurnkeyAPI
	auth  *sdk.Authenticator
	org   *string
	place *place
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func (p *place) session(key *apikey.Key) *session {
	at, err := url.Parse(p.APIURL)
	if err != nil {
		panic(err) // the simulator wrote it
	}
	c, err := sdk.New(sdk.WithAPIKey(key), sdk.WithLogger(silent{}),
		sdk.WithTransportConfig(client.TransportConfig{Host: at.Host, BasePath: "/", Schemes: []string{at.Scheme}}))
	if err != nil {
		panic(err) // no option of these fails
	}
	return &session{api: c.V0(), auth: c.Authenticator, org: &p.OrganizationID, place: p}
}

func (p *place) rootClient() (*session, error) {
	return p.clientOf(string(apikey.SchemeP256), p.RootAPIKey.PrivateKey)
}

// clientOf: the SDK's schemes have a type that cannot be named outside of it.
func (p *place) clientOf(scheme, private string) (*session, error) {
	var key *apikey.Key
	var err error
	switch scheme {
	case string(apikey.SchemeP256):
		key, err = apikey.FromTurnkeyPrivateKey(private, apikey.SchemeP256)
	case string(apikey.SchemeSECP256K1):
		key, err = apikey.FromTurnkeyPrivateKey(private, apikey.SchemeSECP256K1)
	case string(apikey.SchemeED25519):
		key, err = apikey.FromTurnkeyPrivateKey(private, apikey.SchemeED25519)
	default:
		err = errors.New("no such scheme")
	}
	if err != nil {
		return nil, fmt.Errorf("opening a key of %s: %w", scheme, err)
	}
	return p.session(key), nil
}

// newKeys makes an API key of every scheme that the SDK stamps with.
func newKeys(org string) ([]*apikey.Key, error) {
	p256, err1 := apikey.New(org, apikey.WithScheme(apikey.SchemeP256))
	secp256k1, err2 := apikey.New(org, apikey.WithScheme(apikey.SchemeSECP256K1))
	ed25519, err3 := apikey.New(org, apikey.WithScheme(apikey.SchemeED25519))
	return []*apikey.Key{p256, secp256k1, ed25519}, errors.Join(err1, err2, err3)
}

func activityType(t models.ActivityType) *string {
	s := string(t)
	return &s
}

func (s *session) whoami() error {
	body := &models.GetWhoamiRequest{OrganizationID: s.org}
	got, err := s.api.Sessions.GetWhoami(sessions.NewGetWhoamiParams().WithBody(body), s.auth)
	if err != nil {
		return err
	}
	if *got.Payload.UserID != s.place.RootUserID || *got.Payload.OrganizationID != *s.org {
		return fmt.Errorf("taken for user %s of %s", *got.Payload.UserID, *got.Payload.OrganizationID)
	}
	return nil
}

// checkProofs fetches the app proofs of an activity and their boot proof, and has them judged: the signatures by the SDK
// (its full check has the cloud's root compiled in, so no simulator passes it), all of it by cloister-verify.
func (p *place) checkProofs(s *session, activityID string) error {
	body := &models.GetAppProofsRequest{OrganizationID: s.org, ActivityID: &activityID}
	apps, err := s.api.AppProof.GetAppProofs(app_proof.NewGetAppProofsParams().WithBody(body), s.auth)
	if err != nil {
		return fmt.Errorf("fetching app proofs: %w", err)
	}
	if len(apps.Payload.AppProofs) == 0 {
		return errors.New("no app proof")
	}
	for _, proof := range apps.Payload.AppProofs {
		if err := proofs.VerifyAppProofSignature(proof); err != nil {
			return fmt.Errorf("the SDK's check of an app proof: %w", err)
		}
	}
	key := &models.GetBootProofRequest{OrganizationID: s.org, EphemeralKey: apps.Payload.AppProofs[0].PublicKey}
	boot, err := s.api.BootProof.GetBootProof(boot_proof.NewGetBootProofParams().WithBody(key), s.auth)
	if err != nil {
		return fmt.Errorf("fetching the boot proof: %w", err)
	}
	dir, err := os.MkdirTemp("", "proof-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	appFile, bootFile := filepath.Join(dir, "app.json"), filepath.Join(dir, "boot.json")
	if err := errors.Join(writeJSON(appFile, apps.Payload), writeJSON(bootFile, boot.Payload)); err != nil {
		return err
	}
	out, err := exec.Command(p.verify, "-credentials", p.credentials, "-app-proof", appFile, "-boot-proof", bootFile).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cloister-verify: %w: %s", err, out)
	}
	return nil
}

func writeJSON(name string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(name, raw, 0o600)
}
