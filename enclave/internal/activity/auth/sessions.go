// Package auth has the activities by which users log in: by a stamp, a passcode, an identity token or a mailed key. It
// also has session profiles and the auth proxy, which submits activities for people who have no key yet. The formats
// of tokens and passcodes are in package login.
package auth

import (
	"cmp"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/user"
	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/secret"
)

// Sessions are the kinds that start a session by a stamp.
var Sessions = activity.Family{
	activity.Kind[StampLogin, LoginSession]{
		Name: "STAMP_LOGIN", Resource: "AUTH", Action: "CREATE", ByCredential: true, Attested: true, Run: stampLogin,
		Explain: func(tx *org.Tx, in *StampLogin, o *show.Object) error { return in.explain(tx, o) },
		Params:  (*StampLogin).params,
		Self:    func(*StampLogin) string { return "" },
	},
	activity.Kind[activity.Nothing, ReadOnlySession]{
		Name: "CREATE_READ_ONLY_SESSION", Resource: "AUTH", Action: "CREATE", ByCredential: true, Run: createReadOnlySession,
		Self: func(*activity.Nothing) string { return "" },
	},
	activity.Kind[CreateReadWriteSession, ReadWriteSession]{
		Name: "CREATE_READ_WRITE_SESSION", Resource: "AUTH", Action: "CREATE", Run: createReadWriteSession, Results: []int{2},
		Explain: func(tx *org.Tx, in *CreateReadWriteSession, o *show.Object) error { return in.explain(tx, o) },
		Older: []activity.Older{activity.Upgrade(func(v *CreateReadWriteSessionV1) CreateReadWriteSession {
			return CreateReadWriteSession{TargetPublicKey: v.TargetPublicKey, email: v.Email, SealedSession: SealedSession{APIKeyName: v.APIKeyName, ExpirationSeconds: v.ExpirationSeconds}}
		})},
		FillPolicyRequest: ownSession,
	},
}

// Types of session keys.
const (
	typeLogin     = "CREDENTIAL_TYPE_LOGIN"
	typeReadWrite = "CREDENTIAL_TYPE_READ_WRITE_SESSION_KEY_P256"
)

// Default lifetimes of sessions in seconds.
const (
	usualSessionSeconds = 900
	readOnlySeconds     = 60 * 60
)

// sessionSeconds parses the requested lifetime, 0 if absent.
func sessionSeconds(field string, text *string) (uint64, error) {
	return activity.ParseSeconds(field, text, 0, maxSessionSeconds)
}

// StampLogin starts a session of the submitter: a key of the client stamps for the user until the session ends.
type StampLogin struct {
	PublicKey string `json:"publicKey" rule:"omitempty,hexadecimal"`
	LoginTerms

	initiator org.ID // see SetInitiator
}

func (in *StampLogin) Check() error { return in.read(in.PublicKey) }

// LoginSession is the result of a log-in: a token that describes the session. The token authenticates nothing; the
// session's key does.
type LoginSession struct {
	Session string `json:"session"`
}

func stampLogin(tx *activity.Tx, in *StampLogin) (*LoginSession, error) {
	u, err := tx.Tx.User(tx.User)
	if err != nil {
		return nil, err
	}
	if u == nil {
		return nil, activity.NotFound("user", tx.User.String())
	}
	if t := tx.Stamped.Type; t == activity.TypeMailbox || t == activity.TypePhone {
		if u, err = useLoginToken(tx, u); err != nil {
			return nil, err
		}
	}
	return in.logIn(tx, u)
}

// LoginTerms are a client's terms for a session by its own key.
type LoginTerms struct {
	ExpirationSeconds  *string `json:"expirationSeconds"`
	InvalidateExisting *bool   `json:"invalidateExisting"` // the user's other sessions end
	SessionProfileID   *string `json:"sessionProfileId"`

	public  login.PublicKey
	seconds uint64 // 0: the default
	profile org.ID // zero: the profile of the stamping session, if it has one
}

func (l *LoginTerms) read(public string) (err error) {
	if l.public, err = login.ParsePublicKey("publicKey", public); err != nil {
		return err
	}
	if l.seconds, err = sessionSeconds("expirationSeconds", l.ExpirationSeconds); err != nil {
		return err
	}
	if text := activity.TextOf(l.SessionProfileID); text != "" {
		l.profile, err = activity.ParseID("sessionProfileId", text)
	}
	return err
}

