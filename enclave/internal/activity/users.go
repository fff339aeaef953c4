package activity

import (
	"fmt"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

var users = []*Kind{
	kind("CREATE_USERS", "USER", "CREATE", createUsers,
		was(1, func(v *CreateUsersV1) CreateUsers { return CreateUsers{carryAll(v.Users, carryUserV1)} }),
		was(2, func(v *CreateUsersV2) CreateUsers { return CreateUsers{carryAll(v.Users, carryUserV2)} }),
		was(3, func(v *CreateUsersV3) CreateUsers { return CreateUsers{carryAll(v.Users, carryUserV3)} })),
	kind("UPDATE_USER_NAME", "USER", "UPDATE", updateUserName),
}

// AccessType is where a user of version 1 was meant to act. It decides nothing.
type AccessType string

// Valid tells whether t is one of the interface's.
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
	UserName       string                `json:"userName" rule:"required,label_length,label"`
	UserEmail      *string               `json:"userEmail" rule:"omitempty,email,email_ext"`
	APIKeys        []APIKeyParamsV1      `json:"apiKeys" rule:"dive"`
	Authenticators []AuthenticatorParams `json:"authenticators" rule:"dive"`
	UserTags       []string              `json:"userTags" rule:"dive,uuid"`
}

// UserParamsV3 is a user of version 3.
type UserParamsV3 struct {
	UserName        string                  `json:"userName" rule:"required,label_length,label"`
	UserEmail       *string                 `json:"userEmail" rule:"omitempty,email,email_ext"`
	UserPhoneNumber *string                 `json:"userPhoneNumber" rule:"omitempty,e164"`
	APIKeys         []APIKeyParams          `json:"apiKeys" rule:"dive"`
	Authenticators  []AuthenticatorParams   `json:"authenticators" rule:"dive"`
	OauthProviders  []OauthProviderParamsV1 `json:"oauthProviders" rule:"dive"`
	UserTags        []string                `json:"userTags" rule:"dive,uuid"`
}

// UserParams is a user to be made.
type UserParams struct {
	UserName        string                `json:"userName" rule:"required,label_length,label"`
	UserEmail       *string               `json:"userEmail" rule:"omitempty,email,email_ext"`
	UserPhoneNumber *string               `json:"userPhoneNumber" rule:"omitempty,e164"`
	APIKeys         []APIKeyParams        `json:"apiKeys" rule:"dive"`
	Authenticators  []AuthenticatorParams `json:"authenticators" rule:"dive"`
	OauthProviders  []OauthProviderParams `json:"oauthProviders" rule:"dive"`
	UserTags        []string              `json:"userTags" rule:"dive,uuid"`
}

func carryAll[O, N any](olds []O, carry func(*O) N) []N {
	news := make([]N, len(olds))
	for i := range olds {
		news[i] = carry(&olds[i])
	}
	return news
}

func carryUserV1(o *UserParamsV1) UserParams {
	u := UserParams{UserName: o.UserName, UserEmail: o.UserEmail, APIKeys: carryKeys(o.APIKeys), UserTags: o.UserTags}
	if len(o.Authenticators) > 0 {
		u.Authenticators = make([]AuthenticatorParams, len(o.Authenticators))
	}
	return u
}

func carryUserV2(o *UserParamsV2) UserParams {
	return UserParams{UserName: o.UserName, UserEmail: o.UserEmail, APIKeys: carryKeys(o.APIKeys), Authenticators: o.Authenticators, UserTags: o.UserTags}
}

func carryUserV3(o *UserParamsV3) UserParams {
	return UserParams{o.UserName, o.UserEmail, o.UserPhoneNumber, o.APIKeys, o.Authenticators, carryProviders(o.OauthProviders), o.UserTags}
}

// check looks at one user. With contact an address is enough to log in.
func (p *UserParams) check(op, path string, contact bool) error {
	switch {
	case len(p.Authenticators) > 0:
		return unimplemented(op, "authenticators")
	case len(p.OauthProviders) > 0:
		return unimplemented(op, "oauthProviders")
	case p.UserEmail != nil && *p.UserEmail == "":
		e := fault.Field(path+"userEmail", "invalid email address")
		e.Name = "INVALID_EMAIL"
		return e
	case p.UserPhoneNumber != nil && *p.UserPhoneNumber == "":
		return fault.Field(path+"userPhoneNumber", "invalid phone number")
	case len(p.APIKeys) == 0 && !(contact && (p.UserEmail != nil || p.UserPhoneNumber != nil)):
		return fault.Field(path+"apiKeys", "user must have at least one credential")
	}
	return checkAPIKeys(path, p.APIKeys)
}

