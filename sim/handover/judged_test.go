package handover_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/attestation/tlog"
	"cloister/host/cosign"
	"cloister/host/link"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/witness/witnesstest"
)

// A judged world has the witnesses of others, as processes.
type judged struct {
	*world
	mode tlog.Mode
	orgs []*organization
	to   atomic.Pointer[caller] // whom clients ask
	made []made
}

// A made activity has been acknowledged to a client.
type made struct {
	seen
	of *organization
}

// termsOf are the terms under which three of some witnesses cosign from a generation on.
func (j *judged) termsOf(of []*witnesstest.Program, generation uint32) *attestation.LogTerms {
	l := &attestation.LogTerms{Name: "hand-over", Policy: witnesstest.Policy(3, of...), Tolerates: 1, Mode: j.mode.String(), ServeMs: 3_000, Generation: generation}
	if j.mode == tlog.ModeBounded {
		l.BoundMs = 2_000
	}
	return l
}

// Call asks whoever serves at the time.
func (j *judged) Call(ctx context.Context, c *wire.Call) (*wire.Reply, error) {
	return (*j.to.Load()).Call(ctx, c)
}

func (j *judged) ask(to caller) { j.to.Store(&to) }

// load has a client work in each organization. end stops them, keeps what was acknowledged, and returns how many bodies were
// sent again.
func (j *judged) load() (end func() (again int)) {
	var stop atomic.Bool
	results := make([][]seen, len(j.orgs))
	var clients sync.WaitGroup
	for i, o := range j.orgs {
		clients.Go(func() { results[i] = j.client(j, o, fmt.Sprint(len(j.made), " ", i), &stop) })
	}
	return func() (again int) {
		j.t.Helper()
		stop.Store(true)
		clients.Wait()
		for i, all := range results {
			for _, s := range all {
				again += s.tries - 1
				j.made = append(j.made, made{s, j.orgs[i]})
			}
		}
		return again
	}
}

// logsOf waits until an enclave tells of the log of every range, and of its next generation.
func (j *judged) logsOf(e *enclave) (now, next []*tlog.Key) {
	j.t.Helper()
	clocktest.Until(j.t, fmt.Sprintf("%d logs", ranges), func() bool {
		var logs []struct{ VKey, NextVKey string }
		must(j.t, json.Unmarshal(e.must("status", nil)["logs"], &logs))
		now, next = nil, nil
		for _, l := range logs {
			for vkey, keys := range map[string]*[]*tlog.Key{l.VKey: &now, l.NextVKey: &next} {
				k, err := tlog.ParseKey(vkey)
				must(j.t, err)
				*keys = append(*keys, k)
			}
		}
		return len(now) == ranges
	})
	return now, next
}

// signedAgain waits until a witness has signed the newest checkpoint of every log, after it was away.
func (j *judged) signedAgain(p *witnesstest.Program) {
	j.t.Helper()
	before := map[string]uint64{}
	newest := func() []cosign.Status { return j.cosigner.(*cosign.Cosigner).Statuses() }
	for _, l := range newest() {
		before[l.Origin] = l.Size
	}
	clocktest.Until(j.t, p.Key.Name()+" signs again", func() bool {
		return !slices.ContainsFunc(newest(), func(l cosign.Status) bool {
			return slices.ContainsFunc(l.Witnesses, func(s cosign.WitnessStatus) bool {
				return s.Witness == p.Key.Name() && s.Size < before[l.Origin]
			})
		})
	})
}

// killEach kills some witnesses in turn while clients work: the three others are enough.
func (j *judged) killEach(of []*witnesstest.Program) {
	j.t.Helper()
	for _, p := range of {
		p.Kill()
		j.signs(40)
		p.Start()
		j.signedAgain(p)
	}
}

// withoutQuorum kills two of four witnesses, which leaves nobody answered, and has them come back.
func (j *judged) withoutQuorum(two []*witnesstest.Program) {
	j.t.Helper()
	for _, p := range two {
		p.Kill()
	}
	c := j.orgs[0].query("whoami", nil)
	c.WithinMs = 700
	clocktest.Until(j.t, "a query is refused for want of witnesses", func() bool {
		r, err := j.Call(j.t.Context(), c)
		must(j.t, err)
		return r.Status == 503 && client.Reply{Body: r.Body}.Text("turnkeyErrorCode") == "LOG_UNAVAILABLE"
	})
	for _, p := range two {
		p.Start()
	}
	j.signs(20)
}

