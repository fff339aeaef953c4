// Command touched asks whoami once in each organization that a simulator was
// made with, and tells what that does to the enclave's memory.
//
//	go run ./scripts/load/touched -data DIR [-c 16] [-state BYTES] [-steps 5]
//
// DIR is the simulator's data directory, with organizations.json. It fails when
// an answer is not the organization's own, or when what the enclave counts as
// opened is above BYTES whenever it is looked at.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cloister/attestation/request"
)

type organization struct {
	OrganizationID, RootUserID string
	RootAPIKey                 request.KeyPair
}

type bench struct {
	url     string
	enclave string // process id
	http    *http.Client
	orgs    []organization
	clients int
}

func open(data string, clients int) (*bench, error) {
	b := &bench{clients: clients, http: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 2 * clients}}}
	var cred struct{ APIURL string }
	for name, into := range map[string]any{"credentials.json": &cred, "organizations.json": &b.orgs} {
		text, err := os.ReadFile(filepath.Join(data, name))
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, into); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	b.url = cred.APIURL
	pids, err := os.ReadFile(filepath.Join(data, "pids"))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(pids)) {
		if id, ok := strings.CutSuffix(strings.TrimSpace(line), " enclave"); ok {
			b.enclave = id
		}
	}
	if b.enclave == "" || len(b.orgs) == 0 {
		return nil, errors.New("no enclave or no organizations in " + data)
	}
	return b, nil
}

// touch asks whoami as the organization's root user and holds the answer against
// who that is.
func (b *bench) touch(o *organization) error {
	key, err := request.ParseKey(o.RootAPIKey.PrivateKey)
	if err != nil {
		return err
	}
	api := &request.API{URL: b.url, OrganizationID: o.OrganizationID, Key: key, HTTP: b.http}
	var r struct{ OrganizationID, UserID string }
	if err := api.Query(context.Background(), "whoami", nil, &r); err != nil || r.OrganizationID != o.OrganizationID || r.UserID != o.RootUserID {
		return fmt.Errorf("organization %s answers %+v, %w", o.OrganizationID, r, err)
	}
	return nil
}

func (b *bench) answer(req *http.Request) ([]byte, error) {
	r, err := b.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %.300s", req.URL.Path, r.Status, text)
	}
	return text, err
}

// stale is how long the host may show what it has asked the enclave before.
const stale = time.Second

// counters are the enclave's own, as the host's metrics show them.
func (b *bench) counters() (map[string]int64, error) {
	time.Sleep(stale)
	req, err := http.NewRequest(http.MethodGet, b.url+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	text, err := b.answer(req)
	if err != nil {
		return nil, err
	}
	m := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), `cloister_enclave_counter{counter="`)
		name, value, cut := strings.Cut(rest, `",enclave="`)
		_, value, _ = strings.Cut(value, `"} `)
		if !ok || !cut {
			continue
		}
		f, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, err
		}
		m[name] = int64(f)
	}
	if _, ok := m["organizations_open_bytes"]; !ok {
		return nil, errors.New("the metrics say nothing of opened organizations")
	}
	return m, nil
}

// memory is the enclave's resident memory and the most that it ever was.
func (b *bench) memory() (now, peak int64, err error) {
	text, err := os.ReadFile("/proc/" + b.enclave + "/status")
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "VmRSS:" && f[0] != "VmHWM:" {
			continue
		}
		kib, bad := strconv.ParseInt(f[1], 10, 64)
		if err == nil {
			err = bad
		}
		if f[0] == "VmRSS:" {
			now = kib << 10
		} else {
			peak = kib << 10
		}
	}
	return now, peak, err
}

// sweep touches organizations, many at a time, and answers how long each took.
func (b *bench) sweep(orgs []organization) ([]time.Duration, error) {
	took := make([]time.Duration, len(orgs))
	var next atomic.Int64
	var wrong error
	var once sync.Once
	var all sync.WaitGroup
	for range b.clients {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(orgs); i = int(next.Add(1)) - 1 {
				begun := time.Now()
				if err := b.touch(&orgs[i]); err != nil {
					once.Do(func() { wrong = err })
					next.Add(int64(len(orgs)))
					return
				}
				took[i] = time.Since(begun)
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	return took, wrong
}

const mib = 1 << 20

// row tells how things stand and whether the opened ones keep to the limit.
func (b *bench) row(touched int, took []time.Duration, second float64, limit int64) (now, evicted int64, err error) {
	c, err := b.counters()
	if err != nil {
		return 0, 0, err
	}
	now, peak, err := b.memory()
	if err != nil {
		return 0, 0, err
	}
	speed := " | | "
	if n := len(took); n > 0 {
		speed = fmt.Sprintf("%.0f | %.2f | %.2f", float64(n)/second, took[n/2].Seconds()*1e3, took[n*99/100].Seconds()*1e3)
	}
	fmt.Printf("| %d | %.0f MiB | %.0f MiB | %.1f MiB | %d | %d | %s |\n", touched, float64(now)/mib, float64(peak)/mib, float64(c["organizations_open_bytes"])/mib,
		c["organizations_open"], c["organization_evictions"], speed)
	if limit > 0 && c["organizations_open_bytes"] > limit {
		err = fmt.Errorf("%d bytes of opened organizations, allowed are %d", c["organizations_open_bytes"], limit)
	}
	return now, c["organization_evictions"], err
}

func run() error {
	data := flag.String("data", "", "data `directory` of the simulator")
	clients := flag.Int("c", 16, "clients")
	limit := flag.Int64("state", 0, "`bytes` of opened organizations that the enclave was given; 0: not checked")
	steps := flag.Int("steps", 5, "how many rows on the way")
	flag.Parse()
	if *clients < 1 || *steps < 1 {
		return errors.New("want clients and steps")
	}
	b, err := open(*data, *clients)
	if err != nil {
		return err
	}
	fmt.Print("| organizations touched | enclave's memory | its peak | opened | organizations opened | evicted | touches/s | p50 ms | p99 ms |\n|---|---|---|---|---|---|---|---|---|\n")
	if _, _, err := b.row(0, nil, 0, *limit); err != nil {
		return err
	}
	var full int64 // memory when the first had been evicted
	var now, evicted int64
	done := 0
	for i := 1; i <= *steps; i++ {
		to := len(b.orgs) * i / *steps
		begun := time.Now()
		took, err := b.sweep(b.orgs[done:to])
		if err != nil {
			return err
		}
		done = to
		if now, evicted, err = b.row(done, took, time.Since(begun).Seconds(), *limit); err != nil {
			return err
		}
		if full == 0 && evicted > 0 {
			full = now
		}
	}
	if full == 0 {
		fmt.Println("\nnothing had to go: the limit is above what was touched")
		return nil
	}
	fmt.Printf("\nmemory from the first eviction on: %+.0f %%\n", 100*(float64(now)/float64(full)-1))
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "touched:", err)
		os.Exit(1)
	}
}
