package proxy_test

import (
	"fmt"
	"maps"
	"testing"

	"cloister/sim/client"
	"cloister/sim/rig"
)

// A verification token serves each purpose once, in the tree of its organization.
func TestReplayedTokens(t *testing.T) {
	p := startPost(t, rig.Options{Organizations: 1})
	const ada, bob = "ada@example.org", "bob@example.org"
	logIn := func(p *world, token string, members object) *reply {
		body := object{"verificationToken": token, "publicKey": client.NewKey().PublicKey}
		maps.Copy(body, members)
		return p.ask("otp_login", body)
	}
	sub, token := p.signsUp(ada)
	bobs, _ := p.signsUp(bob)
	session := client.NewKey()
	if r := p.ask("otp_login", object{"verificationToken": token, "publicKey": session.PublicKey}); r.Status != 200 {
		t.Fatal(r)
	}
	me := client.Text(p.whoami(sub, session), "userId")
	contact := func(token, address string) *reply {
		return p.public(session, sub, "UPDATE_USER_EMAIL", object{"userId": me, "userEmail": address, "verificationToken": token})
	}
	fresh := p.token(ada)        // has served nothing
	foreign := p.foreign(t, ada) // of the other organization, about the same contact
	unheld := p.token("c@example.org")
	renamed := p.token("d@example.org")
	if r := contact(renamed, "d@example.org"); r.Status != 200 {
		t.Fatal(r)
	}
	if r := contact(fresh, ada); r.Status != 200 { // back; this token has verified a contact now
		t.Fatal(r)
	}
	p.root.Do("UPDATE_AUTH_PROXY_CONFIG", object{"verificationTokenRequiredForGetAccountPii": true})
	k := client.NewKey()
	for _, c := range []struct {
		what   string
		try    func(i int) *reply
		status int
		says   string
	}{
		{"to sign up again", func(int) *reply { return p.ask("signup", signup(object{"userEmail": ada, "verificationToken": token})) }, 400, "invalid verification token"},
		{"to sign up with a contact that is held", func(int) *reply { return p.ask("signup", signup(object{"userEmail": ada, "verificationToken": fresh})) }, 409, "exists already"},
		{"to sign up again with a key", func(int) *reply {
			return p.ask("signup", signup(object{"userEmail": ada, "verificationToken": token, "apiKeys": list(key(client.NewKey()))}))
		}, 400, "invalid verification token"},
		{"to sign up as somebody else", func(i int) *reply {
			return p.ask("signup", signup(object{"userEmail": fmt.Sprintf("e%d@example.org", i), "verificationToken": token}))
		}, 400, ""},
		{"to log in again", func(int) *reply { return logIn(p.world, token, nil) }, 400, "invalid verification token"},
		{"to log in again, named", func(int) *reply { return logIn(p.world, token, object{"organizationId": sub}) }, 400, "invalid verification token"},
		{"to log in elsewhere", func(int) *reply { return logIn(p.world, fresh, object{"organizationId": bobs}) }, 404, ""},
		{"to log in above", func(int) *reply { return logIn(p.world, fresh, object{"organizationId": p.root.Organization}) }, 404, ""},
		{"to verify a contact again", func(int) *reply { return contact(fresh, ada) }, 400, "invalid verification token"},
		{"to verify another contact", func(int) *reply { return contact(unheld, "e@example.org") }, 400, ""},
		{"in another tree", func(int) *reply { return logIn(foreign.world, fresh, nil) }, 400, "invalid verification token"},
		{"in another tree, named", func(int) *reply { return logIn(foreign.world, fresh, object{"organizationId": sub}) }, 404, "no organization found"},
		{"to sign up in another tree", func(int) *reply {
			return foreign.ask("signup", signup(object{"userEmail": ada, "verificationToken": fresh}))
		}, 400, "invalid verification token"},
		{"from another tree, to look somebody up", func(int) *reply {
			return p.ask("account", object{"filterType": "EMAIL", "filterValue": ada, "verificationToken": foreign.token})
		}, 400, "invalid verification token"},
		{"from another tree", func(int) *reply { return logIn(p.world, foreign.token, nil) }, 400, "invalid verification token"},
		{"from another tree, named", func(int) *reply { return logIn(p.world, foreign.token, object{"organizationId": sub}) }, 400, "invalid verification token"},
		{"from another tree, for a contact", func(int) *reply { return contact(foreign.token, ada) }, 400, "invalid verification token"},
		{"of nobody's contact", func(int) *reply { return logIn(p.world, unheld, nil) }, 404, "no organization found"},
		{"with a bit changed", func(i int) *reply { return logIn(p.world, flipped(fresh, i), nil) }, 400, "invalid verification token"},
	} {
		for i := range 50 {
			p.refused(c.what, c.try(i), c.status, c.says)
		}
		t.Logf("refused 50 times: a token %s", c.what)
	}
	// What it may still do it does.
	if r := p.ask("otp_login", object{"verificationToken": fresh, "publicKey": k.PublicKey}); r.Status != 200 {
		t.Errorf("the first log-in: %v", r)
	}
	p.Kill()
	p.restarted()
	later := p.token("f@example.org")
	for range 50 {
		p.refused("after a restart, to sign up", p.ask("signup", signup(object{"userEmail": "c@example.org", "verificationToken": unheld})), 400, "verification token has expired")
		p.refused("after a restart, to log in", logIn(p.world, renamed, object{"organizationId": sub}), 400, "verification token has expired")
	}
	p.ok("signup", signup(object{"userEmail": "f@example.org", "verificationToken": later}))
}

