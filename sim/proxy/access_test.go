package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"cloister/sim/rig"
)

func TestConfigID(t *testing.T) {
	w := newWorld(t, rig.Options{Rates: unlimited})
	const op, body = "wallet_kit_config", "{}"
	for _, c := range []struct {
		what    string
		headers []string
		status  int
		says    string
	}{
		{"none", nil, 401, "X-Auth-Proxy-Config-Id is missing"},
		{"an empty one", []string{configHeader, ""}, 401, "missing"},
		{"one that is no id", []string{configHeader, "x"}, 403, "not enabled"},
		{"zeros", []string{configHeader, "00000000-0000-0000-0000-000000000000"}, 403, "not enabled"},
		{"an unknown one", []string{configHeader, "6ba7b810-9dad-41d1-80b4-00c04fd430c8"}, 403, "not enabled"},
		{"the organization's id", []string{configHeader, w.root.Organization}, 403, "not enabled"},
		{"the same twice", []string{configHeader, w.config, configHeader, w.config}, 403, "not enabled"},
		{"one that is too long", []string{configHeader, strings.Repeat("a", 10_000)}, 403, "not enabled"},
		{"one with a space", []string{configHeader, w.config + " x"}, 403, "not enabled"},
	} {
		r := w.post(op, body, append(c.headers, "Origin", "https://any.example")...)
		w.refused(c.what, r, c.status, c.says)
		if r.head.Get("Access-Control-Allow-Origin") != "*" { // a developer's first mistake must be readable
			t.Errorf("%s: %v", c.what, r.head)
		}
	}
	for _, good := range []string{w.config, strings.ToUpper(w.config)} {
		if r := w.post(op, body, "x-auth-proxy-config-id", good); r.Status != 200 {
			t.Errorf("%s: %v", good, r)
		}
	}
}

func TestWalletKitConfig(t *testing.T) {
	w := newWorld(t, rig.Options{Rates: unlimited})
	for _, body := range []string{"", "{}", " {} "} {
		want := `{"enabledProviders":["email","passkey","wallet"],"sessionExpirationSeconds":"900","organizationId":"` + w.root.Organization +
			`","otpAlphanumeric":true,"otpLength":"9"}`
		if r := w.ask("wallet_kit_config", body); r.Status != 200 || string(r.Body) != want {
			t.Errorf("%q: %v", body, r)
		}
		if r := w.ask("wallet_kit_client_params", body); r.Status != 200 || string(r.Body) != "{}" {
			t.Errorf("%q: %v", body, r)
		}
	}
	w.refused("a member", w.ask("wallet_kit_config", `{"a":1}`), 400, "unknown field")
	w.refused("no object", w.ask("wallet_kit_client_params", `[]`), 400, "")
	w.root.Do("UPDATE_AUTH_PROXY_CONFIG", object{"otpLength": 6, "otpAlphanumeric": false, "sessionExpirationSeconds": 60, "allowedAuthMethods": list("social", "discord", "passkey"),
		"walletKitSettings": object{"enabledSocialProviders": list("apple", "google"), "oauthClientIds": object{"google": "g-1", "apple": "a-1"}, "oauthRedirectUrl": "myapp://back"}})
	want := `{"enabledProviders":["google","apple","discord","passkey"],"sessionExpirationSeconds":"60","organizationId":"` + w.root.Organization +
		`","oauthClientIds":{"apple":"a-1","google":"g-1"},"oauthRedirectUrl":"myapp://back","otpAlphanumeric":false,"otpLength":"6"}`
	if r := w.ask("wallet_kit_config", "{}"); string(r.Body) != want {
		t.Error(r)
	}
}

