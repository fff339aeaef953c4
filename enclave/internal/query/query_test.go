package query_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/apitest"
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/query"
	"cloister/enclave/internal/stamp"
)

var api = apitest.Load()

// liveOps are what this release answers; every other query of the interface is
// UNIMPLEMENTED.
var liveOps = strings.Fields(`whoami get_organization_configs get_user list_users get_api_key get_api_keys get_authenticator get_authenticators
	get_oauth_providers list_user_tags list_private_key_tags get_wallet list_wallets
	get_wallet_account list_wallet_accounts get_private_key list_private_keys get_activity list_activities list_app_proofs
	get_policy list_policies get_active_policies get_organization get_smart_contract_interface list_smart_contract_interfaces get_mfa_policy get_mfa_policies
	get_ip_allowlist get_session_profile get_session_profiles get_boot_proof get_latest_boot_proof list_suborgs list_verified_suborgs get_policy_evaluations get_mfa_status
	get_nonces get_send_transaction_status get_oauth2_credential list_oauth2_credentials list_fiat_on_ramp_credentials get_onramp_transaction_status list_webhook_endpoints list_secrets
	get_wallet_address_balances list_supported_assets list_eth_transaction_history list_sol_transaction_history list_email_events get_gas_usage
	get_tvc_app list_tvc_apps list_tvc_operators list_tvc_quorum_keys get_tvc_deployment list_tvc_app_deployments get_tvc_qos_versions validate_tvc_image
	get_app_status get_tvc_deployment_provisioning_details get_tvc_deployment_debug_logs`)

func code(err error) fault.Code {
	if e := fault.Of(err); e != nil {
		return e.Code
	}
	return 0
}

func TestEveryQueryIsLiveOrUnimplemented(t *testing.T) {
	n := 0
	for _, o := range api.Operations {
		q, err := query.Lookup(o.Name)
		switch {
		case o.Kind != "query":
			if code(err) != fault.NotFound || query.KnownOp(o.Name) {
				t.Errorf("%s: %v", o.Name, err)
			}
		case slices.Contains(liveOps, o.Name):
			n++
			if err != nil || q.Op != o.Name {
				t.Errorf("%s: %v", o.Name, err)
			}
		case code(err) != fault.Unimplemented || err.Error() != activity.NotLive(o.Name).Error() || !query.KnownOp(o.Name):
			t.Errorf("%s: %v", o.Name, err)
		}
	}
	if n != len(liveOps) || len(query.Live()) != n+len(query.Own) {
		t.Errorf("%d of %d live", n, len(query.Live()))
	}
	for _, op := range []string{"", "Whoami", "get_users", "create_wallet"} {
		if _, err := query.Lookup(op); code(err) != fault.NotFound {
			t.Errorf("%q: %v", op, err)
		}
	}
}

func endpoint(op string) apitest.Endpoint { return api.Endpoints["/public/v1/query/"+op] }

// ownMembers are members of ours in requests of the interface. Clients that do not know them leave them out.
var ownMembers = []string{"GetActivitiesRequest.includeDecoded: not in the description", "GetActivityRequest.includeDecoded: not in the description", "GetActivitiesRequest.untilMs: not in the description", "GetSubOrgIdsRequest.includeDetails: not in the description",
	"GetVerifiedSubOrgIdsRequest.includeDetails: not in the description", "GetWalletAccountsRequest.address: not in the description"}

// ownAnswers are members of ours in answers, which only a request with a member of ours gets.
var ownAnswers = []string{"organizations: unknown member", "total: unknown member"}

// explanations are members of ours in evaluations: why a policy decided so.
var explanations = []string{"clause: unknown member", "policyName: unknown member", "position: unknown member", "values: unknown member"}

// ownRecords are members of ours in records, with which documents for approvers are decoded elsewhere.
var ownRecords = []string{"createdBy: unknown member", "keysExported: unknown member"}

func TestRequestsFollowTheDescription(t *testing.T) {
	found := map[string]bool{}
	for op, q := range query.Live() {
		if slices.Contains(query.Own, op) {
			continue // ours, not the interface's
		}
		for _, wrong := range api.Request(endpoint(op).Request, q.Shape(), nil) {
			if found[wrong] = true; !slices.Contains(ownMembers, wrong) {
				t.Errorf("%s: %s", op, wrong)
			}
		}
	}
	for _, m := range ownMembers {
		if !found[m] {
			t.Errorf("no request has %s", m)
		}
	}
}

