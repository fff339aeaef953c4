package activity

import (
	"encoding/hex"
	"strconv"

	"cloister/enclave/internal/org"
)

// ActivityView is how an activity looks to one caller.
type ActivityView struct {
	// Users finds the users who voted; nil, or a nil answer, for one who is gone.
	Users func(org.ID) *org.User
	// CanApprove and CanReject are the caller's: see Votable.
	CanApprove, CanReject bool
	// Intent is what AppendIntent wrote, if the caller has it; otherwise it is
	// read from the entry's body again.
	Intent []byte
}

// AppendActivity writes an Activity object from the newest entry of the activity.
func AppendActivity(dst []byte, e *org.Entry, organization org.ID, view ActivityView) []byte {
	dst = appendID(dst, `{"id":`, e.Activity)
	dst = appendID(dst, `,"organizationId":`, organization)
	dst = appendText(dst, `,"status":`, e.Status.String())
	dst = appendText(dst, `,"type":`, e.Type)
	dst = append(dst, `,"intent":`...)
	if view.Intent != nil {
		dst = append(dst, view.Intent...)
	} else {
		dst = appendIntentOf(dst, e)
	}
	dst = append(dst, `,"result":`...)
	if len(e.Result) == 0 {
		dst = append(dst, `{}`...)
	} else {
		dst = append(dst, e.Result...)
	}
	dst = append(dst, `,"votes":[`...)
	for i := range e.Votes {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendVote(dst, e, &e.Votes[i], view.Users)
	}
	dst = append(dst, ']')
	if len(e.Proofs) > 0 {
		dst = AppendProofs(append(dst, `,"appProofs":`...), e.Proofs)
	}
	dst = append(dst, `,"fingerprint":"`...)
	dst = append(AppendFingerprint(dst, e.Fingerprint), '"')
	dst = strconv.AppendBool(append(dst, `,"canApprove":`...), view.CanApprove)
	dst = strconv.AppendBool(append(dst, `,"canReject":`...), view.CanReject)
	dst = AppendTime(append(dst, `,"createdAt":`...), e.CreatedMs)
	dst = AppendTime(append(dst, `,"updatedAt":`...), e.TimeMs)
	dst = appendFailure(append(dst, `,"failure":`...), e.Failure)
	return append(dst, '}')
}

// AppendFingerprint writes `sha256:` and hex.
func AppendFingerprint(dst []byte, h org.Hash) []byte {
	return hex.AppendEncode(append(dst, `sha256:`...), h[:])
}

// appendIntentOf reads the intent from the entry's body. An intent that today's
// rules would refuse is shown as it was sent.
func appendIntentOf(dst []byte, e *org.Entry) []byte {
	s, err := ParseSubmit(e.Body)
	if err != nil {
		return append(dst, `{}`...)
	}
	v := live[e.Type]
	if v == nil {
		return append(dst, `{}`...)
	}
	if in, err := v.Decode(s.Parameters); err == nil {
		return v.AppendIntent(dst, in)
	}
	dst = append(append(append(dst, `{"`...), v.IntentKey...), `":`...)
	return append(append(dst, s.Parameters...), '}')
}

func appendVote(dst []byte, e *org.Entry, v *org.Vote, users func(org.ID) *org.User) []byte {
	var u *org.User
	if users != nil {
		u = users(v.User)
	}
	if u == nil {
		u = &org.User{ID: v.User, Name: v.UserName}
	}
	dst = appendID(dst, `{"id":`, v.ID)
	dst = appendID(dst, `,"userId":`, v.User)
	dst = AppendUser(append(dst, `,"user":`...), u)
	dst = appendID(dst, `,"activityId":`, e.Activity)
	selection := `,"selection":"VOTE_SELECTION_APPROVED"`
	if v.Rejected {
		selection = `,"selection":"VOTE_SELECTION_REJECTED"`
	}
	dst = append(dst, selection...)
	message := v.Message
	if len(message) == 0 {
		message = e.Body
	}
	dst = appendText(dst, `,"message":`, string(message))
	dst = appendText(dst, `,"publicKey":`, v.PublicKey)
	dst = appendText(dst, `,"signature":`, v.Signature)
	dst = appendText(dst, `,"scheme":`, v.Scheme)
	dst = AppendTime(append(dst, `,"createdAt":`...), v.CreatedMs)
	return append(dst, '}')
}

// AppendProofs writes an array of AppProof objects.
func AppendProofs(dst []byte, ps []org.Proof) []byte {
	dst = append(dst, '[')
	for i := range ps {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"scheme":"SIGNATURE_SCHEME_EPHEMERAL_KEY_P256"`...)
		dst = appendHex(dst, `,"publicKey":`, ps[i].Key)
		dst = appendText(dst, `,"proofPayload":`, string(ps[i].Payload))
		dst = appendHex(dst, `,"signature":`, ps[i].Signature)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// AppendUser writes a User object.
func AppendUser(dst []byte, u *org.User) []byte {
	dst = appendID(dst, `{"userId":`, u.ID)
	dst = appendText(dst, `,"userName":`, u.Name)
	if u.Email != "" {
		dst = appendText(dst, `,"userEmail":`, u.Email)
	}
	if u.Phone != "" {
		dst = appendText(dst, `,"userPhoneNumber":`, u.Phone)
	}
	dst = append(dst, `,"authenticators":[],"apiKeys":[`...)
	for i := range u.APIKeys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendAPIKey(dst, &u.APIKeys[i])
	}
	dst = append(dst, `],"userTags":[`...)
	for i, t := range u.Tags {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendID(dst, "", t)
	}
	dst = append(dst, `],"oauthProviders":[]`...)
	dst = AppendTime(append(dst, `,"createdAt":`...), u.CreatedMs)
	dst = AppendTime(append(dst, `,"updatedAt":`...), u.UpdatedMs)
	return append(dst, `,"mfaPolicies":[]}`...)
}

// AppendAPIKey writes an ApiKey object.
func AppendAPIKey(dst []byte, k *org.APIKey) []byte {
	dst = appendText(dst, `{"credential":{"publicKey":`, k.PublicKey)
	dst = appendText(dst, `,"type":`, k.Type)
	dst = appendID(append(dst, '}'), `,"apiKeyId":`, k.ID)
	dst = appendText(dst, `,"apiKeyName":`, k.Name)
	dst = AppendTime(append(dst, `,"createdAt":`...), k.CreatedMs)
	dst = AppendTime(append(dst, `,"updatedAt":`...), k.UpdatedMs)
	if k.ExpirationSeconds != 0 {
		dst = strconv.AppendUint(append(dst, `,"expirationSeconds":"`...), k.ExpirationSeconds, 10)
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

// Votable tells whether a member of organization o may approve or reject the
// activity: who may vote and has not voted so, whatever the status. For others,
// a parent's users among them, both are false.
func Votable(o *org.Organization, e *org.Entry, caller org.ID) (approve, reject bool) {
	if o == nil || !o.Root(caller) {
		return false, false
	}
	approve, reject = true, true
	for i := range e.Votes {
		if v := &e.Votes[i]; v.User == caller {
			approve, reject = v.Rejected, !v.Rejected
		}
	}
	return approve, reject
}
