// Package activity is everything that can be asked of an organization.
//
// A kind is a thing that can be asked for, in all its versions; a version is one
// activity type on the wire. Each kind is declared in one line of its family's
// file: its name, what policies call it, the function that runs it against the
// newest intent, and how older versions are carried up to that. What follows
// from the name (types, members, path) is not written down. kinds.go lists the
// families.
//
// It promises that an intent reaches a kind's function only decoded strictly
// and checked, that a function which answers an error has no effect (the caller
// drops its Tx) but what it has said must last, that secrets are stored only
// sealed by the Vault and leave only encrypted, and that nothing is signed or
// exported without the Tx's Grant. Nothing here reads a clock, draws
// randomness or talks to anybody except through what the Tx holds.
package activity

import (
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/strictjson"
)

// Vault seals and opens the secrets of one organization under the id of what
// owns them. A sealed secret opens under that id only.
type Vault interface {
	Seal(owner org.ID, s secret.Secret) ([]byte, error)
	keys.Vault
}

// KeyID names a key in the cache: account No of a wallet, or with No 0 a
// private key.
type KeyID struct {
	Organization, Owner org.ID
	No                  uint64
}

// Tx is what an activity may touch while it runs.
type Tx struct {
	*org.Tx       // records of the organization; ID, NowMs
	Vault   Vault // of the organization
	// Limits are how many things there may be; Run takes none that is below what is
	// documented.
	Limits org.Limits
	Rand   io.Reader // the enclave's randomness
	// Keys holds derived account keys.
	Keys     *keys.Cache[KeyID]
	User     org.ID // who submitted
	Activity org.ID
	// Parent is the organization above a sub-organization, when the step holds it
	// too. Nil in a top-level organization; use Above.
	Parent *org.Tx
	Grant  *policy.Grant
	// Grantor is the organization that gave the Grant, where that is another than the
	// one whose records these are: the one that makes it.
	Grantor org.ID
	// WantsProofs asks that Claims be gathered.
	WantsProofs bool
	Claims      []Claim
	// NewOrganization starts a sub-organization in the same step: a Tx of its
	// own, on an empty state, with a Vault of its own and an id not used before.
	// Nil where a step may not span organizations.
	NewOrganization func() (*Tx, error)
	// Bundles signs what leaves encrypted, and the keys that imports are encrypted
	// to.
	Bundles *bundle.Signer
	Boot    org.ID // of this run of the enclave, drawn at its start
	// Sessions signs the tokens of sessions.
	Sessions *login.Signer
	// Tokens and LegacyTokens sign verification tokens of the two forms,
	// PasscodeTargets the keys to which passcodes are encrypted.
	Tokens, LegacyTokens *login.Signer
	PasscodeTargets      *bundle.Signer
	// Outside is what mails and text messages go out by.
	Outside Outside
	// Providers is what can be learnt from identity providers, and Roles are keys of
	// the enclave. Either is nil where nothing needs it.
	Providers Providers
	Roles     *Roles
	// Verification is the verified token that vouched for who submitted, nil without
	// one.
	Verification *login.VerificationToken
	// Stamped is the credential with which the activity was submitted.
	Stamped org.VoteCredential
	// Sends go out once the activity's entry, which will stand at Seq, is stored.
	Sends []org.Send
	Seq   uint64
	// Loopback tells that webhooks may go to this machine's own receivers.
	Loopback bool

	lasting []func(*org.Tx)
}

// holder is the activity, to keys.
func (t *Tx) holder() *keys.Holder {
	h := &keys.Holder{Grant: t.Grant, Organization: t.ID, Activity: t.Activity, Vault: t.Vault}
	if !t.Grantor.Zero() {
		h.Organization = t.Grantor
	}
	return h
}

// Lasting makes a change that stays even if the activity is refused after it: that
// something which may happen once has happened.
func (t *Tx) Lasting(change func(*org.Tx)) {
	change(t.Tx)
	t.lasting = append(t.lasting, change)
}

