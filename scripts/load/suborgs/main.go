// Command suborgs makes sub-organizations under the organization of a running
// simulator, many at a time, and measures at each size what it costs to find one
// and to use one.
//
//	go run ./scripts/load/suborgs -data DIR [-sizes 1000,10000,100000] [-c 16] [-reps 200]
//
// DIR is the simulator's data directory. What it counts it also checks: a walk
// over all pages must show every sub-organization made, once, and each search
// the one that it is for.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"cloister/attestation/request"
)

type credentials struct {
	APIURL, OrganizationID string
	RootAPIKey             request.KeyPair
}

// sub is one sub-organization made.
type sub struct {
	id, name, user, email, address string
	as                             *request.API
}

// bench is a run against one simulator.
type bench struct {
	cred    credentials
	root    *request.API
	http    *http.Client
	data    string
	subs    []*sub
	clients int
	reps    int
	columns []string
	rows    []string // in the order of their first measure
	cells   map[string]map[string]string
}

func open(data string, clients, reps int) (*bench, error) {
	text, err := os.ReadFile(filepath.Join(data, "credentials.json"))
	if err != nil {
		return nil, err
	}
	b := &bench{data: data, clients: clients, reps: reps, cells: map[string]map[string]string{},
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * clients}}}
	if err := json.Unmarshal(text, &b.cred); err != nil {
		return nil, err
	}
	b.root, err = b.as(b.cred.OrganizationID, b.cred.RootAPIKey)
	return b, err
}

// as is the interface as a key of an organization uses it.
func (b *bench) as(organization string, pair request.KeyPair) (*request.API, error) {
	key, err := request.ParseKey(pair.PrivateKey)
	return &request.API{URL: b.cred.APIURL, OrganizationID: organization, Key: key, HTTP: b.http}, err
}

type object = map[string]any

// do submits an activity and gives its result.
func do(as *request.API, typ string, parameters, result any) error {
	a, err := as.Submit(context.Background(), typ, parameters)
	if err != nil {
		return err
	}
	return a.Into(result)
}

// shared is the user name that every second sub-organization has.
const shared = "Shared"

func (b *bench) make(n int) (*sub, error) {
	k, err := request.NewKeyPair(rand.Reader)
	if err != nil {
		return nil, err
	}
	s := &sub{name: fmt.Sprintf("sub-%d", n), user: shared, email: fmt.Sprintf("user-%d@example.org", n)}
	if n%2 == 1 {
		s.user = fmt.Sprintf("user-%d", n)
	}
	var made struct {
		SubOrganizationID string
		Wallet            struct{ Addresses []string }
	}
	err = do(b.root, "ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V7", object{
		"subOrganizationName": s.name, "rootQuorumThreshold": 1,
		"rootUsers": []any{object{"userName": s.user, "userEmail": s.email, "authenticators": []any{}, "oauthProviders": []any{},
			"apiKeys": []any{object{"apiKeyName": "Key", "publicKey": k.PublicKey, "curveType": "API_KEY_CURVE_P256"}}}},
		"wallet": object{"walletName": "First", "accounts": []any{object{"curve": "CURVE_SECP256K1", "pathFormat": "PATH_FORMAT_BIP32",
			"path": "m/44'/60'/0'/0/0", "addressFormat": "ADDRESS_FORMAT_ETHEREUM"}}},
	}, &made)
	if err == nil && (made.SubOrganizationID == "" || len(made.Wallet.Addresses) != 1) {
		err = errors.New("create_sub_organization made nothing")
	}
	if err != nil {
		return nil, err
	}
	s.id, s.address = made.SubOrganizationID, made.Wallet.Addresses[0]
	s.as, err = b.as(s.id, k)
	return s, err
}

// grow makes sub-organizations until there are n.
func (b *bench) grow(n int) error {
	var next atomic.Int64
	next.Store(int64(len(b.subs)))
	from := len(b.subs)
	b.subs = append(b.subs, make([]*sub, n-from)...)
	var mu sync.Mutex
	var first error
	var wg sync.WaitGroup
	begin := time.Now()
	for range b.clients {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				s, err := b.make(i)
				if err != nil {
					mu.Lock()
					if first == nil {
						first = err
					}
					mu.Unlock()
					return
				}
				b.subs[i] = s
				if (i+1)%10_000 == 0 {
					fmt.Fprintf(os.Stderr, "%d made\n", i+1)
				}
			}
		})
	}
	wg.Wait()
	if first == nil && n > from {
		b.put("make one, "+strconv.Itoa(b.clients)+" clients (mean)", time.Since(begin)/time.Duration(n-from))
	}
	return first
}

