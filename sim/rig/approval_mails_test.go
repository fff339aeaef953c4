package rig_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloister/enclave/core"
	"cloister/host/egress"
	"cloister/host/store"
	"cloister/shared/clocktest"
	"cloister/shared/pace"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// approvers is a deployment whose mails are left to the host, and the test is the host: it opens each mail when it likes.
type approvers struct {
	*client.User
	rig  *rig.Rig
	seen map[wire.SendID]bool
}

const dashboard = "https://cloister.example.com/dashboard/"

func startApprovers(t *testing.T, o rig.Options, more ...object) *approvers {
	t.Helper()
	configuration := object{"mail": object{"through": "host", "sender": object{"address": "codes@cloister.example"}}}
	for _, m := range more {
		maps.Copy(configuration, m)
	}
	var err error
	o.Configuration, err = json.Marshal(configuration)
	if err != nil {
		t.Fatal(err)
	}
	r := rig.Start(t, o)
	return &approvers{r.Root(), r, map[wire.SendID]bool{}}
}

// newPerson makes a user with a key and, unless it is empty, an address.
func newPerson(u *client.User, name, email string) *client.User {
	u.Test.Helper()
	key := client.NewKey()
	in := client.NewUser(name, key)
	if email != "" {
		in["userEmail"] = email
	}
	made := u.Do("CREATE_USERS_V4", client.Users(in))
	return u.As(u.Organization, client.Text(made, "userIds", "0"), key)
}

// announce turns mails to approvers on.
func announce(u *client.User, url string) client.Reply {
	u.Test.Helper()
	return u.Submit("SET_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_APPROVAL_MAILS", "value": url})
}

func quorum(u *client.User, threshold int, members ...*client.User) {
	u.Test.Helper()
	ids := []any{}
	for _, m := range members {
		ids = append(ids, m.User)
	}
	u.Do("UPDATE_ROOT_QUORUM", object{"threshold": threshold, "userIds": ids})
}

// sends are the mails that the store has and that were not looked at before, in the order of their entries.
func (a *approvers) sends() (ids []wire.SendID) {
	a.Test.Helper()
	err := a.rig.Store.Export(a.Test.Context(), func(row store.Row) error {
		if s, ok := row.(*store.SendRow); ok && s.SendKind == wire.SendMail {
			if id := (wire.SendID{Organization: s.Organization, Seq: s.Seq, Number: s.Number}); !a.seen[id] {
				a.seen[id] = true
				ids = append(ids, id)
			}
		}
		return nil
	})
	if err != nil {
		a.Test.Fatal(err)
	}
	return ids
}

// A letter is a mail as its reader has it.
type letter struct{ to, subject, text, html, id string }

// open is what a send comes to now, nil if it is not to go out any more.
func (a *approvers) open(id wire.SendID) *letter {
	a.Test.Helper()
	d, err := a.rig.Link.Deliver(a.Test.Context(), id)
	switch {
	case err != nil:
		a.Test.Fatal(err)
	case d.Found && d.Expired && d.Mail == nil:
		return nil
	case d.Result != wire.DeliverByHost || d.Mail == nil:
		a.Test.Fatalf("%+v", d)
	}
	l, err := readLetter(string(d.Mail.Message))
	if err != nil {
		a.Test.Fatal(err)
	}
	if l.to != "<"+d.Mail.To+">" || d.Mail.From != "codes@cloister.example" {
		a.Test.Errorf("from %s to %s: %+v", d.Mail.From, d.Mail.To, l)
	}
	l.to = d.Mail.To
	return l
}

func readLetter(message string) (*letter, error) {
	m, err := mail.ReadMessage(strings.NewReader(message))
	if err != nil {
		return nil, err
	}
	head, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil {
		return nil, err
	}
	_, terms, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	l := &letter{to: m.Header.Get("To"), subject: head, id: m.Header.Get("Message-Id")}
	parts := multipart.NewReader(m.Body, terms["boundary"])
	for _, to := range []*string{&l.text, &l.html} {
		p, err := parts.NextRawPart()
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(quotedprintable.NewReader(p))
		if err != nil {
			return nil, err
		}
		*to = strings.ReplaceAll(string(b), "\r\n", "\n")
	}
	if _, err := parts.NextPart(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("more than two parts: %w", err)
	}
	return l, nil
}

// arrived are the mails since the last time, as they would go out now, by address.
func (a *approvers) arrived() map[string]*letter {
	a.Test.Helper()
	all := map[string]*letter{}
	for _, id := range a.sends() {
		if l := a.open(id); l != nil {
			if all[l.to] != nil {
				a.Test.Errorf("two mails to %s", l.to)
			}
			all[l.to] = l
		}
	}
	return all
}

