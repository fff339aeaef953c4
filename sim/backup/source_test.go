package backup_test

import (
	"context"
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
	"cloister/sim/client"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

type object = map[string]any

// An owner is an organization and its root user's key.
type owner struct {
	id  string
	key client.KeyPair
}

// An account is what an address stands for.
type account struct {
	of                owner
	publicKey, format string
}

// A source is a deployment that is backed up while clients work on it.
type source struct {
	r *rig.Rig

	mu         sync.Mutex
	accounts   map[string]account // every address that was answered
	activities map[string]owner   // every activity that was answered, lately
	signed     map[string][]any   // by address: the signatures of payloads
}

func newSource(t testing.TB, s store.Store) *source {
	t.Helper()
	return &source{r: rig.Start(t, rig.Options{Store: s}), accounts: map[string]account{}, activities: map[string]owner{}, signed: map[string][]any{}}
}

// addresses are how many have been answered.
func (s *source) addresses() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.accounts)
}

// root is the root user of a deployment, who asks again what is busy.
func root(t testing.TB, r *rig.Rig) *client.User {
	u := r.Root().Client.In(t)
	send := u.Send
	u.Send = func(ctx context.Context, q *client.Request) (client.Reply, error) {
		reply, err := send(ctx, q)
		for err == nil && reply.Status == 503 && laptop.Pause(ctx, 10*time.Millisecond) {
			reply, err = send(ctx, q)
		}
		return reply, err
	}
	return u
}

// on is the owner at a deployment.
func (o owner) on(t testing.TB, r *rig.Rig) *client.User { return root(t, r).As(o.id, "", o.key) }

func ownerOf(u *client.Client) owner { return owner{u.Organization, u.Key} }

// formats are two formats whose signatures are the same every time.
func formats(n int) []object {
	return []object{client.Account("SECP256K1", fmt.Sprintf("m/44'/60'/0'/0/%d", n), "ETHEREUM"), client.Account("ED25519", fmt.Sprintf("m/44'/501'/%d'/0'", n), "SOLANA")}
}

// words are the parameters of a signature of a text.
func words(signWith, text string) object {
	return object{"signWith": signWith, "payload": text, "encoding": "PAYLOAD_ENCODING_TEXT_UTF8", "hashFunction": "HASH_FUNCTION_KECCAK256"}
}

// work does one thing after the other in an organization until ctx ends: wallets,
// accounts, then signatures. The ledger has what was answered.
func (s *source) work(ctx context.Context, u *client.Client, name string) error {
	var wallet, with string
	for i := 0; ctx.Err() == nil; i++ {
		typ, parameters := "SIGN_RAW_PAYLOAD_V2", words(with, fmt.Sprintf("%s %d", name, i))
		switch {
		case i%40 == 0 && i < 200:
			typ, parameters = "CREATE_WALLET", client.Wallet(name+strconv.Itoa(i), formats(0)...)
		case i%20 == 5 && i < 400:
			typ, parameters = "CREATE_WALLET_ACCOUNTS", object{"walletId": wallet, "accounts": formats(i)}
		}
		r, err := u.Submit(context.WithoutCancel(ctx), typ, parameters)
		if err == nil && !r.Completed() {
			err = fmt.Errorf("%s: %v", typ, r)
		}
		if err != nil {
			return err
		}
		if typ == "CREATE_WALLET" {
			wallet, with = client.Text(r.Result(), "walletId"), client.Text(r.Result(), "addresses", "0")
		}
		if typ != "SIGN_RAW_PAYLOAD_V2" {
			if err := s.learn(u, wallet); err != nil {
				return err
			}
		}
		s.mu.Lock()
		if len(s.activities) > 64 {
			clear(s.activities)
		}
		s.activities[r.Text("activity", "id")] = ownerOf(u)
		s.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// learn writes down the accounts of a wallet.
func (s *source) learn(u *client.Client, wallet string) error {
	got, err := readAddresses(u, object{"walletId": wallet})
	s.mu.Lock()
	maps.Copy(s.accounts, got)
	s.mu.Unlock()
	return err
}

// addresses are those of an organization.
func addresses(u *client.User, which object) map[string]account {
	u.Test.Helper()
	all, err := readAddresses(u.Client, which)
	if err != nil {
		u.Test.Fatal(err)
	}
	return all
}

func readAddresses(u *client.Client, which object) (map[string]account, error) {
	all := map[string]account{}
	for after := ""; ; {
		page := object{"limit": "100"}
		if after != "" {
			page["after"] = after
		}
		ask := object{"paginationOptions": page}
		maps.Copy(ask, which)
		ctx, cancel := context.WithTimeout(context.Background(), clocktest.Patience)
		r, err := u.Query(ctx, "list_wallet_accounts", ask)
		cancel()
		if err == nil && r.Status != 200 {
			err = fmt.Errorf("list_wallet_accounts: %v", r)
		}
		if err != nil {
			return nil, err
		}
		rows, _ := r.Get("accounts").([]any)
		for _, a := range rows {
			after = client.Text(a, "walletAccountId")
			all[client.Text(a, "address")] = account{ownerOf(u), client.Text(a, "publicKey"), client.Text(a, "addressFormat")}
		}
		if len(rows) < 100 {
			return all, nil
		}
	}
}

const payloads = 10

// sign signs the campaign's payloads with an address of a format; the signatures are
// the same wherever its key is. What is refused fails the test, which goes on.
func sign(u *client.User, address, format string) []any {
	u.Test.Helper()
	hash := "HASH_FUNCTION_KECCAK256"
	if format == "ADDRESS_FORMAT_SOLANA" {
		hash = "HASH_FUNCTION_NOT_APPLICABLE"
	}
	var texts []any
	for i := range payloads {
		texts = append(texts, fmt.Sprintf("%064x", i+1))
	}
	r := u.Submit("SIGN_RAW_PAYLOADS", object{"signWith": address, "payloads": texts, "encoding": "PAYLOAD_ENCODING_TEXT_UTF8", "hashFunction": hash})
	list, _ := client.Get(r.Result(), "signatures").([]any)
	if !r.Completed() || len(list) != payloads {
		u.Test.Errorf("%d signatures with %s: %v", len(list), address, r)
	}
	return list
}

// signatures are those of an address in the source.
func (s *source) signatures(t testing.TB, address string, a account) []any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.signed[address] == nil {
		s.signed[address] = sign(a.of.on(t, s.r), address, a.format)
	}
	return s.signed[address]
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