// Remains puts what lasts of a refused activity into a new change, and tells
// whether that is anything.
func (t *Tx) Remains(into *org.Tx) bool {
	for _, change := range t.lasting {
		change(into)
	}
	return len(t.lasting) > 0
}

// ErrNeedsParent asks that the activity be run again with Tx.Parent set: the
// parent must be locked before its child, so it cannot be fetched half way.
var ErrNeedsParent error = &org.Missing{Parent: true}

// Above returns the parent's records, nil in a top-level organization. The error
// ErrNeedsParent must be handed up.
func (t *Tx) Above() (*org.Tx, error) {
	o, err := t.Organization()
	if err != nil || o == nil || o.Parent.Zero() {
		return nil, err
	}
	if t.Parent == nil {
		return nil, ErrNeedsParent
	}
	return t.Parent, nil
}

// A Claim is what an app proof can say of an activity: one of its members is set.
type Claim struct {
	Address   *AddressClaim
	Signature *SignatureClaim
}

// AddressClaim says that an address was derived in the enclave. WalletID and
// Path are empty for a private key's. Organization is not that of the activity
// when that made a sub-organization.
type AddressClaim struct {
	Organization            org.ID
	WalletID, Path, Address string
}

// SignatureClaim says that a key signed. The digests are lower-case hex, in the
// order of the signatures: what ECDSA signed, or the SHA-256 of what ed25519
// signed. PublicKey is lower-case hex, compressed.
type SignatureClaim struct {
	PublicKey string
	Digests   []string
}

// Kind is a thing that can be asked for, in all its versions.
type Kind struct {
	Name     string // as in ACTIVITY_TYPE_<Name>, without a version
	Op       string // the last segment of its path
	Resource string // policy resource, such as WALLET
	Action   string // policy action, such as CREATE

	// RootQuorum tells that no policy can grant the kind.
	RootQuorum bool
	// Vote tells that the kind is a yes or no to another activity.
	Vote bool
	// ByCredential tells that a request may name the parent of the organization that
	// it is for, which is then the one that knows the credential.
	ByCredential bool
	// FromAbove tells that a user of the parent may ask for it in a sub-organization,
	// as the parent's policies decide.
	FromAbove bool
	// Attested tells that a stamp will do for it that no key of the user's has made: a
	// token vouches for who he is.
	Attested bool

	versions []*Version
	run      func(*Tx, any) (any, error)
	params   func(any) policy.Value
	examine  func(*org.Tx, any) error
	ask      func(*org.Tx, any, *policy.Request) error
	facts    func(*org.Tx, any) (policy.Facts, error)
	keys     func(*org.Tx, any) ([]policy.Key, error)
	self     func(any) string
	only     func(any) string
	need     func(*org.Tx, any) (*ChainNeed, error)
}

// Version is one activity type of a kind.
type Version struct {
	Type      string // ACTIVITY_TYPE_…
	IntentKey string // member of an activity's intent, such as createWalletIntent
	ResultKey string // member of its result
	Kind      *Kind

	number int
	decode func(params []byte) (*Intent, error)
	narrow func(any) any // from the newest result to this version's; nil: the same
	intent reflect.Type
	result reflect.Type
	secret bool
}

// Secret tells that bodies of the type hold in clear what is good for one use, such
// as a passcode: whoever reads the activity later is shown neither that nor the body.
func (v *Version) Secret() bool { return v.secret }

// Intent is a decoded and checked `parameters` object.
type Intent struct {
	// WantsProofs is generateAppProofs inside of `parameters`.
	WantsProofs bool

	sent   any // the version's own shape
	newest any // what the kind's function takes
}

// Decode reads `parameters`, strictly. The errors are *fault.Error.
func (v *Version) Decode(params []byte) (*Intent, error) { return v.decode(params) }

// AppendIntent writes an activity's intent object as it was sent, without the
// options that were not set. What is good for one use is masked: those who may read
// the activity are more than the one who was given it, and the activity may still
// wait for votes. The fingerprint stays that of the body.
func (v *Version) AppendIntent(dst []byte, in *Intent) []byte {
	dst = append(append(append(dst, `{"`...), v.IntentKey...), `":`...)
	if v.secret {
		return append(strictjson.AppendMasked(dst, in.sent), '}')
	}
	return append(appendShape(dst, in.sent), '}')
}

