// Package activitytest is the shared support of the tests of activities: an organization in which activities run as
// in the enclave, through the table of all kinds, and sample parameters and keys.
package activitytest

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

// World is an organization with one root user, for tests.
type World struct {
	TB testing.TB
	// Events are those that earlier sends hold.
	Events map[org.SendPlace]*org.StoredEvent
	Rand   io.Reader
	Keys   *keys.Cache[activity.KeyID]
	ID     org.ID
	State  *org.State
	Vault  *vault
	Now    uint64
	// RecoveredMs is activity.Tx.RecoveredMs.
	RecoveredMs uint64
	User        org.ID
	Root        string // the root user's id
	Parent      *World // of a sub-organization; else nil
	Subs        map[org.ID]*World
	Last        *activity.Tx // the Tx of the last run

	Limits  org.Limits
	Bundles *bundle.Signer
	Boot    org.ID

	Sessions     *login.Signer
	Tokens       signers
	Capabilities activity.Capabilities
	Stamped      *org.VoteCredential // the credential of the next runs; nil: the user's first key

	Seq        uint64 // of the next run's entry
	Providers  *providers
	Roles      *activity.ServiceKeys
	ChainState func(*activity.ChainQuery) (*activity.ChainState, error)
}

// signers sign verification tokens and the keys to which passcodes are encrypted.
type signers struct {
	Token, Legacy *login.Signer
	Targets       *bundle.Signer
}

// Start is the time at which worlds begin, in milliseconds since 1970.
const Start = 1_700_000_000_000

// New makes a world of one organization with one root user.
func New(t testing.TB) *World {
	var seed [32]byte
	copy(seed[:], t.Name())
	w := &World{TB: t, Rand: rand.NewChaCha8(seed), Keys: keys.NewCache[activity.KeyID](100, 1<<20), Now: Start, Subs: map[org.ID]*World{}}
	w.Empty()
	signer, err := bundle.NewPrivateKey(w.Rand)
	w.Must(err)
	w.Bundles, err = bundle.NewSigner(signer)
	w.Must(err)
	w.Boot = w.NewID()
	notary, err := bundle.NewPrivateKey(w.Rand)
	w.Must(err)
	w.Sessions, err = login.NewSigner(notary)
	w.Must(err)
	w.Tokens.Token, err = login.NewSigner(newKey(w))
	w.Must(err)
	w.Tokens.Legacy, err = login.NewSigner(newKey(w))
	w.Must(err)
	w.Tokens.Targets, err = bundle.NewSigner(newKey(w))
	w.Must(err)
	w.Providers = newProviders()
	w.Roles = newRoles(w)
	tx := org.Begin(w.ID, w.State, w.Now)
	w.User = w.NewID()
	w.Root = w.User.String()
	w.Must(tx.PutUser(&org.User{ID: w.User, Name: "Root", CreatedMs: w.Now, UpdatedMs: w.Now,
		APIKeys: []org.APIKey{{ID: w.NewID(), Name: "first", PublicKey: SomeP256, Type: "CREDENTIAL_TYPE_API_KEY_P256", CreatedMs: w.Now, UpdatedMs: w.Now}}}))
	w.Must(tx.TakeName(org.NameUser, "Root", w.User))
	w.Must(tx.PutCredential("API_KEY_CURVE_P256", SomeP256, &org.Credential{User: w.User, Key: w.RootKey(tx)}))
	w.Must(tx.PutOrganization(&org.Organization{ID: w.ID, Name: "Top", RootUsers: []org.ID{w.User}, Threshold: 1, Users: 1, CreatedMs: w.Now, UpdatedMs: w.Now}))
	tx.Apply()
	return w
}

func newKey(w *World) secret.Secret {
	k, err := bundle.NewPrivateKey(w.Rand)
	w.Must(err)
	return k
}

// RootKey returns the id of the root user's API key.
func (w *World) RootKey(tx *org.Tx) org.ID {
	u, err := tx.User(w.User)
	w.Must(err)
	return u.APIKeys[0].ID
}