func (a *approvers) wantTo(what string, want ...string) map[string]*letter {
	a.Test.Helper()
	all := a.arrived()
	var got []string
	for to := range all {
		got = append(got, to)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		a.Test.Errorf("%s: mails to %v, want %v", what, got, want)
	}
	return all
}

// waits submits what must wait.
func waits(u *client.User, typ string, in object) client.Reply {
	u.Test.Helper()
	r := u.Submit(typ, in)
	if r.State() != "CONSENSUS_NEEDED" {
		u.Test.Fatal(r)
	}
	return r
}

func vote(by *client.User, typ string, of client.Reply) client.Reply {
	return by.Submit(typ, object{"fingerprint": of.Text("activity", "fingerprint")})
}

// anyLink is what mail readers make a link of.
var anyLink = regexp.MustCompile(`[A-Za-z]:/|[A-Za-z]:[^\s\]]|[\pL\pN]@[\pL\pN]|\pL\.\pL|\pN\.\pL|\pL\.\pN`)

// linksNowhereElse requires that the dashboard is the only address in a mail.
func linksNowhereElse(t testing.TB, l *letter, url string) {
	t.Helper()
	text, html := l.text, l.html
	if url != "" {
		where := regexp.MustCompile(regexp.QuoteMeta(url) + `#/approvals\?organization=[0-9a-f-]{36}`)
		link := where.FindString(text)
		if link == "" || strings.Count(text, link+"\n") != 1 || strings.Count(html, `href="`+strings.ReplaceAll(link, "=", "&#61;")+`"`) != 1 {
			t.Errorf("no link to the dashboard: %s\n%s", text, html)
		}
		text = strings.ReplaceAll(text, link, "")
		html = strings.ReplaceAll(strings.ReplaceAll(html, strings.ReplaceAll(link, "=", "&#61;"), ""), link, "")
	}
	if found := anyLink.FindString(text); found != "" {
		t.Errorf("%q in %s", found, text)
	}
	body := regexp.MustCompile(`<[^>]*>|&#?\w+;`).ReplaceAllString(html, " ")
	if found := anyLink.FindString(body); found != "" {
		t.Errorf("%q in %s", found, body)
	}
	if n := strings.Count(html, "<a "); url != "" && n != 1 || url == "" && n != 0 || strings.Contains(html, "<script") || strings.Contains(html, "<img") {
		t.Errorf("%d links in %s", n, html)
	}
	for _, text := range []string{l.subject, l.text, l.html} {
		if strings.ContainsAny(text, "\u202e\u200b\u2066\u0000") || strings.ContainsAny(l.subject, "\r\n") {
			t.Errorf("hidden characters in %q", text)
		}
	}
}

func mails(t testing.TB, what string, l *letter, says ...string) {
	t.Helper()
	if l == nil {
		t.Errorf("%s: no mail", what)
		return
	}
	for _, want := range says {
		if !strings.Contains(l.text, want) {
			t.Errorf("%s: no %q in\n%s", what, want, l.text)
		}
	}
}

// ether is a transaction of 1.5 ETH; with another nonce it is another.
func ether(address any, nonce int) object {
	return object{"signWith": address, "type": "TRANSACTION_TYPE_ETHEREUM",
		"unsignedTransaction": fmt.Sprintf("ec%02x8504a817c80082520894d1671c723014d3c03e3694a88ce3f03750248fb58814d1120d7b16000080018080", nonce+1)}
}

