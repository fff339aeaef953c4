// Package activity is the engine of activities, the requests that can change an organization.
//
// A kind is an operation; each version of it is one activity type on the wire. A kind is declared as a
// literal in its family's file: its name, its names in policies, the function that runs the newest intent, and
// the conversion of older intents. Everything that follows from the name (types, members, path) is derived.
//
// This package has kinds, intents, results, the counting of votes, and the rendering of activities. The families
// are in the packages that import it (tag, wallet, user, organization, auth); package kinds lists them all.
//
// It promises that a kind's function gets only intents that were decoded strictly and checked; that a function
// which returns an error has no effect (the caller drops its Tx) except through ChangeDespiteRefusal; that secrets
// are stored only sealed by the Vault and leave only encrypted; and that nothing is signed or exported without
// the Tx's Grant. Its only sources of time, randomness and remote data are those in the Tx.
package activity

import (
	"cmp"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"cloister/enclave/internal/billing"
	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/strictjson"
)

// A Sealer encrypts and decrypts the secrets of one organization. A secret opens only under the id of its owner.
type Sealer interface {
	Seal(owner org.ID, s secret.Secret) ([]byte, error)
	keys.Opener
}

// A Vault seals the secrets of one organization, and opens those that activities may read, by their records. It does not open wallets, private
// keys and stored secrets: these need a Grant and a keys.Holder.
type Vault struct{ sealer Sealer }

// VaultOf makes a Vault of a Sealer.
func VaultOf(s Sealer) Vault { return Vault{s} }

// Seal encrypts a secret under its owner's id.
func (v Vault) Seal(owner org.ID, s secret.Secret) ([]byte, error) { return v.sealer.Seal(owner, s) }

// OpenPasscodeTarget opens the private key to which attempts at a passcode are encrypted. The caller wipes the result, as of all Open methods.
func (v Vault) OpenPasscodeTarget(p *org.Passcode) (secret.Secret, error) {
	return v.sealer.Open(p.ID, p.Target)
}

// OpenImportTarget opens the private key to which an import is encrypted.
func (v Vault) OpenImportTarget(t *org.Target) (secret.Secret, error) {
	return v.sealer.Open(t.ID, t.Key)
}

// OpenClientSecret opens the client secret at an OAuth 2.0 provider.
func (v Vault) OpenClientSecret(c *org.OAuth2Credential) (secret.Secret, error) {
	return v.sealer.Open(c.ID, c.Secret)
}

// OpenOnRampSecret opens the secret of an on-ramp provider.
func (v Vault) OpenOnRampSecret(c *org.OnRampCredential) (secret.Secret, error) {
	return v.sealer.Open(c.ID, c.Secret)
}

// OpenOnRampKey opens the private key at an on-ramp provider.
func (v Vault) OpenOnRampKey(c *org.OnRampCredential) (secret.Secret, error) {
	return v.sealer.Open(c.ID, c.Private)
}

// KeyID identifies a cached key: of account No of a wallet, or with No 0 a private key.
type KeyID struct {
	Organization, Owner org.ID
	No                  uint64
}

