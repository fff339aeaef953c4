package ranges_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/attestation/request"
	"cloister/shared/clocktest"
	"cloister/sim/laptop"
)

var (
	flagRounds  = flag.Int("rounds", 1, "how often each of the four is killed; from 2 on also both enclaves at once")
	flagMeasure = flag.Duration("measure", time.Second, "how long to measure throughput with one enclave and with two")
)

// A client makes one organization's activities, one after the other, at whichever host
// answers.
type client struct {
	d       *deployment
	o       laptop.Organization
	at      int // host
	http    *http.Client
	made    []string // names acknowledged
	slowest time.Duration
	last    atomic.Int64 // when the newest acknowledged request was sent, ns

}

func newClient(d *deployment, o laptop.Organization, at int) *client {
	return &client{d: d, o: o, at: at, http: &http.Client{Timeout: 40 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 2}}}
}

// post sends a body, as often as it takes to get an answer that is final.
func (c *client) post(ctx context.Context, path string, body []byte) ([]byte, error) {
	key, err := request.ParseKey(c.o.RootAPIKey.PrivateKey)
	if err != nil {
		return nil, err
	}
	for {
		api := &request.API{URL: "http://" + c.d.apis[c.at], Key: key, HTTP: c.http}
		status, text, err := api.Post(ctx, path, body)
		switch {
		case err == nil && status == http.StatusOK:
			return text, nil
		case err == nil && status < 500:
			return nil, fmt.Errorf("%d %s", status, text)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		if c.d.apis[1] != "" {
			c.at = 1 - c.at
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (c *client) body(fill map[string]any) []byte {
	fill["organizationId"] = c.o.OrganizationID
	b, err := json.Marshal(fill)
	if err != nil {
		panic(err)
	}
	return b
}

// tag makes an activity of which its name tells.
func (c *client) tag(ctx context.Context, n int) error {
	name := fmt.Sprintf("tag %d", n)
	at := time.Now()
	text, err := c.post(ctx, "/public/v1/submit/create_user_tag", c.body(map[string]any{"type": "ACTIVITY_TYPE_CREATE_USER_TAG",
		"timestampMs": strconv.FormatInt(at.UnixMilli(), 10), "parameters": map[string]any{"userTagName": name, "userIds": []string{}}}))
	if err != nil {
		return err
	}
	if !bytes.Contains(text, []byte("ACTIVITY_STATUS_COMPLETED")) {
		return fmt.Errorf("%s", text)
	}
	c.made, c.slowest = append(c.made, name), max(c.slowest, time.Since(at))
	c.last.Store(at.UnixNano())
	return nil
}

// check holds what the organization has against what was acknowledged.
func (c *client) check() (activities int) {
	t := c.d.t
	ctx, cancel := context.WithTimeout(t.Context(), clocktest.Patience)
	defer cancel()
	text, err := c.post(ctx, "/public/v1/query/list_user_tags", c.body(map[string]any{}))
	if err != nil {
		t.Fatal(err)
	}
	var tags struct{ UserTags []struct{ TagName string } }
	if err := json.Unmarshal(text, &tags); err != nil {
		t.Fatal(err)
	}
	there := map[string]int{}
	for _, x := range tags.UserTags {
		there[x.TagName]++
	}
	for _, name := range c.made {
		if there[name] != 1 {
			t.Errorf("%s: %q is there %d times", c.o.OrganizationID, name, there[name])
		}
	}
	if len(there) != len(c.made) {
		t.Errorf("%s: %d tags, %d acknowledged", c.o.OrganizationID, len(there), len(c.made))
	}
	prints := map[string]bool{}
	for after := ""; ; {
		page := map[string]any{"limit": "100"}
		if after != "" {
			page["after"] = after
		}
		text, err := c.post(ctx, "/public/v1/query/list_activities", c.body(map[string]any{"paginationOptions": page}))
		if err != nil {
			t.Fatal(err)
		}
		var list struct {
			Activities []struct{ ID, Fingerprint string }
		}
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatal(err)
		}
		for _, a := range list.Activities {
			if prints[a.Fingerprint] {
				t.Errorf("%s: two activities of one body", c.o.OrganizationID)
			}
			prints[a.Fingerprint] = true
			after = a.ID
		}
		if activities += len(list.Activities); len(list.Activities) < 100 {
			break
		}
	}
	if activities != len(c.made) {
		t.Errorf("%s: %d activities, %d acknowledged", c.o.OrganizationID, activities, len(c.made))
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
	var clients []*client
	for i, o := range d.orgs {
		c := newClient(d, o, i%2)
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
			h.kill()
			t.Logf("host %d killed: everybody served after %v", i, served(at).Round(10*time.Millisecond))
			d.startHost(i)
			served(time.Now())
		}
		for i, e := range d.enclaves {
			at := time.Now()
			e.kill()
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
			e.kill()
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
				c := newClient(d, o, (i+k)%n)
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
			d.hosts[i].kill()
			d.enclaves[i].kill()
		}
	}
}

func (c *client) key(ctx context.Context) (string, error) {
	text, err := c.post(ctx, "/public/v1/submit/create_private_keys", c.body(map[string]any{"type": "ACTIVITY_TYPE_CREATE_PRIVATE_KEYS_V2", "timestampMs": strconv.FormatInt(time.Now().UnixMilli(), 10),
		"parameters": map[string]any{"privateKeys": []any{map[string]any{"privateKeyName": fmt.Sprint(time.Now().UnixNano()), "curve": "CURVE_SECP256K1", "privateKeyTags": []string{}, "addressFormats": []string{}}}}}))
	if err != nil {
		return "", err
	}
	var r struct {
		Activity struct {
			Result struct {
				CreatePrivateKeysResultV2 struct {
					PrivateKeys []struct{ PrivateKeyID string }
				}
			}
		}
	}
	if err := json.Unmarshal(text, &r); err != nil || len(r.Activity.Result.CreatePrivateKeysResultV2.PrivateKeys) != 1 {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	return r.Activity.Result.CreatePrivateKeysResultV2.PrivateKeys[0].PrivateKeyID, nil
}

func (c *client) sign(ctx context.Context, key, payload string) error {
	_, err := c.post(ctx, "/public/v1/submit/sign_raw_payload", c.body(map[string]any{"type": "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", "timestampMs": strconv.FormatInt(time.Now().UnixMilli(), 10),
		"parameters": map[string]any{"signWith": key, "payload": payload, "encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": "HASH_FUNCTION_SHA256"}}))
	return err
}