// Those who can approve what begins to wait get a mail about it, and nobody else.
func TestApprovalMails(t *testing.T) {
	c := clocktest.Running()
	a := startApprovers(t, rig.Options{Clock: c})
	second, third := newPerson(a.User, "Second", "second@example.org"), newPerson(a.User, "Third", "")
	counted := newPerson(a.User, "Counted", "Counted@example.org")
	newPerson(a.User, "Bystander", "bystander@example.org")
	key := client.APIKey("short", client.NewKey())
	key["expirationSeconds"] = "600"
	in := client.NewUser("Keyless")
	in["userEmail"], in["apiKeys"] = "keyless@example.org", []any{key}
	keyless := a.Do("CREATE_USERS_V4", client.Users(in))
	c.Pass(time.Hour)
	a.Do("UPDATE_USER", object{"userId": a.User.User, "userEmail": "first@example.org"})
	address := a.Do("CREATE_WALLET", client.Wallet("Treasury", client.Ethereum))["addresses"].([]any)[0]
	a.Do("CREATE_POLICY_V3", client.Policy("signing", "ALLOW", "activity.action == 'SIGN'",
		"approvers.any(user, user.id == '"+counted.User+"' || user.id == '"+client.Text(keyless, "userIds", "0")+"')"))
	quorum(a.User, 2, a.User, second, third)

	// Off.
	waits(a.User, "SIGN_TRANSACTION_V2", ether(address, 1))
	if got := a.sends(); len(got) != 0 {
		t.Fatalf("without the feature: %v", got)
	}
	on := announce(a.User, dashboard)
	if got := vote(second, "APPROVE_ACTIVITY", on); got.State() != "COMPLETED" {
		t.Fatal(got)
	}
	a.wantTo("what turned it on")

	// On. The initiator gets none, whoever it is.
	body := a.Body("SIGN_TRANSACTION_V2", ether(address, 2))
	asked := same(a.User, "sign_transaction", body)
	got := a.wantTo("a transaction", "second@example.org", "Counted@example.org")
	l := got["second@example.org"]
	created, err := strconv.ParseInt(asked.Text("activity", "createdAt", "seconds"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	until := time.Unix(created, 0).Add(24 * time.Hour).UTC().Format("2 January 2006, 15:04 UTC")
	mails(t, "a transaction", l, "Approval needed: Send ETH\n", "Asked by: Root", "Value: 1.5 ETH", "To: 0xd1671C723014D3C03E3694A88Ce3F03750248FB5", "Network: Ethereum", "Approvals count together until "+until+".", "Note: This address is neither yours")
	name := client.Text(a.Read("get_organization", nil), "organizationData", "name")
	if name == "" {
		name = client.Text(a.Read("whoami", nil), "organizationName")
	}
	if l != nil && l.subject != "Approval needed: Send ETH ("+name+")" {
		t.Errorf("subject %q", l.subject)
	}
	for _, l := range got {
		linksNowhereElse(t, l, dashboard)
	}
	// The same body again, from whoever it is, sends nothing; nor do votes.
	if again := same(a.User, "sign_transaction", body); again.Text("activity", "id") != asked.Text("activity", "id") {
		t.Error(again)
	}
	a.wantTo("the same body again")
	if got := vote(third, "APPROVE_ACTIVITY", asked); got.State() != "COMPLETED" {
		t.Error(got)
	}
	a.wantTo("a vote")
	first := waits(second, "SIGN_TRANSACTION_V2", ether(address, 3))
	a.wantTo("by another", "first@example.org", "Counted@example.org")
	vote(counted, "REJECT_ACTIVITY", first)
	a.wantTo("a rejection")

	// What only the root quorum decides, policies count nobody for.
	l = func() *letter {
		waits(a.User, "CREATE_POLICY_V3", client.Policy("Everything", "ALLOW", "true", "true"))
		return a.wantTo("a policy", "second@example.org")["second@example.org"]
	}()
	mails(t, "a policy", l, "Approval needed: Create policy", "DANGER: This policy allows very much: everything, the use of every key, or giving oneself more rights.", "Effect: EFFECT_ALLOW")
	waits(a.User, "SIGN_TRANSACTION_V2", object{"signWith": address, "unsignedTransaction": unlimited, "type": "TRANSACTION_TYPE_ETHEREUM"})
	l = a.wantTo("an approval of tokens", "second@example.org", "Counted@example.org")["Counted@example.org"]
	mails(t, "an approval of tokens", l, "Allow another to move tokens", "DANGER: Whoever is named may take all tokens of this kind, now and later, without asking again.", "Function: approve(address,uint256)",
		"spender: 0x35cDF80606C5e1eFfE6Cb81d969f03f0c04deCC9", "UNLIMITED")
	if l != nil {
		linksNowhereElse(t, l, dashboard)
	}
	waits(a.User, "SIGN_RAW_PAYLOAD_V2", client.Payload(fmt.Sprint(address), strings.Repeat("ab", 32), "NO_OP"))
	mails(t, "a hash", a.wantTo("a hash", "second@example.org", "Counted@example.org")["second@example.org"], "THIS CANNOT BE READ: approving signs blindly.", "DANGER: This cannot be read: approving signs blindly.")
	long := waits(a.User, "SIGN_RAW_PAYLOAD_V2", client.Payload(fmt.Sprint(address), strings.Repeat("ab", 40_000), "KECCAK256"))
	mails(t, "a long body", a.wantTo("a long body", "second@example.org", "Counted@example.org")["second@example.org"], "Approval needed: Sign raw payload", "NOT READ: this is too long to be told in a mail.", "Asked by: Root")
	vote(a.User, "REJECT_ACTIVITY", long)
}

// A mail is written when it goes out, from the newest state, and does not go out if there is nothing left to do for its reader.
func TestApprovalMailsThatCameTooLate(t *testing.T) {
	c := clocktest.Running()
	a := startApprovers(t, rig.Options{Clock: c})
	second, third := newPerson(a.User, "Second", "second@example.org"), newPerson(a.User, "Third", "third@example.org")
	announce(a.User, dashboard)
	quorum(a.User, 3, a.User, second, third)
	ask := func() (client.Reply, []wire.SendID) {
		t.Helper()
		asked := waits(a.User, "CREATE_USER_TAG", client.Tag(fmt.Sprint("Tag ", a.Times.Next())))
		ids := a.sends()
		if len(ids) != 2 || a.open(ids[0]) == nil || a.open(ids[1]) == nil {
			t.Fatalf("%v", ids)
		}
		return asked, ids
	}
	tos := func(ids []wire.SendID) (tos []string) {
		for _, id := range ids {
			if l := a.open(id); l != nil {
				tos = append(tos, l.to)
			}
		}
		return tos
	}
	wants := func(what string, ids []wire.SendID, want ...string) {
		t.Helper()
		if got := tos(ids); !slices.Equal(got, want) {
			t.Errorf("%s: to %v, want %v", what, got, want)
		}
	}
	done := func(r client.Reply) {
		t.Helper()
		if r.Status != 200 {
			t.Fatal(r)
		}
	}
	all := func(typ string, in object) { // by the whole quorum
		t.Helper()
		r := waits(a.User, typ, in)
		a.sends()
		done(vote(second, "APPROVE_ACTIVITY", r))
		if got := vote(third, "APPROVE_ACTIVITY", r); got.State() != "COMPLETED" {
			t.Fatal(got)
		}
	}

	asked, ids := ask()
	one, again := a.open(ids[0]), a.open(ids[0])
	if *one != *again || one.id == a.open(ids[1]).id {
		t.Errorf("%+v, then %+v", one, again)
	}
	done(vote(second, "APPROVE_ACTIVITY", asked))
	wants("one has voted", ids, "third@example.org")
	done(vote(third, "REJECT_ACTIVITY", asked))
	wants("all have voted", ids)

	asked, ids = ask()
	done(vote(a.User, "REJECT_ACTIVITY", asked))
	wants("withdrawn", ids)

	// Another entry has another mail; numbers and entries without one have none.
	_, ids = ask()
	for what, id := range map[string]wire.SendID{"another number": {Organization: ids[0].Organization, Seq: ids[0].Seq, Number: 7}, "an entry without": {Organization: ids[0].Organization, Seq: ids[0].Seq - 1},
		"no entry": {Organization: ids[0].Organization, Seq: ids[0].Seq + 1000}} {
		if d, err := a.rig.Link.Deliver(t.Context(), id); err != nil || d.Found {
			t.Errorf("%s: %+v, %v", what, d, err)
		}
	}
	if o, err := a.rig.Link.OpenSend(t.Context(), ids[0]); err == nil {
		t.Errorf("opened like a transaction: %+v", o)
	}

	// An address that has changed is the new one.
	all("UPDATE_USER", object{"userId": second.User, "userEmail": "new@example.org"})
	wants("another address", ids, "new@example.org", "third@example.org")
	all("UPDATE_ROOT_QUORUM", object{"threshold": 2, "userIds": []any{a.User.User, second.User}})
	wants("out of the quorum", ids, "new@example.org")
	r := waits(a.User, "UPDATE_ROOT_QUORUM", object{"threshold": 3, "userIds": []any{a.User.User, second.User, third.User}})
	a.sends()
	done(vote(second, "APPROVE_ACTIVITY", r))
	wants("in the quorum again", ids, "new@example.org", "third@example.org")

	// The feature is off, and on again.
	all("REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_APPROVAL_MAILS"})
	wants("the feature is off", ids)
	all("SET_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_APPROVAL_MAILS", "value": ""})
	wants("without a dashboard", ids, "new@example.org", "third@example.org")
	if l := a.open(ids[1]); l == nil || !strings.Contains(l.text, "Look at it in the dashboard that you know") {
		t.Errorf("%+v", l)
	} else {
		linksNowhereElse(t, l, "")
	}

	// Who asked is gone, and a user is gone.
	fourth := newGuest(t, a, second, third)
	waits(fourth, "CREATE_USER_TAG", client.Tag("by a guest"))
	guests := a.sends()
	wants("by a guest", guests, "new@example.org", "third@example.org")
	all("DELETE_USERS", object{"userIds": []any{fourth.User}})
	wants("the guest is gone", guests)

	// A day later approvals count anew.
	_, ids = ask()
	c.Pass(23*time.Hour + 59*time.Minute)
	wants("after 23 hours", ids, "new@example.org", "third@example.org")
	c.Pass(2 * time.Minute)
	wants("after a day", ids)
}

