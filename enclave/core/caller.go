package core

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/auth"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// caller is the user who made a verified stamp, from the newest state, with the credential that made it.
type caller struct {
	user       *org.User
	credential org.VoteCredential
	passkey    *org.Authenticator // nil for a key
	parent     *org.Organization  // of a user of the parent, who may only read; else nil
	proxy      bool               // the auth proxy
}

// unknownCredential is the error of an organization that does not have a credential. Its parent may have it.
type unknownCredential struct {
	parent  org.ID
	deleted bool
}

func (*unknownCredential) Error() string { return "unknown credential" }

// errUnknownCredential is an unknownCredential of tx's organization.
func errUnknownCredential(tx *org.Tx) error {
	o, err := tx.Organization()
	if err != nil {
		return err
	}
	return &unknownCredential{o.Parent, o.Deleted}
}

// authenticate finds the user whose credential made the stamp: none in a deleted organization.
func (s *requester) authenticate(tx *org.Tx) (*caller, error) {
	who, err := s.credential(tx)
	if err != nil {
		return nil, err
	}
	o, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	if o.Deleted {
		return nil, &unknownCredential{o.Parent, true}
	}
	return who, nil
}

// credential is authenticate, but also finds credentials of deleted organizations: the user who deleted one may send
// the request again.
func (s *requester) credential(tx *org.Tx) (*caller, error) {
	if s.session != nil {
		return s.sessionUser(tx)
	}
	if s.voucher != nil {
		return s.voucherUser(tx)
	}
	curve, public := s.credentialName()
	cred, err := tx.Credential(curve, public)
	if err != nil {
		return nil, err
	}
	if cred == nil {
		return nil, errUnknownCredential(tx)
	}
	u, err := tx.User(cred.User)
	if err != nil {
		return nil, err
	}
	if u == nil {
		return nil, errors.New("credential without a user")
	}
	if s.passkey != nil {
		i := slices.IndexFunc(u.Authenticators, func(a org.Authenticator) bool { return a.ID == cred.Key })
		if i < 0 {
			return nil, errors.New("credential without an authenticator")
		}
		a := &u.Authenticators[i]
		if err := s.verify(tx, a); err != nil {
			return nil, err
		}
		return &caller{user: u, credential: activity.PasskeyCredential(a), passkey: a}, s.call.chargeRate(tx, public)
	}
	i := slices.IndexFunc(u.APIKeys, func(k org.APIKey) bool { return k.ID == cred.Key })
	if i < 0 {
		return nil, errors.New("credential without a key")
	}
	k := &u.APIKeys[i]
	if k.Proxy != s.proxy { // the auth proxy's key can stamp only calls to the proxy, and no other key can
		return nil, errUnknownCredential(tx)
	}
	if k.Expired(tx.NowMs) {
		return nil, fault.WithCode(fault.Unauthenticated, "API_KEY_EXPIRED",
			"rpc error: code = Unauthenticated desc = expired api key publicKey=%s: could not find public key in organization or its parent organization: organizationId=%s", public, tx.ID)
	}
	payer := public
	if k.Proxy { // all callers of the proxy share it; the proxy has its own rates
		payer = ""
	}
	return &caller{user: u, credential: activity.APIKeyCredential(k), proxy: k.Proxy}, s.call.chargeRate(tx, payer)
}

// sessionUser returns the user of a read-only session, in the session's own organization only. The session ends with
// the user, and with the credential that created it.
func (s *requester) sessionUser(tx *org.Tx) (*caller, error) {
	if s.session.OrganizationID != tx.ID.String() {
		return nil, &unknownCredential{}
	}
	o, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	id, err := org.ParseID(s.session.UserID)
	if err != nil {
		return nil, err // the enclave has issued the token: an internal error
	}
	u, err := tx.User(id)
	if err != nil {
		return nil, err
	}
	who := &caller{user: u}
	key, passkey := auth.CredentialOf(u, s.session.PublicKey, tx.NowMs)
	switch {
	case key != nil:
		who.credential = activity.APIKeyCredential(key)
	case passkey != nil:
		who.credential, who.passkey = activity.PasskeyCredential(passkey), passkey
	default:
		return nil, &unknownCredential{deleted: o.Deleted}
	}
	return who, s.call.chargeRate(tx, s.session.PublicKey)
}

// unknownKey is the same error for an unknown credential and for a deleted organization, so that outsiders do not learn that it is
// deleted. Clients search its message for the text. That there was never an organization with an id reveals nothing about anybody:
// that is activity.NoOrganization.
func unknownKey(id org.ID, s *requester) error {
	if s.passkey != nil {
		return fault.WithCode(fault.Unauthenticated, "CREDENTIAL_NOT_FOUND",
			"credential ID could not be found in organization or its parent organization: organizationId=%s", id)
	}
	_, public := s.credentialName()
	return fault.WithCode(fault.Unauthenticated, "PUBLIC_KEY_NOT_FOUND",
		"could not find public key in organization or its parent organization: organizationId=%s publicKey=%s", id, public)
}