// params are the members of a log-in that policies read.
func (l *LoginTerms) params() policy.Value {
	return activity.Param("session_profile_id", policy.LowerHex(activity.TextOf(l.SessionProfileID)))
}

// logIn gives u the session.
func (l *LoginTerms) logIn(tx *activity.Tx, u *org.User) (*LoginSession, error) {
	s := &newSession{
		name: "Session", public: l.public.String(), typ: typeLogin, seconds: l.seconds, asked: l.profile, alone: activity.IsOn(l.InvalidateExisting),
	}
	added, err := s.addSessionKey(tx, u)
	if err != nil {
		return nil, err
	}
	t := &login.Session{
		ExpiresMs: tx.NowMs + 1000*added.ExpirationSeconds, PublicKey: added.PublicKey, Type: login.ReadWrite,
		UserID: u.ID.String(), OrganizationID: tx.ID.String(),
	}
	if p := s.profile; p != nil {
		t.Type, t.ProfileID, t.Scope = p.Name, p.ID.String(), p.Scope
	}
	text, err := login.IssueSession(tx.Sessions, t)
	if err != nil && s.profile != nil { // only its name and scope have no limit of their own
		return nil, fault.Field("sessionProfileId", "the session profile's scope is too long for the token of a session")
	}
	return &LoginSession{text}, err
}

// sessionProfile returns the profile that restricts a new session, or nil. A session with a profile starts only sessions
// with the same profile.
func sessionProfile(tx *activity.Tx, asked org.ID) (*org.SessionProfile, error) {
	if bound := tx.Stamped.Profile; !bound.Zero() {
		if !asked.Zero() && asked != bound {
			return nil, fault.Field("sessionProfileId", "a session with a profile starts sessions of the same profile only: %s", bound)
		}
		asked = bound
	}
	if asked.Zero() {
		return nil, nil
	}
	top, err := tx.Top()
	if err != nil {
		return nil, err
	}
	p, err := top.SessionProfile(asked)
	return activity.OrNotFound(p, err, "session profile", asked.String())
}

// newSession is an expiring key to be given to a user.
type newSession struct {
	name, public, typ string
	seconds           uint64 // requested, or 0
	asked             org.ID // the requested profile, or zero
	alone             bool   // remove the user's other keys of its type

	profile *org.SessionProfile // the profile of the session, set by give; nil for none
}

// life returns the lifetime: the shorter of the requested one and the profile's, or the default if neither is set.
func (s *newSession) life() uint64 {
	if s.profile == nil || s.profile.Seconds == 0 {
		return cmp.Or(s.seconds, usualSessionSeconds)
	}
	return min(cmp.Or(s.seconds, s.profile.Seconds), s.profile.Seconds)
}

// addSessionKey stores the user with the session's key. A key that is a session of the user already is renewed. If the
// user has too many expiring keys, an expired one is removed, or else the oldest.
func (s *newSession) addSessionKey(tx *activity.Tx, old *org.User) (k *org.APIKey, err error) {
	if s.profile, err = sessionProfile(tx, s.asked); err != nil {
		return nil, err
	}
	u := *old
	u.APIKeys = make([]org.APIKey, 0, len(old.APIKeys)+1)
	for i := range old.APIKeys {
		k := &old.APIKeys[i]
		switch {
		case k.Type != s.typ || !s.alone && k.PublicKey != s.public:
			u.APIKeys = append(u.APIKeys, *k)
		case k.PublicKey == s.public: // its IP allowlist remains
			tx.DeleteCredential(org.KeyCurve(k.Type), k.PublicKey)
		default:
			if err := user.ForgetKey(tx, k); err != nil {
				return nil, err
			}
		}
	}
	held, err := user.IsKey(tx, s.public)
	if err != nil {
		return nil, err
	}
	if held {
		return nil, fault.Field("publicKey", "public key must be unique in the organization")
	}
	id, err := org.NewID(tx.Rand)
	if err != nil {
		return nil, err
	}
	k = &org.APIKey{ID: id, Name: s.name, PublicKey: s.public, Type: s.typ, CreatedMs: tx.NowMs, UpdatedMs: tx.NowMs, ExpirationSeconds: s.life()}
	if s.profile != nil {
		k.Profile = s.profile.ID
	}
	u.APIKeys = append(u.APIKeys, *k)
	if s.alone && s.typ != TypeRecovery { // a recovery does not request the end of sessions
		u.NotBeforeMs = tx.NowMs
	}
	if err := tx.PutCredential(org.KeyCurve(k.Type), k.PublicKey, &org.Credential{User: u.ID, Key: id}); err != nil {
		return nil, err
	}
	if err := user.LimitAPIKeys(tx, &u, 1); err != nil {
		return nil, err
	}
	u.UpdatedMs = tx.NowMs
	return k, tx.PutUser(&u)
}

