package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A stage is one part of the run: Go tests, or a script that fails by its status and names what it leaves out
// (scripts/stage.sh).
type stage struct {
	name string
	// cost is how many seconds it takes at most, on two processors that do nothing else, where what it downloads and
	// builds for itself is not there yet. The turns of CI are planned by it.
	cost int
	// run is a command from the root of the tree. Go tests begin with "go test".
	run string
	// coffee stages are those of make test.
	coffee bool
	// aside stages only compute: they run at the lowest priority beside the others, which often wait.
	aside bool
	// env is set for the command, besides what it inherits.
	env string
	// needs is a program, without which the stage is left out, and the package that has it.
	needs string
}

func (s stage) tests() bool { return strings.HasPrefix(s.run, "go test ") }

// What only make test runs: each is a smaller version of stages of the campaign.
var coffee = []stage{
	{name: "check", cost: 240, run: "scripts/check.sh", coffee: true, aside: true},
	{name: "every test once", cost: 400, run: "go test -vet=off -short -p 4 ./host/store/postgres ./sim/rig ./sim/restart ./sim/crash ./...", coffee: true, env: "GOGC=400"}, // the longest first; a tenth of it was collecting garbage; check vets
	{name: "attacks on a build without the check, once", cost: 90, run: "go test -vet=off -short {weakened}", coffee: true},
	{name: "race detector where goroutines meet", cost: 60, run: "go test -vet=off -race -short -p 4 ./shared/wire ./enclave/core/internal/... ./enclave/internal/log", coffee: true, env: "CGO_ENABLED=1", needs: "gcc"},
}

// What is in make campaign: everything that there is. Go tests run in full.
var campaign = []stage{
	coffee[0], // the same in both
	{name: "rooms", cost: 360, run: "go test . ./attestation/... ./eif/... ./enclave/... ./host/... ./scripts/... ./shared/... ./sim"},
	{name: "rooms without runtime/secret", cost: 60, run: "go test ./enclave/internal/keys/... ./enclave/internal/seal/...", aside: true, env: "GOEXPERIMENT="},
	{name: "attacks on a build without the check", cost: 120, run: "go test {weakened}"},
	{name: "sim: small ones", cost: 120, run: "go test ./sim/budget ./sim/cuse ./sim/idp ./sim/inbox ./sim/laptop ./sim/nsm ./sim/script ./sim/vhostvsock"},
	{name: "sim/backup", cost: 90, run: "go test ./sim/backup"},
	{name: "sim/beside", cost: 45, run: "go test ./sim/beside"},
	{name: "sim/crash", cost: 240, run: "go test ./sim/crash"},
	{name: "sim/handover", cost: 80, run: "go test ./sim/handover"},
	{name: "sim/hostile", cost: 120, run: "go test ./sim/hostile"},
	{name: "sim/leak", cost: 180, run: "go test ./sim/leak"},
	{name: "sim/linear", cost: 90, run: "go test ./sim/linear"},
	{name: "sim/logmodel", cost: 240, run: "go test ./sim/logmodel"},
	{name: "sim/matrix", cost: 60, run: "go test ./sim/matrix"},
	{name: "sim/policies", cost: 60, run: "go test ./sim/policies"},
	{name: "sim/proxy", cost: 60, run: "go test ./sim/proxy"},
	{name: "sim/ranges", cost: 120, run: "go test ./sim/ranges"},
	{name: "sim/restart", cost: 1200, run: "go test ./sim/restart -skip ^TestWitnessed -seeds 1000"},
	{name: "sim/restart: witnesses, 1 of 4", cost: 600, run: "go test ./sim/restart -run ^TestWitnessed -seeds 250"},
	{name: "sim/restart: witnesses, 2 of 4", cost: 600, run: "go test ./sim/restart -run ^TestWitnessed -seeds 250 -from 250"},
	{name: "sim/restart: witnesses, 3 of 4", cost: 600, run: "go test ./sim/restart -run ^TestWitnessed -seeds 250 -from 500"},
	{name: "sim/restart: witnesses, 4 of 4", cost: 600, run: "go test ./sim/restart -run ^TestWitnessed -seeds 250 -from 750"},
	{name: "sim/rig", cost: 130, run: "go test ./sim/rig"},
	{name: "sim/sending", cost: 60, run: "go test ./sim/sending"},
	{name: "sim/shares", cost: 150, run: "go test ./sim/shares"},
	{name: "sim/sweep", cost: 120, run: "go test ./sim/sweep"},
	{name: "sim/votes", cost: 240, run: "go test ./sim/votes"},
	{name: "sim/webhooks", cost: 90, run: "go test ./sim/webhooks"},
	{name: "sim/witness", cost: 135, run: "go test ./sim/witness/..."}, // builds the witnesses of others
	// sim/crash, sim/leak and the two tests that are skipped look at processes that they build themselves, without the
	// detector; sim/policies and sim/matrix ask one question after the other.
	{name: "race detector: enclave, host, what crosses", cost: 480, env: "CGO_ENABLED=1", needs: "gcc",
		run: "go test -race -short ./shared/... ./host/... ./enclave/core/... ./enclave/internal/ledger ./enclave/internal/boot"},
	{name: "race detector: campaigns", cost: 600, env: "CGO_ENABLED=1", needs: "gcc",
		run: "go test -race -short -skip ^(TestCommands|TestKillAnyOne)$ ./sim ./sim/backup ./sim/cuse ./sim/handover ./sim/hostile ./sim/idp ./sim/inbox ./sim/linear ./sim/nsm ./sim/proxy " +
			"./sim/ranges ./sim/rig ./sim/script ./sim/sending ./sim/shares ./sim/sweep ./sim/vhostvsock ./sim/votes ./sim/webhooks ./sim/witness"},
	{name: "fuzz", cost: 480, run: "scripts/fuzz.sh"},
	{name: "reproducible enclave", cost: 240, run: "scripts/reproduce.sh", aside: true},
	{name: "official SDKs", cost: 180, run: "scripts/interop/run.sh"},
	{name: "scripts/auth", cost: 120, run: "scripts/auth/test.sh"},
	{name: "scripts/backup", cost: 240, run: "scripts/backup/test.sh"},
	{name: "scripts/billing", cost: 90, run: "scripts/billing/test.sh"},
	{name: "scripts/dashboard", cost: 180, run: "scripts/dashboard/test.sh"},
	{name: "scripts/deploy", cost: 360, run: "scripts/deploy/test.sh"},
	{name: "scripts/judges", cost: 300, run: "scripts/judges/test.sh"},
	{name: "scripts/oidc", cost: 60, run: "scripts/oidc/test.sh"},
	{name: "scripts/onramp", cost: 60, run: "scripts/onramp/test.sh"},
	{name: "scripts/outward", cost: 60, run: "scripts/outward/test.sh"},
	{name: "scripts/reference", cost: 120, run: "scripts/reference/test.sh"},
	{name: "scripts/sending", cost: 240, run: "scripts/sending/test.sh"},
	{name: "scripts/spark", cost: 60, run: "scripts/spark/test.sh"},
	{name: "scripts/tls", cost: 120, run: "scripts/tls/test.sh"},
	{name: "scripts/vsock", cost: 180, run: "scripts/vsock/test.sh"},
	{name: "scripts/walletkit", cost: 60, run: "scripts/walletkit/test.sh"},
	{name: "scripts/webhooks", cost: 120, run: "scripts/webhooks/test.sh"},
}

