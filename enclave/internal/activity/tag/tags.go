// Package tag has the activities about tags of users and of private keys.
package tag

import (
	"fmt"
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// Tags are the kinds about tags of users and of private keys.
var Tags = activity.Family{
	activity.Kind[CreateUserTag, NewUserTag]{Name: "CREATE_USER_TAG", Resource: "USER", Action: "CREATE", Run: createUserTag,
		Explain: func(tx *org.Tx, in *CreateUserTag, o *show.Object) error {
			return userTagging.explainNew(tx, o, in.UserTagName, in.UserIDs)
		}},
	activity.Kind[UpdateUserTag, UserTagID]{Name: "UPDATE_USER_TAG", Resource: "USER", Action: "UPDATE", Run: updateUserTag,
		Explain: func(tx *org.Tx, in *UpdateUserTag, o *show.Object) error {
			return userTagging.explainChange(tx, o, in.UserTagID, in.NewUserTagName, in.AddUserIDs, in.RemoveUserIDs)
		}},
	activity.Kind[DeleteUserTags, GoneUserTags]{Name: "DELETE_USER_TAGS", Resource: "USER", Action: "DELETE", Run: deleteUserTags,
		Explain: func(tx *org.Tx, in *DeleteUserTags, o *show.Object) error {
			return userTagging.explainGone(tx, o, in.UserTagIDs)
		}},
	activity.Kind[CreatePrivateKeyTag, NewPrivateKeyTag]{Name: "CREATE_PRIVATE_KEY_TAG", Resource: "PRIVATE_KEY", Action: "CREATE", Run: createPrivateKeyTag,
		Explain: func(tx *org.Tx, in *CreatePrivateKeyTag, o *show.Object) error {
			return privateKeyTagging.explainNew(tx, o, in.PrivateKeyTagName, in.PrivateKeyIDs)
		}},
	activity.Kind[UpdatePrivateKeyTag, PrivateKeyTagID]{Name: "UPDATE_PRIVATE_KEY_TAG", Resource: "PRIVATE_KEY", Action: "UPDATE", Run: updatePrivateKeyTag,
		Explain: func(tx *org.Tx, in *UpdatePrivateKeyTag, o *show.Object) error {
			return privateKeyTagging.explainChange(tx, o, in.PrivateKeyTagID, in.NewPrivateKeyTagName, in.AddPrivateKeyIDs, in.RemovePrivateKeyIDs)
		}},
	activity.Kind[DeletePrivateKeyTags, GonePrivateKeyTags]{Name: "DELETE_PRIVATE_KEY_TAGS", Resource: "PRIVATE_KEY", Action: "DELETE", Run: deletePrivateKeyTags,
		Explain: func(tx *org.Tx, in *DeletePrivateKeyTags, o *show.Object) error {
			return privateKeyTagging.explainGone(tx, o, in.PrivateKeyTagIDs)
		}},
}

// Types of tags, by the objects that have them.
const (
	TypeUser       = "TAG_TYPE_USER"
	TypePrivateKey = "TAG_TYPE_PRIVATE_KEY"
)

// bearer is a user or a private key that has tags.
type bearer struct {
	id   org.ID
	tags []org.ID
	put  func(tags []org.ID) error
}

// tagging is the implementation of one of the two types of tags.
type tagging struct {
	typ, called, added string // added is the member that lists the new bearers
	names              byte
	find               func(tx *activity.Tx, text string) (bearer, error)
	each               func(tx *activity.Tx, visit func(bearer)) error
}

var userTagging = tagging{
	TypeUser, "user tag", "addUserIds", org.NameUserTag,
	func(tx *activity.Tx, text string) (bearer, error) {
		u, err := activity.FindUser(tx, text)
		if err != nil {
			return bearer{}, err
		}
		return userBearer(tx, u), nil
	},
	func(tx *activity.Tx, visit func(bearer)) error {
		return tx.EachUser(func(u *org.User) bool {
			visit(userBearer(tx, u))
			return true
		})
	},
}

func userBearer(tx *activity.Tx, old *org.User) bearer {
	return bearer{old.ID, old.Tags, func(tags []org.ID) error {
		u := *old
		u.Tags, u.UpdatedMs = tags, tx.NowMs
		return tx.PutUser(&u)
	}}
}

var privateKeyTagging = tagging{
	TypePrivateKey, "private key tag", "addPrivateKeyIds", org.NameKeyTag,
	func(tx *activity.Tx, text string) (bearer, error) {
		k, err := activity.Find(tx.PrivateKey, "private key", text)
		if err != nil {
			return bearer{}, err
		}
		return keyBearer(tx, k), nil
	},
	func(tx *activity.Tx, visit func(bearer)) error {
		return tx.EachPrivateKey(func(k *org.PrivateKey) bool {
			visit(keyBearer(tx, k))
			return true
		})
	},
}

func keyBearer(tx *activity.Tx, old *org.PrivateKey) bearer {
	return bearer{old.ID, old.Tags, func(tags []org.ID) error {
		k := *old
		k.Tags, k.UpdatedMs = tags, tx.NowMs
		return tx.PutPrivateKey(&k, nil)
	}}
}

// findTag finds the tag of one type that an intent names by a UUID.
func (g *tagging) findTag(tx *activity.Tx, text string) (*org.Tag, error) {
	return activity.Find(func(id org.ID) (*org.Tag, error) {
		t, err := tx.Tag(id)
		if t != nil && t.Type != g.typ {
			t = nil
		}
		return t, err
	}, g.called, text)
}

// Find finds tags of one type, TAG_TYPE_…, for a new object. All must exist, and none may be named twice.
func Find(tx *activity.Tx, path string, ids []string, tagType string) ([]org.ID, error) {
	g := &userTagging
	if tagType == TypePrivateKey {
		g = &privateKeyTagging
	}
	if err := activity.CheckDistinct(path, ids); err != nil {
		return nil, err
	}
	var found []org.ID
	for _, text := range ids {
		t, err := g.findTag(tx, text)
		if err != nil {
			return nil, err
		}
		found = append(found, t.ID)
	}
	return found, nil
}

// mark adds a tag to all named bearers, or removes it from them.
func (g *tagging) mark(tx *activity.Tx, tag org.ID, names []string, bears bool) error {
	for _, name := range names {
		b, err := g.find(tx, name)
		switch {
		case err != nil:
		case !bears:
			err = b.removeTags(tag)
		case !slices.Contains(b.tags, tag):
			err = b.put(append(slices.Clone(b.tags), tag))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeTags removes tags from b, if it has any of them.
func (b *bearer) removeTags(tags ...org.ID) error {
	left := withoutTags(b.tags, tags)
	if len(left) == len(b.tags) {
		return nil
	}
	return b.put(left)
}

func withoutTags(of, gone []org.ID) []org.ID {
	return slices.DeleteFunc(slices.Clone(of), func(t org.ID) bool { return slices.Contains(gone, t) })
}

// create creates a tag and adds it to bearers.
func (g *tagging) create(tx *activity.Tx, field, name string, bearers []string) (string, error) {
	o, err := tx.Organization()
	if err != nil {
		return "", err
	}
	quota := activity.Tags
	if !o.Parent.Zero() {
		quota = activity.TagsOfChild
	}
	if err := quota.Add(tx, 1); err != nil {
		return "", err
	}
	id, err := activity.NewNamed(tx, g.names, g.called, field, name)
	if err != nil {
		return "", err
	}
	if err := tx.PutTag(&org.Tag{ID: id, Name: name, Type: g.typ, CreatedMs: tx.NowMs, UpdatedMs: tx.NowMs}); err != nil {
		return "", err
	}
	return id.String(), g.mark(tx, id, bearers, true)
}

// update renames a tag, if name is set, and changes its bearers.
func (g *tagging) update(tx *activity.Tx, text, field string, name *string, add, remove []string) error {
	old, err := g.findTag(tx, text)
	if err != nil {
		return err
	}
	for i, id := range add {
		if slices.Contains(remove, id) {
			return fault.Field(fmt.Sprintf("%s.%d", g.added, i), "named to be added and to be removed")
		}
	}
	t := *old
	t.UpdatedMs = tx.NowMs
	if name := activity.TextOf(name); name != "" {
		if err := activity.Rename(tx, g.names, g.called, field, old.Name, name, old.ID); err != nil {
			return err
		}
		t.Name = name
	}
	if err := g.mark(tx, t.ID, remove, false); err != nil {
		return err
	}
	if err := g.mark(tx, t.ID, add, true); err != nil {
		return err
	}
	return tx.PutTag(&t)
}

// delete deletes tags, gone, and removes them from their bearers, whose ids it returns in order.
func (g *tagging) delete(tx *activity.Tx, texts []string) (bearers []string, gone []org.ID, err error) {
	for _, text := range texts {
		t, err := g.findTag(tx, text)
		if err != nil {
			return nil, nil, err
		}
		tx.DeleteTag(t.ID)
		tx.FreeName(g.names, t.Name)
		gone = append(gone, t.ID)
	}
	var bore []bearer
	err = g.each(tx, func(b bearer) {
		if len(withoutTags(b.tags, gone)) < len(b.tags) {
			bore = append(bore, b)
		}
	})
	if err != nil {
		return nil, nil, err
	}
	bearers = make([]string, len(bore))
	for i := range bore {
		bearers[i] = bore[i].id.String()
		if err := bore[i].removeTags(gone...); err != nil {
			return nil, nil, err
		}
	}
	return bearers, gone, activity.Tags.Add(tx, -len(gone))
}

// CreateUserTag creates a tag for users.
type CreateUserTag struct {
	UserTagName string   `json:"userTagName" rule:"required,label,label_length"`
	UserIDs     []string `json:"userIds" rule:"dive,uuid"`
}

func (in *CreateUserTag) Check() error { return activity.CheckDistinct("userIds", in.UserIDs) }

// NewUserTag is the result of creating a tag for users.
type NewUserTag struct {
	UserTagID string   `json:"userTagId"`
	UserIDs   []string `json:"userIds"`
}

func createUserTag(tx *activity.Tx, in *CreateUserTag) (*NewUserTag, error) {
	id, err := userTagging.create(tx, "userTagName", in.UserTagName, in.UserIDs)
	return &NewUserTag{id, in.UserIDs}, err
}

// UpdateUserTag renames a tag and changes its users.
type UpdateUserTag struct {
	UserTagID      string   `json:"userTagId" rule:"required,uuid"`
	NewUserTagName *string  `json:"newUserTagName" rule:"omitempty,label,label_length"`
	AddUserIDs     []string `json:"addUserIds" rule:"dive,uuid"`
	RemoveUserIDs  []string `json:"removeUserIds" rule:"dive,uuid"`
}

// UserTagID is the result of changing a tag for users.
type UserTagID struct {
	UserTagID string `json:"userTagId"`
}

func updateUserTag(tx *activity.Tx, in *UpdateUserTag) (*UserTagID, error) {
	return &UserTagID{in.UserTagID}, userTagging.update(tx, in.UserTagID, "newUserTagName", in.NewUserTagName, in.AddUserIDs, in.RemoveUserIDs)
}

// DeleteUserTags deletes tags for users.
type DeleteUserTags struct {
	UserTagIDs []string `json:"userTagIds" rule:"required,dive,required,uuid"`
}

func (in *DeleteUserTags) Check() error { return activity.CheckDistinct("userTagIds", in.UserTagIDs) }

// GoneUserTags is the result of deleting tags; UserIDs had one of them.
type GoneUserTags struct {
	UserTagIDs []string `json:"userTagIds"`
	UserIDs    []string `json:"userIds"`
}

func deleteUserTags(tx *activity.Tx, in *DeleteUserTags) (*GoneUserTags, error) {
	bore, gone, err := userTagging.delete(tx, in.UserTagIDs)
	if err != nil {
		return nil, err
	}
	return &GoneUserTags{in.UserTagIDs, bore}, untagInvitations(tx, gone)
}

// CreatePrivateKeyTag creates a tag for private keys.
type CreatePrivateKeyTag struct {
	PrivateKeyTagName string   `json:"privateKeyTagName" rule:"required,label,label_length"`
	PrivateKeyIDs     []string `json:"privateKeyIds" rule:"dive,uuid"`
}

func (in *CreatePrivateKeyTag) Check() error {
	return activity.CheckDistinct("privateKeyIds", in.PrivateKeyIDs)
}

// NewPrivateKeyTag is the result of creating a tag for private keys.
type NewPrivateKeyTag struct {
	PrivateKeyTagID string   `json:"privateKeyTagId"`
	PrivateKeyIDs   []string `json:"privateKeyIds"`
}

func createPrivateKeyTag(tx *activity.Tx, in *CreatePrivateKeyTag) (*NewPrivateKeyTag, error) {
	id, err := privateKeyTagging.create(tx, "privateKeyTagName", in.PrivateKeyTagName, in.PrivateKeyIDs)
	return &NewPrivateKeyTag{id, in.PrivateKeyIDs}, err
}

// UpdatePrivateKeyTag renames a tag and changes its private keys.
type UpdatePrivateKeyTag struct {
	PrivateKeyTagID      string   `json:"privateKeyTagId" rule:"required,uuid"`
	NewPrivateKeyTagName *string  `json:"newPrivateKeyTagName" rule:"omitempty,label,label_length"`
	AddPrivateKeyIDs     []string `json:"addPrivateKeyIds" rule:"dive,uuid"`
	RemovePrivateKeyIDs  []string `json:"removePrivateKeyIds" rule:"dive,uuid"`
}

// PrivateKeyTagID is the result of changing a tag for private keys.
type PrivateKeyTagID struct {
	PrivateKeyTagID string `json:"privateKeyTagId"`
}

func updatePrivateKeyTag(tx *activity.Tx, in *UpdatePrivateKeyTag) (*PrivateKeyTagID, error) {
	err := privateKeyTagging.update(tx, in.PrivateKeyTagID, "newPrivateKeyTagName", in.NewPrivateKeyTagName, in.AddPrivateKeyIDs, in.RemovePrivateKeyIDs)
	return &PrivateKeyTagID{in.PrivateKeyTagID}, err
}

// DeletePrivateKeyTags deletes tags for private keys.
type DeletePrivateKeyTags struct {
	PrivateKeyTagIDs []string `json:"privateKeyTagIds" rule:"required,dive,required,uuid"`
}

func (in *DeletePrivateKeyTags) Check() error {
	return activity.CheckDistinct("privateKeyTagIds", in.PrivateKeyTagIDs)
}

// GonePrivateKeyTags is the result of deleting tags; PrivateKeyIDs had one of them.
type GonePrivateKeyTags struct {
	PrivateKeyTagIDs []string `json:"privateKeyTagIds"`
	PrivateKeyIDs    []string `json:"privateKeyIds"`
}

func deletePrivateKeyTags(tx *activity.Tx, in *DeletePrivateKeyTags) (*GonePrivateKeyTags, error) {
	bore, _, err := privateKeyTagging.delete(tx, in.PrivateKeyTagIDs)
	return &GonePrivateKeyTags{in.PrivateKeyTagIDs, bore}, err
}

// untagInvitations removes tags from invitations.
func untagInvitations(tx *activity.Tx, gone []org.ID) error {
	is, err := activity.Collect(tx.EachInvitation, func(i *org.Invitation) bool {
		return slices.ContainsFunc(i.Tags, func(t org.ID) bool { return slices.Contains(gone, t) })
	})
	for _, old := range is {
		i := *old
		i.Tags = withoutTags(old.Tags, gone)
		if err := tx.PutInvitation(&i); err != nil {
			return err
		}
	}
	return err
}
