package rig_test

import (
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/authenticator"
	"cloister/sim/client"
)

// The table of what ends with what, in enclave/CREDENTIALS.md, is true: each of its cells is tried, and it has a row for each of
// endings and a column for each of affected.

const endsWith = "../../enclave/CREDENTIALS.md"

// endings are the rows: by what the user acts before, and how that is taken away.
var endings = []struct {
	name    string
	subject string
	end     func(w *ending)
}{
	{"API key deleted", "key", func(w *ending) { w.deleteKey(w.user.Key) }},
	{"API key expired", "brief", func(w *ending) { w.later(61 * time.Second) }},
	{"passkey deleted", "passkey", func(w *ending) {
		w.owner.Do("DELETE_AUTHENTICATORS", object{"userId": w.user.User, "authenticatorIds": []any{w.passkeyID}})
	}},
	{"session deleted", "session", func(w *ending) { w.deleteKey(w.session.Key) }},
	{"other sessions ended (`invalidateExisting`)", "session", func(w *ending) {
		w.spare.Do("STAMP_LOGIN", object{"publicKey": client.NewKey().PublicKey, "invalidateExisting": true})
	}},
	{"session expired", "session", func(w *ending) { w.later(61 * time.Second) }},
	{"identity removed", "identity", func(w *ending) {
		w.owner.Do("DELETE_OAUTH_PROVIDERS", object{"userId": w.user.User, "providerIds": []any{w.identity}})
	}},
	{"contact changed or removed", "contact", func(w *ending) {
		w.owner.Do("UPDATE_USER_EMAIL", object{"userId": w.user.User, "userEmail": w.instead})
	}},
	{"user deleted", "key", func(w *ending) { w.owner.Do("DELETE_USERS", object{"userIds": []any{w.user.User}}) }},
	{"tag taken from the user", "key", func(w *ending) {
		other := w.owner.Do("CREATE_USER_TAG", client.Tag("Other"))["userTagId"]
		w.owner.Do("UPDATE_USER", object{"userId": w.user.User, "userTagIds": []any{other}})
	}},
	{"policy deleted", "key", func(w *ending) {
		for _, id := range w.policies {
			w.owner.Do("DELETE_POLICY", object{"policyId": id})
		}
	}},
	{"user taken out of the root quorum", "key", func(w *ending) {
		vote := voteOn(w.owner.Submit("UPDATE_ROOT_QUORUM", object{"threshold": 3, "userIds": []any{w.owner.User, w.second.User, w.third.User}}))
		w.spare.Submit("APPROVE_ACTIVITY", vote)
		w.second.Do("APPROVE_ACTIVITY", vote)
	}},
	{"log-in by mail switched off", "contact", func(w *ending) {
		for _, name := range []string{"OTP_EMAIL_AUTH", "EMAIL_AUTH"} {
			w.owner.Do("REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_" + name})
		}
	}},
	{"sub-organization deleted", "key", func(w *ending) { w.owner.Do("DELETE_SUB_ORGANIZATION", object{"deleteWithoutExport": true}) }},
	{"session profile", "", nil},
}

const quorumRow = "user taken out of the root quorum"

