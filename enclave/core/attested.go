package core

import (
	"cloister/enclave/core/internal/tenant"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/user"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/stamp"
)

// A voucher is a token that vouches for a key which belongs to no user: it names the
// user for whom the key has signed.
type voucher interface {
	// find returns the user of tx's organization for whom the token vouches, nil if there is none.
	find(tx *org.Tx) (*vouched, error)
	// childrenWith returns sub-organizations of tx's organization with a user for whom the token may vouch, two at most.
	childrenWith(tx *org.Tx) ([]org.ID, error)
}

// vouched is a user, the credential that a token proves, and the verified token.
type vouched struct {
	user   *org.User
	proven org.VoteCredential
	by     stamp.Voucher
}

// errAttested refuses attested stamps, which come from clients without a key of their user,
// where they are not accepted.
var errAttested = fault.WithCode(fault.Unauthenticated, "SIGNATURE_INVALID",
	"could not verify attested stamp: a token vouches for who starts a session or approves an activity, and for nothing else")

// readVoucher parses the token of an attested stamp.
func (v *callState) readVoucher(a *stamp.Attested) (voucher, error) {
	if !a.OIDC() {
		return v.readVerification(a)
	}
	token, err := login.ParseIdentityToken("X-Stamp-Attested", a.Token())
	if err != nil {
		return nil, attestedError(err)
	}
	by := &identityVoucher{call: v, token: token}
	if by.subject, by.audiences, err = token.Claims(v.core.now()); err != nil {
		return nil, attestedError(err)
	}
	if by.attempt, err = token.Attempt(v.core.now()); err != nil {
		return nil, attestedError(err)
	}
	return by, nil
}

// attestedError is the error of a bad token of an attested stamp.
func attestedError(err error) error {
	if f := fault.Of(err); f != nil {
		return fault.WithCode(fault.Unauthenticated, f.Name, "could not verify attested stamp: %s", f.Message)
	}
	return err
}

// voucherUser is requester.credential for a stamp that a token vouches for.
func (s *requester) voucherUser(tx *org.Tx) (*caller, error) {
	v, err := s.voucher.find(tx)
	if err != nil {
		return nil, err
	}
	if v == nil {
		return nil, errUnknownCredential(tx)
	}
	if s.caller, err = s.attested.Verify(v.by); err != nil {
		return nil, err
	}
	return &caller{user: v.user, credential: v.proven}, s.call.chargeRate(tx, v.proven.ID.String())
}

// identityVoucher is an identity token. Its issuer's keys are fetched only if a user has the
// identity that the token claims, so that the enclave asks only issuers that users have named.
type identityVoucher struct {
	call      *callState
	token     *login.Unverified
	subject   string
	audiences []string
	attempt   org.Hash
	verified  *login.Identity // set by an earlier attempt
}

func (v *identityVoucher) find(tx *org.Tx) (*vouched, error) {
	u, p, err := user.UserByIdentity(tx, v.token.Issuer(), v.subject, v.audiences, v.attempt)
	if u == nil || err != nil {
		return nil, err
	}
	if v.verified == nil {
		if v.call.lookups.Tenant, err = tenant.Of(tx); err != nil {
			return nil, err
		}
		set, err := v.call.lookups.Keys("X-Stamp-Attested", v.token.Issuer(), v.token.KnownTo)
		if f := fault.Of(err); err != nil && (f == nil || f.Code == fault.Unavailable) {
			return nil, err
		}
		if v.verified, err = v.token.Verify(set, tx.NowMs); err != nil {
			return nil, nil
		}
	}
	if err := user.CheckIssued("X-Stamp-Attested", u, v.verified); err != nil {
		return nil, attestedError(err)
	}
	return &vouched{u, activity.IdentityCredential(p), v.verified}, nil
}

func (v *identityVoucher) childrenWith(tx *org.Tx) (ids []org.ID, err error) {
	for _, audience := range v.audiences {
		more, err := tx.ChildrenByIdentity(org.IdentityText(v.token.Issuer(), v.subject, audience), v.attempt)
		if err != nil {
			return nil, err
		}
		for _, id := range more {
			if len(ids) == 0 || len(ids) == 1 && ids[0] != id {
				ids = append(ids, id)
			}
		}
	}
	return ids, nil
}

// verificationVoucher is a verification token that the enclave has issued itself.
type verificationVoucher struct{ token *login.VerificationToken }

// readVerification parses a verification token that is bound to the key of the stamp. It
// refuses one from before this enclave had the organization: it may have been used.
func (v *callState) readVerification(a *stamp.Attested) (voucher, error) {
	u, err := login.ReadVerificationToken("X-Stamp-Attested", a.Token(), v.core.serving.tokenKeys(), v.core.now())
	if err != nil {
		return nil, attestedError(err)
	}
	if _, err := a.Verify(u); err != nil {
		return nil, err
	}
	t, err := u.ByStamp(a.PublicKey())
	if err != nil {
		return nil, err
	}
	id, err := org.ParseID(t.ID)
	if err != nil {
		return nil, err // the enclave has issued the token: an internal error
	}
	of, err := org.ParseID(t.OrganizationID)
	if err != nil {
		return nil, err
	}
	sinceMs, err := v.core.serving.Ranges.SinceMs(of)
	if err != nil {
		return nil, err
	}
	if id.Ms() < sinceMs {
		return nil, attestedError(login.ExpiredVerificationToken("X-Stamp-Attested"))
	}
	return &verificationVoucher{t}, nil
}

// find accepts tokens of the organization itself and of its parent.
func (v *verificationVoucher) find(tx *org.Tx) (*vouched, error) {
	o, err := tx.Organization()
	if err != nil || v.token.OrganizationID != tx.ID.String() && v.token.OrganizationID != o.Parent.String() {
		return nil, err
	}
	u, err := user.UserByContact(tx, v.token)
	if u == nil || err != nil {
		return nil, err
	}
	return &vouched{u, activity.ContactCredential(v.token), v.token}, nil
}

// bindToken restricts a caller with a verification token to the profile of the session that got the token. The token's
// issuer, the organization or its parent, has recorded that session.
func (s *attempt) bindToken() error {
	v, ok := s.request.requester.voucher.(*verificationVoucher)
	if !ok {
		return nil
	}
	issuer := s.tx
	if v.token.OrganizationID != s.tx.ID.String() {
		if s.parent == nil {
			return activity.ErrNeedsParent
		}
		issuer = s.parent.Begin(s.tx.NowMs)
	}
	id, err := org.ParseID(v.token.ID)
	if err != nil {
		return err // the enclave has issued the token: an internal error
	}
	issued, err := issuer.Verification(id)
	switch {
	case err != nil:
		return err
	case issued == nil || id.Ms() < s.caller.user.NotBeforeMs:
		return attestedError(login.ExpiredVerificationToken("X-Stamp-Attested"))
	}
	s.caller.credential.Profile = issued.Profile
	return nil
}

func (v *verificationVoucher) childrenWith(tx *org.Tx) ([]org.ID, error) {
	if v.token.OrganizationID != tx.ID.String() {
		return nil, nil
	}
	return tx.ChildrenBy(user.ChildVerified(v.token.Type), login.ContactKey(v.token.Type, v.token.Contact), nil, 2)
}
