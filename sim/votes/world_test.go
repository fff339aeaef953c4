package votes_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/shared/wire"
	"cloister/sim/client"
)

// world plays a history to one organization and holds the answers against the model.
type world struct {
	client *client.Client // the first root user
	epoch  time.Time      // the model's zero
	m      *model
	edges  *edges

	users  []string
	keys   map[[2]int]client.KeyPair // user and the operation that made the key
	keyIDs map[[2]int]string
	bodies map[int][]byte
	ids    map[int]string // activities by operation
	result map[int]map[string]any
	last   map[string]status // what each activity was when last seen
	voting bool              // the answer is a vote's
}

func newWorld(root *client.Client, epoch time.Time, e *edges) *world {
	return &world{client: root, epoch: epoch, m: newModel(), edges: e, users: []string{root.User}, keys: map[[2]int]client.KeyPair{{0, -1}: root.Key},
		keyIDs: map[[2]int]string{}, bodies: map[int][]byte{}, ids: map[int]string{}, result: map[int]map[string]any{}, last: map[string]status{}}
}

const nowhere = "00000000-0000-4000-8000-000000000000"

func (w *world) user(u int) string {
	if u < 0 || u >= len(w.users) {
		return nowhere
	}
	return w.users[u]
}

func newKey(name string, pair client.KeyPair, life time.Duration) map[string]any {
	k := client.APIKey(name, pair)
	if life > 0 {
		k["expirationSeconds"] = strconv.Itoa(int(life / time.Second))
	}
	return k
}

func (w *world) pair(u, no int) client.KeyPair {
	if _, ok := w.keys[[2]int{u, no}]; !ok {
		w.keys[[2]int{u, no}] = client.NewKey()
	}
	return w.keys[[2]int{u, no}]
}

// parameters are those of the ask, and its type.
func (w *world) parameters(in *ask) (typ string, p map[string]any) {
	switch in.kind {
	case createUsers:
		var us []client.Object
		for u := 1; u < in.user; u++ {
			us = append(us, client.NewUser(fmt.Sprintf("user %d", u), w.pair(u, -1)))
		}
		return "CREATE_USERS_V4", client.Users(us...)
	case createWallet:
		return "CREATE_WALLET", client.Wallet(nameOf(in.name), client.Solana)
	case sign:
		address := "11111111111111111111111111111111"
		if in.ref != nothing {
			address = client.Text(w.result[in.ref], "createWalletResult", "addresses", "0")
		}
		return "SIGN_RAW_PAYLOAD_V2", client.Payload(address, "00ff", "NOT_APPLICABLE")
	case updateQuorum:
		ids := make([]string, len(in.users))
		for i, u := range in.users {
			ids[i] = w.user(u)
		}
		return "UPDATE_ROOT_QUORUM", map[string]any{"threshold": in.threshold, "userIds": ids}
	case createPolicy:
		effect := map[bool]string{true: "DENY", false: "ALLOW"}[in.rule.deny]
		return "CREATE_POLICY_V3", client.Policy(nameOf(in.name), effect, in.rule.conditionText(), in.rule.consensusText(w.user))
	case deletePolicy:
		id := nowhere
		if in.ref != nothing {
			id = client.Text(w.result[in.ref], "createPolicyResult", "policyId")
		}
		return "DELETE_POLICY", map[string]any{"policyId": id}
	case deleteUser:
		return "DELETE_USERS", map[string]any{"userIds": []string{w.user(in.user)}}
	case renameUser:
		return "UPDATE_USER_NAME", map[string]any{"userId": w.user(in.user), "userName": nameOf(in.name)}
	case createKey:
		return "CREATE_API_KEYS_V2", map[string]any{"userId": w.user(in.user), "apiKeys": []any{newKey(fmt.Sprint("key ", in.no), w.pair(in.user, in.no), in.life)}}
	}
	id := nowhere
	if in.ref != nothing {
		id = w.keyID(in.user, in.ref)
	}
	return "DELETE_API_KEYS", map[string]any{"userId": w.user(in.user), "apiKeyIds": []string{id}}
}

