package leak_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"cloister/shared/wire"
	"cloister/sim/client"
)

// card is one that a client sends though it must not, with what came of it.
type card struct {
	number, cvv string
	body        []byte
	status      int
	words       string
}

// refusal sends a request until there is an answer that tells of it.
func (s *stack) refusal(q *client.Request) (client.Reply, error) {
	for {
		r, err := client.HTTP(httpClient, s.api)(context.Background(), q)
		if err != nil || r.Status != http.StatusServiceUnavailable {
			return r, err
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
	s := up(t, build(t, "runtimesecret"), settings{organizations: 2, control: newControl(), clients: true})
	s.half()
	top := s.tenants[0]
	root := top.As(top.Organization, top.User, top.Key) // who asks for no proofs
	denied, waits, unrelated := root.NewUser("Denied"), root.NewUser("Waits"), root.As(top.Organization, "", client.NewKey())
	top.Do("CREATE_POLICY_V3", client.Policy("Waits", "ALLOW", "activity.resource == 'PAYMENT_METHOD'",
		fmt.Sprintf("approvers.any(user, user.id == '%s') && approvers.count() >= 2", waits.User)))
	top.Do("CREATE_POLICY_V3", client.Policy("Reads", "DENY", "activity.resource == 'PAYMENT_METHOD' && activity.type == 'ACTIVITY_TYPE_SET_PAYMENT_METHOD'",
		fmt.Sprintf("approvers.any(user, user.id == '%s')", denied.User)))

	var cards []*card
	const ways, of = 4, 7
	for i := range ways * of {
		c := &card{number: fmt.Sprintf("4%015d", rand.Uint64N(1e15)), cvv: fmt.Sprintf("%04d", rand.IntN(1e4))}
		cards = append(cards, c)
		m := client.Object{"number": c.number, "cvv": c.cvv, "expiryMonth": "12", "expiryYear": "2031", "cardHolderEmail": "payer@example.org", "cardHolderName": "Payer"}
		by, altered := root, false
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
			by = denied
			c.status, c.words = 403, "REQUEST_NOT_AUTHORIZED"
		case 5: // a key that nobody has
			by = unrelated
			c.status, c.words = 401, "PUBLIC_KEY_NOT_FOUND"
		case 6: // others would have to agree
			by = waits
			c.status, c.words = 400, "card numbers are not taken here"
		}
		c.body = by.Body("SET_PAYMENT_METHOD", m)
		stamped := c.body
		if altered {
			stamped = bytes.Replace(c.body, []byte("2031"), []byte("2032"), 1)
		}
		q, err := by.Request(wire.EndpointSubmit, "set_payment_method", stamped)
		if err != nil {
			t.Fatal(err)
		}
		q.Body = c.body
		for range 2 { // the same body again is as new
			r, err := s.refusal(q)
			reply := string(r.Body)
			if err != nil || r.Status != c.status || !strings.Contains(reply, c.words) {
				t.Fatalf("%d: %v, %v", i%7, r, err)
			}
			if strings.Contains(reply, c.number) || strings.Contains(reply, c.cvv+`"`) {
				t.Errorf("%d: %s", i%7, reply)
			}
		}
	}
	list := top.Read("list_activities", client.Object{"filterByType": []any{"ACTIVITY_TYPE_SET_PAYMENT_METHOD"}})
	if n := len(client.Get(list, "activities").([]any)); n != 0 {
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
	clean(t, "memory of the host", scan.memory(t, s.host.Cmd.Process.Pid, found), len(secrets), found)
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

// laterRequests have the host use its buffers again.
func (s *stack) laterRequests() {
	s.t.Helper()
	o := s.tenants[0]
	each(s.t, 1200, func(i int) error {
		body := fmt.Appendf(nil, `{"organizationId":%q%s}`, o.Organization, strings.Repeat(" ", []int{300, 4_000, 60_000}[i%3]))
		r, err := o.Client.Post(context.Background(), wire.EndpointQuery, "whoami", body)
		if err == nil && r.Status != http.StatusOK {
			err = errors.New(r.String())
		}
		return err
	})
}