// prove holds that each acknowledged activity is in the log, by what this project verifies and by torchwood, offline.
func (j *judged) prove(e *enclave, m *attestation.Manifest, generation uint32) {
	j.t.Helper()
	boot, largest, witnesses := j.bootOf(e, m), 0, map[string]bool{}
	for _, a := range j.made {
		id := send(j.t, e.link, a.call).Text("activity", "id")
		var p attestation.LogProof
		must(j.t, json.Unmarshal(send(j.t, e.link, a.of.query("get_log_proof", client.Object{"activityId": id})).Body, &p))
		l, err := attestation.VerifyLogProof(p.LogProof, p.LogKey, boot)
		if err == nil {
			err = attestation.Expectation{OrganizationID: a.of.Organization, ActivityID: id, Fingerprint: fmt.Sprintf("sha256:%x", sha256.Sum256(a.call.Body))}.CheckLogged(l)
		}
		if err != nil || l.Origin.Generation != generation || len(l.Signed) < 3 {
			j.t.Fatalf("activity %s: %v, %v", id, l, err)
		}
		for _, s := range l.Signed {
			witnesses[s.Witness] = true
		}
		largest = max(largest, len(p.LogProof))
		stated, err := boot.VerifyAppProof(p.LogKey)
		must(j.t, err)
		policy := "log " + stated.Claim.(*attestation.LogKey).Key + "\n" + m.Log.Policy
		leaf, err := l.Leaf.Encode()
		must(j.t, err)
		if why := witnesstest.Torchwood(j.t, policy, leaf, p.LogProof); why != "" {
			j.t.Fatalf("torchwood, activity %s: %s", id, why)
		}
	}
	if len(witnesses) < 4 {
		j.t.Errorf("only %v have cosigned what was proven", witnesses)
	}
	j.t.Logf("counted: %s, generation %d: %d activities proven to attestation and to torchwood, the largest proof has %d bytes", j.mode, generation, len(j.made), largest)
}

// bootOf is the verified boot of an enclave.
func (j *judged) bootOf(e *enclave, m *attestation.Manifest) *attestation.Boot {
	j.t.Helper()
	raw, err := attestation.ParseReply(send(j.t, e.link, j.orgs[0].query("get_latest_boot_proof", client.Object{"appName": attestation.Application})).Body)
	must(j.t, err)
	boot, err := attestation.VerifyBootProof(raw.BootProofs[0], j.policy(m))
	must(j.t, err)
	return boot
}

// consistent holds that what each witness has seen of each log is its beginning, as each of them judges.
func (j *judged) consistent(of []*witnesstest.Program, generation uint32) {
	j.t.Helper()
	all := j.heads(j.store)
	if len(all) != ranges {
		j.t.Fatalf("heads of %d logs", len(all))
	}
	for _, h := range all {
		if h.Generation != generation || h.Damaged != nil || h.Answers() != len(of) || len(h.Others()) > 0 || h.Missing() > 0 || h.Saw(h.Cosigned) < 3 {
			j.t.Errorf("the log of range %d: %+v", h.Range, h)
		}
	}
}

// An enclave has two litewitness and two omniwitness as its witnesses while it serves. Each is killed and comes back, then the
// enclave is killed and another boots, and then the next enclave goes on with another set. All that clients were told is
// proven by the cosignatures of these programs.
func TestWitnessesOfOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: a deployment whose witnesses are the programs of others")
	}
	for _, mode := range []tlog.Mode{tlog.ModeStrict, tlog.ModeBounded} {
		t.Run(mode.String(), func(t *testing.T) {
			lite := func(n int) *witnesstest.Program { return witnesstest.Litewitness(t, fmt.Sprint("lite.example/", n)) }
			omni := func(n int) *witnesstest.Program { return witnesstest.Omniwitness(t, fmt.Sprint("omni.example/", n)) }
			first := []*witnesstest.Program{lite(1), omni(1), lite(2), omni(2)}
			second := []*witnesstest.Program{first[1], first[2], first[3], lite(3)}

			j := &judged{world: newWorld(t), mode: mode}
			j.manifest.Log = j.termsOf(first, 0)
			e := j.serving() // and waits for witnesses, who do not know its logs yet
			logs, _ := j.logsOf(e)
			for _, p := range first {
				p.AddLogs(logs...)
			}
			j.ask(e.link)
			for range 6 {
				j.orgs = append(j.orgs, j.organization(e.link))
			}
			end := j.load()
			j.signs(50)
			j.killEach(first)
			if again := end(); again > 0 {
				t.Errorf("%d bodies had to be sent again while one witness was away", again)
			}

			end = j.load()
			j.signs(20)
			j.withoutQuorum(first[:2])
			e.stop()
			e = j.serving()
			e.takeAll()
			j.ask(e.link)
			j.signs(50)
			t.Logf("counted: %d bodies were sent again while two witnesses were away, and while the enclave was killed and booted", end())
			j.prove(e, j.manifest, 1)
			j.consistent(first, 1)

			m := after(t, j.manifest)
			m.Log = j.termsOf(second, 2)
			next := j.waiting(m, j.manifest, nil)
			end = j.load()
			j.signs(20)
			_, logs = j.logsOf(e)
			for _, p := range second {
				p.AddLogs(logs...)
				j.signedAgain(p)
			}
			j.ask(j.host(e, next)) // which moves ranges too
			must(t, link.Upgrade(t.Context(), e.asked, next.asked, time.Now, pause, t.Logf))
			first[0].Kill() // it is needed no more
			j.signs(50)
			j.killEach(second)
			t.Logf("counted: %d bodies were sent again while ranges moved and one witness after the other was away", end())
			j.prove(next, m, 2)
			j.consistent(second, 2)
			for _, o := range j.orgs {
				bodies := 0
				for _, a := range j.made {
					if a.of == o {
						bodies++
					}
				}
				if n := j.count(next, o); n != bodies {
					t.Errorf("%d activities for %d bodies", n, bodies)
				}
			}
		})
	}
}
