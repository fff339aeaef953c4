package spelling_test

import (
	"testing"

	"cloister/shared/spelling"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"abc", "ab", 1}, {"abc", "xabc", 1}, {"kitten", "sitting", 3},
		{"STROE", "STORE", 2}, {"flaw", "lawn", 2}, {"aaa", "bbb", 3},
	} {
		if got, back := spelling.Distance(c.a, c.b), spelling.Distance(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("%q and %q: %d and %d, want %d", c.a, c.b, got, back, c.want)
		}
	}
}
