package activity_test

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/secret/secrettest"
)

// vault seals with AES-GCM under a key of its own, bound to the owner.
type vault struct {
	aead cipher.AEAD
	rand io.Reader
}

func newVault(rand io.Reader) *vault {
	var key [32]byte
	io.ReadFull(rand, key[:])
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return &vault{aead, rand}
}

func (v *vault) Seal(owner org.ID, s secret.Secret) ([]byte, error) {
	nonce := make([]byte, v.aead.NonceSize())
	if _, err := io.ReadFull(v.rand, nonce); err != nil {
		return nil, err
	}
	plain := secrettest.Bytes(s)
	if plain == nil {
		return nil, errors.New("nothing to seal")
	}
	defer clear(plain)
	return v.aead.Seal(nonce, nonce, plain, owner[:]), nil
}

func (v *vault) Open(owner [16]byte, sealed []byte) (secret.Secret, error) {
	n := v.aead.NonceSize()
	plain, err := v.aead.Open(nil, sealed[:n], sealed[n:], owner[:])
	if err != nil {
		return secret.Secret{}, err
	}
	return secret.From(plain)
}

// The tests of the rooms stand here together: they ask for kinds of all families by the table, as clients do.

// world is an organization with one root user, and what is made under it.
type world struct {
	t     testing.TB
	rand  io.Reader
	keys  *keys.Cache[activity.KeyID]
	id    org.ID
	state *org.State
	vault *vault
	now   uint64
	user  org.ID
	root  string // the root user's id
	above *world // of a sub-organization
	subs  map[org.ID]*world
	last  *activity.Tx // of the last run

	limits  org.Limits
	bundles *bundle.Signer
	boot    org.ID

	sessions *login.Signer
	tokens   signers
	outside  activity.Outside
	stamped  *org.VoteCredential // with what the next runs are submitted; nil: the user's first key

	seq       uint64 // of the entry that the next run would have
	providers *providers
	roles     *activity.Roles
	heard     func(*activity.ChainNeed) (*activity.ChainKnown, error)
}

// signers are those of verification tokens and of what passcodes are encrypted to.
type signers struct {
	token, legacy *login.Signer
	targets       *bundle.Signer
}

const start = 1_700_000_000_000

func newWorld(t testing.TB) *world {
	var seed [32]byte
	copy(seed[:], t.Name())
	w := &world{t: t, rand: rand.NewChaCha8(seed), keys: keys.NewCache[activity.KeyID](100, 1<<20), now: start, subs: map[org.ID]*world{}}
	w.empty()
	signer, err := bundle.NewPrivateKey(w.rand)
	w.must(err)
	w.bundles, err = bundle.NewSigner(signer)
	w.must(err)
	w.boot = w.newID()
	notary, err := bundle.NewPrivateKey(w.rand)
	w.must(err)
	w.sessions, err = login.NewSigner(notary)
	w.must(err)
	w.tokens.token, err = login.NewSigner(newKey(w))
	w.must(err)
	w.tokens.legacy, err = login.NewSigner(newKey(w))
	w.must(err)
	w.tokens.targets, err = bundle.NewSigner(newKey(w))
	w.must(err)
	w.providers = newProviders()
	w.roles = newRoles(w)
	tx := org.Begin(w.id, w.state, w.now)
	w.user = w.newID()
	w.root = w.user.String()
	w.must(tx.PutUser(&org.User{ID: w.user, Name: "Root", CreatedMs: w.now, UpdatedMs: w.now,
		APIKeys: []org.APIKey{{ID: w.newID(), Name: "first", PublicKey: someP256, Type: "CREDENTIAL_TYPE_API_KEY_P256", CreatedMs: w.now, UpdatedMs: w.now}}}))
	w.must(tx.TakeName(org.NameUser, "Root", w.user))
	w.must(tx.PutCredential("API_KEY_CURVE_P256", someP256, &org.Credential{User: w.user, Key: w.rootKey(tx)}))
	w.must(tx.PutOrganization(&org.Organization{ID: w.id, Name: "Top", RootUsers: []org.ID{w.user}, Threshold: 1, Users: 1, CreatedMs: w.now, UpdatedMs: w.now}))
	tx.Keep()
	return w
}

