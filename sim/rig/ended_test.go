package rig_test

import (
	"crypto/ecdh"
	"crypto/rand"
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
	"cloister/sim/laptop"
	"cloister/sim/rig"
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
	{"API key deleted", "key", func(w *ending) { w.deleteKey(w.key) }},
	{"API key expired", "brief", func(w *ending) { w.later(61 * time.Second) }},
	{"passkey deleted", "passkey", func(w *ending) {
		w.does(w.owner, "DELETE_AUTHENTICATORS", object{"userId": w.user, "authenticatorIds": []any{w.passkeyID}})
	}},
	{"session deleted", "session", func(w *ending) { w.deleteKey(w.session) }},
	{"other sessions ended (`invalidateExisting`)", "session", func(w *ending) {
		w.does(w.spare, "STAMP_LOGIN", object{"publicKey": newKey(w.t).PublicKey, "invalidateExisting": true})
	}},
	{"session expired", "session", func(w *ending) { w.later(61 * time.Second) }},
	{"identity removed", "identity", func(w *ending) {
		w.does(w.owner, "DELETE_OAUTH_PROVIDERS", object{"userId": w.user, "providerIds": []any{w.identity}})
	}},
	{"contact changed or removed", "contact", func(w *ending) {
		w.does(w.owner, "UPDATE_USER_EMAIL", object{"userId": w.user, "userEmail": w.instead})
	}},
	{"user deleted", "key", func(w *ending) { w.does(w.owner, "DELETE_USERS", object{"userIds": []any{w.user}}) }},
	{"tag taken from the user", "key", func(w *ending) {
		other := w.does(w.owner, "CREATE_USER_TAG", object{"userTagName": "Other", "userIds": []any{}})["userTagId"]
		w.does(w.owner, "UPDATE_USER", object{"userId": w.user, "userTagIds": []any{other}})
	}},
	{"policy deleted", "key", func(w *ending) {
		for _, id := range w.policies {
			w.does(w.owner, "DELETE_POLICY", object{"policyId": id})
		}
	}},
	{"user taken out of the root quorum", "key", func(w *ending) {
		asked := w.submit(w.owner, w.sub, "UPDATE_ROOT_QUORUM", object{"threshold": 3, "userIds": []any{w.ownerID, w.second.id, w.third.id}})
		vote := object{"fingerprint": rig.Text(asked.m, "activity", "fingerprint")}
		w.submit(w.spare, w.sub, "APPROVE_ACTIVITY", vote)
		w.does(w.second.key, "APPROVE_ACTIVITY", vote)
	}},
	{"log-in by mail switched off", "contact", func(w *ending) {
		for _, name := range []string{"OTP_EMAIL_AUTH", "EMAIL_AUTH"} {
			w.does(w.owner, "REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_" + name})
		}
	}},
	{"sub-organization deleted", "key", func(w *ending) { w.does(w.owner, "DELETE_SUB_ORGANIZATION", object{"deleteWithoutExport": true}) }},
	{"session profile", "", nil},
}

const quorumRow = "user taken out of the root quorum"