// childrenWith returns the sub-organizations of tx's organization that have the requester's credential, two at
// most.
func (s *requester) childrenWith(tx *org.Tx) ([]org.ID, error) {
	if s.session != nil {
		return nil, nil
	}
	if s.voucher != nil {
		return s.voucher.childrenWith(tx)
	}
	curve, public := s.credentialName()
	return tx.Leads(curve + ":" + public)
}

// redirectToChild redirects the transaction to the one sub-organization that has the requester's credential, if
// there is one, and sets id to it.
func (s *requester) redirectToChild(tx *org.Tx, id *org.ID) error {
	below, err := s.childrenWith(tx)
	switch {
	case err != nil || len(below) == 0:
		return err
	case len(below) > 1:
		return errConflict
	}
	*id = below[0]
	return &org.Retry{Redirect: below[0]}
}

var (
	errRecovery = fault.WithCode(fault.PermissionDenied, "FORBIDDEN", "the key of a recovery can only stamp recover_user")
	errConflict = fault.WithCode(fault.Unauthenticated, "CREDENTIAL_CONFLICT", "more than one suborg associated with a public key")
)

// callerInParent finds the user of the parent whose credential the sub-organization does not have. The parent's
// allowlists apply to its users as in the parent itself.
func (s *requester) callerInParent(ctx context.Context, unknown *unknownCredential, id org.ID, from string) (u *caller, err error) {
	if unknown.parent.Zero() || s.session != nil || s.voucher != nil {
		return nil, unknownKey(id, s)
	}
	err = s.call.WithLock(ctx, unknown.parent, func(t *ledger.Locked) (err error) {
		tx := t.Begin(s.call.core.now())
		if u, err = s.authenticate(tx); err != nil {
			return err
		}
		t.Touch()
		if err = checkAllowlist(tx, u, from); err != nil {
			return err
		}
		u.parent, err = tx.Organization()
		return err
	})
	switch {
	case errors.As(err, new(*unknownCredential)) || errors.Is(err, ledger.ErrNoOrganization):
		err = unknownKey(id, s)
	case err == nil && unknown.deleted: // those who may read learn that it is deleted
		err = activity.NoOrganization(id)
	}
	return u, err
}

// refuseUnknown refuses a submit by a credential that the organization does not have. For a user of the parent
// the error says that he may only read.
func (r *request) refuseUnknown(ctx context.Context, unknown *unknownCredential) error {
	if _, err := r.requester.callerInParent(ctx, unknown, r.organization, r.from); err != nil {
		return err
	}
	return fault.WithCode(fault.InvalidArgument, "ORGANIZATION_MISMATCH", "organization mismatch: request targets organization %s, voters are in %s", r.organization, unknown.parent)
}

// scope returns the scope of the profile of the session key that stamped, nil for other credentials.
// Session profiles are in the top-level organization.
func scope(tx *org.Tx, parent *ledger.Locked, cred *org.VoteCredential) (*policy.Program, error) {
	if cred.Profile.Zero() {
		return nil, nil
	}
	o, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	home := tx
	if !o.Parent.Zero() {
		if parent == nil {
			return nil, activity.ErrNeedsParent
		}
		home = parent.Begin(tx.NowMs)
	}
	p, err := home.SessionProfile(cred.Profile)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, fault.New(fault.PermissionDenied, "the session's profile is gone")
	}
	return auth.CompiledScope(p)
}

// checkAllowlist refuses a request from an address that is not on the allowlist of a top-level organization, if
// that has one. It stops users of a stolen key; the host, which reports the address, may lie. Callers of the
// auth proxy are not users of the organization.
func checkAllowlist(tx *org.Tx, who *caller, from string) error {
	all, err := tx.Allowlist("")
	if err != nil || all == nil || !all.Enabled || who.proxy {
		return err
	}
	rules := all.Rules
	if who.passkey == nil {
		own, err := tx.Allowlist(who.credential.PublicKey)
		if err != nil {
			return err
		}
		if own != nil && len(own.Rules) > 0 {
			rules = own.Rules
		}
	}
	ip, err := netip.ParseAddr(from)
	if err != nil {
		if all.OnError == "ALLOW" {
			return nil
		}
		return fault.WithCode(fault.PermissionDenied, "FORBIDDEN", "request not authorized: its address is not known and the organization has an IP allowlist")
	}
	for i := range rules {
		if p, err := netip.ParsePrefix(rules[i].CIDR); err == nil && p.Contains(ip.Unmap()) {
			return nil
		}
	}
	return fault.WithCode(fault.PermissionDenied, "FORBIDDEN", "request not authorized: address %s is not on the IP allowlist", ip)
}