func newKey(w *world) secret.Secret {
	k, err := bundle.NewPrivateKey(w.rand)
	w.must(err)
	return k
}

func (w *world) rootKey(tx *org.Tx) org.ID {
	u, err := tx.User(w.user)
	w.must(err)
	return u.APIKeys[0].ID
}

// empty gives w an organization without records.
func (w *world) empty() {
	w.id, w.state, w.vault = w.newID(), org.NewState(), newVault(w.rand)
}

func (w *world) newID() org.ID {
	id, err := org.NewID(w.rand)
	w.must(err)
	return id
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) tx() *org.Tx { return org.Begin(w.id, w.state, w.now) }

// granted is a decision of the policies for one activity, on the keys that it uses.
func (w *world) granted(v *activity.Version, in *activity.Intent, activityID org.ID) *policy.Grant {
	q, err := v.Question(w.tx(), in, activityID, w.user, true)
	w.must(err)
	return w.grant(v.Kind.Action, activityID, q.Keys...)
}

// grant is a decision of the policies for one activity's action on keys.
func (w *world) grant(action string, activityID org.ID, ks ...policy.Key) *policy.Grant {
	d, err := policy.Decide(policy.State{RootUsers: [][16]byte{w.user}, Threshold: 1}, policy.Request{Organization: w.id, Activity: activityID, Action: action, Keys: ks, Approvals: []policy.Approval{{User: w.user}}})
	w.must(err)
	return d.Grant
}

// try runs an activity and keeps its effect if it has one. Like the ledger it
// stores encoded writes, so that records come back decoded.
func (w *world) try(typ string, params any) (map[string]any, error) {
	w.t.Helper()
	typ = "ACTIVITY_TYPE_" + typ
	v, err := kinds.Live.Lookup(activity.OpOf(typ), typ)
	w.must(err)
	b, ok := params.(string)
	if !ok {
		b = string(text(params))
	}
	in, err := v.Decode([]byte(b))
	if err != nil {
		return nil, fmt.Errorf("shape: %w", err)
	}
	var sub *world
	var subTx *activity.Tx
	tx := &activity.Tx{Tx: w.tx(), Limits: w.limits, Vault: w.vault, Rand: w.rand, Keys: w.keys, User: w.user, Activity: w.newID(), WantsProofs: true}
	if w.above != nil {
		tx.Parent = w.above.tx()
	}
	tx.NewOrganization = func() (*activity.Tx, error) {
		sub = &world{t: w.t, rand: w.rand, keys: w.keys, now: w.now, subs: map[org.ID]*world{}, above: w, bundles: w.bundles, boot: w.boot, sessions: w.sessions, tokens: w.tokens, outside: w.outside, providers: w.providers, roles: w.roles}
		sub.empty()
		subTx = &activity.Tx{Tx: sub.tx(), Vault: sub.vault, Rand: w.rand, Keys: w.keys, Activity: tx.Activity, Grant: tx.Grant, Grantor: w.id}
		return subTx, nil
	}
	tx.Bundles, tx.Boot, tx.Sessions, tx.Stamped = w.bundles, w.boot, w.sessions, w.credential()
	tx.Tokens, tx.LegacyTokens, tx.PasscodeTargets, tx.Outside = w.tokens.token, w.tokens.legacy, w.tokens.targets, w.outside
	tx.Providers, tx.Roles = w.providers, w.roles
	w.seq++
	tx.Seq = w.seq
	w.last = tx
	need, err := v.Need(tx.Tx, in)
	if err == nil && need != nil && w.heard != nil {
		var k *activity.ChainKnown
		if k, err = w.heard(need); err == nil {
			in.Know(k)
		}
	}
	if err != nil {
		return nil, err
	}
	q, err := v.Question(tx.Tx, in, tx.Activity, w.user, true)
	if err != nil {
		return nil, err
	}
	tx.Grant = w.grant(v.Kind.Action, tx.Activity, q.Keys...)
	result, err := v.Run(tx, in)
	if err != nil {
		if rest := w.tx(); fault.Of(err) != nil && tx.Remains(rest) {
			ws, err := rest.Writes()
			w.must(err)
			w.state.Apply(ws)
		}
		return nil, err
	}
	for _, wrong := range api.Check("Result", result) {
		w.t.Errorf("%s: %s", typ, wrong)
	}
	ws, err := tx.Writes()
	w.must(err)
	w.state.Apply(ws)
	if tx.Parent != nil {
		ws, err := tx.Parent.Writes()
		w.must(err)
		w.above.state.Apply(ws)
	}
	if subTx != nil {
		ws, err := subTx.Writes()
		w.must(err)
		sub.state.Apply(ws)
		o, err := sub.tx().Organization()
		w.must(err)
		sub.user, sub.root = o.RootUsers[0], o.RootUsers[0].String()
		if o.Parent.Zero() {
			sub.above = nil
		}
		w.subs[sub.id] = sub
	}
	var m map[string]map[string]any
	w.must(json.Unmarshal(result, &m))
	if len(m) != 1 || m[v.ResultKey] == nil {
		w.t.Fatalf("%s answers %s", typ, result)
	}
	return m[v.ResultKey], nil
}

