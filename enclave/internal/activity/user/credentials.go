package user

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// APIKeys are the kinds about API keys.
var APIKeys = activity.Family{
	activity.Kind[CreateAPIKeys, APIKeyIDs]{
		Name: "CREATE_API_KEYS", Resource: "CREDENTIAL", Action: "CREATE", Run: createAPIKeys,
		Explain: func(tx *org.Tx, in *CreateAPIKeys, o *show.Object) error { return in.explain(tx, o) },
		Older:   []activity.Older{activity.Upgrade(func(v *CreateAPIKeysV1) CreateAPIKeys { return CreateAPIKeys{CarryKeys(v.APIKeys), v.UserID} })},
		Params:  func(in *CreateAPIKeys) policy.Value { return activity.Param("user_id", policy.LowerHex(in.UserID)) },
		Self:    func(in *CreateAPIKeys) string { return in.UserID },
	},
	activity.Kind[DeleteAPIKeys, APIKeyIDs]{
		Name: "DELETE_API_KEYS", Resource: "CREDENTIAL", Action: "DELETE", Run: deleteAPIKeys,
		Explain: func(tx *org.Tx, in *DeleteAPIKeys, o *show.Object) error { return in.explain(tx, o) },
		Params: func(in *DeleteAPIKeys) policy.Value {
			return policy.Struct(policy.Member{Name: "user_id", Value: policy.LowerHex(in.UserID)},
				policy.Member{Name: "api_key_ids", Value: policy.IDs(in.APIKeyIDs)})
		},
		Self: func(in *DeleteAPIKeys) string { return in.UserID },
	},
}

// APIKeyCurve is the curve of an API key.
type APIKeyCurve string

// apiKeyCurves are the credential type and the encoding of the keys on each curve.
var apiKeyCurves = map[APIKeyCurve]struct {
	curve      chain.Curve
	size       int // bytes of a public key
	credential string
}{
	"API_KEY_CURVE_P256":      {chain.P256, 33, TypeP256Key},
	"API_KEY_CURVE_SECP256K1": {chain.Secp256k1, 33, "CREDENTIAL_TYPE_API_KEY_SECP256K1"},
	"API_KEY_CURVE_ED25519":   {chain.Ed25519, 32, "CREDENTIAL_TYPE_API_KEY_ED25519"},
}

// Curves are those of API keys.
func Curves() []APIKeyCurve {
	return []APIKeyCurve{CurveP256, "API_KEY_CURVE_SECP256K1", "API_KEY_CURVE_ED25519"}
}

// CurveP256 is the curve of the keys that the enclave creates.
const CurveP256 APIKeyCurve = "API_KEY_CURVE_P256"

// TypeP256Key is the credential type of a key on CurveP256.
const TypeP256Key = "CREDENTIAL_TYPE_API_KEY_P256"

// Valid reports whether c is a curve of the interface.
func (c APIKeyCurve) Valid() bool { return apiKeyCurves[c].size != 0 }

// APIKeyParamsV1 is an API key in versions without curves.
type APIKeyParamsV1 struct {
	APIKeyName        string  `json:"apiKeyName" rule:"required,label_length,label"`
	PublicKey         string  `json:"publicKey" rule:"required,hexadecimal,len=66"`
	ExpirationSeconds *string `json:"expirationSeconds"`
}

// APIKeyParams is an API key to be created.
type APIKeyParams struct {
	APIKeyName        string      `json:"apiKeyName" rule:"required,label_length,label"`
	PublicKey         string      `json:"publicKey" rule:"required,hexadecimal,api_key"`
	CurveType         APIKeyCurve `json:"curveType" rule:"required"`
	ExpirationSeconds *string     `json:"expirationSeconds"`
}

// CarryKeys converts API keys of older versions.
func CarryKeys(olds []APIKeyParamsV1) []APIKeyParams {
	return activity.MapList(olds, func(o *APIKeyParamsV1) APIKeyParams {
		return APIKeyParams{o.APIKeyName, o.PublicKey, CurveP256, o.ExpirationSeconds}
	})
}

// maxExpirationSeconds, some 100,000 years, keeps the sum with a time in milliseconds in range.
const maxExpirationSeconds = 1 << 42

// seconds returns the key's lifetime, 0 for unlimited.
func (p *APIKeyParams) seconds() (uint64, bool) {
	if p.ExpirationSeconds == nil {
		return 0, true
	}
	n, err := strconv.ParseUint(*p.ExpirationSeconds, 10, 64)
	return n, err == nil && n > 0 && n <= maxExpirationSeconds
}