// world is an organization with something of everything.
type world struct {
	counted   []uint64 // times of the last request for counts
	later     uint64   // milliseconds, than usual
	recovered uint64   // query.View.RecoveredMs
	steps     int      // of a query; zero: as usual
	toDecode  int      // how often an activity was asked for to be decoded
	t         *testing.T
	id        org.ID
	state     *org.State
	user      *org.User
	entries   []*org.Entry // newest first
	proof     []byte
	paged     query.Page // what was asked last
	index     index
	outside   outside
	logged    *uint64 // the step that was asked for last
	mailed    []org.MailEvent
	delivered delivered
}

// LogProof shows the newest step of what is there, or the one at 5.
func (w *world) LogProof(activity org.ID, seq *uint64) (*query.LogProof, error) {
	w.logged = seq
	if e, err := w.Activity(activity); !activity.Zero() && e == nil || err != nil || seq != nil && *seq != 5 {
		return nil, err
	}
	return &query.LogProof{Text: "c2sp.org/tlog-proof@v1\n", Key: org.Proof{Key: []byte{4}, Payload: []byte("{}"), Signature: []byte{5}}}, nil
}

func id(kind, n byte) org.ID { return org.ID{kind, 0, 0, n, 0, 0, 0x40, 0, 0x80, 0, kind, n} }

func newWorld(t *testing.T) *world {
	w := &world{t: t, id: id('O', 1), state: org.NewState()}
	w.change(func(tx *org.Tx) {
		for n := byte(1); n <= 3; n++ { // ids and times run against each other
			u := &org.User{ID: id('U', n), Name: fmt.Sprint("User ", n), CreatedMs: 10_000 - uint64(n)*1000, UpdatedMs: 20_000, APIKeys: []org.APIKey{
				{ID: id('K', n), Name: "key", PublicKey: "02ab", Type: "CREDENTIAL_TYPE_API_KEY_P256", CreatedMs: 30_000 - uint64(n)*1000, UpdatedMs: 30_000},
				{ID: id('L', n), Name: "session", PublicKey: "02cd", Type: "CREDENTIAL_TYPE_API_KEY_P256", CreatedMs: 40_000 - uint64(n)*1000, UpdatedMs: 40_000, ExpirationSeconds: 900},
			}}
			if n == 1 {
				u.Email, u.Phone, u.Tags = "u@example.org", "+15551234567", []org.ID{id('T', 1)}
			}
			if n < 3 {
				u.OauthProviders = []org.OauthProvider{{ID: id('I', n), Name: fmt.Sprint("Provider ", n), Issuer: "https://issuer.example", Audience: "client", Subject: fmt.Sprint("s", n),
					CreatedMs: 50_000 - uint64(n)*1000, UpdatedMs: 51_000}}
				w.must(tx.PutTag(&org.Tag{ID: id('T', n), Name: "tag", Type: []string{"TAG_TYPE_USER", "TAG_TYPE_PRIVATE_KEY"}[n-1], CreatedMs: 1000, UpdatedMs: 2000}))
				w.must(tx.PutTag(&org.Tag{ID: id('T', n+2), Name: "older tag", Type: []string{"TAG_TYPE_USER", "TAG_TYPE_PRIVATE_KEY"}[n-1], CreatedMs: 500, UpdatedMs: 500}))
			}
			w.must(tx.PutUser(u))
			k := &org.PrivateKey{ID: id('P', n), Name: fmt.Sprint("Key ", n), Curve: "CURVE_SECP256K1", PublicKey: "04aa", CreatedMs: 9_000 - uint64(n)*1000, UpdatedMs: 9_000}
			if n == 2 {
				k.Addresses, k.Tags, k.Exported = []org.Address{{Format: "ADDRESS_FORMAT_ETHEREUM", Address: "0xAb"}}, []org.ID{id('T', 2)}, true
			}
			w.must(tx.PutPrivateKey(k, nil))
		}
		w.must(tx.PutOrganization(&org.Organization{ID: w.id, Name: "Org", RootUsers: []org.ID{id('U', 1), id('U', 2)}, Threshold: 1, Users: 3, CreatedMs: 1, UpdatedMs: 1,
			Features: map[string]string{"FEATURE_NAME_WEBHOOK": "https://example.org", "FEATURE_NAME_EMAIL_AUTH": ""}}))
	})
	w.user, _ = w.tx().User(id('U', 1))
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) tx() *org.Tx { return org.Begin(w.id, w.state, 1_000_000+w.later) }

