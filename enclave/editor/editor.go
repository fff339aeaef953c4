// Package editor answers what an editor of policies in a browser asks: what is wrong with a text, what a policy means in
// words, what can stand at a place of a text, and what the language has. The dashboard asks it, compiled to WebAssembly.
//
// It lies below enclave/ because it must read a policy as the enclave does, by the same parser and checker, and nobody else
// may import those. The enclave does not link it. The package uses no clock, network or storage.
package editor

import (
	"errors"
	"fmt"
	"slices"

	"cloister/enclave/internal/policy"
	"cloister/enclave/lint"
)

// Limits of a question.
const (
	MaxPolicies = 1000             // of an organization
	MaxText     = policy.MaxSource // bytes of a text that is to be completed

	maxVoterSteps = 1_000_000 // of the warnings of an answer, so that nobody waits for it
)

// A Question is one of the four that can be asked.
type Question struct {
	// Ask is "language", "check", "describe" or "complete". What the others need is told at their members.
	Ask          string        `json:"ask"`
	Organization *Organization `json:"organization"` // check, describe, complete
	Policy       *lint.Policy  `json:"policy"`       // check: it stands in place of the one with its id
	PolicyIDs    []string      `json:"policyIds"`    // describe
	Clause       string        `json:"clause"`       // complete: condition, consensus or time
	Text         string        `json:"text"`         // complete: what the clause is so far
	At           int           `json:"at"`           // complete: where the caret is
}

// Organization is what answers need of the organizationData of get_organization.
type Organization struct {
	lint.Organization
	Tags []struct {
		ID   string `json:"tagId"`
		Name string `json:"tagName"`
		Type string `json:"tagType"`
	} `json:"tags"`
	Wallets []struct {
		ID   string `json:"walletId"`
		Name string `json:"walletName"`
	} `json:"wallets"`
	PrivateKeys []struct {
		ID   string `json:"privateKeyId"`
		Name string `json:"privateKeyName"`
	} `json:"privateKeys"`
}

// An Answer has the member that belongs to the question. All offsets are in UTF-16 code units of the clause's text, from 0,
// as JavaScript counts.
type Answer struct {
	*Language
	*Check
	*Description
	*Completion
}

// Check is what is wrong with a policy and, if nothing is, what it means.
type Check struct {
	Problems []Problem     `json:"problems"` // one for a clause at most
	Words    *policy.Words `json:"words"`    // nil if there are problems
	Warnings []Warning     `json:"warnings"`
}

// A Problem is why the text of a clause is refused.
type Problem struct {
	Clause  string `json:"clause"`
	From    int    `json:"from"`
	To      int    `json:"to"` // from and to are the word at fault; equal at the end of the text
	Message string `json:"message"`
}

