package budget_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cloister/enclave/core"
	"cloister/host/store/sqlite"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/rig"
)

const file = "budgets.txt"

var write = flag.Bool("write", false, "write what requests cost now into "+file)

// instrumented names what makes this build allocate otherwise than the product does;
// then memory is not held against the budgets.
var instrumented string

// slack is how far a cost may stay below its budget: a budget that is never met says
// nothing. margin is what is left free above memory and bytes when budgets are written:
// a signature in DER has one byte more or less, and a map grows now and then.
const (
	slack  = 0.05
	margin = 0.01
)

// measures are what is counted, as in the file.
var measures = []string{"allocations", "allocated-bytes", "frames", "frame-bytes", "statements", "commits",
	"aead-seals", "aead-opens", "signatures-made", "signatures-verified", "erasures"}

// inMemory tells which are of the process's memory, exact which are the same every time.
func inMemory(measure string) bool { return measure == "allocations" || measure == "allocated-bytes" }
func exact(measure string) bool    { return !inMemory(measure) && measure != "frame-bytes" }

// A costs is what one request takes, by measure.
type costs map[string]float64

type object = map[string]any

// A world is the root user of a host, enclave and store in this process, with what counts between them.
type world struct {
	*client.User
	t       *testing.T
	r       *rig.Rig
	store   *sqlite.Store
	index   *os.File // of the store's write-ahead log
	commit  [4]byte
	relay   relay
	address string // that signs
}

func newWorld(t *testing.T) *world {
	dir := t.TempDir()
	w := &world{t: t}
	var err error
	if w.store, err = sqlite.Open(t.Context(), filepath.Join(dir, "cloister.db")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.store.Close() })
	if w.index, err = os.Open(filepath.Join(dir, "cloister.db-shm")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.index.Close() })
	w.r = rig.Start(t, rig.Options{Dir: dir, Store: w.store, Quotas: core.Quotas{Policies: 1000},
		Between: func(address string) string { return w.relay.between(t, address) }})
	w.User = w.r.Root()
	w.address = client.Text(w.Do("CREATE_WALLET", client.Wallet("First", client.Ethereum)), "addresses", "0")
	return w
}

// act is the call in which a user asks for an activity and says whether he wants app proofs.
func (w *world) act(u *client.User, typ string, parameters any) wire.Call {
	w.t.Helper()
	body, err := json.Marshal(object{"type": "ACTIVITY_TYPE_" + typ, "timestampMs": strconv.FormatInt(u.Times.Next(), 10),
		"organizationId": u.Organization, "parameters": parameters, "generateAppProofs": strings.HasPrefix(typ, "SIGN_")})
	if err != nil {
		w.t.Fatal(err)
	}
	op, _, _ := strings.Cut(strings.ToLower(typ), "_v")
	return w.call(u.Request(wire.EndpointSubmit, op, body))
}

// call is a request as it is measured.
func (w *world) call(q *client.Request, err error) wire.Call {
	if err != nil {
		w.t.Fatal(err)
	}
	return wire.Call{Endpoint: q.Endpoint, Op: q.Op, Head: q.Head, Body: q.Body}
}

// signature is a signature with app proofs.
func (w *world) signature(u *client.User, i int) wire.Call {
	return w.act(u, "SIGN_RAW_PAYLOAD_V2", client.Payload(w.address, fmt.Sprintf("%064x", i+1), "NO_OP"))
}

