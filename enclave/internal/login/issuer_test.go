package login_test

import (
	"strings"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
)

func TestCheckURL(t *testing.T) {
	for text, want := range map[string]bool{
		"https://accounts.google.com": true, "https://issuer.test:8443/realms/a%20b?x=y": true, "https://127.0.0.1/": true, "https://[::1]:443/a": true, "https://a": true, "https://xn--bcher-kva.example/": true,
		"": false, "https://": false, "https:///a": false, "https://:443": false, "https://a:": false, "https://a:0": false, "https://a:65536": false, "https://a:x": false, "https://a:1:2": false, "https://user@a": false, "https://user:pass@a": false, "https://a@b@c": false,
		"https://a#b": false, "https://a#": false, "https://a b": false, "https://a/ b": false, "https://a\n": false, "https://a/\r\nHost: b": false, "https://a/\x00": false, "https://ä.test": false, "https://a_b.test": false, "https://-a.test": false, "https://a..b": false,
		"https://a.": false, "https:a": false, "//a": false, "/a": false, "a": false, "ftp://a": false, "HTTPS://a": true, "javascript:alert(1)": false, "data:text/html,x": false, "https://[::1": false, "https://::1": false, "https://[fe80::1%25eth0]": false, "https://%61": false,
		"https://a/\"": false, "https://a/<": false, "https://a\\b": false, "https://a/%zz": false, "https://a/" + strings.Repeat("b", login.MaxURL): false, "https://" + strings.Repeat("a", 64): false, "file:///etc/passwd": false,
		"http://a.test": false, "http://127.0.0.1": false,
	} {
		if got := login.CheckURL(text, false); got != want {
			t.Errorf("%.60q: %t", text, got)
		}
	}
	for text, want := range map[string]bool{
		"http://127.0.0.1:8080/a": true, "http://[::1]:1": true, "http://localhost:8080": true, "http://127.0.0.1.evil.test": false, "http://localhost.evil.test": false, "http://127.0.0.2": false, "http://10.0.0.1": false, "http://evil.test": false, "http://evil@127.0.0.1": false,
		"http://127.0.0.1@evil.test": false, "https://evil.test": true, "ws://127.0.0.1": false, "http://[::ffff:127.0.0.1]": false, "http://2130706433": false, "http://0x7f.1": false, "http://127.1": false,
	} {
		if got := login.CheckURL(text, true); got != want {
			t.Errorf("loopback %s: %t", text, got)
		}
	}
}

func TestDiscoveryURL(t *testing.T) {
	for issuer, want := range map[string]string{
		"https://accounts.google.com": "https://accounts.google.com/.well-known/openid-configuration", "https://a.test/": "https://a.test/.well-known/openid-configuration", "https://a.test/realms/x": "https://a.test/realms/x/.well-known/openid-configuration",
		"https://a.test/realms/x/": "https://a.test/realms/x/.well-known/openid-configuration",
	} {
		if got, err := login.DiscoveryURL("f", issuer, false); err != nil || got != want {
			t.Errorf("%s: %s, %v", issuer, got, err)
		}
	}
	for _, issuer := range []string{"", "accounts.google.com", "http://a.test", "http://127.0.0.1", "https://a.test?x", "https://a.test/?", "https://a.test#", "https://u@a.test", "https://" + strings.Repeat("a.", 600) + "test", "urn:x"} {
		_, err := login.DiscoveryURL("oidcToken", issuer, false)
		refused(t, issuer, err, fault.InvalidArgument, "oidcToken", "invalid OIDC token: iss is not an https URL")
	}
	if _, err := login.DiscoveryURL("f", "http://127.0.0.1:9000", true); err != nil {
		t.Error(err)
	}
}

func TestParseDiscovery(t *testing.T) {
	const issuer = "https://issuer.test/a"
	good := `{"issuer":"https://issuer.test/a","jwks_uri":"https://keys.test/jwks","claims_supported":["a"],"x":{"y":[1]}}`
	if got, err := login.ParseDiscovery("f", []byte(good), issuer, false); err != nil || got != "https://keys.test/jwks" {
		t.Errorf("%s, %v", got, err)
	}
	change := func(old, now string) string { return strings.Replace(good, old, now, 1) }
	for name, c := range map[string]struct{ text, why string }{
		"nothing": {"", "malformed"}, "null": {"null", "malformed"}, "array": {"[]", "malformed"}, "HTML": {"<html>", "malformed"}, "trailing": {good + good, "malformed"}, "issuer twice": {change("{", `{"issuer":"https://evil.test",`), "malformed"},
		"key set twice by escape": {change("{", `{"jwks_ur\u0069":"https://evil.test",`), "malformed"}, "large": {good + strings.Repeat(" ", login.MaxDiscovery), "too large"}, "deep": {change(`[1]`, strings.Repeat("[", 40)+strings.Repeat("]", 40)), "malformed"},
		"another issuer": {change("issuer.test/a", "evil.test"), "another issuer"}, "issuer with a slash": {change("issuer.test/a", "issuer.test/a/"), "another issuer"}, "issuer in other case": {change("issuer.test", "Issuer.test"), "another issuer"},
		"no issuer": {change(`"issuer"`, `"iss"`), "another issuer"}, "issuer number": {change(`"https://issuer.test/a"`, "1"), "another issuer"}, "issuer null": {change(`"https://issuer.test/a"`, "null"), "another issuer"},
		"no key set": {change("jwks_uri", "jwks"), "no key set"}, "key set by http": {change("https://keys", "http://keys"), "no key set"}, "key set number": {change(`"https://keys.test/jwks"`, "1"), "no key set"}, "key set with user": {change("keys.test", "u@keys.test"), "no key set"},
		"key set elsewhere": {change("https://keys.test/jwks", "file:///etc/passwd"), "no key set"}, "key set on loopback by http": {change("https://keys.test", "http://127.0.0.1"), "no key set"},
	} {
		_, err := login.ParseDiscovery("oidcToken", []byte(c.text), issuer, false)
		refused(t, name, err, fault.InvalidArgument, "oidcToken", c.why)
	}
	_, err := login.ParseDiscovery("oidcToken", []byte(change("https://issuer.test/a", "")), "", false)
	refused(t, "issuer empty", err, fault.InvalidArgument, "oidcToken", "another issuer")
	if _, err := login.ParseDiscovery("f", []byte(strings.ReplaceAll(good, "https://keys.test", "http://127.0.0.1:9000")), issuer, true); err != nil {
		t.Error(err)
	}
}