// keyID is the id of a key that was made. First keys are asked for.
func (w *world) keyID(u, no int) string {
	if no >= 0 {
		return client.Text(w.result[no], "createApiKeysResult", "apiKeyIds", "0")
	}
	if id := w.keyIDs[[2]int{u, no}]; id != "" {
		return id
	}
	for requester := range w.m.people { // anybody who still can
		for _, k := range w.m.people[requester].keys {
			if !w.m.knows(requester, k.no) {
				continue
			}
			_, m, err := w.query(requester, k.no, "get_api_keys", map[string]any{"userId": w.user(u)})
			if err != nil {
				return nowhere
			}
			for _, x := range items(m, "apiKeys") {
				if client.Text(x, "credential", "publicKey") == w.pair(u, -1).PublicKey {
					w.keyIDs[[2]int{u, no}] = client.Text(x, "apiKeyId")
				}
			}
			return w.keyIDs[[2]int{u, no}]
		}
	}
	return nowhere
}

func items(m any, keys ...string) []any {
	l, _ := client.Get(m, keys...).([]any)
	return l
}

// bytes are the body of an operation, made once.
func (w *world) bytes(b *body) (op string, raw []byte) {
	var typ string
	var p map[string]any
	switch b.verb {
	case submit:
		if raw = w.bodies[b.no]; raw == nil {
			typ, p = w.parameters(&b.ask)
		}
		op = strings.ToLower(kindNames[b.ask.kind])
	default:
		op = verbNames[b.verb] + "_activity"
		target := w.bodies[b.target]
		typ, p = strings.ToUpper(op), map[string]any{"fingerprint": attestation.Fingerprint(target)}
	}
	if raw = w.bodies[b.no]; raw == nil {
		stamped := &client.Times{Now: func() time.Time { return w.epoch.Add(b.stamped) }}
		raw = (&client.Client{Times: stamped, Organization: w.client.Organization}).Body(typ, p)
		w.bodies[b.no] = raw
	}
	return op, raw
}

// send answers the status and the decoded reply.
func (w *world) send(endpoint wire.Endpoint, op string, raw []byte, pair client.KeyPair) (int, map[string]any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for {
		r, err := w.client.As(w.client.Organization, "", pair).Post(ctx, endpoint, op, raw)
		if err == nil && r.Status == 503 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
			continue
		}
		if m := r.JSON(); err != nil || m != nil {
			return r.Status, m, err
		}
		return 0, nil, fmt.Errorf("%s: no JSON: %v", op, r)
	}
}

func (w *world) query(u, key int, op string, request map[string]any) (int, map[string]any, error) {
	return w.send(wire.EndpointQuery, op, w.client.Ask(request), w.pair(u, key))
}

// step does one operation and holds the answer against the model.
func (w *world) step(o *op) error {
	switch o.verb {
	case pass:
		w.m.step(o)
		return nil
	case again:
		if w.m.made[o.target] == nil {
			return nil
		}
	case list:
		return w.list(o)
	case read:
		want := w.m.step(o)
		id := w.ids[o.target]
		if want.a != nil && want.a.isVote && id == "" {
			return nil // nobody was told its id
		}
		if id == "" {
			id = nowhere
		}
		status, m, err := w.query(o.by, o.key, "get_activity", map[string]any{"activityId": id})
		if err != nil {
			return err
		}
		return w.compare(want, status, m, o.by)
	}
	// The body is made of what was there before.
	b := w.m.body(o)
	op, raw := w.bytes(b)
	want := w.m.step(o)
	status, m, err := w.send(wire.EndpointSubmit, op, raw, w.pair(o.by, o.key))
	if err != nil {
		return err
	}
	if o.verb == submit && o.ask.kind == createUsers && status == 200 {
		for _, id := range items(m, "activity", "result", "createUsersResult", "userIds") {
			w.users = append(w.users, id.(string))
		}
	}
	w.voting = want.code == 0 && (o.verb == approve || o.verb == reject)
	defer func() { w.voting = false }()
	return w.compare(want, status, m, o.by)
}

// A disagreement is of a class, so that a history is not shrunk to another one.
type disagreement struct{ class, text string }

func (d *disagreement) Error() string { return d.text }

func disagree(class, format string, args ...any) error {
	return &disagreement{class, fmt.Sprintf(format, args...)}
}

const prefix = "ACTIVITY_STATUS_"

