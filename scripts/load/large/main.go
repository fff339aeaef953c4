// Command large fills a deployment and measures on the way what it costs to use it: accounts in one wallet, then
// sub-organizations, then activities. See large.sh.
//
// It fills as a host: requests are stamped and go over the host's own link and store, without HTTP. It measures with
// the programs of make build and over HTTP, one request behind the other.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
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
	"cloister/scripts/internal/deployment"
)

type bench struct {
	programs
	deployment.Table
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
	runs       int

	mu   sync.Mutex
	subs []*sub
	made *os.File
}

func (b *bench) late() bool { return !b.until.IsZero() && time.Now().After(b.until) }

func (b *bench) any() *sub         { return b.subs[mrand.IntN(len(b.subs))] }
func (b *bench) walletOwner() *sub { return b.subs[mrand.IntN(len(b.subs)/withWallet)*withWallet] }

func (b *bench) found(kind string, value func(*sub) string, of func() *sub) func() error {
	return func() error {
		s := of() // one more where an earlier run was killed
		return deployment.Search(b.root, kind, value(s), object{"limit": "10"}, func(ids []string) bool { return slices.Contains(ids, s.ID) })
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
	type measure = deployment.Measure
	var all []measure
	if len(b.accounts) > 0 {
		w := object{"walletId": b.wallet, "paginationOptions": object{"limit": "100"}}
		all = append(all, measure{Row: "first 100 accounts of the wallet", Do: func() error {
			var f struct{ Accounts []struct{ Address string } }
			err := b.root.Query(context.Background(), "list_wallet_accounts", w, &f)
			if err == nil && len(f.Accounts) != min(100, len(b.accounts)) {
				err = fmt.Errorf("%d accounts", len(f.Accounts))
			}
			return err
		}}, measure{Row: "look-up of an account by address", Do: func() error {
			a := b.accounts[mrand.IntN(len(b.accounts))]
			var f struct{ Account struct{ Address string } }
			err := b.root.Query(context.Background(), "get_wallet_account", object{"walletId": b.wallet, "address": a}, &f)
			if err == nil && f.Account.Address != a {
				err = errors.New("another account")
			}
			return err
		}}, measure{Row: "signature with any account of the wallet", Do: func() error { return deployment.Sign(b.root, b.accounts[mrand.IntN(len(b.accounts))]) }},
			measure{Row: "signature with one account", Do: func() error { return deployment.Sign(b.root, b.accounts[0]) }})
	}
	if len(b.subs) > 0 {
		warm := b.subs[0].As(b.root)
		all = append(all,
			measure{Row: "first 100 sub-organizations", Do: func() error {
				return deployment.Search(b.root, "", "", object{"limit": "100"}, func(ids []string) bool { return len(ids) == 100 })
			}},
			measure{Row: "look-up by name", Do: b.found("NAME", (*sub).Name, b.any)},
			measure{Row: "look-up by e-mail", Do: b.found("EMAIL", (*sub).Email, b.any)},
			measure{Row: "look-up by user name", Do: b.found("USERNAME", func(s *sub) string { return s.User }, b.any)},
			measure{Row: "look-up by public key", Do: b.found("PUBLIC_KEY", func(s *sub) string { return s.Key().Public() }, b.any)},
			measure{Row: "look-up by address", Do: b.found("WALLET_ACCOUNT_ADDRESS", func(s *sub) string { return s.Address }, b.walletOwner)},
			measure{Row: "look-up of what nobody has", Do: func() error {
				return deployment.Search(b.root, "NAME", "nobody", object{"limit": "10"}, func(ids []string) bool { return len(ids) == 0 })
			}},
			measure{Row: "newest 100 activities of the parent", Do: b.list(b.root, hundred, 100)},
			measure{Row: "newest 100 activities of the parent, of a rare type", Do: b.list(b.root, object{"filterByType": []string{"ACTIVITY_TYPE_CREATE_WALLET_ACCOUNTS"}, "paginationOptions": object{"limit": "100"}}, 1)},
			measure{Row: "newest 100 activities of one sub-organization", Do: b.list(warm, hundred, 0)},
			measure{Row: "signature in one sub-organization", Do: func() error { return b.subs[0].Sign(b.root) }},
			measure{Row: "signature in any sub-organization", Do: func() error { return b.walletOwner().Sign(b.root) }})
	}
	for _, m := range all {
		reps := b.reps
		if strings.Contains(m.Row, "100") {
			reps /= 3 // these are large
		}
		if err := b.Median(reps, m); err != nil {
			return err
		}
	}
	return b.memory("after use")
}

func (b *bench) memory(when string) error {
	now, _, err := deployment.Resident(b.enclave.pid())
	if err != nil {
		return err
	}
	b.Put("enclave, resident, "+when, "%.0f MiB", now)
	b.Put("enclave, live heap, "+when, "%s MiB", b.enclave.live())
	if b.enclave.host == nil {
		return nil
	}
	if now, _, err = deployment.Resident(b.enclave.host.pid()); err != nil {
		return err
	}
	b.Put("host, resident, "+when, "%.0f MiB", now)
	counters, err := deployment.Counters(b.over, b.root.URL)
	if err != nil {
		return err
	}
	for _, name := range []string{"organizations_open", "organizations_open_bytes", "tips"} {
		b.Put("enclave, "+name+", "+when, "%d", counters[name])
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
			if err := deployment.Sign(b.root, b.accounts[len(b.accounts)/2]); err != nil {
				return err
			}
			signed = append(signed, time.Since(begun))
		}
		if i < 4 {
			e.end()
		}
	}
	slices.Sort(times)
	b.Put("start until ready (median of 5)", "%.2f s", times[2].Seconds())
	if len(signed) > 0 {
		slices.Sort(signed)
		b.Put("start until a signature of the parent", "%.2f s", signed[2].Seconds())
	}
	if err := b.memory("after start"); err != nil {
		return err
	}
	if len(b.subs) > 0 {
		seen := map[int]bool{}
		return b.Median(min(b.reps, len(b.subs)/withWallet/2), deployment.Measure{Row: "signature in a cold sub-organization", Do: func() error {
			s := b.walletOwner()
			for seen[s.Number] {
				s = b.walletOwner()
			}
			seen[s.Number] = true
			return s.Sign(b.root)
		}})
	}
	return nil
}

// measure fills a column. With start the enclave is started anew: it reads the log, and has opened nothing.
func (b *bench) measure(what string, start bool) error {
	b.Column(what)
	b.Put("activities in all", "%d", b.activities.Load())
	b.Put("database", "%.2f GiB", float64(size(b.database))/(1<<30))
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
	b.Print()
	return b.attach()
}

func (b *bench) attach() (err error) {
	b.root.HTTP, err = b.enclave.attach(context.Background())
	return err
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
	b := &bench{over: deployment.Over(8)}
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
	through, err := b.enclave.attach(context.Background())
	if err != nil {
		return err
	}
	if err := b.enclave.boot(context.Background()); err != nil {
		return err
	}
	if b.root, err = deployment.Root(b.data, through); err != nil {
		return err
	}
	if err := b.recall(); err != nil {
		return err
	}
	defer b.made.Close()
	return b.steps(*accounts, *subs, *activities)
}

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

func main() { deployment.Main("large", run) }
