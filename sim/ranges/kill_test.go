package ranges_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/shared/clocktest"
	"cloister/sim/client"
	"cloister/sim/laptop"
)

var (
	flagRounds  = flag.Int("rounds", 1, "how often each of the four is killed; from 2 on also both enclaves at once")
	flagMeasure = flag.Duration("measure", time.Second, "how long to measure throughput with one enclave and with two")
)

// A worker makes one organization's activities, one after the other, at whichever host
// answers.
type worker struct {
	*client.Client
	d       *deployment
	at      int // host
	http    *http.Client
	made    []string // names acknowledged
	slowest time.Duration
	last    atomic.Int64 // when the newest acknowledged request was sent, ns
}

func newWorker(d *deployment, o laptop.Organization, at int) *worker {
	c := &worker{d: d, at: at, http: &http.Client{Timeout: 40 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 2}}}
	c.Client = &client.Client{Send: c.send, Times: &d.times, Organization: o.OrganizationID, Key: o.RootAPIKey}
	return c
}

// send sends a request, as often as it takes to get an answer that is final, which must be 200.
func (c *worker) send(ctx context.Context, q *client.Request) (client.Reply, error) {
	for {
		reply, err := client.HTTP(c.http, "http://"+c.d.apis[c.at])(ctx, q)
		switch {
		case err == nil && reply.Status == http.StatusOK:
			return reply, nil
		case err == nil && reply.Status < 500:
			return reply, errors.New(reply.String())
		case ctx.Err() != nil:
			return reply, ctx.Err()
		}
		if c.d.apis[1] != "" {
			c.at = 1 - c.at
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// tag makes an activity of which its name tells.
func (c *worker) tag(ctx context.Context, n int) error {
	name := fmt.Sprintf("tag %d", n)
	at := time.Now()
	if _, err := c.Do(ctx, "CREATE_USER_TAG", client.Tag(name)); err != nil {
		return err
	}
	c.made, c.slowest = append(c.made, name), max(c.slowest, time.Since(at))
	c.last.Store(at.UnixNano())
	return nil
}

// check holds what the organization has against what was acknowledged.
func (c *worker) check() (activities int) {
	t := c.d.t
	ctx, cancel := context.WithTimeout(t.Context(), clocktest.Patience)
	defer cancel()
	reply, err := c.Query(ctx, "list_user_tags", nil)
	if err != nil {
		t.Fatal(err)
	}
	var tags struct{ UserTags []struct{ TagName string } }
	if err := json.Unmarshal(reply.Body, &tags); err != nil {
		t.Fatal(err)
	}
	there := map[string]int{}
	for _, x := range tags.UserTags {
		there[x.TagName]++
	}
	for _, name := range c.made {
		if there[name] != 1 {
			t.Errorf("%s: %q is there %d times", c.Organization, name, there[name])
		}
	}
	if len(there) != len(c.made) {
		t.Errorf("%s: %d tags, %d acknowledged", c.Organization, len(there), len(c.made))
	}
	prints := map[string]bool{}
	for before := ""; ; {
		page := client.Object{"limit": "100"}
		if before != "" {
			page["before"] = before
		}
		reply, err := c.Query(ctx, "list_activities", client.Object{"paginationOptions": page})
		if err != nil {
			t.Fatal(err)
		}
		var list struct {
			Activities []struct{ ID, Fingerprint string }
		}
		if err := json.Unmarshal(reply.Body, &list); err != nil {
			t.Fatal(err)
		}
		for _, a := range list.Activities {
			if prints[a.Fingerprint] {
				t.Errorf("%s: two activities of one body", c.Organization)
			}
			prints[a.Fingerprint] = true
			before = a.ID
		}
		if activities += len(list.Activities); len(list.Activities) < 100 {
			break
		}
	}
	if activities != len(c.made) {
		t.Errorf("%s: %d activities, %d acknowledged", c.Organization, activities, len(c.made))
	}
	return activities
}

// TestKillAnyOne kills each of two enclaves and two hosts under load, and at the end
// has one enclave retire. Whatever was acknowledged is there, once, and everybody is
// served again.
func TestKillAnyOne(t *testing.T) {
	const ranges, organizations = 8, 16
	d := deploy(t, 2, ranges, organizations)
	t.Logf("shared out after %v", d.level(ranges).Round(10*time.Millisecond))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	var clients []*worker
	for i, o := range d.orgs {
		c := newWorker(d, o, i%2)
		clients = append(clients, c)
		running.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if err := c.tag(context.WithoutCancel(ctx), n); err != nil {
					t.Errorf("%s: %v", o.OrganizationID, err)
					return
				}
				time.Sleep(60 * time.Millisecond << (n / 100)) // an organization has room for 1,000 tags, however long this lasts
			}
		})
	}
	// served waits until everybody was answered who asked after a moment, and tells how
	// long the last had to wait.
	served := func(since time.Time) time.Duration {
		t.Helper()
		for {
			behind := 0
			for _, c := range clients {
				if c.last.Load() < since.UnixNano() {
					behind++
				}
			}
			if behind == 0 {
				return time.Since(since)
			}
			if time.Since(since) > clocktest.Patience || t.Failed() {
				t.Fatalf("%d of %d are not served", behind, len(clients))
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	served(time.Now())
	for range *flagRounds {
		for i, h := range d.hosts {
			at := time.Now()
			h.Kill()
			t.Logf("host %d killed: everybody served after %v", i, served(at).Round(10*time.Millisecond))
			d.startHost(i)
			served(time.Now())
		}
		for i, e := range d.enclaves {
			at := time.Now()
			e.Kill()
			took := served(at)
			d.startEnclave(i)
			d.join(i)
			t.Logf("enclave %d killed: everybody served after %v; it had its share again %v after its start", i, took.Round(10*time.Millisecond), d.level(ranges).Round(10*time.Millisecond))
			served(time.Now())
		}
		if *flagRounds == 1 {
			break
		}
		at := time.Now()
		for _, e := range d.enclaves {
			e.Kill()
		}
		for i := range d.enclaves {
			d.startEnclave(i)
			d.join(i)
		}
		t.Logf("both enclaves killed and started again: everybody served after %v", served(at).Round(10*time.Millisecond))
		d.level(ranges)
	}
	d.retire(0, ranges)
	served(time.Now())
	stop()
	running.Wait()
	all, slowest := 0, time.Duration(0)
	for _, c := range clients {
		all += c.check()
		slowest = max(slowest, c.slowest)
	}
	t.Logf("%d activities acknowledged, all there, each once; the slowest took %v", all, slowest.Round(10*time.Millisecond))
}

// TestThroughput measures signatures over the public interface with one enclave and
// host and with two of each.
func TestThroughput(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: throughput with one enclave and with two")
	}
	const ranges, organizations = 8, 16
	for n := 1; n <= 2; n++ {
		d := deploy(t, n, ranges, organizations)
		if n == 2 {
			d.level(ranges)
		}
		var wg, ready sync.WaitGroup
		var done atomic.Int64
		var from time.Time
		start := make(chan struct{})
		for i, o := range d.orgs {
			for k := range 2 {
				c := newWorker(d, o, (i+k)%n)
				ready.Add(1)
				wg.Go(func() {
					key, err := c.key(t.Context())
					ready.Done()
					if err != nil {
						t.Error(err)
						return
					}
					<-start
					for i := 0; time.Since(from) < *flagMeasure; i++ {
						if err := c.sign(t.Context(), key, fmt.Sprintf("%02x%08x", k, i)); err != nil {
							t.Error(err)
							return
						}
						done.Add(1)
					}
				})
			}
		}
		ready.Wait()
		from = time.Now()
		close(start)
		wg.Wait()
		t.Logf("%d enclaves, %d hosts: %.0f signatures/s", n, n, float64(done.Load())/time.Since(from).Seconds())
		for i := range n {
			d.hosts[i].Kill()
			d.enclaves[i].Kill()
		}
	}
}

func (c *worker) key(ctx context.Context) (string, error) {
	made, err := c.Do(ctx, "CREATE_PRIVATE_KEYS_V2", client.Object{"privateKeys": []any{client.Object{"privateKeyName": fmt.Sprint(time.Now().UnixNano()),
		"curve": "CURVE_SECP256K1", "privateKeyTags": []string{}, "addressFormats": []string{}}}})
	if keys, _ := made["privateKeys"].([]any); err != nil || len(keys) != 1 {
		return "", fmt.Errorf("%w: %v", err, made)
	}
	return client.Text(made, "privateKeys", "0", "privateKeyId"), nil
}

func (c *worker) sign(ctx context.Context, key, payload string) error {
	_, err := c.Do(ctx, "SIGN_RAW_PAYLOAD_V2", client.Payload(key, payload, "SHA256"))
	return err
}
