package fairness

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cloister/attestation/request"
	"cloister/enclave/core"
	"cloister/shared/collector"
	"cloister/shared/slack"
	"cloister/shared/wire"
	"cloister/sim/laptop"
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
	tenants []account
}

// An account is an organization and who asks there.
type account struct {
	organization, user string
	key                laptop.KeyPair
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
	others, err := w.rig.Dir.Organizations()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range others {
		w.tenants = append(w.tenants, account{o.OrganizationID, o.RootUserID, o.RootAPIKey})
	}
	return w
}

// startEnclave has a command start an enclave's process, which ends with this one, and tells where it listens.
func startEnclave(t testing.TB, cmd *exec.Cmd) (process int, address string) {
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	over, begun := make(chan struct{}), make(chan error)
	t.Cleanup(func() { close(over) })
	go func() {
		runtime.LockOSThread() // the signal comes when the thread ends that started it
		begun <- cmd.Start()
		<-over
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if err := <-begun; err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, address, ok := strings.Cut(lines.Text(), listening); ok {
			return cmd.Process.Pid, address
		}
	}
	t.Fatal("the enclave's process does not listen")
	return 0, ""
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

// prepare makes requests of an account, so many of them stamped.
func (w *world) prepare(a account, typ string, parameters any, stamped int) *requests {
	const time = "1111111111111"
	body, err := json.Marshal(object{"type": typ, "timestampMs": time, "organizationId": a.organization, "parameters": parameters})
	if err != nil {
		w.t.Fatal(err)
	}
	key, err := request.ParseKey(a.key.PrivateKey)
	if err != nil {
		w.t.Fatal(err)
	}
	before, after, _ := strings.Cut(string(body), time)
	rs := &requests{op: request.Operation(typ), key: key, before: []byte(before), after: []byte(after), firstMs: w.rig.NowMs(), stamps: make([]string, stamped)}
	if err := parallel(stamped, 2, func(i int) (err error) {
		rs.stamps[i], err = rs.key.Stamp(rs.body(nil, i))
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
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

// do has an account do something and is the result.
func (w *world) do(a account, typ string, parameters any) (result any, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	reply, err := w.rig.Send(ctx, wire.EndpointSubmit, request.Operation(typ), w.rig.BodyOf(a.organization, typ, parameters), a.key)
	if err != nil {
		return nil, err
	}
	var m object
	if err := json.Unmarshal(reply.Body, &m); err != nil || rig.Text(m, "activity", "status") != "ACTIVITY_STATUS_COMPLETED" {
		return nil, fmt.Errorf("%s: %d %s", typ, reply.Status, reply.Body)
	}
	for _, one := range rig.Get(m, "activity", "result").(object) {
		result = one
	}
	return result, nil
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

func newKey() (k laptop.KeyPair, parameters object, err error) {
	k, err = laptop.NewKey()
	return k, object{"apiKeyName": "Key", "publicKey": k.PublicKey, "curveType": "API_KEY_CURVE_P256"}, err
}

// endUser makes a sub-organization with one root user, by the parent's key.
func (w *world) endUser(parent account) (account, error) {
	k, key, err := newKey()
	if err != nil {
		return account{}, err
	}
	made, err := w.do(parent, "ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V8", object{"subOrganizationName": "End user", "rootQuorumThreshold": 1,
		"rootUsers": []any{object{"userName": "Root", "authenticators": []any{}, "oauthProviders": []any{}, "apiKeys": []any{key}}}})
	return account{rig.Text(made, "subOrganizationId"), rig.Text(made, "rootUserIds", "0"), k}, err
}

// endUsers makes an attacker of each of so many new end users of the first tenant.
func (w *world) endUsers(name string, n, inFlight int, what func(account) (*requests, error)) group {
	return w.group(name, n, inFlight, func(int) (account, error) { return w.endUser(w.tenants[0]) }, what)
}

// ofTenants makes an attacker of each of some tenants.
func (w *world) ofTenants(name string, tenants []account, inFlight int, what func(account) (*requests, error)) group {
	return w.group(name, len(tenants), inFlight, func(i int) (account, error) { return tenants[i], nil }, what)
}

func (w *world) group(name string, n, inFlight int, who func(i int) (account, error), what func(account) (*requests, error)) group {
	g := group{name, make([]*attacker, n)}
	err := parallel(n, 32, func(i int) error {
		a, err := who(i)
		if err != nil {
			return err
		}
		rs, err := what(a)
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

// policies has the root user of an account write dear policies, and another user ask for something that they deny.
func (w *world) policies(a account) (*requests, error) {
	k, key, err := newKey()
	if err != nil {
		return nil, err
	}
	made, err := w.do(a, "ACTIVITY_TYPE_CREATE_USERS_V3", object{"users": []any{object{"userName": "User", "authenticators": []any{}, "oauthProviders": []any{}, "userTags": []any{},
		"apiKeys": []any{key}}}})
	if err != nil {
		return nil, err
	}
	var all []any
	for i := range dearPolicies {
		all = append(all, object{"policyName": fmt.Sprint("Policy ", i), "effect": "EFFECT_ALLOW", "notes": "", "condition": dearCondition})
	}
	if _, err := w.do(a, "ACTIVITY_TYPE_CREATE_POLICIES", object{"policies": all}); err != nil {
		return nil, err
	}
	return w.prepare(account{a.organization, rig.Text(made, "userIds", "0"), k}, "ACTIVITY_TYPE_CREATE_USER_TAG", object{"userTagName": "Tag", "userIds": []any{}}, 8), nil
}

// addresses asks for a thousand addresses, of the kind that takes longest, which are told and not kept.
func (w *world) addresses(a account) (*requests, error) {
	wallet, err := w.do(a, "ACTIVITY_TYPE_CREATE_WALLET", object{"walletName": "Wallet", "accounts": []any{}})
	if err != nil {
		return nil, err
	}
	var all []any
	for i := range 1000 {
		all = append(all, object{"curve": "CURVE_SECP256K1", "pathFormat": "PATH_FORMAT_BIP32", "path": fmt.Sprintf("m/86'/0'/0'/0/%d", i), "addressFormat": "ADDRESS_FORMAT_BITCOIN_MAINNET_P2TR"})
	}
	return w.prepare(a, "ACTIVITY_TYPE_CREATE_WALLET_ACCOUNTS", object{"walletId": rig.Text(wallet, "walletId"), "accounts": all, "persist": false}, 64), nil
}

// signing signs one payload with an address, or with one that is not there.
func signing(address, payload string) object {
	return object{"signWith": address, "payload": payload, "encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": "HASH_FUNCTION_SHA256"}
}

// megabytes asks for signatures of a megabyte by an address that is not there.
func (w *world) megabytes(a account) (*requests, error) {
	return w.prepare(a, "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", signing("0x0000000000000000000000000000000000000000", strings.Repeat("61", wire.MaxBody/2-200)), 200), nil
}

// signer makes an address of an account, and what a signature of it is asked with.
func (w *world) signer(a account) (object, error) {
	made, err := w.do(a, "ACTIVITY_TYPE_CREATE_WALLET", object{"walletName": "Wallet", "accounts": []any{
		object{"curve": "CURVE_SECP256K1", "pathFormat": "PATH_FORMAT_BIP32", "path": "m/44'/60'/0'/0/0", "addressFormat": "ADDRESS_FORMAT_ETHEREUM"}}})
	return signing(rig.Text(made, "addresses", "0"), "68656c6c6f"), err
}

// signatures asks for them.
func (w *world) signatures(a account) (*requests, error) {
	sign, err := w.signer(a)
	return w.prepare(a, "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", sign, 2_000), err
}

// flood is a tenant whose root user has signatures made, by four keys: one of them has half of what the tenant has.
func (w *world) flood(tenant account, inFlight int) group {
	a := &attacker{inFlight: inFlight}
	sign, err := w.signer(tenant)
	for i := 0; i < 4 && err == nil; i++ {
		by := tenant
		if i > 0 {
			var key object
			if by.key, key, err = newKey(); err == nil {
				_, err = w.do(tenant, "ACTIVITY_TYPE_CREATE_API_KEYS_V2", object{"userId": tenant.user, "apiKeys": []any{key}})
			}
		}
		a.requests = append(a.requests, w.prepare(by, "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", sign, 8_000))
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return group{"signatures", []*attacker{a}}
}

// victim is the root user of the first organization, who signs.
func (w *world) victim() *requests {
	a := account{w.rig.Credentials.OrganizationID, w.rig.Credentials.RootUserID, w.rig.Credentials.RootAPIKey}
	sign, err := w.signer(a)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.prepare(a, "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", sign, int((warmUp+window)/every))
}