// Empty replaces the organization by one without records.
func (w *World) Empty() {
	w.ID, w.State, w.Vault = w.NewID(), org.NewState(), newVault(w.Rand)
}

// NewID returns a new id each time.
func (w *World) NewID() org.ID {
	id, err := org.NewID(w.Rand)
	w.Must(err)
	return id
}

// Must ends the test on an error.
func (w *World) Must(err error) {
	w.TB.Helper()
	if err != nil {
		w.TB.Fatal(err)
	}
}

// Tx begins a change that is not kept.
func (w *World) Tx() *org.Tx { return org.Begin(w.ID, w.State, w.Now) }

// GrantFor makes a grant for one activity, for the keys that it uses.
func (w *World) GrantFor(v *activity.Version, in *activity.Intent, activityID org.ID) *policy.Grant {
	q, err := v.PolicyRequest(w.Tx(), in, activityID, w.User, true)
	w.Must(err)
	return w.Grant(v.Kind.Action, activityID, q.Keys...)
}

// Grant makes a grant for one activity's action on keys.
func (w *World) Grant(action string, activityID org.ID, ks ...policy.Key) *policy.Grant {
	d, err := policy.Decide(policy.State{RootUsers: [][16]byte{w.User}, Threshold: 1}, policy.Request{Organization: w.ID, Activity: activityID, Action: action, Keys: ks, Approvals: []policy.Approval{{User: w.User}}})
	w.Must(err)
	return d.Grant
}

// Try runs an activity and keeps its effect if it has one. Like the ledger it
// stores encoded writes, so that records are decoded again.
func (w *World) Try(typ string, params any) (map[string]any, error) {
	w.TB.Helper()
	typ = "ACTIVITY_TYPE_" + typ
	v, err := kinds.Live.Lookup(activity.OpOf(typ), typ)
	w.Must(err)
	b, ok := params.(string)
	if !ok {
		b = string(JSON(params))
	}
	in, err := v.Decode([]byte(b))
	if err != nil {
		return nil, fmt.Errorf("shape: %w", err)
	}
	var sub *World
	var subTx *activity.Tx
	tx := &activity.Tx{Tx: w.Tx(), Limits: w.Limits, Vault: activity.VaultOf(w.Vault), Rand: w.Rand, Keys: w.Keys, User: w.User, Activity: w.NewID(), WantsProofs: true, RecoveredMs: w.RecoveredMs}
	if w.Parent != nil {
		tx.Parent, tx.ParentVault = w.Parent.Tx(), activity.VaultOf(w.Parent.Vault)
	}
	tx.NewOrganization = func() (*activity.Tx, error) {
		sub = &World{TB: w.TB, Rand: w.Rand, Keys: w.Keys, Now: w.Now, Subs: map[org.ID]*World{}, Parent: w, Bundles: w.Bundles, Boot: w.Boot, Sessions: w.Sessions, Tokens: w.Tokens, Capabilities: w.Capabilities, Providers: w.Providers, Roles: w.Roles}
		sub.Empty()
		subTx = &activity.Tx{Tx: sub.Tx(), Vault: activity.VaultOf(sub.Vault), Rand: w.Rand, Keys: w.Keys, Activity: tx.Activity, Grant: tx.Grant, Grantor: w.ID}
		return subTx, nil
	}
	tx.Bundles, tx.Boot, tx.Sessions, tx.Stamped = w.Bundles, w.Boot, w.Sessions, w.Credential()
	tx.Tokens, tx.LegacyTokens, tx.PasscodeTargets, tx.Capabilities = w.Tokens.Token, w.Tokens.Legacy, w.Tokens.Targets, w.Capabilities
	tx.Providers, tx.ServiceKeys = w.Providers, w.Roles
	tx.StoredEvents = func(places []org.SendPlace) ([]*org.StoredEvent, error) {
		events := make([]*org.StoredEvent, len(places))
		for i, at := range places {
			events[i] = w.Events[at]
		}
		return events, nil
	}
	w.Seq++
	tx.Seq = w.Seq
	w.Last = tx
	if p := in.Payer(); p != nil {
		if err := p.LookUpPayer(tx.Top); err != nil {
			return nil, err
		}
	}
	need, err := v.ChainQuery(tx.Tx, in)
	if err == nil && need != nil && w.ChainState != nil {
		var k *activity.ChainState
		if k, err = w.ChainState(need); err == nil {
			in.SetChainState(k)
		}
	}
	if err != nil {
		return nil, err
	}
	q, err := v.PolicyRequest(tx.Tx, in, tx.Activity, w.User, true)
	if err != nil {
		return nil, err
	}
	tx.Grant = w.Grant(v.Kind.Action, tx.Activity, q.Keys...)
	result, err := v.Run(tx, in)
	if err != nil {
		if rest := w.Tx(); fault.Of(err) != nil && tx.KeptAfterRefusal(rest) {
			ws, err := rest.Writes()
			w.Must(err)
			w.State.Apply(ws)
		}
		return nil, err
	}
	if ownIntents[v.Type] == nil {
		for _, wrong := range API.Check("Result", result) {
			w.TB.Errorf("%s: %s", typ, wrong)
		}
	}
	ws, err := tx.Writes()
	w.Must(err)
	w.State.Apply(ws)
	if tx.Parent != nil {
		ws, err := tx.Parent.Writes()
		w.Must(err)
		w.Parent.State.Apply(ws)
	}
	if subTx != nil {
		ws, err := subTx.Writes()
		w.Must(err)
		sub.State.Apply(ws)
		o, err := sub.Tx().Organization()
		w.Must(err)
		sub.User, sub.Root = o.RootUsers[0], o.RootUsers[0].String()
		if o.Parent.Zero() {
			sub.Parent = nil
		}
		w.Subs[sub.ID] = sub
	}
	var m map[string]map[string]any
	w.Must(json.Unmarshal(result, &m))
	if len(m) != 1 || m[v.ResultKey] == nil {
		w.TB.Fatalf("%s answers %s", typ, result)
	}
	return m[v.ResultKey], nil
}