// signer is a user who signs by leave of one of so many policies. The others are of
// the usual sorts and say nothing about it.
func (w *world) signer(policies int) *client.User {
	signer := w.NewUser("Signer")
	const other = "5f9c1b9e-8f0e-4a3c-9d55-0d6f3a1b2c4d"
	mine := "approvers.any(user, user.id == '" + signer.User + "')"
	all := []any{client.Policy("Policy 0", "ALLOW", "activity.kind == 'SIGN_RAW_PAYLOAD' && activity.action == 'SIGN'", mine)}
	for i := 1; i < policies; i++ {
		p := client.Policy(fmt.Sprintf("Policy %d", i), "ALLOW", "", "")
		switch i % 5 {
		case 0:
			p["condition"], p["consensus"] = "activity.kind == 'SIGN_TRANSACTION' && wallet.id == '"+other+"'", mine
		case 1:
			p["condition"], p["consensus"] = "activity.resource == 'WALLET' && activity.action == 'CREATE'", "approvers.filter(user, user.tags.contains('"+other+"')).count() >= 2"
		case 2:
			p["condition"], p["consensus"] = "wallet.id == '"+other+"'", "approvers.any(user, user.tags.contains('"+other+"'))"
		case 3:
			p["condition"], p["consensus"] = "activity.kind in ['CREATE_USERS', 'CREATE_API_KEYS']", "approvers.count() >= 3"
		case 4:
			p["effect"], p["condition"] = "EFFECT_DENY", fmt.Sprintf("wallet.id == '%s' && wallet_account.address == '0x%040x'", other, i)
		}
		all = append(all, p)
	}
	for len(all) > 0 {
		n := min(len(all), 100)
		w.Do("CREATE_POLICIES", object{"policies": all[:n]})
		all = all[n:]
	}
	return signer
}

// between are the costs that are read after every request: what happens by the clock
// meanwhile (the enclave renews what it owns) then spoils one request and not all.
var between = [...]string{"frames", "frame-bytes", "statements", "commits"}

func (w *world) counted() [len(between)]uint64 {
	return [...]uint64{w.relay.frames.Load(), w.relay.bytes.Load(), w.store.Statements(), w.commits()}
}

// commits is SQLite's own count of transactions that were written, from the index of
// its write-ahead log (fileformat2, section 4.4: iChange). With synchronous=FULL each
// is one fsync of the log.
func (w *world) commits() uint64 {
	if _, err := w.index.ReadAt(w.commit[:], 8); err != nil {
		w.t.Fatal(err)
	}
	return uint64(binary.NativeEndian.Uint32(w.commit[:]))
}

// measure sends calls, one after the other, and is what one of them cost: on average,
// or in the middle where it is read after each. Nothing is collected meanwhile.
func (w *world) measure(calls []wire.Call) costs {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var single [len(between)][]uint64
	for i := range single {
		single[i] = make([]uint64, len(calls))
	}
	c, ctx := costs{}, context.Background()
	tally := w.r.Counters()
	runtime.GC()
	var a, z runtime.MemStats
	runtime.ReadMemStats(&a)
	last := w.counted()
	for i := range calls {
		reply, err := w.r.Link.Call(ctx, &calls[i])
		if err != nil {
			w.t.Fatal(err)
		}
		if reply.Status != 200 {
			w.t.Fatalf("%s: %d %s", calls[i].Op, reply.Status, reply.Body)
		}
		now := w.counted()
		for m := range now {
			single[m][i] = now[m] - last[m]
		}
		last = now
	}
	runtime.ReadMemStats(&z)
	each := func(n uint64) float64 { return float64(n) / float64(len(calls)) }
	c["allocations"], c["allocated-bytes"] = each(z.Mallocs-a.Mallocs), each(z.TotalAlloc-a.TotalAlloc)
	for m, name := range between {
		slices.Sort(single[m])
		c[name] = float64(single[m][len(calls)/2])
	}
	for name, n := range w.r.Counters() {
		c[strings.ReplaceAll(name, "_", "-")] = each(n - tally[name])
	}
	return c
}

// least is what a request costs: the least of several rounds, by measure. What else goes
// on in the process (the lease, timers, tables that grow) only adds.
func (w *world) least(n int, call func(i int) wire.Call) costs {
	const rounds = 6
	var least costs
	for round := range rounds {
		calls := make([]wire.Call, n)
		for i := range calls {
			calls[i] = call(round*n + i)
		}
		c := w.measure(calls)
		if round == 0 {
			continue // to warm up
		}
		if least == nil {
			least = c
		}
		for m, v := range c {
			least[m] = min(least[m], v)
		}
	}
	return least
}

