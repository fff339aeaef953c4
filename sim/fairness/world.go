package fairness

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/attestation/request"
	"cloister/enclave/core"
	"cloister/shared/collector"
	"cloister/shared/slack"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/laptop"
	"cloister/sim/process"
	"cloister/sim/rig"
)

// usualRates are those of the production enclave; a simulator has none by default.
var usualRates = core.Rates{}.WithUsual()

type object = map[string]any

// A world is a running host and enclave. Its first organization is the victim, the second the tenant whose end users attack.
type world struct {
	t       testing.TB
	rig     *rig.Rig
	enclave int // its process; 0: this
	begun   time.Time
	tenants []*client.User
}

// newWorld starts one with so many tenants besides the victim. A command starts its enclave, given the data directory; nil: it is in
// this process.
func newWorld(t testing.TB, command func(dir string) *exec.Cmd, tenants int) *world {
	w := &world{t: t, begun: time.Now()}
	o := rig.Options{Dir: t.TempDir(), Rates: usualRates, Organizations: tenants}
	if command != nil {
		w.enclave, o.Running = startEnclave(t, command(o.Dir))
	}
	w.rig = rig.Start(t, o)
	w.tenants = w.rig.Others()
	return w
}

// startEnclave has a command start an enclave's process, which ends with this one, and tells where it listens.
func startEnclave(t testing.TB, cmd *exec.Cmd) (pid int, address string) {
	cmd.Stderr = os.Stderr
	p := process.Listen(t, "", cmd, listening)
	if p.Said == "" {
		t.Fatal("the enclave's process does not listen")
	}
	return p.Cmd.Process.Pid, p.Said
}

// listening begins the line on which an enclave's process says where it listens.
const listening = "listening: "

// serveEnclave is an enclave's process. Its settings are those of cloister-sim, with the usual rates.
func serveEnclave(dir string) error {
	collector.Spare(core.SpareBytes)
	slack.AllowHere()
	c, err := (&laptop.Dir{Path: dir}).Enclave(core.Config{Rates: usualRates})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("%stcp://%s\n", listening, l.Addr())
	return c.Serve(context.Background(), l)
}

// A requests is bodies that differ by their time stamps alone, and the stamps of the first of them.
type requests struct {
	op            string
	key           *request.Key
	before, after []byte // of the time
	firstMs       int64
	stamps        []string
	taken         atomic.Int64
}

// prepare makes requests of a user, so many of them stamped.
func prepare(u *client.Client, typ string, parameters any, stamped int) (*requests, error) {
	key, err := request.ParseKey(u.Key.PrivateKey)
	if err != nil {
		return nil, err
	}
	first := u.Times.Next()
	then := client.Client{Times: &client.Times{Now: func() time.Time { return time.UnixMilli(first) }}, Organization: u.Organization}
	before, after, _ := bytes.Cut(then.Body(typ, parameters), strconv.AppendInt(nil, first, 10))
	rs := &requests{op: request.Operation(typ), key: key, before: before, after: after, firstMs: first, stamps: make([]string, stamped)}
	return rs, parallel(stamped, 2, func(i int) (err error) {
		rs.stamps[i], err = rs.key.Stamp(rs.body(nil, i))
		return err
	})
}

// next is the next request. Its body is written over the one given.
func (rs *requests) next(body []byte) wire.Call {
	i := int(rs.taken.Add(1)) - 1
	body = rs.body(body[:0], i)
	var stamp string
	if i < len(rs.stamps) {
		stamp = rs.stamps[i]
	} else {
		stamp, _ = rs.key.Stamp(body) // as those before
	}
	return wire.Call{Endpoint: wire.EndpointSubmit, Op: rs.op, Head: []wire.Header{{Name: request.HeaderStamp, Value: stamp}}, Body: body}
}

func (rs *requests) body(b []byte, i int) []byte {
	b = append(b, rs.before...)
	b = strconv.AppendInt(b, rs.firstMs+int64(i), 10)
	return append(b, rs.after...)
}

