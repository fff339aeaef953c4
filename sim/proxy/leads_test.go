package proxy_test

import (
	"strings"
	"testing"

	"cloister/sim/client"
)

// A thief has a sub-organization and writes into it what is not his. Nobody may be led there by it.
type thief struct {
	*post
	self *client.User
}

func (p *post) thief() *thief {
	p.t.Helper()
	k := client.NewKey()
	got := p.ok("signup", signup(object{"apiKeys": list(key(k))}))
	return &thief{p, p.root.As(client.Text(got, "organizationId"), client.Text(got, "userId"), k)}
}

// The ways in which a public key gets into a sub-organization of somebody to whom it does not belong.
var waysOfKeys = map[string]func(*thief, client.KeyPair){
	"CREATE_API_KEYS_V2": func(t *thief, k client.KeyPair) {
		t.self.Do("CREATE_API_KEYS_V2", object{"userId": t.self.User, "apiKeys": list(key(k))})
	},
	"CREATE_USERS_V4": func(t *thief, k client.KeyPair) {
		t.self.Do("CREATE_USERS_V4", client.Users(client.NewUser("Somebody "+k.PublicKey[2:10], k)))
	},
	"a sign-up beside a key of the thief's": func(t *thief, k client.KeyPair) {
		t.ask("signup", signup(object{"apiKeys": list(key(k), key(client.NewKey()))})) // refused where it has logged in
	},
	"a sign-up beside a passkey of the thief's": func(t *thief, k client.KeyPair) {
		_, own := t.passkey()
		t.ask("signup", signup(object{"apiKeys": list(key(k)), "authenticators": list(own)}))
	},
}

func (p *post) account(filter, value string) string {
	p.t.Helper()
	found, _ := p.ok("account", object{"filterType": filter, "filterValue": value})["organizationId"].(string)
	return found
}

// listed is what the parent's server finds: the first of list_suborgs.
func (p *post) listed(filter, value string) string {
	p.t.Helper()
	ids := p.root.Read("list_suborgs", object{"filterType": filter, "filterValue": value})["organizationIds"].([]any)
	if len(ids) == 0 {
		return ""
	}
	return ids[0].(string)
}

// TestKeyOfAnother adds somebody's public key, which a chain tells to everybody, where it does not belong: before he has an
// account, when he has one, and when he has logged in to it. He signs up, is found and logs in as if it were not there.
func TestKeyOfAnother(t *testing.T) {
	p := newPost(t)
	for what, adds := range waysOfKeys {
		th := p.thief()
		newcomer, fresh, settled := client.NewKey(), client.NewKey(), client.NewKey()
		home := map[client.KeyPair]string{}
		for _, k := range []client.KeyPair{fresh, settled} {
			home[k] = client.Text(p.ok("signup", signup(object{"apiKeys": list(key(k))})), "organizationId")
		}
		p.logIn(settled, home[settled])
		for _, k := range []client.KeyPair{newcomer, fresh, settled} {
			adds(th, k)
		}
		if found := p.account("PUBLIC_KEY", newcomer.PublicKey) + p.listed("PUBLIC_KEY", newcomer.PublicKey); found != "" {
			t.Errorf("%s: a newcomer is led to %s before he has an account", what, found)
		}
		p.refused(what+": a newcomer's log-in", p.public(newcomer, p.root.Organization, "STAMP_LOGIN",
			object{"publicKey": client.NewKey().PublicKey}), 401, "could not find public key")
		home[newcomer] = client.Text(p.ok("signup", signup(object{"apiKeys": list(key(newcomer))})), "organizationId")
		for k, own := range home {
			if a, l := p.account("PUBLIC_KEY", k.PublicKey), p.listed("PUBLIC_KEY", k.PublicKey); a != own || l != own {
				t.Errorf("%s: found in %s and %s, not in %s", what, a, l, own)
			}
			if in := p.logIn(k, p.root.Organization); in != own {
				t.Errorf("%s: the log-in leads to %s, not to %s", what, in, own)
			}
		}
	}
}

// TestSignedUpByAnother signs a key up alone, as often as one likes, before its owner does and afterwards. Nobody else can do
// anything there, so that it may lead: but until the owner has logged in, his own sign-up leads, which is the newest.
func TestSignedUpByAnother(t *testing.T) {
	p := newPost(t)
	k := client.NewKey()
	signUp := func() string {
		return client.Text(p.ok("signup", signup(object{"apiKeys": list(key(k))})), "organizationId")
	}
	signUp()
	signUp()
	own := signUp()
	if a := p.account("PUBLIC_KEY", k.PublicKey); a != own {
		t.Errorf("found in %s, not in %s", a, own)
	}
	if in := p.logIn(k, p.root.Organization); in != own {
		t.Errorf("the log-in leads to %s, not to %s", in, own)
	}
	p.refused("signed up again after he has logged in", p.ask("signup", signup(object{"apiKeys": list(key(k))})), 400, "another sub-organization")
	if in := p.logIn(k, p.root.Organization); in != own {
		t.Errorf("the next log-in leads to %s, not to %s", in, own)
	}
	// An address beside it lets nobody in, whoever can read its mail.
	victim := client.NewKey()
	sub := client.Text(p.ok("signup", signup(object{"apiKeys": list(key(victim)), "userEmail": "mallory@example.org"})), "organizationId")
	token := p.token("mallory@example.org")
	session := client.NewKey()
	p.refused("the mailbox beside a key", p.ask("otp_login", object{"verificationToken": token, "publicKey": session.PublicKey, "organizationId": sub}), 404, "")
	if r := p.public(p.root.Key, sub, "OTP_LOGIN", object{"verificationToken": token, "publicKey": session.PublicKey}); r.Status == 200 {
		t.Errorf("the parent's server logs the mailbox in: %s", r)
	}
}

