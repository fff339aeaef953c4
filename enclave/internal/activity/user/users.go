// Package user has the activities about the users of an organization and their credentials and contacts: API keys,
// passkeys, identities, email addresses and phone numbers.
package user

import (
	"fmt"
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/tag"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// Users are the kinds that create, change and delete users.
var Users = activity.Family{
	activity.Kind[CreateUsers, UserIDs]{
		Name: "CREATE_USERS", Resource: "USER", Action: "CREATE", Run: createUsers,
		Explain: func(tx *org.Tx, in *CreateUsers, o *show.Object) error { return explainUsers(tx, o, in.Users) },
		Older: []activity.Older{
			activity.Upgrade(carryUsers(carryUserV1)),
			activity.Upgrade(carryUsers(carryUserV2)),
			activity.Upgrade(carryUsers(carryUserV3)),
		},
	},
	activity.Kind[CreateAPIOnlyUsers, UserIDs]{Name: "CREATE_API_ONLY_USERS", Resource: "USER", Action: "CREATE", Run: createAPIOnlyUsers,
		Explain: func(tx *org.Tx, in *CreateAPIOnlyUsers, o *show.Object) error { return explainUsers(tx, o, in.users()) }},
	activity.Kind[UpdateUser, UserID]{Name: "UPDATE_USER", Resource: "USER", Action: "UPDATE", Run: updateUser,
		Explain: func(tx *org.Tx, in *UpdateUser, o *show.Object) error { return in.explain(tx, o) }},
	activity.Kind[UpdateUserName, UserID]{Name: "UPDATE_USER_NAME", Resource: "USER", Action: "UPDATE", Run: updateUserName,
		Explain: func(tx *org.Tx, in *UpdateUserName, o *show.Object) error { return in.explain(tx, o) }},
	activity.Kind[UpdateUserEmail, UserID]{Name: "UPDATE_USER_EMAIL", Resource: "USER", Action: "UPDATE", Run: updateUserEmail,
		Explain: func(tx *org.Tx, in *UpdateUserEmail, o *show.Object) error {
			return explainNewContact(tx, o, in.UserID, login.Email, in.UserEmail, in.VerificationToken)
		}},
	activity.Kind[UpdateUserPhoneNumber, UserID]{Name: "UPDATE_USER_PHONE_NUMBER", Resource: "USER", Action: "UPDATE", Run: updateUserPhoneNumber,
		Explain: func(tx *org.Tx, in *UpdateUserPhoneNumber, o *show.Object) error {
			return explainNewContact(tx, o, in.UserID, login.SMS, in.UserPhoneNumber, in.VerificationToken)
		}},
	activity.Kind[UserIDs, UserIDs]{
		Name: "DELETE_USERS", Resource: "USER", Action: "DELETE", Run: deleteUsers,
		Explain: func(tx *org.Tx, in *UserIDs, o *show.Object) error { return explainDeleted(tx, in, o) },
		Params:  func(in *UserIDs) policy.Value { return activity.Param("user_ids", policy.IDs(in.UserIDs)) },
	},
}

// AccessType was the access of a user of version 1: web, API or both. It decides nothing.
type AccessType string

// Valid reports whether t is an access type of the interface.
func (t AccessType) Valid() bool {
	return t == "ACCESS_TYPE_WEB" || t == "ACCESS_TYPE_API" || t == "ACCESS_TYPE_ALL"
}

// UserParamsV1 is a user of version 1.
type UserParamsV1 struct {
	UserName       string                  `json:"userName" rule:"required,label_length,label"`
	UserEmail      *string                 `json:"userEmail" rule:"omitempty,email,email_ext"`
	AccessType     AccessType              `json:"accessType" rule:"required"`
	APIKeys        []APIKeyParamsV1        `json:"apiKeys" rule:"dive"`
	Authenticators []AuthenticatorParamsV1 `json:"authenticators" rule:"dive"`
	UserTags       []string                `json:"userTags" rule:"dive,uuid"`
}

// UserParamsV2 is a user of version 2.
type UserParamsV2 struct {
	RootUserParamsV1
	UserTags []string `json:"userTags" rule:"dive,uuid"`
}

// UserParamsV3 is a user of version 3.
type UserParamsV3 struct {
	RootUserParamsV4
	UserTags []string `json:"userTags" rule:"dive,uuid"`
}

// UserParams is a user to be created.
type UserParams struct {
	RootUserParams
	UserTags []string `json:"userTags" rule:"dive,uuid"`
}

func carryUserV1(o *UserParamsV1) UserParams {
	authenticators := activity.MapList(o.Authenticators, CarryAuthenticator)
	return UserParams{RootUserParams{UserName: o.UserName, UserEmail: o.UserEmail, APIKeys: CarryKeys(o.APIKeys), Authenticators: authenticators}, o.UserTags}
}

func carryUserV2(o *UserParamsV2) UserParams {
	return UserParams{CarryRootV1(&o.RootUserParamsV1), o.UserTags}
}

func carryUserV3(o *UserParamsV3) UserParams {
	return UserParams{CarryRootV4(&o.RootUserParamsV4), o.UserTags}
}

// CheckAt checks one user. With contact, a contact is enough to log in.
func (p *RootUserParams) CheckAt(path string, contact bool) error {
	switch {
	case p.UserEmail != nil && *p.UserEmail == "":
		return fault.Field(path+"userEmail", "invalid email address").WithName("INVALID_EMAIL")
	case p.UserPhoneNumber != nil && *p.UserPhoneNumber == "":
		return fault.Field(path+"userPhoneNumber", "invalid phone number")
	case len(p.APIKeys)+len(p.Authenticators)+len(p.OauthProviders) == 0 && !(contact && (p.UserEmail != nil || p.UserPhoneNumber != nil)):
		return fault.Field(path+"apiKeys", "user must have at least one credential")
	}
	if err := checkAPIKeys(path, p.APIKeys); err != nil {
		return err
	}
	if err := checkAuthenticators(path, p.Authenticators); err != nil {
		return err
	}
	return checkProviders(path, p.OauthProviders)
}

// OlderCreateUsers is CreateUsers in older versions; U is the version's user.
type OlderCreateUsers[U any] struct {
	Users []U `json:"users" rule:"required,dive,required"`
}

func carryUsers[U any](carry func(*U) UserParams) func(*OlderCreateUsers[U]) CreateUsers {
	return func(v *OlderCreateUsers[U]) CreateUsers { return CreateUsers{activity.MapList(v.Users, carry)} }
}

// CreateUsers creates users.
type CreateUsers struct {
	Users []UserParams `json:"users" rule:"required,dive,required"`
}

func (in *CreateUsers) Check() error {
	for i := range in.Users {
		if err := in.Users[i].CheckAt(fmt.Sprintf("users.%d.", i), false); err != nil {
			return err
		}
	}
	return nil
}

// UserIDs names users: those to be deleted, or the result of creating and of deleting some.
type UserIDs struct {
	UserIDs []string `json:"userIds" rule:"required,dive,required,uuid"`
}

func (in *UserIDs) Check() error { return activity.CheckDistinct("userIds", in.UserIDs) }

func createUsers(tx *activity.Tx, in *CreateUsers) (*UserIDs, error) {
	return addUsers(tx, "users", in.Users)
}

// addUsers creates users and counts them.
func addUsers(tx *activity.Tx, field string, ps []UserParams) (*UserIDs, error) {
	if err := activity.Users.Add(tx, len(ps)); err != nil {
		return nil, err
	}
	r := &UserIDs{make([]string, len(ps))}
	for i := range ps {
		u, err := Create(tx, fmt.Sprintf("%s.%d.", field, i), &ps[i].RootUserParams, ps[i].UserTags...)
		if err != nil {
			return nil, err
		}
		r.UserIDs[i] = u.ID.String()
	}
	return r, nil
}

// Create creates a user; the caller counts it.
func Create(tx *activity.Tx, path string, p *RootUserParams, tags ...string) (*org.User, error) {
	id, err := org.NewID(tx.Rand)
	if err != nil {
		return nil, err
	}
	return CreateAs(tx, id, path, p, tags...)
}

// CreateAs creates a user with an id that no user ever had.
func CreateAs(tx *activity.Tx, id org.ID, path string, p *RootUserParams, tags ...string) (*org.User, error) {
	err := activity.TakeName(tx, org.NameUser, "user", path+"userName", p.UserName, id)
	if err != nil {
		return nil, err
	}
	u := &org.User{
		ID: id, Name: p.UserName, Email: activity.TextOf(p.UserEmail), Phone: activity.TextOf(p.UserPhoneNumber), CreatedMs: tx.NowMs, UpdatedMs: tx.NowMs,
		EmailHow: tx.How(), PhoneHow: tx.How(),
	}
	if u.Tags, err = tag.Find(tx, path+"userTags", tags, tag.TypeUser); err != nil {
		return nil, err
	}
	if _, err := addAPIKeys(tx, u, path, p.APIKeys); err != nil {
		return nil, err
	}
	if _, err := addAuthenticators(tx, u, path, p.Authenticators); err != nil {
		return nil, err
	}
	if _, err := addProviders(tx, u, path, p.OauthProviders); err != nil {
		return nil, err
	}
	return u, tx.PutUser(u)
}

// APIOnlyUserParams is a user with API keys and no passkeys.
type APIOnlyUserParams struct {
	UserName  string           `json:"userName" rule:"required,label_length,label"`
	UserEmail *string          `json:"userEmail" rule:"omitempty,email,email_ext"`
	UserTags  []string         `json:"userTags" rule:"dive,uuid"`
	APIKeys   []APIKeyParamsV1 `json:"apiKeys" rule:"dive"`
}

// CreateAPIOnlyUsers creates users with API keys and no passkeys.
type CreateAPIOnlyUsers struct {
	APIOnlyUsers []APIOnlyUserParams `json:"apiOnlyUsers" rule:"required,dive,required"`
}

func (in *CreateAPIOnlyUsers) users() []UserParams {
	return activity.MapList(in.APIOnlyUsers, func(p *APIOnlyUserParams) UserParams {
		return UserParams{RootUserParams{UserName: p.UserName, UserEmail: p.UserEmail, APIKeys: CarryKeys(p.APIKeys)}, p.UserTags}
	})
}

func (in *CreateAPIOnlyUsers) Check() error {
	for i, u := range in.users() {
		if err := u.CheckAt(fmt.Sprintf("apiOnlyUsers.%d.", i), false); err != nil {
			return err
		}
	}
	return nil
}

func createAPIOnlyUsers(tx *activity.Tx, in *CreateAPIOnlyUsers) (*UserIDs, error) {
	return addUsers(tx, "apiOnlyUsers", in.users())
}

// UpdateUserName renames a user.
type UpdateUserName struct {
	UserID   string `json:"userId" rule:"required,uuid"`
	UserName string `json:"userName" rule:"required,label,label_length"`
}

// UserID is the result of changing a user.
type UserID struct {
	UserID string `json:"userId"`
}

func updateUserName(tx *activity.Tx, in *UpdateUserName) (*UserID, error) {
	return Change(tx, in.UserID, func(u *org.User) error { return rename(tx, u, in.UserName) })
}

// rename renames u, which the caller stores.
func rename(tx *activity.Tx, u *org.User, name string) error {
	from := u.Name
	u.Name = name
	return activity.Rename(tx, org.NameUser, "user", "userName", from, name, u.ID)
}

// Change applies change to a copy of a user's record and stores it. Credentials may be changed in place; the
// other slices are still the record's.
func Change(tx *activity.Tx, text string, change func(*org.User) error) (*UserID, error) {
	old, err := activity.FindUser(tx, text)
	if err != nil {
		return nil, err
	}
	u := *old
	u.APIKeys, u.Authenticators, u.OauthProviders = slices.Clone(old.APIKeys), slices.Clone(old.Authenticators), slices.Clone(old.OauthProviders)
	if err := change(&u); err != nil {
		return nil, err
	}
	if err := keepQuorum(tx, old, &u); err != nil {
		return nil, err
	}
	u.UpdatedMs = tx.NowMs
	return &UserID{text}, tx.PutUser(&u)
}

// UpdateUser changes the members of a user that are set and not empty.
type UpdateUser struct {
	UserID          string   `json:"userId" rule:"required,uuid"`
	UserName        *string  `json:"userName" rule:"omitempty,label,label_length"`
	UserEmail       *string  `json:"userEmail" rule:"omitempty,email,email_ext"`
	UserTagIDs      []string `json:"userTagIds,omitempty" rule:"omitempty,dive,uuid"`
	UserPhoneNumber *string  `json:"userPhoneNumber" rule:"omitempty,e164"`
}

func updateUser(tx *activity.Tx, in *UpdateUser) (*UserID, error) {
	return Change(tx, in.UserID, func(u *org.User) (err error) {
		if name := activity.TextOf(in.UserName); name != "" {
			if err := rename(tx, u, name); err != nil {
				return err
			}
		}
		if e := activity.TextOf(in.UserEmail); e != "" && e != u.Email {
			u.Email, u.EmailVerified, u.EmailHow = e, false, org.HowInside
		}
		if n := activity.TextOf(in.UserPhoneNumber); n != "" && n != u.Phone {
			u.Phone, u.PhoneVerified, u.PhoneHow = n, false, org.HowInside
		}
		if len(in.UserTagIDs) > 0 {
			u.Tags, err = tag.Find(tx, "userTagIds", in.UserTagIDs, tag.TypeUser)
		}
		return err
	})
}

// UpdateUserEmail changes a user's email address; an empty one removes it.
type UpdateUserEmail struct {
	UserID            string  `json:"userId" rule:"required,uuid"`
	UserEmail         string  `json:"userEmail" rule:"present,omitempty,email,email_ext"`
	VerificationToken *string `json:"verificationToken"`
}

func updateUserEmail(tx *activity.Tx, in *UpdateUserEmail) (*UserID, error) {
	return setContact(tx, in.UserID, login.Email, in.UserEmail, in.VerificationToken)
}

// UpdateUserPhoneNumber changes a user's phone number; an empty one removes it.
type UpdateUserPhoneNumber struct {
	UserID            string  `json:"userId" rule:"required,uuid"`
	UserPhoneNumber   string  `json:"userPhoneNumber" rule:"present,omitempty,e164"`
	VerificationToken *string `json:"verificationToken"`
}

func updateUserPhoneNumber(tx *activity.Tx, in *UpdateUserPhoneNumber) (*UserID, error) {
	return setContact(tx, in.UserID, login.SMS, in.UserPhoneNumber, in.VerificationToken)
}

// setContact changes a user's contact. Without a token it is unverified, even if it equals the verified one:
// the interface specifies so.
func setContact(tx *activity.Tx, id string, t login.ContactType, contact string, token *string) (*UserID, error) {
	shown, err := verifyContact(tx, token, t, contact)
	if err != nil {
		return nil, err
	}
	return Change(tx, id, func(u *org.User) error {
		c := contactOf(u, t)
		*c.text, *c.verified, *c.how = contact, shown, org.HowInside
		return nil
	})
}

// deleteUsers deletes users with their credentials.
func deleteUsers(tx *activity.Tx, in *UserIDs) (*UserIDs, error) {
	old, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	o := *old
	gone := map[org.ID]bool{}
	for i, text := range in.UserIDs {
		u, err := activity.FindUser(tx, text)
		if err != nil {
			return nil, err
		}
		if o.Root(u.ID) {
			return nil, fault.Field(fmt.Sprintf("userIds.%d", i), "quorum users missing")
		}
		if err := Drop(tx, u); err != nil {
			return nil, err
		}
		gone[u.ID] = true
	}
	if len(in.UserIDs) >= int(o.Users) {
		return nil, fault.New(fault.InvalidArgument, "the last user of an organization cannot be deleted")
	}
	o.Users -= uint32(len(in.UserIDs))
	if err := DropInvitations(tx, &o, func(i *org.Invitation) bool { return gone[i.Sender] }); err != nil {
		return nil, err
	}
	return in, tx.PutOrganization(&o)
}

// Drop deletes a user with all look-up keys and import targets.
func Drop(tx *activity.Tx, u *org.User) error {
	for i := range u.APIKeys {
		if err := ForgetKey(tx, &u.APIKeys[i]); err != nil {
			return err
		}
	}
	for i := range u.Authenticators {
		if err := forgetAuthenticator(tx, &u.Authenticators[i]); err != nil {
			return err
		}
	}
	tx.FreeName(org.NameUser, u.Name)
	tx.DeleteUser(u.ID)
	return tx.DeleteTargets(u.ID)
}