// Tx is the environment of a running activity: the records and services that it may use.
type Tx struct {
	*org.Tx       // records of the organization; ID, NowMs
	Vault   Vault // of the organization
	// Limits are the maximal numbers of things. Run raises those below the documented ones.
	Limits org.Limits
	Rand   io.Reader // the enclave's randomness
	// Keys caches derived account keys.
	Keys     *keys.Cache[KeyID]
	User     org.ID // the submitter
	Activity org.ID
	// Parent are the records of the parent, if the transaction has locked it too. Nil in a top-level organization; use ParentRecords.
	Parent *org.Tx
	// ParentVault is Parent's Vault, zero if Parent is nil.
	ParentVault Vault
	// From is the caller's address as the host claims it. It must not affect a decision.
	From  string
	Grant *policy.Grant
	// Grantor is the organization whose policies gave the Grant, if it is not this one: the one that creates it.
	Grantor org.ID
	// WantsProofs requests that Claims are collected.
	WantsProofs bool
	Claims      []Claim
	// NewOrganization creates an organization in the same transaction: a Tx with an empty state, a Vault of its own
	// and an id never used before. Nil where a transaction may not span organizations.
	NewOrganization func() (*Tx, error)
	// Bundles signs exports and the keys to which imports are encrypted.
	Bundles *bundle.Signer
	Boot    org.ID // of this run of the enclave, drawn at its start
	// Sessions signs the tokens of sessions.
	Sessions *login.Signer
	// Tokens and LegacyTokens sign verification tokens of the two forms, PasscodeTargets the keys to which
	// passcodes are encrypted.
	Tokens, LegacyTokens *login.Signer
	PasscodeTargets      *bundle.Signer
	// Capabilities are the configured means of sending mails and text messages.
	Capabilities Capabilities
	// Sender counts messages; nil: they are not counted.
	Sender Sender
	// Providers asks identity providers; ServiceKeys are keys of the enclave. Either is nil where nothing needs it.
	Providers   Providers
	ServiceKeys *ServiceKeys
	// Verification is the verified token that vouched for the submitter, or nil.
	Verification *login.VerificationToken
	// Stamped is the credential with which the activity was submitted.
	Stamped org.VoteCredential
	// Sends are sent once the activity's entry, with sequence number Seq, is stored.
	Sends []org.Send
	Seq   uint64
	// StoredEvents returns the events that stored sends hold, nil for each send that holds none. Those that must be read
	// first are an *org.Retry.
	StoredEvents func([]org.SendPlace) ([]*org.StoredEvent, error)
	// Drill, unless empty, is the required prefix of everything that is signed, before hashing.
	Drill string
	// Opened, in a replay, replaces the decryption with an import target's key; it returns the secret, or bundle.ErrOpen.
	Opened func() (secret.Secret, error)
	// RecoveredMs is the time of the range's last recovery, with which spends were lost that are not known; 0: there was none.
	RecoveredMs uint64
	// Recovered is the newest log generation of the range that began with a recovery, if organizations then need their root
	// quorum; 0: none.
	Recovered uint32
	// Loopback allows webhooks to receivers on this machine.
	Loopback bool
	// Presented is the origin of the credentials and contacts that are added to users; zero: a user of the organization.
	Presented org.How
	// Plans are the deployment's plans, nil if it has none. Only kinds with Kind.Plans read them.
	Plans *billing.Plans

	afterRefusal []func(*org.Tx)
}

// A Sender is the quota of messages of the paying organization. MaySend refuses a message to a contact, given by its hash, if the quota is used
// up. An activity that it refuses is not stored.
type Sender interface {
	MaySend(kind org.SendKind, contact org.Hash) error
}

// Holder returns the activity's access to keys.
func (t *Tx) Holder() *keys.Holder {
	h := &keys.Holder{Grant: t.Grant, Organization: t.ID, Activity: t.Activity, Vault: keys.VaultOf(t.Vault.sealer), Step: t.Tx}
	if !t.Grantor.Zero() {
		h.Organization = t.Grantor
	}
	return h
}

// ChangeDespiteRefusal makes a change that persists even if the activity is refused later, such as the use of
// something that can be used only once.
func (t *Tx) ChangeDespiteRefusal(change func(*org.Tx)) {
	change(t.Tx)
	t.afterRefusal = append(t.afterRefusal, change)
}

// KeptAfterRefusal puts the persistent changes of a refused activity into a new transaction, and reports whether there are any.
func (t *Tx) KeptAfterRefusal(into *org.Tx) bool {
	for _, change := range t.afterRefusal {
		change(into)
	}
	return len(t.afterRefusal) > 0
}

// ErrNeedsParent asks for another run with Tx.Parent set: the parent must be locked before its child.
var ErrNeedsParent error = &org.Retry{LockParent: true}

// IsByParent returns the parent's records if a user of the parent has submitted the activity, else nil: see Kind.ByParent.
func (t *Tx) IsByParent() (*org.Tx, error) {
	u, err := t.Tx.User(t.User)
	if err != nil || u != nil || t.User == (org.ID{}) {
		return nil, err
	}
	return t.ParentRecords()
}

// IsByChild returns the parent's records if a user of this sub-organization has submitted the activity, else nil.
func (t *Tx) IsByChild() (*org.Tx, error) {
	u, err := t.Tx.User(t.User)
	if err != nil || u == nil {
		return nil, err
	}
	return t.ParentRecords()
}

// ParentRecords returns the parent's records, nil in a top-level organization. ErrNeedsParent must be returned to the caller.
func (t *Tx) ParentRecords() (*org.Tx, error) {
	o, err := t.Organization()
	if err != nil || o == nil || o.Parent.Zero() {
		return nil, err
	}
	if t.Parent == nil {
		return nil, ErrNeedsParent
	}
	return t.Parent, nil
}

