package main

import (
	"fmt"

	"github.com/tkhq/go-sdk/pkg/api/client/activities"
	"github.com/tkhq/go-sdk/pkg/api/client/api_keys"
	"github.com/tkhq/go-sdk/pkg/api/client/private_keys"
	"github.com/tkhq/go-sdk/pkg/api/client/signing"
	"github.com/tkhq/go-sdk/pkg/api/client/wallets"
	"github.com/tkhq/go-sdk/pkg/api/models"
	"github.com/tkhq/go-sdk/pkg/apikey"
	"github.com/tkhq/go-sdk/pkg/util"
)

func (p *place) makeAll() (memory, error) {
	m := memory{Keys: map[string]string{}}
	root, err := p.rootClient()
	if err != nil {
		return m, err
	}
	if err := root.whoami(); err != nil {
		return m, fmt.Errorf("whoami: %w", err)
	}
	clients, err := p.registerKeys(root, m.Keys)
	if err != nil {
		return m, fmt.Errorf("API keys: %w", err)
	}
	m.Accounts, m.ActivityID, err = p.makeWallet(root)
	if err != nil {
		return m, fmt.Errorf("wallet: %w", err)
	}
	keys, err := makePrivateKeys(root)
	if err != nil {
		return m, fmt.Errorf("private keys: %w", err)
	}
	m.Accounts = append(m.Accounts, keys...)
	judged := 0
	for i, a := range m.Accounts {
		n, err := clients[i%len(clients)].signAll(a)
		if err != nil {
			return m, fmt.Errorf("signing with %s %s: %w", a.Curve, a.SignWith, err)
		}
		judged += n
	}
	if err := root.refusals(m.Accounts[0]); err != nil {
		return m, err
	}
	if err := p.checkVotes(root); err != nil {
		return m, fmt.Errorf("votes: %w", err)
	}
	if err := p.checkTransfers(root); err != nil {
		return m, fmt.Errorf("import and export: %w", err)
	}
	fmt.Printf("Go SDK: %d API key schemes, %d accounts, %d signatures judged\n", len(clients), len(m.Accounts), judged)
	return m, nil
}

// checkAll is the second phase: the accounts sign, stamped by the keys of the first.
func (p *place) checkAll(m memory) error {
	root, err := p.rootClient()
	if err != nil {
		return err
	}
	body := &models.GetActivityRequest{OrganizationID: root.org, ActivityID: &m.ActivityID}
	got, err := root.api.Activities.GetActivity(activities.NewGetActivityParams().WithBody(body), root.auth)
	if err != nil {
		return fmt.Errorf("the activity of the first phase: %w", err)
	}
	if s := *got.Payload.Activity.Status; s != models.ActivityStatusCompleted {
		return fmt.Errorf("the activity of the first phase is %s", s)
	}
	if err := p.checkProofs(root, m.ActivityID); err != nil {
		return fmt.Errorf("proofs of the boot before: %w", err)
	}
	judged := 0
	for scheme, private := range m.Keys {
		c, err := p.clientOf(scheme, private)
		if err != nil {
			return err
		}
		if err := c.whoami(); err != nil {
			return fmt.Errorf("whoami with %s: %w", scheme, err)
		}
		for _, a := range m.Accounts {
			n, err := c.signAll(a)
			if err != nil {
				return fmt.Errorf("signing with %s %s: %w", a.Curve, a.SignWith, err)
			}
			judged += n
		}
	}
	fmt.Printf("Go SDK: after the restart %d accounts, %d signatures judged\n", len(m.Accounts), judged)
	return nil
}

// registerKeys gives the root user an API key of each scheme, notes them, and returns a client of each that was let in.
func (p *place) registerKeys(root *session, keys map[string]string) ([]*session, error) {
	made, err := newKeys(*root.org)
	if err != nil {
		return nil, err
	}
	var params []*models.APIKeyParamsV2
	for _, k := range made {
		params = append(params, apiKeyParams(k)...)
	}
	body := &models.CreateAPIKeysRequest{
		OrganizationID: root.org, TimestampMs: util.RequestTimestamp(), Type: activityType(models.ActivityTypeCreateAPIKeysV2),
		Parameters: &models.CreateAPIKeysIntentV2{UserID: &p.RootUserID, APIKeys: params},
	}
	if _, err := root.api.APIKeys.CreateAPIKeys(api_keys.NewCreateAPIKeysParams().WithBody(body), root.auth); err != nil {
		return nil, err
	}
	var clients []*session
	for _, k := range made {
		c := p.session(k)
		if err := c.whoami(); err != nil {
			return nil, fmt.Errorf("whoami with %s: %w", k.Scheme, err)
		}
		keys[k.Scheme] = k.TkPrivateKey
		clients = append(clients, c)
	}
	return clients, nil
}

func curveOf(k *apikey.Key) *models.APIKeyCurve {
	switch k.Scheme {
	case string(apikey.SchemeSECP256K1):
		return models.APIKeyCurveSecp256k1.Pointer()
	case string(apikey.SchemeED25519):
		return models.APIKeyCurveEd25519.Pointer()
	}
	return models.APIKeyCurveP256.Pointer()
}

