package monitor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	mod "golang.org/x/mod/sumdb/tlog"

	"cloister/attestation"
	"cloister/attestation/monitor"
	"cloister/attestation/request"
	"cloister/attestation/tlog"
	"cloister/attestation/tlog/tlogtest"
)

const logs = "log.example/00112233445566778899aabbccddeeff/0"

var (
	organization = [16]byte{1}
	booted       = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) // the enclave of the stored boot proof
)

// An owner has a log, which is real, an enclave that shows it, whose boot proof is one that the command is tested with,
// and a host in between that does as the test likes.
type owner struct {
	t      testing.TB
	world  *tlogtest.World
	events []monitor.Event
	kept   monitor.State
	now    time.Time
	done   int // activities so far

	policy attestation.Policy
	boot   attestation.BootProof
	listed []map[string]any // newest first

	// What goes wrong.
	withheld string                            // an activity that the list leaves out
	head     uint64                            // the size of the head that is shown; 0: the newest
	last     uint64                            // entries behind it are denied; 0: none is
	fail     func(operation string) error      // before it is answered
	alter    func(reply *attestation.LogProof) // before it is given
	tiles    func(context.Context, string) ([]byte, error)
	via      http.RoundTripper
}

func file(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "verify", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newOwner(t testing.TB) *owner {
	var credentials struct {
		Root     string `json:"attestationRootPem"`
		Manifest string `json:"manifestSha256"`
	}
	must(t, json.Unmarshal(file(t, "log-credentials.json"), &credentials))
	boot, err := attestation.ParseReply(file(t, "log-boot.json"))
	must(t, err)
	o := &owner{t: t, now: booted.Add(time.Hour), boot: boot.BootProofs[0],
		policy: attestation.Policy{SimulatorRootPEM: credentials.Root, AllowedManifestSHA256: []string{credentials.Manifest}}}
	o.begin(1, nil)
	return o
}

// begin is another generation of the log, with the organization's entries so far.
func (o *owner) begin(generation int, adopt *tlog.Adopt) {
	before := o.world
	o.world = tlogtest.New(fmt.Sprintf("%s/%d", logs, generation), 3, 4)
	if adopt != nil {
		o.world.Append(tlog.Leaf{Adopt: adopt})
	}
	o.world.Grow(3)
	if before != nil {
		entries := before.Entries(organization)
		for adopt != nil && entries > 0 && before.Batch(organization, entries-1) >= adopt.Size {
			entries--
		}
		o.world.TakeOver(before, organization, entries)
		return
	}
	o.world.Record(tlog.Facts{Organization: organization, CreatedMs: o.ms(), TimeMs: o.ms()}) // the organization's first entry is of no activity
}

// adopt is what the next generation begins with: all of the log, or all but its last batches.
func (o *owner) adopt(how tlog.How, lost uint64) *tlog.Adopt {
	seen := o.world.Tree.Size()
	a := &tlog.Adopt{How: how, Origin: o.world.Log.Name(), Size: seen - lost, Root: o.world.Tree.Root(seen - lost)}
	if how == tlog.HowRecovered {
		a.Witnessed = seen
	}
	return a
}

func (o *owner) ms() uint64 { return uint64(o.now.UnixMilli()) }

// decide makes an activity that is done at once, and gives its id.
func (o *owner) decide() string {
	o.done++
	return o.step([16]byte{9, byte(o.done >> 8), byte(o.done)}, "ACTIVITY_STATUS_COMPLETED", 0)
}

// step makes one step of an activity, after another if prior is not 0.
func (o *owner) step(activity [16]byte, status string, prior uint64) string {
	o.now = o.now.Add(time.Second)
	o.record(tlog.Facts{Organization: organization, Activity: activity, Type: "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", Status: status, CreatedMs: o.ms(), TimeMs: o.ms(),
		Mode: tlog.ModeStrict, Prior: prior})
	id := attestation.UUID(activity)
	o.list(id, status)
	return id
}

func (o *owner) record(f tlog.Facts) {
	o.world.Record(f)
	o.world.Record(tlog.Facts{Organization: [16]byte{2}}) // somebody else's
}

func (o *owner) list(id, status string) {
	o.listed = slices.DeleteFunc(o.listed, func(a map[string]any) bool { return a["id"] == id })
	at := map[string]string{"seconds": strconv.FormatInt(o.now.Unix(), 10), "nanos": "0"}
	o.listed = slices.Insert(o.listed, 0, map[string]any{"id": id, "type": "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", "status": status, "createdAt": at, "updatedAt": at})
}

// ask answers as the interface does.
func (o *owner) ask(_ context.Context, operation string, asked, reply any) error {
	if o.fail != nil {
		if err := o.fail(operation); err != nil {
			return err
		}
	}
	raw, err := json.Marshal(asked)
	must(o.t, err)
	var q struct {
		OrganizationID, ActivityID, Seq string
		PaginationOptions               struct{ Limit, Before string }
	}
	must(o.t, json.Unmarshal(raw, &q))
	if q.OrganizationID != attestation.UUID(organization) {
		o.t.Errorf("%s asks about %q", operation, q.OrganizationID)
	}
	var answer any
	if operation == "list_activities" {
		answer = map[string]any{"activities": o.page(q.PaginationOptions.Before, q.PaginationOptions.Limit)}
	} else if answer, err = o.proof(q.Seq, q.ActivityID); err != nil {
		return err
	}
	raw, err = json.Marshal(answer)
	must(o.t, err)
	return json.Unmarshal(raw, reply)
}

func (o *owner) page(before, limit string) []map[string]any {
	from := 1 + slices.IndexFunc(o.listed, func(a map[string]any) bool { return a["id"] == before })
	most, err := strconv.Atoi(limit)
	must(o.t, err)
	page := slices.Clone(o.listed[from:min(len(o.listed), from+most)])
	return slices.DeleteFunc(page, func(a map[string]any) bool { return a["id"] == o.withheld })
}

func (o *owner) proof(number, activity string) (*attestation.LogProof, error) {
	seq, err := strconv.ParseUint(number, 10, 64)
	if activity != "" { // the newest one is the newest entry's
		seq = o.world.Entries(organization) - 1
	} else {
		must(o.t, err)
	}
	if o.world.Idle(organization) { // the enclave has the log say where it stands
		o.world.Restate(organization)
	}
	if seq >= o.world.Entries(organization) || o.last > 0 && seq >= o.last {
		return nil, fmt.Errorf("asking: %w", &request.Error{Status: http.StatusNotFound})
	}
	for i, s := range o.world.Witnesses {
		s.Seconds = uint64(o.now.Unix()) - uint64(i)
	}
	size := o.world.Tree.Size()
	if o.head > 0 {
		size = o.head
		for _, s := range o.world.Witnesses {
			s.Seconds -= 3600
		}
	}
	text, err := o.world.ProveAt(size, organization, seq, seq).Text()
	must(o.t, err)
	origin, err := tlog.ParseOrigin(o.world.Log.Name())
	must(o.t, err)
	r := &attestation.LogProof{LogProof: text}
	must(o.t, json.Unmarshal(file(o.t, fmt.Sprintf("log-key-%d.json", origin.Generation)), &r.LogKey))
	if o.alter != nil {
		o.alter(r)
	}
	return r, nil
}

// monitor goes on from what was kept.
func (o *owner) monitor() *monitor.Monitor {
	o.t.Helper()
	m, err := monitor.New(monitor.Options{Organization: attestation.UUID(organization), Ask: o.ask, Policy: o.policy, MaxAge: time.Minute, Tiles: o.tiles, Witnesses: o.via,
		Proofs: func(context.Context, string) (attestation.BootProof, error) { return o.boot, nil },
		Now:    func() time.Time { return o.now },
		Pause:  func(context.Context, time.Duration) error { return nil },
		Tell:   func(e monitor.Event) { o.events = append(o.events, e) },
		Save: func(s monitor.State) error {
			raw, err := json.Marshal(s)
			must(o.t, err)
			o.kept, err = monitor.ParseState(raw)
			return err
		}}, o.kept)
	must(o.t, err)
	return m
}

// runOnce is one turn of a monitor that was started for it: the kinds of its events but entries, and how many entries.
func (o *owner) runOnce() (kinds string, entries int, err error) {
	o.t.Helper()
	o.events = nil
	m := o.monitor()
	err = m.Poll(context.Background())
	for _, e := range o.events {
		if e.Kind == monitor.KindEntry {
			entries++
			continue
		}
		kinds += string(e.Kind) + " "
	}
	return strings.TrimSpace(kinds), entries, err
}

func (o *owner) expect(kinds string, entries int) {
	o.t.Helper()
	if got, n, err := o.runOnce(); err != nil || got != kinds || n != entries {
		o.t.Fatalf("%q and %d entries, %v; want %q and %d\n%+v", got, n, err, kinds, entries, o.events)
	}
}

// refuse wants a turn that is broken off.
func (o *owner) refuse(kinds string, refused bool) {
	o.t.Helper()
	if got, _, err := o.runOnce(); err == nil || got != kinds || errors.Is(err, monitor.ErrRefused) != refused {
		o.t.Fatalf("%q, %v; want %q\n%+v", got, err, kinds, o.events)
	}
}

// Everything is told once, in order, and nothing else is, whatever comes in between and however often it is started.
func TestWatch(t *testing.T) {
	o := newOwner(t)
	o.expect("log", 1)
	for n := range 12 {
		for range n {
			o.decide()
		}
		o.world.Grow(o.world.Tree.Size() + uint64(n%3))
		o.expect("", n)
		for _, e := range o.events {
			if e.Alert || e.Type != "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2" || e.Mode != "strict" || e.Activity == "" || *e.Seq == 0 || e.Decided == "" {
				t.Fatalf("%+v", e)
			}
		}
	}
	for range 250 { // more than a page
		o.decide()
	}
	o.expect("", 250)
	// A step that follows is an entry too, and the list has its activity once.
	waits := [16]byte{8}
	o.step(waits, "ACTIVITY_STATUS_CONSENSUS_NEEDED", 0)
	o.expect("", 1)
	o.decide()
	o.step(waits, "ACTIVITY_STATUS_COMPLETED", o.world.Entries(organization)-1)
	o.expect("", 2)
	if o.kept.Next != o.world.Entries(organization) || len(o.kept.Steps) > 1 {
		t.Errorf("%+v", o.kept)
	}
}

// A monitor may begin in the middle; what was before must stay, though it was not shown.
func TestBeginsAtTheNewest(t *testing.T) {
	o := newOwner(t)
	for range 9 {
		o.decide()
	}
	m := o.monitor()
	seq, err := m.Newest(context.Background())
	must(t, err)
	if seq != 9 || m.Begun() {
		t.Fatal(seq)
	}
	m.BeginAt(seq)
	o.events = nil
	must(t, m.Poll(context.Background()))
	if len(o.events) != 1 || *o.events[0].Seq != 9 {
		t.Fatalf("%+v", o.events)
	}
	o.decide()
	o.expect("", 1)
	// The third entry becomes another.
	fork := newOwner(t)
	for n := range 9 {
		if n == 3 {
			fork.now = fork.now.Add(time.Millisecond)
		}
		fork.decide()
	}
	fork.decide()
	fork.decide()
	o.world, o.listed = fork.world, fork.listed
	o.refuse("rewritten refused", true)
}

// What a host does to its log, and what it is told on by.
func TestAttacks(t *testing.T) {
	grown := func(t *testing.T) *owner {
		o := newOwner(t)
		for range 5 {
			o.decide()
		}
		o.expect("log", 6)
		return o
	}
	// fork is the same history with something else in it.
	fork := func(o *owner, of int, change func(*owner, int)) {
		other := newOwner(o.t)
		for n := range of {
			change(other, n)
			other.decide()
		}
		o.world, o.listed = other.world, other.listed
		o.now = other.now.Add(time.Second)
	}
	t.Run("an activity is left out of the list", func(t *testing.T) {
		o := grown(t)
		o.withheld = o.decide()
		o.decide()
		o.expect("withheld", 2)
		if e := o.events[2]; e.Activity != o.withheld || !e.Alert {
			t.Errorf("%+v", e)
		}
		o.expect("withheld", 0) // as long as it is
		o.withheld = ""
		o.expect("", 0)
	})
	t.Run("a step is left out of the list", func(t *testing.T) {
		o := grown(t)
		id := o.step([16]byte{8}, "ACTIVITY_STATUS_CONSENSUS_NEEDED", 0)
		o.expect("", 1)
		old := slices.Clone(o.listed)
		o.step([16]byte{8}, "ACTIVITY_STATUS_COMPLETED", o.world.Entries(organization))
		o.listed = old
		o.expect("withheld", 1)
		if o.events[1].Activity != id {
			t.Errorf("%+v", o.events)
		}
	})
	t.Run("an activity is in no entry", func(t *testing.T) {
		o := grown(t)
		o.now = o.now.Add(time.Second)
		o.list("77777777-7777-4777-8777-777777777777", "ACTIVITY_STATUS_COMPLETED")
		o.expect("unlogged", 0)
	})
	t.Run("an activity is in no entry, in the second of the newest", func(t *testing.T) {
		o := grown(t)
		o.list("77777777-7777-4777-8777-777777777777", "ACTIVITY_STATUS_COMPLETED")
		o.expect("unlogged", 0)
	})
	t.Run("the list tells of another outcome", func(t *testing.T) {
		o := grown(t)
		o.decide()
		o.listed[0]["status"] = "ACTIVITY_STATUS_FAILED"
		o.expect("withheld", 1)
	})
	t.Run("an entry is denied", func(t *testing.T) {
		o := grown(t)
		o.decide()
		o.last = 6
		o.expect("unlogged", 0)
	})
	t.Run("an entry that was shown is denied", func(t *testing.T) {
		o := grown(t)
		o.last = 5
		o.refuse("rewritten refused", true)
	})
	t.Run("the head stands still", func(t *testing.T) {
		o := grown(t)
		o.head, o.now = o.world.Tree.Size(), o.now.Add(2*time.Minute)
		o.expect("head-old", 0)
	})
	t.Run("the head goes back", func(t *testing.T) {
		o := grown(t)
		o.head = o.world.Tree.Size() - 1
		o.expect("head-back", 0)
		o.head = 0
		o.expect("", 0)
	})
	t.Run("another log of the same size", func(t *testing.T) {
		o := grown(t)
		size := o.world.Tree.Size()
		fork(o, 5, func(*owner, int) {})
		o.world.Grow(size + 1)
		o.expect("", 0)
		fork(o, 5, func(o *owner, n int) {
			if n == 4 {
				o.world.Append(tlog.Leaf{Boot: [16]byte{7}})
			}
		})
		o.refuse("head-forked refused", true)
		if e := o.events[0]; len(e.Evidence) != 2 || e.Evidence[0] == e.Evidence[1] || !strings.HasPrefix(e.Evidence[1], logs) {
			t.Errorf("%+v", e)
		}
	})
	other := func(o *owner, n int) { // of somebody else
		if n == 2 {
			o.world.Record(tlog.Facts{Organization: [16]byte{3}})
		}
	}
	t.Run("a larger log that is forked for others", func(t *testing.T) {
		o := grown(t)
		fork(o, 6, other)
		o.expect("", 1) // nothing of it concerns the owner, and without tiles nothing shows it
	})
	t.Run("the same where there are tiles", func(t *testing.T) {
		o := newOwner(t)
		o.tiles = o.serve
		for range 5 {
			o.decide()
		}
		o.expect("log", 6)
		o.world.Grow(700)
		o.decide()
		o.expect("", 1)
		fork(o, 6, other)
		o.world.Grow(800)
		o.decide()
		o.refuse("head-forked refused", true)
		if e := o.events[len(o.events)-2]; len(e.Evidence) != 2 {
			t.Errorf("%+v", e)
		}
		o.refuse("head-forked refused", true) // again, as long as it is
	})
	t.Run("tiles that are late, gone or of nothing", func(t *testing.T) {
		o := newOwner(t)
		late := 3
		o.tiles = func(ctx context.Context, path string) ([]byte, error) {
			if late--; late > 0 {
				return nil, errors.New("not yet")
			}
			return o.serve(ctx, path)
		}
		o.expect("log", 1)
		o.decide()
		o.expect("", 1)
		at := o.kept.Consistent
		o.decide()
		o.tiles = func(context.Context, string) ([]byte, error) { return nil, errors.New("not yet") }
		o.refuse("unseen", false)
		o.tiles = func(ctx context.Context, path string) ([]byte, error) {
			b, err := o.serve(ctx, path)
			return append(b, 0), err
		}
		o.refuse("unseen", false)
		o.tiles = func(ctx context.Context, path string) ([]byte, error) {
			b, err := o.serve(ctx, path)
			b[3] ^= 1
			return b, err
		}
		o.refuse("refused", true)
		if o.kept.Consistent != at {
			t.Error("what was not proven counts as proven")
		}
		o.tiles = o.serve
		o.expect("", 0)
	})
	t.Run("an entry before is another", func(t *testing.T) {
		o := grown(t)
		fork(o, 7, func(o *owner, n int) {
			if n == 2 {
				o.now = o.now.Add(time.Millisecond)
			}
		})
		o.refuse("rewritten refused", true)
	})
	t.Run("an entry is decided before the one before", func(t *testing.T) {
		o := grown(t)
		o.now = o.now.Add(-time.Minute)
		o.decide()
		o.now = o.now.Add(2 * time.Minute)
		o.expect("clock-back", 1)
	})
	for name, alter := range map[string]func(*attestation.LogProof){
		"a proof is altered":         func(r *attestation.LogProof) { r.LogProof = strings.Replace(r.LogProof, "\nindex ", "\nindex 1", 1) },
		"another log's key is named": func(r *attestation.LogProof) { _ = json.Unmarshal(file(t, "log-key-2.json"), &r.LogKey) },
		"a boot's key is another":    func(r *attestation.LogProof) { r.LogKey.PublicKey = strings.Replace(r.LogKey.PublicKey, "0", "1", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			o := grown(t)
			o.decide()
			o.alter = alter
			o.refuse("refused", true)
			o.alter = nil
			o.expect("", 1)
		})
	}
	t.Run("nothing is answered", func(t *testing.T) {
		o := grown(t)
		o.decide()
		for _, operation := range []string{"get_log_proof", "list_activities"} {
			o.fail = func(asked string) error {
				if asked == operation {
					return errors.New("no way there")
				}
				return nil
			}
			o.refuse("unseen", false)
		}
		o.fail = nil
		o.expect("", 0) // it was told of when the list failed
	})
	t.Run("an entry of another organization", func(t *testing.T) {
		o := grown(t)
		o.alter = func(r *attestation.LogProof) {
			text, err := o.world.Prove([16]byte{2}, 4).Text()
			must(t, err)
			r.LogProof = text
		}
		o.refuse("refused", true)
	})
	t.Run("another entry", func(t *testing.T) {
		o := grown(t)
		o.alter = func(r *attestation.LogProof) {
			text, err := o.world.Prove(organization, 2).Text()
			must(t, err)
			r.LogProof = text
		}
		o.refuse("refused", true)
	})
}

// serve is what a host publishes.
func (o *owner) serve(_ context.Context, path string) ([]byte, error) {
	t, err := mod.ParseTilePath(strings.Replace(path, "tile/", "tile/8/", 1))
	if err != nil {
		return nil, err
	}
	return mod.ReadTileData(t, &o.world.Tree)
}

// Whoever goes on from another log is told apart; nobody goes back.
func TestGenerations(t *testing.T) {
	for how, alert := range map[tlog.How]bool{tlog.HowMoved: false, tlog.HowRecovered: true} {
		o := newOwner(t)
		o.decide()
		o.expect("log", 2)
		first := o.world
		a := o.adopt(how, 0)
		if alert {
			a.Witnessed += 2
		}
		o.begin(2, a)
		o.decide()
		o.expect("log", 1)
		if e := o.events[0]; e.Alert != alert || alert != strings.Contains(e.Text, "recovered, 2 batches lost") || e.Log != logs+"/2" {
			t.Errorf("%+v", e)
		}
		o.expect("", 0) // it is told once
		o.world = first
		o.decide() // as if it had gone on there
		o.refuse("refused", true)
	}
	o := newOwner(t)
	o.expect("log", 1)
	o.begin(4, o.adopt(tlog.HowMoved, 0))
	o.decide()
	o.expect("log log", 1)
	if e := o.events[0]; !e.Alert || !strings.Contains(e.Text, "2 generation(s)") {
		t.Errorf("%+v", e)
	}
	// Whoever decides nothing sees the log go on all the same.
	o = newOwner(t)
	o.decide()
	o.expect("log", 2)
	o.begin(2, o.adopt(tlog.HowMoved, 0))
	o.expect("log", 0)
	if e := o.events[0]; e.Alert || e.Log != logs+"/2" {
		t.Errorf("%+v", e)
	}
	o.expect("", 0)
	o.decide()
	o.expect("", 1)
}

// recovered is an owner whose log is recovered once it was seen: what he lost was told of.
func recovered(t *testing.T, decided int, lost uint64) (o *owner, before *tlogtest.World) {
	o = newOwner(t)
	for range decided {
		o.decide()
	}
	o.expect("log", decided+1)
	before = o.world
	o.begin(2, o.adopt(tlog.HowRecovered, lost))
	for range uint64(decided) + 1 - o.world.Entries(organization) {
		o.listed = o.listed[1:]
	}
	o.now = o.now.Add(10 * time.Minute)
	return o, before
}

// The monitor goes back to what a recovery has left, says what is lost, once, and goes on from there.
func TestRecovery(t *testing.T) {
	monitor.SetMaxPlaces(t, 32)
	for _, c := range []struct {
		decided, lost, after, gone int
	}{
		{5, 0, 0, 0}, {5, 0, 2, 0}, {5, 1, 0, 0}, {5, 2, 0, 1}, {5, 2, 3, 1}, {5, 7, 0, 3}, {5, 7, 1, 3}, {5, 7, 9, 3}, {60, 50, 3, 25},
	} {
		o, _ := recovered(t, c.decided, uint64(c.lost))
		for range c.after {
			o.decide()
		}
		kinds := "log"
		if c.gone > 0 {
			kinds = "log lost"
		}
		o.expect(kinds, c.after)
		if e := o.events[0]; !e.Alert || !strings.Contains(e.Text, "recovered, ") || c.gone > 0 && (!o.events[1].Alert || *o.events[1].Seq != uint64(c.decided+1-c.gone) || !strings.HasPrefix(o.events[1].Text, fmt.Sprint(c.gone, " entries"))) {
			t.Errorf("%+v: %+v", c, o.events)
		}
		o.expect("", 0)
		o.decide()
		o.decide()
		o.expect("", 2)
		if o.kept.Recovered != nil || o.kept.Next != o.world.Entries(organization) {
			t.Errorf("%+v", o.kept)
		}
	}
	// Nothing was shown between two recoveries.
	o, _ := recovered(t, 5, 7)
	o.fail = func(operation string) error {
		if operation == "list_activities" {
			return errors.New("no way there")
		}
		return nil
	}
	o.refuse("log lost unseen", false)
	o.fail = nil
	o.expect("", 0)
	// It breaks off between the head and what is left, and is known when it is started anew.
	o, _ = recovered(t, 5, 7)
	asked := 0
	o.fail = func(string) error {
		if asked++; asked > 2 {
			return errors.New("no way there")
		}
		return nil
	}
	o.refuse("log unseen", false)
	if o.kept.Recovered == nil {
		t.Fatalf("%+v", o.kept)
	}
	o.fail = nil
	o.expect("lost", 0)
	// More is lost than operators say.
	o = newOwner(t)
	for range 5 {
		o.decide()
	}
	o.expect("log", 6)
	a := o.adopt(tlog.HowRecovered, 7)
	a.Witnessed -= 3
	o.begin(2, a)
	o.listed, o.now = o.listed[3:], o.now.Add(10*time.Minute)
	o.expect("log log lost", 0)
	if e := o.events[0]; !strings.Contains(e.Text, "more is lost than it says") {
		t.Errorf("%+v", e)
	}
}

// A recovery excuses what it says is lost, and nothing else.
func TestRecoveryIsNoExcuse(t *testing.T) {
	t.Run("an entry before is another", func(t *testing.T) {
		o, _ := recovered(t, 5, 7)
		other := newOwner(t)
		other.now = other.now.Add(time.Millisecond)
		other.decide()
		o.world.TakeOver(other.world, organization, 2)
		o.refuse("log rewritten refused", true)
	})
	t.Run("an entry that is left is gone", func(t *testing.T) {
		o, before := recovered(t, 5, 3)
		o.world.TakeOver(before, organization, 3)
		o.refuse("log rewritten refused", true)
	})
	t.Run("all are gone", func(t *testing.T) {
		o, before := recovered(t, 5, 3)
		o.world.TakeOver(before, organization, 0)
		o.refuse("rewritten refused", true)
	})
	t.Run("without a recovery", func(t *testing.T) {
		o, before := recovered(t, 5, 3)
		a := o.adopt(tlog.HowMoved, 0)
		a.Origin, a.Size = logs+"/1", before.Tree.Size()+1
		o.begin(2, a)
		o.world.TakeOver(before, organization, 3)
		o.refuse("log rewritten refused", true)
	})
	t.Run("moved from a part of the log", func(t *testing.T) {
		o, before := recovered(t, 5, 3)
		o.world = before
		o.begin(2, o.adopt(tlog.HowMoved, 3))
		o.refuse("head-forked refused", true)
	})
	t.Run("recovered from another log of that size", func(t *testing.T) {
		o, before := recovered(t, 5, 3)
		o.world = before
		a := o.adopt(tlog.HowRecovered, 0)
		a.Root[0] ^= 1
		o.begin(2, a)
		o.refuse("head-forked refused", true)
	})
	t.Run("recovered from another log", func(t *testing.T) {
		o, before := recovered(t, 5, 3)
		o.world = before
		a := o.adopt(tlog.HowRecovered, 3)
		a.Origin = strings.Replace(logs, "log.example", "other.example", 1) + "/1"
		o.begin(2, a)
		o.refuse("log rewritten refused", true)
	})
	t.Run("recovered while it is looked at", func(t *testing.T) {
		o := newOwner(t)
		for range 5 {
			o.decide()
		}
		o.expect("log", 6)
		o.fail = func(operation string) error {
			if operation == "list_activities" {
				o.fail = nil
				o.begin(2, o.adopt(tlog.HowRecovered, 7))
				o.listed, o.now = o.listed[3:], o.now.Add(10*time.Minute)
			}
			return nil
		}
		o.refuse("log unseen", false)
		o.expect("lost", 0)
	})
	t.Run("more than is remembered", func(t *testing.T) {
		monitor.SetMaxPlaces(t, 32)
		o, _ := recovered(t, 60, 100)
		o.refuse("log rewritten refused", true)
	})
}
