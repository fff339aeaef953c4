package tag_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// tagSort is one of the two sorts of tags as the interface spells it.
type tagSort struct{ kind, name, id, ids, bearers, called, typ string }

var tagSorts = []tagSort{
	{"USER_TAG", "serTagName", "userTagId", "userTagIds", "serIds", "user", "TAG_TYPE_USER"},
	{"PRIVATE_KEY_TAG", "rivateKeyTagName", "privateKeyTagId", "privateKeyTagIds", "rivateKeyIds", "private key", "TAG_TYPE_PRIVATE_KEY"},
}

func (s *tagSort) create(name string, bearers ...string) object {
	return object{s.id[:1] + s.name: name, s.id[:1] + s.bearers: bearers}
}

// update has "" for a name that stays.
func (s *tagSort) update(id, name string, add, remove []string) object {
	capital := string(s.id[0] - 'a' + 'A')
	in := object{s.id: id, "add" + capital + s.bearers: add, "remove" + capital + s.bearers: remove}
	if name != "" {
		in["new"+capital+s.name] = name
	}
	return in
}

func (s *tagSort) remove(ids ...string) object { return object{s.ids: ids} }

// bearer makes something that can bear tags.
func (s *tagSort) bearer(w *world, name string) string {
	w.TB.Helper()
	if s.typ == "TAG_TYPE_USER" {
		return w.NewUser(activitytest.User(name, activitytest.APIKey("k", w.FreshKey())))
	}
	r := w.Run("CREATE_PRIVATE_KEYS_V2", object{"privateKeys": []any{object{"privateKeyName": name, "curve": "CURVE_ED25519", "privateKeyTags": []any{}, "addressFormats": []any{"ADDRESS_FORMAT_SOLANA"}}}})
	return r["privateKeys"].([]any)[0].(object)["privateKeyId"].(string)
}

func (s *tagSort) tagsOf(w *world, text string) (tags []string, updatedMs uint64) {
	w.TB.Helper()
	id, err := org.ParseID(text)
	w.Must(err)
	var ids []org.ID
	if s.typ == "TAG_TYPE_USER" {
		u := w.UserOf(text)
		ids, updatedMs = u.Tags, u.UpdatedMs
	} else {
		k, err := w.Tx().PrivateKey(id)
		w.Must(err)
		ids, updatedMs = k.Tags, k.UpdatedMs
	}
	for _, i := range ids {
		tags = append(tags, i.String())
	}
	return tags, updatedMs
}

func tagOf(w *world, text string) *org.Tag {
	w.TB.Helper()
	id, err := org.ParseID(text)
	w.Must(err)
	tag, err := w.Tx().Tag(id)
	w.Must(err)
	return tag
}