// makeWallet makes a wallet with an account of every curve and format, and checks its proofs.
func (p *place) makeWallet(root *session) ([]account, string, error) {
	name, words, yes := "Go wallet", int32(12), true
	body := &models.CreateWalletRequest{
		OrganizationID: root.org, TimestampMs: util.RequestTimestamp(), Type: activityType(models.ActivityTypeCreateWallet),
		Parameters:        &models.CreateWalletIntent{WalletName: &name, Accounts: accountParams(len(wanted)), MnemonicLength: &words},
		GenerateAppProofs: &yes,
	}
	made, err := root.api.Wallets.CreateWallet(wallets.NewCreateWalletParams().WithBody(body), root.auth)
	if err != nil {
		return nil, "", err
	}
	wallet := made.Payload.Activity.Result.CreateWalletResult
	list := &models.GetWalletAccountsRequest{OrganizationID: root.org, WalletID: wallet.WalletID}
	listed, err := root.api.Wallets.GetWalletAccounts(wallets.NewGetWalletAccountsParams().WithBody(list), root.auth)
	if err != nil {
		return nil, "", err
	}
	if got := len(listed.Payload.Accounts); got != len(wanted) {
		return nil, "", fmt.Errorf("%d accounts listed, %d made", got, len(wanted))
	}
	var accounts []account
	for i, a := range listed.Payload.Accounts {
		if *a.Address != wallet.Addresses[i] || *a.Curve != wanted[i].curve || *a.Path != wanted[i].path {
			return nil, "", fmt.Errorf("account %d is not the one that was made", i)
		}
		accounts = append(accounts, account{Curve: *a.Curve, SignWith: *a.Address, PublicKey: *a.PublicKey})
	}
	id := *made.Payload.Activity.ID
	return accounts, id, p.checkProofs(root, id)
}

// makePrivateKeys makes a key of every curve; each signs by its id and by its address.
func makePrivateKeys(root *session) ([]account, error) {
	formats := map[models.Curve]models.AddressFormat{
		models.CurveSecp256k1: models.AddressFormatEthereum,
		models.CurveP256:      models.AddressFormatCompressed,
		models.CurveEd25519:   models.AddressFormatSolana,
	}
	var params []*models.PrivateKeyParams
	for curve, format := range formats {
		name := "Go key of " + string(curve)
		params = append(params, &models.PrivateKeyParams{
			PrivateKeyName: &name, Curve: curve.Pointer(), AddressFormats: []models.AddressFormat{format}, PrivateKeyTags: []string{},
		})
	}
	body := &models.CreatePrivateKeysRequest{
		OrganizationID: root.org, TimestampMs: util.RequestTimestamp(), Type: activityType(models.ActivityTypeCreatePrivateKeysV2),
		Parameters: &models.CreatePrivateKeysIntentV2{PrivateKeys: params},
	}
	made, err := root.api.PrivateKeys.CreatePrivateKeys(private_keys.NewCreatePrivateKeysParams().WithBody(body), root.auth)
	if err != nil {
		return nil, err
	}
	var accounts []account
	for i, k := range made.Payload.Activity.Result.CreatePrivateKeysResultV2.PrivateKeys {
		get := &models.GetPrivateKeyRequest{OrganizationID: root.org, PrivateKeyID: &k.PrivateKeyID}
		got, err := root.api.PrivateKeys.GetPrivateKey(private_keys.NewGetPrivateKeyParams().WithBody(get), root.auth)
		if err != nil {
			return nil, err
		}
		curve, public := *params[i].Curve, *got.Payload.PrivateKey.PublicKey
		accounts = append(accounts,
			account{Curve: curve, SignWith: k.PrivateKeyID, PublicKey: public},
			account{Curve: curve, SignWith: k.Addresses[0].Address, PublicKey: public})
	}
	return accounts, nil
}

// refusals: an unknown signer and a hash function that the curve does not take end in the SDK's error with the status.
func (s *session) refusals(a account) error {
	good := payloadsOf(a.Curve)[0]
	bad := good
	bad.hash = models.HashFunctionNotApplicable
	for _, c := range []struct {
		with   string
		what   payload
		status int
	}{
		{"0x0000000000000000000000000000000000000001", good, 404},
		{a.SignWith, bad, 400},
	} {
		_, err := s.sign(c.with, c.what)
		if err := refusedAs(c.status, err); err != nil {
			return fmt.Errorf("signing with %s, %s: %w", c.with, c.what.hash, err)
		}
	}
	return nil
}

// signAll signs every payload of the curve with one account, one by one and together, and judges each signature.
func (s *session) signAll(a account) (int, error) {
	judged := 0
	for _, what := range payloadsOf(a.Curve) {
		one, err := s.sign(a.SignWith, what)
		if err != nil {
			return judged, err
		}
		both, err := s.signBatch(a.SignWith, what)
		if err != nil {
			return judged, err
		}
		for _, got := range append(both, one) {
			if err := judge(a, what, got); err != nil {
				return judged, fmt.Errorf("%s %s: %w", what.encoding, what.hash, err)
			}
			judged++
		}
	}
	return judged, nil
}

func (s *session) sign(with string, what payload) (*models.SignRawPayloadResult, error) {
	made, err := s.raw(s.rawBody(with, what))
	if err != nil {
		return nil, err
	}
	return made.Result.SignRawPayloadResult, nil
}

func (s *session) signBatch(with string, what payload) ([]*models.SignRawPayloadResult, error) {
	body := &models.SignRawPayloadsRequest{
		OrganizationID: s.org, TimestampMs: util.RequestTimestamp(), Type: activityType(models.ActivityTypeSignRawPayloads),
		Parameters: &models.SignRawPayloadsIntent{
			SignWith: &with, Payloads: []string{what.text, what.text}, Encoding: what.encoding.Pointer(), HashFunction: what.hash.Pointer(),
		},
	}
	got, err := s.api.Signing.SignRawPayloads(signing.NewSignRawPayloadsParams().WithBody(body), s.auth)
	if err != nil {
		return nil, err
	}
	all := got.Payload.Activity.Result.SignRawPayloadsResult.Signatures
	if len(all) != 2 {
		return nil, fmt.Errorf("%d signatures for 2 payloads", len(all))
	}
	return all, nil
}
