package crash_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"cloister/shared/wire"
)

// story is two bodies with their answers and what a sound deployment says of them.
func story() ([]*record, *observed) {
	o := &observed{organizations: map[string]*holdings{"org": {wallets: map[string]string{"w1": "Wallet"}, users: map[string]string{"u1": "Name"}}},
		got: map[string]*answer{}, again: map[wire.Hash]*answer{}, subs: map[string]bool{"s1": true}}
	var records []*record
	for i, r := range []struct{ op, parameters, result string }{
		{"create_wallet", `{"walletName":"Wallet"}`, `{"createWalletResult":{"walletId":"w1","addresses":["0x"]}}`},
		{"update_user_name", `{"userId":"u1","userName":"Name"}`, `{"updateUserNameResult":{"userId":"u1"}}`},
		{"create_sub_organization", `{}`, `{"createSubOrganizationResultV7":{"subOrganizationId":"s1"}}`},
	} {
		body := fmt.Sprintf(`{"timestampMs":"%d","parameters":%s}`, i, r.parameters)
		fp := sum([]byte(body))
		a := &answer{ID: fmt.Sprintf("a%d", i), Fingerprint: "sha256:" + hex.EncodeToString(fp[:]), Result: json.RawMessage(r.result)}
		records = append(records, &record{line: line{N: i, Op: r.op, Organization: "org", Body: body}, fingerprint: fp, answer: a})
		o.organizations["org"].listed = append(o.organizations["org"].listed, a)
		o.got[a.ID], o.again[fp] = a, a
	}
	return records, o
}

func TestJudgeAcceptsWhatIsSound(t *testing.T) {
	if wrong := judge(story()); len(wrong) > 0 {
		t.Fatal(wrong)
	}
}

// Everything that may go wrong must be seen by the oracle.
func TestJudgeSees(t *testing.T) {
	changed := func(a *answer) *answer {
		b := *a
		b.Result = json.RawMessage(`{"createWalletResult":{"walletId":"w2","addresses":["0x"]}}`)
		return &b
	}
	org := func(o *observed) *holdings { return o.organizations["org"] }
	for _, c := range []struct {
		what, want string
		do         func(rs []*record, o *observed)
	}{
		{"not found", "lost", func(rs []*record, o *observed) { delete(o.got, "a0") }},
		{"not listed", "lost", func(rs []*record, o *observed) { org(o).listed = org(o).listed[1:] }},
		{"found otherwise", "changed", func(rs []*record, o *observed) { o.got["a0"] = changed(o.got["a0"]) }},
		{"listed otherwise", "otherwise", func(rs []*record, o *observed) { org(o).listed[0] = changed(org(o).listed[0]) }},
		{"repeated otherwise", "another answer", func(rs []*record, o *observed) { o.again[rs[0].fingerprint] = changed(rs[0].answer) }},
		{"repetition refused", "refused", func(rs []*record, o *observed) { delete(o.again, rs[0].fingerprint) }},
		{"two activities of a body", "2 activities", func(rs []*record, o *observed) {
			b := *rs[0].answer
			b.ID = "a9"
			org(o).listed = append(org(o).listed, &b)
		}},
		{"listed twice", "twice", func(rs []*record, o *observed) { org(o).listed = append(org(o).listed, org(o).listed[0]) }},
		{"an activity of nobody", "nobody", func(rs []*record, o *observed) {
			org(o).listed = append(org(o).listed, &answer{ID: "a9", Fingerprint: "sha256:" + strings.Repeat("00", 32)})
		}},
		{"a fingerprint that is none", "nobody", func(rs []*record, o *observed) {
			org(o).listed = append(org(o).listed, &answer{ID: "a9", Fingerprint: "none"})
		}},
		{"in another organization", "nobody", func(rs []*record, o *observed) {
			o.organizations["other"] = &holdings{listed: org(o).listed[:1]}
			org(o).listed = org(o).listed[1:]
		}},
		{"a refused body with an activity", "a refused body", func(rs []*record, o *observed) { rs[0].answer, rs[0].refused = nil, "400" }},
		{"a body without answer", "never answered", func(rs []*record, o *observed) { rs[1].answer = nil }},
		{"a wallet gone", "missing", func(rs []*record, o *observed) { delete(org(o).wallets, "w1") }},
		{"a second wallet", "nobody", func(rs []*record, o *observed) { org(o).wallets["w2"] = "Wallet" }},
		{"a deleted wallet", "was deleted", func(rs []*record, o *observed) {
			rs[1].Op, rs[1].Body = "delete_wallets", `{"parameters":{"walletIds":["w1"]}}`
		}},
		{"an old name", "called", func(rs []*record, o *observed) { org(o).users["u1"] = "Before" }},
		{"a sub-organization gone", "sub-organization", func(rs []*record, o *observed) { delete(o.subs, "s1") }},
	} {
		rs, o := story()
		c.do(rs, o)
		if wrong := judge(rs, o); !strings.Contains(strings.Join(wrong, "\n"), c.want) {
			t.Errorf("%s: %q", c.what, wrong)
		}
	}
}