// newGuest makes a user whom a quorum of three must allow, and a policy that lets him ask.
func newGuest(t *testing.T, a *approvers, second, third *client.User) *client.User {
	t.Helper()
	key := client.NewKey()
	r := waits(a.User, "CREATE_USERS_V4", client.Users(client.NewUser("Guest", key)))
	vote(second, "APPROVE_ACTIVITY", r)
	made := vote(third, "APPROVE_ACTIVITY", r)
	p := waits(a.User, "CREATE_POLICY_V3", client.Policy("tags", "ALLOW", "activity.type == 'ACTIVITY_TYPE_CREATE_USER_TAG'", "approvers.count() >= 3"))
	vote(second, "APPROVE_ACTIVITY", p)
	if got := vote(third, "APPROVE_ACTIVITY", p); got.State() != "COMPLETED" {
		t.Fatal(got)
	}
	a.sends()
	return a.As(a.Organization, client.Text(made.Result(), "userIds", "0"), key)
}

// Whatever the requester and the organization are called and ask for, it makes no link, no header and no page of its own.
func TestHostileApprovalMails(t *testing.T) {
	a := startApprovers(t, rig.Options{})
	second := newPerson(a.User, "Second", "second@example.org")
	announce(a.User, dashboard)
	address := a.Do("CREATE_WALLET", client.Wallet("Treasury", client.Ethereum))["addresses"].([]any)[0]
	const bad = `<a href="https://evil.example/x">"Click' https://evil.example/ www.evil.example a@evil.example javascript:alert(1) & é`
	names := []string{bad, "Pay \u202e0001 \u200bnow \u2066x", "evil\u3002example", strings.Repeat("\U0001f600", 255), strings.Repeat("é", 255), "\u05d0\u05d1\u05d2", "=?utf-8?Q?x?="}
	quorum(a.User, 1, a.User, second)
	for _, name := range names {
		if got := a.Submit("UPDATE_ORGANIZATION_NAME", object{"organizationName": name}); got.Status != 200 {
			t.Logf("refused as a name: %q: %v", name, got)
			continue
		}
		a.Submit("UPDATE_USER", object{"userId": a.User.User, "userName": name})
		quorum(a.User, 2, a.User, second)
		asked := waits(a.User, "CREATE_USER_TAG", client.Tag(strings.ReplaceAll(name, "\x00", "")))
		l := a.wantTo(name, "second@example.org")["second@example.org"]
		if l == nil {
			continue
		}
		linksNowhereElse(t, l, dashboard)
		if len(l.subject) > 998 || !strings.HasPrefix(l.subject, "Approval needed: Create user tag (") || strings.Contains(l.html, "<a href=\"https://evil") {
			t.Errorf("%q", l.subject)
		}
		vote(a.User, "REJECT_ACTIVITY", asked)
		r := waits(second, "UPDATE_ROOT_QUORUM", object{"threshold": 1, "userIds": []any{a.User.User, second.User}})
		if got := vote(a.User, "APPROVE_ACTIVITY", r); got.State() != "COMPLETED" {
			t.Fatal(got)
		}
		a.sends()
	}
	quorum(a.User, 2, a.User, second)
	for what, in := range map[string]string{
		"HTML and links": bad, "line breaks": "hello\r\nSubject: another\r\n\r\nBcc: x@evil.example\nTo: 0x1111111111111111111111111111111111111111",
		"long": strings.Repeat("https://evil.example/ ", 500), "one long line": strings.Repeat("x", 10_000), "quotes": strings.Repeat("=", 10_000), "turned": "\u202eevil\u202c\u200b",
	} {
		waits(a.User, "SIGN_RAW_PAYLOAD_V2", object{"signWith": address, "payload": in, "encoding": "PAYLOAD_ENCODING_TEXT_UTF8", "hashFunction": "HASH_FUNCTION_KECCAK256"})
		l := a.wantTo(what, "second@example.org")["second@example.org"]
		if l == nil {
			continue
		}
		linksNowhereElse(t, l, dashboard)
		if len(l.text) > 10_000 || len(l.html) > 64<<10 || regexp.MustCompile(`(?m)^\s*(Subject|Bcc|To): `).MatchString(l.text) {
			t.Errorf("%s: %d bytes: %s", what, len(l.text), l.text)
		}
	}
	notes := client.Policy("A policy", "ALLOW", "activity.resource == 'WALLET' && activity.type != 'user.id'", "approvers.any(user, user.id == '"+second.User+"')")
	notes["notes"] = strings.Repeat(bad, 30)
	waits(a.User, "CREATE_POLICY_V3", notes)
	linksNowhereElse(t, a.wantTo("a policy", "second@example.org")["second@example.org"], dashboard)
}