// affected are the columns. Each makes one thing and answers whether it is still good, or nil if it cannot be made.
var affected = []struct {
	name string
	make func(w *ending) func() bool
}{
	{"sessions it started", func(w *ending) func() bool {
		k := client.NewKey()
		in := object{"publicKey": k.PublicKey}
		switch w.subject {
		case "identity":
			w.prober.Do("OAUTH_LOGIN", object{"publicKey": k.PublicKey, "oidcToken": w.bound(w.me, k)})
		case "contact":
			w.prober.Do("OTP_LOGIN", object{"publicKey": k.PublicKey, "verificationToken": w.verification(nil)})
		default:
			w.completes(w.by("STAMP_LOGIN", in))
		}
		return func() bool { return w.user.As(w.owner.Organization, "", k).Query("whoami", nil).Status == 200 }
	}},
	{"read-only sessions it started", func(w *ending) func() bool {
		got := w.by("CREATE_READ_ONLY_SESSION", object{})
		if got.Status == 401 {
			return nil
		}
		token := client.Text(w.completes(got), "session")
		return func() bool { return reads(w.owner, token, "whoami").Status == 200 }
	}},
	{"approvals it gave", func(w *ending) func() bool {
		typ, in, asks, last := "CREATE_USER_TAG", client.Tag("Voted"), w.second, w.third
		if w.row == quorumRow {
			typ, in, asks, last = "UPDATE_ORGANIZATION_NAME", object{"organizationName": "Voted"}, w.owner, w.second
		}
		vote := w.waiting(asks.Submit(typ, in))
		w.waiting(w.by("APPROVE_ACTIVITY", vote))
		return func() bool { return last.Submit("APPROVE_ACTIVITY", vote).Completed() }
	}},
	{"activities it began that wait", func(w *ending) func() bool {
		typ, in, others := "CREATE_PRIVATE_KEY_TAG", object{"privateKeyTagName": "Begun", "privateKeyIds": []any{}}, []*client.User{w.second, w.third}
		if w.row == quorumRow {
			typ, in, others = "UPDATE_ORGANIZATION_NAME", object{"organizationName": "Begun"}, []*client.User{w.owner, w.second, w.third}
		}
		got := w.by(typ, in)
		if got.Status == 401 {
			return nil
		}
		vote := w.waiting(got)
		return func() (ok bool) {
			for _, one := range others {
				ok = ok || one.Submit("APPROVE_ACTIVITY", vote).Completed()
			}
			return ok
		}
	}},
	{"the same body again", func(w *ending) func() bool {
		typ, in := "STAMP_LOGIN", object{"publicKey": client.NewKey().PublicKey}
		if w.subject == "contact" {
			typ, in = "APPROVE_ACTIVITY", w.waiting(w.second.Submit("CREATE_USER_TAG", client.Tag("Voted")))
		}
		body := w.owner.Body(typ, in)
		stamp, err := w.stampOf(body)
		if err != nil {
			w.t.Fatal(err)
		}
		by := with(w.owner, stamp...) // the same stamp again
		first := submit(by, typ, body)
		if first.Status != 200 {
			w.t.Fatal(first)
		}
		return func() bool {
			got := submit(by, typ, body)
			return got.Status == 200 && got.Text("activity", "id") == first.Text("activity", "id")
		}
	}},
	{"verification tokens of the user", func(w *ending) func() bool {
		token := w.verification(nil)
		return func() bool { return w.logsIn(client.NewKey(), "OTP_LOGIN", "verificationToken", token) }
	}},
	{"codes sent to the user", func(w *ending) func() bool {
		id := w.code()
		return func() bool {
			got := w.prober.Submit("VERIFY_OTP", object{"otpId": id, "otpCode": "000000"})
			return got.Completed() && w.logsIn(client.NewKey(), "OTP_LOGIN", "verificationToken", client.Text(got.Result(), "verificationToken"))
		}
	}},
	{"identity tokens of the user", func(w *ending) func() bool {
		k := client.NewKey()
		token := w.bound(w.me, k)
		return func() bool { return w.logsIn(k, "OAUTH_LOGIN", "oidcToken", token) }
	}},
	{"keys mailed to the user", func(w *ending) func() bool {
		_, target := encapsulation(w.t)
		id := client.Text(w.prober.Do("EMAIL_AUTH_V3", object{"email": sandboxAddress, "targetPublicKey": target, "emailCustomization": object{"appName": "App"}}), "apiKeyId")
		return func() bool {
			got := w.second.Query("list_users", nil)
			return got.Status == 200 && strings.Contains(got.String(), id)
		}
	}},
	{"import targets of the user", func(w *ending) func() bool {
		target := client.Target(client.Text(w.spare.Do("INIT_IMPORT_WALLET", object{"userId": w.user.User}), "importBundle"))
		bundle := sealed(w.t, hex.EncodeToString(target), strings.Repeat("abandon ", 11)+"about")
		return func() bool {
			return w.spare.Submit("IMPORT_WALLET", object{"userId": w.user.User, "walletName": "W", "encryptedBundle": bundle, "accounts": []any{}}).Completed()
		}
	}},
}

// ending is a sub-organization in which one cell is tried.
type ending struct {
	*family
	row, subject  string
	owner         *client.User // may do everything, but in the row of the quorum, where three must
	prober        *client.User // may log others in
	second, third *client.User
	user, spare   *client.User // whose things they are, with two keys
	session       *client.User // the user's
	passkey       *authenticator.Authenticator
	passkeyID     string
	identity      string
	me            string // whom the provider knows him as
	instead       string // of the user's address
	policies      []string
}

// logsIn reports whether the user is logged in with a token.
func (w *ending) logsIn(k client.KeyPair, typ, name, token string) bool {
	w.t.Helper()
	return w.prober.Submit(typ, object{"publicKey": k.PublicKey, name: token}).Completed()
}

// completes is the result of what must be completed.
func (w *ending) completes(got client.Reply) client.Object {
	w.t.Helper()
	if !got.Completed() {
		w.t.Fatal(got)
	}
	return got.Result()
}

