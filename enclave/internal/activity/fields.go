package activity

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// TextOf returns the text of an option, empty when absent.
func TextOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// IsOn returns the value of a boolean option, false when absent.
func IsOn(option *bool) bool { return option != nil && *option }

// Set copies an option into a record unless it is absent.
func Set[T any](into *T, option *T) {
	if option != nil {
		*into = *option
	}
}

// FieldAt is the path of a field of a list's element.
func FieldAt(list string, i int, field string) string { return fmt.Sprintf("%s.%d.%s", list, i, field) }

// CheckDistinct refuses a list that names something twice.
func CheckDistinct(field string, ids []string) error {
	seen := make(map[string]bool, len(ids))
	for i, id := range ids {
		if seen[id] {
			return fault.Field(fmt.Sprintf("%s.%d", field, i), "named twice")
		}
		seen[id] = true
	}
	return nil
}

// CheckNotes refuses notes that are longer than a record may hold.
func CheckNotes(field string, notes *string) error {
	if len(TextOf(notes)) > maxNotes {
		return fault.Field(field, "must have at most %d bytes", maxNotes)
	}
	return nil
}

// MapList returns the results of element for all elements of a list.
func MapList[T, U any](list []T, element func(*T) U) []U {
	out := make([]U, len(list))
	for i := range list {
		out[i] = element(&list[i])
	}
	return out
}

// SameID reports whether two UUIDs are equal, in either case.
func SameID(a, b string) bool {
	x, _ := org.ParseID(a)
	y, _ := org.ParseID(b)
	return x == y
}

// ParseID parses the id in a field without a rule, in either case. It refuses the nil UUID, which means none in records.
func ParseID(field, text string) (org.ID, error) {
	id, err := org.ParseID(text)
	if err != nil || id.Zero() {
		return id, fault.Field(field, "%s must be a UUID and must not be all zeros", field)
	}
	return id, nil
}

// ParseSeconds parses a number of seconds, at most most. The default is usual.
func ParseSeconds(field string, text *string, usual, most uint64) (uint64, error) {
	if TextOf(text) == "" {
		return usual, nil
	}
	n, err := strconv.ParseUint(*text, 10, 64)
	if err != nil || n == 0 || n > most {
		return 0, fault.Field(field, "must be a number of seconds, 1 to %d", most)
	}
	return n, nil
}

// Visible reports whether s is nonempty ASCII without spaces and control characters.
func Visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return s != ""
}

// maxNotes bounds notes in bytes.
const maxNotes = 4 << 10

// Nothing is an intent or a result without members.
type Nothing struct{}

// ParseURL parses a URL that has a host, and neither user nor fragment.
func ParseURL(text string) (*url.URL, bool) {
	if len(text) > maxURL || strings.ContainsAny(text, "#\\, ") {
		return nil, false
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.User != nil || !plainHost(u.Hostname()) || strings.HasSuffix(u.Host, ":") {
		return nil, false
	}
	if u.Port() == "" {
		return u, true
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	return u, err == nil && n > 0 && u.Port()[0] != '0'
}

// plainHost accepts IP addresses and names of letters, digits, hyphens and dots; other scripts come as xn--.
func plainHost(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Zone() == ""
	}
	labels := strings.Split(host, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' {
			return false
		}
		for i := range len(l) {
			if c := l[i] | 0x20; (l[i] < '0' || l[i] > '9') && (c < 'a' || c > 'z') && l[i] != '-' {
				return false
			}
		}
	}
	// Some software reads a name whose last label has only digits as an IP address.
	return strings.Trim(labels[len(labels)-1], "0123456789") != "" && len(host) <= 253
}

const maxURL = 2048