// CreateUsersV1 is version 1 of the intent.
type CreateUsersV1 struct {
	Users []UserParamsV1 `json:"users" rule:"required,dive,required"`
}

// CreateUsersV2 is version 2 of the intent.
type CreateUsersV2 struct {
	Users []UserParamsV2 `json:"users" rule:"required,dive,required"`
}

// CreateUsersV3 is version 3 of the intent.
type CreateUsersV3 struct {
	Users []UserParamsV3 `json:"users" rule:"required,dive,required"`
}

// CreateUsers makes users.
type CreateUsers struct {
	Users []UserParams `json:"users" rule:"required,dive,required"`
}

func (in *CreateUsers) check() error {
	for i := range in.Users {
		if err := in.Users[i].check("create_users", fmt.Sprintf("users.%d.", i), false); err != nil {
			return err
		}
	}
	return nil
}

// UserIDs is the result of making users.
type UserIDs struct {
	UserIDs []string `json:"userIds"`
}

func createUsers(tx *Tx, in *CreateUsers) (*UserIDs, error) {
	old, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	o := *old
	if int(o.Users)+len(in.Users) > org.MaxUsers {
		return nil, overQuota(org.MaxUsers, "users")
	}
	r := &UserIDs{make([]string, len(in.Users))}
	for i := range in.Users {
		u, err := createUser(tx, fmt.Sprintf("users.%d.", i), &in.Users[i])
		if err != nil {
			return nil, err
		}
		r.UserIDs[i] = u.ID.String()
	}
	o.Users += uint32(len(in.Users))
	return r, tx.PutOrganization(&o)
}

// createUser makes a user; the caller counts it.
func createUser(tx *Tx, path string, p *UserParams) (*org.User, error) {
	if len(p.UserTags) > 0 {
		return nil, notFound("user tag", p.UserTags[0])
	}
	holder, err := tx.Named(org.NameUser, p.UserName)
	if err != nil {
		return nil, err
	}
	if !holder.Zero() {
		return nil, taken("user", path+"userName")
	}
	id, err := org.NewID(tx.Rand)
	if err != nil {
		return nil, err
	}
	u := &org.User{ID: id, Name: p.UserName, CreatedMs: tx.NowMs, UpdatedMs: tx.NowMs}
	if p.UserEmail != nil {
		u.Email = *p.UserEmail
	}
	if p.UserPhoneNumber != nil {
		u.Phone = *p.UserPhoneNumber
	}
	if _, err := addAPIKeys(tx, u, path, p.APIKeys); err != nil {
		return nil, err
	}
	if err := tx.TakeName(org.NameUser, u.Name, id); err != nil {
		return nil, err
	}
	return u, tx.PutUser(u)
}

// findUser finds the user whom an intent names by a UUID.
func findUser(tx *Tx, text string) (*org.User, error) {
	id, _ := org.ParseID(text) // a UUID by its rule
	u, err := tx.Tx.User(id)
	if err == nil && u == nil {
		err = notFound("user", text)
	}
	return u, err
}

// UpdateUserName gives a user another name.
type UpdateUserName struct {
	UserID   string `json:"userId" rule:"required,uuid"`
	UserName string `json:"userName" rule:"required,label,label_length"`
}

// UserID is the result of changing a user.
type UserID struct {
	UserID string `json:"userId"`
}

func updateUserName(tx *Tx, in *UpdateUserName) (*UserID, error) {
	old, err := findUser(tx, in.UserID)
	if err != nil {
		return nil, err
	}
	if err := rename(tx, org.NameUser, "user", "userName", old.Name, in.UserName, old.ID); err != nil {
		return nil, err
	}
	u := *old
	u.Name, u.UpdatedMs = in.UserName, tx.NowMs
	return &UserID{in.UserID}, tx.PutUser(&u)
}

// rename moves a name that must be unique among the things of one kind.
func rename(tx *Tx, what byte, called, field, from, to string, id org.ID) error {
	holder, err := tx.Named(what, to)
	switch {
	case err != nil || holder == id:
		return err
	case !holder.Zero():
		return taken(called, field)
	}
	tx.FreeName(what, from)
	return tx.TakeName(what, to, id)
}
