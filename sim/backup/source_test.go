package backup_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"cloister/host/store"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// An owner is an organization and its root user's key.
type owner struct {
	id  string
	key laptop.KeyPair
}

// An account is what an address stands for.
type account struct {
	of                owner
	publicKey, format string
}

// A source is a deployment that is backed up while clients work on it.
type source struct {
	t testing.TB
	r *rig.Rig

	mu         sync.Mutex
	accounts   map[string]account // every address that was answered
	activities map[string]owner   // every activity that was answered, lately
	signed     map[string][]any   // by address: the signatures of payloads
}

func newSource(t testing.TB, s store.Store) *source {
	t.Helper()
	return &source{t: t, r: rig.Start(t, rig.Options{Store: s}), accounts: map[string]account{}, activities: map[string]owner{}, signed: map[string][]any{}}
}

// addresses are how many have been answered.
func (s *source) addresses() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.accounts)
}

func (s *source) root() owner {
	return owner{s.r.Credentials.OrganizationID, s.r.Credentials.RootAPIKey}
}

// call sends a body of an organization, again while it is told to, and gives the reply, or why there is none.
func call(r *rig.Rig, endpoint wire.Endpoint, op string, body []byte, o owner) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), clocktest.Patience)
	defer cancel()
	reply, err := r.Send(ctx, endpoint, op, body, o.key)
	for err == nil && reply.Status == 503 && laptop.Pause(ctx, 10*time.Millisecond) {
		reply, err = r.Send(ctx, endpoint, op, body, o.key)
	}
	if err != nil {
		return nil, err
	}
	var m map[string]any
	if err := json.Unmarshal(reply.Body, &m); err != nil || reply.Status != 200 {
		return nil, fmt.Errorf("%s: status %d: %s", op, reply.Status, reply.Body)
	}
	return m, nil
}

func submit(r *rig.Rig, o owner, op, typ string, parameters any) (map[string]any, error) {
	m, err := call(r, wire.EndpointSubmit, op, r.BodyOf(o.id, "ACTIVITY_TYPE_"+typ, parameters), o)
	if err != nil {
		return nil, err
	}
	a, _ := rig.Get(m, "activity").(map[string]any)
	if rig.Text(a, "status") != "ACTIVITY_STATUS_COMPLETED" {
		return nil, fmt.Errorf("%s: %v", op, m)
	}
	return a, nil
}

func query(r *rig.Rig, o owner, op string, request map[string]any) (map[string]any, error) {
	request["organizationId"] = o.id
	b, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	return call(r, wire.EndpointQuery, op, b, o)
}

// Two formats whose signatures are the same every time.
func formats(n int) []any {
	return []any{
		map[string]any{"curve": "CURVE_SECP256K1", "pathFormat": "PATH_FORMAT_BIP32", "path": fmt.Sprintf("m/44'/60'/0'/0/%d", n), "addressFormat": "ADDRESS_FORMAT_ETHEREUM"},
		map[string]any{"curve": "CURVE_ED25519", "pathFormat": "PATH_FORMAT_BIP32", "path": fmt.Sprintf("m/44'/501'/%d'/0'", n), "addressFormat": "ADDRESS_FORMAT_SOLANA"},
	}
}

// suborganization makes one with a key of its own.
func (s *source) suborganization(name string) (owner, error) {
	k, err := laptop.NewKey()
	if err != nil {
		return owner{}, err
	}
	a, err := submit(s.r, s.root(), "create_sub_organization", "CREATE_SUB_ORGANIZATION_V8", map[string]any{"subOrganizationName": name, "rootQuorumThreshold": 1,
		"rootUsers": []any{map[string]any{"userName": "Root", "apiKeys": []any{map[string]any{"apiKeyName": "Key", "publicKey": k.PublicKey, "curveType": "API_KEY_CURVE_P256"}},
			"authenticators": []any{}, "oauthProviders": []any{}}}})
	if err != nil {
		return owner{}, err
	}
	return owner{rig.Text(a, "result", "createSubOrganizationResultV8", "subOrganizationId"), k}, nil
}

