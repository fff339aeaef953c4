package activity

import (
	"encoding/base64"
	"encoding/hex"
	"strconv"

	"cloister/enclave/internal/org"
	"cloister/enclave/internal/stamp"
	"cloister/enclave/internal/strictjson"
)

// ActivityView holds the caller-specific data with which an activity is rendered.
type ActivityView struct {
	// Users finds the users who voted; nil, or a nil result, for a deleted user.
	Users func(org.ID) *org.User
	// Pending is an activity that waits, nil for any other: its approvals that are void at NowMs are not shown.
	Pending *org.Pending
	NowMs   uint64
	// CanApprove and CanReject are the caller's flags: see Votable.
	CanApprove, CanReject bool
	// Intent is the output of AppendIntent, if the caller has it. Otherwise the entry's body is decoded again.
	Intent []byte
}

// ReadPending sets Pending to the activity whose newest entry is e.
func (v *ActivityView) ReadPending(tx *org.Tx, e *org.Entry) (err error) {
	if e.Status.Terminal() {
		return nil
	}
	v.NowMs = tx.NowMs
	v.Pending, err = tx.PendingBy(e.Fingerprint)
	return err
}

// AppendActivity writes an Activity object from the newest entry of the activity.
func (t Table) AppendActivity(dst []byte, e *org.Entry, organization org.ID, view ActivityView) []byte {
	dst = AppendID(dst, `{"id":`, e.Activity)
	dst = AppendID(dst, `,"organizationId":`, organization)
	dst = AppendText(dst, `,"status":`, e.Status.String())
	dst = AppendText(dst, `,"type":`, e.Type)
	dst = append(dst, `,"intent":`...)
	if view.Intent != nil {
		dst = append(dst, view.Intent...)
	} else {
		dst = t.appendIntentOf(dst, e)
	}
	dst = append(dst, `,"result":`...)
	if len(e.Result) == 0 {
		dst = append(dst, `{}`...)
	} else {
		dst = append(dst, e.Result...)
	}
	dst = append(dst, `,"votes":[`...)
	open := len(dst)
	for i := range e.Votes {
		v := &e.Votes[i]
		var u *org.User
		if view.Users != nil {
			u = view.Users(v.User)
		}
		if u == nil {
			if !e.Status.Terminal() && view.Users != nil {
				continue // the user is deleted, and so is the vote
			}
			u = &org.User{ID: v.User, Name: v.UserName}
		} else if p := view.Pending; p != nil {
			if cast := p.VoteOf(v.User); cast != nil && IsVoid(u, cast, view.NowMs) {
				continue
			}
		}
		if len(dst) > open {
			dst = append(dst, ',')
		}
		dst = t.appendVote(dst, e, v, u)
	}
	dst = append(dst, ']')
	if len(e.Proofs) > 0 {
		dst = AppendProofs(append(dst, `,"appProofs":`...), e.Proofs)
	}
	dst = append(dst, `,"fingerprint":"`...)
	dst = append(AppendFingerprint(dst, e.Fingerprint), '"')
	dst = strconv.AppendBool(append(dst, `,"canApprove":`...), view.CanApprove)
	dst = strconv.AppendBool(append(dst, `,"canReject":`...), view.CanReject)
	dst = appendTimes(dst, e.CreatedMs, e.TimeMs)
	dst = appendFailure(append(dst, `,"failure":`...), e.Failure)
	return append(dst, '}')
}

// AppendFingerprint writes a fingerprint: `sha256:` and hex.
func AppendFingerprint(dst []byte, h org.Hash) []byte {
	return hex.AppendEncode(append(dst, `sha256:`...), h[:])
}

// appendIntentOf decodes the intent from the entry's body and writes it. A body that today's rules refuse is written
// as it was sent, unless its type has secrets.
func (t Table) appendIntentOf(dst []byte, e *org.Entry) []byte {
	v := t[e.Type]
	s, err := ParseStored(stamp.StoredBody(e.Body))
	if v == nil || err != nil {
		return append(dst, `{}`...)
	}
	if in, err := v.Decode(s.Parameters); err == nil {
		return v.AppendIntent(dst, in)
	}
	dst = append(append(append(dst, `{"`...), v.IntentKey...), `":`...)
	if v.secret {
		return append(dst, `{}}`...)
	}
	return append(append(dst, s.Parameters...), '}')
}

