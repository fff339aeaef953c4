package organization

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/user"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// IPAllowlists are the kinds about IP allowlists: the networks from which keys may be used.
var IPAllowlists = activity.Family{
	activity.Kind[SetAllowlist, activity.Nothing]{Name: "SET_IP_ALLOWLIST", Resource: "CONFIG", Action: "UPDATE", Run: setAllowlist,
		Explain: func(tx *org.Tx, in *SetAllowlist, o *show.Object) error { return in.explain(tx, o) }},
	activity.Kind[RemoveAllowlist, activity.Nothing]{Name: "REMOVE_IP_ALLOWLIST", Resource: "CONFIG", Action: "DELETE", Run: removeAllowlist,
		Explain: func(tx *org.Tx, in *RemoveAllowlist, o *show.Object) error { return in.explain(tx, o) }},
}

// Limits of an allowlist.
const (
	maxNetworks = 10 // per address family
	widestIPv4  = 20 // minimal prefix length in bits
	widestIPv6  = 48
)

// Behaviours for a request whose IP address is unknown.
const (
	onErrorAllow = "ALLOW"
	onErrorDeny  = "DENY"
)

// AllowlistRuleParams is one network of an allowlist.
type AllowlistRuleParams struct {
	CIDR  string  `json:"cidr" rule:"required,cidr"`
	Label *string `json:"label"`
}

// SetAllowlist replaces an IP allowlist: that of one API key, or of the organization.
type SetAllowlist struct {
	PublicKey         *string               `json:"publicKey"`
	Enabled           *bool                 `json:"enabled"`
	Rules             []AllowlistRuleParams `json:"rules,omitempty" rule:"dive,required"`
	OnEvaluationError *string               `json:"onEvaluationError"`

	rules []org.AllowlistRule // as stored, without a time
}

func (in *SetAllowlist) Check() error {
	key := activity.TextOf(in.PublicKey)
	switch e := activity.TextOf(in.OnEvaluationError); {
	case e != "" && e != onErrorAllow && e != onErrorDeny:
		return fault.Field("onEvaluationError", "must be one of: ALLOW, DENY")
	case key != "" && in.Enabled != nil && !*in.Enabled:
		return fault.Field("enabled", "the list of a key cannot be disabled: remove it, or disable that of the organization")
	}
	families := map[bool]int{}
	for i := range in.Rules {
		r := &in.Rules[i]
		p, err := network(r.CIDR)
		if err != nil {
			return fault.Field(fmt.Sprintf("rules.%d.cidr", i), "%s", err)
		}
		if label := activity.TextOf(r.Label); utf8.RuneCountInString(label) > 255 || strings.ContainsFunc(label, unicode.IsControl) {
			return fault.Field(fmt.Sprintf("rules.%d.label", i), "must be at most 255 characters without control characters")
		}
		if slices.ContainsFunc(in.rules, func(o org.AllowlistRule) bool { return o.CIDR == p.String() }) {
			continue
		}
		in.rules = append(in.rules, org.AllowlistRule{CIDR: p.String(), Label: activity.TextOf(r.Label)})
		if families[p.Addr().Is4()]++; families[p.Addr().Is4()] > maxNetworks {
			return fault.Field("rules", "must have at most %d networks of IPv4 and %d of IPv6", maxNetworks, maxNetworks)
		}
	}
	return nil
}

// network parses a network in its one canonical form: bits after the prefix zero, IPv4 not written as IPv6.
func network(cidr string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(cidr)
	if err != nil {
		return p, fmt.Errorf("must be an address range in CIDR notation")
	}
	if p.Addr().Is4In6() {
		p = netip.PrefixFrom(p.Addr().Unmap(), max(0, p.Bits()-96))
	}
	widest := widestIPv6
	if p.Addr().Is4() {
		widest = widestIPv4
	}
	if p.Bits() < widest {
		return p, fmt.Errorf("address range is too wide: the prefix must be at least /%d", widest)
	}
	return p.Masked(), nil
}

func setAllowlist(tx *activity.Tx, in *SetAllowlist) (*activity.Nothing, error) {
	if err := activity.CheckTopLevel(tx, "ip allowlists"); err != nil {
		return nil, err
	}
	key := strings.ToLower(activity.TextOf(in.PublicKey))
	if key != "" {
		known, err := user.IsKey(tx, key)
		if err == nil && !known {
			err = activity.NotFound("api key", key)
		}
		if err != nil {
			return nil, err
		}
	}
	old, err := tx.Allowlist(key)
	if err != nil {
		return nil, err
	}
	a := &org.Allowlist{
		Enabled: activity.IsOn(in.Enabled), Rules: slices.Clone(in.rules), OnError: cmp.Or(activity.TextOf(in.OnEvaluationError), onErrorDeny),
	}
	for i := range a.Rules {
		a.Rules[i].CreatedMs = tx.NowMs
		if old == nil {
			continue
		}
		if j := slices.IndexFunc(old.Rules, func(o org.AllowlistRule) bool { return o.CIDR == a.Rules[i].CIDR }); j >= 0 {
			a.Rules[i].CreatedMs = old.Rules[j].CreatedMs
		}
	}
	return &activity.Nothing{}, tx.PutAllowlist(key, a)
}

// RemoveAllowlist removes the IP allowlist of one API key, or of the organization.
type RemoveAllowlist struct {
	PublicKey *string `json:"publicKey"`
}

func removeAllowlist(tx *activity.Tx, in *RemoveAllowlist) (*activity.Nothing, error) {
	if err := activity.CheckTopLevel(tx, "ip allowlists"); err != nil {
		return nil, err
	}
	key := strings.ToLower(activity.TextOf(in.PublicKey))
	old, err := tx.Allowlist(key)
	if err != nil {
		return nil, err
	}
	if old == nil {
		return nil, fault.New(fault.NotFound, "ip allowlist not found")
	}
	tx.DeleteAllowlist(key)
	return &activity.Nothing{}, nil
}
