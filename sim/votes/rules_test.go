package votes_test

import (
	"fmt"
	"testing"
	"time"
)

// What a rule of a table says is held against the model alone: agreement with an enclave means little where the model says
// nothing. Operations are numbered from 2: before them user 0 made users up to 4 and the root quorum of the row.
func TestRules(t *testing.T) {
	wallet := func(by int) op {
		return op{verb: submit, by: by, key: -1, ask: ask{kind: createWallet, rule: rule{whom: -1}}}
	}
	asks := func(by int, in ask) op { return op{verb: submit, by: by, key: -1, ask: in} }
	yes := func(by, target int) op { return op{verb: approve, by: by, key: -1, target: target} }
	no := func(by, target int) op { return op{verb: reject, by: by, key: -1, target: target} }
	same := func(by, target int) op { return op{verb: again, by: by, key: -1, target: target} }
	with := func(o op, key int) op {
		o.key = key
		return o
	}
	wait := func(d time.Duration) op { return op{verb: pass, time: d} }
	lets := func(r rule) op { return asks(0, ask{kind: createPolicy, name: 3, rule: r}) }
	two := rule{count: 2, whom: -1}
	const day = 24 * time.Hour
	const open, done, fail, ended = "CONSENSUS_NEEDED", "COMPLETED", "FAILED", "REJECTED"
	for _, c := range []struct {
		name      string
		threshold int
		root      []int
		ops       []op
		want      []string // status that is shown, or error code; empty: not looked at
	}{
		{"a root member alone", 1, []int{0}, []op{wallet(0)}, []string{done}},
		{"a stranger", 1, []int{0}, []op{wallet(9)}, []string{"code 16"}},
		{"no policy", 1, []int{0}, []op{wallet(1), same(1, 2), same(2, 2), yes(0, 2)}, []string{"code 7", "code 7", "code 7", "code 9"}},
		{"one name twice", 1, []int{0}, []op{wallet(0), wallet(0), same(0, 3)}, []string{done, "code 3", "code 3"}},
		{"two of three", 2, []int{0, 1, 2}, []op{wallet(0), yes(0, 2), same(0, 2), yes(4, 2), yes(2, 2), yes(1, 2)}, []string{open, open, open, "code 7", done, "code 9"}},
		{"the same body from others", 2, []int{0, 1, 2}, []op{wallet(0), same(4, 2), same(1, 2), same(2, 2)}, []string{open, open, done, done}},
		{"the same body too late", 2, []int{0, 1}, []op{wallet(0), wait(time.Hour), same(1, 2), yes(1, 2)}, []string{open, "", open, done}},
		{"the same body after a no", 2, []int{0, 1, 2}, []op{wallet(0), no(1, 2), same(1, 2), same(2, 2)}, []string{open, open, open, done}},
		{"the same body revives nothing", 1, []int{0}, []op{lets(rule{count: 3, whom: -1}), wallet(1), asks(0, ask{kind: createKey, user: 2}), with(same(2, 3), 4),
			asks(0, ask{kind: deleteKey, user: 2, ref: 4}), same(2, 3), yes(3, 3), yes(2, 3)}, []string{done, open, done, open, done, open, open, done}},
		{"unknown target", 1, []int{0}, []op{yes(0, 99)}, []string{"code 5"}},
		{"a vote sent again", 3, []int{0, 1, 2}, []op{wallet(0), yes(1, 2), same(1, 3), same(2, 3), yes(2, 2)}, []string{open, open, open, open, done}},
		{"two of three, one against", 2, []int{0, 1, 2}, []op{wallet(0), no(1, 2), yes(1, 2), yes(2, 2)}, []string{open, open, open, done}},
		{"two of three, two against", 2, []int{0, 1, 2}, []op{wallet(0), no(1, 2), no(2, 2), yes(2, 2)}, []string{open, open, ended, "code 9"}},
		{"two of two, one against", 2, []int{0, 1}, []op{wallet(0), no(1, 2)}, []string{open, ended}},
		{"the initiator cancels", 2, []int{0, 1, 2}, []op{wallet(0), no(0, 2), yes(1, 2)}, []string{open, ended, "code 9"}},
		{"from approval to rejection", 3, []int{0, 1, 2, 3}, []op{wallet(0), yes(1, 2), no(1, 2), yes(2, 2), yes(3, 2)}, []string{open, open, open, open, done}},
		{"just in time", 2, []int{0, 1}, []op{wallet(0), wait(day - time.Millisecond), yes(1, 2)}, []string{open, "", done}},
		{"lapsed", 2, []int{0, 1}, []op{wallet(0), wait(day), yes(1, 2), yes(0, 2)}, []string{open, "", open, done}},
		{"lapsed for everybody", 3, []int{0, 1, 2}, []op{wallet(0), wait(20 * time.Hour), yes(1, 2), wait(5 * time.Hour), yes(2, 2), yes(0, 2), yes(1, 2)},
			[]string{open, "", open, "", open, open, done}},
		{"lapsed twice", 2, []int{0, 1}, []op{wallet(0), wait(day), yes(1, 2), wait(day), yes(0, 2), yes(1, 2)}, []string{open, "", open, "", open, done}},
		{"rejections stay", 2, []int{0, 1, 2}, []op{wallet(0), no(1, 2), wait(3 * day), no(2, 2)}, []string{open, open, "", ended}},
		{"a second no looks again", 2, []int{0, 1, 2}, []op{wallet(2), no(0, 2), asks(1, ask{kind: updateQuorum, threshold: 1, users: []int{0}}), yes(2, 4), no(0, 2)},
			[]string{open, open, open, done, ended}},
		{"two by policy", 1, []int{0}, []op{lets(two), wallet(1), yes(2, 3)}, []string{done, open, done}},
		{"a removed user's vote", 1, []int{0}, []op{lets(rule{count: 3, whom: -1}), wallet(1), yes(2, 3), asks(0, ask{kind: deleteUser, user: 2}), yes(3, 3), yes(2, 3), yes(4, 3)},
			[]string{done, open, open, done, open, "code 16", done}},
		{"the initiator removed", 1, []int{0}, []op{lets(two), wallet(1), asks(0, ask{kind: deleteUser, user: 1}), yes(2, 3), yes(3, 3)}, []string{done, open, done, open, open}},
		{"a deleted key's vote", 1, []int{0}, []op{lets(two), wallet(1), asks(0, ask{kind: deleteKey, user: 1, ref: -1}), yes(2, 3), yes(3, 3)}, []string{done, open, done, open, done}},
		{"a deleted key of two", 1, []int{0}, []op{lets(two), wallet(1), asks(0, ask{kind: createKey, user: 1}), with(yes(1, 3), 4), asks(0, ask{kind: deleteKey, user: 1, ref: -1}), yes(2, 3)},
			[]string{done, open, done, open, done, done}},
		{"again with another key", 1, []int{0}, []op{lets(two), wallet(1), asks(0, ask{kind: createKey, user: 1}), asks(0, ask{kind: deleteKey, user: 1, ref: -1}), yes(2, 3), with(yes(1, 3), 4)},
			[]string{done, open, done, done, open, done}},
		{"an expired key's vote", 1, []int{0}, []op{lets(two), asks(0, ask{kind: createKey, user: 1, life: time.Hour}), with(wallet(1), 3), wait(time.Hour), yes(2, 4), yes(1, 4)},
			[]string{done, done, open, "", open, done}},
		{"a deleted key's rejection stays", 1, []int{0}, []op{lets(two), wallet(1), asks(0, ask{kind: createKey, user: 2}), no(2, 3), asks(0, ask{kind: deleteKey, user: 2, ref: -1}), with(yes(2, 3), 4)},
			[]string{done, open, done, open, done, open}},
		{"he must be among them", 1, []int{0}, []op{lets(rule{whom: 2}), wallet(1), wallet(2)}, []string{done, "code 7", done}},
		{"he and one more", 1, []int{0}, []op{lets(rule{whom: 2, count: 2}), wallet(1), no(3, 3), yes(2, 3)}, []string{done, open, open, done}},
		{"he is against it", 2, []int{0, 4}, []op{lets(rule{whom: 2, count: 2}), yes(4, 2), wallet(1), no(0, 4), no(2, 4)}, []string{open, done, open, open, ended}},
		{"deny beats allow", 1, []int{0}, []op{lets(two), asks(0, ask{kind: createPolicy, name: 2, rule: rule{deny: true, whom: -1}}), wallet(1)}, []string{done, done, "code 7"}},
		{"a vote makes deny apply", 1, []int{0}, []op{lets(rule{count: 3, whom: -1}), asks(0, ask{kind: createPolicy, name: 2, rule: rule{deny: true, whom: 2}}), wallet(1), yes(2, 4)},
			[]string{done, done, open, fail}},
		{"a broken deny", 1, []int{0}, []op{lets(two), asks(0, ask{kind: createPolicy, name: 2, rule: rule{deny: true, whom: -1, broken: true}}), wallet(1)}, []string{done, done, open}},
		{"root may override deny", 2, []int{0, 1}, []op{lets(rule{deny: true, whom: -1}), yes(1, 2), wallet(0), yes(1, 4)}, []string{open, done, open, done}},
		{"no policy changes the quorum", 1, []int{0}, []op{lets(rule{whom: -1}), asks(1, ask{kind: updateQuorum, threshold: 1, users: []int{1}}), wallet(1)}, []string{done, "code 7", done}},
		{"an own key", 1, []int{0}, []op{asks(1, ask{kind: createKey, user: 1}), asks(1, ask{kind: createKey, user: 2})}, []string{done, "code 7"}},
		{"an own key, but a policy speaks", 1, []int{0}, []op{lets(rule{whom: 2, kinds: []kind{createKey}}), asks(1, ask{kind: createKey, user: 1})}, []string{done, "code 7"}},
		{"the last key of the quorum", 1, []int{0}, []op{asks(0, ask{kind: deleteKey, user: 0, ref: -1})}, []string{"code 3"}},
		{"a member cannot be removed", 1, []int{0, 1}, []op{asks(0, ask{kind: deleteUser, user: 1})}, []string{"code 3"}},
		{"more than there are", 1, []int{0}, []op{asks(0, ask{kind: updateQuorum, threshold: 2, users: []int{0}}), same(0, 2)}, []string{"code 3", "code 3"}},
		{"an expired key", 1, []int{0}, []op{asks(1, ask{kind: createKey, user: 1, life: time.Hour}), wait(time.Hour), {verb: submit, by: 1, key: 2, ask: ask{kind: createKey, user: 1}}},
			[]string{done, "", "code 16"}},
		{"too old", 1, []int{0}, []op{{verb: submit, by: 0, key: -1, time: -61 * time.Minute, ask: ask{kind: createWallet}}, same(0, 2)}, []string{"code 3", "code 3"}},
		{"too early", 1, []int{0}, []op{{verb: submit, by: 0, key: -1, time: 6 * time.Minute, ask: ask{kind: createWallet}}, wait(time.Minute), same(0, 2)}, []string{"code 3", "", done}},
		{"old, but known", 1, []int{0}, []op{wallet(0), wait(3 * day), same(0, 2)}, []string{done, "", done}},
		{"done and failing", 2, []int{0, 1}, []op{wallet(0), wallet(0), yes(1, 2), yes(1, 3), same(0, 3)}, []string{open, open, done, fail, fail}},
	} {
		m := newModel()
		begin := []op{asks(0, ask{kind: createUsers, user: 5}), asks(0, ask{kind: updateQuorum, threshold: c.threshold, users: c.root})}
		for i, o := range append(begin, c.ops...) {
			o.no = i
			a := m.step(&o)
			got := ""
			if a.code != 0 {
				got = fmt.Sprintf("code %d", a.code)
			} else if a.a != nil {
				got = statusNames[a.a.status]
			}
			if i >= 2 && c.want[i-2] != "" && got != c.want[i-2] {
				t.Errorf("%s: %s: %s, want %s", c.name, o.String(), got, c.want[i-2])
			}
		}
		if len(c.want) != len(c.ops) {
			t.Errorf("%s: %d operations, %d expectations", c.name, len(c.ops), len(c.want))
		}
	}
}
