package query

import (
	"strconv"
	"strings"

	"cloister/enclave/internal/org"
)

var ipAllowlists = []*Query{
	stateQuery("get_ip_allowlist", getAllowlist),
}

// AllowlistRequest asks for the networks of an API key, or of the organization.
type AllowlistRequest struct {
	Head
	PublicKey *string `json:"publicKey"`
}

// getAllowlist answers a list without rules where there is none.
func getAllowlist(v *View, in *AllowlistRequest) ([]byte, error) {
	key := ""
	if in.PublicKey != nil {
		key = strings.ToLower(*in.PublicKey)
	}
	a, err := v.Allowlist(key)
	if err != nil {
		return nil, err
	}
	set := a != nil
	if !set {
		a = new(org.Allowlist)
	}
	dst := ident(nil, `{"allowlist":{"organizationId":`, v.ID)
	dst = array(dst, `,"rules":`, a.Rules, func(dst []byte, r org.AllowlistRule) []byte {
		dst = text(dst, `{"cidr":`, r.CIDR)
		if r.Label != "" {
			dst = text(dst, `,"label":`, r.Label)
		}
		dst = strconv.AppendUint(append(dst, `,"createdAt":"`...), r.CreatedMs, 10)
		return append(dst, `"}`...)
	})
	if key != "" {
		dst = text(dst, `,"publicKey":`, key)
	} else {
		dst = flag(dst, `,"enabled":`, a.Enabled)
	}
	if set {
		dst = text(dst, `,"onEvaluationError":`, a.OnError)
	}
	return append(dst, `}}`...), nil
}