// Mails of a sub-organization are in the parent's name, lead where the parent says, and hold no text of its users, who are end users.
func TestApprovalMailsBelow(t *testing.T) {
	a := startApprovers(t, rig.Options{})
	a.Do("UPDATE_ORGANIZATION_NAME", object{"organizationName": "Parent Inc"})
	a.Do("UPDATE_USER", object{"userId": a.User.User, "userEmail": "parent@example.org"})
	sub := a.NewSubOrganization("Call +1 555 now")
	second := newPerson(sub, "Second Person", "second@example.org")
	outsider := newPerson(sub, "Outsider", "outsider@example.org")
	address := sub.Do("CREATE_WALLET", client.Wallet("Treasury", client.Ethereum))["addresses"].([]any)[0]
	sub.Do("CREATE_POLICY_V3", client.Policy("Loud name", "ALLOW", "activity.type == 'ACTIVITY_TYPE_CREATE_USER_TAG'", "approvers.any(user, user.id == '"+outsider.User+"')"))
	if got := announce(sub, "https://evil.example/"); got.Status != 400 || !strings.Contains(got.String(), "must be empty in a sub-organization") {
		t.Error(got)
	}
	announce(sub, "")
	quorum(sub, 2, sub, second)
	message := object{"signWith": address, "payload": "Words of an end user", "encoding": "PAYLOAD_ENCODING_TEXT_UTF8", "hashFunction": "HASH_FUNCTION_KECCAK256"}
	for _, url := range []string{"", dashboard} {
		if url != "" {
			announce(a.User, url)
		}
		waits(sub, "SIGN_RAW_PAYLOAD_V2", message)
		l := a.wantTo("below", "second@example.org")["second@example.org"]
		if l == nil {
			t.Fatal("no mail")
		}
		linksNowhereElse(t, l, url)
		for _, text := range []string{l.subject, l.text, l.html} {
			for _, no := range []string{"Words", "Person", "Call", "Root", "Treasury", fmt.Sprint(address)} {
				if strings.Contains(text, no) {
					t.Errorf("%q in %s", no, text)
				}
			}
		}
		if l.subject != "Approval needed: Sign bytes (Parent Inc)" {
			t.Errorf("%q", l.subject)
		}
	}
	waits(sub, "CREATE_USER_TAG", client.Tag("Loud"))
	a.wantTo("counted by a policy", "second@example.org", "outsider@example.org")
	// The parent's own are as they were, and its users get none of those below.
	root2 := newPerson(a.User, "Root Two", "two@example.org")
	quorum(a.User, 2, a.User, root2)
	waits(root2, "CREATE_USER_TAG", client.Tag("above"))
	a.wantTo("above", "parent@example.org")
	below := waits(sub, "CREATE_USER_TAG", client.Tag("below"))
	a.wantTo("below", "second@example.org", "outsider@example.org")
	vote(second, "REJECT_ACTIVITY", below)
	a.wantTo("a vote below")
}