// ReadOnlySession is a bearer token for reading without a stamp, with its expiry in seconds since 1970.
type ReadOnlySession struct {
	OrganizationID   string `json:"organizationId"`
	OrganizationName string `json:"organizationName"`
	UserID           string `json:"userId"`
	Username         string `json:"username"`
	Session          string `json:"session"`
	SessionExpiry    uint64 `json:"sessionExpiry"`
}

// createReadOnlySession binds the token to the stamping credential: the token ends when that is deleted or expires.
func createReadOnlySession(tx *activity.Tx, _ *activity.Nothing) (*ReadOnlySession, error) {
	o, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	u, err := tx.Tx.User(tx.User)
	if err != nil {
		return nil, err
	}
	key, a := CredentialOf(u, tx.Stamped.PublicKey, tx.NowMs)
	if key == nil && a == nil {
		return nil, fault.New(fault.FailedPrecondition, "the credential that asked for the session is gone")
	}
	ends := tx.NowMs + 1000*readOnlySeconds
	if key != nil && key.ExpirationSeconds != 0 {
		ends = min(ends, key.CreatedMs+1000*key.ExpirationSeconds)
	}
	text, err := login.IssueSession(tx.Sessions, &login.Session{
		ExpiresMs: ends, PublicKey: tx.Stamped.PublicKey, Type: login.ReadOnly, UserID: u.ID.String(), OrganizationID: tx.ID.String(),
	})
	return &ReadOnlySession{
		OrganizationID: tx.ID.String(), OrganizationName: o.Name, UserID: u.ID.String(), Username: u.Name, Session: text, SessionExpiry: ends / 1000,
	}, err
}

// CredentialOf finds the credential of u with this public key that has not expired: an API or session key, or
// a passkey, or neither. u may be nil.
func CredentialOf(u *org.User, public string, nowMs uint64) (*org.APIKey, *org.Authenticator) {
	if u == nil {
		return nil, nil
	}
	for i := range u.APIKeys {
		if k := &u.APIKeys[i]; k.PublicKey == public && !k.Expired(nowMs) {
			return k, nil
		}
	}
	for i := range u.Authenticators {
		if a := &u.Authenticators[i]; activity.PasskeyCredential(a).PublicKey == public {
			return nil, a
		}
	}
	return nil, nil
}

// CreateReadWriteSessionV1 names a user by e-mail address.
type CreateReadWriteSessionV1 struct {
	TargetPublicKey   string  `json:"targetPublicKey" rule:"required"`
	Email             string  `json:"email" rule:"required,email,email_ext"`
	APIKeyName        *string `json:"apiKeyName" rule:"omitempty,label_length,label"`
	ExpirationSeconds *string `json:"expirationSeconds"`
}

// CreateReadWriteSession starts a session by a key that is created in the enclave and returned encrypted. Without
// userId it is a session of the submitter.
type CreateReadWriteSession struct {
	TargetPublicKey string  `json:"targetPublicKey" rule:"required"`
	UserID          *string `json:"userId" rule:"omitempty,uuid"`
	SealedSession

	email     string // of version 1, which has no userId
	initiator org.ID // see SetInitiator
}

func (in *CreateReadWriteSession) Check() error { return in.read(in.TargetPublicKey) }