// Credential returns the credential with which w.User submits.
func (w *World) Credential() org.VoteCredential {
	if w.Stamped != nil {
		return *w.Stamped
	}
	u, err := w.Tx().User(w.User)
	w.Must(err)
	if u == nil || len(u.APIKeys) == 0 {
		return org.VoteCredential{}
	}
	return activity.APIKeyCredential(&u.APIKeys[0])
}

// Run is Try for an activity that must succeed.
func (w *World) Run(typ string, params any) map[string]any {
	w.TB.Helper()
	r, err := w.Try(typ, params)
	if err != nil {
		w.TB.Fatalf("%s: %v", typ, err)
	}
	return r
}

// Refuse runs an activity that must be refused with this code and a message
// that contains says, and without effect.
func (w *World) Refuse(typ string, params any, want fault.Code, says string) {
	w.TB.Helper()
	before := w.State.Bytes()
	r, err := w.Try(typ, params)
	e := fault.Of(err)
	switch {
	case err == nil:
		w.TB.Errorf("%s answers %v instead of %q", typ, r, says)
	case e == nil:
		w.TB.Errorf("%s: internal error %v", typ, err)
	case e.Code != want || !strings.Contains(e.Message, says):
		w.TB.Errorf("%s: %d %q, want %d %q", typ, e.Code, e.Message, want, says)
	}
	if w.State.Bytes() != before {
		w.TB.Errorf("%s: a refusal changed the state", typ)
	}
}

// Sub returns the sub-organization with an id from a result.
func (w *World) Sub(id any) *World {
	w.TB.Helper()
	i, err := org.ParseID(id.(string))
	w.Must(err)
	if w.Subs[i] == nil {
		w.TB.Fatalf("no sub-organization %v", id)
	}
	return w.Subs[i]
}

