package login

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"cloister/enclave/internal/strictjson"
)

// CheckURL tells whether something may be fetched from, or a link may lead to, a
// URL: https with a host, without user, fragment, spaces, and what URLs have not.
// loopback, which only a simulator may set, allows http to 127.0.0.1, ::1
// and localhost.
func CheckURL(text string, loopback bool) bool {
	_, ok := parseURL(text, loopback)
	return ok
}

func parseURL(text string, loopback bool) (*url.URL, bool) {
	if text == "" || len(text) > MaxURL {
		return nil, false
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>\\^`{|}#", c) >= 0 {
			return nil, false
		}
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.User != nil || !isHost(u.Hostname()) {
		return nil, false
	}
	if strings.Contains(u.Hostname(), ":") && u.Host[0] != '[' {
		return nil, false
	}
	if u.Host != u.Hostname() { // a port, or brackets
		if p := u.Port(); p != "" || strings.HasSuffix(u.Host, ":") {
			if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
				return nil, false
			}
		}
	}
	switch u.Scheme {
	case "https":
		return u, true
	case "http":
		host := u.Hostname()
		return u, loopback && (host == "127.0.0.1" || host == "::1" || host == "localhost")
	}
	return nil, false
}

// isHost takes an address or a name.
func isHost(s string) bool {
	if a, err := netip.ParseAddr(s); err == nil {
		return a.Zone() == ""
	}
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '-' {
				return false
			}
		}
	}
	return true
}

// DiscoveryURL is where an issuer publishes its discovery document. An issuer is
// a URL without a query. The errors are *fault.Error about field.
func DiscoveryURL(field, issuer string, loopback bool) (string, error) {
	if len(issuer) > maxName || strings.Contains(issuer, "?") || !CheckURL(issuer, loopback) {
		return "", errOIDC(field, "iss is not an https URL")
	}
	return strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration", nil
}

// ParseDiscovery reads the discovery document of an issuer, which must be of just
// that issuer, and answers where its key set is. The errors are *fault.Error about
// field.
func ParseDiscovery(field string, raw []byte, issuer string, loopback bool) (keySetURL string, err error) {
	if len(raw) > MaxDiscovery {
		return "", errOIDC(field, "the issuer's discovery document is too large")
	}
	o, ok := parseObject(raw, fetchedLimits)
	if !ok {
		return "", errOIDC(field, "the issuer's discovery document is malformed")
	}
	said, _, ok := o.text("issuer")
	if !ok || said == "" || said != issuer {
		return "", errOIDC(field, "the issuer's discovery document is of another issuer")
	}
	keySetURL, _, ok = o.text("jwks_uri")
	if !ok || !CheckURL(keySetURL, loopback) {
		return "", errOIDC(field, "the issuer's discovery document names no key set at an https URL")
	}
	return keySetURL, nil
}

// MarshalDiscovery is the discovery document of an issuer of ours, who only issues
// tokens that others ask for.
func MarshalDiscovery(issuer, keySetURL string) []byte {
	return strictjson.Append(nil, &struct {
		Issuer    string   `json:"issuer"`
		KeySet    string   `json:"jwks_uri"`
		Responses []string `json:"response_types_supported"`
		Subjects  []string `json:"subject_types_supported"`
		Algs      []string `json:"id_token_signing_alg_values_supported"`
		Claims    []string `json:"claims_supported"`
	}{issuer, keySetURL, []string{"id_token"}, []string{"public"}, []string{"ES256"},
		[]string{"iss", "aud", "sub", "nonce", "iat", "exp", "encrypted_bearer_token"}})
}