// Each request costs what its line in budgets.txt says: not more, and not so much less
// that the line should be lowered. -write writes the file.
func TestBudgets(t *testing.T) {
	w := newWorld(t)
	found := map[string]costs{}
	found["query"] = w.least(50, func(int) wire.Call { return w.call(w.Request(wire.EndpointQuery, "whoami", w.Ask(nil))) })
	found["signature"] = w.least(50, func(i int) wire.Call { return w.signature(w.User, i) })
	found["log-in"] = w.least(20, func(int) wire.Call {
		return w.act(w.User, "STAMP_LOGIN", object{"publicKey": client.NewKey().PublicKey})
	})
	found["wallet"] = w.least(15, func(i int) wire.Call {
		return w.act(w.User, "CREATE_WALLET", client.Wallet(fmt.Sprintf("Wallet %04d", i), client.Ethereum))
	})
	signer := w.signer(1000)
	found["signature-among-1000-policies"] = w.least(20, func(i int) wire.Call { return w.signature(signer, 1000+i) })

	requests := []string{"signature", "signature-among-1000-policies", "log-in", "wallet", "query"}
	if *write {
		save(t, requests, found)
	}
	budgets := load(t)
	if instrumented != "" {
		t.Logf("memory is not held against the budgets: %s allocates otherwise", instrumented)
	}
	for _, r := range requests {
		for _, m := range measures {
			budget, known := budgets[r][m]
			got := found[r][m]
			switch {
			case !known:
				t.Errorf("%s has no line for %s %s", file, r, m)
			case instrumented != "" && inMemory(m):
			case got > budget:
				t.Errorf("%s: %s are %.1f, and the budget is %.0f", r, m, got, budget)
			case got < budget*(1-slack):
				t.Errorf("%s: %s are only %.1f, and the budget is %.0f: lower the line in %s, or go test ./sim/budget -write", r, m, got, budget, file)
			}
		}
		delete(budgets, r)
	}
	for r := range budgets {
		t.Errorf("%s has lines for %s, which nobody measures", file, r)
	}
}

const preamble = `# What one request costs, at most, in one process that holds host, enclave and an SQLite store: request, what is counted, budget.
# TestBudgets fails above a line, and when a cost falls more than 5 % below it. go test ./sim/budget -write writes the lines anew.
#
# allocations, allocated-bytes    of the Go heap, in both halves together
# frames, frame-bytes             between the processes, either way
# statements, commits             of the store, BEGIN and COMMIT among them; a commit is one fsync
# aead-…, signatures-…            by the enclave
# erasures                        calls of erase.Do, which makes every allocation inside dear
`

func save(t *testing.T, requests []string, found map[string]costs) {
	var b bytes.Buffer
	b.WriteString(preamble)
	for _, r := range requests {
		b.WriteByte('\n')
		for _, m := range measures {
			v := found[r][m]
			if !exact(m) {
				v = math.Ceil(v * (1 + margin))
			}
			fmt.Fprintf(&b, "%-30s %-20s %.0f\n", r, m, v)
		}
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T) map[string]costs {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	budgets := map[string]costs{}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		line := s.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		if len(f) != 3 {
			t.Fatalf("%s: %q", file, line)
		}
		n, err := strconv.ParseUint(f[2], 10, 32)
		if _, twice := budgets[f[0]][f[1]]; err != nil || twice {
			t.Fatalf("%s: %q: %v", file, line, err)
		}
		if budgets[f[0]] == nil {
			budgets[f[0]] = costs{}
		}
		budgets[f[0]][f[1]] = float64(n)
	}
	return budgets
}