func TestTags(t *testing.T) {
	for _, s := range tagSorts {
		t.Run(s.kind, func(t *testing.T) {
			w := activitytest.New(t)
			a, b, c := s.bearer(w, "a"), s.bearer(w, "b"), s.bearer(w, "c")
			check := func(bearer string, want ...string) {
				t.Helper()
				if got, _ := s.tagsOf(w, bearer); !slices.Equal(got, want) {
					t.Errorf("%v, want %v", got, want)
				}
			}
			w.Now += 1000
			r := w.Run("CREATE_"+s.kind, s.create("red", a, b))
			red := r[s.id].(string)
			if !reflect.DeepEqual(r[s.id[:1]+s.bearers], []any{a, b}) {
				t.Error(r)
			}
			if tag := tagOf(w, red); tag.Name != "red" || tag.Type != s.typ || tag.CreatedMs != activitytest.Start+1000 || tag.UpdatedMs != activitytest.Start+1000 || w.Organization().Tags != 1 {
				t.Errorf("%+v", tag)
			}
			blue := w.Run("CREATE_"+s.kind, s.create("blue", b))[s.id].(string)
			check(a, red)
			check(b, red, blue)
			check(c)
			if _, ms := s.tagsOf(w, b); ms != activitytest.Start+1000 {
				t.Error(ms)
			}

			w.Now += 1000
			w.Run("UPDATE_"+s.kind, s.update(red, "", []string{c, b}, []string{a}))
			check(a)
			check(b, red, blue)
			check(c, red)
			if _, ms := s.tagsOf(w, b); ms != activitytest.Start+1000 {
				t.Error("what bore the tag already was changed")
			}
			w.Now += 1000
			w.Run("UPDATE_"+s.kind, s.update(red, "crimson", nil, []string{a})) // does not bear it
			if _, ms := s.tagsOf(w, a); ms != activitytest.Start+2000 {
				t.Error("what does not bear the tag was changed")
			}
			if tag := tagOf(w, red); tag.Name != "crimson" || tag.CreatedMs != activitytest.Start+1000 || tag.UpdatedMs != activitytest.Start+3000 {
				t.Errorf("%+v", tag)
			}
			w.Run("UPDATE_"+s.kind, s.update(red, "crimson", nil, nil)) // its own name is free for it
			green := w.Run("CREATE_"+s.kind, s.create("red"))[s.id].(string)

			r = w.Run("DELETE_"+s.kind+"S", s.remove(red, green))
			bore := activitytest.List(r, s.id[:1]+s.bearers)
			want := []string{b, c}
			slices.Sort(want)
			if !slices.Equal(bore, want) || !slices.Equal(activitytest.List(r, s.ids), []string{red, green}) {
				t.Errorf("%v, want %v", r, want)
			}
			check(b, blue)
			check(c)
			if tagOf(w, red) != nil || tagOf(w, blue) == nil || w.Organization().Tags != 1 {
				t.Error("not those tags are gone")
			}
			w.Run("CREATE_"+s.kind, s.create("crimson", a)) // the name is free
		})
	}
}

func TestTagsAreRefused(t *testing.T) {
	for n, s := range tagSorts {
		t.Run(s.kind, func(t *testing.T) {
			w := activitytest.New(t)
			other := tagSorts[1-n]
			a := s.bearer(w, "a")
			id := w.Run("CREATE_"+s.kind, s.create("tag", a))[s.id].(string)
			second := w.Run("CREATE_"+s.kind, s.create("second"))[s.id].(string)
			foreign := w.Run("CREATE_"+other.kind, other.create("foreign"))[other.id].(string)
			w.Run("CREATE_"+other.kind, other.create("tag")) // of another sort, so another name
			unrelated := other.bearer(w, "stranger")
			nobody := w.NewID().String()
			unlisted := s.create("x")
			delete(unlisted, s.id[:1]+s.name)
			for _, c := range []struct {
				typ    string
				params any
				code   fault.Code
				says   string
			}{
				{"CREATE_" + s.kind, s.create("tag"), 3, s.called + " tag label must be unique"},
				{"CREATE_" + s.kind, s.create(" x"), 3, s.name},
				{"CREATE_" + s.kind, s.create(""), 3, "missing field"},
				{"CREATE_" + s.kind, unlisted, 3, "missing field"},
				{"CREATE_" + s.kind, s.create("x", nobody), 5, s.called + " not found: " + nobody},
				{"CREATE_" + s.kind, s.create("x", unrelated), 5, s.called + " not found: " + unrelated},
				{"CREATE_" + s.kind, s.create("x", a, a), 3, "named twice"},
				{"CREATE_" + s.kind, s.create("x", "a"), 3, "UUID"},
				{"UPDATE_" + s.kind, s.update(nobody, "x", nil, nil), 5, s.called + " tag not found: " + nobody},
				{"UPDATE_" + s.kind, s.update(foreign, "x", nil, nil), 5, s.called + " tag not found: " + foreign},
				{"UPDATE_" + s.kind, s.update(id, "second", nil, nil), 3, s.called + " tag label must be unique"},
				{"UPDATE_" + s.kind, s.update(id, "x ", nil, nil), 3, s.name},
				{"UPDATE_" + s.kind, s.update(id, "x", []string{nobody}, nil), 5, s.called + " not found: " + nobody},
				{"UPDATE_" + s.kind, s.update(id, "x", nil, []string{nobody}), 5, s.called + " not found: " + nobody},
				{"UPDATE_" + s.kind, s.update(id, "x", []string{a}, []string{a}), 3, "to be added and to be removed"},
				{"UPDATE_" + s.kind, s.update("x", "", nil, nil), 3, "UUID"},
				{"DELETE_" + s.kind + "S", s.remove(), 3, "missing field"},
				{"DELETE_" + s.kind + "S", s.remove(id, id), 3, "named twice"},
				{"DELETE_" + s.kind + "S", s.remove(id, nobody), 5, s.called + " tag not found: " + nobody},
				{"DELETE_" + s.kind + "S", s.remove(second, foreign), 5, s.called + " tag not found: " + foreign},
			} {
				w.Refuse(c.typ, c.params, c.code, c.says)
			}
		})
	}
}

