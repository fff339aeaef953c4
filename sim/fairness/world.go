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
func prepare(u *client.User, typ string, parameters any, stamped int) *requests {
	key, err := request.ParseKey(u.Key.PrivateKey)
	if err != nil {
		u.Test.Fatal(err)
	}
	first := u.Times.Next()
	then := client.Client{Times: &client.Times{Now: func() time.Time { return time.UnixMilli(first) }}, Organization: u.Organization}
	before, after, _ := bytes.Cut(then.Body(typ, parameters), strconv.AppendInt(nil, first, 10))
	rs := &requests{op: request.Operation(typ), key: key, before: before, after: after, firstMs: first, stamps: make([]string, stamped)}
	parallel(u.Test, stamped, 2, func(i int) {
		var err error
		if rs.stamps[i], err = rs.key.Stamp(rs.body(nil, i)); err != nil {
			u.Test.Error(err)
		}
	})
	return rs
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

// parallel calls f for each number below n. A test that has failed meanwhile ends with it.
func parallel(t testing.TB, n, workers int, f func(i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && !t.Failed(); i = next.Add(1) - 1 {
				f(int(i))
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// endUsers makes an attacker of each of so many new end users of the first tenant.
func (w *world) endUsers(name string, n, inFlight int, what func(*client.User) *requests) group {
	return w.group(name, n, inFlight, func(int) *client.User { return w.tenants[0].NewSubOrganization("End user") }, what)
}

// ofTenants makes an attacker of each of some tenants.
func (w *world) ofTenants(name string, tenants []*client.User, inFlight int, what func(*client.User) *requests) group {
	return w.group(name, len(tenants), inFlight, func(i int) *client.User { return tenants[i] }, what)
}

func (w *world) group(name string, n, inFlight int, who func(i int) *client.User, what func(*client.User) *requests) group {
	g := group{name, make([]*attacker, n)}
	parallel(w.t, n, 32, func(i int) { g.attackers[i] = &attacker{requests: []*requests{what(who(i))}, inFlight: inFlight} })
	return g
}

// dearCondition takes 945,182 of the million steps that an expression may take, and those that take longest: lists that are made.
var dearCondition = fmt.Sprintf("%s.all(a, %s.all(b, %s.filter(c, true).count() == 0))", ones(90), ones(100), ones(100))

func ones(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]" }

// dearPolicies takes one more than sixteen million steps.
const dearPolicies = 18

// policies has a root user write dear policies, and another user ask for something that they deny.
func policies(root *client.User) *requests {
	user := root.NewUser("User")
	var all []any
	for i := range dearPolicies {
		all = append(all, client.Policy(fmt.Sprint("Policy ", i), "ALLOW", dearCondition, ""))
	}
	root.Do("CREATE_POLICIES", object{"policies": all})
	return prepare(user, "CREATE_USER_TAG", client.Tag("Tag"), 8)
}

// addresses asks for a thousand addresses, of the kind that takes longest, which are told and not kept.
func addresses(u *client.User) *requests {
	wallet := u.Do("CREATE_WALLET", client.Wallet("Wallet"))["walletId"]
	var all []any
	for i := range 1000 {
		all = append(all, client.Account("SECP256K1", fmt.Sprintf("m/86'/0'/0'/0/%d", i), "BITCOIN_MAINNET_P2TR"))
	}
	return prepare(u, "CREATE_WALLET_ACCOUNTS", object{"walletId": wallet, "accounts": all, "persist": false}, 64)
}

// megabytes asks for signatures of a megabyte by an address that is not there.
func megabytes(u *client.User) *requests {
	sign := client.Payload("0x0000000000000000000000000000000000000000", strings.Repeat("61", wire.MaxBody/2-200), "SHA256")
	return prepare(u, "SIGN_RAW_PAYLOAD_V2", sign, 200)
}

// signing makes an address, and is what a signature of it is asked with.
func signing(u *client.User) object {
	made := u.Do("CREATE_WALLET", client.Wallet("Wallet", client.Ethereum))
	return client.Payload(client.Text(made, "addresses", "0"), "68656c6c6f", "SHA256")
}

// signatures asks for them.
func signatures(u *client.User) *requests {
	return prepare(u, "SIGN_RAW_PAYLOAD_V2", signing(u), 2_000)
}

// flood is a tenant whose root user has signatures made, by four keys: one of them has half of what the tenant has.
func flood(tenant *client.User, inFlight int) group {
	a := &attacker{inFlight: inFlight}
	sign := signing(tenant)
	for i := range 4 {
		by := tenant
		if i > 0 {
			by = tenant.NewKey()
		}
		a.requests = append(a.requests, prepare(by, "SIGN_RAW_PAYLOAD_V2", sign, 8_000))
	}
	return group{"signatures", []*attacker{a}}
}

// victim is the root user of the first organization, who signs.
func (w *world) victim() *requests {
	root := w.rig.Root()
	return prepare(root, "SIGN_RAW_PAYLOAD_V2", signing(root), int((warmUp+window)/every))
}