// Top returns the records of the top-level organization: the parent's, or the organization's own.
func (t *Tx) Top() (*org.Tx, error) {
	top, err := t.ParentRecords()
	if err == nil && top == nil {
		top = t.Tx
	}
	return top, err
}

// TopHolder is Holder for keys of the organization whose records Top returns.
func (t *Tx) TopHolder() *keys.Holder {
	h := t.Holder()
	h.Vault = keys.VaultOf(t.TopVault().sealer)
	return h
}

// TopVault is the Vault of the organization whose records Top returns.
func (t *Tx) TopVault() Vault {
	if t.Parent != nil {
		return t.ParentVault
	}
	return t.Vault
}

// ParentUsers is ParentRecords for an organization whose own record may not exist yet; then Parent must be set.
func (t *Tx) ParentUsers() (*org.Tx, error) {
	if o, err := t.Organization(); err != nil || o == nil {
		return t.Parent, err
	}
	return t.ParentRecords()
}

// A Claim is a statement of an app proof about an activity. One of its fields is set.
type Claim struct {
	Address   *AddressClaim
	Signature *SignatureClaim
}

// AddressClaim states that an address was derived in the enclave. WalletID and Path are empty for a private key.
// Organization is the owner of the key; it may be new.
type AddressClaim struct {
	Organization            org.ID
	WalletID, Path, Address string
}

// SignatureClaim states that a key signed. PublicKey is lower-case hex, compressed. The digests are lower-case
// hex in the order of the signatures: the digest for ECDSA, the SHA-256 of the message for ed25519.
type SignatureClaim struct {
	PublicKey string
	Digests   []string
}

// A Kind declares an operation. I is its newest intent, R its newest result.
type Kind[I, R any] struct {
	Name     string // as in ACTIVITY_TYPE_<Name>, without a version
	Resource string // policy resource, such as WALLET
	Action   string // policy action, such as CREATE

	// RootQuorum: only the root quorum can allow the kind, no policy can.
	RootQuorum bool
	// Vote: the kind approves or rejects another activity.
	Vote bool
	// ByCredential: a request may name the parent instead of its organization, which is then looked up by the
	// credential.
	ByCredential bool
	// ByParent: a user of the parent may submit it for a sub-organization, decided by the parent's policies.
	// Tx.User is then a user of Tx.Parent; the intent names the user that it concerns.
	ByParent bool
	// Attested: a verification token may authenticate the user instead of a stamp by the user's key.
	Attested bool
	// ByProxy: the auth proxy's key may stamp the kind. It may stamp no other kind, whatever policies say.
	ByProxy bool
	// Plans: the kind depends on the deployment's plans.
	Plans bool
	// Decodes: policies can read decoded data of the intent, such as arguments of a call, which takes several times
	// as much memory.
	Decodes bool

	// Run executes the operation.
	Run func(*Tx, *I) (*R, error)
	// Results are the versions of the result object, if not only the first: a type has the highest that is at most
	// its own version.
	Results []int
	// ResultKey names the result object of the newest version, if it does not follow from Results.
	ResultKey string
	// Older are the versions below the newest, from the first.
	Older []Older

	// Examine runs before any decision, for the root quorum too. A *fault.Error refuses the request; no activity is made.
	Examine func(*org.Tx, *I) error
	// ChainQuery is the chain state needed before the decision, nil for none. The host is asked without the lock
	// and the answer is passed to the intent's SetChainState; under the lock the transaction is built from it.
	ChainQuery func(*org.Tx, *I) (*ChainQuery, error)
	// Params is activity.params, a policy.Struct with the members that policies may read.
	Params func(*I) policy.Value
	// Facts are the roots that policies may read: wallet, wallet_account, private_key and so on. An object that does
	// not exist has no root.
	Facts func(*org.Tx, *I) (policy.Facts, error)
	// Keys are the stored keys that the kind uses; the Grant covers them. Keys that do not exist are left out:
	// Run refuses them.
	Keys func(*org.Tx, *I) ([]policy.Key, error)
	// FillPolicyRequest completes the policy request where Facts do not suffice, such as with facts of each payload.
	FillPolicyRequest func(*org.Tx, *I, *policy.Request) error
	// Self, if set, allows users to do this to themselves unless a policy says otherwise. It returns the id of
	// the user whom the intent names, or an empty text if it always concerns the submitter.
	Self func(*I) string
	// Signatures is the number of signatures of a kind that signs. Nil: one.
	Signatures func(*I) int
	// Verify checks a recorded result and sends against the public data in tx, the organization after the activity's writes,
	// without secrets. Nil: no check is possible.
	Verify func(tx *org.Tx, in *I, r *R, sends []org.Send) error
	// Show shows approvers what would be signed, in parts of its own, and answers the kind of the document. It may complete
	// what is known.
	Show func(tx *org.Tx, in *I, v *show.View, known *show.Known) (kind string, err error)
	// Explain shows approvers, before the intent itself, what the activity would change: names for ids, what was there before, and what
	// it comes to. Nil where the intent says all; a test lists these kinds with the reasons.
	Explain func(tx *org.Tx, in *I, o *show.Object) error
	// OnlySelf, if set, forbids doing this for another user, also to the root quorum. It returns the id of the
	// user whom the intent names.
	OnlySelf func(*I) string
}