// work does one thing after the other in an organization until ctx ends: wallets,
// accounts, then signatures. The ledger has what was answered.
func (s *source) work(ctx context.Context, o owner, name string) error {
	var wallet, with string
	for i := 0; ctx.Err() == nil; i++ {
		var a map[string]any
		var err error
		switch {
		case i%40 == 0 && i < 200:
			a, err = submit(s.r, o, "create_wallet", "CREATE_WALLET", map[string]any{"walletName": name + strconv.Itoa(i), "accounts": formats(0)})
			if err == nil {
				wallet = rig.Text(a, "result", "createWalletResult", "walletId")
				with = rig.Text(a, "result", "createWalletResult", "addresses", "0")
				err = s.learn(o, wallet)
			}
		case i%20 == 5 && i < 400:
			a, err = submit(s.r, o, "create_wallet_accounts", "CREATE_WALLET_ACCOUNTS", map[string]any{"walletId": wallet, "accounts": formats(i)})
			if err == nil {
				err = s.learn(o, wallet)
			}
		default:
			a, err = submit(s.r, o, "sign_raw_payload", "SIGN_RAW_PAYLOAD_V2", map[string]any{"signWith": with, "payload": fmt.Sprintf("%s %d", name, i),
				"encoding": "PAYLOAD_ENCODING_TEXT_UTF8", "hashFunction": "HASH_FUNCTION_KECCAK256"})
		}
		if err != nil {
			return err
		}
		s.mu.Lock()
		if len(s.activities) > 64 {
			clear(s.activities)
		}
		s.activities[rig.Text(a, "id")] = o
		s.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// learn writes down the accounts of a wallet.
func (s *source) learn(o owner, wallet string) error {
	got, err := addresses(s.r, o, map[string]any{"walletId": wallet})
	if err != nil {
		return err
	}
	s.mu.Lock()
	maps.Copy(s.accounts, got)
	s.mu.Unlock()
	return nil
}

// addresses are those of an organization.
func addresses(r *rig.Rig, o owner, which map[string]any) (map[string]account, error) {
	all := map[string]account{}
	for after := ""; ; {
		page := map[string]any{"limit": "100"}
		if after != "" {
			page["after"] = after
		}
		ask := maps.Clone(which)
		ask["paginationOptions"] = page
		m, err := query(r, o, "list_wallet_accounts", ask)
		if err != nil {
			return nil, err
		}
		rows, _ := m["accounts"].([]any)
		for _, a := range rows {
			after = rig.Text(a, "walletAccountId")
			all[rig.Text(a, "address")] = account{o, rig.Text(a, "publicKey"), rig.Text(a, "addressFormat")}
		}
		if len(rows) < 100 {
			return all, nil
		}
	}
}

const payloads = 10

// sign signs the campaign's payloads with an address; the signatures are the
// same wherever its key is.
func sign(r *rig.Rig, address string, a account) ([]any, error) {
	hash := "HASH_FUNCTION_KECCAK256"
	if a.format == "ADDRESS_FORMAT_SOLANA" {
		hash = "HASH_FUNCTION_NOT_APPLICABLE"
	}
	var texts []any
	for i := range payloads {
		texts = append(texts, fmt.Sprintf("%064x", i+1))
	}
	done, err := submit(r, a.of, "sign_raw_payloads", "SIGN_RAW_PAYLOADS", map[string]any{"signWith": address, "payloads": texts,
		"encoding": "PAYLOAD_ENCODING_TEXT_UTF8", "hashFunction": hash})
	if err != nil {
		return nil, err
	}
	list, _ := rig.Get(done, "result", "signRawPayloadsResult", "signatures").([]any)
	if len(list) != payloads {
		return nil, fmt.Errorf("%d signatures", len(list))
	}
	return list, nil
}

// signatures are those of an address in the source.
func (s *source) signatures(address string, a account) ([]any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.signed[address] == nil {
		list, err := sign(s.r, address, a)
		if err != nil {
			return nil, err
		}
		s.signed[address] = list
	}
	return s.signed[address], nil
}

// machine is an empty one: the data directory of the deployment's operators and
// of its enclave, without the store.
func (s *source) machine(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"manifest.json", "admission-key", "first-organization.json", "enclave/module-root", "enclave/seed", "enclave/passphrase"} {
		b, err := os.ReadFile(filepath.Join(s.r.Dir.Path, name))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
