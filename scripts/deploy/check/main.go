// Command check holds the files of scripts/deploy against each other and against what the programs really have: manifests
// decode strictly into the types of Kubernetes' own API, every variable is a setting of the host, every metric that a rule
// or the dashboard names is one that a running host exports, every alert has a section of the runbook and a test that
// lets it fire and one that keeps it silent.
//
//	check -dir scripts/deploy -metrics scraped.txt -settings help.txt -queries queries.yaml
//
// Queries is written: the dashboard's queries as recording rules, for promtool to parse.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	dir := flag.String("dir", ".", "the folder scripts/deploy")
	metrics := flag.String("metrics", "", "file with what /metrics answered")
	settings := flag.String("settings", "", "file with what `cloister-host serve -help` printed")
	queries := flag.String("queries", "", "file to write the dashboard's queries to")
	flag.Parse()
	c := &check{dir: *dir}
	c.read(*metrics, *settings)
	c.rules()
	c.dashboard(*queries)
	c.manifests()
	c.environments()
	c.compose()
	if err := errors.Join(c.errs...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%d alerts, %d queries of the dashboard, %d metrics named and exported, %d manifests, %d settings named\n",
		c.alerts, c.panels, len(c.named), c.objects, len(c.used))
}

// A check is what one run has read and counted.
type check struct {
	dir      string
	exported map[string]bool // names of series
	known    map[string]bool // environment variables of the host
	named    map[string]bool // metrics that rules or dashboard name
	used     map[string]bool // variables that the files name

	alerts, panels, objects int
	errs                    []error
}

func (c *check) wrong(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

// file is a file of the folder, nil if it cannot be read, which is wrong.
func (c *check) file(name string) []byte { return c.text(filepath.Join(c.dir, name)) }

func (c *check) text(name string) []byte {
	text, err := os.ReadFile(name)
	if err != nil {
		c.wrong("%w", err)
	}
	return text
}

var (
	series   = regexp.MustCompile(`(?m)^([a-zA-Z_:][a-zA-Z0-9_:]*)[{ ]`)
	variable = regexp.MustCompile(`\bCLOISTER_[A-Z0-9_]+\b`)
	// Metrics begin with one of these; everything else of a query is a function, a label or a keyword.
	metric = regexp.MustCompile(`\b(?:cloister|process|go|up)(?:_[a-z0-9_]+)?\b`)
	// What stands in quotes, in by () and the like, or before a matcher's sign names no metric.
	quoted  = regexp.MustCompile(`"[^"]*"`)
	grouped = regexp.MustCompile(`\b(?:by|without|on|ignoring)\s*\([^)]*\)`)
	inside  = regexp.MustCompile(`\{[^}]*\}`)
)

// scraped are metrics that Prometheus makes of a scrape.
var scraped = []string{"up"}

func (c *check) read(metrics, settings string) {
	c.exported, c.known, c.named, c.used = map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, m := range series.FindAllSubmatch(c.text(metrics), -1) {
		c.exported[string(m[1])] = true
	}
	for _, name := range scraped {
		c.exported[name] = true
	}
	for _, m := range variable.FindAll(c.text(settings), -1) {
		c.known[string(m)] = true
	}
	if len(c.exported) < 20 || len(c.known) < 20 {
		c.wrong("%d metrics and %d settings: these are no files of a running host", len(c.exported), len(c.known))
	}
}

func (c *check) query(where, expr string) {
	bare := inside.ReplaceAllString(grouped.ReplaceAllString(quoted.ReplaceAllString(expr, ""), " "), " ")
	names := metric.FindAllString(bare, -1)
	if len(names) == 0 {
		c.wrong("%s: names no metric", where)
	}
	for _, name := range names {
		c.named[name] = true
		if !c.exported[name] {
			c.wrong("%s: nothing exports %s", where, name)
		}
	}
}

// strict reads a YAML file into v; a field that v does not have is wrong.
func (c *check) strict(name string, v any) {
	if err := yaml.UnmarshalStrict(c.file(name), v); err != nil {
		c.wrong("%s: %w", name, err)
	}
}

type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

type testFile struct {
	RuleFiles []string `json:"rule_files"`
	Interval  string   `json:"evaluation_interval"`
	Tests     []struct {
		Name     string
		Interval string
		Series   []struct{ Series, Values string } `json:"input_series"`
		Alerts   []struct {
			At       string `json:"eval_time"`
			Name     string `json:"alertname"`
			Expected []any  `json:"exp_alerts"`
		} `json:"alert_rule_test"`
	}
}

var (
	heading = regexp.MustCompile(`(?m)^## (.+)$`)
	between = regexp.MustCompile(`[^a-z0-9 -]`)
)

// anchors are the headings of the runbook as addresses name them, with their sections.
func (c *check) anchors() map[string]string {
	text := c.file("RUNBOOK.md")
	sections := map[string]string{}
	all := heading.FindAllSubmatchIndex(text, -1)
	for i, m := range all {
		end := len(text)
		if i+1 < len(all) {
			end = all[i+1][0]
		}
		title := strings.ToLower(string(text[m[2]:m[3]]))
		sections[strings.ReplaceAll(between.ReplaceAllString(title, ""), " ", "-")] = string(text[m[1]:end])
	}
	return sections
}

// parts are what every section about alerts says, in this order.
var parts = []string{"**What it means.**", "**Safe meanwhile.**", "**Look.**", "**Do.**", "**Never.**", "**Over when**"}

func (c *check) rules() {
	var rules ruleFile
	var tests testFile
	sections := c.anchors()
	c.strict("prometheus/rules.yaml", &rules)
	c.strict("prometheus/rules_test.yaml", &tests)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, t := range tests.Tests {
		for _, a := range t.Alerts {
			fires[a.Name] = fires[a.Name] || len(a.Expected) > 0
			silent[a.Name] = silent[a.Name] || len(a.Expected) == 0
		}
	}
	called := map[string]bool{} // sections
	seen := map[string]bool{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			c.alerts++
			c.query(r.Alert, r.Expr)
			if seen[r.Alert] {
				c.wrong("%s: there are two", r.Alert)
			}
			seen[r.Alert] = true
			if s := r.Labels["severity"]; s != "page" && s != "ticket" {
				c.wrong("%s: severity %q", r.Alert, s)
			}
			if r.Annotations["summary"] == "" {
				c.wrong("%s: no summary", r.Alert)
			}
			anchor, ok := strings.CutPrefix(r.Annotations["runbook"], "scripts/deploy/RUNBOOK.md#")
			section, there := sections[anchor]
			if !ok || !there {
				c.wrong("%s: the runbook has no section %q", r.Alert, anchor)
			}
			called[anchor] = true
			if !strings.Contains(section, "`"+r.Alert+"`") {
				c.wrong("%s: its section %q does not name it", r.Alert, anchor)
			}
			if !fires[r.Alert] || !silent[r.Alert] {
				c.wrong("%s: fires in a test: %t, is silent in one: %t", r.Alert, fires[r.Alert], silent[r.Alert])
			}
		}
	}
	for anchor := range called {
		at := -1
		for _, p := range parts {
			i := strings.Index(sections[anchor], p)
			if i <= at {
				c.wrong("section %q: %q is missing or out of order", anchor, p)
			}
			at = max(at, i)
		}
	}
	for name := range fires {
		if !seen[name] {
			c.wrong("a test is about %s, which is no alert", name)
		}
	}
}

