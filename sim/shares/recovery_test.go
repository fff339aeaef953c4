package shares_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloister/attestation"
	replies "cloister/attestation/client"
	"cloister/attestation/monitor"
	"cloister/attestation/request"
	"cloister/attestation/tlog"
	"cloister/shared/clocktest"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// behind is how many batches an old backup lacks at least, each of which was answered.
const behind = 50

// systemctl stands in for systemd's: it knows two units, and keeps the id of each one's process.
const systemctl = `#!/bin/sh
set -e
action=$1
shift 2 # --now
for unit in "$@"; do
	case $action in
	enable) setsid "$DESK/$unit.run" >>"$DESK/$unit.log" 2>&1 & echo $! >"$DESK/$unit.pid" ;;
	disable)
		[ -e "$DESK/$unit.pid" ] || continue
		pid=$(cat "$DESK/$unit.pid")
		if kill "$pid" 2>/dev/null; then
			while [ -e "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status"; do sleep 0.05; done
		fi
		rm "$DESK/$unit.pid" ;;
	esac
done
`

// blocks are the commands of a section of the runbook, in the order in which they stand there.
func blocks(t *testing.T, section string) (all []string) {
	t.Helper()
	b, err := os.ReadFile("../../scripts/deploy/RUNBOOK.md")
	must(t, err)
	_, text, found := strings.Cut(string(b), "\n## "+section+"\n")
	if !found {
		t.Fatalf("the runbook has no section %q", section)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	block := ""
	for line := range strings.Lines(text + "\n") {
		if strings.HasPrefix(line, "    ") {
			block += strings.TrimLeft(line, " ")
		} else if block != "" {
			all, block = append(all, block), ""
		}
	}
	return all
}

// do runs commands of the runbook, as somebody types them who says yes when asked.
func (d *desk) do(block string, more ...string) (out, refusal string) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", block)
	cmd.Dir, cmd.Stdin = d.dir, strings.NewReader("yes\n")
	cmd.Env = append(os.Environ(), "PATH="+d.dir+":"+os.Getenv("PATH"), "DESK="+d.dir, "CLOISTER_STORE=sqlite:"+d.file("cloister.db"), "CLOISTER_API_ADDR="+d.api,
		"ENCLAVE="+d.enclave, "IMAGE="+strings.Join(d.expected(), " "))
	cmd.Env = append(cmd.Env, more...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	b, err := cmd.Output()
	if err != nil {
		refusal = err.Error() + ": " + errs.String()
	}
	return string(b), refusal
}

// must is do that must not be refused.
func (d *desk) must(block string, more ...string) string {
	d.t.Helper()
	out, refusal := d.do(block, more...)
	if refusal != "" {
		d.t.Fatalf("%s\n%s\n%s", block, out, refusal)
	}
	return out
}

// install puts the two units, which no test leaves behind.
func (d *desk) install() {
	d.t.Helper()
	for name, text := range map[string]string{
		"systemctl":            systemctl,
		"cloister-enclave.run": fmt.Sprintf("#!/bin/sh\nexec %s enclave -shares -data-dir %s -enclave-addr %s\n", d.file("cloister-sim"), d.dir, strings.TrimPrefix(d.enclave, "tcp://")),
		"cloister-host.run":    fmt.Sprintf("#!/bin/sh\nexec %s serve -enclave %s -auth-proxy-addr off -public-log\n", d.file("cloister-host"), d.enclave),
	} {
		must(d.t, os.WriteFile(d.file(name), []byte(text), 0o700))
	}
	d.t.Cleanup(func() { d.lost() })
}

// lost kills both at once, as the loss of a machine does.
func (d *desk) lost() {
	for _, unit := range []string{"cloister-enclave", "cloister-host"} {
		b, err := os.ReadFile(d.file(unit + ".pid"))
		if err != nil {
			continue
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
		must(d.t, err)
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
}

// nothingLost waits until the store and its witnesses agree. Checkpoints are stored a moment after they were cosigned.
func (d *desk) nothingLost(generation string) {
	d.t.Helper()
	clocktest.Until(d.t, "log heads tell that nothing is lost", func() bool {
		out, refusal := d.do("cloister-host log heads")
		return refusal == "" && strings.Contains(out, generation) && strings.Contains(out, "nothing is ")
	})
}

// A customer has an organization, and what the clients of it keep.
type customer struct {
	*desk
	*request.API
	signer string
}

func (d *desk) customer(name string) *customer {
	d.t.Helper()
	d.until("cloister-host", "create-organization", "-api-url", "http://"+d.api, "-admission-key", d.file("admission-key"), "-name", name, "-out", d.file("root.json"))
	b, err := os.ReadFile(d.file("root.json"))
	must(d.t, err)
	var made struct {
		OrganizationID string
		RootAPIKey     request.KeyPair
	}
	must(d.t, json.Unmarshal(b, &made))
	key, err := request.ParseKey(made.RootAPIKey.PrivateKey)
	must(d.t, err)
	d.write("key", []byte(made.RootAPIKey.PrivateKey))
	c := &customer{desk: d, API: &request.API{URL: "http://" + d.api, OrganizationID: made.OrganizationID, Key: key}}
	var wallet struct{ Addresses []string }
	must(d.t, c.done("ACTIVITY_TYPE_CREATE_WALLET", client.Wallet("w", client.Ethereum)).Into(&wallet))
	c.signer = wallet.Addresses[0]
	return c
}

func (c *customer) done(typ string, parameters any) *request.Activity {
	c.t.Helper()
	a, err := c.Submit(c.t.Context(), typ, parameters)
	must(c.t, err)
	return a
}

// code is what an activity is refused with.
func (c *customer) code(typ string, parameters any) string {
	c.t.Helper()
	_, err := c.Submit(c.t.Context(), typ, parameters)
	return codeOf(err)
}

func codeOf(err error) string {
	if e, ok := errors.AsType[*request.Error](err); ok {
		return e.Name
	}
	return fmt.Sprint(err)
}

func payload(signer, text string) map[string]any {
	return map[string]any{"signWith": signer, "payload": text, "encoding": "PAYLOAD_ENCODING_TEXT_UTF8", "hashFunction": "HASH_FUNCTION_KECCAK256"}
}

const signType = "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2"

// proof keeps the logged proof of an activity, and the boot proof of the live key that is in it.
func (c *customer) proof(name, activity string) {
	c.t.Helper()
	for what, ask := range map[string]map[string]any{"get_log_proof": {"activityId": activity}, "get_latest_boot_proof": {"appName": attestation.Application}} {
		var raw json.RawMessage
		must(c.t, c.Query(c.t.Context(), what, ask, &raw))
		c.write(name+"-"+what+".json", raw)
	}
}

// verified is what cloister-verify says of a proof that was kept, and its status.
func (c *customer) verified(name string, more ...string) (said string, status int) {
	c.t.Helper()
	args := append([]string{"log", "-operators", c.file("manifest.json"), "-boot-proof", c.file(name + "-get_latest_boot_proof.json"), "-log-proof", c.file(name + "-get_log_proof.json")}, c.expected()...)
	return c.verify(append(args, more...)...)
}

// verify runs cloister-verify, and gives its last line and its status.
func (d *desk) verify(args ...string) (said string, status int) {
	d.t.Helper()
	cmd := exec.Command(d.file("cloister-verify"), args...)
	out, err := cmd.CombinedOutput()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		d.t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1], cmd.ProcessState.ExitCode()
}

// watch looks once with the monitor, which remembers what it has seen.
func (c *customer) watch(more ...string) (all []monitor.Event, status int) {
	c.t.Helper()
	args := append([]string{"monitor", "-once", "-from", "0", "-url", c.URL, "-organization", c.OrganizationID, "-key-file", c.file("key"), "-state", c.file("state"), "-operators", c.file("manifest.json")}, c.expected()...)
	cmd := exec.Command(c.file("cloister-verify"), append(args, more...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		c.t.Fatal(err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var e monitor.Event
		must(c.t, d.Decode(&e))
		all = append(all, e)
	}
	if errs.Len() > 0 {
		c.t.Logf("monitor: %s", &errs)
	}
	return all, cmd.ProcessState.ExitCode()
}

// TestRecoveryByRunbook loses a deployment and its store with a backup at hand that lacks more than fifty batches, types what
// the runbook says, and asks each kind of client what it makes of that.
func TestRecoveryByRunbook(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: a recovery by the runbook")
	}
	steps := blocks(t, "Recovery")
	if len(steps) != 11 {
		t.Fatalf("the runbook's recovery has %d blocks of commands, and this test knows what comes of 11", len(steps))
	}
	d := newDesk(t)
	d.install()
	w := rig.StartWitnesses(t, rig.WitnessOptions{Mode: tlog.ModeStrict, Serve: time.Second})
	measured := d.image() // makes the root, which the enclave would make otherwise
	d.must("systemctl enable --now cloister-host cloister-enclave")
	operators, genesis := d.hire()
	replied := d.until(append(append([]string{"cloister-host", "boot", "-enclave", d.enclave}, genesis...), "genesis")...)
	shares := d.write("genesis.json", replied)
	m := d.draft(replied, operators, measured)
	m.Freshness.Mode, m.Log = attestation.FreshWitnessed, &w.Terms
	_, give := d.approved(m)
	following, stop := context.WithCancel(t.Context())
	followed := make(chan struct{})
	go func() { w.Follow(following, t, d.enclave); close(followed) }()
	d.until(append(append([]string{"cloister-host", "boot", "-enclave", d.enclave}, give...), "manifest")...)
	for n := 1; n <= 2; n++ {
		d.boot("-in", d.share(n, shares), "share")
	}
	// What is kept in the backup, and what is not, with what clients keep of it.
	c := d.customer("one")
	stop()
	<-followed // who hears of a log from here on is told by the runbook
	kept := c.done(signType, payload(c.signer, "kept"))
	d.nothingLost("generation 1")
	out := d.must("cloister-host backup -to backups")
	backup := regexp.MustCompile(`(?m)^written (.*) in `).FindStringSubmatch(out)
	if backup == nil {
		t.Fatal(out)
	}
	for n := range behind - 1 {
		c.done("ACTIVITY_TYPE_CREATE_USER_TAG", client.Tag(fmt.Sprint("lost ", n)))
	}
	body, err := c.Activity(signType, payload(c.signer, "lost"))
	must(t, err)
	status, reply, err := c.Post(t.Context(), "/public/v1/submit/sign_raw_payload", body)
	if err != nil || status != http.StatusOK {
		t.Fatal(status, string(reply), err)
	}
	var last struct{ Activity request.Activity }
	must(t, json.Unmarshal(reply, &last))
	lost := d.write("lost.json", body)
	c.proof("lost", last.Activity.ID)
	c.proof("kept", kept.ID)
	if said, status := c.verified("lost", "-body", lost); status != 0 || said != "VERIFIED: strict, first generation" {
		t.Errorf("before the loss: %d %s", status, said)
	}
	if seen, status := c.watch(); status != 0 || len(seen) < behind+2 {
		t.Errorf("the monitor before the loss: %d, %d events", status, len(seen))
	}

	d.lost()
	gone, err := filepath.Glob(d.file("cloister.db*"))
	if err != nil || len(gone) == 0 {
		t.Fatal("no store to lose", err)
	}
	for _, name := range gone {
		must(t, os.Remove(name))
	}
	began := time.Now()
	d.must(steps[0])
	d.must(steps[1], "BACKUP="+d.file(backup[1]))
	d.must(steps[2])
	b, err := os.ReadFile(d.file("heads.txt"))
	must(t, err)
	var recover []attestation.RecoveredLog
	raw, err := os.ReadFile(d.file("recover.json"))
	must(t, err)
	if err := json.Unmarshal(raw, &recover); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	missing := recover[0].Lost()
	if missing < behind || !regexp.MustCompile(fmt.Sprintf(`(?m)^  %d batches are missing: [34] of 4 witnesses have seen %d$`, missing, recover[0].Witnessed)).Match(b) {
		t.Errorf("%d are missing; log heads says\n%s", missing, b)
	}
	d.must(steps[3])
	for n := 1; n <= 2; n++ {
		d.must(steps[4], "KEY="+d.file(fmt.Sprintf("key-%d", n)), fmt.Sprintf("N=%d", n))
	}
	d.must(steps[5])
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) { // both are starting
		_, refusal := d.do(steps[6])
		if refusal == "" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(refusal)
		}
	}
	for n := 1; n <= 2; n++ {
		d.must(steps[7], "KEY="+d.file(fmt.Sprintf("key-%d", n)), fmt.Sprintf("N=%d", n))
	}
	var of *tlog.Key
	for deadline := time.Now().Add(patience); of == nil; time.Sleep(50 * time.Millisecond) {
		var s struct{ Logs []struct{ VKey string } }
		must(t, json.Unmarshal([]byte(d.must(steps[8])), &s))
		for _, l := range s.Logs {
			of, err = tlog.ParseKey(l.VKey)
			must(t, err)
		}
		if time.Now().After(deadline) {
			t.Fatal("the enclave names no log")
		}
	}
	next := recover[0].Origin[:strings.LastIndexByte(recover[0].Origin, '/')+1] + "2"
	if of.Name() != next {
		t.Errorf("the new log is %s, not %s", of.Name(), next)
	}
	must(t, w.Add(of))

	// Served again, as the generation after, which says so to everybody.
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		err := c.Query(t.Context(), "whoami", nil, nil)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	t.Logf("counted: from loss to serving by the runbook in %.1f s, %d batches behind", time.Since(began).Seconds(), missing)
	if out, refusal := d.do(steps[9]); refusal != "" || !strings.Contains(out, next+", generation 2") || !strings.Contains(out, "cosigned by a quorum of 3") {
		t.Errorf("cloister-host log: %s %s", out, refusal)
	}
	d.nothingLost("generation 2")

	// A client with a receipt from before: it holds under the generation that it is of, unless the client knows of a later one.
	recovered := fmt.Sprintf("generation 2, recovered, %d batches lost: goes on from %d batches of %s", missing, recover[0].Size, recover[0].Origin)
	for _, name := range []string{"lost", "kept"} {
		if said, status := c.verified(name); status != 0 || said != "VERIFIED: strict, first generation" {
			t.Errorf("the proof of what was %s: %d %s", name, status, said)
		}
		if said, status := c.verified(name, "-known-generation", next); status != 1 || !strings.Contains(said, "generation 1 of the log, of which generation 2 is known") {
			t.Errorf("the proof of what was %s, to who knows better: %d %s", name, status, said)
		}
	}
	// One that sends again what was lost, and one that asks after it.
	status, reply, err = c.Post(t.Context(), "/public/v1/submit/sign_raw_payload", body)
	if err != nil || status != http.StatusBadRequest || !bytes.Contains(reply, []byte("RECOVERED_RECENTLY")) {
		t.Errorf("what was lost is sent again: %d %s %v", status, reply, err)
	}
	if err := c.Query(t.Context(), "get_activity", map[string]any{"activityId": last.Activity.ID}, nil); err == nil || !strings.Contains(err.Error(), "status 404") {
		t.Errorf("what was lost is asked after: %v", err)
	}
	if err := c.Query(t.Context(), "get_activity", map[string]any{"activityId": kept.ID}, nil); err != nil {
		t.Errorf("what was kept is asked after: %v", err)
	}
	// One that asks for a new proof of what was kept, before its organization has decided anything.
	if err := c.Query(t.Context(), "get_log_proof", map[string]any{"activityId": kept.ID}, nil); err != nil {
		t.Errorf("a proof of what was kept: %v", err)
	}
	// One that signs, at once as the runbook has it, and as soon as nothing of the lost time can be meant.
	if code := c.code(signType, payload(c.signer, "soon")); code != "RECOVERED_RECENTLY" {
		t.Errorf("a signature at once: %s", code)
	}
	if out, refusal := d.do(steps[10]); refusal == "" || !strings.Contains(out, "RECOVERED_RECENTLY") {
		t.Errorf("the root quorum at once: %s%s", out, refusal)
	}
	c.Now = func() time.Time { return time.Now().Add(5*time.Minute - 2*time.Second) }
	var tag *request.Activity
	for deadline := time.Now().Add(patience); ; time.Sleep(500 * time.Millisecond) {
		tag, err = c.Submit(t.Context(), "ACTIVITY_TYPE_CREATE_USER_TAG", client.Tag("new"))
		if err == nil {
			break
		}
		if codeOf(err) != "RECOVERED_RECENTLY" || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if code := c.code(signType, payload(c.signer, "frozen")); code != "SIGNING_FROZEN" {
		t.Errorf("a signature before the root quorum has looked: %s", code)
	}
	// One that verifies a new proof hears of the loss, and never just that it is verified.
	c.proof("new", tag.ID)
	c.proof("again", kept.ID)
	for _, name := range []string{"new", "again"} {
		if said, status := c.verified(name); status != 4 || !strings.Contains(said, recovered) || strings.Contains(said, "VERIFIED") {
			t.Errorf("%s: %d %s", name, status, said)
		}
		if said, status := c.verified(name, "-known-generation", next); status != 0 || said != "VERIFIED: strict, "+recovered {
			t.Errorf("%s, to who knows of it: %d %s", name, status, said)
		}
	}
	// The owner's monitor with what it remembers, and one that begins anew.
	expect := func(status int, more []string, kinds ...monitor.Kind) {
		t.Helper()
		seen, got := c.watch(more...)
		seen = slices.DeleteFunc(seen, func(e monitor.Event) bool { return e.Kind == monitor.KindEntry })
		var told []monitor.Kind
		for _, e := range seen {
			told = append(told, e.Kind)
		}
		if got != status || !slices.Equal(told, kinds) {
			t.Errorf("the monitor: %d, %+v", got, seen)
		} else if len(kinds) > 0 && (seen[0].Text != recovered || !seen[0].Alert) {
			t.Errorf("the monitor: %+v", seen[0])
		}
	}
	expect(1, nil, monitor.KindLog, monitor.KindLost)
	expect(0, nil)
	expect(1, []string{"-state", c.file("state-anew")}, monitor.KindLog)
	// Clients of signed replies: by the operators, who approved it, and by the manifest that there was.
	keys := append([]string{"keys", "-url", c.URL}, d.expected()...)
	if said, status := d.verify(append(keys, "-operators", d.file("manifest.json"))...); status != 0 {
		t.Errorf("by the operators: %d %s", status, said)
	}
	sum := attestation.Hash(must2(os.ReadFile(d.file("manifest.json")))(t))
	if said, status := d.verify(append(keys, "-manifest-sha256", fmt.Sprintf("%x", sum))...); status != 1 {
		t.Errorf("by the manifest before: %d %s", status, said)
	}
	// One that believes only replies that are proven to stand in the log, as they come.
	policy := attestation.Policy{SimulatorRootPEM: string(must2(os.ReadFile(d.file("root.pem")))(t)), Operators: operators, ExpectedPCRs: map[int]string{0: measured["0"], 1: measured["1"], 2: measured["2"]}}
	for _, known := range []map[string]uint32{nil, {next[:strings.LastIndexByte(next, '/')]: 2}} {
		policy.KnownGenerations = known
		verifying := &replies.Transport{Policy: policy, Now: time.Now, Proofs: replies.Discovery(c.URL, nil)}
		api := &request.API{URL: c.URL, OrganizationID: c.OrganizationID, Key: c.Key, Now: c.Now, LogProofs: true, HTTP: &http.Client{Transport: verifying}}
		_, err := api.Submit(t.Context(), "ACTIVITY_TYPE_CREATE_USER_TAG", client.Tag(fmt.Sprint("verified ", len(known))))
		if known == nil && (err == nil || !strings.Contains(err.Error(), recovered)) || known != nil && err != nil {
			t.Errorf("a client that verifies, with %v known: %v", known, err)
		}
	}
	c.done("ACTIVITY_TYPE_REMOVE_ORGANIZATION_FEATURE", map[string]any{"name": "FEATURE_NAME_SIGNING_FROZEN"})
	c.done(signType, payload(c.signer, "thawed"))
}

func must2[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return v
	}
}
