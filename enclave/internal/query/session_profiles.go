package query

import (
	"slices"
	"strconv"

	"cloister/enclave/internal/org"
)

var sessionProfiles = []*Query{
	stateQuery("get_session_profile", getSessionProfile),
	stateQuery("get_session_profiles", getSessionProfiles),
}

// SessionProfileRequest names a session profile.
type SessionProfileRequest struct {
	Head
	SessionProfileID string `json:"sessionProfileId" rule:"required"`
}

func getSessionProfile(v *View, in *SessionProfileRequest) ([]byte, error) {
	top, err := v.top()
	if err != nil {
		return nil, err
	}
	p, err := findNamed("session profile", "sessionProfileId", in.SessionProfileID, top.SessionProfile)
	if err != nil {
		return nil, err
	}
	return append(appendSessionProfile([]byte(`{"sessionProfile":`), p), '}'), nil
}

func getSessionProfiles(v *View, _ *OrganizationRequest) ([]byte, error) {
	top, err := v.top()
	if err != nil {
		return nil, err
	}
	var ps []*org.SessionProfile
	err = top.EachSessionProfile(func(p *org.SessionProfile) bool {
		ps = append(ps, p)
		return true
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(ps, func(a, b *org.SessionProfile) int { return compareCreated(a.CreatedMs, a.ID, b.CreatedMs, b.ID) })
	return append(array(nil, `{"sessionProfiles":`, ps, appendSessionProfile), '}'), nil
}

func appendSessionProfile(dst []byte, p *org.SessionProfile) []byte {
	dst = ident(dst, `{"sessionProfileId":`, p.ID)
	dst = text(dst, `,"sessionProfileName":`, p.Name)
	dst = text(dst, `,"scope":`, p.Scope)
	if p.Seconds != 0 {
		dst = strconv.AppendUint(append(dst, `,"expirationSeconds":"`...), p.Seconds, 10)
		dst = append(dst, '"')
	}
	if p.Notes != nil {
		dst = text(dst, `,"notes":`, *p.Notes)
	}
	return append(times(dst, p.CreatedMs, p.UpdatedMs), '}')
}