// Param is activity.params with one member.
func Param(name string, value policy.Value) policy.Value {
	return policy.Struct(policy.Member{Name: name, Value: value})
}

// A Family is the kinds of one file, each with an intent and a result type of its own.
type Family []interface{ versions() []*Version }

// Traits are the properties of a kind that do not depend on an intent; see Kind.
type Traits struct {
	Name, Resource, Action                                      string
	Op                                                          string // the last segment of its path
	RootQuorum, Vote, ByCredential, ByParent, Attested, ByProxy bool
	Plans, Decodes                                              bool
}

// Older is a version below the newest.
type Older struct {
	intent, newest reflect.Type // the version's own intent, and the newest
	decode         func([]byte) (*Intent, error)

	result, of reflect.Type // the version's own result, and the result that it is made from; nil: the newest
	narrow     func(any) any

	never *fault.Error
}

// Upgrade is an older version; carry converts its intent to the newest.
func Upgrade[O, I any](carry func(*O) I) Older {
	return Older{intent: reflect.TypeFor[O](), newest: reflect.TypeFor[I](), decode: decoder(func(o *O) *I {
		in := carry(o)
		return &in
	})}
}

// Never is version o, refused for every caller whatever policies allow, because its bodies hold data that must not be stored.
func Never(o Older, why *fault.Error) Older {
	o.never = why
	return o
}

// Downgrade is version o with a result that narrow makes from the newest.
func Downgrade[R, S any](o Older, narrow func(*R) *S) Older {
	o.result, o.of, o.narrow = reflect.TypeFor[S](), reflect.TypeFor[R](), func(r any) any { return narrow(r.(*R)) }
	return o
}

// Version is one activity type of a kind.
type Version struct {
	Type      string // ACTIVITY_TYPE_…
	IntentKey string // member of an activity's intent, such as createWalletIntent
	ResultKey string // member of its result
	Kind      *Traits

	decode            func(params []byte) (*Intent, error)
	chainQuery        func(*org.Tx, any) (*ChainQuery, error)
	fillPolicyRequest func(tx *org.Tx, newest any, r *policy.Request, bare bool) error
	run               func(*Tx, any) (any, error)
	signs             func(newest any) uint64
	verify            func(tx *org.Tx, newest any, result []byte, sends []org.Send) error
	show              func(tx *org.Tx, v *show.View, known *show.Known, in *Intent) (kind string, err error)
	explained         bool          // to approvers by more than its intent: Kind.Explain or Kind.Show
	narrow            func(any) any // from the newest result to this version's; nil: the same
	intent            reflect.Type
	result            reflect.Type
	newest            bool
	secret            bool
	showsBytes        bool // see Table.ShowsBytes
	never             *fault.Error
}

// Never is the error of a version that is always refused, nil for any other. Its bodies are not stored: there is no
// activity, vote or fingerprint, whatever the reply.
func (v *Version) Never() *fault.Error { return v.never }

// Secret reports whether bodies contain a one-time secret in clear, such as a passcode. Readers of the activity
// see neither the secret nor the body.
func (v *Version) Secret() bool { return v.secret }

// Intent is a decoded and checked `parameters` object.
type Intent struct {
	// WantsProofs is generateAppProofs inside of `parameters`.
	WantsProofs bool

	sent   any // as the version declares it
	newest any // as the kind's function takes it
}

