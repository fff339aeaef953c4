package netclient

import (
	"net/netip"
	"strconv"
	"strings"
)

// An endpoint is where a URL leads, and what to ask for there.
type endpoint struct {
	secure bool
	host   string // lower case; an IP address without brackets
	port   uint16
	target string // path and query
}

// IsLoopback tells whether a host is one of the three names that Config.Loopback is about,
// as text: other spellings of the same address are not meant.
func IsLoopback(host string) bool {
	return host == "127.0.0.1" || host == "::1" || host == "localhost"
}

// parseURL takes scheme://host[:port][/path][?query] with the characters that RFC 3986
// allows there, and nothing else: no user, no fragment, no space.
func parseURL(s string) (endpoint, error) {
	e := endpoint{secure: true, port: 443}
	if len(s) > MaxURL {
		return e, fail(Refused, "the URL is too long")
	}
	rest, ok := strings.CutPrefix(s, "https://")
	if !ok {
		if rest, ok = strings.CutPrefix(s, "http://"); !ok {
			return e, fail(Refused, "the URL must begin with https://")
		}
		e.secure, e.port = false, 80
	}
	authority, target := rest, "/"
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, target = rest[:i], rest[i:]
		if target[0] == '?' {
			target = "/" + target
		}
	}
	host, port, bracketed := authority, "", false
	if inside, ok := strings.CutPrefix(authority, "["); ok {
		i := strings.IndexByte(inside, ']')
		if i < 0 {
			return e, fail(Refused, "the URL's host is malformed")
		}
		host, port, bracketed = inside[:i], inside[i+1:], true
	} else if i := strings.IndexByte(authority, ':'); i >= 0 {
		host, port = authority[:i], authority[i:]
	}
	if host = strings.ToLower(host); !IsHost(host) || bracketed != strings.Contains(host, ":") {
		return e, fail(Refused, "the URL's host is malformed")
	}
	e.host = host
	if port != "" {
		n, err := strconv.ParseUint(strings.TrimPrefix(port, ":"), 10, 16)
		if err != nil || port != ":"+strconv.FormatUint(n, 10) || n == 0 {
			return e, fail(Refused, "the URL's port is malformed")
		}
		e.port = uint16(n)
	}
	for i := range len(target) {
		switch c := target[i]; {
		case c == '%':
			if i+2 >= len(target) || !isHex(target[i+1]) || !isHex(target[i+2]) {
				return e, fail(Refused, "the URL has a malformed escape")
			}
		case !isAlnum(c) && strings.IndexByte("-._~!$&'()*+,;=:@/?", c) < 0:
			return e, fail(Refused, "the URL has a character that must be escaped")
		}
	}
	e.target = target
	return e, nil
}

// IsHost tells whether Dial may be asked for a host, in lower case: a name of letters,
// digits and hyphens, or an IP address. The last label of a name begins with a letter, so
// that no number in another spelling (127.1, 0x7f.1) passes for a name.
func IsHost(h string) bool {
	if a, err := netip.ParseAddr(h); err == nil {
		return a.Zone() == "" && a.String() == h && !a.Is4In6()
	}
	if len(h) > 253 {
		return false
	}
	last := ""
	for l := range strings.SplitSeq(h, ".") {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' || !isAlnumOr("-", l) {
			return false
		}
		last = l
	}
	return !isDigit(last[0])
}

// publicName tells whether a host is a name of several labels, no address and
// nothing below localhost. Where it leads, only who dials can see.
func publicName(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	return strings.Contains(host, ".") && !strings.HasSuffix(host, ".localhost")
}

// authority is the endpoint as the Host field names it.
func (e endpoint) authority() string {
	h := e.host
	if strings.Contains(h, ":") {
		h = "[" + h + "]"
	}
	if e.secure && e.port == 443 || !e.secure && e.port == 80 {
		return h
	}
	return h + ":" + strconv.Itoa(int(e.port))
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isAlnum(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'z' }
func isHex(c byte) bool   { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

// isAlnumOr tells whether s consists of letters, digits and others.
func isAlnumOr(others, s string) bool {
	for i := range len(s) {
		if !isAlnum(s[i]) && strings.IndexByte(others, s[i]) < 0 {
			return false
		}
	}
	return true
}

// isToken tells whether s is a token of RFC 9110.
func isToken(s string) bool { return s != "" && isAlnumOr("!#$%&'*+-.^_`|~", s) }

// visible tells whether s consists of printable ASCII and spaces.
func visible[S string | []byte](s S) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
