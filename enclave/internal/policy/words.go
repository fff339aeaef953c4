package policy

import "strings"

// Words says in sentences what a policy does. It is for package enclave/editor: the enclave does not link it.
type Words struct {
	Sentence string `json:"sentence"`
	// Everything: the policy allows, or denies, every user everything that policies decide, at any time.
	Everything bool `json:"everything"`
	Who        Line `json:"who"`
	What       Line `json:"what"`
	When       Line `json:"when"`
}

// A Line is a phrase and, if it speaks of several things, these.
type Line struct {
	Text  string `json:"text"`
	Lines []Line `json:"lines,omitempty"`
}

// Names are what an organization calls its things.
type Names struct{ Users, Tags, Wallets, PrivateKeys NamesByID }

// NewNames makes names of nothing.
func NewNames() *Names { return &Names{NamesByID{}, NamesByID{}, NamesByID{}, NamesByID{}} }

// NamesByID has names by ids in lower case.
type NamesByID map[string]string

// Add adds a name.
func (n NamesByID) Add(id, name string) { n[strings.ToLower(id)] = name }

// Describe says what a policy does.
func Describe(p *Policy, _ *Names) Words {
	text := func(p *Program) string {
		if p == nil {
			return ""
		}
		return p.source
	}
	effect := "EFFECT_ALLOW"
	if p.Effect == EffectDeny {
		effect = "EFFECT_DENY"
	}
	return DescribeSources(effect, text(p.Consensus), text(p.Condition), text(p.Time))
}

// DescribeSources gives the expressions of a policy themselves.
func DescribeSources(effect, consensus, condition, time string) Words {
	w := Words{Who: Line{Text: consensus}, What: Line{Text: condition}, When: Line{Text: time}}
	w.Sentence = "Allows"
	if effect == "EFFECT_DENY" {
		w.Sentence = "Denies"
	}
	if condition == "" {
		w.What.Text = "everything that policies decide"
		w.Sentence += " everything"
	} else {
		w.Sentence += " what its condition says"
	}
	if consensus == "" {
		w.Who.Text = "every user, alone"
	} else {
		w.Sentence += " to whom its consensus says"
	}
	if time == "" {
		w.When.Text = "always"
	}
	w.Sentence += "."
	w.Everything = condition+consensus+time == ""
	return w
}