// CheckAt refuses a public key that is not on its curve.
func (p *APIKeyParams) CheckAt(path string) error {
	c := apiKeyCurves[p.CurveType]
	b, err := hex.DecodeString(p.PublicKey)
	if err == nil && len(b) == c.size {
		_, err = chain.NewPublicKey(c.curve, b)
	}
	if err != nil || len(b) != c.size {
		return fault.Field(path+".publicKey", "invalid api key: no public key on this curve")
	}
	if _, ok := p.seconds(); !ok {
		return fault.Field(path+".expirationSeconds", "invalid api key expiration")
	}
	return nil
}

func checkAPIKeys(path string, ps []APIKeyParams) error {
	for i := range ps {
		if err := ps[i].CheckAt(fmt.Sprintf("%sapiKeys.%d", path, i)); err != nil {
			return err
		}
	}
	return nil
}

// CreateAPIKeysV1 is version 1 of the intent, without curves.
type CreateAPIKeysV1 struct {
	APIKeys []APIKeyParamsV1 `json:"apiKeys" rule:"dive,required"`
	UserID  string           `json:"userId" rule:"required,uuid"`
}

// CreateAPIKeys gives a user API keys.
type CreateAPIKeys struct {
	APIKeys []APIKeyParams `json:"apiKeys" rule:"dive,required"`
	UserID  string         `json:"userId" rule:"required,uuid"`
}

func (in *CreateAPIKeys) Check() error { return checkAPIKeys("", in.APIKeys) }

// APIKeyIDs is the result of creating and of deleting API keys.
type APIKeyIDs struct {
	APIKeyIDs []string `json:"apiKeyIds"`
}

func createAPIKeys(tx *activity.Tx, in *CreateAPIKeys) (*APIKeyIDs, error) {
	r := new(APIKeyIDs)
	_, err := Change(tx, in.UserID, func(u *org.User) (err error) {
		r.APIKeyIDs, err = addAPIKeys(tx, u, "", in.APIKeys)
		return err
	})
	return r, err
}

// IsKey reports whether a text is a public key of the organization on any curve. No text may be a key on two curves:
// allowlists name keys by their text.
func IsKey(tx *activity.Tx, public string) (bool, error) {
	for _, curve := range Curves() {
		c, err := tx.Credential(string(curve), public)
		if c != nil || err != nil {
			return c != nil, err
		}
	}
	return false, nil
}

// addAPIKeys gives u, which the caller stores, more API keys.
func addAPIKeys(tx *activity.Tx, u *org.User, path string, ps []APIKeyParams) ([]string, error) {
	ids := make([]string, len(ps))
	for i := range ps {
		p := &ps[i]
		public := strings.ToLower(p.PublicKey)
		held, err := IsKey(tx, public)
		if err != nil {
			return nil, err
		}
		if held {
			return nil, fault.Field(fmt.Sprintf("%sapiKeys.%d.publicKey", path, i), "api key public key must be unique in the organization")
		}
		id, err := org.NewID(tx.Rand)
		if err != nil {
			return nil, err
		}
		seconds, _ := p.seconds()
		u.APIKeys = append(u.APIKeys, org.APIKey{
			ID: id, Name: p.APIKeyName, PublicKey: public, Type: apiKeyCurves[p.CurveType].credential,
			CreatedMs: tx.NowMs, UpdatedMs: tx.NowMs, ExpirationSeconds: seconds, How: tx.How(),
		})
		if err := tx.PutCredential(string(p.CurveType), public, &org.Credential{User: u.ID, Key: id}); err != nil {
			return nil, err
		}
		ids[i] = id.String()
	}
	return ids, LimitAPIKeys(tx, u, len(ps))
}

// LimitAPIKeys enforces u's limits after keys were added at the end. Too many keys without expiry are
// refused; of those with expiry, expired ones and then the oldest are removed.
func LimitAPIKeys(tx *activity.Tx, u *org.User, added int) error {
	var forever, expiring, fresh int
	for i := range u.APIKeys {
		switch {
		case u.APIKeys[i].ExpirationSeconds == 0:
			forever++
		case i >= len(u.APIKeys)-added:
			fresh++
			expiring++
		default:
			expiring++
		}
	}
	switch {
	case forever > tx.Limits.LongLivedKeys:
		return fault.New(fault.ResourceExhausted, "user has exceeded maximum long-lived api keys: %d", tx.Limits.LongLivedKeys)
	case fresh > tx.Limits.ExpiringAPIKeys:
		return fault.New(fault.ResourceExhausted, "user has exceeded maximum short-lived api keys: %d", tx.Limits.ExpiringAPIKeys)
	}
	for ; expiring > tx.Limits.ExpiringAPIKeys; expiring-- {
		i := evictable(u.APIKeys[:len(u.APIKeys)-added], tx.NowMs)
		if err := ForgetKey(tx, &u.APIKeys[i]); err != nil {
			return err
		}
		u.APIKeys = slices.Delete(u.APIKeys, i, i+1)
	}
	return nil
}