// turns is how many runs of CI it takes until every stage has run.
const turns = 5

// turn gives the stages of the campaign that are run in turn n, which no other has. The dearest are dealt out first, each
// to the turn with the least to do. What make test runs has no turn.
func turn(n int) []stage {
	left := slices.DeleteFunc(slices.Clone(campaign), func(s stage) bool { return s.coffee })
	slices.SortStableFunc(left, func(a, b stage) int { return b.cost - a.cost })
	var dealt [turns][]stage
	var cost [turns]int
	for _, s := range left {
		least := 0
		for i := range cost {
			if cost[i] < cost[least] {
				least = i
			}
		}
		dealt[least], cost[least] = append(dealt[least], s), cost[least]+s.cost
	}
	return dealt[n%turns]
}

// command gives a stage's command in words. What stands in braces is filled in.
func (s stage) command() ([]string, error) {
	words := strings.Fields(s.run)
	i := slices.Index(words, "{weakened}")
	if i < 0 {
		return words, nil
	}
	weakened, err := weakenedTests()
	if err != nil {
		return nil, err
	}
	return slices.Replace(words, i, i+1, weakened...), nil
}

// root is the tree's; commands run there.
var root = "."

var testName = regexp.MustCompile(`(?m)^func (Test\w+)`)

// weakenedTests gives the arguments of `go test` for the tests that show what a check is for: in a build where it can be
// switched off, the attack that it stops succeeds. They are those in files with that build tag; the others run elsewhere.
func weakenedTests() ([]string, error) {
	var names, packages []string
	for _, room := range []string{"enclave", "host", "sim"} {
		err := filepath.WalkDir(filepath.Join(root, room), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			if err != nil || !strings.HasPrefix(string(source), "//go:build cloister_insecure\n") {
				return err
			}
			for _, m := range testName.FindAllStringSubmatch(string(source), -1) {
				names = append(names, m[1])
			}
			below, err := filepath.Rel(root, filepath.Dir(path))
			packages = append(packages, "./"+below)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no test has the build tag cloister_insecure")
	}
	slices.Sort(packages)
	return append([]string{"-tags", "cloister_insecure", "-run", "^(" + strings.Join(names, "|") + ")$"}, slices.Compact(packages)...), nil
}
