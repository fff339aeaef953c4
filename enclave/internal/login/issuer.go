package login

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"cloister/enclave/internal/strictjson"
)

// notInURL are visible ASCII characters that a URL must not contain.
const notInURL = "\"<>\\^`{|}"

// CheckURL tells whether the enclave may fetch from a URL, or a mail may link to it: https with a
// host, and without user, fragment, spaces and illegal characters. loopback, which only a
// simulator may set, also allows http to 127.0.0.1, ::1 and localhost.
func CheckURL(text string, loopback bool) bool {
	if len(text) > MaxURL || !isVisible(text) || strings.ContainsAny(text, notInURL+"#") {
		return false
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.User != nil {
		return false
	}
	host := u.Hostname()
	if !isHost(host) || strings.Contains(host, ":") && u.Host[0] != '[' {
		return false
	}
	if p := u.Port(); p != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return false
		}
	}
	return u.Scheme == "https" || u.Scheme == "http" && loopback && slices.Contains([]string{"127.0.0.1", "::1", "localhost"}, host)
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
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' || !isAlphanumeric(label, "-") {
			return false
		}
	}
	return true
}

// isVisible tells whether s is ASCII without spaces and controls.
func isVisible(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// isAlphanumeric tells whether s has only ASCII letters and digits, and characters of more.
func isAlphanumeric(s, more string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return (r|0x20 < 'a' || r|0x20 > 'z') && (r < '0' || r > '9') && !strings.ContainsRune(more, r)
	})
}

// DiscoveryURL is where an issuer publishes its discovery document. An issuer is a URL without a
// query. Errors are *fault.Error about field.
func DiscoveryURL(field, issuer string, loopback bool) (string, error) {
	if len(issuer) > maxName || strings.Contains(issuer, "?") || !CheckURL(issuer, loopback) {
		return "", errOIDC(field, "iss is not an https URL")
	}
	return strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration", nil
}

// ParseDiscovery reads the discovery document of an issuer, which must name that issuer, and
// returns the URL of its key set. Errors are *fault.Error about field.
func ParseDiscovery(field string, raw []byte, issuer string, loopback bool) (keySetURL string, err error) {
	if len(raw) > MaxDiscovery {
		return "", errOIDC(field, "the issuer's discovery document is too large")
	}
	o, ok := parseObject(raw, fetchedLimits)
	if !ok {
		return "", errOIDC(field, "the issuer's discovery document is malformed")
	}
	said, ok := o.text("issuer")
	if !ok || said == "" || said != issuer {
		return "", errOIDC(field, "the issuer's discovery document is of another issuer")
	}
	keySetURL, ok = o.text("jwks_uri")
	if !ok || !CheckURL(keySetURL, loopback) {
		return "", errOIDC(field, "the issuer's discovery document names no key set at an https URL")
	}
	return keySetURL, nil
}

// MarshalDiscovery is the discovery document of our own issuer.
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