// evictable returns the index of an expired key, or of the oldest that expires. Keys are in order of creation; at least one expires.
func evictable(ks []org.APIKey, nowMs uint64) int {
	oldest := -1
	for i := range ks {
		if ks[i].Expired(nowMs) {
			return i
		}
		if oldest < 0 && ks[i].ExpirationSeconds != 0 {
			oldest = i
		}
	}
	return oldest
}

// ForgetKey removes the look-up key and the IP allowlist of k.
func ForgetKey(tx *activity.Tx, k *org.APIKey) error {
	tx.DeleteCredential(org.KeyCurve(k.Type), k.PublicKey)
	list, err := tx.Allowlist(k.PublicKey)
	if list != nil {
		tx.DeleteAllowlist(k.PublicKey)
	}
	return err
}

// DeleteAPIKeys removes API keys of a user.
type DeleteAPIKeys struct {
	UserID    string   `json:"userId" rule:"required,uuid"`
	APIKeyIDs []string `json:"apiKeyIds" rule:"required,dive,required,uuid"`
}

func (in *DeleteAPIKeys) Check() error { return activity.CheckDistinct("apiKeyIds", in.APIKeyIDs) }

func deleteAPIKeys(tx *activity.Tx, in *DeleteAPIKeys) (*APIKeyIDs, error) {
	_, err := Change(tx, in.UserID, func(u *org.User) error {
		for _, text := range in.APIKeyIDs {
			id, _ := org.ParseID(text) // its rule requires a UUID
			i := slices.IndexFunc(u.APIKeys, func(k org.APIKey) bool { return k.ID == id })
			if i < 0 {
				return activity.NotFound("api key", text)
			}
			if u.APIKeys[i].IsSession() {
				u.NotBeforeMs = tx.NowMs
			}
			if err := ForgetKey(tx, &u.APIKeys[i]); err != nil {
				return err
			}
			u.APIKeys = slices.Delete(u.APIKeys, i, i+1)
		}
		return nil
	})
	return &APIKeyIDs{in.APIKeyIDs}, err
}

// keepQuorum refuses a change to a user's credentials that leaves fewer root users than the threshold with a
// way to log in that does not expire.
func keepQuorum(tx *activity.Tx, before, after *org.User) error {
	o, err := tx.Organization()
	if err != nil {
		return err
	}
	if !o.Root(after.ID) {
		return nil
	}
	if err := keepFactors(before, after); err != nil {
		return err
	}
	if LoginMeans(after, o, tx.NowMs) >= LoginMeans(before, o, tx.NowMs) {
		return nil
	}
	var able uint32
	for _, id := range o.RootUsers {
		u := after
		if id != after.ID {
			if u, err = tx.Tx.User(id); err != nil {
				return err
			}
		}
		if u != nil && LoginMeans(u, o, tx.NowMs) == MeansForGood {
			able++
		}
	}
	if able < o.Threshold {
		return fault.New(fault.InvalidArgument, "cannot remove the last credential of a user whom the root quorum needs")
	}
	return nil
}

// Durations for which a user can log in: never, for a time, permanently.
const (
	meansNone = iota
	meansForATime
	MeansForGood
)

// isReachable reports whether u can get a passcode or link for a log-in that the organization has enabled.
func isReachable(u *org.User, o *org.Organization) bool {
	on := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { _, ok := o.Features["FEATURE_NAME_"+n]; return ok })
	}
	return u.Email != "" && on("EMAIL_AUTH", "OTP_EMAIL_AUTH", "EMAIL_RECOVERY", "ROOT_USER_EMAIL_RECOVERY") || u.Phone != "" && on("SMS_AUTH")
}

// LoginMeans returns how long u can log in to organization o. A contact counts if isReachable.
func LoginMeans(u *org.User, o *org.Organization, nowMs uint64) int {
	best := meansNone
	if len(u.Authenticators)+len(u.OauthProviders) > 0 || isReachable(u, o) {
		best = MeansForGood
	}
	for i := range u.APIKeys {
		switch k := &u.APIKeys[i]; {
		case k.ExpirationSeconds == 0:
			best = MeansForGood
		case !k.Expired(nowMs):
			best = max(best, meansForATime)
		}
	}
	return best
}
