// Package lint says what is likely wrong with an organization's policies, to those who write them. It decides nothing, so the
// enclave does not link it. The dashboard, compiled to WebAssembly, and `cloister-verify policies` do.
//
// It lies below enclave/ because it must read a policy as the enclave does, by the same compiler and evaluator, and nobody
// else may import those.
package lint

import (
	"encoding/hex"
	"fmt"
	"strings"
	"sync"

	"cloister/enclave/internal/policy"
)

// Organization is what advice needs of the organizationData of get_organization. Policies may hold one that was not made yet.
type Organization struct {
	Policies   []Policy `json:"policies"`
	Users      []User   `json:"users"`
	RootQuorum struct {
		Threshold uint32   `json:"threshold"`
		UserIDs   []string `json:"userIds"`
	} `json:"rootQuorum"`
}

// Policy is a policy of the interface.
type Policy struct {
	ID        string `json:"policyId"`
	Name      string `json:"policyName"`
	Effect    string `json:"effect"`
	Consensus string `json:"consensus"`
	Condition string `json:"condition"`
	Time      string `json:"time"`
}

// User is a user of the interface. A key that has expired counts here like any other.
type User struct {
	ID      string   `json:"userId"`
	Name    string   `json:"userName"`
	Email   string   `json:"userEmail"`
	Tags    []string `json:"userTags"`
	APIKeys []struct {
		ID         string     `json:"apiKeyId"`
		Credential credential `json:"credential"`
	} `json:"apiKeys"`
	Authenticators []struct {
		ID           string     `json:"authenticatorId"`
		CredentialID string     `json:"credentialId"`
		Credential   credential `json:"credential"`
	} `json:"authenticators"`
}

type credential struct {
	PublicKey string `json:"publicKey"`
	Type      string `json:"type"`
}

// Warning is advice about one policy.
type Warning struct {
	PolicyID   string `json:"policyId"`
	PolicyName string `json:"policyName"`
	policy.Warning
}

// Warnings looks at every policy beside all others. An organization that the enclave would not accept is an error.
func (o *Organization) Warnings() ([]Warning, error) {
	c, err := o.Compile()
	if err != nil {
		return nil, err
	}
	var all []int
	for i := range o.Policies {
		if err := c.Refused[i]; err != nil {
			return nil, fmt.Errorf("policy %q: %w", o.Policies[i].Name, err)
		}
		all = append(all, i)
	}
	warnings := []Warning{}
	for i, some := range c.Warnings(all, 0) {
		for _, w := range some {
			warnings = append(warnings, Warning{o.Policies[i].ID, o.Policies[i].Name, w})
		}
	}
	return warnings, nil
}

// Compiled is an organization with its policies compiled.
type Compiled struct {
	Policies []*policy.Policy // as in the organization; nil: the enclave would refuse it
	Refused  []error          // why, by the same places
	around   policy.Surroundings
}

// Compile compiles the policies of an organization. An error is about its users or its root quorum.
func (o *Organization) Compile() (*Compiled, error) {
	c := &Compiled{around: policy.Surroundings{Threshold: o.RootQuorum.Threshold}}
	for i := range o.Policies {
		p, err := o.Policies[i].compile()
		if err == nil {
			p.ID = [16]byte{byte(i >> 8), byte(i)} // those that were not made yet have none
			c.around.Policies = append(c.around.Policies, p)
		} else {
			p = nil
		}
		c.Policies, c.Refused = append(c.Policies, p), append(c.Refused, err)
	}
	var r ids
	for i := range o.Users {
		c.around.Users = append(c.around.Users, r.user(&o.Users[i]))
	}
	c.around.RootUsers = r.parseAll(o.RootQuorum.UserIDs)
	return c, r.wrong
}

// Warnings looks at some policies, by their places, beside all that compile. What does not compile has none. A search for
// the voters of all their consensuses takes so many steps at most, and says nothing where that is too little; 0: each takes
// as many as a decision.
func (c *Compiled) Warnings(places []int, voterSteps int) [][]policy.Warning {
	out := make([][]policy.Warning, len(places))
	var ps []*policy.Policy
	var at []int
	for i, place := range places {
		if p := c.Policies[place]; p != nil {
			ps, at = append(ps, p), append(at, i)
		}
	}
	for i, warnings := range policy.LintEach(ps, c.around, voterSteps) {
		out[at[i]] = warnings
	}
	return out
}

func (p *Policy) compile() (*policy.Policy, error) {
	effect, ok := map[string]policy.Effect{"EFFECT_ALLOW": policy.EffectAllow, "EFFECT_DENY": policy.EffectDeny}[p.Effect]
	if !ok {
		return nil, fmt.Errorf("%q is no effect", p.Effect)
	}
	c := &policy.Policy{Name: p.Name, Effect: effect}
	var err error
	if c.Consensus, err = programs.compile(policy.ClauseConsensus, p.Consensus); err != nil {
		return nil, err
	}
	if c.Condition, err = programs.compile(policy.ClauseCondition, p.Condition); err != nil {
		return nil, err
	}
	c.Time, err = programs.compile(policy.ClauseTime, p.Time)
	return c, err
}

// programs are what was compiled before: whoever edits a policy asks about all policies again and again.
var programs cache

type cache struct {
	mu       sync.Mutex
	programs map[source]*policy.Program
	bytes    int // of the sources
}

type source struct {
	clause policy.Clause
	text   string
}

const maxCached = 4 << 20 // bytes of sources

func (c *cache) compile(clause policy.Clause, text string) (*policy.Program, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := source{clause, text}
	if p := c.programs[of]; p != nil {
		return p, nil
	}
	p, err := policy.Compile(clause, text)
	if p == nil {
		return nil, err
	}
	if c.bytes += len(text); c.programs == nil || c.bytes > maxCached {
		c.programs, c.bytes = map[source]*policy.Program{}, len(text)
	}
	c.programs[of] = p
	return p, nil
}

// ids reads ids and keeps an error.
type ids struct{ wrong error }

func (r *ids) parse(text string) (id [16]byte) {
	b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(b) != len(id) {
		r.wrong = fmt.Errorf("%q is no id", text)
		return id
	}
	return [16]byte(b)
}

func (r *ids) parseAll(texts []string) [][16]byte {
	out := make([][16]byte, len(texts))
	for i, text := range texts {
		out[i] = r.parse(text)
	}
	return out
}

func (r *ids) user(u *User) policy.User {
	p := policy.User{ID: r.parse(u.ID), Name: u.Name, Email: u.Email, Tags: r.parseAll(u.Tags)}
	for _, k := range u.APIKeys {
		p.Credentials = append(p.Credentials, policy.Credential{ID: r.parse(k.ID), User: p.ID, Type: k.Credential.Type, PublicKey: k.Credential.PublicKey})
	}
	for _, a := range u.Authenticators {
		p.Credentials = append(p.Credentials, policy.Credential{ID: r.parse(a.ID), User: p.ID, Type: a.Credential.Type, CredentialID: a.CredentialID, PublicKey: a.Credential.PublicKey})
	}
	return p
}
