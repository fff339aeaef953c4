package leak_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// card is one that a client sends though it must not, with what came of it.
type card struct {
	number, cvv string
	body        []byte
	status      int
	words       string
}

// refusal sends a body until there is an answer that tells of it.
func (s *stack) refusal(body []byte, name, value string) (int, string, error) {
	for {
		req, err := http.NewRequest(http.MethodPost, s.api+"/public/v1/submit/set_payment_method", bytes.NewReader(body))
		if err != nil {
			return 0, "", err
		}
		req.Header.Set(name, value)
		reply, err := client.Do(req)
		if err != nil {
			return 0, "", err
		}
		b, err := io.ReadAll(reply.Body)
		_ = reply.Body.Close()
		if reply.StatusCode != http.StatusServiceUnavailable {
			return reply.StatusCode, string(b), err
		}
	}
}

// The number of a card passes the host in clear, whatever is done about it. Of that request nothing stays: not the number, the
// code on its back or the hash of the body, in the host, its files, its logs or any answer, however the request is refused.
func TestCardNumbersLeak(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: card numbers")
	}
	// What the host's collector frees it overwrites: what is found is what is kept.
	t.Setenv("GODEBUG", "clobberfree=1")
	s := up(t, build(t, "cloister/sim", "", "GOEXPERIMENT=runtimesecret"), build(t, "cloister/host", ""), settings{organizations: 2, control: newControl(), clients: true})
	s.half()
	top := &s.tenants[0]
	denied, waits := newKeyOf(t), newKeyOf(t)
	var users []any
	for _, k := range []laptop.KeyPair{denied, waits} {
		users = append(users, map[string]any{"userName": k.PublicKey, "authenticators": []any{}, "oauthProviders": []any{}, "userTags": []any{},
			"apiKeys": []any{map[string]any{"apiKeyName": "key", "publicKey": k.PublicKey, "curveType": "API_KEY_CURVE_P256"}}})
	}
	made := s.done(top, "create_users", "CREATE_USERS_V4", "createUsersResult", map[string]any{"users": users})
	s.done(top, "create_policy", "CREATE_POLICY_V3", "createPolicyResult", map[string]any{"policyName": "Waits", "effect": "EFFECT_ALLOW", "notes": "",
		"condition": "activity.resource == 'PAYMENT_METHOD'", "consensus": fmt.Sprintf("approvers.any(user, user.id == '%s') && approvers.count() >= 2", rig.Text(made, "userIds", "1"))})
	s.done(top, "create_policy", "CREATE_POLICY_V3", "createPolicyResult", map[string]any{"policyName": "Reads", "effect": "EFFECT_DENY", "notes": "",
		"condition": "activity.resource == 'PAYMENT_METHOD' && activity.type == 'ACTIVITY_TYPE_SET_PAYMENT_METHOD'", "consensus": fmt.Sprintf("approvers.any(user, user.id == '%s')", rig.Text(made, "userIds", "0"))})
	unrelated := newKeyOf(t)

	var cards []*card
	const ways, of = 4, 7
	for i := range ways * of {
		c := &card{number: fmt.Sprintf("4%015d", rand.Uint64N(1e15)), cvv: fmt.Sprintf("%04d", rand.IntN(1e4))}
		cards = append(cards, c)
		m := map[string]any{"number": c.number, "cvv": c.cvv, "expiryMonth": "12", "expiryYear": "2031", "cardHolderEmail": "payer@example.org", "cardHolderName": "Payer"}
		key, altered := top.RootAPIKey, false
		switch i % 7 {
		case 0:
			c.status, c.words = 400, "card numbers are not taken here"
		case 1: // a bad shape
			m["expiryMonth"] = "1"
			c.status, c.words = 400, "expiryMonth"
		case 2: // a member too many
			m["issuer"] = c.number
			c.status, c.words = 400, "issuer"
		case 3: // another body than was stamped
			altered = true
			c.status, c.words = 401, "SIGNATURE_INVALID"
		case 4: // denied by policy
			key = denied
			c.status, c.words = 403, "REQUEST_NOT_AUTHORIZED"
		case 5: // a key that nobody has
			key = unrelated
			c.status, c.words = 401, "PUBLIC_KEY_NOT_FOUND"
		case 6: // others would have to agree
			key = waits
			c.status, c.words = 400, "card numbers are not taken here"
		}
		var err error
		if c.body, err = json.Marshal(map[string]any{"type": "ACTIVITY_TYPE_SET_PAYMENT_METHOD", "timestampMs": strconv.FormatInt(s.stampMs.Add(1), 10), "organizationId": top.OrganizationID, "parameters": m}); err != nil {
			t.Fatal(err)
		}
		stamped := c.body
		if altered {
			stamped = bytes.Replace(c.body, []byte("2031"), []byte("2032"), 1)
		}
		head, err := laptop.Stamp(key, stamped)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the same body again is as new
			status, reply, err := s.refusal(c.body, head[0].Name, head[0].Value)
			if err != nil || status != c.status || !strings.Contains(reply, c.words) {
				t.Fatalf("%d: %d %s, %v", i%7, status, reply, err)
			}
			if strings.Contains(reply, c.number) || strings.Contains(reply, c.cvv+`"`) {
				t.Errorf("%d: %s", i%7, reply)
			}
		}
	}
	list := s.query(top, "list_activities", map[string]any{"filterByType": []any{"ACTIVITY_TYPE_SET_PAYMENT_METHOD"}})
	if n := len(rig.Get(list, "activities").([]any)); n != 0 {
		t.Errorf("%d activities are kept", n)
	}
	s.laterRequests()

	var secrets []*secret
	for _, c := range cards {
		sum := sha256.Sum256(c.body)
		secrets = append(secrets, &secret{"card number", []byte(c.number)}, &secret{"cvv", fmt.Appendf(nil, `"cvv":"%s"`, c.cvv)}, &secret{"fingerprint", sum[:]}, &secret{"body", c.body})
	}
	s.plantInStore("leak-control-after")
	s.pass()
	if _, err := s.log.Write(planted(s.control)); err != nil {
		t.Fatal(err)
	}
	scan := newScanner(append(slices.Clip(secrets), s.control))
	s.restsClean(scan, len(secrets))
	found := map[find]int{}
	clean(t, "memory of the host", scan.memory(t, s.host.Process.Pid, found), len(secrets), found)
	// On the way there are the requests, which is what shows that the search finds them, and no answer to a client.
	found = map[find]int{}
	scan.files(t, s.traffic, func(name string) bool { return !strings.Contains(name, "client-") || !strings.HasSuffix(name, "-out") }, found)
	if _, others := tally(found); len(others) != 0 {
		t.Errorf("answers to clients: found %v", others)
	}
	found = map[find]int{}
	scan.files(t, s.traffic, func(name string) bool { return !strings.HasSuffix(name, "-in") }, found)
	if _, others := tally(found); others["card number, raw"] != len(cards) || others["body, raw"] != len(cards) {
		t.Errorf("requests: found %v of %d", others, len(cards))
	}
}

func newKeyOf(t *testing.T) laptop.KeyPair {
	t.Helper()
	k, err := laptop.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// laterRequests have the host use its buffers again.
func (s *stack) laterRequests() {
	s.t.Helper()
	o := &s.tenants[0]
	each(s.t, 1200, func(i int) error {
		body := fmt.Appendf(nil, `{"organizationId":%q%s}`, o.OrganizationID, strings.Repeat(" ", []int{300, 4_000, 60_000}[i%3]))
		_, err := s.ask("query/whoami", body, o.RootAPIKey)
		return err
	})
}
