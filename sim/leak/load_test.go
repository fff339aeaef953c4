package leak_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"cloister/sim/client"
)

// paths are those of every wallet's accounts.
var paths = []struct{ curve, path, format, hash string }{
	{"SECP256K1", "m/44'/60'/0'/0/0", "ETHEREUM", "KECCAK256"},
	{"ED25519", "m/44'/501'/0'/0'", "SOLANA", "NOT_APPLICABLE"},
	{"P256", "m/1'/7/2", "COMPRESSED", "SHA256"},
}

// accounts are those of every wallet, or at other paths.
func accounts(at ...string) (all []client.Object) {
	for i, p := range paths {
		if len(at) > 0 {
			p.path = at[i]
		}
		all = append(all, client.Account(p.curve, p.path, p.format))
	}
	return all
}

// passing are derived last of all and not kept: what they leave behind has only
// the idle time to vanish.
var passing = []string{"m/44'/60'/0'/0/1", "m/44'/501'/1'/0'", "m/1'/7/3"}

const keysEach = 9 // private keys outside of wallets, of one organization

// load is what was done.
type load struct {
	wallets, signatures int
	signed              map[string]bool // public keys of what was signed with
	accounts, keys      map[string]bool // all public keys, compressed
	targets             map[string]bool // import targets, compressed
	kept                map[string]bool // secrets that came in
	users               map[string]bool // API keys of users
	frost               []frostShare    // that were made
	preimages           preimages
	live                [][]byte // the halves of the live key
}

// each runs f for 0 to n-1, eight at a time.
func each(t *testing.T, n int, f func(i int) error) {
	t.Helper()
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && failed.Load() == nil; i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	work.Wait()
	if err := failed.Load(); err != nil {
		t.Fatal(*err)
	}
}

// do has a user do something, where each does.
func do(u *client.User, typ string, parameters any) error {
	_, err := u.Client.Do(context.Background(), typ, parameters)
	return err
}

// work makes wallets and private keys in every organization, and signs with two
// thirds of them.
func (s *stack) work(wallets, signatures int) *load {
	s.t.Helper()
	l := &load{signatures: signatures, signed: map[string]bool{}, accounts: map[string]bool{}, keys: map[string]bool{}, targets: map[string]bool{}, kept: map[string]bool{}, users: map[string]bool{}, live: s.liveKey()}
	each(s.t, wallets*len(s.tenants), func(i int) error {
		wallet := client.Wallet(fmt.Sprintf("wallet %d", i), accounts()...)
		wallet["mnemonicLength"] = []int{12, 24}[i/len(s.tenants)%2]
		return do(s.tenants[i%len(s.tenants)], "CREATE_WALLET", wallet)
	})
	each(s.t, keysEach*len(s.tenants), func(i int) error {
		p := paths[i/len(s.tenants)%3]
		return do(s.tenants[i%len(s.tenants)], "CREATE_PRIVATE_KEYS_V2", client.Object{"privateKeys": []any{client.Object{"privateKeyName": fmt.Sprintf("key %d", i),
			"curve": "CURVE_" + p.curve, "privateKeyTags": []any{}, "addressFormats": []any{"ADDRESS_FORMAT_" + p.format}}}})
	})
	for _, o := range s.tenants {
		s.transfer(o, l)
	}
	for _, u := range s.tenants[0].Read("list_users", nil)["users"].([]any) {
		l.users[client.Text(u, "apiKeys", "0", "credential", "publicKey")] = true
	}
	type signer struct {
		o                    *client.User
		with, hash, publicID string
	}
	var signers []signer
	hashOf := func(curve any) string {
		return paths[slices.IndexFunc(paths, func(p struct{ curve, path, format, hash string }) bool { return "CURVE_"+p.curve == curve })].hash
	}
	for _, o := range s.tenants {
		var all []signer
		for after := ""; ; {
			page := client.Object{"limit": "100"}
			if after != "" {
				page["after"] = after
			}
			rows := o.Read("list_wallet_accounts", client.Object{"paginationOptions": page})["accounts"].([]any)
			for _, a := range rows {
				after = client.Text(a, "walletAccountId")
				l.accounts[client.Text(a, "publicKey")] = true
				all = append(all, signer{o, client.Text(a, "address"), hashOf(client.Get(a, "curve")), client.Text(a, "publicKey")})
			}
			if len(rows) < 100 {
				break
			}
		}
		for _, k := range o.Read("list_private_keys", nil)["privateKeys"].([]any) {
			public := compressed(client.Text(k, "publicKey"))
			l.keys[public] = true
			all = append(all, signer{o, client.Text(k, "privateKeyId"), hashOf(client.Get(k, "curve")), public})
		}
		for j, x := range all {
			if j%9 < 6 { // whole wallets: the others are never opened again
				signers = append(signers, x)
			}
		}
	}
	for _, x := range signers[:min(signatures, len(signers))] {
		l.signed[x.publicID] = true
	}
	each(s.t, signatures, func(i int) error {
		x := signers[i%len(signers)]
		sign := client.Payload(x.with, strconv.FormatInt(int64(1e15)+int64(i), 16)+"00", x.hash)
		sign["encoding"] = "PAYLOAD_ENCODING_TEXT_UTF8"
		return do(x.o, "SIGN_RAW_PAYLOAD_V2", sign)
	})
	s.derive(l, 10)
	return l
}