// waiting is the vote on what waits for others.
func (w *ending) waiting(got client.Reply) object {
	w.t.Helper()
	if got.State() != "CONSENSUS_NEEDED" {
		w.t.Fatalf("does not wait: %v", got)
	}
	return voteOn(got)
}

func (w *ending) deleteKey(k client.KeyPair) {
	users, _ := w.owner.Query("list_users", nil).Get("users").([]any)
	for _, u := range users {
		keys, _ := client.Get(u, "apiKeys").([]any)
		for _, one := range keys {
			if client.Text(one, "credential", "publicKey") == k.PublicKey {
				w.owner.Do("DELETE_API_KEYS", object{"userId": w.user.User, "apiKeyIds": []any{client.Text(one, "apiKeyId")}})
				return
			}
		}
	}
	w.t.Fatal("no such key")
}

// code has a code sent to the user, in the sandbox.
func (w *ending) code() string {
	w.t.Helper()
	return client.Text(w.spare.Do("INIT_OTP_V2", object{"otpType": "OTP_TYPE_EMAIL", "contact": sandboxAddress, "appName": "App", "otpLength": 6, "alphanumeric": false}), "otpId")
}

// verification is a verification token of the user, for a key or nobody's.
func (w *ending) verification(bound *client.KeyPair) string {
	w.t.Helper()
	in := object{"otpId": w.code(), "otpCode": "000000"}
	if bound != nil {
		in["publicKey"] = bound.PublicKey
	}
	return client.Text(w.spare.Do("VERIFY_OTP", in), "verificationToken")
}

// stampOf is the subject's stamp on a body.
func (w *ending) stampOf(body []byte) ([]wire.Header, error) {
	w.t.Helper()
	by, stamp := client.NewKey(), client.ByKey(w.user.Key)
	switch w.subject {
	case "passkey":
		stamp = client.ByPasskey(w.passkey)
	case "session":
		stamp = client.ByKey(w.session.Key)
	case "identity":
		stamp = w.attested("", by, w.bound(w.me, by)).Stamp
	case "contact":
		stamp = vouched(w.Root(), "", by, w.verification(&by)).Stamp
	}
	return stamp(body)
}

// by has the subject ask for something.
func (w *ending) by(typ string, in object) client.Reply {
	w.t.Helper()
	by := w.owner.As(w.owner.Organization, "", w.owner.Key)
	by.Stamp = w.stampOf
	return by.Submit(typ, in)
}

// newEnding makes the sub-organization of a row.
func newEnding(f *family, row, subject, instead string, n int) *ending {
	w := &ending{family: f, row: row, subject: subject, instead: instead, me: fmt.Sprint("me", n)}
	top, key := f.Root(), client.NewKey()
	made := top.Do("CREATE_SUB_ORGANIZATION_V7", client.SubOrganization(fmt.Sprint(row, n), client.NewRootUser("Owner", key)))
	w.owner = top.As(client.Text(made, "subOrganizationId"), client.Text(made, "rootUserIds", "0"), key)
	tag := w.owner.Do("CREATE_USER_TAG", client.Tag("Tag"))["userTagId"]
	own, spare, second, third := client.NewKey(), client.NewKey(), client.NewKey(), client.NewKey()
	users := []client.Object{client.NewUser("User", own, spare), client.NewUser("Second", second), client.NewUser("Third", third)}
	for _, u := range users {
		u["userTags"] = []any{tag}
	}
	users[0]["userEmail"] = sandboxAddress
	if subject == "brief" {
		client.Get(users[0], "apiKeys", "0").(client.Object)["expirationSeconds"] = "60"
	}
	ids := w.owner.Do("CREATE_USERS_V4", client.Users(users...))
	user := func(n string, k client.KeyPair) *client.User {
		return w.owner.As(w.owner.Organization, client.Text(ids, "userIds", n), k)
	}
	w.user, w.spare, w.second, w.third = user("0", own), user("0", spare), user("1", second), user("2", third)
	w.session = user("0", client.NewKey())
	for kinds, consensus := range map[string]string{
		"!(activity.kind in ['CREATE_USER_TAG', 'CREATE_PRIVATE_KEY_TAG'])": ">= 1",
		"activity.kind == 'CREATE_USER_TAG'":                                ">= 3",
		"activity.kind == 'CREATE_PRIVATE_KEY_TAG'":                         ">= 2",
	} {
		w.policies = append(w.policies, client.Text(w.owner.Do("CREATE_POLICY_V3", client.Policy(consensus, "ALLOW", kinds,
			fmt.Sprintf("approvers.filter(user, user.tags.contains('%s')).count() %s", tag, consensus))), "policyId"))
	}
	w.identity = client.Text(w.spare.Do("CREATE_OAUTH_PROVIDERS_V2", object{"userId": w.user.User, "oauthProviders": []any{object{"providerName": "idp", "oidcToken": w.bound(w.me, client.NewKey())}}}), "providerIds", "0")
	w.spare.Do("STAMP_LOGIN", object{"publicKey": w.session.Key.PublicKey, "expirationSeconds": "60"})
	if subject == "passkey" {
		var err error
		var made *authenticator.Registration
		if w.passkey, err = authenticator.New(authenticator.ES256, "example.org", "https://example.org"); err == nil {
			made, err = w.passkey.Register([]byte("challenge"), authenticator.None)
		}
		if err != nil {
			f.t.Fatal(err)
		}
		w.passkeyID = client.Text(w.spare.Do("CREATE_AUTHENTICATORS_V2", object{"userId": w.user.User, "authenticators": []any{made.Params("passkey")}}), "authenticatorIds", "0")
	}
	w.prober = w.owner
	if row == quorumRow {
		w.prober = w.second
		w.owner.Do("UPDATE_ROOT_QUORUM", object{"threshold": 3, "userIds": []any{w.owner.User, w.user.User, w.second.User}})
	}
	return w
}