// Decode reads `parameters`, strictly. The errors are *fault.Error.
func (v *Version) Decode(params []byte) (*Intent, error) { return v.decode(params) }

// AppendIntent writes an activity's intent object as it was sent, without absent options. One-time secrets are masked:
// others may read the activity, even while it waits for votes. The fingerprint remains that of the body.
func (v *Version) AppendIntent(dst []byte, in *Intent) []byte {
	dst = append(append(append(dst, `{"`...), v.IntentKey...), `":`...)
	if v.secret {
		return append(strictjson.AppendMasked(dst, in.sent), '}')
	}
	return append(AppendShape(dst, in.sent), '}')
}

// Run executes the activity and returns its result object. After an error the Tx must be dropped: a
// *fault.Error is the activity's failure; an *org.Retry wants a piece loaded and the activity run again with
// another Grant; any other is internal.
func (v *Version) Run(tx *Tx, in *Intent) ([]byte, error) {
	tx.Limits = tx.Limits.WithDefaults()
	r, err := v.run(tx, in.newest)
	if err == nil {
		err = tx.finish()
	}
	if err != nil {
		return nil, err
	}
	if v.narrow != nil {
		r = v.narrow(r)
	}
	dst := make([]byte, 0, 256)
	dst = append(append(append(dst, `{"`...), v.ResultKey...), `":`...)
	return append(AppendShape(dst, r), '}'), nil
}

// Take is Run with a recorded result instead of the kind's function, for a replay without the secrets that the
// function needs. record returns the recorded result object.
func (v *Version) Take(tx *Tx, record func() ([]byte, error)) ([]byte, error) {
	tx.Limits = tx.Limits.WithDefaults()
	result, err := record()
	if err == nil {
		err = tx.finish()
	}
	return result, err
}

// Verify checks a recorded result object of the version with Kind.Verify. It does not check a result narrower
// than the newest.
func (v *Version) Verify(tx *org.Tx, in *Intent, result []byte, sends []org.Send) error {
	if v.narrow != nil {
		return nil
	}
	var m map[string]strictjson.Raw
	if err := strictjson.Decode(result, &m); err != nil {
		return err
	}
	return v.verify(tx, in.newest, m[v.ResultKey], sends)
}

// Signatures is the number of signatures with keys of the organization that the activity makes, as plans count them: one
// for each payload, one for a transaction.
func (v *Version) Signatures(in *Intent) uint64 { return v.signs(in.newest) }

// appender is an intent or result that encodes itself, where the general encoder is too slow.
type appender interface{ AppendJSON([]byte) []byte }

// AppendShape writes an intent or a result.
func AppendShape(dst []byte, shape any) []byte {
	if a, ok := shape.(appender); ok {
		return a.AppendJSON(dst)
	}
	return strictjson.Append(dst, shape)
}

// checker is an intent with conditions that rules of fields cannot express. A refusal makes no activity.
type checker interface{ Check() error }

// versions returns the kind's activity types, for a Table.
func (k Kind[I, R]) versions() []*Version {
	traits := &Traits{k.Name, k.Resource, k.Action, operationName(k.Name), k.RootQuorum, k.Vote, k.ByCredential, k.ByParent, k.Attested, k.ByProxy, k.Plans, k.Decodes}
	intent, result := reflect.TypeFor[I](), reflect.TypeFor[R]()
	vs := make([]*Version, len(k.Older)+1)
	for i := range vs {
		suffix := versionSuffix(i + 1)
		v := &Version{
			Type: "ACTIVITY_TYPE_" + k.Name, IntentKey: CamelCase(k.Name) + "Intent" + suffix, ResultKey: CamelCase(k.Name) + "Result", Kind: traits,
			chainQuery: k.chainQuery, fillPolicyRequest: k.fillPolicyRequest, run: k.run, signs: k.signs, verify: k.verify, intent: intent, result: result, newest: i == len(k.Older), explained: k.Explain != nil || k.Show != nil,
		}
		if i > 0 {
			v.Type += "_" + suffix
		}
		for _, n := range k.Results {
			if n <= i+1 {
				v.ResultKey = CamelCase(k.Name) + "Result" + versionSuffix(n)
			}
		}
		if v.newest {
			v.decode = decoder(func(in *I) *I { return in })
			v.ResultKey = cmp.Or(k.ResultKey, v.ResultKey)
		} else {
			o := &k.Older[i]
			if o.newest != intent || o.of != nil && o.of != result {
				panic("activity: version " + strconv.Itoa(i+1) + " of " + k.Name + " does not become the newest")
			}
			v.decode, v.intent, v.never = o.decode, o.intent, o.never
			if o.of != nil {
				v.narrow, v.result = o.narrow, o.result
			}
		}
		v.secret = strictjson.Masks(v.intent)
		v.showsBytes = k.Show != nil
		v.show = func(tx *org.Tx, view *show.View, known *show.Known, in *Intent) (string, error) {
			return k.show(tx, view, known, in, v.secret)
		}
		strictjson.Prepare(reflect.New(v.intent).Interface(), reflect.New(v.result).Interface())
		vs[i] = v
	}
	return vs
}

