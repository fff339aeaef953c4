// Command large fills a deployment and measures on the way what it costs to use it: accounts in one wallet, then
// sub-organizations, then activities. See large.sh.
//
// It fills as a host: requests are stamped and go over the host's own link and store, without HTTP. It measures with
// the programs of make build and over HTTP, one request behind the other.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cloister/attestation/request"
)

// bench is a run.
type bench struct {
	programs
	database string // folder of the database
	clients  int
	reps     int
	until    time.Time
	root     *request.API
	over     *http.Client // HTTP
	enclave  *enclave

	wallet     string
	accounts   []string
	activities atomic.Int64
	payload    atomic.Int64
	runs       int

	mu   sync.Mutex
	subs []*sub
	made *os.File

	columns []string
	rows    []string
	cells   map[string]map[string]string
}

func (b *bench) late() bool { return !b.until.IsZero() && time.Now().After(b.until) }

func (b *bench) put(row, text string) {
	if b.cells[row] == nil {
		b.cells[row] = map[string]string{}
		b.rows = append(b.rows, row)
	}
	b.cells[row][b.columns[len(b.columns)-1]] = text
	fmt.Fprintf(os.Stderr, "%s | %s | %s | %s\n", time.Now().Format(time.TimeOnly), b.columns[len(b.columns)-1], row, text)
}