// FreshKey returns the public key of a new API key each time.
func (w *World) FreshKey() string {
	k, err := secp256k1.GeneratePrivateKeyFromRand(w.Rand)
	w.Must(err)
	return hex.EncodeToString(k.PubKey().SerializeCompressed())
}

// Object is a JSON object.
type Object = map[string]any

// APIKey are the parameters of an API key on secp256k1.
func APIKey(name, public string) Object {
	return Object{"apiKeyName": name, "publicKey": public, "curveType": "API_KEY_CURVE_SECP256K1"}
}

// Expiring is APIKey with an expiry in seconds.
func Expiring(name, public, seconds string) Object {
	k := APIKey(name, public)
	k["expirationSeconds"] = seconds
	return k
}

// User are the parameters of a user.
func User(name string, keys ...Object) Object {
	if keys == nil {
		keys = []Object{}
	}
	return Object{"userName": name, "apiKeys": keys, "authenticators": []any{}, "oauthProviders": []any{}, "userTags": []any{}}
}

// RootUser is User without tags, which root users cannot have.
func RootUser(name string, keys ...Object) Object {
	u := User(name, keys...)
	delete(u, "userTags")
	return u
}

// Account are the parameters of an account.
func Account(curve, path, format string) Object {
	return Object{"curve": "CURVE_" + curve, "pathFormat": "PATH_FORMAT_BIP32", "path": path, "addressFormat": "ADDRESS_FORMAT_" + format}
}

// EthAccount is an account of Ethereum.
func EthAccount(i int) Object {
	return Account("SECP256K1", fmt.Sprintf("m/44'/60'/%d'/0/0", i), "ETHEREUM")
}

// List returns a list of texts of a result.
func List(r Object, key string) []string {
	var out []string
	for _, v := range r[key].([]any) {
		out = append(out, v.(string))
	}
	return out
}

// With sets a member of o and returns o.
func With(o Object, k string, v any) Object {
	o[k] = v
	return o
}

// Without returns a copy of o without a member.
func Without(o Object, member string) Object {
	c := Object{}
	for k, v := range o {
		if k != member {
			c[k] = v
		}
	}
	return c
}

// MustID parses an id of a result.
func MustID(v any) org.ID {
	id, err := org.ParseID(v.(string))
	if err != nil {
		panic(err)
	}
	return id
}

// Code returns the code of a refusal, 0 for any other error.
func Code(err error) fault.Code {
	if e := fault.Of(err); e != nil {
		return e.Code
	}
	return 0
}

// JSON encodes a value that must be encodable.
func JSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// Entry makes the entry of an activity with one vote, its submitter's.
func (w *World) Entry(typ string, params any) *org.Entry {
	body := JSON(Object{"type": typ, "timestampMs": "1700000000000", "organizationId": w.ID.String(), "parameters": params})
	return &org.Entry{
		Activity: w.NewID(), Type: typ, Status: org.StatusCompleted, Body: body, Fingerprint: org.Hash{1, 2}, CreatedMs: 1_700_000_000_999, TimeMs: 1_700_000_002_001,
		Votes:  []org.Vote{{ID: w.NewID(), User: w.User, UserName: "Root", PublicKey: SomeP256, Signature: "3045", Scheme: "SIGNATURE_SCHEME_TK_API_P256", CreatedMs: 1_700_000_000_999}},
		Result: []byte(`{"updateWalletResult":{"walletId":"` + w.Root + `"}}`),
	}
}

// Store folds a state like a snapshot, and returns the records of its pieces by their
// names, from which pieces that are dropped from memory can be installed again.
func Store(s *org.State) map[org.Hash][]org.Write {
	stored := map[org.Hash][]org.Write{}
	f := s.Compact()
	for f.Next() {
		parts := f.Parts()
		for _, p := range parts {
			name := org.Hash{byte(len(stored) + 1)}
			p.SetName(name)
			stored[name] = p.Records()
		}
		f.SetStored(parts)
	}
	f.End()
	return stored
}