// A Warning is what is likely wrong with a policy that is accepted.
type Warning struct {
	Clause  string `json:"clause"` // empty: the policy as a whole
	From    int    `json:"from"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Description has policies by their ids.
type Description struct {
	Policies map[string]Described `json:"policies"`
}

// Described is what a policy means.
type Described struct {
	Words    policy.Words `json:"words"`
	Warnings []Warning    `json:"warnings"`
}

// Answer answers a question. An error says in words why there is no answer.
func (q *Question) Answer() (*Answer, error) {
	if q.Ask == "language" {
		return &Answer{Language: language()}, nil
	}
	o := q.Organization
	if o == nil {
		return nil, errors.New("want an organization as get_organization tells it")
	}
	if len(o.Policies) > MaxPolicies {
		return nil, fmt.Errorf("at most %d policies", MaxPolicies)
	}
	switch q.Ask {
	case "check":
		c, err := q.check()
		return &Answer{Check: c}, err
	case "describe":
		d, err := q.describe()
		return &Answer{Description: d}, err
	case "complete":
		c, err := q.complete()
		return &Answer{Completion: c}, err
	}
	return nil, errors.New("want ask to be language, check, describe or complete")
}

// clauses are the clauses of a policy with their texts.
func clauses(p *lint.Policy) []clause {
	return []clause{{policy.ClauseCondition, p.Condition}, {policy.ClauseConsensus, p.Consensus}, {policy.ClauseTime, p.Time}}
}

type clause struct {
	policy.Clause
	text string
}

func (q *Question) check() (*Check, error) {
	if q.Policy == nil {
		return nil, errors.New("want a policy")
	}
	p := *q.Policy
	c := &Check{Problems: []Problem{}, Warnings: []Warning{}}
	for _, of := range clauses(&p) {
		if m := policy.FindMistake(of.Clause, of.text); m != nil {
			c.Problems = append(c.Problems, Problem{of.String(), unitAt(of.text, m.From), unitAt(of.text, m.To), m.Message + meant(of, m)})
		}
	}
	if len(c.Problems) > 0 {
		return c, nil
	}
	o := q.Organization.Organization
	o.Policies = slices.Clone(o.Policies)
	at := slices.IndexFunc(o.Policies, func(other lint.Policy) bool { return p.ID != "" && other.ID == p.ID })
	if at < 0 {
		at, o.Policies = len(o.Policies), append(o.Policies, p)
	}
	o.Policies[at] = p
	compiled, err := o.Compile()
	if err != nil {
		return nil, err
	}
	if err := compiled.Refused[at]; err != nil {
		return nil, err
	}
	words := policy.Describe(compiled.Policies[at], q.Organization.names())
	c.Words, c.Warnings = &words, warnings(&p, compiled.Warnings([]int{at}, maxVoterSteps)[0])
	return c, nil
}

func (q *Question) describe() (*Description, error) {
	o := q.Organization
	compiled, err := o.Compile()
	if err != nil {
		return nil, err
	}
	asked := map[string]bool{}
	for _, id := range q.PolicyIDs {
		asked[id] = true
	}
	var places []int
	for i := range o.Policies {
		if asked[o.Policies[i].ID] {
			places = append(places, i)
		}
	}
	names := o.names()
	d := &Description{Policies: map[string]Described{}}
	for i, found := range compiled.Warnings(places, maxVoterSteps) {
		p := &o.Policies[places[i]]
		one := Described{Warnings: warnings(p, found)}
		if c := compiled.Policies[places[i]]; c != nil {
			one.Words = policy.Describe(c, names)
		} else {
			one.Words = policy.DescribeSources(p.Effect, p.Consensus, p.Condition, p.Time)
		}
		d.Policies[p.ID] = one
	}
	return d, nil
}

// warnings are those about a policy.
func warnings(p *lint.Policy, found []policy.Warning) []Warning {
	out := []Warning{}
	for _, w := range found {
		one := Warning{Clause: w.Clause, Code: w.Code, Message: w.Message}
		for _, of := range clauses(p) {
			if of.String() == w.Clause {
				one.From = unitAt(of.text, w.Position)
			}
		}
		out = append(out, one)
	}
	return out
}

// names are the organization's names for ids.
func (o *Organization) names() *policy.Names {
	n := new(policy.Names)
	for i := range o.Users {
		n.Users.Add(o.Users[i].ID, o.Users[i].Name)
	}
	for i := range o.Tags {
		n.Tags.Add(o.Tags[i].ID, o.Tags[i].Name)
	}
	for i := range o.Wallets {
		n.Wallets.Add(o.Wallets[i].ID, o.Wallets[i].Name)
	}
	for i := range o.PrivateKeys {
		n.PrivateKeys.Add(o.PrivateKeys[i].ID, o.PrivateKeys[i].Name)
	}
	return n
}

// unitAt is the offset in UTF-16 code units of a byte of a text.
func unitAt(text string, at int) (units int) {
	for i, r := range text {
		if i >= at {
			break
		}
		units += unitsOf(r)
	}
	return units
}

// byteAt is the byte of a text at an offset in UTF-16 code units; of one inside a character, where the character begins.
func byteAt(text string, at int) int {
	for i, r := range text {
		if at -= unitsOf(r); at < 0 {
			return i
		}
	}
	return len(text)
}

func unitsOf(r rune) int {
	if r > 0xffff {
		return 2
	}
	return 1
}