type found struct{ OrganizationIDs []string }

func (b *bench) search(kind, value string, page object) ([]string, error) {
	q := object{"paginationOptions": page}
	if kind != "" {
		q["filterType"], q["filterValue"] = kind, value
	}
	var f found
	err := b.root.Query(context.Background(), "list_suborgs", q, &f)
	return f.OrganizationIDs, err
}

// walk reads all pages and answers the ids in their order.
func (b *bench) walk() ([]string, error) {
	var all []string
	page := object{"limit": "100"}
	seen := map[string]bool{}
	begin, pages := time.Now(), 0
	for {
		ids, err := b.search("", "", page)
		if err != nil {
			return nil, err
		}
		pages++
		for _, id := range ids {
			if seen[id] {
				return nil, errors.New("a sub-organization is listed twice")
			}
			seen[id] = true
		}
		if all = append(all, ids...); len(ids) < 100 {
			break
		}
		page["after"] = ids[99]
	}
	for _, s := range b.subs {
		if !seen[s.id] {
			return nil, fmt.Errorf("%s is not listed", s.id)
		}
	}
	if len(all) != len(b.subs) {
		return nil, fmt.Errorf("%d listed, %d made", len(all), len(b.subs))
	}
	b.put("page of 100 in a walk over all (mean)", time.Since(begin)/time.Duration(pages))
	return all, nil
}

func (b *bench) put(row string, v any) {
	text := fmt.Sprint(v)
	if d, ok := v.(time.Duration); ok {
		text = fmt.Sprintf("%.2f ms", float64(d)/1e6)
	}
	if b.cells[row] == nil {
		b.cells[row] = map[string]string{}
		b.rows = append(b.rows, row)
	}
	b.cells[row][b.columns[len(b.columns)-1]] = text
}

// p50 measures one thing, one request behind the other.
func (b *bench) p50(row string, do func(s *sub) error) error {
	times := make([]time.Duration, b.reps)
	for i := range times {
		s := b.subs[mrand.IntN(len(b.subs))]
		begin := time.Now()
		if err := do(s); err != nil {
			return fmt.Errorf("%s: %w", row, err)
		}
		times[i] = time.Since(begin)
	}
	slices.Sort(times)
	b.put(row, times[len(times)/2])
	return nil
}

// finds is a search of which s must be the one result.
func (b *bench) finds(kind string, value func(*sub) string) func(*sub) error {
	return func(s *sub) error {
		ids, err := b.search(kind, value(s), object{"limit": "10"})
		if err == nil && !slices.Equal(ids, []string{s.id}) {
			err = fmt.Errorf("%s %q finds %v, not %s", kind, value(s), ids, s.id)
		}
		return err
	}
}

func (b *bench) page(want int, page object, kind, value string) func(*sub) error {
	return func(*sub) error {
		ids, err := b.search(kind, value, page)
		if err == nil && len(ids) != want {
			err = fmt.Errorf("%d sub-organizations, want %d", len(ids), want)
		}
		return err
	}
}

// odd is a sub-organization whose user's name is its own.
func (b *bench) odd(do func(*sub) error) func(*sub) error {
	return func(s *sub) error {
		for s.user == shared {
			s = b.subs[mrand.IntN(len(b.subs))]
		}
		return do(s)
	}
}

func (b *bench) whoami(s *sub) error {
	var who struct{ OrganizationID string }
	err := s.as.Query(context.Background(), "whoami", object{"organizationId": b.cred.OrganizationID}, &who)
	if err == nil && who.OrganizationID != s.id {
		err = fmt.Errorf("whoami says %s, not %s", who.OrganizationID, s.id)
	}
	return err
}