// affected are the columns. Each makes one thing and answers whether it is still good, or nil if it cannot be made.
var affected = []struct {
	name string
	make func(w *ending) func() bool
}{
	{"sessions it started", func(w *ending) func() bool {
		k := newKey(w.t)
		in := object{"publicKey": k.PublicKey}
		switch w.subject {
		case "identity":
			w.does(w.prober, "OAUTH_LOGIN", object{"publicKey": k.PublicKey, "oidcToken": w.bound(w.me, k)})
		case "contact":
			w.does(w.prober, "OTP_LOGIN", object{"publicKey": k.PublicKey, "verificationToken": w.verification(nil)})
		default:
			w.completes(w.by("STAMP_LOGIN", in))
		}
		return func() bool { return w.ask(k, w.sub, "whoami").status == 200 }
	}},
	{"read-only sessions it started", func(w *ending) func() bool {
		got := w.by("CREATE_READ_ONLY_SESSION", object{})
		if got.status == 401 {
			return nil
		}
		token := rig.Text(got.result(w.t), "session")
		return func() bool { return w.reads(token, w.sub, "whoami").status == 200 }
	}},
	{"approvals it gave", func(w *ending) func() bool {
		typ, in, asks, last := "CREATE_USER_TAG", object{"userTagName": "Voted", "userIds": []any{}}, w.second, w.third
		if w.row == quorumRow {
			typ, in, asks, last = "UPDATE_ORGANIZATION_NAME", object{"organizationName": "Voted"}, member{w.ownerID, w.owner}, w.second
		}
		vote := w.waiting(w.submit(asks.key, w.sub, typ, in))
		w.waiting(w.by("APPROVE_ACTIVITY", vote))
		return func() bool { return w.done200(w.submit(last.key, w.sub, "APPROVE_ACTIVITY", vote)) }
	}},
	{"activities it began that wait", func(w *ending) func() bool {
		typ, in, others := "CREATE_PRIVATE_KEY_TAG", object{"privateKeyTagName": "Begun", "privateKeyIds": []any{}}, []member{w.second, w.third}
		if w.row == quorumRow {
			typ, in, others = "UPDATE_ORGANIZATION_NAME", object{"organizationName": "Begun"}, []member{{w.ownerID, w.owner}, w.second, w.third}
		}
		got := w.by(typ, in)
		if got.status == 401 {
			return nil
		}
		vote := w.waiting(got)
		return func() (ok bool) {
			for _, one := range others {
				ok = ok || w.done200(w.submit(one.key, w.sub, "APPROVE_ACTIVITY", vote))
			}
			return ok
		}
	}},
	{"the same body again", func(w *ending) func() bool {
		typ, in := "STAMP_LOGIN", object{"publicKey": newKey(w.t).PublicKey}
		if w.subject == "contact" {
			typ, in = "APPROVE_ACTIVITY", w.waiting(w.submit(w.second.key, w.sub, "CREATE_USER_TAG", object{"userTagName": "Voted", "userIds": []any{}}))
		}
		body := w.BodyOf(w.sub, "ACTIVITY_TYPE_"+typ, in)
		head := w.stampOf(body)
		first := w.call(wire.EndpointSubmit, strings.ToLower(typ), body, head)
		if first.status != 200 {
			w.t.Fatalf("%v", first)
		}
		return func() bool {
			got := w.call(wire.EndpointSubmit, strings.ToLower(typ), body, head)
			return got.status == 200 && rig.Text(got.m, "activity", "id") == rig.Text(first.m, "activity", "id")
		}
	}},
	{"verification tokens of the user", func(w *ending) func() bool {
		token := w.verification(nil)
		return func() bool {
			return w.done200(w.submit(w.prober, w.sub, "OTP_LOGIN", object{"publicKey": newKey(w.t).PublicKey, "verificationToken": token}))
		}
	}},
	{"codes sent to the user", func(w *ending) func() bool {
		id := w.code()
		return func() bool {
			got := w.submit(w.prober, w.sub, "VERIFY_OTP", object{"otpId": id, "otpCode": "000000"})
			return w.done200(got) && w.done200(w.submit(w.prober, w.sub, "OTP_LOGIN", object{"publicKey": newKey(w.t).PublicKey, "verificationToken": rig.Text(got.result(w.t), "verificationToken")}))
		}
	}},
	{"identity tokens of the user", func(w *ending) func() bool {
		k := newKey(w.t)
		token := w.bound(w.me, k)
		return func() bool {
			return w.done200(w.submit(w.prober, w.sub, "OAUTH_LOGIN", object{"publicKey": k.PublicKey, "oidcToken": token}))
		}
	}},
	{"keys mailed to the user", func(w *ending) func() bool {
		private, err := ecdh.P256().GenerateKey(rand.Reader)
		if err != nil {
			w.t.Fatal(err)
		}
		id := rig.Text(w.does(w.prober, "EMAIL_AUTH_V3", object{"email": sandboxAddress, "targetPublicKey": hex.EncodeToString(private.PublicKey().Bytes()), "emailCustomization": object{"appName": "App"}}), "apiKeyId")
		return func() bool {
			got := w.ask(w.second.key, w.sub, "list_users")
			return got.status == 200 && strings.Contains(fmt.Sprint(got.m), id)
		}
	}},
	{"import targets of the user", func(w *ending) func() bool {
		outer, inner := map[string]string{}, map[string]string{}
		text := rig.Text(w.does(w.spare, "INIT_IMPORT_WALLET", object{"userId": w.user}), "importBundle")
		if err := json.Unmarshal([]byte(text), &outer); err != nil {
			w.t.Fatal(err)
		}
		data, err := hex.DecodeString(outer["data"])
		if err == nil {
			err = json.Unmarshal(data, &inner)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		bundle := sealed(w.t, inner["targetPublic"], strings.Repeat("abandon ", 11)+"about")
		return func() bool {
			return w.done200(w.submit(w.spare, w.sub, "IMPORT_WALLET", object{"userId": w.user, "walletName": "W", "encryptedBundle": bundle, "accounts": []any{}}))
		}
	}},
}

type member struct {
	id  string
	key laptop.KeyPair
}

// ending is a sub-organization in which one cell is tried.
type ending struct {
	*family
	row, subject, sub string
	owner             laptop.KeyPair // may do everything, but in the row of the quorum, where three must
	ownerID           string
	prober            laptop.KeyPair // may log others in
	second, third     member
	user              string         // whose things they are
	key, spare        laptop.KeyPair // two of the user's
	session           laptop.KeyPair
	passkey           *authenticator.Authenticator
	passkeyID         string
	identity          string
	me                string // whom the provider knows him as
	instead           string // of the user's address
	policies          []string
}

func (w *ending) does(by laptop.KeyPair, typ string, in object) object {
	w.t.Helper()
	return w.done(by, w.sub, typ, in)
}

func (w *ending) done200(got answered) bool {
	return got.status == 200 && rig.Text(got.m, "activity", "status") == "ACTIVITY_STATUS_COMPLETED"
}

func (w *ending) completes(got answered) {
	w.t.Helper()
	if !w.done200(got) {
		w.t.Fatalf("%v", got)
	}
}

// waiting is the vote on what waits for others.
func (w *ending) waiting(got answered) object {
	w.t.Helper()
	if s := rig.Text(got.m, "activity", "status"); s != "ACTIVITY_STATUS_CONSENSUS_NEEDED" {
		w.t.Fatalf("does not wait: %v", got)
	}
	return object{"fingerprint": rig.Text(got.m, "activity", "fingerprint")}
}

func (w *ending) deleteKey(k laptop.KeyPair) {
	users, _ := rig.Get(w.ask(w.owner, w.sub, "list_users").m, "users").([]any)
	for _, u := range users {
		keys, _ := rig.Get(u, "apiKeys").([]any)
		for _, one := range keys {
			if rig.Text(one, "credential", "publicKey") == k.PublicKey {
				w.does(w.owner, "DELETE_API_KEYS", object{"userId": w.user, "apiKeyIds": []any{rig.Text(one, "apiKeyId")}})
				return
			}
		}
	}
	w.t.Fatal("no such key")
}

// code has a code sent to the user, in the sandbox.
func (w *ending) code() string {
	w.t.Helper()
	return rig.Text(w.does(w.spare, "INIT_OTP_V2", object{"otpType": "OTP_TYPE_EMAIL", "contact": sandboxAddress, "appName": "App", "otpLength": 6, "alphanumeric": false}), "otpId")
}

// verification is a verification token of the user, for a key or nobody's.
func (w *ending) verification(bound *laptop.KeyPair) string {
	w.t.Helper()
	in := object{"otpId": w.code(), "otpCode": "000000"}
	if bound != nil {
		in["publicKey"] = bound.PublicKey
	}
	return rig.Text(w.does(w.spare, "VERIFY_OTP", in), "verificationToken")
}

// stampOf is the subject's stamp on a body.
func (w *ending) stampOf(body []byte) wire.Header {
	w.t.Helper()
	by := newKey(w.t)
	switch w.subject {
	case "passkey":
		text, err := w.passkey.Stamp(body)
		if err != nil {
			w.t.Fatal(err)
		}
		return wire.Header{Name: "X-Stamp-WebAuthn", Value: text}
	case "session":
		return w.stamped(w.session, body)
	case "identity":
		return w.attestationBy("OIDC", by, body, w.bound(w.me, by))
	case "contact":
		return w.attestationBy("VERIFICATION_TOKEN", by, body, w.verification(&by))
	}
	return w.stamped(w.key, body)
}

// by has the subject ask for something.
func (w *ending) by(typ string, in object) answered {
	w.t.Helper()
	body := w.BodyOf(w.sub, "ACTIVITY_TYPE_"+typ, in)
	return w.call(wire.EndpointSubmit, strings.ToLower(typ), body, w.stampOf(body))
}

// newEnding makes the sub-organization of a row.
func newEnding(f *family, row, subject, instead string, n int) *ending {
	w := &ending{family: f, row: row, subject: subject, instead: instead, me: fmt.Sprint("me", n), owner: newKey(f.t), key: newKey(f.t), spare: newKey(f.t), session: newKey(f.t)}
	key := func(k laptop.KeyPair, seconds string) object {
		o := object{"apiKeyName": k.PublicKey[:8], "publicKey": k.PublicKey, "curveType": "API_KEY_CURVE_P256"}
		if seconds != "" {
			o["expirationSeconds"] = seconds
		}
		return o
	}
	user := func(name string, keys ...any) object {
		return object{"userName": name, "apiKeys": keys, "authenticators": []any{}, "oauthProviders": []any{}}
	}
	r := w.done(f.root, f.id, "CREATE_SUB_ORGANIZATION_V7", object{"subOrganizationName": fmt.Sprint(row, n), "rootQuorumThreshold": 1, "rootUsers": []any{user("Owner", key(w.owner, ""))}})
	w.sub, w.ownerID = rig.Text(r, "subOrganizationId"), rig.Text(r, "rootUserIds", "0")
	tag := w.does(w.owner, "CREATE_USER_TAG", object{"userTagName": "Tag", "userIds": []any{}})["userTagId"]
	brief := ""
	if subject == "brief" {
		brief = "60"
	}
	w.second.key, w.third.key = newKey(f.t), newKey(f.t)
	users := []any{user("User", key(w.key, brief), key(w.spare, "")), user("Second", key(w.second.key, "")), user("Third", key(w.third.key, ""))}
	for _, u := range users {
		u.(object)["userTags"] = []any{tag}
	}
	users[0].(object)["userEmail"] = sandboxAddress
	r = w.does(w.owner, "CREATE_USERS_V4", object{"users": users})
	w.user, w.second.id, w.third.id = rig.Text(r, "userIds", "0"), rig.Text(r, "userIds", "1"), rig.Text(r, "userIds", "2")
	for kinds, consensus := range map[string]string{
		"!(activity.kind in ['CREATE_USER_TAG', 'CREATE_PRIVATE_KEY_TAG'])": ">= 1",
		"activity.kind == 'CREATE_USER_TAG'":                                ">= 3",
		"activity.kind == 'CREATE_PRIVATE_KEY_TAG'":                         ">= 2",
	} {
		w.policies = append(w.policies, rig.Text(w.does(w.owner, "CREATE_POLICY_V3", object{"policyName": consensus, "effect": "EFFECT_ALLOW", "condition": kinds, "notes": "",
			"consensus": fmt.Sprintf("approvers.filter(user, user.tags.contains('%s')).count() %s", tag, consensus)}), "policyId"))
	}
	first := newKey(f.t)
	w.identity = rig.Text(w.does(w.spare, "CREATE_OAUTH_PROVIDERS_V2", object{"userId": w.user, "oauthProviders": []any{object{"providerName": "idp", "oidcToken": w.bound(w.me, first)}}}), "providerIds", "0")
	w.does(w.spare, "STAMP_LOGIN", object{"publicKey": w.session.PublicKey, "expirationSeconds": "60"})
	if subject == "passkey" {
		var err error
		var made *authenticator.Registration
		if w.passkey, err = authenticator.New(authenticator.ES256, "example.org", "https://example.org"); err == nil {
			made, err = w.passkey.Register([]byte("challenge"), authenticator.None)
		}
		if err != nil {
			f.t.Fatal(err)
		}
		w.passkeyID = rig.Text(w.does(w.spare, "CREATE_AUTHENTICATORS_V2", object{"userId": w.user, "authenticators": []any{made.Params("passkey")}}), "authenticatorIds", "0")
	}
	w.prober = w.owner
	if row == quorumRow {
		w.prober = w.second.key
		w.does(w.owner, "UPDATE_ROOT_QUORUM", object{"threshold": 3, "userIds": []any{w.ownerID, w.user, w.second.id}})
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
	f := &family{rateClient: rateClient{t, rig.Start(t, o)}, w: world, c: c}
	f.id, f.root, f.idp = f.Credentials.OrganizationID, f.Credentials.RootAPIKey, world.provider("accounts.example")
	n := 0
	for _, typ := range []string{"UPDATE_SESSION_PROFILE", "DELETE_SESSION_PROFILES", "DELETE_SESSION_PROFILE"} { // nobody can
		f.refuses(typ, f.submit(f.root, f.id, typ, object{}), 404, none)
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