// Whoever sees a token go by that is bound to a key, the host above all, gets nothing
// by it: no contact into an organization of his own, where its owner's next log-in
// would lead. Who verifies the passcode with the key that stamps changes his own.
func TestStolenTokens(t *testing.T) {
	p := newPost(t)
	const victim = "victim@example.org"
	bound := func(to, public string) string {
		init := p.ok("otp_init_v2", object{"otpType": "OTP_TYPE_EMAIL", "contact": to})
		return client.Text(p.ok("otp_verify_v2", object{"otpId": init["otpId"],
			"encryptedOtpBundle": p.encrypted(init["otpEncryptionTargetBundle"].(string), p.code(to), public)}), "verificationToken")
	}
	logIn := func(to string) (session client.KeyPair, sub string) {
		cl, session := p.client(), client.NewKey()
		token := bound(to, cl.Public)
		r := p.ok("otp_login_v2", object{"verificationToken": token, "publicKey": session.PublicKey, "clientSignature": p.signs(cl, object{
			"login": object{"publicKey": session.PublicKey}, "tokenId": p.claims(token)["id"], "type": "USAGE_TYPE_LOGIN"})})
		return session, client.Text(p.claims(r["session"]), "organization_id")
	}
	theirs, _ := p.signsUp("thief@example.org")
	thief, sub := logIn("thief@example.org")
	if sub != theirs {
		t.Fatal(sub)
	}
	me := client.Text(p.whoami(theirs, thief), "userId")
	steal := func(token string) *reply {
		return p.public(thief, theirs, "UPDATE_USER_EMAIL", object{"userId": me, "userEmail": victim, "verificationToken": token})
	}
	cl := p.client()
	token := bound(victim, cl.Public)
	p.refused("a token of somebody else's key", steal(token), 400, "bound to a key")
	own := client.Text(p.ok("signup_v2", object{"userEmail": victim, "verificationToken": token, "apiKeys": list(), "authenticators": list(), "oauthProviders": list(),
		"clientSignature": p.signs(cl, object{"signupV2": object{"email": victim}, "tokenId": p.claims(token)["id"], "type": "USAGE_TYPE_SIGNUP"})}), "organizationId")
	p.refused("a token that has signed up", steal(token), 400, "bound to a key")
	p.refused("a token bound to no key, of a contact that is held", steal(p.token(victim)), 409, "exists already")
	// Nor does the host lead a log-in of the victim's to the thief, by naming where it is
	// meant for: nobody has signed that.
	if r := p.public(thief, theirs, "UPDATE_USER_EMAIL", object{"userId": me, "userEmail": victim}); r.Status != 200 {
		t.Fatal(r)
	}
	k := client.NewKey()
	token = bound(victim, cl.Public)
	led := object{"verificationToken": token, "publicKey": k.PublicKey, "organizationId": theirs, "clientSignature": p.signs(cl, object{
		"login": object{"publicKey": k.PublicKey}, "tokenId": p.claims(token)["id"], "type": "USAGE_TYPE_LOGIN"})}
	p.refused("a log-in that is led astray", p.ask("otp_login_v2", led), 404, "of another sub-organization")
	delete(led, "organizationId")
	if sub := p.claims(p.ok("otp_login_v2", led)["session"])["organization_id"]; sub != own {
		t.Fatalf("the log-in leads to %s", sub)
	}
	user := client.Text(p.whoami(own, k), "userId")
	const anew = "anew@example.org"
	if r := p.public(k, own, "UPDATE_USER_EMAIL",
		object{"userId": user, "userEmail": anew, "verificationToken": bound(anew, k.PublicKey)}); r.Status != 200 {
		t.Fatal(r)
	}
	if _, sub := logIn(anew); sub != own {
		t.Errorf("the log-in by the new address leads to %s", sub)
	}
}

// flipped changes one bit somewhere in a token.
func flipped(token string, i int) string {
	b := []byte(token)
	b[(i * len(b) / 50)] ^= 1
	return string(b)
}

// A foreignProxy is the proxy of another organization, with a token of its own.
type foreignProxy struct {
	*world
	token string
}

// foreign is that of the further organization, which somebody proves a contact to.
func (p *post) foreign(t *testing.T, contact string) *foreignProxy {
	t.Helper()
	w := *p.world
	w.config = enabled(p.other())
	there := &post{world: &w, box: p.box, options: p.options}
	return &foreignProxy{&w, there.token(contact)}
}
