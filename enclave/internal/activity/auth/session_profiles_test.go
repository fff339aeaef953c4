package auth_test

import (
	"fmt"
	"strings"
	"testing"

	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/auth"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

func TestSessionProfiles(t *testing.T) {
	w := activitytest.New(t)
	in := object{"sessionProfileName": "one", "scope": "activity.action == 'SIGN'", "expirationSeconds": "3600", "notes": "n"}
	id := w.Run("CREATE_SESSION_PROFILE", in)["sessionProfileId"]
	p, err := w.Tx().SessionProfile(activitytest.MustID(id))
	w.Must(err)
	if p.Name != "one" || p.Scope != in["scope"] || p.Seconds != 3600 || *p.Notes != "n" || p.CreatedMs != activitytest.Start {
		t.Errorf("%+v", p)
	}
	c, err := auth.CompiledScope(p)
	w.Must(err)
	if again, _ := auth.CompiledScope(p); c.Source() != p.Scope || again != c {
		t.Errorf("%+v", c)
	}
	if _, err := auth.CompiledScope(&org.SessionProfile{Scope: "no.such"}); err == nil || fault.Of(err) != nil {
		t.Error(err)
	}
	with := func(k string, v any) object {
		c := activitytest.Without(in, k)
		c["sessionProfileName"] = "two"
		c[k] = v
		return c
	}
	for _, c := range []struct {
		params object
		says   string
	}{
		{in, "session profile label must be unique"},
		{with("sessionProfileName", ""), "sessionProfileName"},
		{with("sessionProfileName", "x "), "sessionProfileName"},
		{with("scope", ""), "missing field `scope`"},
		{with("scope", nil), "missing field `scope`"},
		{with("scope", "activity.type"), "invalid policy condition"},
		{with("scope", "approvers.count() == 1"), "invalid policy condition"},
		{with("scope", "time.now > Timestamp('2026-01-01T00:00:00Z')"), "invalid policy condition"},
		{with("expirationSeconds", "0"), "invalid session profile expiration"},
		{with("expirationSeconds", "-1"), "invalid session profile expiration"},
		{with("expirationSeconds", "1.5"), "invalid session profile expiration"},
		{with("expirationSeconds", "2592001"), "invalid session profile expiration"},
		{with("expirationSeconds", "99999999999999999999999"), "invalid session profile expiration"},
		{with("notes", strings.Repeat("x", 4097)), "at most 4096"},
	} {
		w.Refuse("CREATE_SESSION_PROFILE", c.params, 3, c.says)
	}
	w.Run("CREATE_SESSION_PROFILE", with("expirationSeconds", "2592000"))
	sub, _ := w.Family()
	sub.Refuse("CREATE_SESSION_PROFILE", with("notes", nil), 3, "parent organization")
	if _, err := sub.Try("CREATE_SESSION_PROFILE", with("notes", nil)); fault.Of(err).Name != "INVALID_ACTIVITY_CALLER" {
		t.Error(err)
	}
	for i := range 98 {
		w.Run("CREATE_SESSION_PROFILE", object{"sessionProfileName": fmt.Sprint(i), "scope": "true"})
	}
	w.Refuse("CREATE_SESSION_PROFILE", object{"sessionProfileName": "last", "scope": "true"}, 8, "at most 100 session profiles")
	p, _ = w.Tx().SessionProfile(activitytest.MustID(id))
	if w.Organization().Profiles != 100 || p.Seconds != 3600 {
		t.Errorf("%+v", p)
	}
}