// sessionUser returns the user that the intent names. An address that several users have is refused.
func (in *CreateReadWriteSession) sessionUser(tx *org.Tx, asks org.ID) (u *org.User, err error) {
	id := asks
	switch text := activity.TextOf(in.UserID); {
	case in.email != "":
		u, several, err := user.ContactHolder(tx, login.Email, in.email)
		switch {
		case several:
			err = fault.Field("email", "more than one user has this email address")
		case u == nil && err == nil:
			err = activity.NotFound("user with email", in.email)
		}
		return u, err
	case text != "":
		id, _ = org.ParseID(text) // its rule requires a UUID
	}
	if u, err = tx.User(id); err == nil && u == nil {
		err = activity.NotFound("user", id.String())
	}
	return u, err
}

// ownSession sets SelfService in the policy request if the submitter requests a session of his own.
func ownSession(tx *org.Tx, in *CreateReadWriteSession, q *policy.Request) error {
	u, err := in.sessionUser(tx, q.Initiator)
	if fault.Of(err) != nil {
		return nil // Run returns the error to those who may act for others
	}
	q.SelfService = err == nil && u.ID == org.ID(q.Initiator)
	return err
}

// ReadWriteSession is the result: a private key for the client, encrypted.
type ReadWriteSession struct {
	OrganizationID   string `json:"organizationId"`
	OrganizationName string `json:"organizationName"`
	UserID           string `json:"userId"`
	Username         string `json:"username"`
	APIKeyID         string `json:"apiKeyId"`
	CredentialBundle string `json:"credentialBundle"`
}

func createReadWriteSession(tx *activity.Tx, in *CreateReadWriteSession) (*ReadWriteSession, error) {
	o, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	u, err := in.sessionUser(tx.Tx, tx.User)
	if err != nil {
		return nil, err
	}
	k, err := in.open(tx, u, "Read write session", typeReadWrite)
	if err != nil {
		return nil, err
	}
	return &ReadWriteSession{
		OrganizationID: tx.ID.String(), OrganizationName: o.Name, UserID: k.UserID, Username: u.Name, APIKeyID: k.APIKeyID, CredentialBundle: k.CredentialBundle,
	}, nil
}

// SealedSession are the terms of a session whose key is created in the enclave.
type SealedSession struct {
	APIKeyName         *string `json:"apiKeyName" rule:"omitempty,label_length,label"`
	ExpirationSeconds  *string `json:"expirationSeconds"`
	InvalidateExisting *bool   `json:"invalidateExisting"`

	to      bundle.PublicKey
	seconds uint64
}

func (s *SealedSession) read(target string) (err error) {
	if s.to, err = bundle.ParsePublicKey("targetPublicKey", target); err != nil {
		return err
	}
	s.seconds, err = sessionSeconds("expirationSeconds", s.ExpirationSeconds)
	return err
}

// SessionKey is a session key that was created in the enclave, its private half encrypted to the client.
type SessionKey struct {
	UserID           string `json:"userId"`
	APIKeyID         string `json:"apiKeyId"`
	CredentialBundle string `json:"credentialBundle"`
}

// open gives u a session with a key created in the enclave; name is the default for intents without one.
func (s *SealedSession) open(tx *activity.Tx, u *org.User, name, typ string) (*SessionKey, error) {
	k, text, err := sealedKey(tx, u, s.to, &newSession{
		name: cmp.Or(activity.TextOf(s.APIKeyName), name), typ: typ, seconds: s.seconds, alone: activity.IsOn(s.InvalidateExisting),
	})
	if err != nil {
		return nil, err
	}
	return &SessionKey{u.ID.String(), k.ID.String(), text}, nil
}

// sealedKey creates a session key in the enclave and gives it to u. The private half leaves encrypted and is not stored.
func sealedKey(tx *activity.Tx, u *org.User, to bundle.PublicKey, s *newSession) (*org.APIKey, string, error) {
	private, err := bundle.NewPrivateKey(tx.Rand)
	if err != nil {
		return nil, "", err
	}
	defer private.Wipe()
	if s.public, err = publicHalf(private); err != nil {
		return nil, "", err
	}
	text, err := bundle.SealCompact(to, private)
	if err != nil {
		return nil, "", err
	}
	k, err := s.addSessionKey(tx, u)
	return k, text, err
}

// publicHalf returns the public key of a private one, encoded as in stamps.
func publicHalf(private secret.Secret) (string, error) {
	pair, err := login.NewSigner(private)
	if err != nil {
		return "", err
	}
	return pair.Public().String(), nil
}
