package hostile_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"cloister/enclave/core"
	"cloister/sim/client"
	"cloister/sim/hostile"
)

// An attack is one kind of misbehaviour of the host. The table is in attacks.
type attack struct {
	name    string
	touches string // what the host alters
	// counter is the enclave's that must rise, and no alarm but it. Empty: the
	// request itself is refused, with an HTTP status.
	counter string
	// off are the checks, by their names in package insecure, without which the
	// attack succeeds. Where that is empty, behind says why nothing succeeds.
	off     []string
	behind  string
	closed  bool         // switching off suffices only for an organization that is not open yet
	prepare func(*field) // once before the first strike
	strike  func(f *field, v *victim, r *rand.Rand) outcome
}

// outcome is what came of one strike. Neither refused nor believed: something
// else stopped it, as told in note.
type outcome struct {
	refused, believed bool
	note              string
	before, after     map[string]uint64 // counters, if the enclave is another one afterwards
}

func judged(refused, believed bool, format string, args ...any) outcome {
	return outcome{refused: refused, believed: believed, note: fmt.Sprintf(format, args...)}
}

// A group is attacks on enclaves with the same limits.
type group struct {
	name    string
	limits  core.Limits
	attacks []attack
}

// tiny limits leave room for one organization, so that each use of another is a
// load.
var tiny = core.Limits{StateBytes: 1, SnapshotEvery: 1000, Lease: lease}

// groups are all attacks there are.
var groups = []group{
	{"deployments", tiny, deployments},
	{"owners", tiny, owners},
	{"loads", tiny, loads},
	{"histories", tiny, histories},
	{"requests", tiny, requests},
	{"frames", tiny, frames},
	{"rules", tiny, rules},
	{"acknowledgements", core.Limits{StateBytes: 48 << 10, UnstoredBytes: unstoredBytes, SnapshotEvery: 1000, Lease: lease}, acknowledgements},
}

// A forger makes a lie about a victim.
type forger func(f *field, v *victim, r *rand.Rand) hostile.Lie

// A question is a call that makes the enclave ask its host.
type question func(f *field, v *victim, r *rand.Rand) func() answer

// lied is the strike that tells a lie while a call is answered. Meanwhile another
// organization is served.
func lied(forge forger, ask question) func(*field, *victim, *rand.Rand) outcome {
	return func(f *field, v *victim, r *rand.Rand) outcome {
		call := ask(f, v, r)
		f.arm(r, forge(f, v, r))
		a := f.provoke(v, call)
		f.good(f.twin(v))
		f.disarm()
		return judged(a.refused(), a.Status == 200, "%.200s", a)
	}
}

// who asks for nothing but the organization itself.
func who(f *field, v *victim, _ *rand.Rand) func() answer {
	return func() answer { return f.whoami(v) }
}

// accounts asks for records in large pieces, of an organization that is open.
func accounts(f *field, v *victim, _ *rand.Rand) func() answer {
	f.good(v)
	return func() answer { return f.query(v, "list_wallet_accounts", client.Object{"walletId": v.wallet}) }
}

// past asks for one old entry.
func past(f *field, v *victim, r *rand.Rand) func() answer {
	id := v.activities[1+r.IntN(len(v.activities)-2)]
	return func() answer { return f.query(v, "get_activity", client.Object{"activityId": id}) }
}

// listed asks for a page of old entries.
func listed(f *field, v *victim, _ *rand.Rand) func() answer {
	return func() answer {
		return f.query(v, "list_activities", client.Object{"paginationOptions": client.Object{"limit": "5"}})
	}
}

// renamings asks for a page of old entries of one type.
func renamings(f *field, v *victim, _ *rand.Rand) func() answer {
	return func() answer {
		return f.query(v, "list_activities", client.Object{"filterByType": []string{"ACTIVITY_TYPE_UPDATE_USER_NAME"}, "paginationOptions": client.Object{"limit": "3"}})
	}
}

// describe names an attack's switches for the log.
func (a *attack) describe() string {
	if len(a.off) == 0 {
		return "behind it: " + a.behind
	}
	return "off: " + strings.Join(a.off, "+")
}