// derive derives keys of some wallets of every organization and keeps none.
func (s *stack) derive(l *load, wallets int) {
	s.t.Helper()
	for _, o := range s.tenants {
		rows := o.Read("list_wallets", nil)["wallets"].([]any)
		each(s.t, min(wallets, len(rows)), func(j int) error {
			id := client.Text(rows[len(rows)-1-j], "walletId")
			if err := do(o, "CREATE_WALLET_ACCOUNTS", client.Object{"walletId": id, "accounts": accounts(passing...), "persist": false}); err != nil {
				return err
			}
			return spark(o, l, id)
		})
	}
}

// compressed shortens the public key of a curve with points.
func compressed(public string) string {
	if len(public) != 130 {
		return public
	}
	last, _ := strconv.ParseUint(public[128:], 16, 8)
	return fmt.Sprintf("%02x%s", 2|last&1, public[2:66])
}

// What a secret of the enclave is, in finds.
const (
	kindEntropy = "entropy of a wallet"
	kindSeed    = "seed of a wallet"
	kindNode    = "key on the way to an account, or not kept"
	kindUsed    = "key that was signed with"
	kindUnused  = "key that was not signed with"
	kindTarget  = "key of an import target"
	kindKept    = "secret that is kept for an organization"
	kindProxy   = "key that the auth proxy stamps with"
	kindSpark   = "nonce, preimage or difference of keys, of Spark"
)

// secretsOf opens the deployment, and derives all that follows from its secrets.
// Every account and private key that the interface lists must be among it, and every
// import target: so these are the real secrets, all of them.
func (s *stack) secretsOf(l *load) (all []*secret) {
	s.t.Helper()
	seen := map[string]bool{}
	add := func(kind string, b []byte) {
		if !seen[string(b)] {
			seen[string(b)] = true
			all = append(all, &secret{kind, b})
		}
	}
	use := func(public string) string {
		if l.signed[public] {
			return kindUsed
		}
		return kindUnused
	}
	accounts, keys, targets, kept, proxies := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, 0
	var entropies [][]byte
	for _, half := range l.live {
		add("live-key", half)
	}
	sealed := map[string]bool{}
	s.open(func(kind string, b []byte) {
		if kind != "" {
			add(kind, b)
			return
		}
		if sealed[string(b)] { // a record that was written again
			return
		}
		sealed[string(b)] = true
		if l.kept[string(b)] {
			kept[string(b)] = true
			add(kindKept, b)
			return
		}
		if public := ""; len(b) == 32 {
			if public = curves["CURVE_P256"].public(s.t, b); l.targets[public] {
				targets[public] = true
				add(kindTarget, b)
				return
			}
		}
		if len(b) == 32 && l.users[curves["CURVE_P256"].public(s.t, b)] {
			proxies++
			add(kindProxy, b)
			return
		}
		private := false
		for _, c := range curves {
			if len(b) == 32 && l.keys[c.public(s.t, b)] {
				private = true
				keys[c.public(s.t, b)] = true
				add(use(c.public(s.t, b)), b)
			}
		}
		if !private {
			entropies = append(entropies, b)
		}
	})
	for _, e := range entropies {
		add(kindEntropy, e)
		seed := seedOf(s.t, e)
		add(kindSeed, seed)
		for _, n := range s.sparkSecrets(l, seed) {
			add(n.kind, n.bytes)
		}
		for i, p := range paths {
			for _, n := range curves["CURVE_"+p.curve].nodes(s.t, seed, passing[i]) {
				add(kindNode, n)
			}
			nodes := curves["CURVE_"+p.curve].nodes(s.t, seed, p.path)
			last := nodes[len(nodes)-1]
			for _, n := range nodes[:len(nodes)-1] {
				add(kindNode, n)
			}
			public := curves["CURVE_"+p.curve].public(s.t, last)
			accounts[public] = true
			add(use(public), last)
		}
	}
	for _, b := range l.preimages.all {
		add(kindSpark, b)
	}
	if len(l.frost) > 0 {
		s.t.Fatalf("%d shares are of no key that is known", len(l.frost))
	}
	l.wallets = len(entropies)
	if proxies != 1 {
		s.t.Fatalf("%d keys of the one auth proxy", proxies)
	}
	for what, pair := range map[string][2]map[string]bool{"account": {l.accounts, accounts}, "private key": {l.keys, keys}, "import target": {l.targets, targets}, "kept secret": {l.kept, kept}} {
		for public := range pair[0] {
			if !pair[1][public] {
				s.t.Fatalf("the secret of %s %s is not known", what, public)
			}
		}
		if len(pair[0]) != len(pair[1]) {
			s.t.Fatalf("%d secrets of kind %s, the interface lists %d", len(pair[1]), what, len(pair[0]))
		}
	}
	return all
}
