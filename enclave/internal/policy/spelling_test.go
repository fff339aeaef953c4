package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/policy"
)

const (
	someUUID = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
	// G of P-256 and -G, short and long.
	shortKey  = "026b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296" // its y is even: only the digits before x tell it from x alone
	longKey   = "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296b01cbd1c01e58065711814b583f061e9d431cca994cea1313449bf97c840ae0a"
	minusKey  = "036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
	minusLong = "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c2964fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"
)

// spellings are texts of a type that mean one value, as records have it first, and others.
var spellings = map[string]struct{ same, other []string }{
	"uuid": {[]string{someUUID, strings.ToUpper(someUUID), "6BA7b810-9dad-41D1-80b4-00c04fd430c8"},
		[]string{"6ba7b810-9dad-41d1-80b4-00c04fd430c9", strings.ReplaceAll(someUUID, "-", ""), "{" + someUUID + "}", ""}},
	"email": {[]string{"bob@example.org", "Bob@Example.ORG"}, []string{"bob@example.com", " bob@example.org", "bob@exämple.org", ""}},
	"hex":   {[]string{"0xabcdef", "0xABCdef"}, []string{"0xabcdee", "abcdef", ""}},
	"key": {[]string{shortKey, longKey, strings.ToUpper(shortKey), strings.ToUpper(longKey), "0x" + shortKey, "0x" + longKey},
		[]string{minusKey, minusLong, shortKey[2:], "04" + shortKey[2:], "03" + longKey[2:], longKey + "00", strings.Replace(longKey, "6b17", "6b18", 1), ""}},
}

// wrap is the value of a root of which rest, such as .leaves[].leaf_id, is v.
func wrap(rest string, v policy.Value) policy.Value {
	if rest == "" {
		return v
	}
	if in, ok := strings.CutPrefix(rest, "[]"); ok {
		return policy.List(wrap(in, v))
	}
	end := strings.IndexAny(rest[1:], ".[") + 1
	if end == 0 {
		end = len(rest)
	}
	return policy.Struct(policy.Member{Name: rest[1:end], Value: wrap(rest[end:], v)})
}

