package internet_test

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"cloister/shared/internet"
)

func TestPublic(t *testing.T) {
	b, err := os.ReadFile("testdata/addresses.txt")
	if err != nil {
		t.Fatal(err)
	}
	want, seen := false, map[bool]int{}
	for line := range strings.Lines(string(b)) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "#"):
		case line == "public":
			want = true
		default:
			if seen[want]++; internet.Public(netip.MustParseAddr(line)) != want {
				t.Errorf("%s: public is %t", line, !want)
			}
		}
	}
	if seen[false] < 60 || seen[true] < 25 {
		t.Errorf("%d addresses of nobody's, %d of anybody's", seen[false], seen[true])
	}
	if internet.Public(netip.Addr{}) {
		t.Error("no address is public")
	}
}