// Run executes the activity and returns its result object. An error means that
// nothing happened and the Tx must be dropped: a *fault.Error is the activity's
// failure, an *org.Missing wants a piece loaded and the activity run again with
// another Grant, any other is internal.
func (v *Version) Run(tx *Tx, in *Intent) ([]byte, error) {
	tx.Limits = tx.Limits.WithDefaults()
	r, err := v.Kind.run(tx, in.newest)
	if err == nil {
		err = tx.stayBounded()
	}
	if err == nil {
		err = tx.link()
	}
	if err != nil {
		return nil, err
	}
	if v.narrow != nil {
		r = v.narrow(r)
	}
	dst := make([]byte, 0, 256)
	dst = append(append(append(dst, `{"`...), v.ResultKey...), `":`...)
	return append(appendShape(dst, r), '}'), nil
}

// appender is a shape that writes itself, where the general way is too slow.
type appender interface{ appendJSON([]byte) []byte }

func appendShape(dst []byte, shape any) []byte {
	if a, ok := shape.(appender); ok {
		return a.appendJSON(dst)
	}
	return strictjson.Append(dst, shape)
}

// checker is an intent with demands that its rules cannot express. What it
// refuses is refused before there is an activity.
type checker interface{ check() error }

// kind declares a kind: I is its newest intent, R its newest result.
func kind[I, R any](name, resource, action string, run func(*Tx, *I) (*R, error), olders ...older) *Kind {
	k := &Kind{Name: name, Op: operationName(name), Resource: resource, Action: action}
	k.run = func(tx *Tx, in any) (any, error) {
		r, err := run(tx, in.(*I))
		if err != nil {
			return nil, err // never a typed nil
		}
		return r, nil
	}
	newest := was(len(olders)+1, func(in *I) I { return *in })
	newest.decode = decoder(func(in *I) *I { return in })
	for i, o := range append(olders, newest) {
		if o.number != i+1 || o.carries != reflect.TypeFor[I]() {
			panic("activity: version " + strconv.Itoa(i+1) + " of " + name + " is missing or not carried up")
		}
		if o.result == nil {
			o.result = reflect.TypeFor[R]()
		}
		suffix := versionSuffix(o.number)
		typ := "ACTIVITY_TYPE_" + name
		if o.number > 1 {
			typ += "_" + suffix
		}
		k.versions = append(k.versions, &Version{
			Type: typ, IntentKey: camel(name) + "Intent" + suffix, ResultKey: camel(name) + "Result", Kind: k,
			number: o.number, decode: o.decode, narrow: o.narrow, intent: o.intent, result: o.result, secret: strictjson.Masks(o.intent),
		})
		strictjson.Prepare(reflect.New(o.intent).Interface(), reflect.New(o.result).Interface())
	}
	return k
}

// rootQuorum declares that only the root quorum decides about the kind.
func (k *Kind) rootQuorum() *Kind {
	k.RootQuorum = true
	return k
}

// byCredential declares that the organization is found by the credential where its
// parent is named.
func (k *Kind) byCredential() *Kind {
	k.ByCredential = true
	return k
}

// fromAbove declares that a user of the parent may ask for the kind. Tx.User is then
// of Tx.Parent, and whom it is about the intent says.
func (k *Kind) fromAbove() *Kind {
	k.FromAbove = true
	return k
}

// attested declares that a token may vouch for who asks.
func (k *Kind) attested() *Kind {
	k.Attested = true
	return k
}

// showing declares activity.params of the kind, a policy.Struct with the members
// that policies may read.
func showing[I any](k *Kind, params func(*I) policy.Value) *Kind {
	k.params = func(in any) policy.Value { return params(in.(*I)) }
	return k
}

// reading declares the roots that policies may read of what the kind is about:
// wallet, wallet_account, private_key and so on. What does not exist has no root.
func reading[I any](k *Kind, facts func(*org.Tx, *I) (policy.Facts, error)) *Kind {
	k.facts = func(tx *org.Tx, in any) (policy.Facts, error) { return facts(tx, in.(*I)) }
	return k
}