// endsTable reads the table of the document: rows by name, with the first word of each cell.
func endsTable(t *testing.T) (columns []string, rows map[string][]string, names []string) {
	t.Helper()
	text, err := os.ReadFile(endsWith)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## What ends with what\n")
	if !found {
		t.Fatal("no section: What ends with what")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	rows = map[string][]string{}
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if columns == nil {
			columns = cells[1:]
			continue
		}
		rows[cells[0]], names = cells[1:], append(names, cells[0])
		for _, c := range cells[1:] {
			_, note, ok := strings.Cut(c, " (")
			if !ok && c != "ends" && c != "stays" && c != "–" {
				t.Errorf("%s: %q", cells[0], c)
			}
			if ok && !strings.Contains(section, "\n- ("+note+" ") {
				t.Errorf("%s: no note (%s", cells[0], note)
			}
		}
	}
	return columns, rows, names
}

func TestWhatEndsWithWhat(t *testing.T) {
	columns, rows, names := endsTable(t)
	var wantColumns, wantNames []string
	for _, c := range affected {
		wantColumns = append(wantColumns, c.name)
	}
	for _, r := range endings {
		wantNames = append(wantNames, r.name)
	}
	if a, b := strings.Join(columns, "|"), strings.Join(wantColumns, "|"); a != b {
		t.Fatalf("columns of the document and of the test:\n%s\n%s", a, b)
	}
	if a, b := strings.Join(names, "|"), strings.Join(wantNames, "|"); a != b {
		t.Fatalf("rows of the document and of the test:\n%s\n%s", a, b)
	}
	world, c := newWorldOutside(t), clocktest.New()
	o := world.options()
	var err error
	if o.Configuration, err = json.Marshal(map[string]any{"sandbox": true, "mail": map[string]any{"host": "127.0.0.1", "port": 1, "security": "plain", "sender": map[string]any{"address": "codes@cloister.example"}},
		"roots": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: world.root.Raw}))}); err != nil {
		t.Fatal(err)
	}
	o.Clock = c
	f := familyIn(world, c, o)
	n := 0
	for _, typ := range []string{"UPDATE_SESSION_PROFILE", "DELETE_SESSION_PROFILES", "DELETE_SESSION_PROFILE"} { // nobody can
		wants(t, typ, f.Root().Submit(typ, object{}), 404, none)
	}
	for _, r := range endings {
		variants := []string{""}
		if r.name == "contact changed or removed" {
			variants = []string{"", "other@example.org"}
		}
		for i, col := range affected {
			want := strings.Fields(rows[r.name][i])[0]
			if r.end == nil {
				if want != "–" {
					t.Errorf("%s, %s: the document says %q, it cannot be", r.name, col.name, want)
				}
				continue
			}
			for _, instead := range variants {
				n++
				w := newEnding(f, r.name, r.subject, instead, n)
				probe, got := col.make(w), "–"
				if probe != nil {
					w.later(time.Second) // issuers count whole ones
					r.end(w)
					got = "ends"
					if probe() {
						got = "stays"
					}
				}
				if got != want {
					t.Errorf("%s, %s: the document says %q, it is %q", r.name, col.name, want, got)
				}
				if probe == nil || got == "stays" {
					continue
				}
				// It is the ending that ends it.
				w = newEnding(f, r.name, r.subject, instead, -n)
				if probe := col.make(w); !probe() {
					t.Errorf("%s, %s: it is no good from the beginning", r.name, col.name)
				}
			}
		}
	}
	t.Logf("counted: %d cells", n)
}
