package crash_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/attestation/tlog"
	"cloister/shared/porttest"
	"cloister/sim/client"
)

// shorter makes alerts come within seconds that are to come within minutes. What they look at stays as it is.
var shorter = []struct {
	rule *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`(?m)^( +for: ).*$`), "${1}0s"},
	{regexp.MustCompile(`\[2m\]`), "[8s]"},
	{regexp.MustCompile(`(cloister_witness_owing_seconds\) > )300`), "${1}3"},
}

// watcher is a Prometheus that reads the host's metrics and the deployment's own rules.
type watcher struct {
	t   *testing.T
	url string
}

func watch(t *testing.T, w *world) *watcher {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		if os.Getenv("CLOISTER_TEST_REQUIRE") == "all" {
			t.Fatal(err)
		}
		t.Skip("prometheus: apt-get download prometheus, and its usr/bin/prometheus into the PATH")
	}
	rules, err := os.ReadFile("../../scripts/deploy/prometheus/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range shorter {
		if !s.rule.Match(rules) {
			t.Fatalf("no rule has %s", s.rule)
		}
		rules = s.rule.ReplaceAll(rules, []byte(s.by))
	}
	dir, address := t.TempDir(), porttest.Address(t)
	config := fmt.Sprintf("global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}\nrule_files: [rules.yaml]\nscrape_configs:\n  - job_name: cloister\n    static_configs: [{targets: [%q]}]\n",
		strings.TrimPrefix(w.api, "http://"))
	for name, text := range map[string]string{"rules.yaml": string(rules), "prometheus.yaml": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.launch("prometheus", program, "--config.file="+filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path="+filepath.Join(dir, "tsdb"),
		"--web.listen-address="+address, "--log.level=warn")
	return &watcher{t, "http://" + address}
}

// alerts are those that fire, by name and witness.
func (a *watcher) alerts() (all []string, err error) {
	r, err := http.Get(a.url + "/api/v1/alerts")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	var got struct {
		Data struct {
			Alerts []struct{ Labels map[string]string }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
		return nil, err
	}
	for _, one := range got.Data.Alerts {
		all = append(all, strings.TrimSpace(one.Labels["alertname"]+" "+one.Labels["witness"]))
	}
	return all, nil
}

// until waits until those of these alerts fire that should, and the others do not.
func (a *watcher) until(what string, fire ...string) {
	a.t.Helper()
	began := time.Now()
	for {
		all, err := a.alerts()
		all = slices.DeleteFunc(all, func(name string) bool {
			return !strings.HasPrefix(name, "CloisterWitness") && !strings.HasPrefix(name, "CloisterLog") && !strings.HasPrefix(name, "CloisterStoreBehind")
		})
		slices.Sort(all)
		if err == nil && slices.Equal(all, fire) {
			a.t.Logf("counted: %s: %q after %v", what, fire, time.Since(began).Round(100*time.Millisecond))
			return
		}
		if time.Since(began) > 3*time.Minute {
			a.t.Fatalf("%s: want %q; %q, %v", what, fire, all, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// TestWitnessesNamed has witnesses die one after the other: the rules of the deployment name who is away, and say that there is
// no quorum.
func TestWitnessesNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: alerts about witnesses, by Prometheus")
	}
	w := newWorld(t, setting{programs: build(t, ""), lease: shortLease, witnesses: newSeats(t, tlog.ModeStrict)})
	a := watch(t, w)
	stop := make(chan struct{})
	var load sync.WaitGroup
	load.Go(func() { // somebody always asks, and gets a 503 where nothing can be answered
		root := w.root(3 * time.Second)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
			_, _ = root.Submit(context.Background(), "UPDATE_USER_NAME", client.Object{"userId": root.User, "userName": fmt.Sprint("Root ", n)})
		}
	})
	defer load.Wait()
	defer close(stop)
	a.until("all are there")
	w.kill(killWitness1)
	a.until("one is killed", "CloisterWitnessLags crash-1")
	w.kill(killWitness2)
	a.until("two are killed", "CloisterLogWithoutQuorum", "CloisterWitnessLags crash-1", "CloisterWitnessLags crash-2")
	if err := w.recover(); err != nil {
		t.Fatal(err)
	}
	a.until("both are back")
}