// compare holds one answer against the model's.
func (w *world) compare(want answer, status int, m map[string]any, by int) error {
	code := 0
	if c, ok := m["code"].(float64); ok {
		code = int(c)
	}
	if code != want.code && code != 0 && code == want.or {
		want.code = want.or
	}
	if code != want.code || status != httpOf[want.code] {
		return disagree("answer", "answered %d, code %d (%v); the model says %d, code %d", status, code, m["message"], httpOf[want.code], want.code)
	}
	if want.code != 0 {
		return w.refusal(want, m)
	}
	got, _ := m["activity"].(map[string]any)
	if want.own != nil && client.Text(got, "fingerprint") == attestation.Fingerprint(w.bodies[want.own.no]) {
		want = w.m.shown(want.own, by)
	}
	if err := w.activity(want.a, got); err != nil {
		return err
	}
	// Who has just removed himself or his last key is told nothing certain.
	if a, r := got["canApprove"] == true, got["canReject"] == true; w.m.able().has(by) && (a != want.canApprove || r != want.reject) {
		return disagree("flags", "%s: user %d canApprove %t canReject %t; the model says %t, %t", w.describe(want.a), by, a, r, want.canApprove, want.reject)
	}
	return nil
}

// refusal learns the id of an activity that was kept.
func (w *world) refusal(want answer, m map[string]any) error {
	var id string
	for _, d := range items(m, "details") {
		if client.Text(d, "@type") == "type.googleapis.com/cloister.v1.RefusedActivity" {
			id = client.Text(d, "activityId")
		}
	}
	if (id != "") != (want.a != nil) {
		return disagree("kept", "refused, code %v, %v: activity kept is %t; the model says %t", m["code"], m["message"], id != "", want.a != nil)
	}
	if want.a == nil {
		return nil
	}
	return w.see(want.a, id, failed)
}

// see notes what an activity is now and how it came to be that.
func (w *world) see(a *activity, id string, s status) error {
	if was := w.ids[a.no]; was != "" && was != id {
		return disagree("ids", "%s: two ids", w.describe(a))
	}
	w.ids[a.no] = id
	before := w.last[id]
	w.last[id] = s
	if before != s || w.voting {
		w.edges.saw(before, s)
	}
	return nil
}

// activity holds one shown activity against the model's.
func (w *world) activity(a *activity, got map[string]any) error {
	s := status(slices.Index(statusNames[:], strings.TrimPrefix(client.Text(got, "status"), prefix)))
	if s != a.status {
		return disagree("status", "%s: status %v; the model says %s (%v)", w.describe(a), got["status"], statusNames[a.status], got["failure"])
	}
	if client.Text(got, "fingerprint") != attestation.Fingerprint(w.bodies[a.no]) {
		return disagree("another", "%s: another activity was shown: %v", w.describe(a), got["id"])
	}
	result, _ := got["result"].(map[string]any)
	if (len(result) > 0) != (a.result && !a.isVote) {
		return disagree("result", "%s: result %v; the model says there is one is %t", w.describe(a), got["result"], a.result && !a.isVote)
	}
	if len(result) > 0 {
		if old := w.result[a.no]; old != nil && fmt.Sprint(old) != fmt.Sprint(result) {
			return disagree("results", "%s: result %v, before %v", w.describe(a), result, old)
		}
		w.result[a.no] = result
	}
	if failure := client.Get(got, "failure"); (failure != nil) != (a.status == failed) {
		return disagree("failure", "%s: failure %v", w.describe(a), failure)
	} else if c, ok := client.Get(failure, "code").(float64); ok && int(c) != a.code {
		return disagree("failure code", "%s: failure %v; the model says code %d", w.describe(a), failure, a.code)
	}
	var votes []string
	for _, v := range items(got, "votes") {
		votes = append(votes, fmt.Sprintf("user %d %s", slices.Index(w.users, client.Text(v, "userId")), strings.TrimPrefix(client.Text(v, "selection"), "VOTE_SELECTION_")))
	}
	var want []string
	for _, v := range w.m.ballots(a) {
		want = append(want, fmt.Sprintf("user %d %s", v.user, map[bool]string{true: "APPROVED", false: "REJECTED"}[v.approved]))
	}
	slices.Sort(votes)
	slices.Sort(want)
	if !slices.Equal(votes, want) {
		return disagree("votes", "%s: votes %q; the model says %q", w.describe(a), votes, want)
	}
	return w.see(a, client.Text(got, "id"), s)
}

func (w *world) describe(a *activity) string {
	if a.isVote {
		return fmt.Sprintf("vote %d", a.no)
	}
	return fmt.Sprintf("activity %d (%s)", a.no, a.ask.String())
}

