// Command suborgs makes sub-organizations under the organization of a running simulator, many at a time, and measures at
// each size what it costs to find one and to use one. It checks that a walk over all pages shows each once, and that each
// search finds the one that it is for.
//
//	go run ./scripts/load/suborgs -data DIR [-sizes 1000,10000,100000] [-c 16] [-reps 200]
//
// DIR is the simulator's data directory.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	mrand "math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/attestation/request"
	"cloister/scripts/internal/deployment"
)

type (
	object = deployment.Object
	sub    = deployment.Sub
)

type bench struct {
	deployment.Table
	root    *request.API
	data    string
	subs    []*sub
	clients int
	reps    int
}

// shared is the user name that every second sub-organization has.
const shared = "Shared"

func (b *bench) grow(n int) error {
	from := len(b.subs)
	b.subs = append(b.subs, make([]*sub, n-from)...)
	begin := time.Now()
	err := deployment.Each(b.clients, "sub-organizations", from, n, func(i int) error {
		s := deployment.NewSub(i)
		if i%2 == 0 {
			s.User = shared
		}
		b.subs[i] = s
		return s.Make(b.root, true)
	})
	if err == nil && n > from {
		b.Put(fmt.Sprintf("make one, %d clients (mean)", b.clients), "%.2f ms", time.Since(begin).Seconds()*1e3/float64(n-from))
	}
	return err
}

// walk reads all pages and answers the ids in their order.
func (b *bench) walk() (all []string, err error) {
	page := object{"limit": "100"}
	begin, pages := time.Now(), 0
	for more := true; more; pages++ {
		err := deployment.Search(b.root, "", "", page, func(ids []string) bool {
			all, more = append(all, ids...), len(ids) == 100 && len(all) < len(b.subs)
			return true
		})
		if err != nil {
			return nil, err
		}
		page["after"] = all[len(all)-1]
	}
	b.Put("page of 100 in a walk over all (mean)", "%.2f ms", time.Since(begin).Seconds()*1e3/float64(pages))
	made := make([]string, len(b.subs))
	for i, s := range b.subs {
		made[i] = s.ID
	}
	listed := slices.Sorted(slices.Values(all))
	if slices.Sort(made); !slices.Equal(listed, made) {
		return nil, fmt.Errorf("%d listed, %d made, or not the same ones", len(listed), len(made))
	}
	return all, nil
}

func (b *bench) any() *sub { return b.subs[mrand.IntN(len(b.subs))] }

// odd is one whose user's name is its own.
func (b *bench) odd() *sub { return b.subs[mrand.IntN(len(b.subs)/2)*2+1] }

// finds is a search of which one must be the only result.
func (b *bench) finds(kind string, value func(*sub) string, of func() *sub) func() error {
	return func() error {
		s := of()
		return deployment.Search(b.root, kind, value(s), object{"limit": "10"}, func(ids []string) bool { return slices.Equal(ids, []string{s.ID}) })
	}
}

func (b *bench) page(want int, page object, kind, value string) func() error {
	return func() error {
		return deployment.Search(b.root, kind, value, page, func(ids []string) bool { return len(ids) == want })
	}
}

func (b *bench) whoami() error {
	s := b.any()
	var who struct{ OrganizationID string }
	err := s.As(b.root).Query(context.Background(), "whoami", object{"organizationId": b.root.OrganizationID}, &who)
	if err == nil && who.OrganizationID != s.ID {
		err = fmt.Errorf("whoami says %s, not %s", who.OrganizationID, s.ID)
	}
	return err
}

// measure fills a column.
func (b *bench) measure() error {
	all, err := b.walk()
	if err != nil {
		return err
	}
	n := len(all)
	for _, m := range []deployment.Measure{
		{Row: "list_suborgs, first page of 100", Do: b.page(min(100, n), object{"limit": "100"}, "", "")},
		{Row: "list_suborgs, last page of 100", Do: b.page(min(100, n-1), object{"limit": "100", "after": all[max(n-101, 0)]}, "", "")},
		{Row: "list_suborgs, the 100 above the last", Do: b.page(min(100, n-1), object{"limit": "100", "before": all[n-1]}, "", "")},
		{Row: "by name", Do: b.finds("NAME", (*sub).Name, b.any)},
		{Row: "by e-mail", Do: b.finds("EMAIL", (*sub).Email, b.any)},
		{Row: "by public key", Do: b.finds("PUBLIC_KEY", func(s *sub) string { return s.Key().Public() }, b.any)},
		{Row: "by user name", Do: b.finds("USERNAME", func(s *sub) string { return s.User }, b.odd)},
		{Row: "by address", Do: b.finds("WALLET_ACCOUNT_ADDRESS", func(s *sub) string { return s.Address }, b.any)},
		{Row: "by a user name that half have, 10 of them", Do: b.page(min(10, (n+1)/2), object{"limit": "10"}, "USERNAME", shared)},
		{Row: "by a user name that nobody has", Do: b.page(0, object{"limit": "10"}, "USERNAME", "Nobody")},
		{Row: "whoami by key, named with the parent", Do: b.whoami},
		{Row: "a signature in any of them", Do: func() error { return b.any().Sign(b.root) }},
		{Row: "a signature in one", Do: func() error { return b.subs[0].Sign(b.root) }},
	} {
		if err := b.Median(b.reps, m); err != nil {
			return err
		}
	}
	pids, err := deployment.Pids(b.data)
	if err != nil {
		return err
	}
	for _, name := range []string{"enclave", "host"} {
		now, _, err := deployment.Resident(pids[name])
		if err != nil {
			return err
		}
		b.Put("memory of the "+name, "%.0f MiB", now)
	}
	return nil
}

func run() (err error) {
	b := &bench{}
	flag.StringVar(&b.data, "data", "", "the simulator's data directory")
	sizes := flag.String("sizes", "1000", "how many sub-organizations to measure with, rising, with commas between")
	flag.IntVar(&b.clients, "c", 16, "requests under way while sub-organizations are made")
	flag.IntVar(&b.reps, "reps", 200, "requests for each median")
	flag.Parse()
	if b.data == "" || b.clients < 1 || b.reps < 1 || flag.NArg() > 0 {
		return errors.New("want -data DIR and numbers above 0 (see -help)")
	}
	if b.root, err = deployment.Root(b.data, deployment.Over(b.clients)); err != nil {
		return err
	}
	defer b.Print()
	for text := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 2 || n < len(b.subs) {
			return fmt.Errorf("size %q: want rising numbers above 1", text)
		}
		b.Column(text + " sub-organizations")
		if err = b.grow(n); err == nil {
			err = b.measure()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func main() { deployment.Main("suborgs", run) }