// change applies encoded writes, as the ledger does.
func (w *world) change(f func(*org.Tx)) {
	tx := w.tx()
	f(tx)
	ws, err := tx.Writes()
	w.must(err)
	w.state.Apply(ws)
}

// wallet stores a wallet of n accounts, all at the paths m/1 to m/n.
func (w *world) wallet(n byte, createdMs uint64, accounts int) *org.Wallet {
	rec := &org.Wallet{ID: id('W', n), Name: fmt.Sprint("Wallet ", n), Accounts: uint64(accounts), LastNo: uint64(accounts), CreatedMs: createdMs, UpdatedMs: createdMs}
	w.change(func(tx *org.Tx) {
		w.must(tx.PutWallet(rec))
		for i := 1; i <= accounts; i++ {
			w.must(tx.PutAccount(w.account(rec, uint64(i)), chain.MatchKey(address(i))))
		}
	})
	return rec
}

func address(i int) string { return fmt.Sprintf("0x%040X", i) }

func (w *world) account(rec *org.Wallet, no uint64) *org.Account {
	return &org.Account{Wallet: rec.ID, No: no, Curve: "CURVE_SECP256K1", Path: fmt.Sprintf("m/%d", no), Format: "ADDRESS_FORMAT_ETHEREUM",
		Address: address(int(no)), PublicKey: "02aa", CreatedMs: 1000 * no, UpdatedMs: 1000 * no}
}

// Activity and Page are a history in memory.
func (w *world) ActivityToDecode(id org.ID) (*org.Entry, error) {
	w.toDecode++
	return w.Activity(id)
}

func (w *world) Activity(id org.ID) (*org.Entry, error) {
	for _, e := range w.entries {
		if e.Activity == id {
			return e, nil
		}
	}
	return nil, nil
}

func (w *world) Page(p query.Page) ([]*org.Entry, error) {
	w.paged = p
	return w.entries[:min(p.Limit, len(w.entries))], nil
}

func (w *world) Export(from uint64) ([]byte, uint64, error) {
	if from == 7 {
		return []byte("the rest"), 0, nil
	}
	return []byte("a page"), 7, nil
}

// Counts are those of a host that says more than there is.
func (w *world) Counts(timesMs []uint64) ([]query.Count, error) {
	w.counted = timesMs
	n := make([]uint64, len(timesMs)-1)
	n[0] = 7
	return []query.Count{
		{Type: "ACTIVITY_TYPE_CREATE_POLICY_V3", Status: org.StatusFailed, Counts: n},
		{Type: "ACTIVITY_TYPE_CREATE_POLICY_V3", Status: 77, Counts: n},
		{Type: "ACTIVITY_TYPE_<b>", Status: org.StatusFailed, Counts: n},
		{Type: "ACTIVITY_TYPE_STAMP_LOGIN", Status: org.StatusFailed, Counts: n[1:]},
		{Type: "ACTIVITY_TYPE_STAMP_LOGIN", Status: org.StatusCompleted, Counts: make([]uint64, len(n))},
	}, nil
}

func (w *world) Responses() []query.ResponseHour {
	return []query.ResponseHour{{StartMs: 3_600_000, Count: 3, Median: 1234567 * time.Nanosecond, P95: 2 * time.Second}}
}

func (w *world) Latest() ([]byte, error) { return w.proof, nil }

func (w *world) ByKey(key string) ([]byte, error) {
	if key == "04ab" {
		return w.proof, nil
	}
	return nil, nil
}

type object = map[string]any

// ask answers a query as the user and checks the form of the answer.
func (w *world) ask(op string, request object) (object, error) {
	w.t.Helper()
	return w.askAs(op, request, w.user, nil)
}