// credential is with what w.user submits.
func (w *world) credential() org.VoteCredential {
	if w.stamped != nil {
		return *w.stamped
	}
	u, err := w.tx().User(w.user)
	w.must(err)
	if u == nil || len(u.APIKeys) == 0 {
		return org.VoteCredential{}
	}
	return activity.APIKeyCredential(&u.APIKeys[0])
}

func (w *world) run(typ string, params any) map[string]any {
	w.t.Helper()
	r, err := w.try(typ, params)
	if err != nil {
		w.t.Fatalf("%s: %v", typ, err)
	}
	return r
}

// refused runs an activity that must be refused with this code and a message
// that holds text, and without effect.
func (w *world) refused(typ string, params any, want fault.Code, says string) {
	w.t.Helper()
	before := w.state.UnsavedBytes()
	r, err := w.try(typ, params)
	e := fault.Of(err)
	switch {
	case err == nil:
		w.t.Errorf("%s answers %v instead of %q", typ, r, says)
	case e == nil:
		w.t.Errorf("%s: internal error %v", typ, err)
	case e.Code != want || !strings.Contains(e.Message, says):
		w.t.Errorf("%s: %d %q, want %d %q", typ, e.Code, e.Message, want, says)
	}
	if w.state.UnsavedBytes() != before {
		w.t.Errorf("%s: a refusal changed the state", typ)
	}
}

func (w *world) sub(id any) *world {
	w.t.Helper()
	i, err := org.ParseID(id.(string))
	w.must(err)
	if w.subs[i] == nil {
		w.t.Fatalf("no sub-organization %v", id)
	}
	return w.subs[i]
}

// freshKey is the public key of another API key each time.
func (w *world) freshKey() string {
	k, err := secp256k1.GeneratePrivateKeyFromRand(w.rand)
	w.must(err)
	return hex.EncodeToString(k.PubKey().SerializeCompressed())
}

type object = map[string]any

func apiKey(name, public string) object {
	return object{"apiKeyName": name, "publicKey": public, "curveType": "API_KEY_CURVE_SECP256K1"}
}

func expiring(name, public, seconds string) object {
	k := apiKey(name, public)
	k["expirationSeconds"] = seconds
	return k
}

func user(name string, keys ...object) object {
	if keys == nil {
		keys = []object{}
	}
	return object{"userName": name, "apiKeys": keys, "authenticators": []any{}, "oauthProviders": []any{}, "userTags": []any{}}
}

func rootUser(name string, keys ...object) object {
	u := user(name, keys...)
	delete(u, "userTags")
	return u
}

func account(curve, path, format string) object {
	return object{"curve": "CURVE_" + curve, "pathFormat": "PATH_FORMAT_BIP32", "path": path, "addressFormat": "ADDRESS_FORMAT_" + format}
}

func ethAccount(i int) object {
	return account("SECP256K1", fmt.Sprintf("m/44'/60'/%d'/0/0", i), "ETHEREUM")
}

func list(r object, key string) []string {
	var out []string
	for _, v := range r[key].([]any) {
		out = append(out, v.(string))
	}
	return out
}