func (b *bench) sign(s *sub) error {
	payload := make([]byte, 32)
	if _, err := rand.Read(payload); err != nil {
		return err
	}
	var made struct {
		R string `json:"r"`
	}
	err := do(s.as, "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", object{"signWith": s.address, "payload": hex.EncodeToString(payload),
		"encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": "HASH_FUNCTION_NO_OP"}, &made)
	if err == nil && made.R == "" {
		err = errors.New("no signature")
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
	hundred := func(more object) object {
		p := object{"limit": "100"}
		for k, v := range more {
			p[k] = v
		}
		return p
	}
	sharing := (n + 1) / 2
	for _, m := range []struct {
		row string
		do  func(*sub) error
	}{
		{"list_suborgs, first page of 100", b.page(min(100, n), hundred(nil), "", "")},
		{"list_suborgs, last page of 100", b.page(min(100, n-1), hundred(object{"after": all[max(n-101, 0)]}), "", "")},
		{"list_suborgs, the 100 above the last", b.page(min(100, n-1), hundred(object{"before": all[n-1]}), "", "")},
		{"by name", b.finds("NAME", func(s *sub) string { return s.name })},
		{"by e-mail", b.finds("EMAIL", func(s *sub) string { return s.email })},
		{"by public key", b.finds("PUBLIC_KEY", func(s *sub) string { return s.as.Key.Public() })},
		{"by user name", b.odd(b.finds("USERNAME", func(s *sub) string { return s.user }))},
		{"by address", b.finds("WALLET_ACCOUNT_ADDRESS", func(s *sub) string { return s.address })},
		{"by a user name that half have, 10 of them", b.page(min(10, sharing), object{"limit": "10"}, "USERNAME", shared)},
		{"by a user name that nobody has", b.page(0, object{"limit": "10"}, "USERNAME", "Nobody")},
		{"whoami by key, named with the parent", b.whoami},
		{"a signature in any of them", b.sign},
		{"a signature in one", func(*sub) error { return b.sign(b.subs[0]) }},
	} {
		if err := b.p50(m.row, m.do); err != nil {
			return err
		}
	}
	return b.memory()
}

// memory reads what the simulator's processes hold.
func (b *bench) memory() error {
	text, err := os.ReadFile(filepath.Join(b.data, "pids"))
	if err != nil {
		return err
	}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		pid, name, _ := strings.Cut(line, " ")
		if name == "sim" {
			continue
		}
		status, err := os.ReadFile("/proc/" + pid + "/status")
		if err != nil {
			return err
		}
		for _, l := range strings.Split(string(status), "\n") {
			if f := strings.Fields(l); len(f) > 1 && f[0] == "VmRSS:" {
				kib, err := strconv.Atoi(f[1])
				if err != nil {
					return err
				}
				b.put("memory of the "+name, fmt.Sprintf("%d MiB", kib>>10))
			}
		}
	}
	return nil
}

func (b *bench) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintf(t, "| sub-organizations\t| %s\t|\n", strings.Join(b.columns, "\t| "))
	fmt.Fprintf(t, "|---\t|%s\n", strings.Repeat("---\t|", len(b.columns)))
	for _, row := range b.rows {
		fmt.Fprintf(t, "| %s\t", row)
		for _, c := range b.columns {
			fmt.Fprintf(t, "| %s\t", b.cells[row][c])
		}
		fmt.Fprintln(t, "|")
	}
	return t.Flush()
}

func run() error {
	data := flag.String("data", "", "the simulator's data directory")
	sizes := flag.String("sizes", "1000", "how many sub-organizations to measure with, rising, with commas between")
	clients := flag.Int("c", 16, "requests under way while sub-organizations are made")
	reps := flag.Int("reps", 200, "requests for each median")
	flag.Parse()
	if *data == "" || *clients < 1 || *reps < 1 || flag.NArg() > 0 {
		return errors.New("want -data DIR and numbers above 0 (see -help)")
	}
	b, err := open(*data, *clients, *reps)
	if err != nil {
		return err
	}
	for _, text := range strings.Split(*sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 2 || n < len(b.subs) {
			return fmt.Errorf("size %q: want rising numbers above 1", text)
		}
		b.columns = append(b.columns, text)
		if err = b.grow(n); err == nil {
			err = b.measure()
		}
		if err != nil {
			return errors.Join(err, b.print(os.Stdout))
		}
	}
	return b.print(os.Stdout)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "suborgs:", err)
		os.Exit(1)
	}
}