// Both sorts count together.
func TestTagLimits(t *testing.T) {
	w := activitytest.New(t)
	sub := w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("Sub", 1, activitytest.RootUser("Root", activitytest.APIKey("r", w.FreshKey()))))["subOrganizationId"])
	for _, c := range []struct {
		w     *world
		limit int
	}{{w, 100}, {sub, 10}} {
		var last string
		for i := range c.limit {
			s := tagSorts[i%2]
			last = c.w.Run("CREATE_"+s.kind, s.create(fmt.Sprint(i)))[s.id].(string)
		}
		for _, s := range tagSorts {
			c.w.Refuse("CREATE_"+s.kind, s.create("one more"), 8, fmt.Sprintf("organization over quota: at most %d tags", c.limit))
		}
		c.w.Run("DELETE_PRIVATE_KEY_TAGS", tagSorts[1].remove(last))
		c.w.Run("CREATE_USER_TAG", tagSorts[0].create("one more"))
		c.w.Refuse("CREATE_USER_TAG", tagSorts[0].create("two more"), 8, "over quota")
	}
}

// Users and private keys are made with tags of their own sort.
func TestNewBearersOfTags(t *testing.T) {
	w := activitytest.New(t)
	var tags [2][]string
	for i, s := range tagSorts {
		for _, name := range []string{"one", "two"} {
			tags[i] = append(tags[i], w.Run("CREATE_"+s.kind, s.create(name))[s.id].(string))
		}
	}
	makers := []func(name string, tags ...string) (typ string, params object){
		func(name string, tags ...string) (string, object) {
			u := activitytest.User(name, activitytest.APIKey("k", w.FreshKey()))
			u["userTags"] = tags
			return "CREATE_USERS_V4", object{"users": []any{u}}
		},
		func(name string, tags ...string) (string, object) {
			return "CREATE_PRIVATE_KEYS_V2", object{"privateKeys": []any{object{"privateKeyName": name, "curve": "CURVE_SECP256K1", "privateKeyTags": tags, "addressFormats": []any{}}}}
		},
	}
	nobody := w.NewID().String()
	for i, s := range tagSorts {
		r := w.Run(makers[i]("bearer", tags[i]...))
		var id string
		if i == 0 {
			id = activitytest.List(r, "userIds")[0]
		} else {
			id = r["privateKeys"].([]any)[0].(object)["privateKeyId"].(string)
		}
		if got, _ := s.tagsOf(w, id); !slices.Equal(got, tags[i]) {
			t.Errorf("%v, want %v", got, tags[i])
		}
		refused := func(code fault.Code, says string, tags ...string) {
			t.Helper()
			typ, params := makers[i]("another", tags...)
			w.Refuse(typ, params, code, says)
		}
		refused(5, s.called+" tag not found: "+nobody, tags[i][0], nobody)
		refused(5, s.called+" tag not found: "+tags[1-i][0], tags[1-i][0])
		refused(3, "named twice", tags[i][0], tags[i][0])
		refused(3, "UUID", "one")
	}
}