func (k Kind[I, R]) run(tx *Tx, newest any) (any, error) {
	r, err := k.Run(tx, newest.(*I))
	if err != nil {
		return nil, err // never a typed nil
	}
	return r, nil
}

func (k Kind[I, R]) signs(newest any) uint64 {
	switch {
	case k.Action != keys.ActionSign:
		return 0
	case k.Signatures == nil:
		return 1
	}
	return uint64(k.Signatures(newest.(*I)))
}

func (k Kind[I, R]) verify(tx *org.Tx, newest any, result []byte, sends []org.Send) error {
	if k.Verify == nil {
		return nil
	}
	r := new(R)
	if err := strictjson.Decode(result, r); err != nil {
		return err
	}
	return k.Verify(tx, newest.(*I), r, sends)
}

func (k Kind[I, R]) chainQuery(tx *org.Tx, newest any) (*ChainQuery, error) {
	if k.ChainQuery == nil {
		return nil, nil
	}
	return k.ChainQuery(tx, newest.(*I))
}

// fillPolicyRequest completes the policy request about an intent.
func (k Kind[I, R]) fillPolicyRequest(tx *org.Tx, newest any, r *policy.Request, bare bool) (err error) {
	in := newest.(*I)
	if k.Examine != nil {
		if err := k.Examine(tx, in); err != nil {
			return err
		}
	}
	if k.RootQuorum {
		r.Kind = "" // policies read an empty kind
	}
	if k.Params != nil && !bare {
		r.Params = k.Params(in)
	}
	if k.Facts != nil && !bare {
		if r.Facts, err = k.Facts(tx, in); err != nil {
			return err
		}
	}
	if k.Keys != nil {
		if r.Keys, err = k.Keys(tx, in); err != nil {
			return err
		}
	}
	if k.FillPolicyRequest != nil && !bare {
		if err := k.FillPolicyRequest(tx, in, r); err != nil {
			return err
		}
	}
	if k.Self != nil {
		text := k.Self(in)
		id, err := org.ParseID(text)
		r.SelfService = text == "" || err == nil && id == org.ID(r.Initiator)
	}
	if k.OnlySelf != nil {
		id, err := org.ParseID(k.OnlySelf(in))
		r.AboutAnother = err != nil || id != org.ID(r.Initiator)
	}
	return nil
}

func decoder[O, I any](carry func(*O) *I) func([]byte) (*Intent, error) {
	return func(params []byte) (*Intent, error) {
		sent, in := new(O), new(Intent)
		if err := strictjson.Decode(params, sent, strictjson.Also("generateAppProofs", &in.WantsProofs)); err != nil {
			return nil, PublicWording(err)
		}
		newest := carry(sent)
		in.sent, in.newest = sent, newest
		if c, ok := any(newest).(checker); ok {
			if err := c.Check(); err != nil {
				return nil, err
			}
		}
		return in, nil
	}
}

func versionSuffix(n int) string {
	if n == 1 {
		return ""
	}
	return "V" + strconv.Itoa(n)
}

// CamelCase turns CREATE_WALLET into createWallet.
func CamelCase(name string) string {
	words := strings.Split(strings.ToLower(name), "_")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// A Table maps activity types to versions.
type Table map[string]*Version

// NewTable lists the versions of families. It panics if a type is listed twice.
func NewTable(families ...Family) Table {
	t := Table{}
	for _, f := range families {
		for _, k := range f {
			for _, v := range k.versions() {
				if t[v.Type] != nil || operationOf[v.Type] != v.Kind.Op {
					panic(fmt.Sprintf("activity: %s listed twice or unknown", v.Type))
				}
				t[v.Type] = v
			}
		}
	}
	return t
}