// parallel calls f for each number below n, and is the first error.
func parallel(n, workers int, f func(i int) error) error {
	var next atomic.Int64
	var all sync.WaitGroup
	errs := make(chan error, workers)
	for range workers {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if err := f(int(i)); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}

// A load makes requests of a user.
type load func(context.Context, *client.Client) (*requests, error)

// endUsers makes an attacker of each of so many new end users of the first tenant.
func (w *world) endUsers(name string, n, inFlight int, what load) group {
	return w.group(name, n, inFlight, func(ctx context.Context, _ int) (*client.Client, error) {
		return w.tenants[0].Client.NewSubOrganization(ctx, "End user")
	}, what)
}

// ofTenants makes an attacker of each of some tenants.
func (w *world) ofTenants(name string, tenants []*client.User, inFlight int, what load) group {
	return w.group(name, len(tenants), inFlight, func(_ context.Context, i int) (*client.Client, error) { return tenants[i].Client, nil }, what)
}

func (w *world) group(name string, n, inFlight int, who func(context.Context, int) (*client.Client, error), what load) group {
	g := group{name, make([]*attacker, n)}
	err := parallel(n, 32, func(i int) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		c, err := who(ctx, i)
		if err != nil {
			return err
		}
		rs, err := what(ctx, c)
		g.attackers[i] = &attacker{requests: []*requests{rs}, inFlight: inFlight}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return g
}

// dearCondition takes 945,182 of the million steps that an expression may take, and those that take longest: lists that are made.
var dearCondition = fmt.Sprintf("%s.all(a, %s.all(b, %s.filter(c, true).count() == 0))", ones(90), ones(100), ones(100))

func ones(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]" }

// dearPolicies takes one more than sixteen million steps.
const dearPolicies = 18

// policies has a root user write dear policies, and another user ask for something that they deny.
func policies(ctx context.Context, root *client.Client) (*requests, error) {
	user, err := root.NewUser(ctx, "User")
	if err != nil {
		return nil, err
	}
	var all []any
	for i := range dearPolicies {
		all = append(all, client.Policy(fmt.Sprint("Policy ", i), "ALLOW", dearCondition, ""))
	}
	if _, err := root.Do(ctx, "CREATE_POLICIES", object{"policies": all}); err != nil {
		return nil, err
	}
	return prepare(user, "CREATE_USER_TAG", client.Tag("Tag"), 8)
}

// addresses asks for a thousand addresses, of the kind that takes longest, which are told and not kept.
func addresses(ctx context.Context, c *client.Client) (*requests, error) {
	wallet, err := c.Do(ctx, "CREATE_WALLET", client.Wallet("Wallet"))
	if err != nil {
		return nil, err
	}
	var all []any
	for i := range 1000 {
		all = append(all, client.Account("SECP256K1", fmt.Sprintf("m/86'/0'/0'/0/%d", i), "BITCOIN_MAINNET_P2TR"))
	}
	return prepare(c, "CREATE_WALLET_ACCOUNTS", object{"walletId": wallet["walletId"], "accounts": all, "persist": false}, 64)
}

// megabytes asks for signatures of a megabyte by an address that is not there.
func megabytes(_ context.Context, c *client.Client) (*requests, error) {
	sign := client.Payload("0x0000000000000000000000000000000000000000", strings.Repeat("61", wire.MaxBody/2-200), "SHA256")
	return prepare(c, "SIGN_RAW_PAYLOAD_V2", sign, 200)
}

// signing makes an address, and is what a signature of it is asked with.
func signing(ctx context.Context, c *client.Client) (object, error) {
	made, err := c.Do(ctx, "CREATE_WALLET", client.Wallet("Wallet", client.Ethereum))
	return client.Payload(client.Text(made, "addresses", "0"), "68656c6c6f", "SHA256"), err
}

// signatures asks for so many of them, stamped.
func signatures(stamped int) load {
	return func(ctx context.Context, c *client.Client) (*requests, error) {
		sign, err := signing(ctx, c)
		if err != nil {
			return nil, err
		}
		return prepare(c, "SIGN_RAW_PAYLOAD_V2", sign, stamped)
	}
}

// flood is a tenant whose root user has signatures made, by four keys: one of them has half of what the tenant has.
func flood(tenant *client.User, inFlight int) group {
	a := &attacker{inFlight: inFlight}
	sign, err := signing(context.Background(), tenant.Client)
	for i := 0; i < 4 && err == nil; i++ {
		by := tenant
		if i > 0 {
			by = tenant.NewKey()
		}
		var rs *requests
		rs, err = prepare(by.Client, "SIGN_RAW_PAYLOAD_V2", sign, 8_000)
		a.requests = append(a.requests, rs)
	}
	if err != nil {
		tenant.Test.Fatal(err)
	}
	return group{"signatures", []*attacker{a}}
}

// victim is the root user of the first organization, who signs.
func (w *world) victim() *requests {
	rs, err := signatures(int((warmUp+window)/every))(context.Background(), w.rig.Root().Client)
	if err != nil {
		w.t.Fatal(err)
	}
	return rs
}
