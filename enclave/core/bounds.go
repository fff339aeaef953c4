package core

import (
	"net/netip"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/auth"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// scope is what bounds the session key that stamped, nil for other credentials.
// Session profiles live in the top-level organization.
func scope(tx *org.Tx, above *ledger.Turn, cred *org.VoteCredential) (*policy.Program, error) {
	if cred.Profile.Zero() {
		return nil, nil
	}
	o, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	home := tx
	if !o.Parent.Zero() {
		if above == nil {
			return nil, activity.ErrNeedsParent
		}
		home = org.Begin(above.ID(), above.State, tx.NowMs)
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

// checkAllowlist asks the allowlists of a top-level organization, if it has any, whether
// its users' requests may come from an address. The host says where a request
// came from: the list keeps out who has stolen a key, not a host that lies.
func checkAllowlist(tx *org.Tx, who *caller, from string) error {
	all, err := tx.Allowlist("")
	if err != nil || all == nil || !all.Enabled || who.proxy { // the proxy's callers are no users of the organization
		return err
	}
	rules, onError := all.Rules, all.OnError
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
		if onError == "ALLOW" {
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