// Nothing is sent to the sandbox's address.
func TestApprovalMailsOfTheSandbox(t *testing.T) {
	a := startApprovers(t, rig.Options{}, object{"sandbox": true})
	second, third := newPerson(a.User, "Second", "user@example.com"), newPerson(a.User, "Third", "third@example.org")
	announce(a.User, "")
	quorum(a.User, 2, a.User, second, third)
	waits(a.User, "CREATE_USER_TAG", client.Tag("one"))
	a.wantTo("of the sandbox", "third@example.org")
}

// The feature takes nothing, or the https URL of a dashboard.
func TestDashboardOfApprovalMails(t *testing.T) {
	a := startApprovers(t, rig.Options{})
	for url, status := range map[string]int{"": 200, dashboard: 200, "https://10.0.0.1:8443/d/": 200, "https://cloister.internal/": 200, "http://cloister.example.com/": 400, "http://127.0.0.1:8080/": 400, "http://localhost/": 400,
		"https://user@example.com/": 400, dashboard + "#/wallets": 400, "javascript:alert(1)": 400, "https://example.com/\nBcc: x": 400, "https://example.com/\u202e": 400, "https://example.com/\"><b>": 400,
		"https://example.com/" + strings.Repeat("a", 492): 200, "https://example.com/" + strings.Repeat("a", 493): 400, "dashboard": 400, " ": 400} {
		if got := announce(a.User, url); got.Status != status {
			t.Errorf("%q: %v", url, got)
		}
	}
	// A simulator that may send webhooks to this machine may lead there too.
	local := startApprovers(t, rig.Options{Receivers: &egress.Dialer{Loopback: true}})
	for url, status := range map[string]int{"http://127.0.0.1:8080/dashboard/": 200, "http://localhost:8080/dashboard/": 200, "http://10.0.0.1/": 400, "http://cloister.example.com/": 400} {
		if got := announce(local.User, url); got.Status != status {
			t.Errorf("%q: %v", url, got)
		}
	}
}

