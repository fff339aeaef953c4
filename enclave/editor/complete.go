package editor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cloister/enclave/internal/policy"
	"cloister/shared/spelling"
)

// A Completion is what can stand in place of a part of a text.
type Completion struct {
	From    int      `json:"from"`
	To      int      `json:"to"`
	Options []Option `json:"options"` // at most MaxOptions, those that begin with what is typed first
}

// An Option is one text for that place.
type Option struct {
	Text   string `json:"text"`   // between quotes, what stands between them
	Label  string `json:"label"`  // what is shown: the text, or the name of what an id stands for
	Kind   string `json:"kind"`   // field, method, root, value or keyword
	Detail string `json:"detail"` // a type, or the id
	Note   string `json:"note"`
}

// MaxOptions is how many options a completion has at most.
const MaxOptions = 100

func (q *Question) complete() (*Completion, error) {
	clause, ok := map[string]policy.Clause{"condition": policy.ClauseCondition, "consensus": policy.ClauseConsensus, "time": policy.ClauseTime}[q.Clause]
	if !ok {
		return nil, errors.New("want clause to be condition, consensus or time")
	}
	if len(q.Text) > MaxText {
		return nil, fmt.Errorf("at most %d bytes of text", MaxText)
	}
	at := byteAt(q.Text, q.At)
	if q.At < 0 || unitAt(q.Text, at) != q.At {
		return nil, errors.New("want at to be a place of the text")
	}
	p := policy.Complete(clause, q.Text, at)
	var all []Option
	if p.InString || p.Values != "" {
		all = q.Organization.values(p.Values)
	}
	all = slices.DeleteFunc(all, func(o Option) bool { return strings.Contains(o.Text, "'") }) // no literal can hold it
	for i := range all {
		if !p.InString {
			all[i].Text = "'" + all[i].Text + "'"
		}
	}
	for _, s := range p.Options {
		o := Option{Text: s.Text, Label: s.Text, Kind: s.Kind, Detail: s.Type, Note: notes[s.Path]}
		for _, m := range methods {
			if s.Kind == "method" && m.Name == s.Path {
				o.Label, o.Note = m.Name, m.Form+": "+m.Note
			}
		}
		all = append(all, o)
	}
	return &Completion{unitAt(q.Text, p.From), unitAt(q.Text, p.To), choose(all, p.Typed)}, nil
}

// choose are the options that go with what is typed, those that begin with it first.
func choose(all []Option, typed string) []Option {
	typed = strings.ToLower(typed)
	out := []Option{}
	for _, begins := range []bool{true, false} {
		for _, o := range all {
			texts := []string{strings.ToLower(strings.Trim(o.Text, "'")), strings.ToLower(o.Label)}
			begin := slices.ContainsFunc(texts, func(t string) bool { return strings.HasPrefix(t, typed) })
			has := slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(t, typed) })
			if begin == begins && has && len(out) < MaxOptions {
				out = append(out, o)
			}
		}
	}
	return out
}

// values are those that a field can have: as the language knows them, or as the organization has them.
func (o *Organization) values(path string) (out []Option) {
	add := func(text, label, detail, note string) {
		out = append(out, Option{Text: text, Label: label, Kind: "value", Detail: detail, Note: note})
	}
	for _, v := range policy.KnownValues(path) {
		add(v.Text, v.Text, "", v.Note)
	}
	switch path {
	case "approvers[].id", "credentials[].user_id", "activity.params.user_id", "activity.params.user_ids[]":
		for i := range o.Users {
			add(o.Users[i].ID, o.Users[i].Name, o.Users[i].ID, o.Users[i].Email)
		}
	case "approvers[].alias":
		for i := range o.Users {
			add(o.Users[i].Name, o.Users[i].Name, "", o.Users[i].Email)
		}
	case "approvers[].email":
		for i := range o.Users {
			if o.Users[i].Email != "" {
				add(o.Users[i].Email, o.Users[i].Email, "", o.Users[i].Name)
			}
		}
	case "approvers[].tags[]", "private_key.tags[]":
		of := map[string]string{"approvers[].tags[]": "TAG_TYPE_USER", "private_key.tags[]": "TAG_TYPE_PRIVATE_KEY"}[path]
		for _, t := range o.Tags {
			if t.Type == of {
				add(t.ID, t.Name, t.ID, "")
			}
		}
	case "wallet.id", "wallets[].id", "activity.params.wallet_id":
		for _, w := range o.Wallets {
			add(w.ID, w.Name, w.ID, "")
		}
	case "wallet.label", "wallets[].label":
		for _, w := range o.Wallets {
			add(w.Name, w.Name, "", "")
		}
	case "private_key.id":
		for _, k := range o.PrivateKeys {
			add(k.ID, k.Name, k.ID, "")
		}
	case "private_key.label":
		for _, k := range o.PrivateKeys {
			add(k.Name, k.Name, "", "")
		}
	}
	return out
}

// meant is what a field that does not exist was likely meant to be, as words that end the message about it.
func meant(of clause, m *policy.Mistake) string {
	word := of.text[m.From:m.To]
	if word == "" || m.Message != "Field does not exist: "+word {
		return ""
	}
	best, least := "", 3 // letters that are wrong
	for _, s := range policy.Complete(of.Clause, of.text, m.From).Options {
		if s.Kind != "field" && s.Kind != "root" {
			continue
		}
		for _, name := range []string{s.Text, strings.SplitN(s.Text, ".", 2)[0]} {
			if n := distance(strings.ToLower(word), name); n < least && n < len(word) {
				best, least = name, n
			}
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// distance is that of two names, large for long ones: nobody mistypes those.
func distance(a, b string) int {
	if len(a) > 40 || len(b) > 60 {
		return 100
	}
	return spelling.Distance(a, b)
}
