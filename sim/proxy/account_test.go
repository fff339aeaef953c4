package proxy_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"cloister/sim/client"
	"cloister/sim/rig"
)

func TestAccount(t *testing.T) {
	w := newWorld(t, rig.Options{Rates: unlimited, Organizations: 1})
	k := client.NewKey()
	_, passkey := w.passkey()
	first := client.Text(w.ok("signup", signup(object{"userName": "Ada", "organizationName": "Shared", "userEmail": "Ada@example.com", "userPhoneNumber": "+15551234567",
		"apiKeys": list(key(k)), "authenticators": list(passkey)})), "organizationId")
	second := client.Text(w.ok("signup", signup(object{"userName": "Bob", "organizationName": "Shared", "userEmail": "ada@example.com", "apiKeys": list(key(client.NewKey()))})), "organizationId")
	if first == second {
		t.Fatal(first)
	}
	credential := client.Text(passkey, "attestation", "credentialId")
	stamped := client.NewKey()
	_, beside := w.passkey()
	third := client.Text(w.ok("signup", signup(object{"apiKeys": list(key(stamped)), "authenticators": list(beside)})), "organizationId")
	w.logIn(stamped, third)
	for _, c := range []struct{ filter, value, want string }{
		{"PUBLIC_KEY", stamped.PublicKey, third},
		{"PUBLIC_KEY", strings.ToUpper(stamped.PublicKey), third},
		// A key that somebody has signed up beside a credential of his own finds nobody, until it has stamped there.
		{"PUBLIC_KEY", k.PublicKey, ""},
		{"CREDENTIAL_ID", credential, first},
		{"CREDENTIAL_ID", credential + "=", first},
		{"NAME", "Shared", first}, // the older of the two
		{"USERNAME", "Ada", first},
		{"USERNAME", "Bob", second},
		// Contacts that nobody has verified find nobody: anyone can sign up with them.
		{"EMAIL", "ada@example.com", ""},
		{"EMAIL", "Ada@example.com", ""},
		{"PHONE_NUMBER", "+15551234567", ""},
		{"PUBLIC_KEY", client.NewKey().PublicKey, ""},
		{"PUBLIC_KEY", w.root.Key.PublicKey, ""}, // of the organization itself
		{"PUBLIC_KEY", "no key", ""},
		{"CREDENTIAL_ID", "not base64!", ""},
		{"OIDC_CLAIMS", `{"iss":"https://issuer.example","sub":"nobody","aud":"web"}`, ""},
		{"OIDC_CLAIMS", "no claims", ""},
		{"NAME", "shared", ""},
		{"NAME", "Root organization", ""},
		{"USERNAME", "Root user", ""},
		{"USERNAME", "nobody", ""},
		{"EMAIL", "nobody@example.com", ""},
		{"EMAIL", "no address", ""},
	} {
		want := "{}"
		if c.want != "" {
			want = `{"organizationId":"` + c.want + `"}`
		}
		body := object{"filterType": c.filter, "filterValue": c.value}
		for _, r := range []*reply{w.ask("account", body), w.ask("account", snake(body))} {
			if r.Status != 200 || string(r.Body) != want {
				t.Errorf("%s %q: %v, want %s", c.filter, c.value, r, want)
			}
		}
	}
	for _, c := range []struct {
		what   string
		body   any
		status int
		says   string
	}{
		{"no filter", object{}, 400, "filterType"},
		{"no value", object{"filterType": "EMAIL"}, 400, "filterValue"},
		{"an empty value", object{"filterType": "EMAIL", "filterValue": ""}, 400, "filterValue"},
		{"an unknown filter", object{"filterType": "WALLET_ACCOUNT_ADDRESS", "filterValue": "0x"}, 400, "must be one of"},
		{"an organization", object{"filterType": "NAME", "filterValue": "Shared", "organizationId": w.root.Organization}, 400, "unknown field"},
		{"a page", object{"filterType": "NAME", "filterValue": "Shared", "paginationOptions": object{"limit": "100"}}, 400, "unknown field"},
		{"no object", "[]", 400, ""},
		{"an empty body", "", 400, ""},
		{"a value that is a number", `{"filterType":"NAME","filterValue":7}`, 400, ""},
	} {
		w.refused(c.what, w.ask("account", c.body), c.status, c.says)
	}
}

// Whether an account exists can be told by nothing but the answer itself: one that
// demands a token refuses alike, headers and all, before it looks.
func TestAccountDoesNotTellWithoutToken(t *testing.T) {
	w := newWorld(t, rig.Options{Rates: unlimited})
	w.ok("signup", signup(object{"userEmail": "ada@example.com", "apiKeys": list(key(client.NewKey()))}))
	w.root.Do("UPDATE_AUTH_PROXY_CONFIG", object{"verificationTokenRequiredForGetAccountPii": true})
	shape := func(r *reply) string {
		var b strings.Builder
		for _, name := range []string{"Content-Type", "Content-Length", "Ratelimit-Limit", "Access-Control-Allow-Origin"} {
			b.WriteString(name + ": " + r.head.Get(name) + "\n")
		}
		return b.String() + string(r.Body)
	}
	var first string
	for i := range 50 {
		present := w.ask("account", object{"filterType": "EMAIL", "filterValue": "ada@example.com"})
		absent := w.ask("account", object{"filterType": "EMAIL", "filterValue": "bob@example.com"})
		if present.Status != 400 || absent.Status != 400 || shape(present) != shape(absent) {
			t.Fatalf("%d: %s\n%s", i, shape(present), shape(absent))
		}
		if first == "" {
			first = shape(present)
		}
		if shape(present) != first {
			t.Errorf("%s\n%s", first, shape(present))
		}
	}
	for _, token := range []string{"x", "a.b.c", strings.Repeat("a", 20_000)} {
		w.refused("a token that is none", w.ask("account", object{"filterType": "EMAIL", "filterValue": "ada@example.com", "verificationToken": token}), 400, "invalid verification token")
	}
	w.refused("a phone number", w.ask("account", object{"filterType": "PHONE_NUMBER", "filterValue": "+15551234567"}), 400, "verification token")
	// What is no contact needs none.
	if r := w.ask("account", object{"filterType": "NAME", "filterValue": "nobody"}); r.Status != 200 || string(r.Body) != "{}" {
		t.Errorf("%v", r)
	}
}