// using declares the stored keys that the kind uses, for which the Grant is then good.
// Those of what does not exist are left out: the activity will say so.
func using[I any](k *Kind, ks func(*org.Tx, *I) ([]policy.Key, error)) *Kind {
	k.keys = func(tx *org.Tx, in any) ([]policy.Key, error) { return ks(tx, in.(*I)) }
	return k
}

// examining declares what is looked at before anybody decides, the root quorum
// included: a *fault.Error refuses the request, and there is no activity.
func examining[I any](k *Kind, examine func(*org.Tx, *I) error) *Kind {
	k.examine = func(tx *org.Tx, in any) error { return examine(tx, in.(*I)) }
	return k
}

// asking declares how the question to the policies is completed, where reading is
// not enough: with facts of what is signed, once for each payload if need be.
func asking[I any](k *Kind, ask func(*org.Tx, *I, *policy.Request) error) *Kind {
	k.ask = func(tx *org.Tx, in any, q *policy.Request) error { return ask(tx, in.(*I), q) }
	return k
}

// ownAllowed declares that users may do this to themselves unless a policy says
// something: user answers the id that the intent names, or nothing where it is
// always about who asks.
func ownAllowed[I any](k *Kind, user func(*I) string) *Kind {
	k.self = func(in any) string { return user(in.(*I)) }
	return k
}

// ownOnly declares that nobody may do this for somebody else, the root quorum
// neither: user answers the id that the intent names.
func ownOnly[I any](k *Kind, user func(*I) string) *Kind {
	k.only = func(in any) string { return user(in.(*I)) }
	return k
}

// results names the versions of the result object, if there are more than the
// first: a type answers with the highest that is not above its own.
func (k *Kind) results(numbers ...int) *Kind {
	for _, v := range k.versions {
		for _, n := range numbers {
			if n <= v.number {
				v.ResultKey = camel(k.Name) + "Result" + versionSuffix(n)
			}
		}
	}
	return k
}

// result names the result object of a version where that does not follow.
func (k *Kind) result(number int, key string) *Kind {
	k.versions[number-1].ResultKey = key
	return k
}

// older is a version that is carried up to the newest.
type older struct {
	number                  int
	intent, carries, result reflect.Type
	decode                  func([]byte) (*Intent, error)
	narrow                  func(any) any
}

// was declares version number of a kind: its shape, and how it is carried up.
func was[O, I any](number int, carry func(*O) I) older {
	return older{
		number: number, intent: reflect.TypeFor[O](), carries: reflect.TypeFor[I](),
		decode: decoder(func(o *O) *I {
			in := carry(o)
			return &in
		}),
	}
}

// answering declares that the version's result has another shape.
func answering[R, S any](o older, narrow func(*R) *S) older {
	o.result = reflect.TypeFor[S]()
	o.narrow = func(r any) any { return narrow(r.(*R)) }
	return o
}

func decoder[O, I any](carry func(*O) *I) func([]byte) (*Intent, error) {
	return func(params []byte) (*Intent, error) {
		sent, in := new(O), new(Intent)
		if err := strictjson.Decode(params, sent, strictjson.Also("generateAppProofs", &in.WantsProofs)); err != nil {
			return nil, documented(err)
		}
		newest := carry(sent)
		in.sent, in.newest = sent, newest
		if c, ok := any(newest).(checker); ok {
			if err := c.check(); err != nil {
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

// camel turns CREATE_WALLET into createWallet.
func camel(name string) string {
	words := strings.Split(strings.ToLower(name), "_")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// index finds versions by their type. A type listed twice is an error of the
// program.
func index(families ...[]*Kind) map[string]*Version {
	m := map[string]*Version{}
	for _, f := range families {
		for _, k := range f {
			for _, v := range k.versions {
				if m[v.Type] != nil || operationOf[v.Type] != k.Op {
					panic(fmt.Sprintf("activity: %s listed twice or unknown", v.Type))
				}
				m[v.Type] = v
			}
		}
	}
	return m
}