func TestOrigins(t *testing.T) {
	w := newWorld(t, rig.Options{Rates: unlimited})
	const good = "https://app.example.com"
	for _, origin := range []string{"", good, "null", "https://evil.example"} {
		headers := []string{configHeader, w.config}
		if origin != "" {
			headers = append(headers, "Origin", origin)
		}
		if r := w.post("wallet_kit_config", "{}", headers...); r.Status != 200 || (r.head.Get("Access-Control-Allow-Origin") == "*") != (origin != "") {
			t.Errorf("any origin, %q: %d %v", origin, r.Status, r.head)
		}
	}
	w.root.Do("UPDATE_AUTH_PROXY_CONFIG", object{"allowedOrigins": list(good, "http://localhost:3000")})
	for _, origin := range []string{good, "http://localhost:3000"} {
		r := w.post("wallet_kit_config", "{}", configHeader, w.config, "Origin", origin)
		if r.Status != 200 || r.head.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%q: %d %v", origin, r.Status, r.head)
		}
	}
	// Each at every endpoint, with each of these bodies: the origin is looked at before them.
	wrong := []string{"", "null", "*", "https://app.example.com/", "https://app.example.com:443", "http://app.example.com", "https://APP.example.com", "https://example.com",
		"https://x.app.example.com", "https://app.example.com.evil.example", "http://localhost", "http://localhost:3001", "https://app.example.com https://evil.example", good + strings.Repeat("x", 300)}
	bodies := []string{"{}", `{"otpType":"OTP_TYPE_EMAIL","contact":"someone@example.org"}`, `{"filterType":"EMAIL","filterValue":"someone@example.org"}`, "["}
	refused := map[string]int{}
	refuse := func(what, op, body string, headers ...string) {
		r := w.post(op, body, append([]string{configHeader, w.config}, headers...)...)
		w.refused(op+" from "+what, r, 403, "allowed origins")
		if len(r.head["Access-Control-Allow-Origin"]) != 0 {
			t.Errorf("%s from %q: %v", op, what, r.head)
		}
		refused[what]++
	}
	for _, op := range []string{"wallet_kit_config", "wallet_kit_client_params", "signup", "signup_v2", "account", "otp_init", "otp_init_v2", "otp_verify", "otp_verify_v2", "otp_login", "otp_login_v2",
		"oauth_login", "oauth2_authenticate"} {
		for _, body := range bodies {
			for _, origin := range wrong {
				if origin == "" {
					refuse("no origin", op, body)
					continue
				}
				refuse(origin, op, body, "Origin", origin)
			}
			refuse("two origins", op, body, "Origin", good, "Origin", good)
		}
	}
	for what, n := range refused {
		if n < 50 {
			t.Errorf("%q was refused %d times", what, n)
		}
	}
	t.Logf("counted: %d wrong origins, each refused %d times", len(refused), refused["null"])
}

func TestPreflightAndMethods(t *testing.T) {
	w := newWorld(t, rig.Options{Rates: unlimited})
	w.root.Do("UPDATE_AUTH_PROXY_CONFIG", object{"allowedOrigins": list("https://app.example.com")})
	req, _ := http.NewRequest(http.MethodOptions, w.proxy+"/v1/otp_init", nil)
	req.Header.Set("Origin", "https://anybody.example")
	req.Header.Set("Access-Control-Request-Headers", "content-type,x-auth-proxy-config-id,x-captcha-token")
	r := w.do(req)
	allowed := r.head.Get("Access-Control-Allow-Headers")
	if r.Status != 204 || r.head.Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(allowed, "x-auth-proxy-config-id") || !strings.Contains(allowed, "x-captcha-token") ||
		!strings.Contains(allowed, "content-type") || !strings.Contains(r.head.Get("Access-Control-Allow-Methods"), "POST") {
		t.Errorf("%v %v", r, r.head)
	}
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		req, _ := http.NewRequest(method, w.proxy+"/v1/account", nil)
		if r := w.do(req); r.Status != 405 {
			t.Errorf("%s: %d", method, r.Status)
		}
	}
	for _, path := range []string{"/v1/nothing", "/v1/", "/v1/otp_init/", "/v2/otp_init", "/public/v1/query/whoami", "/v1/submit", "/v1/OTP_INIT"} {
		req, _ := http.NewRequest(http.MethodPost, w.proxy+path, strings.NewReader("{}"))
		req.Header.Set(configHeader, w.config)
		if r := w.do(req); r.Status != 404 {
			t.Errorf("%s: %v", path, r)
		}
	}
}

func TestDisabledProxyAnswersNobody(t *testing.T) {
	w := newWorld(t, rig.Options{Rates: unlimited})
	before, rules := w.root.Read("list_users", nil), w.root.Read("list_policies", nil)
	if len(before["users"].([]any)) != 2 || len(rules["policies"].([]any)) != 1 {
		t.Fatalf("%v %v", before, rules)
	}
	w.root.Do("DISABLE_AUTH_PROXY", object{})
	after, rules, configs := w.root.Read("list_users", nil), w.root.Read("list_policies", nil), w.root.Read("get_organization_configs", nil)
	if len(after["users"].([]any)) != 1 || len(rules["policies"].([]any)) != 0 || strings.Contains(text(configs), "AUTH_PROXY") {
		t.Errorf("left: %v %v %v", after, rules, configs)
	}
	for _, op := range []string{"wallet_kit_config", "account", "signup"} {
		w.refused(op, w.ask(op, "{}"), 403, "not enabled")
	}
	old := w.config
	if r := w.root.Submit("DISABLE_AUTH_PROXY", object{}); r.Status != 400 {
		t.Error(r)
	}
	w.config = enabled(w.root)
	if w.config == old {
		t.Error("the old configuration is back")
	}
	w.ok("wallet_kit_config", "{}")
	w.refused("the old configuration", w.post("wallet_kit_config", "{}", configHeader, old), 403, "not enabled")
}

// What cannot be looked for is said as it is.
func TestAccountsThatCannotBeLookedFor(t *testing.T) {
	w := newWorld(t, rig.Options{Rates: unlimited})
	w.refused("an unknown filter", w.ask("account", object{"filterType": "WALLET", "filterValue": "x"}), 400, "")
	w.refused("oidc", w.ask("account", object{"filterType": "OIDC_TOKEN", "filterValue": "x"}), 400, "invalid OIDC token")
}