// A configuration reaches its own organization's accounts and no other's.
func TestTenantsAreApart(t *testing.T) {
	w := newWorld(t, rig.Options{Rates: unlimited, Organizations: 1})
	k := client.NewKey()
	mine := client.Text(w.ok("signup", signup(object{"userName": "Ada", "organizationName": "Mine", "apiKeys": list(key(k))})), "organizationId")
	o, other := w.other(), *w
	other.root, other.config = o, enabled(o)
	if got := client.Text(other.ok("wallet_kit_config", "{}"), "organizationId"); got != o.Organization {
		t.Fatal(got)
	}
	for _, c := range [][2]string{{"PUBLIC_KEY", k.PublicKey}, {"NAME", "Mine"}, {"USERNAME", "Ada"}} {
		if r := other.ask("account", object{"filterType": c[0], "filterValue": c[1]}); r.Status != 200 || string(r.Body) != "{}" {
			t.Errorf("%s: %v", c[0], r)
		}
		if r := w.ask("account", object{"filterType": c[0], "filterValue": c[1]}); !strings.Contains(string(r.Body), mine) {
			t.Errorf("%s: %v", c[0], r)
		}
	}
	// The same key in another tree is another user's business.
	theirs := client.Text(other.ok("signup", signup(object{"apiKeys": list(key(k))})), "organizationId")
	if theirs == mine {
		t.Error("one organization for two parents")
	}
	// A session of the one tree's user is nothing to the other.
	for _, org := range []string{theirs, o.Organization, w.root.Organization} {
		if r := w.root.As(org, "", k).Query("list_users", nil); org != theirs && r.Status == 200 {
			t.Errorf("%s: %v", org, r)
		}
	}
}

// TestNamesDoNotTell: users and organizations may be named by a contact, as the kits do. A name tells no more than a contact: where the
// configuration demands a token, whoever has the contact's finds the name, and nobody else does.
func TestNamesDoNotTell(t *testing.T) {
	p := newPost(t)
	const victim, phone = "victim@example.org", "+15551234567"
	named := client.Text(p.ok("signup", signup(object{"userName": victim, "organizationName": "Wallet of " + victim, "userEmail": victim, "apiKeys": list(key(client.NewKey()))})), "organizationId")
	p.ok("signup", signup(object{"userName": phone, "userPhoneNumber": phone, "apiKeys": list(key(client.NewKey()))}))
	// Who gives no name is not named by his contact.
	p.ok("signup", signup(object{"userEmail": "nameless@example.org", "userPhoneNumber": "+15557654321", "apiKeys": list(key(client.NewKey()))}))
	for _, contact := range []string{"nameless@example.org", "+15557654321"} {
		if found := p.account("USERNAME", contact); found != "" {
			t.Errorf("%s is a name: %s", contact, found)
		}
	}
	if found := p.account("USERNAME", victim); found != named {
		t.Fatalf("nothing is demanded, and %s finds %q", victim, found)
	}
	p.root.Do("UPDATE_AUTH_PROXY_CONFIG", object{"verificationTokenRequiredForGetAccountPii": true})
	for _, c := range []struct{ filter, somebody, nobody, says string }{
		{"USERNAME", victim, "nobody@example.org", "a verification token for the contact is needed"},
		{"USERNAME", phone, "+15550000000", "a verification token for the contact is needed"},
		{"USERNAME", "Ada", "Nobody", "look for EMAIL or PHONE_NUMBER"},
		{"NAME", "Wallet of " + victim, "Wallet of nobody@example.org", "a verification token for the contact is needed"},
	} {
		is, isNot := p.ask("account", object{"filterType": c.filter, "filterValue": c.somebody}), p.ask("account", object{"filterType": c.filter, "filterValue": c.nobody})
		p.refused(c.filter+" "+c.somebody, is, 400, c.says)
		if is.shape() != isNot.shape() {
			t.Errorf("%s %s:\n%s\n%s", c.filter, c.somebody, is.shape(), isNot.shape())
		}
	}
	other := p.token("attacker@example.org")
	p.refused("another's token", p.ask("account", object{"filterType": "USERNAME", "filterValue": victim, "verificationToken": other}), 400, "invalid verification token")
	own := p.token(victim)
	for filter, value := range map[string]string{"USERNAME": victim, "NAME": "Wallet of " + victim} {
		if found := client.Text(p.ok("account", object{"filterType": filter, "filterValue": value, "verificationToken": own}), "organizationId"); found != named {
			t.Errorf("%s with his own token: %q", filter, found)
		}
	}
	// A contact that somebody has proven is no other to whoever signs up with it unproven.
	p.ok("signup", signup(object{"userEmail": "proven@example.org", "verificationToken": p.token("proven@example.org")}))
	answer := func(contact string) string {
		return strings.Join(members(p.ok("signup", signup(object{"userEmail": contact, "apiKeys": list(key(client.NewKey()))}))), " ")
	}
	if is, isNot := answer("proven@example.org"), answer("unproven@example.org"); is != isNot {
		t.Errorf("a sign-up with somebody's contact answers %s, with nobody's %s", is, isNot)
	}
}

func members(m object) []string { return slices.Sorted(maps.Keys(m)) }
