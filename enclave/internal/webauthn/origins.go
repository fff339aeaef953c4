package webauthn

import (
	"crypto/sha256"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Origins are where an organization's passkeys may be made and used. The zero
// value is any origin of the relying party: its own host, a host below it, or an
// Android app, for which the platform answers.
type Origins struct {
	listed []string
	only   bool // the listed ones, none if there are none
}

// NoOrigins accepts nothing.
func NoOrigins() Origins { return Origins{only: true} }

// ParseOrigins reads origins that are divided by commas. The listed ones then
// are accepted whatever the relying party's id. White space around them, a slash
// behind them, capitals and needless port numbers are overlooked.
func ParseOrigins(list string) (Origins, error) {
	o := Origins{only: true}
	for text := range strings.SplitSeq(list, ",") {
		text = strings.TrimSpace(text)
		if !strings.HasPrefix(text, android) {
			text = strings.ToLower(strings.TrimSuffix(text, "/"))
			if t, ok := strings.CutSuffix(text, ":443"); ok && strings.HasPrefix(text, secure) {
				text = t
			} else if t, ok := strings.CutSuffix(text, ":80"); ok && strings.HasPrefix(text, plain) {
				text = t
			}
		}
		if _, ok := hostOf(text); !ok {
			return NoOrigins(), Refusal("not an origin: " + strconv.QuoteToASCII(text[:min(len(text), 128)]))
		}
		if len(o.listed) == maxOrigins {
			return NoOrigins(), Refusal("more than " + strconv.Itoa(maxOrigins) + " origins")
		}
		o.listed = append(o.listed, text)
	}
	return o, nil
}

const (
	maxOrigins = 100
	secure     = "https://"
	plain      = "http://"
	local      = "localhost"
	android    = "android:apk-key-hash:"
)

// accept tells whether a client at origin may use passkeys of the relying party
// whose id has this hash.
func (o Origins) accept(origin string, rpIDHash [32]byte) bool {
	host, ok := hostOf(origin)
	switch {
	case !ok:
		return false
	case o.only:
		return slices.Contains(o.listed, origin)
	case host == "":
		return true
	}
	// The id is known by its hash alone: of the host or of a domain above it.
	// Domains without a dot, other than localhost, are nobody's.
	for first := true; ; first = false {
		if (first || host == local || strings.Contains(host, ".")) && sha256.Sum256([]byte(host)) == rpIDHash {
			return true
		}
		if _, host, ok = strings.Cut(host, "."); !ok {
			return false
		}
	}
}

// hostOf reads an origin as clients write it: https with a domain and perhaps a
// port, http only on localhost, or an Android app, which has no host.
func hostOf(origin string) (host string, ok bool) {
	if digest, ok := strings.CutPrefix(origin, android); ok {
		b, ok := Text(digest, sha256.Size)
		return "", ok && len(b) == sha256.Size
	}
	host, ok = strings.CutPrefix(origin, secure)
	needless := "443"
	if !ok {
		if host, ok = strings.CutPrefix(origin, plain); !ok {
			return "", false
		}
		needless = "80"
	}
	host, port, has := strings.Cut(host, ":")
	if n, err := strconv.ParseUint(port, 10, 16); has && (err != nil || n == 0 || port[0] == '0' || port == needless) {
		return "", false
	}
	if needless == "80" && host != local && !strings.HasSuffix(host, "."+local) {
		return "", false
	}
	return host, domain(host)
}

// domain tells whether host is a name of the domain system in lower case, which
// an address is not.
func domain(host string) bool {
	if len(host) > 253 {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if len(label) == 0 || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	_, err := netip.ParseAddr(host)
	return err != nil
}