func (w *world) askAs(op string, request object, caller *org.User, home *org.Organization) (object, error) {
	w.t.Helper()
	q, err := query.Lookup(op)
	w.must(err)
	full := object{"organizationId": w.id.String()}
	for k, v := range request {
		full[k] = v
	}
	body, _ := json.Marshal(full)
	r, err := q.DecodeHostBody(stamp.NewHostBody(body))
	if err != nil {
		return nil, err
	}
	if err := r.Fetch(w, w, w, w, w, w, w, w); err != nil {
		return nil, err
	}
	v := &query.View{Tx: w.tx(), Caller: caller, Home: home, Steps: cmp.Or(w.steps, policy.MaxDecisionSteps), RecoveredMs: w.recovered}
	if len(caller.APIKeys) > 0 {
		v.Credential = activity.APIKeyCredential(&caller.APIKeys[0])
	}
	b, err := r.Answer(v)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(query.Own, op) {
		for _, wrong := range api.Check(endpoint(op).Response, b) {
			if _, member, _ := strings.Cut(wrong, "."); request["includeDetails"] == true && slices.Contains(ownAnswers, member) {
				continue
			}
			if slices.Contains(ownRecords, wrong[strings.LastIndexByte(wrong, '.')+1:]) {
				continue
			}
			if op == "get_policy_evaluations" && slices.Contains(explanations, wrong[strings.LastIndexByte(wrong, '.')+1:]) {
				continue
			}
			w.t.Errorf("%s: %s", op, wrong)
		}
	}
	var m object
	w.must(json.Unmarshal(b, &m))
	return m, nil
}

func (w *world) get(op string, request object) object {
	w.t.Helper()
	m, err := w.ask(op, request)
	if err != nil {
		w.t.Fatalf("%s: %v", op, err)
	}
	return m
}

func (w *world) refused(op string, request object, want fault.Code, says string) {
	w.t.Helper()
	_, err := w.ask(op, request)
	if code(err) != want || !strings.Contains(err.Error(), says) {
		w.t.Errorf("%s %v: %v, want %d %q", op, request, err, want, says)
	}
}

// pick lists one member of every element.
func pick(l any, member string) []string {
	var out []string
	for _, e := range l.([]any) {
		out = append(out, e.(object)[member].(string))
	}
	return out
}

func TestRequestsAreStrict(t *testing.T) {
	n := 0
	for op := range query.Live() {
		w := newWorld(t)
		full := object{}
		for name, notation := range api.Types[endpoint(op).Request] {
			if name == "organizationId" {
				continue
			}
			f := apitest.Parse(notation)
			if f.Required {
				full[name] = id('U', 1).String()
			}
			if enum, ok := strings.CutPrefix(f.Base, "#"); ok && f.Required {
				full[name] = api.Enums[enum][0]
			}
		}
		for name := range full {
			without := object{}
			for k, v := range full {
				if k != name {
					without[k] = v
				}
			}
			w.refused(op, without, 3, "missing field `"+name+"`")
			without[name] = 7
			w.refused(op, without, 3, name)
			without[name] = ""
			w.refused(op, without, 3, name)
			n++
		}
		full["unheardOf"] = nil
		w.refused(op, full, 3, "unheardOf")
		delete(full, "unheardOf")
		full["organizationId"] = nil
		w.refused(op, full, 3, "missing field `organizationId`")
	}
	if n < 8 {
		t.Errorf("%d required members", n)
	}
}

func FuzzRequest(f *testing.F) {
	ops := slices.Sorted(slices.Values(liveOps))
	for i := range ops {
		f.Add(uint8(i), []byte(`{"organizationId":"x","userId":"y","paginationOptions":{"limit":"5"},"filterByType":["ACTIVITY_TYPE_CREATE_WALLET"]}`))
	}
	f.Fuzz(func(t *testing.T, i uint8, body []byte) {
		w := newWorld(t)
		w.wallet(1, 1, 3)
		q, err := query.Lookup(ops[int(i)%len(ops)])
		w.must(err)
		r, err := q.DecodeHostBody(stamp.NewHostBody(body))
		if err == nil {
			err = r.Fetch(w, w, w, w, w, w, w, w)
		}
		var b []byte
		if err == nil {
			b, err = r.Answer(&query.View{Tx: w.tx(), Caller: w.user, Steps: policy.MaxDecisionSteps})
		}
		if err != nil {
			if fault.Of(err) == nil {
				t.Fatal(err)
			}
			return
		}
		if wrong := api.Check(endpoint(q.Op).Response, b); len(wrong) > 0 && q.Op != "get_latest_boot_proof" {
			t.Fatalf("%s: %q", b, wrong)
		}
	})
}