// p50 is the median of many requests, one behind the other.
func (b *bench) p50(row string, reps int, one func() error) error {
	times := make([]time.Duration, reps)
	busy := 0
	for i := range times {
		begun := time.Now()
		for err := one(); err != nil; err = one() { // a caller would ask again as well
			var refusal *request.Error
			if busy++; busy > 1000 || !errors.As(err, &refusal) || refusal.Status != http.StatusServiceUnavailable {
				return fmt.Errorf("%s: %w", row, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		times[i] = time.Since(begun)
	}
	slices.Sort(times)
	text := fmt.Sprintf("%.2f ms", float64(times[reps/2])/1e6)
	if busy > 0 {
		text += fmt.Sprintf(", busy %d times", busy)
	}
	b.put(row, text)
	return nil
}

func (b *bench) any() *sub { return b.subs[mrand.IntN(len(b.subs))] }
func (b *bench) walletOwner() *sub {
	return b.subs[mrand.IntN(len(b.subs)/withWallet)*withWallet]
}

// search expects a page of so many, or the very one that is looked for.
func (b *bench) search(kind, value string, limit string, want func(ids []string) bool) error {
	q := object{"paginationOptions": object{"limit": limit}}
	if kind != "" {
		q["filterType"], q["filterValue"] = kind, value
	}
	var f struct{ OrganizationIDs []string }
	err := b.root.Query(context.Background(), "list_suborgs", q, &f)
	if err == nil && !want(f.OrganizationIDs) {
		err = fmt.Errorf("%s %q finds %v", kind, value, f.OrganizationIDs)
	}
	return err
}

func (b *bench) found(kind string, value func(*sub) (string, error), of func() *sub) func() error {
	return func() error {
		s := of()
		text, err := value(s)
		if err != nil {
			return err
		}
		return b.search(kind, text, "10", func(ids []string) bool { return slices.Contains(ids, s.id) }) // one more where an earlier run was killed
	}
}

func (b *bench) list(as *request.API, q object, least int) func() error {
	return func() error {
		var f struct{ Activities []struct{ ID string } }
		err := as.Query(context.Background(), "list_activities", q, &f)
		if err == nil && len(f.Activities) < least {
			err = fmt.Errorf("%d activities", len(f.Activities))
		}
		return err
	}
}

// use measures with the enclave as it stands.
func (b *bench) use() error {
	if err := b.enclave.serve(); err != nil {
		return err
	}
	if err := b.enclave.ready(); err != nil {
		return err
	}
	return b.requests()
}

func (b *bench) requests() error {
	b.root.HTTP = b.over
	hundred := object{"paginationOptions": object{"limit": "100"}}
	type measure struct {
		row string
		do  func() error
	}
	var all []measure
	if len(b.accounts) > 0 {
		w := object{"walletId": b.wallet, "paginationOptions": object{"limit": "100"}}
		all = append(all, measure{"first 100 accounts of the wallet", func() error {
			var f struct{ Accounts []struct{ Address string } }
			err := b.root.Query(context.Background(), "list_wallet_accounts", w, &f)
			if err == nil && len(f.Accounts) != min(100, len(b.accounts)) {
				err = fmt.Errorf("%d accounts", len(f.Accounts))
			}
			return err
		}}, measure{"look-up of an account by address", func() error {
			a := b.accounts[mrand.IntN(len(b.accounts))]
			var f struct{ Account struct{ Address string } }
			err := b.root.Query(context.Background(), "get_wallet_account", object{"walletId": b.wallet, "address": a}, &f)
			if err == nil && f.Account.Address != a {
				err = errors.New("another account")
			}
			return err
		}}, measure{"signature with any account of the wallet", func() error { return b.sign(b.root, b.accounts[mrand.IntN(len(b.accounts))]) }},
			measure{"signature with one account", func() error { return b.sign(b.root, b.accounts[0]) }})
	}
	if len(b.subs) > 0 {
		warm, err := b.as(b.subs[0])
		if err != nil {
			return err
		}
		text := func(of func(*sub) string) func(*sub) (string, error) {
			return func(s *sub) (string, error) { return of(s), nil }
		}
		all = append(all,
			measure{"first 100 sub-organizations", func() error { return b.search("", "", "100", func(ids []string) bool { return len(ids) == 100 }) }},
			measure{"look-up by name", b.found("NAME", text((*sub).name), b.any)},
			measure{"look-up by e-mail", b.found("EMAIL", text((*sub).email), b.any)},
			measure{"look-up by user name", b.found("USERNAME", text((*sub).user), b.any)},
			measure{"look-up by public key", b.found("PUBLIC_KEY", func(s *sub) (string, error) {
				k, err := s.key()
				if err != nil {
					return "", err
				}
				return k.Public(), nil
			}, b.any)},
			measure{"look-up by address", b.found("WALLET_ACCOUNT_ADDRESS", text(func(s *sub) string { return s.address }), b.walletOwner)},
			measure{"look-up of what nobody has", func() error {
				return b.search("NAME", "nobody", "10", func(ids []string) bool { return len(ids) == 0 })
			}},
			measure{"newest 100 activities of the parent", b.list(b.root, hundred, 100)},
			measure{"newest 100 activities of the parent, of a rare type", b.list(b.root, object{"filterByType": []string{"ACTIVITY_TYPE_CREATE_WALLET_ACCOUNTS"}, "paginationOptions": object{"limit": "100"}}, 1)},
			measure{"newest 100 activities of one sub-organization", b.list(warm, hundred, 0)},
			measure{"signature in one sub-organization", func() error { return b.sign(warm, b.subs[0].address) }},
			measure{"signature in any sub-organization", func() error {
				s := b.walletOwner()
				as, err := b.as(s)
				if err != nil {
					return err
				}
				return b.sign(as, s.address)
			}})
	}
	for _, m := range all {
		reps := b.reps
		if strings.Contains(m.row, "100") {
			reps /= 3 // these are large
		}
		if err := b.p50(m.row, reps, m.do); err != nil {
			return err
		}
	}
	return b.memory("after use")
}

// memory tells what the processes hold.
func (b *bench) memory(when string) error {
	n, err := b.enclave.resident()
	if err != nil {
		return err
	}
	b.put("enclave, resident, "+when, fmt.Sprintf("%d MiB", n>>10))
	b.put("enclave, live heap, "+when, b.enclave.live())
	if b.enclave.host == nil {
		return nil
	}
	if n, err = b.enclave.host.resident(); err != nil {
		return err
	}
	b.put("host, resident, "+when, fmt.Sprintf("%d MiB", n>>10))
	time.Sleep(1100 * time.Millisecond) // what the host may show from before
	r, err := b.over.Get(b.root.URL + "/metrics")
	if err != nil {
		return err
	}
	defer r.Body.Close()
	var text strings.Builder
	if _, err := io.Copy(&text, r.Body); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		for _, name := range []string{"tips", "organizations_open_bytes", "organizations_open"} {
			if strings.HasPrefix(line, `cloister_enclave_counter{counter="`+name+`"`) {
				f := strings.Fields(line)
				if v, err := strconv.ParseFloat(f[len(f)-1], 64); err == nil {
					b.put("enclave, "+name+", "+when, strconv.FormatInt(int64(v), 10))
				}
			}
		}
	}
	return nil
}

// again stops everything and measures the way back.
func (b *bench) again() error {
	b.enclave.end()
	var times, signed []time.Duration
	for i := range 5 {
		begun := time.Now()
		e, err := b.begin()
		if err != nil {
			return err
		}
		b.enclave = e
		if err := e.serve(); err != nil {
			return err
		}
		if err := e.boot(context.Background()); err != nil {
			return err
		}
		if err := e.ready(); err != nil {
			return err
		}
		times = append(times, time.Since(begun))
		b.root.HTTP = b.over
		if len(b.accounts) > 0 {
			if err := b.sign(b.root, b.accounts[len(b.accounts)/2]); err != nil {
				return err
			}
			signed = append(signed, time.Since(begun))
		}
		if i < 4 {
			e.end()
		}
	}
	slices.Sort(times)
	b.put("start until ready (median of 5)", fmt.Sprintf("%.2f s", times[2].Seconds()))
	if len(signed) > 0 {
		slices.Sort(signed)
		b.put("start until a signature of the parent", fmt.Sprintf("%.2f s", signed[2].Seconds()))
	}
	if err := b.memory("after start"); err != nil {
		return err
	}
	if len(b.subs) > 0 {
		seen := map[int]bool{}
		err := b.p50("signature in a cold sub-organization", min(b.reps, len(b.subs)/withWallet/2), func() error {
			s := b.walletOwner()
			for seen[s.number] {
				s = b.walletOwner()
			}
			seen[s.number] = true
			as, err := b.as(s)
			if err != nil {
				return err
			}
			return b.sign(as, s.address)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// measure fills a column. With start the enclave is started anew, which makes it forget the tips.
func (b *bench) measure(what string, start bool) error {
	b.columns = append(b.columns, what)
	b.put("activities in all", strconv.FormatInt(b.activities.Load(), 10))
	b.put("database", fmt.Sprintf("%.2f GiB", float64(size(b.database))/(1<<30)))
	if err := b.memory("full"); err != nil {
		return err
	}
	b.enclave.leave()
	if err := b.use(); err != nil {
		return err
	}
	if start {
		if err := b.again(); err != nil {
			return err
		}
	}
	b.enclave.leave()
	b.print()
	return b.attach()
}

func (b *bench) attach() (err error) {
	b.root.HTTP, err = b.enclave.attach(context.Background())
	return err
}

func (b *bench) print() {
	fmt.Printf("| | %s |\n|---|%s\n", strings.Join(b.columns, " | "), strings.Repeat("---|", len(b.columns)))
	for _, row := range b.rows {
		fmt.Printf("| %s |", row)
		for _, c := range b.columns {
			fmt.Printf(" %s |", b.cells[row][c])
		}
		fmt.Println()
	}
	fmt.Println()
}

func numbers(text string) (all []int, err error) {
	for _, f := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(f)
		if err != nil || n < 200 || len(all) > 0 && n <= all[len(all)-1] {
			return nil, fmt.Errorf("%q: want rising numbers of 200 or more", text)
		}
		all = append(all, n)
	}
	return all, nil
}

func run() error {
	runtime.LockOSThread() // for the children, which end with it
	b := &bench{cells: map[string]map[string]string{}, over: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}}
	bin := flag.String("bin", "bin", "`folder` of the programs")
	flag.StringVar(&b.data, "data", "", "data `directory`")
	flag.StringVar(&b.store, "store", "", "the store, as cloister-host names it")
	flag.StringVar(&b.database, "database", "", "`folder` of the database, of which the size is told")
	flag.IntVar(&b.clients, "c", 256, "requests under way while the deployment is filled")
	flag.IntVar(&b.reps, "reps", 300, "requests for each median")
	flag.Int64Var(&b.state, "state-bytes", 1<<30, "enclave memory for opened organizations")
	accounts := flag.String("accounts", "1000,10000,100000", "accounts of one wallet to measure with, rising")
	subs := flag.String("suborgs", "10000,100000,300000,1000000", "likewise, sub-organizations")
	activities := flag.String("activities", "3000000,10000000", "likewise, activities of the deployment")
	until := flag.String("until", "", "`hh:mm` at which filling ends, wherever it is")
	flag.Parse()
	if b.data == "" || b.store == "" || b.clients < 1 || b.reps < 10 {
		return errors.New("want -data, -store and numbers above 0 (see -help)")
	}
	if *until != "" {
		t, err := time.Parse("15:04", *until)
		if err != nil {
			return err
		}
		now := time.Now()
		b.until = time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), 0, 0, now.Location())
	}
	b.sim, b.host = filepath.Join(*bin, "cloister-sim"), filepath.Join(*bin, "cloister-host")
	var err error
	if b.enclave, err = b.begin(); err != nil {
		return err
	}
	defer func() { b.enclave.end() }()
	b.root = &request.API{URL: "http://" + apiAddr}
	if err := b.attach(); err != nil {
		return err
	}
	if err := b.enclave.boot(context.Background()); err != nil {
		return err
	}
	if err := b.credentials(); err != nil {
		return err
	}
	if err := b.recall(); err != nil {
		return err
	}
	defer b.made.Close()
	return b.steps(*accounts, *subs, *activities)
}

func (b *bench) credentials() error {
	text, err := os.ReadFile(filepath.Join(b.data, "credentials.json"))
	if err != nil {
		return err
	}
	var c struct {
		OrganizationID string
		RootAPIKey     request.KeyPair
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	b.root.OrganizationID = c.OrganizationID
	b.root.Key, err = request.ParseKey(c.RootAPIKey.PrivateKey)
	return err
}

// steps fills and measures.
func (b *bench) steps(accounts, subs, activities string) error {
	for _, kind := range []struct {
		text, what string
		grow       func(n int) error
	}{
		{accounts, "accounts", b.growWallet},
		{subs, "sub-organizations", b.grow},
		{activities, "activities", func(n int) error { return b.act(int64(n)) }},
	} {
		marks, err := numbers(kind.text)
		if err != nil {
			return err
		}
		for i, n := range marks {
			had, begun := b.activities.Load(), time.Now()
			if err := kind.grow(n); err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "%d %s: %.0f activities/s\n", n, kind.what, float64(b.activities.Load()-had)/time.Since(begun).Seconds())
			column := fmt.Sprintf("%d %s", n, kind.what)
			if b.late() {
				column = fmt.Sprintf("%d sub-organizations, %d activities, stopped by the clock", len(b.subs), b.activities.Load())
			}
			if err := b.measure(column, i == 0 || i == len(marks)-1 || kind.what == "activities" || b.late()); err != nil {
				return err
			}
			if b.late() {
				return nil
			}
		}
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "large:", err)
		os.Exit(1)
	}
}
