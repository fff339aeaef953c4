package lint_test

import (
	"encoding/json"
	"strings"
	"testing"

	"cloister/enclave/lint"
)

const (
	ada   = "11111111-1111-4111-8111-111111111111"
	brian = "22222222-2222-4222-8222-222222222222"
	tag   = "33333333-3333-4333-8333-333333333333"
)

// organization is what get_organization answers, with policies put in.
func organization(t *testing.T, policies string) *lint.Organization {
	t.Helper()
	text := `{"name": "Acme", "users": [
		{"userId": "` + ada + `", "userName": "Ada", "userTags": [], "apiKeys": [{"apiKeyId": "` + tag + `", "credential": {"publicKey": "02ab", "type": "CREDENTIAL_TYPE_API_KEY_P256"}}]},
		{"userId": "` + brian + `", "userName": "Brian", "userTags": ["` + tag + `"], "authenticators": [{"authenticatorId": "` + tag + `", "credentialId": "x", "credential": {"type": "CREDENTIAL_TYPE_WEBAUTHN_AUTHENTICATOR"}}]}
	], "rootQuorum": {"threshold": 1, "userIds": ["` + ada + `"]}, "policies": [` + policies + `]}`
	o := new(lint.Organization)
	if err := json.Unmarshal([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	return o
}

func rule(id, effect, consensus, condition string) string {
	b, err := json.Marshal(lint.Policy{ID: id, Name: "of " + id, Effect: "EFFECT_" + effect, Consensus: consensus, Condition: condition})
	if err != nil {
		panic(err)
	}
	return string(b)
}

const creates = "activity.action == 'CREATE'"

// dear is a condition of about 3*n*n steps.
func dear(n int) string {
	list := "[" + strings.TrimSuffix(strings.Repeat("1, ", n), ", ") + "]"
	return " && " + list + ".all(a, " + list + ".all(b, a == b))"
}

func TestWarnings(t *testing.T) {
	by := func(test string) string { return "approvers.any(u, " + test + ")" }
	device := func(kind string) string { return "credentials.any(c, c.type == 'CREDENTIAL_TYPE_" + kind + "')" }
	for _, c := range []struct {
		name, policies, want string // id code, a comma between
	}{
		{"none", "", ""},
		{"nothing odd", rule("a", "ALLOW", by("u.id == '"+brian+"'"), creates), ""},
		{"everything", rule("a", "ALLOW", "", ""), "a ALLOWS_EVERYTHING, a ALLOW_SIGN_ANY_KEY, a SIGN_INCLUDES_RAW_PAYLOADS"},
		{"by their tags", rule("a", "ALLOW", by("u.tags.contains('"+tag+"')"), creates), ""},
		{"by a tag of nobody", rule("a", "ALLOW", by("u.tags.contains('"+ada+"')"), creates), "a NO_SUCH_VOTERS"},
		{"by their passkeys", rule("a", "ALLOW", device("WEBAUTHN_AUTHENTICATOR"), creates), ""},
		{"by keys of the root quorum", rule("a", "ALLOW", device("API_KEY_P256"), creates), "a ROOT_QUORUM_DECIDES"},
		{"each by itself", rule("a", "ALLOW", by("u.alias == 'Ada'"), creates) + "," + rule("b", "ALLOW", by("u.alias == 'Eve'"), creates), "a ROOT_QUORUM_DECIDES, b NO_SUCH_VOTERS"},
		{"a denial that can be an error", rule("a", "DENY", "", "activity.action == 'SIGN' && wallet.id != 'w'"), "a DENY_CAN_ERROR"},
		{"more than a request can evaluate", rule("a", "DENY", "", creates+dear(200)) + "," + rule("b", "DENY", "", creates+dear(320)), "b TOO_MANY_STEPS"},
		{"and another that stands in", rule("", "DENY", "", "activity.action == 'SIGN' && wallet.id != 'w'") + "," + rule("", "DENY", "", "activity.action == 'SIGN'"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			warnings, err := organization(t, c.policies).Warnings()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range warnings {
				if w.PolicyName != "of "+w.PolicyID || w.Message == "" {
					t.Errorf("%+v", w)
				}
				got = append(got, w.PolicyID+" "+w.Code)
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestWhatIsNoOrganizationIsRefused(t *testing.T) {
	for _, c := range []struct {
		name, want string
		spoil      func(*lint.Organization)
	}{
		{"effect", `policy "of a": "EFFECT_PERHAPS" is no effect`, func(o *lint.Organization) { o.Policies[0].Effect = "EFFECT_PERHAPS" }},
		{"consensus", "invalid policy consensus", func(o *lint.Organization) { o.Policies[0].Consensus = "approvers" }},
		{"condition", "invalid policy condition", func(o *lint.Organization) { o.Policies[0].Condition = "activity.kind ==" }},
		{"time", "invalid policy time", func(o *lint.Organization) { o.Policies[0].Time = creates }},
		{"user", `"ada" is no id`, func(o *lint.Organization) { o.Users[0].ID = "ada" }},
		{"tag", `"" is no id`, func(o *lint.Organization) { o.Users[1].Tags[0] = "" }},
		{"root quorum", `"ada" is no id`, func(o *lint.Organization) { o.RootQuorum.UserIDs[0] = "ada" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := organization(t, rule("a", "ALLOW", "", creates))
			c.spoil(o)
			if warnings, err := o.Warnings(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, %v", warnings, err)
			}
		})
	}
}