// A literal means what it means in whichever form it is written, whatever the form of the request's text and the operator.
func TestSpellings(t *testing.T) {
	tested := map[string]int{}
	for _, f := range policy.Fields() {
		typ := strings.TrimSuffix(strings.TrimPrefix(f.Type, "list<"), ">")
		texts, ok := spellings[typ]
		if !ok {
			continue
		}
		tested[typ]++
		path := f.Path
		if typ != f.Type {
			path += "[]"
		}
		var root, rest string // the first field that it is in
		for _, r := range policy.Fields() {
			if below, ok := strings.CutPrefix(path, r.Path); ok && root == "" && strings.IndexAny(below, ".[") == 0 {
				root, rest = r.Path, below
			}
		}
		read := strings.ReplaceAll(path, "[]", "[0]")
		ask := func(value, source string) (holds bool) {
			t.Helper()
			s := scene{users: "a r", root: "r", threshold: 1, approve: "a"}
			if f.Clause == policy.ClauseConsensus {
				s.policies = []string{"DENY " + source}
			} else {
				s.policies = []string{"DENY ; " + source}
			}
			state, r := s.question(t)
			users, _ := state.Users()
			users[0].ID, users[0].Email, users[0].Tags = parseID(t, someUUID), value, [][16]byte{parseID(t, someUUID)}
			users[0].Credentials = []policy.Credential{{ID: users[0].ID, User: users[0].ID, PublicKey: value}}
			r.Approvals = []policy.Approval{{User: users[0].ID, Credentials: users[0].Credentials}}
			state.Users = func() ([]policy.User, error) { return users, nil }
			if r.Facts = nil; root == "activity.params" {
				r.Params = wrap(rest, policy.String(value))
			} else {
				r.Facts = policy.Facts{root: wrap(rest, policy.String(value))}
			}
			for i, set := range func() []*policy.Set { s, _ := state.Policies(); return []*policy.Set{s, s.Walked()} }() {
				state.Policies = func() (*policy.Set, error) { return set, nil }
				d, err := policy.Decide(state, r)
				if err != nil {
					t.Fatal(err)
				}
				v := d.Evaluations.Verdicts[0]
				if v.Outcome == policy.Error || i > 0 && holds != (v.Outcome == policy.DenyExplicit) {
					t.Fatalf("%s of %s: %v, walked %v", source, value, holds, v)
				}
				holds = v.Outcome == policy.DenyExplicit
			}
			return holds
		}
		for i, value := range texts.same {
			if typ == "uuid" && i > 0 && f.Clause == policy.ClauseConsensus {
				break // what is no text there
			}
			for _, literal := range slices.Concat(texts.same, texts.other) {
				same := slices.Contains(texts.same, literal)
				for source, want := range map[string]bool{
					"%s == '%s'":                                 same,
					"!('%[2]s' != %[1]s)":                        same,
					"%s != '%s'":                                 !same,
					"%s in ['x', '%s']":                          same,
					"['%[2]s'].contains(%[1]s)":                  same,
					"['%[2]s', 'x'].any(l, l == %[1]s)":          same,
					"['%[2]s'].filter(l, %[1]s == l).count == 1": same,
					"[%s].contains('%s')":                        same,
					"[%[1]s, 'x'][0] == ['%[2]s'][0]":            same,
				} {
					source = fmt.Sprintf(source, read, literal)
					if got := ask(value, source); got != want {
						t.Errorf("%s of %s: %v", source, value, got)
					}
				}
			}
		}
		if typ == "uuid" || typ == "email" {
			in := read
			in = strings.TrimPrefix(in, "approvers[0]")
			if f.Clause == policy.ClauseConsensus && in != read {
				source := fmt.Sprintf("approvers.any(u, u%s == '%s')", in, strings.ToUpper(texts.same[0]))
				if list, ok := strings.CutSuffix(in, "[0]"); ok {
					source = fmt.Sprintf("approvers.any(u, u%s.contains('%s'))", list, strings.ToUpper(texts.same[0]))
				}
				if !ask(texts.same[0], source) {
					t.Errorf("%s is false", source)
				}
			}
		}
	}
	for typ, least := range map[string]int{"uuid": 15, "email": 1, "hex": 30, "key": 8} {
		if tested[typ] < least {
			t.Errorf("%d fields of type %s", tested[typ], typ)
		}
	}
}

// A field has the type that its name demands, so that a new one is not compared as it happens to be spelt.
func TestTypesOfNames(t *testing.T) {
	texts := []string{ // of which the letters count
		"activity.params.signatures[].derivation.signing_leaf.leaf_id", "activity.params.transfer.leaves[].leaf_id",
		"activity.params.transfer.leaves[].old_leaf_derivation.signing_leaf.leaf_id", "activity.params.transfer.leaves[].new_leaf_derivation.signing_leaf.leaf_id",
		"activity.params.claim.leaves[].leaf_id", "credentials[].credential_id",
		"activity.params.transfer.operator_recipients[].operator_id", "activity.params.claim.operator_recipients[].operator_id", "activity.params.lightning_receive.operator_recipients[].operator_id",
	}
	for _, f := range policy.Fields() {
		name := f.Path[strings.LastIndexByte(f.Path, '.')+1:]
		want := ""
		switch of := strings.TrimSuffix(strings.TrimPrefix(f.Type, "list<"), ">"); {
		case of != "string" && of != "hex" && of != "uuid" && of != "email" && of != "key" || slices.Contains(texts, f.Path):
		case strings.HasSuffix(f.Path, "operator_commitments[].id"), name == "tx_id": // 32 bytes
			want = "hex"
		case name == "id", name == "tags", strings.HasSuffix(name, "_id"), strings.HasSuffix(name, "_ids"):
			want = "uuid"
		case strings.HasSuffix(name, "email"):
			want = "email"
		case strings.HasSuffix(name, "public_key"), name == "verifying_key", name == "hiding", name == "binding":
			want = "key"
		}
		if want != "" && f.Type != want && f.Type != "list<"+want+">" {
			t.Errorf("%s is %s, and not %s", f.Path, f.Type, want)
		}
	}
}
