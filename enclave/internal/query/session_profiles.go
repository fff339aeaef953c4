package query

import "cloister/enclave/internal/org"

var sessionProfiles = []*Query{
	stateQuery("get_session_profile", getSessionProfile),
	stateQuery("get_session_profiles", getSessionProfiles),
}

type sessionProfileRequest struct {
	Head
	SessionProfileID string `json:"sessionProfileId" rule:"required"`
}

func getSessionProfile(v *View, in *sessionProfileRequest) ([]byte, error) {
	top, err := v.top()
	if err != nil {
		return nil, err
	}
	p, err := findNamed("session profile", "sessionProfileId", in.SessionProfileID, top.SessionProfile)
	return one(`{"sessionProfile":`, p, err, appendSessionProfile)
}

func getSessionProfiles(v *View, _ *organizationRequest) ([]byte, error) {
	top, err := v.top()
	if err != nil {
		return nil, err
	}
	ps, err := inOrder(top.EachSessionProfile, func(p *org.SessionProfile) created { return created{p.CreatedMs, p.ID} })
	return many(`{"sessionProfiles":`, ps, err, appendSessionProfile)
}

func appendSessionProfile(dst []byte, p *org.SessionProfile) []byte {
	dst = ident(dst, `{"sessionProfileId":`, p.ID)
	dst = text(dst, `,"sessionProfileName":`, p.Name)
	dst = text(dst, `,"scope":`, p.Scope)
	if p.Seconds != 0 {
		dst = number(dst, `,"expirationSeconds":`, p.Seconds)
	}
	if p.Notes != nil {
		dst = text(dst, `,"notes":`, *p.Notes)
	}
	return append(appendTimes(dst, p.CreatedMs, p.UpdatedMs), '}')
}
