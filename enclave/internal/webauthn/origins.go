package webauthn

import (
	"crypto/sha256"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Origins are where an organization's passkeys may be made and used. The zero value accepts
// any origin of the relying party: its own host, a host below it, or an Android app, which the
// platform vouches for.
type Origins struct {
	listed []string
	only   bool // accept only the listed ones
}

// NoOrigins accepts nothing.
func NoOrigins() Origins { return Origins{only: true} }

// ParseOrigins reads origins with commas between them. A listed origin is accepted whatever the
// relying party's id. White space around it, a slash at its end, capitals and needless port
// numbers do not matter.
func ParseOrigins(list string) (Origins, error) {
	o := Origins{only: true}
	for text := range strings.SplitSeq(list, ",") {
		text = strings.TrimSpace(text)
		if !strings.HasPrefix(text, android) {
			text = strings.ToLower(strings.TrimSuffix(text, "/"))
			if strings.HasPrefix(text, secure) {
				text = strings.TrimSuffix(text, ":443")
			} else if strings.HasPrefix(text, plain) {
				text = strings.TrimSuffix(text, ":80")
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

// accept tells whether a client at origin may use passkeys of the relying party whose id has
// this hash.
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
	// The id must be the host or a domain above it. A domain without a dot, other than
	// localhost, is nobody's.
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
	host, https := strings.CutPrefix(origin, secure)
	needless := "443"
	if !https {
		if host, ok = strings.CutPrefix(origin, plain); !ok {
			return "", false
		}
		needless = "80"
	}
	host, port, has := strings.Cut(host, ":")
	if n, err := strconv.ParseUint(port, 10, 16); has && (err != nil || n == 0 || port[0] == '0' || port == needless) {
		return "", false
	}
	return host, (https || host == local || strings.HasSuffix(host, "."+local)) && isDomain(host)
}

// isDomain tells whether host is a domain name in lower case. An address is none.
func isDomain(host string) bool {
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