// TestPasskeyOfAnother registers a passkey that has been seen elsewhere: the first who registered it is led home.
func TestPasskeyOfAnother(t *testing.T) {
	p := newPost(t)
	for what, adds := range map[string]func(*thief, object){
		"CREATE_AUTHENTICATORS_V2": func(t *thief, passkey object) {
			t.self.Do("CREATE_AUTHENTICATORS_V2", object{"userId": t.self.User, "authenticators": list(passkey)})
		},
		"CREATE_USERS_V4": func(t *thief, passkey object) {
			u := client.NewUser("Somebody")
			u["authenticators"] = list(passkey)
			t.self.Do("CREATE_USERS_V4", client.Users(u))
		},
	} {
		th := p.thief()
		_, passkey := p.passkey()
		own := client.Text(p.ok("signup", signup(object{"authenticators": list(passkey)})), "organizationId")
		adds(th, passkey)
		credential := client.Text(passkey, "attestation", "credentialId")
		if a, l := p.account("CREDENTIAL_ID", credential), p.listed("CREDENTIAL_ID", credential); a != own || l != own {
			t.Errorf("%s: found in %s and %s, not in %s", what, a, l, own)
		}
		p.refused(what+": signed up once more", p.ask("signup", signup(object{"authenticators": list(passkey)})), 400, "another sub-organization")
	}
}

// TestContactOfAnother writes somebody's address or number into a sub-organization of the thief's, without a proof. Neither
// the proxy nor a parent's server that looks for it is led there, and the host cannot lead a log-in there by its word.
func TestContactOfAnother(t *testing.T) {
	p := newPost(t)
	for what, writes := range map[string]func(t *thief, victim string){
		"UPDATE_USER_EMAIL": func(t *thief, victim string) {
			t.self.Do("UPDATE_USER_EMAIL", object{"userId": t.self.User, "userEmail": victim})
		},
		"UPDATE_USER": func(t *thief, victim string) {
			t.self.Do("UPDATE_USER", object{"userId": t.self.User, "userEmail": victim})
		},
		"CREATE_USERS_V4": func(t *thief, victim string) {
			u := client.NewUser("Somebody", client.NewKey())
			u["userEmail"] = victim
			t.self.Do("CREATE_USERS_V4", client.Users(u))
		},
	} {
		th, victim := p.thief(), strings.ToLower(what)+"@example.org"
		writes(th, victim)
		if found := p.account("EMAIL", victim) + p.listed("EMAIL", victim); found != "" {
			t.Errorf("%s: the address leads to %s", what, found)
		}
		token := p.token(victim)
		k := client.NewKey()
		p.refused(what+": led there by the host", p.ask("otp_login", object{"verificationToken": token, "publicKey": k.PublicKey, "organizationId": th.self.Organization}), 404, "not proven to be the user's")
		own, _ := p.signsUp(victim)
		if a, l := p.account("EMAIL", victim), p.listed("EMAIL", victim); a != own || l != own {
			t.Errorf("%s: found in %s and %s, not in %s", what, a, l, own)
		}
	}
	// What the parent's server has brought is found by it, and by the proxy once it has been verified.
	root := client.NewRootUser("Root")
	root["userEmail"] = "vouched@example.org"
	vouched := client.Text(p.root.Do("CREATE_SUB_ORGANIZATION_V8", client.SubOrganization("Vouched", root)), "subOrganizationId")
	if found := p.listed("EMAIL", "vouched@example.org"); found != vouched {
		t.Errorf("the parent's server finds %s, not %s", found, vouched)
	}
	if found := p.account("EMAIL", "vouched@example.org"); found != "" {
		t.Errorf("the proxy finds %s", found)
	}
	if r := p.ok("otp_login", object{"verificationToken": p.token("vouched@example.org"), "publicKey": client.NewKey().PublicKey, "organizationId": vouched}); p.claims(r["session"])["organization_id"] != vouched {
		t.Errorf("%v", r)
	}
	if found := p.account("EMAIL", "vouched@example.org"); found != vouched {
		t.Errorf("the proxy finds %s after the log-in", found)
	}
}
