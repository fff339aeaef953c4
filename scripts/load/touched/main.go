// Command touched asks whoami once in each organization that a simulator was made with, and tells what that does to the
// enclave's memory.
//
//	go run ./scripts/load/touched -data DIR [-c 16] [-state BYTES] [-steps 5]
//
// DIR is the simulator's data directory, with organizations.json. It fails when an answer is not the organization's own, or
// when what the enclave counts as opened is above BYTES.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	"cloister/attestation/request"
	"cloister/scripts/internal/deployment"
)

type organization struct {
	OrganizationID, RootUserID string
	RootAPIKey                 request.KeyPair
}

type bench struct {
	root    *request.API
	enclave int // process id
	orgs    []organization
	clients int
	limit   int64
}

func open(data string, clients int, limit int64) (b *bench, err error) {
	b = &bench{clients: clients, limit: limit}
	if b.root, err = deployment.Root(data, deployment.Over(clients)); err != nil {
		return nil, err
	}
	if err = deployment.Read(data, "organizations.json", &b.orgs); err != nil {
		return nil, err
	}
	pids, err := deployment.Pids(data)
	if b.enclave = pids["enclave"]; err == nil && (b.enclave == 0 || len(b.orgs) == 0) {
		err = errors.New("no enclave or no organizations in " + data)
	}
	return b, err
}

// touch asks whoami as the organization's root user and holds the answer against who that is.
func (b *bench) touch(o *organization) error {
	key, err := request.ParseKey(o.RootAPIKey.PrivateKey)
	if err != nil {
		return err
	}
	api := &request.API{URL: b.root.URL, OrganizationID: o.OrganizationID, Key: key, HTTP: b.root.HTTP}
	var r struct{ OrganizationID, UserID string }
	if err := api.Query(context.Background(), "whoami", nil, &r); err != nil || r.OrganizationID != o.OrganizationID || r.UserID != o.RootUserID {
		return fmt.Errorf("organization %s answers %+v, %w", o.OrganizationID, r, err)
	}
	return nil
}

// sweep touches organizations, many at a time, and answers how long each took.
func (b *bench) sweep(orgs []organization) ([]time.Duration, error) {
	took := make([]time.Duration, len(orgs))
	err := deployment.Each(b.clients, "organization", 0, len(orgs), func(n int) error {
		begun := time.Now()
		err := b.touch(&orgs[n])
		took[n] = time.Since(begun)
		return err
	})
	slices.Sort(took)
	return took, err
}

// row tells how things stand and whether the opened ones keep to the limit.
func (b *bench) row(touched int, took []time.Duration, second float64) (now float64, evicted int64, err error) {
	c, err := deployment.Counters(b.root.HTTP, b.root.URL)
	if err != nil {
		return 0, 0, err
	}
	now, peak, err := deployment.Resident(b.enclave)
	if err != nil {
		return 0, 0, err
	}
	speed := " | | "
	if n := len(took); n > 0 {
		speed = fmt.Sprintf("%.0f | %.2f | %.2f", float64(n)/second, took[n/2].Seconds()*1e3, took[n*99/100].Seconds()*1e3)
	}
	opened := c["organizations_open_bytes"]
	fmt.Printf("| %d | %.0f MiB | %.0f MiB | %.1f MiB | %d | %d | %s |\n", touched, now, peak, float64(opened)/(1<<20),
		c["organizations_open"], c["organization_evictions"], speed)
	if b.limit > 0 && opened > b.limit {
		err = fmt.Errorf("%d bytes of opened organizations, allowed are %d", opened, b.limit)
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
	b, err := open(*data, *clients, *limit)
	if err != nil {
		return err
	}
	fmt.Print("| organizations touched | enclave's memory | its peak | opened | organizations opened | evicted | touches/s | p50 ms | p99 ms |\n|---|---|---|---|---|---|---|---|---|\n")
	if _, _, err := b.row(0, nil, 0); err != nil {
		return err
	}
	var now, full float64 // full: when the first had been evicted
	var evicted int64
	done := 0
	for i := 1; i <= *steps; i++ {
		to := len(b.orgs) * i / *steps
		begun := time.Now()
		took, err := b.sweep(b.orgs[done:to])
		if err != nil {
			return err
		}
		done = to
		if now, evicted, err = b.row(done, took, time.Since(begun).Seconds()); err != nil {
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
	fmt.Printf("\nmemory from the first eviction on: %+.0f %%\n", 100*(now/full-1))
	return nil
}

func main() { deployment.Main("touched", run) }
