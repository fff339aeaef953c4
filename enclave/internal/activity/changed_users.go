package activity

import (
	"slices"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// BindProfile restricts the rest of the activity to a session profile, as if a session with that profile had stamped it.
func (t *Tx) BindProfile(profile org.ID) error {
	switch {
	case profile.Zero() || profile == t.Stamped.Profile:
	case !t.Stamped.Profile.Zero():
		return fault.New(fault.PermissionDenied, "the passcode or verification token is of a session with another profile")
	default:
		t.Stamped.Profile = profile
	}
	return nil
}

// ErrBounded is the error of an action with which a session would leave the scope of its profile.
var ErrBounded = fault.WithCode(fault.PermissionDenied, "FORBIDDEN",
	"a session with a profile gives users no credential and no contact, but sessions of the same profile: stamp with a key or a passkey of the user")

// boundNewSessions refuses, to a session with a profile, a change that gives an existing user a way to log in that is
// not restricted to that profile. Policies restrict the ways to log in of new users.
func (t *Tx) boundNewSessions() error {
	bound := t.Stamped.Profile
	if bound.Zero() {
		return nil
	}
	return t.EachChangedUser(func(before, after *org.User) error {
		if before == nil || after == nil {
			return nil
		}
		free := after.Email != "" && after.Email != before.Email || after.Phone != "" && after.Phone != before.Phone
		for i := range after.APIKeys {
			k := &after.APIKeys[i]
			free = free || k.Profile != bound && !slices.ContainsFunc(before.APIKeys, func(o org.APIKey) bool { return o.ID == k.ID })
		}
		for i := range after.Authenticators {
			id := after.Authenticators[i].ID
			free = free || !slices.ContainsFunc(before.Authenticators, func(o org.Authenticator) bool { return o.ID == id })
		}
		for i := range after.OauthProviders {
			id := after.OauthProviders[i].ID
			free = free || !slices.ContainsFunc(before.OauthProviders, func(o org.OauthProvider) bool { return o.ID == id })
		}
		if free {
			return ErrBounded
		}
		return nil
	})
}

// finish completes an activity after its kind's Run: profile check, proof of the stamping credential, look-up keys.
func (t *Tx) finish() error {
	if err := t.boundNewSessions(); err != nil {
		return err
	}
	if err := t.prove(); err != nil {
		return err
	}
	return t.Link()
}

// How returns the origin of a credential that the activity adds to a user.
func (t *Tx) How() org.How {
	if t.Presented == 0 {
		return org.HowInside
	}
	return t.Presented
}

// prove records that the stamping credential has stamped an activity of this sub-organization. Log-ins that name only the
// parent find a proven credential before unproven ones. Session keys are not recorded: log-ins never look them up.
func (t *Tx) prove() error {
	o, err := t.Organization()
	if err != nil || o == nil || o.Parent.Zero() || o.Deleted || t.Stamped.ID.Zero() {
		return err
	}
	old, err := t.Tx.User(t.User)
	if err != nil || old == nil {
		return err // the activity has deleted the user
	}
	// The record is copied only where it changes: almost always the credential has stamped before.
	if i := slices.IndexFunc(old.APIKeys, func(k org.APIKey) bool { return k.ID == t.Stamped.ID }); i >= 0 {
		if k := &old.APIKeys[i]; k.How == org.HowProven || !k.Leads() {
			return nil
		}
		u := *old
		u.APIKeys = slices.Clone(old.APIKeys)
		u.APIKeys[i].How = org.HowProven
		return t.PutUser(&u)
	}
	i := slices.IndexFunc(old.Authenticators, func(a org.Authenticator) bool { return a.ID == t.Stamped.ID })
	if i < 0 || old.Authenticators[i].How == org.HowProven {
		return nil
	}
	u := *old
	u.Authenticators = slices.Clone(old.Authenticators)
	u.Authenticators[i].How = org.HowProven
	return t.PutUser(&u)
}

// Link updates, in the same transaction, the keys by which the parent looks up users of a sub-organization. Run calls it:
// kinds that change users need not.
func (t *Tx) Link() error {
	o, err := t.Organization()
	if err != nil || o == nil || o.Parent.Zero() {
		return err
	}
	c := &org.Child{ID: t.ID, CreatedMs: o.CreatedMs}
	return t.EachChangedUser(func(before, after *org.User) error {
		if !org.LinkChanges(before, after) {
			return nil
		}
		parent, err := t.ParentRecords()
		if err != nil {
			return err
		}
		return parent.LinkUser(c, before, after)
	})
}