func (t Table) appendVote(dst []byte, e *org.Entry, v *org.Vote, u *org.User) []byte {
	dst = AppendID(dst, `{"id":`, v.ID)
	dst = AppendID(dst, `,"userId":`, v.User)
	dst = AppendUser(append(dst, `,"user":`...), u)
	dst = AppendID(dst, `,"activityId":`, e.Activity)
	selection := `,"selection":"VOTE_SELECTION_APPROVED"`
	if v.Rejected {
		selection = `,"selection":"VOTE_SELECTION_REJECTED"`
	}
	dst = append(dst, selection...)
	message := v.Message
	if of := t[e.Type]; len(message) == 0 && of != nil && !of.secret {
		message = e.Body
	}
	dst = AppendText(dst, `,"message":`, string(message))
	dst = AppendText(dst, `,"publicKey":`, v.PublicKey)
	dst = AppendText(dst, `,"signature":`, v.Signature)
	dst = AppendText(dst, `,"scheme":`, v.Scheme)
	dst = AppendTime(append(dst, `,"createdAt":`...), v.CreatedMs)
	return append(dst, '}')
}

// AppendProofs writes an array of AppProof objects.
func AppendProofs(dst []byte, ps []org.Proof) []byte {
	return AppendList(dst, "", ps, AppendProof)
}

// AppendProof writes an AppProof object.
func AppendProof(dst []byte, p *org.Proof) []byte {
	dst = append(dst, `{"scheme":"SIGNATURE_SCHEME_EPHEMERAL_KEY_P256"`...)
	dst = AppendHex(dst, `,"publicKey":`, p.Key)
	dst = AppendText(dst, `,"proofPayload":`, p.Payload)
	dst = AppendHex(dst, `,"signature":`, p.Signature)
	return append(dst, '}')
}

// AppendUser writes a User object.
func AppendUser(dst []byte, u *org.User) []byte {
	dst = AppendID(dst, `{"userId":`, u.ID)
	dst = AppendText(dst, `,"userName":`, u.Name)
	if u.Email != "" {
		dst = AppendText(dst, `,"userEmail":`, u.Email)
	}
	if u.Phone != "" {
		dst = AppendText(dst, `,"userPhoneNumber":`, u.Phone)
	}
	dst = AppendList(dst, `,"authenticators":`, u.Authenticators, AppendAuthenticator)
	dst = AppendList(dst, `,"apiKeys":`, u.APIKeys, AppendAPIKey)
	dst = appendIDs(dst, `,"userTags":`, u.Tags)
	dst = AppendList(dst, `,"oauthProviders":`, u.OauthProviders, AppendOauthProvider)
	dst = appendTimes(dst, u.CreatedMs, u.UpdatedMs)
	dst = AppendList(dst, `,"mfaPolicies":`, u.MFAPolicies, AppendMFAPolicy)
	return append(dst, '}')
}

// AppendOauthProvider writes an OauthProvider object.
func AppendOauthProvider(dst []byte, p *org.OauthProvider) []byte {
	dst = AppendID(dst, `{"providerId":`, p.ID)
	dst = AppendText(dst, `,"providerName":`, p.Name)
	dst = AppendText(dst, `,"issuer":`, p.Issuer)
	dst = AppendText(dst, `,"audience":`, p.Audience)
	dst = AppendText(dst, `,"subject":`, p.Subject)
	return append(appendTimes(dst, p.CreatedMs, p.UpdatedMs), '}')
}

// AppendTag writes a Tag object.
func AppendTag(dst []byte, t *org.Tag) []byte {
	dst = AppendID(dst, `{"tagId":`, t.ID)
	dst = AppendText(dst, `,"tagName":`, t.Name)
	dst = AppendText(dst, `,"tagType":`, t.Type)
	return append(appendTimes(dst, t.CreatedMs, t.UpdatedMs), '}')
}

// AppendInvitation writes an Invitation object.
func AppendInvitation(dst []byte, i *org.Invitation) []byte {
	dst = AppendID(dst, `{"invitationId":`, i.ID)
	dst = AppendText(dst, `,"receiverUserName":`, i.UserName)
	dst = AppendText(dst, `,"receiverEmail":`, i.Email)
	dst = appendIDs(dst, `,"receiverUserTags":`, i.Tags)
	dst = AppendText(dst, `,"accessType":`, i.AccessType)
	dst = AppendText(dst, `,"status":`, i.Status)
	dst = AppendID(dst, `,"senderUserId":`, i.Sender)
	return append(appendTimes(dst, i.CreatedMs, i.UpdatedMs), '}')
}

func appendIDs(dst []byte, key string, ids []org.ID) []byte {
	return AppendList(dst, key, ids, func(dst []byte, id *org.ID) []byte { return AppendID(dst, "", *id) })
}

// appendTimes writes the times of creation and last update, which every record has.
func appendTimes(dst []byte, createdMs, updatedMs uint64) []byte {
	dst = AppendTime(append(dst, `,"createdAt":`...), createdMs)
	return AppendTime(append(dst, `,"updatedAt":`...), updatedMs)
}