func hourly(n uint32) pace.Rate { return pace.Rate{Count: n, Per: time.Hour} }

// However often somebody asks, approvers get so many mails in an hour; the activities wait all the same.
func TestLimitsOfApprovalMails(t *testing.T) {
	for what, c := range map[string]struct {
		rates     core.Rates
		below     bool
		want      []int // mails of each activity, three approvers
		hourLater int
	}{
		"of the organization": {rates: core.Rates{ApprovalMails: hourly(7)}, want: []int{3, 3, 1, 0, 0}, hourLater: 3},
		"of one contact":      {rates: core.Rates{Approver: hourly(2)}, want: []int{3, 3, 0, 0}, hourLater: 3},
		"of the tenant":       {rates: core.Rates{EachTenant: core.Spending{Mails: hourly(4)}}, want: []int{3, 1, 0}, hourLater: 3},
		"of an end user":      {rates: core.Rates{EachSub: core.Spending{Mails: hourly(2)}, EachTenant: core.Spending{Mails: hourly(100)}}, below: true, want: []int{2, 0}, hourLater: 2},
		"none":                {want: []int{3, 3, 3, 3, 3, 3, 3, 3}, hourLater: 3},
	} {
		t.Run(what, func(t *testing.T) {
			clock := clocktest.Running()
			a := startApprovers(t, rig.Options{Clock: clock, Rates: c.rates})
			u := a.User
			if c.below {
				u = a.NewSubOrganization("Below")
			}
			members := []*client.User{u}
			for i := range 3 {
				members = append(members, newPerson(u, fmt.Sprint("User ", i), fmt.Sprintf("user%d@example.org", i)))
			}
			announce(u, "")
			quorum(u, 2, members...)
			ask := func() int {
				t.Helper()
				r := waits(u, "CREATE_USER_TAG", client.Tag(fmt.Sprint(u.Times.Next())))
				vote(u, "REJECT_ACTIVITY", r) // as in a loop
				return len(a.sends())
			}
			var got []int
			for range c.want {
				got = append(got, ask())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
			clock.Pass(time.Hour)
			if n := ask(); n != c.hourLater {
				t.Errorf("%d an hour later", n)
			}
		})
	}
}

// At most twenty get one, of the root quorum first, and the policies' steps that are left are not overdrawn.
func TestManyApprovers(t *testing.T) {
	a := startApprovers(t, rig.Options{})
	var roots []*client.User
	for i := range 15 {
		roots = append(roots, newPerson(a.User, fmt.Sprint("Root ", i), fmt.Sprintf("root%02d@example.org", i)))
	}
	for i := range 15 {
		newPerson(a.User, fmt.Sprint("User ", i), fmt.Sprintf("user%02d@example.org", i))
	}
	a.Do("CREATE_POLICY_V3", client.Policy("Two", "ALLOW", "activity.type == 'ACTIVITY_TYPE_CREATE_USER_TAG'", "approvers.count() >= 2"))
	announce(a.User, "")
	quorum(a.User, 2, append(roots, a.User)...)
	waits(a.User, "CREATE_USER_TAG", client.Tag("one"))
	all := a.arrived()
	n := 0
	for to := range all {
		if strings.HasPrefix(to, "root") {
			n++
		}
	}
	if len(all) != 20 || n != 15 {
		t.Errorf("%d mails, %d to the root quorum", len(all), n)
	}
}

// Policies that take all steps leave none to find out whom they count: the activity waits, and the root quorum is told.
func TestApprovalMailsWithoutSteps(t *testing.T) {
	a := startApprovers(t, rig.Options{})
	second := newPerson(a.User, "Second", "second@example.org")
	counted := newPerson(a.User, "Counted", "counted@example.org")
	a.Do("CREATE_POLICY_V3", client.Policy("Tags", "ALLOW", "activity.type == 'ACTIVITY_TYPE_CREATE_USER_TAG'", "approvers.any(user, user.id == '"+counted.User+"')"))
	announce(a.User, "")
	quorum(a.User, 2, a.User, second)
	waits(a.User, "CREATE_USER_TAG", client.Tag("one"))
	a.wantTo("few steps", "second@example.org", "counted@example.org")
	var items []string
	for i := range 130 {
		items = append(items, fmt.Sprintf("'a%d'", i))
	}
	list := "[" + strings.Join(items, ", ") + "]"
	var policies []any
	for i := range 40 {
		policies = append(policies, client.Policy(fmt.Sprint("Dear ", i), "DENY", fmt.Sprintf("%s.any(a, %[1]s.any(b, a == b && a == 'x'))", list), ""))
	}
	r := waits(a.User, "CREATE_POLICIES", object{"policies": policies})
	if got := vote(second, "APPROVE_ACTIVITY", r); got.State() != "COMPLETED" {
		t.Fatal(got)
	}
	a.sends()
	waits(a.User, "CREATE_USER_TAG", client.Tag("two"))
	a.wantTo("all steps", "second@example.org")
}

// Who must prove another factor first has others told when he has: they could not approve before.
func TestApprovalMailsAfterAFactor(t *testing.T) {
	a := startApprovers(t, rig.Options{})
	second := newPerson(a.User, "Second", "second@example.org")
	other := a.NewKey()
	a.Do("CREATE_MFA_POLICY", object{"userId": a.User.User, "mfaPolicyName": "two keys", "condition": "activity.type == 'ACTIVITY_TYPE_CREATE_USER_TAG'", "order": 1, "notes": "",
		"requiredAuthenticationMethods": []any{object{"any": []any{object{"type": "AUTHENTICATION_TYPE_API_KEY"}}}, object{"any": []any{object{"type": "AUTHENTICATION_TYPE_API_KEY"}}}}})
	announce(a.User, "")
	quorum(a.User, 2, a.User, second)
	asked := a.Submit("CREATE_USER_TAG", client.Tag("one"))
	if asked.State() != "AUTHENTICATORS_NEEDED" {
		t.Fatal(asked)
	}
	a.wantTo("a factor is missing")
	if got := vote(other, "APPROVE_ACTIVITY", asked); got.State() != "CONSENSUS_NEEDED" {
		t.Fatal(got)
	}
	a.wantTo("proven", "second@example.org")
}

// Mails that the enclave hands in itself arrive once, and are told of like any other.
func TestApprovalMailArrives(t *testing.T) {
	p := startPost(t, rig.Options{})
	second := newPerson(p.User, "Second", "second@example.org")
	announce(p.User, dashboard)
	quorum(p.User, 2, p.User, second)
	asked := waits(p.User, "CREATE_USER_TAG", client.Tag("one"))
	var id wire.SendID
	a := &approvers{p.User, p.rig, map[wire.SendID]bool{}}
	if ids := a.sends(); len(ids) != 1 {
		t.Fatal(ids)
	} else {
		id = ids[0]
	}
	clocktest.Until(t, "the mail arrives", func() bool { return len(p.box.Messages("second@example.org")) > 0 })
	for range 10 {
		if d, err := p.rig.Link.Deliver(t.Context(), id); err != nil || d.Result != wire.DeliverDone || d.Mail != nil {
			t.Errorf("%+v, %v", d, err)
		}
	}
	all := p.box.Messages("")
	if len(all) != 1 || !strings.HasPrefix(all[0].Subject, "Approval needed: Create user tag (") || !strings.Contains(all[0].Text, dashboard+"#/approvals?organization="+p.Organization) || !strings.Contains(all[0].From, "codes@cloister.example") {
		t.Errorf("%+v", all)
	}
	clocktest.Until(t, "it is told of", func() bool {
		events := p.Read("list_email_events", object{"email": "second@example.org"})["emailEvents"].([]any)
		return len(events) == 2 && client.Text(events[0], "eventType") == "Delivery"
	})
	vote(p.User, "REJECT_ACTIVITY", asked)
	if d, err := p.rig.Link.Deliver(t.Context(), id); err != nil || !d.Expired {
		t.Errorf("%+v, %v", d, err)
	}
}