// A panel is what is looked at of a dashboard's panel; the rest is Grafana's.
type panel struct {
	ID    int
	Type  string
	Title string
	Grid  struct {
		Left  int `json:"x"`
		Width int `json:"w"`
	} `json:"gridPos"`
	Targets []struct{ RefID, Expr string }
	Panels  []panel
}

func (c *check) dashboard(out string) {
	var board struct {
		UID, Title  string
		Panels      []panel
		Annotations struct{ List []struct{ Name, Expr string } }
	}
	if err := json.Unmarshal(c.file("grafana/cloister.json"), &board); err != nil {
		c.wrong("dashboard: %w", err)
	}
	if board.UID == "" || board.Title == "" {
		c.wrong("dashboard: no uid or title")
	}
	type record struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var records []record
	note := func(where, expr string) {
		c.query("dashboard, "+where, expr)
		// Grafana puts these in.
		expr = strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(expr)
		if strings.Contains(expr, "$") {
			c.wrong("dashboard, %s: a variable that nobody sets: %s", where, expr)
		}
		records = append(records, record{fmt.Sprintf("query_%d", len(records)), expr})
	}
	ids := map[int]bool{}
	for _, p := range board.Panels {
		if ids[p.ID] || p.ID == 0 {
			c.wrong("dashboard, %s: id %d twice or none", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Grid.Width < 1 || p.Grid.Left+p.Grid.Width > 24 {
			c.wrong("dashboard, %s: out of the 24 columns", p.Title)
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			c.wrong("dashboard, %s: asks nothing", p.Title)
		}
		for _, t := range p.Targets {
			note(p.Title, t.Expr)
		}
	}
	for _, a := range board.Annotations.List {
		note(a.Name, a.Expr)
	}
	c.panels = len(records)
	b, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": records}}})
	if err := errors.Join(err, os.WriteFile(out, b, 0o600)); err != nil {
		c.wrong("writing the queries: %w", err)
	}
}

func (c *check) setting(where, name string) {
	c.used[name] = true
	if !c.known[name] {
		c.wrong("%s: the host has no setting %s", where, name)
	}
}

// environments looks at what sets variables as text: the unit's file and the image's.
func (c *check) environments() {
	for _, name := range []string{"systemd/host.env", "systemd/cloister-host.service", "container/Dockerfile", "systemd/backup.env"} {
		for line := range bytes.Lines(c.file(name)) {
			if bytes.HasPrefix(line, []byte("#")) {
				continue
			}
			for _, v := range variable.FindAll(line, -1) {
				c.setting(name, string(v))
			}
		}
	}
}

func (c *check) compose() {
	var file struct {
		Name     string
		Services map[string]map[string]any
		Networks, Volumes,
		Secrets map[string]any
	}
	c.strict("container/compose.yaml", &file)
	environment, _ := file.Services["host"]["environment"].(map[string]any)
	if len(environment) == 0 {
		c.wrong("compose: the host has no environment")
	}
	for name := range environment {
		if strings.HasPrefix(name, "CLOISTER_") {
			c.setting("compose", name)
		}
	}
	for service, fields := range file.Services {
		for kind, defined := range map[string]map[string]any{"networks": file.Networks, "secrets": file.Secrets} {
			list, _ := fields[kind].([]any)
			for _, name := range list {
				if _, ok := defined[fmt.Sprint(name)]; !ok {
					c.wrong("compose: %s names %s %v, which is not there", service, kind, name)
				}
			}
		}
	}
	var seccomp struct {
		DefaultAction string   `json:"defaultAction"`
		Architectures []string `json:"architectures"`
		Syscalls      []struct {
			Comment  string   `json:"comment"`
			Names    []string `json:"names"`
			Action   string   `json:"action"`
			ErrnoRet uint     `json:"errnoRet"`
		} `json:"syscalls"`
	}
	c.strict("container/seccomp.json", &seccomp)
	for _, s := range seccomp.Syscalls {
		if slices.Contains(s.Names, "socket") || !slices.IsSorted(s.Names) {
			c.wrong("seccomp: forbids sockets, or is not in order")
		}
	}
}