// AppendAPIKey writes an ApiKey object.
func AppendAPIKey(dst []byte, k *org.APIKey) []byte {
	dst = AppendText(dst, `{"credential":{"publicKey":`, k.PublicKey)
	dst = AppendText(dst, `,"type":`, k.Type)
	if !k.Profile.Zero() {
		dst = AppendID(dst, `,"sessionProfileId":`, k.Profile)
	}
	dst = AppendID(append(dst, '}'), `,"apiKeyId":`, k.ID)
	dst = AppendText(dst, `,"apiKeyName":`, k.Name)
	dst = appendTimes(dst, k.CreatedMs, k.UpdatedMs)
	if k.ExpirationSeconds != 0 {
		dst = strconv.AppendUint(append(dst, `,"expirationSeconds":"`...), k.ExpirationSeconds, 10)
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

// AppendAuthenticator writes an Authenticator object. The model is unknown: no service is asked about AAGUIDs.
func AppendAuthenticator(dst []byte, a *org.Authenticator) []byte {
	dst = AppendList(dst, `{"transports":`, a.Transports, func(dst []byte, t *string) []byte { return AppendText(dst, "", *t) })
	dst = AppendText(dst, `,"attestationType":`, a.Attestation)
	dst = AppendID(dst, `,"aaguid":`, a.AAGUID)
	dst = AppendText(dst, `,"credentialId":`, base64.RawURLEncoding.EncodeToString(a.CredentialID))
	dst = append(dst, `,"model":""`...)
	dst = AppendHex(dst, `,"credential":{"publicKey":`, a.PublicKey)
	dst = append(dst, `,"type":"CREDENTIAL_TYPE_WEBAUTHN_AUTHENTICATOR"}`...)
	dst = AppendID(dst, `,"authenticatorId":`, a.ID)
	dst = AppendText(dst, `,"authenticatorName":`, a.Name)
	return append(appendTimes(dst, a.CreatedMs, a.UpdatedMs), '}')
}

// AppendMFAPolicy writes an MfaPolicy object.
func AppendMFAPolicy(dst []byte, p *org.MFAPolicy) []byte {
	dst = AppendID(dst, `{"mfaPolicyId":`, p.ID)
	dst = AppendText(dst, `,"mfaPolicyName":`, p.Name)
	dst = AppendText(dst, `,"condition":`, p.Condition)
	dst = AppendList(dst, `,"requiredAuthenticationMethods":`, p.Required, AppendMFAMethod)
	dst = strconv.AppendUint(append(dst, `,"order":`...), uint64(p.Order), 10)
	if p.Notes != "" {
		dst = AppendText(dst, `,"notes":`, p.Notes)
	}
	return append(appendTimes(dst, p.CreatedMs, p.UpdatedMs), '}')
}

// AppendFactor writes an AuthenticationMethod object.
func AppendFactor(dst []byte, f *org.Factor) []byte {
	dst = AppendText(dst, `{"type":`, f.Type)
	if f.ID != nil {
		dst = AppendID(dst, `,"id":`, *f.ID)
	}
	return append(dst, '}')
}

// AppendMFAMethod writes a RequiredAuthenticationMethod object.
func AppendMFAMethod(dst []byte, m *org.MFAMethod) []byte {
	return append(AppendList(dst, `{"any":`, m.Any, AppendFactor), '}')
}

// AppendTime writes a Timestamp object. The interface counts whole seconds.
func AppendTime(dst []byte, ms uint64) []byte {
	dst = append(dst, `{"seconds":"`...)
	dst = strconv.AppendUint(dst, ms/1000, 10)
	return append(dst, `","nanos":"0"}`...)
}

// AppendID writes a member whose value is an id. key is `"name":` with the separator before it.
func AppendID(dst []byte, key string, id org.ID) []byte {
	dst = append(append(dst, key...), '"')
	return append(id.Append(dst), '"')
}

// AppendHex writes a member whose value is hex. key is as for AppendID.
func AppendHex(dst []byte, key string, b []byte) []byte {
	dst = append(append(dst, key...), '"')
	return append(hex.AppendEncode(dst, b), '"')
}

// AppendText writes a member whose value is a string. key is as for AppendID.
func AppendText[text string | []byte](dst []byte, key string, s text) []byte {
	return strictjson.AppendString(append(dst, key...), s)
}

// AppendList writes a member whose value is a list. key is as for AppendID.
func AppendList[T any](dst []byte, key string, list []T, element func([]byte, *T) []byte) []byte {
	dst = append(append(dst, key...), '[')
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = element(dst, &list[i])
	}
	return append(dst, ']')
}