// list holds list_activities against the model.
func (w *world) list(o *op) error {
	want := w.m.step(o)
	request := map[string]any{"paginationOptions": map[string]any{"limit": "100"}}
	if o.status != none {
		request["filterByStatus"] = []string{prefix + statusNames[o.status]}
	}
	status, m, err := w.query(o.by, o.key, "list_activities", request)
	if err != nil {
		return err
	}
	if code, _ := m["code"].(float64); int(code) != want.code || status != httpOf[want.code] {
		return disagree("list answer", "list_activities: %d %v; the model says code %d", status, m, want.code)
	}
	if want.code != 0 {
		return nil
	}
	there := w.m.listed(o.status)
	got := items(m, "activities")
	for i, a := range there {
		if i >= len(got) {
			break
		}
		if err := w.activity(a, got[i].(map[string]any)); err != nil {
			return fmt.Errorf("list_activities %s: %w", statusNames[o.status], err)
		}
	}
	if len(got) != len(there) {
		return disagree("list length", "list_activities %s: %d; the model says %d", statusNames[o.status], len(got), len(there))
	}
	return nil
}

// finish holds everything that is there against the model: each effect happened once, and no other did.
func (w *world) finish() error {
	by := w.m.able().list()
	if len(by) == 0 {
		return nil
	}
	u := by[0]
	k := w.m.people[u].keys[slices.IndexFunc(w.m.people[u].keys, func(k key) bool { return w.m.active(&k) })].no
	if err := w.list(&op{verb: list, by: u, key: k}); err != nil {
		return err
	}
	var want []string
	for _, x := range w.m.wallets {
		want = append(want, nameOf(x.name))
	}
	if err := w.same(u, k, "list_wallets", "wallets", "walletName", want); err != nil {
		return err
	}
	want = nil
	for _, p := range w.m.policies {
		want = append(want, nameOf(p.name))
	}
	if err := w.same(u, k, "list_policies", "policies", "policyName", want); err != nil {
		return err
	}
	want = nil
	var keys int
	for i := range w.m.people {
		if p := w.m.user(i); p != nil {
			want = append(want, p.name)
			keys += len(p.keys)
		}
	}
	status, m, err := w.query(u, k, "list_users", nil)
	if err != nil || status != 200 {
		return fmt.Errorf("list_users: %d %v %w", status, m, err)
	}
	for _, x := range items(m, "users") {
		keys -= len(items(x, "apiKeys"))
	}
	if keys != 0 {
		return disagree("keys", "list_users: the model has %d keys more", keys)
	}
	if err := w.names("list_users", m, "users", "userName", want); err != nil {
		return err
	}
	status, m, err = w.query(u, k, "get_organization_configs", nil)
	if err != nil || status != 200 {
		return fmt.Errorf("get_organization_configs: %d %v %w", status, m, err)
	}
	var root set
	for _, id := range items(m, "configs", "quorum", "userIds") {
		root = root.with(slices.Index(w.users, id.(string)))
	}
	if n := client.Text(m, "configs", "quorum", "threshold"); root != w.m.root || n != fmt.Sprint(w.m.threshold) {
		return disagree("quorum", "root quorum %s of %v; the model says %d of %v", n, root.list(), w.m.threshold, w.m.root.list())
	}
	return nil
}

func (w *world) same(u, k int, op, list, field string, want []string) error {
	status, m, err := w.query(u, k, op, nil)
	if err != nil || status != 200 {
		return fmt.Errorf("%s: %d %v %w", op, status, m, err)
	}
	return w.names(op, m, list, field, want)
}

func (w *world) names(op string, m map[string]any, list, field string, want []string) error {
	var got []string
	for _, x := range items(m, list) {
		got = append(got, client.Text(x, field))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return disagree("names "+op, "%s: %q; the model says %q", op, got, want)
	}
	return nil
}

// edges counts how activities came from one status to the next, as the enclave told it.
type edges struct {
	mu   sync.Mutex
	seen [statuses][statuses]int
}

func (e *edges) saw(from, to status) {
	e.mu.Lock()
	e.seen[from][to]++
	e.mu.Unlock()
}

// allowed are the edges of the lifecycle, as far as clients can see them.
var allowed = [statuses][statuses]bool{
	none:            {consensusNeeded: true, completed: true, failed: true},
	consensusNeeded: {consensusNeeded: true, completed: true, failed: true, rejected: true},
}

func (e *edges) check(t *testing.T) {
	t.Helper()
	for from := range e.seen {
		for to, n := range e.seen[from] {
			if (n > 0) != allowed[from][to] {
				t.Errorf("%s -> %s: seen %d times, allowed is %t", statusNames[from], statusNames[to], n, allowed[from][to])
			}
			if n > 0 {
				t.Logf("counted: %s -> %s %d times", statusNames[from], statusNames[to], n)
			}
		}
	}
}
