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
	// run is a command from the root of the tree. Go tests begin with "go test".
	run string
	// coffee stages are those of make test.
	coffee bool
	// aside stages only compute: they run at the lowest priority beside the others, which often wait.
	aside bool
	// env is set for the command, besides what it inherits.
	env string
	// limit is when Go tests of a package that hang are ended; empty: after 25 minutes.
	limit string
	// needs is a program, without which the stage is left out, and the package that has it.
	needs string
}

func (s stage) tests() bool { return strings.HasPrefix(s.run, "go test ") }

// hung is how long one package of make test may take: several times what the longest takes, on two processors and beside
// other work, and short enough that a run in which something hangs twice ends within a quarter of an hour.
const hung = "5m"

// What only make test runs: each is a smaller version of stages of the campaign.
var coffee = []stage{
	{name: "check", run: "scripts/check.sh", coffee: true, aside: true},
	{name: "every test once", run: "go test -vet=off -short -p 4 ./host/store/postgres ./sim/rig ./sim/restart ./sim/crash ./...", coffee: true, limit: hung, env: "GOGC=400"}, // the longest first; a tenth of it was collecting garbage; check vets
	{name: "attacks on a build without the check, once", run: "go test -vet=off -short {weakened}", coffee: true, limit: hung},
	{name: "race detector where goroutines meet", run: "go test -vet=off -race -short -p 4 ./shared/wire ./enclave/core/internal/... ./enclave/internal/log", coffee: true, limit: hung, env: "CGO_ENABLED=1", needs: "gcc"},
}

// What is in make campaign: everything that there is. Go tests run in full.
var campaign = []stage{
	coffee[0], // the same in both
	{name: "rooms", run: "go test . ./attestation/... ./eif/... ./enclave/... ./host/... ./scripts/... ./shared/... ./sim"},
	{name: "rooms without runtime/secret", run: "go test ./enclave/internal/keys/... ./enclave/internal/seal/...", aside: true, env: "GOEXPERIMENT="},
	{name: "attacks on a build without the check", run: "go test {weakened}"},
	{name: "sim: small ones", run: "go test ./sim/budget ./sim/cuse ./sim/idp ./sim/inbox ./sim/laptop ./sim/nsm ./sim/script ./sim/vhostvsock"},
	{name: "sim/backup", run: "go test ./sim/backup"},
	{name: "sim/beside", run: "go test ./sim/beside"},
	{name: "sim/crash", run: "go test ./sim/crash"},
	{name: "sim/fairness", run: "go test ./sim/fairness"},
	{name: "sim/handover", run: "go test ./sim/handover"},
	{name: "sim/hostile", run: "go test ./sim/hostile"},
	{name: "sim/leak", run: "go test ./sim/leak"},
	{name: "sim/linear", run: "go test ./sim/linear"},
	{name: "sim/logmodel", run: "go test ./sim/logmodel"},
	{name: "sim/matrix", run: "go test ./sim/matrix"},
	{name: "sim/policies", run: "go test ./sim/policies"},
	{name: "sim/proxy", run: "go test ./sim/proxy"},
	{name: "sim/ranges", run: "go test ./sim/ranges"},
	{name: "sim/restart", run: "go test ./sim/restart -skip ^TestWitnessed -seeds 1000"},
	{name: "sim/restart: witnesses, 1 of 4", run: "go test ./sim/restart -run ^TestWitnessed -seeds 250"},
	{name: "sim/restart: witnesses, 2 of 4", run: "go test ./sim/restart -run ^TestWitnessed -seeds 250 -from 250"},
	{name: "sim/restart: witnesses, 3 of 4", run: "go test ./sim/restart -run ^TestWitnessed -seeds 250 -from 500"},
	{name: "sim/restart: witnesses, 4 of 4", run: "go test ./sim/restart -run ^TestWitnessed -seeds 250 -from 750"},
	{name: "sim/rig", run: "go test ./sim/rig"},
	{name: "sim/sending", run: "go test ./sim/sending"},
	{name: "sim/shares", run: "go test ./sim/shares"},
	{name: "sim/sweep", run: "go test ./sim/sweep"},
	{name: "sim/votes", run: "go test ./sim/votes"},
	{name: "sim/webhooks", run: "go test ./sim/webhooks"},
	{name: "sim/witness", run: "go test ./sim/witness/..."}, // builds the witnesses of others
	// sim/crash, sim/leak and the two tests that are skipped look at processes that they build themselves, without the
	// detector; sim/policies and sim/matrix ask one question after the other.
	{name: "race detector: enclave, host, what crosses", env: "CGO_ENABLED=1", needs: "gcc",
		run: "go test -race -short ./shared/... ./host/... ./enclave/core/... ./enclave/internal/ledger ./enclave/internal/boot"},
	{name: "race detector: campaigns", env: "CGO_ENABLED=1", needs: "gcc",
		run: "go test -race -short -skip ^(TestCommands|TestKillAnyOne)$ ./sim ./sim/backup ./sim/cuse ./sim/handover ./sim/hostile ./sim/idp ./sim/inbox ./sim/linear ./sim/nsm ./sim/proxy " +
			"./sim/ranges ./sim/rig ./sim/script ./sim/sending ./sim/shares ./sim/sweep ./sim/vhostvsock ./sim/votes ./sim/webhooks ./sim/witness"},
	{name: "race detector: witnesses", env: "CGO_ENABLED=1", needs: "gcc", // what -short leaves out of the stage before
		run: "go test -race -run ^(TestWitness.*|TestStrictOrganization|TestLogProofs.*|TestLeavesTellNothing|TestRecovery|TestLastCommitLost|TestDrill|TestRounds|TestLocalsAway|TestMonitor.*)$ " +
			"./attestation/verify ./sim ./sim/handover ./sim/ranges ./sim/rig ./sim/witness"},
	{name: "fuzz", run: "scripts/fuzz.sh"},
	{name: "reproducible enclave", run: "scripts/reproduce.sh", aside: true},
	{name: "official SDKs", run: "scripts/interop/run.sh"},
	{name: "scripts/auth", run: "scripts/auth/test.sh"},
	{name: "scripts/backup", run: "scripts/backup/test.sh"},
	{name: "scripts/billing", run: "scripts/billing/test.sh"},
	{name: "scripts/dashboard", run: "scripts/dashboard/test.sh"},
	{name: "scripts/deploy", run: "scripts/deploy/test.sh"},
	{name: "scripts/judges", run: "scripts/judges/test.sh"},
	{name: "scripts/nitro", run: "scripts/nitro/test.sh"},
	{name: "scripts/oidc", run: "scripts/oidc/test.sh"},
	{name: "scripts/onramp", run: "scripts/onramp/test.sh"},
	{name: "scripts/outward", run: "scripts/outward/test.sh"},
	{name: "scripts/readme", run: "scripts/readme/test.sh"},
	{name: "scripts/reference", run: "scripts/reference/test.sh"},
	{name: "scripts/sending", run: "scripts/sending/test.sh"},
	{name: "scripts/spark", run: "scripts/spark/test.sh"},
	{name: "scripts/tls", run: "scripts/tls/test.sh"},
	{name: "scripts/vsock", run: "scripts/vsock/test.sh"},
	{name: "scripts/walletkit", run: "scripts/walletkit/test.sh"},
	{name: "scripts/webhooks", run: "scripts/webhooks/test.sh"},
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
	for _, folder := range []string{"enclave", "host", "sim"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
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
