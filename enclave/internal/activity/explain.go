package activity

import (
	"slices"
	"strings"

	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/org"
)

// MaxExplained is how many things that a change concerns, and that its intent does not name, approvers are shown by name.
const MaxExplained = 20

// Changes shows members of something as they are and as they would be, side by side.
type Changes struct {
	before, after *show.Object
	Changed       bool // one is another than before
}

// ExplainChanges begins a comparison.
func ExplainChanges(o *show.Object) *Changes {
	return &Changes{before: o.Object("before"), after: o.Object("after")}
}

// Text compares a text, of which the later one is the requester's.
func (c *Changes) Text(key, before, after string) {
	c.before.Text(key, before)
	c.after.Text(key, after)
	c.Changed = c.Changed || before != after
}

// Name compares a name as Text does, and tells where the earlier one is from.
func (c *Changes) Name(before, after string) {
	c.before.Text("name", before)
	c.before.Plain("nameSource", show.FromOrganization)
	c.after.Text("name", after)
	c.Changed = c.Changed || before != after
}

// Bool compares a boolean.
func (c *Changes) Bool(key string, before, after bool) {
	c.before.Bool(key, before)
	c.after.Bool(key, after)
	c.Changed = c.Changed || before != after
}

// Uint compares a number.
func (c *Changes) Uint(key string, before, after uint64) {
	c.before.Uint(key, before)
	c.after.Uint(key, after)
	c.Changed = c.Changed || before != after
}

// Texts compares lists of texts, and tells whether the later one has something that the earlier one has not.
func (c *Changes) Texts(key string, before, after []string) (more bool) {
	ExplainList(c.before, key, before)
	ExplainList(c.after, key, after)
	c.Changed = c.Changed || !slices.Equal(before, after)
	return slices.ContainsFunc(after, func(s string) bool { return !slices.Contains(before, s) })
}

// ExplainList shows texts in their order.
func ExplainList(o *show.Object, key string, texts []string) {
	list := o.List(key)
	for _, s := range texts {
		list.Object().Text("value", s)
	}
}

// ExplainMeaning says in a sentence of the program what a change comes to.
func ExplainMeaning(o *show.Object, sentence string) { o.Plain("means", sentence) }

// ExplainRecord shows the name of a record that an intent names by its id, or the id alone if there is none, which Run refuses.
func ExplainRecord[T any](o *show.Object, key, text string, find func(org.ID) (*T, error), set func(*show.Object, *T)) (*T, error) {
	child := o.Object(key)
	child.Text("id", text)
	return ExplainFound(child, text, find, set)
}

// ExplainFound shows what there is under an id: nothing of what is not there.
func ExplainFound[T any](o *show.Object, text string, find func(org.ID) (*T, error), set func(*show.Object, *T)) (*T, error) {
	id, err := org.ParseID(text)
	if err != nil {
		return nil, nil
	}
	found, err := find(id)
	if found != nil && err == nil {
		set(o, found)
	}
	return found, err
}

// ExplainName shows a name from a record of the organization.
func ExplainName(o *show.Object, name string) {
	o.Text("name", name)
	o.Plain("nameSource", show.FromOrganization)
}

// Readers are the policies of an organization, to tell which of them read what a change is about. They are loaded when they are first
// needed, and searched once for each tag.
type Readers struct {
	tx     *org.Tx
	loaded bool
	all    []reader
	tags   map[string][]reader
}

type reader struct{ name, effect, expressions string } // the expressions are in small letters

// ReadersOf are those of an organization.
func ReadersOf(tx *org.Tx) *Readers { return &Readers{tx: tx, tags: map[string][]reader{}} }

// find returns the policies of which an expression reads something.
func (r *Readers) find(reads func(expression string) bool) (found []reader, err error) {
	if !r.loaded {
		err := r.tx.EachPolicy(func(p *org.Policy) bool {
			r.all = append(r.all, reader{p.Name, p.Effect, strings.ToLower(p.Consensus + "\n" + p.Condition)})
			return true
		})
		if err != nil {
			return nil, err
		}
		r.loaded = true
	}
	for _, p := range r.all {
		if reads(p.expressions) {
			found = append(found, p)
		}
	}
	return found, nil
}

// ExplainTag shows a tag by its id and the policies that read it, and warns of these. It lists them where the tag is shown first.
func (r *Readers) ExplainTag(o *show.Object, text string) (*org.Tag, error) {
	t, err := ExplainRecord(o, "tag", text, r.tx.Tag, func(o *show.Object, t *org.Tag) { ExplainName(o, t.Name) })
	if t == nil || err != nil {
		return nil, err
	}
	id := t.ID.String()
	found, shown := r.tags[id]
	if !shown {
		if found, err = r.find(readsTag(id)); err != nil {
			return nil, err
		}
		r.tags[id] = found
	}
	explainReaders(o, found, !shown)
	return t, nil
}

// ExplainTags is ExplainTag of a list, which is left out if it is empty.
func (r *Readers) ExplainTags(o *show.Object, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	list := o.List("tags")
	for _, text := range ids {
		if _, err := r.ExplainTag(list.Object(), text); err != nil {
			return err
		}
	}
	return nil
}

// ExplainTexts shows the policies that name one of these texts, in whatever case, and warns of them.
func (r *Readers) ExplainTexts(o *show.Object, texts ...string) error {
	found, err := r.find(func(expressions string) bool {
		return slices.ContainsFunc(texts, func(s string) bool { return s != "" && strings.Contains(expressions, "'"+strings.ToLower(s)+"'") })
	})
	explainReaders(o, found, true)
	return err
}

// ExplainAllTags shows the policies that look at tags in general, and so may read one that nobody could name yet, and warns of them.
func (r *Readers) ExplainAllTags(o *show.Object) error {
	found, err := r.find(readsAllTags)
	explainReaders(o, found, true)
	return err
}

// readsTag tells of expressions that they read whether somebody or something has a tag.
func readsTag(id string) func(string) bool {
	return func(expressions string) bool { return strings.Contains(expressions, id) || readsAllTags(expressions) }
}

// readsAllTags tells of expressions that they look at tags otherwise than for those that they name.
func readsAllTags(expressions string) bool {
	return strings.Contains(expressions, ".tags") && !strings.Contains(expressions, ".tags.contains('")
}

// explainReaders shows policies that read what a change is about, and warns: it changes who is allowed what, or what is forbidden.
func explainReaders(o *show.Object, found []reader, listed bool) {
	for _, p := range found {
		if p.effect == "EFFECT_DENY" {
			o.Warn(show.RulesDenyGone)
		} else {
			o.Warn(show.ControlChange)
		}
	}
	if len(found) == 0 || !listed {
		return
	}
	list := o.List("readBy")
	for _, p := range found[:min(len(found), MaxExplained)] {
		entry := list.Object()
		ExplainName(entry, p.name)
		entry.Plain("effect", p.effect)
	}
	if n := len(found) - MaxExplained; n > 0 {
		o.Uint("readByMore", uint64(n))
	}
}

// An initiated intent is about whoever submits it where it names nobody else.
type initiated interface{ SetInitiator(org.ID) }

// tellInitiator tells an intent who has submitted it.
func tellInitiator(in *Intent, e *org.Entry) {
	i, ok := in.newest.(initiated)
	switch {
	case !ok:
	case !e.Initiator.Zero():
		i.SetInitiator(e.Initiator)
	case len(e.Votes) > 0: // of earlier versions
		i.SetInitiator(e.Votes[0].User)
	}
}
