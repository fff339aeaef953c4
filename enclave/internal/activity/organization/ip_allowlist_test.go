package organization_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

func networks(cidrs ...string) object {
	rules := []any{}
	for _, c := range cidrs {
		cidr, label, ok := strings.Cut(c, " ")
		r := object{"cidr": cidr}
		if ok {
			r["label"] = label
		}
		rules = append(rules, r)
	}
	return object{"rules": rules}
}

func TestIPAllowlist(t *testing.T) {
	w := activitytest.New(t)
	for _, c := range []struct {
		in   object
		want org.Allowlist
	}{
		{object{}, org.Allowlist{OnError: "DENY"}},
		{object{"enabled": true}, org.Allowlist{Enabled: true, OnError: "DENY"}},
		{activitytest.With(networks("10.1.2.3/24 Office", "2001:db8::1/64"), "onEvaluationError", "ALLOW"),
			org.Allowlist{OnError: "ALLOW", Rules: []org.AllowlistRule{{CIDR: "10.1.2.0/24", Label: "Office"}, {CIDR: "2001:db8::/64"}}}},
		{activitytest.With(networks("10.1.2.0/24 first", "10.1.2.9/24 second", "10.1.2.255/32", "::ffff:10.1.2.255/128", "2001:DB8:0::/48"), "enabled", true),
			org.Allowlist{Enabled: true, OnError: "DENY", Rules: []org.AllowlistRule{{CIDR: "10.1.2.0/24", Label: "first"}, {CIDR: "10.1.2.255/32"}, {CIDR: "2001:db8::/48"}}}},
	} {
		w.Run("SET_IP_ALLOWLIST", c.in)
		a, err := w.Tx().Allowlist("")
		w.Must(err)
		for i := range a.Rules {
			if a.Rules[i].CreatedMs != activitytest.Start {
				t.Errorf("%+v", a.Rules[i])
			}
			c.want.Rules[i].CreatedMs = activitytest.Start
		}
		if !reflect.DeepEqual(*a, c.want) {
			t.Errorf("%v: %+v, want %+v", c.in, *a, c.want)
		}
	}
	w.Now += 1000
	w.Run("SET_IP_ALLOWLIST", networks("10.1.2.0/24 renamed", "10.9.0.0/20"))
	a, _ := w.Tx().Allowlist("")
	if a.Rules[0].CreatedMs != activitytest.Start || a.Rules[0].Label != "renamed" || a.Rules[1].CreatedMs != activitytest.Start+1000 || a.Enabled {
		t.Errorf("%+v", a)
	}
	// A key's list is its own.
	w.Run("SET_IP_ALLOWLIST", activitytest.With(networks("10.0.0.0/32"), "publicKey", strings.ToUpper(activitytest.SomeP256)))
	of, _ := w.Tx().Allowlist(activitytest.SomeP256)
	if whole, _ := w.Tx().Allowlist(""); of == nil || len(of.Rules) != 1 || len(whole.Rules) != 2 {
		t.Errorf("%+v %+v", of, whole)
	}
	w.Run("REMOVE_IP_ALLOWLIST", object{"publicKey": activitytest.SomeP256})
	if of, _ := w.Tx().Allowlist(activitytest.SomeP256); of != nil {
		t.Errorf("%+v", of)
	}
	w.Run("REMOVE_IP_ALLOWLIST", object{})
	if whole, _ := w.Tx().Allowlist(""); whole != nil {
		t.Errorf("%+v", whole)
	}
}

func TestIPAllowlistRefuses(t *testing.T) {
	w := activitytest.New(t)
	many := func(form string, n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf(form, i))
		}
		return out
	}
	for _, c := range []struct {
		in   object
		code fault.Code
		says string
	}{
		{networks("10.0.0.0/19"), 3, "at least /20"},
		{networks("0.0.0.0/0"), 3, "at least /20"},
		{networks("2001:db8::/47"), 3, "at least /48"},
		{networks("::/0"), 3, "at least /48"},
		{networks("::ffff:0.0.0.0/96"), 3, "at least /20"},
		{networks("::ffff:10.0.0.0/115"), 3, "at least /20"},
		{networks("::ffff:0:0/95"), 3, "at least /20"},
		{networks("10.0.0.1"), 3, "CIDR"},
		{networks("10.0.0.1/33"), 3, "CIDR"},
		{networks("10.0.0/24"), 3, "CIDR"},
		{networks("010.0.0.1/24"), 3, "CIDR"},
		{networks("fe80::1%eth0/64"), 3, "CIDR"},
		{networks("example.org/24"), 3, "CIDR"},
		{networks(""), 3, "cidr"},
		{object{"rules": []any{object{}}}, 3, "cidr"},
		{networks("10.0.0.0/24 " + strings.Repeat("x", 256)), 3, "255 characters"},
		{networks("10.0.0.0/24 a\nb"), 3, "control characters"},
		{networks(many("10.0.%d.0/24", 11)...), 3, "at most 10 networks"},
		{networks(many("2001:db8:%d::/48", 11)...), 3, "at most 10 networks"},
		{object{"onEvaluationError": "MAYBE"}, 3, "ALLOW, DENY"},
		{object{"onEvaluationError": "deny"}, 3, "ALLOW, DENY"},
		{object{"publicKey": activitytest.SomeP256, "enabled": false}, 3, "cannot be disabled"},
		{object{"publicKey": activitytest.SomeKey}, 5, "api key not found: " + activitytest.SomeKey},
		{object{"publicKey": "x"}, 5, "api key not found: x"},
	} {
		w.Refuse("SET_IP_ALLOWLIST", c.in, c.code, c.says)
	}
	w.Run("SET_IP_ALLOWLIST", networks(append(many("10.0.%d.0/24", 10), many("2001:db8:%d::/48", 10)...)...))
	w.Refuse("REMOVE_IP_ALLOWLIST", object{"publicKey": activitytest.SomeP256}, 5, "ip allowlist not found")
	w.Run("REMOVE_IP_ALLOWLIST", object{})
	w.Refuse("REMOVE_IP_ALLOWLIST", object{}, 5, "ip allowlist not found")
	sub, _ := w.Family()
	for _, typ := range []string{"SET_IP_ALLOWLIST", "REMOVE_IP_ALLOWLIST"} {
		sub.Refuse(typ, object{}, 3, "parent organization")
		if _, err := sub.Try(typ, object{}); fault.Of(err).Name != "INVALID_ACTIVITY_CALLER" {
			t.Error(err)
		}
	}
}
