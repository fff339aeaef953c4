package strictjson

import (
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

type format struct {
	name  string
	text  string
	holds func(string) bool
}

// formats are the published rules about strings. A UUID is written in lower
// case, so that equal ids are equal strings, and the nil UUID, which means none in
// records, names nothing. hexadecimal takes no 0x. Of private
// rules only the names are published; label is as in api/README.md section 13,
// api_key is the hex of a public key of 32 or 33 bytes.
var formats = []format{
	{"uuid", "must be a UUID in lower case and must not be all zeros", isUUID},
	{"uuid4", "must be a UUID of version 4 in lower case", isUUID4},
	{"label", "must be 1 to 255 characters without control characters and without space at either end", isLabel},
	{"label_length", "must be 1 to 255 characters", isLabelLength},
	{"hexadecimal", "must be hexadecimal digits", isHex},
	{"numeric", "must be a decimal number", isNumeric},
	{"email", "must be an e-mail address", IsEmail},
	{"email_ext", "must be an e-mail address", IsEmail},
	{"e164", "must be a telephone number like +15551234567", IsE164},
	{"api_key", "must be a public key of 64 or 66 hexadecimal digits", isAPIKey},
	{"cidr", "must be an address range in CIDR notation", isCIDR},
}

func isLowerHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, c := range []byte(s) {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash && c != '-' || !dash && !isLowerHex(c) {
			return false
		}
	}
	return strings.Trim(s, "0-") != ""
}

func isUUID4(s string) bool {
	return isUUID(s) && s[14] == '4' && strings.IndexByte("89ab", s[19]) >= 0
}

func isLabelLength(s string) bool {
	n := utf8.RuneCountInString(s)
	return n >= 1 && n <= maxLabel
}

func isLabel(s string) bool {
	if !isLabelLength(s) {
		return false
	}
	first, _ := utf8.DecodeRuneInString(s)
	last, _ := utf8.DecodeLastRuneInString(s)
	return !unicode.IsSpace(first) && !unicode.IsSpace(last) && !strings.ContainsFunc(s, unicode.IsControl)
}

func isHex(s string) bool { return s != "" && strings.Trim(s, "0123456789abcdefABCDEF") == "" }

func isAPIKey(s string) bool { return (len(s) == 64 || len(s) == 66) && isHex(s) }

func allDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// isNumeric takes an optional minus, digits, and optionally a point and digits.
func isNumeric(s string) bool {
	whole, fraction, point := strings.Cut(strings.TrimPrefix(s, "-"), ".")
	return allDigits(whole) && (!point || allDigits(fraction))
}

// IsE164 takes telephone numbers of the international form.
func IsE164(s string) bool {
	return len(s) >= 8 && len(s) <= 16 && s[0] == '+' && s[1] != '0' && allDigits(s[1:])
}

func isCIDR(s string) bool {
	_, err := netip.ParsePrefix(s)
	return err == nil
}

// IsEmail takes ASCII addresses of the everyday form, without quoting, comments
// and address literals: whoever needs more cannot be told from an attack.
func IsEmail(s string) bool {
	at := strings.LastIndexByte(s, '@')
	if len(s) > maxEmail || at < 1 || at > 64 {
		return false
	}
	local, domain := s[:at], s[at+1:]
	if strings.ContainsAny(local, `()<>[]\,;:"@`) || strings.ContainsFunc(local, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return false
	}
	if local[0] == '.' || local[len(local)-1] == '.' || strings.Contains(local, "..") {
		return false
	}
	return isDomain(domain)
}

func isDomain(s string) bool {
	labels := strings.Split(s, ".")
	for _, l := range labels {
		other := func(c rune) bool { return c != '-' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') }
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' || strings.ContainsFunc(l, other) {
			return false
		}
	}
	return len(labels) >= 2
}
